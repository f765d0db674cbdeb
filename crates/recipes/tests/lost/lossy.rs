//! A proxy that loses one answer of the server, and the connection with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Forwards connections to a server.
pub struct Lossy {
    pub address: SocketAddr,
    /// Number of answers to forward before one is lost. Negative after it was lost.
    left: Arc<AtomicI64>,
}

impl Lossy {
    pub async fn new(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let counter = left.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(target).await else { continue };
                tokio::spawn(forward(client, server, counter.clone()));
            }
        });
        Self { address, left }
    }

    /// Loses an answer after forwarding this number of others.
    pub fn lose(&self, after: i64) {
        self.left.store(after, Ordering::SeqCst);
    }

    /// Stops losing answers. Returns whether one was lost.
    pub fn heal(&self) -> bool {
        self.left.swap(i64::MAX, Ordering::SeqCst) < 0
    }
}

async fn forward(client: TcpStream, server: TcpStream, left: Arc<AtomicI64>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let mut is_handshake = true;
        loop {
            let Ok(length) = from_server.read_u32().await else { return };
            let mut frame = vec![0; length as usize];
            if from_server.read_exact(&mut frame).await.is_err() {
                return;
            }
            // Answers to the handshake and to pings are not counted.
            let is_ping = frame.starts_with(&(-2_i32).to_be_bytes());
            if !is_handshake && !is_ping && left.fetch_sub(1, Ordering::SeqCst) == 0 {
                return;
            }
            is_handshake = false;
            let mut bytes = length.to_be_bytes().to_vec();
            bytes.extend(frame);
            if to_client.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = answers => {}
    }
}
