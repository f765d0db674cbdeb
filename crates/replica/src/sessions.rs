//! Sessions and their expiry: deadlines in buckets of one tick.
//!
//! Owns the deadlines and the connection of each session. The replicated table of sessions belongs
//! to the tree; local sessions are only tracked here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use zebu_proto::SessionId;
use zebu_zab::LinkId;

use crate::ConnId;
use crate::faults;

/// How signs of life of a session arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Through a connection of this server.
    Conn(ConnId),
    /// Through another server: at the leader, and at a follower for its observers.
    Link(LinkId),
    /// Not at all: its connection is closed or being replaced. Its requests are refused until it is
    /// renewed.
    Nobody,
}

/// One live session.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Its timeout, in milliseconds.
    pub timeout_ms: i32,
    /// When it expires without signs of life, on the server's monotonic clock.
    pub deadline: Duration,
    /// Its end has been proposed: writes are refused.
    pub closing: bool,
    /// Its owner; `None` while it has not been used here.
    pub owner: Option<Owner>,
    /// Whether it is a local session.
    pub local: bool,
    /// Whether its expiry waits for a learner.
    wait: Wait,
}

/// Whether an overdue session waits for a learner's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// No.
    None,
    /// A learner that its client may have moved to has been silent itself.
    Silence,
    /// That learner has spoken again. Its report of sessions may still be on the way.
    Words,
}

impl Session {
    /// The connection of this server that it is attached to.
    pub fn conn(&self) -> Option<ConnId> {
        match self.owner {
            Some(Owner::Conn(conn)) => Some(conn),
            _ => None,
        }
    }
}

/// Which sessions a server expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// All: at a leader and a standalone server.
    All,
    /// Local sessions; the leader expires the others.
    Local,
}

/// All live sessions and their deadlines.
///
/// A touch only moves the session's own deadline; the session is moved to its new bucket when the
/// old one falls due. Invariants: every session that can expire here and is not closing is in
/// a bucket; `locals` counts the local ones. Source:
/// `ExpiryQueue.java`, `LocalSessionTracker.java`; requirement SRV-04.
#[derive(Debug)]
pub struct Sessions {
    tick: Duration,
    expiry: Expiry,
    by_id: HashMap<SessionId, Session, FixedState>,
    buckets: BTreeMap<Duration, Vec<SessionId>>,
    locals: usize,
}

impl Sessions {
    /// Creates an empty table with buckets of one `tick`.
    ///
    /// # Panics
    /// If `tick` is zero.
    pub fn new(tick: Duration, expiry: Expiry) -> Self {
        assert!(tick > Duration::ZERO, "a tick has a length");
        let by_id = HashMap::with_hasher(FixedState::default());
        Self { tick, expiry, by_id, buckets: BTreeMap::new(), locals: 0 }
    }

    /// Tracks a global session, with its full timeout from `now`.
    pub fn add(&mut self, id: SessionId, timeout_ms: i32, owner: Option<Owner>, now: Duration) {
        self.insert(id, timeout_ms, owner, now, false);
    }

    /// Tracks a local session.
    pub fn add_local(&mut self, id: SessionId, timeout_ms: i32, owner: Owner, now: Duration) {
        self.insert(id, timeout_ms, Some(owner), now, true);
    }

    fn insert(
        &mut self,
        id: SessionId,
        timeout_ms: i32,
        owner: Option<Owner>,
        now: Duration,
        local: bool,
    ) {
        let deadline = deadline(self.tick, now, timeout_ms);
        let wait = Wait::None;
        let session = Session { timeout_ms, deadline, closing: false, owner, local, wait };
        let before = self.by_id.insert(id, session);
        let expires = |local: bool| local || self.expiry == Expiry::All;
        if expires(local) && !before.is_some_and(|before| expires(before.local)) {
            self.buckets.entry(deadline).or_default().push(id);
        }
        assert!(deadline > now, "{id:?} expires before it begins");
        self.locals += usize::from(local);
        self.locals -= usize::from(before.is_some_and(|before| before.local));
    }

    /// Makes a local session global. Returns its timeout, or `None` if there is no such session.
    pub fn upgrade(&mut self, id: SessionId) -> Option<i32> {
        let session =
            self.by_id.get_mut(&id).filter(|session| session.local && !session.closing)?;
        session.local = false;
        self.locals -= 1;
        Some(session.timeout_ms)
    }

    /// Notes a sign of life at `now`, and returns the session. A closing session is not changed.
    pub fn touch(&mut self, id: SessionId, now: Duration) -> Option<Session> {
        let session = self.by_id.get_mut(&id)?;
        if !session.closing && !faults::touch_forgotten() {
            let deadline = deadline(self.tick, now, session.timeout_ms);
            session.deadline = session.deadline.max(deadline);
            session.wait = Wait::None;
        }
        Some(*session)
    }

    /// Extends all deadlines by `by`, because this server received nothing for that long until
    /// `now`.
    ///
    /// No session expires within the next tick: signs of life may still be in this server's
    /// sockets, or at learners that were not asked.
    pub fn postpone(&mut self, by: Duration, now: Duration) {
        let hears = if faults::pause_leaves_no_time_to_hear() { Duration::ZERO } else { self.tick };
        for session in self.by_id.values_mut() {
            session.deadline = (session.deadline + by).max(now + hears);
        }
        self.check_buckets();
    }

    /// The session, if it is live.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// Attaches a session to a new owner with a new timeout. Returns the connection it had before.
    pub fn attach(
        &mut self,
        id: SessionId,
        owner: Owner,
        timeout_ms: i32,
        now: Duration,
    ) -> Option<ConnId> {
        let session = self.by_id.get_mut(&id)?;
        session.timeout_ms = timeout_ms;
        let before = session.conn();
        session.owner = Some(owner);
        self.touch(id, now);
        before.filter(|before| owner != Owner::Conn(*before))
    }

    /// Sets the owner of a session that never had one. Returns the owner.
    pub fn claim(&mut self, id: SessionId, owner: Owner) -> Option<Owner> {
        self.by_id.get_mut(&id).map(|session| *session.owner.get_or_insert(owner))
    }

    /// Detaches a closed connection. The session still counts as owned: a late request from the
    /// server it came from must not claim it.
    pub fn detach(&mut self, id: SessionId, conn: ConnId) {
        if let Some(session) = self.by_id.get_mut(&id)
            && session.owner == Some(Owner::Conn(conn))
        {
            session.owner = Some(Owner::Nobody);
        }
    }

    /// Detaches a session from its owner because it is being renewed. Returns the connection it
    /// had.
    pub fn release(&mut self, id: SessionId) -> Option<ConnId> {
        let session = self.by_id.get_mut(&id)?;
        let before = session.conn();
        session.owner = Some(Owner::Nobody);
        before
    }

    /// Marks a session as closing. Returns whether it was live and not closing before.
    pub fn close(&mut self, id: SessionId) -> bool {
        self.by_id
            .get_mut(&id)
            .is_some_and(|session| !std::mem::replace(&mut session.closing, true))
    }

    /// Removes a session.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        let removed = self.by_id.remove(&id);
        self.locals -= usize::from(removed.is_some_and(|session| session.local));
        removed
    }

    /// The sessions whose timeout has passed, in the order of their ids.
    ///
    /// `told_until` returns up to when the learner on a link has reported its clients' signs of
    /// life, if that link exists; without a link, up to when all learners have. A silent learner
    /// does not expire its clients: it must have reported nearly up to the deadline. If the server
    /// of a session is unknown, its client may be at any learner.
    pub fn expired(
        &mut self,
        now: Duration,
        told_until: impl Fn(Option<LinkId>) -> Option<Duration>,
    ) -> Vec<SessionId> {
        let tick = self.tick;
        let is_lost = |session: &Session| match session.owner {
            Some(Owner::Conn(_)) => false,
            Some(Owner::Link(link)) => told_until(Some(link)).is_none(),
            Some(Owner::Nobody) | None => !session.local,
        };
        let is_told = |session: &Session| {
            let until = match session.owner {
                _ if is_lost(session) => told_until(None).filter(|_| session.wait != Wait::Words),
                Some(Owner::Link(link)) => told_until(Some(link)),
                _ => None,
            };
            until.is_none_or(|until| until + tick >= session.deadline)
        };
        let mut expired = Vec::new();
        while let Some(bucket) = self.buckets.first_entry()
            && *bucket.key() <= now
        {
            let due = *bucket.key();
            for id in bucket.remove() {
                match self.by_id.get_mut(&id) {
                    Some(session) if session.closing => {}
                    Some(session) if !session.local && self.expiry == Expiry::Local => {}
                    Some(session) if session.deadline > due => {
                        self.buckets.entry(session.deadline).or_default().push(id);
                    }
                    Some(session) if !is_told(session) => {
                        session.wait = Wait::Silence;
                        self.buckets.entry(now + tick / 4).or_default().push(id);
                    }
                    Some(session) if session.wait == Wait::Silence && is_lost(session) => {
                        session.wait = Wait::Words;
                        session.deadline = now + tick;
                        self.buckets.entry(session.deadline).or_default().push(id);
                    }
                    Some(_) => expired.push(id),
                    None => {}
                }
            }
        }
        expired.sort_unstable();
        expired.dedup();
        let next = self.next_deadline();
        assert!(next.is_none_or(|next| next > now), "what falls due at {next:?} was left out");
        expired
    }

    /// Asserts what holds between any two calls.
    pub(crate) fn check(&self) {
        assert!(self.locals <= self.by_id.len(), "{} of {}", self.locals, self.by_id.len());
    }

    /// Asserts that every session is in a bucket; visits all of them, in debug builds.
    pub(crate) fn check_buckets(&self) {
        if cfg!(debug_assertions) {
            let listed: BTreeSet<SessionId> = self.buckets.values().flatten().copied().collect();
            for (id, session) in self.by_id.iter().filter(|(_, session)| !session.closing) {
                let expires = session.local || self.expiry == Expiry::All;
                assert!(!expires || listed.contains(id), "{id:?} never expires: {session:?}");
            }
            let locals = self.by_id.values().filter(|session| session.local).count();
            assert_eq!(locals, self.locals, "how many sessions are local");
            assert!(self.buckets.values().all(|bucket| !bucket.is_empty()), "an empty bucket");
        }
    }

    /// When the next bucket is due.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.buckets.first_key_value().map(|(deadline, _)| *deadline)
    }

    /// Every live session, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.by_id.iter().map(|(id, session)| (*id, session))
    }

    /// The number of local sessions.
    pub fn locals(&self) -> usize {
        self.locals
    }

    /// The number of live sessions.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// The first bucket boundary after `now` plus the timeout.
fn deadline(tick: Duration, now: Duration, timeout_ms: i32) -> Duration {
    let early = if faults::early_expiry() { 2 } else { 1 };
    let end = now + Duration::from_millis(timeout_ms.max(0) as u64) / early;
    // 64 bits of nanoseconds last for five centuries.
    let nanos = |time: Duration| time.as_nanos() as u64;
    Duration::from_nanos((nanos(end) / nanos(tick) + 1) * nanos(tick))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn deadlines_are_rounded_up_to_the_next_tick() {
        // The example of SRV-04: interval 2, time 10 gives 12.
        assert_eq!(deadline(ms(2), ms(0), 10), ms(12));
        assert_eq!(deadline(ms(2), ms(1), 10), ms(12));
        assert_eq!(deadline(ms(2), ms(2), 10), ms(14));
    }

    #[test]
    fn a_session_expires_between_its_timeout_and_a_tick_later() {
        let mut sessions = Sessions::new(ms(2000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(500));
        assert_eq!(sessions.expired(ms(4500), |_| None), []);
        assert_eq!(sessions.expired(ms(6000), |_| None), [SessionId(1)]);
    }

    #[test]
    fn a_touch_postpones_the_end() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(0));
        sessions.add(SessionId(2), 4000, None, ms(0));
        sessions.touch(SessionId(1), ms(3000));
        assert_eq!(sessions.expired(ms(5000), |_| None), [SessionId(2)]);
        assert_eq!(sessions.expired(ms(7999), |_| None), []);
        assert_eq!(sessions.expired(ms(8000), |_| None), [SessionId(1)]);
    }

    #[test]
    fn nobody_expires_for_a_time_in_which_nobody_was_heard() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(0));
        sessions.postpone(ms(10_000), ms(11_000));
        assert_eq!(sessions.expired(ms(14_999), |_| None), []);
        assert_eq!(sessions.expired(ms(15_000), |_| None), [SessionId(1)]);
    }

    #[test]
    fn who_was_due_when_the_server_stood_still_may_yet_be_heard() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        for id in [1, 2] {
            sessions.add(SessionId(id), 4000, None, ms(0));
        }
        // It was to look again when they fell due, and looks 6.7 s later.
        let now = ms(11_700);
        sessions.postpone(ms(6_700), now);
        assert_eq!(sessions.expired(now, |_| None), []);
        sessions.touch(SessionId(1), now);
        assert_eq!(sessions.expired(ms(12_699), |_| None), []);
        assert_eq!(sessions.expired(ms(12_700), |_| None), [SessionId(2)]);
        assert_eq!(sessions.expired(ms(16_000), |_| None), [SessionId(1)]);
    }

    #[test]
    fn the_silence_of_a_learner_is_not_that_of_its_clients() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        let (one, other) = (LinkId(1), LinkId(2));
        for (id, link) in [(1, one), (2, one), (3, other)] {
            sessions.add(SessionId(id), 4000, Some(Owner::Link(link)), ms(0));
        }
        // There is one learner. Of the other one's clients it has told nothing since.
        let silent = |until: u64| {
            move |link: Option<LinkId>| link.is_none_or(|link| link == one).then_some(ms(until))
        };
        assert_eq!(sessions.expired(ms(5000), silent(3999)), []);
        assert_eq!(sessions.expired(ms(5300), silent(3999)), []);
        sessions.touch(SessionId(1), ms(5400));
        assert_eq!(sessions.expired(ms(5600), silent(5500)), [SessionId(2)]);
        assert_eq!(sessions.expired(ms(6600), silent(5500)), [SessionId(3)]);
        assert_eq!(sessions.expired(ms(10_000), silent(9000)), [SessionId(1)]);
    }

    #[test]
    fn whose_server_nobody_knows_may_wait_at_any() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        let here = Owner::Conn(ConnId(7));
        for (id, owner) in [(1, None), (2, None), (3, Some(here)), (4, Some(Owner::Nobody))] {
            sessions.add(SessionId(id), 4000, owner, ms(0));
        }
        sessions.add_local(SessionId(5), 4000, here, ms(0));
        sessions.detach(SessionId(5), ConnId(7));
        let all = |until: u64| {
            move |link: Option<LinkId>| {
                assert_eq!(link, None);
                Some(ms(until))
            }
        };
        // A learner has said nothing for long; of this server's own clients it knows nothing.
        assert_eq!(sessions.expired(ms(5000), all(100)), [SessionId(3), SessionId(5)]);
        assert_eq!(sessions.expired(ms(20_000), all(100)), []);
        // It speaks, and gets a tick to tell of those that it has just read.
        assert_eq!(sessions.expired(ms(20_500), all(20_400)), []);
        sessions.attach(SessionId(1), Owner::Link(LinkId(1)), 4000, ms(20_600));
        assert_eq!(sessions.expired(ms(21_400), all(20_400)), []);
        // However slow it is, it does not get another one.
        assert_eq!(sessions.expired(ms(21_500), all(20_400)), [SessionId(2), SessionId(4)]);
    }

    #[test]
    fn whose_server_nobody_knows_ends_in_time_where_all_are_heard() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(0));
        assert_eq!(sessions.expired(ms(4999), |_| Some(ms(4500))), []);
        assert_eq!(sessions.expired(ms(5000), |_| Some(ms(4500))), [SessionId(1)]);
    }

    #[test]
    fn an_older_touch_changes_nothing() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(3000));
        sessions.touch(SessionId(1), ms(0));
        assert_eq!(sessions.expired(ms(7000), |_| None), []);
        assert_eq!(sessions.expired(ms(8000), |_| None), [SessionId(1)]);
    }

    #[test]
    fn a_closing_session_does_not_expire_again() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(0));
        assert!(sessions.close(SessionId(1)));
        assert!(!sessions.close(SessionId(1)));
        assert_eq!(sessions.expired(ms(60_000), |_| None), []);
    }

    #[test]
    fn a_learner_judges_local_sessions_only() {
        let mut sessions = Sessions::new(ms(1000), Expiry::Local);
        let owner = Owner::Conn(ConnId(7));
        sessions.add(SessionId(1), 4000, Some(owner), ms(0));
        assert_eq!(sessions.next_deadline(), None);
        sessions.add_local(SessionId(2), 4000, owner, ms(0));
        sessions.add_local(SessionId(3), 4000, owner, ms(0));
        assert_eq!(sessions.locals(), 2);
        // From then on the leader judges it.
        assert_eq!([3, 3, 1].map(|id| sessions.upgrade(SessionId(id))), [Some(4000), None, None]);
        assert_eq!(sessions.expired(ms(60_000), |_| None), [SessionId(2)]);
        sessions.remove(SessionId(2));
        assert_eq!((sessions.locals(), sessions.len()), (0, 2));
    }

    #[test]
    fn a_local_session_that_is_upgraded_at_the_leader_still_expires() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add_local(SessionId(1), 4000, Owner::Conn(ConnId(7)), ms(0));
        assert_eq!(sessions.upgrade(SessionId(1)), Some(4000));
        assert_eq!(sessions.expired(ms(5000), |_| None), [SessionId(1)]);
    }

    #[test]
    fn attaching_elsewhere_names_the_connection_that_lost_it() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, Some(Owner::Conn(ConnId(7))), ms(0));
        let there = Owner::Conn(ConnId(8));
        assert_eq!(sessions.attach(SessionId(1), there, 6000, ms(0)), Some(ConnId(7)));
        sessions.detach(SessionId(1), ConnId(7));
        assert_eq!(sessions.get(SessionId(1)).unwrap().conn(), Some(ConnId(8)));
    }

    #[test]
    fn a_session_whose_connection_is_gone_is_nobody_elses() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        let (here, there) = (Owner::Conn(ConnId(7)), Owner::Link(LinkId(3)));
        sessions.add(SessionId(1), 4000, Some(here), ms(0));
        sessions.detach(SessionId(1), ConnId(7));
        assert_eq!(sessions.claim(SessionId(1), there), Some(Owner::Nobody));
        sessions.attach(SessionId(1), there, 4000, ms(0));
        assert_eq!(sessions.claim(SessionId(1), there), Some(there));
        assert_eq!(sessions.release(SessionId(1)), None);
        assert_eq!(sessions.claim(SessionId(1), there), Some(Owner::Nobody));
    }
}
