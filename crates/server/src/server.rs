//! A whole server: recovers its data, starts its threads, and stops them again.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{error, info, warn};
use zebu_engine::Mode;
use zebu_engine::journal::MemberFiles;
use zebu_engine::sasl::SaslScheme;
use zebu_proto::{ExtendedTypes, ServerId, SessionId, Zxid};
use zebu_replica::auth::{AuthProvider, Digest, Ensemble, Key, Schemes, X509};
use zebu_replica::{
    IntakeOptions, MemberOptions, Options as ReplicaOptions, ReaperOptions, Replica, Rules,
    SnapshotOptions, ThrottleOptions,
};
use zebu_state::Rebuilt;
use zebu_state::membership::{self, ConfigFiles};
use zebu_store::{
    CommittedFile, EpochFiles, Mode as Recovery, OsVfs, Recovered, Snapshots, Store, Torn,
};
use zebu_tree::Options as TreeOptions;

use crate::admin;
use crate::audit::Audit;
use crate::clients::outside::OutsideScheme;
use crate::clients::secure::Handshakes;
use crate::clients::workers::{self, Workers};
use crate::config::{Compression, Config};
use crate::disk::journal::{self, Journal};
use crate::disk::mender;
use crate::disk::recovery;
use crate::disk::scrubber;
use crate::disk::snapshotter::Snapshotter;
use crate::driver::{self, Driver};
use crate::ensemble::membership::{check_alone, check_hand_made};
use crate::ensemble::peers::Peers;
use crate::ensemble::{identity, member};
use crate::error::StartError;
use crate::metrics::Metrics;
use crate::retiring;
use crate::sasl;
use crate::shared::{Clock, Failure, ReadHistory, Shared};
use crate::supervised::Watchdog;
use crate::threads::{Starting, Threads, spawn};

/// Minimum time for which a server looks for a leader before it serves read-only clients.
const READ_ONLY_AFTER_MIN: Duration = Duration::from_secs(2);

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    threads: Option<Threads>,
    port: Option<u16>,
    secure_port: Option<u16>,
    admin_port: Option<u16>,
    metrics_port: Option<u16>,
    metrics_tls_port: Option<u16>,
}

impl Server {
    /// Recovers the data, binds the client port and starts to serve.
    ///
    /// `providers` are authentication schemes beside the built-in ones.
    ///
    /// # Errors
    /// The reason why it cannot start, as a message for its operator.
    pub fn start(
        config: Config,
        providers: Vec<Box<dyn AuthProvider>>,
    ) -> Result<Self, StartError> {
        // Providers from other crates may take long, so the network workers do not wait for them.
        let takes_time = !providers.is_empty();
        let schemes = Arc::new(schemes(&config, providers)?);
        let audit = config.audit.as_ref();
        let audit = audit.map(|file| Audit::start(file, schemes.clone())).transpose()?;
        let audit = audit.map(Arc::new);
        let started = Self::begin(config, schemes, takes_time, audit.clone());
        if let Some(audit) = audit {
            audit.started(started.is_ok());
        }
        started
    }

    fn begin(
        config: Config,
        schemes: Arc<Schemes>,
        takes_time: bool,
        audit: Option<Arc<Audit>>,
    ) -> Result<Self, StartError> {
        let clock = Clock::start();
        let metrics = Metrics::default();
        let takes_turns = !takes_time;
        let access = (schemes, sasl::for_clients(&config.auth.sasl)?);
        let began = Instant::now();
        let vfs = Arc::new(OsVfs);
        let mut store = Store::open(vfs.clone(), store_options(&config))?;
        let (recovered, rebuilt) = recovery::recover(&mut store, tree_options(&config))?;
        if config.ensemble.is_none() && recovered.fresh && recovered.last_zxid < Zxid::ZERO {
            // For a member, other servers have the history; for a standalone server, no other
            // server has it.
            return Err(StartError::Empty(config.data.logs().to_owned()));
        }
        let Rebuilt { mut tree, mismatches } = rebuilt;
        report(&recovered, mismatches);
        metrics.digest_mismatches_count.add(mismatches);
        let ms = |time: Duration| time.as_millis() as i64;
        metrics.dbinittime.add(ms(began.elapsed()));
        metrics.startup_snap_load_time.add(ms(recovered.snapshot_time));
        metrics.startup_txns_load_time.add(ms(recovered.log_time));
        metrics.startup_txns_loaded.add(i64::try_from(recovered.replayed).unwrap_or(i64::MAX));
        if config.ensemble.is_none() {
            let orphans = tree.remove_orphan_ephemerals();
            if orphans > 0 {
                info!("removed {orphans} ephemerals whose sessions have ended");
            }
        }
        let (in_data, mut in_files) = (membership::in_data(&tree), None);
        let mut is_changed_by_hand = false;
        if let Some(ensemble) = &config.ensemble {
            let now_ms = clock.now().wall_ms;
            if config.reconfig_enabled {
                let file = config.file.as_deref();
                in_files = file.and_then(|file| membership::in_files(vfs.as_ref(), file));
                membership::show(&mut tree, &ensemble.members, now_ms);
            } else {
                if let Some(before) = &in_data {
                    is_changed_by_hand = check_hand_made(&config, ensemble, before)?;
                }
                membership::overwrite(&mut tree, &ensemble.members, now_ms);
            }
        } else {
            check_alone(&config, &store.epochs(), in_data.as_ref())?;
        }
        let remembered = store.committed();
        let ensemble_file = store.ensemble();
        let (log, snapshots) = store.split();

        let listener = workers::bind(&config.net)?;
        let port =
            listener.as_ref().and_then(|listener| listener.local_addr().ok()).map(|at| at.port());
        let tls = config.client_tls.clone();
        let secure = tls.as_ref().map(|tls| workers::bind_secure(tls, &config.net)).transpose()?;
        let secure = secure.flatten();
        let secure_port =
            secure.as_ref().and_then(|listener| listener.local_addr().ok()).map(|at| at.port());
        let handshakes = tls.as_ref().map(Handshakes::new).transpose()?;
        let http = admin::Bound::new(&config)?;
        let (admin_port, metrics_port) = (http.admin_port(), http.metrics_port());
        let metrics_tls_port = http.metrics_tls_port();
        let now = clock.now();
        let options = replica_options(&config, now.wall_ms);
        info!("session passwords: {}", options.passwords);
        let identity = match &config.ensemble {
            None => identity::of_one(&ensemble_file)?,
            Some(_) => identity::found(&ensemble_file)?,
        };
        let (mut replica, files, first, renew) = match &config.ensemble {
            None => {
                let replica = Replica::new(options, &tree, now);
                // A start that changed nothing already has its snapshot.
                let renew = recovered.replayed > 0;
                (replica, None, recovered.snapshot.is_none(), renew)
            }
            Some(ensemble) => {
                let epochs = EpochFiles::new(vfs.clone(), &config.data.dir);
                let committed = Arc::new(ensemble.members.clone());
                let proposed = ensemble.proposed.as_ref();
                let file = config.file.as_deref().map(in_full);
                let files = ConfigFiles::new(vfs, file, ensemble.me, committed, proposed);
                if config.reconfig_enabled {
                    files.settle()?;
                    if ensemble.dynamic_file.is_none() {
                        files.back_up()?;
                    }
                }
                let certain = remembered.as_ref().map_or(Ok(None), CommittedFile::read);
                let certain = certain.map_err(StartError::Committed)?;
                let found = (in_data, in_files);
                let known = (certain, identity);
                let peer = member::peer(&config, ensemble, &epochs, &recovered, known, found)?;
                let mut replica = Replica::member(options, peer, &tree, now);
                // Transactions that no quorum has confirmed must not get into a snapshot. One is
                // requested for later.
                replica.replayed(recovered.replayed, recovered.replayed_bytes);
                if is_changed_by_hand {
                    replica.wants_snapshot();
                }
                // A member whose empty database is not trusted waits for a leader's.
                let first = recovered.fresh && recovered.last_zxid >= Zxid::ZERO;
                let reconfig = config.reconfig_enabled;
                let files = Box::new(MemberFiles {
                    epochs,
                    committed: remembered,
                    ensemble: ensemble_file,
                    config: files,
                    reconfig,
                });
                (replica, Some(files), first, false)
            }
        };
        let ensemble = config.ensemble.clone();
        let shared =
            Arc::new(Shared::new(config, tree, access, metrics, clock, snapshots.clone(), port));
        if let Some(audit) = audit {
            audit.belongs_to(&shared);
            let _ = shared.audit.set(audit);
        }
        shared.common.set_identity(identity);
        let mut starting = Starting::new(&shared);
        let snapshotter = Snapshotter::new(snapshots.clone());
        starting.threads.snapshotter = Some(snapshotter.clone());
        if first {
            snapshotter.take(&shared).map_err(StartError::FirstSnapshot)?;
        } else if renew {
            // Clients need not wait for it, because the files of the last start still exist.
            replica.snapshot_begun();
            snapshotter.start(&shared);
        }

        let (to_log, from_replica) = channel();
        let journal = Arc::new(Mutex::new(Journal::new(log)));
        let kept = journal.clone();
        let log = move |shared: &Arc<Shared>| journal::run(&kept, &from_replica, files, shared);
        starting.threads.log = Some(spawn(&shared, "zebu-log", log)?);
        let alone = ensemble.is_none();
        let binding = replica.peer().and_then(|peer| peer.quorums().proposed().cloned());
        starting.threads.peers = ensemble
            .map(|ensemble| Peers::start(&shared, ensemble, binding, takes_turns))
            .transpose()?;
        let handle = starting.threads.peers.as_ref().map(Peers::handle);
        let mender = recovered.damaged.zip(handle.clone());
        let driver = Driver::new(shared.clone(), replica, journal, to_log, snapshotter, handle);
        let driver = Arc::new(Mutex::new(driver));
        if takes_turns && !alone {
            shared.turns.allow(&driver);
        }
        let driven = driver.clone();
        let drives = move |shared: &Arc<Shared>| driver::run(&driven, shared);
        starting.threads.replica = Some(spawn(&shared, "zebu-replica", drives)?);
        let count = std::thread::available_parallelism().map_or(1, NonZero::get);
        let workers = Workers::start(&shared, &driver, takes_turns, count)?;
        if alone {
            shared.restoring.allow(&driver);
            shared.serve(Some(Mode::Standalone));
        }
        let gate = handshakes.as_ref().map(Handshakes::gate);
        if let (Some(gate), Some(listener)) = (&gate, secure) {
            gate.listen(listener);
        }
        if let Some(listener) = listener {
            let sorts = tls.as_ref().is_some_and(|tls| tls.is_unified);
            workers.listen(listener, gate.filter(|_| sorts));
        }
        let arrivals = workers.arrivals();
        starting.threads.workers = Some(workers);
        starting.threads.handshakes = handshakes
            .zip(tls)
            .map(|(handshakes, tls)| {
                spawn(&shared, "zebu-tls", move |shared| handshakes.run(shared, &tls, arrivals))
            })
            .transpose()?;
        starting.threads.http = http.serve(&shared)?;
        let scrubbed = snapshots.clone();
        let scrubs = move |shared: &Arc<Shared>| scrubber::run(shared, &scrubbed);
        starting.threads.scrubber = Some(spawn(&shared, "zebu-scrub", scrubs)?);
        let files = snapshots.logs();
        let mend = |(damage, peers)| {
            spawn(&shared, "zebu-mend", move |shared| mender::run(shared, &files, &damage, &peers))
        };
        starting.threads.mender = mender.map(mend).transpose()?;
        let purges = move |shared: &Arc<Shared>| purge(shared, &snapshots);
        starting.threads.housekeeper = Some(spawn(&shared, "zebu-purge", purges)?);
        let threads = Some(starting.complete());
        Ok(Self { shared, threads, port, secure_port, admin_port, metrics_port, metrics_tls_port })
    }

    /// The bound client port.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The bound client port for TLS.
    pub fn secure_port(&self) -> Option<u16> {
        self.secure_port
    }

    /// The port of the HTTP admin server, if there is one.
    pub fn admin_port(&self) -> Option<u16> {
        self.admin_port
    }

    /// The port of the Prometheus page, if there is one.
    pub fn metrics_port(&self) -> Option<u16> {
        self.metrics_port
    }

    /// The port of the Prometheus page over TLS, if there is one.
    pub fn metrics_tls_port(&self) -> Option<u16> {
        self.metrics_tls_port
    }

    /// Lets the console show the history of a znode. Only the first reader is used.
    pub fn read_history_with(&self, read: ReadHistory) {
        // A second reader changes nothing.
        let _ = self.shared.http.history.set(read);
    }

    /// Asks the server to stop.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        // The returned value does not keep the server's directory locked.
        let shared = Arc::downgrade(&self.shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                shared.ending.retiring.ask();
            }
        }
    }

    /// Feeds the watchdog of the supervisor, if there is one, until the returned value is dropped.
    ///
    /// # Errors
    /// The system provides no further thread.
    pub(crate) fn watchdog(&self) -> std::io::Result<Option<Watchdog>> {
        Watchdog::start(&self.shared)
    }

    /// Waits until the server is asked to stop or fails. Then it ends the server: it finishes
    /// requests in progress, lets another server lead if this one is the leader, closes
    /// connections, and makes all logged transactions durable.
    ///
    /// # Errors
    /// The failure that stopped the server.
    pub fn wait(mut self) -> Result<(), Failure> {
        self.shared.ending.retiring.wait_asked();
        self.end()
    }

    /// Stops the server, as [`Server::wait`] does once it is asked to.
    ///
    /// # Errors
    /// The failure that stopped the server, or a failure at the end.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.end()
    }

    /// Finishes the requests in progress, while all threads still run.
    fn retire(&self) {
        let most = self.shared.config.throttle.shutdown_timeout.min(retiring::TIME_MAX);
        let by = self.shared.clock.monotonic() + most;
        self.shared.inbox().push(zebu_replica::Input::Retire { by });
        // A replica that makes no progress does not report its deadline.
        self.shared.ending.retiring.wait_over(most + most / 4);
    }

    /// Ends all threads, those first that pass work to others.
    fn end(&mut self) -> Result<(), Failure> {
        if self.threads.is_some() {
            if let Some(audit) = self.shared.audit.get() {
                audit.stops();
            }
            self.retire();
        }
        self.shared.stop(Ok(()));
        if let Some(threads) = self.threads.take() {
            threads.end(self.shared.inbox(), &self.shared.disk);
            if let Some(audit) = self.shared.audit.get() {
                audit.close();
            }
        }
        self.shared.ending.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.threads.is_some()
            && let Err(failure) = self.end()
        {
            error!("stopping: {failure}");
        }
    }
}

/// Removes old files at the configured interval, for the first time at once.
fn purge(shared: &Shared, snapshots: &Snapshots) {
    let Some(interval) = shared.config.purge.interval else { return };
    crate::disk::step_back();
    let mut due = Instant::now();
    while !shared.ending.is_stopping() {
        if Instant::now() >= due {
            due = Instant::now() + interval;
            let pace =
                &mut scrubber::pace(&shared.ending, shared.clock, shared.config.scrub.as_ref());
            match snapshots.purge(shared.config.purge.snapshots_kept as usize, pace) {
                Ok(purged) => {
                    info!("purge task completed: {purged:?}");
                    for rotten in &purged.damaged {
                        warn!("purge task: {rotten}");
                    }
                }
                Err(failure) => error!("purge task failed: {failure}"),
            }
        }
        shared
            .ending
            .wait_for(due.saturating_duration_since(Instant::now()).min(Duration::from_secs(60)));
    }
}

fn schemes(config: &Config, extra: Vec<Box<dyn AuthProvider>>) -> Result<Schemes, StartError> {
    let auth = &config.auth;
    let mut providers = extra;
    if auth.digest {
        let super_id = auth.super_digest.as_ref().map(|secret| secret.expose().to_owned());
        providers.push(Box::new(Digest::new(auth.digest_algorithm.parse()?, super_id)));
    }
    if auth.x509 {
        providers.push(Box::new(X509::new(auth.x509_super_user.clone())));
    }
    if auth.key {
        providers.push(Box::new(Key));
    }
    if let Some(names) = &auth.ensemble {
        providers.push(Box::new(Ensemble::new(names.clone())));
    }
    for check in &auth.outside {
        let scheme = OutsideScheme::start(check, auth.check_limits);
        let scheme = scheme.map_err(|source| StartError::System { what: "a scheme", source })?;
        providers.push(Box::new(scheme));
    }
    if auth.sasl.has_scheme {
        providers.push(Box::new(SaslScheme::new(auth.sasl.any_user.clone())));
    }
    let schemes = Schemes::new(providers, auth.skip_acl)
        .refusing_world_writes(auth.refuses_world_writes)
        .limited(config.limits.record_bytes_max());
    for scheme in &auth.enforced_schemes {
        if schemes.provider(scheme).is_none() {
            return Err(StartError::NoProvider(scheme.clone()));
        }
    }
    Ok(schemes)
}

fn tree_options(config: &Config) -> TreeOptions {
    TreeOptions {
        types: extended_types(config),
        digest: config.snapshot.digest,
        hash_seed: std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0),
    }
}

fn extended_types(config: &Config) -> ExtendedTypes {
    ExtendedTypes {
        enabled: config.znodes.extended_types,
        emulate_353: config.znodes.emulate_353_ttl,
    }
}

fn store_options(config: &Config) -> zebu_store::Options {
    let mut options = zebu_store::Options::new(&config.data.dir);
    options.log_dir.clone_from(&config.data.log_dir);
    if let Some(ensemble) = &config.ensemble {
        options.member = true;
        options.recent_txns_max = ensemble.learners.committed_txns as usize;
    }
    options.prealloc_bytes = config.log.preallocate_bytes;
    options.prealloc_adaptive = config.log.preallocate_adaptive;
    options.force_sync = config.log.fsync;
    options.fsync_warning = config.log.fsync_warning;
    options.log_size_limit = config.log.file_bytes_max;
    options.compression = match config.snapshot.compression {
        Compression::Plain => zebu_store::Compression::None,
        Compression::Gzip => zebu_store::Compression::Gzip,
        Compression::Snappy => zebu_store::Compression::Snappy,
    };
    options.digest = config.snapshot.digest;
    options.last_zxid_section = config.snapshot.last_zxid;
    options.trust_empty_snapshot = config.data.trust_empty_snapshot;
    options.autocreate_dirs = config.data.create_dirs;
    options.autocreate_db = config.data.create_db;
    options.record_bytes_max = config.limits.record_bytes_max();
    options.accept_damage = config.data.accept_damaged_log;
    options
}

fn replica_options(config: &Config, wall_ms: i64) -> ReplicaOptions {
    let throttle = &config.connection_throttle;
    let weights = throttle.weights;
    let timeout_ms = |timeout: Duration| i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let server = config.ensemble.as_ref().map_or(ServerId(1), |ensemble| ensemble.me);
    let member =
        config.ensemble.as_ref().map_or_else(MemberOptions::default, |ensemble| MemberOptions {
            local_sessions: ensemble.local_sessions,
            upgrade_local_sessions: ensemble.upgrade_local_sessions,
            read_only_after: config
                .readonly_mode
                .then_some(READ_ONLY_AFTER_MIN.max(config.sessions.tick)),
            leader_serves: ensemble.leader_serves,
        });
    ReplicaOptions {
        server,
        first_session: SessionId::first(server, wall_ms),
        tick: config.sessions.tick,
        session_timeout_ms_min: timeout_ms(config.sessions.timeout_min),
        session_timeout_ms_max: timeout_ms(config.sessions.timeout_max),
        passwords: config.auth.session_passwords.clone(),
        rules: Rules {
            types: extended_types(config),
            enforce_quota: config.znodes.enforce_quota,
            close_session_lists_paths: config.log.close_session_txn,
            record_bytes_max: config.limits.record_bytes_max(),
            digest: config.snapshot.digest,
            reconfig: config.reconfig_enabled,
            members: config.ensemble.as_ref().map(|it| it.rules).unwrap_or_default(),
        },
        // This check is for members of an ensemble. For a standalone server, the validation
        // includes it.
        eager_acl_check: config.ensemble.is_some() && config.auth.eager_acl_check,
        throttled_op_wait: config.throttle.op_wait_max.unwrap_or_default(),
        connections: ThrottleOptions {
            tokens: throttle.tokens.unwrap_or(0),
            fill_time: throttle.fill_time,
            fill_count: throttle.fill_count,
            freeze_time: throttle.freeze_time,
            drop_increase: throttle.drop_increase,
            drop_decrease: throttle.drop_decrease,
            decrease_ratio: throttle.decrease_ratio,
            weighted: weights.is_some(),
            new_session_weight: weights.map_or(1, |weights| weights.global_session),
            local_session_weight: weights
                .filter(|_| member.local_sessions)
                .map(|weights| weights.local_session),
            renew_session_weight: weights.map_or(1, |weights| weights.renew_session),
        },
        intake: IntakeOptions {
            requests_max: config.throttle.requests_max,
            stall: config.throttle.stall,
            drop_stale: config.throttle.drop_stale,
            stale_by_latency: config.throttle.stale_by_latency,
            stale_by_connection: config.throttle.stale_by_connection,
        },
        reaper: ReaperOptions {
            interval: config.znodes.container_check_interval,
            per_minute_max: config.znodes.container_deletes_per_minute,
            never_used_max: config.znodes.container_never_used_max,
        },
        snapshots: SnapshotOptions {
            every_txns: config.snapshot.txns.into(),
            every_bytes: config.snapshot.log_bytes,
            log_percent: config.snapshot.log_percent,
        },
        member,
        seed: wall_ms as u64 ^ u64::from(std::process::id()) << 32,
    }
}

/// The path of the same file, valid from any current directory. A symbolic link to a file beside it
/// is kept.
fn in_full(file: &Path) -> PathBuf {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (dir.canonicalize(), file.file_name()) {
        (Ok(dir), Some(name)) => dir.join(name),
        _ => file.to_owned(),
    }
}

/// Logs the results of the recovery.
fn report(recovered: &Recovered, mismatches: u64) {
    for warning in &recovered.warnings {
        warn!("{warning}");
    }
    if mismatches > 0 {
        error!(
            "the tree's digest differs from the one on the disk after {mismatches} transactions"
        );
    }
    if let Some(Torn { path, offset, last }) = &recovered.truncated {
        // No client got an answer for this transaction, so nothing is lost.
        info!(
            "{}: a record that was being written when the machine or the process stopped begins at offset {offset}, \
             after transaction {last}: it was never acknowledged, and is left out",
            path.display()
        );
    }
    if recovered.damaged.is_some() {
        // The module that decides what such a member does also logs it.
        return;
    }
    let mode = match &recovered.mode {
        Recovery::Verified => "everything that was durable once is there".to_owned(),
        Recovery::Weaker { log } => format!(
            "weaker mode: no sidecar says where {} ended, so damage at its end would look like a torn record",
            log.display()
        ),
    };
    info!(
        "recovered to zxid {}, {} transactions replayed; {mode}",
        recovered.last_zxid, recovered.replayed
    );
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::atomic::Ordering;

    use zebu_jute::Encoder;
    use zebu_proto::OpCode;
    use zebu_proto::request::ConnectRequest;

    use super::*;

    #[test]
    fn settings_of_the_disk_reach_the_store() {
        let mut config = Config::embedded("/data");
        config.data.log_dir = "/log".into();
        config.log.preallocate_bytes = 1;
        config.log.preallocate_adaptive = true;
        config.log.file_bytes_max = Some(2);
        config.log.fsync = false;
        config.log.fsync_warning = Duration::from_millis(3);
        config.snapshot.compression = Compression::Gzip;
        config.snapshot.digest = false;
        config.snapshot.last_zxid = false;
        config.data.create_dirs = false;
        config.data.create_db = false;
        config.data.trust_empty_snapshot = true;
        config.data.accept_damaged_log = true;
        config.limits.packet_bytes = 40;
        config.limits.packet_extra_bytes = 2;
        let options = store_options(&config);
        assert_eq!(options.data_dir, std::path::Path::new("/data"));
        assert_eq!(options.log_dir, std::path::Path::new("/log"));
        assert_eq!((options.prealloc_bytes, options.log_size_limit), (1, Some(2)));
        assert!(options.prealloc_adaptive);
        assert!(!options.force_sync && options.fsync_warning == Duration::from_millis(3));
        assert_eq!(options.compression, zebu_store::Compression::Gzip);
        assert!(!options.digest && !options.last_zxid_section);
        assert!(!options.autocreate_dirs && !options.autocreate_db);
        assert!(options.trust_empty_snapshot && options.accept_damage);
        assert_eq!(options.record_bytes_max, 42);
    }

    #[test]
    fn a_file_has_a_path_that_means_the_same_everywhere() {
        let file = in_full(Path::new("Cargo.toml"));
        assert!(file.is_absolute() && file.ends_with("Cargo.toml"), "{file:?}");
        assert!(file.exists());
        assert_eq!(in_full(Path::new("src/../Cargo.toml")), file);
        // A file that is a symbolic link stays in its place, and so do the files beside it.
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&file, dir.path().join("zoo.cfg")).unwrap();
        let link = in_full(&dir.path().join("zoo.cfg"));
        assert_eq!(link, dir.path().canonicalize().unwrap().join("zoo.cfg"));
    }

    /// Consecutive frames with these `payloads`.
    fn framed(payloads: &[&dyn zebu_jute::Encode]) -> Vec<u8> {
        let mut out = Vec::new();
        for payload in payloads {
            let mut body = Vec::new();
            payload.encode(&mut Encoder::new(&mut body));
            out.extend((body.len() as u32).to_be_bytes());
            out.extend(body);
        }
        out
    }

    /// A request with only a path, and a flag or a version.
    struct Ask(i32, OpCode, &'static str);

    impl zebu_jute::Encode for Ask {
        fn encode(&self, out: &mut Encoder<'_>) {
            out.int(self.0);
            out.int(self.1.0);
            out.text(self.2);
            match self.1 {
                OpCode::DELETE => out.int(-1),
                _ => out.boolean(false),
            }
        }
    }

    #[test]
    fn a_connection_changes_its_worker_and_nobody_notices() {
        const ROUNDS: i32 = 300;
        const IN_A_ROUND: i32 = 16;
        if std::thread::available_parallelism().map_or(1, NonZero::get) < 2 {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(Config::embedded(dir.path()), Vec::new()).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", server.port().unwrap())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let hello = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 30_000,
            session_id: 0,
            password: None,
            read_only: Some(false),
            asks_ensemble: false,
        };
        stream.write_all(&framed(&[&hello])).unwrap();
        let receive = |mut stream: &TcpStream| {
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut payload = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut payload).unwrap();
            payload
        };
        receive(&stream);
        let first = server.shared.conns().all()[0].side.worker.load(Ordering::Relaxed);
        for round in 0..ROUNDS {
            let ask = |number: i32| {
                let op = if number % 3 == 0 { OpCode::DELETE } else { OpCode::EXISTS };
                Ask(round * IN_A_ROUND + number, op, "/none")
            };
            let asked: Vec<Ask> = (0..IN_A_ROUND).map(ask).collect();
            let asked: Vec<&dyn zebu_jute::Encode> = asked.iter().map(|ask| ask as _).collect();
            let frames = framed(&asked);
            // The bytes end within the frame, so the next worker continues in its middle.
            let (now, later) = frames.split_at(frames.len() / 2 + 3);
            stream.write_all(now).unwrap();
            let conn = server.shared.conns().all().remove(0);
            conn.side.worker.fetch_xor(1, Ordering::Relaxed);
            conn.wake();
            stream.write_all(later).unwrap();
            for number in 0..IN_A_ROUND {
                let xid = (round * IN_A_ROUND + number).to_be_bytes();
                assert_eq!(receive(&stream)[..4], xid, "round {round}");
            }
        }
        let conn = server.shared.conns().all().remove(0);
        assert_eq!(conn.side.worker.load(Ordering::Relaxed), first);
        assert_eq!(
            conn.side.stats.received.load(Ordering::Relaxed),
            1 + (ROUNDS * IN_A_ROUND) as u64
        );
        drop(stream);
        while server.shared.conns().count() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
