//! The task of a cache: makes the reads that the mirror requests, and handles the watch.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use zebu_client::{
    Client, ErrorCode, ErrorKind, Notice, Pending, PersistentWatch, Stat, WatchMode,
};

use crate::{Error, Result, faults};

use super::mirror::{Depth, Found, Read};
use super::{Shared, Znode};

/// Maximum number of reads in flight.
const READS_MAX: usize = 64;

/// Pause after a server was too busy.
const PAUSE: Duration = Duration::from_millis(100);

/// The request for a znode's content.
enum Content {
    Data(Pending<(Bytes, Stat)>),
    Stat(Pending<Option<Stat>>),
}

/// A read in flight.
struct Flight {
    read: Read,
    content: Content,
    children: Option<Pending<(Vec<String>, Stat)>>,
    /// The content, if it has arrived before the list of children.
    arrived: Option<(Bytes, Stat)>,
}

impl Flight {
    /// Waits for the answers. The future may be dropped and called again.
    async fn land(&mut self) -> zebu_client::Result<Found> {
        let arrived = match self.arrived.take() {
            Some(arrived) => arrived,
            None => {
                let content = match &mut self.content {
                    Content::Data(pending) => pending.await,
                    Content::Stat(pending) => match pending.await {
                        Ok(None) => return Ok(Found::Gone),
                        Ok(Some(stat)) => Ok((Bytes::new(), stat)),
                        Err(error) => Err(error),
                    },
                };
                match content {
                    Ok(content) => content,
                    Err(error) => return absent(error),
                }
            }
        };
        let Some(pending) = &mut self.children else {
            return Ok(self.there(arrived, Vec::new()));
        };
        self.arrived = Some(arrived.clone());
        match pending.await {
            Ok((names, _)) => Ok(self.there(arrived, names)),
            Err(error) => absent(error),
        }
    }

    fn there(&self, (data, stat): (Bytes, Stat), children: Vec<String>) -> Found {
        Found::There(Znode { path: self.read.path.clone(), data, stat }, children)
    }
}

/// The znode does not exist, or this client may not read it.
fn absent(error: zebu_client::Error) -> zebu_client::Result<Found> {
    match error.kind() {
        ErrorKind::Gone | ErrorKind::Denied => Ok(Found::Gone),
        _ => Err(error),
    }
}

/// Whether another attempt may succeed, possibly much later.
fn may_pass(error: &zebu_client::Error) -> bool {
    use ErrorKind::{NotExecuted, ReadOnly, Server, Unknown};
    matches!(error.kind(), NotExecuted | Unknown | Server | ReadOnly)
}

/// Fills the cache, and keeps it up to date.
///
/// # Errors
/// The session has ended, or the cache exceeds its limits.
pub(super) async fn drive(client: &Client, shared: &Shared) -> Result<Infallible> {
    loop {
        let mut watch = match client.watch(shared.root(), shared.mode()).await {
            Ok(watch) => watch,
            Err(error) if may_pass(&error) => {
                wait(client).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        loop {
            match follow(client, shared, &mut watch).await? {
                Interruption::Missed => {}
                Interruption::Unheard => break,
                Interruption::Failed => {
                    shared.suspend();
                    wait(client).await?;
                }
            }
        }
        shared.suspend();
    }
}

async fn wait(client: &Client) -> Result<()> {
    tokio::time::sleep(PAUSE).await;
    Ok(client.connected().await?)
}

/// The reason why everything is read again.
enum Interruption {
    /// Events were lost.
    Missed,
    /// The watch was removed.
    Unheard,
    /// A read failed.
    Failed,
}

/// Reads everything, then follows the changes.
async fn follow(
    client: &Client,
    shared: &Shared,
    watch: &mut PersistentWatch,
) -> Result<Interruption> {
    let mut flights: VecDeque<Flight> = VecDeque::new();
    shared.restart();
    loop {
        while flights.len() < READS_MAX
            && let Some(read) = shared.next_read()
        {
            flights.push_back(take_off(client, shared, read));
        }
        let landing = async {
            match flights.front_mut() {
                Some(flight) => flight.land().await,
                None => std::future::pending().await,
            }
        };
        // Events are handled before answers, because an answer marks its path as up to date.
        tokio::select! {
            biased;
            notice = watch.next() => match notice {
                Ok(Notice::Event(event)) => shared.touch(&event.path)?,
                Ok(Notice::Disconnected | Notice::Missed) if faults::overhears_gaps() => {}
                Ok(Notice::Disconnected) => shared.suspend(),
                Ok(Notice::Missed) => return Ok(Interruption::Missed),
                Err(error) if error.code() == ErrorCode::NO_WATCHER => {
                    return Ok(Interruption::Unheard);
                }
                Err(error) => return Err(error.into()),
            },
            landed = landing => match landed {
                Ok(found) => {
                    let Some(flight) = flights.pop_front() else { continue };
                    shared.answer(&flight.read, found)?;
                }
                Err(error) if may_pass(&error) => return Ok(Interruption::Failed),
                Err(error) => return Err(Error::from(error)),
            },
        }
    }
}

fn take_off(client: &Client, shared: &Shared, read: Read) -> Flight {
    let content = match shared.keeps_data() {
        true => Content::Data(client.get_data(&read.path)),
        false => Content::Stat(client.exists(&read.path)),
    };
    let children = read.lists.then(|| client.get_children(&read.path));
    Flight { read, content, children, arrived: None }
}

/// The watch that reports all changes down to this depth.
pub(super) fn watch_mode(depth: Depth) -> WatchMode {
    match depth {
        Depth::Node => WatchMode::Persistent,
        Depth::Children | Depth::Tree => WatchMode::Recursive,
    }
}
