//! runnable-avg: groups are classified by the time that tasks wait, too.
//!
//! Vincent Guittot, "remove runnable_load_avg and improve group_classify", February 2020, merged for v5.7.
//! Utilization says how much of its CPUs a group uses, and falls when tasks are migrated away although those that stay
//! still wait. runnable_avg counts waiting as well: a group whose tasks wait has no capacity to spare. Expect groups
//! with several tasks a CPU to be called overloaded or fully busy, where they used to have spare capacity.
//!
//! The five patches: 1 reorders enqueue and dequeue and decides nothing; 2 is [`NUMA_LOAD`], part of the NUMA side
//! that [`numa_lb_reconcile`](super::numa_lb_reconcile) replaces as a whole, and therefore not of [`KERNEL`]; 3
//! removes a signal that nobody reads any more; 4 is [`SIGNAL`]; 5, on it, makes [`KERNEL`]. The third version of
//! the series is [`runnable_avg_v3`](super::runnable_avg_v3).

use super::super::env::{IdlestEnv, LbEnv, SgLbStats};
use super::super::numa::{NumaEnv, NumaStats};
use super::super::{Balance, Kernel, Numa, Signals, Wakeup, v5_4, v5_5, v5_6};
use crate::cpumask::CpuMask;
use crate::pelt::{PeltForm, SchedAvg};
use crate::slot;

/// Where the series was published.
pub const SOURCE: &str = "Vincent Guittot, sched/fair: remove runnable_load_avg and improve group_classify, \
                          February 2020 (merged for v5.7)";

/// What it changes.
pub const SUMMARY: &str =
    "Classifies groups by runnable_avg, the time that tasks run or wait, beside utilization.";

/// v5.6 with the series: its fourth patch and, on it, its fifth.
pub const KERNEL: Kernel = Kernel {
    name: "v5.6+runnable-avg",
    source: SOURCE,
    summary: SUMMARY,
    balance: Balance {
        update_sg_lb_stats: slot!(update_sg_lb_stats, "Sums runnable_avg, too."),
        group_has_capacity: slot!(
            group_has_capacity,
            "No room where tasks run and wait for longer than the CPUs last, though utilization is low."
        ),
        group_is_overloaded: slot!(group_is_overloaded, "Overloaded also by runnable_avg."),
        ..SIGNAL.balance
    },
    wakeup: Wakeup {
        update_sg_wakeup_stats: slot!(update_sg_wakeup_stats, "Sums runnable_avg without the task, too."),
        ..SIGNAL.wakeup
    },
    ..SIGNAL
};

/// What the fourth patch changes.
pub const SUMMARY_SIGNAL: &str =
    "Keeps runnable_avg in place of the runnable load (patch 4 of 5); alone it decides nothing.";

/// v5.6 with the fourth patch.
pub const SIGNAL: Kernel = Kernel {
    name: "v5.6+runnable-avg-signal",
    source: SOURCE,
    summary: SUMMARY_SIGNAL,
    signals: Signals {
        pelt_form: slot!(
            pelt_form,
            "PELT keeps runnable_avg, the time that tasks run or wait, in place of the runnable load."
        ),
        new_task_runnable: slot!(
            new_task_runnable,
            "A new task starts as runnable as its CPU is big, so that a little CPU is not overloaded at once."
        ),
        ..v5_6::KERNEL.signals
    },
    ..v5_6::KERNEL
};

/// What the fifth patch changes.
pub const SUMMARY_CLASSIFY: &str =
    "Classifies groups by runnable_avg, too (patch 5 of 5); needs the signal that patch 4 brings.";

/// What the second patch changes.
pub const SUMMARY_NUMA_LOAD: &str =
    "NUMA placement compares load with sleepers instead of the runnable load (patch 2 of 5).";

/// v5.6 with the second patch.
pub const NUMA_LOAD: Kernel = Kernel {
    name: "v5.6+runnable-avg-numa-load",
    source: SOURCE,
    summary: SUMMARY_NUMA_LOAD,
    numa: Numa {
        update_numa_stats: slot!(
            update_numa_stats,
            "A node's load is with sleepers, as load balancing has it since v5.5."
        ),
        ..v5_6::KERNEL.numa
    },
    ..v5_6::KERNEL
};

/// kernel/sched/pelt.c, v5.7: runnable_avg, the time that tasks run or wait, takes the place of the runnable load.
fn pelt_form() -> PeltForm {
    PeltForm::Modern
}

/// kernel/sched/fair.c, the series' fourth patch, post_init_entity_util_avg().
fn new_task_runnable(_avg: &SchedAvg, cpu_scale: u64) -> u64 {
    cpu_scale
}

/// kernel/sched/fair.c, the series' second patch, update_numa_stats().
fn update_numa_stats(env: &NumaEnv<'_>, cpus: &CpuMask, _find_idle: bool) -> NumaStats {
    let mut ns = NumaStats::default();
    for cpu in cpus.iter() {
        ns.load += env.rqs.load_avg[cpu];
        ns.compute_capacity += env.rqs.capacity[cpu];
    }
    ns.node_type = (env.kernel.numa.numa_classify.f)(env.imbalance_pct, &ns);
    ns
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
    use crate::balance::numa::NumaCase;
    use crate::balance::parse;

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

    /// post_init_entity_util_avg(): the new signal's start value.
    #[test]
    fn the_signal_alone_classifies_as_before() {
        let sgs = SgLbStats {
            sum_nr_running: 3,
            group_weight: 2,
            group_capacity: 2048,
            group_util: 1200,
            group_runnable: 2900,
            ..SgLbStats::default()
        };
        let classify = |kernel: &Kernel| (kernel.balance.group_classify.f)(kernel, 117, false, &sgs);
        assert_eq!(classify(&SIGNAL), classify(&v5_6::KERNEL));
        assert_eq!((v5_6::KERNEL.signals.pelt_form.f)(), PeltForm::Old);
        assert_eq!((SIGNAL.signals.pelt_form.f)(), PeltForm::Modern);
        // A task that starts on a little CPU.
        assert_eq!((SIGNAL.signals.new_task_runnable.f)(&SchedAvg::default(), 446), 446);
    }

    /// update_numa_stats(): tasks that sleep just now make a node look empty by runnable load.
    #[test]
    fn a_node_of_sleepers_is_loaded_by_load_but_not_by_runnable_load() {
        let case: NumaCase = parse(
            r#"{"node_weight": 2, "imbalance_pct": 112, "nr_running": [2, 1, 1, 0],
                "load": [2048, 1024, 1024, 0], "load_avg": [2048, 1024, 2048, 1024],
                "task": {"cpu": 0, "load": 1024, "task_weights": [200, 800], "group_weights": [0, 0]},
                "curr": [{"load": 1024, "preferred_node": 1, "task_weights": [0, 1000], "group_weights": [0, 0]}, null]}"#,
        )
        .unwrap();
        let (base, patched) = (case.decide(&v5_6::KERNEL).unwrap(), case.decide(&NUMA_LOAD).unwrap());
        assert_eq!((base.dst.load, base.best_cpu), (1024, Some(3)));
        assert_eq!((patched.dst.load, patched.best_cpu), (3072, None));
    }
}
