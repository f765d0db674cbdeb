//! What is fuzzed: one function per target, each taking any bytes there are.
//!
//! A target panics when the code under it breaks a promise, and returns otherwise. The libFuzzer
//! programs in `fuzz/fuzz_targets` are one line each around these functions; the tests of this crate
//! run them over the checked-in corpora and over a bounded number of mutations ([`hunt`]).
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

/// One thing that is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of the libFuzzer program and of the corpus.
    pub name: &'static str,
    /// What is run.
    pub run: fn(&[u8]),
    /// How much memory it may hold at once.
    pub memory: Memory,
    /// How long an input counts as for that.
    pub length: fn(&[u8]) -> usize,
    /// Mutations in a plain test run, some seconds' worth in a debug build.
    pub rounds: u32,
}

/// A bound on the memory a target may hold at once: `fixed + per_byte * input`.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes whatever the input is.
    pub fixed: usize,
    /// Bytes for each byte of input.
    pub per_byte: usize,
}

impl Memory {
    /// The bound for an input of so many bytes.
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
        // What it may cost is measured by what is in it, not by how well that could be compressed.
        length: disk::decompressed_bytes,
        ..target("snapshot", disk::snapshot, 8_000, 8192 * KIB, 64)
    },
    target("sidecar", disk::sidecar, 100_000, 64 * KIB, 8),
    target("file_name", disk::file_name, 200_000, 16 * KIB, 16),
    target("epoch", disk::epoch, 50_000, 64 * KIB, 16),
    target("data_dir", disk::data_dir, 5_000, 8192 * KIB, 128),
    target("tree_apply", disk::tree_apply, 20_000, 1024 * KIB, 256),
    target("properties", config::properties, 50_000, 16 * KIB, 256),
    // Each of the settings takes some hundred bytes, whatever the file has.
    target("zoo_cfg", config::zoo_cfg, 4_000, 320 * KIB, 256),
    target("flags", config::flags, 100_000, 16 * KIB, 256),
    target("four_letter", config::four_letter, 200_000, 16 * KIB, 256),
    target("quorum", quorum::quorum, 200_000, 64 * KIB, 256),
    target("membership", quorum::membership, 20_000, 64 * KIB, 256),
    target("key_store", auth::key_store, 20_000, 1024 * KIB, 64),
    target("jaas", auth::jaas, 50_000, 64 * KIB, 256),
    target("digest_md5", auth::digest_md5, 50_000, 64 * KIB, 64),
    target("gssapi", gssapi::tokens, 50_000, 64 * KIB, 64),
    // A value of JSON takes some times the memory of its text.
    target("external_auth", auth::external_auth, 2_000, 64 * KIB, 512),
    target("ocsp", auth::ocsp, 5_000, 64 * KIB, 64),
    target("client_hello", auth::client_hello, 500_000, 16 * KIB, 16),
    target("auth_to_local", auth::auth_to_local, 2_000, 16 * 1024 * KIB, 1024),
    target("replica", replica::replica, 4_000, 2048 * KIB, 4096),
];

/// The target of that name.
///
/// # Panics
/// When there is none; at compile time, where the name is a constant.
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
