//! Noisy neighbours: how long clients wait that have one request each in flight, beside clients that list very many
//! children, and beside one whose pipeline is deep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::board::{Better, Sheet};
use crate::compare::Bout;
use crate::contestant::Running;
use crate::load::{LoadSpec, measure, prepare};
use crate::suite::{ROOT, client, mixed_load, pipeline, warm_up};
use crate::tally::Kind;

/// Clients that wait for each answer.
const NEIGHBOURS: usize = 4;
/// Clients that list.
const LISTERS: usize = 3;
/// Requests in flight of the client whose pipeline is deep.
const DEPTH: u32 = 2048;

/// Who else uses the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// Nobody.
    Nobody,
    /// One whose pipeline of reads or writes is deep.
    Deep(Kind),
    /// Those that list.
    Listers,
}

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (running, _) = bout.start("/")?;
    warm_up(bout, &[running.address], running.process().as_slice())?;
    let listed = LoadSpec { keys: bout.args.listed, value_bytes: 0, ..mixed_load(bout) };
    prepare(running.address, &listed)?;
    for (op, kind) in [("get", Kind::Read), ("set", Kind::Write)] {
        let mut quiet = None;
        for (name, beside) in [
            ("quiet".to_owned(), Beside::Nobody),
            (format!("beside one with {DEPTH} in flight"), Beside::Deep(kind)),
            (format!("beside {LISTERS} that list {} children", bout.args.listed), Beside::Listers),
        ] {
            let [p50, p99] = look(bout, &running, kind, beside, &format!("{op}, {name}"), sheet)?;
            let [quiet50, quiet99] = *quiet.get_or_insert([p50, p99]);
            if beside != Beside::Nobody {
                let group = "times the quiet latency";
                sheet.put(group, format!("{op}, {name}, p50"), Better::Lower, p50 / quiet50);
                sheet.put(group, format!("{op}, {name}, p99"), Better::Lower, p99 / quiet99);
            }
        }
    }
    running.stop()?;
    Ok(())
}

/// The median and the 99th percentile of what neighbours wait, in µs.
fn look(
    bout: &Bout<'_>,
    running: &Running,
    kind: Kind,
    beside: Beside,
    name: &str,
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<[f64; 2]> {
    let servers = [running.address];
    let load = |kind, connections, depth| LoadSpec {
        read_percent: if kind == Kind::Read { 100 } else { 0 },
        connections,
        depth,
        ..mixed_load(bout)
    };
    let is_over = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        let list = || -> anyhow::Result<()> {
            let mut client = client(running)?;
            while !is_over.load(Ordering::Relaxed) {
                client.children(ROOT)?;
            }
            client.close()
        };
        let flood = |kind| -> anyhow::Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                measure(&servers, &[], &load(kind, 1, DEPTH))?;
            }
            Ok(())
        };
        let others: Vec<_> = match beside {
            Beside::Nobody => vec![],
            Beside::Deep(kind) => vec![scope.spawn(move || flood(kind))],
            Beside::Listers => (0..LISTERS).map(|_| scope.spawn(list)).collect(),
        };
        let spec = load(kind, NEIGHBOURS, 1);
        let result = measure(&servers, running.process().as_slice(), &spec);
        is_over.store(true, Ordering::Relaxed);
        for other in others {
            other.join().map_err(|_| anyhow::anyhow!("a neighbour panicked"))??;
        }
        result
    })?;
    pipeline::put(sheet, name, &result);
    let latency = &result.tally.total().latency;
    Ok([0.5, 0.99].map(|quantile| latency.value_at_quantile(quantile) as f64 / 1e3))
}
