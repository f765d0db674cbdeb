//! Transactions as logged: validated, with all data needed to apply them. Source: `zookeeper.jute`,
//! module `org.apache.zookeeper.txn`; `SerializeUtils.deserializeTxn`.

use std::borrow::Cow;

use zebu_jute::{Decode, DecodeError, Decoder, Encode, Encoder, record};

use crate::{AclRef, ErrorCode, OpCode, SessionId, Zxid};

type Text<'a> = Cow<'a, str>;
type Data<'a> = Option<&'a [u8]>;

/// Bytes of an encoded [`TxnHeader`].
pub const TXN_HEADER_BYTES: usize = 32;

/// Bytes of an encoded [`TxnDigest`].
pub const DIGEST_BYTES: usize = 12;

/// The digest version this server computes, the original's since 3.6.
pub const DIGEST_VERSION: i32 = 2;

record! {
    /// Prefixes every logged transaction.
    #[derive(Copy)]
    fixed TxnHeader {
        /// The requesting session; 0 for the server itself.
        session: SessionId,
        /// The request's xid.
        cxid: i32,
        /// The transaction's place in the order.
        zxid: Zxid,
        /// The time of ordering, in milliseconds since the Unix epoch.
        time_ms: i64,
        /// The operation.
        op: OpCode,
    }
}

record! {
    /// The tree's digest after a transaction.
    #[derive(Copy)]
    fixed TxnDigest {
        /// The algorithm; [`DIGEST_VERSION`].
        version: i32,
        /// The sum over all znodes.
        tree: i64,
    }
}

/// The effect of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Txn<'a> {
    /// A new session.
    CreateSession {
        /// Its timeout, in milliseconds.
        timeout_ms: i32,
    },
    /// The end of a session.
    CloseSession {
        /// The ephemerals to remove, in order; `None` in logs that do not list them.
        paths: Option<Vec<Text<'a>>>,
    },
    /// A new znode of any kind; the opcode tells which.
    Create(CreateTxn<'a>),
    /// Removal of a znode, by a client or the reaper.
    Delete {
        /// The znode.
        path: Text<'a>,
    },
    /// New data, by setData or reconfig.
    SetData {
        /// The znode.
        path: Text<'a>,
        /// The data.
        data: Data<'a>,
        /// The version it gets.
        version: i32,
    },
    /// A new ACL.
    SetAcl {
        /// The znode.
        path: Text<'a>,
        /// The ACL.
        acl: Vec<AclRef<'a>>,
        /// The ACL version it gets.
        version: i32,
    },
    /// A successful version check; changes nothing.
    Check {
        /// The znode.
        path: Text<'a>,
        /// The version it has, plus one.
        version: i32,
    },
    /// Several transactions, applied together.
    Multi(Vec<(OpCode, Txn<'a>)>),
    /// A request that failed, or an operation of a failed multi; changes nothing.
    Error(ErrorCode),
}

/// A new znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTxn<'a> {
    /// Its final path.
    pub path: Text<'a>,
    /// Its data.
    pub data: Data<'a>,
    /// Its ACL.
    pub acl: Vec<AclRef<'a>>,
    /// Whether the session owns it.
    pub ephemeral: bool,
    /// The parent's stored cversion afterwards; −1 means one more than before.
    pub parent_cversion: i32,
    /// Time to live, in milliseconds, for createTTL only, else 0.
    pub ttl_ms: i64,
}

/// One log record's body: header, transaction and, when there is one, digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnRecord<'a> {
    /// The header.
    pub header: TxnHeader,
    /// The transaction.
    pub txn: Txn<'a>,
    /// The digest after it.
    pub digest: Option<TxnDigest>,
}

impl<'a> Txn<'a> {
    /// Decodes the body of a transaction of type `op`. It ends where `from` ends, or before a
    /// digest.
    ///
    /// # Errors
    /// [`DecodeError`], also for a type that is never logged.
    pub fn decode(op: OpCode, from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match op {
            OpCode::CREATE_SESSION => Self::CreateSession { timeout_ms: from.int()? },
            OpCode::CLOSE_SESSION => Self::CloseSession { paths: close_session_paths(from) },
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                Self::Create(CreateTxn::decode(op, from)?)
            }
            OpCode::DELETE | OpCode::DELETE_CONTAINER => Self::Delete { path: from.text()? },
            OpCode::SET_DATA | OpCode::RECONFIG => {
                Self::SetData { path: from.text()?, data: from.buffer()?, version: from.int()? }
            }
            OpCode::SET_ACL => Self::SetAcl {
                path: from.text()?,
                acl: from.vector()?.unwrap_or_default(),
                version: from.int()?,
            },
            OpCode::CHECK => Self::Check { path: from.text()?, version: from.int()? },
            OpCode::MULTI => {
                let ops = from.vector::<SubTxn<'a>>()?.unwrap_or_default();
                Self::Multi(ops.into_iter().map(|sub| (sub.op, sub.txn)).collect())
            }
            OpCode::ERROR => Self::Error(ErrorCode::decode(from)?),
            other => {
                return Err(DecodeError::Value { what: "txn type", value: other.0.into() });
            }
        })
    }

    /// Appends the body; `op` is the type in the header.
    pub fn encode(&self, op: OpCode, out: &mut Encoder<'_>) {
        match self {
            Self::CreateSession { timeout_ms } => out.int(*timeout_ms),
            Self::CloseSession { paths: None } => {}
            Self::CloseSession { paths: Some(paths) } => paths.encode(out),
            Self::Create(create) => create.encode(op, out),
            Self::Delete { path } => out.text(path),
            Self::SetData { path, data, version } => {
                out.text(path);
                out.buffer(*data);
                out.int(*version);
            }
            Self::SetAcl { path, acl, version } => {
                out.text(path);
                acl.encode(out);
                out.int(*version);
            }
            Self::Check { path, version } => {
                out.text(path);
                out.int(*version);
            }
            Self::Multi(ops) => {
                out.count(ops.len());
                for (op, txn) in ops {
                    op.encode(out);
                    let length_at = out.position();
                    out.int(0);
                    txn.encode(*op, out);
                    let length = out.position() - length_at - 4;
                    out.patch_int(length_at, length as i32);
                }
            }
            Self::Error(err) => err.encode(out),
        }
    }
}

/// The paths of a closeSession; `None` if the log has none, so that nothing or only a digest
/// follows.
fn close_session_paths<'a>(from: &mut Decoder<'a>) -> Option<Vec<Text<'a>>> {
    let mut attempt = from.clone();
    let paths = attempt.vector().ok().flatten()?;
    if attempt.remaining() != 0 && attempt.remaining() != DIGEST_BYTES {
        return None;
    }
    *from = attempt;
    Some(paths)
}

/// An operation inside a multi.
struct SubTxn<'a> {
    op: OpCode,
    txn: Txn<'a>,
}

impl<'a> Decode<'a> for SubTxn<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let op = OpCode::decode(from)?;
        let at = from.position();
        let body = from.buffer()?.ok_or(DecodeError::Null { at })?;
        if op == OpCode::MULTI {
            return Err(DecodeError::Value { what: "txn type inside a multi", value: op.0.into() });
        }
        Ok(Self { op, txn: Txn::decode(op, &mut Decoder::new(body))? })
    }
}

impl<'a> CreateTxn<'a> {
    fn decode(op: OpCode, from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let path = from.text()?;
        let data = from.buffer()?;
        let acl = from.vector()?.unwrap_or_default();
        let plain = matches!(op, OpCode::CREATE | OpCode::CREATE2);
        let ephemeral = plain && from.boolean()?;
        // Logs from before 3.4 end here.
        let parent_cversion = if plain && from.remaining() == 0 { -1 } else { from.int()? };
        let ttl_ms = if op == OpCode::CREATE_TTL { from.long()? } else { 0 };
        Ok(Self { path, data, acl, ephemeral, parent_cversion, ttl_ms })
    }

    fn encode(&self, op: OpCode, out: &mut Encoder<'_>) {
        out.text(&self.path);
        out.buffer(self.data);
        self.acl.encode(out);
        if matches!(op, OpCode::CREATE | OpCode::CREATE2) {
            out.boolean(self.ephemeral);
        }
        out.int(self.parent_cversion);
        if op == OpCode::CREATE_TTL {
            out.long(self.ttl_ms);
        }
    }
}

impl<'a> TxnRecord<'a> {
    /// Decodes a log record's body. Without bytes after the transaction, it has no digest.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is not a header and a transaction.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(body);
        let header = TxnHeader::decode(&mut from)?;
        let txn = Txn::decode(header.op, &mut from)?;
        let digest = (from.remaining() > 0).then(|| TxnDigest::decode(&mut from)).transpose()?;
        Ok(Self { header, txn, digest })
    }

    /// Appends the body as it is logged.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        self.header.encode(out);
        self.txn.encode(self.header.op, out);
        if let Some(digest) = &self.digest {
            digest.encode(out);
        }
    }
}
