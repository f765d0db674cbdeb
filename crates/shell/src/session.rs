//! A shell's session: the client, its events, and the watches that commands have set.

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

/// Maximum time that a command waits for a connection.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Settings of sessions.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    /// Whether a server without a quorum may be used.
    pub(crate) read_only: bool,
    /// Whether watches end with their connection.
    pub(crate) forget_watches: bool,
    /// Maximum bytes of a request and of an answer, if limited.
    pub(crate) bytes_max: Option<usize>,
    /// Maximum time until an answer, if limited.
    pub(crate) request_timeout: Option<Duration>,
    /// The user's credentials.
    pub(crate) identities: Vec<Identity>,
    /// TLS settings, if TLS is used.
    pub(crate) tls: Option<Tls>,
    /// SASL credentials, if SASL is used.
    pub(crate) sasl: Option<Sasl>,
}

/// A scheme and its credentials, which are never printed.
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
    /// Parses `SCHEME:CREDENTIALS`. Errors name the place, not the text.
    ///
    /// # Errors
    /// The scheme or the credentials are missing.
    pub(crate) fn read(text: &str, place: &str) -> Result<Self> {
        match text.split_once(':') {
            Some((scheme, auth)) if !scheme.is_empty() && !auth.is_empty() => {
                Ok(Self { scheme: scheme.to_owned(), auth: auth.to_owned() })
            }
            _ => Err(Failure::new(format!("{place}: not SCHEME:CREDENTIALS"))
                .hint("such as digest:user:password")),
        }
    }

    /// Parses one identity a line. Empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// As for [`Identity::read`].
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

/// Interval of the checks why there is no connection. Long enough not to report a server that is
/// just starting.
const TROUBLE_PAUSE: Duration = Duration::from_millis(400);

/// The event that a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

/// A watch that is kept so that it is not removed. Its events arrive in the client's event stream.
type Kept = Box<dyn Any + Send>;

/// The watches that commands have set: one for each kind and path, as with the original's single
/// watcher.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<(Kind, String), Kept>>>);

impl Watches {
    pub(crate) fn keep(&self, kind: Kind, path: &str, watch: impl Any + Send) {
        let before = self.0.lock().insert((kind, path.to_owned()), Box::new(watch));
        // The old watch is dropped last: the new one prevents its removal at the server.
        drop(before);
    }

    /// Removes watches. Returns whether there were any.
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

/// An event that no command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The session's state has changed.
    State(SessionState),
    /// A watch has fired.
    Watch(Notification, SessionState),
    /// There is no connection yet, for this reason.
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
    /// The last reported reason why there is no connection.
    told: Option<String>,
}

impl Session {
    /// Opens a session without waiting for a connection.
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

    /// The next event. Waits forever after the session has ended and all events were returned.
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
            SessionState::Expired | SessionState::Closed | SessionState::OtherEnsemble { .. } => {
                "CLOSED"
            }
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
