//! Read-only service: answers from the tree as it is, for clients that ask for no more, while this
//! server looks for a leader.
//!
//! Nothing here takes a zxid (ZOOKEEPER-3526). Source: `ReadOnlyZooKeeperServer`,
//! `ReadOnlyRequestProcessor`; `client-protocol.md` §15.

use std::time::Duration;

use zebu_proto::SessionId;
use zebu_tree::Tree;

use crate::io::Output;
use crate::member::Serving;
use crate::replica::{Order, Replica};

impl Replica {
    /// Whether only clients are served that only read.
    pub(crate) fn only_reads(&self) -> bool {
        match &self.order {
            Order::Alone { .. } => false,
            Order::Ensemble(ensemble) => ensemble.serving == Serving::Readers,
        }
    }

    /// Begins to serve readers when nobody has led for long enough, and ends when somebody is elected.
    pub(crate) fn serve_reads(&mut self, now: Duration, out: &mut Vec<Output>) {
        let Some(patience) = self.options.member.read_only_after else { return };
        let Order::Ensemble(ensemble) = &mut self.order else { return };
        if !ensemble.peer.looks_with_history() {
            ensemble.looking_since = None;
            return self.dismiss_readers(out);
        }
        let since = *ensemble.looking_since.get_or_insert(now);
        if ensemble.serving == Serving::Nobody && now >= since + patience {
            ensemble.serving = Serving::Readers;
            out.push(Output::ReadOnly(true));
        }
    }

    /// When readers are to be served from, unless somebody leads by then.
    pub(crate) fn reads_from(&self) -> Option<Duration> {
        match &self.order {
            Order::Ensemble(ensemble) if ensemble.serving == Serving::Nobody => {
                Some(ensemble.looking_since? + self.options.member.read_only_after?)
            }
            _ => None,
        }
    }

    /// Sends readers away, if they are served.
    pub(crate) fn dismiss_readers(&mut self, out: &mut Vec<Output>) {
        if self.only_reads() {
            self.serve_nobody(out);
            out.push(Output::ReadOnly(false));
        }
    }

    /// Whether a session that is not served here may go on elsewhere: only a quorum can say that one
    /// of the ensemble is over, and only its own server knows a local one.
    pub(crate) fn may_live_elsewhere(&self, tree: &Tree, session: SessionId) -> bool {
        tree.session_timeout(session).is_some() || session.0 >> 56 != self.options.server.0
    }
}
