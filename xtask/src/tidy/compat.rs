//! Rows of COMPAT.md: each difference has an id of its own, and each named test exists.
//!
//! A row begins with its anchor, `<a id="files-12"></a>files-12`, and ends with links to its tests:
//! `` [`name`](path) ``, where the file at `path` has a function of that name or is called so.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The page.
const PAGE: &str = "COMPAT.md";

/// The beginning of the header of a table of differences.
const HEADER: &str = "| id |";

/// Reports every row without a unique id, and every missing test.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let faults = faults(&page, |file| fs::read_to_string(root.join(file)).ok());
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
        let tests = line.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        for (name, file) in tests.split("[`").skip(1).filter_map(test) {
            let there = file.ends_with(name)
                || read(file).is_some_and(|text| text.contains(&format!("fn {name}(")));
            if !there {
                faults.push(format!("{number}: {file} has no test {name}"));
            }
        }
    }
    faults
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
