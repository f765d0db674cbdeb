//! The members that the network between servers knows, and their addresses.

use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::{HostPort, ServerId};
use zebu_zab::ConfigChange;
use zebu_zab::config::{Member, Membership};

/// The configurations in use.
#[derive(Debug)]
pub(super) struct Members {
    committed: Arc<Membership>,
    proposed: Option<Arc<Membership>>,
    /// The configuration that other servers report as proposed.
    heard: Option<Arc<Membership>>,
    /// This server's last known entry: it may have been removed.
    me: Member,
    /// The text for notifications.
    text: Bytes,
    proposed_text: Option<Bytes>,
}

impl Members {
    pub(super) fn new(committed: Arc<Membership>, me: Member) -> Self {
        let text = committed.to_string().into();
        Self { committed, proposed: None, heard: None, me, text, proposed_text: None }
    }

    pub(super) fn change(&mut self, change: &ConfigChange) {
        match change {
            ConfigChange::Proposed(config) => self.propose(Some(config.clone())),
            ConfigChange::Withdrawn => self.propose(None),
            ConfigChange::Heard(config) => self.heard.clone_from(config),
            ConfigChange::Committed(config) => {
                if let Some(me) = config.member(self.me.id) {
                    self.me = me.clone();
                }
                self.text = config.to_string().into();
                self.committed = config.clone();
                let proposed = self.proposed.take();
                self.propose(proposed);
            }
        }
    }

    /// Sets the proposed configuration. One that is older than the committed one is ignored, such
    /// as a file that has outlived its change.
    pub(super) fn propose(&mut self, config: Option<Arc<Membership>>) {
        let config = config.filter(|it| it.version() > self.committed.version());
        self.proposed_text = config.as_ref().map(|config| config.to_string().into());
        self.proposed = config;
    }

    /// This server's entry: its committed entry, or its proposed one if it is not a member yet.
    pub(super) fn me(&self) -> &Member {
        let id = self.me.id;
        let joins = self.proposed.as_ref().filter(|_| self.committed.member(id).is_none());
        joins.and_then(|config| config.member(id)).unwrap_or(&self.me)
    }

    /// The committed and the proposed configuration, as texts.
    pub(super) fn texts(&self) -> (Bytes, Option<Bytes>) {
        (self.text.clone(), self.proposed_text.clone())
    }

    /// The hosts of these members in the committed and the proposed configuration, as the
    /// configuration writes them. Hosts that other servers merely report are not included.
    pub(super) fn hosts(&self, of: impl Fn(&Member) -> bool) -> Vec<String> {
        let known = [Some(&self.committed), self.proposed.as_ref()];
        let members = known.into_iter().flatten().flat_map(|config| config.members());
        let mut hosts = Vec::new();
        for member in members.filter(|member| of(member)) {
            let addresses =
                member.quorum_addresses().into_iter().chain(member.election_addresses());
            for HostPort { host, .. } in addresses {
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
        hosts
    }

    pub(super) fn committed(&self) -> &Arc<Membership> {
        &self.committed
    }

    /// A server's addresses: the committed ones, then the proposed ones.
    pub(super) fn addresses(
        &self,
        server: ServerId,
        of: fn(&Member) -> Vec<HostPort>,
    ) -> Vec<HostPort> {
        let known = [Some(&self.committed), self.proposed.as_ref(), self.heard.as_ref()];
        let members = known.into_iter().flatten().filter_map(|config| config.member(server));
        let mut addresses = Vec::new();
        for address in members.flat_map(of) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(version: u64, ports: &[(i64, u16)]) -> Arc<Membership> {
        let mut text = String::new();
        for (server, port) in ports {
            text.push_str(&format!("server.{server}=127.0.0.{server}:{port}:3888:participant\n"));
        }
        text.push_str(&format!("version={version:x}"));
        Arc::new(Membership::agreed(text.as_bytes()).expect("members"))
    }

    #[test]
    fn who_is_to_become_a_member_is_where_the_others_will_find_it() {
        let port = |members: &Members| members.me().quorum_addresses()[0].port;
        let own = config(0, &[(1, 2888), (2, 2888)]);
        let mut members = Members::new(own.clone(), own.member(ServerId(2)).expect("it").clone());
        members.change(&ConfigChange::Proposed(config(5, &[(1, 2888), (2, 2889)])));
        assert_eq!(port(&members), 2888, "what is in force comes first");
        members.change(&ConfigChange::Committed(config(6, &[(1, 2888)])));
        assert_eq!(port(&members), 2888, "where it was last");
        members.change(&ConfigChange::Proposed(config(7, &[(1, 2888), (2, 2890)])));
        assert_eq!(port(&members), 2890);
        members.change(&ConfigChange::Withdrawn);
        assert_eq!(port(&members), 2888);
    }

    #[test]
    fn what_was_proposed_before_what_is_in_force_is_nowhere() {
        let own = config(6, &[(1, 2888), (2, 2888)]);
        let mut members = Members::new(own.clone(), own.member(ServerId(1)).expect("it").clone());
        members.propose(Some(config(5, &[(1, 2888), (2, 2999), (3, 2888)])));
        let ports = |members: &Members, server| -> Vec<u16> {
            let addresses = members.addresses(ServerId(server), Member::quorum_addresses);
            addresses.iter().map(|address| address.port).collect()
        };
        assert_eq!((ports(&members, 2), ports(&members, 3)), (vec![2888], vec![]));
        assert_eq!(members.texts().1, None, "nor do others hear of it");
        members.propose(Some(config(7, &[(1, 2888), (2, 2999)])));
        assert_eq!(ports(&members, 2), [2888, 2999]);
        members.change(&ConfigChange::Committed(config(8, &[(1, 2888), (2, 2888)])));
        assert_eq!((ports(&members, 2), members.texts().1), (vec![2888], None));
    }

    #[test]
    fn hosts_are_those_of_the_current_list_of_members() {
        let own = config(0, &[(1, 2888)]);
        let mut members = Members::new(own.clone(), own.member(ServerId(1)).expect("it").clone());
        let hosts = |members: &Members| members.hosts(|_| true);
        assert_eq!(hosts(&members), ["127.0.0.1"]);
        members.change(&ConfigChange::Heard(Some(config(4, &[(1, 2888), (3, 2888)]))));
        assert_eq!(hosts(&members), ["127.0.0.1"], "what others say does not count");
        members.change(&ConfigChange::Proposed(config(5, &[(1, 2888), (2, 2888)])));
        assert_eq!(hosts(&members), ["127.0.0.1", "127.0.0.2"]);
        members.change(&ConfigChange::Committed(config(5, &[(1, 2888), (2, 2888)])));
        assert_eq!(hosts(&members), ["127.0.0.1", "127.0.0.2"]);
        members.change(&ConfigChange::Committed(config(6, &[(1, 2888)])));
        assert_eq!(hosts(&members), ["127.0.0.1"]);
    }
}
