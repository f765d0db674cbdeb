//! The simulator's side of an engine: the work of a server's threads, as events.

use std::time::Duration;

use bytes::Bytes;
use zebu_engine::journal::{Job, Order, Records};
use zebu_engine::{AppliedTxn, Common, Conn, Failed, Mode, TurnEvents};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_replica::{Fatal, Input, NotHandedOver, Now, Output, Replica};
use zebu_state::Copied;
use zebu_tree::Tree;
use zebu_zab::{LinkId, Role, TreeDigest};

use crate::conn::Side;
use crate::server::Process;
use crate::world::World;

/// One turn of a server, or a part of it.
pub(crate) struct Driver<'w> {
    world: &'w mut World,
    server: usize,
    number: u64,
    /// The number of outputs after which the turn pauses.
    most: usize,
    /// Whether the turn has paused, so that others may look at the tree.
    is_paused: bool,
}

impl<'w> Driver<'w> {
    pub(crate) fn new(world: &'w mut World, server: usize, number: u64) -> Self {
        let short = world.random.one_in(8);
        let most = if short { world.random.between(1, 3) as usize } else { usize::MAX };
        Self { world, server, number, most, is_paused: false }
    }

    fn process(&self) -> &Process {
        self.world.servers[self.server].process.as_ref().expect("it has a turn")
    }

    fn process_mut(&mut self) -> &mut Process {
        self.world.servers[self.server].process.as_mut().expect("it has a turn")
    }
}

impl zebu_engine::World for Driver<'_> {
    type Side = Side;

    fn now(&self) -> Now {
        self.world.servers[self.server].clock(self.world.now)
    }

    fn peers_listened(&self) -> Option<Duration> {
        self.world.servers[self.server].has_read_until(self.world.now)
    }

    fn goes_on(&mut self) -> bool {
        !std::mem::take(&mut self.is_paused) && !self.world.random.one_in(4)
    }

    fn is_enough(&mut self, outputs: usize) -> bool {
        outputs >= self.most
    }

    fn replica(&self) -> &Replica {
        &self.process().replica
    }

    fn replica_mut(&mut self) -> &mut Replica {
        &mut self.process_mut().replica
    }

    fn step(
        &mut self,
        now: Now,
        common: &Common<Side>,
        tree: &Tree,
        input: Input,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let server = self.server;
        let is_greeting = matches!(input, Input::Connect(_));
        self.world.checks.input(server, &self.world.servers[server], &input);
        let before = outputs.len();
        let stepped = self.replica_mut().step(now, tree, &common.schemes, input, outputs);
        let World { checks, servers, .. } = &mut *self.world;
        for output in &outputs[before..] {
            if let Output::Accept { session, timeout_ms, .. } = output {
                checks.attached(server, *session, *timeout_ms, is_greeting);
            }
        }
        checks.decided(server, &servers[server], &outputs[before..]);
        if stepped.is_ok() {
            checks.stepped(server, &servers[server]);
        }
        stepped
    }

    fn order(&mut self, order: Order) -> Result<(), Failed> {
        if let Order::Member(Job::Truncate(zxid)) = &order {
            self.world.checks.truncate(self.server, *zxid);
        }
        if let Order::Member(Job::SaveEpoch(kind, epoch)) = &order {
            let World { checks, servers, .. } = &mut *self.world;
            checks.saves_epoch(self.server, &servers[self.server], *kind, *epoch);
        }
        if matches!(order, Order::Member(Job::Reload)) {
            self.world.reached("voter goes back to what its disk has");
        }
        self.world.order(self.server, order);
        Ok(())
    }

    fn append_now(&mut self, _: &mut Records) -> Result<Option<Zxid>, Failed> {
        unreachable!("a member leaves this to its log thread")
    }

    fn snapshot(&mut self, _: &Common<Side>) {
        self.world.begin_snapshot(self.server);
    }

    fn send(&mut self, link: LinkId, packet: QuorumPacket) {
        self.world.send_packet(self.server, link, packet);
    }

    fn network(&mut self, output: zebu_zab::Output) -> Result<(), Failed> {
        self.world.network(self.server, self.number, output);
        Ok(())
    }

    fn take_copy(&mut self, link: LinkId) -> Option<Box<Copied>> {
        let server = self.server;
        let Some((copied, fuzzy)) = self.world.take_copy(server, link) else {
            self.world.checks.found(format!(
                "liveness: server {server}: the leader's tree is no longer available"
            ));
            return None;
        };
        self.process_mut().restoring.push_back((link, fuzzy));
        Some(Box::new(copied))
    }

    fn serve(&mut self, common: &Common<Side>, mode: Option<Mode>) {
        common.serve(self.now().monotonic, || mode);
    }

    fn retired(&mut self) {
        self.world.retired(self.server, self.number);
    }

    fn handed_over(&mut self, result: Result<ServerId, NotHandedOver>) {
        self.world.handed_over(self.server, result);
    }
}

impl TurnEvents<Side> for Driver<'_> {
    fn paused(&mut self) {
        self.is_paused = true;
    }

    fn appends(&mut self, _: Now, zxid: Zxid, record: &Bytes) {
        let server = self.server;
        self.world.trace(server as u64 ^ 1 << 40, zxid.0 as u64);
        self.world.checks.append(server, &self.world.servers[server], zxid, record);
    }

    fn applied(&mut self, _: Now, what: &AppliedTxn<'_>) {
        let (server, zxid) = (self.server, what.zxid);
        self.world.trace(server as u64 ^ 2 << 40, zxid.0 as u64);
        let candidate = self.process().replica.peer().is_some_and(|peer| {
            peer.leads().is_none() && peer.state() == zebu_zab::election::State::Leading
        });
        self.world.checks.applied(server, what.before, what.bytes, what.tree, candidate);
        if !what.applied.digest_matches {
            let what = format!("S-10: server {server} has another digest than {zxid} says");
            self.world.checks.found(what);
        }
    }

    fn accepted(&mut self, conn: &Conn<Side>, _: SessionId, zxid: Zxid) {
        if self.process().only_reads {
            self.world.checks.shows(conn.side.connection, zxid);
        }
    }

    fn role(&mut self, role: Role) {
        self.world.change_role(self.server, role);
    }

    fn doubts(&mut self, since: Option<TreeDigest>) {
        self.world.tell(|| format!("server {} doubts its tree: {since:?}", self.server));
        self.world.reached("tree doubted");
    }

    fn serves_readers(&mut self, on: bool) {
        self.process_mut().only_reads = on;
    }
}
