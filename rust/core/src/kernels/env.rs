//! What a decision may see: plain data, the same for the engine, the vectors, Python and hooks.

use super::Kernel;
use crate::cpumask::CpuMask;
use crate::topology::{SchedDomain, SchedGroup};

/// Per-CPU statistics as arrays over CPUs: what a balance pass reads of the runqueues.
///
/// The engine keeps these as mirrors of its runqueues; `sl.balance` and the vectors fill them directly.
#[derive(Clone, Debug, Default)]
pub struct RqStats {
    /// `cpu_load()`: load_avg of the root cfs_rq (v5.4: runnable_load_avg).
    pub load: Vec<u64>,
    /// `cpu_util()`.
    pub util: Vec<u64>,
    /// `cpu_runnable()`: runnable_avg of the root cfs_rq; all zero before v5.7.
    pub runnable: Vec<u64>,
    /// Runnable tasks of every class.
    pub nr_running: Vec<u32>,
    /// Runnable fair tasks in the whole hierarchy.
    pub h_nr_running: Vec<u32>,
    /// `idle_cpu()`.
    pub idle: Vec<bool>,
    /// `sched_idle_cpu()`: busy, but with SCHED_IDLE tasks only.
    pub sched_idle: Vec<bool>,
    /// `capacity_of()`: what is left for fair tasks.
    pub capacity: Vec<u64>,
    /// `arch_scale_cpu_capacity()`.
    pub capacity_orig: Vec<u64>,
    /// Load of a task that does not fit the CPU, 0 if none.
    pub misfit_task_load: Vec<u64>,
    /// Tasks with a preferred node.
    pub nr_numa_running: Vec<u32>,
    /// Tasks on their preferred node.
    pub nr_preferred_running: Vec<u32>,
    /// Asym-packing priority, higher is preferred.
    pub asym_prio: Vec<i32>,
    /// Core number: CPUs with the same are SMT siblings.
    pub core: Vec<u32>,
}

impl RqStats {
    /// Statistics of `nr_cpus` idle CPUs of full capacity, each its own core.
    pub fn new(nr_cpus: usize) -> Self {
        Self {
            load: vec![0; nr_cpus],
            util: vec![0; nr_cpus],
            runnable: vec![0; nr_cpus],
            nr_running: vec![0; nr_cpus],
            h_nr_running: vec![0; nr_cpus],
            idle: vec![true; nr_cpus],
            sched_idle: vec![false; nr_cpus],
            capacity: vec![1024; nr_cpus],
            capacity_orig: vec![1024; nr_cpus],
            misfit_task_load: vec![0; nr_cpus],
            nr_numa_running: vec![0; nr_cpus],
            nr_preferred_running: vec![0; nr_cpus],
            asym_prio: vec![0; nr_cpus],
            core: (0..nr_cpus as u32).collect(),
        }
    }
}

/// State of a sched group as the balancer sees it, in rising pull priority (`enum group_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupType {
    /// Capacity to spare.
    HasSpare,
    /// No capacity left, but no task waits.
    FullyBusy,
    /// A task does not fit its CPU.
    MisfitTask,
    /// A busy SMT core against an idle CPU (6.6).
    SmtBalance,
    /// A preferred CPU is free.
    AsymPacking,
    /// Affinity stopped an earlier pull.
    Imbalanced,
    /// More tasks than the CPUs can serve.
    Overloaded,
}

/// Why a balance pass runs (`enum cpu_idle_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CpuIdleType {
    /// The CPU is idle (tick or nohz).
    Idle,
    /// The CPU is busy.
    NotIdle,
    /// The CPU is about to go idle.
    NewlyIdle,
}

impl CpuIdleType {
    /// The kernel's `env->idle != CPU_NOT_IDLE`.
    #[inline]
    pub fn is_idle(self) -> bool {
        self != Self::NotIdle
    }
}

/// The unit of an imbalance (`enum migration_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MigrationType {
    /// Load.
    Load,
    /// Utilization.
    Util,
    /// Number of tasks.
    Task,
    /// One misfit task.
    Misfit,
}

/// Which queues may be pulled from under NUMA balancing (`enum fbq_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FbqType {
    /// Only queues with tasks that have no preferred node.
    Regular,
    /// Also queues with tasks off their preferred node.
    Remote,
    /// Any queue.
    All,
}

/// Machine-wide switches that decisions read.
#[derive(Clone, Debug)]
pub struct SystemState {
    /// `sched_smt_active()`.
    pub smt_active: bool,
    /// Energy-aware scheduling is on.
    pub energy_aware: bool,
    /// The root domain has performance domains.
    pub perf_domains: bool,
    /// The root domain is over-utilised.
    pub overutilized: bool,
    /// NUMA balancing is on.
    pub numa_balancing: bool,
    /// `sysctl_sched_migration_cost`, ns; -1 = always hot.
    pub migration_cost_ns: i64,
    /// `sysctl_sched_nr_migrate`.
    pub nr_migrate: u32,
    /// CONFIG_PREEMPTION: newidle stops after one task.
    pub preemption: bool,
}

impl Default for SystemState {
    fn default() -> Self {
        Self {
            smt_active: false,
            energy_aware: false,
            perf_domains: false,
            overutilized: false,
            numa_balancing: false,
            migration_cost_ns: 500_000,
            nr_migrate: 32,
            preemption: true,
        }
    }
}

/// The state of one balance pass (`struct lb_env`).
pub struct LbEnv<'a> {
    /// The table of slots: slots call each other through it only.
    pub kernel: &'a Kernel,
    /// The domain of the pass.
    pub sd: &'a SchedDomain,
    /// All groups; `sd.ring` indexes it.
    pub groups: &'a [SchedGroup],
    /// Per capacity object: its affinity-imbalance flag (`sgc->imbalance`).
    pub sgc_imbalance: &'a [bool],
    /// The runqueues' statistics.
    pub rqs: &'a RqStats,
    /// Machine-wide switches.
    pub system: &'a SystemState,
    /// CPU that pulls.
    pub dst_cpu: usize,
    /// Why the pass runs.
    pub idle: CpuIdleType,
    /// CPUs of the domain that are not in `env->cpus`; `None` = all are.
    pub excluded: Option<&'a CpuMask>,
    /// `sd->nr_balance_failed`.
    pub nr_balance_failed: u32,
    /// Out: how much to move, in units of `migration_type`.
    pub imbalance: i64,
    /// Out: what `imbalance` counts.
    pub migration_type: MigrationType,
    /// Out: which queues may be pulled from.
    pub fbq_type: FbqType,
    /// Out, at a root domain: some CPU has two or more tasks or a misfit (`SG_OVERLOAD`).
    pub overload: bool,
    /// Out: some CPU is over-utilised (`SG_OVERUTILIZED`).
    pub overutilized: bool,
    /// Source CPU, once chosen.
    pub src_cpu: usize,
}

/// Statistics of one group (`struct sg_lb_stats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SgLbStats {
    /// Load over capacity, 1024 = one nice-0 hog a CPU; 0 unless the kernel computed it.
    pub avg_load: u64,
    /// Sum of load.
    pub group_load: u64,
    /// Capacity of the group.
    pub group_capacity: u64,
    /// Sum of utilization.
    pub group_util: u64,
    /// Sum of runnable_avg.
    pub group_runnable: u64,
    /// Sum of nr_running.
    pub sum_nr_running: u32,
    /// Sum of h_nr_running.
    pub sum_h_nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// CPUs of the group.
    pub group_weight: u32,
    /// The class.
    pub group_type: GroupType,
    /// Tasks should move to a preferred CPU.
    pub group_asym_packing: bool,
    /// Tasks of an SMT core should move (6.6).
    pub group_smt_balance: bool,
    /// Largest load of a misfit task.
    pub group_misfit_task_load: u64,
    /// Sum of nr_numa_running.
    pub nr_numa_running: u32,
    /// Sum of nr_preferred_running.
    pub nr_preferred_running: u32,
}

impl Default for SgLbStats {
    fn default() -> Self {
        Self {
            avg_load: 0,
            group_load: 0,
            group_capacity: 0,
            group_util: 0,
            group_runnable: 0,
            sum_nr_running: 0,
            sum_h_nr_running: 0,
            idle_cpus: 0,
            group_weight: 0,
            group_type: GroupType::HasSpare,
            group_asym_packing: false,
            group_smt_balance: false,
            group_misfit_task_load: 0,
            nr_numa_running: 0,
            nr_preferred_running: 0,
        }
    }
}
