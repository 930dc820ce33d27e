//! What a decision may see: plain data, the same for the engine, the vectors, Python and hooks.

use super::Kernel;
use super::capacity::{Clamp, Demand, Room};
use crate::cpumask::CpuMask;
use crate::topology::{SchedDomain, SchedGroup};

/// Per-CPU statistics as arrays over CPUs: what a balance pass reads of the runqueues.
///
/// The engine keeps these as mirrors of its runqueues; `sl.balance` and the vectors fill them directly.
#[derive(Clone, Debug, Default)]
pub struct RqStats {
    /// `cpu_load()`: load_avg of the root cfs_rq (v5.4: runnable_load_avg).
    pub load: Vec<u64>,
    /// load_avg of the root cfs_rq, sleepers included, whatever `load` is.
    pub load_avg: Vec<u64>,
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
    /// `ttwu_pending`: woken tasks are on their way (v6.12).
    pub ttwu_pending: Vec<bool>,
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
    /// The next SMT sibling of a CPU, round its core; itself without one. [`RqStats::set_cores`] sets it.
    pub next_sibling: Vec<u32>,
}

impl RqStats {
    /// Statistics of `nr_cpus` idle CPUs of full capacity, each its own core.
    pub fn new(nr_cpus: usize) -> Self {
        Self {
            load: vec![0; nr_cpus],
            load_avg: vec![0; nr_cpus],
            util: vec![0; nr_cpus],
            runnable: vec![0; nr_cpus],
            nr_running: vec![0; nr_cpus],
            h_nr_running: vec![0; nr_cpus],
            idle: vec![true; nr_cpus],
            sched_idle: vec![false; nr_cpus],
            ttwu_pending: vec![false; nr_cpus],
            capacity: vec![1024; nr_cpus],
            capacity_orig: vec![1024; nr_cpus],
            misfit_task_load: vec![0; nr_cpus],
            nr_numa_running: vec![0; nr_cpus],
            nr_preferred_running: vec![0; nr_cpus],
            asym_prio: vec![0; nr_cpus],
            next_sibling: (0..nr_cpus as u32).collect(),
        }
    }

    /// Says which CPUs are SMT siblings: those with the same core number.
    pub fn set_cores(&mut self, core: &[u32]) {
        let mut by_core: Vec<(u32, u32)> =
            core.iter().enumerate().map(|(cpu, &core)| (core, cpu as u32)).collect();
        by_core.sort_unstable();
        for siblings in by_core.chunk_by(|a, b| a.0 == b.0) {
            for (index, &(_, cpu)) in siblings.iter().enumerate() {
                self.next_sibling[cpu as usize] = siblings[(index + 1) % siblings.len()].1;
            }
        }
    }

    /// The other threads of a CPU's core (`cpu_smt_mask()` without the CPU).
    pub fn siblings(&self, cpu: usize) -> impl Iterator<Item = usize> + '_ {
        let next = |cpu: usize| self.next_sibling[cpu] as usize;
        std::iter::successors(Some(next(cpu)), move |&sibling| Some(next(sibling)))
            .take_while(move |&sibling| sibling != cpu)
    }

    /// What a CPU has for a task.
    #[inline]
    pub fn room(&self, cpu: usize) -> Room {
        Room { capacity: self.capacity[cpu], capacity_orig: self.capacity_orig[cpu] }
    }

    /// kernel/sched/fair.c, v6.12, is_core_idle(): whether the other threads of a CPU's core are idle.
    pub fn is_core_idle(&self, cpu: usize) -> bool {
        self.siblings(cpu).all(|sibling| self.idle[sibling])
    }
}

/// State of a sched group as the balancer sees it, in rising pull priority (`enum group_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(i8)]
pub enum GroupType {
    /// None of the others (v5.4, which does not ask whether there is capacity to spare).
    Other,
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

impl GroupType {
    /// All types, in rising pull priority: the position is the type's code in arrays.
    pub const ALL: [Self; 8] = [
        Self::Other,
        Self::HasSpare,
        Self::FullyBusy,
        Self::MisfitTask,
        Self::SmtBalance,
        Self::AsymPacking,
        Self::Imbalanced,
        Self::Overloaded,
    ];

    /// The kernel's name, without its `group_` prefix.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::HasSpare => "has_spare",
            Self::FullyBusy => "fully_busy",
            Self::MisfitTask => "misfit_task",
            Self::SmtBalance => "smt_balance",
            Self::AsymPacking => "asym_packing",
            Self::Imbalanced => "imbalanced",
            Self::Overloaded => "overloaded",
        }
    }

    /// The type whose code in arrays is `code`.
    pub fn from_code(code: i8) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }
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
    /// All, in the kernel's order: the position is the code in arrays.
    pub const ALL: [Self; 3] = [Self::Idle, Self::NotIdle, Self::NewlyIdle];

    /// The kernel's `env->idle != CPU_NOT_IDLE`.
    #[inline]
    pub fn is_idle(self) -> bool {
        self != Self::NotIdle
    }

    /// The name that cases and Python use: `idle`, `busy`, `newidle`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::NotIdle => "busy",
            Self::NewlyIdle => "newidle",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|idle| idle.name() == name)
    }
}

/// The unit of an imbalance (`enum migration_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i8)]
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

impl MigrationType {
    /// All, in the kernel's order: the position is the code in arrays.
    pub const ALL: [Self; 4] = [Self::Load, Self::Util, Self::Task, Self::Misfit];

    /// The kernel's name, without its `migrate_` prefix.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Util => "util",
            Self::Task => "task",
            Self::Misfit => "misfit",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|migration| migration.name() == name)
    }
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

/// What a balance pass does around the decisions, as far as generations differ. The default is v5.4's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BalanceRules {
    /// Newidle balance gives up where the CPU will idle for less than the migration cost; otherwise where it
    /// will idle for less than the lowest level costs.
    pub newidle_needs_migration_cost: bool,
    /// A newidle pass first ages the blocked load of the tickless CPUs that it will look at (`LBF_NOHZ_STATS`).
    pub newidle_ages_tickless: bool,
    /// A CPU that goes idle ages the tickless CPUs' blocked load after newidle balance found nothing; otherwise
    /// where newidle balance was given up at once.
    pub ages_tickless_after_newidle: bool,
    /// A newidle pass dearer than any before also puts off the decay of its cost.
    pub raised_cost_delays_decay: bool,
    /// Jiffies that the interval of a busy CPU is shorter than its parameters say, so that levels are not all
    /// due at once.
    pub busy_interval_shortened_by: u64,
    /// A CPU that runs SCHED_IDLE tasks only counts as busy in its intervals.
    pub sched_idle_is_busy: bool,
    /// The slow path takes the first CPU that runs SCHED_IDLE tasks only; otherwise only where no CPU is idle.
    pub sched_idle_at_once: bool,
    /// A failed pull of a misfit task counts in `nr_balance_failed`, and may lengthen the interval.
    pub misfit_failure_counts: bool,
    /// Starting an active balance raises `nr_balance_failed` to where cache-hot tasks move.
    pub active_balance_raises_failures: bool,
}

impl Default for BalanceRules {
    fn default() -> Self {
        Self {
            newidle_needs_migration_cost: true,
            newidle_ages_tickless: true,
            ages_tickless_after_newidle: false,
            raised_cost_delays_decay: false,
            busy_interval_shortened_by: 0,
            sched_idle_is_busy: true,
            sched_idle_at_once: false,
            misfit_failure_counts: true,
            active_balance_raises_failures: true,
        }
    }
}

/// Machine-wide switches that decisions read.
#[derive(Clone, Debug)]
pub struct SystemState {
    /// `sched_smt_active()`.
    pub smt_active: bool,
    /// CPUs of the machine have different capacities (`sched_asym_cpucap_active()`).
    pub asym_capacity: bool,
    /// The largest capacity of any CPU (`rd->max_cpu_capacity`).
    pub max_cpu_capacity: u64,
    /// CPUs of an LLC share a cache below it (`sched_cluster_active`, v6.12).
    pub clusters: bool,
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
    /// SIS_UTIL: the search for an idle CPU is cut by the utilization of the LLC (v6.12).
    pub sis_util: bool,
    /// PLACE_LAG: a task enters a queue with the lag that it left one with (v6.12).
    pub place_lag: bool,
}

impl Default for SystemState {
    fn default() -> Self {
        Self {
            smt_active: false,
            asym_capacity: false,
            max_cpu_capacity: 1024,
            clusters: false,
            energy_aware: false,
            perf_domains: false,
            overutilized: false,
            numa_balancing: false,
            migration_cost_ns: 500_000,
            nr_migrate: 32,
            preemption: true,
            sis_util: true,
            place_lag: true,
        }
    }
}

/// What every decision reads of the machine: fixed during the decision, shared by all of them.
#[derive(Clone, Copy)]
pub struct LbView<'a> {
    /// The table of slots: slots call each other through it only.
    pub kernel: &'a Kernel,
    /// All groups; the rings of the domains index it.
    pub groups: &'a [SchedGroup],
    /// Per capacity object: its affinity-imbalance flag (`sgc->imbalance`).
    pub sgc_imbalance: &'a [bool],
    /// The runqueues' statistics.
    pub rqs: &'a RqStats,
    /// Machine-wide switches.
    pub system: &'a SystemState,
    /// Node of each CPU (`cpu_to_node()`).
    pub node_of: &'a [u32],
}

/// The state of one balance pass (`struct lb_env`).
pub struct LbEnv<'a> {
    /// The table of slots: slots call each other through it only.
    pub kernel: &'a Kernel,
    /// The domain of the pass; `sd.ring[0]` is the group of `dst_cpu`.
    pub sd: &'a SchedDomain,
    /// All groups; `sd.ring` indexes it.
    pub groups: &'a [SchedGroup],
    /// Per capacity object: its affinity-imbalance flag (`sgc->imbalance`).
    pub sgc_imbalance: &'a [bool],
    /// The runqueues' statistics.
    pub rqs: &'a RqStats,
    /// Machine-wide switches.
    pub system: &'a SystemState,
    /// Node of each CPU (`cpu_to_node()`).
    pub node_of: &'a [u32],
    /// CPU that pulls.
    pub dst_cpu: usize,
    /// Why the pass runs.
    pub idle: CpuIdleType,
    /// CPUs of the domain that are not in `env->cpus`; `None` = all are.
    pub excluded: Option<&'a CpuMask>,
    /// `sd->nr_balance_failed`.
    pub nr_balance_failed: u32,
    /// CPUs of the LLC of `dst_cpu` (`sd_llc_size`); 0 = no domain shares one.
    pub llc_size: u32,
    /// Out: statistics of the groups in ring order, the local group first, as `find_busiest_group` saw them.
    /// The caller owns the vector, so that passes need not allocate.
    pub stats: &'a mut Vec<SgLbStats>,
    /// How much to move, in units of `migration_type`; set by `calculate_imbalance`, used up by `detach_tasks`.
    pub imbalance: i64,
    /// What `imbalance` counts.
    pub migration_type: MigrationType,
    /// Out: which queues may be pulled from.
    pub fbq_type: FbqType,
    /// Class of the busiest group where the source is chosen by it (v5.4, which has no migration types).
    pub src_grp_type: GroupType,
    /// Out: CPUs that a wake-up may look at in the LLC (SIS_UTIL, v6.12); `None` = as before.
    pub nr_idle_scan: Option<u32>,
    /// Out: some CPU has two or more tasks, or a misfit (`SG_OVERLOAD`); the kernel keeps it at a root domain only.
    pub overload: bool,
    /// Out: some CPU is over-utilised (`SG_OVERUTILIZED`); looked at only where energy-aware scheduling reads it.
    pub overutilized: bool,
    /// Source CPU, once chosen.
    pub src_cpu: usize,
    /// State of the scan of the source's tasks.
    pub scan: TaskScan,
}

impl<'a> LbEnv<'a> {
    /// A pass over `sd` on behalf of `dst_cpu`, before anything was decided.
    pub fn new(
        view: LbView<'a>,
        sd: &'a SchedDomain,
        dst_cpu: usize,
        idle: CpuIdleType,
        nr_balance_failed: u32,
        stats: &'a mut Vec<SgLbStats>,
    ) -> Self {
        stats.clear();
        Self {
            kernel: view.kernel,
            sd,
            groups: view.groups,
            sgc_imbalance: view.sgc_imbalance,
            rqs: view.rqs,
            system: view.system,
            node_of: view.node_of,
            dst_cpu,
            idle,
            excluded: None,
            nr_balance_failed,
            llc_size: 0,
            stats,
            imbalance: 0,
            migration_type: MigrationType::Load,
            fbq_type: FbqType::All,
            src_grp_type: GroupType::Other,
            nr_idle_scan: None,
            overload: false,
            overutilized: false,
            src_cpu: dst_cpu,
            scan: TaskScan::default(),
        }
    }

    /// The group at `index` of the ring.
    #[inline]
    pub fn group(&self, index: usize) -> &'a SchedGroup {
        &self.groups[self.sd.ring[index]]
    }

    /// Whether `cpu`, a CPU of the domain, is in `env->cpus`.
    #[inline]
    pub fn may_use(&self, cpu: usize) -> bool {
        self.excluded.is_none_or(|excluded| !excluded.test(cpu))
    }

    /// Whether `a` is preferred to `b` under asym packing: `sched_asym_prefer()`.
    #[inline]
    pub fn asym_prefer(&self, a: usize, b: usize) -> bool {
        self.rqs.asym_prio[a] > self.rqs.asym_prio[b]
    }
}

/// State of the scan of a source's tasks: the loop counters and `LBF_*` flags of `struct lb_env`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskScan {
    /// Tasks looked at so far (`env->loop`).
    pub nr_looked_at: u32,
    /// Number of looked-at tasks at which the scan takes a break (`env->loop_break`).
    pub loop_break: u32,
    /// Most tasks to look at: `min(sysctl_sched_nr_migrate, nr_running)` of the source (`env->loop_max`).
    pub loop_max: u32,
    /// No task seen so far may run on the destination (`LBF_ALL_PINNED`).
    pub all_pinned: bool,
    /// Some task may not run on the destination (`LBF_SOME_PINNED`).
    pub some_pinned: bool,
    /// The scan took a break and wants to go on (`LBF_NEED_BREAK`).
    pub need_break: bool,
    /// Another destination was found for a pinned task (`LBF_DST_PINNED`); it is `new_dst_cpu`.
    /// Active balance presets it so that nobody looks for one.
    pub dst_pinned: bool,
    /// The pass is an active balance (`LBF_ACTIVE_LB`, 5.14 and later).
    pub active_lb: bool,
    /// The other destination, where `dst_pinned` was set by the scan.
    pub new_dst_cpu: usize,
    /// Runnable tasks of every class left on the source; `detach_tasks` keeps it up to date.
    pub src_nr_running: u32,
    /// Tasks left on the source that prefer its node; `detach_tasks` keeps it up to date.
    pub src_nr_preferred_running: u32,
    /// Tasks that moved although cache-hot, because balancing had failed too often (`lb_hot_gained`).
    pub nr_hot_gained: u32,
    /// Why tasks were refused.
    pub refused: Refusals,
}

/// How many looked-at tasks stayed, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Refusals {
    /// Their group is throttled.
    pub throttled: u32,
    /// They may not run on the destination.
    pub affinity: u32,
    /// They run just now.
    pub running: u32,
    /// They are cache-hot, or would leave their memory.
    pub hot: u32,
    /// They are too big for the imbalance, or, for a misfit pull, fit where they are.
    pub size: u32,
    /// They are ahead of the average of their queue (a patch).
    pub ineligible: u32,
}

impl TaskScan {
    /// Tasks between two breaks (`sched_nr_migrate_break`).
    pub const NR_MIGRATE_BREAK: u32 = 32;
}

impl Default for TaskScan {
    /// Before the first task: all are taken as pinned until one is not.
    fn default() -> Self {
        Self {
            nr_looked_at: 0,
            loop_break: Self::NR_MIGRATE_BREAK,
            loop_max: 0,
            all_pinned: true,
            some_pinned: false,
            need_break: false,
            dst_pinned: false,
            active_lb: false,
            new_dst_cpu: 0,
            src_nr_running: 0,
            src_nr_preferred_running: 0,
            nr_hot_gained: 0,
            refused: Refusals::default(),
        }
    }
}

/// What the balancer sees of a task that it may pull.
#[derive(Clone, Copy, Debug)]
pub struct TaskView<'a> {
    /// `task_h_load()`.
    pub load: u64,
    /// `task_util_est()`.
    pub util: u64,
    /// Bounds of it.
    pub clamp: Clamp,
    /// Time since the task last started to run, ns: the queue's clock less `exec_start`.
    pub age_ns: i64,
    /// The task runs just now.
    pub running: bool,
    /// SCHED_IDLE.
    pub idle_policy: bool,
    /// It is its queue's next buddy.
    pub next_buddy: bool,
    /// It is its queue's last buddy.
    pub last_buddy: bool,
    /// Its group is throttled on the source or the destination (`throttled_lb_pair()`).
    pub throttled: bool,
    /// A kernel thread bound to one CPU (6.12).
    pub per_cpu_kthread: bool,
    /// It is not ahead of the average of its queue; true in queues that do not ask.
    pub eligible: bool,
    /// CPUs where it may run; `None` = everywhere.
    pub allowed: Option<&'a CpuMask>,
    /// What NUMA balancing knows of it; `None` without fault records.
    pub numa: Option<TaskNuma>,
}

impl TaskView<'_> {
    /// What the task needs.
    #[inline]
    pub fn demand(&self) -> Demand {
        Demand { util: self.util, clamp: self.clamp }
    }

    /// Whether the task may run on `cpu`.
    #[inline]
    pub fn may_run_on(&self, cpu: usize) -> bool {
        self.allowed.is_none_or(|allowed| allowed.test(cpu))
    }
}

/// NUMA placement of a task as the balancer weighs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskNuma {
    /// `numa_preferred_nid`.
    pub preferred_node: Option<u32>,
    /// Fault weight on the source's node: the group's if it is in a NUMA group, else the task's own.
    pub src_weight: u64,
    /// The same on the destination's node.
    pub dst_weight: u64,
}

/// A task of a [`SrcQueue`]: whatever number the queue gives it.
pub type TaskRef = u32;

/// The list of tasks that `detach_tasks` scans (`rq->cfs_tasks`), from its tail.
pub trait SrcQueue {
    /// Runnable tasks of every class on the source (`rq->nr_running`).
    fn nr_running(&self) -> u32;
    /// Tasks on the source that prefer its node (`rq->nr_preferred_running`).
    fn nr_preferred_running(&self) -> u32;
    /// The task at the list's tail.
    fn tail(&self) -> Option<TaskRef>;
    /// What the balancer sees of `task`.
    fn view(&self, task: TaskRef) -> TaskView<'_>;
    /// Moves `task` to the list's head.
    fn move_to_head(&mut self, task: TaskRef);
    /// Takes `task` off the source; `nr_running` falls by one.
    fn detach(&mut self, task: TaskRef);
}

/// Totals of a domain (`struct sd_lb_stats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SdLbStats {
    /// Position in the ring of the busiest group so far.
    pub busiest: Option<usize>,
    /// Load of all groups.
    pub total_load: u64,
    /// Capacity of all groups.
    pub total_capacity: u64,
    /// `total_load` over `total_capacity`, where a decision needed it.
    pub avg_load: u64,
    /// Tasks should spread over the groups.
    pub prefer_sibling: bool,
    /// Statistics of the busiest group so far.
    pub busiest_stat: SgLbStats,
    /// Statistics of the local group.
    pub local_stat: SgLbStats,
}

impl Default for SdLbStats {
    /// Nothing seen: any group with a task is busier than the busiest.
    fn default() -> Self {
        Self {
            busiest: None,
            total_load: 0,
            total_capacity: 0,
            avg_load: 0,
            prefer_sibling: false,
            busiest_stat: SgLbStats { idle_cpus: u32::MAX, ..SgLbStats::default() },
            local_stat: SgLbStats::default(),
        }
    }
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
    /// Cores of the group (`group->cores`, v6.12).
    pub group_cores: u32,
    /// The class.
    pub group_type: GroupType,
    /// Load of an average task (v5.4).
    pub load_per_task: u64,
    /// More to do than the CPUs can, or than its share of the tasks (v5.4).
    pub group_no_capacity: bool,
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
            group_cores: 0,
            group_type: GroupType::HasSpare,
            load_per_task: 0,
            group_no_capacity: false,
            group_asym_packing: false,
            group_smt_balance: false,
            group_misfit_task_load: 0,
            nr_numa_running: 0,
            nr_preferred_running: 0,
        }
    }
}

/// The task that slow-path placement (fork, exec, slow wake-up) looks for a group for.
#[derive(Clone, Copy, Debug)]
pub struct PlacedTask<'a> {
    /// `task_h_load()`.
    pub load: u64,
    /// `task_util_est()`: what must fit, and what the task's CPU already counts.
    pub util: u64,
    /// Bounds of it.
    pub clamp: Clamp,
    /// Its `runnable_avg`.
    pub runnable: u64,
    /// Its present or previous CPU (`task_cpu()`).
    pub cpu: usize,
    /// Fork: it contributes nowhere yet.
    pub new: bool,
    /// Exec: it runs on `cpu` just now.
    pub queued: bool,
    /// CPUs where it may run; `None` = everywhere.
    pub allowed: Option<&'a CpuMask>,
    /// It may use every CPU that a kernel can have (`nr_cpus_allowed == NR_CPUS`): nobody ever restricted it.
    pub unrestricted: bool,
    /// `numa_preferred_nid`.
    pub preferred_node: Option<u32>,
}

impl PlacedTask<'_> {
    /// What the task needs.
    #[inline]
    pub fn demand(&self) -> Demand {
        Demand { util: self.util, clamp: self.clamp }
    }
}

/// The state of one `find_idlest_group()`.
pub struct IdlestEnv<'a> {
    /// The machine.
    pub view: LbView<'a>,
    /// The domain; `sd.ring[0]` is the group of `this_cpu`.
    pub sd: &'a SchedDomain,
    /// CPU of the caller.
    pub this_cpu: usize,
    /// The task to place.
    pub task: PlacedTask<'a>,
    /// Out: statistics of the groups in ring order; `None` where the task may not run.
    pub stats: &'a mut Vec<Option<SgLbStats>>,
}

impl<'a> IdlestEnv<'a> {
    /// The group at `index` of the ring.
    #[inline]
    pub fn group(&self, index: usize) -> &'a SchedGroup {
        &self.view.groups[self.sd.ring[index]]
    }
}

/// One of the two CPUs that `wake_affine()` compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeCpu {
    /// `available_idle_cpu()`.
    pub idle: bool,
    /// Runnable tasks.
    pub nr_running: u32,
    /// `cpu_load()`.
    pub load: u64,
    /// `capacity_of()`.
    pub capacity: u64,
}

/// What `wake_affine()` reads.
#[derive(Clone, Copy)]
pub struct WakeAffineEnv<'a> {
    /// The table of slots.
    pub kernel: &'a Kernel,
    /// `imbalance_pct` of the domain.
    pub imbalance_pct: u32,
    /// The waker is about to sleep (WF_SYNC).
    pub sync: bool,
    /// The two CPUs share their last-level cache.
    pub share_cache: bool,
    /// The waker's CPU.
    pub this: WakeCpu,
    /// CPU where the wakee ran last.
    pub prev: WakeCpu,
    /// `task_h_load()` of the waker.
    pub waker_load: u64,
    /// `task_h_load()` of the wakee.
    pub wakee_load: u64,
}

/// What `wake_cap()` reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeCapEnv {
    /// The machine has CPUs of different capacities.
    pub asym_capacity: bool,
    /// `task_util()` of the wakee.
    pub task_util: u64,
    /// The lesser `capacity_orig` of the waker's CPU and the previous one.
    pub min_capacity_orig: u64,
    /// The largest capacity of any CPU (`rd->max_cpu_capacity`).
    pub max_cpu_capacity: u64,
}

/// An answer of `wake_affine()` or of one of its rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum WakeTarget {
    /// The waker's CPU.
    This,
    /// CPU where the wakee ran last.
    Prev,
}
