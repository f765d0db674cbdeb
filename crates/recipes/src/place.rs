//! A znode of this session that goes away with the value that stands for it.

use tokio::sync::oneshot;
use zebu_client::{Acls, Client, CreateMode, Created, ErrorCode, ErrorKind, Retry, Stat, Zxid};

use crate::{Result, cleanup, path};

/// An ephemeral znode that is deleted when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    client: Client,
    path: String,
    created: Zxid,
    is_kept: bool,
}

impl Place {
    /// Takes a place at the end of a line. Where the answer is lost it is found again; where the caller goes
    /// away before it is known, it is given up.
    pub(crate) async fn in_line(
        client: &Client,
        line: &str,
        prefix: &str,
        data: &[u8],
        acl: &Acls,
    ) -> Result<Self> {
        let (client, line) = (client.clone(), line.to_owned());
        let path = path::join(&line, prefix);
        let (data, acl) = (data.to_vec(), acl.clone());
        Self::made_by(async move {
            let mode = CreateMode::EphemeralSequential;
            let mut created = client.create_protected(&path, &data, mode, &acl).await;
            if matches!(&created, Err(error) if error.code() == ErrorCode::NO_NODE) {
                Retry::default().reads(|| client.create_all(&line, &acl)).await?;
                created = client.create_protected(&path, &data, mode, &acl).await;
            }
            let Created { path, stat, .. } = created?;
            Ok(Self::of(&client, path, stat))
        })
        .await
    }

    /// Carries on with what makes a place although the caller may be cancelled: somebody must take back what the
    /// servers have done meanwhile.
    pub(crate) async fn made_by<T: Send + 'static>(
        making: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            // Not received means dropped, and dropped means deleted.
            let _ = sender.send(making.await);
        });
        receiver.await.expect("the task above sends, unless the runtime ends, and we with it")
    }

    /// One that this session has created.
    pub(crate) fn of(client: &Client, path: String, stat: Stat) -> Self {
        Self { client: client.clone(), path, created: stat.czxid, is_kept: true }
    }

    /// It was deleted by other means.
    pub(crate) fn is_gone(&mut self) {
        self.is_kept = false;
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn name(&self) -> &str {
        path::name(&self.path)
    }

    /// The transaction that created it.
    pub(crate) fn created(&self) -> Zxid {
        self.created
    }

    /// Deletes it, and returns when it is gone: whether it was there until then, as far as can be told.
    pub(crate) async fn leave(mut self) -> bool {
        let was_there = cleanup::delete(&self.client, &self.path).await;
        self.is_kept = false;
        was_there
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_kept {
            cleanup::delete_behind(self.client.clone(), std::mem::take(&mut self.path));
        }
    }
}

/// Whether repeating a request may help.
pub(crate) fn is_passing(error: &zebu_client::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotExecuted | ErrorKind::Unknown)
}
