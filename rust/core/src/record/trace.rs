//! What ran where: every change of every task's state.

/// Where a task stands in a [`Trace`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskTraceState {
    /// Asleep, or ended.
    Asleep,
    /// Runnable, but not running.
    Waiting,
    /// Running.
    Running,
}

/// A task's new state, and the CPU on which it has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEvent {
    /// When, ns.
    pub time_ns: u64,
    /// The task.
    pub task: u32,
    /// The CPU.
    pub cpu: u16,
    /// The state.
    pub state: TaskTraceState,
}

/// All changes of state of a run, in order; those before `start_ns` give the states at the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Start of the window (`T0`), ns.
    pub start_ns: u64,
    /// Its end, ns.
    pub end_ns: u64,
    /// The changes.
    pub events: Vec<TraceEvent>,
}
