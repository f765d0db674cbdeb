//! Faults of ensemble members while clients write.

use std::time::Duration;

use anyhow::Result;

use crate::ensemble::{Ensemble, LONG, SHORT};
use crate::load::Load;

/// Number of acknowledged creates that prove that an ensemble works again.
pub const PROGRESS: usize = 30;

/// The members with the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whom {
    /// The leader.
    Leader,
    /// A member that is not the leader.
    Follower,
    /// The largest minority, including the leader.
    Minority,
    /// All members.
    All,
}
use Whom::{All, Follower, Leader, Minority};

/// The faults. Unless all members have the fault, the others must continue before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// SIGKILL, and a restart with the same data.
    Kill(Whom),
    /// SIGTERM, and a restart with the same data.
    Restart(Whom),
    /// SIGKILL, and a restart without data except for the id.
    Wipe(Whom),
    /// SIGSTOP, shorter than all timeouts.
    Pause(Whom),
    /// SIGSTOP until the others have continued.
    LongPause(Whom),
    /// Cut off from the others in both directions. Members with the fault still reach each other.
    Island(Whom),
    /// Packets from it are lost.
    Mute(Whom),
    /// Packets to it are lost.
    Deaf(Whom),
    /// The link between the leader and one other member is cut.
    Link,
    /// Each member reaches only its two neighbours.
    Ring,
    /// The disk is full.
    FullDisk(Whom),
}
use Fault::{Deaf, FullDisk, Island, Kill, Link, LongPause, Mute, Pause, Restart, Ring, Wipe};

/// All faults that an ensemble of this size tolerates.
pub fn all(members: usize) -> Vec<Fault> {
    let mut faults: Vec<Fault> = [Leader, Follower]
        .into_iter()
        .flat_map(|whom| {
            [
                Kill(whom),
                Restart(whom),
                Wipe(whom),
                Pause(whom),
                LongPause(whom),
                Island(whom),
                Mute(whom),
                Deaf(whom),
                FullDisk(whom),
            ]
        })
        .collect();
    faults.extend([Link, Kill(All), Restart(All), Pause(All), LongPause(All)]);
    if members > 3 {
        let many = [Kill, Wipe, LongPause, Island, Mute, Deaf].map(|fault| fault(Minority));
        faults.extend(many);
        faults.push(Ring);
    }
    faults
}

/// Causes the fault, and waits until the ensemble has recovered; `false` if this machine cannot
/// cause it.
///
/// # Errors
/// The ensemble did not recover, or a client received a wrong answer.
pub fn inflict(ensemble: &mut Ensemble, load: &Load, fault: Fault) -> Result<bool> {
    let members = ensemble.members().len();
    let leader = ensemble.leader(None)?;
    let after = |steps: usize| (leader + steps) % members;
    let select = |whom: Whom| match whom {
        Leader => vec![leader],
        Follower => vec![after(1)],
        Minority => (0..(members - 1) / 2).map(after).collect(),
        All => (0..members).collect(),
    };
    match fault {
        Kill(whom) | Restart(whom) | Wipe(whom) => {
            let hit = select(whom);
            for index in &hit {
                match fault {
                    Restart(_) => drop(ensemble.member(*index).stop()?),
                    _ => ensemble.member(*index).kill()?,
                }
            }
            if whom != All {
                load.wait_for(PROGRESS)?;
            }
            for index in &hit {
                if let Wipe(_) = fault {
                    ensemble.wipe(*index)?;
                }
                ensemble.member(*index).spawn()?;
            }
        }
        Pause(whom) | LongPause(whom) => {
            let hit = select(whom);
            hit.iter().try_for_each(|index| ensemble.member(*index).pause())?;
            std::thread::sleep(if let Pause(_) = fault { SHORT } else { LONG });
            if whom != All && fault != Pause(whom) {
                load.wait_for(PROGRESS)?;
            }
            hit.iter().try_for_each(|index| ensemble.member(*index).go_on())?;
        }
        Island(whom) | Mute(whom) | Deaf(whom) => {
            let hit = select(whom);
            let others = (0..members).filter(|other| !hit.contains(other));
            let pairs = others.flat_map(|other| hit.iter().map(move |one| (*one, other)));
            let cuts = pairs.flat_map(|(one, other)| match fault {
                Mute(_) => vec![(one, other)],
                Deaf(_) => vec![(other, one)],
                _ => vec![(one, other), (other, one)],
            });
            cut(ensemble, load, &cuts.collect::<Vec<_>>())?;
        }
        Link => cut(ensemble, load, &[(leader, after(1)), (after(1), leader)])?,
        Ring => {
            let is_far =
                |(a, b): &(usize, usize)| (a + 1) % members != *b && (b + 1) % members != *a;
            let pairs = (0..members).flat_map(|a| (0..members).map(move |b| (a, b)));
            let cuts: Vec<_> = pairs.filter(|(a, b)| a != b).filter(is_far).collect();
            cut(ensemble, load, &cuts)?;
        }
        FullDisk(whom) => {
            let hit = select(whom);
            if !hit.iter().all(|index| ensemble.member(*index).has_small_disk()) {
                return Ok(false);
            }
            hit.iter().try_for_each(|index| ensemble.member(*index).fill_disk())?;
            std::thread::sleep(LONG);
            load.wait_for(PROGRESS)?;
            for index in hit {
                ensemble.member(index).empty_disk()?;
                // A member that cannot write may end.
                ensemble.member(index).spawn_if_ended()?;
            }
        }
    }
    ensemble.wait_for_all()?;
    load.wait_for(PROGRESS)?;
    Ok(true)
}

/// Cuts these directions until the others have continued.
fn cut(ensemble: &mut Ensemble, load: &Load, ways: &[(usize, usize)]) -> Result<()> {
    for (from, to) in ways {
        ensemble.network().cut(*from, *to)?;
    }
    let left = LONG.max(Duration::from_secs(1));
    std::thread::sleep(left);
    let went_on = load.wait_for(PROGRESS);
    ensemble.network().heal()?;
    went_on
}
