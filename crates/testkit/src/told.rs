//! A listener of a recovery that keeps everything it is told, in order.

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_store::{Recover, Refused};

/// Everything that a recovery, or the reading of one snapshot, reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Sessions and their timeouts in milliseconds.
    pub sessions: Vec<(SessionId, i32)>,
    /// ACLs by their numbers in the snapshot.
    pub acls: Vec<(i64, Vec<Acl>)>,
    /// The snapshot's znodes.
    pub znodes: Vec<Znode>,
    /// The snapshot's digest: its zxid, version and value.
    pub digest: Option<(Zxid, i32, i64)>,
    /// The zxid of the snapshot that was loaded.
    pub loaded: Option<Zxid>,
    /// The bodies of the transactions.
    pub txns: Vec<Vec<u8>>,
    /// The transaction that it refuses to apply.
    pub refuses: Option<Zxid>,
}

/// A znode as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Znode {
    /// Its path.
    pub path: String,
    /// Its data; `None` if the snapshot has null.
    pub data: Option<Vec<u8>>,
    /// The number of its ACL.
    pub acl: i64,
    /// Its stat.
    pub stat: StatPersisted,
}

impl Told {
    /// The zxids of the transactions.
    pub fn zxids(&self) -> Vec<i64> {
        self.txns.iter().map(|body| zxid(body)).collect()
    }

    /// The data of the znodes, then the bodies of the transactions: the whole history, if a
    /// snapshot has a znode for each transaction.
    pub fn bodies(&self) -> Vec<&[u8]> {
        let of_snapshot = self.znodes.iter().filter_map(|znode| znode.data.as_deref());
        of_snapshot.chain(self.txns.iter().map(Vec::as_slice)).collect()
    }
}

fn zxid(body: &[u8]) -> i64 {
    let bytes = body.get(12..20).and_then(|bytes| bytes.try_into().ok());
    i64::from_be_bytes(bytes.expect("a transaction has a header"))
}

impl Recover for Told {
    fn restart(&mut self) {
        *self = Self { refuses: self.refuses, ..Self::default() };
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.push((id, timeout_ms));
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.push((id, acl));
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), Refused> {
        let data = data.map(<[u8]>::to_vec);
        self.znodes.push(Znode { path: path.to_owned(), data, acl, stat: *stat });
        Ok(())
    }

    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64) {
        self.digest = Some((zxid, version, digest));
    }

    fn loaded(&mut self, zxid: Zxid) -> Result<(), Refused> {
        self.loaded = Some(zxid);
        Ok(())
    }

    fn txn(&mut self, body: &[u8]) -> Result<(), Refused> {
        if self.refuses.is_some_and(|refused| refused.0 == zxid(body)) {
            return Err(Refused::OutOfPlace("no such type"));
        }
        self.txns.push(body.to_vec());
        Ok(())
    }
}
