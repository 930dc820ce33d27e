//! Load balancing: the skeleton around the kernels' decisions.
//!
//! Periodic balance on ticks, newidle balance, balance on behalf of tickless idle CPUs, and the push of a
//! running task. kernel/sched/fair.c: load_balance(), rebalance_domains(), newidle_balance(),
//! nohz_idle_balance(), active_load_balance_cpu_stop(). Where generations differ,
//! [`BalanceRules`](crate::kernels::env::BalanceRules) say how.

use super::Sim;
use super::fair::Why;
use super::groups::QueueId;
use super::rq::{Interrupt, NO_TASK, TaskId};
use super::src_queue::{EngineQueue, Locality};
use crate::cpumask::CpuMask;
use crate::kernels::eevdf::clock_of;
use crate::kernels::env::{CpuIdleType, GroupType, LbEnv, LbView, MigrationType, SrcQueue, TaskScan};
use crate::topology::{SchedDomain, SdFlags};

/// Longest interval while all tasks are pinned, ms (`MAX_PINNED_INTERVAL`).
const MAX_PINNED_INTERVAL_MS: u64 = 512;

/// Attempts at newidle balance over which the share of successes is counted.
const NEWIDLE_CALLS: u32 = 1024;

/// What changes of a domain while a run goes on: the dynamic half of `struct sched_domain`.
#[derive(Clone, Debug)]
pub struct SdState {
    /// `last_balance`, jiffies.
    pub last_balance: u64,
    /// `balance_interval`, ms.
    pub balance_interval_ms: u64,
    /// `nr_balance_failed`.
    pub nr_balance_failed: u32,
    /// `max_newidle_lb_cost`, ns.
    pub max_newidle_lb_cost: u64,
    /// `next_decay_max_lb_cost`, jiffies.
    pub next_decay_max_lb_cost: u64,
    /// `newidle_call`: attempts at newidle balance, halved when they are counted.
    pub newidle_call: u32,
    /// `newidle_success`: those that pulled something.
    pub newidle_success: u32,
    /// `newidle_ratio`: successes in [`NEWIDLE_CALLS`] attempts, when last counted.
    pub newidle_ratio: u32,
}

impl SdState {
    /// sd_init(): a domain that was last balanced now.
    pub(super) fn new(sd: &SchedDomain, jiffies: u64) -> Self {
        Self {
            last_balance: jiffies,
            balance_interval_ms: sd.min_interval_ms,
            nr_balance_failed: 0,
            max_newidle_lb_cost: 0,
            next_decay_max_lb_cost: jiffies,
            newidle_call: NEWIDLE_CALLS / 2,
            newidle_success: NEWIDLE_CALLS / 2,
            newidle_ratio: NEWIDLE_CALLS / 2,
        }
    }

    /// update_newidle_stats(): an attempt, and what success it counts for.
    fn note_newidle(&mut self, success: u32) {
        self.newidle_call += 1;
        self.newidle_success += success;
        if self.newidle_call >= NEWIDLE_CALLS {
            self.newidle_ratio = self.newidle_success;
            self.newidle_call /= 2;
            self.newidle_success /= 2;
        }
    }
}

impl Sim<'_> {
    /// trigger_load_balance() at a tick, and the softirq that it raises.
    pub(super) fn trigger_load_balance(&mut self, cpu: usize) {
        if self.topo.per_cpu[cpu].is_empty() {
            return;
        }
        let due = self.jiffies() >= self.rqs[cpu].next_balance;
        if !self.rqs[cpu].idle_balance {
            self.nohz_balancer_kick(cpu);
        }
        if due {
            let idle = if self.rqs[cpu].idle_balance { CpuIdleType::Idle } else { CpuIdleType::NotIdle };
            self.update_blocked_averages(cpu);
            self.rebalance_domains(cpu, idle);
        }
    }

    /// rebalance_domains(): every level of the CPU that is due, bottom-up.
    pub(super) fn rebalance_domains(&mut self, cpu: usize, mut idle: CpuIdleType) {
        let topo = self.topo;
        let jiffies = self.jiffies();
        let hz = u64::from(self.tunables.hz);
        let mut next_balance = jiffies + 60 * hz;
        let mut continue_balancing = true;
        let mut need_decay = false;
        let mut max_cost = 0;
        for level in 0..topo.per_cpu[cpu].len() {
            let sd = &mut self.sds[cpu][level];
            if jiffies > sd.next_decay_max_lb_cost {
                sd.max_newidle_lb_cost = sd.max_newidle_lb_cost * 253 / 256;
                sd.next_decay_max_lb_cost = jiffies + hz;
                need_decay = true;
            }
            max_cost += sd.max_newidle_lb_cost;
            if !continue_balancing {
                if need_decay {
                    continue;
                }
                break;
            }
            let mut interval = self.sd_balance_interval(cpu, level, idle);
            if jiffies >= self.sds[cpu][level].last_balance + interval {
                if self.load_balance(cpu, level, idle, &mut continue_balancing) > 0 {
                    // A CPU that pulled something is no longer idle.
                    idle = if self.stats.idle[cpu] { CpuIdleType::Idle } else { CpuIdleType::NotIdle };
                }
                self.sds[cpu][level].last_balance = jiffies;
                interval = self.sd_balance_interval(cpu, level, idle);
            }
            next_balance = next_balance.min(self.sds[cpu][level].last_balance + interval);
        }
        let rq = &mut self.rqs[cpu];
        if need_decay {
            rq.max_idle_balance_cost = max_cost.max(self.tunables.migration_cost_ns.max(0) as u64);
        }
        rq.next_balance = next_balance;
        if idle == CpuIdleType::Idle && self.nohz.next_balance > next_balance {
            self.nohz.next_balance = next_balance;
        }
    }

    /// get_sd_balance_interval(), jiffies.
    fn sd_balance_interval(&self, cpu: usize, level: usize, idle: CpuIdleType) -> u64 {
        let hz = u64::from(self.tunables.hz);
        let rules = &self.balance_rules;
        let busy = idle != CpuIdleType::Idle && (rules.sched_idle_is_busy || !self.stats.sched_idle[cpu]);
        let mut interval_ms = self.sds[cpu][level].balance_interval_ms;
        if busy {
            interval_ms *= u64::from(self.topo.per_cpu[cpu][level].busy_factor);
        }
        // msecs_to_jiffies() rounds up; max_load_balance_interval is a tenth of a second a CPU.
        let max = (hz * self.nr_online_cpus / 10).max(1);
        let shortened_by = if busy { rules.busy_interval_shortened_by } else { 0 };
        (interval_ms * hz).div_ceil(1000).saturating_sub(shortened_by).clamp(1, max)
    }

    /// newidle_balance(): before the CPU goes idle, tries to find it work. True if it has some now.
    pub(super) fn newidle_balance(&mut self, cpu: usize) -> bool {
        let topo = self.topo;
        self.rqs[cpu].idle_stamp = self.rqs[cpu].clock;
        if topo.per_cpu[cpu].is_empty() {
            return false;
        }
        let (jiffies, hz) = (self.jiffies(), u64::from(self.tunables.hz));
        let mut next_balance = jiffies + hz;
        let mut pulled = 0;
        let rules = self.balance_rules;
        let avg_idle = self.rqs[cpu].avg_idle;
        let too_short = if rules.newidle_needs_migration_cost {
            (avg_idle as i64) < self.tunables.migration_cost_ns
        } else {
            avg_idle < self.sds[cpu][0].max_newidle_lb_cost
        };
        if too_short || !self.overload {
            self.update_next_balance(cpu, 0, &mut next_balance);
            if !rules.ages_tickless_after_newidle {
                self.nohz_newidle_balance(cpu);
            }
        } else {
            self.update_blocked_averages(cpu);
            let mut curr_cost = 0;
            for level in 0..topo.per_cpu[cpu].len() {
                let mut continue_balancing = true;
                if self.rqs[cpu].avg_idle < curr_cost + self.sds[cpu][level].max_newidle_lb_cost {
                    self.update_next_balance(cpu, level, &mut next_balance);
                    break;
                }
                if topo.per_cpu[cpu][level].flags.has(SdFlags::BALANCE_NEWIDLE) {
                    let roll = self.newidle_dice.below(u64::from(NEWIDLE_CALLS)) as u32;
                    let ratio = self.sds[cpu][level].newidle_ratio;
                    let Some(weight) = (self.kernel.balance.newidle_weight.f)(ratio, roll) else {
                        self.sds[cpu][level].note_newidle(0);
                        continue;
                    };
                    let before = self.rqs[cpu].overhead_ns;
                    pulled = self.load_balance(cpu, level, CpuIdleType::NewlyIdle, &mut continue_balancing);
                    let domain_cost = self.rqs[cpu].overhead_ns - before;
                    let sd = &mut self.sds[cpu][level];
                    sd.note_newidle(if pulled > 0 { weight } else { 0 });
                    if domain_cost > sd.max_newidle_lb_cost {
                        sd.max_newidle_lb_cost = domain_cost;
                        if rules.raised_cost_delays_decay {
                            sd.next_decay_max_lb_cost = jiffies + hz;
                        }
                    }
                    curr_cost += domain_cost;
                }
                self.update_next_balance(cpu, level, &mut next_balance);
                if pulled > 0 || self.rqs[cpu].cfs.h_nr_running > 0 || !continue_balancing {
                    break;
                }
            }
            let rq = &mut self.rqs[cpu];
            rq.max_idle_balance_cost = rq.max_idle_balance_cost.max(curr_cost);
        }
        let rq = &mut self.rqs[cpu];
        rq.next_balance = rq.next_balance.min(next_balance);
        let found = pulled > 0 || rq.cfs.h_nr_running > 0;
        if found {
            rq.idle_stamp = 0;
        } else if rules.ages_tickless_after_newidle {
            self.nohz_newidle_balance(cpu);
        }
        found
    }

    /// update_next_balance(): an idle CPU looks at the domain again after its idle interval.
    fn update_next_balance(&self, cpu: usize, level: usize, next_balance: &mut u64) {
        let interval = self.sd_balance_interval(cpu, level, CpuIdleType::Idle);
        *next_balance = (*next_balance).min(self.sds[cpu][level].last_balance + interval);
    }

    /// load_balance(): pulls to `cpu` from the busiest CPU of the busiest group of one domain; tasks moved.
    fn load_balance(
        &mut self,
        cpu: usize,
        level: usize,
        idle: CpuIdleType,
        continue_balancing: &mut bool,
    ) -> u32 {
        let sd = &self.topo.per_cpu[cpu][level];
        self.record.lb_count(cpu, level, idle);
        self.log_pass_begins(cpu, level, idle);
        let mut excluded: Option<CpuMask> = None;
        let mut ld_moved = 0;
        let mut all_pinned = false;
        // Whether a failure of this pass counts.
        let mut counts = idle != CpuIdleType::NewlyIdle;
        let outcome = loop {
            // One try: choose a group and a CPU in it, pull.
            self.refresh_nohz_stats(cpu, level, idle);
            if self.group_capacities.is_some() {
                self.refresh_group_capacity(cpu, level, idle);
            }
            let (mut env, group, source) = {
                let mut env = lb_env!(self, sd, cpu, level, idle, excluded);
                if !(env.kernel.balance.should_we_balance.f)(&env) {
                    *continue_balancing = false;
                    break Outcome::Balanced;
                }
                let group = (env.kernel.balance.find_busiest_group.f)(&mut env);
                let source = group.map(|group| (env.kernel.balance.find_busiest_queue.f)(&env, group));
                (PassState::of(&env), group, source)
            };
            self.log_groups(cpu, level, (env.migration_type, env.imbalance), group, source.flatten());
            self.after_group_statistics(cpu, level, sd.is_root, &env);
            let source = match source {
                None => {
                    self.record.domain(cpu, level).lb_nobusyg[idle_index(idle)] += 1;
                    break Outcome::Balanced;
                }
                Some(None) => {
                    self.record.domain(cpu, level).lb_nobusyq[idle_index(idle)] += 1;
                    break Outcome::Balanced;
                }
                Some(Some(source)) => source,
            };
            self.record.domain(cpu, level).lb_imbalance[idle_index(idle)] += env.imbalance as u64;
            env.src_cpu = source;
            all_pinned = false;
            counts = idle != CpuIdleType::NewlyIdle
                && (self.balance_rules.misfit_failure_counts || env.migration_type != MigrationType::Misfit);
            if self.rqs[source].nr_running() > 1 {
                env.scan = TaskScan {
                    loop_max: self.tunables.nr_migrate.min(self.rqs[source].nr_running()),
                    ..TaskScan::default()
                };
                ld_moved += self.pull_tasks(cpu, level, idle, &mut excluded, &mut env);
                all_pinned = env.scan.all_pinned;
                if env.scan.some_pinned && env.imbalance > 0 {
                    self.set_group_imbalance(cpu, level, true);
                }
                if all_pinned {
                    // Nothing on that CPU may come here: try the others, if any but the destination's group is left.
                    let excluded = excluded.get_or_insert_with(|| CpuMask::new(self.topo.nr_cpus));
                    excluded.set(source);
                    let local = &self.topo.groups[sd.ring[0]].span;
                    if sd.span.and_not(excluded).is_subset(local) {
                        break Outcome::AllPinned;
                    }
                    continue;
                }
            }
            if ld_moved > 0 {
                self.sds[cpu][level].nr_balance_failed = 0;
                self.sds[cpu][level].balance_interval_ms = sd.min_interval_ms;
                break Outcome::Done;
            }
            self.record.domain(cpu, level).lb_failed[idle_index(idle)] += 1;
            if counts {
                self.sds[cpu][level].nr_balance_failed += 1;
            }
            break self.consider_active_balance(cpu, level, idle, &excluded, &env);
        };
        let pass_cost = self.cost.balance_pass_ns
            + u64::from(sd.span_weight) * self.cost.balance_cpu_ns
            + u64::from(ld_moved) * self.cost.balance_move_ns;
        // Whoever balances pays, also on behalf of a tickless CPU.
        self.rqs[self.this_cpu].overhead_ns += pass_cost;
        self.log_pass_ends(match outcome {
            _ if !*continue_balancing => "not_designated",
            Outcome::Done if ld_moved > 0 => "pulled",
            Outcome::Done => "failed",
            Outcome::Balanced => "balanced",
            Outcome::AllPinned => "all_pinned",
            Outcome::OnePinned => "one_pinned",
        });
        if outcome == Outcome::Done {
            return ld_moved;
        }
        if outcome != Outcome::OnePinned {
            if outcome == Outcome::Balanced && !all_pinned {
                self.set_group_imbalance(cpu, level, false);
            }
            self.record.domain(cpu, level).lb_balanced[idle_index(idle)] += 1;
            self.sds[cpu][level].nr_balance_failed = 0;
        }
        let pinned = outcome == Outcome::OnePinned || all_pinned;
        let state = &mut self.sds[cpu][level];
        if counts
            && (pinned && state.balance_interval_ms < MAX_PINNED_INTERVAL_MS
                || state.balance_interval_ms < sd.max_interval_ms)
        {
            state.balance_interval_ms *= 2;
        }
        0
    }

    /// The pull itself, with its breaks and its other destinations: tasks moved.
    fn pull_tasks(
        &mut self,
        cpu: usize,
        level: usize,
        idle: CpuIdleType,
        excluded: &mut Option<CpuMask>,
        pass: &mut PassState,
    ) -> u32 {
        let sd = &self.topo.per_cpu[cpu][level];
        let mut moved = 0;
        loop {
            self.update_rq_clock(pass.src_cpu);
            let mut detached = std::mem::take(&mut self.detached);
            {
                self.update_h_load(pass.src_cpu);
                let running = self.running_task(pass.src_cpu);
                let virtual_clock = clock_of(&self.rqs[pass.src_cpu].cfs, self.entities());
                let mut queue =
                    src_queue!(self, pass.src_cpu, pass.dst_cpu, running, virtual_clock, detached);
                let mut env = lb_env!(self, sd, pass.dst_cpu, level, idle, *excluded);
                pass.put(&mut env);
                // The failures are this domain's, whichever CPU the tasks go to.
                env.nr_balance_failed = self.sds[cpu][level].nr_balance_failed;
                (env.kernel.balance.detach_tasks.f)(&mut env, &mut queue);
                *pass = PassState::of(&env);
            }
            for &task in &detached {
                // The scan took it off the list already; dequeue_task() expects it there.
                self.list_push_head(pass.src_cpu, task);
            }
            self.log_pull(&detached, pass.scan.refused);
            self.move_tasks(pass.src_cpu, pass.dst_cpu, &detached);
            self.record.pulled(cpu, level, idle, detached.len() as u64);
            moved += detached.len() as u32;
            detached.clear();
            self.detached = detached;

            if pass.scan.need_break {
                pass.scan.need_break = false;
                continue;
            }
            if pass.scan.dst_pinned && pass.imbalance > 0 {
                // Some task may not come here but may go to another CPU of the group: go on for that CPU.
                excluded.get_or_insert_with(|| CpuMask::new(self.topo.nr_cpus)).set(pass.dst_cpu);
                pass.dst_cpu = pass.scan.new_dst_cpu;
                pass.scan.dst_pinned = false;
                pass.scan.nr_looked_at = 0;
                pass.scan.loop_break = TaskScan::NR_MIGRATE_BREAK;
                continue;
            }
            return moved;
        }
    }

    /// detach_task() and attach_task() for each task that a pull took.
    pub(super) fn move_tasks(&mut self, src: usize, dst: usize, tasks: &[TaskId]) {
        for &task in tasks {
            self.detach_task(src, dst, task);
        }
        if !tasks.is_empty() {
            self.update_rq_clock(dst);
        }
        // Each detached task went to the head of the list that attach_tasks() takes from: the last comes first.
        for &task in tasks.iter().rev() {
            self.attach_task(dst, task);
        }
    }

    fn detach_task(&mut self, src: usize, dst: usize, task: TaskId) {
        self.dequeue_task(src, task, Why::Move);
        self.detach_entity(src, task);
        self.update_scan_period(task, dst);
        self.tasks[task as usize].cpu = dst as u16;
    }

    fn attach_task(&mut self, dst: usize, task: TaskId) {
        let waited_since = self.tasks[task as usize].queued_since_ns;
        self.enqueue_task(dst, task, Why::Move);
        self.tasks[task as usize].queued_since_ns = waited_since;
        self.check_preempt_curr(dst, task, false);
    }

    /// After a failed pull: whether to push the running task (need_active_balance() and what follows it).
    fn consider_active_balance(
        &mut self,
        cpu: usize,
        level: usize,
        idle: CpuIdleType,
        excluded: &Option<CpuMask>,
        pass: &PassState,
    ) -> Outcome {
        let sd = &self.topo.per_cpu[cpu][level];
        let source = pass.src_cpu;
        let (needed, voluntary) = {
            let mut env = lb_env!(self, sd, cpu, level, idle, *excluded);
            pass.put(&mut env);
            let needed = (env.kernel.balance.need_active_balance.f)(&env);
            (needed, (env.kernel.balance.voluntary_active_balance.f)(&env))
        };
        let mut kicked = false;
        if needed {
            let curr = self.rqs[source].curr;
            if curr != NO_TASK && !self.may_run_on(curr, cpu) {
                return Outcome::OnePinned;
            }
            if !self.rqs[source].active_balance {
                self.rqs[source].active_balance = true;
                self.rqs[source].push_cpu = cpu as u16;
                kicked = true;
                self.log_active_balance();
                self.send_interrupt(source, Interrupt::ActiveBalance);
            }
            if self.balance_rules.active_balance_raises_failures {
                // The next pull may take cache-hot tasks.
                self.sds[cpu][level].nr_balance_failed = sd.cache_nice_tries + 1;
            }
        }
        let state = &mut self.sds[cpu][level];
        if !kicked || voluntary {
            state.balance_interval_ms = sd.min_interval_ms;
        } else if state.balance_interval_ms < sd.max_interval_ms {
            state.balance_interval_ms *= 2;
        }
        Outcome::Done
    }

    /// active_load_balance_cpu_stop(): the stopper has taken the CPU; a task, likely the one that ran, is pushed.
    pub(super) fn active_load_balance(&mut self, cpu: usize) {
        let target = usize::from(self.rqs[cpu].push_cpu);
        self.rqs[cpu].active_balance = false;
        let level = self.topo.per_cpu[target].iter().position(|sd| sd.span.test(cpu));
        let Some(level) = level.filter(|_| self.rqs[cpu].nr_running() > 0) else { return };
        let sd = &self.topo.per_cpu[target][level];
        self.record.domain(target, level).alb_count += 1;
        self.update_rq_clock(cpu);
        let found = {
            self.update_h_load(cpu);
            let virtual_clock = clock_of(&self.rqs[cpu].cfs, self.entities());
            let mut detached = std::mem::take(&mut self.detached);
            let queue = src_queue!(self, cpu, target, NO_TASK, virtual_clock, detached);
            let none = None;
            let mut env = lb_env!(self, sd, target, level, CpuIdleType::Idle, none);
            env.src_cpu = cpu;
            env.scan.dst_pinned = true;
            env.scan.active_lb = true;
            // detach_one_task(): the first from the tail that may go.
            let mut candidate = queue.tail();
            let found = loop {
                let Some(task) = candidate else { break None };
                let view = queue.view(task);
                if (env.kernel.balance.can_migrate_task.f)(&mut env, &view) {
                    break Some(task);
                }
                candidate = queue.towards_head(task);
            };
            self.detached = detached;
            found
        };
        self.log_push(cpu, target, found);
        match found {
            Some(task) => {
                self.detach_task(cpu, target, task);
                self.update_rq_clock(target);
                self.attach_task(target, task);
                self.record.metrics.migrations_active += 1;
                self.record.domain(target, level).alb_pushed += 1;
                self.sds[target][level].nr_balance_failed = 0;
            }
            None => self.record.domain(target, level).alb_failed += 1,
        }
        self.rqs[cpu].overhead_ns += self.cost.active_balance_ns;
    }

    /// What update_sd_lb_stats() leaves in the root domain, and the record of the groups' classes.
    fn after_group_statistics(&mut self, cpu: usize, level: usize, is_root: bool, pass: &PassState) {
        if is_root {
            self.overload = pass.overload;
        }
        if let Some(nr_idle_scan) = pass.nr_idle_scan {
            self.nr_idle_scan[self.topo.llc_id[cpu]] = nr_idle_scan;
        }
        for stats in &self.sg_stats {
            self.record.classification(cpu, level, stats);
        }
    }

    /// The affinity-imbalance flag that a pass over this level leaves in the parent's local group.
    fn set_group_imbalance(&mut self, cpu: usize, level: usize, imbalance: bool) {
        if let Some(parent) = self.topo.per_cpu[cpu].get(level + 1) {
            let sgc = self.topo.groups[parent.ring[0]].sgc;
            self.sgc_imbalance[sgc] = imbalance;
        }
    }

    /// update_blocked_averages(): ages the queue's signals although nothing happens on it.
    pub(super) fn update_blocked_averages(&mut self, cpu: usize) {
        self.update_rq_clock(cpu);
        self.update_blocked_groups(cpu);
        self.update_cfs_rq_load_avg(QueueId::root(cpu));
        if self.group_capacities.is_some() {
            self.update_rt_avg(cpu, self.rqs[cpu].rt.curr != NO_TASK);
        }
        let jiffies = self.jiffies();
        let rq = &mut self.rqs[cpu];
        rq.last_blocked_load_update_tick = jiffies;
        if (rq.cfs.avg.load_avg, rq.cfs.avg.util_avg, rq.rt.avg.util_avg) == (0, 0, 0) {
            rq.has_blocked_load = false;
        }
    }
}

/// How a balance pass ended (the labels at the end of load_balance()).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Pulled, or tried and failed.
    Done,
    /// Nothing to do (`out_balanced`).
    Balanced,
    /// Affinity forbids every pull (`out_all_pinned`).
    AllPinned,
    /// The running task may not be pushed here (`out_one_pinned`).
    OnePinned,
}

/// The part of [`LbEnv`] that outlives one decision: the environment itself borrows the simulation.
#[derive(Clone, Copy)]
pub(super) struct PassState {
    dst_cpu: usize,
    src_cpu: usize,
    pub(super) imbalance: i64,
    pub(super) migration_type: MigrationType,
    fbq_type: crate::kernels::env::FbqType,
    src_grp_type: GroupType,
    nr_idle_scan: Option<u32>,
    overload: bool,
    scan: TaskScan,
}

impl PassState {
    fn of(env: &LbEnv<'_>) -> Self {
        Self {
            dst_cpu: env.dst_cpu,
            src_cpu: env.src_cpu,
            imbalance: env.imbalance,
            migration_type: env.migration_type,
            fbq_type: env.fbq_type,
            src_grp_type: env.src_grp_type,
            nr_idle_scan: env.nr_idle_scan,
            overload: env.overload,
            scan: env.scan,
        }
    }

    fn put(&self, env: &mut LbEnv<'_>) {
        env.src_cpu = self.src_cpu;
        env.imbalance = self.imbalance;
        env.migration_type = self.migration_type;
        env.fbq_type = self.fbq_type;
        env.src_grp_type = self.src_grp_type;
        env.scan = self.scan;
    }
}

/// Position of an idle type in the tables of /proc/schedstat, version 15: idle, busy, newly idle.
pub(crate) fn idle_index(idle: CpuIdleType) -> usize {
    match idle {
        CpuIdleType::Idle => 0,
        CpuIdleType::NotIdle => 1,
        CpuIdleType::NewlyIdle => 2,
    }
}
