//! Logs that the original wrote, intact and damaged.

use std::fs;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");

fn fixture(name: &str) -> PathBuf {
    Path::new(FIXTURES).join(name)
}

fn args(file: PathBuf) -> LogArgs {
    let (dump, recover, verbose, yes, chop) = Default::default();
    LogArgs { file, dump, recover, verbose, yes, chop, zxid: None }
}

/// The output and the result of a command.
fn outcome(args: &LogArgs) -> (String, Result<(), Failure>) {
    let mut out = Vec::new();
    let done = act(args, &mut out);
    (String::from_utf8(out).unwrap(), done)
}

/// A copy of a log in its own directory.
fn copied(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.3d");
    fs::copy(fixture(name), &file).unwrap();
    (folder, file)
}

#[test]
fn every_transaction_has_a_line() {
    let (text, done) = outcome(&args(fixture("zookeeper-3.8.0/basic/version-2/log.3d")));
    done.unwrap();
    assert!(
        text.starts_with("ZooKeeper Transactional Log File with dbid 0 txnlog format version 2\n")
    );
    assert!(text.contains(" session 0x100001a45ac0000 cxid 0x0 zxid 0x3d createSession 600000\n"));
    assert!(text.contains("create2 /after/last,last txn,[31,s{'world,'anyone}\n],false,4\n"));
    assert!(text.ends_with("EOF reached after 12 txns.\n"));
}

#[test]
fn what_comes_before_damage_is_shown() {
    let (text, done) = outcome(&args(fixture("zookeeper-3.8.0/torn/torn-no-eor-zeropad/log.3d")));
    assert_eq!(done.unwrap_err().to_string(), "Last transaction was partial.");
    assert!(text.contains("/after/last"), "{text}");
}

#[test]
fn a_copy_has_right_checksums() {
    let (folder, file) = copied("zookeeper-3.8.0/torn/crc-corrupt-middle/log.3d");
    let (text, done) = outcome(&LogArgs { recover: true, yes: true, ..args(file.clone()) });
    done.unwrap();
    assert!(text.contains("CRC FIXED - "), "{text}");
    assert!(text.ends_with("has been written with 1 fixed CRC error(s)\n"), "{text}");
    let fixed = folder.path().join("log.3d.fixed");
    let mut zxids = Vec::new();
    let (_, tail) =
        zebu_store::log::read::read_log(fs::File::open(&fixed).unwrap(), 1 << 20, &mut |record| {
            zxids.push(record.zxid);
        })
        .unwrap();
    assert_eq!((zxids.len(), tail), (12, zebu_store::log::read::Tail::Clean));
    // An existing file is never overwritten.
    let (text, done) = outcome(&LogArgs { recover: true, yes: true, ..args(file) });
    assert!(done.unwrap_err().to_string().contains("already exists"));
    assert_eq!(text, "");
}

#[test]
fn a_cut_log_ends_with_its_transaction() {
    let (folder, file) = copied("zookeeper-3.8.0/basic/version-2/log.3d");
    let cut = |zxid| outcome(&LogArgs { chop: true, zxid: Some(zxid), ..args(file.clone()) });
    let (text, done) = cut(0x40);
    done.unwrap();
    assert!(text.ends_with("Chopping at 40 new log has 4 records\n"), "{text}");
    let whole = fs::read(&file).unwrap();
    let part = fs::read(folder.path().join("log.3d.chopped64")).unwrap();
    assert!(whole.starts_with(&part) && part.len() == 396);
    // Nothing would be cut off, or nothing would remain.
    for zxid in [0x48, 0x3c] {
        let (text, done) = cut(zxid);
        assert!(
            done.is_err() && text.ends_with("Got exception: Failed to chop log.3d\n"),
            "{text}"
        );
        assert!(!folder.path().join(format!("log.3d.chopped{zxid}")).exists());
    }
}

/// The default of `jute.maxbuffer` is 1 MiB.
#[test]
fn a_record_longer_than_jute_maxbuffer_is_shown() {
    use zebu_proto::txn::{Txn, TxnHeader, TxnRecord};
    let data = vec![b'd'; 3 << 20];
    let header = TxnHeader {
        session: zebu_proto::SessionId(1),
        cxid: 1,
        zxid: zebu_proto::Zxid(1),
        time_ms: 0,
        op: zebu_proto::OpCode::SET_DATA,
    };
    let txn = Txn::SetData { path: "/large".into(), data: Some(&data), version: 1 };
    let record = TxnRecord { header, txn, digest: None };
    let (mut body, mut log) = (Vec::new(), zebu_store::log::header().to_vec());
    record.encode(&mut zebu_jute::Encoder::new(&mut body));
    zebu_store::log::encode_record(&body, &mut log);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), log).unwrap();
    let (text, done) = outcome(&args(file.path().to_owned()));
    done.unwrap();
    assert!(text.len() > data.len() && text.contains("/large"), "{} bytes", text.len());
}

#[test]
fn zxids_are_read_as_java_reads_numbers() {
    for (text, zxid) in
        [("74", 74), ("0x4a", 74), ("0X4A", 74), ("#4a", 74), ("0112", 74), ("0", 0)]
    {
        assert_eq!(parse_zxid(text), Ok(zxid), "{text}");
    }
    for text in ["", "x", "-1", "0x", "4a", "99999999999999999999"] {
        parse_zxid(text).unwrap_err();
    }
}
