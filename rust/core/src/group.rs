//! Task groups: how much of a group's shares each of its queues stands for.

use crate::load_weight::{MIN_SHARES, scale_load_down};

/// What the weight of a group's entity on one CPU follows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupLoad {
    /// Shares of the whole group, scaled by 1024 (`tg->shares`).
    pub tg_shares: i64,
    /// Sum of the scaled weights in the group's queue on this CPU (`cfs_rq->load.weight`).
    pub weight: u64,
    /// load_avg of that queue.
    pub load_avg: u64,
    /// Sum of load_avg over the group's queues, as last added up (`tg->load_avg`).
    pub tg_load_avg: i64,
    /// What this queue has in that sum (`cfs_rq->tg_load_avg_contrib`).
    pub tg_load_avg_contrib: u64,
}

/// kernel/sched/fair.c, v5.4 to v6.12, calc_group_shares(): the scaled weight of a group's entity on one CPU.
///
/// The shares are divided among the CPUs by load. The sum over the CPUs lags, so this queue's part in it is replaced by
/// its present load: its weight if that is more than its average, so that a queue that just woke is not starved.
pub fn calc_group_shares(group: &GroupLoad) -> u64 {
    let load = scale_load_down(group.weight).max(group.load_avg) as i64;
    let tg_weight = group.tg_load_avg.wrapping_sub(group.tg_load_avg_contrib as i64).wrapping_add(load);
    let shares = group.tg_shares.wrapping_mul(load);
    let shares = if tg_weight == 0 { shares } else { shares.wrapping_div(tg_weight) };
    // Not clamp(): a group may have less than the least that an entity gets.
    shares.max(MIN_SHARES as i64).min(group.tg_shares) as u64
}
