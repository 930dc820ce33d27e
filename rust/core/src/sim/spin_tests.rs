//! Tests of spinning: small programs whose times are worked out by hand.
//!
//! Every cost that would hide the arithmetic is nothing; each task has a core of its own unless a test says otherwise.

use std::sync::atomic::AtomicBool;

use super::program::{HOG_NS, Op};
use super::{Log, Setup, run};
use crate::load_weight::LoadWeight;
use crate::record::Record;
use crate::scenario::{KernelSpec, Scenario, WorkloadSpec};
use crate::sim::cost::CostModel;
use crate::topology::MachineSpec;
use crate::workload::lu::{Cgroups, ProblemClass};
use crate::workload::{Load, LuOmp, TaskSpec};

const MS: u64 = 1_000_000;

fn compute(ns: u64) -> Op {
    Op::Compute { ns, spread_permille: 0 }
}

/// A machine of so many CPUs on which only the tasks' own work takes time.
fn setup(nr_cpus: usize, programs: &[&[Op]], barriers: Vec<u32>) -> Setup {
    let costs = CostModel {
        context_switch_ns: 0,
        mm_switch_ns: 0,
        wakeup_ns: 0,
        scan_cpu_ns: 0,
        ipi_ns: 0,
        idle_exit_ns: 0,
        tick_ns: 0,
        balance_pass_ns: 0,
        balance_cpu_ns: 0,
        balance_move_ns: 0,
        fork_ns: 0,
        thread_create_ns: 0,
        refill_llc_kib_ns: 0,
        work_jitter_permille: 0,
        ..CostModel::default()
    };
    let any_work = LuOmp {
        threads: 1,
        problem_class: ProblemClass::A,
        steps: None,
        hogs: 0,
        cgroups: Cgroups::None,
        sample_ms: 1,
    };
    let scenario = Scenario {
        machine: MachineSpec::uniform("cores", nr_cpus),
        costs,
        kernel: KernelSpec { name: "v5.7".to_owned(), ..KernelSpec::default() },
        workload: WorkloadSpec::LuOmp(any_work),
    };
    let mut setup = scenario.setup().expect("the scenario is good");
    let nr_tasks = programs.len() as u32;
    let mut ops =
        vec![Op::Fork { first: 1, count: nr_tasks, gap_ns: 0 }, Op::Sleep { ns: HOG_NS, spread_permille: 0 }];
    let mut tasks = vec![TaskSpec::new(0, LoadWeight::NICE_0)];
    for program in programs {
        let start_ns = 10 * MS;
        let base = ops.len() as u32;
        tasks.push(TaskSpec { start_ns, ..TaskSpec::new(base, LoadWeight::NICE_0) });
        ops.push(Op::WaitStart);
        ops.extend(program.iter().map(|&op| match op {
            Op::Repeat { to, times, depth } => Op::Repeat { to: base + 1 + to, times, depth },
            other => other,
        }));
        ops.extend([Op::Sleep { ns: HOG_NS, spread_permille: 0 }, Op::Exit]);
    }
    setup.load = Load { barriers, ..Load::new(tasks, ops) };
    setup
}

fn record(setup: &Setup) -> Record {
    run(setup, 0, Log::default(), &AtomicBool::new(false)).expect("the run ends")
}

fn time_ns(setup: &Setup) -> i64 {
    record(setup).metrics.time_ns
}

#[test]
fn a_task_that_takes_a_flag_goes_on_when_the_flag_is_set() {
    let giver: &[Op] = &[compute(5 * MS), Op::SetFlag { flag: 0 }];
    let taker: &[Op] =
        &[Op::ClockStart, compute(2 * MS), Op::TakeFlag { flag: 0 }, compute(MS), Op::ClockStop];
    assert_eq!(time_ns(&setup(4, &[giver, taker], vec![])), 6 * MS as i64);
}

#[test]
fn a_flag_holds_one_thing_so_that_the_giver_waits_for_the_taker() {
    // The giver has its second thing ready at 2 ms, the taker takes the first at 10 ms and the second at 20 ms.
    let giver: &[Op] = &[
        Op::ClockStart,
        compute(MS),
        Op::SetFlag { flag: 0 },
        compute(MS),
        Op::SetFlag { flag: 0 },
        Op::ClockStop,
    ];
    let taker: &[Op] =
        &[compute(10 * MS), Op::TakeFlag { flag: 0 }, compute(10 * MS), Op::TakeFlag { flag: 0 }];
    assert_eq!(time_ns(&setup(4, &[giver, taker], vec![])), 10 * MS as i64);
}

#[test]
fn a_pipeline_runs_at_the_pace_of_its_slowest_task() {
    // Stages of 1, 2 and 1 ms, ten things: the first thing is out after 4 ms, the others 2 ms apart.
    let first: &[Op] = &[compute(MS), Op::SetFlag { flag: 0 }, Op::Repeat { to: 0, times: 10, depth: 0 }];
    let second: &[Op] = &[
        Op::TakeFlag { flag: 0 },
        compute(2 * MS),
        Op::SetFlag { flag: 1 },
        Op::Repeat { to: 0, times: 10, depth: 0 },
    ];
    let last: &[Op] = &[
        Op::ClockStart,
        Op::TakeFlag { flag: 1 },
        compute(MS),
        Op::Repeat { to: 1, times: 10, depth: 0 },
        Op::ClockStop,
    ];
    assert_eq!(time_ns(&setup(4, &[first, second, last], vec![])), (4 + 9 * 2) * MS as i64);
}

#[test]
fn a_ready_flag_costs_no_event() {
    let with: &[Op] = &[
        Op::ClockStart,
        compute(MS),
        Op::SetFlag { flag: 0 },
        Op::TakeFlag { flag: 0 },
        Op::Repeat { to: 1, times: 1000, depth: 0 },
        Op::ClockStop,
    ];
    let without: &[Op] =
        &[Op::ClockStart, compute(MS), Op::Repeat { to: 1, times: 1000, depth: 0 }, Op::ClockStop];
    let [with, without] = [with, without].map(|program| record(&setup(2, &[program], vec![])).metrics);
    assert_eq!(with.time_ns, 1000 * MS as i64);
    assert_eq!(with.events, without.events);
}

#[test]
fn loops_nest() {
    let program: &[Op] = &[
        Op::ClockStart,
        compute(MS),
        compute(2 * MS),
        Op::Repeat { to: 2, times: 3, depth: 1 },
        Op::Repeat { to: 1, times: 4, depth: 0 },
        Op::ClockStop,
    ];
    assert_eq!(time_ns(&setup(2, &[program], vec![])), 4 * (1 + 3 * 2) * MS as i64);
}

#[test]
fn a_spinner_that_was_preempted_takes_the_flag_when_it_runs_again() {
    // Taker and hog share a CPU: half the time the taker is off it, and the flag waits for it.
    let hog: &[Op] = &[compute(HOG_NS)];
    let taker: &[Op] = &[Op::TakeFlag { flag: 0 }, compute(MS), Op::Repeat { to: 0, times: 200, depth: 0 }];
    let giver: &[Op] = &[
        Op::ClockStart,
        Op::SetFlag { flag: 0 },
        compute(MS),
        Op::Repeat { to: 1, times: 200, depth: 0 },
        Op::SetFlag { flag: 0 },
        Op::ClockStop,
    ];
    let mut shared = setup(2, &[taker, hog, giver], vec![]);
    for (task, cpu) in [(1, 0), (2, 0), (3, 1)] {
        shared.load.tasks[task].allowed = Some(crate::cpumask::CpuMask::from_cpus(2, [cpu]));
    }
    let metrics = record(&shared).metrics;
    // 200 ms of the taker's own, for which it gets every other slice.
    assert!((350..=450).contains(&(metrics.time_ns / MS as i64)), "{} ns", metrics.time_ns);
    assert!(metrics.context_switches > 20);
}

#[test]
fn a_barrier_spins_for_a_while_and_then_sleeps() {
    let meet = |spin_ns| Op::Barrier { barrier: 0, spin_ns };
    let late: &[Op] = &[compute(10 * MS), meet(3 * MS), compute(MS)];
    let waits = |spin_ns| {
        let early: &[Op] = &[Op::ClockStart, compute(MS), meet(spin_ns), compute(MS), Op::ClockStop];
        record(&setup(2, &[early, late], vec![2])).metrics
    };
    let (spins, gives_up, sleeps) = (waits(HOG_NS), waits(3 * MS), waits(0));
    for metrics in [&spins, &gives_up, &sleeps] {
        assert_eq!(metrics.time_ns, 11 * MS as i64);
        assert_eq!(metrics.rounds, 1);
    }
    // Of the two CPUs one is never idle before the barrier; the other is from where its task goes to sleep until 10 ms.
    assert_eq!(gives_up.wakeups, spins.wakeups + 1);
    assert_eq!(gives_up.idle_ns - spins.idle_ns, 6 * MS as i64);
    assert_eq!(sleeps.idle_ns - gives_up.idle_ns, 3 * MS as i64);
}
