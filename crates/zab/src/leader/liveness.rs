//! Who still follows a leader: pings, silence, and proof that it leads.

use std::collections::BTreeSet;
use std::time::Duration;

use zebu_proto::ServerId;

use super::{Confirmation, Leader, Link, Phase};
use crate::io::{Output, Up};
use crate::peer::{Ctx, Leave};

impl Leader {
    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        let now = ctx.now;
        if self.phase != Phase::Leading && self.give_up_at <= now {
            return Err(Leave("no quorum has come in time"));
        }
        self.links.close_silent(ctx);
        if self.alone_from <= now {
            self.waits_to_go_alone = false;
        }
        self.go_on_alone(ctx)?;
        self.retire(ctx)?;
        if self.check_at <= now {
            self.check_at = now + ctx.options.tick;
            let mut alive: BTreeSet<ServerId> = self
                .links
                .values()
                .filter(|link| !link.observer && link.own.alive_until >= now)
                .map(|link| link.server)
                .collect();
            alive.insert(ctx.options.me);
            if !ctx.quorums.all_have_quorum(&alive) && !self.goes_alone(ctx) {
                return Err(Leave("a quorum of followers is out of reach"));
            }
            if self.waits_in_vain(ctx) {
                return Err(Leave("a quorum of the configuration before is gone"));
            }
        }
        if self.links.ping_is_due(ctx) {
            let limit = ctx.options.sync_time();
            let is_late =
                |link: &Link| link.own.unacked.is_some_and(|(_, since)| since + limit <= now);
            for link in self.links.which(is_late) {
                self.links.close(ctx, link);
            }
            self.ping(ctx);
        }
        Ok(())
    }

    /// This server stood still: its learners' words of that time are still to be heard.
    pub(crate) fn postpone(&mut self, time: Duration) {
        self.give_up_at += time;
        self.links.postpone(time);
        for (_, link) in self.links.iter_mut() {
            link.own.alive_until += time;
            if let Some((_, since)) = &mut link.own.unacked {
                *since += time;
            }
        }
    }

    fn ping(&mut self, ctx: &mut Ctx<'_>) {
        for (_, link) in self.links.iter_mut().filter(|(_, link)| link.is_serving()) {
            link.own.pings_sent += 1;
        }
        self.links.ping(ctx, self.proposed);
    }

    /// Reports [`Up::Confirmed`] once everything proposed so far is committed and it is certain that
    /// this server has led until after this call.
    pub(crate) fn confirm(&mut self, ctx: &mut Ctx<'_>, token: u64) {
        let pings = self.links.iter().map(|(id, link)| (id, link.own.pings_sent)).collect();
        if zebu_proto::mutant!("sync without proof") {
            ctx.out.push(Output::Up(Up::Confirmed(token)));
            return;
        }
        let confirmation = Confirmation { token, above: self.proposed, pings };
        self.confirmations.push_back(confirmation);
        self.ping(ctx);
        self.confirm_by_pings(ctx);
    }

    pub(super) fn confirm_by_pings(&mut self, ctx: &mut Ctx<'_>) {
        if self.confirmations.is_empty() {
            return;
        }
        let links = &self.links;
        let me = ctx.options.me;
        let quorums = ctx.quorums.clone();
        let alone = self.goes_alone(ctx);
        let end = self.end;
        let shown = |confirmation: &Confirmation| {
            if confirmation.above.counter() > 0 && confirmation.above > end {
                return false;
            }
            // Whoever was not there yet has answered later pings only.
            let sent = |id| confirmation.pings.get(&id).copied().unwrap_or(0);
            let mut servers: BTreeSet<ServerId> = links
                .iter()
                .filter(|(id, link)| !link.observer && link.own.pings_answered > sent(*id))
                .map(|(_, link)| link.server)
                .collect();
            servers.insert(me);
            alone || quorums.all_have_quorum(&servers)
        };
        let count = self.confirmations.iter().take_while(|c| shown(c)).count();
        for confirmation in self.confirmations.drain(..count) {
            ctx.out.push(Output::Up(Up::Confirmed(confirmation.token)));
        }
    }
}
