//! Lost connections: which requests were executed, which were not, and how a client finds out.

use std::time::Duration;

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Outcome, Retry, SessionState, Version};

use crate::embedded::Server;
use crate::proxy::Proxy;
use crate::{connect, reach, soon};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Waits, beside the proxy, until the server has executed the request.
async fn is_there(observer: &Client, path: &str) {
    let (stat, created) = soon(observer.watch_exists(path)).await.unwrap();
    if stat.is_none() {
        soon(created).await.unwrap();
    }
}

/// ERR-02, ORD-13: each request that was sent and not answered is reported once, and never sent
/// again.
#[tokio::test]
async fn what_is_lost_is_reported_and_not_repeated() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let observer = connect(server.address(), TIMEOUT).await;
    let client = connect(proxy.address, TIMEOUT).await;
    proxy.mute();
    let mode = CreateMode::PersistentSequential;
    let lost: Vec<_> = (0..3).map(|_| client.create("/n-", "", mode, &Acls::creator())).collect();
    let last = client.create("/last", "", CreateMode::Persistent, &Acls::creator());
    is_there(&observer, "/last").await;
    proxy.cut();
    proxy.heal();
    for pending in lost {
        assert_eq!(soon(pending).await.unwrap_err().kind(), ErrorKind::Unknown);
    }
    assert_eq!(soon(last).await.unwrap_err().kind(), ErrorKind::Unknown);
    let (names, _) = soon(client.get_children("/")).await.unwrap();
    assert_eq!(names.iter().filter(|name| name.starts_with("n-")).count(), 3);
}

/// PAI-09, ORD-14: after a loss, a later request of a series is not executed without the earlier
/// ones.
#[tokio::test]
async fn of_a_series_nothing_is_executed_behind_a_gap() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let client = connect(proxy.address, TIMEOUT).await;
    let mut events = client.session_events();
    let series = client.series();
    let acl = Acls::creator();
    let create = |client: &Client, path| client.create(path, "", CreateMode::Persistent, &acl);
    soon(create(&series, "/first")).await.unwrap();
    proxy.mute();
    let lost = create(&series, "/lost");
    proxy.refuse();
    assert_eq!(soon(lost).await.unwrap_err().kind(), ErrorKind::Unknown);
    assert!(series.is_broken());
    reach(&mut events, SessionState::Disconnected).await;
    // Created without a connection. The next series is independent of it.
    let behind = [create(&series, "/behind"), create(&series.clone(), "/behind-too")];
    let other = create(&client, "/other");
    proxy.heal();
    soon(other).await.unwrap();
    for behind in behind {
        let error = soon(behind).await.unwrap_err();
        assert_eq!((error.kind(), error.is_of_broken_series()), (ErrorKind::NotExecuted, true));
    }
    // Transactions, reads and watches also belong to the series.
    let mut transaction = series.transaction();
    transaction.delete("/other", Version::ANY);
    assert!(soon(transaction.commit()).await.unwrap_err().is_of_broken_series());
    assert!(soon(series.watch_data("/other")).await.unwrap_err().is_of_broken_series());
    assert!(soon(series.reads().data("/other").send()).await.unwrap_err().is_of_broken_series());
    let (names, _) = soon(client.get_children("/")).await.unwrap();
    assert!(!names.iter().any(|name| name.starts_with("behind")), "{names:?}");
    assert!(!client.is_broken());
    // A new series starts without a failure.
    soon(create(&client.series(), "/behind")).await.unwrap();
}

/// PAI-08, ERR-20: the answer is lost, and the znode exists once.
#[tokio::test]
async fn a_protected_create_happens_once() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let observer = connect(server.address(), TIMEOUT).await;
    let client = connect(proxy.address, TIMEOUT).await;
    let (_, _, changed) = soon(observer.watch_children("/")).await.unwrap();
    proxy.mute();
    let creating = {
        let client = client.clone();
        tokio::spawn(async move {
            let mode = CreateMode::EphemeralSequential;
            client.create_protected("/lock-", "me", mode, &Acls::creator()).await
        })
    };
    soon(changed).await.unwrap();
    proxy.cut();
    proxy.heal();
    let created = soon(creating).await.unwrap().unwrap();
    assert_eq!(created.stat.ephemeral_owner, client.session_id().0);
    let (mut names, _) = soon(client.get_children("/")).await.unwrap();
    names.retain(|name| name.contains("lock-"));
    assert_eq!(names, [created.path.trim_start_matches('/')]);
}

/// A request that was certainly not executed is not reported as unknown.
#[tokio::test]
async fn a_protected_create_that_was_never_sent_did_not_happen() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let client = connect(server.address(), TIMEOUT).await;
    let through = zebu_client::Connector::new().connection_wait(Duration::from_secs(2));
    let cut_off = through.start(&proxy.address.to_string()).unwrap();
    soon(cut_off.connected()).await.unwrap();
    let mut events = cut_off.session_events();
    proxy.refuse();
    reach(&mut events, SessionState::Disconnected).await;
    let mode = CreateMode::EphemeralSequential;
    let acl = Acls::open_to_all();
    let create = cut_off.create_protected("/lock-", "", mode, &acl);
    assert_eq!(soon(create).await.unwrap_err().kind(), ErrorKind::NotExecuted);
    assert_eq!(soon(client.get_children("/")).await.unwrap().0, ["zookeeper"]);
}

/// PAI-07, FUT-07, ERR-18.
#[tokio::test]
async fn the_outcome_of_lost_writes_is_found_out() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let observer = connect(server.address(), TIMEOUT).await;
    let client = connect(proxy.address, TIMEOUT).await;
    let acl = Acls::creator();
    let mode = CreateMode::Ephemeral;

    proxy.mute();
    let create = client.create("/master", "me", mode, &acl);
    is_there(&observer, "/master").await;
    proxy.cut();
    proxy.heal();
    assert_eq!(soon(create).await.unwrap_err().kind(), ErrorKind::Unknown);
    let outcome = soon(client.after_lost_create("/master", "me", mode)).await.unwrap();
    assert!(matches!(outcome, Outcome::Happened(created) if created.path == "/master"));
    // ERR-19: the znode belongs to another client.
    let outcome = soon(observer.after_lost_create("/master", "me", mode)).await.unwrap();
    assert_eq!(outcome, Outcome::DidNot);

    let (_, _, changed) = soon(observer.watch_data("/master")).await.unwrap();
    proxy.mute();
    let set = client.set_data("/master", "new", Version(0));
    soon(changed).await.unwrap();
    proxy.cut();
    proxy.heal();
    assert_eq!(soon(set).await.unwrap_err().kind(), ErrorKind::Unknown);
    let outcome = client.after_lost_set_data("/master", "new", Version(0));
    assert!(matches!(soon(outcome).await.unwrap(), Outcome::Happened(stat) if stat.version == 1));
    let outcome = client.after_lost_set_data("/master", "other", Version(1));
    assert_eq!(soon(outcome).await.unwrap(), Outcome::DidNot);

    let (_, gone) = soon(observer.watch_exists("/master")).await.unwrap();
    proxy.mute();
    let delete = client.delete("/master", Version(1));
    soon(gone).await.unwrap();
    proxy.cut();
    proxy.heal();
    assert_eq!(soon(delete).await.unwrap_err().kind(), ErrorKind::Unknown);
    let outcome = soon(client.after_lost_delete("/master")).await.unwrap();
    assert_eq!(outcome, Outcome::Happened(()));
}

/// API-23, ERR-11, PAI-18: the effect of cancelling a request is defined.
#[tokio::test]
async fn what_is_cancelled_before_it_was_sent_does_not_happen() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let client = connect(proxy.address, TIMEOUT).await;
    let mut events = client.session_events();
    proxy.refuse();
    reach(&mut events, SessionState::Disconnected).await;
    let create = |path| client.create(path, "", CreateMode::Persistent, &Acls::creator());
    drop(create("/dropped"));
    create("/detached").detach();
    let error = soon(create("/cancelled").cancel()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotExecuted);
    let waited = tokio::time::timeout(Duration::from_millis(1), create("/timed-out")).await;
    assert!(waited.is_err());
    proxy.heal();
    let (mut names, _) = soon(client.get_children("/")).await.unwrap();
    names.sort();
    assert_eq!(names, ["detached", "zookeeper"]);
    // Too late: the request was sent.
    assert_eq!(soon(create("/sent").cancel()).await.unwrap().path, "/sent");
}

/// ERR-16.
#[tokio::test]
async fn a_request_does_not_wait_for_ever() {
    let mut server = Server::start(&[]);
    let connector = zebu_client::Connector::new().connection_wait(Duration::from_secs(2));
    let client = soon(connector.connect(&server.address().to_string())).await.unwrap();
    let mut events = client.session_events();
    server.stop();
    reach(&mut events, SessionState::Disconnected).await;
    let error = soon(client.get_data("/")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotExecuted);
    assert_eq!(client.state(), SessionState::Disconnected);
    // The session lives until its timeout, and the caller may repeat the request.
    server.launch(&[]);
    let patient = Retry { attempts: 100, ..Retry::default() };
    soon(patient.reads(|| client.get_data("/"))).await.unwrap();
}

/// ERR-10: with a request timeout the caller does not wait forever, and the session continues on
/// another server.
#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let observer = connect(server.address(), TIMEOUT).await;
    let mut connector = zebu_client::Connector::new().request_timeout(Duration::from_secs(2));
    let mut events = connector.session_events();
    let connector = connector.session_timeout(Duration::from_secs(40));
    let client = soon(connector.connect(&proxy.address.to_string())).await.unwrap();
    reach(&mut events, SessionState::Connected).await;
    let id = client.session_id();
    proxy.mute();
    let create = client.create("/a", "", CreateMode::Persistent, &Acls::open_to_all());
    is_there(&observer, "/a").await;
    let error = soon(create).await.unwrap_err();
    assert_eq!((error.kind(), error.code().0), (ErrorKind::Unknown, -122));
    reach(&mut events, SessionState::Disconnected).await;
    proxy.refuse();
    // Without a connection, a request that is not sent in time is certainly not executed.
    let unsent = soon(client.create("/b", "", CreateMode::Persistent, &Acls::open_to_all())).await;
    let unsent = unsent.unwrap_err();
    assert_eq!((unsent.kind(), unsent.code().0), (ErrorKind::NotExecuted, -122));
    proxy.heal();
    reach(&mut events, SessionState::Connected).await;
    assert_eq!(client.session_id(), id);
    assert!(soon(observer.exists("/b")).await.unwrap().is_none());
}

/// ERR-12: servers close the connection after a request above their limit, if the client was
/// configured to send it. The client closes the connection after an answer above its own limit. The
/// session continues.
#[tokio::test]
async fn what_is_too_large_costs_the_connection_not_the_session() {
    let server = Server::start(&[]);
    let address = server.address().to_string();
    let mut connector = zebu_client::Connector::new().request_bytes_max(8 << 20);
    let mut events = connector.session_events();
    let client = soon(connector.answer_bytes_max(64 << 10).connect(&address)).await.unwrap();
    let id = client.session_id();
    let error = soon(client.set_data("/", vec![b'x'; 2 << 20], Version::ANY)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    reach(&mut events, SessionState::Disconnected).await;
    assert_eq!(soon(client.get_data("/")).await.unwrap().1.version, 0);

    // All requests and answers are small, except for the list of all children.
    let acl = Acls::open_to_all();
    let name = "n".repeat(1000);
    let created: Vec<_> = (0..100)
        .map(|n| client.create(&format!("/{name}{n}"), "", CreateMode::Persistent, &acl))
        .collect();
    for created in created {
        soon(created).await.unwrap();
    }
    let error = soon(client.get_children("/")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    reach(&mut events, SessionState::Disconnected).await;
    assert_eq!(soon(client.get_data("/")).await.unwrap().1.num_children, 101);
    assert_eq!(client.session_id(), id);
    // By default both limits are large enough.
    let other = connect(&address, TIMEOUT).await;
    assert_eq!(soon(other.get_children("/")).await.unwrap().0.len(), 101);
}
