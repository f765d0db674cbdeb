//! Between servers: messages that arrive in pieces, and configurations.

use std::collections::BTreeSet;
use std::fmt::Debug;

use bytes::{Buf, Bytes, BytesMut};
use zebu_jute::{Decode, DecodeError, Encode, Encoder};
use zebu_proto::quorum::{
    Activate, AuthPacket, EpochAck, FirstMessage, LearnerInfo, Notification, QuorumPacket,
    RepairAnswer, Request, Revalidate, Revalidated, SplitNotifications, decode_touches,
    encode_touches, is_auth_packet,
};
use zebu_proto::request::Reconfig;
use zebu_proto::snapshot::{
    SnapshotReader, SnapshotRecord, encode_end, encode_node, encode_tables,
};
use zebu_proto::{Acl, ServerId, SessionId, Zxid, properties};
use zebu_zab::config::{Member, Membership, Rules, Verifier, files, is_config_key};

/// A possible configuration of a server; small, so that inputs reach the limits.
const FIELD_BYTES_MAX: usize = 4096;
/// The maximum number of examined messages of one input.
const MESSAGES_MAX: usize = 16;

/// A byte that selects the port, then the bytes received there.
pub(crate) fn quorum(bytes: &[u8]) {
    let Some((port, received)) = bytes.split_first() else { return };
    match port % 6 {
        0 => messages(received, |buffer| QuorumPacket::decode(buffer, FIELD_BYTES_MAX), packet),
        1 => messages(
            received,
            |buffer| AuthPacket::decode(buffer, FIELD_BYTES_MAX),
            |packet| {
                assert_eq!(is_auth_packet(received), Some(true));
                Some(packet.to_bytes())
            },
        ),
        2 => messages(received, FirstMessage::decode, |message| {
            // Bytes that are not UTF-8 need more room after their replacement.
            let was_text = std::str::from_utf8(received).is_ok();
            was_text.then(|| message.to_bytes())
        }),
        3 => messages(received, SplitNotifications::decode, |message| {
            notification(message);
            let mut bytes = Vec::new();
            Encoder::new(&mut bytes).buffer(Some(message));
            Some(bytes)
        }),
        4 => snapshot(received),
        _ => messages(
            received,
            |buffer| RepairAnswer::decode(buffer, FIELD_BYTES_MAX),
            |answer| Some(answer.to_bytes()),
        ),
    }
}

/// Decodes messages one after the other. A message is accepted as a whole or not at all, none of
/// its bytes is superfluous, and `encode` gives the same bytes.
fn messages<T: PartialEq + Debug>(
    received: &[u8],
    decode: impl Fn(&mut BytesMut) -> Result<Option<T>, DecodeError>,
    encode: impl Fn(&T) -> Option<Vec<u8>>,
) {
    let mut buffer = BytesMut::from(received);
    let mut at = 0;
    for _ in 0..MESSAGES_MAX {
        let Ok(Some(message)) = decode(&mut buffer) else {
            assert_eq!(buffer, received[at..], "nothing is taken");
            return;
        };
        let end = received.len() - buffer.len();
        assert!(end > at);
        assert_eq!(buffer, received[end..]);
        assert_eq!(decode(&mut BytesMut::from(&received[at..end - 1])), Ok(None));
        if let Some(encoded) = encode(&message) {
            assert_eq!(decode(&mut BytesMut::from(&encoded[..])), Ok(Some(message)));
        }
        at = end;
    }
}

fn packet(packet: &QuorumPacket) -> Option<Vec<u8>> {
    let data = packet.data.clone().unwrap_or_default();
    if let Ok(Some(info)) = LearnerInfo::decode(packet.data.as_deref()) {
        assert_eq!(LearnerInfo::decode(Some(&info.to_data())), Ok(Some(info)));
        assert!(data.starts_with(&info.to_data()));
    }
    if let Ok(request) = Request::decode(&data) {
        assert_eq!(request.to_data(), data);
    }
    if let Ok(touches) = decode_touches(Some(&data)) {
        assert_eq!(encode_touches(touches), data);
    }
    if let Ok(activate) = Activate::decode(&data) {
        assert_eq!(activate.to_data(), data);
    }
    if let Ok(ack) = EpochAck::decode(Some(&data)) {
        assert!(data.starts_with(&ack.to_data()));
    }
    if let Ok(question) = Revalidate::from_bytes(&data) {
        assert!(data.starts_with(&question.to_bytes()));
    }
    if let Ok(answer) = Revalidated::from_bytes(&data) {
        assert_eq!(Revalidated::from_bytes(&answer.to_bytes()), Ok(answer));
    }
    // Ids that are not UTF-8 need more room after their replacement.
    let ids = packet.authinfo.iter().flat_map(|ids| ids.iter());
    let was_text =
        !ids.clone().any(|id| id.scheme.contains('\u{fffd}') || id.id.contains('\u{fffd}'));
    was_text.then(|| packet.to_bytes())
}

fn notification(message: &Bytes) {
    let Ok(vote) = Notification::decode(message) else { return };
    if vote.config.is_some() || vote.version == 0 {
        let encoded = Bytes::from(vote.to_bytes());
        assert_eq!(Notification::decode(&encoded), Ok(vote));
    }
}

/// A decoded snapshot.
#[derive(Debug, Default, PartialEq)]
struct Read {
    sessions: Vec<(SessionId, i32)>,
    acls: Vec<(i64, Vec<Acl>)>,
    nodes: Vec<u8>,
    left: usize,
    is_whole: bool,
}

/// The sizes of the received pieces make no difference, and the snapshot is the same after writing
/// and reading.
fn snapshot(received: &[u8]) {
    let read = read_snapshot(received, received.len());
    assert_eq!(read_snapshot(received, 23), read);
    let Some(read) = read.filter(|read| read.is_whole) else { return };
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes);
    encode_tables(&read.sessions, &read.acls, &mut out);
    out.raw(&read.nodes);
    encode_end(&mut out);
    // Nulls have become empty strings, and strings that were not UTF-8 are longer.
    if let Some(again) = read_snapshot(&bytes, bytes.len()) {
        assert_eq!(again, Read { left: 0, ..read });
    }
}

/// `None` for bytes that are not a snapshot.
fn read_snapshot(received: &[u8], step: usize) -> Option<Read> {
    let mut reader = SnapshotReader::new(FIELD_BYTES_MAX);
    let mut read = Read::default();
    let mut buffer = BytesMut::new();
    for piece in received.chunks(step.max(1)) {
        buffer.extend_from_slice(piece);
        while !reader.is_done() {
            let Some((record, taken)) = reader.next(&buffer).ok()? else { break };
            assert!(taken > 0);
            match record {
                SnapshotRecord::Session { id, timeout_ms } => read.sessions.push((id, timeout_ms)),
                SnapshotRecord::Acl { id, acl } => read.acls.push((id, acl)),
                SnapshotRecord::Node { path, data, acl, stat } => {
                    encode_node(&path, data, acl, &stat, &mut Encoder::new(&mut read.nodes));
                }
                SnapshotRecord::End => read.is_whole = true,
            }
            buffer.advance(taken);
        }
    }
    read.left = buffer.len();
    Some(read)
}

/// A byte of switches, then a configuration, a list of joining servers, one of leaving servers and
/// a static file, between percent signs.
pub(crate) fn membership(bytes: &[u8]) {
    let Some((switches, rest)) = bytes.split_first() else { return };
    let rules = Rules { standalone: switches & 1 != 0, multi_address: switches & 2 != 0 };
    let mut parts = rest.split(|byte| *byte == b'%');
    let text = parts.next().unwrap_or_default();
    let lists = [parts.next(), parts.next()]
        .map(|part| part.map(|part| String::from_utf8_lossy(part).into_owned().into()));
    static_file(parts.next().unwrap_or_default());
    let membership = match Membership::parse(text, rules) {
        Ok(membership) => membership,
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            return;
        }
    };
    said_again(&membership, rules);
    let [joining, leaving] = lists;
    let request = Reconfig { joining, leaving, members: None, config_id: -1 };
    match membership.changed(&request, Zxid(7), rules) {
        Ok(changed) => {
            assert_eq!(changed.version(), Zxid(7));
            assert!(changed.voters().next().is_some());
            if Membership::parse(changed.to_string().as_bytes(), rules).is_ok() {
                said_again(&changed, rules);
            }
        }
        Err(fault) => assert!(fault.code().0 < 0 && !fault.to_string().is_empty()),
    }
}

fn said_again(membership: &Membership, rules: Rules) {
    let text = membership.to_string();
    let again = Membership::parse(text.as_bytes(), rules).expect("what was printed can be read");
    assert_eq!(&again, membership, "{text}");
    assert!(membership.is_same_as(&again));
    let proposed = Membership::parse(membership.proposed_text().as_bytes(), rules);
    assert_eq!(proposed.as_ref(), Ok(membership));
    for member in membership.members() {
        let line = Member::parse(member.id, &format!(" {member} "), rules.multi_address);
        assert_eq!(line.as_ref(), Ok(member));
        assert!(member.is_same_as(member) && member.shares_quorum_address(member));
    }
    let voters: BTreeSet<ServerId> = membership.voters().collect();
    assert!(!membership.is_quorum(&BTreeSet::new()));
    if *membership.verifier() == Verifier::Majority {
        assert_eq!(membership.is_quorum(&voters), !voters.is_empty());
    }
    for voter in &voters {
        let mut others = voters.clone();
        others.remove(voter);
        assert!(!(membership.is_quorum(&others) && membership.is_quorum(&[*voter].into())));
    }
}

fn static_file(text: &[u8]) {
    let Ok(edited) = files::edited_static_text(text, "/c/zoo.cfg.dynamic.1", true) else { return };
    let before = properties::parse(text).expect("it was edited").entries;
    let after = properties::parse(edited.as_bytes()).expect("it was written").entries;
    let (pointer, kept) = after.split_last().expect("there is the pointer");
    assert_eq!((&*pointer.key, &*pointer.value), (files::DYNAMIC_FILE_KEY, "/c/zoo.cfg.dynamic.1"));
    for entry in kept {
        assert!(!is_config_key(entry.key.trim()));
        let is_old =
            |old: &properties::Property| (&old.key, &old.value) == (&entry.key, &entry.value);
        assert!(before.iter().any(is_old), "{entry:?}");
    }
}
