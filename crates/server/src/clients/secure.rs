//! TLS for clients: a separate thread does the handshakes, so that established connections do not
//! wait for them.
//!
//! A connection comes from the TLS port, or from the port that accepts both TLS and plain text. It
//! moves to a network worker when its kind and its certificate are known. Until then it has the
//! time limit of a first request. It also occupies one of a limited number of places, of which one
//! address can have only a part.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tracing::{info, warn};
use zebu_auth::certificate::Facts;
use zebu_auth::tls::{HostnameError, verify_hostname};
use zebu_transport::{Begins, HandshakeError, Parked, Port, Secured, secure, sort};

use super::workers::{ACCEPT_PAUSE, Arrivals, Warnings};
use crate::config::ClientTlsConfig;
use crate::error::StartError;
use crate::shared::{Shared, StopOnPanic};

/// Default maximum number of simultaneous handshakes.
const HANDSHAKES_MAX: u32 = 1000;
/// The share of all places that one address may have.
const SHARE_OF_ADDRESS: u32 = 4;

/// A connection after its handshake, with the client's certificate if the client has sent one.
pub struct Known {
    /// The connection.
    pub parked: Parked,
    /// The client's address.
    pub peer: SocketAddr,
    /// The time of its accept.
    pub accepted: Instant,
    /// The facts of the client's certificate.
    pub certificate: Option<Facts>,
}

/// Why a connection is closed during its handshake.
#[derive(Debug, thiserror::Error)]
enum Refused {
    /// The connection has failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The handshake has failed.
    #[error("no TLS: {0}")]
    Handshake(#[from] HandshakeError),
    /// The certificate does not belong to the client's address.
    #[error("no TLS: {0}")]
    Hostname(#[from] HostnameError),
    /// The client has sent too little.
    #[error("no TLS handshake in time")]
    Late,
}

/// A connection before its handshake.
enum Arrival {
    /// The listener of the TLS port.
    Listener(std::net::TcpListener),
    /// A connection of the port for both kinds.
    Mixed(std::net::TcpStream, SocketAddr),
}

/// The sender to the thread.
#[derive(Clone)]
pub struct Gate(UnboundedSender<Arrival>);

impl Gate {
    /// Lets the thread accept connections with TLS until the server stops.
    pub fn listen(&self, listener: std::net::TcpListener) {
        let _ = self.0.send(Arrival::Listener(listener)); // gone only when all stop
    }

    /// Lets the thread examine a connection of the port for both kinds.
    pub fn sort(&self, socket: std::net::TcpStream, peer: SocketAddr) {
        let _ = self.0.send(Arrival::Mixed(socket, peer)); // likewise
    }
}

/// The thread before its start.
pub struct Handshakes {
    port: Arc<Port>,
    gate: Gate,
    from: UnboundedReceiver<Arrival>,
    runtime: tokio::runtime::Runtime,
}

impl Handshakes {
    /// Reads the certificates.
    ///
    /// # Errors
    /// The certificates cannot be used, or a resource of the system is exhausted.
    pub fn new(config: &ClientTlsConfig) -> Result<Self, StartError> {
        let port = Arc::new(Port::new("TLS for clients", config.files.clone())?);
        let (to, from) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| StartError::System { what: "the thread for TLS", source })?;
        Ok(Self { port, gate: Gate(to), from, runtime })
    }

    /// The sender to the thread.
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Runs until the server stops. After the handshake, a connection moves to `workers`.
    pub fn run(mut self, shared: &Arc<Shared>, config: &ClientTlsConfig, workers: Arrivals) {
        let _ = shared.clients.tls_port.set(self.port.clone());
        let desk = Arc::new(Desk {
            shared: shared.clone(),
            port: self.port,
            workers,
            config: config.clone(),
            places: Places::new(config.handshakes_max.unwrap_or(HANDSHAKES_MAX)),
        });
        self.runtime.block_on(async {
            let port = desk.port.clone();
            let reloads = config.reloads;
            tokio::spawn(async move { port.watch(reloads).await });
            loop {
                let arrival = tokio::select! {
                    biased;
                    _ = shared.ending.stopped() => return,
                    arrival = self.from.recv() => arrival,
                };
                match arrival {
                    None => return,
                    Some(Arrival::Listener(listener)) => {
                        tokio::spawn(desk.clone().accept(listener));
                    }
                    Some(Arrival::Mixed(socket, peer)) => {
                        if let Ok(socket) = TcpStream::from_std(socket) {
                            desk.clone().begin(socket, peer, true);
                        }
                    }
                }
            }
        });
        self.runtime.shutdown_timeout(Duration::from_millis(100));
    }
}

/// The state that handshakes share.
struct Desk {
    shared: Arc<Shared>,
    port: Arc<Port>,
    workers: Arrivals,
    config: ClientTlsConfig,
    places: Arc<Places>,
}

impl Desk {
    async fn accept(self: Arc<Self>, listener: std::net::TcpListener) {
        let _guard = StopOnPanic::new(&self.shared, "the listener for TLS");
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(source) => {
                let what = "the client port for TLS cannot be served";
                self.shared.stop(Err(crate::error::RunError::System { what, source }));
                return;
            }
        };
        let mut warnings = Warnings::default();
        loop {
            match listener.accept().await {
                Ok((socket, peer)) => self.clone().begin(socket, peer, false),
                Err(error) => {
                    if warnings.is_due() {
                        warn!("accepting a connection with TLS failed: {error}");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Starts to handle a connection, if there is a place. `mixed`: it may be one without TLS.
    fn begin(self: Arc<Self>, socket: TcpStream, peer: SocketAddr, mixed: bool) {
        let metrics = &self.shared.metrics;
        if self.config.drop_early && self.shared.serving().is_none() {
            metrics.cnxn_closed_without_zk_server_running.add(1);
            return;
        }
        let Some(place) = self.places.take(peer.ip().to_canonical()) else {
            metrics.tls_handshake_exceeded.add(1);
            if let Some(audit) = self.shared.audit.get() {
                audit.refused(peer.ip(), "too many TLS handshakes at a time".to_owned());
            }
            if self.places.is_due() {
                warn!(
                    "refusing connections, now from {peer}: there are too many handshakes at a time"
                );
            }
            return;
        };
        self.shared.clients.tls_handshakes.fetch_add(1, Ordering::Relaxed);
        let accepted = Instant::now();
        tokio::spawn(async move {
            let patience = self.shared.config.net.handshake_timeout;
            let mut handshake = std::pin::pin!(self.know(socket, peer, accepted, mixed));
            let known = tokio::time::timeout(patience, handshake.as_mut()).await;
            // The place is free again before the client of a silent connection learns of its end.
            let before = self.shared.clients.tls_handshakes.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "more handshakes end than have begun");
            drop(place);
            match known {
                Ok(Ok(known)) => self.workers.hand(known),
                Ok(Err(why)) => self.refuse(peer, &why),
                Err(_) => self.refuse(peer, &Refused::Late),
            }
        });
    }

    /// Determines the kind of a connection and its client.
    async fn know(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        accepted: Instant,
        mixed: bool,
    ) -> Result<Known, Refused> {
        if mixed && sort(&socket, self.config.detection_time).await? == Begins::Plain {
            let parked = zebu_transport::plain(socket.into_std()?);
            return Ok(Known { parked, peer, accepted, certificate: None });
        }
        let Secured { parked, client } = secure(socket, &self.port).await?;
        if self.config.verifies_clients_hosts
            && let Some(facts) = &client
        {
            let address = peer.ip().to_canonical().to_string();
            verify_hostname(facts, &[&address])?;
        }
        Ok(Known { parked, peer, accepted, certificate: client })
    }

    fn refuse(&self, peer: SocketAddr, why: &Refused) {
        self.shared.metrics.unsuccessful_handshake.add(1);
        self.shared.clients.tls_failures.fetch_add(1, Ordering::Relaxed);
        info!(connection = %peer, "closing the connection from {peer}: {why}");
        if let Some(audit) = self.shared.audit.get() {
            audit.refused(peer.ip(), why.to_string());
        }
    }
}

/// Places for handshakes, of which no address has more than a part.
struct Places {
    max: u32,
    taken: parking_lot::Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: u32,
    by_address: HashMap<IpAddr, u32>,
    warnings: Warnings,
}

/// A place, which is occupied while this value exists.
struct Place(Arc<Places>, IpAddr);

impl Places {
    fn new(max: u32) -> Arc<Self> {
        Arc::new(Self { max, taken: parking_lot::Mutex::default() })
    }

    fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock();
        let of_address = taken.by_address.get(&address).copied().unwrap_or(0);
        if taken.all >= self.max || of_address >= self.max.div_ceil(SHARE_OF_ADDRESS) {
            return None;
        }
        taken.all += 1;
        assert!(taken.all <= self.max, "{} of {} places are taken", taken.all, self.max);
        taken.by_address.insert(address, of_address + 1);
        Some(Place(self.clone(), address))
    }

    fn is_due(&self) -> bool {
        self.taken.lock().warnings.is_due()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.0.taken.lock();
        taken.all -= 1;
        let count = taken.by_address.get_mut(&self.1).expect("its address has a place");
        *count -= 1;
        if *count == 0 {
            taken.by_address.remove(&self.1);
        }
        let sum: u32 = taken.by_address.values().sum();
        debug_assert_eq!(sum, taken.all, "every place is somebody's");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_has_all_places() {
        let places = Places::new(8);
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let first: Vec<_> = (0..9).map_while(|_| places.take(one)).collect();
        assert_eq!(first.len(), 2);
        let second: Vec<_> = (0..9).map_while(|_| places.take(other)).collect();
        assert_eq!(second.len(), 2);
        drop(first);
        assert!(places.take(one).is_some());
        drop(second);
        assert_eq!(places.taken.lock().all, 0);
        assert!(places.taken.lock().by_address.is_empty());
        let few = Places::new(1);
        let held = few.take(one);
        assert!(held.is_some() && few.take(other).is_none());
    }
}
