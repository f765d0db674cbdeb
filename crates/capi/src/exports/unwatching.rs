//! Removes watches before they fire.

use std::ffi::{c_char, c_int, c_void};

use zebu_proto::{OpCode, WatcherType};
use zebu_session::{Frame, WatchKind};

use crate::callback::{Function, VoidFn, Waiter};
use crate::driver::Watch;
use crate::errors;
use crate::handle::Handle;
use crate::request::{self, Refused, bad};
use crate::watchers::{Watcher, WatcherFn};

use super::asynchronous::of;

/// The watches to remove.
struct Meant {
    path: *const c_char,
    kind: c_int,
    /// One watcher; `None` for all.
    watcher: Option<Watcher>,
    /// Whether to remove them only in the client, without asking a server.
    is_local: bool,
}

/// The steps of a removal.
enum Removal {
    /// The client has removed them without a server.
    Done,
    Ask(Frame, Watch),
}

impl Meant {
    fn removal(&self, handle: &Handle) -> Result<Removal, Refused> {
        use WatchKind::{Child, Data, Exist, Persistent, Recursive};
        let (kinds, wire): (&'static [WatchKind], _) = match self.kind {
            1 => (&[Child], WatcherType::Children),
            2 => (&[Data, Exist], WatcherType::Data),
            3 => (&[Data, Exist, Child, Persistent, Recursive], WatcherType::Any),
            other => return Err(bad(format!("watcher type {other}"))),
        };
        // SAFETY: the C caller passes a text, or null.
        let path = unsafe { request::path(self.path, handle.chroot()) }?;
        let mut driver = handle.driver();
        if !self.is_local && driver.is_unrecoverable() {
            return Err(Refused(errors::INVALID_STATE, "the session is over".to_owned()));
        }
        if !driver.has_watcher(&path, kinds, self.watcher) {
            let why = format!("{path} has no such watcher");
            return Err(Refused(errors::NO_WATCHER, why));
        }
        if self.is_local {
            driver.forget(&path, kinds, self.watcher);
            return Ok(Removal::Done);
        }
        // For a single watcher, the request only checks that the server has the watch, because
        // other watchers may still need it.
        let op = self.watcher.map_or(OpCode::REMOVE_WATCHES, |_| OpCode::CHECK_WATCHES);
        let frame = Frame::new(op, |out| {
            out.text(&path);
            out.int(self.kind);
        });
        let path = path.as_ref().into();
        Ok(Removal::Ask(
            frame,
            match self.watcher {
                Some(watcher) => Watch::Forget(path, kinds, watcher),
                None => Watch::ForgetAll(path, kinds, wire),
            },
        ))
    }
}

/// Removes watches for the function `name`. The answer goes to a function, if there is one.
fn send(
    zh: *const Handle,
    name: &'static str,
    meant: &Meant,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    let waiter = Waiter::of(completion.map(Function::Void), data);
    match meant.removal(&handle) {
        Ok(Removal::Done) => handle.answer_here(waiter),
        Ok(Removal::Ask(frame, watch)) => {
            handle.act(false, |driver| driver.submit(frame, watch, waiter))
        }
        Err(refused) => handle.refuse(name, refused),
    }
}

/// As above, and waits for the answer.
fn call(zh: *const Handle, name: &'static str, meant: &Meant) -> c_int {
    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    match meant.removal(&handle) {
        Ok(Removal::Done) => errors::OK,
        Ok(Removal::Ask(frame, watch)) => {
            handle.call(|driver, waiter| driver.submit(frame, watch, waiter)).0
        }
        Err(refused) => handle.refuse(name, refused),
    }
}

fn meant(
    path: *const c_char,
    kind: c_int,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    is_local: c_int,
) -> Meant {
    let watcher = watcher.map(|call| Watcher { call, context });
    Meant { path, kind, watcher, is_local: is_local != 0 }
}

/// Removes one watcher of a path, or all if it is null.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as `zookeeper.h` has them")]
extern "C" fn zoo_aremove_watches(
    zh: *const Handle,
    path: *const c_char,
    kind: c_int,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    is_local: c_int,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    let meant = meant(path, kind, watcher, context, is_local);
    send(zh, "zoo_aremove_watches", &meant, completion, data)
}

/// Removes all watchers of a path.
#[unsafe(no_mangle)]
extern "C" fn zoo_aremove_all_watches(
    zh: *const Handle,
    path: *const c_char,
    kind: c_int,
    is_local: c_int,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    let meant = meant(path, kind, None, std::ptr::null_mut(), is_local);
    send(zh, "zoo_aremove_all_watches", &meant, completion, data)
}

/// Removes one watcher of a path, or all if it is null, and waits for the answer.
#[unsafe(no_mangle)]
extern "C" fn zoo_remove_watches(
    zh: *const Handle,
    path: *const c_char,
    kind: c_int,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    is_local: c_int,
) -> c_int {
    call(zh, "zoo_remove_watches", &meant(path, kind, watcher, context, is_local))
}

/// Removes all watchers of a path, and waits for the answer.
#[unsafe(no_mangle)]
extern "C" fn zoo_remove_all_watches(
    zh: *const Handle,
    path: *const c_char,
    kind: c_int,
    is_local: c_int,
) -> c_int {
    let meant = meant(path, kind, None, std::ptr::null_mut(), is_local);
    call(zh, "zoo_remove_all_watches", &meant)
}
