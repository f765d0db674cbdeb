//! The answers of the echo server, built once.

use zebu_jute::Encoder;

use crate::wire::{self, LENGTH_BYTES};

/// Bytes of a `Stat`.
const STAT_BYTES: usize = 68;

/// Replies that are encoded once.
#[derive(Debug)]
pub(super) struct Replies {
    pub(super) value_bytes: usize,
    /// To getData.
    pub(super) get: Reply,
    /// To exists and setData.
    pub(super) stat: Reply,
    /// A header alone.
    pub(super) empty: Reply,
}

impl Replies {
    pub(super) fn new(value_bytes: usize) -> Self {
        let stat = [0; STAT_BYTES];
        Self {
            value_bytes,
            get: Reply::new(|to| {
                to.buffer(Some(&wire::value(value_bytes)));
                to.raw(&stat);
            }),
            stat: Reply::new(|to| to.raw(&stat)),
            empty: Reply::new(|_| {}),
        }
    }
}

/// A reply frame of which only the xid changes.
#[derive(Debug)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    fn new(body: impl FnOnce(&mut Encoder<'_>)) -> Self {
        let mut bytes = Vec::new();
        let mut to = Encoder::new(&mut bytes);
        to.int(0); // length
        to.int(0); // xid
        to.long(1); // zxid
        to.int(0); // no error
        body(&mut to);
        wire::seal(&mut bytes, 0);
        Self(bytes)
    }

    #[inline]
    pub(super) fn put(&self, out: &mut Vec<u8>, xid: i32) {
        let start = out.len();
        out.extend_from_slice(&self.0);
        out[start + LENGTH_BYTES..start + LENGTH_BYTES + 4].copy_from_slice(&xid.to_be_bytes());
    }
}
