//! Real-time tasks: they run before every fair one, and what they use is lost to these.
//!
//! kernel/sched/rt.c: enqueue, pick and preemption of SCHED_FIFO; kernel/sched/pelt.c, update_rt_rq_load_avg().
//!
//! # Deviates
//!
//! A real-time task is bound to one CPU, so that nothing is pushed or pulled, and is not throttled (`sched_rt_runtime_us`):
//! one that never sleeps leaves nothing to fair tasks.

use super::Sim;
use super::rq::{NO_TASK, TaskId, TaskState};
use crate::load_weight::NICE_0_LOAD;
use crate::pelt::{PeltForm, SchedAvg};
use crate::record::TaskTraceState;

/// `struct rt_rq`, and `avg_rt`.
#[derive(Clone, Debug)]
pub struct RtRq {
    /// Runnable tasks, the running one included: highest priority first, and first come first served.
    pub queue: Vec<TaskId>,
    /// The running one.
    pub curr: TaskId,
    /// `avg_rt`: utilization by real-time tasks.
    pub avg: SchedAvg,
}

impl RtRq {
    /// A queue that nothing was ever in.
    pub fn new(now: u64) -> Self {
        let avg = SchedAvg { last_update_time: now & !1023, ..Default::default() };
        Self { queue: Vec::new(), curr: NO_TASK, avg }
    }
}

impl Sim<'_> {
    /// Whether a task is of the real-time class (`rt_task()`).
    #[inline]
    pub(super) fn rt_task(&self, task: TaskId) -> bool {
        self.tasks[task as usize].rt_priority != 0
    }

    /// enqueue_task_rt().
    pub(super) fn enqueue_rt(&mut self, cpu: usize, task: TaskId) {
        let tasks = &self.tasks;
        let priority = |task: TaskId| tasks[task as usize].rt_priority;
        let queue = &mut self.rqs[cpu].rt.queue;
        let at = queue.iter().position(|&other| priority(other) < priority(task)).unwrap_or(queue.len());
        queue.insert(at, task);
        self.tasks[task as usize].queued_since_ns = self.now;
        self.record.task_state(self.now, task, cpu, TaskTraceState::Waiting);
        self.nr_running_changed(cpu);
    }

    /// dequeue_task_rt().
    pub(super) fn dequeue_rt(&mut self, cpu: usize, task: TaskId) {
        self.rqs[cpu].rt.queue.retain(|&other| other != task);
        if self.rqs[cpu].rt.curr == task {
            self.update_rt_avg(cpu, true);
            self.rqs[cpu].rt.curr = NO_TASK;
        }
        self.nr_running_changed(cpu);
    }

    /// pick_next_task_rt(): the first of the queue runs; a fair task gives way to it.
    #[inline]
    pub(super) fn pick_next_rt(&mut self, cpu: usize) -> Option<TaskId> {
        let next = *self.rqs[cpu].rt.queue.first()?;
        self.set_next_rt(cpu, next);
        Some(next)
    }

    /// put_prev_task() of whoever runs, and set_next_task_rt().
    fn set_next_rt(&mut self, cpu: usize, next: TaskId) {
        self.put_prev_task(cpu);
        let prev = self.rqs[cpu].rt.curr;
        if prev == next {
            return;
        }
        self.update_rt_avg(cpu, prev != NO_TASK);
        if prev != NO_TASK {
            self.tasks[prev as usize].queued_since_ns = self.now;
            self.record.task_state(self.now, prev, cpu, TaskTraceState::Waiting);
        }
        self.rqs[cpu].rt.curr = next;
        self.record.run_delay(cpu, self.now - self.tasks[next as usize].queued_since_ns);
        self.record.task_state(self.now, next, cpu, TaskTraceState::Running);
    }

    /// check_preempt_curr() for a real-time task: it takes the CPU from a fair one and from one of less priority.
    pub(super) fn check_preempt_rt(&mut self, cpu: usize, task: TaskId) {
        let curr = self.rqs[cpu].curr;
        let priority = |task: TaskId| self.tasks[task as usize].rt_priority;
        if curr == NO_TASK || priority(task) > priority(curr) {
            self.resched_curr(cpu);
        }
    }

    /// wake_up_new_task() of a real-time task.
    pub(super) fn wake_up_new_rt(&mut self, this_cpu: usize, child: TaskId) {
        let task = &mut self.tasks[child as usize];
        let cpu = task.allowed.as_ref().and_then(|allowed| allowed.first()).unwrap_or(this_cpu);
        task.cpu = cpu as u16;
        task.last_run_cpu = cpu as u16;
        task.recent_used_cpu = cpu as u16;
        task.state = TaskState::Runnable;
        self.record.metrics.forks += 1;
        self.update_rq_clock(cpu);
        self.enqueue_rt(cpu, child);
        self.check_preempt_rt(cpu, child);
    }

    /// update_rt_rq_load_avg(): `running` says whether a real-time task ran until now.
    pub(super) fn update_rt_avg(&mut self, cpu: usize, running: bool) {
        let (table, rq) = (self.pelt_table, &mut self.rqs[cpu]);
        let now = rq.clock_pelt - rq.lost_idle_time;
        let weight = if running { NICE_0_LOAD } else { 0 };
        rq.rt.avg.update_cfs_rq(table, PeltForm::Modern, now, weight, u64::from(running), running);
    }
}
