//! What is fuzzed: one function per target, each taking any bytes there are.
//!
//! A target panics when the code under it breaks a promise, and returns otherwise. The libFuzzer
//! programs in `fuzz/fuzz_targets` are one line each around these functions; the tests of this crate
//! run them over the checked-in corpora and over a bounded number of mutations ([`hunt`]).
//!
//! **Invariant:** a target depends on its bytes alone: no clock, no file, no thread, no randomness.

mod codec;
pub mod hunt;
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
    Target { name, run, memory: Memory { fixed, per_byte }, rounds }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("client_frame", codec::client_frame, 500_000, 16 * KIB, 64),
    target("txn_record", codec::txn_record, 500_000, 16 * KIB, 64),
    target("path", text::path, 500_000, 16 * KIB, 16),
    target("quota_text", text::quota_text, 500_000, 16 * KIB, 128),
    target("acl", text::acl, 200_000, 64 * KIB, 256),
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
