//! Locks and atomics. With the feature `shuttle`, they are those of a checker that explores thread
//! interleavings.

#[cfg(not(feature = "shuttle"))]
mod real {
    use std::time::Duration;

    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub use std::sync::atomic;

    /// Waits for a notification, at most for `most`.
    pub fn wait_for<'m, T>(
        condvar: &Condvar,
        mut guard: MutexGuard<'m, T>,
        most: Duration,
    ) -> MutexGuard<'m, T> {
        condvar.wait_for(&mut guard, most);
        guard
    }
}

#[cfg(feature = "shuttle")]
mod checked {
    use std::sync::PoisonError;
    use std::time::Duration;

    pub use shuttle::sync::{Condvar, MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic};

    /// Never times out: a time-out would hide a lost wake-up.
    pub fn wait_for<'m, T>(
        condvar: &Condvar,
        guard: MutexGuard<'m, T>,
        _most: Duration,
    ) -> MutexGuard<'m, T> {
        condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// A mutex without poison.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// Wraps a value.
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        /// Locks it, waiting if necessary.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Locks it if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// A lock for readers and writers without poison.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        /// Wraps a value.
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        /// Locks it for reading.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        /// Locks it for writing.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(feature = "shuttle")]
pub use checked::*;
#[cfg(not(feature = "shuttle"))]
pub use real::*;
