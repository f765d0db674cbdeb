//! What a replica is told, and what it asks for.

use std::time::Duration;

use bytes::Bytes;
use zebu_proto::reply::PASSWORD_BYTES;
use zebu_proto::{ErrorCode, OpCode, ServerId, SessionId, Xid, Zxid};

use crate::ConnId;
use crate::auth::Credentials;
use crate::intake::IntakeOptions;
use crate::passwords::Passwords;
use crate::prep::Rules;
use crate::reaper::ReaperOptions;
use crate::schedule::SnapshotOptions;
use crate::throttle::ThrottleOptions;

/// The time of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Since some moment before the server started; never goes back.
    pub monotonic: Duration,
    /// Milliseconds since the Unix epoch; may jump.
    pub wall_ms: i64,
}

/// What a replica is configured with.
#[derive(Clone, Debug)]
pub struct Options {
    /// This server; 1 when it stands alone.
    pub server: ServerId,
    /// The first session id to hand out, see [`SessionId::first`].
    pub first_session: SessionId,
    /// Width of the expiry buckets.
    pub tick: Duration,
    /// Shortest session timeout, in milliseconds.
    pub session_timeout_ms_min: i32,
    /// Longest session timeout, in milliseconds.
    pub session_timeout_ms_max: i32,
    /// Which passwords prove that a client owns its session.
    pub passwords: Passwords,
    /// What writes obey.
    pub rules: Rules,
    /// Whether permissions are checked before a write is ordered.
    pub eager_acl_check: bool,
    /// How long a request may wait at intake before it is refused; zero is for ever.
    pub throttled_op_wait: Duration,
    /// How connections are let in.
    pub connections: ThrottleOptions,
    /// How their requests are taken in.
    pub intake: IntakeOptions,
    /// When containers and TTL znodes are looked for.
    pub reaper: ReaperOptions,
    /// When snapshots are due.
    pub snapshots: SnapshotOptions,
    /// What a member of an ensemble is to its clients.
    pub member: MemberOptions,
    /// Seed of the random choices: when snapshots are due, which connections are dropped.
    pub seed: u64,
}

/// What a member of an ensemble is to its clients. A server that runs alone is none of this.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// Whether new sessions are known to this server only (`localSessionsEnabled`).
    pub local_sessions: bool,
    /// Whether such a session becomes one of the ensemble when it wants an ephemeral znode
    /// (`localSessionsUpgradingEnabled`).
    pub upgrade_local_sessions: bool,
    /// How long this server looks for a leader before it serves clients that only read; `None` is
    /// for ever (`readonlymode.enabled`).
    pub read_only_after: Option<Duration>,
    /// Whether a leader has clients of its own (`leaderServes`).
    pub leader_serves: bool,
}

impl Default for MemberOptions {
    fn default() -> Self {
        Self {
            local_sessions: false,
            upgrade_local_sessions: false,
            read_only_after: None,
            leader_serves: true,
        }
    }
}

/// A request as it left its connection.
#[derive(Clone, Debug)]
pub struct Request {
    /// The connection.
    pub conn: ConnId,
    /// Its session.
    pub session: SessionId,
    /// The request's number.
    pub xid: Xid,
    /// What it asks for.
    pub op: OpCode,
    /// The bytes behind the header.
    pub body: Bytes,
    /// The connection's ids when it came.
    pub ids: Credentials,
    /// When it came.
    pub received: Duration,
    /// Length of its frame.
    pub bytes: usize,
}

impl Request {
    /// Where its answer goes.
    pub fn origin(&self) -> Origin {
        let Self { conn, xid, op, received, bytes, .. } = *self;
        Origin { conn, xid, op, received, bytes }
    }
}

/// A client that wants a session.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The connection.
    pub conn: ConnId,
    /// The newest zxid the client has seen.
    pub last_zxid_seen: Zxid,
    /// The timeout it wishes, in milliseconds.
    pub timeout_ms: i32,
    /// The session to go on with, or [`SessionId::NONE`].
    pub session: SessionId,
    /// That session's password.
    pub password: Vec<u8>,
    /// Whether it is content with a server that only reads.
    pub read_only: bool,
}

/// Everything that can happen to a replica.
#[derive(Debug)]
pub enum Input {
    /// A client's first frame.
    Connect(Connect),
    /// A client's later frame, unless it could be answered at once.
    Request(Request),
    /// A connection is gone.
    Disconnected {
        /// Which one.
        conn: ConnId,
        /// The session it had.
        session: SessionId,
    },
    /// A session was heard of without any request passing here.
    Touched {
        /// Which one.
        session: SessionId,
        /// When.
        at: Duration,
    },
    /// The whole server stood still for so long, and heard nobody meanwhile.
    Stalled(Duration),
    /// This server did not listen to its clients for so long: it had no time to, though it was at work.
    Unheard(Duration),
    /// Somebody with the right to do so ends a session.
    Terminate(SessionId),
    /// The server is to stop. Nothing new is ordered or forwarded from here on; once what is in progress is answered,
    /// and at a leader enough followers have it, [`Output::Retired`] follows.
    Retire {
        /// When it follows at the latest, by the monotonic clock.
        by: Duration,
    },
    /// Everything appended up to here is durable; in an ensemble this comes as a
    /// [`zebu_zab::Input::Flushed`].
    Flushed(Zxid),
    /// Everything handed out with [`Output::Apply`] up to here is in the tree.
    Applied(Zxid),
    /// A snapshot is finished, well or not.
    SnapshotDone,
    /// Something happened between the servers of the ensemble.
    Zab(zebu_zab::Input),
    /// Time has passed.
    Tick,
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The connection.
    pub conn: ConnId,
    /// The request's number.
    pub xid: Xid,
    /// What it asked for.
    pub op: OpCode,
    /// When it came.
    pub received: Duration,
    /// Length of its frame.
    pub bytes: usize,
}

/// Everything a replica can ask for, to be done in the order given.
///
/// Every [`Input::Request`] comes out exactly once: as the origin of an [`Output::Apply`], an
/// [`Output::Reply`] or an [`Output::Abandon`], or as an [`Output::Answer`].
#[derive(Debug)]
pub enum Output {
    /// Write this record to the log; report [`Input::Flushed`] when it is durable.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
    },
    /// Apply this record to the tree, then answer whoever asked.
    Apply {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
        /// Who asked, if anybody did and an answer is due.
        origin: Option<Origin>,
    },
    /// Answer this request from the tree as it now is.
    Answer(Request),
    /// Answer without a body.
    Reply {
        /// Who asked.
        origin: Origin,
        /// The answer's zxid; `None` is the tree's.
        zxid: Option<Zxid>,
        /// What went wrong.
        err: ErrorCode,
    },
    /// Give this request no answer, and close its connection after what was already answered is
    /// out.
    Abandon(Origin),
    /// The client has its session.
    Accept {
        /// The connection.
        conn: ConnId,
        /// The session.
        session: SessionId,
        /// Its negotiated timeout, in milliseconds.
        timeout_ms: i32,
        /// Its password.
        password: [u8; PASSWORD_BYTES],
    },
    /// Tell the client that its session is over, then close the connection.
    Refuse(ConnId),
    /// Tell the client that this server only reads and begins no session, in the form of an answer
    /// to request 0 with [`ErrorCode::NOT_READ_ONLY`], then close the connection.
    Deny(ConnId),
    /// Close the connection, after what was already answered is out.
    Disconnect(ConnId),
    /// Let clients in that only read, or no longer: then every client's connection is to be closed,
    /// and none to be let in until the next role.
    ReadOnly(bool),
    /// Start a new log file and take a snapshot; report [`Input::SnapshotDone`].
    Snapshot,
    /// What was in progress at [`Input::Retire`] is done, or its time is over: the server may stop.
    Retired,
    /// Something is to be done between the servers of the ensemble, or on disk. Never one that is
    /// about a transaction or a client: those come as the outputs above.
    ///
    /// At [`zebu_zab::Role::Looking`] every client's connection is to be closed, and none to be let
    /// in until the next role.
    Zab(zebu_zab::Output),
}
