//! Values of a type in the znodes of a template. A schema defines their paths, their encoding, and
//! the valid values.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Outcome, Retry, Stat, Version};

use crate::counts::try_write;
use crate::error::found_out;
use crate::{Cache, Error, Result, Znode, faults, path};

/// A fault of a value or of data, as a codec or a rule finds it. A text becomes one with `.into()`.
pub type ModelFault = Box<dyn std::error::Error + Send + Sync>;

/// The encoding of values as the data of znodes.
///
/// ```
/// use zebu_recipes::{Codec, Json};
///
/// assert_eq!(Json.write(&vec![1, 2]).unwrap(), b"[1,2]");
/// let read: Vec<i32> = Json.read(b"[1,2]").unwrap();
/// assert_eq!(read, [1, 2]);
/// ```
pub trait Codec<T>: Send + Sync {
    /// Encodes a value.
    ///
    /// # Errors
    /// The fault of the value.
    fn write(&self, value: &T) -> std::result::Result<Vec<u8>, ModelFault>;

    /// Decodes the data of a znode.
    ///
    /// # Errors
    /// The fault of the data.
    fn read(&self, data: &[u8]) -> std::result::Result<T, ModelFault>;
}

/// Values as JSON, through serde.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn write(&self, value: &T) -> std::result::Result<Vec<u8>, ModelFault> {
        Ok(serde_json::to_vec(value)?)
    }

    fn read(&self, data: &[u8]) -> std::result::Result<T, ModelFault> {
        Ok(serde_json::from_slice(data)?)
    }
}

/// A value, and the stat of its znode when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record<T> {
    /// The value.
    pub value: T,
    /// The stat of its znode.
    pub stat: Stat,
}

type Check<T> = dyn Fn(&T) -> std::result::Result<(), ModelFault> + Send + Sync;

/// The schema of typed znodes: their paths, their encoding, their create mode, and the valid
/// values.
///
/// A template such as `/orgs/{org}/users/{user}` has an id for each part in braces. Missing parents
/// of a typed znode are created without data, with the ACL of the typed znode.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, Version};
/// use zebu_recipes::Models;
///
/// #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
/// struct User {
///     name: String,
///     age: u8,
/// }
///
/// let users = Models::<User>::json(&client, "/users/{id}", &Acls::creator())?
///     .check(|user| if user.age > 0 { Ok(()) } else { Err("nobody is so young".into()) });
/// let amy = users.at(&["amy"])?;
/// amy.create(&User { name: "Amy".into(), age: 30 }).await?;
/// let older = amy.update(|user| user.age += 1).await?.expect("she is there");
/// assert_eq!((older.value.age, older.stat.version), (31, 1));
/// assert_eq!(users.ids(&[]).await?, ["amy"]);
/// assert!(amy.set(&User { name: "Amy".into(), age: 0 }, Version::ANY).await.is_err());
/// # Ok(()) });
/// ```
pub struct Models<T>(Arc<Schema<T>>);

struct Schema<T> {
    client: Client,
    template: String,
    acl: Acls,
    mode: CreateMode,
    codec: Arc<dyn Codec<T>>,
    checks: Vec<Arc<Check<T>>>,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Schema<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            template: self.template.clone(),
            acl: self.acl.clone(),
            mode: self.mode,
            codec: self.codec.clone(),
            checks: self.checks.clone(),
            value: PhantomData,
        }
    }
}

impl<T> Clone for Models<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Models<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Models").field(&self.0.template).finish()
    }
}

/// Whether a part of a template is an id.
fn is_id(part: &str) -> bool {
    part.len() > 2 && part.starts_with('{') && part.ends_with('}')
}

impl<T> Schema<T> {
    fn wrong(path: &str, reason: impl ToString) -> Error {
        Error::Model { path: path.to_owned(), reason: reason.to_string() }
    }

    /// The path of a template, or of a part of it, with these ids.
    fn resolve(&self, template: &str, ids: &[&str]) -> Result<String> {
        let mut left = ids.iter();
        let mut resolved = String::new();
        for part in template.split('/').skip(1) {
            let name = if is_id(part) {
                let id = left.next().ok_or_else(|| Self::wrong(template, "too few ids"))?;
                path::check_name(id, &[])?;
                id
            } else {
                part
            };
            resolved.push('/');
            resolved.push_str(name);
        }
        match left.next() {
            None => Ok(resolved),
            Some(_) => Err(Self::wrong(template, "too many ids")),
        }
    }

    fn valid(&self, path: &str, value: &T) -> Result<()> {
        if faults::breaks_rules() {
            return Ok(());
        }
        let checked = self.checks.iter().try_for_each(|check| check(value));
        checked.map_err(|reason| Self::wrong(path, reason))
    }

    fn write(&self, path: &str, value: &T) -> Result<Vec<u8>> {
        self.valid(path, value)?;
        self.codec.write(value).map_err(|reason| Self::wrong(path, reason))
    }

    fn read(&self, path: &str, data: &[u8], stat: Stat) -> Result<Record<T>> {
        let value = self.codec.read(data).map_err(|reason| Self::wrong(path, reason))?;
        self.valid(path, &value)?;
        Ok(Record { value, stat })
    }

    async fn get(&self, path: &str) -> Result<Option<Record<T>>> {
        match Retry::default().reads(|| self.client.get_data(path)).await {
            Ok((data, stat)) => self.read(path, &data, stat).map(Some),
            Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl<T: Serialize + DeserializeOwned> Models<T> {
    /// Values as JSON, in persistent znodes. See [`Models::new`].
    ///
    /// # Errors
    /// As [`Models::new`].
    pub fn json(client: &Client, template: &str, acl: &Acls) -> Result<Self> {
        Self::new(client, template, acl, Json)
    }
}

impl<T> Models<T> {
    /// Values in persistent znodes, encoded by this codec. The znodes are created with this ACL.
    ///
    /// # Errors
    /// [`Error::Model`] if the template is not a valid path.
    pub fn new(
        client: &Client,
        template: &str,
        acl: &Acls,
        codec: impl Codec<T> + 'static,
    ) -> Result<Self> {
        let mut parts = template.split('/');
        let is_path = template.starts_with('/') && parts.all(|part| !matches!(part, "." | ".."));
        let is_whole = !template.ends_with('/') && !template.contains("//");
        if !is_path || !is_whole {
            return Err(Schema::<T>::wrong(template, "a template is a path below the root"));
        }
        Ok(Self(Arc::new(Schema {
            client: client.clone(),
            template: template.to_owned(),
            acl: acl.clone(),
            mode: CreateMode::Persistent,
            codec: Arc::new(codec),
            checks: Vec::new(),
            value: PhantomData,
        })))
    }

    /// Sets the create mode of the znodes. Creating a znode with a sequential mode fails, because
    /// its path would not fit the template.
    #[must_use]
    pub fn mode(self, mode: CreateMode) -> Self {
        let mut schema = Arc::unwrap_or_clone(self.0);
        schema.mode = mode;
        Self(Arc::new(schema))
    }

    /// Adds a rule that each value must satisfy when it is written and when it is read.
    #[must_use]
    pub fn check(
        self,
        rule: impl Fn(&T) -> std::result::Result<(), ModelFault> + Send + Sync + 'static,
    ) -> Self {
        let mut schema = Arc::unwrap_or_clone(self.0);
        schema.checks.push(Arc::new(rule));
        Self(Arc::new(schema))
    }

    /// The znode with these ids, one for each part in braces.
    ///
    /// # Errors
    /// [`Error::Name`] if an id cannot be the name of a znode, [`Error::Model`] if the number of
    /// ids differs from the template.
    pub fn at(&self, ids: &[&str]) -> Result<Model<T>> {
        let path = self.0.resolve(&self.0.template, ids)?;
        Ok(Model { schema: self.0.clone(), path })
    }

    /// The path of the parent of all znodes whose last part is an id.
    fn parent(&self, ids: &[&str]) -> Result<String> {
        match self.0.template.rsplit_once('/') {
            Some((above, last)) if is_id(last) => match self.0.resolve(above, ids)? {
                root if root.is_empty() => Ok("/".to_owned()),
                path => Ok(path),
            },
            _ => {
                Err(Schema::<T>::wrong(&self.0.template, "the last part of the template is no id"))
            }
        }
    }

    /// The last ids of all znodes that have these other ids, sorted.
    ///
    /// # Errors
    /// As for [`Models::at`], and the errors of reading.
    pub async fn ids(&self, others: &[&str]) -> Result<Vec<String>> {
        let parent = self.parent(others)?;
        match Retry::default().reads(|| self.0.client.get_children(&parent)).await {
            Ok((mut names, _)) => {
                names.sort_unstable();
                Ok(names)
            }
            Err(error) if error.kind() == ErrorKind::Gone => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// A cache of all znodes that have these other ids. [`Models::record`] decodes its znodes.
    ///
    /// # Errors
    /// As [`Models::at`].
    pub fn cached(&self, others: &[&str]) -> Result<Cache> {
        let parent = self.parent(others)?;
        Ok(Cache::children(&self.0.client, &parent).start())
    }

    /// The value of a znode in a cache.
    ///
    /// # Errors
    /// [`Error::Model`] if the data are not a valid value.
    pub fn record(&self, znode: &Znode) -> Result<Record<T>> {
        self.0.read(&znode.path, &znode.data, znode.stat)
    }
}

/// One typed znode, see [`Models`].
pub struct Model<T> {
    schema: Arc<Schema<T>>,
    path: String,
}

impl<T> Clone for Model<T> {
    fn clone(&self) -> Self {
        Self { schema: self.schema.clone(), path: self.path.clone() }
    }
}

impl<T> fmt::Debug for Model<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Model").field(&self.path).finish()
    }
}

impl<T> Model<T> {
    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Creates the znode. Returns false if it exists already.
    ///
    /// # Errors
    /// [`Error::Model`] if the value is not valid, and the errors of creating. After
    /// [`ErrorKind::Unknown`] the znode may exist.
    pub async fn create(&self, value: &T) -> Result<bool> {
        let Schema { client, acl, mode, .. } = &*self.schema;
        if mode.is_sequential() {
            return Err(Schema::<T>::wrong(&self.path, "a typed znode has no number"));
        }
        let data = self.schema.write(&self.path, value)?;
        let mut attempts = Retry::default().attempts;
        loop {
            let create = || client.create(&self.path, &data, *mode, acl);
            let error = match Retry::default().writes(create).await {
                Ok(_) => return Ok(true),
                Err(error) => error,
            };
            match (error.code(), error.kind()) {
                (ErrorCode::NODE_EXISTS, _) => return Ok(false),
                (ErrorCode::NO_NODE, _) if attempts > 1 => {
                    let above = path::parent(&self.path);
                    Retry::default().reads(|| client.create_all(above, acl)).await?;
                }
                (_, ErrorKind::Unknown) if faults::trusts_a_lost_create() => return Ok(true),
                (_, ErrorKind::Unknown) => {
                    let ask = || client.after_lost_create(&self.path, &data, *mode);
                    match found_out(Retry::default().reads(ask).await, &error)? {
                        Outcome::Happened(_) => return Ok(true),
                        Outcome::DidNot if attempts > 1 => {}
                        _ => return Err(error.into()),
                    }
                }
                _ => return Err(error.into()),
            }
            attempts -= 1;
        }
    }

    /// Reads the value; `None` if the znode does not exist.
    ///
    /// # Errors
    /// [`Error::Model`] if the data are not a valid value, and the errors of reading.
    pub async fn get(&self) -> Result<Option<Record<T>>> {
        self.schema.get(&self.path).await
    }

    /// Writes the value if the znode has this version; `None` if it has another one.
    ///
    /// # Errors
    /// [`Error::Model`] if the value is not valid, and the errors of writing. After
    /// [`ErrorKind::Unknown`] the value may be written.
    pub async fn set(&self, value: &T, version: Version) -> Result<Option<Version>> {
        Ok(self.write(value, version).await?.map(|stat| Version(stat.version)))
    }

    async fn write(&self, value: &T, version: Version) -> Result<Option<Stat>> {
        let data = self.schema.write(&self.path, value)?;
        try_write(&self.schema.client, &self.path, version, &data).await
    }

    /// Reads the value, changes it, and writes it. If another program was faster, this begins
    /// again. `None` if the znode does not exist.
    ///
    /// # Errors
    /// As [`Model::get`] and [`Model::set`], and [`Error::Contended`].
    pub async fn update(&self, mut change: impl FnMut(&mut T)) -> Result<Option<Record<T>>> {
        for _ in 0..UPDATES_MAX {
            let Some(mut record) = self.get().await? else { return Ok(None) };
            change(&mut record.value);
            let seen = Version(record.stat.version);
            match self.write(&record.value, seen).await {
                Ok(Some(stat)) => return Ok(Some(Record { stat, ..record })),
                Ok(None) => {}
                // Another program has deleted it, and may have created it again.
                Err(Error::Client(error)) if error.kind() == ErrorKind::Gone => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended(self.path.clone()))
    }

    /// Deletes the znode if it has this version. Returns false if it does not exist.
    ///
    /// # Errors
    /// The errors of deleting, for example another version, or children.
    pub async fn delete(&self, version: Version) -> Result<bool> {
        let delete = || self.schema.client.delete(&self.path, version);
        match Retry::default().writes(delete).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Gone => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The number of attempts of an update while other programs write.
const UPDATES_MAX: usize = 32;
