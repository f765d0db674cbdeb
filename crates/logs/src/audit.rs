//! The lines of the audit log.
//!
//! A line has the fields of the original in its order, each as `name=value` with tabs between them; an absent field is left
//! out. In front is what the original's configuration puts there: local time, level and logger.
//!
//! Source: `AuditEvent.java`, `ZKAuditProvider.java`, the appender `RFAAUDIT` in `logback.xml`.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::escape::Reversible;

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Success,
    /// It was not.
    Failure,
    /// It was begun: the end of a server is told of before it.
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
    /// Who asked: names with commas between them.
    pub user: &'l str,
    /// The client's address.
    pub ip: Option<&'l str>,
    /// What was asked for.
    pub operation: &'l str,
    /// The path.
    pub znode: Option<&'l str>,
    /// Of a new znode: of which kind.
    pub znode_type: Option<&'l str>,
    /// The new access control list.
    pub acl: Option<&'l str>,
    /// Our own: the scheme that a client could not authenticate with.
    pub scheme: Option<&'l str>,
    /// Our own: why.
    pub reason: Option<&'l str>,
    /// What became of it.
    pub result: Outcome,
}

impl<'l> Line<'l> {
    /// A line of the server itself.
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

    /// Appends it, with its end, as something that happened at this time of the wall clock.
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

    /// Lines as the original writes them: `docs/protocol/admin.md`, section 8.
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
