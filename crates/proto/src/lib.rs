//! ZooKeeper's vocabulary: ids, records, opcodes, error codes and events. Does no I/O.

mod ids;

pub use ids::{Epoch, ServerId, SessionId, Version, Xid, Zxid};
