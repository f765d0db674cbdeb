//! The members of a simulated ensemble: the operators' files, how a start reads them, the
//! configurations that servers send each other, and the changes that an operator requests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use zebu_jute::Encode as _;
use zebu_proto::request::Reconfig;
use zebu_proto::{EnsembleId, ErrorCode, HostPort, ServerId, Zxid, properties};
use zebu_store::Vfs;
use zebu_store::vfs::read;
use zebu_testkit::Random;
use zebu_zab::config::{Member, Membership, Role, Rules, Verifier, files, is_config_key};
use zebu_zab::{ConfigChange, Configs};

use crate::plan::{Change, Meant, Moves, Plan, Target};
use crate::world::World;

/// The operator's configuration file.
pub(crate) const FILE: &str = "/data/zoo.cfg";

/// The error of a server that its own file does not name.
pub(crate) const NOT_A_MEMBER: &str = "My id is not in the peer list";

/// How often the operator requests a change that fails because others are missing.
const TRIES: u32 = 6;

const RULES: Rules = Rules { standalone: false, multi_address: false };

pub(crate) fn id(machine: usize) -> ServerId {
    ServerId(machine as i64 + 1)
}

pub(crate) fn machine(server: ServerId) -> usize {
    server.0 as usize - 1
}

/// The ports of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    quorum: u16,
    election: u16,
    client: u16,
}

impl Ports {
    const FIRST: Self = Self { quorum: 2888, election: 3888, client: 2181 };

    fn of(member: &Member) -> Self {
        let at = &member.addresses[0];
        let client = member.client.as_ref().map_or(Self::FIRST.client, |client| client.port);
        Self { quorum: at.quorum_port, election: at.election_port, client }
    }

    fn moved(self, moves: Moves) -> Self {
        Self {
            quorum: self.quorum + u16::from(moves.quorum),
            election: self.election + u16::from(moves.election),
            client: self.client + u16::from(moves.client),
        }
    }
}

fn entry(machine: usize, role: Role, Ports { quorum, election, client }: Ports) -> String {
    let n = machine + 1;
    format!("server.{n}=10.0.0.{n}:{quorum}:{election}:{role};10.0.0.{n}:{client}")
}

/// The `group` and `weight` lines for these voters: id, group and weight of each.
fn group_lines(voters: impl Iterator<Item = (ServerId, u64, u64)>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut groups: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (ServerId(voter), group, weight) in voters {
        groups.entry(group).or_default().push(voter.to_string());
        lines.push(format!("weight.{voter}={weight}"));
    }
    let groups = groups.into_iter();
    lines.extend(groups.map(|(group, voters)| format!("group.{}={}", group + 1, voters.join(":"))));
    lines
}

/// The `group` and `weight` lines of a configuration.
fn groups_of(config: &Membership) -> Vec<String> {
    let Verifier::Hierarchical(groups) = config.verifier() else { return Vec::new() };
    let all = groups.groups().flat_map(|(group, members)| {
        members.iter().map(move |member| (*member, group as u64 - 1, groups.weight(*member)))
    });
    group_lines(all)
}

/// The file that the operator writes before the first start of a machine: the first members and,
/// unless it is one of them, the machine itself. A machine that is not a member has a vote only if
/// the plan says so.
pub(crate) fn first_file(plan: &Plan, machine: usize) -> String {
    let mut text = String::from("tickTime=2000\n");
    let spares = if plan.edited == Some(machine) {
        plan.members()..plan.members() + plan.spares
    } else {
        machine.max(plan.members())..machine + 1
    };
    for member in (0..plan.members()).chain(spares) {
        let votes = member < plan.voters || member >= plan.members() && plan.spares_vote;
        let role = if votes { Role::Participant } else { Role::Observer };
        text.push_str(&entry(member, role, Ports::FIRST));
        text.push('\n');
    }
    let voters = plan.groups.iter().enumerate();
    for line in group_lines(voters.map(|(voter, (group, weight))| (id(voter), *group, *weight))) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The first configuration.
pub(crate) fn first(plan: &Plan) -> Membership {
    parse(first_file(plan, 0).as_bytes()).expect("a configuration")
}

fn parse(text: &[u8]) -> Result<Membership, String> {
    let entries = properties::parse(text).map_err(|error| error.to_string())?.entries;
    let entries: Vec<_> = entries.into_iter().filter(|entry| is_config_key(&entry.key)).collect();
    Membership::from_entries(&entries, RULES).map_err(|faults| faults[0].to_string())
}

/// The configurations that a start finds in the files.
pub(crate) struct Settings {
    pub(crate) committed: Membership,
    pub(crate) proposed: Option<Membership>,
}

pub(crate) fn settings(vfs: &dyn Vfs, me: ServerId) -> Result<Settings, String> {
    let file = Path::new(FILE);
    let text = read(vfs, file).map_err(|error| error.to_string())?;
    let entries = properties::parse(&text).map_err(|error| error.to_string())?.entries;
    let pointer = entries.iter().find(|entry| entry.key == files::DYNAMIC_FILE_KEY);
    let committed = match pointer {
        None => parse(&text)?,
        Some(pointer) => {
            let file = Path::new(&pointer.value);
            let text = read(vfs, file).map_err(|error| error.to_string())?;
            let read = Membership::parse_dynamic_file(file, &text, RULES);
            read.map_err(|error| error.to_string())?
        }
    };
    if committed.member(me).is_none() {
        return Err(NOT_A_MEMBER.to_owned());
    }
    let proposed = match read(vfs, &files::proposed(file)) {
        Ok(text) => Some(Membership::agreed(&text).ok_or("what is proposed cannot be read")?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.to_string()),
    };
    Ok(Settings { committed, proposed })
}

/// The servers that a server's network knows, and their addresses.
pub(crate) struct Said {
    committed: Arc<Membership>,
    proposed: Option<Arc<Membership>>,
    /// The proposed configuration that others have announced.
    heard: Option<Arc<Membership>>,
    /// The last known entry of this server, which may have been removed since.
    me: Member,
    /// The id of the ensemble, once it is settled.
    pub(crate) ensemble: Option<EnsembleId>,
    /// The election addresses that other servers gave when they connected.
    met: BTreeMap<ServerId, Vec<HostPort>>,
}

impl Said {
    pub(crate) fn new(
        me: ServerId,
        committed: Arc<Membership>,
        proposed: Option<Arc<Membership>>,
        ensemble: Option<EnsembleId>,
    ) -> Self {
        let me = committed.member(me).expect("who starts is a member").clone();
        Self { committed, proposed, heard: None, me, ensemble, met: BTreeMap::new() }
    }

    pub(crate) fn committed(&self) -> &Arc<Membership> {
        &self.committed
    }

    pub(crate) fn change(&mut self, change: &ConfigChange) {
        match change {
            ConfigChange::Proposed(config) => self.proposed = Some(config.clone()),
            ConfigChange::Withdrawn => self.proposed = None,
            ConfigChange::Heard(config) => self.heard.clone_from(config),
            ConfigChange::Committed(config) => {
                if let Some(me) = config.member(self.me.id) {
                    self.me = me.clone();
                }
                self.committed = config.clone();
                let version = config.version();
                self.proposed = self.proposed.take().filter(|it| it.version() > version);
            }
        }
    }

    /// The configurations that notifications contain.
    pub(crate) fn configs(&self) -> Configs {
        Configs {
            committed: Some(self.committed.clone()),
            proposed: self.proposed.clone(),
            ensemble: self.ensemble,
        }
    }

    /// Where this server listens for learners. A server that is about to join listens at its
    /// proposed addresses.
    pub(crate) fn quorum_addresses(&self) -> Vec<HostPort> {
        let id = self.me.id;
        let joins = self.proposed.as_ref().filter(|_| self.committed.member(id).is_none());
        joins.and_then(|config| config.member(id)).unwrap_or(&self.me).quorum_addresses()
    }

    /// The known entries of a server.
    fn known(&self, server: ServerId) -> impl Iterator<Item = &Member> {
        let known = [Some(&self.committed), self.proposed.as_ref(), self.heard.as_ref()];
        known.into_iter().flatten().filter_map(move |config| config.member(server))
    }

    /// Whether this server asks `server` for its vote. A configuration that was only announced
    /// gives addresses, and no votes.
    fn asks(&self, server: ServerId) -> bool {
        let configs = [Some(&self.committed), self.proposed.as_ref()];
        configs.into_iter().flatten().any(|config| config.is_voter(server))
    }

    /// The addresses at which a learner connects to a server.
    pub(crate) fn addresses(&self, server: ServerId) -> Vec<HostPort> {
        self.known(server).flat_map(Member::quorum_addresses).collect()
    }

    /// The election addresses of this server.
    pub(crate) fn election_addresses(&self) -> Vec<HostPort> {
        self.me.election_addresses()
    }

    /// The election addresses of a server: configured ones, and those that it gave when it
    /// connected.
    pub(crate) fn electors(&self, server: ServerId) -> Vec<HostPort> {
        let met = self.met.get(&server).into_iter().flatten().cloned();
        self.known(server).flat_map(Member::election_addresses).chain(met).collect()
    }

    /// A server has connected to this one.
    pub(crate) fn meet(&mut self, server: ServerId, addresses: Vec<HostPort>) {
        self.met.insert(server, addresses);
    }
}

/// A reconfiguration that waits until its operator has a session.
pub(crate) struct Wanted {
    change: Change,
    tries: u32,
}

impl World {
    /// An operator wants to change the members.
    pub(crate) fn want(&mut self, change: Change) {
        self.wanted.push_back(Wanted { change, tries: TRIES });
    }

    /// The next change as a request, if there is one.
    pub(crate) fn next_change(&mut self) -> Option<Vec<u8>> {
        // The remaining members may need a server that has lost its data.
        if self.checks.has_lost_data() {
            return None;
        }
        let Wanted { change, tries } = self.wanted.pop_front()?;
        let body = self.request_of(&change);
        if body.is_some() {
            self.reached("change of the members asked for");
            self.asked_change = Some(Wanted { change, tries: tries - 1 });
        }
        body
    }

    /// The answer to a reconfiguration request; `None` if the result is unknown.
    pub(crate) fn change_answered(&mut self, err: Option<ErrorCode>) {
        let Some(wanted) = self.asked_change.take() else { return };
        let again = match err {
            Some(ErrorCode::OK) => {
                self.reached("members changed");
                false
            }
            None | Some(ErrorCode::NEW_CONFIG_NO_QUORUM | ErrorCode::RECONFIG_IN_PROGRESS) => true,
            Some(_) => {
                self.reached("change of the members refused");
                false
            }
        };
        if again && wanted.tries > 0 && !self.healing {
            self.wanted.push_back(wanted);
        }
    }

    fn request_of(&self, change: &Change) -> Option<Vec<u8>> {
        let newest = self.checks.configs.newest(&self.checks.order).clone();
        let machine = |target: &Target| self.aim(*target);
        let leaving: Vec<usize> = change.leaving.iter().filter_map(machine).collect();
        let mut joining: Vec<(usize, Role, String)> = Vec::new();
        for (target, votes) in &change.joining {
            let at = self.aim(*target)?;
            let role = if *votes { Role::Participant } else { Role::Observer };
            let before = newest.member(id(at)).map_or(Ports::FIRST, Ports::of);
            if joining.iter().all(|(other, ..)| *other != at) {
                joining.push((at, role, entry(at, role, before.moved(change.moves))));
            }
        }
        let config_id = match change.meant {
            Meant::Any => -1,
            Meant::Newest => self.checks.configs.newest_version(&self.checks.order).0,
            Meant::Older => self.checks.configs.newest_version(&self.checks.order).0 - 1,
        };
        let (mut members, mut joins, mut leaves) = (None, None, None);
        if change.whole {
            let stays = |member: &&Member| {
                let at = self::machine(member.id);
                !leaving.contains(&at) && joining.iter().all(|(other, ..)| *other != at)
            };
            let stay = || newest.members().filter(stays);
            let kept = stay().map(|it| entry(self::machine(it.id), it.role, Ports::of(it)));
            let mut lines: Vec<String> = kept.collect();
            lines.extend(joining.iter().map(|(.., entry)| entry.clone()));
            if let Some(seed) = change.groups {
                let kept = stay().filter(|it| it.role == Role::Participant).map(|it| it.id);
                let new = joining.iter().filter(|(_, role, _)| *role == Role::Participant);
                let voters: BTreeSet<ServerId> = kept.chain(new.map(|(at, ..)| id(*at))).collect();
                let mut random = Random::stream(seed, 4);
                let count = random.between(1, 3);
                let drawn = voters.into_iter().enumerate().map(|(place, voter)| {
                    let counts = (place as u64) < count;
                    (voter, place as u64 % count, random.between(u64::from(counts), 2))
                });
                lines.extend(group_lines(drawn));
            }
            members = Some(lines.join("\n"));
        } else {
            let joining: Vec<String> = joining.into_iter().map(|(.., entry)| entry).collect();
            let leaving: Vec<String> = leaving.iter().map(|at| id(*at).0.to_string()).collect();
            joins = Some(joining.join(",")).filter(|list| !list.is_empty());
            leaves = Some(leaving.join(",")).filter(|list| !list.is_empty());
            if joins.is_none() && leaves.is_none() {
                return None;
            }
        }
        let request = Reconfig {
            joining: joins.map(Into::into),
            leaving: leaves.map(Into::into),
            members: members.map(Into::into),
            config_id,
        };
        Some(request.to_bytes())
    }

    /// An operator lets a removed server join as an observer, with a file that names the current
    /// members. With its first file it might form an ensemble with other removed servers.
    pub(crate) fn readmit(&mut self, server: usize) {
        self.reached("a removed server is given the members there are");
        let mut text = String::from("tickTime=2000\n");
        let newest = self.checks.configs.newest(&self.checks.order);
        let members = newest.members();
        let known = members.map(|it| entry(machine(it.id), it.role, Ports::of(it)));
        let stranger = newest.member(id(server)).is_none();
        let itself = stranger.then(|| entry(server, Role::Observer, Ports::FIRST));
        for line in known.chain(itself).chain(groups_of(newest)) {
            text.push_str(&line);
            text.push('\n');
        }
        self.servers[server].disk.put(Path::new(FILE), text.as_bytes());
        self.checks.configs.rewritten(server);
    }

    /// An operator looks after servers that know the current election address of no voter. In the
    /// end, addresses of other servers without a leader do not count.
    pub(crate) fn look_after_strangers(&mut self, in_the_end: bool) {
        let led = self.servers.iter().any(|it| it.leads().is_some());
        for server in 0..self.plan.servers() {
            let it = &self.servers[server];
            let Some(process) = it.process.as_ref().filter(|_| !it.serves()) else { continue };
            let mut others = self.servers.iter().enumerate().filter(|(other, _)| *other != server);
            let is_known = others.any(|(other, it)| {
                if !process.said.asks(id(other)) || in_the_end && led && !it.serves() {
                    return false;
                }
                let known = process.said.electors(id(other));
                let there = it.process.as_ref().map(|process| process.said.election_addresses());
                there.is_none_or(|there| there.iter().any(|address| known.contains(address)))
            });
            if !is_known {
                self.tell(|| format!("server {server} knows nobody's address any more"));
                self.readmit(server);
                self.restart(server);
            }
        }
    }

    pub(crate) fn write_first_file(&mut self, server: usize) {
        let text = first_file(&self.plan, server);
        self.servers[server].disk.put(Path::new(FILE), text.as_bytes());
        self.checks.configs.rewritten(server);
    }
}

/// The zxid of the transaction that made a configuration; `None` for a configuration that no
/// transaction made.
pub(crate) fn txn_of(config: &Membership) -> Option<Zxid> {
    (config.version().counter() > 0).then(|| config.version())
}
