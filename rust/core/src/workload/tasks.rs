//! A load of the user's own: hogs, periodic tasks, barriers, ping-pong pairs, forking tasks.
//!
//! The controller (task 0) forks all tasks; each settles and sleeps until its own start. `T0` is the same moment for all
//! seeds' clocks, [`SETTLE_NS`] after the first fork; the run ends `duration_ms` after it.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Policy};
use super::groups::{GroupEntry, GroupTree};
use super::hotplug::{self, HotplugEntry};
use super::memory::{MAX_PAGES, MemoryEntry, RegionSpec, Sharing, WalkSpec};
use super::{Action, Load, TaskSpec};
use crate::error::{Result, SimError};
use crate::kernels::Kernel;
use crate::load_weight::LoadWeight;
use crate::sim::channel::ChannelKind;
use crate::sim::program::{ChannelId, HOG_NS, Op};
use crate::sim::rq::TaskId;
use crate::topology::MachineSpec;

/// Time from the controller's start to `T0`: everything forked by then sleeps.
pub const SETTLE_NS: u64 = 300_000_000;
/// The most tasks of one load, forked children included.
const MAX_TASKS: usize = 1 << 20;
/// A time before any change.
const BEFORE_ALL: i64 = -1;

/// Tasks of several kinds under one clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// Time from `T0` to the end, ms.
    pub duration_ms: i64,
    /// The kinds of task.
    pub tasks: Vec<TaskEntry>,
    /// Task groups; one that only a task names has the shares of a nice-0 task and is in the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupEntry>,
    /// CPUs that go off and come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hotplug: Vec<HotplugEntry>,
}

/// So many equal tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEntry {
    /// What they do.
    #[serde(flatten)]
    pub behaviour: Behaviour,
    /// Class, bounds of utilization, kernel thread.
    #[serde(flatten)]
    pub attributes: Attributes,
    /// How many; pairs of a ping-pong, children of a fork storm.
    pub n: i64,
    /// Start after `T0`, us.
    #[serde(default)]
    pub start_us: i64,
    /// Each starts up to so much later, evenly drawn, us.
    #[serde(default)]
    pub jitter_us: i64,
    /// Nice level, -20 to 19.
    #[serde(default)]
    pub nice: i64,
    /// Their group; the root if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Their session: a group of its own under autogroup, unless they are in a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// CPUs they may use; all if not given.
    #[serde(default)]
    pub mask: Option<Vec<u32>>,
    /// A change of `mask` later on.
    #[serde(default)]
    pub release: Option<Release>,
    /// Their memory; if not given, it is not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryEntry>,
}

/// A change of affinity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// When, after `T0`, us.
    pub at_us: i64,
    /// CPUs allowed from then on.
    pub mask: Vec<u32>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Behaviour {
    /// Runs without end.
    Hog,
    /// Runs, sleeps, again.
    Periodic {
        /// CPU time of a burst, us.
        run_us: i64,
        /// Sleep between bursts, us.
        sleep_us: i64,
        /// Even spread of both, plus or minus per cent.
        #[serde(default)]
        spread_pct: i64,
    },
    /// All run, then meet, again.
    Barrier {
        /// CPU time between two meetings, us.
        run_us: i64,
        /// Even spread of it, plus or minus per cent.
        #[serde(default)]
        imbalance_pct: i64,
        /// How they wait for the last one.
        wait: BarrierWait,
    },
    /// Pairs pass one byte to and fro over two pipes.
    PingPong {
        /// CPU time before each message, us.
        run_us: i64,
    },
    /// A parent forks children that run once and exit.
    Fork {
        /// CPU time of a child, us.
        run_us: i64,
        /// Pause of the parent between two forks, us.
        #[serde(default)]
        gap_us: i64,
        /// Children execute another program before they run.
        #[serde(default)]
        execs: bool,
    },
}

/// How tasks wait at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BarrierWait {
    /// Spinning in user space.
    Spin,
    /// Asleep on a futex.
    Futex,
}

impl Tasks {
    /// Checks the arguments against each other and against the machine.
    pub fn validate(&self, machine: &MachineSpec) -> Result<()> {
        at_least("duration_ms", self.duration_ms, 1)?;
        at_most("duration_ms", self.duration_ms, 3_600_000)?;
        if self.tasks.is_empty() {
            return Err(SimError::invalid("tasks", "[]", "must have at least one entry"));
        }
        for (index, entry) in self.tasks.iter().enumerate() {
            entry.validate(&format!("tasks[{index}]"), machine)?;
        }
        self.validate_groups(machine)?;
        hotplug::validate(&self.hotplug, machine, &self.rt_cpus())?;
        let pages = |entry: &TaskEntry| entry.memory.as_ref().map_or(0, |memory| memory.nr_pages(entry.n));
        let pages: u64 = self.tasks.iter().map(pages).sum();
        if pages > MAX_PAGES {
            let rule =
                format!("all mappings together have at most {MAX_PAGES} pages; larger pages make fewer");
            return Err(SimError::invalid("memory", format!("{pages} pages"), rule));
        }
        let total: i64 = self.tasks.iter().map(TaskEntry::nr_tasks).sum();
        at_most("tasks", total, MAX_TASKS as i64)
    }

    /// Checks that the kernel has what is asked for.
    pub fn validate_under(&self, kernel: &Kernel) -> Result<()> {
        if kernel.o1.is_some() {
            self.validate_under_o1(kernel)?;
        }
        self.validate_groups_under(kernel)
    }

    /// What the model of the O(1) scheduler leaves out.
    fn validate_under_o1(&self, kernel: &Kernel) -> Result<()> {
        let rule = format!("is not modelled for {}", kernel.name);
        for (index, entry) in self.tasks.iter().enumerate() {
            let field = |field: &str| format!("tasks[{index}].{field}");
            let Attributes { policy, uclamp_min, uclamp_max, kthread, .. } = entry.attributes;
            if policy != Policy::Normal {
                return Err(SimError::invalid(field("policy"), format!("{policy:?}").to_lowercase(), rule));
            }
            if (uclamp_min, uclamp_max) != (0, Attributes::default().uclamp_max) {
                return Err(SimError::invalid(field("uclamp_min"), uclamp_min, rule));
            }
            if kthread {
                return Err(SimError::invalid(field("kthread"), kthread, rule));
            }
        }
        match self.hotplug.first() {
            Some(change) => Err(SimError::invalid("hotplug", format!("CPU {}", change.cpu), rule)),
            None => Ok(()),
        }
    }

    /// The tasks, programs, channels and barriers. Under `autogroup` sessions are groups.
    pub fn load(&self, machine: &MachineSpec, autogroup: bool) -> Load {
        let mut builder = Builder::new(GroupTree::new(self, machine, autogroup));
        for entry in &self.tasks {
            builder.add(entry);
        }
        for (state, index) in hotplug::in_order(&self.hotplug).into_iter().enumerate() {
            let HotplugEntry { at_us, cpu, online } = self.hotplug[index];
            let action = Action::Hotplug { cpu: cpu as usize, online, state };
            builder.actions.push((SETTLE_NS + at_us as u64 * 1000, action));
        }
        builder.finish(self.duration_ms as u64 * 1_000_000)
    }

    /// CPUs that real-time tasks are bound to.
    fn rt_cpus(&self) -> Vec<u32> {
        let rt = self.tasks.iter().filter(|entry| entry.attributes.policy == Policy::Fifo);
        rt.filter_map(|entry| entry.mask.as_ref()).flatten().copied().collect()
    }

    /// The machine after each change of its CPUs, in order; the load's actions name them by position.
    pub fn machines_after(&self, machine: &MachineSpec) -> Vec<MachineSpec> {
        let mut after = machine.clone();
        let change = |index| {
            let HotplugEntry { cpu, online, .. } = self.hotplug[index];
            hotplug::change(&mut after, cpu, online);
            after.clone()
        };
        hotplug::in_order(&self.hotplug).into_iter().map(change).collect()
    }
}

impl TaskEntry {
    fn validate(&self, name: &str, machine: &MachineSpec) -> Result<()> {
        let field = |field: &str| format!("{name}.{field}");
        at_least(&field("n"), self.n, 1)?;
        at_most(&field("n"), self.n, MAX_TASKS as i64)?;
        for (what, value, least) in [("start_us", self.start_us, 0), ("jitter_us", self.jitter_us, 0)]
            .into_iter()
            .chain(self.behaviour.times())
        {
            at_least(&field(what), value, least)?;
            at_most(&field(what), value, 3_600_000_000)?;
        }
        if let Some((what, value)) = self.behaviour.spread() {
            at_least(&field(what), value, 0)?;
            at_most(&field(what), value, 100)?;
        }
        if !(-20..=19).contains(&self.nice) {
            return Err(SimError::invalid(field("nice"), self.nice, "must be -20 to 19"));
        }
        let masks = self.mask.iter().map(|mask| ("mask", mask));
        for (what, mask) in masks.chain(self.release.iter().map(|release| ("release.mask", &release.mask))) {
            validate_mask(&field(what), mask, machine)?;
        }
        if let Some(release) = &self.release {
            at_least(&field("release.at_us"), release.at_us, 0)?;
        }
        if let Some(memory) = &self.memory {
            if matches!(self.behaviour, Behaviour::PingPong { .. } | Behaviour::Fork { .. }) {
                let rule = "is for hogs, periodic tasks and barriers";
                return Err(SimError::invalid(field("memory"), format!("{} MiB", memory.size_mib), rule));
            }
            memory.validate(&field("memory"), machine)?;
        }
        self.attributes.validate(name, self)
    }

    /// Tasks that the entry makes, forked children included.
    fn nr_tasks(&self) -> i64 {
        match self.behaviour {
            Behaviour::PingPong { .. } => 2 * self.n,
            Behaviour::Fork { .. } => 1 + self.n,
            _ => self.n,
        }
    }
}

impl Behaviour {
    /// Times with their least values.
    fn times(self) -> Vec<(&'static str, i64, i64)> {
        match self {
            Self::Hog => vec![],
            Self::Periodic { run_us, sleep_us, .. } => vec![("run_us", run_us, 1), ("sleep_us", sleep_us, 1)],
            Self::Barrier { run_us, .. } | Self::PingPong { run_us } => vec![("run_us", run_us, 1)],
            Self::Fork { run_us, gap_us, .. } => vec![("run_us", run_us, 1), ("gap_us", gap_us, 0)],
        }
    }

    fn spread(self) -> Option<(&'static str, i64)> {
        match self {
            Self::Periodic { spread_pct, .. } => Some(("spread_pct", spread_pct)),
            Self::Barrier { imbalance_pct, .. } => Some(("imbalance_pct", imbalance_pct)),
            _ => None,
        }
    }
}

/// A mask holds an online CPU of the machine, and none that is not of it.
pub(super) fn validate_mask(argument: &str, mask: &[u32], machine: &MachineSpec) -> Result<()> {
    let online = |cpu: &u32| (*cpu as usize) < machine.nr_cpus() && !machine.offline.contains(cpu);
    if !mask.iter().any(online) {
        let rule = format!("must hold an online CPU of {}", machine.name);
        return Err(SimError::invalid(argument, format!("{mask:?}"), rule));
    }
    if let Some(cpu) = mask.iter().find(|&&cpu| cpu as usize >= machine.nr_cpus()) {
        let rule = format!("{} has CPUs 0 to {}", machine.name, machine.nr_cpus() - 1);
        return Err(SimError::invalid(argument, cpu, rule));
    }
    Ok(())
}

pub(super) fn at_least(name: &str, value: i64, least: i64) -> Result<()> {
    if value < least {
        Err(SimError::invalid(name, value, format!("must be at least {least}")))
    } else {
        Ok(())
    }
}

pub(super) fn at_most(name: &str, value: i64, most: i64) -> Result<()> {
    if value > most { Err(SimError::invalid(name, value, format!("must be at most {most}"))) } else { Ok(()) }
}

/// Collects a load entry by entry.
struct Builder {
    groups: GroupTree,
    ops: Vec<Op>,
    tasks: Vec<TaskSpec>,
    /// Children of fork storms: they stand behind all others.
    children: Vec<(usize, TaskEntry)>,
    nr_channels: u32,
    barriers: Vec<u32>,
    regions: Vec<RegionSpec>,
    actions: Vec<(u64, Action)>,
}

impl Builder {
    fn new(groups: GroupTree) -> Self {
        // The controller's program is put in front at the end; its place is kept.
        let controller = TaskSpec::new(0, LoadWeight::NICE_0);
        let ops = vec![Op::Exit; CONTROLLER_OPS];
        let (children, barriers, actions) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            groups,
            ops,
            tasks: vec![controller],
            children,
            nr_channels: 0,
            barriers,
            regions: Vec::new(),
            actions,
        }
    }

    fn add(&mut self, entry: &TaskEntry) {
        const US: u64 = 1000;
        let us = |value: i64| value as u64 * US;
        let permille = |pct: i64| pct as u32 * 10;
        let n = entry.n as u32;
        match entry.behaviour {
            Behaviour::Hog => {
                self.program(entry, n, |_| vec![Op::Compute { ns: HOG_NS, spread_permille: 0 }]);
            }
            Behaviour::Periodic { run_us, sleep_us, spread_pct } => {
                let spread_permille = permille(spread_pct);
                self.program(entry, n, |start| {
                    vec![
                        Op::Compute { ns: us(run_us), spread_permille },
                        Op::Sleep { ns: us(sleep_us), spread_permille },
                        Op::Jump { to: start },
                    ]
                });
            }
            Behaviour::Barrier { run_us, imbalance_pct, wait } => {
                let barrier = self.barriers.len() as u32;
                self.barriers.push(n);
                let spread_permille = permille(imbalance_pct);
                self.program(entry, n, |start| {
                    vec![
                        Op::Compute { ns: us(run_us), spread_permille },
                        Op::Barrier { barrier, spin_ns: if wait == BarrierWait::Spin { HOG_NS } else { 0 } },
                        Op::Jump { to: start },
                    ]
                });
            }
            Behaviour::PingPong { run_us } => {
                let compute = Op::Compute { ns: us(run_us), spread_permille: 0 };
                for _ in 0..n {
                    let there: ChannelId = self.nr_channels;
                    let back = there + 1;
                    self.nr_channels += 2;
                    let write = |first| Op::Write { first, count: 1, rounds: 1 };
                    let read = |channel| Op::Read { channel, messages: 1 };
                    self.program(entry, 1, |start| {
                        vec![compute, write(there), read(back), Op::Jump { to: start }]
                    });
                    self.program(entry, 1, |start| {
                        vec![read(there), compute, write(back), Op::Jump { to: start }]
                    });
                }
            }
            Behaviour::Fork { gap_us, .. } => {
                let parent = self.tasks.len();
                self.children.push((parent, entry.clone()));
                // The children's numbers are known at the end.
                self.program(entry, 1, |_| vec![Op::Fork { first: 0, count: n, gap_ns: us(gap_us) }]);
            }
        }
    }

    /// Adds `n` tasks with a program of their own: settle, wait for the start, then `body` (told where it starts).
    fn program(&mut self, entry: &TaskEntry, n: u32, body: impl FnOnce(u32) -> Vec<Op>) {
        let program = self.ops.len() as u32;
        self.ops.push(Op::WaitStart);
        self.ops.extend(body(program + 1));
        self.ops.push(Op::Sleep { ns: HOG_NS, spread_permille: 0 });
        let process = self.tasks.len() as u32;
        for index in 0..n {
            let task = self.tasks.len() as TaskId;
            let mut spec = self.spec(entry, program, 0);
            if let Some(memory) = &entry.memory {
                if memory.sharing != Sharing::Private {
                    spec.mm = process;
                }
                spec.memory = Some(self.walk(memory, spec.mm, index, n));
            }
            self.tasks.push(spec);
            self.change_affinity(entry, task, entry.release.as_ref());
        }
    }

    /// The walk of task `index` of `n`, and its mapping unless that is there already.
    fn walk(&mut self, memory: &MemoryEntry, mm: u32, index: u32, n: u32) -> WalkSpec {
        if index == 0 || memory.sharing == Sharing::Private {
            self.regions.push(memory.region(mm));
        }
        memory.walk(self.regions.len() as u32 - 1, index, n)
    }

    fn spec(&self, entry: &TaskEntry, program: u32, parent: TaskId) -> TaskSpec {
        let weight = match entry.attributes.policy {
            Policy::Normal | Policy::Fifo => {
                LoadWeight::from_nice(entry.nice as i32).unwrap_or(LoadWeight::NICE_0)
            }
            Policy::Idle => LoadWeight::idle_policy(),
        };
        let group = self.groups.of(entry);
        let mut task = TaskSpec {
            parent,
            mm: self.tasks.len() as u32,
            group,
            nice: entry.nice as i8,
            idle: entry.attributes.policy == Policy::Idle,
            allowed: self.groups.allowed(group, entry.mask.as_ref(), BEFORE_ALL),
            start_ns: SETTLE_NS + entry.start_us as u64 * 1000,
            start_jitter_ns: entry.jitter_us as u64 * 1000,
            ..TaskSpec::new(program, weight)
        };
        entry.attributes.apply(&mut task);
        task
    }

    /// The CPUs of a task change when its own mask does, or its group's.
    fn change_affinity(&mut self, entry: &TaskEntry, task: TaskId, release: Option<&Release>) {
        let group = self.groups.of(entry);
        let mut changes = self.groups.changes(group);
        changes.extend(release.map(|release| release.at_us));
        changes.sort_unstable();
        for at_us in changes {
            let released = release.filter(|release| release.at_us <= at_us).map(|release| &release.mask);
            if let Some(mask) = self.groups.allowed(group, released.or(entry.mask.as_ref()), at_us) {
                self.actions.push((SETTLE_NS + at_us as u64 * 1000, Action::SetAffinity { task, mask }));
            }
        }
    }

    fn finish(mut self, duration_ns: u64) -> Load {
        let forked = self.tasks.len() as u32 - 1;
        for (parent, entry) in std::mem::take(&mut self.children) {
            let Behaviour::Fork { run_us, execs, .. } = entry.behaviour else { continue };
            let first = self.tasks.len() as TaskId;
            let program = self.ops.len() as u32;
            self.ops.extend(execs.then_some(Op::Exec));
            self.ops.extend([Op::Compute { ns: run_us as u64 * 1000, spread_permille: 0 }, Op::Exit]);
            for _ in 0..entry.n {
                let spec = self.spec(&entry, program, parent as TaskId);
                let child = self.tasks.len() as TaskId;
                self.tasks.push(spec);
                self.change_affinity(&entry, child, None);
            }
            let fork = self.tasks[parent].program as usize + 1;
            if let Op::Fork { first: children, .. } = &mut self.ops[fork] {
                *children = first;
            }
        }
        self.ops[0] = Op::Fork { first: 1, count: forked, gap_ns: 0 };
        self.ops[1] = Op::Sleep { ns: HOG_NS, spread_permille: 0 };
        self.actions.push((SETTLE_NS, Action::ClockStart));
        self.actions.push((SETTLE_NS + duration_ns, Action::ClockStop));
        Load {
            tasks: self.tasks,
            groups: self.groups.specs(),
            ops: self.ops,
            channels: vec![(ChannelKind::Pipe, 1); self.nr_channels as usize],
            regions: self.regions,
            barriers: self.barriers,
            actions: self.actions,
            accounted: false,
        }
    }
}

/// Operations of the controller: fork all, sleep for good.
const CONTROLLER_OPS: usize = 2;
