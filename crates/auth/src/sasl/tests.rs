//! DIGEST-MD5 through the interface that every mechanism has.

use super::*;
use crate::digest_md5::{CLIENTS, Client, NONCE_BYTES};
use crate::jaas::{DigestLogin, Jaas, Login};
use crate::secret::Secret;

const GIVEN: Given = Given { wall: Duration::ZERO, random: [7; RANDOM_BYTES] };

fn users(options: &str) -> DigestLogin {
    let text = format!("Server {{ a.DigestLoginModule required {options}; }};");
    match Jaas::parse("jaas".as_ref(), &text, &|_| None).unwrap().required("Server").unwrap() {
        Login::Digest(login) => login,
        Login::Kerberos(_) => panic!("not Kerberos"),
    }
}

/// Plays an exchange to its end.
fn login(
    exchange: &mut dyn ServerExchange,
    user: &str,
    password: &str,
) -> Result<(Client, String), Failure> {
    let mut client = Client::new(CLIENTS, user.into(), password.into(), [1; NONCE_BYTES]);
    let Step::More(challenge) = exchange.step(Client::INITIAL, GIVEN)? else { panic!("done") };
    let response = client.step(&challenge).unwrap().unwrap();
    match exchange.step(&response, GIVEN)? {
        Step::Done { token: Some(token), user } => {
            assert_eq!(client.step(&token), Ok(None));
            Ok((client, user))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn users_prove_their_passwords_and_nobody_elses() {
    let mechanism = digest(users("user_alice=\"one\" user_bob=\"two\""), None);
    assert_eq!(mechanism.name(), "DIGEST-MD5");
    let mut exchange = mechanism.begin();
    let (client, user) = login(&mut *exchange, "alice", "one").unwrap();
    assert!(client.is_done());
    assert_eq!(user, "alice");
    // The end is the end.
    exchange.step(b"", GIVEN).unwrap_err();
    for (user, password) in [("alice", "two"), ("bob", "one"), ("eve", ""), ("eve", "one")] {
        let mut exchange = mechanism.begin();
        login(&mut *exchange, user, password).unwrap_err();
        exchange.step(b"", GIVEN).unwrap_err();
    }
}

#[test]
fn the_password_of_super_is_replaced_and_no_user_is_made() {
    let with = |options| digest(users(options), Some(Secret::from("hush")));
    let try_super = |mechanism: Arc<dyn Mechanism>, password| {
        login(&mut *mechanism.begin(), "super", password).map(|(_, user)| user)
    };
    assert_eq!(try_super(with("user_super=\"old\""), "hush"), Ok("super".to_owned()));
    try_super(with("user_super=\"old\""), "old").unwrap_err();
    try_super(with("user_alice=\"one\""), "hush").unwrap_err();
    login(&mut *with("user_alice=\"one\"").begin(), "alice", "one").unwrap();
}

#[test]
fn a_long_token_changes_nothing() {
    let mut exchange = digest(users("user_alice=\"one\""), None).begin();
    exchange.step(&[b'x'; 5000], GIVEN).unwrap_err();
    login(&mut *exchange, "alice", "one").unwrap();
}

#[test]
fn nothing_shows_a_password() {
    let mechanism = digest(users("user_alice=\"one\""), Some(Secret::from("hush")));
    let mut exchange = mechanism.begin();
    exchange.step(b"", GIVEN).unwrap();
    let shown = format!("{mechanism:?} {exchange:?} {GIVEN:?}");
    assert!(!shown.contains("one\"") && !shown.contains("hush") && !shown.contains("nonce"));
}
