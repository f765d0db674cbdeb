//! Typed models with schemas.

use std::collections::BTreeMap;

use zebu_client::{Acls, CreateMode, Version};
use zebu_recipes::{Change, Error, Models};

use crate::embedded::Server;
use crate::{connect, create, soon};

#[derive(serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
struct User {
    name: String,
    age: u8,
}

fn user(name: &str, age: u8) -> User {
    User { name: name.to_owned(), age }
}

#[tokio::test]
async fn values_keep_their_schema() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let users = Models::<User>::json(&client, "/orgs/{org}/users/{user}", &Acls::creator())
        .unwrap()
        .check(|user| if user.age < 150 { Ok(()) } else { Err("too old".into()) });
    let amy = users.at(&["acme", "amy"]).unwrap();
    assert_eq!((amy.path(), amy.get().await.unwrap()), ("/orgs/acme/users/amy", None));
    assert_eq!(amy.update(|user| user.age = 1).await.unwrap(), None);
    assert!(amy.create(&user("Amy", 30)).await.unwrap());
    assert!(!amy.create(&user("Amy", 31)).await.unwrap());
    let (data, _) = client.get_data("/orgs/acme/users/amy").await.unwrap();
    assert_eq!(data, br#"{"name":"Amy","age":30}"#.as_slice());
    // An invalid value is neither written nor read.
    let old = amy.set(&user("Amy", 200), Version::ANY).await.unwrap_err();
    let reason = "/orgs/acme/users/amy does not fit its schema: too old";
    assert_eq!(old.to_string(), reason);
    create(&client, "/orgs/acme/users/dom", r#"{"name":"Dom","age":200}"#).await;
    create(&client, "/orgs/acme/users/eve", "words").await;
    for name in ["dom", "eve"] {
        let error = users.at(&["acme", name]).unwrap().get().await.unwrap_err();
        assert!(matches!(error, Error::Model { .. }), "{error}");
    }
    assert_eq!(users.ids(&["acme"]).await.unwrap(), ["amy", "dom", "eve"]);
    assert_eq!(users.ids(&["nobody"]).await.unwrap(), [""; 0]);
    // A write based on an older value is refused.
    assert_eq!(amy.set(&user("Amy", 31), Version(0)).await.unwrap(), Some(Version(1)));
    assert_eq!(amy.set(&user("Amy", 32), Version(0)).await.unwrap(), None);
    assert!(amy.delete(Version(1)).await.unwrap());
    assert!(!amy.delete(Version::ANY).await.unwrap());
}

#[tokio::test]
async fn updates_of_many_are_all_there() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let counts =
        Models::<BTreeMap<String, u32>>::json(&client, "/counts", &Acls::creator()).unwrap();
    let here = counts.at(&[]).unwrap();
    here.create(&BTreeMap::new()).await.unwrap();
    let all: Vec<_> = (0..4)
        .map(|_| {
            let here = here.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    let add =
                        |map: &mut BTreeMap<String, u32>| *map.entry("n".into()).or_default() += 1;
                    here.update(add).await.unwrap().unwrap();
                }
            })
        })
        .collect();
    for one in all {
        soon(one).await.unwrap();
    }
    assert_eq!(here.get().await.unwrap().unwrap().value["n"], 20);
}

#[tokio::test]
async fn templates_and_ids_are_checked() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let acl = Acls::creator();
    for template in ["", "/", "a/{b}", "/a/", "/a//b", "/a/../b"] {
        let error = Models::<User>::json(&client, template, &acl).unwrap_err();
        assert!(matches!(error, Error::Model { .. }), "{template}: {error}");
    }
    let users = Models::<User>::json(&client, "/{org}/users/{user}", &acl).unwrap();
    for ids in [&["a"][..], &["a", "b", "c"], &["a", ".."], &["a/b", "c"], &["", "c"]] {
        users.at(ids).unwrap_err();
    }
    let numbered = users.clone().mode(CreateMode::EphemeralSequential);
    numbered.at(&["a", "b"]).unwrap().create(&user("Amy", 1)).await.unwrap_err();
    let mine = users.mode(CreateMode::Ephemeral).at(&["a", "b"]).unwrap();
    assert!(mine.create(&user("Amy", 1)).await.unwrap());
    let owner = mine.get().await.unwrap().unwrap().stat.ephemeral_owner;
    assert_eq!(owner, client.session_id().0);
}

#[tokio::test]
async fn a_cache_has_typed_values() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let users = Models::<User>::json(&client, "/users/{user}", &Acls::creator()).unwrap();
    users.at(&["amy"]).unwrap().create(&user("Amy", 30)).await.unwrap();
    let cache = users.cached(&[]).unwrap();
    soon(cache.current()).await.unwrap();
    let znode = cache.get("/users/amy").unwrap();
    assert_eq!(users.record(&znode).unwrap().value, user("Amy", 30));
    let mut changes = cache.changes();
    while soon(changes.next()).await.unwrap() != Change::Current {}
    users.at(&["dom"]).unwrap().create(&user("Dom", 40)).await.unwrap();
    let Change::Created(znode) = soon(changes.next()).await.unwrap() else { panic!("not created") };
    assert_eq!(users.record(&znode).unwrap().value, user("Dom", 40));
}
