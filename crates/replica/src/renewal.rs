//! Session renewals on a new connection: the learner asks, the leader answers.
//!
//! **Invariant:** on every path to the leader, all requests of a session's old connection precede
//! the renewal, and those of the new connection follow the leader's answer. So a session's writes
//! are ordered as its client sent them. To ensure this, a learner stops serving the old connection
//! when it asks for the renewal, not when it gets the answer. A follower applies the same rule to
//! its observers. Checked by `tests/member/renewals.rs`.
//!
//! **Invariant:** the leader's answers on a link come in the order of the questions. The original's
//! observer masters match them by that order. Checked by
//! `answers_on_a_link_come_in_the_order_of_the_questions`.
//!
//! Source: `quorum-sync-broadcast.md` §7, `LearnerSessionTracker`, `ObserverMaster`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use zebu_jute::{Decode as _, Decoder, Encode as _};
use zebu_proto::quorum::{self, NO_ZXID, PacketKind, QuorumPacket, Revalidate, Revalidated};
use zebu_proto::request::PathVersion;
use zebu_proto::{Id, OpCode, SessionId, Version, Zxid};
use zebu_zab::LinkId;

use crate::ConnId;
use crate::faults;
use crate::io::Output;
use crate::member::Syncing;
use crate::replica::{Replica, World};
use crate::sessions::{Owner, Session};

/// The scheme of an id that marks a request of a session that has moved. No client has such an id.
const MOVED: &str = "moved";

/// A client that waits for the leader's answer about its session.
#[derive(Debug)]
pub(crate) struct Revalidating {
    pub(crate) client: Client,
    session: SessionId,
    timeout_ms: i32,
}

/// Where a client is connected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    Here(ConnId),
    /// At an observer of this server.
    There(LinkId),
}

/// What an answer to a renewal waits for, besides earlier answers on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// The session is valid. Transactions proposed earlier must be committed first: the client may
    /// restart its xids, and an old transaction with the same xid would be taken for that of a new
    /// request.
    Commits(Zxid),
    /// The session seems to have expired; this must be confirmed, as the server may no longer lead.
    Proof,
    /// The session has expired.
    Proven,
}

/// At a leader: outstanding answers to renewals, on each link in the order of the questions.
#[derive(Debug, Default)]
pub(crate) struct Answers(BTreeMap<LinkId, VecDeque<(SessionId, Waits)>>);

impl Answers {
    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self) {
        assert!(self.0.values().all(|waiting| !waiting.is_empty()), "no answer is owed on a link");
        let first = |waiting: &VecDeque<_>| waiting.front().map(|(_, waits)| *waits);
        let is_proven = |waiting| first(waiting) == Some(Waits::Proven);
        assert!(!self.0.values().any(is_proven), "an answer is certain, and is not given");
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, link: LinkId, session: SessionId, waits: Waits) {
        self.0.entry(link).or_default().push_back((session, waits));
    }

    /// The oldest question about this session on this link is confirmed to have the answer no.
    fn prove(&mut self, link: LinkId, session: SessionId) {
        let mut waiting = self.0.get_mut(&link).into_iter().flatten();
        if let Some((_, waits)) = waiting.find(|it| **it == (session, Waits::Proof)) {
            *waits = Waits::Proven;
        }
    }

    /// Takes the answers that are due. `committed`: up to where everything is committed.
    fn take_due(&mut self, committed: Zxid) -> Vec<(LinkId, Revalidated)> {
        let mut due = Vec::new();
        self.0.retain(|link, waiting| {
            while let Some((session, waits)) = waiting.front().copied() {
                let valid = match waits {
                    Waits::Commits(zxid) if zxid <= committed => true,
                    Waits::Proven => false,
                    Waits::Commits(_) | Waits::Proof => break,
                };
                due.push((*link, Revalidated { session, valid }));
                waiting.pop_front();
            }
            !waiting.is_empty()
        });
        due
    }
}

impl Replica {
    // ---- at a learner

    /// Asks the leader whether a session may continue here.
    pub(crate) fn revalidate(
        &mut self,
        conn: ConnId,
        session: SessionId,
        timeout_ms: i32,
        out: &mut Vec<Output>,
    ) {
        self.waits_for_renewal(Client::Here(conn), Revalidate { session, timeout_ms }, out);
        let data = Revalidate { session, timeout_ms }.to_bytes();
        self.send_to_leader(QuorumPacket::with_data(PacketKind::REVALIDATE, NO_ZXID, data), out);
    }

    /// At a follower: an observer asks whether a session may continue there.
    pub(crate) fn relay_renewal(
        &mut self,
        link: LinkId,
        packet: QuorumPacket,
        out: &mut Vec<Output>,
    ) {
        let Ok(asked) = Revalidate::decode(&mut Decoder::new(packet.body())) else { return };
        self.waits_for_renewal(Client::There(link), asked, out);
        self.send_to_leader(packet, out);
    }

    fn waits_for_renewal(&mut self, client: Client, asked: Revalidate, out: &mut Vec<Output>) {
        let Revalidate { session, timeout_ms } = asked;
        if !faults::old_connection_served_during_a_renewal() {
            let before = self.sessions.release(session);
            out.extend(before.map(Output::Disconnect));
        }
        let waiting = Revalidating { client, session, timeout_ms };
        self.ensemble().revalidating.push_back(waiting);
    }

    /// Handles the leader's answer about a session.
    pub(crate) fn renewed(
        &mut self,
        world: World<'_>,
        packet: QuorumPacket,
        out: &mut Vec<Output>,
    ) {
        let answer = Revalidated::decode(&mut Decoder::new(packet.body()));
        let Ok(Revalidated { session, valid }) = answer else { return };
        let waiting = &mut self.ensemble().revalidating;
        let at = waiting.iter().position(|waiting| waiting.session == session);
        let Some(Revalidating { client, timeout_ms, .. }) = at.and_then(|at| waiting.remove(at))
        else {
            return;
        };
        // If the client has asked again since, its earlier connection is obsolete.
        let goes_on = valid && !waiting.iter().any(|waiting| waiting.session == session);
        let now = world.now.monotonic;
        if goes_on {
            let owner = match client {
                Client::Here(conn) => Owner::Conn(conn),
                Client::There(link) => Owner::Link(link),
            };
            let before = self.sessions.release(session);
            out.extend(before.map(Output::Disconnect));
            self.sessions.add(session, timeout_ms, Some(owner), now);
        }
        match client {
            Client::Here(conn) if goes_on => {
                self.touch(session, now);
                out.push(self.accept(conn, session, timeout_ms));
            }
            Client::Here(conn) if valid => out.push(Output::Disconnect(conn)),
            Client::Here(conn) => out.push(Output::Refuse(conn)),
            Client::There(link) => {
                if valid {
                    self.ensemble().touched(session, timeout_ms);
                }
                self.send_to_learner(link, packet, out);
            }
        }
    }

    /// At a follower: the packet that forwards an observer's request to the leader.
    ///
    /// A session that has moved may not send requests from that observer any more. The observer
    /// still waits for a transaction. So the follower sends a request that fails: it has an invalid
    /// path, and a mark from which a Zebu leader knows the reason.
    pub(crate) fn relayed_request(
        &mut self,
        world: World<'_>,
        link: LinkId,
        request: &quorum::Request,
        packet: QuorumPacket,
    ) -> QuorumPacket {
        let quorum::Request { session, cxid, op, ref body } = *request;
        let owner = Some(Owner::Link(link));
        if op == OpCode::CREATE_SESSION {
            if let Ok(timeout_ms) = Decoder::new(body).int() {
                self.sessions.add(session, timeout_ms, owner, world.now.monotonic);
            }
            return packet;
        }
        let moved = self.sessions.get(session).is_some_and(|live| live.owner != owner);
        if op == OpCode::SYNC || !moved || faults::moved_session_relayed() {
            return packet;
        }
        let op = OpCode::DELETE;
        let body = PathVersion { path: Some("".into()), version: Version::ANY }.to_bytes().into();
        let data = quorum::Request { session, cxid, op, body }.to_data();
        let authinfo = Some([Id::new(MOVED, "")].into());
        QuorumPacket { data: Some(data), authinfo, ..packet }
    }

    // ---- at a leader

    /// Answers a learner that asks whether a session may continue there.
    pub(crate) fn answer_renewal(
        &mut self,
        world: World<'_>,
        link: LinkId,
        packet: &QuorumPacket,
        out: &mut Vec<Output>,
    ) {
        let asked = Revalidate::decode(&mut Decoder::new(packet.body()));
        let Ok(Revalidate { session, timeout_ms }) = asked else { return };
        let is_live = |live: &Session| !live.closing && !live.local;
        let valid =
            self.sessions.get(session).is_some_and(is_live) && !faults::live_session_refused();
        if valid {
            let owner = Owner::Link(link);
            let now = world.now.monotonic;
            if let Some(before) = self.sessions.attach(session, owner, timeout_ms, now) {
                out.push(Output::Disconnect(before));
            }
            let proposed = self.ensemble().peer.history().last();
            self.ensemble().answers.add(link, session, Waits::Commits(proposed));
            self.answer_renewals(out);
        } else {
            self.ensemble().answers.add(link, session, Waits::Proof);
            self.confirm(world, Syncing::Invalid(link, session), out);
        }
    }

    /// This server still leads, so a session unknown to it has expired.
    pub(crate) fn is_over(&mut self, link: LinkId, session: SessionId, out: &mut Vec<Output>) {
        self.ensemble().answers.prove(link, session);
        self.answer_renewals(out);
    }

    /// Sends the answers that are due.
    pub(crate) fn answer_renewals(&mut self, out: &mut Vec<Output>) {
        let ensemble = self.ensemble();
        let committed = ensemble.peer.history().delivered();
        for (link, answer) in ensemble.answers.take_due(committed) {
            let data = answer.to_bytes();
            let packet = QuorumPacket::with_data(PacketKind::REVALIDATE, NO_ZXID, data);
            self.send_to_learner(link, packet, out);
        }
    }
}

/// Whether a follower has marked this as a request of a session that has moved.
pub(crate) fn has_moved(ids: &[Id]) -> bool {
    ids.iter().any(|id| id.scheme == MOVED)
}

/// How long a forwarded request may be overtaken before the leader counts as having lost it.
///
/// The connection to the leader may stall for as long as the leader tolerates silence. Requests
/// sent meanwhile are committed soon after.
pub(crate) fn overtaken_max(sync_time: Duration, tick: Duration) -> Duration {
    (sync_time + tick).max(Duration::from_secs(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(7);

    fn due(answers: &mut Answers, committed: Zxid) -> Vec<(i64, bool)> {
        let due = answers.take_due(committed);
        due.into_iter().map(|(_, Revalidated { session, valid })| (session.0, valid)).collect()
    }

    #[test]
    fn answers_on_a_link_come_in_the_order_of_the_questions() {
        let mut answers = Answers::default();
        answers.add(LINK, SessionId(1), Waits::Commits(Zxid(5)));
        answers.add(LINK, SessionId(2), Waits::Proof);
        answers.add(LINK, SessionId(3), Waits::Commits(Zxid(5)));
        answers.add(LinkId(8), SessionId(4), Waits::Commits(Zxid(5)));
        assert_eq!(due(&mut answers, Zxid(4)), []);
        assert_eq!(due(&mut answers, Zxid(5)), [(1, true), (4, true)]);
        answers.prove(LINK, SessionId(2));
        assert_eq!(due(&mut answers, Zxid(5)), [(2, false), (3, true)]);
        assert!(answers.is_empty());
    }

    #[test]
    fn a_request_is_not_lost_while_its_learner_is_heard_again_in_time() {
        let secs = Duration::from_secs;
        assert_eq!(overtaken_max(secs(10), secs(2)), secs(12));
        assert_eq!(overtaken_max(secs(2), secs(1)), secs(10));
    }
}
