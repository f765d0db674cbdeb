//! Causes faults of an ensemble's members while clients write, and waits for the recovery.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Whom::{All, Follower, Leader, Minority};
use super::{Fault, PROGRESS, Whom};
use crate::dump::SUPER;
use crate::ensemble::{Cut, Ensemble, LONG, SHORT};
use crate::http;
use crate::load::Load;
use crate::network::Weather;
use crate::server::{Kind, PATIENCE, Server};
use crate::tamper::{Disk, Tampered};

/// The number of bursts of lost packets, and the length of each.
const BURSTS: usize = 12;
const BURST: Duration = Duration::from_millis(80);

/// Causes the fault, and waits until the ensemble has recovered; `false` if this machine cannot
/// cause it.
///
/// # Errors
/// The ensemble did not recover, or a client received a wrong answer.
pub fn inflict(ensemble: &mut Ensemble, load: &Load, fault: Fault) -> Result<bool> {
    let leader = ensemble.leader(None)?;
    let mut scene = Scene { ensemble, load, leader };
    if !scene.inflict(fault)? {
        return Ok(false);
    }
    scene.ensemble.wait_for_all()?;
    scene.goes_on()?;
    Ok(true)
}

/// How a process ends before it starts again.
#[derive(Clone, Copy)]
enum End {
    /// SIGKILL.
    Killed,
    /// SIGTERM.
    Stopped,
    /// SIGKILL, and its data are removed.
    Wiped,
}

/// Packets that are lost between members with a fault and the others.
#[derive(Clone, Copy)]
enum Lost {
    From,
    To,
    Both,
}

/// An ensemble with its leader, while clients write.
struct Scene<'a> {
    ensemble: &'a mut Ensemble,
    load: &'a Load,
    leader: usize,
}

impl Scene<'_> {
    /// Causes the fault, and ends it. Returns `false` if this machine cannot cause it.
    fn inflict(&mut self, fault: Fault) -> Result<bool> {
        let follower = self.after(1);
        match fault {
            Fault::Kill(whom) => self.restart(whom, End::Killed),
            Fault::Restart(whom) => self.restart(whom, End::Stopped),
            Fault::Wipe(whom) => self.restart(whom, End::Wiped),
            Fault::PowerCut(whom, how) => self.cut_power(whom, how),
            Fault::Pause(whom) => self.pause(whom, SHORT, false),
            Fault::LongPause(whom) => self.pause(whom, LONG, whom != All),
            Fault::Storm(whom) => self.storm(whom),

            Fault::Island(_)
            | Fault::Mute(_)
            | Fault::Deaf(_)
            | Fault::Link
            | Fault::Ring
            | Fault::Loss(_)
                if !self.ensemble.network().has_cuts() =>
            {
                Ok(false)
            }
            Fault::Island(whom) => self.separate(whom, Lost::Both),
            Fault::Mute(whom) => self.separate(whom, Lost::From),
            Fault::Deaf(whom) => self.separate(whom, Lost::To),
            Fault::Link => self.cut(&[(self.leader, follower), (follower, self.leader)]),
            Fault::Ring => self.cut(&self.outside_ring()),
            Fault::Loss(whom) => self.lose_packets(whom),
            Fault::Slow => self.weather(Weather::Slow(Duration::from_millis(30)), 1),
            Fault::Breaks => self.weather(Weather::Breaks, 5),
            Fault::ChangedVotes => self.change_votes(),

            Fault::FullDisk(whom) => self.fill_disk(whom),
            Fault::ReadOnlyDisk(whom) => self.tamper(whom, Disk::ReadOnly),
            Fault::SlowDisk(whom) => self.tamper(whom, Disk::Slow),
            Fault::FailingDisk(whom) => self.tamper(whom, Disk::Fails),
            Fault::Clock(whom) => self.move_clock(whom),

            Fault::HandOver => self.hand_over(),
            Fault::Reconfigure => self.reconfigure(follower),
            Fault::Original => self.replace_by_original(follower),
        }
    }

    fn members(&self) -> usize {
        self.ensemble.members().len()
    }

    /// The member that is this number of places behind the leader.
    fn after(&self, steps: usize) -> usize {
        (self.leader + steps) % self.members()
    }

    fn select(&self, whom: Whom) -> Vec<usize> {
        let members = self.members();
        match whom {
            Leader => vec![self.leader],
            Follower => vec![self.after(1)],
            Minority => (0..(members - 1) / 2).map(|steps| self.after(steps)).collect(),
            All => (0..members).collect(),
        }
    }

    /// Waits until the members make progress.
    fn goes_on(&self) -> Result<()> {
        self.load.wait_for(PROGRESS)
    }

    /// Waits until the members without the fault make progress, if there are any.
    fn others_go_on(&self, whom: Whom) -> Result<()> {
        if whom == All { Ok(()) } else { self.goes_on() }
    }

    // ---- processes

    fn restart(&mut self, whom: Whom, end: End) -> Result<bool> {
        let hit = self.select(whom);
        for index in &hit {
            match end {
                End::Stopped => drop(self.ensemble.member(*index).stop()?),
                End::Killed | End::Wiped => self.ensemble.member(*index).kill()?,
            }
        }
        self.others_go_on(whom)?;
        for index in &hit {
            if let End::Wiped = end {
                self.ensemble.wipe(*index)?;
            }
            self.ensemble.member(*index).spawn()?;
        }
        Ok(true)
    }

    fn cut_power(&mut self, whom: Whom, how: Cut) -> Result<bool> {
        let hit = self.select(whom);
        if !hit.iter().all(|index| self.ensemble.member(*index).has_power()) {
            return Ok(false);
        }
        self.ensemble.cut_power(&hit, how)?;
        self.others_go_on(whom)?;
        hit.iter().try_for_each(|index| self.ensemble.member(*index).spawn())?;
        Ok(true)
    }

    /// `others_go_on`: whether the pause lasts until the others have made progress.
    fn pause(&mut self, whom: Whom, time: Duration, others_go_on: bool) -> Result<bool> {
        let hit = self.select(whom);
        hit.iter().try_for_each(|index| self.ensemble.member(*index).pause())?;
        std::thread::sleep(time);
        if others_go_on {
            self.goes_on()?;
        }
        hit.iter().try_for_each(|index| self.ensemble.member(*index).go_on())?;
        Ok(true)
    }

    fn storm(&mut self, whom: Whom) -> Result<bool> {
        let hit = self.select(whom);
        for round in 0..6 {
            hit.iter().try_for_each(|index| self.ensemble.member(*index).kill())?;
            hit.iter().try_for_each(|index| self.ensemble.member(*index).spawn())?;
            std::thread::sleep(SHORT * round / 2);
        }
        self.goes_on()?;
        Ok(true)
    }

    // ---- the network

    /// Every pair of a member with the fault and one without.
    fn pairs(&self, whom: Whom) -> Vec<(usize, usize)> {
        let hit = self.select(whom);
        let others = (0..self.members()).filter(|other| !hit.contains(other));
        others.flat_map(|other| hit.iter().map(move |one| (*one, other))).collect()
    }

    /// Cuts members off from the others.
    fn separate(&mut self, whom: Whom, lost: Lost) -> Result<bool> {
        let pairs = self.pairs(whom).into_iter();
        let ways = pairs.flat_map(|(one, other)| match lost {
            Lost::From => vec![(one, other)],
            Lost::To => vec![(other, one)],
            Lost::Both => vec![(one, other), (other, one)],
        });
        self.cut(&ways.collect::<Vec<_>>())
    }

    /// All pairs of members that are no neighbours in a ring.
    fn outside_ring(&self) -> Vec<(usize, usize)> {
        let members = self.members();
        let is_far = |(a, b): &(usize, usize)| (a + 1) % members != *b && (b + 1) % members != *a;
        let pairs = (0..members).flat_map(|a| (0..members).map(move |b| (a, b)));
        pairs.filter(|(a, b)| a != b).filter(is_far).collect()
    }

    /// Cuts these directions until the others have continued.
    fn cut(&mut self, ways: &[(usize, usize)]) -> Result<bool> {
        for (from, to) in ways {
            self.ensemble.network().cut(*from, *to)?;
        }
        std::thread::sleep(LONG.max(Duration::from_secs(1)));
        let went_on = self.goes_on();
        self.ensemble.network().heal()?;
        went_on?;
        Ok(true)
    }

    fn lose_packets(&mut self, whom: Whom) -> Result<bool> {
        let pairs = self.pairs(whom);
        let network = self.ensemble.network();
        for _ in 0..BURSTS {
            for (one, other) in &pairs {
                network.cut(*one, *other)?;
                network.cut(*other, *one)?;
            }
            std::thread::sleep(BURST);
            network.heal()?;
            std::thread::sleep(BURST);
        }
        self.goes_on()?;
        Ok(true)
    }

    /// Disturbs the network this number of times. Returns `false` if no router is between the
    /// members.
    fn disturb(&mut self, weather: Weather, times: u32) -> bool {
        for _ in 0..times {
            if !self.ensemble.network().weather(weather) {
                return false;
            }
            std::thread::sleep(LONG / times);
        }
        true
    }

    fn weather(&mut self, weather: Weather, times: u32) -> Result<bool> {
        if !self.disturb(weather, times) {
            return Ok(false);
        }
        self.goes_on()?;
        self.ensemble.network().heal()?;
        Ok(true)
    }

    /// Votes are counted when the leader is lost.
    fn change_votes(&mut self) -> Result<bool> {
        if !self.disturb(Weather::Changes { one_of: 3 }, 1) {
            return Ok(false);
        }
        self.ensemble.member(self.leader).kill()?;
        std::thread::sleep(LONG);
        self.ensemble.network().heal()?;
        self.ensemble.member(self.leader).spawn()?;
        self.goes_on()?;
        Ok(true)
    }

    // ---- disks and clocks

    fn fill_disk(&mut self, whom: Whom) -> Result<bool> {
        let hit = self.select(whom);
        if !hit.iter().all(|index| self.ensemble.member(*index).has_own_disk()) {
            return Ok(false);
        }
        hit.iter().try_for_each(|index| self.ensemble.member(*index).fill_disk())?;
        std::thread::sleep(LONG);
        self.goes_on()?;
        for index in hit {
            self.ensemble.member(index).empty_disk()?;
            // A member that cannot write may have stopped.
            self.ensemble.member(index).spawn_if_ended()?;
        }
        Ok(true)
    }

    fn tamper(&mut self, whom: Whom, disk: Disk) -> Result<bool> {
        if !Tampered::is_possible() {
            return Ok(false);
        }
        let hit = self.select(whom);
        let pids: Vec<u32> = hit.iter().map(|index| self.ensemble.member(*index).pid()).collect();
        let tampered: Vec<Tampered> =
            pids.into_iter().map(|pid| Tampered::with(pid, disk)).collect::<Result<_>>()?;
        std::thread::sleep(LONG);
        self.goes_on()?;
        drop(tampered);
        for index in hit {
            // A member whose sync fails stops.
            self.ensemble.member(index).spawn_if_ended()?;
        }
        Ok(true)
    }

    fn move_clock(&mut self, whom: Whom) -> Result<bool> {
        let hit = self.select(whom);
        let Some(clocks) = self.ensemble.clocks() else { return Ok(false) };
        for seconds in [3_600, -3_600, 0] {
            hit.iter().try_for_each(|index| clocks.set(*index, seconds))?;
            std::thread::sleep(LONG / 3);
            self.goes_on()?;
        }
        Ok(true)
    }

    // ---- operators

    fn hand_over(&mut self) -> Result<bool> {
        if !hand_over(self.ensemble, self.leader)? {
            return Ok(false);
        }
        self.goes_on()?;
        Ok(true)
    }

    fn reconfigure(&mut self, follower: usize) -> Result<bool> {
        for role in ["observer", "participant"] {
            if !self.ensemble.change_role(self.leader, follower, role)? {
                return Ok(false);
            }
            self.goes_on()?;
        }
        Ok(true)
    }

    fn replace_by_original(&mut self, follower: usize) -> Result<bool> {
        let before = self.ensemble.member(follower).kind();
        if before != Kind::Zebu {
            return Ok(false);
        }
        for kind in [Kind::Java395, before] {
            let member = self.ensemble.member(follower);
            member.stop()?;
            member.change_kind(kind);
            member.spawn()?;
            member.wait_until_serving()?;
            self.goes_on()?;
        }
        Ok(true)
    }
}

/// Asks the leader to hand over, and waits until another member leads. Returns `false` if the admin
/// port is closed.
fn hand_over(ensemble: &mut Ensemble, leader: usize) -> Result<bool> {
    let Some(at) = ensemble.member(leader).admin() else { return Ok(false) };
    let before = epoch(ensemble.member(leader));
    let start = Instant::now();
    loop {
        let who = format!("Authorization: digest {SUPER}\r\n");
        let answer = http::ask_at(at, "POST", "/ensemble/hand_over", &who);
        match answer {
            Ok(answer) if answer.status == 200 => break,
            // The leader may have lost its followers or its leadership meanwhile.
            answer => ensure!(start.elapsed() < PATIENCE, "hand over: {answer:?}"),
        }
        std::thread::sleep(SHORT / 3);
        if ensemble.leader(None)? != leader {
            return Ok(true);
        }
    }
    // On a busy machine the others may elect the same leader again, in a later epoch.
    let start = Instant::now();
    loop {
        let now = ensemble.leader(None)?;
        if now != leader || epoch(ensemble.member(now)) > before {
            return Ok(true);
        }
        ensure!(start.elapsed() < PATIENCE, "nobody else leads");
        std::thread::sleep(SHORT / 3);
    }
}

/// The epoch of a member's last transaction, if it serves clients.
fn epoch(member: &Server) -> Option<i64> {
    let text = member.ask("srvr", LONG).ok()?;
    let zxid = text.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?;
    Some(i64::from_str_radix(zxid, 16).ok()? >> 32)
}
