//! The lines of the audit log.
//!
//! A line has the original's fields in the original's order, each as `name=value`, separated by
//! tabs. Missing fields are left out. Each line begins with the local time, the level and the
//! logger, as in the original's configuration.
//!
//! Source: `AuditEvent.java`, `ZKAuditProvider.java`, the appender `RFAAUDIT` in `logback.xml`.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::escape::Reversible;

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Success,
    /// It failed.
    Failure,
    /// It was started. The end of a server is logged before it happens.
    Invoked,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Invoked => "invoked",
        }
    }
}

/// One line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'l> {
    /// The client's session.
    pub session: Option<i64>,
    /// The user's names, separated by commas.
    pub user: &'l str,
    /// The client's address.
    pub ip: Option<&'l str>,
    /// The operation.
    pub operation: &'l str,
    /// The path.
    pub znode: Option<&'l str>,
    /// The mode of a created znode.
    pub znode_type: Option<&'l str>,
    /// The new access control list.
    pub acl: Option<&'l str>,
    /// Zebu only: the scheme of a failed authentication.
    pub scheme: Option<&'l str>,
    /// Zebu only: the reason of the failure.
    pub reason: Option<&'l str>,
    /// The result.
    pub result: Outcome,
}

impl<'l> Line<'l> {
    /// A line about the server itself.
    pub fn new(user: &'l str, operation: &'l str, result: Outcome) -> Self {
        Self {
            session: None,
            user,
            ip: None,
            operation,
            znode: None,
            znode_type: None,
            acl: None,
            scheme: None,
            reason: None,
            result,
        }
    }

    /// Appends the line and its line end. `now`: the time of the event, by the wall clock.
    pub fn write(&self, out: &mut String, wall_ms: i64) {
        // Writing to a string cannot fail.
        let _ = self.try_write(out, wall_ms);
        out.push('\n');
    }

    fn try_write(&self, out: &mut String, wall_ms: i64) -> fmt::Result {
        let level = if self.result == Outcome::Failure { "ERROR" } else { "INFO" };
        let at = Timestamp::from_millisecond(wall_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let at = at.to_zoned(TimeZone::system());
        write!(out, "{} {level} audit.Slf4jAuditLogger: ", at.strftime("%Y-%m-%d %H:%M:%S,%3f"))?;
        if let Some(session) = self.session {
            write!(out, "session=0x{session:x}\t")?;
        }
        write!(out, "user={}", Reversible(self.user))?;
        for (name, value) in [
            ("ip", self.ip),
            ("operation", Some(self.operation)),
            ("znode", self.znode),
            ("znode_type", self.znode_type),
            ("acl", self.acl),
            ("scheme", self.scheme),
            ("reason", self.reason),
        ] {
            if let Some(value) = value {
                write!(out, "\t{name}={}", Reversible(value))?;
            }
        }
        write!(out, "\tresult={}", self.result.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &Line<'_>) -> String {
        let mut out = String::new();
        line.write(&mut out, 1_700_000_000_001);
        out
    }

    /// Lines in the original's format: `docs/protocol/admin.md`, section 8.
    #[test]
    fn fields_stand_in_the_order_of_the_original() {
        let create = Line {
            session: Some(0x0100_0035_6204_0000),
            ip: Some("127.0.0.1"),
            znode: Some("/au/e"),
            znode_type: Some("ephemeral"),
            ..Line::new("127.0.0.1,u", "create", Outcome::Success)
        };
        let text = shown(&create);
        let (head, fields) = text.split_once(": ").unwrap();
        assert_eq!(
            fields,
            "session=0x100003562040000\tuser=127.0.0.1,u\tip=127.0.0.1\toperation=create\t\
             znode=/au/e\tznode_type=ephemeral\tresult=success\n"
        );
        let words: Vec<&str> = head.split(' ').collect();
        assert_eq!(words[2..], ["INFO", "audit.Slf4jAuditLogger"]);
        assert!(words[1].ends_with(",001") && words[1].len() == 12, "{head}");
        let start = shown(&Line::new("zookeeper", "serverStart", Outcome::Success));
        assert!(start.ends_with(": user=zookeeper\toperation=serverStart\tresult=success\n"));
        let stop = shown(&Line::new("zookeeper", "serverStop", Outcome::Invoked));
        assert!(stop.contains(" INFO ") && stop.ends_with("\tresult=invoked\n"), "{stop}");
        let acl =
            Line { acl: Some("world:anyone:cdrwa"), ..Line::new("u", "setAcl", Outcome::Failure) };
        let text = shown(&acl);
        assert!(text.contains(" ERROR "), "{text}");
        assert!(text.ends_with("operation=setAcl\tacl=world:anyone:cdrwa\tresult=failure\n"));
    }

    #[test]
    fn no_client_can_add_a_field_or_a_line() {
        let line = Line {
            znode: Some("/a\tresult=success\nuser=root\\"),
            ..Line::new("u\r", "create", Outcome::Failure)
        };
        let text = shown(&line);
        assert_eq!(text.lines().count(), 1);
        assert!(text.ends_with(
            "user=u\\r\toperation=create\tznode=/a\\tresult=success\\nuser=root\\\\\tresult=failure\n"
        ), "{text}");
    }
}
