//! The world: the time, the pending events, and the two phases of a run.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::Missing;
use zebu_replica::auth::Schemes;
use zebu_testkit::Random;

use crate::app::App;
use crate::checks::Checks;
use crate::checks::progress::INTERVAL;
use crate::client::Client;
use crate::faults::Ambush;
use crate::flips::Flips;
use crate::guest::Guest;
use crate::links::{Dial, Port};
use crate::members::Wanted;
use crate::net::{Message, Net};
use crate::plan::Plan;
use crate::server::Server;

/// An event in the future.
#[derive(Debug)]
pub(crate) enum Happening {
    Boot {
        server: usize,
        process: u64,
    },
    /// The server's main thread handles its inbox.
    Wake {
        server: usize,
        process: u64,
    },
    /// The server continues a turn that has paused.
    GoOn {
        server: usize,
        process: u64,
    },
    Timer {
        server: usize,
        process: u64,
        at: Duration,
    },
    Touches {
        server: usize,
        process: u64,
    },
    DiskDone {
        server: usize,
        process: u64,
    },
    /// The log thread has been idle for a while.
    DiskIdle {
        server: usize,
        process: u64,
        jobs: u64,
    },
    /// The server scrubs its disk.
    Scrub {
        server: usize,
        process: u64,
    },
    SnapshotStep {
        server: usize,
        process: u64,
    },
    /// A server takes the next step of its repair.
    RepairLogs {
        server: usize,
        process: u64,
    },
    /// A server asks another for the log records that it lacks.
    Asked {
        server: usize,
        process: u64,
        to: usize,
        missing: Vec<Missing>,
    },
    /// The answer arrives, or a part of it.
    Answered {
        server: usize,
        process: u64,
        answer: Bytes,
    },
    CopyStep {
        server: usize,
        process: u64,
        link: u64,
    },
    Tell {
        server: usize,
        process: u64,
        input: zebu_zab::Input,
    },
    Dialled {
        server: usize,
        process: u64,
        to: usize,
        given_up: bool,
    },
    Linked {
        server: usize,
        process: u64,
        attempt: u64,
        to: usize,
        port: Port,
        given_up: bool,
    },
    Arrive {
        connection: u64,
        side: usize,
        message: Message,
    },
    Release {
        connection: u64,
        side: usize,
    },
    Reset {
        connection: u64,
        side: usize,
    },
    Client {
        client: usize,
        timer: u64,
    },
    ClientDialled {
        client: usize,
        attempt: u64,
        to: usize,
    },
    Fault(usize),
    Ambush(crate::plan::Fault),
    Resume {
        server: usize,
        pause: u64,
    },
    Unblock(Vec<(usize, usize)>),
    /// A server hears the others again.
    Hears(usize),
    DiskBack {
        server: usize,
        full: bool,
    },
    Ends {
        server: usize,
        process: u64,
        back: Duration,
    },
    NetworkBack,
    /// A server returns to its own ensemble.
    ComesHome(usize),
    ClientSpeaks {
        client: usize,
    },
    App {
        app: usize,
        timer: u64,
    },
    AppResolved {
        app: usize,
    },
    AppDialled {
        app: usize,
        attempt: u64,
        to: usize,
    },
    AppAnew {
        app: usize,
    },
    GuestDialled {
        guest: usize,
        attempt: u64,
        to: usize,
    },
}

struct Planned {
    at: Duration,
    order: u64,
    happening: Happening,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Descriptions of the violated properties. The first one is the cause.
    pub broken: Vec<String>,
    /// A digest of all events.
    pub trace: u64,
    /// Simulated time.
    pub simulated: Duration,
    /// Faults that took effect, by class.
    pub faults: BTreeMap<&'static str, u64>,
    /// Committed transactions.
    pub committed: u64,
    /// Answered client requests.
    pub answered: u64,
    /// Notifications to clients.
    pub notified: u64,
    /// Established leaders.
    pub leaders: u64,
    /// Steps of servers that the model of the protocol has allowed.
    pub model_actions: u64,
    /// How often each rare situation occurred, by name.
    pub reached: BTreeMap<&'static str, u64>,
}

/// The whole state of one run.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Duration,
    pub(crate) random: Random,
    pub(crate) schemes: Arc<Schemes>,
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<Client>,
    pub(crate) apps: Vec<App>,
    pub(crate) guests: Vec<Guest>,
    pub(crate) net: Net,
    pub(crate) checks: Checks,
    pub(crate) next_id: u64,
    /// Whether clients send new requests.
    pub(crate) busy: bool,
    /// Whether all faults have ended.
    pub(crate) healing: bool,
    pub(crate) say: bool,
    pub(crate) ambushes: Vec<Ambush>,
    /// Reconfigurations that an operator has not requested yet, and the one that is requested.
    pub(crate) wanted: VecDeque<Wanted>,
    pub(crate) asked_change: Option<Wanted>,
    pub(crate) outcome: Outcome,
    /// Changes bytes between servers.
    pub(crate) flips: Option<Flips>,
    /// The time of the next progress check.
    look_at: Duration,
    queue: BinaryHeap<Reverse<Planned>>,
    order: u64,
}

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// The world of a plan, before the first event.
    pub fn new(plan: Plan) -> Self {
        let mut random = Random::stream(plan.seed, 2);
        let servers = (0..plan.servers()).map(|_| Server::new(&mut random)).collect();
        let clients = (0..plan.clients).map(|n| Client::new(n, plan.seed)).collect();
        let apps = (0..plan.sessions).map(|n| App::new(n, &plan)).collect();
        let guests = (0..plan.guests).map(|_| Guest::default()).collect();
        let mut world = Self {
            now: Duration::ZERO,
            random,
            schemes: Arc::new(Schemes::new(vec![], false)),
            servers,
            clients,
            apps,
            guests,
            net: Net::default(),
            checks: Checks::new(&plan),
            next_id: 1,
            busy: true,
            healing: false,
            say: false,
            ambushes: Vec::new(),
            wanted: VecDeque::new(),
            asked_change: None,
            outcome: Outcome::default(),
            flips: Flips::new(&plan),
            look_at: INTERVAL,
            queue: BinaryHeap::new(),
            order: 0,
            plan,
        };
        for server in 0..world.plan.servers() {
            let latest = if server < world.plan.members() { 500 } else { 20_000 };
            let at = world.random.ms(0, latest);
            world.write_first_file(server);
            world.at(at, Happening::Boot { server, process: 0 });
        }
        for client in 0..world.plan.clients {
            let at = world.random.ms(0, 2000);
            world.at(at, Happening::Client { client, timer: 0 });
        }
        for app in 0..world.plan.sessions {
            let at = world.random.ms(0, 2000);
            world.at(at, Happening::App { app, timer: 0 });
        }
        for (number, planned) in world.plan.faults.clone().iter().enumerate() {
            world.at(planned.at, Happening::Fault(number));
        }
        world
    }

    /// Prints events as they happen.
    pub fn narrate(mut self) -> Self {
        self.say = true;
        self
    }

    /// Runs both phases.
    pub fn run(mut self) -> Outcome {
        self.run_until(self.plan.length);
        if self.checks.broken.is_empty() {
            match self.flips {
                Some(_) => self.converge_after_flips(),
                None if self.plan.diverges => {
                    self.converge_after_flips();
                    self.look_for_wrong_data();
                }
                None => self.converge(),
            }
        }
        self.outcome.model_actions = self.checks.check_model();
        self.outcome.broken = std::mem::take(&mut self.checks.broken);
        self.outcome.simulated = self.now;
        self.outcome.committed = self.checks.order.committed() as u64;
        self.outcome.leaders = self.checks.leaders.count() as u64;
        self.outcome
    }

    pub(crate) fn at(&mut self, at: Duration, happening: Happening) {
        self.order += 1;
        let order = self.order;
        self.queue.push(Reverse(Planned { at: at.max(self.now), order, happening }));
    }

    pub(crate) fn after(&mut self, after: Duration, happening: Happening) {
        self.at(self.now + after, happening);
    }

    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.say {
            println!("{:>11.6}  {}", self.now.as_secs_f64(), what());
        }
    }

    pub(crate) fn reached(&mut self, what: &'static str) {
        *self.outcome.reached.entry(what).or_default() += 1;
    }

    /// Adds to the digest of the run.
    pub(crate) fn trace(&mut self, a: u64, b: u64) {
        let mixed = self.outcome.trace.rotate_left(5) ^ a.rotate_left(32) ^ b;
        self.outcome.trace = mixed.wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Runs until `end`, or until a property is violated.
    pub(crate) fn run_until(&mut self, end: Duration) {
        while self.checks.broken.is_empty() {
            let Some(Reverse(next)) = self.queue.peek() else { break };
            if next.at > end {
                break;
            }
            let Some(Reverse(Planned { at, order, happening })) = self.queue.pop() else { break };
            while self.look_at <= at && self.checks.broken.is_empty() {
                self.now = self.look_at;
                self.checks.now = self.now;
                self.look_at += INTERVAL;
                self.look_at_progress();
                self.look_at_staleness();
            }
            self.now = at;
            self.checks.now = at;
            self.trace(at.as_nanos() as u64, order);
            self.happen(happening);
        }
        self.now = self.now.max(end);
    }

    fn server_of(&self, happening: &Happening) -> Option<usize> {
        match happening {
            Happening::Wake { server, .. }
            | Happening::GoOn { server, .. }
            | Happening::Timer { server, .. }
            | Happening::Touches { server, .. }
            | Happening::DiskDone { server, .. }
            | Happening::DiskIdle { server, .. }
            | Happening::Scrub { server, .. }
            | Happening::SnapshotStep { server, .. }
            | Happening::RepairLogs { server, .. }
            | Happening::Answered { server, .. }
            | Happening::CopyStep { server, .. }
            | Happening::Tell { server, .. }
            | Happening::Ends { server, .. }
            | Happening::Dialled { server, .. }
            | Happening::Linked { server, .. } => Some(*server),
            Happening::Arrive { connection, side, .. }
            | Happening::Release { connection, side }
            | Happening::Reset { connection, side } => {
                let connection = self.net.connections.get(connection)?;
                let place = connection.line.ends()[*side];
                (place < self.plan.servers()).then_some(place)
            }
            _ => None,
        }
    }

    pub(crate) fn happen(&mut self, happening: Happening) {
        if let Some(server) = self.server_of(&happening)
            && self.servers[server].paused.is_some()
        {
            self.servers[server].missed.push(happening);
            return;
        }
        match happening {
            Happening::Boot { server, process } => self.boot(server, process),
            Happening::Wake { server, process } => self.wake(server, process),
            Happening::GoOn { server, process } => self.go_on(server, process),
            Happening::Timer { server, process, at } => self.timer(server, process, at),
            Happening::Touches { server, process } => self.touches(server, process),
            Happening::DiskDone { server, process } => self.disk_done(server, process),
            Happening::DiskIdle { server, process, jobs } => self.disk_idle(server, process, jobs),
            Happening::Scrub { server, process } => self.scrub(server, process),
            Happening::SnapshotStep { server, process } => self.snapshot_step(server, process),
            Happening::CopyStep { server, process, link } => self.copy_step(server, process, link),
            Happening::RepairLogs { server, process } => self.repair(server, process),
            Happening::Asked { server, process, to, missing } => {
                self.asked_to_repair(server, process, to, missing);
            }
            Happening::Answered { server, process, answer } => {
                self.answered_to_repair(server, process, &answer);
            }
            Happening::Tell { server, process, input } => {
                self.input(server, process, zebu_replica::Input::Zab(input));
            }
            Happening::Dialled { server, process, to, given_up } => {
                self.dialled(server, process, to, given_up);
            }
            Happening::Linked { server, process, attempt, to, port, given_up } => {
                self.linked(server, process, Dial { attempt, to, port, given_up });
            }
            Happening::Arrive { connection, side, message } => {
                self.arrive(connection, side, message);
            }
            Happening::Release { connection, side } => self.release(connection, side),
            Happening::Reset { connection, side } => self.reset(connection, side),
            Happening::Client { client, timer } => self.client_timer(client, timer),
            Happening::ClientDialled { client, attempt, to } => {
                self.client_dialled(client, attempt, to);
            }
            Happening::Fault(number) => self.fault(number),
            Happening::Ambush(fault) => self.ambush(fault),
            Happening::Resume { server, pause } => self.resume(server, pause),
            Happening::Unblock(pairs) => self.unblock(&pairs),
            Happening::Hears(server) => self.is_missed(server),
            Happening::DiskBack { server, full } => self.disk_back(server, full),
            Happening::Ends { server, process, back } => self.ends(server, process, back),
            Happening::NetworkBack => self.net.slow = 1,
            Happening::ComesHome(server) => self.comes_home(server),
            Happening::ClientSpeaks { client } => self.party_speaks(client),
            Happening::App { app, timer } => self.app_timer(app, timer),
            Happening::AppResolved { app } => self.app_resolved(app),
            Happening::AppDialled { app, attempt, to } => self.app_dialled(app, attempt, to),
            Happening::AppAnew { app } => self.app_anew(app),
            Happening::GuestDialled { guest, attempt, to } => {
                self.guest_dialled(guest, attempt, to)
            }
        }
    }

    /// A client, a program or a guest is paused.
    pub(crate) fn party_falls_silent(&mut self, party: usize) {
        if let Some(guest) = self.guest_of(party) {
            self.guests[guest].is_silent = true;
            return;
        }
        match party.checked_sub(self.clients.len()) {
            None => self.clients[party].silent = true,
            Some(app) => self.apps[app].silent = true,
        }
    }

    /// A client, a program or a guest resumes.
    pub(crate) fn party_speaks(&mut self, party: usize) {
        if let Some(guest) = self.guest_of(party) {
            self.guests[guest].is_silent = false;
            return;
        }
        match party.checked_sub(self.clients.len()) {
            None => self.client_speaks(party),
            Some(app) => self.app_speaks(app),
        }
    }

    /// The connection of a client, a program or a guest.
    pub(crate) fn party_connection(&self, party: usize) -> Option<u64> {
        if let Some(guest) = self.guest_of(party) {
            return self.guests[guest].connection();
        }
        match party.checked_sub(self.clients.len()) {
            None => self.clients[party].connection(),
            Some(app) => self.apps[app].connection(),
        }
    }

    /// The time in which an ensemble without faults recovers from any earlier fault.
    pub(crate) fn patience(&self) -> Duration {
        self.plan.tick * 60 + SECOND * 60
    }

    /// The liveness phase: all faults have ended, and the world must come to rest.
    fn converge(&mut self) {
        self.heal();
        let limit = self.now + self.patience();
        let end = self.now + self.patience() / 2;
        // Clients continue for a while, so that there are transactions to agree on.
        while !self.all_serve() && self.checks.broken.is_empty() {
            if self.now >= limit {
                self.checks.found(format!("liveness: not all serve\n{}", self.status()));
                return;
            }
            self.look_after_strangers(self.now >= end);
            self.run_until(self.now + SECOND);
        }
        self.checks.calm_since = Some(self.now);
        self.run_until(self.now + SECOND * 10);
        self.busy = false;
        self.come_to_rest();
        if self.checks.broken.is_empty() {
            self.rest();
        }
        // The end of a session may not have reached all servers yet.
        self.come_to_rest();
        if self.checks.broken.is_empty() {
            self.compare_trees();
        }
    }

    fn come_to_rest(&mut self) {
        let limit = self.now + self.patience();
        while !self.at_rest() && self.checks.broken.is_empty() {
            if self.now >= limit {
                self.checks.found(format!("liveness: no convergence\n{}", self.status()));
                return;
            }
            self.run_until(self.now + SECOND);
        }
    }

    /// At rest, the servers exchange few messages.
    fn rest(&mut self) {
        let before = self.net.sent;
        let length = self.plan.tick * 10;
        self.run_until(self.now + length);
        let sent = self.net.sent - before;
        let learners = self.plan.servers() as u64 - 1;
        // The leader says that it is alive six times within the limit of its silence.
        let alive = self
            .plan
            .leader_silence
            .map_or(0, |silence| (length.as_millis() / (silence.as_millis() / 6)) as u64 + 1);
        // Where it says so, it also asks for a sign of life after three times of silence.
        let asked = alive / 3 * 2;
        // Every half tick: a ping to each learner and its answer, with some reserve.
        let most = learners * (21 * 2 * 2 + alive + asked) + 10;
        if sent > most {
            self.checks.found(format!("liveness: {sent} messages in {length:?} of rest"));
        }
    }

    fn all_serve(&self) -> bool {
        self.servers.iter().all(Server::serves)
    }

    fn at_rest(&self) -> bool {
        let last = self.checks.order.last();
        self.servers.iter().all(|server| server.is_at_rest(last))
            && self.clients.iter().all(Client::is_at_rest)
            && self.apps.iter().all(App::is_at_rest)
    }

    /// One line for each server and client.
    pub(crate) fn status(&self) -> String {
        let servers =
            self.servers.iter().enumerate().map(|(n, s)| format!("server {n}: {}", s.status()));
        let clients =
            self.clients.iter().enumerate().map(|(n, c)| format!("client {n}: {}", c.status()));
        let apps =
            self.apps.iter().enumerate().map(|(n, a)| format!("session {n}: {}", a.status()));
        servers.chain(clients).chain(apps).collect::<Vec<_>>().join("\n")
    }
}
