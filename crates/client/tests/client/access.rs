//! ACLs, identities and chroots.

use std::time::Duration;

use zebu_client::{
    Acls, Client, Connector, CreateMode, Ending, ErrorKind, EventKind, Notice, Perms, SessionState,
    Version, WatchMode,
};

use crate::embedded::Server;
use crate::proxy::Proxy;
use crate::{connect, reach, soon};

const TIMEOUT: Duration = Duration::from_secs(10);

/// API-09, ACL-05.
#[tokio::test]
async fn credentials_are_presented_to_every_server() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(server.address()).await;
    let amy = connect(proxy.address, TIMEOUT).await;
    let gabe = soon(Connector::new().connect(&server.address().to_string())).await.unwrap();
    soon(amy.create("/amy", "", CreateMode::Persistent, &Acls::creator())).await.unwrap();
    let error = soon(gabe.get_data("/amy")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let mut events = amy.session_events();
    proxy.cut();
    reach(&mut events, SessionState::Connected).await;
    soon(amy.set_data("/amy", "mine", Version(0))).await.unwrap();
    let acl = Acls::creator().and(Acls::user("gabe", "pw", Perms::READ));
    soon(amy.set_acl("/amy", &acl, Version(0))).await.unwrap();
    soon(gabe.authenticate("digest", "gabe:pw")).await.unwrap();
    assert_eq!(soon(gabe.get_data("/amy")).await.unwrap().0, "mine");
    // Without the ADMIN permission the hash is hidden.
    let (shown, _) = soon(gabe.get_acl("/amy")).await.unwrap();
    assert!(shown.iter().all(|entry| entry.id.id.ends_with(":x")), "{shown:?}");
}

/// ERR-08, WAT-05, SES-24: refused credentials end the session.
#[tokio::test]
async fn refused_credentials_end_the_session() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let error = soon(client.authenticate("nonsense", "x")).await.unwrap_err();
    assert_eq!(error.ending(), Some(Ending::AuthFailed));
    assert_eq!(client.state(), SessionState::AuthFailed);
    let connector = Connector::new().authenticate("nonsense", "x");
    let client = connector.start(&server.address().to_string()).unwrap();
    let mut events = client.session_events();
    reach(&mut events, SessionState::AuthFailed).await;
}

/// CST-04.
#[tokio::test]
async fn a_chroot_is_the_root() {
    let server = Server::start(&[]);
    let outside = connect(server.address(), TIMEOUT).await;
    soon(outside.create_all("/app/one", &Acls::creator())).await.unwrap();
    let inside = connect(format!("{}/app/one", server.address()), TIMEOUT).await;
    assert_eq!(inside.chroot(), "/app/one");
    let mut tree = soon(inside.watch("/", WatchMode::Recursive)).await.unwrap();
    let (_, _, children) = soon(inside.watch_children("/")).await.unwrap();

    let acl = Acls::creator();
    let created = soon(inside.create("/e-", "", CreateMode::EphemeralSequential, &acl)).await;
    assert_eq!(created.unwrap().path, "/e-0000000000");
    assert!(soon(outside.exists("/app/one/e-0000000000")).await.unwrap().is_some());
    assert_eq!(soon(children).await.unwrap().path, "/");
    let Notice::Event(event) = soon(tree.next()).await.unwrap() else { panic!("an event") };
    assert_eq!((event.kind, &*event.path), (EventKind::Created, "/e-0000000000"));
    assert_eq!(soon(inside.ephemerals("/")).await.unwrap(), ["/e-0000000000"]);

    let mut transaction = inside.transaction();
    let made = transaction.create("/t", "", CreateMode::Persistent, &acl);
    transaction.set_data("/", "root", Version::ANY);
    assert_eq!(soon(transaction.commit()).await.unwrap().get(made).path, "/t");
    assert_eq!(soon(outside.get_data("/app/one")).await.unwrap().0, "root");
    let read = soon(inside.reads().data("/").children("/none").send()).await.unwrap();
    assert!(read.as_slice()[0].is_ok() && read.as_slice()[1].is_err());
    // The configuration belongs to the ensemble, so no chroot applies to it.
    soon(inside.get_config()).await.unwrap();
    let error = soon(inside.get_data("/zookeeper")).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Gone, Some("/zookeeper")));
}

/// CST-04.
#[tokio::test]
async fn a_chroot_that_is_missing_is_not_made() {
    let server = Server::start(&[]);
    let client = connect(format!("{}/none", server.address()), TIMEOUT).await;
    let create = client.create("/a", "", CreateMode::Persistent, &Acls::creator());
    assert_eq!(soon(create).await.unwrap_err().kind(), ErrorKind::Gone);
}

#[tokio::test]
async fn a_chroot_that_is_missing_is_made_where_that_is_asked_for() {
    let server = Server::start(&[]);
    let connector = Connector::new().create_chroot(Acls::creator());
    let address = format!("{}/none/yet", server.address());
    let client =
        soon(connector.authenticate("digest", "amy:secret").connect(&address)).await.unwrap();
    let create = client.create("/a", "", CreateMode::Persistent, &Acls::creator());
    assert_eq!(soon(create).await.unwrap().path, "/a");
    let outside = connect(server.address(), TIMEOUT).await;
    assert!(soon(outside.exists("/none/yet/a")).await.unwrap().is_some());
}

#[tokio::test]
async fn znodes_with_a_time_to_live() {
    let server = Server::start(&["extendedTypesEnabled=true"]);
    let client = connect(server.address(), TIMEOUT).await;
    let mode = CreateMode::Ttl(Duration::from_secs(600));
    soon(client.create("/ttl", "", mode, &Acls::creator())).await.unwrap();
    let mode = CreateMode::SequentialTtl(Duration::from_secs(600));
    let created = soon(client.create("/ttl-", "", mode, &Acls::creator())).await.unwrap();
    assert_eq!(created.path, "/ttl-0000000001");
    let create = client.create("/x", "", CreateMode::Ttl(Duration::ZERO), &Acls::creator());
    assert_eq!(soon(create).await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// ACL-13, ACL-15: a single credential is not a SASL exchange. The client refuses it before sending
/// anything.
#[tokio::test]
async fn sasl_is_no_credential() {
    let server = Server::start(&[]);
    let address = server.address().to_string();
    let connector = Connector::new().authenticate("sasl", "amy");
    let at_first = soon(connector.connect(&address)).await.unwrap_err();
    let client = soon(Client::connect(&address)).await.unwrap();
    let later = soon(client.authenticate("sasl", "amy")).await.unwrap_err();
    for error in [at_first, later] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let begin = "SASL cannot be used: the scheme takes an exchange of tokens";
        assert!(error.to_string().starts_with(begin), "{error}");
    }
    // The session continues.
    soon(client.get_data("/")).await.unwrap();
}
