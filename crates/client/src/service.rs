//! Finds servers through the SRV records of a DNS service.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::{RData, RecordType};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::hosts::{HostProvider, Servers};

/// The service of a `dns-srv://` connect string.
///
/// The client looks the service up again before every round of attempts to connect, as far as the
/// records' times to live allow. A record's priority is the rank of its servers; weights have no
/// influence. Source of the form: `DnsSrvHostProvider`.
pub(crate) struct Service {
    name: String,
    resolver: OnceCell<TokioResolver>,
    /// The rank of each server, and the name in its record.
    known: Mutex<HashMap<SocketAddr, (u32, String)>>,
}

impl Service {
    /// The service of this name, such as `_zookeeper._tcp.example.com`.
    pub(crate) fn new(name: String) -> Self {
        Self { name, resolver: OnceCell::new(), known: Mutex::default() }
    }

    async fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        // With the system's settings for name servers.
        let resolver = self.resolver.get_or_try_init(async || {
            TokioResolver::builder_tokio().and_then(|builder| builder.build())
        });
        let resolver = resolver.await.map_err(io::Error::other)?;
        let found =
            resolver.lookup(&*self.name, RecordType::SRV).await.map_err(io::Error::other)?;
        let mut known: HashMap<_, (u32, String)> = HashMap::new();
        let mut failure = None;
        for record in found.answers() {
            let RData::SRV(service) = &record.data else { continue };
            match resolver.lookup_ip(service.target.clone()).await {
                Ok(addresses) => {
                    for ip in addresses.iter() {
                        let address = SocketAddr::new(ip, service.port);
                        let name = service.target.to_utf8();
                        let (rank, _) = known.entry(address).or_insert((u32::MAX, name));
                        *rank = (*rank).min(u32::from(service.priority));
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if known.is_empty() => return Err(io::Error::other(error)),
            _ => {}
        }
        let addresses = known.keys().copied().collect();
        *self.known.lock() = known;
        Ok(addresses)
    }
}

impl HostProvider for Service {
    fn servers(&self) -> Servers<'_> {
        Box::pin(self.look_up())
    }

    fn rank(&self, server: SocketAddr) -> u32 {
        self.known.lock().get(&server).map(|(rank, _)| *rank).unwrap_or_default()
    }

    fn name(&self, server: SocketAddr) -> Option<String> {
        self.known.lock().get(&server).map(|(_, name)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use hickory_resolver::config::{
        ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts,
    };
    use hickory_resolver::net::runtime::TokioRuntimeProvider;
    use tokio::net::UdpSocket;

    use super::*;

    /// The encoding of a name in a message.
    fn name(text: &str) -> Vec<u8> {
        let labels = text.split('.').filter(|label| !label.is_empty());
        let mut bytes: Vec<u8> =
            labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
        bytes.push(0);
        bytes
    }

    /// A record of class IN that lives for one second, for the requested name.
    fn record(kind: u16, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xc0, 12];
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 1]);
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(data);
        bytes
    }

    fn srv(priority: u16, port: u16, target: &str) -> Vec<u8> {
        let numbers = [priority, 0, port].map(u16::to_be_bytes).concat();
        record(33, &[numbers, name(target)].concat())
    }

    /// A name server that knows one service, `_zk._tcp.test`. RFC 1035, section 4; RFC 2782.
    async fn name_server() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut query = [0; 512];
            while let Ok((count, asker)) = socket.recv_from(&mut query).await {
                let question = &query[12..count];
                let end = question.iter().position(|byte| *byte == 0).unwrap() + 5;
                let question = &question[..end];
                let kind = u16::from_be_bytes([question[end - 4], question[end - 3]]);
                let is = |text: &str| question.to_ascii_lowercase().starts_with(&name(text));
                let answers = match kind {
                    33 if is("_zk._tcp.test") => {
                        vec![
                            srv(10, 2181, "a.test"),
                            srv(20, 2182, "b.test"),
                            srv(30, 2183, "none.test"),
                        ]
                    }
                    1 if is("a.test") => vec![record(1, &[10, 0, 0, 1]), record(1, &[10, 0, 0, 2])],
                    1 if is("b.test") => vec![record(1, &[10, 0, 0, 3])],
                    _ => Vec::new(),
                };
                // An authoritative answer, with NXDOMAIN for unknown names.
                let code = if is("a.test") || is("b.test") || !answers.is_empty() { 0 } else { 3 };
                let mut answer = query[..2].to_vec();
                answer.extend([0x84, code, 0, 1, 0, answers.len() as u8, 0, 0, 0, 0]);
                answer.extend(question);
                answer.extend(answers.concat());
                socket.send_to(&answer, asker).await.unwrap();
            }
        });
        address
    }

    async fn service(name: &str) -> Service {
        let server = name_server().await;
        let mut connection = ConnectionConfig::udp();
        connection.port = server.port();
        let server = NameServerConfig::new(server.ip(), true, vec![connection]);
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let mut builder =
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = ResolverOpts::default();
        let resolver = builder.build().unwrap();
        Service {
            name: name.to_owned(),
            resolver: OnceCell::new_with(Some(resolver)),
            known: Mutex::default(),
        }
    }

    #[tokio::test]
    async fn records_name_servers_and_their_ranks() {
        let service = service("_zk._tcp.test.").await;
        let mut found = service.servers().await.unwrap();
        found.sort_unstable();
        let ranked = found.iter().map(|address| (address.to_string(), service.rank(*address)));
        let expected = [("10.0.0.1:2181", 10), ("10.0.0.2:2181", 10), ("10.0.0.3:2182", 20)];
        assert!(ranked.eq(expected.map(|(address, rank)| (address.to_owned(), rank))), "{found:?}");
    }

    #[tokio::test]
    async fn a_service_that_nobody_knows_is_an_error() {
        let error = service("_none._tcp.test.").await.servers().await.unwrap_err();
        assert!(error.to_string().contains("_none._tcp.test"), "{error}");
    }
}
