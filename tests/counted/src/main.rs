//! What a request costs a whole server, counted instead of timed: instructions, allocations and system
//! calls. These numbers are the same on a busy machine, so they guard the hot paths in the tests.
//!
//! Each story runs against a server under a tool, once without requests and once with many; the
//! difference, divided by the number of requests, is what one costs. A story that costs more than its
//! limit in [`limits`] fails.

mod client;
mod limits;
mod server;
mod tool;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use client::Story;
use limits::LIMITS;
use tool::{Counts, Tool};

/// Requests of a story.
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

/// Counts everything; false when something costs more than it may.
fn run() -> Result<bool> {
    let mut words = std::env::args_os().skip(1);
    let (Some(zebu), None) = (words.next(), words.next()) else {
        bail!("usage: zebu-counted PATH-OF-ZEBU (a release build)");
    };
    let zebu = PathBuf::from(zebu);
    let mut within = true;
    println!("{:<38}{:<22}{:>12}{:>12}", "one request of", "costs", "counted", "limit");
    for tool in Tool::ALL {
        let count = |story: Option<&Story>| {
            let what = story.map_or("no requests", |story| story.name);
            server::count(&zebu, tool, story, REQUESTS)
                .with_context(|| format!("{what}, under {}", tool.program()))
        };
        let idle = count(None)?;
        for story in client::STORIES {
            let costs = count(Some(story))?.less(&idle);
            within &= report(story, tool, &costs);
        }
    }
    Ok(within)
}

/// Prints what a story cost; false when that was too much.
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
