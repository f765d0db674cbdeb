//! The master: one process leads, all others stand by to take over.
//!
//! A master reads everything that it knows from the ensemble, and reads it again when it takes over
//! or was disconnected. It needs nothing from the previous master. Each step is a transaction that
//! first checks that no later master exists, so a master that was paused and replaced does no harm
//! when it continues.

use std::collections::{BTreeSet, HashMap};

use anyhow::Result;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use zebu_client::{
    Acls, Client, CreateMode, ErrorCode, ErrorKind, EventKind, Retry, SessionState, Version,
};
use zebu_recipes::Children;

use super::Layout;
use super::plan::{Seen, Step, plan};

/// One candidate for mastership, on one session.
#[derive(Debug)]
pub struct Master {
    client: Client,
    acl: Acls,
    layout: Layout,
    name: String,
    /// Maximum number of tasks of a worker at a time.
    tasks_max: usize,
}

/// The role of this candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// This candidate is the master; the version of the epoch znode is its own.
    Elected(Version),
    /// Another candidate is the master.
    NotElected,
}

/// The reason why a leadership has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The connection was lost: another master may lead by now.
    Suspended,
    /// Another master leads, or there is none.
    Deposed,
}

/// The changed lists that a master learns of.
#[derive(Debug)]
enum Update {
    Workers(BTreeSet<String>),
    Tasks(BTreeSet<String>),
    /// The workers that have or had assignments.
    Assignees(BTreeSet<String>),
    Assigned(String, BTreeSet<String>),
}

impl Master {
    /// A candidate with this name.
    pub fn new(client: Client, acl: Acls, layout: Layout, name: String, tasks_max: usize) -> Self {
        Self { client, acl, layout, name, tasks_max }
    }

    /// Leads whenever it can, and otherwise stands by, until the session is over.
    ///
    /// # Errors
    /// The session is over, or requests failed repeatedly.
    pub async fn run(&self) -> Result<()> {
        self.layout.prepare(&self.client, &self.acl).await?;
        loop {
            match self.run_for_master().await? {
                Standing::Elected(epoch) => {
                    println!("leading in epoch {}", epoch.0);
                    match self.lead(epoch).await? {
                        End::Suspended => {
                            println!("suspended");
                            // The candidate does nothing until it knows the present master.
                            self.client.connected().await?;
                        }
                        End::Deposed => println!("leading no longer"),
                    }
                }
                Standing::NotElected => self.stand_by().await?,
            }
        }
    }

    /// Tries to become the master: the creator of the znode is the master, and begins a new epoch.
    async fn run_for_master(&self) -> Result<Standing> {
        loop {
            let mut transaction = self.client.transaction();
            let (master, epoch) = (self.layout.master(), self.layout.epoch());
            transaction.create(&master, &self.name, CreateMode::Ephemeral, &self.acl);
            let mine = transaction.set_data(&epoch, &self.name, Version::ANY);
            let error = match transaction.commit().await {
                Ok(results) => return Ok(Standing::Elected(Version(results.get(mine).version))),
                Err(error) => error,
            };
            let is_in_doubt = matches!(error.kind(), ErrorKind::Unknown | ErrorKind::NotExecuted);
            if !is_in_doubt && error.code() != ErrorCode::NODE_EXISTS {
                return Err(error.into());
            }
            // The znode exists. This candidate may have created it, by a transaction whose answer
            // was lost, or before the connection was lost. Only the owner of the znode shows that.
            let check = || async {
                self.client.sync(&master).await?;
                let (master, epoch) = (self.client.exists(&master), self.client.get_data(&epoch));
                Ok((master.await?, epoch.await?.1))
            };
            match Retry::default().reads(check).await? {
                (None, _) => {} // gone in between: once more
                (Some(stat), epoch) if stat.ephemeral_owner == self.client.session_id().0 => {
                    return Ok(Standing::Elected(Version(epoch.version)));
                }
                (Some(_), _) => return Ok(Standing::NotElected),
            }
        }
    }

    /// Waits until there is no master.
    async fn stand_by(&self) -> Result<()> {
        let master = self.layout.master();
        let read = || self.client.watch_data(&master);
        let (leader, change) = match Retry::default().reads(read).await {
            Ok((leader, _, change)) => (leader, change),
            Err(error) if error.kind() == ErrorKind::Gone => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        println!("standing by for {}", String::from_utf8_lossy(&leader));
        let event = change.await?;
        // The znode exists in any other case; the next attempt determines its owner.
        debug_assert!(event.path == master && event.kind != EventKind::ChildrenChanged);
        Ok(())
    }

    /// Assigns tasks until it is no longer certain that this candidate is the master.
    async fn lead(&self, epoch: Version) -> Result<End> {
        let mut session = self.client.session_events();
        if self.client.state() != SessionState::Connected {
            return Ok(End::Suspended);
        }
        let end = tokio::select! {
            biased;
            () = async { while session.next().await == Some(SessionState::Connected) {} } => {
                return Ok(End::Suspended);
            }
            end = self.deposed() => end,
            end = self.hand_out(epoch) => end,
        };
        match end {
            // The request failed because the connection was lost.
            Err(error) if is_passing(&error) => Ok(End::Suspended),
            end => end,
        }
    }

    /// Waits until the master's znode is deleted.
    async fn deposed(&self) -> Result<End> {
        loop {
            let master = self.layout.master();
            let read = || self.client.watch_exists(&master);
            let (stat, change) = Retry::default().reads(read).await?;
            if stat.is_none_or(|stat| stat.ephemeral_owner != self.client.session_id().0) {
                return Ok(End::Deposed);
            }
            change.await?;
        }
    }

    async fn hand_out(&self, epoch: Version) -> Result<End> {
        let mut seen = self.recover().await?;
        let (updates, mut heard) = mpsc::unbounded_channel();
        let mut followers = Followers::start(self, updates);
        loop {
            let steps = plan(&seen, self.tasks_max);
            let mut is_failed = false;
            for (step, done) in steps.iter().zip(self.carry_out(&steps, epoch).await) {
                match done {
                    Ok(()) => {
                        println!("{}", step.text());
                        seen.apply(step);
                    }
                    Err(error) if error.failed_operation() == Some(0) => return Ok(End::Deposed),
                    Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Conflict) => {
                        // The step came too late: something has changed meanwhile, and an event
                        // will report it.
                        is_failed = true;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let again = async {
                match is_failed {
                    true => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(update) = heard.recv() => {
                    followers.update(&mut seen, update);
                    while let Ok(update) = heard.try_recv() {
                        followers.update(&mut seen, update);
                    }
                }
                failed = followers.failed() => return Err(failed),
                () = again => {}
            }
        }
    }

    /// Reads everything, including the tasks of earlier masters.
    async fn recover(&self) -> Result<Seen> {
        let list = |path: String| async move {
            let read = || self.client.get_children(&path);
            match Retry::default().reads(read).await {
                Ok((names, _)) => Ok(BTreeSet::from_iter(names)),
                Err(error) if error.kind() == ErrorKind::Gone => Ok(BTreeSet::new()),
                Err(error) => Err(error),
            }
        };
        let (workers, tasks, finished, assignees) = tokio::try_join!(
            list(self.layout.workers()),
            list(self.layout.tasks()),
            list(self.layout.results()),
            list(self.layout.assignments()),
        )?;
        let mut seen = Seen { workers, tasks, finished, ..Seen::default() };
        for worker in assignees {
            let assigned = list(self.layout.assigned_to(&worker)).await?;
            seen.assigned.insert(worker, assigned);
        }
        let assigned: usize = seen.assigned.values().map(BTreeSet::len).sum();
        println!(
            "recovered: {} workers, {} tasks waiting, {assigned} assigned, {} finished",
            seen.workers.len(),
            seen.tasks.len(),
            seen.finished.len()
        );
        Ok(seen)
    }

    /// Carries out each step, if this candidate is still the master. The client sends the steps
    /// together, the servers execute them in this order, and each step succeeds or fails by itself.
    async fn carry_out(&self, steps: &[Step], epoch: Version) -> Vec<zebu_client::Result<()>> {
        let (client, layout) = (&self.client, &self.layout);
        // A task that moves keeps its data.
        let reads: Vec<_> = steps
            .iter()
            .map(|step| {
                let source = match step {
                    Step::Assign { task, .. } => layout.task(task),
                    Step::Move { task, from, .. } => layout.assignment(from, task),
                    _ => return None,
                };
                Some((client.get_data(&source), source))
            })
            .collect();
        let mut pending = Vec::with_capacity(steps.len());
        for (step, read) in steps.iter().zip(reads) {
            let mut transaction = client.transaction();
            transaction.check(&layout.epoch(), epoch);
            match (step, read) {
                (Step::Move { task, to, .. } | Step::Assign { task, to }, Some((data, source))) => {
                    let data = match data.await {
                        Ok((data, _)) => data,
                        Err(error) => {
                            pending.push(Err(error));
                            continue;
                        }
                    };
                    let path = layout.assignment(to, task);
                    transaction.create(&path, data, CreateMode::Persistent, &self.acl);
                    transaction.delete(&source, Version::ANY);
                }
                (Step::Withdraw { task, from, kept }, _) => {
                    // The lists may be older than the last steps: the other worker must have the
                    // task, or the task would be lost.
                    if let Some(other) = kept {
                        transaction.check(&layout.assignment(other, task), Version::ANY);
                    }
                    transaction.delete(&layout.assignment(from, task), Version::ANY);
                }
                (Step::Discharge { worker }, _) => {
                    // Fails if the worker has registered meanwhile; then its place stays.
                    let absent = layout.worker(worker);
                    transaction.create(&absent, "", CreateMode::Ephemeral, &self.acl);
                    transaction.delete(&absent, Version::ANY);
                    transaction.delete(&layout.assigned_to(worker), Version::ANY);
                }
                (Step::Forget { task }, _) => {
                    transaction.delete(&layout.task(task), Version::ANY);
                }
                (Step::Move { .. } | Step::Assign { .. }, None) => {
                    unreachable!("these have a source")
                }
            }
            pending.push(Ok(transaction.commit()));
        }
        let mut done = Vec::with_capacity(pending.len());
        for sent in pending {
            done.push(match sent {
                Ok(sent) => sent.await.map(drop),
                Err(error) => Err(error),
            });
        }
        done
    }
}

fn is_passing(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<zebu_client::Error>();
    error.is_some_and(|error| matches!(error.kind(), ErrorKind::Unknown | ErrorKind::NotExecuted))
}

/// Async tasks that each follow one list, and send it after each change.
struct Followers<'a> {
    master: &'a Master,
    updates: mpsc::UnboundedSender<Update>,
    running: JoinSet<zebu_recipes::Error>,
    /// The async tasks that follow a worker's assignments.
    assigned: HashMap<String, JoinHandle<()>>,
}

impl<'a> Followers<'a> {
    fn start(master: &'a Master, updates: mpsc::UnboundedSender<Update>) -> Self {
        let layout = &master.layout;
        let mut this = Self { master, updates, running: JoinSet::new(), assigned: HashMap::new() };
        this.follow(layout.workers(), Update::Workers);
        this.follow(layout.tasks(), Update::Tasks);
        this.follow(layout.assignments(), Update::Assignees);
        this
    }

    fn follow(&mut self, path: String, update: fn(BTreeSet<String>) -> Update) {
        let mut children = Children::of(&self.master.client, &path);
        let updates = self.updates.clone();
        self.running.spawn(async move {
            loop {
                match children.read_again().await {
                    Ok(names) => drop(updates.send(update(names.unwrap_or_default()))),
                    Err(error) => return error,
                }
            }
        });
    }

    fn follow_worker(&mut self, worker: &str) {
        let path = self.master.layout.assigned_to(worker);
        let mut children = Children::of(&self.master.client, &path);
        let (updates, name) = (self.updates.clone(), worker.to_owned());
        let following = tokio::spawn(async move {
            // Until the place is gone from the list of places, or the session has ended; other code
            // reports the end of the session.
            while let Ok(names) = children.read_again().await {
                let _ = updates.send(Update::Assigned(name.clone(), names.unwrap_or_default()));
            }
        });
        self.assigned.insert(worker.to_owned(), following);
    }

    fn update(&mut self, seen: &mut Seen, update: Update) {
        match update {
            Update::Workers(workers) => seen.workers = workers,
            Update::Tasks(tasks) => {
                // Tasks that already had a result when this master took over need no further step.
                seen.finished.retain(|task| tasks.contains(task));
                seen.tasks = tasks;
            }
            Update::Assignees(workers) => {
                seen.assigned.retain(|worker, _| workers.contains(worker));
                self.assigned.retain(|worker, following| {
                    let stays = workers.contains(worker) && !following.is_finished();
                    if !stays {
                        following.abort();
                    }
                    stays
                });
                for worker in workers {
                    seen.assigned.entry(worker.clone()).or_default();
                    if !self.assigned.contains_key(&worker) {
                        self.follow_worker(&worker);
                    }
                }
            }
            Update::Assigned(worker, tasks) => {
                // Unless the worker was discharged meanwhile.
                if let Some(assigned) = seen.assigned.get_mut(&worker) {
                    *assigned = tasks;
                }
            }
        }
    }

    /// Waits until one of the lists can no longer be followed.
    async fn failed(&mut self) -> anyhow::Error {
        match self.running.join_next().await {
            Some(Ok(error)) => error.into(),
            Some(Err(error)) => error.into(),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Followers<'_> {
    fn drop(&mut self) {
        for following in self.assigned.values() {
            following.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod embedded {
        include!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../crates/client/tests/support/embedded.in"
        ));
    }

    async fn update(heard: &mut mpsc::UnboundedReceiver<Update>, seen: &mut Seen, what: &str) {
        let next = tokio::time::timeout(std::time::Duration::from_secs(60), heard.recv()).await;
        match next.expect(what).expect("the followers run") {
            Update::Assigned(worker, tasks) => drop(seen.assigned.insert(worker, tasks)),
            update => panic!("not expected: {update:?}"),
        }
    }

    /// MWK-32: a worker executes a task before the master reads the list again: the master must
    /// learn that the task is no longer assigned, although the list is the same as before.
    #[tokio::test]
    async fn a_task_that_is_executed_at_once_makes_room_for_another() {
        let server = embedded::Server::start(&[]);
        let client = Client::connect(&server.address().to_string()).await.unwrap();
        let (acl, layout) = (Acls::open_to_all(), Layout::new("/system"));
        layout.prepare(&client, &acl).await.unwrap();
        let place = layout.assigned_to("w1");
        client.create(&place, "", CreateMode::Persistent, &acl).await.unwrap();
        let master = Master::new(client.clone(), acl.clone(), layout.clone(), "m1".into(), 2);
        let (updates, mut heard) = mpsc::unbounded_channel();
        let running = JoinSet::new();
        let mut followers = Followers { master: &master, updates, running, assigned: [].into() };
        followers.follow_worker("w1");
        let mut seen = Seen::default();
        update(&mut heard, &mut seen, "the first list").await;
        let mut transaction = client.transaction();
        let assigned = layout.assignment("w1", "t1");
        transaction.create(&assigned, "", CreateMode::Persistent, &acl);
        transaction.delete(&assigned, Version::ANY);
        transaction.commit().await.unwrap();
        seen.apply(&Step::Assign { task: "t1".into(), to: "w1".into() });
        update(&mut heard, &mut seen, "the list after the task").await;
        assert_eq!(seen.assigned["w1"], BTreeSet::new());
    }

    /// MWK-32: a master whose lists are old withdraws no task that only one worker has.
    #[tokio::test]
    async fn the_only_copy_of_a_task_stays() {
        let server = embedded::Server::start(&[]);
        let client = Client::connect(&server.address().to_string()).await.unwrap();
        let (acl, layout) = (Acls::open_to_all(), Layout::new("/system"));
        layout.prepare(&client, &acl).await.unwrap();
        let master = Master::new(client.clone(), acl.clone(), layout.clone(), "m1".into(), 2);
        let Standing::Elected(epoch) = master.run_for_master().await.unwrap() else {
            panic!("there is no other master");
        };
        for place in ["w1", "w2", "w2/t1"] {
            let path = format!("{}/{place}", layout.assignments());
            client.create(&path, "", CreateMode::Persistent, &acl).await.unwrap();
        }
        let (task, from, kept) = ("t1".into(), "w2".into(), Some("w1".into()));
        let step = Step::Withdraw { task, from, kept };
        let error = master.carry_out(&[step], epoch).await.remove(0).unwrap_err();
        assert_eq!((error.kind(), error.failed_operation()), (ErrorKind::Gone, Some(1)));
        assert!(client.exists(&layout.assignment("w2", "t1")).await.unwrap().is_some());
    }
}
