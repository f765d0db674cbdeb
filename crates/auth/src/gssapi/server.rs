//! The server side.

use super::{Failure, NO_LAYER, Progress, Secured, check_length};
use crate::authenticated::Authenticated;

/// The server's offer: no layer, and messages of up to 65,536 bytes, as in Java. Without a layer
/// the length has no meaning, but some clients divide by it.
const OFFER: [u8; 4] = [NO_LAYER, 1, 0, 0];

/// The result of a peer's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this token and wait for the next one.
    Challenge(Vec<u8>),
    /// The peer is authenticated, and no further token is sent.
    Done(Authenticated),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The context is being established.
    Start,
    /// The context is established, and the peer must confirm it.
    Established,
    /// The offer of protection was sent to the peer.
    Offered,
    Over,
}

/// One authentication of one connection.
#[derive(Debug)]
pub struct Server<C> {
    context: C,
    state: State,
}

impl<C: Secured> Server<C> {
    /// An exchange without any token yet.
    pub fn new(context: C) -> Self {
        Self { context, state: State::Start }
    }

    /// Processes a token. After an error, and after [`Step::Done`], every further token is an
    /// error.
    ///
    /// # Errors
    /// The peer is not authenticated.
    pub fn step(&mut self, token: &[u8]) -> Result<Step, Failure> {
        let state = std::mem::replace(&mut self.state, State::Over);
        check_length(token)?;
        match state {
            State::Start => match self.context.step(token)? {
                Progress::Continue(token) => {
                    self.state = State::Start;
                    Ok(Step::Challenge(token))
                }
                Progress::Established(Some(token)) => {
                    self.state = State::Established;
                    Ok(Step::Challenge(token))
                }
                Progress::Established(None) => self.offer(),
            },
            State::Established if token.is_empty() => self.offer(),
            State::Established => Err(Failure::Message("a token behind the context")),
            State::Offered => self.finish(token),
            State::Over => Err(Failure::Message("a token behind the end")),
        }
    }

    fn offer(&mut self) -> Result<Step, Failure> {
        let token = self.context.wrap(&OFFER)?;
        self.state = State::Offered;
        Ok(Step::Challenge(token))
    }

    fn finish(&mut self, token: &[u8]) -> Result<Step, Failure> {
        let chosen = self.context.unwrap(token)?;
        let Some(([layer, ..], authorization)) = chosen.split_first_chunk::<4>() else {
            return Err(Failure::Message("an agreement that is too short"));
        };
        if *layer != NO_LAYER {
            return Err(Failure::Message(
                "the client asks for a security layer, which this server does not offer",
            ));
        }
        let user =
            self.context.peer().ok_or(Failure::Message("a client without a name"))?.to_owned();
        let authorization = match authorization {
            [] => user.clone(),
            _ => String::from_utf8(authorization.to_vec())
                .map_err(|_| Failure::Message("a name that is not UTF-8"))?,
        };
        Ok(Step::Done(Authenticated { user, authorization }))
    }
}
