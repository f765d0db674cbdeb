//! The functions and types of the libraries, as their headers declare them, and the loaded
//! libraries.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::calls;
use crate::error::Error;

/// `OM_uint32`.
pub(crate) type Uint = u32;

/// Handles of the library. Only the library knows their content.
pub(crate) type NamePointer = *mut c_void;
pub(crate) type CredPointer = *mut c_void;
pub(crate) type ContextPointer = *mut c_void;

/// `gss_buffer_desc`.
#[repr(C)]
pub(crate) struct Buffer {
    pub(crate) length: usize,
    pub(crate) value: *mut c_void,
}

/// `gss_OID_desc`.
#[repr(C)]
pub(crate) struct Oid {
    length: Uint,
    elements: *const c_void,
}

// SAFETY: the only values are the statics below, whose bytes are constant.
unsafe impl Sync for Oid {}

impl Oid {
    const fn new(bytes: &'static [u8]) -> Self {
        Self { length: bytes.len() as Uint, elements: bytes.as_ptr().cast() }
    }

    /// The pointer for the library. The library never writes there, although its types permit it.
    pub(crate) fn pointer(&'static self) -> *mut Oid {
        std::ptr::from_ref(self).cast_mut()
    }

    /// Whether the library's `other` is the same identifier.
    ///
    /// # Safety
    /// `other` is null or points to a valid value.
    pub(crate) unsafe fn is(&self, other: *const Oid) -> bool {
        // SAFETY: the caller's promise.
        let Some(other) = (unsafe { other.as_ref() }) else { return false };
        if other.length != self.length {
            return false;
        }
        // SAFETY: the value is a static, and valid.
        let own = unsafe { self.bytes() };
        // SAFETY: the caller's promise.
        let others = unsafe { other.bytes() };
        own == others
    }

    /// # Safety
    /// The value is valid.
    unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.elements.cast(), self.length as usize) }
    }
}

/// The mechanism Kerberos 5: 1.2.840.113554.1.2.2.
pub(crate) static KRB5: Oid = Oid::new(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2]);
/// `GSS_KRB5_NT_PRINCIPAL_NAME`: 1.2.840.113554.1.2.2.1.
pub(crate) static PRINCIPAL: Oid = Oid::new(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 1]);
/// `GSS_C_NT_HOSTBASED_SERVICE`: 1.2.840.113554.1.2.1.4.
pub(crate) static SERVICE: Oid = Oid::new(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 1, 4]);

/// `gss_OID_set_desc`.
#[repr(C)]
pub(crate) struct OidSet {
    pub(crate) count: usize,
    pub(crate) elements: *mut Oid,
}

/// `gss_key_value_element_desc`.
#[repr(C)]
pub(crate) struct KeyValue {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

/// `gss_key_value_set_desc`.
#[repr(C)]
pub(crate) struct KeyValues {
    pub(crate) count: Uint,
    pub(crate) elements: *const KeyValue,
}

/// `gss_cred_usage_t`.
pub(crate) const INITIATE: c_int = 1;
pub(crate) const ACCEPT: c_int = 2;

/// `GSS_C_INDEFINITE`.
pub(crate) const INDEFINITE: Uint = Uint::MAX;
/// `GSS_S_CONTINUE_NEEDED`.
pub(crate) const CONTINUE: Uint = 1;

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The used functions, each with its declaration.
        pub(crate) struct Api {
            $($name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl Api {
            /// Finds every function in one of the libraries.
            fn find(libraries: &[Library]) -> Result<Self, String> {
                $(
                    let $name = {
                        let symbol = concat!(stringify!($name), "\0").as_bytes();
                        let mut reason = String::new();
                        let found = libraries.iter().find_map(|library| {
                            // SAFETY: the declarations are those of the libraries' headers, which
                            // do not change within the version that the names of their files carry.
                            let found = unsafe {
                                library.get::<unsafe extern "C" fn($($type),*) -> $result>(symbol)
                            };
                            found.map(|symbol| *symbol).map_err(|error| reason = why(&error)).ok()
                        });
                        found.ok_or(reason)?
                    };
                )*
                Ok(Self { $($name,)* })
            }

            $(
                /// # Safety
                /// As the library's manual says.
                #[allow(clippy::too_many_arguments)] // The library's.
                pub(crate) unsafe fn $name(&self, $($argument: $type),*) -> $result {
                    // SAFETY: the caller's promise.
                    calls::call(|| unsafe { (self.$name)($($argument),*) })
                }
            )*
        }
    };
}

functions! {
    gss_acquire_cred_from(a: *mut Uint, b: NamePointer, c: Uint, d: *const OidSet, e: c_int, f: *const KeyValues, g: *mut CredPointer, h: *mut *mut OidSet, i: *mut Uint) -> Uint;
    gss_inquire_cred(a: *mut Uint, b: CredPointer, c: *mut NamePointer, d: *mut Uint, e: *mut c_int, f: *mut *mut OidSet) -> Uint;
    gss_release_cred(a: *mut Uint, b: *mut CredPointer) -> Uint;
    gss_import_name(a: *mut Uint, b: *const Buffer, c: *mut Oid, d: *mut NamePointer) -> Uint;
    gss_canonicalize_name(a: *mut Uint, b: NamePointer, c: *mut Oid, d: *mut NamePointer) -> Uint;
    gss_display_name(a: *mut Uint, b: NamePointer, c: *mut Buffer, d: *mut *mut Oid) -> Uint;
    gss_release_name(a: *mut Uint, b: *mut NamePointer) -> Uint;
    gss_init_sec_context(a: *mut Uint, b: CredPointer, c: *mut ContextPointer, d: NamePointer, e: *mut Oid, f: Uint, g: Uint, h: *const c_void, i: *const Buffer, j: *mut *mut Oid, k: *mut Buffer, l: *mut Uint, m: *mut Uint) -> Uint;
    gss_accept_sec_context(a: *mut Uint, b: *mut ContextPointer, c: CredPointer, d: *const Buffer, e: *const c_void, f: *mut NamePointer, g: *mut *mut Oid, h: *mut Buffer, i: *mut Uint, j: *mut Uint, k: *mut CredPointer) -> Uint;
    gss_delete_sec_context(a: *mut Uint, b: *mut ContextPointer, c: *mut Buffer) -> Uint;
    gss_wrap(a: *mut Uint, b: ContextPointer, c: c_int, d: Uint, e: *const Buffer, f: *mut c_int, g: *mut Buffer) -> Uint;
    gss_unwrap(a: *mut Uint, b: ContextPointer, c: *const Buffer, d: *mut Buffer, e: *mut c_int, f: *mut Uint) -> Uint;
    gss_display_status(a: *mut Uint, b: Uint, c: c_int, d: *mut Oid, e: *mut Uint, f: *mut Buffer) -> Uint;
    gss_release_buffer(a: *mut Uint, b: *mut Buffer) -> Uint;
    krb5_init_context(a: *mut *mut c_void) -> i32;
    krb5_free_context(a: *mut c_void) -> ();
    krb5_cc_resolve(a: *mut c_void, b: *const c_char, c: *mut *mut c_void) -> i32;
    krb5_cc_destroy(a: *mut c_void, b: *mut c_void) -> i32;
}

/// The files of the libraries. The second one is in the package of the first, and is loaded with
/// it.
const FILES: [&str; 2] = ["libgssapi_krb5.so.2", "libkrb5.so.3"];

/// The functions. The first call loads the libraries, which stay loaded until the process ends.
pub(crate) fn loaded() -> Result<&'static Api, Error> {
    static API: OnceLock<Result<Api, Error>> = OnceLock::new();
    API.get_or_init(|| load(FILES)).as_ref().map_err(Clone::clone)
}

/// The system's message, without the prefix of `libloading`.
fn why(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The functions of these libraries.
pub(crate) fn load(files: [&'static str; 2]) -> Result<Api, Error> {
    let missing = |library, reason| Error::Missing { library, reason };
    let mut libraries = Vec::new();
    for file in files {
        // SAFETY: the initialization of these libraries makes locks and tables of their own and
        // needs nothing of this process.
        let library = unsafe { Library::new(file) };
        libraries.push(library.map_err(|error| missing(file, why(&error)))?);
    }
    let api = Api::find(&libraries).map_err(|reason| missing(files[0], reason))?;
    calls::end_with_the_process();
    // The libraries are never unloaded, so the functions above stay valid, and so does the state
    // that the libraries keep for each thread.
    std::mem::forget(libraries);
    Ok(api)
}
