//! NUMA placement of v5.5 and v5.6: load alone says whether a task may move.
//!
//! A task goes to another node only if that brings the loads of the two nodes no further apart, however idle the
//! destination is. The load balancer of the same kernels looks at idle CPUs and tasks, so the two can undo each
//! other's work, which v5.7 reconciled.

use super::super::Numa;
use super::faults::{VmaScan, should_numa_migrate_memory};
use super::{NumaEnv, NumaStats, NumaTask, NumaType};
use crate::cpumask::CpuMask;
use crate::slot;

/// The slots.
pub const NUMA: Numa = Numa {
    update_numa_stats: slot!(update_numa_stats, "Sums load and capacity of a node."),
    numa_idle_core: slot!(numa_idle_core, "Nobody looks for an idle core."),
    numa_classify: slot!(numa_classify, "Nodes have no class."),
    load_too_imbalanced: slot!(load_too_imbalanced, "A move must not bring the nodes' loads further apart."),
    task_numa_find_cpu: slot!(task_numa_find_cpu, "Load alone says whether the task may simply move."),
    task_numa_compare: slot!(task_numa_compare, "Tries every CPU of the node for the best gain."),
    task_numa_assign: slot!(task_numa_assign, "A CPU that is taken meanwhile is given up."),
    should_numa_migrate_memory: slot!(
        should_numa_migrate_memory,
        "A page follows the second fault in a row from one node; early in a task's life, the first."
    ),
    vma_is_accessed: slot!(vma_is_accessed, "Every mapping is scanned, whoever uses it."),
};

/// kernel/sched/fair.c, v5.6, task_numa_find_cpu().
fn task_numa_find_cpu(env: &mut NumaEnv<'_>, taskimp: i64, groupimp: i64) {
    let may_move = !env.is_too_imbalanced_by(env.p.load);
    env.try_cpus(taskimp, groupimp, may_move);
}

/// kernel/sched/fair.c, v5.6, task_numa_compare(). It never ends the search.
fn task_numa_compare(env: &mut NumaEnv<'_>, taskimp: i64, groupimp: i64, may_move: bool) -> bool {
    if let Some((swap_with, imp)) = better_place(env, taskimp, groupimp, may_move) {
        (env.kernel.numa.task_numa_assign.f)(env, swap_with, imp);
    }
    false
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
    if !cur.may_run_on(env.src_cpu) {
        return None;
    }
    let imp = env.swap_gain(&cur, taskimp, groupimp);
    if may_move && move_imp > imp && move_imp > env.best_imp {
        return Some((None, move_imp));
    }
    (env.is_worth_a_swap(imp) && env.may_exchange_load_with(&cur)).then_some((Some(cur), imp))
}

/// kernel/sched/fair.c, v5.6, task_numa_assign().
fn task_numa_assign<'a>(env: &mut NumaEnv<'a>, task: Option<NumaTask<'a>>, imp: i64) {
    if env.claim(env.dst_cpu) {
        env.set_best(task, imp);
    }
}

/// kernel/sched/fair.c, v5.6, load_too_imbalanced(): loads are compared in relation to the nodes' capacities.
pub fn load_too_imbalanced(env: &NumaEnv<'_>, src_load: i64, dst_load: i64) -> bool {
    let (src, dst) = (&env.src_stats, &env.dst_stats);
    let (src_capacity, dst_capacity) = (src.compute_capacity as i64, dst.compute_capacity as i64);
    let distance = |src_load: i64, dst_load: i64| (dst_load * src_capacity - src_load * dst_capacity).abs();
    distance(src_load, dst_load) > distance(src.load as i64, dst.load as i64)
}

/// kernel/sched/fair.c, v5.6, update_numa_stats(): load and capacity are all that it reads.
fn update_numa_stats(env: &NumaEnv<'_>, cpus: &CpuMask, _find_idle: bool) -> NumaStats {
    let mut ns = NumaStats::default();
    for cpu in cpus.iter() {
        ns.load += env.rqs.load[cpu];
        ns.compute_capacity += env.rqs.capacity[cpu];
    }
    ns.node_type = (env.kernel.numa.numa_classify.f)(env.imbalance_pct, &ns);
    ns
}

/// v5.6 does not class nodes: load alone decides.
fn numa_classify(_imbalance_pct: u32, _ns: &NumaStats) -> Option<NumaType> {
    None
}

/// v5.6 does not look for an idle core.
fn numa_idle_core(
    _env: &NumaEnv<'_>,
    _cpus: &CpuMask,
    idle_core: Option<usize>,
    _cpu: usize,
) -> Option<usize> {
    idle_core
}

/// v5.6 scans an address space from one end to the other.
fn vma_is_accessed(_vma: &VmaScan) -> bool {
    true
}
