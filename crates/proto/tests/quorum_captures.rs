//! All recorded messages between servers of the original can be decoded, and are encoded to the
//! same bytes again.

use std::fs;
use std::path::Path;

use bytes::{Buf, Bytes, BytesMut};
use zebu_jute::{Encode, Encoder};
use zebu_proto::quorum::{
    Activate, AuthPacket, EpochAck, InitialForm, InitialMessage, LeaderInfo, LearnerInfo,
    Notification, PacketKind, QuorumPacket, Request, Revalidate, Revalidated, SplitNotifications,
    decode_touches, encode_touches, is_auth_packet,
};
use zebu_proto::snapshot::{
    SnapshotReader, SnapshotRecord, encode_end, encode_node, encode_tables,
};
use zebu_proto::txn::TxnRecord;

const FIELD_BYTES_MAX: usize = 2 * 1024 * 1024;

struct Message {
    /// Whether the connecting server sent it.
    forth: bool,
    /// The recorder's description.
    text: String,
    bytes: Vec<u8>,
}

struct Connection {
    kind: String,
    messages: Vec<Message>,
}

fn captures() -> Vec<(String, Vec<Connection>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/quorum-captures");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), capture(&fs::read_to_string(path).unwrap()))).collect()
}

fn capture(text: &str) -> Vec<Connection> {
    let mut connections = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((mark, rest)) = line.split_once(' ') else { continue };
        match mark {
            "@" => {
                let kind = rest.split(' ').nth(1).unwrap().to_owned();
                connections.push(Connection { kind, messages: Vec::new() });
            }
            ">" | "<" => {
                // After the time and the length.
                let text = rest.splitn(3, ' ').nth(2).unwrap().to_owned();
                let bytes = unhex(lines.next().unwrap());
                let messages = &mut connections.last_mut().unwrap().messages;
                messages.push(Message { forth: mark == ">", text, bytes });
            }
            _ => {}
        }
    }
    connections
}

fn unhex(text: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.as_bytes().chunks(2).map(pair).collect()
}

/// The number after `name=` in the recorder's description.
fn number(text: &str, name: &str) -> i64 {
    let at = text.find(&format!("{name}=")).unwrap_or_else(|| panic!("{name} in {text}"));
    let value = &text[at + name.len() + 1..];
    let end = value.find([' ', '(', ')', ',']).unwrap_or(value.len());
    match value[..end].strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap() as i64,
        None => value[..end].parse().unwrap_or_else(|_| panic!("{name} in {text}")),
    }
}

#[test]
fn every_message_is_understood_and_written_back() {
    let mut counts = [0; 5];
    for (file, connections) in captures() {
        let mut stream: Vec<u8> = Vec::new();
        for message in connections.iter().flat_map(|connection| &connection.messages) {
            let Message { text, bytes, .. } = message;
            let mut buffer = BytesMut::from(&bytes[..]);
            let (kind, written) = if text.starts_with("INITIAL") {
                (0, initial(text, &mut buffer))
            } else if text.starts_with("len=") {
                (1, notification(text, &mut buffer))
            } else if text.starts_with("QuorumAuthPacket") {
                (2, auth(text, &mut buffer))
            } else if text.starts_with("SNAPSHOT STREAM") {
                stream = bytes.clone();
                continue;
            } else if text.starts_with("SNAPSHOT SIGNATURE") {
                stream.extend_from_slice(bytes);
                assert_eq!(snapshot(&stream), stream, "{file}: {text}");
                counts[4] += 1;
                continue;
            } else {
                (3, packet(text, &mut buffer))
            };
            counts[kind] += 1;
            assert!(buffer.is_empty(), "{file}: {text}");
            assert_eq!(&written, bytes, "{file}: {text}");
        }
    }
    assert_eq!(counts, [59, 128, 28, 632, 6], "initial, notifications, auth, packets, snapshots");
}

fn initial(text: &str, buffer: &mut BytesMut) -> Vec<u8> {
    let message = InitialMessage::decode(buffer).unwrap().unwrap();
    assert_eq!(message.server.0, number(text, "sid"));
    let is_v2 = number(text, "version") == -65535;
    assert_eq!(message.form == InitialForm::V2, is_v2);
    assert_eq!(message.addresses.len(), if is_v2 { 2 } else { 1 });
    assert_eq!(message.usable().count(), message.addresses.len());
    message.to_bytes()
}

fn notification(text: &str, buffer: &mut BytesMut) -> Vec<u8> {
    let message = SplitNotifications::decode(buffer).unwrap().unwrap();
    let vote = Notification::decode(&message).unwrap();
    let found = [
        vote.state.0.into(),
        vote.leader.0,
        vote.zxid.0,
        vote.round,
        vote.peer_epoch,
        vote.version.into(),
        vote.config.as_ref().unwrap().len() as i64,
    ];
    let names = ["state", "leader", "zxid", "electionEpoch", "peerEpoch", "version", "configLen"];
    assert_eq!(found, names.map(|name| number(text, name)), "{text}");
    let mut bytes = Vec::new();
    vote.encode_frame(&mut Encoder::new(&mut bytes));
    bytes
}

fn auth(text: &str, buffer: &mut BytesMut) -> Vec<u8> {
    assert_eq!(is_auth_packet(buffer), Some(true));
    let packet = AuthPacket::decode(buffer, FIELD_BYTES_MAX).unwrap().unwrap();
    assert_eq!(i64::from(packet.status.0), number(text, "status"), "{text}");
    packet.to_bytes()
}

fn packet(text: &str, buffer: &mut BytesMut) -> Vec<u8> {
    assert_eq!(is_auth_packet(buffer), Some(false));
    let packet = QuorumPacket::decode(buffer, FIELD_BYTES_MAX).unwrap().unwrap();
    let name = packet.kind.name().unwrap();
    assert!(text.starts_with(&format!("{name}({})", packet.kind.0)), "{text}");
    assert_eq!(packet.zxid.0, number(text, "zxid"), "{text}");
    assert_eq!(packet.authinfo.is_none(), text.contains("authinfo=null"), "{text}");
    let data = packet.data.as_ref();
    let written = match (packet.kind, data) {
        (PacketKind::REQUEST, Some(data)) => {
            let request = Request::decode(data).unwrap();
            assert_eq!(request.session.0, number(text, "sessionId"), "{text}");
            assert_eq!(i64::from(request.op.0), number(text, "type"), "{text}");
            Some(request.to_data())
        }
        (PacketKind::PROPOSAL | PacketKind::INFORM, Some(data)) => Some(txn(data)),
        (PacketKind::PING, Some(data)) => {
            let touches = decode_touches(Some(data)).unwrap();
            Some(encode_touches(touches))
        }
        (PacketKind::REVALIDATE, Some(data)) if data.len() == 9 => {
            let answer: Revalidated = zebu_jute::Decode::from_bytes(data).unwrap();
            assert!(answer.valid);
            Some(answer.to_bytes().into())
        }
        (PacketKind::REVALIDATE, Some(data)) => {
            let question: Revalidate = zebu_jute::Decode::from_bytes(data).unwrap();
            Some(question.to_bytes().into())
        }
        (PacketKind::FOLLOWERINFO | PacketKind::OBSERVERINFO, data) => {
            let info = LearnerInfo::decode(data.map(|data| &data[..])).unwrap().unwrap();
            assert_eq!(info.server.0, number(text, "serverid"), "{text}");
            assert_eq!(info.config_version.unwrap().0, number(text, "configVersion"), "{text}");
            assert!(info.acknowledges_epochs());
            Some(info.to_data())
        }
        (PacketKind::LEADERINFO, data) => {
            let info = LeaderInfo::decode(data.map(|data| &data[..])).unwrap();
            assert_eq!(info, LeaderInfo::new(false));
            Some(info.to_data())
        }
        (PacketKind::ACKEPOCH, data) => {
            let ack = EpochAck::decode(data.map(|data| &data[..])).unwrap();
            let epoch = ack.current_epoch.map_or(-1, |epoch| i64::from(epoch.0));
            assert_eq!(epoch, number(text, "currentEpoch"), "{text}");
            Some(ack.to_data())
        }
        (PacketKind::COMMITANDACTIVATE | PacketKind::INFORMANDACTIVATE, Some(data)) => {
            let activate = Activate::decode(data).unwrap();
            assert_eq!(activate.leader.0, number(text, "designatedLeader"), "{text}");
            let is_inform = packet.kind == PacketKind::INFORMANDACTIVATE;
            let written = if is_inform { txn(&activate.txn) } else { Bytes::new() };
            Some(Activate { leader: activate.leader, txn: written }.to_data())
        }
        (PacketKind::NEWLEADER, Some(data)) => {
            assert!(std::str::from_utf8(data).unwrap().contains("version="));
            Some(data.clone())
        }
        (_, data) => {
            assert_eq!(data, None, "{text}");
            None
        }
    };
    assert_eq!(written.as_ref(), data, "{text}");
    packet.to_bytes()
}

fn txn(data: &Bytes) -> Bytes {
    let mut bytes = Vec::new();
    TxnRecord::decode(data).unwrap().encode(&mut Encoder::new(&mut bytes));
    bytes.into()
}

fn snapshot(mut stream: &[u8]) -> Vec<u8> {
    let mut reader = SnapshotReader::new(FIELD_BYTES_MAX);
    let (mut sessions, mut acls) = (Vec::new(), Vec::new());
    let mut nodes = Vec::new();
    while !reader.is_done() {
        let (record, taken) = reader.next(stream).unwrap().expect("it is whole");
        stream = &stream[taken..];
        match record {
            SnapshotRecord::Session { id, timeout_ms } => sessions.push((id, timeout_ms)),
            SnapshotRecord::Acl { id, acl } => acls.push((id, acl)),
            SnapshotRecord::Node { path, data, acl, stat } => {
                encode_node(&path, data, acl, &stat, &mut Encoder::new(&mut nodes));
            }
            SnapshotRecord::End => {}
        }
    }
    assert!(stream.is_empty());
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes);
    encode_tables(&sessions, &acls, &mut out);
    out.raw(&nodes);
    encode_end(&mut out);
    bytes
}

/// One direction of a connection to a quorum port, received in pieces.
fn quorum_stream(bytes: &[u8], piece: usize) -> Vec<String> {
    let mut seen = Vec::new();
    let mut buffer = BytesMut::new();
    let mut snapshot: Option<SnapshotReader> = None;
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            if let Some(reader) = &mut snapshot {
                let Some((record, taken)) = reader.next(&buffer).unwrap() else { break };
                if record == SnapshotRecord::End {
                    seen.push("SNAPSHOT".to_owned());
                    snapshot = None;
                }
                buffer.advance(taken);
                continue;
            }
            let is_auth = match is_auth_packet(&buffer) {
                Some(is_auth) => is_auth,
                None => break,
            };
            if is_auth {
                let Some(_) = AuthPacket::decode(&mut buffer, FIELD_BYTES_MAX).unwrap() else {
                    break;
                };
                seen.push("QuorumAuthPacket".to_owned());
                continue;
            }
            let Some(packet) = QuorumPacket::decode(&mut buffer, FIELD_BYTES_MAX).unwrap() else {
                break;
            };
            seen.push(format!("{}({})", packet.kind, packet.kind.0));
            if packet.kind == PacketKind::SNAP {
                snapshot = Some(SnapshotReader::new(FIELD_BYTES_MAX));
            }
        }
    }
    assert!(buffer.is_empty() && snapshot.is_none());
    seen
}

#[test]
fn connections_can_be_received_in_any_pieces() {
    let mut count = 0;
    for (file, connections) in captures() {
        for connection in connections.iter().filter(|connection| connection.kind != "election") {
            for forth in [true, false] {
                let messages: Vec<&Message> =
                    connection.messages.iter().filter(|message| message.forth == forth).collect();
                let bytes: Vec<u8> =
                    messages.iter().flat_map(|message| message.bytes.iter().copied()).collect();
                let said: Vec<String> = messages
                    .iter()
                    .filter(|message| !message.text.starts_with("SNAPSHOT STREAM"))
                    .map(|message| message.text.split(' ').next().unwrap().to_owned())
                    .collect();
                for piece in [1, 13, 1000] {
                    assert_eq!(quorum_stream(&bytes, piece), said, "{file}");
                }
                count += usize::from(!said.is_empty());
            }
        }
    }
    assert!(count > 60, "{count}");
}
