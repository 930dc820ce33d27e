//! kernbench: make -j of a kernel tree, a stream of short processes.
//!
//! make keeps so many jobs at work. A job is a shell that starts the compiler's driver, which starts compiler and assembler
//! with a pipe between them (arch/i386/Makefile, 2.6.15: `-pipe`) and waits for both. When all files are compiled, the
//! linker runs alone. What the processes use is accounted as time(1) does for kernbench. Beside them each CPU has its kernel
//! thread for deferred work, `events/N`, with the nice value of its time (kernel/workqueue.c, 2.6.15, worker_thread()): the
//! only tasks that differ from the others.
//!
//! # Deviates
//! One make: no make of its own for each directory, with a link at its end. Sources are read from the page cache but for one
//! sleep of the compiler; objects are written back by nobody. How the work divides over the processes is assumed.

use serde::{Deserialize, Serialize};

use super::{Load, TaskSpec};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::load_weight::LoadWeight;
use crate::sim::channel::ChannelKind;
use crate::sim::cost::CostModel;
use crate::sim::program::Op;
use crate::sim::rq::TaskId;
use crate::topology::MachineSpec;
use crate::workload::tasks::SETTLE_NS;

/// The most jobs at once.
const MAX_JOBS: i64 = 4096;
/// The most files.
const MAX_FILES: i64 = 1_000_000;
/// The pipe's unit: the compiler writes by the page.
const PAGE_KIB: u64 = 4;
/// Parts of a file's work in 100: headers and parsing; functions, with their text; the assembler as it reads; its end.
const PARSE_PCT: u64 = 45;
const EMIT_PCT: u64 = 45;
const ASSEMBLE_PCT: u64 = 5;
const OBJECT_PCT: u64 = 5;
/// Files differ: even spread of the two large parts of the work.
const FILE_SPREAD_PERMILLE: u32 = 700;
/// Even spread of the others.
const WORK_SPREAD_PERMILLE: u32 = 200;
/// The compiler's sleep until the disk has read what is not cached, and its even spread.
const DISK_NS: u64 = 6_000_000;
const DISK_SPREAD_PERMILLE: u32 = 900;
/// What a compiler keeps in the caches, KiB: the L2 of a Celeron.
const COMPILER_FOOTPRINT_KIB: u32 = 128;

/// events/N: nice, and how often and for how long it works, which is mostly the slab's cache_reap(): assumed.
const EVENTS_NICE: i8 = -5;
const EVENTS_SLEEP_NS: u64 = 2_000_000_000;
const EVENTS_WORK_NS: u64 = 1_000_000;

/// Tasks of a job: shell, driver, compiler, assembler.
pub const JOB_TASKS: u32 = 4;

/// The arguments of a kernbench run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernbench {
    /// Jobs at once, `make -j`.
    pub jobs: i64,
    /// Files to compile.
    pub files: i64,
    /// Nice value of the whole build.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nice: i64,
    /// All tasks are in one task group, of 1024 shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cgroup: bool,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

impl Kernbench {
    /// Checks the arguments.
    pub fn validate(&self) -> Result<()> {
        for (name, value, least, most) in [
            ("jobs", self.jobs, 1, MAX_JOBS),
            ("files", self.files, 1, MAX_FILES),
            ("nice", self.nice, -20, 19),
        ] {
            if !(least..=most).contains(&value) {
                return Err(SimError::invalid(name, value, format!("must be {least} to {most}")));
            }
        }
        Ok(())
    }

    /// The tasks and programs: make, then those of each job's slot, the linker, and a kernel thread a CPU.
    pub fn load(&self, machine: &MachineSpec, cost: &CostModel) -> Load {
        let (jobs, files) = (self.jobs as u32, self.files as u32);
        let linker: TaskId = 1 + JOB_TASKS * jobs;
        let nr_cpus = machine.nr_cpus();
        let online = |&cpu: &usize| !machine.offline.contains(&(cpu as u32));
        let nr_online = (0..nr_cpus).filter(online).count();
        let mut ops = vec![
            Op::Fork { first: linker + 1, count: nr_online as u32, gap_ns: 0 },
            Op::WaitStart,
            Op::ClockStart,
            Op::Jobs { first: 1, tasks: JOB_TASKS, slots: jobs, total: files },
            Op::Fork { first: linker, count: 1, gap_ns: 0 },
            Op::Reap { children: 1 },
            Op::ClockStop,
        ];
        let mut tasks = vec![TaskSpec { start_ns: SETTLE_NS, ..self.spec(0, 0, 0) }];
        for slot in 0..jobs {
            let shell = 1 + JOB_TASKS * slot;
            for (role, parent) in [0, shell, shell + 1, shell + 1].into_iter().enumerate() {
                tasks.push(self.spec(ops.len(), shell + role as u32, parent));
                ops.extend(process(cost));
                match role as u32 {
                    0 => ops.extend([fork(shell + 1), Op::Reap { children: 1 }]),
                    1 => ops.extend([fork(shell + 2), fork(shell + 3), Op::Reap { children: 2 }]),
                    2 => compile(&mut ops, slot, cost),
                    _ => assemble(&mut ops, slot, cost),
                }
                ops.push(Op::Exit);
            }
            tasks[shell as usize + 2].footprint_kib = COMPILER_FOOTPRINT_KIB;
        }
        tasks.push(self.spec(ops.len(), linker, 0));
        ops.extend(process(cost));
        let start = ops.len() as u32;
        ops.push(compute(1000 * cost.kernbench_link_us, WORK_SPREAD_PERMILLE));
        ops.extend([Op::Repeat { to: start, times: files, depth: 0 }, Op::Exit]);
        for cpu in (0..nr_cpus).filter(online) {
            tasks.push(events_thread(ops.len(), cpu, nr_cpus));
        }
        let start = ops.len() as u32;
        ops.push(Op::Sleep { ns: EVENTS_SLEEP_NS, spread_permille: WORK_SPREAD_PERMILLE });
        ops.push(Op::System { ns: EVENTS_WORK_NS, spread_permille: WORK_SPREAD_PERMILLE });
        ops.push(Op::Jump { to: start });
        Load {
            groups: super::one_group_if(self.cgroup),
            channels: vec![(ChannelKind::Pipe, 1024 * PAGE_KIB as u32); jobs as usize],
            accounted: true,
            ..Load::new(tasks, ops)
        }
    }

    fn spec(&self, program: usize, id: TaskId, parent: TaskId) -> TaskSpec {
        let weight = LoadWeight::from_nice(self.nice as i32).unwrap_or(LoadWeight::NICE_0);
        TaskSpec {
            parent,
            mm: id,
            group: u16::from(self.cgroup),
            nice: self.nice as i8,
            ..TaskSpec::new(program as u32, weight)
        }
    }
}

/// The kernel thread of a CPU, in the address space of nobody.
fn events_thread(program: usize, cpu: usize, nr_cpus: usize) -> TaskSpec {
    let weight = LoadWeight::from_nice(i32::from(EVENTS_NICE)).unwrap_or(LoadWeight::NICE_0);
    TaskSpec {
        nice: EVENTS_NICE,
        kthread: true,
        allowed: Some(CpuMask::from_cpus(nr_cpus, [cpu])),
        ..TaskSpec::new(program as u32, weight)
    }
}

/// How every process starts: exec, and what the kernel does for it until it ends.
fn process(cost: &CostModel) -> [Op; 2] {
    [Op::Exec, Op::System { ns: 1000 * cost.kernbench_process_us, spread_permille: WORK_SPREAD_PERMILLE }]
}

fn fork(first: TaskId) -> Op {
    Op::Fork { first, count: 1, gap_ns: 0 }
}

fn compute(ns: u64, spread_permille: u32) -> Op {
    Op::Compute { ns, spread_permille }
}

/// Pages of assembly text of a file.
fn pages(cost: &CostModel) -> u32 {
    (cost.kernbench_asm_kib / PAGE_KIB).max(1) as u32
}

/// A part of a file's work, ns.
fn part(cost: &CostModel, pct: u64) -> u64 {
    cost.kernbench_file_us * 10 * pct
}

/// cc1: reads and parses, then writes the functions' text as it goes.
fn compile(ops: &mut Vec<Op>, channel: u32, cost: &CostModel) {
    let pages = pages(cost);
    ops.push(Op::Sleep { ns: DISK_NS, spread_permille: DISK_SPREAD_PERMILLE });
    ops.push(compute(part(cost, PARSE_PCT), FILE_SPREAD_PERMILLE));
    let start = ops.len() as u32;
    ops.push(compute(part(cost, EMIT_PCT) / u64::from(pages), FILE_SPREAD_PERMILLE));
    ops.push(Op::Write { first: channel, count: 1, rounds: 1 });
    ops.push(Op::Repeat { to: start, times: pages, depth: 0 });
}

/// as: reads the text as it comes, then writes the object.
fn assemble(ops: &mut Vec<Op>, channel: u32, cost: &CostModel) {
    let pages = pages(cost);
    let start = ops.len() as u32;
    ops.push(Op::Read { channel, messages: 1 });
    ops.push(compute(part(cost, ASSEMBLE_PCT) / u64::from(pages), WORK_SPREAD_PERMILLE));
    ops.push(Op::Repeat { to: start, times: pages, depth: 0 });
    ops.push(compute(part(cost, OBJECT_PCT), WORK_SPREAD_PERMILLE));
}
