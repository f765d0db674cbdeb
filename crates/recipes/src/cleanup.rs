//! Deletes that are repeated until they are done.

use std::time::Duration;

use tracing::warn;
use zebu_client::{Client, ErrorKind, Version};

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Deletes a znode of this session however long that takes: until it is gone, or the session is over and has
/// taken it along. Returns whether it was there until then, as far as can be told.
pub(crate) async fn delete(client: &Client, path: &str) -> bool {
    let mut pause = PAUSE_MIN;
    // Whether an earlier attempt may have been the one that deleted it.
    let mut is_in_doubt = false;
    loop {
        let Err(error) = client.delete(path, Version::ANY).await else { return true };
        match error.kind() {
            ErrorKind::Gone => return is_in_doubt,
            ErrorKind::SessionOver => return false,
            // Somebody has taken it over; it ends with the session.
            ErrorKind::Denied | ErrorKind::Invalid | ErrorKind::Conflict => {
                warn!("left behind until the session ends: {error}");
                return true;
            }
            ErrorKind::Unknown => is_in_doubt = true,
            _ => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The same, without anybody who waits for it.
pub(crate) fn delete_behind(client: Client, path: String) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn(async move { delete(&client, &path).await });
        }
        // Once, then: the program is ending, and its session with it.
        Err(_) => client.delete(&path, Version::ANY).detach(),
    }
}
