//! `cargo xtask dist`: everything that a release hands out, from one build, without a daemon and
//! without root.
//!
//! The same commit and the same compilers give the same bytes in any folder: times come from the
//! commit, orders are fixed, and the program has no path of the machine ([`paths`]).
//! `cargo xtask dist --twice` shows it.

mod archive;
mod debian;
mod image;
mod materials;
mod paths;
mod twice;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use archive::{Entry, gzip, tar};
use flate2::Compression;
use paths::Prefixes;
use sha2::{Digest as _, Sha256};

use crate::steps::{root, run, target};

/// The kinds of files for `--only`.
const KINDS: [&str; 4] = ["tar", "deb", "image", "bill"];

/// The inputs of all files.
#[derive(Default)]
struct Parts {
    /// The program, stripped.
    program: Vec<u8>,
    /// Manual pages by file name.
    pages: Vec<(String, Vec<u8>)>,
    /// Completions by the path below `usr/share` where their shell looks.
    completions: Vec<(&'static str, Vec<u8>)>,
    /// The version in `Cargo.toml`.
    version: String,
    /// The time of the commit, in seconds.
    time: u64,
    /// The newest symbol version of the C library that the program needs; none for a static
    /// program.
    libc: Option<String>,
    /// The machine, as in the names of the files.
    machine: &'static str,
    /// The target of a static program.
    triple: Option<&'static str>,
}

/// A static program: it needs no C library of the system.
struct Static {
    triple: &'static str,
    machine: &'static str,
    /// The C compiler, which `ring` needs, and its Debian package.
    compiler: (&'static str, &'static str),
    strip: (&'static str, &'static str),
}

/// Static targets besides the program for this machine's C library.
const STATIC: [Static; 2] = [
    Static {
        triple: "x86_64-unknown-linux-musl",
        machine: "x86_64-musl",
        compiler: ("musl-gcc", "musl-tools"),
        strip: ("strip", "binutils"),
    },
    Static {
        triple: "aarch64-unknown-linux-musl",
        machine: "aarch64-musl",
        compiler: ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        strip: ("aarch64-linux-gnu-strip", "binutils-aarch64-linux-gnu"),
    },
];

/// Options of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Make only these kinds of files, separated by commas.
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = KINDS, default_values = KINDS)]
    only: Vec<String>,
    /// The folder that gets the files; `target/dist` unless given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A program that is built already. Without this option the task builds a release.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Build a static program for this target; tar and bill only.
    #[arg(long, value_name = "TRIPLE", value_parser = STATIC.map(|it| it.triple))]
    target: Option<String>,
    /// A program of the same commit that runs here. It prints the manual pages and completions
    /// where the built one cannot.
    #[arg(long, value_name = "FILE")]
    documents_from: Option<PathBuf>,
    /// The version that the files carry.
    #[arg(long, value_name = "V", default_value = env!("CARGO_PKG_VERSION"))]
    version: String,
    /// Build the last commit in two folders, and make the files only if both builds give the same.
    ///
    /// Files that differ stay in target/twice. The task takes a quarter of an hour on two cores.
    #[arg(long, conflicts_with = "program")]
    twice: bool,
}

/// Makes the requested files.
pub(crate) fn make(options: &Options) -> Result<()> {
    let out = options.out.clone().unwrap_or_else(|| target().join("dist"));
    if options.twice {
        return twice::make(options, &out);
    }
    let to = options.target.as_deref().and_then(|it| STATIC.iter().find(|to| to.triple == it));
    let dynamic = ["deb", "image"];
    let needs_libc = options.only.iter().find(|kind| dynamic.contains(&kind.as_str()));
    if let (Some(kind), Some(to)) = (needs_libc, to) {
        bail!("{kind} has no static program: name the kinds with --only for {}", to.triple);
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build(to)?,
    };
    fs::create_dir_all(&out)?;
    let parts = Parts::gather(&program, to, options)?;
    let mut made = Vec::new();
    let mut write = |name: String, bytes: &[u8]| -> Result<()> {
        let path = out.join(&name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
        made.push(format!("{:x}  {name}\n", Sha256::digest(bytes)));
        Ok(())
    };
    for kind in &options.only {
        match kind.as_str() {
            "tar" => {
                let name = format!("zebu-{}-linux-{}", parts.version, parts.machine);
                write(format!("{name}.tar.gz"), &tarball(&parts, &name)?)?;
            }
            "deb" => {
                let (name, bytes) = debian::package(&parts)?;
                write(name, &bytes)?;
            }
            "image" => {
                let name = format!("zebu-{}-image-{}.tar", parts.version, std::env::consts::ARCH);
                write(name, &image::image(&parts)?)?;
            }
            "bill" => write(format!("zebu-{}.cdx.json", parts.version), &materials::bill(&parts)?)?,
            other => unreachable!("clap refuses the kind {other}"),
        }
    }
    made.sort();
    fs::write(out.join("SHA256SUMS"), made.concat())?;
    Ok(())
}

/// Builds a release, for this machine's C library or as a static program.
fn build(to: Option<&Static>) -> Result<PathBuf> {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--release", "--locked", "-p", "zebu"]).current_dir(root());
    Prefixes::of_this_build(to.map(|to| to.triple))?.hide_in(&mut build);
    let Some(to) = to else {
        run(build)?;
        return Ok(target().join("release/zebu"));
    };
    let (compiler, package) = to.compiler;
    run_tool(Command::new(compiler).arg("--version"), package)?;
    let name = to.triple.replace('-', "_");
    build.args(["--target", to.triple]).env(format!("CC_{name}"), compiler);
    if !to.triple.starts_with(std::env::consts::ARCH) {
        build.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), compiler);
    }
    run(build)?;
    Ok(target().join(to.triple).join("release/zebu"))
}

impl Parts {
    fn gather(program: &Path, to: Option<&Static>, options: &Options) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let stripped = folder.path().join("zebu");
        let (strip, package) = to.map_or(("strip", "binutils"), |to| to.strip);
        run_tool(Command::new(strip).arg("-o").arg(&stripped).arg(program), package)?;
        // A program for another machine does not run here.
        let runs = options.documents_from.as_deref().unwrap_or(program);
        let pages = folder.path().join("man");
        fs::create_dir(&pages)?;
        let mut man = Command::new(runs);
        man.arg("man").arg(&pages);
        run(man)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&pages)? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("names of pages are ASCII")?;
            found.push((name, fs::read(entry.path())?));
        }
        found.sort();
        let mut completions = Vec::new();
        for (shell, path) in [
            ("bash", "bash-completion/completions/zebu"),
            ("fish", "fish/vendor_completions.d/zebu.fish"),
            ("zsh", "zsh/vendor-completions/_zebu"),
        ] {
            let output = Command::new(runs).args(["completions", shell]).output()?;
            ensure!(
                output.status.success(),
                "{} completions: {}",
                program.display(),
                output.status
            );
            completions.push((path, output.stdout));
        }
        Ok(Self {
            program: fs::read(&stripped)?,
            pages: found,
            completions,
            version: options.version.clone(),
            time: time()?,
            libc: if to.is_some() { None } else { Some(libc(program)?) },
            machine: to.map_or(std::env::consts::ARCH, |to| to.machine),
            triple: to.map(|to| to.triple),
        })
    }
}

/// The tar archive for machines without a package: programs, scripts, configuration, documents.
fn tarball(parts: &Parts, name: &str) -> Result<Vec<u8>> {
    let mut entries = vec![Entry::file("bin/zebu", 0o755, parts.program.clone())];
    for (folder, at, mode) in
        [("bin", "bin", 0o755), ("deploy/windows", "bin", 0o755), ("conf", "conf", 0o644)]
    {
        entries.extend(folder_of(&root().join(folder), at, mode)?);
    }
    for (page, bytes) in &parts.pages {
        entries.push(Entry::file(format!("share/man/man1/{page}"), 0o644, bytes.clone()));
    }
    for (path, bytes) in &parts.completions {
        entries.push(Entry::file(format!("share/{path}"), 0o644, bytes.clone()));
    }
    for file in ["LICENSE", "README.md", "CHANGELOG.md", "COMPAT.md"] {
        entries.push(Entry::file(file, 0o644, fs::read(root().join(file))?));
    }
    let entries = archive::complete(entries);
    gzip(&tar(&entries, &format!("{name}/"), parts.time)?, Compression::default())
}

/// The files directly in a folder, below `at`.
fn folder_of(folder: &Path, at: &str, mode: u32) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let name = entry.file_name().into_string().ok().context("names are ASCII")?;
            entries.push(Entry::file(format!("{at}/{name}"), mode, fs::read(entry.path())?));
        }
    }
    Ok(entries)
}

/// The time of all files: `SOURCE_DATE_EPOCH`, or the time of the commit.
fn time() -> Result<u64> {
    if let Ok(time) = std::env::var("SOURCE_DATE_EPOCH") {
        return time.parse().context("SOURCE_DATE_EPOCH is a number of seconds");
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(root());
    let text = run_tool(&mut git, "git")?;
    text.trim().parse().context("git tells the time of the commit")
}

/// The newest symbol version of the C library in a program, such as `2.34`.
fn libc(program: &Path) -> Result<String> {
    let mut objdump = Command::new("objdump");
    let symbols = run_tool(objdump.arg("-T").arg(program), "binutils")?;
    newest_libc(&symbols)
        .with_context(|| format!("{}: no symbols of the C library", program.display()))
}

fn newest_libc(symbols: &str) -> Option<String> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let text = rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        Some((numbers?, text.to_owned()))
    });
    versions.max().map(|(_, text)| text)
}

fn run_tool(command: &mut Command, package: &str) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().with_context(|| format!("{name} is missing: install {package}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_c_library_are_compared_by_their_numbers() {
        let symbols = "x (GLIBC_2.9)  a\ny (GLIBC_2.34) b\nz (GLIBC_2.2.5) c\nGLIBC_PRIVATE d\n";
        assert_eq!(newest_libc(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest_libc("(GCC_3.0) x"), None);
    }
}
