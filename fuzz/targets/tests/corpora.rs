//! Every target over its corpus and a bounded number of mutations of it.
//!
//! `ZEBU_FUZZ_ROUNDS` is the number of mutations of each corpus, `ZEBU_FUZZ_SEED` selects them.

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use zebu_fuzz_targets::hunt::hunt;
use zebu_fuzz_targets::{TARGETS, Target};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The counted memory is that of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Longer than any input takes, even on a busy machine.
const RUN_MAX: Duration = Duration::from_secs(30);

/// The maximum size of a file of a corpus.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// The maximum size of all corpora together.
const CORPORA_BYTES_MAX: usize = 2 * 1024 * 1024;

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is below fuzz").to_path_buf()
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = fuzz_dir().join("corpus").join(name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seeds", dir.display());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs one input. Returns the fault if it breaks a promise.
fn check(target: &Target, input: &[u8], peak: &mut usize) -> Result<(), String> {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let took = start.elapsed();
    let held = MEMORY.peak_usage().saturating_sub(before);
    result.map_err(|panic| said(&*panic))?;
    *peak = (*peak).max(held);
    let bound = target.memory.of((target.length)(input));
    if held > bound {
        return Err(format!("{held} bytes of memory for {} of input", input.len()));
    }
    if took > RUN_MAX {
        return Err(format!("{took:?} for {} bytes of input", input.len()));
    }
    Ok(())
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

fn run(name: &str) {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = TARGETS.iter().find(|target| target.name == name).expect("the target is listed");
    let seeds = corpus(name);
    let rounds = number("ZEBU_FUZZ_ROUNDS").map_or(target.rounds, |rounds| rounds as u32);
    let seed = number("ZEBU_FUZZ_SEED").unwrap_or(1);
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let start = Instant::now();
    let mut peak = 0;
    let found = hunt(&seeds, rounds, seed, &mut |input| check(target, input, &mut peak));
    set_hook(hook);
    drop(guard);
    if let Some(find) = found {
        let artifacts = fuzz_dir().join("artifacts").join(name);
        fs::create_dir_all(&artifacts).unwrap();
        let path = artifacts.join("find");
        fs::write(&path, &find.input).unwrap();
        let shown = find.input[..find.input.len().min(400)].escape_ascii();
        panic!("{name}: {}\ninput: {}, \"{shown}\"", find.fault, path.display());
    }
    println!(
        "{name}: seeds={} rounds={rounds} seed={seed} peak_bytes={peak} took {:.1?}",
        seeds.len(),
        start.elapsed()
    );
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*

        /// Every target has a test, a program, a corpus and a paragraph.
        #[test]
        fn every_target_is_everywhere() {
            let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            let tested = [$(stringify!($name)),*];
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), tested);
            let manifest = fs::read_to_string(fuzz_dir().join("Cargo.toml")).unwrap();
            let docs = fs::read_to_string(fuzz_dir().join("../docs/fuzzing.md")).unwrap();
            let mut bytes = 0;
            for name in tested {
                let program = fuzz_dir().join("fuzz_targets").join(format!("{name}.rs"));
                let program = fs::read_to_string(&program)
                    .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
                assert!(program.contains(&format!("program!(\"{name}\")")), "{name}");
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
                assert!(docs.contains(&format!("`{name}`")), "{name}");
                let seeds = corpus(name);
                assert!(seeds.iter().all(|seed| seed.len() < FILE_BYTES_MAX), "{name}");
                bytes += seeds.iter().map(Vec::len).sum::<usize>();
            }
            assert!(bytes < CORPORA_BYTES_MAX, "the corpora have {bytes} bytes");
        }
    };
}

targets! {
    client_frame
    txn_record
    path
    quota_text
    acl
    connect_string
    reply_record
    txn_log
    snapshot
    sidecar
    file_name
    epoch
    data_dir
    tree_apply
    properties
    zoo_cfg
    flags
    four_letter
    quorum
    membership
    key_store
    jaas
    digest_md5
    gssapi
    external_auth
    ocsp
    client_hello
    auth_to_local
    replica
}
