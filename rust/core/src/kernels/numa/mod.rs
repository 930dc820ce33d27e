//! NUMA balancing: where on a node a task should go that wants to run near its memory.
//!
//! A search looks at one destination node: its statistics and those of the source's node say whether the task may
//! simply move there, and the node's CPUs are tried one after the other, for a free place or for a task to change
//! places with. What the search reads of tasks is what NUMA balancing knows of them, as plain data; it leaves its
//! answer and the claims on CPUs (`numa_migrate_on`) in the environment.
//!
//! Up to v5.6 load decides, [`v5_6`]; v5.7 is that with [`numa_lb_reconcile`](super::patches::numa_lb_reconcile), and
//! [`v6_12`] holds what changed after it.

pub mod faults;
pub mod v5_6;
pub mod v6_12;

use super::Kernel;
use super::env::{RqStats, SystemState, TaskRef};
use crate::cpumask::CpuMask;

/// Gain below which nothing is exchanged (`SMALLIMP`): a thousandth of a task's faults is 1.
const SMALLIMP: i64 = 30;

/// The state of one search for a place on a node (`struct task_numa_env`).
pub struct NumaEnv<'a> {
    /// The table of slots: slots call each other through it only.
    pub kernel: &'a Kernel,
    /// The runqueues' statistics. Up to v5.6 `load` is the load of queued tasks here (`cpu_runnable_load()`).
    pub rqs: &'a RqStats,
    /// Machine-wide switches.
    pub system: &'a SystemState,
    /// What runs where.
    pub cpus: &'a dyn NumaCpus,
    /// CPUs that take part in a move or swap already (`rq->numa_migrate_on`).
    pub numa_migrate_on: &'a mut CpuMask,
    /// The task to place, which runs on `src_cpu`.
    pub p: NumaTask<'a>,
    /// CPU of the task.
    pub src_cpu: usize,
    /// Its node.
    pub src_nid: u32,
    /// The node to search.
    pub dst_nid: u32,
    /// CPUs of `dst_nid` (`cpumask_of_node()`).
    pub dst_cpus: &'a CpuMask,
    /// Half of what the NUMA domain tolerates, in per cent: 100 + (imbalance_pct - 100) / 2.
    pub imbalance_pct: u32,
    /// `imb_numa_nr` of the NUMA domain (5.18 and later).
    pub imb_numa_nr: u32,
    /// Statistics of the source's node.
    pub src_stats: NumaStats,
    /// Statistics of the node to search.
    pub dst_stats: NumaStats,
    /// CPU of `dst_nid` that is looked at just now, or was chosen in its place.
    pub dst_cpu: usize,
    /// Best CPU so far; it holds a claim in `numa_migrate_on`.
    pub best_cpu: Option<usize>,
    /// Task to change places with on `best_cpu`; `None` = a plain move.
    pub best_task: Option<NumaTask<'a>>,
    /// Gain of the best place so far.
    pub best_imp: i64,
}

/// What a search asks of CPUs that statistics do not say.
pub trait NumaCpus {
    /// The task running on `cpu`; `None` for the idle task.
    fn curr(&self, cpu: usize) -> Option<NumaTask<'_>>;
    /// Whether some core of the CPU's LLC is thought to be idle (`test_idle_cores()`).
    fn test_idle_cores(&self, cpu: usize) -> bool;
}

/// What NUMA balancing knows of a task; weights are on the nodes of the search: `[source, destination]`.
#[derive(Clone, Copy, Debug)]
pub struct NumaTask<'a> {
    /// Whatever number its owner gives it.
    pub id: TaskRef,
    /// `task_h_load()`.
    pub load: i64,
    /// Its NUMA group.
    pub numa_group: Option<u32>,
    /// `numa_preferred_nid`.
    pub preferred_node: Option<u32>,
    /// `task_weight()`: thousandths of its own faults.
    pub task_weights: [i64; 2],
    /// `group_weight()`: thousandths of its group's faults.
    pub group_weights: [i64; 2],
    /// It is about to exit (PF_EXITING).
    pub exiting: bool,
    /// CPUs where it may run; `None` = everywhere.
    pub allowed: Option<&'a CpuMask>,
}

impl NumaTask<'_> {
    /// Whether the task may run on `cpu`.
    #[inline]
    pub fn may_run_on(&self, cpu: usize) -> bool {
        self.allowed.is_none_or(|allowed| allowed.test(cpu))
    }

    /// What the task itself gains by going from the source's node to the destination.
    #[inline]
    pub fn task_gain(&self) -> i64 {
        self.task_weights[1] - self.task_weights[0]
    }

    /// What its group says it gains.
    #[inline]
    pub fn group_gain(&self) -> i64 {
        self.group_weights[1] - self.group_weights[0]
    }
}

/// Statistics of a node (`struct numa_stats`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NumaStats {
    /// Sum of load.
    pub load: u64,
    /// Sum of utilization (v5.7).
    pub util: u64,
    /// Sum of runnable_avg (5.10).
    pub runnable: u64,
    /// Sum of capacity.
    pub compute_capacity: u64,
    /// Sum of runnable fair tasks (v5.7).
    pub nr_running: u32,
    /// CPUs (v5.7).
    pub weight: u32,
    /// The class; `None` in kernels that do not class nodes, before v5.7.
    pub node_type: Option<NumaType>,
    /// A free idle CPU where the task may run, on an idle core if there is one (v5.7).
    pub idle_cpu: Option<usize>,
}

/// State of a node (`enum numa_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NumaType {
    /// Capacity to spare.
    HasSpare,
    /// No capacity left, but no task waits.
    FullyBusy,
    /// More tasks than the CPUs can serve.
    Overloaded,
}

impl NumaType {
    /// The kernel's name, without its `node_` prefix.
    pub fn name(self) -> &'static str {
        match self {
            Self::HasSpare => "has_spare",
            Self::FullyBusy => "fully_busy",
            Self::Overloaded => "overloaded",
        }
    }
}

impl<'a> NumaEnv<'a> {
    /// Fills the statistics of both nodes, as task_numa_migrate() does before a search.
    pub fn update_stats(&mut self, src_cpus: &CpuMask) {
        let update_numa_stats = self.kernel.numa.update_numa_stats.f;
        self.src_stats = update_numa_stats(self, src_cpus, false);
        self.dst_stats = update_numa_stats(self, self.dst_cpus, true);
    }

    /// Searches the destination for the best place, with the statistics as they stand.
    pub fn find_cpu(&mut self) {
        let (taskimp, groupimp) = (self.p.task_gain(), self.p.group_gain());
        (self.kernel.numa.task_numa_find_cpu.f)(self, taskimp, groupimp);
    }

    /// Whether the nodes would be further apart than now if `load` went from the source to the destination.
    pub fn is_too_imbalanced_by(&self, load: i64) -> bool {
        let (src_load, dst_load) = (self.src_stats.load as i64 - load, self.dst_stats.load as i64 + load);
        (self.kernel.numa.load_too_imbalanced.f)(self, src_load, dst_load)
    }

    /// The imbalance in tasks that the load balancer would see and not tolerate if the task had moved.
    pub fn imbalance_after_move(&self) -> i64 {
        // The task counts as running where it is; a source without tasks is one whose statistics were given by hand.
        let src_running = self.src_stats.nr_running.saturating_sub(1);
        let dst_running = self.dst_stats.nr_running + 1;
        let imbalance = (i64::from(dst_running) - i64::from(self.src_stats.nr_running) + 1).max(0);
        (self.kernel.balance.adjust_numa_imbalance.f)(imbalance, dst_running, src_running, self.imb_numa_nr)
    }

    /// The swap candidate on `dst_cpu`: its running task, unless that is about to leave.
    pub(super) fn curr(&self) -> Option<NumaTask<'a>> {
        self.cpus.curr(self.dst_cpu).filter(|cur| !cur.exiting)
    }

    /// `idle_cpu()`.
    #[inline]
    pub(super) fn is_idle(&self, cpu: usize) -> bool {
        self.rqs.idle[cpu]
    }

    /// Gain of a plain move: the group decides for a task that has one.
    pub(super) fn move_gain(&self, taskimp: i64, groupimp: i64) -> i64 {
        if self.p.numa_group.is_some() { groupimp } else { taskimp }
    }

    /// Gain of changing places with `cur`. Inside a group the tasks share their memory: what counts is the two
    /// tasks, and a little less, so that a group does not swap for ever.
    pub(super) fn swap_gain(&self, cur: &NumaTask<'_>, taskimp: i64, groupimp: i64) -> i64 {
        let p = &self.p;
        if cur.numa_group == p.numa_group {
            let imp = taskimp - cur.task_gain();
            return if cur.numa_group.is_some() { imp - imp / 16 } else { imp };
        }
        let both_grouped = cur.numa_group.is_some() && p.numa_group.is_some();
        let cost = if both_grouped { cur.group_gain() } else { cur.task_gain() };
        self.move_gain(taskimp, groupimp) - cost
    }

    /// Whether a gain is worth an exchange, and clearly better than the best place so far.
    pub(super) fn is_worth_a_swap(&self, imp: i64) -> bool {
        imp >= SMALLIMP && imp > self.best_imp + SMALLIMP / 2
    }

    /// Whether changing places with `cur` leaves the loads of the nodes acceptable.
    pub(super) fn may_exchange_load_with(&self, cur: &NumaTask<'_>) -> bool {
        let load = self.p.load - cur.load;
        load == 0 || !self.is_too_imbalanced_by(load)
    }

    /// Tries the CPUs of the destination until the comparison says that it will not get better.
    pub(super) fn try_cpus(&mut self, taskimp: i64, groupimp: i64, may_move: bool) {
        let task_numa_compare = self.kernel.numa.task_numa_compare.f;
        for cpu in self.dst_cpus.iter() {
            if !self.p.may_run_on(cpu) {
                continue;
            }
            self.dst_cpu = cpu;
            if task_numa_compare(self, taskimp, groupimp, may_move) {
                break;
            }
        }
    }

    /// Takes `dst_cpu`, already claimed, as the best place, and gives up the claim on the one before.
    pub(super) fn set_best(&mut self, task: Option<NumaTask<'a>>, imp: i64) {
        if let Some(previous) = self.best_cpu.filter(|&cpu| cpu != self.dst_cpu) {
            self.numa_migrate_on.clear(previous);
        }
        self.best_task = task;
        self.best_imp = imp;
        self.best_cpu = Some(self.dst_cpu);
    }

    /// Claims `cpu` for this move; false if another one holds it (the kernel's `xchg()`).
    pub(super) fn claim(&mut self, cpu: usize) -> bool {
        let is_free = !self.numa_migrate_on.test(cpu);
        self.numa_migrate_on.set(cpu);
        is_free
    }
}
