//! A znode of this session that is deleted with the value that represents it.

use tokio::sync::oneshot;
use zebu_client::{
    Acls, Client, CreateMode, Created, ErrorCode, ErrorKind, Retry, Stat, Version, Zxid,
};

use crate::cleanup::{self, Mine, Whose};
use crate::{Error, Result, faults, path};

/// An ephemeral znode that is deleted when this value is dropped.
///
/// It does not keep the session open: the znode is deleted with the session anyway.
#[derive(Debug)]
pub(crate) struct Place {
    client: Client,
    path: String,
    created: Zxid,
    /// Whether the name is unique. Then no other session can create such a znode.
    is_unique: bool,
    is_kept: bool,
}

impl Place {
    /// Takes a place at the end of a line. If the answer is lost, the attempt is repeated and finds
    /// the place. If the caller is cancelled meanwhile, the place is deleted.
    pub(crate) async fn in_line(
        client: &Client,
        line: &str,
        prefix: &str,
        data: &[u8],
        acl: &Acls,
    ) -> Result<Self> {
        let mode = CreateMode::EphemeralSequential;
        Self::protected(client, line, prefix, mode, data, acl).await
    }

    /// As [`Place::in_line`], with a mode. The name is unique in every mode.
    pub(crate) async fn protected(
        client: &Client,
        line: &str,
        prefix: &str,
        mode: CreateMode,
        data: &[u8],
        acl: &Acls,
    ) -> Result<Self> {
        let (making, line) = (client.unowned(), line.to_owned());
        let path = path::join(&line, prefix);
        let (data, acl) = (data.to_vec(), acl.clone());
        Self::made_by(client, async move {
            let client = making;
            let mut created = client.create_protected(&path, &data, mode, &acl).await;
            if matches!(&created, Err(error) if error.code() == ErrorCode::NO_NODE) {
                Retry::default().reads(|| client.create_all(&line, &acl)).await?;
                created = client.create_protected(&path, &data, mode, &acl).await;
            }
            let Created { path, stat, .. } = created?;
            let mut place = Self::of(&client, path, stat);
            place.is_unique = true;
            Ok(place)
        })
        .await
    }

    /// Creates a znode with a unique name below `parent`, on condition that the znode `guard`
    /// exists. If the answer is lost, the attempt is repeated and finds the znode.
    ///
    /// # Errors
    /// [`Error::Deleted`] without the guard; those of the request.
    pub(crate) async fn guarded(
        client: &Client,
        parent: &str,
        data: &[u8],
        acl: &Acls,
        guard: &str,
    ) -> Result<Self> {
        let path = path::join(parent, &client.unique_name());
        let (making, guard) = (client.unowned(), guard.to_owned());
        let (data, acl) = (data.to_vec(), acl.clone());
        Self::made_by(client, async move {
            let client = making;
            let create = || {
                let mut transaction = client.transaction();
                transaction.check(&guard, Version::ANY);
                transaction.create(&path, &data, CreateMode::Ephemeral, &acl);
                transaction.commit()
            };
            let mut attempts = Retry::default().attempts;
            let mut unknown = None;
            let failed = loop {
                let error = match Retry::default().writes(create).await {
                    Ok(_) => break None,
                    Err(error) => error,
                };
                match error.kind() {
                    // The name is unique: an attempt whose answer was lost has created the znode.
                    ErrorKind::Conflict if error.failed_operation() == Some(1) => break None,
                    ErrorKind::Unknown if attempts > 1 => {
                        attempts -= 1;
                        unknown = Some(error);
                    }
                    ErrorKind::Gone if error.failed_operation() == Some(0) => {
                        break Some(Error::Deleted(guard.clone()));
                    }
                    ErrorKind::NotExecuted => {
                        break Some(unknown.clone().unwrap_or(error).into());
                    }
                    _ => break Some(error.into()),
                }
            };
            let failed = match failed {
                None => match Retry::default().reads(|| client.exists(&path)).await {
                    Ok(Some(stat)) => {
                        let mut place = Self::of(&client, path, stat);
                        place.is_unique = true;
                        return Ok(place);
                    }
                    Ok(None) => Error::Deleted(path.clone()),
                    Err(error) => error.into(),
                },
                Some(error) => error,
            };
            // An attempt whose answer was lost may have created it.
            cleanup::delete_behind(&client, Mine { path, whose: Whose::Unique });
            Err(failed)
        })
        .await
    }

    /// Completes the creation of a place even if the caller is cancelled or its runtime ends, so
    /// that the znode can be deleted. This runs on the session's thread, with an
    /// [unowned](Client::unowned) client.
    pub(crate) async fn made_by<T: Send + 'static>(
        client: &Client,
        making: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        client.thread().spawn(async move {
            // If the receiver is gone, the place is dropped, and dropping it deletes the znode.
            let _ = sender.send(making.await);
        });
        receiver.await.expect("the session's thread lives as long as the client")
    }

    /// The place of a znode that this session has created.
    pub(crate) fn of(client: &Client, path: String, stat: Stat) -> Self {
        let client = client.unowned();
        Self { client, path, created: stat.czxid, is_unique: false, is_kept: true }
    }

    /// Records that the znode was deleted by other means.
    pub(crate) fn is_gone(&mut self) {
        self.is_kept = false;
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn name(&self) -> &str {
        path::name(&self.path)
    }

    /// The zxid of the transaction that created the znode.
    pub(crate) fn created(&self) -> Zxid {
        self.created
    }

    fn mine(&self) -> Mine {
        let whose = if self.is_unique { Whose::Unique } else { Whose::Created(self.created) };
        Mine { path: self.path.clone(), whose }
    }

    /// Deletes the znode, and returns when it is deleted. The result tells whether the znode
    /// existed until then, as far as known. If deleting fails, dropping this value continues it in
    /// the background.
    ///
    /// # Errors
    /// The errors of deleting, if repeated attempts failed.
    pub(crate) async fn leave(&mut self) -> Result<bool> {
        let was_there = cleanup::delete(&self.client, &self.mine()).await?;
        self.is_kept = false;
        Ok(was_there)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_kept && !faults::leaves_places_behind() {
            cleanup::delete_behind(&self.client, self.mine());
        }
    }
}

/// Whether another attempt may succeed.
pub(crate) fn is_passing(error: &zebu_client::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotExecuted | ErrorKind::Unknown)
}
