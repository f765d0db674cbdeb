//! The bytes to send on a connection, in order.

use std::collections::VecDeque;

/// Default limit of unsent bytes: a client that does not read its answers is then disconnected. The
/// limit is higher where the permitted answers need more.
pub const OUTBOX_BYTES_MAX: usize = 64 << 20;
const _: () =
    assert!(crate::client::OUTBOX_BYTES_HIGH < OUTBOX_BYTES_MAX, "it waits, then it ends");

/// A smaller piece is sent together with the next one.
const PIECE_BYTES_MIN: usize = 4 << 10;

/// The bytes to send, and whether the connection ends after them.
///
/// **Invariant:** a thread that locks the tree and an outbox locks the tree first. Checked by
/// `every_request_is_answered_in_order_whoever_has_the_turn`: with another order, threads would
/// wait for each other for ever.
#[derive(Debug)]
pub struct Outbox {
    /// Pieces of frames that come before `bytes`, in order. None is empty.
    pieces: VecDeque<Vec<u8>>,
    /// The sum of their lengths.
    pieces_bytes: usize,
    /// Whole frames, in order.
    bytes: Vec<u8>,
    bytes_max: usize,
    end: OutboxEnd,
}

/// Whether a connection continues after the bytes in its outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutboxEnd {
    /// It continues.
    #[default]
    Open,
    /// It closes once everything is sent. Nothing more is added.
    Last,
    /// It closes at once: the client did not read its answers.
    Overrun,
}

impl Outbox {
    /// An empty outbox. With more than `bytes_max` unsent bytes, the connection ends.
    pub fn new(bytes_max: usize) -> Self {
        let (pieces, pieces_bytes) = (VecDeque::new(), 0);
        Self { pieces, pieces_bytes, bytes: Vec::new(), bytes_max, end: OutboxEnd::Open }
    }

    /// Adds the bytes that `write` appends, unless the connection ends. Returns their number.
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        if !self.takes() {
            return 0;
        }
        let before = self.bytes.len();
        write(&mut self.bytes);
        debug_assert!(self.bytes.len() >= before, "what waits is taken back");
        self.bytes.len() - before
    }

    /// Adds a long frame in pieces, without a copy, unless the connection ends. Returns the number
    /// of bytes.
    pub fn put_pieces(&mut self, pieces: Vec<Vec<u8>>) -> usize {
        if !self.takes() {
            return 0;
        }
        let before = self.waiting();
        let earlier = std::mem::take(&mut self.bytes);
        for piece in std::iter::once(earlier).chain(pieces).filter(|piece| !piece.is_empty()) {
            self.pieces_bytes += piece.len();
            self.pieces.push_back(piece);
        }
        self.waiting() - before
    }

    /// Whether more bytes may be added. If too many wait, the connection ends.
    fn takes(&mut self) -> bool {
        if self.end == OutboxEnd::Open && self.waiting() > self.bytes_max {
            (self.bytes, self.pieces, self.pieces_bytes) = (Vec::new(), VecDeque::new(), 0);
            self.end = OutboxEnd::Overrun;
        }
        self.end == OutboxEnd::Open
    }

    /// Adds nothing more; the connection closes when everything is sent.
    pub fn close(&mut self) {
        if self.end == OutboxEnd::Open {
            self.end = OutboxEnd::Last;
        }
        self.check();
    }

    /// Asserts what holds between any two calls.
    fn check(&self) {
        let is_over = self.end == OutboxEnd::Overrun;
        assert!(!is_over || self.waiting() == 0, "nobody reads what waits");
    }

    /// Whether and how the connection ends.
    pub fn end(&self) -> OutboxEnd {
        self.end
    }

    /// The number of unsent bytes.
    pub fn waiting(&self) -> usize {
        self.pieces_bytes + self.bytes.len()
    }

    /// Takes the next unsent bytes: the next piece, or all that is not in pieces. `empty` must be
    /// empty; the outbox reuses its capacity.
    pub fn swap(&mut self, empty: &mut Vec<u8>) {
        self.check();
        assert!(empty.is_empty(), "what was taken before is sent");
        match self.pieces.pop_front() {
            Some(mut piece) => {
                while piece.len() < PIECE_BYTES_MIN
                    && let Some(next) = self.pieces.pop_front()
                {
                    piece.extend_from_slice(&next);
                }
                self.pieces_bytes -= piece.len();
                *empty = piece;
            }
            None => std::mem::swap(&mut self.bytes, empty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_the_last_frame() {
        let mut outbox = Outbox::new(OUTBOX_BYTES_MAX);
        assert_eq!(outbox.put(|bytes| bytes.extend([1, 2])), 2);
        outbox.close();
        assert_eq!(outbox.put(|bytes| bytes.push(3)), 0);
        let mut taken = Vec::new();
        outbox.swap(&mut taken);
        assert_eq!((taken, outbox.end()), (vec![1, 2], OutboxEnd::Last));
    }

    #[test]
    fn a_frame_in_pieces_keeps_its_place() {
        let mut outbox = Outbox::new(OUTBOX_BYTES_MAX);
        outbox.put(|bytes| bytes.push(1));
        let long = vec![3; PIECE_BYTES_MIN];
        assert_eq!(outbox.put_pieces(vec![vec![2], vec![], long.clone(), vec![4]]), 2 + long.len());
        outbox.put(|bytes| bytes.push(5));
        assert_eq!(outbox.waiting(), 4 + long.len());
        let mut next = || {
            let mut taken = Vec::new();
            outbox.swap(&mut taken);
            taken
        };
        assert_eq!(
            [next(), next(), next(), next()],
            [[&[1, 2], &*long].concat(), vec![4], vec![5], vec![]]
        );
        assert_eq!(outbox.waiting(), 0);
        let mut outbox = Outbox::new(1);
        outbox.put_pieces(vec![vec![1], vec![2]]);
        outbox.put(|bytes| bytes.push(3));
        assert_eq!((outbox.end(), outbox.waiting()), (OutboxEnd::Overrun, 0));
        outbox.check();
    }

    #[test]
    fn what_nobody_reads_is_bounded() {
        let mut outbox = Outbox::new(OUTBOX_BYTES_MAX);
        // A single frame may exceed the limit.
        outbox.put(|bytes| bytes.resize(OUTBOX_BYTES_MAX + 1, 0));
        assert_eq!(outbox.end(), OutboxEnd::Open);
        outbox.put(|bytes| bytes.push(0));
        assert_eq!((outbox.end(), outbox.waiting()), (OutboxEnd::Overrun, 0));
        outbox.close();
        assert_eq!(outbox.end(), OutboxEnd::Overrun);
    }
}
