//! Metrics by namespace, the first component of a path.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{Counter, Exposition, Gathered, Kind, Metric, PercentileSummary, Summary, Visitor};

/// Maximum number of namespaces. Further ones are not recorded, so that clients cannot fill the
/// memory.
pub const NAMESPACES_MAX: usize = 1024;

/// Maximum length of a namespace in bytes: `mntr` prints each in many lines.
pub const NAMESPACE_BYTES_MAX: usize = 256;

/// The first component of a path: `app` for `/app/config`. `None` for `/`, and if it is too long.
/// Source: `PathUtils.getTopNamespace`.
pub fn namespace(path: &str) -> Option<&str> {
    let is_name = |name: &&str| (1..=NAMESPACE_BYTES_MAX).contains(&name.len());
    path.strip_prefix('/')?.split('/').next().filter(is_name)
}

/// Whether `name` is the first component of the path.
fn is_below(path: &[u8], name: &[u8]) -> bool {
    let below = path.strip_prefix(b"/").and_then(|path| path.strip_prefix(name));
    below.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
}

/// Metrics of one kind by namespace.
#[derive(Debug)]
pub struct Set<M>(RwLock<BTreeMap<Arc<str>, Arc<Named<M>>>>);

/// The metric of one namespace.
#[derive(Debug)]
struct Named<M> {
    name: Arc<str>,
    metric: M,
}

/// Counters by namespace.
pub type CounterSet = Set<Counter>;

/// Summaries by namespace.
pub type SummarySet = Set<Summary>;

/// Summaries with percentiles by namespace.
pub type PercentileSummarySet = Set<PercentileSummary>;

impl<M> Default for Set<M> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<M: Default> Set<M> {
    fn with(&self, key: &str, record: impl FnOnce(&M)) {
        if let Some(named) = self.0.read().get(key) {
            record(&named.metric);
        } else if let Some(named) = self.get(key) {
            record(&named.metric);
        }
    }

    /// The metric of this name, created if necessary; `None` if there are too many.
    fn get(&self, key: &str) -> Option<Arc<Named<M>>> {
        if let Some(found) = self.0.read().get(key) {
            return Some(found.clone());
        }
        let mut metrics = self.0.write();
        if metrics.len() >= NAMESPACES_MAX && !metrics.contains_key(key) {
            return None;
        }
        let name: Arc<str> = Arc::from(key);
        let made = || Arc::new(Named { name: name.clone(), metric: M::default() });
        Some(metrics.entry(name.clone()).or_insert_with(made).clone())
    }

    fn entries(&self) -> Vec<Arc<Named<M>>> {
        self.0.read().values().cloned().collect()
    }
}

impl<M: Metric + Default> Metric for Set<M> {
    const KIND: Kind = M::KIND;

    fn expose(&self, name: &str, _: Option<&str>, out: &mut dyn Exposition) {
        for named in self.entries() {
            named.metric.expose(name, Some(&named.name), out);
        }
    }

    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        for named in self.entries() {
            Metric::visit(&named.metric, &format!("{}_{name}", named.name), visitor);
        }
    }

    fn reset(&self) {
        self.entries().iter().for_each(|named| Metric::reset(&named.metric));
    }
}

impl Set<Counter> {
    /// Adds `n` in a namespace.
    pub fn add(&self, namespace: &str, n: u64) {
        self.with(namespace, |counter| counter.add(n));
    }
}

impl Set<Summary> {
    /// Records a value in a namespace.
    pub fn add(&self, namespace: &str, value: i64) {
        self.with(namespace, |summary| summary.add(value));
    }

    /// Collects values, most of which belong to the same namespace.
    pub fn gather(&self) -> Gather<'_> {
        Gather { set: self, current: None, values: Gathered::default() }
    }
}

impl Set<PercentileSummary> {
    /// Records a value in a namespace.
    pub fn add(&self, namespace: &str, value: i64) {
        self.with(namespace, |summary| summary.add(value));
    }
}

/// Collects values by namespace, and records them at the latest on drop.
#[derive(Debug)]
pub struct Gather<'s> {
    set: &'s SummarySet,
    current: Option<Arc<Named<Summary>>>,
    values: Gathered,
}

impl Gather<'_> {
    /// Adds a value for the namespace of `path`; none if the path is not UTF-8.
    pub fn add(&mut self, path: &[u8], value: i64) {
        if !self.current.as_ref().is_some_and(|current| is_below(path, current.name.as_bytes())) {
            let Some(name) = std::str::from_utf8(path).ok().and_then(namespace) else { return };
            self.record();
            self.current = self.set.get(name);
        }
        self.values.add(value);
    }

    /// Records the collected values.
    pub fn record(&mut self) {
        let values = std::mem::take(&mut self.values);
        if let Some(current) = &self.current {
            current.metric.add_gathered(values);
        }
    }
}

impl Drop for Gather<'_> {
    fn drop(&mut self) {
        self.record();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_the_first_component() {
        assert_eq!(namespace("/app/config/x"), Some("app"));
        assert_eq!(namespace("/app"), Some("app"));
        assert_eq!(namespace("/"), None);
        assert_eq!(namespace(""), None);
        let long = "n".repeat(NAMESPACE_BYTES_MAX);
        assert_eq!(namespace(&format!("/{long}/x")), Some(&*long));
        assert_eq!(namespace(&format!("/{long}n/x")), None, "each stands in many lines");
    }

    #[test]
    fn names_cannot_fill_the_memory() {
        let set = CounterSet::default();
        for i in 0..NAMESPACES_MAX + 10 {
            set.add(&format!("n{i}"), 1);
        }
        set.add("n0", 1);
        let entries = set.entries();
        assert_eq!(entries.len(), NAMESPACES_MAX);
        assert_eq!(set.0.read()["n0"].metric.value(), 2);
    }

    #[test]
    fn a_gathered_row_is_recorded_by_namespace() {
        let set = SummarySet::default();
        let mut row = set.gather();
        for (path, value) in
            [("/a/b", 3), ("/a", 5), ("/", 100), ("/b", 7), ("/bc", 9), ("/a/c", 1)]
        {
            row.add(path.as_bytes(), value);
        }
        drop(row);
        let of = |name: &str| {
            let named = set.0.read()[name].clone();
            let summary = &named.metric;
            (summary.count(), summary.sum(), summary.min(), summary.max())
        };
        assert_eq!((of("a"), of("b")), ((3, 9, 1, 5), (1, 7, 7, 7)));
        assert_eq!((of("bc").0, set.entries().len()), (1, 3));
    }
}
