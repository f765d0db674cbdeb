//! The signed-in users. Each has a session inside the server, which stays open for some time after
//! the last request.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zebu_proto::OpCode;

use crate::inside::{InsideSession, Lost, Reply};

/// The most signed-in users.
pub(super) const SIGNED_IN_MAX: usize = 64;

/// The time limit for a request. An ensemble without a leader does not answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// A signed-in user.
pub(super) struct Person {
    session: tokio::sync::Mutex<Box<dyn InsideSession>>,
    /// The time of the user's last request.
    seen: Mutex<Instant>,
    /// Whether the session has ended.
    is_lost: AtomicBool,
}

/// All signed-in users, by token.
pub(super) struct Signed {
    people: Mutex<HashMap<String, Arc<Person>>>,
    idle: Duration,
}

impl Signed {
    pub(super) fn new(idle: Duration) -> Self {
        Self { people: Mutex::default(), idle }
    }

    fn people(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Person>>> {
        self.people.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another user may sign in.
    pub(super) fn has_room(&self) -> bool {
        self.people().len() < SIGNED_IN_MAX
    }

    /// Signs a user in. Returns the token, or `None` if there are too many users or the system has
    /// no random bytes.
    pub(super) fn enter(self: &Arc<Self>, session: Box<dyn InsideSession>) -> Option<String> {
        let mut token = String::new();
        for byte in zebu_auth::random::bytes::<32>()? {
            let _ = write!(token, "{byte:02x}");
        }
        let interval = (session.timeout() / 3).max(Duration::from_millis(100));
        let person = Arc::new(Person {
            session: tokio::sync::Mutex::new(session),
            seen: Mutex::new(Instant::now()),
            is_lost: AtomicBool::new(false),
        });
        {
            let mut people = self.people();
            if people.len() >= SIGNED_IN_MAX {
                return None;
            }
            people.insert(token.clone(), person.clone());
        }
        tokio::spawn(keep(Arc::downgrade(self), token.clone(), Arc::downgrade(&person), interval));
        Some(token)
    }

    /// The user with this token.
    pub(super) fn by_token(&self, token: &str) -> Option<Arc<Person>> {
        let mut people = self.people();
        let person = people.get(token).cloned()?;
        if person.is_lost.load(Ordering::Relaxed) {
            people.remove(token);
            return None;
        }
        *person.seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Some(person)
    }

    /// Removes and returns a user. The session ends when its last request is finished.
    pub(super) fn leave(&self, token: &str) -> Option<Arc<Person>> {
        self.people().remove(token)
    }
}

/// Keeps a session alive, and closes it after its user was inactive for too long.
async fn keep(signed: Weak<Signed>, token: String, person: Weak<Person>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let (Some(signed), Some(person)) = (signed.upgrade(), person.upgrade()) else { return };
        let seen = *person.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.elapsed() >= signed.idle {
            signed.leave(&token);
            person.close().await;
            return;
        }
        if person.call(OpCode::PING, Vec::new()).await.is_err() {
            signed.leave(&token);
            return;
        }
    }
}

impl Person {
    /// Sends a request through the user's session.
    pub(super) async fn call(&self, op: OpCode, body: Vec<u8>) -> Result<Reply, Lost> {
        let call = async { self.session.lock().await.call(op, body).await };
        let answer = timeout(REQUEST_TIME_MAX, call).await;
        let answer = answer.unwrap_or(Err(Lost("no answer in time")));
        if answer.is_err() {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Reads from the user's session.
    pub(super) async fn look<T>(&self, look: impl FnOnce(&dyn InsideSession) -> T) -> T {
        look(self.session.lock().await.as_ref())
    }

    /// Closes the user's session, so that it need not expire.
    pub(super) async fn close(&self) {
        let _ = self.call(OpCode::CLOSE_SESSION, Vec::new()).await;
    }
}
