//! Atomic numbers: several programs change them, and every change counts once.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry, Version};

use crate::counts::{create_with_parents, try_write};
use crate::current::after_sync;
use crate::error::found_out;
use crate::{Error, Mutex, Result, path};

/// Maximum number of attempts without the lock, and again with it.
const ATTEMPTS: u32 = 5;

/// The pause after the first attempt that lost a race; doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The effect of a change.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::{AtomicLong, Changed};
///
/// let counter = AtomicLong::new(&client, "/counter", &Acls::creator());
/// assert_eq!(counter.add(5).await?, Changed { before: 0, after: 5 });
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed<T> {
    /// The value before.
    pub before: T,
    /// The value after.
    pub after: T,
}

mod sealed {
    pub trait Sealed: Copy + Default + PartialEq + Send + Sync + 'static {
        const ZERO: Self;
        fn plus(self, other: Self) -> Self;
        fn bytes(self) -> Vec<u8>;
        fn read(bytes: &[u8]) -> Option<Self>;
    }
}

/// A number of an [`AtomicNumber`]: `i32` or `i64`.
///
/// ```
/// fn takes_numbers<N: zebu_recipes::Number>(_: N) {}
/// takes_numbers(1_i64);
/// ```
pub trait Number: sealed::Sealed {}

macro_rules! number {
    ($number:ty) => {
        impl sealed::Sealed for $number {
            const ZERO: Self = 0;

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn bytes(self) -> Vec<u8> {
                self.to_be_bytes().to_vec()
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_be_bytes)
            }
        }

        impl Number for $number {}
    };
}

number!(i32);
number!(i64);

/// A number of 64 bits: Curator's `DistributedAtomicLong` of the same znode is the same number.
pub type AtomicLong = AtomicNumber<i64>;

/// A number of 32 bits: Curator's `DistributedAtomicInteger` of the same znode is the same number.
pub type AtomicInteger = AtomicNumber<i32>;

/// A number that several programs change, where every change counts once.
///
/// A change reads the number and writes it on condition that no other program has changed it. After
/// several lost races it continues under the [lock](AtomicNumber::promoted_to_lock), if there is
/// one.
///
/// The znode's data are the number's bytes in big-endian order. A missing znode counts as zero, and
/// the first change creates it. Sums wrap around on overflow, as in Java.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::AtomicLong;
///
/// let counter = AtomicLong::new(&client, "/counter", &Acls::creator());
/// counter.increment().await?;
/// counter.subtract(3).await?;
/// assert_eq!(counter.get().await?, -2);
/// assert!(counter.compare_and_set(-2, 7).await?);
/// assert!(!counter.compare_and_set(-2, 8).await?);
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct AtomicNumber<N> {
    client: Client,
    path: String,
    acl: Acls,
    lock: Option<Mutex>,
    number: PhantomData<N>,
}

impl<N> fmt::Debug for AtomicNumber<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AtomicNumber").field(&self.path).finish()
    }
}

/// The number and its version; `None` if the znode is missing.
type Seen<N> = (N, Option<Version>);

impl<N: Number> AtomicNumber<N> {
    /// The number in this znode. If it is missing, it is created with this ACL, and so are its
    /// parents.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let counter = zebu_recipes::AtomicLong::new(&client, "/a/counter", &Acls::creator());
    /// assert_eq!(counter.get().await?, 0);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), acl, lock: None, number: PhantomData }
    }

    /// Lets a change that has lost several races continue under the lock in this znode. Holders of
    /// the lock exclude each other; changes that have lost fewer races do not take it.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let counter = zebu_recipes::AtomicInteger::new(&client, "/counter", &Acls::creator());
    /// let counter = counter.promoted_to_lock("/counter-lock");
    /// assert_eq!(counter.increment().await?.after, 1);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn promoted_to_lock(mut self, path: &str) -> Self {
        self.lock = Some(Mutex::new(&self.client, path, &self.acl));
        self
    }

    /// The number.
    ///
    /// # Errors
    /// The errors of reading; [`Error::Foreign`] if the znode holds no number.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let counter = zebu_recipes::AtomicLong::new(&client, "/counter", &Acls::creator());
    /// assert_eq!(counter.get().await?, 0);
    /// # Ok(()) });
    /// ```
    pub async fn get(&self) -> Result<N> {
        Ok(self.look().await?.0)
    }

    /// Creates the znode with this number if it is missing. Returns whether it was missing.
    ///
    /// # Errors
    /// The errors of creating. After a lost answer, this program's own create may be reported as
    /// that of another one.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let counter = zebu_recipes::AtomicLong::new(&client, "/counter", &Acls::creator());
    /// assert!(counter.initialize(7).await?);
    /// assert!(!counter.initialize(8).await?);
    /// # Ok(()) });
    /// ```
    pub async fn initialize(&self, number: N) -> Result<bool> {
        let data = number.bytes();
        let create = || self.client.create(&self.path, &data, CreateMode::Persistent, &self.acl);
        create_with_parents(&self.client, &self.path, &self.acl, create).await
    }

    /// Sets the number unconditionally.
    ///
    /// # Errors
    /// The errors of writing. After [`ErrorKind::Unknown`] the number may be set.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let counter = zebu_recipes::AtomicLong::new(&client, "/counter", &Acls::creator());
    /// counter.force_set(7).await?;
    /// assert_eq!(counter.get().await?, 7);
    /// # Ok(()) });
    /// ```
    pub async fn force_set(&self, number: N) -> Result<()> {
        let data = number.bytes();
        loop {
            let set = || self.client.set_data(&self.path, &data, Version::ANY);
            match Retry::default().writes(set).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() != ErrorKind::Gone => return Err(error.into()),
                Err(_) => drop(self.initialize(number).await?),
            }
        }
    }

    /// Sets the number to `after` if it is `before`. Returns whether it was `before`. Does not wait
    /// for the lock.
    ///
    /// # Errors
    /// As for [`AtomicNumber::add`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let counter = zebu_recipes::AtomicLong::new(&client, "/counter", &Acls::creator());
    /// assert!(counter.compare_and_set(0, 1).await?);
    /// assert!(!counter.compare_and_set(0, 2).await?);
    /// # Ok(()) });
    /// ```
    pub async fn compare_and_set(&self, before: N, after: N) -> Result<bool> {
        let seen = self.look().await?;
        Ok(seen.0 == before && self.write(seen, after).await?)
    }

    /// Adds to the number.
    ///
    /// # Errors
    /// The errors of reading and writing; [`Error::Foreign`] if the znode holds no number;
    /// [`Error::Contended`] after too many lost races. After [`ErrorKind::Unknown`] it is unknown
    /// whether the number was added.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let counter = zebu_recipes::AtomicLong::new(&client, "/counter", &Acls::creator());
    /// assert_eq!(counter.add(40).await?.after, 40);
    /// # Ok(()) });
    /// ```
    pub async fn add(&self, number: N) -> Result<Changed<N>> {
        self.update(|before| before.plus(number)).await
    }

    /// Changes the number to the result of the function, which is called once for each attempt.
    ///
    /// # Errors
    /// As for [`AtomicNumber::add`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let largest = zebu_recipes::AtomicLong::new(&client, "/largest", &Acls::creator());
    /// assert_eq!(largest.update(|seen| seen.max(9)).await?.after, 9);
    /// # Ok(()) });
    /// ```
    pub async fn update(&self, change: impl Fn(N) -> N) -> Result<Changed<N>> {
        if let Some(changed) = self.attempts(&change).await? {
            return Ok(changed);
        }
        let Some(lock) = &self.lock else { return Err(Error::Contended(self.path.clone())) };
        let guard = lock.acquire().await?;
        let changed = self.attempts(&change).await;
        // The result does not matter: the lock is then released in the background.
        let _ = guard.release().await;
        changed?.ok_or_else(|| Error::Contended(self.path.clone()))
    }

    async fn attempts(&self, change: &impl Fn(N) -> N) -> Result<Option<Changed<N>>> {
        let mut pause = PAUSE;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            let seen = self.look().await?;
            let (before, after) = (seen.0, change(seen.0));
            if self.write(seen, after).await? {
                return Ok(Some(Changed { before, after }));
            }
        }
        Ok(None)
    }

    async fn look(&self) -> Result<Seen<N>> {
        match Retry::default().reads(|| self.client.get_data(&self.path)).await {
            Ok((data, stat)) => {
                let number = N::read(&data).ok_or_else(|| Error::Foreign(self.path.clone()))?;
                Ok((number, Some(Version(stat.version))))
            }
            Err(error) if error.kind() == ErrorKind::Gone => Ok((N::ZERO, None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes if the znode is unchanged. Returns whether it was unchanged.
    async fn write(&self, (_, version): Seen<N>, number: N) -> Result<bool> {
        let data = number.bytes();
        let Some(version) = version else { return self.create(&data).await };
        match try_write(&self.client, &self.path, version, &data).await {
            Ok(written) => Ok(written.is_some()),
            // It was deleted meanwhile.
            Err(Error::Client(error)) if error.kind() == ErrorKind::Gone => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates the znode. Returns whether this call created it.
    async fn create(&self, data: &[u8]) -> Result<bool> {
        loop {
            let create = || self.client.create(&self.path, data, CreateMode::Persistent, &self.acl);
            let error = match Retry::default().writes(create).await {
                Ok(_) => return Ok(true),
                Err(error) => error,
            };
            match error.code() {
                ErrorCode::NODE_EXISTS => return Ok(false),
                ErrorCode::NO_NODE => {
                    let parent = path::parent(&self.path);
                    Retry::default().reads(|| self.client.create_all(parent, &self.acl)).await?;
                }
                _ if error.kind() == ErrorKind::Unknown => {
                    let exists = || self.client.exists(&self.path);
                    let look = || after_sync(&self.client, &self.path, exists);
                    if found_out(Retry::default().reads(look).await, &error)?.is_some() {
                        return Err(error.into());
                    }
                }
                _ => return Err(error.into()),
            }
        }
    }
}

macro_rules! steps {
    ($number:ty) => {
        impl AtomicNumber<$number> {
            /// Subtracts from the number.
            ///
            /// # Errors
            /// As for [`AtomicNumber::add`].
            ///
            /// ```
            /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
            /// # embedded::run(async |client| {
            /// # use zebu_client::Acls;
            /// let counter = zebu_recipes::AtomicLong::new(&client, "/counter", &Acls::creator());
            /// assert_eq!(counter.subtract(2).await?.after, -2);
            /// # Ok(()) });
            /// ```
            pub async fn subtract(&self, number: $number) -> Result<Changed<$number>> {
                self.update(|before| before.wrapping_sub(number)).await
            }

            /// Adds one.
            ///
            /// # Errors
            /// As for [`AtomicNumber::add`].
            ///
            /// ```
            /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
            /// # embedded::run(async |client| {
            /// # use zebu_client::Acls;
            /// let counter = zebu_recipes::AtomicLong::new(&client, "/counter", &Acls::creator());
            /// assert_eq!(counter.increment().await?.after, 1);
            /// # Ok(()) });
            /// ```
            pub async fn increment(&self) -> Result<Changed<$number>> {
                self.add(1).await
            }

            /// Subtracts one.
            ///
            /// # Errors
            /// As for [`AtomicNumber::add`].
            ///
            /// ```
            /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
            /// # embedded::run(async |client| {
            /// # use zebu_client::Acls;
            /// let counter = zebu_recipes::AtomicLong::new(&client, "/counter", &Acls::creator());
            /// assert_eq!(counter.decrement().await?.after, -1);
            /// # Ok(()) });
            /// ```
            pub async fn decrement(&self) -> Result<Changed<$number>> {
                self.subtract(1).await
            }
        }
    };
}

steps!(i32);
steps!(i64);
