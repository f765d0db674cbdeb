//! The inputs and outputs of a replica.

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
use crate::retire::NotHandedOver;
use crate::schedule::SnapshotOptions;
use crate::throttle::ThrottleOptions;

/// The time of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Time since some moment before the server started. Never goes back.
    pub monotonic: Duration,
    /// Wall-clock time in milliseconds since the Unix epoch. May jump.
    pub wall_ms: i64,
}

/// Options of a replica.
#[derive(Clone, Debug)]
pub struct Options {
    /// The id of this server; 1 for a standalone server.
    pub server: ServerId,
    /// The first session id to hand out, see [`SessionId::first`].
    pub first_session: SessionId,
    /// Width of the expiry buckets.
    pub tick: Duration,
    /// Shortest session timeout, in milliseconds.
    pub session_timeout_ms_min: i32,
    /// Longest session timeout, in milliseconds.
    pub session_timeout_ms_max: i32,
    /// How session passwords are made and checked.
    pub passwords: Passwords,
    /// Rules for writes.
    pub rules: Rules,
    /// Whether permissions are checked before a write is ordered.
    pub eager_acl_check: bool,
    /// How long a request may wait at intake before it is refused; zero: no limit.
    pub throttled_op_wait: Duration,
    /// The connection throttle.
    pub connections: ThrottleOptions,
    /// The limit on requests in progress.
    pub intake: IntakeOptions,
    /// When containers and TTL znodes are removed.
    pub reaper: ReaperOptions,
    /// When snapshots are due.
    pub snapshots: SnapshotOptions,
    /// How a member of an ensemble serves clients.
    pub member: MemberOptions,
    /// Seed of random choices: when snapshots are due, and which connections are dropped.
    pub seed: u64,
}

/// How a member of an ensemble serves its clients. A standalone server ignores these options.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// Whether new sessions are local to this server (`localSessionsEnabled`).
    pub local_sessions: bool,
    /// Whether a local session becomes global when it creates an ephemeral znode
    /// (`localSessionsUpgradingEnabled`).
    pub upgrade_local_sessions: bool,
    /// How long this server looks for a leader before it serves read-only clients; `None`: never
    /// (`readonlymode.enabled`).
    pub read_only_after: Option<Duration>,
    /// Whether the leader serves clients (`leaderServes`).
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

/// A request as handed in by its connection.
#[derive(Clone, Debug)]
pub struct Request {
    /// The connection.
    pub conn: ConnId,
    /// Its session.
    pub session: SessionId,
    /// Its xid.
    pub xid: Xid,
    /// The operation.
    pub op: OpCode,
    /// The bytes after the header.
    pub body: Bytes,
    /// The connection's ids when the request was received.
    pub ids: Credentials,
    /// When it was received.
    pub received: Duration,
    /// Size of its frame in bytes.
    pub bytes: usize,
}

impl Request {
    /// The origin, which identifies where the answer goes.
    pub fn origin(&self) -> Origin {
        let Self { conn, xid, op, received, bytes, .. } = *self;
        Origin { conn, xid, op, received, bytes }
    }
}

/// A connect request.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The connection.
    pub conn: ConnId,
    /// The newest zxid the client has seen.
    pub last_zxid_seen: Zxid,
    /// The requested timeout, in milliseconds.
    pub timeout_ms: i32,
    /// The session to renew, or [`SessionId::NONE`].
    pub session: SessionId,
    /// That session's password.
    pub password: Vec<u8>,
    /// Whether the client accepts a read-only server.
    pub read_only: bool,
}

/// Events that a replica reacts to.
#[derive(Debug)]
pub enum Input {
    /// A client's connect request.
    Connect(Connect),
    /// A client's request, unless its connection could answer it at once.
    Request(Request),
    /// A connection was closed.
    Disconnected {
        /// Which one.
        conn: ConnId,
        /// The session it had.
        session: SessionId,
    },
    /// The client of a session gave a sign of life other than a request to the replica.
    Touched {
        /// Which one.
        session: SessionId,
        /// When.
        at: Duration,
    },
    /// The whole server was suspended for this long and received nothing meanwhile.
    Stalled(Duration),
    /// This server ran, but did not read from its clients for this long.
    Unheard(Duration),
    /// An administrator ends a session.
    Terminate(SessionId),
    /// The server should stop. It orders and forwards nothing new. [`Output::Retired`] follows once
    /// all requests in progress are answered and, at a leader, enough followers have the
    /// transactions.
    Retire {
        /// Deadline for [`Output::Retired`], on the monotonic clock.
        by: Duration,
    },
    /// Another server should lead, and this one follow it. It orders nothing new, finishes what is
    /// in progress, and ends its role. Each of these inputs is answered by one
    /// [`Output::HandedOver`].
    HandOver {
        /// The next leader; otherwise the best follower.
        to: Option<ServerId>,
        /// When the role ends at the latest, on the monotonic clock.
        by: Duration,
    },
    /// The log is durable up to this zxid. A member of an ensemble reports this as
    /// [`zebu_zab::Input::Flushed`].
    Flushed(Zxid),
    /// All transactions handed out with [`Output::Apply`] up to this zxid are applied.
    Applied(Zxid),
    /// A snapshot has finished, or was abandoned because the tree is another one now.
    SnapshotDone,
    /// A snapshot could not be written: the server tries again after a while.
    SnapshotFailed,
    /// A snapshot is needed, whatever the counts say: it begins at once, or as soon as this server
    /// serves.
    SnapshotWanted,
    /// An event between the servers of the ensemble.
    Zab(zebu_zab::Input),
    /// Time passed.
    Tick,
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The connection.
    pub conn: ConnId,
    /// The request's xid.
    pub xid: Xid,
    /// The operation.
    pub op: OpCode,
    /// When the request was received.
    pub received: Duration,
    /// Size of the request's frame in bytes.
    pub bytes: usize,
}

/// Effects that a replica asks for, to be carried out in the given order.
///
/// Every [`Input::Request`] leaves exactly once: as the origin of an [`Output::Apply`], an
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
    /// Apply this record to the tree, then answer its request.
    Apply {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
        /// The request to answer, if it came from a client of this server.
        origin: Option<Origin>,
    },
    /// Answer this request from the current tree.
    Answer(Request),
    /// Answer without a body.
    Reply {
        /// The request.
        origin: Origin,
        /// The zxid in the answer; `None`: the tree's.
        zxid: Option<Zxid>,
        /// The error code.
        err: ErrorCode,
    },
    /// Give this request no answer. Close its connection after sending earlier answers.
    Abandon(Origin),
    /// Tell the client that it has its session.
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
    /// Tell the client that its session has expired, then close the connection.
    Refuse(ConnId),
    /// Tell the client that this server is read-only and creates no session, as an answer to
    /// request 0 with [`ErrorCode::NOT_READ_ONLY`]. Then close the connection.
    Deny(ConnId),
    /// Close the connection after sending earlier answers.
    Disconnect(ConnId),
    /// Start or stop serving read-only clients. On stop, close every client connection and admit
    /// none until the next role.
    ReadOnly(bool),
    /// Start a new log file and take a snapshot; report [`Input::SnapshotDone`] or
    /// [`Input::SnapshotFailed`].
    Snapshot,
    /// Everything in progress at [`Input::Retire`] is finished, or its deadline has passed: the
    /// server may stop.
    Retired,
    /// The answer to the oldest [`Input::HandOver`] without an answer: this server has ended its
    /// role and votes for that server, or why not.
    HandedOver(Result<ServerId, NotHandedOver>),
    /// Carry out an effect between servers or on disk. Effects on transactions or clients are the
    /// other outputs.
    ///
    /// At [`zebu_zab::Role::Looking`], close every client connection and admit none until the next
    /// role.
    Zab(zebu_zab::Output),
}
