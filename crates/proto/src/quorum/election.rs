//! The election port: initial messages and votes.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use zebu_jute::{Decode as _, DecodeError, Decoder, Encode, Encoder};

use crate::identity::ID_BYTES;
use crate::stream::{if_complete, take};
use crate::{EnsembleId, HostPort, ServerId, Zxid};

/// Longest address part of an initial message, in bytes.
///
/// Source: `QuorumCnxManager.maxBuffer`.
pub const INITIAL_ADDRESS_BYTES_MAX: usize = 2048;

/// Longest notification, in bytes.
///
/// Source: `QuorumCnxManager.PACKETMAXSIZE`.
pub const NOTIFICATION_BYTES_MAX: usize = 512 * 1024;

/// The version of notifications with a configuration; this server sends it.
pub const NOTIFICATION_VERSION: i32 = 2;

/// Size of a notification of 3.3.
const SHORT_BYTES: usize = 28;
/// Size of a notification of 3.4.6 and later 3.4.
const MIDDLE_BYTES: usize = 40;

const V1: i64 = -65536;
const V2: i64 = -65535;

/// The form of an initial message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialForm {
    /// Only the server id; up to 3.4.
    Bare,
    /// With one address, since 3.5.
    V1,
    /// With any number of addresses; sent if `multiAddress.enabled` is set.
    V2,
}

/// The first message of a connecting server on the election port.
///
/// Source: `QuorumCnxManager.InitialMessage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialMessage {
    /// The form it has.
    pub form: InitialForm,
    /// The sender.
    pub server: ServerId,
    /// The sender's own election addresses, as configured; none in the bare form.
    pub addresses: Vec<HostPort>,
}

impl InitialMessage {
    /// The message of a server: all its addresses, or the first of them.
    pub fn new(server: ServerId, addresses: &[HostPort], multi_address: bool) -> Self {
        if multi_address {
            return Self { form: InitialForm::V2, server, addresses: addresses.to_vec() };
        }
        let first = addresses.first().cloned().into_iter().collect();
        Self { form: InitialForm::V1, server, addresses: first }
    }

    /// The addresses to which one can connect; wildcards are left out.
    pub fn usable(&self) -> impl Iterator<Item = &HostPort> {
        self.addresses.iter().filter(|address| !address.is_wildcard())
    }

    /// Removes the message from the front of the receive buffer. `None`: it is incomplete, and
    /// nothing was removed.
    ///
    /// # Errors
    /// [`DecodeError`]: an unknown form, a length out of range, or an invalid address.
    pub fn decode(buffer: &mut BytesMut) -> Result<Option<Self>, DecodeError> {
        let mut from = Decoder::new(buffer);
        let Some(message) = if_complete(Self::read(&mut from))? else { return Ok(None) };
        let end = from.position();
        buffer.advance(end);
        Ok(Some(message))
    }

    fn read(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let form = match from.long()? {
            V1 => InitialForm::V1,
            V2 => InitialForm::V2,
            server @ 0.. => {
                let server = ServerId(server);
                return Ok(Self { form: InitialForm::Bare, server, addresses: Vec::new() });
            }
            value => return Err(DecodeError::Value { what: "protocol version", value }),
        };
        let server = ServerId(from.long()?);
        let at = from.position();
        let length = from.clone().int()?;
        if !(1..=INITIAL_ADDRESS_BYTES_MAX as i32).contains(&length) {
            return Err(DecodeError::Length { at, length });
        }
        let text = from.text()?;
        let addresses: Option<Vec<_>> = text.split('|').map(HostPort::parse).collect();
        let addresses = addresses
            .ok_or(DecodeError::Value { what: "address of an initial message", value: server.0 })?;
        Ok(Self { form, server, addresses })
    }
}

impl Encode for InitialMessage {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self.form {
            InitialForm::Bare => {}
            InitialForm::V1 => out.long(V1),
            InitialForm::V2 => out.long(V2),
        }
        out.long(self.server.0);
        if self.form != InitialForm::Bare {
            let texts: Vec<String> = self.addresses.iter().map(HostPort::to_string).collect();
            out.text(&texts.join("|"));
        }
    }
}

/// A server's state in votes and four-letter words. Unknown values survive a round trip.
///
/// Source: `QuorumPeer.ServerState`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerState(pub i32);

impl ServerState {
    /// Looking for a leader.
    pub const LOOKING: Self = Self(0);
    /// Follower.
    pub const FOLLOWING: Self = Self(1);
    /// Leader.
    pub const LEADING: Self = Self(2);
    /// Observer.
    pub const OBSERVING: Self = Self(3);
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::LOOKING => "LOOKING",
            Self::FOLLOWING => "FOLLOWING",
            Self::LEADING => "LEADING",
            Self::OBSERVING => "OBSERVING",
            Self(other) => return write!(f, "state {other}"),
        })
    }
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A vote in a notification. The connection identifies the sender.
///
/// Source: `FastLeaderElection.buildMsg` and its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The sender's state.
    pub state: ServerState,
    /// The server it votes for or follows.
    pub leader: ServerId,
    /// The newest zxid of that server.
    pub zxid: Zxid,
    /// The round of the election.
    pub round: i64,
    /// The epoch of that server's history; the smallest possible value from an observer.
    pub peer_epoch: i64,
    /// [`NOTIFICATION_VERSION`], or 0 from a server before 3.5.
    pub version: i32,
    /// The sender's committed configuration, if the version has one.
    pub config: Option<Bytes>,
    /// The sender's proposed configuration, after everything else. Servers of the original neither
    /// send nor read it.
    pub proposed: Option<Bytes>,
    /// The id of the sender's ensemble, if that is settled, behind the rest: the original's servers
    /// neither send nor read it.
    pub ensemble: Option<EnsembleId>,
}

/// Stands in front of the id of the sender's ensemble.
const ENSEMBLE: i32 = super::PacketKind::ENSEMBLE.0;
/// Bytes of that id, with the bytes before it.
const ENSEMBLE_BYTES: usize = 4 + ID_BYTES;

impl Notification {
    /// Decodes a notification without its length prefix.
    ///
    /// # Errors
    /// [`DecodeError`]: an unknown form. Drop the message.
    pub fn decode(message: &Bytes) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(message);
        let state = ServerState(from.int()?);
        let leader = ServerId(from.long()?);
        let zxid = Zxid(from.long()?);
        let round = from.long()?;
        let mut notification = Self {
            state,
            leader,
            zxid,
            round,
            peer_epoch: zxid.0 >> 32,
            version: 0,
            config: None,
            proposed: None,
            ensemble: None,
        };
        if message.len() == SHORT_BYTES {
            return Ok(notification);
        }
        notification.peer_epoch = from.long()?;
        let version = from.int()?;
        if message.len() == MIDDLE_BYTES {
            return Ok(notification);
        }
        notification.version = version;
        if version >= NOTIFICATION_VERSION {
            let at = from.position();
            let length = from.int()?;
            let bytes = usize::try_from(length).map_err(|_| DecodeError::Length { at, length })?;
            let (start, left) = (from.position(), from.remaining());
            if bytes > left {
                return Err(DecodeError::Short { at: start, missing: bytes - left });
            }
            let end = start + bytes;
            notification.config = Some(message.slice(start..end));
            // Other trailing bytes are ignored.
            let rest = message.slice(end..);
            if let Some((proposed, ensemble)) = behind_the_configuration(&rest) {
                notification.proposed = (!proposed.is_empty()).then_some(proposed);
                notification.ensemble = ensemble;
            }
        }
        Ok(notification)
    }

    /// Appends the notification with its length prefix, in the current form.
    pub fn encode_frame(&self, out: &mut Encoder<'_>) {
        let length_at = out.position();
        out.int(0);
        self.encode(out);
        let length = out.position() - length_at - 4;
        out.patch_int(length_at, length as i32);
    }
}

impl Encode for Notification {
    /// Appends the notification without a length prefix.
    fn encode(&self, out: &mut Encoder<'_>) {
        out.int(self.state.0);
        out.long(self.leader.0);
        out.long(self.zxid.0);
        out.long(self.round);
        out.long(self.peer_epoch);
        out.int(self.version);
        if let Some(config) = &self.config {
            out.buffer(Some(config));
            if let Some(proposed) = &self.proposed {
                out.buffer(Some(proposed));
            }
            if let Some(id) = self.ensemble {
                if self.proposed.is_none() {
                    out.buffer(Some(&[]));
                }
                out.int(ENSEMBLE);
                id.encode(out);
            }
        }
    }
}

/// The additional part of Zebu servers, after the configuration in force: the proposed
/// configuration, and the id of their ensemble.
fn behind_the_configuration(rest: &Bytes) -> Option<(Bytes, Option<EnsembleId>)> {
    let length = i32::from_be_bytes(*rest.first_chunk()?);
    let end = usize::try_from(length).ok()?.checked_add(4).filter(|end| *end <= rest.len())?;
    let (proposed, tail) = (rest.slice(4..end), &rest[end..]);
    if tail.is_empty() {
        return Some((proposed, None));
    }
    let (tag, id) = tail.split_first_chunk()?;
    let is_id = i32::from_be_bytes(*tag) == ENSEMBLE && tail.len() == ENSEMBLE_BYTES;
    let id = EnsembleId::from_bytes(id).ok().filter(|_| is_id)?;
    Some((proposed, Some(id)))
}

/// Splits the bytes of a connection into notifications.
#[derive(Clone, Copy, Debug, Default)]
pub struct SplitNotifications;

impl SplitNotifications {
    /// Removes one message from the front of the receive buffer. `None`: it is incomplete, and
    /// nothing was removed.
    ///
    /// # Errors
    /// [`DecodeError::Length`]: close the connection. A message that [`Notification::decode`]
    /// refuses is no reason to close it.
    pub fn decode(buffer: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        let Some(length) = if_complete(Decoder::new(buffer).int())? else { return Ok(None) };
        if !(1..=NOTIFICATION_BYTES_MAX as i32).contains(&length) {
            return Err(DecodeError::Length { at: 0, length });
        }
        let end = 4 + length as usize;
        Ok((buffer.len() >= end).then(|| take(buffer, 4, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    fn initial(bytes: &[u8]) -> Result<Option<InitialMessage>, DecodeError> {
        InitialMessage::decode(&mut BytesMut::from(bytes))
    }

    #[test]
    fn initial_messages_as_recorded() {
        let v1 = unhex("ffffffffffff0000 0000000000000002 0000000f 3132372e302e302e313a3233303232");
        let address = |port| HostPort::new("127.0.0.1", port);
        let message = InitialMessage::new(ServerId(2), &[address(23022)], false);
        assert_eq!(message.to_bytes(), v1);
        for cut in 0..v1.len() {
            assert_eq!(initial(&v1[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(initial(&v1), Ok(Some(message)));
        let v2 = unhex(
            "ffffffffffff0001 0000000000000001 0000001f
             3132372e302e302e313a32333035317c3132372e302e302e313a3233303231",
        );
        let message = InitialMessage::new(ServerId(1), &[address(23051), address(23021)], true);
        assert_eq!(message.to_bytes(), v2);
        assert_eq!(initial(&v2), Ok(Some(message)));
    }

    #[test]
    fn the_bare_form_is_the_server_only() {
        let bytes = [0, 0, 0, 0, 0, 0, 0, 3];
        let message = initial(&bytes).unwrap().unwrap();
        assert_eq!((message.form, message.server), (InitialForm::Bare, ServerId(3)));
        assert_eq!(message.to_bytes(), bytes);
    }

    #[test]
    fn strange_initial_messages_are_refused() {
        assert!(initial(&(-65534i64).to_be_bytes()).is_err());
        let v1 = |length: i32, address: &str| {
            let mut bytes = unhex("ffffffffffff0000 0000000000000002");
            bytes.extend(length.to_be_bytes());
            bytes.extend(address.as_bytes());
            initial(&bytes)
        };
        for length in [i32::MIN, -1, 0, 2049, i32::MAX] {
            assert_eq!(v1(length, ""), Err(DecodeError::Length { at: 16, length }));
        }
        assert_eq!(v1(2048, "a:1"), Ok(None));
        for address in ["a", "a:b", "a:1:2", "|", "a:1|", "[::1:1"] {
            assert!(v1(address.len() as i32, address).is_err(), "{address}");
        }
        let wild = v1(15, "0.0.0.0:1|b:222").unwrap().unwrap();
        assert_eq!(wild.usable().collect::<Vec<_>>(), [&HostPort::new("b", 222)]);
    }

    #[test]
    fn notifications_of_every_age() {
        // The first 40 bytes of a recorded answer of a follower, and what 3.4 and 3.3 make of it.
        let fields = unhex(
            "00000001 0000000000000002 0000000100000002 0000000000000002 0000000000000002 00000002",
        );
        let decode = |bytes: &[u8]| Notification::decode(&Bytes::copy_from_slice(bytes));
        let middle = decode(&fields).unwrap();
        assert_eq!((middle.state, middle.leader), (ServerState::FOLLOWING, ServerId(2)));
        assert_eq!((middle.zxid, middle.round), (Zxid(0x1_0000_0002), 2));
        assert_eq!((middle.peer_epoch, middle.version, &middle.config), (2, 0, &None));
        let short = decode(&fields[..28]).unwrap();
        assert_eq!(short, Notification { peer_epoch: 1, ..middle.clone() });
        for length in (0..28).chain(29..40) {
            assert!(decode(&fields[..length]).is_err(), "{length}");
        }
        let with_config = |length: i32, text: &str| {
            let mut bytes = fields.clone();
            bytes.extend(length.to_be_bytes());
            bytes.extend(text.as_bytes());
            decode(&bytes)
        };
        let present = with_config(9, "version=0").unwrap();
        assert_eq!((present.version, present.config.as_deref()), (2, Some(&b"version=0"[..])));
        assert_eq!(present.to_bytes().len(), 53);
        assert!(with_config(-1, "").is_err());
        assert!(with_config(10, "version=0").is_err());
        assert_eq!(with_config(0, "").unwrap().config, Some(Bytes::new()));
    }

    #[test]
    fn what_is_proposed_stands_behind_what_servers_of_the_original_read() {
        let both = Notification {
            state: ServerState::LOOKING,
            leader: ServerId(1),
            zxid: Zxid(7),
            round: 1,
            peer_epoch: 0,
            version: NOTIFICATION_VERSION,
            config: Some(Bytes::from_static(b"version=1")),
            proposed: Some(Bytes::from_static(b"version=2")),
            ensemble: None,
        };
        let bytes = Bytes::from(both.to_bytes());
        let without = Notification { proposed: None, ..both.clone() };
        assert_eq!(bytes[..53], without.to_bytes());
        assert_eq!(Notification::decode(&bytes), Ok(both.clone()));
        for cut in 53..bytes.len() {
            assert_eq!(Notification::decode(&bytes.slice(..cut)).as_ref(), Ok(&without), "{cut}");
        }
        let ensemble = Some(EnsembleId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10));
        for proposed in [None, both.proposed.clone()] {
            let told = Notification { proposed, ensemble, ..both.clone() };
            let bytes = Bytes::from(told.to_bytes());
            assert_eq!(bytes[..53], without.to_bytes());
            assert_eq!(Notification::decode(&bytes), Ok(told));
            for cut in 53..bytes.len() {
                let cut = Notification::decode(&bytes.slice(..cut)).unwrap();
                assert_eq!((cut.config, cut.ensemble), (without.config.clone(), None));
            }
        }
    }

    #[test]
    fn a_version_below_two_has_no_configuration() {
        let mut bytes = unhex("00000000 0000000000000001 0000000000000000 0000000000000001");
        bytes.extend(unhex("0000000000000000 00000001 00000007"));
        let notification = Notification::decode(&Bytes::from(bytes)).unwrap();
        assert_eq!((notification.version, notification.config), (1, None));
    }

    #[test]
    fn frames_are_split_and_bounded() {
        let mut buffer = BytesMut::from(&[0, 0, 0, 2, 7, 8, 0, 0, 0][..]);
        assert_eq!(SplitNotifications::decode(&mut buffer), Ok(Some(Bytes::from_static(&[7, 8]))));
        assert_eq!(SplitNotifications::decode(&mut buffer), Ok(None));
        assert_eq!(buffer.len(), 3);
        for length in [i32::MIN, -1, 0, 524_289] {
            let mut buffer = BytesMut::from(&length.to_be_bytes()[..]);
            let fault = DecodeError::Length { at: 0, length };
            assert_eq!(SplitNotifications::decode(&mut buffer), Err(fault));
        }
        let mut buffer = BytesMut::from(&524_288i32.to_be_bytes()[..]);
        assert_eq!(SplitNotifications::decode(&mut buffer), Ok(None));
    }
}
