//! Escapes text from clients in log lines, so that a client can neither begin a new line nor move a
//! terminal's cursor.

use std::fmt::{self, Write as _};

/// A text with every control character shown as an escape sequence, such as `\n` or `\u{1b}`.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'t>(pub &'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, is_control, f)
    }
}

/// As [`Escaped`], and `\` itself is shown as `\\`, so that different texts never look the same.
#[derive(Clone, Copy, Debug)]
pub struct Reversible<'t>(pub &'t str);

impl fmt::Display for Reversible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, |it| it == '\\' || is_control(it), f)
    }
}

/// Whether a character ends a line, moves a cursor, or changes the direction of the text after it.
fn is_control(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, escapes: impl Fn(char) -> bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(&escapes) {
        let (plain, tail) = rest.split_at(at);
        f.write_str(plain)?;
        let mut chars = tail.chars();
        match chars.next() {
            Some('\n') => f.write_str("\\n")?,
            Some('\r') => f.write_str("\\r")?,
            Some('\t') => f.write_str("\\t")?,
            Some('\\') => f.write_str("\\\\")?,
            Some(other) => write!(f, "\\u{{{:x}}}", u32::from(other))?,
            None => f.write_char('\\')?,
        }
        rest = chars.as_str();
    }
    f.write_str(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_neither_begin_a_line_nor_move_the_cursor() {
        let text = "/a\nb\r\t\u{1b}[2J\u{0}\u{7f}\u{9b}\u{2028}\u{202e}é\\";
        let shown = Escaped(text).to_string();
        assert_eq!(shown, r"/a\nb\r\t\u{1b}[2J\u{0}\u{7f}\u{9b}\u{2028}\u{202e}é\");
        assert!(!shown.chars().any(is_control));
        assert_eq!(Reversible("a\\n\n").to_string(), r"a\\n\n");
        assert_eq!(Escaped("").to_string(), "");
    }
}
