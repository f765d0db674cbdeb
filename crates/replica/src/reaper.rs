//! Finds the containers and TTL znodes to delete.
//! Source: `ContainerManager`; properties `znode.container.*`.

use std::collections::VecDeque;
use std::time::Duration;

use zebu_proto::Owner;
use zebu_tree::{Node, Tree};

use crate::age::Ages;
use crate::io::Now;

/// Options of the reaper.
#[derive(Clone, Debug)]
pub struct ReaperOptions {
    /// Time between two searches.
    pub interval: Duration,
    /// Maximum number of znodes deleted in a minute.
    pub per_minute_max: u32,
    /// Age at which a container that never had children is deleted; `None`: never.
    pub never_used_max: Option<Duration>,
}

impl Default for ReaperOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), per_minute_max: 10_000, never_used_max: None }
    }
}

/// Searches once per interval, then hands out the findings at a limited rate.
#[derive(Debug)]
pub(crate) struct Reaper {
    options: ReaperOptions,
    next: Duration,
    next_search: Duration,
    found: VecDeque<String>,
    pub(crate) ages: Ages,
}

impl Reaper {
    pub(crate) fn new(options: ReaperOptions, tree: &Tree, now: Now) -> Self {
        let next = now.monotonic + options.interval;
        let ages = Ages::new(tree, now);
        Self { options, next, next_search: next, found: VecDeque::new(), ages }
    }

    /// This server becomes the leader: the search starts again.
    pub(crate) fn leads(&mut self, tree: &Tree, now: Now) {
        self.next = now.monotonic + self.options.interval;
        self.next_search = self.next;
        self.found.clear();
        self.ages.leads(tree, now);
    }

    /// When to call [`Reaper::due`] next.
    pub(crate) fn next(&self) -> Duration {
        self.next
    }

    /// The znodes to delete now. Each is validated again before its deletion.
    pub(crate) fn due(&mut self, tree: &Tree, now: Now) -> Vec<String> {
        if now.monotonic < self.next {
            return Vec::new();
        }
        if self.found.is_empty() && now.monotonic >= self.next_search {
            self.next_search = now.monotonic + self.options.interval;
            self.search(tree, now);
        }
        // A batch for a tenth of a second, instead of one wake-up for each znode.
        let per_minute = self.options.per_minute_max.max(1);
        let batch = per_minute.div_ceil(600);
        let mut due: Vec<String> = (0..batch).map_while(|_| self.found.pop_front()).collect();
        let pause =
            Duration::from_secs(60) * u32::try_from(due.len()).unwrap_or(batch) / per_minute;
        self.next = if self.found.is_empty() {
            self.next_search.max(now.monotonic + pause)
        } else {
            now.monotonic + pause
        };
        // They may have waited for a long time.
        due.retain(|path| {
            tree.node(path).is_some_and(|znode| self.options.is_due(&znode, &self.ages, now))
        });
        due
    }

    fn search(&mut self, tree: &Tree, now: Now) {
        for znode in tree.containers().chain(tree.ttl_nodes()) {
            if self.options.is_due(&znode, &self.ages, now) {
                self.found.push_back(znode.path());
            }
        }
    }
}

impl ReaperOptions {
    /// Whether the znode is due for deletion.
    fn is_due(&self, znode: &Node<'_>, ages: &Ages, now: Now) -> bool {
        let stat = znode.persisted();
        let age = ages.of(stat.mtime, now);
        let is_over = match znode.owner() {
            Owner::Container => {
                let stale = self.never_used_max.is_some_and(|max| !max.is_zero() && age > max);
                stat.cversion > 0 || stale
            }
            Owner::Ttl(ttl_ms) => age > Duration::from_millis(ttl_ms.max(0) as u64),
            Owner::Session(_) | Owner::Persistent => false,
        };
        is_over && znode.child_count() == 0
    }
}
