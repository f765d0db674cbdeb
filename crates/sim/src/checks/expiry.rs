//! No session expires early, measured in true time at the leader that ends it. No session expires
//! before the leader has read everything that arrived while it was paused. Without faults, no
//! session of a live client expires (SES-07).

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

/// For each server, when it last heard of each session.
pub(crate) struct Expiry {
    heard: Vec<BTreeMap<SessionId, (Duration, &'static str)>>,
    leads_since: Vec<Duration>,
    timeouts: BTreeMap<SessionId, Duration>,
    /// Sessions for whose end there is a proposal.
    ended: BTreeSet<SessionId>,
    /// Sessions of clients that are connected, each with the time since when.
    present: BTreeMap<SessionId, Duration>,
    tick: Duration,
    /// When each server last noticed that it had been paused.
    stood: Vec<Option<Duration>>,
}

impl Expiry {
    pub(crate) fn new(servers: usize, tick: Duration) -> Self {
        Self {
            heard: vec![BTreeMap::new(); servers],
            leads_since: vec![Duration::ZERO; servers],
            timeouts: BTreeMap::new(),
            ended: BTreeSet::new(),
            present: BTreeMap::new(),
            tick,
            stood: vec![None; servers],
        }
    }

    pub(crate) fn restarted(&mut self, server: usize) {
        self.heard[server].clear();
        self.stood[server] = None;
    }

    /// A server has given a session to a client.
    pub(crate) fn attached(&mut self, session: SessionId, timeout_ms: i32) {
        self.timeouts.insert(session, Duration::from_millis(timeout_ms as u64));
    }

    /// A client has received an answer, or has gone.
    pub(crate) fn is_present(&mut self, session: SessionId, since: Option<Duration>) {
        match since {
            Some(since) => drop(self.present.entry(session).or_insert(since)),
            None => drop(self.present.remove(&session)),
        }
    }

    /// Whether there was ever a proposal for the end of a session.
    pub(crate) fn has_ended(&self, session: SessionId) -> bool {
        self.ended.contains(&session)
    }

    pub(crate) fn role(&mut self, server: usize, role: Role, now: Duration) {
        if let Role::Leading(_) = role {
            self.leads_since[server] = now;
        }
    }

    /// A leader's replica receives an input.
    pub(crate) fn input(&mut self, server: usize, it: &Server, input: &Input, now: Duration) {
        if let Input::Stalled(_) = input {
            self.stood[server] = Some(now);
        }
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

    /// A server receives frames of its own client.
    pub(crate) fn frames(&mut self, server: usize, session: SessionId, now: Duration) {
        self.heard[server].insert(session, (now, "its client spoke"));
    }

    /// A leader proposes a transaction.
    pub(crate) fn proposed(&mut self, server: usize, record: &Bytes, now: Duration) {
        let Some(header) = header(record) else { return };
        match header.op {
            OpCode::CREATE_SESSION => {
                self.heard[server].insert(header.session, (now, "it was created"));
            }
            OpCode::CLOSE_SESSION => drop(self.ended.insert(header.session)),
            _ => {}
        }
    }

    /// A leader decides on a transaction, perhaps the end of a session. Inputs that arrive later
    /// cannot prevent that end.
    pub(crate) fn decided(
        &self,
        server: usize,
        record: &Bytes,
        now: Duration,
        calm_since: Option<Duration>,
    ) -> Result<(), String> {
        let Some(header) = header(record).filter(|header| header.op == OpCode::CLOSE_SESSION)
        else {
            return Ok(());
        };
        let session = header.session;
        if header.cxid != 0 {
            return Ok(());
        }
        let Some(timeout) = self.timeouts.get(&session).copied() else { return Ok(()) };
        // Clocks drift by this much, and count whole milliseconds.
        let nearly = |time: Duration| time - time / 2000 - Duration::from_millis(2);
        let (heard, how) = self.heard[server].get(&session).copied().unwrap_or_default();
        let since = heard.max(self.leads_since[server]);
        if now - since < nearly(timeout) {
            return Err(format!(
                "SES-07: {session} expires {:?} after {how}, its timeout is {timeout:?}",
                now - since
            ));
        }
        if let Some(stood) = self.stood[server]
            && now - stood < nearly(self.tick)
        {
            return Err(format!(
                "SES-07: {session} expires {:?} after server {server} has stood still: what was said \
                 meanwhile cannot have been heard",
                now - stood
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

fn header(record: &Bytes) -> Option<TxnHeader> {
    TxnHeader::decode(&mut Decoder::new(record)).ok()
}
