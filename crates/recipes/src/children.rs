//! The children of a znode, and their changes.

use std::collections::BTreeSet;
use std::time::Duration;

use zebu_client::Client;

use crate::Result;
use crate::watched::Watched;

/// The names of a znode's children, read again after each change.
///
/// Children may be created and deleted between two reads: each result is a state that existed, but
/// not every state is reported.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode};
/// use zebu_recipes::Children;
///
/// client.create_all("/group", &Acls::creator()).await?;
/// let mut children = Children::of(&client, "/group");
/// assert_eq!(children.next().await?, Some([].into()));
/// client.create("/group/amy", "", CreateMode::Ephemeral, &Acls::creator()).await?;
/// assert_eq!(children.next().await?, Some(["amy".to_owned()].into()));
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct Children {
    watched: Watched,
    seen: Option<Seen>,
}

/// The names that were seen; `None` if the znode did not exist.
type Seen = Option<BTreeSet<String>>;

impl Children {
    /// The children of this znode, which need not exist.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut children = zebu_recipes::Children::of(&client, "/none");
    /// assert_eq!(children.next().await?, None);
    /// # Ok(()) });
    /// ```
    pub fn of(client: &Client, path: &str) -> Self {
        Self { watched: Watched::new(client, path), seen: None }
    }

    /// Waits until the names differ from the last result; the first call does not wait. `None`
    /// while the znode does not exist.
    ///
    /// The future may be dropped and called again without missing a change.
    ///
    /// # Errors
    /// The errors of reading, if repeated attempts failed; the session has ended.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut children = zebu_recipes::Children::of(&client, "/zookeeper");
    /// assert!(children.next().await?.expect("it is there").contains("quota"));
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Option<BTreeSet<String>>> {
        loop {
            let before = self.seen.clone();
            let seen = self.read_again().await?;
            if before.as_ref() != Some(&seen) {
                return Ok(seen);
            }
        }
    }

    /// Waits until children were created or deleted since the last read, and reads the names; the
    /// first call does not wait. `None` while the znode does not exist.
    ///
    /// In contrast to [`Children::next`], the names may be the same again: a child was created and
    /// deleted in between. A program that creates children and remembers them needs this: otherwise
    /// it never learns that such a child is gone.
    ///
    /// The future may be dropped and called again without missing a change.
    ///
    /// # Errors
    /// As for [`Children::next`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, CreateMode, Version};
    /// # client.create_all("/group", &Acls::creator()).await?;
    /// let mut children = zebu_recipes::Children::of(&client, "/group");
    /// assert_eq!(children.read_again().await?, Some([].into()));
    /// client.create("/group/amy", "", CreateMode::Ephemeral, &Acls::creator()).await?;
    /// client.delete("/group/amy", Version::ANY).await?;
    /// assert_eq!(children.read_again().await?, Some([].into()));
    /// # Ok(()) });
    /// ```
    pub async fn read_again(&mut self) -> Result<Option<BTreeSet<String>>> {
        let found = self.watched.next(Client::watch_children).await?;
        let seen: Seen = found.map(|(names, _)| names.into_iter().collect());
        self.seen = Some(seen.clone());
        Ok(seen)
    }

    /// Waits until the names have not changed for this time, and returns them. `None` if the znode
    /// does not exist.
    ///
    /// The future may be dropped and called again; the time then begins again.
    ///
    /// # Errors
    /// As for [`Children::next`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// let mut children = zebu_recipes::Children::of(&client, "/zookeeper");
    /// let names = children.settled(Duration::from_millis(20)).await?;
    /// assert!(names.expect("it is there").contains("quota"));
    /// # Ok(()) });
    /// ```
    pub async fn settled(&mut self, quiet: Duration) -> Result<Option<BTreeSet<String>>> {
        loop {
            match tokio::time::timeout(quiet, self.next()).await {
                Ok(changed) => drop(changed?),
                // The first read may take longer than that.
                Err(_) => {
                    if let Some(seen) = &self.seen {
                        return Ok(seen.clone());
                    }
                    self.next().await?;
                }
            }
        }
    }
}
