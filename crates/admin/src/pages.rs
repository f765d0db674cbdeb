//! Answers whose length grows with the state. The server builds them a page at a time, and the next
//! page when the client has read the last one. So a slow reader holds neither memory nor the lock
//! of the tree.

use std::fmt;
use std::sync::Arc;

use crate::four_letter::{Cursor, Mode};
use crate::json::{Json, new_line, write_key};
use crate::served::Served;

/// The kind of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Sessions by the time they expire, and ephemerals by session.
    Dump,
    /// Watched paths by session.
    Watches,
    /// Sessions by watched path.
    WatchesByPath,
}

/// An answer in pages.
pub struct Pages {
    served: Arc<dyn Served>,
    kind: Kind,
    command: &'static str,
    stage: Stage,
    /// The key of the unfinished list.
    heading: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Start,
    Page(Cursor),
    Done,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, stage, .. } = self;
        f.debug_struct("Pages").field("kind", kind).field("stage", stage).finish_non_exhaustive()
    }
}

impl Pages {
    /// Begins an answer.
    pub fn new(served: Arc<dyn Served>, kind: Kind, command: &'static str) -> Self {
        Self { served, kind, command, stage: Stage::Start, heading: None }
    }

    /// The next piece; `None` if the answer is complete. A piece may be empty.
    pub fn next_page(&mut self) -> Option<String> {
        let mut out = String::new();
        match self.stage {
            Stage::Done => return None,
            Stage::Start => {
                self.start(&mut out);
                self.stage = Stage::Page(0);
            }
            Stage::Page(from) => match self.page(from, &mut out) {
                Some(next) => self.stage = Stage::Page(next),
                None => {
                    self.end(&mut out);
                    self.stage = Stage::Done;
                }
            },
        }
        Some(out)
    }

    fn start(&self, out: &mut String) {
        out.push('{');
        let key = match self.kind {
            Kind::Dump => {
                write_key("expiry_time_to_session_ids", 1, out);
                self.expiry().write(1, out);
                out.push(',');
                "session_id_to_ephemeral_paths"
            }
            Kind::Watches => "session_id_to_watched_paths",
            Kind::WatchesByPath => "path_to_session_ids",
        };
        write_key(key, 1, out);
        out.push('{');
    }

    /// Sessions by their time of expiry, in ms since 1970. A learner knows the time only for its
    /// local sessions.
    ///
    /// Source: `LearnerSessionTracker.getSessionExpiryMap`.
    fn expiry(&self) -> Json {
        let mut buckets = self.served.session_buckets(true);
        if matches!(self.served.serving(), Some(Mode::Standalone | Mode::Leader)) {
            buckets.extend(self.served.session_buckets(false));
        }
        buckets.sort_by_key(|bucket| bucket.expires_ms);
        let shown = buckets.into_iter().map(|bucket| {
            let sessions = Json::list(bucket.members.into_iter().map(|session| session.0));
            (bucket.expires_ms.to_string(), sessions)
        });
        Json::Object(shown.collect())
    }

    fn page(&mut self, from: Cursor, out: &mut String) -> Option<Cursor> {
        let served = self.served.clone();
        let mut watchers = Vec::new();
        match self.kind {
            Kind::Dump => {
                let mut page = Vec::new();
                let next = served.ephemerals(from, &mut page);
                for (session, path) in page {
                    self.entry(&session.0.to_string(), path.into(), out);
                }
                next
            }
            Kind::Watches => {
                let next = served.watches_by_session(from, &mut watchers);
                for watcher in watchers {
                    self.entry(&watcher.session.0.to_string(), watcher.path.into(), out);
                }
                next
            }
            Kind::WatchesByPath => {
                let next = served.watches_by_path(from, &mut watchers);
                for watcher in watchers {
                    self.entry(&watcher.path, watcher.session.0.into(), out);
                }
                next
            }
        }
    }

    fn entry(&mut self, key: &str, value: Json, out: &mut String) {
        if self.heading.as_deref() == Some(key) {
            out.push_str(", ");
        } else {
            out.push_str(if self.heading.is_some() { " ]," } else { "" });
            write_key(key, 2, out);
            out.push_str("[ ");
            self.heading = Some(key.to_owned());
        }
        value.write(2, out);
    }

    fn end(&self, out: &mut String) {
        if self.heading.is_some() {
            out.push_str(" ]");
            new_line(1, out);
            out.push('}');
        } else {
            out.push_str(" }");
        }
        out.push(',');
        write_key("command", 1, out);
        Json::from(self.command).write(1, out);
        out.push(',');
        write_key("error", 1, out);
        out.push_str("null");
        new_line(0, out);
        out.push('}');
    }
}
