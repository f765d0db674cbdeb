//! Java `.properties` text, as used by `zoo.cfg` and the dynamic configuration files.
//!
//! This module only knows the syntax. Every entry has its line numbers, for error messages.
//! Source: the class documentation of `java.util.Properties`.

use std::collections::HashMap;

/// The largest file that is parsed, in bytes. A real one has a few hundred.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// One `key = value` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// The key, unescaped.
    pub key: String,
    /// The value, unescaped; blanks at its end are kept, as in the original.
    pub value: String,
    /// The line the entry starts on, counted from 1.
    pub line: u32,
    /// The line it ends on.
    pub last_line: u32,
}

/// A parsed file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// One entry per key, in file order; the last of several with one key.
    pub entries: Vec<Property>,
    /// Entries that a later one with the same key replaced.
    pub replaced: Vec<Property>,
}

/// A text that is not a properties file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertiesError {
    /// `\u` must be followed by four hexadecimal digits.
    #[error("malformed \\uxxxx escape")]
    Escape {
        /// Line of the entry, counted from 1.
        line: u32,
    },
    /// More than [`FILE_BYTES_MAX`].
    #[error("file of {bytes} bytes is larger than {FILE_BYTES_MAX}")]
    TooLarge {
        /// Size found.
        bytes: usize,
    },
}

impl PropertiesError {
    /// The line of the error; 0 for the whole file.
    pub fn line(&self) -> u32 {
        match self {
            Self::Escape { line } => *line,
            Self::TooLarge { .. } => 0,
        }
    }
}

/// Parses a file.
///
/// Bytes that are valid UTF-8 are read as such, others as ISO-8859-1; a byte order mark is dropped.
/// (The original always reads ISO-8859-1.)
///
/// # Errors
/// [`PropertiesError`]: a malformed `\u` escape, or a file that is too large.
pub fn parse(bytes: &[u8]) -> Result<Properties, PropertiesError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(PropertiesError::TooLarge { bytes: bytes.len() });
    }
    let text = decode(bytes);
    let mut found = Properties::default();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for Logical { line, last_line, text } in logical_lines(&text) {
        let property = parse_entry(&text, line, last_line)?;
        if let Some(at) = seen.get(&property.key).copied() {
            found.replaced.push(std::mem::replace(&mut found.entries[at], property));
        } else {
            seen.insert(property.key.clone(), found.entries.len());
            found.entries.push(property);
        }
    }
    Ok(found)
}

/// The text of a file, as [`parse`] reads it.
pub fn decode(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// The lines of a text, ended by `\n`, `\r` or `\r\n`.
pub fn natural_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(['\n', '\r']) {
        lines.push(&rest[..end]);
        let skip = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + skip..];
    }
    lines.push(rest);
    lines
}

/// A line with its continuations joined, and the numbers of its first and last natural line.
struct Logical {
    line: u32,
    last_line: u32,
    text: String,
}

/// Joins continued lines, and skips comments and blank lines.
fn logical_lines(text: &str) -> Vec<Logical> {
    let mut logical = Vec::new();
    let mut lines = (1u32..).zip(natural_lines(text));
    while let Some((number, first)) = lines.next() {
        let mut piece = first.trim_start_matches(is_blank);
        if piece.is_empty() || piece.starts_with(['#', '!']) {
            continue;
        }
        let (line, mut last_line) = (number, number);
        let mut joined = String::new();
        while ends_with_continuation(piece) {
            joined.push_str(&piece[..piece.len() - 1]);
            match lines.next() {
                Some((number, next)) => {
                    last_line = number;
                    piece = next.trim_start_matches(is_blank);
                }
                None => piece = "",
            }
            // No line was to be continued, so this is a separate line.
            if joined.is_empty() && piece.starts_with(['#', '!']) {
                piece = "";
            }
        }
        joined.push_str(piece);
        if !joined.is_empty() {
            logical.push(Logical { line, last_line, text: joined });
        }
    }
    logical
}

/// Whether the number of backslashes at the end is odd: an even number is escaped backslashes.
fn ends_with_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

fn parse_entry(text: &str, line: u32, last_line: u32) -> Result<Property, PropertiesError> {
    let mut escaped = false;
    let key_end = text
        .char_indices()
        .find(|&(_, c)| {
            let ends = !escaped && (c == '=' || c == ':' || is_blank(c));
            escaped = !escaped && c == '\\';
            ends
        })
        .map_or(text.len(), |(at, _)| at);
    let mut rest = text[key_end..].trim_start_matches(is_blank);
    if let Some(after) = rest.strip_prefix(['=', ':']) {
        rest = after.trim_start_matches(is_blank);
    }
    let unescape = |text| unescape(text).ok_or(PropertiesError::Escape { line });
    Ok(Property { key: unescape(&text[..key_end])?, value: unescape(rest)?, line, last_line })
}

/// `None` on a malformed `\u` escape.
fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    // Via UTF-16, because two escapes may form one character.
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let plain = if c != '\\' {
            c
        } else {
            match chars.next() {
                None => break,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        return None;
                    }
                    units.push(u16::from_str_radix(&digits, 16).ok()?);
                    continue;
                }
                Some(other) => other,
            }
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str, u32)]) {
        let found = parse(text.as_bytes()).unwrap();
        let found: Vec<_> =
            found.entries.iter().map(|p| (p.key.as_str(), p.value.as_str(), p.line)).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn separators_are_equals_colon_and_blanks() {
        check(
            "a=1\nb:2\nc 3\nd\t=\t4\n  e : 5\nf",
            &[
                ("a", "1", 1),
                ("b", "2", 2),
                ("c", "3", 3),
                ("d", "4", 4),
                ("e", "5", 5),
                ("f", "", 6),
            ],
        );
        check("a==1\nb=:2\nc = = 3", &[("a", "=1", 1), ("b", ":2", 2), ("c", "= 3", 3)]);
        check("server.1=h:2888:3888;2181", &[("server.1", "h:2888:3888;2181", 1)]);
    }

    #[test]
    fn comments_and_blank_lines_are_skipped_but_counted() {
        check("# a=1\n\n  ! b=2\n \t\nc=3 # no comment here", &[("c", "3 # no comment here", 5)]);
    }

    #[test]
    fn blanks_at_the_end_belong_to_the_value() {
        check("a = 1  \n", &[("a", "1  ", 1)]);
    }

    #[test]
    fn all_line_ends_count_once() {
        check(
            "a=1\r\nb=2\rc=3\nd=4",
            &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3), ("d", "4", 4)],
        );
    }

    #[test]
    fn a_backslash_at_the_end_continues_the_line() {
        check("a=1,\\\n   2,\\\r\n\t3\nb=4", &[("a", "1,2,3", 1), ("b", "4", 4)]);
        check("a=1\\\\\nb=2", &[("a", "1\\", 1), ("b", "2", 2)]);
        check("a=1\\\n# still the value\nb=2", &[("a", "1# still the value", 1), ("b", "2", 3)]);
        check("# comment \\\na=1", &[("a", "1", 2)]);
        check("a=1\\\n\nb=2", &[("a", "1", 1), ("b", "2", 3)]);
        check("a=1\\", &[("a", "1", 1)]);
        check("\\\n\\\na=1", &[("a", "1", 1)]);
        check("\\\n# comment \\\na=1", &[("a", "1", 3)]);
        let lines = |text: &[u8]| {
            let found = parse(text).unwrap();
            found.entries.iter().map(|p| (p.line, p.last_line)).collect::<Vec<_>>()
        };
        assert_eq!(lines(b"a=1\nb=1,\\\n  2,\\\n  3\nc=1\\"), [(1, 1), (2, 4), (5, 5)]);
    }

    #[test]
    fn escapes_are_taken_out_of_keys_and_values() {
        check(r"a\=b\:c\ d=\t\n\r\f\q\\", &[("a=b:c d", "\t\n\r\u{c}q\\", 1)]);
        check(r"a=\u00e9\u20AC\ud83d\ude00", &[("a", "\u{e9}\u{20ac}\u{1f600}", 1)]);
        check(r"path=c:\\data", &[("path", r"c:\data", 1)]);
    }

    #[test]
    fn a_malformed_escape_names_its_line() {
        for text in ["a=1\nb=\\u12", "a=1\nb=\\u12g4", "a=1\nb=\\u+123"] {
            assert_eq!(
                parse(text.as_bytes()),
                Err(PropertiesError::Escape { line: 2 }),
                "{text:?}"
            );
        }
    }

    #[test]
    fn the_last_of_several_wins_and_the_others_are_kept_apart() {
        let found = parse(b"a=1\nb=2\na=3\na=4").unwrap();
        assert_eq!(
            found.entries.iter().map(|p| (p.value.as_str(), p.line)).collect::<Vec<_>>(),
            [("4", 4), ("2", 2)]
        );
        assert_eq!(found.replaced.iter().map(|p| p.line).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_latin1() {
        assert_eq!(parse(b"a=\xe9").unwrap().entries[0].value, "\u{e9}");
        assert_eq!(parse("a=\u{e9}".as_bytes()).unwrap().entries[0].value, "\u{e9}");
        assert_eq!(parse(b"\xef\xbb\xbfa=1").unwrap().entries[0].key, "a");
    }

    #[test]
    fn a_huge_file_is_refused() {
        let bytes = vec![b'#'; FILE_BYTES_MAX + 1];
        assert_eq!(parse(&bytes), Err(PropertiesError::TooLarge { bytes: FILE_BYTES_MAX + 1 }));
    }

    /// Any bytes are entries or a fault, and every entry is on a line of the text.
    #[test]
    fn arbitrary_text_does_no_harm() {
        let alphabet = b"ab=: \t\x0c\n\r\\#!u01\xc3\xa9";
        let mut random = zebu_testkit::Random::new(17);
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..24).map(|_| *random.pick(alphabet)).collect();
            let Ok(found) = parse(&text) else { continue };
            for property in found.entries.iter().chain(&found.replaced) {
                assert!((1..=25).contains(&property.line), "{text:?}");
            }
        }
    }
}
