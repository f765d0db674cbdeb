//! The two steps in which a server ends: it is asked to stop, and its replica has finished the
//! requests in progress. Also the callers that wait until this server has handed over its
//! leadership.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use zebu_proto::ServerId;
use zebu_replica::NotHandedOver;

/// How long a server that is asked to stop finishes what is in progress, at most. Whoever stops servers waits for some
/// seconds before it kills them.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Steps {
    asked: bool,
    over: bool,
}

/// How far a server's end is. A failure takes both steps at once.
#[derive(Debug, Default)]
pub struct Retiring {
    steps: Mutex<Steps>,
    changed: Condvar,
}

impl Retiring {
    /// Asks the server to stop.
    pub fn ask(&self) {
        self.steps.lock().asked = true;
        self.changed.notify_all();
    }

    /// No request is in progress, or no caller waits for one.
    pub fn end(&self) {
        *self.steps.lock() = Steps { asked: true, over: true };
        self.changed.notify_all();
    }

    /// Waits, blocking, until the server is asked to stop.
    pub fn wait_asked(&self) {
        let mut steps = self.steps.lock();
        self.changed.wait_while(&mut steps, |steps| !steps.asked);
    }

    /// Waits, blocking, until nothing is in progress any more, and `most` at the longest.
    pub fn wait_over(&self, most: Duration) {
        let until = Instant::now() + most;
        let mut steps = self.steps.lock();
        self.changed.wait_while_until(&mut steps, |steps| !steps.over, until);
    }
}

type HandedOver = Result<ServerId, NotHandedOver>;

/// The callers that have asked this server to hand over, in the order in which the replica answers
/// them.
#[derive(Debug, Default)]
pub struct HandingOver(Mutex<VecDeque<oneshot::Sender<HandedOver>>>);

impl HandingOver {
    /// Asks the replica with `push`. What is returned gets its answer.
    pub fn ask(&self, push: impl FnOnce()) -> oneshot::Receiver<HandedOver> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.lock();
        waiting.push_back(sender);
        push();
        receiver
    }

    /// The replica answers the first.
    pub fn answer(&self, result: HandedOver) {
        let first = self.0.lock().pop_front();
        // The caller may have left.
        let _ = first.map(|first| first.send(result));
    }
}
