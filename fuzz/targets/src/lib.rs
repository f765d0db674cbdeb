//! The fuzz targets: one function for each, which accepts arbitrary bytes.
//!
//! A target panics when the code under it breaks a promise, and returns otherwise. The libFuzzer
//! programs in `fuzz/fuzz_targets` are one line each around these functions; the tests of this
//! crate run them over the checked-in corpora and over a bounded number of mutations ([`hunt`]).
//!
//! **Rule:** a target depends on its bytes alone: no clock, no file, no thread, no randomness.

mod auth;
mod codec;
mod config;
mod cursor;
mod disk;
mod gssapi;
pub mod hunt;
mod quorum;
mod replica;
pub mod script;
mod state;
mod text;

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target, of its libFuzzer program and of its corpus.
    pub name: &'static str,
    /// The function of the target.
    pub run: fn(&[u8]),
    /// The maximum memory that it may hold at a time.
    pub memory: Memory,
    /// The length of an input for that limit.
    pub length: fn(&[u8]) -> usize,
    /// The number of mutations in a normal test run: some seconds in a debug build.
    pub rounds: u32,
}

/// A limit for the memory that a target may hold at a time: `fixed + per_byte * input`.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The fixed part.
    pub fixed: usize,
    /// The part for each byte of input.
    pub per_byte: usize,
}

impl Memory {
    /// The limit for an input of this length.
    pub const fn of(self, input: usize) -> usize {
        self.fixed + self.per_byte * input
    }
}

const KIB: usize = 1024;

const fn target(
    name: &'static str,
    run: fn(&[u8]),
    rounds: u32,
    fixed: usize,
    per_byte: usize,
) -> Target {
    Target { name, run, memory: Memory { fixed, per_byte }, length: <[u8]>::len, rounds }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("client_frame", codec::client_frame, 500_000, 16 * KIB, 64),
    target("txn_record", codec::txn_record, 500_000, 16 * KIB, 64),
    target("path", text::path, 500_000, 16 * KIB, 16),
    target("quota_text", text::quota_text, 500_000, 16 * KIB, 128),
    target("acl", text::acl, 200_000, 64 * KIB, 256),
    target("connect_string", text::connect_string, 200_000, 16 * KIB, 256),
    target("reply_record", codec::reply_record, 500_000, 16 * KIB, 64),
    target("txn_log", disk::txn_log, 20_000, 2048 * KIB, 8),
    Target {
        // The limit depends on the content, not on its compression.
        length: disk::decompressed_bytes,
        ..target("snapshot", disk::snapshot, 8_000, 8192 * KIB, 64)
    },
    target("sidecar", disk::sidecar, 100_000, 64 * KIB, 8),
    target("file_name", disk::file_name, 200_000, 16 * KIB, 16),
    target("epoch", disk::epoch, 50_000, 64 * KIB, 16),
    target("data_dir", disk::data_dir, 5_000, 8192 * KIB, 128),
    target("tree_apply", disk::tree_apply, 20_000, 1024 * KIB, 256),
    target("properties", config::properties, 50_000, 16 * KIB, 256),
    // Each setting needs some hundred bytes, whatever the file contains.
    target("zoo_cfg", config::zoo_cfg, 4_000, 320 * KIB, 256),
    target("flags", config::flags, 100_000, 16 * KIB, 256),
    target("four_letter", config::four_letter, 200_000, 16 * KIB, 256),
    target("quorum", quorum::quorum, 200_000, 64 * KIB, 256),
    target("membership", quorum::membership, 20_000, 64 * KIB, 256),
    target("key_store", auth::key_store, 20_000, 1024 * KIB, 64),
    target("jaas", auth::jaas, 50_000, 64 * KIB, 256),
    target("digest_md5", auth::digest_md5, 50_000, 64 * KIB, 64),
    target("gssapi", gssapi::tokens, 50_000, 64 * KIB, 64),
    // A JSON value needs several times the memory of its text.
    target("external_auth", auth::external_auth, 2_000, 64 * KIB, 512),
    target("ocsp", auth::ocsp, 5_000, 64 * KIB, 64),
    target("client_hello", auth::client_hello, 500_000, 16 * KIB, 16),
    target("auth_to_local", auth::auth_to_local, 2_000, 16 * 1024 * KIB, 1024),
    target("replica", replica::replica, 4_000, 2048 * KIB, 4096),
];

/// The target of that name.
///
/// # Panics
/// If there is no such target; at compile time, where the name is a constant.
pub const fn find(name: &str) -> Target {
    let mut at = 0;
    while at < TARGETS.len() {
        if is_same(TARGETS[at].name.as_bytes(), name.as_bytes()) {
            return TARGETS[at];
        }
        at += 1;
    }
    panic!("no such target")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}
