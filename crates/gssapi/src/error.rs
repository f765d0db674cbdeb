//! Errors, with the messages of the library.

use std::ffi::c_int;

use crate::buffer::Owned;
use crate::sys::{Api, KRB5, Uint};

/// Why Kerberos refuses an operation. No variant contains a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The libraries are not installed.
    #[error(
        "Kerberos needs the library {library}, which cannot be loaded ({reason}); on Debian, install the package \
         libgssapi-krb5-2"
    )]
    Missing {
        /// The file.
        library: &'static str,
        /// The system's message.
        reason: String,
    },
    /// A call has failed.
    #[error("{message}")]
    Refused {
        /// The library's message, on one line.
        message: String,
    },
    /// A name or a path that cannot be passed to a C library.
    #[error("{0:?} contains a zero byte")]
    Zero(String),
}

/// Kinds of codes, for `gss_display_status`.
const GSS_CODE: c_int = 1;
const MECH_CODE: c_int = 2;

/// The bits of a major status that are an error.
const ERRORS: Uint = 0xffff_0000;
/// `GSS_S_FAILURE`: the minor status has the reason.
const FAILURE: Uint = 13 << 16;
/// `GSS_S_NO_CRED`: the minor status has the reason, if it is set.
const NO_CREDENTIALS: Uint = 7 << 16;
/// Maximum number of messages for one status.
const MESSAGES_MAX: usize = 8;

/// Makes an error of a status, unless the status is a success. This must be called on the thread of
/// the failed call, because the library stores the message of a minor status there.
///
/// # Errors
/// The status is an error.
pub(crate) fn check(api: &Api, major: Uint, minor: Uint) -> Result<(), Error> {
    if major & ERRORS == 0 {
        return Ok(());
    }
    let special = display(api, minor, MECH_CODE);
    // Many refusals have a minor status of the mechanism without further information.
    let special = if minor == 0 || special == "Success" { "" } else { &*special };
    let message = match major & ERRORS {
        FAILURE | NO_CREDENTIALS if !special.is_empty() => special.to_owned(),
        _ => {
            let general = display(api, major, GSS_CODE);
            match special {
                "" if major & ERRORS == FAILURE => {
                    "the library of Kerberos gives no reason".to_owned()
                }
                "" => general,
                _ => format!("{general}: {special}"),
            }
        }
    };
    let message = if message.is_empty() { format!("status {major:#x} {minor}") } else { message };
    Err(Error::Refused { message })
}

fn display(api: &Api, status: Uint, kind: c_int) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut more: Uint = 0;
    for _ in 0..MESSAGES_MAX {
        let (mut minor, mut text) = (0, Owned::new(api));
        // SAFETY: all pointers are to live values of the types that RFC 2744 says; the mechanism is
        // a static.
        let major = unsafe {
            api.gss_display_status(&mut minor, status, kind, KRB5.pointer(), &mut more, text.slot())
        };
        if major & ERRORS != 0 {
            break;
        }
        let text = one_line(&text.to_vec());
        if !text.is_empty() && !parts.contains(&text) {
            parts.push(text);
        }
        if more == 0 {
            break;
        }
    }
    parts.join("; ")
}

/// Removes characters that could mislead a terminal or a log: a peer may have chosen a part of the
/// text.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().trim_end_matches('.').to_owned()
}

/// The text as a C string.
pub(crate) fn c_string(text: &str) -> Result<std::ffi::CString, Error> {
    std::ffi::CString::new(text).map_err(|_| Error::Zero(text.to_owned()))
}
