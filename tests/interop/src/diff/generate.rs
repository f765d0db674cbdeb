//! Generates runs: requests of every kind, mostly valid, on a few paths so that they interact.
//!
//! Three inputs are left out because the original does not survive them: a TTL create with a
//! negative ttl and a flag that is not one of a TTL znode; a limit directly below the quota root;
//! and invalid statistics of a quota. Others are left out because Zebu deliberately differs: the
//! internal opcodes -10 and 20, and characters outside the basic plane, which Zebu writes in
//! standard UTF-8 and the original in CESU-8. Bursts leave out requests that are answered at
//! intake, before earlier requests.

use zebu_testkit::Random;
use zebu_testkit::wire::{Acl, Writer, op, open_acl};

use super::{Knock, Request, Run, SLOTS, Step};

const PATHS: [&str; 16] = [
    "/a",
    "/b",
    "/c",
    "/a/a",
    "/a/b",
    "/a/c",
    "/b/a",
    "/b/b",
    "/b/c",
    "/c/a",
    "/a/a/a",
    "/a/a/b",
    "/b/a/a",
    "/b/a/b",
    "/é",
    "/a/with space",
];

const ODD_PATHS: [&str; 26] = [
    "",
    "/",
    "//",
    "nope",
    "nope/a",
    "/a/",
    "/a//b",
    "//a",
    "/a/.",
    "/a/..",
    "/./a",
    "/../a",
    "/a/.../b",
    "/a/.b",
    "/a\0",
    "/a/\u{1}",
    "/a/\u{1f}",
    "/a/\u{7f}",
    "/a/\u{85}",
    "/a/\u{f900}",
    "/a/\u{ffef}",
    "/a/\u{fff0}",
    "/zookeeper",
    "/zookeeper/quota",
    "/zookeeper/config",
    "/none/none",
];

const QUOTA_PATHS: [&str; 6] = [
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
    "/zookeeper/quota/b",
    "/zookeeper/quota/b/zookeeper_limits",
    "/zookeeper/quota/b/zookeeper_stats",
];

const LIMITS: [&str; 5] = [
    "count=5,bytes=100",
    "count=-1,bytes=-1",
    "count=3,bytes=50=;byteHardLimit=200;countHardLimit=6",
    "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=4",
    "count=-1,bytes=-1=;byteHardLimit=120;countHardLimit=-1",
];

const STATISTICS: [&str; 4] =
    ["count=-1,bytes=-1", "count=0,bytes=0", "count=2,bytes=110", "count=5,bytes=0"];

const CREDENTIALS: [(&str, &str); 9] = [
    ("digest", "u:p"),
    ("digest", "u:p"),
    ("digest", "v:p:q"),
    ("digest", "nocolon"),
    ("ip", ""),
    ("world", "anyone"),
    ("auth", ""),
    ("nonsense", "x"),
    ("super", "x"),
];

const FLAGS: [i32; 12] = [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 9];

/// Opcodes that no request has.
const UNKNOWN: [i32; 6] = [99, 0, -1, 10, 23, 108];

const ALL_OPS: [(usize, i32); 30] = [
    (14, op::CREATE),
    (10, op::CREATE2),
    (3, op::CREATE_CONTAINER),
    (4, op::CREATE_TTL),
    (12, op::DELETE),
    (6, op::EXISTS),
    (6, op::GET_DATA),
    (10, op::SET_DATA),
    (3, op::GET_ACL),
    (4, op::SET_ACL),
    (4, op::GET_CHILDREN),
    (4, op::GET_CHILDREN2),
    (2, op::SYNC),
    (2, op::PING),
    (1, op::CHECK),
    (10, op::MULTI),
    (3, op::MULTI_READ),
    (1, op::RECONFIG),
    (2, op::CHECK_WATCHES),
    (3, op::REMOVE_WATCHES),
    (2, op::AUTH),
    (3, op::SET_WATCHES),
    (3, op::SET_WATCHES2),
    (1, op::SASL),
    (2, op::GET_EPHEMERALS),
    (2, op::GET_ALL_CHILDREN_NUMBER),
    (6, op::ADD_WATCH),
    (1, op::WHO_AM_I),
    (1, op::CLOSE_SESSION),
    (1, 99),
];

/// A run of `count` steps.
///
/// With hard quotas there are no bursts. The original checks a quota against the tree at the
/// request's arrival, so the result for one of several requests sent together depends on timing.
pub fn run(seed: u64, count: usize) -> Run {
    let every = |period: u64, phase: u64| seed % period == phase;
    let enforce_quota = every(2, 0);
    let choices = [
        ("enforceQuota", "true", enforce_quota),
        ("extendedTypesEnabled", "true", !every(8, 7)),
        ("enableEagerACLCheck", "true", every(5, 3)),
        ("reconfigEnabled", "true", every(7, 5)),
        ("skipACL", "yes", every(11, 9)),
    ];
    let mut generator = Generator { random: Random::new(seed), xid: 0, bursts: !enforce_quota };
    Run {
        config: choices
            .into_iter()
            .filter_map(|(key, value, on)| on.then_some((key, value)))
            .collect(),
        steps: (0..count).map(|_| generator.step()).collect(),
    }
}

struct Generator {
    random: Random,
    xid: i32,
    /// Whether some requests are sent together.
    bursts: bool,
}

impl Generator {
    fn step(&mut self) -> Step {
        let slot = self.random.index(SLOTS);
        match self.random.index(100) {
            0 => Step::Drop { slot },
            1 => Step::Knock(self.knock()),
            2..8 if self.bursts => {
                let count = 2 + self.random.index(6);
                let requests = (0..count).map(|_| self.request(true)).collect();
                Step::Requests { slot, requests }
            }
            _ => Step::Requests { slot, requests: vec![self.request(false)] },
        }
    }

    fn knock(&mut self) -> Knock {
        let slot = self.random.chance(60).then(|| self.random.index(SLOTS));
        Knock {
            slot,
            wrong_password: self.random.chance(30),
            last_zxid: *self.random.pick(&[0, 0, 0, -1, 1, i64::MAX]),
            timeout_ms: *self.random.pick(&[3_600_000, 3_600_000, 5_000_000, i32::MAX]),
            read_only: *self.random.pick(&[None, Some(false), Some(true)]),
        }
    }

    fn request(&mut self, in_burst: bool) -> Request {
        let opcode = loop {
            let opcode = self.opcode();
            let at_intake = matches!(opcode, op::AUTH | op::SASL);
            let closing = matches!(opcode, op::CLOSE_SESSION | op::CHECK | 99);
            if !(in_burst && (at_intake || closing)) {
                break opcode;
            }
        };
        let opcode = if opcode == 99 { *self.random.pick(&UNKNOWN) } else { opcode };
        let (mut body, mut what) = self.record(opcode);
        if self.random.chance(3) && !in_burst {
            body = self.damaged(body, opcode);
            what.push_str(" (damaged)");
        }
        self.xid += 1;
        let xid = match (opcode, self.random.index(200)) {
            (op::PING, _) => -2,
            (op::AUTH, _) => -4,
            (_, 0) => 0,
            (_, 1) => -8,
            (_, 2) => i32::MAX,
            (_, 3) => i32::MIN,
            _ => self.xid,
        };
        Request { xid, opcode, body, what }
    }

    fn opcode(&mut self) -> i32 {
        let total: usize = ALL_OPS.iter().map(|(weight, _)| weight).sum();
        let mut at = self.random.index(total);
        for (weight, opcode) in ALL_OPS {
            if at < weight {
                return opcode;
            }
            at -= weight;
        }
        unreachable!("below the total")
    }

    /// Shortens a record, lengthens it, or changes four of its bytes.
    ///
    /// The result is never one of the inputs that are left out.
    fn damaged(&mut self, mut body: Vec<u8>, opcode: i32) -> Vec<u8> {
        let safe = !matches!(opcode, op::CREATE_TTL | op::MULTI | op::SET_DATA | op::CREATE);
        match self.random.index(3) {
            0 => body.truncate(self.random.index(body.len() + 1)),
            1 => body.extend_from_slice(&[1, 2, 3, 4, 5]),
            _ if safe && body.len() >= 4 => {
                let at = self.random.index(body.len() - 3);
                let value: i32 =
                    *self.random.pick(&[-1, -2, 0, 1, i32::MAX, i32::MIN, 0x0010_0000]);
                body[at..at + 4].copy_from_slice(&value.to_be_bytes());
            }
            _ => {}
        }
        body
    }

    fn path(&mut self) -> String {
        match self.random.index(100) {
            0..86 => (*self.random.pick(&PATHS)).to_owned(),
            86..96 => (*self.random.pick(&ODD_PATHS)).to_owned(),
            _ => format!("{}-{:010}", self.random.pick(&PATHS), self.random.index(12)),
        }
    }

    /// A path, or rarely no path.
    fn optional_path(&mut self) -> Option<String> {
        let path = self.path();
        (!self.random.chance(1)).then_some(path)
    }

    fn data(&mut self) -> Option<Vec<u8>> {
        match self.random.index(20) {
            0 => None,
            1 => Some(Vec::new()),
            2 => Some(vec![b'x'; 1000]),
            3 if self.random.chance(10) => Some(vec![b'y'; 100_000]),
            _ => Some((0..self.random.index(12)).map(|i| b'a' + i as u8).collect()),
        }
    }

    fn version(&mut self) -> i32 {
        *self.random.pick(&[-1, -1, -1, -1, 0, 0, 1, 2, 3, -2, 7, i32::MAX, i32::MIN])
    }

    fn acl(&mut self) -> Vec<Acl> {
        if self.random.chance(75) {
            return open_acl();
        }
        let entry =
            |perms: i32, scheme: &str, id: &str| (perms, Some(scheme.into()), Some(id.into()));
        let choices: [Acl; 22] = [
            entry(31, "world", "anyone"),
            entry(1, "world", "anyone"),
            entry(30, "world", "anyone"),
            entry(0, "world", "anyone"),
            entry(i32::MAX, "world", "anyone"),
            entry(-1, "world", "anyone"),
            entry(31, "world", "somebody"),
            entry(31, "auth", ""),
            entry(15, "auth", "ignored"),
            entry(31, "digest", "u:mlrVOSG4JyrDiNVAFM5XjoDDRdM="),
            entry(31, "digest", "a:b:c"),
            entry(31, "digest", "a"),
            entry(31, "ip", "127.0.0.1"),
            entry(1, "ip", "10.0.0.0/8"),
            entry(31, "ip", "127.0.0.0/8"),
            entry(31, "ip", "::1"),
            entry(31, "ip", "fe80::/10"),
            entry(31, "ip", "300.1.1.1"),
            entry(31, "ip", "1.2.3.4/33"),
            entry(31, "super", "x"),
            entry(31, "nonsense", "x"),
            (31, None, Some("x".into())),
        ];
        let count = *self.random.pick(&[0, 1, 1, 1, 2, 2, 3]);
        (0..count).map(|_| self.random.pick(&choices).clone()).collect()
    }

    fn record(&mut self, opcode: i32) -> (Vec<u8>, String) {
        let path = self.optional_path();
        let shown = format!("{path:?}");
        let p = path.as_deref();
        let watch = self.random.chance(50);
        let start = Writer::new().optional_string(p);
        let (writer, what) = match opcode {
            op::CREATE | op::CREATE2 | op::CREATE_CONTAINER => return self.create(opcode),
            op::CREATE_TTL => {
                let flags = *self.random.pick(&FLAGS);
                let ttl = self.ttl(flags);
                let (body, what) = self.create_with(flags);
                return ([body, ttl.to_be_bytes().to_vec()].concat(), format!("{what} ttl {ttl}"));
            }
            op::DELETE => {
                let p =
                    if self.random.chance(3) { Some(*self.random.pick(&QUOTA_PATHS)) } else { p };
                let version = self.version();
                let writer = Writer::new().optional_string(p).int(version);
                (writer, format!("delete {p:?} {version}"))
            }
            op::CHECK => (start.int(self.version()), format!("check {shown}")),
            op::EXISTS | op::GET_DATA | op::GET_CHILDREN | op::GET_CHILDREN2 => {
                let p =
                    if self.random.chance(5) { Some(*self.random.pick(&QUOTA_PATHS)) } else { p };
                (Writer::new().optional_string(p).bool(watch), format!("read {p:?} watch {watch}"))
            }
            op::SET_DATA => {
                let (data, version) = (self.data(), self.version());
                if self.random.chance(4) {
                    let (path, text) = self.quota_text();
                    let writer = Writer::new().string(path).string(text).int(version);
                    (writer, format!("{path} {text}"))
                } else {
                    let bytes = data.as_ref().map(Vec::len);
                    let what = format!("setData {shown} {bytes:?} bytes, version {version}");
                    (start.optional_buffer(data.as_deref()).int(version), what)
                }
            }
            op::GET_ACL => (start, format!("getACL {shown}")),
            op::SET_ACL => {
                let (acl, version) = (self.acl(), self.version());
                (start.acl(&acl).int(version), format!("setACL {shown} {acl:?} {version}"))
            }
            op::SYNC => (start, format!("sync {shown}")),
            op::MULTI => return self.multi(),
            op::MULTI_READ => return self.multi_read(),
            op::RECONFIG => {
                let text = *self.random.pick(&[None, Some(""), Some("server.2=localhost:1:2;3")]);
                let writer = Writer::new().optional_string(text).optional_string(None);
                (writer.optional_string(None).long(-1), format!("reconfig {text:?}"))
            }
            op::CHECK_WATCHES | op::REMOVE_WATCHES => {
                let kind = *self.random.pick(&[1, 2, 3, 3, 4, 5, 0, 6, -1]);
                (start.int(kind), format!("check or remove watches {shown} {kind}"))
            }
            op::AUTH => {
                let (scheme, id) = *self.random.pick(&CREDENTIALS);
                let scheme = (!self.random.chance(3)).then_some(scheme);
                let id = (!self.random.chance(10)).then_some(id);
                let writer = Writer::new().int(0).optional_string(scheme).optional_string(id);
                (writer, format!("auth {scheme:?} {id:?}"))
            }
            op::SET_WATCHES | op::SET_WATCHES2 => {
                let zxid = *self.random.pick(&[0, 1, 10, 100, 1000, i64::MAX, -1]);
                let lists = if opcode == op::SET_WATCHES { 3 } else { 5 };
                let mut writer = Writer::new().long(zxid);
                let mut all = Vec::new();
                for _ in 0..lists {
                    let count = self.random.index(3);
                    let paths: Vec<String> = (0..count).map(|_| self.path()).collect();
                    writer = writer.strings(&paths);
                    all.push(paths);
                }
                (writer, format!("setWatches {zxid} {all:?}"))
            }
            op::SASL => {
                let token: Option<&[u8]> =
                    *self.random.pick(&[Some(&b"token"[..]), Some(&[]), None]);
                (Writer::new().optional_buffer(token), format!("sasl {token:?}"))
            }
            op::GET_EPHEMERALS => {
                let prefix = *self.random.pick(&[Some("/"), Some("/a"), Some(""), Some(" "), None]);
                (Writer::new().optional_string(prefix), format!("getEphemerals {prefix:?}"))
            }
            op::GET_ALL_CHILDREN_NUMBER => (start, format!("descendants of {shown}")),
            op::ADD_WATCH => {
                let mode = *self.random.pick(&[0, 0, 1, 1, 1, 2, -1]);
                (start.int(mode), format!("addWatch {shown} {mode}"))
            }
            _ => (Writer::new(), "no record".into()),
        };
        (writer.done(), what)
    }

    /// A ttl that does not end the original with these flags.
    fn ttl(&mut self, flags: i32) -> i64 {
        let ttl: i64 = *self.random.pick(&[
            1_000_000_000,
            1_000_000_000,
            (1 << 40) - 1,
            1 << 40,
            0,
            -1,
            i64::MIN,
            i64::MAX,
        ]);
        if matches!(flags, 5 | 6 | 9) { ttl } else { ttl.max(0) }
    }

    fn create(&mut self, opcode: i32) -> (Vec<u8>, String) {
        if self.random.chance(6) {
            return self.create_quota();
        }
        let flags = if opcode == op::CREATE_CONTAINER && self.random.chance(60) {
            4
        } else {
            *self.random.pick(&FLAGS)
        };
        self.create_with(flags)
    }

    fn create_with(&mut self, flags: i32) -> (Vec<u8>, String) {
        let (path, data, acl) = (self.optional_path(), self.data(), self.acl());
        let writer =
            Writer::new().optional_string(path.as_deref()).optional_buffer(data.as_deref());
        let writer = if self.random.chance(1) { writer.int(-1) } else { writer.acl(&acl) };
        let bytes = data.map(|data| data.len());
        let what = format!("create {path:?} {bytes:?} bytes, {acl:?} flags {flags}");
        (writer.int(flags).done(), what)
    }

    /// A znode of the quotas, and its possible data.
    fn quota_text(&mut self) -> (&'static str, &'static str) {
        let path = *self.random.pick(&QUOTA_PATHS);
        let text = if path.ends_with("limits") {
            *self.random.pick(&LIMITS)
        } else if path.ends_with("stats") {
            *self.random.pick(&STATISTICS)
        } else {
            ""
        };
        (path, text)
    }

    fn create_quota(&mut self) -> (Vec<u8>, String) {
        let (path, data) = self.quota_text();
        let writer = Writer::new().string(path).string(data).acl(&open_acl()).int(0);
        (writer.done(), format!("create {path} {data}"))
    }

    fn multi(&mut self) -> (Vec<u8>, String) {
        let count = *self.random.pick(&[0, 1, 2, 2, 3, 3, 4, 6]);
        let kinds = [
            op::CREATE,
            op::CREATE,
            op::CREATE2,
            op::CREATE_CONTAINER,
            op::CREATE_TTL,
            op::DELETE,
            op::DELETE,
            op::SET_DATA,
            op::SET_DATA,
            op::CHECK,
        ];
        let rare = [op::SET_ACL, op::GET_DATA, op::EXISTS, op::MULTI, 99, op::ERROR];
        self.many(count, &kinds, &rare)
    }

    fn multi_read(&mut self) -> (Vec<u8>, String) {
        let count = *self.random.pick(&[0, 1, 2, 3, 4]);
        self.many(count, &[op::GET_DATA, op::GET_CHILDREN], &[op::CREATE, op::GET_CHILDREN2])
    }

    fn many(&mut self, count: usize, kinds: &[i32], rare: &[i32]) -> (Vec<u8>, String) {
        let (mut writer, mut all) = (Writer::new(), Vec::new());
        for _ in 0..count {
            let choices = if self.random.chance(2) { rare } else { kinds };
            let opcode = *self.random.pick(choices);
            let (body, what) = if opcode == op::MULTI {
                (Vec::new(), "a multi in a multi".into())
            } else {
                self.record(opcode)
            };
            writer = writer.int(opcode).bool(false).int(-1).raw(&body);
            all.push(format!("{opcode} {what}"));
        }
        (writer.int(-1).bool(true).int(-1).done(), format!("multi {all:?}"))
    }
}
