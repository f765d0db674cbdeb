//! A simulated server without a quorum: it accepts read-only clients, and refuses writes.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zebu_testkit::wire::{Writer, frame, op};

/// The error of a write.
const NOT_READ_ONLY: i32 = -119;

/// Starts one.
pub async fn lonely_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let hello = receive(&mut stream).await?;
    if hello == b"isro" {
        return stream.write_all(b"ro").await;
    }
    // It takes no longer connect request than the original's. The last byte of that tells whether
    // the client accepts a read-only server.
    if hello.last() != Some(&1) {
        return Ok(());
    }
    let welcome = Writer::new().int(0).int(10_000).long(7).buffer(&[1; 16]).bool(true);
    stream.write_all(&frame(welcome.bytes())).await?;
    loop {
        let request = receive(&mut stream).await?;
        // Every request except a ping counts as a write.
        let err = if request[4..8] == op::PING.to_be_bytes() { 0 } else { NOT_READ_ONLY };
        let reply = Writer::new().raw(&request[..4]).long(0).int(err);
        stream.write_all(&frame(reply.bytes())).await?;
    }
}

/// The next frame, or the four-letter word.
async fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    if &length == b"isro" {
        return Ok(length.to_vec());
    }
    let mut payload = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut payload).await?;
    Ok(payload)
}
