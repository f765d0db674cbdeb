//! The master-worker system: clients submit tasks, a master assigns them to workers, and workers
//! execute them.
//!
//! ```text
//! /master            ephemeral, who is the master            made by whoever comes first
//! /epoch             data: the last master; its version grows with each one
//! /workers/W         ephemeral, what worker W is doing       made by W
//! /assign/W/T        task T is W's to execute                made by the master, deleted by W
//! /tasks/T           task T waits for a worker               made by a client, deleted by the master
//! /submitted/T       ephemeral, T is about to be submitted   made and deleted by a client
//! /status/T          the result of T                         made by W, deleted by a client
//! ```
//!
//! A task is in exactly one of `/tasks`, `/assign` and `/status`, because it moves from one to the
//! next in one transaction. So no crash loses a task, and no task has two results. A task may be
//! *executed* twice: a worker that seems dead may have executed it without recording the result.

pub mod admin;
pub mod blocking;
pub mod client;
pub mod master;
pub mod plan;
pub mod work;
pub mod worker;

use zebu_client::{Acls, Client, CreateMode, ErrorCode, Retry};

/// The paths of the system.
#[derive(Clone, Debug)]
pub struct Layout {
    root: String,
}

impl Layout {
    /// The system below this znode.
    pub fn new(root: &str) -> Self {
        Self { root: root.trim_end_matches('/').to_owned() }
    }

    /// The master's znode.
    pub fn master(&self) -> String {
        format!("{}/master", self.root)
    }

    /// The znode whose version distinguishes masters.
    pub fn epoch(&self) -> String {
        format!("{}/epoch", self.root)
    }

    /// The workers' parent.
    pub fn workers(&self) -> String {
        format!("{}/workers", self.root)
    }

    /// A worker.
    pub fn worker(&self, worker: &str) -> String {
        format!("{}/workers/{worker}", self.root)
    }

    /// The parent of the assignments of all workers.
    pub fn assignments(&self) -> String {
        format!("{}/assign", self.root)
    }

    /// The parent of a worker's assignments.
    pub fn assigned_to(&self, worker: &str) -> String {
        format!("{}/assign/{worker}", self.root)
    }

    /// A task that is assigned to a worker.
    pub fn assignment(&self, worker: &str, task: &str) -> String {
        format!("{}/assign/{worker}/{task}", self.root)
    }

    /// The parent of the waiting tasks.
    pub fn tasks(&self) -> String {
        format!("{}/tasks", self.root)
    }

    /// A waiting task.
    pub fn task(&self, task: &str) -> String {
        format!("{}/tasks/{task}", self.root)
    }

    /// The parent of the tasks that are being submitted.
    pub fn submitted(&self) -> String {
        format!("{}/submitted", self.root)
    }

    /// The parent of the results.
    pub fn results(&self) -> String {
        format!("{}/status", self.root)
    }

    /// The result of a task.
    pub fn result(&self, task: &str) -> String {
        format!("{}/status/{task}", self.root)
    }

    /// Creates the common parent znodes. Every program does this when it starts; it does not matter
    /// which one is first.
    ///
    /// # Errors
    /// Those of [`Client::create`].
    pub async fn prepare(&self, client: &Client, acl: &Acls) -> zebu_client::Result<()> {
        // A create that may be repeated, because only the existence of the znode matters.
        let assignments = self.assignments();
        Retry::default().reads(|| client.create_all(&assignments, acl)).await?;
        for path in [self.epoch(), self.workers(), self.tasks(), self.submitted(), self.results()] {
            let create = || async {
                match client.create(&path, "", CreateMode::Persistent, acl).await {
                    Err(error) if error.code() != ErrorCode::NODE_EXISTS => Err(error),
                    _ => Ok(()),
                }
            };
            Retry::default().reads(create).await?;
        }
        Ok(())
    }
}

/// A unique name: a few random hexadecimal digits.
pub fn random_name(kind: &str) -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    format!("{kind}-{:08x}", random as u32)
}
