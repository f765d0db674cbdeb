//! Znodes that the server deletes by itself, and znodes that cannot be created.

use zebu_testkit::wire::{OPEN, Reader, Writer, create, err, multi, op, set_data};

use crate::client::{Client, EPHEMERAL};
use crate::running::{Running, wait};

const CONTAINER: i32 = 4;
const TTL: i32 = 5;
const FAST: &str = "-Dznode.container.checkIntervalMs=20";

fn container(client: &mut Client, path: &str) {
    let reply = client.call(op::CREATE_CONTAINER, &create(path, b"", OPEN, CONTAINER));
    assert_eq!(reply.err, 0, "{path}");
}

fn with_ttl(client: &mut Client, path: &str, ttl_ms: i64) -> i32 {
    client.call(op::CREATE_TTL, &create(path, b"", OPEN, TTL).long(ttl_ms)).err
}

#[test]
fn a_container_goes_with_its_last_child_and_not_before_it_had_one() {
    let running = Running::new(&[FAST]);
    let mut client = running.client();
    container(&mut client, "/unused");
    container(&mut client, "/used");
    client.create("/used/child", b"").unwrap();
    client.watch("/used");
    client.delete("/used/child").unwrap();
    assert_eq!(client.event().path, "/used");
    assert!(client.exists("/unused"));
    // The znode is also deleted after a restart.
    client.create("/unused/child", b"").unwrap();
    client.delete("/unused/child").unwrap();
    let running = running.restart(&[FAST]);
    let mut client = running.client();
    wait("it is gone", || !client.exists("/unused"));
}

#[test]
fn a_container_that_never_had_a_child_goes_when_that_is_configured() {
    let running = Running::new(&[FAST, "-Dznode.container.maxNeverUsedIntervalMs=1"]);
    let mut client = running.client();
    container(&mut client, "/unused");
    wait("it is gone", || !client.exists("/unused"));
}

#[test]
fn only_so_many_containers_go_in_a_minute() {
    let running = Running::new(&[FAST, "-Dznode.container.maxPerMinute=1"]);
    let mut client = running.client();
    client.create("/all", b"").unwrap();
    for n in 0..20 {
        container(&mut client, &format!("/all/{n}"));
        client.create(&format!("/all/{n}/child"), b"").unwrap();
        client.delete(&format!("/all/{n}/child")).unwrap();
    }
    wait("one is gone", || client.children("/all").len() < 20);
    // After many searches, it is still the only one.
    let now = running.metric("uptime").unwrap();
    running.wait_metric("uptime", |uptime| uptime > now + 300.0);
    assert_eq!(client.children("/all").len(), 19);
}

#[test]
fn znodes_with_a_ttl_go_when_it_is_over_and_they_have_no_children() {
    let running = Running::new(&[FAST, "extendedTypesEnabled=true"]);
    let mut client = running.client();
    assert_eq!(with_ttl(&mut client, "/short", 1), 0);
    assert_eq!(with_ttl(&mut client, "/long", 1_000_000), 0);
    assert_eq!(with_ttl(&mut client, "/parent", 1), 0);
    if client.create("/parent/child", b"").is_ok() {
        wait("it is gone", || !client.exists("/short"));
        assert!(client.exists("/long") && client.exists("/parent"));
        client.delete("/parent/child").unwrap();
    }
    wait("it is gone", || !client.exists("/short") && !client.exists("/parent"));
    assert!(client.exists("/long"));
}

#[test]
fn ttls_need_extended_types() {
    let running = Running::new(&[]);
    let mut client = running.client();
    assert_eq!(with_ttl(&mut client, "/short", 1), err::UNIMPLEMENTED);
}

fn limit(client: &mut Client, path: &str, limits: &str) {
    let mut at = "/zookeeper/quota".to_owned();
    for part in path.split('/').skip(1) {
        at = format!("{at}/{part}");
        client.create(&at, b"").unwrap();
    }
    client.create(&format!("{at}/zookeeper_limits"), limits.as_bytes()).unwrap();
    client.create(&format!("{at}/zookeeper_stats"), b"count=0,bytes=0").unwrap();
}

#[test]
fn a_hard_quota_refuses_and_a_soft_one_does_not() {
    for (enforced, code) in [("true", Some(err::QUOTA_EXCEEDED)), ("false", None)] {
        let running = Running::new(&[&format!("enforceQuota={enforced}")]);
        let mut client = running.client();
        client.create("/hard", b"").unwrap();
        client.create("/soft", b"").unwrap();
        limit(&mut client, "/hard", "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3");
        limit(&mut client, "/soft", "count=1,bytes=1");
        client.create("/hard/a", b"12345").unwrap();
        client.create("/hard/b", b"").unwrap();
        assert_eq!(client.create("/hard/c", b"").err(), code, "one znode too many");
        assert_eq!(client.set("/hard/b", b"123456").err(), code, "a byte too many");
        client.set("/hard/a", b"").unwrap();
        client.set("/soft", b"more than one byte").unwrap();
        client.create("/soft/a", b"and more than one znode").unwrap();
        let refused = running.metric("hard_quota_exceeded_error_per_namespace");
        assert_eq!(refused, code.map(|_| 2.0));
        assert_eq!(running.metric("hard_quota_count_limit_per_namespace"), Some(3.0));
        assert_eq!(running.metric("hard_quota_bytes_limit_per_namespace"), Some(10.0));
        assert_eq!(running.metric("soft_quota_count_limit_per_namespace"), Some(1.0));
        assert_eq!(running.metric("soft_quota_count_usage_per_namespace"), Some(2.0));
        assert_eq!(running.metric("soft_quota_bytes_usage_per_namespace"), Some(41.0));
        // The usage is the same after a restart.
        let running = running.restart(&[]);
        assert_eq!(running.metric("soft_quota_bytes_usage_per_namespace"), Some(41.0));
    }
}

#[test]
fn a_multi_happens_as_a_whole_or_not_at_all() {
    let running = Running::new(&[]);
    let mut client = running.client();
    client.create("/n", b"").unwrap();
    let ops = [
        (op::CREATE, create("/a", b"", OPEN, EPHEMERAL)),
        (op::SET_DATA, set_data("/n", b"x")),
        (op::CHECK, Writer::new().string("/n").int(1)),
    ];
    assert_eq!(client.call(op::MULTI, &multi(&ops)).err, 0);
    let failing = [
        (op::CREATE, create("/b", b"", OPEN, 0)),
        (op::DELETE, Writer::new().string("/missing").int(-1)),
    ];
    client.call(op::MULTI, &multi(&failing));
    let there = ["/a", "/b"].map(|path| client.exists(path));
    assert_eq!(there, [true, false]);
    assert_eq!(client.get("/n").unwrap().0, b"x");
}

#[test]
fn a_standalone_server_refuses_reconfig_with_or_without_it_being_enabled() {
    let reconfig = Writer::new().int(-1).int(-1).int(-1).long(-1);
    let errors = ["false", "true"].map(|enabled| {
        let running = Running::new(&[&format!("reconfigEnabled={enabled}"), "skipACL=yes"]);
        running.client().call(op::RECONFIG, &reconfig).err
    });
    assert_eq!(errors, [err::RECONFIG_DISABLED, err::UNIMPLEMENTED]);
}

#[test]
fn sequential_names_go_on_where_they_were_after_a_restart() {
    let running = Running::new(&[]);
    let mut client = running.client();
    client.create("/q", b"").unwrap();
    let name = |client: &mut Client| {
        client.create_with("/q/n-", b"", OPEN, crate::client::SEQUENTIAL).unwrap()
    };
    assert_eq!(name(&mut client), "/q/n-0000000000");
    client.delete("/q/n-0000000000").unwrap();
    let running = running.restart(&[]);
    let mut client = running.client();
    assert_eq!(name(&mut client), "/q/n-0000000001");
    let reply = client.call(op::GET_CHILDREN2, &Writer::new().string("/q").bool(false));
    assert_eq!(Reader::new(&reply.body).strings().unwrap(), ["n-0000000001"]);
}
