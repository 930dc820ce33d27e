//! kernbench: what a build takes, worked out by hand; and that kernels see the same work.

mod common;

use common::{EVERY_KERNEL, run};
use schedlab_core::record::Record;
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::{KernelSpec, Scenario, WorkloadSpec};
use schedlab_core::sim::cost::CostModel;
use schedlab_core::topology::MachineSpec;
use schedlab_core::workload::Kernbench;

const MS: f64 = 1e6;

/// Costs that a hand can add up: what does not count here takes a ns.
fn costs() -> CostModel {
    CostModel {
        kernbench_file_us: 100_000,
        kernbench_process_us: 5_000,
        kernbench_link_us: 20_000,
        kernbench_asm_kib: 40,
        tick_ns: 1,
        context_switch_ns: 1,
        mm_switch_ns: 1,
        wakeup_ns: 1,
        refill_llc_kib_ns: 0,
        refill_node_kib_ns: 0,
        refill_remote_kib_ns: 0,
        ..CostModel::default()
    }
}

fn scenario(nr_cpus: usize, kernel: &str, jobs: i64, files: i64) -> Scenario {
    let (name, patches) = kernel.split_once('+').unwrap_or((kernel, ""));
    let patches = patches.split('+').filter(|patch| !patch.is_empty()).map(str::to_owned).collect();
    Scenario {
        // Caches of their own, as in the machine of the mail.
        machine: MachineSpec {
            llc: (0..nr_cpus as u32).collect(),
            package: (0..nr_cpus as u32).collect(),
            die: (0..nr_cpus as u32).collect(),
            ..MachineSpec::uniform("smp", nr_cpus)
        },
        costs: costs(),
        kernel: KernelSpec { name: name.to_owned(), patches, ..KernelSpec::default() },
        workload: WorkloadSpec::Kernbench(Kernbench { jobs, files, nice: 0, cgroup: false }),
    }
}

fn kernbench(nr_cpus: usize, kernel: &str, jobs: i64, files: i64) -> Record {
    run(&scenario(nr_cpus, kernel, jobs, files), &[1]).remove(0)
}

#[track_caller]
fn near(value: i64, expected: f64, pct: f64) {
    let off = 100.0 * (value as f64 / expected - 1.0);
    assert!(off.abs() <= pct, "{value} is {off} % off {expected}");
}

const PATCHED: [&str; 2] = ["v2.6.15+prio-bias", "v2.6.15+prio-bias+smpnice-weights"];

#[test]
fn every_kernel_builds_the_tree_and_does_the_same_work() {
    let mut user_ns = None;
    for kernel in EVERY_KERNEL.into_iter().chain(PATCHED) {
        let metrics = kernbench(2, kernel, 4, 40).metrics;
        // A shell, a driver, a compiler and an assembler a file, the linker, and a kernel thread a CPU.
        assert_eq!(metrics.forks, 4 * 40 + 1 + 2, "{kernel}");
        // Ten pages of assembly text a file.
        assert_eq!(metrics.messages, 10 * 40, "{kernel}");
        // User time is the processes' work, whoever does it when: rounding at interruptions apart.
        let user_ns = *user_ns.get_or_insert(metrics.user_ns);
        assert!(metrics.user_ns.abs_diff(user_ns) < 100_000, "{kernel}: {} and {user_ns}", metrics.user_ns);
    }
}

#[test]
fn user_time_is_the_compilers_and_system_time_the_kernels() {
    for kernel in ["v2.6.15", "v5.7"] {
        let metrics = kernbench(1, kernel, 2, 200).metrics;
        // 100 ms a file and its share of the link, 20 ms; compilers vary by 70 % either way, the mean of 200 by 2 % or less.
        near(metrics.user_ns, 200.0 * 120.0 * MS, 4.0);
        // 5 ms in the kernel, a fork, an exec, an exit and a wait for each of four processes; twenty pipe operations.
        let cost = CostModel::default();
        let process = 5.0 * MS + (cost.fork_ns + cost.exec_ns + cost.exit_ns + cost.reap_ns) as f64;
        let pipe = (cost.pipe_read_ns + cost.pipe_write_ns + 8 * cost.copy_kib_ns) as f64;
        near(metrics.system_ns, 200.0 * (4.0 * process + 10.0 * pipe), 1.0);
        // What is left is the kernel thread's, 1 ms in 2 s.
        let kthread = metrics.time_ns - metrics.user_ns - metrics.system_ns - metrics.idle_ns;
        near(kthread, metrics.time_ns as f64 / 2000.0, 20.0);
    }
}

#[test]
fn make_keeps_as_many_jobs_at_work_as_it_may() {
    // With enough jobs for all CPUs, the time is the work by CPU, and then the link, 120 x 20 ms, on one of them. The last jobs
    // end one by one, each within 170 ms.
    for (nr_cpus, jobs) in [(1, 4), (2, 8), (4, 16)] {
        let metrics = kernbench(nr_cpus, "v2.6.15", jobs, 120).metrics;
        let link = 120.0 * 20.0 * MS;
        let by_cpu = ((metrics.user_ns + metrics.system_ns) as f64 - link) / nr_cpus as f64;
        let late = metrics.time_ns as f64 - by_cpu - link;
        assert!((-0.05 * link..400.0 * MS).contains(&late), "{nr_cpus} CPUs: {late} ns late");
    }
    // With one job at a time a second CPU helps with the assembler's 10 % at most.
    let [one, two] = [1, 2].map(|nr_cpus| kernbench(nr_cpus, "v2.6.15", 1, 30).metrics.time_ns as f64);
    assert!((0.85..1.0).contains(&(two / one)), "{two} of {one}");
}

#[test]
fn who_waits_switches_voluntarily_and_who_is_preempted_does_not() {
    // One job on one CPU under the O(1) scheduler. Sleeps of a file: make, shell and driver wait for their children, the driver
    // perhaps twice; the compiler sleeps once for the disk; each of four processes ends. The assembler waits for each of the ten
    // pages at most.
    let metrics = kernbench(1, "v2.6.15", 1, 50).metrics;
    let sleeps = metrics.voluntary_switches as f64 / 50.0;
    assert!((8.0..=8.0 + 1.0 + 10.0).contains(&sleeps), "{sleeps} a file");
    // The other switches are from idle: it comes only while a compiler waits for the disk and its assembler is asleep as well,
    // and when make itself has slept before the clock starts.
    let others = metrics.context_switches - metrics.voluntary_switches - metrics.involuntary_switches;
    let kthread = metrics.time_ns / 1_000_000_000;
    assert!((10..=55 + kthread).contains(&others), "{others} from idle, or from the kernel thread");
    // Compilers that run beside each other use up their timeslices of 100 ms, and each other's.
    let eight = kernbench(1, "v2.6.15", 8, 50).metrics;
    assert!(eight.involuntary_switches > metrics.involuntary_switches, "{eight:?}");
    // Other loads are not accounted.
    let plain = &run(&common::scenario(common::dual_quad(), "v5.7", common::small()), &[1])[0].metrics;
    assert_eq!((plain.user_ns, plain.voluntary_switches, plain.involuntary_switches), (0, 0, 0));
}

#[test]
fn tasks_are_used_again_and_a_seed_gives_the_same_run_on_any_number_of_threads() {
    // Three slots of four tasks for eighty processes; twice as many files take twice the time.
    for kernel in ["v2.6.15", "v6.12"] {
        let scenario = scenario(2, kernel, 3, 20);
        let seeds = [1, 2, 3, 4];
        let [one, two] = [1, 2].map(|threads| {
            let records = run_seeds(&scenario, &seeds, threads, &Progress::default()).unwrap();
            records.iter().map(|record| record.metrics.clone()).collect::<Vec<_>>()
        });
        assert_eq!(one, two);
        assert!(one.windows(2).all(|pair| pair[0] != pair[1]), "seeds differ");
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    for (jobs, files, nice, message) in [
        (0, 1, 0, "jobs = 0: must be 1 to 4096"),
        (1, 0, 0, "files = 0: must be 1 to 1000000"),
        (1, 1, 20, "nice = 20: must be -20 to 19"),
    ] {
        let mut scenario = scenario(2, "v2.6.15", 1, 1);
        scenario.workload = WorkloadSpec::Kernbench(Kernbench { jobs, files, nice, cgroup: false });
        assert_eq!(scenario.validate().unwrap_err().to_string(), message);
    }
    let mut grouped = scenario(2, "v2.6.15", 1, 1);
    grouped.workload = WorkloadSpec::Kernbench(Kernbench { jobs: 1, files: 1, nice: 0, cgroup: true });
    assert!(grouped.validate().unwrap_err().to_string().contains("has no task groups"));
    let mut costly = scenario(2, "v2.6.15", 1, 1);
    costly.costs.kernbench_asm_kib = 65_537;
    assert!(costly.validate().unwrap_err().to_string().contains("at most 65536 KiB"));
    costly.costs = CostModel { kernbench_file_us: 60_000_001, ..costs() };
    assert!(costly.validate().unwrap_err().to_string().contains("at most 60000000 us"));
}
