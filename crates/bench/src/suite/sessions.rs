//! Many idle sessions: the time to open them, their cost, and whether pings keep all of them alive.

use std::net::Ipv4Addr;
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

/// How many sessions come from one address.
const SESSIONS_OF_ADDRESS: usize = 10_000;

/// The timeout of sessions without a connection: the longest that a server with a tick of 2 s
/// permits.
const LEFT_TIMEOUT: Duration = Duration::from_secs(40);

/// Parts of at most `most` that add up to `all`.
fn waves(all: usize, most: usize) -> impl Iterator<Item = usize> {
    (0..all).step_by(most.max(1)).map(move |begun| most.min(all - begun))
}

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (running, _) = bout.start("/")?;
    let wanted = bout.args.sessions;
    let count = bout.connections(wanted, running.ends());
    let left = wanted - count;
    if left > 0 {
        let limit = bout.open_files;
        sheet.note(&format!(
            "{left} of {wanted} sessions have lost their connections: the limit of open files is \
             {limit}"
        ));
    }
    let timeout = Duration::from_secs(bout.args.session_timeout);
    let cpu = || running.process().and_then(Process::cpu);
    let before = Memory::of(&running);

    let clock = Clock::start();
    let mut sources = (2..=254).map(|last| Ipv4Addr::new(127, 0, 1, last)).cycle();
    let mut open = |swarm: &mut Swarm, count: usize, timeout: Duration| {
        for (some, source) in waves(count, SESSIONS_OF_ADDRESS).zip(&mut sources) {
            swarm.come_from(source);
            swarm.open(&[running.address], some, bout.args.opening, timeout, STEP_LIMIT)?;
        }
        anyhow::Ok(())
    };
    let (start, cpu_start) = (clock.now(), cpu());
    for wave in waves(left, count) {
        // When the swarm is dropped, its connections end and its sessions stay.
        open(&mut Swarm::new(clock)?, wave, LEFT_TIMEOUT)?;
    }
    let mut swarm = Swarm::new(clock)?;
    open(&mut swarm, count, timeout)?;
    let opening = seconds(clock.now() - start);
    let cpu_open = cpu();
    progress(&format!("  {wanted} sessions open in {} s", number(opening)));
    if left > 0 && opening > LEFT_TIMEOUT.as_secs_f64() {
        sheet.note("the sessions without a connection have begun to expire before all were open");
    }
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
    sheet.put(group, "resident after opening", Better::Lower, each(before.rss, after.rss, wanted));
    sheet.put(group, "in use after opening", Better::Lower, each(before.live, after.live, wanted));
    sheet.put(group, "resident after idling", Better::Lower, each(before.rss, later.rss, count));
    sheet.put(group, "in use after idling", Better::Lower, each(before.live, later.live, count));
    let opened = spent(cpu_start, cpu_open).map(|cpu| cpu * 1e6 / wanted as f64);
    sheet.put("server CPU, us/request", "open session", Better::Lower, opened);
    let held = spent(cpu_idle, cpu_held).map(|cpu| cpu * 100.0 / idle);
    sheet.put("server CPU, % of a core", "idle sessions", Better::Lower, held);
    running.stop()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_open_everything_and_none_is_larger_than_permitted() {
        for (all, most, expected) in
            [(0, 10, &[][..]), (10, 10, &[10][..]), (25, 10, &[10, 10, 5][..])]
        {
            assert_eq!(waves(all, most).collect::<Vec<_>>(), expected);
        }
    }
}
