//! Checks that no compiler makes: arrows between crates point down, files are documented, small and
//! finished, links and ids lead somewhere, invariants have their checks.

mod changelog;
mod commands;
mod compat;
mod errors;
mod ids;
mod installed;
mod invariants;
pub(crate) mod markdown;
pub(crate) mod pages;
mod recorded;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::root;

/// The layers, from the bottom. A crate may use crates of lower layers only.
const LAYERS: &[&[&str]] = &[
    &["jute", "model"],
    &["proto", "gssapi"],
    &["tree", "store", "zab", "session", "auth"],
    &["https", "ocsp"],
    &["replica", "state", "client"],
    &["engine", "transport", "config", "metrics", "logs", "credentials"],
    &["admin", "backup", "testkit"],
    &["server", "recipes", "shell", "tools", "capi", "sim"],
    &["zebu", "python"],
];

/// Crates outside the layers. They may use any crate, and no crate may use them.
const OUTSIDE: &[&str] = &["bench", "figures"];

/// The crate for tests, and the crates that consist of tests. No shipped crate may depend on it.
const TESTKIT: &str = "testkit";
const TESTS: &[&str] = &["sim"];

/// The crates in `crates` that are programs: `bench` is the whole of `zebu bench`, which prints its
/// error and ends. The others are libraries, whose errors have types, so that callers can
/// distinguish them without reading their text.
const PROGRAMS: &[&str] = &["bench", "zebu"];

/// The crate for errors without a type.
const UNTYPED: &str = "anyhow";

/// The folders with hand-written files.
const FOLDERS: [&str; 6] = ["crates", "docs", "examples", "fuzz", "tests", "xtask"];

/// The extensions of the files that are read.
const TEXTS: [&str; 8] = ["c", "java", "md", "py", "rs", "sh", "toml", "txt"];

const LINES_MAX: usize = 1000;

/// The width of a comment, which `rustfmt` keeps only in code.
const WIDTH_MAX: usize = 100;

/// Words that mark unfinished code. They are split, so that this file passes.
const UNFINISHED: [&str; 3] = [concat!("dbg", "!("), concat!("todo", "!("), concat!("FIX", "ME")];

/// Runs all checks, and reports all violations.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    layers(&mut wrong)?;
    let mut files = Vec::new();
    for folder in FOLDERS {
        text_files(&root().join(folder), &mut files)?;
    }
    for entry in fs::read_dir(root())? {
        let path = entry?.path();
        files.extend(path.extension().is_some_and(|end| end == "md").then_some(path));
    }
    files.sort();
    let pages = pages::read(&root(), &files)?;
    pages::check(&root(), &pages, &mut wrong);
    ids::check(&root(), &files, &pages, &mut wrong);
    commands::check(&root(), &files, &mut wrong);
    installed::check(&root(), &files, &mut wrong)?;
    invariants::check(&root(), &files, &mut wrong)?;
    recorded::check(&root(), &mut wrong)?;
    compat::check(&root(), &mut wrong)?;
    changelog::check(&root(), &mut wrong)?;
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let name = file.strip_prefix(root()).unwrap_or(file);
        let mut faults = file_faults(&text);
        if errors::is_library(name) {
            faults.extend(errors::untyped(&text));
        }
        let name = name.display();
        wrong.extend(faults.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    if wrong.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    bail!("not tidy:\n{}", wrong.join("\n"))
}

fn file_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//!") && !text.starts_with("#![no_main]\n//!") {
        faults.push("does not open with //! and what it is for".to_owned());
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        faults.push(format!("{lines} lines; {LINES_MAX} are the limit: find the second idea"));
    }
    for (index, line) in text.lines().enumerate() {
        for word in UNFINISHED {
            if line.contains(word) {
                faults.push(format!("line {}: {word}", index + 1));
            }
        }
    }
    faults.extend(
        wide_comments(text)
            .map(|line| format!("line {line}: {WIDTH_MAX} characters are the limit")),
    );
    faults
}

/// The numbers of the lines with comments that are too wide. Code in a comment, links and words
/// cannot be broken everywhere, so they may be wider.
fn wide_comments(text: &str) -> impl Iterator<Item = usize> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim_end();
        let comment = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            is_code = !is_code;
        }
        let may_be_wide =
            is_code || comment.contains("://") || comment.starts_with(['|', '[', '#']);
        (!may_be_wide && line.chars().count() > WIDTH_MAX).then_some(index + 1)
    })
}

fn text_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            text_files(&path, files)?;
        } else if TEXTS
            .iter()
            .any(|end| path.extension().is_some_and(|extension| extension == *end))
        {
            files.push(path);
        }
    }
    Ok(())
}

fn layers(wrong: &mut Vec<String>) -> Result<()> {
    let rows: HashMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(row, crates)| crates.iter().map(move |name| (*name, row)))
        .collect();
    for entry in fs::read_dir(root().join("crates"))? {
        let folder = entry?.path();
        let name = folder.file_name().and_then(|name| name.to_str()).context("folder name")?;
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        if dependencies(&manifest).any(|used| used == UNTYPED) && !PROGRAMS.contains(&name) {
            wrong.push(format!("crates/{name}: a library has errors with types, so no {UNTYPED}"));
        }
        if OUTSIDE.contains(&name) {
            continue;
        }
        let Some(row) = rows.get(name) else {
            wrong.push(format!("crates/{name}: has no row in the layers"));
            continue;
        };
        for used in used_crates(&manifest) {
            match rows.get(used.as_str()) {
                _ if used == TESTKIT && !TESTS.contains(&name) => {
                    wrong.push(format!("crates/{name}: only its tests may use {used}"));
                }
                Some(below) if below < row => {}
                // Only the binary starts the benchmarks.
                None if OUTSIDE.contains(&used.as_str()) && name == "zebu" => {}
                _ => wrong.push(format!("crates/{name}: may not use {used}")),
            }
        }
    }
    Ok(())
}

/// The workspace crates that a manifest depends on, except for dev-dependencies.
fn used_crates(manifest: &str) -> Vec<String> {
    dependencies(manifest)
        .filter_map(|name| name.strip_prefix("zebu-"))
        .map(str::to_owned)
        .collect()
}

/// The dependencies in a manifest, except for dev-dependencies.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut counts = false;
    manifest.lines().map(str::trim).filter_map(move |line| {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
            return None;
        }
        let name = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()?;
        (counts && !name.is_empty()).then_some(name)
    })
}

#[test]
fn the_repository_is_tidy() {
    check().unwrap();
}

#[test]
fn dependencies_of_tests_do_not_count() {
    let manifest = "[package]\nname = \"zebu-x\"\n[dependencies]\nzebu-jute.workspace = true\n\
                    zebu-proto = { path = \"../proto\" }\n[dev-dependencies]\nzebu-sim = \"1\"\n";
    assert_eq!(used_crates(manifest), ["jute", "proto"]);
    let manifest = "[dependencies]\n# Errors.\nanyhow.workspace = true\n[dev-dependencies]\ntempfile = \"3\"\n";
    assert_eq!(dependencies(manifest).collect::<Vec<_>>(), [UNTYPED]);
}

#[test]
fn faults_of_a_file_are_named() {
    let text = format!("fn main() {{\n    {}\n}}\n", concat!("todo", "!()"));
    let faults = file_faults(&text);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(file_faults("//! Fine.\n").is_empty());
}

#[test]
fn comments_are_as_wide_as_code() {
    let comment = |width: usize| format!("//! {}\n", "w".repeat(width - 4));
    assert!(file_faults(&comment(WIDTH_MAX)).is_empty());
    assert_eq!(file_faults(&comment(WIDTH_MAX + 1)).len(), 1);
    let code = format!("//! ```\n//! {}\n//! ```\n", "word(); ".repeat(20));
    assert!(file_faults(&code).is_empty());
}
