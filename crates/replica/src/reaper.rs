//! Which containers and TTL znodes have had their day.
//!
//! Source: `ContainerManager`; properties `znode.container.*`.

use std::collections::VecDeque;
use std::time::Duration;

use zebu_proto::Owner;
use zebu_tree::{Node, Tree};

use crate::age::Ages;
use crate::io::Now;

/// When the reaper works and what it takes.
#[derive(Clone, Debug)]
pub struct ReaperOptions {
    /// Time between two searches.
    pub interval: Duration,
    /// Most znodes to remove in a minute.
    pub per_minute_max: u32,
    /// How old a container without any child ever may get; `None` is for ever.
    pub never_used_max: Option<Duration>,
}

impl Default for ReaperOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), per_minute_max: 10_000, never_used_max: None }
    }
}

/// Searches once per interval, then hands out what it found, spaced.
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

    /// The server leads from now on: the search begins anew.
    pub(crate) fn leads(&mut self, tree: &Tree, now: Now) {
        self.next = now.monotonic + self.options.interval;
        self.next_search = self.next;
        self.found.clear();
        self.ages.leads(tree, now);
    }

    /// When it has something to do again.
    pub(crate) fn next(&self) -> Duration {
        self.next
    }

    /// The znodes to remove now. Each is validated again before it goes.
    pub(crate) fn due(&mut self, tree: &Tree, now: Now) -> Vec<String> {
        if now.monotonic < self.next {
            return Vec::new();
        }
        if self.found.is_empty() && now.monotonic >= self.next_search {
            self.next_search = now.monotonic + self.options.interval;
            self.search(tree, now);
        }
        // Not one wake-up per znode: a tenth of a second's worth at once.
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
        // They may have waited for long.
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
    /// Whether the znode has had its day.
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
