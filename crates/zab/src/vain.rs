//! Whom a server has followed in vain, again and again: it may have the best history, and be out of most
//! servers' reach. It is avoided for a while, so that somebody else is elected.
//!
//! Once is nothing: candidates fail. From the second time on the while doubles, so that at last those
//! who avoid it do so at the same time. There may be more than one of them, elected in turn by who avoids the other. The
//! original elects them for ever.
//!
//! Who is refused knows that at once, while others of the same election dial in vain for as long as connecting may take:
//! the while begins for all of them when that is over, or those it takes to elect somebody else would hardly
//! ever meet.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use zebu_proto::ServerId;

use crate::io::Options;
use crate::learner::Learner;

/// The longest while, as a multiple of the time that discovery may take. Nearly all of the time, however
/// long each attempt takes.
const LONGEST: u32 = 4;

/// One of them.
#[derive(Debug, Default)]
struct Followed {
    times: u32,
    avoided_until: Duration,
}

/// Who has been followed since this server was served last.
#[derive(Debug, Default)]
pub(crate) struct Vain {
    followed: BTreeMap<ServerId, Followed>,
}

impl Vain {
    /// A learner's role has ended.
    pub(crate) fn left(&mut self, now: Duration, learner: &Learner, options: &Options) {
        if learner.serving().is_some() || learner.is_observer() {
            self.followed.clear();
            return;
        }
        let followed = self.followed.entry(learner.leader()).or_default();
        if followed.times > 0 {
            let pause = options.tick.saturating_mul(1 << (followed.times - 1).min(16));
            let since = learner.dials_until().unwrap_or(now).max(now);
            followed.avoided_until = since + pause.min(options.init_time() * LONGEST);
        }
        followed.times = followed.times.saturating_add(1);
        assert!(followed.times > 1 || followed.avoided_until == Duration::ZERO, "once is nothing");
    }

    /// Whom to avoid now, and until when: first who has been followed most often.
    pub(crate) fn avoided(&self, now: Duration) -> Vec<(ServerId, Duration)> {
        if zebu_proto::mutant!("elected for ever") {
            return Vec::new();
        }
        let avoided = self.followed.iter().filter(|(_, it)| it.avoided_until > now);
        let mut avoided: Vec<_> = avoided.collect();
        avoided.sort_by_key(|(_, it)| Reverse(it.times));
        avoided.into_iter().map(|(server, it)| (*server, it.avoided_until)).collect()
    }
}
