//! Paths: validation and splitting.

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path is empty.
    #[error("path length must be > 0")]
    Empty,
    /// It does not start with a slash.
    #[error("path must start with / character")]
    Relative,
    /// It ends with a slash and is not the root.
    #[error("path must not end with / character")]
    TrailingSlash,
    /// Two slashes in a row.
    #[error("empty node name specified @{0}")]
    EmptyName(usize),
    /// A component `.` or `..`.
    #[error("relative paths not allowed @{0}")]
    Dots(usize),
    /// An invalid character.
    #[error("invalid character @{0}")]
    Character(usize),
}

/// Checks a path against the rules every write obeys.
///
/// Offsets in the errors count characters from 0. Source: `PathUtils.validatePath`.
///
/// # Errors
/// The first rule that is broken.
pub fn validate(path: &str) -> Result<(), PathError> {
    if is_plain(path.as_bytes()) { Ok(()) } else { look_closely(path) }
}

fn look_closely(path: &str) -> Result<(), PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Err(PathError::Relative);
    };
    if rest.is_empty() {
        return Ok(());
    }
    if rest.ends_with('/') {
        return Err(PathError::TrailingSlash);
    }
    let mut at = 1;
    for name in rest.split('/') {
        match name {
            "" => return Err(PathError::EmptyName(at)),
            // The error is reported at the last dot.
            "." | ".." => return Err(PathError::Dots(at + name.len() - 1)),
            _ => {}
        }
        for char in name.chars() {
            if is_forbidden(char) {
                return Err(PathError::Character(at));
            }
            at += 1;
        }
        at += 1;
    }
    Ok(())
}

/// Whether a path is printable ASCII, and no name starts with a dot. This fast check accepts nearly
/// all paths.
fn is_plain(path: &[u8]) -> bool {
    let [b'/', .., last] = path else { return false };
    if *last == b'/' {
        return false;
    }
    let mut slash_before = false;
    let (words, rest) = path.as_chunks::<WORD>();
    for word in words {
        if !is_plain_word(u64::from_be_bytes(*word), &mut slash_before) {
            return false;
        }
    }
    if rest.is_empty() {
        return true;
    }
    let mut word = [b'a'; WORD];
    word[..rest.len()].copy_from_slice(rest);
    is_plain_word(u64::from_be_bytes(word), &mut slash_before)
}

/// Number of bytes checked together.
const WORD: usize = 8;

/// The same check for a part of a path. `slash_before`: whether a slash precedes the part; set to
/// whether the part ends with one.
fn is_plain_word(word: u64, slash_before: &mut bool) -> bool {
    const fn each(byte: u8) -> u64 {
        u64::from_be_bytes([byte; WORD])
    }
    // The highest bit of each byte is its result. If no input byte has that bit, no sum overflows
    // its byte.
    const ANSWERS: u64 = each(0x80);
    if word & ANSWERS != 0 {
        return false;
    }
    let is_not = |byte: u8| (word ^ each(byte)) + each(0x7f);
    let is_printable = (word + each(0x80 - b' ')) & is_not(0x7f);
    if is_printable & ANSWERS != ANSWERS {
        return false;
    }
    let slashes = !is_not(b'/') & ANSWERS;
    let dots = !is_not(b'.') & ANSWERS;
    let behind_slashes = slashes >> 8 | u64::from(*slash_before) << 63;
    *slash_before = slashes & 0x80 != 0;
    behind_slashes & (slashes | dots) == 0
}

/// Control characters, characters that need UTF-16 surrogates, private use and specials.
fn is_forbidden(char: char) -> bool {
    matches!(
        char as u32,
        0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff | 0x1_0000..
    )
}

/// Splits a path at its last slash into its parent (empty for the root) and its name.
///
/// `None` when there is no slash.
pub fn split(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once('/')
}

/// Reserved znodes.
pub mod reserved {
    /// Parent of all reserved znodes.
    pub const ZOOKEEPER: &str = "/zookeeper";
    /// Root of the quota tree.
    pub const QUOTA: &str = "/zookeeper/quota";
    /// The ensemble's configuration.
    pub const CONFIG: &str = "/zookeeper/config";
    /// Name of a quota's limits.
    pub const LIMITS: &str = "zookeeper_limits";
    /// Name of a quota's usage.
    pub const STATS: &str = "zookeeper_stats";

    /// Whether a path may not be deleted.
    pub fn is_undeletable(path: &str) -> bool {
        matches!(path, "/" | ZOOKEEPER | QUOTA | CONFIG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain_is_valid() {
        let mut paths = vec![String::new()];
        let mut plain = 0;
        for _ in 0..6 {
            let longer =
                |path: &String| ["/", ".", "a", "~", "\u{1f}", "é"].map(|c| format!("{path}{c}"));
            paths = paths.iter().flat_map(longer).collect();
            for path in paths.iter().filter(|path| is_plain(path.as_bytes())) {
                assert_eq!(look_closely(path), Ok(()), "{path:?}");
                plain += 1;
            }
        }
        assert!(plain > 100);
        // Wherever it is in a word.
        for front in (0..18).map(|bytes| format!("/{}", "n".repeat(bytes))) {
            for path in paths.iter().map(|path| format!("{front}{path}")) {
                let names =
                    path[1..].split('/').all(|name| !name.is_empty() && !name.starts_with('.'));
                let plain = names && path.bytes().all(|byte| matches!(byte, b' '..=b'~'));
                assert_eq!(is_plain(path.as_bytes()), plain, "{path:?}");
            }
        }
        for byte in 0..=u8::MAX {
            let path = [b'/', b'a', byte, b'a'];
            let plain = matches!(byte, b' '..=b'~');
            assert_eq!(is_plain(&path), plain, "{byte:#x}");
        }
        assert!(!is_plain(b"/a\x7f") && !is_plain(b""));
    }

    #[test]
    fn rules_of_the_original() {
        // Accepted and refused forms as a real server answered them.
        for good in ["/", "/a", "/...", "/a..", "/.a", "/a/b c%", "/\u{f900}", "/\u{ffef}"] {
            assert_eq!(validate(good), Ok(()), "{good:?}");
        }
        for bad in [
            "",
            "a",
            "/a/",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/a/..",
            "/a/./b",
            "/\0",
            "/\u{1f}",
            "/\u{7f}",
            "/\u{9f}",
            "/\u{e000}",
            "/\u{fff0}",
            "/\u{1f600}",
        ] {
            assert!(validate(bad).is_err(), "{bad:?}");
        }
        // As the original words it.
        for (bad, at) in [("/.", 1), ("/..", 2), ("/a/./b", 3), ("/a/../b", 4)] {
            assert_eq!(validate(bad), Err(PathError::Dots(at)), "{bad}");
        }
    }

    #[test]
    fn the_parent_of_a_top_level_znode_is_the_empty_path() {
        assert_eq!(split("/a"), Some(("", "a")));
        assert_eq!(split("/a/b"), Some(("/a", "b")));
        assert_eq!(split("a"), None);
    }
}
