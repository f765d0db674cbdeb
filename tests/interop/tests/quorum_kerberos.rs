//! Kerberos between servers: members of Zebu and of the original in one ensemble, with an MIT key
//! distribution centre.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::kdc::Kdc;
use zebu_interop::network::Network;
use zebu_interop::server::Kind::{Java395, Zebu};
use zebu_interop::server::{Options, PATIENCE};

const STEPS: [&str; 3] =
    ["quorum.auth.enableSasl", "quorum.auth.learnerRequireSasl", "quorum.auth.serverRequireSasl"];

/// The members have loopback addresses, and their Kerberos names contain the names of those
/// addresses.
const SERVER: &str = "zkquorum/localhost";
const LEARNER: &str = "learner/127.0.0.1";
const STRANGER: &str = "learner/elsewhere.example.org";

/// A member that authenticates as `learner`.
fn member(kdc: &Kdc, name: &str, learner: &str) -> Result<Options> {
    let jaas = kdc.jaas(name, &[("QuorumServer", SERVER, ""), ("QuorumLearner", learner, "")])?;
    let options = kdc
        .options(options())
        .property("java.security.auth.login.config", jaas.display())
        .config("quorum.auth.kerberos.servicePrincipal", SERVER);
    Ok(STEPS.into_iter().fold(options, |options, key| options.config(key, "true")))
}

/// Under a leader of either kind, members of both kinds follow, also after a restart.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_of_both_kinds_authenticate() -> Result<()> {
    let kdc = Kdc::start(&[SERVER, LEARNER])?;
    let options = member(&kdc, "member.conf", LEARNER)?;
    for kinds in [[Zebu, Java395, Java395], [Java395, Zebu, Zebu], [Zebu, Zebu, Zebu]] {
        let run = || {
            let network = Network::loopback(kinds.len());
            let prepared = Ensemble::prepare_each(network, &kinds, 0, &|_| options.clone())?;
            let mut ensemble = prepared.started()?;
            for index in 0..kinds.len() {
                ensemble.put(index, &format!("/by-{index}"))?;
            }
            let leader = ensemble.leader(None)?;
            ensemble.member(leader).restart()?;
            ensemble.put_everywhere(leader, "/another-leader")
        };
        run().with_context(|| format!("{kinds:?}"))?;
    }
    Ok(())
}

/// Members of either kind refuse a server whose principal has a host that is in no list of members.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn who_is_of_another_host_is_kept_out() -> Result<()> {
    let kdc = Kdc::start(&[SERVER, LEARNER, STRANGER])?;
    let member_options = member(&kdc, "member.conf", LEARNER)?;
    let stranger = member(&kdc, "stranger.conf", STRANGER)?;
    for kinds in [[Zebu, Zebu, Java395], [Java395, Java395, Zebu], [Zebu, Zebu, Zebu]] {
        let run = || {
            let each: &dyn Fn(usize) -> Options = &|index| match index {
                2 => stranger.clone(),
                _ => member_options.clone(),
            };
            let mut ensemble = Ensemble::prepare_each(Network::loopback(3), &kinds, 0, each)?;
            ensemble.start_without_third()?;
            if kinds[0] == Zebu {
                let said =
                    format!("{STRANGER}@ZEBU.TEST\" belongs to no host in the list of members");
                let start = Instant::now();
                // The server tries repeatedly, and a warning of another kind may come first.
                loop {
                    let logs =
                        [0, 1].map(|index| ensemble.member(index).log_lines(&["SASL fails"]));
                    if logs.iter().any(|log| log.contains(&said)) {
                        break;
                    }
                    ensure!(start.elapsed() < PATIENCE, "{logs:?}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            Ok(())
        };
        run().with_context(|| format!("{kinds:?}"))?;
    }
    Ok(())
}
