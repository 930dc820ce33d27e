//! The O(1) scheduler, 2.6.15 and its neighbours: load balancing and priorities before CFS.
//!
//! Load is a number of tasks, 128 each, or a weighted sum of them, averaged over ticks. Three tables share all that is
//! alike: [`v2_6_15`] balances by number, [`prio_bias`] (Con Kolivas, 2005) multiplies loads by the priorities of the
//! tasks, and [`smpnice`] (Peter Williams, February 2006) measures load and imbalance in priorities.
//!
//! A kernel with such a table ([`Kernel::o1`](super::Kernel::o1)) decides everything by it; `sim::o1` is the mechanism
//! around the decisions. The name v2.6.15 means the scheduler that balances by number. Trees of that time come with and
//! without prio-bias; the vectors labelled `o1-v2.6.15` were taken from one with it, so they are answered by v2.6.15 with the patch
//! `prio-bias`, and those labelled `o1-v2.6.16-mm-smpnice` by that with `smpnice-weights` on top.

pub mod prio;
pub mod prio_bias;
pub mod smpnice;
pub mod v2_6_15;

use self::prio::{ExpiredArray, TaskTick};
use super::env::{CpuIdleType, MigrationType, TaskRef};
use crate::cpumask::CpuMask;
use crate::slot_table;
pub use crate::topology::o1::O1Domain;

/// Balancing by number, which the others build on.
pub static PLAIN: O1 = v2_6_15::TABLE;

/// Load of a CPU that runs one task all the time (`SCHED_LOAD_SCALE`).
pub const SCHED_LOAD_SCALE: u64 = 128;

slot_table! {
    /// The decisions of an O(1) kernel.
    O1 {
        /// What a task adds to the `prio_bias` of its runqueue.
        task_bias: fn(O1Class) -> u64,
        /// Load of a runqueue just now: what each tick averages.
        load_now: fn(&O1Rq) -> u64,
        /// A low guess at a runqueue's load: (table, runqueue, load index, why the pass runs).
        source_load: fn(&O1, &O1Rq, usize, CpuIdleType) -> u64,
        /// A high guess at a runqueue's load: (table, runqueue, load index, why the pass runs).
        target_load: fn(&O1, &O1Rq, usize, CpuIdleType) -> u64,
        /// The three averages after a tick with this load.
        update_cpu_load: fn([u64; 3], u64) -> [u64; 3],
        /// Position of the group to pull from, and into the environment how much.
        find_busiest_group: fn(&mut O1Env<'_>) -> Option<usize>,
        /// A scaled load in the unit in which `move_tasks` counts.
        imbalance_to_move: fn(u64) -> u64,
        /// What an imbalance counts.
        imbalance_unit: fn() -> MigrationType,
        /// CPU to pull from in the group at a position.
        find_busiest_queue: fn(&O1Env<'_>, usize) -> Option<usize>,
        /// What a pass may move: (imbalance, runnable tasks of the source).
        move_limit: fn(u64, u64) -> MoveLimit,
        /// What the migration thread may move.
        active_move_limit: fn() -> MoveLimit,
        /// Moves tasks up to a limit; how many it moved.
        move_tasks: fn(&mut MoveEnv<'_>, &mut dyn O1Queue, MoveLimit) -> u32,
        /// Whether a task may move to the destination.
        can_migrate_task: fn(&mut MoveEnv<'_>, &O1TaskView<'_>) -> bool,
        /// Whether the source's migration thread is to push a task: (passes that failed in a row, domain).
        need_active_balance: fn(u32, &O1Domain) -> bool,
        /// Position of the group to fork or exec on; `None` = stay: (environment, CPUs allowed to the task).
        find_idlest_group: fn(&O1Env<'_>, Option<&CpuMask>) -> Option<usize>,
        /// CPU to fork or exec on in the group at a position: (environment, position, CPUs allowed to the task).
        find_idlest_cpu: fn(&O1Env<'_>, usize, Option<&CpuMask>) -> Option<usize>,
        /// Whether a wake-up moves the wakee to the waker's CPU.
        wake_to_this_cpu: fn(&WakeEnv<'_>) -> bool,
        /// Load that is about to go from the waker's CPU in a synchronous wake-up: (bias of the wakee).
        sync_wake_load: fn(u64) -> u64,
        /// An idle CPU near the one that a wakee is to go to, or that one: (runqueues, CPU, CPUs allowed to the task, spans
        /// of the CPU's domains with SD_WAKE_IDLE, the nearest first).
        wake_idle: fn(&[O1Rq], usize, Option<&CpuMask>, &mut dyn Iterator<Item = &CpuMask>) -> usize,
        /// Whether a task takes the CPU from the running one: (its priority, the running one's, 140 for an idle CPU).
        task_preempts_curr: fn(i32, i32) -> bool,
        /// Dynamic priority: (static priority, bonus from sleeping).
        effective_prio: fn(i32, u64) -> i32,
        /// Updates sleep average and priority of a waking task: (task, time slept in ns, HZ).
        recalc_task_prio: fn(&mut prio::PrioTask, u64, u64),
        /// Time in the queue that counts as sleep when a woken task first runs: (ns, woken by an interrupt).
        credited_wait_ns: fn(u64, bool) -> u64,
        /// Takes from a task's sleep average what it ran: (task, time run in ns, HZ).
        charge_run_time: fn(&mut prio::PrioTask, u64, u64),
        /// Timeslice in jiffies: (static priority, HZ).
        task_timeslice: fn(i32, u64) -> u32,
        /// What a tick does with the running task: (table, task, state of the expired array, CPUs online, HZ).
        scheduler_tick: fn(&O1, &mut prio::PrioTask, &ExpiredArray, u32, u64) -> TaskTick,
        /// The timeslices (child, parent) that a parent's is shared into at fork, jiffies.
        share_timeslice: fn(u32) -> (u32, u32),
        /// Sleep average of a child or its parent after a fork: (parent, per cent that is left of its bonus, HZ).
        forked_sleep_avg_ns: fn(&prio::PrioTask, u64, u64) -> u64,
        /// Sleep average of a parent whose child has gone: (its own, the child's).
        reaped_sleep_avg_ns: fn(u64, u64) -> u64,
    }
}

/// A task as load balancing classes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum O1Class {
    /// An ordinary task of this static priority, 100 to 139.
    Normal(i32),
    /// A real-time task of this real-time priority, 1 to 99.
    RealTime(i32),
    /// A CPU's migration thread, which must not count: it does the balancing.
    MigrationThread,
}

/// What balancing reads of a runqueue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct O1Rq {
    /// Runnable tasks.
    pub nr_running: u64,
    /// Sum of the tasks' biases.
    pub prio_bias: u64,
    /// Averages of the load, the quickest first.
    pub cpu_load: [u64; 3],
    /// `idle_cpu()`: the idle task runs.
    pub idle: bool,
}

/// A group of a domain.
#[derive(Clone, Debug)]
pub struct O1Group {
    /// Its CPUs.
    pub cpus: CpuMask,
    /// Capacity, 128 = one CPU.
    pub cpu_power: u64,
}

/// The state of one balance pass, or of one search for an idle place.
pub struct O1Env<'a> {
    /// The table of slots: slots call each other through it only.
    pub kernel: &'a O1,
    /// The runqueues.
    pub rqs: &'a [O1Rq],
    /// The domain.
    pub sd: &'a O1Domain,
    /// Its groups in the order of their ring.
    pub groups: &'a [O1Group],
    /// CPU that pulls, or that forks.
    pub this_cpu: usize,
    /// Why the pass runs.
    pub idle: CpuIdleType,
    /// In: the domain is a core and the CPU idle. Out: all of its CPUs are.
    pub sd_idle: bool,
    /// Out: how much to move, in the unit of `move_tasks`.
    pub imbalance: u64,
}

/// How much `move_tasks` may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MoveLimit {
    /// Tasks.
    pub nr: u64,
    /// Their biases.
    pub bias: i64,
}

/// The state of one pull of tasks.
pub struct MoveEnv<'a> {
    /// The table of slots.
    pub kernel: &'a O1,
    /// The domain.
    pub sd: &'a O1Domain,
    /// Passes that failed since the last success.
    pub nr_balance_failed: u32,
    /// CPU that pulls.
    pub this_cpu: usize,
    /// Out: there were tasks to look at, and none may run on `this_cpu`.
    pub all_pinned: bool,
}

/// One of the two arrays of a runqueue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum O1Array {
    /// Tasks whose timeslice is used up.
    Expired,
    /// Tasks that have some left.
    Active,
}

/// The source of a pull: two arrays of lists by priority, of which the destination has the like.
pub trait O1Queue {
    /// The best priority, not better than `from`, at which `array` has tasks.
    fn next_prio(&self, array: O1Array, from: u32) -> Option<u32>;
    /// The last task of a list.
    fn tail(&self, array: O1Array, prio: u32) -> Option<TaskRef>;
    /// The task before `task` in its list.
    fn before(&self, task: TaskRef) -> Option<TaskRef>;
    /// What balancing sees of `task`.
    fn view(&self, task: TaskRef) -> O1TaskView<'_>;
    /// Takes `task` out of `array` and appends it to the same array of the destination.
    fn pull(&mut self, array: O1Array, task: TaskRef);
}

/// What balancing sees of a task that it may pull.
#[derive(Clone, Copy, Debug)]
pub struct O1TaskView<'a> {
    /// Its bias.
    pub bias: i64,
    /// Time since it last ran, by the clock of the source's last tick, ns.
    pub since_last_ran_ns: i64,
    /// It runs just now.
    pub running: bool,
    /// CPUs where it may run; `None` = everywhere.
    pub allowed: Option<&'a CpuMask>,
}

/// What a wake-up reads that might move the wakee from its CPU to the waker's.
#[derive(Clone, Copy)]
pub struct WakeEnv<'a> {
    /// The table of slots.
    pub kernel: &'a O1,
    /// The nearest domain of the waker's CPU that holds the wakee's; `None` without.
    pub sd: Option<&'a O1Domain>,
    /// Runqueue of the waker's CPU.
    pub this_rq: &'a O1Rq,
    /// Runqueue where the wakee ran last.
    pub prev_rq: &'a O1Rq,
    /// The waker is about to sleep.
    pub sync: bool,
    /// The wakee's last waker ran on the same CPU.
    pub same_waker_cpu: bool,
    /// The wakee may run on the waker's CPU.
    pub this_allowed: bool,
    /// Bias of the wakee.
    pub bias: u64,
}
