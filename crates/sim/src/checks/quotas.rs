//! Quotas: a leader refuses a write exactly when a hard limit says so.
//!
//! The check has its own copy of the znodes, made from the committed transactions alone. It counts
//! the znodes and bytes below a quota anew for each write, and does not read the usage that the
//! servers keep.
//!
//! This holds for a quota that never had another one below it. Otherwise the usage depends on when
//! the server has last counted: a change counts for the deepest quota only, but a server that loads
//! a snapshot counts everything below each quota. For such a quota, the check takes the usage that
//! the leader had when it decided.

use std::collections::BTreeMap;

use zebu_proto::Zxid;
use zebu_proto::path::reserved::{LIMITS, QUOTA, STATS};
use zebu_proto::txn::{Txn, TxnRecord};
use zebu_tree::Tree;

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
    decided: BTreeMap<Zxid, Decided>,
    /// The paths that have had a quota, and the first transaction that gave them one.
    owners: BTreeMap<String, Zxid>,
    /// Whether servers enforce quotas.
    enforced: bool,
}

/// The state in which a leader decided on a transaction.
struct Decided {
    /// The last transaction that it had applied.
    applied: Zxid,
    /// Its znodes and bytes for each quota.
    usages: BTreeMap<String, (i64, i64)>,
}

impl Quotas {
    pub(crate) fn new(enforced: bool) -> Self {
        Self { enforced, ..Self::default() }
    }

    /// A leader with this tree has decided on a transaction.
    pub(crate) fn decided(&mut self, zxid: Zxid, tree: &Tree) {
        if !self.enforced {
            return;
        }
        let applied = tree.last_zxid();
        let usages = tree.quota_paths().filter_map(|owner| {
            let usage = tree.node(&stats_of(owner))?.data()?.to_vec();
            Some((owner.to_owned(), (number(&usage, "count")?, number(&usage, "bytes")?)))
        });
        let usages = usages.collect();
        self.decided.insert(zxid, Decided { applied, usages });
    }

    /// Whether the data of a znode may differ between servers: the usage of a quota that has had
    /// another one below it.
    pub(crate) fn may_differ(&self, path: &str) -> bool {
        let owner = path.strip_prefix(QUOTA).and_then(|owner| owner.strip_suffix(STATS));
        let owner = owner.and_then(|owner| owner.strip_suffix('/'));
        owner.is_some_and(|owner| self.was_above_another(owner, Zxid(i64::MAX)))
    }

    /// Whether a quota has had another one below it.
    fn was_above_another(&self, owner: &str, by: Zxid) -> bool {
        let below = format!("{owner}/");
        let after = self.owners.range(below.clone()..);
        let mut nested = after.take_while(|(path, _)| path.starts_with(&below));
        nested.any(|(_, since)| *since <= by)
    }

    /// Whether a path had several quotas above it when a leader decided on a transaction.
    pub(crate) fn are_nested(&self, path: &str, zxid: Zxid) -> bool {
        let Some(Decided { applied, .. }) = self.decided.get(&zxid) else { return false };
        let owners = self.owners.keys().filter(|owner| {
            let is_above = path.strip_prefix(owner.as_str());
            is_above.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        owners.filter(|owner| self.at(&limits_of(owner), *applied).is_some()).count() > 1
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
            Txn::Create(create) => {
                if let Some(owner) = create.path.strip_prefix(QUOTA)
                    && let Some((owner, LIMITS)) = owner.rsplit_once('/')
                {
                    self.owners.entry(owner.to_owned()).or_insert(zxid);
                }
                (&create.path, create.data, true)
            }
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
        let Decided { applied, usages } = self.decided.get(&zxid)?;
        let applied = *applied;
        if write.path.starts_with("/zookeeper/") {
            return None;
        }
        let mut owner = write.path.as_str();
        let limits = loop {
            if owner == "/" {
                return None;
            }
            if let Some(limits) = self.at(&limits_of(owner), applied) {
                break limits;
            }
            owner = parent(owner);
        };
        self.at(&stats_of(owner), applied)?;
        let its_own = usages.get(owner).filter(|_| self.was_above_another(owner, applied));
        let (count, bytes) = its_own.copied().unwrap_or_else(|| self.below(owner, applied));
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

    /// The number of znodes at and below a path, and of their bytes.
    fn below(&self, owner: &str, applied: Zxid) -> (i64, i64) {
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
        (count, bytes)
    }

    fn at(&self, path: &str, zxid: Zxid) -> Option<&[u8]> {
        let versions = self.znodes.get(path)?;
        let after = versions.partition_point(|(at, _)| *at <= zxid);
        versions[..after].last()?.1.as_deref()
    }
}

fn limits_of(owner: &str) -> String {
    format!("{QUOTA}{owner}/{LIMITS}")
}

fn stats_of(owner: &str) -> String {
    format!("{QUOTA}{owner}/{STATS}")
}

/// The number of a key in the text of limits.
fn number(text: &[u8], key: &str) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split([',', ';']);
    parts.find_map(|part| part.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
}
