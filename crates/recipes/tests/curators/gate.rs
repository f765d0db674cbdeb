//! A proxy that can cut the network.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections to a server while the gate is open.
pub struct Gate {
    pub address: SocketAddr,
    is_open: watch::Sender<bool>,
}

impl Gate {
    pub async fn new(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_open = watch::Sender::new(true);
        let opened = is_open.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut opened = opened.subscribe();
                if !*opened.borrow_and_update() {
                    continue;
                }
                let Ok(mut server) = TcpStream::connect(target).await else { continue };
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = opened.wait_for(|is_open| !is_open) => {}
                    }
                });
            }
        });
        Self { address, is_open }
    }

    /// Cuts all connections and refuses new ones.
    pub fn close(&self) {
        self.is_open.send_replace(false);
    }

    pub fn open(&self) {
        self.is_open.send_replace(true);
    }
}
