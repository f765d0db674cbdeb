//! Latency at equal load on one server and on an ensemble: requests are due at equal intervals,
//! however fast the server answers. Also one write at a time, beside the times of disk and network.

use std::net::SocketAddr;
use std::time::Duration;

use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::ensemble::Ensemble;
use crate::floor;
use crate::load::{LoadSpec, measure};
use crate::process::Process;
use crate::suite::{mixed_load, pipeline, warm_up};

/// The connections of the open loop, used in turn.
const CONNECTIONS: usize = 16;
/// The most requests in flight on a connection. Later requests wait, and their wait counts.
const DEPTH: u32 = 1024;
/// Further quantiles of the tail, besides those of all suites.
const TAIL: [(&str, f64); 3] =
    [("latency p90, us", 0.9), ("latency p9999, us", 0.9999), ("latency max, us", 1.0)];

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (running, _) = bout.start("/")?;
    let process = running.process();
    warm_up(bout, &[running.address], process.as_slice())?;
    one_at_a_time(bout, running.address, process, sheet)?;
    open_loop(bout, "one server", &[running.address], process.as_slice(), sheet)?;
    running.stop()?;
    if bout.contestant.is_bound() {
        return Ok(()); // it makes no ensemble
    }
    let ensemble = Ensemble::start(bout)?;
    let (addresses, processes) = (ensemble.addresses().to_vec(), ensemble.processes());
    warm_up(bout, &addresses, &processes)?;
    open_loop(bout, "three servers", &addresses, &processes, sheet)?;
    ensemble.stop()
}

fn open_loop(
    bout: &Bout<'_>,
    name: &str,
    servers: &[SocketAddr],
    processes: &[Process],
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<()> {
    for (op, read_percent) in [("get", 100), ("set", 0)] {
        for &rate in &bout.args.rates {
            let spec = LoadSpec {
                read_percent,
                connections: CONNECTIONS,
                depth: DEPTH,
                seconds: bout.args.rate_seconds,
                rate: Some(rate),
                ..mixed_load(bout)
            };
            let name = format!("{name}: open loop, {} {op}/s", number(rate));
            let result = measure(servers, processes, &spec)?;
            pipeline::put(sheet, &name, &result);
            let all = result.tally.total();
            for (group, quantile) in TAIL {
                let us = all.latency.value_at_quantile(quantile) as f64 / 1e3;
                sheet.put(group, name.clone(), Better::Lower, us);
            }
        }
    }
    Ok(())
}

/// One connection that waits for each answer. Before and after it, measures the time of a sync and
/// of a round trip alone.
fn one_at_a_time(
    bout: &Bout<'_>,
    server: SocketAddr,
    process: Option<Process>,
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<()> {
    let group = "one at a time, us";
    let us = |each: Duration| each.as_secs_f64() * 1e6;
    // Before and after, because the disk's speed may change.
    let sync_before = us(floor::sync_latency(bout.dir)?);
    let mut set = None;
    for (op, read_percent) in [("getData", 100), ("setData", 0)] {
        let spec = LoadSpec { read_percent, connections: 1, depth: 1, ..mixed_load(bout) };
        let result = measure(&[server], process.as_slice(), &spec)?;
        let all = result.tally.total();
        let us = |quantile: f64| all.latency.value_at_quantile(quantile) as f64 / 1e3;
        sheet.put(group, format!("{op}, p50"), Better::Lower, us(0.5));
        sheet.put(group, format!("{op}, p99"), Better::Lower, us(0.99));
        set = Some(us(0.5));
    }
    let sync = f64::midpoint(sync_before, us(floor::sync_latency(bout.dir)?));
    let trip = us(floor::round_trip()?);
    sheet.put(group, "without a server: fdatasync of 4 KiB, p50", Better::Lower, sync);
    sheet.put(group, "without a server: round trip on loopback, p50", Better::Lower, trip);
    let times = set.map(|us| us / (sync + trip));
    progress(&format!(
        "  one write at a time: {} us, fdatasync and round trip {} us",
        number(set.unwrap_or_default()),
        number(sync + trip)
    ));
    sheet.put("times fdatasync + round trip", "setData one at a time, p50", Better::Lower, times);
    Ok(())
}
