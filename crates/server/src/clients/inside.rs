//! A client inside this process, without a socket: the web console.
//!
//! It is a connection like any other, with the address of the browser. So all limits, ACLs and
//! statistics apply to it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use zebu_admin::{
    Child, Children, ChildrenPage, Client as HttpClient, InsideSession, Lost, NotOpened,
    QuotaFacts, Reply,
};
use zebu_engine::Outbox;
use zebu_engine::client::{Client, End, Wants};
use zebu_jute::{Decode as _, Encode as _};
use zebu_proto::reply::{ConnectResponse, ReplyHeader};
use zebu_proto::request::{ConnectRequest, RequestHeader};
use zebu_proto::{ErrorCode, OpCode, Owner, Perms, SessionId, Xid, path};
use zebu_tree::{Node, QuotaText};

use crate::clients::access::{self, Entered};
use crate::clients::conn::{Conn, Side};
use crate::clients::connection::Desk;
use crate::shared::Shared;

/// The requested session timeout.
const TIMEOUT_MS: i32 = 30_000;

/// A client inside this process.
pub struct Inside {
    shared: Arc<Shared>,
    client: Client<Side>,
    /// Bytes that were sent to this client and not read yet.
    received: Vec<u8>,
    has_ended: bool,
    xid: i32,
    session: SessionId,
    timeout: Duration,
}

impl Inside {
    /// Opens a new session for an HTTP user, with the identities of the user's address and
    /// certificate.
    ///
    /// # Errors
    /// The reason why there is no session.
    pub async fn open(shared: &Arc<Shared>, from: &HttpClient) -> Result<Self, NotOpened> {
        let peer = from.address;
        let address = peer.ip().to_canonical();
        let proved = shared.clients.x509.as_ref().zip(from.subject.as_deref());
        let proved = proved.map(|(x509, subject)| x509.ids(subject)).unwrap_or_default();
        let mut entered = Entered::default();
        if !access::enter(shared, address, &mut entered, &proved) {
            return Err(NotOpened::Full);
        }
        let ids = shared.common.schemes.initial_with(peer.ip(), proved);
        let outbox = Outbox::new(shared.common.rules.outbox_bytes_max);
        let side = Side::new(peer, shared.clock.now().wall_ms, 0, None, false, entered);
        let conn = shared.enter(address, |id| Conn::new(id, address, ids, outbox, side));
        let conn = conn.ok_or_else(|| {
            shared.metrics.connection_rejected.add(1);
            NotOpened::FullForAddress
        })?;
        let mut inside = Self {
            shared: shared.clone(),
            client: Client::new(conn),
            received: Vec::new(),
            has_ended: false,
            xid: 0,
            session: SessionId::NONE,
            timeout: Duration::ZERO,
        };
        let request =
            ConnectRequest { read_only: Some(true), ..ConnectRequest::new_session(TIMEOUT_MS) };
        inside.send(&request.to_bytes());
        let answer = tokio::time::timeout(OPENING_TIME_MAX, inside.frame()).await;
        let answer = answer.map_err(|_| NotOpened::Late)?;
        let answer = answer.map_err(|_| NotOpened::NotServed)?;
        let answer = ConnectResponse::from_bytes(&answer)?;
        if answer.session_id == SessionId::NONE {
            return Err(NotOpened::Refused);
        }
        inside.session = answer.session_id;
        inside.timeout = Duration::from_millis(answer.timeout_ms.max(1).unsigned_abs().into());
        Ok(inside)
    }

    fn conn(&self) -> &Conn {
        self.client.conn()
    }

    fn send(&mut self, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend_from_slice(payload);
        let clock = self.shared.clock;
        self.client.received(&frame, true, || clock.monotonic());
    }

    /// Reads the available bytes. Returns whether there are more.
    fn turn(&mut self) -> Result<bool, End> {
        self.client.conn().looking();
        let common = &self.shared.common;
        self.client.process(common, &mut Desk::new(&self.shared))?;
        let waiting = self.client.collect()?;
        let sent = self.client.unsent().len();
        self.received.extend_from_slice(self.client.unsent());
        self.client.sent(sent);
        match self.client.wants(common, waiting, false) {
            Wants::Turn => Ok(true),
            Wants::End => {
                self.has_ended = true;
                Ok(false)
            }
            Wants::Wait { .. } => Ok(false),
        }
    }

    /// The next frame that the server sends to this client.
    async fn frame(&mut self) -> Result<Vec<u8>, Lost> {
        loop {
            if let Some(length) = self.received.first_chunk::<4>() {
                let end = 4 + u32::from_be_bytes(*length) as usize;
                if self.received.len() >= end {
                    let frame = self.received[4..end].to_vec();
                    self.received.drain(..end);
                    return Ok(frame);
                }
            }
            if self.has_ended {
                return Err(Lost("the server has closed it"));
            }
            let has_more = self.turn().map_err(|end| {
                self.has_ended = true;
                Lost(match end {
                    End::Broken(why) => why,
                    End::NotServing => "no client is served",
                    End::Refused => "it is not authenticated",
                    End::TooLarge => "the request is too large at the moment",
                    End::Word => "it is no client",
                })
            })?;
            if has_more {
                tokio::task::yield_now().await;
            } else if self.received.is_empty() && !self.has_ended {
                woken(self.client.conn()).await;
            }
        }
    }

    async fn ask(&mut self, op: OpCode, body: &[u8]) -> Result<Reply, Lost> {
        let xid = match op {
            OpCode::PING => Xid(-2),
            OpCode::AUTH => Xid(-4),
            _ => {
                self.xid = self.xid.checked_add(1).unwrap_or(1);
                Xid(self.xid)
            }
        };
        let mut payload = RequestHeader { xid, op }.to_bytes();
        payload.extend_from_slice(body);
        if payload.len() > self.shared.common.rules.packet_bytes {
            return Ok(Reply { err: ErrorCode::BAD_ARGUMENTS, body: Vec::new() });
        }
        self.send(&payload);
        loop {
            let frame = self.frame().await?;
            let mut from = zebu_jute::Decoder::new(&frame);
            let header =
                ReplyHeader::decode(&mut from).map_err(|_| Lost("its answer cannot be read"))?;
            // A frame with another xid belongs to a request whose caller no longer waits.
            if header.xid == xid {
                let body = frame.get(HEADER_BYTES..).unwrap_or_default().to_vec();
                return Ok(Reply { err: header.err, body });
            }
        }
    }

    fn permit(&self, path: &str, perms: Perms) -> Result<(), ErrorCode> {
        let tree = self.shared.tree().read();
        let node = tree.node(path).ok_or(ErrorCode::NO_NODE)?;
        let schemes = &self.shared.common.schemes;
        let may = self.conn().with_ids(|ids| schemes.permits(node.acl(), perms, ids));
        if may { Ok(()) } else { Err(ErrorCode::NO_AUTH) }
    }
}

/// Maximum time to establish a session.
const OPENING_TIME_MAX: Duration = Duration::from_secs(10);

/// Length of an answer's header.
const HEADER_BYTES: usize = <ReplyHeader as zebu_jute::Fixed>::BYTES;

/// Waits for a notification.
fn woken(conn: &Conn) -> impl Future<Output = ()> {
    poll_fn(|context| {
        conn.side.task.register(context.waker());
        if conn.is_woken() { Poll::Ready(()) } else { Poll::Pending }
    })
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The waker keeps a task alive, and the task the server.
        self.conn().side.task.take();
        self.client.leave(&self.shared.common);
        drop(std::mem::take(&mut *self.conn().side.entered.lock()));
    }
}

fn child_facts(child: &Node<'_>) -> Child {
    Child {
        name: child.name().to_owned(),
        children: child.child_count(),
        bytes: child.data().map_or(0, |data| data.len() as u64),
        is_ephemeral: matches!(child.owner(), Owner::Session(_)),
    }
}

impl InsideSession for Inside {
    fn id(&self) -> SessionId {
        self.session
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn call<'s>(
        &'s mut self,
        op: OpCode,
        body: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, Lost>> + Send + 's>> {
        Box::pin(async move { self.ask(op, &body).await })
    }

    fn identities(&self) -> Vec<String> {
        let schemes = &self.shared.common.schemes;
        self.conn().ids().iter().map(|id| schemes.shown(&id.scheme, &id.id)).collect()
    }

    fn may_do_everything(&self) -> bool {
        let needed = [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];
        needed.into_iter().all(|perm| self.permit("/", perm).is_ok())
    }

    fn children(&self, page: &ChildrenPage<'_>) -> Result<Children, ErrorCode> {
        self.permit(page.path, Perms::READ)?;
        let tree = self.shared.tree().read();
        let node = tree.node(page.path).ok_or(ErrorCode::NO_NODE)?;
        let mut found = Children { total: node.child_count(), ..Children::default() };
        if page.after.is_empty() && !page.prefix.is_empty() {
            found.exact = node.child(page.prefix).as_ref().map(child_facts);
        }
        let after = match page.after {
            "" => None,
            name => match node.child(name) {
                Some(child) => Some(child),
                None => {
                    found.is_gone = true;
                    return Ok(found);
                }
            },
        };
        let mut children = node.children_behind(after.as_ref()).peekable();
        let mut looked_at = 0;
        while let Some(child) = children.next() {
            looked_at += 1;
            if child.name().starts_with(page.prefix) {
                found.children.push(child_facts(&child));
            }
            let is_full = found.children.len() >= page.most || looked_at >= page.looked_at;
            if is_full && children.peek().is_some() {
                found.next = Some(child.name().to_owned());
                break;
            }
        }
        Ok(found)
    }

    fn quotas(&self, most: usize) -> Result<Vec<QuotaFacts>, ErrorCode> {
        self.permit(path::reserved::QUOTA, Perms::READ)?;
        let tree = self.shared.tree().read();
        let mut quotas = Vec::new();
        for path in tree.quota_paths().take(most) {
            let Some(quota) = tree.quota_for(path).filter(|quota| quota.path == path) else {
                continue;
            };
            let limits = quota.limits.unwrap_or_default();
            let used = quota.usage.and_then(Result::ok);
            quotas.push(QuotaFacts {
                path: quota.path,
                count: limits.count(),
                bytes: limits.bytes(),
                count_hard: limits.count_hard(),
                bytes_hard: limits.bytes_hard(),
                count_used: used.as_ref().map(QuotaText::count),
                bytes_used: used.as_ref().map(QuotaText::bytes),
            });
        }
        Ok(quotas)
    }
}
