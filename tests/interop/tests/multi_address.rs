//! Members with several addresses each.

use anyhow::{Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::faults::PROGRESS;
use zebu_interop::load::Load;
use zebu_interop::network::Network;
use zebu_interop::server::Kind::{self, Java395, Zebu};

/// Members elect, follow, lose their leader and come back, whichever address it takes.
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
