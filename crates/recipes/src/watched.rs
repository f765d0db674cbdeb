//! A znode that is read again after each change, whether it exists or not.

use zebu_client::{Client, ErrorKind, Retry, Stat, Watch};

use crate::Result;

/// What [`Children`](crate::Children) and [`Value`](crate::Value) have in common.
#[derive(Debug)]
pub(crate) struct Watched {
    client: Client,
    path: String,
    /// Fires when the last read is out of date. `None`: the next call reads at once.
    watch: Option<Watch>,
}

impl Watched {
    /// The znode at this path, which need not exist.
    pub(crate) fn new(client: &Client, path: &str) -> Self {
        Self { client: client.clone(), path: path.to_owned(), watch: None }
    }

    /// Waits until the last read is out of date, and reads; the first call does not wait. `None`
    /// while the znode does not exist. `read` also sets a watch on what it reads.
    ///
    /// The future may be dropped and called again without missing a change.
    pub(crate) async fn next<T, F>(
        &mut self,
        read: impl Fn(&Client, &str) -> F,
    ) -> Result<Option<(T, Stat)>>
    where
        F: Future<Output = zebu_client::Result<(T, Stat, Watch)>>,
    {
        if let Some(watch) = &mut self.watch {
            let change = watch.await;
            self.watch = None;
            change?;
        }
        loop {
            match Retry::default().reads(|| read(&self.client, &self.path)).await {
                Ok((found, stat, watch)) => {
                    self.watch = Some(watch);
                    return Ok(Some((found, stat)));
                }
                Err(error) if error.kind() == ErrorKind::Gone => {}
                Err(error) => return Err(error.into()),
            }
            let exists = || self.client.watch_exists(&self.path);
            let (stat, watch) = Retry::default().reads(exists).await?;
            if stat.is_none() {
                self.watch = Some(watch);
                return Ok(None);
            }
            // The znode was created between the two reads.
        }
    }
}
