//! Whom a server has followed in vain, again and again: it may have the best history, and be out of most
//! servers' reach. It is avoided for a while, so that somebody else is elected.
//!
//! Once is nothing: candidates fail. From the second time on the while doubles, so that at last those
//! who avoid it do so at the same time. The original elects it for ever.

use std::time::Duration;

use zebu_proto::ServerId;

use crate::election::Avoided;
use crate::io::Options;
use crate::learner::Learner;

/// The longest while, as a multiple of the time that discovery may take. Nearly all of the time, however
/// long each attempt takes.
const LONGEST: u32 = 4;

/// Who was followed last without ever being served.
#[derive(Debug, Default)]
pub(crate) struct Vain {
    /// Who, and how many times in a row.
    followed: Option<(ServerId, u32)>,
    until: Duration,
}

impl Vain {
    /// A learner's role has ended.
    pub(crate) fn left(&mut self, now: Duration, learner: &Learner, options: &Options) {
        if learner.serving().is_some() || learner.is_observer() {
            self.followed = None;
            return;
        }
        let leader = learner.leader();
        let before = self.followed.filter(|(before, _)| *before == leader).map_or(0, |(_, n)| n);
        self.followed = Some((leader, before.saturating_add(1)));
        let pause = match before {
            0 => Duration::ZERO,
            _ => options.tick.saturating_mul(1 << (before - 1).min(16)),
        };
        self.until = now + pause.min(options.init_time() * LONGEST);
    }

    /// Whom to avoid now.
    pub(crate) fn avoided(&self, now: Duration) -> Option<Avoided> {
        let avoids = self.until > now && !zebu_proto::mutant!("elected for ever");
        let (server, _) = self.followed.filter(|_| avoids)?;
        Some(Avoided { server, until: self.until })
    }
}
