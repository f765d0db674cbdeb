//! The files that store a server's configuration: their names and contents.
//!
//! The static file is the operator's `zoo.cfg`. The first committed configuration moves the members
//! from it to a dynamic file, whose name ends with the version, and leaves a pointer. A proposed
//! configuration has a file of its own until it is committed or replaced.
//!
//! This module reads and writes no files. The driver writes to a temporary name, syncs and renames.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;
use zebu_proto::properties::{self, Property};

use super::text::{VERSION, is_config_key};
use super::{Membership, Rules, TextError};

/// Key of the pointer to the dynamic file.
pub const DYNAMIC_FILE_KEY: &str = "dynamicConfigFile";

/// A key that a commit removes from the static file, besides the members.
const PEER_TYPE_KEY: &str = "peerType";
/// Also removed if the members give this server's client address.
const CLIENT_PORT_KEY: &str = "clientPort";

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The backup of the operator's static file.
pub fn backup(static_file: &Path) -> PathBuf {
    with_suffix(static_file, ".bak")
}

/// The dynamic file of a committed configuration.
pub fn committed(static_file: &Path, version: Zxid) -> PathBuf {
    with_suffix(static_file, &format!(".dynamic.{:x}", version.0))
}

/// The file of a proposed configuration.
pub fn proposed(static_file: &Path) -> PathBuf {
    with_suffix(static_file, ".dynamic.next")
}

/// The version in a dynamic file's name: a hexadecimal number after the last dot.
/// Source: `QuorumPeerConfig.getVersionFromFilename`.
pub fn version_in_name(dynamic_file: &Path) -> Option<Zxid> {
    let (_, suffix) = dynamic_file.to_str()?.rsplit_once('.')?;
    i64::from_str_radix(suffix, 16).ok().filter(|version| *version >= 0).map(Zxid)
}

impl Membership {
    /// The dynamic file of a committed configuration: sorted, without the version, which is in the
    /// name.
    pub fn committed_text(&self) -> String {
        self.sorted_text(false)
    }

    /// The file of a proposed configuration: sorted, with the version.
    pub fn proposed_text(&self) -> String {
        self.sorted_text(true)
    }

    fn sorted_text(&self, with_version: bool) -> String {
        let text = self.to_string();
        let mut lines: Vec<&str> =
            text.lines().filter(|line| with_version || !line.starts_with(VERSION)).collect();
        lines.sort_unstable();
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// Parses a dynamic file. The version is that in its name, otherwise the one inside, otherwise
    /// 0.
    ///
    /// # Errors
    /// [`TextError`], with the line.
    pub fn parse_dynamic_file(file: &Path, text: &[u8], rules: Rules) -> Result<Self, TextError> {
        let membership = Self::parse(text, rules)?;
        Ok(match version_in_name(file) {
            Some(version) => membership.with_version(version),
            None => membership,
        })
    }
}

/// The static file after a commit: without members, roles and the old pointer, with a pointer to
/// `dynamic_file`, and without the client port if the members contain it. Comments and the order of
/// the rest stay.
/// Source: `QuorumPeerConfig.editStaticConfig`.
///
/// # Errors
/// [`TextError`] if it is not a properties file.
pub fn edited_static_text(
    text: &[u8],
    dynamic_file: &str,
    erase_client_port: bool,
) -> Result<String, TextError> {
    let parsed = properties::parse(text)?;
    let goes = |entry: &&Property| {
        let key = entry.key.trim();
        is_config_key(key)
            || key.starts_with(DYNAMIC_FILE_KEY)
            || key.starts_with(PEER_TYPE_KEY)
            || (erase_client_port && key.starts_with(CLIENT_PORT_KEY))
    };
    let gone: Vec<_> = (parsed.entries.iter().chain(&parsed.replaced))
        .filter(goes)
        .map(|entry| entry.line..=entry.last_line)
        .collect();
    let decoded = properties::decode(text);
    let mut edited = String::with_capacity(decoded.len());
    for (number, line) in (1u32..).zip(properties::natural_lines(&decoded)) {
        if !gone.iter().any(|lines| lines.contains(&number)) {
            edited.push_str(line);
            edited.push('\n');
        }
    }
    let end = edited.trim_end_matches('\n').len();
    edited.truncate(end);
    if !edited.is_empty() {
        edited.push('\n');
        // A continuation line would swallow the pointer.
        if edited.trim_end_matches('\n').ends_with('\\') {
            edited.push('\n');
        }
    }
    edited.push_str(&format!("{DYNAMIC_FILE_KEY}={}\n", escaped(dynamic_file)));
    Ok(edited)
}

/// Escapes a value for a properties file.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for (index, c) in value.char_indices() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' | ' ' | '\u{c}' if index == 0 => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}
