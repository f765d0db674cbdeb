//! A proxy that behaves like a member of an ensemble that is behind: it shows an old state until a
//! client asks for `sync`.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex as Turns;
use zebu_proto::OpCode;

use crate::frames::{number, read, write};

/// The xid of events.
const EVENT: i32 = -1;

/// The length of an xid, and the length of a request's head: the xid and the opcode.
const XID: usize = 4;
const REQUEST_HEAD: usize = 8;

/// Forwards connections to a server.
pub struct Behind {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_behind: bool,
    /// The next create is executed, and its answer and the connection are lost.
    loses_create: bool,
    /// By path, the last answer to `exists`, without its xid.
    seen: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Events that the proxy has not come to yet.
    held: Vec<Vec<u8>>,
}

impl Behind {
    pub async fn new(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(target).await else { continue };
                tokio::spawn(forward(client, server, shared.clone()));
            }
        });
        Self { address, state }
    }

    /// From now on, the proxy shows no change, until a client asks for `sync`.
    pub fn falls_behind(&self) {
        self.state.lock().is_behind = true;
    }

    /// The proxy loses the answer to the next create, shows no change from then on, and ends the
    /// connection.
    pub fn loses_create(&self) {
        self.state.lock().loses_create = true;
    }

    /// Whether no client has asked for `sync` since the proxy fell behind.
    pub fn is_behind(&self) -> bool {
        self.state.lock().is_behind
    }
}

/// Requests that await their answer: by xid, the opcode and the path.
type Asked = Mutex<BTreeMap<i32, (OpCode, Vec<u8>)>>;

/// A forwarded connection.
struct Relay {
    to_client: Turns<OwnedWriteHalf>,
    asked: Asked,
    state: Arc<Mutex<State>>,
}

async fn forward(client: TcpStream, server: TcpStream, state: Arc<Mutex<State>>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let relay = Relay { to_client: Turns::new(to_client), asked: Asked::default(), state };
    tokio::select! {
        _ = relay.requests(from_client, to_server) => {}
        _ = relay.answers(from_server) => {}
    }
}

impl Relay {
    async fn requests(
        &self,
        mut from_client: OwnedReadHalf,
        mut to_server: OwnedWriteHalf,
    ) -> io::Result<()> {
        let handshake = read(&mut from_client).await?;
        write(&mut to_server, &handshake).await?;
        loop {
            let frame = read(&mut from_client).await?;
            let (xid, op) = (number(&frame, 0).unwrap(), OpCode(number(&frame, XID).unwrap()));
            // Only requests that this proxy looks at have a path here.
            let path = frame[REQUEST_HEAD..].split_last().map_or(vec![], |(_, path)| path.to_vec());
            let (old, events) = {
                let mut state = self.state.lock();
                state.is_behind &= op != OpCode::SYNC;
                let events = if state.is_behind { vec![] } else { std::mem::take(&mut state.held) };
                let old = state.seen.get(&path).filter(|_| op == OpCode::EXISTS && state.is_behind);
                (old.map(|old| [&xid.to_be_bytes()[..], old].concat()), events)
            };
            for event in events {
                self.answer(&event).await?;
            }
            if let Some(old) = old {
                self.answer(&old).await?;
                continue;
            }
            self.asked.lock().insert(xid, (op, path));
            write(&mut to_server, &frame).await?;
        }
    }

    async fn answers(&self, mut from_server: OwnedReadHalf) -> io::Result<()> {
        let handshake = read(&mut from_server).await?;
        self.answer(&handshake).await?;
        loop {
            let frame = read(&mut from_server).await?;
            let xid = number(&frame, 0).unwrap();
            {
                let mut state = self.state.lock();
                match self.asked.lock().remove(&xid) {
                    Some((OpCode::EXISTS, path)) => {
                        state.seen.insert(path, frame[XID..].to_vec());
                    }
                    Some((OpCode::CREATE2, _)) if state.loses_create => {
                        (state.loses_create, state.is_behind) = (false, true);
                        return Ok(());
                    }
                    None if xid == EVENT && state.is_behind => {
                        state.held.push(frame);
                        continue;
                    }
                    _ => {}
                }
            }
            self.answer(&frame).await?;
        }
    }

    async fn answer(&self, frame: &[u8]) -> io::Result<()> {
        write(&mut *self.to_client.lock().await, frame).await
    }
}
