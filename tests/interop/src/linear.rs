//! Checks that a history of one object is linearizable: Wing and Gong's search, with Lowe's memory
//! of configurations.
//!
//! An operation with an unknown outcome may have happened at any time after its start, or never.
//! The search continues from the configuration with the most known operations placed, and the
//! fewest unknown ones. Of several unknown operations that can replace each other it tries only
//! one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use anyhow::{Result, bail};

/// Maximum number of configurations before the search gives up. Histories are kept short enough not
/// to reach it.
const CONFIGURATIONS_MAX: usize = 2_000_000;

/// An operation of an object, with its observed outcome.
pub trait Call: Debug + PartialEq {
    /// The state of the object between two operations.
    type State: Clone + Eq + Hash + Debug;

    /// The state after the operation, or `None` if its outcome is impossible in this state.
    fn after(&self, before: &Self::State) -> Option<Self::State>;

    /// Whether this operation can always replace the other, with the same effect.
    fn stands_for(&self, other: &Self) -> bool {
        self == other
    }

    /// Whether its outcome is still possible at some time after `state`, if only some of `between`
    /// are executed before.
    fn can_follow(&self, _state: &Self::State, _between: &[&Self]) -> bool {
        true
    }
}

/// An operation with its times.
#[derive(Clone, Debug)]
pub struct Operation<C> {
    /// A time before it was sent.
    pub began: Instant,
    /// A time after its answer arrived; `None` if the outcome is unknown.
    pub ended: Option<Instant>,
    /// The operation.
    pub call: C,
}

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The history is linearizable.
    Linearizable {
        /// Number of configurations examined.
        configurations: usize,
    },
    /// The history is not linearizable. The longest order without a contradiction, as indices into
    /// the history.
    Broken {
        /// The order.
        longest: Vec<usize>,
    },
    /// The search gave up.
    Undecided,
}

/// The set of placed operations, and the state after them.
struct Configuration<S> {
    taken: Box<[u64]>,
    state: S,
    /// The operation placed last, and the previous configuration.
    last: Option<(usize, usize)>,
}

impl<S> Configuration<S> {
    fn has(&self, index: usize) -> bool {
        self.taken[index / 64] & (1 << (index % 64)) != 0
    }
}

/// Searches an order of a history that begins in the state `first`.
pub fn decide<C: Call>(first: &C::State, history: &[Operation<C>]) -> Verdict {
    let mut by_begin: Vec<usize> = (0..history.len()).collect();
    by_begin.sort_by_key(|index| history[*index].began);
    let mut by_end: Vec<(Instant, usize)> = history
        .iter()
        .enumerate()
        .filter_map(|(index, operation)| Some((operation.ended?, index)))
        .collect();
    by_end.sort_unstable();

    let taken = vec![0_u64; history.len().div_ceil(64)].into_boxed_slice();
    let mut seen = HashSet::from([(taken.clone(), first.clone())]);
    let mut known = vec![Configuration { taken, state: first.clone(), last: None }];
    // Prefers the most known operations, then the fewest unknown ones, then the newest
    // configuration.
    let mut open = BinaryHeap::from([(0_usize, Reverse(0_usize), 0_usize)]);
    let mut best = (0, 0);
    while let Some((placed, Reverse(guessed), at)) = open.pop() {
        best = best.max((placed, at));
        // An unplaced operation that ended must come before all operations that started later.
        let Some((limit, soonest)) = by_end.iter().find(|(_, index)| !known[at].has(*index)) else {
            return Verdict::Linearizable { configurations: seen.len() };
        };
        let here = &known[at];
        let is_next = |index: &&usize| history[**index].began <= *limit && !here.has(**index);
        let next: Vec<usize> = by_begin.iter().filter(is_next).copied().collect();
        let between: Vec<&C> = next
            .iter()
            .filter(|index| *index != soonest)
            .map(|index| &history[*index].call)
            .collect();
        if !history[*soonest].call.can_follow(&here.state, &between) {
            continue;
        }
        let mut found: Vec<(usize, C::State)> = Vec::new();
        for index in next {
            let Operation { ended, call, .. } = &history[index];
            let Some(after) = call.after(&here.state) else { continue };
            if ended.is_some() {
                found.push((index, after));
                continue;
            }
            // An operation that can replace fewer others is tried before one that can replace it.
            let rival = found.iter().position(|(other, effect)| {
                let other = &history[*other];
                other.ended.is_none()
                    && *effect == after
                    && (call.stands_for(&other.call) || other.call.stands_for(call))
            });
            match rival {
                None => found.push((index, after)),
                Some(rival) if call.stands_for(&history[found[rival].0].call) => {}
                Some(rival) => found[rival] = (index, after),
            }
        }
        for (index, state) in found {
            let mut taken = known[at].taken.clone();
            taken[index / 64] |= 1 << (index % 64);
            if !seen.insert((taken.clone(), state.clone())) {
                continue;
            }
            if seen.len() > CONFIGURATIONS_MAX {
                return Verdict::Undecided;
            }
            let is_known = history[index].ended.is_some();
            let (placed, guessed) =
                (placed + usize::from(is_known), guessed + usize::from(!is_known));
            open.push((placed, Reverse(guessed), known.len()));
            known.push(Configuration { taken, state, last: Some((index, at)) });
        }
    }
    let steps = std::iter::successors(known[best.1].last, |(_, before)| known[*before].last);
    let mut longest: Vec<usize> = steps.map(|(index, _)| index).collect();
    longest.reverse();
    Verdict::Broken { longest }
}

/// As [`decide`]. Returns the number of configurations examined.
///
/// # Errors
/// The history is not linearizable (with the longest order found), or the search gave up.
pub fn check<C: Call>(first: &C::State, history: &[Operation<C>]) -> Result<usize> {
    match decide(first, history) {
        Verdict::Linearizable { configurations } => Ok(configurations),
        Verdict::Undecided => bail!("not decided: {} operations", history.len()),
        Verdict::Broken { longest } => {
            let zero = history.iter().map(|operation| operation.began).min();
            let show = |index: usize| {
                let Operation { began, ended, call } = &history[index];
                let since = |at: Instant| zero.map(|zero| at - zero).unwrap_or_default();
                format!("{:?} to {:?}: {call:?}", since(*began), ended.map(since))
            };
            let mut rest: Vec<usize> =
                (0..history.len()).filter(|index| !longest.contains(index)).collect();
            rest.sort_by_key(|index| history[*index].ended.unwrap_or(history[*index].began));
            let tail = longest.len().saturating_sub(12);
            let placed: Vec<String> = longest[tail..].iter().map(|index| show(*index)).collect();
            let left: Vec<String> = rest.iter().take(12).map(|index| show(*index)).collect();
            bail!(
                "not linearizable: after {} of {} operations, the last of them {placed:#?},\n\
                 none of these fits: {left:#?}",
                longest.len(),
                history.len()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A register with a number.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Register {
        Read(u32),
        Write(u32),
    }
    use Register::{Read, Write};

    impl Call for Register {
        type State = u32;

        fn after(&self, before: &u32) -> Option<u32> {
            match self {
                Read(value) => (value == before).then_some(*value),
                Write(value) => Some(*value),
            }
        }
    }

    /// Start, end (0 if unknown) and call of each operation.
    fn history(of: &[(u64, u64, Register)]) -> Vec<Operation<Register>> {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let operation = |(began, ended, call): &(u64, u64, Register)| Operation {
            began: at(*began),
            ended: (*ended > 0).then(|| at(*ended)),
            call: *call,
        };
        of.iter().map(operation).collect()
    }

    fn holds(of: &[(u64, u64, Register)]) -> bool {
        match decide(&0, &history(of)) {
            Verdict::Linearizable { .. } => true,
            Verdict::Broken { .. } => false,
            Verdict::Undecided => panic!("undecided"),
        }
    }

    #[test]
    fn what_overlaps_may_have_happened_in_either_order() {
        assert!(holds(&[(1, 9, Write(1)), (2, 3, Read(0)), (4, 8, Read(1))]));
        assert!(holds(&[(1, 9, Write(1)), (2, 3, Read(1)), (4, 8, Read(1))]));
        assert!(!holds(&[(1, 9, Write(1)), (2, 3, Read(1)), (4, 8, Read(0))]));
        assert!(holds(&[(1, 5, Write(1)), (5, 9, Read(0))]), "what touches overlaps");
    }

    #[test]
    fn a_stale_read_and_a_lost_write_are_found() {
        assert!(!holds(&[(1, 2, Write(1)), (3, 4, Read(0))]));
        assert!(!holds(&[(1, 2, Write(1)), (3, 4, Write(2)), (5, 6, Read(1))]));
        assert!(!holds(&[(1, 2, Read(7))]), "what nobody wrote");
    }

    #[test]
    fn a_write_without_answer_may_have_happened_at_any_time_or_never() {
        assert!(holds(&[(1, 0, Write(1)), (5, 6, Read(0)), (7, 8, Read(1))]));
        assert!(holds(&[(1, 0, Write(1)), (5, 6, Read(0)), (7, 8, Read(0))]));
        assert!(!holds(&[(1, 0, Write(1)), (5, 6, Read(1)), (7, 8, Read(0))]));
        assert!(!holds(&[(5, 0, Write(1)), (1, 2, Read(1))]));
    }

    #[test]
    fn two_readers_may_not_disagree_on_the_order_of_two_writes() {
        let writes = [(1, 20, Write(1)), (1, 20, Write(2))];
        let one = [(2, 3, Read(1)), (4, 5, Read(2))];
        assert!(holds(&[writes, one].concat()));
        let other = [(6, 7, Read(2)), (8, 9, Read(1))];
        assert!(!holds(&[writes, one, other].concat()));
    }

    #[test]
    fn every_verdict_is_that_of_trying_all_orders() {
        let mut random = zebu_testkit::Random::new(7);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..6_000 {
            let mut of = Vec::new();
            for _ in 0..6 {
                let began = 1 + random.next() % 12;
                let ended = if random.chance(35) { 0 } else { began + random.next() % 8 };
                let value = u32::try_from(random.index(3)).unwrap();
                // A read without an answer has no effect.
                let is_read = ended > 0 && random.chance(50);
                of.push((began, ended, if is_read { Read(value) } else { Write(value) }));
            }
            let history = history(&of);
            let expected = some_order(&mut vec![false; of.len()], 0, &history);
            assert_eq!(holds(&of), expected, "{of:?}");
            *(if expected { &mut good } else { &mut bad }) += 1;
        }
        assert!(good > 300 && bad > 300, "{good} good, {bad} bad");
    }

    /// Whether the remaining operations have an order that continues from `state`.
    fn some_order(placed: &mut Vec<bool>, state: u32, history: &[Operation<Register>]) -> bool {
        let open = |placed: &[bool]| -> Vec<usize> {
            (0..history.len()).filter(|index| !placed[*index]).collect()
        };
        let left = open(placed);
        if left.iter().all(|index| history[*index].ended.is_none()) {
            return true;
        }
        let soonest = left.iter().filter_map(|index| history[*index].ended).min();
        for index in left {
            if soonest.is_some_and(|soonest| soonest < history[index].began) {
                continue;
            }
            let Some(after) = history[index].call.after(&state) else { continue };
            placed[index] = true;
            if some_order(placed, after, history) {
                return true;
            }
            placed[index] = false;
        }
        false
    }
}
