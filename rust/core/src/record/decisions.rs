//! Decisions: what was asked, what was read, and what was answered, in the order in which a run made them.
//!
//! A decision keeps the question and what it read (`asked`) apart from the answer. Two runs of the same work part at the
//! first decision in which the questions or the answers differ; what they read may differ before, where one kernel
//! keeps other signals than the other.

use serde::Serialize;

use crate::kernels::env::{Refusals, SgLbStats};
use crate::kernels::numa::{NumaStats, NumaType};

/// Which decisions to keep of a run, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// So many are made before the first that is kept.
    pub skip: usize,
    /// The run ends after the event in which so many are kept.
    pub limit: usize,
    /// Kinds to keep.
    pub kinds: Kinds,
}

/// Kinds of decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kinds {
    /// All.
    All,
    /// Balance passes.
    Balance,
    /// Placements of waking and new tasks.
    Placement,
}

/// The decisions of a run so far.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// In order.
    pub made: Vec<Decision>,
    wanted: Wanted,
    /// Decisions that were made and skipped.
    skipped: usize,
    /// Position of the balance pass that goes on.
    pass: Option<usize>,
    /// What the slow path has chosen so far for the task that is being placed.
    slow_path: Vec<IdlestChoice>,
}

/// A decision.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Decision {
    /// When, ns since the run's start.
    pub time_ns: u64,
    /// CPU that decided.
    pub cpu: u32,
    /// What it was about.
    #[serde(flatten)]
    pub what: What,
}

/// What a decision is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum What {
    /// Where a waking task goes.
    Wakeup(Placed),
    /// Where a new task goes.
    Fork(Placed),
    /// A task that executes another program was placed.
    Exec(Placed),
    /// A pass of load balancing over a domain.
    Balance(Box<Pass>),
    /// Which task active balance pushes off this CPU.
    Push(Push),
    /// Whether the running task gives way.
    Preemption(Preemption),
    /// Whether the running task, which is not alone, has had its slice at a tick.
    Tick(Tick),
    /// Which task runs next.
    Pick(Pick),
    /// Where NUMA balancing sends the running task.
    Numa(NumaPlaced),
}

/// Placement of a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Placed {
    /// The question, and what is read of the two CPUs that it is about.
    pub asked: PlacedAsked,
    /// The answer.
    pub answer: PlacedAnswer,
}

/// The question of a placement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PlacedAsked {
    /// The task.
    pub task: u32,
    /// The task that wakes or forks it; `None` = a timer.
    pub waker: Option<u32>,
    /// CPU where the task ran last, or where it is forked.
    pub prev_cpu: u32,
    /// The waker is about to sleep.
    pub sync: bool,
    /// The waker's CPU.
    pub this: CpuState,
    /// CPU where the task ran last.
    pub prev: CpuState,
    /// The domains that the slow path went through, from the highest down; none on the fast path.
    pub slow_path: Vec<IdlestChoice>,
}

/// The choice of a group of a domain: `find_idlest_group()`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct IdlestChoice {
    /// Name of the domain's level.
    pub level: String,
    /// Sums over the groups that the task may use.
    pub groups: Vec<GroupSums>,
    /// Their classes.
    pub group_types: Vec<&'static str>,
    /// First CPU of the group chosen; `None` = the local one is no worse.
    pub idlest: Option<u32>,
}

/// What placement reads of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CpuState {
    /// Nothing runs.
    pub idle: bool,
    /// Runnable tasks.
    pub nr_running: u32,
    /// `cpu_load()`.
    pub load: u64,
    /// `cpu_util()`.
    pub util: u64,
}

/// The answer of a placement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PlacedAnswer {
    /// The CPU.
    pub cpu: u32,
    /// The rule that found it.
    pub rule: &'static str,
}

/// A balance pass: `load_balance()`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Pass {
    /// The question, and the sums of the groups.
    pub asked: PassAsked,
    /// The answer.
    pub answer: PassAnswer,
}

/// The question of a balance pass.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PassAsked {
    /// Name of the domain's level.
    pub level: String,
    /// Number of the level in the CPU's hierarchy, 0 the lowest: kernels call the same level by different names.
    pub level_number: usize,
    /// Why the pass runs: `idle`, `busy` or `newidle`.
    pub idle: &'static str,
    /// Passes over the domain that failed before.
    pub nr_balance_failed: u32,
    /// Sums over the groups, the local one first; none if the CPU is not the one to balance.
    pub groups: Vec<GroupSums>,
}

/// What a balance pass reads of a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupSums {
    /// CPUs of the group, as runs from the first to the last.
    pub cpus: Vec<(u32, u32)>,
    /// Runnable tasks.
    pub nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// Load.
    pub load: u64,
    /// Utilization.
    pub util: u64,
    /// `runnable_avg`; 0 where nobody sums it.
    pub runnable: u64,
    /// Capacity.
    pub capacity: u64,
}

/// The answer of a balance pass.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PassAnswer {
    /// Class of each group.
    pub group_types: Vec<&'static str>,
    /// Position of the group to pull from.
    pub busiest: Option<usize>,
    /// CPU to pull from.
    pub src_cpu: Option<u32>,
    /// What the imbalance counts, if there is one.
    pub migration_type: Option<&'static str>,
    /// How much to move.
    pub imbalance: Option<i64>,
    /// The tasks that moved.
    pub moved: Vec<u32>,
    /// How many stayed: throttled, by affinity, running, cache-hot, by size, not eligible.
    pub refused: [u32; 6],
    /// The running task of the source is to be pushed.
    pub active_balance: bool,
    /// How it ended: `not_designated`, `balanced`, `no_source`, `pulled`, `failed`, `all_pinned` or `one_pinned`.
    pub outcome: &'static str,
}

/// A push by active balance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Push {
    /// The question.
    pub asked: PushAsked,
    /// The answer.
    pub answer: TaskAnswer,
}

/// The question of a push.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PushAsked {
    /// CPU that the task goes to.
    pub dst_cpu: u32,
}

/// An answer that is a task, or nobody.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TaskAnswer {
    /// The task.
    pub task: Option<u32>,
}

/// Whether a running task gives way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Preemption {
    /// The question.
    pub asked: PreemptionAsked,
    /// The answer.
    pub answer: PreemptionAnswer,
}

/// The question of a preemption.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PreemptionAsked {
    /// The running task.
    pub curr: u32,
    /// The task that became runnable.
    pub task: u32,
    /// How far the running task's virtual run time is ahead of the other's, ns; 0 before CFS, which has none.
    pub ahead_ns: i64,
}

/// The answer of a preemption.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PreemptionAnswer {
    /// It gives way.
    pub preempt: bool,
}

/// Whether a running task gives way at a tick.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Tick {
    /// The question.
    pub asked: TickAsked,
    /// The answer.
    pub answer: PreemptionAnswer,
}

/// The question of a tick.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TickAsked {
    /// The running task.
    pub curr: u32,
    /// Runnable tasks.
    pub nr_running: u32,
}

/// Which task runs next.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Pick {
    /// The question.
    pub asked: PickAsked,
    /// The answer: nobody = the CPU goes idle.
    pub answer: TaskAnswer,
}

/// The question of a pick.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PickAsked {
    /// The task that ran; `None` = the CPU was idle.
    pub prev: Option<u32>,
    /// Runnable tasks.
    pub nr_running: u32,
}

/// A search for a place near a task's memory: `task_numa_migrate()`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NumaPlaced {
    /// The question.
    pub asked: NumaAsked,
    /// The answer.
    pub answer: NumaAnswer,
}

/// The question of a search for a place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NumaAsked {
    /// The task.
    pub task: u32,
    /// The node where it would like to run.
    pub preferred_node: u32,
    /// What the search read of the task's node.
    pub src: NodeSums,
    /// And of the preferred one.
    pub dst: NodeSums,
}

/// What a search for a place reads of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct NodeSums {
    /// Its class, in kernels that have one.
    pub node_type: Option<&'static str>,
    /// Runnable tasks; 0 in kernels that do not count them.
    pub nr_running: u32,
    /// Load.
    pub load: u64,
    /// Utilization, likewise.
    pub util: u64,
    /// Capacity.
    pub capacity: u64,
    /// A free idle CPU where the task may run, likewise.
    pub idle_cpu: Option<usize>,
}

impl From<&NumaStats> for NodeSums {
    fn from(ns: &NumaStats) -> Self {
        Self {
            node_type: ns.node_type.map(NumaType::name),
            nr_running: ns.nr_running,
            load: ns.load,
            util: ns.util,
            capacity: ns.compute_capacity,
            idle_cpu: ns.idle_cpu,
        }
    }
}

/// The answer of a search for a place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NumaAnswer {
    /// The CPU; `None` = it stays.
    pub cpu: Option<u32>,
    /// The task that goes the other way; `None` = a plain move.
    pub swap_with: Option<u32>,
}

impl Decision {
    /// Whether the other run was asked something else here, or answered otherwise. The rule that found a CPU is no part of
    /// the answer: only the CPU has consequences.
    pub fn parts_from(&self, other: &Self) -> bool {
        let alike = match (&self.what, &other.what) {
            (What::Wakeup(a), What::Wakeup(b))
            | (What::Fork(a), What::Fork(b))
            | (What::Exec(a), What::Exec(b)) => {
                let question =
                    |placed: &Placed| (placed.asked.task, placed.asked.waker, placed.asked.prev_cpu);
                question(a) == question(b) && a.answer.cpu == b.answer.cpu
            }
            (What::Balance(a), What::Balance(b)) => {
                a.asked.level_number == b.asked.level_number
                    && a.asked.idle == b.asked.idle
                    && a.answer == b.answer
            }
            (What::Push(a), What::Push(b)) => a == b,
            (What::Preemption(a), What::Preemption(b)) => {
                (a.asked.curr, a.asked.task) == (b.asked.curr, b.asked.task) && a.answer == b.answer
            }
            (What::Tick(a), What::Tick(b)) => a == b,
            (What::Pick(a), What::Pick(b)) => a == b,
            (What::Numa(a), What::Numa(b)) => {
                let question = |placed: &NumaPlaced| (placed.asked.task, placed.asked.preferred_node);
                question(a) == question(b) && a.answer == b.answer
            }
            _ => false,
        };
        !alike || self.time_ns != other.time_ns || self.cpu != other.cpu
    }
}

impl Decisions {
    /// An empty log.
    pub fn new(wanted: Wanted) -> Self {
        Self { made: Vec::new(), wanted, skipped: 0, pass: None, slow_path: Vec::new() }
    }

    /// Whether as many are kept as were wanted.
    pub fn is_full(&self) -> bool {
        self.made.len() >= self.wanted.limit
    }

    /// Keeps a decision if its kind is wanted and enough are skipped.
    pub fn push(&mut self, time_ns: u64, cpu: usize, what: What) {
        let of_a_kind = match self.wanted.kinds {
            Kinds::All => true,
            Kinds::Balance => matches!(what, What::Balance(_)),
            Kinds::Placement => matches!(what, What::Wakeup(_) | What::Fork(_) | What::Exec(_)),
        };
        if !of_a_kind {
            return;
        }
        if self.skipped < self.wanted.skip {
            self.skipped += 1;
            return;
        }
        if matches!(what, What::Balance(_)) {
            self.pass = Some(self.made.len());
        }
        self.made.push(Decision { time_ns, cpu: cpu as u32, what });
    }

    /// The slow path has chosen a group.
    pub fn push_idlest(&mut self, choice: IdlestChoice) {
        self.slow_path.push(choice);
    }

    /// What the slow path chose for the task that has just been placed.
    pub fn take_slow_path(&mut self) -> Vec<IdlestChoice> {
        std::mem::take(&mut self.slow_path)
    }

    /// The balance pass that goes on: it stands where it started, before the decisions that follow from its moves.
    pub fn pass(&mut self) -> Option<&mut Pass> {
        match &mut self.made.get_mut(self.pass?)?.what {
            What::Balance(pass) => Some(pass),
            _ => None,
        }
    }

    /// The balance pass has ended.
    pub fn end_pass(&mut self, outcome: &'static str) {
        if let Some(pass) = self.pass().filter(|pass| pass.answer.outcome.is_empty()) {
            pass.answer.outcome = outcome;
        }
        self.pass = None;
    }
}

impl GroupSums {
    /// What `stats` says of a group of these CPUs.
    pub fn new(runs: &[(usize, usize)], stats: &SgLbStats) -> Self {
        Self {
            cpus: runs.iter().map(|&(start, end)| (start as u32, end as u32 - 1)).collect(),
            nr_running: stats.sum_nr_running,
            idle_cpus: stats.idle_cpus,
            load: stats.group_load,
            util: stats.group_util,
            runnable: stats.group_runnable,
            capacity: stats.group_capacity,
        }
    }
}

impl PassAnswer {
    /// Tasks moved, and why others stayed.
    pub fn pulled(&mut self, tasks: &[u32], refused: Refusals) {
        self.moved.extend(tasks);
        let Refusals { throttled, affinity, running, hot, size, ineligible } = refused;
        self.refused = [throttled, affinity, running, hot, size, ineligible];
    }
}
