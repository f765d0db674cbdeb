//! Distributes connections over network workers, and uses as few workers as possible.
//!
//! A worker with many connections handles all received requests in one turn, and seldom sleeps.
//! While one worker is fast enough, the same connections on two workers cost more CPU time and more
//! latency for each request. So one worker serves all connections until it is saturated while the
//! machine has idle time. Then another worker gets a share of them.

use std::time::Duration;

/// Time between two measurements.
pub const INTERVAL: Duration = Duration::from_millis(200);

/// Time between two measurements on a nearly idle server.
pub const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// A worker that is busy for a larger share of the time does not keep up.
const STRAINED: f64 = 0.9;

/// Number of cores that must be idle before another worker can help.
const SPARE: f64 = 0.4;

/// With fewer idle cores, workers take time from each other or from other programs.
const CROWDED: f64 = 0.2;

/// `n` workers are too many if their load is less than this share of the capacity of `n − 1`
/// workers.
const LITTLE: f64 = 0.6;

/// Difference between the load of a busy worker and of another one, as a share of time, at which
/// the other one takes over connections.
const UNEVEN: f64 = 0.3;

/// Measurements in a row before a worker that does not keep up gets help.
const STRAINED_LOOKS: u32 = 2;

/// Measurements in a row before the number of workers is reduced because they take time from each
/// other.
const CROWDED_LOOKS: u32 = 3;

/// Measurements in a row before the number of workers is reduced because their load is small.
const LITTLE_LOOKS: u32 = 4;

/// The load of a worker since the last measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// The share of the time it was running, 0 to 1.
    pub busy: f64,
    /// The number of its connections.
    pub conns: usize,
}

/// Connections to move to another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The present worker.
    pub from: usize,
    /// The future worker.
    pub to: usize,
    /// The number of connections.
    pub count: usize,
}

/// The number of serving workers, and the number of measurements for which that number was wrong.
#[derive(Debug)]
pub struct Spread {
    active: usize,
    strained: u32,
    crowded: u32,
    little: u32,
}

impl Spread {
    /// Starts with one worker.
    pub fn new() -> Self {
        Self { active: 1, strained: 0, crowded: 0, little: 0 }
    }

    /// The number of serving workers: the first ones. The others have no connections, and get none.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Evaluates the load of all workers and the number of idle cores. Returns the connections to
    /// move.
    pub fn look(&mut self, loads: &[Load], idle: f64) -> Vec<Move> {
        let active = &loads[..self.active];
        let total: f64 = active.iter().map(|load| load.busy).sum();
        let fewer = (self.active - 1) as f64;
        let can_help = |load: &Load| load.busy >= STRAINED && load.conns > 1;
        let count = |is_so: bool, looks: u32| if is_so { looks + 1 } else { 0 };
        self.strained = count(idle >= SPARE && active.iter().any(can_help), self.strained);
        self.crowded = count(self.active > 1 && idle < CROWDED && total <= fewer, self.crowded);
        self.little = count(self.active > 1 && total < LITTLE * fewer, self.little);
        let mut moves = Vec::new();
        if self.strained >= STRAINED_LOOKS {
            self.strained = 0;
            moves = self.relieve(loads);
        } else if self.crowded >= CROWDED_LOOKS || self.little >= LITTLE_LOOKS {
            (self.crowded, self.little) = (0, 0);
            moves = self.withdraw(loads);
        }
        self.check(loads, &moves);
        moves
    }

    /// Asserts that connections move to serving workers only, and that nobody gives more than it
    /// has.
    fn check(&self, loads: &[Load], moves: &[Move]) {
        assert!((1..=loads.len()).contains(&self.active), "{} workers serve", self.active);
        for (from, load) in loads.iter().enumerate() {
            let given: usize = moves.iter().filter(|it| it.from == from).map(|it| it.count).sum();
            assert!(given <= load.conns, "worker {from} gives {given} of {}", load.conns);
        }
        for it in moves {
            assert!(it.to < self.active && it.to != it.from && it.count > 0, "{it:?}");
        }
    }

    /// The busiest worker gives connections to the one with the most idle time; otherwise all
    /// workers give some to a further worker.
    fn relieve(&mut self, loads: &[Load]) -> Vec<Move> {
        let active = &loads[..self.active];
        let by_busy = |a: &usize, b: &usize| active[*a].busy.total_cmp(&active[*b].busy);
        let busiest = (0..active.len()).filter(|at| active[*at].conns > 1).max_by(by_busy);
        let least = (0..active.len()).min_by(by_busy);
        let (Some(busiest), Some(least)) = (busiest, least) else { return Vec::new() };
        let difference = active[busiest].busy - active[least].busy;
        if difference >= UNEVEN {
            let conns = active[busiest].conns;
            let share = difference / 2.0 / active[busiest].busy;
            let count = ((conns as f64 * share) as usize).clamp(1, conns - 1);
            return vec![Move { from: busiest, to: least, count }];
        }
        if self.active == loads.len() {
            return Vec::new();
        }
        let to = self.active;
        self.active += 1;
        let part = |(from, load): (usize, &Load)| {
            // The only connection of a worker stays there.
            let count = load.conns.div_ceil(self.active).min(load.conns.saturating_sub(1));
            Move { from, to, count }
        };
        active.iter().enumerate().map(part).filter(|part| part.count > 0).collect()
    }

    /// The last worker gives all its connections to the others.
    fn withdraw(&mut self, loads: &[Load]) -> Vec<Move> {
        self.active -= 1;
        let conns = loads[self.active].conns;
        let part = |to| {
            let count = conns / self.active + usize::from(to < conns % self.active);
            Move { from: self.active, to, count }
        };
        (0..self.active).map(part).filter(|part| part.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(loads: &[(f64, usize)]) -> Vec<Load> {
        loads.iter().map(|&(busy, conns)| Load { busy, conns }).collect()
    }

    /// Measures until connections move, at most `looks` times. Returns the number of measurements.
    fn look(spread: &mut Spread, at: &[Load], idle: f64, looks: u32) -> (u32, Vec<Move>) {
        for number in 1..=looks {
            let moves = spread.look(at, idle);
            if !moves.is_empty() {
                return (number, moves);
            }
        }
        (looks, Vec::new())
    }

    #[test]
    fn another_worker_helps_when_one_has_no_time_and_the_machine_has() {
        let mut spread = Spread::new();
        let busy = loads(&[(1.0, 16), (0.0, 0)]);
        let half = Move { from: 0, to: 1, count: 8 };
        assert_eq!(look(&mut spread, &busy, 0.8, 9), (STRAINED_LOOKS, vec![half]));
        assert_eq!(spread.active(), 2);
        // There is no third worker.
        let all = loads(&[(1.0, 8), (1.0, 8)]);
        assert_eq!(look(&mut spread, &all, 1.0, 99), (99, vec![]));
    }

    #[test]
    fn no_other_worker_helps_when_that_takes_time_from_others() {
        let mut spread = Spread::new();
        assert_eq!(look(&mut spread, &loads(&[(1.0, 16), (0.0, 0)]), 0.1, 99), (99, vec![]));
        assert_eq!(spread.active(), 1);
    }

    #[test]
    fn a_connection_alone_cannot_be_shared() {
        let mut spread = Spread::new();
        assert_eq!(look(&mut spread, &loads(&[(1.0, 1), (0.0, 0)]), 0.9, 99), (99, vec![]));
    }

    #[test]
    fn a_moment_is_not_enough() {
        let mut spread = Spread::new();
        for _ in 0..50 {
            assert_eq!(spread.look(&loads(&[(1.0, 16), (0.0, 0)]), 0.8), []);
            assert_eq!(spread.look(&loads(&[(0.5, 16), (0.0, 0)]), 1.2), []);
        }
    }

    #[test]
    fn each_gives_its_share_to_another_one() {
        let mut spread = Spread { active: 2, ..Spread::new() };
        let busy = loads(&[(1.0, 9), (0.95, 6), (0.0, 0), (0.0, 0)]);
        let moves = vec![Move { from: 0, to: 2, count: 3 }, Move { from: 1, to: 2, count: 2 }];
        assert_eq!(look(&mut spread, &busy, 2.0, 9).1, moves);
        assert_eq!(spread.active(), 3);
    }

    #[test]
    fn who_has_time_takes_from_who_has_none() {
        let mut spread = Spread { active: 2, ..Spread::new() };
        let moves = vec![Move { from: 1, to: 0, count: 4 }];
        assert_eq!(look(&mut spread, &loads(&[(0.2, 8), (1.0, 10)]), 0.8, 9).1, moves);
        assert_eq!(spread.active(), 2);
    }

    #[test]
    fn workers_become_fewer_when_there_is_little_to_do() {
        let mut spread = Spread { active: 3, ..Spread::new() };
        let few = loads(&[(0.3, 4), (0.3, 4), (0.3, 5), (0.0, 0)]);
        let moves = vec![Move { from: 2, to: 0, count: 3 }, Move { from: 2, to: 1, count: 2 }];
        assert_eq!(look(&mut spread, &few, 3.0, 99), (LITTLE_LOOKS, moves));
        assert_eq!(spread.active(), 2);
    }

    #[test]
    fn workers_become_fewer_when_they_are_in_each_others_way() {
        let mut spread = Spread { active: 2, ..Spread::new() };
        let crowd = loads(&[(0.45, 8), (0.5, 8)]);
        let moves = vec![Move { from: 1, to: 0, count: 8 }];
        assert_eq!(look(&mut spread, &crowd, 0.0, 99), (CROWDED_LOOKS, moves));
        // Then one worker does everything, and there is no idle core for another one.
        assert_eq!(look(&mut spread, &loads(&[(1.0, 16), (0.0, 0)]), 0.0, 99), (99, vec![]));
    }

    #[test]
    fn an_unused_worker_withdraws_without_a_word() {
        let mut spread = Spread { active: 2, ..Spread::new() };
        assert_eq!(look(&mut spread, &loads(&[(0.0, 0), (0.0, 0)]), 2.0, 99), (99, vec![]));
        assert_eq!(spread.active(), 1);
    }
}
