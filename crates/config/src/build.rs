//! Turns the merged text into the typed configuration.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::HostPort;
use zebu_proto::address::same_host;
use zebu_zab::config::Role;

use super::dynamic::Members;
use super::registry::{self, Default, Kind, Property};
use super::secret::Secret;
use super::settings::*;
use super::sources::{Given, Merged, Origin, ReadFile};
use super::{Note, Problem, value};

/// Minimum number of snapshots to keep.
const SNAPSHOTS_KEPT_MIN: i64 = 3;
/// Minimum number of transactions between snapshots.
const SNAPSHOT_TXNS_MIN: i64 = 2;
/// Minimum length of the log in percent of a snapshot's size before a snapshot is due, unless the
/// number of transactions is set. So a start replays at most about as much as it loads.
const SNAPSHOT_LOG_PERCENT: u32 = 100;
/// Minimum allowance above `jute.maxbuffer`.
const PACKET_EXTRA_BYTES_MIN: i64 = 1024;

/// Reads settings by key. It records the keys, so that a test can find a forgotten one.
///
/// Values were validated before: an invalid one has already been reported, and reads as the
/// default.
pub(super) struct Reader<'a> {
    merged: &'a Merged,
    read: ReadFile<'a>,
    problems: RefCell<Vec<Problem>>,
    notes: RefCell<Vec<Note>>,
    pub(super) keys_read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(merged: &'a Merged, read: ReadFile<'a>) -> Self {
        Self {
            merged,
            read,
            problems: RefCell::default(),
            notes: RefCell::default(),
            keys_read: RefCell::default(),
        }
    }

    pub(super) fn finish(self) -> (Vec<Problem>, Vec<Note>) {
        (self.problems.into_inner(), self.notes.into_inner())
    }

    /// The value given, if it is valid.
    pub(super) fn given(&self, key: &'static str) -> Option<&'a Given> {
        self.keys_read.borrow_mut().insert(key);
        let given = self.merged.given.get(key)?;
        value::fault(given.setting, key, given.value()).is_none().then_some(given)
    }

    pub(super) fn value(&self, key: &'static str) -> Option<&'a str> {
        if let Some(given) = self.given(key) {
            return Some(given.value());
        }
        match registry::by_key(key).map(|setting| setting.default) {
            Some(Default::Value(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &'static str) -> Option<String> {
        self.value(key).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub(super) fn is_on(&self, key: &'static str) -> bool {
        let text = self.value(key).unwrap_or_default();
        match registry::by_key(key).map(|setting| setting.kind) {
            Some(Kind::Flag { word, means }) => (text == word) == means,
            _ => value::java_bool(text),
        }
    }

    pub(super) fn number(&self, key: &'static str) -> Option<i64> {
        let is_property =
            registry::by_key(key).is_some_and(|setting| setting.property != Property::None);
        self.value(key).and_then(|text| value::whole_number(text, is_property).ok())
    }

    /// A number whose range the registry guarantees to fit.
    pub(super) fn count(&self, key: &'static str) -> u32 {
        self.number(key).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    /// `None` for 0 and less.
    pub(super) fn count_or_off(&self, key: &'static str) -> Option<u32> {
        self.number(key).and_then(|number| u32::try_from(number).ok()).filter(|&number| number > 0)
    }

    /// Every given property, by its property name, with secrets masked.
    pub(super) fn properties(&self) -> BTreeMap<String, String> {
        let given = self.merged.given.values();
        given
            .filter_map(|given| {
                let name = match given.setting.property {
                    Property::None => return None,
                    Property::Prefixed => format!("{}{}", registry::PREFIX, given.key),
                    Property::Full => given.key.clone(),
                };
                Some((name, given.shown().to_owned()))
            })
            .collect()
    }

    pub(super) fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        (self.read)(path)
    }

    /// The configuration file, as it was read.
    pub(super) fn file(&self) -> Option<&[u8]> {
        self.merged.file.as_deref()
    }

    /// The word of the registry's list that the value matches.
    pub(super) fn choice(&self, key: &'static str) -> &'static str {
        match registry::by_key(key).map(|setting| setting.kind) {
            Some(Kind::Choice(words)) => {
                self.value(key).and_then(|text| value::choice(words, text)).unwrap_or_default()
            }
            _ => "",
        }
    }

    fn kib_or_off(&self, key: &'static str) -> Option<u64> {
        let kib = self.number(key).and_then(|number| u64::try_from(number).ok())?;
        (kib > 0).then_some(kib * 1024)
    }

    pub(super) fn ms(&self, key: &'static str) -> Duration {
        Duration::from_millis(self.number(key).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0))
    }

    /// A number between 0 and 1; others fall back to the default, as in the original.
    fn share(&self, key: &'static str) -> f64 {
        let default = match registry::by_key(key).map(|setting| setting.default) {
            Some(Default::Value(text)) => value::decimal(text).unwrap_or(0.0),
            _ => 0.0,
        };
        let Some(given) = self.given(key) else { return default };
        match value::decimal(given.value()) {
            Some(share) if (0.0..=1.0).contains(&share) => share,
            _ => {
                self.adjusted(given, &format!("must be between 0 and 1, using {default}"));
                default
            }
        }
    }

    /// A positive number. Other values fall back to the default, and values below `least` to
    /// `least`, as in the original.
    fn weight(&self, key: &'static str, least: u32) -> u32 {
        let given = self.given(key);
        let weight = self.count_or_off(key).unwrap_or_else(|| {
            let default = match registry::by_key(key).map(|setting| setting.default) {
                Some(Default::Value(text)) => text.parse().unwrap_or(1),
                _ => 1,
            };
            if let Some(given) = given {
                self.adjusted(given, &format!("must be positive, using {default}"));
            }
            default
        });
        if let Some(given) = given
            && weight < least
        {
            let why = format!("must not be less than a local session's, using {least}");
            self.adjusted(given, &why);
        }
        weight.max(least)
    }

    /// A number that is raised to a minimum with a warning.
    pub(super) fn at_least(&self, key: &'static str, min: i64) -> u32 {
        let number = self.number(key).unwrap_or(min);
        if number < min
            && let Some(given) = self.given(key)
        {
            self.adjusted(given, &format!("must be at least {min}, using {min}"));
        }
        u32::try_from(number.max(min)).unwrap_or(u32::MAX)
    }

    pub(super) fn adjusted(&self, given: &Given, why: &str) {
        let text = format!("{}: {}={}: {why}", given.origin, given.name, given.shown());
        self.notes.borrow_mut().push(Note::warn(text));
    }

    pub(super) fn note(&self, note: Note) {
        self.notes.borrow_mut().push(note);
    }

    /// The given values of the family `name.*`.
    pub(super) fn family(&self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.family_keys(name).map(|(_, value)| value)
    }

    /// The given keys and values of the family `name.*`.
    pub(super) fn family_keys(
        &self,
        name: &'static str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let belongs =
            move |key: &str| key.strip_prefix(name).is_some_and(|member| member.starts_with('.'));
        let given = self.merged.given.iter().filter(move |(key, _)| belongs(key));
        given.map(|(key, given)| (key.as_str(), given.value()))
    }

    /// The value of a key that the text of another file names.
    pub(super) fn any_given(&self, key: &str) -> Option<String> {
        self.merged.given.get(key).map(|given| given.value().to_owned())
    }

    pub(super) fn problem(&self, key: &str, text: impl Into<String>) {
        let origin =
            self.merged.given.get(key).map_or(Origin::Default, |given| given.origin.clone());
        let problem = Problem::new(origin, text.into());
        let mut problems = self.problems.borrow_mut();
        // Two ports may use the same stores.
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    fn data(&self) -> DataConfig {
        let dir = self.text("dataDir").map(PathBuf::from).unwrap_or_else(|| {
            self.problem("dataDir", "dataDir is not set");
            PathBuf::new()
        });
        for key in ["dataDir", "dataLogDir"] {
            if let Some(given) = self.given(key)
                && matches!(given.origin, Origin::File { .. })
                && !given.value().is_empty()
                && !given.value().starts_with(['/', '.'])
            {
                self.adjusted(
                    given,
                    "is relative to the working directory, prepend ./ to say that this is meant",
                );
            }
        }
        DataConfig {
            log_dir: self.text("dataLogDir").map_or_else(|| dir.clone(), PathBuf::from),
            dir,
            create_dirs: self.is_on("datadir.autocreate"),
            create_db: self.is_on("db.autocreate"),
            accept_members: self.is_on("zebu.acceptMembers"),
            trust_empty_snapshot: self.is_on("snapshot.trust.empty"),
            accept_damaged_log: self.is_on("zebu.acceptDamagedLog"),
        }
    }

    fn log(&self) -> LogConfig {
        let flush_delay = self.ms("flushDelay");
        LogConfig {
            preallocate_bytes: self.kib_or_off("preAllocSize").unwrap_or(0),
            preallocate_adaptive: self.is_on("zebu.preAllocAdaptive"),
            file_bytes_max: self.kib_or_off("txnLogSizeLimitInKb"),
            fsync: self.is_on("forceSync"),
            fsync_warning: self.ms("fsync.warningthresholdms"),
            flush_delay,
            queue_poll_max: match self.number("maxWriteQueuePollTime") {
                Some(_) => self.ms("maxWriteQueuePollTime"),
                None => flush_delay / 3,
            },
            batch_txns_max: self.count_or_off("maxBatchSize"),
            close_session_txn: self.is_on("closeSessionTxn.enabled"),
        }
    }

    /// An explicit number of transactions takes precedence.
    fn snapshot_log_percent(&self) -> u32 {
        let percent = self.number("zebu.snapLogPercent");
        let default = if self.given("snapCount").is_some() { 0 } else { SNAPSHOT_LOG_PERCENT };
        percent.and_then(|percent| u32::try_from(percent).ok()).unwrap_or(default)
    }

    fn snapshot(&self) -> SnapshotConfig {
        SnapshotConfig {
            txns: self.at_least("snapCount", SNAPSHOT_TXNS_MIN),
            log_bytes: self.kib_or_off("snapSizeLimitInKb"),
            log_percent: self.snapshot_log_percent(),
            compression: match self.choice("snapshot.compression.method") {
                "gz" => Compression::Gzip,
                "snappy" => Compression::Snappy,
                _ => Compression::Plain,
            },
            digest: self.is_on("digest.enabled"),
            last_zxid: self.is_on("serializeLastProcessedZxid.enabled"),
        }
    }

    fn net(&self, members: &Members) -> NetConfig {
        let may_be_zero = self
            .given("clientPort")
            .is_some_and(|given| matches!(given.origin, Origin::Arguments | Origin::Set));
        let mut client_port = self
            .number("clientPort")
            .and_then(|port| u16::try_from(port).ok())
            .filter(|&port| port > 0 || may_be_zero);
        let mut client_address = self
            .text("clientPortAddress")
            .map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned());
        // Names are resolved at the start. A text that cannot be a name is a typing error.
        let no_host =
            |host: &&String| host.contains(|c: char| c.is_whitespace() || c == ',' || c == '/');
        if let Some(host) = client_address.as_ref().filter(no_host) {
            let text = format!("clientPortAddress={host}: expected a name or an address");
            self.problem("clientPortAddress", text);
        }
        if let Some((member, origin)) = &members.client {
            let member_host = (!member.is_wildcard()).then_some(&member.host);
            let differs = match (&client_port, &client_address, member_host) {
                (Some(port), _, _) if *port != member.port => true,
                (_, Some(ours), Some(theirs)) => !same_host(ours, theirs),
                _ => false,
            };
            if differs {
                self.problems.borrow_mut().push(Problem::new(
                    origin.clone(),
                    "client address of the server line differs from clientPort and clientPortAddress".to_owned(),
                ));
            }
            client_port = Some(member.port);
            client_address = member_host.cloned().or(client_address);
        } else if client_port.is_none() && client_address.is_some() {
            self.problem("clientPortAddress", "clientPortAddress is set but clientPort is not set");
        }
        if client_port.is_none() && self.value("secureClientPort").is_none_or(|port| port == "0") {
            self.notes
                .borrow_mut()
                .push(Note::warn("clientPort is not set: no client can connect".to_owned()));
        }
        NetConfig {
            client_port,
            client_address: client_address.filter(|host| host != "0.0.0.0" && host != "::"),
            backlog: self.count_or_off("clientPortListenBacklog"),
            tcp_keep_alive: self.is_on("clientTcpKeepAlive"),
            handshake_timeout: self.ms("nio.sessionlessCnxnTimeout"),
        }
    }

    /// Refuses a client port that is also a port between servers: whichever is bound first would
    /// exclude the other.
    fn check_ports(&self, members: &Members) {
        let Some(ensemble) = &members.ensemble else { return };
        let Some(me) = ensemble.members.member(ensemble.me) else { return };
        let (client, origin) = match (&members.client, self.given("clientPort")) {
            (Some((client, origin)), _) => (client.clone(), origin.clone()),
            (None, Some(given)) => {
                let Some(port) = self.number("clientPort") else { return };
                let Ok(port @ 1..) = u16::try_from(port) else { return };
                let host = self.text("clientPortAddress").unwrap_or_else(|| "0.0.0.0".to_owned());
                (HostPort::new(host, port), given.origin.clone())
            }
            (None, None) => return,
        };
        let everywhere = client.is_wildcard() || self.is_on("quorumListenOnAllIPs");
        for address in &me.addresses {
            let clashes = everywhere || same_host(&client.host, &address.host);
            let ports =
                [("quorum port", address.quorum_port), ("election port", address.election_port)];
            for (what, _) in ports.into_iter().filter(|(_, port)| clashes && *port == client.port) {
                let text =
                    format!("{}: the client port is also the {what} of this server", client.port);
                self.problems.borrow_mut().push(Problem::new(origin.clone(), text));
            }
        }
    }

    fn sessions(&self) -> SessionConfig {
        if let Some(given) = self.given("tickTime") {
            match value::whole_number(given.value(), false) {
                Ok(0) => self.problem("tickTime", "tickTime is not set"),
                Ok(..0) => self
                    .problem("tickTime", format!("tickTime={}: must be positive", given.value())),
                _ => {}
            }
        }
        let tick = self.ms("tickTime");
        let timeout = |key, ticks: u32| match self.number(key) {
            None | Some(-1) => tick * ticks,
            Some(_) => self.ms(key),
        };
        let sessions = SessionConfig {
            tick,
            timeout_min: timeout("minSessionTimeout", 2),
            timeout_max: timeout("maxSessionTimeout", 20),
        };
        if sessions.timeout_min > sessions.timeout_max {
            let key = if self.given("minSessionTimeout").is_some() {
                "minSessionTimeout"
            } else {
                "maxSessionTimeout"
            };
            self.problem(
                key,
                format!(
                    "minSessionTimeout must not be larger than maxSessionTimeout: {} > {} ms",
                    sessions.timeout_min.as_millis(),
                    sessions.timeout_max.as_millis()
                ),
            );
        }
        sessions
    }

    fn limits(&self) -> LimitConfig {
        let packet_bytes = self.count("jute.maxbuffer") as usize;
        let packet_extra_bytes = match self.number("jute.maxbuffer.extrasize") {
            Some(_) => self.at_least("jute.maxbuffer.extrasize", PACKET_EXTRA_BYTES_MIN) as usize,
            None => packet_bytes.max(PACKET_EXTRA_BYTES_MIN as usize),
        };
        LimitConfig {
            connections_per_address: self.count_or_off("maxClientCnxns"),
            connections: self.count_or_off("maxCnxns"),
            connections_per_identity: self.connections_per_identity(),
            packet_bytes,
            packet_extra_bytes,
            outstanding_requests: self.count("globalOutstandingLimit"),
            outstanding_bytes: self
                .number("zebu.globalOutstandingBytes")
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(usize::MAX),
            large_request_bytes: self.count_or_off("largeRequestThreshold"),
            large_requests_bytes_max: self.count("largeRequestMaxBytes"),
        }
    }

    fn throttle(&self) -> ThrottleConfig {
        let op_wait_max = self.ms("throttled_op_wait_time");
        ThrottleConfig {
            requests_max: self.count_or_off("request_throttle_max_requests"),
            stall: self.ms("request_throttle_stall_time"),
            drop_stale: self.is_on("request_throttle_drop_stale"),
            stale_by_latency: self.is_on("request_stale_latency_check"),
            stale_by_connection: self.is_on("request_stale_connection_check"),
            shutdown_timeout: self.ms("request_throttler.shutdownTimeout"),
            op_wait_max: (!op_wait_max.is_zero()).then_some(op_wait_max),
        }
    }

    fn connection_throttle(&self) -> ConnectionThrottleConfig {
        // A local session costs the least of all sessions.
        let local = self.weight("connection_throttle_local_session_weight", 1);
        let weights = ConnectionWeights {
            global_session: self.weight("connection_throttle_global_session_weight", local),
            local_session: local,
            renew_session: self.weight("connection_throttle_renew_session_weight", local),
        };
        ConnectionThrottleConfig {
            tokens: self.count_or_off("connection_throttle_tokens"),
            fill_time: self.ms("connection_throttle_fill_time"),
            fill_count: self.count("connection_throttle_fill_count"),
            freeze_time: self
                .number("connection_throttle_freeze_time")
                .filter(|&ms| ms >= 0)
                .map(|_| self.ms("connection_throttle_freeze_time")),
            drop_increase: self.share("connection_throttle_drop_increase"),
            drop_decrease: self.share("connection_throttle_drop_decrease"),
            decrease_ratio: self.share("connection_throttle_decrease_ratio"),
            weights: self.is_on("connection_throttle_weight_enabled").then_some(weights),
        }
    }

    fn auth(&self, has_tls: bool) -> AuthConfig {
        let x509 = has_tls || self.has_provider(super::X509_PROVIDER);
        let digest = self.is_on("DigestAuthenticationProvider.enabled");
        let has_sasl = self.has_sasl_scheme();
        let (key, ensemble) = (self.has_key_scheme(), self.ensemble_scheme());
        let outside = self.outside_schemes();
        let built_in = [
            ("ip", true),
            ("digest", digest),
            ("sasl", has_sasl),
            ("x509", x509),
            ("key", key),
            ("ensemble", ensemble.is_some()),
        ];
        let built_in = built_in.into_iter().filter(|(_, has)| *has).map(|(it, _)| it);
        let has: Vec<&str> = built_in.chain(outside.iter().map(|it| &*it.scheme)).collect();
        let enforced_schemes = self.enforced_schemes(&has);
        AuthConfig {
            skip_acl: self.is_on("skipACL"),
            eager_acl_check: self.is_on("enableEagerACLCheck"),
            x509,
            key,
            ensemble,
            outside,
            check_limits: self.check_limits(),
            refuses_world_writes: self.refuses_world_writes(),
            failures_per_minute: self.failures_per_minute(),
            x509_super_user: self.text("X509AuthenticationProvider.superUser"),
            digest,
            digest_algorithm: self.choice("DigestAuthenticationProvider.digestAlg"),
            super_digest: self.text("DigestAuthenticationProvider.superDigest").map(Secret::new),
            sasl: self.sasl(has_sasl, enforced_schemes.iter().any(|scheme| scheme == "sasl")),
            enforced_schemes,
            session_passwords: self.session_passwords(),
        }
    }

    /// Source: `AuthenticationHelper.initConfigurations`.
    fn enforced_schemes(&self, has: &[&str]) -> Vec<String> {
        let schemes = value::list(&self.text("enforce.auth.schemes").unwrap_or_default());
        let is_enforced = self.is_on("enforce.auth.enabled");
        let hint = "hint: authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider makes the scheme";
        if self.is_sasl_required() {
            if !has.contains(&"sasl") {
                let text = format!(
                    "sessionRequireClientSASLAuth=true: this server has no authentication scheme sasl\n{hint}"
                );
                self.problem("sessionRequireClientSASLAuth", text);
            }
            return vec!["sasl".to_owned()];
        }
        if !is_enforced {
            return Vec::new();
        }
        if schemes.is_empty() {
            self.problem(
                "enforce.auth.enabled",
                "enforce.auth.enabled is true but enforce.auth.schemes is not set",
            );
        }
        for scheme in &schemes {
            if !has.contains(&scheme.as_str()) {
                let mut text = format!(
                    "enforce.auth.schemes: this server has no authentication scheme {scheme}"
                );
                if scheme == "sasl" {
                    text.push('\n');
                    text.push_str(hint);
                }
                self.problem("enforce.auth.schemes", text);
            }
        }
        schemes
    }

    fn znodes(&self) -> ZnodeConfig {
        let never_used = self.ms("znode.container.maxNeverUsedIntervalMs");
        ZnodeConfig {
            extended_types: self.is_on("extendedTypesEnabled"),
            emulate_353_ttl: self.is_on("emulate353TTLNodes"),
            enforce_quota: self.is_on("enforceQuota"),
            container_check_interval: self.ms("znode.container.checkIntervalMs"),
            container_deletes_per_minute: self.count("znode.container.maxPerMinute"),
            container_never_used_max: (!never_used.is_zero()).then_some(never_used),
        }
    }

    fn purge(&self) -> PurgeConfig {
        let interval = self.value("autopurge.purgeInterval").unwrap_or("0");
        PurgeConfig {
            snapshots_kept: self.at_least("autopurge.snapRetainCount", SNAPSHOTS_KEPT_MIN),
            interval: value::interval(interval).ok().flatten(),
        }
    }

    fn scrub(&self) -> Option<ScrubConfig> {
        let interval = self.value("zebu.scrubInterval").unwrap_or("24");
        let interval = value::interval(interval).ok().flatten()?;
        let bytes_per_second = self.kib_or_off("zebu.scrubRateInKb")?;
        Some(ScrubConfig { interval, bytes_per_second })
    }

    /// The original accepts keys of ensembles in any case.
    fn check_ensemble_keys(&self) {
        if let Some(given) = self.given("electionAlg")
            && self.number("electionAlg") != Some(3)
        {
            let text = "Invalid electionAlg value. Only 3 is supported.";
            self.problem("electionAlg", format!("electionAlg={}: {text}", given.value()));
        }
        let peer_type = self.text("peerType").unwrap_or_default();
        if let Err(fault) = peer_type.parse::<Role>() {
            self.problem("peerType", format!("peerType={peer_type}: {fault}"));
        }
    }

    /// Settings that reduce safety, for a warning in the log.
    fn warn_of_dangers(&self, config: &Config) {
        for (key, is_dangerous, why) in [
            ("forceSync", !config.log.fsync, "acknowledged writes are lost when the machine stops"),
            ("skipACL", config.auth.skip_acl, "every client that connects has every permission"),
            (
                "snapshot.trust.empty",
                config.data.trust_empty_snapshot,
                "a log without its snapshot is believed complete",
            ),
        ] {
            if let (true, Some(given)) = (is_dangerous, self.given(key)) {
                self.adjusted(given, why);
            }
        }
    }

    pub(super) fn config(&self, file: Option<PathBuf>, members: &Members) -> Config {
        self.check_ensemble_keys();
        // `members` and `config::not_built` read it.
        self.keys_read.borrow_mut().extend([
            "server.*",
            "group.*",
            "weight.*",
            "dynamicConfigFile",
            super::RUN_WITHOUT,
        ]);
        self.check_ports(members);
        let admin = self.admin();
        let client_tls = self.client_tls();
        let auth = self.auth(client_tls.is_some());
        let config = Config {
            file,
            data: self.data(),
            log: self.log(),
            snapshot: self.snapshot(),
            net: self.net(members),
            client_tls,
            sessions: self.sessions(),
            limits: self.limits(),
            throttle: self.throttle(),
            connection_throttle: self.connection_throttle(),
            auth,
            znodes: self.znodes(),
            purge: self.purge(),
            logging: self.logging(),
            audit: self.audit(),
            scrub: self.scrub(),
            // A value that is not a rate was refused before.
            ship_bytes_per_second: self.kib_or_off("zebu.shipRateInKb").unwrap_or(u64::MAX),
            four_letter_words: self.four_letter_words(),
            admin,
            prometheus: self.prometheus(),
            readonly_mode: self.is_on("readonlymode.enabled"),
            reconfig_enabled: self.is_on("reconfigEnabled"),
            ensemble: self.ensemble(members),
        };
        self.warn_of_dangers(&config);
        self.check_hardened(&config);
        config
    }
}
