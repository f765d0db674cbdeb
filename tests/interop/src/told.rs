//! A connection that records every answer, so that transcripts of two servers can be compared.

use std::fmt::Write as _;

use anyhow::Result;
use zebu_testkit::connection::{Incoming, Reply};
use zebu_testkit::wire::{Acl, Reader, Writer, op};

use crate::raw::{NoAnswer, Session};
use crate::server::Server;

/// A connection that records every answer.
pub struct Told {
    /// The session.
    pub session: Session,
    /// The transcript.
    pub story: String,
}

impl Told {
    /// Opens a session. Its transcript begins with `what`.
    ///
    /// # Errors
    /// The session cannot be opened.
    pub fn new(server: &Server, what: &str) -> Result<Self> {
        let session = Session::open(server.address(), 10_000)?;
        Ok(Self { session, story: format!("== {what}\n") })
    }

    /// Sends a request; `None` if the server closes the connection instead.
    ///
    /// # Errors
    /// The answer violates the protocol.
    pub fn call(&mut self, what: &str, op: i32, body: Writer) -> Result<Option<Reply>> {
        match self.session.call(op, body) {
            Ok(reply) => {
                let zxid = if reply.zxid == 0 { "0" } else { "N" };
                writeln!(self.story, "{what}: err {} zxid {zxid}", reply.err)?;
                Ok(Some(reply))
            }
            // A closed connection may be noticed on writing or on reading.
            Err(error) if error.is::<NoAnswer>() || error.is::<std::io::Error>() => {
                writeln!(self.story, "{what}: no answer")?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends credentials.
    ///
    /// # Errors
    /// The answer violates the protocol.
    pub fn auth(&mut self, scheme: &str, data: Option<&[u8]>) -> Result<()> {
        let body = Writer::new().int(0).string(scheme).optional_buffer(data);
        self.session.connection.send(&Writer::request(-4, op::AUTH).raw(&body.done()).done())?;
        let shown = data.map(String::from_utf8_lossy);
        match self.session.connection.receive() {
            Ok(Incoming::Frame(frame)) => {
                let err = Reply::parse(&frame)?.err;
                writeln!(self.story, "auth {scheme} {shown:?}: err {err}")?;
            }
            _ => writeln!(self.story, "auth {scheme} {shown:?}: closed")?,
        }
        Ok(())
    }

    /// Creates a znode with one ACL entry: permissions, scheme and id.
    ///
    /// # Errors
    /// The answer violates the protocol.
    pub fn create(&mut self, path: &str, data: &str, acl: (i32, &str, &str)) -> Result<()> {
        let list: Vec<Acl> = vec![(acl.0, Some(acl.1.into()), Some(acl.2.into()))];
        let body = Writer::new().string(path).buffer(data.as_bytes()).acl(&list).int(0);
        self.call(&format!("create {path} {acl:?}"), op::CREATE, body).map(|_| ())
    }

    /// Sets data, possibly null.
    ///
    /// # Errors
    /// The answer violates the protocol.
    pub fn set(&mut self, path: &str, data: Option<&str>) -> Result<()> {
        let body = Writer::new().string(path).optional_buffer(data.map(str::as_bytes)).int(-1);
        self.call(&format!("set {path} {data:?}"), op::SET_DATA, body).map(|_| ())
    }

    /// Reads data.
    ///
    /// # Errors
    /// The answer violates the protocol.
    pub fn get(&mut self, path: &str) -> Result<()> {
        let body = Writer::new().string(path).bool(false);
        self.call(&format!("get {path}"), op::GET_DATA, body).map(|_| ())
    }

    /// Reads the ids of the connection.
    ///
    /// # Errors
    /// The answer violates the protocol.
    pub fn who_am_i(&mut self) -> Result<()> {
        if let Some(reply) = self.call("whoami", op::WHO_AM_I, Writer::new())? {
            // The original lists ids in no particular order.
            let mut reader = Reader::new(&reply.body);
            let mut ids = Vec::new();
            for _ in 0..reader.int()? {
                ids.push((reader.optional_string()?, reader.optional_string()?));
            }
            ids.sort();
            writeln!(self.story, "{ids:?}")?;
        }
        Ok(())
    }

    /// Records whether the server has closed the connection, and returns the transcript.
    ///
    /// # Errors
    /// The answer violates the protocol.
    pub fn end(mut self) -> Result<String> {
        self.session.connection.send(&Writer::request(-2, op::PING).done()).ok();
        let end = match self.session.connection.receive() {
            Ok(Incoming::Frame(_)) => "goes on",
            _ => "closed",
        };
        writeln!(self.story, "{end}")?;
        Ok(self.story)
    }
}
