//! Members with several addresses each.

use std::time::Instant;

use anyhow::{Result, ensure};
use zebu_interop::ensemble::{Ensemble, LONG, options, quick_options};
use zebu_interop::faults::PROGRESS;
use zebu_interop::load::Load;
use zebu_interop::network::Network;
use zebu_interop::server::Kind::{self, Java395, Zebu};

/// Members elect a leader, follow it, lose it and return, by any of their addresses.
fn survive(kinds: &[Kind], one_is_dead: bool) -> Result<()> {
    let network = Network::two_addresses(kinds.len(), one_is_dead);
    let options = options().property("zookeeper.multiAddress.enabled", "true");
    let mut ensemble = Ensemble::prepare_on(network, kinds, 0, &options)?.started()?;
    let load = Load::start(&ensemble.addresses())?;
    load.wait_for(PROGRESS)?;
    for _ in 0..2 {
        let leader = ensemble.leader(None)?;
        ensemble.member(leader).kill()?;
        load.wait_for(PROGRESS)?;
        ensemble.member(leader).spawn()?;
        ensemble.wait_for_all()?;
    }
    let told = load.finish()?;
    told.check(&ensemble.agreed_tree()?)?;
    for member in ensemble.members() {
        let conf = member.four_letter_word("conf")?;
        let line = |start| conf.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        ensure!(line("server.1=").contains('|') && !line("quorumPort=").contains('|'), "{conf}");
    }
    Ok(())
}

/// All paths to the first addresses are cut while clients write: the members continue over the
/// second ones.
fn lose_a_path(kind: Kind) -> Result<()> {
    let network = match Network::two_paths(3) {
        Ok(network) => network,
        Err(error) => {
            eprintln!("no network namespaces on this machine: {error:#}");
            return Ok(());
        }
    };
    let options = quick_options().property("zookeeper.multiAddress.enabled", "true");
    let mut ensemble = Ensemble::prepare_on(network, &[kind; 3], 0, &options)?.started()?;
    let load = Load::start(&ensemble.addresses())?;
    load.wait_for(PROGRESS)?;
    for from in 0..3 {
        for to in (0..3).filter(|to| *to != from) {
            ensemble.network().cut(from, to)?;
        }
    }
    let start = Instant::now();
    // A peer counts as connected until the limits have passed.
    std::thread::sleep(LONG);
    load.wait_for(PROGRESS)?;
    ensemble.wait_for_all()?;
    println!("{kind:?} goes on after {:.1?}", start.elapsed());
    // It does not matter which member leads.
    let leader = ensemble.leader(None)?;
    ensemble.member(leader).kill()?;
    ensemble.leader(Some(leader))?;
    load.wait_for(PROGRESS)?;
    println!("{kind:?} has another leader after {:.1?}", start.elapsed());
    ensemble.member(leader).spawn()?;
    ensemble.wait_for_all()?;
    ensemble.network().heal()?;
    load.wait_for(PROGRESS)?;
    let told = load.finish()?;
    told.check(&ensemble.agreed_tree()?)?;
    Ok(())
}

#[test]
fn members_go_on_over_the_other_path() {
    done(lose_a_path(Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_of_the_original_go_on_over_the_other_path() {
    done(lose_a_path(Java395));
}

fn done(result: Result<()>) {
    result.unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
fn members_reach_each_other_at_the_address_that_answers() {
    done(survive(&[Zebu; 3], true));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_of_both_kinds_have_several_addresses() {
    done(survive(&[Zebu, Java395, Zebu], false));
    done(survive(&[Java395, Zebu, Java395], false));
}
