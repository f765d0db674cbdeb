//! The programs over recipes: locks, elections, queues, groups and so on, whose processes die.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use zebu_client::blocking::Client;
use zebu_client::{Acls, Connector, CreateMode, Version};

use crate::embedded::Server;
use crate::program::{Program, until};

/// A server with short session timeouts.
const QUICK: &[&str] = &["tickTime=200", "maxSessionTimeout=60000"];

fn server() -> (Server, String) {
    let server = Server::start(QUICK);
    let address = server.address().to_string();
    (server, address)
}

fn client(servers: &str) -> Client {
    Client::open(Connector::new().authenticate("digest", "amy:secret"), servers).unwrap()
}

/// The token in a line that ends with it.
fn token(line: &str) -> i64 {
    let digits = line.rsplit_once("0x").unwrap().1;
    i64::from_str_radix(digits, 16).unwrap()
}

/// SYS-35, RCP-01 to RCP-04: in order, one at a time. When a holder dies, only the next one in line
/// gets the lock.
#[test]
fn a_lock_goes_to_the_next_in_line_when_its_holder_dies() {
    let (_server, servers) = server();
    let lock = |words: &[&str]| Program::start("lock", &servers, &[words, &["/lock"]].concat());
    let first = lock(&[]);
    let one = token(&first.says("held, token "));
    let second = lock(&[]);
    let line = |count| {
        let printed = || Program::start("lock", &servers, &["--line", "/lock"]).succeed();
        until("enough are in line", || printed().len() == count);
    };
    line(2);
    let third = lock(&[]);
    line(3);
    let (status, lines) = lock(&["--no-wait"]).end();
    assert_eq!((status.code(), lines.last().map(String::as_str)), (Some(75), Some("not held")));
    // The second program ends first: that must not give the lock to the third.
    second.kill();
    line(2);
    assert_eq!(third.lines(), ["waiting"]);
    first.kill();
    let two = token(&third.says("held, token "));
    assert!(one < two);
    third.stop();
    line(0);
}

/// RCP-04: shared holders hold the lock together. An exclusive one waits for all of them, and later
/// shared ones wait for it.
#[test]
fn a_shared_lock_is_held_by_several() {
    let (_server, servers) = server();
    let lock = |words: &[&str]| Program::start("lock", &servers, &[words, &["/lock"]].concat());
    let (one, two) = (lock(&["--shared"]), lock(&["--shared"]));
    one.says("held");
    two.says("held");
    let alone = lock(&[]);
    let line = || Program::start("lock", &servers, &["--line", "/lock"]).succeed();
    until("somebody wants it alone", || line().len() == 3);
    assert!(line()[2].contains(" exclusive "));
    let later = lock(&["--shared"]);
    until("one more", || line().len() == 4);
    one.kill();
    until("one less", || line().len() == 3);
    assert_eq!((alone.lines(), later.lines()), (vec!["waiting".into()], vec!["waiting".into()]));
    two.stop();
    alone.says("held");
    assert_eq!(later.lines(), ["waiting"]);
    alone.stop();
    later.says("held");
}

/// When another program asks for the lock, the holder ends its command and releases the lock.
#[test]
fn a_lock_can_be_asked_back() {
    let (_server, servers) = server();
    let words = ["--yield-when-asked", "/lock", "--", "sleep", "1000"];
    let holder = Program::start("lock", &servers, &words);
    holder.says("held");
    let asked = Program::start("lock", &servers, &["--ask-back", "/lock"]).succeed();
    assert_eq!(asked, ["asked 1"]);
    let (status, lines) = holder.end();
    assert_eq!((status.code(), lines.last().map(String::as_str)), (Some(75), Some("given back")));
}

/// The server stops: the lock is no longer certain, so the program ends its command.
#[test]
fn a_command_ends_when_the_lock_is_not_certain_any_more() {
    let (mut server, servers) = server();
    let command = "echo token $LOCK_TOKEN; exec sleep 1000";
    let holder = Program::start("lock", &servers, &["/lock", "--", "sh", "-c", command]);
    let (next, held) = holder.says_after(0, "held, token ");
    assert_eq!(token(&holder.says_after(next, "token ").1), token(&held));
    server.stop();
    let (status, _) = holder.end();
    assert_eq!(status.code(), Some(1));
}

/// RCP-16, RCP-17, PAI-21: a leader is paused, another one is elected and writes, and the first one
/// continues to write: the resource refuses it.
#[test]
fn a_resource_refuses_a_leader_of_yesterday() {
    let (_server, servers) = server();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal");
    let file = file.to_str().unwrap();
    let start = || Program::plain("resource", &["--listen", "127.0.0.1:0", "--file", file]);
    let resource = start();
    let address = resource.says("listening on ").split_off("listening on ".len());
    let candidate = |name, words: &[&str]| {
        let words = [&["--name", name, "--resource", &address], words].concat();
        Program::start("election", &servers, &words)
    };
    let first = candidate("a", &["--careless"]);
    let one = token(&first.says("leading, token "));
    let has = |text: &str| fs::read_to_string(file).unwrap().contains(text);
    until("it has written", || has("a 3\n"));
    let second = candidate("b", &[]);
    second.says("a leads");
    first.pause();
    let two = token(&second.says("leading, token "));
    assert!(one < two);
    until("the other has written", || has("b 3\n"));
    first.go_on();
    assert_eq!(token(&first.says("refused")), two);
    second.kill();
    let (_, line) = first.says_after(first.count(), "leading, token ");
    let three = token(&line);
    until("it writes again", || has(&format!("{three} a 0\n")));
    first.stop();
    // The resource remembers the token even after it was killed.
    resource.kill();
    let resource = start();
    let newest = resource.says("newest token ").split_off("newest token ".len());
    assert!(two < three);
    assert_eq!(newest, three.to_string());
    let tokens: Vec<i64> = fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(tokens.is_sorted());
}

/// RCP-19: if the resource elects the leader by its own lock, the holder of the lock leads,
/// whatever happens to its session. Other programs can look up the leader.
#[test]
fn who_has_locked_the_file_leads() {
    let (_server, servers) = server();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger").display().to_string();
    let write = |name| Program::start("ledger", &servers, &["write", &file, "--name", name]);
    let who = Program::start("ledger", &servers, &["who"]);
    let (told, _) = who.says_after(0, "nobody says that it leads");
    let first = write("a");
    first.says("leading, term 1");
    let (told, _) = who.says_after(told, "a leads, term 1");
    let second = write("b");
    second.says("waiting");
    first.pause();
    let (told, _) = who.says_after(told, "nobody says that it leads");
    let before = first.count();
    let written = fs::read_to_string(&file).unwrap();
    first.go_on();
    let (before, _) = first.says_after(before, "session over");
    first.says_after(before, "announced");
    let (told, _) = who.says_after(told, "a leads, term 1");
    until("it writes on", || fs::read_to_string(&file).unwrap().len() > written.len());
    assert_eq!(second.lines(), ["waiting"]);
    first.kill();
    second.says("leading, term 2");
    who.says_after(told, "b leads, term 2");
    second.stop();
    who.stop();
    let terms: Vec<u64> = fs::read_to_string(&file)
        .unwrap()
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(terms.is_sorted());
    assert_eq!(terms.last(), Some(&2));
}

/// RCP-05, RCP-18, SYS-35: a leader that follows its session's state stops by itself. When a leader
/// ends cleanly, a new one is elected at once.
#[test]
fn a_leader_steps_down() {
    let (_server, servers) = server();
    let candidate = |name| Program::start("election", &servers, &["--name", name]);
    let first = candidate("a");
    first.says("leading, token ");
    let second = candidate("b");
    second.says("a leads");
    first.pause();
    second.says("leading, token ");
    let before = first.count();
    first.go_on();
    first.says_after(before, "b leads");
    second.stop();
    first.says_after(before, "leading, token ");
}

/// A web site: page N links to 2N and 2N+1, up to 31. Counts the fetches of each page.
struct Site {
    address: SocketAddr,
    fetched: std::sync::Arc<std::sync::Mutex<Vec<u32>>>,
}

impl Site {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let fetched = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let counts = fetched.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 1000];
                let count = stream.read(&mut request).unwrap_or(0);
                let text = String::from_utf8_lossy(&request[..count]).into_owned();
                let page = text.strip_prefix("GET /").and_then(|rest| rest.split(' ').next());
                let Some(page) = page.and_then(|page| page.parse::<u32>().ok()) else { continue };
                counts.lock().unwrap().push(page);
                let links: String = [2 * page, 2 * page + 1, 1]
                    .iter()
                    .filter(|link| **link < 32)
                    .map(|link| format!("<a href=\"/{link}\">"))
                    .collect();
                let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{links}").as_bytes());
            }
        });
        Self { address, fetched }
    }
}

/// SYS-34, SYS-36, RCP-09 to RCP-15, FUT-16, PAI-63, SYS-37: every page is read, even if crawlers
/// die in the middle of one. A page that was read is not read again.
#[test]
fn crawlers_die_and_every_page_is_read() {
    let (_server, servers) = server();
    let site = Site::start();
    let start = |words: &[&str]| Program::start("crawler", &servers, words);
    let root = format!("http://{}/1", site.address);
    assert_eq!(start(&["add", &root]).succeed(), [format!("{root} is new")]);
    assert_eq!(start(&["add", &root]).succeed(), [format!("{root} is known")]);
    // This crawler dies while it has a page: it pauses before it reads, for longer than the test
    // takes.
    let dying = start(&["work", "--pause-ms", "1000000"]);
    dying.says("fetching");
    let worker = || start(&["work", "--until-done"]);
    let (one, two) = (worker(), worker());
    // Another crawler, which dies at some point.
    let third = start(&["work", "--pause-ms", "30"]);
    let others = client(&servers);
    until("all are in line", || others.get_children("/crawler/queue/line").unwrap().0.len() == 3);
    dying.kill();
    third.says("fetching");
    third.kill();
    one.succeed();
    two.succeed();
    let shown = start(&["show"]).succeed();
    assert_eq!(shown.len(), 31, "{shown:#?}");
    assert!(shown.iter().all(|line| line.ends_with(": status 200")), "{shown:#?}");
    // Only the pages that the third crawler had taken may have been fetched twice.
    let fetched = site.fetched.lock().unwrap().len();
    assert!((31..=32).contains(&fetched), "{fetched}");
    assert_eq!(others.get_children("/crawler/queue/taken").unwrap().0, [""; 0]);
}

/// RCP-06: watchers see members that join, members that die, and members that return under the same
/// name.
#[test]
fn a_group_knows_its_members() {
    let (_server, servers) = server();
    let group = |words: &[&str]| Program::start("group", &servers, words);
    let watcher = group(&["watch"]);
    watcher.says("members: ");
    let one = group(&["join", "one", "--info", "10.0.0.1"]);
    watcher.says("one has come: 10.0.0.1");
    let two = group(&["join", "two"]);
    watcher.says("members: one two");
    let seen = watcher.count();
    one.kill();
    // It returns at once, before the session of the old member has expired.
    let again = group(&["join", "one"]);
    // The watcher may already see the new member when it looks for the old one.
    again.says("joined");
    two.stop();
    watcher.says("two has gone");
    // A paused member returns.
    let before = again.count();
    again.pause();
    let (seen, _) = watcher.says_after(seen, "members: one");
    watcher.says_after(seen, "one has gone");
    again.go_on();
    again.says_after(before, "joined");
    watcher.says_after(seen, "one has come");
}

/// RCP-21, MUL-13, RCP-07, RCP-20: readers see changes completely; a reader that was away sees the
/// present settings.
#[test]
fn settings_change_together() {
    let (mut server, servers) = server();
    let config = |words: &[&str]| Program::start("config", &servers, words);
    let watcher = config(&["watch"]);
    watcher.says("version 0:");
    assert_eq!(config(&["set", "host=db1", "port=1"]).succeed(), ["version 1"]);
    watcher.says("version 1: host=db1 port=1");
    config(&["hold"]).succeed();
    // As another tool would do it.
    let other = client(&servers);
    other.set_data("/config/host", "db2", Version::ANY).unwrap();
    other.set_data("/config/port", "2", Version::ANY).unwrap();
    let held = watcher.count();
    config(&["release"]).succeed();
    watcher.says_after(held, "version 1: host=db2 port=2");
    watcher.pause();
    server.stop();
    server.launch(QUICK);
    assert_eq!(config(&["set", "host=db3", "port="]).succeed(), ["version 2"]);
    watcher.go_on();
    watcher.says("version 2: host=db3");
    for line in watcher.lines() {
        assert!(!line.contains("host=db1 port=2") && !line.contains("host=db2 port=1"), "{line}");
    }
}

/// RCP-08: all processes begin and end together, although one dies before it enters and one dies
/// inside.
#[test]
fn a_barrier_does_not_wait_for_the_dead() {
    let (_server, servers) = server();
    let member = |name, words: &[&str]| {
        let words = [&["--size", "3", "--name", name], words].concat();
        Program::start("barrier", &servers, &words)
    };
    let others = client(&servers);
    let inside = || others.get_children("/barrier").map(|(names, _)| names).unwrap_or_default();
    let (a, dying) = (member("a", &["--rounds", "2"]), member("dying", &[]));
    until("two are waiting", || inside().len() == 2);
    dying.kill();
    until("one is missed", || inside() == ["a"]);
    let b = member("b", &["--rounds", "2"]);
    until("two are waiting again", || inside().len() == 2);
    assert_eq!(
        (a.lines(), b.lines()),
        (vec!["waiting for round 1".into()], vec!["waiting for round 1".into()])
    );
    let lazy = member("lazy", &["--work-ms", "1000000"]);
    lazy.says("in round 1");
    a.says("done with round 1");
    b.says("done with round 1");
    until("one has left, and one waits for the lazy one", || inside().len() == 3);
    assert!(![a.lines(), b.lines()].concat().iter().any(|line| line.contains("out of")));
    lazy.kill();
    // The next round needs three processes again.
    a.says("waiting for round 2");
    b.says("waiting for round 2");
    until("two are waiting for round 2", || inside().len() == 2);
    member("c", &[]).succeed();
    a.succeed();
    b.succeed();
    assert_eq!(inside(), [""; 0]);
}

/// There is one decision, even if the proposer dies before the votes, or a participant dies before
/// it learns the decision.
#[test]
fn participants_agree_whoever_dies() {
    let (_server, servers) = server();
    let run = |words: &[&str]| Program::start("two_phase_commit", &servers, words);
    let a = run(&["participant", "a"]);
    let b = run(&["participant", "b"]);
    let proposer = run(&["propose", "t1", "--to", "a,b", "one"]);
    assert_eq!(proposer.succeed(), ["proposed", "Commit"]);
    a.says("t1: done");
    b.says("t1: done");
    // One participant is missing, and the proposer dies: the other participants do not wait for
    // ever.
    let proposer = run(&["propose", "t2", "--to", "a,c", "two"]);
    a.says("t2: two");
    proposer.kill();
    a.says("t2: not done");
    // A participant that comes later finds the decision, although it would have voted yes.
    let c = run(&["participant", "c"]);
    c.says("t2: not done");
    // A participant dies after its vote. The others decide, and it carries out the decision when it
    // returns.
    let never = run(&["participant", "d", "--vote", "never"]);
    let proposer = run(&["propose", "t3", "--to", "a,d", "three"]);
    a.says("t3: three");
    never.says("t3: three");
    let others = client(&servers);
    until("a has voted", || others.exists("/agreements/t3/votes/a").unwrap().is_some());
    a.kill();
    never.kill();
    let d = run(&["participant", "d"]);
    d.says("t3: done");
    assert_eq!(proposer.succeed(), ["proposed", "Commit"]);
    let a = run(&["participant", "a"]);
    a.says("t3: done");
    // One participant votes no.
    let no = run(&["participant", "e", "--vote", "no"]);
    no.says("e is ready");
    let proposer = run(&["propose", "t4", "--to", "a,e", "four"]);
    assert_eq!(proposer.succeed(), ["proposed", "Abort"]);
    a.says("t4: not done");
}

/// Rendezvous: a program that looks for a name waits until it is offered. The offering program
/// dies, and another one replaces it.
#[test]
fn names_are_found_when_they_are_there() {
    let (_server, servers) = server();
    let names = |words: &[&str]| Program::start("names", &servers, words);
    let (status, _) = names(&["find", "db"]).end();
    assert_eq!(status.code(), Some(1));
    let (waiting, follower) =
        (names(&["find", "db", "--wait"]), names(&["find", "db", "--follow"]));
    follower.says("nobody offers it");
    let one = names(&["offer", "db", "10.0.0.1:1"]);
    assert_eq!(waiting.succeed(), ["10.0.0.1:1"]);
    let two = names(&["offer", "db", "10.0.0.2:1"]);
    two.says("waiting: somebody else offers it");
    one.kill();
    two.says("offered");
    follower.says("10.0.0.2:1");
    assert_eq!(names(&["offer", "log", "10.0.0.3:1", "--for-ever"]).succeed(), ["offered"]);
    assert_eq!(names(&["find", "log"]).succeed(), ["10.0.0.3:1"]);
}

/// Many programs take numbers at the same time and are killed: no number is given to two of them.
#[test]
fn numbers_are_given_out_once() {
    let (_server, servers) = server();
    let ids = |words: &[&str]| Program::start("ids", &servers, words);
    let dying = ids(&["--count", "100000000", "--at-a-time", "1"]);
    dying.says("5");
    let others: Vec<Program> =
        (0..3).map(|_| ids(&["--count", "200", "--at-a-time", "7"])).collect();
    let mut all: Vec<String> = others.into_iter().flat_map(Program::succeed).collect();
    all.extend(dying.lines());
    dying.kill();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
    assert!(count > 600);
}

/// Znodes of other programs are refused, not trusted.
#[test]
fn what_is_no_counter_is_refused() {
    let (_server, servers) = server();
    let other = client(&servers);
    for (path, data) in [("/counters", ""), ("/counters/ids", "many")] {
        other.create(path, data, CreateMode::Persistent, &Acls::creator()).unwrap();
    }
    let (status, _) = Program::start("ids", &servers, &[]).end();
    assert_eq!(status.code(), Some(1));
}
