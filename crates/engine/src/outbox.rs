//! The bytes to send on a connection, in order.

/// Default limit of unsent bytes: a client that does not read its answers is then disconnected. The
/// limit is higher where the permitted answers need more.
pub const OUTBOX_BYTES_MAX: usize = 64 << 20;
const _: () =
    assert!(crate::client::OUTBOX_BYTES_HIGH < OUTBOX_BYTES_MAX, "it waits, then it ends");

/// The bytes to send, and whether the connection ends after them.
///
/// **Invariant:** a thread that locks the tree and an outbox locks the tree first.
#[derive(Debug)]
pub struct Outbox {
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
        Self { bytes: Vec::new(), bytes_max, end: OutboxEnd::Open }
    }

    /// Adds the bytes that `write` appends, unless the connection ends. Returns their number.
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
        assert!(!is_over || self.bytes.is_empty(), "nobody reads what waits");
    }

    /// Whether and how the connection ends.
    pub fn end(&self) -> OutboxEnd {
        self.end
    }

    /// The number of unsent bytes.
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the unsent bytes. `empty` must be empty; the outbox reuses its capacity.
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
        // A single frame may exceed the limit.
        outbox.put(|bytes| bytes.resize(OUTBOX_BYTES_MAX + 1, 0));
        assert_eq!(outbox.end(), OutboxEnd::Open);
        outbox.put(|bytes| bytes.push(0));
        assert_eq!((outbox.end(), outbox.waiting()), (OutboxEnd::Overrun, 0));
        outbox.close();
        assert_eq!(outbox.end(), OutboxEnd::Overrun);
    }
}
