//! Scripts for the replica: one or a few bytes for each event, so every change of a byte gives
//! another script.

use zebu_jute::{Encode, Encoder};
use zebu_proto::request::{
    AddWatch, Create, CreateTtl, MultiHeader, PathKind, PathOnly, PathVersion, PathWatch, SetAcl,
    SetData,
};
use zebu_proto::{AclRef, OpCode as Op, Perms, Version};

use crate::cursor::Cursor;

/// The number of connections at a time.
pub const SLOTS: u8 = 6;

/// A bit in an event's first byte: the effects of this event are executed together with those of
/// the next one.
pub const HELD: u8 = 0x80;

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A connection asks for a session: an existing one if there are that many.
    Connect { slot: u8, timeout_ms: i32, known: u8, right_password: bool, seen: u8 },
    /// A connection ends.
    Disconnect { slot: u8 },
    /// A client sends a request.
    Request { slot: u8, op: Op, body: Vec<u8> },
    /// A client sends credentials.
    Auth { slot: u8, user: u8 },
    /// Time passes.
    Tick { ms: u64 },
    /// The oldest records become durable.
    Flush { records: usize },
    /// An operator ends a session.
    Terminate { known: u8 },
    /// The walk of a snapshot continues, or begins.
    Walk { znodes: usize },
}

const NAMES: [&str; 8] = ["a", "b", "zookeeper", "quota", "zookeeper_limits", "s-", "\u{e9}", "."];

const PATHS: [&str; 24] = [
    "/",
    "/a",
    "/a/b",
    "/a/b/a",
    "/b",
    "/b/a",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/quota",
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
    "/zookeeper/quota/a/b",
    "/zookeeper/quota/a/b/zookeeper_limits",
    "/zookeeper/quota/a/b/zookeeper_stats",
    "/zookeeper/quota/zookeeper_limits",
    "/a/s-",
    "/a/s-0000000000",
    "/a/s-0000000001",
    "/c",
    "/c/a",
    "",
    "/a/",
    "/\u{e9}/../a",
];

/// The path for a byte: one of a table, or one below it.
fn path(byte: u8) -> String {
    let above = PATHS[usize::from(byte & 31) % PATHS.len()];
    match byte >> 5 {
        0..4 => above.to_owned(),
        name => {
            let parent = if above == "/" { "" } else { above };
            format!("{parent}/{}", NAMES[usize::from(name)])
        }
    }
}

fn data(byte: u8) -> Option<Vec<u8>> {
    match byte {
        0xff => None,
        0xc0.. => Some(b"count=3,bytes=40=;byteHardLimit=60;countHardLimit=4".to_vec()),
        0xb0.. => Some(b"count=2,bytes=".to_vec()),
        length => Some(vec![length; usize::from(length)]),
    }
}

/// The available ACLs: open, for no client, for one user, for the client itself, several entries,
/// invalid ones.
fn acl(byte: u8) -> Option<Vec<AclRef<'static>>> {
    const ALICE: &str = "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=";
    let entry = |perms, scheme: &'static str, id: &'static str| AclRef {
        perms: Perms(perms),
        scheme: Some(scheme.into()),
        id: Some(id.into()),
    };
    let open = entry(31, "world", "anyone");
    Some(match byte % 16 {
        0..8 => vec![open],
        8 => vec![entry(31, "digest", ALICE)],
        9 => vec![entry(31, "auth", "")],
        10 => vec![entry(1, "world", "anyone"), entry(30, "auth", "x")],
        11 => vec![entry(0, "world", "anyone")],
        12 => vec![],
        13 => vec![AclRef { perms: Perms(31), scheme: Some("ip".into()), id: None }],
        14 => vec![entry(31, "ip", "10.0.0.0/8"), entry(31, "ip", "10.0.0.0/8"), open],
        _ => return None,
    })
}

fn version(byte: u8) -> Version {
    Version(i32::from(byte as i8).clamp(-2, 3))
}

fn create(from: &mut Cursor<'_>) -> (Op, Vec<u8>) {
    let kind = from.byte();
    let op = [Op::CREATE, Op::CREATE2, Op::CREATE_CONTAINER, Op::CREATE_TTL][usize::from(kind % 4)];
    let flags = i32::from(kind >> 2 & 7);
    let path = Some(path(from.byte()).into());
    let bytes = data(from.byte());
    let acl = acl(from.byte());
    let data = bytes.as_deref();
    let body = if op == Op::CREATE_TTL {
        CreateTtl { path, data, acl, flags, ttl_ms: 50 << (kind >> 5) }.to_bytes()
    } else {
        Create { path, data, acl, flags }.to_bytes()
    };
    (op, body)
}

fn delete(from: &mut Cursor<'_>) -> Vec<u8> {
    let path = Some(path(from.byte()).into());
    PathVersion { path, version: version(from.byte()) }.to_bytes()
}

fn set_data(from: &mut Cursor<'_>) -> Vec<u8> {
    let path = Some(path(from.byte()).into());
    let bytes = data(from.byte());
    SetData { path, data: bytes.as_deref(), version: version(from.byte()) }.to_bytes()
}

fn set_acl(from: &mut Cursor<'_>) -> Vec<u8> {
    let path = Some(path(from.byte()).into());
    let acl = acl(from.byte());
    SetAcl { path, acl, version: version(from.byte()) }.to_bytes()
}

fn read(from: &mut Cursor<'_>) -> (Op, Vec<u8>) {
    let kind = from.byte();
    let path = path(from.byte());
    let watch = kind & 0x10 != 0;
    let watched = |op| (op, PathWatch { path: Some(path.as_str().into()), watch }.to_bytes());
    let plain = |op| (op, PathOnly { path: Some(path.as_str().into()) }.to_bytes());
    let number = i32::from(kind >> 5);
    let watches = |op| (op, PathKind { path: Some(path.as_str().into()), kind: number }.to_bytes());
    match kind & 15 {
        0 => watched(Op::GET_DATA),
        1 => watched(Op::EXISTS),
        2 => watched(Op::GET_CHILDREN),
        3 => watched(Op::GET_CHILDREN2),
        4 => plain(Op::GET_ACL),
        5 => plain(Op::GET_ALL_CHILDREN_NUMBER),
        6 => plain(Op::GET_EPHEMERALS),
        7 => plain(Op::SYNC),
        8 => (Op::WHO_AM_I, vec![]),
        9 => (Op::PING, vec![]),
        10 | 11 => {
            let path = Some(path.as_str().into());
            (Op::ADD_WATCH, AddWatch { path, mode: number & 1 }.to_bytes())
        }
        12 => watches(Op::CHECK_WATCHES),
        13 => watches(Op::REMOVE_WATCHES),
        _ => {
            let mut body = Vec::new();
            let mut out = Encoder::new(&mut body);
            for at in 0..number {
                let op = if at & 1 == 0 { Op::GET_DATA } else { Op::GET_CHILDREN };
                MultiHeader { op, done: false, err: -1 }.encode(&mut out);
                PathWatch { path: Some(path.as_str().into()), watch: false }.encode(&mut out);
            }
            MultiHeader::END.encode(&mut out);
            (Op::MULTI_READ, body)
        }
    }
}

fn multi(from: &mut Cursor<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    let mut out = Encoder::new(&mut body);
    for _ in 0..from.byte() % 8 {
        let (op, bytes) = match from.byte() % 6 {
            0 | 1 => create(from),
            2 => (Op::DELETE, delete(from)),
            3 => (Op::SET_DATA, set_data(from)),
            4 => (Op::CHECK, delete(from)),
            // Not for a multi.
            _ => (Op::SET_ACL, set_acl(from)),
        };
        MultiHeader { op, done: false, err: -1 }.encode(&mut out);
        out.raw(&bytes);
    }
    MultiHeader::END.encode(&mut out);
    body
}

/// The next event, and whether it is executed together with the next one.
pub(crate) fn event(from: &mut Cursor<'_>) -> Option<(Event, bool)> {
    let first = from.next()?;
    let kind = first & !HELD;
    let mut slot = || from.byte() % SLOTS;
    let event = match kind % 16 {
        0 => {
            let slot = slot();
            let wish = from.byte();
            Event::Connect {
                slot,
                timeout_ms: i32::from(wish as i8) * 100,
                known: from.byte(),
                right_password: wish & 7 != 7,
                seen: if wish & 15 == 15 { wish } else { 0 },
            }
        }
        1 => Event::Disconnect { slot: slot() },
        2 => {
            let slot = slot();
            Event::Request { slot, op: Op(from.int()), body: from.run().to_vec() }
        }
        3 | 4 => {
            let slot = slot();
            let (op, body) = create(from);
            Event::Request { slot, op, body }
        }
        5 => Event::Request { slot: slot(), op: Op::DELETE, body: delete(from) },
        6 => Event::Request { slot: slot(), op: Op::SET_DATA, body: set_data(from) },
        7 => Event::Request { slot: slot(), op: Op::SET_ACL, body: set_acl(from) },
        8 | 9 => {
            let slot = slot();
            let (op, body) = read(from);
            Event::Request { slot, op, body }
        }
        10 => Event::Request { slot: slot(), op: Op::MULTI, body: multi(from) },
        11 => Event::Request { slot: slot(), op: Op::CLOSE_SESSION, body: vec![] },
        12 => Event::Tick { ms: 10 << (from.byte() % 12) },
        13 => Event::Flush { records: usize::from(from.byte()) },
        14 => match from.byte() {
            byte if byte & 1 == 0 => Event::Terminate { known: byte >> 1 },
            byte => Event::Auth { slot: byte >> 1 & 7, user: byte >> 4 },
        },
        _ => Event::Walk { znodes: usize::from(from.byte()) },
    };
    Some((event, first & HELD != 0))
}

/// The script of a conversation: connections by number, opcodes and bodies, each durable at once.
pub fn conversation<'a>(requests: impl Iterator<Item = (u8, i32, &'a [u8])>) -> Vec<u8> {
    let mut script = vec![0x1f, 0];
    for slot in 0..SLOTS {
        script.extend([0, slot, 100, 0xff]);
    }
    script.extend([13, 0xff]);
    for (slot, op, body) in requests {
        script.extend([2, slot]);
        script.extend(op.to_be_bytes());
        script.extend((body.len() as u16).to_be_bytes());
        script.extend_from_slice(body);
        script.extend([13, 0xff]);
    }
    script
}
