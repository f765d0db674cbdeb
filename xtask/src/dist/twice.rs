//! `cargo xtask dist --twice`: whether a release can be built again, anywhere.
//!
//! Two clones of the commit have paths of different lengths, and so have their targets and their
//! homes of cargo. All files of both must be equal.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{self, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use super::Options;
use crate::steps::{cargo, root, run, target};

/// Builds in two clones of the commit, compares the files, and copies them to `to` if they are
/// equal.
pub(super) fn make(options: &Options, to: &Path) -> Result<()> {
    // The builds have other working directories.
    let folder = path::absolute(target().join("twice"))?;
    // What an earlier run has left.
    let _ = fs::remove_dir_all(&folder);
    let outs = ["one", "other"].map(|name| folder.join(name));
    let clones = ["a", "another/clone/below"].map(|name| folder.join("clones").join(name));
    // Both before the first build: other commits may come meanwhile.
    for clone in &clones {
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--shared"]).arg(root()).arg(clone);
        run(git)?;
    }
    for (clone, out) in clones.iter().zip(&outs) {
        let mut dist = cargo(&["xtask", "dist", "--version", &options.version]);
        dist.args(["--only", &options.only.join(",")]).arg("--out").arg(out);
        if let Some(target) = &options.target {
            dist.args(["--target", target]);
        }
        if let Some(program) = &options.documents_from {
            dist.arg("--documents-from").arg(fs::canonicalize(program)?);
        }
        let home = clone.join("home");
        link_all(&cargo_home()?, &home)?;
        dist.current_dir(clone).env("CARGO_HOME", &home).env_remove("CARGO_TARGET_DIR");
        run(dist)?;
        // The disk needs room for one build only.
        fs::remove_dir_all(clone).with_context(|| clone.display().to_string())?;
    }
    let [one, other] = &outs;
    let made = files(one)?;
    let (lines, equal) = difference(&made, &files(other)?);
    println!("{}", lines.join("\n"));
    ensure!(equal, "the files in {} and {} differ", one.display(), other.display());
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for (name, bytes) in made {
        let path = to.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())
}

/// Cargo's home: its registry has the sources of all packages.
fn cargo_home() -> Result<PathBuf> {
    let home = || Some(env::home_dir()?.join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).context("HOME is not set")
}

/// Links everything in a folder from another one.
fn link_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        symlink(fs::canonicalize(entry.path())?, to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The files in a folder, by their names.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        files.insert(entry.file_name().display().to_string(), fs::read(entry.path())?);
    }
    Ok(files)
}

/// One line for each file, and whether all are equal.
fn difference(
    one: &BTreeMap<String, Vec<u8>>,
    other: &BTreeMap<String, Vec<u8>>,
) -> (Vec<String>, bool) {
    let mut equal = true;
    let mut line = |name: &String| {
        let (word, detail) = match (one.get(name), other.get(name)) {
            (Some(a), Some(b)) if a == b => ("equal", format!("{:x}", Sha256::digest(a))),
            (Some(a), Some(b)) => {
                let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
                let (a, b) = (a.len(), b.len());
                ("DIFFERENT", format!("from byte {at} on, {a} and {b} bytes"))
            }
            (None, _) => ("MISSING", "not in the first".to_owned()),
            (_, None) => ("MISSING", "not in the second".to_owned()),
        };
        equal &= word == "equal";
        format!("{word}  {name}  {detail}")
    };
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    (names.into_iter().map(&mut line).collect(), equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_equal_or_different_or_missing() {
        let files = |list: &[(&str, &str)]| -> BTreeMap<String, Vec<u8>> {
            list.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
        };
        let one = files(&[("deb", "abc"), ("tar", "abcd"), ("image", "")]);
        let other = files(&[("deb", "abc"), ("tar", "abx"), ("bill", "")]);
        let (lines, equal) = difference(&one, &other);
        assert!(!equal);
        assert_eq!(lines[0], "MISSING  bill  not in the first");
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(lines[1], format!("equal  deb  {digest}"));
        assert_eq!(lines[2], "MISSING  image  not in the second");
        assert_eq!(lines[3], "DIFFERENT  tar  from byte 2 on, 4 and 3 bytes");
        assert!(difference(&one, &one).1);
    }
}
