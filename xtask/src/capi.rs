//! The two shared libraries of the C client's ABI: built, linked, and laid out as a package would
//! install them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::steps::{cargo, root, run, target};

/// The version in the names of the libraries: that of the C client's ABI.
const SONAME: &str = "2";
const FILE: &str = "2.0.0";

/// The system libraries that the archive of a Rust library needs. A compiler for C adds its own
/// library, shared or static.
const SYSTEM: [&str; 5] = ["-lpthread", "-ldl", "-lm", "-lrt", "-lc"];

/// One of the two libraries.
struct Flavour {
    name: &'static str,
    define: &'static [&'static str],
    map: &'static str,
}

const FLAVOURS: [Flavour; 2] = [
    Flavour { name: "zookeeper_mt", define: &["-DTHREADED"], map: "mt.map" },
    Flavour { name: "zookeeper_st", define: &[], map: "st.map" },
];

/// Options of `cargo xtask capi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Build without optimisation.
    #[arg(long)]
    debug: bool,
    /// The folder that gets the libraries, headers and pkg-config files; `target/capi` unless
    /// given.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// The folder where the files will be installed.
    #[arg(long, value_name = "DIR")]
    prefix: Option<String>,
}

/// Builds both libraries, and lays out `lib`, `include` and `lib/pkgconfig` below a folder.
pub(crate) fn install(options: &Options) -> Result<()> {
    let profile = if options.debug { "debug" } else { "release" };
    let prefix = options.into.clone().unwrap_or_else(|| root().join("target/capi"));
    let at = options.prefix.clone();
    ensure!(cfg!(target_os = "linux"), "the libraries are built for Linux only");
    let mut build = cargo(&["build", "--package", "zebu-capi", "--lib"]);
    if profile == "release" {
        build.arg("--release");
    }
    run(build)?;
    let archive = target().join(profile).join("libzebu_capi.a");
    let source = root().join("crates/capi");
    let (lib, include) = (prefix.join("lib"), prefix.join("include/zookeeper"));
    for folder in [&lib, &include, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let prefix = fs::canonicalize(&prefix)?;
    for flavour in &FLAVOURS {
        flavour.link(&source, &archive, &lib)?;
        let at = at.clone().unwrap_or_else(|| prefix.display().to_string());
        fs::write(lib.join(format!("pkgconfig/{}.pc", flavour.name)), flavour.package(&at))?;
    }
    for entry in fs::read_dir(source.join("include"))? {
        let header = entry?.path();
        fs::copy(&header, include.join(header.file_name().context("a header")?))?;
    }
    println!("{}", prefix.display());
    Ok(())
}

impl Flavour {
    /// Makes the shared library, its links, and the static one.
    fn link(&self, source: &Path, archive: &Path, lib: &Path) -> Result<()> {
        let object = lib.join(format!("{}.o", self.name));
        let mut compile = Command::new("cc");
        compile.args(["-c", "-O2", "-fPIC", "-Wall", "-Wextra"]).args(self.define);
        compile.arg(source.join("c/flavour.c")).arg("-o").arg(&object);
        run(compile)?;

        let (file, soname) =
            (format!("lib{}.so.{FILE}", self.name), format!("lib{}.so.{SONAME}", self.name));
        let mut link = Command::new("cc");
        link.args(["-shared", "-Wl,-z,defs", "-Wl,--gc-sections", "-Wl,-z,relro", "-Wl,-z,now"]);
        link.arg(format!("-Wl,-soname,{soname}"));
        link.arg(format!("-Wl,--version-script,{}", source.join("c").join(self.map).display()));
        link.arg(&object).arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
        link.args(SYSTEM).arg("-o").arg(lib.join(&file));
        run(link)?;
        for (link, to) in [(&soname, &file), (&format!("lib{}.so", self.name), &soname)] {
            let link = lib.join(link);
            if link.symlink_metadata().is_ok() {
                fs::remove_file(&link)?;
            }
            symlink(to, &link)?;
        }

        let map = fs::read_to_string(source.join("c").join(self.map))?;
        self.archive(archive, &object, &exported(&map), lib)?;
        Ok(fs::remove_file(object)?)
    }

    /// Makes the static library: one object, whose other names than those of the C client are
    /// hidden, so that a program may contain another library of Rust.
    fn archive(&self, archive: &Path, object: &Path, names: &[&str], lib: &Path) -> Result<()> {
        let whole = lib.join(format!("lib{}-whole.o", self.name));
        let mut join = Command::new("ld");
        join.arg("-r").arg("-o").arg(&whole).arg(object).arg("--whole-archive").arg(archive);
        run(join)?;
        let mut hide = Command::new("objcopy");
        hide.arg("--wildcard");
        for name in names {
            hide.arg(format!("--keep-global-symbol={name}"));
        }
        // Rust's own libraries have bitcode, which archivers with another version of LLVM cannot
        // read.
        hide.args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"]).arg(&whole);
        run(hide)?;
        let library = lib.join(format!("lib{}.a", self.name));
        if library.exists() {
            fs::remove_file(&library)?;
        }
        let mut pack = Command::new("ar");
        pack.arg("rcs").arg(&library).arg(&whole);
        run(pack)?;
        Ok(fs::remove_file(whole)?)
    }

    /// The content of the pkg-config file.
    fn package(&self, prefix: &str) -> String {
        let Self { name, define, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        let system = SYSTEM.join(" ");
        let flags = define.iter().map(|flag| format!(" {flag}")).collect::<String>();
        format!(
            "prefix={prefix}\n\nName: {name}\nDescription: the ZooKeeper client for C, by Zebu\nVersion: {version}\n\
             Libs: -L${{prefix}}/lib -l{name}\nLibs.private: {system}\nCflags: -I${{prefix}}/include/zookeeper{flags}\n"
        )
    }
}

/// The names of a version script that programs see, with wildcards.
fn exported(map: &str) -> Vec<&str> {
    let visible = map.split_once("global:").map_or("", |(_, after)| after);
    let visible = visible.split_once("local:").map_or(visible, |(before, _)| before);
    visible.split(';').map(str::trim).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_script_names_what_programs_see() {
        let map = "/* Names. */\n{\n    global:\n        zoo_*; zerror;\n        get_buffer;\n    local:\n        *;\n};\n";
        assert_eq!(exported(map), ["zoo_*", "zerror", "get_buffer"]);
    }
}
