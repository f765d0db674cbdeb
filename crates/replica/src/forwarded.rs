//! Requests that a learner forwards to the leader, and how their transactions are matched.
//!
//! Forwarded requests return in the order they were sent. So the learner keeps one FIFO queue: a
//! returning transaction belongs to its front, or to another server.

use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode as _, Decoder};
use zebu_proto::quorum::{self, NO_ZXID, PacketKind, QuorumPacket};
use zebu_proto::txn::TxnHeader;
use zebu_proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};
use zebu_zab::Leave;

use crate::auth::Credentials;
use crate::faults;
use crate::io::{Output, Request};
use crate::prep::well_formed;
use crate::renewal::overtaken_max;
use crate::replica::{Fatal, Order, Replica, Then, Work, World};

impl Replica {
    pub(crate) fn send_request(
        &mut self,
        request: quorum::Request,
        authinfo: Option<Credentials>,
        out: &mut Vec<Output>,
    ) {
        let data = Some(request.to_data());
        let packet = QuorumPacket { kind: PacketKind::REQUEST, zxid: NO_ZXID, data, authinfo };
        if faults::request_sent_twice() {
            self.send_to_leader(packet.clone(), out);
        }
        self.send_to_leader(packet, out);
    }

    /// Asks the leader to create a session.
    pub(crate) fn forward_session(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        then: Then,
        out: &mut Vec<Output>,
    ) {
        let above = self.ensemble().peer.history().last();
        let (cxid, origin, refusal) = (0, None, None);
        self.work.push_back(Work::Forwarded { session, cxid, origin, refusal, then, above });
        let body = Bytes::copy_from_slice(&timeout_ms.to_be_bytes());
        let op = OpCode::CREATE_SESSION;
        self.send_request(quorum::Request { session, cxid: Xid(0), op, body }, None, out);
    }

    /// Asks the leader to order a request. If it fails there, the client gets `refusal`, where
    /// given.
    pub(crate) fn forward(
        &mut self,
        request: Request,
        refusal: Option<ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let origin = request.origin();
        let Request { session, xid, op, body, ids, .. } = request;
        // Some leaders fail on a request they cannot decode.
        if !well_formed(op, &body) {
            return self.reply(origin, None, ErrorCode::MARSHALLING_ERROR, out);
        }
        let then = self.ends(op, session);
        let above = self.ensemble().peer.history().last();
        let (cxid, origin) = (xid.0, Some(origin));
        self.work.push_back(Work::Forwarded { session, cxid, origin, refusal, then, above });
        let forwarded = quorum::Request { session, cxid: xid, op, body };
        self.send_request(forwarded, Some(ids), out);
    }

    /// When the leader counts as having lost the request at the front of the queue.
    fn lost_at(&self) -> Option<Duration> {
        let Order::Ensemble(ensemble) = &self.order else { return None };
        let since = ensemble.overtaken_since?;
        Some(since + overtaken_max(ensemble.peer.sync_time(), self.options.tick))
    }

    /// When the applied state becomes too old to serve.
    fn behind_at(&self) -> Option<Duration> {
        let Order::Ensemble(ensemble) = &self.order else { return None };
        Some(ensemble.lag.since()? + ensemble.peer.sync_time())
    }

    /// When a learner must check whether it may still serve.
    pub(crate) fn next_doubt(&self) -> Duration {
        if !self.forwards() {
            return Duration::MAX;
        }
        let doubts = self.lost_at().into_iter().chain(self.behind_at());
        doubts.min().unwrap_or(Duration::MAX).saturating_add(Duration::from_millis(1))
    }

    /// Records how far this learner is behind its leader.
    pub(crate) fn note_lag(&mut self, now: Duration) {
        if let Order::Ensemble(ensemble) = &mut self.order {
            let (committed, delivered) =
                (ensemble.peer.committed(), ensemble.peer.history().delivered());
            ensemble.lag.look(committed, delivered, now);
        }
    }

    /// Leaves the leader if it has lost a request, or if this server's disk is too far behind.
    pub(crate) fn doubt(&mut self, world: World<'_>, out: &mut Vec<Output>) {
        let is_over = |at: Option<Duration>| at.is_some_and(|at| at < world.now.monotonic);
        if !self.forwards() {
            return;
        }
        if is_over(self.lost_at()) {
            self.resign(world, Leave::RequestLost, out);
        } else if is_over(self.behind_at()) {
            self.resign(world, Leave::DiskBehindLeader, out);
        }
    }

    /// Hands out a committed transaction, and answers its request if that came from this server.
    /// Starts a timer if the leader seems to have skipped a request of this server.
    ///
    /// A transaction may look like a later request than the one at the front of the queue. It may
    /// be a request with the same number that the session made at another server, where the client
    /// counted anew. In that case the front request's transaction comes soon. A leader that has
    /// skipped a request never returns to it.
    ///
    /// # Errors
    /// [`Fatal::Unreadable`]: the leader has committed a record that cannot be decoded.
    pub(crate) fn deliver(
        &mut self,
        now: Duration,
        zxid: Zxid,
        record: Bytes,
        out: &mut Vec<Output>,
    ) -> Result<bool, Fatal> {
        let mut from = Decoder::new(&record);
        let header = TxnHeader::decode(&mut from).map_err(|_| Fatal::Unreadable(zxid))?;
        let TxnHeader { session, cxid, op, .. } = header;
        let code = if op == OpCode::ERROR { from.int().ok().map(ErrorCode) } else { None };
        assert!(self.committed < zxid, "{zxid} is delivered after {}", self.committed);
        assert!(self.applied <= self.committed, "the tree is ahead of what is committed");
        self.committed = zxid;
        let ours = |work: &Work| match work {
            Work::Forwarded { session: s, cxid: c, above, .. } => {
                (*s, *c) == (session, cxid) && *above < zxid
            }
            _ => false,
        };
        let mut is_lost = false;
        match self.work.front() {
            Some(Work::Txn { zxid: next, .. }) if *next == zxid => {}
            Some(front) if ours(front) => {
                let Some(Work::Forwarded { mut origin, refusal, then, .. }) = self.work.pop_front()
                else {
                    unreachable!("it was looked at")
                };
                self.ensemble().overtaken_since = None;
                if code == Some(ErrorCode::SESSION_MOVED) {
                    // The client never learns of this error: it reconnects and renews its session.
                    self.hand_out(zxid, record, None, out);
                    out.extend(origin.map(Output::Abandon));
                } else {
                    let refusal = refusal.filter(|_| op == OpCode::ERROR);
                    let reply = refusal.and_then(|err| {
                        let zxid = Some(zxid);
                        origin.take().map(|origin| Output::Reply { origin, zxid, err })
                    });
                    self.hand_out(zxid, record, origin, out);
                    out.extend(reply);
                    match then {
                        Then::Accept { conn, .. } if op == OpCode::ERROR => {
                            out.push(Output::Disconnect(conn));
                        }
                        then => self.follow(then, out),
                    }
                }
            }
            _ => {
                let here = self.forwards() && self.sessions.get(session).is_some();
                if here && self.work.iter().any(ours) {
                    self.ensemble().overtaken_since.get_or_insert(now);
                    is_lost = self.lost_at().is_some_and(|at| at < now);
                }
                if is_lost && faults::delivered_and_not_applied() {
                    return Ok(true);
                }
                self.hand_out(zxid, record, None, out);
                if here && op == OpCode::CLOSE_SESSION {
                    self.follow(Then::End(session), out);
                }
            }
        }
        self.advance(out);
        Ok(is_lost)
    }
}
