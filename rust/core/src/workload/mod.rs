//! Loads: what tasks there are and what they do.

pub mod hackbench;

pub use hackbench::Hackbench;

use crate::load_weight::LoadWeight;
use crate::sim::channel::ChannelKind;
use crate::sim::program::Op;
use crate::sim::rq::TaskId;

/// A load, ready to run: tasks, their programs and the channels between them. Task 0 starts; it forks the others.
#[derive(Clone, Debug)]
pub struct Load {
    /// The tasks.
    pub tasks: Vec<TaskSpec>,
    /// The programs, one after another.
    pub ops: Vec<Op>,
    /// The channels.
    pub channels: Vec<ChannelKind>,
    /// Length of every message, bytes.
    pub message_bytes: u32,
    /// Tasks are threads of one process.
    pub threads: bool,
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
    /// Weight, from nice or policy.
    pub weight: LoadWeight,
    /// A slice of its own (sched_setattr()), for kernels whose queue has slices; `None` = the system's.
    pub slice_ns: Option<u64>,
}
