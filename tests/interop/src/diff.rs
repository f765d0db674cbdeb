//! Sends the same random requests to the original and to Zebu in lockstep, and compares every frame
//! of the answers.
//!
//! A run is a list of [`Step`]s generated from a seed. Connections are opened and sessions resumed
//! when a step needs them, so every subset of a run is a run. A failing run can therefore be shrunk
//! by removing steps.

mod generate;
mod peer;

use std::fmt::{self, Write};

use anyhow::Result;

pub use self::generate::run as generate;

use self::peer::Peer;
use crate::dump::with_super;
use crate::server::{Kind, Options, Server};
use zebu_testkit::wire::hex;

/// Number of sessions in a run.
pub const SLOTS: usize = 4;

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// Echoed by the server.
    pub xid: i32,
    /// The opcode.
    pub opcode: i32,
    /// The record.
    pub body: Vec<u8>,
    /// A description for people.
    pub what: String,
}

/// One step of a run.
#[derive(Clone, Debug)]
pub enum Step {
    /// Requests sent in one write. All are answered before the next step.
    Requests {
        /// The session.
        slot: usize,
        /// The requests.
        requests: Vec<Request>,
    },
    /// Closes a session's connection; the session stays.
    Drop {
        /// The session.
        slot: usize,
    },
    /// Opens another connection with an unusual connect request.
    Knock(Knock),
}

/// A connect request. Unset fields have their usual values.
#[derive(Clone, Debug)]
pub struct Knock {
    /// The slot of the session to resume, if any.
    pub slot: Option<usize>,
    /// Whether to send a wrong password.
    pub wrong_password: bool,
    /// The last zxid that the client claims to have seen.
    pub last_zxid: i64,
    /// The requested timeout.
    pub timeout_ms: i32,
    /// The read-only byte at the end, if it is sent.
    pub read_only: Option<bool>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Requests { slot, requests } => {
                for (index, Request { xid, opcode, body, what }) in requests.iter().enumerate() {
                    let sep = if index == 0 { "" } else { "\n        " };
                    write!(f, "{sep}[{slot}] xid {xid} op {opcode} {what}")?;
                    if body.len() <= 200 {
                        write!(f, " ({})", hex(body))?;
                    }
                }
                Ok(())
            }
            Step::Drop { slot } => write!(f, "[{slot}] drop the connection"),
            Step::Knock(knock) => write!(f, "{knock:?}"),
        }
    }
}

/// A run and the configuration of its servers.
#[derive(Clone, Debug)]
pub struct Run {
    /// Lines for `zoo.cfg`.
    pub config: Vec<(&'static str, &'static str)>,
    /// The steps.
    pub steps: Vec<Step>,
}

impl Run {
    /// The same configuration with other steps.
    #[must_use]
    pub fn with(&self, steps: &[Step]) -> Self {
        Self { config: self.config.clone(), steps: steps.to_vec() }
    }
}

/// The first step with different answers.
#[derive(Debug)]
pub struct Divergence {
    /// Index of the step; the number of steps if only the final trees differ.
    pub at: usize,
    /// The answers of the original.
    pub java: Vec<String>,
    /// The answers of the other server.
    pub ours: Vec<String>,
}

/// Configuration of the servers of a run: no event may happen on its own.
fn options(run: &Run) -> Options {
    let options = Options::default()
        .config("maxSessionTimeout", 7_200_000)
        .config("minSessionTimeout", 1_000)
        .property("znode.container.checkIntervalMs", 1_000_000_000);
    let configured = |options: Options, (key, value): &(&str, &str)| options.config(key, value);
    with_super(run.config.iter().fold(options, configured))
}

/// Executes a run against a fresh server of each kind.
///
/// # Errors
/// A server cannot be started or reached.
pub fn compare(subject: Kind, run: &Run) -> Result<Option<Divergence>> {
    let steps = &run.steps;
    let options = options(run);
    let (java, ours) = std::thread::scope(|scope| {
        let java = scope.spawn(|| Server::start(Kind::Java395, &options));
        let ours = Server::start(subject, &options);
        (java.join().expect("starting a server does not panic"), ours)
    });
    let (mut java, mut ours) = (java?, ours?);
    let (mut left, mut right) = (Peer::new(java.address()), Peer::new(ours.address()));
    for (at, step) in steps.iter().enumerate() {
        let mut said = (left.apply(step), right.apply(step));
        if said.0 != said.1 {
            for (server, said) in [(&mut java, &mut said.0), (&mut ours, &mut said.1)] {
                if !server.is_alive() {
                    said.push(format!("the server died: {}", server.log()));
                }
            }
            return Ok(Some(Divergence { at, java: said.0, ours: said.1 }));
        }
    }
    let said = (left.finish(), right.finish());
    let differ = said.0 != said.1;
    Ok(differ.then(|| {
        let (java, ours) = said;
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            a.iter().filter(|line| !b.contains(line)).cloned().collect()
        };
        Divergence { at: steps.len(), java: only(&java, &ours), ours: only(&ours, &java) }
    }))
}

/// Removes as many steps as possible while the servers still differ, in at most `attempts` runs.
///
/// # Errors
/// As for [`compare`].
pub fn shrink(subject: Kind, run: &Run, attempts: usize) -> Result<(Run, Divergence)> {
    let compare = |steps: &[Step]| compare(subject, &run.with(steps));
    let mut best = run.steps.clone();
    let mut divergence = None;
    let mut left = attempts;
    let mut part = best.len() / 2;
    while part > 0 && left > 0 {
        let mut start = 0;
        while start < best.len() && left > 0 {
            let mut candidate = best.clone();
            candidate.drain(start..(start + part).min(best.len()));
            left -= 1;
            if let Some(found) = compare(&candidate)? {
                candidate.truncate(found.at + 1);
                best = candidate;
                divergence = Some(found);
            } else {
                start += part;
            }
        }
        part /= 2;
    }
    // After that, removes single requests from bursts.
    for step in (0..best.len()).rev() {
        let Step::Requests { requests, .. } = &best[step] else { continue };
        for index in (0..requests.len()).rev() {
            let mut candidate = best.clone();
            let Step::Requests { requests, .. } = &mut candidate[step] else { continue };
            if requests.len() == 1 || left == 0 {
                break;
            }
            requests.remove(index);
            left -= 1;
            if let Some(found) = compare(&candidate)? {
                (best, divergence) = (candidate, Some(found));
            }
        }
    }
    match divergence {
        Some(divergence) => Ok((run.with(&best), divergence)),
        None => {
            let found = compare(&best)?;
            Ok((run.with(&best), found.unwrap_or(Divergence { at: 0, java: vec![], ours: vec![] })))
        }
    }
}

/// A run and its first difference, as text for people.
pub fn describe(run: &Run, divergence: &Divergence) -> String {
    let mut text = format!("{:?}\n", run.config);
    for (index, step) in run.steps.iter().enumerate() {
        writeln!(text, "{index:6}  {step}").expect("writing to a string");
    }
    let Divergence { at, java, ours } = divergence;
    writeln!(text, "after step {at}\n  java: {java:#?}\n  zebu: {ours:#?}").expect("string");
    text
}
