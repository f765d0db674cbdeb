//! A client's connection as the rest of the server sees it: where answers go, and who the client is.

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

/// What a driver keeps beside a connection.
pub trait Side: fmt::Debug + Send + Sync {
    /// Wakes whoever serves the connection: there is something to send, or to go on with.
    fn wake(&self);
}

/// Stands for one auth packet of a connection whose scheme takes its time. Later packets have larger ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A verdict that is waited for, or has come.
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
    /// What is to be sent.
    pub outbox: Mutex<Outbox>,
    /// Set by whoever wakes it, so that only the first does.
    woken: AtomicBool,
    /// Requests on their way through the replica.
    pub in_flight: AtomicU32,
    /// Those of them whose answers nobody knows the size of.
    pub queued_reads: AtomicU32,
    /// Its session; 0 before it has one.
    session: AtomicI64,
    /// The session's timeout, in milliseconds.
    pub timeout_ms: AtomicI32,
    /// Whether the client has sent its connect request. Before that it may still ask a four-letter word,
    /// which is answered whether or not the server serves.
    pub has_connected: AtomicBool,
    /// Whether the client sent the optional byte of the connect request.
    pub says_read_only: AtomicBool,
    /// Whether it wants to go on with a session, not to begin one.
    pub renews: AtomicBool,
    /// Its ids.
    ids: RwLock<Credentials>,
    /// The auth packet whose scheme takes its time.
    pending: Mutex<Pending>,
    /// When it was last heard of, in milliseconds of the server's monotonic clock.
    pub heard_ms: AtomicU64,
    /// What the driver keeps beside it.
    pub side: S,
}

impl<S: Side> Conn<S> {
    /// A connection that was just accepted.
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
            renews: AtomicBool::new(false),
            ids: RwLock::new(ids),
            pending: Mutex::new(Pending::default()),
            heard_ms: AtomicU64::new(0),
            side,
        }
    }

    /// The session, once there is one.
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

    /// The ids it has now.
    pub fn ids(&self) -> Credentials {
        self.ids.read().clone()
    }

    /// Runs `look` on the ids it has now.
    pub fn with_ids<T>(&self, look: impl FnOnce(&Credentials) -> T) -> T {
        look(&self.ids.read())
    }

    /// Replaces the ids.
    pub fn set_ids(&self, ids: Credentials) {
        *self.ids.write() = ids;
    }

    /// Begins to wait for a verdict.
    pub(crate) fn asks(&self) -> Ticket {
        let mut pending = self.pending.lock();
        let ticket = Ticket(pending.ticket.0 + 1);
        *pending = Pending { ticket, verdict: None };
        ticket
    }

    /// The verdict on the auth packet of this number has come; the first one counts, and none counts for a later packet.
    pub fn decide(&self, ticket: Ticket, verdict: Verdict) {
        let mut pending = self.pending.lock();
        if pending.ticket != ticket || pending.verdict.is_some() {
            return;
        }
        pending.verdict = Some(verdict);
        drop(pending);
        self.wake();
    }

    /// The verdict that is waited for, once it has come.
    pub(crate) fn verdict(&self, ticket: Ticket) -> Option<Verdict> {
        let mut pending = self.pending.lock();
        assert_eq!(pending.ticket, ticket, "one verdict is waited for at a time");
        pending.verdict.take()
    }

    /// Says that there is something to send or to look at.
    pub fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.side.wake();
        }
    }

    /// Whether there is something to look at since the task was [about to look](Conn::looking).
    pub fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// The task is about to look: whatever comes from now on wakes it again.
    ///
    /// A swap, not a store: the task must see what came before the last wake-up that it takes.
    pub fn looking(&self) {
        if faults::loses_wake_ups() {
            return;
        }
        self.woken.swap(false, Ordering::AcqRel);
    }

    /// When it was last heard of.
    pub fn heard(&self) -> Duration {
        Duration::from_millis(self.heard_ms.load(Ordering::Relaxed))
    }

    /// The client is heard of, at this time of the server's monotonic clock.
    pub fn hear(&self, now: Duration) {
        self.heard_ms.store(now.as_millis() as u64, Ordering::Relaxed);
    }
}
