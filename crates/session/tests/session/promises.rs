//! The promises of a session on an unreliable network. Random operations, cut connections,
//! unreachable servers and passing time are followed by a recovery, and then all results are
//! checked.
//!
//! The network is one connection. The random actions say how many frames arrive, so no way between
//! places can be blocked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use zebu_proto::ErrorCode;
use zebu_session::{
    Answer, Attempt, Challenge, Effect, Failure, Input, Options, Output, Proof, Registration,
    RequestId, Series, Session, State, Submission, WatchKind, WatcherId,
};

use crate::peer::{Connection, Ensemble};
use crate::wire;

const PATHS: [&str; 3] = ["/a", "/b", "/c"];

#[derive(Clone, Debug)]
enum Action {
    Read {
        path: usize,
        watch: bool,
        /// The index of its series, if it exists.
        series: usize,
    },
    /// Replaces a series by a new one.
    NewSeries(usize),
    WithdrawLast,
    Unwatch(usize),
    Authenticate,
    /// The network delivers some frames to the server, and some to the client.
    Carry {
        there: usize,
        back: usize,
    },
    Change(usize),
    Cut,
    Pass(u64),
    /// From now on connections fail, or succeed again.
    Unreachable(bool),
    Expire,
    Close,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (0..3_usize, any::<bool>(), 0..4_usize)
            .prop_map(|(path, watch, series)| Action::Read { path, watch, series }),
        1 => (0..2_usize).prop_map(Action::NewSeries),
        1 => Just(Action::WithdrawLast),
        2 => (0..20_usize).prop_map(Action::Unwatch),
        1 => Just(Action::Authenticate),
        12 => (0..6_usize, 0..6_usize).prop_map(|(there, back)| Action::Carry { there, back }),
        5 => (0..3_usize).prop_map(Action::Change),
        2 => Just(Action::Cut),
        4 => (0..4000_u64).prop_map(Action::Pass),
        1 => any::<bool>().prop_map(Action::Unreachable),
    ]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let end = prop_oneof![
        6 => Just(None),
        1 => Just(Some(Action::Expire)),
        1 => Just(Some(Action::Close)),
    ];
    (proptest::collection::vec(action(), 1..80), end, proptest::collection::vec(action(), 0..20))
        .prop_map(|(mut actions, end, rest)| {
            actions.extend(end);
            actions.extend(rest);
            actions
        })
}

/// The watch that the request has set.
#[derive(Debug)]
struct Watch {
    path: &'static str,
    /// The version that the request has read.
    read: i64,
    is_fired: bool,
}

struct World {
    session: Session,
    now: Duration,
    ensemble: Ensemble,
    attempt: Option<Attempt>,
    connection: Option<Connection>,
    /// Frames on their way to the server.
    there: VecDeque<Vec<u8>>,
    is_unreachable: bool,
    /// The last time at which a server heard of the session.
    heard: Option<Duration>,
    requests: BTreeMap<RequestId, Option<(&'static str, bool)>>,
    /// With their requests.
    series: Vec<(Series, Vec<RequestId>)>,
    /// The current series at each index.
    current: [usize; 2],
    done: BTreeMap<RequestId, Result<Answer, Failure>>,
    watches: BTreeMap<WatcherId, Watch>,
    last: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let timeout = Duration::from_secs(6);
        // ERR-10: some callers limit the time until an answer.
        let request_timeout = seed.is_multiple_of(3).then(|| Duration::from_millis(1500));
        let sasl = seed.is_multiple_of(5);
        let options = Options { seed, timeout, request_timeout, sasl, ..Options::default() };
        Self {
            session: Session::new(options),
            now: Duration::ZERO,
            ensemble: Ensemble { zxid: 1, wants_sasl: sasl, ..Ensemble::default() },
            attempt: None,
            connection: None,
            there: VecDeque::new(),
            is_unreachable: false,
            heard: None,
            requests: BTreeMap::new(),
            series: vec![Default::default(), Default::default()],
            current: [0, 1],
            done: BTreeMap::new(),
            watches: BTreeMap::new(),
            last: 0,
        }
    }

    fn step(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut out = Vec::new();
            self.session.step(self.now, input, &mut out);
            // PAI-04: a client never assumes that the servers heard of it later than they did.
            assert!(self.session.proven() <= self.heard, "proven without having been heard");
            for output in out {
                inputs.extend(self.carry_out(output));
            }
        }
    }

    fn carry_out(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Resolve => {
                let address = |port| SocketAddr::from(([10, 0, 0, 1], port));
                return Some(Input::Resolved([1, 2, 3].map(|port| address(port).into()).to_vec()));
            }
            Output::Connect(attempt, _) => {
                self.attempt = Some(attempt);
                self.there.clear();
                self.connection = (!self.is_unreachable).then(Connection::default);
                return Some(match self.connection {
                    Some(_) => Input::Connected(attempt),
                    None => Input::Disconnected(attempt),
                });
            }
            Output::Disconnect(attempt) => {
                assert_eq!(Some(attempt), self.attempt);
                self.connection = None;
            }
            Output::Send(bytes) => {
                assert!(self.connection.is_some(), "sent without a connection");
                self.there.extend(wire::frames(&bytes).into_iter().map(<[u8]>::to_vec));
            }
            Output::Probe(_) => panic!("no server here is read-only"),
            // Two tokens, as in DIGEST-MD5.
            Output::Prove(attempt, challenge) => {
                let proof = match challenge {
                    Challenge::First => Proof::Token(b"1".to_vec()),
                    Challenge::Token(Some(token)) if token == b"1"[..] => {
                        Proof::Token(b"2".to_vec())
                    }
                    Challenge::Token(token) => {
                        assert_eq!(token.as_deref(), Some(&b"2"[..]));
                        Proof::Done
                    }
                };
                return Some(Input::Proof(attempt, proof));
            }
            Output::State(state) => {
                if let State::Over(_) = state {
                    self.watches.clear();
                }
            }
            Output::Done(id, result) => self.done(id, result),
            Output::Event { watcher, path, last, .. } => {
                assert!(last);
                let watch = self.watches.get_mut(&watcher).expect("nobody waits for it");
                assert_eq!(path, watch.path);
                assert!(!watch.is_fired, "told twice");
                watch.is_fired = true;
            }
        }
        None
    }

    fn done(&mut self, id: RequestId, result: Result<Answer, Failure>) {
        let request = *self.requests.get(&id).expect("nobody asked");
        if let (Some((path, watched)), Ok(answer)) = (request, &result) {
            assert_eq!(answer.err, ErrorCode::OK);
            let version = i64::from_be_bytes(answer.body[..].try_into().unwrap());
            // WAT-14: a client that reads a newer version was notified before.
            for watch in self.watches.values().filter(|watch| watch.path == path) {
                assert!(watch.is_fired || watch.read >= version, "read before it was told");
            }
            if watched {
                let watch = Watch { path, read: version, is_fired: false };
                self.watches.insert(WatcherId(id.0), watch);
            }
        }
        assert!(self.done.insert(id, result).is_none(), "answered twice: {id:?}");
    }

    fn ask(&mut self, request: Option<(&'static str, bool)>) -> RequestId {
        self.last += 1;
        let id = RequestId(self.last);
        self.requests.insert(id, request);
        id
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Read { path, watch, series } => {
                let path = PATHS[path];
                let id = self.ask(Some((path, watch)));
                let series = self.current.get(series).map(|at| {
                    let (series, requests) = &mut self.series[*at];
                    requests.push(id);
                    series.clone()
                });
                let frame = wire::get_data(&format!("{path}?{}", id.0), watch);
                let registration = Registration {
                    watcher: WatcherId(id.0),
                    kind: WatchKind::Data,
                    path: path.into(),
                };
                let effect = if watch { Effect::Watch(registration) } else { Effect::None };
                self.step(Input::Submit(Submission { id, frame, effect, series }));
            }
            Action::NewSeries(place) => {
                self.current[place] = self.series.len();
                self.series.push(Default::default());
            }
            Action::WithdrawLast => self.step(Input::Withdraw(RequestId(self.last))),
            Action::Unwatch(nth) => {
                if let Some(watcher) = self.watches.keys().nth(nth).copied() {
                    self.watches.remove(&watcher);
                    self.step(Input::Unwatch(watcher));
                }
            }
            Action::Authenticate => {
                let id = self.ask(None);
                let scheme = "digest".to_owned();
                self.step(Input::Authenticate { id, scheme, auth: b"u:p".to_vec() });
            }
            Action::Carry { there, back } => self.carry(there, back),
            Action::Change(path) => {
                self.ensemble.change(PATHS[path], self.connection.as_mut());
            }
            Action::Cut => self.cut(),
            Action::Pass(ms) => {
                let until = self.now + Duration::from_millis(ms);
                while let Some(deadline) = self.session.deadline().filter(|at| *at <= until) {
                    self.now = self.now.max(deadline);
                    self.step(Input::Tick);
                }
                self.now = until;
            }
            Action::Unreachable(unreachable) => self.is_unreachable = unreachable,
            Action::Expire => {
                self.ensemble.is_expired = true;
                self.cut();
            }
            Action::Close => {
                let id = self.ask(None);
                self.step(Input::Close(id));
            }
        }
    }

    fn cut(&mut self) {
        if self.connection.take().is_some()
            && let Some(attempt) = self.attempt
        {
            self.step(Input::Disconnected(attempt));
        }
    }

    fn carry(&mut self, there: usize, back: usize) {
        for _ in 0..there {
            let Some(connection) = &mut self.connection else { return };
            let Some(frame) = self.there.pop_front() else { break };
            if !connection.is_closed {
                self.heard = Some(self.now);
            }
            self.ensemble.receive(connection, &frame);
        }
        for _ in 0..back {
            let Some(connection) = &mut self.connection else { return };
            let Some(frame) = connection.out.pop_front() else {
                if connection.is_closed {
                    self.cut();
                }
                return;
            };
            let attempt = self.attempt.expect("there is a connection");
            self.step(Input::Frame(attempt, frame));
        }
    }

    /// The network recovers, and enough time passes.
    fn converge(&mut self) {
        self.is_unreachable = false;
        for _ in 0..40 {
            self.act(Action::Pass(300));
            self.carry(1000, 1000);
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.session.state(), State::Over(_))
    }

    fn check(&self) {
        // ORD-13: each request is answered exactly once, and executed at most once.
        for id in self.requests.keys() {
            assert!(self.done.contains_key(id), "never answered: {id:?}");
        }
        let executed: BTreeSet<u64> = self.ensemble.executed.iter().copied().collect();
        assert_eq!(executed.len(), self.ensemble.executed.len(), "executed twice");
        for (id, result) in &self.done {
            let was_executed = executed.contains(&id.0);
            match (result, self.requests[id].is_some()) {
                (Ok(_), true) => assert!(was_executed, "answered, not executed: {id:?}"),
                (Ok(_) | Err(Failure::Lost | Failure::TimedOut { is_sent: true }), _) => {}
                (Err(failure), _) => assert!(!was_executed, "executed: {id:?} {failure:?}"),
            }
        }
        // PAI-09: a prefix of each series is executed, possibly all of it.
        for (series, requests) in &self.series {
            let mut rest = requests.iter().skip_while(|id| executed.contains(&id.0));
            assert!(!rest.clone().any(|id| executed.contains(&id.0)), "a gap: {requests:?}");
            assert!(rest.next().is_none() || series.is_broken() || self.is_over(), "{requests:?}");
        }
        // ORD-04: in the order of submission.
        assert!(self.ensemble.executed.is_sorted());
        // WAT-19: no watcher misses a change or is notified of a change that did not happen.
        for (watcher, watch) in &self.watches {
            let changed = self.ensemble.version(watch.path) > watch.read;
            assert_eq!(watch.is_fired, changed, "{watcher:?} {watch:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn promises_hold(seed in any::<u64>(), actions in actions()) {
        let mut world = World::new(seed);
        world.step(Input::Tick);
        for action in actions {
            world.act(action);
        }
        world.converge();
        world.check();
    }

    #[test]
    fn bytes_of_strangers_do_no_harm(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..20),
        greeted in any::<bool>(),
    ) {
        let mut world = World::new(1);
        world.step(Input::Tick);
        world.act(Action::Read { path: 0, watch: true, series: 0 });
        world.carry(usize::from(greeted), 1);
        for frame in frames {
            if let Some(attempt) = world.attempt {
                world.session.step(world.now, Input::Frame(attempt, frame.into()), &mut Vec::new());
            }
        }
    }
}

#[test]
fn the_same_seed_does_the_same() {
    let run = |seed| {
        let mut world = World::new(seed);
        world.is_unreachable = true;
        world.step(Input::Tick);
        let mut log = Vec::new();
        for _ in 0..50 {
            world.now = world.session.deadline().unwrap();
            log.push(world.now);
            world.step(Input::Tick);
        }
        log
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
