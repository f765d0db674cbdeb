//! Each test that a page tells its readers to run exists: the package, its file and the filter.

use std::fs;
use std::path::{Path, PathBuf};

/// The beginning of a command that runs tests.
const RUNS: &str = "cargo test ";

/// Packages that are not in a folder of their name below `crates`.
const ELSEWHERE: [(&str, &str); 2] =
    [("zebu-interop", "tests/interop"), ("zebu-fuzz-targets", "fuzz")];

/// The options of a command with a value.
const WITH_VALUE: [&str; 4] = ["--exclude", "--features", "--test-threads", "--bench"];

/// The parts of a command that decide which tests run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Selection<'a> {
    packages: Vec<&'a str>,
    files: Vec<&'a str>,
    filters: Vec<&'a str>,
}

/// Reports every command in a page whose tests do not exist.
pub(crate) fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) {
    let pages = files.iter().filter(|file| file.extension().is_some_and(|end| end == "md"));
    for page in pages {
        let text = fs::read_to_string(page).unwrap_or_default();
        for command in commands(&text) {
            if let Err(what) = exists(root, &select(command)) {
                let page = page.strip_prefix(root).unwrap_or(page).display();
                wrong.push(format!("{page}: `{RUNS}{command}`: {what}"));
            }
        }
    }
}

/// The words of each command, up to the end of its code span, its line, or a comment.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    let end = |rest: &str| rest.find(['`', '\n', '#']).unwrap_or(rest.len());
    text.split(RUNS).skip(1).map(move |rest| rest[..end(rest)].trim())
}

fn select(command: &str) -> Selection<'_> {
    let mut selection = Selection::default();
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-p" | "--package" => selection.packages.extend(words.next()),
            "--test" => selection.files.extend(words.next()),
            _ if WITH_VALUE.contains(&word) => drop(words.next()),
            _ if word.starts_with('-') || word.starts_with('[') => {}
            // A word such as NAME stands for any filter.
            _ if word == word.to_uppercase() => {}
            _ => selection.filters.push(word),
        }
    }
    selection
}

fn exists(root: &Path, selection: &Selection<'_>) -> Result<(), String> {
    let mut sources = Vec::new();
    for package in &selection.packages {
        let elsewhere = ELSEWHERE.iter().find(|(name, _)| name == package);
        let folder = match elsewhere {
            Some((_, folder)) => root.join(folder),
            None => root.join("crates").join(package.strip_prefix("zebu-").unwrap_or(package)),
        };
        if !folder.join("Cargo.toml").is_file() {
            return Err(format!("there is no package {package}"));
        }
        if selection.files.is_empty() {
            rust_files(&folder, &mut sources);
        }
        for file in &selection.files {
            let tests = folder.join("tests");
            let (one, several) = (tests.join(format!("{file}.rs")), tests.join(file));
            if !one.is_file() && !several.is_dir() {
                return Err(format!("{package} has no tests {file}"));
            }
            sources.push(one);
            rust_files(&several, &mut sources);
        }
    }
    if selection.packages.is_empty() || selection.filters.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> =
        sources.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    for filter in &selection.filters {
        let is_there = match filter.strip_suffix("::") {
            Some(module) => {
                let declared = format!("mod {module};");
                texts.iter().any(|text| text.contains(&declared))
            }
            None => texts.iter().any(|text| has_test(text, filter)),
        };
        if !is_there {
            return Err(format!("no test is called {filter}"));
        }
    }
    Ok(())
}

/// Whether the name of a function without arguments contains the filter.
fn has_test(text: &str, filter: &str) -> bool {
    let names = text.split("fn ").skip(1).filter_map(|rest| rest.split_once("()"));
    names
        .map(|(name, _)| name)
        .any(|name| !name.contains(['\n', ' ', '(']) && name.contains(filter))
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_command_are_told_apart() {
        let text = "Run `cargo test -p zebu-store --features a,b crash::`, or:\ncargo test --workspace   # all\n";
        let all: Vec<_> = commands(text).map(select).collect();
        let first =
            Selection { packages: vec!["zebu-store"], files: vec![], filters: vec!["crash::"] };
        assert_eq!(all, [first, Selection::default()]);
    }

    #[test]
    fn tests_that_do_not_exist_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let tests = root.join("crates/store/tests/store");
        fs::create_dir_all(&tests).unwrap();
        fs::write(root.join("crates/store/Cargo.toml"), "").unwrap();
        fs::write(tests.join("main.rs"), "mod crash;\n#[test]\nfn a_full_disk_waits() {}\n")
            .unwrap();
        let page = root.join("page.md");
        let good =
            "`cargo test -p zebu-store crash::`, `cargo test -p zebu-store --test store full_disk`";
        let bad = "`cargo test -p zebu-store damage::`, `cargo test -p zebu-store empty_disk`, \
                   `cargo test -p zebu-store --test others`, `cargo test -p zebu-shop`";
        fs::write(&page, format!("{good}, {bad}\n")).unwrap();
        let mut wrong = Vec::new();
        check(root, &[page], &mut wrong);
        let ends = [
            "no test is called damage::",
            "no test is called empty_disk",
            "zebu-store has no tests others",
            "there is no package zebu-shop",
        ];
        assert_eq!(wrong.len(), ends.len(), "{wrong:?}");
        assert!(wrong.iter().zip(ends).all(|(what, end)| what.ends_with(end)), "{wrong:?}");
    }
}
