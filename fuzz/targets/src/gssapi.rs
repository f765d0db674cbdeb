//! SASL's GSSAPI: arbitrary tokens for both sides of an exchange, and for the Kerberos library
//! where it is installed.
//!
//! The contexts are simulated ([`Played`]), since tickets need a key distribution centre.

use std::path::Path;
use std::sync::LazyLock;

use zebu_auth::gssapi::{Acceptor, Client, Gss, Server, Step};
use zebu_testkit::gssapi::{PEER, Played};

/// Lines of tokens; the first byte selects the side that receives them.
pub(crate) fn tokens(bytes: &[u8]) {
    let Some((side, rest)) = bytes.split_first() else { return };
    let tokens: Vec<&[u8]> = rest.split(|byte| *byte == b'\n').collect();
    match side & 5 {
        0 => server(Played::server(side & 2 != 0), &tokens),
        1 => client(Played::client(true), &tokens),
        _ => library(rest),
    }
}

fn one_line(text: &str) {
    assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
}

fn server(mut server: Server<Played>, tokens: &[&[u8]]) {
    let mut is_over = false;
    for (number, token) in tokens.iter().enumerate() {
        let stepped = server.step(token);
        assert!(!is_over || stepped.is_err(), "{stepped:?} behind the end");
        match stepped {
            Ok(Step::Challenge(_)) => {}
            Ok(Step::Done(who)) => {
                // This point is reached only with a ticket and an agreement on no security layer.
                assert_eq!((who.user.as_str(), tokens[0]), (PEER, &b"ticket"[..]));
                assert!(number > 0 && token.starts_with(b"c\x01"), "{token:?}");
                is_over = true;
            }
            Err(failure) => {
                one_line(&failure.to_string());
                is_over = true;
            }
        }
    }
}

fn client(mut client: Client<Played>, tokens: &[&[u8]]) {
    assert_eq!(client.begin(), Ok(b"ticket".to_vec()));
    let mut is_over = false;
    for (number, token) in tokens.iter().enumerate() {
        let stepped = client.step(token);
        assert!(!is_over || stepped.is_err(), "{stepped:?} behind the end");
        match stepped {
            Ok(Some(_)) => {}
            Ok(None) => {
                // The server has proved its identity twice.
                assert_eq!((number, tokens[0], *token), (2, &b"proof"[..], &b""[..]));
                assert!(tokens[1].starts_with(b"s"));
                is_over = true;
            }
            Err(failure) => {
                one_line(&failure.to_string());
                is_over = true;
            }
        }
    }
}

/// A service with a key; `None` if the library is not installed.
static SERVICE: LazyLock<Option<Acceptor>> = LazyLock::new(|| {
    let key_tab = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/gssapi/tests/fixtures/zookeeper.keytab");
    let gss = Gss::load().ok()?;
    Some(gss.acceptor("zookeeper/localhost@ZEBU.TEST", Some(&key_tab)).expect("it has this key"))
});

/// No client has a ticket of this service.
fn library(token: &[u8]) {
    let Some(service) = &*SERVICE else { return };
    let mut server = Server::new(service.begin());
    let failure = server.step(token).expect_err("nobody has a ticket");
    one_line(&failure.to_string());
    server.step(token).expect_err("the exchange is over");
}
