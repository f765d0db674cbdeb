//! A member of an ensemble: how it handles clients as a leader and as a learner.
//!
//! The leader orders the requests of its own clients and those that learners forward. A learner
//! forwards requests and answers them when their transactions arrive. Forwarded requests return in
//! the order they were sent, so the learner keeps one FIFO queue: a returning transaction belongs
//! to its front, or to another server.
//! Source: `quorum-sync-broadcast.md` §6.4 and §7, `LearnerHandler`, `LearnerSessionTracker`.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::Decoder;
use zebu_proto::quorum::{
    self, PacketKind, QuorumPacket, TOUCH_BYTES, decode_touches, encode_touches,
};
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, Id, OpCode, SessionId, Xid, Zxid};
use zebu_tree::Tree;
use zebu_zab::{Leave, LinkId, Peer, Role, Up};

use crate::ConnId;
use crate::faults;
use crate::io::{Now, Options, Origin, Output, Request};
use crate::lag::Lag;
use crate::outstanding::Outstanding;
use crate::prep::Malformed;
use crate::renewal::{Answers, Client, Revalidating, has_moved};
use crate::replica::{Fatal, Order, Replica, Then, Work, World, is_ordered, zxid_of};
use crate::sessions::{Expiry, Owner, Sessions};
use crate::touched::Touched;

/// Whether and how clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    Nobody,
    /// Only read-only clients, while there is no leader.
    Readers,
    /// In this role, once the tree has reached this zxid.
    Soon(Role, Zxid),
    As(Role),
}

/// A request that waits until the leader has confirmed that it still leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Syncing {
    Here,
    Learner(LinkId),
    /// Refusal of a client whose session this leader does not know. A leader that was replaced
    /// without noticing must not refuse newer sessions.
    Refused(ConnId),
    /// The same for a client of a learner.
    Invalid(LinkId, SessionId),
}

/// The ensemble's view of this server.
#[derive(Debug)]
pub(crate) struct Ensemble {
    pub(crate) peer: Peer,
    pub(crate) serving: Serving,
    /// Since when it has been looking for a leader.
    pub(crate) looking_since: Option<Duration>,
    /// Packets received before this server was ready for them.
    early: VecDeque<Up>,
    pub(crate) revalidating: VecDeque<Revalidating>,
    /// At a leader: outstanding answers to session renewals.
    pub(crate) answers: Answers,
    syncing: VecDeque<(u64, Syncing)>,
    /// At a follower: requests for which the leader was asked to sync, in order.
    pub(crate) syncs_asked: VecDeque<Syncing>,
    next_token: u64,
    /// Since when the front of the forwarding queue has been overtaken by a transaction that looks
    /// like a later request.
    pub(crate) overtaken_since: Option<Duration>,
    /// At a learner: how far applying is behind.
    pub(crate) lag: Lag,
    /// Outputs of the peer during a step; kept for its capacity.
    pub(crate) asked: Vec<zebu_zab::Output>,
    /// Sessions with signs of life since the leader last asked.
    touched: Touched,
}

impl Ensemble {
    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self) {
        let role = self.role();
        let forwards = matches!(role, Role::Following(_) | Role::Observing(_));
        let leads = matches!(role, Role::Leading(_));
        assert!(role == Role::Looking || self.early.is_empty(), "{role:?}, and has not listened");
        assert!(leads || self.syncing.is_empty(), "{role:?}, and asks whether it leads");
        assert!(leads || self.answers.is_empty(), "{role:?}, and owes a leader's answers");
        assert!(forwards || self.revalidating.is_empty(), "{role:?}, and asks for renewals");
        assert!(forwards || self.syncs_asked.is_empty(), "{role:?}, and asks for syncs");
        assert!(forwards || self.overtaken_since.is_none(), "{role:?}, and forwards");
        assert!(self.asked.is_empty(), "the peer asks for something, and nobody does it");
        // Tokens are issued and returned in sequence.
        if let (Some((first, _)), Some((last, _))) = (self.syncing.front(), self.syncing.back()) {
            assert_eq!(last + 1, self.next_token, "another token is the last");
            assert_eq!(first + self.syncing.len() as u64, self.next_token, "a token is missing");
        }
        if cfg!(debug_assertions) {
            self.answers.check();
        }
    }

    fn role(&self) -> Role {
        match self.serving {
            Serving::As(role) => role,
            _ => Role::Looking,
        }
    }

    /// Notes a sign of life of a session of this server's clients.
    pub(crate) fn touched(&mut self, session: SessionId, timeout_ms: i32) {
        if matches!(self.role(), Role::Following(_) | Role::Observing(_)) {
            self.touched.add(session, timeout_ms);
        }
    }
}

impl Replica {
    /// Creates a member of an ensemble whose tree has just been recovered.
    ///
    /// It serves no clients until it follows or is a leader.
    ///
    /// # Panics
    /// If the options contradict themselves, such as a tick of zero.
    pub fn member(options: Options, peer: Peer, tree: &Tree, now: Now) -> Self {
        let ensemble = Ensemble {
            peer,
            serving: Serving::Nobody,
            looking_since: None,
            early: VecDeque::new(),
            revalidating: VecDeque::new(),
            answers: Answers::default(),
            overtaken_since: None,
            lag: Lag::default(),
            syncing: VecDeque::new(),
            syncs_asked: VecDeque::new(),
            next_token: 0,
            touched: Touched::default(),
            asked: Vec::new(),
        };
        Self::with_order(options, Order::Ensemble(Box::new(ensemble)), tree, now)
    }

    /// The peer in the ensemble; `None` for a standalone server.
    pub fn peer(&self) -> Option<&Peer> {
        match &self.order {
            Order::Alone { .. } => None,
            Order::Ensemble(ensemble) => Some(&ensemble.peer),
        }
    }

    /// The role of this server; `None` for a standalone server.
    pub fn role(&self) -> Option<Role> {
        match &self.order {
            Order::Alone { .. } => None,
            Order::Ensemble(ensemble) => Some(ensemble.role()),
        }
    }

    /// Number of syncs waiting until this leader has confirmed that it leads.
    pub fn pending_syncs(&self) -> usize {
        match &self.order {
            Order::Alone { .. } => 0,
            Order::Ensemble(ensemble) => ensemble.syncing.len(),
        }
    }

    pub(crate) fn ensemble(&mut self) -> &mut Ensemble {
        match &mut self.order {
            Order::Ensemble(ensemble) => ensemble,
            Order::Alone { .. } => unreachable!("a server alone has no peers"),
        }
    }

    /// Whether this server takes part in ordering.
    pub(crate) fn serves(&self) -> bool {
        self.role() != Some(Role::Looking)
    }

    /// Whether a client may connect.
    pub(crate) fn admits(&self, only_reads: bool) -> bool {
        match &self.order {
            Order::Alone { .. } => true,
            Order::Ensemble(ensemble) => match ensemble.serving {
                Serving::As(Role::Leading(_)) => self.options.member.leader_serves,
                Serving::As(_) => true,
                Serving::Readers => only_reads,
                Serving::Nobody | Serving::Soon(..) => false,
            },
        }
    }

    /// Whether this server expires global sessions.
    pub(crate) fn tracks_sessions(&self) -> bool {
        matches!(self.role(), None | Some(Role::Leading(_)))
    }

    /// Whether another server orders this server's requests.
    pub(crate) fn forwards(&self) -> bool {
        matches!(self.role(), Some(Role::Following(_) | Role::Observing(_)))
    }

    /// Whether a sync must ask other servers.
    pub(crate) fn synchronizes(&self) -> bool {
        self.role().is_some()
    }

    // ---- what happens between servers

    pub(crate) fn zab(
        &mut self,
        world: World<'_>,
        input: zebu_zab::Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let remade = matches!(
            input,
            zebu_zab::Input::Truncated { .. }
                | zebu_zab::Input::Reloaded { .. }
                | zebu_zab::Input::Restored { .. }
        );
        if remade {
            self.applied = world.tree.last_zxid();
            (self.committed, self.handed_out) = (self.applied, self.applied);
        }
        let ensemble = self.ensemble();
        let mut asked = std::mem::take(&mut ensemble.asked);
        ensemble.peer.step(world.now.monotonic, input, &mut asked);
        self.obey(world, asked, out)
    }

    pub(crate) fn zab_tick(
        &mut self,
        world: World<'_>,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        match &self.order {
            Order::Ensemble(ensemble) if ensemble.peer.deadline() <= world.now.monotonic => {
                self.zab(world, zebu_zab::Input::Tick, out)
            }
            _ => Ok(()),
        }
    }

    /// Ends this server's role. False for a standalone server.
    pub(crate) fn resign(&mut self, world: World<'_>, why: Leave, out: &mut Vec<Output>) -> bool {
        let Order::Ensemble(ensemble) = &mut self.order else { return false };
        let mut asked = Vec::new();
        ensemble.peer.resign(world.now.monotonic, why, &mut asked);
        // A leader that has resigned proposes nothing.
        self.obey(world, asked, out).is_ok()
    }

    /// Carries out those outputs of the peer that concern transactions and clients.
    ///
    /// It carries out all of them, even after an error: the peer relies on that, above all on
    /// delivered transactions reaching the tree.
    pub(crate) fn obey(
        &mut self,
        world: World<'_>,
        mut asked: Vec<zebu_zab::Output>,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let mut done = Ok(());
        let mut is_lost = false;
        for output in asked.drain(..) {
            let obeyed = match output {
                zebu_zab::Output::Append { zxid, record } => {
                    // Records received during synchronization count too.
                    self.snapshots.count(1, record.len() as u64);
                    out.push(Output::Append { zxid, record });
                    if self.serves() && self.snapshots.starts(world.tree) {
                        out.push(Output::Snapshot);
                    }
                    Ok(())
                }
                zebu_zab::Output::Deliver { zxid, record } => {
                    self.deliver(world.now.monotonic, zxid, record, out).map(|lost| is_lost |= lost)
                }
                zebu_zab::Output::Role(role) => self.change_role(world, role, out),
                zebu_zab::Output::Up(up) => self.up(world, up, out),
                output => {
                    out.push(Output::Zab(output));
                    Ok(())
                }
            };
            done = done.and(obeyed);
        }
        let ensemble = self.ensemble();
        ensemble.asked = asked;
        if !ensemble.answers.is_empty() {
            self.answer_renewals(out);
        }
        if is_lost && self.forwards() {
            self.resign(world, Leave::RequestLost, out);
        }
        done
    }

    // ---- roles

    fn change_role(
        &mut self,
        world: World<'_>,
        role: Role,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        if role != Role::Looking {
            self.dismiss_readers(out);
            let ensemble = self.ensemble();
            ensemble.serving = Serving::Soon(role, ensemble.peer.committed());
            return self.begin(world, out);
        }
        self.serve_nobody(out);
        self.handed_over(out);
        out.push(Output::Zab(zebu_zab::Output::Role(role)));
        Ok(())
    }

    /// Ends all work for clients.
    pub(crate) fn serve_nobody(&mut self, out: &mut Vec<Output>) {
        for work in std::mem::take(&mut self.work) {
            let origin = match work {
                Work::Txn { origin, .. } | Work::Forwarded { origin, .. } => origin,
                Work::Sync { request, .. } | Work::Answer(request) => Some(request.origin()),
                Work::Reply { origin, .. } | Work::Abandon(origin) => Some(origin),
                Work::End { origin, .. } => origin,
            };
            out.extend(origin.map(Output::Abandon));
        }
        self.sessions = Sessions::new(self.options.tick, Expiry::Local);
        self.outstanding = Outstanding::new(self.options.rules.digest);
        let ensemble = self.ensemble();
        ensemble.serving = Serving::Nobody;
        ensemble.early.clear();
        for (_, syncing) in ensemble.syncing.drain(..) {
            if let Syncing::Refused(conn) = syncing {
                out.push(Output::Disconnect(conn));
            }
        }
        ensemble.answers.clear();
        ensemble.syncs_asked.clear();
        ensemble.overtaken_since = None;
        ensemble.lag = Lag::default();
        ensemble.touched.clear();
        for waiting in std::mem::take(&mut ensemble.revalidating) {
            if let Client::Here(conn) = waiting.client {
                out.push(Output::Disconnect(conn));
            }
        }
    }

    /// Starts to serve once the tree has reached the required zxid.
    pub(crate) fn begin(&mut self, world: World<'_>, out: &mut Vec<Output>) -> Result<(), Fatal> {
        let applied = self.applied;
        let Order::Ensemble(ensemble) = &mut self.order else { return Ok(()) };
        let Serving::Soon(role, needed) = ensemble.serving else { return Ok(()) };
        if applied < needed {
            return Ok(());
        }
        ensemble.serving = Serving::As(role);
        let early = std::mem::take(&mut ensemble.early);
        if let Role::Leading(_) = role {
            self.track_all_sessions(world.tree, world.now);
            self.reaper.leads(world.tree, world.now);
        }
        out.push(Output::Zab(zebu_zab::Output::Role(role)));
        if self.snapshots.serves() {
            out.push(Output::Snapshot);
        }
        if let Role::Leading(_) = role {
            self.end_orphans(world, out)?;
        }
        for up in early {
            self.up(world, up, out)?;
        }
        Ok(())
    }

    /// Closes sessions that own ephemerals but are not in the session table, as older servers may
    /// have left them. Uses transactions, so that all servers do it at the same zxid
    /// (ZOOKEEPER-5010).
    fn end_orphans(&mut self, world: World<'_>, out: &mut Vec<Output>) -> Result<(), Fatal> {
        let tree = world.tree;
        let is_orphan = |session: &SessionId| tree.session_timeout(*session).is_none();
        let mut orphans: Vec<_> = tree.sessions_with_ephemerals().filter(is_orphan).collect();
        orphans.sort_unstable();
        for session in orphans {
            self.lighten(world, session, out)?;
            let mut prep = self.prep(world, &[], session, 0)?;
            let txn = prep.close_session();
            let record = prep.own(OpCode::CLOSE_SESSION, &txn);
            self.append(world, record, None, Then::Nothing, out)?;
        }
        Ok(())
    }

    // ---- transactions

    /// Orders a transaction.
    pub(crate) fn propose(
        &mut self,
        world: World<'_>,
        record: Bytes,
        origin: Option<Origin>,
        then: Then,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let ensemble = self.ensemble();
        let mut asked = std::mem::take(&mut ensemble.asked);
        let zxid = ensemble.peer.propose(world.now.monotonic, record.clone(), &mut asked);
        debug_assert_eq!(zxid_of(&record), Some(zxid), "made for another place");
        self.work.push_back(Work::Txn { zxid, record, origin, then });
        self.obey(world, asked, out)
    }

    // ---- at a learner

    pub(crate) fn send_to_leader(&mut self, packet: QuorumPacket, out: &mut Vec<Output>) {
        let ensemble = self.ensemble();
        ensemble.peer.send_to_leader(packet, &mut ensemble.asked);
        out.extend(ensemble.asked.drain(..).map(Output::Zab));
    }

    /// Answers a sync once everything is applied that was committed before the sync reached the
    /// leader.
    pub(crate) fn sync(&mut self, world: World<'_>, request: Request, out: &mut Vec<Output>) {
        if faults::stale_sync() {
            return self.later(Work::Answer(request), out);
        }
        if self.forwards() {
            let Request { session, xid, op, body, ids, .. } = request.clone();
            self.work.push_back(Work::Sync { request, until: None });
            let forwarded = quorum::Request { session, cxid: xid, op, body };
            self.ensemble().syncs_asked.push_back(Syncing::Here);
            return self.send_request(forwarded, Some(ids), out);
        }
        self.work.push_back(Work::Sync { request, until: None });
        self.confirm(world, Syncing::Here, out);
    }

    /// Lets a waiting sync continue once everything up to `until` is committed here.
    fn release_sync(&mut self, until: Zxid, out: &mut Vec<Output>) {
        let waiting = self.work.iter_mut().find_map(|work| match work {
            Work::Sync { until: until @ None, .. } => Some(until),
            _ => None,
        });
        if let Some(waiting) = waiting {
            *waiting = Some(until);
        }
        self.advance(out);
    }

    fn leader_says(&mut self, world: World<'_>, packet: QuorumPacket, out: &mut Vec<Output>) {
        match packet.kind {
            PacketKind::SYNC => {
                // The answers arrive in the order of the questions and carry no identification.
                if let Some(Syncing::Learner(link)) = self.ensemble().syncs_asked.pop_front() {
                    return self.send_to_learner(link, packet, out);
                }
                let mut until = self.ensemble().peer.committed();
                if faults::sync_answered_before_it_is_applied() {
                    until = Zxid::ZERO;
                }
                self.release_sync(until, out);
            }
            PacketKind::REVALIDATE => self.renewed(world, packet, out),
            _ => {}
        }
    }

    // ---- at a leader

    fn up(&mut self, world: World<'_>, up: Up, out: &mut Vec<Output>) -> Result<(), Fatal> {
        let touches_max = self.options.rules.record_bytes_max / TOUCH_BYTES;
        let ensemble = self.ensemble();
        match (up, ensemble.role()) {
            (Up::Ping(mut packet), _) => {
                let mut touched = ensemble.touched.take(touches_max);
                if faults::touches_not_relayed() {
                    touched.clear();
                }
                packet.data = Some(encode_touches(touched));
                self.send_to_leader(packet, out);
                Ok(())
            }
            (up, Role::Looking) => {
                ensemble.early.push_back(up);
                Ok(())
            }
            (Up::FromLeader(packet), _) => {
                self.leader_says(world, packet, out);
                Ok(())
            }
            (Up::FromLearner(link, packet), _) => self.learner_says(world, link, packet, out),
            (Up::Confirmed(token), _) => {
                let Some((confirmed, syncing)) = ensemble.syncing.pop_front() else {
                    return Ok(());
                };
                assert_eq!(confirmed, token, "tokens come back in order");
                match syncing {
                    Syncing::Here => self.release_sync(Zxid::ZERO, out),
                    Syncing::Learner(link) => {
                        let packet = QuorumPacket::new(PacketKind::SYNC, Zxid::ZERO);
                        self.send_to_learner(link, packet, out);
                    }
                    Syncing::Refused(conn) => out.push(Output::Refuse(conn)),
                    Syncing::Invalid(link, session) => self.is_over(link, session, out),
                }
                Ok(())
            }
        }
    }

    /// Refuses a client whose session has expired, once this server has confirmed that it still
    /// leads.
    pub(crate) fn refuse(&mut self, world: World<'_>, conn: ConnId, out: &mut Vec<Output>) {
        if matches!(self.role(), Some(Role::Leading(_))) {
            self.confirm(world, Syncing::Refused(conn), out);
        } else {
            out.push(Output::Refuse(conn));
        }
    }

    pub(crate) fn confirm(&mut self, world: World<'_>, syncing: Syncing, out: &mut Vec<Output>) {
        let ensemble = self.ensemble();
        let token = ensemble.next_token;
        ensemble.next_token += 1;
        ensemble.syncing.push_back((token, syncing));
        let mut asked = Vec::new();
        ensemble.peer.confirm(world.now.monotonic, token, &mut asked);
        // None of these outputs orders a transaction.
        let _ = self.obey(world, asked, out);
    }

    pub(crate) fn send_to_learner(
        &mut self,
        link: LinkId,
        packet: QuorumPacket,
        out: &mut Vec<Output>,
    ) {
        let ensemble = self.ensemble();
        ensemble.peer.send_to_learner(link, packet, &mut ensemble.asked);
        out.extend(ensemble.asked.drain(..).map(Output::Zab));
    }

    fn learner_says(
        &mut self,
        world: World<'_>,
        link: LinkId,
        packet: QuorumPacket,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        if self.forwards() {
            self.relay(world, link, packet, out);
            return Ok(());
        }
        let now = world.now.monotonic;
        match packet.kind {
            PacketKind::PING => {
                for touch in decode_touches(packet.data.as_deref()).unwrap_or_default() {
                    self.sessions.touch(touch.session, now);
                }
                Ok(())
            }
            PacketKind::REVALIDATE => {
                self.answer_renewal(world, link, &packet, out);
                Ok(())
            }
            PacketKind::REQUEST => {
                let ids = packet.authinfo.unwrap_or_default();
                match quorum::Request::decode(&packet.data.unwrap_or_default()) {
                    Ok(request) => self.order_for(world, link, request, &ids, out),
                    Err(_) => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// At a follower: forwards an observer's packets to the leader as its own. Packets whose
    /// answers identify their recipient need no record; the others are remembered.
    /// Source: `ObserverMaster`.
    fn relay(
        &mut self,
        world: World<'_>,
        link: LinkId,
        packet: QuorumPacket,
        out: &mut Vec<Output>,
    ) {
        match packet.kind {
            PacketKind::PING => {
                for touch in decode_touches(packet.data.as_deref()).unwrap_or_default() {
                    self.ensemble().touched(touch.session, touch.timeout_ms);
                }
            }
            PacketKind::REVALIDATE => self.relay_renewal(link, packet, out),
            PacketKind::REQUEST => {
                let data = packet.data.clone().unwrap_or_default();
                let Ok(request) = quorum::Request::decode(&data) else { return };
                if request.op == OpCode::SYNC {
                    self.ensemble().syncs_asked.push_back(Syncing::Learner(link));
                }
                let packet = self.relayed_request(world, link, &request, packet);
                self.send_to_leader(packet, out);
            }
            _ => {}
        }
    }

    /// Orders a request of a learner's client. Even an invalid request gets a transaction, because
    /// the learner waits for one.
    fn order_for(
        &mut self,
        world: World<'_>,
        link: LinkId,
        request: quorum::Request,
        ids: &[Id],
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        if self.retirement.is_asked() {
            // The learner's connection ends soon, and all requests waiting on it.
            return Ok(());
        }
        let quorum::Request { session, cxid: Xid(cxid), op, body } = request;
        let owner = Owner::Link(link);
        if op == OpCode::CREATE_SESSION {
            let Ok(timeout_ms) = Decoder::new(&body).int() else {
                return self.fail(world, session, cxid, None, ErrorCode::MARSHALLING_ERROR, out);
            };
            if self.sessions.get(session).is_some_and(|live| live.closing) {
                return self.fail(world, session, cxid, None, ErrorCode::SESSION_EXPIRED, out);
            }
            let mut prep = self.prep(world, &[], session, cxid)?;
            let record = prep.own(op, &Txn::CreateSession { timeout_ms });
            self.sessions.add(session, timeout_ms, Some(owner), world.now.monotonic);
            return self.append(world, record, None, Then::Nothing, out);
        }
        if op == OpCode::SYNC {
            self.confirm(world, Syncing::Learner(link), out);
            return Ok(());
        }
        let live = self.sessions.get(session).copied();
        let may_move = faults::moved_session_ordered();
        let may_write = faults::closing_session_writes();
        let refusal = match live {
            None if !self.is_local_elsewhere(session) => Some(ErrorCode::SESSION_EXPIRED),
            Some(live) if live.closing && op != OpCode::CLOSE_SESSION && !may_write => {
                Some(ErrorCode::SESSION_EXPIRED)
            }
            Some(_) if !may_move && self.sessions.claim(session, owner) != Some(owner) => {
                Some(ErrorCode::SESSION_MOVED)
            }
            _ if has_moved(ids) => Some(ErrorCode::SESSION_MOVED),
            _ if !is_ordered(op) => Some(ErrorCode::UNIMPLEMENTED),
            _ => None,
        };
        if let Some(code) = refusal {
            return self.fail(world, session, cxid, None, code, out);
        }
        self.sessions.touch(session, world.now.monotonic);
        if op == OpCode::CLOSE_SESSION {
            self.lighten(world, session, out)?;
        }
        let mut prep = self.prep(world, ids, session, cxid)?;
        match prep.record(op, &body) {
            Ok(record) => {
                let then = self.ends(op, session);
                self.append(world, record, None, then, out)
            }
            Err(Malformed) => {
                self.fail(world, session, cxid, None, ErrorCode::MARSHALLING_ERROR, out)
            }
        }
    }
}
