//! The holders, as the programs believe and as the ensemble knows them, and a register that refuses
//! old fencing tokens.

use std::collections::BTreeMap;
use std::time::Duration;

use zebu_recipes::Token;
use zebu_sim::World;

/// The maximum time for which a running program may rely on a lost place. The longest session
/// timeout is 6 s, and its client knows after two thirds of it that no server answers.
const TRUST_MAX: Duration = Duration::from_secs(10);

/// The kind of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Alone,
    /// Shared with other readers.
    Read,
    /// Shared with others, up to this number in all.
    Lease(usize),
}

#[derive(Debug)]
struct Holder {
    guest: usize,
    resource: String,
    token: Token,
    share: Share,
    /// The holder has received no news of a loss since the grant, or since the news that the
    /// ownership is certain again.
    trusts: bool,
    /// The time for which it has relied on a lost place, without the time for which its process was
    /// paused.
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
    /// The number of grants.
    pub(crate) grants: u64,
    /// The number of writes that the register has refused.
    pub(crate) refusals: u64,
    /// The number of times a holder has learned that another program wants its place.
    pub(crate) wanted: u64,
}

impl Ledger {
    /// Records that a guest holds the place with this token among the children of `resource`.
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

    /// Records that a holder writes to the register that the lock protects. The register may refuse
    /// the write.
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

    /// Records that a holder begins to release its place, or has learned of its loss.
    pub(crate) fn ends(&mut self, id: u64) {
        self.holders.remove(&id);
    }

    /// Records that the session of a guest is over and its guard does not report that.
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

    /// At most one holder's place exists, or at most the permitted number, and no program relies
    /// for long on a place that is gone.
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

    /// Every guest gets a grant after the last fault.
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
