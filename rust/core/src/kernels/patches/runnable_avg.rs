//! runnable-avg: groups are classified by the time that tasks wait, too.
//!
//! Vincent Guittot, "remove runnable_load_avg and improve group_classify", February 2020, merged for v5.7.
//! Utilization says how much of its CPUs a group uses, and falls when tasks are migrated away although those that stay
//! still wait. runnable_avg counts waiting as well: a group whose tasks wait has no capacity to spare. Expect groups
//! with several tasks a CPU to be called overloaded or fully busy, where they used to have spare capacity.

use super::super::env::{IdlestEnv, LbEnv, SgLbStats};
use super::super::{Balance, Kernel, Signals, Wakeup, v5_4, v5_5, v5_6};
use crate::pelt::PeltForm;
use crate::slot;

/// Where the series was published.
pub const SOURCE: &str = "Vincent Guittot, sched/fair: remove runnable_load_avg and improve group_classify, \
                          February 2020 (merged for v5.7)";

/// What it changes.
pub const SUMMARY: &str =
    "Classifies groups by runnable_avg, the time that tasks run or wait, beside utilization.";

/// v5.6 with the series.
pub const KERNEL: Kernel = Kernel {
    name: "v5.6+runnable-avg",
    source: SOURCE,
    summary: SUMMARY,
    signals: Signals { pelt_form: slot!(pelt_form), ..v5_6::KERNEL.signals },
    balance: Balance {
        update_sg_lb_stats: slot!(update_sg_lb_stats),
        group_has_capacity: slot!(group_has_capacity),
        group_is_overloaded: slot!(group_is_overloaded),
        ..v5_6::KERNEL.balance
    },
    wakeup: Wakeup { update_sg_wakeup_stats: slot!(update_sg_wakeup_stats), ..v5_6::KERNEL.wakeup },
    ..v5_6::KERNEL
};

/// kernel/sched/pelt.c, v5.7: runnable_avg, the time that tasks run or wait, takes the place of the runnable load.
fn pelt_form() -> PeltForm {
    PeltForm::Modern
}

/// kernel/sched/fair.c, v5.7, update_sg_lb_stats().
fn update_sg_lb_stats(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = sum_runqueues(env, index);
    v5_5::collect_misfit(env, index, &mut sgs);
    v5_5::classify_sums(env, index, &mut sgs);
    sgs
}

/// The loop of update_sg_lb_stats(), with the sum of runnable_avg.
pub(in super::super) fn sum_runqueues(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = v5_4::sum_runqueues(env, index);
    let runs = v5_4::runs_within(env.group(index), env.excluded);
    sgs.group_runnable = runs.map(|(start, end)| env.rqs.runnable[start..end].iter().sum::<u64>()).sum();
    sgs
}

/// kernel/sched/fair.c, v5.7, group_has_capacity().
fn group_has_capacity(imbalance_pct: u32, sgs: &SgLbStats) -> bool {
    sgs.sum_nr_running < sgs.group_weight
        || (!is_short_of_time(imbalance_pct, sgs) && v5_5::group_has_capacity(imbalance_pct, sgs))
}

/// kernel/sched/fair.c, v5.7, group_is_overloaded().
fn group_is_overloaded(imbalance_pct: u32, sgs: &SgLbStats) -> bool {
    v5_5::group_is_overloaded(imbalance_pct, sgs)
        || (sgs.sum_nr_running > sgs.group_weight && is_short_of_time(imbalance_pct, sgs))
}

/// Tasks run and wait for longer than the CPUs last.
fn is_short_of_time(imbalance_pct: u32, sgs: &SgLbStats) -> bool {
    sgs.group_capacity * u64::from(imbalance_pct) < sgs.group_runnable * 100
}

/// kernel/sched/fair.c, v5.7, update_sg_wakeup_stats(), on what v5.6 makes of the sums.
fn update_sg_wakeup_stats(env: &IdlestEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = sum_without_task(env, index);
    sgs.group_weight = env.group(index).weight;
    v5_5::finish_wakeup_stats(env, index, &mut sgs);
    sgs
}

/// The loop of update_sg_wakeup_stats(), with the sum of runnable_avg.
pub(in super::super) fn sum_without_task(env: &IdlestEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = v5_5::sum_without_task(env, index);
    sgs.group_runnable = runnable_without_task(env, index);
    sgs
}

/// kernel/sched/fair.c, v5.7, cpu_runnable_without(), over a group.
fn runnable_without_task(env: &IdlestEnv<'_>, index: usize) -> u64 {
    let (group, runnable, p) = (env.group(index), &env.view.rqs.runnable, &env.task);
    let sum: u64 = group.runs.iter().map(|&(start, end)| runnable[start..end].iter().sum::<u64>()).sum();
    let counted = !p.new && group.span.test(p.cpu);
    sum - if counted { p.runnable.min(runnable[p.cpu]) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::super::super::env::GroupType;
    use super::*;

    /// Two tasks share each of two CPUs, and one was just migrated away: utilization is low, but tasks wait.
    #[test]
    fn a_group_whose_tasks_wait_has_no_capacity_to_spare() {
        let sgs = SgLbStats {
            sum_nr_running: 3,
            sum_h_nr_running: 3,
            group_weight: 2,
            group_capacity: 2048,
            group_util: 1200,
            group_runnable: 2900,
            ..SgLbStats::default()
        };
        let classify = |kernel: &Kernel| (kernel.balance.group_classify.f)(kernel, 117, false, &sgs);
        assert_eq!(classify(&v5_6::KERNEL), GroupType::HasSpare);
        assert_eq!(classify(&KERNEL), GroupType::Overloaded);
    }
}
