//! Handles over TLS and with SASL, and the functions for SASL that programs need not write
//! themselves.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::fs::File;
use std::io::Read as _;

use super::opening::Opening;
use crate::handle::{ClientId, Handle};
use crate::log;
use crate::memory;
use crate::sasl::{RealmFn, SaslCallback, SaslParams, SaslSecret, SecretFn, TextFn, ask, code};
use crate::watchers::WatcherFn;

/// Maximum length of a password from a file or from the function of a program, as in the C client.
const PASSWORD_BYTES_MAX: usize = 1023;

/// Creates a handle that connects over TLS.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_init_ssl(
    host: *const c_char,
    certificates: *const c_char,
    watcher: Option<WatcherFn>,
    timeout_ms: c_int,
    id: *const ClientId,
    context: *mut c_void,
    flags: c_int,
) -> *const Handle {
    let opening = Opening::new(host, watcher, timeout_ms, id, context, flags);
    // SAFETY: the C caller passes what `zookeeper.h` says.
    unsafe { opening.with_tls(certificates).open() }
}

/// Creates a handle that authenticates with SASL, unless `params` is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn zookeeper_init_sasl(
    host: *const c_char,
    watcher: Option<WatcherFn>,
    timeout_ms: c_int,
    id: *const ClientId,
    context: *mut c_void,
    flags: c_int,
    callback: log::Callback,
    params: *const SaslParams,
) -> *const Handle {
    let opening = Opening::new(host, watcher, timeout_ms, id, context, flags);
    // SAFETY: the C caller passes what `zookeeper.h` says.
    unsafe { opening.with_log(callback).with_sasl(params).open() }
}

/// Turns the content of a password file into the password.
type PasswordFn = unsafe extern "C" fn(
    *const c_char,
    usize,
    *mut c_void,
    *mut c_char,
    usize,
    *mut usize,
) -> c_int;

/// `zoo_sasl_password_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Password {
    file: *const c_char,
    context: *mut c_void,
    function: Option<PasswordFn>,
}

/// The functions, and behind them what they answer. C frees all of it with one `free`.
#[repr(C)]
struct Canned {
    functions: [SaslCallback; 5],
    password: Password,
    /// Of the password that was asked for last.
    length: c_ulong,
    /// Directly behind `length`, as in `SaslSecret`; with a zero at the end.
    bytes: [u8; PASSWORD_BYTES_MAX + 1],
}

/// Functions that answer with a user, a realm, and the first line of a file.
#[unsafe(no_mangle)]
unsafe extern "C" fn zoo_sasl_make_basic_callbacks(
    user: *const c_char,
    realm: *const c_char,
    file: *const c_char,
) -> *mut SaslCallback {
    let password = Password { file, context: std::ptr::null_mut(), function: None };
    // SAFETY: the C caller passes texts, or null.
    unsafe { canned([user, realm], &password) }
}

/// Functions that answer with a user, a realm, and a password that is made as `password` says. Null
/// if there is not enough memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn zoo_sasl_make_password_callbacks(
    user: *const c_char,
    realm: *const c_char,
    password: *const Password,
) -> *mut SaslCallback {
    let none = Password { file: std::ptr::null(), context: std::ptr::null_mut(), function: None };
    // SAFETY: the C caller passes texts and a description, or null.
    unsafe { canned([user, realm], password.as_ref().unwrap_or(&none)) }
}

/// Allocates the functions that answer with a user, a realm and a password.
///
/// # Safety
/// The pointers are null, or point to texts.
unsafe fn canned([user, realm]: [*const c_char; 2], password: &Password) -> *mut SaslCallback {
    // SAFETY: guaranteed by the caller.
    let texts = [user, realm, password.file].map(|text| unsafe { memory::text(text) });
    let length = |text: &Option<&CStr>| text.map_or(0, |text| text.to_bytes_with_nul().len());
    let whole = size_of::<Canned>() + texts.iter().map(length).sum::<usize>();
    let start = memory::array::<u8>(whole);
    if start.is_null() {
        return std::ptr::null_mut();
    }
    let mut end = size_of::<Canned>();
    let [user, realm, file] = texts.map(|text| {
        let Some(text) = text.map(CStr::to_bytes_with_nul) else { return std::ptr::null_mut() };
        // SAFETY: the allocation has room for the texts behind `Canned`.
        let copy = unsafe {
            let copy = start.add(end);
            std::ptr::copy_nonoverlapping(text.as_ptr(), copy, text.len());
            copy
        };
        end += text.len();
        copy.cast::<c_void>()
    });
    // Memory from `calloc` is aligned for every type.
    #[allow(clippy::cast_ptr_alignment, reason = "it is from calloc")]
    let canned = start.cast::<Canned>();
    let password = Password { file: file.cast(), ..*password };
    let entry = |id, function, context| SaslCallback { id, function, context };
    // SAFETY: callers cast the functions back to their own types, which the ids name.
    let (text_fn, realm_fn, secret_fn) = unsafe {
        (
            std::mem::transmute::<TextFn, unsafe extern "C" fn() -> c_int>(canned_text),
            std::mem::transmute::<RealmFn, unsafe extern "C" fn() -> c_int>(canned_realm),
            std::mem::transmute::<SecretFn, unsafe extern "C" fn() -> c_int>(canned_secret),
        )
    };
    let functions = [
        entry(ask::REALM, Some(realm_fn), realm),
        entry(ask::USER, Some(text_fn), user),
        entry(ask::AUTHENTICATION_NAME, Some(text_fn), user),
        entry(ask::PASSWORD, Some(secret_fn), canned.cast()),
        entry(ask::END, None, std::ptr::null_mut()),
    ];
    // SAFETY: the allocation has room for it, and nobody else knows it yet.
    unsafe {
        (&raw mut (*canned).functions).write(functions);
        (&raw mut (*canned).password).write(password);
    }
    canned.cast()
}

/// Answers with the text that is the context.
unsafe extern "C" fn canned_text(
    context: *mut c_void,
    id: c_int,
    result: *mut *const c_char,
    length: *mut c_uint,
) -> c_int {
    if result.is_null() || ![ask::USER, ask::AUTHENTICATION_NAME].contains(&(id as c_ulong)) {
        return code::BAD_PARAMETER;
    }
    // SAFETY: the context is a text of `Canned`, or null; the caller passes room for the answer.
    unsafe {
        result.write(context.cast());
        let text = memory::text(context.cast());
        let count = text.map_or(0, |text| text.count_bytes());
        memory::put(length, c_uint::try_from(count).unwrap_or(c_uint::MAX));
    }
    code::OK
}

/// Answers with the realm that is the context.
unsafe extern "C" fn canned_realm(
    context: *mut c_void,
    _id: c_int,
    _offered: *mut *const c_char,
    result: *mut *const c_char,
) -> c_int {
    if result.is_null() {
        return code::BAD_PARAMETER;
    }
    // SAFETY: the caller passes room for the answer.
    unsafe { result.write(context.cast()) };
    code::OK
}

unsafe extern "C" {
    /// Asks for a password at the terminal.
    fn getpass(prompt: *const c_char) -> *mut c_char;
}

/// Answers with a password; the context is a `Canned`.
unsafe extern "C" fn canned_secret(
    connection: *mut c_void,
    context: *mut c_void,
    id: c_int,
    result: *mut *mut SaslSecret,
) -> c_int {
    if connection.is_null()
        || context.is_null()
        || result.is_null()
        || id as c_ulong != ask::PASSWORD
    {
        return code::BAD_PARAMETER;
    }
    // SAFETY: the context is a `Canned`, which only the one exchange of a handle uses at a time.
    let canned = unsafe { &mut *context.cast::<Canned>() };
    match canned.settle() {
        Ok(length) => {
            canned.length = length as c_ulong;
            // SAFETY: the caller passes room for the answer; length and bytes are laid out as
            // `SaslSecret`.
            unsafe { result.write((&raw mut canned.length).cast()) };
            code::OK
        }
        Err(code) => code,
    }
}

impl Canned {
    /// Writes the password into `bytes`. Returns its length.
    fn settle(&mut self) -> Result<usize, c_int> {
        // SAFETY: the file is a text of this allocation, or null.
        let file = unsafe { memory::text(self.password.file) };
        let mut content = [0; PASSWORD_BYTES_MAX];
        let count = match file {
            Some(file) => {
                use std::os::unix::ffi::OsStrExt as _;
                let file = std::ffi::OsStr::from_bytes(file.to_bytes());
                let file = File::open(file).map_err(|_| code::FAIL)?;
                let mut read = Vec::new();
                file.take(PASSWORD_BYTES_MAX as u64)
                    .read_to_end(&mut read)
                    .map_err(|_| code::FAIL)?;
                content[..read.len()].copy_from_slice(&read);
                read.len()
            }
            None => 0,
        };
        self.bytes = [0; PASSWORD_BYTES_MAX + 1];
        let ends = |bytes: &[u8], end: u8| bytes.iter().position(|byte| *byte == end);
        let length = match (self.password.function, file) {
            (Some(_), None) => return Err(code::BAD_PARAMETER),
            (Some(function), Some(_)) => {
                let mut length = 0;
                // SAFETY: the program's function takes these bytes, and writes no more than there
                // is room for.
                let code = unsafe {
                    function(
                        content.as_ptr().cast(),
                        count,
                        self.password.context,
                        self.bytes.as_mut_ptr().cast(),
                        PASSWORD_BYTES_MAX,
                        &raw mut length,
                    )
                };
                match code {
                    code::OK if length > PASSWORD_BYTES_MAX => return Err(code::BUFFER_OVERFLOW),
                    code::OK => length,
                    code => return Err(code),
                }
            }
            (None, Some(_)) => {
                let line = &content[..count];
                let line = &line[..ends(line, b'\n').unwrap_or(count)];
                self.bytes[..line.len()].copy_from_slice(line);
                line.len()
            }
            (None, None) => {
                // SAFETY: it takes a text, and gives a text that lives until the next call, or
                // null.
                let typed = unsafe { memory::text(getpass(c"Password: ".as_ptr())) };
                let typed = typed.ok_or(code::FAIL)?.to_bytes();
                let length = typed.len().min(PASSWORD_BYTES_MAX);
                self.bytes[..length].copy_from_slice(&typed[..length]);
                length
            }
        };
        // A password is a text: it ends at a zero.
        Ok(ends(&self.bytes[..length], 0).unwrap_or(length))
    }
}
