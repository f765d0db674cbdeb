//! What comes back from a leader belongs to whoever asked.

use zebu_proto::OpCode;
use zebu_replica::MemberOptions;
use zebu_zab::Role;

use crate::world::{PERSISTENT, World, create, ok};

#[test]
fn a_client_that_counts_anew_elsewhere_harms_nobody_there() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, there] = world.followers();
    let (old, session) = world.open(here);
    let (other, _) = world.open(there);
    let new = world.renew(there, session);
    assert_eq!(world.heard(new).len(), 1);
    // What the session asks for here has the number of what it asks for there, behind somebody else's.
    world.post(old, 1, OpCode::CREATE, create("/a", PERSISTENT));
    world.post(other, 1, OpCode::CREATE, create("/b", PERSISTENT));
    world.post(new, 1, OpCode::CREATE, create("/c", PERSISTENT));
    world.settle();
    assert!(matches!(world.role(there), Role::Following(_)));
    assert_eq!(world.heard(other), ok(1));
    assert_eq!(world.heard(new), ok(1));
    assert_eq!(world.create(new, 2, "/d", PERSISTENT), ok(2));
}
