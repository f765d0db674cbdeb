//! The same random requests to the original and to ours, in lockstep; every frame that comes back compared.
//!
//! A run is a list of [`Step`]s made from a seed. Any part of a run is a run, too, because connections are
//! opened and sessions resumed when a step needs them; so a failing run can be shrunk by leaving steps out.

mod generate;
mod peer;

use std::fmt::{self, Write};

use anyhow::Result;

pub use self::generate::run as generate;
use self::peer::Peer;
use crate::dump::with_super;
use crate::server::{Kind, Options, Server};
use crate::wire::hex;

/// Sessions a run uses side by side.
pub const SLOTS: usize = 4;

/// A request as it is sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// Echoed by the server.
    pub xid: i32,
    /// The opcode.
    pub opcode: i32,
    /// The record.
    pub body: Vec<u8>,
    /// What it is, for people.
    pub what: String,
}

/// One thing that happens in a run.
#[derive(Clone, Debug)]
pub enum Step {
    /// Requests written at once; each is answered before the next step.
    Requests {
        /// The session that speaks.
        slot: usize,
        /// What it says.
        requests: Vec<Request>,
    },
    /// The connection goes away, the session stays.
    Drop {
        /// The session.
        slot: usize,
    },
    /// A connection of its own with an unusual connect request.
    Knock(Knock),
}

/// A connect request; a field left out is as usual.
#[derive(Clone, Debug)]
pub struct Knock {
    /// The session to resume, by slot, or none.
    pub slot: Option<usize>,
    /// A password that is not the session's.
    pub wrong_password: bool,
    /// The last zxid the client pretends to have seen.
    pub last_zxid: i64,
    /// The timeout it asks for.
    pub timeout_ms: i32,
    /// Whether the last byte is sent, and what it says.
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

/// What is done, and to which kind of server.
#[derive(Clone, Debug)]
pub struct Run {
    /// Lines of `zoo.cfg`.
    pub config: Vec<(&'static str, &'static str)>,
    /// What is done.
    pub steps: Vec<Step>,
}

impl Run {
    /// The same with other steps.
    #[must_use]
    pub fn with(&self, steps: &[Step]) -> Self {
        Self { config: self.config.clone(), steps: steps.to_vec() }
    }
}

/// The first step after which the two servers had not said the same.
#[derive(Debug)]
pub struct Divergence {
    /// Index of the step; the number of steps if only the trees differ in the end.
    pub at: usize,
    /// What the original said.
    pub java: Vec<String>,
    /// What the other said.
    pub ours: Vec<String>,
}

/// How the servers of a run are configured: nothing may happen by itself.
fn options(run: &Run) -> Options {
    let options = Options::default()
        .config("maxSessionTimeout", 7_200_000)
        .config("minSessionTimeout", 1_000)
        .property("znode.container.checkIntervalMs", 1_000_000_000);
    let configured = |options: Options, (key, value): &(&str, &str)| options.config(key, value);
    with_super(run.config.iter().fold(options, configured))
}

/// Does a run against a fresh server of each kind.
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

/// Leaves out as many steps as possible while the servers still differ, in at most `attempts` runs.
///
/// # Errors
/// As [`compare`].
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
    // Then single requests out of those that are sent at once.
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

/// A run and where it went apart, for people.
pub fn describe(run: &Run, divergence: &Divergence) -> String {
    let mut text = format!("{:?}\n", run.config);
    for (index, step) in run.steps.iter().enumerate() {
        writeln!(text, "{index:6}  {step}").expect("writing to a string");
    }
    let Divergence { at, java, ours } = divergence;
    writeln!(text, "after step {at}\n  java: {java:#?}\n  zebu: {ours:#?}").expect("string");
    text
}
