//! Local sessions: known to one server only, until they create an ephemeral znode.
//!
//! No transaction creates or closes a local session. Its server tracks its timeout. It ends with
//! the server's role, because the next leader would not know it. Source: `LocalSessionTracker`,
//! `UpgradeableSessionTracker`, `QuorumZooKeeperServer`; `client-protocol.md` §16.

use zebu_jute::{Decode as _, Decoder};
use zebu_proto::request::{Create, MultiOp, multi_ops};
use zebu_proto::txn::Txn;
use zebu_proto::{CreateMode, ErrorCode, OpCode, SessionId};

use crate::ConnId;
use crate::io::{Origin, Output};
use crate::replica::{Fatal, Replica, Then, Work, World};
use crate::sessions::Owner;

/// Whether a request creates an ephemeral znode. False for a request that cannot be decoded.
pub(crate) fn makes_ephemeral(op: OpCode, body: &[u8]) -> bool {
    let ephemeral = |flags| CreateMode::from_flags(flags).is_some_and(|mode| mode.ephemeral);
    let from = &mut Decoder::new(body);
    match op {
        OpCode::CREATE | OpCode::CREATE2 => {
            Create::decode(from).is_ok_and(|create| ephemeral(create.flags))
        }
        OpCode::MULTI => multi_ops(from, false).is_ok_and(|ops| {
            let makes = |op: &MultiOp<'_>| match op {
                MultiOp::Create(OpCode::CREATE | OpCode::CREATE2, create) => {
                    ephemeral(create.flags)
                }
                _ => false,
            };
            ops.iter().any(makes)
        }),
        _ => false,
    }
}

impl Replica {
    /// Creates a local session for a client.
    pub(crate) fn open_local(
        &mut self,
        world: World<'_>,
        conn: ConnId,
        timeout_ms: i32,
        out: &mut Vec<Output>,
    ) {
        let session = self.new_session_id(world.tree);
        self.sessions.add_local(session, timeout_ms, Owner::Conn(conn), world.now.monotonic);
        out.push(self.accept(conn, session, timeout_ms));
    }

    /// Ends a local session after its earlier requests.
    pub(crate) fn end_local(
        &mut self,
        session: SessionId,
        origin: Option<Origin>,
        out: &mut Vec<Output>,
    ) {
        let is_local = self.sessions.get(session).is_some_and(|live| live.local);
        assert!(is_local, "{session:?} ends by a transaction");
        self.sessions.close(session);
        self.later(Work::End { origin, session }, out);
    }

    /// Makes a local session global, ahead of its next request.
    pub(crate) fn upgrade(
        &mut self,
        world: World<'_>,
        session: SessionId,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let Some(timeout_ms) = self.sessions.upgrade(session) else { return Ok(()) };
        if self.forwards() {
            self.forward_session(session, timeout_ms, Then::Nothing, out);
            return Ok(());
        }
        let mut prep = self.prep(world, &[], session, 0)?;
        let record = prep.own(OpCode::CREATE_SESSION, &Txn::CreateSession { timeout_ms });
        self.append(world, record, None, Then::Nothing, out)
    }

    /// Whether a session unknown to the leader may be a local session of another server.
    pub(crate) fn is_local_elsewhere(&self, session: SessionId) -> bool {
        self.options.member.local_sessions && session.0 >> 56 != self.options.server.0
    }

    /// The error for an ephemeral znode of this session, at the server that orders it; `None` if it
    /// is allowed.
    pub(crate) fn refuses_ephemerals(&self, session: SessionId) -> Option<ErrorCode> {
        if !self.options.member.local_sessions {
            return None;
        }
        match self.sessions.get(session) {
            Some(live) if live.local => Some(ErrorCode::EPHEMERAL_ON_LOCAL_SESSION),
            Some(_) => None,
            // The session's own server may replace this by a more precise error.
            None => Some(ErrorCode::SESSION_EXPIRED),
        }
    }
}
