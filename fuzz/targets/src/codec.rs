//! Records: messages of clients, and log records.

use zebu_jute::{Decode, Decoder, Encode, Encoder};
use zebu_proto::OpCode as Op;
use zebu_proto::answer::{AclAndStat, Created2, DataAndStat, NamesAndStat, WhoAmI, multi_results};
use zebu_proto::reply::{ConnectResponse, ReplyHeader, WatcherEvent};
use zebu_proto::request::{
    AddWatch, AuthPacket, ConnectRequest, Create, CreateTtl, MultiHeader, PathKind, PathOnly,
    PathVersion, PathWatch, PersistentWatches, Reconfig, RequestHeader, SetAcl, SetData,
    SetWatches, multi_ops,
};
use zebu_proto::txn::{Txn, TxnRecord};

/// Decodes a record. If that succeeds: encoding and decoding it again gives the same record, bytes
/// after it do not matter, and no shorter input is accepted.
macro_rules! check_record {
    ($record:ty, $bytes:expr) => {{
        let bytes: &[u8] = $bytes;
        let mut from = Decoder::new(bytes);
        if let Ok(value) = <$record>::decode(&mut from) {
            let length = from.position();
            let encoded = value.to_bytes();
            let again = <$record>::from_bytes(&encoded).expect("what was encoded can be decoded");
            assert_eq!(again, value);
            assert_eq!(again.to_bytes(), encoded);
            assert_eq!(<$record>::from_bytes(&bytes[..length]).as_ref(), Ok(&value));
            if let Some(shorter) = length.checked_sub(1) {
                assert!(<$record>::from_bytes(&bytes[..shorter]).is_err(), "a byte is missing");
            }
        }
    }};
}

/// A frame's payload, read as a first frame and as any later one.
pub(crate) fn client_frame(bytes: &[u8]) {
    connect_request(bytes);
    check_record!(RequestHeader, bytes);
    let mut from = Decoder::new(bytes);
    let Ok(header) = RequestHeader::decode(&mut from) else { return };
    let body = from.rest();
    match header.op {
        Op::CREATE | Op::CREATE2 | Op::CREATE_CONTAINER => check_record!(Create<'_>, body),
        Op::CREATE_TTL => check_record!(CreateTtl<'_>, body),
        Op::DELETE | Op::CHECK => check_record!(PathVersion<'_>, body),
        Op::SET_DATA => check_record!(SetData<'_>, body),
        Op::SET_ACL => check_record!(SetAcl<'_>, body),
        Op::EXISTS | Op::GET_DATA | Op::GET_CHILDREN | Op::GET_CHILDREN2 => {
            check_record!(PathWatch<'_>, body);
        }
        Op::GET_ACL | Op::GET_ALL_CHILDREN_NUMBER | Op::GET_EPHEMERALS | Op::SYNC => {
            check_record!(PathOnly<'_>, body);
        }
        Op::ADD_WATCH => check_record!(AddWatch<'_>, body),
        Op::CHECK_WATCHES | Op::REMOVE_WATCHES => check_record!(PathKind<'_>, body),
        Op::SET_WATCHES | Op::SET_WATCHES2 => {
            check_record!(SetWatches<'_>, body);
            let mut from = Decoder::new(body);
            if SetWatches::decode(&mut from).is_ok() {
                check_record!(PersistentWatches<'_>, from.rest());
            }
        }
        Op::AUTH => check_record!(AuthPacket<'_>, body),
        Op::RECONFIG => check_record!(Reconfig<'_>, body),
        Op::MULTI | Op::MULTI_READ => multi(body, header.op == Op::MULTI_READ),
        _ => vector(body),
    }
}

/// As [`check_record`], but its last byte may be missing.
fn connect_request(bytes: &[u8]) {
    let mut from = Decoder::new(bytes);
    let Ok(request) = ConnectRequest::decode(&mut from) else { return };
    let encoded = request.to_bytes();
    assert_eq!(ConnectRequest::from_bytes(&encoded).as_ref(), Ok(&request));
    let exact = ConnectRequest::from_bytes(&bytes[..from.position()]);
    assert_eq!(exact.as_ref(), Ok(&request));
    assert!(request.read_only.is_some() || encoded.len() == bytes.len(), "a byte is ignored");
}

fn multi(body: &[u8], reads: bool) {
    let mut from = Decoder::new(body);
    let Ok(ops) = multi_ops(&mut from, reads) else { return };
    let length = from.position();
    assert!((ops.len() + 1) * 9 <= length, "every operation has a header");
    assert_eq!(multi_ops(&mut Decoder::new(&body[..length]), reads).as_ref(), Ok(&ops));
    assert!(multi_ops(&mut Decoder::new(&body[..length - 1]), reads).is_err());
    if !ops.is_empty() {
        // No operation belongs to both lists.
        assert!(multi_ops(&mut Decoder::new(body), !reads).is_err());
    }
}

/// The two ways to read a vector agree.
fn vector(bytes: &[u8]) {
    let collected = Decoder::new(bytes).vector::<String>();
    let walked = Decoder::new(bytes).elements::<String>();
    match (collected, walked) {
        (Ok(collected), Ok(walked)) => {
            let walked: Result<Vec<_>, _> = walked.collect();
            assert_eq!(walked.as_ref(), Ok(&collected.unwrap_or_default()));
        }
        (Err(fault), Ok(walked)) => assert_eq!(walked.collect::<Result<Vec<_>, _>>(), Err(fault)),
        (Err(fault), Err(same)) => assert_eq!(same, fault),
        (Ok(_), Err(fault)) => panic!("only one of them fails: {fault}"),
    }
}

/// The messages of servers, as clients decode them.
pub(crate) fn reply_record(bytes: &[u8]) {
    check_record!(ReplyHeader, bytes);
    let mut from = Decoder::new(bytes);
    let Ok(_) = ReplyHeader::decode(&mut from) else { return };
    let body = from.rest();
    check_record!(WatcherEvent<'_>, body);
    check_record!(MultiHeader, body);
    check_record!(Created2<'_>, body);
    check_record!(DataAndStat<'_>, body);
    check_record!(AclAndStat<'_>, body);
    check_record!(NamesAndStat<'_>, body);
    check_record!(WhoAmI<'_>, body);
    let mut from = Decoder::new(body);
    if multi_results(&mut from).is_ok() {
        let length = from.position();
        assert!(multi_results(&mut Decoder::new(&body[..length])).is_ok());
        assert!(multi_results(&mut Decoder::new(&body[..length - 1])).is_err());
    }
    // A connect response is a frame of its own kind, whose last byte may be missing.
    if let Ok(response) = ConnectResponse::from_bytes(bytes) {
        assert_eq!(ConnectResponse::from_bytes(&response.to_bytes()), Ok(response));
    }
}

/// The body of a log record is the same after decoding and encoding.
pub(crate) fn txn_record(body: &[u8]) {
    let Ok(record) = TxnRecord::decode(body) else { return };
    let encoded = encode(&record);
    let again = TxnRecord::decode(&encoded).expect("what was encoded can be decoded");
    assert_eq!(encode(&again), encoded);
    assert_eq!(again.header, record.header);
    // An absent list of paths can look like a present one before the right digest.
    if !matches!(record.txn, Txn::CloseSession { .. }) {
        assert_eq!(again, record);
    }
    let header = &record.header;
    if let Txn::Multi(ops) = &record.txn {
        assert_eq!(header.op, Op::MULTI);
        assert!(ops.iter().all(|(op, _)| *op != Op::MULTI), "multis are not nested");
        // The bodies of the operations can be decoded by themselves.
        for (op, txn) in ops {
            let mut bytes = Vec::new();
            txn.encode(*op, &mut Encoder::new(&mut bytes));
            assert_eq!(Txn::decode(*op, &mut Decoder::new(&bytes)).as_ref(), Ok(txn));
        }
    }
}

fn encode(record: &TxnRecord<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut Encoder::new(&mut bytes));
    bytes
}
