//! All operations that a server makes durable, standalone and in an ensemble: by operation, length,
//! depth and number of connections.

use std::net::SocketAddr;

use crate::board::{Better, Sheet};
use crate::compare::Bout;
use crate::contestant::LOGGED;
use crate::echo::Logged;
use crate::ensemble::Members;
use crate::load::{LoadSpec, Write, measure};
use crate::process::Process;
use crate::suite::{mixed_load, pipeline, warm_up};

/// Operations of a multi.
const MULTI: usize = 5;

/// The kinds of requests: name, percentage of reads, write, and size as a multiple of `--size`.
const KINDS: [(&str, u8, Write, usize); 8] = [
    ("set", 0, Write::Set, 1),
    ("set, 10 times the size", 0, Write::Set, 10),
    ("set, 160 times the size", 0, Write::Set, 160),
    ("create", 0, Write::Create, 1),
    ("create and delete", 0, Write::CreateAndDelete, 1),
    ("multi of 5 sets", 0, Write::Multi(MULTI), 1),
    ("half reads", 50, Write::Set, 1),
    ("90 % reads", 90, Write::Set, 1),
];

/// The most bytes in flight on all connections together: servers accept them without back-pressure.
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (running, _) = bout.start_with("/", &[LOGGED.to_owned()])?;
    let processes = running.process();
    let logged = || running.logged();
    measure_all(bout, sheet, "", &[running.address], processes.as_slice(), &logged)?;
    running.stop()?;
    let members = Members::start(bout)?;
    let (addresses, processes) = (members.addresses(), members.processes());
    // Who leads stays the same unless a server fails.
    let leader = members.leader()?;
    let logged = || leader.logged();
    measure_all(bout, sheet, "three servers: ", &addresses, &processes, &logged)?;
    members.stop()
}

fn measure_all(
    bout: &Bout<'_>,
    sheet: &mut Sheet<'_>,
    prefix: &str,
    servers: &[SocketAddr],
    processes: &[Process],
    logged: &dyn Fn() -> Option<Logged>,
) -> anyhow::Result<()> {
    warm_up(bout, servers, processes)?;
    for (name, read_percent, write, times) in KINDS {
        for &depth in &bout.args.depths {
            for &connections in &bout.args.connections {
                let value_bytes = times * bout.args.size;
                if value_bytes * depth as usize * connections > IN_FLIGHT_BYTES_MAX {
                    continue;
                }
                let load = mixed_load(bout);
                let spec =
                    LoadSpec { read_percent, write, connections, depth, value_bytes, ..load };
                let before = logged();
                let result = measure(servers, processes, &spec)?;
                let after = logged();
                let name = format!("{prefix}{name}, depth {depth}, {connections} conn");
                pipeline::put(sheet, &name, &result);
                if let Some((before, after)) = before.zip(after) {
                    let records = after.records.saturating_sub(before.records) as f64;
                    let syncs = after.syncs.saturating_sub(before.syncs) as f64;
                    let each = (syncs > 0.0).then_some(records / syncs);
                    sheet.put("records per sync", name, Better::Higher, each);
                }
            }
        }
    }
    Ok(())
}
