//! Writes the seeds of the corpora again, from files and conversations of the original.
//!
//! `cargo run -p zebu-fuzz-targets --example seeds`. Files with other names in the corpora, such as
//! inputs that once failed, stay unchanged.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::write::GzEncoder;
use zebu_auth::digest_md5::{CLIENTS, Client, NONCE_BYTES, Server, Step};
use zebu_fuzz_targets::script::{SLOTS, conversation as conversation_script};
use zebu_proto::{Acl, OpCode, StatPersisted, Zxid};
use zebu_store::log::read::read_log;
use zebu_store::log::sidecar::Mark;
use zebu_store::vfs::{Crash, MemVfs, Names, Unsynced};
use zebu_store::{Nothing, Options, Store, TxnLog};

/// The beginning of the names of all files written here.
const PREFIX: &str = "seed-";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn fixture(path: &str) -> Vec<u8> {
    let path = root().join("tests/fixtures").join(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One corpus; it contains equal seeds once.
struct Corpus {
    dir: PathBuf,
    known: BTreeSet<Vec<u8>>,
}

impl Corpus {
    fn of(target: &str) -> Self {
        let dir = root().join("fuzz/corpus").join(target);
        fs::create_dir_all(&dir).expect("the repository can be written");
        for entry in fs::read_dir(&dir).expect("it was just made") {
            let path = entry.expect("it can be listed").path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
                fs::remove_file(path).expect("it can be written");
            }
        }
        Self { dir, known: BTreeSet::new() }
    }

    fn add(&mut self, name: &str, bytes: &[u8]) {
        if self.known.insert(bytes.to_vec()) {
            let path = self.dir.join(format!("{PREFIX}{name}"));
            fs::write(path, bytes).expect("the repository can be written");
        }
    }
}

/// The messages of a client: the opcode's name and the payload.
struct Sent {
    name: String,
    payload: Vec<u8>,
}

fn unhex(digits: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("hex digits are ASCII");
        u8::from_str_radix(pair, 16).expect("payloads are in hex")
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

fn conversation(version: &str, direction: &str) -> Vec<Sent> {
    let text = fixture(&format!("zookeeper-{version}/wire/session.jsonl"));
    let text = String::from_utf8(text).expect("fixtures are text");
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("each line is an object")
        })
        .filter(|line| line["dir"] == direction)
        .filter_map(|line| {
            let payload = unhex(line["hex"].as_str()?);
            let name = match line["op"].as_i64() {
                Some(op) => OpCode(op as i32).name().to_owned(),
                None => line["op"].as_str().unwrap_or("frame").to_owned(),
            };
            Some(Sent { name, payload })
        })
        .collect()
}

const VERSIONS: [&str; 2] = ["3.8.0", "3.9.5"];

const LOGS: [&str; 4] = [
    "zookeeper-3.8.0/basic/version-2/log.1",
    "zookeeper-3.8.0/basic/version-2/log.3d",
    "zookeeper-3.8.0/digest-disabled/version-2/log.49",
    "zookeeper-3.9.5/basic/version-2/log.49",
];

fn bodies() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for log in LOGS {
        let bytes = fixture(log);
        read_log(&bytes[..], 1 << 20, &mut |record| bodies.push(record.body.to_vec()))
            .expect("memory can be read");
    }
    bodies
}

fn frames() {
    let mut corpus = Corpus::of("client_frame");
    for version in VERSIONS {
        for (at, Sent { name, payload }) in conversation(version, "C>S").iter().enumerate() {
            corpus.add(&format!("{version}-{at:03}-{name}"), payload);
        }
    }
}

fn txns() {
    let mut corpus = Corpus::of("txn_record");
    for (at, body) in bodies().iter().enumerate() {
        corpus.add(&format!("{at:03}"), body);
    }
}

fn texts() {
    let mut paths = Corpus::of("path");
    let all = [
        "",
        "/",
        "/a",
        "/a/b/c",
        "a",
        "/a/",
        "//",
        "/a//b",
        "/.",
        "/..",
        "/...",
        "/.a",
        "/a.",
        "/a/..",
        "/a/./b",
        "/\0",
        "/a\u{1f}",
        "/\u{7f}",
        "/\u{9f}\u{a0}",
        "/\u{d7ff}",
        "/\u{e000}",
        "/\u{f8ff}\u{f900}",
        "/\u{ffef}",
        "/\u{fff0}",
        "/\u{ffff}",
        "/\u{1f600}",
        "/zookeeper/quota",
        "/s-0000000001",
        "/s--2147483648",
    ];
    for (at, path) in all.iter().enumerate() {
        paths.add(&format!("{at:02}"), path.as_bytes());
    }
    let mut quotas = Corpus::of("quota_text");
    let all = [
        "",
        "count=5,bytes=1000",
        "count=-1,bytes=-1=;byteHardLimit=4096;countHardLimit=10",
        "count=,bytes=3",
        "count=1,bytes=2=;zz=3;=7",
        "count",
        "=",
        "count=+9223372036854775807",
        "count=-9223372036854775808,bytes=9223372036854775808",
        "a=1;a=2,,;;b=3=4=5",
    ];
    for (at, quota) in all.iter().enumerate() {
        quotas.add(&format!("{at:02}"), quota.as_bytes());
    }
    let mut acls = Corpus::of("acl");
    let all = [
        "10.0.0.0/8\nalice:secret\n31 world anyone\n1 ip 192.168.0.0/16",
        "::1\nbob:pw\n31 auth \n31 auth -",
        "2001:db8::/32\n\n31 digest alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=\n3 digest a:b",
        "0.0.0.0/0\na:b:c\n31 ip 192.168.7.9\n31 ip 192.168.7.9\n1 ip 192.168.7.8/31",
        "::ffff:10.0.0.1\n:\n31 super x\n31 world other\n31 - -\n31 ip -",
        "255.255.255.255/32\n\u{fffd}:x\n16 ip ::/0\n-2147483648 world anyone",
        "1.2.3.4/24\nsuper:secret\n5 x509 CN=a\n4 sasl u@H\n7 digest a:b:c",
    ];
    for (at, acl) in all.iter().enumerate() {
        acls.add(&format!("{at:02}"), acl.as_bytes());
    }
}

/// Lines of printable text, each a seed.
fn lines(target: &str, all: &[&str]) {
    let mut corpus = Corpus::of(target);
    for (at, text) in all.iter().enumerate() {
        corpus.add(&format!("{at:02}"), text.as_bytes());
    }
}

fn configuration() {
    lines(
        "properties",
        &[
            "a=1\nb : 2\nc 3\n# comment\n! comment\nd=\\\n  4\n",
            "path=c:\\\\data\\u00e9\\ud83d\\ude00\\t\r\na\\=b=c\\ \rz",
            "a=1\na=2\na\n=3\n:\n\\\n\\\\\n",
            "\u{feff}k=\u{e9}",
            "k=\\u12",
        ],
    );
    lines(
        "zoo_cfg",
        &[
            "dataDir=/d\nclientPort=2181\n",
            "tickTime=2000\ndataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n\
             maxClientCnxns=60\nautopurge.purgeInterval=24h\nautopurge.snapRetainCount=3\n\
             4lw.commands.whitelist=ruok, mntr\nsnapshot.compression.method=gz\n",
            "dataDir=/d\nserver.1=localhost:2888:3888;2181\n%%1\n",
            "dataDir=/d\ndynamicConfigFile=/d/dyn\n%server.3=[::1]:2888:3888:participant;\
             0.0.0.0:2181\n%3\n",
            "dataDir=/d\nclientPort=2181\n%%%-Dzookeeper.snapCount=10 -Xmx1g -cp a:b\
             %-Dzookeeper.forceSync=no%zookeeper.digest.enabled=false\njute.maxbuffer=0x2000\n\
             %tickTime=3000\nadmin.enableServer=false",
            "dataDir=/d\nsecureClientPort=2281\nssl.keyStore.password=x\n\
             zebu.runWithout=tls,admin\nclientPort=2181\nnonsense=1\n",
            "dataDir=/d\nclientPort=70000\ntickTime=-1\nforceSync=maybe\nminSessionTimeout=9\n\
             maxSessionTimeout=3\n",
        ],
    );
    lines(
        "flags",
        &[
            "-Xmx1g -Dzookeeper.snapCount=10 -cp a:b -ea '-Dx=a b' -Dflag -XX:+UseG1GC stray",
            "a\"b c\"d 'e \"f' \\ g \"\" \"h\\\"i\" '",
            "1=localhost:2888:3888:participant;0.0.0.0:2181\n2=[::1]:1:2|b:3:4:OBSERVER;;2181",
            "24\n0\n-1\n1h\n90s\n250ms\n2 D\n99999999999999999d\n5m",
        ],
    );
    lines(
        "four_letter",
        &["ruok", "mntr*\nruok", "stmk\0\0\0\0\0\0\0\u{1}", "srvrruok\nnope\n", "crst", "RUOK"],
    );
    lines(
        "connect_string",
        &[
            "127.0.0.1:3000,127.0.0.1:3001,127.0.0.1:3002/app/a",
            "[::1]:2181 , host ,[2001:db8::1]/",
            "a:0",
            "::1",
            "/chroot",
            "a/b//c",
            ",,a:65535,",
        ],
    );
    lines(
        "file_name",
        &[
            "log.1",
            "log.100000001",
            "snapshot.3c",
            "snapshot.48.gz",
            "snapshot.48.snappy",
            "durable.1",
            "log.1.bak",
            "tmp.snapshot.1",
            "snapshot.ffffffffffffffff",
            "acceptedEpoch",
        ],
    );
    lines(
        "epoch",
        &["\u{5}5|5|", "\u{7}5|7|7", "\u{0}", "\u{1}|1|", "\u{2}3|2|x", "\u{9} 12\n|99"],
    );
}

fn answers() {
    let mut corpus = Corpus::of("reply_record");
    for version in VERSIONS {
        for (at, Sent { name, payload }) in conversation(version, "S>C").iter().enumerate() {
            corpus.add(&format!("{version}-{at:03}-{name}"), payload);
        }
    }
}

fn length(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).expect("seeds are short").to_be_bytes()
}

/// Logs without their padding, which adds no information.
fn log_bytes(log: &str) -> Vec<u8> {
    let bytes = fixture(log);
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    bytes[..(used + 64).min(bytes.len())].to_vec()
}

const TORN: [&str; 9] = [
    "crc-corrupt-last",
    "crc-corrupt-middle",
    "missing-middle-gap",
    "partial-middle-then-more",
    "torn-crc-only",
    "torn-mid-record-nopad",
    "torn-mid-record-zeropad",
    "torn-no-eor-zeropad",
    "torn-no-eor",
];

const SNAPSHOTS: [&str; 9] = [
    "zookeeper-3.8.0/basic/version-2/snapshot.0",
    "zookeeper-3.8.0/basic/version-2/snapshot.3c",
    "zookeeper-3.8.0/bad-snapshots/snap-bitflip.snapshot.3c",
    "zookeeper-3.8.0/bad-snapshots/snap-truncated.snapshot.3c",
    "zookeeper-3.8.0/compressed-gz/version-2/snapshot.48.gz",
    "zookeeper-3.8.0/compressed-snappy/version-2/snapshot.48.snappy",
    "zookeeper-3.8.0/digest-disabled/version-2/snapshot.48",
    "zookeeper-3.9.5/basic/version-2/snapshot.48",
    "zookeeper-3.9.5/basic/version-2/log.49",
];

fn files() {
    let mut logs = Corpus::of("txn_log");
    for (at, log) in LOGS.iter().enumerate() {
        logs.add(&format!("{at}"), &log_bytes(log));
    }
    for torn in TORN {
        let mut bytes = log_bytes(&format!("zookeeper-3.8.0/torn/{torn}/log.3d"));
        logs.add(torn, &bytes);
        bytes.truncate(16);
        logs.add("header", &bytes);
    }
    logs.add("empty", b"");
    let mut snapshots = Corpus::of("snapshot");
    for (at, snapshot) in SNAPSHOTS.iter().enumerate() {
        snapshots.add(&format!("{at}"), &fixture(snapshot));
    }
    // A megabyte of zeros, and a snapshot's header before the same number of zeros, each compressed
    // very well.
    for (name, header) in [("zeros", &b""[..]), ("bomb", &zebu_store::snapshot::HEADER[..])] {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(header).expect("memory can be written");
        encoder.write_all(&[0x7f; 4][..header.len().min(4)]).expect("memory can be written");
        encoder.write_all(&vec![0; 1 << 20]).expect("memory can be written");
        snapshots.add(name, &encoder.finish().expect("memory can be written"));
    }
    let mut sidecars = Corpus::of("sidecar");
    let mut mark = Mark::start(Zxid(5), Zxid(4));
    sidecars.add("start", &mark.file());
    mark.advance(Zxid(5), &[7; 40]);
    let mut file = mark.file();
    sidecars.add("one-record", &file);
    mark.sealed = true;
    file[4096..].copy_from_slice(&mark.file()[4096..]);
    sidecars.add("sealed-in-the-second-slot", &file);
    file[..68].fill(0);
    sidecars.add("one-slot", &file);

    let mut trees = Corpus::of("tree_apply");
    for log in LOGS {
        let mut script = Vec::new();
        read_log(&fixture(log)[..], 1 << 20, &mut |record| {
            script.extend(length(record.body));
            script.extend(record.body);
        })
        .expect("memory can be read");
        trees.add(&log.replace(['/', '.'], "-"), &script);
    }
}

/// Data directories: the original's, and ours after a stop and after a power cut.
fn data_dirs() {
    let mut corpus = Corpus::of("data_dir");
    let file = |kind: u8, zxid: u8, content: &[u8]| {
        [&[kind, zxid][..], &length(content), content].concat()
    };
    let snapshot = fixture("zookeeper-3.8.0/basic/version-2/snapshot.3c");
    let first = fixture("zookeeper-3.8.0/basic/version-2/snapshot.0");
    let log = log_bytes("zookeeper-3.8.0/basic/version-2/log.1");
    let next = log_bytes("zookeeper-3.8.0/basic/version-2/log.3d");
    corpus.add("original-start", &[&[0][..], &file(4, 0, &first)].concat());
    corpus.add(
        "original",
        &[&[0][..], &file(0, 1, &log), &file(0, 0x3d, &next), &file(4, 0x3c, &snapshot)].concat(),
    );
    corpus.add("original-logs-only", &[&[2][..], &file(0, 1, &log)].concat());
    for torn in TORN {
        let log = log_bytes(&format!("zookeeper-3.8.0/torn/{torn}/log.3d"));
        for accepted in [0, 1] {
            let dir = [&[accepted][..], &file(4, 0x3c, &snapshot), &file(0, 0x3d, &log)].concat();
            corpus.add(&format!("original-{torn}-{accepted}"), &dir);
        }
    }

    let vfs = MemVfs::new(Path::new("/d"));
    let options = Options { prealloc_bytes: 0, ..Options::new("/d") };
    let mut store = Store::open(Arc::new(vfs.clone()), options).expect("an empty disk");
    let state = &mut Nothing;
    store.recover(state).expect("an empty disk");
    let (mut txn_log, snapshots) = store.split();
    let mut writer = snapshots.begin(Zxid(0)).expect("the disk works");
    writer.sessions(&[]);
    writer.acls::<Vec<Acl>>(&[]);
    writer.node("", Some(b""), -1, &StatPersisted::default());
    writer.finish(None, None).expect("the disk works");
    let bodies = bodies();
    let mut next = 1;
    let mut put = |txn_log: &mut TxnLog| {
        let mut body = bodies[next % 20].clone();
        body[12..20].copy_from_slice(&(next as i64).to_be_bytes());
        txn_log.append(Zxid(next as i64), &body);
        txn_log.commit().expect("the disk works");
        next += 1;
    };
    let dir = |vfs: &MemVfs| {
        let mut dir = vec![0];
        for path in vfs.files() {
            let content = vfs.content(&path).expect("it is listed");
            let name = path.file_name().and_then(|name| name.to_str()).expect("it has a name");
            let (kind, zxid) = name.split_once('.').expect("all of ours have a dot");
            let kind = match kind {
                "log" => 0,
                "durable" => 2,
                _ => 4,
            };
            dir.extend(file(kind, u8::from_str_radix(zxid, 16).expect("they are few"), &content));
        }
        dir
    };
    (0..5).for_each(|_| put(&mut txn_log));
    txn_log.roll().expect("the disk works");
    (0..3).for_each(|_| put(&mut txn_log));
    txn_log.settle().expect("the disk works");
    corpus.add("ours-settled", &dir(&vfs));
    put(&mut txn_log);
    for sectors in 0..4 {
        let crash = Crash { content: Unsynced::Torn(sectors), names: Names::Kept };
        corpus.add(&format!("ours-power-cut-{sectors}"), &dir(&vfs.crash(crash)));
    }
    txn_log.close().expect("the disk works");
    corpus.add("ours-closed", &dir(&vfs));
}

fn scripts() {
    let mut corpus = Corpus::of("replica");
    for version in VERSIONS {
        let sent: Vec<(i32, Vec<u8>)> = (conversation(version, "C>S").into_iter())
            .filter(|sent| sent.name != "connect" && sent.payload.len() >= 8)
            .map(|sent| {
                let op = sent.payload[4..8].try_into().expect("four bytes");
                (i32::from_be_bytes(op), sent.payload[8..].to_vec())
            })
            .collect();
        let requests = sent.iter().enumerate();
        let requests = requests.map(|(at, (op, body))| ((at / 8) as u8 % SLOTS, *op, &body[..]));
        corpus.add(&format!("conversation-{version}"), &conversation_script(requests));
    }
    // Two sessions: consecutive creates, reads after them, watches, a multi, a snapshot meanwhile,
    // an ephemeral whose owner leaves, quotas, and time.
    let start: &[u8] = &[0, 0, 40, 0xff, 0, 1, 30, 0xff, 13, 0xff];
    let create = |slot: u8, kind: u8, path: u8| [3, slot, kind, path, 9, 0];
    let scripts: [(&str, Vec<u8>); 6] = [
        (
            "writes-and-reads",
            [
                &create(0, 0, 1)[..],
                &create(1, 1, 2),
                &[8, 0, 0x10, 1, 8, 1, 0x12, 1, 13, 2, 6, 0, 1, 5, 0xff, 8, 0, 0, 1],
                &[13, 9, 5, 1, 2, 0xff, 13, 9],
            ]
            .concat(),
        ),
        (
            "ephemerals",
            [
                &create(0, 4, 1)[..],
                &[13, 9, 5, 1, 1, 0xff],
                &create(1, 4, 1),
                &[11, 0, 13, 9, 8, 1, 1, 1, 12, 10, 12, 10, 13, 9],
            ]
            .concat(),
        ),
        (
            "snapshot-meanwhile",
            [
                &create(0, 0, 1)[..],
                &create(0, 0, 2),
                &create(0, 0, 4),
                &[13, 9, 15, 1, 15, 1],
                &create(0, 0, 5),
                &[5, 0, 2, 0xff, 5, 0, 1, 0xff, 7, 0, 4, 8, 0xff, 13, 9, 15, 1],
                &create(0, 1, 1),
                &[13, 9, 15, 200],
            ]
            .concat(),
        ),
        (
            "multi",
            vec![
                10, 0, 4, 0, 0, 1, 3, 0, 0, 1, 2, 3, 0, 3, 1, 7, 0, 4, 1, 1, 13, 9, //
                10, 0, 2, 2, 1, 0xff, 2, 7, 0xff, 8, 0, 0, 1, 13, 9,
            ],
        ),
        (
            "quotas",
            [
                &create(0, 0, 1)[..],
                &create(0, 0, 9),
                &[3, 0, 0, 10, 0xc0, 0],
                &create(0, 0, 11),
                &create(0, 0, 2),
                &[13, 9, 6, 0, 2, 100, 0xff],
                &create(0, 0, 3),
                &[13, 9, 5, 0, 10, 0xff, 13, 9],
            ]
            .concat(),
        ),
        (
            "containers-and-time",
            [
                &create(0, 2 | 4 << 2, 1)[..],
                &create(0, 0, 2),
                &create(0, 3 | 5 << 2, 4),
                &[13, 9, 5, 0, 2, 0xff, 13, 9, 12, 7, 12, 7, 13, 9, 12, 11, 13, 9, 12, 11, 13, 9],
                &[0, 2, 40, 0, 13, 9, 1, 2, 14, 0, 13, 9],
            ]
            .concat(),
        ),
    ];
    for (name, script) in scripts {
        for (switches, limit) in [(0x0b, 0), (0x07, 0x32)] {
            let script = [&[switches, limit][..], start, &script].concat();
            corpus.add(&format!("{name}-{switches:02x}"), &script);
        }
    }
}

/// Recorded messages between servers, each after the byte of its port.
fn between_servers() {
    let mut messages = Corpus::of("quorum");
    let mut members = Corpus::of("membership");
    for capture in ["08-reconfig", "09-observer-master", "10-sasl-digest-md5", "11-multi-address"] {
        let text = fixture(&format!("quorum-captures/{capture}.txt"));
        let text = String::from_utf8(text).expect("it is text");
        let mut lines = text.lines();
        let mut seen = BTreeSet::new();
        let mut snapshot = Vec::new();
        while let Some(line) = lines.next() {
            let Some(said) = line.strip_prefix("> ").or_else(|| line.strip_prefix("< ")) else {
                continue;
            };
            let what = said.splitn(3, ' ').nth(2).expect("time, length, what");
            let mut bytes = unhex(lines.next().expect("the bytes follow"));
            let port = match what.split([' ', '=']).next() {
                Some("QuorumAuthPacket") => 1,
                Some("INITIAL") => 2,
                Some("len") => 3,
                Some("SNAPSHOT") if what.starts_with("SNAPSHOT STREAM") => {
                    snapshot = bytes;
                    continue;
                }
                Some("SNAPSHOT") => {
                    snapshot.append(&mut bytes);
                    std::mem::swap(&mut snapshot, &mut bytes);
                    4
                }
                _ => 0,
            };
            let kind = what.split([' ', '=', '(']).next().unwrap_or_default();
            if seen.insert(kind.to_owned()) {
                let seed = [&[port], &bytes[..]].concat();
                messages.add(&format!("{capture}-{}", kind.to_lowercase()), &seed);
            }
            let config = bytes.windows(9).position(|window| window == b"server.1=");
            let end = bytes.windows(8).rposition(|window| window == b"version=");
            if let (3, Some(config), Some(end)) = (port, config, end) {
                let text = &bytes[config..end];
                let joining = b"%server.4=10.0.0.1:1:2;3%3,7%tickTime=2000\nserver.1=a:1:2\n";
                let seed = [&b"\x03"[..], text, &b"version=1"[..], &joining[..]].concat();
                members.add(capture, &seed);
            }
        }
    }
    for (name, text) in [
        (
            "groups",
            "server.1=a:2:3\nserver.2=b:2:3\nserver.3=c:2:3\ngroup.1=1:2\ngroup.2=3\nweight.3=2",
        ),
        (
            "ipv6",
            "server.1=[::1]:2:3:participant;[::]:4\nserver.17=b:2:3:observer;;5\nserver.2=c:2:3",
        ),
        ("faults", "server.1=a:2\nserver.x=a:2:3\ngroup.1=1:1\nweight.1=-1\nversion=g"),
    ] {
        members.add(name, format!("\u{1}{text}%server.3=d:2:3;1%1%a=1\\").as_bytes());
    }
}

/// Files of an operator, and messages of a peer before its authentication.
fn auth() {
    let folder = root().join("crates/auth/tests/fixtures");
    let read = |name: &str| fs::read(folder.join(name)).expect("a file of the tests");
    let mut stores = Corpus::of("key_store");
    for name in [
        "quick.p12",
        "quick-legacy.p12",
        "quick-encrypted.key",
        "keytool.jks",
        "trust.jks",
        "client-sec1.key",
        "mismatched.pem",
        "other-ca.pem",
        "ca.crl",
        "server.der",
        "trust8.p12",
    ] {
        stores.add(name, &read(name));
    }
    stores.add("key-and-certificate", &[read("client.key"), read("client.pem")].concat());
    let mut files = Corpus::of("jaas");
    for name in ["good", "hash", "bare-path", "open-quote", "twice", "unknown-property", "comma"] {
        files.add(name, &read(&format!("jaas/{name}.conf")));
    }
    let mut exchanges = Corpus::of("digest_md5");
    let text = String::from_utf8(read("sasl-digest-md5.txt")).expect("fixtures are text");
    for (name, line) in ["challenge", "response", "end"].iter().zip(text.lines().skip(2)) {
        for side in [0, 1] {
            exchanges.add(&format!("{name}-{side}"), &[&[side], line.as_bytes()].concat());
        }
    }
    let mut server = Server::new(CLIENTS, [0; NONCE_BYTES]);
    let mut client = Client::new(CLIENTS, "bob".into(), "bobsecret".into(), [1; NONCE_BYTES]);
    let Ok(Step::Challenge(challenge)) = server.step(b"", |_| None) else { panic!("no challenge") };
    let response = client.step(&challenge).expect("it is our own").expect("it answers");
    exchanges.add("good", &[&b"\0"[..], &response].concat());
    let mut tokens = Corpus::of("gssapi");
    tokens.add("server-mutual", b"\x02ticket\n\nc\x01\0\0\0");
    tokens.add("server", b"\0ticket\nc\x01\0\0\0bob@ZEBU.TEST");
    tokens.add("server-layer", b"\0ticket\nc\x04\0\xff\xff");
    tokens.add("client", b"\x01proof\ns\x01\x01\0\0\n");
    tokens.add("client-layer", b"\x01proof\ns\x06\x01\0\0\n");
    let mut library =
        vec![4, 0x60, 0x17, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 1, 0, 0x6e];
    library.extend([8, 0x30, 6, 0xa0, 3, 2, 1, 5, 0]);
    tokens.add("library", &library);
    let mut answers = Corpus::of("external_auth");
    // The answers in docs/external-auth.md, and meaningless answers.
    for (name, said) in [
        ("ok", r#"{"version":1,"id":1,"result":"ok","ids":["amy","group.ops"],"cache_ms":7}"#),
        ("refused", r#"{"version":1,"id":2,"result":"refused","reason":"no such user"}"#),
        ("unknown", r#"{"version":1,"id":1,"result":"unknown","reason":"the directory is down"}"#),
        ("not-asked", r#"{"version":1,"id":9,"result":"refused"}"#),
        ("no-id", r#"{"version":1,"id":1,"result":"ok","ids":["\u0000",""]}"#),
        ("no-version", r#"{"id":1,"result":"ok","ids":["amy"]}"#),
        ("deep", "[[[[[[[[{\"a\":[[[[[[[["),
    ] {
        answers.add(name, format!("\u{2}{said}\n").as_bytes());
    }
    let [one, two] = [1, 2].map(|id| format!(r#"{{"id":{id},"version":1,"result":"refused"}}"#));
    answers.add("two", format!("\u{3}{two}\n{one}\n{{").as_bytes());
    let mut responses = Corpus::of("ocsp");
    for name in ["good", "revoked", "unknown", "undated", "delegated", "usurped", "inter", "later"]
    {
        let response = read(&format!("ocsp/{name}.answer"));
        let length = response.len();
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n");
        responses.add(name, &response);
        responses.add(&format!("{name}-http"), &[head.as_bytes(), &response].concat());
    }
    responses.add("moved", b"HTTP/1.0 302 Found\r\nLocation: http://a/\r\n\r\n");
    let mut hellos = Corpus::of("client_hello");
    hellos.add("tls", &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]);
    hellos.add("tls-long", &[0x16, 3, 3, 0x48, 0]);
    hellos.add("connect", &[0, 0, 0, 0x2d, 0, 0, 0, 0]);
    hellos.add("word", b"ruok");
    let mut rules = Corpus::of("auth_to_local");
    let table = String::from_utf8(read("kerberos-names.txt")).expect("fixtures are text");
    let names = "alice@EXAMPLE.ORG\nzk/h1@OTHER.ORG\nzk/h1\nbob\n@\n/@";
    for rule in table.lines().filter_map(|line| line.split('\t').next()).collect::<BTreeSet<_>>() {
        let number = rules.known.len();
        rules.add(&format!("{number:02}"), format!("{rule}\n{names}").as_bytes());
    }
}

fn main() {
    auth();
    between_servers();
    frames();
    txns();
    texts();
    configuration();
    answers();
    files();
    data_dirs();
    scripts();
}
