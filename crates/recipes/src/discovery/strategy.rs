//! Strategies that choose among instances.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::ServiceInstance;

/// Chooses one of several instances.
///
/// ```
/// use std::sync::Arc;
/// use zebu_recipes::{ServiceInstance, Strategy};
///
/// /// Always the one whose name comes first.
/// struct First;
///
/// impl Strategy for First {
///     fn choose(&self, instances: &[Arc<ServiceInstance>]) -> Option<usize> {
///         (0..instances.len()).min_by_key(|at| &instances[*at].id)
///     }
/// }
///
/// assert_eq!(First.choose(&[]), None);
/// ```
pub trait Strategy: Send + Sync {
    /// The index of the instance to use; `None` if there are none. `instances` are sorted by id.
    fn choose(&self, instances: &[std::sync::Arc<ServiceInstance>]) -> Option<usize>;
}

type Instances = [std::sync::Arc<ServiceInstance>];

/// Chooses at random.
///
/// ```
/// use zebu_recipes::Strategy;
/// assert_eq!(zebu_recipes::Random.choose(&[]), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Strategy for Random {
    fn choose(&self, instances: &Instances) -> Option<usize> {
        // A new state has new keys.
        let random = RandomState::new().hash_one(0);
        let count = u64::try_from(instances.len()).ok()?;
        usize::try_from(random.checked_rem(count)?).ok()
    }
}

/// Chooses the instances in turn.
///
/// ```
/// use zebu_recipes::Strategy;
/// assert_eq!(zebu_recipes::RoundRobin::default().choose(&[]), None);
/// ```
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: AtomicUsize,
}

impl Strategy for RoundRobin {
    fn choose(&self, instances: &Instances) -> Option<usize> {
        if instances.is_empty() {
            return None;
        }
        self.next.fetch_add(1, Ordering::Relaxed).checked_rem(instances.len())
    }
}

/// Stays with one instance as long as it exists; another strategy chooses it.
///
/// ```
/// use zebu_recipes::{Random, Sticky, Strategy};
/// assert_eq!(Sticky::new(Random).choose(&[]), None);
/// ```
#[derive(Debug)]
pub struct Sticky<S> {
    master: S,
    /// The id.
    chosen: Mutex<Option<String>>,
}

impl<S: Strategy> Sticky<S> {
    /// The other strategy chooses the first instance, and the next one whenever that is gone.
    ///
    /// ```
    /// let strategy = zebu_recipes::Sticky::new(zebu_recipes::Random);
    /// # drop(strategy);
    /// ```
    pub fn new(master: S) -> Self {
        Self { master, chosen: Mutex::new(None) }
    }
}

impl<S: Strategy> Strategy for Sticky<S> {
    fn choose(&self, instances: &Instances) -> Option<usize> {
        let mut chosen = self.chosen.lock();
        let still = chosen.as_ref().and_then(|id| instances.iter().position(|it| it.id == *id));
        let at = still.or_else(|| self.master.choose(instances))?;
        *chosen = Some(instances.get(at)?.id.clone());
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn instances(ids: &str) -> Vec<Arc<ServiceInstance>> {
        let instance = |id: char| {
            let mut instance = ServiceInstance::new("web", "h");
            instance.id = id.to_string();
            Arc::new(instance)
        };
        ids.chars().map(instance).collect()
    }

    fn choices(strategy: &impl Strategy, ids: &str, count: usize) -> String {
        let instances = instances(ids);
        (0..count).map(|_| instances[strategy.choose(&instances).unwrap()].id.clone()).collect()
    }

    #[test]
    fn one_after_the_other() {
        let strategy = RoundRobin::default();
        assert_eq!(strategy.choose(&[]), None);
        assert_eq!(choices(&strategy, "abc", 7), "abcabca");
    }

    #[test]
    fn the_same_one_as_long_as_it_is_there() {
        let strategy = Sticky::new(RoundRobin::default());
        assert_eq!(choices(&strategy, "abc", 3), "aaa");
        assert_eq!(choices(&strategy, "ca", 2), "aa");
        assert_eq!(choices(&strategy, "bc", 2), "cc");
    }

    #[test]
    fn each_of_them_some_time() {
        let chosen = choices(&Random, "abc", 200);
        assert!(["a", "b", "c"].iter().all(|id| chosen.contains(id)), "{chosen}");
        assert_eq!(Random.choose(&[]), None);
    }
}
