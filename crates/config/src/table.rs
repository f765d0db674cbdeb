//! Every key of `zoo.cfg` and every `zookeeper.*` property, with its values, its default, and its
//! support in this version.
//!
//! Source: the administrator's guide of ZooKeeper 3.9 and `QuorumPeerConfig.java`. Where two
//! releases differ, 3.9 counts.

use super::registry::{Default, Fate, Group, Kind, Part, Property, Setting, Switch};

const I32_MAX: i64 = i32::MAX as i64;
const I32_MIN: i64 = i32::MIN as i64;

/// A whole number without unit.
const fn count(min: i64) -> Kind {
    Kind::Int { min, max: I32_MAX, unit: "" }
}
const fn number(min: i64, max: i64, unit: &'static str) -> Kind {
    Kind::Int { min, max, unit }
}
const fn ms(min: i64) -> Kind {
    Kind::Int { min, max: I32_MAX, unit: "ms" }
}
const PORT: Kind = Kind::Int { min: 0, max: 65_535, unit: "port" };

/// A key the original parses itself: no property.
const fn file(key: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Setting {
    Setting {
        key,
        property: Property::None,
        also: None,
        kind,
        default: Default::Value(default),
        fate: Fate::Supported,
        group: Group::Basics,
        help,
    }
}
/// A property `zookeeper.<key>`.
const fn prop(key: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Setting {
    let mut setting = file(key, kind, default, help);
    setting.property = Property::Prefixed;
    setting
}
/// A property without prefix.
const fn full(key: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Setting {
    let mut setting = file(key, kind, default, help);
    setting.property = Property::Full;
    setting
}

impl Setting {
    const fn group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }
    const fn computed(mut self, how: &'static str) -> Self {
        self.default = Default::Computed(how);
        self
    }
    const fn unset(mut self) -> Self {
        self.default = Default::None;
        self
    }
    const fn also(mut self, name: &'static str) -> Self {
        self.also = Some(name);
        self
    }
    const fn harmless(mut self, why: &'static str) -> Self {
        self.fate = Fate::Harmless(why);
        self
    }
    const fn not_built(mut self, part: Part, switch: Switch) -> Self {
        self.fate = Fate::NotBuilt(part, switch);
        self
    }
}

const STORAGE: Group = Group::Storage;
const LIMITS: Group = Group::Limits;
const THROTTLING: Group = Group::Throttling;
const ACCESS: Group = Group::Access;
const FEATURES: Group = Group::Features;
const OPERATIONS: Group = Group::Operations;
const ADMIN: Group = Group::Admin;

/// For ensembles only; a standalone server does not look at it.
const fn ensemble(setting: Setting) -> Setting {
    setting.group(Group::Ensemble)
}
/// Tunes a stage between servers that is built differently here.
const fn stages(setting: Setting) -> Setting {
    setting
        .harmless("threads and queues between servers are managed differently")
        .group(Group::Ensemble)
}
const fn jvm(setting: Setting) -> Setting {
    setting.harmless("there is no JVM").group(OPERATIONS)
}
const fn threads(setting: Setting) -> Setting {
    setting.harmless("threads and buffers are managed differently").group(LIMITS)
}
const fn watches(setting: Setting) -> Setting {
    setting.harmless("there is one watch table, with every kind of watch").group(LIMITS)
}
const fn caches(setting: Setting) -> Setting {
    setting.harmless("answers are encoded straight from the tree, there is no cache").group(LIMITS)
}
const fn logging(setting: Setting) -> Setting {
    setting.harmless("logging of the original").group(OPERATIONS)
}
/// A detail of a part that another setting switches on.
const fn detail(setting: Setting, part: Part) -> Setting {
    let group = match part {
        Part::Plugins | Part::Tracing => OPERATIONS,
    };
    setting.not_built(part, Switch::Never).group(group)
}

/// The table.
#[rustfmt::skip]
pub static SETTINGS: &[Setting] = &[
    // Basics
    file("dataDir", Kind::Path, "", "directory of the snapshots, and of the log unless dataLogDir is set; required").unset(),
    file("dataLogDir", Kind::Path, "", "directory of the transaction log").computed("dataDir"),
    file("clientPort", PORT, "", "port for clients; without it (or 0) there is no plain listener").unset(),
    file("clientPortAddress", Kind::Text, "", "the one address to listen on").computed("all"),
    file("clientPortListenBacklog", count(-1), "-1", "connections waiting to be accepted; -1 leaves it to the system"),
    file("tickTime", ms(I32_MIN), "3000", "unit of all timeouts"),

    // Log and snapshots
    prop("preAllocSize", number(0, i64::MAX / 1024, "KiB"), "65536", "how much the log file grows at a time").group(STORAGE),
    prop("zebu.scrubInterval", Kind::Interval, "24", "time between two passes in which logs and snapshots are read again to find damage, in hours without a unit; 0: never").group(STORAGE),
    prop("zebu.scrubRateInKb", number(1, i64::MAX / 1024, "KiB"), "2048", "how much a pass of zebu.scrubInterval reads per second").group(STORAGE),
    prop("zebu.shipRateInKb", number(1, i64::MAX / 1024, "KiB"), "32768", "how much of its files and snapshots the server sends per second to backups over HTTP, and of its logs to members that repair theirs, all together").group(STORAGE),
    prop("zebu.preAllocAdaptive", Kind::JavaBool, "false", "a new log file starts with 64 KiB and doubles, up to steps of preAllocSize; for small deployments").group(STORAGE),
    prop("snapCount", count(I32_MIN), "100000", "txns between snapshots, at least 2").group(STORAGE),
    prop("snapSizeLimitInKb", number(i64::MIN, i64::MAX / 1024, "KiB"), "4194304", "bytes of log between snapshots; 0 and less: no limit").group(STORAGE),
    prop("zebu.snapLogPercent", number(0, 10_000, "%"), "", "no snapshot is due until the log since the last one has this share of its size, even after snapCount txns; 0: no such condition").computed("100; 0 where snapCount is set").group(STORAGE),
    prop("txnLogSizeLimitInKb", number(i64::MIN, i64::MAX / 1024, "KiB"), "-1", "size at which a new log file is begun; 0 and less: no limit").group(STORAGE),
    prop("forceSync", Kind::Flag { word: "no", means: false }, "yes", "whether a txn is on disk before it is acknowledged").group(STORAGE),
    prop("fsync.warningthresholdms", number(0, i64::MAX / 2, "ms"), "1000", "an fsync that takes longer is logged").also("fsync.warningthresholdms").group(STORAGE),
    prop("flushDelay", number(0, i64::MAX / 2, "ms"), "0", "how long a txn may wait for further txns before an fsync").group(STORAGE),
    prop("maxWriteQueuePollTime", number(0, i64::MAX / 2, "ms"), "", "how long to wait for another txn within flushDelay").computed("flushDelay / 3").group(STORAGE),
    prop("maxBatchSize", count(0), "1000", "txns covered by one fsync; 0: no limit").group(STORAGE),
    prop("snapshot.compression.method", Kind::Choice(&["", "gz", "snappy"]), "", "compression of snapshots").group(STORAGE),
    prop("snapshot.trust.empty", Kind::JavaBool, "false", "start with a log but without any snapshot").group(STORAGE),
    prop("zebu.acceptDamagedLog", Kind::JavaBool, "false", "start with the readable part of a damaged log, and lose the rest").group(STORAGE),
    ensemble(prop("zebu.acceptMembers", Kind::JavaBool, "false", "start although the member list differs by more than one voter from the list in the data, or start one server alone on the data of an ensemble")),
    prop("datadir.autocreate", Kind::JavaBool, "true", "create missing data directories").group(STORAGE),
    prop("db.autocreate", Kind::JavaBool, "true", "start with an empty tree if the data directories are empty").group(STORAGE),
    prop("digest.enabled", Kind::JavaBool, "true", "keep a digest of the tree").group(STORAGE),
    prop("serializeLastProcessedZxid.enabled", Kind::JavaBool, "true", "write the last zxid into snapshots").group(STORAGE),
    prop("closeSessionTxn.enabled", Kind::JavaBool, "true", "list the ephemerals in the txn that closes a session").group(STORAGE),
    ensemble(prop("commitLogCount", count(I32_MIN), "500", "committed txns in memory for learners, at least 500, as long as they fit into 64 MiB")),
    ensemble(prop("snapshotSizeFactor", Kind::Decimal, "0.33", "largest log that the leader sends to a learner instead of a snapshot, as a share of the snapshot's size; negative: always a snapshot")),
    ensemble(prop("forceSnapshotSync", Kind::JavaBool, "false", "always send learners a snapshot")),
    ensemble(prop("testingonly.initialZxid", number(0, u32::MAX as i64, ""), "", "counter of a new leader's first txn, for tests").unset()),

    // Sessions, connections, limits
    file("maxClientCnxns", count(I32_MIN), "60", "connections per client address; 0: no limit (and the default of the form `PORT DIR`)").group(LIMITS),
    file("minSessionTimeout", ms(-1), "-1", "shortest session timeout").computed("2 ticks").group(LIMITS),
    file("maxSessionTimeout", ms(-1), "-1", "longest session timeout").computed("20 ticks").group(LIMITS),
    full("jute.maxbuffer", number(1, I32_MAX, "bytes"), "1048575", "longest request").group(LIMITS),
    prop("jute.maxbuffer.extrasize", number(I32_MIN, I32_MAX, "bytes"), "", "allowance above jute.maxbuffer for what the server itself writes, at least 1024").computed("jute.maxbuffer").group(LIMITS),
    prop("globalOutstandingLimit", count(0), "1000", "number of requests in progress above which the server stops reading; with more than two voters, each voter uses this number divided by (voters - 1)").group(LIMITS),
    prop("zebu.globalOutstandingBytes", number(0, i64::MAX, "bytes"), "104857600", "bytes of requests in progress above which the server stops reading").group(LIMITS),
    prop("maxCnxns", count(I32_MIN), "0", "connections in all; 0: no limit").group(LIMITS),
    prop("nio.sessionlessCnxnTimeout", ms(1), "10000", "time a connection has for its handshake").group(LIMITS),
    prop("clientTcpKeepAlive", Kind::JavaBool, "false", "TCP keep-alive on client connections").group(LIMITS),
    prop("largeRequestMaxBytes", number(1, I32_MAX, "bytes"), "104857600", "bytes of large requests in progress at a time").group(LIMITS),
    prop("largeRequestThreshold", number(I32_MIN, I32_MAX, "bytes"), "-1", "a request is large above this; 0 and less: none is").group(LIMITS),
    caches(prop("maxResponseCacheSize", count(I32_MIN), "400", "entries of the response cache")),
    caches(prop("maxGetChildrenResponseCacheSize", count(I32_MIN), "400", "entries of the response cache for children")),
    threads(prop("intBufferStartingSizeBytes", number(32, I32_MAX, "bytes"), "1024", "first size of an output buffer")),
    threads(prop("serverCnxnFactory", Kind::Choice(&["", "org.apache.zookeeper.server.NIOServerCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"]), "org.apache.zookeeper.server.NIOServerCnxnFactory", "network layer")),
    threads(prop("nio.numSelectorThreads", count(1), "", "threads").computed("by cores")),
    threads(prop("nio.numWorkerThreads", count(0), "", "threads").computed("2 x cores")),
    threads(prop("nio.directBufferBytes", number(0, I32_MAX, "bytes"), "65536", "buffers")),
    threads(prop("nio.shutdownTimeout", ms(0), "5000", "wait for worker threads")),
    threads(prop("netty.advancedFlowControl.enabled", Kind::JavaBool, "false", "flow control, which is always on here")),
    prop("netty.server.outstandingHandshake.limit", count(I32_MIN), "-1", "TLS handshakes at a time, a connection above is closed; 0 and less: 1000").group(Group::Tls),
    prop("netty.server.earlyDropSecureConnectionHandshakes", Kind::JavaBool, "false", "close TLS connections before their handshake while this server serves no clients").group(Group::Tls),
    watches(prop("watchManagerName", Kind::Text, "org.apache.zookeeper.server.watch.WatchManager", "class of the watch manager")),
    watches(prop("watcherCleanThreadsNum", count(I32_MIN), "2", "tuning")),
    watches(prop("watcherCleanThreshold", count(I32_MIN), "1000", "tuning")),
    watches(prop("watcherCleanIntervalInSeconds", number(I32_MIN, I32_MAX, "s"), "600", "tuning")),
    watches(prop("maxInProcessingDeadWatchers", count(I32_MIN), "-1", "tuning")),
    watches(prop("bitHashCacheSize", count(I32_MIN), "10", "tuning")),

    // Throttling
    prop("request_throttle_max_requests", count(I32_MIN), "0", "requests in progress above which the intake waits; 0: no limit").group(THROTTLING),
    prop("request_throttle_stall_time", ms(1), "100", "how long the intake waits at a time").group(THROTTLING),
    prop("request_throttle_drop_stale", Kind::JavaBool, "true", "drop requests whose connection is closed").group(THROTTLING),
    prop("request_stale_latency_check", Kind::JavaBool, "false", "a request older than its session's timeout is stale").group(THROTTLING),
    prop("request_stale_connection_check", Kind::JavaBool, "true", "a request of a closed connection is stale").group(THROTTLING),
    prop("request_throttler.shutdownTimeout", ms(0), "10000", "time requests in progress have at shutdown").group(THROTTLING),
    prop("throttled_op_wait_time", ms(0), "0", "a request that waited longer is answered with -127; 0: none is").group(THROTTLING),
    prop("connection_throttle_tokens", count(0), "0", "connection throttle: tokens, with weights times that of a new session; 0: off").group(THROTTLING),
    prop("connection_throttle_fill_time", ms(1), "1", "connection throttle: time between fills").group(THROTTLING),
    prop("connection_throttle_fill_count", count(1), "1", "connection throttle: tokens per fill, with weights times that of a new session").group(THROTTLING),
    prop("connection_throttle_freeze_time", ms(-1), "-1", "connection throttle: time between changes of the drop probability; -1: no random drops").group(THROTTLING),
    prop("connection_throttle_drop_increase", Kind::Decimal, "0.02", "connection throttle: step up of the drop probability").group(THROTTLING),
    prop("connection_throttle_drop_decrease", Kind::Decimal, "0.002", "connection throttle: step down of the drop probability").group(THROTTLING),
    prop("connection_throttle_decrease_ratio", Kind::Decimal, "0", "connection throttle: share of the tokens that may be missing for the probability to fall").group(THROTTLING),
    prop("connection_throttle_weight_enabled", Kind::JavaBool, "false", "connection throttle: weigh connections by what they cost").group(THROTTLING),
    prop("connection_throttle_global_session_weight", count(I32_MIN), "3", "tokens of a new session").group(THROTTLING),
    prop("connection_throttle_local_session_weight", count(I32_MIN), "1", "tokens of a new local session, the least that any connection costs").group(THROTTLING),
    prop("connection_throttle_renew_session_weight", count(I32_MIN), "2", "tokens of a renewed session").group(THROTTLING),

    // Access
    prop("skipACL", Kind::Flag { word: "yes", means: true }, "no", "no ACL checks at all").group(ACCESS),
    prop("enableEagerACLCheck", Kind::JavaBool, "false", "a member of an ensemble checks write permission before it forwards a request; no effect on a server alone").group(ACCESS),
    prop("DigestAuthenticationProvider.enabled", Kind::JavaBool, "true", "permit authentication with the scheme digest").group(ACCESS),
    prop("DigestAuthenticationProvider.digestAlg", Kind::Choice(DIGESTS), "SHA1", "hash function of the scheme digest").group(ACCESS),
    prop("DigestAuthenticationProvider.superDigest", Kind::Secret, "", "super:HASH with the base64 hash of the super user").unset().group(ACCESS),
    prop("enforce.auth.enabled", Kind::JavaBool, "false", "close sessions that have not authenticated").group(ACCESS),
    prop("enforce.auth.schemes", Kind::List, "", "authentication schemes; a client must use one of them").unset().group(ACCESS),
    prop("zebu.sessionSecretFile", Kind::Path, "", "file with the secret from which servers compute session passwords, the same on every server; at least 32 bytes").unset().group(ACCESS),
    prop("zebu.sessionPasswords", Kind::Choice(super::session_key::STEPS), "", "which session passwords the server gives and accepts; `acceptKeyed` and `acceptCompatible` are the steps from `compatible` to `keyed` in a running ensemble").computed("`keyed` with zebu.sessionSecretFile, else `compatible`").group(ACCESS),
    prop("zebu.hardened", Kind::StrictBool, "false", "do not start with a weakness that `zebu server --check` lists; see docs/hardening.md").group(ACCESS),
    prop("zebu.refuseWorldWrites", Kind::StrictBool, "", "refuse new ACLs that allow everybody more than to read: `world`, or all addresses").computed("zebu.hardened").group(ACCESS),
    prop("zebu.authFailuresPerMinute", number(0, 60_000, ""), "", "failed authentications per minute after which the server refuses an address for a while; 0: no limit").computed("10 with zebu.hardened, else 0").group(ACCESS),
    prop("zebu.maxConnectionsPerIdentity", count(0), "", "connections of clients with the same authenticated id; 0: no limit").computed("100 with zebu.hardened, else 0").group(ACCESS),
    prop("zebu.requireTls", Kind::StrictBool, "false", "do not start if another machine can reach a port that does not require TLS").group(ACCESS),
    prop("sessionRequireClientSASLAuth", Kind::JavaBool, "false", "close sessions without an id of the scheme sasl; enforce.auth.* has no effect then").group(ACCESS),
    prop("authProvider.*", Kind::Text, "", "an authentication scheme: a class of ZooKeeper's own, or `unix:SCHEME:/path/of/a/socket` where another program decides").unset().group(ACCESS)
        .not_built(Part::Plugins, Switch::OtherProvider),
    prop("ensembleAuthName", Kind::Text, "", "names of the ensemble, separated by commas; the server closes connections whose client gives another name with the scheme ensemble").unset().group(ACCESS),
    prop("zebu.authCheck.timeoutMillis", number(10, 50_000, "ms"), "5000", "how long a client waits for the answer of an external authentication program").group(ACCESS),
    prop("zebu.authCheck.cacheMillis", number(0, 86_400_000, "ms"), "60000", "how long the server reuses a positive answer of that program; it never reuses refusals").group(ACCESS),
    prop("zebu.authCheck.outstanding", number(1, 1000, ""), "64", "most questions to that program at a time").group(ACCESS),
    prop("IPAuthenticationProvider.usexforwardedfor", Kind::JavaBool, "false", "trust X-Forwarded-For").harmless("the address of a client is always that of its connection").group(ACCESS),
    prop("X509AuthenticationProvider.superUser", Kind::Text, "", "subject of the super user's certificate, in the form of RFC 2253").unset().group(Group::Tls),

    // Features
    prop("extendedTypesEnabled", Kind::JavaBool, "false", "TTL znodes").group(FEATURES),
    prop("emulate353TTLNodes", Kind::JavaBool, "false", "read TTL owners as 3.5.3 wrote them").group(FEATURES),
    full("znode.container.checkIntervalMs", ms(1), "60000", "time between looks for empty containers and expired TTL znodes").group(FEATURES),
    full("znode.container.maxPerMinute", count(1), "10000", "containers and TTL znodes deleted per minute").group(FEATURES),
    full("znode.container.maxNeverUsedIntervalMs", number(0, i64::MAX / 2, "ms"), "0", "age at which a container that never had a child is deleted; 0: never").group(FEATURES),
    prop("enforceQuota", Kind::JavaBool, "false", "refuse writes above a hard quota").group(FEATURES),
    full("readonlymode.enabled", Kind::JavaBool, "false", "serve read-only clients while there is no quorum; needs localSessionsEnabled=true; on a standalone server it only enables the word isro").group(FEATURES),
    file("reconfigEnabled", Kind::StrictBool, "false", "reconfiguration; a standalone server refuses it either way, with different errors").group(FEATURES),

    // Operations
    file("autopurge.snapRetainCount", count(I32_MIN), "3", "snapshots to keep, at least 3").group(OPERATIONS),
    file("autopurge.purgeInterval", Kind::Interval, "0", "time between purges; 0: never").group(OPERATIONS),
    prop("4lw.commands.whitelist", Kind::List, "", "four-letter words that are answered; *: all").computed("`ruok,srvr` with zebu.hardened, else `srvr`").group(OPERATIONS),
    full(super::RUN_WITHOUT, Kind::List, "", "parts that this version lacks and whose settings are only a warning: plugins, tracing").unset().group(OPERATIONS),
    file("metricsProvider.className", Kind::Text, super::DEFAULT_METRICS, "how metrics are published: this class, `NullMetricsProvider`, or `org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider`, which serves `/metrics`; `mntr` is the same with each").group(OPERATIONS),
    file("metricsProvider.httpHost", Kind::Text, "0.0.0.0", "address of the Prometheus page").group(OPERATIONS),
    file("metricsProvider.httpPort", PORT, "7000", "port of the Prometheus page; 0: the system chooses a port").group(OPERATIONS),
    prop("zebu.topClients", number(0, 100, ""), "0", "number of client addresses that the Prometheus page lists, those with the most requests on open connections; 0: none").group(OPERATIONS),
    file("metricsProvider.exportJvmInfo", Kind::JavaBool, "true", "the Prometheus page has metrics of the process (`process_*`); there are none of a JVM").group(OPERATIONS),
    file("metricsProvider.httpsPort", PORT, "", "port of the Prometheus page over TLS; without httpPort the page is available over TLS only; 0: the system chooses a port").unset().group(Group::Tls),
    file("metricsProvider.ssl.keyStore.location", Kind::Path, "", "PEM, PKCS12 or JKS with the key and certificates of the Prometheus page").unset().group(Group::Tls),
    file("metricsProvider.ssl.keyStore.password", Kind::Secret, "", "its password").unset().group(Group::Tls),
    file("metricsProvider.ssl.keyStore.passwordPath", Kind::Path, "", "file with its password, instead of metricsProvider.ssl.keyStore.password").unset().group(Group::Tls),
    file("metricsProvider.ssl.keyStore.type", Kind::Choice(STORES), "", "its kind; not needed").computed("from the content").group(Group::Tls),
    file("metricsProvider.ssl.trustStore.location", Kind::Path, "", "PEM, PKCS12 or JKS with the certificates of the authorities that sign certificates of its clients").unset().group(Group::Tls),
    file("metricsProvider.ssl.trustStore.password", Kind::Secret, "", "its password").unset().group(Group::Tls),
    file("metricsProvider.ssl.trustStore.passwordPath", Kind::Path, "", "file with its password, instead of metricsProvider.ssl.trustStore.password").unset().group(Group::Tls),
    file("metricsProvider.ssl.trustStore.type", Kind::Choice(STORES), "", "its kind; not needed").computed("from the content").group(Group::Tls),
    file("metricsProvider.ssl.need.client.auth", Kind::JavaBool, "true", "clients of the Prometheus page with TLS must show a certificate").group(Group::Tls),
    file("metricsProvider.ssl.want.client.auth", Kind::JavaBool, "true", "clients of the Prometheus page may show a certificate, which must be valid; without need.client.auth").group(Group::Tls),
    file("metricsProvider.ssl.enabledProtocols", Kind::List, "", "versions of TLS: TLSv1.2, TLSv1.3").computed("both").group(Group::Tls),
    file("metricsProvider.ssl.ciphersuites", Kind::List, "", "cipher suites under their names in Java, the best first").computed("all that are safe").group(Group::Tls),
    file("metricsProvider.*", Kind::Text, "", "other settings of the class").unset().harmless("metrics are counted where they arise, without workers and queues").group(OPERATIONS),
    prop("audit.enable", Kind::JavaBool, "false", "write an audit log; see docs/logging.md").group(OPERATIONS),
    prop("audit.impl.class", Kind::Text, "", "class of the audit log: the original's own, which write the same lines, or none").unset()
        .not_built(Part::Plugins, Switch::OtherAuditLog).group(OPERATIONS),
    prop("zebu.log.level", Kind::Text, "", "which lines the log has: a level, and levels of modules, as in `info,zebu_zab=debug`; may be changed over HTTP").computed("RUST_LOG, else info").group(OPERATIONS),
    prop("zebu.log.format", Kind::Text, "text", "format of the log's lines, `text` or `json`: one for all outputs, or formats of single outputs as well, as in `text,file=json`; may be changed over HTTP").group(OPERATIONS),
    prop("zebu.log.threshold", Kind::Text, "", "the least severe level that each output gets, below zebu.log.level, as in `stderr=warn,file=debug`; one level applies to all outputs").unset().group(OPERATIONS),
    prop("zebu.log.to", Kind::Text, "stderr", "where the log goes, one or several of `stderr` (the standard error stream), `file` (log.file in log.dir) and `journald` (the journal of systemd), separated by commas").group(OPERATIONS),
    prop("zebu.log.otlp.endpoint", Kind::Text, "", "send the log to this OpenTelemetry collector as well, over OTLP/HTTP, as in `http://127.0.0.1:4318`; without a path, the path is /v1/logs").unset().group(OPERATIONS),
    prop("zebu.log.otlp.headers", Kind::Secret, "", "headers of each request to the collector, as in `Authorization=Bearer%20abc,X-Scope=a`").unset().group(OPERATIONS),
    prop("zebu.log.otlp.attributes", Kind::Text, "", "attributes of this server at the collector, as in `service.name=zk-eu,deployment.environment.name=prod`").computed("service.name=zebu, service.version, service.instance.id, host.name, process.pid").group(OPERATIONS),
    prop("zebu.log.otlp.level", Kind::Text, "", "which lines the collector gets, in the form of zebu.log.level").computed("the levels of the whole log").group(OPERATIONS),
    prop("log.file", Kind::Path, "zookeeper.log", "name of the log file, if zebu.log.to names `file`; in log.dir, unless it is an absolute path").group(OPERATIONS),
    prop("zebu.log.fileMegabytes", number(1, 1_000_000, "MiB"), "10", "size at which a new file of the log is begun").group(OPERATIONS),
    prop("zebu.log.files", number(1, 10_000, ""), "11", "files of the log that are kept, including the current one").group(OPERATIONS),
    prop("zebu.log.rotate", Kind::Choice(super::PERIODS), "never", "also start a new file of the log at the end of each hour or day, in UTC").group(OPERATIONS),
    prop("zebu.slowRequest.millis", number(0, 86_400_000, "ms"), "3000", "the server logs each request whose answer takes longer, with the time of each phase; 0: none").group(OPERATIONS),
    prop("log.dir", Kind::Path, ".", "directory of the audit log and of the log").group(OPERATIONS),
    prop("auditlog.file", Kind::Path, "zookeeper_audit.log", "name of the audit log file; in log.dir, unless it is an absolute path").group(OPERATIONS),
    prop("zebu.audit.fileMegabytes", number(1, 1_000_000, "MiB"), "10", "size at which a new file of the audit log is begun").group(OPERATIONS),
    prop("zebu.audit.files", number(1, 10_000, ""), "11", "files of the audit log that are kept, including the current one").group(OPERATIONS),
    prop("zebu.audit.rotate", Kind::Choice(super::PERIODS), "never", "also start a new file of the audit log at the end of each hour or day, in UTC").group(OPERATIONS),
    full("requestTraceFile", Kind::Path, "", "the same as traceFile").unset().group(OPERATIONS),
    file("traceFile", Kind::Path, "", "write the request trace, subject to the trace mask, to files of this name with `.year.month.day`, one for each day in UTC; zebu.log.files of them are kept").unset().group(OPERATIONS),
    prop("pathStats.enabled", Kind::JavaBool, "false", "log statistics by path").not_built(Part::Tracing, Switch::True).group(OPERATIONS),
    detail(prop("pathStats.*", Kind::Text, "", "tuning").unset(), Part::Tracing),
    logging(prop("messageTracker.Enabled", Kind::JavaBool, "false", "remember messages of learners")),
    logging(prop("messageTracker.BufferSize", count(I32_MIN), "10", "how many")),
    jvm(file("jvm.pause.monitor", Kind::StrictBool, "false", "watch for JVM pauses")),
    jvm(file("jvm.pause.sleep.time.ms", number(I32_MIN, i64::MAX, "ms"), "500", "how often")),
    jvm(file("jvm.pause.info-threshold.ms", number(I32_MIN, i64::MAX, "ms"), "1000", "pause that is logged")),
    jvm(file("jvm.pause.warn-threshold.ms", number(I32_MIN, i64::MAX, "ms"), "10000", "pause that is a warning")),
    jvm(prop("jmx.*", Kind::Text, "", "JMX").unset()),
    logging(prop("log.*", Kind::Text, "", "log files").unset()),
    logging(prop("root.logger", Kind::Text, "", "loggers").unset()),
    logging(prop("console.threshold", Kind::Text, "", "loggers").unset()),
    logging(prop("tracelog.*", Kind::Text, "", "log files").unset()),
    logging(prop("auditlog.*", Kind::Text, "", "log files").unset()),
    logging(prop("audit.logger", Kind::Text, "", "loggers").unset()),

    // Ensemble
    file("server.*", Kind::Text, "", "member: `host:port:port[:role][;[host:]port]`; one participant alone runs standalone, more are an ensemble").unset().group(Group::Ensemble),
    file("dynamicConfigFile", Kind::Path, "", "file with the members").unset().group(Group::Ensemble),
    file("standaloneEnabled", Kind::StrictBool, "true", "false: even one server runs the ensemble protocol").group(Group::Ensemble),
    file("electionAlg", count(I32_MIN), "3", "election algorithm; only 3 is supported").group(Group::Ensemble),
    file("peerType", Kind::Text, "participant", "participant or observer; the server list takes precedence").group(Group::Ensemble),
    file("oraclePath", Kind::Path, "", "file whose first character is 1 if one of two servers may continue alone; if both files say so while the servers cannot reach each other, acknowledged writes are lost, as with the original").unset().group(Group::Ensemble),
    ensemble(file("group.*", Kind::Text, "", "group of a hierarchical quorum: `1:2:3`").unset()),
    ensemble(file("weight.*", Kind::Text, "", "weight of a server in a hierarchical quorum").unset()),
    ensemble(file("initLimit", number(I32_MIN, I32_MAX, "ticks"), "0", "time a learner has to synchronize; required in an ensemble")),
    ensemble(file("syncLimit", number(I32_MIN, I32_MAX, "ticks"), "0", "longest time that a learner may be silent or behind; required in an ensemble")),
    ensemble(file("connectToLearnerMasterLimit", number(I32_MIN, I32_MAX, "ticks"), "0", "time a learner has to connect; 0: initLimit")),
    ensemble(file("quorumListenOnAllIPs", Kind::StrictBool, "false", "listen on all addresses for members")),
    ensemble(file("observerMasterPort", PORT, "0", "port for observers of a follower; 0: none")),
    ensemble(file("syncEnabled", Kind::StrictBool, "true", "observers keep log and snapshots")),
    ensemble(prop("observer.syncEnabled", Kind::JavaBool, "", "the same as syncEnabled, and takes precedence").unset()),
    ensemble(file("localSessionsEnabled", Kind::StrictBool, "false", "sessions known to one server only")),
    ensemble(file("localSessionsUpgradingEnabled", Kind::StrictBool, "false", "upgrade them for ephemerals")),
    stages(file("quorum.cnxn.threads.size", count(I32_MIN), "20", "threads")),
    ensemble(prop("multiAddress.enabled", Kind::JavaBool, "false", "several addresses per member")),
    ensemble(prop("multiAddress.reachabilityCheckEnabled", Kind::JavaBool, "true", "check which of them answer")),
    ensemble(prop("multiAddress.reachabilityCheckTimeoutMs", ms(0), "1000", "how long")),
    ensemble(prop("leaderServes", Kind::Flag { word: "no", means: false }, "yes", "the leader accepts clients")),
    ensemble(prop("cnxTimeout", ms(1), "5000", "time to connect in elections")),
    ensemble(prop("quorumCnxnTimeoutMs", ms(I32_MIN), "-1", "time in which a new connection on the election port must introduce its server, at most 15 s; 0 and less: syncLimit")),
    ensemble(prop("electionPortBindRetry", count(I32_MIN), "3", "tries to bind the election port; 0: forever")),
    ensemble(prop("tcpKeepAlive", Kind::JavaBool, "false", "TCP keep-alive on election connections")),
    ensemble(prop("fastleader.minNotificationInterval", ms(1), "200", "time after which votes are sent again, at first")),
    ensemble(prop("fastleader.maxNotificationInterval", ms(1), "60000", "the same, at last")),
    ensemble(prop("zebu.leaderSilence", ms(0), "600", "silence after which a learner gives up its leader, and a leader its quorum, while all voters are Zebu servers, unless syncLimit is shorter; 0: syncLimit only")),
    ensemble(prop("leader.maxTimeToWaitForEpoch", ms(-1), "-1", "time after which a new leader gives up if one of its voters supports another server; -1: initLimit")),
    ensemble(prop("leader.maxConcurrentSnapSyncs", count(1), "10", "most observers that receive a snapshot at the same time")),
    ensemble(prop("leader.maxConcurrentDiffSyncs", count(1), "100", "most observers that receive missing txns at the same time")),
    ensemble(prop("leader.ackLoggingFrequency", count(I32_MIN), "1000", "the leader measures for one of so many txns how long each server takes to acknowledge it; 0: none")),
    stages(prop("leader.*", Kind::Text, "", "tuning of the leader").unset()),
    ensemble(full("leader.nodelay", Kind::JavaBool, "true", "TCP_NODELAY to learners")),
    ensemble(full("follower.nodelay", Kind::JavaBool, "true", "TCP_NODELAY to the leader")),
    stages(prop("learner.*", Kind::Text, "", "tuning of learners").unset()),
    ensemble(prop("leaderConnectDelayDuringRetryMs", ms(0), "100", "pause between attempts to connect to the leader; the first pauses are shorter: 2 ms, 4 ms ...")),
    ensemble(prop("observer.reconnectDelayMs", ms(0), "0", "pause before an observer connects again")),
    ensemble(prop("observer.election.DelayMs", ms(0), "200", "longest pause before an observer looks for a leader again")),
    ensemble(prop("observerMaster.sizeLimit", number(0, I32_MAX, "bytes"), "33554432", "txns a follower keeps for its observers")),
    stages(prop("follower.skipLearnerRequestToNextProcessor", Kind::JavaBool, "false", "tuning")),
    stages(prop("forward_learner_requests_to_commit_processor_disabled", Kind::JavaBool, "false", "tuning")),
    stages(prop("commitProcessor.*", Kind::Text, "", "tuning of the commit stage").unset()),
    stages(prop("commitProcessor.numWorkerThreads", count(I32_MIN), "", "threads").computed("cores")),

    // TLS
    file("secureClientPort", PORT, "", "port for clients with TLS; without it (or 0) there is none").unset().group(Group::Tls),
    file("secureClientPortAddress", Kind::Text, "", "the one address it listens on").computed("all").group(Group::Tls),
    prop("client.portUnification", Kind::JavaBool, "false", "clientPort also accepts clients with TLS; the first bytes of a connection decide").group(Group::Tls),
    prop("client.certReload", Kind::JavaBool, "true", "read key store, trust store, password files and revocation lists again when they change").group(Group::Tls),
    prop("ssl.keyStore.location", Kind::Path, "", "PEM, PKCS12 or JKS with the server's key and certificates; its content tells which").unset().group(Group::Tls),
    prop("ssl.keyStore.password", Kind::Secret, "", "its password").unset().group(Group::Tls),
    prop("ssl.keyStore.passwordPath", Kind::Path, "", "file with its password, instead of ssl.keyStore.password").unset().group(Group::Tls),
    prop("ssl.keyStore.type", Kind::Choice(STORES), "", "its kind; not needed").computed("from the content").group(Group::Tls),
    prop("ssl.trustStore.location", Kind::Path, "", "PEM, PKCS12 or JKS with the certificates of the authorities that sign certificates of clients").unset().group(Group::Tls),
    prop("ssl.trustStore.password", Kind::Secret, "", "its password").unset().group(Group::Tls),
    prop("ssl.trustStore.passwordPath", Kind::Path, "", "file with its password, instead of ssl.trustStore.password").unset().group(Group::Tls),
    prop("ssl.trustStore.type", Kind::Choice(STORES), "", "its kind; not needed").computed("from the content").group(Group::Tls),
    prop("ssl.clientAuth", Kind::Choice(&["", "none", "want", "need"]), "need", "whether the server asks clients for a certificate: no, yes, or yes and it is required").group(Group::Tls),
    prop("ssl.protocol", Kind::Text, "TLS", "TLSv1.2, TLSv1.3, or TLS for both; ssl.enabledProtocols comes first").group(Group::Tls),
    prop("ssl.enabledProtocols", Kind::List, "", "versions of TLS: TLSv1.2, TLSv1.3").computed("ssl.protocol").group(Group::Tls),
    prop("ssl.ciphersuites", Kind::List, "", "cipher suites under their names in Java, the best first").computed("all that are safe").group(Group::Tls),
    prop("ssl.hostnameVerification", Kind::JavaBool, "true", "whether a certificate must be for the host that presents it; a server checks its clients only with ssl.clientHostnameVerification").group(Group::Tls),
    prop("ssl.clientHostnameVerification", Kind::JavaBool, "false", "a client's certificate must be for the address that it comes from").group(Group::Tls),
    prop("ssl.allowReverseDnsLookup", Kind::JavaBool, "false", "refused: the owner of an address decides its reverse DNS name").group(Group::Tls),
    prop("ssl.crl", Kind::JavaBool, "false", "refuse revoked certificates; requires zebu.ssl.crlFile").group(Group::Tls),
    prop("zebu.ssl.crlFile", Kind::Path, "", "PEM or DER with the revocation lists of all authorities that sign certificates of clients").unset().group(Group::Tls),
    prop("ssl.ocsp", Kind::JavaBool, "false", "ask the OCSP responder that each certificate of a client names; refuse the certificate unless it is good").group(Group::Tls),
    prop("ssl.context.supplier.class", Kind::Text, "", "refused: a class of Java").unset().group(Group::Tls),
    prop("ssl.handshakeDetectionTimeoutMillis", ms(1), "5000", "with client.portUnification: a client that sends nothing for this long is served without TLS").group(Group::Tls),
    prop("ssl.authProvider", Kind::Text, "x509", "scheme of the id that a client gets from its certificate; x509 is the only one").group(Group::Tls),
    prop("ssl.sslProvider", Kind::Text, "JDK", "library of TLS").harmless("TLS is that of rustls").group(Group::Tls),
    prop("ssl.tcnative.ocsp.stapling", Kind::JavaBool, "false", "setting of OpenSSL").harmless("TLS is that of rustls").group(Group::Tls),
    file("sslQuorum", Kind::StrictBool, "false", "servers speak TLS to each other").group(Group::Tls),
    file("portUnification", Kind::StrictBool, "false", "servers may connect with or without TLS; the first bytes of a connection decide").group(Group::Tls),
    file("sslQuorumReloadCertFiles", Kind::StrictBool, "true", "read the files of ssl.quorum.* again when they change").group(Group::Tls),
    prop("ssl.quorum.keyStore.location", Kind::Path, "", "PEM, PKCS12 or JKS with the key and certificates of this server as a member").unset().group(Group::Tls),
    prop("ssl.quorum.keyStore.password", Kind::Secret, "", "its password").unset().group(Group::Tls),
    prop("ssl.quorum.keyStore.passwordPath", Kind::Path, "", "file with its password, instead of ssl.quorum.keyStore.password").unset().group(Group::Tls),
    prop("ssl.quorum.keyStore.type", Kind::Choice(STORES), "", "its kind; not needed").computed("from the content").group(Group::Tls),
    prop("ssl.quorum.trustStore.location", Kind::Path, "", "PEM, PKCS12 or JKS with the certificates of the authorities that sign certificates of servers").unset().group(Group::Tls),
    prop("ssl.quorum.trustStore.password", Kind::Secret, "", "its password").unset().group(Group::Tls),
    prop("ssl.quorum.trustStore.passwordPath", Kind::Path, "", "file with its password, instead of ssl.quorum.trustStore.password").unset().group(Group::Tls),
    prop("ssl.quorum.trustStore.type", Kind::Choice(STORES), "", "its kind; not needed").computed("from the content").group(Group::Tls),
    prop("ssl.quorum.clientAuth", Kind::Choice(&["", "none", "want", "need"]), "need", "whether a server asks servers that connect for a certificate: no, yes, or yes and it is required").group(Group::Tls),
    prop("ssl.quorum.protocol", Kind::Text, "TLS", "TLSv1.2, TLSv1.3, or TLS for both; ssl.quorum.enabledProtocols comes first").group(Group::Tls),
    prop("ssl.quorum.enabledProtocols", Kind::List, "", "versions of TLS: TLSv1.2, TLSv1.3").computed("ssl.quorum.protocol").group(Group::Tls),
    prop("ssl.quorum.ciphersuites", Kind::List, "", "cipher suites under their names in Java, the best first").computed("all that are safe").group(Group::Tls),
    prop("ssl.quorum.hostnameVerification", Kind::JavaBool, "true", "whether certificates of servers must be for their hosts, in both directions").group(Group::Tls),
    prop("ssl.quorum.clientHostnameVerification", Kind::JavaBool, "true", "the certificate of a server that connects must be for the address that it comes from, or for a host in the list of members").group(Group::Tls),
    prop("zebu.quorum.identity", Kind::StrictBool, "false", "the certificate of a server must be for a host of that server's own line in the list of members").group(Group::Tls),
    prop("ssl.quorum.allowReverseDnsLookup", Kind::JavaBool, "false", "refused: the owner of an address decides its reverse DNS name").group(Group::Tls),
    prop("ssl.quorum.crl", Kind::JavaBool, "false", "refuse revoked certificates; requires zebu.ssl.quorum.crlFile").group(Group::Tls),
    prop("zebu.ssl.quorum.crlFile", Kind::Path, "", "PEM or DER with the revocation lists of all authorities that sign certificates of servers").unset().group(Group::Tls),
    prop("ssl.quorum.ocsp", Kind::JavaBool, "false", "ask the OCSP responder that each certificate of another server names; refuse the certificate unless it is good").group(Group::Tls),
    prop("ssl.quorum.context.supplier.class", Kind::Text, "", "refused: a class of Java").unset().group(Group::Tls),
    prop("ssl.quorum.handshakeDetectionTimeoutMillis", ms(1), "5000", "with portUnification: a server that sends nothing for this long is served without TLS").group(Group::Tls),
    prop("ssl.quorum.authProvider", Kind::Text, "", "scheme of certificates").unset().harmless("servers have no ids").group(Group::Tls),
    prop("ssl.quorum.sslProvider", Kind::Text, "JDK", "library of TLS").harmless("TLS is that of rustls").group(Group::Tls),
    prop("ssl.quorum.tcnative.ocsp.stapling", Kind::JavaBool, "false", "setting of OpenSSL").harmless("TLS is that of rustls").group(Group::Tls),
    prop("fips-mode", Kind::JavaBool, "true", "leave out what Java adds to its TLS").harmless("certificates are checked in one way, and TLSv1.2 and TLSv1.3 are spoken either way").group(Group::Tls),

    // SASL
    full("java.security.auth.login.config", Kind::Path, "", "JAAS file with the users; read once, at the start").unset().group(Group::Sasl),
    full("java.security.krb5.conf", Kind::Path, "", "krb5.conf of a login with Kerberos; the environment must have KRB5_CONFIG with the same path").unset().group(Group::Sasl),
    full("java.security.krb5.realm", Kind::Text, "", "refused with a login with Kerberos: use default_realm of krb5.conf").unset().group(Group::Sasl),
    full("java.security.krb5.kdc", Kind::Text, "", "refused with a login with Kerberos: use kdc of the realm in krb5.conf").unset().group(Group::Sasl),
    prop("sasl.serverconfig", Kind::Text, "Server", "section of the JAAS file").group(Group::Sasl),
    prop("superUser", Kind::Text, "", "id of the scheme sasl whose clients are super users").unset().group(Group::Sasl),
    prop("superUser.*", Kind::Text, "", "more of them").unset().group(Group::Sasl),
    prop("SASLAuthenticationProvider.superPassword", Kind::Secret, "", "password of the user super, instead of the one in the section, which must have user_super").unset().group(Group::Sasl),
    prop("letAnySaslUserDoX", Kind::Text, "", "an entry of an ACL with this id of the scheme sasl means every user").unset().group(Group::Sasl),
    prop("allowSaslFailedClients", Kind::JavaBool, "false", "a client that fails to authenticate stays, without an id").group(Group::Sasl),
    prop("security.auth_to_local", Kind::Text, "DEFAULT", "rules that shorten Kerberos names").group(Group::Sasl),
    prop("kerberos.removeHostFromPrincipal", Kind::Flag { word: "true", means: true }, "false", "ids have no host").group(Group::Sasl),
    prop("kerberos.removeRealmFromPrincipal", Kind::Flag { word: "true", means: true }, "false", "ids have no realm").group(Group::Sasl),
    file("quorum.auth.enableSasl", Kind::StrictBool, "false", "servers that connect to this one may authenticate with SASL").group(Group::Sasl),
    file("quorum.auth.learnerRequireSasl", Kind::StrictBool, "false", "this server authenticates to the servers that it connects to; requires quorum.auth.enableSasl").group(Group::Sasl),
    file("quorum.auth.serverRequireSasl", Kind::StrictBool, "false", "servers that connect to this one must authenticate; requires quorum.auth.learnerRequireSasl").group(Group::Sasl),
    file("quorum.auth.learner.saslLoginContext", Kind::Text, "QuorumLearner", "section of the JAAS file with the name and password, or the principal, of this server").group(Group::Sasl),
    file("quorum.auth.server.saslLoginContext", Kind::Text, "QuorumServer", "section of the JAAS file with the servers that may authenticate, or the principal that they authenticate to").group(Group::Sasl),
    file("quorum.auth.kerberos.servicePrincipal", Kind::Text, "zkquorum/localhost", "name of the other servers in Kerberos; `_HOST` stands for the host that this server connects to").group(Group::Sasl),
    prop("sasl.*", Kind::Text, "", "settings of clients").unset().harmless("clients read them").group(Group::Sasl),
    prop("kerberos.*", Kind::Text, "", "settings of Java's Kerberos").unset().harmless("they concern clients, and logins of Java").group(Group::Sasl),

    // Admin server
    prop("admin.enableServer", Kind::Flag { word: "false", means: false }, "true", "serve HTTP").group(ADMIN),
    prop("admin.serverAddress", Kind::Text, "127.0.0.1", "the one address to listen on; `0.0.0.0`: all").group(ADMIN),
    prop("admin.serverPort", PORT, "8080", "its port; 0: the system chooses a port").group(ADMIN),
    prop("admin.commandURL", Kind::Text, "/commands", "path of the commands: segments of letters, digits, `.`, `_` and `-`").group(ADMIN),
    prop("admin.idleTimeout", ms(1), "30000", "longest time for the header of a request, and for the client to take an answer").group(ADMIN),
    prop("admin.httpVersion", Kind::Choice(&["11"]), "11", "HTTP/1.1, the only version").group(ADMIN),
    prop("admin.rateLimiterIntervalInMS", ms(0), "300000", "time between two snapshots that clients ask for, and between two that they restore").group(ADMIN),
    prop("admin.snapshot.enabled", Kind::JavaBool, "true", "the command `snapshot`, for clients with every permission on `/`").group(ADMIN),
    prop("admin.restore.enabled", Kind::JavaBool, "true", "the command `restore` of a server alone, for clients with every permission on `/`").group(ADMIN),
    prop("admin.console", Kind::JavaBool, "false", "the console in the browser, at `/console/`: [console.md](console.md)").group(ADMIN),
    prop("admin.console.hosts", Kind::List, "", "names by which browsers reach the console, besides `localhost` and addresses").unset().group(ADMIN),
    prop("admin.console.idleTimeout", ms(1000), "900000", "idle time after which the console signs a user out").group(ADMIN),
    prop("admin.portUnification", Kind::JavaBool, "false", "requests with and without TLS on one port, with the key and trust stores of ssl.quorum.*; the first bytes of a connection decide").group(ADMIN),
    prop("admin.forceHttps", Kind::JavaBool, "false", "requests with TLS only, with the key and trust stores of ssl.quorum.*").group(ADMIN),
    prop("admin.needClientAuth", Kind::JavaBool, "false", "clients with TLS must show a certificate; requires admin.forceHttps or admin.portUnification").group(ADMIN),
];

/// Message digests of a JDK.
const DIGESTS: &[&str] = &[
    "SHA1",
    "SHA-1",
    "SHA",
    "MD2",
    "MD5",
    "SHA-224",
    "SHA-256",
    "SHA-384",
    "SHA-512",
    "SHA-512/224",
    "SHA-512/256",
    "SHA3-224",
    "SHA3-256",
    "SHA3-384",
    "SHA3-512",
];
/// Kinds of key and trust stores.
const STORES: &[&str] = &["", "PEM", "PKCS12", "JKS"];
