//! lb-rework-v4: groups get a type, imbalances a unit, and load is no longer all that counts.
//!
//! Vincent Guittot, "sched/fair: rework the CFS load balance", version 4, October 2019, merged for v5.5. Up to v5.4 a
//! group with one heavy task and many idle CPUs could look busier than one whose CPUs all had tasks waiting, because
//! only average loads were compared. Expect tasks to spread over idle CPUs, and heavy task groups to disturb others less.
//!
//! Steps that can be taken alone, each for v5.4: [`NO_SMALL_IMBALANCE`] (the third), [`NR_RUNNING`] (the fifth),
//! [`LOAD`] (the sixth and the ninth, which read the same signal here) and [`MISFIT`] (the eighth). [`BALANCE`] is the rework
//! of load_balance() with what builds on it inside balancing (the third to the fifth, the seventh and the eighth), and
//! [`IDLEST`] the last step, which classes groups on wake-up as that one does. The first, second and the optimisation of
//! find_idlest_group() decide nothing.

use super::super::env::{GroupType, LbEnv, MigrationType, SdLbStats, SgLbStats, SrcQueue};
use super::super::{Balance, Kernel, Signals, Wakeup, v5_4, v5_5};
use crate::slot;

/// Where the series was published.
pub const SOURCE: &str =
    "Vincent Guittot, sched/fair: rework the CFS load balance, version 4, October 2019 (merged for v5.5)";

/// What it changes.
pub const SUMMARY: &str =
    "Balances by the type of groups and in units of load, utilization or tasks; load counts sleepers.";

/// v5.4 with the series.
pub const KERNEL: Kernel = Kernel {
    name: "v5.4+lb-rework-v4",
    source: SOURCE,
    summary: SUMMARY,
    signals: LOAD.signals,
    balance: BALANCE.balance,
    wakeup: IDLEST.wakeup,
    ..v5_4::KERNEL
};

/// What the rework of load_balance() changes.
pub const SUMMARY_BALANCE: &str = "Balances by the type of groups and in units of load, utilization or tasks; load is that of queued tasks still.";

/// v5.4 with the rework of load_balance().
pub const BALANCE: Kernel = Kernel {
    name: "v5.4+lb-rework-v4-balance",
    source: SOURCE,
    summary: SUMMARY_BALANCE,
    balance: v5_5::KERNEL.balance,
    ..v5_4::KERNEL
};

/// What the steps about load change.
pub const SUMMARY_LOAD: &str =
    "A CPU's load counts sleepers until they have decayed, in balancing and on wake-up.";

/// v5.4 with load instead of runnable load.
pub const LOAD: Kernel = Kernel {
    name: "v5.4+lb-rework-v4-load",
    source: SOURCE,
    summary: SUMMARY_LOAD,
    signals: Signals { cpu_load: v5_5::KERNEL.signals.cpu_load, ..v5_4::KERNEL.signals },
    ..v5_4::KERNEL
};

/// What the rework of find_idlest_group() changes.
pub const SUMMARY_IDLEST: &str =
    "Slow wake-ups and forks choose a group by its type and its idle CPUs; needs groups that have types.";

/// v5.4 with the rework of load_balance() and that of find_idlest_group().
pub const IDLEST: Kernel = Kernel {
    name: "v5.4+lb-rework-v4-balance+lb-rework-v4-idlest",
    source: SOURCE,
    summary: SUMMARY_IDLEST,
    wakeup: Wakeup {
        find_idlest_group: v5_5::KERNEL.wakeup.find_idlest_group,
        update_sg_wakeup_stats: v5_5::KERNEL.wakeup.update_sg_wakeup_stats,
        ..BALANCE.wakeup
    },
    ..BALANCE
};

/// What the third step changes.
pub const SUMMARY_NO_SMALL_IMBALANCE: &str =
    "An imbalance smaller than a task is not rounded up to one by guessing at throughput.";

/// v5.4 with the third step.
pub const NO_SMALL_IMBALANCE: Kernel = Kernel {
    name: "v5.4+lb-rework-v4-no-small-imbalance",
    source: SOURCE,
    summary: SUMMARY_NO_SMALL_IMBALANCE,
    balance: Balance {
        calculate_imbalance: slot!(
            calculate_imbalance,
            "Load up to the domain's average moves, however small, without a bound for overloaded groups."
        ),
        ..v5_4::KERNEL.balance
    },
    ..v5_4::KERNEL
};

/// What the fifth step changes.
pub const SUMMARY_NR_RUNNING: &str =
    "Whether a group has room or is overloaded goes by tasks of every class, not by fair ones only.";

/// v5.4 with the fifth step.
pub const NR_RUNNING: Kernel = Kernel {
    name: "v5.4+lb-rework-v4-nr-running",
    source: SOURCE,
    summary: SUMMARY_NR_RUNNING,
    balance: Balance {
        update_sg_lb_stats: slot!(
            update_sg_lb_stats,
            "Tasks of every class are counted beside the fair ones."
        ),
        group_has_capacity: v5_5::KERNEL.balance.group_has_capacity,
        group_is_overloaded: v5_5::KERNEL.balance.group_is_overloaded,
        ..v5_4::KERNEL.balance
    },
    ..v5_4::KERNEL
};

/// What the eighth step changes.
pub const SUMMARY_MISFIT: &str =
    "A pull of a misfit takes the task whose utilization does not fit its CPU, not one by its load.";

/// v5.4 with the eighth step.
pub const MISFIT: Kernel = Kernel {
    name: "v5.4+lb-rework-v4-misfit",
    source: SOURCE,
    summary: SUMMARY_MISFIT,
    balance: Balance {
        detach_tasks: slot!(
            detach_tasks,
            "Of a misfit group only a task that does not fit its CPU moves, and one of them."
        ),
        ..v5_4::KERNEL.balance
    },
    ..v5_4::KERNEL
};

/// kernel/sched/fair.c, the series' third step, calculate_imbalance().
fn calculate_imbalance(env: &mut LbEnv<'_>, sds: &mut SdLbStats) {
    env.migration_type = MigrationType::Load;
    env.imbalance = 0;
    for sgs in [&mut sds.local_stat, &mut sds.busiest_stat] {
        sgs.avg_load = v5_4::avg_load(sgs);
    }
    let (local, busiest, average) = (&sds.local_stat, &sds.busiest_stat, sds.avg_load);
    let misfit = busiest.group_type == GroupType::MisfitTask;
    if !misfit && (busiest.avg_load <= average || local.avg_load >= average) {
        return;
    }
    let surplus = busiest.avg_load.wrapping_sub(average).wrapping_mul(busiest.group_capacity);
    let room = average.wrapping_sub(local.avg_load).wrapping_mul(local.group_capacity);
    env.imbalance = (surplus.min(room) / v5_4::SCHED_CAPACITY_SCALE).cast_signed();
    if misfit {
        env.imbalance = env.imbalance.max(busiest.group_misfit_task_load.cast_signed());
    }
}

/// kernel/sched/fair.c, the series' fifth step, update_sg_lb_stats().
fn update_sg_lb_stats(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let sgs = v5_4::sum_runqueues(env, index);
    v5_4::classify_sums(env, index, sgs)
}

/// kernel/sched/fair.c, the series' eighth step, detach_tasks().
fn detach_tasks(env: &mut LbEnv<'_>, queue: &mut dyn SrcQueue) -> u32 {
    if env.src_grp_type != GroupType::MisfitTask {
        return (v5_4::KERNEL.balance.detach_tasks.f)(env, queue);
    }
    v5_4::detach_by(env, queue, |env, p| {
        let fits = v5_4::fits_capacity(p.util, env.rqs.capacity[env.src_cpu]);
        (!fits).then_some(env.imbalance)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{BusiestCase, BusiestOutcome, DetachCase, IdlestCase, parse};

    fn busiest(kernel: &Kernel, case: &str) -> BusiestOutcome {
        parse::<BusiestCase>(case).unwrap().decide(kernel).unwrap()
    }

    /// is_balanced(): a heavy task hides that three CPUs idle here while a task waits there.
    #[test]
    fn idle_cpus_are_filled_although_the_average_loads_are_even() {
        let case = r#"{"idle": "idle", "dst_cpu": 1, "sd": {"imbalance_pct": 125},
            "groups": [{"cpus": [0, 1, 2, 3]}, {"cpus": [4, 5, 6, 7]}],
            "cpus": {"nr_running": [1, 0, 0, 0, 2, 1, 1, 0], "h_nr_running": [1, 0, 0, 0, 2, 1, 1, 0],
                     "load": [9548, 0, 0, 0, 2048, 1024, 1024, 0],
                     "util": [1024, 0, 0, 0, 1024, 1024, 1024, 0],
                     "idle": [false, true, true, true, false, false, false, true]}}"#;
        assert_eq!(busiest(&v5_4::KERNEL, case).busiest, None);
        for reworked in [&BALANCE, &KERNEL] {
            assert_eq!(busiest(reworked, case).src_cpu, Some(4));
        }
    }

    /// fix_small_imbalance(): three tasks against two on single CPUs.
    #[test]
    fn half_a_task_stays_half_a_task_without_the_small_rule() {
        let case = r#"{"idle": "busy", "dst_cpu": 0, "sd": {"imbalance_pct": 110},
            "groups": [{"cpus": [0]}, {"cpus": [1]}],
            "cpus": {"nr_running": [2, 3], "h_nr_running": [2, 3], "load": [2048, 3072], "util": [1024, 1024]}}"#;
        assert_eq!(busiest(&v5_4::KERNEL, case).imbalance, 1024);
        assert_eq!(busiest(&NO_SMALL_IMBALANCE, case).imbalance, 512);
    }

    /// group_is_overloaded(): a real-time task takes one of two CPUs, two fair tasks share the other.
    #[test]
    fn a_real_time_task_makes_a_group_overloaded_where_it_is_counted() {
        let case = r#"{"idle": "newidle", "dst_cpu": 0, "sd": {"imbalance_pct": 117},
            "groups": [{"cpus": [0, 1]}, {"cpus": [2, 3]}],
            "cpus": {"nr_running": [0, 1, 1, 2], "h_nr_running": [0, 1, 0, 2], "load": [0, 1024, 0, 2048],
                     "util": [0, 300, 1024, 1024]}}"#;
        let class = |kernel: &Kernel| busiest(kernel, case).groups[1].group_type;
        assert_eq!((class(&v5_4::KERNEL), class(&NR_RUNNING)), ("other", "overloaded"));
    }

    /// cpu_load(): of a queue whose tasks sleep just now.
    #[test]
    fn sleepers_count_in_the_load() {
        let avg = crate::pelt::SchedAvg { load_avg: 900, runnable_avg: 0, ..Default::default() };
        assert_eq!((v5_4::KERNEL.signals.cpu_load.f)(&avg), 0);
        assert_eq!((LOAD.signals.cpu_load.f)(&avg), 900);
    }

    /// detach_tasks(): of two tasks the one with less load is the one that does not fit its little CPU.
    #[test]
    fn a_misfit_pull_takes_the_task_that_does_not_fit() {
        let case: DetachCase = parse(
            r#"{"idle": "idle", "migration_type": "misfit", "imbalance": 600, "loop_max": 32,
                "migration_cost_ns": 0, "sd": {}, "src": {"cpu": 1, "nr_running": 3, "capacity": 446},
                "dst": {"cpu": 0, "nr_running": 0, "group_weight": 1}, "preemption": false,
                "tasks": [{"load": 500, "util": 40, "age_ns": 9}, {"load": 300, "util": 440, "age_ns": 9}]}"#,
        )
        .unwrap();
        assert_eq!(case.decide(&v5_4::KERNEL).unwrap().detached, [0]);
        assert_eq!(case.decide(&MISFIT).unwrap().detached, [1]);
    }

    /// find_idlest_group(): a new task goes to the group with more idle CPUs, not to that with less load.
    #[test]
    fn a_new_task_goes_where_more_cpus_idle() {
        let case: IdlestCase = parse(
            r#"{"this_cpu": 0, "sd": {"imbalance_pct": 125},
                "groups": [{"cpus": [0, 1]}, {"cpus": [2, 3]}, {"cpus": [4, 5]}],
                "cpus": {"nr_running": [1, 1, 1, 0, 1, 1], "h_nr_running": [1, 1, 1, 0, 1, 1],
                         "load": [1024, 1024, 2000, 0, 300, 300], "load_avg": [1024, 1024, 2000, 0, 300, 300],
                         "util": [1024, 1024, 900, 0, 1024, 1024],
                         "idle": [false, false, false, true, false, false]},
                "task": {"load": 1024, "util": 0, "cpu": 0, "new": true}}"#,
        )
        .unwrap();
        let idlest = |kernel: &Kernel| case.decide(kernel).unwrap().idlest;
        assert_eq!((idlest(&BALANCE), idlest(&IDLEST)), (Some(2), Some(1)));
    }
}
