//! Answers to writes, made from the result of applying them.
//! Source: `FinalRequestProcessor`.

use zebu_jute::{Encode, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::MultiHeader;
use zebu_proto::{ErrorCode, OpCode, Xid, Zxid};
use zebu_tree::{Applied, OpResult, Outcome};

use crate::frame::reply;

/// Appends the answer to a write.
pub fn write_reply(out: &mut Vec<u8>, op: OpCode, xid: Xid, zxid: Zxid, applied: &Applied<'_>) {
    match &applied.result {
        Outcome::One(result) => {
            let header = ReplyHeader { xid, zxid, err: result.err };
            reply(out, header, |out| {
                if result.err == ErrorCode::OK {
                    body(op, result, out);
                }
            });
        }
        // A failed multi reports the failure in its results only.
        Outcome::Multi(results) => {
            reply(out, ReplyHeader { xid, zxid, err: ErrorCode::OK }, |out| multi(results, out));
        }
    }
}

fn body(op: OpCode, result: &OpResult<'_>, out: &mut Encoder<'_>) {
    if let Some(path) = result.path {
        out.text(path);
    }
    if op == OpCode::RECONFIG {
        out.buffer(result.data);
    }
    if op != OpCode::CREATE
        && let Some(stat) = &result.stat
    {
        stat.encode(out);
    }
}

fn multi(results: &[OpResult<'_>], out: &mut Encoder<'_>) {
    for result in results {
        let op = match result.op {
            OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => OpCode::CREATE2,
            op => op,
        };
        MultiHeader { op, done: false, err: result.err.0 }.encode(out);
        match op {
            OpCode::ERROR => result.err.encode(out),
            op => body(op, result, out),
        }
    }
    MultiHeader::END.encode(out);
}
