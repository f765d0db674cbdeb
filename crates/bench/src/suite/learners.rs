//! Writes on an ensemble of three voters, by the number of observers beside them.

use std::time::Instant;

use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::ensemble::Ensemble;
use crate::load::{LoadSpec, measure};
use crate::suite::{ROOT, STEP_LIMIT, client_of, mixed_load, pipeline, warm_up};

/// The depths that are measured, on 16 connections to the leader.
const DEPTHS: [u32; 2] = [1, 16];

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mut ensemble = Ensemble::start_with(bout, bout.args.observers)?;
    let leader = ensemble.leader()?;
    let address = ensemble.addresses()[leader];
    let process = ensemble.member(leader)?.process();
    let processes: Vec<_> = process.into_iter().collect();
    warm_up(bout, &[address], &processes)?;
    for depth in DEPTHS {
        let spec = LoadSpec { read_percent: 0, depth, ..mixed_load(bout) };
        let result = measure(&[address], &processes, &spec)?;
        pipeline::put(sheet, &format!("leader: set, depth {depth}, 16 conn"), &result);
    }

    // How long the last of all learners needs for what was written.
    let last = format!("{ROOT}/last");
    let written = Instant::now();
    client_of(address)?.ensure(&last)?;
    for index in (0..ensemble.addresses().len()).filter(|index| *index != leader) {
        ensemble.member(index)?.wait_for(&last, STEP_LIMIT)?;
    }
    let took = written.elapsed().as_secs_f64() * 1e3;
    progress(&format!("  all learners have the last write after {} ms", number(took)));
    sheet.put("time, ms", "until all learners show the last write", Better::Lower, took);
    let all = ensemble.processes();
    let rss = all.iter().map(|process| process.rss()).sum::<Option<u64>>();
    let each = rss.map(|rss| crate::suite::megabytes(rss) / all.len() as f64);
    sheet.put("memory, MB", "resident, each member", Better::Lower, each);
    ensemble.stop()
}
