//! Watches over the holder's own znode and its session.

use std::time::Duration;

use zebu_client::{Client, SessionEvents, SessionState, Watch};

use crate::place::is_passing;

/// The data of a holder's znode once somebody has asked for it with another library: after the
/// original's description of locks, and Curator's. Here the holder's own data may be written again:
/// the new version says that it is asked for.
const WANTED: [&[u8]; 2] = [b"unlock", b"__REVOKE__"];

/// What a holder should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// The connection is lost: others may hold the lock by now. Stop what it protects until there
    /// is other news.
    Suspended,
    /// There is a connection again, and the lock was held all the time.
    Resumed,
    /// Somebody asks for it, see [`Lock::ask_back`](crate::Lock::ask_back).
    Wanted,
    /// It is not held any more: the session is over, or somebody deleted the holder's znode.
    Lost,
}

/// Tells the holder of a znode how it stands.
#[derive(Debug)]
pub(crate) struct Vigil {
    client: Client,
    path: String,
    events: SessionEvents,
    /// On the holder's own znode.
    watch: Option<Watch>,
    is_suspended: bool,
    /// Somebody asks for it; `None` once the holder was told.
    is_wanted: Option<bool>,
}

impl Vigil {
    pub(crate) fn new(client: &Client, path: &str, events: SessionEvents) -> Self {
        let (client, path) = (client.clone(), path.to_owned());
        Self { client, path, events, watch: None, is_suspended: false, is_wanted: Some(false) }
    }

    /// Waits until it is lost. It may be dropped, and called again.
    pub(crate) async fn lost(&mut self) {
        while self.news().await != News::Lost {}
    }

    /// Waits until there is something that the holder should know. It may be dropped, and called
    /// again.
    pub(crate) async fn news(&mut self) -> News {
        loop {
            if let Some(news) = self.look().await {
                return news;
            }
            if !self.is_suspended && self.is_wanted == Some(true) {
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
                    _ => return News::Lost,
                },
                () = change => self.watch = None,
            }
        }
    }

    /// Reads the holder's znode, and watches it, unless that is done already.
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
            Err(_) => Some(News::Lost),
        }
    }
}
