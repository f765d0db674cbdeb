//! The password that proves ownership of a session.

use crate::SessionId;
use crate::reply::PASSWORD_BYTES;

/// The original's password for a session.
///
/// It is derived from the id alone, so it does not stop an attacker who knows the id. But every
/// server of a mixed ensemble must be able to check it. Source: `ZooKeeperServer.generatePasswd`,
/// `java.util.Random`.
pub fn compatible_password(session: SessionId) -> [u8; PASSWORD_BYTES] {
    const MULTIPLIER: u64 = 0x5_deec_e66d;
    const MASK: u64 = (1 << 48) - 1;
    let seed = session.0 as u64 ^ 0xb341_5c00;
    let mut state = (seed ^ MULTIPLIER) & MASK;
    let mut password = [0; PASSWORD_BYTES];
    for chunk in password.chunks_exact_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xb) & MASK;
        let word = (state >> 16) as u32;
        chunk.copy_from_slice(&word.swap_bytes().to_be_bytes());
    }
    password
}

/// Compares two passwords in constant time for equal lengths.
pub fn same_password(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_the_original() {
        // Sessions and passwords as a real server handed them out.
        let cases = [
            (0x0100_001a_3980_0000, "724feb1817713eeba09c651eb8b81df5"),
            (0x0100_001a_3980_0001, "8570e518b7bc1d3095dfcc498c4132c2"),
            (0x0100_001a_45ac_0000, "b6f898100b9bf26884b1bcc6cc7526d9"),
        ];
        for (session, password) in cases {
            let hex: String = compatible_password(SessionId(session))
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(hex, password);
        }
    }
}
