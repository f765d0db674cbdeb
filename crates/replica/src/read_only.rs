//! Read-only service: answers reads from the current tree while this server looks for a leader, for
//! clients that accept that.
//!
//! It takes no zxids (ZOOKEEPER-3526). Source: `ReadOnlyZooKeeperServer`,
//! `ReadOnlyRequestProcessor`; `client-protocol.md` §15.

use std::time::Duration;

use zebu_proto::SessionId;
use zebu_tree::Tree;

use crate::io::Output;
use crate::member::Serving;
use crate::replica::{Order, Replica};

impl Replica {
    /// Whether only read-only clients are served.
    pub(crate) fn only_reads(&self) -> bool {
        match &self.order {
            Order::Alone { .. } => false,
            Order::Ensemble(ensemble) => ensemble.serving == Serving::Readers,
        }
    }

    /// Starts to serve read-only clients after long enough without a leader, and stops when a
    /// leader is elected.
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

    /// When read-only service starts, unless a leader is elected before.
    pub(crate) fn reads_from(&self) -> Option<Duration> {
        match &self.order {
            Order::Ensemble(ensemble) if ensemble.serving == Serving::Nobody => {
                Some(ensemble.looking_since? + self.options.member.read_only_after?)
            }
            _ => None,
        }
    }

    /// Disconnects read-only clients, if they are served.
    pub(crate) fn dismiss_readers(&mut self, out: &mut Vec<Output>) {
        if self.only_reads() {
            self.serve_nobody(out);
            out.push(Output::ReadOnly(false));
        }
    }

    /// Whether a session unknown here may still be live elsewhere. Only a quorum knows that a
    /// global session has expired, and only its own server knows a local one.
    pub(crate) fn may_live_elsewhere(&self, tree: &Tree, session: SessionId) -> bool {
        tree.session_timeout(session).is_some() || session.0 >> 56 != self.options.server.0
    }
}
