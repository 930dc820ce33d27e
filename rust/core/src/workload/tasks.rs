//! A load of the user's own: hogs, periodic tasks, barriers, ping-pong pairs, forking tasks.
//!
//! The controller (task 0) forks all tasks; each settles and sleeps until its own start. `T0` is the same moment for all
//! seeds' clocks, [`SETTLE_NS`] after the first fork; the run ends `duration_ms` after it.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Policy};
use super::hotplug::{self, HotplugEntry};
use super::memory::{MAX_PAGES, MemoryEntry, RegionSpec, Sharing, WalkSpec};
use super::{Action, GroupSpec, Load, TaskSpec};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::load_weight::{LoadWeight, MAX_SHARES, MIN_SHARES, NICE_0_LOAD, scale_load};
use crate::sim::channel::ChannelKind;
use crate::sim::groups::GroupId;
use crate::sim::program::{ChannelId, HOG_NS, Op};
use crate::sim::rq::TaskId;
use crate::topology::MachineSpec;

/// Time from the controller's start to `T0`: everything forked by then sleeps.
pub const SETTLE_NS: u64 = 300_000_000;
/// The most tasks of one load, forked children included.
const MAX_TASKS: usize = 1 << 20;
/// The most groups of one load, and the most queues that they may have together.
const MAX_GROUPS: usize = 4096;
const MAX_QUEUES: usize = 1 << 20;

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

/// A task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEntry {
    /// Its name.
    pub name: String,
    /// Its weight against tasks and groups beside it; 1024 as a nice-0 task.
    #[serde(default = "nice_0_shares")]
    pub shares: i64,
    /// The group that it is in; the root if not given.
    #[serde(default)]
    pub parent: Option<String>,
}

fn nice_0_shares() -> i64 {
    (NICE_0_LOAD >> 10) as i64
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

    /// The tasks, programs, channels and barriers.
    pub fn load(&self, machine: &MachineSpec) -> Load {
        let mut builder = Builder::new(machine.nr_cpus(), &self.all_groups());
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

    fn validate_groups(&self, machine: &MachineSpec) -> Result<()> {
        for (index, group) in self.groups.iter().enumerate() {
            let field = |field: &str| format!("groups[{index}].{field}");
            if group.name.is_empty() {
                return Err(SimError::invalid(field("name"), "\"\"", "must not be empty"));
            }
            if self.groups[..index].iter().any(|other| other.name == group.name) {
                return Err(SimError::invalid(
                    field("name"),
                    &group.name,
                    "must be the name of one group only",
                ));
            }
            if !(MIN_SHARES as i64..=MAX_SHARES as i64).contains(&group.shares) {
                let rule = format!("must be {MIN_SHARES} to {MAX_SHARES}");
                return Err(SimError::invalid(field("shares"), group.shares, rule));
            }
            let mut above = group.parent.as_ref();
            for _ in 0..=self.groups.len() {
                let Some(name) = above else { break };
                let Some(parent) = self.groups.iter().find(|other| &other.name == name) else {
                    return Err(SimError::invalid(field("parent"), name, "must be a group of the workload"));
                };
                above = parent.parent.as_ref();
            }
            if above.is_some() {
                let parent = group.parent.as_deref().unwrap_or_default();
                return Err(SimError::invalid(field("parent"), parent, "must not lead back to the group"));
            }
        }
        for (index, entry) in self.tasks.iter().enumerate() {
            if entry.group.as_ref().is_some_and(String::is_empty) {
                return Err(SimError::invalid(format!("tasks[{index}].group"), "\"\"", "must not be empty"));
            }
        }
        let nr_groups = self.all_groups().len();
        at_most("groups", nr_groups as i64, MAX_GROUPS.min(MAX_QUEUES / machine.nr_cpus()) as i64)
    }

    /// All groups, each behind its parent: those declared, then those that only tasks name.
    fn all_groups(&self) -> Vec<GroupEntry> {
        let mut all: Vec<GroupEntry> = Vec::new();
        let known = |all: &[GroupEntry], name: &String| all.iter().any(|group| &group.name == name);
        // A pass a level; nothing is left when the hierarchy is a tree.
        for _ in 0..self.groups.len() {
            for group in &self.groups {
                let reached = group.parent.as_ref().is_none_or(|parent| known(&all, parent));
                if reached && !known(&all, &group.name) {
                    all.push(group.clone());
                }
            }
        }
        for name in self.tasks.iter().filter_map(|entry| entry.group.as_ref()) {
            if !known(&all, name) {
                all.push(GroupEntry { name: name.clone(), shares: nice_0_shares(), parent: None });
            }
        }
        all
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
            let online = |cpu: &u32| (*cpu as usize) < machine.nr_cpus() && !machine.offline.contains(cpu);
            if !mask.iter().any(online) {
                let rule = format!("must hold an online CPU of {}", machine.name);
                return Err(SimError::invalid(field(what), format!("{mask:?}"), rule));
            }
            if let Some(cpu) = mask.iter().find(|&&cpu| cpu as usize >= machine.nr_cpus()) {
                let rule = format!("{} has CPUs 0 to {}", machine.name, machine.nr_cpus() - 1);
                return Err(SimError::invalid(field(what), cpu, rule));
            }
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

fn at_least(name: &str, value: i64, least: i64) -> Result<()> {
    if value < least {
        Err(SimError::invalid(name, value, format!("must be at least {least}")))
    } else {
        Ok(())
    }
}

fn at_most(name: &str, value: i64, most: i64) -> Result<()> {
    if value > most { Err(SimError::invalid(name, value, format!("must be at most {most}"))) } else { Ok(()) }
}

/// A group's number by its name; the root has none.
fn group_number(names: &[String], name: Option<&String>) -> GroupId {
    let position = name.and_then(|name| names.iter().position(|other| other == name));
    position.map_or(0, |position| position as GroupId + 1)
}

/// Collects a load entry by entry.
struct Builder {
    nr_cpus: usize,
    /// Names of the groups, from 1 on.
    group_names: Vec<String>,
    groups: Vec<GroupSpec>,
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
    fn new(nr_cpus: usize, groups: &[GroupEntry]) -> Self {
        let group_names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
        let spec = |group: &GroupEntry| GroupSpec {
            parent: group_number(&group_names, group.parent.as_ref()),
            shares: scale_load(group.shares as u32),
        };
        let groups = groups.iter().map(spec).collect();
        // The controller's program is put in front at the end; its place is kept.
        let controller = TaskSpec::new(0, LoadWeight::NICE_0);
        let ops = vec![Op::Exit; CONTROLLER_OPS];
        let (children, barriers, actions) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            nr_cpus,
            group_names,
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
                        Op::Barrier { barrier, spin: wait == BarrierWait::Spin },
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
            if let Some(release) = &entry.release {
                let mask = self.mask(&release.mask);
                self.actions
                    .push((SETTLE_NS + release.at_us as u64 * 1000, Action::SetAffinity { task, mask }));
            }
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
        let weight = LoadWeight::from_nice(entry.nice as i32).unwrap_or(LoadWeight::NICE_0);
        let mut task = TaskSpec {
            parent,
            mm: self.tasks.len() as u32,
            group: group_number(&self.group_names, entry.group.as_ref()),
            nice: entry.nice as i8,
            allowed: entry.mask.as_ref().map(|mask| self.mask(mask)),
            start_ns: SETTLE_NS + entry.start_us as u64 * 1000,
            start_jitter_ns: entry.jitter_us as u64 * 1000,
            ..TaskSpec::new(program, weight)
        };
        entry.attributes.apply(&mut task);
        task
    }

    fn mask(&self, cpus: &[u32]) -> CpuMask {
        CpuMask::from_cpus(self.nr_cpus, cpus.iter().map(|&cpu| cpu as usize))
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
                self.tasks.push(spec);
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
            groups: self.groups,
            ops: self.ops,
            channels: vec![ChannelKind::Pipe; self.nr_channels as usize],
            regions: self.regions,
            barriers: self.barriers,
            actions: self.actions,
            message_bytes: 1,
            threads: false,
        }
    }
}

/// Operations of the controller: fork all, sleep for good.
const CONTROLLER_OPS: usize = 2;
