//! Requests for transactions that a damaged log lacks, and their answers, on the election port.
//!
//! A request is the first message of a connection, in place of an initial message. Its version is
//! unknown to the original, which closes the connection. SASL follows the request, as it follows an
//! initial message. The answer is a sequence of records with an end mark.

use bytes::{Buf, Bytes, BytesMut};
use zebu_jute::{DecodeError, Decoder, Encode, Encoder};

use super::InitialMessage;
use crate::stream::{if_complete, take};
use crate::{ServerId, Zxid};

/// The version of a request: no server of the original sends or accepts it.
const QUESTION: i64 = i64::from_be_bytes(*b"\xffZBREP\0\x01");
/// Maximum number of ranges in a request.
pub const MISSING_MAX: usize = 1024;
/// Bytes of a range.
const MISSING_BYTES: usize = 16;

/// A record of an answer follows for every length above zero.
const END: i32 = -1;
const MORE: i32 = -2;

/// A range of transactions of which some or all are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The transaction before the range.
    pub after: Zxid,
    /// The last transaction of the range.
    pub up_to: Zxid,
}

impl Missing {
    /// Whether the range contains a transaction.
    pub fn has(&self, zxid: Zxid) -> bool {
        self.after < zxid && zxid <= self.up_to
    }
}

/// A request for transactions that a damaged log lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairQuestion {
    /// The requesting server.
    pub server: ServerId,
    /// The missing transactions: ranges in ascending order that do not overlap, at most
    /// [`MISSING_MAX`].
    pub missing: Vec<Missing>,
}

impl RepairQuestion {
    /// A request for as many of these ranges as fit.
    pub fn new(server: ServerId, mut missing: Vec<Missing>) -> Self {
        missing.truncate(MISSING_MAX);
        Self { server, missing }
    }

    fn read(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let version = from.long()?;
        if version != QUESTION {
            return Err(DecodeError::Value { what: "version of a question", value: version });
        }
        let server = ServerId(from.long()?);
        let at = from.position();
        let length = from.int()?;
        let bytes = usize::try_from(length).unwrap_or(0);
        let is_sound = bytes.is_multiple_of(MISSING_BYTES)
            && (1..=MISSING_MAX).contains(&(bytes / MISSING_BYTES));
        if !is_sound {
            return Err(DecodeError::Length { at, length });
        }
        let mut missing: Vec<Missing> = Vec::with_capacity(bytes / MISSING_BYTES);
        for _ in 0..bytes / MISSING_BYTES {
            let next = Missing { after: Zxid(from.long()?), up_to: Zxid(from.long()?) };
            let is_behind = missing.last().is_none_or(|last| last.up_to <= next.after);
            if next.up_to <= next.after || !is_behind {
                return Err(DecodeError::Value { what: "range", value: next.after.0 });
            }
            missing.push(next);
        }
        Ok(Self { server, missing })
    }
}

impl Encode for RepairQuestion {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.long(QUESTION);
        out.long(self.server.0);
        out.int((self.missing.len() * MISSING_BYTES) as i32);
        for missing in &self.missing {
            out.long(missing.after.0);
            out.long(missing.up_to.0);
        }
    }
}

/// The first message of a connection on the election port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstMessage {
    /// An initial message: a server introduces itself, and votes follow.
    Initial(InitialMessage),
    /// A request for transactions.
    Repair(RepairQuestion),
}

impl FirstMessage {
    /// Removes the message from the front of the receive buffer. `None`: it is incomplete, and
    /// nothing was removed.
    ///
    /// # Errors
    /// The errors of [`InitialMessage::decode`]; or a request has no range, too many ranges, or
    /// ranges out of order.
    pub fn decode(buffer: &mut BytesMut) -> Result<Option<Self>, DecodeError> {
        let Some(version) = if_complete(Decoder::new(buffer).long())? else { return Ok(None) };
        if version != QUESTION {
            return Ok(InitialMessage::decode(buffer)?.map(Self::Initial));
        }
        let mut from = Decoder::new(buffer);
        let Some(question) = if_complete(RepairQuestion::read(&mut from))? else {
            return Ok(None);
        };
        let end = from.position();
        buffer.advance(end);
        Ok(Some(Self::Repair(question)))
    }

    /// The server that sends the message.
    pub fn server(&self) -> ServerId {
        match self {
            Self::Initial(message) => message.server,
            Self::Repair(question) => question.server,
        }
    }
}

impl Encode for FirstMessage {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Self::Initial(message) => message.encode(out),
            Self::Repair(question) => question.encode(out),
        }
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairAnswer {
    /// The body of a requested transaction: header, transaction and digest.
    Record(Bytes),
    /// The end mark: the member has no further ones of these transactions.
    End,
    /// The end mark: the member may have more. Ask again for the transactions after the last
    /// record.
    More,
}

impl RepairAnswer {
    /// Removes the next part from the front of the receive buffer. `None`: it is incomplete, and
    /// nothing was removed.
    ///
    /// # Errors
    /// A record is empty, or longer than `record_bytes_max`.
    pub fn decode(
        buffer: &mut BytesMut,
        record_bytes_max: usize,
    ) -> Result<Option<Self>, DecodeError> {
        let Some(length) = if_complete(Decoder::new(buffer).int())? else { return Ok(None) };
        let end = match length {
            END | MORE => {
                buffer.advance(4);
                return Ok(Some(if length == END { Self::End } else { Self::More }));
            }
            1.. if length as usize <= record_bytes_max => 4 + length as usize,
            _ => return Err(DecodeError::Length { at: 0, length }),
        };
        Ok((buffer.len() >= end).then(|| Self::Record(take(buffer, 4, end))))
    }

    /// Appends a record to the output.
    pub fn encode_record(body: &[u8], out: &mut Vec<u8>) {
        Encoder::new(out).buffer(Some(body));
    }
}

impl Encode for RepairAnswer {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Self::Record(body) => out.buffer(Some(body)),
            Self::End => out.int(END),
            Self::More => out.int(MORE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostPort;

    fn missing(after: i64, up_to: i64) -> Missing {
        Missing { after: Zxid(after), up_to: Zxid(up_to) }
    }

    fn first(bytes: &[u8]) -> Result<Option<FirstMessage>, DecodeError> {
        FirstMessage::decode(&mut BytesMut::from(bytes))
    }

    #[test]
    fn a_question_is_told_from_an_initial_message() {
        let question = RepairQuestion::new(ServerId(3), vec![missing(4, 9), missing(12, 0x1_0000)]);
        let bytes = question.to_bytes();
        assert_eq!(bytes[..8], *b"\xffZBREP\0\x01");
        for cut in 0..bytes.len() {
            assert_eq!(first(&bytes[..cut]), Ok(None), "{cut}");
        }
        let mut buffer = BytesMut::from(&[&bytes[..], b"sasl"].concat()[..]);
        let decoded = FirstMessage::decode(&mut buffer).unwrap().unwrap();
        assert_eq!((decoded.server(), &buffer[..]), (ServerId(3), &b"sasl"[..]));
        assert_eq!(decoded, FirstMessage::Repair(question));
        let initial = InitialMessage::new(ServerId(2), &[HostPort::new("127.0.0.1", 1)], false);
        assert_eq!(first(&initial.to_bytes()), Ok(Some(FirstMessage::Initial(initial))));
        // A version that no server knows.
        first(&(-65534i64).to_be_bytes()).unwrap_err();
        // A request for transactions is not an introduction.
        InitialMessage::decode(&mut BytesMut::from(&bytes[..])).unwrap_err();
    }

    #[test]
    fn strange_questions_are_refused_before_memory_is_taken() {
        let asked = |length: i32, rest: &[i64]| {
            let mut bytes = b"\xffZBREP\0\x01\0\0\0\0\0\0\0\x01".to_vec();
            bytes.extend(length.to_be_bytes());
            rest.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
            first(&bytes)
        };
        for length in [-1, 0, 8, 17, i32::MAX, (MISSING_MAX as i32 + 1) * 16] {
            asked(length, &[]).unwrap_err();
        }
        assert_eq!(asked(MISSING_MAX as i32 * 16, &[1, 2]), Ok(None));
        for out_of_order in [&[2, 2][..], &[2, 1], &[1, 5, 4, 9], &[1, 5, 0, 1]] {
            asked(out_of_order.len() as i32 * 8, out_of_order).unwrap_err();
        }
        assert!(asked(32, &[1, 5, 5, 9]).unwrap().is_some());
        let all = (0..5000).map(|number| missing(number * 2, number * 2 + 1)).collect();
        assert_eq!(RepairQuestion::new(ServerId(1), all).missing.len(), MISSING_MAX);
    }

    #[test]
    fn an_answer_comes_in_pieces_and_is_bounded() {
        let mut bytes = Vec::new();
        RepairAnswer::encode_record(b"body", &mut bytes);
        assert_eq!(bytes, RepairAnswer::Record(Bytes::from_static(b"body")).to_bytes());
        bytes.extend(RepairAnswer::More.to_bytes());
        bytes.extend(RepairAnswer::End.to_bytes());
        let mut buffer = BytesMut::new();
        let mut parts = Vec::new();
        for byte in bytes {
            buffer.extend([byte]);
            parts.extend(RepairAnswer::decode(&mut buffer, 4).unwrap());
        }
        let body = RepairAnswer::Record(Bytes::from_static(b"body"));
        assert_eq!(parts, [body, RepairAnswer::More, RepairAnswer::End]);
        for length in [0, 5, -3, i32::MAX, i32::MIN] {
            let mut buffer = BytesMut::from(&length.to_be_bytes()[..]);
            RepairAnswer::decode(&mut buffer, 4).unwrap_err();
        }
    }
}
