//! What must hold after every event: checked in builds with debug assertions.

use std::cmp::Reverse;

use super::Sim;
use super::groups::{GroupId, QueueId};
use super::program::Op;
use super::rq::{NO_TASK, TaskId, TaskState};
use super::timeline::vruntime_before;
use super::util_est::estimate;
use crate::error::{Result, SimError};
use crate::kernels::eevdf::{VirtualClock, clock_of};
use crate::kernels::queue::QueueForm;
use crate::load_weight::scale_load_down;
use crate::pelt::PeltForm;

/// Events between two sweeps over all tasks and CPUs.
const EVENTS_BETWEEN_SWEEPS: u64 = 128;
/// The largest signal of something that always runs.
const SCHED_CAPACITY_SCALE: u64 = 1024;
/// What the largest sum of a half-life (LOAD_AVG_MAX) misses by rounding, in a signal of that scale.
const ROUNDING: u64 = 1;

/// What the checks remember from one event to the next; empty unless they run.
#[derive(Debug, Default)]
pub(super) struct Watch {
    events: u64,
    now: u64,
    migrations_newidle: i64,
    cpus: Vec<WatchedCpu>,
}

/// A CPU as its last event left it.
#[derive(Clone, Copy, Debug)]
struct WatchedCpu {
    running: TaskId,
    vruntime: u64,
    min_vruntime: u64,
}

impl Sim<'_> {
    /// Checks the CPU whose event was just handled against itself and against what its last event left; from time to
    /// time, everything.
    pub(super) fn check_invariants(&mut self) -> Result<()> {
        self.check_this_cpu()?;
        self.check_progress()?;
        self.watch.events += 1;
        if self.watch.events % EVENTS_BETWEEN_SWEEPS == 1 || self.stopped {
            self.check_all_tasks()?;
            self.check_all_cpus()?;
        }
        Ok(())
    }

    fn broken(&self, what: String) -> Result<()> {
        Err(SimError::Invariant(format!("CPU {} at {} ns: {what}", self.this_cpu, self.now)))
    }

    fn check_this_cpu(&self) -> Result<()> {
        let cpu = self.this_cpu;
        let rq = &self.rqs[cpu];
        if rq.clock > self.now {
            return self.broken(format!("its clock is ahead, {} ns", rq.clock));
        }
        if rq.nr_running() != self.stats.nr_running[cpu] {
            let mirror = self.stats.nr_running[cpu];
            return self.broken(format!("{} tasks in its queues, nr_running {mirror}", rq.nr_running()));
        }
        let running = self.running_task(cpu);
        if rq.rt.curr != NO_TASK && (rq.curr != rq.rt.curr || rq.rt.queue.is_empty()) {
            return self.broken(format!("runs task {}, its real-time queue says {}", rq.curr, rq.rt.curr));
        }
        if running != NO_TASK && running != rq.curr {
            return self.broken(format!("runs task {}, its queue says {running}", rq.curr));
        }
        if self.has_priority_arrays() {
            return self.check_arrays(cpu).or_else(|what| self.broken(what));
        }
        for group in 0..self.groups.groups.len() {
            let queue = QueueId { cpu: cpu as u16, group: group as GroupId };
            self.check_queue(queue).or_else(|what| self.broken(format!("group {group}: {what}")))?;
        }
        let mut listed = 0;
        let mut expected_util = 0;
        let mut task = rq.list_head;
        while task != NO_TASK {
            let this = &self.tasks[task as usize];
            let state = if this.se.sched_delayed { TaskState::Sleeping } else { TaskState::Runnable };
            if usize::from(this.cpu) != cpu || !this.se.on_rq || this.state != state {
                return self.broken(format!(
                    "task {task} is listed here, but is {:?} on CPU {}",
                    this.state, this.cpu
                ));
            }
            listed += 1;
            if self.features.util_est && !this.se.sched_delayed {
                expected_util += estimate(&this.se);
            }
            task = this.list_next;
        }
        // Throttled tasks are in the list and not counted.
        let throttled = self.check_throttling(cpu).or_else(|what| self.broken(what).map(|()| 0))?;
        if listed != rq.cfs.h_nr_running + throttled {
            let counted = rq.cfs.h_nr_running;
            return self
                .broken(format!("{listed} tasks listed, {counted} in its queues, {throttled} throttled"));
        }
        if rq.cfs.util_est_enqueued != expected_util {
            let expects = rq.cfs.util_est_enqueued;
            return self
                .broken(format!("it expects a utilization of {expects}, its tasks need {expected_util}"));
        }
        let idle = rq.curr == NO_TASK && rq.nr_running() == 0 && rq.wake_list.is_empty();
        if self.stats.idle[cpu] != (idle && self.online.test(cpu)) {
            return self.broken("its idle flag is wrong".to_owned());
        }
        Ok(())
    }

    /// What is throttled runs nowhere, and is in the list of its pool, once; pools hold no more than they may. Gives the
    /// number of throttled tasks.
    fn check_throttling(&self, cpu: usize) -> std::result::Result<u32, String> {
        if !self.groups.bandwidth_used {
            return Ok(0);
        }
        let mut tasks = 0;
        for group in 1..self.groups.groups.len() as GroupId {
            let queue = QueueId { cpu: cpu as u16, group };
            let below = &self.groups.queues[self.groups.index(queue)];
            let bandwidth = &below.bandwidth;
            let Some((above, entity)) = self.groups.parent(queue) else { continue };
            let count = match self.groups.parent(above) {
                Some(_) => self.groups.queues[self.groups.index(above)].bandwidth.throttle_count,
                None => 0,
            };
            if bandwidth.throttle_count != count + u32::from(bandwidth.throttled) {
                return Err(format!("group {group} counts {} throttled groups", bandwidth.throttle_count));
            }
            if bandwidth.throttle_count > 0 && below.cfs.curr != NO_TASK {
                return Err(format!("group {group} is throttled, and runs entity {}", below.cfs.curr));
            }
            let Some(pool) = &self.groups.groups[usize::from(group)].bandwidth else { continue };
            if bandwidth.throttled {
                tasks += below.cfs.h_nr_running;
                if self.se(entity).on_rq || (bandwidth.runtime_remaining > 0) != bandwidth.csd_pending {
                    return Err(format!("group {group} is throttled, and may run: {bandwidth:?}"));
                }
            }
            let listed = pool.throttled.iter().filter(|&&other| usize::from(other) == cpu).count();
            if listed != usize::from(bandwidth.throttled) {
                return Err(format!("group {group} is {listed} times in the list of throttled queues"));
            }
            // A refill, and the slice of every CPU given back.
            let slices_ns = self.groups.nr_cpus as u64 * self.tunables.cfs_bandwidth_slice_ns;
            if pool.runtime_ns > pool.spec.quota_ns + pool.spec.burst_ns + slices_ns {
                return Err(format!("group {group} has {} ns left", pool.runtime_ns));
            }
        }
        Ok(tasks)
    }

    /// A queue's counts, weights and order are its entities'; what is below a group's entity is what it says.
    fn check_queue(&self, queue: QueueId) -> std::result::Result<(), String> {
        let entities = self.entities();
        let cfs = entities.cfs(queue);
        let (mut weight, mut runnable_weight, mut queued, mut tasks, mut idle) = (0, 0, 0, 0, 0);
        let mut before = None;
        let waiting = cfs.timeline.iter().map(|(key, entity)| (Some(key), entity));
        for (key, entity) in waiting.chain((cfs.curr != NO_TASK).then_some((None, cfs.curr))) {
            let se = entities.se(entity);
            weight += se.weight;
            runnable_weight += se.runnable_weight;
            queued += 1;
            let below = self.groups.group_cfs_rq(entity);
            tasks += below.map_or(1, |below| entities.cfs(below).h_nr_running);
            idle += match below {
                _ if se.idle => below.map_or(1, |below| entities.cfs(below).h_nr_running),
                Some(below) => entities.cfs(below).idle_h_nr_running,
                None => 0,
            };
            let home = match below {
                Some(below) => self.groups.parent(below).map(|(above, _)| above),
                None => Some(self.task_cfs_rq(usize::from(queue.cpu), entity)),
            };
            if home != Some(queue) || !se.on_rq {
                return Err(format!("entity {entity} belongs elsewhere"));
            }
            let empty = below.is_some_and(|below| entities.cfs(below).nr_running == 0);
            if empty != (below.is_some() && se.sched_delayed) {
                return Err(format!("entity {entity} stands for an empty group: {empty}"));
            }
            let Some(key) = key else { continue };
            let expected = match self.queue_form {
                QueueForm::Vruntime | QueueForm::Priority => se.vruntime,
                QueueForm::Deadline => se.deadline,
            };
            if key != expected || before.is_some_and(|b| vruntime_before(key, b)) {
                return Err(format!("entity {entity} stands at {key} in the timeline"));
            }
            before = Some(key);
        }
        let counts = (queued, tasks, idle, weight);
        let has = (cfs.nr_running, cfs.h_nr_running, cfs.idle_h_nr_running, cfs.load.weight);
        if counts != has {
            return Err(format!("entities, tasks, idle ones and weight are {counts:?}, counted {has:?}"));
        }
        if self.pelt_form == PeltForm::Old && runnable_weight != cfs.runnable_weight {
            return Err(format!("runnable weight {runnable_weight}, counted {}", cfs.runnable_weight));
        }
        match self.queue_form {
            QueueForm::Vruntime | QueueForm::Priority => Ok(()),
            QueueForm::Deadline => self.check_lags(queue),
        }
    }

    /// Time, the queue's virtual clock and the running task's vruntime never fall; what newidle balance pulls, runs.
    fn check_progress(&mut self) -> Result<()> {
        let cpu = self.this_cpu;
        if self.now < self.watch.now {
            return self.broken(format!("time ran back from {} ns", self.watch.now));
        }
        if self.watch.cpus.is_empty() {
            let idle = |rq: &super::Rq| WatchedCpu {
                running: NO_TASK,
                vruntime: 0,
                min_vruntime: rq.cfs.min_vruntime,
            };
            self.watch.cpus = self.rqs.iter().map(idle).collect();
        }
        let rq = &self.rqs[cpu];
        let before = self.watch.cpus[cpu];
        let running = self.running_task(cpu);
        let vruntime = if running == NO_TASK { 0 } else { self.tasks[running as usize].se.vruntime };
        if running != NO_TASK && running == before.running && vruntime_before(vruntime, before.vruntime) {
            return self.broken(format!(
                "task {running} runs, its vruntime fell from {} to {vruntime}",
                before.vruntime
            ));
        }
        if vruntime_before(rq.cfs.min_vruntime, before.min_vruntime) {
            return self.broken(format!(
                "min_vruntime fell from {} to {}",
                before.min_vruntime, rq.cfs.min_vruntime
            ));
        }
        let pulled = self.record.metrics.migrations_newidle - self.watch.migrations_newidle;
        // Where sleepers stay queued, what was pulled may be one of them: it leaves as soon as it is picked. Or it is
        // throttled here.
        let may_sleep = self.queue_form == QueueForm::Deadline && self.features.delay_dequeue;
        let may_leave = may_sleep || self.groups.bandwidth_used;
        if pulled > 0 && running == NO_TASK && !may_leave {
            return self.broken(format!("newidle balance pulled {pulled} tasks and none of them runs"));
        }
        self.watch.now = self.now;
        self.watch.migrations_newidle = self.record.metrics.migrations_newidle;
        self.watch.cpus[cpu] = WatchedCpu { running, vruntime, min_vruntime: rq.cfs.min_vruntime };
        Ok(())
    }

    /// Each task is in one place, the one that its state says; its signals are within bounds.
    fn check_all_tasks(&self) -> Result<()> {
        let mut queued = vec![0_usize; self.tasks.len()];
        let mut travelling = queued.clone();
        let mut waiting = queued.clone();
        let group_queues = self.groups.queues.iter().map(|below| &below.cfs);
        for cfs in self.rqs.iter().map(|rq| &rq.cfs).chain(group_queues) {
            let curr = (cfs.curr != NO_TASK).then_some(cfs.curr);
            for entity in cfs.timeline.iter().map(|(_, entity)| entity).chain(curr) {
                if let Some(count) = queued.get_mut(entity as usize) {
                    *count += 1;
                }
            }
        }
        if self.has_priority_arrays() {
            queued.fill(0);
            self.count_in_arrays(&mut queued);
        }
        for rq in &self.rqs {
            for &task in &rq.rt.queue {
                queued[task as usize] += 1;
            }
            for &(task, _) in &rq.wake_list {
                travelling[task as usize] += 1;
            }
        }
        for channel in &self.channels {
            for &task in channel.readers.iter().chain(&channel.writers).chain(&channel.pollers) {
                waiting[task as usize] += 1;
            }
        }
        let timed =
            self.timers.iter().map(|&Reverse((_, id))| id as usize).filter(|&id| id < self.tasks.len());
        // Those who spin at a barrier are runnable and wait in no queue.
        let met = self.barriers.iter().flat_map(|barrier| &barrier.waiting).map(|&task| task as usize);
        for task in timed.chain(met.filter(|&task| self.tasks[task].state != TaskState::Runnable)) {
            waiting[task] += 1;
        }
        for (id, task) in self.tasks.iter().enumerate() {
            if task.state == TaskState::Sleeping
                && matches!(self.ops[task.program.at as usize], Op::Reap { .. } | Op::Jobs { .. })
                && self.processes.is_waiting(id as TaskId)
            {
                waiting[id] += 1;
            }
            let expected = match task.state {
                TaskState::New | TaskState::Dead => (0, 0, 0),
                TaskState::Runnable => (1, 0, 0),
                TaskState::Waking => (0, 1, 0),
                // A task whose dequeue is delayed sleeps in its queue.
                TaskState::Sleeping => (usize::from(task.se.sched_delayed), 0, 1),
            };
            let found = (queued[id], travelling[id], waiting[id]);
            let on_rq = task.se.on_rq || (task.rt_priority != 0 && queued[id] == 1);
            if found != expected || on_rq != (queued[id] == 1) {
                return self.broken(format!(
                    "task {id} is {:?}, and in so many queues, wake lists and wait queues: {found:?}",
                    task.state
                ));
            }
            let weight = self.pelt_form.scale_load_down(task.se.weight);
            let runnable = match self.pelt_form {
                PeltForm::Modern => SCHED_CAPACITY_SCALE + ROUNDING,
                PeltForm::Old => weight,
            };
            let avg = &task.se.avg;
            if avg.util_avg > SCHED_CAPACITY_SCALE + ROUNDING
                || avg.load_avg > weight
                || avg.runnable_avg > runnable
            {
                return self.broken(format!("the signals of task {id} are out of bounds: {avg:?}"));
            }
        }
        Ok(())
    }

    /// The sums of the CPUs' signals are within bounds; the sets of tickless and busy CPUs are what the CPUs say.
    fn check_all_cpus(&self) -> Result<()> {
        let weights: u64 =
            self.tasks.iter().map(|task| self.pelt_form.scale_load_down(task.se.weight) + ROUNDING).sum();
        // In the root's queue a group counts by its shares, whatever is in it.
        let groups: u64 = self.groups.groups.iter().map(|group| (group.shares >> 10) + ROUNDING).sum();
        let mut busy = vec![0; self.nr_busy_cpus.len()];
        for (cpu, rq) in self.rqs.iter().enumerate() {
            let avg = &rq.cfs.avg;
            // An attached task's sums are rebuilt from its averages, which rounds by up to a thousandth.
            // Tasks bring their signals along, so that a CPU's sum may exceed what one CPU can do, as in the kernel.
            let load = weights + groups + (weights + groups) / 1000;
            if avg.util_avg > SCHED_CAPACITY_SCALE * self.tasks.len() as u64 || avg.load_avg > load {
                return self.broken(format!(
                    "the signals of CPU {cpu} are out of bounds, weights {weights}: {avg:?}"
                ));
            }
            if !self.online.test(cpu) && (rq.nr_running() > 0 || rq.curr != NO_TASK || self.stats.idle[cpu]) {
                return self.broken(format!("CPU {cpu} is off and has tasks, or counts as idle"));
            }
            if self.stats.nr_running[cpu] != rq.nr_running()
                || (self.stats.load[cpu] != (self.kernel.signals.cpu_load.f)(avg)
                    && !self.has_priority_arrays())
            {
                return self.broken(format!("the mirrors of CPU {cpu} differ from its queue"));
            }
            let tickless = self.nohz.idle_cpus.test(cpu);
            if tickless && !rq.nohz_idle {
                return self.broken(format!("CPU {cpu} ticks and is in the tickless set"));
            }
            if !rq.nohz_idle {
                busy[self.topo.llc_id[cpu]] += 1;
            }
        }
        if self.nohz.idle_cpus.weight() != self.nohz.nr_cpus as usize || busy != self.nr_busy_cpus {
            return self.broken(format!(
                "{} CPUs are tickless, counted {}; busy by LLC {busy:?}, counted {:?}",
                self.nohz.idle_cpus.weight(),
                self.nohz.nr_cpus,
                self.nr_busy_cpus
            ));
        }
        Ok(())
    }

    /// The sums of a queue by deadline are those of its entities, and what some are owed others owe.
    fn check_lags(&self, queue: QueueId) -> std::result::Result<(), String> {
        let entities = self.entities();
        let cfs = entities.cfs(queue);
        let mut clock = VirtualClock::new(cfs.clock.zero_vruntime);
        for (_, entity) in cfs.timeline.iter() {
            let se = entities.se(entity);
            clock.add(se.vruntime, se.weight);
        }
        if clock != cfs.clock {
            return Err(format!("its sums are {:?}, those of its entities {clock:?}", cfs.clock));
        }
        let clock = clock_of(cfs, entities);
        let average = clock.avg_vruntime();
        let queued =
            cfs.timeline.iter().map(|(_, task)| task).chain((cfs.curr != NO_TASK).then_some(cfs.curr));
        let mut owed = 0;
        let mut eligible = clock.avg_load == 0;
        for task in queued {
            let se = entities.se(task);
            let lag = average.wrapping_sub(se.vruntime) as i64;
            owed += i128::from(lag) * i128::from(scale_load_down(se.weight));
            eligible |= clock.entity_eligible(se.vruntime);
        }
        // The average is rounded down: the sum falls short by less than one unit of the load.
        if owed > 0 || owed <= -i128::from(clock.avg_load.max(1)) || !eligible {
            return Err(format!("lags add up to {owed} of weight {}", clock.avg_load));
        }
        Ok(())
    }
}
