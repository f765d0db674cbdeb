//! A few replicas on a network and disks without delay, unless a test delays something. The tests
//! check the messages to clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::Encode as _;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::request::{Create, PathOnly, PathVersion};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{
    Acl, AclRef, Epoch, ErrorCode, Id, OpCode, ServerId, SessionId, Version, Xid, Zxid,
    compatible_password,
};
use zebu_replica::auth::Schemes;
use zebu_replica::{
    ConnId, Connect, Input, MemberOptions, Now, Options, Output, Replica, Request, Rules,
};
use zebu_tree::{Silent, Tree};
use zebu_zab::config::{Membership, Rules as ConfigRules};
use zebu_zab::mesh::{self, WireId};
use zebu_zab::{Epochs, LinkId, LogEnd, Peer, Role, Start};

pub const TICK: Duration = Duration::from_secs(2);
pub const PERSISTENT: i32 = 0;
pub const EPHEMERAL: i32 = 1;

/// A message to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The client has this session.
    Welcome(SessionId),
    /// The client's session is over.
    Refused,
    /// The server opens no sessions.
    Denied,
    /// The answer to a request.
    Answer(Xid, ErrorCode),
    /// The connection is closed.
    Closed,
}

struct Member {
    replica: Replica,
    tree: Tree,
    listening: bool,
    /// The unfinished work of its disk, while the disk is stopped.
    unfinished: Option<Vec<Input>>,
}

/// The members, and all messages in flight.
pub struct World {
    members: Vec<Member>,
    schemes: Schemes,
    now: Duration,
    queue: VecDeque<(usize, Input)>,
    /// Connections between servers, with the servers at both ends.
    lines: BTreeMap<u64, [usize; 2]>,
    alone: BTreeSet<usize>,
    next_id: u64,
    /// The server of each client, and its messages since the last call of `heard`.
    clients: BTreeMap<ConnId, (usize, Vec<Said>)>,
    sessions: BTreeMap<ConnId, SessionId>,
    /// Directions in which packets wait, with these packets.
    held: BTreeMap<(usize, usize), Vec<(LinkId, QuorumPacket)>>,
    /// A direction in which packets of one kind are lost.
    losing: Option<(usize, usize, PacketKind)>,
    /// The number of packets of each kind that were sent.
    sent: BTreeMap<PacketKind, u64>,
}

fn options(server: usize, member: MemberOptions) -> Options {
    let server = ServerId(server as i64 + 1);
    Options {
        server,
        first_session: SessionId::first(server, 1_700_000_000_000),
        tick: TICK,
        rules: Rules { reconfig: true, ..Rules::default() },
        member,
        ..zebu_testkit::alone::options()
    }
}

impl World {
    /// This many voters that know each other, before they look for a leader.
    pub fn new(count: usize, member: &MemberOptions) -> Self {
        let lines: Vec<String> =
            (1..=count).map(|id| format!("server.{id}=127.0.0.1:{id}:{}", id + 100)).collect();
        let config = Membership::parse(lines.join("\n").as_bytes(), ConfigRules::default());
        let config = Arc::new(config.expect("a configuration in order"));
        let member = |server: usize| {
            let start = Start {
                epochs: Epochs { accepted: Epoch(0), current: Epoch(0) },
                committed: config.clone(),
                last_seen: None,
                last: Zxid::ZERO,
                recent: Vec::new(),
                certain: Zxid::ZERO,
                assumed_new: false,
                has_database: true,
                identity: zebu_proto::Identity::Unknown,
            };
            let mut zab = zebu_zab::Options::new(ServerId(server as i64 + 1));
            zab.tick = TICK;
            zab.reconfig = true;
            let tree = Tree::new(zebu_tree::Options::default());
            let now = Now { monotonic: Duration::from_secs(1), wall_ms: 1_700_000_000_000 };
            let options = options(server, member.clone());
            let replica = Replica::member(options, Peer::new(zab, start), &tree, now);
            Member { replica, tree, listening: false, unfinished: None }
        };
        Self {
            members: (0..count).map(member).collect(),
            schemes: Schemes::new(vec![], false),
            now: Duration::from_secs(1),
            queue: VecDeque::new(),
            lines: BTreeMap::new(),
            alone: BTreeSet::new(),
            next_id: 1,
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            held: BTreeMap::new(),
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
        self.members[server].replica.role().expect("a member")
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
        &self.members[server].replica
    }

    pub fn tree(&self, server: usize) -> &Tree {
        &self.members[server].tree
    }

    // ---- time

    /// Delivers all messages in flight, and those that follow from them.
    pub fn settle(&mut self) {
        while let Some((server, input)) = self.queue.pop_front() {
            self.step(server, input);
        }
    }

    /// Lets this much time pass.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            let next = self.members.iter().map(|member| member.replica.next_tick()).min();
            let next = next.unwrap_or(Duration::MAX).max(self.now + Duration::from_millis(1));
            if next > until {
                self.now = until;
                return self.settle();
            }
            self.now = next;
            for server in 0..self.members.len() {
                if self.members[server].replica.next_tick() <= next {
                    self.queue.push_back((server, Input::Tick));
                }
            }
        }
    }

    /// Lets this much time pass without a tick: servers process the next messages before the next
    /// tick.
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
        self.alone.insert(server);
        let cut: Vec<(u64, [usize; 2])> = self
            .lines
            .iter()
            .filter(|(_, ends)| ends.contains(&server))
            .map(|(id, ends)| (*id, *ends))
            .collect();
        for (id, ends) in cut {
            self.lines.remove(&id);
            self.queue.retain(|(_, input)| !is_from(input, id));
            for end in ends {
                self.lost(end, id);
            }
        }
        self.settle();
    }

    /// Reconnects it.
    pub fn reunite(&mut self, server: usize) {
        self.alone.remove(&server);
    }

    /// Holds packets in one direction between two servers.
    pub fn hold(&mut self, from: usize, to: usize) {
        self.held.entry((from, to)).or_default();
    }

    /// Delivers these packets, and those behind them.
    pub fn release(&mut self, from: usize, to: usize) {
        for (link, packet) in self.held.remove(&(from, to)).unwrap_or_default() {
            let input = Input::Zab(zebu_zab::Input::Packet(link, packet));
            self.queue.push_back((to, input));
        }
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
        self.members[server].unfinished.get_or_insert_default();
    }

    /// Starts it again.
    pub fn start_disk(&mut self, server: usize) {
        let finished = self.members[server].unfinished.take().unwrap_or_default();
        self.queue.extend(finished.into_iter().map(|input| (server, input)));
        self.settle();
    }

    fn lost(&mut self, server: usize, id: u64) {
        // A number belongs to one kind only; the other kind does not know it.
        let closed = zebu_zab::Input::Mesh(mesh::Input::Closed(WireId(id)));
        self.queue.push_back((server, Input::Zab(closed)));
        self.queue.push_back((server, Input::Zab(zebu_zab::Input::LinkDown(LinkId(id)))));
    }

    // ---- clients

    /// Connects a client that has a session or wants one.
    pub fn connect_with(&mut self, server: usize, change: impl FnOnce(&mut Connect)) -> ConnId {
        let conn = ConnId(self.next_id);
        self.next_id += 1;
        let mut connect = Connect {
            conn,
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 10_000,
            session: SessionId::NONE,
            password: Vec::new(),
            read_only: false,
        };
        change(&mut connect);
        self.clients.insert(conn, (server, Vec::new()));
        self.queue.push_back((server, Input::Connect(connect)));
        self.settle();
        conn
    }

    /// Connects a client that wants a session. Its messages are kept.
    pub fn connect(&mut self, server: usize) -> ConnId {
        self.connect_with(server, |_| {})
    }

    /// Connects a client, and waits for its new session.
    pub fn open(&mut self, server: usize) -> (ConnId, SessionId) {
        let conn = self.connect(server);
        match self.heard(conn)[..] {
            [Said::Welcome(session)] => (conn, session),
            ref other => panic!("no session: {other:?}"),
        }
    }

    /// Connects a client that resumes a session.
    pub fn renew(&mut self, server: usize, session: SessionId) -> ConnId {
        self.connect_with(server, |connect| {
            connect.session = session;
            connect.password = compatible_password(session).to_vec();
        })
    }

    /// The messages of a client since the last call.
    pub fn heard(&mut self, conn: ConnId) -> Vec<Said> {
        self.clients.get_mut(&conn).map(|(_, said)| std::mem::take(said)).unwrap_or_default()
    }

    /// Sends a request; its number is its xid.
    pub fn send(&mut self, conn: ConnId, xid: i32, op: OpCode, body: Vec<u8>) {
        self.post(conn, xid, op, body);
        self.settle();
    }

    /// Sends a request without delivering it.
    pub fn post(&mut self, conn: ConnId, xid: i32, op: OpCode, body: Vec<u8>) {
        let server = self.clients[&conn].0;
        let mut ids = self.schemes.initial([127, 0, 0, 1].into());
        if op == OpCode::RECONFIG {
            ids = ids.iter().cloned().chain([Id::new("super", "")]).collect();
        }
        let request = Request {
            conn,
            session: self.sessions.get(&conn).copied().unwrap_or(SessionId::NONE),
            xid: Xid(xid),
            op,
            bytes: body.len() + 8,
            body: Bytes::from(body),
            ids,
            received: self.now,
        };
        self.queue.push_back((server, Input::Request(request)));
    }

    /// Sends a request and returns the messages that follow.
    pub fn ask(&mut self, conn: ConnId, xid: i32, op: OpCode, body: Vec<u8>) -> Vec<Said> {
        self.send(conn, xid, op, body);
        self.heard(conn)
    }

    /// Creates a znode and returns the messages that follow.
    pub fn create(&mut self, conn: ConnId, xid: i32, path: &str, flags: i32) -> Vec<Said> {
        self.ask(conn, xid, OpCode::CREATE, create(path, flags))
    }

    /// Breaks the client's connection.
    pub fn drop_client(&mut self, conn: ConnId) {
        let server = self.clients[&conn].0;
        let session = self.sessions.get(&conn).copied().unwrap_or(SessionId::NONE);
        self.queue.push_back((server, Input::Disconnected { conn, session }));
        self.settle();
    }

    /// A message of the client arrives.
    pub fn touch(&mut self, conn: ConnId) {
        let (server, session) = (self.clients[&conn].0, self.sessions[&conn]);
        self.queue.push_back((server, Input::Touched { session, at: self.now }));
        self.settle();
    }

    fn say(&mut self, conn: ConnId, said: Said) {
        if let Said::Welcome(session) = said {
            self.sessions.insert(conn, session);
        }
        if let Some((_, heard)) = self.clients.get_mut(&conn)
            && heard.last() != Some(&Said::Closed)
        {
            heard.push(said);
        }
    }

    // ---- servers

    fn step(&mut self, server: usize, input: Input) {
        let wall_ms = 1_700_000_000_000 + self.now.as_millis() as i64;
        let now = Now { monotonic: self.now, wall_ms };
        let mut input = Some(input);
        while let Some(next) = input.take() {
            let mut outputs = Vec::new();
            let Member { replica, tree, .. } = &mut self.members[server];
            replica.step(now, tree, &self.schemes, next, &mut outputs).unwrap();
            for output in outputs {
                if let Some(zxid) = self.carry_out(server, output) {
                    input = Some(Input::Applied(zxid));
                }
            }
        }
    }

    /// Carries out an output. Returns the zxid that the tree has reached, if it has grown.
    fn carry_out(&mut self, server: usize, output: Output) -> Option<Zxid> {
        let tree = &mut self.members[server].tree;
        match output {
            Output::Append { zxid, .. } => {
                let flushed = Input::Zab(zebu_zab::Input::Flushed(zxid));
                match &mut self.members[server].unfinished {
                    Some(unfinished) => unfinished.push(flushed),
                    None => self.queue.push_back((server, flushed)),
                }
            }
            Output::Apply { zxid, record, origin } => {
                let record = TxnRecord::decode(&record).unwrap();
                let applied = tree.apply(&record, &mut Silent);
                if let Some(origin) = origin {
                    self.say(origin.conn, Said::Answer(origin.xid, applied.err));
                }
                return Some(zxid);
            }
            Output::Answer(request) => {
                self.say(request.conn, Said::Answer(request.xid, ErrorCode::OK));
            }
            Output::Reply { origin, err, .. } => {
                self.say(origin.conn, Said::Answer(origin.xid, err));
            }
            Output::Accept { conn, session, .. } => self.say(conn, Said::Welcome(session)),
            Output::Refuse(conn) => self.say(conn, Said::Refused),
            Output::Deny(conn) => self.say(conn, Said::Denied),
            Output::ReadOnly(true) => {}
            Output::ReadOnly(false) => self.close_all(server),
            Output::Abandon(origin) => self.say(origin.conn, Said::Closed),
            Output::Disconnect(conn) => self.say(conn, Said::Closed),
            Output::Retired | Output::HandedOver(_) => {
                unreachable!("nobody is asked to stop here")
            }
            Output::Snapshot => self.queue.push_back((server, Input::SnapshotDone)),
            Output::Zab(output) => self.zab(server, output),
        }
        None
    }

    /// Closes all client connections of a server.
    fn close_all(&mut self, server: usize) {
        let here = |(conn, (at, _)): (&ConnId, &(usize, _))| (*at == server).then_some(*conn);
        let conns: Vec<ConnId> = self.clients.iter().filter_map(here).collect();
        for conn in conns {
            self.say(conn, Said::Closed);
        }
    }

    fn reaches(&self, a: usize, b: usize) -> bool {
        !self.alone.contains(&a) && !self.alone.contains(&b)
    }

    fn line(&mut self, from: usize, to: usize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.lines.insert(id, [from, to]);
        id
    }

    fn other_end(&self, id: u64, end: usize) -> Option<usize> {
        let ends = self.lines.get(&id)?;
        Some(if ends[0] == end { ends[1] } else { ends[0] })
    }

    fn hang_up(&mut self, server: usize, id: u64) {
        let other = self.other_end(id, server);
        self.lines.remove(&id);
        if let Some(other) = other {
            self.lost(other, id);
        }
    }

    fn zab(&mut self, server: usize, output: zebu_zab::Output) {
        use zebu_zab::Output as Zab;
        let tell = |world: &mut Self, to: usize, input: zebu_zab::Input| {
            world.queue.push_back((to, Input::Zab(input)));
        };
        match output {
            Zab::Mesh(mesh::Output::Dial(to)) => {
                let there = to.0 as usize - 1;
                if !self.reaches(server, there) {
                    let refused = mesh::Input::Refused(to);
                    return tell(self, server, zebu_zab::Input::Mesh(refused));
                }
                let wire = WireId(self.line(server, there));
                let dialled = mesh::Input::Dialled { wire, peer: to };
                tell(self, server, zebu_zab::Input::Mesh(dialled));
                let peer = ServerId(server as i64 + 1);
                let accepted = mesh::Input::Accepted { wire, peer };
                tell(self, there, zebu_zab::Input::Mesh(accepted));
            }
            Zab::Mesh(mesh::Output::Send(wire, ballot)) => {
                if let Some(to) = self.other_end(wire.0, server) {
                    let said = zebu_zab::Configs::default();
                    tell(self, to, zebu_zab::Input::Heard { wire, ballot, said });
                }
            }
            Zab::Mesh(mesh::Output::Close(wire)) => self.hang_up(server, wire.0),
            Zab::Listen => self.members[server].listening = true,
            Zab::Unlisten => self.members[server].listening = false,
            Zab::Connect(to) => {
                let there = to.0 as usize - 1;
                if !self.reaches(server, there) || !self.members[there].listening {
                    return tell(self, server, zebu_zab::Input::ConnectFailed);
                }
                let link = LinkId(self.line(server, there));
                tell(self, there, zebu_zab::Input::Accepted(link));
                tell(self, server, zebu_zab::Input::Connected(link));
            }
            Zab::CancelConnect => {}
            Zab::Send(link, packet) => {
                let Some(to) = self.other_end(link.0, server) else { return };
                *self.sent.entry(packet.kind).or_default() += 1;
                if self.losing == Some((server, to, packet.kind)) {
                    return;
                }
                match self.held.get_mut(&(server, to)) {
                    Some(held) => held.push((link, packet)),
                    None => tell(self, to, zebu_zab::Input::Packet(link, packet)),
                }
            }
            Zab::Close(link) => self.hang_up(server, link.0),
            Zab::ReadLog { link, .. } => {
                let end = LogEnd::Unusable;
                let read = zebu_zab::Input::LogRead { link, floor: None, txns: Vec::new(), end };
                tell(self, server, read);
            }
            Zab::Committed(_) => {}
            Zab::SaveEpoch(kind, epoch) => {
                tell(self, server, zebu_zab::Input::EpochSaved(kind, epoch));
            }
            Zab::Role(Role::Looking) => self.close_all(server),
            Zab::Role(_) | Zab::Config(_) => {}
            other => panic!("not among these members: {other:?}"),
        }
    }
}

fn is_from(input: &Input, id: u64) -> bool {
    match input {
        Input::Zab(zebu_zab::Input::Heard { wire, .. }) => wire.0 == id,
        Input::Zab(zebu_zab::Input::Packet(link, _)) => link.0 == id,
        _ => false,
    }
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

/// One answer without an error.
pub fn ok(xid: i32) -> Vec<Said> {
    err(xid, ErrorCode::OK)
}

/// One answer with an error.
pub fn err(xid: i32, code: ErrorCode) -> Vec<Said> {
    vec![Said::Answer(Xid(xid), code)]
}
