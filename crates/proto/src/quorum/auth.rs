//! SASL between servers, on the election port and the quorum port.

use bytes::{Buf, Bytes, BytesMut};
use zebu_jute::{DecodeError, Decoder, Encode, Encoder};

use crate::stream::{if_complete, limited, take};

/// The magic number at the start of every packet.
/// Source: `QuorumAuth.QUORUM_AUTH_MAGIC_NUMBER`.
pub const AUTH_MAGIC: u64 = 0x5f24_3501_3501_edcc;

/// The status of the exchange. Unknown values survive a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AuthStatus(pub i32);

impl AuthStatus {
    /// The peer must send more.
    pub const IN_PROGRESS: Self = Self(0);
    /// The connecting server has proved its identity.
    pub const SUCCESS: Self = Self(1);
    /// It has not, or an error occurred.
    pub const ERROR: Self = Self(-1);
}

/// One step of the exchange.
///
/// Source: `zookeeper.jute`, `server.quorum.QuorumAuthPacket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthPacket {
    /// The status.
    pub status: AuthStatus,
    /// The mechanism's token; may be null at the end.
    pub token: Option<Bytes>,
}

/// Whether the bytes start with a packet of the exchange; `None` if fewer than 8 bytes have arrived
/// and they match so far. A server that does not authenticate starts differently.
pub fn is_auth_packet(received: &[u8]) -> Option<bool> {
    let magic = AUTH_MAGIC.to_be_bytes();
    let seen = received.len().min(magic.len());
    match received[..seen] == magic[..seen] {
        true if seen < magic.len() => None,
        is_magic => Some(is_magic),
    }
}

impl AuthPacket {
    /// Removes one packet from the front of the receive buffer. `None`: it is incomplete, and
    /// nothing was removed.
    ///
    /// # Errors
    /// [`DecodeError`]: the magic number is wrong, or the token is too long.
    pub fn decode(
        buffer: &mut BytesMut,
        token_bytes_max: usize,
    ) -> Result<Option<Self>, DecodeError> {
        let mut from = Decoder::new(buffer);
        let Some(magic) = if_complete(from.long())? else { return Ok(None) };
        if magic as u64 != AUTH_MAGIC {
            return Err(DecodeError::Value { what: "magic of an auth packet", value: magic });
        }
        let rest = if_complete(
            from.int().and_then(|status| Ok((status, limited(&mut from, token_bytes_max)?))),
        )?;
        let Some((status, token)) = rest else { return Ok(None) };
        let (end, token_bytes) = (from.position(), token.map(<[u8]>::len));
        let token = match token_bytes {
            Some(bytes) => Some(take(buffer, end - bytes, end)),
            None => {
                buffer.advance(end);
                None
            }
        };
        Ok(Some(Self { status: AuthStatus(status), token }))
    }
}

impl Encode for AuthPacket {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.long(AUTH_MAGIC as i64);
        out.int(self.status.0);
        out.buffer(self.token.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_packet_of_a_dialler() {
        let bytes = [0x5f, 0x24, 0x35, 1, 0x35, 1, 0xed, 0xcc, 0, 0, 0, 0, 0, 0, 0, 0];
        let first = AuthPacket { status: AuthStatus::IN_PROGRESS, token: Some(Bytes::new()) };
        assert_eq!(first.to_bytes(), bytes);
        for cut in 0..bytes.len() {
            let mut buffer = BytesMut::from(&bytes[..cut]);
            assert_eq!(AuthPacket::decode(&mut buffer, 100), Ok(None), "{cut}");
            assert_eq!(is_auth_packet(&bytes[..cut]), (cut >= 8).then_some(true), "{cut}");
        }
        assert_eq!(AuthPacket::decode(&mut BytesMut::from(&bytes[..]), 100), Ok(Some(first)));
    }

    #[test]
    fn what_is_something_else_is_known_at_its_first_byte() {
        assert_eq!(is_auth_packet(&[0]), Some(false));
        assert_eq!(is_auth_packet(&[]), None);
        let other = [0, 0, 0, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(AuthPacket::decode(&mut BytesMut::from(&other[..]), 100).is_err());
    }

    #[test]
    fn a_long_token_is_refused_before_it_comes() {
        let mut bytes = AUTH_MAGIC.to_be_bytes().to_vec();
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 101]);
        assert_eq!(
            AuthPacket::decode(&mut BytesMut::from(&bytes[..]), 100),
            Err(DecodeError::Length { at: 12, length: 101 })
        );
        let null = AuthPacket { status: AuthStatus::SUCCESS, token: None };
        let bytes = null.to_bytes();
        assert_eq!(AuthPacket::decode(&mut BytesMut::from(&bytes[..]), 100), Ok(Some(null)));
    }
}
