//! Each check of an ensemble, with answers that it accepts and answers that it reports.

use zebu_client::Id;
use zebu_proto::{HostPort, ServerId};

use super::super::answers::{Reached, Status, unasked};
use super::super::finding::Severity;
use super::*;

const LIST: &str = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";

fn list(text: &str) -> Membership {
    Membership::agreed(text.as_bytes()).unwrap()
}

fn server(number: i64, mode: &str) -> Answers {
    let host = |port| HostPort::new(format!("h{number}"), port);
    let mut answers = unasked(ServerId(number), number == 1, Role::Participant, Some(host(2181)));
    answers.status = Ok(Status { version: "3.9.5".to_owned(), mode: mode.to_owned() });
    answers.election = vec![(host(3888), Ok(()))];
    let reached: Reached =
        if mode == "leader" { Ok(()) } else { Err(io::ErrorKind::ConnectionRefused) };
    answers.quorum = vec![(host(2888), reached)];
    answers.members = Some(list(LIST));
    answers.acls = vec![("/".to_owned(), Acl::read_only())];
    answers
}

fn three() -> Vec<Answers> {
    vec![server(1, "follower"), server(2, "leader"), server(3, "follower")]
}

fn has(findings: &[Finding], severity: Severity, part: &str) {
    let found = findings.iter().any(|f| f.severity == severity && f.text.contains(part));
    assert!(found, "{part}: {findings:?}");
}

#[test]
fn a_healthy_ensemble_is_fine() {
    let three = three();
    assert_eq!(peers(&three), []);
    assert_eq!(roles(&three, true, true), []);
    assert_eq!(members(&three, Some(&list(LIST))), []);
    assert_eq!(versions(&three), []);
    assert_eq!(acls(&three), []);
    assert_eq!(roles(&[server(1, "standalone")], false, false), []);
}

#[test]
fn members_that_cannot_be_reached_are_named() {
    let mut answers = three();
    answers[2].election[0].1 = Err(io::ErrorKind::ConnectionRefused);
    answers[2].status = Err("no server listens there".to_owned());
    answers[1].quorum[0].1 = Err(io::ErrorKind::TimedOut);
    let findings = peers(&answers);
    has(
        &findings,
        Severity::Error,
        "server.3 cannot be reached at its election port h3:3888: no server listens there",
    );
    has(
        &findings,
        Severity::Error,
        "server.2 leads and cannot be reached at its quorum port h2:2888: no answer in time",
    );
    has(&findings, Severity::Warning, "server.3 does not answer at its client port h3:2181");

    // An observer's votes do not count, and of two addresses one is enough.
    answers[2].role = Role::Observer;
    has(&peers(&answers), Severity::Warning, "server.3 cannot be reached at its election port");

    let mut answers = three();
    answers[2].quorum[0].1 = Err(io::ErrorKind::TimedOut);
    has(
        &peers(&answers),
        Severity::Warning,
        "packets to the quorum port h3:2888 of server.3 are lost",
    );

    // This server is about to be started.
    let mut answers = three();
    answers[0].status = Err("no server listens there".to_owned());
    assert!(peers(&answers).iter().all(|finding| finding.severity == Severity::Info));
}

#[test]
fn servers_that_run_alone_are_found() {
    let mut answers = three();
    answers[2] = server(3, "standalone");
    has(&roles(&answers, true, true), Severity::Error, "server.3 runs alone");
    has(&roles(&[], false, true), Severity::Error, "the data belong to a member of an ensemble");
    has(&roles(&[server(1, "follower")], false, false), Severity::Error, "is a follower");
}

#[test]
fn no_leader_and_two_leaders_are_found() {
    let mut answers = three();
    answers[0] = server(1, "leader");
    has(&roles(&answers, true, true), Severity::Error, "server.1, server.2 lead at the same time");
    let waiting = [server(1, ""), server(2, "")];
    has(&roles(&waiting, true, true), Severity::Error, "no server that answers leads");
    let mut answers = three();
    answers[1].status = Err("no answer in time".to_owned());
    has(&roles(&answers, true, true), Severity::Warning, "no server that answers leads");
    let mut answers = three();
    answers[2] = server(3, "");
    has(&roles(&answers, true, true), Severity::Warning, "server.3 does not serve clients");
    // No member runs yet.
    for member in &mut answers {
        member.status = Err("no server listens there".to_owned());
    }
    assert_eq!(roles(&answers, true, false), []);
}

#[test]
fn lists_that_differ_are_found() {
    let mut answers = three();
    answers[2].members = Some(list("server.1=a:1:2\nserver.2=x:1:2\nserver.4=d:1:2\n"));
    let findings = members(&answers, Some(&list(LIST)));
    has(
        &findings,
        Severity::Error,
        "server.3 has another list of members than this configuration: server.2 differs there, \
         server.3 is missing there, server.4 is there only",
    );
    has(&findings, Severity::Error, "server.2 and server.3 have different lists of members");
    // The ensemble was reconfigured while this server was stopped.
    let newer =
        list("server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nserver.4=d:1:2\nversion=100000001\n");
    for member in &mut answers {
        member.members = Some(newer.clone());
    }
    let findings = members(&answers, Some(&list(LIST)));
    has(&findings, Severity::Warning, "server.1 has a newer list of members (version 100000001)");
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning), "{findings:?}");
}

#[test]
fn versions_that_differ_or_are_old_are_found() {
    let mut answers = three();
    answers[2].status.as_mut().unwrap().version = "3.4.14".to_owned();
    let findings = versions(&answers);
    has(
        &findings,
        Severity::Warning,
        "different versions: 3.4.14 on server.3; 3.9.5 on server.1, server.2",
    );
    has(&findings, Severity::Warning, "server.3 runs 3.4.14, which gets no security fixes");
}

#[test]
fn znodes_that_anybody_may_change_are_found() {
    let mut answers = three();
    let by_amy = vec![Acl { perms: Perms::ALL, id: Id::new("digest", "amy:x") }];
    answers[0].acls = vec![
        ("/".to_owned(), Acl::open()),
        ("/a".to_owned(), by_amy),
        ("/b".to_owned(), Acl::open()),
    ];
    let findings = acls(&answers);
    has(&findings, Severity::Warning, "every client may change /, /b");
    answers.iter_mut().for_each(|member| member.acls.clear());
    has(&acls(&answers), Severity::Info, "no server has shown its ACLs");
}

#[test]
fn members_of_different_ensembles_are_told_apart() {
    let id = |number| Some(EnsembleId(number));
    let mut answers = three();
    assert_eq!(identities(&answers, None), [], "servers of the original have no ids");
    answers.iter_mut().for_each(|answers| answers.ensemble = id(1));
    let one = "the ensemble is 00000000000000000000000000000001";
    has(&identities(&answers, None), Severity::Info, one);
    has(&identities(&answers, id(1)), Severity::Info, one);
    let findings = identities(&answers, id(2));
    assert_eq!(findings.len(), 1);
    has(
        &findings,
        Severity::Error,
        "the data here belong to ensemble 00000000000000000000000000000002, and the members to 0000000000000000000000000000000",
    );
    answers[2].ensemble = id(3);
    let findings = identities(&answers, id(1));
    assert_eq!(findings.len(), 1);
    has(
        &findings,
        Severity::Error,
        "server.1, server.2 to 00000000000000000000000000000001; server.3 to 0000",
    );
}
