//! Rows of COMPAT.md: each difference has an id of its own, and each named test exists.
//!
//! A row begins with its anchor, `<a id="files-12"></a>files-12`, and ends with links to its tests:
//! `` [`name`](path) ``, where the file at `path` has a function of that name or is called so.
//!
//! A row of the tables of what works has no id. It ends with bare names: files of the interop tests
//! without their `.rs`, paths in the repository, and tasks of `cargo xtask`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The page.
const PAGE: &str = "COMPAT.md";

/// The beginning of the header of a table of differences.
const HEADER: &str = "| id |";

/// The end of the header of a table of what works.
const TESTS: &str = "| test |";

/// The folder of the tests that are called by their names alone.
const FOLDER: &str = "tests/interop/tests";

/// The beginning of a task.
const TASK: &str = "cargo xtask ";

/// Reports every row without a unique id, and every missing test.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut faults = faults(&page, |file| fs::read_to_string(root.join(file)).ok());
    faults.extend(missing(&page, |path| root.join(path).exists(), crate::is_task));
    wrong.extend(faults.into_iter().map(|fault| format!("{PAGE}:{fault}")));
    Ok(())
}

fn faults(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (mut faults, mut seen) = (Vec::new(), BTreeMap::new());
    let mut is_in_table = false;
    for (index, line) in page.lines().enumerate() {
        let number = index + 1;
        is_in_table = line.starts_with(HEADER) || is_in_table && line.starts_with('|');
        if !is_in_table || line.starts_with(HEADER) || line.starts_with("|---") {
            continue;
        }
        match id(line) {
            Some(id) => {
                if let Some(first) = seen.insert(id.to_owned(), number) {
                    faults.push(format!("{number}: line {first} has the id {id}, too"));
                }
            }
            None => faults.push(format!(
                "{number}: a row without an id; begin it with the next number of its section, as in | <a id=\"files-99\"></a>files-99 |"
            )),
        }
        for (name, file) in tests(line).split("[`").skip(1).filter_map(test) {
            let there = file.ends_with(name)
                || read(file).is_some_and(|text| text.contains(&format!("fn {name}(")));
            if !there {
                faults.push(format!("{number}: {file} has no test {name}"));
            }
        }
    }
    faults
}

/// The bare names in the tables of what works that name no test.
fn missing(
    page: &str,
    exists: impl Fn(&str) -> bool,
    is_task: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut is_in_table = false;
    for (index, line) in page.lines().enumerate() {
        let is_header = line.ends_with(TESTS) && !line.starts_with(HEADER);
        if is_header || !line.starts_with('|') {
            is_in_table = is_header;
            continue;
        }
        // The text between every other pair of marks is a name.
        for name in tests(line).split('`').skip(1).step_by(2).filter(|_| is_in_table) {
            let there = if let Some(task) = name.strip_prefix(TASK) {
                task.split(' ').next().is_some_and(&is_task)
            } else if name.contains('/') {
                exists(name)
            } else {
                let file = format!("{FOLDER}/{name}");
                exists(&format!("{file}.rs")) || exists(&format!("{file}/main.rs"))
            };
            if !there {
                faults.push(format!("{}: there is no test {name}", index + 1));
            }
        }
    }
    faults
}

/// The last column of a row.
fn tests(row: &str) -> &str {
    row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default()
}

/// The id of a row, if its anchor and its text agree.
fn id(line: &str) -> Option<&str> {
    let (anchor, rest) = line.strip_prefix("| <a id=\"")?.split_once("\"></a>")?;
    let (shown, _) = rest.split_once(" |")?;
    (shown == anchor).then_some(anchor)
}

/// The name and the file in the rest of a link after `` [` ``.
fn test(link: &str) -> Option<(&str, &str)> {
    let (name, rest) = link.split_once("`](")?;
    Some((name, rest.split_once(')')?.0))
}

#[test]
fn rows_have_ids_of_their_own_and_tests_that_are_there() {
    let page = "| id | what | test |\n|---|---|---|\n\
                | <a id=\"a-1\"></a>a-1 | x | [`one`](t.rs), [`s.txt`](p/s.txt) |\n\
                | <a id=\"a-1\"></a>a-1 | y | – |\n\
                | z | [`no`](link.md) says more | [`two`](t.rs) |\n\n\
                | what |\n|---|\n| no id |\n";
    let found = faults(page, |file| (file == "t.rs").then(|| "fn one() {}".to_owned()));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("4: line 3 has the id a-1"));
    assert!(found[1].starts_with("5: a row without an id"));
    assert_eq!(found[2], "5: t.rs has no test two");
}

#[test]
fn bare_names_in_the_tables_of_what_works_are_tests_that_are_there() {
    let page = "| client | works | test |\n|---|---|---|\n\
                | `any` | yes | `one`, `two` with TLS, and `crates/a/tests` |\n\
                | x | yes | `wrong`, `crates/b/tests`; its own by `cargo xtask suites kafka` ([x](y.md)) |\n\
                | y | yes | `cargo xtask sweets` |\n\
                | z | yes | – |\n\n\
                | setting | text |\n|---|---|\n| x | `not a test` |\n\n\
                | id | what | test |\n|---|---|---|\n| a-1 | x | [`name`](t.rs) |\n";
    let there = ["tests/interop/tests/one.rs", "tests/interop/tests/two/main.rs", "crates/a/tests"];
    let found = missing(page, |path| there.contains(&path), |task| task == "suites");
    let wrong = ["4: there is no test wrong", "4: there is no test crates/b/tests"];
    assert_eq!(found[..2], wrong);
    assert_eq!(found[2..], ["5: there is no test cargo xtask sweets"]);
}
