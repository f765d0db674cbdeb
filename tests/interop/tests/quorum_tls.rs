//! TLS between servers: members of Zebu and of the original in one ensemble.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::network::Network;
use zebu_interop::server::Kind::{self, Java380, Java395, Zebu};
use zebu_interop::server::Options;

/// A key store of the tests of `zebu-auth`. All passwords are `testpass`.
fn store(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/interop");
    root.join("crates/auth/tests/fixtures").join(name)
}

/// The TLS settings of a member: lines for `zoo.cfg`.
#[derive(Clone, Copy, Debug)]
struct Tls(&'static [(&'static str, &'static str)]);

const PLAIN: Tls = Tls(&[]);
const BOTH_ACCEPTED: Tls = Tls(&[("portUnification", "true")]);
const BOTH_DIALLED: Tls = Tls(&[("portUnification", "true"), ("sslQuorum", "true")]);
const ONLY: Tls = Tls(&[("sslQuorum", "true")]);
const ONLY_13: Tls =
    Tls(&[("sslQuorum", "true"), ("ssl.quorum.enabledProtocols", "TLSv1.3,TLSv1.2")]);

fn with(tls: Tls) -> Options {
    let options = options()
        .config("ssl.quorum.keyStore.location", store("keytool17.p12").display())
        .config("ssl.quorum.keyStore.password", "testpass")
        .config("ssl.quorum.trustStore.location", store("trust17.p12").display())
        .config("ssl.quorum.trustStore.password", "testpass");
    tls.0.iter().fold(options, |options, (key, value)| options.config(key, value))
}

fn start(kinds: &[Kind], tls: Tls) -> Result<Ensemble> {
    Ensemble::prepare_each(Network::loopback(kinds.len()), kinds, 0, &|_| with(tls))?.started()
}

/// Under a leader of either kind, members of both kinds follow, and a wiped one receives its tree.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_of_all_kinds_speak_tls() -> Result<()> {
    for (tls, kinds) in [
        (ONLY, [Zebu, Java395, Java395]),
        (ONLY_13, [Java395, Java380, Zebu]),
        (BOTH_DIALLED, [Java380, Zebu, Java395]),
    ] {
        let run = || {
            let mut ensemble = start(&kinds, tls)?;
            ensemble.members_of_all_kinds_take_part()
        };
        run().with_context(|| format!("{tls:?} {kinds:?}"))?;
    }
    Ok(())
}

/// A running ensemble with members of both kinds switches to TLS in the steps of the original's
/// documentation.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_mixed_ensemble_goes_over_to_tls() -> Result<()> {
    let kinds = [Java395, Zebu, Zebu];
    let mut ensemble = start(&kinds, PLAIN)?;
    ensemble.put_everywhere(0, "/plain")?;
    for (step, tls) in [BOTH_ACCEPTED, BOTH_DIALLED, ONLY].into_iter().enumerate() {
        for index in 0..kinds.len() {
            ensemble.member(index).stop()?;
            // A missing line means no.
            let switches = ["portUnification", "sslQuorum"].map(|key| (key, "false"));
            for (key, value) in switches.iter().chain(tls.0) {
                ensemble.member(index).configure(key, value);
            }
            ensemble.member(index).launch()?;
            ensemble
                .put_everywhere(index, &format!("/step-{step}-{index}"))
                .with_context(|| format!("member {} with {tls:?}", index + 1))?;
        }
    }
    ensemble.no_mismatches()
}

/// An ensemble of the original that uses TLS is replaced by Zebu member by member, and the other
/// way round.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_with_tls_are_replaced_one_by_one() -> Result<()> {
    let mut ensemble = start(&[Java395; 3], ONLY)?;
    ensemble.put_everywhere(0, "/theirs")?;
    for (name, kind) in [("ours", Zebu), ("theirs-again", Java380)] {
        for index in 0..3 {
            ensemble.member(index).stop()?;
            ensemble.member(index).change_kind(kind);
            ensemble.member(index).launch()?;
            ensemble
                .put_everywhere(index, &format!("/{name}-{index}"))
                .with_context(|| format!("member {} is {kind:?}", index + 1))?;
        }
    }
    ensemble.no_mismatches()
}
