//! The log of decisions: complete, without influence on the run, and what two runs are told apart by.

mod common;

use std::sync::atomic::AtomicBool;

use common::{EVERY_KERNEL, big_little, dual_quad, everything, run, scenario, small, two_nodes_smt};
use schedlab_core::record::decisions::{Decision, Kinds, Pass, Wanted, What};
use schedlab_core::run::{Parting, Progress, decisions, first_difference};
use schedlab_core::scenario::{KernelSpec, Scenario, WorkloadSpec};
use schedlab_core::sim::{self, Log};
use schedlab_core::topology::MachineSpec;

fn parting(a: &Scenario, b: &Scenario) -> Parting {
    first_difference(a, b, 1, &Progress::default()).unwrap()
}

/// The scenario under another kernel with patches.
fn patched(machine: MachineSpec, kernel: &str, patches: &[&str]) -> Scenario {
    let patches = patches.iter().map(|&patch| patch.to_owned()).collect();
    let kernel = KernelSpec { name: kernel.to_owned(), patches, ..KernelSpec::default() };
    Scenario { kernel, ..scenario(machine, "v5.6", small()) }
}

fn passes(decision: Option<&Decision>) -> &Pass {
    match decision.map(|decision| &decision.what) {
        Some(What::Balance(pass)) => pass,
        other => panic!("not a balance pass: {other:?}"),
    }
}

/// group_classify(): what the patch of February 2020 is about.
#[test]
fn v5_6_and_v5_7_part_where_they_class_a_group_differently() {
    let (a, b) = (scenario(dual_quad(), "v5.6", small()), scenario(dual_quad(), "v5.7", small()));
    let parting = parting(&a, &b);
    let (a, b) = (passes(parting.a.as_ref()), passes(parting.b.as_ref()));
    assert_ne!(a.answer.group_types, b.answer.group_types);
    assert!(parting.alike > 0);
    let sums = |pass: &Pass| -> Vec<_> {
        pass.asked.groups.iter().map(|group| (group.nr_running, group.idle_cpus)).collect()
    };
    assert_eq!(sums(a), sums(b), "until then nothing differed");
    let runnable = |pass: &Pass| pass.asked.groups.iter().map(|group| group.runnable).sum::<u64>();
    assert!(runnable(a) == 0 && runnable(b) > 0, "only v5.7 sums runnable_avg");
}

#[test]
fn a_kernel_never_parts_from_itself_nor_from_what_its_patches_make_it() {
    for kernel in EVERY_KERNEL {
        let one = scenario(two_nodes_smt(), kernel, small());
        let Parting { alike, a, b } = parting(&one, &one);
        assert!(alike > 100 && a.is_none() && b.is_none(), "{kernel}");
    }
    let steps = patched(dual_quad(), "v5.6", &["runnable-avg-signal", "runnable-avg-classify"]);
    let series = patched(dual_quad(), "v5.6", &["runnable-avg"]);
    assert_eq!(parting(&steps, &series).a, None);
}

/// The fourth patch of the series keeps a signal that nobody reads yet.
#[test]
fn the_signal_alone_decides_nothing() {
    for machine in [dual_quad(), two_nodes_smt(), big_little()] {
        let base = patched(machine.clone(), "v5.6", &[]);
        let signal = patched(machine, "v5.6", &["runnable-avg-signal"]);
        assert_eq!(parting(&base, &signal).a, None);
    }
}

/// post_init_entity_util_avg(): where all CPUs are alike version 3 starts tasks as the merged series does.
#[test]
fn the_start_value_of_version_3_shows_on_asymmetric_machines_only() {
    let merged = ["runnable-avg"];
    let v3 = ["runnable-avg", "runnable-avg-v3-init"];
    let alike = parting(&patched(dual_quad(), "v5.6", &merged), &patched(dual_quad(), "v5.6", &v3));
    assert_eq!(alike.a, None);
    let part = parting(&patched(big_little(), "v5.6", &merged), &patched(big_little(), "v5.6", &v3));
    assert!(part.a.is_some() && part.a != part.b);
}

#[test]
fn every_patch_of_the_queue_by_run_time_changes_a_run_that_it_should_change() {
    for (base, patch, machine) in [
        ("v5.4", "lb-rework-v4", dual_quad()),
        ("v5.4", "lb-rework-v4-balance", dual_quad()),
        ("v5.4", "lb-rework-v4-load", dual_quad()),
        ("v5.4", "lb-rework-v4-no-small-imbalance", dual_quad()),
        ("v5.6", "runnable-avg", dual_quad()),
        ("v5.6", "runnable-avg-v3", dual_quad()),
    ] {
        let part = parting(&patched(machine.clone(), base, &[]), &patched(machine, base, &[patch]));
        assert!(part.a.is_some() && part.b.is_some(), "{patch}: {} decisions alike", part.alike);
    }
}

#[test]
fn the_log_is_complete_and_changes_nothing() {
    let work =
        schedlab_core::workload::Hackbench { groups: 4, loops: 60, senders: 20, receivers: 20, ..small() };
    for kernel in EVERY_KERNEL {
        let scenario = scenario(two_nodes_smt(), kernel, work.clone());
        let plain = &run(&scenario, &[3])[0];
        let wanted = Wanted { skip: 0, limit: usize::MAX, kinds: Kinds::All };
        let log = Log { decisions: Some(wanted), ..Log::default() };
        let logged = sim::run(&scenario.setup().unwrap(), 3, log, &AtomicBool::new(false)).unwrap();
        assert_eq!(everything(plain), everything(&logged), "{kernel}");
        let made = logged.decisions.unwrap().made;
        let count =
            |of: fn(&What) -> usize| made.iter().map(|decision| of(&decision.what)).sum::<usize>() as i64;
        let metrics = &plain.metrics;
        assert_eq!(count(|what| usize::from(matches!(what, What::Fork(_)))), metrics.forks, "{kernel}");
        assert_eq!(
            count(|what| match what {
                What::Balance(pass) => pass.answer.moved.len(),
                _ => 0,
            }),
            metrics.migrations_idle + metrics.migrations_busy + metrics.migrations_newidle,
            "{kernel}"
        );
        assert_eq!(
            count(|what| usize::from(matches!(what, What::Balance(_)))),
            metrics.balance_idle + metrics.balance_busy + metrics.balance_newidle,
            "{kernel}"
        );
        let preempts = |what: &What| usize::from(matches!(what, What::Preemption(p) if p.answer.preempt));
        assert_eq!(count(preempts), metrics.preemptions_wakeup, "{kernel}");
        assert!(metrics.preemptions_wakeup > 0, "{kernel}");
        assert!(made.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns), "{kernel}");
        let finished = made.iter().all(|decision| match &decision.what {
            What::Balance(pass) => !pass.answer.outcome.is_empty(),
            _ => true,
        });
        assert!(finished, "{kernel}: a pass without an end");
    }
}

/// Five hogs on two CPUs.
#[test]
fn the_log_has_every_slice_that_ends_at_a_tick() {
    let hogs = r#"{"kind": "tasks", "duration_ms": 300, "tasks": [{"kind": "hog", "n": 5, "start_us": 0, "jitter_us": 0, "nice": 0, "mask": null, "release": null}]}"#;
    for kernel in EVERY_KERNEL {
        let workload: WorkloadSpec = serde_json::from_str(hogs).unwrap();
        let scenario = Scenario { workload, ..scenario(MachineSpec::uniform("two", 2), kernel, small()) };
        let ended = run(&scenario, &[1])[0].metrics.preemptions_tick;
        let all = Wanted { skip: 0, limit: usize::MAX, kinds: Kinds::All };
        let made = decisions(&scenario, 1, all, &Progress::default()).unwrap();
        let ends = |what: &What| matches!(what, What::Tick(tick) if tick.answer.preempt);
        assert_eq!(made.iter().filter(|decision| ends(&decision.what)).count() as i64, ended, "{kernel}");
        assert!(ended > 0, "{kernel}");
    }
}

#[test]
fn a_log_keeps_the_kinds_that_are_wanted_and_no_more_than_it_should() {
    let scenario = scenario(dual_quad(), "v5.7", small());
    let part = |skip, limit, kinds| {
        decisions(&scenario, 1, Wanted { skip, limit, kinds }, &Progress::default()).unwrap()
    };
    let get = |limit, kinds| part(0, limit, kinds);
    let all = get(usize::MAX, Kinds::All);
    let of = |wanted: fn(&What) -> bool| -> Vec<_> {
        all.iter().filter(|decision| wanted(&decision.what)).cloned().collect()
    };
    assert_eq!(get(usize::MAX, Kinds::Balance), of(|what| matches!(what, What::Balance(_))));
    assert_eq!(get(usize::MAX, Kinds::Placement), of(|what| matches!(what, What::Wakeup(_) | What::Fork(_))));
    let first = get(10, Kinds::All);
    assert!((10..40).contains(&first.len()), "the event that fills the log is logged to its end");
    assert_eq!(first, all[..first.len()]);
    let later = part(first.len(), 50, Kinds::All);
    assert_eq!(later, all[first.len()..first.len() + later.len()]);
    assert!(part(all.len(), 1, Kinds::All).is_empty());
}

#[test]
fn the_search_goes_on_beyond_its_first_window() {
    let work =
        schedlab_core::workload::Hackbench { groups: 4, loops: 60, senders: 20, receivers: 20, ..small() };
    let one = scenario(dual_quad(), "v5.7", work);
    let all = Wanted { skip: 0, limit: usize::MAX, kinds: Kinds::All };
    let made = decisions(&one, 1, all, &Progress::default()).unwrap().len();
    assert!(made > 4096, "{made}: more than the first window");
    assert_eq!(parting(&one, &one), Parting { alike: made, a: None, b: None });
}

#[test]
fn runs_of_different_work_are_not_compared() {
    let a = scenario(dual_quad(), "v5.6", small());
    let b = scenario(big_little(), "v5.7", small());
    let error = first_difference(&a, &b, 1, &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("b = ") && error.contains("same machine"), "{error}");
}
