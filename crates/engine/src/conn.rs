//! A client connection as other threads see it: its outbox, session and credentials.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use zebu_proto::SessionId;
use zebu_replica::ConnId;
use zebu_replica::auth::{Credentials, Verdict};

use crate::faults;
use crate::outbox::Outbox;
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};

/// Data that the driver keeps with each connection.
pub trait Side: fmt::Debug + Send + Sync {
    /// Wakes the task of the connection: it has bytes to send or requests to take.
    fn wake(&self);
}

/// Identifies an auth packet of a connection whose scheme answers asynchronously. Tickets increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// An outstanding verdict, or one that has arrived.
#[derive(Debug, Default)]
struct Pending {
    ticket: Ticket,
    verdict: Option<Verdict>,
}

/// A client's connection.
#[derive(Debug)]
pub struct Conn<S> {
    /// Its number.
    pub id: ConnId,
    /// The client's address.
    pub address: IpAddr,
    /// Bytes to send.
    pub outbox: Mutex<Outbox>,
    /// Set by the first thread that wakes the task, so that later ones need not.
    woken: AtomicBool,
    /// Requests in flight through the replica.
    pub in_flight: AtomicU32,
    /// Reads among them, whose answers have unknown sizes.
    pub queued_reads: AtomicU32,
    /// The session id; 0 before there is a session.
    session: AtomicI64,
    /// The session's timeout, in milliseconds.
    pub timeout_ms: AtomicI32,
    /// Whether the client has sent its connect request. Before that it may still ask a four-letter
    /// word, which is answered whether or not the server serves.
    pub has_connected: AtomicBool,
    /// Whether the client sent the optional byte of the connect request.
    pub says_read_only: AtomicBool,
    /// Whether its connect request asks for the id of the ensemble.
    pub asks_ensemble: AtomicBool,
    /// Whether the connect request renews a session.
    pub renews: AtomicBool,
    /// The client's credentials.
    ids: RwLock<Credentials>,
    /// The latest auth packet with an asynchronous scheme.
    pending: Mutex<Pending>,
    /// When the client last sent something, in milliseconds of the server's monotonic clock.
    pub heard_ms: AtomicU64,
    /// The driver's data.
    pub side: S,
}

impl<S: Side> Conn<S> {
    /// Creates a newly accepted connection.
    pub fn new(id: ConnId, address: IpAddr, ids: Credentials, outbox: Outbox, side: S) -> Self {
        Self {
            id,
            address: address.to_canonical(),
            outbox: Mutex::new(outbox),
            woken: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            queued_reads: AtomicU32::new(0),
            session: AtomicI64::new(0),
            timeout_ms: AtomicI32::new(0),
            has_connected: AtomicBool::new(false),
            says_read_only: AtomicBool::new(false),
            asks_ensemble: AtomicBool::new(false),
            renews: AtomicBool::new(false),
            ids: RwLock::new(ids),
            pending: Mutex::new(Pending::default()),
            heard_ms: AtomicU64::new(0),
            side,
        }
    }

    /// The session, if the connection has one.
    pub fn session(&self) -> Option<SessionId> {
        let id = self.session.load(Ordering::Acquire);
        (id != 0).then_some(SessionId(id))
    }

    /// Gives the connection its session.
    pub fn set_session(&self, session: SessionId, timeout_ms: i32) {
        assert_ne!(session, SessionId::NONE, "this number says that there is none");
        debug_assert!(self.session().is_none(), "{:?} has another session", self.id);
        self.timeout_ms.store(timeout_ms, Ordering::Relaxed);
        self.session.store(session.0, Ordering::Release);
    }

    /// The current credentials.
    pub fn ids(&self) -> Credentials {
        self.ids.read().clone()
    }

    /// Calls `look` with the current credentials.
    pub fn with_ids<T>(&self, look: impl FnOnce(&Credentials) -> T) -> T {
        look(&self.ids.read())
    }

    /// Replaces the credentials.
    pub fn set_ids(&self, ids: Credentials) {
        *self.ids.write() = ids;
    }

    /// Issues the ticket of a new auth packet and forgets the older ones.
    pub(crate) fn asks(&self) -> Ticket {
        let mut pending = self.pending.lock();
        let ticket = Ticket(pending.ticket.0 + 1);
        *pending = Pending { ticket, verdict: None };
        ticket
    }

    /// Stores the verdict on the auth packet with this ticket. Later verdicts and those on earlier
    /// packets are ignored.
    pub fn decide(&self, ticket: Ticket, verdict: Verdict) {
        let mut pending = self.pending.lock();
        if pending.ticket != ticket || pending.verdict.is_some() {
            return;
        }
        pending.verdict = Some(verdict);
        drop(pending);
        self.wake();
    }

    /// Takes the verdict on the current auth packet, if it has arrived.
    pub(crate) fn verdict(&self, ticket: Ticket) -> Option<Verdict> {
        let mut pending = self.pending.lock();
        assert_eq!(pending.ticket, ticket, "one verdict is waited for at a time");
        pending.verdict.take()
    }

    /// Wakes the task of this connection.
    pub fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.side.wake();
        }
    }

    /// Whether the task was woken since it last [began to look](Conn::looking).
    pub fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// The task is about to look for work: later events wake it again.
    ///
    /// A swap, not a store: the task must see everything that preceded the last wake-up it takes.
    pub fn looking(&self) {
        if faults::loses_wake_ups() {
            return;
        }
        self.woken.swap(false, Ordering::AcqRel);
    }

    /// When the client last sent something.
    pub fn heard(&self) -> Duration {
        Duration::from_millis(self.heard_ms.load(Ordering::Relaxed))
    }

    /// Notes that the client sent something. `now` is on the server's monotonic clock.
    pub fn hear(&self, now: Duration) {
        self.heard_ms.store(now.as_millis() as u64, Ordering::Relaxed);
    }
}
