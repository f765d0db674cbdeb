//! Members of an ensemble, from `server.N` lines here and in the dynamic configuration file.
//!
//! This version runs standalone servers only, so the question is: is there at most one participant, and which client port does
//! its line give?
//!
//! Source: `QuorumPeerConfig.parseProperties`, `parseDynamicConfig`, `setupMyId`, `setupClientPort`.

use std::path::Path;
use std::sync::Arc;

use zebu_proto::properties;

use super::member::{self, ClientAddress, Member};
use super::registry::Part;
use super::sources::{Merged, Origin, ReadFile};
use super::{Note, Problem};

/// The member lines, judged.
#[derive(Default)]
pub(super) struct Members {
    /// The one participant.
    pub(super) only: Option<i64>,
    /// Where the one participant serves clients, and where that is said.
    pub(super) client: Option<(ClientAddress, Origin)>,
}

/// Whether a key belongs into the dynamic file.
fn is_dynamic(key: &str) -> bool {
    key.starts_with("server.") || key.starts_with("group.") || key.starts_with("weight.")
}

/// Reads the members. Faults go to `merged.problems`.
pub(super) fn members(merged: &mut Merged, read: ReadFile<'_>) -> Members {
    let mut lines: Vec<(String, String, Origin)> = merged
        .given
        .values()
        .filter(|given| given.key.starts_with("server."))
        .map(|given| (given.key.clone(), given.value().to_owned(), given.origin.clone()))
        .collect();
    if let Some(dynamic) =
        merged.given.get("dynamicConfigFile").filter(|given| !given.value().is_empty())
    {
        let path = dynamic.value().to_owned();
        for given in merged.given.values().filter(|given| is_dynamic(&given.key)) {
            merged.problems.push(Problem::new(
                given.origin.clone(),
                format!("parameter: {} must be in a separate dynamic config file", given.key),
            ));
        }
        lines.extend(read_dynamic_file(Path::new(&path), read, &mut merged.problems));
    }

    let mut participants: Vec<(Member, Origin)> = Vec::new();
    let mut observers = Vec::new();
    for (key, value, origin) in lines {
        let id = key.trim_start_matches("server.");
        match member::parse(id, &value) {
            Ok(member) if member.is_observer => observers.push(origin),
            Ok(member) => participants.push((member, origin)),
            Err(fault) => {
                merged.problems.push(Problem::new(origin, format!("{key}={value}: {fault}")));
            }
        }
    }
    if let [_, (second, origin), ..] = participants.as_slice() {
        merged.problems.push(Problem::new(
            origin.clone(),
            format!(
                "server.{} makes this an ensemble of {}: {}\nhint: leave one server.N line to run it alone",
                second.id,
                participants.len(),
                Part::Ensemble.missing()
            ),
        ));
    } else if let Some(origin) = observers.first() {
        let without = if participants.is_empty() { "participants" } else { "quorum" };
        merged.problems.push(Problem::new(
            origin.clone(),
            format!("Observers w/o {without} is an invalid configuration"),
        ));
    }
    let Some((only, origin)) = participants.into_iter().next() else { return Members::default() };
    merged.notes.push(Note::info(format!(
        "{origin}: server.{} is the only one: running standalone",
        only.id
    )));
    Members { only: Some(only.id), client: only.client.map(|client| (client, origin)) }
}

fn read_dynamic_file(
    path: &Path,
    read: ReadFile<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<(String, String, Origin)> {
    let path: Arc<Path> = Arc::from(path);
    let at = |line| Origin::File { path: Arc::clone(&path), line };
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(fault) => {
            problems.push(Problem::new(
                at(0),
                format!("cannot read dynamic configuration file: {fault}"),
            ));
            return Vec::new();
        }
    };
    let parsed = match properties::parse(&bytes) {
        Ok(parsed) => parsed,
        Err(fault) => {
            problems.push(Problem::new(at(fault.line()), fault.to_string()));
            return Vec::new();
        }
    };
    let mut lines = Vec::new();
    for property in parsed.entries {
        let key = property.key.trim().to_owned();
        if key.starts_with("server.") {
            lines.push((key, property.value.trim().to_owned(), at(property.line)));
        } else if key == "version" {
            problems.push(Problem::new(
                at(property.line),
                "dynamic file shouldn't have version inside".to_owned(),
            ));
        } else if !is_dynamic(&key) {
            problems
                .push(Problem::new(at(property.line), format!("unrecognised parameter: {key}")));
        }
    }
    lines
}

/// Looks at `<dataDir>/myid`, if there is one, as the original does even for a standalone server.
pub(super) fn check_myid(merged: &mut Merged, read: ReadFile<'_>, only: Option<i64>) {
    let Some(data_dir) = merged.given.get("dataDir") else { return };
    let path = Path::new(data_dir.value()).join("myid");
    let Ok(bytes) = read(&path) else { return };
    let text = String::from_utf8_lossy(&bytes);
    let text = text.lines().next().unwrap_or_default().trim().to_owned();
    let origin = Origin::File { path: Arc::from(path.as_path()), line: 1 };
    match (text.parse::<i64>(), only) {
        (Err(_), _) => {
            merged.problems.push(Problem::new(origin, format!("serverid {text} is not a number")));
        }
        (Ok(id), Some(only)) if id != only => {
            merged.notes.push(Note::warn(format!(
                "{origin}: myid is {id}, but the only server line is server.{only}"
            )));
        }
        _ => {}
    }
}
