//! getData and setData in several mixtures, by depth, on an ensemble.

use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::ensemble::Members;
use crate::load::{LoadSpec, measure};
use crate::suite::{mixed_load, pipeline, warm_up};

/// Shares of reads, in percent.
const MIXTURES: [(&str, u8); 4] =
    [("writes", 0), ("90 % writes", 10), ("90 % reads", 90), ("reads", 100)];

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let members = Members::start(bout)?;
    let (addresses, processes) = (members.addresses(), members.processes());
    warm_up(bout, &addresses, &processes)?;
    for (mixture, read_percent) in MIXTURES {
        for &depth in &bout.args.depths {
            let connections = bout.args.ensemble_connections;
            let name = format!("three servers: {mixture}, depth {depth}, {connections} conn");
            let spec = LoadSpec { read_percent, connections, depth, ..mixed_load(bout) };
            let result = measure(&addresses, &processes, &spec)?;
            pipeline::put(sheet, &name, &result);
        }
    }
    let rss = processes.iter().map(|process| process.rss()).sum::<Option<u64>>();
    let rss = rss.filter(|_| !processes.is_empty()).map(crate::suite::megabytes);
    sheet.put("memory, MB", "three servers: resident", Better::Lower, rss);
    progress("  stopping");
    members.stop()
}
