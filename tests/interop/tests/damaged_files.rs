//! Damage in the files of stopped members, as with `cargo xtask damage --times 100`: a sector of
//! any file of one member, and sectors in the logs of all members at once, each of which is intact
//! at another member.
//!
//! No acknowledged write is lost, and no member serves wrong data. A member repairs itself from the
//! others, or refuses to start and names the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use zebu_interop::damage::{Damage, SECTOR, durable, files};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::Zebu;
use zebu_interop::server::PATIENCE;
use zebu_testkit::Random;

/// The number of attempts of each kind, unless the environment sets another one.
const TIMES: u64 = 6;

/// The number of transactions of an ensemble in which all members get damage.
const TRANSACTIONS: usize = 300;

fn times() -> u64 {
    let given = std::env::var("ZEBU_DAMAGE").ok();
    given.map_or(TIMES, |text| text.parse().unwrap_or_else(|_| panic!("ZEBU_DAMAGE: {text}")))
}

fn create(ensemble: &mut Ensemble, next: &mut usize, count: usize) -> Result<()> {
    let leader = ensemble.leader(None)?;
    let mut session = Session::open(ensemble.member(leader).address(), 60_000)?;
    for _ in 0..count {
        session.create(&format!("/n-{next}"), b"", 0)?;
        *next += 1;
    }
    session.close()
}

/// All members have the same tree with all acknowledged writes.
fn ensure_all(ensemble: &mut Ensemble, count: usize) -> Result<()> {
    let tree = ensemble.agreed_tree()?;
    let there = tree.lines().filter(|line| line.starts_with("/n-")).count();
    ensure!(there == count, "{there} of {count} acknowledged znodes");
    Ok(())
}

/// The files of a history, in the order of their names.
fn all_files(history: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(history)? {
        let entry = entry?;
        if entry.metadata()?.len() > 0 {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Waits until a member serves, or ends after naming the file.
fn serves_or_refuses(ensemble: &mut Ensemble, index: usize, file: &Path) -> Result<bool> {
    let start = Instant::now();
    loop {
        let member = ensemble.member(index);
        if !member.is_alive() {
            let name = file.file_name().context("a name")?.to_string_lossy().into_owned();
            ensure!(member.log().contains(&name), "{name} is not named: {}", member.log());
            return Ok(false);
        }
        let said = member.ask("srvr", Duration::from_secs(1));
        if said.is_ok_and(|text| text.contains("Mode:")) {
            return Ok(true);
        }
        if start.elapsed() > PATIENCE {
            bail!("neither serves nor refuses: {}", member.log());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Damages one sector of any file of one member.
fn of_one_member() -> Result<()> {
    let mut random = Random::new(1);
    let options = options().property("zookeeper.snapCount", 60);
    let mut ensemble = Ensemble::start(&[Zebu; 3], &options)?;
    let (mut next, mut repaired, mut refused) = (0, 0, 0);
    for _ in 0..times() {
        create(&mut ensemble, &mut next, 50)?;
        let hurt = random.index(3);
        // The other members have the newest state, or an intact log up to it.
        let all_stop = random.chance(50);
        let stopped: Vec<usize> = if all_stop { (0..3).collect() } else { vec![hurt] };
        for index in &stopped {
            ensemble.member(*index).kill()?;
        }
        let history = ensemble.member(hurt).data().join("version-2");
        let file = random.pick(&all_files(&history)?).clone();
        let damage = *random.pick(&Damage::ALL);
        damage.hit(&file, 0..u64::MAX, &mut random)?;
        let what = || format!("{damage:?} in {} of member {}", file.display(), hurt + 1);
        for index in &stopped {
            ensemble.member(*index).spawn()?;
        }
        if serves_or_refuses(&mut ensemble, hurt, &file).with_context(what)? {
            repaired += 1;
        } else {
            refused += 1;
            // The operator's remedy.
            ensemble.member(hurt).spawn_if_ended().with_context(what)?;
            ensemble.member(hurt).kill().ok();
            ensemble.wipe(hurt)?;
            ensemble.member(hurt).spawn()?;
        }
        ensure_all(&mut ensemble, next).with_context(what)?;
    }
    println!("{next} znodes kept: {repaired} times the member served, {refused} times it refused");
    Ok(())
}

/// Damages sectors of the logs of all members, for each member in another third of its log.
fn of_all_members() -> Result<()> {
    let mut random = Random::new(2);
    let mut sectors = 0;
    for time in 0..times() {
        let mut ensemble = Ensemble::start(&[Zebu; 3], &options())?;
        let mut next = 0;
        create(&mut ensemble, &mut next, TRANSACTIONS)?;
        ensemble.agreed_tree()?;
        let first = random.below(3);
        for index in 0..3_u64 {
            let member = ensemble.member(index as usize);
            member.stop()?;
            let logs = files(&member.data().join("version-2"), "log.")?;
            let log = logs.last().context("no log")?;
            let third = (durable(log)? - SECTOR) / 3;
            // A record may extend into the next sector, and the members' logs begin with the same
            // records.
            let begin = SECTOR + third * ((first + index) % 3);
            let count = random.between(1, 5);
            for _ in 0..count {
                let damage = *random.pick(&Damage::ALL);
                damage.hit(log, begin + SECTOR..begin + third - SECTOR, &mut random)?;
            }
            sectors += count;
        }
        for index in 0..3 {
            ensemble.member(index).spawn()?;
        }
        ensure_all(&mut ensemble, next).with_context(|| format!("ensemble {time}"))?;
        create(&mut ensemble, &mut next, 10)?;
        ensure_all(&mut ensemble, next).with_context(|| format!("ensemble {time}"))?;
    }
    println!("{} ensembles with {sectors} damaged sectors have everything", times());
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_damaged_sector_of_any_file_of_a_member_costs_nothing_that_was_acknowledged() {
    of_one_member().unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn damaged_sectors_in_the_logs_of_all_members_cost_nothing_that_was_acknowledged() {
    of_all_members().unwrap_or_else(|failure| panic!("{failure:?}"));
}
