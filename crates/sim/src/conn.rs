//! Connections of clients at a server: the engine's own, with a simulated socket.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use zebu_engine::client::{Client, Run, Wants, Worker};
use zebu_engine::conns::ConnLimits;
use zebu_engine::{Common, Conn, Outbox};
use zebu_proto::Id;

use crate::net::{Kind, Message};
use crate::world::World;

/// Connections whose tasks are to be woken, by their number on the network.
pub(crate) type Awake = Arc<Mutex<BTreeSet<u64>>>;

/// The server's state for a connection.
#[derive(Debug)]
pub(crate) struct Side {
    /// Its number on the network.
    pub(crate) connection: u64,
    awake: Awake,
}

impl zebu_engine::Side for Side {
    fn wake(&self) {
        self.awake.lock().insert(self.connection);
    }
}

/// A client's connection and its socket.
pub(crate) struct Connection {
    client: Client<Side>,
    /// Bytes that the server has not read.
    socket: VecDeque<Bytes>,
    /// Whether the server reads from the socket, and whether it takes requests, as of the last run
    /// of the task.
    reads: bool,
    takes: bool,
}

/// The resources of a worker for the connection that it serves.
struct Desk<'w> {
    world: &'w mut World,
    server: usize,
}

impl Worker<Side> for Desk<'_> {
    fn monotonic(&self) -> Duration {
        self.world.servers[self.server].clock(self.world.now).monotonic
    }

    fn sasl_given(&mut self) -> Option<zebu_auth::sasl::Given> {
        let random = [7; zebu_auth::sasl::RANDOM_BYTES];
        Some(zebu_auth::sasl::Given { wall: self.monotonic(), random })
    }

    fn ran(&mut self, conn: &Conn<Side>, run: &Run) {
        if let Some(session) = conn.session().filter(|_| run.frames > 0) {
            self.world.checks.expiry.frames(self.server, session, self.world.now);
        }
    }
}

impl World {
    /// A client connects.
    pub(crate) fn accept(&mut self, server: usize, place: usize) -> u64 {
        let connection = self.open(Kind::Client, place, server);
        let address = [127, 0, 0, 1].into();
        let mut ids = self.schemes.initial(address);
        if self.is_operator(place - self.plan.servers()) {
            ids = ids.iter().cloned().chain([Id::new("super", "")]).collect();
        }
        if let Some(process) = &mut self.servers[server].process {
            let common = &process.common;
            let outbox = Outbox::new(common.rules.outbox_bytes_max);
            let side = Side { connection, awake: process.awake.clone() };
            let limits = ConnLimits::default();
            let make = |id| Conn::new(id, address, ids, outbox, side);
            let conn = common.conns.enter(address, limits, make).expect("there is no limit");
            let (client, socket) = (Client::new(conn), VecDeque::new());
            let connection_of = Connection { client, socket, reads: true, takes: true };
            process.clients.insert(connection, connection_of);
        }
        connection
    }

    /// Bytes from a client arrive.
    pub(crate) fn frames(&mut self, server: usize, id: u64, mut frames: Bytes) {
        // Bytes that were sent together may arrive in two parts.
        let cut = self.random.one_in(8).then(|| self.random.below(frames.len() as u64) as usize);
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(connection) = process.clients.get_mut(&id) else { return };
        if let Some(cut) = cut.filter(|cut| *cut > 0) {
            connection.socket.push_back(frames.split_to(cut));
        }
        connection.socket.push_back(frames);
        self.serve(server, id);
    }

    /// Runs a connection's task, which was woken or has received bytes.
    fn serve(&mut self, server: usize, id: u64) {
        let Some(process) = &mut self.servers[server].process else { return };
        let number = process.number;
        let common = Arc::clone(&process.common);
        let Some(mut connection) = process.clients.remove(&id) else { return };
        let goes_on = self.drive(server, id, &common, &mut connection);
        let Some(process) = self.process(server, number) else { return };
        process.clients.insert(id, connection);
        if !goes_on {
            self.end_conn(server, id);
        }
        self.wake_soon(server, number);
    }

    /// Runs a connection until it waits for something. Returns false if the connection ends.
    fn drive(
        &mut self,
        server: usize,
        id: u64,
        common: &Common<Side>,
        connection: &mut Connection,
    ) -> bool {
        let Connection { client, socket, reads, takes } = connection;
        // Long answers arrive in pieces.
        let mut frames = Vec::new();
        loop {
            client.conn().looking();
            if *reads && let Some(bytes) = socket.pop_front() {
                let now = self.servers[server].clock(self.now).monotonic;
                client.received(&bytes, *takes, || now);
                if let Some(session) = client.conn().session().filter(|_| !*takes) {
                    self.checks.expiry.frames(server, session, self.now);
                }
            }
            if client.process(common, &mut Desk { world: self, server }).is_err() {
                return false;
            }
            let Ok(waiting) = client.collect() else { return false };
            let count = client.unsent().len();
            frames.extend_from_slice(client.unsent());
            client.sent(count);
            if waiting == 0 && !client.has_unsent() && !frames.is_empty() {
                self.send(id, server, Message::Frames(std::mem::take(&mut frames).into()));
            }
            match client.wants(common, waiting, false) {
                Wants::Turn => {}
                Wants::End => return false,
                Wants::Wait { read, takes: taken } => {
                    (*reads, *takes) = (read, taken);
                    if !read || socket.is_empty() {
                        return true;
                    }
                }
            }
        }
    }

    /// Runs the woken tasks of connections.
    pub(crate) fn wake_conns(&mut self, server: usize) {
        loop {
            let Some(process) = &self.servers[server].process else { return };
            let Some(id) = process.awake.lock().pop_first() else { return };
            self.serve(server, id);
        }
    }

    /// A client's connection ends, at the request of either side.
    pub(crate) fn end_conn(&mut self, server: usize, id: u64) {
        self.close(id, server);
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(connection) = process.clients.remove(&id) else { return };
        connection.client.leave(&process.common);
        let number = process.number;
        self.wake_soon(server, number);
    }
}
