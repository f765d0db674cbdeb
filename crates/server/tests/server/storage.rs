//! The files on disk: how a server writes them, and how it reads them at a start.

use std::net::TcpListener;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tempfile::TempDir;
use zebu_proto::{StatPersisted, Zxid};
use zebu_server::Server;
use zebu_store::{Options, OsVfs, Store, Vfs as _};
use zebu_testkit::wire::{OPEN, Writer, create, multi, op, set_data};

use crate::admin;
use crate::members::Three;
use crate::running::{Running, files, wait};

/// A directory of a server that was stopped after it wrote this many znodes.
fn written(settings: &[&str], znodes: usize) -> TempDir {
    let running = Running::new(settings);
    let mut client = running.client();
    for n in 0..znodes {
        client.create(&format!("/n{n}"), &[b'x'; 1000]).unwrap();
    }
    running.stop()
}

fn version_2(dir: &Path) -> std::path::PathBuf {
    dir.join("version-2")
}

#[test]
fn snapshots_are_taken_while_many_write_and_nothing_is_lost() {
    let running = Running::new(&["snapCount=200", "snapshot.compression.method=snappy"]);
    running.client().create("/all", b"").unwrap();
    thread::scope(|scope| {
        for writer in 0..4 {
            let running = &running;
            scope.spawn(move || {
                let mut client = running.client();
                let paths: Vec<String> = (0..500).map(|n| format!("/all/{writer}-{n}")).collect();
                for path in &paths {
                    client.post(op::CREATE, &create(path, b"x", OPEN, 0));
                }
                for path in &paths {
                    assert_eq!(client.reply().unwrap().err, 0, "{path}");
                }
                for path in paths.iter().step_by(2) {
                    client.delete(path).unwrap();
                }
            });
        }
    });
    running.wait_metric("cnt_snapshottime", |n| n >= 3.0);
    assert!(files(&running.files(), "snapshot.").len() >= 3);
    let running = running.restart(&[]);
    assert_eq!(running.client().children("/all").len(), 1000);
    // Every transaction has the digest of the tree after it.
    assert_eq!(running.metric("digest_mismatches_count"), Some(0.0));
}

#[test]
fn a_start_takes_a_snapshot_only_if_it_has_replayed_transactions() {
    let taken = |running: &Running| running.metric("cnt_snapshottime");
    let running = Running::new(&[]);
    assert_eq!(taken(&running), Some(1.0), "there was no snapshot");
    running.client().create("/n", b"").unwrap();
    let running = running.restart(&[]);
    running.wait_metric("cnt_snapshottime", |count| count == 1.0);
    let running = running.restart(&[]);
    assert!(running.word("srvr").contains("Mode: standalone"));
    assert_eq!(taken(&running), Some(0.0), "nothing was replayed");
}

#[test]
fn a_failed_multi_is_logged_without_its_content() {
    let running = Running::new(&[]);
    let mut client = running.client();
    let content = [b'z'; 1000];
    let operations = [
        (op::CREATE, create("/new", &content, OPEN, 0)),
        (op::DELETE, Writer::new().string("/missing").int(-1)),
    ];
    let before = client.call(op::SYNC, &Writer::new().string("/")).zxid;
    let reply = client.call(op::MULTI, &multi(&operations));
    assert_eq!(reply.zxid, before + 1, "the failure is logged");
    assert!(!client.exists("/new"));
    let stopped = running.stop();
    let dir = version_2(stopped.path());
    // After the transactions, the log contains zeros.
    for log in files(&dir, "log.") {
        let bytes = std::fs::read(dir.join(log)).unwrap();
        assert!(!bytes.windows(content.len()).any(|window| window == content));
    }
}

#[test]
fn a_snapshot_is_due_after_so_many_bytes_too() {
    let running = Running::new(&["snapCount=1000000000", "snapSizeLimitInKb=64"]);
    let mut client = running.client();
    assert_eq!(files(&running.files(), "snapshot.").len(), 1);
    for n in 0..65 {
        client.create(&format!("/n{n}"), &[0; 1024]).unwrap();
    }
    wait("another snapshot", || files(&running.files(), "snapshot.").len() > 1);
    let running = Running::new(&["snapCount=1000000000", "snapSizeLimitInKb=0"]);
    let mut client = running.client();
    for n in 0..65 {
        client.create(&format!("/n{n}"), &[0; 1024]).unwrap();
    }
    assert_eq!(running.metric("cnt_snapshottime"), Some(1.0), "0 is no limit");
}

#[test]
fn a_large_tree_is_not_written_for_a_few_transactions() {
    let writes = |settings: &[&str]| {
        let running = Running::new(settings);
        let mut client = running.client();
        client.create("/large", &vec![0; 600_000]).unwrap();
        for n in 0..100 {
            client.create(&format!("/n{n}"), b"").unwrap();
        }
        running
    };
    // The log has about as many bytes as the tree, but needs twice as many.
    let share = ["snapCount=10", "zebu.snapLogPercent=400", "snapSizeLimitInKb=0"];
    assert_eq!(writes(&share).metric("cnt_snapshottime"), Some(1.0), "the one of the start");
    let often = writes(&["snapCount=10", "snapSizeLimitInKb=0"]);
    often.wait_metric("cnt_snapshottime", |n| n >= 2.0);
}

#[test]
fn a_log_grows_in_steps_and_ends_at_its_limit() {
    let length = |dir: &TempDir| {
        let dir = version_2(dir.path());
        let logs = files(&dir, "log.");
        (std::fs::metadata(dir.join(&logs[0])).unwrap().len(), logs.len())
    };
    // After the header, as in the original.
    assert_eq!(length(&written(&["preAllocSize=128"], 1)), (16 + (128 << 10), 1));
    assert_eq!(length(&written(&["preAllocSize=256"], 1)), (16 + (256 << 10), 1));
    let (bytes, logs) = length(&written(&["preAllocSize=0"], 10));
    assert!((10_000..12_000).contains(&bytes), "not preallocated: {bytes}");
    assert_eq!(logs, 1);
    let (_, logs) = length(&written(&["preAllocSize=0", "txnLogSizeLimitInKb=10"], 50));
    assert!(logs > 3, "{logs} logs");
}

#[test]
fn snapshots_are_compressed_as_configured_and_read_back_whatever_they_are() {
    let dir = tempfile::tempdir().unwrap();
    for (method, suffix, start) in [
        ("", "", &b"ZKSN"[..]),
        ("gz", ".gz", &[0x1f, 0x8b]),
        ("snappy", ".snappy", &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y']),
    ] {
        // Each start replays the transactions of the last run, and takes a snapshot.
        let mut running =
            Running::on(dir.path(), &[&format!("snapshot.compression.method={method}")]);
        let mut client = running.client();
        let _ = client.create("/n", b"");
        let version = client.set("/n", method.as_bytes()).unwrap().version;
        let is_it = |name: &str| {
            name.ends_with(suffix) && name.matches('.').count() == suffix.len().min(1) + 1
        };
        // The server takes it while it serves clients.
        wait("the snapshot is taken", || is_it(&newest_snapshot(&running)));
        let newest = newest_snapshot(&running);
        let bytes = std::fs::read(running.files().join(&newest)).unwrap();
        assert!(bytes.starts_with(start), "{newest}");
        assert!(version > 0);
        running.take().stop().unwrap();
    }
    let running = Running::on(dir.path(), &[]);
    assert_eq!(running.client().get("/n").unwrap().1.version, 3);
}

fn newest_snapshot(running: &Running) -> String {
    let zxid = |name: &String| i64::from_str_radix(name.split('.').nth(1).unwrap(), 16).unwrap();
    files(&running.files(), "snapshot.").into_iter().max_by_key(zxid).unwrap()
}

#[test]
fn digests_and_the_last_zxid_are_left_out_where_configured() {
    let with = |settings: &[&str]| {
        let running = Running::new(settings);
        let mut client = running.client();
        client.create("/n", b"").unwrap();
        // `hash` shows every 128th digest, and the newest one.
        for _ in 0..130 {
            client.post(op::SET_DATA, &set_data("/n", b""));
        }
        (0..130).for_each(|_| assert_eq!(client.reply().unwrap().err, 0));
        let hashes = running.word("hash").lines().count();
        let snapshot = running.files().join(newest_snapshot(&running));
        (hashes, std::fs::metadata(snapshot).unwrap().len())
    };
    let (hashes, whole) = with(&[]);
    assert_eq!(hashes, 2);
    // Each part has a checksum and a slash after it.
    const SEAL: u64 = 8 + 4 + 1;
    let without_zxid = with(&["serializeLastProcessedZxid.enabled=false"]);
    assert_eq!(without_zxid, (2, whole - 8 - SEAL));
    // A zxid, a version and the digest.
    let without_digest = with(&["digest.enabled=false"]);
    assert_eq!(without_digest, (0, whole - 8 - 4 - 8 - SEAL));
}

#[test]
fn txns_wait_for_company_as_long_as_configured_and_no_longer() {
    // Each of these would take an hour without the other setting.
    for settings in [
        ["-Dzookeeper.flushDelay=3600000", "-Dzookeeper.maxWriteQueuePollTime=1"],
        ["-Dzookeeper.flushDelay=3600000", "-Dzookeeper.maxBatchSize=1"],
    ] {
        let running = Running::new(&settings);
        running.client().create("/n", b"").unwrap();
    }
    let running = Running::new(&["-Dzookeeper.flushDelay=30"]);
    running.client().create("/n", b"").unwrap();
    let waited = running.metric("max_sync_processor_queue_and_flush_time_ms").unwrap();
    // The server waits for a third of the delay for the next request.
    assert!(waited >= 9.0, "{waited}");
}

#[test]
fn a_batch_of_the_log_is_bounded() {
    let running = Running::new(&["-Dzookeeper.flushDelay=20", "-Dzookeeper.maxBatchSize=1"]);
    let mut client = running.client();
    client.create("/n", b"").unwrap();
    for _ in 0..50 {
        client.ping();
        client.set("/n", b"").unwrap();
    }
    assert_eq!(running.metric("max_sync_processor_batch_size"), Some(1.0));
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let running = Running::new(&[]);
    let mut client = running.client();
    let path = running.files().parent().unwrap().to_owned();
    let refusal = Running::refusal(&path, &[]);
    assert!(refusal.contains("another server is using this directory"), "{refusal}");
    // A log directory alone is not enough either.
    let elsewhere = tempfile::tempdir().unwrap();
    let log_dir = format!("dataLogDir={}", path.display());
    let refusal = Running::refusal(elsewhere.path(), &[&log_dir]);
    assert!(refusal.contains("another server"), "{refusal}");
    client.create("/still", b"").unwrap();
    let dir = running.stop();
    Running::on(dir.path(), &[]);
}

#[test]
fn a_failed_start_leaves_its_directory_free() {
    let three = Three::voters(&["-Dzookeeper.electionPortBindRetry=1"]);
    let [_, votes] = three.ports_of(1);
    // Threads of the server already run when it finds that another program uses this port.
    let _taken = TcpListener::bind(("127.0.0.1", votes)).unwrap();
    let (config, path) = three.config(1);
    for _ in 0..50 {
        let refusal = Server::start(config.clone(), Vec::new()).err();
        let lock = OsVfs.lock(&version_2(&path)).unwrap();
        assert!(lock.is_some(), "the directory is in use");
        let refusal = refusal.expect("the port is taken").in_full();
        assert!(refusal.contains("cannot listen for votes"), "{refusal}");
    }
}

#[test]
fn a_server_may_start_where_another_has_just_stopped() {
    let settings = ["snapCount=2"];
    let mut running = Running::new(&settings);
    let mut client = running.client();
    // Enough znodes that a snapshot takes longer than a stop.
    for n in 0..20_000 {
        client.post(op::CREATE, &create(&format!("/n{n}"), b"", OPEN, 0));
    }
    (0..20_000).for_each(|_| assert_eq!(client.reply().unwrap().err, 0));
    for round in 0..5 {
        client.set("/n0", b"").unwrap();
        client.set("/n0", b"").unwrap();
        client.set("/n0", b"").unwrap();
        running = running.restart(&settings);
        client = running.client();
        assert_eq!(client.get("/n0").unwrap().1.version, 3 * (round + 1));
        // The incomplete files of the last server are gone; this server completes its own.
        wait("nothing half written stays", || files(&running.files(), "tmp.").is_empty());
    }
}

#[test]
fn log_and_snapshots_may_be_apart() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let setting = format!("dataLogDir={}", log.display());
    let mut running = Running::on(&dir.path().join("data"), &[&setting]);
    running.client().create("/n", b"").unwrap();
    assert_eq!(files(&running.files(), "log."), [""; 0]);
    assert_eq!(files(&version_2(&log), "log.").len(), 1);
    assert!(running.word("dirs").contains("datadir_size: "));
    running.take().stop().unwrap();
    let running = Running::on(&dir.path().join("data"), &[&setting]);
    assert!(running.client().exists("/n"));
}

/// Changes one byte in the middle of the newest log.
fn damage(dir: &Path) -> String {
    let log = version_2(dir).join(files(&version_2(dir), "log.").pop().unwrap());
    let mut bytes = std::fs::read(&log).unwrap();
    let name = b"/n5";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at + 1] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    log.display().to_string()
}

#[test]
fn a_damaged_log_is_refused_and_loaded_only_when_told_so() {
    let dir = written(&[], 10);
    let log = damage(dir.path());
    let refusal = Running::refusal(dir.path(), &[]);
    assert!(refusal.contains(&log) && refusal.contains("acceptDamagedLog"), "{refusal}");
    let running = Running::on(dir.path(), &["zebu.acceptDamagedLog=true"]);
    let mut client = running.client();
    assert!(client.exists("/n4"), "what was in front of the damage is there");
    client.create("/after", b"").unwrap();
    drop(client);
    drop(running);
    let running = Running::on(dir.path(), &[]);
    assert!(running.client().exists("/after"), "and it goes on from there");
}

#[test]
fn logs_without_a_snapshot_are_believed_only_when_told_so() {
    let dir = written(&[], 3);
    // Our own logs prove that they are complete; logs of the original cannot.
    for kind in ["snapshot.", "durable."] {
        for name in files(&version_2(dir.path()), kind) {
            std::fs::remove_file(version_2(dir.path()).join(name)).unwrap();
        }
    }
    let refusal = Running::refusal(dir.path(), &[]);
    assert!(refusal.contains("no snapshot found, but there are logs"), "{refusal}");
    let running = Running::on(dir.path(), &["snapshot.trust.empty=true"]);
    assert!(running.client().exists("/n2"));
}

#[test]
fn nothing_is_created_where_that_is_forbidden() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let refusal = Running::refusal(&missing, &["datadir.autocreate=false"]);
    assert!(refusal.contains("data directory is not usable"), "{refusal}");
    assert!(!missing.exists());
    std::fs::create_dir_all(version_2(&missing)).unwrap();
    Running::on(&missing, &["datadir.autocreate=false"]);
}

#[test]
fn an_empty_directory_is_a_new_database_only_where_that_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = Running::refusal(dir.path(), &["db.autocreate=false"]);
    assert!(refusal.contains("initialize"), "{refusal}");
    std::fs::write(dir.path().join("initialize"), "").unwrap();
    Running::on(dir.path(), &["db.autocreate=false"]);
    assert!(!dir.path().join("initialize").exists(), "the permission is used up");
    Running::on(dir.path(), &["db.autocreate=false"]);
}

#[test]
fn old_files_are_purged_down_to_the_configured_number() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = || files(&version_2(dir.path()), "snapshot.").len();
    for start in 1..=7 {
        // Each start except the first has transactions to replay, and takes a snapshot while it
        // serves.
        let running = Running::on(dir.path(), &[]);
        wait("the snapshot of a start", || snapshots() == start);
        if start < 7 {
            let mut client = running.client();
            let _ = client.create("/n", b"");
            client.set("/n", b"").unwrap();
        }
    }
    let running =
        Running::on(dir.path(), &["autopurge.purgeInterval=1", "autopurge.snapRetainCount=4"]);
    wait("old snapshots are gone", || snapshots() == 4);
    drop(running);
    let running = Running::on(dir.path(), &["autopurge.purgeInterval=50ms"]);
    wait("it is repeated, with the default of three", || snapshots() == 3);
    assert_eq!(running.client().get("/n").unwrap().1.version, 6);
}

#[test]
fn a_snapshot_that_cannot_be_written_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = format!("dataLogDir={}", dir.path().join("log").display());
    let running = Running::on(&dir.path().join("data"), &[&log, "snapCount=20"]);
    let away = dir.path().join("away");
    std::fs::rename(running.files(), &away).unwrap();
    let mut client = running.client();
    client.create("/n", b"").unwrap();
    for _ in 0..50 {
        client.set("/n", b"x").unwrap();
    }
    running.wait_metric("snapshot_error_count", |n| n >= 1.0);
    std::fs::rename(&away, running.files()).unwrap();
    client.set("/n", b"y").unwrap();
}

/// One bit of a log's first record is changed.
pub fn rot(log: &Path) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(log).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 40).unwrap();
    file.write_all_at(&[byte[0] ^ 4], 40).unwrap();
}

#[test]
fn what_rots_while_a_server_runs_is_found_and_no_start_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["zebu.scrubInterval=50ms", "admin.enableServer=true", "admin.serverPort=0"];
    let mut running = Running::on(dir.path(), &settings);
    let mut client = running.client();
    client.create("/n", b"before").unwrap();
    let files = running.files();
    rot(&files.join("log.1"));
    running.wait_metric("scrub_damage_count", |n| n >= 1.0);
    let health = admin::get(running.admin_port(), "/health/live", "");
    assert_eq!(health.status(), "200");
    assert!(health.text().contains("log.1, offset 16: "), "{}", health.text());
    // A snapshot, and a log that begins after it.
    let zxids = |prefix: &str| {
        let names = std::fs::read_dir(&files).unwrap().map(|it| it.unwrap().file_name());
        let zxid = |name: std::ffi::OsString| {
            i64::from_str_radix(name.to_str()?.strip_prefix(prefix)?, 16).ok()
        };
        names.filter_map(zxid).max().unwrap()
    };
    wait("no start needs the damaged log", || {
        client.set("/n", b"after").unwrap();
        zxids("log.") > 1 && zxids("log.") <= zxids("snapshot.") + 1
    });
    client.close();
    running.take().stop().unwrap();
    drop(running);
    let running = Running::on(dir.path(), &[]);
    assert_eq!(running.client().get("/n").unwrap().0, b"after");
}

/// The priorities of this process's threads with this name, as for `nice`.
fn priorities(thread: &str) -> Vec<i64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let priorities = tasks.filter_map(|task| priority(&task.ok()?.path()));
    priorities.filter(|(name, _)| name == thread).map(|(_, priority)| priority).collect()
}

/// The name and the priority of a thread.
fn priority(task: &std::path::Path) -> Option<(String, i64)> {
    let stat = std::fs::read_to_string(task.join("stat")).ok()?;
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((name.to_owned(), fields.split_whitespace().nth(16)?.parse().ok()?))
}

#[test]
fn threads_that_read_files_again_let_those_of_clients_go_first() {
    let _running = Running::new(&["autopurge.purgeInterval=1"]);
    for name in ["zebu-scrub", "zebu-purge"] {
        wait(name, || {
            let found = priorities(name);
            !found.is_empty() && found.iter().all(|priority| *priority == 19)
        });
    }
    // Threads that serve clients have the priority of the process.
    let (_, own) = priority("/proc/thread-self".as_ref()).unwrap();
    assert!(priorities("zebu-log").iter().all(|priority| *priority == own));
}

#[test]
fn ttls_as_3_5_3_wrote_them_are_read_as_such_when_that_is_emulated() {
    // The highest bit, and the time behind it.
    let owner = i64::MIN | 1_000_000;
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(Arc::new(OsVfs), Options::new(dir.path())).unwrap();
    store.recover(&mut zebu_store::Nothing).unwrap();
    let (log, snapshots) = store.split();
    let mut writer = snapshots.begin(Zxid(1)).unwrap();
    writer.sessions(&[]);
    let none: &[(i64, Vec<zebu_proto::Acl>)] = &[];
    writer.acls(none);
    let open = -1;
    let stat = |ephemeral_owner| StatPersisted {
        ephemeral_owner,
        mtime: i64::MAX / 2,
        ..StatPersisted::default()
    };
    for (path, owner) in [("", 0), ("/then", owner)] {
        writer.node(path, Some(b""), open, &stat(owner));
    }
    writer.finish(None, None).unwrap();
    drop((log, snapshots));
    let settings = ["extendedTypesEnabled=true", "emulate353TTLNodes=true"];
    let running = Running::on(dir.path(), &settings);
    assert!(running.client().exists("/then"));
    drop(running);
    // Otherwise it is an ephemeral of a session that does not exist.
    let running = Running::on(dir.path(), &settings[..1]);
    assert!(!running.client().exists("/then"));
}
