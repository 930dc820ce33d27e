//! v5.7: the runnable_avg series and repairs that followed it.
//!
//! * The classification by [`runnable_avg`](super::patches::runnable_avg).
//! * `calculate_imbalance`: a fully busy local group that is above the busiest one pulls nothing (5.7.y), where the
//!   unsigned difference used to wrap round.
//! * `find_busiest_queue`: utilization is pulled only from CPUs with more than one task.
//! * `wake_cap` is gone, since
//! * `select_idle_sibling`: a machine of asymmetric capacity looks for an idle CPU that fits the task.
//! * `update_sg_wakeup_stats`: the average load of busy groups, which earlier kernels left at 0.
//! * `detach_tasks`: a task counts with a load of at least 1 (5.7.y); tasks of a group without a share otherwise all
//!   move at once.
//! * NUMA placement by [`numa_lb_reconcile`](super::patches::numa_lb_reconcile).

use super::env::{GroupType, IdlestEnv, LbEnv, MigrationType, SdLbStats, SgLbStats, SrcQueue, WakeCapEnv};
use super::patches::{numa_lb_reconcile, runnable_avg};
use super::sis::select_idle_sibling_asym;
use super::{Balance, Kernel, Wakeup, capacity, v5_4, v5_5};
use crate::slot;

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v5.7",
    source: "kernel/sched/fair.c of Linux 5.7.14",
    summary: "v5.6 with runnable_avg in the classification of groups, and repairs of imbalance, source and pull.",
    balance: Balance {
        calculate_imbalance: slot!(
            calculate_imbalance,
            "A fully busy local group above the busiest one pulls nothing, where the difference wrapped."
        ),
        find_busiest_queue: slot!(
            find_busiest_queue,
            "Utilization is pulled only from CPUs with more than one task."
        ),
        detach_tasks: slot!(detach_tasks, "A task counts with a load of at least 1."),
        ..runnable_avg::KERNEL.balance
    },
    wakeup: Wakeup {
        update_sg_wakeup_stats: slot!(
            update_sg_wakeup_stats,
            "The average load of busy groups, which was left at 0."
        ),
        wake_cap: slot!(wake_cap, "The waker's CPU attracts a task whatever its capacity."),
        select_idle_sibling: slot!(
            select_idle_sibling_asym,
            "A machine of asymmetric capacity looks for an idle CPU that fits the task."
        ),
        ..runnable_avg::KERNEL.wakeup
    },
    numa: numa_lb_reconcile::KERNEL.numa,
    capacity: capacity::V5_7,
    ..runnable_avg::KERNEL
};

/// kernel/sched/fair.c, v5.7.14, calculate_imbalance().
pub(super) fn calculate_imbalance(env: &mut LbEnv<'_>, sds: &mut SdLbStats) {
    v5_5::calculate_imbalance(env, sds);
    let (local, busiest) = (&sds.local_stat, &sds.busiest_stat);
    if env.migration_type == MigrationType::Load
        && local.group_type < GroupType::Overloaded
        && local.avg_load >= busiest.avg_load
    {
        env.imbalance = 0;
    }
}

/// kernel/sched/fair.c, v5.7, find_busiest_queue().
fn find_busiest_queue(env: &LbEnv<'_>, index: usize) -> Option<usize> {
    v5_5::busiest_queue(env, index, 2)
}

/// kernel/sched/fair.c, v5.7.14, detach_tasks().
fn detach_tasks(env: &mut LbEnv<'_>, queue: &mut dyn SrcQueue) -> u32 {
    v5_4::detach_by(env, queue, |env, p| v5_5::amount_to_move(env, p, 1))
}

/// kernel/sched/fair.c, v5.7, update_sg_wakeup_stats().
fn update_sg_wakeup_stats(env: &IdlestEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = runnable_avg::sum_without_task(env, index);
    finish_wakeup_stats(env, index, &mut sgs);
    sgs
}

/// The end of update_sg_wakeup_stats(), from the sums on.
pub(super) fn finish_wakeup_stats(env: &IdlestEnv<'_>, index: usize, sgs: &mut SgLbStats) {
    sgs.group_weight = env.group(index).weight;
    v5_5::classify_wakeup_sums(env, index, sgs);
    if matches!(sgs.group_type, GroupType::FullyBusy | GroupType::Overloaded) {
        sgs.avg_load = v5_4::avg_load(sgs);
    }
}

/// kernel/sched/fair.c, v5.7: the waker's CPU attracts a task whatever its capacity.
fn wake_cap(_env: &WakeCapEnv) -> bool {
    false
}
