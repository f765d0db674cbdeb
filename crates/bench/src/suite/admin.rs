//! Operators: the latency of clients with one request each in flight, with and without requests to
//! the HTTP server of a server with many znodes, sessions and watches.
//!
//! The same requests to a second server, which has no clients, show what belongs to the machine:
//! both servers and the operators share its processors.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::contestant::Running;
use crate::load::{LoadSpec, measure};
use crate::suite::{ANSWER_LIMIT, ROOT, client, mixed_load, pipeline, warm_up, znodes};
use crate::tally::Kind;

/// Clients that wait for each answer before the next request.
const CLIENTS: usize = 4;
/// Connections that send HTTP requests.
const ASKERS: u32 = 4;
/// The requested paths, in turn: the commands of monitoring and of operators. `snapshot` and
/// `restore` have their own limits.
const PATHS: [&str; 16] = [
    "/commands/monitor",
    "/commands/stats",
    "/commands/connections",
    "/commands/dump",
    "/commands/watches",
    "/commands/watches_by_path",
    "/commands/watch_summary",
    "/commands/configuration",
    "/commands/hash",
    "/commands/dirs",
    "/commands/zabstate",
    "/commands/last_snapshot",
    "/commands/server_stats",
    "/jmx",
    "/jmx/connections",
    "/health/ready",
];

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (running, admin) = start(bout, "measured")?;
    let (other, other_admin) = start(bout, "other")?;
    let group = "times the latency without operators";
    for (op, kind) in [("get", Kind::Read), ("set", Kind::Write)] {
        let alone = look(bout, &running, kind, None, &format!("{op}, no operators"), sheet)?;
        let asked = format!("{op}, {} admin requests/s", number(bout.args.admin_rate));
        for (name, at) in [(format!("{asked} to another server"), other_admin), (asked, admin)] {
            let beside = look(bout, &running, kind, Some(at), &name, sheet)?;
            for (quantile, index) in [("p50", 0), ("p99", 1)] {
                let times = beside[index] / alone[index];
                progress(&format!("  {name}: {quantile} {} times", number(times)));
                sheet.put(group, format!("{name}, {quantile}"), Better::Lower, times);
            }
        }
    }
    running.stop()?;
    other.stop()?;
    Ok(())
}

/// Starts a server with many znodes and an HTTP server, whose address is the second value.
fn start(bout: &Bout<'_>, name: &str) -> anyhow::Result<(Running, SocketAddr)> {
    let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    let admin = held.local_addr()?;
    drop(held);
    let lines = [
        "admin.enableServer=true".to_owned(),
        format!("admin.serverAddress={}", admin.ip()),
        format!("admin.serverPort={}", admin.port()),
    ];
    let dir = bout.dir.join(name);
    fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
    let (running, _) = bout.within(&dir).start_with("/", &lines)?;
    client(&running)?.ensure(ROOT)?;
    znodes::fill(running.address, bout.args.count, bout.args.size)?;
    warm_up(bout, &[running.address], running.process().as_slice())?;
    for path in PATHS {
        ask(admin, path).with_context(|| format!("ask for {path}"))?;
    }
    Ok((running, admin))
}

/// The median and the 99th percentile of the clients' latency in µs, while HTTP requests go to an
/// address.
fn look(
    bout: &Bout<'_>,
    running: &Running,
    kind: Kind,
    admin: Option<SocketAddr>,
    name: &str,
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<[f64; 2]> {
    let spec = LoadSpec {
        read_percent: if kind == Kind::Read { 100 } else { 0 },
        connections: CLIENTS,
        depth: 1,
        seconds: bout.args.admin_seconds,
        ..mixed_load(bout)
    };
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let (result, took) = thread::scope(|scope| {
        let askers = admin.map_or(0, |_| ASKERS);
        let askers: Vec<_> = admin
            .iter()
            .flat_map(|&at| (0..askers).map(move |first| (at, first)))
            .map(|(at, first)| {
                let (is_over, asked) = (&is_over, &asked);
                let rate = bout.args.admin_rate / f64::from(ASKERS);
                scope.spawn(move || asks(at, first, rate, is_over, asked))
            })
            .collect();
        let start = Instant::now();
        let result = measure(&[running.address], running.process().as_slice(), &spec);
        let took = start.elapsed();
        is_over.store(true, Ordering::Relaxed);
        for asker in askers {
            asker.join().map_err(|_| anyhow::anyhow!("an operator panicked"))??;
        }
        anyhow::Ok((result?, took))
    })?;
    if admin.is_some() {
        let rate = asked.load(Ordering::Relaxed) as f64 / took.as_secs_f64();
        sheet.put("admin requests/s", name.to_owned(), Better::Higher, rate);
        ensure!(rate > 0.5 * bout.args.admin_rate, "only {} admin requests/s", number(rate));
    }
    pipeline::put(sheet, name, &result);
    let latency = &result.tally.total().latency;
    Ok([0.5, 0.99].map(|quantile| latency.value_at_quantile(quantile) as f64 / 1e3))
}

/// Sends requests at equal intervals, whatever the server does.
fn asks(
    admin: SocketAddr,
    first: u32,
    rate: f64,
    is_over: &AtomicBool,
    asked: &AtomicU64,
) -> anyhow::Result<()> {
    let interval = Duration::from_secs_f64(1.0 / rate);
    let mut due = Instant::now() + interval * first / ASKERS;
    // Each connection begins with another path, so different paths are requested at a time.
    let from = first as usize * PATHS.len() / ASKERS as usize;
    for path in PATHS.iter().cycle().skip(from) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due += interval;
        ask(admin, path).with_context(|| format!("ask for {path}"))?;
        asked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Sends one request on its own connection, as probes and scripts do.
fn ask(admin: SocketAddr, path: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect_timeout(&admin, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = String::from_utf8_lossy(&answer[..answer.len().min(80)]).into_owned();
    let status = head.lines().next().unwrap_or_default().to_owned();
    ensure!(status.contains(" 200"), "the HTTP server answers {status:?}");
    Ok(())
}
