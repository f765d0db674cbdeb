//! The places that execute the instructions: callgrind's output, by function and by address.
//!
//! The format is callgrind's own: lines of `address line cost`, each relative to the previous one,
//! below their function and file. A line after `calls=` has the whole cost of a call.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Addresses of instructions that atomically read and write a place in memory, so that a core must
/// own its cache line. Every other core that needs the line next must fetch it.
#[derive(Debug, Default)]
pub(crate) struct Atomics {
    addresses: HashSet<u64>,
}

impl Atomics {
    /// Searches a program for atomic instructions.
    pub(crate) fn of(program: &Path) -> Result<Self> {
        let mut command = Command::new("objdump");
        command.args(["-d", "--no-show-raw-insn"]).arg(program);
        let output = command.output().context("run objdump\nhint: it comes with binutils")?;
        ensure!(output.status.success(), "{command:?}: {}", output.status);
        let addresses: HashSet<u64> =
            String::from_utf8_lossy(&output.stdout).lines().filter_map(atomic_at).collect();
        ensure!(!addresses.is_empty(), "no atomic instruction in {}", program.display());
        Ok(Self { addresses })
    }
}

/// The address of a line of a disassembly, if its instruction is an atomic one.
fn atomic_at(line: &str) -> Option<u64> {
    let (address, instruction) = line.trim_start().split_once(":\t")?;
    let (name, rest) = instruction.split_once(' ').unwrap_or((instruction, ""));
    let is_atomic = match name {
        "lock" => true,
        // This instruction is always locked, but with a register operand it is not atomic.
        name if name.starts_with("xchg") => rest.contains('('),
        // The forms on ARM, alone or in a loop.
        name => ["cas", "ldadd", "ldclr", "ldset", "swp", "stxr", "stlxr"]
            .iter()
            .any(|prefix| name.starts_with(prefix)),
    };
    if is_atomic { u64::from_str_radix(address, 16).ok() } else { None }
}

/// The executed instructions, by place.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// All instructions.
    pub(crate) total: u64,
    /// By crate, according to the source file.
    pub(crate) crates: BTreeMap<String, u64>,
    /// By function, with the functions that it calls. A recursive call does not count twice.
    pub(crate) functions: BTreeMap<String, u64>,
    /// Atomic instructions by function, without the functions that it calls.
    pub(crate) atomics: BTreeMap<String, u64>,
}

impl Profile {
    /// Parses a whole file; `None` if the file is incomplete.
    pub(crate) fn parse(text: &str, program: &Path, atomics: &Atomics) -> Option<Self> {
        let mut reader = Reader::default();
        let mut profile = Self::default();
        let mut is_whole = false;
        for line in text.lines() {
            if line.starts_with("totals:") {
                is_whole = true;
            } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
                let cost = reader.cost(line)?;
                let function = reader.function.clone();
                if let Some(callee) = reader.called.take() {
                    if callee != function {
                        *profile.functions.entry(function).or_default() += cost;
                    }
                    continue;
                }
                profile.total += cost;
                *profile.crates.entry(crate_of(&reader.file)).or_default() += cost;
                let is_ours = Path::new(&reader.object) == program;
                if is_ours && atomics.addresses.contains(&reader.address) {
                    *profile.atomics.entry(function.clone()).or_default() += cost;
                }
                *profile.functions.entry(function).or_default() += cost;
            } else {
                reader.head(line);
            }
        }
        is_whole.then_some(profile)
    }

    /// The number of executed atomic instructions.
    pub(crate) fn atomic_count(&self) -> u64 {
        self.atomics.values().sum()
    }

    /// The difference from `base`.
    pub(crate) fn less(mut self, base: &Self) -> Self {
        self.total = self.total.saturating_sub(base.total);
        subtract(&mut self.crates, &base.crates);
        subtract(&mut self.functions, &base.functions);
        subtract(&mut self.atomics, &base.atomics);
        self
    }
}

fn subtract(from: &mut BTreeMap<String, u64>, base: &BTreeMap<String, u64>) {
    for (name, count) in from {
        *count = count.saturating_sub(base.get(name).copied().unwrap_or(0));
    }
}

/// The present position in the file, and the names that stand for numbers.
#[derive(Debug, Default)]
struct Reader {
    address: u64,
    line: u64,
    object: String,
    file: String,
    function: String,
    callee: String,
    /// The function that the next line of costs belongs to, if it is a call.
    called: Option<String>,
    objects: HashMap<String, String>,
    files: HashMap<String, String>,
    functions: HashMap<String, String>,
}

impl Reader {
    /// The cost in a line of costs.
    fn cost(&mut self, line: &str) -> Option<u64> {
        let mut words = line.split_ascii_whitespace();
        self.address = moved(self.address, words.next()?)?;
        self.line = moved(self.line, words.next()?)?;
        words.next().map_or(Some(0), |cost| cost.parse().ok())
    }

    /// A line that names the place of the following lines.
    fn head(&mut self, line: &str) {
        let Some((key, value)) = line.split_once('=') else { return };
        match key {
            "ob" => self.object = named(&mut self.objects, value),
            "cob" => drop(named(&mut self.objects, value)),
            "fl" | "fi" | "fe" => self.file = named(&mut self.files, value),
            "cfi" | "cfl" => drop(named(&mut self.files, value)),
            "fn" => self.function = named(&mut self.functions, value),
            "cfn" => self.callee = named(&mut self.functions, value),
            "calls" => self.called = Some(self.callee.clone()),
            _ => {}
        }
    }
}

/// A position relative to the previous one: `+n` and `-n` are offsets, `*` is the same.
fn moved(before: u64, word: &str) -> Option<u64> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match word.split_at_checked(1)? {
        ("*", "") => Some(before),
        ("+", by) => before.checked_add(number(by)?),
        ("-", by) => before.checked_sub(number(by)?),
        _ => number(word),
    }
}

/// `(7) name` defines `(7)` as an abbreviation of the name.
fn named(names: &mut HashMap<String, String>, value: &str) -> String {
    match value.split_once(' ') {
        Some((number, name)) if number.starts_with('(') => {
            names.insert(number.to_owned(), name.to_owned());
            name.to_owned()
        }
        _ => names.get(value).cloned().unwrap_or_else(|| value.to_owned()),
    }
}

/// The crate of a source file: ours by folder, others by name, and the libraries of language and
/// system.
fn crate_of(file: &str) -> String {
    if let Some((_, rest)) = file.split_once("/registry/src/") {
        let package = rest.split('/').nth(1).unwrap_or_default();
        return package.rsplit_once('-').map_or(package, |(name, _)| name).to_owned();
    }
    if file.starts_with("/rustc/") || file.contains("/library/") {
        return "std".to_owned();
    }
    if let Some((_, rest)) = file.split_once("/crates/") {
        return format!("zebu-{}", rest.split('/').next().unwrap_or_default());
    }
    "libc".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_instructions_are_told_from_others() {
        assert_eq!(atomic_at("  4a10:\tlock cmpxchg %cl,(%rdi)"), Some(0x4a10));
        assert_eq!(atomic_at("  4a14:\txchg   %rax,0x8(%rbx)"), Some(0x4a14));
        assert_eq!(atomic_at("  4a18:\txchg   %ax,%ax"), None);
        assert_eq!(atomic_at("  4a1c:\tldaddal x1, x2, [x0]"), Some(0x4a1c));
        assert_eq!(atomic_at("  4a20:\tmov    %rax,(%rdi)"), None);
        assert_eq!(atomic_at("0000000000004a10 <main>:"), None);
    }

    #[test]
    fn costs_go_to_function_crate_and_address() {
        // As in the manual of the format, with its abbreviations.
        let text = "version: 1\npositions: instr line\nevents: Ir\nsummary: 36\n\n\
                    ob=(1) /bin/zebu\nfl=(1) /src/crates/tree/src/a.rs\nfn=(1) zebu_tree::main\n\
                    0x100 16 2\n+4 +1 1\ncfn=(2) zebu_tree::sub\ncalls=1 0x200 20\n+4 * 30\n\
                    fi=(2) /rustc/abc/library/core/src/x.rs\n+4 7 3\n\n\
                    fl=(1)\nfn=(2)\n0x200 20 20\ncfn=(2)\ncalls=1 0x200 20\n* * 10\n-0x10 -2 10\n\n\
                    totals: 36\n";
        let mut atomics = Atomics::default();
        atomics.addresses.extend([0x104, 0x1f0]);
        let profile = Profile::parse(text, Path::new("/bin/zebu"), &atomics).unwrap();
        assert_eq!(profile.total, 36);
        assert_eq!(profile.functions["zebu_tree::main"], 36);
        assert_eq!(profile.functions["zebu_tree::sub"], 30);
        assert_eq!(profile.crates["zebu-tree"], 33);
        assert_eq!(profile.crates["std"], 3);
        assert_eq!(profile.atomics["zebu_tree::main"], 1);
        assert_eq!(profile.atomics["zebu_tree::sub"], 10);
        let half = Profile { total: 16, ..Profile::default() };
        assert_eq!(profile.less(&half).total, 20);
        let cut = text.split_once("totals").unwrap().0;
        assert!(Profile::parse(cut, Path::new("/bin/zebu"), &atomics).is_none());
    }

    #[test]
    fn files_belong_to_crates() {
        for (file, name) in [
            ("/home/a/zebu/crates/replica/src/read.rs", "zebu-replica"),
            ("/h/.cargo/registry/src/index-1/tokio-1.54.1/src/net/mod.rs", "tokio"),
            ("/rustc/59807616/library/core/src/ptr/mod.rs", "std"),
            ("/rustc/59807616/library/stdarch/crates/core_arch/src/x86/avx.rs", "std"),
            ("./malloc/./malloc/malloc.c", "libc"),
        ] {
            assert_eq!(crate_of(file), name);
        }
    }
}
