//! Public functions of libraries have errors with types: a caller can distinguish them without
//! reading their text.

use std::path::Path;

use super::{PROGRAMS, TESTS};

/// Whether this file, relative to the repository, belongs to a library that is shipped.
pub(super) fn is_library(file: &Path) -> bool {
    let mut parts = file.iter().map(|part| part.to_str().unwrap_or_default());
    let (Some("crates"), Some(name), Some("src")) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    !PROGRAMS.contains(&name) && !TESTS.contains(&name)
}

/// The public functions, methods of public traits and public aliases of a file that name a
/// `Result` whose error is a `String`.
pub(super) fn untyped(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut is_trait = false;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let begins = has_words(line, &["pub", "trait"]) && !line.ends_with('}');
        is_trait = begins || (is_trait && line != "}");
        let is_method = is_trait && line.starts_with("    ") && has_words(line, &["fn"]);
        if !is_method && !has_words(line, &["pub", "fn"]) && !has_words(line, &["pub", "type"]) {
            continue;
        }
        let mut signature = line.trim().to_owned();
        while !signature.ends_with(['{', '}', ';']) {
            let Some((_, next)) = lines.next() else { break };
            signature.push(' ');
            signature.push_str(next.trim());
        }
        if has_text_as_error(&signature) {
            faults.push(format!(
                "line {}: a library has errors with types, so no Result<_, String>",
                index + 1
            ));
        }
    }
    faults
}

/// Whether a line declares something with these keywords, perhaps with others that a function or
/// a trait can have.
fn has_words(line: &str, keywords: &[&str]) -> bool {
    let mut wanted = keywords.iter().peekable();
    for word in line.split_whitespace() {
        let Some(next) = wanted.peek() else { break };
        if word == **next {
            wanted.next();
        } else if !["async", "const", "extern", "unsafe", "\"C\""].contains(&word) {
            return false;
        }
    }
    wanted.peek().is_none()
}

/// Whether a signature has a `Result` whose last argument is `String`.
fn has_text_as_error(signature: &str) -> bool {
    signature.match_indices("Result<").any(|(at, name)| {
        let (mut depth, mut start, mut before) = (0, 0, ' ');
        let arguments = &signature[at + name.len()..];
        for (at, next) in arguments.char_indices() {
            match next {
                '<' | '(' | '[' => depth += 1,
                // The arrow of a function's type.
                '>' if before == '-' => {}
                '>' if depth == 0 => {
                    return start > 0 && arguments[start..at].trim() == "String";
                }
                '>' | ')' | ']' => depth -= 1,
                ',' if depth == 0 => start = at + 1,
                _ => {}
            }
            before = next;
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_function_has_no_text_as_its_error() {
        for refused in [
            "pub fn f() -> Result<(), String> {\n",
            "    pub async fn f(&self) -> std::result::Result<Vec<(u8, String)>, String> {\n",
            "pub const unsafe fn f() -> Result<[u8; 2], String>;\n",
            "pub trait T {\n    /// One.\n    fn f(\n        &self,\n        a: u8,\n    ) -> Result<(), String>;\n}\n",
            "pub fn f(it: impl Fn(u8) -> Result<u8, String>) -> u8 {\n",
            "pub type F =\n    fn(u8) -> Result<u8, String>;\n",
            "pub fn f() -> Result<fn(u8) -> u8, String> {\n",
        ] {
            assert_eq!(untyped(refused).len(), 1, "{refused}");
        }
        for permitted in [
            "pub fn f() -> Result<String, Fault> {\n",
            "pub fn f() -> Result<String> {\n",
            "pub fn f() -> (Result<u8, Fault>, String) {\n",
            "pub fn f() -> Result<HashMap<u8, String>, Fault> {\n",
            "pub(crate) fn f() -> Result<(), String> {\n",
            "fn f() -> Result<(), String> {\n",
            "pub trait T {}\nimpl U {\n    fn f() -> Result<(), String> {\n",
            "trait T {\n    fn f() -> Result<(), String>;\n}\n",
        ] {
            assert!(untyped(permitted).is_empty(), "{permitted}");
        }
    }

    #[test]
    fn programs_and_tests_are_no_libraries() {
        for (file, expected) in [
            ("crates/store/src/log/write.rs", true),
            ("crates/store/tests/store/crash.rs", false),
            ("crates/bench/src/lib.rs", false),
            ("crates/sim/src/app.rs", false),
            ("xtask/src/tidy.rs", false),
        ] {
            assert_eq!(is_library(Path::new(file)), expected, "{file}");
        }
    }
}
