//! Servers that this server has followed in vain repeatedly. Such a server may have the best
//! history, yet be unreachable for most servers. It is avoided for a while, so that another one is
//! elected.
//!
//! A single failure does not count: candidates may fail. From the second one on, the period
//! doubles, so that all servers that avoid it finally do so at the same time. Several such servers
//! may be elected in turn, each by those that avoid the other. The original elects them for ever.
//!
//! A refused server knows at once, while others of the same election keep trying to connect until
//! they time out. So the period starts for all of them after that time. Otherwise too few servers
//! would avoid the candidate at the same time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use zebu_proto::ServerId;

use crate::faults;
use crate::io::Options;
use crate::learner::Learner;

/// The longest period, as a multiple of the maximum duration of discovery: nearly all of the time,
/// however long an attempt takes.
const LONGEST: u32 = 4;

/// One server followed in vain.
#[derive(Debug, Default)]
struct Followed {
    times: u32,
    avoided_until: Duration,
}

/// The servers followed since this server last served.
#[derive(Debug, Default)]
pub(crate) struct FollowedInVain {
    followed: BTreeMap<ServerId, Followed>,
}

impl FollowedInVain {
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

    /// The servers to avoid now, and until when; the most often followed first.
    pub(crate) fn avoided(&self, now: Duration) -> Vec<(ServerId, Duration)> {
        if faults::elected_for_ever() {
            return Vec::new();
        }
        let avoided = self.followed.iter().filter(|(_, it)| it.avoided_until > now);
        let mut avoided: Vec<_> = avoided.collect();
        avoided.sort_by_key(|(_, it)| Reverse(it.times));
        avoided.into_iter().map(|(server, it)| (*server, it.avoided_until)).collect()
    }
}
