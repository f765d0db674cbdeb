//! Promises are on disk: S-1 and S-2 (epochs), S-8 (acknowledged transactions), S-9 (the
//! acknowledgement of a leader's history).

use zebu_proto::quorum::{EpochAck, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, Zxid};
use zebu_zab::{EpochKind, Epochs};

use crate::checks::order::Order;
use crate::server::Server;

#[derive(Clone, Copy, Default)]
struct Track {
    /// The last zxid that the disk has reported as durable.
    flushed: Zxid,
    /// The last zxid that another server relies on.
    owed: Zxid,
    accepted: Epoch,
    current: Epoch,
    /// The last epoch whose promise another server relies on.
    promised: Epoch,
    adopted: Epoch,
    /// The last transaction since the synchronization began, and the last one when it ended.
    sent: Zxid,
    synced: Zxid,
    /// The epoch of the last LEADERINFO.
    told: Epoch,
    /// The end of the history after the truncation or snapshot transfer that is in progress.
    replacing: Option<Zxid>,
    wiped: bool,
    /// Whether the server has introduced itself as an observer.
    observes: bool,
}

impl Track {
    /// This track, with the later promises of both.
    fn with_promises(self, other: Self) -> Self {
        Self {
            promised: self.promised.max(other.promised),
            adopted: self.adopted.max(other.adopted),
            told: self.told.max(other.told),
            ..self
        }
    }
}

/// The promises on each server's disk on which other servers rely. The second list keeps the tracks
/// of damaged servers from before the damage.
pub(crate) struct Durability(Vec<Track>, Vec<Option<Track>>);

impl Durability {
    pub(crate) fn new(servers: usize) -> Self {
        Self(vec![Track::default(); servers], vec![None; servers])
    }

    pub(crate) fn any_wiped(&self) -> bool {
        self.0.iter().any(|track| track.wiped)
    }

    /// The last durable zxid of a server.
    pub(crate) fn flushed_by(&self, server: usize) -> Zxid {
        self.0[server].flushed
    }

    /// Whether a server has promised to follow no leader of an earlier epoch.
    pub(crate) fn has_promised(&self, server: usize, epoch: Epoch) -> bool {
        self.0[server].promised >= epoch
    }

    /// Whether a server has acknowledged the history of the leader of `epoch`.
    pub(crate) fn has_adopted(&self, server: usize, epoch: Epoch) -> bool {
        self.0[server].adopted >= epoch
    }

    /// A server leads, and has adopted its own history.
    pub(crate) fn leads(&mut self, server: usize, epoch: Epoch) -> Result<(), String> {
        let track = &mut self.0[server];
        track.adopted = track.adopted.max(track.current);
        if track.current < epoch {
            let current = track.current.0;
            return Err(format!(
                "S-2: server {server} leads epoch {}, its disk has {current}",
                epoch.0
            ));
        }
        Ok(())
    }

    pub(crate) fn wiped(&mut self, server: usize) {
        self.0[server] = Track { wiped: true, ..Track::default() };
        self.1[server] = None;
    }

    /// A server starts with damaged data. Until a leader sends it a tree, it counts as empty; a
    /// repair of its logs restores its track.
    pub(crate) fn damaged(&mut self, server: usize) {
        let now = self.0[server];
        let before = self.1[server].unwrap_or(now);
        self.wiped(server);
        self.1[server] = Some(before.with_promises(now));
    }

    /// A server starts with intact data. Returns whether the data were damaged before; then the
    /// server has again everything that it had.
    pub(crate) fn repaired(&mut self, server: usize) -> bool {
        let before = self.1[server].take();
        if let Some(before) = before {
            self.0[server] = before.with_promises(self.0[server]);
        }
        before.is_some()
    }

    /// Whether all other voters have everything that this server has, and have promised as much.
    pub(crate) fn may_roll_back(
        &self,
        server: usize,
        votes: impl Fn(usize) -> bool,
        order: &Order,
    ) -> bool {
        let it = self.0[server];
        let others =
            self.0.iter().enumerate().filter(|(other, _)| *other != server && votes(*other));
        let has_all =
            |other: &Track| order.has(other.flushed, it.flushed) && other.accepted >= it.accepted;
        !self.any_wiped() && others.map(|(_, track)| track).all(has_all)
    }

    /// Whether a server has lost its data and has not received a snapshot since.
    pub(crate) fn is_wiped(&self, server: usize) -> bool {
        self.0[server].wiped
    }

    /// A server returns with older data, and no server relies on the newer ones. If `lost`, the
    /// older data were themselves made after a loss of everything, and count as none.
    pub(crate) fn rolled_back(&mut self, server: usize, lost: bool) {
        self.0[server] = Track { wiped: lost, ..Track::default() };
        self.1[server] = None;
    }

    /// The server's log cannot be truncated, so the leader sends a snapshot.
    pub(crate) fn lost(&mut self, server: usize) {
        let track = &mut self.0[server];
        track.owed = Zxid::ZERO;
        track.flushed = Zxid::ZERO;
        track.replacing = None;
    }

    pub(crate) fn recovered(
        &mut self,
        server: usize,
        last: Zxid,
        epochs: Epochs,
        order: &Order,
    ) -> Result<(), String> {
        let track = &mut self.0[server];
        track.flushed = last;
        let owed = match track.replacing.take() {
            // A truncation or a snapshot transfer was interrupted, and may be complete or not.
            Some(zxid) if last == zxid => zxid,
            _ => track.owed,
        };
        track.owed = owed;
        let Track { promised, adopted, .. } = *track;
        track.accepted = epochs.accepted;
        track.current = epochs.current;
        if !order.has(last, owed) {
            return Err(format!(
                "S-8: server {server} comes back with {last} after it acknowledged {owed}"
            ));
        }
        if epochs.accepted < promised {
            return Err(format!(
                "S-2: server {server} has promised epoch {} and comes back with {}",
                promised.0, epochs.accepted.0
            ));
        }
        if epochs.current < adopted {
            return Err(format!(
                "S-2: server {server} has adopted epoch {} and comes back with {}",
                adopted.0, epochs.current.0
            ));
        }
        if epochs.accepted < epochs.current || epochs.accepted < last.epoch() {
            return Err(format!("S-1: server {server} comes back with {epochs:?} and {last}"));
        }
        Ok(())
    }

    pub(crate) fn flushed(&mut self, server: usize, zxid: Zxid) {
        self.0[server].flushed = zxid;
    }

    /// A quorum relies on this transaction of the server.
    pub(crate) fn counted(&mut self, server: usize, zxid: Zxid) {
        let track = &mut self.0[server];
        track.owed = track.owed.max(zxid);
    }

    /// The server begins to replace its history by one that ends with `zxid`.
    pub(crate) fn replace(&mut self, server: usize, zxid: Zxid) {
        self.0[server].replacing = Some(zxid);
    }

    pub(crate) fn cut(&mut self, server: usize, zxid: Zxid) {
        let track = &mut self.0[server];
        track.replacing = None;
        track.owed = track.owed.min(zxid);
        track.flushed = zxid;
    }

    pub(crate) fn restored(&mut self, server: usize, zxid: Zxid, silent: bool) {
        self.1[server] = None;
        let track = &mut self.0[server];
        track.owed = zxid;
        track.flushed = zxid;
        track.replacing = None;
        if !silent {
            track.wiped = false;
        }
    }

    pub(crate) fn epoch_saved(
        &mut self,
        server: usize,
        kind: EpochKind,
        epoch: Epoch,
    ) -> Result<(), String> {
        let track = &mut self.0[server];
        let before = match kind {
            EpochKind::Accepted => std::mem::replace(&mut track.accepted, epoch),
            EpochKind::Current => std::mem::replace(&mut track.current, epoch),
        };
        if epoch < before {
            return Err(format!("S-2: server {server} goes back from {before:?} to {epoch:?}"));
        }
        if track.accepted < track.current {
            return Err(format!("S-1: server {server} adopts {epoch:?} without a promise"));
        }
        Ok(())
    }

    pub(crate) fn check(&self, server: usize, it: &Server) -> Result<(), String> {
        let Some(peer) = it.peer() else { return Ok(()) };
        let track = &self.0[server];
        let epochs = peer.epochs();
        if epochs.accepted > track.accepted || epochs.current > track.current {
            return Err(format!("S-1: server {server} has {epochs:?} in memory only"));
        }
        Ok(())
    }

    /// A server receives a packet.
    pub(crate) fn receive(&mut self, server: usize, packet: &QuorumPacket) {
        let track = &mut self.0[server];
        match packet.kind {
            PacketKind::LEADERINFO => track.told = packet.zxid.epoch(),
            PacketKind::DIFF | PacketKind::TRUNC | PacketKind::SNAP => track.sent = Zxid::ZERO,
            PacketKind::PROPOSAL | PacketKind::INFORM => track.sent = packet.zxid,
            PacketKind::NEWLEADER => track.synced = track.sent,
            _ => {}
        }
    }

    pub(crate) fn send(
        &mut self,
        server: usize,
        packet: &QuorumPacket,
        is_unlogged: bool,
    ) -> Result<(), String> {
        let zxid = packet.zxid;
        match packet.kind {
            PacketKind::FOLLOWERINFO => self.0[server].observes = false,
            PacketKind::OBSERVERINFO => self.0[server].observes = true,
            PacketKind::ACK if zxid.counter() > 0 => {
                let track = &mut self.0[server];
                track.owed = track.owed.max(zxid);
                if track.flushed < zxid {
                    return Err(format!("S-8: server {server} acknowledges {zxid} too early"));
                }
            }
            PacketKind::ACK => {
                let track = &mut self.0[server];
                track.owed = track.owed.max(track.flushed);
                track.adopted = track.adopted.max(zxid.epoch());
                if track.current < zxid.epoch() {
                    return Err(format!(
                        "S-9: server {server} acknowledges epoch {zxid} too early"
                    ));
                }
                if track.flushed < track.synced && !is_unlogged {
                    return Err(format!(
                        "S-9: server {server} acknowledges epoch {} before {} is on its disk",
                        zxid.epoch().0,
                        track.synced
                    ));
                }
                // A server that has acknowledged NEWLEADER has a history again.
                track.wiped = false;
            }
            PacketKind::ACKEPOCH => {
                let track = &mut self.0[server];
                track.promised = track.promised.max(track.accepted);
                // No leader relies on the promise of an observer, provided that its answer does not
                // count as a promise.
                let ack = EpochAck::decode(packet.data.as_deref());
                let counts = ack.is_ok_and(|ack| ack.current_epoch.is_some());
                if track.told < track.accepted && (counts || !track.observes) {
                    return Err(format!(
                        "B-30: server {server} accepts epoch {} after it has promised {}",
                        track.told.0, track.accepted.0
                    ));
                }
            }
            PacketKind::LEADERINFO => {
                let track = &mut self.0[server];
                track.promised = track.promised.max(zxid.epoch());
                if track.accepted < zxid.epoch() {
                    return Err(format!("S-1: server {server} leads {zxid} without a promise"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
