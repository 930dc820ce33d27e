//! eligible-first: while balancing succeeds, only eligible tasks move to a CPU that has tasks already.
//!
//! Hao Jia, "sched/core: Prioritize migrating eligible tasks in sched_balance_rq()", December 2024, merged for
//! v6.14. A task that is ahead of the average of its queue would not run there for a while, and it keeps its
//! lag when it moves (PLACE_LAG): on the new queue it waits again. Expect pulls to take tasks that can run at
//! once, and refusals where a queue's tail is ahead. The refusal is soft: one failed pass lifts it.
//!
//! The mail says "more than one task on the destination", its code asks for any. Both are here.

use super::super::env::{LbEnv, TaskView};
use super::super::{Balance, Kernel, v6_12};
use crate::slot;

/// Where the patch was published.
pub const SOURCE: &str = "Hao Jia, sched/core: Prioritize migrating eligible tasks in sched_balance_rq(), December 2024 (merged for v6.14)";

/// What it changes.
pub const SUMMARY: &str =
    "Pulls only eligible tasks to a CPU that has tasks, unless the last pass failed: as the code has it.";

/// What the mail's text says that it changes.
pub const SUMMARY_DESCRIBED: &str = "Pulls only eligible tasks to a CPU that has two tasks or more, unless the last pass failed: as the text has it.";

/// v6.12 with the patch.
pub const KERNEL: Kernel = Kernel {
    name: "v6.12+eligible-first",
    source: SOURCE,
    summary: SUMMARY,
    balance: Balance {
        can_migrate_task: slot!(
            can_migrate_task,
            "A task that is not eligible stays while balancing succeeds and the destination has a task."
        ),
        ..v6_12::KERNEL.balance
    },
    ..v6_12::KERNEL
};

/// v6.12 with the patch as its text describes it.
pub const KERNEL_DESCRIBED: Kernel = Kernel {
    name: "v6.12+eligible-first-described",
    source: SOURCE,
    summary: SUMMARY_DESCRIBED,
    balance: Balance {
        can_migrate_task: slot!(
            can_migrate_task_described,
            "A task that is not eligible stays while balancing succeeds and the destination has two tasks."
        ),
        ..v6_12::KERNEL.balance
    },
    ..v6_12::KERNEL
};

/// kernel/sched/fair.c, v6.14, can_migrate_task(), on what v6.12 asks.
fn can_migrate_task(env: &mut LbEnv<'_>, p: &TaskView<'_>) -> bool {
    eligible_or_needed(env, p, 1)
}

/// kernel/sched/fair.c, v6.14, can_migrate_task(), by the text of its change.
fn can_migrate_task_described(env: &mut LbEnv<'_>, p: &TaskView<'_>) -> bool {
    eligible_or_needed(env, p, 2)
}

/// Whether a task may move, where one that is not eligible stays if the destination has so many tasks. It stays
/// before anyone asks for its affinity, so that it counts neither as pinned nor as not pinned.
fn eligible_or_needed(env: &mut LbEnv<'_>, p: &TaskView<'_>, crowd: u32) -> bool {
    let soft_limit = env.nr_balance_failed == 0 && env.system.place_lag;
    if soft_limit && !p.throttled && !p.eligible && env.rqs.h_nr_running[env.dst_cpu] >= crowd {
        env.scan.refused.ineligible += 1;
        return false;
    }
    (v6_12::KERNEL.balance.can_migrate_task.f)(env, p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{DetachCase, DetachOutcome, parse};

    /// Two tasks to move, the second of them eligible, to a CPU that has `dst_nr` tasks after `failed` passes.
    fn pull(kernel: &Kernel, dst_nr: u32, failed: u32) -> DetachOutcome {
        let case: DetachCase = parse(&format!(
            r#"{{"idle": "busy", "migration_type": "task", "imbalance": 2, "loop_max": 32,
                "migration_cost_ns": 0, "sd": {{"nr_balance_failed": {failed}, "cache_nice_tries": 1}},
                "src": {{"cpu": 1, "nr_running": 3, "capacity": 1024}},
                "dst": {{"cpu": 0, "nr_running": {dst_nr}, "group_weight": 1}},
                "tasks": [{{"load": 9, "util": 9, "age_ns": 9, "eligible": false}},
                          {{"load": 9, "util": 9, "age_ns": 9}}]}}"#
        ))
        .unwrap();
        case.decide(kernel).unwrap()
    }

    #[test]
    fn a_task_ahead_of_its_queue_stays_while_balancing_succeeds_and_others_wait_at_the_destination() {
        assert_eq!(pull(&v6_12::KERNEL, 1, 0).detached, [0, 1]);
        assert_eq!(pull(&KERNEL, 1, 0).detached, [1]);
        assert_eq!(pull(&KERNEL, 0, 0).detached, [0, 1], "the destination is empty");
        assert_eq!(pull(&KERNEL, 1, 1).detached, [0, 1], "a pass failed");
        assert_eq!(pull(&KERNEL_DESCRIBED, 1, 0).detached, [0, 1]);
        assert_eq!(pull(&KERNEL_DESCRIBED, 2, 0).detached, [1]);
    }

    #[test]
    fn a_refused_task_is_neither_pinned_nor_movable() {
        let case: DetachCase = parse(
            r#"{"idle": "busy", "migration_type": "task", "imbalance": 1, "loop_max": 32,
                "migration_cost_ns": 0, "sd": {}, "src": {"cpu": 1, "nr_running": 2, "capacity": 1024},
                "dst": {"cpu": 0, "nr_running": 1, "group_weight": 1},
                "tasks": [{"load": 9, "util": 9, "age_ns": 9, "eligible": false, "allowed": [1]}]}"#,
        )
        .unwrap();
        let got = case.decide(&KERNEL).unwrap();
        assert_eq!((got.all_pinned, got.some_pinned), (true, false));
        let base = case.decide(&v6_12::KERNEL).unwrap();
        assert_eq!((base.all_pinned, base.some_pinned), (true, true));
    }
}
