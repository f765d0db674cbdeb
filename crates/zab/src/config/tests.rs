//! Texts, quorums and changes, against what the original does.

#![expect(clippy::disallowed_methods, reason = "a test reads the fixtures")]

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use zebu_proto::request::Reconfig;
use zebu_proto::{ErrorCode, ServerId, Zxid};

use super::*;

const TEXTS: &str = include_str!("../../../../tests/fixtures/zookeeper-3.9.5/membership/texts.txt");
const MULTI_ADDRESS: &str =
    include_str!("../../../../tests/fixtures/zookeeper-3.9.5/membership/multi-address.txt");

const RULES: Rules = Rules { standalone: true, multi_address: false };

/// Configurations that this server refuses and the original accepts.
const REFUSED_HERE: &[&str] = &[
    "version=-5\nserver.1=a:2:3\nserver.2=b:2:3",
    "server.-1=a:2:3\nserver.2=b:2:3",
    "server.1=a:2:3\nserver.01=c:2:3\nserver.2=b:2:3",
    "server.1=a:2:3\nserver.2=b:2:3\ngroup.1=1:2\nweight.1=-1",
];
/// Configurations that releases after 3.9 accept, and this server, too.
const ACCEPTED_HERE: &[&str] = &["server.1=a:2:3;1;2\nserver.2=b:2:3"];

fn parse(text: &str) -> Membership {
    Membership::parse(text.as_bytes(), RULES).unwrap_or_else(|fault| panic!("{text:?}: {fault}"))
}

fn fault(text: &str) -> String {
    Membership::parse(text.as_bytes(), RULES).expect_err(text).to_string()
}

fn ids(ids: &[i64]) -> BTreeSet<ServerId> {
    ids.iter().copied().map(ServerId).collect()
}

/// Every line of a fixture, and how many configurations it had.
fn as_the_original(fixture: &str, rules: Rules) -> usize {
    let mut count = 0;
    let mut text = String::new();
    let mut current = None;
    for line in fixture.lines() {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "text" => {
                count += 1;
                text = rest.replace("\\n", "\n");
                current = Membership::parse(text.as_bytes(), rules).ok();
            }
            "refused" => {
                let is_ours = ACCEPTED_HERE.contains(&text.as_str());
                assert_eq!(current.is_some(), is_ours, "{text}\n{rest}");
            }
            "prints" if REFUSED_HERE.contains(&text.as_str()) => assert_eq!(current, None),
            "prints" => {
                let printed = rest.replace("\\n", "\n");
                let ours = current.as_ref().unwrap_or_else(|| panic!("refused: {text}"));
                let theirs = Membership::parse(printed.as_bytes(), rules).unwrap();
                assert!(ours.is_same_as(&theirs), "{text}");
                assert_eq!(theirs.to_string(), printed);
                // The original spells IPv6 addresses out.
                if !text.contains("[") {
                    assert_eq!(ours.to_string(), printed, "{text}");
                }
            }
            "quorum" => {
                let mut words = rest.split(' ');
                let holds = words.next() == Some("true");
                let servers = words.map(|id| ServerId(id.parse().unwrap())).collect();
                let current = current.as_ref().unwrap();
                assert_eq!(current.is_quorum(&servers), holds, "{servers:?} of {text}");
            }
            other => panic!("{other}"),
        }
    }
    count
}

#[test]
fn texts_and_quorums_are_those_of_the_original() {
    assert!(as_the_original(TEXTS, RULES) > 150);
    assert_eq!(as_the_original(MULTI_ADDRESS, Rules { multi_address: true, ..RULES }), 9);
}

#[test]
fn every_difference_is_met() {
    for text in REFUSED_HERE.iter().chain(ACCEPTED_HERE) {
        assert!(TEXTS.contains(&format!("text {}\n", text.replace('\n', "\\n"))), "{text}");
    }
}

/// As the original has a set of them.
#[test]
fn an_address_that_is_named_twice_is_one() {
    let parse = |text| Member::parse(ServerId(1), text, true).map(|member| member.to_string());
    let twice = parse("b:2:3|127.0.0.1:2:3|B:2:3|127.0.0.1:2:3;4").unwrap();
    assert_eq!(twice, "127.0.0.1:2:3|b:2:3:participant;0.0.0.0:4");
    // To name it twice takes what several take.
    let fault = Member::parse(ServerId(1), "b:2:3|b:2:3", false).unwrap_err();
    assert_eq!(fault, ConfigFault::MultiAddress);
}

#[test]
fn faults_name_their_line_and_cause() {
    let two = "server.1=a:2:3\nserver.2=b:2:3\n";
    for (line, expected) in [
        ("foo=1", "line 3: unrecognised parameter: foo"),
        ("server.x=c:2:3", "line 3: server id \"x\" is not a number from 0 on"),
        ("server.01=c:2:3", "line 3: server.1 is there twice"),
        ("server.3=c:2:3:voter", "line 3: Unrecognised peertype: voter"),
        ("server.3=c:2:2", "line 3: quorum and election port are both 2: they must differ"),
        ("server.3=c:2:70000", "line 3: \"70000\" is not a port"),
        (
            "server.3=c:2:3|d:2:3",
            "line 3: several addresses for one server need multiAddress.enabled=true",
        ),
        (
            "server.3=c:2",
            "line 3: \"c:2\" is no server: expected \
             host:port:port[:participant|observer][|host:port:port...][;[host:]port]",
        ),
        ("version=g", "line 3: version \"g\" is not a hexadecimal number from 0 on"),
        ("\nversion=\\u1", "line 4: malformed \\uxxxx escape"),
        ("group.1=1", "line 2: server 2 is in no group"),
        ("group.1=1:2:9", "line 3: server 9 is in a group, but has neither a vote nor a weight"),
        ("group.1=1\ngroup.2=2:1", "line 4: server 1 is in more than one group"),
        ("group.1=1:2\nweight.1=x", "line 4: weight \"x\" is not a number from 0 on"),
        ("group.a=1:2", "line 3: group id \"a\" is not a number"),
    ] {
        assert_eq!(fault(&format!("{two}{line}")), expected);
    }
    assert_eq!(
        fault("server.1=a:2:3\nserver.2=b:2:3:observer"),
        "line 2: Observers w/o quorum is an invalid configuration"
    );
    assert_eq!(
        fault("server.1=a:2:3:observer"),
        "line 1: Observers w/o participants is an invalid configuration"
    );
    let text = "server.1=a\nfoo=1\nserver.2=b:2:3\nversion=x";
    let entries = zebu_proto::properties::parse(text.as_bytes()).unwrap().entries;
    let faults = Membership::from_entries(&entries, RULES).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [1, 2, 4]);
}

#[test]
fn one_voter_is_an_ensemble_where_nothing_runs_alone() {
    let rules = Rules { standalone: false, ..RULES };
    let text = "server.1=a:2:3\nserver.2=b:2:3:observer";
    let membership = Membership::parse(text.as_bytes(), rules).unwrap();
    assert_eq!(membership.observers().collect::<Vec<_>>(), [ServerId(2)]);
    let none = Membership::parse(b"", rules).unwrap_err();
    assert_eq!(none.fault, ConfigFault::NoVoters);
}

/// A configuration with this number of voters, and further lines.
fn voters(count: i64, rest: &str) -> Membership {
    let lines: String = (1..=count).map(|id| format!("server.{id}=h{id}:2:3\n")).collect();
    parse(&(lines + rest))
}

/// ENS-05, ENS-08.
#[test]
fn the_groups_of_the_document() {
    let membership = voters(9, "group.1=1:2:3\ngroup.2=4:5:6\ngroup.3=7:8:9\n");
    assert!(membership.is_quorum(&ids(&[1, 2, 4, 5])));
    assert!(!membership.is_quorum(&ids(&[1, 2, 3, 4])));
    assert!(!membership.is_quorum(&ids(&[1, 2, 3, 4, 7])));
    assert!(!membership.is_quorum(&ids(&[])));
    // Any one group may be away.
    for group in [[1, 2, 3], [4, 5, 6], [7, 8, 9]] {
        let rest: Vec<i64> = (1..=9).filter(|id| !group.contains(id)).collect();
        assert!(membership.is_quorum(&ids(&rest)));
        assert!(!membership.is_quorum(&ids(&group)));
    }
}

/// ENS-06: seven votes of six servers, of which four are needed.
#[test]
fn the_weights_of_the_document() {
    let membership = voters(6, "group.1=1:2:3:4:5:6\nweight.1=2\n");
    assert!(membership.is_quorum(&ids(&[1, 2, 3])));
    assert!(!membership.is_quorum(&ids(&[2, 3, 4])));
    assert!(!membership.is_quorum(&ids(&[4, 5, 6])));
    assert!(membership.is_quorum(&ids(&[2, 3, 4, 5])));
    assert!(!membership.is_quorum(&ids(&[1, 2])));
}

/// ENS-02, ENS-07: two places with three servers and one with one; any of them may be away, and
/// nothing more.
#[test]
fn a_majority_over_three_places() {
    let membership = voters(7, "");
    let all = [1, 2, 3, 4, 5, 6, 7];
    for place in [&all[..3], &all[3..6], &all[6..]] {
        let rest: Vec<i64> = all.into_iter().filter(|id| !place.contains(id)).collect();
        assert!(membership.is_quorum(&ids(&rest)));
        assert_eq!(membership.is_quorum(&ids(&rest[1..])), place.len() == 1);
    }
    assert!(!voters(4, "").is_quorum(&ids(&[1, 2])), "four servers outlive one, not two");
}

/// ZAB-32.
#[test]
fn only_voters_make_a_majority() {
    let membership =
        parse("server.1=a:2:3\nserver.2=b:2:3\nserver.3=c:2:3\nserver.4=d:2:3:observer\nversion=a");
    assert_eq!(membership.version(), Zxid(10));
    assert_eq!(membership.voters().collect::<Vec<_>>(), [1, 2, 3].map(ServerId));
    assert!(membership.is_voter(ServerId(1)) && !membership.is_voter(ServerId(4)));
    assert!(membership.is_observer(ServerId(4)) && !membership.is_observer(ServerId(5)));
    assert!(membership.is_quorum(&ids(&[1, 3])));
    assert!(!membership.is_quorum(&ids(&[1, 4, 5])));
    assert_eq!(membership.weight(ServerId(9)), 1);
}

#[test]
fn the_same_configuration_may_have_another_text() {
    let ours = parse("server.1=[::1]:2:3;2181\nserver.2=B:2:3\nversion=1");
    let theirs = parse("server.2=b:2:3:PARTICIPANT\nserver.1=[0:0::1]:2:3;0.0.0.0:2181\nversion=2");
    assert!(ours.is_same_as(&theirs));
    for other in [
        "server.1=[::1]:2:3;2181\nserver.2=b:2:4\nversion=2",
        "server.1=[::1]:2:3;2182\nserver.2=b:2:3\nversion=2",
        "server.1=[::1]:2:3\nserver.2=b:2:3\nversion=2",
        "server.1=[::1]:2:3;2181\nserver.2=c:2:3\nversion=2",
        "server.1=[::1]:2:3;2181\nserver.3=b:2:3\nversion=2",
        "server.1=[::1]:2:3;2181\nserver.2=b:2:3\nserver.3=b:2:3\nversion=2",
        "server.1=[::1]:2:3;2181\nserver.2=b:2:3\ngroup.1=1:2\nversion=2",
    ] {
        assert!(!ours.is_same_as(&parse(other)), "{other}");
    }
    // A version is only given once.
    assert!(ours.is_same_as(&parse("server.3=c:2:3\nserver.4=d:2:3\nversion=1")));
    let groups = |text: &str| parse(&format!("server.1=a:2:3\nserver.2=b:2:3\n{text}"));
    let base = groups("group.1=1:2\nversion=1");
    assert!(base.is_same_as(&groups("group.1=2:1\nweight.2=1\nversion=2")));
    assert!(!base.is_same_as(&groups("group.1=1\ngroup.2=2\nversion=2")));
    assert!(!base.is_same_as(&groups("group.1=2:1\nweight.2=2\nversion=2")));
}

#[test]
fn an_oracle_is_heeded_by_majorities_of_two() {
    let two = "server.1=a:2:3\nserver.2=b:2:3";
    assert!(parse(&format!("{two}\nserver.3=c:2:3:observer")).heeds_oracle());
    assert!(!parse(&format!("{two}\nserver.3=c:2:3")).heeds_oracle());
    assert!(!parse(&format!("{two}\ngroup.1=1:2\nweight.1=1\nweight.2=1")).heeds_oracle());
}

/// Text of a recorded ensemble: servers 1, 2 and 3, version 0x100000000.
fn recorded() -> Membership {
    let line =
        |id| format!("server.{id}=127.0.0.1:2301{id}:2302{id}:participant;127.0.0.1:2300{id}\n");
    let text: String = (1..=3).map(line).collect::<String>() + "version=100000000";
    let membership = parse(&text);
    assert_eq!(membership.to_string(), text);
    membership
}

fn request<'a>(joining: &'a str, leaving: &'a str) -> Reconfig<'a> {
    let some = |text: &'a str| (!text.is_empty()).then_some(text.into());
    Reconfig { joining: some(joining), leaving: some(leaving), members: None, config_id: -1 }
}

#[test]
fn the_recorded_reconfigurations() {
    let observer = "server.4=127.0.0.1:23014:23024:observer;127.0.0.1:23004";
    let with_4 = recorded().changed(&request(observer, ""), Zxid(0x1_0000_0002), RULES).unwrap();
    assert_eq!(
        with_4.to_string(),
        "server.1=127.0.0.1:23011:23021:participant;127.0.0.1:23001\n\
         server.2=127.0.0.1:23012:23022:participant;127.0.0.1:23002\n\
         server.3=127.0.0.1:23013:23023:participant;127.0.0.1:23003\n\
         server.4=127.0.0.1:23014:23024:observer;127.0.0.1:23004\n\
         version=100000002"
    );
    let promoted = "server.4=127.0.0.1:23014:23024:participant;127.0.0.1:23004";
    let voting = with_4.changed(&request(promoted, ""), Zxid(0x1_0000_0005), RULES).unwrap();
    assert!(voting.is_voter(ServerId(4)));
    let without_3 = voting.changed(&request("", "3"), Zxid(0x1_0000_0006), RULES).unwrap();
    assert_eq!(without_3.voters().collect::<Vec<_>>(), [1, 2, 4].map(ServerId));
    assert_eq!(without_3.version(), Zxid(0x1_0000_0006));
}

#[test]
fn a_request_may_name_the_version_it_is_meant_for() {
    let mut request = request("", "3");
    for (config_id, expected) in
        [(-1, None), (0x1_0000_0000, None), (0, Some(ErrorCode::BAD_VERSION))]
    {
        request.config_id = config_id;
        let changed = recorded().changed(&request, Zxid(9), RULES);
        assert_eq!(changed.err().map(|fault| fault.code()), expected);
    }
}

#[test]
fn who_leaves_goes_first_and_unknown_ones_do_not_matter() {
    let back = "server.3=127.0.0.1:5:6:observer;127.0.0.1:7";
    let changed = recorded().changed(&request(back, " 3 , 77 ,"), Zxid(9), RULES).unwrap();
    assert!(changed.is_observer(ServerId(3)));
    let same = recorded().changed(&request("", "77"), Zxid(9), RULES).unwrap();
    assert!(same.has_same_members(&recorded()) && same.version() == Zxid(9));
}

#[test]
fn changes_that_cannot_be() {
    let fault = |joining: &str, leaving: &str| {
        let fault = recorded().changed(&request(joining, leaving), Zxid(9), RULES).unwrap_err();
        (fault.code(), fault.to_string())
    };
    let bad = |text: &str| (ErrorCode::BAD_ARGUMENTS, text.to_owned());
    assert_eq!(
        fault("server.4=d:2:3", ""),
        bad("\"server.4=d:2:3\" is not server.N=host:port:port;[host:]port")
    );
    assert_eq!(fault("4", ""), bad("\"4\" is not server.N=host:port:port;[host:]port"));
    assert_eq!(
        fault("server.4=d:2:2;1", ""),
        bad("\"server.4=d:2:2;1\": quorum and election port are both 2: they must differ")
    );
    // Or else a request could add lines of its own to the text.
    assert_eq!(
        fault("server.4=d\nversion=9\n#:2:3;1", ""),
        bad("\"server.4=d\\nversion=9\\n#:2:3;1\" is not server.N=host:port:port;[host:]port")
    );
    assert_eq!(
        fault("server.4=d\n#:2:3;1", ""),
        bad("\"server.4=d\\n#:2:3;1\": \"d\\n#\" is not a host")
    );
    assert_eq!(fault("", "2,3"), bad("the new configuration must have at least 2 voters"));
    let not_a_number = (ErrorCode::MARSHALLING_ERROR, "\"x\" is not a server id".to_owned());
    assert_eq!(fault("", "x"), not_a_number);
    let groups = parse("server.1=a:2:3\nserver.2=b:2:3\nserver.3=c:2:3\ngroup.1=1:2:3");
    let fault = groups.changed(&request("", "3"), Zxid(9), RULES).unwrap_err();
    assert_eq!(fault, ChangeError::Groups);
}

#[test]
fn addresses_belong_to_one_server() {
    let base = parse(
        "server.1=10.0.0.1:2:3;10.0.0.1:1\nserver.2=127.0.0.1:2:3;0.0.0.0:1\n\
         server.3=localhost:2:3;1",
    );
    let change = |joining: &str| base.changed(&request(joining, ""), Zxid(9), RULES);
    for joining in [
        "server.4=10.0.0.1:2:4;10.0.0.1:9",
        "server.4=10.0.0.1:5:2;10.0.0.1:9",
        "server.4=10.0.0.1:5:6;10.0.0.1:3",
    ] {
        let fault = change(joining).unwrap_err();
        assert!(matches!(fault, ChangeError::Address { .. }), "{joining}: {fault}");
    }
    for joining in [
        "server.4=127.0.0.1:2:3;0.0.0.0:1",
        "server.4=localhost:2:3;1",
        "server.4=10.0.0.2:2:3;10.0.0.2:1",
        // Its own address is not somebody else's.
        "server.1=10.0.0.1:2:3;10.0.0.1:7",
    ] {
        assert!(change(joining).is_ok(), "{joining}");
    }
}

#[test]
fn the_whole_membership_at_once() {
    let mut request = request("", "");
    let mut change = |members: &str| {
        request.members = Some(members.to_owned().into());
        recorded().changed(&request, Zxid(9), RULES)
    };
    let groups = "server.1=a:2:3,server.2=b:2:3\nserver.3=c:2:3,group.1=1:2:3,version=77";
    let changed = change(groups).unwrap();
    assert!(matches!(changed.verifier(), Verifier::Hierarchical(_)));
    assert_eq!(changed.version(), Zxid(9));
    for refused in ["", "server.1=a:2:3", "server.1=a:2", "foo=1", "server.1=a:2:3:observer"] {
        assert_eq!(change(refused).unwrap_err().code(), ErrorCode::BAD_ARGUMENTS, "{refused}");
    }
}

#[test]
fn files_are_named_after_the_static_one() {
    let file = Path::new("/etc/zoo.cfg");
    assert_eq!(files::backup(file), Path::new("/etc/zoo.cfg.bak"));
    assert_eq!(files::proposed(file), Path::new("/etc/zoo.cfg.dynamic.next"));
    let committed = files::committed(file, Zxid(0x1_0000_0000));
    assert_eq!(committed, Path::new("/etc/zoo.cfg.dynamic.100000000"));
    // As the original reads them.
    for (name, version) in [
        ("zoo.cfg.dynamic.100000000", Some(0x1_0000_0000)),
        ("zoo.cfg.dynamic", None),
        ("x.ba", Some(0xba)),
        ("x.", None),
        ("x", None),
        ("/a.b/c", None),
        ("z.0005", Some(5)),
        ("z.8000000000000000", None),
    ] {
        assert_eq!(files::version_in_name(Path::new(name)), version.map(Zxid), "{name}");
    }
}

#[test]
fn dynamic_files_are_sorted() {
    let text =
        "server.2=b:2:3\nserver.16=a:2:3;1\nserver.1=c:2:3:observer\nserver.3=d:2:3\nversion=b";
    let membership = parse(text);
    let committed = "server.16=a:2:3:participant;0.0.0.0:1\nserver.1=c:2:3:observer\n\
                     server.2=b:2:3:participant\nserver.3=d:2:3:participant\n";
    assert_eq!(membership.committed_text(), committed);
    assert_eq!(membership.proposed_text(), format!("{committed}version=b\n"));
    let file = Path::new("zoo.cfg.dynamic.b");
    let read = Membership::parse_dynamic_file(file, committed.as_bytes(), RULES).unwrap();
    assert_eq!(read, membership);
    let next = membership.proposed_text();
    let file = Path::new("zoo.cfg.dynamic.next");
    let read = Membership::parse_dynamic_file(file, next.as_bytes(), RULES).unwrap();
    assert_eq!(read, membership);
}

#[test]
fn the_static_file_keeps_what_is_not_about_members() {
    let text = "# my ensemble\r\ntickTime=2000\nserver.1=a:2:3\nserver.2 = b:2:\\\n   3\n\
                dataDir=c:\\\\data\npeerType=observer\nclientPort=2181\ngroup.1=1:2\nserver.1=c:2:3\n\
                dynamicConfigFile=old\nserverx=1\nclientPortAddress=h\n\n";
    let edited = files::edited_static_text(text.as_bytes(), "/etc/new.1", true).unwrap();
    assert_eq!(
        edited,
        "# my ensemble\ntickTime=2000\ndataDir=c:\\\\data\nserverx=1\ndynamicConfigFile=/etc/new.1\n"
    );
    let edited = files::edited_static_text(text.as_bytes(), "c:\\new", false).unwrap();
    assert!(edited.contains("clientPort=2181\n") && edited.contains("clientPortAddress=h\n"));
    let read = zebu_proto::properties::parse(edited.as_bytes()).unwrap();
    assert_eq!(read.entries.last().unwrap().value, "c:\\new");
    let open = files::edited_static_text(b"a=1\\", "x", true).unwrap();
    assert_eq!(open, "a=1\\\n\ndynamicConfigFile=x\n");
    assert_eq!(files::edited_static_text(b"", "x", true).unwrap(), "dynamicConfigFile=x\n");
}

fn any_host() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,8}(\\.[a-z]{1,5})?",
        any::<std::net::Ipv4Addr>().prop_map(|host| host.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|host| host.to_string()),
    ]
}

fn any_client() -> impl Strategy<Value = Option<zebu_proto::HostPort>> {
    proptest::option::of(
        (any_host(), any::<u16>()).prop_map(|(host, port)| zebu_proto::HostPort { host, port }),
    )
}

prop_compose! {
    fn any_member()(
        id in prop_oneof![0..40i64, 0..=i64::MAX],
        mut hosts in proptest::collection::vec(any_host(), 1..4),
        quorum_port in 0..30_000u16,
        election_port in 30_000..=u16::MAX,
        votes in proptest::bool::weighted(0.8),
        client in any_client(),
        secure_client in any_client(),
    ) -> Member {
        hosts.sort();
        hosts.dedup();
        let address = |host| PeerAddress { host, quorum_port, election_port };
        Member {
            id: ServerId(id),
            addresses: hosts.into_iter().map(address).collect(),
            role: if votes { Role::Participant } else { Role::Observer },
            client,
            secure_client,
        }
    }
}

fn any_membership() -> impl Strategy<Value = Membership> {
    let members = proptest::collection::vec(any_member(), 3..20);
    let groups = proptest::option::of(proptest::collection::vec((1..6i64, 0..5u64), 20));
    (members, groups, 0..i64::MAX).prop_map(|(members, groups, version)| {
        let mut membership = Membership::majority(members, Zxid(version));
        if let Some(groups) = groups {
            let mut made = Groups::default();
            let members = membership.members.keys().copied();
            for (server, (group, weight)) in members.zip(groups) {
                made.groups.entry(group).or_default().insert(server);
                made.weights.insert(server, weight);
            }
            membership.verifier = Verifier::Hierarchical(made);
        }
        membership
    })
}

proptest! {
    #[test]
    fn what_is_printed_can_be_read(membership in any_membership()) {
        let rules = Rules { standalone: true, multi_address: true };
        prop_assume!(membership.voters().count() > 1);
        let text = membership.to_string();
        let read = Membership::parse(text.as_bytes(), rules);
        prop_assert_eq!(read.as_ref(), Ok(&membership), "{}", text);
        prop_assert!(membership.is_same_as(&read.unwrap()));
        let committed = membership.committed_text();
        let read = Membership::parse(committed.as_bytes(), rules).unwrap();
        prop_assert_eq!(read.with_version(membership.version()), membership);
    }

    #[test]
    fn two_quorums_have_a_server_in_common(
        membership in any_membership(),
        choice in any::<u64>(),
    ) {
        let chosen = |bit: usize| choice >> (bit % 64) & 1 == 1;
        let voters: Vec<ServerId> = membership.voters().collect();
        let some: BTreeSet<ServerId> =
            (0..).zip(&voters).filter(|(at, _)| chosen(*at)).map(|(_, voter)| *voter).collect();
        let rest = voters.iter().copied().filter(|voter| !some.contains(voter)).collect();
        prop_assert!(!(membership.is_quorum(&some) && membership.is_quorum(&rest)));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(server|group|weight|version|[a-z])[.=0-9:;|\\[\\]a-z\n]{0,60}") {
        if let Ok(membership) = Membership::parse(text.as_bytes(), Rules::default()) {
            let printed = membership.to_string();
            let read = Membership::parse(printed.as_bytes(), Rules::default());
            prop_assert_eq!(read, Ok(membership));
        }
    }
}

#[test]
fn every_recorded_configuration_is_printed_as_it_came() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/quorum-captures");
    let rules = Rules { multi_address: true, ..RULES };
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        // As the recorder shows them: a bar between blanks is a line end.
        for line in text.lines().filter(|line| line.starts_with(['<', '>'])) {
            let Some((_, config)) = line.split_once("config='") else { continue };
            let config = config.split('\'').next().unwrap().replace(" | ", "\n");
            if config.contains("version=") {
                let read = Membership::parse(config.as_bytes(), rules).unwrap();
                assert_eq!(read.to_string(), config);
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
}
