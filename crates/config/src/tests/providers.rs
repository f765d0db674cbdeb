//! Authentication schemes that `authProvider.*` names.

use super::Case;

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
