//! A run of an ensemble as actions: the model accepts allowed actions, and refuses others with the
//! reason.

use zebu_model::{Action, Majority, Rules, State, TermId, Txn};

const FIRST: TermId = TermId { epoch: 1, leader: 0 };
const SECOND: TermId = TermId { epoch: 2, leader: 1 };

fn txn(epoch: u32, counter: u32) -> Txn {
    Txn { epoch, counter, value: 0 }
}

/// Server 0 leads with the promise of server 1, and has processed a request.
fn requested() -> Vec<Action> {
    vec![
        Action::LeaderProcessCEPOCH { term: FIRST },
        Action::FollowerProcessNEWEPOCH { server: 1, term: FIRST },
        Action::LeaderProcessACKEPOCH { leader: 0 },
        Action::FollowerProcessNEWLEADER { server: 0 },
        Action::FollowerProcessNEWLEADER { server: 1 },
        Action::LeaderProcessACKLD { leader: 0 },
        Action::LeaderProcessRequest { leader: 0, txn: txn(1, 1) },
    ]
}

/// The same, and server 1 has logged the transaction.
fn proposed() -> Vec<Action> {
    let mut actions = requested();
    actions.push(Action::FollowerProcessPROPOSE { server: 1, txn: txn(1, 1) });
    actions
}

/// Performs the actions. Returns the reason if the last one is refused.
fn replay(actions: &[Action]) -> Option<&'static str> {
    let rules = Rules::new(Majority(3));
    let mut state = State::init(3);
    let (last, before) = actions.split_last().unwrap();
    for action in before {
        state.next(*action, &rules).unwrap();
        state.check(&rules).unwrap();
    }
    let refused = state.next(*last, &rules).err();
    state.check(&rules).unwrap();
    refused.map(|refused| refused.why)
}

fn after(mut actions: Vec<Action>, more: &[Action]) -> Option<&'static str> {
    actions.extend(more);
    replay(&actions)
}

#[test]
fn a_transaction_is_committed_once_a_quorum_has_it() {
    let flush = |server| Action::Flush { server, len: 1 };
    let ack = Action::FollowerSendsACK { server: 1, len: 1 };
    let commit = Action::LeaderProcessACK { leader: 0, len: 1 };
    let deliver = Action::FollowerProcessCOMMIT { server: 1, len: 1 };
    assert_eq!(after(proposed(), &[flush(0), flush(1), ack, commit, deliver]), None);
    assert_eq!(after(proposed(), &[ack]), Some("its disk does not have as much"));
    assert_eq!(
        after(proposed(), &[flush(0), flush(1), commit]),
        Some("no quorum has acknowledged it")
    );
    assert_eq!(after(proposed(), &[flush(1), ack, commit]), Some("no quorum has acknowledged it"));
    assert_eq!(
        after(proposed(), &[flush(0), flush(1), ack, deliver]),
        Some("its leader has not committed it")
    );
}

#[test]
fn a_promise_holds_over_a_restart() {
    let begin = [
        Action::LeaderProcessCEPOCH { term: SECOND },
        Action::FollowerProcessNEWEPOCH { server: 2, term: SECOND },
    ];
    let restart = Action::Restart { server: 2, len: 0 };
    let back = Action::FollowerProcessNEWEPOCH { server: 2, term: FIRST };
    let first = [Action::LeaderProcessCEPOCH { term: FIRST }];
    let actions = [&first[..], &begin, &[restart, back]].concat();
    assert_eq!(replay(&actions), Some("it has accepted a later epoch"));
}

#[test]
fn a_leader_with_an_older_history_does_not_lead() {
    let flushed = [Action::Flush { server: 0, len: 1 }, Action::Timeout { server: 0 }];
    let stands = |leader| {
        let term = TermId { epoch: 2, leader };
        [
            Action::LeaderProcessCEPOCH { term },
            Action::FollowerProcessNEWEPOCH { server: 0, term },
            Action::LeaderProcessACKEPOCH { leader },
        ]
    };
    // Server 1 has the transaction, too; server 2 has no transaction.
    let of_1 = [&flushed[..], &[Action::Timeout { server: 1 }], &stands(1)].concat();
    assert_eq!(after(proposed(), &of_1), None);
    let of_2 = [&flushed[..], &stands(2)].concat();
    assert_eq!(
        after(proposed(), &of_2),
        Some("no quorum without a better history has promised the epoch")
    );
}

#[test]
fn a_follower_removes_what_its_leader_does_not_have() {
    // Server 2 leads with the promise of server 0 alone, which has lost nothing, because it had no
    // transaction.
    let term = TermId { epoch: 2, leader: 2 };
    let alone = [
        Action::Timeout { server: 0 },
        Action::Timeout { server: 1 },
        Action::FollowerProcessNEWEPOCH { server: 2, term: FIRST },
        Action::FollowerProcessNEWLEADER { server: 2 },
        Action::Timeout { server: 2 },
        Action::LeaderProcessCEPOCH { term },
        Action::FollowerProcessNEWEPOCH { server: 1, term },
        Action::LeaderProcessACKEPOCH { leader: 2 },
        Action::FollowerProcessNEWEPOCH { server: 0, term },
    ];
    let adopts = Action::FollowerProcessNEWLEADER { server: 0 };
    let truncates = Action::FollowerTruncates { server: 0, len: 0 };
    let all = [&alone[..], &[truncates, adopts]].concat();
    assert_eq!(after(requested(), &all), None);
    let without = [&alone[..], &[adopts]].concat();
    assert_eq!(after(requested(), &without), Some("its history is not a prefix of its leader's"));
}
