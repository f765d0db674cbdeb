//! Decides what a master does in a given state. It is a pure function, so tests need no server.

use std::collections::{BTreeMap, BTreeSet};

/// The state that a master has read. It reads the lists one after the other, so a task may appear
/// twice or not at all. Each step is a transaction that fails if the step no longer applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The live workers. A worker without an entry in `assigned` is not ready for tasks.
    pub workers: BTreeSet<String>,
    /// The waiting tasks by name, which is also the order of their submission.
    pub tasks: BTreeSet<String>,
    /// The assigned tasks by worker, including workers that are gone.
    pub assigned: BTreeMap<String, BTreeSet<String>>,
    /// The tasks that have a result.
    pub finished: BTreeSet<String>,
}

impl Seen {
    /// The state after a step. The servers report it, too, but later.
    pub fn apply(&mut self, step: &Step) {
        let mut unassign = |task: &String, from: &String| {
            if let Some(tasks) = self.assigned.get_mut(from) {
                tasks.remove(task);
            }
        };
        match step {
            Step::Forget { task } => drop(self.tasks.remove(task)),
            Step::Withdraw { task, from, .. } => unassign(task, from),
            Step::Move { task, from, to } => {
                unassign(task, from);
                self.assigned.entry(to.clone()).or_default().insert(task.clone());
            }
            // The list of places decides: the worker may have created its place again at once.
            Step::Discharge { .. } => {}
            Step::Assign { task, to } => {
                self.tasks.remove(task);
                self.assigned.entry(to.clone()).or_default().insert(task.clone());
            }
        }
    }
}

/// One step, as one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Removes a waiting task that is already assigned or finished: another implementation of the
    /// master was interrupted between two writes.
    Forget {
        /// The task.
        task: String,
    },
    /// Removes the assignment of a finished task, for the same reason.
    Withdraw {
        /// The task.
        task: String,
        /// The worker that has the task.
        from: String,
        /// The other worker that has the task and keeps it; `None` if the task has a result.
        kept: Option<String>,
    },
    /// Moves a task from a worker that is gone to another worker.
    Move {
        /// The task.
        task: String,
        /// The worker that is gone.
        from: String,
        /// The live worker.
        to: String,
    },
    /// Removes the place of a worker that is gone and has no tasks.
    Discharge {
        /// The worker.
        worker: String,
    },
    /// Assigns a waiting task to a worker.
    Assign {
        /// The task.
        task: String,
        /// The worker.
        to: String,
    },
}

impl Step {
    /// The text of the log for this step.
    pub fn text(&self) -> String {
        match self {
            Self::Forget { task } => format!("{task} is known already"),
            Self::Withdraw { task, from, .. } => format!("{task} is withdrawn from {from}"),
            Self::Move { task, from, to } => format!("{task} moves from {from} to {to}"),
            Self::Discharge { worker } => format!("{worker} is discharged"),
            Self::Assign { task, to } => format!("{task} goes to {to}"),
        }
    }
}

/// The steps, in this order: first clean up, then the tasks of workers that are gone, then new
/// tasks. Without a worker, tasks stay where they are.
///
/// Each task goes to the worker with the fewest tasks. A worker gets at most `tasks_max`. Further
/// tasks wait, so that any worker can get them.
pub fn plan(seen: &Seen, tasks_max: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let is_alive = |worker: &&String| seen.workers.contains(*worker);
    let mut load: BTreeMap<&str, usize> =
        seen.assigned.keys().filter(is_alive).map(|worker| (worker.as_str(), 0)).collect();
    let mut left_behind = Vec::new();
    let mut discharged = Vec::new();
    let mut taken: BTreeMap<&String, &String> = BTreeMap::new();
    let (alive, gone): (Vec<_>, Vec<_>) =
        seen.assigned.iter().partition(|(worker, _)| is_alive(worker));
    for (worker, tasks) in alive.into_iter().chain(gone) {
        for task in tasks {
            let kept = taken.get(task).map(|worker| (*worker).clone());
            if kept.is_some() || seen.finished.contains(task) {
                steps.push(Step::Withdraw { task: task.clone(), from: worker.clone(), kept });
                continue;
            }
            taken.insert(task, worker);
            if let Some(load) = load.get_mut(worker.as_str()) {
                *load += 1;
            } else {
                left_behind.push((task, worker));
            }
        }
        if !is_alive(&worker) {
            discharged.push(worker);
        }
    }
    let is_known = |task: &&String| seen.finished.contains(*task) || taken.contains_key(task);
    let (known, waiting): (Vec<&String>, Vec<&String>) = seen.tasks.iter().partition(is_known);
    steps.extend(known.into_iter().map(|task| Step::Forget { task: task.clone() }));
    // The worker with the fewest tasks; among equals the first by name, so that the same state
    // gives the same plan.
    let mut next = || {
        let (worker, tasks) = load.iter_mut().min_by_key(|(_, tasks)| **tasks)?;
        (*tasks < tasks_max).then(|| {
            *tasks += 1;
            (*worker).to_owned()
        })
    };
    left_behind.sort();
    let mut stays = BTreeSet::new();
    for (task, from) in left_behind {
        match next() {
            Some(to) => {
                steps.push(Step::Move { task: task.clone(), from: from.clone(), to });
            }
            None => drop(stays.insert(from)),
        }
    }
    discharged.retain(|worker| !stays.contains(worker));
    steps.extend(discharged.into_iter().map(|worker| Step::Discharge { worker: worker.clone() }));
    for task in waiting {
        let Some(to) = next() else { break };
        steps.push(Step::Assign { task: task.clone(), to });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state is a line of words: `workers`, `tasks`, `finished` and `W=` (assigned to W), each
    /// followed by names. A worker with `!` is not ready. The plan has a line for each step.
    fn check(sight: &str, expected: &[&str]) {
        let mut seen = Seen::default();
        let mut list = "";
        for word in sight.split_whitespace() {
            match word {
                "workers" | "tasks" | "finished" => list = word,
                _ if word.ends_with('=') => {
                    list = word.trim_end_matches('=');
                    seen.assigned.entry(list.to_owned()).or_default();
                }
                _ => {
                    let names = match list {
                        "workers" => &mut seen.workers,
                        "tasks" => &mut seen.tasks,
                        "finished" => &mut seen.finished,
                        worker => seen.assigned.entry(worker.to_owned()).or_default(),
                    };
                    names.insert(word.trim_end_matches('!').to_owned());
                    if list == "workers" && !word.ends_with('!') {
                        seen.assigned.entry(word.to_owned()).or_default();
                    }
                }
            }
        }
        let steps: Vec<String> = plan(&seen, 3).iter().map(text).collect();
        assert_eq!(steps, expected, "{sight}");
    }

    fn text(step: &Step) -> String {
        match step {
            Step::Forget { task } => format!("forget {task}"),
            Step::Withdraw { task, from, kept: None } => format!("withdraw {task} from {from}"),
            Step::Withdraw { task, from, kept: Some(other) } => {
                format!("withdraw {task} from {from} if {other} has it")
            }
            Step::Move { task, from, to } => format!("move {task} from {from} to {to}"),
            Step::Discharge { worker } => format!("discharge {worker}"),
            Step::Assign { task, to } => format!("assign {task} to {to}"),
        }
    }

    #[test]
    fn new_tasks_go_to_the_worker_with_the_fewest() {
        check(
            "workers a b a= t1 b= tasks t2 t3 t4",
            &["assign t2 to b", "assign t3 to a", "assign t4 to b"],
        );
    }

    /// MWK-51: a task is not lost if there is no worker.
    #[test]
    fn without_workers_everything_waits() {
        check("tasks t1 t2", &[]);
        check("gone= t1 tasks t2", &[]);
    }

    #[test]
    fn a_worker_gets_no_more_than_it_may_have() {
        check("workers a a= t1 t2 tasks t3 t4 t5", &["assign t3 to a"]);
        check("workers a a= t1 t2 t3 gone= t4 tasks t5", &[]);
    }

    /// MWK-30, MWK-46, MWK-48: the tasks of workers that are gone come first.
    #[test]
    fn tasks_of_a_worker_that_is_gone_go_to_others_before_new_ones() {
        check(
            "workers b gone= t2 t1 b= tasks t0 t9",
            &[
                "move t1 from gone to b",
                "move t2 from gone to b",
                "discharge gone",
                "assign t0 to b",
            ],
        );
    }

    #[test]
    fn a_worker_that_is_gone_is_discharged_once_it_has_nothing() {
        check("workers b gone=", &["discharge gone"]);
        check("gone=", &["discharge gone"]);
        // The worker that is gone keeps its tasks, because no other worker can take them.
        check("workers b b= t1 t2 t3 gone= t4", &[]);
    }

    /// MWK-41: an earlier master may have been interrupted between two writes.
    #[test]
    fn half_done_steps_of_earlier_masters_are_finished() {
        check("workers a a= t1 tasks t1", &["forget t1"]);
        check("workers a tasks t1 finished t1", &["forget t1"]);
        check("workers a a= t1 finished t1", &["withdraw t1 from a"]);
        // Its worker is gone, but had finished the task.
        check("workers a gone= t1 finished t1", &["withdraw t1 from gone", "discharge gone"]);
    }

    #[test]
    fn a_task_that_is_assigned_twice_is_executed_once() {
        check("workers a b a= t1 b= t1", &["withdraw t1 from b if a has it"]);
        // A live worker comes first.
        check("workers b a= t1 b= t1", &["withdraw t1 from a if b has it", "discharge a"]);
    }

    /// ERA-18: a worker that registers before it has a place gets its tasks later.
    #[test]
    fn a_worker_that_is_not_ready_gets_nothing() {
        check("workers a! tasks t1", &[]);
        check("workers a! b tasks t1", &["assign t1 to b"]);
    }

    #[test]
    fn what_was_done_is_seen_at_once() {
        let mut seen = Seen::default();
        seen.workers.insert("a".into());
        seen.assigned.insert("a".into(), BTreeSet::new());
        seen.assigned.insert("gone".into(), ["t1".to_owned()].into());
        seen.tasks.insert("t2".into());
        for step in plan(&seen.clone(), 3) {
            seen.apply(&step);
        }
        // This holds until the list of places is read again.
        let gone = Step::Discharge { worker: "gone".into() };
        assert_eq!(plan(&seen, 3), [gone]);
        assert_eq!(seen.assigned["a"].len(), 2);
        assert_eq!(seen.assigned["gone"].len(), 0);
    }

    /// A worker's place was discharged while the worker was about to register, and made again: the
    /// list of places is the same before and after.
    #[test]
    fn a_worker_that_registers_while_it_is_discharged_gets_tasks() {
        let mut seen = Seen::default();
        seen.assigned.insert("a".into(), BTreeSet::new());
        seen.tasks.insert("t1".into());
        for step in plan(&seen.clone(), 3) {
            seen.apply(&step);
        }
        seen.workers.insert("a".into());
        let given = Step::Assign { task: "t1".into(), to: "a".into() };
        assert_eq!(plan(&seen, 3), [given]);
    }

    #[test]
    fn nothing_to_do_is_nothing_done() {
        check("workers a b a= t1 b= t2 finished t0", &[]);
    }
}
