//! A connection whose every answer is written down, so that the stories of two servers can be compared.

use std::fmt::Write as _;

use anyhow::Result;

use crate::raw::{Incoming, NoAnswer, Reply, Session};
use crate::server::Server;
use crate::wire::{Acl, Reader, Writer, op};

/// A connection whose every answer is written down.
pub struct Told {
    /// The session on it.
    pub session: Session,
    /// What was seen so far.
    pub story: String,
}

impl Told {
    /// Opens a session, whose story begins with `what`.
    ///
    /// # Errors
    /// There is none.
    pub fn new(server: &Server, what: &str) -> Result<Self> {
        let session = Session::open(server.address(), 10_000)?;
        Ok(Self { session, story: format!("== {what}\n") })
    }

    /// Makes a request; `None` where the server closes the connection instead.
    ///
    /// # Errors
    /// The answer is none of the protocol.
    pub fn call(&mut self, what: &str, op: i32, body: Writer) -> Result<Option<Reply>> {
        match self.session.call(op, body) {
            Ok(reply) => {
                let zxid = if reply.zxid == 0 { "0" } else { "N" };
                writeln!(self.story, "{what}: err {} zxid {zxid}", reply.err)?;
                Ok(Some(reply))
            }
            // A connection that was closed may be seen when it is written to, or when it is read from.
            Err(error) if error.is::<NoAnswer>() || error.is::<std::io::Error>() => {
                writeln!(self.story, "{what}: no answer")?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Presents credentials.
    ///
    /// # Errors
    /// The answer is none of the protocol.
    pub fn auth(&mut self, scheme: &str, data: Option<&[u8]>) -> Result<()> {
        let body = Writer::new().int(0).string(scheme).buffer(data);
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

    /// Creates a znode with one entry of an ACL: permissions, scheme and id.
    ///
    /// # Errors
    /// The answer is none of the protocol.
    pub fn create(&mut self, path: &str, data: &str, acl: (i32, &str, &str)) -> Result<()> {
        let list: Vec<Acl> = vec![(acl.0, Some(acl.1.into()), Some(acl.2.into()))];
        let body = Writer::new().string(path).buffer(Some(data.as_bytes())).acl(&list).int(0);
        self.call(&format!("create {path} {acl:?}"), op::CREATE, body).map(|_| ())
    }

    /// Sets data, or a null.
    ///
    /// # Errors
    /// The answer is none of the protocol.
    pub fn set(&mut self, path: &str, data: Option<&str>) -> Result<()> {
        let body = Writer::new().string(path).buffer(data.map(str::as_bytes)).int(-1);
        self.call(&format!("set {path} {data:?}"), op::SET_DATA, body).map(|_| ())
    }

    /// Reads data.
    ///
    /// # Errors
    /// The answer is none of the protocol.
    pub fn get(&mut self, path: &str) -> Result<()> {
        let body = Writer::new().string(path).bool(false);
        self.call(&format!("get {path}"), op::GET_DATA, body).map(|_| ())
    }

    /// Asks for the ids of the connection.
    ///
    /// # Errors
    /// The answer is none of the protocol.
    pub fn who_am_i(&mut self) -> Result<()> {
        if let Some(reply) = self.call("whoami", op::WHO_AM_I, Writer::new())? {
            // The original's ids have no order.
            let mut reader = Reader::new(&reply.body);
            let mut ids = Vec::new();
            for _ in 0..reader.int()? {
                ids.push((reader.string()?, reader.string()?));
            }
            ids.sort();
            writeln!(self.story, "{ids:?}")?;
        }
        Ok(())
    }

    /// Whether the server has closed the connection, or goes on; returns the story.
    ///
    /// # Errors
    /// There are none.
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
