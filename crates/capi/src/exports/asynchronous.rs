//! Requests whose answer goes to a function of the program.
//!
//! If a call returns 0, its function will be called exactly once. Otherwise the call returns an
//! error code.

use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use zebu_jute::Encoder;
use zebu_proto::OpCode;
use zebu_session::{Frame, WatchKind};

use crate::callback::{
    AclFn, Completion, DataFn, Function, Results, StatFn, StringFn, StringStatFn, StringsFn,
    StringsStatFn, VoidFn, Waiter,
};
use crate::driver::{Driver, Watch};
use crate::handle::Handle;
use crate::memory;
use crate::multi::{self, Multi, Op, OpResult};
use crate::records::ACL_vector;
use crate::request::{self, Create, Refused, bad, create_op};
use crate::watchers::{Watcher, WatcherFn, Watching};

/// The znode of the ensemble's configuration, which no chroot applies to.
pub(super) const CONFIG: &str = "/zookeeper/config";

/// The watcher of a call: its own, or the handle's.
#[derive(Clone, Copy)]
pub(super) enum Who {
    Nobody,
    Handle,
    Other(Watcher),
}

impl Who {
    /// From the `watch` flag of a function.
    pub(super) fn flag(watch: c_int) -> Self {
        if watch != 0 { Self::Handle } else { Self::Nobody }
    }

    /// From the watcher argument of a function.
    pub(super) fn of(call: Option<WatcherFn>, context: *mut c_void) -> Self {
        call.map_or(Self::Nobody, |call| Self::Other(Watcher { call, context }))
    }

    fn watcher(self, driver: &Driver) -> Option<Watcher> {
        match self {
            Self::Nobody => None,
            Self::Handle => driver.default_watcher(),
            Self::Other(watcher) => Some(watcher),
        }
    }
}

/// A valid request.
pub(super) struct Request {
    pub(super) frame: Frame,
    pub(super) who: Who,
    pub(super) kind: WatchKind,
    pub(super) path: Arc<str>,
}

impl Request {
    /// A request that sets no watch.
    pub(super) fn plain(op: OpCode, write: impl FnOnce(&mut Encoder<'_>)) -> Self {
        let frame = Frame::new(op, write);
        Self { frame, who: Who::Nobody, kind: WatchKind::Data, path: "".into() }
    }

    /// A read that may set a watch.
    fn read(op: OpCode, path: &str, who: Who, kind: WatchKind) -> Self {
        // A handle without a watcher has no function to call, but the watch is set nevertheless, as
        // in the C client.
        let frame = Frame::new(op, |out| {
            out.text(path);
            out.boolean(!matches!(who, Who::Nobody));
        });
        Self { frame, who, kind, path: path.into() }
    }

    pub(super) fn submit(self, driver: &mut Driver, waiter: Waiter) {
        let Self { frame, who, kind, path } = self;
        let watch = who
            .watcher(driver)
            .map_or(Watch::None, |watcher| Watch::Leave(Watching { watcher, kind, path }));
        driver.submit(frame, watch, waiter);
    }
}

/// The handle that the program passed, or an error code if it cannot be used.
pub(super) fn of(zh: *const Handle) -> Result<Arc<Handle>, c_int> {
    // SAFETY: the C caller passes a handle that is not closed, or null.
    unsafe { Handle::usable(zh) }
}

/// Builds a request and sends it. The answer goes to the function, if there is one.
pub(super) fn send(
    zh: *const Handle,
    name: &'static str,
    function: Option<Function>,
    data: *const c_void,
    make: impl FnOnce(&Handle) -> Result<Request, Refused>,
) -> c_int {
    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    let request = match make(&handle) {
        Ok(request) => request,
        Err(refused) => return handle.refuse(name, refused),
    };
    let waiter = Waiter::of(function, data);
    handle.act(false, |driver| request.submit(driver, waiter))
}

// Builders of requests, shared by asynchronous and synchronous functions.

/// The server's form of a path.
///
/// # Safety
/// The pointer is null, or points to a zero-terminated text.
unsafe fn path<'a>(handle: &Handle, path: *const c_char) -> Result<Cow<'a, str>, Refused> {
    // SAFETY: guaranteed by the caller.
    unsafe { request::path(path, handle.chroot()) }
}

pub(super) struct CreateArguments {
    pub(super) path: *const c_char,
    pub(super) data: *const c_char,
    pub(super) length: c_int,
    pub(super) acl: *const ACL_vector,
    pub(super) mode: c_int,
    pub(super) ttl: i64,
}

impl CreateArguments {
    /// `plain`: the opcode for modes without an opcode of their own.
    pub(super) fn request(&self, handle: &Handle, plain: OpCode) -> Result<Request, Refused> {
        let Self { path, data, length, acl, mode, ttl } = *self;
        // SAFETY: the C caller passes what `zookeeper.h` says.
        let create = unsafe { Create::new(handle.chroot(), path, data, length, acl, mode, ttl) }?;
        let op = create_op(mode, plain);
        // SAFETY: as above.
        Ok(Request::plain(op, |out| unsafe { create.encode(op, out) }))
    }
}

pub(super) fn delete(
    handle: &Handle,
    at: *const c_char,
    version: c_int,
) -> Result<Request, Refused> {
    // SAFETY: the C caller passes a text, or null.
    let path = unsafe { path(handle, at) }?;
    Ok(Request::plain(OpCode::DELETE, |out| {
        out.text(&path);
        out.int(version);
    }))
}

pub(super) fn read(
    handle: &Handle,
    op: OpCode,
    at: *const c_char,
    who: Who,
) -> Result<Request, Refused> {
    // SAFETY: the C caller passes a text, or null.
    let path = unsafe { path(handle, at) }?;
    let kind = match op {
        OpCode::EXISTS => WatchKind::Exist,
        OpCode::GET_DATA => WatchKind::Data,
        _ => WatchKind::Child,
    };
    Ok(Request::read(op, &path, who, kind))
}

pub(super) fn config(who: Who) -> Request {
    Request::read(OpCode::GET_DATA, CONFIG, who, WatchKind::Data)
}

pub(super) fn set(
    handle: &Handle,
    at: *const c_char,
    bytes: *const c_char,
    length: c_int,
    version: c_int,
) -> Result<Request, Refused> {
    // SAFETY: the C caller passes pointers that are valid for the given lengths, or null.
    let (path, data) = unsafe { (path(handle, at)?, request::data(bytes, length)?) };
    Ok(Request::plain(OpCode::SET_DATA, |out| {
        out.text(&path);
        out.buffer(data);
        out.int(version);
    }))
}

pub(super) fn sync(handle: &Handle, at: *const c_char) -> Result<Request, Refused> {
    // SAFETY: the C caller passes a text, or null.
    let path = unsafe { path(handle, at) }?;
    Ok(Request::plain(OpCode::SYNC, |out| out.text(&path)))
}

pub(super) fn get_acl(handle: &Handle, at: *const c_char) -> Result<Request, Refused> {
    // SAFETY: the C caller passes a text, or null.
    let path = unsafe { path(handle, at) }?;
    Ok(Request::plain(OpCode::GET_ACL, |out| out.text(&path)))
}

pub(super) fn set_acl(
    handle: &Handle,
    at: *const c_char,
    version: c_int,
    acl: *const ACL_vector,
) -> Result<Request, Refused> {
    // SAFETY: the C caller passes a text and a vector, or null.
    let (path, acl) = unsafe { (path(handle, at)?, request::acl(acl)) };
    Ok(Request::plain(OpCode::SET_ACL, |out| {
        out.text(&path);
        // SAFETY: the entries are as `zookeeper.h` demands.
        unsafe { request::put_acl(acl, out) };
        out.int(version);
    }))
}

pub(super) fn reconfig(
    joining: *const c_char,
    leaving: *const c_char,
    members: *const c_char,
    version: i64,
) -> Result<Request, Refused> {
    let list = |text: *const c_char, what| match text.is_null() {
        true => Ok(None),
        // SAFETY: the C caller passes a text, or null.
        false => unsafe { request::text(text, what) }.map(Some),
    };
    let joining = list(joining, "the list of joining servers")?;
    let leaving = list(leaving, "the list of leaving servers")?;
    let members = list(members, "the list of members")?;
    Ok(Request::plain(OpCode::RECONFIG, |out| {
        out.ustring(joining);
        out.ustring(leaving);
        out.ustring(members);
        out.long(version);
    }))
}

pub(super) fn multi(
    handle: &Handle,
    count: c_int,
    ops: *const Op,
    results: *mut OpResult,
) -> Result<(Request, Multi), Refused> {
    let number = usize::try_from(count).map_err(|_| bad(format!("{count} operations")))?;
    if number > 0 && (ops.is_null() || results.is_null()) {
        return Err(bad("operations or results are NULL"));
    }
    // SAFETY: the C caller passes `count` operations and as many results.
    let bytes = unsafe { multi::encode(memory::slice(ops, count), results, handle.chroot()) }?;
    let request = Request::plain(OpCode::MULTI, |out| out.raw(&bytes));
    Ok((request, Multi { results, count: number }))
}

// The exported functions.

macro_rules! create {
    ($name:ident, $plain:ident, $function:ident($type:ty) $(, $ttl:ident)?) => {
        #[doc = concat!("`", stringify!($name), "`: creates a znode.")]
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "as `zookeeper.h` has them")]
        extern "C" fn $name(
            zh: *const Handle,
            path: *const c_char,
            data: *const c_char,
            length: c_int,
            acl: *const ACL_vector,
            mode: c_int,
            $($ttl: i64,)?
            completion: Option<$type>,
            context: *const c_void,
        ) -> c_int {
            let no_ttl = -1_i64;
            let ttl = [no_ttl $(, $ttl)?].last().copied().unwrap_or(no_ttl);
            let arguments = CreateArguments { path, data, length, acl, mode, ttl };
            send(zh, stringify!($name), completion.map(Function::$function), context, |handle| {
                arguments.request(handle, OpCode::$plain)
            })
        }
    };
}

create!(zoo_acreate, CREATE, String(StringFn));
create!(zoo_acreate_ttl, CREATE, String(StringFn), ttl);
create!(zoo_acreate2, CREATE2, StringStat(StringStatFn));
create!(zoo_acreate2_ttl, CREATE2, StringStat(StringStatFn), ttl);

/// Deletes a znode.
#[unsafe(no_mangle)]
extern "C" fn zoo_adelete(
    zh: *const Handle,
    path: *const c_char,
    version: c_int,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zoo_adelete", completion.map(Function::Void), data, |handle| {
        delete(handle, path, version)
    })
}

/// Defines each read twice: with a flag for the handle's watcher, and with a watcher of its own.
macro_rules! reads {
    ($($flagged:ident, $watched:ident, $op:ident, $function:ident($type:ty);)*) => {
        $(
            #[doc = concat!("`", stringify!($flagged), "`: with a flag for the handle's watcher.")]
            #[unsafe(no_mangle)]
            extern "C" fn $flagged(
                zh: *const Handle,
                path: *const c_char,
                watch: c_int,
                completion: Option<$type>,
                data: *const c_void,
            ) -> c_int {
                send(zh, stringify!($flagged), completion.map(Function::$function), data, |handle| {
                    read(handle, OpCode::$op, path, Who::flag(watch))
                })
            }

            #[doc = concat!("`", stringify!($watched), "`: with a watcher of its own.")]
            #[unsafe(no_mangle)]
            extern "C" fn $watched(
                zh: *const Handle,
                path: *const c_char,
                watcher: Option<WatcherFn>,
                context: *mut c_void,
                completion: Option<$type>,
                data: *const c_void,
            ) -> c_int {
                send(zh, stringify!($watched), completion.map(Function::$function), data, |handle| {
                    read(handle, OpCode::$op, path, Who::of(watcher, context))
                })
            }
        )*
    };
}

reads! {
    zoo_aexists, zoo_awexists, EXISTS, Stat(StatFn);
    zoo_aget, zoo_awget, GET_DATA, Data(DataFn);
    zoo_aget_children, zoo_awget_children, GET_CHILDREN, Strings(StringsFn);
    zoo_aget_children2, zoo_awget_children2, GET_CHILDREN2, StringsStat(StringsStatFn);
}

/// Reads the ensemble's configuration.
#[unsafe(no_mangle)]
extern "C" fn zoo_agetconfig(
    zh: *const Handle,
    watch: c_int,
    completion: Option<DataFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zoo_agetconfig", completion.map(Function::Data), data, |_| {
        Ok(config(Who::flag(watch)))
    })
}

/// Reads the ensemble's configuration, with a watcher of its own.
#[unsafe(no_mangle)]
extern "C" fn zoo_awgetconfig(
    zh: *const Handle,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    completion: Option<DataFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zoo_awgetconfig", completion.map(Function::Data), data, |_| {
        Ok(config(Who::of(watcher, context)))
    })
}

/// Changes the members of the ensemble.
#[unsafe(no_mangle)]
extern "C" fn zoo_areconfig(
    zh: *const Handle,
    joining: *const c_char,
    leaving: *const c_char,
    members: *const c_char,
    version: i64,
    completion: Option<DataFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zoo_areconfig", completion.map(Function::Data), data, |_| {
        reconfig(joining, leaving, members, version)
    })
}

/// Sets the data of a znode.
#[unsafe(no_mangle)]
extern "C" fn zoo_aset(
    zh: *const Handle,
    path: *const c_char,
    bytes: *const c_char,
    length: c_int,
    version: c_int,
    completion: Option<StatFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zoo_aset", completion.map(Function::Stat), data, |handle| {
        set(handle, path, bytes, length, version)
    })
}

/// Waits until the server has applied the leader's changes. The C client also exports this name.
#[unsafe(no_mangle)]
extern "C" fn zoo_async(
    zh: *const Handle,
    path: *const c_char,
    completion: Option<StringFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zoo_async", completion.map(Function::String), data, |handle| sync(handle, path))
}

/// Reads the ACL of a znode.
#[unsafe(no_mangle)]
extern "C" fn zoo_aget_acl(
    zh: *const Handle,
    path: *const c_char,
    completion: Option<AclFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zoo_aget_acl", completion.map(Function::Acl), data, |handle| get_acl(handle, path))
}

/// Sets the ACL of a znode.
#[unsafe(no_mangle)]
extern "C" fn zoo_aset_acl(
    zh: *const Handle,
    path: *const c_char,
    version: c_int,
    acl: *mut ACL_vector,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    send(zh, "zoo_aset_acl", completion.map(Function::Void), data, |handle| {
        set_acl(handle, path, version, acl)
    })
}

/// Executes several operations: all of them, or none.
#[unsafe(no_mangle)]
extern "C" fn zoo_amulti(
    zh: *const Handle,
    count: c_int,
    ops: *const Op,
    results: *mut OpResult,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    send_many(zh, "zoo_amulti", completion, data, |handle| {
        let (request, multi) = multi(handle, count, ops, results)?;
        Ok((request, Results::Multi(multi)))
    })
}

/// Sends several operations. Their results are stored before the function is called.
pub(super) fn send_many(
    zh: *const Handle,
    name: &'static str,
    completion: Option<VoidFn>,
    data: *const c_void,
    make: impl FnOnce(&Handle) -> Result<(Request, Results), Refused>,
) -> c_int {
    unsafe extern "C" fn nothing(_: c_int, _: *const c_void) {}

    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    let (request, results) = match make(&handle) {
        Ok(made) => made,
        Err(refused) => return handle.refuse(name, refused),
    };
    let function = Function::Void(completion.unwrap_or(nothing));
    let waiter = Waiter::Completion(Completion { function, data, results: Some(results) });
    handle.act(false, |driver| request.submit(driver, waiter))
}

/// Sends credentials, now and on every later connection.
#[unsafe(no_mangle)]
extern "C" fn zoo_add_auth(
    zh: *const Handle,
    scheme: *const c_char,
    bytes: *const c_char,
    length: c_int,
    completion: Option<VoidFn>,
    data: *const c_void,
) -> c_int {
    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    // SAFETY: the C caller passes pointers that are valid for the given lengths, or null.
    let read = unsafe {
        request::text(scheme, "scheme")
            .and_then(|scheme| Ok((scheme, request::data(bytes, length)?)))
    };
    let (scheme, auth) = match read {
        Ok((scheme, auth)) => (scheme.to_owned(), auth.unwrap_or_default().to_owned()),
        Err(refused) => return handle.refuse("zoo_add_auth", refused),
    };
    let waiter = Waiter::of(completion.map(Function::Void), data);
    parking_lot::lock_api::RawMutex::lock(handle.auth_lock());
    let code = handle.act(false, |driver| driver.authenticate(scheme, auth, waiter));
    // SAFETY: this function locked it above.
    unsafe { parking_lot::lock_api::RawMutex::unlock(handle.auth_lock()) };
    code
}
