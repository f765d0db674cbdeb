//! Archives whose bytes depend on their content only: tar, gzip, and the `ar` of Debian's packages.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};

/// One file, link or directory of an archive. The order of the archive is that of the paths.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The path from the root, without a slash at either end.
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// The numeric user and group.
    pub(crate) owner: u64,
    pub(crate) content: Content,
}

/// The kind and content of an entry.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    File(Vec<u8>),
    Link(String),
    Dir,
}

impl Entry {
    pub(crate) fn file(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, owner: 0, content: Content::File(bytes.into()) }
    }

    pub(crate) fn link(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o777, owner: 0, content: Content::Link(target.into()) }
    }

    pub(crate) fn dir(path: impl Into<String>, mode: u32) -> Self {
        Self { path: path.into(), mode, owner: 0, content: Content::Dir }
    }

    pub(crate) fn owned_by(mut self, owner: u64) -> Self {
        self.owner = owner;
        self
    }

    /// The bytes of a file.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::File(bytes) => Some(bytes),
            Content::Link(_) | Content::Dir => None,
        }
    }
}

/// Sorts entries by path, and adds missing parent directories.
pub(crate) fn complete(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut missing = std::collections::BTreeSet::new();
    for entry in &entries {
        for above in Path::new(&entry.path).ancestors().skip(1) {
            missing.insert(above.to_string_lossy().into_owned());
        }
    }
    missing.remove("");
    for entry in &entries {
        missing.remove(&entry.path);
    }
    entries.extend(missing.into_iter().map(|path| Entry::dir(path, 0o755)));
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries
}

/// A tar archive; each path begins with `prefix`.
pub(crate) fn tar(entries: &[Entry], prefix: &str, time: u64) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(time);
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        let path = format!("{prefix}{}", entry.path);
        match &entry.content {
            Content::File(bytes) => {
                header.set_size(bytes.len() as u64);
                tar.append_data(&mut header, &path, bytes.as_slice())
            }
            Content::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                tar.append_link(&mut header, &path, target)
            }
            Content::Dir => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_size(0);
                tar.append_data(&mut header, format!("{path}/"), std::io::empty())
            }
        }
        .with_context(|| path)?;
    }
    Ok(tar.into_inner()?)
}

/// Compresses with gzip. The result contains neither a name nor a time.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), level);
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

/// An `ar` archive of these members.
pub(crate) fn ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut ar = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header =
            format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 100644, bytes.len());
        ar.extend(header.as_bytes());
        ar.extend(*bytes);
        if bytes.len() % 2 == 1 {
            ar.push(b'\n');
        }
    }
    ar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_above_come_first_and_once() {
        let entries = vec![
            Entry::file("usr/bin/zebu", 0o755, "x"),
            Entry::dir("usr/bin", 0o700),
            Entry::link("usr/a", "b"),
        ];
        let entries = complete(entries);
        let found: Vec<(&str, u32)> = entries.iter().map(|e| (e.path.as_str(), e.mode)).collect();
        let expected =
            [("usr", 0o755), ("usr/a", 0o777), ("usr/bin", 0o700), ("usr/bin/zebu", 0o755)];
        assert_eq!(found, expected);
    }

    /// The header of `ar(5)`: 60 bytes, then the content, padded to an even length.
    #[test]
    fn ar_headers_are_sixty_bytes_and_members_begin_at_even_offsets() {
        let ar = ar(&[("debian-binary", b"2.0\n"), ("odd", b"abc"), ("last", b"")], 7);
        let expected = "!<arch>\n\
            debian-binary   7           0     0     100644  4         `\n2.0\n\
            odd             7           0     0     100644  3         `\nabc\n\
            last            7           0     0     100644  0         `\n";
        assert_eq!(String::from_utf8(ar).unwrap(), expected);
    }

    #[test]
    fn the_same_entries_give_the_same_bytes() {
        let entries = complete(vec![Entry::file("a/b", 0o644, "x").owned_by(1000)]);
        let once = gzip(&tar(&entries, "./", 9).unwrap(), Compression::best()).unwrap();
        assert_eq!(once, gzip(&tar(&entries, "./", 9).unwrap(), Compression::best()).unwrap());
    }
}
