//! Faults of ensemble members while clients write.

mod inflict;

use crate::ensemble::Cut;

pub use inflict::inflict;

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
    /// The disk loses its power, and what was not durable; a restart with the rest.
    PowerCut(Whom, Cut),
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
    /// The router loses its packets, and those to it, in bursts.
    Loss(Whom),
    /// All bytes between members are held up.
    Slow,
    /// All connections between members break, again and again.
    Breaks,
    /// Bits of votes are changed on their way.
    ChangedVotes,
    /// The disk is full.
    FullDisk(Whom),
    /// The file system is read-only.
    ReadOnlyDisk(Whom),
    /// Each sync takes 40 ms longer.
    SlowDisk(Whom),
    /// A sync fails.
    FailingDisk(Whom),
    /// The wall clock goes an hour ahead, then an hour back, and is right again.
    Clock(Whom),
    /// Killed and started again, six times, each time before it can follow for long.
    Storm(Whom),
    /// The leader lets another member lead, because it is asked to.
    HandOver,
    /// A follower becomes an observer, and a voter again.
    Reconfigure,
    /// A follower is the original's server for a while, with the same data.
    Original,
}
use Fault::{
    Breaks, ChangedVotes, Clock, Deaf, FailingDisk, FullDisk, HandOver, Island, Kill, Link,
    LongPause, Loss, Mute, Original, Pause, PowerCut, ReadOnlyDisk, Reconfigure, Restart, Ring,
    Slow, SlowDisk, Storm, Wipe,
};

/// Faults of one kind.
#[derive(Debug)]
pub struct Nemesis {
    /// Its name in commands and tables.
    pub name: &'static str,
    /// Its description, in a few words.
    pub what: &'static str,
    /// Its faults, of which one happens at a time.
    pub faults: &'static [Fault],
}

/// All kinds of faults.
pub const NEMESES: [Nemesis; 25] = [
    nemesis(
        "kill",
        "SIGKILL of one, or of a minority",
        &[Kill(Leader), Kill(Follower), Kill(Minority)],
    ),
    nemesis("kill-all", "SIGKILL of all members at once", &[Kill(All)]),
    nemesis("restart", "SIGTERM", &[Restart(Leader), Restart(Follower), Restart(All)]),
    nemesis(
        "storm",
        "six kills and starts of one member in a row",
        &[Storm(Leader), Storm(Follower)],
    ),
    nemesis(
        "wipe",
        "SIGKILL and an empty data directory",
        &[Wipe(Leader), Wipe(Follower), Wipe(Minority)],
    ),
    nemesis(
        "power-cut",
        "the power of disks fails, and takes what is not durable",
        &[
            PowerCut(Leader, Cut::Running),
            PowerCut(Follower, Cut::Frozen),
            PowerCut(Minority, Cut::Frozen),
            PowerCut(All, Cut::Running),
            PowerCut(All, Cut::Frozen),
        ],
    ),
    nemesis(
        "pause",
        "SIGSTOP, shorter than the timeouts",
        &[Pause(Leader), Pause(Follower), Pause(All)],
    ),
    nemesis(
        "long-pause",
        "SIGSTOP until the others work again",
        &[LongPause(Leader), LongPause(Follower), LongPause(Minority), LongPause(All)],
    ),
    nemesis(
        "island",
        "cut off in both directions",
        &[Island(Leader), Island(Follower), Island(Minority)],
    ),
    nemesis(
        "mute",
        "nobody receives what the member sends",
        &[Mute(Leader), Mute(Follower), Mute(Minority)],
    ),
    nemesis("deaf", "the member receives nothing", &[Deaf(Leader), Deaf(Follower), Deaf(Minority)]),
    nemesis("link", "the link between the leader and one member is cut", &[Link]),
    nemesis("ring", "each of five members reaches two neighbours only", &[Ring]),
    nemesis("loss", "packets are lost in bursts", &[Loss(Leader), Loss(Follower)]),
    nemesis("slow-network", "bytes are held up for 15 to 45 ms", &[Slow]),
    nemesis("breaks", "all connections between members break, five times", &[Breaks]),
    nemesis("changed-votes", "a bit in one of three votes is changed", &[ChangedVotes]),
    nemesis("full-disk", "no room in the data directory", &[FullDisk(Leader), FullDisk(Follower)]),
    nemesis(
        "read-only-disk",
        "the file system takes no write",
        &[ReadOnlyDisk(Leader), ReadOnlyDisk(Follower)],
    ),
    nemesis(
        "slow-disk",
        "each sync takes 40 ms longer",
        &[SlowDisk(Leader), SlowDisk(Follower), SlowDisk(All)],
    ),
    nemesis("failing-disk", "a sync fails (EIO)", &[FailingDisk(Leader), FailingDisk(Follower)]),
    nemesis(
        "clock",
        "the wall clock goes an hour ahead, then an hour back",
        &[Clock(Leader), Clock(Follower), Clock(All)],
    ),
    nemesis("hand-over", "the leader is asked to hand over", &[HandOver]),
    nemesis("reconfigure", "a follower becomes an observer and a voter again", &[Reconfigure]),
    nemesis("original", "a follower is ZooKeeper 3.9.5 for a while", &[Original]),
];

const fn nemesis(name: &'static str, what: &'static str, faults: &'static [Fault]) -> Nemesis {
    Nemesis { name, what, faults }
}

impl Fault {
    /// Whether an ensemble of this size tolerates the fault, and no other fault is the same for
    /// this size.
    pub fn is_for(self, members: usize) -> bool {
        let needs_five = matches!(
            self,
            Ring | Kill(Minority)
                | Wipe(Minority)
                | PowerCut(Minority, _)
                | LongPause(Minority)
                | Island(Minority)
                | Mute(Minority)
                | Deaf(Minority)
        );
        members > 3 || !needs_five
    }
}
