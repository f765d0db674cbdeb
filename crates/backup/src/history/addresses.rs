//! The addresses from which a session was used, from audit logs and server logs.
//!
//! Transactions contain the session's id, but neither an address nor a user. A line of the audit
//! log has all three, as in `session=0x1000 user=amy ip=10.0.0.7 operation=setData …`. The
//! original's server log has the address when a session is established: `Established session 0x1000
//! with negotiated timeout 30000 for client /10.0.0.7:4711`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use zebu_proto::SessionId;

/// The known users and addresses of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    of: BTreeMap<SessionId, Callers>,
}

/// The user and the addresses of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// Addresses; several if the session has moved.
    pub addresses: BTreeSet<String>,
    /// Authenticated users.
    pub users: BTreeSet<String>,
}

impl Addresses {
    /// Adds the facts of a log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(&mut self, mut log: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        while log.read_until(b'\n', &mut line)? > 0 {
            self.line(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(())
    }

    fn line(&mut self, line: &str) {
        if let Some(session) = field(line, "session=").and_then(parse_session) {
            let callers = self.of.entry(session).or_default();
            callers.addresses.extend(field(line, "ip=").map(str::to_owned));
            callers.users.extend(field(line, "user=").map(str::to_owned));
        } else if let Some((_, rest)) = line.split_once("Established session ")
            && let Some(session) = rest.split_whitespace().next().and_then(parse_session)
            && let Some((_, client)) = rest.split_once(" for client ")
            && let Some(client) = client.split_whitespace().next()
        {
            let client = client.rsplit('/').next().unwrap_or(client);
            let address = client.rsplit_once(':').map_or(client, |(address, _)| address);
            self.of.entry(session).or_default().addresses.insert(address.to_owned());
        }
    }

    /// The users and addresses of a session.
    pub fn of(&self, session: SessionId) -> Option<&Callers> {
        self.of.get(&session)
    }
}

/// The value of a key at the beginning of a word. Values end at a tab, or at the blank before the
/// next key.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut from = 0;
    let at = loop {
        let at = from + line[from..].find(key)?;
        if at == 0 || line[..at].ends_with(char::is_whitespace) {
            break at + key.len();
        }
        from = at + key.len();
    };
    let value = line[at..].split(char::is_whitespace).next().unwrap_or_default();
    (!value.is_empty()).then_some(value)
}

fn parse_session(text: &str) -> Option<SessionId> {
    let id = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    Some(SessionId(id as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_logs_of_the_original_tell_addresses() {
        // Lines in the original's format, the first one with the tabs of its audit log.
        let log = "\
2026-11-21 07:20:15,001 INFO audit.Slf4jAuditLogger: session=0x100003562040000\tuser=127.0.0.1,u\tip=127.0.0.1\t\
operation=create\tznode=/au/e\tznode_type=ephemeral\tresult=success
user=root\toperation=serverStart\tresult=success
2026-11-21 [myid:] - DEBUG - Established session 0xff00003562040001 with negotiated timeout 30000 for client /10.0.0.7:4711
nothing of a session=5
";
        let mut addresses = Addresses::default();
        addresses.read(log.as_bytes()).unwrap();
        let first = addresses.of(SessionId(0x0100_0035_6204_0000)).unwrap();
        assert_eq!(first.addresses.first().unwrap(), "127.0.0.1");
        assert_eq!(first.users.first().unwrap(), "127.0.0.1,u");
        let second = addresses.of(SessionId(0xff00_0035_6204_0001_u64 as i64)).unwrap();
        assert_eq!(second.addresses.first().unwrap(), "10.0.0.7");
        assert_eq!(addresses.of.len(), 2);
    }
}
