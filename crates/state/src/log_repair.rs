//! Decides how a member repairs its damaged logs without an operator: which transactions it
//! requests from which member, and when a log is whole.
//!
//! It repairs one log at a time, oldest first, so memory holds at most the missing part of one log.
//! It asks the members in turn, and begins each round with another member. The first version of a
//! record is kept until the whole log is compared with its sidecar. The driver asks, reads and
//! writes.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use zebu_proto::quorum::{MISSING_MAX, Missing};
use zebu_proto::{ServerId, Zxid};
use zebu_store::log_repair::{DamagedLog, Repaired, zxid_of};

/// The pause after the first round without success; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The damaged logs of a member.
#[derive(Debug)]
pub struct LogRepair {
    /// The logs that are not whole yet; the first one is being repaired.
    damaged_logs: VecDeque<DamagedLog>,
    repaired: usize,
    rounds: usize,
    /// The members to ask in this round, and later.
    queue: VecDeque<ServerId>,
    asked: Option<Asked>,
    /// The missing transactions at the beginning of this round.
    lacked: u64,
    pause: Duration,
    /// The earliest time of the next round.
    rest_until: Duration,
}

/// A member that answers.
#[derive(Clone, Copy, Debug)]
struct Asked {
    server: ServerId,
    /// It has answered up to here.
    up_to: Option<Zxid>,
    /// The last record that it has sent.
    last: Option<Zxid>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask this member for these transactions. Report each record with [`LogRepair::received`],
    /// then the end with [`LogRepair::answered`].
    Ask(ServerId, Vec<Missing>),
    /// Write the log of [`LogRepair::current`] and report [`LogRepair::written`].
    Write,
    /// Nothing before this time.
    Wait(Duration),
    /// Every log is whole: start again.
    Whole,
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The member has sent all its transactions.
    Complete,
    /// It has sent a part, and may have more.
    More,
    /// There was no answer, or an incomplete one.
    Failed,
}

/// The transactions that a log waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The log.
    pub log: PathBuf,
    /// The ranges with missing transactions.
    pub missing: Vec<Missing>,
}

impl LogRepair {
    /// Begins to repair these logs, oldest first. `None` if there are none.
    pub fn new(damaged_logs: Vec<DamagedLog>) -> Option<Self> {
        let damaged_logs = VecDeque::from(damaged_logs);
        (!damaged_logs.is_empty()).then_some(Self {
            damaged_logs,
            repaired: 0,
            rounds: 0,
            queue: VecDeque::new(),
            asked: None,
            lacked: u64::MAX,
            pause: PAUSE_MIN,
            rest_until: Duration::ZERO,
        })
    }

    /// The log that is being repaired.
    pub fn current(&self) -> Option<&DamagedLog> {
        self.damaged_logs.front()
    }

    /// The number of logs that are whole again.
    pub fn repaired(&self) -> usize {
        self.repaired
    }

    /// The transactions that it waits for, log by log.
    pub fn waiting(&self) -> Vec<Waiting> {
        let waits = |damaged: &DamagedLog| Waiting {
            log: damaged.path().to_owned(),
            missing: damaged.lacks(),
        };
        self.damaged_logs.iter().map(waits).collect()
    }

    /// The number of missing bytes in that log. No answer has more.
    pub fn missing_bytes(&self) -> usize {
        let missing = self.current().map_or(0, DamagedLog::missing_bytes);
        usize::try_from(missing).unwrap_or(usize::MAX)
    }

    /// The step at this time. `others`: all other members.
    pub fn next(&mut self, now: Duration, others: &[ServerId]) -> Next {
        let Some(damaged) = self.damaged_logs.front_mut() else { return Next::Whole };
        if damaged.is_filled() {
            return Next::Write;
        }
        let mut missing = damaged.missing();
        if missing.is_empty() {
            // There is a record for every transaction, but the result does not agree with the
            // sidecar.
            damaged.begin_anew();
            if damaged.missing().is_empty() {
                damaged.begin_anew();
            }
            missing = damaged.missing();
            (self.asked, self.lacked) = (None, u64::MAX);
            self.queue.clear();
        }
        if let Some(Asked { server, up_to, last }) = &mut self.asked {
            *last = None;
            let behind = behind(&missing, *up_to);
            if !behind.is_empty() {
                return Next::Ask(*server, behind);
            }
        }
        self.asked = None;
        if self.queue.is_empty() {
            if now < self.rest_until || others.is_empty() {
                return Next::Wait(self.rest_until.max(now + PAUSE_MIN / 10));
            }
            self.begin_round(now, others);
        }
        let Some(server) = self.queue.pop_front() else { return Next::Wait(self.rest_until) };
        self.asked = Some(Asked { server, up_to: None, last: None });
        let missing = self.damaged_logs.front().map(DamagedLog::missing).unwrap_or_default();
        Next::Ask(server, behind(&missing, None))
    }

    fn begin_round(&mut self, now: Duration, others: &[ServerId]) {
        let Some(damaged) = self.damaged_logs.front_mut() else { return };
        if damaged.missing_bytes() == self.lacked {
            // A record may be in a wrong place, and keep the right one out.
            damaged.begin_anew();
        }
        self.lacked = damaged.missing_bytes();
        let first = self.rounds % others.len();
        self.queue = others[first..].iter().chain(&others[..first]).copied().collect();
        self.rounds += 1;
        self.rest_until = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// The asked member has sent the body of a transaction.
    pub fn received(&mut self, body: &[u8]) {
        let Some(zxid) = zxid_of(body) else { return };
        if let (Some(asked), Some(damaged)) = (&mut self.asked, self.damaged_logs.front_mut()) {
            asked.last = asked.last.max(Some(zxid));
            damaged.offer(zxid, body);
        }
    }

    /// The asked member has ended its answer.
    pub fn answered(&mut self, how: Answered) {
        let Some(asked) = &mut self.asked else { return };
        // A member that announces more transactions without sending any is not asked again in this
        // round.
        match (how, asked.last) {
            (Answered::More, Some(last)) if asked.up_to < Some(last) => asked.up_to = Some(last),
            _ => self.asked = None,
        }
    }

    /// The log was written, or it did not agree with its sidecar.
    pub fn written(&mut self, what: Repaired) {
        match what {
            Repaired::Whole => {
                self.damaged_logs.pop_front();
                self.repaired += 1;
                self.pause = PAUSE_MIN;
                self.rest_until = Duration::ZERO;
            }
            Repaired::Differs => {
                if let Some(damaged) = self.damaged_logs.front_mut() {
                    damaged.begin_anew();
                }
            }
            Repaired::Replaced => self.damaged_logs.clear(),
        }
        self.queue.clear();
        self.asked = None;
        self.lacked = u64::MAX;
    }
}

/// The first of these ranges, from after a transaction on.
fn behind(missing: &[Missing], up_to: Option<Zxid>) -> Vec<Missing> {
    let from = up_to.unwrap_or(Zxid(i64::MIN));
    let cut = |it: &Missing| Missing { after: it.after.max(from), up_to: it.up_to };
    let all = missing.iter().map(cut).filter(|it| it.after < it.up_to);
    all.take(MISSING_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use zebu_store::vfs::MemVfs;
    use zebu_store::{Nothing, Options, Snapshots, Store};

    use super::*;

    const LOG: &str = "/d/version-2/log.1";
    const SECOND: Duration = Duration::from_secs(1);
    const OTHERS: [ServerId; 2] = [ServerId(2), ServerId(3)];

    fn body(zxid: i64) -> Vec<u8> {
        let mut body = vec![7; 100];
        body[12..20].copy_from_slice(&zxid.to_be_bytes());
        body
    }

    /// A member with 20 transactions of 113 bytes, of which these are damaged.
    fn member(damaged: &[usize]) -> (Snapshots, LogRepair) {
        let vfs = MemVfs::new(Path::new("/d"));
        let options = Options { prealloc_bytes: 0, member: true, ..Options::new("/d") };
        let open = || Store::open(Arc::new(vfs.clone()), options.clone()).unwrap();
        let mut store = open();
        store.recover(&mut Nothing).unwrap();
        let (mut log, snapshots) = store.split();
        let mut first = snapshots.begin(Zxid::ZERO).unwrap();
        first.sessions(&[]);
        first.acls::<Vec<zebu_proto::Acl>>(&[]);
        first.finish(None, None).unwrap();
        (1..=20).for_each(|zxid| log.append(Zxid(zxid), &body(zxid)));
        log.close().unwrap();
        drop(snapshots);
        let mut content = vfs.content(Path::new(LOG)).unwrap();
        damaged.iter().for_each(|number| content[16 + (number - 1) * 113 + 40] ^= 1);
        vfs.put(Path::new(LOG), &content);
        let mut store = open();
        let damage = store.recover(&mut Nothing).unwrap().damaged.unwrap();
        let snapshots = store.split().1;
        let damaged_logs = snapshots.logs().damaged_logs(&damage).unwrap();
        (snapshots, LogRepair::new(damaged_logs).unwrap())
    }

    fn missing(after: i64, up_to: i64) -> Missing {
        Missing { after: Zxid(after), up_to: Zxid(up_to) }
    }

    #[test]
    fn members_are_asked_in_turn_for_what_is_still_missing() {
        let (snapshots, mut repair) = member(&[3, 4, 9]);
        let all = vec![missing(2, 4), missing(8, 9)];
        assert_eq!(repair.waiting(), [Waiting { log: LOG.into(), missing: all.clone() }]);
        assert_eq!(repair.missing_bytes(), 3 * 113);
        assert_eq!(repair.next(SECOND, &OTHERS), Next::Ask(OTHERS[0], all));
        repair.received(&body(3));
        repair.received(b"no transaction");
        repair.answered(Answered::More);
        // The same member is asked for the transactions after that.
        let rest = vec![missing(3, 4), missing(8, 9)];
        assert_eq!(repair.next(SECOND, &OTHERS), Next::Ask(OTHERS[0], rest.clone()));
        repair.answered(Answered::More);
        // It has sent no transaction.
        assert_eq!(repair.next(SECOND, &OTHERS), Next::Ask(OTHERS[1], rest.clone()));
        repair.answered(Answered::Failed);
        let Next::Wait(until) = repair.next(SECOND, &OTHERS) else { panic!("too soon") };
        assert!(until > SECOND);
        // The next round begins with the other member.
        assert_eq!(repair.next(until, &OTHERS), Next::Ask(OTHERS[1], rest));
        repair.received(&body(9));
        repair.received(&body(4));
        repair.answered(Answered::Failed);
        assert_eq!(repair.next(until, &OTHERS), Next::Write);
        let what = snapshots.logs().repair(repair.current().unwrap()).unwrap();
        repair.written(what);
        assert_eq!((what, repair.repaired()), (Repaired::Whole, 1));
        assert_eq!(repair.next(until, &OTHERS), Next::Whole);
    }

    #[test]
    fn wrong_records_do_not_keep_the_right_ones_out() {
        let (snapshots, mut repair) = member(&[3]);
        assert!(matches!(repair.next(SECOND, &OTHERS), Next::Ask(..)));
        let mut wrong = body(3);
        wrong[50] ^= 1;
        repair.received(&wrong);
        repair.answered(Answered::Complete);
        assert_eq!(repair.next(SECOND, &OTHERS), Next::Write);
        let what = snapshots.logs().repair(repair.current().unwrap()).unwrap();
        assert_eq!(what, Repaired::Differs);
        repair.written(what);
        // Any of the own records may be the wrong one.
        let Next::Wait(until) = repair.next(SECOND, &OTHERS) else { panic!("at once") };
        let whole = vec![missing(0, 20)];
        assert_eq!(repair.next(until, &OTHERS), Next::Ask(OTHERS[1], whole));
        (1..=20).for_each(|zxid| repair.received(&body(zxid)));
        repair.answered(Answered::Complete);
        assert_eq!(repair.next(until, &OTHERS), Next::Write);
        let what = snapshots.logs().repair(repair.current().unwrap()).unwrap();
        assert_eq!(what, Repaired::Whole);
    }

    #[test]
    fn records_that_do_not_fit_are_given_up() {
        let (_snapshots, mut repair) = member(&[3]);
        assert!(matches!(repair.next(SECOND, &OTHERS), Next::Ask(..)));
        repair.received(&body(3)[..90]);
        repair.answered(Answered::More);
        // Nothing else can be missing there, so any of the own records may be the wrong one.
        let Next::Wait(until) = repair.next(SECOND, &OTHERS) else { panic!("at once") };
        assert_eq!(repair.next(until, &OTHERS), Next::Ask(OTHERS[1], vec![missing(0, 20)]));
    }

    #[test]
    fn what_does_not_fit_is_given_up_after_a_round_in_vain() {
        let (_snapshots, mut repair) = member(&[3, 4]);
        let mut now = SECOND;
        let mut asked = Vec::new();
        for _ in 0..12 {
            match repair.next(now, &OTHERS) {
                Next::Ask(_, missing) => {
                    asked.push(missing);
                    // A shorter one, beside which there is no room for both.
                    repair.received(&body(3)[..90]);
                    repair.answered(Answered::Complete);
                }
                Next::Wait(until) => now = until,
                other => panic!("{other:?}"),
            }
        }
        assert!(asked.contains(&vec![missing(2, 4)]) && asked.contains(&vec![missing(3, 4)]));
        assert!(asked.contains(&vec![missing(0, 20)]), "{asked:?}");
        assert_eq!(repair.waiting()[0].missing, [missing(2, 4)]);
        // There is no member to ask.
        assert!(matches!(repair.next(now + SECOND * 100, &[]), Next::Wait(_) | Next::Ask(..)));
    }
}
