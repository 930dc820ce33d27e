//! LU on machines where its time can be worked out by hand.
//!
//! Class A has 62 rows of 62 points in 62 planes. A stage is a thread's rows of one plane in one sweep, half Jacobian, half solution.
//! Sweeps are 600 parts in 1000 of a step that one thread does, so the other 400 take 400 / 300 of a sweep's work.

mod common;

use common::run;
use schedlab_core::record::Record;
use schedlab_core::scenario::{KernelSpec, Scenario, WorkloadSpec};
use schedlab_core::sim::cost::CostModel;
use schedlab_core::topology::MachineSpec;
use schedlab_core::workload::LuOmp;
use schedlab_core::workload::lu::{Cgroups, ProblemClass};

/// Work on a point, ns.
const POINT_NS: f64 = 1000.0;
/// Work on one row of a plane in one sweep, ns.
const ROW_NS: f64 = 62.0 * POINT_NS;
const STEPS: f64 = 4.0;

fn class_a(threads: i64) -> LuOmp {
    LuOmp {
        threads,
        problem_class: ProblemClass::A,
        steps: Some(STEPS as i64),
        hogs: 0,
        cgroups: Cgroups::None,
        sample_ms: 50,
    }
}

fn scenario(machine: MachineSpec, work: LuOmp) -> Scenario {
    Scenario {
        machine,
        costs: CostModel { lu_point_ns: POINT_NS as u64, ..CostModel::default() },
        kernel: KernelSpec { name: "v5.5".to_owned(), ..KernelSpec::default() },
        workload: WorkloadSpec::LuOmp(work),
    }
}

fn cores(nr_cpus: usize, work: LuOmp) -> Record {
    run(&scenario(MachineSpec::uniform("cores", nr_cpus), work), &[1]).remove(0)
}

/// Asserts a time of all steps, given in rows' work; equal work varies by 2 %, and the slowest at a barrier counts.
#[track_caller]
fn takes(record: &Record, rows_a_step: f64) {
    let ratio = record.metrics.time_ns as f64 / (STEPS * rows_a_step * ROW_NS);
    assert!((0.99..1.04).contains(&ratio), "{ratio} of the time worked out");
}

#[test]
fn one_thread_does_all_the_work() {
    // Two sweeps of 62 planes of 62 rows, and two thirds as much again.
    takes(&cores(2, class_a(1)), 62.0 * 62.0 * (2.0 + 400.0 / 300.0));
}

#[test]
fn a_sweep_takes_the_pipeline_to_fill_and_then_a_stage_a_plane() {
    // 62 threads with a row each. All build their part of the first plane at once, half a row's work; the last of them solves it
    // after 62 halves, and a plane every two halves from then on.
    let sweep = (1.0 + 62.0 + 61.0 * 2.0) / 2.0;
    takes(&cores(64, class_a(62)), 2.0 * sweep + 62.0 * 400.0 / 300.0);
}

#[test]
fn the_fullest_thread_sets_the_beat() {
    // 61 threads: the first has two rows. It is done with the last plane after 62 x 2 rows; 60 threads then solve it in turn.
    let sweep = 62.0 * 2.0 + 60.0 / 2.0;
    takes(&cores(64, class_a(61)), 2.0 * sweep + 2.0 * 62.0 * 400.0 / 300.0);
}

#[test]
fn a_step_has_seven_barriers() {
    // And the initial values have one.
    assert_eq!(cores(8, class_a(8)).metrics.rounds, 1 + 7 * (1 + 4));
}

#[test]
fn threads_that_wait_long_at_a_barrier_sleep() {
    // With 61 threads all but the first wait for half of every part outside the sweeps: 41 rows' work of 62 us and less than half
    // of it for one barrier, 0.3 to 1.1 ms. A turn of 6 ns makes 1.8 ms: nobody sleeps. A turn of 1 ns makes 0.3 ms.
    let work = class_a(61);
    let mut scenario = scenario(MachineSpec::uniform("cores", 64), work);
    let wakeups = |scenario: &Scenario| run(scenario, &[1]).remove(0).metrics.wakeups;
    let awake = wakeups(&scenario);
    scenario.costs.omp_spin_turn_ns = 1;
    let asleep = wakeups(&scenario);
    // Of seven waits a step the rhs's three are the longest: 60 threads sleep in each.
    assert!(asleep >= awake + 60 * 3 * 5, "{asleep} and {awake} wake-ups");
}

#[test]
fn threads_are_counted_on_their_nodes_while_the_clock_runs_and_burners_are_not() {
    let half: Vec<u32> = (0..16).map(|cpu| cpu / 8).collect();
    let machine = MachineSpec {
        llc: half.clone(),
        die: half.clone(),
        package: half.clone(),
        node: half,
        distance: vec![vec![10, 20], vec![20, 10]],
        ..MachineSpec::uniform("two-nodes", 16)
    };
    let work = LuOmp { hogs: 2, cgroups: Cgroups::Separate, ..class_a(12) };
    let record = run(&scenario(machine, work), &[1]).remove(0);
    let span_ms = record.metrics.time_ns / 1_000_000;
    assert!(
        (record.node_samples as i64 - span_ms / 50).abs() <= 1,
        "{} in {span_ms} ms",
        record.node_samples
    );
    assert_eq!(record.node_tasks.iter().sum::<u64>(), 12 * record.node_samples);
    assert_eq!(record.node_tasks.len(), 2);
    assert!(record.metrics.memory_touches > 0 && record.metrics.memory_touches_remote > 0);
}

#[test]
fn bad_arguments_are_refused() {
    let machine = || MachineSpec::uniform("cores", 4096);
    let says = |work: LuOmp| scenario(machine(), work).validate().expect_err("bad").to_string();
    assert_eq!(says(class_a(0)), "threads = 0: must be 1 to 62, a row for each");
    assert_eq!(says(class_a(63)), "threads = 63: must be 1 to 62, a row for each");
    assert_eq!(says(LuOmp { steps: Some(0), ..class_a(1) }), "steps = 0: must be 1 to 1000000");
    assert_eq!(says(LuOmp { hogs: -1, ..class_a(1) }), "hogs = -1: must be 0 to 1024");
    assert_eq!(says(LuOmp { sample_ms: 0, ..class_a(1) }), "sample_ms = 0: must be 1 to 3600000");
    assert_eq!(
        says(LuOmp { hogs: 256, cgroups: Cgroups::Separate, ..class_a(1) }),
        "hogs = 256: with a group each, must be fewer than 256 on cores"
    );
    let mut old = scenario(machine(), LuOmp { cgroups: Cgroups::Shared, ..class_a(1) });
    old.kernel.name = "v2.6.15".to_owned();
    assert_eq!(
        old.validate().expect_err("bad").to_string(),
        "cgroups = \"shared\": must not be given: v2.6.15 has no task groups"
    );
}
