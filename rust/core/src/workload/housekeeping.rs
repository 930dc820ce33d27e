//! What the kernel itself does now and then on every machine: too little to cost anything, enough to wake idle CPUs, which then
//! look around for work. A machine without it is stiller than any real one.
//!
//! kernel/sched/fair.c balances on such occasions; the threads are those of mm/vmstat.c and mm/compaction.c.

use super::{Load, TaskSpec};
use crate::cpumask::CpuMask;
use crate::load_weight::LoadWeight;
use crate::sim::program::Op;
use crate::topology::MachineSpec;

const MS: u64 = 1_000_000;
/// A worker a CPU folds its counters: `sysctl_stat_interval`, a second. Its run, and how uneven its sleep is, are means over
/// recordings of 5.10 to 6.12 kernels.
const WORKER: Thread = Thread { run_ns: 50_000, sleep_ns: 1000 * MS, spread_permille: 750 };
/// A compactor a node looks at its node's fragmentation: `HPAGE_FRAG_CHECK_INTERVAL_MSEC`; its run likewise.
const COMPACTOR: Thread = Thread { run_ns: 25_000, sleep_ns: 500 * MS, spread_permille: 0 };

struct Thread {
    run_ns: u64,
    sleep_ns: u64,
    spread_permille: u32,
}

impl Load {
    /// Adds a worker for each CPU that is on and a compactor for each node of such CPUs, and gives what forks them.
    pub(super) fn add_housekeeping(&mut self, machine: &MachineSpec) -> Op {
        let nr_cpus = machine.nr_cpus();
        let online =
            CpuMask::from_cpus(nr_cpus, (0..nr_cpus).filter(|&cpu| !machine.offline.contains(&(cpu as u32))));
        let own = |cpu| CpuMask::from_cpus(nr_cpus, [cpu]);
        let of_node = |node| {
            CpuMask::from_cpus(nr_cpus, online.iter().filter(|&cpu| machine.node[cpu] as usize == node))
        };
        let nodes = (0..machine.distance.len()).map(of_node).filter(|mask| !mask.is_empty());
        let first = self.tasks.len() as u32;
        self.add_threads(&WORKER, online.iter().map(own));
        self.add_threads(&COMPACTOR, nodes);
        Op::Fork { first, count: self.tasks.len() as u32 - first, gap_ns: 0 }
    }

    fn add_threads(&mut self, thread: &Thread, masks: impl Iterator<Item = CpuMask>) {
        let program = self.ops.len() as u32;
        self.ops.extend([
            Op::WaitStart,
            Op::Compute { ns: thread.run_ns, spread_permille: 0 },
            Op::Sleep { ns: thread.sleep_ns, spread_permille: thread.spread_permille },
            Op::Jump { to: program + 1 },
        ]);
        self.tasks.extend(masks.map(|mask| TaskSpec {
            allowed: Some(mask),
            kthread: true,
            thread: true,
            footprint_kib: 0,
            start_jitter_ns: thread.sleep_ns,
            ..TaskSpec::new(program, LoadWeight::NICE_0)
        }));
    }
}
