//! Every word, compared with text recorded from a server of the original.

use super::*;
use crate::fake::Fake;

fn all() -> Whitelist {
    Whitelist::new(&["*".to_owned()], false)
}

#[track_caller]
fn check(word: Word, facts: &Fake, expected: &str) {
    assert_eq!(text(word, 309, &all(), facts), expected, "{word:?}");
}

#[test]
fn short_words() {
    let facts = Fake::default();
    check(Word::Ruok, &facts, "imok");
    check(Word::Isro, &facts, "rw");
    check(Word::Gtmk, &facts, "306");
    check(Word::Stmk, &facts, "309");
    check(Word::Crst, &facts, "Connection stats reset.\n");
    check(Word::Srst, &facts, "Server stats reset.\n");
    check(Word::Dirs, &facts, "datadir_size: 478\nlogdir_size: 65552\n");
    check(Word::Hash, &facts, "80: 270434420806\n");
}

#[test]
fn srvr_and_stat() {
    let facts = Fake::default();
    let version = format!(
        "Zookeeper version: 3.9.5-zebu-{}, built on {BUILT_ON}\n",
        env!("CARGO_PKG_VERSION")
    );
    let numbers = "Latency min/avg/max: 0/1.0/27\nReceived: 145\nSent: 144\nConnections: 3\nOutstanding: 0\nZxid: 0x8d\n\
                   Mode: standalone\nNode count: 145\n";
    check(Word::Srvr, &facts, &format!("{version}{numbers}"));
    let clients = "Clients:\n /127.0.0.1:40632[1](queued=0,recved=144,sent=144)\n \
                   /127.0.0.1:40642[1](queued=0,recved=0,sent=0)\n /127.0.0.1:40660[0](queued=0,recved=1,sent=0)\n\n";
    check(Word::Stat, &facts, &format!("{version}{clients}{numbers}"));
}

/// The characters that the Go client's expression allows in a version, and both forms of the date.
#[test]
fn parsers_of_the_original_read_the_version() {
    assert!(VERSION.starts_with("3.9.5-"));
    assert!(
        VERSION.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
    );
    let shape: String =
        BUILT_ON.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    assert_eq!(shape, "9999-99-99 99:99 UTC");
}

#[test]
fn cons() {
    check(
        Word::Cons,
        &Fake::default(),
        " /127.0.0.1:40632[1](queued=0,recved=144,sent=144,sid=0x10000697ae10000,lop=EXIS,est=1795272835528,to=10000,\
         lcxid=0x384,lzxid=0x8d,lresp=6917314,llat=1,minlat=0,avglat=1,maxlat=27)\n \
         /127.0.0.1:40642[1](queued=0,recved=0,sent=0)\n /127.0.0.1:40660[0](queued=0,recved=1,sent=0)\n\n",
    );
}

#[test]
fn dump() {
    check(
        Word::Dump,
        &Fake::default(),
        "SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at Sat Nov 21 14:54:06 UTC 2026:\n\t0x10000697ae10000\n\
         ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x10000697ae10000:\n\t/n0\n\t/n1\n\
         Connections dump:\nConnections Sets (1)/(2):\n2 expire at Sat Nov 21 14:54:08 UTC 2026:\n\
         \tip: /127.0.0.1:40632 sessionId: 0x10000697ae10000\n\tip: /127.0.0.1:40642 sessionId: 0x0\n",
    );
}

#[test]
fn watches() {
    let mut facts = Fake::default();
    check(Word::Wchs, &facts, "1 connections watching 3 paths\nTotal watches:3\n");
    check(
        Word::Wchp,
        &facts,
        "/n0\n\t0x10000697ae10000\n/n1\n\t0x10000697ae10000\n/nope\n\t0x10000697ae10000\n\n",
    );
    check(Word::Wchc, &facts, "0x10000697ae10000\n\t/n0\n\t/n1\n\t/nope\n\n");
    facts.watchers.clear();
    check(Word::Wchp, &facts, "\n");
    check(Word::Wchc, &facts, "\n");
}

#[test]
fn long_answers_come_in_pieces() {
    let facts = Fake::default();
    let (mut answer, _) = Answer::begin(Word::Wchp, 0, &all(), true);
    let mut pieces = Vec::new();
    loop {
        let mut piece = String::new();
        if !answer.next(&facts, &mut piece) {
            break;
        }
        pieces.push(piece);
    }
    assert_eq!(pieces.iter().filter(|piece| !piece.is_empty()).count(), 3);
}

#[test]
fn conf() {
    check(
        Word::Conf,
        &Fake::default(),
        "clientPort=22014\nsecureClientPort=-1\ndataDir=/data/version-2\ndataDirSize=478\ndataLogDir=/log/version-2\n\
         dataLogSize=65552\ntickTime=2000\nmaxClientCnxns=60\nminSessionTimeout=4000\nmaxSessionTimeout=40000\n\
         clientPortListenBacklog=-1\nserverId=0\n",
    );
}

/// A member of three servers, as a follower.
fn member() -> Fake {
    let member = MemberFacts {
        me: zebu_proto::ServerId(2),
        observes: false,
        init_ticks: 10,
        sync_ticks: 5,
        election_ports: vec![3888],
        learner_ports: vec![2888, 2889],
        membership: "server.1=a:1:2:participant\nversion=0".to_owned(),
        voters: 3,
        local_sessions: false,
        leader: None,
        observers: None,
        master: None,
        lacks: Vec::new(),
    };
    Fake { serving: Some(Mode::Follower), member: Some(member), ..Fake::default() }
}

#[test]
fn a_follower_tells_of_its_ensemble() {
    let follower = member();
    let conf = text(Word::Conf, 0, &all(), &follower);
    let tail = "serverId=2\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3888\nquorumPort=2888|2889\npeerType=0\n\
                membership: \nserver.1=a:1:2:participant\nversion=0";
    assert!(conf.ends_with(tail), "{conf}");
    let dump = text(Word::Dump, 0, &all(), &follower);
    let head = "SessionTracker dump:\nGlobal Sessions(1):\n0x10000697ae10000\t10000ms\nephemeral nodes dump:\n";
    assert!(dump.starts_with(head), "{dump}");
    let mntr = text(Word::Mntr, 0, &all(), &follower);
    let state = "\nzk_server_state\tfollower\nzk_peer_state\tfollowing - broadcast\n";
    assert!(mntr.contains(state) && mntr.contains("\nzk_quorum_size\t3\n"), "{mntr}");
    assert!(!mntr.contains("zk_learners") && !mntr.contains("zk_synced_observers"), "{mntr}");
}

#[test]
fn a_follower_tells_of_its_observers_and_an_observer_of_its_master() {
    let mut member = member();
    member.member.as_mut().unwrap().observers = Some(2);
    let mntr = text(Word::Mntr, 0, &all(), &member);
    assert!(mntr.contains("\nzk_synced_observers\t2\n"), "{mntr}");
    assert!(!mntr.contains("observer_master_id"), "{mntr}");
    member.member.as_mut().unwrap().observers = None;
    member.member.as_mut().unwrap().master = Some(zebu_proto::ServerId(3));
    let mntr = text(Word::Mntr, 0, &all(), &member);
    assert!(mntr.contains("\nzk_observer_master_id\t3\n"), "{mntr}");
    assert!(!mntr.contains("zk_synced_observers"), "{mntr}");
}

#[test]
fn local_sessions_are_told_of_before_the_others() {
    let mut follower = member();
    follower.member.as_mut().unwrap().local_sessions = true;
    let local = "SessionTracker dump:\nLocal Session Sets (1)/(2):\n2 expire at Sat Nov 21 14:54:04 UTC 2026:\n\
                 \t0x10000697ae10001\n\t0x10000697ae10002\n";
    let dump = text(Word::Dump, 0, &all(), &follower);
    let rest = "Global Sessions(1):\n0x10000697ae10000\t10000ms\nephemeral nodes dump:\n";
    assert!(dump.starts_with(&format!("{local}{rest}")), "{dump}");
    let mut leader = follower;
    let (proposals, learners) = (ProposalSizes::default(), zebu_zab::Learners::default());
    let facts = LeaderFacts { learners, pending_syncs: 0, uptime_ms: 0, proposals };
    leader.member.as_mut().unwrap().leader = Some(facts);
    let dump = text(Word::Dump, 0, &all(), &leader);
    let rest = "Global Session Sets (1)/(1):\n1 expire at Sat Nov 21 14:54:06 UTC 2026:\n\t0x10000697ae10000\n";
    assert!(dump.starts_with(&format!("{local}{rest}")), "{dump}");
}

#[test]
fn a_server_that_only_reads_takes_no_part_in_the_ensemble() {
    let mut reader = member();
    reader.serving = Some(Mode::ReadOnly);
    let mntr = text(Word::Mntr, 0, &all(), &reader);
    assert!(mntr.contains("zk_server_state\tread-only\n"), "{mntr}");
    for name in ["peer_state", "quorum_size", "synced_observers", "observer_master_id"] {
        assert!(!mntr.contains(name), "{name} in {mntr}");
    }
}

#[test]
fn a_leader_tells_of_its_learners() {
    let mut leader = member();
    leader.serving = Some(Mode::Leader);
    let mut proposals = ProposalSizes::default();
    assert_eq!((proposals.last, proposals.min, proposals.max), (-1, -1, -1));
    [48, 36, 40].into_iter().for_each(|bytes| proposals.add(bytes));
    let learners = zebu_zab::Learners { connected: 4, followers: 2, without_vote: 1, observers: 1 };
    let facts = LeaderFacts { learners, pending_syncs: 5, uptime_ms: 77, proposals };
    leader.member.as_mut().unwrap().leader = Some(facts);
    let srvr = text(Word::Srvr, 0, &all(), &leader);
    let tail = "Mode: leader\nNode count: 145\nProposal sizes last/min/max: 40/36/48\n";
    assert!(srvr.ends_with(tail), "{srvr}");
    let mntr = text(Word::Mntr, 0, &all(), &leader);
    for line in [
        "zk_peer_state\tleading - broadcast",
        "zk_learners\t4",
        "zk_synced_followers\t2",
        "zk_synced_non_voting_followers\t1",
        "zk_synced_observers\t1",
        "zk_pending_syncs\t5",
        "zk_leader_uptime\t77",
        "zk_last_proposal_size\t40",
        "zk_max_proposal_size\t48",
        "zk_min_proposal_size\t36",
    ] {
        assert!(mntr.lines().any(|found| found == line), "{line} in {mntr}");
    }
    // The leader expires the sessions.
    assert!(text(Word::Dump, 0, &all(), &leader).contains("Session Sets (1)/(1):"));
}

#[test]
fn envi_starts_with_the_version() {
    let text = text(Word::Envi, 0, &all(), &Fake::default());
    assert!(text.starts_with("Environment:\nzookeeper.version=3.9.5-zebu-"), "{text}");
    assert_eq!(text.lines().count(), 19);
}

#[test]
fn mntr_lines_are_name_tab_value() {
    let facts = Fake::default();
    facts.metrics.fsynctime.add(3);
    facts.metrics.fsynctime.add(4);
    facts.metrics.fsynctime.add(4);
    let text = text(Word::Mntr, 0, &all(), &facts);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(format!("zk_version\t{}", full_version()).as_str()));
    assert_eq!(lines.next(), Some("zk_server_state\tstandalone"));
    let mut names = std::collections::BTreeSet::new();
    for line in lines {
        let (name, value) = line.split_once('\t').unwrap();
        assert!(names.insert(name), "{name} twice");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
    }
    for line in [
        "zk_avg_latency\t1.0",
        "zk_znode_count\t145",
        "zk_avg_fsynctime\t3.6667",
        "zk_avg_snapshottime\t0.0",
        "zk_app_quota_count_limit_per_namespace\t10",
        "zk_connection_drop_probability\t0.0",
        "zk_min_client_response_size\t16",
        "zk_p99_readlatency\t0",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}");
    }
}

#[test]
fn a_word_not_in_the_whitelist_is_refused_and_has_no_effect() {
    let none = Whitelist::new(&[], false);
    let facts = Fake::default();
    assert_eq!(
        text(Word::Mntr, 0, &none, &facts),
        "mntr is not executed because it is not in the whitelist.\n"
    );
    let (_, effect) = Answer::begin(Word::Srst, 0, &none, true);
    assert_eq!(effect, Effect::None);
    let (_, effect) = Answer::begin(Word::Srst, 0, &all(), true);
    assert_eq!(effect, Effect::ResetServer);
    let (_, effect) = Answer::begin(Word::Stmk, 2, &all(), false);
    assert_eq!(effect, Effect::SetTraceMask(2));
    let (_, effect) = Answer::begin(Word::Crst, 0, &all(), false);
    assert_eq!(effect, Effect::None);
}

#[test]
fn a_server_that_is_not_serving_says_so() {
    let facts = Fake { serving: None, ..Fake::default() };
    let sentence = "This ZooKeeper instance is not currently serving requests";
    for word in Word::ALL {
        let answer = text(word, 1, &all(), &facts);
        match word {
            Word::Ruok => assert_eq!(answer, "imok"),
            Word::Gtmk => assert_eq!(answer, "306"),
            Word::Stmk => assert_eq!(answer, "1"),
            Word::Envi => assert!(answer.starts_with("Environment:\n")),
            Word::Isro => assert_eq!(answer, "null"),
            Word::Hash => assert_eq!(answer, sentence),
            _ => assert_eq!(answer, format!("{sentence}\n"), "{word:?}"),
        }
    }
}

#[test]
fn read_only_servers_say_so() {
    let facts = Fake { serving: Some(Mode::ReadOnly), ..Fake::default() };
    check(Word::Isro, &facts, "ro");
    let answer = text(Word::Srvr, 0, &all(), &facts);
    assert!(answer.lines().nth(1).unwrap().starts_with("READ-ONLY mode"));
    assert!(answer.contains("\nMode: read-only\n"));
}
