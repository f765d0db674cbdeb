//! Calls the program's functions with answers and events, decoded into C structures that live as
//! long as the call.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use zebu_jute::{Decode as _, DecodeError, Decoder};
use zebu_session::Chroot;

use crate::errors;
use crate::handle::Handle;
use crate::memory;
use crate::multi::Multi;
use crate::multi_read::Reads;
use crate::records::{ACL, ACL_vector, Id, Stat, String_vector};
use crate::watchers::Watcher;

pub(crate) type VoidFn = unsafe extern "C" fn(c_int, *const c_void);
pub(crate) type StatFn = unsafe extern "C" fn(c_int, *const Stat, *const c_void);
pub(crate) type DataFn =
    unsafe extern "C" fn(c_int, *const c_char, c_int, *const Stat, *const c_void);
pub(crate) type StringsFn = unsafe extern "C" fn(c_int, *const String_vector, *const c_void);
pub(crate) type StringsStatFn =
    unsafe extern "C" fn(c_int, *const String_vector, *const Stat, *const c_void);
pub(crate) type StringFn = unsafe extern "C" fn(c_int, *const c_char, *const c_void);
pub(crate) type StringStatFn =
    unsafe extern "C" fn(c_int, *const c_char, *const Stat, *const c_void);
pub(crate) type AclFn = unsafe extern "C" fn(c_int, *mut ACL_vector, *mut Stat, *const c_void);

/// The program's function for an answer. Its type determines how the answer is decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Void(VoidFn),
    Stat(StatFn),
    Data(DataFn),
    Strings(StringsFn),
    StringsStat(StringsStatFn),
    String(StringFn),
    StringStat(StringStatFn),
    Acl(AclFn),
}

/// A function of the program and its `data` argument.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) function: Function,
    pub(crate) data: *const c_void,
    /// Where to store the results of several operations before the function is called.
    pub(crate) results: Option<Results>,
}

/// Where to store the results of several operations.
#[derive(Debug)]
pub(crate) enum Results {
    Multi(Multi),
    Reads(Reads),
}

impl Results {
    /// Stores the results. Returns the code of the whole.
    fn fill(&self, code: c_int, body: &[u8], chroot: &Chroot) -> c_int {
        match self {
            Self::Multi(multi) => multi.fill(code, body, chroot),
            Self::Reads(reads) => reads.fill(code, body),
        }
    }
}

// SAFETY: this library never reads behind `data`. The C client's contract lets it use `data` on
// another thread.
unsafe impl Send for Completion {}

/// The receiver of an answer.
#[derive(Debug)]
pub(crate) enum Waiter {
    Nobody,
    Completion(Completion),
    /// A thread of the program that waits in a synchronous function.
    Call(Arc<Call>),
}

impl Waiter {
    /// A receiver that calls the program's function, if there is one.
    pub(crate) fn of(function: Option<Function>, data: *const c_void) -> Self {
        match function {
            Some(function) => Self::Completion(Completion { function, data, results: None }),
            None => Self::Nobody,
        }
    }

    pub(crate) fn answer(self, code: c_int, body: Bytes, ready: &mut Vec<Callback>) {
        match self {
            Self::Nobody => {}
            Self::Completion(completion) => ready.push(Callback::Done { completion, code, body }),
            Self::Call(call) => call.answer(code, body),
        }
    }
}

/// A synchronous call that waits for its answer.
#[derive(Debug, Default)]
pub(crate) struct Call {
    answer: Mutex<Option<(c_int, Bytes)>>,
    is_answered: Condvar,
}

impl Call {
    fn answer(&self, code: c_int, body: Bytes) {
        *self.answer.lock() = Some((code, body));
        self.is_answered.notify_one();
    }

    /// Waits for the answer.
    pub(crate) fn wait(&self) -> (c_int, Bytes) {
        let mut answer = self.answer.lock();
        loop {
            match answer.take() {
                Some(answer) => return answer,
                None => self.is_answered.wait(&mut answer),
            }
        }
    }
}

/// A call of one of the program's functions, with its arguments.
#[derive(Debug)]
pub(crate) enum Callback {
    Event { watcher: Watcher, kind: c_int, state: c_int, path: CString },
    Done { completion: Completion, code: c_int, body: Bytes },
}

impl Callback {
    /// Makes the call. The caller must hold no lock.
    pub(crate) fn run(self, handle: &Handle) {
        match self {
            Self::Event { watcher: Watcher { call, context }, kind, state, path } => {
                // SAFETY: the program gave this function for such calls; the path lives as long as
                // the call.
                unsafe { call(std::ptr::from_ref(handle), kind, state, path.as_ptr(), context) }
            }
            Self::Done { completion, code, body } => completion.run(code, &body, handle.chroot()),
        }
    }
}

impl Completion {
    fn run(self, code: c_int, body: &[u8], chroot: &Chroot) {
        let Self { function, data, results } = self;
        let code = results.map_or(code, |results| results.fill(code, body, chroot));
        let is_ok = code == errors::OK;
        let failed = if is_ok { errors::MARSHALLING_ERROR } else { code };
        // An answer that cannot be decoded is reported as a failure.
        // SAFETY (for every call below): the program gave this function for such calls, and the
        // arguments live as long as the call.
        match function {
            // SAFETY: see above.
            Function::Void(call) => unsafe { call(code, data) },
            Function::Stat(call) => match is_ok.then(|| stat(body)) {
                // SAFETY: see above.
                Some(Ok(stat)) => unsafe { call(code, &stat, data) },
                // SAFETY: see above.
                _ => unsafe { call(failed, null(), data) },
            },
            Function::Data(call) => match is_ok.then(|| data_stat(body)) {
                Some(Ok((bytes, stat))) => {
                    let pointer = bytes.map_or(null(), <[u8]>::as_ptr);
                    // SAFETY: see above.
                    unsafe { call(code, pointer.cast(), length(bytes), &stat, data) }
                }
                // SAFETY: see above.
                _ => unsafe { call(failed, null(), 0, null(), data) },
            },
            Function::Strings(call) => match is_ok.then(|| Names::decode(body)) {
                // SAFETY: see above.
                Some(Ok((names, _))) => unsafe { call(code, &names.vector(), data) },
                // SAFETY: see above.
                _ => unsafe { call(failed, null(), data) },
            },
            Function::StringsStat(call) => {
                let decoded =
                    is_ok.then(|| Names::decode(body).and_then(|(n, s)| Ok((n, stat(s)?))));
                match decoded {
                    // SAFETY: see above.
                    Some(Ok((names, stat))) => unsafe { call(code, &names.vector(), &stat, data) },
                    // SAFETY: see above.
                    _ => unsafe { call(failed, null(), null(), data) },
                }
            }
            Function::String(call) => match is_ok.then(|| path(body, chroot)) {
                // SAFETY: see above.
                Some(Ok((path, _))) => unsafe { call(code, path.as_ptr(), data) },
                // SAFETY: see above.
                _ => unsafe { call(failed, null(), data) },
            },
            Function::StringStat(call) => {
                let decoded =
                    is_ok.then(|| path(body, chroot).and_then(|(p, s)| Ok((p, stat(s)?))));
                match decoded {
                    // SAFETY: see above.
                    Some(Ok((path, stat))) => unsafe { call(code, path.as_ptr(), &stat, data) },
                    // SAFETY: see above.
                    _ => unsafe { call(failed, null(), null(), data) },
                }
            }
            Function::Acl(call) => match is_ok.then(|| Acls::decode(body)) {
                Some(Ok((mut acls, mut stat))) => {
                    // SAFETY: see above.
                    unsafe { call(code, &mut acls.vector(), &mut stat, data) }
                }
                // SAFETY: see above.
                _ => unsafe { call(failed, std::ptr::null_mut(), std::ptr::null_mut(), data) },
            },
        }
    }
}

/// The length of bytes in C's form: −1 for null.
pub(crate) fn length(bytes: Option<&[u8]>) -> c_int {
    bytes.map_or(-1, |bytes| bytes.len() as c_int)
}

/// Converts a stat to C's structure.
pub(crate) fn stat_of(stat: &zebu_proto::Stat) -> Stat {
    Stat {
        czxid: stat.czxid.0,
        mzxid: stat.mzxid.0,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeralOwner: stat.ephemeral_owner,
        dataLength: stat.data_length,
        numChildren: stat.num_children,
        pzxid: stat.pzxid.0,
    }
}

pub(crate) fn stat(body: &[u8]) -> Result<Stat, DecodeError> {
    zebu_proto::Stat::from_bytes(body).map(|stat| stat_of(&stat))
}

pub(crate) fn data_stat(body: &[u8]) -> Result<(Option<&[u8]>, Stat), DecodeError> {
    let mut from = Decoder::new(body);
    let bytes = from.buffer()?;
    Ok((bytes, stat(from.rest())?))
}

/// Converts a server's path to the program's path.
pub(crate) fn relative(path: &[u8], chroot: &Chroot) -> CString {
    let path = String::from_utf8_lossy(path);
    CString::new(chroot.relative(&path)).unwrap_or_default()
}

/// Decodes a path. Returns it with the bytes after it.
pub(crate) fn path<'a>(
    body: &'a [u8],
    chroot: &Chroot,
) -> Result<(CString, &'a [u8]), DecodeError> {
    let mut from = Decoder::new(body);
    let path = from.buffer()?.unwrap_or_default();
    Ok((relative(path, chroot), from.rest()))
}

/// Names of children, each with a zero at its end.
pub(crate) struct Names {
    text: Vec<u8>,
    /// The position of each name.
    starts: Vec<usize>,
    pointers: Vec<*mut c_char>,
}

impl Names {
    /// Decodes names. Returns them with the bytes after them.
    pub(crate) fn decode(body: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let mut from = Decoder::new(body);
        // Each name needs at least four bytes, so a larger count is invalid and must not reserve
        // memory.
        let count = usize::try_from(from.int()?).unwrap_or(0).min(body.len() / 4);
        let mut text = Vec::with_capacity(body.len());
        let mut starts = Vec::with_capacity(count);
        for _ in 0..count {
            starts.push(text.len());
            text.extend_from_slice(from.buffer()?.unwrap_or_default());
            text.push(0);
        }
        let pointers = starts.iter().map(|start| text[*start..].as_ptr().cast_mut().cast());
        let pointers = pointers.collect();
        Ok((Self { text, starts, pointers }, from.rest()))
    }

    /// The names as a C vector. It is valid while `self` lives.
    fn vector(&self) -> String_vector {
        let data = match self.pointers.is_empty() {
            true => std::ptr::null_mut(),
            false => self.pointers.as_ptr().cast_mut(),
        };
        String_vector { count: self.pointers.len() as i32, data }
    }

    /// A copy that C frees; `None` if there is not enough memory.
    pub(crate) fn copy(&self) -> Option<String_vector> {
        let mut copy = String_vector { count: 0, data: std::ptr::null_mut() };
        if !copy.allocate(self.starts.len() as i32) {
            return None;
        }
        let ends = self.starts.iter().skip(1).copied().chain([self.text.len()]);
        for (at, (start, end)) in self.starts.iter().zip(ends).enumerate() {
            let name = memory::duplicate(&self.text[*start..end - 1]);
            // SAFETY: this number of elements was allocated.
            unsafe { copy.data.add(at).write(name) };
        }
        Some(copy)
    }
}

/// The entries of an ACL.
pub(crate) struct Acls {
    texts: Vec<(i32, CString, CString)>,
    entries: Vec<ACL>,
}

impl Acls {
    pub(crate) fn decode(body: &[u8]) -> Result<(Self, Stat), DecodeError> {
        let mut from = Decoder::new(body);
        // Each entry needs at least twelve bytes, so a larger count is invalid and must not reserve
        // memory.
        let count = usize::try_from(from.int()?).unwrap_or(0).min(body.len() / 12);
        let mut texts = Vec::with_capacity(count);
        let text =
            |bytes: Option<&[u8]>| CString::new(bytes.unwrap_or_default()).unwrap_or_default();
        for _ in 0..count {
            texts.push((from.int()?, text(from.buffer()?), text(from.buffer()?)));
        }
        let entry = |(perms, scheme, id): &(i32, CString, CString)| ACL {
            perms: *perms,
            id: Id { scheme: scheme.as_ptr().cast_mut(), id: id.as_ptr().cast_mut() },
        };
        let entries = texts.iter().map(entry).collect();
        Ok((Self { texts, entries }, stat(from.rest())?))
    }

    /// The entries as a C vector. It is valid while `self` lives.
    fn vector(&mut self) -> ACL_vector {
        ACL_vector { count: self.entries.len() as i32, data: self.entries.as_mut_ptr() }
    }

    /// A copy that C frees; `None` if there is not enough memory.
    pub(crate) fn copy(&self) -> Option<ACL_vector> {
        let mut copy = ACL_vector { count: 0, data: std::ptr::null_mut() };
        if !copy.allocate(self.texts.len() as i32) {
            return None;
        }
        for (at, (perms, scheme, id)) in self.texts.iter().enumerate() {
            let id = Id {
                scheme: memory::duplicate(scheme.to_bytes()),
                id: memory::duplicate(id.to_bytes()),
            };
            // SAFETY: this number of elements was allocated.
            unsafe { copy.data.add(at).write(ACL { perms: *perms, id }) };
        }
        Some(copy)
    }
}
