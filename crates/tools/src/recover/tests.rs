//! The decision, fact by fact, and the whole command on directories.

use std::fs;

use zebu_proto::{Epoch, ServerId};

use super::decide::{Answer, Decision, Member, Place, decide};
use super::look::parse;
use super::*;

const LAST: Zxid = Zxid(0x5_0000_0003);
const LATER: Zxid = Zxid(0x5_0000_0007);

fn place(last: Option<Zxid>, committed: Option<Zxid>) -> Place {
    let (current_epoch, identity) = (Some(Epoch(5)), zebu_proto::Identity::Unknown);
    Place { path: "/data".into(), last, committed, current_epoch, identity, damage: None }
}

fn member(server: i64, answer: Option<(&str, Option<Zxid>)>) -> Member {
    let answer = answer.ok_or("connection refused".to_owned());
    let answer = answer.map(|(mode, zxid)| Answer { mode: mode.to_owned(), zxid });
    Member { server: ServerId(server), votes: true, leads: false, answer }
}

/// Server 1 is this one and is stopped. No other server answers.
fn facts(here: Place) -> Facts {
    Facts {
        me: ServerId(1),
        here,
        is_agreed: false,
        is_locked: false,
        others: Vec::new(),
        newest: None,
        members: (1..=3).map(|server| member(server, None)).collect(),
    }
}

/// The same, while the other two servers serve.
fn served(here: Place) -> Facts {
    let leader = member(2, Some(("leader", Some(LATER))));
    let follower = member(3, Some(("follower", Some(LATER))));
    Facts { members: vec![member(1, None), leader, follower], ..facts(here) }
}

#[track_caller]
fn may(facts: &Facts) -> (Decision, String) {
    match decide(facts) {
        Verdict::May { decision, name, .. } => (decision, name),
        other => panic!("{other}"),
    }
}

#[track_caller]
fn refused(facts: &Facts, part: &str) {
    match decide(facts) {
        Verdict::Refused(why) => assert!(why.contains(part), "{why}"),
        other => panic!("{other}"),
    }
}

#[track_caller]
fn nothing(facts: &Facts, part: &str) {
    match decide(facts) {
        Verdict::Nothing(why) => assert!(why.contains(part), "{why}"),
        other => panic!("{other}"),
    }
}

#[test]
fn an_empty_server_votes_only_where_it_is_known_what_is_lost() {
    refused(&facts(place(None, None)), "no history was found");
    let told = Facts { newest: Some(LAST), ..facts(place(None, None)) };
    assert_eq!(may(&told), (Decision::LetVote, format!("all-behind-{LAST}")));
    let copied = Facts { others: vec![place(Some(LATER), None)], ..told.clone() };
    assert_eq!(may(&copied).1, format!("all-behind-{LATER}"));
    // The message names the later committed transactions, and the silent voters.
    let known = Facts { others: vec![place(Some(LAST), Some(LATER))], ..told.clone() };
    let lost = decide(&known).to_string();
    assert!(lost.contains(&format!("of which {LATER} is known")), "{lost}");
    assert!(lost.contains("No answer came from server.2, server.3"), "{lost}");
    // A quorum brings it up to date.
    nothing(&served(place(None, None)), "start this server unchanged");
    // A server that does not answer may lead a quorum.
    let mut led = told.clone();
    led.members[1].leads = true;
    nothing(&led, "as server.2 shows");
    // No file would let it vote.
    let fresh = Place { current_epoch: None, ..place(None, None) };
    refused(&Facts { is_agreed: true, here: fresh, ..told }, "no file makes it vote");
}

#[test]
fn data_that_were_put_back_are_accepted_by_both_ends_of_what_is_lost() {
    let put_back = place(Some(LAST), Some(LATER));
    let (decision, name) = may(&facts(put_back.clone()));
    assert_eq!(decision, Decision::AcceptOlder);
    assert_eq!(name, "behind-0x500000003-up-to-0x500000007");
    nothing(&served(put_back), "start this server unchanged");
}

#[test]
fn a_history_is_given_up_only_for_that_of_a_quorum() {
    let whole = place(Some(LATER), Some(LATER));
    nothing(&facts(whole.clone()), "keep it and start this server");
    let (decision, name) = may(&served(whole));
    assert_eq!((decision, &*name), (Decision::GiveUp, "history-up-to-0x500000007"));
}

#[test]
fn a_server_that_runs_or_is_damaged_is_left_alone() {
    let whole = || place(Some(LAST), None);
    refused(&Facts { is_locked: true, ..facts(whole()) }, "stop it first");
    let mut runs = facts(whole());
    runs.members[0] = member(1, Some(("", None)));
    refused(&runs, "stop it first");
    let damaged = Place { damage: Some("/data/log.1 at offset 9".to_owned()), ..whole() };
    refused(&facts(damaged), "keep this directory");
}

#[test]
fn answers_are_read() {
    let text = "Zookeeper version: 3.9.5-x, built on y\nMode: follower\nZxid: 0x500000003\n";
    assert_eq!(parse(text), Some(Answer { mode: "follower".to_owned(), zxid: Some(LAST) }));
    let silent = "This ZooKeeper instance is not currently serving requests";
    assert_eq!(parse(silent), Some(Answer { mode: String::new(), zxid: None }));
    assert_eq!(parse("srvr is not executed because it is not in the whitelist."), None);
}

/// The configuration of server 1 of three; no other server runs.
struct Three(tempfile::TempDir);

impl Three {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("myid"), "1").unwrap();
        // No server listens there.
        let port = zebu_testkit::ports::free_port;
        let mut lines = format!("dataDir={}\ninitLimit=5\nsyncLimit=5\n", data.display());
        for server in 1..=3 {
            let line = format!("server.{server}=127.0.0.1:{}:{};{}\n", port(), port(), port());
            lines.push_str(&line);
        }
        fs::write(root.path().join("zoo.cfg"), lines).unwrap();
        Self(root)
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// A history of the original.
    fn history(&self) {
        let files = "../../tests/fixtures/zookeeper-3.9.5/basic/version-2";
        let to = self.data().join("version-2");
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(files)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }

    fn recover(&self, newest: Option<i64>, lose: Option<&str>) -> (Result<(), String>, String) {
        let args = RecoverArgs {
            configuration: ConfigArgs {
                config: self.0.path().join("zoo.cfg"),
                ..ConfigArgs::default()
            },
            credentials: CredentialArgs::default(),
            also: Vec::new(),
            newest,
            lose: lose.map(str::to_owned),
            timeout: 60_000,
        };
        let mut out = Vec::new();
        let done = recover(&args, &mut out).map_err(|failure| failure.to_string());
        (done, String::from_utf8(out).unwrap())
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.data()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(prefix)).collect()
    }
}

#[test]
fn nothing_changes_until_what_is_lost_is_named() {
    let three = Three::new();
    let (done, shown) = three.recover(Some(0x5_0000_0003), None);
    done.unwrap();
    assert!(shown.contains("--lose all-behind-0x500000003"), "{shown}");
    let (done, _) = three.recover(Some(0x5_0000_0003), Some("all-behind-0x500000002"));
    assert!(done.unwrap_err().contains("nothing was changed"));
    assert_eq!((three.names("initialize").len(), three.names("recovered").len()), (0, 0));
    let (done, shown) = three.recover(Some(0x5_0000_0003), Some("all-behind-0x500000003"));
    done.unwrap();
    assert!(shown.contains("initialize was created"), "{shown}");
    assert_eq!(three.names("initialize").len(), 1);
    let records = three.names("recovered-");
    let record = fs::read_to_string(three.data().join(&records[0])).unwrap();
    assert!(record.contains("confirmed: --lose all-behind-0x500000003"), "{record}");
    assert!(record.contains("server.2 (voter): no answer"), "{record}");
}

#[test]
fn data_that_were_put_back_vote_again_once_it_is_confirmed() {
    let three = Three::new();
    three.history();
    let (done, shown) = three.recover(None, None);
    done.unwrap();
    assert!(shown.contains("keep it and start this server"), "{shown}");
    let committed = three.data().join("version-2/committed");
    let digits = format!("{:016x}", LATER.0);
    let sum = crc32(digits.as_bytes());
    fs::write(&committed, format!("0x{digits} {sum:08x}\n")).unwrap();
    let (done, shown) = three.recover(None, None);
    done.unwrap();
    let name = shown.rsplit_once("--lose ").unwrap().1.trim().to_owned();
    assert!(name.starts_with("behind-0x") && name.ends_with("-up-to-0x500000007"), "{name}");
    three.recover(None, Some(&name)).0.unwrap();
    assert!(!committed.exists());
    let (done, shown) = three.recover(None, None);
    done.unwrap();
    assert!(shown.contains("keep it and start this server"), "{shown}");
}

#[test]
fn a_history_that_is_given_up_is_moved_away_whole() {
    let three = Three::new();
    three.history();
    let data = Config::embedded(three.data()).data;
    act::act(&data, Decision::GiveUp, "record", Timestamp::UNIX_EPOCH).unwrap();
    assert!(!three.data().join("version-2").exists());
    let moved = three.names("version-2.given-up-19700101T000000000Z");
    assert_eq!(moved.len(), 1);
    assert_eq!(fs::read_dir(three.data().join(&moved[0])).unwrap().count(), 2);
}

/// The checksum of the file `committed`, computed bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 }
        })
    })
}
