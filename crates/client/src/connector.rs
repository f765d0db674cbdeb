//! [`Connector`]: the settings of a session, and how it is opened.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use tracing::{Instrument as _, info, info_span};
use zebu_proto::{ConnectString, EnsembleId};
use zebu_session::{Chroot, Failure, Options};

use crate::client::{SASL, SASL_FAULT};
use crate::clock::Clock;
use crate::driver::Driver;
use crate::hosts::{HostProvider, Names, Rank, Ranked};
use crate::mailbox::Mailbox;
use crate::members::{self, Members};
use crate::shared::Shared;
use crate::state::{Announcer, SessionEvents, SessionState, Status};
use crate::stream::Dialer;
use crate::{Acls, Client, Error, Result, Retry, SessionThread, SessionTicket};

/// The error for the combination of TLS and `follow_members`.
#[cfg(feature = "tls")]
const NO_TLS_PORTS: &str =
    "Connector::follow_members: the configuration of an ensemble names no ports for TLS";

/// The error of a client with TLS and a custom transport.
#[cfg(feature = "tls")]
const NO_TLS_OVER: &str = "Connector::transport: a transport that encrypts does so itself";

/// The beginning of a connect string that names a service of the DNS.
const SERVICE: &str = "dns-srv://";

/// The settings of a session, and the way to open it.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::with_server(async |server| {
/// # let address = server.address().to_string();
/// use std::time::Duration;
/// use zebu_client::Connector;
///
/// let client = Connector::new()
///     .session_timeout(Duration::from_secs(15))
///     .authenticate("digest", "amy:secret")
///     .connect(&address)
///     .await?;
/// assert_eq!(client.session_timeout(), Duration::from_secs(15));
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Connector {
    options: Options,
    connection_wait: Option<Duration>,
    answer_bytes_max: usize,
    chroot: Option<String>,
    chroot_acl: Option<Acls>,
    credentials: Vec<(String, Vec<u8>)>,
    rank: Option<Arc<Rank>>,
    follows: bool,
    audience: Vec<Arc<Announcer>>,
    thread: Option<SessionThread>,
    clock: Clock,
    dialer: Dialer,
    #[cfg(feature = "sasl")]
    sasl: Option<crate::Sasl>,
    /// The origin of the servers' names, for the log.
    servers: Option<String>,
}

/// Without the credentials.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schemes: Vec<&str> = self.credentials.iter().map(|(scheme, _)| &**scheme).collect();
        f.debug_struct("Connector")
            .field("options", &self.options)
            .field("connection_wait", &self.connection_wait)
            .field("answer_bytes_max", &self.answer_bytes_max)
            .field("chroot", &self.chroot)
            .field("chroot_acl", &self.chroot_acl)
            .field("credentials", &schemes)
            .finish_non_exhaustive()
    }
}

impl Default for Connector {
    fn default() -> Self {
        Self::new()
    }
}

impl Connector {
    /// The default settings: a session timeout of 10 s, no credentials, no read-only servers.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// let client = zebu_client::Connector::new().connect(&address).await?;
    /// # drop(client);
    /// # Ok(()) });
    /// ```
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seed = now.as_nanos() as u64 ^ u64::from(std::process::id()) << 32;
        Self {
            options: Options { seed, asks_ensemble: true, ..Options::default() },
            connection_wait: None,
            answer_bytes_max: 64 << 20,
            chroot: None,
            chroot_acl: None,
            credentials: Vec::new(),
            rank: None,
            follows: false,
            audience: Vec::new(),
            thread: None,
            clock: Clock::default(),
            dialer: Dialer::default(),
            #[cfg(feature = "sasl")]
            sasl: None,
            servers: None,
        }
    }

    /// The session timeout: if the servers receive nothing from the client for this time, they may
    /// end the session and remove its ephemerals. The servers limit the timeout to their own range.
    /// Default: 10 s.
    ///
    /// After a third of the timeout without traffic, the client sends a heartbeat. After two thirds
    /// without an answer, it looks for another server.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use std::time::Duration;
    /// use zebu_client::Connector;
    ///
    /// let client = Connector::new().session_timeout(Duration::from_secs(6)).connect(&address).await?;
    /// assert_eq!(client.session_timeout(), Duration::from_secs(6));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Maximum time that a request waits for a connection. Then it fails unsent, with
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted). Default: the session timeout.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zebu_client::{Connector, ErrorKind};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let nobody = "127.0.0.1:1";
    /// let impatient = Connector::new().connection_wait(Duration::from_millis(50));
    /// let error = impatient.connect(nobody).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotExecuted);
    /// # });
    /// ```
    #[must_use]
    pub fn connection_wait(mut self, wait: Duration) -> Self {
        self.connection_wait = Some(wait);
        self
    }

    /// Maximum time for the answer to a request, counted from the call. By default, the client
    /// waits as long as the connection lives. A silent server loses its connection after two thirds
    /// of the session timeout.
    ///
    /// A sent request that takes longer fails with
    /// [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) and the code
    /// [`REQUEST_TIMEOUT`](crate::ErrorCode::REQUEST_TIMEOUT). Answers come in order, so later
    /// requests would get no answer in time either: the client closes the connection, and the
    /// session continues at another server. A request that still waits for a connection fails with
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use std::time::Duration;
    /// use zebu_client::Connector;
    ///
    /// let connector = Connector::new().request_timeout(Duration::from_secs(5));
    /// let client = connector.connect(&address).await?;
    /// client.get_data("/").await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.options.request_timeout = Some(timeout);
        self
    }

    /// A stream of all state changes of the session that this connector will open. It begins with
    /// [`SessionState::Connected`]. A program that calls [`Client::session_events`] after
    /// connecting may miss that first change.
    ///
    /// If clones of this connector open several sessions, the stream has the changes of all of
    /// them, and ends with the last one.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Connector, SessionState};
    ///
    /// let mut connector = Connector::new();
    /// let mut events = connector.session_events();
    /// let client = connector.connect(&address).await?;
    /// assert_eq!(events.next().await, Some(SessionState::Connected));
    /// client.close().await?;
    /// assert_eq!(events.next().await, Some(SessionState::Closed));
    /// # Ok(()) });
    /// ```
    pub fn session_events(&mut self) -> SessionEvents {
        let states = Mailbox::new();
        self.audience.push(Arc::new(Announcer(states.clone())));
        SessionEvents::new(states)
    }

    /// Gives the session up if the client reaches no server for this time. By default, the client
    /// looks for servers until it is closed, because only a server knows whether the session has
    /// ended.
    ///
    /// The session ends as [`SessionState::GivenUp`](crate::SessionState::GivenUp), and all
    /// requests fail with [`ErrorKind::SessionOver`](crate::ErrorKind::SessionOver). The servers
    /// end the session after its timeout; until then [`Connector::resume`] can continue it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zebu_client::{Connector, Ending, ErrorKind};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let nobody = "127.0.0.1:1";
    /// let client = Connector::new().give_up_after(Duration::from_millis(50)).start(nobody).unwrap();
    /// let error = client.get_data("/").await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::SessionOver);
    /// assert_eq!(error.ending(), Some(Ending::GivenUp));
    /// # });
    /// ```
    #[must_use]
    pub fn give_up_after(mut self, time: Duration) -> Self {
        self.options.give_up = Some(time);
        self
    }

    /// Uses servers of this ensemble only, see [`Client::ensemble`](crate::Client::ensemble).
    ///
    /// By default, the first server that sends the id of its ensemble decides. If the client
    /// reaches a server of another ensemble, the connect string is wrong: the session ends as
    /// [`SessionState::OtherEnsemble`](crate::SessionState::OtherEnsemble), before the client sends
    /// a request to that server. The client also uses servers without such an id, for example those
    /// of ZooKeeper.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Connector, Ending, EnsembleId};
    ///
    /// let elsewhere = EnsembleId(7);
    /// let error = Connector::new().ensemble(elsewhere).connect(&address).await.unwrap_err();
    /// assert!(matches!(error.ending(), Some(Ending::OtherEnsemble { own, .. }) if own == elsewhere));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn ensemble(mut self, id: EnsembleId) -> Self {
        self.options.ensemble = Some(id);
        self
    }

    /// Sets the function that ranks servers. In each round, the client tries servers of a smaller
    /// rank first, and servers of the same rank in random order. A connected session does not move
    /// when a server of a smaller rank returns.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use std::net::SocketAddr;
    /// use zebu_client::Connector;
    ///
    /// /// This machine's, then those of this site, then the others.
    /// fn distance(server: SocketAddr) -> u32 {
    ///     match server.ip().to_canonical() {
    ///         ip if ip.is_loopback() => 0,
    ///         std::net::IpAddr::V4(ip) if ip.octets()[..2] == [10, 1] => 1,
    ///         _ => 2,
    ///     }
    /// }
    ///
    /// let client = Connector::new().prefer(distance).connect(&address).await?;
    /// # drop(client);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn prefer(mut self, rank: impl Fn(SocketAddr) -> u32 + Send + Sync + 'static) -> Self {
        self.rank = Some(Arc::new(rank));
        self
    }

    /// Lets the session use a server without a quorum until the client finds a better one. Reads
    /// work, but may be out of date by any length of time.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Connector, SessionState};
    ///
    /// let client = Connector::new().allow_read_only().connect(&address).await?;
    /// if client.state() == SessionState::ConnectedReadOnly {
    ///     println!("careful");
    /// }
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn allow_read_only(mut self) -> Self {
        self.options.read_only = true;
        self
    }

    /// The oldest release of ZooKeeper among the servers, major and minor number. Only needed for
    /// servers before 3.7.
    ///
    /// A request that servers of that release do not know fails with the code
    /// [`UNIMPLEMENTED`](crate::ErrorCode::UNIMPLEMENTED) and is not sent: such a server would
    /// close the connection, and with it all other requests. Watches that are dropped are not
    /// removed at servers of 3.4.
    ///
    /// Servers of 3.4 tell only the path of a created znode.
    /// [`Created::stat`](crate::Created::stat) is complete except for the times, which are 0.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Acls, Connector, CreateMode, ErrorCode};
    ///
    /// let client = Connector::new().server_version(3, 4).connect(&address).await?;
    /// let created = client.create("/a", "data", CreateMode::Persistent, &Acls::open_to_all()).await?;
    /// assert_eq!((created.stat.data_length, created.stat.ctime), (4, 0));
    /// let error = client.create("/b", "", CreateMode::Container, &Acls::open_to_all()).await.unwrap_err();
    /// assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn server_version(mut self, major: u16, minor: u16) -> Self {
        self.options.server_version = (major, minor);
        self
    }

    /// Ends watches with their connection, instead of restoring them on the next one: each watch
    /// gets an event [`EventKind::WatchRemoved`](crate::EventKind::WatchRemoved). For programs that
    /// read everything again after a lost connection.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// let client = zebu_client::Connector::new().forget_watches().connect(&address).await?;
    /// let (_data, _stat, _watch) = client.watch_data("/").await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn forget_watches(mut self) -> Self {
        self.options.restore_watches = false;
        self
    }

    /// Continues the session of this [ticket](Client::ticket) instead of opening a new one.
    ///
    /// The session still has its ephemerals, but no watches. If the session has ended, connecting
    /// fails with [`ErrorKind::SessionOver`](crate::ErrorKind::SessionOver).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Client, Connector, ErrorKind};
    ///
    /// let client = Client::connect(&address).await?;
    /// let ticket = client.ticket().expect("it is connected");
    /// client.close().await?;
    /// let error = Connector::new().resume(ticket).connect(&address).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::SessionOver);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn resume(mut self, ticket: SessionTicket) -> Self {
        self.options.resume = Some(ticket);
        self
    }

    /// Runs the session on this thread, together with other sessions, instead of on a separate
    /// thread.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Connector, SessionThread};
    ///
    /// let thread = SessionThread::start()?;
    /// let one = Connector::new().on_thread(&thread).connect(&address).await?;
    /// let two = Connector::new().on_thread(&thread).connect(&address).await?;
    /// # drop((one, two));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn on_thread(mut self, thread: &SessionThread) -> Self {
        self.thread = Some(thread.clone());
        self
    }

    /// Makes connections with this transport instead of the system's TCP. The client adds no TLS to
    /// them; a transport can encrypt by itself.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use zebu_client::{Connector, Dialed, ErrorKind, Transport};
    ///
    /// struct Down;
    ///
    /// impl Transport for Down {
    ///     fn dial(&self, _server: SocketAddr) -> Dialed<'_> {
    ///         Box::pin(async { Err(std::io::ErrorKind::NetworkDown.into()) })
    ///     }
    /// }
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let wait = std::time::Duration::from_millis(50);
    /// let connector = Connector::new().transport(Down).connection_wait(wait);
    /// let error = connector.connect("127.0.0.1:2181").await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotExecuted);
    /// # });
    /// ```
    #[must_use]
    pub fn transport(mut self, transport: impl crate::Transport) -> Self {
        self.dialer.transport = Some(Arc::new(transport));
        self
    }

    /// Reads the time of day from this clock instead of the system's, for [`Client::wall_clock`].
    /// For tests, and for programs whose time is simulated.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use std::time::UNIX_EPOCH;
    ///
    /// let connector = zebu_client::Connector::new().wall_clock(|| UNIX_EPOCH);
    /// assert_eq!(connector.connect(&address).await?.wall_clock(), UNIX_EPOCH);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn wall_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Clock::new(clock);
        self
    }

    /// Presents credentials from the first connection on, as [`Client::authenticate`] does later.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Acls, Connector, CreateMode};
    ///
    /// let client = Connector::new().authenticate("digest", "amy:secret").connect(&address).await?;
    /// client.create("/mine", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn authenticate(mut self, scheme: &str, auth: impl AsRef<[u8]>) -> Self {
        self.credentials.push((scheme.to_owned(), auth.as_ref().to_vec()));
        self
    }

    /// Makes all connections over TLS, to the servers' `secureClientPort`. The client never falls
    /// back to plain text: it does not use a server without TLS or with an invalid certificate, and
    /// [`Client::trouble`] returns the reason.
    ///
    /// Opening a session reads the stores on the calling thread, once for a connector and its
    /// clones. It fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a store cannot be
    /// used. The handshake is part of the attempt to connect: if a server does not finish it in
    /// time, the client tries another server. Needs the feature `tls` of this crate.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let trusted = format!("{folder}/ca.pem");
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use zebu_client::{Connector, Tls};
    ///
    /// let connector = Connector::new().tls(Tls::new().trust_store(trusted));
    /// // Nobody is there.
    /// let connector = connector.connection_wait(Duration::from_millis(50));
    /// assert!(connector.connect("localhost:1").await.is_err());
    /// # });
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.dialer.tls = Some(Arc::new(crate::tls::Material::new(tls)));
        self
    }

    /// Authenticates with SASL at the beginning of each connection, before any request. Needs the
    /// feature `sasl` of this crate.
    ///
    /// The session is usable when both sides have proved their identities. If a server refuses the
    /// client, or does not prove that it knows the password, the session ends with
    /// [`ErrorKind::SessionOver`](crate::ErrorKind::SessionOver); [`Error::reason`] contains the
    /// reason.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use zebu_client::{Connector, Sasl};
    ///
    /// let connector = Connector::new().sasl(Sasl::digest_md5("amy", "secret"));
    /// // Nobody is there.
    /// let connector = connector.connection_wait(Duration::from_millis(50));
    /// assert!(connector.connect("localhost:1").await.is_err());
    /// # });
    /// ```
    #[cfg(feature = "sasl")]
    #[must_use]
    pub fn sasl(mut self, sasl: crate::Sasl) -> Self {
        self.options.sasl = true;
        self.sasl = Some(sasl);
        self
    }

    /// Makes a znode the client's root, instead of the one at the end of the connect string. The
    /// client creates it only with [`Connector::create_chroot`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// let client = zebu_client::Connector::new().chroot("/zookeeper").connect(&address).await?;
    /// assert!(client.exists("/quota").await?.is_some());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn chroot(mut self, path: &str) -> Self {
        self.chroot = Some(path.to_owned());
        self
    }

    /// Creates the client's root and its parents with this ACL if they are missing.
    /// [`Connector::connect`] and [`Connector::connect_to`] return when the root exists. Without
    /// this, every request fails with [`ErrorKind::Gone`](crate::ErrorKind::Gone) until another
    /// client has created the root.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Acls, Connector, CreateMode};
    ///
    /// let connector = Connector::new().authenticate("digest", "amy:secret");
    /// let servers = format!("{address}/apps/mine");
    /// let client = connector.create_chroot(Acls::creator()).connect(&servers).await?;
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn create_chroot(mut self, acl: Acls) -> Self {
        self.chroot_acl = Some(acl);
        self
    }

    /// Maximum bytes of a request. A larger one fails with
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid); a server would close the connection, and
    /// with it all other requests. Default: 1 MiB − 1, the servers' `jute.maxbuffer`.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Connector, ErrorKind, Version};
    ///
    /// let client = Connector::new().request_bytes_max(1000).connect(&address).await?;
    /// let error = client.set_data("/", [0; 1000], Version::ANY).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Invalid);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.options.request_bytes_max = bytes;
        self
    }

    /// Maximum bytes of an answer. At a larger answer, the client closes the connection. Default:
    /// 64 MiB, because a long list of children can be larger than any request.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::Connector;
    ///
    /// let client = Connector::new().answer_bytes_max(1 << 20).connect(&address).await?;
    /// # drop(client);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.answer_bytes_max = bytes;
        self
    }

    /// Maximum number of requests without an answer. Further requests fail at once with
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted). Default: 131,072.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::Connector;
    ///
    /// let client = Connector::new().pending_max(1000).connect(&address).await?;
    /// # drop(client);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn pending_max(mut self, requests: usize) -> Self {
        self.options.pending_max = requests;
        self
    }

    /// The seed of all random decisions: the order of the servers, and the delays between attempts.
    /// By default it comes from the clock. For tests.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// let client = zebu_client::Connector::new().seed(7).connect(&address).await?;
    /// # drop(client);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Follows the membership of the ensemble: the client reads and watches the ensemble's
    /// configuration (`/zookeeper/config`), and connects to its members. So a running client learns
    /// of servers that join by reconfiguration, and does not return to servers that have left. Off
    /// by default.
    ///
    /// The client uses the servers of the connect string until it knows the members. It uses them
    /// again if it cannot connect to any member, because their names may stand for other servers by
    /// then. It leaves out members without a client address in the configuration. If a member
    /// listens for clients on all addresses, the client uses the member's address for other
    /// servers. The client stays with its server until that connection ends.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// // A server that stands alone keeps no configuration: the connect string goes on to count.
    /// let client = zebu_client::Connector::new().follow_members(true).connect(&address).await?;
    /// # drop(client);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn follow_members(mut self, follow: bool) -> Self {
        self.follows = follow;
        self
    }

    /// Opens the session, and waits until it is established.
    ///
    /// The client resolves the names again for each round of attempts to connect. It tries all
    /// addresses of a name, in random order.
    ///
    /// # Errors
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted) if no server is reachable within
    /// [`Connector::connection_wait`]; [`ErrorKind::SessionOver`](crate::ErrorKind::SessionOver) if
    /// the session to resume has ended, or the credentials are refused;
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid connect string, or an
    /// unusable store of keys or certificates.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let port = server.address().port();
    /// use zebu_client::Connector;
    ///
    /// let servers = format!("localhost:{port}, 127.0.0.1:{port}/zookeeper");
    /// let client = Connector::new().connect(&servers).await?;
    /// assert_eq!(client.chroot(), "/zookeeper");
    /// # Ok(()) });
    /// ```
    pub async fn connect(self, connect_string: &str) -> Result<Client> {
        let (wait, acl) = (self.wait(), self.chroot_acl.clone());
        connected(self.start(connect_string)?, wait, acl).await
    }

    /// As [`Connector::connect`], to the servers of a [`HostProvider`].
    ///
    /// # Errors
    /// As [`Connector::connect`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// use zebu_client::{Connector, HostProvider, Servers};
    ///
    /// struct Fixed(Vec<std::net::SocketAddr>);
    ///
    /// impl HostProvider for Fixed {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async { Ok(self.0.clone()) })
    ///     }
    /// }
    ///
    /// let client = Connector::new().connect_to(Fixed(vec![server.address()])).await?;
    /// # drop(client);
    /// # Ok(()) });
    /// ```
    pub async fn connect_to(self, hosts: impl HostProvider) -> Result<Client> {
        let (wait, acl) = (self.wait(), self.chroot_acl.clone());
        connected(self.start_with(hosts)?, wait, acl).await
    }

    /// Opens the session without waiting. Requests are sent when a connection is established.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid connect string,
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted) if the system has no thread for
    /// the session.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// let client = zebu_client::Connector::new().start(&address)?;
    /// assert!(client.exists("/").await?.is_some());
    /// # Ok(()) });
    /// ```
    pub fn start(mut self, connect_string: &str) -> Result<Client> {
        if let Some(service) = connect_string.strip_prefix(SERVICE) {
            return self.start_service(service);
        }
        let parsed: ConnectString =
            connect_string.parse().map_err(|error| Error::connect_string(&error))?;
        self.chroot = self.chroot.or(parsed.chroot);
        self.servers = Some(connect_string.to_owned());
        self.start_with(Names::new(parsed.servers))
    }

    #[cfg(feature = "dns-srv")]
    fn start_service(mut self, service: &str) -> Result<Client> {
        let parsed: ConnectString =
            service.parse().map_err(|error| Error::connect_string(&error))?;
        self.chroot = self.chroot.or(parsed.chroot);
        match <[_; 1]>::try_from(parsed.servers) {
            // The records contain the servers' ports.
            Ok([server]) if !service.contains(':') => {
                self.servers = Some(format!("{SERVICE}{service}"));
                self.start_with(crate::service::Service::new(server.host))
            }
            _ => Err(Error::connect_string(&format!("not one service: {service:?}"))),
        }
    }

    #[cfg(not(feature = "dns-srv"))]
    fn start_service(self, _service: &str) -> Result<Client> {
        Err(Error::connect_string(&format!("{SERVICE} needs the feature dns-srv of zebu-client")))
    }

    /// As [`Connector::start`], with the servers of a [`HostProvider`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a chroot that is not a valid path, and
    /// for the scheme `sasl`; [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted) if the
    /// system has no thread for the session.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// use zebu_client::{Connector, HostProvider, Servers};
    ///
    /// struct One(std::net::SocketAddr);
    ///
    /// impl HostProvider for One {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async { Ok(vec![self.0]) })
    ///     }
    /// }
    ///
    /// let client = Connector::new().start_with(One(server.address()))?;
    /// client.connected().await?;
    /// # Ok(()) });
    /// ```
    pub fn start_with(self, hosts: impl HostProvider) -> Result<Client> {
        if self.credentials.iter().any(|(scheme, _)| scheme == SASL) {
            return Err(Error::sasl(SASL_FAULT));
        }
        let chroot = self.chroot.as_deref().unwrap_or("/");
        let chroot = Chroot::new(chroot).map_err(|error| Error::path_refused(error, chroot))?;
        let status = Status {
            state: SessionState::Connecting,
            ticket: self.options.resume,
            timeout: self.options.timeout,
            ensemble: self.options.ensemble,
            server: None,
        };
        #[cfg(feature = "tls")]
        if let Some(material) = &self.dialer.tls {
            if self.dialer.transport.is_some() {
                return Err(Error::tls(NO_TLS_OVER));
            }
            if self.follows {
                return Err(Error::tls(NO_TLS_PORTS));
            }
            material.load().map_err(|fault| Error::tls(&fault.to_string()))?;
        }
        let (thread, this) = self.with_thread()?;
        let shared = Shared::new(status, thread.clone(), this.options.seed);
        let version = this.options.server_version;
        let shared = shared.with_clock(this.clock.clone()).with_server_version(version);
        let shared = Arc::new(shared);
        let client = Client::new(shared.clone(), chroot);
        let options = Options { connection_wait: this.wait(), ..this.options };
        let mut hosts: Arc<dyn HostProvider> = Arc::new(hosts);
        let members = this.follows.then(|| Arc::new(Members::new(hosts.clone(), shared.clone())));
        if let Some(members) = &members {
            hosts = members.clone();
        }
        if let Some(rank) = this.rank {
            hosts = Arc::new(Ranked { hosts, rank });
        }
        announce(this.servers.as_deref(), &options);
        let answer_bytes_max = this.answer_bytes_max;
        let (dialer, audience) = (this.dialer, this.audience);
        #[cfg(feature = "sasl")]
        let sasl = this.sasl;
        let driver = thread.inside(|| {
            let driver = Driver::new(options, hosts, dialer, shared, answer_bytes_max, audience);
            #[cfg(feature = "sasl")]
            let driver = driver.with_sasl(sasl);
            driver
        });
        // The session's id is recorded when it is known.
        let span = info_span!(target: "zebu_client", "client", session = tracing::field::Empty);
        thread.spawn(driver.instrument(span.clone()));
        if let Some(members) = members {
            thread.spawn(members::follow(client.unowned(), members).instrument(span));
        }
        for (scheme, auth) in this.credentials {
            // If the server refuses the credentials, the session ends, so no result is lost.
            client.authenticate(&scheme, auth).detach();
        }
        Ok(client)
    }

    /// The thread of the session.
    pub(crate) fn with_thread(mut self) -> Result<(SessionThread, Self)> {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => SessionThread::start().map_err(|error| Error::no_thread(&error))?,
        };
        self.thread = Some(thread.clone());
        Ok((thread, self))
    }

    fn wait(&self) -> Duration {
        self.connection_wait.unwrap_or(self.options.timeout)
    }
}

/// Logs the settings of a session before it begins, and the program's environment once.
fn announce(servers: Option<&str>, options: &Options) {
    static ENVIRONMENT: Once = Once::new();
    ENVIRONMENT.call_once(|| {
        let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        info!("client environment: zebu-client {version}, {os} on {arch}, process {process}");
    });
    let servers = servers.unwrap_or("servers of a host provider");
    let ms = options.timeout.as_millis();
    match options.resume {
        Some(ticket) => info!("resuming session {} with {servers}, timeout {ms} ms", ticket.id),
        None => info!("opening a session with {servers}, timeout {ms} ms"),
    }
}

/// Waits on the session's thread, so the caller needs no runtime.
async fn connected(client: Client, wait: Duration, acl: Option<Acls>) -> Result<Client> {
    let unowned = client.unowned();
    let connected = client.thread().spawn(async move {
        match tokio::time::timeout(wait, unowned.connected()).await {
            Ok(connected) => {
                connected.map_err(|error| error.with_missing(|| unowned.shared().trouble()))?;
            }
            Err(_) => {
                let error = Error::failed(Failure::NoConnection, "");
                return Err(error.with_missing(|| unowned.shared().trouble()));
            }
        }
        if let Some(acl) = acl {
            // An existing znode may be created again.
            Retry::default().reads(|| unowned.create_chroot(&acl)).await?;
        }
        Ok(())
    });
    connected.await.expect("its thread lives as long as the client")?;
    Ok(client)
}
