//! A request as bytes, complete except for its xid.

use zebu_jute::Encoder;
use zebu_proto::{OpCode, Xid};

const XID_AT: usize = 4;

/// A request's frame. The xid is filled in on sending, when its order is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    op: OpCode,
    bytes: Vec<u8>,
}

impl Frame {
    /// The frame of an `op` with the body that `write` produces.
    pub fn new(op: OpCode, write: impl FnOnce(&mut Encoder<'_>)) -> Self {
        let mut bytes = Vec::with_capacity(128);
        let mut out = Encoder::new(&mut bytes);
        out.int(0);
        out.int(0);
        out.int(op.0);
        write(&mut out);
        let length = bytes.len() - 4;
        // An impossible length is refused before sending, so its value does not matter.
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        Self { op, bytes }
    }

    /// The operation.
    pub fn op(&self) -> OpCode {
        self.op
    }

    /// The payload's length, which servers limit.
    pub fn length(&self) -> usize {
        self.bytes.len() - 4
    }

    /// Appends the frame with its xid to `out`.
    pub(crate) fn write(&self, xid: Xid, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&self.bytes);
        out[at + XID_AT..at + XID_AT + 4].copy_from_slice(&xid.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_get_data() {
        // getData "/" without a watch, xid 1, as clients of the original send it.
        let frame = Frame::new(OpCode::GET_DATA, |out| {
            out.text("/");
            out.boolean(false);
        });
        let mut bytes = Vec::new();
        frame.write(Xid(1), &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, b'/', 0]);
        assert_eq!(frame.length(), 14);
    }
}
