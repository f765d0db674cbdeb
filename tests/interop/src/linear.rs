//! Whether what was seen of one object can have happened in one order, consistent with what was over
//! before something else began: Wing and Gong's search, with Lowe's memory of what was tried.
//!
//! An operation whose outcome nobody knows may have happened at any time after it began, or never.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use anyhow::{Result, bail};

/// Configurations that are looked at before the search gives up. Histories are to be so short that it never
/// does.
const CONFIGURATIONS_MAX: usize = 5_000_000;

/// An operation of an object, with the outcome that was seen.
pub trait Call: Debug {
    /// What the object is between two operations.
    type State: Clone + Eq + Hash + Debug;

    /// The state after the operation, or `None` if it cannot have had this outcome before it.
    fn after(&self, before: &Self::State) -> Option<Self::State>;
}

/// An operation in time.
#[derive(Clone, Debug)]
pub struct Operation<C> {
    /// Before it was sent.
    pub began: Instant,
    /// After its answer came; `None` when nobody knows its outcome.
    pub ended: Option<Instant>,
    /// What it was.
    pub call: C,
}

/// What came of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Linearizable {
        /// How many configurations were looked at.
        configurations: usize,
    },
    /// There is none. The longest one that does not contradict anything, as places in the history.
    Broken {
        /// That order.
        longest: Vec<usize>,
    },
    /// The search was given up.
    Undecided,
}

/// Begins and ends in the order of time, as a list from which an operation can be taken and put back.
struct Events {
    next: Vec<usize>,
    previous: Vec<usize>,
    has_end: Vec<bool>,
    /// Ends still in the list.
    ends: usize,
}

impl Events {
    fn of<C>(history: &[Operation<C>]) -> Self {
        let mut events: Vec<(Instant, bool, usize)> = Vec::with_capacity(2 * history.len());
        for (index, operation) in history.iter().enumerate() {
            events.push((operation.began, false, 2 * index));
            events.extend(operation.ended.map(|ended| (ended, true, 2 * index + 1)));
        }
        // What touches overlaps: at one time, begins come first.
        events.sort_unstable();
        let sentinel = 2 * history.len();
        let (mut next, mut previous) = (vec![sentinel; sentinel + 1], vec![sentinel; sentinel + 1]);
        let mut last = sentinel;
        for (_, _, event) in events {
            (next[last], previous[event]) = (event, last);
            last = event;
        }
        (next[last], previous[sentinel]) = (sentinel, last);
        let has_end: Vec<bool> =
            history.iter().map(|operation| operation.ended.is_some()).collect();
        let ends = has_end.iter().filter(|has_end| **has_end).count();
        Self { next, previous, has_end, ends }
    }

    fn sentinel(&self) -> usize {
        self.next.len() - 1
    }

    fn first(&self) -> usize {
        self.next[self.sentinel()]
    }

    fn unlink(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        (self.next[previous], self.previous[next]) = (next, previous);
    }

    fn relink(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        (self.next[previous], self.previous[next]) = (event, event);
    }

    fn take(&mut self, operation: usize) {
        self.unlink(2 * operation);
        if self.has_end[operation] {
            self.unlink(2 * operation + 1);
            self.ends -= 1;
        }
    }

    /// Undoes the newest [`Events::take`] that was not undone.
    fn put_back(&mut self, operation: usize) {
        if self.has_end[operation] {
            self.relink(2 * operation + 1);
            self.ends += 1;
        }
        self.relink(2 * operation);
    }
}

/// Looks for an order of a history that begins with the state `first`.
pub fn decide<C: Call>(first: &C::State, history: &[Operation<C>]) -> Verdict {
    let mut events = Events::of(history);
    let mut taken = vec![0_u64; history.len().div_ceil(64)];
    let mut seen: HashSet<(Box<[u64]>, C::State)> = HashSet::new();
    let mut order: Vec<(usize, C::State)> = Vec::new();
    let mut longest: Vec<usize> = Vec::new();
    let mut state = first.clone();
    let mut at = events.first();
    while events.ends > 0 {
        let (index, is_end) = (at / 2, at % 2 == 1);
        if is_end {
            // It is over and has no place yet: what was placed last must go elsewhere.
            if order.len() >= longest.len() {
                longest = order.iter().map(|(index, _)| *index).collect();
            }
            let Some((index, before)) = order.pop() else { return Verdict::Broken { longest } };
            state = before;
            taken[index / 64] &= !(1 << (index % 64));
            events.put_back(index);
            at = events.next[2 * index];
            continue;
        }
        if let Some(after) = history[index].call.after(&state) {
            taken[index / 64] |= 1 << (index % 64);
            if seen.insert((taken.clone().into_boxed_slice(), after.clone())) {
                if seen.len() > CONFIGURATIONS_MAX {
                    return Verdict::Undecided;
                }
                order.push((index, std::mem::replace(&mut state, after)));
                events.take(index);
                at = events.first();
                continue;
            }
            taken[index / 64] &= !(1 << (index % 64));
        }
        at = events.next[at];
    }
    Verdict::Linearizable { configurations: seen.len() }
}

/// The same; says how many configurations were looked at.
///
/// # Errors
/// The history is not linearizable, and how far it gets, or the search was given up.
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

    /// A register of a number.
    #[derive(Clone, Copy, Debug)]
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

    /// Begin, end (0 when nobody knows) and call of each operation.
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
        let mut random = crate::random::Random::new(7);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..3_000 {
            let mut of = Vec::new();
            for _ in 0..6 {
                let began = 1 + random.next() % 12;
                let ended = if random.chance(20) { 0 } else { began + random.next() % 8 };
                let value = u32::try_from(random.below(3)).unwrap();
                // Nobody remembers a read without an answer.
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

    /// Whether any order of what is not yet placed goes on from `state`.
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
