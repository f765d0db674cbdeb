//! What `docs/recovery.md` tells operators to do.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::members::Members;
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::Zebu;
use zebu_interop::server::PATIENCE;

/// Gives a stopped server the history of another one.
fn copy_history(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (from.join("version-2"), to.join("version-2"));
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    fs::create_dir(&to)?;
    for file in fs::read_dir(&from)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name())).context("copy")?;
    }
    Ok(())
}

/// Of three servers two have lost everything; the third one has what it had.
fn a_majority_loses_its_data() -> Result<()> {
    let mut ensemble = Ensemble::start(&[Zebu; 3], &options())?;
    let mut session = Session::open(ensemble.member(0).address(), 60_000)?;
    for number in 0..50 {
        session.create(&format!("/{number}"), b"", 0)?;
    }
    session.close()?;
    let before = ensemble.agreed_tree()?;
    for index in 0..3 {
        ensemble.member(index).kill()?;
    }
    let survivor = ensemble.member(0).data().to_owned();
    for index in [1, 2] {
        ensemble.wipe(index)?;
        copy_history(&survivor, ensemble.member(index).data())?;
    }
    for index in 0..3 {
        ensemble.member(index).spawn()?;
    }
    let after = ensemble.agreed_tree()?;
    // Each server fills that znode at its start.
    let config = |line: &&str| !line.starts_with("/zookeeper/config");
    ensure!(after.lines().filter(config).eq(before.lines().filter(config)), "{after}");
    let mut session = Session::open(ensemble.member(2).address(), 60_000)?;
    session.create("/after", b"", 0)?;
    session.close()?;
    ensemble.agreed_tree()?;
    Ok(())
}

/// What is warned of: a majority that has lost everything is started first.
fn a_majority_starts_empty() -> Result<()> {
    let mut ensemble = Ensemble::start(&[Zebu; 3], &options())?;
    let mut session = Session::open(ensemble.member(0).address(), 60_000)?;
    for number in 0..50 {
        session.create(&format!("/{number}"), b"", 0)?;
    }
    session.close()?;
    ensure!(ensemble.agreed_tree()?.contains("\n/49 "), "the last one is there");
    for index in 0..3 {
        ensemble.member(index).kill()?;
    }
    for index in [1, 2] {
        ensemble.wipe(index)?;
        ensemble.member(index).spawn()?;
    }
    for index in [1, 2] {
        ensemble.member(index).wait_until_serving()?;
    }
    ensemble.member(0).spawn()?;
    ensemble.wait_for_all()?;
    for index in 0..3 {
        let tree = ensemble.tree(index)?;
        ensure!(!tree.contains("\n/49 "), "server {}: {tree}", index + 1);
    }
    Ok(())
}

/// The same where the members have been changed, so that who has lost its data may not vote; and a server that was
/// removed comes back.
fn a_majority_of_a_changed_ensemble_loses_its_data() -> Result<()> {
    let mut members = Members::start(&[Zebu; 3], false)?;
    members.join(4, Zebu, &[1, 2, 3])?;
    let entry = members.entry(4, "participant");
    members.change(1, &[entry], &[])?;
    let config = members.change(1, &[], &[3])?;
    members.expect(&[1, 2, 4], &config)?;
    members.write(&[1, 2, 4], "before")?;
    // It has heard of its removal, so it does not start again.
    members.expect(&[3], &config)?;
    for id in 1..=4 {
        members.server(id).kill()?;
    }
    ensure!(!members.server(3).expect_refusal()?.success(), "a removed server ends as if in order");
    // Started without their data, the two wait: nothing is lost by that.
    for id in [1, 2] {
        fs::remove_dir_all(members.server(id).data().join("version-2"))?;
    }
    for id in [1, 2, 4] {
        members.server(id).spawn()?;
    }
    for id in [1, 2] {
        let start = Instant::now();
        while members.server(id).log_lines(&["neither votes nor serves"]).is_empty() {
            ensure!(start.elapsed() < PATIENCE, "{}", members.server(id).log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    for id in [1, 2, 4] {
        members.server(id).kill()?;
    }
    let survivor = members.server(4).data().to_owned();
    for id in [1, 2] {
        copy_history(&survivor, members.server(id).data())?;
    }
    for id in [1, 2, 4] {
        members.server(id).spawn()?;
    }
    members.expect(&[1, 2, 4], &config)?;
    members.write(&[1, 2, 4], "after")?;
    // With nothing, and with the members there are now.
    members.join(3, Zebu, &[1, 2, 4])?;
    let entry = members.entry(3, "participant");
    let config = members.change(1, &[entry], &[])?;
    members.expect(&[1, 2, 3, 4], &config)?;
    members.write(&[1, 2, 3, 4], "again")
}

fn done(result: Result<()>) {
    result.unwrap_or_else(|failure| panic!("{failure:?}"));
}

/// STO-23.
#[test]
fn an_ensemble_goes_on_with_the_history_of_one_server() {
    done(a_majority_loses_its_data());
}

#[test]
fn a_majority_of_empty_servers_throws_away_what_the_others_have() {
    done(a_majority_starts_empty());
}

#[test]
fn a_changed_ensemble_goes_on_with_the_history_of_one_server_and_takes_a_removed_one_back() {
    done(a_majority_of_a_changed_ensemble_loses_its_data());
}
