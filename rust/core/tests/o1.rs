//! The O(1) scheduler in runs: timeslices, arrays, bonuses, and what its smp nice patches do.

mod common;

use common::{dual_quad, run, scenario, small, two_nodes_smt, uneven_nodes};
use schedlab_core::record::{TaskTraceState, Trace};
use schedlab_core::run::trace_seed;
use schedlab_core::scenario::{Scenario, WorkloadSpec};
use schedlab_core::topology::MachineSpec;
use schedlab_core::workload::Hackbench;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// Tasks on a uniform machine under v2.6.15 with patches, HZ 1000.
fn o1(nr_cpus: usize, patches: &[&str], tasks: &Value, duration_ms: u64) -> Scenario {
    let mut scenario = scenario(MachineSpec::uniform("flat", nr_cpus), "v2.6.15", small());
    scenario.kernel.patches = patches.iter().map(|&patch| patch.to_owned()).collect();
    scenario.kernel.tunables.hz = Some(1000);
    let workload = json!({"kind": "tasks", "duration_ms": duration_ms, "tasks": tasks});
    scenario.workload = serde_json::from_value(workload).unwrap();
    scenario
}

/// The spans in which a task was in a state, cut to `from..` ns after the clock's start.
fn spans(trace: &Trace, task: u32, state: TaskTraceState, from: u64) -> Vec<u64> {
    let begin = trace.start_ns + from;
    let mut spans = Vec::new();
    let mut since = None;
    for event in trace.events.iter().filter(|event| event.task == task) {
        if let Some(since) = since.take() {
            let end = event.time_ns.min(trace.end_ns);
            if end > begin {
                spans.push(end - u64::max(since, begin));
            }
        }
        since = (event.state == state).then_some(event.time_ns);
    }
    if let Some(since) = since.filter(|&since| since < trace.end_ns) {
        spans.push(trace.end_ns - since.max(begin));
    }
    spans
}

fn run_ms(trace: &Trace, task: u32, from: u64) -> u64 {
    spans(trace, task, TaskTraceState::Running, from).iter().sum::<u64>() / MS
}

#[test]
fn two_hogs_share_a_cpu_within_a_timeslice() {
    for hz in [250, 1000] {
        let mut scenario = o1(1, &[], &json!([{"kind": "hog", "n": 2}]), 10_000);
        scenario.kernel.tunables.hz = Some(hz);
        let trace = trace_seed(&scenario, 1).unwrap();
        let (one, two) = (run_ms(&trace, 1, 0), run_ms(&trace, 2, 0));
        assert!(one.abs_diff(two) <= 100 && one + two > 9_950, "{one} and {two} ms at {hz} Hz");
    }
}

/// task_timeslice(): 100 ms at nice 0, (140 - 130) * 100 / 20 = 50 ms at 10, 400 * 30 / 20 = 600 ms at -10. Once the hogs have
/// lost the bonus of their sleep before the start, which takes 5.5 s of running at most, each gets a slice a round.
#[test]
fn cpu_time_follows_the_timeslices_of_nice() {
    for (nice, slice_ms) in [(10, 50), (-10, 600), (19, 5)] {
        let tasks = json!([{"kind": "hog", "n": 1}, {"kind": "hog", "n": 1, "nice": nice}]);
        let trace = trace_seed(&o1(1, &[], &tasks, 40_000), 1).unwrap();
        let (plain, nice_ms) = (run_ms(&trace, 1, 20_000 * MS), run_ms(&trace, 2, 20_000 * MS));
        let fair = 20_000 * slice_ms / (100 + slice_ms);
        assert!(nice_ms.abs_diff(fair) <= slice_ms + 100, "nice {nice}: {nice_ms} of {fair} ms, {plain}");
    }
}

/// effective_prio(): a task that mostly sleeps is up to ten priorities ahead of a hog, and takes the CPU when it wakes.
#[test]
fn an_interactive_task_does_not_wait_for_a_hog() {
    let tasks =
        json!([{"kind": "hog", "n": 2}, {"kind": "periodic", "n": 1, "run_us": 1000, "sleep_us": 20_000}]);
    let trace = trace_seed(&o1(1, &[], &tasks, 20_000), 1).unwrap();
    let waits = |task| spans(&trace, task, TaskTraceState::Waiting, 10_000 * MS);
    let (editor, hog) = (waits(3), waits(1));
    assert!(editor.len() > 400 && *editor.iter().max().unwrap() < 2 * MS, "{:?} ns", editor.iter().max());
    assert!(*hog.iter().max().unwrap() > 90 * MS, "the other hog's timeslice");
    let share = run_ms(&trace, 3, 10_000 * MS);
    assert!((450..=480).contains(&share), "1 ms in 21 is 476 ms in 10 s: {share}");
}

/// EXPIRED_STARVING(): interactive tasks that keep the CPU busy let the expired wait for 1000 ms a runnable task, and then
/// expire themselves when their timeslices of 100 ms are used up.
#[test]
fn starving_expired_tasks_get_their_turn() {
    // The hog has lost its bonus when the others come.
    let tasks = json!([{"kind": "hog", "n": 1},
        {"kind": "periodic", "n": 6, "run_us": 4000, "sleep_us": 10_000, "start_us": 8_000_000}]);
    let trace = trace_seed(&o1(1, &[], &tasks, 60_000), 1).unwrap();
    let waits = spans(&trace, 1, TaskTraceState::Waiting, 8_000 * MS);
    let longest_ms = waits.iter().max().unwrap() / MS;
    assert!((1_000..=7_001 + 600).contains(&longest_ms), "waited for {longest_ms} ms");
    // Seven such waits at least, each followed by some of a timeslice.
    assert!(run_ms(&trace, 1, 8_000 * MS) > 300, "{} ms", run_ms(&trace, 1, 8_000 * MS));
}

/// sched_fork(): children take their timeslices from their parent. It has 50 ms of the first task's 100, so its six children get
/// 25, 13, 6, 3, 2 and 1, and not six timeslices of 100 ms, before the hog has had one.
#[test]
fn forks_make_no_timeslices() {
    let tasks = json!([{"kind": "fork", "n": 6, "run_us": 1_000_000}, {"kind": "hog", "n": 1}]);
    let trace = trace_seed(&o1(1, &[], &tasks, 150), 1).unwrap();
    let children: u64 = (3..9).map(|child| run_ms(&trace, child, 0)).sum();
    assert!((40..=52).contains(&children), "{children} ms");
    assert!(run_ms(&trace, 2, 0) >= 97);
}

/// find_busiest_group(): two cores of two threads have a power of 140 each, so a core with two tasks and one without use 255
/// parts of their power with a task moved, and 140 now. Nothing waits there to be pulled: after cache_nice_tries + 3 = 4
/// failures the migration thread pushes a running task.
#[test]
fn the_migration_thread_spreads_running_tasks_over_cores() {
    let released = |cpu: u32| json!({"kind": "hog", "n": 1, "mask": [cpu], "release": {"at_us": 0, "mask": [0, 1, 2, 3]}});
    let mut scenario = o1(4, &[], &json!([released(0), released(1)]), 1_000);
    let by_core = vec![0, 0, 1, 1];
    scenario.machine = MachineSpec { core: by_core.clone(), cluster: by_core, ..scenario.machine };
    for patches in [&[][..], &["prio-bias", "smpnice-weights"]] {
        scenario.kernel.patches = patches.iter().map(|&patch| patch.to_owned()).collect();
        let record = &run(&scenario, &[1])[0];
        assert_eq!(record.metrics.migrations_active, 1, "{patches:?}");
        let pushed: u64 = record.domains.iter().flatten().map(|domain| domain.alb_pushed).sum();
        assert_eq!(pushed, 1);
        let failed = record.domains.iter().map(|levels| levels[1].lb_failed[0]).max().unwrap();
        assert_eq!(failed, 4, "{patches:?}");
        let trace = trace_seed(&scenario, 1).unwrap();
        let last = |task| trace.events.iter().rfind(|event| event.task == task).unwrap().cpu / 2;
        assert_ne!(last(1), last(2), "each has a core");
    }
}

/// set_cpus_allowed(): a task that may not stay goes, whether it runs, waits or sleeps.
#[test]
fn a_task_leaves_a_cpu_that_it_may_no_longer_use() {
    let moved = |mut entry: Value| {
        entry["mask"] = json!([0]);
        entry["release"] = json!({"at_us": 50_000, "mask": [1]});
        entry
    };
    let tasks = json!([
        moved(json!({"kind": "hog", "n": 2})),
        moved(json!({"kind": "periodic", "n": 1, "run_us": 1000, "sleep_us": 200_000})),
    ]);
    let trace = trace_seed(&o1(2, &[], &tasks, 1_000), 1).unwrap();
    for task in 1..=3 {
        let runs = |from: u64, to: u64| {
            let span = trace.start_ns + from * MS..trace.start_ns + to * MS;
            let runs = |state| state == TaskTraceState::Running;
            let events = trace.events.iter().filter(move |event| event.task == task && runs(event.state));
            events
                .filter(move |event| span.contains(&event.time_ns))
                .map(|event| event.cpu)
                .collect::<Vec<_>>()
        };
        assert!(runs(0, 50).iter().all(|&cpu| cpu == 0), "task {task}");
        let after = runs(51, 1_000);
        assert!(!after.is_empty() && after.iter().all(|&cpu| cpu == 1), "task {task}: {after:?}");
    }
}

/// The mail that brought smpnice-weights: without niced tasks the processing is mathematically the same as without smp nice.
/// Only the counters of imbalance have another unit.
#[test]
fn without_niced_tasks_smpnice_weights_changes_nothing() {
    for machine in [dual_quad(), two_nodes_smt(), uneven_nodes()] {
        let metrics = |patches: &[&str]| {
            let work = Hackbench { groups: 4, loops: 800, ..small() };
            let mut scenario = scenario(machine.clone(), "v2.6.15", work);
            scenario.kernel.patches = patches.iter().map(|&patch| patch.to_owned()).collect();
            run(&scenario, &[0, 1, 2]).into_iter().map(|record| record.metrics).collect::<Vec<_>>()
        };
        let plain = metrics(&[]);
        assert_eq!(plain, metrics(&["prio-bias", "smpnice-weights"]), "{}", machine.name);
        assert_ne!(plain, metrics(&["prio-bias"]), "{}", machine.name);
    }
}

#[test]
fn what_the_scheduler_does_not_have_is_refused() {
    let hog = json!([{"kind": "hog", "n": 1}]);
    let refused = |change: fn(&mut Scenario)| {
        let mut scenario = o1(1, &[], &hog, 10);
        change(&mut scenario);
        scenario.validate().unwrap_err().to_string()
    };
    assert_eq!(
        refused(|scenario| scenario.kernel.features = [("PLACE_LAG".to_owned(), false)].into()),
        "features = \"PLACE_LAG\": is a feature of the fair scheduler; v2.6.15 has none"
    );
    assert_eq!(
        refused(|scenario| scenario.kernel.tunables.pelt_half_life_ms = Some(16)),
        "tunables.pelt_half_life_ms = 16: is a tunable of the fair scheduler; v2.6.15 has hz only"
    );
    assert_eq!(
        refused(|scenario| scenario.kernel.domains = Some("v5.4".to_owned())),
        "domains = \"v5.4\": must be a kernel of the same scheduler as v2.6.15"
    );
    assert_eq!(
        refused(|scenario| {
            let tasks =
                json!({"kind": "tasks", "duration_ms": 10, "tasks": [{"kind": "hog", "n": 1, "group": "a"}]});
            scenario.workload = serde_json::from_value(tasks).unwrap();
        }),
        "group = \"a\": must not be given: v2.6.15 has no task groups"
    );
    assert_eq!(
        refused(|scenario| {
            scenario.workload = WorkloadSpec::Hackbench(Hackbench { cgroup: true, ..small() });
        }),
        "cgroup = true: must not be given: v2.6.15 has no task groups"
    );
    let slot = refused(|scenario| {
        scenario.kernel.slots = [("calculate_imbalance".to_owned(), "v5.5".to_owned())].into();
    });
    assert!(slot.contains("must come from a kernel whose queue is ordered by priority"), "{slot}");
}

/// sched_exec(): a program that is forked on a busy node goes to the idle one when it is replaced by another.
#[test]
fn exec_is_balanced_over_nodes() {
    let tasks = json!([{"kind": "fork", "n": 12, "run_us": 30_000, "gap_us": 2_000, "execs": true}]);
    let mut scenario = o1(4, &[], &tasks, 500);
    scenario.machine = two_nodes_smt();
    let record = run(&scenario, &[3]).remove(0);
    assert!(record.metrics.migrations_exec > 0, "{:?}", record.metrics);
    assert_eq!(record.metrics.forks, 13);
}

#[test]
fn what_the_era_did_not_have_is_refused() {
    let hog = |field: &str, value: Value| {
        let mut tasks = json!([{"kind": "hog", "n": 1, "mask": [0]}]);
        tasks[0][field] = value;
        o1(2, &[], &tasks, 10).validate().unwrap_err().to_string()
    };
    assert_eq!(hog("policy", json!("idle")), "tasks[0].policy = idle: is not modelled for v2.6.15");
    assert_eq!(hog("kthread", json!(true)), "tasks[0].kthread = true: is not modelled for v2.6.15");
    assert_eq!(hog("uclamp_min", json!(5)), "tasks[0].uclamp_min = 5: is not modelled for v2.6.15");
}
