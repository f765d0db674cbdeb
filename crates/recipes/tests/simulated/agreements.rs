//! Two-phase commit: all participants learn the same decision. The decision is to commit only if
//! all have agreed. In the end, every participant learns a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_client::{Acls, Client};
use zebu_recipes::{Agreement, Decision, Proposal};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};

pub(crate) const GUESTS: usize = 4;

/// The known facts about a round.
#[derive(Debug, Default)]
struct Round {
    /// The participants that have begun to agree, and those that have begun to disagree.
    yes: BTreeSet<usize>,
    no: BTreeSet<usize>,
    decided: BTreeMap<usize, Decision>,
}

#[derive(Default)]
struct Book {
    rounds: BTreeMap<u64, Round>,
    /// The round of each guest, also after its process was killed.
    at: BTreeMap<usize, u64>,
    last: BTreeMap<usize, Duration>,
    calm: Duration,
    commits: u64,
    aborts: u64,
}

#[derive(Default)]
pub(crate) struct Agreements(Mutex<Book>);

impl Agreements {
    /// Takes part in a round. Returns whether the round is over for this guest.
    async fn take_part(
        &self,
        guest: &mut Guest,
        client: &Client,
        round: u64,
    ) -> zebu_recipes::Result<bool> {
        let acl = Acls::open_to_all();
        let agreement = Agreement::new(client, &format!("/round-{round}"), &acl);
        if round % GUESTS as u64 == guest.number as u64 {
            let participants = (0..GUESTS).map(|guest| guest.to_string()).collect();
            // A proposal of an earlier attempt or an earlier life stays.
            let proposed =
                agreement.propose(&Proposal { participants, text: "do it".into() }).await;
            guest.tells(|| format!("proposes {round}: {proposed:?}"));
        }
        if agreement.proposal().await?.is_none() {
            guest.pauses(50, 500).await;
            return Ok(false);
        }
        if !guest.random.one_in(5) {
            // A participant that votes again does not change its vote.
            let yes = !(round * 31 + guest.number as u64).is_multiple_of(5);
            {
                let mut book = self.0.lock();
                let known = book.rounds.entry(round).or_default();
                let side = if yes { &mut known.yes } else { &mut known.no };
                side.insert(guest.number);
            }
            guest.pauses(0, 600).await;
            agreement.vote(&guest.number.to_string(), yes).await?;
        }
        let patience = guest.random.ms(500, 5_000);
        let decision = match tokio::time::timeout(patience, agreement.decision()).await {
            Ok(decision) => decision?,
            Err(_) => agreement.abort().await?,
        };
        guest.tells(|| format!("learns of {round}: {decision:?}"));
        let now = guest.clock().now();
        let mut book = self.0.lock();
        match decision {
            Decision::Commit => book.commits += 1,
            Decision::Abort => book.aborts += 1,
        }
        book.rounds.entry(round).or_default().decided.insert(guest.number, decision);
        book.last.insert(guest.number, now);
        Ok(true)
    }
}

impl Family for Agreements {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                while !client.state().is_over() {
                    guest.pauses(0, 200).await;
                    let round = *self.0.lock().at.entry(guest.number).or_default();
                    match self.take_part(&mut guest, &client, round).await {
                        Ok(true) => *self.0.lock().at.entry(guest.number).or_default() += 1,
                        Ok(false) => {}
                        Err(error) => guest.tells(|| format!("fails in {round}: {error}")),
                    }
                }
            }
        })
    }

    fn check(&self, _: &World, _: Duration) -> Result<(), String> {
        for (number, round) in &self.0.lock().rounds {
            let decisions: BTreeSet<_> = round.decided.values().map(|it| *it as u8).collect();
            if decisions.len() > 1 {
                return Err(format!("not all learn the same of round {number}: {round:?}"));
            }
            let is_commit = round.decided.values().any(|it| *it == Decision::Commit);
            if is_commit && round.yes.len() < GUESTS {
                return Err(format!("round {number} is committed without all: {round:?}"));
            }
        }
        Ok(())
    }

    fn calms(&self, now: Duration) {
        self.0.lock().calm = now;
    }

    fn settled(&self, _: &World) -> Result<(), String> {
        let book = self.0.lock();
        let is_late = |guest: &usize| book.last.get(guest).is_none_or(|at| *at < book.calm);
        match (0..GUESTS).find(is_late) {
            Some(guest) => Err(format!("guest {guest} learns of no decision; {:?}", book.at)),
            None => Ok(()),
        }
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let book = self.0.lock();
        vec![("commits", book.commits), ("aborts", book.aborts)]
    }
}
