//! Check `clocks`: this machine's clock is synchronized, and the clocks of the other members differ
//! from it only little.
//!
//! The skew is known as an interval. The word `cons` shows when a session connected, in
//! milliseconds of that server's clock; the `Date` header of an HTTP answer has whole seconds.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zebu_proto::ServerId;

use super::finding::{Check, Finding, Findings};

/// A larger skew is a warning: the servers' logs cannot be put in order.
const SKEW_WARNING_MS: i64 = 1_000;
/// A larger skew is an error: TTL znodes, Kerberos tickets and new certificates fail.
const SKEW_ERROR_MS: i64 = 60_000;
/// The time limit for a program that reports the synchronization.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(2);

/// Whether a program synchronizes this machine's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Synchronized {
    Yes,
    No(&'static str),
    /// No program on this machine can tell.
    Unknown,
}

/// The bounds of how far another clock is ahead of this one, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skew {
    pub(super) least_ms: i64,
    pub(super) most_ms: i64,
}

impl Skew {
    /// Computes the bounds from a time of the other clock that was read between two times of this
    /// one. `resolution_ms`: that of the other clock.
    pub(super) fn between(
        before_ms: i64,
        other_ms: i64,
        after_ms: i64,
        resolution_ms: i64,
    ) -> Self {
        Self { least_ms: other_ms - after_ms, most_ms: other_ms + resolution_ms - before_ms }
    }

    /// The smallest distance that is certain.
    fn certain_ms(self) -> i64 {
        match (self.least_ms, self.most_ms) {
            (least, _) if least > 0 => least,
            (_, most) if most < 0 => -most,
            _ => 0,
        }
    }
}

/// The time of a `Date` line, in milliseconds since 1970. Source: RFC 9110, section 5.6.7.
pub(super) fn parse_date(date: &str) -> Option<i64> {
    jiff::fmt::rfc2822::parse(date).ok().map(|time| time.timestamp().as_millisecond())
}

/// Asks systemd-timedated, then chrony.
pub(super) fn synchronized() -> Synchronized {
    if let Some(answer) = ask("timedatectl", &["show", "--property=NTPSynchronized", "--value"]) {
        match answer.trim() {
            "yes" => return Synchronized::Yes,
            "no" => return Synchronized::No("timedatectl says that the clock is not synchronized"),
            _ => {}
        }
    }
    match ask("chronyc", &["-n", "tracking"]) {
        Some(answer) => of_chrony(&answer),
        None => Synchronized::Unknown,
    }
}

fn of_chrony(answer: &str) -> Synchronized {
    match answer.lines().find_map(|line| line.strip_prefix("Leap status")) {
        Some(status) if status.contains("Not synchronised") => {
            Synchronized::No("chronyc says that the clock is not synchronized")
        }
        Some(_) => Synchronized::Yes,
        None => Synchronized::Unknown,
    }
}

/// The output of a program; `None` if the program does not exist, fails, or takes too long.
fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let deadline = Instant::now() + PROGRAM_TIME_MAX;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                child.kill().ok();
                child.wait().ok();
                return None;
            }
        }
    }
    // The answer is a few lines, which the pipe holds.
    let output = child.wait_with_output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Checks the clocks. `now`: the time of this machine.
pub(super) fn judge(
    synchronized: &Synchronized,
    now: Timestamp,
    skews: &[(ServerId, Skew)],
) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Clocks);
    match synchronized {
        Synchronized::Yes => {}
        Synchronized::No(text) => {
            findings.warning(*text, "run chrony, ntpd or systemd-timesyncd on every member");
        }
        Synchronized::Unknown => findings.info(
            "neither timedatectl nor chronyc can tell whether this clock is synchronized",
            "make sure that something keeps the clocks of all members right",
        ),
    }
    // This program has no earlier release.
    if now < Timestamp::constant(1_735_689_600, 0) {
        findings.error(format!("the clock of this machine says {now}"), "set the clock");
    }
    for (server, skew) in skews {
        let certain = skew.certain_ms();
        let direction = if skew.least_ms > 0 { "ahead of" } else { "behind" };
        let text = format!(
            "the clock of server.{} is at least {certain} ms {direction} this machine's",
            server.0
        );
        let remedy = "synchronize the clocks of all members";
        if certain > SKEW_ERROR_MS {
            findings.error(text, remedy);
        } else if certain > SKEW_WARNING_MS {
            findings.warning(text, remedy);
        }
    }
    findings.found
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn worst(state: Synchronized, skew: Skew) -> Option<Severity> {
        let findings = judge(&state, now(), &[(ServerId(2), skew)]);
        findings.iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn clocks_that_agree_are_fine() {
        assert_eq!(worst(Synchronized::Yes, Skew::between(1_000, 1_001, 1_002, 1)), None);
        // A slow answer makes the interval wide, but is no fault.
        assert_eq!(worst(Synchronized::Yes, Skew::between(0, 90_000, 100_000, 1_000)), None);
        assert_eq!(worst(Synchronized::Yes, Skew { least_ms: 1_000, most_ms: 1_001 }), None);
    }

    #[test]
    fn clocks_that_differ_are_found() {
        let skew = |other| Skew::between(1_000_000, other, 1_000_010, 1);
        let state = || Synchronized::Yes;
        assert_eq!(worst(state(), skew(1_001_100)), Some(Severity::Warning));
        assert_eq!(worst(state(), skew(998_900)), Some(Severity::Warning));
        assert_eq!(worst(state(), skew(1_070_000)), Some(Severity::Error));
        assert_eq!(worst(state(), skew(930_000)), Some(Severity::Error));
        let none = Skew { least_ms: 0, most_ms: 0 };
        assert_eq!(worst(Synchronized::No("x"), none), Some(Severity::Warning));
        assert_eq!(worst(Synchronized::Unknown, none), Some(Severity::Info));
        let lost = judge(&Synchronized::Yes, Timestamp::UNIX_EPOCH, &[]);
        assert_eq!(lost[0].severity, Severity::Error);
    }

    #[test]
    fn dates_and_answers_are_read() {
        assert_eq!(parse_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777_000));
        assert_eq!(parse_date("yesterday"), None);
        assert_eq!(of_chrony("Leap status     : Normal\n"), Synchronized::Yes);
        assert!(matches!(of_chrony("Leap status     : Not synchronised\n"), Synchronized::No(_)));
        assert_eq!(of_chrony("506 Cannot talk to daemon\n"), Synchronized::Unknown);
        assert_eq!(ask("no-such-program-anywhere", &[]), None);
    }
}
