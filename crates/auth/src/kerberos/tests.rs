//! Names and rules, with the results of ZooKeeper's own `KerberosName` (`tests/fixtures/make.sh`).

use super::*;

const TABLE: &str = include_str!("../../tests/fixtures/kerberos-names.txt");
const REALM: &str = "EXAMPLE.ORG";

#[test]
fn names_become_what_zookeeper_makes_of_them() {
    let mut rows = 0;
    for line in TABLE.lines() {
        let [rules, name, short] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        rows += 1;
        match rules {
            "-" => assert_eq!(Principal::parse(name).is_ok(), short == "good", "{line}"),
            "--" => assert_eq!(Rules::parse(name).is_ok(), short == "good", "{line}"),
            _ => {
                let rules = Rules::parse(&rules.replace("<LF>", "\n")).unwrap();
                let ours = rules.short_name(&Principal::parse(name).unwrap(), REALM);
                assert_eq!(ours.as_deref().unwrap_or("!"), short, "{line}");
            }
        }
    }
    assert_eq!(rows, 219);
}

#[test]
fn rules_that_can_never_apply_are_refused_at_once() {
    let cases = [
        ("RULE:[1:$2]", "$2 names no component of 1"),
        ("RULE:[1:$]", "$ names no component of 1"),
        ("RULE:[1:$1]s/a/$1/", "names group 1, which does not exist"),
        ("RULE:[1:$1](a(?=b))", "regular expression is not supported"),
        ("RULE:[1:$1](a{2,1})", "regular expression is not supported"),
        ("DEFAULT nonsense", "at \"nonsense\": it begins with neither"),
    ];
    for (text, words) in cases {
        let error = Rules::parse(text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn ids_have_host_and_realm_unless_they_are_removed() {
    let id = |removes_host, removes_realm, name: &str| {
        let default_realm = REALM.to_owned();
        Naming { default_realm, removes_host, removes_realm, ..Naming::default() }.id(name).unwrap()
    };
    let name = "zk/h1@EXAMPLE.ORG";
    assert_eq!(id(false, false, name), "zk/h1@EXAMPLE.ORG");
    assert_eq!(id(true, false, name), "zk@EXAMPLE.ORG");
    assert_eq!(id(false, true, name), "zk/h1");
    assert_eq!(id(true, true, name), "zk");
    // A user of DIGEST-MD5 has no realm.
    assert_eq!(id(true, true, "bob"), "bob");
    // Where no rule applies, the whole name.
    assert_eq!(id(true, true, "bob@ELSEWHERE"), "bob@ELSEWHERE");
    assert!(Naming::default().id("a@b@c").is_err());
}

#[test]
fn a_peer_without_a_host_of_the_ensemble_is_no_member() {
    let is_member = |name: &str, realm| {
        Principal::parse(name).unwrap().is_of_ensemble(&["h1", "h2.example.org"], realm)
    };
    assert!(is_member("zkquorum/h1@EXAMPLE.ORG", None));
    assert!(is_member("zkquorum/h2.example.org@EXAMPLE.ORG", Some(REALM)));
    for name in [
        "zkquorum@EXAMPLE.ORG",
        "zkquorum",
        "zkquorum/h1",
        "zkquorum/h3@EXAMPLE.ORG",
        "zkquorum/@EXAMPLE.ORG",
    ] {
        assert!(!is_member(name, None), "{name}");
    }
    assert!(!is_member("zkquorum/h1@OTHER.ORG", Some(REALM)));
    assert!(!is_member("zkquorum/h1@", None));
}
