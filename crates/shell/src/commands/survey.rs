//! Commands for whole subtrees: `tree`, `du`, `find` and `grep`.

use regex::{Regex, RegexBuilder};
use serde_json::json;
use zebu_client::Stat;

use super::Context;
use super::znodes::{is_ephemeral, object};
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::output::Style;
use crate::progress::Progress;
use crate::render;
use crate::walk::{Found, Unread, Walk, Want};

/// Counts znodes that could not be read. Each is reported in a line, and the walk continues. The
/// remedy is printed once, at the end.
#[derive(Default)]
struct Unreadable(usize);

impl Unreadable {
    /// Returns the znode; `None` if it could not be read.
    fn check(&mut self, cx: &Context, found: Result<Found, Unread>) -> Result<Option<Found>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(unread) if unread.depth == 0 => Err(unread.error.into()),
            Err(unread) => {
                self.0 += 1;
                cx.out.fail(&Failure::from(unread.error).without_hint());
                Ok(None)
            }
        }
    }

    fn end(&self) -> Result {
        match self.0 {
            0 => Ok(()),
            count => Err(Failure::new(format!("{count} znodes could not be read"))
                .hint("authenticate with addauth; getAcl shows the permissions")),
        }
    }
}

fn data_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.data_length).unwrap_or(0)
}

// `tree`.

pub(super) async fn tree(cx: &Context, args: &Arguments) -> Result {
    let root = args.try_word(0).unwrap_or("/");
    let depth = args.number("d")?.unwrap_or(u32::MAX);
    let mut unreadable = Unreadable::default();
    let (mut znodes, mut bytes) = (0_u64, 0);
    // For each level, the number of siblings that follow.
    let mut to_come: Vec<usize> = Vec::new();
    let mut walk = Walk::new(&cx.client, root, Want::default(), depth);
    while let Some(found) = walk.next().await {
        let level = match &found {
            Ok(found) => found.depth as usize,
            Err(unread) => unread.depth as usize,
        };
        to_come.truncate(level);
        if let Some(siblings) = to_come.last_mut() {
            *siblings = siblings.saturating_sub(1);
        }
        let Some(found) = unreadable.check(cx, found)? else { continue };
        let json = || {
            let mut object = object(&found.path);
            object.insert("depth".to_owned(), found.depth.into());
            object.insert("stat".to_owned(), render::stat_json(&found.stat));
            object.into()
        };
        cx.out.emit(|| drawn(cx, args, &found, &to_come), json)?;
        znodes += 1;
        bytes += data_bytes(&found.stat);
        if found.depth < depth {
            to_come.push(found.children.len());
        }
    }
    let sum = format!("\n{znodes} znodes, {}", render::bytes(bytes));
    cx.out.text_only(&cx.out.paint(Style::Dim, &sum))?;
    unreadable.end()
}

/// One line of the tree.
fn drawn(cx: &Context, args: &Arguments, found: &Found, to_come: &[usize]) -> String {
    let mut lines = String::new();
    for (level, siblings) in to_come.iter().enumerate() {
        lines.push_str(match (level + 1 == to_come.len(), *siblings) {
            (true, 0) => "└── ",
            (true, _) => "├── ",
            (false, 0) => "    ",
            (false, _) => "│   ",
        });
    }
    let name = match found.path.rsplit_once('/') {
        Some((_, name)) if found.depth > 0 => name,
        _ => &found.path,
    };
    let (name, mark) = if is_ephemeral(&found.stat) {
        (cx.out.paint(Style::Ephemeral, name), " (ephemeral)")
    } else if found.children.is_empty() {
        (name.to_owned(), "")
    } else {
        (cx.out.paint(Style::Path, name), "")
    };
    let mut line = format!("{}{name}{mark}", cx.out.paint(Style::Dim, &lines));
    if args.has("s") {
        let size = format!(" [{}]", render::bytes(data_bytes(&found.stat)));
        line.push_str(&cx.out.paint(Style::Dim, &size));
    }
    line
}

// `du`.

/// The sizes of a subtree.
struct Measured {
    path: String,
    bytes: u64,
    znodes: u64,
}

pub(super) async fn du(cx: &Context, args: &Arguments) -> Result {
    let root = args.try_word(0).unwrap_or("/");
    let depth = if args.has("s") { 0 } else { args.number("d")?.unwrap_or(1_u32) };
    let mut measured: Vec<Measured> = Vec::new();
    // The subtrees that the walk is in, as indices into the list. One for each level shown.
    let mut inside: Vec<usize> = Vec::new();
    let mut unreadable = Unreadable::default();
    let progress = Progress::counting(&cx.out, "measuring");
    let mut walk = Walk::new(&cx.client, root, Want::default(), u32::MAX);
    while let Some(found) = walk.next().await {
        let Some(found) = unreadable.check(cx, found)? else { continue };
        inside.truncate(found.depth as usize);
        if found.depth <= depth {
            inside.push(measured.len());
            measured.push(Measured { path: found.path.clone(), bytes: 0, znodes: 0 });
        }
        for place in &inside {
            measured[*place].bytes += data_bytes(&found.stat);
            measured[*place].znodes += 1;
        }
        progress.advance(1);
    }
    drop(progress);
    measured.sort_by(|a, b| (b.bytes, b.znodes, &a.path).cmp(&(a.bytes, a.znodes, &b.path)));
    let shown = args.number("n")?.unwrap_or(usize::MAX);
    for Measured { path, bytes, znodes } in measured.iter().take(shown) {
        cx.out.emit(
            || format!("{bytes}\t{znodes}\t{path}"),
            || json!({ "path": path, "bytes": bytes, "znodes": znodes }),
        )?;
    }
    unreadable.end()
}

// `find` and `grep`.

/// Conditions that a znode must meet.
struct Conditions {
    name: Option<Regex>,
    path: Option<Regex>,
    ephemeral: Option<bool>,
    bytes_min: i32,
    empty: bool,
    owner: Option<i64>,
}

impl Conditions {
    fn of(args: &Arguments) -> Result<Self> {
        let ephemeral = match args.value("type") {
            None => None,
            Some("e") => Some(true),
            Some("p") => Some(false),
            Some(other) => return Err(Failure::new(format!("-type must be p or e, not {other}"))),
        };
        let owner = args.value("owner").map(|text| {
            let digits = text.trim_start_matches("0x");
            u64::from_str_radix(digits, 16).map(u64::cast_signed).map_err(|_| {
                Failure::new(format!("-owner is not a session id: {text}"))
                    .hint("such as 0x10000a1b2c30001")
            })
        });
        Ok(Self {
            name: args.value("name").map(|glob| regex(&glob_pattern(glob), false)).transpose()?,
            path: args.value("regex").map(|pattern| regex(pattern, false)).transpose()?,
            ephemeral,
            bytes_min: args.number("minsize")?.unwrap_or(0),
            empty: args.has("empty"),
            owner: owner.transpose()?,
        })
    }

    fn are_met(&self, found: &Found) -> bool {
        let name = found.path.rsplit('/').next().unwrap_or_default();
        let stat = &found.stat;
        self.name.as_ref().is_none_or(|pattern| pattern.is_match(name))
            && self.path.as_ref().is_none_or(|pattern| pattern.is_match(&found.path))
            && self.ephemeral.is_none_or(|wanted| wanted == is_ephemeral(stat))
            && stat.data_length >= self.bytes_min
            && (!self.empty || (stat.data_length == 0 && stat.num_children == 0))
            && self.owner.is_none_or(|owner| owner == stat.ephemeral_owner)
    }
}

fn regex(pattern: &str, ignore_case: bool) -> Result<Regex> {
    let built = RegexBuilder::new(pattern).case_insensitive(ignore_case).build();
    built.map_err(|error| {
        Failure::new(error.to_string()).hint("grep -F searches for the text itself")
    })
}

/// A regular expression for a pattern in which only `*` and `?` are special.
fn glob_pattern(glob: &str) -> String {
    let escaped = regex::escape(glob).replace(r"\*", ".*").replace(r"\?", ".");
    format!("^(?s:{escaped})$")
}

pub(super) async fn find(cx: &Context, args: &Arguments) -> Result {
    let root = args.try_word(0).unwrap_or("/");
    let conditions = Conditions::of(args)?;
    let depth = args.number("d")?.unwrap_or(u32::MAX);
    let mut unreadable = Unreadable::default();
    let mut walk = Walk::new(&cx.client, root, Want::default(), depth);
    while let Some(found) = walk.next().await {
        let Some(found) = unreadable.check(cx, found)? else { continue };
        if conditions.are_met(&found) {
            let json = || json!({ "path": found.path, "stat": render::stat_json(&found.stat) });
            cx.out.emit(|| found.path.clone(), json)?;
        }
    }
    unreadable.end()
}

pub(super) async fn grep(cx: &Context, args: &Arguments) -> Result {
    let pattern = args.word(0);
    let escaped = args.has("F").then(|| regex::escape(pattern));
    let pattern = regex(escaped.as_deref().unwrap_or(pattern), args.has("i"))?;
    let root = args.try_word(1).unwrap_or("/");
    let mut unreadable = Unreadable::default();
    let mut is_found = false;
    let want = Want { data: true, ..Want::default() };
    let mut walk = Walk::new(&cx.client, root, want, u32::MAX);
    while let Some(found) = walk.next().await {
        let Some(found) = unreadable.check(cx, found)? else { continue };
        let data = found.data.as_deref().unwrap_or_default();
        is_found |= matches(cx, args, &found.path, data, &pattern)?;
    }
    unreadable.end()?;
    // As with grep, the exit code alone reports that nothing was found.
    if is_found { Ok(()) } else { Err(Failure::silent()) }
}

/// Shows the matches in one znode's data. Returns whether there are any.
fn matches(
    cx: &Context,
    args: &Arguments,
    path: &str,
    data: &[u8],
    pattern: &Regex,
) -> Result<bool> {
    let text = String::from_utf8_lossy(data);
    let is_binary = std::str::from_utf8(data).is_err() || data.contains(&0);
    let found: Vec<(usize, &str)> =
        (1..).zip(text.lines()).filter(|(_, line)| pattern.is_match(line)).collect();
    if found.is_empty() {
        return Ok(false);
    }
    let shown = cx.out.paint(Style::Path, path);
    if args.has("l") {
        cx.out.emit(|| shown, || object(path).into())?;
    } else if args.has("c") {
        let count = found.len();
        cx.out.emit(|| format!("{shown}:{count}"), || json!({ "path": path, "count": count }))?;
    } else if is_binary {
        let json = || json!({ "path": path, "binary": true });
        cx.out.emit(|| format!("{shown}: binary data match"), json)?;
    } else {
        for (number, line) in found {
            let text = || {
                let line = pattern.replace_all(line, |found: &regex::Captures<'_>| {
                    cx.out.paint(Style::Match, &found[0])
                });
                format!("{shown}:{line}")
            };
            cx.out.emit(text, || json!({ "path": path, "line": number, "text": line }))?;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        let matches =
            |glob: &str, name: &str| regex(&glob_pattern(glob), false).unwrap().is_match(name);
        assert!(matches("job-*", "job-0000000001"));
        assert!(matches("a?c", "abc") && !matches("a?c", "ac"));
        assert!(matches("a.c", "a.c") && !matches("a.c", "abc"));
        assert!(!matches("job", "job-1"));
    }
}
