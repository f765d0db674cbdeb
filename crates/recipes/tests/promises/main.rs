//! The recipes keep their promises without a runtime, without a server, and beside programs that
//! use other libraries.

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in"));
}

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use zebu_client::{Acls, Client, Connector, CreateMode, ErrorKind, Version, blocking};
use zebu_recipes::{
    Agreement, Announcements, Children, Decision, DoubleBarrier, Election, Error, Lock, News,
    Proposal, Queue, Settings,
};

use embedded::Server;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens")
}

fn amy() -> Connector {
    Connector::new().authenticate("digest", "amy:secret")
}

async fn connect(server: &Server) -> Client {
    soon(amy().connect(&server.address().to_string())).await.expect("it connects")
}

/// A place that is dropped by a program without a runtime is deleted, even if several attempts are
/// needed.
#[test]
fn what_is_dropped_without_a_runtime_is_given_back() {
    let mut server = Server::start(&[]);
    let address = server.address().to_string();
    let client = blocking::Client::open(amy(), &address).unwrap();
    let lock = Lock::new(client.asynchronous(), "/lock", &Acls::creator());
    let held = client.wait(lock.exclusive()).unwrap();
    // The first attempt fails, because there is no server.
    let mut events = client.session_events();
    server.stop();
    client.wait_timeout(PATIENCE, events.next()).expect("the connection is lost");
    drop(held);
    server.launch(&[]);
    client.wait_timeout(PATIENCE, client.asynchronous().connected()).unwrap().unwrap();
    let again = client.wait_timeout(PATIENCE, lock.exclusive()).expect("it is free").unwrap();
    client.wait(again.release()).unwrap();
}

/// The same, if the runtime ends before the deletion is done.
#[test]
fn what_is_dropped_with_its_runtime_is_given_back() {
    let server = Server::start(&[]);
    let client = blocking::Client::open(amy(), &server.address().to_string()).unwrap();
    let lock = Lock::new(client.asynchronous(), "/lock", &Acls::creator());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(lock.exclusive()).unwrap();
    runtime.block_on(async { drop(held) });
    drop(runtime);
    let again = client.wait_timeout(PATIENCE, lock.exclusive()).expect("it is free").unwrap();
    client.wait(again.release()).unwrap();
}

/// Without a server, leaving fails in the end, and continues in the background.
#[tokio::test]
async fn giving_back_without_a_server_fails() {
    let mut server = Server::start(&[]);
    let connector = amy().connection_wait(Duration::from_millis(200));
    let client = soon(connector.connect(&server.address().to_string())).await.unwrap();
    let acl = Acls::creator();
    let lock = Lock::new(&client, "/lock", &acl);
    let held = soon(lock.exclusive()).await.unwrap();
    let barrier = DoubleBarrier::new(&client, "/barrier", 2, &acl);
    let (one, two) = tokio::join!(barrier.enter("one"), barrier.enter("two"));
    let (one, two) = (one.unwrap(), two.unwrap());
    // This process waits for the other one when the server stops.
    let mut leaving = tokio::spawn(one.leave());
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut leaving).await.is_err());
    server.stop();
    let is_passing = |error: Error| {
        let Error::Client(error) = error else { panic!("{error}") };
        matches!(error.kind(), ErrorKind::NotExecuted | ErrorKind::Unknown)
    };
    assert!(is_passing(soon(held.release()).await.unwrap_err()));
    assert!(is_passing(soon(two.leave()).await.unwrap_err()));
    assert!(is_passing(soon(leaving).await.unwrap().unwrap_err()));
    server.launch(&[]);
    soon(client.connected()).await.unwrap();
    let mut members = Children::of(&client, "/barrier");
    while soon(members.next()).await.unwrap().is_some_and(|names| names.len() > 1) {}
    soon(soon(lock.exclusive()).await.unwrap().release()).await.unwrap();
}

/// The end of the session is not reported as a deletion by another client.
#[tokio::test]
async fn releasing_after_the_session_says_that_it_is_over() {
    let server = Server::start(&[]);
    let client = connect(&server).await;
    let lock = Lock::new(&client, "/lock", &Acls::creator());
    let held = soon(lock.exclusive()).await.unwrap();
    soon(client.close()).await.unwrap();
    let error = soon(held.release()).await.unwrap_err();
    assert!(error.is_session_over(), "{error}");
}

/// A barrier that was opened for members who are all dead lets no process in.
#[tokio::test]
async fn a_dead_round_leaves_no_barrier_open() {
    let server = Server::start(&[]);
    let acl = Acls::open_to_all();
    let dead = connect(&server).await;
    let barrier = DoubleBarrier::new(&dead, "/barrier", 2, &acl);
    let (one, two) = tokio::join!(barrier.enter("one"), barrier.enter("two"));
    let inside = (one.unwrap(), two.unwrap());
    // A process that comes while members are inside joins them.
    let client = connect(&server).await;
    let barrier = DoubleBarrier::new(&client, "/barrier", 2, &acl);
    let late = soon(barrier.enter("late")).await.unwrap();
    drop(late);
    soon(dead.close()).await.unwrap();
    drop(inside);
    let mut members = Children::of(&client, "/barrier");
    while soon(members.next()).await.unwrap() != Some(["ready".to_owned()].into()) {}

    for _round in 0..2 {
        let mut three = Box::pin(barrier.enter("three"));
        let too_early = tokio::time::timeout(Duration::from_millis(300), &mut three).await;
        assert!(too_early.is_err(), "one alone got in");
        let (three, four) = tokio::join!(soon(three), soon(barrier.enter("four")));
        let (three, four) = tokio::join!(three.unwrap().leave(), four.unwrap().leave());
        three.unwrap();
        four.unwrap();
        assert_eq!(client.get_children("/barrier").await.unwrap().0, [""; 0]);
    }
    let error = soon(barrier.enter("ready")).await.unwrap_err();
    assert!(matches!(error, Error::Name { .. }), "{error}");
}

/// A leaving process waits for the members of its own round. It does not wait for a member that
/// returns under the same name for the next round.
#[tokio::test]
async fn who_leaves_does_not_wait_for_the_next_round() {
    for is_shut in [true, false] {
        let server = Server::start(&[]);
        let acl = Acls::open_to_all();
        let (client, other) = (connect(&server).await, connect(&server).await);
        other.create("/barrier", "", CreateMode::Persistent, &acl).await.unwrap();
        other.create("/barrier/a", "", CreateMode::Ephemeral, &acl).await.unwrap();
        let barrier = DoubleBarrier::new(&client, "/barrier", 2, &acl);
        let inside = soon(barrier.enter("b")).await.unwrap();
        let leaving = tokio::spawn(inside.leave());
        let mut members = Children::of(&client, "/barrier");
        while soon(members.next()).await.unwrap().is_some_and(|names| names.contains("b")) {}
        // The other process leaves or dies, and returns before any watch can be handled.
        let mut transaction = other.transaction();
        if is_shut {
            transaction.delete("/barrier/ready", Version::ANY);
        }
        transaction.delete("/barrier/a", Version::ANY);
        let _ = transaction.create("/barrier/a", "", CreateMode::Ephemeral, &acl);
        transaction.commit().await.unwrap();
        soon(leaving).await.unwrap().unwrap();
    }
}

/// A leaving process also waits for members that have joined later.
#[tokio::test]
async fn who_joins_is_waited_for() {
    let server = Server::start(&[]);
    let acl = Acls::open_to_all();
    let (client, other) = (connect(&server).await, connect(&server).await);
    other.create("/barrier", "", CreateMode::Persistent, &acl).await.unwrap();
    other.create("/barrier/a", "", CreateMode::Ephemeral, &acl).await.unwrap();
    let barrier = DoubleBarrier::new(&client, "/barrier", 2, &acl);
    let early = soon(barrier.enter("b")).await.unwrap();
    let late = soon(barrier.enter("late")).await.unwrap();
    let mut leaving = tokio::spawn(early.leave());
    other.delete("/barrier/a", Version::ANY).await.unwrap();
    let too_early = tokio::time::timeout(Duration::from_millis(300), &mut leaving).await;
    assert!(too_early.is_err(), "one is still inside");
    // A process that comes now joins a member that has itself joined.
    let last = soon(barrier.enter("z")).await.unwrap();
    let (late, last) = tokio::join!(soon(late.leave()), soon(last.leave()));
    late.unwrap();
    last.unwrap();
    soon(leaving).await.unwrap().unwrap();
    assert_eq!(client.get_children("/barrier").await.unwrap().0, [""; 0]);
}

/// Withdrawing a replaced announcement does not delete its successor.
#[tokio::test]
async fn an_old_announcement_leaves_the_new_one() {
    let server = Server::start(&[]);
    let (first, second) = (connect(&server).await, connect(&server).await);
    let acl = Acls::creator();
    let old = Announcements::new(&first, "/leaders", &acl);
    let new = Announcements::new(&second, "/leaders", &acl);
    let one = soon(old.announce("host 1", 7)).await.unwrap();
    let two = soon(old.announce("host 1", 7)).await.unwrap();
    let _newest = soon(new.announce("host 1", 7)).await.unwrap();
    soon(one.withdraw()).await.unwrap();
    drop(two);
    // Dropping deletes in the background, and finishes before the session ends.
    drop(old);
    soon(first.sync("/")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    soon(first.close()).await.unwrap();
    assert_eq!(soon(new.leader()).await.unwrap().unwrap().name, "host 1");
}

/// The same holds for items of a queue: a mark that another worker has made meanwhile stays.
#[tokio::test]
async fn an_old_mark_leaves_the_new_one() {
    let server = Server::start(&[]);
    let (first, second) = (connect(&server).await, connect(&server).await);
    let acl = Acls::creator();
    let (old, new) = (Queue::new(&first, "/queue", &acl), Queue::new(&second, "/queue", &acl));
    soon(old.put("work", 5)).await.unwrap();
    let item = soon(old.take()).await.unwrap();
    let mark = format!("/queue/taken/{}", item.name());
    soon(second.delete(&mark, Version::ANY)).await.unwrap();
    let taken = soon(new.take()).await.unwrap();
    drop(item);
    soon(first.sync("/")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(second.exists(&mark).await.unwrap().is_some());
    soon(taken.finish()).await.unwrap();
}

/// A setting cannot have the reserved name that makes readers wait.
#[tokio::test]
async fn no_setting_makes_readers_wait() {
    let server = Server::start(&[]);
    let client = connect(&server).await;
    let mut settings = Settings::new(&client, "/config", &Acls::creator());
    for name in ["invalid", "a/b", ""] {
        let changes = [("host", Some("db1")), (name, Some("1"))];
        let error = soon(settings.set(&changes)).await.unwrap_err();
        assert!(matches!(error, Error::Name { .. }), "{error}");
    }
    soon(settings.set(&[("host", Some("db1"))])).await.unwrap();
    assert_eq!(soon(settings.next()).await.unwrap().values["host"], b"db1");
}

/// Names of participants may contain any characters.
#[tokio::test]
async fn participants_with_blanks_decide() {
    let server = Server::start(&[]);
    let client = connect(&server).await;
    let agreement = Agreement::new(&client, "/deed", &Acls::creator());
    let participants: BTreeSet<String> = ["amy b", "100%", "é"].map(str::to_owned).into();
    let proposal = Proposal { participants: participants.clone(), text: "do\nit".into() };
    soon(agreement.propose(&proposal)).await.unwrap();
    assert_eq!(soon(agreement.proposal()).await.unwrap(), Some(proposal));
    for participant in &participants {
        soon(agreement.vote(participant, true)).await.unwrap();
    }
    assert_eq!(soon(agreement.decision()).await.unwrap(), Decision::Commit);
    let other = Agreement::new(&client, "/other", &Acls::creator());
    let participants = ["a/b".to_owned()].into();
    let proposal = Proposal { participants, text: String::new() };
    let error = soon(other.propose(&proposal)).await.unwrap_err();
    assert!(matches!(error, Error::Name { .. }), "{error}");
}

/// A holder that is asked to release the lock keeps its name.
#[tokio::test]
async fn who_is_asked_keeps_its_name() {
    let server = Server::start(&[]);
    let client = connect(&server).await;
    let acl = Acls::creator();
    let election = Election::new(&client, "/leader", &acl);
    let mut leading = soon(election.lead("host 1")).await.unwrap();
    let lock = Lock::new(&client, "/leader", &acl);
    assert_eq!(soon(lock.ask_back()).await.unwrap(), 1);
    assert_eq!(soon(leading.news()).await, News::Wanted);
    assert_eq!(soon(election.leader()).await.unwrap().unwrap().name, "host 1");
    soon(leading.release()).await.unwrap();
    // Other libraries write this word to ask for the lock.
    let mut leading = soon(election.lead("host 2")).await.unwrap();
    soon(client.set_data(leading.path(), "unlock", Version::ANY)).await.unwrap();
    assert_eq!(soon(leading.news()).await, News::Wanted);
}

/// A worker that is stuck as the first in line does not keep the others from the items.
#[tokio::test]
async fn one_who_stands_still_stops_nobody() {
    let server = Server::start(&[]);
    let acl = Acls::creator();
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    let [still, next, putting] = clients.each_ref().map(|it| Queue::new(it, "/queue", &acl));
    soon(putting.prepare()).await.unwrap();
    // The future is polled until the worker is the first in line, and then no more.
    let mut standing = Box::pin(still.take());
    let is_first = async {
        let lock = Lock::new(&clients[2], "/queue/line", &acl);
        while lock.line().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        item = &mut standing => panic!("{item:?}"),
        () = is_first => {}
    }
    let start = Instant::now();
    soon(putting.put("one", 5)).await.unwrap();
    soon(putting.put("two", 5)).await.unwrap();
    soon(soon(next.take()).await.unwrap().finish()).await.unwrap();
    println!("taken after {:?}", start.elapsed());
    // A worker that continues takes an item that is left, or waits behind the others.
    soon(soon(&mut standing).await.unwrap().finish()).await.unwrap();
    assert!(soon(putting.is_empty()).await.unwrap());
}

/// Locks of kazoo and Curator do not wait for this crate's locks, so this lock is refused beside
/// them.
#[tokio::test]
async fn no_lock_is_taken_beside_those_of_other_libraries() {
    let server = Server::start(&[]);
    let client = connect(&server).await;
    let acl = Acls::creator();
    for (path, name) in [
        ("/kazoo", "cdd6ea2c8b0e4a7d9b34b0a7a1c0f7d2__lock__"),
        ("/kazoo-reader", "cdd6ea2c8b0e4a7d9b34b0a7a1c0f7d2__rlock__"),
        ("/curator", "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa-__WRIT__"),
        ("/curator-reader", "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa-__READ__"),
        ("/curator-mutex", "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa-lock-"),
    ] {
        client.create_all(path, &acl).await.unwrap();
        let mode = CreateMode::EphemeralSequential;
        let theirs = client.create(&format!("{path}/{name}"), "", mode, &acl).await.unwrap().path;
        let lock = Lock::new(&client, path, &acl);
        for error in [
            soon(lock.exclusive()).await.unwrap_err(),
            soon(lock.shared()).await.unwrap_err(),
            soon(lock.try_exclusive()).await.unwrap_err(),
            soon(lock.try_shared()).await.unwrap_err(),
        ] {
            assert_eq!(error, Error::Foreign(theirs.clone()));
        }
        // Their line contains no znode of this lock.
        let mut line = Children::of(&client, path);
        while soon(line.next()).await.unwrap().is_some_and(|names| names.len() > 1) {}
        soon(client.delete(&theirs, Version::ANY)).await.unwrap();
        soon(soon(lock.exclusive()).await.unwrap().release()).await.unwrap();
    }
}
