//! The order of the connections that want another turn at once: with a long answer to make or to
//! send, or many requests.
//!
//! One of them has its turn, then the network worker looks at all sockets and serves what has
//! arrived, and then the next one has its turn. So a short request waits for one such turn, however
//! many connections have long answers.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

thread_local! {
    /// Who has the turn. Waiting connections get it in the order in which they came.
    static TURN: RefCell<Arc<Semaphore>> = RefCell::new(Arc::new(Semaphore::new(1)));
}

/// A connection's place among those of its worker that want another turn.
#[derive(Debug, Default)]
pub struct LongTurns(Option<OwnedSemaphorePermit>);

impl LongTurns {
    /// Waits for another turn. Call it on the thread of the worker that serves the connection.
    pub async fn another(&mut self) {
        // Those that have waited come first.
        self.0 = None;
        let turn = TURN.with_borrow(Arc::clone);
        if let Ok(turn) = turn.acquire_owned().await {
            self.0 = Some(turn);
        }
        // Everything that has arrived is served before the runtime continues here.
        tokio::task::yield_now().await;
    }

    /// The connection waits for an event, or has ended.
    pub fn none(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream as Sender;
    use std::rc::Rc;

    use tokio::net::UnixStream;
    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    /// Turns of each connection with a long answer.
    const TURNS: usize = 5;

    #[test]
    fn what_arrives_in_a_long_turn_is_served_before_the_next_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let seen = Rc::new(RefCell::new(String::new()));
        let (sender, receiver) = Sender::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        LocalSet::new().block_on(&runtime, async {
            let receiver = UnixStream::from_std(receiver).unwrap();
            let sender = Rc::new(RefCell::new(sender));
            for name in ['a', 'b', 'c'] {
                let (seen, sender) = (seen.clone(), sender.clone());
                spawn_local(async move {
                    let mut turns = LongTurns::default();
                    for _ in 0..TURNS {
                        turns.another().await;
                        seen.borrow_mut().push(name);
                        sender.borrow_mut().write_all(b"?").unwrap();
                    }
                });
            }
            drop(sender);
            loop {
                receiver.readable().await.unwrap();
                match receiver.try_read(&mut [0; 64]) {
                    Ok(0) => break,
                    Ok(count) => seen.borrow_mut().extend(std::iter::repeat_n('?', count)),
                    Err(_) => {}
                }
            }
        });
        assert_eq!(*seen.borrow(), "a?b?c?".repeat(TURNS));
    }

    #[test]
    fn who_ends_or_waits_for_an_event_leaves_the_turn_to_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut first, mut second) = (LongTurns::default(), LongTurns::default());
            first.another().await;
            first.none();
            second.another().await;
            drop(second);
            first.another().await;
        });
    }
}
