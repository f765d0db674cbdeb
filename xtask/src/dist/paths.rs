//! Paths of the machine that builds: compilers write them into a program, for panics and for
//! debuggers. The build replaces them, so that a program does not depend on where it was built.
//!
//! Debug information is not in the files of a release, but the build id is, and it is a hash of
//! all that the linker has written.
//!
//! The flags are for a release only: other builds keep the real paths, which debuggers need.
//! Cargo hashes its flags into the names of files and symbols, but not if one of them is
//! `--remap-path-prefix`. So these names do not depend on the paths in the flags, either.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{materials, run_tool};
use crate::steps::{root, target};

/// Between the flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

/// Beginnings of paths, each with what a program contains instead. A later one has precedence.
#[derive(Debug)]
pub(super) struct Prefixes(Vec<(String, String)>);

impl Prefixes {
    /// The folders of this build: the repository, cargo's target, the sources of all packages, and
    /// those of the standard library.
    pub(super) fn of_this_build(triple: Option<&str>) -> Result<Self> {
        let target = target();
        fs::create_dir_all(&target).with_context(|| target.display().to_string())?;
        let mut prefixes = Self(Vec::new());
        prefixes.add(&root(), "/zebu")?;
        prefixes.add(&target, "/zebu/target")?;
        for folder in sources(&materials::resolved(triple)?) {
            prefixes.add(&folder, "/registry")?;
        }
        let (sysroot, commit) = compiler()?;
        prefixes.add_library(&sysroot, &commit)?;
        Ok(prefixes)
    }

    /// Adds the sources of the standard library, if they are installed (the component `rust-src`).
    ///
    /// The library is compiled already, with this other name for its sources. The compiler replaces
    /// it by their path.
    fn add_library(&mut self, sysroot: &Path, commit: &str) -> Result<()> {
        let library = sysroot.join("lib/rustlib/src/rust");
        if library.exists() {
            self.add(&library, &format!("/rustc/{commit}"))?;
        }
        Ok(())
    }

    /// Adds a folder by its name, and by the name that the kernel has for it.
    fn add(&mut self, folder: &Path, instead: &str) -> Result<()> {
        let name = folder.display().to_string();
        let real = fs::canonicalize(folder).with_context(|| name.clone())?;
        for path in BTreeSet::from([folder, real.as_path()]) {
            let path = path.to_str().with_context(|| format!("{name} is not UTF-8"))?;
            // `CFLAGS` has flags between spaces, and a compiler for C may split at the first `=`.
            ensure!(
                !path.contains(|c: char| c == '=' || c.is_whitespace()),
                "{path}: the path of a folder for a release contains neither spaces nor ="
            );
            self.0.push((path.to_owned(), instead.to_owned()));
        }
        Ok(())
    }

    /// Adds flags to those that the environment has for the compilers of Rust and C.
    pub(super) fn hide_in(&self, build: &mut Command) {
        let variable = |name: &str| env::var(name).ok();
        let given = given(variable("CARGO_ENCODED_RUSTFLAGS"), variable("RUSTFLAGS"));
        build.env("CARGO_ENCODED_RUSTFLAGS", self.rust(given).join(SEPARATOR));
        build.env("CFLAGS", self.c(variable("CFLAGS")).join(" "));
    }

    fn rust(&self, mut flags: Vec<String>) -> Vec<String> {
        let ours = self.0.iter().map(|(path, to)| format!("--remap-path-prefix={path}={to}"));
        flags.extend(ours);
        flags
    }

    fn c(&self, given: Option<String>) -> Vec<String> {
        let ours = self.0.iter().map(|(path, to)| format!("-ffile-prefix-map={path}={to}"));
        given.into_iter().chain(ours).collect()
    }
}

/// The folder of the compiler for Rust, and its commit.
fn compiler() -> Result<(PathBuf, String)> {
    let asked = |words: &[&str]| {
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        run_tool(rustc.args(words).current_dir(root()), "rustc")
    };
    let version = asked(&["-vV"])?;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
    let sysroot = PathBuf::from(asked(&["--print", "sysroot"])?.trim());
    Ok((sysroot, commit.context("rustc -vV tells no commit")?.to_owned()))
}

/// The flags for rustc in the environment. As in cargo, the first variable has precedence.
fn given(encoded: Option<String>, plain: Option<String>) -> Vec<String> {
    let (flags, separator) = match encoded {
        Some(flags) => (flags, SEPARATOR),
        None => (plain.unwrap_or_default(), " "),
    };
    flags.split(separator).filter(|flag| !flag.is_empty()).map(str::to_owned).collect()
}

/// The folders that contain the folders of packages from elsewhere: of a registry in cargo's home,
/// of a mirror, or of `cargo vendor`.
fn sources(metadata: &Value) -> BTreeSet<PathBuf> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let foreign = packages.filter(|package| package["source"].is_string());
    let manifests = foreign.filter_map(|package| package["manifest_path"].as_str());
    manifests.filter_map(|path| Some(Path::new(path).parent()?.parent()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Builds a program of which a build script writes a part, and returns its bytes.
    fn built(root: &Path, hidden: bool) -> Vec<u8> {
        fs::create_dir_all(root.join("src")).unwrap();
        let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                        [profile.dev]\ndebug = \"line-tables-only\"\nincremental = false\n";
        let script = "fn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap() + \"/part.rs\";\n    \
                      std::fs::write(out, \"pub fn part() { panic!() }\").unwrap();\n}\n";
        let main = "include!(concat!(env!(\"OUT_DIR\"), \"/part.rs\"));\nfn main() { part() }\n";
        for (name, text) in [("Cargo.toml", manifest), ("build.rs", script), ("src/main.rs", main)]
        {
            fs::write(root.join(name), text).unwrap();
        }
        let target = root.join("target");
        fs::create_dir_all(&target).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--offline"]).current_dir(root);
        build.env("CARGO_TARGET_DIR", &target);
        if hidden {
            let mut prefixes = Prefixes(Vec::new());
            prefixes.add(root, "/zebu").unwrap();
            prefixes.add(&target, "/zebu/target").unwrap();
            prefixes.hide_in(&mut build);
        }
        assert!(build.status().unwrap().success());
        fs::read(target.join("debug/small")).unwrap()
    }

    #[test]
    fn a_program_does_not_depend_on_the_folder_where_it_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "another/below"].map(|name| folder.path().join(name));
        assert!(built(&one, false) != built(&other, false), "the program names its folder");
        let [one, other] = [one, other].map(|root| built(&root, true));
        assert!(one == other, "{} and {} bytes", one.len(), other.len());
    }

    #[test]
    fn an_object_of_c_does_not_depend_on_the_folder_where_it_is_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let source = "const char *file(void) { return __FILE__; }\n";
        let objects = ["one", "another/below"].map(|name| {
            let root = folder.path().join(name);
            fs::create_dir_all(&root).unwrap();
            fs::write(root.join("small.c"), source).unwrap();
            let mut prefixes = Prefixes(Vec::new());
            prefixes.add(&root, "/zebu").unwrap();
            let mut cc = Command::new("cc");
            cc.args(prefixes.c(None)).args(["-g3", "-c"]).arg(root.join("small.c"));
            assert!(
                cc.arg("-o")
                    .arg(root.join("small.o"))
                    .current_dir(&root)
                    .status()
                    .unwrap()
                    .success()
            );
            fs::read(root.join("small.o")).unwrap()
        });
        let (here, name) = (folder.path().to_str().unwrap().as_bytes(), b"/zebu/small.c");
        let contains = |text: &[u8]| objects[0].windows(text.len()).any(|part| part == text);
        assert!(contains(name) && !contains(here));
        assert!(objects[0] == objects[1]);
    }

    #[test]
    fn a_program_does_not_depend_on_installed_sources_of_the_standard_library() {
        let folder = tempfile::tempdir().unwrap();
        let (sysroot, commit) = compiler().unwrap();
        let ours = folder.path().join("sysroot");
        for name in ["core", "alloc", "std"] {
            let sources = ours.join("lib/rustlib/src/rust/library").join(name).join("src");
            fs::create_dir_all(&sources).unwrap();
            fs::write(sources.join("lib.rs"), "").unwrap();
        }
        for entry in fs::read_dir(sysroot.join("lib/rustlib")).unwrap().map(Result::unwrap) {
            if entry.file_name() != "src" {
                let link = ours.join("lib/rustlib").join(entry.file_name());
                std::os::unix::fs::symlink(entry.path(), link).unwrap();
            }
        }
        let source = folder.path().join("small.rs");
        fs::write(&source, "fn main() { print!(\"{:?}\", std::env::args().collect::<Vec<_>>()) }")
            .unwrap();
        let built = |sysroot: &Path, flags: Vec<String>| {
            let program = folder.path().join("small");
            let mut rustc = Command::new("rustc");
            rustc.args(["-C", "debuginfo=line-tables-only", "--sysroot"]).arg(sysroot);
            rustc.args(flags).arg(&source).arg("-o").arg(&program);
            assert!(rustc.status().unwrap().success());
            fs::read(&program).unwrap()
        };
        let mut prefixes = Prefixes(Vec::new());
        prefixes.add_library(&sysroot, &commit).unwrap();
        let without = built(&sysroot, prefixes.rust(Vec::new()));
        assert!(built(&ours, Vec::new()) != without, "the program names the sources");
        let mut prefixes = Prefixes(Vec::new());
        prefixes.add_library(&ours, &commit).unwrap();
        assert!(built(&ours, prefixes.rust(Vec::new())) == without);
    }

    #[test]
    fn flags_of_the_environment_stay_and_come_first() {
        let prefixes = Prefixes(vec![("/home/a".to_owned(), "/zebu".to_owned())]);
        let ours = "--remap-path-prefix=/home/a=/zebu";
        let plain = || Some("-C  target-cpu=native".to_owned());
        assert_eq!(prefixes.rust(given(None, plain())), ["-C", "target-cpu=native", ours]);
        let encoded = Some("--cfg\x1fa=\"b c\"".to_owned());
        assert_eq!(prefixes.rust(given(encoded, plain())), ["--cfg", "a=\"b c\"", ours]);
        assert_eq!(prefixes.rust(given(Some(String::new()), plain())), [ours]);
        assert_eq!(prefixes.rust(given(None, None)), [ours]);
        let c = prefixes.c(Some("-O2 -g".to_owned()));
        assert_eq!(c.join(" "), "-O2 -g -ffile-prefix-map=/home/a=/zebu");
    }

    #[test]
    fn sources_are_where_cargo_has_them_and_not_in_this_repository() {
        let metadata = json!({ "packages": [
            { "source": "registry+x", "manifest_path": "/home/cargo/src/x-1/a-1.0.0/Cargo.toml" },
            { "source": "registry+x", "manifest_path": "/home/cargo/src/x-1/b-1.0.0/Cargo.toml" },
            { "source": null, "manifest_path": "/zebu/crates/jute/Cargo.toml" },
        ] });
        assert_eq!(sources(&metadata), BTreeSet::from(["/home/cargo/src/x-1".into()]));
    }

    #[test]
    fn a_folder_that_flags_cannot_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a b", "a=b"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            let error = Prefixes(Vec::new()).add(&path, "/zebu").unwrap_err().to_string();
            assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        }
    }
}
