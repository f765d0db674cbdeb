//! A security context that client and service establish. Both sides wrap messages with it.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use crate::acceptor::Credentials;
use crate::buffer::{Owned, lent};
use crate::error::{Error, check};
use crate::initiator::Login;
use crate::name::Name;
use crate::sys::{Api, CONTINUE, ContextPointer, INDEFINITE, KRB5, Uint};

/// The options that an initiator requests: mutual authentication, and protection of messages
/// against forgery, repetition and omission.
const FLAGS: Uint = MUTUAL | 4 | 8 | 32;
const MUTUAL: Uint = 2;

/// The progress of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Send this token to the other side, and wait for its answer.
    Continue(Vec<u8>),
    /// The context is established. Send this token to the other side, if there is one.
    Established(Option<Vec<u8>>),
}

/// The side of this context, and what the side needs until the context is established.
pub(crate) enum Side {
    /// A service, with its keys.
    Acceptor(Arc<Credentials>),
    /// A client.
    Initiator {
        login: Arc<Login>,
        /// The credentials of this context; `None` before its first token.
        credentials: Option<Credentials>,
        target: Name,
    },
}

/// A context between a client and a service. The sides exchange tokens until both have established
/// the context.
pub struct Context {
    api: &'static Api,
    pointer: ContextPointer,
    side: Side,
    /// Whether the context is established. An error ends it.
    state: State,
    /// The client's identity, at the service's side.
    peer: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Established,
    Failed,
}

// SAFETY: the library allows the use of a context from any thread, by one at a time; `&mut self`
// sees to that.
unsafe impl Send for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("state", &self.state).field("peer", &self.peer).finish()
    }
}

impl Context {
    pub(crate) fn new(api: &'static Api, side: Side) -> Self {
        Self { api, pointer: ptr::null_mut(), side, state: State::Open, peer: None }
    }

    /// The client's identity, once the context is established at the service's side.
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// Processes a token of the other side; an initiator's first token is empty. At the client's
    /// side this may contact the key distribution centre, and take many seconds.
    ///
    /// # Errors
    /// The token is invalid, or there are no credentials. The context cannot be used any more.
    pub fn step(&mut self, token: &[u8]) -> Result<Progress, Error> {
        if std::mem::replace(&mut self.state, State::Failed) != State::Open {
            return Err(refused("a token behind the end"));
        }
        let progress = match self.side {
            Side::Acceptor(_) => self.accept(token),
            Side::Initiator { .. } => self.initiate(token),
        }?;
        self.state = match progress {
            Progress::Continue(_) => State::Open,
            Progress::Established(_) => State::Established,
        };
        Ok(progress)
    }

    fn accept(&mut self, token: &[u8]) -> Result<Progress, Error> {
        let api = self.api;
        let Side::Acceptor(credentials) = &self.side else { unreachable!("it is an acceptor's") };
        if token.is_empty() {
            return Err(refused("an empty token where a ticket is due"));
        }
        let (mut minor, mut out) = (0, Owned::new(api));
        let (mut source, mut mechanism) = (ptr::null_mut(), ptr::null_mut());
        let token = lent(token);
        // SAFETY: the context is null or live, the credentials are live, the token outlives the
        // call, results are written into locals, and null says which are not wanted.
        let major = unsafe {
            api.gss_accept_sec_context(
                &mut minor,
                &mut self.pointer,
                credentials.pointer(),
                &token,
                ptr::null(),
                &mut source,
                &mut mechanism,
                out.slot(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let source = Name::of(api, source);
        check(api, major, minor)?;
        let out = out.to_vec();
        if major & CONTINUE != 0 {
            // A client needs only one token: its ticket. The library also continues after some
            // tokens without a ticket.
            return Err(refused("a token that has no ticket"));
        }
        // SAFETY: a mechanism that the library returns is null or a static of its own.
        if !unsafe { KRB5.is(mechanism) } {
            return Err(refused("a mechanism other than Kerberos"));
        }
        self.peer = Some(source.text()?);
        Ok(Progress::Established((!out.is_empty()).then_some(out)))
    }

    fn initiate(&mut self, token: &[u8]) -> Result<Progress, Error> {
        let api = self.api;
        let Side::Initiator { login, credentials, target } = &mut self.side else {
            unreachable!("it is an initiator's")
        };
        // Tickets are requested one at a time, because all users of the cache share it.
        let turn = login.turn();
        let credentials = match credentials {
            Some(credentials) => credentials,
            none => none.insert(login.credentials()?),
        };
        let (mut minor, mut out, mut flags) = (0, Owned::new(api), 0);
        let token = lent(token);
        // SAFETY: the context is null or live, the credentials and the name are live, the mechanism
        // is a static, the token outlives the call, results are written into locals, and null says
        // which are not wanted.
        let major = unsafe {
            api.gss_init_sec_context(
                &mut minor,
                credentials.pointer(),
                &mut self.pointer,
                target.pointer(),
                KRB5.pointer(),
                FLAGS,
                INDEFINITE,
                ptr::null(),
                &token,
                ptr::null_mut(),
                out.slot(),
                &mut flags,
                ptr::null_mut(),
            )
        };
        let checked = check(api, major, minor);
        drop(turn);
        checked?;
        let out = out.to_vec();
        if major & CONTINUE != 0 {
            return Ok(Progress::Continue(out));
        }
        if flags & MUTUAL == 0 {
            return Err(refused("the server does not prove itself"));
        }
        Ok(Progress::Established((!out.is_empty()).then_some(out)))
    }

    /// Wraps a message, so that the other side can verify its origin. The message is not encrypted.
    ///
    /// # Errors
    /// The context is not established, or has expired.
    pub fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.needs_to_be_established()?;
        let (mut minor, mut out) = (0, Owned::new(self.api));
        let message = lent(message);
        // SAFETY: the context is live, the message outlives the call, and the result is written
        // into a buffer that is given back; null says that the other result is not wanted.
        let major = unsafe {
            self.api.gss_wrap(&mut minor, self.pointer, 0, 0, &message, ptr::null_mut(), out.slot())
        };
        check(self.api, major, minor)?;
        Ok(out.to_vec())
    }

    /// Unwraps a message of the other side.
    ///
    /// # Errors
    /// The message is not from the other side, or is repeated or out of order; or the context is
    /// not established.
    pub fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.needs_to_be_established()?;
        let (mut minor, mut out) = (0, Owned::new(self.api));
        let message = lent(message);
        // SAFETY: as in `wrap`.
        let major = unsafe {
            self.api.gss_unwrap(
                &mut minor,
                self.pointer,
                &message,
                out.slot(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(self.api, major, minor)?;
        // The rest of the status says that the message is old, repeated or out of order.
        if major != 0 {
            return Err(refused("a message that is repeated or out of order"));
        }
        Ok(out.to_vec())
    }

    fn needs_to_be_established(&self) -> Result<(), Error> {
        match self.state {
            State::Established => Ok(()),
            State::Open | State::Failed => Err(refused("a message before the context")),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the context is null or live, and not used again; null says that no last token is
        // wanted.
        unsafe { self.api.gss_delete_sec_context(&mut minor, &mut self.pointer, ptr::null_mut()) };
    }
}

fn refused(message: &str) -> Error {
    Error::Refused { message: message.to_owned() }
}
