//! The record of a znode, and the forms of its stat.
//!
//! Most znodes never change after their creation and have no owner. Their stat follows from two fields. The other znodes have the
//! rest of their stat in their slot of the payloads, before the name. So a record fills one line of a processor's cache.

use zebu_proto::{StatPersisted, Zxid};

use crate::payload::Handle;

/// `data_length` of a znode whose data are null.
pub(crate) const NULL_DATA: u32 = u32::MAX;

/// Size of the part of a stat that a change of the data concerns.
const WRITTEN_BYTES: usize = 2 * 8 + 4;
/// Size of everything in a stat but the creation.
const REST_BYTES: usize = WRITTEN_BYTES + 2 * 8 + 2 * 4;

/// How much of a stat the payload has. A znode goes from a form to a later one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// Nothing: the znode is persistent, and never changed.
    Fresh,
    /// What a change of the data concerns: mzxid, mtime and version.
    Written,
    /// Everything but the creation.
    Whole,
}

impl Form {
    /// The first form that can hold a stat.
    pub(crate) fn of(stat: &StatPersisted) -> Self {
        let fresh = fresh(stat.czxid, stat.ctime);
        if *stat == fresh {
            return Self::Fresh;
        }
        let StatPersisted { mzxid, mtime, version, .. } = *stat;
        if *stat == (StatPersisted { mzxid, mtime, version, ..fresh }) {
            return Self::Written;
        }
        Self::Whole
    }

    /// The number of bytes before the name in the payload.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Fresh => 0,
            Self::Written => WRITTEN_BYTES,
            Self::Whole => REST_BYTES,
        }
    }
}

/// Everything about a znode except its name, its data, and the rest of its stat.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) czxid: Zxid,
    pub(crate) ctime: i64,
    /// Index into the ACL table.
    pub(crate) acl: u32,
    pub(crate) parent: u32,
    pub(crate) newest_child: u32,
    /// The sibling created before this one, if there is one.
    pub(crate) older: u32,
    /// The sibling created after this one. The newest child names the oldest one here, so that both
    /// ends of the list are found from the parent's one field.
    pub(crate) newer: u32,
    pub(crate) children: u32,
    /// The znode's contribution to the tree digest, if digests are enabled.
    pub(crate) digest: u32,
    /// Hash of parent and name.
    pub(crate) hash: u32,
    /// The next record in the same bucket of the index; for a free record, the next free one.
    pub(crate) hash_next: u32,
    pub(crate) payload: Handle,
    pub(crate) data_length: u32,
    /// How much of the stat the payload begins with.
    pub(crate) form: Form,
}

const _: () = assert!(size_of::<Record>() == 64, "one line of a processor's cache");

impl Record {
    pub(crate) fn data_length(&self) -> usize {
        if self.data_length == NULL_DATA { 0 } else { self.data_length as usize }
    }

    /// The stat, from the record and the payload.
    pub(crate) fn stat(&self, payload: &[u8]) -> StatPersisted {
        let mut stat = fresh(self.czxid, self.ctime);
        if self.form >= Form::Written {
            stat.mzxid = Zxid(long(payload, 0));
            stat.mtime = long(payload, 8);
            stat.version = int(payload, 16);
        }
        if self.form == Form::Whole {
            stat.pzxid = Zxid(long(payload, WRITTEN_BYTES));
            stat.ephemeral_owner = long(payload, WRITTEN_BYTES + 8);
            stat.cversion = int(payload, WRITTEN_BYTES + 16);
            stat.aversion = int(payload, WRITTEN_BYTES + 20);
        }
        stat
    }
}

/// Writes the part of a stat that a form has to the beginning of a payload.
pub(crate) fn write_stat(form: Form, stat: &StatPersisted, payload: &mut [u8]) {
    debug_assert!(Form::of(stat) <= form, "{stat:?} does not fit {form:?}");
    if form >= Form::Written {
        payload[..8].copy_from_slice(&stat.mzxid.0.to_be_bytes());
        payload[8..16].copy_from_slice(&stat.mtime.to_be_bytes());
        payload[16..20].copy_from_slice(&stat.version.to_be_bytes());
    }
    if form == Form::Whole {
        let payload = &mut payload[WRITTEN_BYTES..REST_BYTES];
        payload[..8].copy_from_slice(&stat.pzxid.0.to_be_bytes());
        payload[8..16].copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
        payload[16..20].copy_from_slice(&stat.cversion.to_be_bytes());
        payload[20..24].copy_from_slice(&stat.aversion.to_be_bytes());
    }
}

fn long(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(*bytes[at..].first_chunk().expect("the payload begins with the stat"))
}

fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(*bytes[at..].first_chunk().expect("the payload begins with the stat"))
}

/// The stat of a persistent znode that never changed.
fn fresh(czxid: Zxid, ctime: i64) -> StatPersisted {
    StatPersisted {
        czxid,
        mzxid: czxid,
        pzxid: czxid,
        ctime,
        mtime: ctime,
        ..StatPersisted::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut StatPersisted);

    #[test]
    fn each_field_of_a_stat_has_a_place_in_its_form() {
        let base = fresh(Zxid(7), -3);
        let changes: [(Form, Change); 8] = [
            (Form::Fresh, |_| {}),
            (Form::Written, |stat| stat.mzxid = Zxid(i64::MIN)),
            (Form::Written, |stat| stat.mtime = i64::MAX),
            (Form::Written, |stat| stat.version = -1),
            (Form::Whole, |stat| stat.pzxid = Zxid(1)),
            (Form::Whole, |stat| stat.ephemeral_owner = i64::MIN),
            (Form::Whole, |stat| stat.cversion = i32::MIN),
            (Form::Whole, |stat| stat.aversion = -1),
        ];
        for (form, change) in changes {
            let mut stat = base;
            change(&mut stat);
            assert_eq!(Form::of(&stat), form, "{stat:?}");
            for form in [Form::Fresh, Form::Written, Form::Whole] {
                if form < Form::of(&stat) {
                    continue;
                }
                let mut payload = vec![0; form.bytes()];
                write_stat(form, &stat, &mut payload);
                let record = Record {
                    czxid: stat.czxid,
                    ctime: stat.ctime,
                    form,
                    ..crate::arena::Arena::new(1).get(crate::arena::ROOT).clone()
                };
                assert_eq!(record.stat(&payload), stat, "{form:?}");
            }
        }
    }
}
