//! A worker: registers, executes its assigned tasks, and records the results.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry, Version};
use zebu_recipes::Children;

use super::{Layout, work};

/// One worker, on one session.
#[derive(Debug)]
pub struct Worker {
    client: Client,
    acl: Acls,
    layout: Layout,
    name: String,
    /// Maximum number of tasks that it executes at a time.
    tasks_max: usize,
}

/// The outcome of recording a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    /// The result is recorded.
    Yes,
    /// The task no longer belongs to this worker: another worker will record its own result.
    Withdrawn,
}

/// An executed task: its name and its result.
type Executed = (String, zebu_client::Result<String>);

impl Worker {
    /// A worker with this name.
    pub fn new(client: Client, acl: Acls, layout: Layout, name: String, tasks_max: usize) -> Self {
        Self { client, acl, layout, name, tasks_max }
    }

    /// Works until the session is over. Then it abandons its tasks, because the master assigns them
    /// to other workers.
    ///
    /// # Errors
    /// The session is over, or requests failed again and again.
    pub async fn run(&self) -> Result<()> {
        self.layout.prepare(&self.client, &self.acl).await?;
        self.register().await?;
        println!("{} is ready", self.name);
        let (status, latest) = watch::channel("Idle");
        // When one of these ends, the others end, too, and tasks in progress are dropped.
        tokio::select! {
            result = self.work(&status) => result,
            result = self.show_status(latest) => result,
        }
    }

    /// First the worker creates a place for its tasks, then its own znode: as soon as a master sees
    /// that znode, it can assign tasks.
    async fn register(&self) -> Result<()> {
        let (mine, me) = (self.layout.assigned_to(&self.name), self.layout.worker(&self.name));
        loop {
            self.make_place(&mine).await?;
            // The same transaction checks that the place still exists, because a master removes
            // places without a worker.
            let create = || {
                let mut transaction = self.client.transaction();
                transaction.check(&mine, Version::ANY);
                transaction.create(&me, "Idle", CreateMode::Ephemeral, &self.acl);
                transaction.commit()
            };
            let error = match Retry::default().writes(create).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if error.failed_operation() == Some(0) {
                continue;
            }
            if error.kind() != ErrorKind::Unknown && error.code() != ErrorCode::NODE_EXISTS {
                return Err(error.into());
            }
            // The znode exists. Either this worker has created it, by a request whose answer was
            // lost, or it belongs to an earlier session and will vanish with it.
            let look = || async {
                self.client.sync(&me).await?;
                self.client.watch_exists(&me).await
            };
            let (stat, change) = Retry::default().reads(look).await?;
            match stat {
                Some(stat) if stat.ephemeral_owner == self.client.session_id().0 => return Ok(()),
                Some(_) => {
                    println!("waiting: there is a {} already", self.name);
                    change.await?;
                }
                None => {}
            }
        }
    }

    async fn make_place(&self, mine: &str) -> Result<()> {
        let create = || self.client.create(mine, "", CreateMode::Persistent, &self.acl);
        match Retry::default().reads(create).await {
            Err(error) if error.code() != ErrorCode::NODE_EXISTS => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn work(&self, status: &watch::Sender<&'static str>) -> Result<()> {
        let mine = self.layout.assigned_to(&self.name);
        let mut children = Children::of(&self.client, &mine);
        let mut assigned: BTreeSet<String> = BTreeSet::new();
        // One task owns this state, so it needs no lock, and no task is executed twice at the same
        // time.
        let mut ongoing: BTreeMap<String, AbortHandle> = BTreeMap::new();
        let mut executing: JoinSet<Executed> = JoinSet::new();
        loop {
            for task in &assigned {
                if ongoing.len() >= self.tasks_max {
                    break;
                }
                if !ongoing.contains_key(task) {
                    let execution = self.execute(task.clone());
                    ongoing.insert(task.clone(), executing.spawn(execution));
                }
            }
            status.send_replace(if ongoing.is_empty() { "Idle" } else { "Working" });
            tokio::select! {
                names = children.next() => match names? {
                    Some(names) => {
                        // A task that is no longer assigned to this worker belongs to another one:
                        // stop its execution.
                        for (task, execution) in &ongoing {
                            if !names.contains(task) {
                                execution.abort();
                            }
                        }
                        assigned = names;
                    }
                    // A master considered this worker dead.
                    None => self.make_place(&mine).await?,
                },
                Some(executed) = executing.join_next_with_id() => match executed {
                    Ok((_, (task, result))) => {
                        let recorded = self.record(&task, &result?).await?;
                        println!("{task} {}", match recorded {
                            Recorded::Yes => "is finished",
                            Recorded::Withdrawn => "was withdrawn, its result is dropped",
                        });
                        ongoing.remove(&task);
                        assigned.remove(&task);
                    }
                    Err(error) if error.is_cancelled() => {
                        ongoing.retain(|task, execution| {
                            let stays = execution.id() != error.id();
                            if !stays {
                                println!("{task} was withdrawn");
                            }
                            stays
                        });
                    }
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// Reads a task, and executes it.
    fn execute(&self, task: String) -> impl Future<Output = Executed> + Send + 'static {
        let (client, path) = (self.client.clone(), self.layout.assignment(&self.name, &task));
        async move {
            let read = Retry::default().reads(|| client.get_data(&path)).await;
            let result = match read {
                Ok((command, stat)) => {
                    // A number that grows with each assignment of the task; a resource outside the
                    // ensemble can use it as a fencing token.
                    println!("{task} starts, token {}", stat.czxid);
                    work::execute(&client, &String::from_utf8_lossy(&command)).await
                }
                // The task was withdrawn. There is no result, and the attempt to record one will
                // show that.
                Err(error) if error.kind() == ErrorKind::Gone => Ok(String::new()),
                Err(error) => Err(error),
            };
            (task, result)
        }
    }

    /// Records a result and removes the assignment, in one transaction. If another worker has got
    /// the task meanwhile, that worker records its result instead.
    async fn record(&self, task: &str, result: &str) -> Result<Recorded> {
        let mine = self.layout.assignment(&self.name, task);
        let commit = || {
            let mut transaction = self.client.transaction();
            transaction.delete(&mine, Version::ANY);
            let path = self.layout.result(task);
            transaction.create(&path, result, CreateMode::Persistent, &self.acl);
            transaction.commit()
        };
        let mut is_in_doubt = false;
        // A repetition does no harm, because the first operation succeeds only once.
        loop {
            let error = match Retry::default().writes(commit).await {
                Ok(_) => return Ok(Recorded::Yes),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Unknown => is_in_doubt = true,
                ErrorKind::Gone if is_in_doubt => return Ok(Recorded::Yes),
                ErrorKind::Gone => return Ok(Recorded::Withdrawn),
                // There is a result already: another implementation of the master has assigned the
                // task again.
                ErrorKind::Conflict => {
                    let delete = || self.client.delete(&mine, Version::ANY);
                    return match Retry::default().reads(delete).await {
                        Err(error) if error.kind() != ErrorKind::Gone => Err(error.into()),
                        _ => Ok(Recorded::Withdrawn),
                    };
                }
                _ => return Err(error.into()),
            }
            self.client.connected().await?;
        }
    }

    /// Keeps the status in the worker's znode up to date. It writes only the latest status: a
    /// repetition after a lost connection must not overwrite a later one.
    async fn show_status(&self, mut latest: watch::Receiver<&'static str>) -> Result<()> {
        let me = self.layout.worker(&self.name);
        loop {
            let status = *latest.borrow_and_update();
            match self.client.set_data(&me, status, Version::ANY).await {
                Ok(_) => latest.changed().await?,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Unknown | ErrorKind::NotExecuted) =>
                {
                    self.client.connected().await?;
                }
                // Another client has deleted the worker's znode.
                Err(error) if error.kind() == ErrorKind::Gone => self.register().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
