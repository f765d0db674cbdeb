//! The id of the ensemble that a server belongs to. A new ensemble creates the id once; each member
//! knows how certain its id is.
//!
//! The original has no such id. In messages to other servers, the id follows all fields that
//! servers of the original read.

use std::fmt;
use std::str::FromStr;

use zebu_jute::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::Epoch;

/// Which ensemble a server or its data belong to: 128 random bits. Written as 32 hexadecimal
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnsembleId(pub u128);

impl fmt::Display for EnsembleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for EnsembleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no ensemble id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an ensemble id has 32 hexadecimal digits")]
pub struct NotAnEnsembleId;

impl FromStr for EnsembleId {
    type Err = NotAnEnsembleId;

    fn from_str(text: &str) -> Result<Self, NotAnEnsembleId> {
        let has_digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u128::from_str_radix(text, 16).ok().filter(|_| has_digits);
        id.map(Self).ok_or(NotAnEnsembleId)
    }
}

/// A member's knowledge of the id of its ensemble.
///
/// Members agree on the id as on a single value in Paxos: leaders propose it, their epochs are the
/// ballots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The member knows no id.
    #[default]
    Unknown,
    /// A leader has proposed this id, and may have failed before a quorum stored it. It does not
    /// bind any member yet.
    Proposed {
        /// The id.
        id: EnsembleId,
        /// The leader's epoch.
        epoch: Epoch,
    },
    /// A quorum has stored the id, or a standalone server has created it. It never changes again.
    Settled(EnsembleId),
}

impl Identity {
    /// The id, if it is settled.
    pub fn settled(self) -> Option<EnsembleId> {
        match self {
            Self::Settled(id) => Some(id),
            Self::Unknown | Self::Proposed { .. } => None,
        }
    }

    /// The id, if it is settled here, and `other` has settled a different one.
    pub fn contradicts(self, other: Self) -> bool {
        matches!((self.settled(), other.settled()), (Some(one), Some(other)) if one != other)
    }
}

/// Bytes of an id on the wire, with its checksum.
pub(crate) const ID_BYTES: usize = 16 + 4;

/// The id, and the CRC-32 of its bytes. A member keeps an id for ever, so it must not accept one
/// that was damaged on the way.
impl Encode for EnsembleId {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.long((self.0 >> 64) as i64);
        out.long(self.0 as i64);
        out.int(checksum(&[&self.0.to_be_bytes()]));
    }
}

impl Decode<'_> for EnsembleId {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let high = u128::from(from.long()? as u64);
        let id = Self(high << 64 | u128::from(from.long()? as u64));
        verify(from.int()?, &[&id.0.to_be_bytes()])?;
        Ok(id)
    }
}

fn checksum(parts: &[&[u8]]) -> i32 {
    let mut sum = crc32fast::Hasher::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize() as i32
}

fn verify(said: i32, parts: &[&[u8]]) -> Result<(), DecodeError> {
    let is_right = said == checksum(parts);
    let wrong = DecodeError::Value { what: "checksum of an ensemble id", value: said.into() };
    is_right.then_some(()).ok_or(wrong)
}

/// State, epoch, the id with its checksum, and a checksum of state and epoch.
impl Encode for Identity {
    fn encode(&self, out: &mut Encoder<'_>) {
        let (state, epoch, id) = match *self {
            Self::Unknown => (0, Epoch(0), EnsembleId(0)),
            Self::Proposed { id, epoch } => (1, epoch, id),
            Self::Settled(id) => (2, Epoch(0), id),
        };
        out.int(state);
        out.int(epoch.0 as i32);
        id.encode(out);
        out.int(checksum(&[&i32::to_be_bytes(state), &epoch.0.to_be_bytes()]));
    }
}

impl Decode<'_> for Identity {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (state, epoch) = (from.int()?, Epoch(from.int()? as u32));
        let id = EnsembleId::decode(from)?;
        verify(from.int()?, &[&state.to_be_bytes(), &epoch.0.to_be_bytes()])?;
        match state {
            0 => Ok(Self::Unknown),
            1 => Ok(Self::Proposed { id, epoch }),
            2 => Ok(Self::Settled(id)),
            _ => Err(DecodeError::Value { what: "state of an ensemble id", value: state.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_with_all_its_digits_and_read_again() {
        let id = EnsembleId(0xab);
        assert_eq!(id.to_string(), "000000000000000000000000000000ab");
        assert_eq!(id.to_string().parse(), Ok(id));
        for text in ["", "ab", "+00000000000000000000000000000ab", &"g".repeat(32), &"0".repeat(33)]
        {
            assert_eq!(text.parse::<EnsembleId>(), Err(NotAnEnsembleId), "{text}");
        }
    }

    #[test]
    fn every_state_survives_the_wire() {
        let id = EnsembleId(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);
        let epoch = Epoch(7);
        for it in [Identity::Unknown, Identity::Proposed { id, epoch }, Identity::Settled(id)] {
            let bytes = it.to_bytes();
            assert_eq!(bytes.len(), 32);
            assert_eq!(Identity::from_bytes(&bytes), Ok(it));
            for cut in 0..bytes.len() {
                assert!(Identity::from_bytes(&bytes[..cut]).is_err());
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Identity::from_bytes(&flipped).is_err(), "bit {bit} of {it:?}");
            }
        }
    }

    #[test]
    fn only_what_is_settled_contradicts() {
        let [one, other] = [1, 2].map(|id| Identity::Settled(EnsembleId(id)));
        let open = Identity::Proposed { id: EnsembleId(2), epoch: Epoch(1) };
        assert!(one.contradicts(other) && other.contradicts(one));
        for (a, b) in [(one, one), (one, open), (open, one), (Identity::Unknown, one)] {
            assert!(!a.contradicts(b), "{a:?} {b:?}");
        }
    }
}
