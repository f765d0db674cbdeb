//! Decodes the answers of servers into values.

use bytes::Bytes;
use zebu_jute::{Decode, Decoder};
use zebu_proto::answer::{
    AclAndStat, Created2, DataAndStat, MultiResult, Names, NamesAndStat, WhoAmI, multi_results,
};
use zebu_proto::{Acl, ErrorCode, Stat};
use zebu_session::Answer;

use crate::pending::{Call, Seat};
use crate::reads::{ReadResult, ReadResults};
use crate::transaction::{CreatedNode, OpResult, Results};
use crate::watch::{PersistentWatch, Watch};
use crate::{Created, Error, Identity, Result};

/// Data up to this size are copied, so that they do not keep the much larger receive buffer alive.
const COPIED_BYTES_MAX: usize = 1024;

impl Call {
    /// The body of an answer without an error.
    fn body<'a>(&self, answer: &'a Answer) -> Result<&'a Bytes> {
        match answer.err {
            ErrorCode::OK => Ok(&answer.body),
            err => Err(Error::answered(err, &self.path)),
        }
    }

    fn record<'a, T: Decode<'a>>(&self, answer: &'a Answer) -> Result<T> {
        T::from_bytes(self.body(answer)?).map_err(|_| Error::garbled(&self.path))
    }

    fn watch(self) -> Result<Watch> {
        match self.seat {
            Seat::Once(watch) => Ok(watch),
            Seat::None | Seat::Always(_) | Seat::Made { .. } => {
                unreachable!("the request was made with a watch")
            }
        }
    }
}

fn data(body: &Bytes, data: Option<&[u8]>) -> Bytes {
    match data {
        None => Bytes::new(),
        Some(data) if data.len() <= COPIED_BYTES_MAX => Bytes::copy_from_slice(data),
        Some(data) => body.slice_ref(data),
    }
}

pub(crate) fn nothing(call: Call, answer: Answer) -> Result<()> {
    call.body(&answer).map(|_| ())
}

pub(crate) fn is_there(call: Call, answer: Answer) -> Result<bool> {
    match answer.err {
        ErrorCode::NO_WATCHER => Ok(false),
        _ => call.body(&answer).map(|_| true),
    }
}

pub(crate) fn created(call: Call, answer: Answer) -> Result<Created> {
    let Created2 { path, stat } = call.record(&answer)?;
    Ok(Created { path: call.chroot.relative(&path).to_owned(), stat })
}

/// The answer of a server of 3.4, which is the path. The request and the zxid decide the stat,
/// except for the times.
pub(crate) fn created_as_asked(call: Call, answer: Answer) -> Result<Created> {
    let created: zebu_proto::answer::Created<'_> = call.record(&answer)?;
    let (data_length, is_ephemeral) = match call.seat {
        Seat::Made { data_length, is_ephemeral } => (data_length, is_ephemeral),
        Seat::None | Seat::Once(_) | Seat::Always(_) => unreachable!("the request was a create"),
    };
    let ticket = call.shared.status.borrow().ticket;
    let ephemeral_owner = ticket.filter(|_| is_ephemeral).map_or(0, |ticket| ticket.id.0);
    let zxid = answer.zxid;
    let stat = Stat {
        czxid: zxid,
        mzxid: zxid,
        ctime: 0,
        mtime: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner,
        data_length,
        num_children: 0,
        pzxid: zxid,
    };
    Ok(Created { path: call.chroot.relative(&created.path).to_owned(), stat })
}

pub(crate) fn stat(call: Call, answer: Answer) -> Result<Stat> {
    call.record(&answer)
}

pub(crate) fn stat_if_there(call: Call, answer: Answer) -> Result<Option<Stat>> {
    match answer.err {
        ErrorCode::NO_NODE => Ok(None),
        _ => call.record(&answer).map(Some),
    }
}

pub(crate) fn stat_and_watch(call: Call, answer: Answer) -> Result<(Option<Stat>, Watch)> {
    let stat = match answer.err {
        ErrorCode::NO_NODE => None,
        _ => Some(call.record(&answer)?),
    };
    Ok((stat, call.watch()?))
}

pub(crate) fn data_and_stat(call: Call, answer: Answer) -> Result<(Bytes, Stat)> {
    let DataAndStat { data: bytes, stat } = call.record(&answer)?;
    Ok((data(&answer.body, bytes), stat))
}

pub(crate) fn data_and_watch(call: Call, answer: Answer) -> Result<(Bytes, Stat, Watch)> {
    let DataAndStat { data: bytes, stat } = call.record(&answer)?;
    Ok((data(&answer.body, bytes), stat, call.watch()?))
}

pub(crate) fn data_or_null(call: Call, answer: Answer) -> Result<(Option<Bytes>, Stat)> {
    let DataAndStat { data: bytes, stat } = call.record(&answer)?;
    Ok((bytes.map(|bytes| data(&answer.body, Some(bytes))), stat))
}

pub(crate) fn data_or_null_and_watch(
    call: Call,
    answer: Answer,
) -> Result<(Option<Bytes>, Stat, Watch)> {
    let DataAndStat { data: bytes, stat } = call.record(&answer)?;
    Ok((bytes.map(|bytes| data(&answer.body, Some(bytes))), stat, call.watch()?))
}

pub(crate) fn acl(call: Call, answer: Answer) -> Result<(Vec<Acl>, Stat)> {
    let AclAndStat { acl, stat } = call.record(&answer)?;
    Ok((acl.iter().map(zebu_proto::AclRef::to_owned).collect(), stat))
}

fn names(call: &Call, answer: &Answer) -> Result<(Vec<String>, Stat)> {
    let NamesAndStat { names, stat } = call.record(answer)?;
    Ok((names.into_iter().map(std::borrow::Cow::into_owned).collect(), stat))
}

pub(crate) fn children(call: Call, answer: Answer) -> Result<(Vec<String>, Stat)> {
    names(&call, &answer)
}

pub(crate) fn children_and_watch(call: Call, answer: Answer) -> Result<(Vec<String>, Stat, Watch)> {
    let (names, stat) = names(&call, &answer)?;
    Ok((names, stat, call.watch()?))
}

pub(crate) fn paths(call: Call, answer: Answer) -> Result<Vec<String>> {
    let Names { names } = call.record(&answer)?;
    let chroot = &call.chroot;
    // A prefix that is the chroot itself also matches siblings with similar names.
    let inside = names.iter().filter(|path| chroot.contains(path));
    Ok(inside.map(|path| chroot.relative(path).to_owned()).collect())
}

pub(crate) fn count(call: Call, answer: Answer) -> Result<usize> {
    let count: i32 = call.record(&answer)?;
    usize::try_from(count).map_err(|_| Error::garbled(&call.path))
}

pub(crate) fn identities(call: Call, answer: Answer) -> Result<Vec<Identity>> {
    let WhoAmI { credentials } = call.record(&answer)?;
    let identity = |info: zebu_proto::ClientInfo<'_>| Identity {
        scheme: info.auth_scheme.into_owned(),
        user: info.user.into_owned(),
    };
    Ok(credentials.into_iter().map(identity).collect())
}

pub(crate) fn persistent_watch(call: Call, answer: Answer) -> Result<PersistentWatch> {
    call.body(&answer)?;
    match call.seat {
        Seat::Always(watch) => Ok(watch),
        Seat::None | Seat::Once(_) | Seat::Made { .. } => {
            unreachable!("the request was made with a watch")
        }
    }
}

fn results<'a>(call: &Call, answer: &'a Answer) -> Result<Vec<MultiResult<'a>>> {
    let body = call.body(answer)?;
    multi_results(&mut Decoder::new(body)).map_err(|_| Error::garbled(&call.path))
}

pub(crate) fn transaction(call: Call, answer: Answer) -> Result<Results> {
    let results = results(&call, &answer)?;
    // All operations are executed, or none. The failed one has a code, those before it have 0, and
    // those after it were not tried.
    let failed = results.iter().position(|result| {
        matches!(result, MultiResult::Failed(err)
            if ![ErrorCode::OK, ErrorCode::RUNTIME_INCONSISTENCY].contains(err))
    });
    if let Some((at, MultiResult::Failed(err))) = failed.map(|at| (at, &results[at])) {
        let path = call.paths.get(at).map_or("", |path| path);
        return Err(Error::answered(*err, path).of_operation(at));
    }
    let result = |result: MultiResult<'_>| {
        Some(match result {
            MultiResult::Created { path, stat } => OpResult::Created(CreatedNode {
                path: call.chroot.relative(&path).to_owned(),
                stat,
            }),
            MultiResult::Deleted => OpResult::Deleted,
            MultiResult::DataSet(stat) => OpResult::Set(stat),
            MultiResult::Checked => OpResult::Checked,
            MultiResult::Data(_) | MultiResult::Children(_) | MultiResult::Failed(_) => {
                return None;
            }
        })
    };
    let garbled = || Error::garbled(&call.path);
    let results: Vec<_> =
        results.into_iter().map(result).collect::<Option<_>>().ok_or_else(garbled)?;
    if results.len() == call.paths.len() { Ok(Results(results)) } else { Err(garbled()) }
}

pub(crate) fn reads(call: Call, answer: Answer) -> Result<ReadResults> {
    let garbled = || Error::garbled(&call.path);
    let results = results(&call, &answer)?;
    if results.len() != call.paths.len() {
        return Err(garbled());
    }
    let result = |(result, path): (MultiResult<'_>, &str)| {
        Some(match result {
            MultiResult::Data(read) => {
                Ok(ReadResult::Data(data(&answer.body, read.data), read.stat))
            }
            MultiResult::Children(names) => Ok(ReadResult::Children(
                names.into_iter().map(std::borrow::Cow::into_owned).collect(),
            )),
            MultiResult::Failed(err) => Err(Error::answered(err, path)),
            _ => return None,
        })
    };
    let paths = call.paths.iter().map(|path| &**path);
    let results = results.into_iter().zip(paths).map(result).collect::<Option<_>>();
    results.map(ReadResults).ok_or_else(garbled)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use zebu_jute::Encode;
    use zebu_proto::Zxid;
    use zebu_proto::request::MultiHeader;
    use zebu_session::Chroot;

    use super::*;
    use crate::shared::Shared;
    use crate::state::Status;
    use crate::{ErrorKind, SessionState};

    fn call(paths: usize) -> Call {
        let state = SessionState::Connected;
        let (timeout, ensemble) = (Duration::ZERO, None);
        let status = Status { state, ticket: None, timeout, ensemble, server: None };
        let shared = {
            let thread = crate::SessionThread::start().unwrap();
            Arc::new(Shared::new(status, thread, 0))
        };
        let (paths, chroot) = (vec!["/b".into(); paths], Arc::new(Chroot::default()));
        Call { path: "/a".into(), paths, shared, chroot, seat: Seat::None }
    }

    fn answer(body: Vec<u8>) -> Answer {
        Answer { zxid: Zxid::ZERO, err: ErrorCode::OK, body: body.into() }
    }

    /// Runs every decoder on the same bytes. Returns the result of each.
    fn all(body: &[u8]) -> Vec<std::result::Result<(), ErrorKind>> {
        fn kind<T>(result: Result<T>) -> std::result::Result<(), ErrorKind> {
            result.map(|_| ()).map_err(|error| error.kind())
        }
        let with = || answer(body.to_vec());
        vec![
            kind(created(call(0), with())),
            kind(stat(call(0), with())),
            kind(data_and_stat(call(0), with())),
            kind(acl(call(0), with())),
            kind(children(call(0), with())),
            kind(paths(call(0), with())),
            kind(count(call(0), with())),
            kind(identities(call(0), with())),
            kind(transaction(call(1), with())),
            kind(reads(call(1), with())),
        ]
    }

    #[test]
    fn a_server_that_lies_is_not_believed() {
        let mut random = zebu_testkit::Random::new(1);
        for length in 0..200 {
            // Small numbers, as lengths and types are, and large numbers.
            let mut byte = || random.next() as u8 & if random.one_in(4) { 0xff } else { 3 };
            let body: Vec<u8> = (0..length).map(|_| byte()).collect();
            for result in all(&body) {
                assert!(matches!(result, Ok(()) | Err(ErrorKind::Unknown)), "{result:?}");
            }
        }
    }

    #[test]
    fn results_that_are_too_few_or_of_the_wrong_kind_are_not_believed() {
        let none = MultiHeader::END.to_bytes();
        assert!(transaction(call(0), answer(none.clone())).is_ok());
        for paths in [1, 2] {
            let error = transaction(call(paths), answer(none.clone())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unknown);
            assert!(reads(call(paths), answer(none.clone())).is_err());
        }
        let mut checked =
            MultiHeader { op: zebu_proto::OpCode::CHECK, done: false, err: 0 }.to_bytes();
        checked.extend(&none);
        assert!(transaction(call(1), answer(checked.clone())).is_ok());
        assert!(reads(call(1), answer(checked)).is_err());
    }

    #[test]
    fn small_data_do_not_hold_the_buffer_they_came_in() {
        let buffer = Bytes::from(vec![7; 100_000]);
        let small = data(&buffer, Some(&buffer[10..20]));
        let large = data(&buffer, Some(&buffer[10..50_000]));
        assert!(!buffer.as_ptr_range().contains(&small.as_ptr()));
        assert!(buffer.as_ptr_range().contains(&large.as_ptr()));
        assert_eq!((small.len(), large.len()), (10, 49_990));
    }
}
