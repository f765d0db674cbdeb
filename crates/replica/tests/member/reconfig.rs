//! One reconfiguration at a time.

use zebu_jute::Encode as _;
use zebu_proto::request::Reconfig;
use zebu_proto::{ErrorCode, OpCode, Xid};
use zebu_replica::MemberOptions;

use crate::world::{Said, World};

fn leaves(id: &str) -> Vec<u8> {
    Reconfig { joining: None, leaving: Some(id.into()), members: None, config_id: -1 }.to_bytes()
}

#[test]
fn while_the_members_change_they_are_not_changed_again() {
    let mut world = World::led(5, &MemberOptions::default());
    let leader = world.leader();
    let [one, other] = world.followers().map(|server| (server + 1).to_string());
    let (conn, _) = world.open(leader);
    for server in 0..5 {
        world.stop_disk(server);
    }
    world.post(conn, 1, OpCode::RECONFIG, leaves(&one));
    world.post(conn, 2, OpCode::RECONFIG, leaves(&other));
    world.settle();
    for server in 0..5 {
        world.start_disk(server);
    }
    let heard = world.heard(conn);
    let refused = Said::Answer(Xid(2), ErrorCode::RECONFIG_IN_PROGRESS);
    assert_eq!(heard[..2], [Said::Answer(Xid(1), ErrorCode::OK), refused]);
}
