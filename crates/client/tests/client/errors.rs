//! Requests that servers refuse, and how callers distinguish the errors.

use std::time::Duration;

use zebu_client::{Acls, Connector, CreateMode, ErrorCode, ErrorKind, Perms, Version};

use crate::embedded::Server;
use crate::{connect, soon};

const TIMEOUT: Duration = Duration::from_secs(10);

/// API-14, ERR-05: a conditional request changes the znode only if it has the given version.
#[tokio::test]
async fn a_wrong_version_changes_nothing() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let acl = Acls::creator();
    let made = soon(client.create("/a", "0", CreateMode::Persistent, &acl)).await.unwrap();
    let wrong = Version(7);
    let mut transaction = client.transaction();
    transaction.check("/a", wrong).set_data("/a", "new", Version::ANY);
    for error in [
        soon(client.set_data("/a", "new", wrong)).await.unwrap_err(),
        soon(client.set_acl("/a", &Acls::anyone(Perms::READ), wrong)).await.unwrap_err(),
        soon(client.delete("/a", wrong)).await.unwrap_err(),
        soon(transaction.commit()).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, ErrorCode::BAD_VERSION));
        assert_eq!(error.path(), Some("/a"));
    }
    let (data, stat) = soon(client.get_data("/a")).await.unwrap();
    assert_eq!(data, "0");
    assert_eq!(stat, made.stat);
    assert_eq!(soon(client.get_acl("/a")).await.unwrap().0.len(), 1);
    // −1 matches every version.
    soon(client.set_data("/a", "1", Version::ANY)).await.unwrap();
    soon(client.delete("/a", Version::ANY)).await.unwrap();
}

/// ERR-03, ERR-04, ERR-07, ERR-09: each refusal has its own code and a remedy.
#[tokio::test]
async fn every_refusal_says_what_it_is() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let address = server.address().to_string();
    let stranger = soon(Connector::new().connect(&address)).await.unwrap();
    let acl = Acls::creator();
    let create = |path| client.create(path, "", CreateMode::Persistent, &acl);
    soon(create("/a")).await.unwrap();
    soon(create("/a/b")).await.unwrap();
    soon(client.create("/e", "", CreateMode::Ephemeral, &acl)).await.unwrap();
    let any = Version::ANY;
    let (gone, conflict, denied) = (ErrorKind::Gone, ErrorKind::Conflict, ErrorKind::Denied);
    for (error, kind, code) in [
        (soon(create("/a")).await.unwrap_err(), conflict, ErrorCode::NODE_EXISTS),
        (soon(create("/none/child")).await.unwrap_err(), gone, ErrorCode::NO_NODE),
        (soon(client.get_data("/none")).await.unwrap_err(), gone, ErrorCode::NO_NODE),
        (soon(client.get_children("/none")).await.unwrap_err(), gone, ErrorCode::NO_NODE),
        (soon(client.set_data("/none", "", any)).await.unwrap_err(), gone, ErrorCode::NO_NODE),
        (soon(client.delete("/none", any)).await.unwrap_err(), gone, ErrorCode::NO_NODE),
        (soon(client.get_acl("/none")).await.unwrap_err(), gone, ErrorCode::NO_NODE),
        (soon(client.delete("/a", any)).await.unwrap_err(), conflict, ErrorCode::NOT_EMPTY),
        (
            soon(create("/e/child")).await.unwrap_err(),
            conflict,
            ErrorCode::NO_CHILDREN_FOR_EPHEMERALS,
        ),
        (soon(stranger.get_data("/a")).await.unwrap_err(), denied, ErrorCode::NO_AUTH),
        (soon(stranger.set_data("/a", "", any)).await.unwrap_err(), denied, ErrorCode::NO_AUTH),
        (soon(stranger.delete("/a/b", any)).await.unwrap_err(), denied, ErrorCode::NO_AUTH),
    ] {
        assert_eq!((error.kind(), error.code()), (kind, code), "{error}");
        assert!(error.path().is_some(), "{error}");
    }
    // For `exists`, a missing znode is not an error.
    assert_eq!(soon(client.exists("/none")).await.unwrap(), None);
}
