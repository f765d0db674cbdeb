//! Read-only servers, simulated by a few lines.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zebu_client::{Connector, ErrorKind, SessionState, Version};

use crate::embedded::Server;
use crate::{reach, soon};

/// A server without a quorum. It accepts read-only clients, and refuses writes.
async fn lonely_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(lonely(stream));
        }
    });
    address
}

async fn lonely(mut stream: TcpStream) -> std::io::Result<()> {
    let hello = frame(&mut stream).await?;
    if hello == b"isro" {
        return stream.write_all(b"ro").await;
    }
    // The last byte tells whether the client accepts a read-only server.
    if hello.last() != Some(&1) {
        return Ok(());
    }
    let mut welcome = vec![0, 0, 0, 37, 0, 0, 0, 0, 0, 0, 0x27, 0x10];
    welcome.extend([0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 16]);
    welcome.extend([1; 17]);
    stream.write_all(&welcome).await?;
    loop {
        let request = frame(&mut stream).await?;
        // Every request except a ping counts as a write: xid, a zxid, not read-only.
        let err: i32 = if request[4..8] == 11_i32.to_be_bytes() { 0 } else { -119 };
        let mut answer = vec![0, 0, 0, 16];
        answer.extend(&request[..4]);
        answer.extend([0; 8]);
        answer.extend(err.to_be_bytes());
        stream.write_all(&answer).await?;
    }
}

async fn frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    if &length == b"isro" {
        return Ok(length.to_vec());
    }
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

/// API-13, ERR-13, SES-29, WAT-05.
#[tokio::test]
async fn a_read_only_server_is_left_for_a_better_one() {
    let lonely = lonely_server().await;
    let mut server = Server::start(&[]);
    server.stop();
    let connector = Connector::new().allow_read_only();
    let servers = format!("{lonely},{}", server.address());
    let client = soon(connector.connect(&servers)).await.unwrap();
    assert_eq!(client.state(), SessionState::ConnectedReadOnly);
    let error = soon(client.set_data("/", "", Version::ANY)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    let mut events = client.session_events();
    // Servers answer the four-letter word for their mode only if it is enabled.
    server.launch(&["4lw.commands.whitelist=isro"]);
    reach(&mut events, SessionState::Connected).await;
    assert_eq!(client.server(), Some(server.address()));
    soon(client.set_data("/", "", Version::ANY)).await.unwrap();
}

/// API-13.
#[tokio::test]
async fn a_read_only_server_is_refused_by_those_who_did_not_ask_for_it() {
    let lonely = lonely_server().await;
    let connector = Connector::new().connection_wait(Duration::from_millis(200));
    let error = soon(connector.connect(&lonely.to_string())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotExecuted);
}
