//! Requests that wait for their answer. Only the multi-threaded library has them.

use std::ffi::{c_char, c_int, c_void};

use zebu_proto::OpCode;

use crate::callback::{Acls, Names, data_stat, length, path as path_of, stat as stat_at};
use crate::errors;
use crate::handle::Handle;
use crate::memory;
use crate::multi::{Op, OpResult};
use crate::records::{ACL_vector, Stat, String_vector};
use crate::request::{Refused, bad};
use crate::watchers::WatcherFn;

use super::asynchronous::{self as make, CreateArguments, Request, Who, of};

/// Builds a request, waits for its answer, and decodes it. Returns the code.
fn call(
    zh: *const Handle,
    name: &'static str,
    make: impl FnOnce(&Handle) -> Result<Request, Refused>,
    take: impl FnOnce(&Handle, &[u8]) -> Option<()>,
) -> c_int {
    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    let request = match make(&handle) {
        Ok(request) => request,
        Err(refused) => return handle.refuse(name, refused),
    };
    let (code, body) = handle.call(|driver, waiter| request.submit(driver, waiter));
    match code {
        errors::OK if take(&handle, &body).is_none() => errors::MARSHALLING_ERROR,
        code => code,
    }
}

/// Stores a stat for the C caller.
fn put_stat(to: *mut Stat, body: &[u8]) -> Option<()> {
    if !to.is_null() {
        // SAFETY: the C caller passes room for a stat, or null.
        unsafe { to.write(stat_at(body).ok()?) };
    }
    Some(())
}

/// A buffer for a path, and its length.
#[derive(Clone, Copy)]
struct Room(*mut c_char, c_int);

fn create(
    zh: *const Handle,
    name: &'static str,
    plain: OpCode,
    arguments: &CreateArguments,
    room: Room,
    stat: *mut Stat,
) -> c_int {
    call(
        zh,
        name,
        |handle| arguments.request(handle, plain),
        |handle, body| {
            let (path, rest) = path_of(body, handle.chroot()).ok()?;
            // SAFETY: the C caller passes so much room, or null.
            unsafe { memory::put_text(room.0, room.1, path.to_bytes()) };
            put_stat(stat, rest)
        },
    )
}

macro_rules! create {
    ($name:ident, $plain:ident $(, ttl $ttl:ident)? $(, stat $stat:ident)?) => {
        #[doc = concat!("`", stringify!($name), "`: creates a znode; its path goes into a buffer, cut to what fits.")]
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
            buffer: *mut c_char,
            buffer_length: c_int,
            $($stat: *mut Stat,)?
        ) -> c_int {
            let no_ttl = -1_i64;
            let ttl = [no_ttl $(, $ttl)?].last().copied().unwrap_or(no_ttl);
            let no_stat = std::ptr::null_mut::<Stat>();
            let stat = [no_stat $(, $stat)?].last().copied().unwrap_or(no_stat);
            let arguments = CreateArguments { path, data, length, acl, mode, ttl };
            let room = Room(buffer, buffer_length);
            create(zh, stringify!($name), OpCode::$plain, &arguments, room, stat)
        }
    };
}

create!(zoo_create, CREATE);
create!(zoo_create_ttl, CREATE, ttl ttl);
create!(zoo_create2, CREATE2, stat stat);
create!(zoo_create2_ttl, CREATE2, ttl ttl, stat stat);

/// Deletes a znode.
#[unsafe(no_mangle)]
extern "C" fn zoo_delete(zh: *const Handle, path: *const c_char, version: c_int) -> c_int {
    call(zh, "zoo_delete", |handle| make::delete(handle, path, version), |_, _| Some(()))
}

fn exists(
    zh: *const Handle,
    name: &'static str,
    path: *const c_char,
    who: Who,
    stat: *mut Stat,
) -> c_int {
    let make = |handle: &Handle| make::read(handle, OpCode::EXISTS, path, who);
    call(zh, name, make, |_, body| put_stat(stat, body))
}

/// Whether a znode exists.
#[unsafe(no_mangle)]
extern "C" fn zoo_exists(
    zh: *const Handle,
    path: *const c_char,
    watch: c_int,
    stat: *mut Stat,
) -> c_int {
    exists(zh, "zoo_exists", path, Who::flag(watch), stat)
}

/// Whether a znode exists, with a watcher of its own.
#[unsafe(no_mangle)]
extern "C" fn zoo_wexists(
    zh: *const Handle,
    path: *const c_char,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    stat: *mut Stat,
) -> c_int {
    exists(zh, "zoo_wexists", path, Who::of(watcher, context), stat)
}

/// A buffer of the C caller, and the pointer to its length.
#[derive(Clone, Copy)]
struct Buffer {
    bytes: *mut c_char,
    length: *mut c_int,
}

impl Buffer {
    fn check(self) -> Result<(), Refused> {
        if self.length.is_null() {
            return Err(bad("the length of the buffer is NULL"));
        }
        Ok(())
    }

    /// Copies as much as fits, and stores the number of bytes: −1 for null.
    fn put(self, bytes: Option<&[u8]>) {
        // SAFETY: the C caller passes a pointer to the length; it was checked.
        let room = unsafe { *self.length };
        let room = if self.bytes.is_null() { 0 } else { room.max(0) };
        let count = length(bytes).min(room);
        if let (Some(bytes), Ok(count)) = (bytes, usize::try_from(count)) {
            // SAFETY: the buffer has `room` bytes, and at most that many are copied.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes.cast::<u8>(), count);
            }
        }
        // SAFETY: as above.
        unsafe { self.length.write(count) };
    }
}

/// Stores data and stat of a read.
fn data(
    zh: *const Handle,
    name: &'static str,
    buffer: Buffer,
    stat: *mut Stat,
    make: impl FnOnce(&Handle) -> Result<Request, Refused>,
) -> c_int {
    let make = |handle: &Handle| buffer.check().and_then(|()| make(handle));
    call(zh, name, make, |_, body| {
        let (bytes, found) = data_stat(body).ok()?;
        buffer.put(bytes);
        // SAFETY: the C caller passes room for a stat, or null.
        unsafe { memory::put(stat, found) };
        Some(())
    })
}

/// Reads the data of a znode.
#[unsafe(no_mangle)]
extern "C" fn zoo_get(
    zh: *const Handle,
    path: *const c_char,
    watch: c_int,
    bytes: *mut c_char,
    length: *mut c_int,
    stat: *mut Stat,
) -> c_int {
    data(zh, "zoo_get", Buffer { bytes, length }, stat, |handle| {
        make::read(handle, OpCode::GET_DATA, path, Who::flag(watch))
    })
}

/// Reads the data of a znode, with a watcher of its own.
#[unsafe(no_mangle)]
extern "C" fn zoo_wget(
    zh: *const Handle,
    path: *const c_char,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    bytes: *mut c_char,
    length: *mut c_int,
    stat: *mut Stat,
) -> c_int {
    data(zh, "zoo_wget", Buffer { bytes, length }, stat, |handle| {
        make::read(handle, OpCode::GET_DATA, path, Who::of(watcher, context))
    })
}

/// Reads the ensemble's configuration.
#[unsafe(no_mangle)]
extern "C" fn zoo_getconfig(
    zh: *const Handle,
    watch: c_int,
    bytes: *mut c_char,
    length: *mut c_int,
    stat: *mut Stat,
) -> c_int {
    let buffer = Buffer { bytes, length };
    data(zh, "zoo_getconfig", buffer, stat, |_| Ok(make::config(Who::flag(watch))))
}

/// Reads the ensemble's configuration, with a watcher of its own.
#[unsafe(no_mangle)]
extern "C" fn zoo_wgetconfig(
    zh: *const Handle,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    bytes: *mut c_char,
    length: *mut c_int,
    stat: *mut Stat,
) -> c_int {
    let buffer = Buffer { bytes, length };
    data(zh, "zoo_wgetconfig", buffer, stat, |_| Ok(make::config(Who::of(watcher, context))))
}

/// Changes the members of the ensemble.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as `zookeeper.h` has them")]
extern "C" fn zoo_reconfig(
    zh: *const Handle,
    joining: *const c_char,
    leaving: *const c_char,
    members: *const c_char,
    version: i64,
    bytes: *mut c_char,
    length: *mut c_int,
    stat: *mut Stat,
) -> c_int {
    data(zh, "zoo_reconfig", Buffer { bytes, length }, stat, |_| {
        make::reconfig(joining, leaving, members, version)
    })
}

/// Sets the data of a znode.
#[unsafe(no_mangle)]
extern "C" fn zoo_set2(
    zh: *const Handle,
    path: *const c_char,
    bytes: *const c_char,
    length: c_int,
    version: c_int,
    stat: *mut Stat,
) -> c_int {
    set(zh, "zoo_set2", (path, bytes, length, version), stat)
}

/// Sets the data of a znode, without returning the stat.
#[unsafe(no_mangle)]
extern "C" fn zoo_set(
    zh: *const Handle,
    path: *const c_char,
    bytes: *const c_char,
    length: c_int,
    version: c_int,
) -> c_int {
    set(zh, "zoo_set", (path, bytes, length, version), std::ptr::null_mut())
}

fn set(
    zh: *const Handle,
    name: &'static str,
    (path, bytes, length, version): (*const c_char, *const c_char, c_int, c_int),
    stat: *mut Stat,
) -> c_int {
    let make = |handle: &Handle| make::set(handle, path, bytes, length, version);
    call(zh, name, make, |_, body| put_stat(stat, body))
}

/// Stores the names of a znode's children in memory that C frees.
fn children(
    zh: *const Handle,
    name: &'static str,
    (path, who): (*const c_char, Who),
    strings: *mut String_vector,
    stat: Option<*mut Stat>,
) -> c_int {
    let op = if stat.is_some() { OpCode::GET_CHILDREN2 } else { OpCode::GET_CHILDREN };
    let make = |handle: &Handle| {
        if strings.is_null() {
            return Err(bad("the place for the names is NULL"));
        }
        make::read(handle, op, path, who)
    };
    call(zh, name, make, |_, body| {
        let (names, rest) = Names::decode(body).ok()?;
        if let Some(stat) = stat {
            put_stat(stat, rest)?;
        }
        // SAFETY: the C caller passes room for a vector; it was checked.
        unsafe { strings.write(names.copy()?) };
        Some(())
    })
}

/// Reads the names of a znode's children.
#[unsafe(no_mangle)]
extern "C" fn zoo_get_children(
    zh: *const Handle,
    path: *const c_char,
    watch: c_int,
    strings: *mut String_vector,
) -> c_int {
    children(zh, "zoo_get_children", (path, Who::flag(watch)), strings, None)
}

/// Reads the names of a znode's children, with a watcher of its own.
#[unsafe(no_mangle)]
extern "C" fn zoo_wget_children(
    zh: *const Handle,
    path: *const c_char,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    strings: *mut String_vector,
) -> c_int {
    children(zh, "zoo_wget_children", (path, Who::of(watcher, context)), strings, None)
}

/// Reads the names of a znode's children, and its stat.
#[unsafe(no_mangle)]
extern "C" fn zoo_get_children2(
    zh: *const Handle,
    path: *const c_char,
    watch: c_int,
    strings: *mut String_vector,
    stat: *mut Stat,
) -> c_int {
    children(zh, "zoo_get_children2", (path, Who::flag(watch)), strings, Some(stat))
}

/// Reads the names of a znode's children, and its stat, with a watcher of its own.
#[unsafe(no_mangle)]
extern "C" fn zoo_wget_children2(
    zh: *const Handle,
    path: *const c_char,
    watcher: Option<WatcherFn>,
    context: *mut c_void,
    strings: *mut String_vector,
    stat: *mut Stat,
) -> c_int {
    children(zh, "zoo_wget_children2", (path, Who::of(watcher, context)), strings, Some(stat))
}

/// Reads the ACL of a znode. C frees it.
#[unsafe(no_mangle)]
extern "C" fn zoo_get_acl(
    zh: *const Handle,
    path: *const c_char,
    acl: *mut ACL_vector,
    stat: *mut Stat,
) -> c_int {
    call(
        zh,
        "zoo_get_acl",
        |handle| make::get_acl(handle, path),
        |_, body| {
            let (entries, found) = Acls::decode(body).ok()?;
            // SAFETY: the C caller passes room for a vector and for a stat, or null.
            unsafe {
                if !acl.is_null() {
                    acl.write(entries.copy()?);
                }
                memory::put(stat, found);
            }
            Some(())
        },
    )
}

/// Sets the ACL of a znode.
#[unsafe(no_mangle)]
extern "C" fn zoo_set_acl(
    zh: *const Handle,
    path: *const c_char,
    version: c_int,
    acl: *const ACL_vector,
) -> c_int {
    call(zh, "zoo_set_acl", |handle| make::set_acl(handle, path, version, acl), |_, _| Some(()))
}

/// Executes several operations: all of them, or none.
#[unsafe(no_mangle)]
extern "C" fn zoo_multi(
    zh: *const Handle,
    count: c_int,
    ops: *const Op,
    results: *mut OpResult,
) -> c_int {
    let handle = match of(zh) {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    let (request, multi) = match make::multi(&handle, count, ops, results) {
        Ok(made) => made,
        Err(refused) => return handle.refuse("zoo_multi", refused),
    };
    let (code, body) = handle.call(|driver, waiter| request.submit(driver, waiter));
    multi.fill(code, &body, handle.chroot())
}
