//! NUMA placement of v6.12, as it differs from v5.7.
//!
//! * Nodes are classed by runnable_avg, too, as groups are.
//! * Tasks of one group do not change places while the destination has capacity to spare: they would only share it
//!   anew.
//! * The search for an idle core looks at all of its threads.
//! * A mapping is scanned for the tasks that use it.
//!
//! How many tasks of imbalance are tolerated, and up to how many running (`imb_numa_nr`), is the load balancer's
//! `adjust_numa_imbalance`.

use super::super::patches::numa_lb_reconcile;
use super::super::{Numa, v5_7};
use super::faults::VmaScan;
use super::{NumaEnv, NumaStats, NumaType};
use crate::cpumask::CpuMask;
use crate::slot;

/// The slots.
pub const NUMA: Numa = Numa {
    update_numa_stats: slot!(update_numa_stats, "Sums runnable_avg of a node, too."),
    numa_idle_core: slot!(numa_idle_core, "An idle core is one whose threads are all idle."),
    numa_classify: slot!(numa_classify, "Nodes are classed by the time that tasks wait, too."),
    task_numa_compare: slot!(
        task_numa_compare,
        "Tasks of one NUMA group do not change places while the node has room."
    ),
    vma_is_accessed: slot!(
        vma_is_accessed,
        "After two scans a mapping is scanned for tasks that use it, or where nobody else would."
    ),
    ..v5_7::KERNEL.numa
};

/// kernel/sched/fair.c, v6.12, task_numa_compare().
fn task_numa_compare(env: &mut NumaEnv<'_>, taskimp: i64, groupimp: i64, may_move: bool) -> bool {
    let shares_group = env.curr().is_some_and(|cur| cur.numa_group == env.p.numa_group);
    if shares_group && env.dst_stats.node_type == Some(NumaType::HasSpare) {
        return false;
    }
    numa_lb_reconcile::task_numa_compare(env, taskimp, groupimp, may_move)
}

/// kernel/sched/fair.c, v6.12, update_numa_stats().
fn update_numa_stats(env: &NumaEnv<'_>, cpus: &CpuMask, find_idle: bool) -> NumaStats {
    let mut ns = numa_lb_reconcile::sum_runqueues(env, cpus, find_idle);
    ns.runnable = cpus.iter().map(|cpu| env.rqs.runnable[cpu]).sum();
    ns.node_type = (env.kernel.numa.numa_classify.f)(env.imbalance_pct, &ns);
    ns
}

/// kernel/sched/fair.c, v6.12, numa_classify().
fn numa_classify(imbalance_pct: u32, ns: &NumaStats) -> Option<NumaType> {
    let pct = u64::from(imbalance_pct);
    let (used, capacity) = (ns.util * pct, ns.compute_capacity * 100);
    let (waited, time) = (ns.runnable * 100, ns.compute_capacity * pct);
    Some(if ns.nr_running > ns.weight && (capacity < used || time < waited) {
        NumaType::Overloaded
    } else if ns.nr_running < ns.weight || (capacity > used && time > waited) {
        NumaType::HasSpare
    } else {
        NumaType::FullyBusy
    })
}

/// kernel/sched/fair.c, v6.12, numa_idle_core().
fn numa_idle_core(env: &NumaEnv<'_>, cpus: &CpuMask, idle_core: Option<usize>, cpu: usize) -> Option<usize> {
    idle_core.or_else(|| {
        let may_look = env.system.smt_active && env.cpus.test_idle_cores(cpu);
        (may_look && is_core_idle(env, cpus, cpu)).then_some(cpu)
    })
}

/// kernel/sched/fair.c, v6.12, is_core_idle(), for a CPU that is idle itself.
fn is_core_idle(env: &NumaEnv<'_>, cpus: &CpuMask, cpu: usize) -> bool {
    env.rqs.siblings(cpu).filter(|&sibling| cpus.test(sibling)).all(|sibling| env.is_idle(sibling))
}

/// kernel/sched/fair.c, v6.12, task_numa_work() and vma_is_accessed(): two scans for all, then for those who were there;
/// a scan that has begun goes on, and a mapping that few could scan is not left out for ever.
fn vma_is_accessed(vma: &VmaScan) -> bool {
    vma.settled
        && (vma.scan_seq.wrapping_sub(vma.start_scan_seq) < 2
            || vma.accessed
            || vma.begun
            || vma.scan_seq > vma.prev_scan_seq.saturating_add(vma.nr_threads))
}
