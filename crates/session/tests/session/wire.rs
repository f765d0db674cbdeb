//! Decodes the bytes that a session sends, and encodes the bytes that a server sends.

use bytes::Bytes;
use zebu_jute::{Decode, Decoder, Encode, Encoder};
use zebu_proto::reply::{ConnectResponse, ReplyHeader, WatcherEvent};
use zebu_proto::request::{
    AuthPacket, ConnectRequest, PathKind, PathWatch, PersistentWatches, RequestHeader, SetWatches,
};
use zebu_proto::{EnsembleId, ErrorCode, EventType, KeeperState, OpCode, SessionId, Xid, Zxid};
use zebu_session::Frame;
use zebu_testkit::wire::split_frame;

pub fn get_data(path: &str, watch: bool) -> Frame {
    Frame::new(OpCode::GET_DATA, |out| PathWatch { path: Some(path.into()), watch }.encode(out))
}

pub fn remove_watches(path: &str) -> Frame {
    let request = PathKind { path: Some(path.into()), kind: 3 };
    Frame::new(OpCode::REMOVE_WATCHES, |out| request.encode(out))
}

/// Splits sent bytes into frames.
pub fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (frame, rest) = split_frame(bytes).expect("a session sends whole frames");
        frames.push(frame);
        bytes = rest;
    }
    frames
}

/// A request as text.
pub fn describe(frame: &[u8]) -> String {
    let mut from = Decoder::new(frame);
    let RequestHeader { xid, op } = Decode::decode(&mut from).unwrap();
    let name = format!("{op}({})", xid.0);
    match op {
        OpCode::PING | OpCode::CLOSE_SESSION => name,
        OpCode::AUTH => {
            let AuthPacket { scheme, .. } = Decode::decode(&mut from).unwrap();
            format!("{name} {}", scheme.unwrap())
        }
        OpCode::SASL => {
            let token = from.buffer().unwrap().expect("clients send a token");
            format!("{name} {:?}", String::from_utf8_lossy(token))
        }
        OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => {
            let SetWatches { relative_zxid, data, exist, child } =
                Decode::decode(&mut from).unwrap();
            let mut text = format!("{name} {relative_zxid} {data:?} {exist:?} {child:?}");
            if op == OpCode::SET_WATCHES2 {
                let PersistentWatches { persistent, recursive } =
                    Decode::decode(&mut from).unwrap();
                let persistent: Vec<_> = persistent.into_iter().flatten().collect();
                let recursive: Vec<_> = recursive.into_iter().flatten().collect();
                text += &format!(" {persistent:?} {recursive:?}");
            }
            text
        }
        OpCode::REMOVE_WATCHES => {
            let PathKind { path, kind } = Decode::decode(&mut from).unwrap();
            format!("{name} {} kind={kind}", path.unwrap())
        }
        _ => {
            let PathWatch { path, .. } = Decode::decode(&mut from).unwrap();
            format!("{name} {}", path.unwrap())
        }
    }
}

pub fn describe_connect(frame: &[u8]) -> String {
    let request = ConnectRequest::from_bytes(frame).unwrap();
    format!(
        "connect session=0x{:x} seen={} timeout={} read_only={}{}",
        request.session_id,
        request.last_zxid_seen,
        request.timeout_ms,
        request.read_only.unwrap(),
        if request.asks_ensemble { " asks for the ensemble" } else { "" }
    )
}

pub fn welcome(
    session: i64,
    timeout_ms: i32,
    read_only: bool,
    ensemble: Option<EnsembleId>,
) -> Bytes {
    let response = ConnectResponse {
        ensemble,
        timeout_ms,
        session_id: SessionId(session),
        password: [7; 16],
        read_only: Some(read_only),
    };
    response.to_bytes().into()
}

pub fn reply(xid: i32, zxid: i64, err: i32) -> Bytes {
    ReplyHeader { xid: Xid(xid), zxid: Zxid(zxid), err: ErrorCode(err) }.to_bytes().into()
}

/// A server's answer to a SASL token.
pub fn token(xid: i32, token: Option<&str>) -> Bytes {
    let mut bytes = reply(xid, 0, 0).to_vec();
    Encoder::new(&mut bytes).buffer(token.map(str::as_bytes));
    bytes.into()
}

pub fn event(kind: i32, path: &str, zxid: i64) -> Bytes {
    let mut bytes = reply(-1, zxid, 0).to_vec();
    WatcherEvent { kind: EventType(kind), state: KeeperState::SYNC_CONNECTED, path: path.into() }
        .encode(&mut Encoder::new(&mut bytes));
    bytes.into()
}
