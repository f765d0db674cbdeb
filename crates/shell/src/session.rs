//! A shell's session: the client, what it hears, and the watches it has left.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_client::{
    Client, Connector, Notification, Notifications, Sasl, SessionEvents, SessionState, Tls,
    WatcherType, Zxid,
};

use crate::failure::{Failure, Result};

/// How long a command waits for a server, at most.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How sessions are opened.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    /// A server without a quorum will do.
    pub(crate) read_only: bool,
    /// Watches end with their connection.
    pub(crate) forget_watches: bool,
    /// Bytes of the largest request and answer, where they are limited.
    pub(crate) bytes_max: Option<usize>,
    /// How long a request may go unanswered, where that is limited.
    pub(crate) request_timeout: Option<Duration>,
    /// Who the user is.
    pub(crate) identities: Vec<Identity>,
    /// How connections are made over TLS, where they are.
    pub(crate) tls: Option<Tls>,
    /// Who the user proves to be with SASL.
    pub(crate) sasl: Option<Sasl>,
}

/// A scheme and the credentials for it, which are not shown to anybody.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) scheme: String,
    pub(crate) auth: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.scheme).finish()
    }
}

impl Identity {
    /// Reads `SCHEME:CREDENTIALS`. Errors name the place, not the text.
    ///
    /// # Errors
    /// There is no scheme, or there are no credentials.
    pub(crate) fn read(text: &str, place: &str) -> Result<Self> {
        match text.split_once(':') {
            Some((scheme, auth)) if !scheme.is_empty() && !auth.is_empty() => {
                Ok(Self { scheme: scheme.to_owned(), auth: auth.to_owned() })
            }
            _ => Err(Failure::new(format!("{place}: not SCHEME:CREDENTIALS"))
                .hint("such as digest:user:password")),
        }
    }

    /// Reads a line for each; empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// As [`Identity::read`].
    pub(crate) fn read_all(text: &str, place: &str, found: &mut Vec<Self>) -> Result {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                found.push(Self::read(line, &format!("{place}, line {number}"))?);
            }
        }
        Ok(())
    }
}

/// How often it is looked why there is no connection: not so soon that a server that is just starting is mentioned.
const TROUBLE_PAUSE: Duration = Duration::from_millis(400);

/// What a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

/// A watch that is only kept, so that it is not removed: its events are heard with all others.
type Kept = Box<dyn Any + Send>;

/// The watches a shell has left: one for each kind and path, as with the original's single watcher.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<(Kind, String), Kept>>>);

impl Watches {
    pub(crate) fn keep(&self, kind: Kind, path: &str, watch: impl Any + Send) {
        let before = self.0.lock().insert((kind, path.to_owned()), Box::new(watch));
        // Only now: the new one keeps the server from being told to forget it.
        drop(before);
    }

    /// Forgets watches; returns whether there were any.
    pub(crate) fn forget(&self, path: &str, removed: WatcherType) -> bool {
        use Kind::{Child, Data, Exist, Persistent, Recursive};
        let kinds: &[Kind] = match removed {
            WatcherType::Children => &[Child],
            WatcherType::Data => &[Data, Exist],
            WatcherType::Any => &[Data, Exist, Child, Persistent, Recursive],
            WatcherType::Persistent => &[Persistent],
            WatcherType::PersistentRecursive => &[Recursive],
        };
        let mut kept = self.0.lock();
        kinds.iter().filter(|kind| kept.remove(&(**kind, path.to_owned())).is_some()).count() > 0
    }
}

/// Something that happened while nobody asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The session's state is another.
    State(SessionState),
    /// A watch has fired.
    Watch(Notification, SessionState),
    /// There is no connection yet: why.
    Trouble(String),
}

impl News {
    /// One line, as the original prints it. Source: `WatchedEvent.toString`.
    pub(crate) fn line(&self) -> String {
        let (state, kind, path, zxid) = match self {
            Self::State(state) => (state, "None", "null", None),
            Self::Trouble(why) => return format!("no connection: {why}"),
            Self::Watch(event, state) => {
                (state, event.kind.name().unwrap_or("Unknown"), event.path.as_str(), event.zxid)
            }
        };
        let zxid = zxid.map_or(-1, |Zxid(zxid)| zxid);
        format!("WatchedEvent state:{state} type:{kind} path:{path} zxid: {zxid}")
    }
}

/// An open session.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) watches: Watches,
    states: SessionEvents,
    heard: Notifications,
    /// What was told of why there is no connection.
    told: Option<String>,
}

impl Session {
    /// Opens one, without waiting for a server.
    pub(crate) fn open(host: &str, settings: &Settings) -> Result<Self> {
        let mut connector = Connector::new()
            .session_timeout(settings.timeout)
            .connection_wait(settings.timeout.min(WAIT_MAX));
        if settings.read_only {
            connector = connector.allow_read_only();
        }
        if settings.forget_watches {
            connector = connector.forget_watches();
        }
        if let Some(bytes) = settings.bytes_max {
            connector = connector.request_bytes_max(bytes).answer_bytes_max(bytes);
        }
        if let Some(timeout) = settings.request_timeout {
            connector = connector.request_timeout(timeout);
        }
        if let Some(tls) = &settings.tls {
            connector = connector.tls(tls.clone());
        }
        if let Some(sasl) = &settings.sasl {
            connector = connector.sasl(sasl.clone());
        }
        for Identity { scheme, auth } in &settings.identities {
            connector = connector.authenticate(scheme, auth);
        }
        let states = connector.session_events();
        let client = connector.start(host)?;
        let heard = client.notifications();
        Ok(Self { client, watches: Watches::default(), states, heard, told: None })
    }

    /// The next thing that happens; waits for ever when the session is over and everything is told.
    pub(crate) async fn news(&mut self) -> News {
        loop {
            let is_alone = matches!(
                self.client.state(),
                SessionState::Connecting | SessionState::Disconnected
            );
            tokio::select! {
                biased;
                Some(state) = self.states.next() => {
                    self.told = None;
                    return News::State(state);
                }
                Some(event) = self.heard.next() => {
                    return News::Watch(event, self.client.state());
                }
                () = tokio::time::sleep(TROUBLE_PAUSE), if is_alone => {
                    let trouble = self.client.trouble();
                    if trouble.is_some() && self.told != trouble {
                        self.told.clone_from(&trouble);
                        return News::Trouble(trouble.unwrap_or_default());
                    }
                }
                else => pending().await,
            }
        }
    }

    /// The state as the original's prompt names it. Source: `ZooKeeper.States`.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.client.state() {
            SessionState::Connected => "CONNECTED",
            SessionState::ConnectedReadOnly => "CONNECTEDREADONLY",
            SessionState::AuthFailed => "AUTH_FAILED",
            SessionState::Expired | SessionState::Closed => "CLOSED",
            _ => "CONNECTING",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-10, WAT-06.
    #[test]
    fn events_are_told_as_the_original_tells_them() {
        assert_eq!(
            News::State(SessionState::Connected).line(),
            "WatchedEvent state:SyncConnected type:None path:null zxid: -1"
        );
    }
}
