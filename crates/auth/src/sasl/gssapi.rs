//! GSSAPI as a mechanism: the keys of a `Krb5LoginModule`.

use std::sync::Arc;

use super::{Failure, Given, Mechanism, ServerExchange, Step};
use crate::gssapi::{self, Acceptor, Context};

/// The mechanism of a service with these keys.
///
/// A step needs no network: it reads the key table, decrypts a ticket, and records it in the
/// library's replay cache. This takes some 0.2 ms, as long as a few dozen reads.
pub fn gssapi(acceptor: Acceptor) -> Arc<dyn Mechanism> {
    Arc::new(Gssapi { acceptor })
}

#[derive(Debug)]
struct Gssapi {
    acceptor: Acceptor,
}

impl Mechanism for Gssapi {
    fn name(&self) -> &'static str {
        "GSSAPI"
    }

    fn begin(&self) -> Box<dyn ServerExchange> {
        Box::new(gssapi::Server::new(self.acceptor.begin()))
    }
}

impl ServerExchange for gssapi::Server<Context> {
    fn step(&mut self, token: &[u8], _: Given) -> Result<Step, Failure> {
        match Self::step(self, token).map_err(Failure::new)? {
            gssapi::Step::Challenge(token) => Ok(Step::More(token)),
            // As in the original, the user as whom the client wants to act is ignored.
            gssapi::Step::Done(who) => Ok(Step::Done { token: None, user: who.user }),
        }
    }
}
