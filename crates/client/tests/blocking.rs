//! The blocking client has every operation of the asynchronous one.

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in"));
}

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_client::blocking::Client;
use zebu_client::{
    Acls, Connector, CreateMode, ErrorCode, EventKind, HostProvider, Outcome, Perms,
    Reconfiguration, Servers, SessionState, Version, WatchMode, WatcherType,
};

use embedded::Server;

/// Names that differ in the blocking client. The asynchronous client's connector describes how
/// sessions are opened.
const OPENERS: [(&str, &str); 5] = [
    ("connect", "connect"),
    ("open", "connect"),
    ("open_to", "connect_to"),
    ("start", "start"),
    ("start_with", "start_with"),
];

/// Methods that only wait, or that wait for requests which no client has sent.
const WAITING: [&str; 5] = ["asynchronous", "commit", "send", "wait", "wait_timeout"];

fn sources(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|it| it == "rs")).collect()
}

/// The public methods of one type in these files.
fn methods(files: &[PathBuf], of: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let mut is_inside = false;
        for line in text.lines() {
            if line == format!("impl {of} {{") {
                is_inside = true;
            } else if line == "}" {
                is_inside = false;
            }
            let function = line.strip_prefix("    pub fn ");
            let function = function.or_else(|| line.strip_prefix("    pub async fn "));
            if is_inside && let Some(function) = function {
                let end = function.find(['(', '<']).unwrap();
                found.insert(function[..end].to_owned());
            }
        }
    }
    found
}

fn blocking() -> BTreeSet<String> {
    let mut files = sources("src/blocking");
    files.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/blocking.rs"));
    methods(&files, "Client")
}

/// API-15.
#[test]
fn nothing_is_left_out() {
    let mut files = sources("src");
    files.retain(|file| !file.ends_with("blocking.rs"));
    let asynchronous = methods(&files, "Client");
    assert!(asynchronous.len() > 40, "{asynchronous:?}");
    let connector = methods(&files, "Connector");
    let blocking = blocking();
    let missing: Vec<_> = asynchronous.difference(&blocking).collect();
    assert!(missing.is_empty(), "the blocking client lacks {missing:?}");
    for (opener, of) in OPENERS {
        assert!(blocking.contains(opener) && connector.contains(of), "{opener} {of}");
    }
    let more: BTreeSet<&str> =
        blocking.iter().map(String::as_str).filter(|name| !asynchronous.contains(*name)).collect();
    let openers = OPENERS.map(|(opener, _)| opener);
    let known: BTreeSet<&str> = openers.into_iter().chain(WAITING).collect();
    assert!(more.is_subset(&known), "the asynchronous client lacks {more:?}");
}

/// Every method is called in this file.
#[test]
fn nothing_is_left_untried() {
    let this = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blocking.rs"));
    let this = this.unwrap();
    for method in blocking() {
        let is_called =
            [format!(".{method}("), format!("::{method}(")].iter().any(|call| this.contains(call));
        assert!(is_called, "{method}");
    }
}

/// A server whose client has authenticated as amy.
fn amy() -> (Server, Client) {
    let server = Server::start(&[]);
    let connector = Connector::new().authenticate("digest", "amy:secret");
    let client = Client::open(connector, &server.address().to_string()).unwrap();
    (server, client)
}

struct One(std::net::SocketAddr);

impl HostProvider for One {
    fn servers(&self) -> Servers<'_> {
        Box::pin(async { Ok(vec![self.0]) })
    }
}

/// API-10, API-12, API-25, SES-03.
#[test]
fn sessions_are_opened_looked_at_and_ended() {
    let (server, client) = amy();
    let address = server.address().to_string();
    assert_eq!(client.state(), SessionState::Connected);
    assert_eq!(client.server(), Some(server.address()));
    assert_eq!((client.chroot(), client.session_timeout()), ("/", Duration::from_secs(10)));
    assert_eq!(client.ticket().unwrap().id, client.session_id());
    assert_ne!(client.unique_name(), client.unique_name());
    assert!(client.ensemble().is_some());
    assert!(client.wall_clock() > std::time::UNIX_EPOCH);
    for other in [
        Client::connect(&address).unwrap(),
        Client::open_to(Connector::new(), One(server.address())).unwrap(),
        Client::start(Connector::new(), &address).unwrap(),
        Client::start_with(Connector::new(), One(server.address())).unwrap(),
    ] {
        other.connected().unwrap();
        assert_ne!(other.session_id(), client.session_id());
        let mut events = other.session_events();
        other.close().unwrap();
        assert_eq!(other.wait(events.next()), Some(SessionState::Closed));
        assert_eq!(other.close().unwrap_err().code(), ErrorCode::SESSION_EXPIRED);
    }
    let ticket = client.leave().unwrap();
    let again = Client::open(Connector::new().resume(ticket), &address).unwrap();
    assert_eq!(again.session_id(), ticket.id);
    // Dropping the last handle ends the session. A handle that does not own the session does not
    // count.
    let unowned = again.unowned();
    let (_, _, watch) = unowned.watch_data("/").unwrap();
    let shares = Connector::new().on_thread(again.thread());
    let observer = Client::open(shares, &address).unwrap();
    drop(again);
    observer.wait(watch).unwrap_err();
    assert!(unowned.state().is_over());
    unowned.session_in_doubt();
    assert_eq!(unowned.session_left(), Duration::ZERO);
    assert_eq!(unowned.metrics().pending(), 0);
    assert_eq!(unowned.trouble(), None);
}

/// API-01 to API-06, API-08.
#[test]
fn znodes_are_made_read_changed_and_removed() {
    let (_server, client) = amy();
    let acl = Acls::creator();
    let mode = CreateMode::Persistent;
    assert_eq!(client.create("/a", "1", mode, &acl).unwrap().path, "/a");
    assert_eq!(client.exists("/a").unwrap().unwrap().version, 0);
    assert_eq!(client.get_data("/a").unwrap().0, "1");
    assert_eq!(client.set_data("/a", "2", Version(0)).unwrap().version, 1);
    let outcome = client.after_lost_set_data("/a", "2", Version(0)).unwrap();
    assert!(matches!(outcome, Outcome::Happened(stat) if stat.version == 1));
    client.create_null("/null", mode, &acl).unwrap();
    assert_eq!(client.get_data_or_null("/null").unwrap().0, None);
    client.create_all("/a/b/c", &acl).unwrap();
    assert_eq!(client.get_children("/a").unwrap().0, ["b"]);
    assert_eq!(client.descendants("/a").unwrap(), ["/a", "/a/b", "/a/b/c"]);
    assert_eq!(client.count_descendants("/a").unwrap(), 2);
    let below = client.with_chroot("/a/b").unwrap();
    assert_eq!(below.get_children("/").unwrap().0, ["c"]);
    assert_eq!(client.delete_all("/a/b").unwrap(), 2);
    let held = client.create_protected("/e-", "", CreateMode::EphemeralSequential, &acl).unwrap();
    assert_eq!(client.ephemerals("/").unwrap(), [held.path.as_str()]);
    client.create("/mine", "me", CreateMode::Ephemeral, &acl).unwrap();
    let outcome = client.after_lost_create("/mine", "me", CreateMode::Ephemeral).unwrap();
    assert!(matches!(outcome, Outcome::Happened(created) if created.path == "/mine"));
    client.sync("/").unwrap();
    let read = client.send(client.reads().data("/a").children("/none")).unwrap();
    assert!(read.as_slice()[0].is_ok() && read.as_slice()[1].is_err());
    let mut transaction = client.transaction();
    transaction.check("/a", Version(1)).delete("/a", Version(1));
    assert_eq!(client.commit(transaction).unwrap().iter().count(), 2);
    assert_eq!(client.after_lost_delete("/a").unwrap(), Outcome::Happened(()));
    client.delete("/null", Version::ANY).unwrap();
    let series = client.series();
    series.create("/s", "", mode, &acl).unwrap();
    assert!(!series.is_broken());
    let pending = client.asynchronous().get_data("/s");
    client.wait(pending).unwrap();
}

/// API-24, WAT-02, WAT-04, WAT-07, WAT-09, WAT-10, WAT-12, WAT-24.
#[test]
fn watches_fire_and_go() {
    let (_server, client) = amy();
    let mut notifications = client.notifications();
    let (_, _, mut data) = client.watch_data("/").unwrap();
    let (_, _, null) = client.watch_data_or_null("/").unwrap();
    let (_, _, children) = client.watch_children("/").unwrap();
    let (_, appears) = client.watch_exists("/a").unwrap();
    let mut tree = client.watch("/", WatchMode::Recursive).unwrap();
    assert!(client.wait_timeout(Duration::from_millis(1), &mut data).is_none());
    client.create("/a", "", CreateMode::Persistent, &Acls::creator()).unwrap();
    client.set_data("/", "new", Version::ANY).unwrap();
    assert_eq!(client.wait(data).unwrap().kind, EventKind::DataChanged);
    assert_eq!(client.wait(null).unwrap().kind, EventKind::DataChanged);
    assert_eq!(client.wait(children).unwrap().kind, EventKind::ChildrenChanged);
    assert_eq!(client.wait(appears).unwrap().kind, EventKind::Created);
    client.wait(tree.next()).unwrap();
    client.wait(notifications.next()).unwrap();
    let (_, _, watch) = client.watch_data("/").unwrap();
    assert!(client.check_watches("/", WatcherType::Data).unwrap());
    client.remove_watches("/", WatcherType::Data).unwrap();
    assert_eq!(client.wait(watch).unwrap().kind, EventKind::WatchRemoved);
}

/// API-07, API-09.
#[test]
fn identities_and_the_ensemble_are_known() {
    let (server, client) = amy();
    let other = Client::connect(&server.address().to_string()).unwrap();
    let acl = Acls::creator();
    client.create("/a", "secret", CreateMode::Persistent, &acl).unwrap();
    assert_eq!(other.get_data("/a").unwrap_err().code(), ErrorCode::NO_AUTH);
    let acl = acl.and(Acls::user("dom", "pw", Perms::READ));
    client.set_acl("/a", &acl, Version(0)).unwrap();
    assert_eq!(client.get_acl("/a").unwrap().0.len(), 2);
    other.authenticate("digest", "dom:pw").unwrap();
    assert_eq!(other.get_data("/a").unwrap().0, "secret");
    assert!(other.who_am_i().unwrap().iter().any(|identity| identity.user == "dom"));
    assert!(client.get_config().unwrap().0.is_empty());
    let (_, _, _changed) = client.watch_config().unwrap();
    let change = Reconfiguration::Change { joining: &[], leaving: &["3"] };
    let error = client.reconfigure(change, None).unwrap_err();
    assert_eq!(error.code(), ErrorCode::RECONFIG_DISABLED);
}
