//! One of three members has the newest transactions, and does not run. Of the other two, one is
//! behind, and one has lost its disk or a part of it when its power failed. These two wait for the
//! first one, and name it. If the damaged member can get its missing transactions from the other
//! one, the two continue with all data.
//!
//! Members of the original continue without the transactions that were acknowledged since the
//! second member stopped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::damage::{Damage, SECTOR, durable, files};
use zebu_interop::disk::Medium;
use zebu_interop::ensemble::{Cut, Ensemble};
use zebu_interop::faults::PROGRESS;
use zebu_interop::http;
use zebu_interop::load::{Figures, Load};
use zebu_interop::network::Network;
use zebu_interop::server::{Kind, PATIENCE, Server, free_port};
use zebu_testkit::Random;

use crate::{CUTS_EACH, cuts, on, say};

/// Enough time for members that vote for each other to elect a leader.
const WHILE_THEY_COULD_ELECT: Duration = Duration::from_secs(3);

/// A text in the log of a member that does not vote.
const ABSTAINS: &str = "neither votes nor serves";

/// The data that a member loses when its power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Its history, removed by an operator.
    History,
    /// Its disk, replaced by an empty one.
    Disk,
    /// A whole log.
    Log,
    /// The end of a log that was durable.
    End,
    /// A sector of a log that was durable.
    InLog(Damage),
    /// A sector of the newest snapshot.
    InSnapshot(Damage),
}

const LOSSES: [Loss; 9] = [
    Loss::History,
    Loss::InLog(Damage::Zeros),
    Loss::Disk,
    Loss::Log,
    Loss::InLog(Damage::Bit),
    Loss::End,
    Loss::InLog(Damage::Noise),
    Loss::InLog(Damage::Elsewhere),
    Loss::InSnapshot(Damage::Noise),
];

impl Loss {
    /// Whether no part of the history is left, so that the member cannot repair itself.
    fn is_total(self) -> bool {
        matches!(self, Self::History | Self::Disk)
    }
}

/// A log with more than one durable sector, mostly the newest one, and its durable end.
fn some_log(history: &Path, random: &mut Random) -> Result<(PathBuf, u64)> {
    let mut logs = Vec::new();
    for log in files(history, "log.")? {
        // A log whose sidecar did not get its name before the power failed.
        let end = durable(&log).unwrap_or_default();
        if end > 2 * SECTOR {
            logs.push((log, end));
        }
    }
    let newest = logs.pop().context("no log with two sectors")?;
    Ok(if logs.is_empty() || random.chance(70) { newest } else { random.pick(&logs).clone() })
}

/// Damages the files of a stopped member whose power has failed.
fn hit(member: &Server, number: usize, loss: Loss, random: &mut Random) -> Result<()> {
    let history = member.data().join("version-2");
    match loss {
        Loss::History => fs::remove_dir_all(&history)?,
        Loss::Disk => {
            member.replace_disk()?;
            fs::write(member.data().join("myid"), format!("{number}\n"))?;
        }
        Loss::InSnapshot(damage) => {
            let newest = files(&history, "snapshot.")?.pop().context("no snapshot")?;
            damage.hit(&newest, 0..u64::MAX, random)?;
        }
        Loss::Log => fs::remove_file(some_log(&history, random)?.0)?,
        Loss::End => {
            let (log, end) = some_log(&history, random)?;
            File::options().write(true).open(log)?.set_len(random.below(end))?;
        }
        Loss::InLog(damage) => {
            let (log, end) = some_log(&history, random)?;
            damage.hit(&log, 0..end - SECTOR, random)?;
        }
    }
    member.sync_disk()
}

/// Whether one of these members serves clients.
fn serves(ensemble: &Ensemble, those: &[usize]) -> bool {
    those.iter().any(|index| {
        let said = ensemble.members()[*index].ask("srvr", Duration::from_secs(1));
        said.is_ok_and(|text| text.contains("Mode:"))
    })
}

/// The reason why a member does not serve, from `/health/ready`.
fn reasons(member: &Server) -> Result<String> {
    let at = member.admin().context("no admin port")?;
    Ok(http::ask_at(at, "GET", "/health/ready", "")?.json()?["reasons"].to_string())
}

/// The results of a series of losses.
#[derive(Default)]
struct Series {
    tried: u64,
    /// The number of cases in which the two members waited.
    waited: u64,
    /// The number of cases in which the two members continued, because the damaged one repaired
    /// itself or did not need the lost data.
    went_on: u64,
    /// The longest time from the return of the third member until all members served.
    longest: Duration,
    figures: Figures,
}

impl Series {
    /// Some losses in an ensemble that starts with empty disks; `false` if this machine cannot run
    /// them.
    fn run(&mut self, medium: Medium, random: &mut Random) -> Result<bool> {
        let ports = [(); 3].map(|()| free_port());
        let options = |index: usize| {
            on(medium)
                .config("admin.enableServer", true)
                .config("admin.serverAddress", "127.0.0.1")
                .config("admin.serverPort", ports[index])
        };
        let ensemble = Ensemble::prepare_each(Network::loopback(3), &[Kind::Zebu; 3], 0, &options)?;
        if !ensemble.members().iter().all(Server::has_power) {
            return Ok(false);
        }
        let mut ensemble = ensemble.started()?;
        let load = Load::start_with(&ensemble.addresses(), random.next())?;
        load.wait_for(PROGRESS)?;
        for _ in 0..CUTS_EACH {
            let loss = LOSSES[self.tried as usize % LOSSES.len()];
            self.tried += 1;
            if let Err(error) = self.lose(&mut ensemble, &load, loss, random) {
                // The client's own findings explain more than its missing answer.
                let seen = format!("{:?}, {:?}", loss, load.finish().err());
                return Err(error.context(seen));
            }
        }
        let told = load.finish()?;
        let figures = told.check(&ensemble.agreed_tree()?)?;
        let digests = ensemble.agreed_digests()?;
        ensure!(digests > 0, "no digests to compare");
        self.figures += Figures { digests, ..figures };
        Ok(true)
    }

    /// One member is behind, one has this loss, and the third does not run until the end.
    fn lose(
        &mut self,
        ensemble: &mut Ensemble,
        load: &Load,
        loss: Loss,
        random: &mut Random,
    ) -> Result<()> {
        let newest = random.index(3);
        let (behind, hurt) = ((newest + 1) % 3, (newest + 2) % 3);
        let (behind, hurt) = if random.chance(50) { (behind, hurt) } else { (hurt, behind) };
        let how = |random: &mut Random| *random.pick(&[Cut::Running, Cut::Frozen]);
        ensemble.cut_power(&[behind], how(random))?;
        load.wait_for(PROGRESS + random.index(200))?;
        ensemble.cut_power(&[newest, hurt], how(random))?;
        hit(&ensemble.members()[hurt], hurt + 1, loss, random)?;
        let mut went_on = false;
        // In some cases, the power fails again while they wait.
        for _ in 0..=u64::from(random.one_in(3)) {
            if went_on {
                break;
            }
            let there = [behind, hurt];
            if there.iter().any(|index| ensemble.member(*index).is_alive()) {
                ensemble.cut_power(&there, how(random))?;
            }
            went_on = goes_on(ensemble, behind, hurt, newest, random)?;
        }
        ensure!(!(went_on && loss.is_total()), "they go on without the newest transactions");
        *(if went_on { &mut self.went_on } else { &mut self.waited }) += 1;
        if went_on {
            load.wait_for(PROGRESS)?;
        }
        let start = Instant::now();
        ensemble.member(newest).spawn()?;
        ensemble.wait_for_all()?;
        self.longest = self.longest.max(start.elapsed());
        load.wait_for(PROGRESS)
    }
}

/// Starts two members. Returns whether they continue. If they do not, each must have named the
/// third.
fn goes_on(
    ensemble: &mut Ensemble,
    behind: usize,
    hurt: usize,
    away: usize,
    random: &mut Random,
) -> Result<bool> {
    let there = if random.chance(50) { [behind, hurt] } else { [hurt, behind] };
    let told =
        |ensemble: &Ensemble| ensemble.members()[hurt].log_lines(&[ABSTAINS]).lines().count();
    let before = told(ensemble);
    for index in there {
        ensemble.member(index).spawn()?;
    }
    let start = Instant::now();
    let unreachable = format!("voters that cannot be reached: {}", away + 1);
    let waits = |ensemble: &Ensemble, index: usize, words: &[&str]| {
        let said = reasons(&ensemble.members()[index]);
        said.is_ok_and(|said| words.iter().all(|words| said.contains(words)))
    };
    let abstaining = format!("lost, damaged or put back: {}", hurt + 1);
    loop {
        if serves(ensemble, &there) {
            return Ok(true);
        }
        let both_wait = waits(ensemble, behind, &[&unreachable, &abstaining])
            && waits(ensemble, hurt, &[&unreachable, "this server's own data are lost"])
            && told(ensemble) > before;
        if both_wait && start.elapsed() > WHILE_THEY_COULD_ELECT {
            return Ok(false);
        }
        if start.elapsed() > PATIENCE {
            let said = there.map(|index| reasons(&ensemble.members()[index]));
            let log = ensemble.members()[hurt].log();
            anyhow::bail!("members {behind} and {hurt} say {said:?} without {away}\n{log}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn nothing_is_lost(medium: Medium) {
    let mut random = Random::new(medium.name().len() as u64);
    let mut series = Series::default();
    let name = medium.name();
    while series.tried < cuts() {
        match series.run(medium, &mut random) {
            Ok(true) => {}
            Ok(false) => return say(&format!("skipped: no {name} can be mounted on this machine")),
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
    let Series { tried, waited, went_on, longest, figures } = series;
    println!(
        "{name}: of {tried} pairs without the third member {waited} waited for it, and {went_on} went on with everything; \
         all served within {longest:.1?} after its return: {figures}"
    );
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_stale_and_a_damaged_member_on_ext4_go_on_with_nothing_less_than_was_acknowledged() {
    nothing_is_lost(Medium::Ext4);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_stale_and_a_damaged_member_on_xfs_go_on_with_nothing_less_than_was_acknowledged() {
    nothing_is_lost(Medium::Xfs);
}
