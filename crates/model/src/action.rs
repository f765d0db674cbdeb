//! The actions: each has a guard, which refuses it, and an effect.
//!
//! The names are those of ZooKeeper's TLA+ specifications where an action means the same.

use std::fmt;

use crate::rules::{Fault, Quorums, Rules};
use crate::state::{Promise, Role, Server, Servers, State, Term, TermId, Txn, common};

/// An action of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An elected server chooses an epoch, and accepts it itself. The model does not say which
    /// server is elected.
    LeaderProcessCEPOCH {
        /// The epoch, and the server.
        term: TermId,
    },
    /// A server learns a leader's epoch, and accepts it. It promises the epoch if it has not
    /// accepted it before.
    FollowerProcessNEWEPOCH {
        /// The server.
        server: usize,
        /// The leadership with this epoch.
        term: TermId,
    },
    /// A server on which no leader counts learns from a leader of an older epoch than the server
    /// has accepted.
    ObserverProcessNEWEPOCH {
        /// The server.
        server: usize,
        /// The leadership with this epoch.
        term: TermId,
    },
    /// A leader has the promises of a quorum without a better history, and begins to synchronize.
    LeaderProcessACKEPOCH {
        /// The leader.
        leader: usize,
    },
    /// A leader begins a new synchronization of a follower, and no longer counts the follower's
    /// earlier acknowledgements.
    LeaderSyncFollower {
        /// The leader.
        leader: usize,
        /// The follower.
        server: usize,
    },
    /// A follower removes transactions that its leader does not have, or does not count on (TRUNC).
    FollowerTruncates {
        /// The follower.
        server: usize,
        /// The length of the remaining history.
        len: usize,
    },
    /// A follower replaces its history by its leader's (SNAP).
    FollowerRestores {
        /// The follower.
        server: usize,
        /// The length of the part of the leader's history that it has then.
        len: usize,
    },
    /// A follower logs the next transaction of its leader's history (DIFF, PROPOSAL).
    FollowerProcessPROPOSE {
        /// The follower.
        server: usize,
        /// The transaction.
        txn: Txn,
    },
    /// A server, leader or follower, has the leader's initial history on its disk, and makes the
    /// epoch its current one.
    FollowerProcessNEWLEADER {
        /// The server.
        server: usize,
    },
    /// A quorum has acknowledged NEWLEADER to a leader, which commits its initial history.
    LeaderProcessACKLD {
        /// The leader.
        leader: usize,
    },
    /// A leader proposes a transaction, and logs it.
    LeaderProcessRequest {
        /// The leader.
        leader: usize,
        /// The transaction.
        txn: Txn,
    },
    /// A part of a server's history becomes durable.
    Flush {
        /// The server.
        server: usize,
        /// The length of the durable part.
        len: usize,
    },
    /// A follower acknowledges a part of its history to its leader.
    FollowerSendsACK {
        /// The follower.
        server: usize,
        /// The length of the acknowledged part.
        len: usize,
    },
    /// A quorum has acknowledged a part of the history, and the leader commits it.
    LeaderProcessACK {
        /// The leader.
        leader: usize,
        /// The length of the committed part.
        len: usize,
    },
    /// A server, leader or follower, delivers a part of the history that its leader has committed.
    FollowerProcessCOMMIT {
        /// The server.
        server: usize,
        /// The length of the part that it has delivered then.
        len: usize,
    },
    /// A server leaves its leader, or stops leading (`FollowerTimeout`, `LeaderTimeout`).
    Timeout {
        /// The server.
        server: usize,
    },
    /// A server crashes, perhaps loses the end of its history that is not on its disk, and starts
    /// again.
    Restart {
        /// The server.
        server: usize,
        /// The length of the remaining history.
        len: usize,
    },
    /// A server starts again with a later promise than it has given. No leader counts on it.
    Promise {
        /// The server.
        server: usize,
        /// The epoch that it has accepted now.
        epoch: u32,
    },
    /// A server loses its disk, and starts again.
    DiskLoss {
        /// The server.
        server: usize,
    },
}

/// An action that the model refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The action.
    pub action: Action,
    /// The part of its guard that does not hold.
    pub why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.action, self.why)
    }
}

type Guard = Result<(), &'static str>;

fn ensure(holds: bool, why: &'static str) -> Guard {
    if holds { Ok(()) } else { Err(why) }
}

/// Makes sure that a server's history is a prefix of its leader's messages.
fn agree(server: &mut Server, term: &Term) -> Guard {
    if !server.agrees {
        let is_prefix = common(&server.history, &term.history) == server.history.len();
        ensure(is_prefix, "its history is not a prefix of its leader's")?;
        server.agrees = true;
    }
    Ok(())
}

/// The rank that decides which of two servers has the better history. A transaction of an epoch
/// comes with the whole history of that leader, so the epoch of the last transaction counts like
/// the current epoch (B-14).
fn summary<Q>(server: &Server, rules: &Rules<Q>) -> (u32, (u32, u32)) {
    let last = server.last();
    match rules.has(Fault::CountsUnproven) {
        true => (server.current, last),
        false => (server.current.max(last.0), last),
    }
}

/// Whether a leader may count on a server to keep the history that it adopts and acknowledges.
fn counts<Q>(server: &Server, id: TermId, rules: &Rules<Q>) -> bool {
    id.epoch >= server.accepted || rules.has(Fault::OldEpochAccepted)
}

impl State {
    /// `Next`: performs an action.
    ///
    /// # Errors
    /// The guard of the action does not hold. The state is unchanged.
    pub fn next<Q: Quorums>(&mut self, action: Action, rules: &Rules<Q>) -> Result<(), Refused> {
        let done = match action {
            Action::LeaderProcessCEPOCH { term } => self.choose_epoch(term, rules),
            Action::FollowerProcessNEWEPOCH { server, term } => {
                self.accept_epoch(server, term, rules)
            }
            Action::ObserverProcessNEWEPOCH { server, term } => self.observe(server, term),
            Action::LeaderProcessACKEPOCH { leader } => self.begin(leader, rules),
            Action::LeaderSyncFollower { leader, server } => self.sync(leader, server),
            Action::FollowerTruncates { server, len } => self.truncate(server, len),
            Action::FollowerRestores { server, len } => self.restore(server, len),
            Action::FollowerProcessPROPOSE { server, txn } => self.log(server, txn, rules),
            Action::FollowerProcessNEWLEADER { server } => self.adopt(server, rules),
            Action::LeaderProcessACKLD { leader } => self.establish(leader, rules),
            Action::LeaderProcessRequest { leader, txn } => self.propose(leader, txn),
            Action::Flush { server, len } => self.flush(server, len),
            Action::FollowerSendsACK { server, len } => self.acknowledge(server, len, rules),
            Action::LeaderProcessACK { leader, len } => self.commit(leader, len, rules),
            Action::FollowerProcessCOMMIT { server, len } => self.deliver(server, len, rules),
            Action::Timeout { server } => self.leave(server),
            Action::Restart { server, len } => self.restart(server, len, rules),
            Action::Promise { server, epoch } => {
                let it = &mut self.servers[server];
                it.accepted = it.accepted.max(epoch);
                Ok(())
            }
            Action::DiskLoss { server } => {
                self.looks(server);
                let it = &mut self.servers[server];
                let forgotten = it.accepted.max(it.forgotten);
                *it = Server { empty: true, forgotten, ..Server::new() };
                Ok(())
            }
        };
        done.map_err(|why| Refused { action, why })
    }

    /// The leadership of a server.
    fn led(&self, leader: usize) -> Result<TermId, &'static str> {
        match self.servers[leader].role {
            Role::Leading(term) => Ok(term),
            _ => Err("it leads nobody"),
        }
    }

    /// The leadership from which a server learns.
    fn followed(&self, server: usize) -> Result<TermId, &'static str> {
        match self.servers[server].role {
            Role::Following(term) => Ok(term),
            _ => Err("it follows nobody"),
        }
    }

    /// A server, and the leadership that it takes part in.
    fn pair(&mut self, server: usize, id: TermId) -> (&mut Server, &mut Term) {
        let Self { servers, terms, .. } = self;
        let term = terms.iter_mut().rev().find(|term| term.id == id);
        (&mut servers[server], term.expect("a role names a leadership that has begun"))
    }

    // ---- discovery

    fn choose_epoch<Q: Quorums>(&mut self, id: TermId, rules: &Rules<Q>) -> Guard {
        let it = &mut self.servers[id.leader];
        ensure(it.role == Role::Looking, "it is not looking for a leader")?;
        ensure(!it.empty, "it has lost its disk")?;
        ensure(id.epoch > it.accepted, "it has accepted this epoch, or a later one")?;
        it.accepted = id.epoch;
        it.role = Role::Leading(id);
        let promises = vec![Promise { server: id.leader, summary: summary(it, rules) }];
        self.terms.push(Term {
            id,
            promises,
            initial: None,
            history: Vec::new(),
            adopted: Servers::default(),
            established: false,
            acked: vec![0; self.servers.len()],
            committed: 0,
        });
        Ok(())
    }

    fn accept_epoch<Q: Quorums>(&mut self, server: usize, id: TermId, rules: &Rules<Q>) -> Guard {
        ensure(self.term(id).is_some(), "no such leader has chosen this epoch")?;
        ensure(server != id.leader, "it is the leader")?;
        let (it, term) = self.pair(server, id);
        ensure(it.role == Role::Looking, "it is not looking for a leader")?;
        ensure(id.epoch >= it.forgotten, "it had accepted a later epoch before it lost its disk")?;
        let is_old = id.epoch < it.accepted;
        ensure(!is_old || rules.has(Fault::OldEpochAccepted), "it has accepted a later epoch")?;
        let is_first = id.epoch > it.accepted || is_old || rules.has(Fault::PromisesTwice);
        it.accepted = it.accepted.max(id.epoch);
        it.role = Role::Following(id);
        it.agrees = false;
        let counts = is_first && (!it.empty || rules.has(Fault::EmptyPromises));
        if counts && term.initial.is_none() {
            let promise = Promise { server, summary: summary(it, rules) };
            match term.promises.binary_search_by_key(&server, |promise| promise.server) {
                Ok(at) => term.promises[at] = promise,
                Err(at) => term.promises.insert(at, promise),
            }
        }
        Ok(())
    }

    /// Its promise of a later epoch keeps it out of the quorums of this leadership.
    fn observe(&mut self, server: usize, id: TermId) -> Guard {
        ensure(self.term(id).is_some(), "no such leader has chosen this epoch")?;
        ensure(server != id.leader, "it is the leader")?;
        let it = &mut self.servers[server];
        ensure(it.role == Role::Looking, "it is not looking for a leader")?;
        ensure(id.epoch < it.accepted, "it has accepted no later epoch")?;
        ensure(id.epoch >= it.current.max(it.last().0), "its history is of a later epoch")?;
        it.role = Role::Following(id);
        it.agrees = false;
        Ok(())
    }

    fn begin<Q: Quorums>(&mut self, leader: usize, rules: &Rules<Q>) -> Guard {
        let id = self.led(leader)?;
        let certain = common(&self.servers[leader].history, &self.agreed);
        let (it, term) = self.pair(leader, id);
        ensure(term.initial.is_none(), "it has begun to synchronize")?;
        let not_better = term.promises.iter().filter(|promise| {
            promise.summary <= summary(it, rules) || rules.has(Fault::OlderHistory)
        });
        let promised = not_better.map(|promise| promise.server).collect();
        let is_quorum = rules.quorums.is_quorum(&it.history, certain, promised);
        ensure(
            is_quorum || rules.has(Fault::NoQuorumOfPromises),
            "no quorum without a better history has promised the epoch",
        )?;
        term.initial = Some(it.history.len());
        term.history = it.history.clone();
        // No server needs them any more.
        term.promises.clear();
        it.agrees = true;
        Ok(())
    }

    // ---- synchronization

    fn sync(&mut self, leader: usize, server: usize) -> Guard {
        let id = self.led(leader)?;
        let (_, term) = self.pair(leader, id);
        // A leader does not truncate a history that it has called committed.
        term.acked[server] = term.acked[server].min(term.committed);
        Ok(())
    }

    fn truncate(&mut self, server: usize, len: usize) -> Guard {
        let id = self.followed(server)?;
        let (it, term) = self.pair(server, id);
        ensure(term.initial.is_some(), "its leader does not synchronize yet")?;
        let same = common(&it.history, &term.history);
        ensure(
            len >= same.min(term.counts_on(server)),
            "its leader counts on more of its history",
        )?;
        ensure(len <= same, "its leader does not have all of that")?;
        it.history.truncate(len);
        it.durable = it.durable.min(len);
        it.delivered = it.delivered.min(len);
        it.agrees = true;
        Ok(())
    }

    fn restore(&mut self, server: usize, len: usize) -> Guard {
        let id = self.followed(server)?;
        let (it, term) = self.pair(server, id);
        ensure(term.initial.is_some(), "its leader does not synchronize yet")?;
        ensure(len <= term.history.len(), "its leader does not have as much")?;
        let same = common(&it.history, &term.history);
        ensure(
            len >= same.min(term.counts_on(server)),
            "its leader counts on more of its history",
        )?;
        it.history.clear();
        it.history.extend_from_slice(&term.history[..len]);
        (it.durable, it.delivered, it.agrees) = (len, it.delivered.min(len), true);
        it.empty &= len < term.counts_on(server);
        Ok(())
    }

    fn log<Q: Quorums>(&mut self, server: usize, txn: Txn, rules: &Rules<Q>) -> Guard {
        let id = self.followed(server)?;
        let (it, term) = self.pair(server, id);
        ensure(term.initial.is_some(), "its leader does not synchronize yet")?;
        if rules.has(Fault::NotTruncated) || rules.has(Fault::SkipsProposal) {
            let is_there = term.history.contains(&txn) && it.last() < txn.zxid();
            ensure(is_there, "its leader has said nothing like it")?;
            it.agrees = true;
        } else {
            agree(it, term)?;
            let next = term.history.get(it.history.len());
            ensure(next == Some(&txn), "its leader has not said so")?;
        }
        it.history.push(txn);
        Ok(())
    }

    fn adopt<Q: Quorums>(&mut self, server: usize, rules: &Rules<Q>) -> Guard {
        let id = match self.servers[server].role {
            Role::Looking => return Err("it takes part in no leadership"),
            Role::Leading(id) | Role::Following(id) => id,
        };
        let (it, term) = self.pair(server, id);
        let initial = term.initial.ok_or("its leader does not synchronize yet")?;
        if !rules.has(Fault::NotTruncated) {
            agree(it, term)?;
        }
        ensure(it.history.len() >= initial, "it does not have all that its leader had")?;
        ensure(
            it.durable >= initial || rules.has(Fault::AdoptsBeforeFlush),
            "its disk does not have all that its leader had",
        )?;
        let owed = if it.empty { term.counts_on(server) } else { 0 };
        ensure(it.durable >= owed, "it has lost what its leader counts on")?;
        it.current = id.epoch;
        it.empty = false;
        if counts(it, id, rules) {
            term.adopted.insert(server);
        }
        Ok(())
    }

    fn establish<Q: Quorums>(&mut self, leader: usize, rules: &Rules<Q>) -> Guard {
        let id = self.led(leader)?;
        let certain = common(&self.servers[leader].history, &self.agreed);
        let (it, term) = self.pair(leader, id);
        ensure(!term.established, "it is established")?;
        let initial = term.initial.ok_or("it does not synchronize yet")?;
        ensure(it.current == id.epoch, "its own current epoch is an earlier one")?;
        ensure(
            rules.quorums.is_quorum(&term.history[..initial], certain.min(initial), term.adopted)
                || rules.has(Fault::NoQuorumOfHistories),
            "no quorum has adopted its history",
        )?;
        term.established = true;
        self.agree_on(id, initial);
        Ok(())
    }

    // ---- broadcast

    fn propose(&mut self, leader: usize, txn: Txn) -> Guard {
        let id = self.led(leader)?;
        let (it, term) = self.pair(leader, id);
        ensure(term.established, "it is not established")?;
        ensure(txn.epoch == id.epoch, "the zxid is not of its epoch")?;
        let (epoch, counter) = it.last();
        let follows = epoch < txn.epoch && txn.counter > 0 || counter + 1 == txn.counter;
        ensure(follows, "the zxid does not follow its last one")?;
        it.history.push(txn);
        term.history.push(txn);
        Ok(())
    }

    fn flush(&mut self, server: usize, len: usize) -> Guard {
        let it = &mut self.servers[server];
        ensure(len <= it.history.len(), "it has not logged as much")?;
        ensure(len >= it.durable, "its disk has more")?;
        it.durable = len;
        Ok(())
    }

    fn acknowledge<Q: Quorums>(&mut self, server: usize, len: usize, rules: &Rules<Q>) -> Guard {
        let id = self.followed(server)?;
        let (it, term) = self.pair(server, id);
        ensure(counts(it, id, rules), "it has accepted a later epoch")?;
        if !rules.has(Fault::NotTruncated) {
            agree(it, term)?;
        }
        ensure(len <= it.history.len(), "it has not logged as much")?;
        ensure(
            len <= it.durable || rules.has(Fault::AcksBeforeFlush),
            "its disk does not have as much",
        )?;
        term.acked[server] = term.acked[server].max(len);
        Ok(())
    }

    fn commit<Q: Quorums>(&mut self, leader: usize, len: usize, rules: &Rules<Q>) -> Guard {
        let id = self.led(leader)?;
        let (it, term) = self.pair(leader, id);
        ensure(term.established, "it is not established")?;
        ensure(len <= term.history.len(), "it has not proposed as much")?;
        let counts =
            |server: &usize| term.adopted.contains(*server) || rules.has(Fault::CountsUnproven);
        let acked = (0..term.acked.len()).filter(|server| *server != leader);
        let acked = acked.filter(|server| term.acked[*server] >= len).filter(counts);
        let own = (it.durable >= len).then_some(leader);
        let is_quorum = rules.quorums.is_quorum(
            &term.history[..len],
            term.committed,
            acked.chain(own).collect(),
        );
        ensure(is_quorum || rules.has(Fault::CommitsAlone), "no quorum has acknowledged it")?;
        self.agree_on(id, len);
        Ok(())
    }

    /// A leader calls a part of its history committed.
    fn agree_on(&mut self, id: TermId, len: usize) {
        let Self { terms, agreed, .. } = self;
        let term = terms.iter_mut().rev().find(|term| term.id == id);
        let term = term.expect("it is led");
        term.committed = term.committed.max(len);
        // An invariant ensures that the shorter history is a prefix of the longer one.
        if len > agreed.len() {
            let from = if agreed.last() == agreed.len().checked_sub(1).map(|at| &term.history[at]) {
                agreed.len()
            } else {
                0
            };
            agreed.truncate(from);
            agreed.extend_from_slice(&term.history[from..len]);
        }
    }

    fn deliver<Q: Quorums>(&mut self, server: usize, len: usize, rules: &Rules<Q>) -> Guard {
        let id = match self.servers[server].role {
            Role::Looking => return Err("it takes part in no leadership"),
            Role::Leading(id) | Role::Following(id) => id,
        };
        let (it, term) = self.pair(server, id);
        ensure(it.durable >= len, "its disk does not have it")?;
        ensure(
            len <= term.committed || rules.has(Fault::DeliversEarly),
            "its leader has not committed it",
        )?;
        if !rules.has(Fault::NotTruncated) {
            agree(it, term)?;
        }
        it.delivered = it.delivered.max(len);
        Ok(())
    }

    // ---- faults

    fn leave(&mut self, server: usize) -> Guard {
        ensure(self.servers[server].role != Role::Looking, "it looks for a leader already")?;
        self.looks(server);
        Ok(())
    }

    /// A server takes part in no leadership any more. A leader that has left ignores later
    /// messages.
    fn looks(&mut self, server: usize) {
        if let Role::Leading(id) = self.servers[server].role {
            let (_, term) = self.pair(server, id);
            term.promises.clear();
            term.adopted = Servers::default();
        }
        self.servers[server].role = Role::Looking;
        self.servers[server].agrees = false;
    }

    /// A server has another disk than before: an older one, or one with fewer transactions. This is
    /// no action: other checks decide whether the ensemble survives it.
    pub fn replace_disk(
        &mut self,
        server: usize,
        epochs: (u32, u32),
        history: Vec<Txn>,
        empty: bool,
    ) {
        self.looks(server);
        let (accepted, current) = epochs;
        let durable = history.len();
        self.servers[server] =
            Server { accepted, current, history, durable, empty, ..Server::new() };
    }

    fn restart<Q: Quorums>(&mut self, server: usize, len: usize, rules: &Rules<Q>) -> Guard {
        let it = &mut self.servers[server];
        ensure(len >= it.durable, "its disk has more")?;
        ensure(len <= it.history.len(), "it has not logged as much")?;
        it.history.truncate(len);
        (it.durable, it.delivered) = (len, 0);
        if rules.has(Fault::AcceptedNotDurable) {
            it.accepted = it.current;
        }
        self.looks(server);
        Ok(())
    }
}
