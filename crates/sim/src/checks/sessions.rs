//! Sessions: the requests of a session are executed in the order of their numbers, over all its
//! connections (ORD-01). Answers about renewals reach each learner in the order of its questions,
//! because the original's observer masters match them by that order.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use zebu_jute::{Decode as _, Decoder};
use zebu_proto::quorum::{PacketKind, QuorumPacket, Revalidate, Revalidated};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{SessionId, Zxid};

use crate::checks::reference::has_failed;

/// The requests of sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    /// For each session, the newest xid and its transaction.
    newest: BTreeMap<SessionId, (i32, Zxid)>,
    /// Whether sessions restart their xids on each connection.
    counts_anew: bool,
    /// The sessions that each learner has asked about, by connection.
    asked: BTreeMap<u64, VecDeque<SessionId>>,
}

impl Sessions {
    pub(crate) fn new(counts_anew: bool) -> Self {
        Self { counts_anew, ..Self::default() }
    }

    /// A transaction is committed.
    pub(crate) fn committed(&mut self, zxid: Zxid, record: &Bytes) -> Result<(), String> {
        let Ok(TxnRecord { header, txn, .. }) = TxnRecord::decode(record) else { return Ok(()) };
        // A failed request changes nothing.
        if self.counts_anew || header.cxid <= 0 || has_failed(&txn) {
            return Ok(());
        }
        let newest = (header.cxid, zxid);
        match self.newest.insert(header.session, newest) {
            Some((cxid, before)) if cxid > header.cxid => Err(format!(
                "ORD-01: request {} of {} is carried out as {zxid}, behind request {cxid} as {before}",
                header.cxid, header.session
            )),
            _ => Ok(()),
        }
    }

    /// A learner asks about a session.
    pub(crate) fn question(&mut self, link: u64, packet: &QuorumPacket) {
        if packet.kind == PacketKind::REVALIDATE
            && let Ok(asked) = Revalidate::decode(&mut Decoder::new(packet.body()))
        {
            self.asked.entry(link).or_default().push_back(asked.session);
        }
    }

    /// A leader answers a learner.
    pub(crate) fn answer(&mut self, link: u64, packet: &QuorumPacket) -> Result<(), String> {
        if packet.kind != PacketKind::REVALIDATE {
            return Ok(());
        }
        let Ok(Revalidated { session, .. }) = Revalidated::decode(&mut Decoder::new(packet.body()))
        else {
            return Err("an answer to a renewal cannot be read".to_owned());
        };
        match self.asked.entry(link).or_default().pop_front() {
            Some(asked) if asked == session => Ok(()),
            asked => Err(format!(
                "the renewal of {session} is answered where that of {asked:?} was asked before"
            )),
        }
    }
}
