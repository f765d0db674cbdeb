//! How long a server takes to come back to an ensemble with a large tree: with little to catch up, and with
//! nothing at all.

use std::time::Instant;

use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::ensemble::Ensemble;
use crate::load::{LoadSpec, prepare};
use crate::suite::{ROOT, client_of};
use crate::table::number;
use crate::wire::{self, op};

/// Writes that a server misses: fewer than leaders keep in memory.
const MISSED: usize = 300;

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mut ensemble = Ensemble::start(bout)?;
    let spec = LoadSpec {
        read_percent: 0,
        connections: 1,
        depth: 1,
        seconds: 1.0,
        warmup: 0.0,
        value_bytes: bout.args.size,
        keys: bout.args.count,
        rate: None,
        threads: 1,
        root: ROOT.to_owned(),
    };
    let leader = ensemble.leader()?;
    let start = Instant::now();
    prepare(ensemble.addresses()[leader], &spec)?;
    progress(&format!("  {} znodes in {:.1?}", bout.args.count, start.elapsed()));
    let late = (leader + 1) % ensemble.addresses().len();
    for (name, is_wiped) in [("few transactions (DIFF)", false), ("the whole tree (SNAP)", true)] {
        ensemble.stop_one(late)?;
        if is_wiped {
            ensemble.wipe(late)?;
        }
        let mut client = client_of(ensemble.addresses()[leader])?;
        let last = format!("{ROOT}/last-{}", u8::from(is_wiped));
        for _ in 1..MISSED {
            client.expect("set", op::SET_DATA, |to| wire::set_body(to, ROOT, b"x"))?;
        }
        client.ensure(&last)?;
        client.close()?;
        rustix::fs::sync(); // the same disk for all
        ensemble.launch(late)?;
        let took = ensemble.member(late)?.wait_for(&last, crate::suite::STEP_LIMIT)?;
        progress(&format!("  {name}: {} s", number(took.as_secs_f64())));
        sheet.put("rejoin, s", name, Better::Lower, took.as_secs_f64());
    }
    ensemble.stop()
}
