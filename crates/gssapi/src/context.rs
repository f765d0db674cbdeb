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

/// What an initiator asks for: that both sides prove themselves, and that messages cannot be forged, repeated or left out.
const FLAGS: Uint = MUTUAL | 4 | 8 | 32;
const MUTUAL: Uint = 2;

/// How far a context has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// This token is for the other side, which answers with another.
    Continue(Vec<u8>),
    /// It is established. A token is for the other side, if there is one.
    Established(Option<Vec<u8>>),
}

/// Which side this is, and what it needs until the context is established.
pub(crate) enum Side {
    /// That of a service, with its keys.
    Acceptor(Arc<Credentials>),
    /// That of a client.
    Initiator {
        login: Arc<Login>,
        /// Those of this context; none before its first token.
        credentials: Option<Credentials>,
        target: Name,
    },
}

/// A context between a client and a service. Two sides pass tokens until both have one that is established.
pub struct Context {
    api: &'static Api,
    pointer: ContextPointer,
    side: Side,
    /// Whether it is established; an error ends it.
    state: State,
    /// Who the client is, at the side of the service.
    peer: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Established,
    Failed,
}

// SAFETY: the library allows the use of a context from any thread, by one at a time; `&mut self` sees to that.
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

    /// Who the client is, as soon as the context is established at the side of the service.
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// Takes a token of the other side; an initiator's first is empty. At the side of the client this may ask the key
    /// distribution centre, and take many seconds.
    ///
    /// # Errors
    /// The token is not good, or there are no credentials; the context is of no use any more.
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
        // SAFETY: the context is null or live, the credentials are live, the token outlives the call, results are written
        // into locals, and null says which are not wanted.
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
            // One ticket is all that a client has to show. The library also goes on after some tokens that have none.
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
        // Tickets come one at a time, into a cache that its users share.
        let turn = login.turn();
        let credentials = match credentials {
            Some(credentials) => credentials,
            none => none.insert(login.credentials()?),
        };
        let (mut minor, mut out, mut flags) = (0, Owned::new(api), 0);
        let token = lent(token);
        // SAFETY: the context is null or live, the credentials and the name are live, the mechanism is a static, the token
        // outlives the call, results are written into locals, and null says which are not wanted.
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

    /// Makes a message that the other side knows to be of this one; it is not encrypted.
    ///
    /// # Errors
    /// The context is not established, or has expired.
    pub fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.needs_to_be_established()?;
        let (mut minor, mut out) = (0, Owned::new(self.api));
        let message = lent(message);
        // SAFETY: the context is live, the message outlives the call, and the result is written into a buffer that is given
        // back; null says that the other result is not wanted.
        let major = unsafe {
            self.api.gss_wrap(&mut minor, self.pointer, 0, 0, &message, ptr::null_mut(), out.slot())
        };
        check(self.api, major, minor)?;
        Ok(out.to_vec())
    }

    /// What the other side has wrapped.
    ///
    /// # Errors
    /// It is not of the other side, or was there before, or comes out of order; the context is not established.
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
        // What is left of the status says that the message is old, repeated or out of order.
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
        // SAFETY: the context is null or live, and not used again; null says that no last token is wanted.
        unsafe { self.api.gss_delete_sec_context(&mut minor, &mut self.pointer, ptr::null_mut()) };
    }
}

fn refused(message: &str) -> Error {
    Error::Refused { message: message.to_owned() }
}
