//! How long the engine's parts take: `make bench`. Figures of one machine are in benchmarks/README.md.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use schedlab_core::kernels::Kernel;
use schedlab_core::kernels::env::{CpuIdleType, LbEnv, LbView, RqStats, SystemState};
use schedlab_core::pelt::{PeltForm, PeltTable, SchedAvg, attach_entity_load_avg};
use schedlab_core::rng::Rng;
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::{KernelSpec, Scenario, WorkloadSpec};
use schedlab_core::sim::cost::CostModel;
use schedlab_core::sim::event::EventQueue;
use schedlab_core::topology::{DomainRules, MachineSpec, build_sched_domains};
use schedlab_core::workload::Hackbench;
use schedlab_core::workload::hackbench::{Ipc, Mode};

/// Scaled weight of nice 0.
const NICE_0_LOAD: u64 = 1 << 20;
/// Steps of each small benchmark, so that the clock's own cost does not show.
const STEPS: u64 = 1_000;

fn main() {
    divan::main();
}

/// A running entity of nice 0, aged `step_ns` at a time.
#[divan::bench(args = [700, 20_000, 4_000_000])]
fn pelt_update(bencher: Bencher<'_, '_>, step_ns: u64) {
    let table = PeltTable::new(32).expect("the default half-life");
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        let mut avg = SchedAvg::default();
        let mut now = 1 << 30;
        for _ in 0..STEPS {
            now += step_ns;
            // In memory between the steps, as in a run.
            black_box(&mut avg).update_se(&table, PeltForm::Modern, now, NICE_0_LOAD, 1, 1, true);
        }
        avg
    });
}

/// Attaching an entity to a queue.
#[divan::bench]
fn pelt_attach(bencher: Bencher<'_, '_>) {
    let table = PeltTable::new(32).expect("the default half-life");
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        let mut cfs = SchedAvg::default();
        for util in 0..STEPS {
            let mut se = SchedAvg { load_avg: 1024, util_avg: black_box(util), ..SchedAvg::default() };
            attach_entity_load_avg(black_box(&mut cfs), &mut se, NICE_0_LOAD, &table, PeltForm::Modern);
        }
        cfs
    });
}

/// The classical hold model: take the earliest event and schedule another one for its CPU.
#[divan::bench(args = [8, 224, 4096])]
fn event_queue_hold(bencher: Bencher<'_, '_>, nr_cpus: usize) {
    let (mut queue, mut random) = full_queue(nr_cpus);
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        for _ in 0..STEPS {
            let (time_ns, cpu) = queue.first();
            queue.set(cpu, time_ns + 1 + random.below(4_000_000));
        }
    });
}

/// An event of any CPU moves, as when an interrupt is sent.
#[divan::bench(args = [8, 224, 4096])]
fn event_queue_move(bencher: Bencher<'_, '_>, nr_cpus: usize) {
    let (mut queue, mut random) = full_queue(nr_cpus);
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        for _ in 0..STEPS {
            let cpu = random.below(nr_cpus as u64) as usize;
            queue.set(cpu, black_box(random.below(4_000_000)));
        }
    });
}

fn full_queue(nr_cpus: usize) -> (EventQueue, Rng) {
    let mut random = Rng::stream(0, "events", 0);
    let mut queue = EventQueue::new(nr_cpus);
    for cpu in 0..nr_cpus {
        queue.set(cpu, random.below(4_000_000));
    }
    (queue, random)
}

/// find_busiest_group() on the machine's highest level, half of the CPUs busy.
#[divan::bench(args = [8, 224])]
fn find_busiest_group(bencher: Bencher<'_, '_>, nr_cpus: usize) {
    let machine = machine(nr_cpus);
    let domains = build_sched_domains(&machine, &DomainRules::V5_7).expect("the machine is good");
    let mut rqs = RqStats::new(nr_cpus);
    let mut random = Rng::stream(0, "queues", 0);
    for cpu in (0..nr_cpus).filter(|cpu| cpu % 2 == 0) {
        rqs.nr_running[cpu] = 1 + random.below(4) as u32;
        rqs.h_nr_running[cpu] = rqs.nr_running[cpu];
        rqs.load[cpu] = 1024 * u64::from(rqs.nr_running[cpu]);
        rqs.util[cpu] = random.below(1024);
        rqs.runnable[cpu] = rqs.util[cpu] * u64::from(rqs.nr_running[cpu]);
        rqs.idle[cpu] = false;
    }
    let kernel = Kernel::named("v5.7").expect("a known kernel");
    let system = SystemState::default();
    let sgc_imbalance = vec![false; domains.nr_sgc];
    let sd = domains.per_cpu[1].last().expect("a domain");
    let mut sg_stats = Vec::new();
    bencher.bench_local(|| {
        let view = LbView {
            kernel,
            groups: &domains.groups,
            sgc_imbalance: &sgc_imbalance,
            rqs: &rqs,
            system: &system,
            node_of: &machine.node,
        };
        let mut env = LbEnv::new(view, sd, 1, CpuIdleType::NewlyIdle, 0, &mut sg_stats);
        (kernel.balance.find_busiest_group.f)(&mut env)
    });
}

/// A whole run of hackbench, per message.
#[divan::bench(args = [(8, 1), (8, 4), (8, 16), (224, 16)], sample_count = 10)]
fn hackbench(bencher: Bencher<'_, '_>, (nr_cpus, groups): (usize, u32)) {
    let loops = 320 / groups;
    let work = Hackbench {
        groups,
        loops,
        ipc: Ipc::Socket,
        mode: Mode::Process,
        senders: 20,
        receivers: 20,
        bytes: 100,
        cgroup: false,
    };
    let scenario = Scenario {
        machine: machine(nr_cpus),
        costs: CostModel::default(),
        kernel: KernelSpec { name: "v5.7".to_owned(), ..KernelSpec::default() },
        workload: WorkloadSpec::Hackbench(work),
    };
    bencher
        .counter(ItemsCount::new(groups * loops * 20 * 20))
        .bench_local(|| run_seeds(&scenario, &[1], 1, &Progress::default()).expect("the scenario runs"));
}

/// Last-level caches of four CPUs, one node; from 224 CPUs on two nodes, four threads a core.
fn machine(nr_cpus: usize) -> MachineSpec {
    let by = |size: usize| (0..nr_cpus).map(|cpu| (cpu / size) as u32).collect::<Vec<u32>>();
    let uniform = MachineSpec { arch: "arm64".to_owned(), ..MachineSpec::uniform("bench", nr_cpus) };
    if nr_cpus < 224 {
        return MachineSpec { cluster: by(4), llc: by(4), ..uniform };
    }
    let half = by(nr_cpus / 2);
    MachineSpec {
        core: by(4),
        cluster: by(4),
        llc: half.clone(),
        die: half.clone(),
        package: half.clone(),
        node: half,
        distance: vec![vec![10, 20], vec![20, 10]],
        ..uniform
    }
}
