//! Listeners and network workers: the first worker accepts all connections, and as few workers as
//! possible serve them.
//!
//! While one worker is enough, a new connection does not change threads before it is served; the
//! change would cost more than the accept. Each worker is a runtime of its own, so a connection
//! moves to another core only when the connections are redistributed.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use zebu_proto::Causes;

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::RuntimeMetrics;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::{debug, info, warn};
use zebu_auth::certificate::Facts;
use zebu_engine::Outbox;
use zebu_engine::conns::Conns;
use zebu_transport::{Parked, Stream};

use crate::clients::access::{self, Entered};
use crate::clients::balance::{self, Load, Spread};
use crate::clients::conn::{Conn, Side};
use crate::clients::connection::{self, Client};
use crate::clients::cpu_time;
use crate::clients::secure::{Gate, Known};
use crate::clients::worker_turns;
use crate::config::{ClientTlsConfig, Config, NetConfig};
use crate::driver::Driver;
use crate::error::{RunError, StartError};
use crate::shared::{Ensemble, Shared, StopOnPanic};
use crate::threads;

/// The worker that accepts connections.
const ACCEPTING: usize = 0;
/// Default maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The pause after a failed accept.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Minimum interval between two equal log lines.
const WARN_EVERY: Duration = Duration::from_secs(5);

/// Limits the log lines that many connections can cause.
#[derive(Debug, Default)]
pub struct Warnings(Option<Instant>);

impl Warnings {
    /// Whether to log this event.
    pub fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= WARN_EVERY);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

/// Binds the client port: on the named address, or on all addresses of both families.
///
/// # Errors
/// The address cannot be resolved or is in use.
pub fn bind(net: &NetConfig) -> Result<Option<std::net::TcpListener>, StartError> {
    let Some(port) = net.client_port else { return Ok(None) };
    bind_to("clientPortAddress", net.client_address.as_deref(), port, net).map(Some)
}

/// Binds the client port for TLS in the same way.
///
/// # Errors
/// As for the client port.
pub fn bind_secure(
    tls: &ClientTlsConfig,
    net: &NetConfig,
) -> Result<Option<std::net::TcpListener>, StartError> {
    let Some(port) = tls.port else { return Ok(None) };
    bind_to("secureClientPortAddress", tls.address.as_deref(), port, net).map(Some)
}

fn bind_to(
    setting: &'static str,
    host: Option<&str>,
    port: u16,
    net: &NetConfig,
) -> Result<std::net::TcpListener, StartError> {
    let addresses: Vec<SocketAddr> = match host {
        None => vec![SocketAddr::from(([0_u16; 8], port)), SocketAddr::from(([0_u8; 4], port))],
        Some(host) => std::net::ToSocketAddrs::to_socket_addrs(&(host, port))
            .map_err(|source| {
                let what = format!("{setting} {host} cannot be resolved");
                StartError::Listen { what, source }
            })?
            .collect(),
    };
    let backlog = net.backlog.map_or(BACKLOG, |backlog| i32::try_from(backlog).unwrap_or(BACKLOG));
    let mut failure = StartError::NoAddress(setting);
    for address in addresses {
        match zebu_transport::listen(address, backlog) {
            Ok(listener) => return Ok(listener),
            Err(source) => {
                let what = format!("cannot listen for clients on {address}");
                failure = StartError::Listen { what, source };
            }
        }
    }
    Err(failure)
}

/// The threads that serve connections.
pub struct Workers {
    all: Arc<[Worker]>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// A worker, as the other workers see it.
struct Worker {
    to: UnboundedSender<Arrival>,
    /// The number of connections that it has, or will soon have.
    conns: AtomicUsize,
    /// Whether it gets new connections.
    serves: AtomicBool,
    /// The name of its thread for [`cpu_time`], if the system provides it.
    thread: OnceLock<Option<String>>,
    runtime: RuntimeMetrics,
}

/// A message to a worker.
enum Arrival {
    /// A listener whose connections it accepts, and the thread that determines the kind of each
    /// connection.
    Listener(std::net::TcpListener, Option<Gate>),
    /// A connection that another worker has accepted.
    New(std::net::TcpStream, SocketAddr),
    /// A connection whose client is known.
    Known(Box<Known>),
    /// A connection that another worker has served.
    Moved(Box<Client>, Parked),
}

/// The receivers of connections after their handshake.
#[derive(Clone)]
pub struct Arrivals(Arc<[Worker]>);

impl Arrivals {
    /// Passes a connection to the worker with the fewest connections.
    pub fn hand(&self, known: Known) {
        self.0[least(&self.0)].hand(Arrival::Known(Box::new(known)));
    }
}

impl Worker {
    /// Passes a connection to this worker.
    fn hand(&self, arrival: Arrival) {
        self.conns.fetch_add(1, Ordering::Relaxed);
        let _ = self.to.send(arrival);
    }

    /// A connection has ended or moves to another worker.
    fn loses(&self) {
        let before = self.conns.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a worker without connections loses one");
    }

    /// The total time for which it has run.
    fn time(&self) -> Duration {
        let thread = self.thread.get().and_then(Option::as_deref);
        let busy = || self.runtime.worker_total_busy_duration(0);
        thread.and_then(cpu_time::thread_time).unwrap_or_else(busy)
    }
}

impl Workers {
    /// Starts the workers, one for each processor. `takes_turns`: whether an idle worker may run
    /// the replica.
    ///
    /// # Errors
    /// The system provides no further threads.
    pub fn start(
        shared: &Arc<Shared>,
        driver: &Arc<Mutex<Driver>>,
        takes_turns: bool,
    ) -> Result<Self, StartError> {
        let mut all = Vec::new();
        let mut parts = Vec::new();
        for _ in 0..count() {
            let (to, from) = unbounded_channel();
            let (driver, theirs) = (driver.clone(), shared.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .on_thread_park(move || worker_turns::carry_out(&driver, theirs.inbox()))
                .build()
                .map_err(|source| StartError::System { what: "a network worker", source })?;
            let metrics = runtime.handle().metrics();
            let (conns, thread) = (AtomicUsize::new(0), OnceLock::new());
            let serves = AtomicBool::new(all.len() == ACCEPTING);
            all.push(Worker { to, conns, serves, thread, runtime: metrics });
            parts.push((runtime, from));
        }
        let all: Arc<[Worker]> = all.into();
        let mut workers = Self { all: all.clone(), threads: Vec::new() };
        for (number, (runtime, from)) in parts.into_iter().enumerate() {
            let (all, what) = (all.clone(), "a network worker");
            let run = move |shared: &Arc<Shared>| {
                if takes_turns {
                    worker_turns::allow();
                }
                let _ = all[number].thread.set(cpu_time::this_thread());
                runtime.block_on(work(shared, &all, number, from));
                runtime.shutdown_timeout(Duration::from_millis(100));
            };
            match threads::guarded(shared, &format!("zebu-net-{number}"), what, run) {
                Ok(thread) => workers.threads.push(thread),
                Err(source) => {
                    shared.stop(Ok(()));
                    workers.join();
                    return Err(StartError::System { what, source });
                }
            }
        }
        Ok(workers)
    }

    /// Lets the first worker accept connections until the server stops. They pass through the
    /// `gate`, if there is one.
    pub fn listen(&self, listener: std::net::TcpListener, gate: Option<Gate>) {
        let _ = self.all[ACCEPTING].to.send(Arrival::Listener(listener, gate)); // gone only when all stop
    }

    /// The receivers of connections after their handshake.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals(self.all.clone())
    }

    /// Waits until every worker has ended: the server has stopped.
    pub fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The number of workers.
pub fn count() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Accepts connections and distributes them until the server stops, and balances the load of the
/// workers.
async fn accept(
    shared: Arc<Shared>,
    workers: Arc<[Worker]>,
    listener: std::net::TcpListener,
    gate: Option<Gate>,
) {
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
            _ = shared.ending.stopped() => return,
            () = shared.clients.members_changed.notified() => {
                let Some(wanted) = moved(&at, &shared.config, &shared.ensemble) else { continue };
                drop(listener);
                let Some(bound) = bind_anew(&mut at, wanted, &shared).await else { return };
                listener = bound;
                continue;
            }
            () = tokio::time::sleep_until(look_at), if workers.len() > 1 => {
                let next = watch.look(&workers, shared.conns());
                look_at = tokio::time::Instant::now() + next;
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) if gate.is_some() => {
                if let (Some(gate), Ok(stream)) = (&gate, stream.into_std()) {
                    gate.sort(stream, peer);
                }
            }
            Ok((stream, peer)) => match least(&workers) {
                ACCEPTING => {
                    workers[ACCEPTING].conns.fetch_add(1, Ordering::Relaxed);
                    let begun = begin(
                        &shared,
                        stream.into(),
                        (peer, tokio::time::Instant::now()),
                        None,
                        ACCEPTING,
                        &mut refusals,
                    );
                    go_on(begun, &workers, ACCEPTING);
                }
                other => {
                    if let Ok(stream) = stream.into_std() {
                        workers[other].hand(Arrival::New(stream, peer));
                    }
                }
            },
            Err(error) => {
                // Most likely the process has no descriptors left. Ending connections free some.
                if warnings.is_due() {
                    warn!("accepting a connection failed: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The serving worker with the fewest connections.
fn least(workers: &[Worker]) -> usize {
    let conns = |worker: &usize| workers[*worker].conns.load(Ordering::Relaxed);
    let serves = |worker: &usize| workers[*worker].serves.load(Ordering::Relaxed);
    (0..workers.len()).filter(serves).min_by_key(conns).unwrap_or(ACCEPTING)
}

/// The measured run times of the workers, and the resulting distribution of connections.
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

    /// Measures the load, and moves connections if necessary. Returns the time of the next
    /// measurement.
    fn look(&mut self, workers: &[Worker], conns: &Conns<Side>) -> Duration {
        let passed = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        let share = |now: Duration, before: Duration| {
            now.saturating_sub(before).as_secs_f64() / passed.max(f64::MIN_POSITIVE)
        };
        let idle_before = std::mem::replace(&mut self.idle, cpu_time::idle_time());
        // Without figures, assume idle time.
        let idle =
            self.idle.zip(idle_before).map_or(f64::INFINITY, |(now, before)| share(now, before));
        let load = |(worker, before): (&Worker, &mut Duration)| {
            let now = worker.time();
            let busy = share(now, std::mem::replace(before, now)).min(1.0);
            Load { busy, conns: worker.conns.load(Ordering::Relaxed) }
        };
        let loads: Vec<Load> = workers.iter().zip(&mut self.times).map(load).collect();
        let mut moves = self.spread.look(&loads, idle);
        for (number, worker) in workers.iter().enumerate() {
            worker.serves.store(number < self.spread.active(), Ordering::Relaxed);
        }
        if !moves.is_empty() {
            debug!("{} network workers serve, after {loads:?} and {idle:.1}", self.spread.active());
            conns.each(|conn| {
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

/// The new client address, if a reconfiguration has changed it.
fn moved(at: &NetConfig, config: &Config, ensemble: &Ensemble) -> Option<NetConfig> {
    let me = config.ensemble.as_ref()?.me;
    let members = ensemble.members.lock().clone()?;
    let client = members.member(me)?.client.as_ref()?;
    let client_address = (!client.is_wildcard()).then(|| client.host.clone());
    let wanted = NetConfig { client_port: Some(client.port), client_address, ..at.clone() };
    (wanted != *at).then_some(wanted)
}

/// Listens at the address that a reconfiguration requires, or else at the previous one; both may
/// have the same port. Returns `None` when the server stops.
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
                *shared.clients.client_port.lock() = port;
                *at = net;
                return Some(bound);
            }
            Err(failure) => {
                let why = Causes(&failure).to_string();
                warn!("the client address of the configuration cannot be used: {why}");
            }
        }
        tokio::select! {
            _ = shared.ending.stopped() => return None,
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
    tokio::spawn(shared.clients.listening.note(shared.clock));
    tokio::spawn(shared.clients.wakes.clone().serve(me));
    loop {
        let arrival = tokio::select! {
            biased;
            _ = shared.ending.stopped() => return,
            arrival = from.recv() => arrival,
        };
        let Some(arrival) = arrival else { return };
        let begun = match arrival {
            Arrival::Listener(listener, gate) => {
                tokio::spawn(accept(shared.clone(), workers.clone(), listener, gate));
                continue;
            }
            Arrival::New(stream, peer) => TcpStream::from_std(stream).and_then(|stream| {
                begin(
                    shared,
                    stream.into(),
                    (peer, tokio::time::Instant::now()),
                    None,
                    me,
                    &mut refusals,
                )
            }),
            Arrival::Known(known) => {
                let Known { parked, peer, accepted, certificate } = *known;
                parked.resume().and_then(|stream| {
                    begin(shared, stream, (peer, accepted), certificate.as_ref(), me, &mut refusals)
                })
            }
            Arrival::Moved(client, parked) => match parked.resume() {
                Ok(stream) => Ok(Some((*client, stream))),
                Err(error) => {
                    client.leave();
                    Err(error)
                }
            },
        };
        go_on(begun, workers, me);
    }
}

/// Continues with a connection that this worker, `me`, has begun to serve, unless it was refused.
fn go_on(begun: std::io::Result<Option<(Client, Stream)>>, workers: &Arc<[Worker]>, me: usize) {
    match begun {
        Ok(Some((client, stream))) => {
            tokio::spawn(serve(client, stream, workers.clone(), me));
        }
        Ok(None) => workers[me].loses(),
        Err(error) => {
            debug!("a connection ended before it was served: {error}");
            workers[me].loses();
        }
    }
}

/// Serves a connection as the worker `me` until it ends or moves to another worker.
#[allow(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
fn serve(
    mut client: Client,
    mut stream: Stream,
    workers: Arc<[Worker]>,
    me: usize,
) -> impl Future<Output = ()> {
    async move {
        let goes_on = connection::serve(&mut client, &mut stream, me).await;
        workers[me].loses();
        if !goes_on {
            return;
        }
        match stream.park() {
            Ok(parked) => {
                let to = client.conn().side.worker.load(Ordering::Relaxed);
                workers[to].hand(Arrival::Moved(Box::new(client), parked));
            }
            Err(_) => client.leave(),
        }
    }
}

/// Starts to serve a connection from this address that was accepted at this time, unless it is
/// refused.
fn begin(
    shared: &Arc<Shared>,
    stream: Stream,
    (peer, accepted): (SocketAddr, tokio::time::Instant),
    certificate: Option<&Facts>,
    me: usize,
    refusals: &mut Warnings,
) -> std::io::Result<Option<(Client, Stream)>> {
    let socket = SockRef::from(stream.socket());
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(shared.config.net.tcp_keep_alive)?;
    let proved = shared.clients.x509.as_ref().zip(certificate);
    let proved = proved.map(|(x509, facts)| x509.ids(&facts.subject)).unwrap_or_default();
    let address = peer.ip().to_canonical();
    let mut entered = Entered::default();
    if !access::enter(shared, address, &mut entered, &proved) {
        return Ok(None);
    }
    let ids = shared.common.schemes.initial_with(peer.ip(), proved);
    let now_ms = shared.clock.now().wall_ms;
    let outbox = Outbox::new(shared.common.rules.outbox_bytes_max);
    let wakes = Some(shared.clients.wakes.clone());
    let side = Side::new(peer, now_ms, me, wakes, stream.is_secure(), entered);
    let Some(conn) = shared.enter(address, |id| Conn::new(id, address, ids, outbox, side)) else {
        shared.metrics.connection_rejected.add(1);
        if refusals.is_due() {
            warn!("refusing connections, now from {address}: there are too many");
        }
        if let Some(audit) = shared.audit.get() {
            audit.refused(address, "too many connections".to_owned());
        }
        return Ok(None);
    };
    if !stream.is_secure() {
        let (plain_local, plain_remote) =
            (&shared.clients.plain_local, &shared.clients.plain_remote);
        let plain = if address.is_loopback() { plain_local } else { plain_remote };
        plain.fetch_add(1, Ordering::Relaxed);
    }
    Ok(Some((Client::new(shared.clone(), conn, accepted), stream)))
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
            // No worker accepts them, and a full queue does not answer.
            let connect = |_| std::net::TcpStream::connect_timeout(&at, Duration::from_millis(500));
            (0..10).map_while(|number| connect(number).ok()).count()
        };
        assert!((1..=3).contains(&waiting(Some(1))), "one, or a few more, as systems count");
        assert_eq!(waiting(None), 10);
    }

    #[test]
    fn an_idle_connection_keeps_one_copy_of_its_state() {
        fn size<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
            size_of::<F>()
        }
        let state = size_of::<Client>() + size_of::<Stream>();
        let task = size(serve);
        assert!(task < 2 * state + 256, "{task} bytes for a state of {state}");
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
