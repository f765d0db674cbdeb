//! The jobs of the log thread and the snapshot thread, and their durations.
//!
//! A job changes the disk in memory when its time is over. A crash before that executes a part of
//! it.

use std::collections::VecDeque;
use std::time::Duration;

use zebu_engine::journal::{Job, JobError, Order};
use zebu_proto::{Epoch, Identity, Zxid};
use zebu_replica::Input;
use zebu_state::{LogRange, Outline, Step};
use zebu_tree::Tree;
use zebu_zab::{ConfigChange, EpochKind, LinkId};

use crate::server::Process;
use crate::world::{Happening, World};

/// After this silence the whole log is marked durable.
const SETTLE_AFTER: Duration = Duration::from_millis(100);

/// The longest time for one job, however slow the disk is.
const SLOWEST: Duration = Duration::from_secs(30);

/// The facts that the checks need once a job is done.
enum Before {
    Config(ConfigChange),
    Epoch(EpochKind, Epoch),
    /// The log was truncated or read again.
    Cut,
    /// The ensemble's id was stored.
    Identity(Identity),
    /// The last committed zxid was stored.
    Committed,
    /// A snapshot was installed: its link, the last transaction of which it may contain effects,
    /// and its zxid.
    Restore(LinkId, Zxid, Zxid),
}

impl Before {
    fn of(job: &Job, restoring: &mut VecDeque<(LinkId, Zxid)>) -> Self {
        match job {
            Job::Config(change) => Self::Config(change.clone()),
            Job::SaveEpoch(kind, epoch) => Self::Epoch(*kind, *epoch),
            Job::Truncate(_) | Job::Reload => Self::Cut,
            Job::Identity(identity) => Self::Identity(*identity),
            Job::Committed(_) => Self::Committed,
            Job::Restore(copied) => {
                let (link, fuzzy) = restoring.pop_front().expect("each tree has come on a link");
                Self::Restore(link, fuzzy, copied.file.zxid())
            }
        }
    }
}

impl World {
    /// Gives an order to the log thread.
    pub(crate) fn order(&mut self, server: usize, order: Order) {
        if let Some(process) = &mut self.servers[server].process {
            process.jobs.push_back(order);
            self.start_jobs(server);
        }
    }

    /// Starts the next orders in the queue.
    fn start_jobs(&mut self, server: usize) {
        let slow = self.random.one_in(60) && !self.plan.hands_over;
        let fsync =
            Duration::from_micros(self.random.between(300, if slow { 300_000 } else { 3000 }));
        let factor = self.servers[server].disk_factor;
        let Some(process) = &mut self.servers[server].process else { return };
        if !process.working.is_empty() {
            return;
        }
        let is_log = |order: &Order| matches!(order, Order::Append(_) | Order::Roll);
        while process.jobs.front().is_some_and(is_log) {
            process.working.extend(process.jobs.pop_front());
        }
        let mut syncs = 1;
        if process.working.is_empty() {
            let Some(job) = process.jobs.pop_front() else { return };
            syncs = match job {
                Order::Member(Job::Committed(_)) => 0,
                Order::Member(Job::SaveEpoch(..) | Job::Identity(_)) => 2,
                _ => 6,
            };
            process.working.push(job);
        }
        let number = process.number;
        let time = (fsync * syncs * factor).min(SLOWEST);
        self.after(time, Happening::DiskDone { server, process: number });
    }

    pub(crate) fn disk_done(&mut self, server: usize, number: u64) {
        if self.process(server, number).is_none() {
            return;
        }
        match self.work(server) {
            Ok(inputs) => {
                for input in inputs {
                    self.input(server, number, input);
                }
            }
            Err(failure) => return self.stop(server, &failure),
        }
        let Some(process) = self.process(server, number) else { return };
        process.jobs_done += 1;
        let jobs = process.jobs_done;
        self.after(SETTLE_AFTER, Happening::DiskIdle { server, process: number, jobs });
        self.start_jobs(server);
    }

    pub(crate) fn disk_idle(&mut self, server: usize, number: u64, jobs: u64) {
        self.servers[server].disk.set_now(self.now);
        let Some(process) = self.process(server, number) else { return };
        if process.jobs_done == jobs
            && process.working.is_empty()
            && let Err(error) = process.log.settle()
        {
            self.stop(server, &error);
        }
    }

    /// The process or machine ends after `calls` calls of the current jobs.
    pub(crate) fn interrupt(&mut self, server: usize, calls: u64) {
        self.servers[server].disk.stop_after(calls);
        let busy = |server: &crate::server::Server| {
            server.process.as_ref().is_some_and(|process| !process.working.is_empty())
        };
        if busy(&self.servers[server]) && calls > 0 {
            self.reached("crash in the middle of work on the disk");
            // The reports of these jobs are lost.
            self.checks.silent(true);
            let _ = self.work(server);
            self.checks.silent(false);
        }
    }

    /// Carries out the current jobs.
    fn work(&mut self, server: usize) -> Result<Vec<Input>, JobError> {
        self.servers[server].disk.set_now(self.now);
        let wall_ms = self.servers[server].clock(self.now).wall_ms;
        let World { servers, checks, .. } = self;
        let process = servers[server].process.as_mut().expect("it works");
        let mut inputs = Vec::new();
        let mut last = None;
        for order in std::mem::take(&mut process.working) {
            match order {
                Order::Append(records) => {
                    for (zxid, record) in records {
                        process.log.append(zxid, &record);
                        last = Some(zxid);
                    }
                }
                Order::Roll => drop(process.log.roll()?),
                Order::Member(job) => {
                    let before = Before::of(&job, &mut process.restoring);
                    if let Before::Restore(_, fuzzy, zxid) = &before {
                        checks.restores(server, *zxid, *fuzzy);
                    }
                    let Process { log, files, common, .. } = &mut **process;
                    let done = job.run(log, files, &common.tree, wall_ms)?.input;
                    match (before, &done) {
                        (Before::Config(change), _) => checks.config_saved(server, &change),
                        (Before::Epoch(kind, epoch), _) => checks.epoch_saved(server, kind, epoch),
                        (Before::Restore(link, fuzzy, zxid), _) => {
                            checks.restored(server, link.0, zxid, fuzzy, &process.tree());
                        }
                        (
                            Before::Cut,
                            Some(
                                zebu_zab::Input::Truncated { end, .. }
                                | zebu_zab::Input::Reloaded { end },
                            ),
                        ) => checks.truncated(server, *end, &process.tree()),
                        (Before::Identity(identity), _) => {
                            checks
                                .ensembles
                                .knows(server, identity)
                                .into_iter()
                                .for_each(|what| checks.insist(what));
                        }
                        (Before::Committed, _) => {}
                        (Before::Cut, _) => unreachable!("it says up to where"),
                    }
                    inputs.extend(done.map(Input::Zab));
                }
            }
        }
        if let Some(last) = last {
            process.log.commit()?;
            checks.flushed(server, last);
            inputs.push(Input::Zab(zebu_zab::Input::Flushed(last)));
        }
        Ok(inputs)
    }

    // ---- snapshots

    pub(crate) fn first_snapshot(
        &mut self,
        snapshots: &zebu_store::Snapshots,
        tree: &Tree,
    ) -> Result<(), String> {
        let mut taking = Outline::of(tree).begin(snapshots).map_err(|error| error.to_string())?;
        taking.step(tree, usize::MAX, usize::MAX);
        taking.finish(true, true).map_err(|error| error.to_string())?;
        Ok(())
    }

    pub(crate) fn begin_snapshot(&mut self, server: usize) {
        self.reached("snapshot");
        let Some(process) = &mut self.servers[server].process else { return };
        let number = process.number;
        let Ok(taking) = Outline::of(&process.tree()).begin(&process.snapshots) else {
            return self.input(server, number, Input::SnapshotFailed);
        };
        process.taking = Some(taking);
        let after = self.random.ms(0, 20);
        self.after(after, Happening::SnapshotStep { server, process: number });
    }

    pub(crate) fn snapshot_step(&mut self, server: usize, number: u64) {
        let budget = self.random.between(1, 12) as usize;
        self.servers[server].disk.set_now(self.now);
        let Some(process) = self.process(server, number) else { return };
        let Some(mut taking) = process.taking.take() else { return };
        let step = taking.step(&process.tree(), budget, usize::MAX);
        let (began, extent) = (taking.began(), process.tree().last_zxid());
        let flushed = taking.flush();
        if step == Step::More && flushed.is_ok() {
            process.taking = Some(taking);
            let most = self.plan.snapshot_pause.as_millis() as u64;
            let after = self.random.ms(0, most);
            return self.after(after, Happening::SnapshotStep { server, process: number });
        }
        let done = match (step, flushed) {
            (Step::Replaced, _) => {
                self.reached("snapshot given up");
                Input::SnapshotDone
            }
            (Step::Done, Ok(())) if taking.finish(true, true).is_ok() => {
                self.checks.snapshot_taken(server, began, extent);
                Input::SnapshotDone
            }
            _ => {
                self.reached("snapshot failed");
                Input::SnapshotFailed
            }
        };
        self.input(server, number, done);
    }

    // ---- reading again

    pub(crate) fn scrub_later(&mut self, server: usize, process: u64) {
        if self.plan.scrubs() {
            let after = self.random.ms(1_000, 10_000);
            self.after(after, Happening::Scrub { server, process });
        }
    }

    /// Scrubs the disk, and requests a snapshot while a start would need a damaged file.
    pub(crate) fn scrub(&mut self, server: usize, number: u64) {
        self.servers[server].disk.set_now(self.now);
        let now = self.now;
        let Some(process) = self.process(server, number) else { return };
        let files = process.snapshots.logs();
        if let Ok(pass) = files.scrub(&mut |_| true) {
            let found = process.incidents.found(pass.damage);
            let last = process.tree().last_zxid();
            let asks = process.incidents.ask(&files, now, last);
            let is_repaired = !process.incidents.is_empty() && !process.incidents.is_needed(&files);
            for rotten in found {
                self.reached("rot found");
                self.tell(|| format!("server {server}: {rotten}"));
            }
            if asks {
                self.reached("snapshot because of rot");
                self.input(server, number, Input::SnapshotWanted);
            }
            if is_repaired && self.checks.is_rotten(server) {
                self.reached("rot made good for");
                self.checks.repaired(server);
            }
        }
        let purges = self.random.one_in(3);
        if let Some(process) = self.process(server, number)
            && purges
            && process.snapshots.purge(3, &mut |_| true).is_ok_and(|it| !it.snapshots.is_empty())
        {
            self.reached("old files purged");
        }
        self.scrub_later(server, number);
    }

    // ---- reading the log

    pub(crate) fn read_log(
        &mut self,
        server: usize,
        link: LinkId,
        after: Zxid,
        up_to: Zxid,
        share: f64,
    ) {
        let Some(process) = &self.servers[server].process else { return };
        let number = process.number;
        let part_bytes = if self.random.one_in(2) { 1 << 20 } else { 500 };
        let Some(process) = &self.servers[server].process else { return };
        let range = LogRange { link, after, up_to, share, part_bytes };
        let mut parts = Vec::new();
        let read = zebu_state::read_log(&process.snapshots, range, &mut |part| {
            parts.push(part);
            std::ops::ControlFlow::Continue(())
        });
        self.reached(if read.is_ok() { "log read" } else { "log of no use" });
        let mut after = Duration::ZERO;
        for input in parts {
            after += self.random.ms(1, 30);
            self.after(after, Happening::Tell { server, process: number, input });
        }
    }
}
