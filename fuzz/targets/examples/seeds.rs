//! Writes the corpora's seeds anew, from files and conversations of the original.
//!
//! `cargo run -p zebu-fuzz-targets --example seeds`. Files of other names in the corpora, such as
//! inputs that once broke something, are left alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use zebu_proto::OpCode;
use zebu_store::log::read::read_log;

/// Starts the name of every file written here.
const PREFIX: &str = "seed-";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn fixture(path: &str) -> Vec<u8> {
    let path = root().join("tests/fixtures").join(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One corpus; equal seeds are written once.
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

/// What a client sent: the opcode's name and the payload.
struct Sent {
    name: String,
    payload: Vec<u8>,
}

fn conversation(version: &str) -> Vec<Sent> {
    let text = fixture(&format!("zookeeper-{version}/wire/session.jsonl"));
    let text = String::from_utf8(text).expect("fixtures are text");
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("each line is an object")
        })
        .filter(|line| line["dir"] == "C>S")
        .filter_map(|line| {
            let digits = line["hex"].as_str()?.as_bytes();
            let byte = |pair: &[u8]| {
                let pair = std::str::from_utf8(pair).expect("hex digits are ASCII");
                u8::from_str_radix(pair, 16).expect("payloads are in hex")
            };
            let name = match line["op"].as_i64() {
                Some(op) => OpCode(op as i32).name().to_owned(),
                None => line["op"].as_str().unwrap_or("frame").to_owned(),
            };
            Some(Sent { name, payload: digits.chunks(2).map(byte).collect() })
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
        for (at, Sent { name, payload }) in conversation(version).iter().enumerate() {
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

fn main() {
    frames();
    txns();
    texts();
}
