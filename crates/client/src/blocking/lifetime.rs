//! The session of a blocking client: its state and its end.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use zebu_proto::{EnsembleId, SessionId};

use crate::blocking::Client;
use crate::{
    Metrics, Notifications, Pending, Result, SessionEvents, SessionState, SessionThread,
    SessionTicket,
};

impl Client {
    /// The state of the session.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_eq!(client.state(), SessionState::Connected);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn state(&self) -> SessionState {
        self.client.state()
    }

    /// The minimum time for which the servers keep this session if they receive nothing more from
    /// this client; see [`Client::session_left`](crate::Client::session_left).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert!(!client.session_left().is_zero());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn session_left(&self) -> Duration {
        self.client.session_left()
    }

    /// Waits until the session may have ended; see
    /// [`Client::session_in_doubt`](crate::Client::session_in_doubt).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.close()?;
    /// client.session_in_doubt();
    /// # Ok::<(), Error>(())
    /// ```
    pub fn session_in_doubt(&self) {
        self.wait(self.client.session_in_doubt());
    }

    /// Counters of this session's work; see [`Client::metrics`](crate::Client::metrics).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.exists("/")?;
    /// assert_eq!(client.metrics().pending(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.client.metrics()
    }

    /// Every change of the session's state from now on; [`Client::wait`] waits for the next. To
    /// learn of the first connection, use
    /// [`Connector::session_events`](crate::Connector::session_events).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let mut events = client.session_events();
    /// client.close()?;
    /// assert_eq!(client.wait(events.next()), Some(SessionState::Closed));
    /// assert_eq!(client.wait(events.next()), None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn session_events(&self) -> SessionEvents {
        self.client.session_events()
    }

    /// Every notification that fires one of this client's watches, from now on and each once.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let mut notifications = client.notifications();
    /// let (_, _, _watch) = client.watch_data("/")?;
    /// client.set_data("/", "new", Version::ANY)?;
    /// let notification = client.wait(notifications.next()).expect("the session lasts");
    /// assert_eq!(notification.to_string(), "NodeDataChanged /");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn notifications(&self) -> Notifications {
        self.client.notifications()
    }

    /// Waits until the session is connected, to a server with or without a quorum.
    ///
    /// # Errors
    /// The session is over.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let client = Client::start(Connector::new(), &address)?;
    /// client.connected()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn connected(&self) -> Result<()> {
        self.wait(self.client.connected())
    }

    /// The session's id, or [`SessionId::NONE`] before there is one.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_ne!(client.session_id(), SessionId::NONE);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn session_id(&self) -> SessionId {
        self.client.session_id()
    }

    /// See [`Client::unique_name`](crate::Client::unique_name).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let client = Client::open(Connector::new(), &address)?;
    /// assert_ne!(client.unique_name(), client.unique_name());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn unique_name(&self) -> String {
        self.client.unique_name()
    }

    /// The ticket with which another client can resume this session. Keep it secret.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_eq!(client.ticket().expect("it is connected").id, client.session_id());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn ticket(&self) -> Option<SessionTicket> {
        self.client.ticket()
    }

    /// The id of the ensemble that the session belongs to, if a server has sent one.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert!(client.ensemble().is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn ensemble(&self) -> Option<EnsembleId> {
        self.client.ensemble()
    }

    /// The time of day, from [`Connector::wall_clock`](crate::Connector::wall_clock) if it is set,
    /// otherwise from the system.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert!(client.wall_clock() > std::time::UNIX_EPOCH);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn wall_clock(&self) -> SystemTime {
        self.client.wall_clock()
    }

    /// The session timeout that the servers have granted.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_eq!(client.session_timeout().as_secs(), 10);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn session_timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// The server that the session is connected to, if any.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_eq!(client.server(), Some(server.address()));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn server(&self) -> Option<SocketAddr> {
        self.client.server()
    }

    /// The known reason why there is no connection: the servers that could not be found or reached
    /// since the last one, and the result of each attempt. A text for users who wait.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// let client = Client::connect(&address)?;
    /// assert_eq!(client.trouble(), None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn trouble(&self) -> Option<String> {
        self.client.trouble()
    }

    /// The path of this client's root on the servers.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_eq!(client.chroot(), "/");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn chroot(&self) -> &str {
        self.client.chroot()
    }

    /// A client of the same session with another root: see
    /// [`Client::with_chroot`](crate::Client::with_chroot).
    ///
    /// # Errors
    /// As [`Client::with_chroot`](crate::Client::with_chroot).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let own = client.with_chroot("/zookeeper")?;
    /// assert!(own.exists("/quota")?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_chroot(&self, path: &str) -> Result<Self> {
        Ok(Self { client: self.client.with_chroot(path)? })
    }

    /// The thread that runs the session.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// let client = Client::connect(&address)?;
    /// // A second session that needs no thread of its own.
    /// let second = Client::open(Connector::new().on_thread(client.thread()), &address)?;
    /// assert_ne!(client.session_id(), second.session_id());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn thread(&self) -> &SessionThread {
        self.client.thread()
    }

    /// A client of the same session that does not keep the session open: the session is closed when
    /// all other clients are dropped. See [`Client::unowned`](crate::Client::unowned).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// let client = Client::connect(&address)?;
    /// let unowned = client.unowned();
    /// drop(client);
    /// assert_eq!(unowned.exists("/").unwrap_err().kind(), ErrorKind::SessionOver);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn unowned(&self) -> Self {
        Self { client: self.client.unowned() }
    }

    /// Ends the session, after all earlier requests. When this returns, the session's ephemerals
    /// are deleted.
    ///
    /// # Errors
    /// As [`Client::close`](crate::Client::close).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.close()?;
    /// assert_eq!(client.state(), SessionState::Closed);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        let closed: Pending<()> = self.client.close();
        self.wait(closed)
    }

    /// Ends this client but not the session, see [`Client::leave`](crate::Client::leave).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let ticket = client.leave().expect("it was connected");
    /// let again = Client::open(Connector::new().resume(ticket), &address)?;
    /// assert_eq!(again.session_id(), ticket.id);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn leave(&self) -> Option<SessionTicket> {
        self.client.leave()
    }
}
