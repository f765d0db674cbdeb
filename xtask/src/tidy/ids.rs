//! Ids: every requirement and property that a file cites is defined on a page, and every cited page
//! and section exists.
//!
//! An id is defined by an anchor below `docs/protocol`: `<a id="wat-14"></a>` defines WAT-14. A
//! source cites a page as `` `quorum-election.md` part II `` or `` `client-protocol.md` §15 and §16
//! ``; a page below `docs/protocol` needs no path.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::pages::Pages;

/// The directory that defines ids, and that contains pages cited without a path.
const PROTOCOL: &str = "docs/protocol";

/// Prefixes that look like ids but are none.
const NOT_IDS: [&str; 5] = ["CESU", "CRC", "SHA", "SSH", "UTF"];

/// Checks ids and, in files other than Markdown, citations of pages.
pub(crate) fn check(root: &Path, files: &[PathBuf], pages: &Pages, wrong: &mut Vec<String>) {
    let defined = defined(pages);
    for file in files {
        // A binary file cites nothing.
        let Ok(text) = fs::read_to_string(file) else { continue };
        let name = file.strip_prefix(root).unwrap_or(file).display();
        for (index, line) in text.lines().enumerate() {
            for id in ids(line).filter(|id| !defined.contains(*id)) {
                wrong.push(format!(
                    "{name}:{}: {id}: no page of {PROTOCOL} defines it; if it is no id, say so in NOT_IDS",
                    index + 1
                ));
            }
        }
        if file.extension().is_none_or(|end| end != "md") {
            let faults =
                citations(&text).into_iter().filter_map(|cited| fault(&cited, root, pages));
            wrong.extend(faults.map(|fault| format!("{name}: {fault}")));
        }
    }
}

fn defined(pages: &Pages) -> BTreeSet<String> {
    let mut defined = BTreeSet::new();
    for page in pages.iter().filter(|(name, _)| name.starts_with(PROTOCOL)).map(|(_, page)| page) {
        let ids = page.anchors.iter().map(|anchor| anchor.to_uppercase());
        defined.extend(ids.filter(|anchor| ids_only(anchor)));
    }
    defined
}

fn ids_only(text: &str) -> bool {
    ids(text).next() == Some(text)
}

/// Texts in the form of an id: up to four capital letters, a hyphen, up to three digits.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').filter(|word| {
        word.split_once('-').is_some_and(|(area, number)| {
            (1..=4).contains(&area.len())
                && area.bytes().all(|byte| byte.is_ascii_uppercase())
                && (1..=3).contains(&number.len())
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && !NOT_IDS.contains(&area)
        })
    })
}

/// A page that a source cites, with the cited sections.
#[derive(Debug, PartialEq, Eq)]
struct Citation {
    page: String,
    sections: Vec<String>,
}

fn citations(text: &str) -> Vec<Citation> {
    let text = unbroken(text);
    let parts: Vec<&str> = text.split('`').collect();
    let mut found = Vec::new();
    for (index, page) in parts.iter().enumerate() {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if page.len() > 3 && page.ends_with(".md") && page.chars().all(is_path) {
            let behind = parts.get(index + 1).copied().unwrap_or_default();
            found.push(Citation { page: (*page).to_owned(), sections: sections(behind) });
        }
    }
    found
}

/// Joins comments on several lines into one line.
fn unbroken(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.trim_start();
        let marks = ["//!", "///", "//", "#"];
        marks.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line).trim()
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// The sections at the beginning of the text after a page: `§2, §4 and §6.2`, `part II`.
fn sections(behind: &str) -> Vec<String> {
    let mut sections = Vec::new();
    let mut words = behind.split([' ', ',']).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        if let Some(number) = word.strip_prefix('§') {
            let end =
                number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
            sections.push(number[..end].trim_end_matches('.').to_owned());
        } else if let ("part", Some(number)) = (word, words.peek()) {
            let number = number.trim_end_matches(|c: char| !c.is_ascii_uppercase());
            sections.push(format!("Part {number}"));
            words.next();
        } else if !["and", "to"].contains(&word) {
            break;
        }
    }
    sections
}

fn fault(cited: &Citation, root: &Path, pages: &Pages) -> Option<String> {
    let places = [PathBuf::from(&cited.page), Path::new(PROTOCOL).join(&cited.page)];
    let Some(page) = places.iter().find_map(|place| pages.get(place)) else {
        return (!root.join(&cited.page).exists())
            .then(|| format!("cites {}, which is not there", cited.page));
    };
    let missing = cited.sections.iter().find(|section| !page.has_section(section))?;
    Some(format!("cites {} §{missing}, which is not there", cited.page))
}

#[test]
fn ids_are_told_from_other_words() {
    let text = "WAT-14, S-1 UTF-8 ISO-8859-1 ZOOKEEPER-1549 a-1 X-1234 (B-27): CVE-2017-1 R-1..3";
    assert_eq!(ids(text).collect::<Vec<_>>(), ["WAT-14", "S-1", "B-27", "R-1"]);
}

#[test]
fn citations_have_their_sections_over_lines() {
    let text = "//! `quorum-sync-broadcast.md` §2, §4,\n//! §6.2 and §7, `Learner`; `quorum-election.md` part II, and §9.\n";
    let found = citations(text);
    let cited = |page: &str, sections: &[&str]| Citation {
        page: page.to_owned(),
        sections: sections.iter().map(|&section| section.to_owned()).collect(),
    };
    let wanted = [
        cited("quorum-sync-broadcast.md", &["2", "4", "6.2", "7"]),
        cited("quorum-election.md", &["Part II", "9"]),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn what_is_not_defined_is_named() {
    use super::markdown::Page;
    let pages = Pages::from([(
        Path::new(PROTOCOL).join("a.md"),
        Page::read("## 1. One\n<a id=\"s-1\"></a>S-1\n"),
    )]);
    assert_eq!(defined(&pages), BTreeSet::from(["S-1".to_owned()]));
    let cited = |page: &str, section: &str| Citation {
        page: page.to_owned(),
        sections: vec![section.to_owned()],
    };
    let root = Path::new("/nowhere");
    assert_eq!(fault(&cited("a.md", "1"), root, &pages), None);
    assert!(fault(&cited("a.md", "2"), root, &pages).unwrap().contains("§2"));
    assert!(fault(&cited("b.md", "1"), root, &pages).is_some());
}
