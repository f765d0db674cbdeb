//! The network of the simulator as a transport of the client. Requests of the client wait here
//! until the world takes them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use zebu_client::{Connection, Dialed, HostProvider, Servers, Transport};
use zebu_sim::World;
use zebu_sim::guest::{Arrival, address};

enum Asked {
    Dial(u64, SocketAddr),
    Send(u64, Vec<u8>),
    Close(u64),
}

#[derive(Default)]
struct Pipe {
    arrived: VecDeque<u8>,
    is_closed: bool,
    reader: Option<Waker>,
}

#[derive(Default)]
struct State {
    attempts: u64,
    asked: Vec<Asked>,
    dials: BTreeMap<u64, oneshot::Sender<io::Result<Wire>>>,
    pipes: BTreeMap<u64, Pipe>,
}

/// The network card of one guest.
#[derive(Clone, Default)]
pub(crate) struct Port(Arc<Mutex<State>>);

/// One connection.
struct Wire {
    port: Port,
    id: u64,
}

impl Transport for Port {
    fn dial(&self, server: SocketAddr) -> Dialed<'_> {
        let (sender, dialed) = oneshot::channel();
        let mut state = self.0.lock();
        state.attempts += 1;
        let attempt = state.attempts;
        state.asked.push(Asked::Dial(attempt, server));
        state.dials.insert(attempt, sender);
        drop(state);
        Box::pin(async move {
            let wire = dialed.await.map_err(io::Error::other)??;
            Ok(Box::new(wire) as Box<dyn Connection>)
        })
    }
}

impl Port {
    /// Delivers the events that have come from the world.
    pub(crate) fn arrive(&self, world: &mut World, guest: usize) {
        for arrival in world.arrivals(guest) {
            match arrival {
                Arrival::Connected { attempt, connection } => {
                    let mut state = self.0.lock();
                    let sender = state.dials.remove(&attempt);
                    state.pipes.insert(connection, Pipe::default());
                    drop(state);
                    // A wire that no program takes is dropped, and therefore closed.
                    let wire = Wire { port: self.clone(), id: connection };
                    match sender {
                        Some(sender) => drop(sender.send(Ok(wire))),
                        None => drop(wire),
                    }
                }
                Arrival::Refused { attempt } => {
                    let sender = self.0.lock().dials.remove(&attempt);
                    if let Some(sender) = sender {
                        drop(sender.send(Err(io::ErrorKind::ConnectionRefused.into())));
                    }
                }
                Arrival::Bytes(connection, bytes) => {
                    self.tell(connection, |pipe| pipe.arrived.extend(&bytes));
                }
                Arrival::Closed(connection) => self.tell(connection, |pipe| pipe.is_closed = true),
            }
        }
    }

    fn tell(&self, connection: u64, what: impl FnOnce(&mut Pipe)) {
        let mut state = self.0.lock();
        let Some(pipe) = state.pipes.get_mut(&connection) else { return };
        what(pipe);
        let reader = pipe.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Passes the guest's requests to the world.
    pub(crate) fn depart(&self, world: &mut World, guest: usize) {
        let asked = std::mem::take(&mut self.0.lock().asked);
        for asked in asked {
            match asked {
                Asked::Dial(attempt, server) => world.dial_from(guest, attempt, server),
                Asked::Send(connection, bytes) => world.send_from(guest, connection, bytes.into()),
                Asked::Close(connection) => world.close_from(guest, connection),
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.port.0.lock();
        let Some(pipe) = state.pipes.get_mut(&self.id) else { return Poll::Ready(Ok(())) };
        if pipe.arrived.is_empty() && !pipe.is_closed {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = into.remaining().min(pipe.arrived.len());
        let bytes: Vec<u8> = pipe.arrived.drain(..count).collect();
        into.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.port.0.lock();
        if state.pipes.get(&self.id).is_none_or(|pipe| pipe.is_closed) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        state.asked.push(Asked::Send(self.id, bytes.to_vec()));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let mut state = self.port.0.lock();
        state.pipes.remove(&self.id);
        state.asked.push(Asked::Close(self.id));
    }
}

/// The servers of the world.
pub(crate) struct Hosts(pub(crate) usize);

impl HostProvider for Hosts {
    fn servers(&self) -> Servers<'_> {
        Box::pin(async { Ok((0..self.0).map(address).collect()) })
    }
}
