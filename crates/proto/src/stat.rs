//! The stat of a znode.

use zebu_jute::record;

use crate::Zxid;

/// Bytes of an encoded [`Stat`].
pub const STAT_BYTES: usize = 68;

/// Bytes of an encoded [`StatPersisted`].
pub const STAT_PERSISTED_BYTES: usize = 60;

record! {
    /// A znode's stat as clients see it.
    #[derive(Copy, Hash)]
    fixed Stat {
        /// Zxid of its creation.
        czxid: Zxid,
        /// Zxid of its last data change.
        mzxid: Zxid,
        /// Time of its creation, in milliseconds since the Unix epoch.
        ctime: i64,
        /// Time of its last data change, in milliseconds since the Unix epoch.
        mtime: i64,
        /// Number of data changes.
        version: i32,
        /// Number of children created and deleted.
        cversion: i32,
        /// Number of ACL changes.
        aversion: i32,
        /// Owning session of an ephemeral, else 0.
        ephemeral_owner: i64,
        /// Bytes of data; 0 for null.
        data_length: i32,
        /// Number of children.
        num_children: i32,
        /// Zxid of the last change of the child list.
        pzxid: Zxid,
    }
}

record! {
    /// A znode's stat in snapshots.
    #[derive(Copy, Default)]
    fixed StatPersisted {
        /// Zxid of its creation.
        czxid: Zxid,
        /// Zxid of its last data change.
        mzxid: Zxid,
        /// Time of its creation, in milliseconds since the Unix epoch.
        ctime: i64,
        /// Time of its last data change, in milliseconds since the Unix epoch.
        mtime: i64,
        /// Number of data changes.
        version: i32,
        /// Number of children created; deletions do not count here.
        cversion: i32,
        /// Number of ACL changes.
        aversion: i32,
        /// The owner in its stored form, see [`crate::Owner`].
        ephemeral_owner: i64,
        /// Zxid of the last change of the child list.
        pzxid: Zxid,
    }
}

impl StatPersisted {
    /// The stat that clients see.
    ///
    /// `normal_ephemeral`: whether the owner is a session. The visible `cversion` counts creations
    /// and deletions, so it is twice the creations minus the remaining children. Source:
    /// `DataNode.copyStat`.
    #[inline]
    pub fn visible(&self, normal_ephemeral: bool, data_length: usize, children: u32) -> Stat {
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.cversion.wrapping_mul(2).wrapping_sub(children as i32),
            aversion: self.aversion,
            ephemeral_owner: if normal_ephemeral { self.ephemeral_owner } else { 0 },
            data_length: data_length as i32,
            num_children: children as i32,
            pzxid: self.pzxid,
        }
    }
}
