//! The program's own event loop: what to wait for, and what has happened.

use std::ffi::c_int;

use crate::errors;
use crate::handle::Handle;

const WRITE: c_int = 1;
const READ: c_int = 2;

/// Returns the descriptor to wait for, the events, and the maximum time. The descriptor is −1
/// without a connection.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_interest(
    zh: *const Handle,
    fd: *mut c_int,
    interest: *mut c_int,
    wait: *mut libc::timeval,
) -> c_int {
    // SAFETY: the C caller passes a handle, or null.
    let handle = match unsafe { Handle::usable(zh) } {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    if fd.is_null() || interest.is_null() || wait.is_null() {
        return errors::BAD_ARGUMENTS;
    }
    // SAFETY: the C caller passes room for them.
    unsafe {
        fd.write(-1);
        interest.write(0);
        wait.write(libc::timeval { tv_sec: 0, tv_usec: 0 });
    }
    if handle.driver().is_unrecoverable() && !handle.has_to_tell() {
        return errors::INVALID_STATE;
    }
    let wanted = handle.interest();
    let waiting = if wanted.is_writing { READ | WRITE } else { READ };
    // Rounded up to a millisecond, so that the timer has expired after the wait.
    let wait_ms = wanted.wait.as_micros().div_ceil(1000);
    let (seconds, rest) = match handle.has_to_tell() {
        true => (0, 0),
        false => (wait_ms / 1000, wait_ms % 1000 * 1000),
    };
    // SAFETY: as above.
    unsafe {
        fd.write(wanted.fd.unwrap_or(-1));
        interest.write(if wanted.fd.is_some() { waiting } else { 0 });
        wait.write(libc::timeval {
            tv_sec: libc::time_t::try_from(seconds).unwrap_or(libc::time_t::MAX),
            tv_usec: rest as libc::suseconds_t,
        });
    }
    errors::OK
}

/// Reads and writes as the descriptor permits, and calls the program's functions.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_process(zh: *const Handle, events: c_int) -> c_int {
    // SAFETY: the C caller passes a handle, or null.
    let handle = match unsafe { Handle::usable(zh) } {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    if handle.driver().is_unrecoverable() && !handle.has_to_tell() {
        return errors::INVALID_STATE;
    }
    let lost = handle.process(events & READ != 0, events & WRITE != 0);
    let has_told = handle.has_to_tell();
    let ending = handle.driver().ending();
    handle.tell_now();
    match (ending, lost) {
        (Some(ending), _) => errors::ended(ending),
        (None, Some(code)) => code,
        (None, None) if events == 0 && !has_told => errors::NOTHING,
        (None, None) => errors::OK,
    }
}
