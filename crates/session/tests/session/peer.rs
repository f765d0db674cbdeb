//! A small server in memory: one session, a few znodes with versions, one-shot data watches.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use zebu_jute::{Decode, Decoder};
use zebu_proto::OpCode;
use zebu_proto::request::{ConnectRequest, PathKind, PathWatch, RequestHeader, SetWatches};

use crate::wire;

/// The session id of every client.
const SESSION: i64 = 0x77;

/// State shared by all servers.
#[derive(Debug, Default)]
pub struct Ensemble {
    pub zxid: i64,
    /// Zxid of the last change of each znode; missing if it never changed.
    pub changed: BTreeMap<String, i64>,
    /// The executed requests, in order.
    pub executed: Vec<u64>,
    pub is_expired: bool,
    pub is_closed: bool,
    /// Whether clients first send two SASL tokens.
    pub wants_sasl: bool,
}

/// One connection, seen from the server.
#[derive(Debug, Default)]
pub struct Connection {
    is_greeted: bool,
    /// Number of SASL tokens received.
    tokens: u32,
    watched: BTreeSet<String>,
    /// Bytes for the client to read.
    pub out: VecDeque<Bytes>,
    /// Whether the connection ends after `out`.
    pub is_closed: bool,
}

impl Ensemble {
    /// Changes a znode on behalf of another client.
    pub fn change(&mut self, path: &str, connection: Option<&mut Connection>) {
        self.zxid += 1;
        self.changed.insert(path.to_owned(), self.zxid);
        if let Some(connection) = connection
            && connection.watched.remove(path)
        {
            connection.out.push_back(wire::event(3, path, self.zxid));
        }
    }

    pub fn version(&self, path: &str) -> i64 {
        self.changed.get(path).copied().unwrap_or(0)
    }

    /// Executes one frame of the client.
    pub fn receive(&mut self, connection: &mut Connection, frame: &[u8]) {
        if connection.is_closed {
            return;
        }
        if !connection.is_greeted {
            connection.is_greeted = true;
            self.greet(connection, &ConnectRequest::from_bytes(frame).unwrap());
            return;
        }
        let mut from = Decoder::new(frame);
        let RequestHeader { xid, op } = Decode::decode(&mut from).unwrap();
        let mut err = 0;
        let mut body = Vec::new();
        if op != OpCode::SASL {
            let expected = if self.wants_sasl { 2 } else { 0 };
            assert_eq!(connection.tokens, expected, "before the end of SASL: {op}");
        }
        match op {
            // The server returns the token.
            OpCode::SASL => {
                connection.tokens += 1;
                body = from.rest().to_vec();
            }
            OpCode::PING | OpCode::AUTH => {}
            OpCode::CLOSE_SESSION => {
                self.is_closed = true;
                connection.is_closed = true;
            }
            OpCode::SET_WATCHES => {
                let request = SetWatches::decode(&mut from).unwrap();
                for path in request.data {
                    if self.version(&path) > request.relative_zxid.0 {
                        connection.out.push_back(wire::event(3, &path, -1));
                    } else {
                        connection.watched.insert(path.into_owned());
                    }
                }
            }
            OpCode::REMOVE_WATCHES => {
                let path = PathKind::decode(&mut from).unwrap().path.unwrap();
                err = if connection.watched.remove(&*path) { 0 } else { -121 };
            }
            OpCode::GET_DATA => {
                let PathWatch { path, watch } = Decode::decode(&mut from).unwrap();
                let path = path.unwrap();
                let (path, id) = path.split_once('?').unwrap();
                self.executed.push(id.parse().unwrap());
                if watch {
                    connection.watched.insert(path.to_owned());
                }
                body = self.version(path).to_be_bytes().to_vec();
            }
            other => panic!("not understood: {other}"),
        }
        let mut reply = wire::reply(xid.0, self.zxid, err).to_vec();
        reply.extend(body);
        connection.out.push_back(reply.into());
    }

    fn greet(&mut self, connection: &mut Connection, request: &ConnectRequest<'_>) {
        assert!(request.last_zxid_seen.0 <= self.zxid, "a zxid nobody has issued");
        let renews = request.session_id != 0;
        assert!(!renews || request.session_id == SESSION && request.password == Some(&[7; 16]));
        if renews && (self.is_expired || self.is_closed) {
            connection.out.push_back(wire::welcome(0, 0, false, None));
            connection.is_closed = true;
        } else {
            connection.out.push_back(wire::welcome(SESSION, 6000, false, None));
        }
    }
}
