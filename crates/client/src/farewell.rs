//! How long the drop of a session's last client waits for the end of the session.
//!
//! The program, and all of its threads, may end right after the drop. So the drop returns when the
//! server knows that the session is over, or after a bounded time.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The longest wait until the server is told, while there is a connection.
const TELLING_MAX: Duration = Duration::from_secs(1);

/// The longest wait for the rest: for the server's answer and, without a connection, for a
/// connection.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The same on a thread of a runtime, where other tasks wait for their turn.
const ANSWER_MAX_IN_RUNTIME: Duration = Duration::from_millis(100);

/// The progress of a session's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The session's thread will tell the server when it runs.
    Asked,
    /// There is no connection at the moment.
    Alone,
    /// The system has taken all bytes that tell the server.
    Told,
    /// The session is over.
    Over,
}

#[derive(Debug)]
pub(crate) struct Farewell {
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Farewell {
    pub(crate) fn new() -> Self {
        Self { stage: Mutex::new(Stage::Asked), changed: Condvar::new() }
    }

    pub(crate) fn reach(&self, stage: Stage) {
        let mut reached = self.stage.lock();
        if *reached != stage {
            *reached = stage;
            self.changed.notify_all();
        }
    }

    /// Returns when the session has ended, or when further waiting is useless.
    pub(crate) fn wait(&self, is_in_runtime: bool) {
        let start = Instant::now();
        let mut stage = self.stage.lock();
        loop {
            let limit = match *stage {
                Stage::Over => return,
                Stage::Asked => TELLING_MAX,
                Stage::Alone | Stage::Told if is_in_runtime => ANSWER_MAX_IN_RUNTIME,
                Stage::Alone | Stage::Told => ANSWER_MAX,
            };
            let until = start + limit;
            if until <= Instant::now() {
                return;
            }
            let _is_timed_out = self.changed.wait_until(&mut stage, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_what_is_over() {
        let farewell = Farewell::new();
        farewell.reach(Stage::Told);
        farewell.reach(Stage::Over);
        farewell.wait(true);
        farewell.wait(false);
    }

    /// The time limit holds, whatever the server does.
    #[test]
    fn nobody_waits_for_ever() {
        let farewell = Farewell::new();
        farewell.reach(Stage::Alone);
        farewell.wait(true);
        farewell.reach(Stage::Asked);
        farewell.wait(true);
    }
}
