//! The time to find the history of one znode among a million transactions, and to back them up.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use zebu_backup::backup::{Wish, take};
use zebu_backup::history::trace::{Scope, Wanted};
use zebu_backup::history::{Item, read};
use zebu_backup::repository::Repository;
use zebu_backup::source::{Directory, Source};
use zebu_jute::Encoder;
use zebu_proto::txn::{Txn, TxnHeader, TxnRecord};
use zebu_proto::{OpCode, SessionId, Zxid};
use zebu_store::OsVfs;
use zebu_store::log::{encode_record, header};

const DATA_BYTES: usize = 100;
const ZNODES: i64 = 1000;

/// Writes logs of `each` transactions, as a server does. Each transaction sets one of a thousand
/// znodes.
fn write_logs(dir: &Path, txns: i64, each: i64) -> u64 {
    let version_dir = dir.join("version-2");
    fs::create_dir(&version_dir).unwrap();
    let data = vec![b'x'; DATA_BYTES];
    let mut bytes = 0;
    for first in (1..=txns).step_by(each as usize) {
        let mut log = header().to_vec();
        for zxid in first..(first + each).min(txns + 1) {
            let header = TxnHeader {
                session: SessionId(0x1_0000_0000 + zxid % 7),
                cxid: zxid as i32,
                zxid: Zxid(zxid),
                time_ms: 1_700_000_000_000 + zxid,
                op: OpCode::SET_DATA,
            };
            let path = format!("/load/znode-{:05}", zxid % ZNODES).into();
            let txn = Txn::SetData { path, data: Some(&data), version: (zxid / ZNODES) as i32 };
            let mut body = Vec::new();
            TxnRecord { header, txn, digest: None }.encode(&mut Encoder::new(&mut body));
            encode_record(&body, &mut log);
        }
        bytes += log.len() as u64;
        fs::write(version_dir.join(format!("log.{first:x}")), log).unwrap();
    }
    bytes
}

fn measure(txns: i64) {
    let dir = tempfile::tempdir().unwrap();
    let bytes = write_logs(dir.path(), txns, 100_000);
    let sources: Vec<Box<dyn Source>> =
        vec![Box::new(Directory::open(Arc::new(OsVfs), dir.path(), None).unwrap())];
    let began = Instant::now();
    let mut found = 0;
    let wanted = Wanted::new("/load/znode-00042", Scope::This);
    let summary = read(&sources, &wanted, &mut |item| {
        found += i64::from(matches!(item, Item::Event(_)));
        Ok(())
    })
    .unwrap();
    println!(
        "history: {:.2} s  txns={txns} logs={} bytes={bytes} changes={found}",
        began.elapsed().as_secs_f64(),
        summary.logs
    );
    let repository = Repository::create(&dir.path().join("backup")).unwrap();
    let source = Directory::open(Arc::new(OsVfs), dir.path(), None).unwrap();
    for now_ms in [1, 2] {
        let began = Instant::now();
        let wish = Wish { source: String::new(), now_ms, anew: false, horizon_ms: None };
        let made = take(&source, &repository, &wish).unwrap();
        let (seconds, copied) = (began.elapsed().as_secs_f64(), made.copied.len());
        println!(
            "backup: {seconds:.2} s  txns={txns} copied={copied} files, {} bytes",
            made.copied_bytes
        );
        assert_eq!(copied, if now_ms == 1 { summary.logs } else { 0 });
    }
    assert_eq!(summary.txns, txns as u64);
    assert_eq!(summary.errors, Vec::<String>::new());
    assert_eq!(found, txns / ZNODES);
}

#[test]
fn a_few_thousand_transactions() {
    measure(5000);
}

#[test]
#[ignore = "a measurement, see docs/tools.md"]
fn a_million_transactions() {
    measure(1_000_000);
}
