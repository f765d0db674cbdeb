//! Operations of a multi: their C structures, and their results.

use std::ffi::{c_char, c_int};

use zebu_jute::{Decoder, Encoder};
use zebu_proto::OpCode;
use zebu_proto::answer::{MultiResult, multi_results};
use zebu_session::Chroot;

use crate::callback::{relative, stat_of};
use crate::errors;
use crate::memory;
use crate::records::{ACL_vector, Stat};
use crate::request::{self, Create, Refused};

/// `zoo_op_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Op {
    kind: c_int,
    of: Of,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Of {
    create: CreateOp,
    delete: PathVersion,
    set: SetOp,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CreateOp {
    path: *const c_char,
    data: *const c_char,
    length: c_int,
    buffer: *mut c_char,
    buffer_length: c_int,
    acl: *const ACL_vector,
    flags: c_int,
    ttl: i64,
}

/// The operands of a deletion and of a check.
#[repr(C)]
#[derive(Clone, Copy)]
struct PathVersion {
    path: *const c_char,
    version: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct SetOp {
    path: *const c_char,
    data: *const c_char,
    length: c_int,
    version: c_int,
    stat: *mut Stat,
}

/// `zoo_op_result_t`.
#[repr(C)]
pub struct OpResult {
    err: c_int,
    value: *mut c_char,
    value_length: c_int,
    stat: *mut Stat,
}

/// Where to store the results of a multi.
#[derive(Debug)]
pub(crate) struct Multi {
    pub(crate) results: *mut OpResult,
    pub(crate) count: usize,
}

impl Multi {
    /// Stores the results. Returns the code of the multi.
    ///
    /// An operation that was undone has the code 0, and one that was not tried has −2. Without an
    /// answer, each operation has the code of the multi.
    pub(crate) fn fill(&self, code: c_int, body: &[u8], chroot: &Chroot) -> c_int {
        if self.count == 0 {
            return code;
        }
        // SAFETY: the program keeps `count` results until the function is called, and does not
        // access them.
        let places = unsafe { std::slice::from_raw_parts_mut(self.results, self.count) };
        let results = match body.is_empty() {
            true => Ok(Vec::new()),
            false => multi_results(&mut Decoder::new(body)),
        };
        let results = match results {
            Ok(results) if results.len() == places.len() => results,
            _ => {
                let code = if code == errors::OK { errors::MARSHALLING_ERROR } else { code };
                places.iter_mut().for_each(|place| place.err = code);
                return code;
            }
        };
        let mut whole = code;
        for (place, result) in places.iter_mut().zip(results) {
            place.err = errors::OK;
            match result {
                MultiResult::Created { path, stat } => {
                    place.put_stat(stat.as_ref());
                    let path = relative(path.as_bytes(), chroot);
                    // SAFETY: the program's buffer has as many bytes as it said.
                    place.value_length = unsafe {
                        memory::put_text(place.value, place.value_length, path.to_bytes())
                    };
                }
                MultiResult::DataSet(stat) => place.put_stat(Some(&stat)),
                MultiResult::Failed(err) => {
                    place.err = err.0;
                    if whole == errors::OK && !matches!(err.0, errors::OK | -2) {
                        whole = err.0;
                    }
                }
                MultiResult::Deleted
                | MultiResult::Checked
                | MultiResult::Data(_)
                | MultiResult::Children(_) => {}
            }
        }
        whole
    }
}

impl OpResult {
    fn put_stat(&mut self, stat: Option<&zebu_proto::Stat>) {
        if let Some(stat) = stat {
            // SAFETY: the program's place for a stat may be written, or is null.
            unsafe { memory::put(self.stat, stat_of(stat)) };
        }
    }
}

/// Encodes the operations of a multi, and prepares their results.
///
/// # Safety
/// The operations come from the functions below, and there are as many results.
pub(crate) unsafe fn encode(
    ops: &[Op],
    results: *mut OpResult,
    chroot: &Chroot,
) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        let mut result = OpResult {
            err: errors::OK,
            value: std::ptr::null_mut(),
            value_length: 0,
            stat: std::ptr::null_mut(),
        };
        let mut out = Encoder::new(&mut bytes);
        out.int(op.kind);
        out.boolean(false);
        out.int(-1);
        match OpCode(op.kind) {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                // SAFETY: the kind says which part of the union it is.
                let create = unsafe { op.of.create };
                // SAFETY: guaranteed by the caller.
                let checked = unsafe {
                    Create::new(
                        chroot,
                        create.path,
                        create.data,
                        create.length,
                        create.acl,
                        create.flags,
                        create.ttl,
                    )?
                };
                // SAFETY: the ACL is as `zookeeper.h` demands.
                unsafe { checked.encode(OpCode(op.kind), &mut out) };
                (result.value, result.value_length) = (create.buffer, create.buffer_length);
            }
            OpCode::DELETE | OpCode::CHECK => {
                // SAFETY: the kind says which part of the union it is; both have the same.
                let PathVersion { path, version } = unsafe { op.of.delete };
                // SAFETY: guaranteed by the caller.
                out.text(&unsafe { request::path(path, chroot)? });
                out.int(version);
            }
            OpCode::SET_DATA => {
                // SAFETY: the kind says which part of the union it is.
                let set = unsafe { op.of.set };
                // SAFETY: guaranteed by the caller.
                let (path, data) = unsafe {
                    (request::path(set.path, chroot)?, request::data(set.data, set.length)?)
                };
                out.text(&path);
                out.buffer(data);
                out.int(set.version);
                result.stat = set.stat;
            }
            other => {
                return Err(Refused(
                    errors::UNIMPLEMENTED,
                    format!("operation {at} of a multi has the type {}", other.0),
                ));
            }
        }
        // SAFETY: there are as many results as operations.
        unsafe { results.add(at).write(result) };
    }
    let mut out = Encoder::new(&mut bytes);
    out.int(-1);
    out.boolean(true);
    out.int(-1);
    Ok(bytes)
}

fn init(op: *mut Op, kind: OpCode, of: Of) {
    // SAFETY: the C caller passes room for an operation, or null.
    unsafe { memory::put(op, Op { kind: kind.0, of }) }
}

#[allow(clippy::too_many_arguments, reason = "as `zookeeper.h` has them")]
fn init_create(
    op: *mut Op,
    kind: OpCode,
    path: *const c_char,
    data: *const c_char,
    length: c_int,
    acl: *const ACL_vector,
    flags: c_int,
    buffer: *mut c_char,
    buffer_length: c_int,
) {
    let create = CreateOp { path, data, length, buffer, buffer_length, acl, flags, ttl: -1 };
    init(op, request::create_op(flags, kind), Of { create });
}

/// Prepares a create for a multi.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as `zookeeper.h` has them")]
extern "C" fn zoo_create_op_init(
    op: *mut Op,
    path: *const c_char,
    data: *const c_char,
    length: c_int,
    acl: *const ACL_vector,
    flags: c_int,
    buffer: *mut c_char,
    buffer_length: c_int,
) {
    init_create(op, OpCode::CREATE, path, data, length, acl, flags, buffer, buffer_length);
}

/// Prepares a create for a multi whose result has a stat.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as `zookeeper.h` has them")]
extern "C" fn zoo_create2_op_init(
    op: *mut Op,
    path: *const c_char,
    data: *const c_char,
    length: c_int,
    acl: *const ACL_vector,
    flags: c_int,
    buffer: *mut c_char,
    buffer_length: c_int,
) {
    init_create(op, OpCode::CREATE2, path, data, length, acl, flags, buffer, buffer_length);
}

/// Prepares a deletion for a multi.
#[unsafe(no_mangle)]
extern "C" fn zoo_delete_op_init(op: *mut Op, path: *const c_char, version: c_int) {
    init(op, OpCode::DELETE, Of { delete: PathVersion { path, version } });
}

/// Prepares new data for a multi.
#[unsafe(no_mangle)]
extern "C" fn zoo_set_op_init(
    op: *mut Op,
    path: *const c_char,
    data: *const c_char,
    length: c_int,
    version: c_int,
    stat: *mut Stat,
) {
    init(op, OpCode::SET_DATA, Of { set: SetOp { path, data, length, version, stat } });
}

/// Prepares a version check for a multi.
#[unsafe(no_mangle)]
extern "C" fn zoo_check_op_init(op: *mut Op, path: *const c_char, version: c_int) {
    init(op, OpCode::CHECK, Of { delete: PathVersion { path, version } });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_answer_each_operation_has_the_code_of_the_multi() {
        let result = || OpResult {
            err: errors::OK,
            value: std::ptr::null_mut(),
            value_length: 0,
            stat: std::ptr::null_mut(),
        };
        let mut results = [result(), result()];
        let multi = Multi { results: results.as_mut_ptr(), count: results.len() };
        let connection_loss = zebu_proto::ErrorCode::CONNECTION_LOSS.0;
        assert_eq!(multi.fill(connection_loss, &[], &Chroot::new("/").unwrap()), connection_loss);
        assert_eq!(results.map(|result| result.err), [connection_loss; 2]);
    }
}
