//! The properties that must hold in every state. The ids are those of
//! `docs/protocol/properties.md`.

use crate::rules::{Quorums, Rules};
use crate::state::{Role, State, Txn, common};

/// An invariant that does not hold: its name in ZooKeeper's specifications where it has one, and
/// its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub name: &'static str,
    /// Its id.
    pub id: &'static str,
}

const fn broken(name: &'static str, id: &'static str) -> Broken {
    Broken { name, id }
}

/// Whether one history is a prefix of the other.
fn comparable(one: &[Txn], other: &[Txn]) -> bool {
    common(one, other) == one.len().min(other.len())
}

/// An epoch has one leader beyond discovery.
fn leadership(state: &State) -> bool {
    let begun = |at: usize| state.terms[at].initial.is_some();
    (0..state.terms.len()).filter(|at| begun(*at)).all(|at| {
        let same = |other: &usize| state.terms[*other].id.epoch == state.terms[at].id.epoch;
        !(0..at).filter(|other| begun(*other)).any(|other| same(&other))
    })
}

/// A server has accepted its current epoch, and the epoch of every transaction in its log.
fn epochs_in_order(state: &State) -> bool {
    let holds = |it: &crate::state::Server| it.accepted >= it.current.max(it.last().0);
    state.servers.iter().all(holds)
}

/// Zxids increase, within an epoch without a gap.
fn is_log(history: &[Txn]) -> bool {
    history.windows(2).all(|pair| {
        let [before, after] = pair else { return true };
        before.epoch < after.epoch && after.counter > 0
            || before.epoch == after.epoch && before.counter + 1 == after.counter
    })
}

/// Every transaction of a committed history was proposed: it is in the history of the leader of its
/// epoch.
fn integrity(state: &State) -> bool {
    let proposed = |txn: &Txn| {
        let mut terms = state.terms.iter().filter(|term| term.id.epoch == txn.epoch);
        terms.any(|term| term.history[term.initial.unwrap_or(0)..].contains(txn))
    };
    state.agreed.iter().all(proposed)
}

/// A transaction is delivered after everything that its leader has proposed before.
fn local_primary_order(state: &State) -> bool {
    let holds = |delivered: &[Txn]| {
        state.terms.iter().filter(|term| term.initial.is_some()).all(|term| {
            let own = &term.history[term.initial.unwrap_or(0)..];
            let ours = delivered.iter().filter(|txn| own.contains(txn));
            ours.zip(own).all(|(delivered, proposed)| delivered == proposed)
        })
    };
    state.servers.iter().all(|it| holds(it.has_delivered()))
}

/// An established leader has every committed transaction of earlier epochs.
fn primary_integrity(state: &State) -> bool {
    state.terms.iter().filter(|term| term.established).all(|term| {
        let earlier = state.agreed.partition_point(|txn| txn.epoch < term.id.epoch);
        common(&state.agreed[..earlier], &term.history) == earlier
    })
}

/// Committed transactions are on the disks of a quorum, except for lost disks.
fn never_lost<Q: Quorums>(state: &State, rules: &Rules<Q>) -> bool {
    let has = |server: &usize| {
        let it = &state.servers[*server];
        it.empty || common(&it.history[..it.durable], &state.agreed) == state.agreed.len()
    };
    let having = (0..state.servers.len()).filter(has).collect();
    state.agreed.is_empty() || rules.quorums.is_quorum(&state.agreed, 0, having)
}

/// A server that has adopted its leader's history has no other history.
fn followers_agree(state: &State) -> bool {
    state.servers.iter().enumerate().all(|(server, it)| match it.role {
        Role::Following(id) | Role::Leading(id) => state.term(id).is_some_and(|term| {
            let same = || common(&it.history, &term.history) == it.history.len();
            !term.adopted.contains(server) || same()
        }),
        Role::Looking => true,
    })
}

impl State {
    /// The first invariant that does not hold.
    ///
    /// # Errors
    /// That invariant.
    pub fn check<Q: Quorums>(&self, rules: &Rules<Q>) -> Result<(), Broken> {
        let delivered = || self.servers.iter().map(|it| it.has_delivered());
        let committed = || self.terms.iter().map(|term| term.has_committed());
        let all: [(bool, Broken); 11] = [
            (leadership(self), broken("Leadership", "S-3, P-1")),
            (epochs_in_order(self), broken("EpochsInOrder", "S-1")),
            (self.servers.iter().all(|it| is_log(&it.history)), broken("LogOrder", "S-4, P-7")),
            (
                committed().all(|it| comparable(it, &self.agreed)),
                broken("CommittedHistoryGrows", "P-9"),
            ),
            (
                delivered().all(|it| common(it, &self.agreed) == it.len()),
                broken("PrefixConsistency, Agreement, TotalOrder", "P-2, P-4, P-5, S-7"),
            ),
            (integrity(self), broken("Integrity", "P-3")),
            (local_primary_order(self), broken("LocalPrimaryOrder", "P-6")),
            (is_log(&self.agreed), broken("GlobalPrimaryOrder", "P-7")),
            (primary_integrity(self), broken("PrimaryIntegrity", "P-8, P-10")),
            (never_lost(self, rules), broken("CommittedIsDurable", "S-8, P-11")),
            (followers_agree(self), broken("FollowersAgree", "P-12")),
        ];
        match all.into_iter().find(|(holds, _)| !holds) {
            Some((_, broken)) => Err(broken),
            None => Ok(()),
        }
    }

    /// Whether this state may follow the other one: epochs only grow while no disk is lost (S-2).
    pub fn follows(&self, before: &Self) -> Result<(), Broken> {
        let pairs = self.servers.iter().zip(&before.servers);
        let grows = |(after, before): (&crate::state::Server, &crate::state::Server)| {
            after.empty && after.accepted == 0
                || after.accepted >= before.accepted && after.current >= before.current
        };
        if !pairs.into_iter().all(grows) {
            return Err(broken("EpochsGrow", "S-2"));
        }
        if common(&before.agreed, &self.agreed) < before.agreed.len() {
            return Err(broken("CommittedHistoryGrows", "P-9"));
        }
        Ok(())
    }
}
