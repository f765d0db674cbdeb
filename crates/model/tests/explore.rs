//! The machine keeps its invariants, and the invariants detect a faulty machine.

use zebu_model::explore::{Report, Scope};
use zebu_model::{Fault, Majority, Rules};

fn explore(scope: Scope, fault: Option<Fault>) -> Report {
    scope.explore(&Rules { fault, ..Rules::new(Majority(scope.servers)) })
}

fn holds(scope: Scope, committed: usize) {
    let report = explore(scope, None);
    assert_eq!(report.broken, None, "{scope:?}");
    assert!(report.is_complete);
    assert_eq!(report.agreed_max, committed, "what is proposed can be committed");
}

#[test]
fn every_invariant_holds_in_every_state() {
    holds(Scope::new(3, 2, 2), 2);
}

#[test]
fn also_where_messages_come_late_and_what_is_committed_is_delivered() {
    holds(Scope { late: true, deliveries: true, ..Scope::new(3, 1, 2) }, 2);
    holds(Scope { late: true, deliveries: true, ..Scope::new(2, 2, 1) }, 1);
    holds(Scope { deliveries: true, ..Scope::new(3, 2, 1) }, 1);
}

#[test]
fn also_where_a_server_loses_its_disk() {
    holds(Scope { disk_loss: true, ..Scope::new(3, 1, 2) }, 2);
}

#[test]
fn also_where_servers_learn_from_leaders_that_do_not_count_on_them() {
    holds(Scope { observes: true, ..Scope::new(3, 2, 1) }, 1);
    holds(Scope { observes: true, late: true, deliveries: true, ..Scope::new(2, 2, 1) }, 1);
}

#[test]
fn every_guard_is_needed() {
    for fault in Fault::ALL {
        let scope = match fault {
            Fault::EmptyPromises => Scope { disk_loss: true, ..Scope::new(3, 2, 1) },
            Fault::DeliversEarly => Scope { deliveries: true, ..Scope::new(3, 1, 1) },
            _ => Scope { states_max: 1_000_000, ..Scope::new(3, 3, 2) },
        };
        let report = explore(scope, Some(fault));
        let broken = report.broken.as_ref().map(|(broken, way)| (broken.id, way.len()));
        println!("{fault:?}: {broken:?} after {} states", report.states);
        assert!(report.broken.is_some(), "{fault:?} breaks nothing");
    }
}
