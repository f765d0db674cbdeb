//! The results of a comparison: a text for people, and raw figures for programs; also of an
//! interrupted comparison.

use std::time::Instant;

use serde_json::{Value, json};
use zebu_figures::number;

use super::{CompareArgs, progress};
use crate::board::Board;
use crate::contestant::Contestant;
use crate::floor;
use crate::output::Output;
use crate::process;

/// A load average above this shows that other programs are running.
const BUSY: f64 = 0.7;

/// The machine, the servers, and the destination of the results.
pub(super) struct Record<'a> {
    args: &'a CompareArgs,
    machine: Value,
    load_average: Option<f64>,
    disk_us: f64,
    trip_us: f64,
    servers: Vec<Value>,
    begin: Instant,
}

impl<'a> Record<'a> {
    /// Examines the machine before the first measurement.
    pub(super) fn new(args: &'a CompareArgs) -> anyhow::Result<Self> {
        let load_average = process::load_average();
        if let Some(busy) = load_average.filter(|busy| *busy > BUSY) {
            progress(&format!("warning: something else runs on this machine: load average {busy}"));
        }
        Ok(Self {
            args,
            machine: process::machine(),
            load_average,
            disk_us: floor::sync_latency(&args.dir)?.as_secs_f64() * 1e6,
            trip_us: floor::round_trip()?.as_secs_f64() * 1e6,
            servers: Vec::new(),
            begin: Instant::now(),
        })
    }

    /// Adds a server.
    pub(super) fn add(&mut self, contestant: &Contestant, version: Option<String>) {
        self.servers.push(json!({
            "name": contestant.name(),
            "version": version,
            "command": contestant.describe(),
        }));
    }

    /// Writes the results so far to the file of raw figures, if there is one.
    pub(super) fn keep(&self, board: &Board) -> anyhow::Result<()> {
        match self.args.json.as_deref() {
            None | Some("-") => Ok(()), // a stream gets the whole at the end
            path => Output::new(path).json(&self.raw(board)),
        }
    }

    /// Prints the tables and writes the raw figures.
    pub(super) fn print(&self, board: &Board) -> anyhow::Result<()> {
        let output = Output::new(self.args.json.as_deref());
        output.line("");
        let fact = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
        output.line(&format!(
            "machine  {} CPUs ({}), kernel {}",
            self.machine["cpus"],
            fact(&self.machine["cpu"]),
            fact(&self.machine["kernel"])
        ));
        let (disk, trip) = (number(self.disk_us), number(self.trip_us));
        output.line(&format!("disk     a 4 KiB write and fdatasync: {disk} us, median"));
        output.line(&format!("network  a round trip on loopback: {trip} us, median"));
        for server in &self.servers {
            output.line(&format!("{:<8} {}", fact(&server["name"]), fact(&server["version"])));
        }
        let rounds = self.args.rounds;
        output.line(&format!("rounds   {rounds}; medians, with the smallest and largest\n"));
        output.text(&board.render());
        output.json(&self.raw(board))
    }

    fn raw(&self, board: &Board) -> Value {
        json!({
            "command": "compare",
            "arguments": std::env::args_os().map(|word| word.display().to_string()).collect::<Vec<_>>(),
            "machine": self.machine,
            "fdatasync_us": self.disk_us,
            "round_trip_us": self.trip_us,
            "load_average": self.load_average,
            "minutes": self.begin.elapsed().as_secs_f64() / 60.0,
            "servers": self.servers,
            "parameters": self.args.to_json(),
            "result": board.to_json(),
        })
    }
}
