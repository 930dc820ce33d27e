//! Memory of the tasks: pages on nodes, walked through as work gets on; far pages make a task slow.
//!
//! What a task has computed since the last tick, it is taken to have touched at this tick, page by page.
//!
//! # Deviates
//! A first touch costs nothing, nodes do not fill up, and caches are left out: every touch reaches memory.

use super::Sim;
use super::numa::{Balanced, Cpupid};
use super::program::{Op, Phase};
use super::rq::{NO_TASK, TaskId};
use crate::kernels::numa::faults::NumaNodes;
use crate::topology::MachineSpec;
use crate::workload::Load;
use crate::workload::memory::{MemPolicy, RegionSpec, WalkSpec};

/// No node: the page was never touched.
const UNTOUCHED: u16 = u16::MAX;
/// Parts of a whole.
const PERMILLE: u64 = 1000;
/// LOCAL_DISTANCE: what the excess of a distance is compared with.
const LOCAL_DISTANCE: u64 = 10;

/// The memory of a run; empty where no task has any.
pub struct Memory {
    /// The nodes.
    pub nodes: NumaNodes,
    /// The mappings.
    pub regions: Vec<Region>,
    /// By task: how it walks; empty where no task has memory.
    pub walkers: Vec<Option<Walker>>,
    /// Whether a node has memory.
    has_memory: Vec<bool>,
}

/// A mapping and its pages (`struct vm_area_struct`).
pub struct Region {
    /// What it is.
    pub spec: RegionSpec,
    /// By page: its node.
    pub node: Vec<u16>,
    /// By page: who faulted on it last (`page_cpupid_last()`).
    pub last_cpupid: Vec<Cpupid>,
    /// By page: marked by a scan, so that the next touch faults (PROT_NONE).
    pub prot_none: Vec<bool>,
    /// Pages touched so far.
    pub nr_touched: u64,
}

/// A task on its way through a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Walker {
    /// The way.
    pub spec: WalkSpec,
    /// The next page of the part.
    cursor: u32,
    /// Work done and not yet turned into touches, ns.
    progress_ns: u64,
    /// Work of the present step not yet counted in `progress_ns`.
    step_left_ns: u64,
    /// Speed that the pages touched last allow.
    speed_permille: u32,
}

impl Memory {
    /// The memory of a load, untouched but for what others touched before.
    pub fn new(load: &Load, machine: &MachineSpec) -> Self {
        let nodes = NumaNodes::new(machine);
        let has_memory =
            (0..nodes.len() as u32).map(|node| !machine.memoryless_nodes.contains(&node)).collect();
        let regions = load.regions.iter().map(Region::new).collect();
        let walker = |spec: WalkSpec| Walker {
            spec,
            cursor: spec.start % spec.nr_pages,
            progress_ns: 0,
            step_left_ns: 0,
            speed_permille: PERMILLE as u32,
        };
        let walkers = if load.regions.is_empty() {
            Vec::new()
        } else {
            load.tasks.iter().map(|task| task.memory.map(walker)).collect()
        };
        Self { nodes, regions, walkers, has_memory }
    }

    /// Whether any task has memory.
    #[inline]
    pub fn is_used(&self) -> bool {
        !self.walkers.is_empty()
    }

    /// Speed of a task for its memory's sake, in parts of 1000.
    #[inline]
    pub fn speed_permille(&self, task: TaskId) -> u32 {
        let walker = self.walkers.get(task as usize).and_then(Option::as_ref);
        walker.map_or(PERMILLE as u32, |walker| walker.speed_permille)
    }

    /// The node with memory nearest to another; the lowest of several.
    fn nearest(&self, from: usize, nodes: impl Iterator<Item = usize>) -> usize {
        nodes.min_by_key(|&node| (self.nodes.distance(from, node), node)).unwrap_or(from)
    }

    /// Where a page goes that is touched for the first time, from a CPU of `node` (alloc_pages_vma()).
    fn place(&self, region: &RegionSpec, page: usize, node: usize) -> usize {
        let allowed = region.nodes.iter().map(|&node| node as usize);
        match region.policy {
            MemPolicy::Local => {
                self.nearest(node, (0..self.nodes.len()).filter(|&node| self.has_memory[node]))
            }
            MemPolicy::Interleave => region.nodes[page % region.nodes.len()] as usize,
            MemPolicy::Bind => self.nearest(node, allowed),
        }
    }
}

impl Region {
    fn new(spec: &RegionSpec) -> Self {
        let pages = spec.nr_pages as usize;
        let node = spec.first_node.map_or(UNTOUCHED, |node| node as u16);
        Self {
            spec: spec.clone(),
            node: vec![node; pages],
            last_cpupid: vec![Cpupid::UNSET; pages],
            prot_none: vec![false; pages],
            nr_touched: if node == UNTOUCHED { 0 } else { pages as u64 },
        }
    }

    /// Node of a page; `None` if it was never touched.
    pub fn node_of(&self, page: usize) -> Option<usize> {
        Some(self.node[page]).filter(|&node| node != UNTOUCHED).map(usize::from)
    }
}

impl Sim<'_> {
    /// A task starts on work of its own.
    #[inline]
    pub(super) fn begin_compute(&mut self, task: TaskId, work_ns: u64) {
        if self.memory.is_used()
            && let Some(walker) = &mut self.memory.walkers[task as usize]
        {
            walker.step_left_ns = work_ns;
        }
    }

    /// So much of a task's work is left.
    #[inline]
    pub(super) fn compute_left(&mut self, task: TaskId, left_ns: u64) {
        if self.memory.is_used()
            && let Some(walker) = &mut self.memory.walkers[task as usize]
        {
            walker.progress_ns += walker.step_left_ns.saturating_sub(left_ns);
            walker.step_left_ns = walker.step_left_ns.min(left_ns);
        }
    }

    /// The tick of a running task: what it has computed since the last one, it has touched, and may have faulted on.
    pub(super) fn tick_memory(&mut self, cpu: usize) {
        let task = self.rqs[cpu].curr;
        if task == NO_TASK || self.memory.walkers[task as usize].is_none() {
            return;
        }
        let program = self.tasks[task as usize].program;
        if matches!(self.ops[program.at as usize], Op::Compute { .. }) && program.phase == Phase::Work {
            self.pause_step(cpu);
            self.compute_left(task, self.tasks[task as usize].remaining_ns);
            self.resume_step(cpu);
        }
        let balanced = self.touch_pages(cpu, task);
        if self.numa.on {
            self.task_tick_numa(cpu);
        }
        if balanced.wants_place {
            // The task may be elsewhere when this returns.
            self.task_numa_migrate(cpu, task);
        }
    }

    /// Touches the pages that the work done so far has come to, and lets far ones slow the task down.
    fn touch_pages(&mut self, cpu: usize, task: TaskId) -> Balanced {
        let Some(mut walker) = self.memory.walkers[task as usize] else { return Balanced::default() };
        let spec = walker.spec;
        let walked = walker.progress_ns / spec.page_ns;
        walker.progress_ns %= spec.page_ns;
        // What is walked over twice between two ticks is looked at once.
        let span = spec.span();
        let nr_touched = walked.min(u64::from(span));
        let node = self.node_of[cpu] as usize;
        let region_number = spec.region as usize;
        let mut excess = 0;
        let mut remote = 0;
        let mut balanced = Balanced::default();
        for _ in 0..nr_touched {
            let page = spec.page(walker.cursor);
            walker.cursor = if walker.cursor + 1 == span { 0 } else { walker.cursor + 1 };
            let region = &self.memory.regions[region_number];
            if region.node[page] == UNTOUCHED {
                let placed = self.memory.place(&region.spec, page, node);
                let region = &mut self.memory.regions[region_number];
                region.node[page] = placed as u16;
                region.nr_touched += 1;
            } else if region.prot_none[page] {
                self.do_numa_page(cpu, task, region_number, page, &mut balanced);
            }
            let distance =
                self.memory.nodes.distance(node, usize::from(self.memory.regions[region_number].node[page]));
            excess += distance - LOCAL_DISTANCE;
            remote += i64::from(distance > LOCAL_DISTANCE);
        }
        self.record.metrics.memory_touches += nr_touched as i64;
        self.record.metrics.memory_touches_remote += remote;
        if let Some(excess) = (excess * PERMILLE).checked_div(nr_touched * LOCAL_DISTANCE) {
            let waiting =
                spec.bound_permille * excess / PERMILLE * self.cost.remote_latency_permille / PERMILLE;
            walker.speed_permille = (PERMILLE * PERMILLE / (PERMILLE + waiting)).max(1) as u32;
        }
        self.memory.walkers[task as usize] = Some(walker);
        self.apply_memory_speed(cpu);
        balanced
    }

    /// The running task goes on at the speed that its memory allows.
    fn apply_memory_speed(&mut self, cpu: usize) {
        let speed = self.thread_speed(cpu);
        if self.rqs[cpu].speed_permille != speed {
            self.pause_step(cpu);
            self.rqs[cpu].speed_permille = speed;
            self.resume_step(cpu);
        }
    }
}
