//! Sessions: how they are opened, how they survive, and how they end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zebu_client::{
    Acls, Client, Connector, CreateMode, Ending, ErrorKind, EventKind, HostProvider, Servers,
    SessionState,
};

use crate::embedded::Server;
use crate::proxy::Proxy;
use crate::{QUICK, connect, reach, soon};

const TIMEOUT: Duration = Duration::from_secs(10);

/// SES-04, SES-12, SES-14.
#[tokio::test]
async fn a_session_survives_its_server() {
    let mut server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let mut events = client.session_events();
    let id = client.session_id();
    soon(client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator())).await.unwrap();
    server.stop();
    reach(&mut events, SessionState::Disconnected).await;
    assert_eq!(client.server(), None);
    // Submitted without a connection, sent on the next one.
    let read = client.get_data("/mine");
    server.launch(&[]);
    let (_, stat) = soon(read).await.unwrap();
    assert_eq!(stat.ephemeral_owner, id.0);
    assert_eq!((client.session_id(), client.state()), (id, SessionState::Connected));
    // The new connection has the credentials.
    soon(client.delete("/mine", zebu_client::Version(0))).await.unwrap();
}

/// ERR-06, SES-23, WAT-08, SES-21, SES-22: an expired session has ended, and the client opens no
/// new one.
#[tokio::test]
async fn an_expired_session_is_over() {
    let server = Server::start(QUICK);
    let proxy = Proxy::new(server.address()).await;
    let client = connect(proxy.address, Duration::from_secs(3)).await;
    let observer = connect(server.address(), Duration::from_secs(30)).await;
    let mut events = client.session_events();
    soon(client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator())).await.unwrap();
    let (_, gone) = soon(observer.watch_exists("/mine")).await.unwrap();
    let (_, _, watch) = soon(client.watch_data("/")).await.unwrap();
    proxy.refuse();
    assert_eq!(soon(gone).await.unwrap().kind, EventKind::Deleted);
    proxy.heal();
    reach(&mut events, SessionState::Expired).await;
    assert_eq!(soon(events.next()).await, None);
    for error in [
        soon(client.get_data("/")).await.unwrap_err(),
        soon(watch).await.unwrap_err(),
        soon(client.connected()).await.unwrap_err(),
        soon(client.close()).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.ending()), (ErrorKind::SessionOver, Some(Ending::Expired)));
    }
}

/// API-10, SES-01.
#[tokio::test]
async fn closing_and_dropping_end_the_session() {
    let server = Server::start(&[]);
    let observer = connect(server.address(), TIMEOUT).await;
    for is_closed in [true, false] {
        let client = connect(server.address(), TIMEOUT).await;
        let create = client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator());
        soon(create).await.unwrap();
        let (_, gone) = soon(observer.watch_exists("/mine")).await.unwrap();
        if is_closed {
            soon(client.close()).await.unwrap();
            assert!(soon(observer.exists("/mine")).await.unwrap().is_none());
            let error = soon(client.get_data("/")).await.unwrap_err();
            assert_eq!(error.ending(), Some(Ending::Closed));
        }
        drop(client);
        assert_eq!(soon(gone).await.unwrap().kind, EventKind::Deleted);
    }
}

/// SES-19, SES-20.
#[tokio::test]
async fn another_client_goes_on_with_a_session() {
    let server = Server::start(&[]);
    let first = connect(server.address(), TIMEOUT).await;
    soon(first.create("/mine", "", CreateMode::Ephemeral, &Acls::creator())).await.unwrap();
    let (_, _, watch) = soon(first.watch_data("/mine")).await.unwrap();
    let ticket = first.leave().unwrap();
    assert_eq!(soon(watch).await.unwrap_err().kind(), ErrorKind::SessionOver);
    assert_eq!(soon(first.get_data("/")).await.unwrap_err().ending(), Some(Ending::Closed));

    let connector = Connector::new().resume(ticket).authenticate("digest", "amy:secret");
    let second = soon(connector.connect(&server.address().to_string())).await.unwrap();
    assert_eq!(second.session_id(), ticket.id);
    let (_, stat) = soon(second.get_data("/mine")).await.unwrap();
    assert_eq!(stat.ephemeral_owner, ticket.id.0);

    // A client with a wrong password is refused, and the owner of the session is not disturbed.
    let mut stolen = ticket;
    stolen.password[0] ^= 1;
    let servers = server.address().to_string();
    let thief = Connector::new().resume(stolen).connect(&servers);
    assert_eq!(soon(thief).await.unwrap_err().ending(), Some(Ending::Expired));
    soon(second.get_data("/mine")).await.unwrap();
}

/// SES-04, PAI-46, CST-03, CST-05.
#[tokio::test]
async fn names_are_resolved_again() {
    struct Moving(Arc<Mutex<Vec<SocketAddr>>>);

    impl HostProvider for Moving {
        fn servers(&self) -> Servers<'_> {
            let now = self.0.lock().unwrap().clone();
            Box::pin(async move { Ok(now) })
        }
    }

    let server = Server::start(&[]);
    let (old, new) = (Proxy::new(server.address()).await, Proxy::new(server.address()).await);
    let places = Arc::new(Mutex::new(vec![old.address]));
    let client = soon(Connector::new().connect_to(Moving(places.clone()))).await.unwrap();
    let id = client.session_id();
    assert_eq!(client.server(), Some(old.address));
    *places.lock().unwrap() = vec![new.address];
    let mut events = client.session_events();
    old.refuse();
    reach(&mut events, SessionState::Disconnected).await;
    soon(client.get_data("/")).await.unwrap();
    assert_eq!((client.server(), client.session_id()), (Some(new.address), id));
}

/// CST-01, SES-05.
#[tokio::test]
async fn servers_that_are_not_there_are_passed_over() {
    let server = Server::start(&[]);
    // No server listens on port 1.
    let servers = format!("127.0.0.1:1,{},127.0.0.1:1", server.address());
    for seed in 0..8 {
        let client = soon(Connector::new().seed(seed).connect(&servers)).await.unwrap();
        assert_eq!(client.server(), Some(server.address()));
    }
}

/// PAI-43: a session that has lost its server does not go on at another ensemble's, which would say
/// that it has expired.
#[tokio::test]
async fn a_connect_string_that_spans_two_ensembles_is_refused() {
    let mut servers = [Server::start(&[]), Server::start(&[])];
    let both = format!("{},{}", servers[0].address(), servers[1].address());
    let client = soon(Connector::new().session_timeout(TIMEOUT).connect(&both)).await.unwrap();
    let mut events = client.session_events();
    let own = client.ensemble().expect("a server tells it");
    let place = servers.iter().position(|it| Some(it.address()) == client.server()).unwrap();
    servers[place].stop();
    let over = loop {
        match soon(events.next()).await.expect("the session ends") {
            SessionState::OtherEnsemble { own, other } => break (own, other),
            state => assert_eq!(state, SessionState::Disconnected),
        }
    };
    assert!(over.0 == own && over.1 != own, "{over:?}");
    let error = soon(client.get_data("/")).await.unwrap_err();
    let ending = Ending::OtherEnsemble { own, other: over.1 };
    assert_eq!((error.kind(), error.ending()), (ErrorKind::SessionOver, Some(ending)));
    assert!(error.to_string().contains(&own.to_string()), "{error}");
    // The other one is right where it is asked for, and the first one is not.
    let pinned = Connector::new().ensemble(over.1).session_timeout(TIMEOUT);
    let other = servers[1 - place].address().to_string();
    let client = soon(pinned.connect(&other)).await.unwrap();
    assert_eq!(client.ensemble(), Some(over.1));
    let error = soon(Connector::new().ensemble(own).connect(&other)).await.unwrap_err();
    assert_eq!(error.ending(), Some(ending));
}

/// PAI-24, SES-27: with a limit the client does not look for a server forever. Requests submitted
/// meanwhile are answered.
#[tokio::test]
async fn a_session_without_servers_is_given_up() {
    let mut server = Server::start(&[]);
    let connector = Connector::new().session_timeout(TIMEOUT);
    let connector = connector.give_up_after(Duration::from_secs(3));
    let client = soon(connector.connect(&server.address().to_string())).await.unwrap();
    let ticket = client.ticket().unwrap();
    let mut events = client.session_events();
    server.stop();
    reach(&mut events, SessionState::Disconnected).await;
    let waiting = client.get_data("/");
    reach(&mut events, SessionState::GivenUp).await;
    assert_eq!(soon(events.next()).await, None);
    let error = soon(waiting).await.unwrap_err();
    assert_eq!((error.kind(), error.ending()), (ErrorKind::SessionOver, Some(Ending::GivenUp)));
    let error = soon(client.close()).await.unwrap_err();
    assert_eq!(error.ending(), Some(Ending::GivenUp));
    // The servers keep the session until its timeout.
    server.launch(&[]);
    let again = Connector::new().resume(ticket);
    let again = soon(again.connect(&server.address().to_string())).await.unwrap();
    assert_eq!(again.session_id(), ticket.id);
}

/// CST-08, FUT-12, PAI-46: servers of lower rank are tried first, whatever their order in the
/// connect string.
#[tokio::test]
async fn near_servers_are_preferred() {
    let (mut near, far) = (Server::start(&[]), Server::start(&[]));
    let is_far = far.address();
    let servers = format!("{},{}", far.address(), near.address());
    for seed in 0..8 {
        let connector = Connector::new().seed(seed).prefer(move |it| u32::from(it == is_far));
        let client = soon(connector.connect(&servers)).await.unwrap();
        assert_eq!(client.server(), Some(near.address()));
        soon(client.close()).await.unwrap();
    }
    near.stop();
    let connector = Connector::new().prefer(move |it| u32::from(it == is_far));
    let client = soon(connector.connect(&servers)).await.unwrap();
    assert_eq!(client.server(), Some(far.address()));
}

#[tokio::test]
async fn connect_strings_that_make_no_sense_are_refused() {
    let services = ["dns-srv://", "dns-srv://a:1", "dns-srv://a,b", "dns-srv://a/b//c"];
    for servers in ["", "a:b", "a/b//c", "::1:2181"].into_iter().chain(services) {
        let error = Client::connect(servers).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{servers}");
    }
}

/// API-12: a stream of events created before the session is opened contains the first connection,
/// even if it is read late.
#[tokio::test]
async fn the_first_connection_is_told() {
    let server = Server::start(&[]);
    let mut connector = Connector::new();
    let (mut early, mut other) = (connector.session_events(), connector.session_events());
    let client = soon(connector.clone().connect(&server.address().to_string())).await.unwrap();
    assert_eq!(soon(early.next()).await, Some(SessionState::Connected));
    // The stream contains the state changes of all sessions of its connector, and ends with the
    // last one.
    let second = soon(connector.connect(&server.address().to_string())).await.unwrap();
    assert_eq!(soon(early.next()).await, Some(SessionState::Connected));
    soon(client.close()).await.unwrap();
    assert_eq!(soon(early.next()).await, Some(SessionState::Closed));
    soon(second.close()).await.unwrap();
    let states = [SessionState::Connected, SessionState::Connected];
    let endings = [SessionState::Closed, SessionState::Closed];
    for state in states.into_iter().chain(endings) {
        assert_eq!(soon(other.next()).await, Some(state));
    }
    assert_eq!(soon(other.next()).await, None);
}

/// SES-03, SES-12 to SES-14: a client that starts before the servers waits for them without an
/// error. It also looks for them whenever they are gone.
#[tokio::test]
async fn servers_may_come_later() {
    let mut server = Server::start(&[]);
    server.stop();
    let mut connector = Connector::new().session_timeout(TIMEOUT);
    let mut events = connector.session_events();
    let client = connector.start(&server.address().to_string()).unwrap();
    assert_eq!(client.state(), SessionState::Connecting);
    let told = tokio::time::timeout(Duration::from_millis(200), events.next()).await;
    assert!(told.is_err(), "{told:?}");
    server.launch(&[]);
    assert_eq!(soon(events.next()).await, Some(SessionState::Connected));
    let id = client.session_id();
    server.stop();
    assert_eq!(soon(events.next()).await, Some(SessionState::Disconnected));
    server.launch(&[]);
    assert_eq!(soon(events.next()).await, Some(SessionState::Connected));
    assert_eq!(client.session_id(), id);
    soon(client.close()).await.unwrap();
    assert_eq!(client.state(), SessionState::Closed);
}

/// API-12: the stream of a connector that opens no session ends.
#[tokio::test]
async fn a_session_that_is_not_opened_has_no_events() {
    let mut connector = Connector::new();
    let mut events = connector.session_events();
    connector.start("no such:string").unwrap_err();
    assert_eq!(soon(events.next()).await, None);
}

/// CST-02: a name with several addresses stands for one server at each address, all with the same
/// port.
#[tokio::test]
async fn names_stand_for_all_their_addresses() {
    let server = Server::start(&[]);
    let port = server.address().port();
    // The name may also have the address ::1, where no server listens.
    let client = soon(Connector::new().connect(&format!("localhost:{port}"))).await.unwrap();
    assert_eq!(client.server(), Some(server.address()));
}

/// The log names host names that cannot be resolved. The other servers are used.
#[tokio::test]
async fn names_that_cannot_be_resolved_are_named() {
    struct Unknown;

    impl HostProvider for Unknown {
        fn servers(&self) -> Servers<'_> {
            Box::pin(async { Err(std::io::Error::other("zk9.invalid is not known")) })
        }
    }

    let server = Server::start(&[]);
    let servers = format!("zk9.invalid:2181,{}", server.address());
    let connector = Connector::new().session_timeout(Duration::from_secs(40));
    soon(connector.connect(&servers)).await.unwrap();
    let client =
        Connector::new().connection_wait(Duration::from_secs(1)).start_with(Unknown).unwrap();
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotExecuted);
    assert_eq!(error.reason(), Some("zk9.invalid is not known"));
    assert_eq!(error.to_string(), "no connection: /a: zk9.invalid is not known");
}
