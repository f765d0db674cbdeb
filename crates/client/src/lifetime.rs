//! The session of a client: its state and its end.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use zebu_proto::{EnsembleId, SessionId};
use zebu_session::{Chroot, Failure};

use crate::mailbox::Mailbox;
use crate::pending::Seat;
use crate::shared::Command;
use crate::transaction::check_path;
use crate::{
    Client, Error, Pending, Result, SessionEvents, SessionState, SessionThread, SessionTicket,
    answer,
};

impl Client {
    /// The state of the session.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert_eq!(client.state(), zebu_client::SessionState::Connected);
    /// # Ok(()) });
    /// ```
    pub fn state(&self) -> SessionState {
        self.shared().status.borrow().state
    }

    /// Every change of the session's state from now on, as a stream.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut events = client.session_events();
    /// let watched = tokio::spawn(async move {
    ///     while let Some(state) = events.next().await {
    ///         println!("session is {state}");
    ///     }
    /// });
    /// client.close().await?;
    /// watched.await?;
    /// # Ok(()) });
    /// ```
    pub fn session_events(&self) -> SessionEvents {
        let states = Mailbox::new();
        self.shared().command(Command::Tell(states.clone()));
        SessionEvents::new(states)
    }

    /// Waits until the session is connected, to a server with or without a quorum.
    ///
    /// # Errors
    /// The session is over.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::Connector;
    ///
    /// let client = Connector::new().start(&address)?; // does not wait
    /// client.connected().await?;
    /// # Ok(()) });
    /// ```
    pub async fn connected(&self) -> Result<()> {
        let mut status = self.shared().status.subscribe();
        let settled = |state: SessionState| {
            use SessionState::{Connected, ConnectedReadOnly};
            state.is_over() || matches!(state, Connected | ConnectedReadOnly)
        };
        let state = match status.wait_for(|status| settled(status.state)).await {
            Ok(status) => status.state,
            Err(_) => SessionState::Closed,
        };
        match self.shared().ending() {
            Some(ending) if state.is_over() => Err(Error::failed(Failure::Over(ending), "")),
            _ => Ok(()),
        }
    }

    /// The session's id, or [`SessionId::NONE`] before there is one.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// let mine = client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator()).await?;
    /// assert_eq!(mine.stat.ephemeral_owner, client.session_id().0);
    /// # Ok(()) });
    /// ```
    pub fn session_id(&self) -> SessionId {
        self.shared().status.borrow().ticket.map_or(SessionId::NONE, |ticket| ticket.id)
    }

    /// The ticket with which another client can resume this session, see
    /// [`Connector::resume`](crate::Connector::resume). Keep it secret.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let ticket = client.ticket().expect("it is connected");
    /// assert_eq!(ticket.id, client.session_id());
    /// # Ok(()) });
    /// ```
    pub fn ticket(&self) -> Option<SessionTicket> {
        self.shared().status.borrow().ticket
    }

    /// The id of the ensemble that the session belongs to: the first one that a server has sent, or
    /// the [required one](crate::Connector::ensemble). `None` if no server has sent one; ZooKeeper
    /// servers have no such ids.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let ensemble = client.ensemble().expect("a server of ours tells it");
    /// assert_eq!(ensemble.to_string().len(), 32);
    /// # Ok(()) });
    /// ```
    pub fn ensemble(&self) -> Option<EnsembleId> {
        self.shared().status.borrow().ensemble
    }

    /// The time of day, from [`Connector::wall_clock`](crate::Connector::wall_clock) if it is set,
    /// otherwise from the system.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert!(client.wall_clock() > std::time::UNIX_EPOCH);
    /// # Ok(()) });
    /// ```
    pub fn wall_clock(&self) -> SystemTime {
        self.shared().wall_clock()
    }

    /// The session timeout that the servers have granted.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert_eq!(client.session_timeout().as_secs(), 10);
    /// # Ok(()) });
    /// ```
    pub fn session_timeout(&self) -> Duration {
        self.shared().status.borrow().timeout
    }

    /// The server that the session is connected to, if any.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert!(client.server().expect("it is connected").ip().is_loopback());
    /// # Ok(()) });
    /// ```
    pub fn server(&self) -> Option<SocketAddr> {
        self.shared().status.borrow().server
    }

    /// The known reason why there is no connection: the servers that could not be found or reached
    /// since the last one, and the result of each attempt. A text for users who wait.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert_eq!(client.trouble(), None);
    /// # Ok(()) });
    /// ```
    pub fn trouble(&self) -> Option<String> {
        self.shared().trouble().map(String::from)
    }

    /// The path of this client's root on the servers.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert_eq!(client.chroot(), "/");
    /// # Ok(()) });
    /// ```
    pub fn chroot(&self) -> &str {
        self.root().root()
    }

    /// A client of the same session whose root is this znode below the root of this client.
    ///
    /// The session, its watches and its ephemerals are shared: the session lasts until the last
    /// client is dropped. Each client names znodes from its own root, in requests, results, errors
    /// and events. The znode need not exist yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid path.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// client.create_all("/tenants/amy", &Acls::creator()).await?;
    /// let amy = client.with_chroot("/tenants/amy")?;
    /// let created = amy.create("/config", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// assert_eq!((created.path.as_str(), amy.chroot()), ("/config", "/tenants/amy"));
    /// assert!(client.exists("/tenants/amy/config").await?.is_some());
    /// assert_eq!(amy.session_id(), client.session_id());
    /// # Ok(()) });
    /// ```
    pub fn with_chroot(&self, path: &str) -> Result<Self> {
        check_path(path, false)?;
        let root = self.root().absolute(path);
        let chroot = Chroot::new(&root).map_err(|error| Error::path_refused(error, path))?;
        Ok(self.rooted(chroot))
    }

    /// The thread that runs the session.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Client, Connector};
    ///
    /// let client = Client::connect(&address).await?;
    /// // A second session that needs no thread of its own.
    /// let second = Connector::new().on_thread(client.thread()).connect(&address).await?;
    /// assert_ne!(client.session_id(), second.session_id());
    /// # Ok(()) });
    /// ```
    pub fn thread(&self) -> &SessionThread {
        &self.shared().thread
    }

    /// Ends the session, after all earlier requests. When this returns, the session's ephemerals
    /// are deleted.
    ///
    /// # Errors
    /// [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) if no server could be reached in time:
    /// then the servers end the session after its timeout.
    /// [`ErrorKind::SessionOver`](crate::ErrorKind::SessionOver) if the session had already ended.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// client.create("/gone", "", CreateMode::Ephemeral, &Acls::creator()).detach();
    /// client.close().await?;
    /// # Ok(()) });
    /// ```
    pub fn close(&self) -> Pending<()> {
        let placed = self.shared().close();
        self.pending("", placed, Seat::None, answer::nothing)
    }

    /// Ends this client, but not the session: another client can resume it with the ticket before
    /// its timeout. Requests without an answer fail, and watches end.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Client, Connector};
    ///
    /// let client = Client::connect(&address).await?;
    /// let ticket = client.leave().expect("it was connected");
    /// let again = Connector::new().resume(ticket).connect(&address).await?;
    /// assert_eq!(again.session_id(), ticket.id);
    /// # Ok(()) });
    /// ```
    pub fn leave(&self) -> Option<SessionTicket> {
        let ticket = self.ticket();
        self.shared().command(Command::Leave);
        ticket
    }
}
