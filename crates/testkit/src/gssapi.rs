//! Simulated contexts of Kerberos, for the exchange of SASL's GSSAPI: real tickets need a key
//! distribution centre.

use zebu_auth::gssapi::{Client, Error, Progress, Secured, Server};

/// The principal of the ticket.
pub const PEER: &str = "amy@ZEBU.TEST";

/// A simulated context: the tokens are fixed, and a message is wrapped with a letter of its side.
#[derive(Debug)]
pub struct Played {
    is_client: bool,
    /// The server proves its identity with a token.
    is_mutual: bool,
    tokens: usize,
}

impl Played {
    /// A client. `is_mutual`: it expects the server to prove its identity with a token.
    #[must_use]
    pub fn client(is_mutual: bool) -> Client<Self> {
        Client::new(Self { is_client: true, is_mutual, tokens: 0 })
    }

    /// A server. `is_mutual`: it proves its identity with a token.
    #[must_use]
    pub fn server(is_mutual: bool) -> Server<Self> {
        Server::new(Self { is_client: false, is_mutual, tokens: 0 })
    }
}

/// The failure of a context that gets another token than it expects.
#[must_use]
pub fn refused() -> Error {
    Error::Refused { message: "played".to_owned() }
}

impl Secured for Played {
    fn step(&mut self, token: &[u8]) -> Result<Progress, Error> {
        self.tokens += 1;
        match (self.is_client, self.tokens, token) {
            (true, 1, b"") if self.is_mutual => Ok(Progress::Continue(b"ticket".to_vec())),
            (true, 1, b"") => Ok(Progress::Established(Some(b"ticket".to_vec()))),
            (true, 2, b"proof") => Ok(Progress::Established(None)),
            (false, 1, b"ticket") if self.is_mutual => {
                Ok(Progress::Established(Some(b"proof".to_vec())))
            }
            (false, 1, b"ticket") => Ok(Progress::Established(None)),
            _ => Err(refused()),
        }
    }

    fn peer(&self) -> Option<&str> {
        (!self.is_client).then_some(PEER)
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok([if self.is_client { b"c" } else { b"s" }, message].concat())
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let from = if self.is_client { b's' } else { b'c' };
        message.strip_prefix(&[from]).map(<[u8]>::to_vec).ok_or_else(refused)
    }
}
