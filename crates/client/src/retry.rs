//! Repeats an operation, a bounded number of times.

use std::time::Duration;

use crate::faults;
use crate::{Error, ErrorKind, Result};

/// The number of attempts of an operation, and the pauses between them.
///
/// The client repeats no request by itself. A repetition is a new request, which is ordered after
/// all requests made meanwhile. Use this only for operations that may be repeated.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Retry;
///
/// // A read does no harm when it is repeated.
/// let (names, _stat) = Retry::default().reads(|| client.get_children("/")).await?;
/// assert_eq!(names, ["zookeeper"]);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, the first one included.
    pub attempts: u32,
    /// Pause after the first attempt; doubles with each one.
    pub pause: Duration,
    /// Longest pause.
    pub pause_max: Duration,
}

/// Five attempts, with pauses of 100 ms, 200 ms, 400 ms and 800 ms.
impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 5, pause: Duration::from_millis(100), pause_max: Duration::from_secs(2) }
    }
}

impl Retry {
    /// Repeats the operation while it fails without having been executed.
    ///
    /// # Errors
    /// The last attempt's, or the first one of another kind.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Retry, Version};
    ///
    /// Retry::default().writes(|| client.set_data("/", "once", Version(0))).await?;
    /// # Ok(()) });
    /// ```
    pub async fn writes<T, F: Future<Output = Result<T>>>(
        &self,
        attempt: impl FnMut() -> F,
    ) -> Result<T> {
        let may =
            |error: &Error| error.kind() == ErrorKind::NotExecuted && !error.is_of_broken_series();
        self.run(attempt, may).await
    }

    /// Repeats the operation while it fails, even if the failed attempt may have been executed: for
    /// reads, and for writes that may happen twice.
    ///
    /// # Errors
    /// The error of the last attempt, or the first error of another kind. If the last attempt was
    /// not executed, but an earlier one may have been, the error is that of the earlier attempt:
    /// [`ErrorKind::NotExecuted`] means that no attempt was executed.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{ErrorKind, Retry};
    ///
    /// let error = Retry::default().reads(|| client.get_data("/none")).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Gone); // no reason to ask twice
    /// # Ok(()) });
    /// ```
    pub async fn reads<T, F: Future<Output = Result<T>>>(
        &self,
        attempt: impl FnMut() -> F,
    ) -> Result<T> {
        let may = |error: &Error| {
            matches!(error.kind(), ErrorKind::NotExecuted | ErrorKind::Unknown)
                && !error.is_of_broken_series()
        };
        self.run(attempt, may).await
    }

    async fn run<T, F: Future<Output = Result<T>>>(
        &self,
        mut attempt: impl FnMut() -> F,
        may: impl Fn(&Error) -> bool,
    ) -> Result<T> {
        let mut pauses = self.pauses();
        // The failed attempt whose outcome is unknown.
        let mut unknown = None;
        loop {
            let error = match attempt().await {
                Err(error) if may(&error) => error,
                result => return result,
            };
            let Some(pause) = pauses.next() else {
                let is_forgotten = faults::unknown_outcome_forgotten();
                return Err(match error.kind() {
                    ErrorKind::NotExecuted if !is_forgotten => unknown.unwrap_or(error),
                    _ => error,
                });
            };
            if error.kind() == ErrorKind::Unknown {
                unknown = Some(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The pause after each attempt except the last.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let Self { attempts, pause, pause_max } = *self;
        let doubled = move |at: u32| pause.saturating_mul(1 << at.min(20)).min(pause_max);
        (0..attempts.saturating_sub(1)).map(doubled)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use zebu_proto::ErrorCode;
    use zebu_session::Failure;

    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit() {
        let retry = Retry {
            attempts: 5,
            pause: Duration::from_millis(3),
            pause_max: Duration::from_millis(10),
        };
        let pauses: Vec<_> = retry.pauses().map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [3, 6, 10, 10]);
    }

    /// ERR-21.
    #[tokio::test(start_paused = true)]
    async fn only_what_may_be_repeated_is_and_not_for_ever() {
        let tried = |failure: Error, reads: bool| async move {
            let attempts = Cell::new(0);
            let attempt = async || {
                attempts.set(attempts.get() + 1);
                Err::<(), _>(failure.clone())
            };
            let retry = Retry::default();
            let result =
                if reads { retry.reads(attempt).await } else { retry.writes(attempt).await };
            assert_eq!(result, Err(failure.clone()));
            attempts.get()
        };
        assert_eq!(tried(Error::failed(Failure::Lost, ""), true).await, 5);
        assert_eq!(tried(Error::failed(Failure::Lost, ""), false).await, 1);
        assert_eq!(tried(Error::failed(Failure::NoConnection, ""), false).await, 5);
        assert_eq!(tried(Error::answered(ErrorCode::NO_NODE, ""), true).await, 1);
        assert_eq!(tried(Error::failed(Failure::Broken, ""), false).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_perhaps_executed_stays_unknown() {
        let failures = Cell::new(0);
        let attempt = async || {
            failures.set(failures.get() + 1);
            let failure = if failures.get() == 2 { Failure::Lost } else { Failure::NoConnection };
            Err::<(), _>(Error::failed(failure, ""))
        };
        let error = Retry::default().reads(attempt).await.unwrap_err();
        assert_eq!((failures.get(), error.kind()), (5, ErrorKind::Unknown));
    }
}
