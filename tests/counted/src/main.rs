//! The cost of a request for a whole server, counted instead of timed: instructions, allocations
//! and system calls. The counts are the same on a busy machine, so tests can guard the hot paths
//! with them.
//!
//! Each story runs against a server under a tool, once without requests and once with many. The
//! difference, divided by the number of requests, is the cost of one request. A story that exceeds
//! its limit in [`limits`] fails.

mod client;
mod limits;
mod profile;
mod server;
mod tool;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use client::{Role, Story};
use limits::LIMITS;
use profile::{Atomics, Profile};
use tool::{Counts, Tool};

/// The minimum share of a request's instructions for a line of the steps.
const SHARE_MIN: f64 = 0.01;
/// The number of requests of a story.
const REQUESTS: usize = 4096;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Counts everything. Returns false if a cost exceeds its limit.
fn run() -> Result<bool> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let (zebu, shows_steps) = match &*words {
        [zebu] => (zebu, false),
        [zebu, option] if option == "--steps" => (zebu, true),
        _ => bail!("usage: zebu-counted PATH-OF-ZEBU [--steps] (a release build)"),
    };
    let zebu = PathBuf::from(zebu);
    let zebu = zebu.canonicalize().with_context(|| zebu.display().to_string())?;
    let atomics = Atomics::of(&zebu)?;
    let mut within = true;
    println!("{:<38}{:<22}{:>12}{:>12}", "one request of", "costs", "counted", "limit");
    for tool in Tool::ALL {
        for role in Role::ALL {
            let count = |story: Option<&Story>| {
                let what = story.map_or("no requests", |story| story.name);
                server::count(&zebu, &atomics, tool, role, story, REQUESTS)
                    .with_context(|| format!("{what}, under {}", tool.program()))
            };
            let (idle, idle_profile) = count(None)?;
            for story in client::STORIES.iter().filter(|story| story.role == role) {
                let (costs, profile) = count(Some(story))?;
                within &= report(story, tool, &costs.less(&idle));
                if shows_steps && tool == Tool::Callgrind {
                    steps(&profile.less(&idle_profile));
                }
            }
        }
    }
    Ok(within)
}

/// Prints the parts of the server that execute the instructions of a request.
fn steps(profile: &Profile) {
    let each = |count: u64| count as f64 / REQUESTS as f64;
    let list =
        |title: &str, counts: &BTreeMap<String, u64>, least: f64, is_in: fn(&str) -> bool| {
            println!("    {title}");
            let mut counts: Vec<_> = counts.iter().filter(|(name, _)| is_in(name)).collect();
            counts.sort_by_key(|(name, count)| (Reverse(**count), *name));
            for (name, count) in counts.iter().take_while(|(_, count)| each(**count) >= least) {
                println!("    {:>10.2}  {name}", each(**count));
            }
        };
    let share = each(profile.total) * SHARE_MIN;
    list("instructions by crate of the source", &profile.crates, share, |_| true);
    let is_step = |name: &str| name.contains("zebu_") || name.contains("tokio::runtime::driver");
    list("instructions by function, with what it calls", &profile.functions, share, is_step);
    list("atomic instructions by function, without what it calls", &profile.atomics, 0.01, |_| {
        true
    });
}

/// Prints the costs of a story. Returns false if one exceeds its limit.
fn report(story: &Story, tool: Tool, costs: &Counts) -> bool {
    let mut within = true;
    for limit in LIMITS.iter().filter(|limit| limit.story == story.name) {
        let Some(of) = tool.reading(limit.of) else { continue };
        let each = costs.get(of) as f64 / REQUESTS as f64;
        let mark = if each <= limit.most { "" } else { "  TOO MUCH" };
        println!("{:<38}{:<22}{each:>12.2}{:>12.2}{mark}", story.name, limit.of, limit.most);
        within &= mark.is_empty();
    }
    within
}
