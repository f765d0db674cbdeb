//! Persistent watches, which the C client does not have. The functions' names begin with `zebu_`.

use std::ffi::{c_char, c_int, c_void};

use zebu_proto::OpCode;
use zebu_session::{Frame, WatchKind};

use crate::callback::{Function, VoidFn};
use crate::handle::Handle;
use crate::request::{self, Refused, bad};
use crate::watchers::WatcherFn;

use super::asynchronous::{Request, Who, of, send};

/// Builds the request for a persistent watch.
fn request(
    handle: &Handle,
    path: *const c_char,
    mode: c_int,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
) -> Result<Request, Refused> {
    let kind = match mode {
        0 => WatchKind::Persistent,
        1 => WatchKind::Recursive,
        other => return Err(bad(format!("mode {other} of a watch"))),
    };
    if watcher.is_none() {
        return Err(bad("the watcher is NULL"));
    }
    // SAFETY: the C caller passes a text, or null.
    let path = unsafe { request::path(path, handle.chroot()) }?;
    let frame = Frame::new(OpCode::ADD_WATCH, |out| {
        out.text(&path);
        out.int(mode);
    });
    Ok(Request { frame, who: Who::of(watcher, context), kind, path: path.as_ref().into() })
}

/// Sets a persistent watch on a znode, or on a whole subtree.
#[unsafe(no_mangle)]
extern "C" fn zebu_aadd_watch(
    zh: *const Handle,
    path: *const c_char,
    mode: c_int,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zebu_aadd_watch", completion.map(Function::Void), data, |handle| {
        request(handle, path, mode, watcher, context)
    })
}

/// As above, and waits for the answer.
#[unsafe(no_mangle)]
extern "C" fn zebu_add_watch(
    zh: *const Handle,
    path: *const c_char,
    mode: c_int,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
) -> c_int {
    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    match request(&handle, path, mode, watcher, context) {
        Ok(request) => handle.call(|driver, waiter| request.submit(driver, waiter)).0,
        Err(refused) => handle.refuse("zebu_add_watch", refused),
    }
}
