//! The contents of quorum packets, by kind.

use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode, DecodeError, Decoder, Encode, record};

use super::PacketKind;
use crate::{Epoch, Identity, OpCode, ServerId, SessionId, Xid, Zxid};

/// The protocol version since 3.4, in FOLLOWERINFO, OBSERVERINFO and LEADERINFO. A learner with a
/// lower version does not know LEADERINFO and ACKEPOCH.
pub const PROTOCOL_VERSION: i32 = 0x10000;

/// Bytes of a session and its timeout.
pub const TOUCH_BYTES: usize = 12;

/// Data of FOLLOWERINFO and OBSERVERINFO: the learner's introduction.
/// Source: `zookeeper.jute`, `server.quorum.LearnerInfo`; `LearnerHandler.run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerInfo {
    /// The learner.
    pub server: ServerId,
    /// Its protocol version; missing before 3.4.
    pub protocol_version: Option<i32>,
    /// The version of its committed configuration; missing before 3.5.
    pub config_version: Option<Zxid>,
    /// The server's knowledge of the ensemble's id; missing from servers that know no such ids, as
    /// all of the original's.
    pub identity: Option<Identity>,
}

impl LearnerInfo {
    /// The introduction of a server of this software.
    pub fn new(server: ServerId, config_version: Zxid) -> Self {
        Self {
            server,
            protocol_version: Some(PROTOCOL_VERSION),
            config_version: Some(config_version),
            identity: None,
        }
    }

    /// The same of a learner that knows this of the ensemble's id.
    pub fn with_identity(self, identity: Option<Identity>) -> Self {
        Self { identity, ..self }
    }

    /// Whether the learner knows LEADERINFO and ACKEPOCH.
    pub fn acknowledges_epochs(&self) -> bool {
        self.protocol_version.is_some_and(|version| version >= PROTOCOL_VERSION)
    }

    /// Decodes the data of a packet. `None` if there are no data and the leader must assign an id.
    /// Additional bytes are ignored.
    ///
    /// # Errors
    /// [`DecodeError::Short`] below 8 bytes.
    pub fn decode(data: Option<&[u8]>) -> Result<Option<Self>, DecodeError> {
        let Some(data) = data else { return Ok(None) };
        let mut from = Decoder::new(data);
        let server = ServerId::decode(&mut from)?;
        let protocol_version = from.int().ok();
        let config_version = Zxid::decode(&mut from).ok().filter(|_| protocol_version.is_some());
        let identity = config_version.and_then(|_| identity_behind(&mut from));
        Ok(Some(Self { server, protocol_version, config_version, identity }))
    }

    /// The data of the packet.
    pub fn to_data(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(48);
        bytes.extend(self.server.0.to_be_bytes());
        if let Some(version) = self.protocol_version {
            bytes.extend(version.to_be_bytes());
            bytes.extend(
                self.config_version.into_iter().flat_map(|version| version.0.to_be_bytes()),
            );
            if let (Some(_), Some(identity)) = (self.config_version, self.identity) {
                append_identity(&mut bytes, identity);
            }
        }
        bytes.into()
    }
}

/// Data of REQUEST: a client's request forwarded to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's session.
    pub session: SessionId,
    /// The client's xid.
    pub cxid: Xid,
    /// The operation.
    pub op: OpCode,
    /// The request's record, as the client sent it, without its header.
    pub body: Bytes,
}

impl Request {
    const HEAD_BYTES: usize = 16;

    /// Decodes the data of a packet; the body shares their memory.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn decode(data: &Bytes) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(data);
        Ok(Self {
            session: SessionId::decode(&mut from)?,
            cxid: Xid::decode(&mut from)?,
            op: OpCode::decode(&mut from)?,
            body: data.slice(Self::HEAD_BYTES..),
        })
    }

    /// The data of the packet.
    pub fn to_data(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(Self::HEAD_BYTES + self.body.len());
        bytes.extend(self.session.0.to_be_bytes());
        bytes.extend(self.cxid.0.to_be_bytes());
        bytes.extend(self.op.0.to_be_bytes());
        bytes.extend_from_slice(&self.body);
        bytes.into()
    }
}

record! {
    /// A session that a learner heard of since its last PING.
    #[derive(Copy)]
    Touch {
        /// The session.
        session: SessionId,
        /// Its timeout, in milliseconds.
        timeout_ms: i32,
    }
}

/// Decodes the sessions in a learner's PING; null means none.
///
/// # Errors
/// [`DecodeError::Short`] if the data end within an entry.
pub fn decode_touches(data: Option<&[u8]>) -> Result<Vec<Touch>, DecodeError> {
    let mut from = Decoder::new(data.unwrap_or_default());
    let mut touches = Vec::with_capacity(from.remaining() / TOUCH_BYTES);
    while from.remaining() > 0 {
        touches.push(Touch::decode(&mut from)?);
    }
    Ok(touches)
}

/// The data of a learner's PING: empty, not null, without sessions.
pub fn encode_touches(touches: impl IntoIterator<Item = Touch>) -> Bytes {
    let mut bytes = Vec::new();
    for touch in touches {
        touch.encode(&mut zebu_jute::Encoder::new(&mut bytes));
    }
    bytes.into()
}

record! {
    /// Data of [`PacketKind::ALIVE`].
    #[derive(Copy)]
    Alive {
        /// How long the leader may be silent, in milliseconds. 0 or less: as long as `syncLimit`
        /// allows.
        silence_ms: i32,
    }
}

impl Alive {
    /// The leader may be silent for this long, in whole milliseconds. Zero: as long as `syncLimit`
    /// allows.
    pub fn new(limit: Duration) -> Self {
        Self { silence_ms: i32::try_from(limit.as_millis()).unwrap_or(i32::MAX) }
    }

    /// How long the leader may be silent; zero: as long as `syncLimit` allows.
    pub fn limit(self) -> Duration {
        Duration::from_millis(u64::try_from(self.silence_ms).unwrap_or(0))
    }
}

record! {
    /// Data of a learner's REVALIDATE.
    #[derive(Copy)]
    Revalidate {
        /// The session that a client wants to continue.
        session: SessionId,
        /// Its timeout, in milliseconds.
        timeout_ms: i32,
    }
}

record! {
    /// Data of the leader's answer to REVALIDATE.
    #[derive(Copy)]
    Revalidated {
        /// The session.
        session: SessionId,
        /// Whether it is live and now belongs to the learner.
        valid: bool,
    }
}

/// Follows the protocol version if a Zebu leader announces exact digests.
const EXACT_DIGESTS: i32 = PacketKind::TREE_DIFFERS.0;

/// Stands in front of what a server of our own knows of the ensemble's id.
const IDENTITY: i32 = PacketKind::ENSEMBLE.0;

fn append_identity(bytes: &mut Vec<u8>, identity: Identity) {
    bytes.extend(IDENTITY.to_be_bytes());
    identity.encode(&mut zebu_jute::Encoder::new(bytes));
}

/// The sender's knowledge of the ensemble's id, if that follows. Any other content is ignored.
fn identity_behind(from: &mut Decoder<'_>) -> Option<Identity> {
    (from.int() == Ok(IDENTITY)).then(|| Identity::decode(from).ok()).flatten()
}

/// The data of LEADERINFO.
///
/// Learners of the original read the protocol version and ignore what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderInfo {
    /// The leader's protocol version.
    pub protocol_version: i32,
    /// Whether each transaction has the digest of the leader's tree. A leader of the original
    /// deviates after some requests; see [`PacketKind::TREE_DIFFERS`].
    pub exact_digests: bool,
    /// The server's knowledge of the ensemble's id; missing from servers that know no such ids, as
    /// all of the original's.
    pub identity: Option<Identity>,
}

impl LeaderInfo {
    /// With the protocol version of this software.
    pub const fn new(exact_digests: bool) -> Self {
        Self { protocol_version: PROTOCOL_VERSION, exact_digests, identity: None }
    }

    /// The same of a leader that knows this of the ensemble's id.
    pub fn with_identity(self, identity: Option<Identity>) -> Self {
        Self { identity, ..self }
    }

    /// Reads the data of a packet.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn decode(data: Option<&[u8]>) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(data.unwrap_or_default());
        let protocol_version = from.int()?;
        let exact_digests = from.clone().int() == Ok(EXACT_DIGESTS);
        if exact_digests {
            from.int()?;
        }
        Ok(Self { protocol_version, exact_digests, identity: identity_behind(&mut from) })
    }

    /// The data of a packet.
    pub fn to_data(self) -> Bytes {
        let mut data = self.protocol_version.to_be_bytes().to_vec();
        if self.exact_digests {
            data.extend(EXACT_DIGESTS.to_be_bytes());
        }
        if let Some(identity) = self.identity {
            append_identity(&mut data, identity);
        }
        data.into()
    }
}

/// Data of ACKEPOCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochAck {
    /// The learner's current epoch; `None` if it had already promised the new epoch, so that its
    /// answer does not count.
    pub current_epoch: Option<Epoch>,
}

impl EpochAck {
    /// Reads the data of a packet.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn decode(data: Option<&[u8]>) -> Result<Self, DecodeError> {
        let epoch = Decoder::new(data.unwrap_or_default()).int()?;
        Ok(Self { current_epoch: (epoch != -1).then_some(Epoch(epoch as u32)) })
    }

    /// The data of the packet.
    pub fn to_data(self) -> Bytes {
        let epoch = self.current_epoch.map_or(-1, |epoch| epoch.0 as i32);
        Bytes::from_owner(epoch.to_be_bytes())
    }
}

/// Data of COMMITANDACTIVATE and INFORMANDACTIVATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activate {
    /// The designated leader.
    pub leader: ServerId,
    /// The reconfiguration's transaction, for an observer; empty for a follower, which already has
    /// it.
    pub txn: Bytes,
}

impl Activate {
    /// Reads the data of a packet, sharing the transaction with them.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn decode(data: &Bytes) -> Result<Self, DecodeError> {
        let leader = ServerId::decode(&mut Decoder::new(data))?;
        Ok(Self { leader, txn: data.slice(8..) })
    }

    /// The transaction in the data of a packet.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub(super) fn txn_of(data: &[u8]) -> Result<&[u8], DecodeError> {
        let mut from = Decoder::new(data);
        ServerId::decode(&mut from)?;
        Ok(&data[from.position()..])
    }

    /// The data of the packet.
    pub fn to_data(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(8 + self.txn.len());
        bytes.extend(self.leader.0.to_be_bytes());
        bytes.extend_from_slice(&self.txn);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learner_info_of_every_age() {
        // Sid 2, version 0x10000, configuration 0x100000006, as recorded.
        let bytes = [0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 6];
        let info = |length: usize| LearnerInfo::decode(Some(&bytes[..length])).unwrap().unwrap();
        assert_eq!(info(20), LearnerInfo::new(ServerId(2), Zxid(0x1_0000_0006)));
        assert_eq!(info(20).to_data(), &bytes[..]);
        for length in 12..20 {
            let known = (info(length).protocol_version, info(length).config_version);
            assert_eq!(known, (Some(PROTOCOL_VERSION), None), "{length}");
        }
        assert_eq!(info(12).to_data(), &bytes[..12]);
        for length in 8..12 {
            let known = (info(length).protocol_version, info(length).config_version);
            assert_eq!(known, (None, None), "{length}");
            assert!(!info(length).acknowledges_epochs());
        }
        assert_eq!(LearnerInfo::decode(None), Ok(None));
        for length in 0..8 {
            assert!(LearnerInfo::decode(Some(&bytes[..length])).is_err(), "{length}");
        }
    }

    #[test]
    fn the_ensembles_id_stands_behind_what_the_original_reads() {
        let id = crate::EnsembleId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
        for identity in [Identity::Unknown, Identity::Settled(id)] {
            let plain = LearnerInfo::new(ServerId(2), Zxid(9));
            let told = plain.with_identity(Some(identity));
            assert_eq!(told.to_data()[..20], plain.to_data()[..]);
            assert_eq!(LearnerInfo::decode(Some(&told.to_data())), Ok(Some(told)));
            for cut in 20..told.to_data().len() {
                assert_eq!(LearnerInfo::decode(Some(&told.to_data()[..cut])), Ok(Some(plain)));
            }
            for exact in [false, true] {
                let plain = LeaderInfo::new(exact);
                let told = plain.with_identity(Some(identity));
                let data = told.to_data();
                assert!(data.starts_with(&plain.to_data()));
                assert_eq!(LeaderInfo::decode(Some(&data)), Ok(told));
                for cut in plain.to_data().len()..data.len() {
                    assert_eq!(LeaderInfo::decode(Some(&data[..cut])), Ok(plain));
                }
            }
        }
    }

    #[test]
    fn touches_end_where_the_data_end() {
        let touch = Touch { session: SessionId(0x0100_0027_5c71_0000), timeout_ms: 10_000 };
        let bytes = [1, 0, 0, 0x27, 0x5c, 0x71, 0, 0, 0, 0, 0x27, 0x10];
        assert_eq!(decode_touches(Some(&bytes)), Ok(vec![touch]));
        assert_eq!(encode_touches([touch]), &bytes[..]);
        assert_eq!(decode_touches(Some(&[])), Ok(vec![]));
        assert_eq!(decode_touches(None), Ok(vec![]));
        assert!(decode_touches(Some(&bytes[..11])).is_err());
    }

    #[test]
    fn an_epoch_that_does_not_count_is_minus_one() {
        let none = EpochAck { current_epoch: None };
        assert_eq!(none.to_data(), &[0xff; 4][..]);
        assert_eq!(EpochAck::decode(Some(&[0xff; 4])), Ok(none));
        let one = EpochAck { current_epoch: Some(Epoch(1)) };
        assert_eq!(EpochAck::decode(Some(&one.to_data())), Ok(one));
        assert!(EpochAck::decode(None).is_err());
    }
}
