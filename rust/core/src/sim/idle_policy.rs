//! SCHED_IDLE: tasks, and whole groups (`cpu.idle`), that run when nothing else wants to.

use super::Sim;
use super::groups::{Entities, QueueId};
use super::rq::{EntityId, TaskId};
use crate::kernels::queue::QueueEnv;

impl Sim<'_> {
    /// `h_nr_running` and `idle_h_nr_running` of a queue change.
    #[inline]
    pub(super) fn count_tasks(&mut self, queue: QueueId, tasks: i32, idle: i32) {
        let cfs = self.cfs_mut(queue);
        cfs.h_nr_running = cfs.h_nr_running.wrapping_add_signed(tasks);
        cfs.idle_h_nr_running = cfs.idle_h_nr_running.wrapping_add_signed(idle);
    }

    /// How many of the tasks that enter or leave a queue, `idle` of them idle there, are idle above it: all in an idle group.
    #[inline]
    pub(super) fn idle_above(&self, queue: QueueId, tasks: i32, idle: i32) -> i32 {
        if self.groups.groups[usize::from(queue.group)].idle { tasks } else { idle }
    }

    /// What policy says of a wake-up, before virtual time is asked: for the running and the woken task, and for what of
    /// theirs shares a queue.
    pub(super) fn preempts_by_policy(&self, tasks: [TaskId; 2], entities: [EntityId; 2]) -> Option<bool> {
        (self.kernel.queue.preempts_by_policy.f)(&queue_env!(self), tasks, entities)
    }

    /// The end of dequeue_task_fair(): a CPU left with SCHED_IDLE tasks only balances at its next tick.
    #[inline]
    pub(super) fn balance_early(&mut self, cpu: usize, was_sched_idle: bool) {
        if !was_sched_idle && self.stats.sched_idle[cpu] && !self.balance_rules.sched_idle_is_busy {
            self.rqs[cpu].next_balance = self.jiffies();
        }
    }
}
