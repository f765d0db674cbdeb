//! Finds out whether a request whose answer was lost was executed.
//!
//! A lost connection leaves the outcome of a write unknown. The session continues on another
//! connection, and servers accept nothing more from the old one. So after a `sync`, reads show
//! whether the write was executed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use zebu_proto::{Stat, Version};
use zebu_session::Failure;

use crate::faults;
use crate::transaction::check_path;
use crate::{Acls, Client, CreateMode, Created, Error, ErrorKind, Result, Retry};

/// The outcome of a write whose answer was lost, if it can be determined.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, ErrorKind, Outcome};
///
/// let (path, me) = ("/master", "host 1");
/// let mode = CreateMode::Ephemeral;
/// let is_master = match client.create(path, me, mode, &Acls::creator()).await {
///     Ok(_) => true,
///     Err(error) if error.kind() == ErrorKind::Conflict => false,
///     Err(error) if error.kind() == ErrorKind::Unknown => {
///         match client.after_lost_create(path, me, mode).await? {
///             Outcome::Happened(_) => true,
///             Outcome::DidNot => false, // try again
///             Outcome::Unclear => false,
///         }
///     }
///     Err(error) => return Err(error.into()),
/// };
/// assert!(is_master);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The write was executed.
    Happened(T),
    /// The write was not executed, and will not be.
    DidNot,
    /// The present state can result from this write, or from writes of other clients.
    Unclear,
}

impl Client {
    /// Creates an ephemeral or sequential znode even if connections are lost. If the answer is
    /// lost, the client finds out whether the znode was created, and otherwise tries again, within
    /// the limits of [`Retry`].
    ///
    /// The last part of `path` gets a unique prefix, `_c_…-`, by which the client finds the znode
    /// again. Recipes of other clients know this form. Sequential names stay in order behind the
    /// prefix.
    ///
    /// # Errors
    /// As [`Client::create`]. [`ErrorKind::Unknown`] only if the client could not determine the
    /// outcome: then the znode may exist, and the client deletes it in the background as soon as a
    /// server answers.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// let mode = CreateMode::EphemeralSequential;
    /// let created = client.create_protected("/lock-", "", mode, &Acls::creator()).await?;
    /// assert!(created.path.starts_with("/_c_"));
    /// assert!(created.path.ends_with("-lock-0000000000"));
    /// # Ok(()) });
    /// ```
    pub async fn create_protected(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
        acl: &Acls,
    ) -> Result<Created> {
        check_path(path, mode.is_sequential())?;
        let Some((parent, name)) = path.rsplit_once('/') else {
            unreachable!("a valid path has a slash")
        };
        let prefix = format!("_c_{}-", self.unique_name());
        let unique = format!("{parent}/{prefix}{name}");
        let parent = if parent.is_empty() { "/" } else { parent };
        let mut pauses = Retry::default().pauses();
        loop {
            let error = match self.create(&unique, data.as_ref(), mode, acl).await {
                Ok(created) => return Ok(created),
                Err(error) => error,
            };
            let error = match error.kind() {
                ErrorKind::Unknown => {
                    match Retry::default().reads(|| self.find(parent, &prefix)).await {
                        Ok(Some(created)) => return Ok(created),
                        // Now it is known that the request was not executed, and never will be.
                        Ok(None) => Error::failed(Failure::NoConnection, path),
                        Err(error) => {
                            if !faults::protected_znode_left_behind() {
                                self.delete_behind(parent, &prefix);
                            }
                            return Err(match error.kind() {
                                ErrorKind::NotExecuted => Error::retries_spent(path),
                                _ => error,
                            });
                        }
                    }
                }
                ErrorKind::NotExecuted => error,
                _ => return Err(error),
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Deletes the child whose name begins with `prefix`, if it exists; no program knows about it.
    /// Repeats this until a server answers or the session ends.
    ///
    /// Source: Curator's `FindAndDeleteProtectedNodeInBackground`.
    fn delete_behind(&self, parent: &str, prefix: &str) {
        let (client, parent, prefix) = (self.unowned(), parent.to_owned(), prefix.to_owned());
        let thread = client.thread().clone();
        thread.spawn(async move {
            let delete = || async {
                match client.find(&parent, &prefix).await? {
                    Some(Created { path, .. }) => client.delete(&path, Version::ANY).await,
                    None => Ok(()),
                }
            };
            let retry = Retry { attempts: u32::MAX, ..Retry::default() };
            // The child is gone, whoever deleted it.
            let _ = retry.reads(delete).await;
        });
    }

    /// The child whose name begins with `prefix`.
    async fn find(&self, parent: &str, prefix: &str) -> Result<Option<Created>> {
        let synced = self.sync(parent);
        let children = self.get_children(parent);
        synced.await?;
        let (names, _) = children.await?;
        let Some(name) = names.into_iter().find(|name| name.starts_with(prefix)) else {
            return Ok(None);
        };
        let path = if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") };
        Ok(self.exists(&path).await?.map(|stat| Created { path, stat }))
    }

    /// Unique letters and digits: the id of the session, a number, and a part that the
    /// [seed](crate::Connector::seed) decides, so that programs that resume the same session
    /// differ, too.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert_ne!(client.unique_name(), client.unique_name());
    /// # Ok(()) });
    /// ```
    pub fn unique_name(&self) -> String {
        let (session, number) = (self.session_id().0 as u64, self.shared().unique_number());
        // A hasher without a random key, so that the seed decides.
        let mut hasher = DefaultHasher::new();
        (self.shared().seed, session, number).hash(&mut hasher);
        let mixed = hasher.finish();
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}",
            (session >> 32) as u32 ^ session as u32,
            number as u16,
            (mixed >> 48) as u16,
            (mixed >> 32) as u16,
            (number >> 16) as u16,
            mixed as u32
        )
    }

    /// Returns the outcome of a [`Client::create`] with these arguments that failed with
    /// [`ErrorKind::Unknown`].
    ///
    /// For an ephemeral znode, its owner decides. For other znodes, the data decide, so the data
    /// should name their author. If others may delete the znode, such as an item of a queue, its
    /// absence proves nothing: create an ephemeral znode in the same
    /// [`Transaction`](crate::Transaction), which then decides. The name of a sequential znode
    /// cannot be found: use [`Client::create_protected`].
    ///
    /// # Errors
    /// As [`Client::get_data`]; it may be asked again.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, Outcome};
    ///
    /// let mode = CreateMode::Ephemeral;
    /// assert_eq!(client.after_lost_create("/a", "me", mode).await?, Outcome::DidNot);
    /// client.create("/a", "me", mode, &Acls::creator()).await?;
    /// assert!(matches!(client.after_lost_create("/a", "me", mode).await?, Outcome::Happened(_)));
    /// # Ok(()) });
    /// ```
    pub async fn after_lost_create(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
    ) -> Result<Outcome<Created>> {
        if mode.is_sequential() {
            return Ok(Outcome::Unclear);
        }
        let Some((found, stat)) = self.read_synced(path).await? else { return Ok(Outcome::DidNot) };
        let is_same = found == data.as_ref() && stat.version == 0;
        let created = Created { path: path.to_owned(), stat };
        Ok(match mode.is_ephemeral() {
            true if stat.ephemeral_owner == self.session_id().0 => Outcome::Happened(created),
            true => Outcome::DidNot,
            false if is_same => Outcome::Happened(created),
            // The znode was changed since, by its creator or by another client.
            false if stat.version > 0 => Outcome::Unclear,
            false => Outcome::DidNot,
        })
    }

    /// Returns the outcome of a [`Client::set_data`] with these arguments that failed with
    /// [`ErrorKind::Unknown`].
    ///
    /// The outcome is certain if the version was not [`Version::ANY`] and no other client has
    /// written since. The data should name their author; otherwise equal data of another writer
    /// count as this client's.
    ///
    /// # Errors
    /// As [`Client::get_data`]; it may be asked again.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Outcome, Version};
    ///
    /// let outcome = client.after_lost_set_data("/", "mine", Version(0)).await?;
    /// assert_eq!(outcome, Outcome::DidNot);
    /// client.set_data("/", "mine", Version(0)).await?;
    /// let outcome = client.after_lost_set_data("/", "mine", Version(0)).await?;
    /// assert!(matches!(outcome, Outcome::Happened(_)));
    /// # Ok(()) });
    /// ```
    pub async fn after_lost_set_data(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        version: Version,
    ) -> Result<Outcome<Stat>> {
        let Some((found, stat)) = self.read_synced(path).await? else {
            return Ok(Outcome::Unclear);
        };
        let is_same = found == data.as_ref();
        Ok(if version == Version::ANY {
            if is_same { Outcome::Happened(stat) } else { Outcome::Unclear }
        } else if stat.version == version.0 {
            Outcome::DidNot
        } else if stat.version == version.0.wrapping_add(1) {
            if is_same { Outcome::Happened(stat) } else { Outcome::DidNot }
        } else {
            Outcome::Unclear
        })
    }

    /// Returns the outcome of a [`Client::delete`] that failed with [`ErrorKind::Unknown`].
    ///
    /// If the znode does not exist, the result is [`Outcome::Happened`], although another client
    /// may have deleted it.
    ///
    /// # Errors
    /// As [`Client::exists`]; it may be asked again.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Outcome;
    ///
    /// assert_eq!(client.after_lost_delete("/none").await?, Outcome::Happened(()));
    /// assert_eq!(client.after_lost_delete("/zookeeper").await?, Outcome::DidNot);
    /// # Ok(()) });
    /// ```
    pub async fn after_lost_delete(&self, path: &str) -> Result<Outcome<()>> {
        let synced = self.sync(path);
        let found = self.exists(path);
        synced.await?;
        Ok(if found.await?.is_some() { Outcome::DidNot } else { Outcome::Happened(()) })
    }

    /// The current state, with every write that was ordered before this call.
    async fn read_synced(&self, path: &str) -> Result<Option<(bytes::Bytes, Stat)>> {
        let synced = self.sync(path);
        let read = self.get_data(path);
        synced.await?;
        match read.await {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
            Err(error) => Err(error),
        }
    }
}
