//! NUMA balancing in whole runs: pages follow tasks, tasks follow pages, at the scanner's pace.

mod common;

use common::run;
use schedlab_core::record::Record;
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::{KernelSpec, Scenario, WorkloadSpec};
use schedlab_core::sim::cost::CostModel;
use schedlab_core::sim::tunables::TunableSettings;
use schedlab_core::topology::MachineSpec;
use schedlab_core::workload::Tasks;
use schedlab_core::workload::hotplug::HotplugEntry;
use serde_json::{Value, json};

/// Two nodes of four CPUs.
fn two_nodes() -> MachineSpec {
    let half: Vec<u32> = (0..8).map(|cpu| cpu / 4).collect();
    MachineSpec {
        llc: half.clone(),
        die: half.clone(),
        package: half.clone(),
        node: half,
        distance: vec![vec![10, 21], vec![21, 10]],
        ..MachineSpec::uniform("two-nodes", 8)
    }
}

fn scenario(kernel: &str, tunables: &Value, tasks: &Value, duration_ms: i64) -> Scenario {
    let tasks = serde_json::from_value(tasks.clone()).expect("tasks");
    let tunables: TunableSettings = serde_json::from_value(tunables.clone()).expect("tunables");
    Scenario {
        machine: two_nodes(),
        costs: CostModel::default(),
        kernel: KernelSpec { name: kernel.to_owned(), tunables, ..KernelSpec::default() },
        workload: WorkloadSpec::Tasks(Tasks { duration_ms, tasks, groups: Vec::new(), hotplug: Vec::new() }),
    }
}

fn first(scenario: &Scenario) -> Record {
    run(scenario, &[0]).remove(0)
}

/// A hog bound to node 0 whose 64 MiB are on node 1: 16384 pages, less than a window.
fn far_memory() -> Value {
    json!([{"kind": "hog", "n": 1, "mask": [0, 1, 2, 3],
            "memory": {"size_mib": 64, "walk_us": 20_000, "first_node": 1}}])
}

const KERNELS: [&str; 6] = common::KERNELS;
const PAGES: i64 = 16_384;

/// task_tick_numa(), scan_delay: nothing is marked in the first second of a process, all of it in the next scan.
#[test]
fn a_young_process_is_left_alone_and_then_scanned_once_a_period() {
    for kernel in KERNELS {
        // The clock starts 0.3 s after the fork, and a scan needs 1 s of the task's own run time.
        let marked = |ms| first(&scenario(kernel, &json!({}), &far_memory(), ms)).metrics.numa_pte_updates;
        assert_eq!(marked(990), 0, "{kernel}");
        assert_eq!(marked(1_100), PAGES, "{kernel}");
        let soon = json!({"numa_balancing_scan_delay_ms": 100, "numa_balancing_scan_period_min_ms": 100});
        assert_eq!(
            first(&scenario(kernel, &soon, &far_memory(), 500)).metrics.numa_pte_updates,
            PAGES,
            "{kernel}"
        );
    }
}

/// should_numa_migrate_memory(): early in a task's life its first fault brings a page. change_prot_numa(): a process of one
/// thread is not bothered with local pages, so each page faults once.
#[test]
fn private_memory_comes_to_a_task_that_may_not_go_to_it() {
    for kernel in KERNELS {
        let metrics = first(&scenario(kernel, &json!({}), &far_memory(), 5_000)).metrics;
        assert_eq!(
            (metrics.numa_hint_faults, metrics.numa_hint_faults_local, metrics.numa_pages_migrated),
            (PAGES, 0, PAGES),
            "{kernel}"
        );
        assert_eq!(metrics.migrations_numa, 0, "{kernel}");
    }
}

/// A window of 16 MiB is a quarter of the memory: 100 ms is the least between two.
#[test]
fn the_scanner_marks_a_window_at_a_time() {
    let tunables = json!({"numa_balancing_scan_size_mb": 16, "numa_balancing_scan_period_min_ms": 200,
                          "numa_balancing_scan_delay_ms": 0});
    let marked = |ms| {
        // One window a period of 200 / 4 = 50 ms.
        first(&scenario("v5.7", &tunables, &far_memory(), ms)).metrics.numa_pte_updates
    };
    let counts: Vec<i64> = [40, 90, 150, 210, 300].map(marked).to_vec();
    assert!(counts.iter().all(|count| count % (PAGES / 4) == 0), "{counts:?}");
    assert!(counts.is_sorted() && counts[0] < PAGES && counts[4] == PAGES, "{counts:?}");
}

/// Half of the work waits for memory that is 21/10 as far: it takes 1 + 0.5 * 1.1 = 1.55 times as long.
#[test]
fn far_memory_makes_work_slow_by_the_distance() {
    let touches = |node: u32| {
        let tasks = json!([{"kind": "hog", "n": 1, "mask": [0, 1, 2, 3],
            "memory": {"size_mib": 64, "walk_us": 20_000, "policy": "bind", "nodes": [node]}}]);
        first(&scenario("v5.7", &json!({}), &tasks, 3_000)).metrics
    };
    let (near, far) = (touches(0), touches(1));
    assert_eq!((near.memory_touches_remote, far.memory_touches_remote), (0, far.memory_touches));
    let ratio = near.memory_touches as f64 / far.memory_touches as f64;
    assert!((ratio - 1.55).abs() < 0.01, "{ratio}");
    // A walk of 20 ms in 3 s.
    assert!((near.memory_touches - 150 * PAGES).abs() < 2 * PAGES, "{}", near.memory_touches);
    assert_eq!((near.numa_pte_updates, far.numa_pte_updates), (0, 0), "vma_policy_mof()");
}

/// MPOL_INTERLEAVE: half of the pages are far wherever the task is.
#[test]
fn interleaved_memory_is_half_remote_and_stays_so() {
    let tasks = json!([{"kind": "hog", "n": 1,
        "memory": {"size_mib": 64, "walk_us": 20_000, "policy": "interleave", "nodes": [0, 1]}}]);
    let metrics = first(&scenario("v6.12", &json!({}), &tasks, 4_000)).metrics;
    let share = metrics.memory_touches_remote as f64 / metrics.memory_touches as f64;
    assert!((share - 0.5).abs() < 0.001, "{share}");
    assert_eq!(metrics.numa_pages_migrated, 0);
}

/// Two processes of four threads each, mixed over two nodes that are full: only swaps can part them.
#[test]
fn threads_that_share_memory_come_together_on_full_nodes_by_swaps() {
    let process = |node: u32| {
        json!({"kind": "hog", "n": 4,
            "memory": {"size_mib": 32, "walk_us": 50_000, "sharing": "all", "first_node": node}})
    };
    let tasks = json!([process(0), process(1)]);
    for kernel in KERNELS {
        let with = |on: bool| {
            let scenario = scenario(kernel, &json!({"numa_balancing": on}), &tasks, 20_000);
            run(&scenario, &[0, 1, 2, 3]).iter().fold((0, 0), |(remote, all), record| {
                let metrics = &record.metrics;
                assert!(metrics.migrations_numa >= 2 * metrics.numa_swaps);
                (remote + metrics.memory_touches_remote, all + metrics.memory_touches)
            })
        };
        let share = |(remote, all): (i64, i64)| remote as f64 / all as f64;
        let (on, off) = (share(with(true)), share(with(false)));
        assert!(on < 0.7 * off, "{kernel}: {on:.3} of touches remote with balancing, {off:.3} without");
    }
}

/// cpumask_of_node() has online CPUs only. Three threads are on the node of their memory, a fourth on the other one would
/// like to join them, and the only free place is off: from the start, or soon after. Builds with debug assertions check
/// that nothing is on a CPU that is off.
#[test]
fn nobody_goes_to_a_cpu_that_is_off() {
    let tasks = json!([{"kind": "hog", "n": 4, "mask": [0, 4, 5, 6, 7],
        "memory": {"size_mib": 32, "walk_us": 20_000, "sharing": "all", "first_node": 1}}]);
    for kernel in KERNELS {
        let places_wanted = |offline: Vec<u32>, off_at_us: Option<i64>| {
            let mut scenario = scenario(kernel, &json!({}), &tasks, 12_000);
            scenario.machine.offline = offline;
            let WorkloadSpec::Tasks(load) = &mut scenario.workload else { unreachable!() };
            let goes_off = off_at_us.map(|at_us| HotplugEntry { at_us, cpu: 7, online: false });
            load.hotplug.extend(goes_off);
            let records = run(&scenario, &[0, 1]);
            records.iter().map(|record| record.metrics.migrations_numa).sum::<i64>()
        };
        places_wanted(vec![7], None);
        places_wanted(Vec::new(), Some(100_000));
        // Before v5.7 load forbids the move, in v6.12 the node has as many tasks as it may be let have.
        if ["v5.7", "v5.10"].contains(&kernel) {
            assert!(places_wanted(Vec::new(), None) > 0, "{kernel}: a place that is on is taken");
        }
    }
}

/// kernel.numa_balancing = 0.
#[test]
fn nothing_is_marked_where_balancing_is_off() {
    let metrics = first(&scenario("v6.12", &json!({"numa_balancing": false}), &far_memory(), 5_000)).metrics;
    assert_eq!((metrics.numa_pte_updates, metrics.numa_hint_faults, metrics.numa_pages_migrated), (0, 0, 0));
    assert_eq!(metrics.memory_touches, metrics.memory_touches_remote);
}

#[test]
fn the_same_seed_gives_the_same_run_on_any_number_of_threads() {
    let tasks = json!([
        {"kind": "hog", "n": 3, "memory": {"size_mib": 32, "walk_us": 20_000, "sharing": "all", "first_node": 0}},
        {"kind": "periodic", "n": 6, "run_us": 3_000, "sleep_us": 1_000, "spread_pct": 30,
         "memory": {"size_mib": 16, "walk_us": 10_000, "first_node": 1}},
        {"kind": "barrier", "n": 4, "run_us": 2_000, "imbalance_pct": 20, "wait": "spin",
         "memory": {"size_mib": 64, "walk_us": 30_000, "sharing": "slices", "overlap_pct": 5}},
    ]);
    for kernel in KERNELS {
        let scenario = scenario(kernel, &json!({}), &tasks, 4_000);
        let seeds: Vec<u64> = (0..4).collect();
        let texts = |threads| -> Vec<String> {
            let records = run_seeds(&scenario, &seeds, threads, &Progress::default()).expect("runs");
            records.iter().map(common::everything).collect()
        };
        let (one, two) = (texts(1), texts(2));
        assert_eq!(one, two, "{kernel}");
        assert_ne!(one[0], one[1], "{kernel}");
    }
}

#[test]
fn bad_memory_is_refused_by_name_value_and_rule() {
    for (field, value, part) in [
        ("size_mib", json!(0), "tasks[0].memory.size_mib = 0: must be 1 to"),
        ("size_mib", json!(1 << 20), "memory = 268435456 pages"),
        ("walk_us", json!(0), "tasks[0].memory.walk_us = 0"),
        ("bound_pct", json!(101), "tasks[0].memory.bound_pct = 101"),
        ("overlap_pct", json!(5), "tasks[0].memory.overlap_pct = 5: is for sharing"),
        ("page_kib", json!(8), "tasks[0].memory.page_kib = 8: must be 4, 16, 64 or 2048"),
        ("first_node", json!(2), "tasks[0].memory.first_node = 2: must be a node of two-nodes with memory"),
        ("nodes", json!([0]), "tasks[0].memory.nodes = [0]: is not for policy"),
    ] {
        let mut tasks = far_memory();
        tasks[0]["memory"][field] = value;
        let error = scenario("v5.7", &json!({}), &tasks, 100).validate().expect_err(field).to_string();
        assert!(error.contains(part), "{field}: {error}");
    }
    let pairs = json!([{"kind": "pingpong", "n": 1, "run_us": 10, "memory": {"size_mib": 1, "walk_us": 10}}]);
    let error = scenario("v5.7", &json!({}), &pairs, 100).validate().unwrap_err().to_string();
    assert!(error.starts_with("tasks[0].memory = 1 MiB: is for hogs"), "{error}");
    let scan = json!({"numa_balancing_scan_size_mb": 0});
    let error = scenario("v5.7", &scan, &far_memory(), 100).validate().unwrap_err().to_string();
    assert_eq!(error, "tunables.numa_balancing_scan_size_mb = 0: is 1 to 1048576");
}
