//! Watches over the holder's own znode and its session.

use std::time::Duration;

use zebu_client::{Client, SessionEvents, SessionState, Watch};

use crate::faults;
use crate::place::is_passing;

/// Data that a process with another library writes into a holder's znode to ask for the lock: the
/// original's description of locks uses the first, Curator the second. A process with this crate
/// writes the holder's own data again, and the new version is the request.
const WANTED: [&[u8]; 2] = [b"unlock", b"__REVOKE__"];

/// News for a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// The connection is lost: another process may hold the lock by now. Stop using the protected
    /// resource until the next news.
    Suspended,
    /// The connection is restored, and the lock was held all the time.
    Resumed,
    /// Another process asks for the lock, see [`Lock::ask_back`](crate::Lock::ask_back).
    Wanted,
    /// The lock is lost: the session has ended, or another process deleted the holder's znode.
    Lost,
}

/// Reports news about the znode of a holder.
#[derive(Debug)]
pub(crate) struct Vigil {
    client: Client,
    path: String,
    events: SessionEvents,
    /// Watches the holder's own znode.
    watch: Option<Watch>,
    is_suspended: bool,
    /// Whether another process asks for the lock; `None` after the holder has got that news.
    is_wanted: Option<bool>,
}

impl Vigil {
    pub(crate) fn new(client: &Client, path: &str, events: SessionEvents) -> Self {
        let (client, path) = (client.clone(), path.to_owned());
        Self { client, path, events, watch: None, is_suspended: false, is_wanted: Some(false) }
    }

    /// Waits until the lock is lost. The future may be dropped and called again.
    pub(crate) async fn lost(&mut self) {
        while self.news().await != News::Lost {}
    }

    /// Waits until there is news for the holder. The future may be dropped and called again.
    pub(crate) async fn news(&mut self) -> News {
        loop {
            if let Some(news) = self.look().await {
                return news;
            }
            if !self.is_suspended && self.is_wanted == Some(true) && !faults::hears_no_request() {
                self.is_wanted = None;
                return News::Wanted;
            }
            let change = async {
                match &mut self.watch {
                    Some(watch) => drop(watch.await),
                    // The session's state is about to change, or the server was too busy.
                    None => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            };
            tokio::select! {
                biased;
                state = self.events.next() => match state {
                    Some(SessionState::Disconnected) if !self.is_suspended => {
                        self.is_suspended = true;
                        self.watch = None;
                        return News::Suspended;
                    }
                    Some(state) if !state.is_over() => {}
                    _ if faults::is_deaf_to_its_loss() => std::future::pending().await,
                    _ => return News::Lost,
                },
                () = change => self.watch = None,
            }
        }
    }

    /// Reads the holder's znode and sets a watch, unless one is set already.
    async fn look(&mut self) -> Option<News> {
        if self.watch.is_some() || self.client.state() != SessionState::Connected {
            return None;
        }
        match self.client.watch_data(&self.path).await {
            Ok((data, stat, watch)) => {
                self.watch = Some(watch);
                self.is_wanted =
                    self.is_wanted.map(|_| stat.version > 0 || WANTED.contains(&&*data));
                std::mem::take(&mut self.is_suspended).then_some(News::Resumed)
            }
            Err(error) if is_passing(&error) => None,
            Err(_) if faults::is_deaf_to_its_loss() => None,
            Err(_) => Some(News::Lost),
        }
    }
}
