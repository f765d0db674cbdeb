//! The library's descriptors stay above those of the standard streams.
//!
//! A program may close one of its standard streams and open it anew, while a thread of the library
//! opens a socket. The system gives the lowest free number to whoever asks first. If that were the
//! library, then what the program writes to its standard error would go to the server.

use std::os::fd::{AsRawFd as _, OwnedFd};

/// The lowest number that no standard stream has.
const LOWEST: i32 = libc::STDERR_FILENO + 1;

/// A descriptor of the same object whose number no standard stream has.
///
/// # Errors
/// The process has no descriptor left.
pub(crate) fn apart(descriptor: OwnedFd) -> std::io::Result<OwnedFd> {
    if descriptor.as_raw_fd() >= LOWEST {
        return Ok(descriptor);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&descriptor, LOWEST)?)
}
