//! Finds the configuration in a reconfiguration, the only transaction that this crate looks into.

use zebu_proto::OpCode;
use zebu_proto::txn::{Txn, TxnRecord};

use super::{Membership, Rules};

/// Offset of the type in a transaction's header: after session, cxid, zxid and time.
const TYPE_AT: usize = 28;

impl Membership {
    /// Parses a configuration that the ensemble has agreed on. The settings of this server do not
    /// restrict it.
    pub fn agreed(text: &[u8]) -> Option<Self> {
        Self::parse(text, Rules { standalone: false, multi_address: true }).ok()
    }

    /// The configuration that a transaction proposes; `None` if it is not a reconfiguration.
    pub fn in_txn(record: &[u8]) -> Option<Self> {
        let kind = record.get(TYPE_AT..TYPE_AT + 4)?;
        if kind != OpCode::RECONFIG.0.to_be_bytes() {
            return None;
        }
        let record = TxnRecord::decode(record).ok()?;
        match record.txn {
            Txn::SetData { data: Some(text), .. } => {
                Self::agreed(text).map(|config| config.with_version(record.header.zxid))
            }
            _ => None,
        }
    }
}
