//! Data directories exchanged between the servers: written by Zebu and read by the original, and
//! the reverse.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use zebu_interop::deps::{self, repository};
use zebu_interop::dump;
use zebu_interop::raw::Session;
use zebu_interop::run;
use zebu_interop::scenario::{compare, subject};
use zebu_interop::server::{Kind, Options, PATIENCE, Server, free_port};
use zebu_testkit::wire::{Writer, op, open_acl};

/// Sessions must outlive the tests, and no event may happen on its own.
fn options() -> Options {
    let options = Options::default()
        .config("extendedTypesEnabled", true)
        .config("maxSessionTimeout", 7_200_000)
        .property("znode.container.checkIntervalMs", 1_000_000_000);
    dump::with_super(options)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        } else {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// All data of a directory that survive a restart, as the server shows them.
fn contents(server: &Server) -> Result<String> {
    let mut text = dump::sessions(server)?;
    text.push_str(&dump::tree(server.address())?);
    Ok(text)
}

fn assert_no_mismatch(server: &Server) -> Result<()> {
    let mismatches = server.monitor("zk_digest_mismatches_count")?;
    assert_eq!(mismatches, "0", "{:?} computes other digests\n{}", server.kind(), server.log());
    Ok(())
}

/// Fills a server with znodes of all kinds, quotas, ACLs, failed requests and deleted znodes, and
/// two open sessions. `tag` distinguishes repeated calls.
///
/// `create2`: the opcode of creates within a multi besides `create`. 3.8.0 does not apply a create
/// that later servers log as create2.
fn write(server: &Server, tag: &str, create2: i32) -> Result<()> {
    let mut session = Session::open(server.address(), 3_600_000)?;
    session.auth("digest", "user:secret")?;
    let root = format!("/{tag}");
    session.create(&root, b"root", 0)?;
    for (flags, name) in [(0, "plain"), (1, "ephemeral"), (2, "seq-"), (3, "eseq-")] {
        session.create(&format!("{root}/{name}"), name.as_bytes(), flags)?;
        session.create(&format!("{root}/{name}2"), b"", flags)?;
    }
    let body = |path: &str, flags: i32| {
        Writer::new().string(path).optional_buffer(None).acl(&open_acl()).int(flags)
    };
    session.expect(op::CREATE_CONTAINER, body(&format!("{root}/container"), 4))?;
    session.create(&format!("{root}/container/child"), b"x", 0)?;
    let ttl = body(&format!("{root}/ttl"), 5).long(1 << 39);
    session.expect(op::CREATE_TTL, ttl)?;
    session.expect(op::CREATE_TTL, body(&format!("{root}/ttl-"), 6).long((1 << 40) - 1))?;
    session.create(&format!("{root}/ünïcode"), "\u{4e16}\u{754c}".as_bytes(), 0)?;
    session.create(&format!("{root}/large"), &vec![7; 300_000], 0)?;

    let acl = vec![
        (31, Some("auth".to_owned()), Some(String::new())),
        (1, Some("ip".to_owned()), Some("10.0.0.0/8".to_owned())),
    ];
    let private = format!("{root}/private");
    let request = Writer::new().string(&private).string("p").acl(&acl).int(0);
    session.expect(op::CREATE, request)?;
    let plain = format!("{root}/plain");
    session.expect(op::SET_ACL, Writer::new().string(&plain).acl(&acl).int(0))?;
    for version in 0..3 {
        let request = Writer::new().string(&plain).string("changed").int(version);
        session.expect(op::SET_DATA, request)?;
    }
    session.create(&format!("{root}/gone"), b"", 0)?;
    session.expect(op::DELETE, Writer::new().string(&format!("{root}/gone")).int(0))?;
    // The log also contains failures.
    session.call(op::DELETE, Writer::new().string("/none").int(-1))?;
    session.call(op::SET_DATA, Writer::new().string(&plain).string("x").int(99))?;

    let header = |op: i32| Writer::new().int(op).bool(false).int(-1);
    let end = Writer::new().int(-1).bool(true).int(-1).done();
    let multi = header(op::CREATE)
        .raw(&body(&format!("{root}/multi"), 0).done())
        .raw(&header(create2).raw(&body(&format!("{root}/multi/s-"), 2).done()).done())
        .raw(&header(op::SET_DATA).string(&plain).string("by multi").int(-1).done())
        .raw(&header(op::CHECK).string(&plain).int(4).done());
    session.expect(op::MULTI, multi.clone().raw(&end))?;
    session.expect(op::MULTI, multi.raw(&end))?;

    let quota = format!("/zookeeper/quota/{tag}");
    session.create(&quota, b"", 0)?;
    session.create(&format!("{quota}/zookeeper_limits"), b"count=100,bytes=1000000", 0)?;
    session.create(&format!("{quota}/zookeeper_stats"), b"count=0,bytes=0", 0)?;
    session.create(&format!("{root}/counted"), b"12345", 0)?;

    // One more session with an ephemeral, and one that is closed.
    let mut other = Session::open(server.address(), 2_400_000)?;
    other.create(&format!("{root}/other"), b"", 1)?;
    let mut ended = Session::open(server.address(), 10_000)?;
    ended.create(&format!("{root}/ended"), b"", 1)?;
    ended.close()
}

fn writes_and_reads(writer: Kind, reader: Kind, kill: bool) -> Result<()> {
    let options = if kill { options().config("forceSync", "yes") } else { options() };
    let with_old = [writer, reader].contains(&Kind::Java380);
    let create2 = if with_old { op::CREATE } else { op::CREATE2 };
    let mut first = Server::start(writer, &options)?;
    write(&first, "one", create2)?;
    // Forces a second log file and a snapshot.
    first.restart()?;
    write(&first, "two", create2)?;
    let before = contents(&first)?;
    assert_no_mismatch(&first)?;
    if kill {
        first.kill()?;
    } else {
        first.stop()?;
    }

    let mut second = Server::start_with(reader, &options, |data| copy(first.data(), data))?;
    compare("data-directory", &before, &contents(&second)?);
    assert_no_mismatch(&second)?;
    // The second server can continue, and the first one can read what the second one wrote.
    write(&second, "three", create2)?;
    let before = contents(&second)?;
    second.stop()?;
    let third = Server::start_with(writer, &options, |data| copy(second.data(), data))?;
    compare("data-directory-and-back", &before, &contents(&third)?);
    assert_no_mismatch(&third)
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_original_opens_ours_and_back() {
    writes_and_reads(subject(), Kind::Java395, false).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ours_opens_the_originals_and_back() {
    writes_and_reads(Kind::Java395, subject(), false).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ours_opens_debians_and_back() {
    writes_and_reads(Kind::Java380, subject(), false).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn debians_opens_ours_and_back() {
    writes_and_reads(subject(), Kind::Java380, false).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_original_opens_what_a_kill_left() {
    writes_and_reads(subject(), Kind::Java395, true).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ours_opens_what_a_kill_of_the_original_left() {
    writes_and_reads(Kind::Java395, subject(), true).unwrap();
}

/// Runs `zebu`, which must succeed.
fn zebu(words: &[&str]) -> Result<String> {
    let mut command = Command::new(deps::zebu());
    run::succeed(command.args(words), PATIENCE)
}

/// Starts a server with the restored data.
fn start_restored(kind: Kind, from: &Path, more: &[&str]) -> Result<Server> {
    Server::start_with(kind, &options(), |data| {
        // The directory of a prepared server already contains other files.
        let folder = tempfile::tempdir()?;
        let into = folder.path().join("restored");
        let (from, into_text) = (from.display().to_string(), into.display().to_string());
        zebu(&[&["restore", &from, "--into", &into_text], more].concat())?;
        copy(&into, data)
    })
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn both_open_what_was_restored_from_the_originals_files() {
    let basic = repository().join("tests/fixtures/zookeeper-3.8.0/basic/version-2");
    // Restores the complete backup, and a point in time without the last log.
    let cases: [(&[&str], &[&str]); 2] = [
        (&["snapshot.0", "log.1", "snapshot.3c", "log.3d"], &[]),
        (&["snapshot.0", "log.1"], &["--to", "0x3c"]),
    ];
    for (files, more) in cases {
        let whole = |data: &Path| {
            fs::create_dir_all(data.join("version-2"))?;
            for file in files {
                fs::copy(basic.join(file), data.join("version-2").join(file))?;
            }
            Ok(())
        };
        let expected = contents(&Server::start_with(Kind::Java395, &options(), whole).unwrap());
        let expected = expected.unwrap();
        for kind in [Kind::Java395, Kind::Java380, subject()] {
            let server = start_restored(kind, &basic, more).unwrap();
            compare("restored", &expected, &contents(&server).unwrap());
            assert_no_mismatch(&server).unwrap();
        }
    }
}

/// A backup of a running server, restored for the other kind of server.
fn backs_up_and_restores(writer: Kind, reader: Kind) -> Result<()> {
    let mut server = Server::start(writer, &options())?;
    let folder = tempfile::tempdir()?;
    let backup = folder.path().join("backup");
    let (data, to) = (server.data().display().to_string(), backup.display().to_string());
    write(&server, "one", op::CREATE2)?;
    zebu(&["backup", "create", "--dir", &data, "--to", &to])?;
    server.restart()?;
    write(&server, "two", op::CREATE2)?;
    let before = contents(&server)?;
    let made = zebu(&["backup", "create", "--dir", &data, "--to", &to])?;
    assert!(made.contains("backup 2 of directory"), "{made}");
    zebu(&["backup", "verify", &to, "--all"])?;
    server.stop()?;
    let second = start_restored(reader, &backup, &[])?;
    compare("backup-and-restore", &before, &contents(&second)?);
    assert_no_mismatch(&second)?;
    let first = start_restored(reader, &backup, &["--number", "1"])?;
    let text = dump::tree(first.address())?;
    assert!(text.contains("/one/plain") && !text.contains("/two"), "{text}");
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_original_opens_a_restored_backup_of_ours() {
    backs_up_and_restores(subject(), Kind::Java395).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ours_opens_a_restored_backup_of_the_original() {
    backs_up_and_restores(Kind::Java395, subject()).unwrap();
}

/// Restores one subtree of a live server from a backup of its own files.
fn restores_a_subtree(kind: Kind) -> Result<()> {
    let server = Server::start(kind, &options())?;
    let folder = tempfile::tempdir()?;
    let (backup, auth) = (folder.path().join("backup"), folder.path().join("auth"));
    fs::write(&auth, format!("digest {}\n", dump::SUPER))?;
    let [data, to, auth] = [server.data(), &backup, &auth].map(|path| path.display().to_string());
    // Path, data and ACL of each znode of the subtree.
    let these = |tree: &str| -> String {
        let lines = tree.lines().filter(|line| line.starts_with("/one"));
        let without_stat = |line: &str| line.split(" Stat ").next().unwrap_or_default().to_owned();
        lines.map(|line| without_stat(line) + "\n").collect()
    };
    // Everything of the others. The root counts its children, and servers write what they count.
    let others = |tree: &str| -> String {
        let is_other =
            |line: &&str| !["/one", "/ ", "/zookeeper"].iter().any(|it| line.starts_with(it));
        tree.lines().filter(is_other).flat_map(|line| [line, "\n"]).collect()
    };
    let look = || dump::tree(server.address());
    write(&server, "one", op::CREATE2)?;
    write(&server, "two", op::CREATE2)?;
    zebu(&["backup", "create", "--dir", &data, "--to", &to])?;
    let before = look()?;
    let mut session = Session::open(server.address(), 60_000)?;
    session.auth("digest", dump::SUPER)?;
    let set = |path: &str| Writer::new().string(path).string("other").int(-1);
    session.expect(op::SET_DATA, set("/one/plain"))?;
    session.expect(op::SET_DATA, set("/two"))?;
    session.expect(op::DELETE, Writer::new().string("/one/container/child").int(-1))?;
    session.expect(op::DELETE, Writer::new().string("/one/ünïcode").int(-1))?;
    session.expect(op::SET_ACL, Writer::new().string("/one/private").acl(&open_acl()).int(-1))?;
    session.create("/one/new", b"", 0)?;
    session.create("/one/new/child", b"", 0)?;
    let changed = look()?;
    assert!(these(&before) != these(&changed));

    let at = server.connect_string();
    let restore = ["restore", &to, "--subtree", "/one", "--into-server", &at, "--auth-file", &auth];
    let mut refused = Command::new(deps::zebu());
    let refused = run::run(refused.args(restore).arg("--apply"), PATIENCE)?;
    assert!(refused.text.contains("would be overwritten or deleted"), "{}", refused.text);
    let shown = zebu(&[&restore[..], &["--over"]].concat())?;
    assert!(shown.contains("6 changes, 4 of them overwrite or delete existing data"), "{shown}");
    assert!(shown.contains("change: /one/new/child: delete version 0\n"), "{shown}");
    assert!(shown.contains("left out, an ephemeral: /one/other\n"), "{shown}");
    compare("subtree-shown", &changed, &look()?);
    let done = zebu(&[&restore[..], &["--over", "--apply"]].concat())?;
    assert!(done.contains("6 changes made"), "{done}");
    let after = look()?;
    compare("subtree-restored", &these(&before), &these(&after));
    compare("beside-the-subtree", &others(&changed), &others(&after));
    let again = zebu(&[&restore[..], &["--apply"]].concat())?;
    assert!(again.contains("0 changes, 0 of them"), "{again}");
    session.close()
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_subtree_of_a_live_server_of_either_kind_is_restored() {
    restores_a_subtree(subject()).unwrap();
    restores_a_subtree(Kind::Java395).unwrap();
}

/// A snapshot downloaded from a server, restored for the other kind of server.
fn backs_up_over_http(writer: Kind, reader: Kind) -> Result<()> {
    let port = free_port();
    let options = options()
        .config("admin.enableServer", "true")
        .config("admin.serverAddress", "127.0.0.1")
        .config("admin.serverPort", port);
    let server = Server::start(writer, &options)?;
    write(&server, "one", op::CREATE2)?;
    let before = contents(&server)?;
    let folder = tempfile::tempdir()?;
    let (backup, auth) = (folder.path().join("backup"), folder.path().join("auth"));
    fs::write(&auth, "digest user:secret\n")?;
    let address = format!("http://127.0.0.1:{port}");
    let (to, auth) = (backup.display().to_string(), auth.display().to_string());
    zebu(&["backup", "create", "--server", &address, "--auth-file", &auth, "--to", &to])?;
    zebu(&["backup", "verify", &to])?;
    let restored = start_restored(reader, &backup, &[])?;
    compare("backup-over-http", &before, &contents(&restored)?);
    assert_no_mismatch(&restored)?;
    if writer != Kind::Zebu {
        return Ok(());
    }
    // Zebu sends its logs, so every transaction can be restored, and only what is new is sent.
    write(&server, "two", op::CREATE2)?;
    let after = contents(&server)?;
    let shipped = ["backup", "create", "--server", &address, "--auth-file", &auth, "--to", &to];
    let made = zebu(&[&shipped[..], &["--json"]].concat())?;
    let made: serde_json::Value = serde_json::from_str(&made)?;
    let copied: Vec<&str> =
        made["copied"].as_array().context("no list")?.iter().filter_map(|it| it.as_str()).collect();
    assert!(copied.len() == 1 && copied[0].starts_with("log."), "{made}");
    zebu(&["backup", "verify", &to, "--all"])?;
    let second = start_restored(reader, &backup, &[])?;
    compare("backup-of-shipped-logs", &after, &contents(&second)?);
    let last = made["last"].as_str().context("no last")?;
    let last = i64::from_str_radix(last.trim_start_matches("0x"), 16)?;
    let point = format!("{:#x}", last - 3);
    start_restored(reader, &backup, &["--to", &point])?;
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_snapshot_that_either_server_sends_is_restored_for_the_other() {
    backs_up_over_http(subject(), Kind::Java395).unwrap();
    backs_up_over_http(Kind::Java395, subject()).unwrap();
}

/// A reference directory below `tests/fixtures`, and the files beside it if it is incomplete.
fn golden(kind: Kind, folders: &[&str]) -> Result<String> {
    let fixtures = repository().join("tests/fixtures");
    let fill = |data: &Path| {
        for folder in folders {
            copy(&fixtures.join(folder), &data.join("version-2")).context(folder.to_string())?;
        }
        Ok(())
    };
    let mut server = Server::start_with(kind, &options(), fill)?;
    let first = contents(&server)?;
    assert_no_mismatch(&server)?;
    // The files that it wrote at its start can be read again.
    server.restart()?;
    let mut again = contents(&server)?;
    // Reading the tree needs a session, which uses two zxids but does not change the tree.
    if again == first {
        again.clear();
    }
    Ok(format!("{first}{again}"))
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn golden_directories_look_the_same() {
    let cases: [(&str, &[&str]); 11] = [
        ("basic", &["zookeeper-3.8.0/basic/version-2"]),
        ("basic-395", &["zookeeper-3.9.5/basic/version-2"]),
        ("gz", &["zookeeper-3.8.0/compressed-gz/version-2"]),
        ("snappy", &["zookeeper-3.8.0/compressed-snappy/version-2"]),
        ("digest-disabled", &["zookeeper-3.8.0/digest-disabled/version-2"]),
        (
            "torn-crc-only",
            &["zookeeper-3.8.0/basic/version-2", "zookeeper-3.8.0/torn/torn-crc-only"],
        ),
        (
            "torn-mid-record",
            &["zookeeper-3.8.0/basic/version-2", "zookeeper-3.8.0/torn/torn-mid-record-nopad"],
        ),
        (
            "torn-mid-record-padded",
            &["zookeeper-3.8.0/basic/version-2", "zookeeper-3.8.0/torn/torn-mid-record-zeropad"],
        ),
        ("torn-no-eor", &["zookeeper-3.8.0/basic/version-2", "zookeeper-3.8.0/torn/torn-no-eor"]),
        (
            "torn-no-eor-padded",
            &["zookeeper-3.8.0/basic/version-2", "zookeeper-3.8.0/torn/torn-no-eor-zeropad"],
        ),
        ("no-log", &["zookeeper-3.8.0/compressed-gz/version-2"]),
    ];
    for (name, folders) in cases {
        let java = golden(Kind::Java395, folders).with_context(|| name.to_owned()).unwrap();
        let ours = golden(subject(), folders).with_context(|| name.to_owned()).unwrap();
        compare(&format!("golden-{name}"), &java, &ours);
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn damage_is_refused() {
    // The original treats a truncated record within a file as the end of the file, and ignores the
    // rest.
    let cases: [(&str, &[Kind]); 3] = [
        ("crc-corrupt-last", &[Kind::Java395, subject()]),
        ("crc-corrupt-middle", &[Kind::Java395, subject()]),
        ("partial-middle-then-more", &[subject()]),
    ];
    for (case, kinds) in cases {
        for &kind in kinds {
            let fixtures = repository().join("tests/fixtures/zookeeper-3.8.0");
            let fill = |data: &Path| {
                copy(&fixtures.join("basic/version-2"), &data.join("version-2"))?;
                copy(&fixtures.join("torn").join(case), &data.join("version-2"))
            };
            let mut server = Server::prepare(kind, &options(), fill).unwrap();
            let status = server.expect_refusal().unwrap();
            assert!(!status.success(), "{case}: {kind:?} started\n{}", server.log());
        }
    }
}
