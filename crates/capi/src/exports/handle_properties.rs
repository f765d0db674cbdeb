//! Properties of a handle that a program can read or set.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::lock_api::RawMutex as _;
use socket2::SockRef;

use crate::constants::state;
use crate::errors;
use crate::handle::{ClientId, Handle};
use crate::hosts;
use crate::log;
use crate::memory;
use crate::request::bad;
use crate::watchers::WatcherFn;

/// The handle that the program passed; `None` if it cannot be used.
fn of(zh: *const Handle) -> Option<Arc<Handle>> {
    // SAFETY: the C caller passes a handle that is not closed, or null.
    unsafe { Handle::usable(zh) }.ok()
}

/// The state of the session: 0 without a handle, not connected in the child of a fork.
#[unsafe(no_mangle)]
extern "C" fn zoo_state(zh: *const Handle) -> c_int {
    match of(zh) {
        Some(handle) => handle.driver().state(),
        None if zh.is_null() => 0,
        None => state::NOT_CONNECTED,
    }
}

/// An error code if the session has ended, otherwise 0.
#[unsafe(no_mangle)]
extern "C" fn is_unrecoverable(zh: *const Handle) -> c_int {
    let is_over = of(zh).is_none_or(|handle| handle.driver().is_unrecoverable());
    if is_over { errors::INVALID_STATE } else { errors::OK }
}

/// The session's id and password; zeros before the session is established.
#[unsafe(no_mangle)]
extern "C" fn zoo_client_id(zh: *const Handle) -> *const ClientId {
    of(zh).map_or(std::ptr::null(), |handle| handle.shown_id())
}

/// The session timeout in milliseconds: the negotiated one, or the requested one before that.
#[unsafe(no_mangle)]
extern "C" fn zoo_recv_timeout(zh: *const Handle) -> c_int {
    let timeout = of(zh).map_or(Duration::ZERO, |handle| handle.driver().session().timeout());
    c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX)
}

/// The context of the handle.
#[unsafe(no_mangle)]
extern "C" fn zoo_get_context(zh: *const Handle) -> *const c_void {
    of(zh).map_or(std::ptr::null(), |handle| handle.driver().context.cast_const())
}

/// Sets the context of the handle.
#[unsafe(no_mangle)]
extern "C" fn zoo_set_context(zh: *const Handle, context: *mut c_void) {
    if let Some(handle) = of(zh) {
        handle.driver().context = context;
    }
}

/// Sets the watcher of the handle. Returns the previous one.
#[unsafe(no_mangle)]
extern "C" fn zoo_set_watcher(zh: *const Handle, watcher: Option<WatcherFn>) -> Option<WatcherFn> {
    let handle = of(zh)?;
    std::mem::replace(&mut handle.driver().function, watcher)
}

/// The function for the handle's log lines.
#[unsafe(no_mangle)]
extern "C" fn zoo_get_log_callback(zh: *const Handle) -> log::Callback {
    of(zh)?.log_callback()
}

/// Sets the function for the handle's log lines.
#[unsafe(no_mangle)]
extern "C" fn zoo_set_log_callback(zh: *const Handle, callback: log::Callback) {
    if let Some(handle) = of(zh) {
        handle.set_log_callback(callback);
    }
}

/// The address of the server to which the handle is connected; null without a connection.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_get_connected_host(
    zh: *const Handle,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> *mut libc::sockaddr {
    let Some(handle) = of(zh).filter(|_| !address.is_null() && !length.is_null()) else {
        return std::ptr::null_mut();
    };
    let driver = handle.driver();
    if driver.session().server().is_none() {
        return std::ptr::null_mut();
    }
    let peer = driver.wire().and_then(|wire| SockRef::from(wire.stream()).peer_addr().ok());
    let Some(peer) = peer else { return std::ptr::null_mut() };
    // SAFETY: the C caller passes a buffer of the given length; no more bytes are copied.
    unsafe {
        let count = peer.len().min(*length);
        std::ptr::copy_nonoverlapping(
            peer.as_ptr().cast::<u8>(),
            address.cast::<u8>(),
            count as usize,
        );
        length.write(peer.len());
    }
    address
}

/// The address and port of the current server, or of the last one.
#[unsafe(no_mangle)]
extern "C" fn zoo_get_current_server(zh: *const Handle) -> *const c_char {
    of(zh).map_or(std::ptr::null(), |handle| handle.shown_server())
}

/// Selects the next server for the next connection.
#[unsafe(no_mangle)]
extern "C" fn zoo_cycle_next_server(zh: *const Handle) {
    if let Some(handle) = of(zh) {
        handle.driver().hosts.cycle();
    }
}

/// Replaces the list of servers. The connection moves to another server if its own is not in the
/// list, or if that balances the clients.
#[unsafe(no_mangle)]
unsafe extern "C" fn zoo_set_servers(zh: *const Handle, text: *const c_char) -> c_int {
    let Some(handle) = of(zh) else { return errors::BAD_ARGUMENTS };
    // SAFETY: the C caller passes a text, or null.
    let Some(text) = (unsafe { memory::text(text) }) else {
        return handle.refuse("zoo_set_servers", bad("the connect string is NULL"));
    };
    let names = match hosts::parse(&text.to_string_lossy()) {
        Ok((names, chroot)) if chroot.root() == "/" || chroot == *handle.chroot() => names,
        Ok(_) => return handle.refuse("zoo_set_servers", bad("a handle keeps its chroot")),
        Err(fault) => return handle.refuse("zoo_set_servers", bad(fault)),
    };
    let found = hosts::resolve(&names);
    if found.is_empty() {
        errors::set_errno(libc::ENOENT);
        let why = crate::request::Refused(errors::SYSTEM_ERROR, format!("no address of {text:?}"));
        return handle.refuse("zoo_set_servers", why);
    }
    handle.act(true, |driver| {
        if driver.hosts.replace(names, found) {
            driver.leave();
        }
    })
}

/// Sets how many milliseconds resolved addresses are used: 0: resolve again each time, −1: never
/// again.
#[unsafe(no_mangle)]
extern "C" fn zoo_set_servers_resolution_delay(zh: *const Handle, delay_ms: c_int) -> c_int {
    let Some(handle) = of(zh) else { return errors::BAD_ARGUMENTS };
    match delay_ms {
        ..-1 => {
            return handle
                .refuse("zoo_set_servers_resolution_delay", bad(format!("{delay_ms} ms")));
        }
        -1 => handle.driver().hosts.believe(None),
        0.. => {
            let fresh = Duration::from_millis(delay_ms.unsigned_abs().into());
            handle.driver().hosts.believe(Some(fresh));
        }
    }
    errors::OK
}

/// Blocks `zoo_add_auth` in other threads until `zoo_unlock_auth`.
#[unsafe(no_mangle)]
extern "C" fn zoo_lock_auth(zh: *const Handle) -> c_int {
    let Some(handle) = of(zh) else { return errors::BAD_ARGUMENTS };
    handle.auth_lock().lock();
    errors::OK
}

/// Ends the effect of `zoo_lock_auth`.
#[unsafe(no_mangle)]
extern "C" fn zoo_unlock_auth(zh: *const Handle) -> c_int {
    let Some(handle) = of(zh) else { return errors::BAD_ARGUMENTS };
    if handle.auth_lock().is_locked() {
        // SAFETY: the caller has locked it.
        unsafe { handle.auth_lock().unlock() };
    }
    errors::OK
}
