//! Task groups: what the group scheduler of a generation can do, and how it limits bandwidth.

use super::Groups;
use crate::slot;

/// The table of v5.4 to v5.7.
pub const GROUPS: Groups = Groups {
    group_rules: slot!(
        group_rules,
        "A throttled queue waits for its pool's period; the timer's CPU puts queues back on all CPUs."
    ),
};

/// What generations differ in as to task groups. The default is v5.4's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupRules {
    /// A group can be idle as a whole (`cpu.idle`, 5.15).
    pub has_cpu_idle: bool,
    /// A pool can save up runtime (`cpu.max.burst`, 5.14), and is refilled in idle periods, too.
    pub has_burst: bool,
    /// A queue about to be throttled asks its pool once more, for 1 ns (5.8).
    pub throttle_asks_again: bool,
    /// Groups' periods start at random offsets from each other (6.4); earlier all are counted from boot.
    pub periods_interleave: bool,
    /// Queues of other CPUs are put back by an interrupt there (6.3), not by the CPU of the timer.
    pub unthrottles_by_interrupt: bool,
    /// Time in which nobody waits in a throttled queue does not count as throttled (6.6).
    pub throttled_time_needs_tasks: bool,
}

/// kernel/sched/fair.c, v5.4, throttle_cfs_rq(), distribute_cfs_runtime() and what is around them.
fn group_rules() -> GroupRules {
    GroupRules::default()
}
