//! Starts the admin server, and shows it the running server.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use tracing::{info, warn};
use zebu_admin::{
    Client, ConsoleOptions, DataFile, Denied, Ended, EnsembleFacts, HandOverDenied, HandingOver,
    HistoryFacts, InsideSession, LearnerFacts, NoHistory, NotTaken, ObserverFacts, OnPlain,
    Opening, Options, PageOptions, Progress, RestoreDenied, Restored, Running, Served, Site,
    SnapshotFacts, Started, TakenSnapshot, Watched,
};
use zebu_proto::{Perms, ServerId, SessionId};
use zebu_replica::auth::X509_SCHEME;
use zebu_replica::{Input, NotHandedOver};
use zebu_transport::HttpPort;
use zebu_zab::NoHeir;

use crate::clients::authentication;
use crate::clients::conn::Conn;
use crate::clients::inside::Inside;
use crate::config::{Config, PrometheusConfig};
use crate::counting::server_facts::ServerFactsView;
use crate::disk::data_files;
use crate::disk::snapshotter::Snapshotter;
use crate::error::StartError;
use crate::four_letter::Mode;
use crate::metrics::Histograms;
use crate::restoring;
use crate::retiring;
use crate::shared::Shared;

/// The bound ports. They are bound before anything runs, so that an occupied port stops nothing
/// that already runs.
pub struct Bound {
    admin: Option<TcpListener>,
    admin_tls: Option<Arc<HttpPort>>,
    metrics: Option<TcpListener>,
    metrics_over_tls: Option<(TcpListener, Arc<HttpPort>)>,
}

impl Bound {
    /// Binds the configured ports.
    ///
    /// A failure does not stop the start of a member, or of a server whose configuration does not
    /// enable the admin server.
    ///
    /// # Errors
    /// [`StartError::Admin`], the certificates of the admin server or of the Prometheus page cannot
    /// be used, or a port of the Prometheus page is occupied.
    pub fn new(config: &Config) -> Result<Self, StartError> {
        let admin_tls = config.admin.as_ref().and_then(|admin| admin.tls.clone());
        let admin_tls =
            admin_tls.map(|tls| HttpPort::new("TLS over HTTP", tls.files, tls.accepts_plain));
        let admin_tls = admin_tls.transpose().map_err(StartError::AdminTls)?.map(Arc::new);
        let admin = match &config.admin {
            None => None,
            Some(admin) => match zebu_admin::bind(&admin.address, admin.port) {
                Ok(listener) => Some(listener),
                Err(error) if config.ensemble.is_none() && admin.is_asked_for => {
                    return Err(StartError::Admin(error));
                }
                Err(error) => {
                    warn!("there is no admin server: {error}");
                    None
                }
            },
        };
        let (mut metrics, mut metrics_over_tls) = (None, None);
        if let Some(page) = &config.prometheus {
            let bind = |port| zebu_admin::bind(&page.address, port).map_err(StartError::Prometheus);
            metrics = page.port.map(bind).transpose()?;
            if let Some(tls) = &page.tls {
                let port = HttpPort::new("TLS of the Prometheus page", tls.files.clone(), false);
                let port = port.map_err(StartError::PrometheusTls)?;
                metrics_over_tls = Some((bind(tls.port)?, Arc::new(port)));
            }
        }
        Ok(Self { admin, admin_tls, metrics, metrics_over_tls })
    }

    /// The port of the commands.
    pub fn admin_port(&self) -> Option<u16> {
        port_of(self.admin.as_ref())
    }

    /// The port of the Prometheus page.
    pub fn metrics_port(&self) -> Option<u16> {
        port_of(self.metrics.as_ref())
    }

    /// The port of the Prometheus page over TLS.
    pub fn metrics_tls_port(&self) -> Option<u16> {
        port_of(self.metrics_over_tls.as_ref().map(|(listener, _)| listener))
    }

    /// Serves on the bound ports until the returned value is dropped.
    ///
    /// # Errors
    /// The system provides no further thread.
    pub fn serve(self, shared: &Arc<Shared>) -> Result<Option<Running>, StartError> {
        let ports = [
            ("commands", self.admin_port()),
            ("metrics", self.metrics_port()),
            ("metrics with TLS", self.metrics_tls_port()),
        ];
        for (what, port) in ports {
            if let Some(port) = port {
                info!("{what} are served over HTTP on port {port}");
            }
        }
        let served: Arc<dyn Served> = Arc::new(ServerFactsView(shared.clone()));
        let health = Watched::default();
        let mut sites = Vec::new();
        let (mut certificates, mut of_metrics) = (None, None);
        if let (Some(listener), Some(config)) = (self.admin, &shared.config.admin) {
            let started = Started {
                configuration: config.initial_configuration.clone(),
                properties: config.properties.clone(),
            };
            let options = Options {
                command_url: config.command_url.clone(),
                snapshot: config.snapshot,
                restore: config.restore,
                interval: config.snapshot_interval,
                idle_timeout: config.idle_timeout,
                started,
                console: config.console.as_ref().map(|console| ConsoleOptions {
                    hosts: console.hosts.clone(),
                    idle: console.idle_timeout,
                }),
            };
            let router = zebu_admin::admin(served.clone(), options, health.clone());
            let (tls, idle_timeout) = (self.admin_tls, config.idle_timeout);
            if let (Some(port), Some(settings)) = (&tls, &config.tls) {
                let _ = shared.http.admin.set(port.clone());
                certificates = Some((port.clone(), settings.reloads));
            }
            let counting = shared.clone();
            let on_plain: OnPlain = Arc::new(move || counting.metrics.insecure_admin_count.add(1));
            sites.push(Site { listener, router, tls, on_plain: Some(on_plain), idle_timeout });
        }
        if let (Some(listener), Some(config)) = (self.metrics, &shared.config.prometheus) {
            let router = zebu_admin::prometheus(served.clone(), page_options(config));
            let (tls, on_plain) = (None, None);
            sites.push(Site { listener, router, tls, on_plain, idle_timeout: IDLE_TIMEOUT });
        }
        if let (Some((listener, tls)), Some(config)) =
            (self.metrics_over_tls, &shared.config.prometheus)
        {
            let router = zebu_admin::prometheus(served.clone(), page_options(config));
            let _ = shared.http.metrics.set(tls.clone());
            of_metrics = Some((tls.clone(), true));
            let (tls, on_plain) = (Some(tls), None);
            sites.push(Site { listener, router, tls, on_plain, idle_timeout: IDLE_TIMEOUT });
        }
        if sites.is_empty() {
            return Ok(None);
        }
        let beside = async move {
            tokio::join!(health.watch(served), watch(certificates), watch(of_metrics));
        };
        let running = Running::start(sites, beside);
        Ok(Some(running.map_err(|source| StartError::System { what: "HTTP", source })?))
    }
}

fn page_options(config: &PrometheusConfig) -> PageOptions {
    PageOptions { process: config.process, top_clients: config.top_clients }
}

/// Watches the certificates of a port, and reloads them if that is configured.
async fn watch(port: Option<(Arc<HttpPort>, bool)>) {
    if let Some((tls, reloads)) = port {
        tls.port().watch(reloads).await;
    }
}

fn port_of(listener: Option<&TcpListener>) -> Option<u16> {
    listener?.local_addr().ok().map(|at| at.port())
}

/// Maximum time for a request to the Prometheus page; the admin server's default.
const IDLE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

impl ServerFactsView {
    /// The connection of a session.
    fn connection_of(&self, session: SessionId) -> Option<Arc<Conn>> {
        let mut found = None;
        self.0.conns().each(|conn| {
            if conn.session() == Some(session) {
                found = Some(conn.clone());
            }
        });
        found
    }
}

impl Served for ServerFactsView {
    fn config(&self) -> Option<&Config> {
        Some(&self.0.config)
    }

    fn progress(&self) -> Progress {
        let shared = &self.0;
        Progress {
            turns: shared.counting.session_list.turns(),
            waiting: shared.disk.log_queue.load(Ordering::Relaxed),
            batches: shared.metrics.sync_processor_batch_size.count(),
            remaking: shared.disk.remaking.load(Ordering::Relaxed) > 0,
        }
    }

    fn damaged_files(&self) -> Vec<String> {
        self.0.disk.damaged_files.lock().clone()
    }

    fn reset_stats(&self) {
        self.0.reset_stats();
    }

    fn reset_connections(&self) {
        self.0.reset_connections();
    }

    fn reset_observers(&self) {
        let learners = self.0.ensemble.learners.lock();
        learners.iter().filter(|it| it.observes()).for_each(|observer| observer.reset());
    }

    fn set_trace_mask(&self, mask: i64) {
        self.0.clients.trace_mask.store(mask, Ordering::Relaxed);
    }

    fn histograms(&self) -> Option<&Histograms> {
        Some(&self.0.counting.histograms)
    }

    fn limits(&self) -> Vec<(&'static str, u64, u64)> {
        let shared = &self.0;
        let limits = &shared.config.limits;
        let connections = limits
            .connections
            .map(|most| ("maxCnxns", shared.conns().count() as u64, u64::from(most)));
        let requests = shared.common.load.requests() as u64;
        let outstanding = u64::from(limits.outstanding_requests);
        let handshakes = shared.clients.tls_handshakes.load(Ordering::Relaxed) as u64;
        let handshakes =
            shared.config.client_tls.as_ref().and_then(|tls| tls.handshakes_max).map(|most| {
                ("netty.server.outstandingHandshake.limit", handshakes, u64::from(most))
            });
        let all =
            [Some(("globalOutstandingLimit", requests, outstanding)), connections, handshakes];
        all.into_iter().flatten().collect()
    }

    fn renew_sessions(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let shared = &self.0;
        Box::pin(shared.counting.session_list.renew(|| shared.inbox().poke()))
    }

    fn last_snapshot(&self) -> Option<SnapshotFacts> {
        let last = self.0.disk.snapshots.latest().ok().flatten()?;
        let written = std::fs::metadata(&last.path).and_then(|file| file.modified()).ok()?;
        let age = written.duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(SnapshotFacts { zxid: last.zxid, taken_s: age.as_secs() as i64 })
    }

    fn ensemble(&self) -> Option<EnsembleFacts> {
        let shared = &self.0;
        let me = shared.config.ensemble.as_ref()?.me;
        let members = shared.ensemble.members.lock().clone()?;
        let leads = shared.serving() == Some(Mode::Leader);
        let leader = if leads { Some(me) } else { shared.counting.status.lock().leader };
        Some(EnsembleFacts { me, members, leader })
    }

    fn observers(&self) -> Vec<ObserverFacts> {
        let observers = self.learners().into_iter().filter(|it| it.observes);
        observers.map(|observer| observer.connection).collect()
    }

    fn learners(&self) -> Vec<LearnerFacts> {
        self.0.ensemble.learners.lock().iter().filter_map(|learner| learner.facts()).collect()
    }

    fn ephemerals_of(&self, session: SessionId, most: usize) -> Vec<String> {
        self.0.tree().read().ephemerals(session).take(most).collect()
    }

    fn end_session(&self, session: SessionId) -> Ended {
        let shared = &self.0;
        let is_global = shared.tree().read().session_timeout(session).is_some();
        let ends_all = matches!(shared.serving(), Some(Mode::Leader | Mode::Standalone));
        if is_global && !ends_all {
            return Ended::Elsewhere(self.ensemble().and_then(|ensemble| ensemble.leader));
        }
        // If the tree does not have the session, only this server may know it.
        if !is_global && self.connection_of(session).is_none() {
            return Ended::Unknown;
        }
        shared.inbox().push(Input::Terminate(session));
        Ended::Done
    }

    fn end_connection(&self, session: SessionId) -> Ended {
        let Some(conn) = self.connection_of(session) else { return Ended::Unknown };
        conn.outbox.lock().close();
        conn.wake();
        Ended::Done
    }

    fn reset_connection(&self, session: SessionId) -> Ended {
        let Some(conn) = self.connection_of(session) else { return Ended::Unknown };
        conn.side.stats.reset();
        Ended::Done
    }

    fn hand_over(&self, to: Option<ServerId>) -> HandingOver<'_> {
        let shared = &self.0;
        Box::pin(async move {
            let by = shared.clock.monotonic() + retiring::TIME_MAX;
            let answer =
                shared.ending.handing_over.ask(|| shared.inbox().push(Input::HandOver { to, by }));
            // A replica that makes no progress does not answer.
            match tokio::time::timeout(retiring::TIME_MAX * 2, answer).await {
                Ok(Ok(Ok(heir))) => Ok(heir),
                Ok(Ok(Err(NotHandedOver::NoHeir(NoHeir::NotLeading)))) => {
                    let leader = self.ensemble().and_then(|ensemble| ensemble.leader);
                    Err(leader.map_or(HandOverDenied::NoLeader, HandOverDenied::LedBy))
                }
                Ok(Ok(Err(why))) => Err(HandOverDenied::Refused(why.into())),
                Ok(Err(_)) => Err(HandOverDenied::Stopping),
                Err(_) => Err(HandOverDenied::Late),
            }
        })
    }

    fn authorize<'s>(
        &'s self,
        client: &'s Client,
        scheme: &'s str,
        data: &'s str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Denied>> + Send + 's>> {
        let shared = &self.0;
        Box::pin(async move {
            let ids = match (&shared.clients.x509, &client.subject) {
                (Some(x509), Some(subject)) if scheme == X509_SCHEME => x509.ids(subject),
                _ => {
                    let peer = client.address.ip();
                    let verdict =
                        authentication::judge(shared, peer, scheme, data.as_bytes()).await;
                    verdict.map_err(|_| Denied::Unknown)?
                }
            };
            let acl = shared.tree().read().node("/").map(|root| root.acl().to_vec());
            let acl = acl.ok_or(Denied::Forbidden)?;
            // Each permission is checked separately: an entry that grants one permission does not
            // grant the others (CVE-2025-58457).
            let needed = [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];
            let schemes = &shared.common.schemes;
            let may = needed.into_iter().all(|perm| schemes.permits(&acl, perm, &ids));
            if may { Ok(()) } else { Err(Denied::Forbidden) }
        })
    }

    fn open_session<'s>(&'s self, client: &'s Client) -> Opening<'s> {
        let shared = &self.0;
        Box::pin(async move {
            let inside = Inside::open(shared, client).await?;
            Ok(Box::new(inside) as Box<dyn InsideSession>)
        })
    }

    fn take_snapshot(&self) -> Result<TakenSnapshot, NotTaken> {
        let shared = &self.0;
        let taken = Snapshotter::new(shared.disk.snapshots.clone())
            .take(shared)
            .map_err(|error| NotTaken::Failed(error.into()))?;
        let taken = taken.ok_or(NotTaken::Replaced)?;
        let opened = File::open(&taken.path)?;
        Ok(TakenSnapshot { file: opened, zxid: taken.zxid, bytes: taken.bytes })
    }

    fn restore(&self, source: &mut dyn Read, fuzzy: bool) -> Result<Restored, RestoreDenied> {
        restoring::restore(&self.0, source, fuzzy)
    }

    fn data_files(&self) -> io::Result<Vec<DataFile>> {
        data_files::list(&self.0.config.data)
    }

    fn open_data_file(&self, name: &str) -> io::Result<Option<(File, u64)>> {
        data_files::open(&self.0.config.data, name)
    }

    fn pause_shipping(&self, bytes: u64) -> Duration {
        let now = self.0.clock.monotonic();
        self.0.disk.pause_shipping(now, bytes)
    }

    fn history(&self, path: &str, below: bool) -> Result<HistoryFacts, NoHistory> {
        let read = self.0.http.history.get().ok_or(NoHistory::NoReader)?;
        let data = &self.0.config.data;
        read(&data.dir, &data.log_dir, path, below).map_err(NoHistory::Failed)
    }
}
