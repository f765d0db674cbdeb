//! Early detection of a leader that is paused, cut off or dead without a word.
//!
//! A learner gives up its leader after `syncLimit` of silence, which is 10 s at usual settings. In
//! an ensemble of Zebu servers the leader announces a shorter limit with packets of their own
//! ([`Alive`]), and sends several of them within it. A server of the original does not know these
//! packets: while one of the voters is such a server, the leader announces nothing, and `syncLimit`
//! alone counts.
//!
//! The same limit holds in the other direction. A leader that hears no quorum of its voters for so
//! long can commit nothing. The others may be following another leader already, or may wait for
//! this one because only their packets are lost. So it ends its role, and its clients go to other
//! servers. Voters have nothing to say while nobody writes: then the leader asks them with pings.
//!
//! A limit that is too short costs an election, never data: learners that give up a leader too
//! early elect one as they do after every failure. Two rules keep such elections rare.
//! - A learner that was itself starved may find its deadline over and the leader's packets unread.
//!   So it reads once more, for the time of one such packet, before it gives up.
//! - The limit is a multiple of the longest silence of the last minute. After a silence that ended
//!   a role, the limit is twice that for a while. So servers that stall now and then, or a network
//!   that loses packets, do not end one leadership after the other.
//!
//! [`Alive`]: zebu_proto::quorum::Alive

use std::time::Duration;

use crate::faults;
use crate::io::Options;

/// How many packets a leader sends within the limit.
const PACKETS: u32 = 6;

/// For how many of these packets a quorum may be silent before the leader asks it for a sign of
/// life.
const UNASKED: u32 = 3;

/// How many times the longest recent silence the limit is at least.
const MARGIN: u32 = 4;

/// How many times a silence that ended a role the limit is at least. Less than [`MARGIN`]: it was
/// at least as long as the limit, and should not keep the next failure from being noticed.
const ENDED: u32 = 2;

/// The shortest limit that a learner accepts. Anything shorter would be a matter of the scheduler.
const LIMIT_MIN: Duration = Duration::from_millis(50);

/// For how long a silence counts at least. It counts at most twice as long.
const REMEMBERED: Duration = Duration::from_secs(30);

const _: () = assert!(MARGIN < PACKETS, "a regular leader must not lengthen the limit");

/// How often a leader that announces this limit sends a packet.
pub(crate) fn interval(limit: Duration) -> Duration {
    limit / PACKETS
}

/// How long the other side may be silent: for a learner its leader, for a leader the quorum of its
/// voters. The longest recent silence outlives the role.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// The limit that the leader announces; `None`: `syncLimit` alone counts.
    announced: Option<Duration>,
    /// When the other side was heard last.
    heard: Duration,
    /// The longest silence of the current period, and that of the previous one.
    longest: [Duration; 2],
    /// When the current period ends.
    period_ends: Duration,
    /// Whether the limit is over, and this server reads once more.
    is_over: bool,
    /// Whether a leader has asked the quorum for a sign of life since it heard it last.
    has_asked: bool,
}

impl Silence {
    /// A role begins: the leader has announced nothing.
    pub(crate) fn begin(&mut self) {
        (self.announced, self.is_over, self.has_asked) = (None, false, false);
    }

    /// The leader announces a limit; zero: none any more.
    pub(crate) fn announced(&mut self, now: Duration, limit: Duration, options: &Options) {
        let own = options.leader_silence.filter(|_| !limit.is_zero());
        if self.announced.is_none() {
            self.heard = now;
        }
        self.announced = own.map(|own| own.max(limit).max(LIMIT_MIN));
    }

    /// The other side sends something.
    pub(crate) fn heard(&mut self, now: Duration) {
        (self.is_over, self.has_asked) = (false, false);
        if self.announced.is_some() {
            self.note(now, now.saturating_sub(self.heard));
            self.heard = now;
        }
    }

    /// The quorum sent something at `at`, which may be a while ago. Returns for how long it has
    /// been silent since.
    pub(crate) fn heard_at(&mut self, now: Duration, at: Duration) -> Duration {
        if self.heard < at {
            // A silence counts only if the leader has asked.
            self.heard = if self.has_asked { self.heard } else { at };
            self.heard(at);
        }
        now.saturating_sub(self.heard)
    }

    /// Whether a leader should ask the quorum for a sign of life now: it was silent for a while,
    /// and was not asked yet. What was not asked for is no silence: the silence begins now.
    pub(crate) fn asks(&mut self, now: Duration) -> bool {
        let Some(announced) = self.announced else { return false };
        let asks =
            !self.has_asked && now.saturating_sub(self.heard) >= interval(announced) * UNASKED;
        if asks {
            (self.has_asked, self.heard) = (true, now);
        }
        asks
    }

    /// Notes a silence.
    fn note(&mut self, now: Duration, silence: Duration) {
        if self.period_ends <= now {
            let previous =
                if self.period_ends + REMEMBERED <= now { Duration::ZERO } else { self.longest[0] };
            self.longest = [Duration::ZERO, previous];
            self.period_ends = now + REMEMBERED;
        }
        self.longest[0] = self.longest[0].max(silence);
    }

    /// This server was suspended for so long: that is no silence of the other side.
    pub(crate) fn postpone(&mut self, time: Duration) {
        self.heard += time;
    }

    /// How long the other side may be silent, given `syncLimit`.
    pub(crate) fn limit(&self, sync_time: Duration) -> Duration {
        let is_deaf = faults::paused_leader_is_waited_for();
        let Some(announced) = self.announced.filter(|_| !is_deaf) else { return sync_time };
        let mut longest = self.longest[0].max(self.longest[1]);
        if faults::every_silence_counts_alike() {
            longest = Duration::ZERO;
        }
        announced.max(longest * MARGIN).min(sync_time)
    }

    /// The limit is over. Returns how long this server reads once more before it gives up the other
    /// side; `None`: it gives it up now.
    pub(crate) fn over(&mut self, now: Duration) -> Option<Duration> {
        let announced = self.announced?;
        if !std::mem::replace(&mut self.is_over, true) && !faults::starved_learner_gives_up() {
            return Some(interval(announced));
        }
        self.note(now, now.saturating_sub(self.heard) * ENDED / MARGIN);
        None
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::ServerId;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SYNC: Duration = Duration::from_secs(10);

    fn options(own: Option<Duration>) -> Options {
        Options { leader_silence: own, ..Options::new(ServerId(1)) }
    }

    /// A learner whose leader announces 600 ms, heard of every 100 ms until the returned time.
    fn regular() -> (Silence, Duration) {
        let options = options(Some(MS * 600));
        let mut silence = Silence::default();
        silence.begin();
        let mut now = MS * 1000;
        for _ in 0..100 {
            now += MS * 100;
            silence.heard(now);
            silence.announced(now, MS * 600, &options);
        }
        (silence, now)
    }

    #[test]
    fn only_an_announced_limit_is_shorter_than_sync_limit() {
        let (mut silence, now) = regular();
        assert_eq!(silence.limit(SYNC), MS * 600);
        assert_eq!(silence.limit(MS * 500), MS * 500);
        silence.announced(now, Duration::ZERO, &options(Some(MS * 600)));
        assert_eq!(silence.limit(SYNC), SYNC);
        silence.announced(now, MS * 600, &options(None));
        assert_eq!(silence.limit(SYNC), SYNC);
        silence.announced(now, MS * 600, &options(Some(MS * 900)));
        assert_eq!(silence.limit(SYNC), MS * 900);
        silence.begin();
        assert_eq!(silence.limit(SYNC), SYNC);
    }

    #[test]
    fn a_limit_that_cannot_be_meant_is_not_obeyed() {
        let mut silence = Silence::default();
        silence.announced(MS, MS, &options(Some(MS)));
        assert_eq!(silence.limit(SYNC), LIMIT_MIN);
    }

    #[test]
    fn a_learner_reads_once_more_before_it_gives_up() {
        let (mut silence, now) = regular();
        assert_eq!(silence.over(now + MS * 600), Some(MS * 100));
        silence.heard(now + MS * 650);
        assert_eq!(silence.over(now + MS * 1250), Some(MS * 100));
        assert_eq!(silence.over(now + MS * 1350), None);
    }

    #[test]
    fn a_silence_lengthens_the_limit_for_a_while_also_if_it_ended_the_role() {
        let (mut silence, now) = regular();
        assert!(silence.over(now + MS * 600).is_some());
        assert!(silence.over(now + MS * 700).is_none());
        silence.begin();
        let mut now = now + MS * 900;
        let options = options(Some(MS * 600));
        let announces = |silence: &mut Silence, now| {
            silence.heard(now);
            silence.announced(now, MS * 600, &options);
        };
        announces(&mut silence, now);
        assert_eq!(silence.limit(SYNC), MS * 1400);
        for _ in 0..290 {
            now += MS * 100;
            announces(&mut silence, now);
        }
        assert_eq!(silence.limit(SYNC), MS * 1400);
        for _ in 0..400 {
            now += MS * 100;
            announces(&mut silence, now);
        }
        assert_eq!(silence.limit(SYNC), MS * 600);
    }

    #[test]
    fn the_servers_own_suspension_is_no_silence() {
        let (mut silence, now) = regular();
        silence.postpone(MS * 5000);
        silence.heard(now + MS * 5100);
        assert_eq!(silence.limit(SYNC), MS * 600);
    }

    #[test]
    fn a_quorum_that_has_nothing_to_say_is_asked_once() {
        let (mut silence, now) = regular();
        assert!(!silence.asks(now + MS * 299));
        assert!(silence.asks(now + MS * 300));
        assert!(!silence.asks(now + MS * 600));
        // What was not asked for is no silence, and lengthens no limit.
        assert_eq!(silence.heard_at(now + MS * 700, now), MS * 400);
        assert_eq!(silence.heard_at(now + MS * 700, now + MS * 320), MS * 380);
        assert_eq!(silence.limit(SYNC), MS * 600);
        assert_eq!(silence.heard_at(now + MS * 900, now + MS * 800), MS * 100);
        assert_eq!(silence.limit(SYNC), MS * 600);
        // An answer that takes long does.
        assert!(silence.asks(now + MS * 1100));
        assert_eq!(silence.heard_at(now + MS * 1400, now + MS * 1400), Duration::ZERO);
        assert_eq!(silence.limit(SYNC), MS * 1200);
    }
}
