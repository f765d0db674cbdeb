//! Quotas: a leader refuses a write exactly when a hard limit says so.
//!
//! The check has its own copy of the znodes, made from the committed transactions alone. It counts
//! the znodes and bytes below a quota anew for each write, and never reads the usage that the
//! servers keep.

use std::collections::BTreeMap;

use zebu_proto::Zxid;
use zebu_proto::path::reserved::{LIMITS, QUOTA, STATS};
use zebu_proto::txn::{Txn, TxnRecord};

use crate::checks::reference::{has_failed, parent};

/// A request to write one znode, as far as quotas are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// For a sequential znode, the path without the number.
    pub(crate) path: String,
    /// The length of its new data.
    pub(crate) bytes: usize,
    /// Whether the request creates the znode.
    pub(crate) creates: bool,
}

/// The data of a znode after each transaction that changed it.
type Versions = Vec<(Zxid, Option<Vec<u8>>)>;

/// The znodes after each committed transaction, and what leaders had applied when they decided.
#[derive(Default)]
pub(crate) struct Quotas {
    /// By path; `None` where a transaction removed the znode.
    znodes: BTreeMap<String, Versions>,
    /// For each proposed transaction, the last one that its leader had applied by then.
    decided: BTreeMap<Zxid, Zxid>,
    /// Whether servers enforce quotas.
    enforced: bool,
}

impl Quotas {
    pub(crate) fn new(enforced: bool) -> Self {
        Self { enforced, ..Self::default() }
    }

    /// A leader that has applied everything up to `applied` has decided on a transaction.
    pub(crate) fn decided(&mut self, zxid: Zxid, applied: Zxid) {
        if self.enforced {
            self.decided.insert(zxid, applied);
        }
    }

    /// A transaction is committed; all earlier ones are known.
    pub(crate) fn committed(&mut self, zxid: Zxid, record: &TxnRecord<'_>) -> Result<(), String> {
        if !self.enforced || has_failed(&record.txn) {
            return Ok(());
        }
        self.change(zxid, &record.txn)
    }

    fn change(&mut self, zxid: Zxid, txn: &Txn<'_>) -> Result<(), String> {
        let mut set = |path: &str, data: Option<Vec<u8>>| {
            self.znodes.entry(path.to_owned()).or_default().push((zxid, data));
        };
        let (path, data, creates) = match txn {
            Txn::Multi(ops) => return ops.iter().try_for_each(|(_, txn)| self.change(zxid, txn)),
            Txn::Delete { path } => {
                set(path, None);
                return Ok(());
            }
            Txn::CloseSession { paths } => {
                paths.iter().flatten().for_each(|path| set(path, None));
                return Ok(());
            }
            Txn::Create(create) => (&create.path, create.data, true),
            Txn::SetData { path, data, .. } => (path, *data, false),
            _ => return Ok(()),
        };
        let data = data.unwrap_or_default().to_vec();
        let write = Write { path: path.clone().into_owned(), bytes: data.len(), creates };
        if let Some(limit) = self.exceeded(zxid, &write) {
            return Err(format!("quota: {write:?} of {zxid} exceeds {limit}"));
        }
        self.znodes.entry(write.path).or_default().push((zxid, Some(data)));
        Ok(())
    }

    /// A client learns that a quota has refused its write, in this transaction.
    pub(crate) fn refused(&self, zxid: Zxid, write: &Write) -> Result<(), String> {
        match self.exceeded(zxid, write) {
            Some(_) => Ok(()),
            None => Err(format!("quota: {write:?} is refused at {zxid} without a reason")),
        }
    }

    /// The hard limit that a write exceeds, if any. What counts is the state that the leader had
    /// applied when it decided.
    fn exceeded(&self, zxid: Zxid, write: &Write) -> Option<String> {
        let applied = *self.decided.get(&zxid)?;
        if write.path.starts_with("/zookeeper/") {
            return None;
        }
        let mut owner = write.path.as_str();
        let limits = loop {
            if owner == "/" {
                return None;
            }
            if let Some(limits) = self.at(&format!("{QUOTA}{owner}/{LIMITS}"), applied) {
                break limits;
            }
            owner = parent(owner);
        };
        self.at(&format!("{QUOTA}{owner}/{STATS}"), applied)?;
        let (mut count, mut bytes) = (0, 0);
        let below = format!("{owner}/");
        let paths = self.znodes.range(owner.to_owned()..).map(|(path, _)| path);
        for path in paths.take_while(|path| path.starts_with(owner)) {
            let is_below = path == owner || path.starts_with(&below);
            if let Some(data) = self.at(path, applied).filter(|_| is_below) {
                count += 1;
                bytes += data.len() as i64;
            }
        }
        // A znode that is not applied counts with the size that it will have.
        let before = match self.at(&write.path, applied) {
            _ if write.creates => 0,
            Some(data) => data.len(),
            None => self.at(&write.path, zxid).map_or(0, <[u8]>::len),
        };
        let growth = write.bytes as i64 - before as i64;
        let is_over = |key, more: i64, used: i64| {
            let limit = number(limits, key).filter(|limit| *limit > -1);
            more != 0 && limit.is_some_and(|limit| used + more > limit)
        };
        let over_count = is_over("countHardLimit", i64::from(write.creates), count);
        let over_bytes = is_over("byteHardLimit", growth, bytes);
        (over_count || over_bytes).then(|| {
            let limits = String::from_utf8_lossy(limits);
            format!("{limits} of {owner}, which has {count} znodes and {bytes} bytes at {applied}")
        })
    }

    fn at(&self, path: &str, zxid: Zxid) -> Option<&[u8]> {
        let versions = self.znodes.get(path)?;
        let after = versions.partition_point(|(at, _)| *at <= zxid);
        versions[..after].last()?.1.as_deref()
    }
}

/// The number of a key in the text of limits.
fn number(text: &[u8], key: &str) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split([',', ';']);
    parts.find_map(|part| part.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
}
