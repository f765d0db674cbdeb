//! Bodies of answers, and the lists of multi and multiRead, for clients that read and write them.

use std::borrow::Cow;

use zebu_jute::{Decode, DecodeError, Decoder, Encode, Encoder, record};

use crate::reply::{ConnectResponse, PASSWORD_BYTES};
use crate::request::{CreateTtl, ENSEMBLE, MULTI_OPS_MAX, MultiHeader, MultiOp};
use crate::{AclRef, ClientInfo, EnsembleId, ErrorCode, OpCode, SessionId, Stat, WatcherType};

type Text<'a> = Cow<'a, str>;

impl Decode<'_> for ConnectResponse {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let _protocol_version = from.int()?;
        let timeout_ms = from.int()?;
        let session_id = SessionId::decode(from)?;
        let sent = from.buffer()?.unwrap_or_default();
        let mut password = [0; PASSWORD_BYTES];
        if sent.len() > PASSWORD_BYTES {
            return Err(DecodeError::Value { what: "password length", value: sent.len() as i64 });
        }
        password[..sent.len()].copy_from_slice(sent);
        // Servers before 3.4 end here.
        let read_only = from.boolean().ok();
        let tells = from.int() == Ok(ENSEMBLE);
        let ensemble = tells.then(|| EnsembleId::decode(from).ok()).flatten();
        Ok(Self { timeout_ms, session_id, password, read_only, ensemble })
    }
}

record! {
    /// Answer to create.
    Created<'a> {
        /// The path; with a sequential mode it differs from the requested one.
        path: Text<'a>,
    }
}

record! {
    /// Answer to create2, createContainer and createTTL.
    Created2<'a> {
        /// The path; with a sequential mode it differs from the requested one.
        path: Text<'a>,
        /// Its stat.
        stat: Stat,
    }
}

record! {
    /// Answer to getData and reconfig.
    DataAndStat<'a> {
        /// The data.
        data: Option<&'a [u8]>,
        /// The stat.
        stat: Stat,
    }
}

record! {
    /// Answer to getACL.
    AclAndStat<'a> {
        /// The ACL.
        acl: Vec<AclRef<'a>>,
        /// The stat.
        stat: Stat,
    }
}

record! {
    /// Answer to getChildren, and, as paths, to getEphemerals.
    Names<'a> {
        /// The names, in no order.
        names: Vec<Text<'a>>,
    }
}

record! {
    /// Answer to getChildren2.
    NamesAndStat<'a> {
        /// The names, in no order.
        names: Vec<Text<'a>>,
        /// The stat.
        stat: Stat,
    }
}

record! {
    /// Answer to whoAmI.
    WhoAmI<'a> {
        /// The connection's credentials.
        credentials: Vec<ClientInfo<'a>>,
    }
}

impl WatcherType {
    /// The number on the wire.
    pub fn to_wire(self) -> i32 {
        match self {
            Self::Children => 1,
            Self::Data => 2,
            Self::Any => 3,
            Self::Persistent => 4,
            Self::PersistentRecursive => 5,
        }
    }
}

impl MultiOp<'_> {
    fn op(&self) -> OpCode {
        match self {
            Self::Create(op, _) => *op,
            Self::Delete(_) => OpCode::DELETE,
            Self::SetData(_) => OpCode::SET_DATA,
            Self::Check(_) => OpCode::CHECK,
            Self::GetData(_) => OpCode::GET_DATA,
            Self::GetChildren(_) => OpCode::GET_CHILDREN,
        }
    }
}

/// One operation with its header. [`MultiHeader::END`] ends the list.
impl Encode for MultiOp<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        MultiHeader { op: self.op(), done: false, err: -1 }.encode(out);
        match self {
            Self::Create(OpCode::CREATE_TTL, create) => create.encode(out),
            Self::Create(_, CreateTtl { path, data, acl, flags, .. }) => {
                path.encode(out);
                data.encode(out);
                acl.encode(out);
                flags.encode(out);
            }
            Self::Delete(op) | Self::Check(op) => op.encode(out),
            Self::SetData(op) => op.encode(out),
            Self::GetData(op) | Self::GetChildren(op) => op.encode(out),
        }
    }
}

/// One result of a multi or multiRead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiResult<'a> {
    /// A znode was created. Servers send the stat for all opcodes except create.
    Created {
        /// Its path.
        path: Text<'a>,
        /// Its stat.
        stat: Option<Stat>,
    },
    /// A znode was deleted.
    Deleted,
    /// Data were set.
    DataSet(Stat),
    /// A check succeeded.
    Checked,
    /// Data and stat.
    Data(DataAndStat<'a>),
    /// Names of the children.
    Children(Vec<Text<'a>>),
    /// The operation failed. In a failed multi, 0 means undone and −2 not tried.
    Failed(ErrorCode),
}

impl<'a> MultiResult<'a> {
    fn decode(op: OpCode, from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match op {
            OpCode::CREATE => Self::Created { path: from.text()?, stat: None },
            OpCode::CREATE2 => {
                let Created2 { path, stat } = Created2::decode(from)?;
                Self::Created { path, stat: Some(stat) }
            }
            OpCode::DELETE => Self::Deleted,
            OpCode::SET_DATA => Self::DataSet(Stat::decode(from)?),
            OpCode::CHECK => Self::Checked,
            OpCode::GET_DATA => Self::Data(DataAndStat::decode(from)?),
            OpCode::GET_CHILDREN => Self::Children(Names::decode(from)?.names),
            OpCode::ERROR => Self::Failed(ErrorCode::decode(from)?),
            other => {
                return Err(DecodeError::Value { what: "multi result", value: other.0.into() });
            }
        })
    }
}

/// Reads the results of a multi or multiRead.
///
/// # Errors
/// [`DecodeError`] for a type no result has, or bytes that end early.
pub fn multi_results<'a>(from: &mut Decoder<'a>) -> Result<Vec<MultiResult<'a>>, DecodeError> {
    let mut results = Vec::new();
    loop {
        let header = MultiHeader::decode(from)?;
        if header.done {
            return Ok(results);
        }
        if results.len() == MULTI_OPS_MAX {
            return Err(DecodeError::Value { what: "multi length", value: results.len() as i64 });
        }
        results.push(MultiResult::decode(header.op, from)?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{PathVersion, multi_ops};
    use crate::{Acl, Version};

    #[test]
    fn connect_responses_of_the_original() {
        // 3.9.5, standalone: a new session, and a refused one.
        let bytes =
            hex("00000000000027100100001ec89300020000001089d7e641d0c38795bb6bb7aa3258b7d200");
        let response = ConnectResponse::from_bytes(&bytes).unwrap();
        assert_eq!(response.timeout_ms, 10_000);
        assert_eq!(response.session_id, SessionId(0x0100_001e_c893_0002));
        assert_eq!(response.password[..2], [0x89, 0xd7]);
        assert_eq!(response.read_only, Some(false));
        assert_eq!(response.to_bytes(), bytes);
        // A server of ours tells the id of its ensemble behind that.
        let told = ConnectResponse { ensemble: Some(EnsembleId(7 << 64 | 9)), ..response.clone() };
        let told_bytes = told.to_bytes();
        assert_eq!(told_bytes[..bytes.len()], bytes);
        assert_eq!(ConnectResponse::from_bytes(&told_bytes), Ok(told));
        for cut in bytes.len()..told_bytes.len() {
            assert_eq!(ConnectResponse::from_bytes(&told_bytes[..cut]).as_ref(), Ok(&response));
        }
        let refused =
            hex("0000000000000000000000000000000000000010000000000000000000000000000000000000");
        let response = ConnectResponse::from_bytes(&refused[..36]).unwrap();
        assert_eq!(response, ConnectResponse::refused(None));
        for cut in 0..36 {
            ConnectResponse::from_bytes(&bytes[..cut]).unwrap_err();
        }
    }

    #[test]
    fn operations_of_a_multi_come_back_as_they_went() {
        let acl = Acl::read_only();
        let create = |op, flags, ttl_ms| {
            MultiOp::Create(
                op,
                CreateTtl {
                    path: Some("/a".into()),
                    data: Some(b"x"),
                    acl: Some(acl.iter().map(AclRef::from).collect()),
                    flags,
                    ttl_ms,
                },
            )
        };
        let ops = [
            create(OpCode::CREATE2, 0, -1),
            create(OpCode::CREATE_CONTAINER, 4, -1),
            create(OpCode::CREATE_TTL, 5, 1000),
            MultiOp::Delete(PathVersion { path: Some("/b".into()), version: Version(3) }),
            MultiOp::Check(PathVersion { path: Some("/c".into()), version: Version::ANY }),
        ];
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes);
        ops.iter().for_each(|op| op.encode(&mut out));
        MultiHeader::END.encode(&mut out);
        assert_eq!(multi_ops(&mut Decoder::new(&bytes), false).unwrap(), ops);
        // The terminator, as the original writes it.
        assert_eq!(bytes[bytes.len() - 9..], hex("ffffffff01ffffffff"));
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).unwrap())
            .collect()
    }
}
