//! One long log: a start that replays many transactions behind the newest snapshot.

use anyhow::ensure;
use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::clock::Clock;
use crate::compare::{Bout, progress};
use crate::load::{Each, OPENING_MAX, SESSION_TIMEOUT, expect_errors, pass};
use crate::process::Process;
use crate::suite::{ROOT, STEP_LIMIT, client, megabytes, seconds, snapshots};
use crate::swarm::Swarm;
use crate::tally::Kind;
use crate::wire::{self, Template, op};

/// Sessions that write.
const CONNECTIONS: usize = 4;
/// Writes in flight for each session. All sessions together reach the original's global limit.
const DEPTH: u32 = 250;
/// No server takes a snapshot of its own with this setting.
const NO_SNAPSHOT: &str = "snapCount=2000000000";
/// The same for the other limit of the original, in KiB; 0 and less: no limit.
const NO_SIZE_LIMIT: &str = "snapSizeLimitInKb=-1";

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let count = bout.args.transactions;
    let lines = [NO_SNAPSHOT, NO_SIZE_LIMIT].map(str::to_owned);
    let (running, empty_start) = bout.start_with("/", &lines)?;
    sheet.put("time, s", "start without transactions", Better::Lower, empty_start.as_secs_f64());
    client(&running)?.ensure(ROOT)?;

    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?;
    swarm.open(&[running.address], CONNECTIONS, OPENING_MAX, SESSION_TIMEOUT, STEP_LIMIT)?;
    let data = wire::value(bout.args.size);
    let template = Template::new(op::SET_DATA, ROOT, |to, path| wire::set_body(to, path, &data));
    let began = clock.now();
    let tally = pass(&mut swarm, clock, &mut Each::new(template, Kind::Write, count), DEPTH)?;
    let took = seconds(clock.now() - began);
    expect_errors("write the transactions", &tally, &[])?;
    ensure!(tally.total().completed == count as u64, "not all transactions were written");
    // The last transaction, which the start must show.
    let last = format!("{ROOT}/last");
    client(&running)?.ensure(&last)?;
    swarm.close(STEP_LIMIT)?;
    progress(&format!("  {count} transactions in {} s", number(took)));
    sheet.put("requests/s", "set, one znode", Better::Higher, count as f64 / took);
    let snapshots = snapshots::count(&running.data)?;
    ensure!(snapshots <= 1, "{snapshots} snapshots were taken, so the start would replay less");
    running.stop()?;

    let (running, took) = bout.start_with(&last, &lines)?;
    let beyond = took.saturating_sub(empty_start).as_secs_f64();
    progress(&format!("  start with {count} transactions: {} s", number(took.as_secs_f64())));
    sheet.put("time, s", "start with all transactions", Better::Lower, took.as_secs_f64());
    sheet.put("us per transaction", "replayed", Better::Lower, beyond * 1e6 / count as f64);
    let peak = running.process().and_then(Process::rss_peak).map(megabytes);
    sheet.put("memory, MB", "peak of a start with a long log", Better::Lower, peak);
    running.stop()?;
    Ok(())
}
