//! Listeners and network workers: connections are accepted by the first worker and served by as many as have to.
//!
//! While one is enough, a connection does not change threads before it is served, which costs more than accepting it.
//! Each worker is a runtime of its own, so that a connection moves between cores only when the workers'
//! shares are made anew.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::RuntimeMetrics;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::{debug, info, warn};
use zebu_engine::Outbox;

use crate::clients::balance::{self, Load, Spread};
use crate::clients::conn::{Conn, Side};
use crate::clients::connection::{self, Client};
use crate::clients::cpu_time;
use crate::clients::worker_turns;
use crate::config::NetConfig;
use crate::driver::Driver;
use crate::error::{RunError, StartError, chain};
use crate::shared::{Shared, StopOnPanic};

/// The worker that accepts connections.
const ACCEPTING: usize = 0;
/// Connections that may wait to be accepted, unless configured.
const BACKLOG: i32 = 1024;

/// How long nothing is accepted after that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How often the same is said at most.
const WARN_EVERY: Duration = Duration::from_secs(5);

/// Keeps a flood of connections from becoming a flood of log lines.
#[derive(Debug, Default)]
pub struct Warnings(Option<Instant>);

impl Warnings {
    /// Whether it is said this time.
    pub fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= WARN_EVERY);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

/// Binds the client port, on every address of both families unless one is named.
///
/// # Errors
/// When the address cannot be resolved or is in use.
pub fn bind(net: &NetConfig) -> Result<Option<std::net::TcpListener>, StartError> {
    let Some(port) = net.client_port else { return Ok(None) };
    let addresses: Vec<SocketAddr> = match &net.client_address {
        None => vec![SocketAddr::from(([0_u16; 8], port)), SocketAddr::from(([0_u8; 4], port))],
        Some(host) => std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port))
            .map_err(|source| {
                let what = format!("clientPortAddress {host} cannot be resolved");
                StartError::Listen { what, source }
            })?
            .collect(),
    };
    let mut failure = StartError::NoAddress;
    for address in addresses {
        match listen(address, net) {
            Ok(listener) => return Ok(Some(listener)),
            Err(source) => {
                let what = format!("cannot listen for clients on {address}");
                failure = StartError::Listen { what, source };
            }
        }
    }
    Err(failure)
}

fn listen(address: SocketAddr, net: &NetConfig) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // One socket serves IPv4 clients too.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket
        .listen(net.backlog.map_or(BACKLOG, |backlog| i32::try_from(backlog).unwrap_or(BACKLOG)))?;
    Ok(socket.into())
}

/// The threads that serve connections.
pub struct Workers {
    all: Arc<[Worker]>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// One of them, as the others see it.
struct Worker {
    to: UnboundedSender<Arrival>,
    /// Connections it has, or is about to have.
    conns: AtomicUsize,
    /// What names its thread in [`cpu_time`], where the system tells that.
    thread: OnceLock<Option<String>>,
    runtime: RuntimeMetrics,
}

/// Something for a worker.
enum Arrival {
    /// Where connections come that it accepts.
    Listener(std::net::TcpListener),
    /// A connection that another worker has accepted.
    New(std::net::TcpStream, SocketAddr),
    /// A connection that another worker has served.
    Moved(Client, std::net::TcpStream),
}

impl Worker {
    /// Hands it a connection.
    fn hand(&self, arrival: Arrival) {
        self.conns.fetch_add(1, Ordering::Relaxed);
        let _ = self.to.send(arrival);
    }

    /// How long it has worked, all in all.
    fn time(&self) -> Duration {
        let thread = self.thread.get().and_then(Option::as_deref);
        let busy = || self.runtime.worker_total_busy_duration(0);
        thread.and_then(cpu_time::thread_time).unwrap_or_else(busy)
    }
}

impl Workers {
    /// Starts `count` workers; whether they take turns of the replica's is said, too.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start(
        shared: &Arc<Shared>,
        driver: &Arc<Mutex<Driver>>,
        takes_turns: bool,
        count: usize,
    ) -> Result<Self, StartError> {
        let mut all = Vec::new();
        let mut parts = Vec::new();
        for _ in 0..count {
            let (to, from) = unbounded_channel();
            let (driver, theirs) = (driver.clone(), shared.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .on_thread_park(move || worker_turns::carry_out(&driver, &theirs))
                .build()
                .map_err(|source| StartError::System { what: "a network worker", source })?;
            let metrics = runtime.handle().metrics();
            let (conns, thread) = (AtomicUsize::new(0), OnceLock::new());
            all.push(Worker { to, conns, thread, runtime: metrics });
            parts.push((runtime, from));
        }
        let all: Arc<[Worker]> = all.into();
        let mut threads = Vec::new();
        for (number, (runtime, from)) in parts.into_iter().enumerate() {
            let (shared, all) = (shared.clone(), all.clone());
            let thread = std::thread::Builder::new()
                .name(format!("zebu-net-{number}"))
                .spawn(move || {
                    let _guard = StopOnPanic::new(&shared, "a network worker");
                    if takes_turns {
                        worker_turns::allow();
                    }
                    let _ = all[number].thread.set(cpu_time::this_thread());
                    runtime.block_on(work(&shared, &all, number, from));
                    runtime.shutdown_timeout(Duration::from_millis(100));
                })
                .map_err(|source| StartError::System { what: "a network worker", source })?;
            threads.push(thread);
        }
        Ok(Self { all, threads })
    }

    /// Has connections accepted until the server stops.
    pub fn listen(&self, listener: std::net::TcpListener) {
        let _ = self.all[ACCEPTING].to.send(Arrival::Listener(listener)); // gone only when all stop
    }

    /// Waits until every worker has ended: the server has stopped.
    pub fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Accepts connections and deals them out until the server stops, and sees to it that the workers keep up.
async fn accept(shared: Arc<Shared>, workers: Arc<[Worker]>, listener: std::net::TcpListener) {
    let _guard = StopOnPanic::new(&shared, "the listener");
    let mut listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(source) => {
            let what = "the client port cannot be served";
            shared.stop(Err(RunError::System { what, source }));
            return;
        }
    };
    let (mut warnings, mut refusals) = (Warnings::default(), Warnings::default());
    let mut at = shared.config.net.clone();
    let mut watch = Watch::new(&workers);
    let mut look_at = tokio::time::Instant::now();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = shared.stopped() => return,
            () = shared.members_changed.notified() => {
                let Some(wanted) = moved(&at, &shared) else { continue };
                drop(listener);
                let Some(bound) = bind_anew(&mut at, wanted, &shared).await else { return };
                listener = bound;
                continue;
            }
            () = tokio::time::sleep_until(look_at), if workers.len() > 1 => {
                let next = watch.look(&workers, &shared);
                look_at = tokio::time::Instant::now() + next;
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match least(&workers, watch.spread.active()) {
                ACCEPTING => {
                    workers[ACCEPTING].conns.fetch_add(1, Ordering::Relaxed);
                    let begun = begin(&shared, stream, peer, ACCEPTING, &mut refusals);
                    go_on(begun, &workers, ACCEPTING);
                }
                other => {
                    if let Ok(stream) = stream.into_std() {
                        workers[other].hand(Arrival::New(stream, peer));
                    }
                }
            },
            Err(error) => {
                // Out of descriptors, most likely: connections that end give some back.
                if warnings.is_due() {
                    warn!("accepting a connection failed: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Who has the fewest connections of the first `active` workers.
fn least(workers: &[Worker], active: usize) -> usize {
    let conns = |worker: &usize| workers[*worker].conns.load(Ordering::Relaxed);
    (0..active).min_by_key(conns).unwrap_or(ACCEPTING)
}

/// What the workers have done so far, and how connections are spread over them for that.
struct Watch {
    spread: Spread,
    at: Instant,
    idle: Option<Duration>,
    times: Vec<Duration>,
}

impl Watch {
    fn new(workers: &[Worker]) -> Self {
        let times = workers.iter().map(Worker::time).collect();
        Self { spread: Spread::new(), at: Instant::now(), idle: cpu_time::idle_time(), times }
    }

    /// Looks at them, and tells connections to move that should; when to look again.
    fn look(&mut self, workers: &[Worker], shared: &Shared) -> Duration {
        let passed = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        let share = |now: Duration, before: Duration| {
            now.saturating_sub(before).as_secs_f64() / passed.max(f64::MIN_POSITIVE)
        };
        let idle_before = std::mem::replace(&mut self.idle, cpu_time::idle_time());
        // Where nobody tells, there is time.
        let idle =
            self.idle.zip(idle_before).map_or(f64::INFINITY, |(now, before)| share(now, before));
        let load = |(worker, before): (&Worker, &mut Duration)| {
            let now = worker.time();
            let busy = share(now, std::mem::replace(before, now)).min(1.0);
            Load { busy, conns: worker.conns.load(Ordering::Relaxed) }
        };
        let loads: Vec<Load> = workers.iter().zip(&mut self.times).map(load).collect();
        let mut moves = self.spread.look(&loads, idle);
        if !moves.is_empty() {
            debug!("{} network workers serve, after {loads:?} and {idle:.1}", self.spread.active());
            shared.conns().each(|conn| {
                let at = conn.side.worker.load(Ordering::Relaxed);
                let Some(part) = moves.iter_mut().find(|part| part.from == at && part.count > 0)
                else {
                    return;
                };
                part.count -= 1;
                conn.side.worker.store(part.to, Ordering::Relaxed);
                conn.wake();
            });
        }
        let is_idle = self.spread.active() == 1 && loads.iter().all(|load| load.busy < 0.5);
        if is_idle { balance::IDLE_INTERVAL } else { balance::INTERVAL }
    }
}

/// Where clients are to be served from now on, if that is elsewhere.
fn moved(at: &NetConfig, shared: &Shared) -> Option<NetConfig> {
    let me = shared.config.ensemble.as_ref()?.me;
    let members = shared.members.lock().clone()?;
    let client = members.member(me)?.client.as_ref()?;
    let client_address = (!client.is_wildcard()).then(|| client.host.clone());
    let wanted = NetConfig { client_port: Some(client.port), client_address, ..at.clone() };
    (wanted != *at).then_some(wanted)
}

/// Listens where a reconfiguration wants it, else where it was before; both may be the same port. None
/// when the server stops.
async fn bind_anew(at: &mut NetConfig, wanted: NetConfig, shared: &Shared) -> Option<TcpListener> {
    let mut tries = [wanted, at.clone()].into_iter().cycle();
    loop {
        let net = tries.next()?;
        let listened = bind(&net).and_then(|bound| {
            bound.map(TcpListener::from_std).transpose().map_err(|source| {
                let what = "the client port cannot be served".to_owned();
                StartError::Listen { what, source }
            })
        });
        match listened {
            Ok(bound) => {
                let bound = bound?;
                let port = bound.local_addr().ok().map(|at| at.port());
                info!("serving clients on port {}", port.unwrap_or_default());
                *shared.client_port.lock() = port;
                *at = net;
                return Some(bound);
            }
            Err(failure) => {
                let why = chain(&failure);
                warn!("clients cannot be served where the configuration says: {why}");
            }
        }
        tokio::select! {
            _ = shared.stopped() => return None,
            () = tokio::time::sleep(ACCEPT_PAUSE) => {}
        }
    }
}

async fn work(
    shared: &Arc<Shared>,
    workers: &Arc<[Worker]>,
    me: usize,
    mut from: UnboundedReceiver<Arrival>,
) {
    let mut refusals = Warnings::default();
    tokio::spawn(shared.listening.note(shared.clock));
    loop {
        let arrival = tokio::select! {
            biased;
            _ = shared.stopped() => return,
            arrival = from.recv() => arrival,
        };
        let Some(arrival) = arrival else { return };
        let begun = match arrival {
            Arrival::Listener(listener) => {
                tokio::spawn(accept(shared.clone(), workers.clone(), listener));
                continue;
            }
            Arrival::New(stream, peer) => TcpStream::from_std(stream)
                .and_then(|stream| begin(shared, stream, peer, me, &mut refusals)),
            Arrival::Moved(client, stream) => match TcpStream::from_std(stream) {
                Ok(stream) => Ok(Some((client, stream))),
                Err(error) => {
                    client.leave();
                    Err(error)
                }
            },
        };
        go_on(begun, workers, me);
    }
}

/// Goes on with a connection that this worker, which is `me`, has begun to serve, unless it was refused.
fn go_on(begun: std::io::Result<Option<(Client, TcpStream)>>, workers: &Arc<[Worker]>, me: usize) {
    match begun {
        Ok(Some((client, stream))) => {
            tokio::spawn(serve(client, stream, workers.clone(), me));
        }
        Ok(None) => {
            workers[me].conns.fetch_sub(1, Ordering::Relaxed);
        }
        Err(error) => {
            debug!("a connection was gone before it was served: {error}");
            workers[me].conns.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Serves a connection as the worker `me` until it ends or is another one's.
async fn serve(client: Client, stream: TcpStream, workers: Arc<[Worker]>, me: usize) {
    let moved = connection::serve(client, stream, me).await;
    workers[me].conns.fetch_sub(1, Ordering::Relaxed);
    if let Some((client, stream)) = moved {
        let to = client.conn().side.worker.load(Ordering::Relaxed);
        workers[to].hand(Arrival::Moved(client, stream));
    }
}

fn begin(
    shared: &Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    me: usize,
    refusals: &mut Warnings,
) -> std::io::Result<Option<(Client, TcpStream)>> {
    let socket = SockRef::from(&stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(shared.config.net.tcp_keep_alive)?;
    let ids = shared.common.schemes.initial(peer.ip());
    let address = peer.ip().to_canonical();
    let now_ms = shared.clock.now().wall_ms;
    let outbox = Outbox::new(shared.common.rules.outbox_bytes_max);
    let side = Side::new(peer, now_ms, me);
    let Some(conn) = shared.enter(address, |id| Conn::new(id, address, ids, outbox, side)) else {
        shared.metrics.connection_rejected.add(1);
        if refusals.is_due() {
            warn!("refusing connections, now from {address}: there are too many");
        }
        return Ok(None);
    };
    Ok(Some((Client::new(shared.clone(), conn), stream)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn so_many_connections_may_wait_as_configured() {
        let waiting = |backlog| {
            let net = NetConfig { backlog, ..Config::embedded("unused").net };
            let listener = bind(&net).unwrap().unwrap();
            let at = listener.local_addr().unwrap();
            // Nobody accepts them. A full queue does not answer.
            let connect = |_| std::net::TcpStream::connect_timeout(&at, Duration::from_millis(500));
            (0..10).map_while(|number| connect(number).ok()).count()
        };
        assert!((1..=3).contains(&waiting(Some(1))), "one, or a few more, as systems count");
        assert_eq!(waiting(None), 10);
    }

    #[test]
    fn the_same_is_not_said_over_and_over() {
        let mut warnings = Warnings::default();
        assert_eq!([0; 3].map(|_| warnings.is_due()), [true, false, false]);
        warnings.0 = Instant::now().checked_sub(WARN_EVERY);
        assert!(warnings.0.is_none() || warnings.is_due());
    }

    #[test]
    fn all_addresses_are_bound_unless_one_is_named() {
        let net = Config::embedded("unused").net;
        let at = |net: &NetConfig| bind(net).unwrap().map(|found| found.local_addr().unwrap());
        assert_eq!(at(&net).unwrap().ip(), std::net::Ipv4Addr::LOCALHOST);
        let named = NetConfig { client_address: Some("::1".to_owned()), ..net.clone() };
        if let Ok(Some(listener)) = bind(&named) {
            assert_eq!(listener.local_addr().unwrap().ip(), std::net::Ipv6Addr::LOCALHOST);
        }
        assert_eq!(at(&NetConfig { client_port: None, ..net.clone() }), None);
        let nowhere = NetConfig { client_address: Some("192.0.2.1".to_owned()), ..net };
        let failure = bind(&nowhere).unwrap_err().in_full();
        assert!(failure.contains("cannot listen for clients on 192.0.2.1:0"), "{failure}");
    }
}
