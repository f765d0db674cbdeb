//! The whole command on directories, and the judgement of the members' answers. Transactions and
//! digests are those of the fixtures' README. The directories of Zebu servers contain the
//! original's transactions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use zebu_backup::backup::{Wish, take};
use zebu_backup::repository::Repository;
use zebu_backup::source::Directory;
use zebu_proto::Zxid;
use zebu_state::{Outline, Rebuild, Step};
use zebu_store::{Options, OsVfs, Store};
use zebu_testkit::fixtures::basic_bodies;
use zebu_tree::Tree;

use super::members::{Answer, Member, judge};
use super::report::{Kind, Report};
use super::{DirectoriesArgs, directories};

const FIXTURES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/zookeeper-3.8.0/basic/version-2");

fn verify(dirs: &[&TempDir]) -> Report {
    let dirs = dirs.iter().map(|dir| dir.path().to_owned()).collect();
    verified_with(dirs, None).unwrap()
}

fn verified_with(
    dirs: Vec<PathBuf>,
    identity: Option<PathBuf>,
) -> Result<Report, super::VerifyError> {
    let (znodes, limit, json) = (true, 10, false);
    directories::verify(&DirectoriesArgs { dirs, log_dir: None, identity, znodes, limit, json })
}

fn found(report: &Report, kind: Kind) -> Vec<String> {
    let of_kind = report.findings.iter().filter(|finding| finding.kind == kind);
    of_kind.map(|finding| finding.text.clone()).collect()
}

fn json(report: &Report) -> serde_json::Value {
    let mut out = Vec::new();
    report.json(&mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn text(report: &Report) -> String {
    let mut out = Vec::new();
    report.text(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A data directory of the original.
fn original() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = dir.path().join("version-2");
    fs::create_dir(&version_dir).unwrap();
    for file in ["snapshot.0", "log.1", "snapshot.3c", "log.3d"] {
        fs::copy(format!("{FIXTURES}/{file}"), version_dir.join(file)).unwrap();
    }
    dir
}

/// A data directory of Zebu with these transactions, in logs of twenty, and an empty snapshot.
fn ours(bodies: &[(Zxid, Vec<u8>)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { prealloc_bytes: 0, ..Options::new(dir.path()) };
    let mut store = Store::open(Arc::new(OsVfs), options).unwrap();
    store.recover(&mut Rebuild::new(zebu_tree::Options::default())).unwrap();
    let (mut log, snapshots) = store.split();
    let tree = Tree::new(zebu_tree::Options::default());
    let mut taking = Outline::of(&tree).begin(&snapshots).unwrap();
    assert_eq!(taking.step(&tree, 10, 1000), Step::Done);
    taking.finish(true, true).unwrap();
    let mut last = Zxid::ZERO;
    for (count, (zxid, body)) in bodies.iter().filter(|(zxid, _)| *zxid > Zxid::ZERO).enumerate() {
        if *zxid <= last {
            continue;
        }
        last = *zxid;
        log.append(*zxid, body);
        log.commit().unwrap();
        if count % 20 == 19 {
            log.roll().unwrap();
        }
    }
    log.roll().unwrap();
    dir
}

/// The sorted paths of the files whose names begin with `prefix`.
fn files(dir: &TempDir, prefix: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir.path().join("version-2")).unwrap();
    let mut all: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix))
        .collect();
    all.sort();
    all
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_directory_is_verified() {
    for dir in [original(), ours(&basic_bodies())] {
        let report = verify(&[&dir]);
        assert_eq!(report.code(), 0, "{}", text(&report));
        let json = json(&report);
        let place = &json["places"][0];
        assert_eq!((&place["last"], &place["digest"]), (&"0x48".into(), &"0x19cff21411".into()));
        assert_eq!(json["verdict"], "verified");
    }
}

#[test]
fn the_same_transactions_in_other_files_are_the_same() {
    let (original, ours) = (original(), ours(&basic_bodies()));
    let report = verify(&[&original, &ours]);
    assert_eq!((report.code(), report.compared_at), (0, Some(Zxid(0x48))), "{}", text(&report));
    assert_eq!(report.differing, Some(0));
}

#[test]
fn a_directory_that_is_behind_is_compared_at_its_end() {
    let all = basic_bodies();
    let some: Vec<_> = all.iter().filter(|(zxid, _)| *zxid <= Zxid(0x40)).cloned().collect();
    let report = verify(&[&original(), &ours(&some)]);
    assert_eq!((report.code(), report.compared_at), (0, Some(Zxid(0x40))), "{}", text(&report));
    // An empty place is reported as empty.
    let empty = ours(&[]);
    let report = verify(&[&empty, &ours(&some)]);
    assert_eq!((report.code(), report.compared_at), (0, Some(Zxid(0))), "{}", text(&report));
}

#[test]
fn a_flipped_byte_is_found_wherever_it_is() {
    let count = files(&ours(&basic_bodies()), "").len();
    for at in 0..count {
        let dir = ours(&basic_bodies());
        let path = &files(&dir, "")[at];
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(path).unwrap().len();
        flip(path, bytes / 2);
        let report = verify(&[&dir]);
        let is_log = name.starts_with("log.") || name.starts_with("snapshot.");
        // The middle of a sidecar is between its two marks, and a lock is empty.
        assert_eq!(report.code() == 1, is_log, "{name}: {}", text(&report));
        if name.starts_with("log.") {
            let finding =
                report.findings.iter().find(|finding| finding.kind == Kind::Damage).unwrap();
            assert_eq!(finding.file.as_deref(), Some(path.as_path()), "{name}");
            assert!(finding.offset.is_some_and(|offset| offset < bytes as u64), "{finding:?}");
        }
    }
}

#[test]
fn a_sidecar_without_a_whole_mark_is_found() {
    let dir = ours(&basic_bodies());
    let path = &dir.path().join("version-2").join(zebu_store::names::sidecar(Zxid(1)));
    flip(path, 20);
    assert_eq!(verify(&[&dir]).code(), 0, "the other mark is whole");
    flip(path, 4096 + 20);
    let report = verify(&[&dir]);
    assert!(
        found(&report, Kind::Damage)[0].contains("this sidecar cannot be read"),
        "{}",
        text(&report)
    );
}

#[test]
fn a_missing_log_is_found_with_its_sidecar_and_without() {
    for with_sidecar in [false, true] {
        let dir = ours(&basic_bodies());
        let log = &files(&dir, "log.")[1];
        let first = log.extension().unwrap().to_string_lossy().into_owned();
        fs::remove_file(log).unwrap();
        if with_sidecar {
            let sidecar = files(&dir, "").into_iter().find(|path| {
                path.to_string_lossy().ends_with(&first)
                    && !path.to_string_lossy().contains("/log.")
            });
            fs::remove_file(sidecar.unwrap()).unwrap();
        }
        let report = verify(&[&dir]);
        let damage = found(&report, Kind::Damage);
        assert!(
            damage.iter().any(|text| text.contains("are missing: a log or a part of a log")),
            "{damage:?}"
        );
        let is_named =
            damage.iter().any(|text| text.contains("the log of this sidecar is missing"));
        assert_eq!(is_named, !with_sidecar, "{damage:?}");
        // Beside other directories, the part before the gap is compared.
        let report = verify(&[&dir, &original()]);
        assert!(report.compared_at.is_some_and(|zxid| zxid < Zxid(0x48)), "{}", text(&report));
        assert_eq!(found(&report, Kind::Differs), Vec::<String>::new());
    }
}

#[test]
fn an_end_that_was_committed_and_is_gone_is_found() {
    let dir = ours(&basic_bodies());
    let logs = dir.path().join("version-2");
    zebu_store::CommittedFile::new(Arc::new(OsVfs), &logs).write(Zxid(0x49)).unwrap();
    let report = verify(&[&dir]);
    assert!(found(&report, Kind::Damage)[0].contains("everything up to 0x49 was committed"));
}

#[test]
fn znodes_that_differ_are_named_with_what_each_has() {
    let all = basic_bodies();
    // One letter differs in the data of a transaction that creates a znode.
    let mut other = all.clone();
    let changed = other.iter_mut().find(|(_, body)| body.windows(4).any(|part| part == b"data"));
    let (zxid, body) = changed.expect("the fixtures have data");
    let at = body.windows(4).position(|part| part == b"data").unwrap();
    body[at] = b'D';
    let zxid = *zxid;
    let report = verify(&[&ours(&all), &ours(&other)]);
    assert_eq!(report.code(), 1);
    let differs = found(&report, Kind::Differs);
    assert!(
        differs[0].contains(&format!("the histories diverge: transaction {zxid} is another one")),
        "{differs:?}"
    );
    // The digests of the transactions show that the second tree differs from its leader's.
    let damage = found(&report, Kind::Damage);
    assert!(damage[0].contains("not the tree of its leader"), "{damage:?}");
    // The report names the znodes and their content in each directory. One was created under
    // another name.
    assert_eq!(report.differing, Some(2), "{}", text(&report));
    let json = json(&report);
    let znode = &json["znodes"][0]["differs"]["existence"];
    assert_eq!(znode.as_object().unwrap().len(), 2, "{json}");
    assert!(text(&report).contains("existence: there (czxid 0x6) in "), "{}", text(&report));
}

#[test]
fn members_are_judged_by_their_digests() {
    let members: Vec<_> = (1..=3)
        .map(|id| Member { name: format!("server.{id}"), client: None, admin: None })
        .collect();
    let answer = |mode: &str, zxid: i64, znodes, digests: &[(i64, i64)]| {
        Ok(Answer {
            mode: mode.to_owned(),
            zxid: Some(Zxid(zxid)),
            znodes: Some(znodes),
            digests: digests.iter().map(|(zxid, digest)| (Zxid(*zxid), *digest)).collect(),
        })
    };
    let judged = |answers: &[Result<Answer, String>]| {
        let mut report = Report::default();
        judge(&members, answers, false, &mut report);
        report
    };
    let leader = || answer("leader", 0x101, 7, &[(0x80, 5), (0x100, 6)]);
    let same = judged(&[leader(), answer("follower", 0x101, 7, &[(0x100, 6)]), leader()]);
    assert!(found(&same, Kind::Unknown)[0].contains("more than one member leads"));
    let follower = |digest| answer("follower", 0x101, 7, &[(0x80, 5), (0x100, digest)]);
    let same = judged(&[leader(), follower(6), follower(6)]);
    assert_eq!((same.code(), same.compared_at), (0, Some(Zxid(0x101))), "{}", text(&same));
    let other = judged(&[leader(), follower(6), follower(9)]);
    assert_eq!(
        found(&other, Kind::Differs),
        [
            "digest after transaction 0x100: 0x6 in server.1, 0x6 in server.2, 0x9 in server.3; 1 digests differ"
        ]
    );
    let fewer = judged(&[leader(), follower(6), answer("follower", 0x101, 6, &[(0x80, 5)])]);
    assert!(found(&fewer, Kind::Differs)[0].starts_with("znodes: 7 in server.1"));
    // At different transactions, counts cannot be compared.
    let behind = judged(&[leader(), follower(6), answer("follower", 0x100, 6, &[(0x80, 5)])]);
    assert_eq!(behind.code(), 0, "{}", text(&behind));
    let away = judged(&[leader(), follower(6), Err("connection refused".to_owned())]);
    assert_eq!(away.code(), 3);
    let young = judged(&[answer("leader", 3, 7, &[]), answer("follower", 3, 7, &[])]);
    assert_eq!(young.code(), 3, "{}", text(&young));
}

/// A key pair from age-keygen.
const PUBLIC: &str = "age1d8xy5x0p6m5fps57pule94hswuaftc6wvzdlcxg54mcl283mtd2qh2rztt";
const SECRET: &str = "AGE-SECRET-KEY-1RAU8Q8932SESUYXNPGZQMAUA4F8XLH44PGDVL98DQTAT8VMC7PKQSRHWAP";

#[test]
fn an_encrypted_backup_is_compared_with_the_directory_it_is_of() {
    let (dir, place) = (original(), tempfile::tempdir().unwrap());
    let (backup, public) = (place.path().join("backup"), place.path().join("public"));
    let secret = place.path().join("secret");
    fs::write(&public, PUBLIC).unwrap();
    fs::write(&secret, SECRET).unwrap();
    let mut repository = Repository::create(&backup).unwrap();
    repository.encrypt_to(&public).unwrap();
    let source = Directory::open(Arc::new(OsVfs), dir.path(), None).unwrap();
    let wish = Wish { source: "a test".into(), now_ms: 0, anew: false, horizon_ms: None };
    take(&source, &repository, &wish).unwrap();
    let dirs = vec![dir.path().to_owned(), backup];
    let refused = verified_with(dirs.clone(), None).unwrap_err().to_string();
    assert!(refused.contains("is encrypted"), "{refused}");
    let report = verified_with(dirs.clone(), Some(secret.clone())).unwrap();
    assert_eq!(report.code(), 0, "{}", text(&report));
    fs::remove_file(dir.path().join("version-2/log.3d")).unwrap();
    let report = verified_with(dirs, Some(secret)).unwrap();
    assert!(text(&report).contains("0x3c"), "{}", text(&report));
}
