//! Repeated deletes: a bounded number of attempts while the caller waits, then without limit in the
//! background.

use std::time::Duration;

use tracing::warn;
use zebu_client::{Client, ErrorCode, ErrorKind, Retry, Version, Zxid};

use crate::Result;
use crate::current::{after_sync, with_data};

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A znode that this session has created and wants to delete. A later znode in its place is left
/// alone.
#[derive(Clone, Debug)]
pub(crate) struct Mine {
    pub(crate) path: String,
    pub(crate) whose: Whose,
}

/// The mark that distinguishes a znode of this session from a later one in its place.
#[derive(Clone, Debug)]
pub(crate) enum Whose {
    /// Its name is unique, so that only this session can have created it.
    Unique,
    /// This transaction created it.
    Created(Zxid),
    /// Its data are unique. It may have been created by a transaction whose answer was lost.
    WithData(Vec<u8>),
}

/// Whether an attempt to delete a znode has deleted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deleted {
    Now,
    /// The znode was already deleted before this attempt.
    Before,
}

/// The version of the znode's data, if the znode is there and of this session.
///
/// A member that is behind can still show the znode of this session after another session has
/// created one with the same version, so a `sync` precedes each read.
async fn version(client: &Client, mine: &Mine) -> zebu_client::Result<Option<Version>> {
    match &mine.whose {
        Whose::Unique => Ok(Some(Version::ANY)),
        Whose::Created(created) => {
            let found = after_sync(client, &mine.path, || client.exists(&mine.path)).await?;
            let stat = found.filter(|stat| stat.czxid == *created);
            Ok(stat.map(|stat| Version(stat.version)))
        }
        Whose::WithData(unique) => {
            let stat = with_data(client, &mine.path, unique).await?;
            Ok(stat.map(|stat| Version(stat.version)))
        }
    }
}

async fn attempt(client: &Client, mine: &Mine) -> zebu_client::Result<Deleted> {
    while let Some(version) = version(client, mine).await? {
        match client.delete(&mine.path, version).await {
            Ok(()) => return Ok(Deleted::Now),
            Err(error) if error.kind() == ErrorKind::Gone => return Ok(Deleted::Before),
            // Another client has written the data, or a later znode is in its place.
            Err(error) if error.code() == ErrorCode::BAD_VERSION => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Deleted::Before)
}

/// Deletes a znode of this session. Returns whether it still existed, as far as known.
///
/// # Errors
/// The errors of deleting, if repeated attempts failed.
pub(crate) async fn delete(client: &Client, mine: &Mine) -> Result<bool> {
    let mut pause = PAUSE_MIN;
    // Whether an earlier attempt may have deleted the znode.
    let mut is_in_doubt = false;
    let mut attempts = Retry::default().attempts;
    loop {
        let error = match attempt(client, mine).await {
            Ok(Deleted::Now) => return Ok(true),
            Ok(Deleted::Before) => return Ok(is_in_doubt),
            Err(error) => error,
        };
        attempts -= 1;
        match error.kind() {
            ErrorKind::Unknown => is_in_doubt = true,
            // The request has already waited for a connection, as long as the program permits, so
            // do not repeat it here.
            ErrorKind::NotExecuted if error.code() == ErrorCode::CONNECTION_LOSS => attempts = 0,
            ErrorKind::NotExecuted | ErrorKind::ReadOnly | ErrorKind::Server => {}
            _ => return Err(error.into()),
        }
        if attempts == 0 {
            return Err(error.into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Deletes a znode of this session in the background, until it is deleted or the session has ended,
/// which deletes it too. This runs on the session's own thread, independently of the caller.
pub(crate) fn delete_behind(client: &Client, mine: Mine) {
    let client = client.unowned();
    let thread = client.thread().clone();
    thread.spawn(async move {
        let mut pause = PAUSE_MIN;
        while let Err(error) = attempt(&client, &mine).await {
            match error.kind() {
                ErrorKind::SessionOver => return,
                ErrorKind::Denied | ErrorKind::Invalid | ErrorKind::Conflict => {
                    warn!("a znode could not be deleted and stays until the session ends: {error}");
                    return;
                }
                _ => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    });
}
