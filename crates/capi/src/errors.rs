//! The codes that functions return, and the texts of `zerror`.
//!
//! Programs compare and print these texts, so they are those of the C client 3.8.0.

use std::ffi::{c_char, c_int};

use zebu_session::{Ending, Failure};

pub(crate) const OK: c_int = 0;
pub(crate) const SYSTEM_ERROR: c_int = -1;
pub(crate) const CONNECTION_LOSS: c_int = -4;
pub(crate) const MARSHALLING_ERROR: c_int = -5;
pub(crate) const UNIMPLEMENTED: c_int = -6;
pub(crate) const OPERATION_TIMEOUT: c_int = -7;
pub(crate) const BAD_ARGUMENTS: c_int = -8;
pub(crate) const INVALID_STATE: c_int = -9;
pub(crate) const SSL_CONNECTION_ERROR: c_int = -15;
pub(crate) const SESSION_EXPIRED: c_int = -112;
pub(crate) const AUTH_FAILED: c_int = -115;
pub(crate) const CLOSING: c_int = -116;
pub(crate) const NOTHING: c_int = -117;
pub(crate) const NO_WATCHER: c_int = -121;

/// The code of a request without an answer. `ending`: how the session has ended, if it has.
pub(crate) fn code(failure: Failure, ending: Option<Ending>) -> c_int {
    match failure {
        Failure::Over(ending) => ended(ending),
        // A request that was in flight when the session ended gets the code of that end.
        Failure::Lost => ending.map_or(CONNECTION_LOSS, ended),
        Failure::NoConnection | Failure::Withdrawn | Failure::Broken => CONNECTION_LOSS,
        Failure::TimedOut { .. } => OPERATION_TIMEOUT,
        Failure::TooLarge | Failure::TooMany => MARSHALLING_ERROR,
    }
}

/// The code of a session that has ended.
pub(crate) fn ended(ending: Ending) -> c_int {
    match ending {
        Ending::Closed => CLOSING,
        Ending::Expired => SESSION_EXPIRED,
        Ending::AuthFailed => AUTH_FAILED,
        // This library asks no server for its ensemble.
        Ending::GivenUp | Ending::OtherEnsemble { .. } => CONNECTION_LOSS,
    }
}

/// The text for a code. Positive codes are `errno` numbers.
#[unsafe(no_mangle)]
extern "C" fn zerror(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"ok",
        SYSTEM_ERROR => c"system error",
        -2 => c"run time inconsistency",
        -3 => c"data inconsistency",
        CONNECTION_LOSS => c"connection loss",
        MARSHALLING_ERROR => c"marshalling error",
        UNIMPLEMENTED => c"unimplemented",
        OPERATION_TIMEOUT => c"operation timeout",
        BAD_ARGUMENTS => c"bad arguments",
        INVALID_STATE => c"invalid zhandle state",
        -13 => {
            c"no quorum of new config is connected and up-to-date with the leader of last committed config - try invoking reconfiguration after new servers are connected and synced"
        }
        -14 => {
            c"Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)"
        }
        -100 => c"api error",
        -101 => c"no node",
        -102 => c"not authenticated",
        -103 => c"bad version",
        -108 => c"no children for ephemerals",
        -110 => c"node exists",
        -111 => c"not empty",
        SESSION_EXPIRED => c"session expired",
        -113 => c"invalid callback",
        -114 => c"invalid acl",
        AUTH_FAILED => c"authentication failed",
        CLOSING => c"zookeeper is closing",
        NOTHING => c"(not error) no server responses to process",
        -118 => c"session moved to another server, so operation is ignored",
        -119 => c"state-changing request is passed to read-only server",
        -120 => c"attempt to create ephemeral node on a local session",
        NO_WATCHER => c"the watcher couldn't be found",
        -123 => {
            c"attempts to perform a reconfiguration operation when reconfiguration feature is disable"
        }
        -124 => {
            c"session closed by server because client is required to do SASL authentication"
        }
        -127 => c"Operation was throttled due to high load",
        // SAFETY: `strerror` takes any number.
        1.. => return unsafe { libc::strerror(code) },
        _ => c"unknown error",
    };
    text.as_ptr()
}

/// Sets `errno`.
pub(crate) fn set_errno(reason: c_int) {
    // SAFETY: each thread has an `errno`.
    unsafe { *libc::__errno_location() = reason };
}
