//! What clients are told: writes are linearizable and carried out once, a session never goes back,
//! sync makes what was completed visible, and every answer is the one the committed history gives.

use zebu_jute::{Decode as _, Decoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::{ErrorCode, OpCode, SessionId, Stat, Zxid};

use crate::checks::order::Order;
use crate::checks::reference::Reference;

/// The newest write that any client knows to be done.
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
    /// The newest write that was completed when it was sent.
    pub(crate) completed: Zxid,
}

impl Reads {
    /// Checks an answer; `seen` is the newest zxid the session has seen.
    pub(crate) fn answered(
        &mut self,
        order: &Order,
        reference: &Reference,
        session: SessionId,
        seen: Zxid,
        asked: &Asked,
        payload: &[u8],
    ) -> Result<(), String> {
        self.answered += 1;
        let mut from = Decoder::new(payload);
        let header = ReplyHeader::decode(&mut from).map_err(|error| error.to_string())?;
        let ReplyHeader { zxid, err, .. } = header;
        if !order.is_committed(zxid) {
            return Err(format!("{asked:?} is answered at {zxid}, which is not committed"));
        }
        if zxid < seen {
            return Err(format!("ORD: {asked:?} is answered at {zxid}, the session saw {seen}"));
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
        read(reference, asked, zxid, err, body)
            .map_err(|what| format!("{asked:?} at {zxid} is answered with {what}"))
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
            return Err(format!("{asked:?} of {session} is answered at {zxid}, another's"));
        };
        if reply.payload != payload {
            return Err(format!(
                "{asked:?} is answered at {zxid} with {payload:x?} instead of {:x?}",
                reply.payload
            ));
        }
        if zxid <= asked.completed {
            return Err(format!(
                "LIN: {asked:?} is ordered at {zxid}, before {} which was done when it was sent",
                asked.completed
            ));
        }
        self.completed = self.completed.max(zxid);
        Ok(())
    }
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
