//! Splits a line of input into words, as the original's shell does.

/// The characters that separate words.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

/// Splits a line into words. A word that begins with a quote ends at the next quote of the same
/// kind. It may contain blanks, and loses both quotes. A quote within a word is an ordinary
/// character. A quote cannot be escaped.
///
/// A quote that is never closed is dropped, and the text after it is split at blanks. Source:
/// `ZooKeeperMain.MyCommandOptions.parseCommand`.
pub(crate) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(is_blank);
    while let Some(first) = rest.chars().next() {
        let end = if let quote @ ('"' | '\'') = first {
            let inside = &rest[1..];
            match inside.find(quote) {
                Some(end) => {
                    words.push(inside[..end].to_owned());
                    end + 2
                }
                None => 1,
            }
        } else {
            let end = rest.find(is_blank).unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            end
        };
        rest = rest[end..].trim_start_matches(is_blank);
    }
    words
}

/// Splits a text into lines. A line break between quotes, in the sense of [`split`], is part of a
/// word.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut is_between = true;
    while let Some(next) = text[at..].chars().next() {
        match next {
            '\n' => {
                lines.push(&text[start..at]);
                start = at + 1;
                is_between = true;
            }
            // `split` drops a quote that is never closed.
            '"' | '\'' if is_between => {
                if let Some(end) = text[at + 1..].find(next) {
                    at += 1 + end;
                }
            }
            other => is_between = is_blank(other),
        }
        at += next.len_utf8();
    }
    lines.push(&text[start..]);
    lines
}

/// Quotes a word so that [`split`] returns it unchanged, if possible.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = !word.is_empty() && !word.starts_with(['"', '\'']) && !word.contains(is_blank);
    match word {
        word if is_plain => word.to_owned(),
        word if word.contains('"') => format!("'{word}'"),
        word => format!("\"{word}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_into_lines_outside_of_quotes() {
        assert_eq!(lines("ls /"), ["ls /"]);
        assert_eq!(lines("create /a 1\ncreate /b 2\n"), ["create /a 1", "create /b 2", ""]);
        assert_eq!(lines("create /a \"1\n2\"\nls /"), ["create /a \"1\n2\"", "ls /"]);
        // A quote within a word is an ordinary character, and so is one that is never closed.
        assert_eq!(lines("create /it's\nls /o'clock"), ["create /it's", "ls /o'clock"]);
        assert_eq!(lines("create /a \"x\nls /"), ["create /a \"x", "ls /"]);
        assert_eq!(lines(""), [""]);
    }

    #[test]
    fn words_are_split_at_blanks_and_quotes_keep_them() {
        assert_eq!(split("create /a  b\tc"), ["create", "/a", "b", "c"]);
        assert_eq!(
            split("  set \"/with space\" 'it is \"so\"' "),
            ["set", "/with space", "it is \"so\""]
        );
        assert_eq!(split("set /a \"\""), ["set", "/a", ""]);
        assert_eq!(split("set /a x\"y z\""), ["set", "/a", "x\"y", "z\""]);
        assert_eq!(split("set /a \"b c"), ["set", "/a", "b", "c"]);
        assert_eq!(split("set /a 'b'c"), ["set", "/a", "b", "c"]);
        assert!(split(" \t").is_empty());
    }

    #[test]
    fn what_is_quoted_comes_out_again() {
        for word in ["/a", "/with space", "", "it is \"so\"", "'x'"] {
            assert_eq!(split(&quote(word)), [word]);
        }
    }
}
