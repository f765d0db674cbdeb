//! The requests of clients.

use zebu_jute::{Decode as _, Decoder, Encode, Encoder};
use zebu_proto::path::reserved::{LIMITS, QUOTA, STATS};
use zebu_proto::request::{
    Create, CreateTtl, MultiHeader, MultiOp, PathOnly, PathVersion, PathWatch, SetAcl, SetData,
    multi_ops,
};
use zebu_proto::{Acl, AclRef, OpCode, Version};
use zebu_testkit::Random;

use crate::checks::quotas::Write;
use crate::checks::watches::Kind;

/// A client's operation.
pub(crate) enum Wish {
    /// One request: its opcode, its path, the watch it leaves, and its body.
    One(OpCode, String, Option<Kind>, Vec<u8>),
    SyncAndRead(String),
    Watch(String, bool),
    Close,
}

const EPHEMERAL: i32 = 1;
const SEQUENTIAL: i32 = 2;
const CONTAINER: i32 = 4;
const TTL: i32 = 5;

const PARENTS: [&str; 3] = ["/a", "/b", "/s"];
/// Znodes with quotas, some of them below others.
const NESTED: [&str; 4] = ["/a", "/a/x", "/b", "/b/x"];
const PATHS: [&str; 8] = ["/a", "/b", "/s", "/a/x", "/a/y", "/b/x", "/b/x/p", "/c"];

pub(crate) fn path_only(path: &str) -> Vec<u8> {
    PathOnly { path: Some(path.into()) }.to_bytes()
}

pub(crate) fn read(path: &str, watch: bool) -> Vec<u8> {
    PathWatch { path: Some(path.into()), watch }.to_bytes()
}

fn create(path: &str, data: &[u8], flags: i32) -> Vec<u8> {
    create_with(path, data, flags, &Acl::open())
}

pub(crate) fn create_with(path: &str, data: &[u8], flags: i32, acl: &[Acl]) -> Vec<u8> {
    let acl = Some(acl.iter().map(AclRef::from).collect());
    Create { path: Some(path.into()), data: Some(data), acl, flags }.to_bytes()
}

/// A `create` request for a znode with a time to live.
pub(crate) fn create_ttl(path: &str, data: &[u8], ttl_ms: i64) -> Vec<u8> {
    let open = Acl::open();
    let acl = Some(open.iter().map(AclRef::from).collect());
    CreateTtl { path: Some(path.into()), data: Some(data), acl, flags: TTL, ttl_ms }.to_bytes()
}

/// A `create` request for an ephemeral znode.
pub(crate) fn ephemeral(path: &str) -> Vec<u8> {
    create(path, b"", EPHEMERAL)
}

pub(crate) fn set(path: &str, data: &[u8], version: Version) -> Vec<u8> {
    SetData { path: Some(path.into()), data: Some(data), version }.to_bytes()
}

pub(crate) fn delete(path: &str) -> Vec<u8> {
    PathVersion { path: Some(path.into()), version: Version::ANY }.to_bytes()
}

pub(crate) fn multi(ops: &[(OpCode, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes);
    for (op, body) in ops {
        MultiHeader { op: *op, done: false, err: -1 }.encode(&mut out);
        out.raw(body);
    }
    MultiHeader::END.encode(&mut out);
    bytes
}

/// The first byte of the data that programs write.
const TAG: u8 = 0xa9;

/// Unique data for one request of a program.
pub(crate) fn tag(program: usize, request: u64) -> [u8; 8] {
    let mut data = request.to_be_bytes();
    (data[0], data[1]) = (TAG, program as u8);
    data
}

/// Whether `data` is such unique data.
pub(crate) fn is_tag(data: &[u8]) -> bool {
    data.len() == 8 && data[0] == TAG
}

/// One of the paths that clients use.
pub(crate) fn some_path(random: &mut Random) -> String {
    (*random.pick(&PATHS)).to_owned()
}

/// What a request writes; for a multi, one entry for each of its operations.
pub(crate) fn writes(op: OpCode, body: &[u8]) -> Vec<Option<Write>> {
    let write = |path: Option<&str>, data: Option<&[u8]>, creates| {
        let bytes = data.map_or(0, <[u8]>::len);
        Some(Write { path: path?.to_owned(), bytes, creates })
    };
    let from = &mut Decoder::new(body);
    match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
            let create = Create::decode(from).ok();
            vec![create.and_then(|it| write(it.path.as_deref(), it.data, true))]
        }
        OpCode::SET_DATA => {
            let set = SetData::decode(from).ok();
            vec![set.and_then(|it| write(it.path.as_deref(), it.data, false))]
        }
        OpCode::MULTI => {
            let ops = multi_ops(from, false).unwrap_or_default();
            let writes = ops.iter().map(|op| match op {
                MultiOp::Create(_, it) => write(it.path.as_deref(), it.data, true),
                MultiOp::SetData(it) => write(it.path.as_deref(), it.data, false),
                _ => None,
            });
            writes.collect()
        }
        _ => Vec::new(),
    }
}

/// A request that sets, changes or removes the quota of a znode.
///
/// Limits and usage come and go together. `nested`: whether a quota may be below another.
pub(crate) fn quota(random: &mut Random, nested: bool) -> Wish {
    let owner = random.pick(if nested { &NESTED } else { &PARENTS });
    let top = format!("{QUOTA}{owner}");
    let (limits, stats) = (format!("{top}/{LIMITS}"), format!("{top}/{STATS}"));
    let mut limit = |most: u64| if random.one_in(4) { -1 } else { random.below(most) as i64 };
    let (count, bytes, count_hard, bytes_hard) = (limit(4), limit(20), limit(8), limit(40));
    let text = format!(
        "count={count},bytes={bytes}=;byteHardLimit={bytes_hard};countHardLimit={count_hard}"
    );
    let (op, path, body) = match random.below(8) {
        0..2 => (OpCode::CREATE, top.clone(), create(&top, b"", 0)),
        2..5 => {
            let ops = [
                (OpCode::CREATE, create(&limits, text.as_bytes(), 0)),
                (OpCode::CREATE, create(&stats, b"count=0,bytes=0", 0)),
            ];
            (OpCode::MULTI, limits, multi(&ops))
        }
        5..7 => {
            let body = set(&limits, text.as_bytes(), Version::ANY);
            (OpCode::SET_DATA, limits, body)
        }
        _ => {
            let ops = [(OpCode::DELETE, delete(&stats)), (OpCode::DELETE, delete(&limits))];
            (OpCode::MULTI, limits, multi(&ops))
        }
    };
    Wish::One(op, path, None, body)
}

/// The next request of a client. `data` is the data for a write.
pub(crate) fn draw(random: &mut Random, client: usize, data: &[u8]) -> Wish {
    let path = some_path(random);
    let watch = random.one_in(2);
    let one = |op, path: String, body| Wish::One(op, path, None, body);
    match random.below(64) {
        0..8 => {
            let body = set(&path, data, Version::ANY);
            one(OpCode::SET_DATA, path, body)
        }
        8..11 => {
            let body = set(&path, data, Version(random.below(4) as i32));
            one(OpCode::SET_DATA, path, body)
        }
        11..18 => {
            let op = *random.pick(&[OpCode::CREATE, OpCode::CREATE2]);
            let body = create(&path, data, 0);
            one(op, path, body)
        }
        18..21 => {
            let body = delete(&path);
            one(OpCode::DELETE, path, body)
        }
        21..25 => {
            let path = format!("{}/e{client}", random.pick(&PARENTS));
            let body = create(&path, data, EPHEMERAL);
            one(OpCode::CREATE2, path, body)
        }
        25..28 => {
            let path = "/s/n-".to_owned();
            let body = create(&path, data, EPHEMERAL | SEQUENTIAL);
            one(OpCode::CREATE2, path, body)
        }
        28..29 => {
            let path = "/c".to_owned();
            let body = create(&path, data, CONTAINER);
            one(OpCode::CREATE_CONTAINER, path, body)
        }
        29..31 => {
            let open = Acl::open();
            let acl = Some(open.iter().map(AclRef::from).collect());
            let body =
                SetAcl { path: Some((&*path).into()), acl, version: Version::ANY }.to_bytes();
            one(OpCode::SET_ACL, path, body)
        }
        31..39 => {
            let body = read(&path, watch);
            Wish::One(OpCode::GET_DATA, path, watch.then_some(Kind::Data), body)
        }
        39..44 => {
            let body = read(&path, watch);
            Wish::One(OpCode::EXISTS, path, watch.then_some(Kind::Data), body)
        }
        44..49 => {
            let body = read(&path, watch);
            Wish::One(OpCode::GET_CHILDREN2, path, watch.then_some(Kind::Child), body)
        }
        49..54 => {
            let other = *random.pick(&PATHS);
            let ephemeral = format!("/a/m{client}");
            let ops = match random.below(3) {
                0 => vec![
                    (OpCode::SET_DATA, set(&path, data, Version::ANY)),
                    (OpCode::SET_DATA, set(other, data, Version::ANY)),
                ],
                1 => vec![
                    (OpCode::CREATE, create(&ephemeral, data, EPHEMERAL)),
                    (OpCode::SET_DATA, set(&ephemeral, data, Version(0))),
                    (OpCode::DELETE, delete(&ephemeral)),
                ],
                _ => vec![
                    (OpCode::CHECK, delete(&path)),
                    (OpCode::CREATE2, create(&format!("{other}/q"), data, 0)),
                    (OpCode::DELETE, delete(&format!("{other}/q"))),
                ],
            };
            let body = multi(&ops);
            one(OpCode::MULTI, path, body)
        }
        54..60 => Wish::SyncAndRead(path),
        60..63 => Wish::Watch(path, watch),
        _ if random.one_in(4) => Wish::Close,
        _ => Wish::SyncAndRead(path),
    }
}
