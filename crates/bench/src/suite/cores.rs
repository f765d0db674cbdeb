//! Throughput by the number of cores: the server uses the first core, the first two, and so on; the
//! generator uses the others.

use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::load::{LoadSpec, measure};
use crate::pin::{self, Pinned, Split};
use crate::suite::{mixed_load, pipeline, warm_up};

/// Reads or writes, requests in flight and connections.
const POINTS: [(&str, u8, u32, usize); 4] =
    [("get", 100, 1, 16), ("get", 100, 16, 16), ("set", 0, 1, 16), ("set", 0, 16, 16)];

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let all = pin::cores()?;
    for &count in &bout.args.cores {
        if count > all.len() {
            sheet.note(&format!("not measured on {count} cores: there are {}", all.len()));
            continue;
        }
        let split = Split::new(&all, count);
        let words = if count == 1 { "1 core".to_owned() } else { format!("{count} cores") };
        let shared = if split.is_shared() { " shared" } else { "" };
        progress(&format!("  server on cores {:?}, generator on {:?}", split.server, split.own));
        let (running, _) = {
            let _pinned = Pinned::to(&split.server)?;
            bout.start("/")?
        };
        let _pinned = Pinned::to(&split.own)?;
        let process = running.process();
        warm_up(bout, &[running.address], process.as_slice())?;
        for (op, read_percent, depth, connections) in POINTS {
            let name = format!("{words}{shared}: {op}, depth {depth}, {connections} conn");
            let spec = LoadSpec { read_percent, depth, connections, ..mixed_load(bout) };
            let result = measure(&[running.address], process.as_slice(), &spec)?;
            pipeline::put(sheet, &name, &result);
            let used = result.server_cpu.map(|cpu| cpu.as_secs_f64() / result.seconds);
            let each = used.filter(|used| *used > 0.0).map(|used| result.throughput() / used);
            sheet.put("requests per second of server CPU", name, Better::Higher, each);
        }
        running.stop()?;
    }
    Ok(())
}
