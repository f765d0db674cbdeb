//! A proxy that cuts connections and loses answers on request.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The state of the network.
#[derive(Clone, Copy, Debug)]
struct Weather {
    target: SocketAddr,
    /// Grows with every cut. Connections with a smaller number are closed.
    cuts: u64,
    is_refusing: bool,
    /// Answers are lost, requests are not.
    is_mute: bool,
}

/// Forwards connections to a server.
pub struct Proxy {
    pub address: SocketAddr,
    weather: Arc<watch::Sender<Weather>>,
}

impl Proxy {
    pub async fn new(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let weather = Weather { target, cuts: 0, is_refusing: false, is_mute: false };
        let weather = Arc::new(watch::Sender::new(weather));
        let proxy = Self { address, weather: weather.clone() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let now = *weather.borrow();
                if !now.is_refusing {
                    tokio::spawn(forward(client, now, weather.subscribe()));
                }
            }
        });
        proxy
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Closes all connections, and refuses new ones.
    pub fn refuse(&self) {
        self.weather.send_modify(|weather| {
            weather.is_refusing = true;
            weather.cuts += 1;
        });
    }

    /// Restores the network.
    pub fn heal(&self) {
        self.weather.send_modify(|weather| {
            weather.is_refusing = false;
            weather.is_mute = false;
        });
    }

    /// Loses answers from now on.
    pub fn mute(&self) {
        self.weather.send_modify(|weather| weather.is_mute = true);
    }
}

async fn forward(client: TcpStream, born: Weather, mut weather: watch::Receiver<Weather>) {
    let Ok(server) = TcpStream::connect(born.target).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let seen = weather.clone();
    // Answers of a connection that was cut are lost, even if the network was restored meanwhile.
    let is_lost = move || {
        let now = seen.borrow();
        now.is_mute || now.cuts != born.cuts
    };
    tokio::select! {
        () = pump(from_client, to_server, || false) => {}
        () = pump(from_server, to_client, is_lost) => {}
        _ = weather.wait_for(|weather| weather.cuts != born.cuts) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_lost: impl Fn() -> bool) {
    let mut piece = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        if is_lost() {
            continue;
        }
        if to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}
