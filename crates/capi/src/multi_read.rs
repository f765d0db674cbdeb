//! Several reads in one request, which the C client does not have: their C structures, and their
//! results.

use std::borrow::Cow;
use std::ffi::{c_char, c_int};

use zebu_jute::{Decoder, Encode as _, Encoder};
use zebu_proto::OpCode;
use zebu_proto::answer::{MultiResult, multi_results};
use zebu_proto::request::{MultiHeader, MultiOp, PathWatch};
use zebu_session::Chroot;

use crate::callback::{length, stat_of};
use crate::errors;
use crate::memory;
use crate::records::{Stat, String_vector};
use crate::request::{self, Refused, bad};

/// `zebu_read_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Read {
    kind: c_int,
    path: *const c_char,
}

/// `zebu_read_result_t`.
#[repr(C)]
pub struct ReadResult {
    err: c_int,
    data: *mut c_char,
    length: c_int,
    stat: Stat,
    children: String_vector,
}

const NOTHING: ReadResult = ReadResult {
    err: errors::OK,
    data: std::ptr::null_mut(),
    length: -1,
    stat: Stat {
        czxid: 0,
        mzxid: 0,
        ctime: 0,
        mtime: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeralOwner: 0,
        dataLength: 0,
        numChildren: 0,
        pzxid: 0,
    },
    children: String_vector { count: 0, data: std::ptr::null_mut() },
};

/// Where to store the results of reads.
#[derive(Debug)]
pub(crate) struct Reads {
    pub(crate) results: *mut ReadResult,
    pub(crate) count: usize,
}

impl Reads {
    /// Stores the results, in memory that C frees. Returns the code of the whole: without an
    /// answer, each read has it, too.
    pub(crate) fn fill(&self, code: c_int, body: &[u8]) -> c_int {
        if self.count == 0 {
            return code;
        }
        // SAFETY: the program keeps `count` results until the function is called, and does not
        // access them.
        let places = unsafe { std::slice::from_raw_parts_mut(self.results, self.count) };
        let results = match code {
            errors::OK => multi_results(&mut Decoder::new(body)).ok(),
            _ => None,
        };
        let Some(results) = results.filter(|results| results.len() == places.len()) else {
            let code = if code == errors::OK { errors::MARSHALLING_ERROR } else { code };
            places.iter_mut().for_each(|place| place.err = code);
            return code;
        };
        for (place, result) in places.iter_mut().zip(results) {
            place.err = place.put(result);
        }
        code
    }
}

impl ReadResult {
    /// Stores the result of one read. Returns its code.
    fn put(&mut self, result: MultiResult<'_>) -> c_int {
        match result {
            MultiResult::Data(found) => {
                self.stat = stat_of(&found.stat);
                if let Some(data) = found.data {
                    self.data = memory::duplicate(data);
                    if self.data.is_null() {
                        return errors::SYSTEM_ERROR;
                    }
                    self.length = length(Some(data));
                }
            }
            MultiResult::Children(names) => {
                if !self.children.allocate(names.len() as i32) {
                    return errors::SYSTEM_ERROR;
                }
                for (at, name) in names.iter().enumerate() {
                    // SAFETY: this number of elements was allocated.
                    unsafe { self.children.data.add(at).write(memory::duplicate(name.as_bytes())) };
                }
            }
            MultiResult::Failed(err) => return err.0,
            _ => return errors::MARSHALLING_ERROR,
        }
        errors::OK
    }
}

/// Encodes the reads, and prepares their results.
///
/// # Safety
/// There are as many results as reads, and each path is null or a zero-terminated text.
pub(crate) unsafe fn encode(
    reads: &[Read],
    results: *mut ReadResult,
    chroot: &Chroot,
) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    for (at, read) in reads.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        let path = unsafe { request::path(read.path, chroot) }?;
        let asked = PathWatch { path: Some(Cow::Borrowed(&*path)), watch: false };
        let op = match OpCode(read.kind) {
            OpCode::GET_DATA => MultiOp::GetData(asked),
            OpCode::GET_CHILDREN => MultiOp::GetChildren(asked),
            other => return Err(bad(format!("read {at} has the type {}", other.0))),
        };
        op.encode(&mut Encoder::new(&mut bytes));
    }
    for at in 0..reads.len() {
        // SAFETY: there are as many results as reads.
        unsafe { results.add(at).write(NOTHING) };
    }
    MultiHeader::END.encode(&mut Encoder::new(&mut bytes));
    Ok(bytes)
}

/// Frees what the results of reads hold. They hold nothing afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn zebu_free_read_results(count: c_int, results: *mut ReadResult) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        if results.is_null() {
            return;
        }
        // SAFETY: the C caller passes `count` results that this module has filled.
        let result = unsafe { &mut *results.add(at) };
        // SAFETY: the parts come from `malloc`, and are freed once.
        unsafe {
            memory::free(result.data);
            for name in 0..usize::try_from(result.children.count).unwrap_or(0) {
                memory::free(*result.children.data.add(name));
            }
            memory::free(result.children.data);
        }
        *result = NOTHING;
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// An answer as the original's server 3.9.5 gives it: children, data, and a znode that is not
    /// there.
    #[test]
    fn an_answer_is_stored_and_freed() {
        let mut body = Vec::new();
        let mut out = Encoder::new(&mut body);
        for op in [OpCode::GET_CHILDREN, OpCode::ERROR] {
            out.int(op.0);
            out.boolean(false);
            out.int(if op == OpCode::ERROR { -101 } else { 0 });
            match op {
                OpCode::ERROR => out.int(-101),
                _ => {
                    out.int(2);
                    out.text("a");
                    out.text("bc");
                }
            }
        }
        MultiHeader::END.encode(&mut out);
        let mut results = [NOTHING, NOTHING];
        let reads = Reads { results: results.as_mut_ptr(), count: 2 };
        assert_eq!(reads.fill(errors::OK, &body), errors::OK);
        // SAFETY: the vector has two names.
        let second = unsafe { CStr::from_ptr(*results[0].children.data.add(1)) };
        assert_eq!((results[0].err, results[0].children.count), (0, 2));
        assert_eq!(second.to_bytes(), b"bc");
        assert_eq!((results[1].err, results[1].length), (-101, -1));
        // SAFETY: they were filled above.
        unsafe { zebu_free_read_results(2, results.as_mut_ptr()) };
        assert!(results[0].children.data.is_null());
        // An answer that ends early, and none at all.
        let cut = &body[..body.len() - 1];
        for (code, body, expected) in
            [(errors::OK, cut, errors::MARSHALLING_ERROR), (-4, &[][..], -4)]
        {
            assert_eq!(reads.fill(code, body), expected);
            assert_eq!(results.each_ref().map(|result| result.err), [expected; 2]);
            // SAFETY: they were filled above.
            unsafe { zebu_free_read_results(2, results.as_mut_ptr()) };
        }
    }
}
