//! Every public item has an example.
//!
//! `cargo test --doc` runs the examples, so this test only looks for them.

use std::fs;
use std::path::{Path, PathBuf};

/// Keywords after `pub` of items that need their own example.
const KINDS: [&str; 7] = ["fn", "async", "const", "struct", "enum", "trait", "type"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The public items of a file without an example, or with an empty one.
fn without_example(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fences = 0;
    let mut shown = 0;
    let mut is_in_trait = false;
    let mut is_public = false;
    for line in text.lines() {
        let item = line.trim_start();
        // All items of a public trait are public. A module of tests is the end of a file.
        if line == "}" {
            is_in_trait = false;
        }
        if item.starts_with("mod tests") {
            break;
        }
        if let Some(doc) = item.strip_prefix("///") {
            let doc = doc.trim();
            if doc.starts_with("```") {
                fences += 1;
            } else if fences % 2 == 1 && !doc.is_empty() && !doc.starts_with('#') {
                shown += 1;
            }
            continue;
        }
        if item.starts_with("#[") || item.starts_with("//") {
            continue;
        }
        let public = item.strip_prefix("pub ");
        let is_reexport = item.starts_with("pub use zebu_");
        let is_method = is_in_trait && line.starts_with("    fn ");
        let kind = public.and_then(|item| item.split_whitespace().next());
        if is_method || is_reexport || kind.is_some_and(|kind| KINDS.contains(&kind)) {
            is_public = true;
        }
        if is_public && (fences < 2 || shown == 0) {
            found.push(item.trim_end_matches(" {").to_owned());
        }
        if line.starts_with("pub trait ") {
            is_in_trait = true;
        }
        (fences, shown, is_public) = (0, 0, false);
    }
    found
}

#[test]
fn everything_public_has_an_example() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 20, "{files:?}");
    let mut missing = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        missing.extend(without_example(&text).into_iter().map(|item| format!("{name}: {item}")));
    }
    assert!(missing.is_empty(), "without an example: {missing:#?}");
}

#[test]
fn what_has_none_is_found() {
    let text = "
/// It has an example.
///
/// ```
/// one();
/// ```
pub fn one() {}

/// It has an example, followed by an attribute.
///
/// ```
/// # hidden();
/// two();
/// ```
#[must_use]
pub struct Two;

/// It has no example.
pub fn three() {}

/// The example is empty.
///
/// ```
/// # hidden();
/// ```
pub enum Four {
    /// A variant needs no example.
    Five,
}

/// It is not public.
pub(crate) fn six() {}

/// It has no example.
pub use zebu_other::Seven;

/// ```
/// eight();
/// ```
pub trait Eight {
    /// It has no example.
    fn nine(&self);
}

impl Eight for Two {
    fn nine(&self) {}
}
";
    assert_eq!(
        without_example(text),
        ["pub fn three() {}", "pub enum Four", "pub use zebu_other::Seven;", "fn nine(&self);"]
    );
}
