//! Creates and closes handles.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::SessionId;
use zebu_session::{Options, Ticket};

use crate::driver::Driver;
use crate::errors;
use crate::handle::{ClientId, Handle};
use crate::hosts::{self, Hosts};
use crate::log::{self, Level, Line};
use crate::memory;
use crate::sasl::{Exchange, SaslParams};
use crate::tls::Tls;
use crate::watchers::WatcherFn;

/// `ZOO_READONLY`: a read-only server is acceptable for a while.
const READONLY: c_int = 1;
/// The timeout of a handle without one.
const TIMEOUT_MS: u64 = 10_000;
/// `ZOO_NO_LOG_CLIENTENV`: do not log the environment.
const QUIET: c_int = 2;

#[cfg(not(test))]
unsafe extern "C" {
    /// Which of the two libraries this is; defined in `c/flavour.c`.
    safe static zebu_is_threaded: c_int;
}
#[cfg(test)]
#[allow(non_upper_case_globals, reason = "the name is that of the variable in C")]
static zebu_is_threaded: c_int = 1;

/// The arguments for a new handle.
pub(super) struct Opening {
    host: *const c_char,
    watcher: Option<WatcherFn>,
    timeout_ms: c_int,
    id: *const ClientId,
    context: *mut c_void,
    flags: c_int,
    callback: log::Callback,
    tls: Option<*const c_char>,
    sasl: *const SaslParams,
}

impl Opening {
    pub(super) fn new(
        host: *const c_char,
        watcher: Option<WatcherFn>,
        timeout_ms: c_int,
        id: *const ClientId,
        context: *mut c_void,
        flags: c_int,
    ) -> Self {
        let (callback, tls, sasl) = (None, None, std::ptr::null());
        Self { host, watcher, timeout_ms, id, context, flags, callback, tls, sasl }
    }

    pub(super) fn with_log(mut self, callback: log::Callback) -> Self {
        self.callback = callback;
        self
    }

    /// The certificate string for TLS.
    pub(super) fn with_tls(mut self, certificates: *const c_char) -> Self {
        self.tls = Some(certificates);
        self
    }

    /// The parameters of SASL; null for none.
    pub(super) fn with_sasl(mut self, params: *const SaslParams) -> Self {
        self.sasl = params;
        self
    }

    /// Reads what TLS and SASL need.
    ///
    /// # Safety
    /// The pointers are null, or valid in the sense of `zookeeper.h`.
    unsafe fn security(&self) -> Result<(Option<Tls>, Option<Exchange>), String> {
        let tls = match self.tls {
            Some(certificates) => {
                // SAFETY: guaranteed by the caller.
                let text = unsafe { memory::text(certificates) };
                let text = text.ok_or("TLS: the certificate string is NULL")?;
                let text = text.to_str().map_err(|_| "TLS: the certificate string is not UTF-8")?;
                Some(Tls::read(text).map_err(|fault| format!("TLS: {fault}"))?)
            }
            None => None,
        };
        // SAFETY: guaranteed by the caller.
        let sasl = unsafe { self.sasl.as_ref() };
        // SAFETY: guaranteed by the caller.
        let exchange = sasl.map(|params| unsafe { Exchange::new(params) }).transpose();
        Ok((tls, exchange.map_err(|fault| format!("SASL: {fault}"))?))
    }

    /// Returns null if the arguments are invalid or no server's name can be resolved. `errno` and
    /// the log give the reason.
    ///
    /// # Safety
    /// The pointers are null, or valid in the sense of `zookeeper.h`.
    pub(super) unsafe fn open(self) -> *const Handle {
        let say = |level, text| {
            if log::is_on(level) {
                let line = Line { level, from: "zookeeper_init", number: line!(), text };
                line.write(self.callback);
            }
        };
        let fail = |errno, text: String| {
            say(Level::Error, text);
            errors::set_errno(errno);
            std::ptr::null()
        };
        // The first line of a handle's log.
        if self.flags & QUIET == 0 {
            let version = env!("CARGO_PKG_VERSION");
            say(
                Level::Info,
                format!("Client environment:zookeeper.version=zebu C client {version}"),
            );
        }
        // SAFETY: guaranteed by the caller.
        let Some(text) = (unsafe { memory::text(self.host) }) else {
            return fail(libc::EINVAL, "the connect string is NULL".to_owned());
        };
        let text = text.to_string_lossy();
        let (names, chroot) = match hosts::parse(&text) {
            Ok(parsed) => parsed,
            Err(fault) => return fail(libc::EINVAL, fault),
        };
        // A session without a timeout could never be established.
        let timeout_ms = match u64::try_from(self.timeout_ms) {
            Ok(timeout_ms) if timeout_ms > 0 => timeout_ms,
            _ => TIMEOUT_MS,
        };
        if self.flags & !(READONLY | QUIET) != 0 {
            return fail(libc::EINVAL, format!("unknown flags: {:#x}", self.flags));
        }
        // SAFETY: guaranteed by the caller.
        let (tls, exchange) = match unsafe { self.security() } {
            Ok(security) => security,
            Err(fault) => return fail(libc::EINVAL, fault),
        };
        let found = hosts::resolve(&names);
        if found.is_empty() {
            return fail(libc::ENOENT, format!("no server of {text:?} has an address"));
        }
        // SAFETY: guaranteed by the caller.
        let resume = unsafe { self.id.as_ref() }.filter(|id| id.id != 0);
        if self.flags & QUIET == 0 {
            let context = self.context;
            say(
                Level::Info,
                format!(
                    "Initiating client connection, host={text} sessionTimeout={timeout_ms} sessionId={:#x} context={context:p} flags={}",
                    resume.map_or(0, |id| id.id),
                    self.flags
                ),
            );
        }
        let timeout = Duration::from_millis(timeout_ms);
        let options = Options {
            timeout,
            read_only: self.flags & READONLY != 0,
            sasl: exchange.is_some(),
            resume: resume.map(|id| Ticket { id: SessionId(id.id), password: id.password }),
            connection_wait: timeout,
            // As in the C client, only servers limit the size of requests.
            request_bytes_max: i32::MAX as usize,
            pending_max: usize::MAX,
            seed: fastrand::u64(..),
            ..Options::default()
        };
        let hosts = Hosts::new(names, found);
        let driver = Driver::new(options, hosts, chroot, self.watcher, self.context)
            .with_tls(tls)
            .with_sasl(exchange);
        match Handle::open(driver, self.callback, zebu_is_threaded != 0) {
            Ok(handle) => Arc::into_raw(handle),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                fail(errno, format!("the system gives no threads: {error}"))
            }
        }
    }
}

/// Creates a handle. Its session is established in the background.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_init(
    host: *const c_char,
    watcher: Option<WatcherFn>,
    timeout_ms: c_int,
    id: *const ClientId,
    context: *mut c_void,
    flags: c_int,
) -> *const Handle {
    let opening = Opening::new(host, watcher, timeout_ms, id, context, flags);
    // SAFETY: the C caller passes what `zookeeper.h` says.
    unsafe { opening.open() }
}

/// As above, with a function for log lines.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_init2(
    host: *const c_char,
    watcher: Option<WatcherFn>,
    timeout_ms: c_int,
    id: *const ClientId,
    context: *mut c_void,
    flags: c_int,
    callback: log::Callback,
) -> *const Handle {
    let opening = Opening::new(host, watcher, timeout_ms, id, context, flags);
    // SAFETY: the C caller passes what `zookeeper.h` says.
    unsafe { opening.with_log(callback).open() }
}

/// Closes the session and frees the handle.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_close(zh: *const Handle) -> c_int {
    // SAFETY: the C caller passes a handle, or null.
    let Some(handle) = (unsafe { Handle::of(zh) }) else { return errors::BAD_ARGUMENTS };
    let is_elsewhere = handle.is_elsewhere();
    let code = handle.close();
    if code == errors::OK && !is_elsewhere {
        // SAFETY: the program's reference came from `Arc::into_raw`, and only the first close gets
        // here.
        drop(unsafe { Arc::from_raw(zh) });
    }
    if is_elsewhere {
        // In the child of a fork, threads of the parent may have held locks. So this copy cannot be
        // dropped safely.
        std::mem::forget(handle);
    }
    code
}

/// A socket and its certificate.
#[repr(C)]
struct Socket {
    fd: c_int,
    certificate: *mut c_void,
}

/// Closes a socket of the program.
#[unsafe(no_mangle)]
unsafe extern "C" fn close_zsock(socket: *mut Socket) {
    // SAFETY: the C caller passes a socket, or null.
    if let Some(socket) = unsafe { socket.as_mut() }
        && socket.fd >= 0
    {
        // SAFETY: the descriptor belongs to the program, which wants it closed.
        unsafe { libc::close(socket.fd) };
        socket.fd = -1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_are_refused() {
        for flags in [4, 0x40, c_int::MIN] {
            let host = c"127.0.0.1:1".as_ptr();
            let null = std::ptr::null_mut::<c_void>();
            let opening = Opening::new(host, None, 1000, null.cast(), null, flags | QUIET);
            // SAFETY: the host is a text, and the other pointers are null.
            assert!(unsafe { opening.open() }.is_null(), "{flags:#x}");
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        }
    }
}
