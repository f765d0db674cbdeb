//! The members of an ensemble, from `server.N`, `group.N` and `weight.N` lines in `zoo.cfg` and in
//! the dynamic configuration file; and which of them is this server.
//!
//! A single participant is not an ensemble: the server runs standalone, and its line may contain
//! its client port.
//!
//! Source: `QuorumPeerConfig.parseProperties`, `parseDynamicConfig`, `setupMyId`,
//! `setupClientPort`, `checkValidity`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::properties::{self, Property};
use zebu_proto::{HostPort, ServerId};
use zebu_zab::config::{Membership, Rules, files, is_config_key};

use super::ensemble::id_note;
use super::sources::{Merged, Origin, ReadFile, Sources, Start};
use super::{Note, Problem};

/// The evaluated member lines.
#[derive(Default)]
pub(super) struct Members {
    /// Whether the lines make an ensemble, whatever other errors they have.
    pub(super) is_ensemble: bool,
    /// The ensemble; `None` for a standalone server.
    pub(super) ensemble: Option<Ensemble>,
    /// The client address in this server's line, and the position of the line.
    pub(super) client: Option<(HostPort, Origin)>,
}

/// The ensemble that this server belongs to.
pub(super) struct Ensemble {
    pub(super) me: ServerId,
    pub(super) members: Membership,
    pub(super) dynamic_file: Option<PathBuf>,
    /// The proposed configuration that was not committed, if there is one.
    pub(super) proposed: Option<Membership>,
    /// The line of the second participant, because of which this is an ensemble.
    pub(super) origin: Origin,
}

/// Lines that belong together, and the position of each.
struct Lines {
    /// The line numbers count from 1 into `origins`.
    entries: Vec<Property>,
    origins: Vec<Origin>,
    /// The position of all of them.
    origin: Origin,
    dynamic_file: Option<PathBuf>,
}

impl Lines {
    fn add(&mut self, key: &str, value: &str, origin: Origin) {
        self.origins.push(origin);
        let line = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        self.entries.push(Property { key, value, line, last_line: line });
    }

    fn origin_of(&self, line: u32) -> Origin {
        let at = (line as usize).checked_sub(1).and_then(|at| self.origins.get(at));
        at.unwrap_or(&self.origin).clone()
    }

    fn origin_of_member(&self, server: ServerId) -> Origin {
        let entry = self.entries.iter().find(|entry| {
            let id = entry.key.strip_prefix("server.").and_then(|id| id.parse().ok());
            id == Some(server.0)
        });
        self.origin_of(entry.map_or(0, |entry| entry.line))
    }
}

/// Reads the members. Errors are added to `merged.problems`.
pub(super) fn members(merged: &mut Merged, sources: &Sources<'_>, rules: Rules) -> Members {
    let Some(lines) = lines(merged, sources.read) else { return Members::default() };
    let is_asked = !lines.entries.is_empty() || !rules.standalone;
    let members = if is_asked { parse(&lines, rules, &mut merged.problems) } else { None };
    let voters: Vec<ServerId> = members.iter().flat_map(Membership::voters).collect();
    let may_have_id =
        matches!(sources.start, Start::File(_)) || voters.len() > 1 || !rules.standalone;
    let my_id = if may_have_id { my_id(merged, sources.read) } else { MyId::Missing };
    let Some(members) = members else { return Members::default() };

    let unusable = Members { is_ensemble: true, ..Members::default() };
    let (me, my_origin) = match (my_id, voters.as_slice(), rules.standalone) {
        (_, [], _) => return Members::default(),
        (my_id, [only], true) => {
            return alone(&lines, &members, *only, my_id, &mut merged.notes);
        }
        (MyId::Faulty, _, _) => return unusable,
        (MyId::Missing, _, _) => {
            // A missing data directory is the greater problem.
            if let Some(path) = my_id_path(merged) {
                let origin = Origin::File { path: Arc::from(path.as_path()), line: 0 };
                let text = "myid file is missing\nhint: write this server's number into it, that of its line server.N=...";
                merged.problems.push(Problem::new(origin, text.to_owned()));
            }
            return unusable;
        }
        (MyId::Is(me, origin), _, _) => (me, origin),
    };
    let Some(member) = members.member(me) else {
        let text = format!("My id {} not in the peer list", me.0);
        merged.problems.push(Problem::new(my_origin, text));
        return unusable;
    };
    merged.notes.extend(id_note(&my_origin, me.0));
    let client = member.client.clone().map(|client| (client, lines.origin_of_member(me)));
    let origin = match voters.get(1) {
        Some(second) => lines.origin_of_member(*second),
        None => merged
            .given
            .get("standaloneEnabled")
            .map_or(Origin::Default, |given| given.origin.clone()),
    };
    let dynamic_file = lines.dynamic_file;
    let proposed = match &sources.start {
        Start::File(file) => proposed(merged, sources.read, file),
        _ => None,
    };
    let ensemble = Some(Ensemble { me, members, dynamic_file, proposed, origin });
    Members { is_ensemble: true, ensemble, client }
}

/// The configuration that was proposed when this server stopped.
fn proposed(merged: &mut Merged, read: ReadFile<'_>, file: &Path) -> Option<Membership> {
    let path = files::proposed(file);
    let text = match read(&path) {
        Ok(bytes) => match Membership::agreed(&bytes) {
            Some(proposed) => return Some(proposed),
            None => "this is no configuration".to_owned(),
        },
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return None,
        Err(fault) => format!("cannot read the proposed configuration: {fault}"),
    };
    let origin = Origin::File { path: Arc::from(path.as_path()), line: 0 };
    merged.problems.push(Problem::new(origin, text));
    None
}

/// A single participant.
fn alone(
    lines: &Lines,
    members: &Membership,
    only: ServerId,
    my_id: MyId,
    notes: &mut Vec<Note>,
) -> Members {
    let origin = lines.origin_of_member(only);
    notes.push(Note::info(format!(
        "{origin}: server.{} is the only one: running standalone",
        only.0
    )));
    if let MyId::Is(me, origin) = my_id
        && me != only
    {
        notes.push(Note::warn(format!(
            "{origin}: myid is {}, but the only server line is server.{}",
            me.0, only.0
        )));
    }
    let client = members.member(only).and_then(|member| member.client.clone());
    Members { client: client.map(|client| (client, origin)), ..Members::default() }
}

fn parse(lines: &Lines, rules: Rules, problems: &mut Vec<Problem>) -> Option<Membership> {
    match Membership::from_entries(&lines.entries, rules) {
        Ok(members) => {
            let version = lines.dynamic_file.as_deref().and_then(files::version_in_name);
            Some(members.with_version(version.unwrap_or_default()))
        }
        Err(faults) => {
            for fault in faults {
                let text = match (fault.line as usize).checked_sub(1) {
                    Some(at) => format!("{}: {}", lines.entries[at].key, fault.fault),
                    None => fault.fault.to_string(),
                };
                problems.push(Problem::new(lines.origin_of(fault.line), text));
            }
            None
        }
    }
}

/// The lines of the dynamic file, or of the static one if there is no dynamic file; `None` after an
/// error.
fn lines(merged: &mut Merged, read: ReadFile<'_>) -> Option<Lines> {
    let path = merged.given.get("dynamicConfigFile").filter(|given| !given.value().is_empty());
    let path = path.map(|given| PathBuf::from(given.value()));
    let mut lines = Lines {
        entries: Vec::new(),
        origins: Vec::new(),
        origin: Origin::Default,
        dynamic_file: path.clone(),
    };
    let here = merged.given.values().filter(|given| is_config_key(&given.key));
    let Some(path) = path else {
        if let Some(given) = merged.given.get("standaloneEnabled") {
            lines.origin = given.origin.clone();
        }
        for given in here {
            lines.add(&given.key, given.value(), given.origin.clone());
        }
        return Some(lines);
    };
    for given in here {
        merged.problems.push(Problem::new(
            given.origin.clone(),
            format!("parameter: {} must be in a separate dynamic config file", given.key),
        ));
    }
    read_dynamic_file(&path, read, &mut lines, &mut merged.problems).then_some(lines)
}

/// Whether the file could be read.
fn read_dynamic_file(
    path: &Path,
    read: ReadFile<'_>,
    lines: &mut Lines,
    problems: &mut Vec<Problem>,
) -> bool {
    let path: Arc<Path> = Arc::from(path);
    let at = |line| Origin::File { path: Arc::clone(&path), line };
    lines.origin = at(0);
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(fault) => {
            let mut text = format!("cannot read dynamic configuration file: {fault}");
            if path.is_relative() {
                text.push_str(
                    "\nhint: a relative path begins at the working directory: write it in full",
                );
            }
            problems.push(Problem::new(at(0), text));
            return false;
        }
    };
    let parsed = match properties::parse(&bytes) {
        Ok(parsed) => parsed,
        Err(fault) => {
            problems.push(Problem::new(at(fault.line()), fault.to_string()));
            return false;
        }
    };
    let mut is_good = true;
    for property in parsed.entries {
        let key = property.key.trim();
        let text = if is_config_key(key) {
            lines.add(key, &property.value, at(property.line));
            continue;
        } else if key == "version" {
            "dynamic file shouldn't have version inside".to_owned()
        } else {
            format!("unrecognised parameter: {key}")
        };
        problems.push(Problem::new(at(property.line), text));
        is_good = false;
    }
    is_good
}

/// The content of `<dataDir>/myid`.
enum MyId {
    Missing,
    /// The problem has been reported.
    Faulty,
    Is(ServerId, Origin),
}

fn my_id_path(merged: &Merged) -> Option<PathBuf> {
    merged.given.get("dataDir").map(|data_dir| Path::new(data_dir.value()).join("myid"))
}

/// Checks `myid`, if it exists, as the original does even for a standalone server.
fn my_id(merged: &mut Merged, read: ReadFile<'_>) -> MyId {
    let Some(path) = my_id_path(merged) else { return MyId::Missing };
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return MyId::Missing,
        Err(fault) => {
            let origin = Origin::File { path: Arc::from(path.as_path()), line: 0 };
            merged.problems.push(Problem::new(origin, format!("cannot read myid file: {fault}")));
            return MyId::Faulty;
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    let text = text.lines().next().unwrap_or_default().trim().to_owned();
    let origin = Origin::File { path: Arc::from(path.as_path()), line: 1 };
    match text.parse() {
        Ok(id) => MyId::Is(ServerId(id), origin),
        Err(_) => {
            merged.problems.push(Problem::new(origin, format!("serverid {text} is not a number")));
            MyId::Faulty
        }
    }
}
