//! Timeliness (ORD-09): the state that a server shows is at most a few times `syncLimit` behind the
//! committed one; otherwise the server does not serve.
//!
//! A leader serves until a quorum has been silent for its limit. A learner serves until its leader
//! has been silent for its limit, or its own disk is too far behind. The delays of a chain of
//! servers add up.

use std::collections::VecDeque;
use std::time::Duration;

use zebu_proto::Zxid;
use zebu_zab::Role;

use crate::plan::Plan;
use crate::world::World;

/// When each transaction was committed.
pub(crate) struct Staleness {
    commits: VecDeque<(Duration, Zxid)>,
    /// When each server last resumed after a pause.
    resumed: Vec<Duration>,
    tick: Duration,
    /// The longest silence that a leader and its learners tolerate.
    sync: Duration,
}

impl Staleness {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            commits: VecDeque::new(),
            resumed: vec![Duration::ZERO; plan.servers()],
            tick: plan.tick,
            sync: plan.tick * 5,
        }
    }

    pub(crate) fn committed(&mut self, zxid: Zxid, now: Duration) {
        self.commits.push_back((now, zxid));
    }

    pub(crate) fn resumed(&mut self, server: usize, now: Duration) {
        self.resumed[server] = now;
    }

    /// The longest delay of what a server shows.
    fn most(&self, role: Role) -> Duration {
        let hops = match role {
            Role::Looking | Role::Leading(_) => 1,
            Role::Following(_) => 2,
            Role::Observing(_) => 3,
        };
        // `sync` at both ends of each hop, and the interval of the check.
        self.sync * (hops + 1) + self.tick * 2
    }

    /// The newest transaction that a server must show.
    fn due(&self, server: usize, role: Role, now: Duration) -> Option<Zxid> {
        let until = now.checked_sub(self.most(role))?;
        if self.resumed[server] > until {
            return None;
        }
        let count = self.commits.partition_point(|(at, _)| *at <= until);
        Some(self.commits[count.checked_sub(1)?].1)
    }
}

impl World {
    pub(crate) fn look_at_staleness(&mut self) {
        // Messages of a slow network are late, so nothing can be checked.
        let slow_until = self.net.slow_until.unwrap_or_default();
        for server in 0..self.servers.len() {
            let it = &self.servers[server];
            let Some(process) = it.process.as_ref().filter(|_| it.paused.is_none()) else {
                continue;
            };
            let staleness = &self.checks.staleness;
            let most = staleness.most(process.role);
            if !it.serves() || self.net.slow > 1 || slow_until + most > self.now {
                continue;
            }
            let Some(due) = staleness.due(server, process.role, self.now) else { continue };
            let shown = process.tree().last_zxid();
            if shown < due {
                let role = process.role;
                self.checks.found(format!(
                    "ORD-09: server {server}, {role:?}, shows {shown}, and {due} was committed {most:?} ago"
                ));
            }
        }
    }
}
