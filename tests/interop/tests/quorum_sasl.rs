//! SASL DIGEST-MD5 between servers: members of Zebu and of the original in one ensemble.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::network::Network;
use zebu_interop::server::Kind::{Java380, Java395, Zebu};
use zebu_interop::server::Options;

const ENABLED: &str = "quorum.auth.enableSasl";
const LEARNER: &str = "quorum.auth.learnerRequireSasl";
const SERVER: &str = "quorum.auth.serverRequireSasl";

/// The steps in the original's documentation.
const OFF: &[&str] = &[];
const HEARD: &[&str] = &[ENABLED];
const SAID: &[&str] = &[ENABLED, LEARNER];
const REQUIRED: &[&str] = &[ENABLED, LEARNER, SERVER];

/// The file of a member that authenticates as `zk` with this password.
fn jaas(folder: &TempDir, password: &str) -> Result<PathBuf> {
    let path = folder.path().join(format!("{password}.conf"));
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let text = format!(
        "QuorumServer {{ {module} user_zk=\"right\"; }};\nQuorumLearner {{ {module} username=\"zk\" password=\"{password}\"; }};\n"
    );
    fs::write(&path, text)?;
    Ok(path)
}

fn with(jaas: &Path, on: &[&str]) -> Options {
    let options = options()
        .property("java.security.auth.login.config", jaas.display())
        // With this setting the original has no DIGEST-MD5.
        .property("zookeeper.fips-mode", "false");
    on.iter().fold(options, |options, key| options.config(key, "true"))
}

/// Under a leader of either kind, members of both kinds follow, and a wiped one receives its tree.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_of_all_kinds_authenticate() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = jaas(&folder, "right")?;
    for kinds in [[Zebu, Java395, Java395], [Java395, Java380, Zebu], [Zebu, Zebu, Java395]] {
        let run = || {
            let network = Network::loopback(kinds.len());
            let prepared = Ensemble::prepare_each(network, &kinds, 0, &|_| with(&file, REQUIRED))?;
            let mut ensemble = prepared.started()?;
            ensemble.members_of_all_kinds_take_part()
        };
        run().with_context(|| format!("{kinds:?}"))?;
    }
    Ok(())
}

/// Members of 3.8.0 become members of Zebu one by one, and these members of 3.9.5, while all of
/// them require SASL.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_are_replaced_one_by_one() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = jaas(&folder, "right")?;
    let kinds = [Java380, Java380, Java380];
    let network = Network::loopback(kinds.len());
    let prepared = Ensemble::prepare_each(network, &kinds, 0, &|_| with(&file, REQUIRED))?;
    let mut ensemble = prepared.started()?;
    ensemble.put_everywhere(0, "/first")?;
    for kind in [Zebu, Java395] {
        for index in 0..kinds.len() {
            ensemble.member(index).stop()?;
            ensemble.member(index).change_kind(kind);
            ensemble.member(index).launch()?;
            ensemble
                .put_everywhere(index, &format!("/{kind:?}-{index}"))
                .with_context(|| format!("member {} is {kind:?}", index + 1))?;
        }
    }
    ensemble.no_mismatches()
}

/// A running ensemble with members of both kinds starts to require SASL, in the steps of the
/// original's documentation.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_mixed_ensemble_comes_to_require_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = jaas(&folder, "right")?;
    let kinds = [Java395, Zebu, Zebu];
    let network = Network::loopback(kinds.len());
    let prepared = Ensemble::prepare_each(network, &kinds, 0, &|_| with(&file, OFF))?;
    let mut ensemble = prepared.started()?;
    ensemble.put_everywhere(0, "/without")?;
    for (step, on) in [HEARD, SAID, REQUIRED].into_iter().enumerate() {
        for index in 0..kinds.len() {
            ensemble.member(index).stop()?;
            for key in on {
                ensemble.member(index).configure(key, "true");
            }
            ensemble.member(index).launch()?;
            ensemble
                .put_everywhere(index, &format!("/step-{step}-{index}"))
                .with_context(|| format!("member {} with {on:?}", index + 1))?;
        }
    }
    ensemble.no_mismatches()
}

/// Members of either kind refuse a member with another password, and one without SASL, and continue
/// without it.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn who_does_not_authenticate_is_kept_out() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (right, wrong) = (jaas(&folder, "right")?, jaas(&folder, "wrong")?);
    for kinds in [[Zebu, Zebu, Zebu], [Zebu, Zebu, Java395], [Java395, Java395, Zebu]] {
        for (file, on) in [(&wrong, REQUIRED), (&right, OFF)] {
            let run = || {
                let each: &dyn Fn(usize) -> Options = &|index| match index {
                    2 => with(file, on),
                    _ => with(&right, REQUIRED),
                };
                let network = Network::loopback(3);
                let mut ensemble = Ensemble::prepare_each(network, &kinds, 0, each)?;
                ensemble.start_without_third()
            };
            run().with_context(|| format!("{kinds:?} {on:?}"))?;
        }
    }
    Ok(())
}
