//! Watches: which events fire them, which watches are restored, and how they are removed.

use std::time::Duration;

use zebu_client::{
    Acls, Connector, CreateMode, Ending, ErrorKind, EventKind, Notice, SessionState, Signal,
    Version, WatchMode, WatcherType,
};

use crate::embedded::Server;
use crate::proxy::Proxy;
use crate::{QUICK, connect, reach, soon};

const TIMEOUT: Duration = Duration::from_secs(10);

/// SES-15, WAT-18, WAT-19: changes during a disconnection are reported, and other watches are set
/// again.
#[tokio::test]
async fn watches_survive_a_lost_connection() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let other = connect(server.address(), TIMEOUT).await;
    let client = connect(proxy.address, TIMEOUT).await;
    let acl = Acls::creator();
    for path in ["/changed", "/same", "/parent", "/quiet", "/gone"] {
        soon(other.create(path, "", CreateMode::Persistent, &acl)).await.unwrap();
    }
    let (_, _, changed) = soon(client.watch_data("/changed")).await.unwrap();
    let (_, _, mut same) = soon(client.watch_data("/same")).await.unwrap();
    let (_, _, children) = soon(client.watch_children("/parent")).await.unwrap();
    let (_, _, quiet) = soon(client.watch_children("/quiet")).await.unwrap();
    let (_, appears) = soon(client.watch_exists("/appears")).await.unwrap();
    let (_, later) = soon(client.watch_exists("/later")).await.unwrap();
    let (_, gone) = soon(client.watch_exists("/gone")).await.unwrap();
    let mut all = soon(client.watch("/", WatchMode::Recursive)).await.unwrap();

    let mut events = client.session_events();
    proxy.refuse();
    reach(&mut events, SessionState::Disconnected).await;
    soon(other.set_data("/changed", "1", Version::ANY)).await.unwrap();
    soon(other.create("/parent/a", "", CreateMode::Persistent, &acl)).await.unwrap();
    soon(other.create("/appears", "", CreateMode::Persistent, &acl)).await.unwrap();
    soon(other.delete("/gone", Version::ANY)).await.unwrap();
    proxy.heal();

    assert_eq!(soon(changed).await.unwrap().kind, EventKind::DataChanged);
    assert_eq!(soon(children).await.unwrap().kind, EventKind::ChildrenChanged);
    assert_eq!(soon(appears).await.unwrap().kind, EventKind::Created);
    assert_eq!(soon(gone).await.unwrap().kind, EventKind::Deleted);
    // A persistent watch cannot know which events it missed, and reports that.
    assert_eq!(soon(all.next()).await.unwrap(), Notice::Disconnected);
    assert_eq!(soon(all.next()).await.unwrap(), Notice::Missed);

    soon(client.sync("/")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut same).await.is_err());
    soon(other.set_data("/same", "1", Version::ANY)).await.unwrap();
    soon(other.create("/quiet/a", "", CreateMode::Persistent, &acl)).await.unwrap();
    soon(other.create("/later", "", CreateMode::Persistent, &acl)).await.unwrap();
    assert_eq!(soon(same).await.unwrap().kind, EventKind::DataChanged);
    assert_eq!(soon(quiet).await.unwrap().kind, EventKind::ChildrenChanged);
    assert_eq!(soon(later).await.unwrap().kind, EventKind::Created);
    // The persistent watch also receives events that one-shot watches have caught up with.
    let mut told = Vec::new();
    while told.last().is_none_or(|path| path != "/later") {
        let Notice::Event(event) = soon(all.next()).await.unwrap() else { panic!("an event") };
        told.push(event.path);
    }
    told.retain(|path| !["/changed", "/parent/a", "/appears", "/gone"].contains(&path.as_str()));
    assert_eq!(told, ["/same", "/quiet/a", "/later"]);
}

/// WAT-01, WAT-16, WAT-17, WAT-22: a watch fires once, even after many changes, and also for the
/// client's own changes. A new read with a watch shows the changes in between.
#[tokio::test]
async fn one_event_stands_for_many_changes() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let (_, stat, mut watch) = soon(client.watch_data("/")).await.unwrap();
    let sets: Vec<_> = (0..10).map(|n| client.set_data("/", n.to_string(), Version::ANY)).collect();
    for set in sets {
        soon(set).await.unwrap();
    }
    let Signal::Event(event) = soon(watch.next()).await.unwrap() else { panic!("an event") };
    assert_eq!((event.kind, event.path.as_str()), (EventKind::DataChanged, "/"));
    assert_eq!(soon(watch.next()).await.unwrap_err().kind(), ErrorKind::Gone);
    let (data, now, mut next) = soon(client.watch_data("/")).await.unwrap();
    assert_eq!(data, "9");
    assert_eq!(now.version, stat.version + 10);
    soon(client.sync("/")).await.unwrap();
    let nothing_new = tokio::time::timeout(Duration::from_millis(1), next.next()).await;
    assert!(nothing_new.is_err());
}

/// WAT-21: a znode that was created and deleted during a disconnection is not reported, and the
/// watch stays set.
#[tokio::test]
async fn what_came_and_went_meanwhile_is_not_told() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let other = connect(server.address(), TIMEOUT).await;
    let client = connect(proxy.address, TIMEOUT).await;
    let (_, mut appears) = soon(client.watch_exists("/brief")).await.unwrap();
    let mut events = client.session_events();
    proxy.refuse();
    reach(&mut events, SessionState::Disconnected).await;
    let create = || other.create("/brief", "", CreateMode::Persistent, &Acls::creator());
    soon(create()).await.unwrap();
    soon(other.delete("/brief", Version::ANY)).await.unwrap();
    proxy.heal();
    reach(&mut events, SessionState::Connected).await;
    soon(client.sync("/")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut appears).await.is_err());
    soon(create()).await.unwrap();
    assert_eq!(soon(appears).await.unwrap().kind, EventKind::Created);
}

/// WAT-14: the notification arrives before an answer that shows the change.
#[tokio::test]
async fn notifications_come_before_what_they_announce() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    for n in 0..100 {
        let (_, _, mut watch) = soon(client.watch_data("/")).await.unwrap();
        let set = client.set_data("/", n.to_string(), Version::ANY);
        soon(set).await.unwrap();
        // The event has already arrived.
        let event = tokio::time::timeout(Duration::ZERO, &mut watch).await;
        assert_eq!(event.expect("it is there").unwrap().kind, EventKind::DataChanged);
    }
}

/// WAT-24.
#[tokio::test]
async fn a_dropped_watch_is_removed() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let (_, _, first) = soon(client.watch_data("/")).await.unwrap();
    let (_, second) = soon(client.watch_exists("/")).await.unwrap();
    let (_, _, children) = soon(client.watch_children("/")).await.unwrap();
    let persistent = soon(client.watch("/", WatchMode::Persistent)).await.unwrap();
    let recursive = soon(client.watch("/", WatchMode::Recursive)).await.unwrap();
    let has = async |kind| soon(client.check_watches("/", kind)).await.unwrap();
    drop(recursive);
    assert!(!has(WatcherType::PersistentRecursive).await);
    drop(persistent);
    assert!(!has(WatcherType::Persistent).await);
    drop(first);
    assert!(has(WatcherType::Data).await, "somebody else waits for it");
    drop(second);
    assert!(!has(WatcherType::Data).await);
    drop(children);
    assert!(!has(WatcherType::Any).await);
    // A watch whose request is dropped is removed when the answer arrives.
    drop(client.watch_data("/"));
    soon(client.sync("/")).await.unwrap();
    assert!(!has(WatcherType::Any).await);
}

/// WAT-02, WAT-11.
#[tokio::test]
async fn a_watch_stands_only_when_its_request_succeeded() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let error = soon(client.watch_data("/none")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone);
    assert!(!soon(client.check_watches("/none", WatcherType::Any)).await.unwrap());
    let error = soon(client.remove_watches("/none", WatcherType::Any)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone);
}

/// WAT-18, SES-23.
#[tokio::test]
async fn watches_end_with_their_session() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let (_, _, once) = soon(client.watch_data("/")).await.unwrap();
    let mut always = soon(client.watch("/", WatchMode::Recursive)).await.unwrap();
    drop(client);
    assert_eq!(soon(once).await.unwrap_err().kind(), ErrorKind::SessionOver);
    assert_eq!(soon(always.next()).await.unwrap_err().kind(), ErrorKind::SessionOver);
}

/// WAT-20: watches that are not restored report their end.
#[tokio::test]
async fn forgotten_watches_end_with_their_connection() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let connector = Connector::new().forget_watches();
    let client = soon(connector.connect(&proxy.address.to_string())).await.unwrap();
    let (_, _, once) = soon(client.watch_data("/")).await.unwrap();
    let mut always = soon(client.watch("/", WatchMode::Recursive)).await.unwrap();
    proxy.cut();
    assert_eq!(soon(once).await.unwrap().kind, EventKind::WatchRemoved);
    assert_eq!(soon(always.next()).await.unwrap(), Notice::Disconnected);
    let Notice::Event(event) = soon(always.next()).await.unwrap() else { panic!("an event") };
    assert_eq!(event.kind, EventKind::WatchRemoved);
    assert_eq!(soon(always.next()).await.unwrap_err().kind(), ErrorKind::Gone);
    soon(client.connected()).await.unwrap();
    assert!(!soon(client.check_watches("/", WatcherType::Any)).await.unwrap());
}

/// WAT-13: a waiting caller learns when the connection is lost, and when it is restored.
#[tokio::test]
async fn watches_tell_of_their_connection() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let client = connect(proxy.address, TIMEOUT).await;
    let (_, _, mut data) = soon(client.watch_data("/")).await.unwrap();
    let (_, mut absent) = soon(client.watch_exists("/absent")).await.unwrap();
    let (_, _, mut children) = soon(client.watch_children("/")).await.unwrap();
    proxy.refuse();
    for watch in [&mut data, &mut absent, &mut children] {
        let told = soon(watch.next()).await.unwrap();
        assert_eq!(told, Signal::Session(SessionState::Disconnected));
    }
    proxy.heal();
    for watch in [&mut data, &mut absent, &mut children] {
        let told = soon(watch.next()).await.unwrap();
        assert_eq!(told, Signal::Session(SessionState::Connected));
    }
    // The watch stays set. Its event is its last item.
    soon(client.set_data("/", "new", Version::ANY)).await.unwrap();
    let Signal::Event(event) = soon(data.next()).await.unwrap() else { panic!("an event") };
    assert_eq!(event.kind, EventKind::DataChanged);
    assert_eq!(soon(data.next()).await.unwrap_err().kind(), ErrorKind::Gone);
}

/// WAT-13: a slow reader does not receive every state change. But it learns that it may have missed
/// some, and the current state.
#[tokio::test]
async fn watches_keep_what_matters_of_their_connections() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let client = connect(proxy.address, TIMEOUT).await;
    let mut events = client.session_events();
    let (_, _, mut watch) = soon(client.watch_data("/")).await.unwrap();
    for _ in 0..3 {
        proxy.refuse();
        reach(&mut events, SessionState::Disconnected).await;
        proxy.heal();
        reach(&mut events, SessionState::Connected).await;
    }
    for state in [SessionState::Disconnected, SessionState::Connected] {
        assert_eq!(soon(watch.next()).await.unwrap(), Signal::Session(state));
    }
    proxy.cut();
    reach(&mut events, SessionState::Disconnected).await;
    // A caller that awaits only the event receives no state changes.
    reach(&mut events, SessionState::Connected).await;
    soon(client.set_data("/", "new", Version::ANY)).await.unwrap();
    assert_eq!(soon(watch).await.unwrap().kind, EventKind::DataChanged);
}

/// WAT-13: the reason for the end of the session is reported.
#[tokio::test]
async fn watches_tell_of_the_end_of_their_session() {
    let server = Server::start(QUICK);
    let proxy = Proxy::new(server.address()).await;
    let client = connect(proxy.address, Duration::from_secs(2)).await;
    let observer = connect(server.address(), TIMEOUT).await;
    soon(client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator())).await.unwrap();
    let (_, _, mut watch) = soon(client.watch_data("/")).await.unwrap();
    let (_, gone) = soon(observer.watch_exists("/mine")).await.unwrap();
    proxy.refuse();
    soon(gone).await.unwrap();
    proxy.heal();
    let mut told = Vec::new();
    let over = loop {
        match soon(watch.next()).await {
            Ok(Signal::Session(state)) => told.push(state),
            Ok(Signal::Event(event)) => panic!("{event:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(told.last(), Some(&SessionState::Expired));
    assert!(told.contains(&SessionState::Disconnected), "{told:?}");
    assert_eq!(over.ending(), Some(Ending::Expired));
}
