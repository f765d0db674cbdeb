//! The client keeps its promises if the application is busy, ends early, or has no server.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use tokio::net::{TcpSocket, TcpStream};
use zebu_client::{
    Acls, Client, Connector, CreateMode, Ending, ErrorCode, ErrorKind, SessionId, SessionState,
    SessionThread, Version, blocking,
};

use crate::embedded::Server;
use crate::{QUICK, connect, soon};

const SHORT: Duration = Duration::from_secs(2);

/// Blocks a thread for longer than a session's timeout.
fn compute() {
    let start = Instant::now();
    while start.elapsed() < SHORT * 2 {
        std::hint::spin_loop();
    }
}

/// The znodes of a session whose application computes on its runtime.
async fn survives(server: &Server) {
    let client = connect(server.address(), SHORT).await;
    assert_eq!(client.session_timeout(), SHORT);
    soon(client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator())).await.unwrap();
    compute();
    assert_eq!(client.state(), SessionState::Connected);
    let (_, stat) = soon(client.get_data("/mine")).await.unwrap();
    assert_eq!(stat.ephemeral_owner, client.session_id().0);
}

/// SES-10: heartbeats continue while the application blocks the only thread of its runtime.
#[test]
fn a_busy_runtime_of_one_thread_costs_no_session() {
    let server = Server::start(QUICK);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(survives(&server));
}

/// SES-10: the same with several blocked threads.
#[test]
fn a_busy_runtime_of_several_threads_costs_no_session() {
    let server = Server::start(QUICK);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let others = [(); 2].map(|()| tokio::spawn(async { compute() }));
        survives(&server).await;
        for other in others {
            other.await.unwrap();
        }
    });
}

/// A session needs nothing from its caller, not even a runtime.
#[test]
fn a_session_needs_no_runtime() {
    let server = Server::start(&[]);
    let thread = SessionThread::start().unwrap();
    let connector = Connector::new().on_thread(&thread);
    let client = connector.start(&server.address().to_string()).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let asking = client.unowned();
    thread.spawn(async move { sender.send(asking.get_children("/").await) });
    let (names, _) = receiver.recv().unwrap().unwrap();
    assert_eq!(names, ["zookeeper"]);
}

/// Number of sessions, as the server counts them.
fn sessions(observer: &blocking::Client) -> usize {
    observer.get_children("/").unwrap().0.iter().filter(|name| name.starts_with("m-")).count()
}

/// API-10: dropping a client closes its session, even if the client's runtime ends at once. The
/// server knows when the program continues.
#[test]
fn dropped_clients_leave_no_session() {
    let server = Server::start(&[]);
    let address = server.address().to_string();
    let observer = blocking::Client::connect(&address).unwrap();
    let mode = CreateMode::EphemeralSequential;
    for _ in 0..20 {
        let client = blocking::Client::connect(&address).unwrap();
        client.create("/m-", "", mode, &Acls::open_to_all()).unwrap();
        drop(client);
        assert_eq!(sessions(&observer), 0);
    }
    for is_last in [true, false].repeat(10) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let client = Client::connect(&address).await.unwrap();
            client.create("/m-", "", mode, &Acls::open_to_all()).detach();
            is_last.then_some(client)
        });
        // Outside of the runtime, the drop waits for the answer. Within it, the request was at
        // least sent.
        let was_inside = client.is_none();
        drop(runtime);
        drop(client);
        let start = Instant::now();
        while sessions(&observer) > 0 {
            assert!(was_inside && start.elapsed() < Duration::from_secs(20));
        }
    }
}

/// SES-17: closing does not wait for an unreachable server.
#[test]
fn a_client_without_a_server_is_dropped_soon() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = blocking::Client::start(
        Connector::new().session_timeout(Duration::from_secs(60)),
        &nobody.local_addr().unwrap().to_string(),
    );
    let start = Instant::now();
    drop(client);
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// SES-24: credentials wait for a connection no longer than any other request, and are sent on the
/// next one.
#[tokio::test]
async fn credentials_do_not_wait_for_ever() {
    let mut server = Server::start(&[]);
    let address = server.address().to_string();
    let maker = connect(&address, Duration::from_secs(10)).await;
    soon(maker.create("/amys", "", CreateMode::Persistent, &Acls::creator())).await.unwrap();
    server.stop();
    let wait = Duration::from_millis(200);
    let client = Connector::new().connection_wait(wait).start(&address).unwrap();
    troubled(&client).await;
    let error = soon(client.authenticate("digest", "amy:secret")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotExecuted);
    server.launch(&[]);
    soon(client.connected()).await.unwrap();
    soon(client.get_data("/amys")).await.unwrap();
}

/// A caller that waits for a connection learns why there is none.
#[tokio::test]
async fn a_server_that_refuses_is_named() {
    // No server listens on port 1.
    let wait = Duration::from_millis(300);
    let client = Connector::new().connection_wait(wait).start("127.0.0.1:1").unwrap();
    troubled(&client).await;
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotExecuted);
    let reason = error.reason().unwrap();
    assert!(reason.starts_with("127.0.0.1:1: Connection refused"), "{reason}");
    assert_eq!(client.trouble().as_deref(), Some(reason));
    // A server that accepts connections and closes them gives no reason.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let client = Connector::new().connection_wait(wait).start(&address).unwrap();
    troubled(&client).await;
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert!(error.reason().is_some_and(|reason| reason.starts_with(&address)), "{error}");
    // A server that never answers: its listener has no room for another connection.
    let (deaf, _waiting) = deaf().await;
    let client = Connector::new().connection_wait(wait).start(&deaf.to_string()).unwrap();
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert_eq!(error.reason(), Some(format!("{deaf}: no answer yet").as_str()));
}

/// A listener that accepts nothing: waiting connections fill its queue.
async fn deaf() -> (SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    loop {
        let connection = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(500), connection).await {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_) => return (address, (listener, waiting)),
        }
    }
}

/// Waits until an attempt to connect has failed, however long that takes.
async fn troubled(client: &Client) {
    soon(async {
        while client.trouble().is_none_or(|why| why.ends_with("no answer yet")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// SES-19: session 0 does not exist. The client ends instead of looking for it forever.
#[tokio::test]
async fn a_ticket_of_no_session_is_refused() {
    let server = Server::start(&[]);
    let address = server.address().to_string();
    let mut ticket = soon(Client::connect(&address)).await.unwrap().leave().unwrap();
    ticket.id = SessionId::NONE;
    let error = soon(Connector::new().resume(ticket).connect(&address)).await.unwrap_err();
    assert_eq!((error.kind(), error.ending()), (ErrorKind::SessionOver, Some(Ending::Expired)));
}

/// CST-04: the client's root stays a prefix of all paths created below it.
#[tokio::test]
async fn a_chroot_is_not_deleted_and_not_left() {
    let server = Server::start(&[]);
    let outside = connect(server.address(), Duration::from_secs(10)).await;
    for path in ["/app/one", "/apple"] {
        soon(outside.create_all(path, &Acls::creator())).await.unwrap();
    }
    let inside = connect(format!("{}/app", server.address()), Duration::from_secs(10)).await;
    let mut transaction = inside.transaction();
    transaction.delete("/one", Version::ANY).delete("/", Version::ANY);
    for error in [
        soon(inside.delete("/", Version::ANY)).await.unwrap_err(),
        soon(inside.delete_all("/")).await.unwrap_err(),
        soon(transaction.commit()).await.unwrap_err(),
        // No znode was created outside of the chroot either.
        soon(outside.delete_all("/")).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, ErrorCode::BAD_ARGUMENTS));
        assert_eq!(error.path(), Some("/"));
    }
    assert!(soon(outside.exists("/app/one")).await.unwrap().is_some());

    let (mode, acl) = (CreateMode::EphemeralSequential, Acls::creator());
    let made = soon(inside.create("/", "", mode, &acl)).await.unwrap();
    let protected = soon(inside.create_protected("/", "", mode, &acl)).await.unwrap();
    let mut transaction = inside.transaction();
    let ticket = transaction.create("/", "", mode, &acl);
    let results = soon(transaction.commit()).await.unwrap();
    let mut mine = vec![made.path, protected.path, results.get(ticket).path.clone()];
    let (mut names, _) = soon(outside.get_children("/")).await.unwrap();
    names.sort();
    assert_eq!(names, ["app", "apple", "zookeeper"]);
    let (names, _) = soon(inside.get_children("/")).await.unwrap();
    let mut children: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
    children.retain(|name| name != "/one");
    children.sort();
    mine.sort();
    assert_eq!(children, mine);
    let mut ephemerals = soon(inside.ephemerals("/")).await.unwrap();
    ephemerals.sort();
    assert_eq!(ephemerals, mine);
}
