//! The sockets of the election network.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tracing::{info, warn};
use zebu_jute::Encode as _;
use zebu_proto::quorum::{
    FirstMessage, InitialMessage, NOTIFICATION_VERSION, Notification, ServerState,
    SplitNotifications,
};
use zebu_proto::{EnsembleId, ServerId, Zxid};
use zebu_transport::{PeerReader, PeerWriter};
use zebu_zab::config::{Member, Membership};
use zebu_zab::election::{Ballot, State, Vote};
use zebu_zab::mesh::{self, WireId};
use zebu_zab::{Configs, Input};

use super::greeting::Halves;
use super::strangers::{Stranger, Strangers};
use super::{CONNECTIONS_MAX, Net, greeting, repair, sockets};
use crate::error::StartError;

/// Pause between attempts to bind the election port.
const BIND_PAUSE: Duration = Duration::from_secs(1);

/// The messages for a connection's writer: only the newest one is sent.
#[derive(Debug, Default)]
pub(super) struct Slot {
    next: Mutex<Next>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Next {
    message: Option<Bytes>,
    close: bool,
}

/// Listens at every election address of this server.
///
/// # Errors
/// An address cannot be bound.
pub(super) fn listen(net: &Arc<Net>, runtime: &tokio::runtime::Runtime) -> Result<(), StartError> {
    let mut tries = net.config.election.bind_tries;
    for address in net.me().election_addresses() {
        let listener = loop {
            let bound =
                runtime.block_on(sockets::listen(&address, net.config.election.listen_on_all));
            tries = tries.map(|tries| tries.saturating_sub(1));
            match bound {
                Ok(listener) => break listener,
                Err(error) if tries == Some(0) => {
                    let what =
                        format!("cannot listen for votes on {}:{}", address.host, address.port);
                    return Err(StartError::Listen { what, source: error });
                }
                Err(error) => {
                    warn!("cannot listen for votes on {}:{}: {error}", address.host, address.port);
                    std::thread::sleep(BIND_PAUSE);
                }
            }
        };
        let task = runtime.spawn(accept(net.clone(), listener));
        net.voting.lock().push(task.abort_handle());
    }
    Ok(())
}

/// Listens at the election addresses that a reconfiguration has given this server, and stops
/// listening at the previous ones.
pub(super) async fn listen_elsewhere(net: Arc<Net>) {
    for task in net.voting.lock().drain(..) {
        task.abort();
    }
    for address in net.me().election_addresses() {
        let mut warned = false;
        let listener = loop {
            match sockets::listen(&address, net.config.election.listen_on_all).await {
                Ok(listener) => break listener,
                Err(error) if !warned => {
                    warned = true;
                    let (host, port) = (&address.host, address.port);
                    warn!("cannot listen for votes on {host}:{port} yet: {error}");
                }
                Err(_) => {}
            }
            tokio::time::sleep(BIND_PAUSE).await;
            if !net.me().election_addresses().contains(&address) {
                return;
            }
        };
        info!("listening for votes on {}:{}", address.host, address.port);
        let task = tokio::spawn(accept(net.clone(), listener));
        net.voting.lock().push(task.abort_handle());
    }
}

async fn accept(net: Arc<Net>, listener: TcpListener) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let strangers = Strangers::default();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // A connection without an introduction soon ends and frees its place.
                let Ok(place) = room.clone().try_acquire_owned() else { continue };
                let Some(stranger) = strangers.admit(from.ip()) else { continue };
                let net = net.clone();
                tokio::spawn(async move {
                    let _place = place;
                    if let Err(error) = welcome(&net, stream, stranger).await {
                        net.ended(&format!("election connection from {from}"), &error);
                    }
                });
            }
            Err(error) => {
                warn!("accepting an election connection failed: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Reads the introduction of the connecting server.
async fn welcome(net: &Arc<Net>, socket: TcpStream, stranger: Stranger) -> io::Result<()> {
    sockets::tune(&socket, net.tuning());
    let due = Instant::now() + net.config.election.handshake_timeout;
    let known = async {
        let mut halves = Halves::from(greeting::open(net, socket).await?);
        let message = loop {
            if let Some(message) = FirstMessage::decode(&mut halves.received).map_err(invalid)? {
                break message;
            }
            if halves.from.read_buf(&mut halves.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        halves.examine(net).await?;
        Ok((halves, message))
    };
    let (halves, message) = greeting::in_time(due, known).await?;
    drop(stranger);
    greeting::vouch(net, message.server(), halves.from.certificate())?;
    let message = match message {
        FirstMessage::Initial(message) => message,
        FirstMessage::Repair(question) => return repair::answer(net, halves, question).await,
    };
    let addresses: Vec<_> = message.usable().cloned().collect();
    if !addresses.is_empty() {
        net.remember(message.server, addresses);
    }
    let wire = WireId(net.id());
    let slot = Arc::new(Slot::default());
    net.wires.lock().insert(wire, slot.clone());
    net.report(Input::Mesh(mesh::Input::Accepted { wire, peer: message.server }));
    serve(net.clone(), halves, wire, slot).await;
    Ok(())
}

/// Connects to a server, and sends the introduction of this server.
pub(super) async fn dial(net: Arc<Net>, peer: ServerId) {
    let me = net.me();
    let multi = net.config.rules.multi_address;
    let message = InitialMessage::new(me.id, &me.election_addresses(), multi);
    match introduce(&net, peer, &message.to_bytes()).await {
        Ok(halves) => {
            let wire = WireId(net.id());
            let slot = Arc::new(Slot::default());
            net.wires.lock().insert(wire, slot.clone());
            net.report(Input::Mesh(mesh::Input::Dialled { wire, peer }));
            serve(net, halves, wire, slot).await;
        }
        Err(error) => {
            net.ended(&format!("server {} cannot be reached for votes", peer.0), &error);
            net.report(Input::Mesh(mesh::Input::Refused(peer)));
        }
    }
}

/// Connects to a server, sends a first message, and authenticates.
pub(super) async fn introduce(net: &Net, peer: ServerId, message: &[u8]) -> io::Result<Halves> {
    let mut addresses = net.members.lock().addresses(peer, Member::election_addresses);
    addresses.extend(net.said.lock().get(&peer).into_iter().flatten().cloned());
    let patience = net.config.election.connect_timeout;
    let (stream, host) = greeting::reach(net, &addresses, patience, net.tuning()).await?;
    greeting::vouch(net, peer, stream.certificate())?;
    let mut halves = Halves::from(stream);
    // In one write, because the original reads it with a single call.
    halves.to.write_all(message).await?;
    halves.to.flush().await?;
    halves.prove(net, &host, net.config.election.handshake_timeout).await?;
    Ok(halves)
}

async fn serve(net: Arc<Net>, halves: Halves, wire: WireId, slot: Arc<Slot>) {
    let Halves { from, to, received } = halves;
    let ended = tokio::select! {
        ended = hear(&net, from, received, wire) => ended,
        ended = speak(to, &slot) => ended,
    };
    if let Err(error) = ended {
        net.ended(&format!("election connection {}", wire.0), &error);
    }
    if net.wires.lock().remove(&wire).is_some() {
        net.report(Input::Mesh(mesh::Input::Closed(wire)));
    }
}

async fn hear(
    net: &Net,
    mut from: PeerReader,
    mut received: BytesMut,
    wire: WireId,
) -> io::Result<()> {
    loop {
        let split = |received: &mut BytesMut| {
            // SASL follows the first message.
            let expected = greeting::expects(received);
            SplitNotifications::decode(received)
                .map_err(|error| expected.map_or_else(|| invalid(error), io::Error::other))
        };
        while let Some(message) = split(&mut received)? {
            let said = Notification::decode(&message).ok();
            match said.as_ref().and_then(|said| Some((said, ballot(said)?))) {
                Some((said, ballot)) => {
                    let said = configs(net, ballot.vote.leader, said);
                    net.report(Input::Heard { wire, ballot, said });
                }
                None => info!("a notification of connection {} is invalid", wire.0),
            }
        }
        net.wait_for_replica().await;
        if from.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
}

async fn speak(mut to: PeerWriter, slot: &Slot) -> io::Result<()> {
    loop {
        let (message, close) = {
            let mut next = slot.next.lock();
            (next.message.take(), next.close)
        };
        match message {
            Some(message) => {
                to.write_all(&message).await?;
                to.flush().await?;
            }
            None if close => return to.shutdown().await,
            None => slot.changed.notified().await,
        }
    }
}

/// Sends a notification. It replaces one that is not sent yet.
pub(super) fn send(net: &Net, wire: WireId, ballot: Ballot) {
    let Some(slot) = net.wires.lock().get(&wire).cloned() else { return };
    let (config, proposed) = net.members.lock().texts();
    let mut bytes = Vec::with_capacity(64 + 2 * config.len());
    let ensemble = net.shared.common.identity().settled();
    notification(ballot, config, proposed, ensemble)
        .encode_frame(&mut zebu_jute::Encoder::new(&mut bytes));
    slot.next.lock().message = Some(bytes.into());
    slot.changed.notify_one();
}

/// Closes a connection, after sending the waiting message.
pub(super) fn close(net: &Net, wire: WireId) {
    let Some(slot) = net.wires.lock().remove(&wire) else { return };
    slot.next.lock().close = true;
    slot.changed.notify_one();
}

fn notification(
    ballot: Ballot,
    config: Bytes,
    proposed: Option<Bytes>,
    ensemble: Option<EnsembleId>,
) -> Notification {
    let Ballot { vote, round, state, .. } = ballot;
    Notification {
        state: match state {
            State::Looking => ServerState::LOOKING,
            State::Following => ServerState::FOLLOWING,
            State::Leading => ServerState::LEADING,
            State::Observing => ServerState::OBSERVING,
        },
        leader: vote.leader,
        zxid: vote.zxid,
        round,
        peer_epoch: vote.epoch,
        version: NOTIFICATION_VERSION,
        config: Some(config),
        proposed,
        ensemble,
    }
}

/// The configurations in a notification, if they are new.
fn configs(net: &Net, leader: ServerId, said: &Notification) -> Configs {
    let (text, proposed_text) = net.members.lock().texts();
    let read = |said: &Option<Bytes>, known: Option<&Bytes>| {
        let news = said.as_ref().filter(|said| Some(*said) != known);
        news.and_then(|text| Membership::agreed(text)).map(Arc::new)
    };
    let committed = read(&said.config, Some(&text));
    let proposed = read(&said.proposed, proposed_text.as_ref());
    if let Some(theirs) = &committed {
        let ours = net.members.lock().committed().clone();
        if theirs.version() == ours.version()
            && !theirs.is_same_as(&ours.as_ref().clone().with_version(Zxid(-1)))
            && net.strangers.lock().insert(leader)
        {
            warn!(
                "a server that votes for {} has another configuration of the same version {:x}: {}",
                leader.0,
                theirs.version().0,
                theirs.to_string().replace('\n', ", ")
            );
        }
    }
    Configs { committed, proposed, ensemble: said.ensemble }
}

fn ballot(said: &Notification) -> Option<Ballot> {
    let state = match said.state {
        ServerState::LOOKING => State::Looking,
        ServerState::FOLLOWING => State::Following,
        ServerState::LEADING => State::Leading,
        ServerState::OBSERVING => State::Observing,
        _ => return None,
    };
    let vote = Vote { leader: said.leader, zxid: said.zxid, epoch: said.peer_epoch };
    Some(Ballot { vote, round: said.round, state, versioned: said.version > 0 })
}

fn invalid(error: zebu_jute::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
