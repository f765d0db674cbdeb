//! The procedures in `docs/recovery.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use zebu_interop::deps;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::http::get;
use zebu_interop::members::Members;
use zebu_interop::network::Network;
use zebu_interop::raw::Session;
use zebu_interop::run::succeed;
use zebu_interop::server::Kind::{self, Zebu};
use zebu_interop::server::{Options, PATIENCE, free_port};

/// Copies the data of another server to a stopped server.
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

/// Two of three servers have lost all data, and the third one has its data.
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
    // Each server writes that znode at its start.
    let config = |line: &&str| !line.starts_with("/zookeeper/config");
    ensure!(after.lines().filter(config).eq(before.lines().filter(config)), "{after}");
    let mut session = Session::open(ensemble.member(2).address(), 60_000)?;
    session.create("/after", b"", 0)?;
    session.close()?;
    ensemble.agreed_tree()?;
    Ok(())
}

/// The log message of a member that contacts members of another ensemble.
const OTHERS: &str = "is refused: it belongs to ensemble";
/// The message of an empty member that knows of a history.
const ABSTAINS: &str = "neither votes nor serves until a leader elected without it";

fn wait_for_words(ensemble: &mut Ensemble, index: usize, words: &str) -> Result<()> {
    let start = Instant::now();
    while !ensemble.member(index).log().contains(words) {
        ensure!(start.elapsed() < PATIENCE, "{}", ensemble.member(index).log());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn write_all(ensemble: &mut Ensemble, index: usize, numbers: std::ops::Range<u32>) -> Result<()> {
    let mut session = Session::open(ensemble.member(index).address(), 60_000)?;
    for number in numbers {
        session.create(&format!("/{number}"), b"", 0)?;
    }
    session.close()
}

/// The port of the last admin server in a log.
fn admin_port(log: &str) -> Result<u16> {
    let (_, behind) = log.rsplit_once("over HTTP on port ").context("no admin server")?;
    let end = behind.find(|it: char| !it.is_ascii_digit()).unwrap_or(behind.len());
    Ok(behind[..end].parse()?)
}

/// Enough time for members that vote for each other to elect a leader.
fn while_they_could_elect() {
    std::thread::sleep(Duration::from_secs(3));
}

/// A majority without data starts first and forms a new ensemble. The survivor keeps its data.
fn a_majority_starts_empty() -> Result<()> {
    let mut ensemble = Ensemble::start(&[Zebu; 3], &options())?;
    write_all(&mut ensemble, 0, 0..50)?;
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
    wait_for_words(&mut ensemble, 0, OTHERS)?;
    for index in 0..3 {
        ensemble.member(index).kill()?;
    }
    // The procedure for a majority that has lost its data.
    let survivor = ensemble.member(0).data().to_owned();
    for index in [1, 2] {
        copy_history(&survivor, ensemble.member(index).data())?;
    }
    for index in 0..3 {
        ensemble.member(index).spawn()?;
    }
    ensure!(ensemble.agreed_tree()?.contains("\n/49 "), "the last one is there again");
    Ok(())
}

/// A majority without data learns of the survivor's history, and waits for its operator.
fn a_majority_starts_empty_beside_the_survivor() -> Result<()> {
    let mut ensemble = Ensemble::start(&[Zebu; 3], &options())?;
    write_all(&mut ensemble, 0, 0..50)?;
    ensemble.agreed_tree()?;
    for index in 0..3 {
        ensemble.member(index).kill()?;
    }
    ensemble.member(0).spawn()?;
    ensemble.member(0).wait_until_it_says("srvr", |text| text.contains("not currently serving"))?;
    ensemble.wipe(1)?;
    ensemble.member(1).spawn()?;
    wait_for_words(&mut ensemble, 1, ABSTAINS)?;
    ensemble.wipe(2)?;
    ensemble.member(2).spawn()?;
    wait_for_words(&mut ensemble, 2, ABSTAINS)?;
    while_they_could_elect();
    // The operator lets one of the two vote without data.
    let member = ensemble.member(1);
    member.kill()?;
    fs::write(member.data().join("initialize"), "")?;
    member.spawn()?;
    ensure!(ensemble.agreed_tree()?.contains("\n/49 "), "the survivor's history goes on");
    Ok(())
}

/// One member is behind, one has lost its data, and only the third has all acknowledged
/// transactions.
fn an_empty_member_starts_beside_a_stale_one(stale: Kind) -> Result<()> {
    let options = options()
        .config("admin.enableServer", "true")
        .config("admin.serverAddress", "127.0.0.1")
        .config("admin.serverPort", 0);
    let mut ensemble = Ensemble::start(&[Zebu, Zebu, stale], &options)?;
    write_all(&mut ensemble, 0, 0..10)?;
    ensemble.agreed_tree()?;
    ensemble.member(2).kill()?;
    // If it leads, the others follow it until they notice.
    ensemble.leader(Some(2))?;
    ensemble.member(1).wait_until_serving()?;
    write_all(&mut ensemble, 1, 10..50)?;
    for index in [0, 1] {
        ensemble.member(index).kill()?;
    }
    ensemble.wipe(1)?;
    for index in [1, 2] {
        ensemble.member(index).spawn()?;
    }
    wait_for_words(&mut ensemble, 1, ABSTAINS)?;
    while_they_could_elect();
    let ready = get(admin_port(&ensemble.member(1).log())?, "/health/ready")?;
    let reasons = ready.json()?["reasons"].to_string();
    for reason in ["lost, damaged or put back", "voters that cannot be reached: 1"] {
        ensure!(reasons.contains(reason), "{reasons}");
    }
    ensemble.member(0).spawn()?;
    ensure!(ensemble.agreed_tree()?.contains("\n/49 "), "nothing is lost");
    Ok(())
}

/// The same after a reconfiguration, so that the member without data may not vote. A removed server
/// returns.
fn a_majority_of_a_changed_ensemble_loses_its_data() -> Result<()> {
    let mut members = Members::start(&[Zebu; 3], false)?;
    members.join(4, Zebu, &[1, 2, 3])?;
    let entry = members.entry(4, "participant");
    members.change(1, &[entry], &[])?;
    let config = members.change(1, &[], &[3])?;
    members.expect(&[1, 2, 4], &config)?;
    members.write(&[1, 2, 4], "before")?;
    // The server knows that it was removed, so it does not start again.
    members.expect(&[3], &config)?;
    for id in 1..=4 {
        members.server(id).kill()?;
    }
    ensure!(!members.server(3).expect_refusal()?.success(), "a removed server ends as if in order");
    // The two servers start without their data and wait. Nothing is lost.
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
    // With empty data, and with the current members.
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
fn the_survivor_keeps_what_it_has_when_a_majority_starts_empty() {
    done(a_majority_starts_empty());
}

#[test]
fn a_majority_that_starts_empty_beside_the_survivor_waits_for_its_operator() {
    done(a_majority_starts_empty_beside_the_survivor());
}

#[test]
fn an_empty_member_does_not_elect_one_that_is_behind() {
    done(an_empty_member_starts_beside_a_stale_one(Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn an_empty_member_does_not_elect_one_of_the_originals_that_is_behind() {
    done(an_empty_member_starts_beside_a_stale_one(Kind::Java395));
}

#[test]
fn a_changed_ensemble_goes_on_with_the_history_of_one_server_and_takes_a_removed_one_back() {
    done(a_majority_of_a_changed_ensemble_loses_its_data());
}

/// Stops a member, and overwrites a sector in the middle of its log with zeros, which look like the
/// end of the log. Each member has its damage at a different place.
fn damage(ensemble: &mut Ensemble, index: usize) -> Result<()> {
    ensemble.member(index).stop()?;
    let history = ensemble.member(index).data().join("version-2");
    let is_log = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log."))
    };
    let paths = fs::read_dir(&history)?.map(|entry| Ok(entry?.path()));
    let logs = paths.collect::<Result<Vec<PathBuf>>>()?.into_iter().filter(is_log);
    let longest = |path: &PathBuf| fs::read(path).map_or(0, |bytes| written(&bytes));
    let log = logs.max_by_key(longest).context("no log")?;
    let mut bytes = fs::read(&log)?;
    let at = written(&bytes) * (index + 1) / 4 / 512 * 512;
    bytes[at..at + 512].fill(0);
    fs::write(&log, bytes)?;
    Ok(())
}

/// Starts an ensemble, executes 300 writes, and damages the log of each member. Also returns the
/// tree.
fn damaged_everywhere(options: &Options) -> Result<(Ensemble, String)> {
    let mut ensemble = Ensemble::start(&[Zebu; 3], options)?;
    write_all(&mut ensemble, 0, 0..300)?;
    let before = ensemble.agreed_tree()?;
    for index in 0..3 {
        damage(&mut ensemble, index)?;
    }
    Ok((ensemble, before))
}

/// Each server writes the znode of the configuration at its start.
fn ensure_same(before: &str, after: &str) -> Result<()> {
    let config = |line: &&str| !line.starts_with("/zookeeper/config");
    ensure!(after.lines().filter(config).eq(before.lines().filter(config)), "{after}");
    Ok(())
}

/// All members have damage, each at a different place. The first member to start waits, and names
/// the missing transactions. When the others have started, all get their missing transactions from
/// each other, and nothing is lost. F13.
fn all_recover_together(options: Options) -> Result<()> {
    let options = options
        .config("admin.enableServer", "true")
        .config("admin.serverAddress", "127.0.0.1")
        .config("admin.serverPort", 0);
    let (mut ensemble, before) = damaged_everywhere(&options)?;
    ensemble.member(0).spawn()?;
    wait_for_words(
        &mut ensemble,
        0,
        "no reachable member has an intact copy of these transactions",
    )?;
    let ready = get(admin_port(&ensemble.member(0).log())?, "/health/ready")?;
    let reasons = ready.json()?["reasons"].to_string();
    ensure!(reasons.contains("no reachable member has an intact copy"), "{reasons}");
    let said = ensemble.member(0).four_letter_word("srvr")?;
    ensure!(said.contains("not currently serving"), "{said}");
    for index in [1, 2] {
        ensemble.member(index).spawn()?;
    }
    ensure_same(&before, &ensemble.agreed_tree()?)?;
    // An election requires two of these members, and no member had further transactions to send.
    let repaired = (0..3).filter(|index| {
        let log = ensemble.member(*index).log();
        log.contains(": repaired: other members supplied ")
    });
    ensure!(repaired.count() >= 2, "{}", ensemble.member(0).log());
    write_all(&mut ensemble, 1, 300..320)?;
    ensemble.agreed_tree()?;
    Ok(())
}

/// The same, but an operator repairs copies of the members' files.
fn all_are_repaired_by_their_operator() -> Result<()> {
    let (mut ensemble, before) = damaged_everywhere(&options())?;
    let copies = tempfile::tempdir()?;
    let member = |index: usize| copies.path().join(format!("member{index}"));
    for index in 0..3 {
        fs::create_dir(member(index))?;
        copy_history(ensemble.member(index).data(), &member(index))?;
    }
    for index in [0, 1] {
        let into = copies.path().join(format!("repaired{index}"));
        let mut command = Command::new(deps::zebu());
        command.arg("repair").arg(member(index)).arg("--into").arg(&into);
        for other in (0..3).filter(|other| *other != index) {
            command.arg("--from").arg(member(other));
        }
        let said = succeed(&mut command, PATIENCE)?;
        ensure!(said.contains("transactions are from other sources"), "{said}");
        copy_history(&into, ensemble.member(index).data())?;
    }
    for index in 0..3 {
        ensemble.member(index).spawn()?;
    }
    ensure_same(&before, &ensemble.agreed_tree()?)
}

/// A majority has damage in every snapshot that its logs continue. Each member says what it waits
/// for, and an operator takes a snapshot of the third.
fn a_majority_has_damaged_snapshots() -> Result<()> {
    let ports = [(); 3].map(|()| free_port());
    let options = |index: usize| {
        options()
            .property("zookeeper.snapCount", 30)
            .config("admin.enableServer", "true")
            .config("admin.serverAddress", "127.0.0.1")
            .config("admin.serverPort", ports[index])
    };
    let mut ensemble = Ensemble::prepare_each(Network::loopback(3), &[Zebu; 3], 0, &options)?;
    ensemble = ensemble.started()?;
    write_all(&mut ensemble, 0, 0..300)?;
    let before = ensemble.agreed_tree()?;
    for index in 0..3 {
        ensemble.member(index).stop()?;
    }
    for index in [0, 1] {
        let data = ensemble.member(index).data().to_owned();
        // The logs begin with a snapshot then.
        let mut purge = Command::new(deps::zebu());
        succeed(purge.arg("purge").arg(&data).args(["-n", "3"]), PATIENCE)?;
        let mut hit = 0;
        for file in fs::read_dir(data.join("version-2"))? {
            let path = file?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let name = name.unwrap_or_default();
            ensure!(name != "log.1" && name != "log.100000001", "no log was removed");
            if name.starts_with("snapshot.") {
                let mut bytes = fs::read(&path)?;
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                fs::write(&path, bytes)?;
                hit += 1;
            }
        }
        ensure!(hit > 0, "no snapshot");
    }
    for index in 0..3 {
        ensemble.member(index).spawn()?;
    }
    let (own, others) = ("no snapshot can be read", "lost, damaged or put back: ");
    for (index, words) in
        [(0, [own, "put back: 2"]), (1, [own, "put back: 1"]), (2, [others, "put back: 1, 2"])]
    {
        let start = Instant::now();
        let mut reasons = String::new();
        while !words.iter().all(|words| reasons.contains(words)) {
            ensure!(start.elapsed() < PATIENCE, "member {}: {reasons}", index + 1);
            std::thread::sleep(Duration::from_millis(50));
            reasons = get(ports[index], "/health/ready")?.json()?["reasons"].to_string();
        }
        let member = ensemble.member(index);
        ensure!(member.four_letter_word("srvr")?.contains("not currently serving"), "{reasons}");
        let told = member.log().contains("neither votes nor serves until a leader");
        ensure!(told == (index < 2), "{}", member.log());
    }
    for index in 0..3 {
        ensemble.member(index).stop()?;
    }
    let copies = tempfile::tempdir()?;
    let into = copies.path().join("repaired");
    let mut command = Command::new(deps::zebu());
    let history = |index: usize| ensemble.members()[index].data().to_owned();
    command.arg("repair").arg(history(0)).arg("--from").arg(history(2)).arg("--into").arg(&into);
    succeed(&mut command, PATIENCE)?;
    copy_history(&into, ensemble.member(0).data())?;
    for index in 0..3 {
        ensemble.member(index).spawn()?;
    }
    ensure_same(&before, &ensemble.agreed_tree()?)
}

/// The newest snapshot of a majority, or of all, is damaged. Each of these members starts from an
/// older snapshot and the logs after it, so nobody waits, and nothing is lost.
fn newest_snapshots_are_damaged(members: std::ops::Range<usize>) -> Result<()> {
    let options = options().property("zookeeper.snapCount", 30);
    let mut ensemble = Ensemble::start(&[Zebu; 3], &options)?;
    write_all(&mut ensemble, 0, 0..300)?;
    let before = ensemble.agreed_tree()?;
    for index in 0..3 {
        ensemble.member(index).stop()?;
    }
    for index in members.clone() {
        let history = ensemble.member(index).data().join("version-2");
        let mut snapshots = Vec::new();
        for file in fs::read_dir(history)? {
            let path = file?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let zxid = name.as_deref().and_then(|name| name.strip_prefix("snapshot."));
            let zxid = zxid.and_then(|zxid| i64::from_str_radix(zxid, 16).ok());
            snapshots.extend(zxid.map(|zxid| (zxid, path)));
        }
        snapshots.sort();
        ensure!(snapshots.len() > 1, "member {}: {snapshots:?}", index + 1);
        let (_, newest) = snapshots.pop().context("no snapshot")?;
        let mut bytes = fs::read(&newest)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&newest, bytes)?;
    }
    for index in 0..3 {
        ensemble.member(index).spawn()?;
    }
    ensure_same(&before, &ensemble.agreed_tree()?)?;
    for index in members {
        let log = ensemble.member(index).log();
        ensure!(!log.contains("neither votes nor serves"), "{log}");
    }
    write_all(&mut ensemble, 1, 300..320)?;
    ensemble.agreed_tree()?;
    Ok(())
}

/// Members with TLS between each other.
fn with_tls() -> Options {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/interop");
    let store = |name: &str| root.join("crates/auth/tests/fixtures").join(name);
    options()
        .config("sslQuorum", "true")
        .config("ssl.quorum.keyStore.location", store("keytool17.p12").display())
        .config("ssl.quorum.keyStore.password", "testpass")
        .config("ssl.quorum.trustStore.location", store("trust17.p12").display())
        .config("ssl.quorum.trustStore.password", "testpass")
}

/// Members with SASL between each other.
fn with_sasl(folder: &Path) -> Result<Options> {
    let file = folder.join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let text = format!(
        "QuorumServer {{ {module} user_zk=\"right\"; }};\nQuorumLearner {{ {module} username=\"zk\" password=\"right\"; }};\n"
    );
    fs::write(&file, text)?;
    let required = ["enableSasl", "learnerRequireSasl", "serverRequireSasl"];
    let options = options().property("java.security.auth.login.config", file.display());
    Ok(required
        .iter()
        .fold(options, |options, key| options.config(&format!("quorum.auth.{key}"), "true")))
}

/// The length of the written part of a log.
fn written(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn members_that_are_all_damaged_recover_together() {
    done(all_recover_together(options()));
}

#[test]
fn members_that_are_all_damaged_recover_together_over_tls() {
    done(all_recover_together(with_tls()));
}

#[test]
fn members_that_are_all_damaged_recover_together_with_sasl() {
    let folder = tempfile::tempdir().unwrap();
    done(with_sasl(folder.path()).and_then(all_recover_together));
}

#[test]
fn members_that_are_all_damaged_are_repaired_from_each_other() {
    done(all_are_repaired_by_their_operator());
}

#[test]
fn members_whose_newest_snapshots_are_damaged_start_from_older_ones() {
    for members in [0..2, 0..3] {
        done(newest_snapshots_are_damaged(members));
    }
}

#[test]
fn members_of_which_a_majority_has_only_damaged_snapshots_name_them_and_are_repaired() {
    done(a_majority_has_damaged_snapshots());
}
