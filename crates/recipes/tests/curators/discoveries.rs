//! Service discovery.

use std::sync::Arc;
use std::time::Duration;

use zebu_client::{Acls, Client, CreateMode, Version};
use zebu_recipes::{
    Discovery, DownPolicy, Error, Provider, Random, RoundRobin, ServiceInstance, ServiceType,
    Sticky,
};

use crate::embedded::Server;
use crate::gate::Gate;
use crate::{connect, create, names, soon};

fn instance(id: &str, kind: ServiceType) -> ServiceInstance {
    let mut instance = ServiceInstance::new("web", "10.0.0.1");
    instance.id = id.to_owned();
    instance.kind = kind;
    instance
}

/// Waits until the provider knows exactly these instances.
async fn until(provider: &Provider, wanted: &str) {
    let mut changes = provider.changes();
    loop {
        let found = soon(provider.instances()).await.unwrap();
        let ids: Vec<&str> = found.iter().map(|instance| instance.id.as_str()).collect();
        if ids.join(" ") == wanted {
            return;
        }
        soon(changes.next()).await.unwrap();
    }
}

async fn chosen(provider: &Provider) -> Option<Arc<ServiceInstance>> {
    soon(provider.instance()).await.unwrap()
}

async fn owner(client: &Client, path: &str) -> Option<i64> {
    client.exists(path).await.unwrap().map(|stat| stat.ephemeral_owner)
}

/// The exact znodes, their create modes, and their data.
#[tokio::test]
async fn instances_are_where_curator_has_them() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let discovery = Discovery::new(&client, "/deep/services", &Acls::creator());
    let mine = client.session_id().0;
    let a = soon(discovery.register(instance("a", ServiceType::Dynamic))).await.unwrap();
    let b = soon(discovery.register(instance("b", ServiceType::Static))).await.unwrap();
    let c = soon(discovery.register(instance("c", ServiceType::Permanent))).await.unwrap();
    let d = instance("d", ServiceType::DynamicSequential);
    let d = soon(discovery.register(d)).await.unwrap();
    let found = names(&client, "/deep/services/web").await;
    assert_eq!(found.len(), 4);
    assert!(found[0].starts_with("_c_") && found[0].ends_with("-d0000000003"), "{found:?}");
    assert_eq!(found[1..], ["a", "b", "c"]);
    assert_eq!(owner(&client, "/deep/services/web/a").await, Some(mine));
    assert_eq!(owner(&client, "/deep/services/web/b").await, Some(0));
    let data = client.get_data("/deep/services/web/a").await.unwrap().0;
    assert_eq!(data, a.instance().to_json());
    assert_eq!(soon(discovery.instances("web")).await.unwrap().len(), 4);
    assert_eq!(soon(discovery.instance("web", "b")).await.unwrap().as_ref(), Some(b.instance()));
    assert_eq!(soon(discovery.services()).await.unwrap(), ["web"]);
    for registration in [a, b, c, d] {
        soon(registration.unregister()).await.unwrap();
    }
    assert_eq!(names(&client, "/deep/services/web").await, [""; 0]);
    let error = soon(discovery.register(instance("a/b", ServiceType::Dynamic))).await.unwrap_err();
    assert!(matches!(error, Error::Name { .. }), "{error}");
    assert!(discovery.provider("a/b", Random).is_err());
}

/// An instance of the same service's earlier session is replaced at once.
#[tokio::test]
async fn an_instance_of_an_earlier_session_is_replaced() {
    let server = Server::start(&[]);
    let (before, client) = (connect(server.address()).await, connect(server.address()).await);
    let [old, new] = [&before, &client].map(|it| Discovery::new(it, "/services", &Acls::creator()));
    let earlier = soon(old.register(instance("a", ServiceType::Dynamic))).await.unwrap();
    before.leave();
    let _offered = soon(new.register(instance("a", ServiceType::Dynamic))).await.unwrap();
    assert_eq!(owner(&client, "/services/web/a").await, Some(client.session_id().0));
    drop(earlier);
}

/// The provider returns Curator's instances, and ignores data that are no instance.
#[tokio::test]
async fn a_provider_follows_what_is_there() {
    let server = Server::start(&[]);
    let (client, other) = (connect(server.address()).await, connect(server.address()).await);
    let [mine, theirs] =
        [&client, &other].map(|it| Discovery::new(it, "/services", &Acls::creator()));
    let provider = mine.provider("web", RoundRobin::default()).unwrap();
    assert!(chosen(&provider).await.is_none());
    let mut a = soon(theirs.register(instance("a", ServiceType::Dynamic))).await.unwrap();
    let b = soon(theirs.register(instance("b", ServiceType::Dynamic))).await.unwrap();
    let curator = r#"{"name":"web","id":"c","address":"10.0.0.3","port":8080,"sslPort":null,
        "payload":"hi","registrationTimeUTC":7,"serviceType":"DYNAMIC","uriSpec":null}"#;
    create(&other, "/services/web/c", curator).await;
    create(&other, "/services/web/note", "no instance").await;
    until(&provider, "a b c").await;
    let mut seen = String::new();
    for _ in 0..6 {
        seen.push_str(&chosen(&provider).await.unwrap().id);
    }
    assert_eq!(seen, "abcabc");
    // The instance changes its description and keeps its name.
    soon(a.update(|instance| {
        instance.enabled = false;
        instance.id = "z".to_owned();
    }))
    .await
    .unwrap();
    assert_eq!(a.instance().id, "a");
    until(&provider, "b c").await;
    soon(b.unregister()).await.unwrap();
    until(&provider, "c").await;
    other.delete("/services/web/c", Version::ANY).await.unwrap();
    soon(a.update(|instance| instance.enabled = true)).await.unwrap();
    until(&provider, "a").await;
    // The instance of a program that has died is no longer returned.
    other.close().await.unwrap();
    until(&provider, "").await;
    client.close().await.unwrap();
    let over = async {
        while provider.instance().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon(over).await;
}

/// Without a connection the provider returns the instances that it knew.
#[tokio::test]
async fn a_provider_gives_out_while_it_is_cut_off() {
    let server = Server::start(&[]);
    let gate = Gate::new(server.address()).await;
    let (client, other) = (connect(gate.address).await, connect(server.address()).await);
    let [mine, theirs] =
        [&client, &other].map(|it| Discovery::new(it, "/services", &Acls::creator()));
    let a = soon(theirs.register(instance("a", ServiceType::Dynamic))).await.unwrap();
    let provider = mine.provider("web", Sticky::new(Random)).unwrap();
    until(&provider, "a").await;
    gate.close();
    let mut changes = provider.changes();
    while soon(changes.next()).await.unwrap() != zebu_recipes::Change::Suspended {}
    assert_eq!(chosen(&provider).await.unwrap().id, "a");
    soon(a.unregister()).await.unwrap();
    assert_eq!(chosen(&provider).await.unwrap().id, "a");
    gate.open();
    until(&provider, "").await;
}

/// A provider does not return an instance that failed repeatedly. After some time it forgets the
/// failures.
#[tokio::test]
async fn an_instance_that_fails_rests() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let discovery = Discovery::new(&client, "/services", &Acls::creator());
    let _a = soon(discovery.register(instance("a", ServiceType::Dynamic))).await.unwrap();
    let _b = soon(discovery.register(instance("b", ServiceType::Dynamic))).await.unwrap();
    let provider = discovery.provider("web", Sticky::new(RoundRobin::default())).unwrap();
    let a = chosen(&provider).await.unwrap();
    assert_eq!((a.id.as_str(), &chosen(&provider).await.unwrap().id), ("a", &a.id));
    provider.failed(&a);
    assert_eq!(chosen(&provider).await.unwrap().id, "a");
    provider.failed(&a);
    assert_eq!(chosen(&provider).await.unwrap().id, "b");
    until(&provider, "b").await;
    let down = DownPolicy { failures: 1, rest: Duration::from_millis(50) };
    let provider = discovery.provider("web", Random).unwrap().down_policy(down);
    until(&provider, "a b").await;
    provider.failed(&a);
    let back = async {
        while provider.instances().await.unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(back).await;
}

/// A registration leaves no znode, at whatever point its future is dropped.
#[tokio::test]
async fn a_registration_that_is_given_up_leaves_nothing() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let discovery = Discovery::new(&client, "/services", &Acls::creator());
    let mode = CreateMode::Persistent;
    client.create("/services", "", mode, &Acls::creator()).await.unwrap();
    client.create("/services/web", "", mode, &Acls::creator()).await.unwrap();
    for polls in 0..8 {
        let mut offering = Box::pin(discovery.register(instance("a", ServiceType::Static)));
        for _ in 0..polls {
            if tokio::time::timeout(Duration::ZERO, &mut offering).await.is_ok() {
                break;
            }
            client.sync("/").await.unwrap();
        }
        drop(offering);
        crate::until_empty(&client, "/services/web").await;
    }
}
