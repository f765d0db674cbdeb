//! An ensemble in this process, for one test.

use std::net::{Ipv4Addr, TcpListener};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Client, DEADLINE, Hello};
use crate::running::Running;

/// So many ports nobody listens on.
pub fn ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Two voters and an observer, which serve; and where their data are.
pub fn ensemble(settings: &[&str]) -> (TempDir, Vec<Running>) {
    let ports = ports::<6>();
    let roles = ["participant", "participant", "observer"];
    let lines = (1..).zip(ports.chunks(2)).zip(roles).map(|((id, ports), role)| {
        format!("server.{id}=127.0.0.1:{}:{}:{role}", ports[0], ports[1])
    });
    let lines: Vec<String> = lines.collect();
    let mut all = vec!["initLimit=1000", "syncLimit=1000"];
    all.extend(lines.iter().map(String::as_str));
    all.extend(settings);
    let dir = tempfile::tempdir().unwrap();
    let start = |id: usize| {
        let path = dir.path().join(id.to_string());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("myid"), id.to_string()).unwrap();
        Running::on(&path, &all)
    };
    let members: Vec<Running> = (1..=3).map(start).collect();
    for member in &members {
        client_of(member).close();
    }
    (dir, members)
}

/// A client of a member, as soon as it serves.
pub fn client_of(member: &Running) -> Client {
    let start = Instant::now();
    loop {
        match Client::hello(member.port, &Hello::timeout(30_000)) {
            Ok(client) => return client,
            Err(_) => assert!(start.elapsed() < DEADLINE, "it does not serve"),
        }
        sleep(Duration::from_millis(20));
    }
}
