//! Wake-ups, forks and exits under the O(1) scheduler.

use super::super::Sim;
use super::super::channel::ChannelKind;
use super::super::program::Op;
use super::super::rq::{NO_TASK, TaskId, TaskState};
use super::Activated;
use crate::kernels::env::CpuIdleType;
use crate::kernels::o1::prio::{self, CHILD_PENALTY_PCT, PARENT_PENALTY_PCT};
use crate::kernels::o1::{O1Env, WakeEnv};
use crate::kernels::sis::PlacementRule;
use crate::topology::{SchedDomain, SdFlags};

impl Sim<'_> {
    /// kernel/sched.c, 2.6.15, try_to_wake_up(): see [`Sim::try_to_wake_up`].
    pub(in super::super) fn o1_try_to_wake_up(
        &mut self,
        this_cpu: usize,
        waker: TaskId,
        task: TaskId,
        sync: bool,
    ) -> bool {
        if self.tasks[task as usize].state != TaskState::Sleeping {
            return false;
        }
        let slept_on = usize::from(self.tasks[task as usize].cpu);
        // A mask that was set while the task slept has moved it.
        let prev = self.allowed_or_fallback(task, slept_on);
        let (cpu, rule) = self.o1_select_cpu(this_cpu, task, prev, sync);
        self.log_wakeup(this_cpu, waker, task, prev, sync, (cpu, rule));
        self.rqs[this_cpu].overhead_ns += self.cost.wakeup_ns;
        self.record.wakeup(this_cpu, prev, cpu, rule);
        self.record.domain_wakeup(self.topo, this_cpu, prev);
        self.record.metrics.migrations_wakeup += i64::from(cpu != slept_on);
        self.tasks[task as usize].cpu = cpu as u16;
        self.update_rq_clock(cpu);
        if !self.sleeps_in_pipe(task) {
            self.o1_recalc_activated(task);
        }
        self.o1_activate(cpu, task);
        self.tasks[task as usize].state = TaskState::Runnable;
        // A waker that is about to sleep leaves the CPU to the wakee anyway.
        if !sync || cpu != this_cpu {
            self.o1_wakeup_preempt(cpu, task);
        }
        true
    }

    /// Whether a task that became runnable takes the CPU.
    fn o1_wakeup_preempt(&mut self, cpu: usize, task: TaskId) {
        let curr = self.rqs[cpu].curr;
        let preempts = self.o1_check_preempt(cpu, task);
        if curr != NO_TASK {
            self.log_preemption(cpu, curr, task, preempts);
            self.record.metrics.preemptions_wakeup += i64::from(preempts);
        }
    }

    /// activate_task(): the time slept counts, and so will the time until the task runs.
    fn o1_recalc_activated(&mut self, task: TaskId) {
        let hz = u64::from(self.tunables.hz);
        let in_interrupt = self.in_interrupt;
        let of_task = &mut self.o1.tasks[task as usize];
        (self.o1.table.recalc_task_prio.f)(&mut of_task.p, self.now - of_task.timestamp, hz);
        if of_task.activated == Activated::No {
            of_task.activated = if in_interrupt { Activated::ByInterrupt } else { Activated::ByTask };
        }
        of_task.timestamp = self.now;
    }

    /// TASK_NONINTERACTIVE: fs/pipe.c, 2.6.15, pipe_wait(). Such a sleep earns nothing.
    fn sleeps_in_pipe(&self, task: TaskId) -> bool {
        let program = self.tasks[task as usize].program;
        let channel = match self.ops[program.at as usize] {
            Op::Write { first, .. } => first + program.step,
            Op::Read { channel, .. } => channel,
            _ => return false,
        };
        self.channels[channel as usize].kind() == ChannelKind::Pipe
    }

    /// try_to_wake_up(): the CPU for a wakee, and the rule that found it.
    fn o1_select_cpu(
        &mut self,
        this_cpu: usize,
        task: TaskId,
        prev: usize,
        sync: bool,
    ) -> (usize, PlacementRule) {
        let table = self.o1.table;
        let mut target = prev;
        if prev != this_cpu {
            let level = self.topo.per_cpu[this_cpu].iter().position(|sd| sd.span.test(prev));
            let sd = level.map(|level| &self.o1.sds[this_cpu][level].0);
            let moves = (table.wake_to_this_cpu.f)(&WakeEnv {
                kernel: table,
                sd,
                this_rq: &self.o1.rqs[this_cpu],
                prev_rq: &self.o1.rqs[prev],
                sync,
                same_waker_cpu: usize::from(self.o1.tasks[task as usize].last_waker_cpu) == this_cpu,
                this_allowed: self.may_run_on(task, this_cpu),
                bias: self.task_bias(task),
            });
            if let (true, Some(level), Some(sd)) = (moves, level, sd) {
                target = this_cpu;
                // Of a level's two ways to move a wakee here only one is on.
                let affine = sd.wake_affine;
                let counters = self.record.domain(this_cpu, level);
                counters.ttwu_move_affine += u64::from(affine);
                counters.ttwu_move_balance += u64::from(!affine);
                self.record.metrics.wakeups_affine += i64::from(affine);
            }
        }
        self.o1.tasks[task as usize].last_waker_cpu = this_cpu as u16;
        let domains = &self.topo.per_cpu[target];
        let mut spans = domains.iter().take_while(|sd| sd.flags.has(SdFlags::WAKE_IDLE)).map(|sd| &sd.span);
        let allowed = self.tasks[task as usize].allowed.as_deref();
        let cpu = (table.wake_idle.f)(&self.o1.rqs, target, allowed, &mut spans);
        let rule = if cpu != target {
            PlacementRule::IdleSibling
        } else if self.o1.rqs[target].idle {
            PlacementRule::TargetIdle
        } else {
            PlacementRule::Target
        };
        (cpu, rule)
    }

    /// kernel/sched.c, 2.6.15, sched_fork() and wake_up_new_task(): see [`Sim::wake_up_new_task`].
    ///
    /// # Deviates
    /// A child of another nice value than its parent has it from the start, and does not stand before its parent.
    pub(in super::super) fn o1_wake_up_new_task(&mut self, this_cpu: usize, parent: TaskId, child: TaskId) {
        let hz = u64::from(self.tunables.hz);
        let table = self.o1.table;
        let cpu = self.sched_balance_self(this_cpu, child, SdFlags::BALANCE_FORK);
        let cpu = self.allowed_or_fallback(child, cpu);
        self.log_fork(this_cpu, parent, child, cpu);
        let (of_child, of_parent) = (child as usize, parent as usize);
        let slices = (table.share_timeslice.f)(self.o1.tasks[of_parent].p.time_slice);
        self.o1.tasks[of_parent].p.time_slice = slices.1;
        if slices.1 == 0 {
            // It had a single tick left, which ends here.
            self.o1.tasks[of_parent].p.time_slice = 1;
            self.o1_tick(this_cpu);
        }
        let before = self.o1.tasks[of_parent];
        let new = &mut self.o1.tasks[of_child];
        new.p.time_slice = slices.0;
        new.p.sleep_avg_ns = (table.forked_sleep_avg_ns.f)(&before.p, CHILD_PENALTY_PCT, hz);
        new.p.prio = (table.effective_prio.f)(new.p.static_prio, prio::current_bonus(&new.p, hz));
        new.first_time_slice = true;
        new.timestamp = self.now;
        new.last_ran = before.last_ran;
        new.last_waker_cpu = before.last_waker_cpu;

        let task = &mut self.tasks[of_child];
        task.cpu = cpu as u16;
        task.last_run_cpu = cpu as u16;
        task.state = TaskState::Runnable;
        self.record.metrics.forks += 1;
        self.update_rq_clock(cpu);
        if cpu != this_cpu {
            self.o1_activate(cpu, child);
            self.o1_wakeup_preempt(cpu, child);
        } else if self.tasks[of_child].thread {
            self.o1_activate(cpu, child);
        } else {
            // The child runs first: it will most likely exec(), and then nothing need be copied.
            self.o1_activate_before(cpu, parent, child);
            self.resched_curr(cpu);
        }
        let of_parent = &mut self.o1.tasks[of_parent].p;
        of_parent.sleep_avg_ns = (table.forked_sleep_avg_ns.f)(of_parent, PARENT_PENALTY_PCT, hz);
    }

    /// wake_up_new_task(): the child stands before its parent in the parent's list.
    fn o1_activate_before(&mut self, cpu: usize, parent: TaskId, child: TaskId) {
        let before = self.o1.tasks[parent as usize];
        let new = &mut self.o1.tasks[child as usize];
        let Some(array) = before.array.filter(|_| before.p.static_prio == new.p.static_prio) else {
            self.o1_activate(cpu, child);
            return;
        };
        new.p.prio = before.p.prio;
        new.array = Some(array);
        self.o1.queues[cpu].push_before(&mut self.tasks, array, before.p.prio, child, parent);
        self.inc_nr_running(cpu, child);
        self.tasks[child as usize].queued_since_ns = self.now;
    }

    /// sched_balance_self() at a fork or exec: from the highest domain that balances these down, the idlest CPU of the idlest
    /// group.
    pub(in super::super) fn sched_balance_self(
        &mut self,
        this_cpu: usize,
        task: TaskId,
        flag: SdFlags,
    ) -> usize {
        let topo = self.topo;
        let balances = |sd: &SchedDomain| sd.flags.has(flag);
        let mut cpu = this_cpu;
        let mut next = topo.per_cpu[cpu].iter().rposition(balances);
        while let Some(level) = next {
            let sd = &topo.per_cpu[cpu][level];
            let (parameters, ring) = self.o1.sds[cpu][level];
            let (group, idlest) = {
                let env = O1Env {
                    kernel: self.o1.table,
                    rqs: &self.o1.rqs,
                    sd: &parameters,
                    groups: self.o1.groups(ring),
                    this_cpu: cpu,
                    idle: CpuIdleType::NotIdle,
                    sd_idle: false,
                    imbalance: 0,
                };
                let allowed = self.tasks[task as usize].allowed.as_deref();
                let group = (env.kernel.find_idlest_group.f)(&env, allowed);
                (group, group.and_then(|group| (env.kernel.find_idlest_cpu.f)(&env, group, allowed)))
            };
            self.rqs[this_cpu].overhead_ns += u64::from(sd.span_weight) * self.cost.scan_cpu_ns;
            self.log_o1_idlest(cpu, level, group);
            if let Some(idlest) = idlest {
                cpu = idlest;
            }
            next = topo.per_cpu[cpu]
                .iter()
                .take_while(|lower| lower.span_weight < sd.span_weight)
                .enumerate()
                .filter(|(_, lower)| balances(lower))
                .map(|(level, _)| level)
                .last();
        }
        cpu
    }

    /// kernel/sched.c, 2.6.15, sched_exit(): a child that lived for less than its first timeslice gives the rest back, and
    /// one that slept little costs its parent sleep average.
    ///
    /// # Deviates
    /// It does so when it exits, not when it is reaped.
    pub(in super::super) fn o1_sched_exit(&mut self, task: TaskId) {
        let parent = self.tasks[task as usize].program.parent;
        if parent == task {
            return;
        }
        let (table, hz) = (self.o1.table, u64::from(self.tunables.hz));
        let child = self.o1.tasks[task as usize];
        let parent = &mut self.o1.tasks[parent as usize].p;
        if child.first_time_slice {
            parent.time_slice += child.p.time_slice;
            if parent.time_slice > (table.task_timeslice.f)(parent.static_prio, hz) {
                parent.time_slice = (table.task_timeslice.f)(child.p.static_prio, hz);
            }
        }
        parent.sleep_avg_ns = (table.reaped_sleep_avg_ns.f)(parent.sleep_avg_ns, child.p.sleep_avg_ns);
    }

    /// __migrate_task() of a runnable task that does not run: as if it woke up elsewhere.
    pub(in super::super) fn o1_migrate_task(&mut self, src: usize, dst: usize, task: TaskId) {
        let waited_since = self.tasks[task as usize].queued_since_ns;
        self.o1_dequeue_task(src, task);
        self.dec_nr_running(src, task);
        self.tasks[task as usize].cpu = dst as u16;
        self.update_rq_clock(dst);
        self.o1_recalc_activated(task);
        self.o1_activate(dst, task);
        self.tasks[task as usize].queued_since_ns = waited_since;
        self.o1_check_preempt(dst, task);
    }
}
