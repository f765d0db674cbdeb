//! The order of a turn, and how the replica's outputs are carried out.
//!
//! Inputs are taken in batches. A batch is validated under one read lock of the tree; the
//! transactions it commits are applied under one write lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::PacketKind;
use zebu_proto::txn::TxnRecord;
use zebu_proto::{ErrorCode, Zxid};
use zebu_replica::{After, Input, Now, Origin, Output, Replica, Request, frame, write_reply};
use zebu_state::membership;
use zebu_tree::Tree;
use zebu_zab::config::Membership;
use zebu_zab::{Compared, ConfigChange, Peer, Role, TreeDigest};

use crate::common::{Common, Mode};
use crate::delivery::{Delivery, Kind, Notifier};
use crate::events::AppliedTxn;
use crate::extra_time::{ExtraTime, LATE_MIN};
use crate::faults;
use crate::few_sessions::FewSessions;
use crate::greeting;
use crate::journal::{Job, Order, Records};
use crate::outbox::Outbox;
use crate::sync::RwLockWriteGuard;
use crate::sync_policy::SyncPolicy;
use crate::world::{Failed, World};

/// How often recent signs of life of sessions are reported to the replica.
const TOUCH_INTERVAL: Duration = Duration::from_millis(200);

/// Bytes of read answers made under one write lock, at most.
const ANSWERED_BYTES: usize = 1 << 20;

/// Inputs validated under one read lock. Their outputs are carried out before the next inputs are
/// taken, so that the disk and the clients already work on the first of many requests.
const STEP_BATCH: usize = 256;

const _: () = assert!(STEP_BATCH > 0 && ANSWERED_BYTES > 0);
// Two reports may be this far apart without a session being given extra time.
const _: () = assert!(TOUCH_INTERVAL.as_millis() < LATE_MIN.as_millis());

/// Options of an engine.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// The configuration of the ensemble; `None` for a standalone server.
    pub members: Option<Arc<Membership>>,
    /// Whether the membership may be reconfigured (`reconfigEnabled`).
    pub reconfig: bool,
    /// Whether the leader serves clients (`leaderServes`).
    pub leader_serves: bool,
    /// Whether the thread of the turn may sync the log itself. False if syncs are delayed on
    /// purpose.
    pub syncs_itself: bool,
}

/// Whether a turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// All inputs are carried out.
    Done,
    /// [`World::goes_on`] returned false: the next call continues the turn.
    Paused,
}

/// Runs turns, and keeps the state of an unfinished one.
///
/// **Invariant:** only the engine takes inputs from the inbox, one turn after the other, and steps
/// through them in the order of arrival. It takes the next inputs when all outputs of the earlier
/// ones are carried out. Checked by
/// `every_request_is_answered_in_order_whoever_has_the_turn`.
#[derive(Debug)]
pub struct Engine<S> {
    options: EngineOptions,
    /// When signs of life were last reported.
    touched: Duration,
    /// When the engine last finished its inputs.
    looked: Duration,
    /// Time already given to sessions and to peers for periods in which this server did not read.
    extra_time: ExtraTime,
    peers_extra_time: ExtraTime,
    policy: SyncPolicy,
    sessions: FewSessions,
    /// Whether the last digest compared differed from the one in the transaction.
    differs: bool,
    /// Whether clients are refused because the tree differs from the leader's.
    is_doubted: bool,
    /// Up to where this turn made the log durable, if not reported yet.
    flushed: Option<Zxid>,
    /// Inputs not stepped through yet, and outputs not carried out yet.
    inputs: VecDeque<Input>,
    outputs: VecDeque<Output>,
    /// Records not handed to the log yet.
    records: Records,
    /// The last transaction applied, if the replica was not told yet.
    applied: Option<Zxid>,
    /// Whether a turn has begun and is not over.
    is_under_way: bool,
    /// The time of this turn, read when the turn begins or continues.
    now: Now,
    /// When the current outputs began to be carried out.
    carries_out: Option<Duration>,
    delivery: Delivery<S>,
    /// An empty vector, kept for its capacity.
    room: Vec<Input>,
}

impl<S: crate::Side> Engine<S> {
    /// Creates an engine. `now`: the time before its first turn.
    pub fn new(options: EngineOptions, now: Duration) -> Self {
        Self {
            options,
            touched: Duration::ZERO,
            looked: now,
            extra_time: ExtraTime::default(),
            peers_extra_time: ExtraTime::default(),
            policy: SyncPolicy::default(),
            sessions: FewSessions::default(),
            differs: false,
            is_doubted: false,
            flushed: None,
            inputs: VecDeque::new(),
            outputs: VecDeque::new(),
            records: Records::new(),
            applied: None,
            is_under_way: false,
            now: Now::default(),
            carries_out: None,
            delivery: Delivery::default(),
            room: Vec::new(),
        }
    }

    /// Whether this server is a member of an ensemble.
    fn is_member(&self) -> bool {
        self.options.members.is_some()
    }

    /// When the next turn is due, even without inputs.
    pub fn next(&self, replica: &Replica) -> Duration {
        self.next_after(replica.next_tick())
    }

    fn next_after(&self, next_tick: Duration) -> Duration {
        next_tick.min(self.touched + TOUCH_INTERVAL)
    }

    /// Takes all inputs from the inbox and carries out their consequences.
    ///
    /// # Errors
    /// The server cannot continue; do not call this again.
    pub fn turn<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
    ) -> Result<Turn, Failed> {
        if self.is_under_way {
            self.now = world.now();
        }
        loop {
            if !self.is_under_way {
                self.begin(common, world);
            }
            if self.is_carrying_out() && self.carry_out(common, world)? == Turn::Paused {
                return Ok(Turn::Paused);
            }
            while !self.inputs.is_empty() {
                self.step(common, world)?;
                if !world.goes_on() || self.carry_out(common, world)? == Turn::Paused {
                    return Ok(Turn::Paused);
                }
            }
            self.looked = world.monotonic();
            world.turned();
            self.is_under_way = false;
            if self.flushed.is_none() {
                self.check();
                return Ok(Turn::Done);
            }
        }
    }

    /// Asserts that a finished turn leaves nothing undone.
    fn check(&self) {
        assert!(!self.is_under_way, "a turn is over and under way");
        assert!(self.inputs.is_empty(), "{} inputs are left", self.inputs.len());
        assert!(self.outputs.is_empty(), "{} outputs are left", self.outputs.len());
        assert!(self.records.is_empty(), "{} records are nobody's", self.records.len());
        assert!(self.applied.is_none(), "the replica does not know of {:?}", self.applied);
        assert!(self.flushed.is_none(), "the replica does not know of {:?}", self.flushed);
        assert!(self.carries_out.is_none(), "outputs are being carried out");
        assert!(self.room.is_empty(), "inputs are in the room for the next ones");
    }

    fn is_carrying_out(&self) -> bool {
        !self.outputs.is_empty() || !self.records.is_empty() || self.applied.is_some()
    }

    /// Takes the inputs of a turn: those in the inbox, signs of life, and the tick.
    fn begin(&mut self, common: &Common<S>, world: &mut impl World<Side = S>) {
        assert!(self.inputs.is_empty() && !self.is_carrying_out(), "the last turn is over");
        self.is_under_way = true;
        let mut inputs = std::mem::take(&mut self.room);
        common.inbox.take(&mut inputs);
        inputs.extend(self.flushed.take().map(Input::Flushed));
        let now = world.now();
        self.now = now;
        let next_tick = world.replica().next_tick();
        let mut first = self.give_time(world, now.monotonic, next_tick);
        for input in &inputs {
            if let Input::Request(request) = input {
                self.policy.asked_by(request.conn);
            }
        }
        common.inbox.set_few_sessions(self.sessions.begin(&inputs));
        world.takes(now, common, &inputs);
        let is_asked = |input: &Input| matches!(input, Input::Zab(zebu_zab::Input::Packet(_, it)) if it.kind == PacketKind::PING);
        let is_asked = self.is_member() && inputs.iter().any(is_asked);
        let is_tick = now.monotonic >= next_tick;
        if is_asked || is_tick || now.monotonic >= self.touched + TOUCH_INTERVAL {
            // Report every session heard of so far: the leader gets a complete answer, and no
            // session expires that has just been heard of.
            self.report_touched(common, world, now, &mut first);
        }
        if self.is_member() {
            join_acknowledgements(&mut inputs);
        }
        if !first.is_empty() {
            inputs.splice(0..0, first);
        }
        if is_tick {
            inputs.push(Input::Tick);
        }
        self.inputs = inputs.into();
    }

    /// Extends timeouts by the time in which this server did not read its sockets, since messages
    /// may be waiting there. Causes: a stopped process, a suspended machine, starved threads.
    fn give_time(
        &mut self,
        world: &mut impl World<Side = S>,
        now: Duration,
        next_tick: Duration,
    ) -> Vec<Input> {
        let mut inputs = Vec::new();
        let next = self.next_after(next_tick);
        if now < next || faults::gives_no_time() {
            return inputs;
        }
        let late = now.saturating_sub(next.max(self.looked));
        let stood = if late > LATE_MIN { late } else { Duration::ZERO };
        let stood = stood.max(self.peers_extra_time.look(world.peers_listened(), now));
        let unheard = self.extra_time.look(world.listened(), now).saturating_sub(stood);
        if unheard > Duration::ZERO {
            world.did_not_listen(unheard);
            inputs.push(Input::Unheard(unheard));
        }
        if stood > Duration::ZERO {
            world.stood_still(stood);
            inputs.push(Input::Stalled(stood));
        }
        inputs
    }

    /// Reports to the replica every session heard of since the last report.
    fn report_touched(
        &mut self,
        common: &Common<S>,
        world: &mut impl World<Side = S>,
        now: Now,
        inputs: &mut Vec<Input>,
    ) {
        let since = self.touched;
        assert!(since <= now.monotonic, "reported at a time to come: {since:?}");
        self.touched = now.monotonic;
        // A leader asks a learner for the sessions it heard of. If this server did not read, every
        // session counts: its messages may be unread.
        let listened = world.listened().unwrap_or(now.monotonic);
        let is_deaf = self.is_member() && now.monotonic > listened + LATE_MIN;
        common.conns.each(|conn| {
            let at = if is_deaf { now.monotonic } else { conn.heard() };
            // The millisecond of the last report is included again.
            if at + Duration::from_millis(1) >= since
                && let Some(session) = conn.session()
                && !faults::forgets_touches()
            {
                inputs.push(Input::Touched { session, at });
            }
        });
        world.touched();
    }

    /// Steps through the next inputs. There must be some.
    fn step<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
    ) -> Result<(), Failed> {
        assert!(!self.is_carrying_out(), "what came of the last inputs is carried out");
        let now = self.now;
        let mut outputs = Vec::from(std::mem::take(&mut self.outputs));
        let began = world.monotonic();
        {
            let tree = common.tree.read();
            for _ in 0..STEP_BATCH {
                let Some(input) = self.inputs.pop_front() else { break };
                world.step(now, common, &tree, input, &mut outputs)?;
            }
        }
        if self.inputs.is_empty() {
            self.room = Vec::from(std::mem::take(&mut self.inputs));
        }
        self.outputs = outputs.into();
        world.stepped(world.monotonic().saturating_sub(began));
        Ok(())
    }

    /// Carries out the replica's outputs, and the outputs these lead to.
    fn carry_out<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
    ) -> Result<Turn, Failed> {
        while self.is_carrying_out() {
            if self.carries_out.is_none() {
                let began = world.monotonic();
                self.carries_out = Some(began);
                world.carries_out(self.now.monotonic, began);
            }
            if self.effects(common, world)? == Turn::Paused {
                return Ok(Turn::Paused);
            }
            world.hand_over();
            world.delivers();
            self.end_delivery(common, world);
            world.carried_out();
            self.append_or_commit(world)?;
            if let Some(zxid) = self.applied.take() {
                // The transaction may have been the one that a new role waited for.
                let now = self.now;
                let mut outputs = Vec::from(std::mem::take(&mut self.outputs));
                let tree = common.tree.read();
                if !faults::applies_in_secret() {
                    world.step(now, common, &tree, Input::Applied(zxid), &mut outputs)?;
                }
                drop(tree);
                world.stepped(Duration::ZERO);
                self.outputs = outputs.into();
            }
            self.carries_out = None;
        }
        Ok(Turn::Done)
    }

    fn end_delivery<W: World<Side = S>>(&mut self, common: &Common<S>, world: &mut W) {
        let began = self.carries_out.unwrap_or_default();
        self.delivery.end(common, world, began, World::monotonic);
    }

    /// Carries out the current outputs.
    fn effects<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
    ) -> Result<Turn, Failed> {
        let now = self.now;
        let mut tree: Option<RwLockWriteGuard<'_, Tree>> = None;
        let (mut done, mut answered_bytes) = (0, 0);
        while let Some(output) = self.outputs.pop_front() {
            match output {
                Output::Append { zxid, record } => {
                    let last = self.records.last().map(|(last, _)| *last);
                    assert!(last.is_none_or(|last| last < zxid), "{zxid} after {last:?}");
                    world.appends(now, zxid, &record);
                    self.records.push((zxid, record));
                }
                Output::Retired => world.retired(),
                Output::HandedOver(result) => world.handed_over(result),
                Output::Snapshot => {
                    self.append(world)?;
                    world.order(Order::Roll)?;
                    // The snapshot reads the tree, and may begin here.
                    tree = None;
                    world.snapshot(common);
                }
                Output::Apply { zxid, record, origin } => {
                    let tree = tree.get_or_insert_with(|| common.tree.write());
                    assert!(self.applied.is_none_or(|last| last < zxid), "{zxid} comes again");
                    self.apply(common, world, now, tree, (zxid, &record, origin));
                    self.applied = Some(zxid);
                }
                Output::Answer(request) => {
                    world.answers(&request);
                    let tree = tree.get_or_insert_with(|| common.tree.write());
                    answered_bytes += self.answer(common, world, now, tree, &request);
                }
                Output::Reply { origin, zxid, err } => {
                    let zxid = zxid.unwrap_or_else(|| last_zxid(common, tree.as_deref()));
                    self.reply(common, world, now, (origin, zxid, err));
                }
                Output::Abandon(origin) => {
                    world.abandoned(&origin);
                    self.delivery.abandon(common, &origin);
                }
                Output::Accept { conn, session, timeout_ms, password } => {
                    if let Some(conn) = common.conns.get(conn) {
                        let zxid = last_zxid(common, tree.as_deref());
                        greeting::accept(common, &conn, session, timeout_ms, password);
                        world.accepted(&conn, session, zxid);
                        conn.set_session(session, timeout_ms);
                        self.delivery.touch(conn);
                    }
                }
                Output::Refuse(conn) => {
                    if let Some(conn) = common.conns.get(conn) {
                        greeting::refuse(common, &conn);
                        world.refused(&conn, false);
                        self.delivery.touch(conn);
                    }
                }
                Output::Deny(conn) => {
                    if let Some(conn) = common.conns.get(conn) {
                        greeting::deny(&conn, last_zxid(common, tree.as_deref()));
                        world.refused(&conn, true);
                        self.delivery.touch(conn);
                    }
                }
                Output::Disconnect(conn) => {
                    if let Some(conn) = common.conns.get(conn) {
                        conn.outbox.lock().close();
                        self.delivery.touch(conn);
                    }
                }
                Output::ReadOnly(on) => {
                    world.serves_readers(on);
                    serve(common, world, on.then_some(Mode::ReadOnly));
                }
                Output::Zab(output) => {
                    tree = None;
                    self.between_servers(common, world, now, output)?;
                }
            }
            done += 1;
            if answered_bytes > ANSWERED_BYTES || world.is_enough(done) {
                (done, answered_bytes) = (0, 0);
                tree = None;
                if self.pause(common, world) == Turn::Paused {
                    return Ok(Turn::Paused);
                }
            }
        }
        Ok(Turn::Done)
    }

    /// Delivers what has been done so far, while nobody holds the tree.
    fn pause<W: World<Side = S>>(&mut self, common: &Common<S>, world: &mut W) -> Turn {
        world.paused();
        world.delivers();
        self.end_delivery(common, world);
        if faults::forgets_half_a_batch() {
            self.outputs.clear();
        }
        let goes_on = self.outputs.is_empty() || world.goes_on();
        if goes_on { Turn::Done } else { Turn::Paused }
    }

    /// Carries out an output that concerns other servers or a member's files.
    #[inline]
    fn between_servers<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
        now: Now,
        output: zebu_zab::Output,
    ) -> Result<(), Failed> {
        world.asked(now, &output);
        match output {
            zebu_zab::Output::Send(link, packet) => {
                world.send(link, packet);
                Ok(())
            }
            output => {
                // The packets of a link are sent before the link is closed.
                world.hand_over();
                self.as_member(common, world, now, output)
            }
        }
    }

    /// Carries out an output of a member's peer that is not a packet.
    fn as_member<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
        now: Now,
        output: zebu_zab::Output,
    ) -> Result<(), Failed> {
        use zebu_zab::Output as Zab;
        if !self.is_member() {
            return Err(Failed::Alone);
        }
        let job = match output {
            Zab::SaveEpoch(kind, epoch) => Job::SaveEpoch(kind, epoch),
            Zab::Config(change) => {
                if let ConfigChange::Committed(config) = &change {
                    self.options.members = Some(config.clone());
                }
                world.network(Zab::Config(change.clone()))?;
                Job::Config(change)
            }
            Zab::Identity(identity) => {
                world.network(Zab::Identity(identity))?;
                Job::Identity(identity)
            }
            Zab::Committed(zxid) => Job::Committed(zxid),
            Zab::Truncate(zxid) => Job::Truncate(zxid),
            Zab::Reload => Job::Reload,
            Zab::Restore(link) => Job::Restore(world.take_copy(link).ok_or(Failed::CopyGone)?),
            Zab::Role(role) => {
                self.change_role(common, world, now, role);
                return Ok(());
            }
            Zab::Doubted(since) => {
                self.is_doubted = true;
                world.doubts(Some(since));
                serve(common, world, None);
                return Ok(());
            }
            Zab::Trusted => {
                self.is_doubted = false;
                world.doubts(None);
                let role = world.replica().role();
                serve(common, world, self.mode(role.unwrap_or(Role::Looking)));
                return Ok(());
            }
            output => return world.network(output),
        };
        self.append(world)?;
        world.order(Order::Member(job))
    }

    /// Serves clients in a new role, or stops serving.
    fn change_role<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
        now: Now,
        role: Role,
    ) {
        world.role(role);
        self.is_doubted &= role != Role::Looking;
        if role != Role::Looking {
            // Everything a snapshot transfer was ahead of is committed, though perhaps not applied:
            // applying waits for our own disk.
            let committed = world.replica().peer().map_or(Zxid::ZERO, Peer::committed);
            let mut tree = common.tree.write();
            tree.trust_digests(committed);
            let shows = self.options.reconfig && !faults::hides_the_configuration();
            if let Some(members) = self.options.members.as_ref().filter(|_| shows) {
                // No transaction holds the configuration of the first epoch.
                membership::show(&mut tree, members, now.wall_ms);
            }
        }
        serve(common, world, self.mode(role));
    }

    /// How clients are served in a role, if at all.
    fn mode(&self, role: Role) -> Option<Mode> {
        match role {
            _ if self.is_doubted => None,
            Role::Looking => None,
            Role::Leading(_) => self.options.leader_serves.then_some(Mode::Leader),
            Role::Following(_) => Some(Mode::Follower),
            Role::Observing(_) => Some(Mode::Observer),
        }
    }

    /// Syncs the records of a turn at once if that is faster and no output is left; otherwise hands
    /// them to the log.
    fn append_or_commit<W: World<Side = S>>(&mut self, world: &mut W) -> Result<(), Failed> {
        if self.records.is_empty() {
            return Ok(());
        }
        if faults::tells_before_the_sync() && !self.is_member() {
            self.flushed = self.records.last().map(|(zxid, _)| *zxid);
        }
        let is_leisurely = self.policy.is_leisurely(self.records.len());
        let is_last = self.inputs.is_empty();
        if !self.is_member() && is_last && is_leisurely && self.options.syncs_itself {
            let last = self.records.last().map(|(zxid, _)| *zxid);
            let durable = world.append_now(&mut self.records)?;
            assert!(durable.is_none() || self.records.is_empty(), "a record is logged twice");
            assert!(durable.is_none() || durable == last, "{durable:?} of {last:?} is durable");
            self.flushed = durable.filter(|_| !faults::forgets_its_sync()).or(self.flushed);
        }
        self.append(world)
    }

    /// Hands the records to the log.
    fn append<W: World<Side = S>>(&mut self, world: &mut W) -> Result<(), Failed> {
        if self.records.is_empty() {
            return Ok(());
        }
        world.order(Order::Append(std::mem::take(&mut self.records)))
    }

    fn apply<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
        now: Now,
        tree: &mut Tree,
        (zxid, bytes, origin): (Zxid, &Bytes, Option<Origin>),
    ) {
        let record = TxnRecord::decode(bytes).expect("the replica made this record");
        debug_assert_eq!(record.header.zxid, zxid, "a record has the place of another");
        let before = tree.last_zxid();
        let applied = tree.apply(&record, &mut Notifier::new(common, &mut self.delivery, world));
        assert_eq!(tree.last_zxid(), before.max(zxid), "the tree is at the transaction");
        if applied.digest_compared {
            // A match is reported only after a mismatch.
            let told = !applied.digest_matches || self.differs;
            self.differs = !applied.digest_matches;
            if told && self.is_member() {
                let digest = TreeDigest { zxid, tree: tree.digest() };
                let compared = Compared { digest, differs: self.differs };
                common.inbox.push(Input::Zab(zebu_zab::Input::Compared(compared)));
            }
        }
        let what = AppliedTxn {
            zxid,
            before,
            bytes,
            record: &record,
            applied: &applied,
            tree,
            origin: origin.as_ref(),
        };
        world.applied(now, &what);
        let Some(origin) = origin else { return };
        let reply = |out: &mut Vec<u8>| write_reply(out, origin.op, origin.xid, zxid, &applied);
        let put = |outbox: &mut Outbox| outbox.put(reply);
        if !self.delivery.answer(common, &origin, Kind::Write, zxid, put) {
            world.nobody_there();
        }
    }

    /// Answers a request without a body.
    #[inline]
    fn reply<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
        now: Now,
        (origin, zxid, err): (Origin, Zxid, ErrorCode),
    ) {
        world.replied(now, &origin, err);
        let reply = |out: &mut Vec<u8>| frame::bare_reply(out, origin.xid, zxid, err);
        let put = |outbox: &mut Outbox| outbox.put(reply);
        if !self.delivery.answer(common, &origin, Kind::Neither, zxid, put) {
            world.nobody_there();
        }
    }

    /// Answers a read that waited. Returns the size of the answer.
    fn answer<W: World<Side = S>>(
        &mut self,
        common: &Common<S>,
        world: &mut W,
        now: Now,
        tree: &Tree,
        request: &Request,
    ) -> usize {
        let Request { conn, session, xid, op, body, ids, .. } = request;
        let reader = common.reader(*conn, *session, ids);
        let mut after = After::Keep;
        let mut bytes = 0;
        let put = |outbox: &mut Outbox| {
            bytes = outbox.put(|out| {
                let at = out.len();
                after = reader.answer(tree, *xid, *op, body, out);
                world.read(*op, body, &out[at..]);
            });
            if after == After::Close {
                outbox.close();
            }
            bytes
        };
        let zxid = tree.last_zxid();
        let is_there = self.delivery.answer(common, &request.origin(), Kind::Read, zxid, put);
        if !is_there {
            world.nobody_there();
        } else if after != After::Close {
            world.answered(*op);
        }
        if after == After::TooLong {
            world.too_long(*op, now.monotonic);
        }
        bytes
    }
}

/// Keeps only the last of several acknowledgements that a learner sent one after the other. It says
/// all that the others say, because a learner acknowledges its log in order; and a leader looks for
/// a quorum after each acknowledgement.
fn join_acknowledgements(inputs: &mut Vec<Input>) {
    use zebu_zab::Input::Packet;
    inputs.dedup_by(|next, before| {
        let (Input::Zab(Packet(from, next)), Input::Zab(Packet(other, before))) = (next, before)
        else {
            return false;
        };
        // The first transaction of an epoch is that of its leader: its acknowledgement ends the
        // synchronization.
        let joins = from == other
            && next.kind == PacketKind::ACK
            && before.kind == PacketKind::ACK
            && before.zxid.counter() > 0
            && next.zxid.epoch() == before.zxid.epoch()
            && next.zxid > before.zxid;
        if joins {
            std::mem::swap(next, before);
        }
        joins
    });
}

/// The tree's zxid. `tree`: the tree, if the caller has locked it.
fn last_zxid<S: crate::Side>(common: &Common<S>, tree: Option<&Tree>) -> Zxid {
    match tree {
        Some(tree) => tree.last_zxid(),
        None => common.tree.read().last_zxid(),
    }
}

/// Serves clients in `mode`, or disconnects all of them.
fn serve<W: World>(common: &Common<W::Side>, world: &mut W, mode: Option<Mode>) {
    world.serve(common, mode);
    if mode.is_none() {
        common.close_clients();
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::Epoch;
    use zebu_proto::quorum::QuorumPacket;
    use zebu_zab::LinkId;

    use super::*;

    #[test]
    fn the_last_acknowledgement_of_a_learner_stands_for_those_before_it() {
        let of = |link: u64, kind, epoch, counter| {
            let zxid = Zxid::new(Epoch(epoch), counter);
            Input::Zab(zebu_zab::Input::Packet(LinkId(link), QuorumPacket::new(kind, zxid)))
        };
        let ack = |link, epoch, counter| of(link, PacketKind::ACK, epoch, counter);
        let mut inputs = vec![
            ack(1, 1, 0), // ends the synchronization
            ack(1, 1, 1),
            ack(1, 1, 2),
            ack(1, 1, 5),
            ack(2, 1, 6), // of another learner
            ack(2, 1, 7),
            of(2, PacketKind::REQUEST, 1, 8),
            ack(2, 1, 8),
            ack(2, 1, 8), // not newer
            ack(2, 2, 9), // of another epoch
            Input::Tick,
            ack(2, 2, 10),
        ];
        join_acknowledgements(&mut inputs);
        let left: Vec<_> = inputs
            .iter()
            .map(|input| match input {
                Input::Zab(zebu_zab::Input::Packet(link, packet)) => {
                    Some((link.0, packet.zxid.epoch().0, packet.zxid.counter()))
                }
                _ => None,
            })
            .collect();
        let acks = |link, epoch, counter| Some((link, epoch, counter));
        assert_eq!(
            left,
            [
                acks(1, 1, 0),
                acks(1, 1, 5),
                acks(2, 1, 7),
                acks(2, 1, 8),
                acks(2, 1, 8),
                acks(2, 1, 8),
                acks(2, 2, 9),
                None,
                acks(2, 2, 10),
            ]
        );
    }
}
