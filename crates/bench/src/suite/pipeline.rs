//! getData and setData by depth and connections.

use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::load::{LoadResult, LoadSpec, measure};
use crate::process::Process;
use crate::suite::{megabytes, mixed_load, warm_up};

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let args = bout.args;
    let (running, _) = bout.start("/")?;
    warm_up(bout, &[running.address], running.process().as_slice())?;
    for (op, read_percent) in [("get", 100), ("set", 0)] {
        for &depth in &args.depths {
            for &connections in &args.connections {
                let spec = LoadSpec { read_percent, connections, depth, ..mixed_load(bout) };
                let result = measure(&[running.address], running.process().as_slice(), &spec)?;
                put(sheet, &format!("{op}, depth {depth}, {connections} conn"), &result);
            }
        }
    }
    let process = running.process();
    let rss = process.and_then(Process::rss).map(megabytes);
    let peak = process.and_then(Process::rss_peak).map(megabytes);
    sheet.put("memory, MB", "resident after pipeline", Better::Lower, rss);
    sheet.put("memory, MB", "peak of pipeline", Better::Lower, peak);
    running.stop()?;
    Ok(())
}

/// Throughput, latencies and CPU time of one point.
pub(crate) fn put(sheet: &mut Sheet<'_>, name: &str, result: &LoadResult) {
    let all = result.tally.total();
    let us = |quantile: f64| all.latency.value_at_quantile(quantile) as f64 / 1e3;
    progress(&format!(
        "  {name}: {} requests/s, p99 {} us",
        number(result.throughput()),
        number(us(0.99))
    ));
    if !result.tally.is_clean() {
        let tally = &result.tally;
        let why = result.first_break.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        sheet.note(&format!(
            "{name}: errors {:?}, {} lost, {} never answered{why}",
            tally.errors, tally.lost, tally.unanswered
        ));
    }
    let server_cpu = result.server_cpu.and_then(|cpu| result.cpu_us_per_op(cpu));
    let own_cpu = result.cpu_us_per_op(result.tally.cpu);
    sheet.put("requests/s", name, Better::Higher, result.throughput());
    if all.completed > 0 {
        sheet.put("latency p50, us", name, Better::Lower, us(0.5));
        sheet.put("latency p99, us", name, Better::Lower, us(0.99));
        sheet.put("latency p999, us", name, Better::Lower, us(0.999));
    }
    sheet.put("server CPU, us/request", name, Better::Lower, server_cpu);
    sheet.put("generator CPU, us/request", name, Better::Lower, own_cpu);
}
