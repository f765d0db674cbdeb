//! Observers of ours, in processes of their own.

use std::fs::{self, DirEntry};
use std::io;

use anyhow::Result;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::faults::PROGRESS;
use zebu_interop::load::Load;
use zebu_interop::server::Kind;

/// Names of files in a member's data directory.
fn files(ensemble: &mut Ensemble, index: usize) -> Vec<String> {
    let folder = ensemble.member(index).data().join("version-2");
    let name = |entry: io::Result<DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(name).collect()
}

/// While clients write, an observer ends and comes back, stands still for a while, and loses its leader.
fn survive(ensemble: &mut Ensemble, observer: usize) -> Result<()> {
    let load = Load::start(&ensemble.addresses())?;
    load.wait_for(PROGRESS)?;
    ensemble.member(observer).kill()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(observer).launch()?;
    ensemble.member(observer).pause()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(observer).go_on()?;
    load.wait_for(PROGRESS)?;
    let leader = ensemble.leader(None)?;
    ensemble.member(leader).kill()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(leader).spawn()?;
    ensemble.wait_for_all()?;
    load.wait_for(PROGRESS)?;
    let told = load.finish()?;
    told.check(&ensemble.agreed_tree()?)?;
    Ok(())
}

/// An observer that keeps no log serves like any other, and starts with what the leader sends it.
#[test]
fn an_observer_without_a_log_has_everything_all_the_same() {
    let options = options().config("syncEnabled", "false");
    let mut ensemble = Ensemble::prepare_with_observers(&[Kind::Zebu; 4], 1, &options).unwrap();
    (0..4).try_for_each(|index| ensemble.member(index).spawn()).unwrap();
    ensemble.wait_for_all().unwrap();
    survive(&mut ensemble, 3).unwrap_or_else(|failure| panic!("{failure:?}"));
    let is_log = |name: &String| name.starts_with("log.");
    assert!(!files(&mut ensemble, 3).iter().any(is_log), "{:?}", files(&mut ensemble, 3));
    assert!(files(&mut ensemble, 0).iter().any(is_log), "{:?}", files(&mut ensemble, 0));
}
