//! The audit log: a line for each change and for each refused client, in the original's format.
//!
//! The expected lines are those of the original's guide to audit logs, and of
//! `docs/protocol/admin.md`, section 8.

use std::fs;
use std::path::Path;

use zebu_testkit::wire::{OPEN, Writer, create, err, multi, op, set_data};

use crate::client::Client;
use crate::running::{Running, wait};

/// The lines without their time, with tabs shown as blanks.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let (head, fields) = line.split_once(": ").unwrap();
        assert!(head.ends_with(" audit.Slf4jAuditLogger"), "{line}");
        let level = if fields.ends_with("\tresult=failure") { "ERROR" } else { "INFO" };
        assert_eq!(head.split(' ').nth(2), Some(level), "{line}");
        fields.replace('\t', " ")
    };
    text.lines().map(line).collect()
}

fn session(client: &Client) -> String {
    format!("session=0x{:x}", client.session)
}

fn path(path: &str) -> Writer {
    Writer::new().string(path)
}

#[test]
fn every_change_is_told_with_its_user_and_its_result() {
    let dir = tempfile::tempdir().unwrap();
    let log = format!("zookeeper.log.dir={}", dir.path().display());
    let log = format!("-D{log}");
    let settings = ["audit.enable=true", &log, "extendedTypesEnabled=true"];
    let running = Running::new(&settings);
    let mut client = running.client();
    let session = session(&client);
    client.create("/a", b"").unwrap();
    assert_eq!(client.create("/a", b""), Err(err::NODE_EXISTS));
    assert_eq!(client.auth("digest", "amy:secret").unwrap().err, err::OK);
    client.create_with("/a/s-", b"", OPEN, 2).unwrap();
    client.ephemeral("/e");
    let forged = "/f\tresult=success\n\\";
    client.create(forged, b"").unwrap_err();
    client.set("/a", b"1").unwrap();
    assert_eq!(client.set("/none", b"1"), Err(err::NO_NODE));
    let acl = [(31, "auth", ""), (1, "digest", "bob:hashofthepassword")];
    assert_eq!(client.call(op::SET_ACL, &path("/a").acl(&acl).int(-1)).err, err::OK);
    let ttl = create("/ttl", b"", OPEN, 5).long(60_000);
    assert_eq!(client.call(op::CREATE_TTL, &ttl).err, err::OK);
    let ops = [
        (op::CHECK, path("/a").int(-1)),
        (op::CREATE, create("/m-", b"", OPEN, 2)),
        (op::SET_DATA, set_data("/ttl", b"x")),
        (op::DELETE, path("/ttl").int(-1)),
    ];
    assert_eq!(client.call(op::MULTI, &multi(&ops)).err, err::OK);
    client.call(op::MULTI, &multi(&[(op::CHECK, path("/none").int(0))]));
    client.get("/a").unwrap();
    client.delete("/a/s-0000000000").unwrap();
    client.close();
    let server = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
    let server = String::from_utf8(server).unwrap().trim().to_owned();
    running.stop();
    let by = format!("{session} user=127.0.0.1 ip=127.0.0.1");
    let amy = format!("{session} user=127.0.0.1,amy ip=127.0.0.1");
    let expected = [
        format!("user={server} operation=serverStart result=success"),
        format!("{by} operation=create znode=/a znode_type=persistent result=success"),
        format!("{by} operation=create znode=/a znode_type=persistent result=failure"),
        format!(
            "{amy} operation=create znode=/a/s-0000000000 znode_type=persistent_sequential result=success"
        ),
        format!("{amy} operation=create znode=/e znode_type=ephemeral result=success"),
        format!(
            r"{amy} operation=create znode=/f\tresult=success\n\\ znode_type=persistent result=failure"
        ),
        format!("{amy} operation=setData znode=/a result=success"),
        format!("{amy} operation=setData znode=/none result=failure"),
        format!("{amy} operation=setAcl znode=/a acl=auth::cdrwa,digest:bob:r result=success"),
        format!("{amy} operation=create znode=/ttl znode_type=persistent_with_ttl result=success"),
        format!(
            "{amy} operation=create znode=/m-0000000003 znode_type=persistent_sequential result=success"
        ),
        format!("{amy} operation=setData znode=/ttl result=success"),
        format!("{amy} operation=delete znode=/ttl result=success"),
        format!("{amy} operation=multiOperation result=failure"),
        format!("{amy} operation=delete znode=/a/s-0000000000 result=success"),
        format!(
            "{session} user={server} operation=ephemeralZNodeDeletionOnSessionCloseOrExpire znode=/e result=success"
        ),
        format!("user={server} operation=serverStop result=invoked"),
    ];
    let lines = lines(&dir.path().join("zookeeper_audit.log"));
    for (number, (line, expected)) in lines.iter().zip(&expected).enumerate() {
        assert_eq!(line, expected, "line {number} of {lines:#?}");
    }
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
}

#[test]
fn whoever_is_turned_away_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit");
    let log = format!("-Dzookeeper.auditlog.file={}", file.display());
    let running = Running::new(&["audit.enable=true", &log, "zebu.maxConnectionsPerIdentity=1"]);
    let mut client = running.client();
    assert_eq!(client.auth("nothing", "x").map(|reply| reply.err), Some(err::AUTH_FAILED));
    let failed = format!(
        "{} user=127.0.0.1 ip=127.0.0.1 operation=authentication scheme=nothing reason=",
        session(&client)
    );
    let mut amy = running.client();
    assert_eq!(amy.auth("digest", "amy:secret").unwrap().err, err::OK);
    assert!(running.client().auth("digest", "amy:secret").is_none());
    wait("the lines are there", || lines(&file).len() >= 3);
    let lines = lines(&file);
    assert!(lines[1].starts_with(&failed) && lines[1].ends_with(" result=failure"), "{lines:?}");
    assert_eq!(
        lines[2],
        "user=127.0.0.1 ip=127.0.0.1 operation=connection \
         reason=zebu.maxConnectionsPerIdentity=1, digest:\"amy\" result=failure"
    );
    assert!(!lines.concat().contains("secret"), "{lines:?}");
}

#[test]
fn a_log_that_cannot_be_opened_is_refused_with_its_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let log = "-Dzookeeper.log.dir=/does/not/exist";
    let refusal = Running::refusal(dir.path(), &["audit.enable=true", log]);
    assert!(
        refusal.starts_with("/does/not/exist/zookeeper_audit.log: the audit log cannot be opened"),
        "{refusal}"
    );
    assert!(refusal.contains("hint: zookeeper.log.dir"), "{refusal}");
}
