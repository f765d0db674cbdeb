//! Persistent znodes, groups, and the barrier of one znode.

use std::time::Duration;

use zebu_client::{Acls, Client, CreateMode, Version};
use zebu_recipes::{Barrier, Change, Group, PersistentNode, TtlNode, Value};

use crate::behind::Behind;
use crate::embedded::Server;
use crate::gate::Gate;
use crate::lossy::Lossy;
use crate::{connect, create, names, soon, until_empty};

/// Waits until the znode's ephemeral owner satisfies the condition. `None`: the znode does not
/// exist.
async fn owner(client: &Client, path: &str, is_wanted: impl Fn(Option<i64>) -> bool) {
    let mut value = Value::of(client, path);
    while !is_wanted(soon(value.next()).await.unwrap().map(|(_, stat)| stat.ephemeral_owner)) {}
}

#[tokio::test]
async fn a_node_comes_back_with_its_data() {
    let server = Server::start(&[]);
    let (client, other) = (connect(server.address()).await, connect(server.address()).await);
    let (acl, mode) = (Acls::creator(), CreateMode::Ephemeral);
    let node = soon(PersistentNode::keep(&client, "/kept/node", "a", mode, &acl)).await.unwrap();
    let mine = client.session_id().0;
    for data in ["b", "c"] {
        soon(node.set_data(data)).await.unwrap();
        let (read, stat) = other.get_data("/kept/node").await.unwrap();
        assert_eq!((&*read, stat.ephemeral_owner), (data.as_bytes(), mine));
        other.delete("/kept/node", Version::ANY).await.unwrap();
        owner(&other, "/kept/node", |owner| owner == Some(mine)).await;
        assert_eq!(other.get_data("/kept/node").await.unwrap().0, data);
    }
    soon(node.close()).await.unwrap();
    assert_eq!(names(&other, "/kept").await, [""; 0]);
    // After the drop, the znode is deleted in the background and not created again.
    let node = soon(PersistentNode::keep(&client, "/kept/node", "a", mode, &acl)).await.unwrap();
    drop(node);
    until_empty(&other, "/kept").await;
    // A znode of a persistent mode is deleted, too.
    let mode = CreateMode::Persistent;
    let node = soon(PersistentNode::keep(&client, "/kept/node", "a", mode, &acl)).await.unwrap();
    other.delete("/kept/node", Version::ANY).await.unwrap();
    owner(&other, "/kept/node", |owner| owner.is_some()).await;
    soon(node.close()).await.unwrap();
    until_empty(&other, "/kept").await;
}

/// A znode of an earlier session belongs to that session: `keep` waits until it is gone.
#[tokio::test]
async fn the_znode_of_another_session_is_waited_for() {
    let server = Server::start(&[]);
    let (before, client) = (connect(server.address()).await, connect(server.address()).await);
    let (acl, mode) = (Acls::creator(), CreateMode::Ephemeral);
    before.create("/node", "old", mode, &acl).await.unwrap();
    let mut keeping = Box::pin(PersistentNode::keep(&client, "/node", "new", mode, &acl));
    let too_early = tokio::time::timeout(Duration::from_millis(200), &mut keeping).await;
    assert!(too_early.is_err());
    soon(before.close()).await.unwrap();
    let node = soon(keeping).await.unwrap();
    assert_eq!(client.get_data("/node").await.unwrap().0, "new");
    // Keeping ends with the session, and reports that.
    client.close().await.unwrap();
    assert!(soon(node.lost()).await.is_session_over());
    assert_eq!(node.path(), None);
    assert!(soon(node.close()).await.unwrap_err().is_session_over());
}

/// The sequence number stays the same.
#[tokio::test]
async fn a_sequential_node_comes_back_under_its_name() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let (acl, mode) = (Acls::creator(), CreateMode::EphemeralSequential);
    create(&client, "/kept", "").await;
    let node = soon(PersistentNode::keep(&client, "/kept/n-", "", mode, &acl)).await.unwrap();
    let path = node.path().unwrap();
    client.delete(&path, Version::ANY).await.unwrap();
    owner(&client, &path, |owner| owner.is_some()).await;
    assert_eq!(names(&client, "/kept").await.len(), 1);
    soon(node.close()).await.unwrap();
    assert_eq!(names(&client, "/kept").await, [""; 0]);
}

/// Whichever answer is lost, the znode exists once, and is deleted in the end.
#[tokio::test]
async fn a_node_is_kept_once() {
    let server = Server::start(&[]);
    let network = Lossy::new(server.address()).await;
    let observer = connect(server.address()).await;
    for lost in 0.. {
        let (parent, acl) = (format!("/n{lost}"), Acls::creator());
        let client = connect(network.address).await;
        client.sync("/").await.unwrap();
        network.lose(lost);
        let mode = CreateMode::EphemeralSequential;
        let path = format!("{parent}/s-");
        let one = soon(PersistentNode::keep(&client, &path, "", mode, &acl)).await.unwrap();
        let path = format!("{parent}/node");
        let mode = CreateMode::Persistent;
        let two = soon(PersistentNode::keep(&client, &path, "", mode, &acl)).await.unwrap();
        soon(two.set_data("new")).await.unwrap();
        assert_eq!(names(&observer, &parent).await.len(), 2);
        assert_eq!(observer.get_data(&path).await.unwrap().0, "new");
        // The create was executed, and perhaps its answer is lost: the znode has old data.
        observer.delete(&path, Version::ANY).await.unwrap();
        owner(&observer, &path, |owner| owner.is_some()).await;
        soon(two.set_data("newer")).await.unwrap();
        assert_eq!(observer.get_data(&path).await.unwrap().0, "newer");
        soon(one.close()).await.unwrap();
        soon(two.close()).await.unwrap();
        assert_eq!(names(&observer, &parent).await, [""; 0]);
        if !network.heal() {
            return;
        }
    }
}

/// A member that is behind shows the znode that another client has deleted. Another session has
/// created its own znode there, with the same version, and that znode stays.
#[tokio::test]
async fn a_closed_node_deletes_no_later_one() {
    let server = Server::start(&[]);
    let member = Behind::new(server.address()).await;
    let (client, other) = (connect(member.address).await, connect(server.address()).await);
    let (acl, mode) = (Acls::creator(), CreateMode::Ephemeral);
    let node = soon(PersistentNode::keep(&client, "/node", "a", mode, &acl)).await.unwrap();
    let mine = client.exists("/node").await.unwrap().unwrap();
    member.falls_behind();
    other.delete("/node", Version::ANY).await.unwrap();
    let theirs = other.create("/node", "b", mode, &acl).await.unwrap().stat;
    assert_eq!(theirs.version, mine.version);
    assert_eq!(client.exists("/node").await.unwrap(), Some(mine));
    soon(node.close()).await.unwrap();
    assert_eq!(other.exists("/node").await.unwrap(), Some(theirs));
}

/// The answer to the create is lost, and the next member is behind: it does not show the znode yet.
/// The znode is deleted nevertheless, also if the future is dropped before the client is connected
/// again.
#[tokio::test]
async fn a_node_that_a_member_does_not_show_yet_is_deleted() {
    let server = Server::start(&[]);
    let other = connect(server.address()).await;
    let (acl, mode) = (Acls::creator(), CreateMode::Persistent);
    for pause in [Duration::ZERO, Duration::from_millis(500)] {
        let member = Behind::new(server.address()).await;
        let client = connect(member.address).await;
        member.loses_create();
        let mut keeping = Box::pin(PersistentNode::keep(&client, "/node", "a", mode, &acl));
        tokio::select! {
            biased;
            () = owner(&other, "/node", |owner| owner.is_some()) => {}
            _ = &mut keeping => {}
        }
        let _ = tokio::time::timeout(pause, &mut keeping).await;
        drop(keeping);
        owner(&other, "/node", |owner| owner.is_none()).await;
        assert!(!member.is_behind());
    }
}

/// A dropped future leaves no znode, at whatever point it is dropped, also without a connection.
#[tokio::test]
async fn a_node_that_is_given_up_leaves_nothing() {
    let server = Server::start(&[]);
    let gate = Gate::new(server.address()).await;
    let (client, other) = (connect(gate.address).await, connect(server.address()).await);
    create(&other, "/kept", "").await;
    let acl = Acls::creator();
    for polls in 0..12 {
        let mode = CreateMode::Persistent;
        let mut keeping = Box::pin(PersistentNode::keep(&client, "/kept/n", "", mode, &acl));
        for poll in 0..polls {
            // The connection is lost after one of the steps.
            if polls >= 8 && poll == polls - 8 {
                gate.close();
            }
            if tokio::time::timeout(Duration::ZERO, &mut keeping).await.is_ok() {
                break;
            }
            other.sync("/").await.unwrap();
        }
        drop(keeping);
        gate.open();
        let reached = async {
            while client.sync("/").await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        soon(reached).await;
        until_empty(&other, "/kept").await;
    }
}

/// The znode outlives its program by its time to live, and not longer.
#[tokio::test]
async fn a_ttl_node_outlives_its_program() {
    let server =
        Server::start(&["extendedTypesEnabled=true", "znode.container.checkIntervalMs=50"]);
    let (client, other) = (connect(server.address()).await, connect(server.address()).await);
    let (ttl, acl) = (Duration::from_millis(400), Acls::creator());
    let node = soon(TtlNode::keep(&client, "/jobs/7", "a", ttl, &acl)).await.unwrap();
    // Touched repeatedly, the znode lives longer than its time to live.
    let mut touched = Value::of(&other, "/jobs/7/touch");
    let mut writes = 0;
    while writes < 5 {
        writes += i32::from(soon(touched.next()).await.unwrap().is_some());
    }
    let created = other.exists("/jobs/7").await.unwrap().unwrap().czxid;
    assert_eq!(names(&other, "/jobs/7").await, ["touch"]);
    soon(node.set_data("b")).await.unwrap();
    soon(node.close()).await.unwrap();
    assert_eq!(other.exists("/jobs/7").await.unwrap().unwrap().czxid, created);
    owner(&other, "/jobs/7", |owner| owner.is_none()).await;
}

#[tokio::test]
async fn members_see_each_other() {
    let server = Server::start(&[]);
    let (one, two) = (connect(server.address()).await, connect(server.address()).await);
    let [mine, yours] = [&one, &two].map(|it| Group::new(it, "/group", &Acls::creator()));
    let amy = soon(mine.join("amy", "1")).await.unwrap();
    assert!(soon(amy.members()).await.unwrap().contains_key(amy.name()));
    let dom = soon(yours.join("dom", "2")).await.unwrap();
    let mut changes = amy.changes();
    let mut seen = async |wanted: &str| loop {
        match soon(changes.next()).await.unwrap() {
            Change::Created(znode) if wanted == format!("+{}", znode.path) => break,
            Change::Deleted(znode) if wanted == format!("-{}", znode.path) => break,
            Change::Written { now, .. } if wanted == format!("={}", now.path) => break,
            _ => {}
        }
    };
    seen("+/group/dom").await;
    let members = soon(amy.members()).await.unwrap();
    assert_eq!(members.keys().collect::<Vec<_>>(), ["amy", "dom"]);
    assert_eq!((&*members["amy"], &*members["dom"]), (&b"1"[..], &b"2"[..]));
    soon(dom.set_data("3")).await.unwrap();
    seen("=/group/dom").await;
    assert_eq!(soon(amy.members()).await.unwrap()["dom"], "3");
    // A member whose znode another client deletes registers again.
    one.delete("/group/dom", Version::ANY).await.unwrap();
    seen("-/group/dom").await;
    seen("+/group/dom").await;
    two.close().await.unwrap();
    seen("-/group/dom").await;
    assert!(soon(dom.lost()).await.is_session_over());
    drop(dom);
    soon(amy.leave()).await.unwrap();
    assert_eq!(names(&one, "/group").await, [""; 0]);
}

#[tokio::test]
async fn a_barrier_holds_until_it_is_removed() {
    let server = Server::start(&[]);
    let (one, two) = (connect(server.address()).await, connect(server.address()).await);
    let [mine, yours] = [&one, &two].map(|it| Barrier::new(it, "/deep/barrier", &Acls::creator()));
    soon(yours.wait()).await.unwrap();
    soon(mine.set()).await.unwrap();
    soon(mine.set()).await.unwrap();
    let mut waiting = Box::pin(yours.wait());
    let too_early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(too_early.is_err());
    soon(mine.remove()).await.unwrap();
    soon(waiting).await.unwrap();
    soon(mine.remove()).await.unwrap();
    // A process that no longer waits leaves no watch.
    soon(mine.set()).await.unwrap();
    let too_early = tokio::time::timeout(Duration::from_millis(200), yours.wait()).await;
    assert!(too_early.is_err());
    let kind = zebu_client::WatcherType::Any;
    soon(async { while two.check_watches("/deep/barrier", kind).await.unwrap() {} }).await;
}
