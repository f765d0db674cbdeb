//! Unique numbers: each caller gets other numbers.

use std::ops::Range;

use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Outcome, Retry, Version};

use crate::error::found_out;
use crate::{Error, Result};

/// A counter that gives each number to one caller only.
///
/// Numbers may be skipped: if a connection is lost at the wrong moment, no caller gets them. Taking
/// many at a time costs no more than taking one.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Ids;
///
/// let ids = Ids::new(&client, "/ids", &Acls::creator());
/// assert_eq!(ids.take(10).await?, 0..10);
/// assert_eq!(ids.take(1).await?, 10..11);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Ids {
    client: Client,
    path: String,
    acl: Acls,
}

impl Ids {
    /// The counter in this znode. If the znode is missing, it is created with this ACL; its parent
    /// must exist.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let ids = zebu_recipes::Ids::new(&client, "/ids", &Acls::creator());
    /// # drop(ids);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { client: client.clone(), path: path.to_owned(), acl: acl.clone() }
    }

    /// Takes the next numbers.
    ///
    /// # Errors
    /// The errors of the requests; [`Error::Foreign`] if the znode contains no number, or too large
    /// a number.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let ids = zebu_recipes::Ids::new(&client, "/ids", &Acls::creator());
    /// let (one, two) = tokio::try_join!(ids.take(5), ids.take(5))?;
    /// assert!(one.end <= two.start || two.end <= one.start);
    /// # Ok(()) });
    /// ```
    pub async fn take(&self, count: u32) -> Result<Range<u64>> {
        // Two callers may write the same number: only their names distinguish them.
        let name = self.client.unique_name();
        loop {
            let (first, version) = match self.next().await? {
                Some(found) => found,
                None => {
                    let create =
                        || self.client.create(&self.path, "0", CreateMode::Persistent, &self.acl);
                    match Retry::default().reads(create).await {
                        Err(error) if error.code() != ErrorCode::NODE_EXISTS => {
                            return Err(error.into());
                        }
                        _ => continue,
                    }
                }
            };
            let taken = first..first.saturating_add(u64::from(count));
            let text = format!("{} {name}", taken.end);
            let set = || self.client.set_data(&self.path, &text, version);
            let error = match Retry::default().writes(set).await {
                Ok(_) => return Ok(taken),
                Err(error) => error,
            };
            match error.kind() {
                // Another caller was faster.
                ErrorKind::Conflict => {}
                ErrorKind::Unknown => {
                    let ask = || self.client.after_lost_set_data(&self.path, &text, version);
                    let found = Retry::default().reads(ask).await;
                    if let Outcome::Happened(_) = found_out(found, &error)? {
                        return Ok(taken);
                    }
                    // The write may have succeeded before others came: then no caller gets these
                    // numbers.
                }
                _ => return Err(error.into()),
            }
        }
    }

    /// The next number, and the version in which it was found.
    async fn next(&self) -> Result<Option<(u64, Version)>> {
        let (data, stat) = match Retry::default().reads(|| self.client.get_data(&self.path)).await {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Gone => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let number = std::str::from_utf8(&data)
            .ok()
            .and_then(|text| text.split(' ').next())
            .and_then(|number| number.parse().ok())
            .filter(|number| *number < u64::MAX - u64::from(u32::MAX));
        match number {
            Some(number) => Ok(Some((number, Version(stat.version)))),
            None => Err(Error::Foreign(self.path.clone())),
        }
    }
}
