//! The limits for the costs of a request.

/// The maximum cost of one request of a story.
pub(crate) struct Limit {
    /// The story.
    pub(crate) story: &'static str,
    /// The unit: instructions, atomic instructions, allocations, or a system call.
    pub(crate) of: &'static str,
    /// The maximum.
    pub(crate) most: f64,
}

const fn limit(story: &'static str, of: &'static str, most: f64) -> Limit {
    Limit { story, of, most }
}

/// All limits, at most a tenth above the counts when they were set. Counts that depend on the
/// relative speed of client and server have more room.
pub(crate) const LIMITS: &[Limit] = &[
    limit("getData, one at a time", "recvfrom", 1.02),
    limit("getData, one at a time", "sendto", 1.02),
    limit("getData, one at a time", "epoll_wait", 1.1),
    limit("getData, one at a time", "futex", 0.1),
    limit("getData, one at a time", "allocations", 0.1),
    limit("getData, one at a time", "instructions", 5_600.0),
    limit("getData, one at a time", "atomics", 76.0),
    limit("getData, 128 at a time", "recvfrom", 0.02),
    limit("getData, 128 at a time", "sendto", 0.02),
    limit("getData, 128 at a time", "allocations", 0.1),
    limit("getData, 128 at a time", "instructions", 1_450.0),
    limit("getData, 128 at a time", "atomics", 0.7),
    limit("setData, one at a time", "recvfrom", 1.02),
    limit("setData, one at a time", "sendto", 1.02),
    limit("setData, one at a time", "fdatasync", 1.05),
    limit("setData, one at a time", "pwrite64", 2.1),
    limit("setData, one at a time", "futex", 2.1),
    limit("setData, one at a time", "allocations", 4.6),
    limit("setData, one at a time", "instructions", 23_000.0),
    limit("setData, one at a time", "atomics", 245.0),
    limit("setData, 128 at a time", "recvfrom", 0.02),
    limit("setData, 128 at a time", "sendto", 0.05),
    limit("setData, 128 at a time", "fdatasync", 0.02),
    limit("setData, 128 at a time", "allocations", 0.2),
    limit("setData, 128 at a time", "instructions", 6_900.0),
    limit("setData, 128 at a time", "atomics", 14.0),
    limit("create, 128 at a time", "recvfrom", 0.02),
    limit("create, 128 at a time", "sendto", 0.05),
    limit("create, 128 at a time", "fdatasync", 0.02),
    limit("create, 128 at a time", "allocations", 5.7),
    limit("create, 128 at a time", "instructions", 13_600.0),
    limit("create, 128 at a time", "atomics", 19.0),
    limit("setData of a leader, one at a time", "recvfrom", 3.3),
    limit("setData of a leader, one at a time", "sendto", 6.0),
    limit("setData of a leader, one at a time", "epoll_wait", 6.0),
    limit("setData of a leader, one at a time", "fdatasync", 1.1),
    limit("setData of a leader, one at a time", "pwrite64", 2.2),
    limit("setData of a leader, one at a time", "futex", 3.0),
    limit("setData of a leader, one at a time", "write", 2.0),
    limit("setData of a leader, one at a time", "allocations", 12.8),
    limit("setData of a leader, one at a time", "instructions", 58_000.0),
    limit("setData of a leader, one at a time", "atomics", 500.0),
    limit("setData of a leader, 128 at a time", "recvfrom", 0.08),
    limit("setData of a leader, 128 at a time", "sendto", 0.16),
    limit("setData of a leader, 128 at a time", "fdatasync", 0.03),
    limit("setData of a leader, 128 at a time", "pwrite64", 0.06),
    limit("setData of a leader, 128 at a time", "futex", 0.3),
    limit("setData of a leader, 128 at a time", "allocations", 1.2),
    limit("setData of a leader, 128 at a time", "instructions", 13_200.0),
    limit("setData of a leader, 128 at a time", "atomics", 32.0),
    limit("setData of a follower, one at a time", "recvfrom", 3.3),
    limit("setData of a follower, one at a time", "sendto", 4.0),
    limit("setData of a follower, one at a time", "epoll_wait", 6.0),
    limit("setData of a follower, one at a time", "fdatasync", 1.1),
    limit("setData of a follower, one at a time", "pwrite64", 2.2),
    limit("setData of a follower, one at a time", "futex", 3.0),
    limit("setData of a follower, one at a time", "write", 2.0),
    limit("setData of a follower, one at a time", "allocations", 9.6),
    limit("setData of a follower, one at a time", "instructions", 52_000.0),
    limit("setData of a follower, one at a time", "atomics", 460.0),
    limit("setData of a follower, 128 at a time", "recvfrom", 0.08),
    limit("setData of a follower, 128 at a time", "sendto", 0.08),
    limit("setData of a follower, 128 at a time", "fdatasync", 0.03),
    limit("setData of a follower, 128 at a time", "pwrite64", 0.06),
    limit("setData of a follower, 128 at a time", "futex", 0.3),
    limit("setData of a follower, 128 at a time", "allocations", 3.9),
    limit("setData of a follower, 128 at a time", "instructions", 13_700.0),
    limit("setData of a follower, 128 at a time", "atomics", 20.0),
];
