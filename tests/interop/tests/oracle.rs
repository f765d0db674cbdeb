//! Two members, and an oracle that decides which of them may continue alone.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::network::Network;
use zebu_interop::raw::Session;
use zebu_interop::server::{Kind, PATIENCE};

/// Creates a znode at a member that serves clients.
fn create(ensemble: &mut Ensemble, at: usize, path: &str) -> Result<()> {
    ensemble.member(at).wait_until_serving()?;
    let mut session = Session::open(ensemble.member(at).address(), 60_000)?;
    session.create(path, b"", 0)?;
    session.close()
}

/// One of two members continues alone if the oracle permits it. When the other one returns, it
/// receives all transactions.
fn go_on_alone(kinds: [Kind; 2]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    // The file in each member's folder contains the oracle's answer.
    let oracle = |index: usize| folder.path().join(format!("oracle-{index}"));
    let say = |first: &str, second: &str| -> Result<()> {
        fs::write(oracle(0), first)?;
        Ok(fs::write(oracle(1), second)?)
    };
    say("0", "0")?;
    let with_oracle =
        |index: usize| options().config("oraclePath", oracle(index).to_string_lossy());
    let network = Network::loopback(2);
    let mut ensemble = Ensemble::prepare_each(network, &kinds, 0, &with_oracle)?.started()?;
    create(&mut ensemble, 0, "/together")?;
    for alone in [0, 1, 0] {
        let other = 1 - alone;
        ensemble.member(other).kill()?;
        // Without the oracle's permission no member serves clients.
        let start = Instant::now();
        while ensemble.member(alone).four_letter_word("srvr")?.contains("Mode:") {
            ensure!(start.elapsed() < PATIENCE, "it still serves");
            std::thread::sleep(Duration::from_millis(20));
        }
        if alone == 0 {
            say("1", "0")?
        } else {
            say("0", "1")?
        }
        create(&mut ensemble, alone, &format!("/alone-{}", start.elapsed().as_nanos()))?;
        ensemble.member(other).spawn()?;
        ensemble.wait_for_all()?;
        say("0", "0")?;
        create(&mut ensemble, other, &format!("/both-{}", start.elapsed().as_nanos()))?;
        let tree = ensemble.agreed_tree()?;
        ensure!(tree.contains("/together ") && tree.contains("/alone-"), "{tree}");
    }
    let tree = ensemble.agreed_tree()?;
    let count = |start: &str| tree.lines().filter(|line| line.starts_with(start)).count();
    ensure!(count("/alone-") == 3 && count("/both-") == 3, "{tree}");
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn one_of_each_kind_goes_on_alone_when_the_oracle_says_so() {
    for kinds in [[Kind::Zebu, Kind::Java395], [Kind::Java395, Kind::Zebu]] {
        go_on_alone(kinds).unwrap_or_else(|failure| panic!("{kinds:?}: {failure:?}"));
    }
}

#[test]
fn one_of_two_goes_on_alone_when_the_oracle_says_so() {
    go_on_alone([Kind::Zebu; 2]).unwrap_or_else(|failure| panic!("{failure:?}"));
}
