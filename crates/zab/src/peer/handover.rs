//! How a member gives up its role on request: for good when the server stops, or to let another
//! server lead.

use std::time::Duration;

use bytes::Bytes;
use zebu_proto::{ServerId, Zxid};

use super::{Part, Peer};
use crate::faults;
use crate::history::Txn;
use crate::io::Output;
use crate::leader::NoHeir;
use crate::leave::Leave;

impl Peer {
    /// Whether this server may stop without harm: all its proposals as a leader are committed, and
    /// the voters that may elect the next leader have them.
    pub fn may_retire(&self) -> bool {
        match &self.part {
            Part::Leading(leader, _) => leader.may_retire(self.options.me, &self.quorums),
            _ => true,
        }
    }

    /// Ends the role for good because the server stops. From now on it neither votes nor answers
    /// votes.
    ///
    /// The others decide the next election as soon as they know that this server is unreachable. So
    /// its connections and its election port are closed at once.
    pub fn retire(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.retired = true;
        if !faults::retired_server_is_there() {
            out.push(Output::Retire);
            let mut done = Vec::new();
            self.mesh.restart(&mut done);
            out.extend(done.into_iter().map(Output::Mesh));
        }
        self.leave(now, Leave::Retired, out);
        self.election.wait();
    }

    /// The server that leads next if this leader hands over: `to`, or the best follower.
    ///
    /// # Errors
    /// Why this server cannot hand over to it.
    pub fn heir(&self, to: Option<ServerId>) -> Result<ServerId, NoHeir> {
        match &self.part {
            Part::Leading(leader, _) => leader.heir(self.options.me, &self.quorums, to),
            _ => Err(NoHeir::NotLeading),
        }
    }

    /// Whether everything that this leader has proposed is committed, and this follower has it.
    pub fn may_hand_over(&self, heir: ServerId) -> bool {
        match &self.part {
            Part::Leading(leader, _) => leader.epoch().is_some() && leader.may_hand_over(heir),
            _ => false,
        }
    }

    /// Proposes a transaction, whose zxid is [`Peer::next_zxid`], to one follower alone, and ends
    /// the role once that follower has logged it. This server then votes for that follower.
    ///
    /// From now on this leader proposes and commits nothing more. If the follower does not answer,
    /// the caller ends the role with [`Peer::resign`].
    ///
    /// # Panics
    /// If this server does not lead.
    pub fn hand_over(
        &mut self,
        now: Duration,
        heir: ServerId,
        record: Bytes,
        out: &mut Vec<Output>,
    ) -> Zxid {
        let zxid = self.next_zxid().expect("a leader with zxids left hands over");
        let (part, mut ctx) = self.split(now, out);
        let Part::Leading(leader, tenure) = part else {
            unreachable!("only a leader has a next zxid")
        };
        leader.hand_over(&mut ctx, heir, Txn { zxid, record });
        tenure.disk_progress.look(now, ctx.history, true);
        zxid
    }
}
