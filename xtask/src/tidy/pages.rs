//! Pages: every relative link of every Markdown file leads somewhere, and the book's summary lists
//! every page.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use super::markdown::Page;

/// The table of contents of the book.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// All Markdown files, by their path in the repository.
pub(crate) type Pages = BTreeMap<PathBuf, Page>;

pub(crate) fn read(root: &Path, files: &[PathBuf]) -> Result<Pages> {
    let mut pages = Pages::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        pages.insert(file.strip_prefix(root).unwrap_or(file).to_owned(), Page::read(&text));
    }
    Ok(pages)
}

/// Reports every broken link, and every page that is missing in the book.
pub(crate) fn check(root: &Path, pages: &Pages, wrong: &mut Vec<String>) {
    for (name, page) in pages {
        for (line, link) in &page.links {
            if let Some(fault) = link_fault(root, pages, name, link) {
                wrong.push(format!("{}:{line}: link {link}: {fault}", name.display()));
            }
        }
    }
    let listed = listed(pages);
    for name in pages.keys().filter(|name| name.starts_with("docs")) {
        let times = listed.iter().filter(|page| *page == name).count();
        if times != 1 && name != Path::new(SUMMARY) {
            wrong.push(format!("{}: {SUMMARY} lists it {times} times, not once", name.display()));
        }
    }
}

/// The pages of the book, in order.
pub(crate) fn listed(pages: &Pages) -> Vec<PathBuf> {
    let Some(summary) = pages.get(Path::new(SUMMARY)) else { return Vec::new() };
    summary.links.iter().map(|(_, link)| target(Path::new(SUMMARY), link).0).collect()
}

/// The target of a link on a page: a path in the repository, and an anchor.
pub(crate) fn target<'a>(from: &Path, link: &'a str) -> (PathBuf, Option<&'a str>) {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    if path.is_empty() {
        return (from.to_owned(), anchor);
    }
    let mut to = from.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(path).components() {
        match part {
            // There is no file above the root, so the target is not found.
            Component::ParentDir if !to.pop() => to.push(".."),
            Component::ParentDir | Component::CurDir => {}
            other => to.push(other),
        }
    }
    (to, anchor)
}

/// Whether a link leaves the repository. Such links are not checked.
pub(crate) fn is_outside(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

fn link_fault(root: &Path, pages: &Pages, from: &Path, link: &str) -> Option<&'static str> {
    if is_outside(link) {
        return None;
    }
    let (path, anchor) = target(from, link);
    match (pages.get(&path), anchor) {
        (Some(page), Some(anchor)) if !page.anchors.iter().any(|known| known == anchor) => {
            Some("the page has no such heading or anchor")
        }
        (None, _) if !root.join(&path).exists() => Some("there is no such file"),
        _ => None,
    }
}

#[test]
fn links_are_taken_from_their_page() {
    let page = Path::new("docs/protocol/README.md");
    assert_eq!(target(page, "../a.md#b"), (PathBuf::from("docs/a.md"), Some("b")));
    assert_eq!(target(page, "#b"), (page.to_owned(), Some("b")));
    assert_eq!(target(Path::new("a.md"), "../b").0, PathBuf::from("../b"));
}

#[test]
fn links_that_lead_nowhere_and_pages_without_a_place_are_named() {
    let page = |text: &str| Page::read(text);
    let pages = Pages::from([
        (PathBuf::from(SUMMARY), page("- [a](a.md)\n")),
        (PathBuf::from("docs/a.md"), page("# A\n[x](b.md#b) [y](b.md#c) [z](https://x)\n")),
        (PathBuf::from("docs/b.md"), page("# B\n[gone](gone.md)\n")),
    ]);
    let mut wrong = Vec::new();
    check(Path::new("/nowhere"), &pages, &mut wrong);
    let starts =
        ["docs/a.md:2: link b.md#c", "docs/b.md:2: link gone.md", "docs/b.md: docs/SUMMARY.md"];
    assert_eq!(wrong.len(), starts.len(), "{wrong:?}");
    for (fault, start) in wrong.iter().zip(starts) {
        assert!(fault.starts_with(start), "{fault}");
    }
}
