//! A client: submits tasks, each exactly once, and awaits their results.

use anyhow::{Context, Result, bail};
use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, Version};

use super::{Layout, work};

/// Submits tasks through one session.
#[derive(Debug)]
pub struct Tasks {
    client: Client,
    acl: Acls,
    layout: Layout,
}

impl Tasks {
    /// The paths of this system.
    pub fn new(client: Client, acl: Acls, layout: Layout) -> Self {
        Self { client, acl, layout }
    }

    /// Submits a task, and returns its name. The task is executed even if this client ends.
    ///
    /// If the answer to a sequential create is lost, the client cannot find out whether it was
    /// executed: the client does not know the name, and the master may have moved the task. So this
    /// takes two steps. First, a znode that stays until this client has finished or ended gives the
    /// task its name. Then one transaction deletes that znode and creates the task. If the answer
    /// is lost, the existence of the first znode shows the outcome.
    ///
    /// The transaction also checks that the epoch is the one that this client has seen. So the task
    /// goes to the master of that epoch. If another master has taken over meanwhile, the client
    /// first reads the new epoch, and submits the task to that master.
    ///
    /// # Errors
    /// The errors of the requests. If the session ends in between, the outcome is unknown; the
    /// error names the task.
    pub async fn submit(&self, command: &str) -> Result<String> {
        self.layout.prepare(&self.client, &self.acl).await?;
        let path = format!("{}/task-", self.layout.submitted());
        let mode = CreateMode::EphemeralSequential;
        let named = self.client.create_protected(&path, "", mode, &self.acl).await?.path;
        let number = named.rsplit_once("task-").map(|(_, number)| number);
        let name = format!("task-{}", number.context("the server has changed the name")?);
        let mut epoch = self.epoch().await?;
        let mut is_in_doubt = false;
        loop {
            let submit = || self.submit_in(epoch, &named, &name, command);
            let error = match Retry::default().writes(submit).await {
                Ok(()) => return Ok(name),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Unknown => is_in_doubt = true,
                ErrorKind::Conflict if error.failed_operation() == Some(0) => {
                    epoch = self.epoch().await?;
                    continue;
                }
                // The znode is already gone: the previous transaction was executed.
                ErrorKind::Gone if is_in_doubt => return Ok(name),
                _ => return Err(error).with_context(|| format!("submitting {name}")),
            }
            self.client.connected().await.with_context(|| format!("{name} may be submitted"))?;
        }
    }

    /// The epoch of the present or the last master.
    async fn epoch(&self) -> Result<Version> {
        let epoch = self.layout.epoch();
        let stat = Retry::default().reads(|| self.client.exists(&epoch)).await?;
        Ok(Version(stat.with_context(|| format!("{epoch} is gone"))?.version))
    }

    /// Submits a named task to the master of an epoch, unless there is a later epoch.
    async fn submit_in(
        &self,
        epoch: Version,
        named: &str,
        name: &str,
        command: &str,
    ) -> zebu_client::Result<()> {
        let mut transaction = self.client.transaction();
        transaction.check(&self.layout.epoch(), epoch);
        transaction.delete(named, Version::ANY);
        transaction.create(&self.layout.task(name), command, CreateMode::Persistent, &self.acl);
        transaction.commit().await.map(drop)
    }

    /// Waits for the result of a task, and deletes it. Other clients that need the result must read
    /// it before.
    ///
    /// # Errors
    /// The errors of the requests; there is no such task.
    pub async fn result(&self, task: &str) -> Result<String> {
        let path = self.layout.result(task);
        if !self.is_known(task).await? {
            bail!("there is no {task}: its result was taken, or it was never submitted");
        }
        work::appears(&self.client, &path).await?;
        let (result, _) = Retry::default().reads(|| self.client.get_data(&path)).await?;
        match Retry::default().reads(|| self.client.delete(&path, Version::ANY)).await {
            Err(error) if error.kind() != ErrorKind::Gone => return Err(error.into()),
            _ => {}
        }
        Ok(String::from_utf8_lossy(&result).into_owned())
    }

    /// Whether a task waits, is assigned, or has a result.
    async fn is_known(&self, task: &str) -> Result<bool> {
        let (client, layout) = (&self.client, &self.layout);
        // The task may move during this search: from waiting to assigned, from one worker to
        // another, or to its result. If the search finds the task nowhere, it runs once more.
        for _ in 0..2 {
            let look = || async {
                client.sync(&layout.results()).await?;
                if client.exists(&layout.task(task)).await?.is_some() {
                    return Ok(true);
                }
                let (workers, _) = client.get_children(&layout.assignments()).await?;
                let paths = workers.iter().map(|worker| layout.assignment(worker, task));
                let looks: Vec<_> = paths.map(|path| client.exists(&path)).collect();
                let last = client.exists(&layout.result(task));
                for look in looks {
                    if look.await?.is_some() {
                        return Ok(true);
                    }
                }
                Ok(last.await?.is_some())
            };
            if Retry::default().reads(look).await? {
                return Ok(true);
            }
        }
        Ok(false)
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

    /// MWK-40: a task does not go to a master whose successor the client has not seen.
    #[tokio::test]
    async fn a_task_goes_to_the_master_that_the_client_has_seen() {
        let server = embedded::Server::start(&[]);
        let client = Client::connect(&server.address().to_string()).await.unwrap();
        let (acl, layout) = (Acls::open_to_all(), Layout::new("/system"));
        layout.prepare(&client, &acl).await.unwrap();
        let tasks = Tasks::new(client.clone(), acl.clone(), layout.clone());
        let seen = tasks.epoch().await.unwrap();
        client.create("/named", "", CreateMode::Ephemeral, &acl).await.unwrap();
        // Another master takes over.
        client.set_data(&layout.epoch(), "m2", Version::ANY).await.unwrap();
        let error = tasks.submit_in(seen, "/named", "task-7", "echo").await.unwrap_err();
        assert_eq!((error.kind(), error.failed_operation()), (ErrorKind::Conflict, Some(0)));
        assert!(client.exists(&layout.task("task-7")).await.unwrap().is_none());
        let now = tasks.epoch().await.unwrap();
        tasks.submit_in(now, "/named", "task-7", "echo").await.unwrap();
        let name = tasks.submit("echo").await.unwrap();
        assert!(client.exists(&layout.task(&name)).await.unwrap().is_some());
    }
}
