//! The one kind of transaction this crate looks into: a reconfiguration, whose data are the text of
//! the configuration it proposes.

use zebu_proto::OpCode;
use zebu_proto::txn::{Txn, TxnRecord};

use super::{Membership, Rules};

/// Where the type stands in a transaction's header: behind session, cxid, zxid and time.
const TYPE_AT: usize = 28;

impl Membership {
    /// Reads a configuration that servers have agreed on: what only a single server's settings
    /// allow or forbid is not looked at.
    pub fn agreed(text: &[u8]) -> Option<Self> {
        Self::parse(text, Rules { standalone: false, multi_address: true }).ok()
    }

    /// The configuration that a transaction proposes; `None` if it is no reconfiguration.
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
