//! Messages from clients: the header and body of every request.

use std::borrow::Cow;

use zebu_jute::{Decode, DecodeError, Decoder, Encode, Encoder, record};

use crate::quorum::PacketKind;
use crate::{AclRef, CreateMode, OpCode, Version, Xid, Zxid};

type Text<'a> = Cow<'a, str>;
type Data<'a> = Option<&'a [u8]>;

record! {
    /// Prefixes every request after the first. Source: `zookeeper.jute`, `proto.RequestHeader`.
    fixed RequestHeader {
        /// Echoed by the answer.
        xid: Xid,
        /// The operation.
        op: OpCode,
    }
}

/// The first frame of a connection: creates a session or renews one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Ignored; clients send 0.
    pub protocol_version: i32,
    /// The newest zxid the client has seen.
    pub last_zxid_seen: Zxid,
    /// Requested session timeout, in milliseconds.
    pub timeout_ms: i32,
    /// The session to renew, or 0.
    pub session_id: i64,
    /// Its password; ignored for a new session.
    pub password: Data<'a>,
    /// Whether a read-only server is acceptable; `None` from clients before 3.4.
    pub read_only: Option<bool>,
    /// Whether the server is asked for the id of its ensemble, behind everything else: servers of
    /// the original do not read that far. Only after [`Self::read_only`].
    pub asks_ensemble: bool,
}

/// Says that the id of the ensemble is asked for, or follows.
pub(crate) const ENSEMBLE: i32 = PacketKind::ENSEMBLE.0;

impl ConnectRequest<'_> {
    /// The request of a client that has seen nothing, for a session with a timeout in milliseconds.
    /// It does not accept a read-only server.
    pub fn new_session(timeout_ms: i32) -> Self {
        Self {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout_ms,
            session_id: 0,
            password: Some(&[0; 16]),
            read_only: Some(false),
            asks_ensemble: false,
        }
    }
}

impl Encode for ConnectRequest<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.int(self.protocol_version);
        self.last_zxid_seen.encode(out);
        out.int(self.timeout_ms);
        out.long(self.session_id);
        out.buffer(self.password);
        if let Some(read_only) = self.read_only {
            out.boolean(read_only);
            if self.asks_ensemble {
                out.int(ENSEMBLE);
            }
        }
    }
}

impl<'a> Decode<'a> for ConnectRequest<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: from.int()?,
            last_zxid_seen: Zxid::decode(from)?,
            timeout_ms: from.int()?,
            session_id: from.long()?,
            password: from.buffer()?,
            read_only: from.boolean().ok(),
            asks_ensemble: from.int() == Ok(ENSEMBLE),
        })
    }
}

record! {
    /// Body of create, create2 and createContainer.
    Create<'a> {
        /// The path; with a sequential mode the server appends the counter.
        path: Option<Text<'a>>,
        /// The data.
        data: Data<'a>,
        /// The ACL; must not be empty.
        acl: Option<Vec<AclRef<'a>>>,
        /// See [`crate::CreateMode::from_flags`].
        flags: i32,
    }
}

record! {
    /// Body of createTTL.
    CreateTtl<'a> {
        /// The path; with a sequential mode the server appends the counter.
        path: Option<Text<'a>>,
        /// The data.
        data: Data<'a>,
        /// The ACL; must not be empty.
        acl: Option<Vec<AclRef<'a>>>,
        /// See [`crate::CreateMode::from_flags`].
        flags: i32,
        /// Time to live, in milliseconds.
        ttl_ms: i64,
    }
}

record! {
    /// Body of delete, and of a check inside a multi.
    PathVersion<'a> {
        /// The znode.
        path: Option<Text<'a>>,
        /// Its expected version.
        version: Version,
    }
}

record! {
    /// Body of exists, getData, getChildren and getChildren2.
    PathWatch<'a> {
        /// The znode.
        path: Option<Text<'a>>,
        /// Whether to set a watch.
        watch: bool,
    }
}

record! {
    /// Body of setData.
    SetData<'a> {
        /// The znode.
        path: Option<Text<'a>>,
        /// The new data.
        data: Data<'a>,
        /// The expected version.
        version: Version,
    }
}

record! {
    /// Body of getACL, getAllChildrenNumber and getEphemerals.
    PathOnly<'a> {
        /// The znode, or a prefix.
        path: Option<Text<'a>>,
    }
}

record! {
    /// Body of setACL.
    SetAcl<'a> {
        /// The znode.
        path: Option<Text<'a>>,
        /// The new ACL.
        acl: Option<Vec<AclRef<'a>>>,
        /// The expected ACL version.
        version: Version,
    }
}

record! {
    /// Body of checkWatches and removeWatches.
    PathKind<'a> {
        /// The path watched.
        path: Option<Text<'a>>,
        /// The kind of watches, see [`crate::WatcherType`].
        kind: i32,
    }
}

record! {
    /// Body of addWatch.
    AddWatch<'a> {
        /// The path to watch.
        path: Option<Text<'a>>,
        /// 0 persistent, 1 persistent and recursive.
        mode: i32,
    }
}

record! {
    /// Body of setWatches.
    SetWatches<'a> {
        /// Newest zxid the client had seen.
        relative_zxid: Zxid,
        /// Paths with data watches.
        data: Vec<Text<'a>>,
        /// Paths with exists watches.
        exist: Vec<Text<'a>>,
        /// Paths with child watches.
        child: Vec<Text<'a>>,
    }
}

record! {
    /// The persistent part of setWatches2, after a [`SetWatches`].
    PersistentWatches<'a> {
        /// Paths with persistent watches; nulls among them are ignored.
        persistent: Vec<Option<Text<'a>>>,
        /// Paths with persistent recursive watches; nulls among them are ignored.
        recursive: Vec<Option<Text<'a>>>,
    }
}

record! {
    /// Body of auth.
    AuthPacket<'a> {
        /// Always 0 and ignored.
        kind: i32,
        /// The scheme.
        scheme: Option<Text<'a>>,
        /// The credentials.
        auth: Data<'a>,
    }
}

record! {
    /// Body of reconfig.
    Reconfig<'a> {
        /// Members to add or change.
        joining: Option<Text<'a>>,
        /// Members to remove.
        leaving: Option<Text<'a>>,
        /// The complete new membership.
        members: Option<Text<'a>>,
        /// Condition: the current version of the configuration, or −1.
        config_id: i64,
    }
}

record! {
    /// Header of every operation and result of a multi, and its end marker.
    MultiHeader {
        /// The operation's type, the result's, or −1.
        op: OpCode,
        /// Whether the list ends here.
        done: bool,
        /// The result's error; −1 in requests.
        err: i32,
    }
}

impl MultiHeader {
    /// Ends a list of operations or results.
    pub const END: Self = Self { op: OpCode::ERROR, done: true, err: -1 };
}

/// One operation of a multi or multiRead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiOp<'a> {
    /// A create of any kind; the opcode already reflects the flags.
    Create(OpCode, CreateTtl<'a>),
    /// Removal.
    Delete(PathVersion<'a>),
    /// New data.
    SetData(SetData<'a>),
    /// A version check.
    Check(PathVersion<'a>),
    /// Data and stat.
    GetData(PathWatch<'a>),
    /// Names of the children.
    GetChildren(PathWatch<'a>),
}

impl MultiOp<'_> {
    /// Whether it is a read; all operations of a list are of the same kind.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::GetData(_) | Self::GetChildren(_))
    }

    /// The path of the operation; `None` if the request has a null.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Create(_, create) => create.path.as_deref(),
            Self::Delete(op) | Self::Check(op) => op.path.as_deref(),
            Self::SetData(set) => set.path.as_deref(),
            Self::GetData(read) | Self::GetChildren(read) => read.path.as_deref(),
        }
    }
}

/// Maximum number of operations of a multi. Each has at least nine bytes of header, so a frame of
/// the default size cannot exceed it. It limits the cost of larger frames.
pub const MULTI_OPS_MAX: usize = 1 << 20;

/// Decodes the operations of a multi (`reads` false) or a multiRead (`reads` true).
///
/// The flags of a create decide its type, as in the original. The flags of a createTTL may make it
/// another create, whose TTL is ignored.
///
/// # Errors
/// [`DecodeError::Null`] for a create without an ACL whose flags are valid. Another [`DecodeError`]
/// for an operation that may not be in such a list, flags that do not fit the record, or truncated
/// bytes.
pub fn multi_ops<'a>(from: &mut Decoder<'a>, reads: bool) -> Result<Vec<MultiOp<'a>>, DecodeError> {
    let mut ops: Vec<MultiOp<'a>> = Vec::new();
    loop {
        let header = MultiHeader::decode(from)?;
        if header.done {
            return match ops.first() {
                Some(first) if first.is_read() != reads => {
                    Err(DecodeError::Value { what: "multi of reads", value: (!reads).into() })
                }
                _ => Ok(ops),
            };
        }
        if ops.len() == MULTI_OPS_MAX {
            return Err(DecodeError::Value { what: "multi length", value: ops.len() as i64 });
        }
        let op = match header.op {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                let Create { path, data, acl, flags } = Create::decode(from)?;
                let unfit = DecodeError::Value { what: "create flags", value: flags.into() };
                let mode = CreateMode::from_flags(flags).ok_or(unfit)?;
                if acl.is_none() {
                    return Err(DecodeError::Null { at: from.position() });
                }
                let op = match mode {
                    CreateMode { container: true, .. } => OpCode::CREATE_CONTAINER,
                    CreateMode { ttl: true, .. } => return Err(unfit),
                    _ => header.op,
                };
                MultiOp::Create(op, CreateTtl { path, data, acl, flags, ttl_ms: -1 })
            }
            OpCode::CREATE_TTL => retype_ttl(CreateTtl::decode(from)?),
            OpCode::DELETE => MultiOp::Delete(PathVersion::decode(from)?),
            OpCode::SET_DATA => MultiOp::SetData(SetData::decode(from)?),
            OpCode::CHECK => MultiOp::Check(PathVersion::decode(from)?),
            OpCode::GET_DATA => MultiOp::GetData(PathWatch::decode(from)?),
            OpCode::GET_CHILDREN => MultiOp::GetChildren(PathWatch::decode(from)?),
            other => {
                return Err(DecodeError::Value { what: "multi op", value: other.0.into() });
            }
        };
        if ops.first().is_some_and(|first| first.is_read() != op.is_read()) {
            return Err(DecodeError::Value { what: "multi op", value: header.op.0.into() });
        }
        ops.push(op);
    }
}

fn retype_ttl(create: CreateTtl<'_>) -> MultiOp<'_> {
    match CreateMode::from_flags(create.flags) {
        Some(CreateMode { container: true, .. }) => {
            MultiOp::Create(OpCode::CREATE_CONTAINER, CreateTtl { ttl_ms: -1, ..create })
        }
        Some(CreateMode { ttl: false, .. }) => {
            MultiOp::Create(OpCode::CREATE, CreateTtl { ttl_ms: -1, ..create })
        }
        _ => MultiOp::Create(OpCode::CREATE_TTL, create),
    }
}
