//! v5.10: the long-term line that followed v5.7, as its stable series ended up.
//!
//! Read of it: load balancing, in 5.10.13, and the repair of an overflow that 5.10.178 got. Wake-ups are v5.7's.
//!
//! * `calculate_imbalance`: within an LLC tasks are spread by number, whatever the utilization; and a local group above the
//!   domain's average pulls nothing (5.10.178).
//! * `detach_tasks`: each failed pass halves what a task's load counts.
//! * `can_migrate_task`: threads of a core share all caches, so that no task is hot between them.
//! * `balance_rules`: a busy CPU's interval is a jiffy shorter.
//! * `group_rules`: a queue asks its pool once more before it is throttled.

use super::env::{BalanceRules, GroupType, LbEnv, MigrationType, SdLbStats, SrcQueue, TaskView};
use super::groups::GroupRules;
use super::{Balance, Groups, Kernel, v5_4, v5_5, v5_7};
use crate::slot;
use crate::topology::SdFlags;

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v5.10",
    source: "kernel/sched/fair.c of Linux 5.10.13, and a repair of 5.10.178",
    summary: "v5.7 with tasks spread by number within an LLC, and loads that count less with each failed pass.",
    balance: Balance {
        balance_rules: slot!(balance_rules, "The interval of a busy CPU is a jiffy shorter."),
        calculate_imbalance: slot!(
            calculate_imbalance,
            "Within an LLC tasks are spread by number; a group above the average pulls nothing."
        ),
        can_migrate_task: slot!(can_migrate_task, "No task is hot between the threads of a core."),
        detach_tasks: slot!(detach_tasks, "Each failed pass halves what a task's load counts."),
        ..v5_7::KERNEL.balance
    },
    groups: Groups {
        group_rules: slot!(group_rules, "A queue asks its pool once more before it is throttled."),
    },
    ..v5_7::KERNEL
};

/// kernel/sched/fair.c, v5.10, throttle_cfs_rq().
fn group_rules() -> GroupRules {
    GroupRules { throttle_asks_again: true, ..(v5_7::KERNEL.groups.group_rules.f)() }
}

/// kernel/sched/fair.c, v5.10, get_sd_balance_interval().
fn balance_rules() -> BalanceRules {
    BalanceRules { busy_interval_shortened_by: 1, ..(v5_7::KERNEL.balance.balance_rules.f)() }
}

/// kernel/sched/fair.c, v5.10.178, calculate_imbalance().
fn calculate_imbalance(env: &mut LbEnv<'_>, sds: &mut SdLbStats) {
    let fills = sds.local_stat.group_type == GroupType::HasSpare;
    if fills && sds.busiest_stat.group_type == GroupType::Overloaded && env.sd.flags.has(SdFlags::SHARE_LLC) {
        return v5_5::even_out_tasks(env, sds);
    }
    v5_7::calculate_imbalance(env, sds);
    let local = &sds.local_stat;
    if env.migration_type == MigrationType::Load
        && local.group_type < GroupType::Overloaded
        && local.avg_load >= sds.avg_load
    {
        env.imbalance = 0;
    }
}

/// kernel/sched/fair.c, v5.10, can_migrate_task().
fn can_migrate_task(env: &mut LbEnv<'_>, p: &TaskView<'_>) -> bool {
    if !v5_4::can_move(env, p) {
        return false;
    }
    let threads = env.sd.flags.has(SdFlags::SHARE_CPUCAPACITY);
    let hot = v5_4::migrate_degrades_locality(env, p).unwrap_or_else(|| !threads && v5_4::task_hot(env, p));
    v5_4::accept_if_cool(env, hot)
}

/// kernel/sched/fair.c, v5.10, detach_tasks().
fn detach_tasks(env: &mut LbEnv<'_>, queue: &mut dyn SrcQueue) -> u32 {
    v5_4::detach_by(env, queue, |env, p| match env.migration_type {
        MigrationType::Load => {
            let load = p.load.max(1).cast_signed();
            let halved = load >> env.nr_balance_failed.min(i64::BITS - 1);
            (halved <= env.imbalance).then_some(load)
        }
        _ => v5_5::amount_to_move(env, p, 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{BusiestCase, DetachCase, parse};

    /// What an idle CPU of one pair of CPUs pulls from another pair of five tasks.
    fn pulls(kernel: &Kernel, share_llc: bool) -> (Option<&'static str>, i64) {
        let case: BusiestCase = parse(&format!(
            r#"{{"idle": "idle", "dst_cpu": 0,
                "sd": {{"imbalance_pct": 117, "share_llc": {share_llc}, "prefer_sibling": true}},
                "groups": [{{"cpus": [0, 1]}}, {{"cpus": [2, 3]}}],
                "cpus": {{"nr_running": [0, 1, 3, 2], "h_nr_running": [0, 1, 3, 2], "load": [0, 1024, 3072, 2048],
                         "util": [0, 300, 1024, 1024], "runnable": [0, 300, 1024, 1024],
                         "idle": [true, false, false, false]}}}}"#
        ))
        .unwrap();
        let got = case.decide(kernel).unwrap();
        (got.migration_type, got.imbalance)
    }

    #[test]
    fn within_an_llc_tasks_are_spread_by_number() {
        assert_eq!(pulls(&v5_7::KERNEL, true), (Some("util"), 1748));
        assert_eq!(pulls(&KERNEL, true), (Some("task"), 2));
        assert_eq!(pulls(&KERNEL, false), (Some("util"), 1748));
    }

    #[test]
    fn a_group_above_the_average_pulls_nothing() {
        let case: BusiestCase = parse(
            r#"{"idle": "busy", "dst_cpu": 0, "sd": {"imbalance_pct": 117},
                "groups": [{"cpus": [0]}, {"cpus": [1]}, {"cpus": [2]}],
                "cpus": {"nr_running": [1, 3, 0], "h_nr_running": [1, 3, 0], "load": [2048, 4000, 0],
                         "util": [1024, 1024, 0], "runnable": [1024, 1024, 0], "idle": [false, false, true]}}"#,
        )
        .unwrap();
        let imbalance = |kernel| case.decide(kernel).unwrap().imbalance;
        // The average is 2016.
        assert_eq!((imbalance(&v5_7::KERNEL), imbalance(&KERNEL)), (1984, 0));
    }

    const NONE: Vec<u32> = Vec::new();

    /// Which of two tasks of these loads v5.7 and v5.10 detach for an imbalance of 600.
    fn detached(sd: &str, loads: [u64; 2], age_ns: u64) -> [Vec<u32>; 2] {
        let [first, second] = loads;
        let case: DetachCase = parse(&format!(
            r#"{{"idle": "busy", "migration_type": "load", "imbalance": 600, "loop_max": 32,
                "migration_cost_ns": 500000, "sd": {sd}, "src": {{"cpu": 1, "nr_running": 3, "capacity": 1024}},
                "dst": {{"cpu": 0, "nr_running": 1, "group_weight": 1}},
                "tasks": [{{"load": {first}, "util": 300, "age_ns": {age_ns}}},
                          {{"load": {second}, "util": 300, "age_ns": {age_ns}}}]}}"#
        ))
        .unwrap();
        [&v5_7::KERNEL, &KERNEL].map(|kernel| case.decide(kernel).unwrap().detached)
    }

    #[test]
    fn each_failed_pass_halves_what_a_load_counts() {
        let after = |failed: u32| {
            detached(
                &format!(r#"{{"nr_balance_failed": {failed}, "cache_nice_tries": 99}}"#),
                [5000, 1201],
                1_000_000,
            )
        };
        assert_eq!(after(0), [vec![1], NONE]);
        assert_eq!(after(1), [vec![1], vec![1]]);
        assert_eq!(after(4), [vec![1], vec![0]]);
        assert_eq!(after(u32::MAX), [vec![0], vec![0]]);
    }

    #[test]
    fn no_task_is_hot_between_threads_of_a_core() {
        let recent = |sd| detached(sd, [500, 100], 1000);
        assert_eq!(recent(r#"{"cache_nice_tries": 1}"#), [NONE, NONE]);
        assert_eq!(recent(r#"{"cache_nice_tries": 1, "share_cpucapacity": true}"#), [NONE, vec![0, 1]]);
    }
}
