//! Completions of the word that is being typed.

use crate::command::{self, COMMANDS};
use crate::words;

/// The kinds of completions at the end of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// One of these words.
    Words(Vec<String>),
    /// A child of `parent` whose name begins with `prefix`.
    Znode { parent: String, prefix: String },
}

/// The position of the last word in a line, without its quote, and its possible completions.
pub(crate) fn wanted(line: &str) -> (usize, Wanted) {
    let (start, is_quoted) = last_word(line);
    let word = &line[start..];
    let before = words::split(&line[..start - usize::from(is_quoted)]);
    let Some(spec) = before.first().map(|name| command::find(name)) else {
        return (start, Wanted::Words(matching(COMMANDS.iter().map(|spec| spec.name), word)));
    };
    let last = before.last().map_or("", String::as_str);
    let words: Vec<&'static str> = match before[0].as_str() {
        "help" => COMMANDS.iter().map(|spec| spec.name).collect(),
        "printwatches" => vec!["on", "off"],
        "addWatch" if last == "-m" => vec!["PERSISTENT", "PERSISTENT_RECURSIVE"],
        "addauth" if before.len() == 1 => vec!["digest"],
        _ => Vec::new(),
    };
    if !words.is_empty() {
        return (start, Wanted::Words(matching(words, word)));
    }
    if word.starts_with('/') {
        let (parent, prefix) = word.rsplit_once('/').unwrap_or_default();
        let parent = if parent.is_empty() { "/" } else { parent };
        return (start, Wanted::Znode { parent: parent.to_owned(), prefix: prefix.to_owned() });
    }
    let options = spec.map(|spec| spec.options).unwrap_or_default();
    let options = options.iter().map(|option| format!("-{}", option.name));
    let options = options.chain(["--json".to_owned()]);
    let found = if word.starts_with('-') {
        options.filter(|option| option.starts_with(word)).collect()
    } else {
        Vec::new()
    };
    (start, Wanted::Words(found))
}

fn matching<'a>(words: impl IntoIterator<Item = &'a str>, prefix: &str) -> Vec<String> {
    words.into_iter().filter(|word| word.starts_with(prefix)).map(str::to_owned).collect()
}

/// The position of the last word, after its open quote if it has one.
fn last_word(line: &str) -> (usize, bool) {
    let mut start = 0;
    let mut open = None;
    let mut is_inside = false;
    for (at, c) in line.char_indices() {
        match open {
            Some(quote) if c == quote => (open, is_inside, start) = (None, false, at + 1),
            Some(_) => {}
            None if c.is_ascii_whitespace() => (is_inside, start) = (false, at + 1),
            None if !is_inside && matches!(c, '"' | '\'') => (open, start) = (Some(c), at + 1),
            None => is_inside = true,
        }
    }
    (start, open.is_some())
}

/// The text that replaces a word completed to this path. Closes an open quote.
pub(crate) fn replacement(path: &str, is_quoted: bool) -> String {
    if is_quoted { path.to_owned() } else { words::quote(path) }
}

/// Whether the last word of a line is in an open quote.
pub(crate) fn is_quoted(line: &str) -> bool {
    last_word(line).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions(line: &str) -> Vec<String> {
        match wanted(line).1 {
            Wanted::Words(words) => words,
            Wanted::Znode { parent, prefix } => vec![parent, prefix],
        }
    }

    #[test]
    fn commands_come_first() {
        assert_eq!(completions("get"), ["get", "getAcl", "getAllChildrenNumber", "getEphemerals"]);
        assert_eq!(completions("  quit"), ["quit"]);
        assert_eq!(completions("help getA"), ["getAcl", "getAllChildrenNumber"]);
        assert_eq!(completions("").len(), COMMANDS.len());
    }

    #[test]
    fn paths_are_split_into_parent_and_prefix() {
        assert_eq!(wanted("ls /").0, 3);
        assert_eq!(completions("ls /"), ["/", ""]);
        assert_eq!(completions("get -s /app/con"), ["/app", "con"]);
        assert_eq!(completions("get \"/with sp"), ["/", "with sp"]);
        assert_eq!(wanted("get \"/with sp").0, 5);
        assert_eq!(completions("set /a x /"), ["/", ""]);
    }

    #[test]
    fn options_are_those_of_the_command() {
        assert_eq!(completions("stat -"), ["-w", "--json"]);
        assert_eq!(completions("addWatch -m P"), ["PERSISTENT", "PERSISTENT_RECURSIVE"]);
        assert_eq!(completions("printwatches o"), ["on", "off"]);
        assert!(completions("nonsense x").is_empty());
    }

    #[test]
    fn names_with_blanks_are_quoted() {
        assert_eq!(replacement("/with space", false), "\"/with space\"");
        assert_eq!(replacement("/with space", true), "/with space");
        assert!(is_quoted("get \"/with") && !is_quoted("get /with"));
    }
}
