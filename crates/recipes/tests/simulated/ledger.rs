//! Who holds what, as the programs believe and as the ensemble has it, and a register that refuses old fencing tokens.

use std::collections::BTreeMap;
use std::time::Duration;

use zebu_recipes::Token;
use zebu_sim::World;

/// How long a program that runs may trust in something that is gone. The longest session takes 6 s, and its client
/// knows after two thirds of them that no server answers.
const TRUST_MAX: Duration = Duration::from_secs(10);

/// How a holder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Alone,
    /// Together with others that read.
    Read,
    /// Together with others, so many in all.
    Lease(usize),
}

#[derive(Debug)]
struct Holder {
    guest: usize,
    resource: String,
    token: Token,
    share: Share,
    /// It has heard of no loss since it was granted, or since it heard that all is well again.
    trusts: bool,
    /// How long it has trusted in what is gone, not counting the time in which its process stood still.
    deceived: Duration,
    /// The register has refused it.
    is_refused: bool,
}

/// All holders.
#[derive(Default)]
pub(crate) struct Ledger {
    next: u64,
    holders: BTreeMap<u64, Holder>,
    registers: BTreeMap<String, Token>,
    granted: BTreeMap<usize, Duration>,
    calm: Duration,
    deaf: Option<usize>,
    looked: Duration,
    /// How often something was granted.
    pub(crate) grants: u64,
    /// How often the register has refused a holder.
    pub(crate) refusals: u64,
    /// How often a holder has heard that another wants what it holds.
    pub(crate) wanted: u64,
}

impl Ledger {
    /// A guest holds the place with this token among the children of `resource`.
    pub(crate) fn granted(
        &mut self,
        guest: usize,
        resource: &str,
        token: Token,
        share: Share,
        now: Duration,
    ) -> u64 {
        self.next += 1;
        self.grants += 1;
        let holder = Holder {
            guest,
            resource: resource.to_owned(),
            token,
            share,
            trusts: true,
            deceived: Duration::ZERO,
            is_refused: false,
        };
        self.holders.insert(self.next, holder);
        self.granted.insert(guest, now);
        self.next
    }

    pub(crate) fn trusts(&mut self, id: u64, trusts: bool) {
        if let Some(holder) = self.holders.get_mut(&id) {
            holder.trusts = trusts;
        }
    }

    /// A holder writes to the register that the lock protects, which may refuse that.
    pub(crate) fn writes(&mut self, id: u64) {
        let Some(holder) = self.holders.get_mut(&id) else { return };
        let highest = self.registers.entry(holder.resource.clone()).or_insert(holder.token);
        holder.is_refused = holder.token < *highest;
        if holder.is_refused {
            self.refusals += 1;
        } else {
            *highest = holder.token;
        }
    }

    /// A holder begins to release, or has heard that it has lost what it held.
    pub(crate) fn ends(&mut self, id: u64) {
        self.holders.remove(&id);
    }

    /// The session of a guest is over, and its guard does not say so.
    pub(crate) fn deaf(&mut self, guest: usize) {
        self.deaf = Some(guest);
    }

    /// The process of a guest is killed.
    pub(crate) fn killed(&mut self, guest: usize) {
        self.holders.retain(|_, holder| holder.guest != guest);
    }

    pub(crate) fn calms(&mut self, now: Duration) {
        self.calm = now;
    }

    /// At most one holder's place is there, or so many as may be; and nobody trusts for long in a place that is gone.
    pub(crate) fn check(&mut self, world: &World, now: Duration) -> Result<(), String> {
        if let Some(guest) = self.deaf {
            return Err(format!("guard: guest {guest} is not told that its session is over"));
        }
        let passed = now - self.looked;
        self.looked = now;
        let mut standing: BTreeMap<&str, Vec<&Holder>> = BTreeMap::new();
        for holder in self.holders.values_mut() {
            let names = world.children(&holder.resource);
            let stands = names.iter().any(|name| {
                let path = format!("{}/{name}", holder.resource);
                world.znode(&path).is_some_and(|(created, _)| created == holder.token.0)
            });
            if stands {
                if holder.is_refused {
                    return Err(format!("fencing: {holder:?} stands, and is refused"));
                }
                holder.deceived = Duration::ZERO;
            } else if holder.trusts && !world.is_silent(holder.guest) {
                holder.deceived += passed;
                if holder.deceived > TRUST_MAX {
                    return Err(format!("guard: {holder:?} does not learn that its place is gone"));
                }
            }
            if stands {
                standing.entry(&holder.resource).or_default().push(holder);
            }
        }
        for holders in standing.values() {
            let is_fine = holders.iter().all(|holder| match holder.share {
                Share::Alone => holders.len() == 1,
                Share::Read => holders.iter().all(|other| other.share == Share::Read),
                Share::Lease(max) => holders.len() <= max,
            });
            if !is_fine {
                return Err(format!("mutual exclusion: all of these hold: {holders:?}"));
            }
        }
        Ok(())
    }

    /// Everybody is granted something when nothing goes wrong any more.
    pub(crate) fn all_granted(&self, guests: usize) -> Result<(), String> {
        let is_late = |guest: &usize| self.granted.get(guest).is_none_or(|at| *at < self.calm);
        match (0..guests).find(is_late) {
            Some(guest) => Err(format!(
                "guest {guest} is granted nothing; {:?}",
                self.holders.values().collect::<Vec<_>>()
            )),
            None => Ok(()),
        }
    }
}
