//! What a run refuses before it starts: argument, value and rule, word for word.

mod common;

use common::{dual_quad, scenario, small};
use schedlab_core::SimError;
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::Scenario;
use schedlab_core::topology::MachineSpec;
use schedlab_core::workload::Hackbench;

/// Asserts that the scenario is refused so by its check and by a run.
#[track_caller]
fn refused(scenario: &Scenario, message: &str) {
    let error = scenario.validate().expect_err("the scenario is bad");
    assert!(matches!(error, SimError::Invalid { .. }), "{error:?}");
    assert_eq!(error.to_string(), message);
    let progress = Progress::default();
    assert_eq!(run_seeds(scenario, &[0], 1, &progress).map(|_| ()), Err(error));
    assert_eq!(progress.done.into_inner(), 0);
}

#[track_caller]
fn hackbench_refused(work: Hackbench, message: &str) {
    refused(&scenario(dual_quad(), "v5.7", work), message);
}

#[test]
fn hackbench_without_groups_loops_senders_receivers_or_bytes() {
    hackbench_refused(Hackbench { groups: 0, ..small() }, "groups = 0: must be at least 1");
    hackbench_refused(Hackbench { loops: 0, ..small() }, "loops = 0: must be at least 1");
    hackbench_refused(Hackbench { senders: 0, ..small() }, "senders = 0: must be at least 1");
    hackbench_refused(Hackbench { receivers: 0, ..small() }, "receivers = 0: must be at least 1");
    hackbench_refused(Hackbench { bytes: 0, ..small() }, "bytes = 0: must be at least 1");
}

#[test]
fn hackbench_with_messages_longer_than_a_page() {
    hackbench_refused(
        Hackbench { bytes: 4097, ..small() },
        "bytes = 4097: must be at most 4096, a page of a pipe",
    );
}

#[test]
fn hackbench_with_more_tasks_than_a_run_may_have() {
    hackbench_refused(
        Hackbench { groups: 26_215, senders: 20, receivers: 20, ..small() },
        "groups = 26215: with 20 + 20 tasks a group there must be fewer than 1048576",
    );
    hackbench_refused(
        Hackbench { groups: u32::MAX, senders: u32::MAX, receivers: u32::MAX, ..small() },
        "groups = 4294967295: with 4294967295 + 4294967295 tasks a group there must be fewer than 1048576",
    );
    let most = Hackbench { groups: 26_214, senders: 20, receivers: 20, ..small() };
    assert_eq!(scenario(dual_quad(), "v5.7", most).validate(), Ok(()));
}

#[test]
fn hackbench_with_more_messages_than_a_counter_holds() {
    hackbench_refused(
        Hackbench { loops: 300_000_000, senders: 20, ..small() },
        "loops = 300000000: must leave each task fewer than 2^32 messages",
    );
}

#[test]
fn unknown_kernels_with_the_near_names() {
    let error = scenario(dual_quad(), "v5.77", small()).validate().unwrap_err().to_string();
    let start = "kernel = \"v5.77\": must be a kernel generation; near names: v5.7";
    assert!(error.starts_with(start), "{error}");
}

#[test]
fn settings_of_the_kernel_out_of_range() {
    let mut half_life = scenario(dual_quad(), "v5.7", small());
    half_life.kernel.tunables.pelt_half_life_ms = Some(0);
    refused(&half_life, "tunables.pelt_half_life_ms = 0: is 1 to 1024");
    let mut hz = scenario(dual_quad(), "v5.7", small());
    hz.kernel.tunables.hz = Some(60);
    refused(&hz, "tunables.hz = 60: is 100, 250, 300 or 1000");
}

#[test]
fn costs_out_of_range() {
    let mut slow = scenario(dual_quad(), "v5.7", small());
    slow.costs.smt2_speed_permille = 0;
    refused(&slow, "costs.smt2_speed_permille = 0: a speed is 1 to 1000 per mille");
}

#[test]
fn ticks_that_leave_no_time_for_anything_else() {
    let mut ticks = scenario(dual_quad(), "v5.7", small());
    ticks.kernel.tunables.hz = Some(1000);
    ticks.costs.tick_ns = 500_000;
    assert_eq!(ticks.validate(), Ok(()));
    ticks.costs.tick_ns = 500_001;
    refused(
        &ticks,
        "costs.tick_ns = 500001: takes 500001 ns on the slowest CPU, and half of a tick is 500000 ns",
    );
    // The same cost on a CPU of half the speed.
    ticks.costs.tick_ns = 300_000;
    ticks.machine = MachineSpec { capacity: vec![1024, 1024, 1024, 1024, 512, 512, 512, 512], ..dual_quad() };
    refused(
        &ticks,
        "costs.tick_ns = 300000: takes 600000 ns on the slowest CPU, and half of a tick is 500000 ns",
    );
}

#[test]
fn json_with_a_misspelt_field() {
    let text = serde_json::to_string(&scenario(dual_quad(), "v5.7", small())).unwrap();
    assert!(Scenario::from_json(&text).is_ok());
    let error = Scenario::from_json(&text.replace("\"groups\"", "\"group\"")).unwrap_err();
    assert!(error.to_string().contains("unknown field `group`"), "{error}");
}
