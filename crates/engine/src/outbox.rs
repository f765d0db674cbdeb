//! What is to be sent on a connection, in order.

/// Unsent bytes above which a connection that does not read what it is sent is closed, unless more are
/// needed for the answers it may ask for.
pub const OUTBOX_BYTES_MAX: usize = 64 << 20;
const _: () =
    assert!(crate::client::OUTBOX_BYTES_HIGH < OUTBOX_BYTES_MAX, "it waits, then it ends");

/// What is to be sent, and whether that is the end.
///
/// **Invariant:** whoever locks the tree and an outbox locks the tree first.
#[derive(Debug)]
pub struct Outbox {
    /// Whole frames, in order.
    bytes: Vec<u8>,
    bytes_max: usize,
    end: OutboxEnd,
}

/// Whether a connection goes on after what waits in its outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutboxEnd {
    /// It goes on.
    #[default]
    Open,
    /// It ends once everything is sent; nothing more is added.
    Last,
    /// It ends at once: it did not read what it was sent.
    Overrun,
}

impl Outbox {
    /// An empty one. Once more than `bytes_max` wait in it, the connection ends.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, end: OutboxEnd::Open }
    }

    /// Adds what `write` appends, unless the connection ends; says how many bytes that were.
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        if self.end != OutboxEnd::Open {
            return 0;
        }
        let before = self.bytes.len();
        if before > self.bytes_max {
            self.bytes = Vec::new();
            self.end = OutboxEnd::Overrun;
            return 0;
        }
        write(&mut self.bytes);
        debug_assert!(self.bytes.len() >= before, "what waits is taken back");
        self.bytes.len() - before
    }

    /// Nothing follows what is in it.
    pub fn close(&mut self) {
        if self.end == OutboxEnd::Open {
            self.end = OutboxEnd::Last;
        }
        self.check();
    }

    /// Asserts what holds between any two calls.
    fn check(&self) {
        let is_over = self.end == OutboxEnd::Overrun;
        assert!(!is_over || self.bytes.is_empty(), "nobody reads what waits");
    }

    /// Whether the connection goes on.
    pub fn end(&self) -> OutboxEnd {
        self.end
    }

    /// How many bytes wait.
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// Takes what waits; `empty`, whose room is used for what comes, is empty.
    pub fn swap(&mut self, empty: &mut Vec<u8>) {
        self.check();
        assert!(empty.is_empty(), "what was taken before is sent");
        std::mem::swap(&mut self.bytes, empty);
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
    fn what_nobody_reads_is_bounded() {
        let mut outbox = Outbox::new(OUTBOX_BYTES_MAX);
        // One frame may be as large as it has to be.
        outbox.put(|bytes| bytes.resize(OUTBOX_BYTES_MAX + 1, 0));
        assert_eq!(outbox.end(), OutboxEnd::Open);
        outbox.put(|bytes| bytes.push(0));
        assert_eq!((outbox.end(), outbox.waiting()), (OutboxEnd::Overrun, 0));
        outbox.close();
        assert_eq!(outbox.end(), OutboxEnd::Overrun);
    }
}
