//! Estimated utilization: what tasks needed in their last activations (UTIL_EST).

use super::Sim;
use super::rq::{SchedEntity, TaskId, UTIL_AVG_UNCHANGED};

impl Sim<'_> {
    /// cpu_util(): the utilization of a CPU, or what its tasks are expected to need if that is more.
    pub(super) fn cpu_util(&self, cpu: usize) -> u64 {
        let cfs = &self.rqs[cpu].cfs;
        let estimated = if self.features.util_est { u64::from(cfs.util_est_enqueued) } else { 0 };
        cfs.avg.util_avg.max(estimated).min(self.stats.capacity_orig[cpu])
    }

    /// task_util_est(): what the task needs now, or needed in its last activations if that is more.
    pub(super) fn task_util_est(&self, task: TaskId) -> u64 {
        task_util_est(&self.tasks[task as usize].se, self.features.util_est)
    }

    /// util_est_enqueue(): the queue expects what its new task needed before.
    pub(super) fn util_est_enqueue(&mut self, cpu: usize, task: TaskId) {
        if self.features.util_est {
            self.rqs[cpu].cfs.util_est_enqueued += estimate(&self.tasks[task as usize].se);
        }
    }

    /// util_est_dequeue(): the queue expects less, and a task that falls asleep is estimated anew.
    pub(super) fn util_est_dequeue(&mut self, cpu: usize, task: TaskId, sleeps: bool) {
        if !self.features.util_est {
            return;
        }
        let se = &mut self.tasks[task as usize].se;
        let cfs = &mut self.rqs[cpu].cfs;
        cfs.util_est_enqueued = cfs.util_est_enqueued.saturating_sub(estimate(se));
        self.stats.util[cpu] = self.cpu_util(cpu);
        let se = &mut self.tasks[task as usize].se;
        // A signal that did not move since the last activation says nothing new.
        if !sleeps || se.util_est_enqueued & UTIL_AVG_UNCHANGED != 0 {
            return;
        }
        let util = se.avg.util_avg as u32;
        se.util_est_enqueued = util | UTIL_AVG_UNCHANGED;
        if self.features.util_est_fastup && se.util_est_ewma < se.util_est_enqueued {
            se.util_est_ewma = se.util_est_enqueued;
            return;
        }
        let difference = i64::from(se.util_est_enqueued) - i64::from(se.util_est_ewma);
        // Within one per cent of a CPU: not worth a change.
        if difference.abs() < 1024 / 100 || u64::from(util) > self.stats.capacity_orig[cpu] {
            return;
        }
        se.util_est_ewma = ((i64::from(se.util_est_ewma) * 4 + difference) / 4) as u32;
    }
}

/// task_util_est(), with or without the estimate (UTIL_EST).
pub(super) fn task_util_est(se: &SchedEntity, util_est: bool) -> u64 {
    if util_est { se.avg.util_avg.max(u64::from(estimate(se))) } else { se.avg.util_avg }
}

/// _task_util_est(): the larger of the last activation and the average over activations.
pub(super) fn estimate(se: &SchedEntity) -> u32 {
    se.util_est_ewma.max(se.util_est_enqueued) | UTIL_AVG_UNCHANGED
}
