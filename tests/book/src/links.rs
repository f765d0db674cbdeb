//! The links of rendered pages: each leads to a file of the book, and to an id on its page.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer,
};
use percent_encoding::percent_decode_str;

/// The parts of a rendered page that matter for links.
#[derive(Debug, Default)]
struct Page {
    ids: HashSet<String>,
    links: Vec<String>,
    /// Whether the links start at the root of the book, instead of at the page.
    from_root: bool,
}

impl Page {
    fn read(html: &str) -> Self {
        let tokenizer = Tokenizer::new(Reader::default(), Default::default());
        let input = BufferQueue::default();
        input.push_back(StrTendril::from(html));
        // It stops for scripts that the reader wants to run. This one runs none.
        let _ = tokenizer.feed(&input);
        assert!(input.is_empty(), "the whole page is read");
        tokenizer.end();
        tokenizer.sink.page.into_inner()
    }

    fn add(&mut self, tag: &Tag) {
        for attribute in &tag.attrs {
            let value = attribute.value.to_string();
            match (&*tag.name, &*attribute.name.local) {
                (_, "id") | ("a", "name") => _ = self.ids.insert(value),
                ("base", "href") => self.from_root = true,
                (_, "href" | "src") => self.links.push(value),
                _ => {}
            }
        }
    }
}

/// Collects a page's parts from its tags.
#[derive(Default)]
struct Reader {
    page: RefCell<Page>,
}

impl TokenSink for Reader {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        if tag.kind == TagKind::EndTag {
            return TokenSinkResult::Continue;
        }
        self.page.borrow_mut().add(&tag);
        match &*tag.name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" => TokenSinkResult::RawData(RawKind::Rawtext),
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::Continue,
        }
    }
}

/// The links of all pages in `folder` that lead nowhere, each with its page. Links out of the book
/// are not followed.
pub(crate) fn broken(folder: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "html") {
                let html = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                pages.insert(path.strip_prefix(folder)?.to_owned(), Page::read(&html));
            }
        }
    }
    let exists = |file: &Path| folder.join(file).is_file();
    let faults = |(name, page): (&PathBuf, &Page)| {
        let broken =
            page.links.iter().filter(|link| !leads_somewhere(name, page, link, &pages, exists));
        broken.map(|link| format!("{}: {link}", name.display())).collect::<Vec<_>>()
    };
    Ok(pages.iter().flat_map(faults).collect())
}

fn leads_somewhere(
    name: &Path,
    page: &Page,
    link: &str,
    pages: &BTreeMap<PathBuf, Page>,
    exists: impl Fn(&Path) -> bool,
) -> bool {
    if ["http:", "https:", "mailto:", "data:"].iter().any(|scheme| link.starts_with(scheme)) {
        return true;
    }
    let (path, id) = link.split_once('#').unwrap_or((link, ""));
    let Some(to) = target(if page.from_root { Path::new("") } else { name }, path) else {
        return false;
    };
    let to = if to.as_os_str().is_empty() { name.to_owned() } else { to };
    // `#` alone is the top of the page.
    match pages.get(&to) {
        Some(page) => id.is_empty() || page.ids.contains(&decoded(id)),
        None => exists(&to),
    }
}

/// The file of a link on the page `from`, if it is in the book.
fn target(from: &Path, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return Some(from.to_owned());
    }
    let mut to = from.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(&decoded(path)).components() {
        match part {
            Component::ParentDir => to.pop().then_some(())?,
            Component::Normal(part) => to.push(part),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(to)
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[test]
fn ids_and_links_are_read_from_tags_only() {
    let page = Page::read(
        "<!DOCTYPE html><title><a href=no></title><script>\"<a href=no>\"</script>\
         <!-- <a href=no> --><h1 id='x&amp;y'>X</h1><a name=z href='a.html?b=1&amp;c#d'>a</a>\
         <img src=\"p.svg\">",
    );
    assert_eq!(page.ids, HashSet::from(["x&y".to_owned(), "z".to_owned()]));
    assert_eq!(page.links, ["a.html?b=1&c#d", "p.svg"]);
    assert!(!page.from_root && Page::read("<base href=/>").from_root);
}

#[test]
fn links_that_lead_nowhere_are_named_with_their_page() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("in")).unwrap();
    write("a.html", "<p id=é><a href=in/b.html#y><a href=#%C3%A9><a href=#><a href=https://x>");
    write("in/b.html", "<p id=y><a href=../a.html#x><a href=../../a.html><a href=/a.html>");
    write("404.html", "<base href=/><a href=in/b.html><a href=b.html><img src=p.svg>");
    write("p.svg", "");
    let found = broken(folder.path()).unwrap();
    let expected = [
        "404.html: b.html",
        "in/b.html: ../a.html#x",
        "in/b.html: ../../a.html",
        "in/b.html: /a.html",
    ];
    assert_eq!(found, expected);
}
