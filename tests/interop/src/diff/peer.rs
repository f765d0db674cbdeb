//! One of the two servers of a run: its connections, and its answers without values that differ
//! between servers.

use std::collections::HashMap;
use std::net::SocketAddr;

use zebu_testkit::connection::{Connection, Hello, Incoming};
use zebu_testkit::wire::{Reader, Writer, hex, op};

use super::{Knock, Request, SLOTS, Step};
use crate::dump;
use crate::normalise::{blank_times, now_ms, sort_sets};

/// Replaces a time.
const TIME: i64 = 0x7133_7133_7133_7133;
/// Stands for the opcode of a connect request.
const CONNECT: i32 = i32::MIN;
const TIMEOUT_MS: i32 = 3_600_000;

/// The server and its connections.
pub(super) struct Peer {
    address: SocketAddr,
    slots: Vec<Slot>,
    /// Ids of all sessions, in order of creation.
    sessions: HashMap<[u8; 8], u64>,
    passwords: Vec<Vec<u8>>,
    started_ms: i64,
}

#[derive(Default)]
struct Slot {
    connection: Option<Connection>,
    session: Option<(i64, Vec<u8>)>,
}

impl Peer {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            sessions: HashMap::new(),
            passwords: Vec::new(),
            started_ms: now_ms(),
        }
    }

    /// Executes the step and returns all received frames, on all connections.
    pub(super) fn apply(&mut self, step: &Step) -> Vec<String> {
        let mut said = Vec::new();
        match step {
            Step::Drop { slot } => self.slots[*slot].connection = None,
            Step::Knock(knock) => self.knock(knock, &mut said),
            Step::Requests { slot, requests } => {
                self.requests(*slot, requests, &mut said);
                if !requests.iter().all(|request| is_quiet(request.opcode)) {
                    self.fence(Some(*slot), &mut said);
                }
                // The original deletes the ephemerals of a session in the order of a hash set.
                if requests.iter().any(|request| request.opcode == op::CLOSE_SESSION) {
                    said.sort();
                }
            }
        }
        said
    }

    /// Collects pending frames from all other connections: a ping is answered after them.
    fn fence(&mut self, except: Option<usize>, said: &mut Vec<String>) {
        for slot in (0..SLOTS).filter(|slot| Some(*slot) != except) {
            if self.slots[slot].connection.is_some() {
                let ping = Writer::request(-2, op::PING).done();
                self.exchange(slot, &[(op::PING, ping)], said);
            }
        }
    }

    /// The final state: late notifications, and the tree.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        self.fence(None, &mut said);
        match dump::tree(self.address) {
            Ok(tree) => said.extend(tree.lines().map(|line| self.without_own(line))),
            Err(error) => said.push(format!("no tree: {error:#}")),
        }
        said
    }

    /// A line of a dump with numbered sessions and without times.
    fn without_own(&self, line: &str) -> String {
        let window = self.started_ms..=now_ms();
        let words = line.split_inclusive([' ', ',']).map(|word| {
            let number = word.trim_end_matches([' ', ',']).parse::<i64>();
            match number {
                Ok(number) if window.contains(&number) => "TIME,".to_owned(),
                Ok(number) => match self.sessions.get(&number.to_be_bytes()) {
                    Some(index) => format!("SESSION-{index},"),
                    None => word.to_owned(),
                },
                Err(_) => word.to_owned(),
            }
        });
        words.collect()
    }

    fn requests(&mut self, slot: usize, requests: &[Request], said: &mut Vec<String>) {
        if self.slots[slot].connection.is_none() && !self.connect(slot, said) {
            return;
        }
        let payloads: Vec<(i32, Vec<u8>)> = requests
            .iter()
            .map(|Request { xid, opcode, body, .. }| {
                (*opcode, Writer::request(*xid, *opcode).raw(body).done())
            })
            .collect();
        self.exchange(slot, &payloads, said);
    }

    /// Resumes the slot's session, or opens a new one.
    fn connect(&mut self, slot: usize, said: &mut Vec<String>) -> bool {
        for _ in 0..2 {
            let (id, password) = self.slots[slot].session.take().unwrap_or((0, vec![0; 16]));
            let request = Hello::renewal(TIMEOUT_MS, id, &password).bytes();
            let Some((connection, answer)) = self.dial(&request, said) else { return false };
            if let Some(session) = self.learn(&answer) {
                self.slots[slot] = Slot { connection: Some(connection), session: Some(session) };
                return true;
            }
        }
        false
    }

    fn dial(&mut self, request: &[u8], said: &mut Vec<String>) -> Option<(Connection, Vec<u8>)> {
        let attempt = Connection::open(self.address).and_then(|mut connection| {
            connection.send(request)?;
            let incoming = connection.receive()?;
            Ok((connection, incoming))
        });
        match attempt {
            Ok((connection, Incoming::Frame(answer))) => {
                self.learn(&answer);
                said.push(format!("connect: {}", self.show(CONNECT, &answer)));
                Some((connection, answer))
            }
            Ok((_, other)) => {
                said.push(format!("connect: {other:?}"));
                None
            }
            Err(error) => {
                said.push(format!("connect: {error:#}"));
                None
            }
        }
    }

    /// Records the session of a connect answer; `None` if it was refused.
    fn learn(&mut self, answer: &[u8]) -> Option<(i64, Vec<u8>)> {
        let mut reader = Reader::new(answer);
        let (_, timeout, id) = (reader.int().ok()?, reader.int().ok()?, reader.long().ok()?);
        let password = reader.buffer().ok()?.to_vec();
        if timeout <= 0 {
            return None;
        }
        let next = u64::try_from(self.sessions.len()).expect("few");
        self.sessions.entry(id.to_be_bytes()).or_insert_with(|| {
            self.passwords.push(password.clone());
            next
        });
        Some((id, password))
    }

    fn knock(&mut self, knock: &Knock, said: &mut Vec<String>) {
        let session = knock.slot.and_then(|slot| self.slots[slot].session.clone());
        let (id, mut password) = session.unwrap_or((0, vec![0; 16]));
        if knock.wrong_password {
            password[0] ^= 1;
        }
        let request = Writer::new()
            .int(0)
            .long(knock.last_zxid)
            .int(knock.timeout_ms)
            .long(id)
            .buffer(&password);
        let request = match knock.read_only {
            Some(read_only) => request.bool(read_only),
            None => request,
        };
        // The server closes another connection that has this session. The next request on that
        // connection shows it, but whether that request is answered depends on timing.
        let dialled = self.dial(&request.done(), said);
        if let (Some(slot), Some(_)) = (knock.slot, &dialled) {
            self.slots[slot].connection = None;
        }
        if let Some((mut connection, answer)) = dialled
            && self.learn(&answer).is_none()
        {
            said.push(format!("then {:?}", connection.receive().ok()));
        }
    }

    /// Sends payloads in one write and receives until each is answered or the connection is closed.
    fn exchange(&mut self, slot: usize, payloads: &[(i32, Vec<u8>)], said: &mut Vec<String>) {
        let Some(mut connection) = self.slots[slot].connection.take() else { return };
        let bytes: Vec<u8> =
            payloads.iter().flat_map(|(_, payload)| zebu_testkit::wire::frame(payload)).collect();
        // The server may have closed the connection already. Its earlier frames are still readable.
        let sent = connection.send_bytes(&bytes);
        let mut open = true;
        for (opcode, _) in payloads {
            if !open {
                break;
            }
            loop {
                let incoming = match connection.receive() {
                    Ok(Incoming::Frame(payload)) => payload,
                    Ok(other) => {
                        said.push(format!("{slot}: {other:?}"));
                        open = false;
                        break;
                    }
                    Err(error) => {
                        said.push(format!("{slot}: {error:#} {sent:?}"));
                        open = false;
                        break;
                    }
                };
                let notification = incoming.starts_with(&[0xff; 4]);
                said.push(format!("{slot}: {}", self.show(*opcode, &incoming)));
                if !notification {
                    break;
                }
            }
            if *opcode == op::CLOSE_SESSION && open {
                said.push(format!("{slot}: {:?}", connection.receive().ok()));
                self.slots[slot].session = None;
                open = false;
            }
        }
        if open {
            self.slots[slot].connection = Some(connection);
        }
    }

    /// A payload in hexadecimal. Ids, passwords and times are replaced, and sets are sorted.
    fn show(&self, opcode: i32, payload: &[u8]) -> String {
        let mut bytes = payload.to_vec();
        let mut at = 0;
        while let Some(id) = bytes.get(at..at + 8) {
            let id: [u8; 8] = id.try_into().expect("8 bytes");
            // The first byte is the server's id, which is 1 for a standalone server.
            if id[0] == 1
                && let Some(index) = self.sessions.get(&id)
            {
                let shown = 0x5E55_0000_0000_0000 | *index;
                bytes[at..at + 8].copy_from_slice(&shown.to_be_bytes());
                at += 8;
            } else {
                at += 1;
            }
        }
        if opcode == CONNECT {
            for password in &self.passwords {
                crate::normalise::replace(&mut bytes, password, &[0x5E; 16]);
            }
        }
        let (bytes, _) = blank_times(&bytes, &(self.started_ms..=now_ms()), TIME);
        let bytes = sort_sets(opcode, &bytes);
        if bytes.len() > 4096 {
            return format!("{} bytes: {}…", bytes.len(), hex(&bytes[..256]));
        }
        hex(&bytes)
    }
}

/// Requests without effects that other clients can see.
fn is_quiet(opcode: i32) -> bool {
    matches!(
        opcode,
        op::EXISTS
            | op::GET_DATA
            | op::GET_ACL
            | op::GET_CHILDREN
            | op::GET_CHILDREN2
            | op::SYNC
            | op::PING
            | op::CHECK_WATCHES
            | op::REMOVE_WATCHES
            | op::MULTI_READ
            | op::AUTH
            | op::SASL
            | op::SET_WATCHES
            | op::SET_WATCHES2
            | op::ADD_WATCH
            | op::GET_EPHEMERALS
            | op::GET_ALL_CHILDREN_NUMBER
            | op::WHO_AM_I
    )
}
