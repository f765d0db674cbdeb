//! Several roots on one session.

use std::time::Duration;

use zebu_client::{Acls, CreateMode, ErrorKind, EventKind, Notice, ReadResult, Version, WatchMode};

use crate::embedded::Server;
use crate::{connect, soon};

/// Each client names znodes from its own root: in requests, results, errors and events.
#[tokio::test]
async fn clients_of_one_session_have_their_own_roots() {
    let server = Server::start(&[]);
    let client = connect(server.address(), Duration::from_secs(10)).await;
    let acl = Acls::creator();
    soon(client.create_all("/tenants/amy/inner", &acl)).await.unwrap();
    soon(client.create_all("/tenants/amy-more", &acl)).await.unwrap();
    let amy = client.with_chroot("/tenants/amy").unwrap();
    let inner = amy.with_chroot("/inner").unwrap();
    assert_eq!((amy.chroot(), inner.chroot()), ("/tenants/amy", "/tenants/amy/inner"));
    assert_eq!(inner.with_chroot("/").unwrap().chroot(), "/tenants/amy/inner");
    assert_eq!((amy.session_id(), inner.session_id()), (client.session_id(), client.session_id()));

    let mut all = soon(client.watch("/tenants", WatchMode::Recursive)).await.unwrap();
    let mut own = soon(amy.watch("/", WatchMode::Recursive)).await.unwrap();
    let (_, born) = soon(inner.watch_exists("/n")).await.unwrap();
    let (_, _, children) = soon(inner.watch_children("/")).await.unwrap();
    let mut heard = amy.notifications();
    let created = soon(inner.create("/n", "1", CreateMode::Ephemeral, &acl)).await.unwrap();
    assert_eq!(created.path, "/n");
    for (watch, path) in [(&mut all, "/tenants/amy/inner/n"), (&mut own, "/inner/n")] {
        let Notice::Event(event) = soon(watch.next()).await.unwrap() else { panic!("no event") };
        assert_eq!((event.kind, event.path.as_str()), (EventKind::Created, path));
    }
    assert_eq!(soon(born).await.unwrap().path, "/n");
    assert_eq!(soon(children).await.unwrap().path, "/");
    assert_eq!(soon(heard.next()).await.unwrap().path, "/inner/n");

    assert_eq!(soon(inner.ephemerals("/")).await.unwrap(), ["/n"]);
    assert_eq!(soon(amy.ephemerals("/")).await.unwrap(), ["/inner/n"]);
    let mut transaction = amy.transaction();
    let made = transaction.create("/inner/m-", "", CreateMode::PersistentSequential, &acl);
    let results = soon(transaction.commit()).await.unwrap();
    assert_eq!(results.get(made).path, "/inner/m-0000000001");
    let results = soon(inner.reads().data("/n").send()).await.unwrap();
    assert!(matches!(&results.as_slice()[0], Ok(ReadResult::Data(data, _)) if data == "1"));
    let error = soon(inner.delete("/none", Version::ANY)).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Gone, Some("/none")));
    // The root of a client is never deleted, nor what is outside of it.
    assert_eq!(soon(inner.delete_all("/")).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(inner.with_chroot("../amy-more").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(soon(amy.series().get_children("/")).await.unwrap().0, ["inner"]);
}

/// The session lasts as long as one of them.
#[tokio::test]
async fn the_last_client_of_a_session_closes_it() {
    let server = Server::start(&[]);
    let client = connect(server.address(), Duration::from_secs(10)).await;
    let observer = connect(server.address(), Duration::from_secs(10)).await;
    let own = client.with_chroot("/zookeeper").unwrap();
    soon(client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator())).await.unwrap();
    drop(client);
    assert!(soon(own.exists("/quota")).await.unwrap().is_some());
    let (there, gone) = soon(observer.watch_exists("/mine")).await.unwrap();
    assert!(there.is_some());
    let background = own.unowned();
    assert_eq!(background.chroot(), "/zookeeper");
    drop(own);
    assert_eq!(soon(gone).await.unwrap().kind, EventKind::Deleted);
    let error = soon(background.exists("/quota")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionOver);
}
