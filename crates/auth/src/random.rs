//! Random bytes from the system, for drivers. All other modules of this crate get random bytes from
//! their caller.

use crate::crypto;

/// Unpredictable bytes; `None` if the system provides none.
pub fn bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    crypto::provider().secure_random.fill(&mut bytes).is_ok().then_some(bytes)
}
