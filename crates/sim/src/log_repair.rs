//! Members repair their damaged logs from each other, as with the real driver.

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zebu_jute::Encode as _;
use zebu_proto::quorum::{FirstMessage, Missing, RepairAnswer, RepairQuestion};
use zebu_proto::{ServerId, Zxid};
use zebu_state::{Answered, LogRepair, Next};
use zebu_store::log_repair::Repaired;

use crate::links::FIELD_BYTES_MAX;
use crate::members::machine;
use crate::plan::Left;
use crate::server::id_of;
use crate::world::{Happening, World};

impl World {
    /// A server whose start has found damage begins to repair its logs. A repaired server must have
    /// found no damage.
    pub(crate) fn begin_repair(&mut self, server: usize) {
        let knows = self.knows_repair(server);
        let is_rotten = self.checks.is_rotten(server);
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(damage) = process.damaged.take().filter(|_| knows) else {
            let scrubbed = process.snapshots.logs().scrub(&mut |_| true);
            let is_sound = scrubbed.is_ok_and(|pass| pass.damage.is_empty());
            let was_repaired = self.servers[server].repaired.take().is_some();
            if is_rotten && is_sound && was_repaired {
                self.checks.repaired(server);
            }
            return;
        };
        let number = process.number;
        let Ok(damaged_logs) = process.snapshots.logs().damaged_logs(&damage) else { return };
        process.repair = LogRepair::new(damaged_logs);
        let Some(repair) = &process.repair else { return };
        let first = repair.current().map(|damaged| damaged.first());
        if self.servers[server].repaired.take().is_some_and(|repaired| Some(repaired) == first) {
            let what = format!("F13: server {server} has repaired {first:?}, and it is damaged");
            return self.checks.found(what);
        }
        self.reached("logs to be repaired");
        let after = self.random.ms(1, 300);
        self.after(after, Happening::RepairLogs { server, process: number });
    }

    /// Whether a server knows the request for log records. Servers of the original do not.
    fn knows_repair(&self, server: usize) -> bool {
        !(self.plan.credulous && self.plan.seed >> server & 1 == 0)
    }

    /// Takes the next step of a repair.
    pub(crate) fn repair(&mut self, server: usize, number: u64) {
        let now = self.now;
        self.servers[server].disk.set_now(now);
        let Some(process) = self.process(server, number) else { return };
        if !process.snapshots.logs().is_untrusted() {
            // A leader has sent its tree.
            process.repair = None;
        }
        let others: Vec<ServerId> = process.said.committed().members().map(|it| it.id).collect();
        let others: Vec<ServerId> =
            others.into_iter().filter(|other| *other != id_of(server)).collect();
        let Some(repair) = &mut process.repair else { return };
        match repair.next(now, &others) {
            Next::Ask(to, missing) => {
                let to = machine(to);
                let after = self.delay_between(server, to);
                self.after(after, Happening::Asked { server, process: number, to, missing });
            }
            Next::Write => self.write_repaired(server, number),
            Next::Wait(until) => {
                let (least, most) = (Duration::from_millis(1), Duration::from_secs(1));
                let after = until.saturating_sub(now).clamp(least, most);
                self.after(after, Happening::RepairLogs { server, process: number });
            }
            Next::Whole => {
                self.reached("logs repaired");
                self.tell(|| format!("server {server} has repaired its logs and starts again"));
                let back = self.random.ms(1, 500);
                self.kill(server, 0, back);
            }
        }
    }

    fn write_repaired(&mut self, server: usize, number: u64) {
        let interrupted = !self.healing && self.random.one_in(6);
        let calls = self.random.below(6);
        if interrupted {
            self.servers[server].disk.stop_after(calls);
        }
        let Some(process) = self.process(server, number) else { return };
        let logs = process.snapshots.logs();
        let Some(repair) = &mut process.repair else { return };
        let Some(damaged) = repair.current() else { return };
        let first = damaged.first();
        let written = logs.repair(damaged);
        if interrupted {
            self.reached("repair interrupted");
            let left = Left::Some(self.random.next());
            let back = self.random.ms(1, 500);
            if self.random.one_in(2) {
                self.kill(server, 0, back);
            } else {
                self.power_cut(server, 0, left.crash(), back);
            }
            return;
        }
        match written {
            Err(failure) => self.stop(server, &failure),
            Ok(what) => {
                repair.written(what);
                if what == Repaired::Whole {
                    self.servers[server].repaired = Some(first);
                } else {
                    self.reached("repaired log refused");
                }
                self.after(
                    Duration::from_millis(1),
                    Happening::RepairLogs { server, process: number },
                );
            }
        }
    }

    /// A request for log records arrives, and the answer is sent back.
    pub(crate) fn asked_to_repair(
        &mut self,
        server: usize,
        number: u64,
        to: usize,
        missing: Vec<Missing>,
    ) {
        let question = RepairQuestion::new(id_of(server), missing);
        let mut bytes = BytesMut::from(&question.to_bytes()[..]);
        let Ok(Some(FirstMessage::Repair(question))) = FirstMessage::decode(&mut bytes) else {
            return self.checks.found("F13: a question cannot be read".to_owned());
        };
        let back = self.delay_between(to, server);
        let is_there = self.net.ways.reaches(server, to) && self.knows_repair(to);
        let is_up = self.servers[to].process.is_some() && self.servers[to].paused.is_none();
        let mut answer = Vec::new();
        if is_there && is_up {
            let most =
                if self.random.one_in(3) { self.random.between(1, 20) as usize } else { 10_000 };
            let logs = self.servers[to].process.as_ref().map(|process| process.snapshots.logs());
            let (mut count, mut end) = (0, RepairAnswer::End);
            let read = logs.map(|logs| {
                logs.whole(&question.missing, &mut |record| {
                    if count == most {
                        end = RepairAnswer::More;
                        return ControlFlow::Break(());
                    }
                    count += 1;
                    RepairAnswer::encode_record(record.body, &mut answer);
                    ControlFlow::Continue(())
                })
            });
            if read.is_some_and(|read| read.is_ok()) {
                answer.extend(end.to_bytes());
            }
            // Bytes of the answer may change, and the connection may end.
            let calm = self.healing || answer.is_empty();
            if !calm && self.plan.lies && self.random.one_in(4) {
                let at = self.random.below(answer.len() as u64) as usize;
                answer[at] ^= 1 << self.random.below(8);
                self.reached("answer changed");
            } else if !calm && self.random.one_in(10) {
                answer.truncate(self.random.below(answer.len() as u64) as usize);
                self.reached("answer cut");
            }
        }
        self.after(back, Happening::Answered { server, process: number, answer: answer.into() });
    }

    /// An answer arrives, or will never arrive.
    pub(crate) fn answered_to_repair(&mut self, server: usize, number: u64, answer: &Bytes) {
        let Some(process) = self.process(server, number) else { return };
        if let Some(repair) = &mut process.repair {
            let mut bytes = BytesMut::from(&answer[..]);
            let most = repair.missing_bytes().min(FIELD_BYTES_MAX);
            let how = loop {
                match RepairAnswer::decode(&mut bytes, most) {
                    Ok(Some(RepairAnswer::Record(body))) => repair.received(&body),
                    Ok(Some(RepairAnswer::End)) => break Answered::Complete,
                    Ok(Some(RepairAnswer::More)) => break Answered::More,
                    Ok(None) | Err(_) => break Answered::Failed,
                }
            };
            repair.answered(how);
        }
        self.repair(server, number);
    }

    /// Damages something other than a record at one of these servers that has damaged records.
    pub(crate) fn damage_one_twice(&mut self, seed: u64, mut servers: Vec<usize>) {
        let mut random = zebu_testkit::Random::stream(seed, 12);
        servers.retain(|server| self.checks.is_rotten(*server));
        if servers.is_empty() || random.one_in(3) {
            return;
        }
        let server = *random.pick(&servers);
        if let Some(what) = self.servers[server].disk.rot_around_records(random.next()) {
            self.reached("records and something else rotten");
            self.tell(|| format!("server {server}: {what}"));
        }
    }

    /// Damages records at all servers. Each record stays intact at one server that has it. Returns
    /// the number of damaged servers.
    pub(crate) fn damage_everywhere(&mut self, seed: u64) -> Option<usize> {
        let mut random = zebu_testkit::Random::stream(seed, 9);
        let mut holders: std::collections::BTreeMap<Zxid, Vec<usize>> =
            std::collections::BTreeMap::new();
        for (server, it) in self.servers.iter().enumerate() {
            for zxid in it.disk.durable_records() {
                holders.entry(zxid).or_default().push(server);
            }
        }
        let mut all: Vec<Vec<Zxid>> = vec![Vec::new(); self.servers.len()];
        let mut dispensable: Vec<std::collections::BTreeSet<Zxid>> =
            vec![std::collections::BTreeSet::new(); self.servers.len()];
        let rarity = random.between(2, 12);
        // Where one server keeps many records in a row, whole sectors of others are dispensable.
        let in_a_row: usize = *random.pick(&[1, 1, 40]);
        let mut kept = 0;
        for (number, (zxid, servers)) in holders.into_iter().enumerate() {
            let mut keeper = *random.pick(&servers);
            if number.is_multiple_of(in_a_row) {
                kept = keeper;
            } else if servers.contains(&kept) {
                keeper = kept;
            }
            for server in servers.into_iter().filter(|server| *server != keeper) {
                dispensable[server].insert(zxid);
                if random.one_in(rarity) {
                    all[server].push(zxid);
                }
            }
        }
        let mut damaged = 0;
        for (server, zxids) in all.iter().enumerate().filter(|(_, zxids)| !zxids.is_empty()) {
            let others = &dispensable[server];
            let disk = &self.servers[server].disk;
            if disk.damage_records(zxids, others, random.next()) > 0 {
                self.reached("records in unreadable sectors");
            }
            self.servers[server].repaired = None;
            let count = zxids.len();
            self.tell(|| format!("server {server}: {count} records damaged: {zxids:?}"));
            self.checks.rotted(server);
            damaged += 1;
        }
        (damaged > 0).then_some(damaged)
    }
}
