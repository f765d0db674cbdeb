//! One member: its replica, and the engine that drives it.

use std::sync::Arc;
use std::time::Duration;

use zebu_engine::journal::{Job, Order, Records};
use zebu_engine::{
    ClientRules, Common, Engine, EngineOptions, Failed, Mode, Turn, TurnEvents, World,
};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{Epoch, Identity, ServerId, SessionId, Zxid};
use zebu_replica::auth::Schemes;
use zebu_replica::{Input, MemberOptions, Now, Options, Replica, Rules};
use zebu_state::Copied;
use zebu_testkit::client::Side;
use zebu_tree::Tree;
use zebu_zab::config::Membership;
use zebu_zab::{Epochs, LinkId, Peer, Start};

use super::TICK;

/// A member of the ensemble.
pub(super) struct Member {
    pub(super) common: Common<Side>,
    pub(super) desk: Desk,
    engine: Engine<Side>,
    /// Whether it accepts connections as a leader.
    pub(super) listens: bool,
}

/// What the engine works with.
pub(super) struct Desk {
    pub(super) replica: Replica,
    now: Now,
    /// The reports of its disk, while that stands still.
    pub(super) unfinished: Option<Vec<zebu_zab::Input>>,
    /// The reports of its disk.
    finished: Vec<Input>,
    /// What it asks the network for.
    asked: Vec<Asked>,
}

/// What a member asks the network for.
pub(super) enum Asked {
    Send(LinkId, QuorumPacket),
    Network(zebu_zab::Output),
}

fn options(server: ServerId, member: MemberOptions) -> Options {
    Options {
        server,
        first_session: SessionId::first(server, 1_700_000_000_000),
        tick: TICK,
        rules: Rules { reconfig: true, ..Rules::default() },
        member,
        ..zebu_testkit::alone::options()
    }
}

impl Member {
    /// The member with this index, which has no data yet.
    pub(super) fn new(
        index: usize,
        config: Arc<Membership>,
        member: &MemberOptions,
        now: Now,
    ) -> Self {
        let server = ServerId(index as i64 + 1);
        let start = Start {
            epochs: Epochs { accepted: Epoch(0), current: Epoch(0) },
            committed: config.clone(),
            last_seen: None,
            last: Zxid::ZERO,
            recent: Vec::new(),
            certain: Zxid::ZERO,
            assumed_new: false,
            has_database: true,
            identity: Identity::Unknown,
        };
        let mut zab = zebu_zab::Options::new(server);
        zab.tick = TICK;
        zab.reconfig = true;
        let tree = Tree::new(zebu_tree::Options::default());
        let peer = Peer::new(zab, start);
        let replica = Replica::member(options(server, member.clone()), peer, &tree, now);
        let engine = EngineOptions {
            members: Some(config),
            reconfig: true,
            leader_serves: member.leader_serves,
            syncs_itself: false,
        };
        let schemes = Arc::new(Schemes::new(vec![], false));
        let (finished, asked) = (Vec::new(), Vec::new());
        Self {
            common: Common::new(tree, schemes, ClientRules::default()),
            desk: Desk { replica, now, unfinished: None, finished, asked },
            engine: Engine::new(engine, now.monotonic),
            listens: false,
        }
    }

    /// Whether something has arrived that it has not looked at.
    pub(super) fn has_inputs(&self) -> bool {
        !self.common.inbox.is_empty()
    }

    /// When it takes a turn without inputs.
    pub(super) fn next(&self) -> Duration {
        self.engine.next(&self.desk.replica)
    }

    /// Takes a turn; says what it asks the network for.
    pub(super) fn turn(&mut self, now: Now) -> Vec<Asked> {
        self.desk.now = now;
        let done = self.engine.turn(&self.common, &mut self.desk).expect("it can continue");
        assert_eq!(done, Turn::Done, "it never pauses");
        self.common.inbox.push_all(&mut self.desk.finished);
        std::mem::take(&mut self.desk.asked)
    }
}

impl TurnEvents<Side> for Desk {}

impl World for Desk {
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
                let Some((last, _)) = records.last() else { return Ok(()) };
                let flushed = zebu_zab::Input::Flushed(*last);
                match &mut self.unfinished {
                    Some(unfinished) => unfinished.push(flushed),
                    None => self.finished.push(Input::Zab(flushed)),
                }
            }
            Order::Member(Job::SaveEpoch(kind, epoch)) => {
                self.finished.push(Input::Zab(zebu_zab::Input::EpochSaved(kind, epoch)));
            }
            Order::Member(Job::Config(_) | Job::Identity(_) | Job::Committed(_)) | Order::Roll => {}
            Order::Member(other) => panic!("not among these members: {other:?}"),
        }
        Ok(())
    }

    fn append_now(&mut self, _records: &mut Records) -> Result<Option<Zxid>, Failed> {
        unreachable!("a turn of a member syncs nothing")
    }

    fn snapshot(&mut self, _common: &Common<Side>) {
        self.finished.push(Input::SnapshotDone);
    }

    fn send(&mut self, link: LinkId, packet: QuorumPacket) {
        self.asked.push(Asked::Send(link, packet));
    }

    fn network(&mut self, output: zebu_zab::Output) -> Result<(), Failed> {
        self.asked.push(Asked::Network(output));
        Ok(())
    }

    fn take_copy(&mut self, _link: LinkId) -> Option<Box<Copied>> {
        None
    }

    fn serve(&mut self, common: &Common<Side>, mode: Option<Mode>) {
        common.serve(self.now.monotonic, || mode);
    }

    fn retired(&mut self) {
        unreachable!("nobody is asked to stop here")
    }
}
