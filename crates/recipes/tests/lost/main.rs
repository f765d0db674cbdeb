//! Recipes while one answer is lost: whichever answer it is, each operation happens once.

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in"));
}
mod frames;
mod lossy;

use std::collections::BTreeSet;
use std::time::Duration;

use zebu_client::{Acls, Client, Connector, CreateMode, Version};
use zebu_recipes::{
    Agreement, Announcements, Decision, DoubleBarrier, Error, Ids, Lock, News, PersistentNode,
    Proposal, Queue, Settings,
};

use embedded::Server;
use lossy::Lossy;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens")
}

async fn connect(servers: impl ToString) -> Client {
    let connector = Connector::new().authenticate("digest", "amy:secret");
    soon(connector.connect(&servers.to_string())).await.expect("it connects")
}

/// Repeats an operation: the first answer is lost, then the second, and so on, until the operation
/// needs no further answers.
///
/// `act` gets a client whose answers are lost, and the path of a znode. `check` gets another client
/// and the same path.
async fn with_every_answer_lost<T>(
    act: impl AsyncFn(&Client, &str) -> Result<T, Error>,
    check: impl AsyncFn(&Client, &str, T),
) {
    let server = Server::start(&[]);
    let network = Lossy::new(server.address()).await;
    let observer = connect(server.address()).await;
    for lost in 0.. {
        let path = format!("/n{lost}");
        let client = connect(network.address).await;
        // The answer to the credentials has arrived.
        client.sync("/").await.unwrap();
        network.lose(lost);
        let result = soon(act(&client, &path)).await;
        let is_lost = network.heal();
        let result = result.unwrap_or_else(|error| panic!("answer {lost} lost: {error}"));
        soon(check(&observer, &path, result)).await;
        soon(client.close()).await.unwrap();
        if !is_lost {
            assert!(lost > 1, "nothing was ever lost");
            return;
        }
    }
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    client.get_children(path).await.unwrap().0
}

/// Waits for work that is done in the background.
async fn until_empty(client: &Client, path: &str) {
    let mut children = zebu_recipes::Children::of(client, path);
    while children.next().await.unwrap().is_some_and(|names| !names.is_empty()) {}
}

#[tokio::test]
async fn a_lock_is_taken_and_given_back_once() {
    with_every_answer_lost(
        async |client, path| {
            let lock = Lock::new(client, path, &Acls::creator());
            let held = lock.exclusive().await?;
            assert_eq!(lock.line().await?.len(), 1);
            held.release().await?;
            let shared = lock.try_shared().await?.expect("it is free");
            shared.release().await
        },
        async |observer, path, ()| assert_eq!(names(observer, path).await, [""; 0]),
    )
    .await;
}

#[tokio::test]
async fn an_item_is_put_in_and_finished_once() {
    with_every_answer_lost(
        async |client, path| {
            let queue = Queue::new(client, path, &Acls::creator());
            queue.put("one", 1).await?;
            queue.put("two", 2).await?;
            let item = queue.take().await?;
            assert_eq!(item.data(), b"one");
            let log = format!("{path}/log-");
            item.finish_with(|transaction| {
                let mode = CreateMode::PersistentSequential;
                transaction.create(&log, "", mode, &Acls::creator());
            })
            .await
        },
        async |observer, path, ()| {
            assert_eq!(names(observer, &format!("{path}/items")).await.len(), 1);
            assert_eq!(names(observer, &format!("{path}/taken")).await, [""; 0]);
            let found = names(observer, path).await;
            assert_eq!(found.iter().filter(|name| name.starts_with("log-")).count(), 1);
            until_empty(observer, &format!("{path}/puts")).await;
            until_empty(observer, &format!("{path}/line")).await;
        },
    )
    .await;
}

#[tokio::test]
async fn numbers_are_given_out_once() {
    with_every_answer_lost(
        async |client, path| {
            let ids = Ids::new(client, path, &Acls::creator());
            Ok((ids.take(5).await?, ids.take(5).await?))
        },
        async |observer, path, (one, two)| {
            assert!(one.end <= two.start, "{one:?} {two:?}");
            let next = Ids::new(observer, path, &Acls::creator()).take(1).await.unwrap();
            assert_eq!(next.start, two.end);
        },
    )
    .await;
}

#[tokio::test]
async fn a_barrier_is_entered_and_left_once() {
    with_every_answer_lost(
        async |client, path| {
            for _ in 0..2 {
                let barrier = DoubleBarrier::new(client, path, 1, &Acls::creator());
                barrier.enter("me").await?.leave().await?;
            }
            Ok(())
        },
        async |observer, path, ()| assert_eq!(names(observer, path).await, [""; 0]),
    )
    .await;
}

#[tokio::test]
async fn settings_are_written_and_read() {
    with_every_answer_lost(
        async |client, path| {
            let mut settings = Settings::new(client, path, &Acls::creator());
            // Writing the same settings twice does no harm.
            let set = async || {
                while let Err(error) = settings.set(&[("a", Some("1")), ("b", Some("2"))]).await {
                    assert!(matches!(error, Error::Client(_)), "{error}");
                }
            };
            set().await;
            settings.next().await
        },
        async |_, _, snapshot| {
            assert_eq!(snapshot.values.len(), 2);
            assert_eq!(
                (snapshot.values["a"].as_slice(), snapshot.values["b"].as_slice()),
                (&b"1"[..], &b"2"[..])
            );
        },
    )
    .await;
}

#[tokio::test]
async fn votes_and_decisions_count_once() {
    with_every_answer_lost(
        async |client, path| {
            let agreement = Agreement::new(client, path, &Acls::creator());
            let participants = BTreeSet::from(["a".to_owned()]);
            let proposal = Proposal { participants, text: "deed".into() };
            if agreement.propose(&proposal).await.is_err() {
                assert_eq!(agreement.proposal().await?, Some(proposal));
            }
            agreement.vote("a", true).await?;
            agreement.decision().await
        },
        async |observer, path, decision| {
            assert_eq!(decision, Decision::Commit);
            let agreement = Agreement::new(observer, path, &Acls::creator());
            assert_eq!(agreement.abort().await.unwrap(), Decision::Commit);
        },
    )
    .await;
}

/// A contender that gives up before its answer arrives leaves no znode, and does not block others.
#[tokio::test]
async fn who_gives_up_leaves_the_line() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let lock = Lock::new(&client, "/lock", &Acls::creator());
    let held = lock.exclusive().await.unwrap();
    for polls in 0..10 {
        // The future is polled this number of times, then dropped.
        let mut waiting = Box::pin(lock.exclusive());
        for _ in 0..polls {
            assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
            tokio::task::yield_now().await;
        }
    }
    // A place behind all others, which becomes the first when they are gone.
    let last = tokio::spawn({
        let lock = lock.clone();
        async move { lock.exclusive().await }
    });
    held.release().await.unwrap();
    soon(last).await.unwrap().unwrap().release().await.unwrap();
    until_empty(&client, "/lock").await;
}

/// PAI-05: each contender watches one other contender, and none is watched by two.
#[tokio::test]
async fn there_is_no_herd() {
    let server = Server::start(&["4lw.commands.whitelist=*"]);
    let client = connect(server.address()).await;
    let lock = Lock::new(&client, "/lock", &Acls::creator());
    let held = lock.exclusive().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let client = connect(server.address()).await;
        let lock = Lock::new(&client, "/lock", &Acls::creator());
        waiting.push(tokio::spawn(async move {
            let held = lock.exclusive().await?;
            held.release().await?;
            Ok::<_, Error>(client.close().await?)
        }));
    }
    let watches = || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"wchp").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let start = std::time::Instant::now();
    let text = loop {
        let text = watches();
        if text.lines().filter(|line| line.starts_with("\t0x")).count() >= 5 {
            break text;
        }
        assert!(start.elapsed() < PATIENCE, "{text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let watched: Vec<&str> = text.lines().filter(|line| line.starts_with('/')).collect();
    assert_eq!(watched.len(), 5, "{text}");
    assert!(watched.iter().all(|path| path.starts_with("/lock/")), "{text}");
    // The lock passes to the next contender.
    held.release().await.unwrap();
    for waiting in waiting {
        soon(waiting).await.unwrap().unwrap();
    }
}

/// The news of a holder while connections are lost and restored.
#[tokio::test]
async fn a_holder_is_told_how_it_stands() {
    let mut server = Server::start(&[]);
    let client = connect(server.address()).await;
    let lock = Lock::new(&client, "/lock", &Acls::creator());
    let mut held = lock.exclusive().await.unwrap();
    let quiet = tokio::time::timeout(Duration::from_millis(20), held.news()).await;
    assert!(quiet.is_err());
    server.stop();
    assert_eq!(soon(held.news()).await, News::Suspended);
    server.launch(&[]);
    assert_eq!(soon(held.news()).await, News::Resumed);
    // The request comes while the holder does not listen. The holder is told once.
    let other = connect(server.address()).await;
    let same = Lock::new(&other, "/lock", &Acls::creator());
    assert_eq!(same.ask_back().await.unwrap(), 1);
    assert_eq!(soon(held.news()).await, News::Wanted);
    assert_eq!(same.ask_back().await.unwrap(), 1);
    other.delete(held.path(), Version::ANY).await.unwrap();
    assert_eq!(soon(held.news()).await, News::Lost);
    assert!(matches!(held.release().await, Err(Error::Deleted(_))));
    let mut held = lock.exclusive().await.unwrap();
    client.close().await.unwrap();
    assert_eq!(soon(held.news()).await, News::Lost);
}

/// RCP-19: an announcement exists once, whichever answer is lost.
#[tokio::test]
async fn an_announcement_stands_once() {
    with_every_answer_lost(
        async |client, path| {
            Announcements::new(client, path, &Acls::creator()).announce("me", 7).await
        },
        async |observer, path, announced| {
            let leaders = Announcements::new(observer, path, &Acls::creator());
            let leader = leaders.leader().await.unwrap().unwrap();
            assert_eq!((leader.name.as_str(), leader.term), ("me", 7));
            assert_eq!(names(observer, path).await.len(), 1);
            announced.withdraw().await.unwrap();
            assert_eq!(leaders.leader().await.unwrap(), None);
        },
    )
    .await;
}

/// RCP-19: the resource's lock decides, not the session. Its holder continues to lead with another
/// session, and a late announcement does not hide the current leader's.
#[tokio::test]
async fn who_holds_the_resources_lock_leads() {
    let server = Server::start(&[]);
    let lock = std::sync::Arc::new(tokio::sync::Mutex::new(0_u64));
    let (first, second) = (connect(server.address()).await, connect(server.address()).await);
    let acl = Acls::creator();
    let leaders = Announcements::new(&second, "/leaders", &acl);
    let leader = async || soon(leaders.leader()).await.unwrap().map(|leader| leader.name);

    let mut held = lock.clone().lock_owned().await;
    *held += 1;
    let firsts = Announcements::new(&first, "/leaders", &acl);
    let announced = soon(firsts.announce("first", *held)).await.unwrap();
    assert_eq!(leader().await.as_deref(), Some("first"));
    // The old session ends later. The leader continues to lead, and its new announcement counts.
    let again = connect(server.address()).await;
    let firsts = Announcements::new(&again, "/leaders", &acl);
    let announced_again = soon(firsts.announce("first", *held)).await.unwrap();
    let [name] = &names(&second, "/leaders").await[..] else { panic!("one announcement") };
    let stat = second.exists(&format!("/leaders/{name}")).await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, again.session_id().0);

    // The next contender gets the lock.
    let late = *held;
    drop(held);
    let mut held = lock.lock_owned().await;
    *held += 1;
    let _announced_too = soon(leaders.announce("second", *held)).await.unwrap();
    assert_eq!(leader().await.as_deref(), Some("second"));
    soon(announced_again.withdraw()).await.unwrap();
    let _late = soon(firsts.announce("first", late)).await.unwrap();
    assert_eq!(leader().await.as_deref(), Some("second"));
    drop(announced);
}

/// The opcode of a delete.
const DELETE: i32 = 2;

/// Another client replaces the znode after the recipe has seen its own one, and before the recipe
/// deletes it.
#[tokio::test]
async fn a_written_znode_in_the_place_of_a_closed_one_stays() {
    let server = Server::start(&[]);
    let network = Lossy::new(server.address()).await;
    let (client, other) = (connect(network.address).await, connect(server.address()).await);
    let (mode, acl) = (CreateMode::Ephemeral, Acls::creator());
    let node = soon(PersistentNode::keep(&client, "/a", "", mode, &acl)).await.unwrap();
    network.hold(DELETE);
    let closing = tokio::spawn(node.close());
    soon(network.holds()).await;
    soon(other.delete("/a", Version::ANY)).await.unwrap();
    soon(other.create("/a", "", mode, &acl)).await.unwrap();
    soon(other.set_data("/a", "theirs", Version::ANY)).await.unwrap();
    network.let_go();
    soon(closing).await.unwrap().unwrap();
    assert_eq!(soon(other.get_data("/a")).await.unwrap().0, "theirs");
}
