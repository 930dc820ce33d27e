//! Load balancing of the O(1) scheduler: at ticks, before a CPU goes idle, and by the migration thread.
//!
//! kernel/sched.c, 2.6.15: rebalance_tick(), load_balance(), idle_balance(), active_load_balance(), move_tasks().

use super::super::Sim;
use super::super::balance::idle_index;
use super::super::rq::{Interrupt, NO_TASK, Task, TaskId};
use super::{Arrays, O1Task, Ring};
use crate::kernels::env::{CpuIdleType, GroupType, Refusals, SgLbStats, TaskRef};
use crate::kernels::o1::{MoveEnv, MoveLimit, O1Array, O1Domain, O1Env, O1Queue, O1TaskView};

/// Longest interval while all tasks are pinned, ms (`MAX_PINNED_INTERVAL`).
const MAX_PINNED_INTERVAL_MS: u64 = 512;

/// What came of a pull.
struct Moved {
    tasks: u32,
    /// Affinity kept all tasks from it.
    all_pinned: bool,
    last: Option<TaskId>,
}

/// How a pass over a domain ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// So many tasks moved; none if it failed.
    Tried(u32),
    /// Nothing to do (`out_balanced`).
    Balanced,
    /// Affinity forbids every pull.
    AllPinned,
    /// The running task of the source may not come here (`out_one_pinned`).
    OnePinned,
}

impl Sim<'_> {
    /// CPU_OFFSET(): jiffies by which a CPU's balancing is ahead, so that not all balance at once.
    pub(super) fn cpu_offset(&self, cpu: usize) -> u64 {
        u64::from(self.tunables.hz) * cpu as u64 / self.topo.nr_cpus as u64
    }

    /// rebalance_tick(): averages the CPU's load, then balances every level that is due, bottom-up.
    pub(super) fn rebalance_tick(&mut self, cpu: usize, idle: bool) {
        let table = self.o1.table;
        let rq = &mut self.o1.rqs[cpu];
        rq.cpu_load = (table.update_cpu_load.f)(rq.cpu_load, (table.load_now.f)(rq));
        let hz = u64::from(self.tunables.hz);
        let jiffies = self.jiffies() + self.cpu_offset(cpu);
        let mut idle = if idle { CpuIdleType::Idle } else { CpuIdleType::NotIdle };
        for level in 0..self.o1.sds[cpu].len() {
            let mut interval_ms = self.sds[cpu][level].balance_interval_ms;
            if idle != CpuIdleType::Idle {
                interval_ms *= self.o1.sds[cpu][level].0.busy_factor;
            }
            let interval = (interval_ms * hz).div_ceil(1000).max(1);
            if jiffies.saturating_sub(self.sds[cpu][level].last_balance) >= interval {
                if self.o1_load_balance(cpu, level, idle) {
                    // Something was pulled, or a sibling thread is busy.
                    idle = CpuIdleType::NotIdle;
                }
                self.sds[cpu][level].last_balance += interval;
            }
        }
    }

    /// idle_balance(): before the CPU goes idle, tries to find it work. True if it has some now.
    pub(in super::super) fn o1_idle_balance(&mut self, cpu: usize) -> bool {
        for level in 0..self.o1.sds[cpu].len() {
            if self.o1.sds[cpu][level].0.balance_newidle
                && self.o1_load_balance(cpu, level, CpuIdleType::NewlyIdle)
            {
                break;
            }
        }
        let found = self.o1.rqs[cpu].nr_running > 0;
        if !found {
            self.o1.queues[cpu].expired_timestamp = None;
            self.o1.rqs[cpu].idle = true;
        }
        found
    }

    /// load_balance() and load_balance_newidle(): pulls from the busiest CPU of the busiest group of a domain. True if the CPU
    /// is not, or no longer, really idle.
    fn o1_load_balance(&mut self, cpu: usize, level: usize, idle: CpuIdleType) -> bool {
        let (table, (sd, ring)) = (self.o1.table, self.o1.sds[cpu][level]);
        self.record.lb_count(cpu, level, idle);
        self.log_pass_begins(cpu, level, idle);
        let (group, source, imbalance, sd_idle) = {
            let mut env = O1Env {
                kernel: table,
                rqs: &self.o1.rqs,
                sd: &sd,
                groups: self.o1.groups(ring),
                this_cpu: cpu,
                idle,
                sd_idle: idle.is_idle() && sd.share_cpupower,
                imbalance: 0,
            };
            let group = (table.find_busiest_group.f)(&mut env);
            let source = group.and_then(|group| (table.find_busiest_queue.f)(&env, group));
            (group, source, env.imbalance, env.sd_idle)
        };
        self.note_groups(cpu, level, &sd, ring, idle);
        self.log_o1_groups(cpu, level, group, source, imbalance);
        let outcome = match (group, source) {
            (None, _) => {
                self.record.domain(cpu, level).lb_nobusyg[idle_index(idle)] += 1;
                Outcome::Balanced
            }
            (Some(_), None) => {
                self.record.domain(cpu, level).lb_nobusyq[idle_index(idle)] += 1;
                Outcome::Balanced
            }
            (Some(_), Some(source)) => {
                self.record.domain(cpu, level).lb_imbalance[idle_index(idle)] += imbalance;
                self.o1_pull_from(cpu, level, idle, source, imbalance)
            }
        };
        let moved = if let Outcome::Tried(moved) = outcome { moved } else { 0 };
        let pass_cost = self.cost.balance_pass_ns
            + u64::from(self.topo.per_cpu[cpu][level].span_weight) * self.cost.balance_cpu_ns
            + u64::from(moved) * self.cost.balance_move_ns;
        self.rqs[self.this_cpu].overhead_ns += pass_cost;
        self.log_pass_ends(match outcome {
            Outcome::Tried(0) => "failed",
            Outcome::Tried(_) => "pulled",
            Outcome::Balanced => "balanced",
            Outcome::AllPinned => "all_pinned",
            Outcome::OnePinned => "one_pinned",
        });
        if matches!(outcome, Outcome::Balanced | Outcome::AllPinned) {
            self.record.domain(cpu, level).lb_balanced[idle_index(idle)] += 1;
            // A newly idle CPU whose sibling is busy leaves before it comes to this.
            if idle != CpuIdleType::NewlyIdle || sd_idle || !sd.share_cpupower {
                self.sds[cpu][level].nr_balance_failed = 0;
            }
        }
        if idle != CpuIdleType::NewlyIdle && !matches!(outcome, Outcome::Tried(_)) {
            let pinned = matches!(outcome, Outcome::AllPinned | Outcome::OnePinned);
            let state = &mut self.sds[cpu][level];
            if pinned && state.balance_interval_ms < MAX_PINNED_INTERVAL_MS
                || state.balance_interval_ms < sd.interval_ms[1]
            {
                state.balance_interval_ms *= 2;
            }
        }
        moved > 0 || sd.share_cpupower && !sd_idle
    }

    /// load_balance(), once a source is found: the pull, what a failure leads to, and the next interval.
    fn o1_pull_from(
        &mut self,
        cpu: usize,
        level: usize,
        idle: CpuIdleType,
        source: usize,
        imbalance: u64,
    ) -> Outcome {
        let (table, sd) = (self.o1.table, self.o1.sds[cpu][level].0);
        let newidle = idle == CpuIdleType::NewlyIdle;
        let nr_running = self.o1.rqs[source].nr_running;
        let mut moved = 0;
        if nr_running > 1 {
            let limit = (table.move_limit.f)(imbalance, nr_running);
            let running = self.running_task(source);
            let result = self.move_o1_tasks(cpu, level, source, limit, running);
            moved = result.tasks;
            self.record.pulled(cpu, level, idle, u64::from(moved));
            if result.all_pinned && !newidle {
                return Outcome::AllPinned;
            }
        }
        if moved > 0 {
            self.sds[cpu][level].nr_balance_failed = 0;
        } else {
            self.record.domain(cpu, level).lb_failed[idle_index(idle)] += 1;
        }
        if newidle {
            return Outcome::Tried(moved);
        }
        let mut active_balance = false;
        if moved == 0 {
            self.sds[cpu][level].nr_balance_failed += 1;
            if (table.need_active_balance.f)(self.sds[cpu][level].nr_balance_failed, &sd) {
                let curr = self.rqs[source].curr;
                // An idle task belongs to its CPU.
                if curr == NO_TASK || !self.may_run_on(curr, cpu) {
                    return Outcome::OnePinned;
                }
                if !self.rqs[source].active_balance {
                    self.rqs[source].active_balance = true;
                    self.rqs[source].push_cpu = cpu as u16;
                    active_balance = true;
                    self.log_active_balance();
                    self.send_interrupt(source, Interrupt::ActiveBalance);
                }
                self.sds[cpu][level].nr_balance_failed = sd.cache_nice_tries + 1;
            }
        }
        let state = &mut self.sds[cpu][level];
        if !active_balance {
            state.balance_interval_ms = sd.interval_ms[0];
        } else if state.balance_interval_ms < sd.interval_ms[1] {
            state.balance_interval_ms *= 2;
        }
        Outcome::Tried(moved)
    }

    /// move_tasks().
    fn move_o1_tasks(
        &mut self,
        dst: usize,
        level: usize,
        src: usize,
        limit: MoveLimit,
        running: TaskId,
    ) -> Moved {
        let (table, sd) = (self.o1.table, self.o1.sds[dst][level].0);
        let mut pulled = std::mem::take(&mut self.o1.pulled);
        let mut env = MoveEnv {
            kernel: table,
            sd: &sd,
            nr_balance_failed: self.sds[dst][level].nr_balance_failed,
            this_cpu: dst,
            all_pinned: false,
        };
        let mut queue = SourceQueue {
            tasks: &self.tasks,
            o1_tasks: &self.o1.tasks,
            arrays: &self.o1.queues[src],
            bias: |task: TaskId| self.task_bias(task),
            running,
            pulled: &mut pulled,
        };
        (table.move_tasks.f)(&mut env, &mut queue, limit);
        let moved = Moved {
            tasks: pulled.len() as u32,
            all_pinned: env.all_pinned,
            last: pulled.last().map(|&(_, task)| task),
        };
        self.update_rq_clock(src);
        self.update_rq_clock(dst);
        for &(array, task) in &pulled {
            self.log_pull(&[task], Refusals::default());
            self.pull_task(src, dst, array, task);
        }
        pulled.clear();
        self.o1.pulled = pulled;
        moved
    }

    /// pull_task(): the task goes to the end of its list in the same array of the other runqueue.
    fn pull_task(&mut self, src: usize, dst: usize, array: O1Array, task: TaskId) {
        self.o1_dequeue_task(src, task);
        self.dec_nr_running(src, task);
        self.tasks[task as usize].cpu = dst as u16;
        self.inc_nr_running(dst, task);
        let position = self.o1.queues[dst].position(array);
        self.o1_enqueue_task(dst, task, position);
        self.o1_check_preempt(dst, task);
    }

    /// active_load_balance(), by the migration thread: the task that it took the CPU from may move, being idle now.
    pub(in super::super) fn o1_active_load_balance(&mut self, cpu: usize) {
        let target = usize::from(self.rqs[cpu].push_cpu);
        self.rqs[cpu].active_balance = false;
        let level = self.topo.per_cpu[target].iter().position(|sd| sd.span.test(cpu));
        let Some(level) = level.filter(|_| self.o1.rqs[cpu].nr_running > 0) else { return };
        self.record.domain(target, level).alb_count += 1;
        let limit = (self.o1.table.active_move_limit.f)();
        let Moved { tasks: moved, last, .. } = self.move_o1_tasks(target, level, cpu, limit, NO_TASK);
        self.log_push(cpu, target, last);
        self.record.metrics.migrations_active += i64::from(moved);
        let counters = self.record.domain(target, level);
        counters.alb_pushed += u64::from(moved > 0);
        counters.alb_failed += u64::from(moved == 0);
        self.rqs[cpu].overhead_ns += self.cost.active_balance_ns;
    }

    /// Sums over the groups of a domain, for those who watch a run; the decision has made its own.
    fn note_groups(&mut self, cpu: usize, level: usize, sd: &O1Domain, ring: Ring, idle: CpuIdleType) {
        if !self.record.is_timing() && self.record.decisions.is_none() {
            return;
        }
        let idx = match idle {
            CpuIdleType::NotIdle => sd.busy_idx,
            CpuIdleType::NewlyIdle => sd.newidle_idx,
            CpuIdleType::Idle => sd.idle_idx,
        };
        let mut stats = std::mem::take(&mut self.sg_stats);
        stats.clear();
        for position in 0..ring.len {
            stats.push(self.o1_group_sums(cpu, level, ring, position, idx, idle, true));
        }
        for group in &stats {
            self.record.classification(cpu, level, group);
        }
        self.sg_stats = stats;
    }

    /// Sums over one group: its load is what a pass that pulls, or a fork, takes it to be.
    #[allow(clippy::too_many_arguments, reason = "a group, and how to look at it")]
    fn o1_group_sums(
        &self,
        cpu: usize,
        level: usize,
        ring: Ring,
        position: usize,
        idx: usize,
        idle: CpuIdleType,
        pulls: bool,
    ) -> SgLbStats {
        let table = self.o1.table;
        let group = &self.o1.groups(ring)[position];
        let high = group.cpus.test(cpu) == pulls;
        let guess = if high { table.target_load.f } else { table.source_load.f };
        let rqs = || group.cpus.iter().map(|cpu| &self.o1.rqs[cpu]);
        let index = self.topo.per_cpu[cpu][level].ring[position];
        SgLbStats {
            group_type: GroupType::Other,
            group_load: rqs().map(|rq| guess(table, rq, idx, idle)).sum(),
            sum_nr_running: rqs().map(|rq| rq.nr_running as u32).sum(),
            sum_h_nr_running: rqs().map(|rq| rq.nr_running as u32).sum(),
            idle_cpus: rqs().filter(|rq| rq.idle).count() as u32,
            group_capacity: self.topo.groups[index].capacity,
            group_weight: self.topo.groups[index].weight,
            ..SgLbStats::default()
        }
    }

    fn log_o1_groups(
        &mut self,
        cpu: usize,
        level: usize,
        busiest: Option<usize>,
        source: Option<usize>,
        imbalance: u64,
    ) {
        if self.record.decisions.is_some() {
            let unit = (self.o1.table.imbalance_unit.f)();
            self.log_groups(cpu, level, (unit, imbalance as i64), busiest, source);
        }
    }

    /// A fork has looked at the groups of a domain, and perhaps chosen one.
    pub(super) fn log_o1_idlest(&mut self, cpu: usize, level: usize, idlest: Option<usize>) {
        if self.record.decisions.is_none() {
            return;
        }
        let (sd, ring) = self.o1.sds[cpu][level];
        let sums = |position| {
            self.o1_group_sums(cpu, level, ring, position, sd.forkexec_idx, CpuIdleType::NotIdle, false)
        };
        self.idlest_stats = (0..ring.len).map(|position| Some(sums(position))).collect();
        self.log_idlest(cpu, level, idlest);
    }
}

/// The arrays of a runqueue as `move_tasks` walks them. What it takes is collected; the engine moves it after: the walk
/// never comes back to a list.
struct SourceQueue<'a, B> {
    tasks: &'a [Task],
    o1_tasks: &'a [O1Task],
    arrays: &'a Arrays,
    bias: B,
    running: TaskId,
    pulled: &'a mut Vec<(O1Array, TaskId)>,
}

impl<B: Fn(TaskId) -> u64> O1Queue for SourceQueue<'_, B> {
    fn next_prio(&self, array: O1Array, from: u32) -> Option<u32> {
        let array = &self.arrays.arrays[self.arrays.position(array)];
        array.next_prio(from as usize).map(|prio| prio as u32)
    }

    fn tail(&self, array: O1Array, prio: u32) -> Option<TaskRef> {
        let (_, tail) = self.arrays.arrays[self.arrays.position(array)].lists[prio as usize];
        Some(tail).filter(|&task| task != NO_TASK)
    }

    fn before(&self, task: TaskRef) -> Option<TaskRef> {
        Some(self.tasks[task as usize].list_prev).filter(|&task| task != NO_TASK)
    }

    fn view(&self, task: TaskRef) -> O1TaskView<'_> {
        let of_task = &self.o1_tasks[task as usize];
        O1TaskView {
            bias: (self.bias)(task) as i64,
            since_last_ran_ns: self.arrays.timestamp_last_tick as i64 - of_task.last_ran as i64,
            running: task == self.running,
            allowed: self.tasks[task as usize].allowed.as_deref(),
        }
    }

    fn pull(&mut self, array: O1Array, task: TaskRef) {
        self.pulled.push((array, task));
    }
}
