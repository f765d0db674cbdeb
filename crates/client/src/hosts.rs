//! Finds the addresses of servers: host names, host providers, and their resolution.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use zebu_proto::HostPort;

/// Maximum wait for the other resolvers after the first one has answered.
const SILENCE: Duration = Duration::from_millis(250);

/// The future of the servers that a client may use now, see [`HostProvider::servers`].
///
/// ```
/// use zebu_client::Servers;
///
/// let servers: Servers<'_> = Box::pin(async { Ok(vec!["127.0.0.1:2181".parse().expect("an address")]) });
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// assert_eq!(servers.await.unwrap().len(), 1);
/// # });
/// ```
pub type Servers<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Knows where the servers of an ensemble are.
///
/// The client asks the provider before every round of attempts to connect, so it follows names that
/// change their addresses, and an ensemble that moves. All servers must belong to one ensemble. The
/// client tries them in random order. The provider runs on the session's thread, so it must not
/// block.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::with_server(async |server| {
/// use zebu_client::{Connector, HostProvider, Servers};
///
/// /// Asks somebody who knows.
/// struct Directory(std::net::SocketAddr);
///
/// impl HostProvider for Directory {
///     fn servers(&self) -> Servers<'_> {
///         Box::pin(async { Ok(vec![self.0]) })
///     }
/// }
///
/// let client = Connector::new().connect_to(Directory(server.address())).await?;
/// assert_eq!(client.server(), Some(server.address()));
/// # Ok(()) });
/// ```
pub trait HostProvider: Send + Sync + 'static {
    /// The present addresses of the servers. After an error or an empty list, the client continues
    /// with the addresses that it knows.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// use std::net::SocketAddr;
    /// use zebu_client::{Connector, HostProvider, Servers};
    ///
    /// /// One server, known by a file's content.
    /// struct Written(String);
    ///
    /// impl HostProvider for Written {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async {
    ///             let server: Result<SocketAddr, _> = self.0.trim().parse();
    ///             Ok(vec![server.map_err(std::io::Error::other)?])
    ///         })
    ///     }
    /// }
    ///
    /// let client = Connector::new().connect_to(Written(format!("{}\n", server.address()))).await?;
    /// # drop(client);
    /// # Ok(()) });
    /// ```
    fn servers(&self) -> Servers<'_>;

    /// The rank of a server. In each round, the client tries servers of a smaller rank first. By
    /// default all ranks are equal. [`Connector::prefer`](crate::Connector::prefer) overrules this.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// use std::net::SocketAddr;
    /// use zebu_client::{Connector, HostProvider, Servers};
    ///
    /// /// One that is near, and others for when it fails.
    /// struct Near(SocketAddr, Vec<SocketAddr>);
    ///
    /// impl HostProvider for Near {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async { Ok([&[self.0], &self.1[..]].concat()) })
    ///     }
    ///
    ///     fn rank(&self, server: SocketAddr) -> u32 {
    ///         u32::from(server != self.0)
    ///     }
    /// }
    ///
    /// let far = "127.0.0.1:1".parse()?;
    /// let client = Connector::new().connect_to(Near(server.address(), vec![far])).await?;
    /// assert_eq!(client.server(), Some(server.address()));
    /// # Ok(()) });
    /// ```
    fn rank(&self, server: SocketAddr) -> u32 {
        let _all_are_equal = server;
        0
    }

    /// The name of a server, which its certificate must contain if connections use TLS (feature
    /// `tls` of this crate). `None`, the default: the certificate must contain its address.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use zebu_client::{HostProvider, Servers};
    ///
    /// /// One server whose certificate is for a name.
    /// struct Named(&'static str, SocketAddr);
    ///
    /// impl HostProvider for Named {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async { Ok(vec![self.1]) })
    ///     }
    ///
    ///     fn name(&self, server: SocketAddr) -> Option<String> {
    ///         (server == self.1).then(|| self.0.to_owned())
    ///     }
    /// }
    ///
    /// let server = "10.0.0.1:2281".parse().expect("an address");
    /// assert_eq!(Named("zk1.example.org", server).name(server).as_deref(), Some("zk1.example.org"));
    /// ```
    fn name(&self, server: SocketAddr) -> Option<String> {
        let _has_none = server;
        None
    }

    /// The servers that the last look-up did not find, although it found others. The log names
    /// them, and so do the errors of requests that get no connection. By default none.
    ///
    /// ```
    /// use zebu_client::{Connector, HostProvider, Servers};
    ///
    /// /// Knows that it does not know all.
    /// struct Half;
    ///
    /// impl HostProvider for Half {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async { Ok(vec!["127.0.0.1:1".parse().expect("an address")]) })
    ///     }
    ///
    ///     fn missing(&self) -> Option<String> {
    ///         Some("the other half is not in the directory".to_owned())
    ///     }
    /// }
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let connector = Connector::new().connection_wait(std::time::Duration::from_secs(1));
    /// let error = connector.connect_to(Half).await.unwrap_err();
    /// let text = error.to_string();
    /// assert!(text.starts_with("no connection: the other half is not in the directory"), "{text}");
    /// # });
    /// ```
    fn missing(&self) -> Option<String> {
        None
    }
}

/// The function that ranks a server.
pub(crate) type Rank = dyn Fn(SocketAddr) -> u32 + Send + Sync;

/// The servers of one provider, in the order of another.
pub(crate) struct Ranked {
    pub(crate) hosts: Arc<dyn HostProvider>,
    pub(crate) rank: Arc<Rank>,
}

impl HostProvider for Ranked {
    fn servers(&self) -> Servers<'_> {
        self.hosts.servers()
    }

    fn rank(&self, server: SocketAddr) -> u32 {
        (self.rank)(server)
    }

    fn name(&self, server: SocketAddr) -> Option<String> {
        self.hosts.name(server)
    }

    fn missing(&self) -> Option<String> {
        self.hosts.missing()
    }
}

/// Names from a connect string, resolved again each time. Every address of a name counts as a
/// server.
#[derive(Debug)]
pub(crate) struct Names {
    names: Vec<HostPort>,
    /// The addresses of each name, as its resolver gave them last.
    known: Mutex<BTreeMap<HostPort, Vec<SocketAddr>>>,
    /// The names that could not be resolved last, with the reasons.
    missing: Mutex<Option<String>>,
}

impl Names {
    pub(crate) fn new(names: Vec<HostPort>) -> Self {
        Self { names, known: Mutex::default(), missing: Mutex::default() }
    }

    pub(crate) fn names(&self) -> &[HostPort] {
        &self.names
    }

    /// Resolves all names at once. After the first result, the other resolvers have [`SILENCE`] to
    /// answer. The last result of a silent resolver still counts.
    async fn look_up<R>(&self, resolve: impl Fn(HostPort) -> R) -> io::Result<Vec<SocketAddr>>
    where
        R: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        for name in &self.names {
            let (name, answer) = (name.clone(), resolve(name.clone()));
            asked.spawn(async move { (name, answer.await) });
        }
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        let mut silent = self.names.clone();
        loop {
            let next = if found.is_empty() {
                asked.join_next().await
            } else {
                tokio::time::timeout(SILENCE, asked.join_next()).await.unwrap_or(None)
            };
            let Some(answer) = next else { break };
            let (name, answer) = answer.map_err(io::Error::other)?;
            silent.retain(|other| *other != name);
            match answer {
                Ok(addresses) => {
                    found.extend_from_slice(&addresses);
                    self.known.lock().insert(name, addresses);
                }
                Err(error) => missing.push(format!("{} ({error})", name.host)),
            }
        }
        for name in silent {
            found.extend(self.known.lock().get(&name).into_iter().flatten());
            missing.push(format!("{} (no answer yet)", name.host));
        }
        missing.sort_unstable();
        missing.dedup();
        let missing = (!missing.is_empty())
            .then(|| format!("names that cannot be resolved: {}", missing.join(", ")));
        self.missing.lock().clone_from(&missing);
        match missing {
            Some(missing) if found.is_empty() => Err(io::Error::other(missing)),
            _ => Ok(found),
        }
    }
}

impl HostProvider for Names {
    fn servers(&self) -> Servers<'_> {
        Box::pin(self.look_up(|HostPort { host, port }| async move {
            lookup_host((host.as_str(), port)).await.map(Vec::from_iter)
        }))
    }

    /// If several names have the same address, the first one in the connect string.
    fn name(&self, server: SocketAddr) -> Option<String> {
        let known = self.known.lock();
        let has = |name: &&HostPort| known.get(*name).is_some_and(|all| all.contains(&server));
        self.names.iter().find(has).map(|name| name.host.clone())
    }

    fn missing(&self) -> Option<String> {
        self.missing.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str]) -> Names {
        Names::new(
            hosts.iter().map(|host| HostPort { host: (*host).to_owned(), port: 7 }).collect(),
        )
    }

    /// CST-02: every address of a name is a server, with the one port.
    #[tokio::test]
    async fn every_address_of_a_name_is_a_server() {
        let expected: Vec<_> = lookup_host(("localhost", 7)).await.unwrap().collect();
        let found = names(&["localhost"]).servers().await.unwrap();
        assert_eq!(found, expected);
        let both = names(&["127.0.0.1", "localhost"]);
        both.servers().await.unwrap();
        assert_eq!(both.name(([127, 0, 0, 1], 7).into()).as_deref(), Some("127.0.0.1"));
        assert_eq!(both.name(([127, 0, 0, 1], 8).into()), None);
        assert!(found.iter().all(|server| server.port() == 7 && server.ip().is_loopback()));
    }

    /// PAI-46: a name whose resolver is silent does not hold up the others, and loses no server
    /// that it had.
    #[tokio::test(start_paused = true)]
    async fn a_silent_resolver_holds_up_nobody() {
        let at = |n| SocketAddr::from(([10, 0, 0, n], 7));
        let names = names(&["quick", "slow"]);
        let answers = |slow: Option<u8>| {
            move |name: HostPort| async move {
                match (name.host.as_str(), slow) {
                    ("quick", _) => Ok(vec![at(1)]),
                    (_, Some(n)) => Ok(vec![at(n)]),
                    _ => std::future::pending().await,
                }
            }
        };
        assert_eq!(names.look_up(answers(None)).await.unwrap(), [at(1)]);
        let missing = names.missing().unwrap();
        assert_eq!(missing, "names that cannot be resolved: slow (no answer yet)");
        let mut both = names.look_up(answers(Some(2))).await.unwrap();
        both.sort_unstable();
        assert_eq!(both, [at(1), at(2)]);
        assert_eq!(names.missing(), None);
        assert_eq!(names.look_up(answers(None)).await.unwrap(), [at(1), at(2)]);
    }

    #[tokio::test]
    async fn names_that_cannot_be_resolved_are_named() {
        let some = names(&["no.such.invalid", "127.0.0.1", "none.invalid", "none.invalid"]);
        let found = some.servers().await.unwrap();
        assert_eq!(found, [([127, 0, 0, 1], 7).into()]);
        let missing = some.missing().unwrap();
        let begin = "names that cannot be resolved: no.such.invalid (";
        assert!(missing.starts_with(begin), "{missing}");
        assert_eq!(missing.matches("none.invalid").count(), 1, "{missing}");
        let none = names(&["none.invalid"]);
        let error = none.servers().await.unwrap_err().to_string();
        assert!(error.contains("none.invalid"), "{error}");
        assert_eq!(names(&["127.0.0.1"]).missing(), None);
    }
}
