//! smpnice, Peter Williams' repair in -mm, as mailed on 7 February 2006: load is a sum of priorities.
//!
//! A task of nice 0 is a load of 128 whatever the other tasks are, so loads and the constants that they are compared
//! with have the same unit again, and the averages are of weighted load. An imbalance is an amount of bias, 20 for a
//! task of nice 0, and tasks that exceed what is left of it stay.

use super::super::Kernel;
use super::super::env::MigrationType;
use super::{MoveLimit, O1, O1Class, O1Rq, SCHED_LOAD_SCALE, prio, prio_bias, v2_6_15};
use crate::slot;

/// v2.6.15 with prio-bias and with it.
pub const KERNEL: Kernel =
    Kernel { name: "v2.6.15+prio-bias+smpnice-weights", o1: Some(TABLE), ..v2_6_15::KERNEL };

/// Its decisions.
pub const TABLE: O1 = O1 {
    task_bias: slot!(task_bias, "A task's bias is 20 - nice, and 40 or more for real-time tasks."),
    load_now: slot!(load_now, "A CPU's load is the sum of its tasks' biases, scaled so that nice 0 is 128."),
    source_load: v2_6_15::TABLE.source_load,
    target_load: v2_6_15::TABLE.target_load,
    imbalance_to_move: slot!(
        imbalance_to_move,
        "An imbalance is moved as an amount of bias, 20 a task of nice 0."
    ),
    imbalance_unit: slot!(imbalance_unit, "Imbalances count bias."),
    move_limit: slot!(
        move_limit,
        "Tasks move up to that much bias; a task of more than what is left stays, and one always does."
    ),
    active_move_limit: slot!(active_move_limit, "The migration thread pushes one task of any bias."),
    sync_wake_load: slot!(sync_wake_load, "The load that a waker takes with it is taken to be the wakee's."),
    ..prio_bias::TABLE
};

/// Where it is from.
pub const SOURCE: &str = "kernel/sched.c of 2.6.16-mm, Peter Williams' smpnice as mailed on 7 February 2006";
/// What it is for.
pub const SUMMARY: &str = "Repairs prio-bias: loads are sums of priorities in the unit that they are compared in, and pulls move that much priority.";

/// Bias of a task of nice 0 (`NICE_TO_BIAS_PRIO(0)`).
const NICE_0_BIAS: u64 = 20;

/// kernel/sched.c, 2.6.16-mm, set_bias_prio().
fn task_bias(class: O1Class) -> u64 {
    let bias = match class {
        O1Class::Normal(static_prio) => 20 - prio::nice_of(static_prio),
        O1Class::RealTime(rt_priority) => 40 + rt_priority,
        O1Class::MigrationThread => 0,
    };
    u64::try_from(bias).unwrap_or(0)
}

/// kernel/sched.c, 2.6.16-mm, weighted_load().
fn weighted_load(bias: u64) -> u64 {
    bias * SCHED_LOAD_SCALE / NICE_0_BIAS
}

/// kernel/sched.c, 2.6.16-mm, rebalance_tick(): the load that it averages.
fn load_now(rq: &O1Rq) -> u64 {
    weighted_load(rq.prio_bias)
}

/// kernel/sched.c, 2.6.16-mm, biased_load().
fn imbalance_to_move(load: u64) -> u64 {
    load * NICE_0_BIAS / SCHED_LOAD_SCALE
}

/// kernel/sched.c, 2.6.16-mm: what an imbalance counts.
fn imbalance_unit() -> MigrationType {
    MigrationType::Load
}

/// kernel/sched.c, 2.6.16-mm, load_balance(): the imbalance as bias, and all tasks but one.
fn move_limit(imbalance: u64, nr_running: u64) -> MoveLimit {
    MoveLimit { nr: nr_running.saturating_sub(1), bias: i64::try_from(imbalance).unwrap_or(i64::MAX) }
}

/// kernel/sched.c, 2.6.16-mm, active_load_balance(): one task, of any priority.
fn active_move_limit() -> MoveLimit {
    const BEST_RT_PRIORITY: i32 = 100;
    MoveLimit { nr: 1, bias: task_bias(O1Class::RealTime(BEST_RT_PRIORITY)) as i64 }
}

/// kernel/sched.c, 2.6.16-mm, try_to_wake_up(): the load that leaves is taken to be the wakee's.
fn sync_wake_load(bias: u64) -> u64 {
    weighted_load(bias)
}

/// -mm, March 2006, the form that followed: bias 20 - nice above nice 0, and below it growing with the square of nice,
/// scaled so that nice 0 is 128.
pub fn load_weight_march_2006(static_prio: i32) -> u64 {
    load_prio_march_2006(static_prio) * SCHED_LOAD_SCALE / NICE_0_BIAS
}

/// -mm, March 2006: the bias behind [`load_weight_march_2006`].
pub fn load_prio_march_2006(static_prio: i32) -> u64 {
    let nice = i64::from(prio::nice_of(static_prio));
    let bias = if nice < 0 { 20 + nice * nice } else { 20 - nice };
    u64::try_from(bias).unwrap_or(0)
}

/// kernel/sched.c, 2.6.18, set_load_weight(): in the released form a task's weight is its timeslice.
pub fn load_weight_2_6_18(static_prio: i32, hz: u64) -> u64 {
    u64::from(prio::task_timeslice(static_prio, hz)) * SCHED_LOAD_SCALE / prio::def_timeslice(hz)
}
