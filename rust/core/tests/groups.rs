//! Task groups in whole runs: no invariant breaks, a seed repeats, shares hold over CPUs, bad hierarchies are refused.

mod common;

use common::{KERNELS, dual_quad};
use proptest::prelude::*;
use proptest::sample::select;
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::{KernelSpec, Scenario, WorkloadSpec};
use schedlab_core::sim::cost::CostModel;
use schedlab_core::workload::Tasks;

fn scenario(kernel: &str, workload: &str) -> Scenario {
    Scenario {
        machine: dual_quad(),
        costs: CostModel::default(),
        kernel: KernelSpec { name: kernel.to_owned(), ..KernelSpec::default() },
        workload: WorkloadSpec::Tasks(tasks(workload)),
    }
}

fn tasks(json: &str) -> Tasks {
    serde_json::from_str(json).expect("a workload")
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
    let group = select(vec!["null", "\"a\"", "\"b\"", "\"c\"", "\"d\""]);
    let release = select(vec!["", r#", "mask": [3], "release": {"at_us": 30000, "mask": [0, 1, 2, 6]}"#]);
    (kind, 1..7, group, -10..10, release).prop_map(|(kind, n, group, nice, release)| {
        format!(r#"{{{kind}, "n": {n}, "jitter_us": 20000, "nice": {nice}, "group": {group}{release}}}"#)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Builds with debug assertions check the engine after every event, so that a run that ends is the proof.
    #[test]
    fn any_load_in_any_groups_runs_and_repeats(
        kernel in select(KERNELS.to_vec()),
        entries in prop::collection::vec(entry(), 1..5),
        shares in prop::collection::vec(2_i64..30_000, 3),
        nested: bool,
    ) {
        let parent = if nested { r#", "parent": "a""# } else { "" };
        let workload = format!(
            r#"{{"duration_ms": 100, "tasks": [{}], "groups": [
                {{"name": "b", "shares": {}{parent}}}, {{"name": "a", "shares": {}}},
                {{"name": "c", "shares": {}, "parent": "b"}}]}}"#,
            entries.join(", "), shares[0], shares[1], shares[2],
        );
        let scenario = scenario(kernel, &workload);
        let run = || run_seeds(&scenario, &[5], 1, &Progress::default()).expect("a run without contradictions");
        prop_assert_eq!(format!("{:?}", run()), format!("{:?}", run()));
    }
}

#[test]
fn bad_hierarchies_are_refused() {
    for (groups, message) in [
        (r#"{"name": "a", "shares": 1}"#, "groups[0].shares = 1: must be 2 to 262144"),
        (r#"{"name": "a", "shares": 262145}"#, "groups[0].shares = 262145: must be 2 to 262144"),
        (r#"{"name": "a", "parent": "b"}"#, "groups[0].parent = b: must be a group of the workload"),
        (r#"{"name": "a"}, {"name": "a"}"#, "groups[1].name = a: must be the name of one group only"),
        (
            r#"{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}"#,
            "groups[0].parent = b: must not lead back to the group",
        ),
        (r#"{"name": "a", "parent": "a"}"#, "groups[0].parent = a: must not lead back to the group"),
    ] {
        let workload = format!(
            r#"{{"duration_ms": 9, "tasks": [{{"kind": "hog", "n": 1, "group": "a"}}], "groups": [{groups}]}}"#
        );
        let error = scenario("v5.7", &workload).validate().expect_err("a bad hierarchy");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_group_named_by_its_tasks_only_weighs_like_a_task() {
    let named =
        r#"{"duration_ms": 50, "tasks": [{"kind": "hog", "n": 9, "group": "a"}, {"kind": "hog", "n": 2}]}"#;
    let declared =
        named.replace(r#""hog", "n": 2}]"#, r#""hog", "n": 2}], "groups": [{"name": "a", "shares": 1024}]"#);
    let run = |workload: &str| {
        let runs = run_seeds(&scenario("v5.7", workload), &[1], 1, &Progress::default());
        format!("{:?}", runs.expect("a run"))
    };
    assert_eq!(run(named), run(&declared));
    assert_ne!(run(named), run(&named.replace(r#", "group": "a""#, "")));
}
