//! Policy: the kernel generations, each a table of slots.
//!
//! A slot is one decision of the scheduler: a function pointer that knows where it comes from. A generation is a
//! table of all slots; a later generation or a patch is a file that holds only what changed and takes the rest from
//! the table it builds on. Slots call each other through the table ([`env::LbEnv::kernel`]), never by name, so that
//! replacing one is seen by all its callers.
#![allow(
    clippy::needless_update,
    reason = "a table names its base even where nothing is left to take from it"
)]

pub mod capacity;
pub mod cfs;
pub mod eevdf;
pub mod env;
pub mod groups;
pub mod numa;
pub mod o1;
pub mod patches;
pub mod queue;
pub mod sis;
#[cfg(test)]
mod sis_tests;
pub mod sis_util;
pub mod spec;
pub mod v5_10;
pub mod v5_4;
#[cfg(test)]
mod v5_4_tests;
pub mod v5_5;
pub mod v5_6;
pub mod v5_7;
pub mod v6_12;

use std::fmt;

use self::capacity::{Demand, Fit, MisfitEnv, Room};
use self::env::{
    BalanceRules, GroupType, IdlestEnv, LbEnv, LbView, SdLbStats, SgLbStats, SrcQueue, TaskView,
    WakeAffineEnv, WakeCapEnv, WakeTarget,
};
use self::groups::GroupRules;
use self::numa::faults::{PageFault, VmaScan};
use self::numa::{NumaEnv, NumaStats, NumaTask, NumaType};
use self::o1::O1;
use self::patches::Patch;
use self::queue::{ChargeVerdict, Placement, Placing, QueueEnv, QueueForm, TickVerdict, WakeupVerdict};
use self::sis::{IdleSearch, PlacementRule};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::pelt::{PeltForm, SchedAvg};
use crate::sim::rq::{CfsRq, SchedEntity, TaskId};
use crate::topology::SchedDomain;

/// The generations, oldest first.
pub static REGISTRY: &[&Kernel] = &[
    &o1::v2_6_15::KERNEL,
    &v5_4::KERNEL,
    &v5_5::KERNEL,
    &v5_6::KERNEL,
    &v5_7::KERNEL,
    &v5_10::KERNEL,
    &v6_12::KERNEL,
];

/// A kernel generation: the table of everything that generations and patches may replace.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Name, as `sl.Kernel(name)` takes it.
    pub name: &'static str,
    /// The kernel source that it models.
    pub source: &'static str,
    /// One sentence on what it is.
    pub summary: &'static str,
    /// The signals that decisions read.
    pub signals: Signals,
    /// Who runs next on a CPU.
    pub queue: Queue,
    /// Load balancing.
    pub balance: Balance,
    /// Placement of waking and new tasks.
    pub wakeup: Wakeup,
    /// Placement of tasks near their memory.
    pub numa: Numa,
    /// The decisions of the O(1) scheduler; where they are, nothing of the fair class above is asked.
    pub o1: Option<O1>,
    /// CPUs of different capacity or priority.
    pub capacity: Capacity,
    /// What there is for task groups.
    pub groups: Groups,
}

impl Kernel {
    /// The generation called `name`; otherwise an error that offers the near names.
    pub fn named(name: &str) -> Result<&'static Self> {
        REGISTRY.iter().copied().find(|kernel| kernel.name == name).ok_or_else(|| {
            unknown("kernel", name, "must be a kernel generation", REGISTRY.iter().map(|kernel| kernel.name))
        })
    }

    /// Every slot with the function that fills it, in the order of the tables.
    pub fn slots(&self) -> Vec<(&'static str, Origin)> {
        if let Some(o1) = &self.o1 {
            let mut slots = vec![("queue_form", self.queue.queue_form.origin)];
            slots.extend(o1.slots());
            return slots;
        }
        let mut slots = self.signals.slots();
        slots.extend(self.queue.slots());
        slots.extend(self.balance.slots());
        slots.extend(self.wakeup.slots());
        slots.extend(self.numa.slots());
        slots.extend(self.capacity.slots());
        slots.extend(self.groups.slots());
        slots
    }

    /// This kernel with the slot called `name` filled as `from` fills it.
    ///
    /// The slots of a queue go together: one from a queue of another form is refused. The O(1) scheduler and the fair class
    /// share none.
    pub fn with_slot(mut self, name: &str, from: &Self) -> Result<Self> {
        let (form, other) = ((self.queue.queue_form.f)(), (from.queue.queue_form.f)());
        let of_queue = || self.queue.slots().iter().any(|&(slot, _)| slot == name);
        if form != other && (self.o1.is_some() || from.o1.is_some() || of_queue()) {
            let rule = format!(
                "must come from a kernel whose queue is ordered by {form}, as in {}; that of {} is by {other}",
                self.name, from.name
            );
            return Err(SimError::invalid("slot", format!("{name:?}"), rule));
        }
        if let (Some(o1), Some(from)) = (&mut self.o1, &from.o1) {
            if o1.take(name, from) {
                return Ok(self);
            }
        } else if self.signals.take(name, &from.signals)
            || self.queue.take(name, &from.queue)
            || self.balance.take(name, &from.balance)
            || self.wakeup.take(name, &from.wakeup)
            || self.numa.take(name, &from.numa)
            || self.capacity.take(name, &from.capacity)
            || self.groups.take(name, &from.groups)
        {
            return Ok(self);
        }
        Err(unknown("slot", name, "must be a slot", self.slots().into_iter().map(|(slot, _)| slot)))
    }

    /// This kernel with the patch called `name` applied; an error if what the patch changes is not here.
    pub fn with_patch(self, name: &str) -> Result<Self> {
        Patch::named(name)?.apply(self)
    }
}

/// A decision: the function, and where it comes from.
#[derive(Clone, Copy)]
pub struct Slot<F> {
    /// The function; call it as `(env.kernel.balance.group_classify.f)(...)`.
    pub f: F,
    /// Where it comes from.
    pub origin: Origin,
}

impl<F> fmt::Debug for Slot<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)
    }
}

/// Where the function of a slot comes from; two slots are the same if this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    module_path: &'static str,
    function: &'static str,
    /// Line of the table that names the function.
    pub line: u32,
    note: &'static str,
}

impl Origin {
    /// What [`slot!`](crate::slot) records.
    pub const fn new(
        module_path: &'static str,
        function: &'static str,
        line: u32,
        note: &'static str,
    ) -> Self {
        Self { module_path, function, line, note }
    }

    /// One sentence on what the function decides, as against the table that its own builds on.
    pub fn note(&self) -> &'static str {
        self.note
    }

    /// The module of the table, below `kernels`.
    pub fn module(&self) -> &'static str {
        self.module_path.strip_prefix(concat!(module_path!(), "::")).unwrap_or(self.module_path)
    }

    /// The function's name.
    pub fn function(&self) -> &'static str {
        self.function
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.module(), self.function)
    }
}

/// A [`Slot`] filled with a function of the module that invokes this, and one sentence on what changes by it.
#[macro_export]
macro_rules! slot {
    ($function:ident) => {
        $crate::slot!($function, "")
    };
    ($function:ident, $note:literal) => {
        $crate::kernels::Slot {
            f: $function,
            origin: $crate::kernels::Origin::new(module_path!(), stringify!($function), line!(), $note),
        }
    };
}

/// Defines a table of slots, with its listing and the exchange of slots by name.
#[macro_export]
macro_rules! slot_table {
    ($(#[$table_doc:meta])* $table:ident { $($(#[$slot_doc:meta])* $slot:ident: $function:ty,)* }) => {
        $(#[$table_doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $table {
            $($(#[$slot_doc])* pub $slot: $crate::kernels::Slot<$function>,)*
        }

        impl $table {
            /// Every slot with the function that fills it.
            pub fn slots(&self) -> Vec<(&'static str, $crate::kernels::Origin)> {
                vec![$((stringify!($slot), self.$slot.origin)),*]
            }

            /// Fills the slot called `name` as `from` does; false if there is none of that name.
            pub fn take(&mut self, name: &str, from: &Self) -> bool {
                match name {
                    $(stringify!($slot) => self.$slot = from.$slot,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

slot_table! {
    /// The signals that decisions read.
    Signals {
        /// The form of PELT.
        pelt_form: fn() -> PeltForm,
        /// The load of a CPU that balancing and wake-up compare, among its queue's averages.
        cpu_load: fn(&SchedAvg) -> u64,
        /// `runnable_avg` of a new task before its first enqueue: (its averages so far, capacity of its CPU).
        new_task_runnable: fn(&SchedAvg, u64) -> u64,
    }
}

slot_table! {
    /// Who runs next on a CPU, and when one gives way to another.
    Queue {
        /// How the queue is ordered, and what its entities keep while they are off it.
        queue_form: fn() -> QueueForm,
        /// Where an entity enters the queue.
        place_entity: fn(&QueueEnv<'_>, &CfsRq, &SchedEntity, Placing) -> Placement,
        /// The entity to run next, given the running one if it may go on.
        pick_next_entity: fn(&QueueEnv<'_>, &CfsRq, TaskId) -> TaskId,
        /// What becomes of the running entity's deadline once it has been charged; only of a queue by deadline.
        update_deadline: fn(&QueueEnv<'_>, &CfsRq) -> ChargeVerdict,
        /// Whether the running entity has had its slice; a queue by deadline has said so when it charged the entity.
        check_preempt_tick: fn(&QueueEnv<'_>, &CfsRq) -> TickVerdict,
        /// Whether the second entity, which becomes runnable, takes the CPU from the first.
        check_preempt_wakeup: fn(&QueueEnv<'_>, &CfsRq, TaskId, TaskId) -> WakeupVerdict,
        /// What SCHED_IDLE says of a wake-up before virtual time is asked, if anything: (the running and the woken task,
        /// what of theirs shares a queue).
        preempts_by_policy: fn(&QueueEnv<'_>, [TaskId; 2], [TaskId; 2]) -> Option<bool>,
        /// 1 if the second entity should preempt the first, -1 if it is ahead of it, 0 in between.
        wakeup_preempt_entity: fn(&QueueEnv<'_>, &SchedEntity, &SchedEntity) -> i32,
        /// Whether an entity that falls asleep stays queued until it is picked; never in a queue by virtual run time.
        delay_dequeue: fn(&QueueEnv<'_>, &CfsRq, &SchedEntity) -> bool,
    }
}

slot_table! {
    /// Load balancing: from whether to balance at all down to which tasks move.
    Balance {
        /// What a balance pass does around the decisions: intervals, counting of failures, when to give up.
        balance_rules: fn() -> BalanceRules,
        /// What a success of newidle balance at a level will count, or nothing if the level is left out this
        /// time: (successes in 1024 attempts so far, a number from 0 to 1023 by chance).
        newidle_weight: fn(u32, u32) -> Option<u32>,
        /// Whether this CPU is the one to balance on behalf of its group.
        should_we_balance: fn(&LbEnv<'_>) -> bool,
        /// The sums over the group at a position of the ring, and its class.
        update_sg_lb_stats: fn(&mut LbEnv<'_>, usize) -> SgLbStats,
        /// Whether a group has capacity to spare: (imbalance_pct, statistics).
        group_has_capacity: fn(u32, &SgLbStats) -> bool,
        /// Whether a group has more to do than it can: (imbalance_pct, statistics).
        group_is_overloaded: fn(u32, &SgLbStats) -> bool,
        /// The class of a group: (table, imbalance_pct, the group's affinity-imbalance flag, statistics).
        group_classify: fn(&Kernel, u32, bool, &SgLbStats) -> GroupType,
        /// Whether the group at a position of the ring, with these statistics, is busier than the busiest so far.
        update_sd_pick_busiest: fn(&LbEnv<'_>, &SdLbStats, usize, &SgLbStats) -> bool,
        /// Position in the ring of the group to pull from, and into the environment how much of what.
        find_busiest_group: fn(&mut LbEnv<'_>) -> Option<usize>,
        /// How much of what to move from the busiest group to the local one.
        calculate_imbalance: fn(&mut LbEnv<'_>, &mut SdLbStats),
        /// The imbalance between NUMA nodes that is left after tolerating a small one: (imbalance in tasks,
        /// destination's tasks, from 5.18 on with one that is to come, source's tasks, `imb_numa_nr`).
        adjust_numa_imbalance: fn(i64, u32, u32, u32) -> i64,
        /// CPU to pull from in the group at a position of the ring.
        find_busiest_queue: fn(&LbEnv<'_>, usize) -> Option<usize>,
        /// Whether the running task should be pushed for a reason other than repeated failure.
        voluntary_active_balance: fn(&LbEnv<'_>) -> bool,
        /// Whether the running task of the source should be pushed.
        need_active_balance: fn(&LbEnv<'_>) -> bool,
        /// Whether a task may move to the destination.
        can_migrate_task: fn(&mut LbEnv<'_>, &TaskView<'_>) -> bool,
        /// Takes tasks off the source until the imbalance is gone; how many it took.
        detach_tasks: fn(&mut LbEnv<'_>, &mut dyn SrcQueue) -> u32,
    }
}

slot_table! {
    /// Placement of waking and new tasks.
    Wakeup {
        /// Position in the ring of the idlest group; `None` = stay in the local one.
        find_idlest_group: fn(&mut IdlestEnv<'_>) -> Option<usize>,
        /// The sums over the group at a position of the ring without the task, and its class.
        update_sg_wakeup_stats: fn(&IdlestEnv<'_>, usize) -> SgLbStats,
        /// Whether the smaller of the waker's CPU and the previous one is too small for the task.
        wake_cap: fn(&WakeCapEnv) -> bool,
        /// The waker's CPU or the previous one, as the target of the search for an idle CPU.
        wake_affine: fn(&WakeAffineEnv<'_>) -> WakeTarget,
        /// The rule by idleness, if it decides.
        wake_affine_idle: fn(&WakeAffineEnv<'_>) -> Option<WakeTarget>,
        /// The rule by load, if it decides.
        wake_affine_weight: fn(&WakeAffineEnv<'_>) -> Option<WakeTarget>,
        /// Whether waker and wakee have too many partners to share a cache: (flips of the waker, of the wakee, CPUs
        /// of the LLC).
        wake_wide: fn(u32, u32, u32) -> bool,
        /// An idle CPU near the target: (search, previous CPU, target) to the CPU and the rule that found it.
        select_idle_sibling: fn(&mut IdleSearch<'_>, usize, usize) -> (usize, PlacementRule),
    }
}

slot_table! {
    /// Task groups.
    Groups {
        /// What the group scheduler can do, and how it limits bandwidth.
        group_rules: fn() -> GroupRules,
    }
}

slot_table! {
    /// NUMA balancing: where on a node a task goes that wants to run near its memory.
    Numa {
        /// The sums over a node's CPUs, its class and, if asked for, a free idle CPU.
        update_numa_stats: fn(&NumaEnv<'_>, &CpuMask, bool) -> NumaStats,
        /// The idle core found so far among a node's CPUs, or that of an idle CPU:
        /// (environment, the node's CPUs, a CPU of the core found so far, the idle CPU).
        numa_idle_core: fn(&NumaEnv<'_>, &CpuMask, Option<usize>, usize) -> Option<usize>,
        /// The class of a node: (imbalance_pct, statistics).
        numa_classify: fn(u32, &NumaStats) -> Option<NumaType>,
        /// Whether the nodes would be further apart than now with these loads: (environment, source, destination).
        load_too_imbalanced: fn(&NumaEnv<'_>, i64, i64) -> bool,
        /// Searches the destination node for the best place: (environment, gain of the task, of its group).
        task_numa_find_cpu: fn(&mut NumaEnv<'_>, i64, i64),
        /// Takes the CPU looked at if it is better than the best so far; true ends the search:
        /// (environment, gain of the task, of its group, whether it may simply move).
        task_numa_compare: fn(&mut NumaEnv<'_>, i64, i64, bool) -> bool,
        /// Claims the CPU looked at as the best: (environment, task to change places with, gain).
        task_numa_assign: for<'a> fn(&mut NumaEnv<'a>, Option<NumaTask<'a>>, i64),
        /// Whether a page goes to the node of the task that faulted on it.
        should_numa_migrate_memory: fn(&PageFault<'_>) -> bool,
        /// Whether a mapping is scanned for the task at all.
        vma_is_accessed: fn(&VmaScan) -> bool,
    }
}

slot_table! {
    /// CPUs of different capacity or priority: whether a task fits one, and who hears of it.
    Capacity {
        /// Whether what a task needs fits what a CPU has.
        util_fits_cpu: fn(Demand, Room) -> Fit,
        /// The load of a running fair task that does not fit its CPU, 0 if it does (`misfit_task_load`).
        update_misfit_status: fn(&MisfitEnv<'_>) -> u64,
        /// Whether a tickless CPU of an asym-packing domain is reason enough to balance: (machine, domain, that CPU, the
        /// busy CPU whose tick asks).
        nohz_kick_asym: fn(&LbView<'_>, &SchedDomain, usize, usize) -> bool,
    }
}

/// An error about a name that is none of `known`, with the nearest of them.
pub(crate) fn unknown<'a>(
    argument: &str,
    name: &str,
    rule: &str,
    known: impl Iterator<Item = &'a str>,
) -> SimError {
    let mut known: Vec<(usize, &str)> = known.map(|other| (edit_distance(name, other), other)).collect();
    known.sort_unstable();
    let near: Vec<&str> = known.iter().take(3).map(|&(_, other)| other).collect();
    SimError::invalid(argument, format!("{name:?}"), format!("{rule}; near names: {}", near.join(", ")))
}

/// Levenshtein's distance, case ignored.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kernel_is_offered_the_near_names() {
        let error = Kernel::named("v5.77").unwrap_err().to_string();
        assert!(error.starts_with("kernel = \"v5.77\""), "{error}");
        assert!(error.contains("near names: v5.7"), "{error}");
    }

    #[test]
    fn a_slot_says_where_it_comes_from_and_can_be_exchanged() {
        let mixed = v5_7::KERNEL.with_slot("calculate_imbalance", &v5_5::KERNEL).unwrap();
        assert_eq!(mixed.balance.calculate_imbalance.origin.to_string(), "v5_5::calculate_imbalance");
        let differing: Vec<_> = mixed
            .slots()
            .into_iter()
            .zip(v5_7::KERNEL.slots())
            .filter(|(mixed, base)| mixed != base)
            .map(|((name, _), _)| name)
            .collect();
        assert_eq!(differing, ["calculate_imbalance"]);
        assert!(mixed.with_slot("calculate_imbalanze", &v5_5::KERNEL).is_err());
    }

    #[test]
    fn a_queue_takes_no_slot_of_a_queue_of_another_form() {
        let error = v5_7::KERNEL.with_slot("pick_next_entity", &v6_12::KERNEL).unwrap_err().to_string();
        assert!(
            error.starts_with("slot = \"pick_next_entity\"") && error.contains("virtual run time"),
            "{error}"
        );
        assert!(v5_7::KERNEL.with_slot("pick_next_entity", &v5_5::KERNEL).is_ok());
    }

    #[test]
    fn every_slot_says_in_a_sentence_what_it_decides() {
        let patched = patches::REGISTRY.iter().map(|patch| patch.patched);
        for kernel in REGISTRY.iter().copied().chain(patched) {
            for (slot, origin) in kernel.slots() {
                let note = origin.note();
                assert!(note.ends_with('.') && note.len() > 15, "{} {slot} {origin}: {note:?}", kernel.name);
            }
        }
    }

    #[test]
    fn the_distance_counts_edits() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("V5.7", "v5.7"), 0);
    }
}
