//! Which requests may be answered at once: the rule that keeps a session's answers in order.
//!
//! A read may be answered by its connection, without passing through the replica, only when nothing
//! of that connection is on its way through the replica; everything else is queued there. Answers
//! leave the replica in the order of the requests, and are put into the connection's output before
//! they count as answered, so nothing overtakes (ORD-04, WAT-14).

use zebu_proto::OpCode;

use crate::replica::is_ordered;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Answered where it is, from the tree as it is.
    Now,
    /// Through the replica, behind what the connection sent before.
    Queue,
}

/// Whether a request is answered from the tree as it is, wherever that happens.
pub fn is_read(op: OpCode) -> bool {
    !is_ordered(op)
}

/// Routes a request of a connection of which `in_flight` requests are on their way.
pub fn route(op: OpCode, in_flight: usize) -> Route {
    let in_flight = if zebu_proto::mutant!("read overtakes") { 0 } else { in_flight };
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
