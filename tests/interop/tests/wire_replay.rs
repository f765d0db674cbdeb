//! The recorded conversations, replayed byte for byte.

use std::path::PathBuf;

use zebu_interop::replay::{Difference, replay};
use zebu_interop::scenario::subject;
use zebu_interop::server::{Kind, Options, Server};

fn recording(version: &str) -> PathBuf {
    zebu_interop::deps::repository().join(format!("tests/fixtures/{version}/wire/session.jsonl"))
}

fn differences(kind: Kind, version: &str) -> Vec<Difference> {
    let options = Options::default().config("extendedTypesEnabled", true);
    let server = Server::start(kind, &options).expect("a server");
    replay(&recording(version), server.address()).expect("the recording can be replayed")
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn conversation_of_395_is_repeated_by_the_original() {
    let found = differences(Kind::Java395, "zookeeper-3.9.5");
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn conversation_of_395_is_repeated_by_zebu() {
    let found = differences(subject(), "zookeeper-3.9.5");
    assert!(found.is_empty(), "{found:#?}");
}

/// Requests of this conversation with a different answer in 3.9.5 than in 3.8.0, and the reasons.
const CHANGED_SINCE_380: [(&str, &str); 4] = [
    ("B drains events", "a notification carries the causing zxid, not -1"),
    ("B sees events", "a recursive watch leaves the one-shot child watch of its path alone"),
    ("multi ok", "create2 within a multi answers with the stat"),
    ("B drains", "likewise the zxid and the one-shot watches"),
];

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn conversation_of_380_differs_only_where_the_protocol_changed() {
    let original = differences(Kind::Java395, "zookeeper-3.8.0");
    let notes: Vec<&str> = original.iter().map(|difference| difference.note.as_str()).collect();
    let changed: Vec<&str> = CHANGED_SINCE_380.iter().map(|(note, _)| *note).collect();
    assert_eq!(notes, changed, "{original:#?}");
    assert_eq!(differences(subject(), "zookeeper-3.8.0"), original);
}
