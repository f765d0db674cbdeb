//! Third-party programs that a test looks for are programs that `cargo xtask deps` installs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The installer, and its call that names the folder below `.deps`.
const INSTALLER: &str = "xtask/src/deps.rs";
const INSTALLS: &str = "once(&folder, \"";

/// The call by which a test names a folder below `.deps`.
const ASKS: &str = concat!("installed", "(\"");

/// Reports every folder below `.deps` that a file below `tests` or `crates` uses and that the
/// installer does not create.
pub(crate) fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    let installer = fs::read_to_string(root.join(INSTALLER)).context(INSTALLER)?;
    let there: BTreeSet<&str> = names(&installer, INSTALLS).collect();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let absent = names(&text, ASKS).filter(|name| !there.contains(name));
        let file = file.strip_prefix(root).unwrap_or(file).display();
        wrong.extend(absent.map(|name| format!("{file}: {INSTALLER} does not install {name}")));
    }
    Ok(())
}

/// The quoted texts after a beginning.
fn names<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split('"').next())
}

#[test]
fn a_folder_that_nothing_installs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("xtask/src")).unwrap();
    fs::write(folder.path().join(INSTALLER), "once(&folder, \"venv\", STAMP, python)?;\n").unwrap();
    let test = folder.path().join("test.rs");
    fs::write(&test, format!("{ASKS}venv\"); {ASKS}store\");\n")).unwrap();
    let mut wrong = Vec::new();
    check(folder.path(), &[test], &mut wrong).unwrap();
    assert_eq!(wrong, ["test.rs: xtask/src/deps.rs does not install store"]);
}
