//! Counts and sizes of consecutive answers, so that metrics are updated once for all of them.

use zebu_replica::frame;

/// How many answers were sent, and their sizes.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// Number of answers put into an outbox.
    pub count: u64,
    /// Sum of the frame sizes, in bytes.
    pub bytes: u64,
    /// Payload bytes of the last answer; −1 if there is none.
    pub last_bytes: i64,
    /// Payload bytes of the shortest answer; `i64::MAX` if there is none.
    pub min_bytes: i64,
    /// Payload bytes of the longest answer; −1 if there is none.
    pub max_bytes: i64,
}

impl Default for Answers {
    fn default() -> Self {
        Self { count: 0, bytes: 0, last_bytes: -1, min_bytes: i64::MAX, max_bytes: -1 }
    }
}

impl Answers {
    /// Adds an answer whose frame is `frame_bytes` long. 0 means it was not sent and is not
    /// counted.
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
