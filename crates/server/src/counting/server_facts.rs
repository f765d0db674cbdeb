//! The facts about a running server that four-letter words show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zebu_proto::{Identity, OpCode, SessionId, Xid, Zxid};
use zebu_tree::{Tree, WatcherId};

use super::lacking::{doubted_in_words, in_words};
use crate::clients::conn::Conn;
use crate::clients::descriptors;
use crate::four_letter::{
    Bucket, ConfFacts, ConnectionFacts, ConnectionRef, Cursor, DirSizes, Environment, Facts,
    GaugeSets, LeaderFacts, MemberFacts, Mode, ServerFacts, SessionFacts, WatchSummary, Watcher,
};
use crate::metrics::{Metrics, namespace};
use crate::shared::{Leading, Shared, Status};

/// A running server, as the four-letter words see it.
pub struct ServerFactsView(pub Arc<Shared>);

impl ServerFactsView {
    fn session_of(&self, watcher: WatcherId) -> Option<SessionId> {
        self.0.conns().by_watcher(watcher).and_then(|conn| conn.session())
    }

    /// The wall-clock time for a monotonic time.
    fn wall_ms(&self, at: Duration) -> i64 {
        let now = self.0.clock.now();
        now.wall_ms + at.as_millis() as i64 - now.monotonic.as_millis() as i64
    }

    fn quotas(&self) -> GaugeSets {
        let tree = self.0.tree().read();
        let mut sets = GaugeSets::default();
        for path in tree.quota_paths() {
            let Some(quota) = tree.quota_for(path) else { continue };
            let (Ok(limits), Some(name)) = (&quota.limits, namespace(path)) else { continue };
            let of = |hard: i64, soft: i64| if hard > -1 { hard } else { soft };
            add(&mut sets.count_limit, name, of(limits.count_hard(), limits.count()));
            add(&mut sets.bytes_limit, name, of(limits.bytes_hard(), limits.bytes()));
            if let Some(Ok(usage)) = &quota.usage {
                add(&mut sets.count_usage, name, usage.count());
                add(&mut sets.bytes_usage, name, usage.bytes());
            }
        }
        sets
    }
}

/// Adds a quota to the sum for its namespace. An unlimited quota, −1, changes nothing.
fn add(gauges: &mut BTreeMap<String, i64>, name: &str, value: i64) {
    match gauges.get_mut(name) {
        Some(sum) if *sum < 0 => *sum = value,
        Some(sum) => *sum = sum.saturating_add(value.max(0)),
        None => drop(gauges.insert(name.to_owned(), value)),
    }
}

impl Facts for ServerFactsView {
    fn serving(&self) -> Option<Mode> {
        self.0.serving()
    }

    fn server(&self) -> ServerFacts {
        let quotas = self.quotas();
        let shared = &self.0;
        let stats = &shared.counting.stats;
        let (fds_open, fds_max) = (descriptors::open(), descriptors::limit());
        let tree = shared.tree().read();
        ServerFacts {
            latency_min_ms: stats.latency().min(),
            latency_avg_ms: stats.latency().avg(),
            latency_max_ms: stats.latency().max(),
            packets_received: stats.packets_received.value(),
            packets_sent: stats.packets_sent.value(),
            connections: shared.conns().count(),
            tls_handshakes: shared.clients.tls_handshakes.load(Ordering::Relaxed),
            auth_failures: shared.clients.tls_failures.load(Ordering::Relaxed),
            plain_local: shared.clients.plain_local.load(Ordering::Relaxed),
            plain_remote: shared.clients.plain_remote.load(Ordering::Relaxed),
            certificate_seconds_left: certificate_seconds_left(shared),
            outstanding: shared.common.load.requests(),
            zxid: tree.last_zxid(),
            znodes: tree.znode_count() + 1,
            watches: tree.watch_count(),
            ephemerals: tree.ephemerals_count(),
            data_bytes: tree.approximate_data_size(),
            sessions: tree.sessions().len(),
            local_sessions: shared.counting.local_sessions.load(Ordering::Relaxed),
            uptime_ms: shared.uptime().as_millis() as u64,
            slow_syncs: stats.fsync_threshold_exceed_count.value(),
            connection_drop_probability: f64::from_bits(
                shared.counting.drop_probability.load(Ordering::Relaxed),
            ),
            response_sizes: stats.response_sizes(),
            fds_open,
            fds_max,
            quotas,
        }
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    fn connections(&self) -> Vec<ConnectionFacts> {
        self.0.conns().all().iter().map(|conn| connection(conn)).collect()
    }

    fn connection_buckets(&self) -> Vec<Bucket<ConnectionRef>> {
        let width = self.0.config.net.handshake_timeout.max(Duration::from_millis(1));
        let mut buckets: BTreeMap<u128, Vec<ConnectionRef>> = BTreeMap::new();
        for conn in self.0.conns().all() {
            let timeout =
                Duration::from_millis(conn.timeout_ms.load(Ordering::Relaxed).max(0) as u64);
            let end = (conn.heard() + timeout).as_millis() / width.as_millis() + 1;
            let session = conn.session().unwrap_or(SessionId::NONE);
            buckets.entry(end).or_default().push(ConnectionRef { remote: remote(&conn), session });
        }
        let at = |end: u128| Duration::from_millis((end * width.as_millis()) as u64);
        buckets
            .into_iter()
            .map(|(end, members)| Bucket { expires_ms: self.wall_ms(at(end)), members })
            .collect()
    }

    fn session_buckets(&self, local: bool) -> Vec<Bucket<SessionId>> {
        let mut buckets: BTreeMap<Duration, Vec<SessionId>> = BTreeMap::new();
        for session in
            self.0.counting.session_list.last().into_iter().filter(|it| it.local == local)
        {
            buckets.entry(session.deadline).or_default().push(session.id);
        }
        buckets
            .into_iter()
            .map(|(at, members)| Bucket { expires_ms: self.wall_ms(at), members })
            .collect()
    }

    fn ephemeral_sessions(&self) -> usize {
        self.0.tree().read().sessions_with_ephemerals().len()
    }

    fn ephemerals(&self, from: Cursor, out: &mut Vec<(SessionId, String)>) -> Option<Cursor> {
        // A page is one session, so its ephemerals stay together. The cursor is the smallest id of
        // the next session.
        let tree = self.0.tree().read();
        let session = tree.session_with_ephemerals(session_at(from))?;
        out.extend(tree.ephemerals(session).map(|path| (session, path)));
        let next = cursor_of(session).checked_add(1)?;
        tree.session_with_ephemerals(session_at(next)).map(|_| next)
    }

    fn watch_summary(&self) -> WatchSummary {
        let mut summary = WatchSummary { connections: 0, paths: 0, watches: 0 };
        let mut watchers = BTreeSet::new();
        for part in 0..Tree::WATCH_PARTS {
            let (paths, watches) = self.0.tree().read().count_data_watches(part, &mut watchers);
            summary.paths += paths;
            summary.watches += watches;
        }
        summary.connections = watchers.len();
        summary
    }

    fn watches_by_path(&self, from: Cursor, out: &mut Vec<Watcher>) -> Option<Cursor> {
        // A page is a part of the table. Each part contains all watches of its paths, and no watch
        // appears twice.
        let part = usize::try_from(from).ok().filter(|part| *part < Tree::WATCH_PARTS)?;
        let watches = self.0.tree().read().data_watches_in(part);
        for (path, ids) in watches {
            let sessions = ids.into_iter().filter_map(|id| self.session_of(id));
            out.extend(sessions.map(|session| Watcher { path: path.clone(), session }));
        }
        out.sort_unstable_by(|a, b| (&a.path, a.session).cmp(&(&b.path, b.session)));
        (part + 1 < Tree::WATCH_PARTS).then_some(from + 1)
    }

    fn watches_by_session(&self, from: Cursor, out: &mut Vec<Watcher>) -> Option<Cursor> {
        // A page is one connection.
        for slot in u32::try_from(from).ok()?..self.0.conns().slots() {
            let Some(session) = self.session_of(WatcherId(slot)) else { continue };
            let mut paths = self.0.tree().read().data_watches_of(WatcherId(slot));
            paths.sort_unstable();
            out.extend(paths.into_iter().map(|path| Watcher { path, session }));
            if !out.is_empty() {
                return Some(Cursor::from(slot) + 1);
            }
        }
        None
    }

    fn digests(&self) -> Vec<(Zxid, i64)> {
        let tree = self.0.tree().read();
        let mut digests: Vec<_> = tree.digest_history().collect();
        // So the members of an idle ensemble have one in common.
        let newest = tree.newest_digest();
        digests.extend(newest.filter(|newest| digests.last() != Some(newest)));
        digests
    }

    fn dirs(&self) -> DirSizes {
        let sizes = self.0.disk.snapshots.sizes().unwrap_or_default();
        DirSizes { data_bytes: sizes.snapshots, log_bytes: sizes.logs }
    }

    fn conf(&self) -> ConfFacts {
        ConfFacts::new(&self.0.config, *self.0.clients.client_port.lock(), self.dirs())
    }

    fn member(&self) -> Option<MemberFacts> {
        let ensemble = self.0.config.ensemble.as_ref()?;
        let members = self.0.ensemble.members.lock().clone()?;
        let me = members.member(ensemble.me);
        let addresses = me.map_or(&[][..], |me| &me.addresses);
        let Status { leading, observers, master, lacks, doubted, .. } =
            self.0.counting.status.lock().clone();
        let now = self.0.clock.monotonic();
        let leader = |leading: Leading| LeaderFacts {
            learners: leading.learners,
            pending_syncs: leading.pending_syncs,
            uptime_ms: now.saturating_sub(leading.since).as_millis() as u64,
            proposals: leading.proposals,
        };
        Some(MemberFacts {
            me: ensemble.me,
            observes: members.is_observer(ensemble.me),
            init_ticks: ensemble.init_ticks,
            sync_ticks: ensemble.sync_ticks,
            election_ports: distinct(addresses.iter().map(|at| at.election_port)),
            learner_ports: distinct(addresses.iter().map(|at| at.quorum_port)),
            membership: members.to_string(),
            voters: members.voters().count(),
            local_sessions: ensemble.local_sessions,
            leader: leading.filter(|_| self.serving() == Some(Mode::Leader)).map(leader),
            observers,
            master,
            lacks: match lacks {
                Some(lacks) => in_words(lacks, &self.0.disk.repair.lock()),
                None => doubted.map(doubted_in_words).unwrap_or_default(),
            },
        })
    }

    fn identity(&self) -> Identity {
        self.0.common.identity()
    }

    fn global_sessions(&self) -> Vec<(SessionId, i32)> {
        let mut sessions: Vec<(SessionId, i32)> = self.0.tree().read().sessions().collect();
        sessions.sort_unstable();
        sessions
    }

    fn environment(&self) -> Environment {
        Environment::collect()
    }

    fn trace_mask(&self) -> i64 {
        self.0.clients.trace_mask.load(Ordering::Relaxed)
    }
}

/// The smallest session id at or after the cursor. Cursors follow the order of ids, from 0.
fn session_at(cursor: Cursor) -> SessionId {
    SessionId((cursor ^ SIGN) as i64)
}

fn cursor_of(session: SessionId) -> Cursor {
    session.0 as u64 ^ SIGN
}

/// Ids are signed; cursors are not.
const SIGN: u64 = 1 << 63;

fn remote(conn: &Conn) -> std::net::SocketAddr {
    std::net::SocketAddr::new(conn.address, conn.side.peer.port())
}

fn connection(conn: &Conn) -> ConnectionFacts {
    let stats = &conn.side.stats;
    let blocked = conn.outbox.lock().waiting() > 0;
    let answers = stats.latencies.load(Ordering::Relaxed);
    let least = stats.latency_ms_min.load(Ordering::Relaxed);
    let session = conn.session().map(|id| SessionFacts {
        id,
        last_op: last_op(stats.last_op.load(Ordering::Relaxed)),
        established_ms: conn.side.established_ms,
        timeout_ms: conn.timeout_ms.load(Ordering::Relaxed).max(0) as u64,
        last_xid: match stats.last_cxid.load(Ordering::Relaxed) {
            xid if xid >= 0 => Some(Xid(xid as i32)),
            _ => None,
        },
        last_zxid: Zxid(stats.last_zxid.load(Ordering::Relaxed)),
        last_response_ms: stats.last_response_ms.load(Ordering::Relaxed) as i64,
        latency_last_ms: stats.last_latency_ms.load(Ordering::Relaxed) as i64,
        latency_min_ms: if least == u64::MAX { 0 } else { least as i64 },
        latency_avg_ms: stats
            .latency_ms_sum
            .load(Ordering::Relaxed)
            .checked_div(answers)
            .unwrap_or(0) as i64,
        latency_max_ms: stats.latency_ms_max.load(Ordering::Relaxed) as i64,
    });
    ConnectionFacts {
        remote: remote(conn),
        is_secure: conn.side.is_secure,
        interest: if blocked { 5 } else { 1 },
        queued: conn.in_flight.load(Ordering::Relaxed).into(),
        received: stats.received.load(Ordering::Relaxed),
        sent: stats.sent.load(Ordering::Relaxed),
        session,
    }
}

/// The last operation as the original's four-letter code.
fn last_op(op: i32) -> &'static str {
    match OpCode(op) {
        OpCode::CREATE_SESSION => "SESS",
        OpCode::PING => "PING",
        OpCode::MULTI => "MULT",
        OpCode::MULTI_READ => "MLTR",
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => "CREA",
        OpCode::DELETE | OpCode::DELETE_CONTAINER => "DELE",
        OpCode::SET_DATA => "SETD",
        OpCode::RECONFIG => "RECO",
        OpCode::SET_ACL => "SETA",
        OpCode::CLOSE_SESSION => "CLOS",
        OpCode::SYNC => "SYNC",
        OpCode::CHECK => "CHEC",
        OpCode::EXISTS => "EXIS",
        OpCode::GET_DATA => "GETD",
        OpCode::SET_WATCHES => "SETW",
        OpCode::SET_WATCHES2 => "STW2",
        OpCode::ADD_WATCH => "ADDW",
        OpCode::GET_ACL => "GETA",
        OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => "GETC",
        OpCode::GET_ALL_CHILDREN_NUMBER => "GETACN",
        OpCode::CHECK_WATCHES => "CHKW",
        OpCode::REMOVE_WATCHES => "REMW",
        OpCode::WHO_AM_I => "HOMI",
        OpCode::GET_EPHEMERALS => "GETE",
        _ => "NA",
    }
}

/// Each of these ports is listed once.
fn distinct(ports: impl Iterator<Item = u16>) -> Vec<u16> {
    let mut once = Vec::new();
    for port in ports {
        if !once.contains(&port) {
            once.push(port);
        }
    }
    once
}
/// The time until the first certificate of any port expires.
fn certificate_seconds_left(shared: &Shared) -> Option<i64> {
    let of_clients = shared.clients.tls_port.get().map(|port| port.seconds_left());
    let of_servers = shared.ensemble.tls_port.get().map(|tls| tls.port().seconds_left());
    let over_http = [&shared.http.admin, &shared.http.metrics];
    let over_http = over_http.into_iter().filter_map(|port| port.get());
    let over_http = over_http.map(|tls| tls.port().seconds_left());
    of_clients.into_iter().chain(of_servers).chain(over_http).min()
}
