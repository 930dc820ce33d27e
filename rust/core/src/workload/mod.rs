//! Loads: what tasks there are and what they do.

pub mod attributes;
pub mod groups;
pub mod hackbench;
pub mod hotplug;
mod housekeeping;
pub mod kernbench;
pub mod lu;
pub mod memory;
pub mod tasks;
pub mod tbench;
pub mod together;

pub use hackbench::Hackbench;
pub use kernbench::Kernbench;
pub use lu::LuOmp;
pub use tasks::Tasks;
pub use tbench::Tbench;
pub use together::Together;

use self::memory::{RegionSpec, WalkSpec};
use crate::cpumask::CpuMask;
use crate::kernels::capacity::Clamp;
use crate::load_weight::{LoadWeight, NICE_0_LOAD};
use crate::sim::channel::ChannelKind;
use crate::sim::groups::GroupId;
use crate::sim::program::Op;
use crate::sim::rq::TaskId;

/// A load, ready to run: tasks, their programs and the channels between them. Task 0 starts; it forks the others.
#[derive(Clone, Debug)]
pub struct Load {
    /// The tasks.
    pub tasks: Vec<TaskSpec>,
    /// Groups beside the root, each behind its parent; a task names its own by position, from 1.
    pub groups: Vec<GroupSpec>,
    /// The programs, one after another.
    pub ops: Vec<Op>,
    /// The channels, each with the length of its messages, bytes.
    pub channels: Vec<(ChannelKind, u32)>,
    /// Mappings of the address spaces, where tasks have memory.
    pub regions: Vec<RegionSpec>,
    /// Barriers: how many tasks meet at each.
    pub barriers: Vec<u32>,
    /// What happens from outside, and when, ns after the start.
    pub actions: Vec<(u64, Action)>,
    /// What the tasks use is accounted, as time(1) tells it: user and system time, switches by kind.
    pub accounted: bool,
}

impl Load {
    /// A load of these tasks, with nothing beside them.
    pub fn new(tasks: Vec<TaskSpec>, ops: Vec<Op>) -> Self {
        Self {
            tasks,
            groups: Vec::new(),
            ops,
            channels: Vec::new(),
            regions: Vec::new(),
            barriers: Vec::new(),
            actions: Vec::new(),
            accounted: false,
        }
    }
}

/// The groups of a load whose tasks are in one, of 1024 shares, or in none.
fn one_group_if(grouped: bool) -> Vec<GroupSpec> {
    let group = GroupSpec { name: "cgroup".to_owned(), shares: NICE_0_LOAD, ..GroupSpec::default() };
    if grouped { vec![group] } else { Vec::new() }
}

/// A task group of a load.
#[derive(Clone, Debug, Default)]
pub struct GroupSpec {
    /// Its name.
    pub name: String,
    /// The group that it is in; 0 = the root.
    pub parent: GroupId,
    /// Its shares, scaled by 1024.
    pub shares: u64,
    /// It is idle as a whole (`cpu.idle`).
    pub idle: bool,
    /// Its limit of CPU time, if it has one.
    pub bandwidth: Option<BandwidthSpec>,
}

/// A limit of CPU time (`cpu.max`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BandwidthSpec {
    /// CPU time in a period, ns.
    pub quota_ns: u64,
    /// The period, ns.
    pub period_ns: u64,
    /// What may be saved up beyond the quota, ns (`cpu.max.burst`).
    pub burst_ns: u64,
}

/// Something that happens to a run from outside.
#[derive(Clone, Debug)]
pub enum Action {
    /// sched_setaffinity() of a task.
    SetAffinity {
        /// The task.
        task: TaskId,
        /// CPUs allowed from now on.
        mask: CpuMask,
    },
    /// A CPU goes off or comes back.
    Hotplug {
        /// The CPU.
        cpu: usize,
        /// It comes back.
        online: bool,
        /// The machine's state after that, an index into `Setup::plugged`.
        state: usize,
    },
    /// So many tasks are counted by the node that they are on, again and again; counts outside the clock's time are left out.
    CountByNode {
        /// The first task.
        first: TaskId,
        /// How many.
        count: u32,
        /// Time from one count to the next, ns.
        period_ns: u64,
    },
    /// The clock of the measurements starts.
    ClockStart,
    /// It stops, and with it the run.
    ClockStop,
}

/// A task of a load.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Start of its program in [`Load::ops`].
    pub program: u32,
    /// The task that waits for its end.
    pub parent: TaskId,
    /// Address space.
    pub mm: u32,
    /// What it keeps in the caches, KiB: refilled after a move.
    pub footprint_kib: u32,
    /// Group, 0 = the root.
    pub group: GroupId,
    /// Weight, from nice or policy.
    pub weight: LoadWeight,
    /// Nice value, for kernels without weights.
    pub nice: i8,
    /// SCHED_IDLE.
    pub idle: bool,
    /// CPUs it may use; `None` = all.
    pub allowed: Option<CpuMask>,
    /// Bounds of what it is taken to need.
    pub clamp: Clamp,
    /// Priority of a SCHED_FIFO task; 0 of a fair one.
    pub rt_priority: u8,
    /// A kernel thread.
    pub kthread: bool,
    /// A thread of its parent's process.
    pub thread: bool,
    /// It belongs to what is measured, not to what runs beside it.
    pub measured: bool,
    /// When `Op::WaitStart` lets it go, ns after the start.
    pub start_ns: u64,
    /// Up to how much later, drawn by the seed, ns.
    pub start_jitter_ns: u64,
    /// A slice of its own (sched_setattr()), for kernels whose queue has slices; `None` = the system's.
    pub slice_ns: Option<u64>,
    /// How it goes through its memory; `None` = its memory is not looked at.
    pub memory: Option<WalkSpec>,
}

/// Stacks, task structures and buffers of a task that does little with memory, KiB: assumed.
const FOOTPRINT_KIB: u32 = 16;

impl TaskSpec {
    /// A child of task 0 in address space 0, allowed everywhere.
    pub fn new(program: u32, weight: LoadWeight) -> Self {
        Self {
            program,
            parent: 0,
            mm: 0,
            footprint_kib: FOOTPRINT_KIB,
            group: 0,
            weight,
            nice: 0,
            idle: false,
            allowed: None,
            clamp: Clamp::default(),
            rt_priority: 0,
            kthread: false,
            thread: false,
            measured: true,
            start_ns: 0,
            start_jitter_ns: 0,
            slice_ns: None,
            memory: None,
        }
    }
}
