//! Operations that take several requests: paths with all their parents, and whole subtrees.

use zebu_proto::{ErrorCode, Version};

use crate::transaction::{check_deletable, check_path};
use crate::{Acls, Client, CreateMode, Created, ErrorKind, Pending, Result};

/// The number of znodes that one transaction deletes: far fewer than fit into a request.
const DELETE_BATCH: usize = 500;

/// Creates a path, parents first. Existing znodes stay unchanged.
async fn create_prefixes(path: &str, create: impl Fn(&str) -> Pending<Created>) -> Result<()> {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    let prefixes = ends.map(|end| &path[..end]).chain([path]);
    // All requests are sent at once: each finds the parent that the one before created.
    let pending: Vec<_> = prefixes.map(create).collect();
    let mut last = Ok(());
    for created in pending {
        last = match created.await {
            Err(error) if error.code() == ErrorCode::NODE_EXISTS => Ok(()),
            // An existing parent may forbid the creation of children.
            created => created.map(|_| ()),
        };
    }
    last
}

impl Client {
    /// Makes sure that a znode and all its parents exist. Creates missing ones as persistent znodes
    /// without data, with this ACL.
    ///
    /// # Errors
    /// As [`Client::create`], except that none of them may exist already.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Acls;
    ///
    /// client.create_all("/app/config/host", &Acls::creator()).await?;
    /// client.create_all("/app/config/host", &Acls::creator()).await?;
    /// assert!(client.exists("/app/config/host").await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn create_all(&self, path: &str, acl: &Acls) -> Result<()> {
        check_path(path, false)?;
        if path == "/" || self.exists(path).await?.is_some() {
            return Ok(());
        }
        create_prefixes(path, |prefix| self.create(prefix, "", CreateMode::Persistent, acl)).await
    }

    /// Makes sure that the client's root exists, with all its parents.
    pub(crate) async fn create_chroot(&self, acl: &Acls) -> Result<()> {
        let root = self.chroot();
        if root == "/" || self.exists("/").await?.is_some() {
            return Ok(());
        }
        let mode = CreateMode::Persistent;
        create_prefixes(root, |prefix| self.create_absolute(prefix, prefix, Some(b""), mode, acl))
            .await
    }

    /// Deletes a znode and everything below it, children first. Returns the number of deleted
    /// znodes.
    ///
    /// This is not atomic: other clients see intermediate states, and after a failure a part
    /// remains. Znodes that are created in the subtree meanwhile are deleted, too.
    ///
    /// # Errors
    /// As [`Client::delete`], for any of the znodes. A znode that no longer exists is an error only
    /// if it is the given one.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Acls;
    ///
    /// client.create_all("/app/config/host", &Acls::creator()).await?;
    /// assert_eq!(client.delete_all("/app").await?, 3);
    /// # Ok(()) });
    /// ```
    pub async fn delete_all(&self, path: &str) -> Result<usize> {
        check_deletable(path)?;
        let mut deleted = 0;
        // The number of attempts is limited, because another client may create znodes without end.
        for _ in 0..16 {
            let found = self.descendants(path).await?;
            match self.delete_each(&found).await {
                Err(error) if error.code() == ErrorCode::NOT_EMPTY => deleted += found.len() - 1,
                Err(error) => return Err(error),
                Ok(()) => return Ok(deleted + found.len()),
            }
        }
        self.delete(path, Version::ANY).await.map(|()| deleted + 1)
    }

    /// A znode and everything below it, parents first.
    ///
    /// The tree may change during the walk: znodes that are deleted meanwhile are left out.
    ///
    /// # Errors
    /// As [`Client::get_children`], for any of the znodes.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut paths = client.descendants("/zookeeper").await?;
    /// paths.sort();
    /// assert_eq!(paths, ["/zookeeper", "/zookeeper/config", "/zookeeper/quota"]);
    /// # Ok(()) });
    /// ```
    pub async fn descendants(&self, path: &str) -> Result<Vec<String>> {
        let mut found = vec![path.to_owned()];
        let mut level = vec![path.to_owned()];
        while !level.is_empty() {
            let pending: Vec<_> = level.iter().map(|path| self.get_children(path)).collect();
            let mut next = Vec::new();
            for (parent, children) in level.iter().zip(pending) {
                let names = match children.await {
                    Ok((names, _)) => names,
                    Err(error) if error.kind() == ErrorKind::Gone && parent != path => continue,
                    Err(error) => return Err(error),
                };
                let parent = parent.trim_end_matches('/');
                next.extend(names.iter().map(|name| format!("{parent}/{name}")));
            }
            found.extend_from_slice(&next);
            level = next;
        }
        Ok(found)
    }

    /// Deletes these znodes, the last one first, in batches.
    async fn delete_each(&self, paths: &[String]) -> Result<()> {
        let batches = paths.rchunks(DELETE_BATCH).map(|batch| {
            let mut transaction = self.transaction();
            for path in batch.iter().rev() {
                transaction.delete(path, Version::ANY);
            }
            (batch, transaction.commit())
        });
        for (batch, committed) in batches.collect::<Vec<_>>() {
            if committed.await.is_ok() {
                continue;
            }
            // Another client interfered, so the remaining znodes are deleted one by one.
            let pending: Vec<_> =
                batch.iter().rev().map(|path| self.delete(path, Version::ANY)).collect();
            for deleted in pending {
                match deleted.await {
                    Err(error) if error.kind() == ErrorKind::Gone => {}
                    deleted => deleted?,
                }
            }
        }
        Ok(())
    }
}
