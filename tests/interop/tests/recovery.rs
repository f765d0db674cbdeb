//! What `docs/recovery.md` tells operators to do.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::members::Members;
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::Zebu;

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
    for id in 1..=4 {
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

#[test]
fn an_ensemble_goes_on_with_the_history_of_one_server() {
    done(a_majority_loses_its_data());
}

#[test]
fn a_changed_ensemble_goes_on_with_the_history_of_one_server_and_takes_a_removed_one_back() {
    done(a_majority_of_a_changed_ensemble_loses_its_data());
}
