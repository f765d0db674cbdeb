//! Scripts: what happens to a server, a line each after `> `, and what it asks for.
//!
//! Its disk is quick unless a script says otherwise, and its election network gets through; what it
//! says there is left out unless it says it aloud. `UPDATE_EXPECT=1` rewrites the scripts; read the difference before you
//! keep it.

mod run;

use std::path::Path;

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer/scripts");
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(!names.is_empty());
    for name in names {
        let expected = std::fs::read_to_string(&name).unwrap();
        let found = run::script(&expected);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&name, found).unwrap();
        } else {
            assert_eq!(found, expected, "{}", name.display());
        }
    }
}
