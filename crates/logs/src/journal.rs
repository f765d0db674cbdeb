//! The journal of systemd, by its native protocol: a datagram with the fields of an entry.
//!
//! An entry that is too large for a datagram is passed as a sealed file in memory.
//!
//! Source: "Native Journal Protocol" of the systemd project.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::{Level, Metadata};

use crate::line::{Origin, Said};

/// The socket of the journal.
pub const SOCKET: &str = "/run/systemd/journal/socket";
/// The name of the program in the journal.
const IDENTIFIER: &str = "zebu";
/// Fields of messages that have fields of the journal with the same names. The names of others
/// begin with `F_`, so that none of them can replace a field of the entry itself.
const OWN: [(&str, &str); 2] = [("session", "SESSION"), ("connection", "CONNECTION")];

/// The way to the journal.
#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// Checks that a journal listens on this socket.
    ///
    /// # Errors
    /// None does.
    pub fn open(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // The journal ignores an empty datagram.
        socket.send_to(&[], path)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// Sends an entry.
    ///
    /// # Errors
    /// The journal does not take it.
    pub fn write(
        &self,
        origin: &Origin<'_>,
        metadata: &Metadata<'_>,
        said: &Said,
    ) -> io::Result<()> {
        let entry = entry(origin, (metadata.file(), metadata.line()), said);
        match self.socket.send_to(&entry, &self.path) {
            Err(error) if is_too_large(&error) => self.write_large(&entry),
            done => done.map(drop),
        }
    }

    #[cfg(target_os = "linux")]
    fn write_large(&self, entry: &[u8]) -> io::Result<()> {
        use std::fs::File;
        use std::io::Write as _;
        use std::mem::MaybeUninit;
        use std::os::fd::AsFd as _;

        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        use rustix::net::{
            SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg_addr,
        };

        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let mut file = File::from(memfd_create(IDENTIFIER, flags)?);
        file.write_all(entry)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)), "there is space for one");
        let address = SocketAddrUnix::new(&self.path)?;
        sendmsg_addr(&self.socket, &address, &[], &mut control, SendFlags::empty())?;
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn write_large(&self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

fn is_too_large(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MSGSIZE | Errno::NOBUFS))
}

fn entry(origin: &Origin<'_>, (file, line): (Option<&str>, Option<u32>), said: &Said) -> Vec<u8> {
    let Origin { level, target, thread, facts, .. } = *origin;
    let priority = match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "5",
        Level::DEBUG => "6",
        _ => "7",
    };
    let mut out = Vec::new();
    field(&mut out, "MESSAGE", said.message());
    field(&mut out, "PRIORITY", priority);
    field(&mut out, "SYSLOG_IDENTIFIER", IDENTIFIER);
    field(&mut out, "TARGET", target);
    field(&mut out, "THREAD", thread);
    if let Some(file) = file {
        field(&mut out, "CODE_FILE", file);
    }
    if let Some(line) = line {
        field(&mut out, "CODE_LINE", &line.to_string());
    }
    if let Some(id) = facts.server {
        field(&mut out, "MYID", &id.to_string());
    }
    if let Some(role) = facts.role {
        field(&mut out, "ROLE", role);
    }
    for (name, value) in said.fields() {
        match OWN.iter().find(|(own, _)| own == name) {
            Some((_, own)) => field(&mut out, own, value),
            None => field(&mut out, &other(name), value),
        }
    }
    out
}

/// The journal accepts capital letters, digits and underscores, and at most 64 of them.
fn other(name: &str) -> String {
    let valid = name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' });
    let mut field = "F_".to_owned();
    field.extend(valid.map(|it| it.to_ascii_uppercase()).take(62));
    field
}

/// Appends a field. A value with line ends has its length before it, in little-endian order.
#[expect(clippy::little_endian_bytes, reason = "the journal's format")]
fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use tracing::{Event, Subscriber, info, warn};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;
    use crate::process::Facts;

    struct ToJournal(Arc<Journal>);

    impl<S: Subscriber> Layer<S> for ToJournal {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let origin = Origin {
                wall_us: 0,
                level: *event.metadata().level(),
                target: event.metadata().target(),
                thread: "zebu-net-0",
                facts: Facts { server: Some(3), role: Some("leader") },
            };
            self.0.write(&origin, event.metadata(), &Said::of(event)).unwrap();
        }
    }

    /// The fields of an entry. The reader is independent of the writer.
    fn read(mut bytes: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|it| *it == b'\n').unwrap();
            let line = str::from_utf8(&bytes[..end]).unwrap();
            bytes = &bytes[end + 1..];
            let (name, value) = match line.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    let length = bytes[..8].iter().rev().fold(0, |sum, it| sum << 8 | *it as usize);
                    let value = str::from_utf8(&bytes[8..8 + length]).unwrap().to_owned();
                    assert_eq!(bytes[8 + length], b'\n');
                    bytes = &bytes[9 + length..];
                    (line, value)
                }
            };
            assert!(fields.insert(name.to_owned(), value).is_none(), "{name}");
        }
        fields
    }

    #[test]
    fn an_entry_has_the_facts_as_fields() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(Journal::open(&path).is_err());
        let journal = UnixDatagram::bind(&path).unwrap();
        let layer = ToJournal(Arc::new(Journal::open(&path).unwrap()));
        let mut buffer = vec![0; 1 << 16];
        assert_eq!(journal.recv(&mut buffer).unwrap(), 0);
        let said_at = line!() + 2;
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            warn!(target: "one", session = %"0x1", connection = "10.0.0.7:5", role = 5, "a\nb=c");
            info!(target: "two", "nothing else");
        });
        let length = journal.recv(&mut buffer).unwrap();
        let expected = [
            ("MESSAGE", "a\nb=c"),
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "zebu"),
            ("TARGET", "one"),
            ("THREAD", "zebu-net-0"),
            ("CODE_FILE", file!()),
            ("CODE_LINE", &said_at.to_string()),
            ("MYID", "3"),
            ("ROLE", "leader"),
            ("SESSION", "0x1"),
            ("CONNECTION", "10.0.0.7:5"),
            ("F_ROLE", "5"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(&buffer[..length]), expected.into());
        let length = journal.recv(&mut buffer).unwrap();
        let fields = read(&buffer[..length]);
        assert_eq!((&*fields["MESSAGE"], &*fields["PRIORITY"]), ("nothing else", "5"));
        assert!(!fields.contains_key("SESSION"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_entry_too_large_for_a_datagram_is_passed_as_a_file() {
        use std::fs::File;
        use std::io::{IoSliceMut, Read as _, Seek as _};
        use std::mem::MaybeUninit;

        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        let layer = ToJournal(Arc::new(Journal::open(&path).unwrap()));
        journal.recv(&mut [0]).unwrap();
        let long = "x".repeat(8 << 20);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            info!("{long}");
        });
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 1];
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&journal, parts, &mut control, RecvFlags::empty()).unwrap();
        assert_eq!(got.bytes, 0);
        let files = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let mut file = File::from(files.unwrap());
        file.rewind().unwrap();
        let mut entry = Vec::new();
        file.read_to_end(&mut entry).unwrap();
        assert_eq!(read(&entry)["MESSAGE"], long);
    }
}
