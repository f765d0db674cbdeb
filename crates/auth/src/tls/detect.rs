//! Detects TLS by the first bytes of a connection, for ports that accept both TLS and plain text.

/// Maximum number of bytes that the detection needs.
pub const HEADER_BYTES: usize = 5;

const HANDSHAKE: u8 = 0x16;
/// Maximum length of a record: its content, and the overhead of encryption.
const RECORD_BYTES_MAX: usize = (1 << 14) + 2048;

/// The protocol of a connection's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// A TLS handshake.
    Tls,
    /// Anything else. No frame of ZooKeeper begins like a handshake: it would be longer than 350
    /// MB.
    Plain,
    /// More bytes are needed. A connection that ends or stays silent at this point is plain text.
    More,
}

/// Examines the bytes received so far, and consumes none of them.
///
/// Except for [`Detection::More`], more bytes do not change the result. Source:
/// `UnifiedServerSocket`, `SslHandler.isEncrypted`.
pub fn detect(bytes: &[u8]) -> Detection {
    let is = |at: usize, good: &dyn Fn(u8) -> bool| bytes.get(at).is_none_or(|byte| good(*byte));
    if !is(0, &|kind| kind == HANDSHAKE)
        || !is(1, &|major| major == 3)
        || !is(2, &|minor| minor <= 4)
    {
        return Detection::Plain;
    }
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Detection::More };
    let length = usize::from(header[3]) << 8 | usize::from(header[4]);
    if (1..=RECORD_BYTES_MAX).contains(&length) { Detection::Tls } else { Detection::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_of_openssl_and_java_are_tls() {
        // The headers of ClientHello records: openssl s_client, Java 17, and a TLS 1.0 client.
        for header in [[0x16, 3, 1, 1, 0x25], [0x16, 3, 3, 1, 0xb4], [0x16, 3, 1, 0, 0x51]] {
            assert_eq!(detect(&header), Detection::Tls);
            for length in 0..HEADER_BYTES {
                assert_eq!(detect(&header[..length]), Detection::More);
            }
        }
    }

    #[test]
    fn connect_requests_words_and_election_messages_are_plain() {
        let plain: [&[u8]; 6] = [
            &[0, 0, 0, 0x2d, 0],
            b"ruok",
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
            &[0, 0, 0, 0x0b, 0],
            &[0x5f, 0x24, 0x35, 0x01],
            b"GET / HTTP/1.1",
        ];
        for bytes in plain {
            for length in 1..=bytes.len() {
                assert_eq!(detect(&bytes[..length]), Detection::Plain, "{bytes:?}");
            }
        }
        assert_eq!(detect(&[0x16, 3, 1, 0, 0]), Detection::Plain);
        assert_eq!(detect(&[0x16, 3, 1, 0xff, 0xff]), Detection::Plain);
    }
}
