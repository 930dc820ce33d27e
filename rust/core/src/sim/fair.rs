//! The fair class on one runqueue: clocks, accounting, enqueue and dequeue, pick, tick, preemption.
//!
//! kernel/sched/fair.c; what generations do differently goes through `self.kernel`. Each step names a queue: a CPU's own, or
//! that of a group on it (`super::groups`).

use super::Sim;
use super::groups::{Entities, QueueId, ROOT_GROUP};
use super::rq::{CfsRq, EntityId, NO_TASK, SchedEntity, TaskId, TaskState, UTIL_AVG_UNCHANGED};
use super::timeline::vruntime_before;
use crate::kernels::eevdf::{self, entity_lag};
use crate::kernels::queue::{ChargeVerdict, Placement, Placing, QueueEnv, QueueForm, TickVerdict};
use crate::load_weight::calc_delta_fair;
use crate::pelt::{self, PeltForm};
use crate::record::TaskTraceState;

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
        if rq.cfs.avg.util_sum + rq.rt.avg.util_sum >= ((max - 1024) << 10) - max {
            rq.lost_idle_time += rq.clock - rq.clock_pelt;
        }
    }

    /// An entity by its number.
    #[inline]
    pub(super) fn se(&self, entity: EntityId) -> &SchedEntity {
        self.entities().se(entity)
    }

    /// An entity by its number, to change.
    #[inline]
    pub(super) fn se_mut(&mut self, entity: EntityId) -> &mut SchedEntity {
        se_mut!(self, entity)
    }

    /// A queue by its number, to change.
    #[inline]
    pub(super) fn cfs_mut(&mut self, queue: QueueId) -> &mut CfsRq {
        cfs_mut!(self, queue)
    }

    /// Charges what runs on a CPU, on every level.
    #[cfg(test)]
    pub(super) fn update_curr(&mut self, cpu: usize) {
        let mut level = self.running_entity(cpu).map(|(queue, _)| queue);
        while let Some(queue) = level {
            self.update_curr_of(queue);
            level = self.groups.parent(queue).map(|(above, _)| above);
        }
    }

    /// update_curr(): charges a queue's running entity for the time since it was last charged.
    pub(super) fn update_curr_of(&mut self, queue: QueueId) {
        let clock = self.rqs[usize::from(queue.cpu)].clock;
        let curr = self.entities().cfs(queue).curr;
        if curr == NO_TASK {
            return;
        }
        let se = se_mut!(self, curr);
        let delta_exec = clock.saturating_sub(se.exec_start);
        if delta_exec == 0 {
            return;
        }
        se.exec_start = clock;
        se.sum_exec_runtime += delta_exec;
        se.vruntime = se.vruntime.wrapping_add(calc_delta_fair(delta_exec, se.weight, se.inv_weight));
        match self.queue_form {
            QueueForm::Vruntime | QueueForm::Priority => self.update_min_vruntime(queue),
            QueueForm::Deadline => self.update_deadline(queue, curr),
        }
        self.account_cfs_rq_runtime(queue, delta_exec);
    }

    /// update_deadline() and what update_curr() does after it.
    fn update_deadline(&mut self, queue: QueueId, curr: EntityId) {
        let ChargeVerdict { renewed, resched } = {
            let env = queue_env!(self);
            (self.kernel.queue.update_deadline.f)(&env, env.entities.cfs(queue))
        };
        if let Some((deadline, slice_ns)) = renewed {
            let se = se_mut!(self, curr);
            se.deadline = deadline;
            se.slice_ns = slice_ns;
            se.slice_protected = false;
        }
        if resched {
            self.resched_curr(usize::from(queue.cpu));
            self.clear_buddies(queue, curr);
        }
    }

    /// update_min_vruntime(): the queue's virtual clock follows its least entity, and never goes back.
    fn update_min_vruntime(&mut self, queue: QueueId) {
        let cfs = self.entities().cfs(queue);
        let curr = (cfs.curr != NO_TASK).then(|| self.se(cfs.curr)).filter(|se| se.on_rq);
        let least = match (curr.map(|se| se.vruntime), cfs.timeline.first()) {
            (Some(curr), Some((first, _))) if vruntime_before(first, curr) => first,
            (Some(curr), _) => curr,
            (None, Some((first, _))) => first,
            (None, None) => cfs.min_vruntime,
        };
        let cfs = self.cfs_mut(queue);
        if vruntime_before(cfs.min_vruntime, least) {
            cfs.min_vruntime = least;
        }
    }

    /// update_cfs_rq_load_avg(): takes off what left while asleep, then ages the queue's signals. True if they changed.
    pub(super) fn update_cfs_rq_load_avg(&mut self, queue: QueueId) -> bool {
        let form = self.pelt_form;
        let now = self.cfs_rq_clock_pelt(queue);
        if queue.group != ROOT_GROUP {
            self.propagate_removed(queue);
        }
        let cfs = cfs_mut!(self, queue);
        let mut changed = pelt::apply_removed(&mut cfs.avg, &mut cfs.removed, self.pelt_table, form);
        let runnable = match form {
            PeltForm::Modern => u64::from(cfs.h_nr_running),
            PeltForm::Old => cfs.runnable_weight,
        };
        changed |=
            cfs.avg.update_cfs_rq(self.pelt_table, form, now, cfs.load.weight, runnable, cfs.curr != NO_TASK);
        if changed {
            self.mirror_signals(queue);
        }
        changed
    }

    /// The group's entity will hear of what left while asleep.
    fn propagate_removed(&mut self, queue: QueueId) {
        let index = self.groups.index(queue);
        let below = &mut self.groups.queues[index];
        if below.cfs.removed.nr == 0 {
            return;
        }
        let sum = match self.pelt_form {
            PeltForm::Old => std::mem::take(&mut below.removed_runnable_sum),
            PeltForm::Modern => {
                let divider = u64::from(self.pelt_table.divider(below.cfs.avg.period_contrib));
                below.cfs.removed.runnable_avg.wrapping_mul(divider) >> 10
            }
        };
        self.add_tg_cfs_propagate(queue, (sum as i64).wrapping_neg());
    }

    /// Copies a CPU's signals to the arrays that balance decisions read.
    pub(super) fn mirror_signals(&mut self, queue: QueueId) {
        if queue.group != ROOT_GROUP {
            return;
        }
        let cpu = usize::from(queue.cpu);
        let cfs = &self.rqs[cpu].cfs;
        self.stats.load[cpu] = (self.kernel.signals.cpu_load.f)(&cfs.avg);
        self.stats.load_avg[cpu] = cfs.avg.load_avg;
        self.stats.util[cpu] = self.cpu_util(cpu);
        if self.pelt_form == PeltForm::Modern {
            self.stats.runnable[cpu] = cfs.avg.runnable_avg;
        }
    }

    /// update_load_avg(): ages an entity and its queue; attaches an entity that comes from elsewhere.
    pub(super) fn update_load_avg(&mut self, queue: QueueId, entity: EntityId, attach: bool) {
        let form = self.pelt_form;
        let now = self.cfs_rq_clock_pelt(queue);
        let running = self.entities().cfs(queue).curr == entity;
        let is_group = entity >= self.groups.nr_tasks;
        let se = se_mut!(self, entity);
        if se.avg.last_update_time != 0 {
            let on_rq = u64::from(se.on_rq);
            let runnable = match form {
                PeltForm::Modern if se.sched_delayed => 0,
                PeltForm::Modern if is_group => se.runnable_weight,
                PeltForm::Modern => on_rq,
                PeltForm::Old => se.runnable_weight,
            };
            if se.avg.update_se(self.pelt_table, form, now, se.weight, on_rq, runnable, running) {
                // cfs_se_util_change(): the stored estimate no longer equals the signal.
                se.util_est_enqueued &= !UTIL_AVG_UNCHANGED;
            }
        }
        let mut changed = self.update_cfs_rq_load_avg(queue);
        if is_group {
            changed |= self.propagate_entity_load_avg(queue, entity);
        }
        if attach && self.se(entity).avg.last_update_time == 0 {
            self.attach_entity(queue, entity);
            self.update_tg_load_avg(queue);
        } else if changed {
            self.update_tg_load_avg(queue);
        }
    }

    /// attach_entity_load_avg() on a queue.
    fn attach_entity(&mut self, queue: QueueId, entity: EntityId) {
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
        pelt::attach_entity_load_avg(&mut cfs.avg, &mut se.avg, se.weight, self.pelt_table, self.pelt_form);
        let runnable_sum = se.avg.load_sum as i64;
        self.add_tg_cfs_propagate(queue, runnable_sum);
        self.mirror_signals(queue);
    }

    /// post_init_entity_util_avg() and attach_entity_cfs_rq() of a new task.
    pub(super) fn attach_new_task(&mut self, cpu: usize, task: TaskId) {
        let form = self.pelt_form;
        let queue = self.task_cfs_rq(cpu, task);
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, task));
        let cpu_scale = self.stats.capacity_orig[cpu];
        pelt::post_init_entity_util_avg(&mut se.avg, &cfs.avg, cpu_scale, se.weight, form);
        se.avg.runnable_avg = (self.kernel.signals.new_task_runnable.f)(&se.avg, cpu_scale);
        self.update_cfs_rq_load_avg(queue);
        self.attach_entity(queue, task);
        self.update_tg_load_avg(queue);
        self.propagate_entity_cfs_rq(queue);
    }

    /// enqueue_task_fair() and add_nr_running().
    pub(super) fn enqueue_task(&mut self, cpu: usize, task: TaskId, why: Why) {
        if !self.tasks[task as usize].se.sched_delayed {
            self.util_est_enqueue(cpu, task);
        }
        let mut queue = self.task_cfs_rq(cpu, task);
        let mut idle = i32::from(self.se(task).idle);
        self.enqueue_entity(queue, task, why);
        self.count_tasks(queue, 1, idle);
        while let Some((above, entity)) = self.groups.parent(queue) {
            if self.groups.throttled(queue) {
                break;
            }
            if self.se(entity).on_rq {
                if self.se(entity).sched_delayed {
                    self.requeue_delayed_entity(above, entity);
                }
                self.update_ancestors(queue, 1, idle);
                break;
            }
            self.take_min_slice(queue, entity);
            self.enqueue_entity(above, entity, Why::Sleep);
            idle = self.idle_above(queue, 1, idle);
            self.count_tasks(above, 1, idle);
            queue = above;
        }
        self.list_push_head(cpu, task);
        self.account_numa(cpu, task, 1);
        self.tasks[task as usize].queued_since_ns = self.now;
        if !self.tasks[task as usize].se.sched_delayed {
            self.record.task_state(self.now, task, cpu, TaskTraceState::Waiting);
        }
        self.nr_running_changed(cpu);
    }

    /// enqueue_entity().
    pub(super) fn enqueue_entity(&mut self, queue: QueueId, entity: EntityId, why: Why) {
        self.update_curr_of(queue);
        if self.queue_form == QueueForm::Vruntime && why != Why::Sleep {
            let min_vruntime = self.entities().cfs(queue).min_vruntime;
            let se = self.se_mut(entity);
            se.vruntime = se.vruntime.wrapping_add(min_vruntime);
        }
        self.update_load_avg(queue, entity, true);
        self.update_cfs_group(entity);
        if self.pelt_form == PeltForm::Old {
            let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
            pelt::enqueue_runnable_load_avg(&mut cfs.avg, &se.avg, se.runnable_weight);
            cfs.runnable_weight += se.runnable_weight;
            self.mirror_signals(queue);
        }
        match (self.queue_form, why) {
            // A new task was placed at its fork.
            (QueueForm::Vruntime, Why::New | Why::Move) => {}
            (_, Why::New) => self.place(queue, entity, Placing::New),
            (_, Why::Move) => self.place(queue, entity, Placing::Move),
            (_, Why::Sleep | Why::WakeElsewhere | Why::Exit) => self.place(queue, entity, Placing::Wakeup),
        }
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
        cfs.load.add(se.weight);
        cfs.nr_running += 1;
        se.on_rq = true;
        self.timeline_insert(queue, entity);
        self.check_enqueue_throttle(queue);
    }

    /// The levels above a queue whose entities stay where they are hear of `tasks` more or fewer below them, up to one that is
    /// throttled; `idle` of them count as idle in the queue.
    fn update_ancestors(&mut self, mut queue: QueueId, tasks: i32, mut idle: i32) {
        while let Some((above, entity)) = self.groups.parent(queue) {
            self.update_load_avg(above, entity, false);
            self.update_cfs_group(entity);
            self.take_min_slice(queue, entity);
            idle = self.idle_above(queue, tasks, idle);
            self.count_tasks(above, tasks, idle);
            queue = above;
            if self.groups.throttled(queue) {
                return;
            }
        }
    }

    /// cfs_rq_min_slice(): a group's entity asks for the shortest slice of those in its queue.
    fn take_min_slice(&mut self, below: QueueId, entity: EntityId) {
        if self.queue_form == QueueForm::Vruntime {
            return;
        }
        let cfs = self.entities().cfs(below);
        let queued = cfs.timeline.iter().map(|(_, id)| id).chain((cfs.curr != NO_TASK).then_some(cfs.curr));
        if let Some(slice_ns) = queued.map(|id| self.se(id).slice_ns).min() {
            let se = self.se_mut(entity);
            se.slice_ns = slice_ns;
            se.custom_slice = true;
        }
    }

    /// dequeue_task_fair() and sub_nr_running(); a task that falls asleep may stay queued instead.
    pub(super) fn dequeue_task(&mut self, cpu: usize, task: TaskId, why: Why) {
        let queue = self.task_cfs_rq(cpu, task);
        self.update_curr_of(queue);
        if why == Why::Sleep && self.delays_dequeue(queue, task) {
            self.update_load_avg(queue, task, false);
            self.util_est_dequeue(cpu, task, true);
            self.clear_buddies(queue, task);
            self.tasks[task as usize].se.sched_delayed = true;
            return;
        }
        let was_sched_idle = self.stats.sched_idle[cpu];
        self.dequeue_entities(queue, task, why);
        self.list_remove(cpu, task);
        self.account_numa(cpu, task, -1);
        // The queue has not expected anything of a delayed entity since it fell asleep.
        if !self.tasks[task as usize].se.sched_delayed {
            self.util_est_dequeue(cpu, task, matches!(why, Why::Sleep | Why::Exit));
        }
        self.nr_running_changed(cpu);
        self.balance_early(cpu, was_sched_idle);
    }

    /// The end of a delayed dequeue: the entity has paid what it owed, and leaves.
    pub(super) fn finish_delayed_dequeue(&mut self, queue: QueueId, entity: EntityId) {
        let cpu = usize::from(queue.cpu);
        let was_sched_idle = self.stats.sched_idle[cpu];
        self.dequeue_entities(queue, entity, Why::Sleep);
        if entity < self.groups.nr_tasks {
            self.list_remove(cpu, entity);
            self.account_numa(cpu, entity, -1);
        }
        self.clear_delayed(entity);
        self.nr_running_changed(cpu);
        self.balance_early(cpu, was_sched_idle);
    }

    /// finish_delayed_dequeue_entity().
    pub(super) fn clear_delayed(&mut self, entity: EntityId) {
        let delay_zero = self.features.delay_zero;
        let se = self.se_mut(entity);
        se.sched_delayed = false;
        if delay_zero {
            se.vlag = se.vlag.min(0);
        }
    }

    /// dequeue_entities(), the loops of dequeue_task_fair(): the entity leaves, and every group that it leaves empty.
    fn dequeue_entities(&mut self, mut queue: QueueId, entity: EntityId, why: Why) {
        let tasks = i32::from(entity < self.groups.nr_tasks);
        let mut idle = i32::from(self.se(entity).idle) * tasks;
        self.dequeue_entity(queue, entity, why);
        loop {
            self.count_tasks(queue, -tasks, -idle);
            let Some((above, parent)) = self.groups.parent(queue) else { return };
            if self.groups.throttled(queue) {
                return;
            }
            if self.entities().cfs(queue).load.weight != 0 {
                if matches!(why, Why::Sleep | Why::Exit) && !self.groups.throttled_hierarchy(queue) {
                    // Who runs next had better be of the same group.
                    self.set_next_buddy(above, parent);
                }
                self.update_ancestors(queue, -tasks, -idle);
                return;
            }
            self.update_curr_of(above);
            if self.delays_dequeue(above, parent) {
                self.update_load_avg(above, parent, false);
                self.clear_buddies(above, parent);
                self.se_mut(parent).sched_delayed = true;
                self.update_ancestors(queue, -tasks, -idle);
                return;
            }
            self.dequeue_entity(above, parent, Why::Sleep);
            idle = self.idle_above(queue, tasks, idle);
            queue = above;
        }
    }

    /// enqueue_task_fair() of a task whose dequeue is delayed: it wakes before it has left.
    pub(super) fn requeue_delayed(&mut self, cpu: usize, task: TaskId) {
        self.util_est_enqueue(cpu, task);
        self.stats.util[cpu] = self.cpu_util(cpu);
        self.requeue_delayed_entity(self.task_cfs_rq(cpu, task), task);
        self.record.task_state(self.now, task, cpu, TaskTraceState::Waiting);
        self.tasks[task as usize].queued_since_ns = self.now;
    }

    /// requeue_delayed_entity().
    fn requeue_delayed_entity(&mut self, queue: QueueId, entity: EntityId) {
        if self.features.delay_zero {
            self.update_entity_lag(queue, entity);
            if self.se(entity).vlag > 0 {
                // It has waited for longer than it owed: placed anew, without the surplus.
                self.timeline_remove(queue, entity);
                self.cfs_mut(queue).nr_running -= 1;
                self.se_mut(entity).vlag = 0;
                self.place(queue, entity, Placing::Wakeup);
                self.cfs_mut(queue).nr_running += 1;
                self.timeline_insert(queue, entity);
            }
        }
        self.update_load_avg(queue, entity, false);
        self.se_mut(entity).sched_delayed = false;
    }

    /// Whether an entity that falls asleep stays queued.
    fn delays_dequeue(&self, queue: QueueId, entity: EntityId) -> bool {
        let env = queue_env!(self);
        self.queue_form == QueueForm::Deadline
            && (self.kernel.queue.delay_dequeue.f)(&env, env.entities.cfs(queue), env.entities.se(entity))
    }

    /// dequeue_entity().
    pub(super) fn dequeue_entity(&mut self, queue: QueueId, entity: EntityId, why: Why) {
        self.update_curr_of(queue);
        self.update_load_avg(queue, entity, false);
        if self.pelt_form == PeltForm::Old {
            let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
            pelt::dequeue_runnable_load_avg(&mut cfs.avg, &se.avg, se.runnable_weight);
            cfs.runnable_weight -= se.runnable_weight;
            self.mirror_signals(queue);
        }
        self.clear_buddies(queue, entity);
        if self.queue_form == QueueForm::Deadline {
            self.update_entity_lag(queue, entity);
        }
        if self.entities().cfs(queue).curr == entity {
            self.cfs_mut(queue).curr = NO_TASK;
        } else {
            self.timeline_remove(queue, entity);
        }
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
        se.on_rq = false;
        cfs.load.sub(se.weight);
        cfs.nr_running -= 1;
        if self.queue_form == QueueForm::Vruntime && why == Why::Move {
            se.vruntime = se.vruntime.wrapping_sub(cfs.min_vruntime);
        }
        self.return_cfs_rq_runtime(queue);
        self.update_cfs_group(entity);
        match self.queue_form {
            QueueForm::Vruntime | QueueForm::Priority => self.update_min_vruntime(queue),
            QueueForm::Deadline => {
                if why == Why::Move && self.features.place_rel_deadline {
                    let se = self.se_mut(entity);
                    se.deadline = se.deadline.wrapping_sub(se.vruntime);
                    se.rel_deadline = true;
                }
            }
        }
    }

    /// update_entity_lag(); the average that it needs becomes the reference of the queue's sums.
    fn update_entity_lag(&mut self, queue: QueueId, entity: EntityId) {
        let average = self.update_zero_vruntime(queue);
        let tick_ns = self.tunables.tick_ns;
        let se = self.se_mut(entity);
        se.vlag = entity_lag(average, se, tick_ns);
    }

    /// Moves the reference of the queue's sums to their average, and returns it.
    fn update_zero_vruntime(&mut self, queue: QueueId) -> u64 {
        let average = self.average_vruntime(queue);
        self.cfs_mut(queue).clock.set_zero_vruntime(average);
        average
    }

    /// avg_vruntime() of a queue by deadline.
    pub(super) fn average_vruntime(&self, queue: QueueId) -> u64 {
        let entities = self.entities();
        eevdf::clock_of(entities.cfs(queue), entities).avg_vruntime()
    }

    /// __enqueue_entity(): the entity waits in the queue's order.
    pub(super) fn timeline_insert(&mut self, queue: QueueId, entity: EntityId) {
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
        match self.queue_form {
            QueueForm::Vruntime | QueueForm::Priority => cfs.timeline.insert(se.vruntime, entity),
            QueueForm::Deadline => {
                cfs.clock.add(se.vruntime, se.weight);
                cfs.timeline.insert(se.deadline, entity);
            }
        }
    }

    /// __dequeue_entity(): it no longer waits.
    pub(super) fn timeline_remove(&mut self, queue: QueueId, entity: EntityId) {
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
        match self.queue_form {
            QueueForm::Vruntime | QueueForm::Priority => cfs.timeline.remove(se.vruntime, entity),
            QueueForm::Deadline => {
                cfs.clock.sub(se.vruntime, se.weight);
                cfs.timeline.remove(se.deadline, entity);
            }
        }
    }

    /// detach_entity_cfs_rq() of a task that migrates while runnable.
    pub(super) fn detach_entity(&mut self, cpu: usize, task: TaskId) {
        let queue = self.task_cfs_rq(cpu, task);
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, task));
        pelt::detach_entity_load_avg(&mut cfs.avg, &se.avg, se.weight, self.pelt_form);
        se.avg.last_update_time = 0;
        let runnable_sum = (se.avg.load_sum as i64).wrapping_neg();
        self.add_tg_cfs_propagate(queue, runnable_sum);
        self.update_tg_load_avg(queue);
        self.propagate_entity_cfs_rq(queue);
        self.mirror_signals(queue);
    }

    /// migrate_task_rq_fair() of a sleeping task: its share of the old queue goes at that queue's next update.
    pub(super) fn remove_entity(&mut self, cpu: usize, task: TaskId) {
        let form = self.pelt_form;
        let queue = self.task_cfs_rq(cpu, task);
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, task));
        let last_update_time = cfs.avg.last_update_time;
        let table = self.pelt_table;
        pelt::remove_entity_load_avg(&mut cfs.removed, &mut se.avg, last_update_time, se.weight, table, form);
        se.avg.last_update_time = 0;
        if queue.group != ROOT_GROUP {
            let load_sum = se.avg.load_sum;
            let index = self.groups.index(queue);
            let removed = &mut self.groups.queues[index].removed_runnable_sum;
            *removed = removed.wrapping_add(load_sum);
        }
    }

    /// sync_entity_load_avg(): ages a sleeping task to its queue's last update.
    pub(super) fn sync_entity(&mut self, task: TaskId) {
        let queue = self.task_cfs_rq(usize::from(self.tasks[task as usize].cpu), task);
        let last_update_time = self.entities().cfs(queue).avg.last_update_time;
        let form = self.pelt_form;
        let task = &mut self.tasks[task as usize];
        pelt::sync_entity_load_avg(&mut task.se.avg, last_update_time, task.se.weight, self.pelt_table, form);
    }

    /// pick_next_task_fair(): the next one runs; `prev` gives way unless it is the same. `None` if there is none.
    pub(super) fn pick_next_task(&mut self, cpu: usize, mut prev: TaskId) -> Option<TaskId> {
        if self.groups.bandwidth_used && prev == NO_TASK {
            self.check_queues_left(cpu);
        }
        let mut queue = QueueId::root(cpu);
        let next = loop {
            if self.entities().cfs(queue).nr_running == 0 {
                return None;
            }
            self.update_curr_of(queue);
            if self.throttled_at_pick(queue) {
                prev = NO_TASK;
                queue = QueueId::root(cpu);
                continue;
            }
            let next = {
                let env = queue_env!(self);
                let cfs = env.entities.cfs(queue);
                (self.kernel.queue.pick_next_entity.f)(&env, cfs, cfs.curr)
            };
            if self.se(next).sched_delayed {
                self.finish_delayed_dequeue(queue, next);
                queue = QueueId::root(cpu);
                continue;
            }
            self.clear_buddies(queue, next);
            match self.groups.group_cfs_rq(next) {
                Some(below) => queue = below,
                None => break next,
            }
        };
        if next != prev || (self.groups.bandwidth_used && self.running_task(cpu) != next) {
            self.switch_entities(cpu, next);
        }
        // The latest to run stands at the head of the list: balancing, which comes from the tail, sees it last.
        self.list_remove(cpu, next);
        self.list_push_head(cpu, next);
        Some(next)
    }

    /// put_prev_task_fair(): the running task goes back among the waiting.
    pub(super) fn put_prev_task(&mut self, cpu: usize) {
        let mut level = self.running_entity(cpu);
        while let Some((queue, entity)) = level {
            self.put_prev_entity(queue, entity);
            level = self.groups.parent(queue);
        }
    }

    /// put_prev_entity().
    pub(super) fn put_prev_entity(&mut self, queue: QueueId, prev: EntityId) {
        // A group's entity may have left just now: throttled.
        if self.se(prev).on_rq {
            self.update_curr_of(queue);
            self.timeline_insert(queue, prev);
            self.update_load_avg(queue, prev, false);
        }
        self.cfs_mut(queue).curr = NO_TASK;
        self.check_cfs_rq_runtime(queue);
        let now = self.now;
        let Some(task) = self.tasks.get_mut(prev as usize) else { return };
        task.queued_since_ns = now;
        if task.state == TaskState::Runnable {
            self.record.task_state(now, prev, usize::from(queue.cpu), TaskTraceState::Waiting);
        }
    }

    /// set_next_entity(): the entity leaves the waiting and runs.
    pub(super) fn set_next_entity(&mut self, queue: QueueId, next: EntityId) {
        let cpu = usize::from(queue.cpu);
        self.timeline_remove(queue, next);
        self.update_load_avg(queue, next, false);
        self.cfs_mut(queue).curr = next;
        let clock = self.rqs[cpu].clock;
        let se = self.se_mut(next);
        se.exec_start = clock;
        se.slice_protected = true;
        se.prev_sum_exec_runtime = se.sum_exec_runtime;
        let Some(task) = self.tasks.get(next as usize) else { return };
        self.record.run_delay(cpu, self.now - task.queued_since_ns);
        self.record.task_state(self.now, next, cpu, TaskTraceState::Running);
    }

    /// task_tick_fair(): accounts the running task and takes the CPU from it when a slice is over on some level.
    pub(super) fn task_tick(&mut self, cpu: usize) {
        let mut level = self.running_entity(cpu);
        while let Some((queue, entity)) = level {
            self.entity_tick(queue, entity);
            level = self.groups.parent(queue);
        }
    }

    /// entity_tick().
    fn entity_tick(&mut self, queue: QueueId, curr: EntityId) {
        let cpu = usize::from(queue.cpu);
        let need_resched = self.rqs[cpu].need_resched;
        self.update_curr_of(queue);
        if self.rqs[cpu].need_resched && !need_resched {
            self.record.metrics.preemptions_tick += 1;
        }
        if self.queue_form == QueueForm::Deadline {
            self.update_zero_vruntime(queue);
        }
        self.update_load_avg(queue, curr, false);
        self.update_cfs_group(curr);
        if self.entities().cfs(queue).nr_running < 2 {
            return;
        }
        let verdict = {
            let env = queue_env!(self);
            (self.kernel.queue.check_preempt_tick.f)(&env, env.entities.cfs(queue))
        };
        let slice_over = verdict != TickVerdict::RunOn || (self.rqs[cpu].need_resched && !need_resched);
        self.log_tick(cpu, curr, slice_over);
        if verdict == TickVerdict::RunOn {
            return;
        }
        self.record.metrics.preemptions_tick += 1;
        self.resched_curr(cpu);
        if verdict == TickVerdict::SliceOver {
            self.clear_buddies(queue, curr);
        }
    }

    /// check_preempt_curr(): whether a task that just became runnable takes the CPU from the running one.
    pub(super) fn check_preempt_curr(&mut self, cpu: usize, task: TaskId, forked: bool) {
        let curr = self.rqs[cpu].curr;
        if curr == NO_TASK {
            self.resched_curr(cpu);
            return;
        }
        if self.running_task(cpu) == NO_TASK
            || curr == task
            || self.groups.throttled_hierarchy(self.task_cfs_rq(cpu, task))
        {
            return;
        }
        // check_preempt_wakeup(), check_preempt_wakeup_fair().
        let by_vruntime = self.queue_form == QueueForm::Vruntime;
        let nr_running = self.entities().cfs(self.task_cfs_rq(cpu, curr)).nr_running;
        let scale = u64::from(nr_running) >= self.tunables.sched_nr_latency;
        let delayed = self.tasks[task as usize].se.sched_delayed;
        let next_marked = self.features.next_buddy && !forked && if by_vruntime { scale } else { !delayed };
        if next_marked {
            self.set_next_buddy(self.task_cfs_rq(cpu, task), task);
        }
        if self.rqs[cpu].need_resched || !(self.features.wakeup_preemption || self.groups.idle_used) {
            return;
        }
        let (queue, se, pse) = self.find_matching_se(cpu, curr, task);
        if self.groups.idle_used
            && let Some(preempts) = self.preempts_by_policy([curr, task], [se, pse])
        {
            self.log_preemption(cpu, curr, task, preempts);
            if preempts {
                self.record.metrics.preemptions_wakeup += 1;
                self.resched_curr(cpu);
            }
            return;
        }
        self.update_curr_of(queue);
        let verdict = {
            let env = queue_env!(self);
            (self.kernel.queue.check_preempt_wakeup.f)(&env, env.entities.cfs(queue), se, pse)
        };
        self.log_preemption(cpu, curr, task, verdict.preempt);
        if verdict.cancel_protection {
            self.se_mut(se).slice_protected = false;
        }
        if !verdict.preempt {
            return;
        }
        if by_vruntime && !next_marked {
            self.set_next_buddy(queue, pse);
        }
        self.record.metrics.preemptions_wakeup += 1;
        self.resched_curr(cpu);
        if by_vruntime && self.features.last_buddy && scale && se == curr {
            let mut level = Some((queue, se));
            while let Some((queue, entity)) = level {
                self.cfs_mut(queue).last = entity;
                level = self.groups.parent(queue);
            }
        }
    }

    /// set_next_buddy(): the entity is preferred, on every level from here up.
    fn set_next_buddy(&mut self, queue: QueueId, entity: EntityId) {
        let mut level = Some((queue, entity));
        let eligible = |sim: &Self, entity| sim.se(entity).on_rq && !sim.se(entity).idle;
        while let Some((queue, entity)) = level.filter(|&(_, entity)| eligible(self, entity)) {
            self.cfs_mut(queue).next = entity;
            level = self.groups.parent(queue);
        }
    }

    /// clear_buddies(): the entity is no longer preferred, nor are the groups that are for its sake.
    fn clear_buddies(&mut self, queue: QueueId, entity: EntityId) {
        let mut level = Some((queue, entity));
        while let Some((queue, entity)) = level {
            let cfs = self.cfs_mut(queue);
            let (last, next) = (cfs.last == entity, cfs.next == entity);
            if last {
                cfs.last = NO_TASK;
            }
            if next {
                cfs.next = NO_TASK;
            }
            level = self.groups.parent(queue).filter(|_| last || next);
        }
    }

    /// place_entity() of an entity on a queue.
    pub(super) fn place_entity(&self, queue: QueueId, entity: EntityId, placing: Placing) -> Placement {
        let env = queue_env!(self);
        (self.kernel.queue.place_entity.f)(&env, env.entities.cfs(queue), env.entities.se(entity), placing)
    }

    /// Places an entity as [`Self::place_entity`] says.
    fn place(&mut self, queue: QueueId, entity: EntityId, placing: Placing) {
        let Placement { vruntime, deadline, slice_ns } = self.place_entity(queue, entity, placing);
        let se = self.se_mut(entity);
        se.vruntime = vruntime;
        se.deadline = deadline;
        se.slice_ns = slice_ns;
        se.rel_deadline = false;
    }

    /// The queue's number of tasks changed: mirrors, the overload flag, the idle state.
    pub(super) fn nr_running_changed(&mut self, cpu: usize) {
        let nr_running = self.rqs[cpu].nr_running();
        let before = self.stats.nr_running[cpu];
        self.stats.nr_running[cpu] = nr_running;
        self.stats.h_nr_running[cpu] = self.rqs[cpu].cfs.h_nr_running;
        self.stats.sched_idle[cpu] = nr_running > 0 && nr_running == self.rqs[cpu].cfs.idle_h_nr_running;
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
        self.stats.idle[cpu] = rq.curr == NO_TASK && rq.nr_running() == 0 && rq.wake_list.is_empty();
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
