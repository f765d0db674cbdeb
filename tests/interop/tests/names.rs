//! A host name with several addresses: each address is a server.

use std::fs;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use zebu_interop::deps;
use zebu_interop::run::Program;
use zebu_interop::server::{Kind, Options, PATIENCE, Server, free_port};

/// A second address of the server, which the test can close.
struct Door(Arc<Mutex<Option<Vec<TcpStream>>>>);

impl Door {
    fn open(address: SocketAddr, server: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("an address of this machine");
        let open = Arc::new(Mutex::new(Some(Vec::new())));
        let streams = open.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection");
                let mut streams = streams.lock().expect("nobody panics with it");
                let Some(streams) = &mut *streams else { continue };
                let server = TcpStream::connect(server).expect("the server listens");
                pump(&client, &server);
                pump(&server, &client);
                streams.push(client);
            }
        });
        Self(open)
    }

    /// Number of accepted connections.
    fn count(&self) -> usize {
        self.0.lock().expect("nobody panics with it").as_ref().map_or(0, Vec::len)
    }

    /// Closes all connections, and refuses new ones.
    fn close(&self) {
        for stream in self.0.lock().expect("nobody panics with it").take().into_iter().flatten() {
            // The connection may have ended already; this is ignored.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pump(from: &TcpStream, to: &TcpStream) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor is left");
    let (mut from, mut to) = (clone(from), clone(to));
    thread::spawn(move || {
        // The result does not matter, because the connection has ended.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// CST-02: a name with several addresses stands for one server at each address, all with the same
/// port. A session moves to another of them. The client has its own hosts file, which needs root.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_name_stands_for_all_its_addresses() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: skipped");
        return;
    }
    let server = Server::start(Kind::Zebu, &Options::default()).expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "127.0.0.2 all.zebu.test\n127.0.0.3 all.zebu.test\n").expect("a file");
    let port = free_port();
    let doors = ["127.0.0.2", "127.0.0.3"].map(|host| {
        let address = SocketAddr::new(host.parse().expect("an address"), port);
        Door::open(address, server.address())
    });

    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""]);
    command.arg(&hosts).arg(deps::zebu());
    command.args(["shell", "-timeout", "40000", "-server", &format!("all.zebu.test:{port}")]);
    let mut shell = Program::start(&mut command).expect("it starts");
    shell.say("create -e /mine x").expect("it listens");
    shell.wait_for(PATIENCE, |text| text.contains("Created /mine")).expect("it is created");
    let (used, other) = match doors.each_ref().map(Door::count) {
        [1, 0] => (0, 1),
        [0, 1] => (1, 0),
        counts => panic!("one connection: {counts:?}"),
    };
    doors[used].close();
    let connected = |text: &str| text.matches("state:SyncConnected").count() == 2;
    shell.wait_for(PATIENCE, connected).expect("it finds the other address");
    assert_eq!(doors[other].count(), 1);
    shell.say("getEphemerals").expect("it listens");
    shell.wait_for(PATIENCE, |text| text.contains("[/mine]")).expect("the session is the same");
    shell.say("quit").expect("it listens");
    assert!(shell.finish(PATIENCE).expect("it ends").status.success());
}
