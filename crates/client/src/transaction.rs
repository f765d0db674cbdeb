//! Several writes as one transaction: all of them are executed, or none.

use std::marker::PhantomData;

use zebu_jute::Encode;
use zebu_proto::request::{CreateTtl, MultiHeader, MultiOp, PathVersion, SetData};
use zebu_proto::{AclRef, ErrorCode, OpCode, Stat, Version};
use zebu_session::{Effect, Frame};

use crate::mode::Wire;
use crate::{Acls, Client, CreateMode, Error, Pending, Result, answer};

/// Several writes that are executed as one: all of them or none. No client sees a state in between.
///
/// Each operation sees the effects of the operations before it. Add the operations, then send the
/// transaction with [`Transaction::commit`]. Each added operation returns a [`Ticket`] for its
/// result.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, Version};
/// # for path in ["/tasks", "/tasks/t1", "/assign"] {
/// #     client.create(path, "", CreateMode::Persistent, &Acls::creator()).await?;
/// # }
///
/// // Hand out a task: whatever crashes, it is either waiting or assigned, never both, never neither.
/// let mut transaction = client.transaction();
/// let assigned =
///     transaction.create("/assign/t1", "worker 7", CreateMode::Persistent, &Acls::creator());
/// transaction.delete("/tasks/t1", Version::ANY);
/// let results = transaction.commit().await?;
/// assert_eq!(results.get(assigned).path, "/assign/t1");
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before it is committed"]
pub struct Transaction {
    client: Client,
    ops: Vec<u8>,
    paths: Vec<Box<str>>,
    /// The first operation that no server would accept.
    refused: Option<Error>,
}

/// Stands for the result of one operation of a [`Transaction`]: see [`Results::get`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, Stat, Ticket, Version};
/// # client.create("/a", "", CreateMode::Persistent, &Acls::creator()).await?;
///
/// let mut transaction = client.transaction();
/// let set: Ticket<Stat> = transaction.set_data("/a", "new", Version(0));
/// assert_eq!(transaction.commit().await?.get(set).version, 1);
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct Ticket<T> {
    at: usize,
    pick: fn(&OpResult) -> Option<&T>,
    result: PhantomData<T>,
}

impl<T> Clone for Ticket<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ticket<T> {}

/// The result of one operation of a [`Transaction`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{OpResult, Version};
///
/// let mut transaction = client.transaction();
/// transaction.check("/", Version::ANY);
/// let results = transaction.commit().await?;
/// assert_eq!(results.iter().collect::<Vec<_>>(), [&OpResult::Checked]);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpResult {
    /// A znode was created.
    Created(CreatedNode),
    /// A znode was deleted.
    Deleted,
    /// Data were set; the znode's new stat.
    Set(Stat),
    /// A check held.
    Checked,
}

/// A znode that a [`Transaction`] has created.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode};
///
/// let mut transaction = client.transaction();
/// let made = transaction.create("/n-", "", CreateMode::PersistentSequential, &Acls::creator());
/// let results = transaction.commit().await?;
/// assert!(results.get(made).path.starts_with("/n-00000"));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreatedNode {
    /// The path. With a sequential mode it differs from the requested one.
    pub path: String,
    /// Its stat; `None` from servers before 3.9.
    pub stat: Option<Stat>,
}

/// The results of a [`Transaction`] that was executed.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// let results = client.transaction().commit().await?;
/// assert_eq!(results.iter().count(), 0);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results(pub(crate) Vec<OpResult>);

impl Results {
    /// The result of one operation.
    ///
    /// # Panics
    /// If the ticket belongs to another transaction whose operations do not match.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Version;
    ///
    /// let mut transaction = client.transaction();
    /// let set = transaction.set_data("/", "new", Version::ANY);
    /// let results = transaction.commit().await?;
    /// assert_eq!(results.get(set).data_length, 3);
    /// # Ok(()) });
    /// ```
    pub fn get<T>(&self, ticket: Ticket<T>) -> &T {
        self.0.get(ticket.at).and_then(ticket.pick).expect("the ticket is of this transaction")
    }

    /// All results, in the order of the operations.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// for result in client.transaction().commit().await?.iter() {
    ///     println!("{result:?}");
    /// }
    /// # Ok(()) });
    /// ```
    pub fn iter(&self) -> std::slice::Iter<'_, OpResult> {
        self.0.iter()
    }
}

impl Transaction {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, ops: Vec::new(), paths: Vec::new(), refused: None }
    }

    /// Creates a znode.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// let mut transaction = client.transaction();
    /// transaction.create("/a", "", CreateMode::Persistent, &Acls::creator());
    /// transaction.create("/a/b", "", CreateMode::Persistent, &Acls::creator());
    /// transaction.commit().await?;
    /// # Ok(()) });
    /// ```
    pub fn create(
        &mut self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
        acl: &Acls,
    ) -> Ticket<CreatedNode> {
        self.check_path(path, mode.is_sequential());
        let absolute = self.client.absolute_of(path, mode);
        match mode.wire() {
            Some(Wire { op, flags, ttl_ms }) => {
                let op = self.client.shared().create_op(op);
                if !self.client.shared().knows(op) {
                    self.refuse(Error::answered(ErrorCode::UNIMPLEMENTED, path));
                }
                let create = CreateTtl {
                    path: Some((&*absolute).into()),
                    data: Some(data.as_ref()),
                    acl: Some(acl.entries().iter().map(AclRef::from).collect()),
                    flags,
                    ttl_ms,
                };
                self.add(path, &MultiOp::Create(op, create));
            }
            None => self.refuse(Error::ttl(path)),
        }
        self.ticket(|result| match result {
            OpResult::Created(created) => Some(created),
            _ => None,
        })
    }

    /// Deletes a znode, if its data have this version.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, Version};
    /// # client.create("/a", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// # client.create("/a/b", "", CreateMode::Persistent, &Acls::creator()).await?;
    ///
    /// // A znode and its only child.
    /// let mut transaction = client.transaction();
    /// transaction.delete("/a/b", Version::ANY);
    /// transaction.delete("/a", Version::ANY);
    /// transaction.commit().await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&mut self, path: &str, version: Version) -> &mut Self {
        if let Err(error) = check_deletable(path) {
            self.refuse(error);
        }
        self.check_path(path, false);
        let absolute = self.client.absolute(path);
        self.add(path, &MultiOp::Delete(PathVersion { path: Some((&*absolute).into()), version }));
        self
    }

    /// Replaces a znode's data, if they have this version.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Version;
    ///
    /// let mut transaction = client.transaction();
    /// transaction.set_data("/", "once", Version(0));
    /// transaction.set_data("/", "again", Version(1));
    /// transaction.commit().await?;
    /// # Ok(()) });
    /// ```
    pub fn set_data(
        &mut self,
        path: &str,
        data: impl AsRef<[u8]>,
        version: Version,
    ) -> Ticket<Stat> {
        self.check_path(path, false);
        let absolute = self.client.absolute(path);
        let path_sent = Some((&*absolute).into());
        let set = SetData { path: path_sent, data: Some(data.as_ref()), version };
        self.add(path, &MultiOp::SetData(set));
        self.ticket(|result| match result {
            OpResult::Set(stat) => Some(stat),
            _ => None,
        })
    }

    /// Makes the transaction fail unless this znode exists and its data have this version. Changes
    /// nothing. With [`Version::ANY`], the znode only has to exist.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, ErrorKind, Version};
    /// # client.create("/master", "host 1", CreateMode::Persistent, &Acls::creator()).await?;
    ///
    /// // Write only while what was decided on still holds.
    /// let (master, stat) = client.get_data("/master").await?;
    /// let mut transaction = client.transaction();
    /// transaction.check("/master", Version(stat.version));
    /// transaction.create("/seen", master, CreateMode::Persistent, &Acls::creator());
    /// client.set_data("/master", "host 2", Version::ANY).await?;
    /// let error = transaction.commit().await.unwrap_err();
    /// assert_eq!((error.kind(), error.failed_operation()), (ErrorKind::Conflict, Some(0)));
    /// # Ok(()) });
    /// ```
    pub fn check(&mut self, path: &str, version: Version) -> &mut Self {
        self.check_path(path, false);
        let absolute = self.client.absolute(path);
        self.add(path, &MultiOp::Check(PathVersion { path: Some((&*absolute).into()), version }));
        self
    }

    /// Sends the transaction. Its place in the order is that of this call.
    ///
    /// # Errors
    /// The error of the first failed operation; [`Error::failed_operation`] returns its index.
    /// Nothing was changed.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, Version};
    ///
    /// let mut transaction = client.transaction();
    /// transaction.create("/a", "", CreateMode::Persistent, &Acls::creator());
    /// transaction.delete("/none", Version::ANY);
    /// transaction.commit().await.unwrap_err();
    /// assert!(client.exists("/a").await?.is_none());
    /// # Ok(()) });
    /// ```
    pub fn commit(self) -> Pending<Results> {
        if let Some(error) = self.refused {
            return Pending::failed(error);
        }
        let frame = Frame::new(OpCode::MULTI, |out| {
            out.raw(&self.ops);
            MultiHeader::END.encode(out);
        });
        self.client.submit_many(frame, self.paths, Effect::None, answer::transaction)
    }

    fn add(&mut self, path: &str, op: &MultiOp<'_>) {
        op.encode(&mut zebu_jute::Encoder::new(&mut self.ops));
        self.paths.push(path.into());
    }

    fn ticket<T>(&self, pick: fn(&OpResult) -> Option<&T>) -> Ticket<T> {
        Ticket { at: self.paths.len().saturating_sub(1), pick, result: PhantomData }
    }

    fn check_path(&mut self, path: &str, is_sequential: bool) {
        if let Err(error) = check_path(path, is_sequential) {
            self.refuse(error);
        }
    }

    fn refuse(&mut self, error: Error) {
        let at = self.paths.len();
        self.refused.get_or_insert(error.of_operation(at));
    }
}

/// The root is never deleted. Servers refuse to delete their root. A client with a chroot refuses
/// to delete its own root, which other clients use, too.
pub(crate) fn check_deletable(path: &str) -> Result<()> {
    match path {
        "/" => Err(Error::answered(ErrorCode::BAD_ARGUMENTS, path)),
        _ => Ok(()),
    }
}

/// Refuses paths that no server accepts. The name of a sequential znode may be empty, because a
/// number follows.
pub(crate) fn check_path(path: &str, is_sequential: bool) -> Result<()> {
    let checked = if is_sequential && path.ends_with('/') {
        zebu_proto::path::validate(&format!("{path}1"))
    } else {
        zebu_proto::path::validate(path)
    };
    checked.map_err(|error| Error::path_refused(error, path))
}
