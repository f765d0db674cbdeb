//! The headings, anchors and links of a Markdown page. No rendering.

use std::collections::BTreeMap;

/// The parts of a page that matter for links.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Headings in order, as plain text.
    pub(crate) headings: Vec<String>,
    /// The anchors that a link may name after `#`: headings in the spelling of the forge and of
    /// mdBook, and `<a id="...">`.
    pub(crate) anchors: Vec<String>,
    /// The targets of links, each with its line number.
    pub(crate) links: Vec<(usize, String)>,
}

impl Page {
    pub(crate) fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut slugs = BTreeMap::<String, usize>::new();
        let mut in_code = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
                continue;
            }
            if in_code {
                continue;
            }
            if let Some(heading) = heading(line) {
                let slug = slug(&heading);
                let count = slugs.entry(slug.clone()).or_default();
                page.anchors.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
                *count += 1;
                page.headings.push(heading);
            }
            let line = without_code(line);
            page.anchors.extend(between(&line, "<a id=\"", "\"").map(str::to_owned));
            page.links.extend(between(&line, "](", ")").map(|to| (index + 1, to.to_owned())));
        }
        page
    }

    /// Whether a heading has this number, such as `4.3`, or begins with these words, such as `Part
    /// II`.
    pub(crate) fn has_section(&self, number: &str) -> bool {
        self.headings.iter().any(|heading| {
            heading.strip_prefix(number).is_some_and(|rest| {
                let rest = rest.strip_prefix('.').unwrap_or(rest);
                rest.is_empty() || rest.starts_with(' ')
            })
        })
    }
}

/// The text of a heading, without its marks, its markup and its code.
fn heading(line: &str) -> Option<String> {
    let text = line.trim_start_matches('#');
    if text.len() == line.len() || !text.starts_with(' ') {
        return None;
    }
    let mut plain = String::new();
    let mut in_tag = false;
    for c in text.trim().chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => in_tag = false,
            '`' => {}
            _ if !in_tag => plain.push(c),
            _ => {}
        }
    }
    Some(plain)
}

fn slug(heading: &str) -> String {
    let keep = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ => c.is_alphanumeric().then_some(c),
    };
    heading.to_lowercase().chars().filter_map(keep).collect()
}

/// The line with blanks in place of `code`.
fn without_code(line: &str) -> String {
    let mut in_code = false;
    line.chars()
        .map(|c| {
            in_code ^= c == '`';
            if in_code || c == '`' { ' ' } else { c }
        })
        .collect()
}

/// All texts between `start` and the next `end`.
fn between<'a>(line: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    line.split(start).skip(1).filter_map(move |rest| rest.split_once(end)).map(|(inner, _)| inner)
}

#[test]
fn headings_become_anchors_and_sections() {
    let page =
        Page::read("# A\n\n## 4.3 NEWLEADER: `x`\n## Part II. Votes\n## A\n```text\n# no\n```\n");
    assert_eq!(page.anchors, ["a", "43-newleader-x", "part-ii-votes", "a-1"]);
    assert!(page.has_section("4.3") && page.has_section("Part II"));
    assert!(!page.has_section("4") && !page.has_section("Part I"));
}

#[test]
fn links_and_named_anchors_are_found() {
    let page = Page::read("| <a id=\"s-1\"></a>S-1 | [a](b.md#c), [d](e) |\n`[no](link)`\n");
    assert_eq!(page.anchors, ["s-1"]);
    assert_eq!(page.links, [(1, "b.md#c".to_owned()), (1, "e".to_owned())]);
}
