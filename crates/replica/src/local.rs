//! Local sessions: known to one server only, until they want an ephemeral znode.
//!
//! No transaction begins or ends one, and the server that has it judges its silence. It ends with
//! the server's role, since whoever leads then would not know it. Source: `LocalSessionTracker`,
//! `UpgradeableSessionTracker`, `QuorumZooKeeperServer`; `client-protocol.md` §16.

use zebu_jute::{Decode as _, Decoder};
use zebu_proto::request::{Create, MultiOp, multi_ops};
use zebu_proto::txn::Txn;
use zebu_proto::{CreateMode, ErrorCode, OpCode, SessionId};

use crate::ConnId;
use crate::io::{Origin, Output};
use crate::replica::{Fatal, Replica, Then, Work, World};
use crate::sessions::Owner;

/// Whether a request makes a znode that ends with its session.
///
/// A request that cannot be read makes none.
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
    /// Gives a client a session that nobody else hears of.
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

    /// Ends a local session behind what it asked for before.
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

    /// Makes a local session one of the ensemble, in front of whatever it asks for next.
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

    /// Whether a session that the leader does not know may be a local one of another server.
    pub(crate) fn is_local_elsewhere(&self, session: SessionId) -> bool {
        self.options.member.local_sessions && session.0 >> 56 != self.options.server.0
    }

    /// What an ephemeral znode of this session fails with, at the server that orders it.
    pub(crate) fn refuses_ephemerals(&self, session: SessionId) -> Option<ErrorCode> {
        if !self.options.member.local_sessions {
            return None;
        }
        match self.sessions.get(session) {
            Some(live) if live.local => Some(ErrorCode::EPHEMERAL_ON_LOCAL_SESSION),
            Some(_) => None,
            // The server that has it knows better why.
            None => Some(ErrorCode::SESSION_EXPIRED),
        }
    }
}
