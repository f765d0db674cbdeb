//! Frames: a length and a payload, appended to a connection's output.

use zebu_jute::{Encode, Encoder};
use zebu_proto::reply::{ReplyHeader, WatcherEvent};
use zebu_proto::{ErrorCode, EventType, KeeperState, Xid, Zxid};

use crate::faults;

/// Bytes of the length prefix of every frame.
pub const LENGTH_BYTES: usize = 4;

/// Length, xid, zxid and error code of an answer.
const HEADER_BYTES: usize = LENGTH_BYTES + 4 + 8 + 4;

/// Appends one frame whose payload `write` produces.
#[inline(always)]
pub fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_>)) {
    let at = out.len();
    let mut encoder = Encoder::new(out);
    encoder.int(0);
    write(&mut encoder);
    let length = encoder.position() - at - LENGTH_BYTES;
    encoder.patch_int(at, i32::try_from(length).expect("frames are bounded far below 2 GiB"));
}

/// Appends an answer: header and body.
pub fn reply(out: &mut Vec<u8>, header: ReplyHeader, body: impl FnOnce(&mut Encoder<'_>)) {
    frame(out, |encoder| {
        header.encode(encoder);
        body(encoder);
    });
}

/// The beginning of an answer whose body of `length` bytes follows: length and header.
pub fn reply_front(header: ReplyHeader, length: usize) -> Vec<u8> {
    let mut front = Vec::new();
    reply(&mut front, header, |_| {});
    let payload = i32::try_from(front.len() - LENGTH_BYTES + length);
    let payload = payload.expect("frames are bounded far below 2 GiB");
    front[..LENGTH_BYTES].copy_from_slice(&payload.to_be_bytes());
    front
}

/// Appends an answer without a body.
pub fn bare_reply(out: &mut Vec<u8>, xid: Xid, zxid: Zxid, err: ErrorCode) {
    reply(out, ReplyHeader { xid, zxid, err }, |_| {});
}

/// The error code and the body of the answer in `frame`, if it has a complete header.
#[inline]
pub fn parts(frame: &[u8]) -> Option<(ErrorCode, &[u8])> {
    let (header, body) = frame.split_first_chunk::<HEADER_BYTES>()?;
    let code = header.last_chunk()?;
    Some((ErrorCode(i32::from_be_bytes(*code)), body))
}

/// Turns the answer in `frame` into an error and leaves its body unchanged.
///
/// # Panics
/// If `frame` has no complete header.
pub fn fail(frame: &mut [u8], err: ErrorCode) {
    frame[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&err.0.to_be_bytes());
}

/// Appends a notification. `zxid`: the transaction that caused it; −1 for changes missed while
/// disconnected.
pub fn notification(out: &mut Vec<u8>, event: EventType, path: &str, zxid: Zxid) {
    if faults::watch_dropped() && event == EventType::NODE_CHILDREN_CHANGED {
        return;
    }
    reply(out, ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: ErrorCode::OK }, |encoder| {
        WatcherEvent { kind: event, state: KeeperState::SYNC_CONNECTED, path: path.into() }
            .encode(encoder);
    });
}
