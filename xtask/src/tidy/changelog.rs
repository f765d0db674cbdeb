//! The form of CHANGELOG.md: one line for each change, short enough to be read.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The page.
const PAGE: &str = "CHANGELOG.md";

/// The longest entry, in characters.
const ENTRY_CHARS_MAX: usize = 200;

/// Reports every line that is neither a heading nor an entry of one line.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    wrong.extend(faults(&page).map(|fault| format!("{PAGE}:{fault}")));
    Ok(())
}

fn faults(page: &str) -> impl Iterator<Item = String> + '_ {
    page.lines().enumerate().filter_map(|(index, line)| {
        let fault = fault(line)?;
        Some(format!("{}: {fault}", index + 1))
    })
}

fn fault(line: &str) -> Option<String> {
    let is_entry = line.starts_with("- ");
    let chars = line.chars().count();
    if !is_entry {
        let is_other = line.is_empty() || line.starts_with('#');
        return (!is_other)
            .then(|| "one line for each change, which begins with \"- \"".to_owned());
    }
    if !line.ends_with('.') {
        return Some("an entry ends with a full stop".to_owned());
    }
    (chars > ENTRY_CHARS_MAX)
        .then(|| format!("{chars} characters, {ENTRY_CHARS_MAX} at most: say what a user notices"))
}

#[test]
fn entries_are_short_lines() {
    let long = format!("- {}.", "x".repeat(ENTRY_CHARS_MAX));
    let page = format!("# A\n\n### B\n\n- good.\n- no end\n  continued.\n{long}\n");
    let found: Vec<_> = faults(&page).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("6: an entry ends"));
    assert!(found[1].starts_with("7: one line"));
    assert!(found[2].starts_with("8: 203 characters"));
}
