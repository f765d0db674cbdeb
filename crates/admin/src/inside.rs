//! The session of a client inside the server's process. The console uses one, so that every rule
//! for clients applies to it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use zebu_proto::{ErrorCode, OpCode, SessionId};

/// The session of a client, with the address and the identities of the person at the browser.
pub trait InsideSession: Send {
    /// Its number.
    fn id(&self) -> SessionId;
    /// How long it may be silent.
    fn timeout(&self) -> Duration;
    /// Sends a request as a client does, with the bytes after its header, and waits for the answer.
    ///
    /// The caller may give up: the answer is then thrown away when it comes.
    ///
    /// # Errors
    /// [`Lost`]; the session takes no more requests.
    fn call<'s>(
        &'s mut self,
        op: OpCode,
        body: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, Lost>> + Send + 's>>;
    /// Its identities as they are shown to people, without secrets.
    fn identities(&self) -> Vec<String>;
    /// Whether it has every permission on `/`.
    fn may_do_everything(&self) -> bool;
    /// Some children of a znode, in the order of their creation. Needs the permission to read the znode.
    ///
    /// # Errors
    /// The errors of getChildren.
    fn children(&self, page: &ChildrenPage<'_>) -> Result<Children, ErrorCode>;
    /// Quotas in the order of their paths, at most `most`. Needs the permission to read them.
    ///
    /// # Errors
    /// The errors of getData.
    fn quotas(&self, most: usize) -> Result<Vec<QuotaFacts>, ErrorCode>;
}

/// A new session, or the reason why it is refused, as a text for the user.
pub type Opening<'s> =
    Pin<Box<dyn Future<Output = Result<Box<dyn InsideSession>, String>> + Send + 's>>;

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What went wrong, if anything.
    pub err: ErrorCode,
    /// The bytes after the header.
    pub body: Vec<u8>,
}

/// A session that has ended, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended: {0}")]
pub struct Lost(pub &'static str);

/// Which children.
#[derive(Debug, Clone, Copy)]
pub struct ChildrenPage<'a> {
    /// Of this znode.
    pub path: &'a str,
    /// Behind this one; from the first where it is empty.
    pub after: &'a str,
    /// Those whose names begin so.
    pub prefix: &'a str,
    /// So many at most.
    pub most: usize,
    /// The maximum number of children to examine.
    pub looked_at: usize,
}

/// Some children of a znode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Children {
    /// They.
    pub children: Vec<Child>,
    /// How many the znode has.
    pub total: u32,
    /// The child that was looked at last, unless it was the last of all.
    pub next: Option<String>,
    /// The child after which the list continues was deleted: begin again.
    pub is_gone: bool,
}

/// A child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// How many children it has.
    pub children: u32,
    /// Bytes of its data.
    pub bytes: u64,
    /// Whether it is ephemeral.
    pub is_ephemeral: bool,
}

/// A quota; a limit of −1 is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // As `listquota` prints them.
pub struct QuotaFacts {
    /// Of this znode and everything below.
    pub path: String,
    pub count: i64,
    pub bytes: i64,
    pub count_hard: i64,
    pub bytes_hard: i64,
    pub count_used: Option<i64>,
    pub bytes_used: Option<i64>,
}
