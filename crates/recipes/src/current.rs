//! Reads that show everything that was written before them, whichever member answers.

use zebu_client::{Client, ErrorKind, Pending, Result, Stat};

/// Reads after a `sync`, without another round trip. `read` sends the read.
///
/// Without the `sync`, a member that is behind answers with an old state.
pub(crate) async fn after_sync<T>(
    client: &Client,
    path: &str,
    read: impl FnOnce() -> Pending<T>,
) -> Result<T> {
    let (synced, found) = (client.sync(path), read());
    synced.await?;
    found.await
}

/// The znode, if it is there and has exactly these data. Unique data prove who has created it.
pub(crate) async fn with_data(client: &Client, path: &str, data: &[u8]) -> Result<Option<Stat>> {
    match after_sync(client, path, || client.get_data(path)).await {
        Ok((found, stat)) => Ok((*found == *data).then_some(stat)),
        Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
        Err(error) => Err(error),
    }
}
