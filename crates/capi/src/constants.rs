//! The constants of `zookeeper.h`. They are variables, because programs were compiled against
//! variables.

#![allow(missing_docs, reason = "`include/zookeeper.h` documents them")]

use std::ffi::{c_char, c_int};

use crate::records::{ACL, ACL_vector, Id};

/// Exports constants of type `int`.
macro_rules! constants {
    ($($name:ident = $value:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub static $name: c_int = $value;
        )*
    };
}

constants! {
    ZOOKEEPER_WRITE = 1;
    ZOOKEEPER_READ = 2;

    ZOO_PERSISTENT = 0;
    ZOO_EPHEMERAL = 1;
    ZOO_PERSISTENT_SEQUENTIAL = 2;
    ZOO_EPHEMERAL_SEQUENTIAL = 3;
    ZOO_CONTAINER = 4;
    ZOO_PERSISTENT_WITH_TTL = 5;
    ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL = 6;
    ZOO_SEQUENCE = 2;

    ZOO_EXPIRED_SESSION_STATE = state::EXPIRED;
    ZOO_AUTH_FAILED_STATE = state::AUTH_FAILED;
    ZOO_CONNECTING_STATE = state::CONNECTING;
    ZOO_ASSOCIATING_STATE = state::ASSOCIATING;
    ZOO_CONNECTED_STATE = state::CONNECTED;
    ZOO_READONLY_STATE = state::READONLY;
    ZOO_SSL_CONNECTING_STATE = state::SSL_CONNECTING;
    ZOO_NOTCONNECTED_STATE = state::NOT_CONNECTED;

    ZOO_CREATED_EVENT = 1;
    ZOO_DELETED_EVENT = 2;
    ZOO_CHANGED_EVENT = 3;
    ZOO_CHILD_EVENT = 4;
    ZOO_SESSION_EVENT = event::SESSION;
    ZOO_NOTWATCHING_EVENT = -2;

    ZOO_PERM_READ = 1;
    ZOO_PERM_WRITE = 2;
    ZOO_PERM_CREATE = 4;
    ZOO_PERM_DELETE = 8;
    ZOO_PERM_ADMIN = 16;
    ZOO_PERM_ALL = 31;
}

/// The states of a handle. Negative ones are final.
pub(crate) mod state {
    use std::ffi::c_int;

    pub(crate) const EXPIRED: c_int = -112;
    pub(crate) const AUTH_FAILED: c_int = -113;
    /// A handle without a connection, as in the C client.
    pub(crate) const NOT_CONNECTED: c_int = 999;
    pub(crate) const CONNECTING: c_int = 1;
    pub(crate) const ASSOCIATING: c_int = 2;
    pub(crate) const CONNECTED: c_int = 3;
    pub(crate) const READONLY: c_int = 5;
    pub(crate) const SSL_CONNECTING: c_int = 7;
}

/// Event types that servers never send.
pub(crate) mod event {
    use std::ffi::c_int;

    pub(crate) const SESSION: c_int = -1;
}

/// A variable for constants. Programs may change it, as with the C client; this library never does.
#[repr(transparent)]
pub struct Variable<T>(T);

// SAFETY: this library never writes it. Programs in C are responsible for their own writes.
unsafe impl<T> Sync for Variable<T> {}

const fn id(scheme: &'static std::ffi::CStr, id: &'static std::ffi::CStr) -> Id {
    Id { scheme: scheme.as_ptr() as *mut c_char, id: id.as_ptr() as *mut c_char }
}

/// A vector of one element.
const fn one(acl: &'static Variable<[ACL; 1]>) -> ACL_vector {
    ACL_vector { count: 1, data: (&raw const acl.0) as *mut ACL }
}

static OPEN: Variable<[ACL; 1]> = Variable([ACL { perms: 31, id: id(c"world", c"anyone") }]);
static READ: Variable<[ACL; 1]> = Variable([ACL { perms: 1, id: id(c"world", c"anyone") }]);
static CREATOR: Variable<[ACL; 1]> = Variable([ACL { perms: 31, id: id(c"auth", c"") }]);

#[unsafe(no_mangle)]
pub static ZOO_ANYONE_ID_UNSAFE: Variable<Id> = Variable(id(c"world", c"anyone"));

#[unsafe(no_mangle)]
pub static ZOO_AUTH_IDS: Variable<Id> = Variable(id(c"auth", c""));

#[unsafe(no_mangle)]
pub static ZOO_OPEN_ACL_UNSAFE: Variable<ACL_vector> = Variable(one(&OPEN));

#[unsafe(no_mangle)]
pub static ZOO_READ_ACL_UNSAFE: Variable<ACL_vector> = Variable(one(&READ));

#[unsafe(no_mangle)]
pub static ZOO_CREATOR_ALL_ACL: Variable<ACL_vector> = Variable(one(&CREATOR));
