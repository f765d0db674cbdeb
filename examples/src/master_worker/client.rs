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
    /// Those of this system.
    pub fn new(client: Client, acl: Acls, layout: Layout) -> Self {
        Self { client, acl, layout }
    }

    /// Submits a task, and returns its name. It is executed whatever becomes of this client.
    ///
    /// A sequential create whose answer is lost leaves no way to tell whether it happened: the name is not
    /// known, and the master may have moved the task on. So this takes two steps. First the task gets a name,
    /// by a znode that stays until this client is done or gone. Then, in one transaction, that znode goes and
    /// the task comes: when the answer is lost, what is left of the first znode tells.
    ///
    /// # Errors
    /// Those of the requests. When the session ends in between nobody can tell any more: the error names the
    /// task.
    pub async fn submit(&self, command: &str) -> Result<String> {
        self.layout.prepare(&self.client, &self.acl).await?;
        let path = format!("{}/task-", self.layout.submitted());
        let mode = CreateMode::EphemeralSequential;
        let named = self.client.create_protected(&path, "", mode, &self.acl).await?.path;
        let number = named.rsplit_once("task-").map(|(_, number)| number);
        let name = format!("task-{}", number.context("the server has changed the name")?);
        let submit = || {
            let mut transaction = self.client.transaction();
            transaction.delete(&named, Version::ANY);
            let path = self.layout.task(&name);
            transaction.create(&path, command, CreateMode::Persistent, &self.acl);
            transaction.commit()
        };
        let mut is_in_doubt = false;
        loop {
            let error = match Retry::default().writes(submit).await {
                Ok(_) => return Ok(name),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Unknown => is_in_doubt = true,
                // The znode is gone already: it was the transaction before this one.
                ErrorKind::Gone if is_in_doubt => return Ok(name),
                _ => return Err(error).with_context(|| format!("submitting {name}")),
            }
            self.client.connected().await.with_context(|| format!("{name} may be submitted"))?;
        }
    }

    /// Waits for the result of a task, and removes it: everybody who wants it must come before.
    ///
    /// # Errors
    /// Those of the requests; there is no such task.
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
        // While this looks for it, it moves: from waiting to assigned, from one worker to another, to its
        // result. A task that was seen nowhere is looked for once more.
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
