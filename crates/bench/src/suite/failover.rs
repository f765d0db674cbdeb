//! The time without writes when the leader is killed, paused, or asked to stop; and the cost of a
//! rolling restart.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::client::Client;
use crate::compare::{Bout, progress};
use crate::ensemble::{Ensemble, retried};
use crate::suite::ROOT;
use crate::suite::rolling::{self, Rolled};
use crate::wire::{self, op};

/// The time limit for an answer, before the request is sent again.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before the next attempt at a server that has refused.
const RETRY: Duration = Duration::from_millis(2);
/// The quiet time before each fault.
const QUIET: Duration = Duration::from_secs(1);

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mut ensemble = Ensemble::start(bout)?;
    for kind in [Kind::Killed, Kind::Paused, Kind::Stopped] {
        let name = kind.name();
        let mut gaps = Vec::new();
        for _ in 0..bout.args.faults {
            let leader = ensemble.leader()?;
            ensemble.wait_for_all()?;
            let others = ensemble.others(leader);
            // Both servers accept writes before the fault.
            for server in &others {
                // A server that has just returned may still close connections.
                retried(|| write(*server)).with_context(|| format!("write to {server}"))?;
            }
            thread::sleep(QUIET);
            let fault = Instant::now();
            match kind {
                Kind::Killed => ensemble.kill(leader),
                Kind::Paused => ensemble.pause(leader, true)?,
                Kind::Stopped => ensemble.ask_to_stop(leader)?,
            }
            let gap = first_write(&others, fault)?;
            progress(&format!("  {name}: {} s without a write", number(gap.as_secs_f64())));
            gaps.push(gap);
            match kind {
                Kind::Killed => ensemble.launch(leader)?,
                Kind::Paused => ensemble.pause(leader, false)?,
                Kind::Stopped => {
                    ensemble.stop_one(leader)?;
                    ensemble.launch(leader)?;
                }
            }
            ensemble.wait_for(leader)?;
        }
        // Servers that have just missed a leader wait longer for the next one.
        let again = match kind {
            Kind::Paused => gaps.split_off(1),
            Kind::Killed | Kind::Stopped => Vec::new(),
        };
        put(sheet, name, gaps);
        put(sheet, &format!("{name} again within a minute"), again);
    }
    let Rolled { rate, gap, late: [p99, longest], lost } = rolling::restart(&mut ensemble)?;
    progress(&format!(
        "  rolling restart at {} writes/s: {} s without a write, longest write {} s, {lost} sessions lost",
        number(rate),
        number(gap.as_secs_f64()),
        number(longest.as_secs_f64())
    ));
    sheet.put(
        "s without a write",
        "rolling restart, longest".to_owned(),
        Better::Lower,
        gap.as_secs_f64(),
    );
    for (name, late) in [("p99", p99), ("longest", longest)] {
        let name = format!("rolling restart, {name} write");
        sheet.put("s from due to written", name, Better::Lower, late.as_secs_f64());
    }
    let kept = rolling::SESSIONS.saturating_sub(lost);
    sheet.put("sessions", "kept in a rolling restart".to_owned(), Better::Higher, kept as f64);
    if lost > 0 {
        sheet.note(&format!("{lost} sessions lost in a rolling restart"));
    }
    ensemble.stop()
}

/// The median and the longest of these times without a write, if there are any.
fn put(sheet: &mut Sheet<'_>, name: &str, mut gaps: Vec<Duration>) {
    gaps.sort_unstable();
    let Some(longest) = gaps.last() else { return };
    let figures = [("median", gaps[gaps.len() / 2]), ("longest", *longest)];
    for (what, gap) in figures {
        let name = format!("{name}, {what}");
        sheet.put("s without a write", name, Better::Lower, gap.as_secs_f64());
    }
}

/// The fault of the leader.
#[derive(Clone, Copy)]
enum Kind {
    Killed,
    Paused,
    Stopped,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Killed => "leader killed",
            Self::Paused => "leader paused",
            Self::Stopped => "leader asked to stop",
        }
    }
}

/// One acknowledged write in a session of its own.
fn write(server: SocketAddr) -> anyhow::Result<()> {
    let mut client = Client::connect(server, PATIENCE)?;
    client.expect("set", op::SET_DATA, |to| wire::set_body(to, ROOT, b"x"))?;
    let _ = client.close(); // the write is what counts
    Ok(())
}

/// The time from `fault` until the acknowledgement, by any of `servers`, of the first write that
/// was sent after `fault`.
fn first_write(servers: &[SocketAddr], fault: Instant) -> anyhow::Result<Duration> {
    let is_over = AtomicBool::new(false);
    let first = thread::scope(|scope| {
        let ask = |server: SocketAddr| {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) && fault.elapsed() < crate::suite::STEP_LIMIT
                {
                    if write(server).is_ok() {
                        is_over.store(true, Ordering::Relaxed);
                        return Some(fault.elapsed());
                    }
                    thread::sleep(RETRY);
                }
                None
            })
        };
        let asking: Vec<_> = servers.iter().map(|server| ask(*server)).collect();
        asking.into_iter().filter_map(|thread| thread.join().ok().flatten()).min()
    });
    first.context("no server accepts writes any more")
}
