//! Visits every state that a small ensemble can reach, breadth first, and checks the invariants in
//! each.
//!
//! Servers that differ only in their index are equal: of the states that a permutation of the
//! servers maps onto each other, the search visits one. It remembers a state by 64 bits of a hash.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;

use crate::action::Action;
use crate::invariants::Broken;
use crate::rules::{Majority, Rules};
use crate::state::{Role, State, Term, TermId, Txn};

/// The scope of a search.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Servers, all of them voters. At most 5.
    pub servers: usize,
    /// The last epoch.
    pub epochs: u32,
    /// The maximum number of proposed transactions.
    pub txns: usize,
    /// Whether one server may lose its disk.
    pub disk_loss: bool,
    /// Whether servers also receive messages of leaders that have left meanwhile.
    pub late: bool,
    /// Whether servers deliver committed transactions.
    pub deliveries: bool,
    /// Whether servers also learn from leaders that do not count on them.
    pub observes: bool,
    /// The maximum number of visited states.
    pub states_max: usize,
}

/// The result of a search.
#[derive(Debug)]
pub struct Report {
    /// The number of different visited states.
    pub states: usize,
    /// The number of performed actions.
    pub actions: usize,
    /// The largest number of actions on a shortest way from the first state to another one.
    pub depth: usize,
    /// Whether these are all states of the scope.
    pub is_complete: bool,
    /// The longest history that was committed.
    pub agreed_max: usize,
    /// The shortest way to a state in which an invariant does not hold.
    pub broken: Option<(Broken, Vec<Action>)>,
}

/// All permutations of the first `n` indexes.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    let with_last = |way: &Vec<usize>| {
        let way = way.clone();
        (0..n).map(move |at| {
            let mut longer = way.clone();
            longer.insert(at, n - 1);
            longer
        })
    };
    shorter.iter().flat_map(with_last).collect()
}

/// Forgets leaderships without effect: their leaders left after they had sent only the epoch. Their
/// followers leave them.
fn forget_void(state: &mut State) {
    let State { servers, terms, .. } = state;
    terms.retain(|term| {
        let leads = servers[term.id.leader].role == Role::Leading(term.id);
        let is_void = !leads && term.initial.is_none();
        let followers = servers.iter_mut().filter(|it| it.role == Role::Following(term.id));
        followers.filter(|_| is_void).for_each(|it| it.role = Role::Looking);
        !is_void
    });
}

/// The hash of a state in which server `n` is called `names[n]`.
fn named(state: &State, names: &[usize], hashes: &FixedState) -> u64 {
    let rename = |id: TermId| (id.epoch, names[id.leader]);
    // The parts that concern several servers or leaderships are added up, because their order has
    // no meaning.
    let mut sum = hashes.hash_one(&state.agreed);
    for (n, it) in state.servers.iter().enumerate() {
        let mut hasher = hashes.build_hasher();
        let role = match it.role {
            Role::Looking => (0, (0, 0)),
            Role::Leading(id) => (1, rename(id)),
            Role::Following(id) => (2, rename(id)),
        };
        (names[n], it.accepted, it.current, it.durable, it.delivered, it.empty, it.forgotten, role)
            .hash(&mut hasher);
        it.history.hash(&mut hasher);
        sum = sum.wrapping_add(hasher.finish());
    }
    for term in &state.terms {
        let mut hasher = hashes.build_hasher();
        let flags = (term.initial, term.established, term.committed);
        (0xff_u8, rename(term.id), flags).hash(&mut hasher);
        term.history.hash(&mut hasher);
        let mut inner = hasher.finish();
        for promise in &term.promises {
            inner =
                inner.wrapping_add(hashes.hash_one((0, names[promise.server], promise.summary)));
        }
        for (n, name) in names.iter().enumerate() {
            let said = (term.adopted.contains(n), term.acked[n]);
            inner = inner.wrapping_add(hashes.hash_one((1, name, said)));
        }
        sum = sum.wrapping_add(hashes.hash_one(inner));
    }
    sum
}

/// The epochs that a server may choose: one more than the newest that some quorum with it has
/// accepted.
fn epochs(state: &State, leader: usize) -> Vec<u32> {
    let mut others: Vec<u32> = (0..state.servers.len())
        .filter(|server| *server != leader)
        .map(|server| state.servers[server].accepted)
        .collect();
    others.sort_unstable();
    let needed = state.servers.len() / 2;
    let own = state.servers[leader].accepted;
    let mut epochs: Vec<u32> =
        others[needed - 1..].iter().map(|accepted| own.max(*accepted) + 1).collect();
    epochs.dedup();
    epochs
}

impl Scope {
    /// A scope without lost disks, late messages, deliveries, and learners that no leader counts.
    pub fn new(servers: usize, epochs: u32, txns: usize) -> Self {
        let (disk_loss, late, deliveries, observes) = (false, false, false, false);
        Self {
            servers,
            epochs,
            txns,
            disk_loss,
            late,
            deliveries,
            observes,
            states_max: usize::MAX,
        }
    }

    /// All actions that are possible in a state, and some that are not.
    fn actions(&self, state: &State, into: &mut Vec<Action>) {
        for (server, it) in state.servers.iter().enumerate() {
            into.extend(
                (it.durable..=it.history.len()).rev().map(|len| Action::Restart { server, len }),
            );
            if self.disk_loss && !it.empty && !state.servers.iter().any(|it| it.empty) {
                into.push(Action::DiskLoss { server });
            }
            if it.durable < it.history.len() {
                into.push(Action::Flush { server, len: it.history.len() });
            }
            let (id, leads) = match it.role {
                Role::Looking => {
                    let within = |epoch: &u32| *epoch <= self.epochs;
                    let chosen = epochs(state, server).into_iter().filter(within);
                    let term = |epoch| TermId { epoch, leader: server };
                    into.extend(
                        chosen.map(|epoch| Action::LeaderProcessCEPOCH { term: term(epoch) }),
                    );
                    let leads = |id: TermId| state.servers[id.leader].role == Role::Leading(id);
                    let terms = state.terms.iter().map(|term| term.id);
                    let terms = terms.filter(|id| self.late || leads(*id));
                    for term in terms {
                        into.push(Action::FollowerProcessNEWEPOCH { server, term });
                        if self.observes {
                            into.push(Action::ObserverProcessNEWEPOCH { server, term });
                        }
                    }
                    continue;
                }
                Role::Leading(id) => (id, true),
                Role::Following(id) => (id, false),
            };
            into.push(Action::Timeout { server });
            let Some(term) = state.term(id) else { continue };
            if it.current != id.epoch {
                into.push(Action::FollowerProcessNEWLEADER { server });
            }
            if self.deliveries {
                into.push(Action::FollowerProcessCOMMIT { server, len: it.delivered + 1 });
            }
            if leads {
                self.leads(state, server, term, into);
            } else {
                self.follows(state, server, term, into);
            }
        }
    }

    fn leads(&self, state: &State, leader: usize, term: &Term, into: &mut Vec<Action>) {
        into.push(Action::LeaderProcessACKEPOCH { leader });
        into.push(Action::LeaderProcessACKLD { leader });
        let own = state.servers[leader].history.len();
        into.extend((term.committed + 1..=own).map(|len| Action::LeaderProcessACK { leader, len }));
        let acked = (0..term.acked.len()).filter(|server| term.acked[*server] > term.committed);
        into.extend(acked.map(|server| Action::LeaderSyncFollower { leader, server }));
        let proposed = state.proposed();
        if proposed < self.txns {
            let (epoch, counter) = state.servers[leader].last();
            let counter = if epoch == term.id.epoch { counter + 1 } else { 1 };
            let txn = Txn { epoch: term.id.epoch, counter, value: proposed as u64 };
            into.push(Action::LeaderProcessRequest { leader, txn });
        }
    }

    fn follows(&self, state: &State, server: usize, term: &Term, into: &mut Vec<Action>) {
        let it = &state.servers[server];
        let same = crate::state::common(&it.history, &term.history);
        if same < it.history.len() {
            into.push(Action::FollowerTruncates { server, len: same });
        }
        let least = same.min(term.counts_on(server));
        if least < same {
            into.push(Action::FollowerTruncates { server, len: least });
        }
        let wrong = term.history.get(..it.history.len()) != Some(&it.history);
        let initial = term.initial.unwrap_or(0);
        if wrong || it.history.len() < initial {
            let copies = initial..=term.history.len();
            into.extend(copies.map(|len| Action::FollowerRestores { server, len }));
        }
        into.extend(
            term.history.iter().map(|txn| Action::FollowerProcessPROPOSE { server, txn: *txn }),
        );
        let most = it.history.len();
        for len in [it.durable, most] {
            // The older part is committed when the leader is established.
            if len > term.acked[server].max(initial) {
                into.push(Action::FollowerSendsACK { server, len });
            }
        }
    }

    /// Visits every state.
    pub fn explore(&self, rules: &Rules<Majority>) -> Report {
        let hashes = FixedState::with_seed(7);
        let ways = permutations(self.servers);
        let print = |state: &State| {
            ways.iter().map(|names| named(state, names, &hashes)).min().unwrap_or_default()
        };
        let mut report = Report {
            states: 1,
            actions: 0,
            depth: 0,
            is_complete: true,
            agreed_max: 0,
            broken: None,
        };
        // Indexed by the number of a state: the number of the previous state, and the action
        // between the two.
        let mut from: Vec<(u32, Action)> = Vec::new();
        let mut seen = hashbrown::HashSet::with_hasher(FixedState::with_seed(11));
        let first = State::init(self.servers);
        seen.insert(print(&first));
        let mut queue = VecDeque::from([(first, 0_u32, 0_usize)]);
        let mut actions = Vec::new();
        while let Some((state, number, depth)) = queue.pop_front() {
            report.depth = depth;
            report.agreed_max = report.agreed_max.max(state.agreed.len());
            actions.clear();
            self.actions(&state, &mut actions);
            let mut next = state.clone();
            for action in actions.drain(..) {
                if next.next(action, rules).is_err() {
                    continue;
                }
                report.actions += 1;
                let mut after = std::mem::replace(&mut next, state.clone());
                if !self.late {
                    // No server receives their messages any more.
                    forget_void(&mut after);
                }
                if !seen.insert(print(&after)) {
                    continue;
                }
                report.states += 1;
                from.push((number, action));
                let held = after.follows(&state).and_then(|()| after.check(rules));
                if let Err(broken) = held {
                    let mut way = Vec::new();
                    let mut at = from.len();
                    while at > 0 {
                        let (before, action) = from[at - 1];
                        way.push(action);
                        at = before as usize;
                    }
                    way.reverse();
                    report.broken = Some((broken, way));
                    report.is_complete = false;
                    return report;
                }
                if report.states >= self.states_max {
                    report.is_complete = false;
                    return report;
                }
                queue.push_back((after, from.len() as u32, depth + 1));
            }
        }
        report
    }
}
