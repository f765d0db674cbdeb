//! Bytes that the protocol's pages quote are bytes that were recorded.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The page that quotes recordings, and the directory of the recordings.
const PAGE: &str = "docs/protocol/quorum-sequences.md";
const CAPTURES: &str = "tests/fixtures/quorum-captures";

/// Shorter runs of digits are not checked.
const DIGITS_MIN: usize = 16;

/// Reports every quoted byte sequence that no recording contains.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) -> Result<()> {
    let mut recorded = String::new();
    for entry in fs::read_dir(root.join(CAPTURES)).context(CAPTURES)? {
        recorded.push_str(&fs::read_to_string(entry?.path())?);
    }
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    wrong.extend(
        not_recorded(&page, &recorded).map(|bytes| format!("{PAGE}: not recorded: {bytes}")),
    );
    Ok(())
}

fn not_recorded<'a>(page: &'a str, recorded: &'a str) -> impl Iterator<Item = String> + 'a {
    let quoted = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).flat_map(runs);
    quoted.filter(|run| run.len() >= DIGITS_MIN && !recorded.contains(run))
}

/// The runs of hexadecimal digits in a quotation, without blanks. `...` and `<cfg>` mark omissions.
fn runs(quoted: &str) -> Vec<String> {
    let mut runs = vec![String::new()];
    let mut is_left_out = false;
    for c in quoted.chars() {
        is_left_out = (is_left_out || c == '<') && c != '>';
        match (c, runs.last_mut()) {
            ('0'..='9' | 'a'..='f', Some(run)) if !is_left_out => run.push(c),
            (' ', _) if !is_left_out => {}
            _ => runs.push(String::new()),
        }
    }
    runs
}

#[test]
fn quoted_bytes_are_compared_without_what_is_left_out() {
    let recorded = "# COMMIT\n00000004000000010000000100aa\n";
    let page = "`00000004 00000001 <cfg> 00000001 ...` and `00000004 00000001 00000001`\n\
                text 1111111122222222 and `11111111 22222222`\n";
    assert_eq!(not_recorded(page, recorded).collect::<Vec<_>>(), ["1111111122222222"]);
}
