//! A client's connection to a standalone server, with a socket whose bytes arrive in pieces, and
//! whose client may not read.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use zebu_engine::client::{Client, End, Run, Wants, Worker};
use zebu_engine::conns::ConnLimits;
use zebu_engine::{Common, Conn, Outbox, WorkerTurns};
use zebu_replica::Input;
use zebu_testkit::Random;

use super::Numbers;

/// A task that takes this many turns in a row does not make progress.
const SPINS_MAX: usize = 10_000;

/// The reason for the end of a connection whose task makes no progress.
pub(super) const SPINS: &str = "its task turns and turns";

/// Connections whose tasks are to be woken.
pub(super) type Awake = Arc<Mutex<Numbers>>;

/// The server's state for a connection.
#[derive(Debug)]
pub(super) struct Side {
    number: usize,
    awake: Awake,
}

impl zebu_engine::Side for Side {
    fn wake(&self) {
        self.awake.lock().insert(self.number);
    }
}

/// A connection, and both directions of its socket.
pub(super) struct Socket {
    client: Client<Side>,
    /// Bytes from the client that the server has not read.
    sent: BytesMut,
    /// Bytes to the client that the client has not read.
    received: BytesMut,
    reads: bool,
    takes: bool,
    /// Why the connection is over.
    end: Option<Option<End>>,
}

/// The resources of a worker for the connection that it serves.
pub(super) struct Desk<'p> {
    pub(super) turns: &'p mut WorkerTurns,
    pub(super) quiet: &'p mut usize,
    pub(super) now: Duration,
}

impl Worker<Side> for Desk<'_> {
    fn monotonic(&self) -> Duration {
        self.now
    }

    fn sasl_given(&mut self) -> Option<zebu_auth::sasl::Given> {
        let random = [7; zebu_auth::sasl::RANDOM_BYTES];
        Some(zebu_auth::sasl::Given { wall: self.monotonic(), random })
    }

    fn hand_in(
        &mut self,
        common: &Common<Side>,
        conn: &Conn<Side>,
        received: Duration,
        inputs: &mut Vec<Input>,
    ) {
        let count = inputs.len();
        if self.turns.keeps(conn.id, received, count) {
            *self.quiet += count;
            common.inbox.push_quietly(inputs, 0);
        } else {
            // A woken thread handles all inputs.
            *self.quiet = 0;
            common.inbox.push_all(inputs);
        }
    }

    fn ran(&mut self, conn: &Conn<Side>, run: &Run) {
        if run.answers.count > 0 {
            self.turns.serves(conn.id, run.received);
        }
    }
}

impl Socket {
    pub(super) fn open(common: &Common<Side>, awake: &Awake, number: usize) -> Self {
        let address = [127, 0, 0, 1].into();
        let ids = common.schemes.initial(address);
        let outbox = Outbox::new(common.rules.outbox_bytes_max);
        let side = Side { number, awake: awake.clone() };
        let make = |id| Conn::new(id, address, ids, outbox, side);
        let conn = common.conns.enter(address, ConnLimits::default(), make);
        let client = Client::new(conn.expect("there is no limit"));
        let (sent, received) = (BytesMut::new(), BytesMut::new());
        Self { client, sent, received, reads: true, takes: true, end: None }
    }

    /// The client sends bytes.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
    }

    /// Whether the server has ended the connection.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Why the server has ended the connection.
    pub(super) fn end(&self) -> Option<End> {
        self.end.flatten()
    }

    /// The client leaves; the server ends the connection.
    pub(super) fn leave(&self, common: &Common<Side>) {
        self.client.leave(common);
    }

    /// Runs the connection's task once. Returns whether it had anything to do.
    pub(super) fn serve(
        &mut self,
        common: &Common<Side>,
        desk: &mut Desk<'_>,
        random: &mut Random,
        is_awake: bool,
    ) -> bool {
        if self.is_over() {
            return false;
        }
        let can_read = self.reads && !self.sent.is_empty();
        let can_write = !self.client.unsent().is_empty();
        if !can_read && !is_awake && !can_write {
            return false;
        }
        if can_read {
            let count = random.between(1, self.sent.len() as u64) as usize;
            let bytes = self.sent.split_to(count);
            let now = desk.now;
            self.client.received(&bytes, self.takes, || now);
        }
        if let Err(end) = self.drive(common, desk, random) {
            self.end = Some(end);
        }
        true
    }

    fn drive(
        &mut self,
        common: &Common<Side>,
        desk: &mut Desk<'_>,
        random: &mut Random,
    ) -> Result<(), Option<End>> {
        for _ in 0..SPINS_MAX {
            self.client.conn().looking();
            self.client.process(common, desk).map_err(Some)?;
            let waiting = self.client.collect().map_err(Some)?;
            // The client's socket may have room for a part only.
            let unsent = self.client.unsent();
            let count = if random.one_in(6) {
                random.below(unsent.len() as u64) as usize
            } else {
                unsent.len()
            };
            self.received.extend_from_slice(&unsent[..count]);
            self.client.sent(count);
            match self.client.wants(common, waiting, false) {
                Wants::Turn => {}
                Wants::End => return Err(None),
                Wants::Wait { read, takes } => {
                    (self.reads, self.takes) = (read, takes);
                    return Ok(());
                }
            }
        }
        Err(Some(End::Broken(SPINS)))
    }

    /// Takes the frames that the client has received.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        let mut frames = Vec::new();
        while let Some(length) = self.received.first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if self.received.len() < 4 + length {
                break;
            }
            self.received.advance(4);
            frames.push(self.received.split_to(length).freeze());
        }
        frames
    }
}
