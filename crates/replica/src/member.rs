//! A server of an ensemble: what it does about clients as a leader and as a learner.
//!
//! A leader orders what its own clients ask for and what learners forward. A learner forwards, and
//! knows its request again when the transaction comes back. Everything a learner forwards takes one
//! way there and back, in order, so what waits here is one queue: whatever comes back belongs to its
//! front, or to another server.
//!
//! Source: `quorum-sync-broadcast.md` §6.4 and §7, `LearnerHandler`, `LearnerSessionTracker`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode as _, Decoder, Encode as _};
use zebu_proto::quorum::{
    self, NO_ZXID, PacketKind, QuorumPacket, Revalidate, Revalidated, Touch, decode_touches,
    encode_touches,
};
use zebu_proto::txn::{Txn, TxnHeader};
use zebu_proto::{ErrorCode, Id, OpCode, SessionId, Xid, Zxid};
use zebu_tree::Tree;
use zebu_zab::{LinkId, Peer, Role, Up};

use crate::ConnId;
use crate::io::{Now, Options, Origin, Output, Request};
use crate::outstanding::Outstanding;
use crate::prep::{Malformed, well_formed};
use crate::reaper::Reaper;
use crate::replica::{Fatal, Order, Replica, Then, Work, World, accept, is_ordered};
use crate::sessions::{Expiry, Owner, Session, Sessions};

/// How long a forwarded request may be overtaken before the leader counts as having lost it.
const OVERTAKEN_MAX: Duration = Duration::from_secs(10);

/// Whether clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    Nobody,
    /// Those who only read, while there is no leader.
    Readers,
    /// In this role, once the tree has got that far.
    Soon(Role, Zxid),
    As(Role),
}

/// Somebody who waits for the leader's word on a session.
#[derive(Debug)]
struct Revalidating {
    client: Client,
    session: SessionId,
    timeout_ms: i32,
}

/// Where a client is connected.
#[derive(Clone, Copy, Debug)]
enum Client {
    Here(ConnId),
    /// At an observer that learns from this server.
    There(LinkId),
}

/// Who waits for the leader to know that it leads.
#[derive(Clone, Copy, Debug)]
enum Syncing {
    Here,
    Learner(LinkId),
    /// A client whose session this leader does not know: one that has been replaced without knowing it
    /// would refuse those that are newer.
    Refused(ConnId),
    /// The same at a learner.
    Invalid(LinkId, SessionId),
}

/// This server's place in its ensemble.
#[derive(Debug)]
pub(crate) struct Ensemble {
    pub(crate) peer: Peer,
    pub(crate) serving: Serving,
    /// Since when it looks for a leader.
    pub(crate) looking_since: Option<Duration>,
    /// What came before this server was ready for it.
    early: VecDeque<Up>,
    revalidating: VecDeque<Revalidating>,
    syncing: VecDeque<(u64, Syncing)>,
    /// At a follower: for whom the leader has been asked to sync, in that order.
    syncs_asked: VecDeque<Syncing>,
    next_token: u64,
    /// Since when the forwarded request whose turn it is has been overtaken by one that looks like a
    /// later one.
    overtaken_since: Option<Duration>,
    /// What the peer asks for, between two steps; its room is used again.
    asked: Vec<zebu_zab::Output>,
    /// Sessions heard of since the leader last asked, with their timeouts in milliseconds.
    touched: BTreeMap<SessionId, i32>,
}

impl Ensemble {
    fn role(&self) -> Role {
        match self.serving {
            Serving::As(role) => role,
            _ => Role::Looking,
        }
    }

    /// A session of this server's clients was heard of.
    pub(crate) fn touched(&mut self, session: SessionId, timeout_ms: i32) {
        if matches!(self.role(), Role::Following(_) | Role::Observing(_)) {
            self.touched.insert(session, timeout_ms);
        }
    }
}

impl Replica {
    /// A member of an ensemble, whose tree has just been recovered.
    ///
    /// It serves nobody before it has found or become a leader.
    ///
    /// # Panics
    /// When the options contradict themselves, such as a tick of zero.
    pub fn member(options: Options, peer: Peer, tree: &Tree, now: Now) -> Self {
        let ensemble = Ensemble {
            peer,
            serving: Serving::Nobody,
            looking_since: None,
            early: VecDeque::new(),
            revalidating: VecDeque::new(),
            overtaken_since: None,
            syncing: VecDeque::new(),
            syncs_asked: VecDeque::new(),
            next_token: 0,
            touched: BTreeMap::new(),
            asked: Vec::new(),
        };
        Self::with_order(options, Order::Ensemble(Box::new(ensemble)), tree, now)
    }

    /// This server's part in its ensemble; `None` when it runs alone.
    pub fn peer(&self) -> Option<&Peer> {
        match &self.order {
            Order::Alone { .. } => None,
            Order::Ensemble(ensemble) => Some(&ensemble.peer),
        }
    }

    /// What this server is to its clients; `None` when it runs alone.
    pub fn role(&self) -> Option<Role> {
        match &self.order {
            Order::Alone { .. } => None,
            Order::Ensemble(ensemble) => Some(ensemble.role()),
        }
    }

    /// Syncs that wait until this leader knows that it leads.
    pub fn pending_syncs(&self) -> usize {
        match &self.order {
            Order::Alone { .. } => 0,
            Order::Ensemble(ensemble) => ensemble.syncing.len(),
        }
    }

    fn ensemble(&mut self) -> &mut Ensemble {
        match &mut self.order {
            Order::Ensemble(ensemble) => ensemble,
            Order::Alone { .. } => unreachable!("a server alone has no peers"),
        }
    }

    /// Whether this server takes part in what is ordered.
    pub(crate) fn serves(&self) -> bool {
        self.role() != Some(Role::Looking)
    }

    /// Whether a client may come.
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

    /// Whether sessions expire here.
    pub(crate) fn tracks_sessions(&self) -> bool {
        matches!(self.role(), None | Some(Role::Leading(_)))
    }

    /// Whether another server orders this one's requests.
    pub(crate) fn forwards(&self) -> bool {
        matches!(self.role(), Some(Role::Following(_) | Role::Observing(_)))
    }

    /// Whether a sync has to ask others.
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
            self.committed = self.applied;
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

    /// Ends this server's role; false when it runs alone.
    pub(crate) fn resign(
        &mut self,
        world: World<'_>,
        why: &'static str,
        out: &mut Vec<Output>,
    ) -> bool {
        let Order::Ensemble(ensemble) = &mut self.order else { return false };
        let mut asked = Vec::new();
        ensemble.peer.resign(world.now.monotonic, why, &mut asked);
        // Whoever has just resigned proposes nothing.
        self.obey(world, asked, out).is_ok()
    }

    /// Carries out what the peer asks for, as far as it is about transactions and clients.
    fn obey(
        &mut self,
        world: World<'_>,
        mut asked: Vec<zebu_zab::Output>,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        for output in asked.drain(..) {
            match output {
                zebu_zab::Output::Append { zxid, record } => {
                    let serves = self.serves();
                    let bytes = record.len();
                    out.push(Output::Append { zxid, record });
                    if serves && self.snapshots.appended(bytes) {
                        out.push(Output::Snapshot);
                    }
                }
                zebu_zab::Output::Deliver { zxid, record } => {
                    if !self.deliver(world.now.monotonic, zxid, record, out) {
                        self.resign(world, "the leader has lost a request", out);
                        return Ok(());
                    }
                }
                zebu_zab::Output::Role(role) => self.change_role(world, role, out)?,
                zebu_zab::Output::Up(up) => self.up(world, up, out)?,
                output => out.push(Output::Zab(output)),
            }
        }
        self.ensemble().asked = asked;
        Ok(())
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
        out.push(Output::Zab(zebu_zab::Output::Role(role)));
        Ok(())
    }

    /// Ends everything that was between this server and its clients.
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
        ensemble.syncs_asked.clear();
        ensemble.overtaken_since = None;
        ensemble.touched.clear();
        for waiting in std::mem::take(&mut ensemble.revalidating) {
            if let Client::Here(conn) = waiting.client {
                out.push(Output::Disconnect(conn));
            }
        }
    }

    /// Starts to serve once the tree has everything it must have.
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
            self.reaper = Reaper::new(self.options.reaper.clone(), world.now.monotonic);
        }
        out.push(Output::Zab(zebu_zab::Output::Role(role)));
        if let Role::Leading(_) = role {
            self.end_orphans(world, out)?;
        }
        for up in early {
            self.up(world, up, out)?;
        }
        Ok(())
    }

    /// Ends sessions that are not in the table but own ephemerals, as older servers may have left them:
    /// by a transaction, so that everybody does it at the same zxid (ZOOKEEPER-5010).
    fn end_orphans(&mut self, world: World<'_>, out: &mut Vec<Output>) -> Result<(), Fatal> {
        let tree = world.tree;
        let is_orphan = |session: &SessionId| tree.session_timeout(*session).is_none();
        let mut orphans: Vec<_> = tree.sessions_with_ephemerals().filter(is_orphan).collect();
        orphans.sort_unstable();
        for session in orphans {
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
        self.work.push_back(Work::Txn { zxid, record, origin, then });
        self.obey(world, asked, out)
    }

    /// Applies what is committed, and answers if it was asked for here; false when the leader has
    /// skipped something that was asked for here.
    ///
    /// What looks like a later request than the one whose turn it is may be one with the same number
    /// that its session has asked for at another server, by a client that counts anew there. Then the
    /// turn comes soon; a leader that has skipped a request never comes back to it.
    fn deliver(&mut self, now: Duration, zxid: Zxid, record: Bytes, out: &mut Vec<Output>) -> bool {
        self.committed = zxid;
        let header = TxnHeader::decode(&mut Decoder::new(&record));
        let Ok(TxnHeader { session, cxid, op, .. }) = header else {
            // A leader has had the others agree to bytes that are no transaction.
            return false;
        };
        let ours = |work: &Work| match work {
            Work::Forwarded { session: s, cxid: c, .. } => (*s, *c) == (session, cxid),
            _ => false,
        };
        match self.work.front() {
            Some(Work::Txn { zxid: next, .. }) if *next == zxid => {}
            Some(front) if ours(front) => {
                let Some(Work::Forwarded { mut origin, refusal, then, .. }) = self.work.pop_front()
                else {
                    unreachable!("it was looked at")
                };
                self.ensemble().overtaken_since = None;
                let refusal = refusal.filter(|_| op == OpCode::ERROR);
                let reply = refusal.and_then(|err| {
                    let zxid = Some(zxid);
                    origin.take().map(|origin| Output::Reply { origin, zxid, err })
                });
                out.push(Output::Apply { zxid, record, origin });
                out.extend(reply);
                match then {
                    Then::Accept { conn, .. } if op == OpCode::ERROR => {
                        out.push(Output::Disconnect(conn));
                    }
                    then => self.follow(then, out),
                }
            }
            _ => {
                let here = self.forwards() && self.sessions.get(session).is_some();
                if here && self.work.iter().any(ours) {
                    let since = *self.ensemble().overtaken_since.get_or_insert(now);
                    if now.saturating_sub(since) > OVERTAKEN_MAX {
                        return false;
                    }
                }
                out.push(Output::Apply { zxid, record, origin: None });
                if here && op == OpCode::CLOSE_SESSION {
                    self.follow(Then::End(session), out);
                }
            }
        }
        self.advance(out);
        true
    }

    // ---- at a learner

    fn send_to_leader(&mut self, packet: QuorumPacket, out: &mut Vec<Output>) {
        let ensemble = self.ensemble();
        ensemble.peer.send_to_leader(packet, &mut ensemble.asked);
        out.extend(ensemble.asked.drain(..).map(Output::Zab));
    }

    fn send_request(
        &mut self,
        request: quorum::Request,
        authinfo: Option<Vec<Id>>,
        out: &mut Vec<Output>,
    ) {
        let data = Some(request.to_data());
        let packet = QuorumPacket { kind: PacketKind::REQUEST, zxid: NO_ZXID, data, authinfo };
        self.send_to_leader(packet, out);
    }

    /// Has the leader create a session.
    pub(crate) fn forward_session(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        then: Then,
        out: &mut Vec<Output>,
    ) {
        let (origin, refusal) = (None, None);
        self.work.push_back(Work::Forwarded { session, cxid: 0, origin, refusal, then });
        let body = Bytes::copy_from_slice(&timeout_ms.to_be_bytes());
        let op = OpCode::CREATE_SESSION;
        self.send_request(quorum::Request { session, cxid: Xid(0), op, body }, None, out);
    }

    /// Asks the leader whether a session may go on here.
    pub(crate) fn revalidate(
        &mut self,
        conn: ConnId,
        session: SessionId,
        timeout_ms: i32,
        out: &mut Vec<Output>,
    ) {
        let client = Client::Here(conn);
        self.ensemble().revalidating.push_back(Revalidating { client, session, timeout_ms });
        let data = Revalidate { session, timeout_ms }.to_bytes();
        self.send_to_leader(QuorumPacket::with_data(PacketKind::REVALIDATE, NO_ZXID, data), out);
    }

    /// Has the leader order a request; when it fails there, the client hears `refusal` if that is
    /// known.
    pub(crate) fn forward(
        &mut self,
        request: Request,
        refusal: Option<ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let origin = request.origin();
        let Request { session, xid, op, body, ids, .. } = request;
        // Not every leader survives what it cannot read.
        if !well_formed(op, &body) {
            return self.reply(origin, None, ErrorCode::MARSHALLING_ERROR, out);
        }
        let then = self.ends(op, session);
        let origin = Some(origin);
        self.work.push_back(Work::Forwarded { session, cxid: xid.0, origin, refusal, then });
        let forwarded = quorum::Request { session, cxid: xid, op, body };
        self.send_request(forwarded, Some(ids.to_vec()), out);
    }

    /// Answers a sync when everything committed before it came to the leader is applied here.
    pub(crate) fn sync(&mut self, world: World<'_>, request: Request, out: &mut Vec<Output>) {
        if zebu_proto::mutant!("stale sync") {
            return self.later(Work::Answer(request), out);
        }
        if self.forwards() {
            let Request { session, xid, op, body, ids, .. } = request.clone();
            self.work.push_back(Work::Sync { request, until: None });
            let forwarded = quorum::Request { session, cxid: xid, op, body };
            self.ensemble().syncs_asked.push_back(Syncing::Here);
            return self.send_request(forwarded, Some(ids.to_vec()), out);
        }
        self.work.push_back(Work::Sync { request, until: None });
        self.confirm(world, Syncing::Here, out);
    }

    /// A sync that waits may go on once everything up to `until` is committed here.
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
                // The answers come in the order of the questions, and say nothing else.
                if let Some(Syncing::Learner(link)) = self.ensemble().syncs_asked.pop_front() {
                    return self.send_to_learner(link, packet, out);
                }
                let mut until = self.ensemble().peer.committed();
                if zebu_proto::mutant!("sync answered before it is applied") {
                    until = Zxid::ZERO;
                }
                self.release_sync(until, out);
            }
            PacketKind::REVALIDATE => {
                let Ok(Revalidated { session, valid }) =
                    Revalidated::decode(&mut Decoder::new(packet.body()))
                else {
                    return;
                };
                let waiting = &mut self.ensemble().revalidating;
                let at = waiting.iter().position(|waiting| waiting.session == session);
                let Some(Revalidating { client, timeout_ms, .. }) =
                    at.and_then(|at| waiting.remove(at))
                else {
                    return;
                };
                let conn = match client {
                    Client::Here(conn) => conn,
                    Client::There(link) => {
                        if valid {
                            self.ensemble().touched(session, timeout_ms);
                        }
                        return self.send_to_learner(link, packet, out);
                    }
                };
                if !valid {
                    out.push(Output::Refuse(conn));
                    return;
                }
                let now = world.now.monotonic;
                let owner = Owner::Conn(conn);
                if self.sessions.get(session).is_none() {
                    self.sessions.add(session, timeout_ms, None, now);
                }
                if let Some(before) = self.sessions.attach(session, owner, timeout_ms, now) {
                    out.push(Output::Disconnect(before));
                }
                self.touch(session, now);
                out.push(accept(conn, session, timeout_ms));
            }
            _ => {}
        }
    }

    // ---- at a leader

    fn up(&mut self, world: World<'_>, up: Up, out: &mut Vec<Output>) -> Result<(), Fatal> {
        let ensemble = self.ensemble();
        match (up, ensemble.role()) {
            (Up::Ping(mut packet), _) => {
                let mut touched = std::mem::take(&mut ensemble.touched);
                if zebu_proto::mutant!("touches not relayed") {
                    touched.clear();
                }
                let touches =
                    touched.into_iter().map(|(session, timeout_ms)| Touch { session, timeout_ms });
                packet.data = Some(encode_touches(touches));
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
                    Syncing::Invalid(link, session) => self.revalidated(link, session, false, out),
                }
                Ok(())
            }
        }
    }

    /// Refuses a client whose session is over, as soon as it is certain that this server still leads.
    pub(crate) fn refuse(&mut self, world: World<'_>, conn: ConnId, out: &mut Vec<Output>) {
        if matches!(self.role(), Some(Role::Leading(_))) {
            self.confirm(world, Syncing::Refused(conn), out);
        } else {
            out.push(Output::Refuse(conn));
        }
    }

    fn revalidated(
        &mut self,
        link: LinkId,
        session: SessionId,
        valid: bool,
        out: &mut Vec<Output>,
    ) {
        let data = Revalidated { session, valid }.to_bytes();
        let packet = QuorumPacket::with_data(PacketKind::REVALIDATE, NO_ZXID, data);
        self.send_to_learner(link, packet, out);
    }

    fn confirm(&mut self, world: World<'_>, syncing: Syncing, out: &mut Vec<Output>) {
        let ensemble = self.ensemble();
        let token = ensemble.next_token;
        ensemble.next_token += 1;
        ensemble.syncing.push_back((token, syncing));
        let mut asked = Vec::new();
        ensemble.peer.confirm(world.now.monotonic, token, &mut asked);
        // Nothing of this orders anything.
        let _ = self.obey(world, asked, out);
    }

    fn send_to_learner(&mut self, link: LinkId, packet: QuorumPacket, out: &mut Vec<Output>) {
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
            self.relay(link, packet, out);
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
                let asked = Revalidate::decode(&mut Decoder::new(packet.body()));
                let Ok(Revalidate { session, timeout_ms }) = asked else { return Ok(()) };
                let is_live = |live: &Session| !live.closing && !live.local;
                let valid = self.sessions.get(session).is_some_and(is_live)
                    && !zebu_proto::mutant!("live session refused");
                if !valid {
                    self.confirm(world, Syncing::Invalid(link, session), out);
                    return Ok(());
                }
                let owner = Owner::Link(link);
                if let Some(before) = self.sessions.attach(session, owner, timeout_ms, now) {
                    out.push(Output::Disconnect(before));
                }
                self.revalidated(link, session, true, out);
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

    /// At a follower: what an observer says goes on to the leader, as if this server said it. What
    /// comes back by itself is sent on as it comes; the rest is remembered.
    ///
    /// Source: `ObserverMaster`.
    fn relay(&mut self, link: LinkId, packet: QuorumPacket, out: &mut Vec<Output>) {
        match packet.kind {
            PacketKind::PING => {
                for touch in decode_touches(packet.data.as_deref()).unwrap_or_default() {
                    self.ensemble().touched(touch.session, touch.timeout_ms);
                }
                return;
            }
            PacketKind::REVALIDATE => {
                let asked = Revalidate::decode(&mut Decoder::new(packet.body()));
                let Ok(Revalidate { session, timeout_ms }) = asked else { return };
                let client = Client::There(link);
                let waiting = Revalidating { client, session, timeout_ms };
                self.ensemble().revalidating.push_back(waiting);
            }
            PacketKind::REQUEST => {
                let data = packet.data.clone().unwrap_or_default();
                let Ok(request) = quorum::Request::decode(&data) else { return };
                if request.op == OpCode::SYNC {
                    self.ensemble().syncs_asked.push_back(Syncing::Learner(link));
                }
            }
            _ => return,
        }
        self.send_to_leader(packet, out);
    }

    /// Orders what a learner's client asks for. Whatever is wrong with it, it gets a transaction:
    /// the learner waits for one.
    fn order_for(
        &mut self,
        world: World<'_>,
        link: LinkId,
        request: quorum::Request,
        ids: &[Id],
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
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
        let refusal = match live {
            None if !self.is_local_elsewhere(session) => Some(ErrorCode::SESSION_EXPIRED),
            Some(live) if live.closing && op != OpCode::CLOSE_SESSION => {
                Some(ErrorCode::SESSION_EXPIRED)
            }
            Some(_) if self.sessions.claim(session, owner) != Some(owner) => {
                Some(ErrorCode::SESSION_MOVED)
            }
            _ if !is_ordered(op) => Some(ErrorCode::UNIMPLEMENTED),
            _ => None,
        };
        if let Some(code) = refusal {
            return self.fail(world, session, cxid, None, code, out);
        }
        self.sessions.touch(session, world.now.monotonic);
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
