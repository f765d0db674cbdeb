//! Configurations as text, and the typed settings or errors that they produce.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use zebu_proto::{ServerId, Zxid};
use zebu_replica::Passwords;
use zebu_zab::config::{Role, Rules, Verifier};

use super::registry::Fate;
use super::*;

/// A configuration under construction.
#[derive(Clone, Default)]
struct Case {
    files: Vec<(&'static str, String)>,
    variables: Vec<(&'static str, String)>,
    defines: Vec<String>,
    sets: Vec<String>,
    start: Option<Start>,
}

impl Case {
    /// A valid file with these lines added; they start on line 3.
    fn file(lines: &str) -> Self {
        Self::raw_file(&format!("dataDir=/d\nclientPort=2181\n{lines}"))
    }

    fn raw_file(text: &str) -> Self {
        Self { start: Some(Start::File("zoo.cfg".into())), ..Self::default() }.with("zoo.cfg", text)
    }

    fn with(mut self, name: &'static str, text: &str) -> Self {
        self.files.push((name, text.to_owned()));
        self
    }

    fn define(mut self, define: &str) -> Self {
        self.defines.push(define.to_owned());
        self
    }

    fn set(mut self, set: &str) -> Self {
        self.sets.push(set.to_owned());
        self
    }

    fn variable(mut self, name: &'static str, text: &str) -> Self {
        self.variables.push((name, text.to_owned()));
        self
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        let read = |path: &Path| -> io::Result<Vec<u8>> {
            let found = self.files.iter().find(|(name, _)| Path::new(name) == path);
            found
                .map(|(_, text)| text.clone().into_bytes())
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        load(&Sources {
            start: self.start.clone().unwrap_or(Start::Defaults),
            variables: self.variables.clone(),
            defines: self.defines.clone(),
            sets: self.sets.clone(),
            read: &read,
        })
    }

    #[track_caller]
    fn config(&self) -> Config {
        match self.load() {
            Ok(loaded) => loaded.config,
            Err(fault) => panic!("{fault}"),
        }
    }

    #[track_caller]
    fn fails(&self, expected: &str) {
        match self.load() {
            Ok(_) => panic!("no fault, expected {expected}"),
            Err(fault) => assert_eq!(fault.to_string(), expected),
        }
    }

    #[track_caller]
    fn notes(&self) -> Vec<String> {
        match self.load() {
            Ok(loaded) => loaded.notes.into_iter().map(|note| note.text).collect(),
            Err(fault) => panic!("{fault}"),
        }
    }
}

fn arguments(
    port: &str,
    dir: &str,
    tick_time: Option<&str>,
    max_client_cnxns: Option<&str>,
) -> Case {
    let start = Start::Arguments {
        port: port.to_owned(),
        data_dir: dir.to_owned(),
        tick_time: tick_time.map(str::to_owned),
        max_client_cnxns: max_client_cnxns.map(str::to_owned),
    };
    Case { start: Some(start), ..Case::default() }
}

const MS: Duration = Duration::from_millis(1);

mod console;
mod hardened;
mod logging;
mod providers;
mod sasl;
mod storage;
mod tls;

#[test]
fn without_anything_it_runs_on_loopback() {
    let config = Case::default().config();
    assert_eq!(config.net.client_port, Some(2181));
    assert_eq!(config.net.client_address.as_deref(), Some("127.0.0.1"));
    assert_eq!(config.data.dir, Path::new("./zebu-data"));
    assert_eq!(config.limits.connections_per_address, Some(60));
    assert_eq!(config.sessions.tick, 3000 * MS);
}

#[test]
fn the_documented_defaults() {
    let config = Case::file("").config();
    assert_eq!(config.file.as_deref(), Some(Path::new("zoo.cfg")));
    assert_eq!(
        config.net,
        NetConfig {
            client_port: Some(2181),
            client_address: None,
            backlog: None,
            tcp_keep_alive: false,
            handshake_timeout: 10_000 * MS,
        }
    );
    assert_eq!(
        config.sessions,
        SessionConfig { tick: 3000 * MS, timeout_min: 6000 * MS, timeout_max: 60_000 * MS }
    );
    assert_eq!(
        config.log,
        LogConfig {
            preallocate_bytes: 64 << 20,
            preallocate_adaptive: false,
            file_bytes_max: None,
            fsync: true,
            fsync_warning: 1000 * MS,
            flush_delay: Duration::ZERO,
            queue_poll_max: Duration::ZERO,
            batch_txns_max: Some(1000),
            close_session_txn: true,
        }
    );
    assert_eq!(
        config.snapshot,
        SnapshotConfig {
            txns: 100_000,
            log_bytes: Some(4 << 30),
            log_percent: 100,
            compression: Compression::Plain,
            digest: true,
            last_zxid: true,
        }
    );
    assert_eq!(
        config.limits,
        LimitConfig {
            connections_per_address: Some(60),
            connections: None,
            connections_per_identity: 0,
            packet_bytes: 1_048_575,
            packet_extra_bytes: 1_048_575,
            outstanding_requests: 1000,
            outstanding_bytes: 104_857_600,
            large_request_bytes: None,
            large_requests_bytes_max: 100 << 20,
        }
    );
    assert_eq!(config.throttle.requests_max, None);
    assert_eq!(config.throttle.op_wait_max, None);
    assert_eq!(config.connection_throttle.tokens, None);
    assert_eq!(config.connection_throttle.drop_increase, 0.02);
    assert_eq!(config.connection_throttle.weights, None);
    assert_eq!(
        config.auth,
        AuthConfig {
            x509: false,
            key: false,
            ensemble: None,
            outside: Vec::new(),
            refuses_world_writes: false,
            failures_per_minute: 0,
            check_limits: CheckLimits {
                time_max: 5000 * MS,
                asked_max: 64,
                cache_time: 60_000 * MS
            },
            x509_super_user: None,
            skip_acl: false,
            eager_acl_check: false,
            digest: true,
            digest_algorithm: "SHA1",
            super_digest: None,
            enforced_schemes: Vec::new(),
            sasl: SaslConfig {
                has_scheme: false,
                login: None,
                naming: zebu_auth::kerberos::Naming::default(),
                super_users: Vec::new(),
                any_user: None,
                allows_failed: false,
            },
            session_passwords: Passwords::Compatible,
        }
    );
    assert_eq!(
        config.znodes,
        ZnodeConfig {
            extended_types: false,
            emulate_353_ttl: false,
            enforce_quota: false,
            container_check_interval: 60_000 * MS,
            container_deletes_per_minute: 10_000,
            container_never_used_max: None,
        }
    );
    assert_eq!(config.purge, PurgeConfig { snapshots_kept: 3, interval: None });
    assert_eq!(config.four_letter_words, ["srvr"]);
    assert!(!config.readonly_mode && !config.reconfig_enabled);
}

#[test]
fn the_argument_form_has_no_connection_limit() {
    let config = arguments("0", "/d", None, None).config();
    assert_eq!(config.net.client_port, Some(0));
    assert_eq!(config.net.client_address, None);
    assert_eq!(config.limits.connections_per_address, None);
    let config = arguments("2182", "/d", Some("500"), Some("7")).config();
    assert_eq!(config.sessions.timeout_min, 1000 * MS);
    assert_eq!(config.limits.connections_per_address, Some(7));
    arguments("port", "/d", None, None)
        .fails("command line: clientPort=port: not a number, expected a whole number (port)");
}

#[test]
fn later_sources_win() {
    let case = Case::file("snapCount=40")
        .variable("SERVER_JVMFLAGS", "-Xmx1g -Dzookeeper.snapCount=10 -Dzookeeper.maxCnxns=1")
        .variable("JVMFLAGS", "-Dzookeeper.snapCount=20 -Dzookeeper.maxCnxns=2 -ea")
        .define("zookeeper.snapCount=30");
    assert_eq!(case.config().snapshot.txns, 40, "CFG-02: file beats property");
    assert_eq!(case.config().limits.connections, Some(2), "JVMFLAGS come after SERVER_JVMFLAGS");
    assert_eq!(case.clone().set("snapCount=50").config().snapshot.txns, 50);
    let notes = case.notes();
    assert!(
        notes.contains(&"JVM flags without meaning here, ignored: -Xmx1g -ea".to_owned()),
        "{notes:?}"
    );
    assert!(
        notes.contains(&"zoo.cfg:3: snapCount overrides zookeeper.snapCount of -D".to_owned()),
        "{notes:?}"
    );
}

#[test]
fn properties_without_prefix_work_everywhere() {
    assert_eq!(Case::file("").define("jute.maxbuffer=0x1000").config().limits.packet_bytes, 4096);
    assert_eq!(Case::file("jute.maxbuffer=4096").config().limits.packet_bytes, 4096);
    let config = Case::file("")
        .define("znode.container.checkIntervalMs=100")
        .define("readonlymode.enabled=true")
        .config();
    assert_eq!(config.znodes.container_check_interval, 100 * MS);
    assert!(config.readonly_mode);
    let config = Case::file("").define("fsync.warningthresholdms=20").config();
    assert_eq!(config.log.fsync_warning, 20 * MS);
}

/// Frequent mistakes of operators.
#[test]
fn slips_of_the_pen_are_named() {
    let notes = Case::file("tickTime=3000\ntickTime=4000\nsuperDigest=a:b\nmyid=1").notes();
    assert_eq!(
        notes,
        [
            "zoo.cfg:3: tickTime is set again further down, which wins",
            "zoo.cfg:5: superDigest is no known setting and has no effect\n\
             hint: did you mean DigestAuthenticationProvider.superDigest?",
            "zoo.cfg:6: myid is no known setting and has no effect\n\
             hint: the file myid in dataDir contains the number of the server",
        ]
    );
    Case::file("clientPortAddress=10.0.0.1, 10.0.0.2")
        .fails("zoo.cfg:3: clientPortAddress=10.0.0.1, 10.0.0.2: expected a name or an address");
}

#[test]
fn names_that_do_nothing_are_told() {
    let case = Case::file("tickTme=2000\nzookeeper.snapCount=1")
        .define("zookeeper.dataDir=/x")
        .define("zookeeper.jute.maxbuffer=1")
        .define("snapCount=1")
        .define("zookeeper.nothing.at.all=1")
        .define("log4j.configuration=x")
        .define("zookeeper.root.logger=INFO,CONSOLE");
    let loaded = case.load().unwrap();
    let notes: Vec<String> = loaded.notes.iter().map(|note| note.text.clone()).collect();
    assert_eq!(
        notes,
        [
            "-D: zookeeper.dataDir has no effect: this key is read from the configuration file only\n\
         hint: use --set dataDir=...",
            "-D: zookeeper.jute.maxbuffer has no effect\nhint: the property is called jute.maxbuffer",
            "-D: snapCount has no effect\nhint: the property is called zookeeper.snapCount",
            "-D: zookeeper.nothing.at.all is no known setting and has no effect",
            "properties without effect in this server: log4j.configuration (-D)",
            "zoo.cfg:3: tickTme is no known setting and has no effect\nhint: did you mean tickTime?",
            "zoo.cfg:4: zookeeper.snapCount is no known setting and has no effect\nhint: did you mean snapCount?",
            "settings without effect in this server: zookeeper.root.logger (-D)",
        ]
    );
    assert_eq!(loaded.notes.iter().filter(|note| note.is_unknown_key).count(), 3);
    Case::file("")
        .set("tickTme=1")
        .fails("--set: tickTme is no known setting\nhint: did you mean tickTime?");
    Case::file("").set("tickTime").fails("--set: tickTime: expected key=value");
}

#[test]
fn texts_of_the_original() {
    Case::raw_file("clientPort=1").fails("zoo.cfg: dataDir is not set");
    Case::raw_file("dataDir=/d\nclientPortAddress=::1")
        .fails("zoo.cfg:2: clientPortAddress is set but clientPort is not set");
    Case::file("tickTime=0").fails("zoo.cfg:3: tickTime is not set");
    Case::file("tickTime=-5").fails("zoo.cfg:3: tickTime=-5: must be positive");
    Case::file("electionAlg=0")
        .fails("zoo.cfg:3: electionAlg=0: Invalid electionAlg value. Only 3 is supported.");
    Case::file("peerType=voter").fails("zoo.cfg:3: peerType=voter: Unrecognised peertype: voter");
    Case::file("reconfigEnabled=yes")
        .fails("zoo.cfg:3: Invalid option yes for reconfigEnabled. Choose 'true' or 'false.'");
    Case::file("minSessionTimeout=9\nmaxSessionTimeout=8")
        .fails("zoo.cfg:3: minSessionTimeout must not be larger than maxSessionTimeout: 9 > 8 ms");
    Case::file("maxSessionTimeout=8").fails(
        "zoo.cfg:3: minSessionTimeout must not be larger than maxSessionTimeout: 6000 > 8 ms",
    );
    Case::file("secureClientPortAddress=::1")
        .fails("zoo.cfg:3: secureClientPortAddress is set but secureClientPort is not set");
    Case::file("\n\\u12").fails("zoo.cfg:4: malformed \\uxxxx escape");
    Case::file("").with("/d/myid", "one\n").fails("/d/myid:1: serverid one is not a number");
}

#[test]
fn all_faults_are_reported_at_once() {
    Case::file("tickTime=2s\nmaxClientCnxns=many\nsnapshot.compression.method=zip\nautopurge.purgeInterval=1w\n\
                nio.numSelectorThreads=0\nconnection_throttle_drop_increase=x\npreAllocSize=010")
        .fails(
            "zoo.cfg:3: tickTime=2s: not a number, expected a whole number (ms)\n\
             zoo.cfg:4: maxClientCnxns=many: not a number, expected a whole number\n\
             zoo.cfg:5: snapshot.compression.method=zip: expected one of gz, snappy\n\
             zoo.cfg:6: autopurge.purgeInterval=1w: unknown unit w, expected ms, s, m, h or d\n\
             zoo.cfg:7: nio.numSelectorThreads=0: must be at least 1\n\
             zoo.cfg:8: connection_throttle_drop_increase=x: expected a number\n\
             zoo.cfg:9: preAllocSize=010: leading zeros are ambiguous (octal or not), expected a whole number (KiB)",
        );
}

#[test]
fn values_below_a_minimum_are_raised_with_a_warning() {
    let case = Case::file(
        "snapCount=1\nautopurge.snapRetainCount=1\nautopurge.purgeInterval=90s\njute.maxbuffer=2000\n\
                           jute.maxbuffer.extrasize=1",
    );
    let config = case.config();
    assert_eq!(config.snapshot.txns, 2);
    assert_eq!(
        config.purge,
        PurgeConfig { snapshots_kept: 3, interval: Some(Duration::from_secs(90)) }
    );
    assert_eq!(config.limits.packet_extra_bytes, 1024);
    let notes = case.notes();
    assert!(
        notes.contains(
            &"zoo.cfg:4: autopurge.snapRetainCount=1: must be at least 3, using 3".to_owned()
        ),
        "{notes:?}"
    );
    let config = Case::file(
        "connection_throttle_weight_enabled=true\nconnection_throttle_global_session_weight=-4\n\
                             connection_throttle_drop_decrease=7",
    )
    .config();
    assert_eq!(config.connection_throttle.drop_decrease, 0.002);
    let weights = ConnectionWeights { global_session: 3, local_session: 1, renew_session: 2 };
    assert_eq!(config.connection_throttle.weights, Some(weights));
    // A local session costs the least.
    let case = Case::file(
        "connection_throttle_weight_enabled=true\nconnection_throttle_local_session_weight=5\n\
                           connection_throttle_renew_session_weight=4",
    );
    let weights = ConnectionWeights { global_session: 5, local_session: 5, renew_session: 5 };
    assert_eq!(case.config().connection_throttle.weights, Some(weights));
    let note = "zoo.cfg:5: connection_throttle_renew_session_weight=4: must not be less than a local \
                session's, using 5";
    assert!(case.notes().contains(&note.to_owned()), "{:?}", case.notes());
}

#[test]
fn switches_with_words_of_their_own() {
    let config = Case::file("forceSync=no\nskipACL=yes").config();
    assert!(!config.log.fsync && config.auth.skip_acl);
    let config = Case::file("forceSync=false\nskipACL=true\ndigest.enabled=nonsense").config();
    assert!(config.log.fsync && !config.auth.skip_acl && !config.snapshot.digest);
}

#[test]
fn one_participant_runs_standalone() {
    // The official image writes the client port into the server line only.
    let config = Case::raw_file("dataDir=/d\nserver.1=localhost:2888:3888;2181").config();
    assert_eq!(config.net.client_port, Some(2181));
    let config = Case::file("server.7=localhost:2888:3888\ninitLimit=10\nsyncLimit=5").config();
    assert_eq!(config.net.client_port, Some(2181));
    let config =
        Case::raw_file("dataDir=/d\nserver.1=h:1:2;127.0.0.1:99").with("/d/myid", "1\n").config();
    assert_eq!(config.net.client_address.as_deref(), Some("127.0.0.1"));
    let case = Case::file("server.1=h:1:2").with("/d/myid", "3");
    assert!(
        case.notes()
            .contains(&"/d/myid:1: myid is 3, but the only server line is server.1".to_owned())
    );
    Case::file("server.1=h:1:2;2182")
        .fails("zoo.cfg:3: client address of the server line differs from clientPort and clientPortAddress");
}

const THREE: &str =
    "server.1=a:1:2;2181\nserver.2=b:1:2;2182\nserver.3=c:1:2\ninitLimit=10\nsyncLimit=5";

impl Case {
    /// Server 2 of three, whose lines are 2 to 4, with these lines added; they start on line 7.
    fn of_three(lines: &str) -> Self {
        Self::raw_file(&format!("dataDir=/d\n{THREE}\n{lines}")).with("/d/myid", "2\n")
    }

    #[track_caller]
    fn ensemble(&self) -> EnsembleConfig {
        self.config().ensemble.expect("an ensemble")
    }
}

#[test]
fn an_ensemble_is_read() {
    let config = Case::of_three("").config();
    assert_eq!(config.net.client_port, Some(2182));
    let ensemble = config.ensemble.unwrap();
    assert_eq!((ensemble.me, ensemble.role), (ServerId(2), Role::Participant));
    assert_eq!(ensemble.members.voters().collect::<Vec<_>>(), [1, 2, 3].map(ServerId));
    assert_eq!(ensemble.members.version(), Zxid::ZERO);
    assert_eq!(ensemble.dynamic_file, None);
    assert_eq!(ensemble.rules, Rules { standalone: true, multi_address: false });
    assert_eq!((ensemble.init_ticks, ensemble.sync_ticks, ensemble.connect_ticks), (10, 5, 10));
    assert!(ensemble.leader_serves && !ensemble.local_sessions && !ensemble.upgrade_local_sessions);
    assert_eq!(
        (ensemble.oracle, ensemble.epoch_wait_max, ensemble.first_counter),
        (None, None, None)
    );
    assert_eq!(
        ensemble.election,
        ElectionNetConfig {
            notify_min: 200 * MS,
            notify_max: 60_000 * MS,
            connect_timeout: 5_000 * MS,
            handshake_timeout: 15_000 * MS,
            bind_tries: Some(3),
            tcp_keep_alive: false,
            listen_on_all: false,
            reachability_timeout: Some(1_000 * MS),
        }
    );
    assert_eq!(
        ensemble.learners,
        LearnerSyncConfig {
            snap_syncs_max: 10,
            diff_syncs_max: 100,
            committed_txns: 500,
            acks_timed_every: Some(1000),
            log_share: Some(0.33),
            always_snapshot: false,
            leader_no_delay: true,
            learner_no_delay: true,
            observer_master_port: None,
            observer_master_bytes: 32 << 20,
            observers_write: true,
            observer_reconnect_pause: Duration::ZERO,
            observer_election_pause_max: 200 * MS,
        }
    );
}

/// More than 1 means: prefer a longer log to a snapshot.
#[test]
fn a_log_that_is_sent_may_be_longer_than_a_snapshot() {
    let share = |factor: &str| {
        let ensemble = Case::of_three(&format!("snapshotSizeFactor={factor}")).ensemble();
        ensemble.learners.log_share
    };
    assert_eq!((share("1.5"), share("0.33"), share("-1")), (Some(1.5), Some(0.33), None));
}

#[test]
fn a_dynamic_file_that_is_not_there_may_have_a_relative_path() {
    let fault = Case::file("dynamicConfigFile=dyn\nsyncLimit=1").load().unwrap_err().to_string();
    assert!(fault.contains("hint: a relative path begins at the working directory"), "{fault}");
    let fault = Case::file("dynamicConfigFile=/dyn\nsyncLimit=1").load().unwrap_err().to_string();
    assert!(!fault.contains("hint: a relative path"), "{fault}");
}

#[test]
fn every_key_of_an_ensemble_has_its_place() {
    let ensemble = Case::of_three(
        "connectToLearnerMasterLimit=7\nlocalSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n\
         leaderServes=no\noraclePath=/o\nquorumListenOnAllIPs=true\nobserverMasterPort=2191\n\
         syncEnabled=false\nmultiAddress.enabled=true\nmultiAddress.reachabilityCheckTimeoutMs=70\n\
         cnxTimeout=71\nquorumCnxnTimeoutMs=72\nelectionPortBindRetry=0\ntcpKeepAlive=true\n\
         fastleader.minNotificationInterval=73\nfastleader.maxNotificationInterval=74\n\
         leader.maxTimeToWaitForEpoch=75\nleader.maxConcurrentSnapSyncs=76\nzebu.leaderSilence=750\n\
         leader.maxConcurrentDiffSyncs=77\nleader.nodelay=false\nfollower.nodelay=false\n\
         leaderConnectDelayDuringRetryMs=78\nobserver.reconnectDelayMs=79\n\
         observer.election.DelayMs=80\nobserverMaster.sizeLimit=81\ncommitLogCount=582\n\
         leader.ackLoggingFrequency=0\n\
         snapshotSizeFactor=-1\nforceSnapshotSync=true\ntestingonly.initialZxid=4294967293",
    )
    .ensemble();
    let patient = Case::of_three("quorumCnxnTimeoutMs=600000").ensemble();
    assert_eq!(patient.election.handshake_timeout, 15_000 * MS, "strangers keep no connection");
    assert_eq!(ensemble.connect_ticks, 7);
    assert!(ensemble.local_sessions && ensemble.upgrade_local_sessions && !ensemble.leader_serves);
    assert_eq!(ensemble.oracle, Some("/o".into()));
    assert!(ensemble.rules.multi_address);
    assert_eq!(ensemble.epoch_wait_max, Some(75 * MS));
    assert_eq!(ensemble.leader_silence, Some(750 * MS));
    assert_eq!(Case::of_three("zebu.leaderSilence=0").ensemble().leader_silence, None);
    assert_eq!((ensemble.connect_pause, ensemble.first_counter), (78 * MS, Some(u32::MAX - 2)));
    assert_eq!(
        ensemble.election,
        ElectionNetConfig {
            notify_min: 73 * MS,
            notify_max: 74 * MS,
            connect_timeout: 71 * MS,
            handshake_timeout: 72 * MS,
            bind_tries: None,
            tcp_keep_alive: true,
            listen_on_all: true,
            reachability_timeout: Some(70 * MS),
        }
    );
    assert_eq!(
        ensemble.learners,
        LearnerSyncConfig {
            snap_syncs_max: 76,
            diff_syncs_max: 77,
            committed_txns: 582,
            acks_timed_every: None,
            log_share: None,
            always_snapshot: true,
            leader_no_delay: false,
            learner_no_delay: false,
            observer_master_port: Some(2191),
            observer_master_bytes: 81,
            observers_write: false,
            observer_reconnect_pause: 79 * MS,
            observer_election_pause_max: 80 * MS,
        }
    );
    let case = Case::of_three("syncEnabled=false\nmultiAddress.reachabilityCheckEnabled=false");
    let ensemble = case.define("zookeeper.observer.syncEnabled=true").ensemble();
    assert!(ensemble.learners.observers_write);
    assert_eq!(ensemble.election.reachability_timeout, None);
}

#[test]
fn groups_and_roles_are_read() {
    let lines = "server.4=d:1:2:observer\ngroup.1=1:2\ngroup.2=3\nweight.3=2\npeerType=participant";
    let case = Case::of_three(lines).with("/d/myid", "2");
    let Verifier::Hierarchical(groups) = case.ensemble().members.verifier().clone() else {
        panic!("there are groups")
    };
    assert_eq!((groups.weight(ServerId(2)), groups.weight(ServerId(3))), (1, 2));
    let observer =
        Case::raw_file(&format!("dataDir=/d\nclientPort=9\n{THREE}\n{lines}")).with("/d/myid", "4");
    assert_eq!(observer.ensemble().role, Role::Observer);
    let note =
        "zoo.cfg:12: peerType=participant: the server list says observer, which takes precedence";
    assert!(observer.notes().contains(&note.to_owned()), "{:?}", observer.notes());
}

#[test]
fn faults_of_an_ensemble() {
    let file = |lines: &str| Case::raw_file(&format!("dataDir=/d\nclientPort=2181\n{lines}"));
    let two = "server.1=a:1:2\nserver.2=b:1:2";
    file(two).fails(
        "/d/myid: myid file is missing\n\
         hint: write this server's number into it, that of its line server.N=...\n\
         zoo.cfg: initLimit is not set\n\
         zoo.cfg: syncLimit is not set",
    );
    let limits = "initLimit=1\nsyncLimit=1";
    file(&format!("{two}\n{limits}"))
        .with("/d/myid", "x")
        .fails("/d/myid:1: serverid x is not a number");
    file(&format!("{two}\n{limits}"))
        .with("/d/myid", "3")
        .fails("/d/myid:1: My id 3 not in the peer list");
    file(&format!("{two}\ninitLimit=0\nsyncLimit=-1"))
        .with("/d/myid", "1")
        .fails("zoo.cfg:5: initLimit is not set\nzoo.cfg:6: syncLimit=-1: must not be negative");
    file(&format!("server.1=a:1\nserver.x=b:1:2\nserver.2=b:1:1\n{limits}")).fails(
        "zoo.cfg:3: server.1: \"a:1\" is no server: expected \
         host:port:port[:participant|observer][|host:port:port...][;[host:]port]\n\
         zoo.cfg:4: server.x: server id \"x\" is not a number from 0 on\n\
         zoo.cfg:5: server.2: quorum and election port are both 1: they must differ",
    );
    file(&format!("{two}|c:1:2\n{limits}")).with("/d/myid", "1").fails(
        "zoo.cfg:4: server.2: several addresses for one server need multiAddress.enabled=true",
    );
    file(&format!("{two}\ngroup.1=1\n{limits}"))
        .with("/d/myid", "1")
        .fails("zoo.cfg:4: server.2: server 2 is in no group");
    Case::file("server.1=a:1:2\nserver.2=b:1:2:observer")
        .fails("zoo.cfg:4: server.2: Observers w/o quorum is an invalid configuration");
    Case::file("server.2=b:1:2:observer")
        .fails("zoo.cfg:3: server.2: Observers w/o participants is an invalid configuration");
    Case::file("standaloneEnabled=false")
        .fails("zoo.cfg:3: with standaloneEnabled=false there must be at least one participant");
    Case::of_three("clientPort=2183").fails(
        "zoo.cfg:3: client address of the server line differs from clientPort and clientPortAddress",
    );
}

#[test]
fn a_server_id_outside_of_1_to_255_is_a_warning() {
    let text = format!("dataDir=/d\nclientPort=9\n{THREE}\nserver.256=d:1:2");
    let notes = Case::raw_file(&text).with("/d/myid", "256").notes();
    let expected = "/d/myid:1: server id 256 is outside of 1 to 255: \
                    its session ids may equal those of another server";
    assert!(notes.contains(&expected.to_owned()), "{notes:?}");
}

#[test]
fn one_participant_is_an_ensemble_where_nothing_runs_alone() {
    let lines = "server.1=a:1:2\nserver.2=b:1:2:observer\nstandaloneEnabled=false\ninitLimit=1\nsyncLimit=1";
    let config = Case::file(lines).with("/d/myid", "1").config();
    assert_eq!(config.ensemble.as_ref().map(|ensemble| ensemble.me), Some(ServerId(1)));
}

#[test]
fn the_dynamic_file_is_read() {
    let case = Case::raw_file("dataDir=/d\ndynamicConfigFile=/c/zoo.cfg.dynamic.100000000");
    let name = "/c/zoo.cfg.dynamic.100000000";
    let config = case.clone().with(name, "server.1=h:1:2:participant;0.0.0.0:2181").config();
    assert_eq!((config.net.client_port, config.net.client_address), (Some(2181), None));
    let ensemble =
        Case::raw_file(&format!("dataDir=/d\ndynamicConfigFile={name}\ninitLimit=1\nsyncLimit=1"))
            .with("/d/myid", "2")
            .with(name, "server.1=a:1:2;1\nserver.2=b:1:2;3");
    let config = ensemble.config();
    assert_eq!(config.net.client_port, Some(3));
    assert_eq!(config.ensemble.as_ref().unwrap().dynamic_file.as_deref(), Some(Path::new(name)));
    assert_eq!(config.ensemble.as_ref().unwrap().members.version(), Zxid(0x1_0000_0000));
    // The configuration that was proposed when the server stopped is beside the static file.
    let next = "zoo.cfg.dynamic.next";
    let proposed = "server.1=a:1:2;1\nserver.3=c:1:2;3\nversion=100000007";
    let config = ensemble.clone().with(next, proposed).config();
    let proposed = config.ensemble.unwrap().proposed.unwrap();
    assert_eq!((proposed.version(), proposed.members().len()), (Zxid(0x1_0000_0007), 2));
    ensemble.with(next, "server.1").fails("zoo.cfg.dynamic.next: this is no configuration");
    case.clone()
        .with(name, "version=1\ntickTime=3")
        .fails(&format!("{name}:1: dynamic file shouldn't have version inside\n{name}:2: unrecognised parameter: tickTime"));
    let fault = case.load().unwrap_err();
    assert!(
        fault.to_string().starts_with(&format!("{name}: cannot read dynamic configuration file")),
        "{fault}"
    );
    Case::file("dynamicConfigFile=/c/dyn\nserver.1=a:1:2")
        .with("/c/dyn", "")
        .fails("zoo.cfg:4: parameter: server.1 must be in a separate dynamic config file");
}

/// ACL-14, ACL-16.
#[test]
fn parts_not_built_are_refused_when_switched_on() {
    for (line, text) in [
        (
            "audit.impl.class=com.example.AuditLogger",
            "this server cannot load Java classes, and has no built-in class of this name\nhint: --set zebu.runWithout=plugins starts without it",
        ),
        (
            "authProvider.x=com.example.Provider",
            "this server cannot load Java classes, and has no built-in class of this name\nhint: --set zebu.runWithout=plugins starts without it",
        ),
    ] {
        Case::file(line).fails(&format!("zoo.cfg:3: {line}: {text}"));
    }
}

#[test]
fn parts_not_built_may_be_left_off() {
    Case::file(
        "admin.enableServer=false\nadmin.serverPort=8081\nsslQuorum=false\nportUnification=false\nquorum.auth.enableSasl=false\n\
         ssl.keyStore.password=pw\naudit.enable=false\npathStats.enabled=false\nsecureClientPort=0\n\
         authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider\n\
         authProvider.2=org.apache.zookeeper.server.auth.IPAuthenticationProvider\n\
         metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    )
    .config();
}

/// The file kazoo's test harness writes for every server.
#[test]
fn an_operator_may_choose_to_run_without_a_part() {
    let case = Case::file(
        "secureClientPort=22222\nmaxClientCnxns=0\nadmin.serverPort=22225\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
         ssl.keyStore.location=/k.jks\nssl.keyStore.password=apassword\nssl.trustStore.location=/t.jks\n\
         ssl.trustStore.password=apassword",
    )
    .set("audit.impl.class=com.example.AuditLogger")
    .set("zebu.runWithout=plugins");
    assert_eq!(case.config().limits.connections_per_address, None);
    let notes = case.notes().join("\n");
    assert!(notes.contains("audit.impl.class=com.example.AuditLogger has no effect"), "{notes}");
    assert!(!notes.contains("apassword"), "{notes}");
    Case::file("").set("zebu.runWithout=tsl").fails("--set: zebu.runWithout: there is no part tsl");
}

#[test]
fn the_admin_server_is_on_and_listens_on_loopback() {
    let admin = Case::file("").config().admin.unwrap();
    assert_eq!(
        (admin.address.as_str(), admin.port, admin.is_asked_for),
        ("127.0.0.1", 8080, false)
    );
    assert_eq!((admin.command_url.as_str(), admin.snapshot), ("/commands", true));
    assert_eq!(admin.idle_timeout, Duration::from_secs(30));
    assert_eq!(admin.snapshot_interval, Duration::from_secs(300));
    // As in the original, only `false` switches it off.
    assert!(Case::file("admin.enableServer=no").config().admin.is_some());
    assert!(Case::file("admin.enableServer=false").config().admin.is_none());
    assert!(Config::embedded("/d").admin.is_none(), "no port of the machine is taken");
    let admin = Case::file(
        "admin.serverAddress=[::1]\nadmin.serverPort=0\nadmin.commandURL=/a/b-c/\nadmin.idleTimeout=5\n\
         admin.rateLimiterIntervalInMS=0\nadmin.snapshot.enabled=false\nadmin.httpVersion=11",
    )
    .config()
    .admin
    .unwrap();
    assert_eq!((admin.address.as_str(), admin.port, admin.is_asked_for), ("::1", 0, true));
    assert_eq!((admin.command_url.as_str(), admin.snapshot), ("/a/b-c", false));
    assert_eq!(
        (admin.idle_timeout, admin.snapshot_interval),
        (Duration::from_millis(5), Duration::ZERO)
    );
    for url in ["commands", "/{x}", "/a//b", "/a b"] {
        let fault = Case::file(&format!("admin.commandURL={url}")).load().unwrap_err().to_string();
        assert!(fault.contains("must begin with /"), "{fault}");
    }
    assert!(Case::file("admin.httpVersion=20").load().is_err());
}

#[test]
fn what_the_admin_server_shows_of_the_configuration_has_no_secrets() {
    let text = "# password=old\nssl.keyStore.password=one\\\n  two\nDigestAuthenticationProvider.superDigest : super:three\n\
                ssl.keyStore.passwordPath=/p\nsnapCount=9";
    let case = Case::file(text);
    let admin = case.config().admin.unwrap();
    let shown = &admin.initial_configuration;
    for secret in ["old", "one", "two", "three"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("\nssl.keyStore.password=********\n********\n"), "{shown}");
    assert!(shown.ends_with("ssl.keyStore.passwordPath=/p\nsnapCount=9"), "{shown}");
    let property = |name: &str| admin.properties.get(name).map(String::as_str);
    assert_eq!(property("zookeeper.snapCount"), Some("9"));
    assert_eq!(property("zookeeper.ssl.keyStore.password"), Some("********"));
    assert_eq!(property("zookeeper.DigestAuthenticationProvider.superDigest"), Some("********"));
    assert!(!format!("{:?}", case.config()).contains("three\""), "{:?}", case.config());
}

#[test]
fn metrics_providers() {
    let class =
        |name: &str| format!("metricsProvider.className=org.apache.zookeeper.metrics.{name}");
    assert_eq!(Case::file(&class("impl.NullMetricsProvider")).config().prometheus, None);
    let prometheus = class("prometheus.PrometheusMetricsProvider");
    let page = Case::file(&prometheus).config().prometheus.unwrap();
    assert_eq!((page.address.as_str(), page.port, page.process), ("0.0.0.0", Some(7000), true));
    let page = Case::file(&format!(
        "{prometheus}\nmetricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=0\n\
         metricsProvider.exportJvmInfo=false\nmetricsProvider.numWorkerThreads=1"
    ))
    .config()
    .prometheus
    .unwrap();
    assert_eq!((page.address.as_str(), page.port, page.process), ("127.0.0.1", Some(0), false));
    let fault = Case::file("metricsProvider.className=x.Y").load().unwrap_err().to_string();
    assert!(fault.contains("metrics provider class was not found"), "{fault}");
    let tls = format!("{prometheus}\nmetricsProvider.httpsPort=7001");
    let switch =
        "zoo.cfg:4: TLS is switched on and metricsProvider.ssl.keyStore.location is not set";
    let refusal = Case::file(&tls).load().unwrap_err().to_string();
    assert!(refusal.contains(switch), "{refusal}");
    let tls = format!("{tls}\nmetricsProvider.ssl.keyStore.location=/k.pem");
    let refusal = Case::file(&tls).load().unwrap_err().to_string();
    assert!(refusal.contains("metricsProvider.ssl.trustStore.location is not set"), "{refusal}");
    let asks_nobody =
        "metricsProvider.ssl.need.client.auth=false\nmetricsProvider.ssl.want.client.auth=false";
    let page = Case::file(&format!("{tls}\n{asks_nobody}")).config().prometheus.unwrap();
    let secure = page.tls.unwrap();
    assert_eq!((page.port, secure.port), (None, 7001));
    assert_eq!(secure.files.client_auth, zebu_auth::tls::ClientAuth::None);
    let all = format!(
        "{tls}\nmetricsProvider.httpPort=7000\nmetricsProvider.ssl.trustStore.location=/t.jks\n\
         metricsProvider.ssl.trustStore.password=planted\nmetricsProvider.ssl.enabledProtocols=TLSv1.3"
    );
    let case = Case::file(&all);
    let page = case.config().prometheus.unwrap();
    let files = page.tls.clone().unwrap().files;
    assert_eq!((page.port, files.client_auth), (Some(7000), zebu_auth::tls::ClientAuth::Need));
    assert_eq!(files.protocols, [zebu_auth::tls::Protocol::Tls13]);
    assert!(!format!("{:?}", case.config()).contains("planted"));
    // Another provider has no page, and its settings have no effect.
    assert_eq!(Case::file("metricsProvider.httpsPort=7001").config().prometheus, None);
}

#[test]
fn enforced_authentication() {
    let config = Case::file("enforce.auth.enabled=true\nenforce.auth.schemes=digest, ip").config();
    assert_eq!(config.auth.enforced_schemes, ["digest", "ip"]);
    assert!(Case::file("enforce.auth.schemes=digest").config().auth.enforced_schemes.is_empty());
    Case::file("enforce.auth.enabled=true")
        .fails("zoo.cfg:3: enforce.auth.enabled is true but enforce.auth.schemes is not set");
    Case::file("enforce.auth.enabled=true\nenforce.auth.schemes=x509")
        .fails("zoo.cfg:4: enforce.auth.schemes: this server has no authentication scheme x509");
}

#[test]
fn choices_are_read_in_any_case() {
    let config = Case::file(
        "DigestAuthenticationProvider.digestAlg=sha-256\nsnapshot.compression.method=GZ",
    )
    .config();
    assert_eq!(config.auth.digest_algorithm, "SHA-256");
    assert_eq!(config.snapshot.compression, Compression::Gzip);
    assert!(Case::file("DigestAuthenticationProvider.digestAlg=CRC32").load().is_err());
}

#[test]
fn dangerous_switches_are_said_aloud() {
    let notes = Case::file("forceSync=no\nskipACL=yes\nsnapshot.trust.empty=true").notes();
    assert_eq!(
        notes,
        [
            "zoo.cfg:3: forceSync=no: acknowledged writes are lost when the machine stops",
            "zoo.cfg:4: skipACL=yes: every client that connects has every permission",
            "zoo.cfg:5: snapshot.trust.empty=true: a log without its snapshot is believed complete",
        ]
    );
}

#[test]
fn secrets_are_in_no_text() {
    let case = Case::file(
        "DigestAuthenticationProvider.superDigest=super:hush\nssl.keyStore.password=hush\nSASLAuthenticationProvider.superPassword=hush",
    );
    let loaded = case.load().unwrap();
    assert!(!format!("{loaded:?}\n{}", loaded.effective).contains("hush"));
    let fault = Case::file("authProvider.password=hush").load().unwrap_err();
    assert!(!format!("{fault}{fault:?}").contains("hush"), "{fault}");
}

#[test]
fn repeated_and_relative_settings_are_told() {
    let notes = Case::raw_file("dataDir=data\nclientPort=1\nclientPort=2").notes();
    assert_eq!(
        notes,
        [
            "zoo.cfg:2: clientPort is set again further down, which wins",
            "zoo.cfg:1: dataDir=data: is relative to the working directory, prepend ./ to say that this is meant",
        ]
    );
}

#[test]
fn every_setting_has_a_value_and_an_origin() {
    let loaded =
        Case::file("snapCount=5\nzebu.runWithout=plugins\naudit.impl.class=com.example.Log")
            .define("zookeeper.maxCnxns=9")
            .set("tickTime=100")
            .load()
            .unwrap();
    let find = |key: &str| {
        let setting = loaded.effective.settings.iter().find(|setting| setting.key == key).unwrap();
        format!("{} {} {}", setting.value, setting.origin, setting.has_effect)
    };
    assert_eq!(find("snapCount"), "5 zoo.cfg:3 true");
    assert_eq!(find("maxCnxns"), "9 -D true");
    assert_eq!(find("tickTime"), "100 --set true");
    assert_eq!(find("minSessionTimeout"), "200 default true");
    assert_eq!(find("audit.impl.class"), "com.example.Log zoo.cfg:5 false");
    assert_eq!(find("dataLogDir"), "/d default true");
}

#[test]
fn the_effective_settings_are_a_configuration_file_again() {
    // More settings were given in the second file than in the first one.
    let apart = |mut config: Config| {
        let admin = config.admin.as_mut().unwrap();
        admin.is_asked_for = true;
        admin.initial_configuration.clear();
        admin.properties.clear();
        config
    };
    let case =
        Case::file("snapCount=5\nmaxSessionTimeout=70000\n4lw.commands.whitelist=ruok, mntr")
            .define("jute.maxbuffer=0x2000");
    let first = case.load().unwrap();
    let again = Case::raw_file(&first.effective.to_string()).config();
    assert_eq!(apart(again), apart(first.config));
    // A server without a client port has no client address.
    let first = Case::raw_file("dataDir=/d").load().unwrap();
    let again = Case::raw_file(&first.effective.to_string()).config();
    assert_eq!(apart(again), apart(first.config));
}

/// A setting that claims to work is read by someone.
#[test]
fn every_supported_setting_is_read() {
    let merged = Merged::default();
    let reader = build::Reader::new(&merged, &|_| Err(io::ErrorKind::NotFound.into()));
    reader.config(None, &dynamic::Members::default());
    let read = reader.keys_read.borrow();
    let supported: BTreeSet<&str> = SETTINGS
        .iter()
        .filter(|setting| setting.fate == Fate::Supported)
        .map(|setting| setting.key)
        .collect();
    let unread: Vec<_> = supported.difference(&read).collect();
    assert!(unread.is_empty(), "supported, but nobody reads it: {unread:?}");
    let unknown: Vec<_> =
        read.iter().filter(|key| !SETTINGS.iter().any(|setting| setting.key == **key)).collect();
    assert!(unknown.is_empty(), "read, but not in the table: {unknown:?}");
}

#[test]
fn every_default_is_valid() {
    for setting in SETTINGS {
        if let registry::Default::Value(text) = setting.default
            && !text.is_empty()
        {
            assert_eq!(value::fault(setting, setting.key, text), None, "{}", setting.key);
        }
    }
}

#[test]
fn session_passwords_need_a_secret_of_32_bytes() {
    const SECRET: &str = "0123456789abcdef0123456789abcdef\n";
    let key = zebu_replica::SessionKey::new(SECRET.trim_end().as_bytes()).unwrap();
    let with = |lines: &str| {
        Case::file(&format!("zebu.sessionSecretFile=/key\n{lines}")).with("/key", SECRET)
    };
    let passwords = |case: Case| case.config().auth.session_passwords;
    assert_eq!(passwords(with("")), Passwords::Keyed(key.clone()));
    assert_eq!(passwords(with("zebu.sessionPasswords=Compatible")), Passwords::Compatible);
    assert_eq!(
        passwords(with("zebu.sessionPasswords=acceptKeyed")),
        Passwords::AcceptKeyed(key.clone())
    );
    assert_eq!(
        passwords(with("zebu.sessionPasswords=acceptCompatible")),
        Passwords::AcceptCompatible(key)
    );
    Case::file("zebu.sessionPasswords=keyed")
        .fails("zoo.cfg:3: zebu.sessionPasswords=keyed needs zebu.sessionSecretFile");
    Case::file("zebu.sessionSecretFile=/none")
        .fails("zoo.cfg:3: zebu.sessionSecretFile=/none: entity not found");
    Case::file("zebu.sessionSecretFile=/key").with("/key", &SECRET[1..]).fails(
        "zoo.cfg:3: zebu.sessionSecretFile=/key: 31 bytes are too few for a secret, at least 32 are needed\n\
         hint: openssl rand -base64 48 makes one; every server needs the same file",
    );
}
