//! A few members on a network and disks that take no time, unless a test holds something back: what
//! clients hear. The engine that ships drives each of them.

mod member;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use zebu_jute::{Decode as _, Decoder, Encode as _};
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{ConnectRequest, Create, MultiHeader, PathOnly, PathVersion, PathWatch};
use zebu_proto::{
    Acl, AclRef, ErrorCode, Id, OpCode, ServerId, SessionId, Version, Xid, Zxid,
    compatible_password,
};
use zebu_replica::{Input, MemberOptions, Now, Replica};
use zebu_testkit::client::Connection;
use zebu_testkit::lines::{Line, Ways};
use zebu_testkit::wire::{frame, framed_request, split_frame};
use zebu_tree::Tree;
use zebu_zab::config::{Membership, Rules as ConfigRules};
use zebu_zab::mesh::{self, WireId};
use zebu_zab::{LinkId, LogEnd, Role};

use member::{Asked, Member};

pub const TICK: Duration = Duration::from_secs(2);
pub const PERSISTENT: i32 = 0;
pub const EPHEMERAL: i32 = 1;

/// A message to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The client has this session.
    Welcome(SessionId),
    /// Its session is over, and its connection closed.
    Refused,
    /// There are no sessions here, and its connection is closed.
    Denied,
    /// The answer to a request.
    Answer(Xid, ErrorCode),
    /// The connection is closed.
    Closed,
}

/// A client's connection, at whichever server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(usize);

/// What a client sends first.
pub struct Hello {
    pub last_zxid_seen: Zxid,
    pub session: SessionId,
    pub password: Vec<u8>,
    pub read_only: bool,
}

/// A client, and what it has heard since it was last asked.
struct Client {
    server: usize,
    /// While there is one.
    connection: Option<Connection>,
    /// Whether the connect request is answered.
    is_greeted: bool,
    /// The requests with several operations, whose errors are in the bodies of their answers.
    multis: BTreeSet<Xid>,
    heard: Vec<Said>,
}

/// The members, and all messages in flight.
pub struct World {
    members: Vec<Member>,
    now: Duration,
    /// Connections between servers.
    lines: BTreeMap<u64, Line<zebu_zab::Input>>,
    ways: Ways,
    next_id: u64,
    clients: Vec<Client>,
    /// A direction in which packets of one kind are lost.
    losing: Option<(usize, usize, PacketKind)>,
    /// The number of packets of each kind that were sent.
    sent: BTreeMap<PacketKind, u64>,
}

impl World {
    /// This many voters that know each other, before they look for a leader.
    pub fn new(count: usize, member: &MemberOptions) -> Self {
        let lines: Vec<String> =
            (1..=count).map(|id| format!("server.{id}=127.0.0.1:{id}:{}", id + 100)).collect();
        let config = Membership::parse(lines.join("\n").as_bytes(), ConfigRules::default());
        let config = Arc::new(config.expect("a configuration in order"));
        let now = Duration::from_secs(1);
        let member = |server| Member::new(server, config.clone(), member, wall(now));
        Self {
            members: (0..count).map(member).collect(),
            now,
            lines: BTreeMap::new(),
            ways: Ways::default(),
            next_id: 1,
            clients: Vec::new(),
            losing: None,
            sent: BTreeMap::new(),
        }
    }

    /// The same, after they have elected a leader.
    pub fn led(count: usize, member: &MemberOptions) -> Self {
        let mut world = Self::new(count, member);
        world.wait_for(|world| (0..count).all(|server| world.role(server) != Role::Looking));
        world
    }

    pub fn role(&self, server: usize) -> Role {
        self.replica(server).role().expect("a member")
    }

    pub fn leader(&self) -> usize {
        let leads = |server: &usize| matches!(self.role(*server), Role::Leading(_));
        (0..self.members.len()).find(leads).expect("somebody leads")
    }

    /// Two servers that do not lead.
    pub fn followers(&self) -> [usize; 2] {
        let count = self.members.len();
        [1, 2].map(|more| (self.leader() + more) % count)
    }

    pub fn replica(&self, server: usize) -> &Replica {
        &self.members[server].desk.replica
    }

    pub fn tree(&self, server: usize) -> impl Deref<Target = Tree> + '_ {
        self.members[server].common.tree.read()
    }

    // ---- time

    /// Delivers all messages in flight, and those that follow from them.
    pub fn settle(&mut self) {
        while let Some(server) = self.members.iter().position(Member::has_inputs) {
            self.turn(server);
        }
    }

    /// Lets this much time pass.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            let next = self.members.iter().map(Member::next).min();
            let next = next.unwrap_or(Duration::MAX).max(self.now + Duration::from_millis(1));
            if next > until {
                self.now = until;
                return self.settle();
            }
            self.now = next;
            for server in 0..self.members.len() {
                if self.members[server].next() <= next {
                    self.turn(server);
                }
            }
        }
    }

    /// So much time passes, and nobody takes a turn: whoever takes the next one does so for an
    /// input.
    pub fn stand_still(&mut self, time: Duration) {
        self.now += time;
    }

    /// Lets time pass until the condition holds.
    pub fn wait_for(&mut self, so: impl Fn(&Self) -> bool) {
        for _ in 0..100_000 {
            if so(self) {
                return;
            }
            self.pass(Duration::from_millis(10));
        }
        panic!("it never is");
    }

    /// Cuts a server off from all others. Its clients stay connected.
    pub fn isolate(&mut self, server: usize) {
        self.settle();
        for other in 0..self.members.len() {
            self.ways.block(server, other);
            self.ways.block(other, server);
        }
        let of_server = |(id, line): (&u64, &Line<_>)| line.ends().contains(&server).then_some(*id);
        let cut: Vec<u64> = self.lines.iter().filter_map(of_server).collect();
        for id in cut {
            let line = self.lines.remove(&id).expect("just found");
            line.ends().into_iter().for_each(|end| self.lost(end, id));
        }
        self.settle();
    }

    /// Reconnects it.
    pub fn reunite(&mut self, server: usize) {
        for other in 0..self.members.len() {
            self.ways.unblock(server, other);
            self.ways.unblock(other, server);
        }
    }

    /// Holds messages in one direction between two servers.
    pub fn hold(&mut self, from: usize, to: usize) {
        self.ways.block(from, to);
    }

    /// Delivers these messages, and those behind them.
    pub fn release(&mut self, from: usize, to: usize) {
        self.ways.unblock(from, to);
        let ids: Vec<u64> = self.lines.keys().copied().collect();
        ids.into_iter().for_each(|id| self.deliver(id));
        self.settle();
    }

    /// From now on, packets of this kind are lost in one direction. `None` ends that.
    pub fn lose(&mut self, what: Option<(usize, usize, PacketKind)>) {
        self.losing = what;
    }

    /// The number of packets of this kind sent so far.
    pub fn sent(&self, kind: PacketKind) -> u64 {
        self.sent.get(&kind).copied().unwrap_or(0)
    }

    /// Stops a server's disk.
    pub fn stop_disk(&mut self, server: usize) {
        self.members[server].desk.unfinished.get_or_insert_default();
    }

    /// Starts it again.
    pub fn start_disk(&mut self, server: usize) {
        let finished = self.members[server].desk.unfinished.take().unwrap_or_default();
        for input in finished {
            self.tell(server, input);
        }
        self.settle();
    }

    fn tell(&self, server: usize, input: zebu_zab::Input) {
        self.members[server].common.inbox.push(Input::Zab(input));
    }

    fn lost(&mut self, server: usize, id: u64) {
        // A number belongs to one kind only; the other kind does not know it.
        self.tell(server, zebu_zab::Input::Mesh(mesh::Input::Closed(WireId(id))));
        self.tell(server, zebu_zab::Input::LinkDown(LinkId(id)));
    }

    // ---- clients

    /// Connects a client that has a session or wants one.
    pub fn connect_with(&mut self, server: usize, change: impl FnOnce(&mut Hello)) -> ClientId {
        let mut hello = Hello {
            last_zxid_seen: Zxid::ZERO,
            session: SessionId::NONE,
            password: Vec::new(),
            read_only: false,
        };
        change(&mut hello);
        let hello = ConnectRequest {
            last_zxid_seen: hello.last_zxid_seen,
            session_id: hello.session.0,
            password: Some(&hello.password),
            read_only: Some(hello.read_only),
            ..ConnectRequest::new_session(10_000)
        };
        let bytes = frame(&hello.to_bytes());
        let connection = Connection::open(&self.members[server].common, [127, 0, 0, 1].into());
        let connection = Some(connection);
        let client = ClientId(self.clients.len());
        self.clients.push(Client {
            server,
            connection,
            is_greeted: false,
            multis: BTreeSet::new(),
            heard: Vec::new(),
        });
        self.sends(client, &bytes);
        self.settle();
        client
    }

    /// Connects a client that wants a session. Its messages are kept.
    pub fn connect(&mut self, server: usize) -> ClientId {
        self.connect_with(server, |_| {})
    }

    /// Connects a client, and waits for its new session.
    pub fn open(&mut self, server: usize) -> (ClientId, SessionId) {
        let conn = self.connect(server);
        match self.heard(conn)[..] {
            [Said::Welcome(session)] => (conn, session),
            ref other => panic!("no session: {other:?}"),
        }
    }

    /// Connects a client that resumes a session.
    pub fn renew(&mut self, server: usize, session: SessionId) -> ClientId {
        self.connect_with(server, |hello| {
            hello.session = session;
            hello.password = compatible_password(session).to_vec();
        })
    }

    /// The messages of a client since the last call.
    pub fn heard(&mut self, client: ClientId) -> Vec<Said> {
        std::mem::take(&mut self.clients[client.0].heard)
    }

    /// Sends a request; its number is its xid.
    pub fn send(&mut self, client: ClientId, xid: i32, op: OpCode, body: Vec<u8>) {
        self.post(client, xid, op, body);
        self.settle();
    }

    /// Sends a request without delivering it.
    pub fn post(&mut self, client: ClientId, xid: i32, op: OpCode, body: Vec<u8>) {
        if op == OpCode::RECONFIG
            && let Some(connection) = &self.clients[client.0].connection
        {
            let conn = connection.conn();
            let ids = conn.ids();
            conn.set_ids(ids.iter().cloned().chain([Id::new("super", "")]).collect());
        }
        if op == OpCode::MULTI {
            self.clients[client.0].multis.insert(Xid(xid));
        }
        self.sends(client, &framed_request(xid, op.0, &body));
    }

    /// Sends a request and returns the messages that follow.
    pub fn ask(&mut self, client: ClientId, xid: i32, op: OpCode, body: Vec<u8>) -> Vec<Said> {
        self.send(client, xid, op, body);
        self.heard(client)
    }

    /// Creates a znode and returns the messages that follow.
    pub fn create(&mut self, client: ClientId, xid: i32, path: &str, flags: i32) -> Vec<Said> {
        self.ask(client, xid, OpCode::CREATE, create(path, flags))
    }

    /// Breaks the client's connection.
    pub fn drop_client(&mut self, client: ClientId) {
        let Client { server, connection, .. } = &mut self.clients[client.0];
        if let Some(connection) = connection.take() {
            connection.leave(&self.members[*server].common);
        }
        self.settle();
    }

    /// A message of the client arrives.
    pub fn touch(&self, client: ClientId) {
        let client = &self.clients[client.0];
        client.connection.as_ref().expect("it is connected").conn().hear(self.now);
    }

    /// Bytes of a client arrive.
    fn sends(&mut self, client: ClientId, bytes: &[u8]) {
        let Client { server, connection, .. } = &mut self.clients[client.0];
        if let Some(connection) = connection {
            connection.send(&self.members[*server].common, self.now, bytes);
        }
        self.serve(client);
    }

    /// A connection looks at what its server has for it, and its client hears it.
    fn serve(&mut self, client: ClientId) {
        let Client { server, connection, is_greeted, multis, heard } = &mut self.clients[client.0];
        let Some(served) = connection else { return };
        let common = &self.members[*server].common;
        served.serve(common, self.now);
        let received = served.take();
        let mut rest = &received[..];
        while let Some((answer, behind)) = split_frame(rest) {
            rest = behind;
            heard.push(match *is_greeted {
                false => greets(answer),
                true => answers(answer, multis),
            });
            *is_greeted = true;
        }
        if served.is_over() {
            if !matches!(heard.last(), Some(Said::Refused | Said::Denied)) {
                heard.push(Said::Closed);
            }
            if let Some(over) = connection.take() {
                over.leave(common);
            }
        }
    }

    // ---- servers

    /// A server takes a turn, and what it asks for is carried out.
    fn turn(&mut self, server: usize) {
        let asked = self.members[server].turn(wall(self.now));
        for asked in asked {
            match asked {
                Asked::Send(link, packet) => self.packet(server, link, packet),
                Asked::Network(output) => self.network(server, output),
            }
        }
        for client in 0..self.clients.len() {
            if self.clients[client].server == server {
                self.serve(ClientId(client));
            }
        }
    }

    fn line(&mut self, from: usize, to: usize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.lines.insert(id, Line::new(from, to));
        id
    }

    fn hang_up(&mut self, server: usize, id: u64) {
        if let Some(line) = self.lines.remove(&id) {
            self.lost(line.other(server), id);
        }
    }

    fn packet(&mut self, server: usize, link: LinkId, packet: QuorumPacket) {
        let Some(line) = self.lines.get(&link.0) else { return };
        *self.sent.entry(packet.kind).or_default() += 1;
        if self.losing != Some((server, line.other(server), packet.kind)) {
            self.over(link.0, server, zebu_zab::Input::Packet(link, packet));
        }
    }

    /// A message of a server goes over a connection, if it still exists.
    fn over(&mut self, id: u64, from: usize, message: zebu_zab::Input) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        line.arrive(1 - line.side(from), message);
        self.deliver(id);
    }

    /// Delivers the messages that have arrived, unless the way is blocked.
    fn deliver(&mut self, id: u64) {
        for side in 0..2 {
            while let Some(line) = self.lines.get_mut(&id)
                && let Some(message) = line.take(side, &self.ways)
            {
                let to = line.ends()[side];
                self.tell(to, message);
            }
        }
    }

    fn network(&mut self, server: usize, output: zebu_zab::Output) {
        use zebu_zab::Output as Zab;
        match output {
            Zab::Mesh(mesh::Output::Dial(to)) => {
                let there = to.0 as usize - 1;
                if !self.ways.reaches(server, there) {
                    let refused = mesh::Input::Refused(to);
                    return self.tell(server, zebu_zab::Input::Mesh(refused));
                }
                let wire = WireId(self.line(server, there));
                let dialled = mesh::Input::Dialled { wire, peer: to };
                self.tell(server, zebu_zab::Input::Mesh(dialled));
                let peer = ServerId(server as i64 + 1);
                let accepted = mesh::Input::Accepted { wire, peer };
                self.tell(there, zebu_zab::Input::Mesh(accepted));
            }
            Zab::Mesh(mesh::Output::Send(wire, ballot)) => {
                let said = zebu_zab::Configs::default();
                self.over(wire.0, server, zebu_zab::Input::Heard { wire, ballot, said });
            }
            Zab::Mesh(mesh::Output::Close(wire)) => self.hang_up(server, wire.0),
            Zab::Listen => self.members[server].listens = true,
            Zab::Unlisten => self.members[server].listens = false,
            Zab::Connect(to) => {
                let there = to.0 as usize - 1;
                if !self.ways.reaches(server, there) || !self.members[there].listens {
                    return self.tell(server, zebu_zab::Input::ConnectFailed);
                }
                let link = LinkId(self.line(server, there));
                self.tell(there, zebu_zab::Input::Accepted(link));
                self.tell(server, zebu_zab::Input::Connected(link));
            }
            Zab::CancelConnect | Zab::Config(_) => {}
            Zab::Close(link) => self.hang_up(server, link.0),
            Zab::ReadLog { link, .. } => {
                let end = LogEnd::Unusable;
                let read = zebu_zab::Input::LogRead { link, floor: None, txns: Vec::new(), end };
                self.tell(server, read);
            }
            other => panic!("not among these members: {other:?}"),
        }
    }
}

/// The clocks at this time since the start.
fn wall(monotonic: Duration) -> Now {
    Now { monotonic, wall_ms: 1_700_000_000_000 + monotonic.as_millis() as i64 }
}

/// The answer to a connect request.
fn greets(answer: &[u8]) -> Said {
    const HEADER_BYTES: usize = 16;
    if answer.len() == HEADER_BYTES {
        return Said::Denied;
    }
    // Behind the version of the protocol and the timeout.
    let session = answer[8..].first_chunk().map_or(0, |session| i64::from_be_bytes(*session));
    match SessionId(session) {
        SessionId::NONE => Said::Refused,
        session => Said::Welcome(session),
    }
}

/// The answer to a request.
fn answers(answer: &[u8], multis: &BTreeSet<Xid>) -> Said {
    let mut decoder = Decoder::new(answer);
    let ReplyHeader { xid, err, .. } = ReplyHeader::decode(&mut decoder).expect("a header");
    if err != ErrorCode::OK || !multis.contains(&xid) {
        return Said::Answer(xid, err);
    }
    let first = MultiHeader::decode(&mut decoder).expect("a result");
    Said::Answer(xid, ErrorCode(first.err))
}

/// The body of a create.
pub fn create(path: &str, flags: i32) -> Vec<u8> {
    let open = Acl::open();
    let acl = Some(open.iter().map(AclRef::from).collect());
    Create { path: Some(path.into()), data: Some(b"x"), acl, flags }.to_bytes()
}

/// The body of a delete.
pub fn delete(path: &str) -> Vec<u8> {
    PathVersion { path: Some(path.into()), version: Version::ANY }.to_bytes()
}

/// The body of a sync.
pub fn path_only(path: &str) -> Vec<u8> {
    PathOnly { path: Some(path.into()) }.to_bytes()
}

/// The body of a read.
pub fn read(path: &str) -> Vec<u8> {
    PathWatch { path: Some(path.into()), watch: false }.to_bytes()
}

/// One answer without an error.
pub fn ok(xid: i32) -> Vec<Said> {
    err(xid, ErrorCode::OK)
}

/// One answer with an error.
pub fn err(xid: i32, code: ErrorCode) -> Vec<Said> {
    vec![Said::Answer(Xid(xid), code)]
}
