//! Bandwidth, idleness and CPUs of task groups in whole runs: what groups get, what cpu.stat says, what is refused.

mod common;

use common::KERNELS;
use proptest::prelude::*;
use proptest::sample::select;
use schedlab_core::record::Record;
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::{KernelSpec, Scenario, WorkloadSpec};
use schedlab_core::sim::cost::CostModel;
use schedlab_core::sim::tunables::TunableSettings;
use schedlab_core::topology::MachineSpec;

const MS: u64 = 1_000_000;
/// A tick of the default 250 a second, ns: nothing ends a slice in between.
const TICK: u64 = 4 * MS;
/// `sched_cfs_bandwidth_slice_us`, ns.
const SLICE: u64 = 5 * MS;

fn scenario(kernel: &str, nr_cpus: usize, workload: &str) -> Scenario {
    Scenario {
        machine: MachineSpec::uniform("plain", nr_cpus),
        costs: CostModel::default(),
        kernel: KernelSpec { name: kernel.to_owned(), ..KernelSpec::default() },
        workload: WorkloadSpec::Tasks(serde_json::from_str(workload).expect("a workload")),
    }
}

fn run(kernel: &str, nr_cpus: usize, workload: &str) -> Record {
    let scenario = scenario(kernel, nr_cpus, workload);
    run_seeds(&scenario, &[3], 1, &Progress::default()).expect("a run without contradictions").remove(0)
}

/// Hogs of a group for so long, and the groups.
fn hogs(n: usize, group: &str, groups: &str) -> String {
    format!(
        r#"{{"duration_ms": 10000, "tasks": [{{"kind": "hog", "n": {n}, "group": "{group}"}}], "groups": [{groups}]}}"#
    )
}

#[track_caller]
fn about(what: &str, got: u64, expected: u64, tolerance: u64) {
    assert!(got.abs_diff(expected) <= tolerance, "{what}: {got} ns, expected {expected} ns");
}

#[test]
fn a_hog_gets_its_groups_quota_and_every_period_is_throttled() {
    for kernel in KERNELS {
        let groups = r#"{"name": "a", "quota_us": 50000, "period_us": 100000}"#;
        let stat = &run(kernel, 1, &hogs(1, "a", groups)).cpu_stat[0];
        // Half of 10 s, give or take a period that begins or ends within the run.
        about(kernel, stat.usage_ns, 5_000 * MS, 50 * MS + SLICE + TICK);
        about(kernel, stat.throttled_ns, 5_000 * MS, 50 * MS + SLICE + TICK);
        assert!((99..=101).contains(&stat.nr_throttled), "{kernel}: {stat:?}");
        // The tasks' start before the clock makes a few periods, too.
        assert!(stat.nr_periods - stat.nr_throttled <= 5, "{kernel}: {stat:?}");
    }
}

#[test]
fn a_quota_above_the_period_is_so_many_cpus_wherever_the_hogs_are() {
    for kernel in KERNELS {
        let groups = r#"{"name": "a", "quota_us": 200000, "period_us": 100000}"#;
        let stat = &run(kernel, 4, &hogs(4, "a", groups)).cpu_stat[0];
        about(kernel, stat.usage_ns, 20_000 * MS, 200 * MS + 4 * (SLICE + TICK));
        assert!(stat.nr_throttled >= 99, "{kernel}: {stat:?}");
    }
}

#[test]
fn of_nested_quotas_the_tighter_one_holds() {
    for kernel in KERNELS {
        for (outer, inner, expected) in
            [(30_000, 60_000, 3_000), (60_000, 30_000, 3_000), (40_000, 40_000, 4_000)]
        {
            let groups = format!(
                r#"{{"name": "a", "quota_us": {outer}}}, {{"name": "b", "parent": "a", "quota_us": {inner}}}"#
            );
            let stats = run(kernel, 1, &hogs(2, "b", &groups)).cpu_stat;
            for stat in &stats {
                about(
                    &format!("{kernel} {groups}"),
                    stat.usage_ns,
                    expected * MS,
                    60 * MS + 2 * (SLICE + TICK),
                );
            }
            assert_eq!(stats[0].nr_throttled > 90, outer <= inner, "{kernel} {stats:?}");
            assert_eq!(stats[1].nr_throttled > 90, inner <= outer, "{kernel} {stats:?}");
        }
    }
}

#[test]
fn what_a_throttled_group_leaves_goes_to_others_and_a_throttled_cpu_pulls() {
    for kernel in KERNELS {
        // The group may have a tenth of the first CPU; three hogs share what is left of both.
        let workload = r#"{"duration_ms": 10000, "groups": [{"name": "a", "quota_us": 10000}], "tasks": [
            {"kind": "hog", "n": 1, "group": "a", "mask": [0]}, {"kind": "hog", "n": 3, "group": "rest"}]}"#;
        let record = run(kernel, 2, workload);
        let (limited, rest) = (&record.cpu_stat[0], &record.cpu_stat[1]);
        about(kernel, limited.usage_ns, 1_000 * MS, 10 * MS + SLICE + TICK);
        about(kernel, rest.usage_ns, 19_000 * MS, 100 * MS);
        // Alone on its CPU, the limited hog leaves it idle but for what newidle and nohz balance bring there.
        let record = run(kernel, 2, &workload.replace(r#""n": 3"#, r#""n": 2"#));
        about(kernel, record.cpu_stat[1].usage_ns, 19_000 * MS, 1_000 * MS);
    }
}

#[test]
fn a_burst_saves_unused_quota_up_where_the_kernel_can() {
    // Now and then 30 ms, half as much again as a period's quota, at any time of a period.
    let workload = |burst_us: i64| {
        format!(
            r#"{{"duration_ms": 5000, "groups": [{{"name": "a", "quota_us": 20000, "burst_us": {burst_us}}}], "tasks": [
                {{"kind": "periodic", "n": 1, "run_us": 30000, "sleep_us": 300000, "group": "a"}}]}}"#
        )
    };
    let (without, with) =
        (&run("v6.12", 1, &workload(0)).cpu_stat[0], &run("v6.12", 1, &workload(20_000)).cpu_stat[0]);
    assert!(without.nr_throttled > 5 && without.nr_bursts == 0, "{without:?}");
    assert!(with.nr_throttled == 0 && with.nr_bursts > 5, "{with:?}");
    let error = scenario("v5.10", 1, &workload(20_000)).validate().expect_err("no bursts there").to_string();
    assert_eq!(error, "groups[0].burst_us = 20000: v5.10 saves up no quota; cpu.max.burst came with 5.14");
}

#[test]
fn an_idle_group_gets_what_others_leave() {
    let workload = r#"{"duration_ms": 10000, "groups": [{"name": "a", "idle": true}, {"name": "b"}], "tasks": [
        {"kind": "hog", "n": 3, "group": "a"}, {"kind": "hog", "n": 1, "group": "b"}]}"#;
    let stats = run("v6.12", 1, workload).cpu_stat;
    let total = stats[0].usage_ns + stats[1].usage_ns;
    // Weights of 3 and 1024: an idle entity's slice ends at the tick.
    about("idle group", stats[0].usage_ns, total * 3 / 1027, 3 * MS + 2 * TICK);
    let error = scenario("v5.7", 1, workload).validate().expect_err("no idle groups there").to_string();
    assert_eq!(error, "groups[0].idle = true: v5.7 has no idle groups; cpu.idle came with 5.15");
}

#[test]
fn sessions_are_groups_where_autogroup_is_on() {
    let workload = r#"{"duration_ms": 5000, "tasks": [
        {"kind": "hog", "n": 9, "session": "make"}, {"kind": "hog", "n": 1, "session": "player"},
        {"kind": "hog", "n": 1, "session": "make", "group": "own"}]}"#;
    let mut with = scenario("v5.7", 1, workload);
    with.kernel.tunables = TunableSettings { autogroup: Some(true), ..TunableSettings::default() };
    let stats = run_seeds(&with, &[1], 1, &Progress::default()).expect("a run").remove(0).cpu_stat;
    // The group that is none of a session's, then the sessions: a third each.
    assert_eq!(stats.len(), 3);
    for stat in &stats {
        about("a third", stat.usage_ns, 5_000 * MS / 3, 60 * MS);
    }
    let without = run("v5.7", 1, workload).cpu_stat;
    assert_eq!(without.len(), 1);
    about("an eleventh", without[0].usage_ns, 5_000 * MS / 11, 60 * MS);
}

#[test]
fn tasks_stay_on_the_cpus_of_their_group_and_follow_when_those_change() {
    for kernel in ["v5.4", "v5.10", "v6.12"] {
        let busy = |workload: &str| -> Vec<u64> {
            let record = run(kernel, 4, workload);
            record.cpus.iter().map(|cpu| cpu.values()[6]).collect()
        };
        // Four hogs on two CPUs; one's own mask lies outside and is dropped, one's within and kept.
        let workload = r#"{"duration_ms": 4000, "groups": [{"name": "a", "cpus": [1, 2, 3]},
            {"name": "b", "parent": "a", "cpus": [0, 1, 2]}], "tasks": [
            {"kind": "hog", "n": 2, "group": "b"}, {"kind": "hog", "n": 1, "group": "b", "mask": [0, 3]},
            {"kind": "hog", "n": 1, "group": "b", "mask": [2, 3]}]}"#;
        let times = busy(workload);
        assert!(times[3] < 500 * MS && times[0] < 500 * MS, "{kernel}: {times:?}");
        about(kernel, times[1] + times[2], 8_000 * MS, 500 * MS);
        let moved = workload.replace(
            r#""cpus": [0, 1, 2]}"#,
            r#""cpus": [0, 1, 2], "release": {"at_us": 2000000, "mask": [3]}}"#,
        );
        let times = busy(&moved);
        about(kernel, times[3], 2_000 * MS, 500 * MS);
        about(kernel, times[1] + times[2], 4_000 * MS, 500 * MS);
    }
}

#[test]
fn what_the_kernel_answers_with_einval_is_refused() {
    for (groups, message) in [
        (r#"{"name": "a", "quota_us": 999}"#, "groups[0].quota_us = 999: must be at least 1000"),
        (r#"{"name": "a", "quota_us": -1}"#, "groups[0].quota_us = -1: must be at least 1000"),
        (
            r#"{"name": "a", "quota_us": 17592186044416}"#,
            "groups[0].quota_us = 17592186044416: must be at most 17592186044415",
        ),
        (r#"{"name": "a", "period_us": 999}"#, "groups[0].period_us = 999: must be at least 1000"),
        (r#"{"name": "a", "period_us": 1000001}"#, "groups[0].period_us = 1000001: must be at most 1000000"),
        (
            r#"{"name": "a", "quota_us": 2000, "burst_us": 2001}"#,
            "groups[0].burst_us = 2001: must be at most 2000",
        ),
        (r#"{"name": "a", "burst_us": 5}"#, "groups[0].burst_us = 5: must come with a quota_us"),
        (
            r#"{"name": "a", "idle": true, "shares": 3}"#,
            "groups[0].shares = 3: must not be set of an idle group, whose weight is 3",
        ),
        (r#"{"name": "a", "cpus": []}"#, "groups[0].cpus = []: must hold an online CPU of plain"),
        (r#"{"name": "a", "cpus": [0, 2]}"#, "groups[0].cpus = 2: plain has CPUs 0 to 1"),
        (
            r#"{"name": "a", "release": {"at_us": -1, "mask": [0]}}"#,
            "groups[0].release.at_us = -1: must be at least 0",
        ),
    ] {
        let error = scenario("v6.12", 2, &hogs(1, "a", groups)).validate().expect_err(groups);
        assert_eq!(error.to_string(), message);
    }
    let workload = r#"{"duration_ms": 9, "groups": [{"name": "a", "cpus": [0]}], "tasks": [
        {"kind": "hog", "n": 1, "group": "a", "release": {"at_us": 5, "mask": [1]}}]}"#;
    let error = scenario("v6.12", 2, workload).validate().expect_err("no CPU is left");
    assert_eq!(
        error.to_string(),
        "tasks[0].release.mask = [1]: must hold a CPU that the group may use then: [0]"
    );
    let mut slice = scenario("v6.12", 2, workload);
    slice.kernel.tunables.cfs_bandwidth_slice_us = Some(0);
    let error = slice.validate().expect_err("no slice").to_string();
    assert_eq!(error, "tunables.cfs_bandwidth_slice_us = 0: is 1 to 1000000 us");
}

fn entry() -> impl Strategy<Value = String> {
    let kind = select(vec![
        r#""kind": "hog""#,
        r#""kind": "periodic", "run_us": 900, "sleep_us": 1500, "spread_pct": 80"#,
        r#""kind": "periodic", "run_us": 7000, "sleep_us": 300"#,
        r#""kind": "barrier", "run_us": 1200, "imbalance_pct": 60, "wait": "futex""#,
        r#""kind": "barrier", "run_us": 800, "imbalance_pct": 60, "wait": "spin""#,
        r#""kind": "pingpong", "run_us": 70"#,
        r#""kind": "fork", "run_us": 2500, "gap_us": 400"#,
    ]);
    let group = select(vec!["null", "\"a\"", "\"b\"", "\"c\""]);
    let release = select(vec!["", r#", "mask": [3], "release": {"at_us": 30000, "mask": [0, 1, 2]}"#]);
    let policy = select(vec!["normal", "normal", "idle"]);
    (kind, 1..6, group, -10..10, release, policy).prop_map(|(kind, n, group, nice, release, policy)| {
        format!(
            r#"{{{kind}, "n": {n}, "jitter_us": 20000, "nice": {nice}, "group": {group}, "policy": "{policy}"{release}}}"#
        )
    })
}

fn limits() -> impl Strategy<Value = (Option<i64>, i64, bool, bool)> {
    (
        prop::option::weighted(0.7, 1_000_i64..90_000),
        1_000_i64..60_000,
        any::<bool>(),
        prop::bool::weighted(0.3),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// Builds with debug assertions check the engine after every event, so that a run that ends is the proof.
    #[test]
    fn any_load_under_any_limits_runs_and_repeats(
        kernel in select(KERNELS.to_vec()),
        entries in prop::collection::vec(entry(), 1..5),
        limits in prop::collection::vec(limits(), 3),
        nested: bool,
        slice_us in select(vec![5_000_i64, 5_000, 1, 300]),
    ) {
        let v6 = kernel == "v6.12";
        let group = |name: &str, parent: &str, at: usize| {
            let (quota_us, period_us, burst, idle) = limits[at];
            let quota = quota_us.map_or(String::new(), |quota_us| {
                format!(r#", "quota_us": {quota_us}, "burst_us": {}"#, if v6 && burst { quota_us / 2 } else { 0 })
            });
            let idle = v6 && idle;
            let cpus = if burst { r#", "cpus": [1, 2, 3]"# } else { "" };
            format!(r#"{{"name": "{name}", "period_us": {period_us}{quota}, "idle": {idle}{parent}{cpus}}}"#)
        };
        let below = |above: &str| if nested { format!(r#", "parent": "{above}""#) } else { String::new() };
        let workload = format!(
            r#"{{"duration_ms": 150, "tasks": [{}], "groups": [{}, {}, {}]}}"#,
            entries.join(", "), group("a", "", 0), group("b", &below("a"), 1), group("c", &below("b"), 2),
        );
        let mut scenario = scenario(kernel, 4, &workload);
        scenario.kernel.tunables.cfs_bandwidth_slice_us = Some(slice_us);
        let run = || run_seeds(&scenario, &[5], 1, &Progress::default()).expect("a run without contradictions");
        let first = run();
        prop_assert_eq!(format!("{:?}", &first), format!("{:?}", run()));
    }
}
