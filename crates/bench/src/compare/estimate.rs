//! The expected duration of a comparison, shown before it begins. It is computed from the requested
//! windows, and from known speeds of each kind of server where a figure is a duration.

use super::CompareArgs;
use super::args::Suite;
use crate::contestant::Contestant;
use crate::suite::protections;

/// The approximate speed of a kind of server, on two cores.
struct Pace {
    /// Seconds to start a process until it serves, and to stop it.
    start: f64,
    /// Seconds until an ensemble serves.
    ensemble: f64,
    /// Creates per second.
    creates: f64,
    /// Znodes that a start loads per second.
    loads: f64,
    /// Watches set per second.
    watches: f64,
    /// Sessions opened per second.
    sessions: f64,
    /// Seconds of a failover, and of the server's return.
    fault: f64,
}

impl Pace {
    fn of(contestant: &Contestant) -> Self {
        match contestant {
            Contestant::Zebu { .. } | Contestant::Previous { .. } => Self {
                start: 0.2,
                ensemble: 1.0,
                creates: 150e3,
                loads: 1e6,
                watches: 800e3,
                sessions: 10e3,
                fault: 3.0,
            },
            Contestant::Java { .. } => Self {
                start: 2.0,
                ensemble: 4.0,
                creates: 28e3,
                loads: 200e3,
                watches: 80e3,
                sessions: 5e3,
                fault: 5.0,
            },
            Contestant::Echo | Contestant::Durable => Self {
                start: 0.3,
                ensemble: 0.0,
                creates: 1e6,
                loads: 1e6,
                watches: 2e6,
                sessions: 10e3,
                fault: 0.0,
            },
        }
    }
}

/// A line about the duration of everything and of each suite.
pub(super) fn describe(args: &CompareArgs, suites: &[Suite], contestants: &[Contestant]) -> String {
    let each: Vec<(Suite, f64)> = suites
        .iter()
        .map(|&suite| {
            let taking_part = contestants.iter().filter(|contestant| suite.suits(contestant));
            let sizes = args.sizes.iter().map(|&size| args.sized(suite, Some(size)));
            let sizes = if args.sizes.is_empty() { vec![args.clone()] } else { sizes.collect() };
            let one =
                |contestant| sizes.iter().map(|args| seconds(args, suite, contestant)).sum::<f64>();
            let once: f64 = taking_part.map(one).sum();
            (suite, once * args.rounds as f64)
        })
        .collect();
    let all = each.iter().map(|(_, seconds)| seconds).sum();
    let each = each.iter().map(|(suite, seconds)| format!("{} {}", suite.name(), time(*seconds)));
    let each = each.collect::<Vec<_>>().join(", ");
    let limit = args.minutes * 60.0;
    let cut = if all > limit {
        format!("\nwarning: --minutes {} may end it before", args.minutes)
    } else {
        String::new()
    };
    format!("about {} on a quiet machine: {each}{cut}", time(all))
}

/// `40 s`, `12 min`.
fn time(seconds: f64) -> String {
    match seconds {
        few if few < 90.0 => format!("{few:.0} s"),
        many => format!("{:.0} min", many / 60.0),
    }
}

/// The duration of one round of one suite with one server.
fn seconds(args: &CompareArgs, suite: Suite, contestant: &Contestant) -> f64 {
    let pace = Pace::of(contestant);
    let window = args.seconds + args.warmup + 0.1;
    let depths = args.depths.len() as f64;
    let sessions = args.sessions as f64 / pace.sessions;
    let has_process = !contestant.is_bound();
    let warm = if has_process { args.server_warmup + 0.5 } else { 0.2 };
    match suite {
        Suite::All => 0.0,
        Suite::Pipeline => {
            pace.start + warm + 2.0 * depths * args.connections.len() as f64 * window
        }
        Suite::Tls => {
            let points = 2.0 * depths * args.connections.len() as f64;
            pace.start + 2.0 * warm + args.seconds + points * window
        }
        Suite::Latency => {
            let open = 2.0 * args.rates.len() as f64 * (args.rate_seconds + args.warmup + 0.1);
            let one = pace.start + warm + 2.0 * window + open;
            if has_process { one + pace.ensemble + warm + open } else { one }
        }
        Suite::Writes => {
            let points = 8.0 * depths * args.connections.len() as f64;
            pace.start + pace.ensemble + 2.0 * (warm + points * window)
        }
        Suite::Neighbours => {
            let watchers = args.fanout as f64 / pace.sessions + window;
            // The sessions live for four seconds, and the expiry is measured for four more.
            let expiry = sessions + args.sessions as f64 / pace.creates + 8.0;
            let listed = args.listed as f64 / pace.creates;
            let beside_lists = pace.start + warm + listed + 4.0 * (4.0 + args.warmup + 0.1);
            pace.start + warm + 2.0 * (2.0 * window + watchers + expiry) + beside_lists
        }
        Suite::Admin => {
            let windows = 6.0 * (args.admin_seconds + args.warmup + 0.1);
            2.0 * (pace.start + warm + args.count as f64 / pace.creates) + windows
        }
        Suite::Cores => args.cores.len() as f64 * (pace.start + warm + 4.0 * window),
        Suite::Znodes => {
            let count = args.count as f64;
            let load = pace.start + count / pace.creates;
            let again = 2.0 * (pace.start + count / pace.loads) + 3.0;
            let snapshots = warm + args.snapshot_seconds + 1.0;
            if has_process { load + again + snapshots } else { load }
        }
        Suite::Watches => {
            let changes = 2.0 * args.repeats as f64 * 0.1;
            pace.start
                + args.count as f64 / pace.watches
                + 2.0 * args.fanout as f64 / pace.sessions
                + changes
        }
        Suite::Log => {
            let count = args.transactions as f64;
            2.0 * pace.start + count / pace.creates + count / pace.loads
        }
        Suite::Sessions => {
            let hold = if has_process { args.hold().as_secs_f64() } else { 0.0 };
            pace.start + 2.0 * sessions + hold
        }
        Suite::Ensemble => pace.ensemble + warm + 4.0 * depths * window,
        Suite::Failover => {
            // The others give up a paused leader after the sync limit.
            let silence = f64::from(args.tick * args.sync_limit) / 1e3;
            pace.ensemble + args.faults as f64 * (2.0 * pace.fault + silence)
        }
        Suite::Learners => {
            let members = 3.0 + args.observers as f64;
            pace.ensemble + members * pace.start + warm + 2.0 * window + 1.0
        }
        Suite::Rejoin => {
            let count = args.rejoin_count as f64;
            // Three servers write the znodes to one disk, and then one of them returns three times.
            pace.ensemble + 3.0 * count / pace.creates + 3.0 * pace.fault + count / pace.loads
        }
        Suite::Moving => pace.ensemble + pace.fault + 3.0 * sessions,
        Suite::Protections => 2.0 * (pace.start + warm) + protections::seconds(args),
    }
}
