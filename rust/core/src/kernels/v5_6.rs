//! v5.6: small repairs of the rework.
//!
//! * `update_sd_pick_busiest`: of two groups with as many idle CPUs the one with more tasks is busier, so that
//!   CPUs with several tasks are relieved first.
//! * `adjust_numa_imbalance`: a pair of tasks may stay together on a node, because communicating tasks otherwise lose
//!   their shared cache to the balancer.
//! * `update_sg_wakeup_stats`: the weight of the group, which v5.5 forgot, so that groups with fewer tasks than
//!   CPUs have capacity.
//! * `balance_rules`: a CPU with SCHED_IDLE tasks only balances as often as an idle one.

use super::env::{BalanceRules, IdlestEnv, LbEnv, SdLbStats, SgLbStats};
use super::{Balance, Kernel, Wakeup, v5_5};
use crate::slot;

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v5.6",
    source: "kernel/sched/fair.c of Linux 5.6.4",
    summary: "v5.5 with repairs: ties between groups go by number of tasks, a small NUMA imbalance is tolerated.",
    balance: Balance {
        balance_rules: slot!(
            balance_rules,
            "A CPU with SCHED_IDLE tasks only balances as often as an idle one."
        ),
        update_sd_pick_busiest: slot!(
            update_sd_pick_busiest,
            "Of two groups with as many idle CPUs, the one with more tasks is busier."
        ),
        adjust_numa_imbalance: slot!(
            adjust_numa_imbalance,
            "A pair of tasks may stay together on a NUMA node."
        ),
        ..v5_5::KERNEL.balance
    },
    wakeup: Wakeup {
        update_sg_wakeup_stats: slot!(
            update_sg_wakeup_stats,
            "The weight of the group, which v5.5 forgot: fewer tasks than CPUs is room."
        ),
        ..v5_5::KERNEL.wakeup
    },
    ..v5_5::KERNEL
};

/// kernel/sched/fair.c, v5.6, rebalance_domains().
fn balance_rules() -> BalanceRules {
    BalanceRules { sched_idle_is_busy: false, ..(v5_5::KERNEL.balance.balance_rules.f)() }
}

/// Tasks on a node that are left together: a pair that communicates.
const NUMA_IMBALANCE_MIN: u32 = 2;

/// kernel/sched/fair.c, v5.6, update_sd_pick_busiest().
fn update_sd_pick_busiest(env: &LbEnv<'_>, sds: &SdLbStats, index: usize, sgs: &SgLbStats) -> bool {
    v5_5::pick_busiest(env, sds, index, sgs, |sgs, busiest| {
        sgs.idle_cpus < busiest.idle_cpus
            || (sgs.idle_cpus == busiest.idle_cpus && sgs.sum_nr_running > busiest.sum_nr_running)
    })
}

/// kernel/sched/fair.c, v5.6, calculate_imbalance(), the part for NUMA domains.
fn adjust_numa_imbalance(imbalance: i64, _dst_running: u32, src_running: u32, _imb_numa_nr: u32) -> i64 {
    if src_running <= NUMA_IMBALANCE_MIN { 0 } else { imbalance }
}

/// kernel/sched/fair.c, v5.6.4, update_sg_wakeup_stats().
fn update_sg_wakeup_stats(env: &IdlestEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = v5_5::sum_without_task(env, index);
    sgs.group_weight = env.group(index).weight;
    v5_5::finish_wakeup_stats(env, index, &mut sgs);
    sgs
}
