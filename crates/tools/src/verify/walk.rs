//! Reads every znode of one member through a session.

use std::time::Duration;

use zebu_client::{Client, Connector, ErrorKind, Result, blocking};
use zebu_proto::{HostPort, Stat, StatPersisted};
use zebu_tree::digest_counts;

use super::spool::{Spool, Znode, acl_text};
use crate::configuration::Access;
use crate::failure::Failure;

/// Maximum number of requests in flight.
const AT_ONCE: usize = 128;

/// A session with one member.
pub(super) struct Session {
    client: blocking::Client,
}

/// The result of reading a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The whole znode.
    There(Znode),
    /// It does not exist.
    Missing,
    /// The session may not read it.
    Denied,
}

impl Session {
    /// Connects to one server, and to no other.
    pub(super) fn open(
        at: &HostPort,
        access: &Access,
        auth: Option<&(String, String)>,
        timeout: Duration,
    ) -> Result<Self> {
        let host = if at.host.contains(':') { format!("[{}]", at.host) } else { at.host.clone() };
        let mut connector = Connector::new()
            .session_timeout(Duration::from_secs(30))
            .connection_wait(timeout)
            .request_timeout(timeout)
            .give_up_after(timeout);
        if let Some((scheme, credential)) = auth {
            connector = connector.authenticate(scheme, credential);
        }
        let connector = access.credentials.apply(connector);
        Ok(Self { client: blocking::Client::open(connector, &format!("{host}:{}", at.port))? })
    }

    /// Brings the member up to date with its leader.
    pub(super) fn sync(&self) -> Result<()> {
        self.client.sync("/")
    }

    /// Reads all znodes into `spool`. Returns the number of znodes that the user may not read.
    pub(super) fn walk(&self, spool: &mut Spool) -> std::result::Result<u64, Failure> {
        let mut denied = 0;
        let mut left = vec!["/".to_owned()];
        while !left.is_empty() {
            let paths = left.split_off(left.len().saturating_sub(AT_ONCE));
            for (path, seen, children) in self.read(paths, true)? {
                match seen {
                    Seen::There(znode) if digest_counts(&path) => spool.add(&path, &znode)?,
                    // The znode was deleted meanwhile.
                    Seen::There(_) | Seen::Missing => {}
                    Seen::Denied => denied += 1,
                }
                let parent = if path == "/" { "" } else { &path };
                let children = children.iter().map(|name| format!("{parent}/{name}"));
                left.extend(children.filter(|path| digest_counts(path)));
            }
        }
        Ok(denied)
    }

    /// Reads znodes again.
    pub(super) fn again(&self, paths: &[String]) -> Result<Vec<Seen>> {
        let mut all = Vec::new();
        for paths in paths.chunks(AT_ONCE) {
            all.extend(self.read(paths.to_vec(), false)?.into_iter().map(|(_, seen, _)| seen));
        }
        Ok(all)
    }

    fn read(&self, paths: Vec<String>, children: bool) -> Result<Vec<(String, Seen, Vec<String>)>> {
        let client: &Client = self.client.asynchronous();
        // All requests are sent before the first answer is awaited.
        let asked: Vec<_> = (paths.into_iter())
            .map(|path| {
                let data = client.get_data_or_null(&path);
                let acl = client.get_acl(&path);
                let names = children.then(|| client.get_children(&path));
                (path, data, acl, names)
            })
            .collect();
        self.client.wait(async move {
            let mut all = Vec::new();
            for (path, data, acl, names) in asked {
                let read = match (data.await, acl.await) {
                    (Ok((data, stat)), Ok((acl, _))) => Ok(Seen::There(Znode::new(
                        data.as_deref(),
                        acl_text(&acl),
                        persisted(&stat),
                    ))),
                    (Err(error), _) | (_, Err(error)) => seen_of(error),
                };
                let names = match names {
                    None => Vec::new(),
                    Some(names) => match names.await {
                        Ok((names, _)) => names,
                        Err(error) => seen_of(error).map(|_| Vec::new())?,
                    },
                };
                all.push((path, read?, names));
            }
            Ok(all)
        })
    }

    /// Ends the session.
    pub(super) fn close(self) {
        // All znodes are read. If the server has stopped, the session ends anyway.
        let _ = self.client.close();
    }
}

/// The meaning of an error for a znode, if it has one.
fn seen_of(error: zebu_client::Error) -> Result<Seen> {
    match error.kind() {
        ErrorKind::Gone => Ok(Seen::Missing),
        ErrorKind::Denied => Ok(Seen::Denied),
        _ => Err(error),
    }
}

fn persisted(stat: &Stat) -> StatPersisted {
    StatPersisted {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner,
        pzxid: stat.pzxid,
    }
}
