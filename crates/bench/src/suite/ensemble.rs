//! getData and setData in several mixtures, by depth and connections, on an ensemble.

use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::ensemble::Ensemble;
use crate::load::{LoadSpec, measure, prepare};
use crate::suite::{ROOT, pipeline};

/// Shares of reads, in percent.
const MIXTURES: [(&str, u8); 4] =
    [("writes", 0), ("90 % writes", 10), ("90 % reads", 90), ("reads", 100)];

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let ensemble = Ensemble::start(bout)?;
    let (addresses, processes) = (ensemble.addresses().to_vec(), ensemble.processes());
    let warm = LoadSpec {
        read_percent: 50,
        connections: 16,
        depth: 16,
        seconds: bout.args.server_warmup,
        warmup: 0.0,
        value_bytes: bout.args.size,
        keys: bout.args.keys,
        rate: None,
        threads: bout.args.threads,
        root: ROOT.to_owned(),
    };
    prepare(addresses[0], &LoadSpec { seconds: bout.args.seconds, ..warm.clone() })?;
    if bout.args.server_warmup > 0.0 {
        measure(&addresses, &processes, &warm)?;
    }
    for (mixture, read_percent) in MIXTURES {
        for &depth in &bout.args.depths {
            for &connections in &bout.args.connections {
                let name = format!("three servers: {mixture}, depth {depth}, {connections} conn");
                let spec = LoadSpec {
                    read_percent,
                    connections,
                    depth,
                    seconds: bout.args.seconds,
                    warmup: bout.args.warmup,
                    ..warm.clone()
                };
                let result = measure(&addresses, &processes, &spec)?;
                pipeline::put(sheet, &name, &result);
            }
        }
    }
    let rss = processes.iter().map(|process| process.rss()).sum::<Option<u64>>();
    let rss = rss.map(crate::suite::megabytes);
    sheet.put("memory, MB", "three servers: resident", Better::Lower, rss);
    progress("  stopping");
    ensemble.stop()
}
