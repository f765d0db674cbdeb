//! The typed configuration of a server.
//!
//! Times are `Duration`, sizes are bytes, and a value that means "off" (0 or −1) is `None`. The
//! documentation of each field names its key. Defaults are only in the registry.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use zebu_auth::gssapi::Source;
use zebu_auth::jaas::{DigestLogin, Service};
use zebu_auth::kerberos::Naming;
pub use zebu_auth::outside::Rules as CheckLimits;
use zebu_auth::tls::PortFiles;
pub use zebu_https::{HeaderMap, Uri};
use zebu_replica::Passwords;

use super::ensemble::EnsembleConfig;
use super::secret::Secret;

/// All settings of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// Directories.
    pub data: DataConfig,
    /// The transaction log.
    pub log: LogConfig,
    /// Snapshots.
    pub snapshot: SnapshotConfig,
    /// Listener and sockets.
    pub net: NetConfig,
    /// TLS for clients; `None` if no port uses it.
    pub client_tls: Option<ClientTlsConfig>,
    /// Ticks and session timeouts.
    pub sessions: SessionConfig,
    /// Limits on sizes and numbers for clients.
    pub limits: LimitConfig,
    /// Throttling of requests.
    pub throttle: ThrottleConfig,
    /// Throttling of connections.
    pub connection_throttle: ConnectionThrottleConfig,
    /// Access control.
    pub auth: AuthConfig,
    /// Kinds of znodes.
    pub znodes: ZnodeConfig,
    /// Automatic removal of old files.
    pub purge: PurgeConfig,
    /// The log of the process.
    pub logging: LoggingConfig,
    /// The audit log; `None` is off.
    pub audit: Option<FileConfig>,
    /// Rereading of logs and snapshots; `None` is off.
    pub scrub: Option<ScrubConfig>,
    /// `zebu.shipRateInKb`, in bytes: the rate for sending files to backups and to members that
    /// repair their logs.
    pub ship_bytes_per_second: u64,
    /// `4lw.commands.whitelist`: words, or `*`.
    pub four_letter_words: Vec<String>,
    /// The HTTP admin server; `None` is off.
    pub admin: Option<AdminConfig>,
    /// The Prometheus page; `None` is off.
    pub prometheus: Option<PrometheusConfig>,
    /// `readonlymode.enabled`.
    pub readonly_mode: bool,
    /// `reconfigEnabled`: whether the members of an ensemble may change. For a standalone server it
    /// decides which error is returned.
    pub reconfig_enabled: bool,
    /// The ensemble that this server belongs to; `None` for a standalone server.
    pub ensemble: Option<EnsembleConfig>,
}

/// Locations of data, and permission to create them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataConfig {
    /// `dataDir`: parent of the snapshots' `version-2`.
    pub dir: PathBuf,
    /// `dataLogDir`: parent of the log's `version-2`.
    pub log_dir: PathBuf,
    /// `datadir.autocreate`.
    pub create_dirs: bool,
    /// `db.autocreate`.
    pub create_db: bool,
    /// `zebu.acceptMembers`: whether the data may belong to an ensemble with other members.
    pub accept_members: bool,
    /// `snapshot.trust.empty`.
    pub trust_empty_snapshot: bool,
    /// `zebu.acceptDamagedLog`.
    pub accept_damaged_log: bool,
}

/// The log of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggingConfig {
    /// `zebu.log.level`; `None`: the environment decides.
    pub levels: Option<String>,
    /// `zebu.log.to`: at least one, each with another target.
    pub outputs: Vec<LogOutput>,
    /// `zebu.log.otlp.*`: a collector that also gets the log.
    pub otlp: Option<OtlpConfig>,
    /// `traceFile` or `requestTraceFile`: files of the request trace.
    pub trace: Option<TraceConfig>,
    /// `zebu.slowRequest.millis`: a request that takes longer is logged; `None`: no request is.
    pub slow_request: Option<Duration>,
}

/// An OpenTelemetry collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpConfig {
    /// `zebu.log.otlp.endpoint`, with its path.
    pub endpoint: Uri,
    /// `zebu.log.otlp.headers`; `Debug` does not show their values.
    pub headers: HeaderMap,
    /// `zebu.log.otlp.attributes`.
    pub attributes: Vec<(String, String)>,
    /// `zebu.log.otlp.level`; `None`: the levels of the whole log.
    pub levels: Option<String>,
}

/// The files of the request trace, one for each day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceConfig {
    /// The path that the date is appended to.
    pub path: PathBuf,
    /// `zebu.log.files`: the number of files that are kept.
    pub files_max: u32,
}

/// An output of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOutput {
    /// The target of the lines.
    pub to: LogTarget,
    /// `zebu.log.threshold`: the least severe level that this output gets, as in `warn`; `None`: it
    /// gets every line of the log.
    pub threshold: Option<&'static str>,
}

/// A destination of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// To the standard error stream.
    Stderr {
        /// `zebu.log.format`: JSON objects instead of text.
        is_json: bool,
    },
    /// To a file.
    File {
        /// The file.
        file: FileConfig,
        /// `zebu.log.format`: JSON objects instead of text.
        is_json: bool,
    },
    /// To the journal of systemd.
    Journald,
}

/// A file that lines are appended to, and that is rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileConfig {
    /// Its path.
    pub path: PathBuf,
    /// The size at which a new file is started.
    pub bytes_max: u64,
    /// The number of files kept, including the current one.
    pub files_max: u32,
    /// A further condition for a new file.
    pub period: FilePeriod,
}

/// The time span of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePeriod {
    /// Unlimited.
    Ever,
    /// One hour.
    Hour,
    /// One day.
    Day,
}

/// The transaction log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// `preAllocSize`.
    pub preallocate_bytes: u64,
    /// `zebu.preAllocAdaptive`: steps start small and grow with the log, up to `preallocate_bytes`.
    pub preallocate_adaptive: bool,
    /// `txnLogSizeLimitInKb`: a new file is started at this size.
    pub file_bytes_max: Option<u64>,
    /// `forceSync`: whether fsync is called at all.
    pub fsync: bool,
    /// `fsync.warningthresholdms`.
    pub fsync_warning: Duration,
    /// `flushDelay`: maximum time that a transaction waits for further ones.
    pub flush_delay: Duration,
    /// `maxWriteQueuePollTime`.
    pub queue_poll_max: Duration,
    /// `maxBatchSize`: transactions per fsync.
    pub batch_txns_max: Option<u32>,
    /// `closeSessionTxn.enabled`.
    pub close_session_txn: bool,
}

/// Snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// `snapCount`: transactions between snapshots, at least 2.
    pub txns: u32,
    /// `snapSizeLimitInKb`: bytes of log between snapshots.
    pub log_bytes: Option<u64>,
    /// `zebu.snapLogPercent`: the share of a snapshot's size, in percent, that the log must also
    /// have before `txns` counts.
    pub log_percent: u32,
    /// `snapshot.compression.method`.
    pub compression: Compression,
    /// `digest.enabled`.
    pub digest: bool,
    /// `serializeLastProcessedZxid.enabled`.
    pub last_zxid: bool,
}

/// Compression of snapshot files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    Plain,
    /// Suffix `.gz`.
    Gzip,
    /// Suffix `.snappy`.
    Snappy,
}

/// Listener and sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetConfig {
    /// `clientPort`: `None`: no listener; 0, only from the command line: the system chooses the
    /// port.
    pub client_port: Option<u16>,
    /// `clientPortAddress`, a name or an address without brackets; `None`: every address of both
    /// families.
    pub client_address: Option<String>,
    /// `clientPortListenBacklog`; `None`: the system decides.
    pub backlog: Option<u32>,
    /// `clientTcpKeepAlive`.
    pub tcp_keep_alive: bool,
    /// `nio.sessionlessCnxnTimeout`: deadline of a handshake.
    pub handshake_timeout: Duration,
}

/// TLS for clients.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientTlsConfig {
    /// `secureClientPort`: `None`: no separate listener; 0, only from the command line: the system
    /// chooses the port.
    pub port: Option<u16>,
    /// `secureClientPortAddress`, a name or an address without brackets; `None`: every address of
    /// both families.
    pub address: Option<String>,
    /// `client.portUnification`: the other port also accepts clients with TLS.
    pub is_unified: bool,
    /// Certificates, versions, cipher suites: `ssl.*`.
    pub files: PortFiles,
    /// `ssl.handshakeDetectionTimeoutMillis`: how long a client of a port for both may be silent
    /// before it counts as one without TLS.
    pub detection_time: Duration,
    /// `netty.server.outstandingHandshake.limit`: maximum number of simultaneous handshakes;
    /// `None`: the server decides.
    pub handshakes_max: Option<u32>,
    /// `netty.server.earlyDropSecureConnectionHandshakes`: no handshake while the server does not
    /// serve clients.
    pub drop_early: bool,
    /// `ssl.clientHostnameVerification`: a client's certificate must be for the address that it
    /// comes from.
    pub verifies_clients_hosts: bool,
    /// `client.certReload`: the files are reloaded when they change.
    pub reloads: bool,
}

/// TLS between servers.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerTlsConfig {
    /// `sslQuorum`: this server connects with TLS, and accepts only TLS unless `accepts_plain` is
    /// set.
    pub dials: bool,
    /// `portUnification`: connections without TLS are also accepted.
    pub accepts_plain: bool,
    /// Certificates, versions, cipher suites: `ssl.quorum.*`.
    pub files: PortFiles,
    /// `ssl.quorum.handshakeDetectionTimeoutMillis`: how long a server may be silent before it
    /// counts as one without TLS, if those are accepted.
    pub detection_time: Duration,
    /// `ssl.quorum.hostnameVerification`: the certificate of a server to which this one connects
    /// must be valid for that host.
    pub verifies_servers: bool,
    /// `ssl.quorum.clientHostnameVerification`: the certificate of a server that connects must be
    /// valid for the address that it comes from, or for a host of the list of members.
    pub verifies_clients: bool,
    /// `zebu.quorum.identity`: a server's certificate must be valid for a host of that server's own
    /// line in the list of members.
    pub binds_ids: bool,
    /// `sslQuorumReloadCertFiles`: the files are reloaded when they change.
    pub reloads: bool,
}

/// Ticks and session timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// `tickTime`.
    pub tick: Duration,
    /// `minSessionTimeout`.
    pub timeout_min: Duration,
    /// `maxSessionTimeout`.
    pub timeout_max: Duration,
}

/// Limits on sizes and numbers for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitConfig {
    /// `maxClientCnxns`.
    pub connections_per_address: Option<u32>,
    /// `maxCnxns`.
    pub connections: Option<u32>,
    /// `zebu.maxConnectionsPerIdentity`; 0: unlimited.
    pub connections_per_identity: u32,
    /// `jute.maxbuffer`.
    pub packet_bytes: usize,
    /// `jute.maxbuffer.extrasize`.
    pub packet_extra_bytes: usize,
    /// `globalOutstandingLimit`.
    pub outstanding_requests: u32,
    /// `zebu.globalOutstandingBytes`.
    pub outstanding_bytes: usize,
    /// `largeRequestThreshold`: larger requests count as large; `None`: none do.
    pub large_request_bytes: Option<u32>,
    /// `largeRequestMaxBytes`: the sum for all large requests in progress.
    pub large_requests_bytes_max: u32,
}

impl LimitConfig {
    /// Maximum length of an answer to a read: the bytes that may wait to be sent, which is many
    /// times the length of a request.
    pub fn answer_bytes_max(&self) -> usize {
        (64 << 20).max(self.packet_bytes.saturating_mul(64)).min(i32::MAX as usize)
    }

    /// Maximum length of a record of the log, and of a field of a packet between servers: as in the
    /// original, limited by what a length field can express.
    pub fn record_bytes_max(&self) -> usize {
        self.packet_bytes.saturating_add(self.packet_extra_bytes).min(i32::MAX as usize)
    }
}

/// Throttling of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrottleConfig {
    /// `request_throttle_max_requests`.
    pub requests_max: Option<u32>,
    /// `request_throttle_stall_time`.
    pub stall: Duration,
    /// `request_throttle_drop_stale`.
    pub drop_stale: bool,
    /// `request_stale_latency_check`.
    pub stale_by_latency: bool,
    /// `request_stale_connection_check`.
    pub stale_by_connection: bool,
    /// `request_throttler.shutdownTimeout`.
    pub shutdown_timeout: Duration,
    /// `throttled_op_wait_time`: a request that waited longer is answered with -127.
    pub op_wait_max: Option<Duration>,
}

/// Throttling of connections.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionThrottleConfig {
    /// `connection_throttle_tokens`: `None` is off.
    pub tokens: Option<u32>,
    /// `connection_throttle_fill_time`.
    pub fill_time: Duration,
    /// `connection_throttle_fill_count`.
    pub fill_count: u32,
    /// `connection_throttle_freeze_time`; `None`: no random drops.
    pub freeze_time: Option<Duration>,
    /// `connection_throttle_drop_increase`, 0 to 1.
    pub drop_increase: f64,
    /// `connection_throttle_drop_decrease`, 0 to 1.
    pub drop_decrease: f64,
    /// `connection_throttle_decrease_ratio`, 0 to 1.
    pub decrease_ratio: f64,
    /// `connection_throttle_weight_enabled` and the three weights; `None`: each connection costs
    /// one token.
    pub weights: Option<ConnectionWeights>,
}

/// The number of tokens that a connection costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionWeights {
    /// `connection_throttle_global_session_weight`.
    pub global_session: u32,
    /// `connection_throttle_local_session_weight`.
    pub local_session: u32,
    /// `connection_throttle_renew_session_weight`.
    pub renew_session: u32,
}

/// Access control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// `skipACL`.
    pub skip_acl: bool,
    /// `enableEagerACLCheck`.
    pub eager_acl_check: bool,
    /// Whether the scheme `x509` is enabled: with TLS for clients, or if `authProvider.*` names its
    /// class.
    pub x509: bool,
    /// Whether the scheme `key` is enabled: if `authProvider.*` names its class.
    pub key: bool,
    /// The scheme `ensemble`, if `authProvider.*` names its class, with the names of
    /// `ensembleAuthName`. Without names, every client is accepted.
    pub ensemble: Option<Option<Vec<String>>>,
    /// The schemes of `authProvider.*=unix:SCHEME:PATH`.
    pub outside: Vec<OutsideCheck>,
    /// The settings that all of them share: `zebu.authCheck.*`.
    pub check_limits: CheckLimits,
    /// `zebu.refuseWorldWrites`: no new ACL grants every client more than READ.
    pub refuses_world_writes: bool,
    /// `zebu.authFailuresPerMinute`: maximum number of failed authentications of one address per
    /// minute; 0: unlimited.
    pub failures_per_minute: u32,
    /// `X509AuthenticationProvider.superUser`: a subject as RFC 2253 writes it.
    pub x509_super_user: Option<String>,
    /// `DigestAuthenticationProvider.enabled`.
    pub digest: bool,
    /// `DigestAuthenticationProvider.digestAlg`: a Java name, one of those the registry lists.
    pub digest_algorithm: &'static str,
    /// `DigestAuthenticationProvider.superDigest`: the whole text `user:hash`.
    pub super_digest: Option<Secret>,
    /// `enforce.auth.enabled` with `enforce.auth.schemes`: a session without an id of one of these
    /// schemes is closed. Empty: not enforced.
    pub enforced_schemes: Vec<String>,
    /// SASL for clients.
    pub sasl: SaslConfig,
    /// `zebu.sessionPasswords` with the key of `zebu.sessionSecretFile`.
    pub session_passwords: Passwords,
}

/// A scheme that a program behind a Unix socket decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideCheck {
    /// The scheme's name.
    pub scheme: String,
    /// The socket.
    pub path: PathBuf,
}

/// SASL for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslConfig {
    /// Whether the scheme `sasl` is enabled in ACLs: if `authProvider.*` names its class.
    pub has_scheme: bool,
    /// How clients authenticate: a section of the file `java.security.auth.login.config`; `None`:
    /// they cannot.
    pub login: Option<SaslLogin>,
    /// How a name becomes an id: `kerberos.removeHostFromPrincipal`,
    /// `kerberos.removeRealmFromPrincipal` and `security.auth_to_local`.
    pub naming: Naming,
    /// `superUser` and `superUser.*`: ids of the scheme `sasl` with all permissions.
    pub super_users: Vec<String>,
    /// `letAnySaslUserDoX`: the id in ACLs that means every user.
    pub any_user: Option<String>,
    /// `allowSaslFailedClients`: a client that fails to authenticate stays, without an id.
    pub allows_failed: bool,
}

/// SASL between servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSaslConfig {
    /// The identity that this server presents to servers that it connects to.
    pub own: PeerLogin,
    /// How servers that connect to this one authenticate.
    pub others: PeerUsers,
    /// `quorum.auth.learnerRequireSasl`: this server authenticates to servers that it connects to.
    pub authenticates: bool,
    /// `quorum.auth.serverRequireSasl`: servers that connect to this one must authenticate.
    pub is_required: bool,
}

/// The identity that a server presents to servers that it connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerLogin {
    /// A user with a password, with DIGEST-MD5.
    Digest {
        /// The user.
        user: String,
        /// The password of that user.
        password: zebu_auth::Secret,
    },
    /// A principal of Kerberos.
    Kerberos {
        /// The source of its tickets.
        login: KerberosConfig<Source>,
        /// `quorum.auth.kerberos.servicePrincipal`: the principal of the server that it connects
        /// to.
        servers: PeerPrincipal,
    },
}

/// How servers that connect to this one authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerUsers {
    /// With the password of one of these users, with DIGEST-MD5.
    Digest(DigestLogin),
    /// With a ticket for this service of Kerberos.
    Kerberos(KerberosConfig<Service>),
}

/// The name of the other servers in Kerberos.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerPrincipal {
    /// The first part.
    pub service: String,
    /// The second part; `None` for `_HOST`, the placeholder for the host to connect to.
    pub host: Option<String>,
    /// The realm, if it is set.
    pub realm: Option<String>,
}

/// How clients log in with SASL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslLogin {
    /// With DIGEST-MD5.
    Digest {
        /// The users.
        login: DigestLogin,
        /// `SASLAuthenticationProvider.superPassword`.
        super_password: Option<zebu_auth::Secret>,
    },
    /// With Kerberos.
    Kerberos(KerberosConfig<Service>),
}

/// A Kerberos login, and the position for error messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KerberosConfig<L> {
    /// The content of the section.
    pub login: L,
    /// File, line and section.
    pub place: String,
    /// `java.security.krb5.conf`. The Kerberos library ignores it, and reads the file in the
    /// variable `KRB5_CONFIG`.
    pub krb5_conf: Option<PathBuf>,
}

/// Kinds of znodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZnodeConfig {
    /// `extendedTypesEnabled`.
    pub extended_types: bool,
    /// `emulate353TTLNodes`.
    pub emulate_353_ttl: bool,
    /// `enforceQuota`.
    pub enforce_quota: bool,
    /// `znode.container.checkIntervalMs`.
    pub container_check_interval: Duration,
    /// `znode.container.maxPerMinute`.
    pub container_deletes_per_minute: u32,
    /// `znode.container.maxNeverUsedIntervalMs`: `None` is never.
    pub container_never_used_max: Option<Duration>,
}

/// Automatic removal of old files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeConfig {
    /// `autopurge.snapRetainCount`, at least 3.
    pub snapshots_kept: u32,
    /// `autopurge.purgeInterval`: `None` is off.
    pub interval: Option<Duration>,
}

/// Rereading of logs and snapshots, to find damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubConfig {
    /// `zebu.scrubInterval`: time between two passes.
    pub interval: Duration,
    /// `zebu.scrubRateInKb`, in bytes.
    pub bytes_per_second: u64,
}

/// The HTTP admin server.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminConfig {
    /// `admin.serverAddress`: a name or an address without brackets.
    pub address: String,
    /// `admin.serverPort`: 0 lets the system choose.
    pub port: u16,
    /// Whether the configuration names the admin server or its port. Then a standalone server does
    /// not start without it.
    pub is_asked_for: bool,
    /// `admin.commandURL` without a slash at its end: empty, or beginning with a slash.
    pub command_url: String,
    /// `admin.idleTimeout`.
    pub idle_timeout: Duration,
    /// `admin.rateLimiterIntervalInMS`: time between two snapshots.
    pub snapshot_interval: Duration,
    /// `admin.snapshot.enabled`.
    pub snapshot: bool,
    /// `admin.restore.enabled`.
    pub restore: bool,
    /// Its TLS; `None` without TLS.
    pub tls: Option<AdminTlsConfig>,
    /// The console in the browser; `None` is off.
    pub console: Option<ConsoleConfig>,
    /// The text of the configuration file at the start, with masked secrets; empty without a file.
    pub initial_configuration: String,
    /// Every given property, by its property name, with masked secrets.
    pub properties: BTreeMap<String, String>,
}

/// TLS of the HTTP admin server.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminTlsConfig {
    /// `admin.portUnification` without `admin.forceHttps`: requests without TLS are also answered.
    pub accepts_plain: bool,
    /// Certificates, versions, cipher suites: `ssl.quorum.*`. Clients are asked for a certificate
    /// with `admin.needClientAuth`.
    pub files: PortFiles,
    /// `sslQuorumReloadCertFiles`: the files are reloaded when they change.
    pub reloads: bool,
}

/// The console in the browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleConfig {
    /// `admin.console.hosts`: names by which browsers reach it, besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// `admin.console.idleTimeout`.
    pub idle_timeout: Duration,
}

/// The Prometheus page.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusConfig {
    /// `zebu.topClients`.
    pub top_clients: usize,
    /// `metricsProvider.httpHost`: a name or an address without brackets.
    pub address: String,
    /// `metricsProvider.httpPort`: 0 lets the system choose; `None`: no page without TLS.
    pub port: Option<u16>,
    /// The page over TLS; `None` without TLS.
    pub tls: Option<PrometheusTlsConfig>,
    /// `metricsProvider.exportJvmInfo`: whether the page has metrics of the process.
    pub process: bool,
}

/// TLS of the Prometheus page.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusTlsConfig {
    /// `metricsProvider.httpsPort`: 0 lets the system choose.
    pub port: u16,
    /// Certificates, versions, cipher suites: `metricsProvider.ssl.*`.
    pub files: PortFiles,
}

impl DataConfig {
    /// Directory of the snapshot files.
    pub fn snapshots(&self) -> PathBuf {
        self.dir.join("version-2")
    }

    /// Directory of the log files.
    pub fn logs(&self) -> PathBuf {
        self.log_dir.join("version-2")
    }
}
