//! Connections in memory between places with numbers, such as the members of an ensemble.
//!
//! A [`Line`] delivers in order. [`Ways`] says which places reach each other: what arrives on a
//! blocked way waits at its line until the way is free. The owner of the lines decides when a
//! message arrives, at once or after a delay, and what the end of a line means.

use std::collections::{BTreeMap, VecDeque};

/// The ways from one place to another. All are free at first.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// Each blocked way, with the number of causes.
    blocked: BTreeMap<(usize, usize), u32>,
}

impl Ways {
    /// Whether messages pass from one place to another.
    pub fn is_free(&self, from: usize, to: usize) -> bool {
        !self.blocked.contains_key(&(from, to))
    }

    /// Whether messages pass between two places in both directions.
    pub fn reaches(&self, a: usize, b: usize) -> bool {
        self.is_free(a, b) && self.is_free(b, a)
    }

    /// Blocks a way, for one more cause.
    pub fn block(&mut self, from: usize, to: usize) {
        *self.blocked.entry((from, to)).or_default() += 1;
    }

    /// Ends one cause. The way is free when there is none left.
    pub fn unblock(&mut self, from: usize, to: usize) {
        if let Some(causes) = self.blocked.get_mut(&(from, to)) {
            *causes -= 1;
            if *causes == 0 {
                self.blocked.remove(&(from, to));
            }
        }
    }

    /// Frees all ways.
    pub fn clear(&mut self) {
        self.blocked.clear();
    }
}

/// A connection between two places.
#[derive(Clone, Debug)]
pub struct Line<M> {
    ends: [usize; 2],
    /// For each end, the messages that have arrived and are not taken.
    waiting: [VecDeque<M>; 2],
}

impl<M> Line<M> {
    /// A connection that the first place has opened.
    pub fn new(from: usize, to: usize) -> Self {
        Self { ends: [from, to], waiting: [VecDeque::new(), VecDeque::new()] }
    }

    /// The place that has opened the connection, and the other place.
    pub fn ends(&self) -> [usize; 2] {
        self.ends
    }

    /// The number of a place's end: 0 for the place that has opened the connection.
    pub fn side(&self, place: usize) -> usize {
        usize::from(self.ends[1] == place)
    }

    /// The place at the other end.
    pub fn other(&self, place: usize) -> usize {
        self.ends[1 - self.side(place)]
    }

    /// A message arrives for an end, behind those that wait there.
    pub fn arrive(&mut self, side: usize, message: M) {
        self.waiting[side].push_back(message);
    }

    /// Takes the first message that waits for an end, if the way to it is free.
    pub fn take(&mut self, side: usize, ways: &Ways) -> Option<M> {
        let (from, to) = (self.ends[1 - side], self.ends[side]);
        if ways.is_free(from, to) { self.waiting[side].pop_front() } else { None }
    }

    /// Whether messages wait for an end.
    pub fn is_waiting(&self, side: usize) -> bool {
        !self.waiting[side].is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_way_holds_messages_in_one_direction_and_in_order() {
        let (mut ways, mut line) = (Ways::default(), Line::new(7, 4));
        ways.block(7, 4);
        for number in 1..=3 {
            line.arrive(1, number);
            line.arrive(0, -number);
        }
        assert_eq!((line.take(1, &ways), line.take(0, &ways)), (None, Some(-1)));
        assert!(line.is_waiting(1));
        ways.unblock(7, 4);
        let taken: Vec<i32> = std::iter::from_fn(|| line.take(1, &ways)).collect();
        assert_eq!(taken, [1, 2, 3]);
        assert!(!line.is_waiting(1));
    }

    #[test]
    fn a_way_is_free_when_every_cause_has_ended() {
        let mut ways = Ways::default();
        ways.block(0, 1);
        ways.block(0, 1);
        ways.unblock(0, 1);
        assert!(!ways.reaches(0, 1) && !ways.reaches(1, 0) && ways.is_free(1, 0));
        ways.unblock(0, 1);
        assert!(ways.reaches(0, 1));
        // An operation that frees all ways may come before the end of a cause.
        ways.block(0, 1);
        ways.clear();
        ways.unblock(0, 1);
        assert!(ways.reaches(0, 1));
    }

    #[test]
    fn a_place_finds_the_other_end() {
        let line: Line<()> = Line::new(2, 9);
        assert_eq!((line.side(2), line.side(9)), (0, 1));
        assert_eq!((line.other(2), line.other(9)), (9, 2));
    }
}
