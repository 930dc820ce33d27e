//! runnable-avg-v3: the series as it stood a version before it was merged.
//!
//! Vincent Guittot, the series of [`runnable_avg`](super::runnable_avg) in its third version. The fourth changed two
//! things: a new task's `runnable_avg` starts at the capacity of its CPU and no longer at that of the biggest, and a
//! group's `runnable_avg` is summed on wake-up, too. Expect the first to matter on machines of asymmetric capacity only:
//! there a little CPU with one new task looks overloaded; the second where forked tasks choose between busy groups.

use super::super::{Kernel, Signals, v5_6};
use super::runnable_avg;
use crate::pelt::SchedAvg;
use crate::slot;

/// Where this version was published.
pub const SOURCE: &str = "Vincent Guittot, sched/fair: remove runnable_load_avg and improve group_classify, version 3, \
                          February 2020";

/// What it changes.
pub const SUMMARY: &str = "runnable-avg, where a new task starts as runnable as the biggest CPU, and wake-ups read utilization only.";

/// v5.6 with the third version.
pub const KERNEL: Kernel = Kernel {
    name: "v5.6+runnable-avg-v3",
    source: SOURCE,
    summary: SUMMARY,
    signals: INIT.signals,
    balance: runnable_avg::KERNEL.balance,
    ..v5_6::KERNEL
};

/// What the start value alone changes.
pub const SUMMARY_INIT: &str = "The start value of runnable_avg of version 3 on what was merged.";

/// The series as merged, with the start value of the third version.
pub const INIT: Kernel = Kernel {
    name: "v5.6+runnable-avg+runnable-avg-v3-init",
    source: SOURCE,
    summary: SUMMARY_INIT,
    signals: Signals {
        new_task_runnable: slot!(
            new_task_runnable,
            "A new task starts as runnable as the biggest CPU, wherever it starts."
        ),
        ..runnable_avg::KERNEL.signals
    },
    ..runnable_avg::KERNEL
};

/// kernel/sched/fair.c, the series' third version, init_entity_runnable_average().
fn new_task_runnable(_avg: &SchedAvg, _cpu_scale: u64) -> u64 {
    1024
}

#[cfg(test)]
mod tests {
    use super::super::super::env::{GroupType, SgLbStats};
    use super::*;

    /// group_is_overloaded(): two new tasks on two little CPUs and one more that has run a while.
    #[test]
    fn new_tasks_overload_little_cpus_by_the_start_value_of_version_3() {
        let class = |kernel: &Kernel, cpu_scale: u64| {
            let new_task = (kernel.signals.new_task_runnable.f)(&SchedAvg::default(), cpu_scale);
            let sgs = SgLbStats {
                sum_nr_running: 3,
                sum_h_nr_running: 3,
                group_weight: 2,
                group_capacity: 2 * cpu_scale,
                group_util: cpu_scale,
                group_runnable: 2 * new_task + 100,
                ..SgLbStats::default()
            };
            (kernel.balance.group_classify.f)(kernel, 117, false, &sgs)
        };
        assert_eq!(class(&runnable_avg::KERNEL, 446), GroupType::HasSpare);
        for v3 in [&KERNEL, &INIT] {
            assert_eq!(class(v3, 446), GroupType::Overloaded);
            assert_eq!(
                class(v3, 1024),
                class(&runnable_avg::KERNEL, 1024),
                "where all CPUs are big nothing differs"
            );
        }
    }
}
