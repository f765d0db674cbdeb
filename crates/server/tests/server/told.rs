//! Collects the log of the servers in this process, for tests that check a reason.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What was logged since the first call of [`listen`], by all tests.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Collects from now on.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

/// Whether a logged line contains all these parts.
pub fn was_told(parts: &[&str]) -> bool {
    let told = TOLD.lock().unwrap();
    told.iter().any(|line| parts.iter().all(|part| line.contains(part)))
}

/// All lines that contain this part.
pub fn with(part: &str) -> Vec<String> {
    let told = TOLD.lock().unwrap();
    told.iter().filter(|line| line.contains(part)).cloned().collect()
}

struct Listener;

impl Subscriber for Listener {
    /// A warning with a rate limit is at most once in the rest of the log.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO || metadata.target().contains("::peers")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        TOLD.lock().unwrap().push(message.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}
