//! prio-bias, Con Kolivas' smp nice of 2005: load times the average priority of the tasks.
//!
//! A runqueue keeps the sum of its tasks' biases, 20 for nice 0, and its load is multiplied by their mean. Balancing for
//! an idle CPU leaves a queue with one task alone. But what is compared with a multiplied load was not multiplied: a
//! load of 128 is still one task to `find_busiest_group`, so that imbalances come out about 20 times too large and the
//! branch for small ones hardly ever acts. Expect tasks to be pulled back and forth.

use super::super::Kernel;
use super::super::env::CpuIdleType;
use super::{O1, O1Class, O1Rq, v2_6_15};
use crate::slot;

/// v2.6.15 with it.
pub const KERNEL: Kernel = Kernel { name: "v2.6.15+prio-bias", o1: Some(TABLE), ..v2_6_15::KERNEL };

/// Its decisions.
pub const TABLE: O1 = O1 {
    task_bias: slot!(task_bias, "A task's bias is 20 at nice 0, one more for each better priority."),
    source_load: slot!(
        source_load,
        "The low guess is multiplied by the tasks' mean bias, so that a task of nice 0 weighs 20 times what it is compared with."
    ),
    target_load: slot!(
        target_load,
        "The high guess is multiplied by the tasks' mean bias, so that a task of nice 0 weighs 20 times what it is compared with."
    ),
    ..v2_6_15::TABLE
};

/// Where it is from.
pub const SOURCE: &str = "kernel/sched.c of 2.6.15-mm to 2.6.16-rc, Con Kolivas' smp nice (prio_bias)";
/// What it is for.
pub const SUMMARY: &str = "Multiplies loads by the tasks' priorities, so that nice counts across CPUs; imbalances come out about 20 times too large.";

/// One more than the worst priority (`MAX_PRIO`).
const MAX_PRIO: i32 = 140;
/// One more than the worst real-time priority (`MAX_RT_PRIO`).
const MAX_RT_PRIO: i32 = 100;

/// kernel/sched.c, 2.6.16-rc, inc_nr_running(): the better the priority, the more.
fn task_bias(class: O1Class) -> u64 {
    let prio = match class {
        O1Class::Normal(static_prio) => static_prio,
        O1Class::RealTime(rt_priority) => MAX_RT_PRIO - 1 - rt_priority,
        O1Class::MigrationThread => return 0,
    };
    u64::try_from(MAX_PRIO - prio).unwrap_or(0)
}

/// kernel/sched.c, 2.6.16-rc, __source_load().
fn source_load(kernel: &O1, rq: &O1Rq, idx: usize, idle: CpuIdleType) -> u64 {
    biased(v2_6_15::source_load(kernel, rq, idx, idle), rq, idle)
}

/// kernel/sched.c, 2.6.16-rc, __target_load().
fn target_load(kernel: &O1, rq: &O1Rq, idx: usize, idle: CpuIdleType) -> u64 {
    biased(v2_6_15::target_load(kernel, rq, idx, idle), rq, idle)
}

/// The load times the mean bias; an idle CPU should not pull the only task of a queue because it is an important one.
fn biased(load: u64, rq: &O1Rq, idle: CpuIdleType) -> u64 {
    let counts_bias = rq.nr_running > 1 || (rq.nr_running == 1 && !idle.is_idle());
    if counts_bias { load * rq.prio_bias / rq.nr_running } else { load }
}
