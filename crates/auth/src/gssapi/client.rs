//! The client side.

use super::{Failure, NO_LAYER, Progress, Secured, check_length};

/// The client's choice: no layer, therefore no length, and no name beside the one in the ticket.
const CHOICE: [u8; 4] = [NO_LAYER, 0, 0, 0];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// The context is being established.
    Begun,
    /// The context is established: the server must offer protection for messages.
    Established,
    /// The last token has been sent.
    Chosen,
    Done,
    Failed,
}

/// One authentication of one connection.
#[derive(Debug)]
pub struct Client<C> {
    context: C,
    state: State,
}

impl<C: Secured> Client<C> {
    /// A client that has sent nothing.
    pub fn new(context: C) -> Self {
        Self { context, state: State::Start }
    }

    /// The first token. It may take many seconds, as tickets are issued over the network.
    ///
    /// # Errors
    /// There are no credentials, or no ticket for this server.
    pub fn begin(&mut self) -> Result<Vec<u8>, Failure> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Start => self.establish(&[]),
            _ => Err(Failure::Message("an exchange that begins twice")),
        }
    }

    /// Processes a token of the server. Returns the answer to send, or `None` at the successful
    /// end.
    ///
    /// # Errors
    /// The server does not prove its identity, or requires an unsupported option.
    pub fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let state = std::mem::replace(&mut self.state, State::Failed);
        check_length(token)?;
        match state {
            State::Begun if token.is_empty() => {
                Err(Failure::Message("the server sends no token; it may not know Kerberos"))
            }
            State::Begun => self.establish(token).map(Some),
            State::Established => self.choose(token).map(Some),
            State::Chosen if token.is_empty() => {
                self.state = State::Done;
                Ok(None)
            }
            State::Chosen => Err(Failure::Message("a token behind the agreement")),
            State::Start | State::Done | State::Failed => {
                Err(Failure::Message("a token out of order"))
            }
        }
    }

    fn establish(&mut self, token: &[u8]) -> Result<Vec<u8>, Failure> {
        let (state, token) = match self.context.step(token)? {
            Progress::Continue(token) => (State::Begun, token),
            // If this side has no further token, it sends an empty one.
            Progress::Established(token) => (State::Established, token.unwrap_or_default()),
        };
        self.state = state;
        Ok(token)
    }

    fn choose(&mut self, token: &[u8]) -> Result<Vec<u8>, Failure> {
        let offer = self.context.unwrap(token)?;
        let [layers, ..] =
            offer.first_chunk::<4>().ok_or(Failure::Message("an offer that is too short"))?;
        if layers & NO_LAYER == 0 {
            return Err(Failure::Message(
                "the server requires a security layer, which this client does not have",
            ));
        }
        let token = self.context.wrap(&CHOICE)?;
        self.state = State::Chosen;
        Ok(token)
    }
}
