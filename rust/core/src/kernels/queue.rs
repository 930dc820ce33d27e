//! What the decisions of every kind of fair queue read and say.

use std::fmt;

use super::Queue;
use crate::sim::groups::Entities;
use crate::sim::tunables::{Features, Tunables};

/// How a queue is ordered, and what its entities keep while they are off it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueForm {
    /// Ordered by virtual run time. The queue has a virtual clock that never goes back (`min_vruntime`), and an entity
    /// moves between queues with its virtual run time relative to it.
    Vruntime,
    /// Ordered by deadline. The queue keeps the weighted sum of virtual run times, and an entity moves, and sleeps,
    /// with its lag behind their average.
    Deadline,
    /// Two arrays of lists by priority, of tasks with timeslice left and of those without. There are no entities: the
    /// kernel's table of the O(1) scheduler ([`Kernel::o1`](super::Kernel::o1)) decides, and `sim::o1` keeps the arrays.
    Priority,
}

impl fmt::Display for QueueForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vruntime => "virtual run time",
            Self::Deadline => "deadline",
            Self::Priority => "priority",
        })
    }
}

/// What the queue's decisions read beside the queue.
#[derive(Clone, Copy)]
pub struct QueueEnv<'a> {
    /// The table of slots.
    pub queue: &'a Queue,
    /// Latencies, granularities and slices.
    pub tunables: &'a Tunables,
    /// Scheduler features.
    pub features: &'a Features,
    /// All entities and queues.
    pub entities: Entities<'a>,
}

/// Why an entity is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placing {
    /// It wakes up.
    Wakeup,
    /// It comes from another queue while runnable.
    Move,
    /// It is new (`ENQUEUE_INITIAL`).
    New,
}

/// Where an entity enters a queue. A queue ordered by virtual run time leaves deadline and slice as they were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Virtual run time.
    pub vruntime: u64,
    /// Virtual deadline.
    pub deadline: u64,
    /// Length of the request that the deadline stands for, ns of real time.
    pub slice_ns: u64,
}

/// What the queue finds of the running entity when it has been charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChargeVerdict {
    /// The request was served in full: deadline and slice of the next one.
    pub renewed: Option<(u64, u64)>,
    /// Another entity should have the CPU.
    pub resched: bool,
}

/// What a tick finds of the running entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickVerdict {
    /// It may run on.
    RunOn,
    /// Its slice is over; buddies must not bring it back at once.
    SliceOver,
    /// It is more than a slice ahead of the leftmost entity.
    Ahead,
}

/// What the arrival of an entity means for the running one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeupVerdict {
    /// It takes the CPU.
    pub preempt: bool,
    /// The running entity's slice is no longer protected, whoever runs next.
    pub cancel_protection: bool,
}
