//! Packs small byte strings into shared blocks, so that a record needs no allocation of its own.

use bytes::{Bytes, BytesMut};

/// Size of a block. It stays allocated as long as any of its pieces.
const BLOCK: usize = 32 * 1024;

/// Pieces of at least this size get their own allocation.
const PIECE_MAX: usize = BLOCK / 16;

const _: () = assert!(0 < PIECE_MAX && PIECE_MAX <= BLOCK, "a piece fits into a block");

/// Makes pieces.
#[derive(Debug, Default)]
pub(crate) struct Pack {
    block: BytesMut,
    /// The buffer for the next piece, kept for its capacity.
    desk: Vec<u8>,
}

impl Pack {
    /// An empty buffer for the next piece, to be passed to [`Pack::end`].
    pub(crate) fn begin(&mut self, expected: usize) -> Vec<u8> {
        let mut desk = std::mem::take(&mut self.desk);
        desk.clear();
        desk.reserve(expected);
        desk
    }

    /// Turns `piece` into shared bytes.
    pub(crate) fn end(&mut self, piece: Vec<u8>) -> Bytes {
        if piece.len() >= PIECE_MAX {
            return piece.into();
        }
        if self.block.capacity() - self.block.len() < piece.len() {
            self.block = BytesMut::with_capacity(BLOCK);
        }
        assert!(self.block.is_empty(), "the last piece was taken out");
        self.block.extend_from_slice(&piece);
        self.desk = piece;
        self.block.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(pack: &mut Pack, bytes: &[u8]) -> Bytes {
        let mut out = pack.begin(bytes.len());
        assert!(out.is_empty(), "the last one is off the desk");
        out.extend_from_slice(bytes);
        pack.end(out)
    }

    #[test]
    fn pieces_keep_their_bytes_across_blocks() {
        let mut pack = Pack::default();
        let sizes = [0, 1, 200, PIECE_MAX - 1, PIECE_MAX, 3 * BLOCK, 7];
        let content = |number: usize| {
            vec![number as u8; sizes[number % sizes.len()] + usize::from(number.is_multiple_of(2))]
        };
        let pieces: Vec<Bytes> =
            (0..200).map(|number| piece(&mut pack, &content(number))).collect();
        for (number, piece) in pieces.iter().enumerate() {
            assert_eq!(piece[..], content(number)[..], "piece {number}");
        }
    }

    #[test]
    fn small_ones_lie_one_behind_the_other() {
        let mut pack = Pack::default();
        let first = piece(&mut pack, b"first");
        let second = piece(&mut pack, b"second");
        assert_eq!(first.as_ptr().wrapping_add(5), second.as_ptr());
    }

    #[test]
    fn a_piece_that_was_given_up_leaves_nothing() {
        let mut pack = Pack::default();
        pack.begin(10).extend_from_slice(b"half");
        assert_eq!(piece(&mut pack, b"whole")[..], *b"whole");
    }
}
