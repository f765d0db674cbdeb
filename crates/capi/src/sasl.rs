//! SASL of a handle: the parameters of `zookeeper_init_sasl`, and the exchange of each connection.
//!
//! The program's functions say who the client is, as in Cyrus SASL, whose types these are. The
//! tokens are `zebu-auth`'s.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::fmt;
use std::net::SocketAddr;

use zebu_auth::Secret;
use zebu_auth::digest_md5::{self, CLIENTS, NONCE_BYTES};
use zebu_auth::gssapi::{self, Context, Gss, Initiator, Source, Target};
use zebu_session::{Challenge, Proof};

use crate::memory;

/// The reply to a challenge, or what is wrong, for people.
pub(crate) type Outcome = Result<Proof, String>;

/// What the functions of a program return (`SASL_OK` and others).
pub(crate) mod code {
    use std::ffi::c_int;

    pub(crate) const OK: c_int = 0;
    pub(crate) const FAIL: c_int = -1;
    pub(crate) const BUFFER_OVERFLOW: c_int = -3;
    pub(crate) const BAD_PARAMETER: c_int = -7;
}

/// The ids of the functions of a program (`SASL_CB_USER` and others).
pub(crate) mod ask {
    use std::ffi::c_ulong;

    pub(crate) const END: c_ulong = 0;
    pub(crate) const USER: c_ulong = 0x4001;
    pub(crate) const AUTHENTICATION_NAME: c_ulong = 0x4002;
    pub(crate) const PASSWORD: c_ulong = 0x4004;
    pub(crate) const REALM: c_ulong = 0x4008;
}

/// `sasl_callback_t`. The type of the function depends on the id.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SaslCallback {
    pub(crate) id: c_ulong,
    pub(crate) function: Option<unsafe extern "C" fn() -> c_int>,
    pub(crate) context: *mut c_void,
}

/// `sasl_secret_t`, without the bytes that follow.
#[repr(C)]
pub struct SaslSecret {
    pub(crate) length: c_ulong,
    pub(crate) first: [u8; 0],
}

pub(crate) type TextFn =
    unsafe extern "C" fn(*mut c_void, c_int, *mut *const c_char, *mut c_uint) -> c_int;
pub(crate) type RealmFn =
    unsafe extern "C" fn(*mut c_void, c_int, *mut *const c_char, *mut *const c_char) -> c_int;
pub(crate) type SecretFn =
    unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut *mut SaslSecret) -> c_int;

/// `zoo_sasl_params_t`.
#[repr(C)]
pub struct SaslParams {
    service: *const c_char,
    host: *const c_char,
    mechanisms: *const c_char,
    callbacks: *const SaslCallback,
}

/// The functions of a program, which outlive the handle.
struct Callbacks(*const SaslCallback);

// SAFETY: the C client's contract lets the library call these functions on its own threads.
unsafe impl Send for Callbacks {}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callbacks")
    }
}

impl Callbacks {
    fn find(&self, id: c_ulong) -> Option<SaslCallback> {
        let mut at = self.0;
        if at.is_null() {
            return None;
        }
        loop {
            // SAFETY: the array ends with the id `END`, before which the search stops.
            let callback = unsafe { *at };
            match callback.id {
                ask::END => return None,
                found if found == id && callback.function.is_some() => return Some(callback),
                // SAFETY: as above.
                _ => at = unsafe { at.add(1) },
            }
        }
    }

    /// A text that the program gives, if any.
    fn text(&self, id: c_ulong, what: &str) -> Result<Option<String>, String> {
        let Some(SaslCallback { function: Some(function), context, .. }) = self.find(id) else {
            return Ok(None);
        };
        let (mut result, mut length, number) = (std::ptr::null(), 0, id as c_int);
        // SAFETY: a program gives these ids a function of this type, which takes room for a pointer
        // and a length.
        let code = unsafe {
            if id == ask::REALM {
                let function: RealmFn = std::mem::transmute(function);
                let mut none = std::ptr::null();
                function(context, number, &raw mut none, &raw mut result)
            } else {
                let function: TextFn = std::mem::transmute(function);
                function(context, number, &raw mut result, &raw mut length)
            }
        };
        if code != code::OK {
            return Err(format!("the program gives no {what}: code {code}"));
        }
        // SAFETY: the program gives null, or a text that lives until its next call.
        let text = unsafe { memory::text(result) };
        let text = text.map(CStr::to_str).transpose();
        text.map(|text| text.map(str::to_owned)).map_err(|_| format!("the {what} is not UTF-8"))
    }

    fn password(&self) -> Result<Secret, String> {
        let Some(SaslCallback { function: Some(function), context, .. }) = self.find(ask::PASSWORD)
        else {
            return Err("the program gives no password: no function SASL_CB_PASS".to_owned());
        };
        /// There is no connection of Cyrus SASL. Programs check that the pointer is not null.
        static CONNECTION: [u64; 512] = [0; 512];
        let mut secret: *mut SaslSecret = std::ptr::null_mut();
        // SAFETY: a program gives this id a function of this type, which takes room for a pointer.
        let code = unsafe {
            let function: SecretFn = std::mem::transmute(function);
            let connection = (&raw const CONNECTION).cast_mut().cast();
            function(connection, context, ask::PASSWORD as c_int, &raw mut secret)
        };
        if code != code::OK || secret.is_null() {
            return Err(format!("the program gives no password: code {code}"));
        }
        // SAFETY: the program gives a length and as many bytes behind it, which live until its next
        // call.
        let bytes = unsafe {
            let length = usize::try_from((*secret).length).unwrap_or_default();
            std::slice::from_raw_parts((&raw const (*secret).first).cast::<u8>(), length)
        };
        Ok(Secret::new(bytes))
    }
}

/// The mechanisms that this library has.
#[derive(Debug)]
enum Mechanism {
    Digest,
    Kerberos(Initiator),
}

/// The exchanges of a handle.
#[derive(Debug)]
pub(crate) struct Exchange {
    service: String,
    /// The name of all servers, if the program gives one.
    host: Option<String>,
    mechanism: Mechanism,
    callbacks: Callbacks,
    side: Option<Side>,
}

/// The exchange of the latest connection.
#[derive(Debug)]
enum Side {
    Digest(digest_md5::Client),
    Kerberos(gssapi::Client<Context>),
}

impl Exchange {
    /// # Errors
    /// No mechanism of the list is supported, or the system has no Kerberos. The text is for
    /// people.
    ///
    /// # Safety
    /// The pointers are null, or valid in the sense of `zookeeper.h`.
    pub(crate) unsafe fn new(params: &SaslParams) -> Result<Self, String> {
        // SAFETY: guaranteed by the caller.
        let text =
            |from| unsafe { memory::text(from) }.map(|text| text.to_string_lossy().into_owned());
        let names = text(params.mechanisms).unwrap_or_default();
        let mechanism = match mechanism(&names) {
            Some(DIGEST) => Mechanism::Digest,
            Some(_) => {
                let gss = Gss::load().map_err(|error| error.to_string())?;
                Mechanism::Kerberos(
                    gss.initiator(Source { cache: Some(None), ..Source::default() }),
                )
            }
            None => {
                return Err(format!(
                    "no supported SASL mechanism in {names:?}; use {DIGEST} or {KERBEROS}"
                ));
            }
        };
        Ok(Self {
            service: text(params.service).unwrap_or_else(|| "zookeeper".to_owned()),
            host: text(params.host),
            mechanism,
            callbacks: Callbacks(params.callbacks),
            side: None,
        })
    }

    /// Begins or continues the exchange with a server. It may call functions of the program, and
    /// ask a ticket server.
    pub(crate) fn answer(&mut self, challenge: &Challenge, server: Option<SocketAddr>) -> Outcome {
        let answered = match (challenge, &mut self.side) {
            (Challenge::First, _) => {
                // A beginning that fails must not continue an earlier exchange.
                self.side = None;
                let (side, token) = self.begin(server)?;
                self.side = Some(side);
                Ok(Some(token))
            }
            (Challenge::Token(Some(token)), Some(Side::Digest(client))) => {
                client.step(token).map_err(|failure| failure.to_string())
            }
            (Challenge::Token(None), Some(Side::Digest(_))) => Err(format!(
                "the server sends no challenge: it has no SASL, or not {DIGEST}; check its JAAS section Server"
            )),
            // The end of the exchange is no token.
            (Challenge::Token(token), Some(Side::Kerberos(client))) => {
                let token = token.as_deref().unwrap_or_default();
                client.step(token).map_err(|failure| failure.to_string())
            }
            (Challenge::Token(_), None) => Err("a challenge before the beginning".to_owned()),
        };
        Ok(answered?.map_or(Proof::Done, Proof::Token))
    }

    /// A new exchange and its first token.
    fn begin(&self, server: Option<SocketAddr>) -> Result<(Side, Vec<u8>), String> {
        match &self.mechanism {
            Mechanism::Digest => {
                let user = self.callbacks.text(ask::AUTHENTICATION_NAME, "user")?;
                let user = user.ok_or("the program gives no user: no function SASL_CB_AUTHNAME")?;
                let other = self.callbacks.text(ask::USER, "user to act for")?;
                if other.is_some_and(|other| !other.is_empty() && other != user) {
                    return Err(format!("{user} cannot act for another user"));
                }
                let realm = self.callbacks.text(ask::REALM, "realm")?;
                let password = self.callbacks.password()?;
                let random = zebu_auth::random::bytes::<NONCE_BYTES>()
                    .ok_or("the system gives no random bytes")?;
                let client = digest_md5::Client::new(CLIENTS, user, password, random);
                let first = digest_md5::Client::INITIAL.to_vec();
                Ok((Side::Digest(client.with_realm(realm)), first))
            }
            Mechanism::Kerberos(initiator) => {
                let address = || server.map(|server| server.ip().to_canonical().to_string());
                let host = self.host.clone().or_else(address).unwrap_or_default();
                let target = Target::Service { service: self.service.clone(), host };
                let context = initiator.begin(&target);
                let context = context.map_err(|error| format!("Kerberos: {error}"))?;
                let mut client = gssapi::Client::new(context);
                let first = client.begin().map_err(|failure| failure.to_string())?;
                Ok((Side::Kerberos(client), first))
            }
        }
    }
}

const DIGEST: &str = "DIGEST-MD5";
const KERBEROS: &str = "GSSAPI";

/// The first supported mechanism of a list.
fn mechanism(names: &str) -> Option<&'static str> {
    let mut names = names.split(|c: char| c == ',' || c.is_whitespace());
    names.find_map(|name| {
        [DIGEST, KERBEROS].into_iter().find(|known| name.eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_mechanism_counts() {
        assert_eq!(mechanism("PLAIN digest-md5,GSSAPI"), Some(DIGEST));
        assert_eq!(mechanism("GSSAPI DIGEST-MD5"), Some(KERBEROS));
        assert_eq!(mechanism("PLAIN"), None);
        assert_eq!(mechanism(""), None);
    }
}
