//! Errors, sorted by what the caller can do about them.

use std::fmt;

use zebu_proto::ErrorCode;
use zebu_proto::path::PathError;
use zebu_session::{Ending, Failure};

/// What the caller can do about an error.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::ErrorKind;
///
/// let error = client.get_data("/none").await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Gone);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The znode, the parent of the znode to create, or the watch does not exist.
    Gone,
    /// The tree differs from what the caller assumed: the znode has another version, exists
    /// already, or has children. Read again, then decide.
    Conflict,
    /// The connection's identities lack the permission.
    Denied,
    /// The server is read-only for now: reads work, writes will later.
    ReadOnly,
    /// The request would exceed a quota. Delete znodes or data, or get a larger quota.
    Quota,
    /// The arguments can never work on this ensemble.
    Invalid,
    /// The request was certainly not executed, and is valid: the program may repeat it unchanged.
    NotExecuted,
    /// The connection was lost before the answer arrived: the request may have been executed, or
    /// not. Find out before you repeat it, unless a repetition does no harm; see
    /// [`Outcome`](crate::Outcome).
    Unknown,
    /// The session is over, and so are its ephemerals and watches. Open a new session, and read
    /// again everything that the program has read through the old one.
    SessionOver,
    /// The server reports an internal failure.
    Server,
}

/// Why an operation failed.
///
/// [`Error::kind`] shows what a program can do, [`Error::code`] the exact error.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, ErrorCode, ErrorKind};
///
/// let create = || client.create("/master", "me", CreateMode::Ephemeral, &Acls::creator());
/// create().await?;
/// let error = create().await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Conflict);
/// assert_eq!(error.code(), ErrorCode::NODE_EXISTS);
/// assert_eq!(error.to_string(), "znode exists already: /master");
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    code: ErrorCode,
    what: What,
    path: Option<Box<str>>,
    /// The known reason.
    reason: Option<Box<str>>,
    operation: Option<u32>,
}

/// The failure, if the code alone does not describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Answered,
    Failed(Failure),
    Path(PathError),
    ConnectString,
    Garbled,
    Ttl,
    Sasl,
    #[cfg(feature = "tls")]
    Tls,
    NoThread,
    RetriesSpent,
}

/// The kind of an error that a server or another client library reports. The code 0, which means
/// success, counts as a failure of the server.
///
/// ```
/// use zebu_client::{ErrorCode, ErrorKind};
///
/// assert_eq!(ErrorKind::from(ErrorCode::NODE_EXISTS), ErrorKind::Conflict);
/// assert_eq!(ErrorKind::from(ErrorCode(-4)), ErrorKind::Unknown);
/// ```
impl From<ErrorCode> for ErrorKind {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::NO_NODE | ErrorCode::NO_WATCHER => Self::Gone,
            ErrorCode::NODE_EXISTS
            | ErrorCode::BAD_VERSION
            | ErrorCode::NOT_EMPTY
            | ErrorCode::NO_CHILDREN_FOR_EPHEMERALS => Self::Conflict,
            ErrorCode::NO_AUTH => Self::Denied,
            ErrorCode::NOT_READ_ONLY => Self::ReadOnly,
            ErrorCode::QUOTA_EXCEEDED => Self::Quota,
            ErrorCode::THROTTLED_OP
            | ErrorCode::SESSION_MOVED
            | ErrorCode::RECONFIG_IN_PROGRESS
            | ErrorCode::NEW_CONFIG_NO_QUORUM => Self::NotExecuted,
            ErrorCode::CONNECTION_LOSS
            | ErrorCode::OPERATION_TIMEOUT
            | ErrorCode::REQUEST_TIMEOUT => Self::Unknown,
            ErrorCode::SESSION_EXPIRED
            | ErrorCode::AUTH_FAILED
            | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => Self::SessionOver,
            ErrorCode::INVALID_ACL
            | ErrorCode::INVALID_CALLBACK
            | ErrorCode::BAD_ARGUMENTS
            | ErrorCode::UNIMPLEMENTED
            | ErrorCode::MARSHALLING_ERROR
            | ErrorCode::RECONFIG_DISABLED
            | ErrorCode::EPHEMERAL_ON_LOCAL_SESSION => Self::Invalid,
            _ => Self::Server,
        }
    }
}

impl Error {
    /// Turns a code of the protocol into a result: 0 is success, and any other code becomes the
    /// error of a failed request for `path`. [`Error::code`] is the inverse.
    ///
    /// For programs that get codes from another source, such as another client library or a log.
    ///
    /// # Errors
    /// The code is not 0.
    ///
    /// ```
    /// use zebu_client::{Error, ErrorCode, ErrorKind};
    ///
    /// assert!(Error::check(ErrorCode(0), "/a").is_ok());
    /// let error = Error::check(ErrorCode(-101), "/a").unwrap_err();
    /// assert_eq!((error.kind(), error.code()), (ErrorKind::Gone, ErrorCode::NO_NODE));
    /// assert_eq!(error.to_string(), "no such znode: /a");
    /// ```
    pub fn check(code: ErrorCode, path: &str) -> crate::Result<()> {
        match code {
            ErrorCode::OK => Ok(()),
            code => Err(Self::answered(code, path)),
        }
    }

    /// What the caller can do about it.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let error = client.delete("no path", zebu_client::Version::ANY).await.unwrap_err();
    /// assert_eq!(error.kind(), zebu_client::ErrorKind::Invalid);
    /// # Ok(()) });
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The protocol's code of this error; codes below −100 come from a server.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let error = client.get_children("/none").await.unwrap_err();
    /// assert_eq!(error.code(), zebu_client::ErrorCode::NO_NODE);
    /// # Ok(()) });
    /// ```
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The path of the failed operation.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let error = client.get_data("/none").await.unwrap_err();
    /// assert_eq!(error.path(), Some("/none"));
    /// # Ok(()) });
    /// ```
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The known reason: if there was no connection in time, the names that could not be resolved
    /// and the unreachable servers; for a connect string, its fault.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zebu_client::{Connector, ErrorKind};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let connector = Connector::new().connection_wait(Duration::from_millis(500));
    /// let error = connector.connect("zoo1.invalid:2181").await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotExecuted);
    /// println!("{}", error.reason().unwrap_or("the resolver has not answered yet"));
    /// # });
    /// ```
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The index of the operation that made a transaction fail, counted from 0.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Version;
    ///
    /// let mut transaction = client.transaction();
    /// transaction.check("/", Version::ANY);
    /// transaction.delete("/none", Version::ANY);
    /// let error = transaction.commit().await.unwrap_err();
    /// assert_eq!(error.failed_operation(), Some(1));
    /// # Ok(()) });
    /// ```
    pub fn failed_operation(&self) -> Option<usize> {
        self.operation.map(|operation| operation as usize)
    }

    /// Why the session is over, if it is.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Ending;
    ///
    /// client.close().await?;
    /// let error = client.get_data("/").await.unwrap_err();
    /// assert_eq!(error.ending(), Some(Ending::Closed));
    /// # Ok(()) });
    /// ```
    pub fn ending(&self) -> Option<Ending> {
        match self.what {
            What::Failed(Failure::Over(ending)) => Some(ending),
            _ if self.kind != ErrorKind::SessionOver => None,
            _ if self.code == ErrorCode::SESSION_EXPIRED => Some(Ending::Expired),
            _ => Some(Ending::AuthFailed),
        }
    }

    /// Whether the request was not sent because its [series](crate::Client::series) is broken:
    /// another attempt in the same series is useless.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let error = client.get_data("/none").await.unwrap_err();
    /// assert!(!error.is_of_broken_series());
    /// # Ok(()) });
    /// ```
    pub fn is_of_broken_series(&self) -> bool {
        self.what == What::Failed(Failure::Broken)
    }

    pub(crate) fn answered(code: ErrorCode, path: &str) -> Self {
        Self::new(code.into(), code, What::Answered, path)
    }

    fn new(kind: ErrorKind, code: ErrorCode, what: What, path: &str) -> Self {
        Self { kind, code, what, path: some(path), reason: None, operation: None }
    }

    pub(crate) fn failed(failure: Failure, path: &str) -> Self {
        let (kind, code) = match failure {
            Failure::Lost => (ErrorKind::Unknown, ErrorCode::CONNECTION_LOSS),
            Failure::NoConnection | Failure::Withdrawn | Failure::Broken => {
                (ErrorKind::NotExecuted, ErrorCode::CONNECTION_LOSS)
            }
            Failure::TimedOut { is_sent: true } => (ErrorKind::Unknown, ErrorCode::REQUEST_TIMEOUT),
            Failure::TimedOut { is_sent: false } => {
                (ErrorKind::NotExecuted, ErrorCode::REQUEST_TIMEOUT)
            }
            Failure::TooMany => (ErrorKind::NotExecuted, ErrorCode::OPERATION_TIMEOUT),
            Failure::TooLarge => (ErrorKind::Invalid, ErrorCode::BAD_ARGUMENTS),
            Failure::Over(Ending::AuthFailed) => (ErrorKind::SessionOver, ErrorCode::AUTH_FAILED),
            Failure::Over(Ending::GivenUp | Ending::OtherEnsemble { .. }) => {
                (ErrorKind::SessionOver, ErrorCode::CONNECTION_LOSS)
            }
            Failure::Over(_) => (ErrorKind::SessionOver, ErrorCode::SESSION_EXPIRED),
        };
        Self::new(kind, code, What::Failed(failure), path)
    }

    /// Adds the servers that could not be found or reached to the error of a request without a
    /// connection.
    pub(crate) fn with_missing(self, missing: impl FnOnce() -> Option<Box<str>>) -> Self {
        match self.what {
            What::Failed(
                Failure::NoConnection
                | Failure::TimedOut { is_sent: false }
                | Failure::Over(Ending::AuthFailed),
            ) => Self { reason: missing(), ..self },
            _ => self,
        }
    }

    pub(crate) fn path_refused(error: PathError, path: &str) -> Self {
        Self::invalid(What::Path(error), path)
    }

    pub(crate) fn connect_string(error: &dyn fmt::Display) -> Self {
        let reason = some(&error.to_string());
        Self { reason, ..Self::invalid(What::ConnectString, "") }
    }

    pub(crate) fn ttl(path: &str) -> Self {
        Self::invalid(What::Ttl, path)
    }

    /// The settings of SASL are invalid.
    pub(crate) fn sasl(fault: &str) -> Self {
        Self { reason: some(fault), ..Self::invalid(What::Sasl, "") }
    }

    /// A store cannot be used, or the settings are invalid.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(fault: &str) -> Self {
        Self { reason: some(fault), ..Self::invalid(What::Tls, "") }
    }

    pub(crate) fn no_thread(error: &std::io::Error) -> Self {
        let (kind, code) = (ErrorKind::NotExecuted, ErrorCode::SYSTEM_ERROR);
        Self { reason: some(&error.to_string()), ..Self::new(kind, code, What::NoThread, "") }
    }

    fn invalid(what: What, path: &str) -> Self {
        Self::new(ErrorKind::Invalid, ErrorCode::BAD_ARGUMENTS, what, path)
    }

    /// The answer cannot be decoded, so the outcome of the request is unknown.
    pub(crate) fn garbled(path: &str) -> Self {
        Self::new(ErrorKind::Unknown, ErrorCode::MARSHALLING_ERROR, What::Garbled, path)
    }

    pub(crate) fn retries_spent(path: &str) -> Self {
        Self::new(ErrorKind::Unknown, ErrorCode::CONNECTION_LOSS, What::RetriesSpent, path)
    }

    pub(crate) fn of_operation(mut self, operation: usize) -> Self {
        self.operation = u32::try_from(operation).ok();
        self
    }
}

fn some(path: &str) -> Option<Box<str>> {
    (!path.is_empty()).then(|| path.into())
}

/// The meaning of a code.
fn words(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::CONNECTION_LOSS => "connection lost, outcome unknown",
        ErrorCode::OPERATION_TIMEOUT | ErrorCode::REQUEST_TIMEOUT => {
            "no answer in time, outcome unknown"
        }
        ErrorCode::SESSION_MOVED => "session went on at another server",
        ErrorCode::NO_NODE => "no such znode",
        ErrorCode::NO_WATCHER => "no such watch",
        ErrorCode::NODE_EXISTS => "znode exists already",
        ErrorCode::BAD_VERSION => "version does not match",
        ErrorCode::NOT_EMPTY => "znode has children",
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS => "ephemeral znodes have no children",
        ErrorCode::NO_AUTH => "permission denied",
        ErrorCode::NOT_READ_ONLY => "server is read-only",
        ErrorCode::QUOTA_EXCEEDED => "quota exceeded",
        ErrorCode::THROTTLED_OP => "server is too busy",
        ErrorCode::RECONFIG_IN_PROGRESS => "another reconfiguration is under way",
        ErrorCode::NEW_CONFIG_NO_QUORUM => "no quorum of the new configuration is connected",
        ErrorCode::SESSION_EXPIRED => "session expired",
        ErrorCode::AUTH_FAILED => "credentials refused",
        ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {
            "the server requires SASL authentication first"
        }
        ErrorCode::INVALID_ACL => "invalid ACL",
        ErrorCode::BAD_ARGUMENTS => "invalid arguments",
        ErrorCode::UNIMPLEMENTED => "server does not support this",
        ErrorCode::MARSHALLING_ERROR => "server could not read the request",
        ErrorCode::RECONFIG_DISABLED => "reconfiguration is disabled",
        ErrorCode::EPHEMERAL_ON_LOCAL_SESSION => "local sessions own no ephemerals",
        _ => return None,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Answered => match words(self.code) {
                Some(words) => f.write_str(words)?,
                None => write!(f, "server reports {}", self.code)?,
            },
            What::Failed(Failure::Over(Ending::OtherEnsemble { own, other })) => write!(
                f,
                "session ended: a server belongs to ensemble {other}, and the session to ensemble {own}: the connect \
                 string names servers of two ensembles"
            )?,
            What::Failed(failure) => f.write_str(match failure {
                Failure::Lost => "connection lost, outcome unknown",
                Failure::NoConnection => "no connection",
                Failure::TimedOut { is_sent: true } => "no answer in time, outcome unknown",
                Failure::TimedOut { is_sent: false } => "no connection in time",
                Failure::Withdrawn => "withdrawn",
                Failure::TooLarge => "request is larger than servers accept",
                Failure::TooMany => "too many requests are unanswered",
                Failure::Broken => {
                    "not sent, since an earlier request of its series may be missing"
                }
                Failure::Over(Ending::Closed) => "session is closed",
                Failure::Over(Ending::Expired) => "session expired",
                Failure::Over(Ending::AuthFailed) => "credentials refused",
                Failure::Over(Ending::GivenUp) => "session given up, since no server was reached",
                Failure::Over(Ending::OtherEnsemble { .. }) => "session reached another ensemble",
            })?,
            What::Path(error) => write!(f, "{error}")?,
            What::ConnectString => f.write_str("invalid connect string")?,
            What::Garbled => f.write_str("answer makes no sense, outcome unknown")?,
            What::Ttl => f.write_str("time to live is not from 1 ms to 2^40 - 1 ms")?,
            What::Sasl => f.write_str("SASL cannot be used")?,
            #[cfg(feature = "tls")]
            What::Tls => f.write_str("TLS cannot be used")?,
            What::NoThread => f.write_str("no thread for the session")?,
            What::RetriesSpent => {
                f.write_str("connection lost at every attempt, outcome unknown")?
            }
        }
        for what in [&self.path, &self.reason].into_iter().flatten() {
            write!(f, ": {what}")?;
        }
        if let Some(operation) = self.operation {
            write!(f, " (operation {operation} of the transaction)")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({}, {self})", self.kind, self.code.0)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    /// ERR-15.
    #[test]
    fn what_can_be_done_about_it() {
        for (code, kind) in [
            (ErrorCode::NO_NODE, ErrorKind::Gone),
            (ErrorCode::BAD_VERSION, ErrorKind::Conflict),
            (ErrorCode::NO_AUTH, ErrorKind::Denied),
            (ErrorCode::SESSION_EXPIRED, ErrorKind::SessionOver),
            (ErrorCode::THROTTLED_OP, ErrorKind::NotExecuted),
            (ErrorCode(-99), ErrorKind::Server),
        ] {
            assert_eq!(Error::answered(code, "/a").kind(), kind);
        }
        assert_eq!(Error::failed(Failure::Lost, "").kind(), ErrorKind::Unknown);
        assert_eq!(Error::failed(Failure::NoConnection, "").kind(), ErrorKind::NotExecuted);
        let over = Error::failed(Failure::Over(Ending::AuthFailed), "");
        assert_eq!(over.ending(), Some(Ending::AuthFailed));
        assert_eq!(Error::answered(ErrorCode::NO_NODE, "").ending(), None);
    }

    /// ERR-01, API-22: each code of the protocol is an error with that code, and each but 0 has a
    /// text.
    #[test]
    fn codes_are_errors_and_errors_have_codes() {
        for code in ErrorCode::ALL.iter().copied().chain([ErrorCode(-99), ErrorCode(7)]) {
            match Error::check(code, "/a") {
                Ok(()) => assert_eq!(code, ErrorCode::OK),
                Err(error) => {
                    assert_eq!((error.code(), error.path()), (code, Some("/a")));
                    assert_eq!(error.kind(), ErrorKind::from(code));
                    assert_eq!(error.ending().is_some(), error.kind() == ErrorKind::SessionOver);
                }
            }
        }
    }

    /// The same error has the same kind, whether a server or this client reports it.
    #[test]
    fn what_a_client_finds_out_itself_has_the_kind_of_its_code() {
        let sent = Failure::TimedOut { is_sent: true };
        for failure in [Failure::Lost, sent, Failure::Over(Ending::Expired), Failure::TooLarge] {
            let error = Error::failed(failure, "/a");
            assert_eq!(error.kind(), ErrorKind::from(error.code()), "{error}");
        }
    }

    /// ERR-10: a program that handles a lost connection handles this, too.
    #[test]
    fn no_answer_in_time_is_as_a_lost_connection() {
        let sent = Error::failed(Failure::TimedOut { is_sent: true }, "/a");
        assert_eq!((sent.kind(), sent.code().0), (ErrorKind::Unknown, -122));
        assert_eq!(sent.to_string(), "no answer in time, outcome unknown: /a");
        let unsent = Error::failed(Failure::TimedOut { is_sent: false }, "/a");
        assert_eq!((unsent.kind(), unsent.code().0), (ErrorKind::NotExecuted, -122));
    }

    #[test]
    fn a_message_names_what_and_where() {
        let error = Error::answered(ErrorCode::BAD_VERSION, "/a").of_operation(2);
        assert_eq!(
            error.to_string(),
            "version does not match: /a (operation 2 of the transaction)"
        );
        assert_eq!(Error::answered(ErrorCode(-99), "").to_string(), "server reports -99");
    }
}
