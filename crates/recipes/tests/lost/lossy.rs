//! A proxy that loses one answer of the server, and the connection with it, or holds a request
//! back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::frames::{number, read, write};

/// Requests that are held back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Nothing,
    /// The next requests with this opcode.
    Next(i32),
    /// One waits.
    Waiting,
}

/// Forwards connections to a server.
pub struct Lossy {
    pub address: SocketAddr,
    /// Number of answers to forward before one is lost. Negative after it was lost.
    left: Arc<AtomicI64>,
    hold: watch::Sender<Hold>,
}

impl Lossy {
    pub async fn new(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let counter = left.clone();
        let hold = watch::Sender::new(Hold::Nothing);
        let holding = hold.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(target).await else { continue };
                tokio::spawn(forward(client, server, counter.clone(), holding.clone()));
            }
        });
        Self { address, left, hold }
    }

    /// Holds the next request with this opcode back, and all later ones of its connection.
    pub fn hold(&self, op: i32) {
        self.hold.send_replace(Hold::Next(op));
    }

    /// Waits until a request is held back.
    pub async fn holds(&self) {
        let mut hold = self.hold.subscribe();
        hold.wait_for(|hold| *hold == Hold::Waiting).await.expect("the sender lives");
    }

    /// Forwards what was held back.
    pub fn let_go(&self) {
        self.hold.send_replace(Hold::Nothing);
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

async fn forward(
    client: TcpStream,
    server: TcpStream,
    left: Arc<AtomicI64>,
    hold: watch::Sender<Hold>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let mut is_handshake = true;
        while let Ok(frame) = read(&mut from_server).await {
            // Answers to the handshake and to pings are not counted.
            let is_ping = number(&frame, 0) == Some(-2);
            if !is_handshake && !is_ping && left.fetch_sub(1, Ordering::SeqCst) == 0 {
                return;
            }
            is_handshake = false;
            if write(&mut to_client, &frame).await.is_err() {
                return;
            }
        }
    };
    let requests = async {
        let mut is_handshake = true;
        while let Ok(frame) = read(&mut from_client).await {
            let op = number(&frame, 4);
            let next = *hold.borrow();
            if !is_handshake && op.is_some_and(|op| next == Hold::Next(op)) {
                let mut changed = hold.subscribe();
                hold.send_replace(Hold::Waiting);
                if changed.wait_for(|hold| *hold == Hold::Nothing).await.is_err() {
                    return;
                }
            }
            is_handshake = false;
            if write(&mut to_server, &frame).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}
