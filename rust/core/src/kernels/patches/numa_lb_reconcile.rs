//! numa-lb-reconcile: NUMA placement asks what the load balancer would do.
//!
//! Mel Gorman, "Reconcile NUMA balancing decisions with the load balancer", February 2020, merged for v5.7.
//!
//! * Nodes are classed as the load balancer classes groups. Towards a node with capacity to spare, the number of tasks
//!   that the balancer would tolerate decides, not load: an idle CPU is taken at once.
//! * Tasks that go home are better partners for an exchange: one that leaves its preferred node is worth a little less,
//!   one that comes to it a little more, and is preferred to one that does not.
//! * The search ends as soon as it found a place that it would not improve on, and finds another idle CPU where the one
//!   it wanted was taken meanwhile.
//!
//! It changes decisions of NUMA balancing only: a machine where that is off runs as before.

use super::super::numa::{NumaEnv, NumaStats, NumaTask, NumaType};
use super::super::{Kernel, Numa, v5_6};
use crate::cpumask::CpuMask;
use crate::slot;

/// Where the series was published.
pub const SOURCE: &str = "Mel Gorman, Reconcile NUMA balancing decisions with the load balancer, February 2020 \
                          (merged for v5.7)";

/// What it changes.
pub const SUMMARY: &str =
    "NUMA placement goes by idle CPUs and the imbalance that the load balancer tolerates, not by load.";

/// v5.6 with the series.
pub const KERNEL: Kernel = Kernel {
    name: "v5.6+numa-lb-reconcile",
    source: SOURCE,
    summary: SUMMARY,
    numa: Numa {
        update_numa_stats: slot!(
            update_numa_stats,
            "Sums tasks and utilization of a node, and finds an idle CPU."
        ),
        numa_idle_core: slot!(
            numa_idle_core,
            "An idle CPU on an idle core is preferred; the test asks about the CPU itself only."
        ),
        numa_classify: slot!(numa_classify, "Nodes are classed as the load balancer classes groups."),
        task_numa_find_cpu: slot!(
            task_numa_find_cpu,
            "Towards a node with room, the imbalance that the balancer tolerates decides, not load."
        ),
        task_numa_compare: slot!(
            task_numa_compare,
            "A task that goes home is the better partner; the search ends at a good place."
        ),
        task_numa_assign: slot!(
            task_numa_assign,
            "Where the CPU is taken meanwhile, another idle one is found."
        ),
        ..v5_6::KERNEL.numa
    },
    ..v5_6::KERNEL
};

/// kernel/sched/fair.c, v5.7, task_numa_find_cpu().
fn task_numa_find_cpu(env: &mut NumaEnv<'_>, taskimp: i64, groupimp: i64) {
    let may_move = if env.dst_stats.node_type == Some(NumaType::HasSpare) {
        let tolerated = env.imbalance_after_move() == 0;
        if let Some(cpu) = env.dst_stats.idle_cpu.filter(|_| tolerated) {
            env.dst_cpu = cpu;
            (env.kernel.numa.task_numa_assign.f)(env, None, 0);
            return;
        }
        tolerated
    } else {
        !env.is_too_imbalanced_by(env.p.load)
    };
    env.try_cpus(taskimp, groupimp, may_move);
}

/// kernel/sched/fair.c, v5.7, task_numa_compare().
pub(in super::super) fn task_numa_compare(
    env: &mut NumaEnv<'_>,
    taskimp: i64,
    groupimp: i64,
    may_move: bool,
) -> bool {
    let Some((swap_with, imp)) = better_place(env, taskimp, groupimp, may_move) else {
        return false;
    };
    if swap_with.is_none() {
        env.dst_cpu = idle_cpu_for_move(env);
    }
    (env.kernel.numa.task_numa_assign.f)(env, swap_with, imp);
    let moves_to_idle = may_move && swap_with.is_none() && env.best_cpu.is_some_and(|cpu| env.is_idle(cpu));
    let swaps_home = !may_move && env.best_task.is_some_and(|best| goes_home(env, &best));
    moves_to_idle || swaps_home
}

/// Whom to swap with on the CPU looked at (nobody for a plain move) and the gain, if that is better than the best place.
fn better_place<'a>(
    env: &NumaEnv<'a>,
    taskimp: i64,
    groupimp: i64,
    may_move: bool,
) -> Option<(Option<NumaTask<'a>>, i64)> {
    if env.numa_migrate_on.test(env.dst_cpu) {
        return None;
    }
    let move_imp = env.move_gain(taskimp, groupimp);
    let Some(cur) = env.curr() else {
        return (may_move && move_imp >= env.best_imp).then_some((None, move_imp));
    };
    let best_goes_home = env.best_task.map(|best| goes_home(env, &best));
    if !cur.may_run_on(env.src_cpu) || (best_goes_home == Some(true) && !goes_home(env, &cur)) {
        return None;
    }
    let mut imp = env.swap_gain(&cur, taskimp, groupimp);
    if cur.preferred_node == Some(env.dst_nid) {
        imp -= imp / 16;
    }
    if goes_home(env, &cur) {
        imp += imp / 8;
    }
    if may_move && move_imp > imp && move_imp > env.best_imp {
        return Some((None, move_imp));
    }
    if best_goes_home == Some(false) && goes_home(env, &cur) {
        return Some((Some(cur), imp));
    }
    (env.is_worth_a_swap(imp) && env.may_exchange_load_with(&cur)).then_some((Some(cur), imp))
}

/// Whether an exchange would bring `task` to its preferred node.
fn goes_home(env: &NumaEnv<'_>, task: &NumaTask<'_>) -> bool {
    task.preferred_node == Some(env.src_nid)
}

/// The CPU for a plain move: the idle one that the statistics found, unless it became busy and the best one did not.
fn idle_cpu_for_move(env: &NumaEnv<'_>) -> usize {
    let cpu = env.dst_stats.idle_cpu.unwrap_or(env.dst_cpu);
    let best_idle = env.best_cpu.filter(|&best| env.is_idle(best));
    best_idle.filter(|_| !env.is_idle(cpu)).unwrap_or(cpu)
}

/// kernel/sched/fair.c, v5.7, task_numa_assign().
fn task_numa_assign<'a>(env: &mut NumaEnv<'a>, task: Option<NumaTask<'a>>, imp: i64) {
    if env.best_cpu != Some(env.dst_cpu) && !env.claim(env.dst_cpu) {
        let Some(cpu) = other_idle_cpu(env) else { return };
        env.claim(cpu);
        env.dst_cpu = cpu;
    }
    env.set_best(task, imp);
}

/// The next CPU of the node, from the taken one on, that is idle, free and allowed.
fn other_idle_cpu(env: &NumaEnv<'_>) -> Option<usize> {
    env.dst_cpus.iter_wrap(env.dst_cpu).find(|&cpu| {
        env.best_cpu != Some(cpu)
            && env.is_idle(cpu)
            && env.p.may_run_on(cpu)
            && !env.numa_migrate_on.test(cpu)
    })
}

/// kernel/sched/fair.c, v5.7, update_numa_stats().
fn update_numa_stats(env: &NumaEnv<'_>, cpus: &CpuMask, find_idle: bool) -> NumaStats {
    let mut ns = sum_runqueues(env, cpus, find_idle);
    ns.node_type = (env.kernel.numa.numa_classify.f)(env.imbalance_pct, &ns);
    ns
}

/// The loop of update_numa_stats().
pub(in super::super) fn sum_runqueues(env: &NumaEnv<'_>, cpus: &CpuMask, find_idle: bool) -> NumaStats {
    let rqs = env.rqs;
    let mut ns = NumaStats { weight: cpus.weight() as u32, ..NumaStats::default() };
    let mut idle_core = None;
    for cpu in cpus.iter() {
        ns.load += rqs.load[cpu];
        ns.util += rqs.util[cpu];
        ns.nr_running += rqs.h_nr_running[cpu];
        ns.compute_capacity += rqs.capacity[cpu];
        let is_free = rqs.nr_running[cpu] == 0 && rqs.idle[cpu] && !env.numa_migrate_on.test(cpu);
        if find_idle && is_free && env.p.may_run_on(cpu) {
            ns.idle_cpu = ns.idle_cpu.or(Some(cpu));
            idle_core = (env.kernel.numa.numa_idle_core.f)(env, cpus, idle_core, cpu);
        }
    }
    ns.idle_cpu = idle_core.or(ns.idle_cpu);
    ns
}

/// kernel/sched/fair.c, v5.7, numa_classify().
fn numa_classify(imbalance_pct: u32, ns: &NumaStats) -> Option<NumaType> {
    let used = ns.util * u64::from(imbalance_pct);
    let capacity = ns.compute_capacity * 100;
    Some(if ns.nr_running > ns.weight && capacity < used {
        NumaType::Overloaded
    } else if ns.nr_running < ns.weight || capacity > used {
        NumaType::HasSpare
    } else {
        NumaType::FullyBusy
    })
}

/// kernel/sched/fair.c, v5.7, numa_idle_core(). The test of the core asks about the CPU itself for each of its
/// siblings, so any idle CPU passes.
fn numa_idle_core(env: &NumaEnv<'_>, _cpus: &CpuMask, idle_core: Option<usize>, cpu: usize) -> Option<usize> {
    idle_core.or_else(|| (env.system.smt_active && env.cpus.test_idle_cores(cpu)).then_some(cpu))
}
