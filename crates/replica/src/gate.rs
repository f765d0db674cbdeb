//! Decides which requests are answered at once. This rule keeps the answers of a session in order.
//!
//! A connection may answer a read itself only when none of its requests is in flight through the
//! replica. All other requests are queued in the replica. Answers leave the replica in the order of
//! the requests, and are put into the outbox before they count as answered. So no answer overtakes
//! another (ORD-04, WAT-14).

use zebu_proto::OpCode;

use crate::faults;
use crate::replica::is_ordered;

/// How a request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Answered by its connection from the current tree.
    Now,
    /// Queued in the replica, after earlier requests of the connection.
    Queue,
}

/// Whether a request is answered from the tree, here or in the replica.
pub fn is_read(op: OpCode) -> bool {
    !is_ordered(op)
}

/// Routes a request of a connection with `in_flight` earlier requests in flight.
pub fn route(op: OpCode, in_flight: usize) -> Route {
    let in_flight = if faults::read_overtakes() { 0 } else { in_flight };
    if in_flight > 0 || is_ordered(op) || op == OpCode::SYNC { Route::Queue } else { Route::Now }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wait_for_what_the_connection_sent_before() {
        assert_eq!(route(OpCode::GET_DATA, 0), Route::Now);
        assert_eq!(route(OpCode::GET_DATA, 1), Route::Queue);
        assert_eq!(route(OpCode::PING, 1), Route::Queue);
        assert_eq!(route(OpCode::SET_DATA, 0), Route::Queue);
        assert_eq!(route(OpCode::SYNC, 0), Route::Queue);
    }

    #[test]
    fn what_only_the_server_may_ask_for_is_answered_like_an_unknown_request() {
        for op in [OpCode::CHECK, OpCode::CREATE_SESSION, OpCode::DELETE_CONTAINER, OpCode(99)] {
            assert_eq!(route(op, 0), Route::Now, "{op}");
        }
    }
}
