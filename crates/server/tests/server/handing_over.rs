//! A leader hands over to another server when an operator asks for it.

use crate::admin::{Answer, ask, get};
use zebu_testkit::wire::create;

use crate::client::Client;
use crate::members::{client_of, ensemble, initialized};
use crate::running::{Running, wait};

const ADMIN: [&str; 2] = ["admin.enableServer=true", "admin.serverPort=0"];
const WHO: &str = "Authorization: digest u:p\r\n";

fn hand_over(member: &Running, to: &str) -> Answer {
    ask("POST", member.admin_port(), &format!("/ensemble/hand_over{to}"), WHO)
}

fn leads(member: &Running) -> bool {
    member.word("srvr").contains("Mode: leader")
}

fn refusal(member: &Running, to: &str) -> String {
    let answer = hand_over(member, to);
    assert_eq!(answer.status(), "409", "{}", answer.text());
    assert!(answer.text().contains("\"hand_over\""), "{}", answer.text());
    answer.text()
}

#[test]
fn every_follower_can_be_made_leader() {
    let (_start, members) = initialized(&ADMIN);
    let leader = || members.iter().position(leads).map(|place| place + 1);
    wait("somebody leads", || leader().is_some());
    let mut client = client_of(&members[0]);
    client.create("/kept", b"1").unwrap();
    let first = leader().unwrap();
    for to in [1, 3, 2, 1, 2, 3].into_iter().filter(|to| *to != first).chain([first]) {
        let before = leader().expect("somebody leads");
        if before == to {
            continue;
        }
        wait("everybody follows", || {
            members.iter().all(|member| member.word("srvr").contains("Mode"))
                && get(members[before - 1].admin_port(), "/jmx", "")
                    .text()
                    .matches("established")
                    .count()
                    == 2
        });
        let mut answer = hand_over(&members[before - 1], &format!("?to={to}"));
        wait("it is synchronized", || {
            let is_early = answer.text().contains("is not synchronized");
            if is_early {
                answer = hand_over(&members[before - 1], &format!("?to={to}"));
            }
            !is_early
        });
        assert_eq!(answer.status(), "200", "{}", answer.text());
        assert!(answer.text().contains(&format!("\"to\" : {to}")), "{}", answer.text());
        wait("the server that was named leads", || leader() == Some(to));
    }
    // The former leader is a normal follower, and nothing is lost.
    for member in &members {
        wait("it serves", || member.word("ruok") == "imok" && member.word("srvr").contains("Mode"));
        assert_eq!(client_of(member).get("/kept").unwrap().0, b"1");
    }
}

#[test]
fn without_a_name_the_best_follower_leads() {
    let (_start, members) = initialized(&ADMIN);
    let leader = || members.iter().position(leads);
    wait("somebody leads", || leader().is_some());
    let before = leader().unwrap();
    let hello = {
        let client = client_of(&members[(before + 1) % 3]);
        let hello = client.renewal();
        client.vanish();
        hello
    };
    let answer = hand_over(&members[before], "");
    assert_eq!(answer.status(), "200", "{}", answer.text());
    wait("another server leads", || leader().is_some_and(|now| now != before));
    // The session from before continues at any server.
    let mut client = None;
    wait("the session goes on", || {
        client = Client::hello(members[before].port, &hello).ok();
        client.is_some()
    });
    let mut client = client.unwrap();
    assert_eq!(client.call(1, &create("/after", b"", &[(31, "world", "anyone")], 0)).err, 0);
}

#[test]
fn whoever_cannot_hand_over_says_why() {
    let (_dir, members) = ensemble(&ADMIN);
    let leader = members.iter().position(leads).expect("somebody leads");
    let follower = 1 - leader;
    let leads = format!("only the leader hands over: server.{} leads", leader + 1);
    assert!(refusal(&members[follower], "").contains(&leads));
    assert!(refusal(&members[2], "?to=1").contains(&leads));
    let of_leader = |to: &str| refusal(&members[leader], to);
    assert!(of_leader("?to=3").contains("server.3 is an observer"));
    assert!(of_leader("?to=9").contains("the configuration has no server.9"));
    let own = leader + 1;
    assert!(of_leader(&format!("?to={own}")).contains(&format!("server.{own} leads already")));
    assert_eq!(hand_over(&members[leader], "?to=x").status(), "400");
    let at = members[leader].admin_port();
    assert_eq!(ask("POST", at, "/ensemble/hand_over", "").status(), "401");
    assert_eq!(get(at, "/ensemble/hand_over", WHO).status(), "405");
    let alone = Running::new(&ADMIN);
    assert!(refusal(&alone, "").contains("this server is standalone"));
}

#[test]
fn a_follower_that_is_gone_is_not_named() {
    let (_start, mut members) = initialized(&ADMIN);
    wait("somebody leads", || members.iter().any(leads));
    let leader = members.iter().position(leads).unwrap();
    let gone = (leader + 1) % 3;
    drop(members.remove(gone));
    let leader = &members[leader - usize::from(leader > gone)];
    let gone = gone + 1;
    wait("its connection is closed", || {
        let text = hand_over_text(leader, gone);
        text.contains(&format!("server.{gone} does not follow this leader"))
    });
}

fn hand_over_text(member: &Running, to: usize) -> String {
    hand_over(member, &format!("?to={to}")).text()
}
