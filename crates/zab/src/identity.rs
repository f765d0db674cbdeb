//! The id of an ensemble: how its members agree on one, and how those of two ensembles tell each
//! other apart.
//!
//! Members agree on the id as on a single value in Paxos, with the epochs of leaders as ballots. A
//! leader looks at what a quorum knows once that quorum has accepted its epoch, and proposes the id
//! that was proposed in the latest epoch, or one of its own. A learner keeps a proposed id before
//! it acknowledges the leader's history. When a quorum has acknowledged, the id is settled for
//! good.
//!
//! Servers of the original know no ids. They count in no quorum here, so an ensemble with some of
//! them settles its id when a quorum of its voters does without them.

use zebu_jute::Encode as _;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::{EnsembleId, Epoch, Identity, ServerId};

use crate::faults;
use crate::leave::Leave;

/// The id of the ensemble in a leader's epoch, from the knowledge of the leader and of the quorum
/// that has accepted the epoch. `new`: the id for an ensemble that has none.
///
/// # Errors
/// Two members of the quorum are of different ensembles, and this server of none: nobody can tell
/// which one is right.
pub(crate) fn choose(
    own: Identity,
    others: impl Iterator<Item = (ServerId, Identity)>,
    epoch: Epoch,
    new: EnsembleId,
) -> Result<Identity, Leave> {
    let mut settled: Option<(ServerId, EnsembleId)> = None;
    let mut latest = None;
    if let Identity::Proposed { id, epoch } = own {
        latest = Some((epoch, id));
    }
    for (server, identity) in others {
        match identity {
            Identity::Unknown => {}
            Identity::Proposed { id, epoch } => latest = latest.max(Some((epoch, id))),
            Identity::Settled(id) => match settled {
                Some((first, other)) if other != id && !is_blind() => {
                    return Err(Leave::TwoEnsembles {
                        first: (first, other),
                        second: (server, id),
                    });
                }
                _ => settled = settled.or(Some((server, id))),
            },
        }
    }
    if own.settled().is_some() {
        return Ok(own);
    }
    if let Some((_, id)) = settled {
        return Ok(Identity::Settled(id));
    }
    let proposed = latest.filter(|_| !faults::ensemble_id_made_anew());
    Ok(Identity::Proposed { id: proposed.map_or(new, |(_, id)| id), epoch })
}

/// Whether what one server knows shows that it belongs to another ensemble than the other server.
pub(crate) fn differ(one: Identity, other: Identity) -> bool {
    one.contradicts(other) && !is_blind()
}

fn is_blind() -> bool {
    faults::other_ensembles_admitted()
}

/// Tells a learner that knows ids what this server knows.
pub(crate) fn packet(identity: Identity) -> QuorumPacket {
    let data = identity.to_bytes();
    QuorumPacket::with_data(PacketKind::ENSEMBLE, zebu_proto::quorum::NO_ZXID, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: EnsembleId = EnsembleId(99);

    fn proposed(id: u128, epoch: u32) -> Identity {
        Identity::Proposed { id: EnsembleId(id), epoch: Epoch(epoch) }
    }

    fn settled(id: u128) -> Identity {
        Identity::Settled(EnsembleId(id))
    }

    fn chosen(own: Identity, others: &[Identity]) -> Result<Identity, Leave> {
        let others = others.iter().zip(1..).map(|(it, server)| (ServerId(server), *it));
        choose(own, others, Epoch(9), NEW)
    }

    #[test]
    fn an_id_is_made_only_where_nobody_has_heard_of_one() {
        assert_eq!(chosen(Identity::Unknown, &[Identity::Unknown]), Ok(proposed(99, 9)));
        assert_eq!(chosen(Identity::Unknown, &[proposed(1, 3)]), Ok(proposed(1, 9)));
        assert_eq!(chosen(proposed(1, 3), &[proposed(2, 2)]), Ok(proposed(1, 9)));
        assert_eq!(chosen(proposed(1, 3), &[proposed(2, 4)]), Ok(proposed(2, 9)));
        assert_eq!(chosen(proposed(1, 3), &[proposed(2, 4), settled(3)]), Ok(settled(3)));
        assert_eq!(chosen(settled(5), &[proposed(2, 4)]), Ok(settled(5)));
    }

    #[test]
    fn a_leader_of_no_ensemble_does_not_choose_between_two() {
        let two = chosen(proposed(1, 8), &[settled(3), settled(3), settled(4)]);
        let (first, second) = ((ServerId(1), EnsembleId(3)), (ServerId(3), EnsembleId(4)));
        assert_eq!(two, Err(Leave::TwoEnsembles { first, second }));
    }
}
