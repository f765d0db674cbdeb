//! The network between the servers of an ensemble: executes the replica's outputs, and reports
//! network events as inputs. It makes no decision about the protocol.
//!
//! Everything runs on a runtime of its own, so that clients and peers do not delay each other. The
//! runtime has one thread. When this thread is idle, it runs the replica's turn for the packets
//! that it has received: see [`crate::turns`].

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::AbortHandle;
use tracing::{debug, warn};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{EnsembleId, HostPort, ServerId};
use zebu_replica::Input;
use zebu_state::{Copied, LogRange};
use zebu_transport::{PeerPort, PeerRules};
use zebu_zab::config::{Member, Membership};
use zebu_zab::mesh::{self, WireId};
use zebu_zab::{ConfigChange, LinkId, Output};

use self::sasl::PeerSasl;
use self::sockets::Tuning;
use crate::clients::workers::Warnings;
use crate::config::{ElectionNetConfig, EnsembleConfig, PeerTlsConfig};
use crate::error::{RunError, StartError};
use crate::metrics::Metrics;
use crate::shared::Shared;
use crate::{threads, turns};

mod backlog;
mod copy;
mod election;
mod greeting;
mod history;
mod learner;
mod line;
mod links;
mod members;
mod oracle;
mod outgoing;
mod repair;
mod sasl;
mod sockets;
mod strangers;

use backlog::{Backlog, READ_AHEAD_BYTES};
use line::Line;
use members::Members;

pub use learner::Learner;
pub use outgoing::Outgoing;

/// Number of inputs waiting for the replica at which reading from peers pauses.
const INPUTS_MAX: usize = 20_000;

/// Bytes of transactions waiting for the replica or the disk, from a leader or read for a learner,
/// at which reading pauses.
const RECEIVED_BYTES_MAX: usize = 64 << 20;

/// Maximum number of connections of each kind: far more than an ensemble has servers.
const CONNECTIONS_MAX: usize = 512;

/// Maximum time after which another address of a server is tried, too.
const PACE_MAX: Duration = Duration::from_millis(250);

/// The network between servers.
pub struct Peers {
    net: Arc<Net>,
    runtime: tokio::runtime::Handle,
    /// Its thread runs while this value exists.
    lasts: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// Commands to a link's writer.
#[derive(Debug)]
enum ToLink {
    /// Packets, and the time since which they wait, if that is measured.
    Packets(Vec<QuorumPacket>, Option<Instant>),
    /// Bytes of packets that the socket did not accept at once, and the bytes that these packets
    /// count while they wait.
    Rest(Vec<u8>, usize),
    /// A snapshot in pieces, after its packet.
    Copy(tokio::sync::mpsc::Receiver<Bytes>),
}

struct LinkHandle {
    to: UnboundedSender<ToLink>,
    line: Arc<Line>,
    backlog: Arc<Backlog>,
    /// Notified when the writer must end after the waiting packets.
    closing: Arc<Notify>,
    task: Option<AbortHandle>,
}

impl LinkHandle {
    /// Writes packets, or passes them to the link's writer. Returns false if too many bytes wait
    /// before them.
    fn send(&self, packets: Vec<QuorumPacket>, metrics: &Metrics) -> bool {
        let is_taken = self.backlog.add(&packets);
        let since = self.backlog.marks(packets.len()).then(Instant::now);
        match self.line.write(&self.to, &packets) {
            Some(sent) => {
                self.backlog.takes(packets.len(), since, metrics);
                self.backlog.sent(sent);
            }
            None => self.line.queue(&self.to, ToLink::Packets(packets, since)),
        }
        is_taken
    }
}

/// The state that all tasks of the network share.
struct Net {
    shared: Arc<Shared>,
    config: EnsembleConfig,
    /// TLS between servers, if it is enabled.
    tls: Option<Arc<PeerPort>>,
    /// SASL between servers, if it is enabled.
    sasl: Option<PeerSasl>,
    members: Mutex<Members>,
    /// Configurations from election messages whose difference was logged.
    strangers: Mutex<BTreeSet<ServerId>>,
    next: AtomicU64,
    wires: Mutex<HashMap<WireId, Arc<election::Slot>>>,
    /// The election addresses that servers have announced.
    said: Mutex<HashMap<ServerId, Vec<HostPort>>>,
    links: Mutex<HashMap<LinkId, LinkHandle>>,
    /// Received trees, until the replica takes them or closes their connections.
    copied: Mutex<HashMap<LinkId, Copied>>,
    /// Warnings about peers that expect another protocol, or are not accepted as members.
    misfits: Mutex<Warnings>,
    /// Warnings about servers of other ensembles that were refused.
    of_others: Mutex<Warnings>,
    /// The tasks that accept connections for votes.
    voting: Mutex<Vec<AbortHandle>>,
    listener: Mutex<Option<AbortHandle>>,
    connecting: Mutex<Option<AbortHandle>>,
    /// Places for members that get transactions for their damaged logs.
    answering: Arc<Semaphore>,
}

impl Net {
    fn id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn report(&self, input: zebu_zab::Input) {
        turns::hand_in(self.shared.inbox(), &mut vec![Input::Zab(input)], 0);
    }

    /// Stores the announced election address of a server, if it can be useful.
    fn remember(&self, server: ServerId, addresses: Vec<HostPort>) {
        let may_join = self.shared.config.reconfig_enabled;
        let is_member = self.members.lock().committed().member(server).is_some();
        let mut said = self.said.lock();
        let has_room = said.len() < CONNECTIONS_MAX || said.contains_key(&server);
        if is_member || may_join && has_room {
            said.insert(server, addresses);
        }
    }

    /// The hosts of all members.
    fn hosts(&self) -> Vec<String> {
        self.members.lock().hosts(|_| true)
    }

    /// Logs why a connection from a peer ended.
    fn ended(&self, what: &str, error: &io::Error) {
        let why = greeting::misfit(error);
        if why.is_some() {
            self.shared.metrics.peer_connections_refused.add(1);
        }
        match why {
            Some(why) if self.misfits.lock().is_due() => warn!("{what}: {why}"),
            _ => debug!("{what}: {error}"),
        }
    }

    fn me(&self) -> Member {
        self.members.lock().me().clone()
    }

    /// The port at which a follower serves observers.
    fn master_addresses(&self, member: &Member) -> Vec<HostPort> {
        let Some(port) = self.config.learners.observer_master_port else { return Vec::new() };
        let addresses = member.quorum_addresses().into_iter();
        addresses.map(|HostPort { host, .. }| HostPort { host, port }).collect()
    }

    /// Options of connections for votes. If servers have several addresses, a connection through
    /// which no data pass is replaced by one to another address.
    fn tuning(&self) -> Tuning {
        let ElectionNetConfig { tcp_keep_alive: keep_alive, reachability_timeout, .. } =
            self.config.election;
        let lost_after = reachability_timeout.filter(|_| self.config.rules.multi_address);
        Tuning { no_delay: true, keep_alive, lost_after }
    }

    /// Time after which another address of a server is tried, too.
    fn pace(&self) -> Duration {
        self.config.election.reachability_timeout.map_or(PACE_MAX, |timeout| timeout.min(PACE_MAX))
    }

    /// Waits until the replica has processed its inputs.
    async fn wait_for_replica(&self) {
        self.wait_while(|| self.is_replica_behind()).await;
    }

    fn is_replica_behind(&self) -> bool {
        let (inputs, bytes) = self.shared.inbox().load();
        inputs > INPUTS_MAX || bytes > RECEIVED_BYTES_MAX
    }

    /// Waits until replica and disk have processed what a leader has sent.
    async fn wait_for_disk(&self) {
        let is_behind = || {
            self.shared.disk.log_queue_bytes.load(Ordering::Relaxed) > RECEIVED_BYTES_MAX
                || self.shared.disk.remaking.load(Ordering::Relaxed) > 0
        };
        self.wait_while(|| is_behind() || self.is_replica_behind()).await;
    }

    /// Waits while `holds` returns true and the server does not stop. Checks again after each
    /// turn and each job of the disk.
    async fn wait_while(&self, holds: impl Fn() -> bool) {
        loop {
            let caught_up = self.shared.ensemble.caught_up.notified();
            tokio::pin!(caught_up);
            // From here on, no notification is missed.
            caught_up.as_mut().enable();
            if !holds() || self.shared.ending.is_stopping() {
                return;
            }
            tokio::select! {
                () = caught_up => {}
                _ = self.shared.ending.stopped() => return,
            }
        }
    }

    /// Waits until a learner has received most of the transactions that were read from the disk for
    /// it. Returns false if its connection has ended or the server stops; then reading must end.
    async fn wait_for_learner(&self, link: LinkId) -> bool {
        let backlog = self.links.lock().get(&link).map(|handle| handle.backlog.clone());
        let Some(backlog) = backlog else { return false };
        let is_full = || {
            let (_, bytes) = self.shared.inbox().load();
            bytes + backlog.bytes() > READ_AHEAD_BYTES || self.is_replica_behind()
        };
        loop {
            let (caught_up, room) =
                (self.shared.ensemble.caught_up.notified(), backlog.room().notified());
            tokio::pin!(caught_up, room);
            // From here on, no notification is missed.
            caught_up.as_mut().enable();
            room.as_mut().enable();
            if self.shared.ending.is_stopping() || !self.links.lock().contains_key(&link) {
                return false;
            }
            if !is_full() {
                return true;
            }
            tokio::select! {
                () = caught_up => {}
                () = room => {}
                _ = self.shared.ending.stopped() => return false,
            }
        }
    }

    /// Removes a connection.
    fn remove(&self, link: LinkId) -> Option<LinkHandle> {
        let handle = self.links.lock().remove(&link)?;
        handle.backlog.end();
        Some(handle)
    }

    /// Stores a leader's tree until the replica takes it or closes the connection. It is kept when
    /// the connection ends, because the replica may be about to take it.
    fn keep_copy(&self, link: LinkId, copied: Copied) {
        let links = self.links.lock();
        if links.contains_key(&link) {
            self.copied.lock().insert(link, copied);
        }
    }

    /// Maximum length of a field in a packet, in bytes.
    fn field_bytes_max(&self) -> usize {
        self.shared.config.limits.record_bytes_max()
    }
}

impl Peers {
    /// Binds the election port and starts to accept connections.
    ///
    /// `binding`: the configuration that is in force besides the committed one, from the data or
    /// from the file of the proposed one. This server asks the members of both for the leader, so
    /// it must know their addresses.
    ///
    /// # Errors
    /// The port cannot be bound, the certificates cannot be used, or the system provides no further
    /// threads.
    pub fn start(
        shared: &Arc<Shared>,
        config: EnsembleConfig,
        binding: Option<Arc<Membership>>,
        takes_turns: bool,
    ) -> Result<Self, StartError> {
        let committed = Arc::new(config.members.clone());
        let me = committed.member(config.me).cloned();
        let me = me.ok_or(StartError::NotAMember(config.me))?;
        let mut members = Members::new(committed, me);
        members.propose(binding);
        let failed = |source| StartError::System { what: "the network between servers", source };
        let for_turns = shared.clone();
        // All tasks run on one thread, so passing packets from a turn to a link's writer wakes no
        // other thread.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .thread_name("zebu-peers")
            .enable_all()
            .on_thread_park(move || turns::carry_out(&for_turns.turns, for_turns.inbox()))
            .build()
            .map_err(failed)?;
        let tls = config.tls.clone().map(peer_port).transpose()?.map(Arc::new);
        if let (Some(tls), Some(settings)) = (&tls, &config.tls) {
            let _ = shared.ensemble.tls_port.set(tls.clone());
            let (tls, reloads) = (tls.clone(), settings.reloads);
            runtime.spawn(async move { tls.port().watch(reloads).await });
        }
        let sasl = config.sasl.clone().map(PeerSasl::new).transpose()?;
        let net = Arc::new(Net {
            shared: shared.clone(),
            sasl,
            tls,
            members: Mutex::new(members),
            strangers: Mutex::default(),
            config,
            next: AtomicU64::new(1),
            wires: Mutex::default(),
            said: Mutex::default(),
            links: Mutex::default(),
            copied: Mutex::default(),
            misfits: Mutex::default(),
            of_others: Mutex::default(),
            voting: Mutex::default(),
            listener: Mutex::default(),
            connecting: Mutex::default(),
            answering: Arc::new(Semaphore::new(repair::ANSWERED_MAX)),
        });
        runtime.spawn(shared.ensemble.listening.note(shared.clock));
        election::listen(&net, &runtime)?;
        if let Some(path) = net.config.oracle.clone() {
            runtime.spawn(oracle::watch(net.clone(), path));
        }
        let handle = runtime.handle().clone();
        let (lasts, ended) = oneshot::channel();
        let what = "the network between servers";
        let thread = threads::guarded(shared, "zebu-peers", what, move |_| {
            if takes_turns {
                turns::keep();
            }
            let _ = runtime.block_on(ended); // nothing is ever sent
            runtime.shutdown_timeout(Duration::from_millis(100));
        });
        let thread = Some(thread.map_err(failed)?);
        Ok(Self { net, runtime: handle, lasts: Some(lasts), thread })
    }

    /// The handle of the network for the engine and the log thread.
    pub fn handle(&self) -> Handle {
        Handle { net: self.net.clone(), runtime: self.runtime.clone() }
    }

    /// Ends all tasks.
    pub fn stop(self) {
        drop(self);
    }
}

/// This also runs when a start fails, so that its ports are free afterwards.
impl Drop for Peers {
    fn drop(&mut self) {
        drop(self.lasts.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // one that has panicked has said so itself
        }
    }
}

fn peer_port(config: PeerTlsConfig) -> Result<PeerPort, StartError> {
    let PeerTlsConfig { dials, accepts_plain, detection_time, .. } = config;
    let PeerTlsConfig { verifies_servers, verifies_clients, .. } = config;
    let rules =
        PeerRules { dials, accepts_plain, detection_time, verifies_servers, verifies_clients };
    PeerPort::new(config.files, rules).map_err(StartError::PeerTls)
}

/// The handle of the network between servers.
#[derive(Clone)]
pub struct Handle {
    net: Arc<Net>,
    runtime: tokio::runtime::Handle,
}

impl Handle {
    /// Executes outputs that concern the network.
    ///
    /// # Panics
    /// For outputs that concern the disk or clients, and for packets, see [`Handle::send`].
    pub fn carry_out(&self, output: Output) {
        let net = &self.net;
        match output {
            Output::Mesh(mesh::Output::Send(wire, ballot)) => election::send(net, wire, ballot),
            Output::Mesh(mesh::Output::Close(wire)) => election::close(net, wire),
            Output::Mesh(mesh::Output::Dial(peer)) => {
                self.runtime.spawn(election::dial(net.clone(), peer));
            }
            Output::Retire => net.voting.lock().drain(..).for_each(|task| task.abort()),
            Output::Listen => self.listen(net.me().quorum_addresses()),
            Output::ListenForObservers => self.listen(net.master_addresses(&net.me())),
            Output::Unlisten => {
                if let Some(task) = net.listener.lock().take() {
                    task.abort();
                }
            }
            Output::Connect(leader) => {
                self.connect(net.members.lock().addresses(leader, Member::quorum_addresses));
            }
            Output::ConnectToMaster(master) => {
                let master = net.members.lock().committed().member(master).cloned();
                self.connect(master.map(|it| net.master_addresses(&it)).unwrap_or_default());
            }
            Output::CancelConnect => {
                if let Some(task) = net.connecting.lock().take() {
                    task.abort();
                }
            }
            Output::Close(link) => links::close(net, link),
            Output::ReadLog { link, after, up_to, share } => {
                let net = net.clone();
                let runtime = self.runtime.clone();
                let part_bytes = history::PART_BYTES;
                let range = LogRange { link, after, up_to, share, part_bytes };
                self.thread("zebu-history", move || history::read(&net, &runtime, range));
            }
            other => unreachable!("not the network's: {other:?}"),
        }
    }

    /// Writes the packets, or passes them to the writers of their links.
    pub fn send(&self, outgoing: &mut Outgoing) {
        let mut misfits = Vec::new();
        {
            let links = self.net.links.lock();
            for (link, packets) in outgoing.take() {
                let Some(handle) = links.get(&link) else { continue };
                if !handle.send(packets, &self.net.shared.metrics) {
                    misfits.push(link);
                }
            }
        }
        for link in misfits {
            links::give_up(&self.net, link);
        }
    }

    fn listen(&self, addresses: Vec<HostPort>) {
        let task = self.runtime.spawn(links::listen(self.net.clone(), addresses));
        if let Some(before) = self.net.listener.lock().replace(task.abort_handle()) {
            before.abort();
        }
    }

    fn connect(&self, addresses: Vec<HostPort>) {
        let task = self.runtime.spawn(links::connect(self.net.clone(), addresses));
        if let Some(before) = self.net.connecting.lock().replace(task.abort_handle()) {
            before.abort();
        }
    }

    /// The known members or their addresses have changed, including this server's own.
    pub fn change(&self, change: &ConfigChange) {
        let net = &self.net;
        let (before, after) = {
            let mut members = net.members.lock();
            let before = members.me().election_addresses();
            members.change(change);
            (before, members.me().election_addresses())
        };
        if before != after {
            self.runtime.spawn(election::listen_elsewhere(net.clone()));
        }
    }

    /// A server of another ensemble was refused. It retries repeatedly, so the log lines are
    /// limited.
    pub fn other_ensemble(&self, server: ServerId, theirs: EnsembleId) {
        if !self.net.of_others.lock().is_due() {
            return;
        }
        let own = self.net.shared.common.identity().settled();
        let own = own.map_or_else(|| "one without an id".to_owned(), |own| own.to_string());
        warn!(
            "server {} is refused: it belongs to ensemble {theirs}, and this server to ensemble {own}; hint: the list of \
             members is wrong in one of the two, or data were copied from one to the other",
            server.0
        );
    }

    /// Sends the tree to a learner, including changes made meanwhile.
    pub fn send_copy(&self, link: LinkId) {
        let shared = self.net.shared.clone();
        let known = self.net.links.lock().get(&link).map(|it| {
            let LinkHandle { to, line, backlog, .. } = it;
            (to.clone(), line.clone(), backlog.clone())
        });
        let Some((to, line, backlog)) = known else { return };
        let (source, pieces) = copy::Source::new(shared.tree(), backlog);
        line.queue(&to, ToLink::Copy(pieces));
        self.thread("zebu-copy", move || source.run(shared.tree()));
    }

    /// The leader's tree that arrived on a connection, and its file.
    pub fn take_copy(&self, link: LinkId) -> Option<Copied> {
        self.net.copied.lock().remove(&link)
    }

    fn thread(&self, name: &'static str, run: impl FnOnce() + Send + 'static) {
        let shared = &self.net.shared;
        if let Err(source) = threads::guarded(shared, name, name, |_| run()) {
            shared.stop(Err(RunError::System { what: "there are no more threads", source }));
        }
    }
}
