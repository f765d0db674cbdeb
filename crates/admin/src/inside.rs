//! The session of a client inside the server's process. The console uses one, so that every rule
//! for clients applies to it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use zebu_jute::DecodeError;
use zebu_proto::{ErrorCode, OpCode, SessionId};

/// A client's session inside this process, with the address and the identities of a user of the
/// console.
pub trait InsideSession: Send {
    /// Its id.
    fn id(&self) -> SessionId;
    /// Its timeout.
    fn timeout(&self) -> Duration;
    /// Sends a request as a client does, and waits for the answer. `body`: the bytes after the
    /// header.
    ///
    /// If the caller drops the future, the answer is discarded.
    ///
    /// # Errors
    /// [`Lost`]; the session takes no further requests.
    fn call<'s>(
        &'s mut self,
        op: OpCode,
        body: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, Lost>> + Send + 's>>;
    /// Its identities as text for people, without secrets.
    fn identities(&self) -> Vec<String>;
    /// Whether it has every permission on `/`.
    fn may_do_everything(&self) -> bool;
    /// Some children of a znode, in the order of their creation. Requires the permission to read
    /// the znode.
    ///
    /// # Errors
    /// The errors of getChildren.
    fn children(&self, page: &ChildrenPage<'_>) -> Result<Children, ErrorCode>;
    /// At most `most` quotas, sorted by path. Requires the permission to read them.
    ///
    /// # Errors
    /// The errors of getData.
    fn quotas(&self, most: usize) -> Result<Vec<QuotaFacts>, ErrorCode>;
}

/// A new session, or the reason why it is refused.
pub type Opening<'s> =
    Pin<Box<dyn Future<Output = Result<Box<dyn InsideSession>, NotOpened>> + Send + 's>>;

/// Why there is no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// The server has its maximum number of connections.
    #[error("there are too many connections")]
    Full,
    /// The address has its maximum number of connections.
    #[error("there are too many connections from this address")]
    FullForAddress,
    /// The server does not answer.
    #[error("no session in time")]
    Late,
    /// The server serves no client at the moment.
    #[error("no client is served")]
    NotServed,
    /// The server's answer cannot be decoded.
    #[error(transparent)]
    Answer(#[from] DecodeError),
    /// The server refuses the session.
    #[error("the session is refused")]
    Refused,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The error code.
    pub err: ErrorCode,
    /// The bytes after the header.
    pub body: Vec<u8>,
}

/// The session has ended, for this reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended: {0}")]
pub struct Lost(pub &'static str);

/// The children to list.
#[derive(Debug, Clone, Copy)]
pub struct ChildrenPage<'a> {
    /// The parent.
    pub path: &'a str,
    /// The child before the page; empty for the first page.
    pub after: &'a str,
    /// Only children with this prefix.
    pub prefix: &'a str,
    /// The most children in the page.
    pub most: usize,
    /// The maximum number of children to examine.
    pub looked_at: usize,
}

/// A page of children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Children {
    /// The children.
    pub children: Vec<Child>,
    /// On the first page, the child whose name is exactly the prefix. It is also in its place among
    /// the children.
    pub exact: Option<Child>,
    /// The number of all children of the znode.
    pub total: u32,
    /// The last examined child, unless it is the last of all.
    pub next: Option<String>,
    /// Whether the child before the page was deleted. Then the caller must begin again.
    pub is_gone: bool,
}

/// A child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// The number of its children.
    pub children: u32,
    /// Bytes of its data.
    pub bytes: u64,
    /// Whether it is ephemeral.
    pub is_ephemeral: bool,
}

/// A quota. A limit of −1 means none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // As `listquota` prints them.
pub struct QuotaFacts {
    /// The znode whose subtree it limits.
    pub path: String,
    pub count: i64,
    pub bytes: i64,
    pub count_hard: i64,
    pub bytes_hard: i64,
    pub count_used: Option<i64>,
    pub bytes_used: Option<i64>,
}
