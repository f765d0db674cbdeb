//! What a client knows of its session without asking a server: the remaining time, and the client's
//! counters.

use std::time::Duration;

use zebu_client::{Acls, CreateMode, ErrorKind, SessionState, Version};

use crate::embedded::Server;
use crate::proxy::Proxy;
use crate::{QUICK, connect, reach, soon};

/// PAI-04: the client knows that its session may have ended before the servers delete the session's
/// ephemerals.
#[tokio::test]
async fn a_client_knows_of_its_end_before_others_see_it() {
    let server = Server::start(QUICK);
    let proxy = Proxy::new(server.address()).await;
    let observer = connect(server.address(), Duration::from_secs(30)).await;
    let client = connect(proxy.address, Duration::from_secs(1)).await;
    soon(client.create("/lock", "", CreateMode::Ephemeral, &Acls::creator())).await.unwrap();
    assert!(client.session_left() <= client.session_timeout());
    let (_, gone) = soon(observer.watch_exists("/lock")).await.unwrap();
    proxy.refuse();
    soon(gone).await.unwrap();
    assert_eq!(client.session_left(), Duration::ZERO);
    soon(client.session_in_doubt()).await;
    assert!(!client.state().is_over(), "nobody has told it");
}

/// After the end of the session nothing is uncertain.
#[tokio::test]
async fn nothing_is_left_of_a_session_that_was_closed() {
    let server = Server::start(&[]);
    let client = connect(server.address(), Duration::from_secs(10)).await;
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.session_in_doubt().await });
    client.close().await.unwrap();
    soon(waiting).await.unwrap();
    assert_eq!(client.session_left(), Duration::ZERO);
}

#[tokio::test]
async fn what_a_client_does_is_counted() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let client = connect(proxy.address, Duration::from_secs(10)).await;
    let mut events = client.session_events();
    let (_, _, changed) = soon(client.watch_data("/")).await.unwrap();
    let begun = client.metrics();
    assert_eq!((begun.connections, begun.connections_lost, begun.pending()), (1, 0, 0));
    soon(client.set_data("/", vec![b'x'; 10_000], Version::ANY)).await.unwrap();
    soon(changed).await.unwrap();
    assert!(soon(client.get_data("/none")).await.is_err());
    let asked = client.metrics();
    assert_eq!(asked.requests, begun.requests + 2);
    assert_eq!(asked.answers, begun.answers + 2, "an error is an answer");
    assert_eq!(asked.notifications, begun.notifications + 1);
    assert!(asked.round_trip.is_some());

    proxy.mute();
    let lost = client.get_data("/");
    proxy.cut();
    proxy.heal();
    assert_eq!(soon(lost).await.unwrap_err().kind(), ErrorKind::Unknown);
    reach(&mut events, SessionState::Connected).await;
    let again = client.metrics();
    assert_eq!(again.failures, asked.failures + 1);
    assert_eq!((again.connections, again.connections_lost, again.pending()), (2, 1, 0));
    assert!(again.bytes_sent > 10_000, "{again:?}");
    assert!(again.bytes_received > begun.bytes_received, "{again:?}");
}
