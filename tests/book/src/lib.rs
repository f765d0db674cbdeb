//! Builds the book of the documentation with mdBook, and checks the links of the rendered pages.

mod links;
mod warnings;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use mdbook_driver::MDBook;

/// Builds the book in `folder`, which has a `book.toml` and the pages.
///
/// # Errors
/// mdBook's errors and warnings, such as those about missing pages, and every link of the rendered
/// pages that leads nowhere.
pub fn build(folder: &Path) -> Result<()> {
    let (built, warnings) = warnings::of(|| {
        let book = MDBook::load(folder)?;
        book.build()?;
        Ok(book.build_dir_for("html"))
    });
    let pages = built.with_context(|| format!("the book in {}", folder.display()))?;
    let mut faults: Vec<String> = warnings.lines().map(|line| format!("mdBook: {line}")).collect();
    faults.extend(links::broken(&pages)?.iter().map(|link| format!("leads nowhere: {link}")));
    ensure!(faults.is_empty(), "the book has faults:\n{}", faults.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is wrong with a book of these pages.
    fn faults(pages: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("book.toml"), "[build]\ncreate-missing = false\n").unwrap();
        for (name, text) in pages {
            fs::write(folder.path().join("src").join(name), text).unwrap();
        }
        build(folder.path()).err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn a_book_is_built_only_if_its_pages_and_links_are_there() {
        let summary = ("SUMMARY.md", "- [A](a.md)\n- [B](b.md)\n");
        let b = ("b.md", "# B\n");
        assert_eq!(faults(&[summary, ("a.md", "# A\n[b](b.md#b)\n"), b]), "");
        let found = faults(&[summary, ("a.md", "# A\n[b](b.md#c)\n"), b]);
        assert!(found.contains("a.html: b.html#c"), "{found}");
        let found = faults(&[summary, b]);
        assert!(found.contains("a.md"), "{found}");
        let found = faults(&[summary, ("a.md", "# A\n<p>open\n\n[^1]\n\n[^1]: x\n\n[^1]: y\n"), b]);
        assert!(found.contains("mdBook:") && found.contains("a.md"), "{found}");
    }
}
