//! A learner's attempts to connect: to the leader, or to observer masters in turn.

use std::collections::VecDeque;
use std::time::Duration;

use zebu_proto::ServerId;

use crate::io::Output;
use crate::leave::Leave;

/// Attempts to connect to a leader that are a full pause apart.
const TRIES_MAX: u32 = 5;

/// First pause before another attempt to connect. It doubles up to a full pause, and these attempts
/// do not count: the leader only listens once it knows the result of the election, perhaps a moment
/// after this server.
const QUICK_PAUSE: Duration = Duration::from_millis(2);

/// The server that a learner connects to, and its attempts so far.
#[derive(Debug)]
pub(super) struct Dialling {
    leader: ServerId,
    /// The observer masters to try in turn, if not the leader itself.
    masters: VecDeque<ServerId>,
    /// The server that the learner is connected or connecting to.
    dialled: ServerId,
    /// Attempts to connect that count.
    tries: u32,
    /// The next pause after which an attempt does not count.
    quick_pause: Duration,
    /// When the next attempt is due; the maximum while one is in progress or there is a connection.
    retry_at: Duration,
    /// Whether the learner makes no more attempts; its role ends at `retry_at`.
    gives_up: bool,
}

impl Dialling {
    /// No attempt so far. The caller makes the first one, or sets its time with
    /// [`Self::wait_until`].
    pub(super) fn new(leader: ServerId, masters: VecDeque<ServerId>) -> Self {
        Self {
            leader,
            masters,
            dialled: leader,
            tries: 0,
            quick_pause: QUICK_PAUSE,
            retry_at: Duration::MAX,
            gives_up: false,
        }
    }

    /// Asserts what holds between any two steps. `connects`: whether the learner still connects.
    pub(super) fn check(&self, connects: bool) {
        assert!(connects || self.retry_at == Duration::MAX, "connected, and it dials again");
        assert!(connects || !self.gives_up, "connected, and it gives up to dial");
        assert!(self.tries < TRIES_MAX, "{} attempts have failed", self.tries);
        assert!(!self.gives_up || self.masters.is_empty(), "it gives up before the last master");
        assert!(!self.gives_up || !self.is_at_leader(), "it gives up, and dials its leader");
        assert!(!self.gives_up || self.retry_at < Duration::MAX, "it gives up, and never leaves");
    }

    /// The server that the learner is connected or connecting to.
    pub(super) fn dialled(&self) -> ServerId {
        self.dialled
    }

    /// Whether that server is the leader.
    pub(super) fn is_at_leader(&self) -> bool {
        self.dialled == self.leader
    }

    /// How many servers there are to try.
    pub(super) fn servers(&self) -> u32 {
        u32::try_from(self.masters.len()).unwrap_or(u32::MAX).max(1)
    }

    /// The first attempt waits.
    pub(super) fn wait_until(&mut self, at: Duration) {
        self.retry_at = at;
    }

    /// When [`Self::tick`] is due.
    pub(super) fn due(&self) -> Duration {
        self.retry_at
    }

    /// Makes an attempt.
    pub(super) fn dial(&mut self) -> Output {
        self.retry_at = Duration::MAX;
        match self.masters.pop_front() {
            Some(master) => {
                self.dialled = master;
                Output::ConnectToMaster(master)
            }
            None => Output::Connect(self.leader),
        }
    }

    /// The last attempt has succeeded.
    pub(super) fn connected(&mut self) {
        self.retry_at = Duration::MAX;
    }

    /// The last attempt has failed. Makes another one at once if there is another master, and after
    /// `pause` at most otherwise.
    pub(super) fn failed(
        &mut self,
        now: Duration,
        pause: Duration,
    ) -> Result<Option<Output>, Leave> {
        if !self.masters.is_empty() {
            return Ok(Some(self.dial()));
        }
        if !self.is_at_leader() {
            // Not at once: every voter hears a server that looks for a leader.
            self.gives_up = true;
            self.retry_at = now + pause;
            return Ok(None);
        }
        let mut pause = pause;
        if self.quick_pause < pause {
            pause = self.quick_pause;
            self.quick_pause *= 2;
        } else {
            self.tries += 1;
            if self.tries >= TRIES_MAX {
                return Err(Leave::LeaderUnreachable(self.leader));
            }
        }
        self.retry_at = now + pause;
        Ok(None)
    }

    /// Makes the attempt that is due, or ends the role.
    pub(super) fn tick(&mut self, now: Duration) -> Result<Option<Output>, Leave> {
        if self.retry_at > now {
            return Ok(None);
        }
        if self.gives_up {
            return Err(Leave::MastersUnreachable);
        }
        Ok(Some(self.dial()))
    }
}
