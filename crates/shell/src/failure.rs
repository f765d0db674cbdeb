//! The reason why a command failed, in the original's words, and the remedy.

use std::fmt::Write as _;
use std::io;

use serde_json::{Value, json};
use zebu_client::{Error, ErrorCode, ErrorKind};
use zebu_proto::path::{self, PathError};

use crate::command::Spec;

/// The exit code for an unknown command, as in shells.
const NOT_FOUND: u8 = 127;

/// The exit code after Ctrl-C, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// The exit code if the reader of the output has gone, as in shells.
const UNREAD: u8 = 141;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: Option<ErrorCode>,
    path: Option<String>,
    /// Shown before the message, but not in JSON.
    list: Option<String>,
    exit_code: u8,
}

impl From<zebu_credentials::Failure> for Failure {
    fn from(failure: zebu_credentials::Failure) -> Self {
        let mut own = Self::new(failure.message());
        own.hint = failure.hint().map(str::to_owned);
        own
    }
}

/// The result of a command.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure that no server reported.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, hint: None, code: None, path: None, list: None, exit_code: 1 }
    }

    /// Adds a remedy.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The number of arguments is wrong. The message is the syntax of the command.
    pub(crate) fn usage(spec: &Spec) -> Self {
        Self::new(spec.usage()).hint(format!("help {}", spec.name))
    }

    /// Adds the syntax of the command.
    pub(crate) fn usage_of(self, spec: &Spec) -> Self {
        self.hint(spec.syntax())
    }

    pub(crate) fn unknown_option(spec: &Spec, option: &str) -> Self {
        let failure = Self::new(format!("Unrecognized option: {option}"));
        failure.hint(format!("{}; put -- before data that begin with a dash", spec.syntax()))
    }

    /// Unknown command. `similar` is the name of a similar one.
    pub(crate) fn unknown_command(name: &str, similar: Option<&str>) -> Self {
        let failure = Self::new(format!("Command not found: {name}"));
        let hint = match similar {
            Some(similar) => format!("did you mean {similar}? help shows all commands"),
            None => "help shows all commands".to_owned(),
        };
        let list = Some(crate::command::syntaxes());
        Self { exit_code: NOT_FOUND, list, ..failure.hint(hint) }
    }

    /// Only the exit code reports the failure.
    pub(crate) fn silent() -> Self {
        Self::new("")
    }

    /// The user pressed Ctrl-C.
    pub(crate) fn interrupted() -> Self {
        Self { exit_code: INTERRUPTED, ..Self::new("interrupted") }
    }

    /// A server's error code, if no path caused it.
    pub(crate) fn of_code(code: ErrorCode) -> Self {
        Self::answered(code, "")
    }

    pub(crate) fn no_node(path: &str) -> Self {
        Self::answered(ErrorCode::NO_NODE, path)
    }

    pub(crate) fn no_watcher(path: &str) -> Self {
        Self::answered(ErrorCode::NO_WATCHER, path)
    }

    /// An invalid path.
    pub(crate) fn of_path(wrong: PathError, path: &str) -> Self {
        let failure = Self::new(bad_path(wrong, path));
        failure
            .hint("a path begins with a slash and does not end with one, for example /app/config")
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// Removes the remedy, which is printed once for many failures.
    pub(crate) fn without_hint(self) -> Self {
        Self { hint: None, ..self }
    }

    /// The list shown before the message.
    pub(crate) fn list(&self) -> Option<&str> {
        self.list.as_deref()
    }

    /// The lines to show.
    pub(crate) fn text(&self) -> String {
        let mut text = self.message.clone();
        if let Some(hint) = &self.hint {
            write!(text, "\nhint: {hint}").expect("writing to a string");
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let mut error = json!({ "message": self.message });
        if let Some(code) = self.code {
            error["code"] = code.0.into();
            error["name"] = code.name().into();
        }
        if let Some(path) = &self.path {
            error["path"] = path.as_str().into();
        }
        if let Some(hint) = &self.hint {
            error["hint"] = hint.as_str().into();
        }
        json!({ "error": error })
    }

    fn answered(code: ErrorCode, path: &str) -> Self {
        let message = match prefix(code) {
            // The original checks ACLs before the path.
            Some(prefix) if code == ErrorCode::INVALID_ACL && path.is_empty() => {
                format!("{prefix}null")
            }
            Some(prefix) => format!("{prefix}{path}"),
            None => match sentence(code) {
                Some(sentence) => sentence.to_owned(),
                None if path.is_empty() => format!("KeeperErrorCode = {}", words(code)),
                None => format!("KeeperErrorCode = {} for {path}", words(code)),
            },
        };
        let path = (!path.is_empty()).then(|| path.to_owned());
        let hint = hint(code).map(str::to_owned);
        Self { message, hint, code: Some(code), path, list: None, exit_code: 1 }
    }
}

/// The message about an invalid path, in the original's words.
fn bad_path(error: PathError, path: &str) -> String {
    match error {
        PathError::Empty => "Path length must be > 0".to_owned(),
        PathError::Relative => "Path must start with / character".to_owned(),
        PathError::TrailingSlash => "Path must not end with / character".to_owned(),
        error => format!("Invalid path string \"{path}\" caused by {error}"),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let place = error.path().unwrap_or_default();
        let text = error.to_string();
        if text.starts_with("invalid connect string") {
            return Self::new(text).hint("servers are host:port[,host:port...][/chroot]");
        }
        if text.starts_with("TLS cannot be used") {
            return Self::new(text);
        }
        if text == PathError::Empty.to_string() {
            return Self::of_path(PathError::Empty, "");
        }
        if error.kind() == ErrorKind::Invalid && !place.is_empty() {
            if let Err(wrong) = path::validate(place) {
                return Self::of_path(wrong, place);
            }
            // Messages of the client's own checks say more than the error code.
            if error.code() == ErrorCode::BAD_ARGUMENTS && !text.starts_with("invalid") {
                return Self::new(text);
            }
        }
        let failure = Self::answered(error.code(), place);
        match error.reason() {
            // The reason of the lost connection is better than the general remedy.
            Some(reason) => failure.hint(reason),
            None => failure,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The reader has closed the output on purpose, so no message is needed.
            return Self { exit_code: UNREAD, ..Self::new("") };
        }
        Self::new(error.to_string())
    }
}

/// The original's text before the path. Source: `CliWrapperException`.
fn prefix(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::NO_NODE => "Node does not exist: ",
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS => "Ephemerals cannot have children: ",
        ErrorCode::NODE_EXISTS => "Node already exists: ",
        ErrorCode::NOT_EMPTY => "Node not empty: ",
        ErrorCode::NOT_READ_ONLY => "Not a read-only call: ",
        ErrorCode::INVALID_ACL => "Acl is not valid : ",
        ErrorCode::NO_AUTH => "Insufficient permission : ",
        ErrorCode::BAD_ARGUMENTS => "Arguments are not valid : ",
        ErrorCode::BAD_VERSION => "version No is not valid : ",
        ErrorCode::QUOTA_EXCEEDED => "Quota has exceeded : ",
        _ => return None,
    })
}

/// The original's message without a path.
fn sentence(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::RECONFIG_IN_PROGRESS => {
            "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)"
        }
        ErrorCode::NEW_CONFIG_NO_QUORUM => {
            "No quorum of new config is connected and up-to-date with the leader of last commmitted \
             config - try invoking reconfiguration after new servers are connected and synced"
        }
        _ => return None,
    })
}

/// The original's name of the other codes. Source: `KeeperException.getCodeMessage`.
fn words(code: ErrorCode) -> String {
    let words = match code {
        ErrorCode::SYSTEM_ERROR => "SystemError",
        ErrorCode::RUNTIME_INCONSISTENCY => "RuntimeInconsistency",
        ErrorCode::DATA_INCONSISTENCY => "DataInconsistency",
        ErrorCode::CONNECTION_LOSS => "ConnectionLoss",
        ErrorCode::MARSHALLING_ERROR => "MarshallingError",
        ErrorCode::UNIMPLEMENTED => "Unimplemented",
        ErrorCode::OPERATION_TIMEOUT => "OperationTimeout",
        ErrorCode::SESSION_EXPIRED => "Session expired",
        ErrorCode::INVALID_CALLBACK => "Invalid callback",
        ErrorCode::AUTH_FAILED => "AuthFailed",
        ErrorCode::SESSION_MOVED => "Session moved",
        ErrorCode::EPHEMERAL_ON_LOCAL_SESSION => "Ephemeral node on local session",
        ErrorCode::NO_WATCHER => "No such watcher",
        ErrorCode::REQUEST_TIMEOUT => "Request timeout",
        ErrorCode::RECONFIG_DISABLED => "Reconfig is disabled",
        ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {
            "Session closed because client failed to authenticate"
        }
        ErrorCode::THROTTLED_OP => "Op throttled due to high load",
        other => return format!("Unknown error {}", other.0),
    };
    words.to_owned()
}

/// The remedy.
fn hint(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::NO_NODE => "list the parent with ls; create the parent before its child",
        ErrorCode::NODE_EXISTS => "change its data with set",
        ErrorCode::NOT_EMPTY => "delete it with everything below with deleteall",
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS => "create the znode below a persistent one",
        ErrorCode::NOT_READ_ONLY => {
            "this server has lost its quorum; writes work again when it has one"
        }
        ErrorCode::INVALID_ACL => {
            "an ACL is scheme:id:perms, such as world:anyone:r; auth::cdrwa needs addauth first"
        }
        ErrorCode::NO_AUTH => {
            "getAcl shows the permissions; authenticate with addauth digest user:password"
        }
        ErrorCode::BAD_VERSION => {
            "another client changed the znode meanwhile; stat shows its current version"
        }
        ErrorCode::QUOTA_EXCEEDED => "listquota shows the limits; setquota changes them",
        ErrorCode::CONNECTION_LOSS => {
            "check that a server runs there; an unanswered request may have been executed"
        }
        ErrorCode::REQUEST_TIMEOUT => {
            "the request may have been executed; check before you repeat it"
        }
        ErrorCode::UNIMPLEMENTED => {
            "the server does not support this request; -t needs extendedTypesEnabled=true on all servers"
        }
        ErrorCode::SESSION_EXPIRED => {
            "open a new session with connect; the ephemeral znodes of the old one are deleted"
        }
        ErrorCode::RECONFIG_DISABLED => "set reconfigEnabled=true on all servers",
        ErrorCode::RECONFIG_IN_PROGRESS => {
            "try again when the other one has ended; config shows its result"
        }
        ErrorCode::THROTTLED_OP => {
            "the server is too busy and did not execute the request; try again later"
        }
        ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {
            "the server requires SASL; set java.security.auth.login.config"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_in_the_originals_words() {
        let text = |code, path| Failure::answered(code, path).message;
        assert_eq!(text(ErrorCode::NO_NODE, "/a"), "Node does not exist: /a");
        assert_eq!(text(ErrorCode::INVALID_ACL, ""), "Acl is not valid : null");
        // The error of a reconfiguration, which has no path.
        assert_eq!(text(ErrorCode::BAD_ARGUMENTS, ""), "Arguments are not valid : ");
        assert_eq!(text(ErrorCode::NO_WATCHER, "/a"), "KeeperErrorCode = No such watcher for /a");
        assert_eq!(
            text(ErrorCode::RECONFIG_DISABLED, ""),
            "KeeperErrorCode = Reconfig is disabled"
        );
        assert_eq!(text(ErrorCode(-99), ""), "KeeperErrorCode = Unknown error -99");
        assert_eq!(
            bad_path(PathError::EmptyName(3), "/a//b"),
            "Invalid path string \"/a//b\" caused by empty node name specified @3"
        );
    }

    #[tokio::test]
    async fn names_that_cannot_be_resolved_are_named() {
        struct None;

        impl zebu_client::HostProvider for None {
            fn servers(&self) -> zebu_client::Servers<'_> {
                Box::pin(async { Err(io::Error::other("zk9.invalid is not known")) })
            }
        }

        let connector = zebu_client::Connector::new();
        let wait = std::time::Duration::from_secs(1);
        let error = connector.connection_wait(wait).connect_to(None).await.unwrap_err();
        let failure = Failure::from(error);
        assert_eq!(
            failure.text(),
            "KeeperErrorCode = ConnectionLoss\nhint: zk9.invalid is not known"
        );
    }

    #[test]
    fn a_failure_says_what_to_do() {
        let failure = Failure::answered(ErrorCode::NOT_EMPTY, "/a");
        assert_eq!(
            failure.text(),
            "Node not empty: /a\nhint: delete it with everything below with deleteall"
        );
        let json = failure.json();
        assert_eq!(json["error"]["code"], -111);
        assert_eq!(json["error"]["path"], "/a");
        assert_eq!(Failure::unknown_command("sl", Some("ls")).exit_code(), 127);
    }
}
