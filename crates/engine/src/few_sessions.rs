//! Whether few sessions send requests, so that each thread of a member may take the replica's turn.
//!
//! A thread that takes the turn for what it has just received spares a lone client two changes of
//! thread for each hop. With more clients it takes many turns for a few requests each, with a write
//! to each socket and a sync of their own: while the replica's thread wakes up instead, more
//! requests arrive, and one turn carries them.

use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_replica::Input;

/// Up to this many sessions are few.
const FEW: usize = 2;
/// Sessions count as few after this many turns without another session.
const FEW_AFTER: u32 = 64;

/// The sessions whose requests or transactions recent turns had.
#[derive(Debug, Default)]
pub struct FewSessions {
    /// The last ones, the newest first.
    last: [Option<i64>; FEW],
    /// For this many more turns, they are not few.
    many_for: u32,
}

impl FewSessions {
    /// Begins a turn with these inputs. Returns whether few sessions cause them.
    pub fn begin(&mut self, inputs: &[Input]) -> bool {
        let another = inputs.iter().filter_map(session).any(|session| self.is_another(session));
        self.many_for = if another { FEW_AFTER } else { self.many_for.saturating_sub(1) };
        assert!(self.many_for <= FEW_AFTER, "{self:?}");
        self.many_for == 0
    }

    /// Notes a session. Returns whether it is one more than few.
    fn is_another(&mut self, session: i64) -> bool {
        let at = self.last.iter().position(|other| *other == Some(session));
        let is_another = at.is_none() && self.last.iter().all(Option::is_some);
        self.last[..=at.unwrap_or(FEW - 1)].rotate_right(1);
        self.last[0] = Some(session);
        is_another
    }
}

/// The session of a request, or of a transaction that a learner receives.
fn session(input: &Input) -> Option<i64> {
    match input {
        Input::Request(request) => Some(request.session.0),
        Input::Zab(zebu_zab::Input::Packet(_, QuorumPacket { kind, data: Some(data), .. }))
            if matches!(*kind, PacketKind::REQUEST | PacketKind::PROPOSAL | PacketKind::INFORM) =>
        {
            // All of them begin with it.
            data.first_chunk().map(|bytes| i64::from_be_bytes(*bytes))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::Zxid;
    use zebu_zab::LinkId;

    use super::*;

    fn of(kind: PacketKind, session: i64) -> Input {
        let data = [&session.to_be_bytes()[..], b"the rest"].concat();
        let packet = QuorumPacket::with_data(kind, Zxid(7), data);
        Input::Zab(zebu_zab::Input::Packet(LinkId(1), packet))
    }

    fn turn(few: &mut FewSessions, sessions: &[i64]) -> bool {
        let inputs: Vec<_> = sessions.iter().map(|it| of(PacketKind::PROPOSAL, *it)).collect();
        few.begin(&inputs)
    }

    #[test]
    fn two_are_few_and_three_are_many_for_a_while() {
        let mut few = FewSessions::default();
        for _ in 0..10 {
            assert!(turn(&mut few, &[1]) && turn(&mut few, &[2, 1, 2]) && turn(&mut few, &[]));
        }
        assert!(!turn(&mut few, &[1, 2, 3]));
        // The third one has gone.
        let turns = (1..).take_while(|_| !turn(&mut few, &[1])).count();
        assert_eq!(turns, FEW_AFTER as usize);
        assert!(turn(&mut few, &[3, 1]), "one of the last two comes back");
        for number in 0..1000 {
            assert!(!turn(&mut few, &[number % 3]), "turn {number}");
        }
    }

    #[test]
    fn requests_and_transactions_have_a_session() {
        for kind in [PacketKind::REQUEST, PacketKind::PROPOSAL, PacketKind::INFORM] {
            assert_eq!(session(&of(kind, -9)), Some(-9));
        }
        assert_eq!(session(&of(PacketKind::SYNC, 9)), None);
        assert_eq!(session(&Input::Tick), None);
        let short = QuorumPacket::with_data(PacketKind::REQUEST, Zxid(7), vec![1, 2, 3]);
        assert_eq!(session(&Input::Zab(zebu_zab::Input::Packet(LinkId(1), short))), None);
    }
}
