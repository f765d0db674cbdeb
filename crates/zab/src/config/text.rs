//! Parses and prints configurations.

use std::collections::BTreeMap;
use std::fmt;

use zebu_proto::properties::{self, Property};
use zebu_proto::{ServerId, Zxid};

use super::verifier::{Groups, Verifier};
use super::{ConfigFault, Member, Membership, Role, Rules, TextError};

/// Prefix of a member's key.
pub(super) const SERVER: &str = "server.";
/// Prefix of the keys of groups; any of them makes quorums hierarchical.
pub(super) const GROUP: &str = "group";
/// Prefix of the keys of weights; like [`GROUP`], makes quorums hierarchical.
pub(super) const WEIGHT: &str = "weight";
/// The key of the version.
pub(super) const VERSION: &str = "version";

/// Whether a key of the static file belongs to the ensemble's configuration.
pub fn is_config_key(key: &str) -> bool {
    key.starts_with(SERVER) || key.starts_with(GROUP) || key.starts_with(WEIGHT)
}

impl Membership {
    /// Parses a configuration.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn parse(text: &[u8], rules: Rules) -> Result<Self, TextError> {
        let entries = properties::parse(text)?.entries;
        Self::from_entries(&entries, rules).map_err(|mut faults| faults.remove(0))
    }

    /// Makes a configuration from the entries of a properties file. Other keys are errors.
    /// Source: `QuorumPeerConfig.parseDynamicConfig`, `QuorumHierarchical.parse`.
    ///
    /// # Errors
    /// All errors, at least one, by line.
    pub fn from_entries(entries: &[Property], rules: Rules) -> Result<Self, Vec<TextError>> {
        let mut builder = Builder::default();
        let mut faults = Vec::new();
        for entry in entries {
            if let Err(fault) = builder.add(entry, rules) {
                faults.push(fault.at(entry.line));
            }
        }
        if faults.is_empty() {
            faults = match builder.finish(rules) {
                Ok(membership) => return Ok(membership),
                Err(faults) => faults,
            };
        }
        faults.sort_by_key(|fault| fault.line);
        Err(faults)
    }

    /// The members in the print order of the original, which is that of its hash table. Members in
    /// the same bucket are in the order of their ids.
    fn printed(&self) -> Vec<&Member> {
        in_hash_order(self.members.values().collect(), |member| member.id.0)
    }
}

#[derive(Default)]
struct Builder {
    members: BTreeMap<ServerId, Member>,
    is_hierarchical: bool,
    groups: Groups,
    version: Zxid,
    /// The members' lines, for errors found at the end.
    member_lines: BTreeMap<ServerId, u32>,
    /// The lines that assign servers to groups.
    group_lines: BTreeMap<ServerId, u32>,
}

impl Builder {
    fn add(&mut self, entry: &Property, rules: Rules) -> Result<(), ConfigFault> {
        let (key, value) = (entry.key.trim(), entry.value.trim());
        if let Some(id) = key.strip_prefix(SERVER) {
            let id = server_id(id)?;
            let member = Member::parse(id, value, rules.multi_address)?;
            if self.members.insert(id, member).is_some() {
                return Err(ConfigFault::Twice(id));
            }
            self.member_lines.insert(id, entry.line);
        } else if key.starts_with(GROUP) {
            self.is_hierarchical = true;
            let id = key.split_once('.').map_or(key, |(_, id)| id);
            let id = id.parse().map_err(|_| ConfigFault::GroupId(id.to_owned()))?;
            let members = self.groups.groups.entry(id).or_default();
            for text in value.split(':') {
                let server = server_id(text)?;
                if self.group_lines.insert(server, entry.line).is_some() {
                    return Err(ConfigFault::InTwoGroups(server));
                }
                members.insert(server);
            }
        } else if key.starts_with(WEIGHT) {
            self.is_hierarchical = true;
            let server = server_id(key.split_once('.').map_or(key, |(_, id)| id))?;
            let weight = (value.parse().ok())
                .filter(|weight| i64::try_from(*weight).is_ok())
                .ok_or_else(|| ConfigFault::Weight(value.to_owned()))?;
            if self.groups.weights.insert(server, weight).is_some() {
                return Err(ConfigFault::Twice(server));
            }
        } else if key == VERSION {
            let version = i64::from_str_radix(value, 16).ok().filter(|version| *version >= 0);
            self.version = Zxid(version.ok_or_else(|| ConfigFault::Version(value.to_owned()))?);
        } else {
            return Err(ConfigFault::Key(key.to_owned()));
        }
        Ok(())
    }

    fn finish(mut self, rules: Rules) -> Result<Membership, Vec<TextError>> {
        let voters = self.members.values().filter(|member| member.role == Role::Participant);
        let voters: Vec<ServerId> = voters.map(|member| member.id).collect();
        let mut faults = Vec::new();
        let observer = self.members.values().find(|member| member.role == Role::Observer);
        let observer = observer.map(|observer| self.member_lines[&observer.id]);
        match (voters.len(), observer) {
            (0, _) if !rules.standalone => faults.push(ConfigFault::NoVoters.at(0)),
            (0, Some(line)) => faults.push(ConfigFault::ObserversAlone.at(line)),
            (1, Some(line)) if rules.standalone => {
                faults.push(ConfigFault::ObserversWithoutQuorum.at(line));
            }
            _ => {}
        }
        let mut verifier = Verifier::Majority;
        if self.is_hierarchical {
            for voter in voters {
                if !self.group_lines.contains_key(&voter) {
                    faults.push(ConfigFault::InNoGroup(voter).at(self.member_lines[&voter]));
                }
                self.groups.weights.entry(voter).or_insert(1);
            }
            for (server, line) in &self.group_lines {
                if !self.groups.weights.contains_key(server) {
                    faults.push(ConfigFault::NoWeight(*server).at(*line));
                }
            }
            verifier = Verifier::Hierarchical(self.groups);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Membership { members: self.members, verifier, version: self.version })
    }
}

pub(super) fn server_id(text: &str) -> Result<ServerId, ConfigFault> {
    (text.parse().ok().filter(|id| *id >= 0).map(ServerId))
        .ok_or_else(|| ConfigFault::ServerId(text.to_owned()))
}

/// Sorts by the bucket of an id in a `java.util.HashMap` of this size. The order within a bucket
/// stays.
fn in_hash_order<T>(mut entries: Vec<T>, id: impl Fn(&T) -> i64) -> Vec<T> {
    let mut buckets = 16;
    while entries.len() > buckets / 4 * 3 {
        buckets *= 2;
    }
    let bucket = |id: i64| {
        let hash = (id ^ (id as u64 >> 32) as i64) as u32;
        (hash ^ hash >> 16) as usize & (buckets - 1)
    };
    entries.sort_by_key(|entry| bucket(id(entry)));
    entries
}

impl fmt::Display for Membership {
    /// The text, without a newline after the version.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for member in self.printed() {
            writeln!(f, "{SERVER}{}={member}", member.id.0)?;
        }
        if let Verifier::Hierarchical(groups) = &self.verifier {
            let grouped: Vec<_> = (groups.groups())
                .flat_map(|(id, members)| members.iter().map(move |member| (id, member)))
                .collect();
            let grouped = in_hash_order(grouped, |(_, member)| member.0);
            // The original meets the groups in this order.
            let mut ids: Vec<i64> = Vec::new();
            for (id, _) in &grouped {
                if !ids.contains(id) {
                    ids.push(*id);
                }
            }
            for id in in_hash_order(ids, |id| *id) {
                let members: Vec<String> = (grouped.iter())
                    .filter(|(group, _)| *group == id)
                    .map(|(_, member)| member.0.to_string())
                    .collect();
                writeln!(f, "{GROUP}.{id}={}", members.join(":"))?;
            }
            let weights = groups.weights.iter().collect();
            for (server, weight) in in_hash_order(weights, |(server, _)| server.0) {
                writeln!(f, "{WEIGHT}.{}={weight}", server.0)?;
            }
        }
        write!(f, "{VERSION}={:x}", self.version.0)
    }
}
