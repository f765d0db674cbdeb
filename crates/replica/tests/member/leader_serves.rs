//! Leaders without clients of their own. Source: `leaderServes`.

use zebu_replica::MemberOptions;

use crate::world::{EPHEMERAL, Said, World, ok};

#[test]
fn a_leader_may_leave_all_clients_to_the_others() {
    let member = MemberOptions { leader_serves: false, ..MemberOptions::default() };
    let mut world = World::led(3, &member);
    let leader = world.leader();
    let conn = world.connect(leader);
    assert_eq!(world.heard(conn), [Said::Closed]);
    for server in world.followers() {
        let (conn, session) = world.open(server);
        assert_eq!(world.create(conn, 1, &format!("/e{server}"), EPHEMERAL), ok(1));
        let moved = world.renew(leader, session);
        assert_eq!(world.heard(moved), [Said::Closed]);
    }
    // A server that no longer leads accepts clients again.
    world.isolate(leader);
    world.wait_for(|world| {
        (0..3).any(|server| {
            server != leader && matches!(world.role(server), zebu_zab::Role::Leading(_))
        })
    });
    world.reunite(leader);
    world.wait_for(|world| matches!(world.role(leader), zebu_zab::Role::Following(_)));
    world.open(leader);
}
