//! Histories of logs and snapshots that the original wrote: intact, damaged, and with gaps.
//!
//! The expected lines come from `tests/fixtures/zookeeper-3.8.0/basic/decoded`.

use std::fs;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/zookeeper-3.8.0");

/// A data directory with some of the original's files, and a replacement for the last log.
fn directory(files: &[&str], last_log: Option<&str>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = dir.path().join("version-2");
    fs::create_dir(&version_dir).unwrap();
    for file in files {
        let from = format!("{FIXTURES}/basic/version-2/{file}");
        fs::copy(from, version_dir.join(file)).unwrap();
    }
    if let Some(variant) = last_log {
        let from = format!("{FIXTURES}/torn/{variant}/log.3d");
        fs::copy(from, version_dir.join("log.3d")).unwrap();
    }
    dir
}

const LOGS: [&str; 2] = ["log.1", "log.3d"];
const ALL: [&str; 4] = ["snapshot.0", "log.1", "snapshot.3c", "log.3d"];

fn args(path: &str, dirs: &[&tempfile::TempDir]) -> HistoryArgs {
    HistoryArgs {
        path: path.to_owned(),
        dir: dirs.iter().map(|dir| dir.path().to_owned()).collect(),
        log_dir: None,
        children: false,
        recursive: false,
        since: None,
        until: None,
        last: None,
        data: false,
        audit: Vec::new(),
        identity: None,
        json: false,
    }
}

fn shown(args: &HistoryArgs) -> (Vec<String>, Summary) {
    let mut out = Vec::new();
    let summary = act(args, &mut out).unwrap();
    (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), summary)
}

/// The output without times.
fn lines(args: &HistoryArgs) -> Vec<String> {
    let (lines, summary) = shown(args);
    assert_eq!(summary.errors, Vec::<String>::new());
    let untimed = |line: String| match line.split_once("Z 0x") {
        Some((_, rest)) => format!("0x{rest}"),
        None => line,
    };
    lines.into_iter().map(untimed).collect()
}

#[test]
fn every_change_has_its_time_session_and_data_across_logs() {
    let dir = directory(&ALL, None);
    let (lines, summary) = shown(&args("/fx/versions", &[&dir]));
    let session = "-- session 0x100001a39800000 cxid";
    let expected = [
        format!("2026-11-21T07:20:16.057Z 0xb /fx/versions created, 2 bytes \"v0\" {session} 8"),
        format!(
            "2026-11-21T07:20:16.061Z 0xc /fx/versions data set to version 1, 2 bytes \"v1\" {session} 9"
        ),
        format!(
            "2026-11-21T07:20:16.063Z 0xd /fx/versions data set to version 2, 2 bytes \"v2\" {session} 10"
        ),
        format!(
            "2026-11-21T07:20:16.065Z 0xe /fx/versions data set to version 3, 2 bytes \"v3\" {session} 11"
        ),
        "2026-11-21T07:20:19.139Z 0x40 /fx/versions data set to version 4, 2 bytes \"v4\" \
         -- session 0x100001a45ac0000 cxid 3"
            .to_owned(),
    ];
    assert_eq!(lines, expected);
    assert_eq!(
        (summary.txns, summary.first, summary.last, summary.logs),
        (72, Some(Zxid(1)), Zxid(0x48), 2)
    );
}

#[test]
fn acls_deletions_and_kinds_of_znodes_are_told() {
    let dir = directory(&ALL, None);
    let of = |path: &str| lines(&args(path, &[&dir]));
    let first = "session 0x100001a39800000";
    assert_eq!(
        of("/acl/changed"),
        [
            format!("0x30 /acl/changed created, no data -- {first} cxid 42"),
            format!(
                "0x31 /acl/changed ACL set to ACL version 1, world:anyone:rc,digest:alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=:rwcda \
                 -- {first} cxid 43"
            ),
        ]
    );
    assert_eq!(
        of("/seq/n-0000000001"),
        [
            format!("0x1a /seq/n-0000000001 created, 2 bytes \"s1\" -- {first} cxid 23"),
            format!("0x1d /seq/n-0000000001 deleted, by a request -- {first} cxid 26"),
        ]
    );
    // The session was closed. The transaction that closed it names this znode.
    let third = "session 0x100001a39800002";
    assert_eq!(
        of("/eph/closed2"),
        [
            format!(
                "0x23 /eph/closed2 created, ephemeral of 0x100001a39800002, 4 bytes \"gone\" -- {third} cxid 2"
            ),
            format!("0x3c /eph/closed2 deleted, because its session ended -- {third} cxid 3"),
        ]
    );
    assert_eq!(
        of("/cont-empty"),
        [format!("0x26 /cont-empty created, container, no data -- {first} cxid 32")]
    );
    assert_eq!(
        of("/ttl/max"),
        [format!(
            "0x28 /ttl/max created, TTL 1099511627775 ms, 7 bytes \"ttl max\" -- {first} cxid 34"
        )]
    );
    assert_eq!(
        of("/acl/ro"),
        [format!("0x2e /acl/ro created, ACL world:anyone:r, 1 bytes \"r\" -- {first} cxid 40")]
    );
    assert_eq!(
        of("/fx/bin"),
        [format!("0x7 /fx/bin created, 256 bytes that are no text -- {first} cxid 4")]
    );
    assert_eq!(of("/nowhere"), Vec::<String>::new());
}

#[test]
fn a_multi_counts_by_its_operations_and_one_that_failed_not_at_all() {
    let dir = directory(&ALL, None);
    let below = lines(&HistoryArgs { recursive: true, ..args("/multi", &[&dir]) });
    let session = "-- session 0x100001a39800000 cxid 50, operation";
    assert_eq!(
        below,
        [
            format!("0x38 /multi created, 1 bytes \"m\" {session} 1 of 8"),
            format!("0x38 /multi/s-0000000000 created, 1 bytes \"x\" {session} 2 of 8"),
            format!("0x38 /multi/cont created, container, no data {session} 3 of 8"),
            format!("0x38 /multi/ttl created, TTL 946080000000 ms, no data {session} 4 of 8"),
            format!("0x38 /multi data set to version 1, 2 bytes \"m2\" {session} 5 of 8"),
            format!("0x38 /multi/tmp created, no data {session} 7 of 8"),
            format!("0x38 /multi/tmp deleted, by a request {session} 8 of 8"),
        ]
    );
    // Transaction 0x3b would have set its data.
    assert_eq!(lines(&args("/fx", &[&dir])).len(), 1);
}

#[test]
fn children_and_descendants_are_shown_on_request() {
    let dir = directory(&ALL, None);
    let zxids = |args: &HistoryArgs| -> Vec<String> {
        lines(args).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let one = args("/fx/deep", &[&dir]);
    assert_eq!(zxids(&one), ["0xf"]);
    assert_eq!(zxids(&HistoryArgs { children: true, ..one.clone() }), ["0xf", "0x10"]);
    let below = ["0xf", "0x10", "0x11", "0x12", "0x13", "0x41"];
    assert_eq!(zxids(&HistoryArgs { recursive: true, ..one }), below);
    // The root has the changes of all znodes, one for each path of a transaction.
    let all = HistoryArgs { recursive: true, ..args("/", &[&dir]) };
    assert_eq!(zxids(&all).len(), 72);
}

#[test]
fn points_and_counts_limit_what_is_shown() {
    let dir = directory(&ALL, None);
    let all = args("/fx/versions", &[&dir]);
    let zxids = |args: &HistoryArgs| -> Vec<String> {
        lines(args).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let point = |text| Some(dates::parse_point(text).unwrap());
    let since = HistoryArgs { since: point("0xd"), ..all.clone() };
    assert_eq!(zxids(&since), ["0xd", "0xe", "0x40"]);
    let until = point("2026-11-21T07:20:16.063Z");
    assert_eq!(zxids(&HistoryArgs { until, ..all.clone() }), ["0xb", "0xc", "0xd"]);
    assert_eq!(zxids(&HistoryArgs { until, ..since }), ["0xd"]);
    assert_eq!(zxids(&HistoryArgs { last: Some(2), ..all }), ["0xe", "0x40"]);
}

#[test]
fn json_has_the_same_in_fields() {
    let dir = directory(&ALL, None);
    let audit = dir.path().join("audit.log");
    fs::write(&audit, "session=0x100001a39800002\tuser=amy\tip=10.0.0.7\toperation=create\n")
        .unwrap();
    let json = HistoryArgs { json: true, ..args("/eph/closed", &[&dir]) };
    let (lines, _) = shown(&HistoryArgs { audit: vec![audit], ..json.clone() });
    let values: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        values[0],
        serde_json::json!({
            "zxid": "0x22", "time": "2026-11-21T07:20:16.104Z", "time_ms": 1_795_245_616_104_i64,
            "path": "/eph/closed", "change": "created", "kind": "ephemeral", "owner": "0x100001a39800002",
            "acl": ["world:anyone:rwcda"], "data": {"bytes": 4, "begin": "gone"},
            "source": "log", "session": "0x100001a39800002", "cxid": 1, "multi": null,
            "addresses": ["10.0.0.7"], "users": ["amy"],
        })
    );
    assert_eq!(values[1]["change"], "deleted");
    assert_eq!(values[1]["cause"], "because its session ended");
    let (lines, _) = shown(&HistoryArgs { data: true, path: "/fx/bin".into(), ..json });
    let value: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    let base64 = value["data"]["base64"].as_str().unwrap();
    assert!(base64.starts_with("AAECAwQFBgcICQoL"), "{base64}");
}

#[test]
fn a_snapshot_tells_what_is_left_of_missing_transactions() {
    let dir = directory(&["snapshot.3c", "log.3d"], None);
    let of = |path: &str| lines(&args(path, &[&dir]));
    let gap = "-- the transactions before 0x3d are in none of the logs";
    let origin = "-- from a snapshot, session unknown";
    assert_eq!(
        of("/fx/versions"),
        [
            gap.to_owned(),
            format!("0xb /fx/versions created, with data that were overwritten since {origin}"),
            format!("0xe /fx/versions data set to version 3, 2 bytes \"v3\" {origin}"),
            "0x40 /fx/versions data set to version 4, 2 bytes \"v4\" -- session 0x100001a45ac0000 cxid 3".to_owned(),
        ]
    );
    // The znode was deleted before the snapshot, so it left no trace.
    assert_eq!(of("/seq/n-0000000001"), [gap]);
    // An item before a point proves nothing about the time after it.
    let since = Some(dates::parse_point("0x3d").unwrap());
    let behind = lines(&HistoryArgs { since, ..args("/fx/versions", &[&dir]) });
    assert_eq!(behind.len(), 2, "{behind:?}");
    let since = Some(dates::parse_point("0x3e").unwrap());
    let behind = lines(&HistoryArgs { since, ..args("/fx/versions", &[&dir]) });
    assert_eq!(behind.len(), 1, "{behind:?}");
}

#[test]
fn directories_complete_each_other() {
    let first = directory(&["log.1"], None);
    let second = directory(&["log.3d"], Some("crc-corrupt-middle"));
    let third = directory(&["log.3d"], None);
    let all = directory(&ALL, None);
    let whole = lines(&args("/fx/versions", &[&all]));
    assert_eq!(lines(&args("/fx/versions", &[&third, &first])), whole);
    assert_eq!(lines(&args("/fx/versions", &[&all, &third, &first])), whole);
    // A damaged copy does not affect a whole one.
    let (text, summary) =
        shown(&HistoryArgs { recursive: true, ..args("/", &[&second, &first, &third]) });
    assert_eq!(summary.errors.len(), 1);
    assert_eq!(text, shown(&HistoryArgs { recursive: true, ..args("/", &[&all]) }).0);
}

#[test]
fn a_backup_has_the_history_of_its_directory() {
    let dir = directory(&ALL, None);
    let whole = HistoryArgs { recursive: true, ..args("/", &[&dir]) };
    let source =
        crate::source::Directory::open(std::sync::Arc::new(zebu_store::OsVfs), dir.path(), None);
    let backup = tempfile::tempdir().unwrap();
    let repository = crate::repository::Repository::create(backup.path()).unwrap();
    let wish =
        crate::backup::Wish { source: String::new(), now_ms: 1000, anew: false, horizon_ms: None };
    crate::backup::take(&source.unwrap(), &repository, &wish).unwrap();
    let from_backup = HistoryArgs { dir: vec![backup.path().to_owned()], ..whole.clone() };
    assert_eq!(shown(&from_backup).0, shown(&whole).0);
}

#[test]
fn a_torn_record_at_the_end_is_noted() {
    for variant in [
        "torn-crc-only",
        "torn-mid-record-nopad",
        "torn-mid-record-zeropad",
        "torn-no-eor",
        "torn-no-eor-zeropad",
    ] {
        let dir = directory(&LOGS[..1], Some(variant));
        let (text, summary) = shown(&HistoryArgs { recursive: true, ..args("/after", &[&dir]) });
        assert_eq!(summary.errors, Vec::<String>::new(), "{variant}");
        assert_eq!(summary.notes.len(), 1, "{variant}");
        let note = &summary.notes[0];
        assert!(
            note.contains("an incomplete record follows transaction 0x47"),
            "{variant}: {note}"
        );
        assert_eq!(summary.last, Zxid(0x47), "{variant}");
        assert!(text.last().unwrap().contains("/after/m2"), "{variant}: {text:?}");
    }
}

#[test]
fn damage_is_an_error_and_what_can_be_read_is_shown() {
    // The remaining transactions of each variant: see the fixtures' README.
    for (variant, last, what) in [
        ("crc-corrupt-last", 0x47, "a record with a wrong checksum"),
        ("crc-corrupt-middle", 0x41, "a record with a wrong checksum"),
        (
            "partial-middle-then-more",
            0x41,
            "a record that was not completed, and more follows at offset",
        ),
    ] {
        let dir = directory(&LOGS[..1], Some(variant));
        let (text, summary) = shown(&args("/fx/versions", &[&dir]));
        assert_eq!(summary.errors.len(), 1, "{variant}: {summary:?}");
        let error = &summary.errors[0];
        assert!(error.contains(what) && error.contains("log.3d"), "{variant}: {error}");
        assert_eq!(summary.last, Zxid(last), "{variant}: {error}");
        assert_eq!(text.len(), 5, "{variant}: {text:?}");
    }
}

#[test]
fn a_gap_between_logs_is_shown_in_its_place() {
    let dir = directory(&ALL, Some("missing-middle-gap"));
    // The snapshot is older than the gap, so it proves nothing about it.
    let text = lines(&args("/after/m1", &[&dir]));
    assert_eq!(text[0], "-- transactions between 0x3c and 0x41 are in none of the logs");
    assert_eq!(text.len(), 2, "{text:?}");
    // It is unknown whether a znode survived, so nothing is claimed.
    let text = lines(&args("/fx/versions", &[&dir]));
    assert_eq!(text.len(), 5, "{text:?}");
    assert!(text[4].starts_with("-- transactions between"), "{text:?}");
}

#[test]
fn what_is_no_directory_of_a_server_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let refused = |args: &HistoryArgs| format!("{:#}", act(args, &mut Vec::new()).unwrap_err());
    assert!(refused(&args("/a", &[&empty])).contains("no data directory of a server"));
    let dir = directory(&ALL, None);
    assert!(refused(&args("a/", &[&dir])).starts_with("a/: "));
    let gone = HistoryArgs { audit: vec![empty.path().join("no.log")], ..args("/a", &[&dir]) };
    assert!(refused(&gone).contains("no.log"));
}

const LIMITS: newest::Limits = newest::Limits::BESIDE_A_SERVER;

fn newest_of(path: &str, below: bool, limits: newest::Limits) -> Result<newest::Newest> {
    let dir = directory(&ALL, None);
    newest::newest(dir.path(), dir.path(), path, below, limits)
}

#[test]
fn the_newest_changes_are_those_that_the_tool_shows() {
    let dir = directory(&LOGS, None);
    let mut args = args("/", &[&dir]);
    (args.recursive, args.json) = (true, true);
    let (all, _) = shown(&args);
    let newest = newest_of("/", true, LIMITS).unwrap();
    let lines: Vec<_> = newest.changes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, all);
    assert_eq!((newest.is_cut, newest.unread_logs, newest.first), (false, 0, Some(Zxid(1))));
    // The last changes are kept.
    let few = newest_of("/", true, newest::Limits { changes: 3, ..LIMITS }).unwrap();
    assert_eq!(few.changes, newest.changes[newest.changes.len() - 3..]);
    assert!(few.is_cut);
}

#[test]
fn old_logs_and_too_much_time_are_not_spent_on_the_newest_changes() {
    let newest = newest_of("/", true, newest::Limits { log_bytes: 1, ..LIMITS }).unwrap();
    assert_eq!((newest.unread_logs, newest.first), (1, Some(Zxid(0x3d))));
    assert!(newest.changes.iter().all(|change| change["gap"].is_null()), "{newest:?}");
    assert!(!newest.changes.is_empty());
    let time = std::time::Duration::ZERO;
    let late = newest_of("/", true, newest::Limits { time, ..LIMITS });
    assert!(matches!(late, Err(BackupError::TooLong(_))), "{late:?}");
    assert!(matches!(newest_of("no/path", false, LIMITS), Err(BackupError::Usage(_))));
}
