//! A comment that says "Invariant" has its check.
//!
//! An invariant over fields names them, and an assertion in the same file uses one of the names.
//! Any other invariant says what checks it: `Checked by` and names of functions of the crate, of
//! its tests, or of files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// How such a comment begins.
const MARKS: [&str; 2] = ["Invariant:", "Invariants:"];

/// The words that introduce the check of an invariant.
const WITNESS: &str = "Checked by ";

/// Checks the comments of all sources.
pub(super) fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    let mut crates: HashMap<PathBuf, Vec<(PathBuf, String)>> = HashMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let Some(home) = home(file) else { continue };
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        crates.entry(home).or_default().push((file.clone(), text));
    }
    for (home, files) in &crates {
        let resolves = |name: &str| {
            let function = format!("fn {name}(");
            let generic = format!("fn {name}<");
            home.join(name).exists()
                || files.iter().any(|(_, text)| text.contains(&function) || text.contains(&generic))
        };
        for (file, text) in files.iter().filter(|(file, _)| file.starts_with(home.join("src"))) {
            let name = file.strip_prefix(root).unwrap_or(file).display();
            wrong
                .extend(faults(text, resolves).into_iter().map(|fault| format!("{name}: {fault}")));
        }
    }
    Ok(())
}

/// The folder of the crate that has this file.
fn home(file: &Path) -> Option<PathBuf> {
    file.ancestors().skip(1).find(|folder| folder.join("Cargo.toml").exists()).map(Path::to_owned)
}

/// The faults of the invariants of one file. `resolves`: whether the crate has such a function or
/// file.
fn faults(text: &str, resolves: impl Fn(&str) -> bool) -> Vec<String> {
    let asserted = assertions(text);
    let mut faults = Vec::new();
    for (line, invariant) in invariants(text) {
        let fault = match invariant.split_once(WITNESS) {
            Some((_, witnesses)) => {
                let names = quoted(witnesses);
                let unknown: Vec<&str> = names.iter().filter(|it| !resolves(it)).copied().collect();
                match (names.is_empty(), unknown.as_slice()) {
                    (true, _) => Some("its check has no name".to_owned()),
                    (false, []) => None,
                    (false, unknown) => Some(format!("no such check: {}", unknown.join(", "))),
                }
            }
            None => {
                let names = quoted(&invariant);
                let is_asserted = asserted.iter().any(|it| names.iter().any(|name| uses(it, name)));
                let hint = format!("assert it in this file, or say what it is \"{WITNESS}\"");
                (!is_asserted).then(|| format!("an invariant without an assertion: {hint}"))
            }
        };
        faults.extend(fault.map(|fault| format!("line {line}: {fault}")));
    }
    faults
}

/// The invariants that comments state, each in one line, with the number of its first line.
fn invariants(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = comment(line) else {
            goes_on = false;
            continue;
        };
        let comment = comment.replace("**", "");
        let begins = MARKS.iter().find_map(|mark| comment.find(mark));
        match (begins, found.last_mut()) {
            (Some(at), _) => {
                found.push((index + 1, comment[at..].to_owned()));
                goes_on = true;
            }
            (None, Some((_, invariant))) if goes_on && !comment.trim().is_empty() => {
                invariant.push(' ');
                invariant.push_str(comment.trim());
            }
            _ => goes_on = false,
        }
    }
    found
}

/// The text of a line that is a comment as a whole.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.strip_prefix(['/', '!']).unwrap_or(rest))
}

/// The assertions of the production code of a file: its tests are at its end.
fn assertions(text: &str) -> Vec<&str> {
    let production = text.split("#[cfg(test)]").next().unwrap_or(text);
    let begins = production.match_indices("assert").map(|(at, _)| &production[at..]);
    let is_macro = |it: &&str| {
        let name: &str =
            it.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next().unwrap_or("");
        it[name.len()..].starts_with('!')
    };
    begins.filter(is_macro).map(|it| it.split(';').next().unwrap_or(it)).collect()
}

/// The names between backticks, without paths, calls and operators: `applied <= committed` is two
/// names.
fn quoted(text: &str) -> Vec<&str> {
    let pieces = text.split('`').skip(1).step_by(2);
    let words =
        pieces.flat_map(|it| it.split(|c: char| c.is_whitespace() || "()<>=[]".contains(c)));
    words.map(|it| it.rsplit("::").next().unwrap_or(it)).filter(|it| !it.is_empty()).collect()
}

/// Whether code has this name as a word.
fn uses(code: &str, name: &str) -> bool {
    code.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).any(|word| word == name)
}

#[test]
fn an_invariant_over_fields_needs_an_assertion_that_names_one() {
    let comment = "/// What is there. Invariant: `low <=\n/// high`.\nstruct It;\n";
    let none = |_: &str| false;
    assert_eq!(faults(comment, none).len(), 1);
    let other = format!("{comment}fn f() {{ assert!(self.other); assert_high(); }}\n");
    assert_eq!(
        faults(&other, none).len(),
        1,
        "neither another field nor a function's name will do"
    );
    let only_in_tests =
        format!("{comment}#[cfg(test)]\nmod tests {{ fn f() {{ assert!(low); }} }}\n");
    assert_eq!(faults(&only_in_tests, none).len(), 1);
    let asserted = format!("{comment}fn f() {{\n    assert!(\n    self.low <= 7\n    );\n}}\n");
    assert_eq!(faults(&asserted, none), [""; 0]);
}

#[test]
fn any_other_invariant_names_its_check() {
    let none = |_: &str| false;
    let comment =
        "//! **Invariant:** nothing waits. Checked by `nothing_waits`, and\n//! `clippy.toml`.\n";
    let faults_of = |text: &str, known: &[&str]| faults(text, |name| known.contains(&name));
    assert_eq!(faults_of(comment, &["nothing_waits", "clippy.toml"]), [""; 0]);
    let fault = &faults_of(comment, &["nothing_waits"])[0];
    assert!(fault.contains("line 1") && fault.ends_with("no such check: clippy.toml"), "{fault}");
    assert_eq!(faults("//! Invariant: it holds. Checked by hand.\n", none).len(), 1);
}

#[test]
fn an_invariant_ends_with_its_paragraph() {
    let text = "//! Invariant: `a`.\n//!\n//! Checked by `b`.\nfn f() { assert!(c); }\n// A word on Invariant code.\n";
    assert_eq!(invariants(text), [(1, "Invariant: `a`.".to_owned())]);
    assert_eq!(faults(text, |_| true).len(), 1);
}
