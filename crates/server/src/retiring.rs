//! The two steps in which a server ends: it is asked to stop, and its replica has finished the
//! requests in progress. Also the callers that wait until this server has handed over its
//! leadership.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use zebu_proto::ServerId;
use zebu_replica::NotHandedOver;

/// Maximum time in which a stopping server finishes requests in progress. Supervisors wait for some
/// seconds before they kill a process.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Steps {
    asked: bool,
    over: bool,
}

/// The progress of a server's end. A failure takes both steps at once.
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

    /// Reports that no request is in progress, or that no caller waits for one.
    pub fn end(&self) {
        *self.steps.lock() = Steps { asked: true, over: true };
        self.changed.notify_all();
    }

    /// Waits, blocking, until the server is asked to stop.
    pub fn wait_asked(&self) {
        let mut steps = self.steps.lock();
        self.changed.wait_while(&mut steps, |steps| !steps.asked);
    }

    /// Waits, blocking, until no request is in progress, but at most for `most`.
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
    /// Passes the request to the replica with `push`. The returned receiver gets the answer.
    pub fn ask(&self, push: impl FnOnce()) -> oneshot::Receiver<HandedOver> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.lock();
        waiting.push_back(sender);
        push();
        receiver
    }

    /// The replica answers the first caller.
    pub fn answer(&self, result: HandedOver) {
        let first = self.0.lock().pop_front().expect("each answer has its question");
        // The caller may have stopped waiting.
        let _ = first.send(result);
    }
}
