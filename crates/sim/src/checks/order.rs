//! One order for all servers: of logged, committed and applied transactions.
//!
//! S-4 (no gap, no repetition), S-7 (a server applies only what its leader has committed), S-11
//! (one zxid, one transaction), P-2 to P-7 and P-12 (every history is a prefix of the history of
//! its last transaction), P-8 to P-10 (a leader has all committed transactions), P-11 (no committed
//! transaction is truncated).
//!
//! Every transaction has one predecessor in the whole run, so its last zxid identifies a history.

use std::collections::BTreeMap;

use bytes::Bytes;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::{Epoch, Zxid};

/// Whether a packet commits a transaction.
pub(crate) fn is_commit(kind: PacketKind) -> bool {
    matches!(
        kind,
        PacketKind::COMMIT
            | PacketKind::INFORM
            | PacketKind::COMMITANDACTIVATE
            | PacketKind::INFORMANDACTIVATE
    )
}

/// A transaction as the first server logged it.
struct Logged {
    before: Zxid,
    record: Bytes,
}

/// The histories of all servers.
pub(crate) struct Order {
    txns: BTreeMap<Zxid, Logged>,
    /// The committed transactions, in order.
    chain: Vec<Zxid>,
    /// The number of transactions that [`Order::take_new`] has returned.
    taken: usize,
    /// The last transaction that any leader has called committed.
    said: Zxid,
    /// The last transaction that an established leader has called committed.
    agreed: Zxid,
    servers: Vec<Track>,
}

#[derive(Clone, Copy, Default)]
struct Track {
    /// The last transaction that the server was asked to log.
    logged: Zxid,
}

impl Order {
    pub(crate) fn new(servers: usize) -> Self {
        Self {
            txns: BTreeMap::new(),
            chain: Vec::new(),
            taken: 0,
            said: Zxid::ZERO,
            agreed: Zxid::ZERO,
            servers: vec![Track::default(); servers],
        }
    }

    /// The number of committed transactions.
    pub(crate) fn committed(&self) -> usize {
        self.chain.len()
    }

    /// The newest committed transaction.
    pub(crate) fn last(&self) -> Zxid {
        self.chain.last().copied().unwrap_or_default()
    }

    pub(crate) fn logged(&self, server: usize) -> Zxid {
        self.servers[server].logged
    }

    pub(crate) fn is_committed(&self, zxid: Zxid) -> bool {
        zxid == Zxid::ZERO || self.chain.binary_search(&zxid).is_ok()
    }

    /// Whether an established leader has called the transaction committed.
    pub(crate) fn is_said(&self, zxid: Zxid) -> bool {
        zxid <= self.agreed && self.has(self.agreed, zxid)
    }

    /// An established leader calls a transaction committed.
    pub(crate) fn agreed(&mut self, zxid: Zxid) {
        self.agreed = self.agreed.max(zxid);
    }

    /// The transaction before `zxid`.
    pub(crate) fn before(&self, zxid: Zxid) -> Zxid {
        self.txns.get(&zxid).map(|txn| txn.before).unwrap_or_default()
    }

    /// Whether any server has logged the transaction.
    pub(crate) fn knows(&self, zxid: Zxid) -> bool {
        self.txns.contains_key(&zxid)
    }

    pub(crate) fn record(&self, zxid: Zxid) -> Bytes {
        self.txns.get(&zxid).map(|txn| txn.record.clone()).unwrap_or_default()
    }

    /// The transactions that were committed since the last call.
    pub(crate) fn take_new(&mut self) -> Vec<Zxid> {
        let new = self.chain[self.taken..].to_vec();
        self.taken = self.chain.len();
        new
    }

    /// The history that ends with `zxid`, newest first.
    fn back_from(&self, zxid: Zxid) -> impl Iterator<Item = Zxid> + '_ {
        let next = |zxid: &Zxid| self.txns.get(zxid).map(|txn| txn.before);
        std::iter::successors(Some(zxid), next)
    }

    /// Whether the history that ends with `last` contains `zxid`.
    pub(crate) fn has(&self, last: Zxid, zxid: Zxid) -> bool {
        self.back_from(last).find(|at| *at <= zxid) == Some(zxid)
    }

    /// The transactions of the history that ends with `last` behind `first`, oldest first.
    pub(crate) fn between(&self, first: Zxid, last: Zxid) -> Vec<Zxid> {
        let mut zxids: Vec<Zxid> = self.back_from(last).take_while(|at| *at > first).collect();
        zxids.reverse();
        zxids
    }

    pub(crate) fn wiped(&mut self, server: usize) {
        self.servers[server] = Track::default();
    }

    pub(crate) fn recovered(&mut self, server: usize, last: Zxid) -> Result<(), String> {
        if last != Zxid::ZERO && !self.txns.contains_key(&last) {
            return Err(format!("P-3: server {server} recovers {last}, which nobody ever logged"));
        }
        self.servers[server].logged = last;
        Ok(())
    }

    pub(crate) fn append(
        &mut self,
        server: usize,
        led: bool,
        zxid: Zxid,
        record: &Bytes,
    ) -> Result<(), String> {
        let before = self.servers[server].logged;
        self.servers[server].logged = zxid;
        if zxid.counter() == 0 || zxid <= before {
            return Err(format!("S-4: server {server} logs {zxid} behind {before}"));
        }
        if zxid.epoch() == before.epoch() && before.next() != Some(zxid) {
            return Err(format!("S-4: server {server} leaves a gap between {before} and {zxid}"));
        }
        match self.txns.get(&zxid) {
            None if led => {
                self.txns.insert(zxid, Logged { before, record: record.clone() });
                Ok(())
            }
            None => Err(format!("P-3: server {server} logs {zxid}, which no leader has proposed")),
            Some(txn) if txn.record != *record => {
                Err(format!("S-11: server {server} logs something else as {zxid}"))
            }
            Some(txn) if txn.before != before => Err(format!(
                "P-12: server {server} logs {zxid} behind {before}, its leader behind {}",
                txn.before
            )),
            Some(_) => Ok(()),
        }
    }

    /// The newest committed transaction that a server loses by a truncation to `zxid`.
    pub(crate) fn lost_by_cut(&self, server: usize, zxid: Zxid) -> Option<Zxid> {
        let logged = self.servers[server].logged;
        self.back_from(logged).take_while(|at| *at > zxid).find(|at| self.is_committed(*at))
    }

    pub(crate) fn cut(&mut self, server: usize, zxid: Zxid) {
        self.servers[server].logged = zxid;
    }

    /// A snapshot transfer has replaced a server's history. Returns the newest committed
    /// transaction that the server has lost.
    pub(crate) fn restored(&mut self, server: usize, zxid: Zxid) -> Option<Zxid> {
        let logged = std::mem::replace(&mut self.servers[server].logged, zxid);
        let had = self.back_from(logged).find(|at| self.is_committed(*at)).unwrap_or_default();
        (!self.has(zxid, had)).then_some(had)
    }

    pub(crate) fn sent(&mut self, packet: &QuorumPacket) {
        if is_commit(packet.kind) {
            self.said = self.said.max(packet.zxid);
        }
    }

    /// A quorum has adopted the history of a new leader.
    ///
    /// A leader that was paused in this moment may be established after others have led; it can
    /// commit nothing.
    pub(crate) fn established(&mut self, server: usize, epoch: Epoch) -> Result<(), String> {
        let logged = self.servers[server].logged;
        let earlier = self.chain.partition_point(|zxid| zxid.epoch() < epoch);
        let needed = self.chain[..earlier].last().copied().unwrap_or_default();
        if !self.has(logged, needed) {
            return Err(format!(
                "P-10: server {server} leads epoch {} with {logged}, without {needed}, committed",
                epoch.0
            ));
        }
        self.said = self.said.max(logged);
        let committed = self.last();
        if logged <= committed {
            return if self.is_committed(logged) {
                Ok(())
            } else {
                Err(format!("P-9: server {server} leads with {logged}, others with something else"))
            };
        }
        if !self.has(logged, committed) {
            return Err(format!("P-9: server {server} leads with {logged}, without {committed}"));
        }
        self.chain.extend(self.between(committed, logged));
        Ok(())
    }

    pub(crate) fn applied(
        &mut self,
        server: usize,
        before: Zxid,
        zxid: Zxid,
        record: &Bytes,
        led: bool,
        candidate: bool,
    ) -> Result<(), String> {
        let Some(txn) = self.txns.get(&zxid) else {
            return Err(format!("P-3: server {server} applies {zxid}, which nobody has logged"));
        };
        if txn.record != *record {
            return Err(format!("S-11: server {server} applies something else as {zxid}"));
        }
        if txn.before != before {
            return Err(format!(
                "P-6: server {server} applies {zxid} behind {before} instead of {}",
                txn.before
            ));
        }
        if led {
            self.said = self.said.max(zxid);
        }
        if candidate && !self.is_committed(zxid) && !self.is_said(zxid) {
            // The server delivers its own history for a snapshot transfer. It serves no client yet,
            // and others may have gone on without this history.
            return Ok(());
        }
        if zxid > self.said {
            return Err(format!("S-7: server {server} applies {zxid} before it is committed"));
        }
        if zxid <= self.last() {
            return if self.is_committed(zxid) {
                Ok(())
            } else {
                Err(format!("P-4: server {server} applies {zxid}, others something else"))
            };
        }
        if before != self.last() {
            let last = self.last();
            return Err(format!("P-2: server {server} applies {zxid} behind {before}, not {last}"));
        }
        self.chain.push(zxid);
        Ok(())
    }
}
