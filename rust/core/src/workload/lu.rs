//! LU of the NAS parallel benchmarks, OpenMP form: threads that solve a grid in sweeps, each waiting for its neighbour.
//!
//! NPB 3.3 OMP, LU: ssor, jacld, blts, jacu, buts, rhs, setiv. A step scales the right side, sweeps down through the planes and up
//! again, updates, and computes the right side anew. In a sweep each thread has some rows of every plane: it builds its part of the
//! Jacobian, spins until its left neighbour has done with the plane, solves its rows and tells its right one, who may be one plane
//! behind and no more. Everything else is shared out by planes. Both shares are OpenMP's static ones, so the first threads may have a
//! row and a plane more; in the upward sweep rows are counted from the other end, the threads are in the same order.
//!
//! Beside the benchmark run CPU burners that start soon after it, and the kernel's own threads.
//!
//! # Deviates
//! Norms are left out (two of them in a run), so is what the main thread does between two parallel regions. Threads come to their
//! pages as their work gets on, planes and rows in turn, not in the very part of the step that uses them.

use serde::{Deserialize, Serialize};

use super::groups::MAX_QUEUES;
use super::memory::{MemPolicy, RegionSpec, RowWalk, WalkSpec};
use super::tasks::SETTLE_NS;
use super::{Action, GroupSpec, Load, TaskSpec, one_group_if};
use crate::error::{Result, SimError};
use crate::load_weight::{LoadWeight, NICE_0_LOAD};
use crate::sim::cost::CostModel;
use crate::sim::groups::GroupId;
use crate::sim::program::{HOG_NS, Op};
use crate::sim::rq::TaskId;
use crate::topology::MachineSpec;

/// The most burners of one run.
const MAX_HOGS: i64 = 1024;
/// The burners come so long after the benchmark. No mail says in what order they were started. Burners first can be ruled out
/// by the published counts of threads by node: with two of them in one half of the machine, v5.4 leaves all threads in the other
/// half for good, by its own rules, and no run shows that without NUMA balancing.
const HOGS_AFTER_NS: u64 = 1_000_000_000;
/// Shares of a step's work, per mille: assumed. A sweep is half Jacobian, half solution.
const SCALE_PERMILLE: u64 = 30;
const SWEEP_PERMILLE: u64 = 300;
const UPDATE_PERMILLE: u64 = 50;
/// The three directions of rhs.
const RHS_PERMILLE: [u64; 3] = [107, 107, 106];
/// Even spread of a thread's work between two waits: what caches make of equal work; assumed.
const WORK_SPREAD_PERMILLE: u32 = 20;
/// Arrays of the whole grid, and bytes of a point in one.
const ARRAYS: u64 = 5;
const POINT_BYTES: u64 = 5 * 8;
const PAGE_BYTES: u64 = 4096;
/// What a point of a row has in both sweeps' blocks of the Jacobian: eight of 5 x 5. They stay in the thread's caches.
const BLOCK_BYTES: u64 = 8 * 25 * 8;
/// libgomp: turns that a thread spins at a barrier before it sleeps, with a CPU for each thread and with more threads.
const SPIN_TURNS: u64 = 300_000;
const THROTTLED_SPIN_TURNS: u64 = 1_000;

/// The arguments of a run of LU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuOmp {
    /// Threads (OMP_NUM_THREADS).
    pub threads: i64,
    /// Size of the grid and number of steps.
    pub problem_class: ProblemClass,
    /// Steps that are measured, instead of the class's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<i64>,
    /// CPU burners beside it.
    #[serde(default)]
    pub hogs: i64,
    /// Who is in which task group.
    #[serde(default)]
    pub cgroups: Cgroups,
    /// Time between two counts of threads by node, ms.
    #[serde(default = "five_seconds")]
    pub sample_ms: i64,
}

fn five_seconds() -> i64 {
    5000
}

/// The problem classes of NPB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProblemClass {
    /// 64 points a side.
    A,
    /// 102.
    B,
    /// 162.
    C,
    /// 408.
    D,
}

/// Task groups of benchmark and burners; each has 1024 shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cgroups {
    /// All are in the root.
    #[default]
    None,
    /// All are in one.
    Shared,
    /// The benchmark is in one, each burner in one of its own.
    Separate,
}

impl ProblemClass {
    /// Points a side.
    fn side(self) -> u64 {
        match self {
            Self::A => 64,
            Self::B => 102,
            Self::C => 162,
            Self::D => 408,
        }
    }

    /// Rows of a plane, points of a row and planes that are computed: all but the boundary.
    fn interior(self) -> u64 {
        self.side() - 2
    }

    fn steps(self) -> i64 {
        if self == Self::D { 300 } else { 250 }
    }

    /// Pages of a plane, all arrays together.
    fn plane_pages(self) -> u64 {
        (ARRAYS * POINT_BYTES * self.side() * self.side()).div_ceil(PAGE_BYTES)
    }
}

/// What a thread gets of `total` rows or planes under OpenMP's static schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    first: u64,
    count: u64,
}

impl Share {
    fn of(total: u64, threads: u64, thread: u64) -> Self {
        let (each, more) = (total / threads, total % threads);
        Self { first: thread * each + thread.min(more), count: each + u64::from(thread < more) }
    }

    /// The same share counted from the other end.
    fn mirrored(self, total: u64) -> Self {
        Self { first: total - self.first - self.count, count: self.count }
    }
}

impl LuOmp {
    /// Checks the arguments.
    pub fn validate(&self, machine: &MachineSpec) -> Result<()> {
        for (name, value, least, most) in [
            ("threads", self.threads, 1, self.problem_class.interior() as i64),
            ("steps", self.steps.unwrap_or(1), 1, 1_000_000),
            ("hogs", self.hogs, 0, MAX_HOGS),
            ("sample_ms", self.sample_ms, 1, 3_600_000),
        ] {
            if !(least..=most).contains(&value) {
                let why = if name == "threads" { ", a row for each" } else { "" };
                return Err(SimError::invalid(name, value, format!("must be {least} to {most}{why}")));
            }
        }
        let most = (MAX_QUEUES / machine.nr_cpus()) as i64;
        if self.cgroups == Cgroups::Separate && self.hogs >= most {
            let rule = format!("with a group each, must be fewer than {most} on {}", machine.name);
            return Err(SimError::invalid("hogs", self.hogs, rule));
        }
        Ok(())
    }

    /// The argument that asks for task groups, and its value, if it does.
    pub fn first_group(&self) -> Option<(String, String)> {
        let value = match self.cgroups {
            Cgroups::None => return None,
            Cgroups::Shared => "\"shared\"",
            Cgroups::Separate => "\"separate\"",
        };
        Some(("cgroups".to_owned(), value.to_owned()))
    }

    /// Burners, threads, their programs and memory.
    pub fn load(&self, machine: &MachineSpec, cost: &CostModel) -> Load {
        let hogs = self.hogs as u32;
        let (main, threads) = (1 + hogs, self.threads as u32);
        // The first is what forks the kernel's own threads.
        let mut ops = vec![ENDLESS_SLEEP];
        // Each program is started from a shell of its own, somewhere on the machine.
        let start = |program| [Op::Roam, Op::Fork { first: program, count: 1, gap_ns: 0 }];
        ops.push(Op::Sleep { ns: SETTLE_NS, spread_permille: 0 });
        ops.extend(start(main));
        ops.push(Op::Sleep { ns: HOGS_AFTER_NS, spread_permille: 0 });
        ops.extend((1..=hogs).flat_map(start));
        ops.push(ENDLESS_SLEEP);
        let mut tasks = vec![TaskSpec::new(0, LoadWeight::NICE_0)];
        let separate = self.cgroups == Cgroups::Separate;
        let shared = GroupId::from(self.cgroups == Cgroups::Shared);
        for hog in 1..=hogs {
            let group = if separate { hog as GroupId } else { shared };
            tasks.push(TaskSpec { mm: hog, group, ..TaskSpec::new(ops.len() as u32, LoadWeight::NICE_0) });
        }
        ops.push(Op::Compute { ns: HOG_NS, spread_permille: 0 });
        let group = if separate { main as GroupId } else { shared };
        for thread in 0..threads {
            let part = Part::new(self, machine, cost, thread);
            tasks.push(TaskSpec {
                parent: if thread == 0 { 0 } else { main },
                mm: main,
                footprint_kib: part.footprint_kib(),
                group,
                memory: Some(part.walk),
                ..TaskSpec::new(ops.len() as u32, LoadWeight::NICE_0)
            });
            part.program(main, &mut ops);
        }
        let name = |hog| if hog == hogs { "lu".to_owned() } else { format!("hog{hog}") };
        let own = |hog| GroupSpec { name: name(hog), shares: NICE_0_LOAD, ..GroupSpec::default() };
        let sample =
            Action::CountByNode { first: main, count: threads, period_ns: self.sample_ms as u64 * 1_000_000 };
        let mut load = Load {
            groups: if separate { (0..=hogs).map(own).collect() } else { one_group_if(shared != 0) },
            barriers: vec![threads],
            regions: vec![region(main, self.problem_class)],
            actions: vec![(self.sample_ms as u64 * 1_000_000, sample)],
            ..Load::new(tasks, ops)
        };
        load.tasks.iter_mut().for_each(|task| task.thread = true);
        load.ops[0] = load.add_housekeeping(machine);
        load
    }
}

const ENDLESS_SLEEP: Op = Op::Sleep { ns: HOG_NS, spread_permille: 0 };

/// The arrays, plane behind plane.
fn region(mm: u32, class: ProblemClass) -> RegionSpec {
    RegionSpec {
        mm,
        nr_pages: (class.plane_pages() * class.side()) as u32,
        page_kib: (PAGE_BYTES / 1024) as u32,
        policy: MemPolicy::Local,
        nodes: Vec::new(),
        first_node: None,
    }
}

/// What one thread does.
struct Part {
    class: ProblemClass,
    steps: u32,
    thread: u32,
    threads: u32,
    share: Share,
    /// Work on its rows of one plane in one sweep, ns.
    stage_ns: u64,
    spin_ns: u64,
    walk: WalkSpec,
}

impl Part {
    fn new(lu: &LuOmp, machine: &MachineSpec, cost: &CostModel, thread: u32) -> Self {
        let (class, threads) = (lu.problem_class, lu.threads as u32);
        let interior = class.interior();
        let share = Share::of(interior, u64::from(threads), u64::from(thread));
        let stage_ns = share.count * interior * cost.lu_point_ns;
        let online = machine.nr_cpus() - machine.offline.len();
        let turns = if threads as usize <= online { SPIN_TURNS } else { THROTTLED_SPIN_TURNS };
        let mut part = Self {
            class,
            steps: lu.steps.unwrap_or(class.steps()) as u32,
            thread,
            threads,
            share,
            stage_ns,
            spin_ns: turns * cost.omp_spin_turn_ns,
            walk: walk(class, share),
        };
        // Once through its planes and its rows in a step.
        part.walk.page_ns = (part.step_ns() / u64::from(part.walk.span())).max(1);
        part
    }

    /// Work of a whole step, ns.
    fn step_ns(&self) -> u64 {
        self.stage_ns * self.class.interior() * 1000 / SWEEP_PERMILLE
    }

    /// Its blocks of the Jacobian, KiB.
    fn footprint_kib(&self) -> u32 {
        (self.share.count * self.class.interior() * BLOCK_BYTES).div_ceil(1024) as u32
    }

    /// The program: initial values, a step that is not timed, the steps that are.
    fn program(&self, main: TaskId, ops: &mut Vec<Op>) {
        let is_main = self.thread == 0;
        if is_main && self.threads > 1 {
            ops.push(Op::Fork { first: main + 1, count: self.threads - 1, gap_ns: 0 });
        }
        // setiv() and setbv(): the first touch of the thread's planes.
        ops.push(compute(self.walk.page_ns * u64::from(self.walk.nr_pages)));
        ops.push(self.barrier());
        self.step(ops);
        if is_main {
            ops.push(Op::ClockStart);
        }
        let first = ops.len() as u32;
        self.step(ops);
        ops.push(Op::Repeat { to: first, times: self.steps, depth: 0 });
        if is_main {
            ops.push(Op::ClockStop);
        }
        // The run ends before the sleep does.
        ops.extend([ENDLESS_SLEEP, Op::Exit]);
    }

    /// A step: seven barriers.
    fn step(&self, ops: &mut Vec<Op>) {
        let part = |permille| compute(self.step_ns() * permille / 1000);
        ops.extend([part(SCALE_PERMILLE), self.barrier()]);
        for _ in 0..2 {
            self.sweep(ops);
            ops.push(self.barrier());
        }
        ops.extend([part(UPDATE_PERMILLE), self.barrier()]);
        for permille in RHS_PERMILLE {
            ops.extend([part(permille), self.barrier()]);
        }
    }

    /// A sweep over the planes. Thread i sets flag i, its right neighbour takes it.
    fn sweep(&self, ops: &mut Vec<Op>) {
        let first = ops.len() as u32;
        ops.push(compute(self.stage_ns / 2));
        if self.thread > 0 {
            ops.push(Op::TakeFlag { flag: self.thread - 1 });
        }
        ops.push(compute(self.stage_ns - self.stage_ns / 2));
        if self.thread + 1 < self.threads {
            ops.push(Op::SetFlag { flag: self.thread });
        }
        ops.push(Op::Repeat { to: first, times: self.class.interior() as u32, depth: 1 });
    }

    fn barrier(&self) -> Op {
        Op::Barrier { barrier: 0, spin_ns: self.spin_ns }
    }
}

fn compute(ns: u64) -> Op {
    Op::Compute { ns, spread_permille: WORK_SPREAD_PERMILLE }
}

/// A thread's way through the arrays: its planes, then its rows in each plane, as the lower and as the upper sweep has them.
fn walk(class: ProblemClass, share: Share) -> WalkSpec {
    let pages = class.plane_pages();
    // Interior rows and planes start behind the boundary's. A row begins and ends inside a page of each array.
    let run = (share.count * pages).div_ceil(class.side()) + ARRAYS;
    let first_of = |share: Share| (pages + (1 + share.first) * pages / class.side()) as u32;
    WalkSpec {
        region: 0,
        first: ((1 + share.first) * pages) as u32,
        nr_pages: (share.count * pages) as u32,
        start: 0,
        page_ns: 1,
        bound_permille: 500,
        rows: Some(RowWalk {
            firsts: [first_of(share), first_of(share.mirrored(class.interior()))],
            run: run as u32,
            stride: pages as u32,
            count: class.interior() as u32,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_threads_have_a_row_more() {
        // Class C on 156 threads: 160 rows, so four threads have two.
        let shares: Vec<Share> = (0..156).map(|thread| Share::of(160, 156, thread)).collect();
        assert_eq!(shares.iter().filter(|share| share.count == 2).count(), 4);
        assert_eq!((shares[3], shares[4]), (Share { first: 6, count: 2 }, Share { first: 8, count: 1 }));
        assert_eq!(shares[155], Share { first: 159, count: 1 });
        // Upwards thread 0 has the last two rows.
        assert_eq!(shares[0].mirrored(160), Share { first: 158, count: 2 });
        assert_eq!(shares[155].mirrored(160), Share { first: 0, count: 1 });
    }

    #[test]
    fn walks_stay_in_the_arrays_and_cover_the_interior() {
        for class in [ProblemClass::A, ProblemClass::B, ProblemClass::C, ProblemClass::D] {
            for threads in [1, 7, class.interior()] {
                let nr_pages = region(0, class).nr_pages as usize;
                let mut own = vec![0; nr_pages];
                let mut any = vec![false; nr_pages];
                for thread in 0..threads {
                    let walk = walk(class, Share::of(class.interior(), threads, thread));
                    for place in 0..walk.span() {
                        own[walk.page(place)] += u32::from(place < walk.nr_pages);
                        any[walk.page(place)] = true;
                    }
                }
                let boundary = class.plane_pages() as usize;
                let interior = boundary..nr_pages - boundary;
                assert!(own[interior.clone()].iter().all(|&walks| walks == 1), "planes are shared out once");
                assert!(any[interior].iter().all(|&touched| touched));
            }
        }
    }

    #[test]
    fn a_row_of_class_c_lies_in_some_thirteen_pages_of_a_plane() {
        // Five arrays of 162 x 5 x 8 = 6480 bytes a row: 8 pages together, and one more each where they are cut.
        assert_eq!(ProblemClass::C.plane_pages(), 1282);
        let rows = walk(ProblemClass::C, Share { first: 0, count: 1 }).rows.expect("rows");
        assert_eq!((rows.run, rows.stride, rows.count), (8 + 5, 1282, 160));
    }
}
