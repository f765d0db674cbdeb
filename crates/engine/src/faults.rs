//! Faults that are put in on purpose, to see whether the simulator finds them: one function each. Without the feature
//! `mutants` of `zebu-proto` each of them is a constant.

use std::sync::Arc;

use zebu_proto::{EventType, Zxid};
use zebu_replica::frame;

use crate::conn::{Conn, Side};

/// A turn reports records as durable that it only orders.
pub(crate) fn tells_before_the_sync() -> bool {
    zebu_proto::mutant!("told before the sync")
}

/// A turn that has made records durable does not say so.
pub(crate) fn forgets_its_sync() -> bool {
    zebu_proto::mutant!("sync of a turn not told")
}

/// The next wake-up of a connection's task is lost.
pub(crate) fn loses_wake_ups() -> bool {
    zebu_proto::mutant!("lost wake-up")
}

/// A run of requests does not count those that it hands in itself.
pub(crate) fn forgets_what_it_hands_in() -> bool {
    zebu_proto::mutant!("answer overtaken in a run")
}

/// A run of requests goes on however long it takes.
pub(crate) fn forgets_the_time() -> bool {
    zebu_proto::mutant!("run without end")
}

/// AUTH counts from the next run of requests on.
pub(crate) fn authenticates_late() -> bool {
    zebu_proto::mutant!("AUTH after the next request")
}

/// Whoever is not authenticated may read.
pub(crate) fn lets_all_read() -> bool {
    zebu_proto::mutant!("all may read")
}

/// A frame may have any length.
pub(crate) fn takes_any_length() -> bool {
    zebu_proto::mutant!("frames of any length")
}

/// What is answered is in progress for ever.
pub(crate) fn never_leaves() -> bool {
    zebu_proto::mutant!("answered and in progress")
}

/// A network worker forgets what it has kept.
pub(crate) fn forgets_what_it_keeps() -> bool {
    zebu_proto::mutant!("kept and forgotten")
}

/// A connection goes on behind its last answer.
pub(crate) fn goes_on_behind_the_end() -> bool {
    zebu_proto::mutant!("end of a connection ignored")
}

/// Sessions whose connections were heard of are not reported.
pub(crate) fn forgets_touches() -> bool {
    zebu_proto::mutant!("touches not reported")
}

/// The time in which nobody listened is not given.
pub(crate) fn gives_no_time() -> bool {
    zebu_proto::mutant!("lost time not given")
}

/// What is left of a batch is forgotten where others have their turn.
pub(crate) fn forgets_half_a_batch() -> bool {
    zebu_proto::mutant!("half a batch forgotten")
}

/// The replica is not told what was applied.
pub(crate) fn applies_in_secret() -> bool {
    zebu_proto::mutant!("applied in secret")
}

/// The configuration of a first epoch is not shown.
pub(crate) fn hides_the_configuration() -> bool {
    zebu_proto::mutant!("configuration not shown")
}

/// Whoever waits for inputs is not woken by them.
pub(crate) fn lets_the_inbox_sleep() -> bool {
    zebu_proto::mutant!("inbox sleeps on")
}

/// Notifications that are held back until the answers are made.
#[derive(Debug)]
pub(crate) struct Late<S>(Vec<(Arc<Conn<S>>, Vec<u8>)>);

impl<S> Default for Late<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Side> Late<S> {
    /// Whether it holds this one back.
    pub(crate) fn holds(
        &mut self,
        conn: &Arc<Conn<S>>,
        event: EventType,
        path: &str,
        zxid: Zxid,
    ) -> bool {
        if !zebu_proto::mutant!("notification after the answer") {
            return false;
        }
        let mut bytes = Vec::new();
        frame::notification(&mut bytes, event, path, zxid);
        self.0.push((conn.clone(), bytes));
        true
    }

    /// Lets all of them go.
    pub(crate) fn release(&mut self) {
        for (conn, bytes) in self.0.drain(..) {
            conn.outbox.lock().put(|out| out.extend_from_slice(&bytes));
            conn.wake();
        }
    }
}
