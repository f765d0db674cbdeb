//! Values and counts that several programs share and change.

use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Outcome, Retry, Stat, Version};

use crate::error::found_out;
use crate::{Error, Result, Value, faults, path};

/// A value and its version.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let count = zebu_recipes::SharedCount::new(&client, "/count", 7, &Acls::creator());
/// let found = count.get().await?;
/// assert_eq!((found.value, found.version.0), (7, 0));
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The version of the znode's data: it grows with each write.
    pub version: Version,
}

/// Bytes that several programs share. All see the same value, and each may write it on condition
/// that no other program has written it meanwhile. Compatible with Curator's `SharedValue` of the
/// same znode.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::SharedValue;
///
/// let shared = SharedValue::new(&client, "/mode", "slow", &Acls::creator());
/// let seen = shared.get().await?;
/// assert!(shared.try_set(seen.version, "fast").await?.is_some());
/// assert!(shared.try_set(seen.version, "late").await?.is_none());
/// assert_eq!(shared.get().await?.value, b"fast");
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct SharedValue {
    client: Client,
    path: String,
    seed: Vec<u8>,
    acl: Acls,
}

impl SharedValue {
    /// The value in this znode. If the znode is missing, it is created with this value and ACL, and
    /// so are its parents.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let shared = zebu_recipes::SharedValue::new(&client, "/mode", "slow", &Acls::creator());
    /// # drop(shared);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, seed: impl AsRef<[u8]>, acl: &Acls) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), seed: seed.as_ref().to_vec(), acl }
    }

    /// The value.
    ///
    /// # Errors
    /// The errors of reading, and of creating the znode.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let shared = zebu_recipes::SharedValue::new(&client, "/mode", "slow", &Acls::creator());
    /// assert_eq!(shared.get().await?.value, b"slow");
    /// # Ok(()) });
    /// ```
    pub async fn get(&self) -> Result<Versioned<Vec<u8>>> {
        loop {
            match Retry::default().reads(|| self.client.get_data(&self.path)).await {
                Ok((data, stat)) => {
                    return Ok(Versioned { value: data.to_vec(), version: Version(stat.version) });
                }
                Err(error) if error.kind() == ErrorKind::Gone => self.seed().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sets the value unconditionally. Returns the new version.
    ///
    /// # Errors
    /// The errors of writing. After [`ErrorKind::Unknown`] it may be set. Setting it again may
    /// overwrite a later write of another program.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let shared = zebu_recipes::SharedValue::new(&client, "/mode", "slow", &Acls::creator());
    /// shared.set("fast").await?;
    /// assert_eq!(shared.get().await?.value, b"fast");
    /// # Ok(()) });
    /// ```
    pub async fn set(&self, value: impl AsRef<[u8]>) -> Result<Version> {
        let set = || self.client.set_data(&self.path, &value, Version::ANY);
        loop {
            match Retry::default().writes(set).await {
                Ok(stat) => return Ok(Version(stat.version)),
                Err(error) if error.kind() == ErrorKind::Gone => self.seed().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sets the value if it still has this version. Returns the new version; `None` if another
    /// program was faster.
    ///
    /// # Errors
    /// The errors of writing. [`ErrorKind::Unknown`] if the answer was lost and the value is now
    /// the new one: this program may have set it, or another one to the same value.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, Version};
    /// let shared = zebu_recipes::SharedValue::new(&client, "/mode", "slow", &Acls::creator());
    /// assert_eq!(shared.try_set(Version(0), "fast").await?, Some(Version(1)));
    /// assert_eq!(shared.try_set(Version(0), "late").await?, None);
    /// # Ok(()) });
    /// ```
    pub async fn try_set(
        &self,
        version: Version,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Version>> {
        self.seed_if_missing().await?;
        let written = try_write(&self.client, &self.path, version, value.as_ref()).await?;
        Ok(written.map(|stat| Version(stat.version)))
    }

    /// The current value, then each new one. Between two reads it may have changed several times.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let shared = zebu_recipes::SharedValue::new(&client, "/mode", "slow", &Acls::creator());
    /// let mut changes = shared.changes();
    /// assert_eq!(changes.next().await?.value, b"slow");
    /// shared.set("fast").await?;
    /// assert_eq!(changes.next().await?.value, b"fast");
    /// # Ok(()) });
    /// ```
    pub fn changes(&self) -> ValueChanges {
        ValueChanges { value: Value::of(&self.client, &self.path), shared: self.clone() }
    }

    async fn seed_if_missing(&self) -> Result<()> {
        let stat = Retry::default().reads(|| self.client.exists(&self.path)).await?;
        if stat.is_none() { self.seed().await } else { Ok(()) }
    }

    async fn seed(&self) -> Result<()> {
        let create = || self.client.create(&self.path, &self.seed, MODE, &self.acl);
        create_with_parents(&self.client, &self.path, &self.acl, create).await.map(drop)
    }
}

const MODE: CreateMode = CreateMode::Persistent;

/// Creates a znode and its missing parents. Returns whether this call created it; the znode exists
/// in any case.
pub(crate) async fn create_with_parents<F>(
    client: &Client,
    path: &str,
    acl: &Acls,
    create: impl Fn() -> F,
) -> Result<bool>
where
    F: Future<Output = zebu_client::Result<zebu_client::Created>>,
{
    loop {
        let error = match Retry::default().reads(&create).await {
            Ok(_) => return Ok(true),
            Err(error) => error,
        };
        match error.code() {
            ErrorCode::NODE_EXISTS => return Ok(false),
            ErrorCode::NO_NODE => {
                Retry::default().reads(|| client.create_all(path::parent(path), acl)).await?;
            }
            _ => return Err(error.into()),
        }
    }
}

/// Writes on condition of a version; `None` if the znode has another version.
///
/// # Errors
/// [`ErrorKind::Unknown`] if the answer was lost and the data are the new ones: this program or
/// another one may have written them.
pub(crate) async fn try_write(
    client: &Client,
    path: &str,
    version: Version,
    data: &[u8],
) -> Result<Option<Stat>> {
    let mut attempts = Retry::default().attempts;
    let version = if faults::ignores_versions() { Version::ANY } else { version };
    loop {
        let set = || client.set_data(path, data, version);
        let error = match Retry::default().writes(set).await {
            Ok(stat) => return Ok(Some(stat)),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Conflict => return Ok(None),
            ErrorKind::Unknown => {}
            _ => return Err(error.into()),
        }
        let ask = || client.after_lost_set_data(path, data, version);
        match found_out(Retry::default().reads(ask).await, &error)? {
            Outcome::DidNot if attempts > 1 => attempts -= 1,
            _ => return Err(error.into()),
        }
    }
}

/// The values of a [`SharedValue`], one after the other.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let shared = zebu_recipes::SharedValue::new(&client, "/mode", "slow", &Acls::creator());
/// println!("{:?}", shared.changes().next().await?);
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct ValueChanges {
    value: Value,
    shared: SharedValue,
}

impl ValueChanges {
    /// Waits until the value changes; the first call does not wait. If the znode was deleted, it is
    /// created again with the seed. The future may be dropped and called again without missing a
    /// change.
    ///
    /// # Errors
    /// The errors of reading and creating, if repeated attempts failed; the session has ended.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let shared = zebu_recipes::SharedValue::new(&client, "/mode", "slow", &Acls::creator());
    /// assert_eq!(shared.changes().next().await?.value, b"slow");
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Versioned<Vec<u8>>> {
        loop {
            self.shared.seed_if_missing().await?;
            if let Some((value, stat)) = self.value.next().await? {
                return Ok(Versioned { value, version: Version(stat.version) });
            }
        }
    }
}

/// A number that several programs share. Compatible with Curator's `SharedCount` of the same znode.
///
/// The znode's data are the number as four bytes in big-endian order.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::SharedCount;
///
/// let count = SharedCount::new(&client, "/count", 1, &Acls::creator());
/// let seen = count.get().await?;
/// assert!(count.try_set(seen.version, seen.value + 1).await?.is_some());
/// assert_eq!(client.get_data("/count").await?.0, [0, 0, 0, 2].as_slice());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct SharedCount {
    shared: SharedValue,
}

impl SharedCount {
    /// The count in this znode. If the znode is missing, it is created with this number and ACL,
    /// and so are its parents.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let count = zebu_recipes::SharedCount::new(&client, "/count", 1, &Acls::creator());
    /// # drop(count);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, seed: i32, acl: &Acls) -> Self {
        Self { shared: SharedValue::new(client, path, seed.to_be_bytes(), acl) }
    }

    /// The number.
    ///
    /// # Errors
    /// As for [`SharedValue::get`]; [`Error::Foreign`] if the znode holds no number.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let count = zebu_recipes::SharedCount::new(&client, "/count", 1, &Acls::creator());
    /// assert_eq!(count.get().await?.value, 1);
    /// # Ok(()) });
    /// ```
    pub async fn get(&self) -> Result<Versioned<i32>> {
        self.number(self.shared.get().await?)
    }

    /// Sets the number unconditionally. Returns the new version.
    ///
    /// # Errors
    /// As for [`SharedValue::set`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let count = zebu_recipes::SharedCount::new(&client, "/count", 1, &Acls::creator());
    /// count.set(-5).await?;
    /// assert_eq!(count.get().await?.value, -5);
    /// # Ok(()) });
    /// ```
    pub async fn set(&self, number: i32) -> Result<Version> {
        self.shared.set(number.to_be_bytes()).await
    }

    /// Sets the number if it still has this version. Returns the new version; `None` if another
    /// program was faster.
    ///
    /// # Errors
    /// As for [`SharedValue::try_set`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, Version};
    /// let count = zebu_recipes::SharedCount::new(&client, "/count", 1, &Acls::creator());
    /// assert_eq!(count.try_set(Version(3), 2).await?, None);
    /// # Ok(()) });
    /// ```
    pub async fn try_set(&self, version: Version, number: i32) -> Result<Option<Version>> {
        self.shared.try_set(version, number.to_be_bytes()).await
    }

    /// The current number, then each new one.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let count = zebu_recipes::SharedCount::new(&client, "/count", 1, &Acls::creator());
    /// let mut changes = count.changes();
    /// assert_eq!(changes.next().await?.value, 1);
    /// count.set(2).await?;
    /// assert_eq!(changes.next().await?.value, 2);
    /// # Ok(()) });
    /// ```
    pub fn changes(&self) -> CountChanges {
        CountChanges { changes: self.shared.changes(), count: self.clone() }
    }

    fn number(&self, found: Versioned<Vec<u8>>) -> Result<Versioned<i32>> {
        let bytes = found.value.try_into().map_err(|_| Error::Foreign(self.shared.path.clone()))?;
        Ok(Versioned { value: i32::from_be_bytes(bytes), version: found.version })
    }
}

/// The numbers of a [`SharedCount`], one after the other.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let count = zebu_recipes::SharedCount::new(&client, "/count", 1, &Acls::creator());
/// println!("{:?}", count.changes().next().await?);
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct CountChanges {
    changes: ValueChanges,
    count: SharedCount,
}

impl CountChanges {
    /// Waits until the number changes, as [`ValueChanges::next`].
    ///
    /// # Errors
    /// As for [`ValueChanges::next`]; [`Error::Foreign`] if the znode holds no number.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let count = zebu_recipes::SharedCount::new(&client, "/count", 1, &Acls::creator());
    /// assert_eq!(count.changes().next().await?.value, 1);
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Versioned<i32>> {
        let found = self.changes.next().await?;
        self.count.number(found)
    }
}
