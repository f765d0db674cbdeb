//! Scripts of a test: files with inputs and the outputs that they must give.

use std::path::Path;

/// Runs each file of a folder. `run` gets the text of a file, and returns it with the outputs of
/// this run. With `UPDATE_EXPECT=1`, the file gets that text.
///
/// # Panics
/// The outputs differ, or a file cannot be read or written.
pub fn check(folder: &Path, run: impl Fn(&str) -> String) {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(!names.is_empty());
    for name in names {
        let expected = std::fs::read_to_string(&name).unwrap();
        let found = run(&expected);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&name, found).unwrap();
        } else {
            assert_eq!(found, expected, "{}", name.display());
        }
    }
}
