//! Several locks as one: a caller holds all of them, or none.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::{Guard, Mutex, Result, Token};

/// Several locks that are acquired together, in a fixed order, and released in reverse order.
///
/// Programs that acquire the same locks in different orders may deadlock: all should use the same
/// order.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::{MultiLock, Mutex};
///
/// let mutex = |path| Mutex::new(&client, path, &Acls::creator());
/// let both = MultiLock::new(vec![mutex("/from"), mutex("/to")]);
/// let held = both.acquire().await?;
/// assert!(mutex("/to").try_acquire().await?.is_none());
/// held.release().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    locks: Vec<Mutex>,
}

impl MultiLock {
    /// These locks as one, acquired in this order.
    ///
    /// ```
    /// assert_eq!(format!("{:?}", zebu_recipes::MultiLock::new(vec![])), "MultiLock { locks: [] }");
    /// ```
    pub fn new(locks: Vec<Mutex>) -> Self {
        Self { locks }
    }

    /// Waits until all locks are held. Dropping the future releases the locks that are already
    /// held.
    ///
    /// # Errors
    /// As for [`Mutex::acquire`], for any of the locks; the others are released.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{MultiLock, Mutex};
    /// let all = MultiLock::new(vec![Mutex::new(&client, "/a", &Acls::creator())]);
    /// all.acquire().await?.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn acquire(&self) -> Result<AllHeld> {
        let mut held = AllHeld { guards: Vec::new() };
        for lock in &self.locks {
            match lock.acquire().await {
                Ok(guard) => held.guards.push(guard),
                Err(error) => {
                    // A second error adds nothing to the first.
                    let _ = held.release().await;
                    return Err(error);
                }
            }
        }
        Ok(held)
    }

    /// All locks, if they are free; does not wait.
    ///
    /// # Errors
    /// As for [`MultiLock::acquire`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{MultiLock, Mutex};
    /// let mutex = |path| Mutex::new(&client, path, &Acls::creator());
    /// let _held = mutex("/b").acquire().await?;
    /// let all = MultiLock::new(vec![mutex("/a"), mutex("/b")]);
    /// assert!(all.try_acquire().await?.is_none());
    /// assert!(mutex("/a").try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<AllHeld>> {
        let mut held = AllHeld { guards: Vec::new() };
        for lock in &self.locks {
            let error = match lock.try_acquire().await {
                Ok(Some(guard)) => {
                    held.guards.push(guard);
                    continue;
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            let released = held.release().await;
            return match error {
                Some(error) => Err(error),
                None => released.map(|()| None),
            };
        }
        Ok(Some(held))
    }
}

/// All locks of a [`MultiLock`], held until this value is released or dropped.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// # use zebu_recipes::{MultiLock, Mutex};
/// let all = MultiLock::new(vec![Mutex::new(&client, "/a", &Acls::creator())]);
/// let mut held = all.acquire().await?;
/// tokio::select! {
///     () = held.lost() => panic!("stop"),
///     () = async { /* work */ } => {}
/// }
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "locks that are dropped are released"]
pub struct AllHeld {
    guards: Vec<Guard>,
}

impl AllHeld {
    /// The tokens for resources outside the ensemble, in the order of the locks.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{MultiLock, Mutex};
    /// let mutex = |path| Mutex::new(&client, path, &Acls::creator());
    /// let held = MultiLock::new(vec![mutex("/a"), mutex("/b")]).acquire().await?;
    /// assert!(held.tokens()[0] < held.tokens()[1]);
    /// # Ok(()) });
    /// ```
    pub fn tokens(&self) -> Vec<Token> {
        self.guards.iter().map(Guard::token).collect()
    }

    /// Waits until one of the locks is lost. The future may be dropped and called again.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{MultiLock, Mutex};
    /// let all = MultiLock::new(vec![Mutex::new(&client, "/a", &Acls::creator())]);
    /// let mut held = all.acquire().await?;
    /// client.close().await?;
    /// held.lost().await;
    /// # Ok(()) });
    /// ```
    pub async fn lost(&mut self) {
        let mut losses: Vec<_> =
            self.guards.iter_mut().map(|guard| Box::pin(guard.lost())).collect();
        let any = poll_fn(|cx| {
            let is_lost = losses.iter_mut().any(|lost| lost.as_mut().poll(cx).is_ready());
            if is_lost { Poll::Ready(()) } else { Poll::Pending }
        });
        pin!(any).await;
    }

    /// Releases all locks, the last one first, and returns when they are released.
    ///
    /// # Errors
    /// The first error, as for [`Guard::release`]. An error at one lock does not keep the others
    /// from being released.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_recipes::MultiLock;
    /// MultiLock::new(vec![]).acquire().await?.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn release(mut self) -> Result<()> {
        let mut result = Ok(());
        while let Some(guard) = self.guards.pop() {
            result = result.and(guard.release().await);
        }
        result
    }
}
