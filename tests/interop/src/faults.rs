//! Faults of ensemble members while clients write.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

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

/// Number of acknowledged creates that prove that an ensemble works again.
pub const PROGRESS: usize = 30;

/// The members with the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whom {
    /// The leader.
    Leader,
    /// A member that is not the leader.
    Follower,
    /// The largest minority, including the leader.
    Minority,
    /// All members.
    All,
}
use Whom::{All, Follower, Leader, Minority};

/// The faults. Unless all members have the fault, the others must continue before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// SIGKILL, and a restart with the same data.
    Kill(Whom),
    /// SIGTERM, and a restart with the same data.
    Restart(Whom),
    /// SIGKILL, and a restart without data except for the id.
    Wipe(Whom),
    /// The disk loses its power, and what was not durable; a restart with the rest.
    PowerCut(Whom, Cut),
    /// SIGSTOP, shorter than all timeouts.
    Pause(Whom),
    /// SIGSTOP until the others have continued.
    LongPause(Whom),
    /// Cut off from the others in both directions. Members with the fault still reach each other.
    Island(Whom),
    /// Packets from it are lost.
    Mute(Whom),
    /// Packets to it are lost.
    Deaf(Whom),
    /// The link between the leader and one other member is cut.
    Link,
    /// Each member reaches only its two neighbours.
    Ring,
    /// The router loses its packets, and those to it, in bursts.
    Loss(Whom),
    /// All bytes between members are held up.
    Slow,
    /// All connections between members break, again and again.
    Breaks,
    /// Bits of votes are changed on their way.
    ChangedVotes,
    /// The disk is full.
    FullDisk(Whom),
    /// The file system is read-only.
    ReadOnlyDisk(Whom),
    /// Each sync takes 40 ms longer.
    SlowDisk(Whom),
    /// A sync fails.
    FailingDisk(Whom),
    /// The wall clock goes an hour ahead, then an hour back, and is right again.
    Clock(Whom),
    /// Killed and started again, six times, each time before it can follow for long.
    Storm(Whom),
    /// The leader lets another member lead, because it is asked to.
    HandOver,
    /// A follower becomes an observer, and a voter again.
    Reconfigure,
    /// A follower is the original's server for a while, with the same data.
    Original,
}
use Fault::{
    Breaks, ChangedVotes, Clock, Deaf, FailingDisk, FullDisk, HandOver, Island, Kill, Link,
    LongPause, Loss, Mute, Original, Pause, PowerCut, ReadOnlyDisk, Reconfigure, Restart, Ring,
    Slow, SlowDisk, Storm, Wipe,
};

/// Faults of one kind.
#[derive(Debug)]
pub struct Nemesis {
    /// Its name in commands and tables.
    pub name: &'static str,
    /// Its description, in a few words.
    pub what: &'static str,
    /// Its faults, of which one happens at a time.
    pub faults: &'static [Fault],
}

/// All kinds of faults.
pub const NEMESES: [Nemesis; 25] = [
    nemesis(
        "kill",
        "SIGKILL of one, or of a minority",
        &[Kill(Leader), Kill(Follower), Kill(Minority)],
    ),
    nemesis("kill-all", "SIGKILL of all members at once", &[Kill(All)]),
    nemesis("restart", "SIGTERM", &[Restart(Leader), Restart(Follower), Restart(All)]),
    nemesis(
        "storm",
        "six kills and starts of one member in a row",
        &[Storm(Leader), Storm(Follower)],
    ),
    nemesis(
        "wipe",
        "SIGKILL and an empty data directory",
        &[Wipe(Leader), Wipe(Follower), Wipe(Minority)],
    ),
    nemesis(
        "power-cut",
        "the power of disks fails, and takes what is not durable",
        &[
            PowerCut(Leader, Cut::Running),
            PowerCut(Follower, Cut::Frozen),
            PowerCut(Minority, Cut::Frozen),
            PowerCut(All, Cut::Running),
            PowerCut(All, Cut::Frozen),
        ],
    ),
    nemesis(
        "pause",
        "SIGSTOP, shorter than the timeouts",
        &[Pause(Leader), Pause(Follower), Pause(All)],
    ),
    nemesis(
        "long-pause",
        "SIGSTOP until the others work again",
        &[LongPause(Leader), LongPause(Follower), LongPause(Minority), LongPause(All)],
    ),
    nemesis(
        "island",
        "cut off in both directions",
        &[Island(Leader), Island(Follower), Island(Minority)],
    ),
    nemesis(
        "mute",
        "nobody receives what the member sends",
        &[Mute(Leader), Mute(Follower), Mute(Minority)],
    ),
    nemesis("deaf", "the member receives nothing", &[Deaf(Leader), Deaf(Follower), Deaf(Minority)]),
    nemesis("link", "the link between the leader and one member is cut", &[Link]),
    nemesis("ring", "each of five members reaches two neighbours only", &[Ring]),
    nemesis("loss", "packets are lost in bursts", &[Loss(Leader), Loss(Follower)]),
    nemesis("slow-network", "bytes are held up for 15 to 45 ms", &[Slow]),
    nemesis("breaks", "all connections between members break, five times", &[Breaks]),
    nemesis("changed-votes", "a bit in one of three votes is changed", &[ChangedVotes]),
    nemesis("full-disk", "no room in the data directory", &[FullDisk(Leader), FullDisk(Follower)]),
    nemesis(
        "read-only-disk",
        "the file system takes no write",
        &[ReadOnlyDisk(Leader), ReadOnlyDisk(Follower)],
    ),
    nemesis(
        "slow-disk",
        "each sync takes 40 ms longer",
        &[SlowDisk(Leader), SlowDisk(Follower), SlowDisk(All)],
    ),
    nemesis("failing-disk", "a sync fails (EIO)", &[FailingDisk(Leader), FailingDisk(Follower)]),
    nemesis(
        "clock",
        "the wall clock goes an hour ahead, then an hour back",
        &[Clock(Leader), Clock(Follower), Clock(All)],
    ),
    nemesis("hand-over", "the leader is asked to hand over", &[HandOver]),
    nemesis("reconfigure", "a follower becomes an observer and a voter again", &[Reconfigure]),
    nemesis("original", "a follower is ZooKeeper 3.9.5 for a while", &[Original]),
];

const fn nemesis(name: &'static str, what: &'static str, faults: &'static [Fault]) -> Nemesis {
    Nemesis { name, what, faults }
}

impl Fault {
    /// Whether an ensemble of this size tolerates the fault, and no other fault is the same for
    /// this size.
    pub fn is_for(self, members: usize) -> bool {
        let needs_five = matches!(
            self,
            Ring | Kill(Minority)
                | Wipe(Minority)
                | PowerCut(Minority, _)
                | LongPause(Minority)
                | Island(Minority)
                | Mute(Minority)
                | Deaf(Minority)
        );
        members > 3 || !needs_five
    }
}

/// Causes the fault, and waits until the ensemble has recovered; `false` if this machine cannot
/// cause it.
///
/// # Errors
/// The ensemble did not recover, or a client received a wrong answer.
pub fn inflict(ensemble: &mut Ensemble, load: &Load, fault: Fault) -> Result<bool> {
    let members = ensemble.members().len();
    let leader = ensemble.leader(None)?;
    let after = |steps: usize| (leader + steps) % members;
    let select = |whom: Whom| match whom {
        Leader => vec![leader],
        Follower => vec![after(1)],
        Minority => (0..(members - 1) / 2).map(after).collect(),
        All => (0..members).collect(),
    };
    match fault {
        Kill(whom) | Restart(whom) | Wipe(whom) => {
            let hit = select(whom);
            for index in &hit {
                match fault {
                    Restart(_) => drop(ensemble.member(*index).stop()?),
                    _ => ensemble.member(*index).kill()?,
                }
            }
            if whom != All {
                load.wait_for(PROGRESS)?;
            }
            for index in &hit {
                if let Wipe(_) = fault {
                    ensemble.wipe(*index)?;
                }
                ensemble.member(*index).spawn()?;
            }
        }
        PowerCut(whom, how) => {
            let hit = select(whom);
            if !hit.iter().all(|index| ensemble.member(*index).has_power()) {
                return Ok(false);
            }
            ensemble.cut_power(&hit, how)?;
            if whom != All {
                load.wait_for(PROGRESS)?;
            }
            hit.iter().try_for_each(|index| ensemble.member(*index).spawn())?;
        }
        Pause(whom) | LongPause(whom) => {
            let hit = select(whom);
            hit.iter().try_for_each(|index| ensemble.member(*index).pause())?;
            std::thread::sleep(if let Pause(_) = fault { SHORT } else { LONG });
            if whom != All && fault != Pause(whom) {
                load.wait_for(PROGRESS)?;
            }
            hit.iter().try_for_each(|index| ensemble.member(*index).go_on())?;
        }
        Island(_) | Mute(_) | Deaf(_) | Link | Ring | Loss(_) if !ensemble.network().has_cuts() => {
            return Ok(false);
        }
        Island(whom) | Mute(whom) | Deaf(whom) => {
            let hit = select(whom);
            let others = (0..members).filter(|other| !hit.contains(other));
            let pairs = others.flat_map(|other| hit.iter().map(move |one| (*one, other)));
            let cuts = pairs.flat_map(|(one, other)| match fault {
                Mute(_) => vec![(one, other)],
                Deaf(_) => vec![(other, one)],
                _ => vec![(one, other), (other, one)],
            });
            cut(ensemble, load, &cuts.collect::<Vec<_>>())?;
        }
        Link => cut(ensemble, load, &[(leader, after(1)), (after(1), leader)])?,
        Ring => {
            let is_far =
                |(a, b): &(usize, usize)| (a + 1) % members != *b && (b + 1) % members != *a;
            let pairs = (0..members).flat_map(|a| (0..members).map(move |b| (a, b)));
            let cuts: Vec<_> = pairs.filter(|(a, b)| a != b).filter(is_far).collect();
            cut(ensemble, load, &cuts)?;
        }
        Loss(whom) => {
            let hit = select(whom);
            let others: Vec<usize> = (0..members).filter(|other| !hit.contains(other)).collect();
            let network = ensemble.network();
            for _ in 0..BURSTS {
                for (one, other) in
                    hit.iter().flat_map(|one| others.iter().map(move |it| (*one, *it)))
                {
                    network.cut(one, other)?;
                    network.cut(other, one)?;
                }
                std::thread::sleep(BURST);
                network.heal()?;
                std::thread::sleep(BURST);
            }
            load.wait_for(PROGRESS)?;
        }
        Slow | ChangedVotes | Breaks => {
            let weather = match fault {
                Slow => Weather::Slow(Duration::from_millis(30)),
                ChangedVotes => Weather::Changes { one_of: 3 },
                _ => Weather::Breaks,
            };
            let times = if fault == Breaks { 5 } else { 1 };
            for _ in 0..times {
                if !ensemble.network().weather(weather) {
                    return Ok(false);
                }
                std::thread::sleep(LONG / times);
            }
            if fault == ChangedVotes {
                // Votes are counted when the leader is lost.
                ensemble.member(leader).kill()?;
                std::thread::sleep(LONG);
                ensemble.network().heal()?;
                ensemble.member(leader).spawn()?;
            }
            load.wait_for(PROGRESS)?;
            ensemble.network().heal()?;
        }
        FullDisk(whom) => {
            let hit = select(whom);
            if !hit.iter().all(|index| ensemble.member(*index).has_own_disk()) {
                return Ok(false);
            }
            hit.iter().try_for_each(|index| ensemble.member(*index).fill_disk())?;
            std::thread::sleep(LONG);
            load.wait_for(PROGRESS)?;
            for index in hit {
                ensemble.member(index).empty_disk()?;
                // A member that cannot write may have stopped.
                ensemble.member(index).spawn_if_ended()?;
            }
        }
        ReadOnlyDisk(whom) | SlowDisk(whom) | FailingDisk(whom) => {
            if !Tampered::is_possible() {
                return Ok(false);
            }
            let disk = match fault {
                ReadOnlyDisk(_) => Disk::ReadOnly,
                SlowDisk(_) => Disk::Slow,
                _ => Disk::Fails,
            };
            let hit = select(whom);
            let pids: Vec<u32> = hit.iter().map(|index| ensemble.member(*index).pid()).collect();
            let tampered: Vec<Tampered> =
                pids.into_iter().map(|pid| Tampered::with(pid, disk)).collect::<Result<_>>()?;
            std::thread::sleep(LONG);
            load.wait_for(PROGRESS)?;
            drop(tampered);
            for index in hit {
                // A member whose sync fails stops.
                ensemble.member(index).spawn_if_ended()?;
            }
        }
        Clock(whom) => {
            let Some(clocks) = ensemble.clocks() else { return Ok(false) };
            let hit = select(whom);
            for seconds in [3_600, -3_600, 0] {
                hit.iter().try_for_each(|index| clocks.set(*index, seconds))?;
                std::thread::sleep(LONG / 3);
                load.wait_for(PROGRESS)?;
            }
        }
        Storm(whom) => {
            let hit = select(whom);
            for round in 0..6 {
                hit.iter().try_for_each(|index| ensemble.member(*index).kill())?;
                hit.iter().try_for_each(|index| ensemble.member(*index).spawn())?;
                std::thread::sleep(SHORT * round / 2);
            }
            load.wait_for(PROGRESS)?;
        }
        HandOver => {
            if !hand_over(ensemble, leader)? {
                return Ok(false);
            }
            load.wait_for(PROGRESS)?;
        }
        Reconfigure => {
            for role in ["observer", "participant"] {
                if !ensemble.change_role(leader, after(1), role)? {
                    return Ok(false);
                }
                load.wait_for(PROGRESS)?;
            }
        }
        Original => {
            let member = ensemble.member(after(1));
            let before = member.kind();
            if before != Kind::Zebu {
                return Ok(false);
            }
            for kind in [Kind::Java395, before] {
                let member = ensemble.member(after(1));
                member.stop()?;
                member.change_kind(kind);
                member.spawn()?;
                member.wait_until_serving()?;
                load.wait_for(PROGRESS)?;
            }
        }
    }
    ensemble.wait_for_all()?;
    load.wait_for(PROGRESS)?;
    Ok(true)
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

/// Cuts these directions until the others have continued.
fn cut(ensemble: &mut Ensemble, load: &Load, ways: &[(usize, usize)]) -> Result<()> {
    for (from, to) in ways {
        ensemble.network().cut(*from, *to)?;
    }
    let left = LONG.max(Duration::from_secs(1));
    std::thread::sleep(left);
    let went_on = load.wait_for(PROGRESS);
    ensemble.network().heal()?;
    went_on
}
