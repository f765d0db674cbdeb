//! The time that a server with a large tree needs to rejoin an ensemble, with few missing
//! transactions and without any data; and the speed of the snapshot transfer, beside the speed of
//! disk and network.

use std::time::Duration;

use anyhow::bail;
use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::client::Client;
use crate::compare::{Bout, progress};
use crate::ensemble::Ensemble;
use crate::floor;
use crate::suite::{ROOT, STEP_LIMIT, client_of, megabytes, snapshots, znodes};
use crate::wire::{self, op};

/// The writes that a server misses: fewer than leaders keep in memory.
const MISSED: usize = 300;
/// The smallest share of the tree's transfer in the time that allows to compute its speed.
const SHARE_MIN: f64 = 0.2;

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mut ensemble = Ensemble::start(bout)?;
    let leader = ensemble.leader()?;
    let late = (leader + 1) % ensemble.addresses().len();
    let empty = rejoin(&mut ensemble, leader, late, "an empty tree", true, sheet)?;
    let count = bout.args.rejoin_count;
    let filled = znodes::fill(ensemble.addresses()[leader], count, bout.args.size)?;
    progress(&format!("  {count} znodes in {} s", number(filled)));
    rejoin(&mut ensemble, leader, late, "few transactions (DIFF)", false, sheet)?;
    let whole = rejoin(&mut ensemble, leader, late, "the whole tree (SNAP)", true, sheet)?;
    speed(bout, &ensemble, late, whole, empty, sheet)?;
    ensemble.stop()
}

/// Stops `late`, deletes its history if `is_wiped`, and measures the time until it serves again.
fn rejoin(
    ensemble: &mut Ensemble<'_>,
    leader: usize,
    late: usize,
    name: &str,
    is_wiped: bool,
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<Duration> {
    ensemble.stop_one(late)?;
    if is_wiped {
        ensemble.wipe(late)?;
    }
    let mut client = client_of(ensemble.addresses()[leader])?;
    for _ in 1..MISSED {
        client.expect("set", op::SET_DATA, |to| wire::set_body(to, ROOT, b"x"))?;
    }
    let last = last_of(&mut client)?;
    client.close()?;
    rustix::fs::sync(); // the same disk for all
    ensemble.launch(late)?;
    let took = ensemble.member(late)?.wait_for(&last, STEP_LIMIT)?;
    progress(&format!("  {name}: {} s", number(took.as_secs_f64())));
    sheet.put("rejoin, s", name, Better::Lower, took.as_secs_f64());
    Ok(took)
}

/// A new znode, which is the last write so far.
fn last_of(client: &mut Client) -> anyhow::Result<String> {
    for number in 0.. {
        let path = format!("{ROOT}/last-{number}");
        if !client.exists(&path)? {
            client.ensure(&path)?;
            return Ok(path);
        }
    }
    bail!("no name is left")
}

/// The speed of the transfer: once with the start and the election, and once from the time beyond
/// that of an empty tree.
fn speed(
    bout: &Bout<'_>,
    ensemble: &Ensemble<'_>,
    late: usize,
    whole: Duration,
    empty: Duration,
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<()> {
    let data = ensemble.directory(late).join("data");
    let Some(bytes) = snapshots::newest(&data)?.map(|meta| meta.len()) else {
        sheet.note("no snapshot at the server that came back");
        return Ok(());
    };
    let group = "MB/s";
    let extra = whole.saturating_sub(empty);
    let speed = |took: Duration| megabytes(bytes) / took.as_secs_f64();
    let tree_speed = (extra.div_duration_f64(whole) > SHARE_MIN).then(|| speed(extra));
    if tree_speed.is_none() {
        sheet.note("SNAP took hardly longer than with an empty tree: no speed");
    }
    let disk = floor::disk_stream(bout.dir, bytes)? / 1e6;
    let wire = floor::loopback_stream(bytes)? / 1e6;
    progress(&format!(
        "  SNAP of {} MB: {} MB/s; disk {}, loopback {}",
        number(megabytes(bytes)),
        number(tree_speed.unwrap_or(f64::NAN)),
        number(disk),
        number(wire)
    ));
    sheet.put("disk, MB", "snapshot of SNAP", Better::Lower, megabytes(bytes));
    sheet.put(group, "SNAP, from the start of the process", Better::Higher, speed(whole));
    sheet.put(group, "SNAP, beyond what an empty tree takes", Better::Higher, tree_speed);
    sheet.put(group, "without a server: disk, write and fdatasync", Better::Higher, disk);
    sheet.put(group, "without a server: loopback", Better::Higher, wire);
    let times = tree_speed.map(|speed| disk.min(wire) / speed);
    sheet.put("times the slower of disk and wire", "SNAP", Better::Lower, times);
    Ok(())
}
