//! The book: the pages of `docs/SUMMARY.md`, built by mdBook.
//!
//! Pages stay where they are in the repository, some of them outside of `docs`, and link to each
//! other there. So the book is built from a copy of the pages, and of the files they link to, at
//! the same places. What the book cannot have, such as a folder, is linked at the forge.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::steps::{cargo, root, run, target};
use crate::tidy::markdown::Page;
use crate::tidy::pages::{self, SUMMARY};

/// The repository at the forge, where folders can be read, too.
const FORGE: &str = env!("CARGO_PKG_REPOSITORY");

/// Builds the book into `target/book/html`.
pub(crate) fn build() -> Result<()> {
    let book = target().join("book");
    prepare(&book)?;
    let mut command = cargo(&["run", "--quiet", "-p", "zebu-book", "--"]);
    command.arg(&book);
    run(command)?;
    println!("book: {}", book.join("html/index.html").display());
    Ok(())
}

/// Copies what mdBook needs for the book of this repository.
fn prepare(book: &Path) -> Result<()> {
    copy(&root(), &book.join("src"))?;
    fs::copy(root().join("docs/book.toml"), book.join("book.toml"))?;
    Ok(())
}

/// Copies the pages of the book, the files that they link to, and the summary.
fn copy(root: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let summary = root.join(SUMMARY);
    let pages = pages::listed(&pages::read(root, std::slice::from_ref(&summary))?);
    let copied = |file: &Path| -> Result<PathBuf> {
        let copied = to.join(file);
        fs::create_dir_all(copied.parent().context("a file has a folder")?)?;
        Ok(copied)
    };
    for page in &pages {
        let text =
            fs::read_to_string(root.join(page)).with_context(|| page.display().to_string())?;
        let links = Page::read(&text).links;
        fs::write(copied(page)?, with_forge(root, page, &text, &links, &pages))?;
        let linked = links.iter().map(|(_, link)| pages::target(page, link).0);
        for file in linked.filter(|file| !pages.contains(file) && root.join(file).is_file()) {
            fs::copy(root.join(&file), copied(&file)?)?;
        }
    }
    fs::write(to.join("SUMMARY.md"), from_root(&fs::read_to_string(summary)?))?;
    Ok(())
}

/// The page with links to the forge in place of those to folders and to pages that are not in the
/// book.
fn with_forge(
    root: &Path,
    page: &Path,
    text: &str,
    links: &[(usize, String)],
    pages: &[PathBuf],
) -> String {
    let mut text = text.to_owned();
    for (_, link) in links.iter().filter(|(_, link)| !pages::is_outside(link)) {
        let (to, _) = pages::target(page, link);
        let is_page = to.extension().is_some_and(|end| end == "md");
        let kind = if root.join(&to).is_dir() { "tree" } else { "blob" };
        if kind == "tree" || is_page && !pages.contains(&to) {
            let there = format!("{FORGE}/{kind}/main/{}", to.display());
            text = text.replace(&format!("]({link})"), &format!("]({there})"));
        }
    }
    text
}

/// The summary with links that start at the root of the repository, where the copy is.
fn from_root(summary: &str) -> String {
    let mut text = String::new();
    for line in summary.lines() {
        match Page::read(line).links.first() {
            Some((_, link)) => {
                let to = pages::target(Path::new(SUMMARY), link).0;
                text += &line.replace(&format!("]({link})"), &format!("]({})", to.display()));
            }
            None => text += line,
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_book_is_built_and_its_links_lead_somewhere() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path()).unwrap();
    zebu_book::build(folder.path()).unwrap();
    assert!(folder.path().join("html/index.html").is_file());
}

#[test]
fn pages_and_what_they_link_to_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(SUMMARY, "- [a](a/b.md)\n- [c](../C.md)\n");
    write(
        "docs/a/b.md",
        "![plot](../plot.svg) [code](../../code.rs) [folder](..) [far](https://x) [c](../../C.md) [d](../D.md)\n",
    );
    write("C.md", "# C\n");
    write("docs/plot.svg", "");
    write("docs/D.md", "# D\n");
    write("code.rs", "");
    write("other.rs", "");
    let to = folder.path().join("copy");
    copy(&folder.path().join("root"), &to).unwrap();
    for name in ["docs/a/b.md", "C.md", "docs/plot.svg", "code.rs"] {
        assert!(to.join(name).is_file(), "{name}");
    }
    assert!(!to.join("other.rs").exists());
    let page = fs::read_to_string(to.join("docs/a/b.md")).unwrap();
    let expected = format!(
        "![plot](../plot.svg) [code](../../code.rs) [folder]({FORGE}/tree/main/docs) [far](https://x) \
         [c](../../C.md) [d]({FORGE}/blob/main/docs/D.md)\n"
    );
    assert_eq!(page, expected);
    let summary = fs::read_to_string(to.join("SUMMARY.md")).unwrap();
    assert_eq!(summary, "- [a](docs/a/b.md)\n- [c](C.md)\n");
}
