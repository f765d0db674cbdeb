//! The sockets between a leader and its learners.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracing::{info, warn};
use zebu_jute::{DecodeError, Encode as _, Encoder};
use zebu_proto::quorum::{LearnerInfo, PacketKind, QuorumPacket};
use zebu_proto::{HostPort, ServerId, Zxid};
use zebu_replica::Input;
use zebu_transport::{PeerReader, PeerWriter};
use zebu_zab::LinkId;
use zebu_zab::config::Role;

use crate::counting::replication::latency;
use crate::metrics::{Counter, Metrics, Repeated};
use crate::shared::Shared;
use crate::turns;

use super::backlog::{Backlog, packet_bytes};
use super::greeting::Halves;
use super::learner::{Learner, Packets};
use super::line::Line;
use super::sockets::Tuning;
use super::strangers::{Stranger, Strangers};
use super::{CONNECTIONS_MAX, LinkHandle, Net, ToLink, copy, greeting, sockets};

/// Maximum number of packets collected for one write.
const BATCH_PACKETS: usize = 1024;
/// Number of bytes at which they are written in any case.
const BATCH_BYTES: usize = 256 << 10;
/// Maximum time in which a peer receives the waiting packets when its connection is closed.
const LINGER: Duration = Duration::from_secs(1);
/// The id for a learner that does not send one.
const NOBODY: ServerId = ServerId(-1);
/// Maximum time for the introduction of a server, if `initLimit` is longer.
const GREETING_TIME_MAX: Duration = Duration::from_secs(15);
/// Maximum length of a field in the introduction of a server; the original's fields have 20 bytes.
const GREETING_FIELD_MAX: usize = 4 << 10;
/// Capacity for the bytes of a connection before its first packet.
const GREETING_BYTES: usize = 8 << 10;
/// Pause between attempts to bind the quorum port.
const BIND_PAUSE: Duration = Duration::from_millis(200);

/// Accepts learners until it is aborted.
pub(super) async fn listen(net: Arc<Net>, addresses: Vec<HostPort>) {
    let everywhere = net.config.election.listen_on_all;
    let accepting = addresses.into_iter().map(|address| {
        let net = net.clone();
        async move {
            let mut warned = false;
            let listener = loop {
                match sockets::listen(&address, everywhere).await {
                    Ok(listener) => break listener,
                    Err(error) if !warned => {
                        warned = true;
                        let (host, port) = (&address.host, address.port);
                        warn!("cannot listen for learners on {host}:{port} yet: {error}");
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(BIND_PAUSE).await;
            };
            let strangers = Strangers::default();
            loop {
                match listener.accept().await {
                    Ok(_) if net.links.lock().len() >= CONNECTIONS_MAX => {}
                    Ok((socket, from)) => {
                        // A connection without an introduction ends in time and frees its place.
                        let Some(stranger) = strangers.admit(from.ip()) else { continue };
                        sockets::tune(&socket, tuning(net.config.learners.leader_no_delay));
                        let accepted = Connection::Accepted(socket, stranger);
                        start(&net, accepted, zebu_zab::Input::Accepted);
                    }
                    Err(error) => {
                        warn!("accepting a learner failed: {error}");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }
        }
    });
    let tasks: Vec<_> = accepting.map(tokio::spawn).map(AbortOnDrop).collect();
    std::future::pending::<()>().await;
    drop(tasks);
}

/// Both leader and learner detect silence themselves.
fn tuning(no_delay: bool) -> Tuning {
    Tuning { no_delay, keep_alive: false, lost_after: None }
}

/// A new connection.
enum Connection {
    /// An accepted connection, whose protocol is not known yet.
    Accepted(TcpStream, Stranger),
    /// A connection to the server from which this server learns.
    Dialled(Box<Halves>),
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects to the server from which this server should learn.
pub(super) async fn connect(net: Arc<Net>, addresses: Vec<HostPort>) {
    let patience = net.shared.config.sessions.tick * net.config.connect_ticks.max(1);
    let tuning = tuning(net.config.learners.learner_no_delay);
    let reached = async {
        let (stream, host) = greeting::reach(&net, &addresses, patience, tuning).await?;
        let mut halves = Halves::from(stream);
        halves.prove(&net, &host, patience).await?;
        io::Result::Ok(halves)
    };
    match reached.await {
        Ok(halves) => {
            start(&net, Connection::Dialled(Box::new(halves)), zebu_zab::Input::Connected)
        }
        Err(error) => {
            let at: Vec<String> =
                addresses.iter().map(|at| format!("{}:{}", at.host, at.port)).collect();
            info!("no leader can be reached at {}: {error}", at.join(", "));
            if greeting::misfit(&error).is_some() {
                net.ended("connection to a leader", &error);
            }
            net.report(zebu_zab::Input::ConnectFailed);
        }
    }
}

/// Starts to serve a connection, after `report` has reported it.
fn start(net: &Arc<Net>, connection: Connection, report: fn(LinkId) -> zebu_zab::Input) {
    let link = LinkId(net.id());
    let (handle, orders) = new_link();
    net.links.lock().insert(link, handle);
    net.report(report(link));
    let task = tokio::spawn(serve(net.clone(), connection, link, orders));
    // The connection may already be closed; then the task ends by itself.
    if let Some(handle) = net.links.lock().get_mut(&link) {
        handle.task = Some(task.abort_handle());
    }
}

/// The handle of a new link, and the commands to its writer.
fn new_link() -> (LinkHandle, Orders) {
    let (to, orders) = unbounded_channel();
    let (line, backlog) = (Arc::new(Line::default()), Arc::new(Backlog::default()));
    let closing = Arc::new(Notify::new());
    let handle = LinkHandle {
        to,
        line: line.clone(),
        backlog: backlog.clone(),
        closing: closing.clone(),
        task: None,
    };
    (handle, Orders { orders, line, backlog, closing })
}

/// Closes a connection. Waiting packets are sent if the peer receives them soon: one of them may
/// say that another server leads.
pub(super) fn close(net: &Net, link: LinkId) {
    if let Some(LinkHandle { to, closing, .. }) = net.remove(link) {
        drop(to);
        closing.notify_one();
    }
    net.copied.lock().remove(&link);
}

/// Closes the connection to a peer that does not read its packets.
pub(super) fn give_up(net: &Net, link: LinkId) {
    warn!("a peer does not read its packets, connection {} is closed", link.0);
    let handle = net.remove(link);
    if let Some(task) = handle.and_then(|handle| handle.task) {
        task.abort();
    }
    net.report(zebu_zab::Input::LinkDown(link));
}

/// A command to a link's writer.
struct Orders {
    orders: UnboundedReceiver<ToLink>,
    line: Arc<Line>,
    backlog: Arc<Backlog>,
    closing: Arc<Notify>,
}

/// The deadline for the introduction of a server that has just connected.
fn known_by(net: &Net) -> tokio::time::Instant {
    let start = net.shared.config.sessions.tick * net.config.init_ticks.max(1);
    tokio::time::Instant::now() + start.min(GREETING_TIME_MAX)
}

async fn serve(net: Arc<Net>, connection: Connection, link: LinkId, orders: Orders) {
    let closing = orders.closing.clone();
    let (ended, what) = match connection {
        Connection::Dialled(halves) => {
            (talk(&net, *halves, link, orders, None).await, "to a leader".to_owned())
        }
        Connection::Accepted(socket, stranger) => {
            let due = known_by(&net);
            let from = socket.peer_addr().map_or_else(|_| String::new(), |at| format!(" at {at}"));
            let opening = async {
                let mut halves: Halves = greeting::open(&net, socket).await?.into();
                halves.examine(&net).await?;
                Ok(halves)
            };
            let opened = tokio::select! {
                opened = greeting::in_time(due, opening) => opened,
                () = closing.notified() => Err(io::ErrorKind::ConnectionAborted.into()),
            };
            let ended = match opened {
                Ok(halves) => {
                    talk(&net, halves, link, orders, Some(Introduction { due, stranger })).await
                }
                Err(error) => Err(error),
            };
            (ended, format!("of a learner{from}"))
        }
    };
    if let Err(error) = ended {
        match greeting::misfit(&error) {
            Some(_) => net.ended(&format!("connection {} {what}", link.0), &error),
            None if error.kind() == io::ErrorKind::InvalidData => {
                warn!("connection {} to a peer: the peer violates the protocol: {error}", link.0);
            }
            None => info!("connection {} to a peer: {error}", link.0),
        }
    }
    // A received tree stays until the replica has processed the end of the connection, and closes
    // it.
    if net.remove(link).is_some() {
        net.report(zebu_zab::Input::LinkDown(link));
    }
}

/// An accepted connection must still send its first packet, the introduction.
struct Introduction {
    /// The deadline for the packet.
    due: tokio::time::Instant,
    /// Until then, the connection counts among the silent ones of its address.
    stranger: Stranger,
}

/// Both directions of a connection, until it ends. `unknown`: the introduction that an accepted
/// connection must send; `None` if this server has connected in order to learn.
async fn talk(
    net: &Arc<Net>,
    halves: Halves,
    link: LinkId,
    orders: Orders,
    unknown: Option<Introduction>,
) -> io::Result<()> {
    let Halves { mut from, to, received } = halves;
    let (backlog, closing) = (orders.backlog.clone(), orders.closing.clone());
    let progress = || Progress::new(net, link);
    let sent = || net.report(zebu_zab::Input::CopySent(link));
    let mut speaking = std::pin::pin!(speak(&net.shared.metrics, to, orders, progress(), sent));
    tokio::select! {
        ended = hear(net, &mut from, received, link, unknown, &backlog, progress()) => ended,
        ended = &mut speaking => ended,
        () = closing.notified() => {
            let last = async {
                speaking.await?;
                // Its packets are ignored but must be read, because unread bytes would turn the
                // close into a reset.
                tokio::io::copy(&mut from, &mut tokio::io::sink()).await
            };
            tokio::time::timeout(LINGER, last).await.unwrap_or(Ok(0)).map(drop)
        }
    }
}

async fn hear(
    net: &Net,
    from: &mut PeerReader,
    mut received: BytesMut,
    link: LinkId,
    mut unknown: Option<Introduction>,
    backlog: &Arc<Backlog>,
    mut progress: Progress<impl Fn()>,
) -> io::Result<()> {
    // The expected leader is known before the connection is made.
    let learns = unknown.is_none();
    let (mut inputs, mut bytes) = (Vec::new(), 0);
    let mut said = Said::default();
    let mut learner = None;
    if learns {
        received.reserve(64 << 10);
    }
    let field_bytes_max = net.field_bytes_max();
    let most = |is_unknown| if is_unknown { GREETING_FIELD_MAX } else { field_bytes_max };
    loop {
        let mut arrived = Arrived::new(net);
        while let Some(packet) =
            QuorumPacket::decode(&mut received, most(unknown.is_some())).map_err(invalid)?
        {
            let (kind, zxid) = (packet.kind, packet.zxid);
            // A transaction to log must be valid, and its zxid must be that of the packet.
            let txn =
                if learns { packet.txn().map_err(|error| useless(&packet, error))? } else { None };
            let made_ms = txn.map(|txn| txn.header.time_ms);
            said.count(net, &packet, made_ms, learns, &mut arrived);
            if !learns {
                if let Some(Introduction { stranger, .. }) = unknown.take() {
                    drop(stranger);
                    received.reserve(64 << 10);
                }
                if matches!(kind, PacketKind::FOLLOWERINFO | PacketKind::OBSERVERINFO) {
                    let server = introduction(&packet).map_or(NOBODY, |info| info.server);
                    greeting::vouch(net, server, from.certificate())?;
                }
                Said::count_learner(net, &packet, backlog);
                if matches!(kind, PacketKind::FOLLOWERINFO | PacketKind::OBSERVERINFO)
                    && let Some(info) = introduction(&packet)
                {
                    let (all, now) =
                        (&net.shared.ensemble.learners, net.shared.clock.now().wall_ms);
                    let who = (info.server, kind == PacketKind::OBSERVERINFO);
                    learner = Some(Learner::enter(all, who, from.peer(), now, backlog));
                }
                arrived.packets.add(kind, zxid);
            }
            bytes += packet_bytes(&packet);
            inputs.push(Input::Zab(zebu_zab::Input::Packet(link, packet)));
            if learns && kind == PacketKind::SNAP {
                turns::hand_in(net.shared.inbox(), &mut inputs, std::mem::take(&mut bytes));
                copy::receive(net, link, zxid, from, &mut received, &mut progress).await?;
                net.report(zebu_zab::Input::Copied { link, zxid });
            }
        }
        if let Some(learner) = &learner {
            learner.received(&arrived.packets);
        }
        drop(arrived);
        if inputs.is_empty() && learns {
            progress.moved();
        }
        turns::hand_in(net.shared.inbox(), &mut inputs, std::mem::take(&mut bytes));
        if learns {
            net.wait_for_disk().await;
        } else {
            net.wait_for_replica().await;
        }
        turns::passes(net.shared.inbox());
        received.reserve(if unknown.is_some() { GREETING_BYTES } else { 16 << 10 });
        let read = from.read_buf(&mut received);
        let count = match &unknown {
            Some(Introduction { due, .. }) => greeting::in_time(*due, read).await?,
            None => read.await?,
        };
        if count == 0 {
            return Ok(());
        }
        if let Some(expects) = greeting::expects(&received).filter(|_| unknown.is_some()) {
            return Err(io::Error::other(expects));
        }
    }
}

/// The id that a learner sends, if a packet contains one.
fn introduction(packet: &QuorumPacket) -> Option<LearnerInfo> {
    match packet.kind {
        PacketKind::FOLLOWERINFO | PacketKind::OBSERVERINFO => {
            LearnerInfo::decode(packet.data.as_deref()).ok().flatten()
        }
        _ => None,
    }
}

/// What has arrived together on a connection, counted together.
struct Arrived<'n> {
    /// The time at which it was read, by the wall clock.
    now_ms: i64,
    /// At a leader.
    packets: Packets,
    /// At a learner: its proposals and commits, and the times since the leader made the proposals.
    proposals: u64,
    proposed: Repeated<'n>,
    commits: u64,
    committed: Repeated<'n>,
    counters: [&'n Counter; 2],
}

impl<'n> Arrived<'n> {
    fn new(net: &'n Net) -> Self {
        let metrics = &net.shared.metrics;
        Self {
            now_ms: net.shared.clock.now().wall_ms,
            packets: Packets::default(),
            proposals: 0,
            proposed: metrics.proposal_latency.gather(),
            commits: 0,
            committed: metrics.commit_propagation_latency.gather(),
            counters: [
                &metrics.learner_proposal_received_count,
                &metrics.learner_commit_received_count,
            ],
        }
    }
}

impl Drop for Arrived<'_> {
    fn drop(&mut self) {
        let [proposals, commits] = self.counters;
        proposals.add(self.proposals);
        commits.add(self.commits);
    }
}

/// The state of the incoming direction of a connection.
#[derive(Default)]
struct Said {
    /// The time at which the leader began to synchronize this server.
    began: Option<Instant>,
    /// Whether this server is synchronized.
    current: bool,
    /// Proposals that the leader has not committed yet, and the times at which it made them.
    proposed: VecDeque<(Zxid, i64)>,
}

impl Said {
    /// A packet arrived, with a transaction that the leader made at this time.
    fn count(
        &mut self,
        net: &Net,
        packet: &QuorumPacket,
        made_ms: Option<i64>,
        learns: bool,
        arrived: &mut Arrived<'_>,
    ) {
        let metrics = &net.shared.metrics;
        if let Some(made_ms) = made_ms {
            self.time(packet, made_ms, arrived);
        }
        match packet.kind {
            PacketKind::REVALIDATE if !learns => metrics.revalidate_count.add(1),
            _ if !learns => {}
            PacketKind::DIFF | PacketKind::TRUNC | PacketKind::SNAP => {
                self.began.get_or_insert_with(Instant::now);
            }
            PacketKind::UPTODATE => {
                self.current = true;
                let Some(began) = self.began.take() else { return };
                let took = began.elapsed().as_millis() as i64;
                match net.config.role {
                    Role::Observer => metrics.observer_sync_time.add(took),
                    Role::Participant => metrics.follower_sync_time.add(took),
                }
            }
            PacketKind::PROPOSAL if self.current => arrived.proposals += 1,
            PacketKind::COMMIT
            | PacketKind::COMMITANDACTIVATE
            | PacketKind::INFORM
            | PacketKind::INFORMANDACTIVATE
                if self.current =>
            {
                arrived.commits += 1;
                while let Some((zxid, made_ms)) = self.proposed.front().copied()
                    && zxid <= packet.zxid
                {
                    self.proposed.pop_front();
                    if let Some(time) = latency(arrived.now_ms, made_ms) {
                        arrived.committed.add(time);
                    }
                }
            }
            _ => {}
        }
    }

    /// A transaction arrived, which the leader made at this time.
    fn time(&mut self, packet: &QuorumPacket, made_ms: i64, arrived: &mut Arrived<'_>) {
        if !self.current {
            // Transactions of a synchronization are not counted.
            return;
        }
        if packet.kind == PacketKind::PROPOSAL
            && let Some(time) = latency(arrived.now_ms, made_ms)
        {
            arrived.proposed.add(time);
        }
        self.proposed.push_back((packet.zxid, made_ms));
    }

    /// A learner introduces itself, or acknowledges a proposal.
    fn count_learner(net: &Net, packet: &QuorumPacket, backlog: &Backlog) {
        match packet.kind {
            PacketKind::FOLLOWERINFO | PacketKind::OBSERVERINFO => {
                if let Some(info) = introduction(packet) {
                    backlog.set_learner(info.server);
                }
            }
            PacketKind::ACK => {
                if let Some(learner) = backlog.learner() {
                    let Shared { counting, metrics, clock, .. } = &*net.shared;
                    counting.acknowledged(packet.zxid, learner, metrics, || clock.now().wall_ms);
                }
            }
            _ => {}
        }
    }
}

async fn speak(
    metrics: &Metrics,
    mut to: PeerWriter,
    orders: Orders,
    mut progress: Progress<impl Fn()>,
    copy_sent: impl Fn(),
) -> io::Result<()> {
    let Orders { mut orders, line, backlog, .. } = orders;
    let mut batch = Vec::new();
    let (mut bytes, mut leaving) = (Vec::new(), 0);
    loop {
        line.rest(to, &orders);
        let count = orders.recv_many(&mut batch, BATCH_PACKETS).await;
        to = line.resume().expect("only its writer takes it back");
        if count == 0 {
            return to.shutdown().await;
        }
        for order in batch.drain(..) {
            match order {
                ToLink::Packets(packets, since) => {
                    backlog.takes(packets.len(), since, metrics);
                    for packet in packets {
                        packet.encode(&mut Encoder::new(&mut bytes));
                        leaving += packet_bytes(&packet);
                        if bytes.len() > BATCH_BYTES {
                            write(&mut to, &bytes, &mut progress).await?;
                            bytes.clear();
                            backlog.sent(std::mem::take(&mut leaving));
                        }
                    }
                }
                ToLink::Rest(rest, waited) => {
                    bytes.extend(rest);
                    leaving += waited;
                }
                ToLink::Copy(mut pieces) => {
                    write(&mut to, &bytes, &mut progress).await?;
                    bytes.clear();
                    let mut whole = false;
                    while let Some(piece) = pieces.recv().await {
                        whole = piece.is_empty();
                        write(&mut to, &piece, &mut progress).await?;
                        backlog.sent(piece.len());
                    }
                    if !whole {
                        return Err(io::Error::other("a snapshot could not be made"));
                    }
                    copy_sent();
                }
            }
        }
        write(&mut to, &bytes, &mut progress).await?;
        bytes.clear();
        bytes.shrink_to(BATCH_BYTES);
        backlog.sent(std::mem::take(&mut leaving));
    }
}

/// Writes everything, and reports progress if the other end does not accept it at once.
async fn write(
    to: &mut PeerWriter,
    bytes: &[u8],
    progress: &mut Progress<impl Fn()>,
) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = to.write(rest).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = &rest[count..];
        if !rest.is_empty() {
            progress.moved();
        }
    }
    to.flush().await
}

/// Reports to the replica from time to time that bytes move on a connection, even if no packet is
/// complete.
pub(super) struct Progress<T> {
    tell: T,
    every: Duration,
    told: Instant,
}

impl Progress<()> {
    fn new(net: &Net, link: LinkId) -> Progress<impl Fn()> {
        let every = net.shared.config.sessions.tick / 2;
        Progress {
            tell: move || net.report(zebu_zab::Input::Moves(link)),
            every,
            told: Instant::now(),
        }
    }
}

impl<T: Fn()> Progress<T> {
    /// Some bytes were moved.
    pub(super) fn moved(&mut self) {
        if self.told.elapsed() >= self.every {
            self.told = Instant::now();
            (self.tell)();
        }
    }
}

fn invalid(error: DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A leader's packet with a transaction that must not be logged.
fn useless(packet: &QuorumPacket, error: DecodeError) -> io::Error {
    let QuorumPacket { kind, zxid, .. } = packet;
    let error = format!("{kind} {zxid} of the leader cannot be used: {error}");
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use tokio::net::TcpListener;

    use super::super::backlog::BACKLOG_BYTES_MAX;
    use super::*;

    /// A writer whose peer does not read yet, and the peer.
    async fn pair() -> (PeerWriter, PeerReader, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let (from, to) = zebu_transport::PeerStream::plain(near).unwrap().into_split();
        (to, from, far)
    }

    /// Counts all reported progress.
    fn counting(moves: &Arc<AtomicUsize>) -> Progress<impl Fn() + use<>> {
        let moves = moves.clone();
        let tell = move || {
            moves.fetch_add(1, Ordering::Relaxed);
        };
        Progress { tell, every: Duration::ZERO, told: Instant::now() }
    }

    #[tokio::test]
    async fn what_waits_for_a_peer_counts_until_it_is_sent() {
        let (to, _from, mut far) = pair().await;
        let data = Bytes::from(vec![7; 1 << 20]);
        let packet = QuorumPacket::with_data(PacketKind::PROPOSAL, Zxid(1), data);
        let (LinkHandle { to: sender, backlog, .. }, orders) = new_link();
        let mut fitting = 0;
        while backlog.add(std::slice::from_ref(&packet)) {
            sender.send(ToLink::Packets(vec![packet.clone()], None)).unwrap();
            fitting += 1;
        }
        sender.send(ToLink::Packets(vec![packet.clone()], None)).unwrap();
        assert_eq!(fitting, 1 + BACKLOG_BYTES_MAX / packet_bytes(&packet));
        drop(sender);
        backlog.set_learner(ServerId(7));
        let metrics = Arc::new(Metrics::default());
        let counted = metrics.clone();
        let moves = Arc::new(AtomicUsize::new(0));
        let progress = counting(&moves);
        let speaking =
            tokio::spawn(async move { speak(&counted, to, orders, progress, || ()).await });
        let received = tokio::io::copy(&mut far, &mut tokio::io::sink()).await.unwrap();
        speaking.await.unwrap().unwrap();
        assert!(received > BACKLOG_BYTES_MAX as u64);
        assert!(
            moves.load(Ordering::Relaxed) > 100,
            "a peer that takes it bit by bit makes progress"
        );
        assert_eq!(backlog.bytes(), 0);
    }

    #[tokio::test]
    async fn packets_go_past_the_writer_only_when_nothing_is_in_front_of_them() {
        let (writer, _from, mut far) = pair().await;
        let (handle, orders) = new_link();
        let backlog = handle.backlog.clone();
        let progress = counting(&Arc::default());
        let speaking = tokio::spawn(async move {
            speak(&Metrics::default(), writer, orders, progress, || ()).await
        });
        let metrics = Metrics::default();
        let packet = |zxid: i64, bytes| {
            QuorumPacket::with_data(PacketKind::PROPOSAL, Zxid(zxid), Bytes::from(vec![7; bytes]))
        };
        // The writer sleeps, and the next packets bypass it.
        tokio::task::yield_now().await;
        assert!(handle.send(vec![packet(1, 9), packet(2, 9)], &metrics));
        assert_eq!(backlog.bytes(), 0, "it is with the socket");
        // Too many, then too large, and then small ones that would fit. Nobody reads, so that the
        // socket is full at last.
        assert!(handle.send((3..40).map(|zxid| packet(zxid, 9)).collect(), &metrics));
        let mut last = 39;
        let mut waited = 0;
        for round in 0..600 {
            for bytes in [20_000, 9, 9_000] {
                last += 1;
                assert!(handle.send(vec![packet(last, bytes)], &metrics));
            }
            waited += usize::from(backlog.bytes() > 0);
            if round % 3 == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert!(waited > 0, "a peer that does not read is waited for");
        drop(handle);
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        speaking.await.unwrap().unwrap();
        let mut received = BytesMut::from(&*received);
        let decode = |_| QuorumPacket::decode(&mut received, 1 << 20).unwrap().unwrap().zxid.0;
        assert_eq!((1..=last).map(decode).collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());
        assert!(received.is_empty());
        assert_eq!((backlog.bytes(), backlog.packets_waiting()), (0, 0));
    }

    #[tokio::test]
    async fn a_tree_counts_as_sent_when_all_of_it_is() {
        for whole in [true, false] {
            let (to, _from, mut far) = pair().await;
            let (LinkHandle { to: sender, backlog: waiting, .. }, orders) = new_link();
            let (pieces, copy) = tokio::sync::mpsc::channel(1);
            sender.send(ToLink::Copy(copy)).unwrap();
            drop(sender);
            let sent = Arc::new(AtomicUsize::new(0));
            let counter = sent.clone();
            let count = move || {
                counter.fetch_add(1, Ordering::Relaxed);
            };
            let moves = Arc::new(AtomicUsize::new(0));
            let progress = counting(&moves);
            let speaking = tokio::spawn(async move {
                speak(&Metrics::default(), to, orders, progress, count).await
            });
            for piece in ["the tree", ""].into_iter().take(1 + usize::from(whole)) {
                assert_eq!(sent.load(Ordering::Relaxed), 0);
                waiting.grow(piece.len());
                pieces.send(Bytes::from(piece)).await.unwrap();
            }
            drop(pieces);
            assert_eq!(speaking.await.unwrap().is_ok(), whole);
            assert_eq!(sent.load(Ordering::Relaxed), usize::from(whole));
            assert_eq!(waiting.bytes(), 0);
            let mut received = Vec::new();
            far.read_to_end(&mut received).await.unwrap();
            assert_eq!(received, b"the tree");
            assert_eq!(moves.load(Ordering::Relaxed), 0, "what is taken at once is no news");
        }
    }
}
