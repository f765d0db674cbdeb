//! Authentication schemes that `authProvider.*` names.

use std::time::Duration;

use super::{Case, MS};
use crate::{CheckLimits, OutsideCheck};

const KEY: &str = "authProvider.1=org.apache.zookeeper.server.auth.KeyAuthenticationProvider";
const ENSEMBLE: &str =
    "authProvider.ens=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";

#[test]
fn a_class_of_the_original_makes_its_scheme() {
    let auth = Case::file("ensembleAuthName=one").config().auth;
    assert!(!auth.key && auth.ensemble.is_none());
    let auth = Case::file(&format!("{KEY}\n{ENSEMBLE}")).config().auth;
    assert!(auth.key);
    assert_eq!(auth.ensemble, Some(None));
    let auth = Case::file(&format!("{ENSEMBLE}\nensembleAuthName= one,two words ,")).config().auth;
    assert_eq!(auth.ensemble, Some(Some(vec!["one".to_owned(), "two words".to_owned()])));
}

#[test]
fn only_schemes_that_there_are_can_be_enforced() {
    let enforced = "enforce.auth.enabled=true\nenforce.auth.schemes=key";
    Case::file(enforced)
        .fails("zoo.cfg:4: enforce.auth.schemes: this server has no authentication scheme key");
    let auth = Case::file(&format!("{enforced}\n{KEY}")).config().auth;
    assert_eq!(auth.enforced_schemes, ["key"]);
}

#[test]
fn a_program_behind_a_socket_makes_its_scheme() {
    let config = Case::file(
        "authProvider.2=unix:opa:/run/opa.sock\nauthProvider.1= unix:ldap:/run/a:b/ldap.sock\n\
         zebu.authCheck.timeoutMillis=1500\nzebu.authCheck.cacheMillis=0\nzebu.authCheck.outstanding=7\n\
         enforce.auth.enabled=true\nenforce.auth.schemes=ldap",
    )
    .config();
    let of = |scheme: &str, path: &str| OutsideCheck { scheme: scheme.into(), path: path.into() };
    assert_eq!(config.auth.outside, [of("ldap", "/run/a:b/ldap.sock"), of("opa", "/run/opa.sock")]);
    let limits = CheckLimits { time_max: 1500 * MS, asked_max: 7, cache_time: Duration::ZERO };
    assert_eq!(config.auth.check_limits, limits);
    assert_eq!(config.auth.enforced_schemes, ["ldap"]);
}

#[test]
fn what_no_scheme_can_be_made_of_is_refused_with_its_line() {
    let long = format!("/{}", "x".repeat(107));
    for (value, fault) in [
        ("unix:", "expected unix:SCHEME:/path/of/the/socket"),
        ("unix:/run/ldap.sock", "expected unix:SCHEME:/path/of/the/socket"),
        (
            "unix:LDAP:/x",
            "\"LDAP\" is no name for a scheme: a to z, digits, '-', '_' and '.', a letter first, at most 64",
        ),
        ("unix:digest:/x", "the scheme digest is reserved"),
        ("unix:super:/x", "the scheme super is reserved"),
        ("unix:ldap:run/x", "the path of the socket must begin with /: \"run/x\""),
        (
            &format!("unix:ldap:{long}"),
            "the path of a socket has at most 107 bytes, this one has 108",
        ),
    ] {
        let line = format!("authProvider.1={value}");
        Case::file(&line).fails(&format!("zoo.cfg:3: {line}: {fault}"));
    }
    let twice = "authProvider.1=unix:a:/a\nauthProvider.2=unix:a:/b";
    Case::file(twice)
        .fails("zoo.cfg:4: authProvider.2=unix:a:/b: another authProvider makes the scheme a");
    Case::file(&format!("{KEY}\nauthProvider.2=unix:key:/b"))
        .fails("zoo.cfg:4: authProvider.2=unix:key:/b: another authProvider makes the scheme key");
}
