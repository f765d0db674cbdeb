//! No session expires early, measured in true time at the leader that ends it; and none at all whose
//! client is there while nothing goes wrong (SES-07).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode as _, Decoder};
use zebu_proto::quorum::{PacketKind, Revalidate, decode_touches};
use zebu_proto::txn::TxnHeader;
use zebu_proto::{OpCode, SessionId};
use zebu_replica::Input;
use zebu_zab::Role;

use crate::server::Server;

/// When which server heard of which session.
pub(crate) struct Expiry {
    heard: Vec<BTreeMap<SessionId, (Duration, &'static str)>>,
    leads_since: Vec<Duration>,
    timeouts: BTreeMap<SessionId, Duration>,
    /// Sessions whose end was proposed.
    ended: BTreeSet<SessionId>,
    /// Sessions of clients that are there.
    present: BTreeMap<SessionId, Duration>,
}

impl Expiry {
    pub(crate) fn new(servers: usize) -> Self {
        Self {
            heard: vec![BTreeMap::new(); servers],
            leads_since: vec![Duration::ZERO; servers],
            timeouts: BTreeMap::new(),
            ended: BTreeSet::new(),
            present: BTreeMap::new(),
        }
    }

    pub(crate) fn restarted(&mut self, server: usize) {
        self.heard[server].clear();
    }

    /// A server has given a client its session.
    pub(crate) fn attached(&mut self, session: SessionId, timeout_ms: i32) {
        self.timeouts.insert(session, Duration::from_millis(timeout_ms as u64));
    }

    /// A client has had an answer, or is gone.
    pub(crate) fn is_present(&mut self, session: SessionId, since: Option<Duration>) {
        match since {
            Some(since) => drop(self.present.entry(session).or_insert(since)),
            None => drop(self.present.remove(&session)),
        }
    }

    /// Whether the end of a session was ever proposed.
    pub(crate) fn has_ended(&self, session: SessionId) -> bool {
        self.ended.contains(&session)
    }

    pub(crate) fn role(&mut self, server: usize, role: Role, now: Duration) {
        if let Role::Leading(_) = role {
            self.leads_since[server] = now;
        }
    }

    /// What a leader hears of sessions.
    pub(crate) fn input(&mut self, server: usize, it: &Server, input: &Input, now: Duration) {
        let Input::Zab(zebu_zab::Input::Packet(_, packet)) = input else { return };
        if it.leads().is_none() {
            return;
        }
        let heard = &mut self.heard[server];
        match packet.kind {
            PacketKind::PING => {
                for touch in decode_touches(packet.data.as_deref()).unwrap_or_default() {
                    heard.insert(touch.session, (now, "a learner told of it"));
                }
            }
            PacketKind::REVALIDATE => {
                if let Ok(asked) = Revalidate::decode(&mut Decoder::new(packet.body())) {
                    heard.insert(asked.session, (now, "a learner asked for it"));
                }
            }
            _ => {}
        }
    }

    /// A server's own client has sent something.
    pub(crate) fn frames(&mut self, server: usize, session: SessionId, now: Duration) {
        self.heard[server].insert(session, (now, "its client spoke"));
    }

    /// A leader proposes something: perhaps the end of a session.
    pub(crate) fn proposed(
        &mut self,
        server: usize,
        record: &Bytes,
        now: Duration,
        calm_since: Option<Duration>,
    ) -> Result<(), String> {
        let Ok(header) = TxnHeader::decode(&mut Decoder::new(record)) else { return Ok(()) };
        let session = header.session;
        match header.op {
            OpCode::CREATE_SESSION => {
                self.heard[server].insert(session, (now, "it was created"));
                return Ok(());
            }
            OpCode::CLOSE_SESSION => {}
            _ => return Ok(()),
        }
        self.ended.insert(session);
        if header.cxid != 0 {
            return Ok(());
        }
        let Some(timeout) = self.timeouts.get(&session).copied() else { return Ok(()) };
        let (heard, how) = self.heard[server].get(&session).copied().unwrap_or_default();
        let since = heard.max(self.leads_since[server]);
        // Clocks may be wrong by so much, and count whole milliseconds.
        let least = timeout - timeout / 2000 - Duration::from_millis(2);
        if now - since < least {
            return Err(format!(
                "SES-07: {session} expires {:?} after {how}, its timeout is {timeout:?}",
                now - since
            ));
        }
        if let (Some(calm), Some(present)) = (calm_since, self.present.get(&session))
            && now > calm.max(*present) + timeout * 3
        {
            return Err(format!("SES-07: {session} expires while its client is there"));
        }
        Ok(())
    }
}
