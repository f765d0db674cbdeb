//! The text of each word.
//!
//! Apart from values, the lines are byte for byte the original's, because monitors parse them with
//! regular expressions.

use std::fmt::{self, Write};

use zebu_engine::Mode;
use zebu_proto::SessionId;

use super::date::Date;
use super::facts::{Bucket, ConnectionFacts, Cursor, Facts, LeaderFacts, Watcher};
use super::{Effect, Whitelist, Word};
use crate::figures::{self, Figures};
use zebu_metrics::Visitor;

/// The answer to every word while the server does not serve clients.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// An answer in pieces. The caller asks for pieces until none is left, and then closes the
/// connection.
#[derive(Debug)]
pub struct Answer {
    word: Word,
    /// The mask of `stmk`.
    argument: i64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The word is refused: only this text is sent.
    Refused,
    /// Nothing is written yet.
    Start,
    /// Watches by path, and the path with the last heading.
    Paths(Cursor, Option<String>),
    /// Watches by session, and the session with the last heading.
    Sessions(Cursor, Option<SessionId>),
    /// Ephemerals by session, and the session with the last heading.
    Ephemerals(Cursor, Option<SessionId>),
    Done,
}

impl Answer {
    /// Begins an answer. Returns the effect of the word before the first piece of the answer.
    ///
    /// `argument` is the mask after `stmk`, and ignored otherwise.
    pub fn begin(
        word: Word,
        argument: i64,
        whitelist: &Whitelist,
        is_serving: bool,
    ) -> (Self, Effect) {
        if !whitelist.allows(word) {
            return (Self { word, argument, stage: Stage::Refused }, Effect::None);
        }
        let answer = Self { word, argument, stage: Stage::Start };
        let effect =
            if is_serving || word.works_always() { word.effect(argument) } else { Effect::None };
        (answer, effect)
    }

    /// Appends the next piece. Returns `false` if the answer is complete and nothing was appended.
    ///
    /// A piece has at most one page of facts. For a word without pages it is the whole answer.
    pub fn next(&mut self, facts: &dyn Facts, out: &mut String) -> bool {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Done => return false,
            Stage::Refused => {
                line(
                    out,
                    format_args!(
                        "{} is not executed because it is not in the whitelist.",
                        self.word.name()
                    ),
                );
            }
            Stage::Start => self.stage = self.start(facts, out),
            Stage::Paths(from, heading) => {
                let mut page = Vec::new();
                let next = facts.watches_by_path(from, &mut page);
                let heading = write_paths(&page, heading, out);
                self.stage = next_stage(next, out, |cursor| Stage::Paths(cursor, heading));
            }
            Stage::Sessions(from, heading) => {
                let mut page = Vec::new();
                let next = facts.watches_by_session(from, &mut page);
                let entries = page.into_iter().map(|watcher| (watcher.session, watcher.path));
                let heading = write_sessions(entries, heading, "", out);
                self.stage = next_stage(next, out, |cursor| Stage::Sessions(cursor, heading));
            }
            Stage::Ephemerals(from, heading) => {
                let mut page = Vec::new();
                let next = facts.ephemerals(from, &mut page);
                let heading = write_sessions(page.into_iter(), heading, ":", out);
                match next {
                    Some(cursor) => self.stage = Stage::Ephemerals(cursor, heading),
                    None => write_connection_buckets(facts, out),
                }
            }
        }
        true
    }

    fn start(&self, facts: &dyn Facts, out: &mut String) -> Stage {
        // The facts are read once for the whole answer, so no line shows a mode that has ended.
        let mode = match facts.serving() {
            Some(mode) => mode,
            // The answers to these words do not depend on the mode.
            None if self.word.works_always() => Mode::Standalone,
            None => {
                match self.word {
                    Word::Isro => out.push_str("null"),
                    Word::Hash => out.push_str(NOT_SERVING),
                    _ => line(out, format_args!("{NOT_SERVING}")),
                }
                return Stage::Done;
            }
        };
        match self.word {
            Word::Ruok => out.push_str("imok"),
            Word::Isro => out.push_str(if mode == Mode::ReadOnly { "ro" } else { "rw" }),
            Word::Gtmk => put(out, format_args!("{}", facts.trace_mask())),
            Word::Stmk => put(out, format_args!("{}", self.argument)),
            Word::Crst => line(out, format_args!("Connection stats reset.")),
            Word::Srst => line(out, format_args!("Server stats reset.")),
            Word::Conf => write_conf(facts, out),
            Word::Cons => {
                facts
                    .connections()
                    .iter()
                    .for_each(|connection| write_connection(connection, true, out));
                out.push('\n');
            }
            Word::Dirs => {
                let sizes = facts.dirs();
                line(out, format_args!("datadir_size: {}", sizes.data_bytes));
                line(out, format_args!("logdir_size: {}", sizes.log_bytes));
            }
            Word::Dump => {
                write_sessions_by_end(facts, out);
                return Stage::Ephemerals(0, None);
            }
            Word::Envi => {
                out.push_str("Environment:\n");
                for (key, value) in facts.environment().entries() {
                    line(out, format_args!("{key}={value}"));
                }
            }
            Word::Srvr | Word::Stat => write_stat(facts, mode, self.word == Word::Stat, out),
            Word::Wchs => {
                let summary = facts.watch_summary();
                line(
                    out,
                    format_args!(
                        "{} connections watching {} paths",
                        summary.connections, summary.paths
                    ),
                );
                line(out, format_args!("Total watches:{}", summary.watches));
            }
            Word::Wchp => return Stage::Paths(0, None),
            Word::Wchc => return Stage::Sessions(0, None),
            Word::Mntr => write_monitor(facts, mode, out),
            Word::Hash => {
                for (zxid, digest) in facts.digests() {
                    line(out, format_args!("{:x}: {digest}", zxid.0));
                }
            }
        }
        Stage::Done
    }
}

/// A whole answer at once, for tests and for callers without a slow reader.
pub fn text(word: Word, argument: i64, whitelist: &Whitelist, facts: &dyn Facts) -> String {
    let (mut answer, _) = Answer::begin(word, argument, whitelist, facts.serving().is_some());
    let mut out = String::new();
    while answer.next(facts, &mut out) {}
    out
}

fn put(out: &mut String, args: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(args);
}

fn line(out: &mut String, args: fmt::Arguments<'_>) {
    put(out, args);
    out.push('\n');
}

/// After a page of watches: the next one, or the empty line at the end.
fn next_stage(
    next: Option<Cursor>,
    out: &mut String,
    stage: impl FnOnce(Cursor) -> Stage,
) -> Stage {
    match next {
        Some(cursor) => stage(cursor),
        None => {
            out.push('\n');
            Stage::Done
        }
    }
}

/// One to four decimals, such as `0.0`, `1.5` and `1.8776`; never an exponent, never NaN.
fn decimal(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

fn write_paths(page: &[Watcher], mut heading: Option<String>, out: &mut String) -> Option<String> {
    for watcher in page {
        if heading.as_ref() != Some(&watcher.path) {
            line(out, format_args!("{}", watcher.path));
            heading = Some(watcher.path.clone());
        }
        line(out, format_args!("\t{}", watcher.session));
    }
    heading
}

fn write_sessions(
    page: impl Iterator<Item = (SessionId, String)>,
    mut heading: Option<SessionId>,
    after: &str,
    out: &mut String,
) -> Option<SessionId> {
    for (session, path) in page {
        if heading != Some(session) {
            line(out, format_args!("{session}{after}"));
            heading = Some(session);
        }
        line(out, format_args!("\t{path}"));
    }
    heading
}

fn write_conf(facts: &dyn Facts, out: &mut String) {
    let conf = facts.conf();
    let or_off = |number: Option<u32>| number.map_or(-1, i64::from);
    line(out, format_args!("clientPort={}", or_off(conf.client_port.map(u32::from))));
    line(out, format_args!("secureClientPort={}", or_off(conf.secure_client_port.map(u32::from))));
    line(out, format_args!("dataDir={}", conf.data_dir.display()));
    line(out, format_args!("dataDirSize={}", conf.sizes.data_bytes));
    line(out, format_args!("dataLogDir={}", conf.log_dir.display()));
    line(out, format_args!("dataLogSize={}", conf.sizes.log_bytes));
    line(out, format_args!("tickTime={}", conf.tick_ms));
    line(out, format_args!("maxClientCnxns={}", conf.connections_per_address));
    line(out, format_args!("minSessionTimeout={}", conf.session_timeout_min_ms));
    line(out, format_args!("maxSessionTimeout={}", conf.session_timeout_max_ms));
    line(out, format_args!("clientPortListenBacklog={}", or_off(conf.backlog)));
    let Some(member) = facts.member() else {
        return line(out, format_args!("serverId=0"));
    };
    let ports = |ports: &[u16]| {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        ports.join("|")
    };
    line(out, format_args!("serverId={}", member.me.0));
    line(out, format_args!("initLimit={}", member.init_ticks));
    line(out, format_args!("syncLimit={}", member.sync_ticks));
    line(out, format_args!("electionAlg=3"));
    line(out, format_args!("electionPort={}", ports(&member.election_ports)));
    line(out, format_args!("quorumPort={}", ports(&member.learner_ports)));
    line(out, format_args!("peerType={}", u8::from(member.observes)));
    line(out, format_args!("membership: "));
    out.push_str(&member.membership);
}

fn write_connection(connection: &ConnectionFacts, with_session: bool, out: &mut String) {
    let ConnectionFacts { remote, interest, queued, received, sent, session, .. } = connection;
    put(
        out,
        format_args!(" /{remote}[{interest:x}](queued={queued},recved={received},sent={sent}"),
    );
    if let Some(session) = session.as_ref().filter(|_| with_session) {
        put(
            out,
            format_args!(
                ",sid={},lop={},est={},to={}",
                session.id, session.last_op, session.established_ms, session.timeout_ms
            ),
        );
        if let Some(xid) = session.last_xid.filter(|xid| xid.0 >= 0) {
            put(out, format_args!(",lcxid={:#x}", xid.0));
        }
        put(
            out,
            format_args!(
                ",lzxid={:#x},lresp={},llat={},minlat={},avglat={},maxlat={}",
                session.last_zxid.0,
                session.last_response_ms,
                session.latency_last_ms,
                session.latency_min_ms,
                session.latency_avg_ms,
                session.latency_max_ms
            ),
        );
    }
    out.push_str(")\n");
}

fn write_bucket_heading<T>(what: &str, buckets: &[Bucket<T>], out: &mut String) {
    let members: usize = buckets.iter().map(|bucket| bucket.members.len()).sum();
    line(out, format_args!("{what} Sets ({})/({members}):", buckets.len()));
}

fn write_session_buckets(facts: &dyn Facts, local: bool, out: &mut String) {
    let buckets = facts.session_buckets(local);
    write_bucket_heading("Session", &buckets, out);
    for Bucket { expires_ms, members } in buckets {
        line(out, format_args!("{} expire at {}:", members.len(), Date(expires_ms)));
        for session in members {
            line(out, format_args!("\t{session}"));
        }
    }
}

fn write_sessions_by_end(facts: &dyn Facts, out: &mut String) {
    out.push_str("SessionTracker dump:\n");
    let member = facts.member();
    let local_sessions = member.as_ref().is_some_and(|member| member.local_sessions);
    if local_sessions {
        out.push_str("Local ");
        write_session_buckets(facts, true, out);
    }
    match member {
        // Only the leader knows when sessions expire, except for local ones.
        Some(member) if member.leader.is_none() => {
            let sessions = facts.global_sessions();
            line(out, format_args!("Global Sessions({}):", sessions.len()));
            for (session, timeout_ms) in sessions {
                line(out, format_args!("{session}\t{timeout_ms}ms"));
            }
        }
        _ => {
            if local_sessions {
                out.push_str("Global ");
            }
            write_session_buckets(facts, false, out);
        }
    }
    out.push_str("ephemeral nodes dump:\n");
    line(out, format_args!("Sessions with Ephemerals ({}):", facts.ephemeral_sessions()));
}

fn write_connection_buckets(facts: &dyn Facts, out: &mut String) {
    out.push_str("Connections dump:\n");
    let buckets = facts.connection_buckets();
    write_bucket_heading("Connections", &buckets, out);
    for bucket in buckets {
        line(out, format_args!("{} expire at {}:", bucket.members.len(), Date(bucket.expires_ms)));
        for connection in bucket.members {
            line(
                out,
                format_args!("\tip: /{} sessionId: {}", connection.remote, connection.session),
            );
        }
    }
}

fn write_stat(facts: &dyn Facts, mode: Mode, with_clients: bool, out: &mut String) {
    line(out, format_args!("Zookeeper version: {}", super::full_version()));
    if mode == Mode::ReadOnly {
        out.push_str("READ-ONLY mode; serving only read-only clients\n");
    }
    if with_clients {
        out.push_str("Clients:\n");
        facts.connections().iter().for_each(|connection| write_connection(connection, false, out));
        out.push('\n');
    }
    let server = facts.server();
    line(
        out,
        format_args!(
            "Latency min/avg/max: {}/{}/{}",
            server.latency_min_ms,
            decimal(server.latency_avg_ms),
            server.latency_max_ms
        ),
    );
    line(out, format_args!("Received: {}", server.packets_received));
    line(out, format_args!("Sent: {}", server.packets_sent));
    line(out, format_args!("Connections: {}", server.connections));
    line(out, format_args!("Outstanding: {}", server.outstanding));
    line(out, format_args!("Zxid: {:#x}", server.zxid.0));
    line(out, format_args!("Mode: {}", mode.name()));
    line(out, format_args!("Node count: {}", server.znodes));
    if let Some(LeaderFacts { proposals: sizes, .. }) = facts.member().and_then(|m| m.leader) {
        let (last, min, max) = (sizes.last, sizes.min, sizes.max);
        line(out, format_args!("Proposal sizes last/min/max: {last}/{min}/{max}"));
    }
}

/// Writes `zk_<name>\t<value>` lines.
struct Monitor<'a>(&'a mut String);

impl Visitor for Monitor<'_> {
    fn integer(&mut self, name: &str, value: i64) {
        line(self.0, format_args!("zk_{name}\t{value}"));
    }

    fn decimal(&mut self, name: &str, value: f64) {
        line(self.0, format_args!("zk_{name}\t{}", decimal(value)));
    }
}

impl Figures for Monitor<'_> {
    fn text(&mut self, name: &str, value: &str) {
        line(self.0, format_args!("zk_{name}\t{value}"));
    }

    fn keyed(&mut self, name: &str, key: &str, value: i64) {
        self.integer(&format!("{key}_{name}"), value);
    }
}

fn write_monitor(facts: &dyn Facts, mode: Mode, out: &mut String) {
    let mut monitor = Monitor(out);
    figures::gauges(facts, Some(mode), &mut monitor);
    facts.metrics().visit(&mut monitor);
}
