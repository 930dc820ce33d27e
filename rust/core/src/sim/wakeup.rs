//! Wake-ups and placement: try_to_wake_up(), select_task_rq_fair(), fork.

use super::Sim;
use super::event::NEVER;
use super::fair::Why;
use super::rq::{Interrupt, NO_TASK, TaskId, TaskState};
use crate::cpumask::CpuMask;
use crate::kernels::capacity::Demand;
use crate::kernels::env::{IdlestEnv, LbView, PlacedTask, WakeAffineEnv, WakeCapEnv, WakeCpu, WakeTarget};
use crate::kernels::queue::{Placement, Placing, QueueForm};
use crate::kernels::sis::{IdleSearch, PlacementRule};
use crate::topology::SdFlags;

/// Why a task needs a CPU (`SD_BALANCE_*`, `SD_WAKE_AFFINE`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum CpuFor {
    Wakeup,
    Fork,
    Exec,
}

impl Sim<'_> {
    /// try_to_wake_up(): `waker` runs on `this_cpu`. False if the task was not asleep.
    ///
    /// `sync`: the waker says that it is about to sleep (WF_SYNC). The waker pays for the work done here.
    pub(super) fn try_to_wake_up(
        &mut self,
        this_cpu: usize,
        waker: TaskId,
        task: TaskId,
        sync: bool,
    ) -> bool {
        if self.has_priority_arrays() {
            return self.o1_try_to_wake_up(this_cpu, waker, task, sync);
        }
        if self.tasks[task as usize].state != TaskState::Sleeping {
            return false;
        }
        let prev = usize::from(self.tasks[task as usize].cpu);
        if self.tasks[task as usize].se.sched_delayed {
            self.ttwu_runnable(this_cpu, prev, task);
            return true;
        }
        let (cpu, rule) = if self.rt_task(task) {
            (prev, PlacementRule::Target)
        } else {
            self.select_task_rq(this_cpu, waker, task, prev, sync)
        };
        self.log_wakeup(this_cpu, waker, task, prev, sync, (cpu, rule));
        self.rqs[this_cpu].overhead_ns += self.cost.wakeup_ns;
        self.record.wakeup(this_cpu, prev, cpu, rule);
        self.record.domain_wakeup(self.topo, this_cpu, cpu);
        let why = if cpu == prev {
            Why::Sleep
        } else {
            self.migrate_sleeping(task, prev, cpu);
            Why::WakeElsewhere
        };
        if self.topo.llc_id[cpu] == self.topo.llc_id[this_cpu] {
            self.ttwu_do_activate(cpu, task, why);
        } else {
            self.ttwu_queue_remote(cpu, task, why);
        }
        true
    }

    /// ttwu_runnable() of a task that sleeps but is still queued: it stays where it is.
    fn ttwu_runnable(&mut self, this_cpu: usize, cpu: usize, task: TaskId) {
        self.rqs[this_cpu].overhead_ns += self.cost.wakeup_ns;
        // No CPU was chosen, let alone an idle one.
        self.record.wakeup(this_cpu, cpu, cpu, PlacementRule::Target);
        self.record.domain_wakeup(self.topo, this_cpu, cpu);
        self.update_rq_clock(cpu);
        self.requeue_delayed(cpu, task);
        self.check_preempt_curr(cpu, task, false);
        self.tasks[task as usize].state = TaskState::Runnable;
    }

    /// migrate_task_rq_fair() and __set_task_cpu() of a task that changes CPU in its sleep.
    fn migrate_sleeping(&mut self, task: TaskId, prev: usize, cpu: usize) {
        if self.queue_form == QueueForm::Vruntime {
            let min_vruntime = self.entities().cfs(self.task_cfs_rq(prev, task)).min_vruntime;
            let entity = &mut self.tasks[task as usize].se;
            entity.vruntime = entity.vruntime.wrapping_sub(min_vruntime);
        }
        self.remove_entity(prev, task);
        self.update_scan_period(task, cpu);
        let task = &mut self.tasks[task as usize];
        task.se.exec_start = 0;
        task.cpu = cpu as u16;
        self.record.metrics.migrations_wakeup += 1;
    }

    /// ttwu_queue_remote(): a CPU with another cache fetches the task itself, when the interrupt arrives.
    fn ttwu_queue_remote(&mut self, cpu: usize, task: TaskId, why: Why) {
        self.tasks[task as usize].state = TaskState::Waking;
        let first = self.rqs[cpu].wake_list.is_empty();
        self.rqs[cpu].wake_list.push((task, why == Why::WakeElsewhere));
        self.update_idle(cpu);
        if first {
            self.send_interrupt(cpu, Interrupt::Reschedule);
        }
    }

    /// sched_ttwu_pending(): the tasks that other CPUs sent.
    pub(super) fn ttwu_pending(&mut self, cpu: usize) {
        let mut tasks = std::mem::take(&mut self.rqs[cpu].wake_list);
        for (task, elsewhere) in tasks.drain(..) {
            self.ttwu_do_activate(cpu, task, if elsewhere { Why::WakeElsewhere } else { Why::Sleep });
        }
        self.rqs[cpu].wake_list = tasks;
        self.update_idle(cpu);
    }

    /// ttwu_do_activate() and ttwu_do_wakeup().
    fn ttwu_do_activate(&mut self, cpu: usize, task: TaskId, why: Why) {
        self.update_rq_clock(cpu);
        if self.rt_task(task) {
            self.enqueue_rt(cpu, task);
            self.check_preempt_rt(cpu, task);
        } else {
            self.enqueue_task(cpu, task, why);
            self.check_preempt_curr(cpu, task, false);
        }
        self.tasks[task as usize].state = TaskState::Runnable;
        let rq = &mut self.rqs[cpu];
        if rq.idle_stamp != 0 {
            let delta = (rq.clock - rq.idle_stamp) as i64;
            let max = 2 * rq.max_idle_balance_cost;
            rq.avg_idle = ((rq.avg_idle as i64 + (delta - rq.avg_idle as i64) / 8) as u64).min(max);
            rq.idle_stamp = 0;
        }
    }

    /// select_task_rq_fair() of a wake-up: the CPU, and the rule that found it.
    fn select_task_rq(
        &mut self,
        this_cpu: usize,
        waker: TaskId,
        task: TaskId,
        prev: usize,
        sync: bool,
    ) -> (usize, PlacementRule) {
        let topo = self.topo;
        self.record_wakee(waker, task);
        let want_affine = !self.wake_wide(this_cpu, waker, task)
            && !self.wake_cap(this_cpu, task, prev)
            && self.may_run_on(task, this_cpu);
        let mut target = prev;
        let mut slow_level = None;
        for (level, sd) in topo.per_cpu[this_cpu].iter().enumerate() {
            if want_affine && sd.flags.has(SdFlags::WAKE_AFFINE) && sd.span.test(prev) {
                if this_cpu != prev {
                    target = self.wake_affine(this_cpu, level, waker, task, prev, sync);
                }
                slow_level = None;
                break;
            }
            if sd.flags.has(SdFlags::BALANCE_WAKE) {
                slow_level = Some(level);
            } else if !want_affine {
                break;
            }
        }
        if let Some(level) = slow_level {
            let cpu = self.find_idlest_cpu(task, this_cpu, level, prev, CpuFor::Wakeup);
            return (self.allowed_or_fallback(task, cpu), PlacementRule::Idlest);
        }
        let (cpu, rule) = self.select_idle_sibling(this_cpu, task, prev, target);
        if want_affine && waker != NO_TASK {
            self.tasks[waker as usize].recent_used_cpu = this_cpu as u16;
        }
        (self.allowed_or_fallback(task, cpu), rule)
    }

    /// select_fallback_rq(): the first CPU that the task may use, if not this one.
    pub(super) fn allowed_or_fallback(&mut self, task: TaskId, cpu: usize) -> usize {
        let found = match &self.tasks[task as usize].allowed {
            Some(allowed) if !allowed.test(cpu) => allowed.first().unwrap_or(cpu),
            _ => cpu,
        };
        if self.online.test(found) { found } else { self.select_fallback_rq(task, found) }
    }

    /// record_wakee(): counts how often the waker changes its partner, halved each second.
    fn record_wakee(&mut self, waker: TaskId, wakee: TaskId) {
        if waker == NO_TASK {
            return;
        }
        let jiffies = self.jiffies();
        let hz = u64::from(self.tunables.hz);
        let waker = &mut self.tasks[waker as usize];
        if jiffies > waker.wakee_flip_decay_ts + hz {
            waker.wakee_flips >>= 1;
            waker.wakee_flip_decay_ts = jiffies;
        }
        if waker.last_wakee != wakee {
            waker.last_wakee = wakee;
            waker.wakee_flips += 1;
        }
    }

    fn wake_wide(&self, this_cpu: usize, waker: TaskId, wakee: TaskId) -> bool {
        let flips = |task: TaskId| if task == NO_TASK { 0 } else { self.tasks[task as usize].wakee_flips };
        (self.kernel.wakeup.wake_wide.f)(flips(waker), flips(wakee), self.topo.llc_size[this_cpu])
    }

    fn wake_cap(&self, this_cpu: usize, task: TaskId, prev: usize) -> bool {
        let capacity_orig = &self.stats.capacity_orig;
        (self.kernel.wakeup.wake_cap.f)(&WakeCapEnv {
            asym_capacity: self.system.asym_capacity,
            task_util: self.tasks[task as usize].se.avg.util_avg,
            min_capacity_orig: capacity_orig[this_cpu].min(capacity_orig[prev]),
            max_cpu_capacity: self.system.max_cpu_capacity,
        })
    }

    fn wake_affine(
        &mut self,
        this_cpu: usize,
        level: usize,
        waker: TaskId,
        task: TaskId,
        prev: usize,
        sync: bool,
    ) -> usize {
        let mut load = |task: TaskId| if task == NO_TASK { 0 } else { self.task_h_load(task) };
        let (waker_load, wakee_load) = (load(waker), load(task));
        let stats = &self.stats;
        let wake_cpu = |cpu: usize| WakeCpu {
            idle: stats.idle[cpu],
            nr_running: stats.nr_running[cpu],
            load: stats.load[cpu],
            capacity: stats.capacity[cpu],
        };
        let env = WakeAffineEnv {
            kernel: &self.kernel,
            imbalance_pct: self.topo.per_cpu[this_cpu][level].imbalance_pct,
            sync,
            share_cache: self.topo.llc_id[this_cpu] == self.topo.llc_id[prev],
            this: wake_cpu(this_cpu),
            prev: wake_cpu(prev),
            waker_load,
            wakee_load,
        };
        match (self.kernel.wakeup.wake_affine.f)(&env) {
            WakeTarget::This => {
                self.record.metrics.wakeups_affine += 1;
                self.record.domain(this_cpu, level).ttwu_move_affine += 1;
                this_cpu
            }
            WakeTarget::Prev => prev,
        }
    }

    fn select_idle_sibling(
        &mut self,
        this_cpu: usize,
        task: TaskId,
        prev: usize,
        target: usize,
    ) -> (usize, PlacementRule) {
        let util = self.task_util_est(task);
        let waker = self.rqs[this_cpu].curr;
        let per_cpu_kthread = waker != NO_TASK && self.tasks[waker as usize].is_per_cpu_kthread();
        let task = &mut self.tasks[task as usize];
        let this_rq = &mut self.rqs[this_cpu];
        let mut search = IdleSearch {
            kernel: &self.kernel,
            rqs: &self.stats,
            domains: self.topo,
            features: self.features,
            system: &self.system,
            allowed: task.allowed.as_deref(),
            this_cpu,
            recent_used_cpu: &mut task.recent_used_cpu,
            demand: Demand { util, clamp: task.clamp },
            per_cpu_kthread,
            in_task: !self.in_interrupt,
            has_idle_cores: &mut self.has_idle_cores,
            nr_idle_scan: &self.nr_idle_scan,
            avg_idle: this_rq.avg_idle,
            avg_scan_cost: &mut this_rq.avg_scan_cost,
            scan_cpu_ns: self.cost.scan_cpu_ns,
            scanned: 0,
        };
        let (cpu, rule) = (self.kernel.wakeup.select_idle_sibling.f)(&mut search, prev, target);
        this_rq.overhead_ns += u64::from(search.scanned) * self.cost.scan_cpu_ns;
        (cpu, rule)
    }

    /// wake_up_new_task() of a child that `parent`, running on `this_cpu`, has just forked.
    pub(super) fn wake_up_new_task(&mut self, this_cpu: usize, parent: TaskId, child: TaskId) {
        if self.processes.has_jobs() {
            self.renew(parent, child);
        }
        if self.has_priority_arrays() {
            return self.o1_wake_up_new_task(this_cpu, parent, child);
        }
        if self.rt_task(child) {
            return self.wake_up_new_rt(this_cpu, child);
        }
        self.task_fork(this_cpu, parent, child);
        self.init_numa_balancing(child);
        let level = (self.topo.per_cpu[this_cpu].iter()).rposition(|sd| sd.flags.has(SdFlags::BALANCE_FORK));
        let cpu = match level {
            Some(level) => self.find_idlest_cpu(child, this_cpu, level, this_cpu, CpuFor::Fork),
            None => this_cpu,
        };
        let cpu = self.allowed_or_fallback(child, cpu);
        self.log_fork(this_cpu, parent, child, cpu);
        let task = &mut self.tasks[child as usize];
        task.recent_used_cpu = this_cpu as u16;
        task.cpu = cpu as u16;
        task.last_run_cpu = cpu as u16;
        task.state = TaskState::Runnable;
        self.record.metrics.forks += 1;
        self.update_rq_clock(cpu);
        self.attach_new_task(cpu, child);
        self.enqueue_task(cpu, child, Why::New);
        self.check_preempt_curr(cpu, child, true);
    }

    /// sched_exec(): where the running task, which forgets its caches by exec anyway, had better be.
    pub(super) fn sched_exec(&mut self, this_cpu: usize, task: TaskId) -> Option<usize> {
        let level =
            (self.topo.per_cpu[this_cpu].iter()).rposition(|sd| sd.flags.has(SdFlags::BALANCE_EXEC))?;
        self.update_rq_clock(this_cpu);
        let cpu = if self.has_priority_arrays() {
            self.sched_balance_self(this_cpu, task, SdFlags::BALANCE_EXEC)
        } else {
            self.find_idlest_cpu(task, this_cpu, level, this_cpu, CpuFor::Exec)
        };
        let cpu = self.allowed_or_fallback(task, cpu);
        self.log_exec(this_cpu, task, cpu);
        self.record.metrics.migrations_exec += i64::from(cpu != this_cpu);
        (cpu != this_cpu).then_some(cpu)
    }

    /// migration_cpu_stop() of the running task.
    pub(super) fn exec_on(&mut self, cpu: usize, target: usize) {
        let task = self.rqs[cpu].curr;
        self.update_rq_clock(cpu);
        self.rqs[cpu].step_end_ns = NEVER;
        if self.has_priority_arrays() {
            self.o1_put_prev_task(cpu);
            self.o1_migrate_task(cpu, target, task);
        } else {
            self.put_prev_task(cpu);
            self.move_tasks(cpu, target, &[task]);
        }
        self.rqs[cpu].overhead_ns += self.cost.active_balance_ns;
        self.schedule(cpu);
    }

    /// task_fork_fair(): the child starts at its parent's vruntime or a slice behind the queue, whichever is later. A queue
    /// by deadline places it where it is enqueued.
    fn task_fork(&mut self, this_cpu: usize, parent: TaskId, child: TaskId) {
        if self.queue_form == QueueForm::Deadline {
            return;
        }
        self.update_rq_clock(this_cpu);
        // The place is relative, so that it is one in the child's own group too.
        let queue = self.task_cfs_rq(this_cpu, parent);
        self.update_curr_of(queue);
        self.tasks[child as usize].se.vruntime = self.tasks[parent as usize].se.vruntime;
        let Placement { vruntime, .. } = self.place_entity(queue, child, Placing::New);
        let min_vruntime = self.entities().cfs(queue).min_vruntime;
        self.tasks[child as usize].se.vruntime = vruntime.wrapping_sub(min_vruntime);
    }

    /// find_idlest_cpu(): from the highest domain of this kind downwards, the idlest group and in it the idlest CPU.
    fn find_idlest_cpu(
        &mut self,
        task: TaskId,
        this_cpu: usize,
        level: usize,
        prev: usize,
        placing: CpuFor,
    ) -> usize {
        let topo = self.topo;
        let flag = match placing {
            CpuFor::Wakeup => SdFlags::BALANCE_WAKE,
            CpuFor::Fork => SdFlags::BALANCE_FORK,
            CpuFor::Exec => SdFlags::BALANCE_EXEC,
        };
        let may_use = |sim: &Self, span: &CpuMask| {
            sim.tasks[task as usize].allowed.as_ref().is_none_or(|allowed| allowed.intersects(span))
        };
        if !may_use(self, &topo.per_cpu[this_cpu][level].span) {
            return prev;
        }
        // A new task has no history to age.
        if placing != CpuFor::Fork {
            self.sync_entity(task);
        }
        let mut cpu = this_cpu;
        let mut new_cpu = this_cpu;
        let mut next = Some(level);
        while let Some(level) = next {
            let sd = &topo.per_cpu[cpu][level];
            next = level.checked_sub(1);
            if !sd.flags.has(flag) {
                continue;
            }
            let load = self.task_h_load(task);
            let group = {
                let task_ref = &self.tasks[task as usize];
                let mut env = IdlestEnv {
                    view: lb_view!(self),
                    sd,
                    this_cpu: cpu,
                    task: PlacedTask {
                        load,
                        util: self.task_util_est(task),
                        clamp: task_ref.clamp,
                        runnable: task_ref.se.avg.runnable_avg,
                        cpu: usize::from(task_ref.cpu),
                        new: placing == CpuFor::Fork,
                        queued: placing == CpuFor::Exec,
                        allowed: task_ref.allowed.as_deref(),
                        unrestricted: task_ref.allowed.is_none(),
                        preferred_node: self.numa.preferred_node(task),
                    },
                    stats: &mut self.idlest_stats,
                };
                (self.kernel.wakeup.find_idlest_group.f)(&mut env)
            };
            self.rqs[this_cpu].overhead_ns += u64::from(sd.span_weight) * self.cost.scan_cpu_ns;
            self.log_idlest(cpu, level, group);
            let Some(group) = group else { continue };
            new_cpu = self.find_idlest_group_cpu(sd.ring[group], task, cpu);
            if new_cpu == cpu {
                continue;
            }
            // Go on below, in the hierarchy of the new CPU.
            cpu = new_cpu;
            next = topo.per_cpu[cpu]
                .iter()
                .take_while(|lower| lower.span_weight < sd.span_weight)
                .enumerate()
                .filter(|(_, lower)| lower.flags.has(flag))
                .map(|(level, _)| level)
                .last();
        }
        new_cpu
    }

    /// find_idlest_group_cpu(): an idle CPU, the one idle for the shortest time; else the least loaded.
    pub(super) fn find_idlest_group_cpu(&self, group: usize, task: TaskId, this_cpu: usize) -> usize {
        let group = &self.topo.groups[group];
        if group.weight == 1 {
            return group.runs[0].0;
        }
        let at_once = self.balance_rules.sched_idle_at_once;
        let (mut latest_idle, mut sched_idle) = (None, None);
        let mut least_loaded = this_cpu;
        let mut min_load = u64::MAX;
        let mut latest_stamp = 0;
        for cpu in
            group.runs.iter().flat_map(|&(start, end)| start..end).filter(|&cpu| self.may_run_on(task, cpu))
        {
            if at_once && self.stats.sched_idle[cpu] {
                return cpu;
            }
            if self.stats.idle[cpu] {
                // All idle CPUs are in the same idle state here: the one with the warmest cache wins.
                let stamp = self.rqs[cpu].idle_stamp;
                if stamp > latest_stamp || latest_idle.is_none() {
                    latest_stamp = stamp;
                    latest_idle = Some(cpu);
                }
            } else if latest_idle.is_some() || sched_idle.is_some() {
                // Something better than load is known.
            } else if self.stats.sched_idle[cpu] {
                sched_idle = Some(cpu);
            } else if self.stats.load[cpu] < min_load {
                min_load = self.stats.load[cpu];
                least_loaded = cpu;
            }
        }
        latest_idle.or(sched_idle).unwrap_or(least_loaded)
    }

    /// Whether the task may use a CPU (`p->cpus_ptr`).
    pub(super) fn may_run_on(&self, task: TaskId, cpu: usize) -> bool {
        self.tasks[task as usize].allowed.as_ref().is_none_or(|allowed| allowed.test(cpu))
    }
}
