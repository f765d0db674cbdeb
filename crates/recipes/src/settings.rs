//! Dynamic configuration: several settings that change together and are read together.

use std::collections::BTreeMap;

use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry, Version, Watch};

use crate::{Result, faults, path};

/// A child with this name means that another tool is changing settings one by one, so readers must
/// wait.
const INVALID: &str = "invalid";

/// Settings: each is a child of one znode. Writers change several settings in one transaction.
/// Readers see all of a change or nothing of it.
///
/// Each writer also writes the parent, so that a reader watches one znode, however many settings
/// there are. A tool that cannot change settings in one transaction calls [`Settings::hold`] before
/// and [`Settings::release`] after its changes; meanwhile readers wait.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Settings;
///
/// let settings = Settings::new(&client, "/config", &Acls::creator());
/// settings.set(&[("host", Some("db1")), ("port", Some("5432"))]).await?;
/// let mut reader = settings.clone();
/// assert_eq!(reader.next().await?.values["port"], b"5432");
/// settings.set(&[("host", Some("db2")), ("port", None)]).await?;
/// let now = reader.next().await?;
/// assert_eq!((now.values["host"].as_slice(), now.values.len()), (&b"db2"[..], 1));
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct Settings {
    client: Client,
    path: String,
    acl: Acls,
    seen: Option<Snapshot>,
    /// Watches on the parent's data and on its children.
    watches: Option<(Watch, Watch)>,
}

/// Settings as they were at one moment.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let mut settings = zebu_recipes::Settings::new(&client, "/config", &Acls::creator());
/// assert!(settings.next().await?.values.is_empty());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Grows with each change made through [`Settings`].
    pub version: i32,
    /// The settings by name.
    pub values: BTreeMap<String, Vec<u8>>,
}

/// A clone is an independent reader that has seen nothing yet.
impl Clone for Settings {
    fn clone(&self) -> Self {
        Self::new(&self.client, &self.path, &self.acl)
    }
}

impl Settings {
    /// The settings below this znode. The znode is created with this ACL if it is missing.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let settings = zebu_recipes::Settings::new(&client, "/config", &Acls::creator());
    /// # drop(settings);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), acl, seen: None, watches: None }
    }

    /// Changes settings: all of these changes happen, or none. `None` removes a setting. Returns
    /// the new version.
    ///
    /// If two writers change the same setting at the same time, the later write wins.
    ///
    /// # Errors
    /// [`Error::Name`](crate::Error::Name) for an invalid child name, and for the reserved name
    /// `invalid`. Otherwise the errors of the requests. After [`ErrorKind::Unknown`] the settings
    /// may have been changed; changing them again does no harm.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let settings = zebu_recipes::Settings::new(&client, "/config", &Acls::creator());
    /// assert_eq!(settings.set(&[("host", Some("db1"))]).await?, 1);
    /// assert_eq!(settings.set(&[("host", None)]).await?, 2);
    /// # Ok(()) });
    /// ```
    pub async fn set(&self, changes: &[(&str, Option<&str>)]) -> Result<i32> {
        for (name, _) in changes {
            path::check_name(name, &[INVALID])?;
        }
        Retry::default().reads(|| self.client.create_all(&self.path, &self.acl)).await?;
        let mut attempts = Retry::default().attempts;
        loop {
            let error = match self.try_set(changes).await {
                Ok(version) => return Ok(version),
                Err(error) => error,
            };
            // Another writer was faster. Look again which children must be created and which must
            // be written.
            let is_race = matches!(error.kind(), ErrorKind::Gone | ErrorKind::Conflict);
            attempts -= 1;
            if !is_race || attempts == 0 {
                return Err(error.into());
            }
        }
    }

    async fn try_set(&self, changes: &[(&str, Option<&str>)]) -> zebu_client::Result<i32> {
        let look = || self.client.get_children(&self.path);
        let (names, parent) = Retry::default().reads(look).await?;
        let commit = || async {
            let mut transaction = self.client.transaction();
            let mut seen = Version::ANY;
            for (name, value) in changes {
                let path = path::join(&self.path, name);
                let is_there = names.iter().any(|there| there == name);
                match value {
                    Some(value) if is_there => {
                        transaction.set_data(&path, value, Version::ANY);
                    }
                    Some(value) => {
                        let mode = CreateMode::Persistent;
                        transaction.create(&path, value, mode, &self.acl);
                    }
                    None if is_there => {
                        transaction.delete(&path, Version::ANY);
                    }
                    // There is nothing to delete unless another writer is about to create it.
                    None => seen = Version(parent.version),
                }
            }
            let version = transaction.set_data(&self.path, "", seen);
            let results = transaction.commit().await?;
            Ok(results.get(version).version)
        };
        Retry::default().writes(commit).await
    }

    /// Makes readers wait until [`Settings::release`]. Meanwhile they keep the settings that they
    /// have read. This is for programs that cannot change settings in one transaction.
    ///
    /// # Errors
    /// The errors of [`Client::create`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let settings = zebu_recipes::Settings::new(&client, "/config", &Acls::creator());
    /// settings.hold().await?;
    /// settings.set(&[("host", Some("db1"))]).await?;
    /// settings.set(&[("port", Some("5432"))]).await?;
    /// settings.release().await?;
    /// assert_eq!(settings.clone().next().await?.values.len(), 2);
    /// # Ok(()) });
    /// ```
    pub async fn hold(&self) -> Result<()> {
        Retry::default().reads(|| self.client.create_all(&self.path, &self.acl)).await?;
        let path = path::join(&self.path, INVALID);
        let create = || self.client.create(&path, "", CreateMode::Persistent, &self.acl);
        match Retry::default().reads(create).await {
            Err(error) if error.code() != ErrorCode::NODE_EXISTS => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Lets readers continue.
    ///
    /// # Errors
    /// The errors of [`Client::delete`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let settings = zebu_recipes::Settings::new(&client, "/config", &Acls::creator());
    /// settings.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn release(&self) -> Result<()> {
        let path = path::join(&self.path, INVALID);
        match Retry::default().reads(|| self.client.delete(&path, Version::ANY)).await {
            Err(error) if error.kind() != ErrorKind::Gone => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until the settings differ from the last result. The first call waits only while
    /// readers are [held](Settings::hold). The future may be dropped and called again without
    /// missing a change.
    ///
    /// # Errors
    /// The errors of reading, if repeated attempts failed; the session has ended.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let mut settings = zebu_recipes::Settings::new(&client, "/config", &Acls::creator());
    /// println!("{:?}", settings.next().await?);
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Snapshot> {
        Retry::default().reads(|| self.client.create_all(&self.path, &self.acl)).await?;
        loop {
            if let Some((data, children)) = &mut self.watches {
                let change =
                    tokio::select! { biased; change = data => change, change = children => change };
                self.watches = None;
                change?;
            }
            let (snapshot, watches) = self.look().await?;
            // Not before everything is read: whoever drops this future meanwhile has seen nothing,
            // and must not wait for the next change.
            self.watches = Some(watches);
            match snapshot {
                Some(snapshot) if self.seen.as_ref() != Some(&snapshot) => {
                    self.seen = Some(snapshot.clone());
                    return Ok(snapshot);
                }
                // The settings are unchanged, or readers must wait: wait for the watches.
                _ => {}
            }
        }
    }

    /// Reads all settings; `None` while readers must wait. Reads again if a writer changes
    /// something meanwhile. The watches are on what was read.
    async fn look(&self) -> Result<(Option<Snapshot>, (Watch, Watch))> {
        loop {
            let read = || async {
                let data = self.client.watch_data(&self.path);
                let children = self.client.watch_children(&self.path);
                let ((_, stat, data), (names, _, children)) = (data.await?, children.await?);
                Ok((stat, names, (data, children)))
            };
            let (before, names, watches) = Retry::default().reads(read).await?;
            if names.iter().any(|name| name == INVALID) && !faults::reads_what_is_held() {
                return Ok((None, watches));
            }
            let read = || async {
                let reads: Vec<_> = names
                    .iter()
                    .map(|name| self.client.get_data(&path::join(&self.path, name)))
                    .collect();
                // This request is the last one: if the parent is unchanged, all reads before it
                // show the same version.
                let after = self.client.exists(&self.path);
                let mut values = BTreeMap::new();
                for (name, read) in names.iter().zip(reads) {
                    match read.await {
                        Ok((data, _)) => drop(values.insert(name.clone(), data.to_vec())),
                        Err(error) if error.kind() == ErrorKind::Gone => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok((values, after.await?))
            };
            let (values, after) = Retry::default().reads(read).await?;
            let is_same = after
                .is_some_and(|after| (after.mzxid, after.pzxid) == (before.mzxid, before.pzxid));
            if is_same || faults::reads_settings_one_by_one() {
                return Ok((Some(Snapshot { version: before.version, values }), watches));
            }
        }
    }
}
