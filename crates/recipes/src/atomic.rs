//! Numbers that several programs change, where each change counts.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry, Version};

use crate::counts::{create_with_parents, try_write};
use crate::{Error, Mutex, Result, path};

/// Attempts without the lock, and again under it.
const ATTEMPTS: u32 = 5;

/// The pause behind the first attempt that came too late; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// What a change has changed.
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
    /// The value behind.
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

/// A number that several programs change, where each change counts once.
///
/// A change reads the number, and writes it under the condition that nobody else has. When others were faster several
/// times, and there is a [lock](AtomicNumber::promoted_to_lock), it goes on under the lock.
///
/// The znode's data are the number's bytes, the highest first. A missing znode is zero, and created by the first change.
/// Sums wrap around at the ends, as in Java.
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

/// The number as it was found, and the version it had; `None` for a znode that is missing.
type Seen<N> = (N, Option<Version>);

impl<N: Number> AtomicNumber<N> {
    /// The number in this znode, which is created with this ACL, as are its parents, when it is missing.
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

    /// A change that came too late several times goes on under the lock in this znode. Those that hold the lock exclude
    /// each other; those that have not come too late so often do without it.
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
    /// Those of reading; [`Error::Foreign`] when the znode holds none.
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

    /// Creates the znode with this number, if it is missing. Whether it was.
    ///
    /// # Errors
    /// Those of creating. After a lost answer an own create may be reported as somebody else's.
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

    /// Sets the number, whatever it was.
    ///
    /// # Errors
    /// Those of writing. After [`ErrorKind::Unknown`] it may be set.
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

    /// Sets the number to `after` if it is `before`. Whether it was; does not wait for the lock.
    ///
    /// # Errors
    /// As [`AtomicNumber::add`].
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
    /// Those of reading and writing; [`Error::Foreign`] when the znode holds no number; [`Error::Contended`] when others
    /// were faster again and again. After [`ErrorKind::Unknown`] nobody can tell whether it was added.
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

    /// Changes the number to what the function makes of it; it is called once for each attempt.
    ///
    /// # Errors
    /// As [`AtomicNumber::add`].
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
        // Whether the lock could be given back changes nothing: it is given back behind then.
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

    /// Writes if the znode is as it was seen. Whether it was.
    async fn write(&self, (_, version): Seen<N>, number: N) -> Result<bool> {
        let data = number.bytes();
        let Some(version) = version else { return self.create(&data).await };
        match try_write(&self.client, &self.path, version, &data).await {
            Ok(written) => Ok(written.is_some()),
            // It was deleted since.
            Err(Error::Client(error)) if error.kind() == ErrorKind::Gone => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates the znode. Whether this did it.
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
                    let look = || async {
                        self.client.sync(&self.path).await?;
                        self.client.exists(&self.path).await
                    };
                    if Retry::default().reads(look).await?.is_some() {
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
            /// Takes from the number.
            ///
            /// # Errors
            /// As [`AtomicNumber::add`].
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
            /// As [`AtomicNumber::add`].
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

            /// Takes one.
            ///
            /// # Errors
            /// As [`AtomicNumber::add`].
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
