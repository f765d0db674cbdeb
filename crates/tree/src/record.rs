//! The record of a znode, and the forms of its stat.
//!
//! Most znodes never change after their creation and have no owner. Their stat follows from two
//! fields. The other znodes have the rest of their stat in their slot of the payloads, before the
//! name. So a record fills one line of a processor's cache.

use zebu_proto::{StatPersisted, Zxid};

use crate::payload::Handle;

/// `data_length` of a znode whose data are null.
pub(crate) const NULL_DATA: u32 = u32::MAX;

/// Size of the part of a stat that a change of the data concerns.
const WRITTEN_BYTES: usize = 2 * 8 + 4;
/// Size of everything in a stat but the creation.
const REST_BYTES: usize = WRITTEN_BYTES + 2 * 8 + 2 * 4;

/// How much of a stat the payload has. A znode goes from a form to a later one only.
///
/// Its number is that of the bytes before the name in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Form {
    /// Nothing: the znode is persistent, and never changed.
    Fresh = 0,
    /// The fields that a change of the data sets: mzxid, mtime and version.
    Written = WRITTEN_BYTES as u8,
    /// Everything but the creation.
    Whole = REST_BYTES as u8,
}

impl Form {
    /// The first form that can hold a stat.
    #[inline]
    pub(crate) fn of(stat: &StatPersisted) -> Self {
        let is_whole = stat.pzxid != stat.czxid
            || stat.ephemeral_owner != 0
            || stat.cversion != 0
            || stat.aversion != 0;
        let is_written = stat.mzxid != stat.czxid || stat.mtime != stat.ctime || stat.version != 0;
        match (is_whole, is_written) {
            (true, _) => Self::Whole,
            (false, true) => Self::Written,
            (false, false) => Self::Fresh,
        }
    }

    /// The number of bytes before the name in the payload.
    pub(crate) const fn bytes(self) -> usize {
        self as usize
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
    #[inline]
    pub(crate) fn stat<'p>(&self, payload: impl FnOnce() -> &'p [u8]) -> StatPersisted {
        let mut stat = fresh(self.czxid, self.ctime);
        if self.form == Form::Fresh {
            return stat;
        }
        let payload = payload();
        let written = first::<WRITTEN_BYTES>(payload);
        stat.mzxid = Zxid(i64::from_be_bytes(*first(written)));
        stat.mtime = i64::from_be_bytes(*first(&written[8..]));
        stat.version = i32::from_be_bytes(*first(&written[16..]));
        if self.form == Form::Whole {
            let rest = &first::<REST_BYTES>(payload)[WRITTEN_BYTES..];
            stat.pzxid = Zxid(i64::from_be_bytes(*first(rest)));
            stat.ephemeral_owner = i64::from_be_bytes(*first(&rest[8..]));
            stat.cversion = i32::from_be_bytes(*first(&rest[16..]));
            stat.aversion = i32::from_be_bytes(*first(&rest[20..]));
        }
        stat
    }
}

/// Writes the part of a stat that a form has to the beginning of a payload.
#[inline]
pub(crate) fn write_stat(form: Form, stat: &StatPersisted, payload: &mut [u8]) {
    debug_assert!(Form::of(stat) <= form, "{stat:?} does not fit {form:?}");
    if form == Form::Fresh {
        return;
    }
    let written = &mut payload[..WRITTEN_BYTES];
    written[..8].copy_from_slice(&stat.mzxid.0.to_be_bytes());
    written[8..16].copy_from_slice(&stat.mtime.to_be_bytes());
    written[16..].copy_from_slice(&stat.version.to_be_bytes());
    if form == Form::Whole {
        let rest = &mut payload[WRITTEN_BYTES..REST_BYTES];
        rest[..8].copy_from_slice(&stat.pzxid.0.to_be_bytes());
        rest[8..16].copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
        rest[16..20].copy_from_slice(&stat.cversion.to_be_bytes());
        rest[20..].copy_from_slice(&stat.aversion.to_be_bytes());
    }
}

#[inline]
fn first<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.first_chunk().expect("the payload begins with the stat")
}

/// The stat of a persistent znode that never changed.
#[inline]
pub(crate) fn fresh(czxid: Zxid, ctime: i64) -> StatPersisted {
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
                assert_eq!(record.stat(|| &payload), stat, "{form:?}");
            }
        }
    }
}
