//! A small mutator for the tests. A seed decides its inputs, so every run tries the same ones.
//!
//! libFuzzer finds more, because it sees the code that an input reaches. This mutator needs only a
//! stable compiler, runs with the other tests, and keeps fixed faults from returning.

use zebu_testkit::Random;

/// The maximum length of an input.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of changes of one seed.
const CHANGES_MAX: u64 = 6;
/// The maximum number of runs to shrink an input.
const MINIMISE_RUNS_MAX: usize = 4000;

/// Numbers at which ranges begin or end.
const BOUNDARIES: [i64; 24] = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    16,
    0x7f,
    0x80,
    0xff,
    0x100,
    1024,
    0x7fff,
    0x8000,
    0xffff,
    0xf_ffff,
    0x10_0000,
    0x7fff_ffff,
    -0x8000_0000,
    0xffff_ffff,
    1 << 40,
    -1 << 56,
    i64::MAX,
    i64::MIN,
];

/// Bytes with a meaning in texts and in binary records.
const TELLING: &[u8] = b"\0\x01\x0b\x0e\x1f\x65\x66\x7f\x80\xff/.:,;=-+#\\\n\r ax019B";

/// A part of `length` bytes, most often a short one.
fn part(random: &mut Random, length: usize) -> std::ops::Range<usize> {
    let start = random.index(length + 1);
    let most = if random.index(4) == 0 { length } else { length.min(16) };
    start..(start + random.index(most + 1)).min(length)
}

/// Creates inputs from seeds.
#[derive(Clone, Debug)]
pub struct Mutator<'s> {
    seeds: &'s [Vec<u8>],
    random: Random,
}

impl<'s> Mutator<'s> {
    /// Inputs made from `seeds`; the same ones for the same `seed`.
    ///
    /// # Panics
    /// If there are no seeds.
    pub fn new(seeds: &'s [Vec<u8>], seed: u64) -> Self {
        assert!(!seeds.is_empty(), "a mutator needs something to change");
        Self { seeds, random: Random::new(seed) }
    }

    fn seed(&mut self) -> &'s [u8] {
        &self.seeds[self.random.index(self.seeds.len())]
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.seed().to_vec();
        for _ in 0..=self.random.next() % CHANGES_MAX {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let kind = if input.is_empty() { 10 } else { self.random.index(13) };
        match kind {
            0 | 1 => {
                let at = self.random.index(input.len());
                input[at] ^= 1 << self.random.index(8);
            }
            2 => {
                let at = self.random.index(input.len());
                input[at] = self.random.next() as u8;
            }
            3 => {
                let at = self.random.index(input.len());
                input[at] = *self.random.pick(TELLING);
            }
            4 | 5 => self.boundary(input),
            6 => {
                let at = self.random.index(input.len());
                input[at] = input[at].wrapping_add(*self.random.pick(&[1, 2, 16, 240, 254, 255]));
            }
            7 => input.truncate(self.random.index(input.len())),
            8 => drop(input.drain(part(&mut self.random, input.len()))),
            9 => {
                // Repeats a part once or many times.
                let again = input[part(&mut self.random, input.len())].to_vec();
                let room = INPUT_BYTES_MAX / again.len().max(1);
                let times =
                    if self.random.index(16) == 0 { 1 + self.random.index(room) } else { 1 };
                let at = self.random.index(input.len() + 1);
                input.splice(at..at, again.repeat(times));
            }
            10 => {
                let at = self.random.index(input.len() + 1);
                let bytes: Vec<u8> =
                    (0..=self.random.index(8)).map(|_| *self.random.pick(TELLING)).collect();
                input.splice(at..at, bytes);
            }
            11 => {
                // The beginning of this input and the end of another one.
                let other = self.seed();
                input.truncate(self.random.index(input.len() + 1));
                input.extend_from_slice(&other[self.random.index(other.len() + 1)..]);
            }
            _ => {
                let other = self.seed();
                let piece = &other[part(&mut self.random, other.len())];
                let at = self.random.index(input.len() + 1);
                input.splice(at..at, piece.iter().copied());
            }
        }
    }

    /// Overwrites bytes with a number, most often four bytes, like a length.
    fn boundary(&mut self, input: &mut [u8]) {
        let number = match self.random.index(4) {
            0 => input.len() as i64 + *self.random.pick(&[-1, 0, 1]),
            _ => *self.random.pick(&BOUNDARIES),
        };
        let width = input.len().min(*self.random.pick(&[1, 2, 4, 4, 4, 8]));
        let at = self.random.index(input.len() - width + 1);
        input[at..at + width].copy_from_slice(&number.to_be_bytes()[8 - width..]);
    }
}

/// An input that breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// The input, shrunk.
    pub input: Vec<u8>,
    /// The fault that it causes.
    pub fault: String,
}

/// Tries the seeds, then `rounds` inputs made from them, and stops at the first fault.
pub fn hunt(
    seeds: &[Vec<u8>],
    rounds: u32,
    seed: u64,
    check: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Option<Find> {
    let mut found = seeds.iter().find(|input| check(input).is_err()).cloned();
    if found.is_none() && !seeds.is_empty() {
        let mut mutator = Mutator::new(seeds, seed);
        found = (0..rounds).map(|_| mutator.input()).find(|input| check(input).is_err());
    }
    let input = minimise(found?, &mut |input| check(input).is_err());
    let fault = check(&input).expect_err("it goes wrong every time");
    Some(Find { input, fault })
}

/// Shrinks an input while it still fails: fewer bytes, then simpler ones.
pub fn minimise(mut input: Vec<u8>, fails: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut runs = 0;
    let mut attempt = |smaller: &[u8]| {
        runs += 1;
        runs < MINIMISE_RUNS_MAX && fails(smaller)
    };
    let mut step = input.len().next_power_of_two();
    while step > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut smaller = input[..at].to_vec();
            smaller.extend_from_slice(&input[(at + step).min(input.len())..]);
            if attempt(&smaller) {
                input = smaller;
            } else {
                at += step;
            }
        }
        step /= 2;
    }
    for at in 0..input.len() {
        for plain in [0, b'a'] {
            let before = std::mem::replace(&mut input[at], plain);
            if before == plain || attempt(&input) {
                break;
            }
            input[at] = before;
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let seeds = [b"/a/b".to_vec(), vec![0, 0, 0, 1, 7], Vec::new()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(&seeds, seed);
            (0..500).map(|_| mutator.input()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(3).iter().all(|input| input.len() <= INPUT_BYTES_MAX));
    }

    #[test]
    fn a_find_is_made_small() {
        let seeds = [b"nothing wrong here".to_vec()];
        let mut check = |input: &[u8]| match input.windows(2).any(|pair| pair == b"\xff\xff") {
            true => Err("two of them".to_owned()),
            false => Ok(()),
        };
        let found = hunt(&seeds, 100_000, 7, &mut check).expect("boundaries are full of them");
        assert_eq!(found, Find { input: vec![0xff, 0xff], fault: "two of them".to_owned() });
    }
}
