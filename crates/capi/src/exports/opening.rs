//! Handles begin and end here.

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
use crate::watchers::WatcherFn;

/// `ZOO_READONLY`: a server that only reads will do for a while.
const READONLY: c_int = 1;
/// `ZOO_NO_LOG_CLIENTENV`: says nothing about the machine.
const QUIET: c_int = 2;

#[cfg(not(test))]
unsafe extern "C" {
    /// Which of the two libraries this is: `c/flavour.c`.
    safe static zebu_is_threaded: c_int;
}
#[cfg(test)]
#[allow(non_upper_case_globals, reason = "the name is that of the variable in C")]
static zebu_is_threaded: c_int = 1;

/// What a handle is made of.
struct Opening {
    host: *const c_char,
    watcher: Option<WatcherFn>,
    timeout_ms: c_int,
    id: *const ClientId,
    context: *mut c_void,
    flags: c_int,
    callback: log::Callback,
}

impl Opening {
    /// Null when the arguments are wrong or no server has an address; `errno` and the log say why.
    ///
    /// # Safety
    /// The pointers are null, or lead to what `zookeeper.h` says.
    unsafe fn open(self) -> *const Handle {
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
        // SAFETY: the caller promises it.
        let Some(text) = (unsafe { memory::text(self.host) }) else {
            return fail(libc::EINVAL, "the connect string is NULL".to_owned());
        };
        let text = text.to_string_lossy();
        let (names, chroot) = match hosts::parse(&text) {
            Ok(parsed) => parsed,
            Err(fault) => return fail(libc::EINVAL, fault),
        };
        let Some(timeout_ms) = u64::try_from(self.timeout_ms).ok().filter(|timeout| *timeout > 0)
        else {
            return fail(libc::EINVAL, format!("a timeout of {} ms", self.timeout_ms));
        };
        if self.flags & !(READONLY | QUIET) != 0 {
            return fail(libc::EINVAL, format!("unknown flags: {:#x}", self.flags));
        }
        let found = hosts::resolve(&names);
        if found.is_empty() {
            return fail(libc::ENOENT, format!("no server of {text:?} has an address"));
        }
        // SAFETY: the caller promises it.
        let resume = unsafe { self.id.as_ref() }.filter(|id| id.id != 0);
        if self.flags & QUIET == 0 {
            let version = env!("CARGO_PKG_VERSION");
            say(
                Level::Info,
                format!("Client environment:zookeeper.version=zebu C client {version}"),
            );
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
            resume: resume.map(|id| Ticket { id: SessionId(id.id), password: id.password }),
            connection_wait: timeout,
            // As in the C client, servers decide what is too large.
            request_bytes_max: i32::MAX as usize,
            pending_max: usize::MAX,
            seed: hosts::random(),
            ..Options::default()
        };
        let hosts = Hosts::new(names, found);
        let driver = Driver::new(options, hosts, chroot, self.watcher, self.context);
        match Handle::open(driver, self.callback, zebu_is_threaded != 0) {
            Ok(handle) => Arc::into_raw(handle),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                fail(errno, format!("the system gives no threads: {error}"))
            }
        }
    }
}

/// A handle for a session that begins in the background.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_init(
    host: *const c_char,
    watcher: Option<WatcherFn>,
    timeout_ms: c_int,
    id: *const ClientId,
    context: *mut c_void,
    flags: c_int,
) -> *const Handle {
    let opening = Opening { host, watcher, timeout_ms, id, context, flags, callback: None };
    // SAFETY: C's caller gives what `zookeeper.h` says.
    unsafe { opening.open() }
}

/// The same, with a function for the lines of its log.
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
    let opening = Opening { host, watcher, timeout_ms, id, context, flags, callback };
    // SAFETY: C's caller gives what `zookeeper.h` says.
    unsafe { opening.open() }
}

/// Ends the session and frees the handle.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_close(zh: *const Handle) -> c_int {
    // SAFETY: C's caller gives a handle, or null.
    let Some(handle) = (unsafe { Handle::of(zh) }) else { return errors::BAD_ARGUMENTS };
    let is_elsewhere = handle.is_elsewhere();
    let code = handle.close();
    if code == errors::OK && !is_elsewhere {
        // SAFETY: the program's own count came from `Arc::into_raw`, and only the first close gets here.
        drop(unsafe { Arc::from_raw(zh) });
    }
    if is_elsewhere {
        // Threads that stayed in the parent may have held locks, so that nothing of the copy can be taken apart.
        std::mem::forget(handle);
    }
    code
}

/// Where a socket and its certificate are.
#[repr(C)]
struct Socket {
    fd: c_int,
    certificate: *mut c_void,
}

/// Closes a socket of the program's.
#[unsafe(no_mangle)]
unsafe extern "C" fn close_zsock(socket: *mut Socket) {
    // SAFETY: C's caller gives a socket, or null.
    if let Some(socket) = unsafe { socket.as_mut() }
        && socket.fd >= 0
    {
        // SAFETY: the descriptor is the program's, who wants it closed.
        unsafe { libc::close(socket.fd) };
        socket.fd = -1;
    }
}
