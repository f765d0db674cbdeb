//! Transactions that are executed once, even if their answers are lost.

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, Transaction};

use crate::cleanup::{self, Mine, Whose};
use crate::{Result, path};

/// Commits a transaction with the operations that `add` adds, once. `marks` is a znode for marks,
/// created with this ACL if it is missing. `is_trusting` is a deliberate fault.
///
/// Each transaction creates a mark as its first operation, and the mark stays until the outcome is
/// known. So the mark proves that an earlier attempt was executed, whatever others have done since.
///
/// # Errors
/// Those of the added operations, whose numbers begin with 1. [`ErrorKind::Unknown`] if the
/// connection was lost repeatedly.
pub(crate) async fn once(
    client: &Client,
    marks: &str,
    acl: &Acls,
    add: impl Fn(&mut Transaction),
    is_trusting: bool,
) -> Result<()> {
    let mark = path::join(marks, &client.unique_name());
    let commit = || {
        let mut transaction = client.transaction();
        transaction.create(&mark, "", CreateMode::Ephemeral, acl);
        add(&mut transaction);
        transaction.commit()
    };
    let mut is_prepared = false;
    let mut attempts = Retry::default().attempts;
    let mut unknown = None;
    loop {
        let error = match Retry::default().writes(commit).await {
            Ok(_) => break,
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Gone if error.failed_operation() == Some(0) && !is_prepared => {
                is_prepared = true;
                Retry::default().reads(|| client.create_all(marks, acl)).await?;
            }
            // The mark exists: the previous attempt succeeded.
            ErrorKind::Conflict if error.failed_operation() == Some(0) => break,
            ErrorKind::Unknown if is_trusting => break,
            // Another attempt finds the mark of this one, or is executed.
            ErrorKind::Unknown if attempts > 1 => {
                attempts -= 1;
                unknown = Some(error);
            }
            // An earlier attempt may have been executed all the same.
            ErrorKind::NotExecuted => return Err(unknown.unwrap_or(error).into()),
            _ => return Err(error.into()),
        }
    }
    cleanup::delete_behind(client, Mine { path: mark, whose: Whose::Unique });
    Ok(())
}
