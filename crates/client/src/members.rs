//! The members of an ensemble, read from the configuration that the ensemble publishes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tracing::{info, warn};
use zebu_proto::HostPort;

use crate::hosts::{HostProvider, Names, Servers};
use crate::shared::Shared;
use crate::{Client, ErrorKind};

/// The known members, and the servers that the client was started with.
pub(crate) struct Members {
    given: Arc<dyn HostProvider>,
    shared: Arc<Shared>,
    names: Mutex<Option<Arc<Names>>>,
    /// The number of connections at the last request for servers. If it has not grown since, all
    /// members were tried in vain.
    asked: AtomicU64,
}

impl Members {
    pub(crate) fn new(given: Arc<dyn HostProvider>, shared: Arc<Shared>) -> Self {
        Self { given, shared, names: Mutex::new(None), asked: AtomicU64::new(u64::MAX) }
    }

    fn known(&self) -> Option<Arc<Names>> {
        self.names.lock().clone()
    }

    /// Takes a configuration. A configuration without client addresses changes nothing.
    fn take(&self, config: &str) {
        let members = addresses(config);
        if members.is_empty() {
            return;
        }
        let names: Vec<String> = members.iter().map(ToString::to_string).collect();
        let mut known = self.names.lock();
        if known.as_ref().is_none_or(|known| known.names() != members) {
            info!("the ensemble's members are {}", names.join(","));
            *known = Some(Arc::new(Names::new(members)));
        }
    }
}

impl HostProvider for Members {
    fn servers(&self) -> Servers<'_> {
        Box::pin(async {
            let connections = self.shared.metrics().connections;
            let in_vain = self.asked.swap(connections, Ordering::Relaxed) == connections;
            let Some(names) = self.known() else { return self.given.servers().await };
            match names.servers().await {
                Ok(found) if !in_vain => Ok(found),
                Ok(mut found) => {
                    found.extend(self.given.servers().await.into_iter().flatten());
                    Ok(found)
                }
                Err(error) => self.given.servers().await.map_err(|_| error),
            }
        })
    }

    /// The given order, with members before all other servers.
    fn rank(&self, server: SocketAddr) -> u32 {
        let is_member = self.known().is_none_or(|names| names.name(server).is_some());
        self.given.rank(server).saturating_mul(2).saturating_add(u32::from(!is_member))
    }

    fn name(&self, server: SocketAddr) -> Option<String> {
        self.known().and_then(|names| names.name(server)).or_else(|| self.given.name(server))
    }

    fn missing(&self) -> Option<String> {
        match self.known() {
            Some(names) => names.missing(),
            None => self.given.missing(),
        }
    }
}

/// Keeps the list of members up to date until the session ends.
pub(crate) async fn follow(client: Client, members: Arc<Members>) {
    while client.connected().await.is_ok() {
        let changed = match client.watch_config().await {
            Ok((config, _, changed)) => {
                members.take(&String::from_utf8_lossy(&config));
                changed
            }
            Err(error) => match error.kind() {
                ErrorKind::SessionOver => return,
                ErrorKind::Unknown | ErrorKind::NotExecuted => continue,
                _ => {
                    warn!("the ensemble's members cannot be followed: {error}");
                    return;
                }
            },
        };
        if changed.await.is_err() {
            return;
        }
    }
}

/// The client addresses of the members, each once, in the order of the configuration.
fn addresses(config: &str) -> Vec<HostPort> {
    let mut found = Vec::new();
    for address in config.lines().filter_map(address) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// The client address in a line `server.ID=HOST:PORT:PORT[:ROLE][|HOST:PORT:PORT...];[HOST:]PORT`.
fn address(line: &str) -> Option<HostPort> {
    let member = line.trim().strip_prefix("server.")?.split_once('=')?.1;
    let (between, clients) = member.split_once(';')?;
    let (host, port) = match clients.trim().rsplit_once(':') {
        Some((host, port)) => (bare(host), port),
        None => ("", clients.trim()),
    };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let is_none = |host: &str| {
        host.is_empty() || host.parse().is_ok_and(|address: IpAddr| address.is_unspecified())
    };
    let host = if is_none(host) { first_host(between.trim())? } else { host };
    (!is_none(host)).then(|| HostPort { host: host.to_owned(), port })
}

/// The host of `HOST:PORT:PORT`. An IPv6 host is in brackets.
fn first_host(between: &str) -> Option<&str> {
    match between.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => between.split_once(':').map(|(host, _)| host),
    }
}

/// A host without the brackets of IPv6.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FUT-13: as servers of 3.5 to 3.9 write their configuration.
    #[test]
    fn clients_addresses_are_found_in_every_form_of_a_member() {
        let config = "server.1=zoo1:2888:3888:participant;0.0.0.0:2181\n\
                      server.2=zoo2:2888:3888:observer;10.0.0.2:2182\n\
                      server.3=zoo3:2888:3888|zoo3b:2889:3889:participant;2183\n\
                      server.4=[fd00::4]:2888:3888:participant;[::]:2184\n\
                      server.5=zoo5:2888:3888:participant;0:0:0:0:0:0:0:0:2185\n\
                      server.6=zoo6:2888:3888:participant;[fd00::6]:2186\n\
                      server.7=zoo2:2888:3888:participant;10.0.0.2:2182\n\
                      group.1=1:2:3\n\
                      version=100000000";
        let found: Vec<String> = addresses(config).iter().map(ToString::to_string).collect();
        let expected = [
            "zoo1:2181",
            "10.0.0.2:2182",
            "zoo3:2183",
            "[fd00::4]:2184",
            "zoo5:2185",
            "[fd00::6]:2186",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_names_no_address_is_left_out() {
        for line in [
            "",
            "version=0",
            "server.1=zoo1:2888:3888:participant",
            "server.1=zoo1:2888:3888:participant;",
            "server.1=zoo1:2888:3888:participant;0",
            "server.1=zoo1:2888:3888:participant;70000",
            "server.1=zoo1:2888:3888:participant;host:",
            "server.1=0.0.0.0:2888:3888:participant;2181",
            "server.1=;2181",
            "server.1=[::1;2181",
            "server.1",
        ] {
            assert_eq!(addresses(line), [], "{line:?}");
        }
    }
}
