//! Runqueues and tasks: plain data, each field with its twin in the kernel.

use crate::cpumask::CpuMask;
use crate::kernels::capacity::Clamp;
use crate::kernels::eevdf::VirtualClock;
use crate::load_weight::LoadWeight;
use crate::pelt::{Removed, SchedAvg};
use crate::rng::Rng;
use crate::sim::groups::{GroupId, QueueId};
use crate::sim::program::Program;
use crate::sim::rt::RtRq;
use crate::sim::timeline::Timeline;

/// A task's index in `Sim::tasks`.
pub type TaskId = u32;

/// An entity's number: a task's is its own, those of groups come behind all tasks.
pub type EntityId = TaskId;

/// No task: the end of a list, an idle CPU.
pub const NO_TASK: TaskId = TaskId::MAX;

/// `UTIL_AVG_UNCHANGED`: the estimate was stored and util_avg has not moved since.
pub const UTIL_AVG_UNCHANGED: u32 = 1;

/// Where a task stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Not forked yet.
    New,
    /// Running or waiting in a runqueue (`on_rq`).
    Runnable,
    /// Asleep.
    Sleeping,
    /// Woken and on the way to a remote CPU's wake list (`TASK_WAKING`).
    Waking,
    /// Exited.
    Dead,
}

/// `struct sched_entity` of a task, or of a group on one CPU.
#[derive(Clone, Debug)]
pub struct SchedEntity {
    /// Weighted run time, ns; in a queue by virtual run time relative to min_vruntime while the task migrates.
    pub vruntime: u64,
    /// `load.weight`, scaled by 1024.
    pub weight: u64,
    /// `load.inv_weight`.
    pub inv_weight: u32,
    /// `runnable_weight`: of a group's entity, in the modern form the tasks below it; in the old form, of every entity,
    /// the part of its weight that is runnable.
    pub runnable_weight: u64,
    /// Whether the entity is queued or running.
    pub on_rq: bool,
    /// Start of the span of run time not yet accounted.
    pub exec_start: u64,
    /// All run time, ns.
    pub sum_exec_runtime: u64,
    /// `sum_exec_runtime` when the task was last picked.
    pub prev_sum_exec_runtime: u64,
    /// Virtual time by which the present request is to be served; relative to `vruntime` if `rel_deadline`.
    pub deadline: u64,
    /// Lag when the entity last left a queue, virtual ns: what it was owed (`vlag`).
    pub vlag: i64,
    /// Length of a request, ns (`slice`).
    pub slice_ns: u64,
    /// The slice is the entity's own (sched_setattr()), not the system's.
    pub custom_slice: bool,
    /// `deadline` is what was left when the entity left its queue (`rel_deadline`).
    pub rel_deadline: bool,
    /// The running entity keeps the CPU for its slice while it is eligible; the kernel says so by `vlag == deadline`.
    pub slice_protected: bool,
    /// The entity sleeps, but stays queued until it is picked (`sched_delayed`).
    pub sched_delayed: bool,
    /// The task is SCHED_IDLE, or the group idle as a whole (`se_is_idle()`).
    pub idle: bool,
    /// The PELT signals.
    pub avg: SchedAvg,
    /// `util_est.enqueued`, with [`UTIL_AVG_UNCHANGED`] in bit 0.
    pub util_est_enqueued: u32,
    /// `util_est.ewma`.
    pub util_est_ewma: u32,
}

impl SchedEntity {
    /// An entity that was never queued.
    pub fn new(load: LoadWeight, avg: SchedAvg) -> Self {
        Self {
            vruntime: 0,
            weight: load.weight,
            inv_weight: load.inv_weight,
            runnable_weight: load.weight,
            on_rq: false,
            exec_start: 0,
            sum_exec_runtime: 0,
            prev_sum_exec_runtime: 0,
            deadline: 0,
            vlag: 0,
            slice_ns: 0,
            custom_slice: false,
            rel_deadline: false,
            slice_protected: false,
            sched_delayed: false,
            idle: false,
            avg,
            util_est_enqueued: 0,
            util_est_ewma: 0,
        }
    }
}

/// `struct task_struct`, as far as the fair scheduler reads it, and what the task does.
#[derive(Clone, Debug)]
pub struct Task {
    /// The fair entity.
    pub se: SchedEntity,
    /// Where the task stands.
    pub state: TaskState,
    /// `task_cpu()`: where it runs, waits or last ran.
    pub cpu: u16,
    /// CPU whose caches it last ran on; differs from `cpu` after a move.
    pub last_run_cpu: u16,
    /// `recent_used_cpu`.
    pub recent_used_cpu: u16,
    /// The group that it is in.
    pub group: GroupId,
    /// `last_wakee`.
    pub last_wakee: TaskId,
    /// `wakee_flips`.
    pub wakee_flips: u32,
    /// `wakee_flip_decay_ts`, jiffies.
    pub wakee_flip_decay_ts: u64,
    /// CPUs the task may use; `None` = all.
    pub allowed: Option<Box<CpuMask>>,
    /// Bounds of what it is taken to need (`uclamp`).
    pub clamp: Clamp,
    /// `rt_priority` of a SCHED_FIFO task; 0 of a fair one.
    pub rt_priority: u8,
    /// A kernel thread (PF_KTHREAD).
    pub kthread: bool,
    /// A thread of its parent's process.
    pub thread: bool,
    /// It belongs to what is measured.
    pub measured: bool,
    /// Neighbours in the runqueue's list of tasks (`group_node`): towards the head and towards the tail.
    pub list_prev: TaskId,
    /// See `list_prev`.
    pub list_next: TaskId,
    /// Address space: a switch between two spaces costs more.
    pub mm: u32,
    /// What it keeps in the caches, KiB.
    pub footprint_kib: u32,
    /// Work left of the present step at full speed, ns, while the task is not running.
    pub remaining_ns: u64,
    /// Since when it waits in a runqueue, for run_delay.
    pub queued_since_ns: u64,
    /// When `Op::WaitStart` lets it go, ns.
    pub start_ns: u64,
    /// What it does.
    pub program: Program,
    /// The stream of its work times.
    pub rng: Rng,
}

impl Task {
    /// Whether it may use one CPU only (`nr_cpus_allowed == 1`).
    pub fn is_pinned(&self) -> bool {
        self.allowed.as_ref().is_some_and(|allowed| allowed.weight() == 1)
    }

    /// is_per_cpu_kthread().
    #[inline]
    pub fn is_per_cpu_kthread(&self) -> bool {
        self.kthread && self.is_pinned()
    }
}

/// `struct cfs_rq` of a CPU, or of a group on it.
#[derive(Clone, Debug)]
pub struct CfsRq {
    /// Which queue it is.
    pub id: QueueId,
    /// Waiting entities; the running one is not in it.
    pub timeline: Timeline,
    /// `min_vruntime`; only of a queue by virtual run time.
    pub min_vruntime: u64,
    /// Sums over the waiting entities; only of a queue by deadline.
    pub clock: VirtualClock,
    /// Sum of the weights of all queued entities, the running one included (`load`).
    pub load: LoadWeight,
    /// Queued entities, the running one and those whose dequeue is delayed included.
    pub nr_running: u32,
    /// Tasks among and below them (`h_nr_running`).
    pub h_nr_running: u32,
    /// Those of them that are SCHED_IDLE, or in an idle group below this one (`idle_h_nr_running`).
    pub idle_h_nr_running: u32,
    /// Sum of the entities' `runnable_weight`; only of the old form.
    pub runnable_weight: u64,
    /// The running entity.
    pub curr: EntityId,
    /// `next` buddy.
    pub next: EntityId,
    /// `last` buddy; only of a queue by virtual run time.
    pub last: EntityId,
    /// The queue's PELT signals.
    pub avg: SchedAvg,
    /// Signals of tasks that left while asleep, to be taken off at the next update.
    pub removed: Removed,
    /// `avg.util_est.enqueued`.
    pub util_est_enqueued: u32,
}

/// A CPU with its `struct rq`.
#[derive(Clone, Debug)]
pub struct Rq {
    /// The fair queue.
    pub cfs: CfsRq,
    /// The real-time queue.
    pub rt: RtRq,
    /// The running task; [`NO_TASK`] = idle (`curr`).
    pub curr: TaskId,
    /// `clock` (and `clock_task`: no interrupt time is taken off), as of the last update.
    pub clock: u64,
    /// `clock_pelt`.
    pub clock_pelt: u64,
    /// `lost_idle_time`.
    pub lost_idle_time: u64,
    /// Head of the list of runnable tasks (`cfs_tasks`): latest enqueued or picked.
    pub list_head: TaskId,
    /// Its tail, where balancing starts.
    pub list_tail: TaskId,
    /// `idle_stamp`, 0 = none.
    pub idle_stamp: u64,
    /// `avg_idle`, ns.
    pub avg_idle: u64,
    /// `max_idle_balance_cost`, ns.
    pub max_idle_balance_cost: u64,
    /// `next_balance`, jiffies.
    pub next_balance: u64,
    /// `idle_balance`: the last tick found the CPU idle.
    pub idle_balance: bool,
    /// The idle CPU has no tick (`nohz.idle_cpus_mask`).
    pub nohz_idle: bool,
    /// `has_blocked_load`.
    pub has_blocked_load: bool,
    /// `last_blocked_load_update_tick`, jiffies.
    pub last_blocked_load_update_tick: u64,
    /// An active balance is on the way (`active_balance`).
    pub active_balance: bool,
    /// Its destination (`push_cpu`).
    pub push_cpu: u16,
    /// `TIF_NEED_RESCHED` of the running task, as seen on this CPU.
    pub need_resched: bool,
    /// Woken tasks that an interrupt will bring (`wake_list`), and whether each comes from another CPU.
    pub wake_list: Vec<(TaskId, bool)>,
    /// Interrupts on the way: (time, what), few.
    pub pending: Vec<(u64, Interrupt)>,
    /// When the running task's step is done at the present speed.
    pub step_end_ns: u64,
    /// Next tick; [`super::event::NEVER`] while the CPU is tickless.
    pub tick_at_ns: u64,
    /// Kernel time to be spent before the next step's own work, ns.
    pub overhead_ns: u64,
    /// Present speed, per mille of this CPU's full speed; 1000 without busy SMT siblings.
    pub speed_permille: u32,
    /// `sd_llc->avg_scan_cost` of this CPU, ns.
    pub avg_scan_cost: u64,
    /// Since when the CPU has run its present task or been idle, for `rq_cpu_time`.
    pub since_ns: u64,
}

impl Rq {
    /// `nr_running`: runnable tasks of every class.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        self.cfs.h_nr_running + self.rt.queue.len() as u32
    }
}

/// What an interrupt asks a CPU to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// Look at need_resched and at the wake list (`scheduler_ipi()`).
    Reschedule,
    /// Balance for the tickless idle CPUs (`nohz_csd_func()`).
    NohzKick,
    /// Run the stopper's push (`active_load_balance_cpu_stop()`).
    ActiveBalance,
    /// Put throttled queues back (`__cfsb_csd_unthrottle()`).
    Unthrottle,
}
