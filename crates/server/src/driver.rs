//! Drives the replica with threads: the server's side of an [`Engine`].
//!
//! The replica has a thread of its own, which waits for inputs and timers. An idle network worker
//! may run a turn itself, see [`crate::clients::worker_turns`], and so may other idle threads, see
//! [`crate::turns`].
//!
//! **Invariant:** a thread runs a turn while it holds the lock of [`Driver`], so inputs are
//! processed in the order of their arrival. Checked by `../engine/tests/threads.rs`.

mod counts;
mod effects;
mod events;
mod replacing;
mod role_facts;
mod silences;
mod slow;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::error;
use zebu_engine::{Engine, EngineOptions, Failed, Inbox, Turn};
use zebu_proto::{Causes, Zxid};
use zebu_replica::Replica;

use crate::audit;
use crate::clients::conn::Side;
use crate::counting::digests::Digests;
use crate::counting::phases::{Batches, Told};
use crate::counting::replication::MemberCounts;
use crate::disk::journal::{Command, Journal};
use crate::disk::snapshotter::Snapshotter;
use crate::ensemble::evidence::Recent;
use crate::ensemble::peers;
use crate::four_letter::ProposalSizes;
use crate::shared::Shared;
use effects::Effects;
use silences::Silences;

/// Runs the replica's thread until the inbox is empty and no further inputs can come.
pub fn run(driver: &Mutex<Driver>, shared: &Shared) {
    stop_on_failure(shared, drive(driver, shared));
}

fn stop_on_failure(shared: &Shared, done: Result<(), Failed>) {
    if let Err(failure) = done {
        error!("{}", Causes(&failure));
        shared.stop(Err(failure.into()));
    }
}

fn drive(driver: &Mutex<Driver>, shared: &Shared) -> Result<(), Failed> {
    let mut ending = None;
    driver.lock().begin();
    loop {
        let until = driver.lock().sleeps();
        let wait = until.saturating_sub(shared.clock.monotonic()).max(Duration::from_millis(1));
        let open = shared.inbox().wait(wait);
        let mut driver = driver.lock();
        if driver.over {
            return Ok(());
        }
        if !open && shared.inbox().is_empty() {
            // Requests in progress may still be finished, so that logged transactions are applied.
            let most = shared.config.throttle.shutdown_timeout;
            let now = shared.clock.monotonic();
            let since: Duration = *ending.get_or_insert(now);
            let replica = &driver.parts.replica;
            let idle = replica.in_process() == 0 && replica.waiting() == 0;
            if idle || now >= since + most || shared.ending.has_failed() {
                driver.over = true;
                return Ok(());
            }
        }
        driver.turn()?;
    }
}

/// Takes a turn on the calling thread, unless another thread is taking one: that thread then
/// processes the inbox.
pub fn turn_here(driver: &Mutex<Driver>, inbox: &Inbox) {
    zebu_engine::turn_here(driver, inbox, |driver| {
        if driver.over {
            return false;
        }
        let done = driver.turn();
        let goes_on = done.is_ok();
        stop_on_failure(&driver.parts.shared, done);
        if goes_on && driver.is_due_earlier() {
            inbox.poke();
        }
        goes_on
    });
}

/// An engine, and the destinations of its effects.
pub struct Driver {
    engine: Engine<Side>,
    parts: Parts,
    /// The latest time until which the replica's thread sleeps.
    sleeps_until: Duration,
    /// No more inputs are taken from the inbox.
    over: bool,
}

/// The destinations of an engine's effects.
struct Parts {
    shared: Arc<Shared>,
    replica: Replica,
    journal: Arc<Mutex<Journal>>,
    log: Sender<Command>,
    snapshotter: Snapshotter,
    /// The network between servers, in an ensemble.
    peers: Option<peers::Handle>,
    /// The collected messages for them.
    outgoing: peers::Outgoing,
    digests: Digests,
    /// The time since which this server leads, and its proposals.
    leading: Option<(Duration, ProposalSizes)>,
    /// Counters of the work with the other servers, in an ensemble.
    member: Option<MemberCounts>,
    silences: Silences,
    /// The evidence for a tree that differs from the leader's, in an ensemble.
    recent: Recent,
    /// The time since which the tree is in doubt, so that no client is served.
    doubted: Option<Zxid>,
    /// The collected events for the audit log, if there is one.
    audit: Option<audit::Pending>,
    /// The times at which the appended records arrived, were prepared, and were synced.
    batches: Batches,
    /// The lines about slow requests.
    told: Told,
}

impl Driver {
    /// A driver for `replica`, whose log is `journal`, with its thread behind `log`, and the other
    /// servers behind `peers`.
    pub fn new(
        shared: Arc<Shared>,
        replica: Replica,
        journal: Arc<Mutex<Journal>>,
        log: Sender<Command>,
        snapshotter: Snapshotter,
        peers: Option<peers::Handle>,
    ) -> Self {
        let member = peers.as_ref().map(|_| MemberCounts::new(shared.clone()));
        let config = &shared.config;
        let options = EngineOptions {
            members: shared.ensemble.members.lock().clone(),
            reconfig: config.reconfig_enabled,
            leader_serves: config.ensemble.as_ref().is_none_or(|it| it.leader_serves),
            syncs_itself: config.log.flush_delay == Duration::ZERO,
        };
        let audit = shared.audit.get().cloned().map(audit::Pending::new);
        let engine = Engine::new(options, shared.clock.monotonic());
        let parts = Parts {
            shared,
            replica,
            journal,
            log,
            snapshotter,
            peers,
            outgoing: peers::Outgoing::default(),
            digests: Digests::default(),
            leading: None,
            member,
            silences: Silences::default(),
            recent: Recent::default(),
            doubted: None,
            audit,
            batches: Batches::default(),
            told: Told::default(),
        };
        Self { engine, parts, sleeps_until: Duration::ZERO, over: false }
    }

    /// Call this once, before the first turn.
    fn begin(&mut self) {
        match &mut self.parts.member {
            // The whole log has been applied.
            None => self.parts.shared.tree().write().trust_digests(Zxid::ZERO),
            Some(member) => member.looks(0),
        }
    }

    /// The time at which the replica's thread, which is about to sleep, must look again in any
    /// case.
    fn sleeps(&mut self) -> Duration {
        self.sleeps_until = self.engine.next(&self.parts.replica);
        self.sleeps_until
    }

    /// Whether a turn on another thread needs the replica's thread earlier than that.
    fn is_due_earlier(&mut self) -> bool {
        let next = self.engine.next(&self.parts.replica);
        let is_earlier = next < self.sleeps_until;
        self.sleeps_until = self.sleeps_until.min(next);
        is_earlier
    }

    /// Processes all inputs of the inbox, and executes the outputs. After a failure, the driver
    /// must not be used.
    fn turn(&mut self) -> Result<(), Failed> {
        assert!(!self.over, "a turn after the last one");
        let shared = self.parts.shared.clone();
        let mut effects = Effects::new(&mut self.parts, &shared);
        let done = self.engine.turn(&shared.common, &mut effects);
        self.over |= done.is_err();
        shared.restoring.turned();
        assert!(!matches!(done, Ok(Turn::Paused)), "a server's turns are not interrupted");
        done.map(|_| ())
    }
}
