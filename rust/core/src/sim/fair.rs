//! The fair class on one runqueue: clocks, accounting, enqueue and dequeue, pick, tick, preemption.
//!
//! kernel/sched/fair.c on root queues; what generations do differently goes through `self.kernel`.

use super::Sim;
use super::rq::{NO_TASK, TaskId, TaskState, UTIL_AVG_UNCHANGED};
use super::timeline::vruntime_before;
use crate::kernels::eevdf::{self, entity_lag};
use crate::kernels::queue::{ChargeVerdict, Placement, Placing, QueueEnv, QueueForm, TickVerdict};
use crate::load_weight::calc_delta_fair;
use crate::pelt::{self, PeltForm};
use crate::record::TaskTraceState;

/// The queue's decisions' view of the simulation: borrows fields, so that others stay free.
macro_rules! queue_env {
    ($sim:ident) => {
        QueueEnv {
            queue: &$sim.kernel.queue,
            tunables: $sim.tunables,
            features: $sim.features,
            tasks: &$sim.tasks,
        }
    };
}

/// Why an entity enters or leaves a queue (`ENQUEUE_*`, `DEQUEUE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// It wakes up here, or falls asleep.
    Sleep,
    /// It wakes up on another CPU than it fell asleep on.
    WakeElsewhere,
    /// It moves while runnable: its vruntime travels relative to the queue's.
    Move,
    /// It is new; its vruntime is relative to the queue's too.
    New,
    /// It exits: no queue keeps it.
    Exit,
}

impl Sim<'_> {
    /// update_rq_clock() and update_rq_clock_pelt(): brings the queue's clocks to now.
    pub(super) fn update_rq_clock(&mut self, cpu: usize) {
        let rq = &mut self.rqs[cpu];
        let delta = self.now - rq.clock;
        if delta == 0 {
            return;
        }
        rq.clock = self.now;
        rq.clock_pelt = if rq.curr == NO_TASK {
            rq.clock
        } else {
            // A slower CPU does less work in the same time: its time counts for less.
            rq.clock_pelt + ((delta * self.stats.capacity_orig[cpu]) >> 10)
        };
    }

    /// update_idle_rq_clock_pelt(): time that a slow but always busy CPU could not give is not made up by idling.
    pub(super) fn update_idle_rq_clock_pelt(&mut self, cpu: usize) {
        let max = self.pelt_table.load_avg_max;
        let rq = &mut self.rqs[cpu];
        if rq.cfs.avg.util_sum >= ((max - 1024) << 10) - max {
            rq.lost_idle_time += rq.clock - rq.clock_pelt;
        }
    }

    /// update_curr(): charges the running entity for the time since it was last charged.
    pub(super) fn update_curr(&mut self, cpu: usize) {
        let rq = &mut self.rqs[cpu];
        let curr = rq.cfs.curr;
        if curr == NO_TASK {
            return;
        }
        let se = &mut self.tasks[curr as usize].se;
        let delta_exec = rq.clock.saturating_sub(se.exec_start);
        if delta_exec == 0 {
            return;
        }
        se.exec_start = rq.clock;
        se.sum_exec_runtime += delta_exec;
        se.vruntime = se.vruntime.wrapping_add(calc_delta_fair(delta_exec, se.weight, se.inv_weight));
        match self.queue_form {
            QueueForm::Vruntime => self.update_min_vruntime(cpu),
            QueueForm::Deadline => self.update_deadline(cpu, curr),
        }
    }

    /// update_deadline() and what update_curr() does after it.
    fn update_deadline(&mut self, cpu: usize, curr: TaskId) {
        let ChargeVerdict { renewed, resched } = {
            let env = queue_env!(self);
            (self.kernel.queue.update_deadline.f)(&env, &self.rqs[cpu].cfs)
        };
        if let Some((deadline, slice_ns)) = renewed {
            let se = &mut self.tasks[curr as usize].se;
            se.deadline = deadline;
            se.slice_ns = slice_ns;
            se.slice_protected = false;
        }
        if resched {
            self.resched_curr(cpu);
            self.clear_buddies(cpu, curr);
        }
    }

    /// update_min_vruntime(): the queue's virtual clock follows its least entity, and never goes back.
    fn update_min_vruntime(&mut self, cpu: usize) {
        let cfs = &mut self.rqs[cpu].cfs;
        let curr = (cfs.curr != NO_TASK).then(|| &self.tasks[cfs.curr as usize].se).filter(|se| se.on_rq);
        let least = match (curr.map(|se| se.vruntime), cfs.timeline.first()) {
            (Some(curr), Some((first, _))) if vruntime_before(first, curr) => first,
            (Some(curr), _) => curr,
            (None, Some((first, _))) => first,
            (None, None) => cfs.min_vruntime,
        };
        if vruntime_before(cfs.min_vruntime, least) {
            cfs.min_vruntime = least;
        }
    }

    /// update_cfs_rq_load_avg(): takes off what left while asleep, then ages the queue's signals.
    pub(super) fn update_cfs_rq_load_avg(&mut self, cpu: usize) {
        let form = self.pelt_form;
        let rq = &mut self.rqs[cpu];
        let now = rq.clock_pelt - rq.lost_idle_time;
        let cfs = &mut rq.cfs;
        let mut changed = pelt::apply_removed(&mut cfs.avg, &mut cfs.removed, self.pelt_table, form);
        let runnable = match form {
            PeltForm::Modern => u64::from(cfs.nr_running),
            // Without groups the runnable weight of the queue is its weight.
            PeltForm::Old => cfs.load.weight,
        };
        changed |=
            cfs.avg.update_cfs_rq(self.pelt_table, form, now, cfs.load.weight, runnable, cfs.curr != NO_TASK);
        if changed {
            self.mirror_signals(cpu);
        }
    }

    /// Copies the queue's signals to the arrays that balance decisions read.
    fn mirror_signals(&mut self, cpu: usize) {
        let cfs = &self.rqs[cpu].cfs;
        self.stats.load[cpu] = (self.kernel.signals.cpu_load.f)(&cfs.avg);
        self.stats.load_avg[cpu] = cfs.avg.load_avg;
        self.stats.util[cpu] = self.cpu_util(cpu);
        if self.pelt_form == PeltForm::Modern {
            self.stats.runnable[cpu] = cfs.avg.runnable_avg;
        }
    }

    /// cpu_util(): the utilization of a CPU, or what its tasks are expected to need if that is more.
    fn cpu_util(&self, cpu: usize) -> u64 {
        let cfs = &self.rqs[cpu].cfs;
        let estimated = if self.features.util_est { u64::from(cfs.util_est_enqueued) } else { 0 };
        cfs.avg.util_avg.max(estimated).min(self.stats.capacity_orig[cpu])
    }

    /// update_load_avg(): ages an entity and its queue; attaches an entity that comes from elsewhere.
    fn update_load_avg(&mut self, cpu: usize, task: TaskId, attach: bool) {
        let form = self.pelt_form;
        let rq = &self.rqs[cpu];
        let now = rq.clock_pelt - rq.lost_idle_time;
        let running = rq.cfs.curr == task;
        let se = &mut self.tasks[task as usize].se;
        if se.avg.last_update_time != 0 {
            let on_rq = u64::from(se.on_rq);
            let runnable = match form {
                PeltForm::Modern => u64::from(se.on_rq && !se.sched_delayed),
                PeltForm::Old => se.weight,
            };
            if se.avg.update_se(self.pelt_table, form, now, se.weight, on_rq, runnable, running) {
                // cfs_se_util_change(): the stored estimate no longer equals the signal.
                se.util_est_enqueued &= !UTIL_AVG_UNCHANGED;
            }
        }
        self.update_cfs_rq_load_avg(cpu);
        if attach && self.tasks[task as usize].se.avg.last_update_time == 0 {
            self.attach_entity(cpu, task);
        }
    }

    /// attach_entity_load_avg() on this CPU's queue.
    fn attach_entity(&mut self, cpu: usize, task: TaskId) {
        let se = &mut self.tasks[task as usize].se;
        let cfs = &mut self.rqs[cpu].cfs;
        pelt::attach_entity_load_avg(&mut cfs.avg, &mut se.avg, se.weight, self.pelt_table, self.pelt_form);
        self.mirror_signals(cpu);
    }

    /// post_init_entity_util_avg() and attach_entity_cfs_rq() of a new task.
    pub(super) fn attach_new_task(&mut self, cpu: usize, task: TaskId) {
        let form = self.pelt_form;
        let se = &mut self.tasks[task as usize].se;
        let cfs = &self.rqs[cpu].cfs.avg;
        let cpu_scale = self.stats.capacity_orig[cpu];
        pelt::post_init_entity_util_avg(&mut se.avg, cfs, cpu_scale, se.weight, form);
        se.avg.runnable_avg = (self.kernel.signals.new_task_runnable.f)(&se.avg, cpu_scale);
        self.update_cfs_rq_load_avg(cpu);
        self.attach_entity(cpu, task);
    }

    /// enqueue_task_fair() and add_nr_running().
    pub(super) fn enqueue_task(&mut self, cpu: usize, task: TaskId, why: Why) {
        let id = task as usize;
        if !self.tasks[id].se.sched_delayed {
            self.util_est_enqueue(cpu, task);
        }
        self.update_curr(cpu);
        if self.queue_form == QueueForm::Vruntime && why != Why::Sleep {
            let min_vruntime = self.rqs[cpu].cfs.min_vruntime;
            let se = &mut self.tasks[id].se;
            se.vruntime = se.vruntime.wrapping_add(min_vruntime);
        }
        self.update_load_avg(cpu, task, true);
        if self.pelt_form == PeltForm::Old {
            let se = &self.tasks[id].se;
            pelt::enqueue_runnable_load_avg(&mut self.rqs[cpu].cfs.avg, &se.avg, se.weight);
            self.mirror_signals(cpu);
        }
        match (self.queue_form, why) {
            // A new task was placed at its fork.
            (QueueForm::Vruntime, Why::New | Why::Move) => {}
            (_, Why::New) => self.place(cpu, task, Placing::New),
            (_, Why::Move) => self.place(cpu, task, Placing::Move),
            (_, Why::Sleep | Why::WakeElsewhere | Why::Exit) => self.place(cpu, task, Placing::Wakeup),
        }
        self.list_push_head(cpu, task);
        let cfs = &mut self.rqs[cpu].cfs;
        cfs.load.add(self.tasks[id].se.weight);
        cfs.nr_running += 1;
        let task_ref = &mut self.tasks[id];
        task_ref.se.on_rq = true;
        task_ref.queued_since_ns = self.now;
        self.timeline_insert(cpu, task);
        if !self.tasks[task as usize].se.sched_delayed {
            self.record.task_state(self.now, task, cpu, TaskTraceState::Waiting);
        }
        self.nr_running_changed(cpu);
    }

    /// dequeue_task_fair() and sub_nr_running(); a task that falls asleep may stay queued instead.
    pub(super) fn dequeue_task(&mut self, cpu: usize, task: TaskId, why: Why) {
        self.update_curr(cpu);
        if why == Why::Sleep && self.delays_dequeue(cpu, task) {
            self.update_load_avg(cpu, task, false);
            self.util_est_dequeue(cpu, task, true);
            if self.rqs[cpu].cfs.next == task {
                self.rqs[cpu].cfs.next = NO_TASK;
            }
            self.tasks[task as usize].se.sched_delayed = true;
            return;
        }
        self.dequeue_entity(cpu, task, why);
    }

    /// The end of a delayed dequeue: the entity has paid what it owed, and leaves.
    fn finish_delayed_dequeue(&mut self, cpu: usize, task: TaskId) {
        self.dequeue_entity(cpu, task, Why::Sleep);
        let se = &mut self.tasks[task as usize].se;
        se.sched_delayed = false;
        if self.features.delay_zero {
            se.vlag = se.vlag.min(0);
        }
    }

    /// enqueue_task_fair() of a task whose dequeue is delayed: it wakes before it has left.
    pub(super) fn requeue_delayed(&mut self, cpu: usize, task: TaskId) {
        self.util_est_enqueue(cpu, task);
        self.stats.util[cpu] = self.cpu_util(cpu);
        if self.features.delay_zero {
            self.update_entity_lag(cpu, task);
            if self.tasks[task as usize].se.vlag > 0 {
                // It has waited for longer than it owed: placed anew, without the surplus.
                self.timeline_remove(cpu, task);
                self.rqs[cpu].cfs.nr_running -= 1;
                self.tasks[task as usize].se.vlag = 0;
                self.place(cpu, task, Placing::Wakeup);
                self.rqs[cpu].cfs.nr_running += 1;
                self.timeline_insert(cpu, task);
            }
        }
        self.update_load_avg(cpu, task, false);
        self.record.task_state(self.now, task, cpu, TaskTraceState::Waiting);
        let task = &mut self.tasks[task as usize];
        task.se.sched_delayed = false;
        task.queued_since_ns = self.now;
    }

    /// Whether a task that falls asleep stays queued.
    fn delays_dequeue(&self, cpu: usize, task: TaskId) -> bool {
        let env = queue_env!(self);
        self.queue_form == QueueForm::Deadline
            && (self.kernel.queue.delay_dequeue.f)(&env, &self.rqs[cpu].cfs, &self.tasks[task as usize].se)
    }

    /// dequeue_entity() and sub_nr_running().
    fn dequeue_entity(&mut self, cpu: usize, task: TaskId, why: Why) {
        let id = task as usize;
        self.update_load_avg(cpu, task, false);
        if self.pelt_form == PeltForm::Old {
            let se = &self.tasks[id].se;
            pelt::dequeue_runnable_load_avg(&mut self.rqs[cpu].cfs.avg, &se.avg, se.weight);
            self.mirror_signals(cpu);
        }
        self.clear_buddies(cpu, task);
        if self.queue_form == QueueForm::Deadline {
            self.update_entity_lag(cpu, task);
        }
        if self.rqs[cpu].cfs.curr == task {
            self.rqs[cpu].cfs.curr = NO_TASK;
        } else {
            self.timeline_remove(cpu, task);
        }
        let cfs = &mut self.rqs[cpu].cfs;
        let se = &mut self.tasks[id].se;
        se.on_rq = false;
        cfs.load.sub(se.weight);
        cfs.nr_running -= 1;
        match self.queue_form {
            QueueForm::Vruntime => {
                if why == Why::Move {
                    se.vruntime = se.vruntime.wrapping_sub(cfs.min_vruntime);
                }
                self.update_min_vruntime(cpu);
            }
            QueueForm::Deadline => {
                if why == Why::Move && self.features.place_rel_deadline {
                    se.deadline = se.deadline.wrapping_sub(se.vruntime);
                    se.rel_deadline = true;
                }
            }
        }
        self.list_remove(cpu, task);
        // The queue has not expected anything of a delayed entity since it fell asleep.
        if !self.tasks[id].se.sched_delayed {
            self.util_est_dequeue(cpu, task, matches!(why, Why::Sleep | Why::Exit));
        }
        self.nr_running_changed(cpu);
    }

    /// update_entity_lag(); the average that it needs becomes the reference of the queue's sums.
    fn update_entity_lag(&mut self, cpu: usize, task: TaskId) {
        let average = self.update_zero_vruntime(cpu);
        let se = &mut self.tasks[task as usize].se;
        se.vlag = entity_lag(average, se, self.tunables.tick_ns);
    }

    /// Moves the reference of the queue's sums to their average, and returns it.
    fn update_zero_vruntime(&mut self, cpu: usize) -> u64 {
        let cfs = &mut self.rqs[cpu].cfs;
        let average = eevdf::clock_of(cfs, &self.tasks).avg_vruntime();
        cfs.clock.set_zero_vruntime(average);
        average
    }

    /// __enqueue_entity(): the entity waits in the queue's order.
    fn timeline_insert(&mut self, cpu: usize, task: TaskId) {
        let cfs = &mut self.rqs[cpu].cfs;
        let se = &self.tasks[task as usize].se;
        match self.queue_form {
            QueueForm::Vruntime => cfs.timeline.insert(se.vruntime, task),
            QueueForm::Deadline => {
                cfs.clock.add(se.vruntime, se.weight);
                cfs.timeline.insert(se.deadline, task);
            }
        }
    }

    /// __dequeue_entity(): it no longer waits.
    fn timeline_remove(&mut self, cpu: usize, task: TaskId) {
        let cfs = &mut self.rqs[cpu].cfs;
        let se = &self.tasks[task as usize].se;
        match self.queue_form {
            QueueForm::Vruntime => cfs.timeline.remove(se.vruntime, task),
            QueueForm::Deadline => {
                cfs.clock.sub(se.vruntime, se.weight);
                cfs.timeline.remove(se.deadline, task);
            }
        }
    }

    /// detach_entity_cfs_rq() of a task that migrates while runnable.
    pub(super) fn detach_entity(&mut self, cpu: usize, task: TaskId) {
        let se = &mut self.tasks[task as usize].se;
        let cfs = &mut self.rqs[cpu].cfs;
        pelt::detach_entity_load_avg(&mut cfs.avg, &se.avg, se.weight, self.pelt_form);
        se.avg.last_update_time = 0;
        self.mirror_signals(cpu);
    }

    /// migrate_task_rq_fair() of a sleeping task: its share of the old queue goes at that queue's next update.
    pub(super) fn remove_entity(&mut self, cpu: usize, task: TaskId) {
        let form = self.pelt_form;
        let se = &mut self.tasks[task as usize].se;
        let cfs = &mut self.rqs[cpu].cfs;
        let last_update_time = cfs.avg.last_update_time;
        let table = self.pelt_table;
        pelt::remove_entity_load_avg(&mut cfs.removed, &mut se.avg, last_update_time, se.weight, table, form);
        se.avg.last_update_time = 0;
    }

    /// sync_entity_load_avg(): ages a sleeping task to its queue's last update.
    pub(super) fn sync_entity(&mut self, task: TaskId) {
        let task = &mut self.tasks[task as usize];
        let last_update_time = self.rqs[usize::from(task.cpu)].cfs.avg.last_update_time;
        let form = self.pelt_form;
        pelt::sync_entity_load_avg(&mut task.se.avg, last_update_time, task.se.weight, self.pelt_table, form);
    }

    /// pick_next_task_fair(): the next one runs; `prev` gives way unless it is the same. `None` if there is none.
    pub(super) fn pick_next_task(&mut self, cpu: usize, prev: TaskId) -> Option<TaskId> {
        let next = loop {
            if self.rqs[cpu].cfs.nr_running == 0 {
                return None;
            }
            self.update_curr(cpu);
            let next = {
                let env = queue_env!(self);
                let cfs = &self.rqs[cpu].cfs;
                (self.kernel.queue.pick_next_entity.f)(&env, cfs, cfs.curr)
            };
            if !self.tasks[next as usize].se.sched_delayed {
                break next;
            }
            self.finish_delayed_dequeue(cpu, next);
        };
        self.clear_buddies(cpu, next);
        if next != prev {
            self.put_prev_task(cpu);
            self.set_next_task(cpu, next);
        }
        // The latest to run stands at the head of the list: balancing, which comes from the tail, sees it last.
        self.list_remove(cpu, next);
        self.list_push_head(cpu, next);
        Some(next)
    }

    /// put_prev_entity(): the running task goes back among the waiting.
    pub(super) fn put_prev_task(&mut self, cpu: usize) {
        let prev = self.rqs[cpu].cfs.curr;
        if prev == NO_TASK {
            return;
        }
        self.update_curr(cpu);
        self.timeline_insert(cpu, prev);
        self.update_load_avg(cpu, prev, false);
        self.rqs[cpu].cfs.curr = NO_TASK;
        self.tasks[prev as usize].queued_since_ns = self.now;
        if self.tasks[prev as usize].state == TaskState::Runnable {
            self.record.task_state(self.now, prev, cpu, TaskTraceState::Waiting);
        }
    }

    /// set_next_entity(): the task leaves the waiting and runs.
    fn set_next_task(&mut self, cpu: usize, next: TaskId) {
        self.timeline_remove(cpu, next);
        self.update_load_avg(cpu, next, false);
        let rq = &mut self.rqs[cpu];
        rq.cfs.curr = next;
        let task = &mut self.tasks[next as usize];
        task.se.exec_start = rq.clock;
        task.se.slice_protected = true;
        task.se.prev_sum_exec_runtime = task.se.sum_exec_runtime;
        self.record.run_delay(cpu, self.now - task.queued_since_ns);
        self.record.task_state(self.now, next, cpu, TaskTraceState::Running);
    }

    /// task_tick_fair(): accounts the running task and takes the CPU from it when its slice is over.
    pub(super) fn task_tick(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].cfs.curr;
        let need_resched = self.rqs[cpu].need_resched;
        self.update_curr(cpu);
        if self.rqs[cpu].need_resched && !need_resched {
            self.record.metrics.preemptions_tick += 1;
        }
        if self.queue_form == QueueForm::Deadline {
            self.update_zero_vruntime(cpu);
        }
        self.update_load_avg(cpu, curr, false);
        if self.rqs[cpu].cfs.nr_running < 2 {
            return;
        }
        let verdict = {
            let env = queue_env!(self);
            (self.kernel.queue.check_preempt_tick.f)(&env, &self.rqs[cpu].cfs)
        };
        let slice_over = verdict != TickVerdict::RunOn || (self.rqs[cpu].need_resched && !need_resched);
        self.log_tick(cpu, curr, slice_over);
        if verdict == TickVerdict::RunOn {
            return;
        }
        self.record.metrics.preemptions_tick += 1;
        self.resched_curr(cpu);
        if verdict == TickVerdict::SliceOver {
            self.clear_buddies(cpu, curr);
        }
    }

    /// check_preempt_curr(): whether a task that just became runnable takes the CPU from the running one.
    pub(super) fn check_preempt_curr(&mut self, cpu: usize, task: TaskId, forked: bool) {
        let curr = self.rqs[cpu].curr;
        if curr == NO_TASK {
            self.resched_curr(cpu);
            return;
        }
        if self.rqs[cpu].cfs.curr == NO_TASK || curr == task {
            return;
        }
        // check_preempt_wakeup(), check_preempt_wakeup_fair().
        let by_vruntime = self.queue_form == QueueForm::Vruntime;
        let scale = u64::from(self.rqs[cpu].cfs.nr_running) >= self.tunables.sched_nr_latency;
        let delayed = self.tasks[task as usize].se.sched_delayed;
        let next_marked = self.features.next_buddy && !forked && if by_vruntime { scale } else { !delayed };
        if next_marked {
            self.rqs[cpu].cfs.next = task;
        }
        if self.rqs[cpu].need_resched || !self.features.wakeup_preemption {
            return;
        }
        self.update_curr(cpu);
        let verdict = {
            let env = queue_env!(self);
            (self.kernel.queue.check_preempt_wakeup.f)(&env, &self.rqs[cpu].cfs, curr, task)
        };
        self.log_preemption(cpu, curr, task, verdict.preempt);
        if verdict.cancel_protection {
            self.tasks[curr as usize].se.slice_protected = false;
        }
        if !verdict.preempt {
            return;
        }
        if by_vruntime && !next_marked {
            self.rqs[cpu].cfs.next = task;
        }
        self.record.metrics.preemptions_wakeup += 1;
        self.resched_curr(cpu);
        if by_vruntime && self.features.last_buddy && scale {
            self.rqs[cpu].cfs.last = curr;
        }
    }

    /// clear_buddies(): the task is no longer preferred.
    fn clear_buddies(&mut self, cpu: usize, task: TaskId) {
        let cfs = &mut self.rqs[cpu].cfs;
        if cfs.last == task {
            cfs.last = NO_TASK;
        }
        if cfs.next == task {
            cfs.next = NO_TASK;
        }
    }

    /// task_util_est(): what the task needs now, or needed in its last activations if that is more.
    pub(super) fn task_util_est(&self, task: TaskId) -> u64 {
        task_util_est(&self.tasks[task as usize].se, self.features.util_est)
    }

    /// place_entity() of a task on a CPU's queue.
    pub(super) fn place_entity(&self, cpu: usize, task: TaskId, placing: Placing) -> Placement {
        let env = queue_env!(self);
        (self.kernel.queue.place_entity.f)(&env, &self.rqs[cpu].cfs, &self.tasks[task as usize].se, placing)
    }

    /// Places a task as [`Self::place_entity`] says.
    fn place(&mut self, cpu: usize, task: TaskId, placing: Placing) {
        let Placement { vruntime, deadline, slice_ns } = self.place_entity(cpu, task, placing);
        let se = &mut self.tasks[task as usize].se;
        se.vruntime = vruntime;
        se.deadline = deadline;
        se.slice_ns = slice_ns;
        se.rel_deadline = false;
    }

    /// util_est_enqueue(): the queue expects what its new task needed before.
    fn util_est_enqueue(&mut self, cpu: usize, task: TaskId) {
        if self.features.util_est {
            self.rqs[cpu].cfs.util_est_enqueued += estimate(&self.tasks[task as usize].se);
        }
    }

    /// util_est_dequeue(): the queue expects less, and a task that falls asleep is estimated anew.
    fn util_est_dequeue(&mut self, cpu: usize, task: TaskId, sleeps: bool) {
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

    /// The queue's number of tasks changed: mirrors, the overload flag, the idle state.
    fn nr_running_changed(&mut self, cpu: usize) {
        let nr_running = self.rqs[cpu].cfs.nr_running;
        let before = self.stats.nr_running[cpu];
        self.stats.nr_running[cpu] = nr_running;
        self.stats.h_nr_running[cpu] = nr_running;
        self.stats.util[cpu] = self.cpu_util(cpu);
        if before < 2 && nr_running >= 2 {
            self.overload = true;
        }
        self.record.nr_running_changed(self.now, before, nr_running);
        self.update_idle(cpu);
    }

    /// idle_cpu(): nothing runs, nothing waits, nothing is on its way.
    pub(super) fn update_idle(&mut self, cpu: usize) {
        let rq = &self.rqs[cpu];
        self.stats.idle[cpu] = rq.curr == NO_TASK && rq.cfs.nr_running == 0 && rq.wake_list.is_empty();
        self.stats.ttwu_pending[cpu] = !rq.wake_list.is_empty();
    }

    /// list_add() of a task to its queue's `cfs_tasks`.
    pub(super) fn list_push_head(&mut self, cpu: usize, task: TaskId) {
        let rq = &mut self.rqs[cpu];
        list_push_head(&mut self.tasks, &mut rq.list_head, &mut rq.list_tail, task);
    }

    /// list_del() of a task from its queue's `cfs_tasks`.
    pub(super) fn list_remove(&mut self, cpu: usize, task: TaskId) {
        let rq = &mut self.rqs[cpu];
        list_remove(&mut self.tasks, &mut rq.list_head, &mut rq.list_tail, task);
    }
}

/// Puts a task at the head of a list whose links live in the tasks.
pub(super) fn list_push_head(
    tasks: &mut [super::rq::Task],
    head: &mut TaskId,
    tail: &mut TaskId,
    task: TaskId,
) {
    tasks[task as usize].list_prev = NO_TASK;
    tasks[task as usize].list_next = *head;
    if *head == NO_TASK {
        *tail = task;
    } else {
        tasks[*head as usize].list_prev = task;
    }
    *head = task;
}

/// Takes a task out of such a list.
pub(super) fn list_remove(tasks: &mut [super::rq::Task], head: &mut TaskId, tail: &mut TaskId, task: TaskId) {
    let (prev, next) = (tasks[task as usize].list_prev, tasks[task as usize].list_next);
    match prev {
        NO_TASK => *head = next,
        prev => tasks[prev as usize].list_next = next,
    }
    match next {
        NO_TASK => *tail = prev,
        next => tasks[next as usize].list_prev = prev,
    }
}

/// task_util_est(), with or without the estimate (UTIL_EST).
pub(super) fn task_util_est(se: &super::rq::SchedEntity, util_est: bool) -> u64 {
    if util_est { se.avg.util_avg.max(u64::from(estimate(se))) } else { se.avg.util_avg }
}

/// _task_util_est(): the larger of the last activation and the average over activations.
pub(super) fn estimate(se: &super::rq::SchedEntity) -> u32 {
    se.util_est_ewma.max(se.util_est_enqueued) | UTIL_AVG_UNCHANGED
}
