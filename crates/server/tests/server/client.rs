//! A client for the tests. It encodes all bytes itself and shares no code with the server.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use zebu_testkit::connection::{Connection, Hello, Incoming, PATIENCE, Reply, Welcome};
use zebu_testkit::wire::{OPEN, Reader, Stat, Writer, create, err, op, set_data};

pub const EPHEMERAL: i32 = 1;
pub const SEQUENTIAL: i32 = 2;

/// A connection without a session. An unexpected event fails the test.
pub struct Raw(Connection);

impl Raw {
    pub fn open(port: u16) -> Self {
        Self(Connection::local(port).unwrap())
    }

    /// The socket itself.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.0.stream()
    }

    pub fn send(&mut self, payload: &[u8]) {
        self.0.send(payload).unwrap();
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        // The server may have closed the connection already.
        let _ = self.0.send_bytes(bytes);
    }

    /// The next frame, or `None` if the server has closed the connection.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        match self.0.receive().unwrap() {
            Incoming::Frame(payload) => Some(payload),
            Incoming::Closed => None,
            Incoming::Silence => panic!("nothing came"),
        }
    }

    /// All bytes up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        self.0.rest().expect("the connection ends")
    }

    pub fn is_closed(&mut self) -> bool {
        self.receive().is_none()
    }
}

/// The reason why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSession {
    /// The server refuses the session and closes the connection.
    Refused,
    /// The server closes the connection without an answer.
    Closed,
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
    /// Notifications, each with the number of replies before it.
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
        assert_eq!(answer[..4], [0; 4], "protocol version");
        let Welcome { timeout_ms, session, password } = Welcome::parse(&answer).unwrap();
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

    /// The connect request that renews this session.
    pub fn renewal(&self) -> Hello {
        Hello::renewal(self.timeout_ms, self.session, &self.password)
    }

    /// Sends a request without waiting for the reply.
    pub fn post(&mut self, op: i32, body: &Writer) -> i32 {
        self.xid += 1;
        self.post_as(self.xid, op, body);
        self.xid
    }

    pub fn post_as(&mut self, xid: i32, op: i32, body: &Writer) {
        self.raw.send(Writer::request(xid, op).raw(body.bytes()).bytes());
    }

    /// The next reply, or `None` if the server has closed the connection. Notifications before it
    /// are kept.
    pub fn reply(&mut self) -> Option<Reply> {
        loop {
            let reply = Reply::parse(&self.raw.receive()?).unwrap();
            if reply.xid != -1 {
                self.replies += 1;
                return Some(reply);
            }
            let Reply { zxid, err, body, .. } = reply;
            let mut body = Reader::new(&body);
            let (kind, state) = (body.int().unwrap(), body.int().unwrap());
            assert_eq!((state, err), (3, 0));
            let path = body.string().unwrap();
            self.events.push_back((Event { kind, path, zxid }, self.replies));
        }
    }

    /// Waits for a notification.
    pub fn event(&mut self) -> Event {
        if self.events.is_empty() {
            // The answer to a ping comes after everything that was queued before it.
            let until = Instant::now() + PATIENCE;
            while self.events.is_empty() {
                assert!(Instant::now() < until, "no notification");
                self.ping();
            }
        }
        self.events.pop_front().unwrap().0
    }

    pub fn ping(&mut self) -> Reply {
        self.post_as(-2, op::PING, &Writer::new());
        self.reply().expect("an answer to a ping")
    }

    /// Sends a request and waits for its reply.
    pub fn try_call(&mut self, op: i32, body: &Writer) -> Option<Reply> {
        let xid = self.post(op, body);
        let reply = self.reply()?;
        assert_eq!(reply.xid, xid);
        Some(reply)
    }

    pub fn call(&mut self, op: i32, body: &Writer) -> Reply {
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
        if reply.err == 0 { Ok(Reader::new(&reply.body).string().unwrap()) } else { Err(reply.err) }
    }

    pub fn create(&mut self, path: &str, data: &[u8]) -> Result<String, i32> {
        self.create_with(path, data, OPEN, 0)
    }

    pub fn ephemeral(&mut self, path: &str) {
        self.create_with(path, b"", OPEN, EPHEMERAL).unwrap();
    }

    pub fn get(&mut self, path: &str) -> Result<(Vec<u8>, Stat), i32> {
        let reply = self.call(op::GET_DATA, &Writer::new().string(path).bool(false));
        if reply.err != 0 {
            return Err(reply.err);
        }
        let mut body = Reader::new(&reply.body);
        Ok((body.buffer().unwrap().to_vec(), body.stat().unwrap()))
    }

    pub fn exists(&mut self, path: &str) -> bool {
        match self.call(op::EXISTS, &Writer::new().string(path).bool(false)).err {
            0 => true,
            err::NO_NODE => false,
            other => panic!("exists {path}: {other}"),
        }
    }

    /// Leaves a one-shot data watch.
    pub fn watch(&mut self, path: &str) {
        self.call(op::EXISTS, &Writer::new().string(path).bool(true));
    }

    pub fn set(&mut self, path: &str, data: &[u8]) -> Result<Stat, i32> {
        let reply = self.call(op::SET_DATA, &set_data(path, data));
        if reply.err == 0 { Ok(Reader::new(&reply.body).stat().unwrap()) } else { Err(reply.err) }
    }

    pub fn delete(&mut self, path: &str) -> Result<(), i32> {
        let reply = self.call(op::DELETE, &Writer::new().string(path).int(-1));
        if reply.err == 0 { Ok(()) } else { Err(reply.err) }
    }

    pub fn children(&mut self, path: &str) -> Vec<String> {
        let reply = self.call(op::GET_CHILDREN, &Writer::new().string(path).bool(false));
        assert_eq!(reply.err, 0, "children of {path}");
        let mut names = Reader::new(&reply.body).strings().unwrap();
        names.sort();
        names
    }

    /// Authenticates as `user:password`.
    pub fn auth(&mut self, scheme: &str, auth: &str) -> Option<Reply> {
        let body = Writer::new().int(0).string(scheme).string(auth);
        self.post_as(-4, op::AUTH, &body);
        self.reply()
    }

    /// Ends the session, and waits for the end of the connection.
    pub fn close(mut self) {
        let reply = self.call(op::CLOSE_SESSION, &Writer::new());
        assert_eq!(reply.err, 0);
        assert!(self.raw.is_closed());
    }

    /// Disconnects without closing the session.
    pub fn vanish(mut self) {
        let _ = self.raw.stream().shutdown(Shutdown::Both);
    }
}
