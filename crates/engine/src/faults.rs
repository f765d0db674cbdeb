//! Deliberate faults, one function each, to prove that the simulator finds them. Without the
//! feature `mutants` of `zebu-proto`, each function returns a constant.

use std::sync::Arc;

use zebu_proto::{EventType, Zxid};
use zebu_replica::frame;

use crate::conn::{Conn, Side};

/// A turn reports records as durable that are only queued.
pub(crate) fn tells_before_the_sync() -> bool {
    zebu_proto::mutant!("told before the sync")
}

/// A turn that synced the log does not report it.
pub(crate) fn forgets_its_sync() -> bool {
    zebu_proto::mutant!("sync of a turn not told")
}

/// The next wake-up of a connection's task is lost.
pub(crate) fn loses_wake_ups() -> bool {
    zebu_proto::mutant!("lost wake-up")
}

/// A batch does not count the requests it hands in.
pub(crate) fn forgets_what_it_hands_in() -> bool {
    zebu_proto::mutant!("answer overtaken in a run")
}

/// A batch never gives way to others.
pub(crate) fn forgets_the_time() -> bool {
    zebu_proto::mutant!("run without end")
}

/// An auth packet counts only from the next batch on.
pub(crate) fn authenticates_late() -> bool {
    zebu_proto::mutant!("AUTH after the next request")
}

/// Unauthenticated clients may read.
pub(crate) fn lets_all_read() -> bool {
    zebu_proto::mutant!("all may read")
}

/// A frame may have any length.
pub(crate) fn takes_any_length() -> bool {
    zebu_proto::mutant!("frames of any length")
}

/// Answered requests stay counted as in flight.
pub(crate) fn never_leaves() -> bool {
    zebu_proto::mutant!("answered and in progress")
}

/// A network worker forgets the requests it kept.
pub(crate) fn forgets_what_it_keeps() -> bool {
    zebu_proto::mutant!("kept and forgotten")
}

/// A thread that has run enough turns wakes nobody for the inputs that are left.
pub(crate) fn leaves_the_rest_to_nobody() -> bool {
    zebu_proto::mutant!("rest left to nobody")
}

/// A connection continues after its last answer.
pub(crate) fn goes_on_behind_the_end() -> bool {
    zebu_proto::mutant!("end of a connection ignored")
}

/// Sessions that were heard of are not reported.
pub(crate) fn forgets_touches() -> bool {
    zebu_proto::mutant!("touches not reported")
}

/// Timeouts are not extended when this server did not read.
pub(crate) fn gives_no_time() -> bool {
    zebu_proto::mutant!("lost time not given")
}

/// The rest of a batch is lost when others get their turn.
pub(crate) fn forgets_half_a_batch() -> bool {
    zebu_proto::mutant!("half a batch forgotten")
}

/// The replica is not told which transactions were applied.
pub(crate) fn applies_in_secret() -> bool {
    zebu_proto::mutant!("applied in secret")
}

/// The configuration of a first epoch is not shown to clients.
pub(crate) fn hides_the_configuration() -> bool {
    zebu_proto::mutant!("configuration not shown")
}

/// Inputs do not wake the thread that waits for them.
pub(crate) fn lets_the_inbox_sleep() -> bool {
    zebu_proto::mutant!("inbox sleeps on")
}

/// Notifications held back until the answers are made.
#[derive(Debug)]
pub(crate) struct Late<S>(Vec<(Arc<Conn<S>>, Vec<u8>)>);

impl<S> Default for Late<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Side> Late<S> {
    /// Whether it holds this notification back.
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

    /// Delivers the notifications held back.
    pub(crate) fn release(&mut self) {
        for (conn, bytes) in self.0.drain(..) {
            conn.outbox.lock().put(|out| out.extend_from_slice(&bytes));
            conn.wake();
        }
    }
}

/// A frame may have a twelfth of the permitted length only.
pub(crate) fn short_frames_refused() -> bool {
    zebu_proto::mutant!("short frames refused")
}
