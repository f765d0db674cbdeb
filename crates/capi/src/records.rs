//! `zookeeper.jute.h`: the protocol's records as C structures, with functions that write, read and
//! free them.
//!
//! The fields are those of `zookeeper.jute` in the original, in wire order.

#![allow(
    non_snake_case,
    non_camel_case_types,
    clippy::upper_case_acronyms,
    reason = "the names are those of the C client"
)]

use std::ffi::{c_char, c_int};

use crate::archive::{Buffer, InArchive, OutArchive};
use crate::memory;

/// A text that C frees; may be null.
pub(crate) type Text = *mut c_char;

/// A boolean: one byte on the wire, an `int32_t` in C.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Bool(i32);

/// A field of a record.
pub(crate) trait Field {
    /// # Safety
    /// `field` and `to` are valid.
    unsafe fn write(field: *mut Self, to: *mut OutArchive, tag: *const c_char) -> c_int;

    /// # Safety
    /// `field` is writable, and `from` is an archive.
    unsafe fn read(field: *mut Self, from: *mut InArchive, tag: *const c_char) -> c_int;

    /// Frees the memory that the field owns.
    ///
    /// # Safety
    /// The memory that `field` points to came from `malloc`.
    unsafe fn release(field: *mut Self);
}

/// Implements a field for which archives have a function.
macro_rules! plain {
    ($($type:ty: $method:ident($as:ty);)*) => {
        $(
            impl Field for $type {
                unsafe fn write(field: *mut Self, to: *mut OutArchive, tag: *const c_char) -> c_int {
                    // SAFETY: guaranteed by the caller.
                    unsafe { ((*to).$method)(to, tag, field.cast::<$as>()) }
                }

                unsafe fn read(field: *mut Self, from: *mut InArchive, tag: *const c_char) -> c_int {
                    // SAFETY: guaranteed by the caller.
                    unsafe { ((*from).$method)(from, tag, field.cast::<$as>()) }
                }

                unsafe fn release(field: *mut Self) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { Owned::release_owned(&mut *field) };
                }
            }
        )*
    };
}

/// The memory that a plain field owns, if any.
trait Owned {
    /// # Safety
    /// As [`Field::release`].
    unsafe fn release_owned(&mut self);
}

impl Owned for Bool {
    unsafe fn release_owned(&mut self) {}
}

impl Owned for i32 {
    unsafe fn release_owned(&mut self) {}
}

impl Owned for i64 {
    unsafe fn release_owned(&mut self) {}
}

impl Owned for Text {
    unsafe fn release_owned(&mut self) {
        // SAFETY: guaranteed by the caller.
        unsafe { memory::free(std::mem::replace(self, std::ptr::null_mut())) };
    }
}

impl Owned for Buffer {
    unsafe fn release_owned(&mut self) {
        // SAFETY: guaranteed by the caller.
        unsafe { memory::free(std::mem::replace(&mut self.buff, std::ptr::null_mut())) };
        self.len = 0;
    }
}

plain! {
    Bool: bool(i32);
    i32: int(i32);
    i64: long(i64);
    Buffer: buffer(Buffer);
    Text: text(Text);
}

/// The tag of a field: its name in C, even if that is a Rust keyword.
fn tag_of(name: &'static str) -> *const c_char {
    name.strip_prefix("r#").unwrap_or(name).as_ptr().cast()
}

/// Declares a record, and exports its `serialize_`, `deserialize_` and `deallocate_` functions.
macro_rules! jute {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[doc = concat!("`struct ", stringify!($name), "`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(#[doc = concat!("`", stringify!($field), "` on the wire.")] pub $field: $type,)*
        }

        impl Field for $name {
            unsafe fn write(field: *mut Self, to: *mut OutArchive, tag: *const c_char) -> c_int {
                // SAFETY: guaranteed by the caller; fields of a record are records.
                unsafe {
                    let mut result = ((*to).start_record)(to, tag);
                    $(
                        if result == 0 {
                            let tag = tag_of(concat!(stringify!($field), "\0"));
                            result = Field::write(&raw mut (*field).$field, to, tag);
                        }
                    )*
                    if result == 0 { ((*to).end_record)(to, tag) } else { result }
                }
            }

            unsafe fn read(field: *mut Self, from: *mut InArchive, tag: *const c_char) -> c_int {
                // SAFETY: guaranteed by the caller; fields of a record are records. What is not
                // read is null.
                unsafe {
                    std::ptr::write_bytes(field, 0, 1);
                    let mut result = ((*from).start_record)(from, tag);
                    $(
                        if result == 0 {
                            let tag = tag_of(concat!(stringify!($field), "\0"));
                            result = Field::read(&raw mut (*field).$field, from, tag);
                        }
                    )*
                    if result == 0 { ((*from).end_record)(from, tag) } else { result }
                }
            }

            unsafe fn release(field: *mut Self) {
                // SAFETY: guaranteed by the caller.
                unsafe { $(Field::release(&raw mut (*field).$field);)* }
            }
        }

        const _: () = {
            #[unsafe(export_name = concat!("serialize_", stringify!($name)))]
            unsafe extern "C" fn serialize(
                out: *mut OutArchive,
                tag: *const c_char,
                record: *mut $name,
            ) -> c_int {
                // SAFETY: the C caller passes an archive and a record.
                unsafe { Field::write(record, out, tag) }
            }

            #[unsafe(export_name = concat!("deserialize_", stringify!($name)))]
            unsafe extern "C" fn deserialize(
                from: *mut InArchive,
                tag: *const c_char,
                record: *mut $name,
            ) -> c_int {
                // SAFETY: the C caller passes an archive and room for a record.
                unsafe { Field::read(record, from, tag) }
            }

            #[unsafe(export_name = concat!("deallocate_", stringify!($name)))]
            unsafe extern "C" fn deallocate(record: *mut $name) {
                if !record.is_null() {
                    // SAFETY: the C caller passes a record whose parts came from `malloc`.
                    unsafe { Field::release(record) }
                }
            }
        };
    };
}

/// Declares a vector of records, and exports its `allocate_` function, too.
macro_rules! vector {
    ($name:ident: $element:ty) => {
        #[doc = concat!("`struct ", stringify!($name), "`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            /// The number of elements.
            pub count: i32,
            /// The elements; null if there are none.
            pub data: *mut $element,
        }

        impl $name {
            /// Allocates this many elements, filled with zeros. Returns whether there was enough
            /// memory.
            pub(crate) fn allocate(&mut self, count: i32) -> bool {
                self.count = count.max(0);
                self.data = memory::array(self.count as usize);
                let is_there = self.count == 0 || !self.data.is_null();
                self.count *= i32::from(is_there);
                is_there
            }
        }

        impl Field for $name {
            unsafe fn write(field: *mut Self, to: *mut OutArchive, tag: *const c_char) -> c_int {
                // SAFETY: guaranteed by the caller; a vector has as many elements as it says.
                unsafe {
                    let mut result = ((*to).start_vector)(to, tag, &raw const (*field).count);
                    for at in 0..usize::try_from((*field).count).unwrap_or(0) {
                        if result == 0 {
                            result = Field::write((*field).data.add(at), to, c"data".as_ptr());
                        }
                    }
                    if result == 0 { ((*to).end_vector)(to, tag) } else { result }
                }
            }

            unsafe fn read(field: *mut Self, from: *mut InArchive, tag: *const c_char) -> c_int {
                // SAFETY: guaranteed by the caller; this number of elements is allocated.
                unsafe {
                    let mut count = 0;
                    let mut result = ((*from).start_vector)(from, tag, &mut count);
                    if result == 0 && !(*field).allocate(count) {
                        result = -libc::ENOMEM;
                    }
                    for at in 0..usize::try_from(count).unwrap_or(0) {
                        if result == 0 {
                            result = Field::read((*field).data.add(at), from, c"value".as_ptr());
                        }
                    }
                    if result == 0 { ((*from).end_vector)(from, tag) } else { result }
                }
            }

            unsafe fn release(field: *mut Self) {
                // SAFETY: guaranteed by the caller; the elements came from `malloc`.
                unsafe {
                    if !(*field).data.is_null() {
                        for at in 0..usize::try_from((*field).count).unwrap_or(0) {
                            Field::release((*field).data.add(at));
                        }
                        memory::free((*field).data);
                    }
                    (*field).data = std::ptr::null_mut();
                    (*field).count = 0;
                }
            }
        }

        const _: () = {
            #[unsafe(export_name = concat!("serialize_", stringify!($name)))]
            unsafe extern "C" fn serialize(
                out: *mut OutArchive,
                tag: *const c_char,
                vector: *mut $name,
            ) -> c_int {
                // SAFETY: the C caller passes an archive and a vector.
                unsafe { Field::write(vector, out, tag) }
            }

            #[unsafe(export_name = concat!("deserialize_", stringify!($name)))]
            unsafe extern "C" fn deserialize(
                from: *mut InArchive,
                tag: *const c_char,
                vector: *mut $name,
            ) -> c_int {
                // SAFETY: the C caller passes an archive and room for a vector.
                unsafe {
                    (*vector).count = 0;
                    (*vector).data = std::ptr::null_mut();
                    Field::read(vector, from, tag)
                }
            }

            #[unsafe(export_name = concat!("allocate_", stringify!($name)))]
            unsafe extern "C" fn allocate(vector: *mut $name, count: i32) -> c_int {
                // SAFETY: the C caller passes room for a vector.
                if unsafe { (*vector).allocate(count) } { 0 } else { -libc::ENOMEM }
            }

            #[unsafe(export_name = concat!("deallocate_", stringify!($name)))]
            unsafe extern "C" fn deallocate(vector: *mut $name) -> c_int {
                if !vector.is_null() {
                    // SAFETY: the C caller passes a vector whose parts came from `malloc`.
                    unsafe { Field::release(vector) }
                }
                0
            }
        };
    };
}

/// Frees a text that this module has allocated.
#[unsafe(no_mangle)]
unsafe extern "C" fn deallocate_String(text: *mut Text) {
    if !text.is_null() {
        // SAFETY: the C caller passes a pointer to a text from this module.
        unsafe { Field::release(text) }
    }
}

/// Frees the bytes of a buffer that this module has allocated.
#[unsafe(no_mangle)]
unsafe extern "C" fn deallocate_Buffer(buffer: *mut Buffer) {
    if !buffer.is_null() {
        // SAFETY: the C caller passes a buffer from this module.
        unsafe { Field::release(buffer) }
    }
}

jute!(Id { scheme: Text, id: Text });
jute!(ACL { perms: i32, id: Id });
jute!(Stat {
    czxid: i64,
    mzxid: i64,
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeralOwner: i64,
    dataLength: i32,
    numChildren: i32,
    pzxid: i64,
});
jute!(StatPersisted {
    czxid: i64,
    mzxid: i64,
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeralOwner: i64,
    pzxid: i64,
});
jute!(ClientInfo { authScheme: Text, user: Text });
jute!(ConnectRequest {
    protocolVersion: i32,
    lastZxidSeen: i64,
    timeOut: i32,
    sessionId: i64,
    passwd: Buffer,
});
jute!(ConnectResponse { protocolVersion: i32, timeOut: i32, sessionId: i64, passwd: Buffer });
vector!(String_vector: Text);
jute!(SetWatches {
    relativeZxid: i64,
    dataWatches: String_vector,
    existWatches: String_vector,
    childWatches: String_vector,
});
jute!(SetWatches2 {
    relativeZxid: i64,
    dataWatches: String_vector,
    existWatches: String_vector,
    childWatches: String_vector,
    persistentWatches: String_vector,
    persistentRecursiveWatches: String_vector,
});
jute!(RequestHeader { xid: i32, r#type: i32 });
jute!(MultiHeader { r#type: i32, done: Bool, err: i32 });
jute!(AuthPacket { r#type: i32, scheme: Text, auth: Buffer });
jute!(ReplyHeader { xid: i32, zxid: i64, err: i32 });
jute!(GetDataRequest { path: Text, watch: Bool });
jute!(SetDataRequest { path: Text, data: Buffer, version: i32 });
jute!(ReconfigRequest {
    joiningServers: Text,
    leavingServers: Text,
    newMembers: Text,
    curConfigId: i64,
});
jute!(SetDataResponse { stat: Stat });
jute!(GetSASLRequest { token: Buffer });
jute!(SetSASLRequest { token: Buffer });
jute!(SetSASLResponse { token: Buffer });
vector!(ACL_vector: ACL);
jute!(CreateRequest { path: Text, data: Buffer, acl: ACL_vector, flags: i32 });
jute!(CreateTTLRequest { path: Text, data: Buffer, acl: ACL_vector, flags: i32, ttl: i64 });
jute!(DeleteRequest { path: Text, version: i32 });
jute!(GetChildrenRequest { path: Text, watch: Bool });
jute!(GetAllChildrenNumberRequest { path: Text });
jute!(GetChildren2Request { path: Text, watch: Bool });
jute!(CheckVersionRequest { path: Text, version: i32 });
jute!(GetMaxChildrenRequest { path: Text });
jute!(GetMaxChildrenResponse { max: i32 });
jute!(SetMaxChildrenRequest { path: Text, max: i32 });
jute!(SyncRequest { path: Text });
jute!(SyncResponse { path: Text });
jute!(GetACLRequest { path: Text });
jute!(SetACLRequest { path: Text, acl: ACL_vector, version: i32 });
jute!(SetACLResponse { stat: Stat });
jute!(AddWatchRequest { path: Text, mode: i32 });
jute!(WatcherEvent { r#type: i32, state: i32, path: Text });
jute!(ErrorResponse { err: i32 });
jute!(CreateResponse { path: Text });
jute!(Create2Response { path: Text, stat: Stat });
jute!(ExistsRequest { path: Text, watch: Bool });
jute!(ExistsResponse { stat: Stat });
jute!(GetDataResponse { data: Buffer, stat: Stat });
jute!(GetChildrenResponse { children: String_vector });
jute!(GetAllChildrenNumberResponse { totalNumber: i32 });
jute!(GetChildren2Response { children: String_vector, stat: Stat });
jute!(GetACLResponse { acl: ACL_vector, stat: Stat });
jute!(CheckWatchesRequest { path: Text, r#type: i32 });
jute!(RemoveWatchesRequest { path: Text, r#type: i32 });
jute!(GetEphemeralsRequest { prefixPath: Text });
jute!(GetEphemeralsResponse { ephemerals: String_vector });
vector!(ClientInfo_vector: ClientInfo);
jute!(WhoAmIResponse { clientInfo: ClientInfo_vector });
jute!(LearnerInfo { serverid: i64, protocolVersion: i32, configVersion: i64 });
vector!(Id_vector: Id);
jute!(QuorumPacket { r#type: i32, zxid: i64, data: Buffer, authinfo: Id_vector });
jute!(QuorumAuthPacket { magic: i64, status: i32, token: Buffer });
jute!(FileHeader { magic: i32, version: i32, dbid: i64 });
jute!(TxnDigest { version: i32, treeDigest: i64 });
jute!(TxnHeader { clientId: i64, cxid: i32, zxid: i64, time: i64, r#type: i32 });
jute!(CreateTxnV0 { path: Text, data: Buffer, acl: ACL_vector, ephemeral: Bool });
jute!(CreateTxn {
    path: Text,
    data: Buffer,
    acl: ACL_vector,
    ephemeral: Bool,
    parentCVersion: i32,
});
jute!(CreateTTLTxn { path: Text, data: Buffer, acl: ACL_vector, parentCVersion: i32, ttl: i64 });
jute!(CreateContainerTxn { path: Text, data: Buffer, acl: ACL_vector, parentCVersion: i32 });
jute!(DeleteTxn { path: Text });
jute!(SetDataTxn { path: Text, data: Buffer, version: i32 });
jute!(CheckVersionTxn { path: Text, version: i32 });
jute!(SetACLTxn { path: Text, acl: ACL_vector, version: i32 });
jute!(SetMaxChildrenTxn { path: Text, max: i32 });
jute!(CreateSessionTxn { timeOut: i32 });
jute!(CloseSessionTxn { paths2Delete: String_vector });
jute!(ErrorTxn { err: i32 });
jute!(Txn { r#type: i32, data: Buffer });
vector!(Txn_vector: Txn);
jute!(MultiTxn { txns: Txn_vector });
