//! Limits the number of requests in progress.
//!
//! Requests above the limit wait here, undecoded, in the order of arrival. Source:
//! `RequestThrottler`, `Request.isStale`; properties `zookeeper.request_throttle_*` and
//! `zookeeper.request_stale_*`.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use zebu_proto::{OpCode, SessionId};

use crate::ConnId;
use crate::io::{Input, Origin, Request};

/// The intake's settings.
#[derive(Clone, Debug)]
pub struct IntakeOptions {
    /// Maximum number of requests in progress; others wait. `None`: no limit, and no request is
    /// dropped.
    pub requests_max: Option<u32>,
    /// How long the intake waits before it checks the first waiting request again.
    pub stall: Duration,
    /// Whether stale requests are dropped and their connections closed.
    pub drop_stale: bool,
    /// Whether a request older than its session timeout is stale.
    pub stale_by_latency: bool,
    /// Whether a request whose connection is closed is stale.
    pub stale_by_connection: bool,
}

impl Default for IntakeOptions {
    fn default() -> Self {
        Self {
            requests_max: None,
            stall: Duration::from_millis(100),
            drop_stale: true,
            stale_by_latency: false,
            stale_by_connection: true,
        }
    }
}

/// The waiting inputs from connections, oldest first.
///
/// Invariant: `gone` and `dropped` only hold connections whose end is waiting too, or still to
/// come.
#[derive(Debug)]
pub(crate) struct Intake {
    options: IntakeOptions,
    waiting: VecDeque<Input>,
    /// Closed connections that still have waiting requests.
    gone: HashSet<ConnId, FixedState>,
    /// Connections of which a request was dropped: all their later requests are dropped too.
    dropped: HashSet<ConnId, FixedState>,
    next_look: Duration,
}

/// The decision about the first waiting input.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Take it in. For a request: whether it is stale.
    Take(Input, bool),
    /// Drop it and close its connection.
    Drop(Origin),
    /// Drop it because an earlier request of its connection was dropped.
    DropToo(Origin),
    /// Forget it: its connection is gone.
    Forget,
    /// It must wait. True if the intake has just checked in vain.
    Wait(bool),
    /// Nothing waits.
    Idle,
}

impl Intake {
    pub(crate) fn new(options: IntakeOptions) -> Self {
        Self {
            options,
            waiting: VecDeque::new(),
            gone: HashSet::with_hasher(FixedState::default()),
            dropped: HashSet::with_hasher(FixedState::default()),
            next_look: Duration::ZERO,
        }
    }

    /// Whether there is a limit. Without one, inputs never wait here.
    pub(crate) fn is_limited(&self) -> bool {
        self.options.requests_max.is_some()
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self) {
        assert!(self.is_limited() || self.waiting.is_empty(), "something waits without a limit");
        assert!(!self.waiting.is_empty() || self.gone.is_empty(), "a connection ended twice");
        assert!(self.options.drop_stale || self.dropped.is_empty(), "what is stale is served");
        if cfg!(debug_assertions) {
            let end = |input: &Input| match input {
                Input::Disconnected { conn, .. } => Some(*conn),
                _ => None,
            };
            let ends: HashSet<ConnId, FixedState> = self.waiting.iter().filter_map(end).collect();
            assert!(self.gone.is_subset(&ends), "a connection is gone, and its end does not wait");
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When to check the first waiting input again, if there is one.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(self.next_look)
    }

    /// Queues an input from a connection.
    pub(crate) fn push(&mut self, input: Input, now: Duration) {
        assert!(self.is_limited(), "nothing has to wait");
        if self.waiting.is_empty() {
            self.next_look = now;
        } else if let Input::Disconnected { conn, .. } = input {
            self.gone.insert(conn);
        }
        self.waiting.push_back(input);
    }

    /// Decides about the first waiting input. `timeout_ms` returns the timeout of a session.
    pub(crate) fn next(
        &mut self,
        now: Duration,
        in_process: usize,
        timeout_ms: impl Fn(SessionId) -> Option<i32>,
    ) -> Turn {
        let stale = match self.waiting.front() {
            None => return Turn::Idle,
            Some(Input::Connect(connect)) if self.gone.contains(&connect.conn) => {
                self.waiting.pop_front();
                return Turn::Forget;
            }
            Some(Input::Request(request)) => {
                let origin = request.origin();
                if self.dropped.contains(&origin.conn) {
                    self.waiting.pop_front();
                    return Turn::DropToo(origin);
                }
                let is_gone = self.gone.contains(&origin.conn);
                let stale = self.is_stale(request, is_gone, now, &timeout_ms);
                if stale && self.options.drop_stale {
                    self.dropped.insert(origin.conn);
                    self.waiting.pop_front();
                    return Turn::Drop(origin);
                }
                stale
            }
            Some(Input::Disconnected { conn, .. }) => {
                self.gone.remove(conn);
                self.dropped.remove(conn);
                return self.take(false);
            }
            Some(_) => false,
        };
        let most = self.options.requests_max.map_or(usize::MAX, |most| most as usize);
        if in_process < most {
            self.next_look = now;
            return self.take(stale);
        }
        let looked = now >= self.next_look;
        if looked {
            self.next_look = now + self.options.stall;
        }
        Turn::Wait(looked)
    }

    fn take(&mut self, stale: bool) -> Turn {
        self.waiting.pop_front().map_or(Turn::Idle, |input| Turn::Take(input, stale))
    }

    /// Whether no client waits for the answer to a request any more.
    ///
    /// A closeSession is never stale: it cleans up.
    pub(crate) fn is_stale(
        &self,
        request: &Request,
        is_gone: bool,
        now: Duration,
        timeout_ms: impl Fn(SessionId) -> Option<i32>,
    ) -> bool {
        if request.op == OpCode::CLOSE_SESSION {
            return false;
        }
        if self.options.stale_by_connection && is_gone {
            return true;
        }
        self.options.stale_by_latency
            && timeout_ms(request.session).is_some_and(|timeout_ms| {
                let waited = now.saturating_sub(request.received);
                waited > Duration::from_millis(timeout_ms.max(0) as u64)
            })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zebu_proto::Xid;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn request(conn: u64, xid: i32, op: OpCode) -> Input {
        Input::Request(Request {
            conn: ConnId(conn),
            session: SessionId(conn as i64),
            xid: Xid(xid),
            op,
            body: Bytes::new(),
            ids: [].into(),
            received: ms(0),
            bytes: 8,
        })
    }

    fn end(conn: u64) -> Input {
        Input::Disconnected { conn: ConnId(conn), session: SessionId(conn as i64) }
    }

    /// An intake with room for two, and the story of what becomes of everything in it, as text.
    fn story(options: IntakeOptions, inputs: Vec<Input>, now: Duration) -> Vec<String> {
        let mut intake = Intake::new(IntakeOptions { requests_max: Some(2), ..options });
        inputs.into_iter().for_each(|input| intake.push(input, ms(0)));
        let mut story = Vec::new();
        let mut in_process = 2;
        loop {
            match intake.next(now, in_process, |_| Some(4000)) {
                Turn::Take(Input::Request(request), stale) => {
                    in_process += 1;
                    let stale = if stale { " stale" } else { "" };
                    story.push(format!("take {}{stale}", request.xid.0));
                }
                Turn::Take(..) => story.push("end".to_owned()),
                Turn::Drop(origin) => story.push(format!("drop {}", origin.xid.0)),
                Turn::DropToo(origin) => story.push(format!("drop too {}", origin.xid.0)),
                Turn::Forget => story.push("forget".to_owned()),
                Turn::Wait(looked) => {
                    story.push(format!("wait{}", if looked { " looked" } else { "" }));
                    in_process -= 1;
                }
                Turn::Idle => return story,
            }
        }
    }

    #[test]
    fn only_so_many_are_in_progress_and_the_rest_keep_their_order() {
        let inputs = (1..=3).map(|xid| request(1, xid, OpCode::SET_DATA)).collect();
        assert_eq!(
            story(IntakeOptions::default(), inputs, ms(10)),
            ["wait looked", "take 1", "wait looked", "take 2", "wait looked", "take 3"]
        );
    }

    #[test]
    fn it_looks_again_after_the_stall_time() {
        let mut intake =
            Intake::new(IntakeOptions { requests_max: Some(1), ..IntakeOptions::default() });
        assert_eq!(intake.next_look(), None);
        intake.push(request(1, 1, OpCode::SET_DATA), ms(5));
        let mut look = |at| matches!(intake.next(ms(at), 1, |_| None), Turn::Wait(true));
        assert_eq!(
            [look(5), look(6), look(104), look(105), look(106)],
            [true, false, false, true, false]
        );
        assert_eq!(intake.next_look(), Some(ms(205)));
    }

    #[test]
    fn what_a_connection_that_is_gone_sent_is_dropped_but_for_the_end_of_its_session() {
        let inputs = || {
            vec![
                request(1, 1, OpCode::SET_DATA),
                request(1, 2, OpCode::CLOSE_SESSION),
                request(2, 3, OpCode::SET_DATA),
                request(2, 4, OpCode::CLOSE_SESSION),
                end(2),
            ]
        };
        // 2 is gone: its first request is dropped, and with it all that follows.
        assert_eq!(
            story(IntakeOptions::default(), inputs(), ms(1)),
            ["wait looked", "take 1", "wait looked", "take 2", "drop 3", "drop too 4", "end"]
        );
        let keep = IntakeOptions { drop_stale: false, ..IntakeOptions::default() };
        let kept = story(keep, inputs(), ms(1)).join(", ");
        assert!(kept.ends_with("take 3 stale, wait looked, take 4, end"), "{kept}");
        let blind = IntakeOptions { stale_by_connection: false, ..IntakeOptions::default() };
        assert!(!story(blind, inputs(), ms(1)).join(", ").contains("stale"));
    }

    #[test]
    fn the_end_of_a_session_is_taken_from_who_is_gone() {
        let inputs = vec![request(1, 1, OpCode::CLOSE_SESSION), end(1)];
        let story = story(IntakeOptions::default(), inputs, ms(1));
        assert_eq!(story, ["wait looked", "take 1", "end"]);
    }

    #[test]
    fn a_request_older_than_its_sessions_timeout_may_be_stale() {
        let options = IntakeOptions { stale_by_latency: true, ..IntakeOptions::default() };
        let inputs = || vec![request(1, 1, OpCode::SET_DATA)];
        assert_eq!(story(options.clone(), inputs(), ms(4000)), ["wait looked", "take 1"]);
        assert_eq!(story(options, inputs(), ms(4001)), ["drop 1"]);
        assert_eq!(story(IntakeOptions::default(), inputs(), ms(4001)), ["wait looked", "take 1"]);
    }
}
