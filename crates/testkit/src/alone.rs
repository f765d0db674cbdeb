//! A server that runs alone, in one thread, driven by the engine that ships.
//!
//! Its disk is a list, and records become durable when the test says so. Its clients are
//! [connections](crate::client) without sockets.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_engine::journal::{Order, Records};
use zebu_engine::{
    AppliedTxn, ClientRules, Common, Engine, EngineOptions, Failed, LATE_MIN, Mode, Turn,
    TurnEvents, World,
};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::txn::TxnRecord;
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_replica::auth::Schemes;
use zebu_replica::{
    Input, IntakeOptions, MemberOptions, Now, Options, Passwords, ReaperOptions, Replica, Rules,
    SnapshotOptions, ThrottleOptions,
};
use zebu_state::Copied;
use zebu_tree::{Silent, Tree};
use zebu_zab::LinkId;

use crate::client::Side;

/// Turns in a row after which a server does nothing but turn.
const TURNS_MAX: usize = 1 << 17;

/// The options of a replica of server 1 with the original's defaults.
pub fn options() -> Options {
    Options {
        server: ServerId(1),
        first_session: SessionId(1 << 56),
        tick: Duration::from_secs(2),
        session_timeout_ms_min: 4_000,
        session_timeout_ms_max: 40_000,
        passwords: Passwords::default(),
        rules: Rules::default(),
        eager_acl_check: false,
        throttled_op_wait: Duration::ZERO,
        connections: ThrottleOptions::default(),
        intake: IntakeOptions::default(),
        reaper: ReaperOptions::default(),
        snapshots: SnapshotOptions::default(),
        member: MemberOptions::default(),
        seed: 1,
    }
}

/// Sees what the server does, to check it.
pub trait Watching {
    /// A transaction was applied. Its client is answered next.
    fn applied(&mut self, _what: &AppliedTxn<'_>) {}
}

impl Watching for () {}

/// The server.
pub struct Alone<W = ()> {
    /// The state that the engine and the connections share.
    pub common: Common<Side>,
    /// The world of the engine.
    pub desk: Desk<W>,
    engine: Engine<Side>,
}

/// The replica, the time and the disk.
pub struct Desk<W> {
    /// The replica.
    pub replica: Replica,
    /// The time.
    pub now: Now,
    /// The records that were handed to the log, in order.
    pub log: Vec<(Zxid, Bytes)>,
    /// The number of durable ones.
    pub durable: usize,
    /// The zxid before the first record.
    first: Zxid,
    /// Whether the replica wants a snapshot.
    is_snapshot_due: bool,
    /// The observer of the server's effects.
    pub watching: W,
}

impl<W: Watching> Alone<W> {
    /// Starts a server with this replica, tree and time.
    pub fn new(replica: Replica, tree: Tree, schemes: Schemes, now: Now, watching: W) -> Self {
        let first = tree.last_zxid();
        let common = Common::new(tree, Arc::new(schemes), ClientRules::default());
        common.serve(now.monotonic, || Some(Mode::Standalone));
        let (log, durable, is_snapshot_due) = (Vec::new(), 0, false);
        let desk = Desk { replica, now, log, durable, first, is_snapshot_due, watching };
        Self { common, desk, engine: Engine::new(EngineOptions::default(), now.monotonic) }
    }

    /// Takes a turn: carries out everything that follows from the inputs so far.
    ///
    /// # Panics
    /// The server cannot continue.
    pub fn turn(&mut self) {
        for _ in 0..TURNS_MAX {
            let done = self.engine.turn(&self.common, &mut self.desk).expect("it can continue");
            assert_eq!(done, Turn::Done, "it never pauses");
            if std::mem::take(&mut self.desk.is_snapshot_due) {
                self.common.inbox.push(Input::SnapshotDone);
            }
            if self.common.inbox.is_empty() {
                return;
            }
        }
        panic!("it has inputs for ever");
    }

    /// Lets up to `records` more records become durable, and takes a turn.
    pub fn flush(&mut self, records: usize) {
        let Desk { log, durable, .. } = &mut self.desk;
        let more = durable.saturating_add(records).min(log.len());
        if more > *durable {
            *durable = more;
            self.common.inbox.push(Input::Flushed(log[more - 1].0));
        }
        self.turn();
    }

    /// Everything becomes durable.
    pub fn settle(&mut self) {
        self.turn();
        while self.desk.durable < self.desk.log.len() {
            self.flush(usize::MAX);
        }
    }

    /// Lets time pass. The server takes its turns in between, as one that never stood still.
    pub fn pass(&mut self, mut time: Duration) {
        while !time.is_zero() {
            let step = time.min(LATE_MIN);
            time -= step;
            self.desk.now.monotonic += step;
            self.desk.now.wall_ms += step.as_millis() as i64;
            self.turn();
        }
    }

    /// Applies the logged transactions after the first of these zxids, up to the second one. Says
    /// whether each led to the digest that it announces.
    ///
    /// # Panics
    /// A record has no transaction.
    pub fn replay(&self, tree: &mut Tree, zxids: RangeInclusive<Zxid>) -> bool {
        let (after, last) = zxids.into_inner();
        let mut matches = true;
        for (zxid, record) in &self.desk.log {
            if after < *zxid && *zxid <= last {
                let record = TxnRecord::decode(record).expect("the replica made this record");
                matches &= tree.apply(&record, &mut Silent).digest_matches;
            }
        }
        matches
    }
}

impl<W: Watching> World for Desk<W> {
    type Side = Side;

    fn now(&self) -> Now {
        self.now
    }

    fn replica(&self) -> &Replica {
        &self.replica
    }

    fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    fn order(&mut self, order: Order) -> Result<(), Failed> {
        match order {
            Order::Append(records) => {
                for (zxid, record) in records {
                    let last = self.log.last().map_or(self.first, |(last, _)| *last);
                    assert_eq!(zxid.0, last.0 + 1, "zxids are consecutive");
                    self.log.push((zxid, record));
                }
                Ok(())
            }
            Order::Roll => Ok(()),
            Order::Member(_) => Err(Failed::Alone),
        }
    }

    fn append_now(&mut self, _records: &mut Records) -> Result<Option<Zxid>, Failed> {
        Ok(None)
    }

    fn snapshot(&mut self, _common: &Common<Side>) {
        self.is_snapshot_due = true;
    }

    fn send(&mut self, link: LinkId, packet: QuorumPacket) {
        unreachable!("alone, and {link:?} is sent {packet:?}")
    }

    fn network(&mut self, _output: zebu_zab::Output) -> Result<(), Failed> {
        Err(Failed::Alone)
    }

    fn take_copy(&mut self, _link: LinkId) -> Option<Box<Copied>> {
        None
    }

    fn serve(&mut self, _common: &Common<Side>, mode: Option<Mode>) {
        unreachable!("alone, and its mode becomes {mode:?}")
    }
}

impl<W: Watching> TurnEvents<Side> for Desk<W> {
    fn applied(&mut self, _now: Now, what: &AppliedTxn<'_>) {
        let zxid = what.zxid;
        assert_eq!(zxid.0, what.before.0 + 1, "applied in order");
        let place = self.log[..self.durable].binary_search_by_key(&zxid, |(zxid, _)| *zxid);
        let place = place.unwrap_or_else(|_| panic!("{zxid} is applied before it is durable"));
        assert_eq!(&self.log[place].1, what.bytes, "{zxid} is not the logged one");
        assert!(what.applied.digest_matches, "another digest than {:?} says", what.record);
        self.watching.applied(what);
    }
}
