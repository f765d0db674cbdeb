//! Persistent watches and several reads in one request, which the C client does not have. The
//! functions' names begin with `zebu_`.

use std::ffi::{c_char, c_int, c_void};

use zebu_proto::OpCode;
use zebu_session::{Frame, WatchKind};

use crate::callback::{Function, Results, VoidFn};
use crate::handle::Handle;
use crate::memory;
use crate::multi_read::{self, Read, ReadResult, Reads};
use crate::request::{self, Refused, bad};
use crate::watchers::WatcherFn;

use super::asynchronous::{Request, Who, of, send, send_many};

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

/// Builds the request for several reads.
fn reads(
    handle: &Handle,
    count: c_int,
    reads: *const Read,
    results: *mut ReadResult,
) -> Result<(Request, Reads), Refused> {
    let number = usize::try_from(count).map_err(|_| bad(format!("{count} reads")))?;
    if number > 0 && (reads.is_null() || results.is_null()) {
        return Err(bad("reads or results are NULL"));
    }
    // SAFETY: the C caller passes `count` reads and as many results.
    let bytes =
        unsafe { multi_read::encode(memory::slice(reads, count), results, handle.chroot()) }?;
    let request = Request::plain(OpCode::MULTI_READ, |out| out.raw(&bytes));
    Ok((request, Reads { results, count: number }))
}

/// Reads several znodes in one request. Each read succeeds or fails alone.
#[unsafe(no_mangle)]
extern "C" fn zebu_amulti_read(
    zh: *const Handle,
    count: c_int,
    asked: *const Read,
    results: *mut ReadResult,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    send_many(zh, "zebu_amulti_read", completion, data, |handle| {
        let (request, reads) = reads(handle, count, asked, results)?;
        Ok((request, Results::Reads(reads)))
    })
}

/// As above, and waits for the answer.
#[unsafe(no_mangle)]
extern "C" fn zebu_multi_read(
    zh: *const Handle,
    count: c_int,
    asked: *const Read,
    results: *mut ReadResult,
) -> c_int {
    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    let (request, reads) = match reads(&handle, count, asked, results) {
        Ok(made) => made,
        Err(refused) => return handle.refuse("zebu_multi_read", refused),
    };
    let (code, body) = handle.call(|driver, waiter| request.submit(driver, waiter));
    reads.fill(code, &body)
}
