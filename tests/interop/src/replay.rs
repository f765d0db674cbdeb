//! Replays the client's side of a recorded conversation and compares the server's side byte for
//! byte.
//!
//! The recordings are JSON lines: `conn` names a connection, `dir` the direction, `hex` is the
//! payload. Session ids and passwords of the recording are replaced by those of the run, and times
//! are only checked to be times.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use zebu_testkit::connection::{Connection, Incoming};
use zebu_testkit::wire::{hex, unhex};

use crate::normalise::{blank_times, now_ms, replace, sort_sets};

/// A request whose answer differs from the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The description of this step in the recording.
    pub note: String,
    /// The recorded frames, in hexadecimal, without times.
    pub expected: Vec<String>,
    /// The received frames, with the ids and passwords of the recording.
    pub actual: Vec<String>,
}

/// One request of the recording, and all frames received on its connection before the next request.
#[derive(Default)]
struct Exchange {
    note: String,
    connection: String,
    opcode: i32,
    request: Vec<u8>,
    answers: Vec<Vec<u8>>,
    closed: bool,
}

/// Stands for the opcode of a connect request.
const CONNECT: i32 = i32::MIN;

/// Reads a recording.
fn read(file: &Path) -> Result<Vec<Exchange>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut note = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let step: Value = serde_json::from_str(line)?;
        if let Some(text) = step["note"].as_str() {
            if text.starts_with("connection closed by server") {
                exchanges.last_mut().context("closed before it was open")?.closed = true;
            }
            text.clone_into(&mut note);
            continue;
        }
        let connection = step["conn"].as_str().context("conn")?.to_owned();
        let payload = unhex(step["hex"].as_str().context("hex")?)?;
        match step["dir"].as_str().context("dir")? {
            "C>S" => exchanges.push(Exchange {
                note: note.clone(),
                connection,
                opcode: step["op"].as_i64().map_or(Ok(CONNECT), i32::try_from)?,
                request: payload,
                ..Exchange::default()
            }),
            "S>C" => {
                let last = exchanges.last_mut().context("answer before a request")?;
                ensure!(last.connection == connection, "answer on another connection");
                last.answers.push(payload);
            }
            other => bail!("direction {other}"),
        }
    }
    Ok(exchanges)
}

/// Replays the recording in `file` against a fresh server.
///
/// # Errors
/// The recording cannot be read, or the server cannot be reached.
pub fn replay(file: &Path, address: SocketAddr) -> Result<Vec<Difference>> {
    let mut replay = Replay {
        address,
        connections: HashMap::new(),
        mapping: Vec::new(),
        started_ms: now_ms(),
        differences: Vec::new(),
    };
    for exchange in read(file)? {
        replay.exchange(&exchange).with_context(|| exchange.note.clone())?;
    }
    Ok(replay.differences)
}

/// A conversation during the replay.
struct Replay {
    address: SocketAddr,
    connections: HashMap<String, Connection>,
    /// Pairs of bytes: session ids and passwords of the recording, and those of this run.
    mapping: Vec<(Vec<u8>, Vec<u8>)>,
    started_ms: i64,
    differences: Vec<Difference>,
}

impl Replay {
    fn exchange(&mut self, exchange: &Exchange) -> Result<()> {
        let request = self.in_this_run(&exchange.request);
        if !self.connections.contains_key(&exchange.connection) {
            let connection = Connection::open(self.address)?;
            self.connections.insert(exchange.connection.clone(), connection);
        }
        let connection = self.connections.get_mut(&exchange.connection).expect("just put there");
        connection.send(&request)?;
        let mut answers = Vec::new();
        let mut end = String::new();
        while end.is_empty() {
            match connection.receive()? {
                Incoming::Frame(payload) => {
                    let notification = payload.starts_with(&[0xff; 4]);
                    answers.push(payload);
                    if !notification && !exchange.closed {
                        break;
                    }
                }
                other => end = format!("{other:?}"),
            }
        }
        if exchange.opcode == CONNECT {
            self.learn(&exchange.answers, &answers);
        }
        // The recordings were made in November 2026.
        let recorded = 1_790_000_000_000..=1_800_000_000_000;
        let show = |payload: &[u8], window| {
            let (payload, _) = blank_times(payload, &window, 1 << 50);
            hex(&sort_sets(exchange.opcode, &payload))
        };
        let window = self.started_ms..=now_ms();
        let mut expected: Vec<String> =
            exchange.answers.iter().map(|p| show(p, recorded.clone())).collect();
        let mut actual: Vec<String> =
            answers.iter().map(|p| show(&self.as_recorded(p), window.clone())).collect();
        expected.extend(exchange.closed.then(|| "Closed".to_owned()));
        actual.extend((!end.is_empty()).then_some(end));
        if expected != actual {
            let note = exchange.note.clone();
            self.differences.push(Difference { note, expected, actual });
        }
        Ok(())
    }

    /// Replaces ids and passwords of the recording by those of this run.
    fn in_this_run(&self, payload: &[u8]) -> Vec<u8> {
        let mut payload = payload.to_vec();
        for (recorded, actual) in &self.mapping {
            replace(&mut payload, recorded, actual);
        }
        payload
    }

    /// Replaces ids and passwords of this run by those of the recording.
    fn as_recorded(&self, payload: &[u8]) -> Vec<u8> {
        let mut payload = payload.to_vec();
        for (recorded, actual) in &self.mapping {
            replace(&mut payload, actual, recorded);
        }
        payload
    }

    /// A connect answer: version, timeout, then this run's id and password.
    fn learn(&mut self, recorded: &[Vec<u8>], actual: &[Vec<u8>]) {
        let (Some(was), Some(is)) = (recorded.first(), actual.first()) else { return };
        let (Some(was), Some(is)) = (was.get(8..36), is.get(8..36)) else { return };
        if was[..8] != [0; 8] && !self.mapping.iter().any(|(from, _)| from == &was[..8]) {
            self.mapping.push((was[..8].to_vec(), is[..8].to_vec()));
            self.mapping.push((was[12..].to_vec(), is[12..].to_vec()));
        }
    }
}
