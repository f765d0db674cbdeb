//! A client's connection to a server, without a socket: the shipped state machine, and the bytes in
//! both directions.

use std::net::IpAddr;
use std::time::Duration;

use zebu_engine::client::{Client, End, Wants, Worker};
use zebu_engine::conns::ConnLimits;
use zebu_engine::{Common, Conn, Outbox};

/// Turns in a row after which a connection does nothing but turn.
const TURNS_MAX: usize = 1 << 17;

/// The server's data for a connection: none, because every connection is served after every turn.
#[derive(Debug)]
pub struct Side;

impl zebu_engine::Side for Side {
    fn wake(&self) {}
}

/// A client's connection, with both directions of its socket.
pub struct Connection {
    client: Client<Side>,
    /// From the client, and not read by the server.
    unread: Vec<u8>,
    /// To the client.
    received: Vec<u8>,
    reads: bool,
    takes: bool,
    is_over: bool,
}

/// The time since the server started.
struct Network(Duration);

impl Worker<Side> for Network {
    fn monotonic(&self) -> Duration {
        self.0
    }

    fn sasl_given(&mut self) -> Option<zebu_auth::sasl::Given> {
        None
    }
}

impl Connection {
    /// A new connection from this address.
    ///
    /// # Panics
    /// Never: there is no limit of connections.
    pub fn open(common: &Common<Side>, address: IpAddr) -> Self {
        let outbox = Outbox::new(common.rules.outbox_bytes_max);
        let make = |id| Conn::new(id, address, common.schemes.initial(address), outbox, Side);
        let conn = common.conns.enter(address, ConnLimits::default(), make);
        let client = Client::new(conn.expect("there is no limit"));
        let (unread, received) = (Vec::new(), Vec::new());
        Self { client, unread, received, reads: true, takes: true, is_over: false }
    }

    /// The connection as the server sees it.
    pub fn conn(&self) -> &Conn<Side> {
        self.client.conn()
    }

    /// The client sends bytes, and its connection looks at them. What needs the replica waits for
    /// the next turn.
    pub fn send(&mut self, common: &Common<Side>, now: Duration, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        self.serve(common, now);
    }

    /// The connection looks at what there is: bytes of the client, and answers to it.
    ///
    /// # Panics
    /// It has something to do for ever.
    pub fn serve(&mut self, common: &Common<Side>, now: Duration) {
        for _ in 0..TURNS_MAX {
            if self.is_over {
                return;
            }
            if self.reads && !self.unread.is_empty() {
                self.client.received(&std::mem::take(&mut self.unread), self.takes, || now);
            }
            match self.drive(common, now) {
                Ok(Wants::Turn) => {}
                Ok(Wants::Wait { read, takes }) => {
                    (self.reads, self.takes) = (read, takes);
                    if !read || self.unread.is_empty() {
                        return;
                    }
                }
                Ok(Wants::End) | Err(_) => self.is_over = true,
            }
        }
        panic!("a connection has something to do for ever");
    }

    fn drive(&mut self, common: &Common<Side>, now: Duration) -> Result<Wants, End> {
        self.client.conn().looking();
        self.client.process(common, &mut Network(now))?;
        let waiting = self.client.collect()?;
        self.received.extend_from_slice(self.client.unsent());
        self.client.sent(self.client.unsent().len());
        Ok(self.client.wants(common, waiting, false))
    }

    /// The bytes that the client has received since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// Whether the server has closed the connection.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The connection ends; the server learns it at its next turn.
    pub fn leave(self, common: &Common<Side>) {
        self.client.leave(common);
    }
}
