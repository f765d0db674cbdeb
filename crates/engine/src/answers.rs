//! Answers made in a row, to be counted together.

use zebu_replica::frame;

/// How many answers there are, and how long they are.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// How many were put into an outbox.
    pub count: u64,
    /// Bytes of all their frames.
    pub bytes: u64,
    /// Payload bytes of the last one; −1 without any.
    pub last_bytes: i64,
    /// Payload bytes of the shortest.
    pub min_bytes: i64,
    /// Payload bytes of the longest; −1 without any.
    pub max_bytes: i64,
}

impl Default for Answers {
    fn default() -> Self {
        Self { count: 0, bytes: 0, last_bytes: -1, min_bytes: i64::MAX, max_bytes: -1 }
    }
}

impl Answers {
    /// Notes an answer whose frame has so many bytes; without any it was not sent.
    pub fn add(&mut self, frame_bytes: usize) {
        let Some(payload) = frame_bytes.checked_sub(frame::LENGTH_BYTES) else { return };
        let payload = i64::try_from(payload).unwrap_or(i64::MAX);
        self.count += 1;
        self.bytes += frame_bytes as u64;
        self.last_bytes = payload;
        self.min_bytes = self.min_bytes.min(payload);
        self.max_bytes = self.max_bytes.max(payload);
        debug_assert!(self.min_bytes <= payload && payload <= self.max_bytes, "{self:?}");
    }
}
