//! Random bytes from the system, for drivers. All other modules of this crate get random bytes from
//! their caller.

use rustls::crypto::ring;

/// Unpredictable bytes; `None` if the system provides none.
pub fn bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    ring::default_provider().secure_random.fill(&mut bytes).is_ok().then_some(bytes)
}
