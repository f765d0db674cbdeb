//! Many sessions whose leader is killed: the time until each session gets an answer again.

use std::time::Duration;

use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::clock::Clock;
use crate::compare::{Bout, progress};
use crate::ensemble::Ensemble;
use crate::load::OPENING_MAX;
use crate::suite::{STEP_LIMIT, seconds};
use crate::swarm::Swarm;

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mut ensemble = Ensemble::start(bout)?;
    let leader = ensemble.leader()?;
    let count = bout.affordable(bout.args.sessions, 1, sheet);
    let timeout = Duration::from_secs(bout.args.session_timeout);
    let mut swarm = Swarm::new(Clock::start())?;
    swarm.open(ensemble.addresses(), count, OPENING_MAX, timeout, STEP_LIMIT)?;
    progress(&format!("  {count} sessions open"));
    ensemble.kill(leader);
    let others = ensemble.others(leader);
    let moved = swarm.move_on(&others, OPENING_MAX, timeout, STEP_LIMIT)?;
    let at = |part: usize| moved.answered.get(part).map(|ns| seconds(*ns));
    let (first, median) = (at(0), at(moved.answered.len() / 2));
    let last = moved.answered.last().map(|ns| seconds(*ns));
    progress(&format!(
        "  {} sessions answered after {} s, {} lost, {} connections broken",
        moved.answered.len(),
        number(last.unwrap_or_default()),
        moved.lost,
        moved.broken
    ));
    let group = "s until sessions are answered";
    sheet.put(group, "the first", Better::Lower, first);
    sheet.put(group, "half of them", Better::Lower, median);
    sheet.put(group, "the last", Better::Lower, last);
    sheet.put("sessions", "kept when the leader dies", Better::Higher, moved.answered.len() as f64);
    if moved.lost > 0 {
        sheet.note(&format!("{} of {count} sessions lost when the leader died", moved.lost));
    }
    swarm.close(STEP_LIMIT)?;
    ensemble.launch(leader)?;
    ensemble.wait_for(leader)?;
    ensemble.stop()
}
