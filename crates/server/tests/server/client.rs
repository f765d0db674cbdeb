//! A client for the tests. It encodes all bytes itself and shares no code with the server.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Far above anything that should happen: who waits so long has found a fault.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Opcodes.
pub mod op {
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const EXISTS: i32 = 3;
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    pub const GET_ACL: i32 = 6;
    pub const SET_ACL: i32 = 7;
    pub const GET_CHILDREN: i32 = 8;
    pub const SYNC: i32 = 9;
    pub const PING: i32 = 11;
    pub const GET_CHILDREN2: i32 = 12;
    pub const CHECK: i32 = 13;
    pub const MULTI: i32 = 14;
    pub const CREATE2: i32 = 15;
    pub const RECONFIG: i32 = 16;
    pub const CHECK_WATCHES: i32 = 17;
    pub const REMOVE_WATCHES: i32 = 18;
    pub const CREATE_CONTAINER: i32 = 19;
    pub const CREATE_TTL: i32 = 21;
    pub const MULTI_READ: i32 = 22;
    pub const AUTH: i32 = 100;
    pub const SET_WATCHES: i32 = 101;
    pub const GET_EPHEMERALS: i32 = 103;
    pub const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub const ADD_WATCH: i32 = 106;
    pub const WHO_AM_I: i32 = 107;
    pub const CLOSE_SESSION: i32 = -11;
}

/// Error codes.
pub mod err {
    pub const OK: i32 = 0;
    pub const UNIMPLEMENTED: i32 = -6;
    pub const NO_NODE: i32 = -101;
    pub const NO_AUTH: i32 = -102;
    pub const NODE_EXISTS: i32 = -110;
    pub const INVALID_ACL: i32 = -114;
    pub const AUTH_FAILED: i32 = -115;
    pub const RECONFIG_DISABLED: i32 = -123;
    pub const REQUIRES_AUTH: i32 = -124;
    pub const QUOTA_EXCEEDED: i32 = -125;
    pub const THROTTLED: i32 = -127;
}

pub const EPHEMERAL: i32 = 1;
pub const SEQUENTIAL: i32 = 2;

/// Bytes being put together.
#[derive(Clone, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub fn buffer(mut self, value: &[u8]) -> Self {
        self = self.int(value.len() as i32);
        self.0.extend(value);
        self
    }

    pub fn text(self, value: &str) -> Self {
        self.buffer(value.as_bytes())
    }

    pub fn texts(self, values: &[&str]) -> Self {
        values.iter().fold(self.int(values.len() as i32), |bytes, value| bytes.text(value))
    }

    pub fn raw(mut self, value: &[u8]) -> Self {
        self.0.extend(value);
        self
    }

    /// An ACL of permissions, scheme and id.
    pub fn acl(self, entries: &[(i32, &str, &str)]) -> Self {
        entries.iter().fold(self.int(entries.len() as i32), |bytes, (perms, scheme, id)| {
            bytes.int(*perms).text(scheme).text(id)
        })
    }
}

pub const OPEN: &[(i32, &str, &str)] = &[(31, "world", "anyone")];

/// Bytes being taken apart.
pub struct Parts<'a>(pub &'a [u8]);

impl<'a> Parts<'a> {
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    pub fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    pub fn buffer(&mut self) -> &'a [u8] {
        let length = self.int().max(0);
        self.take(length as usize)
    }

    pub fn text(&mut self) -> String {
        String::from_utf8(self.buffer().to_vec()).unwrap()
    }

    pub fn texts(&mut self) -> Vec<String> {
        (0..self.int()).map(|_| self.text()).collect()
    }

    pub fn stat(&mut self) -> Stat {
        let (czxid, mzxid, ctime, mtime) = (self.long(), self.long(), self.long(), self.long());
        let (version, cversion, aversion) = (self.int(), self.int(), self.int());
        let (owner, data_length, children, pzxid) =
            (self.long(), self.int(), self.int(), self.long());
        let _ = (ctime, mtime, cversion, aversion, pzxid);
        Stat { czxid, mzxid, version, owner, data_length, children }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub czxid: i64,
    pub mzxid: i64,
    pub version: i32,
    pub owner: i64,
    pub data_length: i32,
    pub children: i32,
}

/// A connection without a session.
pub struct Raw {
    pub stream: TcpStream,
}

impl Raw {
    pub fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    pub fn send(&mut self, payload: &[u8]) {
        let frame = Bytes::new().buffer(payload).0;
        self.stream.write_all(&frame).unwrap();
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        // The server may have closed the connection already.
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame, or `None` when the server has closed the connection.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        if !self.read(&mut length) {
            return None;
        }
        let length = i32::from_be_bytes(length);
        assert!(length >= 0, "the server sent a frame of length {length}");
        let mut payload = vec![0; length as usize];
        self.read(&mut payload).then_some(payload)
    }

    fn read(&mut self, into: &mut [u8]) -> bool {
        match self.stream.read_exact(into) {
            Ok(()) => true,
            Err(error) => match error.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => false,
                _ => panic!("nothing came: {error}"),
            },
        }
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return rest,
                Ok(count) => rest.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return rest,
                Err(error) => panic!("the connection does not end: {error}"),
            }
        }
    }

    pub fn is_closed(&mut self) -> bool {
        self.receive().is_none()
    }
}

/// How a client says hello.
#[derive(Clone)]
pub struct Hello {
    pub last_zxid: i64,
    pub timeout_ms: i32,
    pub session: i64,
    pub password: Vec<u8>,
    /// `None` is an old client, which does not send the byte.
    pub read_only: Option<bool>,
}

impl Default for Hello {
    fn default() -> Self {
        Self {
            last_zxid: 0,
            timeout_ms: 30_000,
            session: 0,
            password: vec![0; 16],
            read_only: Some(false),
        }
    }
}

impl Hello {
    pub fn timeout(timeout_ms: i32) -> Self {
        Self { timeout_ms, ..Self::default() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let bytes = Bytes::new()
            .int(0)
            .long(self.last_zxid)
            .int(self.timeout_ms)
            .long(self.session)
            .buffer(&self.password);
        match self.read_only {
            Some(read_only) => bytes.bool(read_only).0,
            None => bytes.0,
        }
    }
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSession {
    /// The server says that it is over, and closes.
    Refused,
    /// The server closes without a word.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub xid: i32,
    pub zxid: i64,
    pub err: i32,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: i32,
    pub path: String,
    pub zxid: i64,
}

/// A client with a session.
pub struct Client {
    pub raw: Raw,
    pub session: i64,
    pub password: Vec<u8>,
    pub timeout_ms: i32,
    /// Payload length of the answer to the connect request.
    pub hello_bytes: usize,
    /// Notifications, and how many replies had come before each.
    pub events: VecDeque<(Event, u64)>,
    pub replies: u64,
    xid: i32,
}

impl Client {
    pub fn new(port: u16) -> Self {
        Self::hello(port, &Hello::default()).unwrap()
    }

    pub fn hello(port: u16, hello: &Hello) -> Result<Self, NoSession> {
        let mut raw = Raw::open(port);
        raw.send(&hello.bytes());
        Self::welcome(raw)
    }

    /// Reads the answer to a connect request that was sent already.
    pub fn welcome(mut raw: Raw) -> Result<Self, NoSession> {
        let Some(answer) = raw.receive() else { return Err(NoSession::Closed) };
        let mut parts = Parts(&answer);
        assert_eq!(parts.int(), 0, "protocol version");
        let (timeout_ms, session) = (parts.int(), parts.long());
        let password = parts.buffer().to_vec();
        assert_eq!(password.len(), 16);
        if timeout_ms == 0 {
            assert_eq!((session, &password), (0, &vec![0; 16]));
            assert!(raw.is_closed(), "a refused client is disconnected");
            return Err(NoSession::Refused);
        }
        Ok(Self {
            raw,
            session,
            password,
            timeout_ms,
            hello_bytes: answer.len(),
            events: VecDeque::new(),
            replies: 0,
            xid: 0,
        })
    }

    /// What renews this session.
    pub fn renewal(&self) -> Hello {
        Hello {
            session: self.session,
            password: self.password.clone(),
            timeout_ms: self.timeout_ms,
            ..Hello::default()
        }
    }

    /// Sends a request and does not wait.
    pub fn post(&mut self, op: i32, body: &Bytes) -> i32 {
        self.xid += 1;
        self.post_as(self.xid, op, body);
        self.xid
    }

    pub fn post_as(&mut self, xid: i32, op: i32, body: &Bytes) {
        self.raw.send(&Bytes::new().int(xid).int(op).raw(&body.0).0);
    }

    /// The next reply, or `None` when the server has closed the connection. Notifications before it
    /// are put aside.
    pub fn reply(&mut self) -> Option<Reply> {
        loop {
            let frame = self.raw.receive()?;
            let mut parts = Parts(&frame);
            let (xid, zxid, err) = (parts.int(), parts.long(), parts.int());
            if xid != -1 {
                self.replies += 1;
                return Some(Reply { xid, zxid, err, body: parts.0.to_vec() });
            }
            let (kind, state, path) = (parts.int(), parts.int(), parts.text());
            assert_eq!((state, err), (3, 0));
            self.events.push_back((Event { kind, path, zxid }, self.replies));
        }
    }

    /// Waits for a notification.
    pub fn event(&mut self) -> Event {
        if self.events.is_empty() {
            // A ping is answered behind whatever was queued before.
            let until = Instant::now() + DEADLINE;
            while self.events.is_empty() {
                assert!(Instant::now() < until, "no notification");
                self.ping();
            }
        }
        self.events.pop_front().unwrap().0
    }

    pub fn ping(&mut self) -> Reply {
        self.post_as(-2, op::PING, &Bytes::new());
        self.reply().expect("an answer to a ping")
    }

    /// Sends a request and waits for its reply.
    pub fn try_call(&mut self, op: i32, body: &Bytes) -> Option<Reply> {
        let xid = self.post(op, body);
        let reply = self.reply()?;
        assert_eq!(reply.xid, xid);
        Some(reply)
    }

    pub fn call(&mut self, op: i32, body: &Bytes) -> Reply {
        self.try_call(op, body).expect("the connection was closed")
    }

    pub fn create_with(
        &mut self,
        path: &str,
        data: &[u8],
        acl: &[(i32, &str, &str)],
        flags: i32,
    ) -> Result<String, i32> {
        let reply = self.call(op::CREATE, &create(path, data, acl, flags));
        if reply.err == 0 { Ok(Parts(&reply.body).text()) } else { Err(reply.err) }
    }

    pub fn create(&mut self, path: &str, data: &[u8]) -> Result<String, i32> {
        self.create_with(path, data, OPEN, 0)
    }

    pub fn ephemeral(&mut self, path: &str) {
        self.create_with(path, b"", OPEN, EPHEMERAL).unwrap();
    }

    pub fn get(&mut self, path: &str) -> Result<(Vec<u8>, Stat), i32> {
        let reply = self.call(op::GET_DATA, &Bytes::new().text(path).bool(false));
        if reply.err != 0 {
            return Err(reply.err);
        }
        let mut parts = Parts(&reply.body);
        Ok((parts.buffer().to_vec(), parts.stat()))
    }

    pub fn exists(&mut self, path: &str) -> bool {
        match self.call(op::EXISTS, &Bytes::new().text(path).bool(false)).err {
            0 => true,
            err::NO_NODE => false,
            other => panic!("exists {path}: {other}"),
        }
    }

    /// Leaves a one-shot data watch.
    pub fn watch(&mut self, path: &str) {
        self.call(op::EXISTS, &Bytes::new().text(path).bool(true));
    }

    pub fn set(&mut self, path: &str, data: &[u8]) -> Result<Stat, i32> {
        let reply = self.call(op::SET_DATA, &set_data(path, data));
        if reply.err == 0 { Ok(Parts(&reply.body).stat()) } else { Err(reply.err) }
    }

    pub fn delete(&mut self, path: &str) -> Result<(), i32> {
        let reply = self.call(op::DELETE, &Bytes::new().text(path).int(-1));
        if reply.err == 0 { Ok(()) } else { Err(reply.err) }
    }

    pub fn children(&mut self, path: &str) -> Vec<String> {
        let reply = self.call(op::GET_CHILDREN, &Bytes::new().text(path).bool(false));
        assert_eq!(reply.err, 0, "children of {path}");
        let mut names = Parts(&reply.body).texts();
        names.sort();
        names
    }

    /// Authenticates as `user:password`.
    pub fn auth(&mut self, scheme: &str, auth: &str) -> Option<Reply> {
        let body = Bytes::new().int(0).text(scheme).text(auth);
        self.post_as(-4, op::AUTH, &body);
        self.reply()
    }

    /// Ends the session, and sees the connection end.
    pub fn close(mut self) {
        let reply = self.call(op::CLOSE_SESSION, &Bytes::new());
        assert_eq!(reply.err, 0);
        assert!(self.raw.is_closed());
    }

    /// Goes away without a word; the session lives on.
    pub fn vanish(self) {
        let _ = self.raw.stream.shutdown(Shutdown::Both);
    }
}

pub fn create(path: &str, data: &[u8], acl: &[(i32, &str, &str)], flags: i32) -> Bytes {
    Bytes::new().text(path).buffer(data).acl(acl).int(flags)
}

pub fn set_data(path: &str, data: &[u8]) -> Bytes {
    Bytes::new().text(path).buffer(data).int(-1)
}

/// A multi of operations and their bodies.
pub fn multi(ops: &[(i32, Bytes)]) -> Bytes {
    let body = ops.iter().fold(Bytes::new(), |body, (op, operation)| {
        body.int(*op).bool(false).int(-1).raw(&operation.0)
    });
    body.int(-1).bool(true).int(-1)
}
