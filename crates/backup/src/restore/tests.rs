//! Restores from files of the original. Digests, counts and the results of damaged variants are
//! those of the fixtures' README.

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/zookeeper-3.8.0");
const ALL: [&str; 4] = ["snapshot.0", "log.1", "snapshot.3c", "log.3d"];

/// A data directory with files of the original. A name after `:` replaces the file's own.
fn directory(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = dir.path().join("data/version-2");
    fs::create_dir_all(&version_dir).unwrap();
    for file in files {
        let (from, name) = file.split_once(':').unwrap_or((file, file));
        let from =
            if from.contains('/') { from.to_owned() } else { format!("basic/version-2/{from}") };
        fs::copy(format!("{FIXTURES}/{from}"), version_dir.join(name)).unwrap();
    }
    dir
}

fn built(dir: &tempfile::TempDir, point: Option<Point>) -> Result<Built> {
    let source = Directory::open(Arc::new(OsVfs), &dir.path().join("data"), None)?;
    rebuild::build(&source, point, false)
}

fn at(zxid: i64) -> Option<Point> {
    Some(Point::Zxid(Zxid(zxid)))
}

fn failure(built: Result<Built>) -> String {
    format!("{:#}", built.unwrap_err())
}

#[test]
fn every_transaction_can_be_restored_and_its_digest_proves_it() {
    let dir = directory(&ALL);
    // The digests in the log's records, from their decodings. Failed requests keep the previous
    // digest.
    let digests = [
        (0x1, 1_371_985_504),
        (0xe, 21_171_003_105),
        (0x38, 102_388_862_224),
        (0x3c, 100_698_096_921),
        (0x40, 105_372_493_462),
        (0x46, 101_558_503_055),
        (0x48, 110_862_930_961),
    ];
    for (zxid, digest) in digests {
        let built = built(&dir, at(zxid)).unwrap();
        assert_eq!((built.zxid, built.tree.digest()), (Zxid(zxid), digest));
        assert_eq!(built.proof, Proof::Digest, "{zxid:x}");
        assert_eq!(built.rejected, Vec::<String>::new(), "{zxid:x}");
        let from = if zxid < 0x3c { 0 } else { 0x3c };
        assert_eq!((built.snapshot, built.replayed), (Some(Zxid(from)), (zxid - from) as u64));
    }
    let end = built(&dir, None).unwrap();
    assert_eq!((end.zxid, end.tree.digest()), (Zxid(0x48), 110_862_930_961));
    assert_eq!((end.tree.sessions().len(), end.tree.ephemerals_count()), (3, 3));
}

#[test]
fn a_time_is_the_last_transaction_before_it() {
    let dir = directory(&ALL);
    let at = |time: &str| built(&dir, Some(dates::parse_point(time).unwrap()));
    // The times of transactions 0x3c and 0x3d.
    let exact = at("2026-11-21T07:20:16.162Z").unwrap();
    assert_eq!((exact.zxid, exact.time_ms), (Zxid(0x3c), Some(1_795_245_616_162)));
    assert_eq!(at("2026-11-21T07:20:19.123Z").unwrap().zxid, Zxid(0x3c));
    assert_eq!(at("2026-11-21T07:20:19.124Z").unwrap().zxid, Zxid(0x3d));
    assert_eq!(at("2030-01-01T00:00:00Z").unwrap().zxid, Zxid(0x48));
    assert!(failure(at("2020-01-01T00:00:00Z")).contains("no transaction in it was made before"));
}

#[test]
fn logs_from_the_first_transaction_on_need_no_snapshot() {
    let dir = directory(&["log.1", "log.3d"]);
    let built = built(&dir, at(0x40)).unwrap();
    assert_eq!((built.snapshot, built.tree.digest()), (None, 105_372_493_462));
}

#[test]
fn a_snapshot_with_traces_of_later_transactions_is_not_used() {
    let fuzzy = "compressed-gz/version-2/snapshot.48.gz:snapshot.3c.gz";
    let dir = directory(&["snapshot.0", "log.1", "log.3d", fuzzy]);
    let built = built(&dir, at(0x40)).unwrap();
    assert_eq!((built.snapshot, built.tree.digest()), (Some(Zxid(0)), 105_372_493_462));
    assert!(
        built.rejected[0].contains("traces of transactions up to 0x48"),
        "{:?}",
        built.rejected
    );
    // The snapshot has no digests, so those of the log decide.
    let silent = "digest-disabled/version-2/snapshot.48:snapshot.3c";
    let dir = directory(&["snapshot.0", "log.1", "log.3d", silent]);
    let built = self::built(&dir, at(0x40)).unwrap();
    assert_eq!((built.snapshot, built.tree.digest()), (Some(Zxid(0)), 105_372_493_462));
    assert!(built.rejected[0].contains("digest of the resulting tree"), "{:?}", built.rejected);
}

#[test]
fn without_any_digest_only_what_is_certain_is_restored() {
    let dir = directory(&[
        "digest-disabled/version-2/snapshot.48:snapshot.48",
        "digest-disabled/version-2/log.49:log.49",
    ]);
    let built = |point| built(&dir, point);
    assert_eq!(built(None).unwrap().proof, Proof::End);
    assert!(failure(built(at(0x49))).contains("there are no digests to tell"));
}

#[test]
fn damage_and_gaps_end_a_restore_unless_an_older_way_leads_there() {
    let dir = directory(&[
        "snapshot.0",
        "log.1",
        "bad-snapshots/snap-bitflip.snapshot.3c:snapshot.3c",
        "log.3d",
    ]);
    let built = built(&dir, None).unwrap();
    assert_eq!((built.snapshot, built.tree.digest()), (Some(Zxid(0)), 110_862_930_961));
    assert_eq!(built.rejected.len(), 1, "{:?}", built.rejected);

    let variant = |variant: &str| {
        directory(&["snapshot.0", "log.1", "snapshot.3c", &format!("torn/{variant}/log.3d:log.3d")])
    };
    let dir = variant("crc-corrupt-middle");
    assert_eq!(self::built(&dir, at(0x41)).unwrap().tree.digest(), 104_885_698_058);
    assert!(failure(self::built(&dir, at(0x42))).contains("it ends with transaction 0x41"));
    // The transactions after the damage are unknown, so the caller must name the end.
    let failed = failure(self::built(&dir, None));
    assert!(failed.contains("damaged at offset") && failed.contains("--to 0x41"), "{failed}");
    let late = Some(dates::parse_point("2030-01-01T00:00:00Z").unwrap());
    assert!(failure(self::built(&dir, late)).contains("--to 0x41"));
    let early = Some(dates::parse_point("2026-11-21T07:20:19.137Z").unwrap());
    assert_eq!(self::built(&dir, early).unwrap().zxid, Zxid(0x3f));
    let dir = variant("missing-middle-gap");
    let failed = failure(self::built(&dir, at(0x42)));
    assert!(failed.contains("transactions between 0x3c and 0x41 are missing"), "{failed}");
    // The newest snapshot is damaged, and the logs do not lead to it. A tree before the wanted
    // point is no success.
    let damaged = "bad-snapshots/snap-bitflip.snapshot.3c:snapshot.48";
    let dir = directory(&["snapshot.0", "log.1", damaged]);
    let failed = failure(self::built(&dir, None));
    assert!(failed.contains("snapshot.48: ") && failed.contains("end with 0x3c"), "{failed}");
    assert_eq!(self::built(&dir, at(0x3c)).unwrap().tree.digest(), 100_698_096_921);
    let dir = directory(&["snapshot.3c", "log.3d"]);
    assert!(failure(self::built(&dir, at(0x3b))).contains("begins later"));
}

/// The output of a restore, and its success.
fn restore(
    dir: &tempfile::TempDir,
    from: &str,
    change: impl Fn(&mut RestoreArgs),
) -> Result<String> {
    let mut args = RestoreArgs {
        from: dir.path().join(from),
        log_dir: None,
        into: Some(dir.path().join("restored")),
        subtree: None,
        into_server: None,
        over: false,
        apply: false,
        auth_file: None,
        credentials: CredentialArgs::default(),
        to: None,
        number: None,
        fuzzy: false,
        identity: None,
        json: false,
    };
    change(&mut args);
    let mut out = Vec::new();
    act(&args, &mut out).map(|_| String::from_utf8(out).unwrap())
}

#[test]
fn what_is_restored_is_one_snapshot_that_a_server_loads() {
    let dir = directory(&ALL);
    let text = restore(&dir, "data", |args| args.to = at(0x40)).unwrap();
    assert!(
        text.starts_with("restored up to transaction 0x40 of 2026-11-21T07:20:19.139Z\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "snapshot 0x3c and 4 transactions; the digest of the last transaction matches\n"
        ),
        "{text}"
    );
    let restored = dir.path().join("restored");
    let mut names: Vec<_> = fs::read_dir(restored.join("version-2"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["ensemble", "snapshot.40"]);
    let identity = EnsembleFile::new(Arc::new(OsVfs), &restored).read().unwrap().unwrap();
    assert!(text.contains(&identity.settled().expect("a new ensemble").to_string()), "{text}");
    let again = restore(&dir, "data", |args| args.into = Some(dir.path().join("again"))).unwrap();
    let other = EnsembleFile::new(Arc::new(OsVfs), &dir.path().join("again")).read().unwrap();
    assert!(other.unwrap().contradicts(identity), "{again}");
    let mut store = Store::open(Arc::new(OsVfs), zebu_store::Options::new(&restored)).unwrap();
    let mut rebuild = Rebuild::new(tree_options());
    assert_eq!(store.recover(&mut rebuild).unwrap().last_zxid, Zxid(0x40));
    let rebuilt = rebuild.finish();
    assert_eq!((rebuilt.tree.digest(), rebuilt.mismatches), (105_372_493_462, 0));
    let versions = rebuilt.tree.node("/fx/versions").unwrap();
    assert_eq!((versions.data(), versions.persisted().version), (Some(&b"v4"[..]), 4));
}

#[test]
fn a_snapshot_alone_that_is_not_exact_is_taken_on_request() {
    let dir = directory(&["compressed-gz/version-2/snapshot.48.gz:snapshot.40.gz"]);
    let refused = restore(&dir, "data", |_| {}).unwrap_err();
    assert!(refused.to_string().contains("traces of transactions up to 0x48"), "{refused}");
    let text = restore(&dir, "data", |args| args.fuzzy = true).unwrap();
    assert!(text.starts_with("restored up to transaction 0x48\n"), "{text}");
    assert!(text.contains("not exact"), "{text}");
    assert!(dir.path().join("restored/version-2/snapshot.48").exists());
}

#[test]
fn nothing_is_written_over() {
    let dir = directory(&ALL);
    let before = restore(&dir, "data", |_| {}).unwrap();
    assert!(before.starts_with("restored up to transaction 0x48"), "{before}");
    for into in ["restored", "data", "data/version-2"] {
        let refused =
            restore(&dir, "data", |args| args.into = Some(dir.path().join(into))).unwrap_err();
        assert!(refused.to_string().contains("not empty: it has "), "{refused}");
    }
    assert!(restore(&dir, "nowhere", |args| args.into = Some(dir.path().join("new"))).is_err());
    assert!(!dir.path().join("new").exists(), "a restore that fails leaves no directory");
}

#[test]
fn a_backup_restores_by_its_number() {
    use crate::backup::{Wish, take};

    let dir = directory(&["snapshot.0", "log.1"]);
    let repository = Repository::create(&dir.path().join("backup")).unwrap();
    let take = || {
        let source = Directory::open(Arc::new(OsVfs), &dir.path().join("data"), None).unwrap();
        let wish = Wish { source: "x".to_owned(), now_ms: 1, anew: false, horizon_ms: None };
        take(&source, &repository, &wish).unwrap();
    };
    take();
    let log = format!("{FIXTURES}/basic/version-2/log.3d");
    fs::copy(log, dir.path().join("data/version-2/log.3d")).unwrap();
    take();
    fs::remove_dir_all(dir.path().join("data")).unwrap();
    let text = restore(&dir, "backup", |args| args.number = Some(1)).unwrap();
    assert!(text.starts_with("restored up to transaction 0x3c"), "{text}");
    let json = restore(&dir, "backup", |args| {
        args.into = Some(dir.path().join("second"));
        args.json = true;
    });
    let value: serde_json::Value = serde_json::from_str(&json.unwrap()).unwrap();
    assert_eq!((value["zxid"].as_str(), value["znodes"].as_u64()), (Some("0x48"), Some(56)));
    // A byte of a needed file was changed since.
    let stored = Stored::open(repository, None).unwrap();
    let path = stored.repository.file_path("log.3d", &stored.manifest.logs[1].sha);
    let mut bytes = fs::read(&path).unwrap();
    bytes[700] ^= 1;
    fs::write(&path, bytes).unwrap();
    let failed =
        restore(&dir, "backup", |args| args.into = Some(dir.path().join("third"))).unwrap_err();
    assert!(format!("{failed:#}").contains("damaged at offset"), "{failed:#}");
}
