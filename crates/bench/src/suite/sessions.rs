//! Many idle sessions: the time to open them, their cost, and whether pings keep all of them alive.

use std::time::Duration;

use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::clock::Clock;
use crate::compare::{Bout, progress};
use crate::process::Process;
use crate::suite::{Memory, STEP_LIMIT, each, seconds};
use crate::swarm::{Idle, Once, Plan, Swarm};
use crate::tally::Tally;
use crate::wire::{self, op};

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (running, _) = bout.start("/")?;
    let count = bout.affordable(bout.args.sessions, running.ends(), sheet);
    let timeout = Duration::from_secs(bout.args.session_timeout);
    let cpu = || running.process().and_then(Process::cpu);
    let before = Memory::of(&running);

    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?;
    let (start, cpu_start) = (clock.now(), cpu());
    swarm.open(&[running.address], count, bout.args.opening, timeout, STEP_LIMIT)?;
    let opening = seconds(clock.now() - start);
    let cpu_open = cpu();
    progress(&format!("  {count} sessions open in {} s", number(opening)));
    let after = Memory::of(&running);

    // By default, the sessions are idle except for pings, for longer than their timeout.
    let hold = match bout.contestant.is_bound() {
        true => Duration::ZERO, // it has no process to look at
        false => bout.args.hold(),
    };
    let (idle_start, cpu_idle) = (clock.now(), cpu());
    let plan = Plan::wait(clock, hold, timeout / 3);
    swarm.drive(&mut Idle, &plan, &mut Tally::whole())?;
    let idle = seconds(clock.now() - idle_start);
    let cpu_held = cpu();
    let later = Memory::of(&running);

    let mut tally = Tally::whole();
    let mut ask = Once::new(count, |xid, out| {
        wire::frame(out, xid, op::EXISTS, |to| wire::read_body(to, "/", false));
    });
    swarm.drive(&mut ask, &Plan::all(clock, 1, STEP_LIMIT), &mut tally)?;
    let alive = tally.total().completed;
    if alive < count as u64 {
        let why = swarm.first_break().unwrap_or("no reply");
        sheet.note(&format!("only {alive} of {count} sessions alive after {hold:?}: {why}"));
    }

    let closing = clock.now();
    swarm.close(STEP_LIMIT)?;
    let closing = seconds(clock.now() - closing);

    let spent = |from: Option<Duration>, to: Option<Duration>| {
        from.zip(to).map(|(from, to)| to.saturating_sub(from).as_secs_f64())
    };
    sheet.put("time, s", "open sessions", Better::Lower, opening);
    sheet.put("time, s", "close sessions", Better::Lower, closing);
    sheet.put("sessions", "alive at the end", Better::Higher, alive as f64);
    let all = each(before.rss, later.rss, 1).map(|bytes| bytes / 1e6);
    sheet.put("memory, MB", format!("resident for {count} idle sessions"), Better::Lower, all);
    let group = "bytes per session";
    sheet.put(group, "resident after opening", Better::Lower, each(before.rss, after.rss, count));
    sheet.put(group, "in use after opening", Better::Lower, each(before.live, after.live, count));
    sheet.put(group, "resident after idling", Better::Lower, each(before.rss, later.rss, count));
    sheet.put(group, "in use after idling", Better::Lower, each(before.live, later.live, count));
    let opened = spent(cpu_start, cpu_open).map(|cpu| cpu * 1e6 / count as f64);
    sheet.put("server CPU, us/request", "open session", Better::Lower, opened);
    let held = spent(cpu_idle, cpu_held).map(|cpu| cpu * 100.0 / idle);
    sheet.put("server CPU, % of a core", "idle sessions", Better::Lower, held);
    running.stop()?;
    Ok(())
}
