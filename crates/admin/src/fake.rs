//! A server for tests whose facts the tests choose.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Seek as _, Write as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zebu_proto::{ErrorCode, OpCode, ServerId, SessionId, Xid, Zxid};

use crate::four_letter::*;
use crate::health::Progress;
use crate::http::Client;
use crate::inside::{Children, ChildrenPage, InsideSession, Lost, Opening, QuotaFacts, Reply};
use crate::served::{
    DataFile, Denied, Ended, EnsembleFacts, HandOverDenied, HandingOver, HistoryFacts,
    LearnerFacts, NoHistory, NotTaken, ObserverFacts, RestoreDenied, Restored, Served,
    SnapshotFacts, TakenSnapshot,
};
use zebu_metrics::{Metrics, ResponseSizes};

pub const SESSION: SessionId = SessionId(0x10000697ae10000);

pub struct Fake {
    pub serving: Option<Mode>,
    pub member: Option<MemberFacts>,
    pub metrics: Metrics,
    pub watchers: Vec<Watcher>,
    /// Set for a member of an ensemble.
    pub ensemble: Option<EnsembleFacts>,
    pub observers: Vec<ObserverFacts>,
    /// The number of turns of its replica. Each observation adds one unless `stands` is set.
    pub turns: AtomicU64,
    pub stands: bool,
    /// The operations that were requested.
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Default for Fake {
    fn default() -> Self {
        let watcher = |path: &str| Watcher { path: path.to_owned(), session: SESSION };
        Self {
            serving: Some(Mode::Standalone),
            member: None,
            metrics: Metrics::default(),
            watchers: ["/n0", "/n1", "/nope"].into_iter().map(watcher).collect(),
            ensemble: None,
            observers: Vec::new(),
            turns: AtomicU64::new(1),
            stands: false,
            asked: Arc::default(),
        }
    }
}

pub fn connection(port: u16, interest: u8, received: u64, sent: u64) -> ConnectionFacts {
    let remote = ([127, 0, 0, 1], port).into();
    ConnectionFacts { remote, is_secure: false, interest, queued: 0, received, sent, session: None }
}

impl Fake {
    /// One entry per page, to see that pages are joined without a seam.
    fn page(&self, from: Cursor) -> (Option<&Watcher>, Option<Cursor>) {
        let at = usize::try_from(from).unwrap();
        (self.watchers.get(at), (at + 1 < self.watchers.len()).then_some(from + 1))
    }
}

impl Facts for Fake {
    fn serving(&self) -> Option<Mode> {
        self.serving
    }
    fn member(&self) -> Option<MemberFacts> {
        self.member.clone()
    }
    fn global_sessions(&self) -> Vec<(SessionId, i32)> {
        vec![(SESSION, 10_000)]
    }
    fn server(&self) -> ServerFacts {
        ServerFacts {
            latency_min_ms: 0,
            latency_avg_ms: 1.0,
            latency_max_ms: 27,
            packets_received: 145,
            packets_sent: 144,
            connections: 3,
            tls_handshakes: 0,
            auth_failures: 2,
            plain_local: 5,
            plain_remote: 7,
            certificate_seconds_left: None,
            outstanding: 0,
            zxid: Zxid(0x8d),
            znodes: 145,
            watches: 3,
            ephemerals: 2,
            data_bytes: 44,
            sessions: 1,
            local_sessions: 0,
            uptime_ms: 5490,
            slow_syncs: 4,
            connection_drop_probability: 0.0,
            response_sizes: ResponseSizes { last_bytes: 16, min_bytes: 16, max_bytes: 100 },
            fds_open: Some(265),
            fds_max: Some(20_000),
            quotas: GaugeSets {
                count_limit: [("app".to_owned(), 10)].into(),
                ..GaugeSets::default()
            },
        }
    }
    fn metrics(&self) -> &Metrics {
        &self.metrics
    }
    fn connections(&self) -> Vec<ConnectionFacts> {
        let mut first = connection(40632, 1, 144, 144);
        first.session = Some(SessionFacts {
            id: SESSION,
            last_op: "EXIS",
            established_ms: 1_795_272_835_528,
            timeout_ms: 10_000,
            last_xid: Some(Xid(0x384)),
            last_zxid: Zxid(0x8d),
            last_response_ms: 6_917_314,
            latency_last_ms: 1,
            latency_min_ms: 0,
            latency_avg_ms: 1,
            latency_max_ms: 27,
        });
        vec![first, connection(40642, 1, 0, 0), connection(40660, 0, 1, 0)]
    }
    fn connection_buckets(&self) -> Vec<Bucket<ConnectionRef>> {
        let member =
            |port, session| ConnectionRef { remote: ([127, 0, 0, 1], port).into(), session };
        let members = vec![member(40632, SESSION), member(40642, SessionId::NONE)];
        vec![Bucket { expires_ms: 1_795_272_848_000, members }]
    }
    fn session_buckets(&self, local: bool) -> Vec<Bucket<SessionId>> {
        if local {
            let members = vec![SessionId(SESSION.0 + 1), SessionId(SESSION.0 + 2)];
            return vec![Bucket { expires_ms: 1_795_272_844_000, members }];
        }
        vec![Bucket { expires_ms: 1_795_272_846_000, members: vec![SESSION] }]
    }
    fn ephemeral_sessions(&self) -> usize {
        1
    }
    fn ephemerals(&self, from: Cursor, out: &mut Vec<(SessionId, String)>) -> Option<Cursor> {
        out.push((SESSION, format!("/n{from}")));
        (from == 0).then_some(1)
    }
    fn watch_summary(&self) -> WatchSummary {
        WatchSummary { connections: 1, paths: 3, watches: 3 }
    }
    fn watches_by_path(&self, from: Cursor, out: &mut Vec<Watcher>) -> Option<Cursor> {
        let (watcher, next) = self.page(from);
        out.extend(watcher.cloned());
        next
    }
    fn watches_by_session(&self, from: Cursor, out: &mut Vec<Watcher>) -> Option<Cursor> {
        self.watches_by_path(from, out)
    }
    fn digests(&self) -> Vec<(Zxid, i64)> {
        vec![(Zxid(0x80), 270_434_420_806)]
    }
    fn dirs(&self) -> DirSizes {
        DirSizes { data_bytes: 478, log_bytes: 65_552 }
    }
    fn conf(&self) -> ConfFacts {
        ConfFacts {
            client_port: Some(22014),
            secure_client_port: None,
            data_dir: PathBuf::from("/data/version-2"),
            log_dir: PathBuf::from("/log/version-2"),
            sizes: self.dirs(),
            tick_ms: 2000,
            connections_per_address: 60,
            session_timeout_min_ms: 4000,
            session_timeout_max_ms: 40_000,
            backlog: None,
        }
    }
    fn environment(&self) -> Environment {
        Environment::collect()
    }
    fn trace_mask(&self) -> i64 {
        TRACE_MASK_DEFAULT
    }
}

impl Fake {
    /// A follower ends no session.
    fn ended(&self, what: &str, session: SessionId) -> Ended {
        self.note(format!("{what} {session}"));
        match session {
            SESSION if self.serving == Some(Mode::Follower) => Ended::Elsewhere(None),
            SESSION => Ended::Done,
            _ => Ended::Unknown,
        }
    }

    fn note(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }
}

/// `root:root` has all permissions. All other passwords have some.
impl Served for Fake {
    fn progress(&self) -> Progress {
        let turns = self.turns.fetch_add(u64::from(!self.stands), Ordering::Relaxed);
        Progress { turns, ..Progress::default() }
    }
    fn damaged_files(&self) -> Vec<String> {
        if self.stands { vec!["damaged: /data/log.1".to_owned()] } else { Vec::new() }
    }
    fn reset_stats(&self) {
        self.note("reset_stats");
    }
    fn reset_connections(&self) {
        self.note("reset_connections");
    }
    fn reset_observers(&self) {
        self.note("reset_observers");
    }
    fn set_trace_mask(&self, mask: i64) {
        self.note(format!("mask {mask}"));
    }
    fn renew_sessions(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.note("renew_sessions");
        Box::pin(std::future::ready(()))
    }
    fn last_snapshot(&self) -> Option<SnapshotFacts> {
        Some(SnapshotFacts { zxid: Zxid(0x8c), taken_s: 1_795_272_835 })
    }
    fn ensemble(&self) -> Option<EnsembleFacts> {
        self.ensemble.clone()
    }
    fn observers(&self) -> Vec<ObserverFacts> {
        self.observers.clone()
    }
    fn learners(&self) -> Vec<LearnerFacts> {
        let observers = self.observers.iter().cloned();
        observers
            .map(|connection| LearnerFacts { observes: true, connection, acked: None })
            .collect()
    }
    fn ephemerals_of(&self, session: SessionId, most: usize) -> Vec<String> {
        assert_eq!(session, SESSION);
        ["/n0", "/n1"].into_iter().take(most).map(str::to_owned).collect()
    }
    fn end_session(&self, session: SessionId) -> Ended {
        self.ended("end_session", session)
    }
    fn end_connection(&self, session: SessionId) -> Ended {
        self.ended("end_connection", session)
    }
    fn reset_connection(&self, session: SessionId) -> Ended {
        self.ended("reset_connection", session)
    }
    fn hand_over(&self, to: Option<ServerId>) -> HandingOver<'_> {
        self.note(format!("hand_over {to:?}"));
        let to = to.unwrap_or(ServerId(2));
        let denied = to == ServerId(9);
        let result =
            if denied { Err(HandOverDenied::Refused("no server.9".into())) } else { Ok(to) };
        Box::pin(std::future::ready(result))
    }
    fn authorize<'s>(
        &'s self,
        _: &'s Client,
        scheme: &'s str,
        data: &'s str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Denied>> + Send + 's>> {
        Box::pin(std::future::ready(match (scheme, data) {
            ("digest", "root:root") => Ok(()),
            ("digest", _) => Err(Denied::Forbidden),
            _ => Err(Denied::Unknown),
        }))
    }
    fn open_session<'s>(&'s self, _: &'s Client) -> Opening<'s> {
        let session = FakeSession { asked: self.asked.clone(), user: String::new() };
        Box::pin(std::future::ready(Ok(Box::new(session) as Box<dyn InsideSession>)))
    }
    fn take_snapshot(&self) -> Result<TakenSnapshot, NotTaken> {
        self.note("snapshot");
        let mut file: File = tempfile::tempfile().unwrap();
        file.write_all(&SNAPSHOT).unwrap();
        file.rewind().unwrap();
        Ok(TakenSnapshot { file, zxid: Zxid(0x8d), bytes: SNAPSHOT.len() as u64 })
    }
    fn restore(&self, source: &mut dyn Read, fuzzy: bool) -> Result<Restored, RestoreDenied> {
        let mut text = String::new();
        let read = source.read_to_string(&mut text);
        self.note(format!("restore {text} {fuzzy} {}", read.is_ok()));
        match (&text[..], fuzzy) {
            ("fuzzy", false) => Err(RestoreDenied::Fuzzy),
            ("ensemble", _) => Err(RestoreDenied::Ensemble),
            ("busy", _) => Err(RestoreDenied::Busy),
            ("failed", _) => Err(RestoreDenied::Failed("no room".to_owned())),
            ("", _) => Err(RestoreDenied::Unusable("it ends at offset 0".to_owned())),
            _ if read.is_err() => Err(RestoreDenied::Unusable("cut".to_owned())),
            _ => Ok(Restored {
                zxid: Zxid(1 << 32),
                snapshot: Zxid(0x8d),
                znodes: 5,
                sessions: 1,
                has_digest: true,
            }),
        }
    }
    fn data_files(&self) -> io::Result<Vec<DataFile>> {
        Ok(vec![DataFile { name: "log.1".to_owned(), bytes: 5 }])
    }
    fn open_data_file(&self, name: &str) -> io::Result<Option<(File, u64)>> {
        self.note(format!("open {name}"));
        if name != "log.1" {
            return Ok(None);
        }
        let mut file: File = tempfile::tempfile().unwrap();
        file.write_all(b"ZKLG, and room").unwrap();
        file.rewind().unwrap();
        Ok(Some((file, 5)))
    }
    fn pause_shipping(&self, bytes: u64) -> Duration {
        Duration::from_micros(bytes)
    }
    fn history(&self, path: &str, below: bool) -> Result<HistoryFacts, NoHistory> {
        self.note(format!("history {path} {below}"));
        if path == "/slow" {
            return Err(NoHistory::Failed("not read to their end".into()));
        }
        let changes = vec![serde_json::json!({ "path": path, "change": "created" })];
        let first = Some(Zxid(0x8c));
        Ok(HistoryFacts { changes, first, unread_logs: 2, ..HistoryFacts::default() })
    }
}

/// Longer than a single read.
pub static SNAPSHOT: [u8; 100_000] = [7; 100_000];

/// A session that answers every request with nothing, except the one of `lost`, which has ended.
struct FakeSession {
    asked: Arc<Mutex<Vec<String>>>,
    user: String,
}

impl InsideSession for FakeSession {
    fn id(&self) -> SessionId {
        SESSION
    }
    fn timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(30)
    }
    fn call<'s>(
        &'s mut self,
        op: OpCode,
        body: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, Lost>> + Send + 's>> {
        let text = String::from_utf8_lossy(&body).into_owned();
        let name = if op == OpCode::AUTH { "AUTH".to_owned() } else { format!("{op:?}") };
        self.asked.lock().unwrap().push(format!("{name} {text:?}"));
        let answer = if op == OpCode::AUTH {
            self.user = text.rsplit('\0').next().unwrap_or_default().to_owned();
            let user = self.user.trim_start_matches(|c: char| c.is_control());
            self.user = user.split_once(':').map_or("", |(user, _)| user).to_owned();
            let err = if self.user.is_empty() { ErrorCode::AUTH_FAILED } else { ErrorCode::OK };
            Ok(Reply { err, body: Vec::new() })
        } else if self.user == "lost" {
            Err(Lost("it has expired"))
        } else {
            Ok(Reply { err: ErrorCode::OK, body: Vec::new() })
        };
        Box::pin(std::future::ready(answer))
    }
    fn identities(&self) -> Vec<String> {
        vec![format!("digest:{:?}", self.user)]
    }
    fn may_do_everything(&self) -> bool {
        self.user == "root"
    }
    fn children(&self, _: &ChildrenPage<'_>) -> Result<Children, ErrorCode> {
        Ok(Children::default())
    }
    fn quotas(&self, _: usize) -> Result<Vec<QuotaFacts>, ErrorCode> {
        Ok(Vec::new())
    }
}
