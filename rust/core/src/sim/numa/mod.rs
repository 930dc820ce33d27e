//! NUMA balancing: scans mark pages, touches of marked pages fault, faults say where tasks and pages belong.
//!
//! kernel/sched/fair.c: task_tick_numa(), task_numa_work(), task_numa_fault(), task_numa_placement(), task_numa_group(),
//! task_numa_migrate(); mm/memory.c: do_numa_page(). Which place a task gets, whether a page moves and what is scanned are the
//! kernel's slots; the arithmetic of faults is `kernels::numa::faults`.
//!
//! # Deviates
//! A stopper's move takes effect at the tick that asked for it. sched_setnuma() does not take the task off its queue and put it
//! back. Of two groups of one size the older one is joined; the kernel compares addresses.

mod fault;
mod place;
mod scan;

use super::memory::Region;
use super::rq::TaskId;
use super::{Memory, Sim};
use crate::cpumask::CpuMask;
use crate::kernels::env::TaskNuma;
use crate::kernels::numa::faults::{Faults, GroupShare, NumaGroup, ScanTunables};
use crate::sim::tunables::Tunables;
use crate::topology::MachineSpec;
use crate::workload::Load;

/// CPU and low bits of the number of the task that last faulted on a page (`page_cpupid_last()`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpupid(u32);

impl Cpupid {
    /// Nobody did.
    pub const UNSET: Self = Self(u32::MAX);
    /// Bits of the task (`LAST__PID_MASK`).
    const PID_MASK: u32 = 0xff;

    fn new(cpu: usize, task: TaskId) -> Self {
        Self((cpu as u32) << 8 | (task & Self::PID_MASK))
    }

    fn cpu(self) -> Option<usize> {
        (self != Self::UNSET).then_some((self.0 >> 8) as usize)
    }

    /// cpupid_match_pid().
    fn is_of(self, task: TaskId) -> bool {
        self != Self::UNSET && self.0 & Self::PID_MASK == task & Self::PID_MASK
    }
}

/// What the faults of a tick led to.
#[derive(Clone, Copy, Default)]
pub(super) struct Balanced {
    /// A fault has come, so the tick's placement is done.
    placed: bool,
    /// The task would like to go to its preferred node.
    pub wants_place: bool,
}

/// NUMA balancing of a run.
pub struct Numa {
    /// It is on, and there are tasks with memory and nodes to choose from.
    pub on: bool,
    scan: ScanTunables,
    /// By number of the address space.
    mms: Vec<Mm>,
    /// By task; empty unless `on`.
    tasks: Vec<NumaState>,
    groups: Vec<NumaGroup>,
    /// `rq->numa_migrate_on`.
    numa_migrate_on: CpuMask,
    /// `cpumask_of_node()`.
    node_cpus: Vec<CpuMask>,
    /// By CPU: the load that searches for a place read, where it is not the balancer's.
    load: Vec<u64>,
}

/// The scanner's state of an address space (`struct mm_struct`).
#[derive(Clone, Debug, Default)]
struct Mm {
    /// `numa_next_scan`, jiffies.
    next_scan: u64,
    /// `numa_scan_seq`.
    scan_seq: u32,
    /// `numa_scan_offset`: mapping and page.
    offset: (usize, usize),
    /// `mm_users`.
    users: u32,
    /// Its first task.
    leader: TaskId,
    regions: Vec<VmaState>,
}

/// The scanner's state of a mapping (`struct vma_numab_state`).
#[derive(Clone, Debug)]
struct VmaState {
    region: usize,
    /// Jiffies; `None` until a scan meets it.
    next_scan: Option<u64>,
    start_scan_seq: u32,
    prev_scan_seq: u32,
    /// `pids_active`: of the window before and of this one.
    active: [u64; 2],
    active_reset: u64,
}

/// What `struct task_struct` has for NUMA balancing.
#[derive(Clone, Debug, Default)]
struct NumaState {
    mm: usize,
    /// `node_stamp`: run time from which the next scan is due, ns.
    node_stamp: u64,
    scan_seq: u32,
    scan_period_ms: u64,
    scan_period_max_ms: u64,
    preferred: Option<u32>,
    /// `numa_migrate_retry`, jiffies.
    migrate_retry: u64,
    /// `numa_faults`; empty before the first fault.
    faults: Faults,
    /// NUMA_MEMBUF, NUMA_CPUBUF: since the last placement, by node, shared and private.
    mem_buffer: Vec<[u64; 2]>,
    cpu_buffer: Vec<[u64; 2]>,
    /// `numa_faults_locality`: pages on other nodes and on the CPU's own.
    locality: [u64; 2],
    last_placement: u64,
    last_sum_exec_runtime: u64,
    group: Option<usize>,
}

impl Numa {
    /// Before the first fault.
    pub fn new(load: &Load, memory: &Memory, machine: &MachineSpec, tunables: &Tunables) -> Self {
        let nr_nodes = memory.nodes.len();
        let on = tunables.numa_balancing && memory.is_used() && nr_nodes > 1;
        let nr_cpus = machine.nr_cpus();
        let mut mms = Vec::new();
        let mut tasks = Vec::new();
        if on {
            let nr_mms = load.regions.iter().map(|region| region.mm as usize + 1).max().unwrap_or(0);
            mms = vec![Mm::default(); nr_mms];
            for (region, spec) in load.regions.iter().enumerate() {
                mms[spec.mm as usize].regions.push(VmaState {
                    region,
                    next_scan: None,
                    start_scan_seq: 0,
                    prev_scan_seq: 0,
                    active: [0; 2],
                    active_reset: 0,
                });
            }
            tasks = load
                .tasks
                .iter()
                .map(|task| NumaState { mm: task.mm as usize, ..NumaState::default() })
                .collect();
        }
        let is_of = |node: usize, cpu: usize| {
            machine.node[cpu] as usize == node && !machine.offline.contains(&(cpu as u32))
        };
        let cpus_of = |node| CpuMask::from_cpus(nr_cpus, (0..nr_cpus).filter(|&cpu| is_of(node, cpu)));
        Self {
            on,
            scan: tunables.numa_scan,
            mms,
            tasks,
            groups: Vec::new(),
            numa_migrate_on: CpuMask::new(nr_cpus),
            node_cpus: if on { (0..nr_nodes).map(cpus_of).collect() } else { Vec::new() },
            load: if on { vec![0; nr_cpus] } else { Vec::new() },
        }
    }

    /// A CPU of a node goes off or comes back.
    pub fn plug_cpu(&mut self, node: u32, cpu: usize, online: bool) {
        let Some(cpus) = self.node_cpus.get_mut(node as usize) else { return };
        if online { cpus.set(cpu) } else { cpus.clear(cpu) }
    }

    /// `numa_preferred_nid`.
    #[inline]
    pub fn preferred_node(&self, task: TaskId) -> Option<u32> {
        self.tasks.get(task as usize).and_then(|state| state.preferred)
    }

    /// The group's faults if the task is in one, else its own.
    fn weighing_faults<'a>(&'a self, state: &'a NumaState) -> Option<&'a Faults> {
        match state.group {
            Some(group) => Some(&self.groups[group].faults),
            None => Some(&state.faults).filter(|faults| faults.total > 0),
        }
    }

    /// What migrate_degrades_locality() reads of a task.
    pub fn view(&self, memory: &Memory, task: TaskId, src_node: u32, dst_node: u32) -> Option<TaskNuma> {
        let state = self.tasks.get(task as usize).filter(|_| src_node != dst_node)?;
        if state.mem_buffer.is_empty() {
            return None;
        }
        let (src, dst) = (src_node as usize, dst_node as usize);
        let hop = memory.nodes.distance(src, dst);
        let weight =
            |node| self.weighing_faults(state).map_or(0, |faults| memory.nodes.weight(faults, node, hop));
        Some(TaskNuma { preferred_node: state.preferred, src_weight: weight(src), dst_weight: weight(dst) })
    }

    /// Pages of 4 KiB that an address space has touched (`get_mm_rss()`).
    fn rss(&self, memory: &Memory, mm: usize) -> u64 {
        let pages = |region: &Region| region.nr_touched * u64::from(region.spec.page_kib) / 4;
        self.mms[mm].regions.iter().map(|vma| pages(&memory.regions[vma.region])).sum()
    }

    fn group_share(&self, task: TaskId) -> Option<GroupShare> {
        self.tasks[task as usize].group.map(|group| GroupShare::of(&self.groups[group]))
    }

    /// task_scan_start(), ms.
    fn task_scan_start(&self, memory: &Memory, task: TaskId) -> u64 {
        let rss = self.rss(memory, self.tasks[task as usize].mm);
        self.scan.scan_start(rss, self.group_share(task))
    }

    /// task_scan_max(), ms.
    fn task_scan_max(&self, memory: &Memory, task: TaskId) -> u64 {
        let rss = self.rss(memory, self.tasks[task as usize].mm);
        self.scan.scan_max(rss, self.group_share(task))
    }

    /// The task leaves its group.
    fn leave_group(&mut self, task: TaskId) {
        let state = &mut self.tasks[task as usize];
        if let Some(group) = state.group.take() {
            let group = &mut self.groups[group];
            group.faults.merge(&state.faults, -1);
            group.nr_tasks -= 1;
        }
    }

    /// task_numa_group(): a task that faulted on a page which another one used last joins that one's group, if the group
    /// is bigger and the two are of one process. False if the fault counts as private: they do not belong together.
    fn task_numa_group(&mut self, task: TaskId, other: Option<TaskId>) -> bool {
        let id = task as usize;
        if self.tasks[id].group.is_none() {
            self.groups.push(NumaGroup::of(&self.tasks[id].faults));
            self.tasks[id].group = Some(self.groups.len() - 1);
        }
        let Some(mine) = self.tasks[id].group else { return true };
        let theirs = other.and_then(|other| self.tasks[other as usize].group);
        let Some((other, theirs)) = other.zip(theirs).filter(|&(_, theirs)| theirs != mine) else {
            return true;
        };
        let (size, their_size) = (self.groups[mine].nr_tasks, self.groups[theirs].nr_tasks);
        if size > their_size || (size == their_size && mine < theirs) {
            return true;
        }
        if self.tasks[other as usize].mm != self.tasks[id].mm {
            // Memory of several processes would join them, too; mappings are of one here.
            return false;
        }
        self.leave_group(task);
        let group = &mut self.groups[theirs];
        group.faults.merge(&self.tasks[id].faults, 1);
        group.nr_tasks += 1;
        self.tasks[id].group = Some(theirs);
        true
    }
}

impl Sim<'_> {
    /// init_numa_balancing(): a new process, or a thread of one.
    pub(super) fn init_numa_balancing(&mut self, task: TaskId) {
        if !self.numa.on || self.memory.walkers[task as usize].is_none() {
            return;
        }
        let jiffies = self.jiffies();
        let delay = self.ms_to_jiffies(self.numa.scan.delay_ms);
        let mm_number = self.numa.tasks[task as usize].mm;
        let mm = &mut self.numa.mms[mm_number];
        mm.users += 1;
        let (scan_seq, leader) = (mm.scan_seq, mm.leader);
        if mm.users == 1 {
            mm.next_scan = jiffies + delay;
            mm.leader = task;
        }
        let first = mm.users == 1;
        let scan_max = self.numa.task_scan_max(&self.memory, task);
        let preferred = if first { None } else { self.numa.tasks[leader as usize].preferred };
        let state = &mut self.numa.tasks[task as usize];
        state.scan_seq = scan_seq;
        state.scan_period_ms = self.numa.scan.delay_ms;
        if !first {
            // The kernel takes the smaller of a time in ms and one in ns: always the former, read as ns.
            state.node_stamp = scan_max + 2 * self.tunables.tick_ns;
            state.preferred = preferred;
        }
    }

    /// task_numa_free(): the task has exited.
    pub(super) fn task_numa_free(&mut self, task: TaskId) {
        if self.numa.on && self.memory.walkers[task as usize].is_some() {
            self.numa.leave_group(task);
            let mm = self.numa.tasks[task as usize].mm;
            self.numa.mms[mm].users -= 1;
        }
    }

    /// account_numa_enqueue(), account_numa_dequeue(): a task came to a CPU's queue or left it.
    #[inline]
    pub(in crate::sim) fn account_numa(&mut self, cpu: usize, task: TaskId, sign: i32) {
        if !self.numa.on {
            return;
        }
        if let Some(preferred) = self.numa.preferred_node(task) {
            let add = |count: &mut u32| *count = count.wrapping_add_signed(sign);
            add(&mut self.stats.nr_numa_running[cpu]);
            if preferred == self.node_of[cpu] {
                add(&mut self.stats.nr_preferred_running[cpu]);
            }
        }
    }

    /// sched_setnuma().
    fn sched_setnuma(&mut self, task: TaskId, node: u32) {
        let (cpu, queued) = {
            let task = &self.tasks[task as usize];
            (usize::from(task.cpu), task.se.on_rq)
        };
        if queued {
            self.account_numa(cpu, task, -1);
        }
        self.numa.tasks[task as usize].preferred = Some(node);
        if queued {
            self.account_numa(cpu, task, 1);
        }
    }

    /// update_scan_period(): a task changes CPU; away from where it wanted to be it is scanned as at first.
    pub(super) fn update_scan_period(&mut self, task: TaskId, new_cpu: usize) {
        if !self.numa.on {
            return;
        }
        let src = self.node_of[usize::from(self.tasks[task as usize].cpu)];
        let dst = self.node_of[new_cpu];
        let state = &self.numa.tasks[task as usize];
        if src == dst || state.mem_buffer.is_empty() {
            return;
        }
        let settled = state.scan_seq != 0;
        let elsewhere = state.preferred.is_some_and(|preferred| preferred != src);
        if settled && (state.preferred == Some(dst) || elsewhere) {
            return;
        }
        self.numa.tasks[task as usize].scan_period_ms = self.numa.task_scan_start(&self.memory, task);
    }

    /// msecs_to_jiffies().
    fn ms_to_jiffies(&self, ms: u64) -> u64 {
        (ms * u64::from(self.tunables.hz)).div_ceil(1000)
    }
}

/// The bit of a task in the masks of who used a mapping.
fn pid_bit(task: TaskId) -> u64 {
    1 << (task % 64)
}
