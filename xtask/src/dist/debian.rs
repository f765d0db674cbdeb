//! The Debian package: paths, user, unit and configuration files of Debian's own `zookeeper`, which
//! it takes over from.

use std::fs;

use anyhow::{Context as _, Result, bail};
use flate2::Compression;
use md5::{Digest as _, Md5};

use super::Parts;
use super::archive::{self, Entry, gzip, tar};
use crate::steps::root;

/// The revision of the package for one version.
const REVISION: &str = "1";

/// Executable files below `deploy/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The name and the bytes of the package.
pub(super) fn package(parts: &Parts) -> Result<(String, Vec<u8>)> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("Debian's name of the architecture {other} is not known"),
    };
    let version = format!("{}-{REVISION}", parts.version);
    let files = archive::complete(files(parts, &version)?);
    let control = control(parts, &files, &version, arch)?;
    let members: [(&str, &[u8]); 3] = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &gzip(&tar(&control, "./", parts.time)?, Compression::best())?),
        ("data.tar.gz", &gzip(&tar(&files, "./", parts.time)?, Compression::default())?),
    ];
    Ok((format!("zebu_{version}_{arch}.deb"), archive::ar(&members, parts.time)))
}

/// The installed files.
fn files(parts: &Parts, version: &str) -> Result<Vec<Entry>> {
    let best = |bytes: &[u8]| gzip(bytes, Compression::best());
    let mut entries = vec![
        Entry::file("usr/bin/zebu", 0o755, parts.program.clone()),
        // `zkEnv.sh` looks for the program in its own directory first, and for the configuration in
        // `../conf`.
        Entry::link("usr/share/zookeeper/conf", "/etc/zookeeper/conf"),
        Entry::dir("var/lib/zookeeper", 0o750),
        Entry::link("var/lib/zookeeper/myid", "/etc/zookeeper/conf/myid"),
        Entry::dir("var/log/zookeeper", 0o750),
    ];
    let units = root().join("deploy/systemd");
    entries.extend(super::folder_of(&units, "lib/systemd/system", 0o644)?);
    entries.extend(super::folder_of(&root().join("bin"), "usr/share/zookeeper/bin", 0o755)?);
    let conf = root().join("deploy/debian/conf_example");
    entries.extend(super::folder_of(&conf, "etc/zookeeper/conf_example", 0o644)?);
    for (page, bytes) in &parts.pages {
        let path = format!("usr/share/man/man1/{page}.gz");
        entries.push(Entry::file(path, 0o644, best(bytes)?));
    }
    for (path, bytes) in &parts.completions {
        entries.push(Entry::file(format!("usr/share/{path}"), 0o644, bytes.clone()));
    }
    let doc = "usr/share/doc/zebu";
    let copyright = fs::read(root().join("deploy/debian/copyright"))?;
    entries.push(Entry::file(format!("{doc}/copyright"), 0o644, copyright));
    let overrides = fs::read(root().join("deploy/debian/lintian-overrides"))?;
    entries.push(Entry::file("usr/share/lintian/overrides/zebu", 0o644, overrides));
    let changes = best(&fs::read(root().join("CHANGELOG.md"))?)?;
    entries.push(Entry::file(format!("{doc}/changelog.gz"), 0o644, changes));
    let changes = best(changelog(version, parts.time)?.as_bytes())?;
    entries.push(Entry::file(format!("{doc}/changelog.Debian.gz"), 0o644, changes));
    Ok(entries)
}

/// The files that dpkg reads and runs.
fn control(parts: &Parts, files: &[Entry], version: &str, arch: &str) -> Result<Vec<Entry>> {
    let folder = root().join("deploy/debian");
    let bytes: usize = files.iter().filter_map(Entry::bytes).map(<[u8]>::len).sum();
    let control = fs::read_to_string(folder.join("control"))?;
    let libc = parts.libc.as_deref().context("a package has the program for its C library")?;
    let control = control
        .replace("@VERSION@", version)
        .replace("@ARCH@", arch)
        .replace("@LIBC@", libc)
        .replace("@KIB@", &bytes.div_ceil(1024).to_string());
    let sums: String = files
        .iter()
        .filter(|file| !file.path.starts_with("etc/"))
        .filter_map(|file| Some(format!("{:x}  {}\n", Md5::digest(file.bytes()?), file.path)))
        .collect();
    let conffiles: String = files
        .iter()
        .filter(|file| file.path.starts_with("etc/") && file.bytes().is_some())
        .map(|file| format!("/{}\n", file.path))
        .collect();
    let mut entries = vec![
        Entry::file("conffiles", 0o644, conffiles),
        Entry::file("control", 0o644, control),
        Entry::file("md5sums", 0o644, sums),
    ];
    for name in SCRIPTS {
        let script = fs::read(folder.join(name)).with_context(|| name)?;
        entries.push(Entry::file(name, 0o755, script));
    }
    Ok(entries)
}

/// The package's own change log with one entry. `changelog.gz` lists the changes of a version.
fn changelog(version: &str, time: u64) -> Result<String> {
    let date = jiff::Timestamp::from_second(i64::try_from(time)?)?;
    let date = date.strftime("%a, %d %b %Y %H:%M:%S +0000");
    Ok(format!(
        "zebu ({version}) unstable; urgency=medium\n\n  * Packaged by the project; changelog.gz says what changed.\n\n \
         -- The Zebu project <zebu-project@users.noreply.github.com>  {date}\n"
    ))
}
