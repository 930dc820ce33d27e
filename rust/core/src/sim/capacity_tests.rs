//! Whole loads on CPUs that differ, or that others take a part of: what the queues say while they run.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::rq::TaskId;
use super::{Setup, Sim};
use crate::scenario::Scenario;

const MS: u64 = 1_000_000;
/// From the controller's start to the load's.
const SETTLE_MS: u64 = crate::workload::tasks::SETTLE_NS / MS;

/// Four CPUs of one cache, or what `machine` makes of them.
fn setup(kernel: &str, machine: &Value, tasks: &Value) -> Setup {
    let mut scenario = json!({
        "machine": {"name": "four", "arch": "arm64", "core": [0, 1, 2, 3], "cluster": [0, 0, 0, 0],
                    "llc": [0, 0, 0, 0], "die": [0, 0, 0, 0], "package": [0, 0, 0, 0], "node": [0, 0, 0, 0],
                    "capacity": [1024, 1024, 1024, 1024], "distance": [[10]]},
        "kernel": {"name": kernel},
        "workload": {"kind": "tasks", "duration_ms": 60_000, "tasks": tasks},
    });
    for (field, value) in machine.as_object().expect("fields") {
        scenario["machine"][field] = value.clone();
    }
    Scenario::from_json(&scenario.to_string()).and_then(|scenario| scenario.setup()).expect("a good scenario")
}

/// Runs a load until so long after its start signal.
fn run_to(setup: &Setup, ms: u64) -> Sim<'_> {
    let mut sim = Sim::new(setup, 0);
    sim.start(setup, 0);
    let end = sim.now + (SETTLE_MS + ms) * MS;
    loop {
        let (event, cpu) = sim.events.first();
        let (timer, id) = sim.timers.peek().map_or((u64::MAX, 0), |&Reverse(timer)| timer);
        if event.min(timer) > end {
            return sim;
        }
        sim.now = event.min(timer);
        if timer <= event {
            sim.timers.pop();
            sim.timer(setup, id);
        } else {
            sim.handle(cpu);
        }
        sim.check_invariants().expect("no invariant breaks");
    }
}

fn cpu_of(sim: &Sim<'_>, task: TaskId) -> usize {
    usize::from(sim.tasks[task as usize].cpu)
}

#[test]
fn what_real_time_tasks_use_is_lost_to_fair_ones() {
    for kernel in ["v5.4", "v5.7", "v6.12"] {
        let half = json!([{"kind": "periodic", "n": 1, "run_us": 5_000, "sleep_us": 5_000, "mask": [1],
                           "policy": "fifo", "priority": 50}]);
        let setup = setup(kernel, &json!({}), &half);
        // The signal of 5 ms in 10 swings around a half by less than 5 ms of its half-life of 32.
        let sim = run_to(&setup, 2_000);
        let capacity = sim.stats.capacity.clone();
        assert!((450..=575).contains(&capacity[1]), "{kernel}: {capacity:?}");
        assert_eq!([capacity[0], capacity[2], capacity[3]], [1024; 3], "{kernel}");
        assert_eq!(sim.stats.capacity_orig, [1024; 4]);
        // The groups know: the domain's own group of each CPU, and nothing else on this machine.
        let groups: Vec<u64> =
            sim.sched_groups.iter().filter(|group| group.weight == 1).map(|g| g.capacity).collect();
        assert_eq!(groups, capacity, "{kernel}");
    }
}

#[test]
fn a_running_task_that_is_too_big_for_its_cpu_is_a_misfit_there() {
    let machine = json!({"capacity": [446, 446, 1024, 1024]});
    let tasks = json!([{"kind": "hog", "n": 1, "mask": [0, 1]}, {"kind": "hog", "n": 1, "mask": [0]},
                       {"kind": "hog", "n": 1, "mask": [2]}]);
    for (kernel, pinned_counts, big_counts) in
        [("v5.4", true, true), ("v5.7", true, true), ("v6.12", false, false)]
    {
        let setup = setup(kernel, &machine, &tasks);
        let sim = run_to(&setup, 1_000);
        let misfit = &sim.stats.misfit_task_load;
        // The free hog may use small CPUs only, and v6.12 knows that it can go no higher.
        assert_eq!((cpu_of(&sim, 1), cpu_of(&sim, 2), cpu_of(&sim, 3)), (1, 0, 2), "{kernel}");
        assert_eq!(misfit[0] > 0, pinned_counts, "{kernel}: {misfit:?}");
        assert_eq!(misfit[1] > 0, pinned_counts, "{kernel}: {misfit:?}");
        // A hog fills the biggest CPU: it fits none with a fifth to spare.
        assert_eq!(misfit[2] > 0, big_counts, "{kernel}: {misfit:?}");
        assert_eq!(misfit[3], 0, "{kernel}: an idle CPU has no misfit");
    }
}

#[test]
fn real_time_tasks_run_at_once_by_priority_and_first_come_first_served() {
    let rt = |priority: u64, start_us: u64| {
        json!({"kind": "periodic", "n": 1, "run_us": 10_000, "sleep_us": 3_000_000, "mask": [0], "policy": "fifo",
               "priority": priority, "start_us": start_us})
    };
    // Task 1 is fair; 2 and 3 are equals, 4 comes when 2 runs and is above both.
    let tasks =
        json!([{"kind": "hog", "n": 1, "mask": [0]}, rt(10, 100_000), rt(10, 100_001), rt(20, 104_000)]);
    for kernel in ["v5.4", "v6.12"] {
        let setup = setup(kernel, &json!({}), &tasks);
        let running_at = |ms: u64| run_to(&setup, ms).rqs[0].curr;
        // 2 has done 4 ms when 4 takes the CPU for 10 ms; it goes on before 3, which came after it.
        let ran: Vec<TaskId> = [99, 102, 106, 112, 116, 119, 123, 129, 133].map(running_at).to_vec();
        assert_eq!(ran, [1, 2, 4, 4, 2, 2, 3, 3, 1], "{kernel}");
    }
}

#[test]
fn a_lone_task_goes_to_the_thread_that_is_preferred() {
    // One core of four threads, the first preferred: POWER7.
    let machine = json!({"arch": "powerpc", "core": [0, 0, 0, 0], "asym_priority": [0, -1, -2, -3]});
    let tasks =
        json!([{"kind": "hog", "n": 1, "mask": [3], "release": {"at_us": 100_000, "mask": [0, 1, 2, 3]}}]);
    for kernel in ["v5.4", "v5.5", "v5.6", "v5.7", "v5.10", "v6.12"] {
        let packed = setup(kernel, &machine, &tasks);
        assert_eq!(cpu_of(&run_to(&packed, 99), 1), 3, "{kernel}");
        let sim = run_to(&packed, 1_000);
        assert_eq!(cpu_of(&sim, 1), 0, "{kernel}");
        assert!(sim.record.metrics.migrations_active >= 1, "{kernel}: it ran, so that it had to be pushed");
        let plain = setup(kernel, &json!({"arch": "powerpc", "core": [0, 0, 0, 0]}), &tasks);
        assert_eq!(cpu_of(&run_to(&plain, 1_000), 1), 3, "{kernel}: no thread is preferred");
    }
}
