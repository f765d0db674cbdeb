//! Messages between the servers of an ensemble.
//!
//! This file has the packets of the quorum port; `body` has their contents, `election` the messages
//! of the election port, `repair` a question between Zebu servers there, and `auth` the SASL
//! packets of both ports. [`crate::snapshot`] reads a snapshot between packets.
//!
//! Messages arrive in pieces. A decoder either removes one complete message from the front of the
//! receive buffer, or changes nothing and returns that it needs more.

mod auth;
mod body;
mod election;
mod repair;

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use zebu_jute::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::stream::{if_complete, limited, take};
use crate::txn::TxnRecord;
use crate::{Epoch, Id, Zxid};

pub use auth::{AUTH_MAGIC, AuthPacket, AuthStatus, is_auth_packet};
pub use body::{
    Activate, Alive, EpochAck, LeaderInfo, LearnerInfo, PROTOCOL_VERSION, Request, Revalidate,
    Revalidated, TOUCH_BYTES, Touch, decode_touches, encode_touches,
};
pub use election::{
    INITIAL_ADDRESS_BYTES_MAX, InitialForm, InitialMessage, NOTIFICATION_BYTES_MAX,
    NOTIFICATION_VERSION, Notification, ServerState, SplitNotifications,
};
pub use repair::{FirstMessage, MISSING_MAX, Missing, RepairAnswer, RepairQuestion};

/// Bytes of a packet with null data and null authinfo.
pub const PACKET_BYTES_MIN: usize = 20;

/// Minimum size of an authinfo entry: two empty strings.
const ID_BYTES_MIN: usize = 8;

/// The kind of a packet. Unknown values survive a round trip.
///
/// Source: `Leader`'s constants.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketKind(pub i32);

zebu_jute::number!(PacketKind: i32);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        impl PacketKind {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The kind's name, as the original logs it, or `None` for a value it does not know.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

impl PacketKind {
    /// A follower reports a digest mismatch. Sent only to leaders that announce
    /// [`LeaderInfo::exact_digests`]; the original has no such packet.
    pub const TREE_DIFFERS: Self = Self(0x5a01);

    /// What a leader, or a follower with observers, knows of the ensemble's id: its data are an
    /// [`Identity`](crate::Identity). Sent to learners whose [`LearnerInfo::identity`] says that
    /// they know the packet; the original has none such.
    pub const ENSEMBLE: Self = Self(0x5a02);

    /// The leader is alive, and says how long it may be silent from now on: the data are an
    /// [`Alive`]. Sent to learners whose [`LearnerInfo::identity`] shows that they are Zebu
    /// servers; the original has no such packet.
    pub const ALIVE: Self = Self(0x5a03);
}

kinds! {
    /// A learner forwards a client's request.
    REQUEST = 1,
    /// The leader proposes a transaction.
    PROPOSAL = 2,
    /// A learner has a proposal, or the leader's history, on disk.
    ACK = 3,
    /// A transaction is committed.
    COMMIT = 4,
    /// Keeps the connection alive; the answer reports the sessions heard of.
    PING = 5,
    /// Asks whether a session that moves is still valid.
    REVALIDATE = 6,
    /// Everything before a learner's sync request has been sent to it.
    SYNC = 7,
    /// A committed transaction, for an observer.
    INFORM = 8,
    /// A reconfiguration is committed.
    COMMITANDACTIVATE = 9,
    /// The end of the leader's history; the data contain the leader's configuration.
    NEWLEADER = 10,
    /// A follower introduces itself.
    FOLLOWERINFO = 11,
    /// The learner may serve clients.
    UPTODATE = 12,
    /// The learner's history is a prefix of the leader's; the missing part follows.
    DIFF = 13,
    /// The learner must truncate its log.
    TRUNC = 14,
    /// A snapshot follows.
    SNAP = 15,
    /// An observer introduces itself.
    OBSERVERINFO = 16,
    /// The leader proposes its epoch.
    LEADERINFO = 17,
    /// The learner accepts the epoch.
    ACKEPOCH = 18,
    /// A committed reconfiguration, for an observer.
    INFORMANDACTIVATE = 19,
}

impl fmt::Display for PacketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "packet type {}", self.0),
        }
    }
}

impl fmt::Debug for PacketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One packet of the quorum port, in either direction.
///
/// Source: `zookeeper.jute`, `server.quorum.QuorumPacket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumPacket {
    /// The kind.
    pub kind: PacketKind,
    /// The zxid that it concerns; −1 if none.
    pub zxid: Zxid,
    /// The contents, depending on the kind; see the types in `body`.
    pub data: Option<Bytes>,
    /// The credentials of the client behind a REQUEST; null in all others.
    pub authinfo: Option<Arc<[Id]>>,
}

/// The zxid of packets that concern none.
pub const NO_ZXID: Zxid = Zxid(-1);

impl QuorumPacket {
    /// A packet without data.
    pub fn new(kind: PacketKind, zxid: Zxid) -> Self {
        Self { kind, zxid, data: None, authinfo: None }
    }

    /// A packet with data.
    pub fn with_data(kind: PacketKind, zxid: Zxid, data: impl Into<Bytes>) -> Self {
        Self { kind, zxid, data: Some(data.into()), authinfo: None }
    }

    /// The epoch in the zxid of a packet that names one: FOLLOWERINFO, LEADERINFO, NEWLEADER.
    pub fn epoch(&self) -> Epoch {
        self.zxid.epoch()
    }

    /// The data, or an empty slice where there is none.
    pub fn body(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    /// The transaction in a PROPOSAL, INFORM or INFORMANDACTIVATE of a leader; `None` for other
    /// packets.
    ///
    /// A learner logs and applies these transactions, so it must call this before it uses the
    /// packet in any other way.
    ///
    /// # Errors
    /// [`DecodeError`] if the transaction cannot be decoded, or its zxid differs from the packet's.
    pub fn txn(&self) -> Result<Option<TxnRecord<'_>>, DecodeError> {
        let record = match self.kind {
            PacketKind::PROPOSAL | PacketKind::INFORM => self.body(),
            PacketKind::INFORMANDACTIVATE => Activate::txn_of(self.body())?,
            _ => return Ok(None),
        };
        let record = TxnRecord::decode(record)?;
        if record.header.zxid != self.zxid {
            let value = record.header.zxid.0;
            return Err(DecodeError::Value { what: "zxid of the transaction in a packet", value });
        }
        Ok(Some(record))
    }

    /// Removes one packet from the front of the receive buffer. `None`: it is incomplete, and
    /// nothing was removed.
    ///
    /// `field_bytes_max` limits the data, and the whole authinfo.
    ///
    /// # Errors
    /// [`DecodeError`] for a length above the limit or a null inside authinfo: the start of the
    /// next packet is then unknown.
    pub fn decode(
        buffer: &mut BytesMut,
        field_bytes_max: usize,
    ) -> Result<Option<Self>, DecodeError> {
        let mut from = Decoder::new(buffer);
        let Some(head) = if_complete(Head::read(&mut from, field_bytes_max))? else {
            return Ok(None);
        };
        let end = from.position();
        let data = head.data.map(|(start, data_end)| {
            // The part after the data was already decoded.
            let data = take(buffer, start, data_end);
            bytes::Buf::advance(buffer, end - data_end);
            data
        });
        if data.is_none() {
            bytes::Buf::advance(buffer, end);
        }
        Ok(Some(Self { kind: head.kind, zxid: head.zxid, data, authinfo: head.authinfo }))
    }
}

/// A packet whose data are still in the receive buffer.
struct Head {
    kind: PacketKind,
    zxid: Zxid,
    /// Where the data begin and end.
    data: Option<(usize, usize)>,
    authinfo: Option<Arc<[Id]>>,
}

impl Head {
    fn read(from: &mut Decoder<'_>, field_bytes_max: usize) -> Result<Self, DecodeError> {
        let kind = PacketKind::decode(from)?;
        let zxid = Zxid::decode(from)?;
        let data = limited(from, field_bytes_max)?;
        let data = data.map(|data| (from.position() - data.len(), from.position()));
        let at = from.position();
        let count = from.int()?;
        let authinfo = match usize::try_from(count) {
            // Values below −1 mean empty, as for every vector in the original.
            Err(_) => (count != -1).then(Arc::default),
            Ok(count_wanted) if count_wanted > field_bytes_max / ID_BYTES_MIN => {
                return Err(DecodeError::Length { at, length: count });
            }
            Ok(count) => {
                let mut ids = Vec::with_capacity(count.min(4));
                let mut left = field_bytes_max;
                for _ in 0..count {
                    let began = from.position();
                    let scheme = text(from, left)?;
                    let id = text(from, left)?;
                    let taken = from.position() - began;
                    left = left.checked_sub(taken).ok_or(DecodeError::Length {
                        at: began,
                        length: taken.try_into().unwrap_or(i32::MAX),
                    })?;
                    ids.push(Id { scheme, id });
                }
                Some(ids.into())
            }
        };
        Ok(Self { kind, zxid, data, authinfo })
    }
}

fn text(from: &mut Decoder<'_>, bytes_max: usize) -> Result<String, DecodeError> {
    let at = from.position();
    let bytes = limited(from, bytes_max)?.ok_or(DecodeError::Null { at })?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

impl Encode for QuorumPacket {
    fn encode(&self, out: &mut Encoder<'_>) {
        self.kind.encode(out);
        self.zxid.encode(out);
        out.buffer(self.data.as_deref());
        out.vector(self.authinfo.as_deref());
    }
}

impl Encode for Id {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.text(&self.scheme);
        out.text(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 4096;

    fn decode(bytes: &[u8]) -> Result<Option<QuorumPacket>, DecodeError> {
        QuorumPacket::decode(&mut BytesMut::from(bytes), MAX)
    }

    #[test]
    fn a_packet_that_is_not_all_there_takes_nothing() {
        // A recorded PROPOSAL, cut anywhere, and with the next packet behind it.
        let bytes = [
            0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0x30, 1, 0, 0, 0x27, 0x5c, 0x71, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0xa1, 0xfd, 7, 0x55, 0x7b, 0xff, 0xff, 0xff,
            0xf6, 0, 0, 0x27, 0x10, 0, 0, 0, 2, 0, 0, 0, 0, 0x51, 0xc6, 0xd6, 0x60, 0xff, 0xff,
            0xff, 0xff,
        ];
        for cut in 0..bytes.len() {
            let mut buffer = BytesMut::from(&bytes[..cut]);
            assert_eq!(QuorumPacket::decode(&mut buffer, MAX), Ok(None), "{cut}");
            assert_eq!(buffer, bytes[..cut]);
        }
        let mut buffer = BytesMut::from(&bytes[..]);
        buffer.extend_from_slice(&bytes[..7]);
        let packet = QuorumPacket::decode(&mut buffer, MAX).unwrap().unwrap();
        assert_eq!(packet.kind, PacketKind::PROPOSAL);
        assert_eq!(packet.zxid, Zxid(0x1_0000_0001));
        assert_eq!(packet.body(), &bytes[16..64]);
        assert_eq!(packet.to_bytes(), bytes);
        assert_eq!(buffer, bytes[..7]);
    }

    #[test]
    fn a_transaction_is_taken_under_its_own_zxid_only() {
        // A recorded PROPOSAL's record: createSession, with a digest.
        let record = [
            1, 0, 0, 0x27, 0x5c, 0x71, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0xa1,
            0xfd, 7, 0x55, 0x7b, 0xff, 0xff, 0xff, 0xf6, 0, 0, 0x27, 0x10, 0, 0, 0, 2, 0, 0, 0, 0,
            0x51, 0xc6, 0xd6, 0x60,
        ];
        let zxid = Zxid(0x1_0000_0001);
        let data = |kind, record: &[u8]| match kind {
            PacketKind::INFORMANDACTIVATE => {
                let txn = Bytes::copy_from_slice(record);
                Activate { leader: crate::ServerId(3), txn }.to_data()
            }
            _ => Bytes::copy_from_slice(record),
        };
        for kind in [PacketKind::PROPOSAL, PacketKind::INFORM, PacketKind::INFORMANDACTIVATE] {
            let packet =
                |zxid, record: &[u8]| QuorumPacket::with_data(kind, zxid, data(kind, record));
            let good = packet(zxid, &record);
            assert_eq!(good.txn().unwrap().unwrap().header.zxid, zxid, "{kind}");
            assert!(packet(Zxid(zxid.0 + 1), &record).txn().is_err(), "{kind}");
            for cut in (0..record.len()).filter(|cut| *cut != record.len() - 12) {
                assert!(packet(zxid, &record[..cut]).txn().is_err(), "{kind} {cut}");
            }
            assert!(QuorumPacket::new(kind, zxid).txn().is_err(), "{kind}");
            // Each bit of the header's zxid.
            for bit in 0..64 {
                let mut flipped = record;
                flipped[12 + bit / 8] ^= 1 << (bit % 8);
                assert!(packet(zxid, &flipped).txn().is_err(), "{kind} {bit}");
            }
        }
        assert_eq!(QuorumPacket::with_data(PacketKind::COMMIT, zxid, vec![1]).txn(), Ok(None));
    }

    #[test]
    fn data_as_large_as_the_limit_pass_and_larger_ones_do_not_wait_for_their_bytes() {
        let large = QuorumPacket::with_data(PacketKind::PROPOSAL, NO_ZXID, vec![7; 40_000]);
        let bytes = large.to_bytes();
        let mut buffer = BytesMut::from(&bytes[..]);
        assert_eq!(QuorumPacket::decode(&mut buffer, 40_000), Ok(Some(large)));
        assert!(buffer.is_empty());
        assert_eq!(
            QuorumPacket::decode(&mut BytesMut::from(&bytes[..16]), 39_999),
            Err(DecodeError::Length { at: 12, length: 40_000 })
        );
    }

    #[test]
    fn authinfo_is_bounded_as_a_whole() {
        let mut packet = QuorumPacket::new(PacketKind::REQUEST, NO_ZXID);
        packet.authinfo = Some(vec![Id::new("ip", "127.0.0.1"); 10].into());
        let bytes = packet.to_bytes();
        assert_eq!(decode(&bytes), Ok(Some(packet)));
        let too_small = QuorumPacket::decode(&mut BytesMut::from(&bytes[..]), 189);
        assert!(matches!(too_small, Err(DecodeError::Length { .. })), "{too_small:?}");
        let mut promise = bytes[..16].to_vec();
        promise.extend([0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(decode(&promise), Err(DecodeError::Length { at: 16, length: i32::MAX }));
    }

    #[test]
    fn empty_and_null_are_told_apart() {
        for data in [None, Some(Bytes::new())] {
            for authinfo in [None, Some(Arc::default())] {
                let data = data.clone();
                let packet = QuorumPacket { kind: PacketKind(77), zxid: Zxid(3), data, authinfo };
                assert_eq!(decode(&packet.to_bytes()), Ok(Some(packet)));
            }
        }
        let null_scheme = [
            0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff,
            0xff, 0xff, 0, 0, 0, 0,
        ];
        assert_eq!(decode(&null_scheme), Err(DecodeError::Null { at: 20 }));
    }
}
