//! Scenarios in which v5.4's own decisions show.

use super::{v5_4::KERNEL, v5_5};
use crate::balance::{BusiestCase, IdlestCase, parse};

/// Where a task of utilization 200 goes from CPU 0, by the load and utilization of three single CPUs.
fn idlest(sd: &str, load: [u64; 3], load_avg: [u64; 3], util: [u64; 3], new: bool) -> Option<usize> {
    let case: IdlestCase = parse(&format!(
        r#"{{"this_cpu": 0, "sd": {sd},
            "groups": [{{"cpus": [0]}}, {{"cpus": [1]}}, {{"cpus": [2]}}],
            "cpus": {{"nr_running": [1, 1, 1], "h_nr_running": [1, 1, 1], "load": {load:?},
                      "load_avg": {load_avg:?}, "util": {util:?}}},
            "task": {{"load": 100, "util": 200, "cpu": 0, "new": {new}}}}}"#
    ))
    .unwrap();
    case.decide(&KERNEL).unwrap().idlest
}

const PLAIN: &str = r#"{"imbalance_pct": 125}"#;

#[test]
fn a_new_task_goes_where_the_queued_load_is_least() {
    let full = [1024; 3];
    assert_eq!(idlest(PLAIN, [3000, 2000, 1000], [3000; 3], full, true), Some(2));
    // Within 256, a quarter of a task, the load with sleepers decides: an eighth more is too much.
    assert_eq!(idlest(PLAIN, [1250, 2000, 1000], [3600, 3000, 3000], full, true), Some(2));
    assert_eq!(idlest(PLAIN, [1250, 2000, 1000], [3000; 3], full, true), None);
    assert_eq!(idlest(PLAIN, [700, 2000, 1000], [9000, 3000, 3000], full, true), None);
}

#[test]
fn near_ties_go_by_the_load_with_sleepers() {
    let full = [1024; 3];
    // Group 2 has a little more queued than group 1, but far fewer sleepers.
    assert_eq!(idlest(PLAIN, [3000, 1000, 1100], [3000, 3000, 1100], full, true), Some(2));
    assert_eq!(idlest(PLAIN, [3000, 1000, 1300], [3000, 3000, 1100], full, true), Some(1));
}

#[test]
fn a_known_task_stays_where_it_has_room_or_goes_where_most_is_free() {
    let load = [3000, 2000, 1000];
    assert_eq!(idlest(PLAIN, load, load, [800, 700, 700], false), None);
    assert_eq!(idlest(PLAIN, load, load, [1024, 100, 500], false), Some(1));
    // Nowhere half of what it needs: by load.
    assert_eq!(idlest(PLAIN, load, load, [1200, 1000, 1000], false), Some(2));
}

#[test]
fn between_nodes_the_remote_one_has_to_be_idler_by_a_margin() {
    let numa = r#"{"imbalance_pct": 125, "numa": true}"#;
    let (load, load_avg, full) = ([1200, 2000, 1000], [3600, 3000, 3000], [1024; 3]);
    assert_eq!(idlest(PLAIN, load, load_avg, full, true), Some(2));
    assert_eq!(idlest(numa, load, load_avg, full, true), None);
}

/// The rework's reason: by load the groups are even or worse here, although CPUs idle here while a task
/// waits there.
#[test]
fn a_heavy_task_hides_waiting_ones_from_the_average_load() {
    let case: BusiestCase = parse(
        r#"{"idle": "idle", "dst_cpu": 1, "sd": {"imbalance_pct": 125},
            "groups": [{"cpus": [0, 1, 2, 3]}, {"cpus": [4, 5, 6, 7]}],
            "cpus": {"nr_running": [1, 0, 0, 0, 2, 1, 1, 0], "h_nr_running": [1, 0, 0, 0, 2, 1, 1, 0],
                     "load": [9548, 0, 0, 0, 2048, 1024, 1024, 0],
                     "util": [1024, 0, 0, 0, 1024, 1024, 1024, 0],
                     "idle": [false, true, true, true, false, false, false, true]}}"#,
    )
    .unwrap();
    assert_eq!(case.decide(&KERNEL).unwrap().busiest, None);
    let reworked = case.decide(&v5_5::KERNEL).unwrap();
    assert_eq!((reworked.busiest, reworked.src_cpu), (Some(1), Some(4)));
}
