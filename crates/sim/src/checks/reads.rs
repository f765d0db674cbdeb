//! Answers to clients: writes are linearizable and executed once, a session never goes back in
//! time, sync makes completed writes visible, and every answer matches the committed history.

use zebu_jute::{Decode as _, Decoder};
use zebu_proto::answer::{MultiResult, multi_results};
use zebu_proto::path::reserved::CONFIG;
use zebu_proto::reply::ReplyHeader;
use zebu_proto::{ErrorCode, OpCode, SessionId, Stat, Zxid};
use zebu_zab::config::Membership;

use crate::checks::configs::Configs;
use crate::checks::durability::Durability;
use crate::checks::joint::Joint;
use crate::checks::order::Order;
use crate::checks::quotas::Write;
use crate::checks::reference::Reference;
use crate::members::txn_of;

/// The newest write that any client knows to be complete.
#[derive(Default)]
pub(crate) struct Reads {
    pub(crate) completed: Zxid,
    pub(crate) answered: u64,
}

/// A request as its client remembers it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) xid: i32,
    pub(crate) op: OpCode,
    pub(crate) path: String,
    /// The data that the request writes, if known.
    pub(crate) data: Option<Vec<u8>>,
    /// What the request writes; for a multi, one entry for each of its operations.
    pub(crate) writes: Vec<Option<Write>>,
    /// The newest complete write when the request was sent.
    pub(crate) completed: Zxid,
}

/// The state with which an answer is compared.
#[derive(Clone, Copy)]
pub(crate) struct Told<'c> {
    pub(crate) order: &'c Order,
    pub(crate) reference: &'c Reference,
    pub(crate) configs: &'c Configs,
    pub(crate) joint: &'c Joint,
    pub(crate) durability: &'c Durability,
    /// Whether a session may end without a transaction.
    pub(crate) local_sessions: bool,
}

impl Reads {
    /// Checks an answer. `seen` is the newest zxid that the session has seen.
    pub(crate) fn answered(
        &mut self,
        told: Told<'_>,
        session: SessionId,
        seen: Zxid,
        asked: &Asked,
        payload: &[u8],
    ) -> Result<(), String> {
        let Told { order, reference, .. } = told;
        self.answered += 1;
        let mut from = Decoder::new(payload);
        let header = ReplyHeader::decode(&mut from).map_err(|error| error.to_string())?;
        let ReplyHeader { zxid, err, .. } = header;
        if !order.is_committed(zxid) {
            return Err(format!("ANS: {asked:?} is answered at {zxid}, which is not committed"));
        }
        if zxid < seen {
            return Err(format!("ORD: {asked:?} is answered at {zxid}, the session saw {seen}"));
        }
        let ends_here = asked.op == OpCode::CLOSE_SESSION
            && reference
                .reply(zxid)
                .is_none_or(|reply| (reply.session, reply.cxid) != (session, asked.xid));
        // The end of a local session has no transaction.
        if ends_here && told.local_sessions {
            return Ok(());
        }
        if asked.op.is_write() && err == ErrorCode::OK && zxid <= asked.completed {
            return Err(format!(
                "LIN: {asked:?} is ordered at {zxid}, before {} which was done when it was sent",
                asked.completed
            ));
        }
        if asked.op.is_write() {
            return self.written(reference, session, asked, zxid, payload);
        }
        if asked.op == OpCode::SYNC {
            return if zxid >= asked.completed {
                Ok(())
            } else {
                Err(format!(
                    "SYNC: answered at {zxid} although {} was completed before",
                    asked.completed
                ))
            };
        }
        let body = &payload[from.position()..];
        if asked.path == CONFIG {
            return configuration(told, zxid, err, body)
                .map_err(|what| format!("S-13: {asked:?} at {zxid} is answered with {what}"));
        }
        read(reference, asked, zxid, err, body)
            .map_err(|what| format!("ANS: {asked:?} at {zxid} is answered with {what}"))
    }

    fn written(
        &mut self,
        reference: &Reference,
        session: SessionId,
        asked: &Asked,
        zxid: Zxid,
        payload: &[u8],
    ) -> Result<(), String> {
        let reply = reference.reply(zxid);
        let ours = reply.filter(|reply| (reply.session, reply.cxid) == (session, asked.xid));
        let Some(reply) = ours else {
            return Err(format!("ANS: {asked:?} of {session} is answered at {zxid}, another's"));
        };
        if let (Some((path, data)), Some(asked_data)) = (&reply.wrote, &asked.data)
            && (!path.starts_with(&asked.path) || data != asked_data)
        {
            return Err(format!(
                "ANS: {asked:?} of {session} is answered with {zxid}, which wrote {data:x?} to {path}"
            ));
        }
        if reply.payload != payload {
            return Err(format!(
                "ANS: {asked:?} is answered at {zxid} with {payload:x?} instead of {:x?}",
                reply.payload
            ));
        }
        if let Some(write) = refused(asked, payload)? {
            reference.quotas.refused(zxid, write)?;
        }
        self.completed = self.completed.max(zxid);
        Ok(())
    }
}

/// The write that a quota has refused, as the answer says.
fn refused<'a>(asked: &'a Asked, payload: &[u8]) -> Result<Option<&'a Write>, String> {
    let text = |error: zebu_jute::DecodeError| error.to_string();
    let mut from = Decoder::new(payload);
    let header = ReplyHeader::decode(&mut from).map_err(text)?;
    let at = if header.err == ErrorCode::QUOTA_EXCEEDED {
        Some(0)
    } else if asked.op == OpCode::MULTI && !asked.writes.is_empty() {
        let results = multi_results(&mut from).map_err(text)?;
        let refused = MultiResult::Failed(ErrorCode::QUOTA_EXCEEDED);
        results.iter().position(|result| *result == refused)
    } else {
        None
    };
    Ok(at.and_then(|at| asked.writes.get(at)?.as_ref()))
}

/// The configuration in an answer may be newer than the tree, but not older, and must be committed.
fn configuration(told: Told<'_>, zxid: Zxid, err: ErrorCode, body: &[u8]) -> Result<(), String> {
    if err != ErrorCode::OK {
        return Err(format!("{err:?}"));
    }
    let data = Decoder::new(body).buffer().map_err(|error| error.to_string())?;
    let config = data.and_then(Membership::agreed).ok_or("no configuration")?;
    let known = told.configs.of(config.version());
    if !known.has_same_members(&config) {
        return Err(format!("{config}, which is {known}"));
    }
    let Told { order, configs, joint, durability, .. } = told;
    if let Some(version) = txn_of(&config).filter(|version| !order.is_committed(*version)) {
        joint.committed(version, order, configs, durability)?;
    }
    let shown = told.reference.at(CONFIG, zxid).map_or(Zxid::ZERO, |view| view.stat.mzxid);
    if config.version() < shown {
        return Err(format!("{}, although {shown} is in force", config.version()));
    }
    Ok(())
}

fn read(
    reference: &Reference,
    asked: &Asked,
    zxid: Zxid,
    err: ErrorCode,
    body: &[u8],
) -> Result<(), String> {
    if asked.op == OpCode::ADD_WATCH {
        return if err == ErrorCode::OK { Ok(()) } else { Err(format!("{err:?}")) };
    }
    let view = reference.at(&asked.path, zxid);
    let Some(view) = view else {
        return if err == ErrorCode::NO_NODE { Ok(()) } else { Err(format!("{err:?}")) };
    };
    if err != ErrorCode::OK {
        return Err(format!("{err:?}, although it is there"));
    }
    let from = &mut Decoder::new(body);
    let text = |error: zebu_jute::DecodeError| error.to_string();
    let stat = match asked.op {
        OpCode::GET_DATA => {
            let data = from.buffer().map_err(text)?.map(<[u8]>::to_vec);
            if data != view.data {
                return Err(format!("{data:?} instead of {:?}", view.data));
            }
            Stat::decode(from).map_err(text)?
        }
        OpCode::EXISTS => Stat::decode(from).map_err(text)?,
        OpCode::GET_CHILDREN2 => {
            let names = from.vector::<String>().map_err(text)?;
            let mut names = names.unwrap_or_default();
            names.sort();
            if names != view.children {
                return Err(format!("{names:?} instead of {:?}", view.children));
            }
            Stat::decode(from).map_err(text)?
        }
        _ => return Ok(()),
    };
    if stat == view.stat { Ok(()) } else { Err(format!("{stat:?} instead of {:?}", view.stat)) }
}
