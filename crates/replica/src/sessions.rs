//! Sessions and when they end: deadlines in buckets of one tick.
//!
//! Owns the deadlines and which connection a session is attached to. The table of sessions that is
//! replicated and saved is the tree's; local sessions are known here only.

use std::collections::BTreeMap;
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use zebu_proto::SessionId;
use zebu_zab::LinkId;

use crate::ConnId;

/// Through whom a session is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A connection of this server.
    Conn(ConnId),
    /// Another server, at the leader.
    Link(LinkId),
}

/// One live session.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Silence it may keep, in milliseconds.
    pub timeout_ms: i32,
    /// When it expires unless it is touched, on the server's monotonic clock.
    pub deadline: Duration,
    /// Its end has been proposed: writes are refused.
    pub closing: bool,
    /// What it is attached to.
    pub owner: Option<Owner>,
    /// Whether this server alone knows of it.
    pub local: bool,
}

impl Session {
    /// The connection of this server it is attached to.
    pub fn conn(&self) -> Option<ConnId> {
        match self.owner {
            Some(Owner::Conn(conn)) => Some(conn),
            _ => None,
        }
    }
}

/// Whose silence a server judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Everybody's: at a leader, and at a server alone.
    All,
    /// That of local sessions; a leader judges the others.
    Local,
}

/// All live sessions and their deadlines.
///
/// A touch only moves the session's own deadline; the session is moved to its new bucket when the
/// old one falls due. Invariants: every session that can expire here and is not closing is in
/// exactly one bucket, at or before its deadline; `locals` counts the local ones. Source:
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
    /// No sessions; buckets are one `tick` wide.
    ///
    /// # Panics
    /// When `tick` is zero.
    pub fn new(tick: Duration, expiry: Expiry) -> Self {
        assert!(tick > Duration::ZERO, "a tick has a length");
        let by_id = HashMap::with_hasher(FixedState::default());
        Self { tick, expiry, by_id, buckets: BTreeMap::new(), locals: 0 }
    }

    /// Starts to track a session of the whole ensemble, with its full timeout from `now`.
    pub fn add(&mut self, id: SessionId, timeout_ms: i32, owner: Option<Owner>, now: Duration) {
        self.insert(id, timeout_ms, owner, now, false);
    }

    /// Starts to track a session that only this server knows.
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
        let session = Session { timeout_ms, deadline, closing: false, owner, local };
        let before = self.by_id.insert(id, session);
        let expires = |local: bool| local || self.expiry == Expiry::All;
        if expires(local) && !before.is_some_and(|before| expires(before.local)) {
            self.buckets.entry(deadline).or_default().push(id);
        }
        self.locals += usize::from(local);
        self.locals -= usize::from(before.is_some_and(|before| before.local));
    }

    /// Makes a local session one of the whole ensemble; says which timeout it has, if there is one.
    pub fn upgrade(&mut self, id: SessionId) -> Option<i32> {
        let session =
            self.by_id.get_mut(&id).filter(|session| session.local && !session.closing)?;
        session.local = false;
        self.locals -= 1;
        Some(session.timeout_ms)
    }

    /// Notes that a session was heard of at `now`, and returns it. A closing session stays as it is.
    pub fn touch(&mut self, id: SessionId, now: Duration) -> Option<Session> {
        let session = self.by_id.get_mut(&id)?;
        if !session.closing && !zebu_proto::mutant!("touch forgotten") {
            let deadline = deadline(self.tick, now, session.timeout_ms);
            session.deadline = session.deadline.max(deadline);
        }
        Some(*session)
    }

    /// Gives every session more time, since this server did not hear anybody for so long until `now`.
    ///
    /// Nobody ends within the next tick: what was said meanwhile is still in sockets here, and at
    /// learners that have not been asked for it.
    pub fn postpone(&mut self, by: Duration, now: Duration) {
        let hears = if zebu_proto::mutant!("pause leaves no time to hear") {
            Duration::ZERO
        } else {
            self.tick
        };
        for session in self.by_id.values_mut() {
            session.deadline = (session.deadline + by).max(now + hears);
        }
    }

    /// The session, if it is live.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// Attaches a session to its new owner, with the timeout it negotiated there, and returns the
    /// connection that had it.
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

    /// Notes who owns a session that nobody has owned so far; says who does.
    pub fn claim(&mut self, id: SessionId, owner: Owner) -> Option<Owner> {
        self.by_id.get_mut(&id).map(|session| *session.owner.get_or_insert(owner))
    }

    /// Forgets a connection that went away.
    pub fn detach(&mut self, id: SessionId, conn: ConnId) {
        if let Some(session) = self.by_id.get_mut(&id)
            && session.owner == Some(Owner::Conn(conn))
        {
            session.owner = None;
        }
    }

    /// Marks the session as ending; says whether it was live and not ending before.
    pub fn close(&mut self, id: SessionId) -> bool {
        self.by_id
            .get_mut(&id)
            .is_some_and(|session| !std::mem::replace(&mut session.closing, true))
    }

    /// Forgets a session.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        let removed = self.by_id.remove(&id);
        self.locals -= usize::from(removed.is_some_and(|session| session.local));
        removed
    }

    /// The sessions that were silent for too long, in order of their ids.
    pub fn expired(&mut self, now: Duration) -> Vec<SessionId> {
        let mut expired = Vec::new();
        while let Some(bucket) = self.buckets.first_entry()
            && *bucket.key() <= now
        {
            let due = *bucket.key();
            for id in bucket.remove() {
                match self.by_id.get(&id) {
                    Some(session) if session.closing => {}
                    Some(session) if !session.local && self.expiry == Expiry::Local => {}
                    Some(session) if session.deadline > due => {
                        self.buckets.entry(session.deadline).or_default().push(id);
                    }
                    Some(_) => expired.push(id),
                    None => {}
                }
            }
        }
        expired.sort_unstable();
        expired.dedup();
        expired
    }

    /// When the next bucket falls due.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.buckets.first_key_value().map(|(deadline, _)| *deadline)
    }

    /// Every live session, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.by_id.iter().map(|(id, session)| (*id, session))
    }

    /// How many of them only this server knows.
    pub fn locals(&self) -> usize {
        self.locals
    }

    /// How many sessions are live.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// The first boundary of buckets one `tick` wide after `now` plus the timeout.
fn deadline(tick: Duration, now: Duration, timeout_ms: i32) -> Duration {
    let early = if zebu_proto::mutant!("early expiry") { 2 } else { 1 };
    let end = now + Duration::from_millis(timeout_ms.max(0) as u64) / early;
    // Half a millennium fits into 64 bits.
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
        assert_eq!(sessions.expired(ms(4500)), []);
        assert_eq!(sessions.expired(ms(6000)), [SessionId(1)]);
    }

    #[test]
    fn a_touch_postpones_the_end() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(0));
        sessions.add(SessionId(2), 4000, None, ms(0));
        sessions.touch(SessionId(1), ms(3000));
        assert_eq!(sessions.expired(ms(5000)), [SessionId(2)]);
        assert_eq!(sessions.expired(ms(7999)), []);
        assert_eq!(sessions.expired(ms(8000)), [SessionId(1)]);
    }

    #[test]
    fn nobody_expires_for_a_time_in_which_nobody_was_heard() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(0));
        sessions.postpone(ms(10_000), ms(11_000));
        assert_eq!(sessions.expired(ms(14_999)), []);
        assert_eq!(sessions.expired(ms(15_000)), [SessionId(1)]);
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
        assert_eq!(sessions.expired(now), []);
        sessions.touch(SessionId(1), now);
        assert_eq!(sessions.expired(ms(12_699)), []);
        assert_eq!(sessions.expired(ms(12_700)), [SessionId(2)]);
        assert_eq!(sessions.expired(ms(16_000)), [SessionId(1)]);
    }

    #[test]
    fn an_older_touch_changes_nothing() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(3000));
        sessions.touch(SessionId(1), ms(0));
        assert_eq!(sessions.expired(ms(7000)), []);
        assert_eq!(sessions.expired(ms(8000)), [SessionId(1)]);
    }

    #[test]
    fn a_closing_session_does_not_expire_again() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add(SessionId(1), 4000, None, ms(0));
        assert!(sessions.close(SessionId(1)));
        assert!(!sessions.close(SessionId(1)));
        assert_eq!(sessions.expired(ms(60_000)), []);
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
        assert_eq!(sessions.expired(ms(60_000)), [SessionId(2)]);
        sessions.remove(SessionId(2));
        assert_eq!((sessions.locals(), sessions.len()), (0, 2));
    }

    #[test]
    fn a_local_session_that_is_upgraded_at_the_leader_still_expires() {
        let mut sessions = Sessions::new(ms(1000), Expiry::All);
        sessions.add_local(SessionId(1), 4000, Owner::Conn(ConnId(7)), ms(0));
        assert_eq!(sessions.upgrade(SessionId(1)), Some(4000));
        assert_eq!(sessions.expired(ms(5000)), [SessionId(1)]);
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
}
