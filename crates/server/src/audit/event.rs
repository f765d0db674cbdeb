//! An audited event, and its line, which the thread of the audit log formats.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use zebu_jute::{Decode as _, Decoder};
use zebu_logs::audit::{Line, Outcome};
use zebu_logs::queue::{Entry, Lines};
use zebu_proto::request::{Create, CreateTtl, MultiOp, PathVersion, SetAcl, SetData, multi_ops};
use zebu_proto::txn::{Txn, TxnRecord};
use zebu_proto::{AclRef, CreateMode, OpCode, SessionId};
use zebu_replica::auth::{Credentials, Schemes};

/// The original's name for the removal of an ephemeral znode whose session has ended.
const EPHEMERAL_ENDS: &str = "ephemeralZNodeDeletionOnSessionCloseOrExpire";

/// An audited request, whose result must be logged.
#[derive(Debug)]
pub struct Asked {
    /// The client's session.
    pub session: SessionId,
    /// The client's ids when the request arrived, the address first.
    pub ids: Credentials,
    /// The operation.
    pub op: OpCode,
    /// The bytes after the request's header.
    pub body: Bytes,
}

/// The kinds of audited events.
#[derive(Debug)]
pub enum What {
    /// An operation of the server itself.
    Own {
        /// The operation.
        operation: &'static str,
        /// Its result.
        result: Outcome,
    },
    /// A client's request with its result.
    Request {
        /// The request.
        asked: Asked,
        /// Its transaction, if it caused one.
        record: Option<Bytes>,
        /// Its result.
        success: bool,
    },
    /// A session has ended, by this transaction.
    SessionEnded {
        /// The transaction.
        record: Bytes,
    },
    /// A client could not authenticate.
    NotAuthenticated {
        /// The client's address.
        peer: IpAddr,
        /// Its session, if it has one.
        session: Option<SessionId>,
        /// The ids that it has proved before.
        ids: Option<Credentials>,
        /// The scheme.
        scheme: String,
        /// The reason.
        reason: String,
    },
    /// A connection was refused.
    Refused {
        /// The client's address.
        peer: IpAddr,
        /// The reason.
        reason: String,
    },
}

/// An audited event, and its time.
#[derive(Debug)]
pub struct Event {
    /// The time, in milliseconds since the Unix epoch.
    pub wall_ms: i64,
    /// The event.
    pub what: What,
}

/// How a line names users.
pub struct Names {
    /// The user who started the server.
    pub server: String,
    /// The schemes, which determine the part of an id that is not secret.
    pub schemes: Arc<Schemes>,
}

impl Names {
    /// The name of an id without its secrets; `None` if no scheme knows it.
    fn name<'i>(&self, scheme: &str, id: &'i str) -> Option<&'i str> {
        self.schemes.provider(scheme).map(|provider| provider.user_name(id))
    }

    /// The users that a client's ids stand for, in order.
    ///
    /// Source: `AuthUtil.getUsers`.
    fn users(&self, ids: &Credentials) -> String {
        let names = ids.iter().filter_map(|id| self.name(&id.scheme, &id.id));
        names.collect::<Vec<_>>().join(",")
    }

    /// An access control list, without secrets.
    ///
    /// Source: `ZKUtil.aclToString`, which puts no separator between entries.
    fn acl(&self, acl: &[AclRef<'_>]) -> String {
        let mut text = String::new();
        for (number, entry) in acl.iter().enumerate() {
            let scheme = entry.scheme.as_deref().unwrap_or_default();
            let id = entry.id.as_deref().unwrap_or_default();
            let id = self.name(scheme, id).unwrap_or(id);
            let comma = if number > 0 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{scheme}:{id}:{:?}", entry.perms);
        }
        text
    }
}

/// The original's name for a kind of znode.
fn kind(flags: i32) -> Option<&'static str> {
    Some(match CreateMode::from_flags(flags)? {
        CreateMode { container: true, .. } => "container",
        CreateMode { ttl: true, sequential: false, .. } => "persistent_with_ttl",
        CreateMode { ttl: true, .. } => "persistent_sequential_with_ttl",
        CreateMode { ephemeral: true, sequential: false, .. } => "ephemeral",
        CreateMode { ephemeral: true, .. } => "ephemeral_sequential",
        CreateMode { sequential: true, .. } => "persistent_sequential",
        CreateMode { .. } => "persistent",
    })
}

/// The parts of a request that a line shows.
#[derive(Default)]
struct Wanted<'b> {
    path: Option<Cow<'b, str>>,
    kind: Option<&'static str>,
    acl: Option<String>,
}

/// Reads a request. Leaves out what it cannot decode.
fn wanted<'b>(names: &Names, op: OpCode, body: &'b [u8]) -> Wanted<'b> {
    let from = &mut Decoder::new(body);
    let none = Wanted::default();
    match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => match Create::decode(from) {
            Ok(it) => Wanted { path: it.path, kind: kind(it.flags), acl: None },
            Err(_) => none,
        },
        OpCode::CREATE_TTL => match CreateTtl::decode(from) {
            Ok(it) => Wanted { path: it.path, kind: kind(it.flags), acl: None },
            Err(_) => none,
        },
        OpCode::DELETE => match PathVersion::decode(from) {
            Ok(it) => Wanted { path: it.path, ..none },
            Err(_) => none,
        },
        OpCode::SET_DATA => match SetData::decode(from) {
            Ok(it) => Wanted { path: it.path, ..none },
            Err(_) => none,
        },
        OpCode::SET_ACL => match SetAcl::decode(from) {
            Ok(it) => {
                let acl = Some(names.acl(&it.acl.unwrap_or_default()));
                Wanted { path: it.path, acl, ..none }
            }
            Err(_) => none,
        },
        _ => none,
    }
}

/// The original's name for an operation; `None` if the operation is not audited.
pub fn operation(op: OpCode) -> Option<&'static str> {
    Some(match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
            "create"
        }
        OpCode::DELETE => "delete",
        OpCode::SET_DATA => "setData",
        OpCode::SET_ACL => "setAcl",
        OpCode::MULTI => "multiOperation",
        OpCode::RECONFIG => "reconfig",
        _ => return None,
    })
}

/// The path of a transaction on one znode.
fn path_of<'t>(txn: &'t Txn<'_>) -> Option<&'t str> {
    match txn {
        Txn::Create(create) => Some(&create.path),
        Txn::Delete { path } | Txn::SetData { path, .. } | Txn::SetAcl { path, .. } => Some(path),
        _ => None,
    }
}

impl Event {
    fn request(&self, names: &Names, asked: &Asked, record: Option<&Bytes>, out: &mut String) {
        let Some(operation) = operation(asked.op) else { return };
        let What::Request { success, .. } = self.what else { return };
        let result = if success { Outcome::Success } else { Outcome::Failure };
        let users = names.users(&asked.ids);
        // The ids of every connection begin with its address.
        let ip = asked.ids.first().filter(|id| id.scheme == "ip").map(|id| id.id.as_str());
        let line =
            Line { session: Some(asked.session.0), ip, ..Line::new(&users, operation, result) };
        let record = record.and_then(|record| TxnRecord::decode(record).ok());
        if asked.op == OpCode::MULTI && success {
            let Some(TxnRecord { txn: Txn::Multi(txns), .. }) = &record else { return };
            let ops = multi_ops(&mut Decoder::new(&asked.body), false).unwrap_or_default();
            for (number, (_, txn)) in txns.iter().enumerate() {
                let (operation, znode_type) = match (txn, ops.get(number)) {
                    (Txn::Create(_), Some(MultiOp::Create(_, it))) => ("create", kind(it.flags)),
                    (Txn::Create(_), _) => ("create", None),
                    (Txn::Delete { .. }, _) => ("delete", None),
                    (Txn::SetData { .. }, _) => ("setData", None),
                    _ => continue,
                };
                let line = Line { operation, znode: path_of(txn), znode_type, ..line };
                line.write(out, self.wall_ms);
            }
            return;
        }
        let Wanted { path, kind, acl } = wanted(names, asked.op, &asked.body);
        let made = record.as_ref().filter(|_| success).and_then(|record| path_of(&record.txn));
        let line =
            Line { znode: made.or(path.as_deref()), znode_type: kind, acl: acl.as_deref(), ..line };
        line.write(out, self.wall_ms);
    }

    /// One line for each ephemeral znode in the list.
    fn session_ended(&self, names: &Names, record: &[u8], out: &mut String) {
        let Ok(TxnRecord { header, txn: Txn::CloseSession { paths: Some(paths) }, .. }) =
            TxnRecord::decode(record)
        else {
            return;
        };
        for path in &paths {
            let line = Line {
                session: Some(header.session.0),
                znode: Some(path),
                ..Line::new(&names.server, EPHEMERAL_ENDS, Outcome::Success)
            };
            line.write(out, self.wall_ms);
        }
    }
}

impl Entry for Event {
    fn bytes(&self) -> usize {
        let own = match &self.what {
            What::Own { .. } => 0,
            What::Request { asked, record, .. } => {
                asked.body.len() + record.as_ref().map_or(0, Bytes::len)
            }
            What::SessionEnded { record } => record.len(),
            What::NotAuthenticated { scheme, reason, .. } => scheme.len() + reason.len(),
            What::Refused { reason, .. } => reason.len(),
        };
        size_of::<Self>() + own
    }
}

impl Lines for Event {
    type Context = Names;

    fn render(&self, names: &Names, out: &mut String) {
        match &self.what {
            What::Own { operation, result } => {
                Line::new(&names.server, operation, *result).write(out, self.wall_ms);
            }
            What::Request { asked, record, .. } => {
                self.request(names, asked, record.as_ref(), out);
            }
            What::SessionEnded { record } => self.session_ended(names, record, out),
            What::NotAuthenticated { peer, session, ids, scheme, reason } => {
                let ip = peer.to_canonical().to_string();
                let users = ids.as_ref().map_or_else(|| ip.clone(), |ids| names.users(ids));
                let line = Line {
                    session: session.map(|session| session.0),
                    ip: Some(&ip),
                    scheme: Some(scheme),
                    reason: Some(reason),
                    ..Line::new(&users, "authentication", Outcome::Failure)
                };
                line.write(out, self.wall_ms);
            }
            What::Refused { peer, reason } => {
                let ip = peer.to_canonical().to_string();
                let line = Line {
                    ip: Some(&ip),
                    reason: Some(reason),
                    ..Line::new(&ip, "connection", Outcome::Failure)
                };
                line.write(out, self.wall_ms);
            }
        }
    }

    fn missing(names: &Names, count: u64, now_ms: i64, out: &mut String) {
        let reason = format!("{count} events were lost: the disk is too slow for them");
        let line = Line {
            reason: Some(&reason),
            ..Line::new(&names.server, "auditLog", Outcome::Failure)
        };
        line.write(out, now_ms);
    }
}
