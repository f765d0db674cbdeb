//! Requests of the console use the session of the user who has signed in.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use zebu_jute::Encoder;
use zebu_proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use zebu_proto::{OpCode, SessionId, Zxid};
use zebu_store::log::{encode_record, header};
use zebu_testkit::connection::PATIENCE;
use zebu_testkit::wire::{Writer, op};

use crate::admin::get;

use crate::running::{Running, wait};

fn console(settings: &[&str]) -> Running {
    let own = ["admin.enableServer=true", "admin.serverPort=0", "admin.console=true"];
    Running::new(&[&own, settings].concat())
}

/// Status and body.
type Answer = (u16, String);

fn send(port: u16, method: &str, path: &str, token: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} /console/api/{path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         X-Zebu-Token: {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Signs in and returns the token.
fn sign_in(port: u16, scheme: &str, credentials: &str) -> String {
    let body = format!("{{\"scheme\":\"{scheme}\",\"credentials\":\"{credentials}\"}}");
    let (status, answer) = send(port, "POST", "sign-in", "", &body);
    assert_eq!(status, 200, "{answer}");
    text(&answer, "token")
}

/// A text in an answer.
fn text(answer: &str, key: &str) -> String {
    let (_, rest) = answer.split_once(&format!("\"{key}\":\"")).expect(key);
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn there_is_no_console_unless_somebody_wants_it() {
    let running = Running::new(&["admin.enableServer=true", "admin.serverPort=0"]);
    assert_eq!(get(running.admin_port(), "/console/", "Host: localhost\r\n").status(), "404");
    let running = console(&[]);
    assert_eq!(get(running.admin_port(), "/console/", "Host: localhost\r\n").status(), "200");
}

#[test]
fn acls_hold_in_the_console() {
    let running = console(&[]);
    let port = running.admin_port();
    let owner = sign_in(port, "digest", "owner:pw");
    let other = sign_in(port, "digest", "other:pw");
    let create = "{\"path\":\"/own\",\"data\":\"aGVsbG8=\",\"mode\":\"persistent\",\
                  \"acl\":[{\"perms\":\"cdrwa\",\"scheme\":\"auth\",\"id\":\"\"}]}";
    assert_eq!(send(port, "POST", "create", &owner, create), (200, "{\"path\":\"/own\"}".into()));
    let (status, answer) = send(port, "GET", "znode?path=/own", &owner, "");
    assert_eq!((status, text(&answer, "data")), (200, "aGVsbG8=".to_owned()));
    let answer = send(port, "GET", "znode?path=/own", &other, "");
    assert_eq!(answer, (403, "{\"error\":\"NO_AUTH\"}".to_owned()));
    assert_eq!(send(port, "GET", "children?path=/own", &owner, "").0, 200);
    assert_eq!(send(port, "GET", "children?path=/own", &other, "").0, 403);
    let set = |token: &str, version: i32| {
        let body = format!("{{\"path\":\"/own\",\"data\":\"\",\"version\":{version}}}");
        send(port, "POST", "set", token, &body)
    };
    assert_eq!(set(&other, 0), (403, "{\"error\":\"NO_AUTH\"}".to_owned()));
    assert_eq!(set(&owner, 7), (409, "{\"error\":\"BAD_VERSION\"}".to_owned()));
    assert_eq!(set(&owner, 0).0, 200);
    let delete = "{\"path\":\"/own\",\"version\":1}";
    assert_eq!(send(port, "POST", "delete", &owner, delete).0, 200);
    assert_eq!(send(port, "GET", "znode?path=/own", &owner, "").0, 404);
}

#[test]
fn children_come_in_pages_also_while_they_change() {
    let running = console(&[]);
    let port = running.admin_port();
    let mut client = running.client();
    client.create("/many", b"").unwrap();
    for number in 0..25 {
        client.create(&format!("/many/n{number:02}"), b"").unwrap();
    }
    let token = sign_in(port, "", "");
    let page = |arguments: &str| {
        let (status, answer) =
            send(port, "GET", &format!("children?path=/many&{arguments}"), &token, "");
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let first = page("most=10");
    assert_eq!((first.matches("\"name\"").count(), &*text(&first, "next")), (10, "n09"));
    let second = page("most=10&after=n09");
    assert!(second.contains("\"n10\"") && text(&second, "next") == "n19", "{second}");
    let last = page("most=10&after=n19");
    assert!(last.matches("\"name\"").count() == 5 && last.contains("\"next\":null"), "{last}");
    let found = page("prefix=n2");
    assert_eq!(found.matches("\"name\"").count(), 5);
    let delete = Writer::new().string("/many/n09").int(-1);
    assert_eq!(client.call(op::DELETE, &delete).err, 0);
    assert!(page("most=10&after=n09").contains("\"gone\":true"));
}

const MILLION: usize = 1_000_000;

/// Writes the log of a server that has created `/many` and a million children of it.
fn write_million(dir: &Path) {
    let mut log = header().to_vec();
    let mut body = Vec::new();
    for number in 0..=MILLION {
        let path = match number {
            0 => "/many".to_owned(),
            _ => format!("/many/n{:07}", number - 1),
        };
        let header = TxnHeader {
            session: SessionId(0x1_0000_0000),
            cxid: number as i32,
            zxid: Zxid(number as i64 + 1),
            time_ms: 1_700_000_000_000,
            op: OpCode::CREATE,
        };
        let txn = Txn::Create(CreateTxn {
            path: path.into(),
            data: Some(b"data"),
            acl: Vec::new(),
            ephemeral: false,
            parent_cversion: number as i32,
            ttl_ms: 0,
        });
        body.clear();
        TxnRecord { header, txn, digest: None }.encode(&mut Encoder::new(&mut body));
        encode_record(&body, &mut log);
    }
    fs::create_dir(dir.join("version-2")).unwrap();
    fs::write(dir.join("version-2/log.1"), log).unwrap();
}

#[test]
fn a_page_of_a_million_children_is_as_short_as_any_other() {
    // The maximum number of children that the server examines under one lock, and for one page.
    const LOOKED_AT: usize = 8_192;
    const PAGE: usize = 500;
    let dir = tempfile::tempdir().unwrap();
    write_million(dir.path());
    let own = ["admin.enableServer=true", "admin.serverPort=0", "admin.console=true"];
    // There is no snapshot: the log begins with the first transaction.
    let log_only = ["-Dzookeeper.snapshot.trust.empty=true"];
    let running = Running::on(dir.path(), &[&own[..], &log_only].concat());
    let port = running.admin_port();
    let token = sign_in(port, "", "");
    let page = |arguments: &str| {
        let path = format!("children?path=/many&{arguments}");
        let (status, answer) = send(port, "GET", &path, &token, "");
        assert_eq!(status, 200, "{answer}");
        let whole = answer.len();
        assert!(whole < 64 << 10, "{whole} bytes: {}", &answer[..200]);
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()
    };
    let next = |answer: &serde_json::Value| answer["next"].as_str().map(str::to_owned);
    let named = |number: usize| format!("n{number:07}");

    // Pages from the first child and from the middle examine at most this many children, whatever
    // the client asks for.
    for (after, first) in [("", 0), ("n0499999", 500_000)] {
        let answer = page(&format!("most={MILLION}&after={after}"));
        let children = answer["children"].as_array().unwrap();
        assert_eq!((children.len(), answer["total"].as_u64()), (PAGE, Some(MILLION as u64)));
        assert_eq!(children[0]["name"], named(first));
        assert_eq!(next(&answer), Some(named(first + PAGE - 1)));
    }

    // A search that finds nothing examines a part of the children for each answer. Other clients
    // have their turn in between.
    let mut client = running.client();
    let (mut pages, mut after, mut seen) = (0, String::new(), 0);
    loop {
        let answer = page(&format!("prefix=x&after={after}"));
        assert_eq!(answer["children"].as_array().unwrap().len(), 0);
        pages += 1;
        let Some(last) = next(&answer) else { break };
        let last_seen = last[1..].parse::<usize>().unwrap() + 1;
        assert_eq!(last_seen - seen, LOOKED_AT, "the server has examined others");
        (seen, after) = (last_seen, last);
        if pages % 40 == 0 {
            client.create(&format!("/between-{pages}"), b"").unwrap();
        }
    }
    assert_eq!(pages, MILLION.div_ceil(LOOKED_AT));

    // A search finds a znode with exactly that name at once, wherever it is.
    let answer = page("prefix=n0999999");
    assert_eq!(answer["exact"]["name"], "n0999999");
    assert_eq!(next(&answer), Some(named(LOOKED_AT - 1)));
    assert!(page("prefix=x")["exact"].is_null());
    assert!(page("prefix=n0999999&after=n0499999")["exact"].is_null(), "on the first page only");
}

#[test]
fn whoever_signs_out_has_no_session_any_more() {
    let running = console(&[]);
    let port = running.admin_port();
    let mut client = running.client();
    let token = sign_in(port, "digest", "me:pw");
    let session = text(&send(port, "GET", "me", &token, "").1, "session");
    let connections = || get(port, "/jmx/connections", "").text();
    let id = u64::from_str_radix(session.trim_start_matches("0x"), 16).unwrap();
    assert!(connections().contains(&format!("\"session_id\" : {id},")));
    assert_eq!(send(port, "POST", "sign-out", &token, "{}").0, 200);
    assert_eq!(send(port, "GET", "me", &token, "").0, 401);
    wait("the connection has gone", || !connections().contains(&id.to_string()));
    assert!(client.exists("/"));
    // When another user ends the session, its owner is signed out.
    let token = sign_in(port, "digest", "me:pw");
    let session = text(&send(port, "GET", "me", &token, "").1, "session");
    let end = format!("{{\"session\":\"{session}\",\"operation\":\"terminate_session\"}}");
    let other = sign_in(port, "", "");
    assert_eq!(send(port, "POST", "end", &other, &end).0, 200);
    wait("the session has ended", || send(port, "GET", "znode?path=/", &token, "").0 == 401);
}
