//! The container image: an OCI layout in a tar archive, built without a daemon and without root.
//!
//! It has the program, the scripts, and of Debian what these need: the C library, bash, busybox for
//! small programs, and the libraries of Kerberos, which are loaded when a configuration asks for
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use flate2::Compression;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::archive::{self, Content, Entry, gzip, tar};
use super::{Parts, run_tool};
use crate::steps::root;

/// Debian packages whose files are in the image. The C library is first, because others depend on
/// it.
const PACKAGES: [&str; 12] = [
    "libc6",
    "libgcc-s1",
    "libtinfo6",
    "bash",
    "busybox",
    "libgssapi-krb5-2",
    "libkrb5-3",
    "libkrb5support0",
    "libk5crypto3",
    "libcom-err2",
    "libkeyutils1",
    "libssl3",
];

/// Names under which busybox is installed.
const BUSYBOX: [&str; 44] = [
    "awk", "base64", "basename", "cat", "chmod", "cp", "cut", "date", "df", "dirname", "du",
    "echo", "env", "expr", "false", "find", "grep", "head", "hostname", "id", "kill", "ls",
    "mkdir", "mktemp", "mv", "nc", "od", "ps", "readlink", "rm", "sed", "seq", "sleep", "sort",
    "stat", "tail", "tee", "timeout", "touch", "tr", "true", "uname", "wc", "xargs",
];

/// The user, as in the official image.
const USER: u64 = 1000;

/// Directories that the server writes to. Every user may write to them, because a container may run
/// as another user.
const WRITABLE: [&str; 4] = ["conf", "data", "datalog", "logs"];

/// Files that are left out of Debian's packages.
const LEFT_OUT: [&str; 6] = [
    "usr/share/man/",
    "usr/share/locale/",
    "usr/share/lintian/",
    "usr/share/menu/",
    "usr/share/info/",
    "etc/skel/",
];

/// The image as a tar archive with an OCI layout.
pub(super) fn image(parts: &Parts) -> Result<Vec<u8>> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("the name of the architecture {other} in an image is not known"),
    };
    let mut files = BTreeMap::new();
    let versions = debian(&mut files)?;
    for entry in ours(parts, &versions)? {
        files.insert(entry.path.clone(), entry);
    }
    let entries = archive::complete(files.into_values().collect());
    let plain = tar(&entries, "", parts.time)?;
    let layer = gzip(&plain, Compression::default())?;
    let config = serde_json::to_vec_pretty(&config(parts, arch, &plain)?)?;
    let manifest = serde_json::to_vec_pretty(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
    }))?;
    let mut described = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    described["platform"] = json!({ "architecture": arch, "os": "linux" });
    described["annotations"] = json!({ "org.opencontainers.image.ref.name": parts.version });
    let index = serde_json::to_vec_pretty(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    }))?;
    let mut layout = vec![
        Entry::file("oci-layout", 0o644, "{\"imageLayoutVersion\":\"1.0.0\"}"),
        Entry::file("index.json", 0o644, index),
    ];
    for blob in [config, manifest, layer] {
        layout.push(Entry::file(format!("blobs/sha256/{}", hash(&blob)), 0o644, blob));
    }
    tar(&archive::complete(layout), "", parts.time)
}

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{}", hash(bytes)), "size": bytes.len() })
}

fn config(parts: &Parts, arch: &str, layer: &[u8]) -> Result<Value> {
    let created = jiff::Timestamp::from_second(i64::try_from(parts.time)?)?.to_string();
    let writable = WRITABLE.map(|name| (format!("/{name}"), json!({})));
    let ports =
        ["2181", "2888", "3888", "7000", "8080"].map(|port| (format!("{port}/tcp"), json!({})));
    Ok(json!({
        "created": created,
        "architecture": arch,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": BTreeMap::from(ports),
            "Env": [
                "PATH=/usr/share/zookeeper/bin:/usr/bin",
                "ZOO_CONF_DIR=/conf",
                "ZOO_DATA_DIR=/data",
                "ZOO_DATA_LOG_DIR=/datalog",
                "ZOO_LOG_DIR=/logs",
                "ZOOCFGDIR=/conf",
                // Tells tools that look for a JVM's JMX that there is none.
                "JMXDISABLE=true",
            ],
            "Entrypoint": ["/docker-entrypoint.sh"],
            "Cmd": ["zkServer.sh", "start-foreground"],
            "Volumes": BTreeMap::from(writable),
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "zebu",
                "org.opencontainers.image.version": parts.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hash(layer))] },
        "history": [{ "created": created, "created_by": "cargo xtask dist --only image" }],
    }))
}

/// Our own files.
fn ours(parts: &Parts, versions: &str) -> Result<Vec<Entry>> {
    let folder = root().join("deploy/image");
    let script = |name: &str| fs::read(folder.join(name)).with_context(|| name.to_owned());
    let mut entries = vec![
        Entry::file("usr/bin/zebu", 0o755, parts.program.clone()),
        Entry::file("docker-entrypoint.sh", 0o755, script("docker-entrypoint.sh")?),
        // Bitnami's charts look for the script there.
        Entry::link("entrypoint.sh", "/docker-entrypoint.sh"),
        Entry::file("members.sh", 0o755, script("members.sh")?),
        Entry::file("run.sh", 0o755, script("run.sh")?),
        Entry::link("opt/bitnami/scripts/zookeeper/entrypoint.sh", "/docker-entrypoint.sh"),
        Entry::link("opt/bitnami/scripts/zookeeper/run.sh", "/run.sh"),
        Entry::file(
            "opt/bitnami/scripts/zookeeper/healthcheck.sh",
            0o755,
            script("healthcheck.sh")?,
        ),
        Entry::link("opt/bitnami/zookeeper/bin", "/usr/share/zookeeper/bin"),
        Entry::file(
            "etc/passwd",
            0o644,
            format!("root:x:0:0:root:/:/bin/bash\nzookeeper:x:{USER}:{USER}::/:/bin/bash\n"),
        ),
        Entry::file("etc/group", 0o644, format!("root:x:0:\nzookeeper:x:{USER}:\n")),
        // The container runtime replaces this file.
        Entry::file("etc/hosts", 0o644, "127.0.0.1 localhost\n::1 localhost\n"),
        Entry::file("etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files dns\n"),
        Entry::file("usr/share/doc/zebu/copyright", 0o644, fs::read(root().join("LICENSE"))?),
        Entry::file("usr/share/doc/zebu/debian-packages", 0o644, versions),
        Entry::link("usr/bin/sh", "bash"),
        Entry::dir("tmp", 0o1777),
        Entry::dir("proc", 0o555),
        Entry::dir("sys", 0o555),
        Entry::dir("dev", 0o755),
    ];
    for name in ["bin", "sbin", "lib", "lib64"] {
        entries.push(Entry::link(name, format!("usr/{name}")));
    }
    entries.push(Entry::dir("usr/sbin", 0o755));
    entries.extend(super::folder_of(&root().join("bin"), "usr/share/zookeeper/bin", 0o755)?);
    entries.extend(WRITABLE.map(|name| Entry::dir(name, 0o777).owned_by(USER)));
    entries.extend(BUSYBOX.map(|name| Entry::link(format!("usr/bin/{name}"), "busybox")));
    Ok(entries)
}

/// Adds the files of Debian packages. Returns their versions, one package per line.
fn debian(files: &mut BTreeMap<String, Entry>) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut download = Command::new("apt-get");
    download.args(["download", "-qq"]).args(PACKAGES).current_dir(folder.path());
    if run_tool(&mut download, "apt").is_err() {
        // The machine's package lists are missing or outdated.
        let mut update = Command::new("apt-get");
        run_tool(update.args(["update", "-qq"]), "apt")?;
        run_tool(&mut download, "apt")?;
    }
    let mut packages: Vec<_> = fs::read_dir(folder.path())?
        .map(|entry| Ok(entry?.path()))
        .filter(|path: &Result<_>| {
            path.as_ref().is_ok_and(|path| path.extension().is_some_and(|e| e == "deb"))
        })
        .collect::<Result<_>>()?;
    packages.sort();
    ensure!(packages.len() == PACKAGES.len(), "apt-get download: {packages:?}");
    let mut versions = String::new();
    for package in packages {
        let name = package.file_stem().context("a name")?.to_string_lossy().into_owned();
        versions += &format!("{}\n", name.replace('_', " ").replace("%3a", ":"));
        unpack(&package, files).with_context(|| name)?;
    }
    Ok(versions)
}

fn unpack(package: &Path, files: &mut BTreeMap<String, Entry>) -> Result<()> {
    let output = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package).output()?;
    ensure!(output.status.success(), "dpkg-deb: {}", String::from_utf8_lossy(&output.stderr));
    let mut archive = tar::Archive::new(output.stdout.as_slice());
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        let path = merged(path.trim_end_matches('/'));
        let is_document = path.starts_with("usr/share/doc/") && !path.ends_with("/copyright");
        if path.is_empty()
            || is_document
            || LEFT_OUT.iter().any(|left_out| path.starts_with(left_out))
        {
            continue;
        }
        let kind = entry.header().entry_type();
        // No program in the image may change its user.
        let mode = entry.header().mode()? & 0o777;
        let content = if kind.is_file() {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            Content::File(bytes)
        } else if kind.is_symlink() {
            let target = entry.link_name()?.context("a link has a target")?;
            Content::Link(target.to_string_lossy().into_owned())
        } else if kind.is_hard_link() {
            let target = entry.link_name()?.context("a link has a target")?;
            let target = merged(target.to_string_lossy().trim_start_matches("./"));
            files
                .get(&target)
                .with_context(|| format!("{path}: {target} is missing"))?
                .content
                .clone()
        } else {
            // Directories are created for their files.
            continue;
        };
        files.insert(path.clone(), Entry { path, mode, owner: 0, content });
    }
    Ok(())
}

/// Debian's root directory has links into `usr`. Some packages still use the old paths.
fn merged(path: &str) -> String {
    let old = ["bin", "sbin", "lib", "lib64"];
    match path.split_once('/') {
        Some((first, _)) if old.contains(&first) => format!("usr/{path}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_directories_are_those_below_usr() {
        assert_eq!(merged("lib/x86_64-linux-gnu/libc.so.6"), "usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(merged("lib64/ld-linux-x86-64.so.2"), "usr/lib64/ld-linux-x86-64.so.2");
        assert_eq!(merged("library/x"), "library/x");
        assert_eq!(merged("usr/bin/bash"), "usr/bin/bash");
    }
}
