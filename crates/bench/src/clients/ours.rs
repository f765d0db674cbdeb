//! One load through zebu-client.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use zebu_client::{Client, Connector, Pending, Version};

use super::{DriveArgs, Load, PATIENCE, path};

/// A read or a write.
enum Request {
    Get(Pending<(bytes::Bytes, zebu_client::Stat)>),
    Set(Pending<zebu_client::Stat>),
}

impl Request {
    async fn succeeds(self) -> bool {
        match self {
            Self::Get(read) => read.await.is_ok(),
            Self::Set(set) => set.await.is_ok(),
        }
    }
}

/// Keeps requests in flight, and counts their answers.
struct Driver<'a> {
    client: &'a Client,
    load: Load,
    paths: &'a [String],
    data: &'a [u8],
    sent: usize,
    under_way: VecDeque<Request>,
    answered: u64,
    failed: u64,
}

impl Driver<'_> {
    fn send(&mut self) {
        let path = &self.paths[self.sent % self.paths.len()];
        self.sent += 1;
        self.under_way.push_back(match self.load {
            Load::Set => Request::Set(self.client.set_data(path, self.data, Version::ANY)),
            Load::Get | Load::All => Request::Get(self.client.get_data(path)),
        });
    }

    /// Waits for the answer to the oldest request.
    async fn settle(&mut self) {
        if let Some(request) = self.under_way.pop_front() {
            self.answered += 1;
            self.failed += u64::from(!request.succeeds().await);
        }
    }
}

/// Runs one load. Returns the results.
pub(super) fn run(args: &DriveArgs) -> anyhow::Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(drive(args))
}

async fn drive(args: &DriveArgs) -> anyhow::Result<Value> {
    let depth = args.depth as usize;
    let connector = Connector::new().session_timeout(PATIENCE).pending_max(depth.max(1024));
    let client = connector.connect(&args.server.to_string()).await.context("connect")?;
    let paths: Vec<String> = (0..args.keys).map(path).collect();
    let data = vec![b'x'; args.size];
    let mut driver = Driver {
        client: &client,
        load: args.load,
        paths: &paths,
        data: &data,
        sent: 0,
        under_way: VecDeque::with_capacity(depth),
        answered: 0,
        failed: 0,
    };
    let mut start = Instant::now();
    let mut before = 0;
    if args.load == Load::All {
        while driver.answered < paths.len() as u64 {
            while driver.sent < paths.len() && driver.under_way.len() < depth {
                driver.send();
            }
            driver.settle().await;
        }
    } else {
        // The first fifth of the time is warm-up.
        for (share, counts) in [(0.2, false), (1.0, true)] {
            if counts {
                (before, start) = (driver.answered, Instant::now());
            }
            let end = Instant::now() + Duration::from_secs_f64(args.seconds * share);
            while Instant::now() < end {
                while driver.under_way.len() < depth {
                    driver.send();
                }
                driver.settle().await;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let requests = driver.answered - before;
    while !driver.under_way.is_empty() {
        driver.settle().await;
    }
    let failed = driver.failed;
    client.close().await.context("close the session")?;
    Ok(json!({ "requests": requests, "seconds": seconds, "errors": failed }))
}
