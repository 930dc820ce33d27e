//! CPUs that differ, that others take a part of, or that come and go: whole runs, as their traces tell them.

mod common;

use common::run;
use schedlab_core::record::decisions::{Kinds, Wanted, What};
use schedlab_core::record::{Decision, TaskTraceState, Trace};
use schedlab_core::run::{Progress, decisions, trace_seed};
use schedlab_core::scenario::{Scenario, WorkloadSpec};
use serde_json::{Value, json};

const KERNELS: [&str; 6] = common::KERNELS;
const MS: u64 = 1_000_000;

/// Eight CPUs of two caches; the first half of the first capacity.
fn machine(capacities: [u32; 2]) -> Value {
    let half = [0, 0, 0, 0, 1, 1, 1, 1];
    let capacity: Vec<u32> = half.iter().map(|&half| capacities[half]).collect();
    json!({"name": "eight", "arch": "arm64", "core": [0, 1, 2, 3, 4, 5, 6, 7], "cluster": half, "llc": half,
           "die": [0, 0, 0, 0, 0, 0, 0, 0], "package": [0, 0, 0, 0, 0, 0, 0, 0], "node": [0, 0, 0, 0, 0, 0, 0, 0],
           "capacity": capacity, "distance": [[10]]})
}

fn scenario(kernel: &str, machine: &Value, tasks: &Value, hotplug: &Value, duration_ms: i64) -> Scenario {
    let scenario = json!({
        "machine": machine,
        "kernel": {"name": kernel},
        "workload": {"kind": "tasks", "duration_ms": duration_ms, "tasks": tasks, "hotplug": hotplug},
    });
    Scenario::from_json(&scenario.to_string()).expect("a good scenario")
}

fn trace(scenario: &Scenario, seed: u64) -> Trace {
    trace_seed(scenario, seed).expect("a run")
}

/// Time that a task ran on each CPU between two times after the start signal, ms.
fn ran_ms(trace: &Trace, task: u32, from_ms: u64, to_ms: u64, nr_cpus: usize) -> Vec<u64> {
    let mut ran = vec![0; nr_cpus];
    let (from, to) = (trace.start_ns + from_ms * MS, trace.start_ns + to_ms * MS);
    let mut since = None;
    for event in trace.events.iter().filter(|event| event.task == task) {
        if let Some((cpu, start)) = since.take() {
            let (start, end): (u64, u64) = (from.max(start), to.min(event.time_ns));
            ran[usize::from(cpu)] += end.saturating_sub(start);
        }
        if event.state == TaskTraceState::Running {
            since = Some((event.cpu, event.time_ns));
        }
    }
    if let Some((cpu, start)) = since {
        ran[usize::from(cpu)] += to.saturating_sub(from.max(start));
    }
    ran.into_iter().map(|ns: u64| ns / MS).collect()
}

#[test]
fn a_hog_on_a_little_cpu_goes_to_an_idle_big_one() {
    // It may go anywhere from 200 ms on. The domain of both kinds has an interval of 8 to 16 ms, and a misfit is pushed
    // as soon as an idle big CPU looks; it needs 32 ms of its own to look too big again after a while.
    let tasks = json!([{"kind": "hog", "n": 1, "mask": [1], "release": {"at_us": 200_000, "mask": [0, 1, 2, 3, 4, 5, 6, 7]}}]);
    for kernel in KERNELS {
        for seed in 0..5 {
            let scenario = scenario(kernel, &machine([446, 1024]), &tasks, &json!([]), 600);
            let ran = ran_ms(&trace(&scenario, seed), 1, 400, 600, 8);
            assert_eq!(ran[..4], [0; 4], "{kernel}, seed {seed}: {ran:?}");
            assert!(ran[4..].iter().sum::<u64>() >= 198, "{kernel}, seed {seed}: {ran:?}");
            assert!(run(&scenario, &[seed])[0].metrics.migrations_active >= 1, "{kernel}, seed {seed}");
        }
        let alike = scenario(kernel, &machine([1024, 1024]), &tasks, &json!([]), 600);
        let ran = ran_ms(&trace(&alike, 0), 1, 0, 600, 8);
        assert!(ran[1] >= 598, "{kernel}: where all CPUs are alike it stays: {ran:?}");
    }
}

#[test]
fn work_takes_longer_on_a_little_cpu_by_its_capacity() {
    // Bursts of 10 ms at full speed, one every 10 ms + what the burst took.
    let bursts = |capacity: u32| {
        let tasks = json!([{"kind": "periodic", "n": 1, "run_us": 10_000, "sleep_us": 10_000, "mask": [0]}]);
        let scenario = scenario("v5.7", &machine([capacity, 1024]), &tasks, &json!([]), 3_000);
        ran_ms(&trace(&scenario, 0), 1, 0, 3_000, 8)[0]
    };
    // 3000 * 10 / 20, and at half the speed 3000 * 20 / 30; ticks take their part of either.
    assert!(bursts(1024).abs_diff(1_500) <= 10, "{}", bursts(1024));
    assert!(bursts(512).abs_diff(2_000) <= 10, "{}", bursts(512));
}

#[test]
fn fair_tasks_get_what_real_time_tasks_leave_and_go_where_there_is_more() {
    // Half of CPU 0 is gone; a hog that starts there may leave from 500 ms on. A third task keeps going idle elsewhere: v5.4
    // counts fair tasks only, so that to a CPU that idles for long the hog's does not look busy.
    let everywhere = json!([0, 1, 2, 3, 4, 5, 6, 7]);
    let tasks = |mask: &Value| {
        json!([{"kind": "periodic", "n": 1, "run_us": 5_000, "sleep_us": 5_000, "mask": [0], "policy": "fifo", "priority": 1},
               {"kind": "hog", "n": 1, "mask": [0], "release": {"at_us": 500_000, "mask": mask}},
               {"kind": "periodic", "n": 1, "run_us": 100, "sleep_us": 3_000, "mask": [1, 2, 3]}])
    };
    for kernel in KERNELS {
        let ran = |mask: &Value, from, to| {
            let scenario = scenario(kernel, &machine([1024, 1024]), &tasks(mask), &json!([]), 2_000);
            let trace = trace(&scenario, 0);
            [1, 2].map(|task| ran_ms(&trace, task, from, to, 8))
        };
        let [rt, fair] = ran(&json!([0]), 0, 2_000);
        assert!(rt[0].abs_diff(1_000) <= 15 && fair[0].abs_diff(1_000) <= 15, "{kernel}: {rt:?} {fair:?}");
        let [rt, fair] = ran(&everywhere, 1_000, 2_000);
        assert!(rt[0].abs_diff(500) <= 10, "{kernel}: {rt:?}");
        assert!(fair[0] <= 20 && fair.iter().sum::<u64>() >= 990, "{kernel}: it has left: {fair:?}");
    }
}

#[test]
fn a_small_task_that_asks_for_much_is_placed_on_a_big_cpu() {
    let on_big = |kernel: &str, uclamp_min: u32, uclamp_max: u32| {
        let tasks = json!([{"kind": "periodic", "n": 1, "run_us": 200, "sleep_us": 5_000, "uclamp_min": uclamp_min,
                            "uclamp_max": uclamp_max, "mask": [0], "release": {"at_us": 50_000, "mask": [0, 1, 2, 3, 4, 5, 6, 7]}}]);
        let scenario = scenario(kernel, &machine([446, 1024]), &tasks, &json!([]), 1_000);
        let ran = ran_ms(&trace(&scenario, 0), 1, 200, 1_000, 8);
        (ran[..4].iter().sum::<u64>(), ran[4..].iter().sum::<u64>())
    };
    for kernel in ["v5.7", "v5.10", "v6.12"] {
        let (little, big) = on_big(kernel, 0, 1024);
        assert!(little > 0 && big == 0, "{kernel}: a small task stays where it was: {little} {big}");
        let (little, big) = on_big(kernel, 1024, 1024);
        assert!(little == 0 && big > 0, "{kernel}: a boosted one goes up: {little} {big}");
    }
    // Before that nobody reads the bounds.
    assert_eq!(on_big("v5.4", 1024, 1024).1, 0);
}

#[test]
fn a_cap_keeps_a_hog_on_a_little_cpu() {
    let tasks = |uclamp_max: u32| {
        json!([{"kind": "hog", "n": 1, "uclamp_max": uclamp_max, "mask": [0],
                "release": {"at_us": 50_000, "mask": [0, 1, 2, 3, 4, 5, 6, 7]}}])
    };
    for kernel in ["v5.7", "v6.12"] {
        let big = |uclamp_max: u32| {
            let scenario = scenario(kernel, &machine([446, 1024]), &tasks(uclamp_max), &json!([]), 1_000);
            ran_ms(&trace(&scenario, 0), 1, 0, 1_000, 8)[4..].iter().sum::<u64>()
        };
        assert!(big(1024) >= 700, "{kernel}");
        assert_eq!(big(300), 0, "{kernel}");
    }
}

/// Twelve hogs on eight CPUs, one of which is off from 1 s to 3 s.
fn unplugged() -> (Value, Value) {
    let tasks = json!([{"kind": "hog", "n": 12}]);
    let hotplug = json!([{"at_us": 1_000_000, "cpu": 3, "online": false}, {"at_us": 3_000_000, "cpu": 3, "online": true}]);
    (tasks, hotplug)
}

#[test]
fn nothing_runs_on_a_cpu_while_it_is_off_and_all_goes_on_elsewhere() {
    let (tasks, hotplug) = unplugged();
    for kernel in KERNELS {
        let scenario = scenario(kernel, &machine([1024, 1024]), &tasks, &hotplug, 4_000);
        let trace = trace(&scenario, 0);
        let on = |from, to| {
            (1..=12).fold(vec![0; 8], |mut sum: Vec<u64>, task| {
                sum.iter_mut().zip(ran_ms(&trace, task, from, to, 8)).for_each(|(sum, ran)| *sum += ran);
                sum
            })
        };
        let (before, off, after) = (on(0, 1_000), on(1_000, 3_000), on(3_100, 4_000));
        assert_eq!(off[3], 0, "{kernel}: {off:?}");
        assert!(before[3] > 900, "{kernel}: {before:?}");
        assert!(after[3] > 850, "{kernel}: it is used again within 100 ms: {after:?}");
        // Whole ms are lost to rounding, task by task.
        assert!(off.iter().enumerate().all(|(cpu, &ran)| cpu == 3 || ran > 1_950), "{kernel}: {off:?}");
        let record = &run(&scenario, &[0])[0];
        assert!(record.metrics.migrations_hotplug >= 1, "{kernel}");
        // The CPU counts as neither idle nor busy while it is off, which is for 2 s.
        assert!(record.metrics.idle_ns < 500 * MS as i64, "{kernel}: {}", record.metrics.idle_ns);
    }
}

#[test]
fn a_run_with_hotplug_is_the_same_each_time_and_on_any_number_of_threads() {
    let (tasks, hotplug) = unplugged();
    let scenario = scenario("v6.12", &machine([446, 1024]), &tasks, &hotplug, 4_000);
    let seeds = [5, 6, 7];
    let together = run(&scenario, &seeds);
    for (seed, record) in seeds.iter().zip(&together) {
        assert_eq!(common::everything(&run(&scenario, &[*seed])[0]), common::everything(record));
    }
}

#[test]
fn a_task_whose_only_cpu_goes_off_loses_its_affinity() {
    let tasks = json!([{"kind": "hog", "n": 1, "mask": [3]},
                       {"kind": "periodic", "n": 1, "run_us": 100, "sleep_us": 900_000, "mask": [3]}]);
    let hotplug = json!([{"at_us": 500_000, "cpu": 3, "online": false}, {"at_us": 2_500_000, "cpu": 3, "online": true}]);
    for kernel in KERNELS {
        let scenario = scenario(kernel, &machine([1024, 1024]), &tasks, &hotplug, 4_000);
        let trace = trace(&scenario, 0);
        let hog = ran_ms(&trace, 1, 500, 4_000, 8);
        // select_fallback_rq(): the first CPU of the node; and nothing brings it back.
        assert!(hog[0] + hog[1] + hog[2] > 3_400 && hog[3] == 0, "{kernel}: {hog:?}");
        let woke =
            trace.events.iter().filter(|event| event.task == 2 && event.state == TaskTraceState::Running);
        // Bursts at 0, 0.9, 1.8, 2.7 and 3.6 s.
        assert_eq!(
            woke.filter(|event| event.time_ns >= trace.start_ns).count(),
            5,
            "{kernel}: its timers go on"
        );
    }
}

#[test]
fn a_machine_may_shrink_to_one_cpu_and_grow_again() {
    let tasks =
        json!([{"kind": "hog", "n": 4}, {"kind": "periodic", "n": 4, "run_us": 500, "sleep_us": 700}]);
    let off = (1..8).map(|cpu| json!({"at_us": 100_000 * i64::from(cpu), "cpu": cpu, "online": false}));
    let on =
        (1..8).map(|cpu| json!({"at_us": 800_000 + 50_000 * i64::from(cpu), "cpu": cpu, "online": true}));
    let hotplug: Vec<Value> = off.chain(on).collect();
    for kernel in KERNELS {
        let scenario = scenario(kernel, &machine([446, 1024]), &tasks, &json!(hotplug), 2_000);
        let trace = trace(&scenario, 0);
        let alone: u64 = (1..=8).map(|task| ran_ms(&trace, task, 710, 790, 8)[0]).sum();
        assert!(alone >= 60, "{kernel}: {alone}");
        let late: u64 =
            (1..=4).map(|task| ran_ms(&trace, task, 1_500, 2_000, 8)[4..].iter().sum::<u64>()).sum();
        assert!(late > 1_000, "{kernel}: the big CPUs are used again: {late}");
    }
}

#[test]
fn children_that_execute_another_program_are_placed_anew_once_each() {
    let storm = |exec: bool| json!([{"kind": "fork", "n": 24, "run_us": 20_000, "gap_us": 0, "execs": exec}]);
    for kernel in KERNELS {
        let placed = |exec: bool| {
            let scenario = scenario(kernel, &machine([1024, 1024]), &storm(exec), &json!([]), 500);
            let wanted = Wanted { skip: 0, limit: usize::MAX, kinds: Kinds::Placement };
            let all = decisions(&scenario, 0, wanted, &Progress::default()).expect("a run");
            let moves = |made: &Decision| match &made.what {
                What::Exec(placed) => Some(placed.answer.cpu != made.cpu),
                _ => None,
            };
            let execs: Vec<bool> = all.iter().filter_map(moves).collect();
            let moved = execs.iter().filter(|&&moved| moved).count() as i64;
            assert_eq!(run(&scenario, &[0])[0].metrics.migrations_exec, moved, "{kernel}");
            execs.len()
        };
        assert_eq!((placed(false), placed(true)), (0, 24), "{kernel}");
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let refused = |tasks: Value, hotplug: Value| {
        let scenario = json!({
            "machine": machine([1024, 1024]), "kernel": {"name": "v5.7"},
            "workload": {"kind": "tasks", "duration_ms": 100, "tasks": tasks, "hotplug": hotplug},
        });
        Scenario::from_json(&scenario.to_string()).expect_err("it is refused").to_string()
    };
    let with = |field: &str, value: Value| {
        let mut task = json!({"kind": "hog", "n": 1, "mask": [2]});
        task[field] = value;
        json!([task])
    };
    let plug = |cpu: u32, online: bool| json!([{"at_us": 5, "cpu": cpu, "online": online}]);
    let hog = || json!([{"kind": "hog", "n": 1}]);
    let rt = json!([{"kind": "hog", "n": 1, "mask": [2], "policy": "fifo", "priority": 1}]);
    let all_off: Vec<Value> = (0..8).map(|cpu| json!({"at_us": cpu, "cpu": cpu, "online": false})).collect();
    let cases = [
        (refused(hog(), plug(8, false)), "hotplug[0].cpu = 8: eight has CPUs 0 to 7"),
        (refused(hog(), plug(1, true)), "hotplug[0].cpu = 1: must be off before it comes back"),
        (refused(hog(), json!(all_off)), "hotplug[7].cpu = 7: is the last one"),
        (
            refused(hog(), json!([{"at_us": -1, "cpu": 1, "online": false}])),
            "hotplug[0].at_us = -1: must be 0 to",
        ),
        (refused(rt, plug(2, false)), "hotplug[0].cpu = 2: must stay on: a real-time task is bound to it"),
        (
            refused(with("uclamp_min", json!(1025)), json!([])),
            "tasks[0].uclamp_min = 1025: must be 0 to 1024",
        ),
        (refused(with("uclamp_max", json!(-1)), json!([])), "tasks[0].uclamp_max = -1: must be 0 to 1024"),
        (
            refused(with("priority", json!(3)), json!([])),
            "tasks[0].priority = 3: is for policy \"fifo\" only",
        ),
        (refused(with("policy", json!("fifo")), json!([])), "tasks[0].priority = 0: must be 1 to 99"),
        (
            refused(json!([{"kind": "hog", "n": 1, "policy": "fifo", "priority": 1}]), json!([])),
            "tasks[0].mask = None: must be one CPU",
        ),
        (
            refused(json!([{"kind": "hog", "n": 1, "kthread": true, "mask": [1, 2]}]), json!([])),
            "tasks[0].mask = [1, 2]: must be one CPU",
        ),
        (
            refused(
                json!([{"kind": "pingpong", "n": 1, "run_us": 5, "policy": "fifo", "priority": 1, "mask": [1]}]),
                json!([]),
            ),
            "tasks[0].policy = \"fifo\": is for hogs and periodic tasks",
        ),
        (
            refused(json!([{"kind": "hog", "n": 1, "uclamp_min": 5, "uclamp_max": 4}]), json!([])),
            "tasks[0].uclamp_min = 5: must be at most uclamp_max (4)",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.starts_with(expected), "{error:?} does not start with {expected:?}");
    }
}

#[test]
fn the_order_of_changes_is_by_time_not_by_place() {
    let hotplug = json!([{"at_us": 9, "cpu": 1, "online": true}, {"at_us": 4, "cpu": 1, "online": false}]);
    let scenario = scenario("v5.7", &machine([1024, 1024]), &json!([{"kind": "hog", "n": 1}]), &hotplug, 10);
    let WorkloadSpec::Tasks(tasks) = &scenario.workload else { unreachable!() };
    let offline: Vec<Vec<u32>> =
        tasks.machines_after(&scenario.machine).into_iter().map(|machine| machine.offline).collect();
    assert_eq!(offline, [vec![1], vec![]]);
}
