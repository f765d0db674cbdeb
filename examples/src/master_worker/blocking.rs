//! The master over the blocking client: the same znodes and the same steps, without a runtime.
//!
//! It does one thing after the other: it reads everything, carries out the steps of [`plan`], and
//! waits for a change. So it is the shortest of the masters; read it first.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use zebu_client::blocking::Client;
use zebu_client::{
    Acls, CreateMode, ErrorCode, ErrorKind, EventKind, Notice, PersistentWatch, Version, WatchMode,
};

use super::Layout;
use super::plan::{Seen, Step, plan};

/// The pause before the master repeats a step that came too late.
const PAUSE: Duration = Duration::from_millis(200);

/// One candidate for mastership, on one session.
#[derive(Debug)]
pub struct Master {
    client: Client,
    acl: Acls,
    layout: Layout,
    root: String,
    name: String,
    /// Maximum number of tasks of a worker at a time.
    tasks_max: usize,
}

/// The change for which a master waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A change that may cause work for the master.
    Lists,
    /// The master's znode was deleted.
    Deposed,
    /// The connection was lost: another master may lead by now.
    Suspended,
}

impl Master {
    /// A candidate with this name, for the system below `root`.
    pub fn new(client: Client, acl: Acls, root: &str, name: String, tasks_max: usize) -> Self {
        let (layout, root) = (Layout::new(root), root.to_owned());
        Self { client, acl, layout, root, name, tasks_max }
    }

    /// Leads whenever it can, and otherwise stands by, until the session is over.
    ///
    /// # Errors
    /// The session is over, or a request failed for another reason than a lost connection.
    pub fn run(&self) -> Result<()> {
        let prepare =
            || self.client.wait(self.layout.prepare(self.client.asynchronous(), &self.acl));
        prepare()?;
        // A recursive watch on the root, so no watch has to be set again.
        let mut watch = self.client.watch(&self.root, WatchMode::Recursive)?;
        loop {
            let end = match self.run_for_master() {
                Ok(Some(epoch)) => {
                    println!("leading in epoch {}", epoch.0);
                    self.lead(epoch, &mut watch)
                }
                Ok(None) => self.stand_by(&mut watch),
                Err(error) => Err(error),
            };
            match end {
                Ok(Change::Deposed) => println!("leading no longer"),
                Ok(Change::Lists) => {}
                Ok(Change::Suspended) => self.wait_for_connection()?,
                Err(error) if is_passing(&error) => self.wait_for_connection()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The candidate does nothing until it knows the present master.
    fn wait_for_connection(&self) -> zebu_client::Result<()> {
        println!("suspended");
        self.client.connected()
    }

    /// Tries to become the master: the creator of the znode is the master, and begins a new epoch.
    /// `None` if there is another master.
    fn run_for_master(&self) -> zebu_client::Result<Option<Version>> {
        loop {
            let mut transaction = self.client.transaction();
            let (master, epoch) = (self.layout.master(), self.layout.epoch());
            transaction.create(&master, &self.name, CreateMode::Ephemeral, &self.acl);
            let mine = transaction.set_data(&epoch, &self.name, Version::ANY);
            match self.client.commit(transaction) {
                Ok(results) => return Ok(Some(Version(results.get(mine).version))),
                Err(error) if is_passing(&error) || error.code() == ErrorCode::NODE_EXISTS => {}
                Err(error) => return Err(error),
            }
            // The znode exists. This candidate may have created it, by a transaction whose answer
            // was lost. Only the owner of the znode shows that.
            self.client.sync(&master)?;
            match self.client.exists(&master)? {
                None => {} // gone in between: once more
                Some(stat) if stat.ephemeral_owner == self.client.session_id().0 => {
                    return Ok(Some(Version(self.client.get_data(&epoch)?.1.version)));
                }
                Some(_) => return Ok(None),
            }
        }
    }

    /// Waits until there is no master.
    fn stand_by(&self, watch: &mut PersistentWatch) -> zebu_client::Result<Change> {
        // The watch is set already, so the master learns of every change after this read.
        match self.client.get_data(&self.layout.master()) {
            Ok((leader, _)) => println!("standing by for {}", String::from_utf8_lossy(&leader)),
            Err(error) if error.kind() == ErrorKind::Gone => return Ok(Change::Lists),
            Err(error) => return Err(error),
        }
        loop {
            match self.change(watch)? {
                Change::Deposed => return Ok(Change::Lists),
                Change::Suspended => return Ok(Change::Suspended),
                Change::Lists if self.client.exists(&self.layout.master())?.is_none() => {
                    return Ok(Change::Lists);
                }
                Change::Lists => {}
            }
        }
    }

    /// Assigns tasks until it is no longer certain that this candidate is the master.
    fn lead(&self, epoch: Version, watch: &mut PersistentWatch) -> zebu_client::Result<Change> {
        loop {
            let mut is_too_late = false;
            for step in plan(&self.read()?, self.tasks_max) {
                match self.carry_out(&step, epoch) {
                    Ok(()) => println!("{}", step.text()),
                    Err(error) if error.failed_operation() == Some(0) => {
                        return Ok(Change::Deposed);
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Conflict) => {
                        is_too_late = true;
                    }
                    Err(error) => return Err(error),
                }
            }
            if is_too_late {
                std::thread::sleep(PAUSE);
                continue;
            }
            match self.change(watch)? {
                Change::Lists => {}
                end => return Ok(end),
            }
        }
    }

    /// Waits for a change. Events that arrive together are one change.
    fn change(&self, watch: &mut PersistentWatch) -> zebu_client::Result<Change> {
        let master = self.layout.master();
        let kind = |notice| match notice {
            Notice::Disconnected => Change::Suspended,
            Notice::Event(event) if event.kind == EventKind::Deleted && event.path == master => {
                Change::Deposed
            }
            Notice::Event(_) | Notice::Missed => Change::Lists,
        };
        let mut change = kind(self.client.wait(watch.next())?);
        while change == Change::Lists
            && let Some(next) = self.client.wait_timeout(Duration::ZERO, watch.next())
        {
            change = kind(next?);
        }
        Ok(change)
    }

    /// Reads everything: the tasks of earlier masters, and new ones.
    fn read(&self) -> zebu_client::Result<Seen> {
        let list = |path: &str| match self.client.get_children(path) {
            Ok((names, _)) => Ok(BTreeSet::from_iter(names)),
            Err(error) if error.kind() == ErrorKind::Gone => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        };
        let layout = &self.layout;
        let mut seen = Seen {
            workers: list(&layout.workers())?,
            tasks: list(&layout.tasks())?,
            finished: list(&layout.results())?,
            ..Seen::default()
        };
        for worker in list(&layout.assignments())? {
            let assigned = list(&layout.assigned_to(&worker))?;
            seen.assigned.insert(worker, assigned);
        }
        Ok(seen)
    }

    /// Carries out a step, if this candidate is still the master.
    fn carry_out(&self, step: &Step, epoch: Version) -> zebu_client::Result<()> {
        let layout = &self.layout;
        let mut transaction = self.client.transaction();
        transaction.check(&layout.epoch(), epoch);
        match step {
            Step::Assign { task, to } | Step::Move { task, to, .. } => {
                let source = match step {
                    Step::Move { from, .. } => layout.assignment(from, task),
                    _ => layout.task(task),
                };
                let (data, _) = self.client.get_data(&source)?;
                let path = layout.assignment(to, task);
                transaction.create(&path, data, CreateMode::Persistent, &self.acl);
                transaction.delete(&source, Version::ANY);
            }
            Step::Withdraw { task, from, kept } => {
                if let Some(other) = kept {
                    transaction.check(&layout.assignment(other, task), Version::ANY);
                }
                transaction.delete(&layout.assignment(from, task), Version::ANY);
            }
            Step::Discharge { worker } => {
                // Fails if the worker has registered meanwhile; then its place stays.
                let absent = layout.worker(worker);
                transaction.create(&absent, "", CreateMode::Ephemeral, &self.acl);
                transaction.delete(&absent, Version::ANY);
                transaction.delete(&layout.assigned_to(worker), Version::ANY);
            }
            Step::Forget { task } => {
                transaction.delete(&layout.task(task), Version::ANY);
            }
        }
        self.client.commit(transaction).map(drop)
    }
}

fn is_passing(error: &zebu_client::Error) -> bool {
    matches!(error.kind(), ErrorKind::Unknown | ErrorKind::NotExecuted)
}
