//! CPU bandwidth of task groups (`cpu.max`): a pool of runtime that each period refills, slices of it on the CPUs, and
//! queues that are throttled, that is off their CPU with all that is in them, when both are used up.
//!
//! kernel/sched/fair.c, the functions under CONFIG_CFS_BANDWIDTH; what generations do differently is in
//! [`GroupRules`](crate::kernels::groups::GroupRules).
//!
//! # Deviates
//! The kernel throttles a queue while its running entity is still the current one, and puts that back afterwards; here the
//! entity is put back first, at the same time. A throttled queue's PELT clock stops by the clock that PELT has in every
//! generation; before 5.19 it stopped by the task clock, which is ahead on small CPUs. Timers are never late, so that no
//! period is too short to handle.

use std::cmp::Reverse;

use super::groups::{GroupId, QueueId, ROOT_GROUP, TaskGroups};
use super::rq::{EntityId, Interrupt, NO_TASK, TaskId};
use super::{Sim, fair::Why};
use crate::pelt::PeltForm;
use crate::record::CpuStat;
use crate::workload::BandwidthSpec;

/// What a queue keeps of its slice when its last entity leaves, ns (`min_cfs_rq_runtime`).
const MIN_CFS_RQ_RUNTIME_NS: u64 = 1_000_000;
/// How long returned runtime waits for more, ns (`cfs_bandwidth_slack_period`).
const SLACK_PERIOD_NS: u64 = 5_000_000;
/// A refill so near makes handing out slack not worthwhile, ns (`min_bandwidth_expiration`).
const MIN_BANDWIDTH_EXPIRATION_NS: u64 = 2_000_000;
/// Timers of a group: its period's, its slack's.
const NR_TIMERS: u32 = 2;

/// `struct cfs_bandwidth`: a group's pool.
#[derive(Clone, Debug)]
pub struct CfsBandwidth {
    /// What it may have.
    pub spec: BandwidthSpec,
    /// `runtime`: what is left of it in this period, ns.
    pub runtime_ns: u64,
    /// `runtime_snap`: the same just after the last refill, ns.
    runtime_snap_ns: u64,
    /// `idle`: nobody has asked for runtime since the last refill.
    idle: bool,
    /// `period_active`: the period's timer runs.
    period_active: bool,
    /// `slack_started`: the slack's timer runs.
    slack_started: bool,
    /// When the period's timer expires, or expired last, ns.
    pub period_expires_ns: u64,
    /// CPUs that the timers interrupt.
    timer_cpu: [u16; NR_TIMERS as usize],
    /// `throttled_cfs_rq`: CPUs on which the group is throttled, the first one longest.
    pub throttled: Vec<u16>,
    /// `nr_periods`, `nr_throttled`, `nr_burst`, `burst_time` and `throttled_time` so far.
    stat: CpuStat,
}

impl CfsBandwidth {
    /// init_cfs_bandwidth() and tg_set_cfs_bandwidth(): a full pool on a machine of so many CPUs.
    pub fn new(spec: BandwidthSpec, first_expiry_ns: u64, nr_cpus: usize) -> Self {
        Self {
            spec,
            runtime_ns: spec.quota_ns,
            runtime_snap_ns: spec.quota_ns,
            idle: false,
            period_active: false,
            slack_started: false,
            period_expires_ns: first_expiry_ns,
            timer_cpu: [0; NR_TIMERS as usize],
            throttled: Vec::with_capacity(nr_cpus),
            stat: CpuStat::default(),
        }
    }

    /// __refill_cfs_bandwidth_runtime().
    fn refill(&mut self) {
        let BandwidthSpec { quota_ns, burst_ns, .. } = self.spec;
        self.runtime_ns += quota_ns;
        if let Some(burst_ns) = self.runtime_snap_ns.checked_sub(self.runtime_ns).filter(|&ns| ns > 0) {
            self.stat.burst_ns += burst_ns;
            self.stat.nr_bursts += 1;
        }
        self.runtime_ns = self.runtime_ns.min(quota_ns + burst_ns);
        self.runtime_snap_ns = self.runtime_ns;
    }

    /// runtime_refresh_within().
    fn refreshes_within(&self, now: u64, span_ns: u64) -> bool {
        self.period_active && self.period_expires_ns < now + span_ns
    }
}

/// What a group's queue has of bandwidth, as part of `struct cfs_rq`.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueBandwidth {
    /// `runtime_enabled`: its group has a quota.
    pub runtime_enabled: bool,
    /// `throttled`.
    pub throttled: bool,
    /// An interrupt to put it back is on its way (`throttled_csd_list`).
    pub csd_pending: bool,
    /// `throttle_count`: how many of it and the groups above are throttled here.
    pub throttle_count: u32,
    /// `runtime_remaining`, ns: of its slice; below 0 if it ran for longer.
    pub runtime_remaining: i64,
    /// `throttled_clock`, 0 = none.
    pub throttled_clock: u64,
    /// `throttled_clock_pelt`: where its PELT clock stands while it is throttled.
    pub throttled_clock_pelt: u64,
    /// `throttled_clock_pelt_time`: for how long it stood so far.
    pub throttled_clock_pelt_time: u64,
}

impl TaskGroups {
    /// Whether a queue may have to do with bandwidth at all: the branch that runs without quotas pay for.
    #[inline]
    fn may_be_limited(&self, queue: QueueId) -> bool {
        self.bandwidth_used && queue.group != ROOT_GROUP
    }

    /// cfs_rq_throttled().
    #[inline]
    pub fn throttled(&self, queue: QueueId) -> bool {
        self.bandwidth_used && queue.group != ROOT_GROUP && self.queues[self.index(queue)].bandwidth.throttled
    }

    /// throttled_hierarchy().
    #[inline]
    pub fn throttled_hierarchy(&self, queue: QueueId) -> bool {
        self.may_be_limited(queue) && self.queues[self.index(queue)].bandwidth.throttle_count > 0
    }

    /// throttled_lb_pair(): whether a task of this queue may not be moved to another CPU for throttling's sake.
    #[inline]
    pub fn throttled_lb_pair(&self, queue: QueueId, dst_cpu: u16) -> bool {
        self.throttled_hierarchy(queue) || self.throttled_hierarchy(QueueId { cpu: dst_cpu, ..queue })
    }

    /// Whether a group is another one or below it.
    fn is_within(&self, mut group: GroupId, top: GroupId) -> bool {
        while group > top {
            group = self.groups[usize::from(group)].parent;
        }
        group == top
    }
}

impl Sim<'_> {
    /// cfs_rq_clock_pelt(): the clock of a queue's signals, which stands while the queue is throttled.
    #[inline]
    pub(super) fn cfs_rq_clock_pelt(&self, queue: QueueId) -> u64 {
        let rq = &self.rqs[usize::from(queue.cpu)];
        let clock = rq.clock_pelt - rq.lost_idle_time;
        if !self.groups.may_be_limited(queue) {
            return clock;
        }
        let bandwidth = &self.groups.queues[self.groups.index(queue)].bandwidth;
        let clock = if bandwidth.throttle_count > 0 { bandwidth.throttled_clock_pelt } else { clock };
        clock - bandwidth.throttled_clock_pelt_time
    }

    /// account_cfs_rq_runtime(): time that a queue's entity ran comes off its slice; a new slice, or the CPU is to be given up.
    #[inline]
    pub(super) fn account_cfs_rq_runtime(&mut self, queue: QueueId, delta_exec: u64) {
        if self.groups.may_be_limited(queue) {
            self.account_cfs_rq_runtime_of_group(queue, delta_exec);
        }
    }

    #[inline(never)]
    fn account_cfs_rq_runtime_of_group(&mut self, queue: QueueId, delta_exec: u64) {
        let index = self.groups.index(queue);
        let bandwidth = &mut self.groups.queues[index].bandwidth;
        if !bandwidth.runtime_enabled {
            return;
        }
        bandwidth.runtime_remaining -= delta_exec as i64;
        if bandwidth.runtime_remaining > 0 || bandwidth.throttled {
            return;
        }
        let slice_ns = self.tunables.cfs_bandwidth_slice_ns;
        if !self.assign_cfs_rq_runtime(queue, slice_ns) && self.entities().cfs(queue).curr != NO_TASK {
            self.resched_curr(usize::from(queue.cpu));
        }
    }

    /// __assign_cfs_rq_runtime(): takes from the pool until the queue has so much. True if it has any.
    fn assign_cfs_rq_runtime(&mut self, queue: QueueId, target_ns: u64) -> bool {
        self.start_cfs_bandwidth(queue.group);
        let index = self.groups.index(queue);
        let remaining = &mut self.groups.queues[index].bandwidth.runtime_remaining;
        let Some(pool) = &mut self.groups.groups[usize::from(queue.group)].bandwidth else { return true };
        if pool.runtime_ns > 0 {
            let amount = pool.runtime_ns.min((target_ns as i64 - *remaining) as u64);
            pool.runtime_ns -= amount;
            pool.idle = false;
            *remaining += amount as i64;
        }
        *remaining > 0
    }

    /// check_enqueue_throttle(): the first entity of a queue may find its group's runtime used up.
    #[inline]
    pub(super) fn check_enqueue_throttle(&mut self, queue: QueueId) {
        if self.groups.may_be_limited(queue) {
            self.check_enqueue_throttle_of_group(queue);
        }
    }

    #[inline(never)]
    fn check_enqueue_throttle_of_group(&mut self, queue: QueueId) {
        let index = self.groups.index(queue);
        let below = &self.groups.queues[index];
        // A running group is dealt with when its entity is put back.
        if below.cfs.nr_running != 1 || below.cfs.curr != NO_TASK || !below.bandwidth.runtime_enabled {
            return;
        }
        if !below.bandwidth.throttled {
            self.account_cfs_rq_runtime(queue, 0);
            if self.groups.queues[index].bandwidth.runtime_remaining <= 0 {
                self.throttle_cfs_rq(queue);
            }
        } else if below.bandwidth.throttled_clock == 0 {
            let clock = self.rqs[usize::from(queue.cpu)].clock;
            self.groups.queues[index].bandwidth.throttled_clock = clock;
        }
    }

    /// check_cfs_rq_runtime() of a queue that no entity runs in: throttles it if its runtime is used up.
    #[inline]
    pub(super) fn check_cfs_rq_runtime(&mut self, queue: QueueId) {
        if self.is_out_of_runtime(queue) && !self.groups.throttled(queue) {
            self.throttle_cfs_rq(queue);
        }
    }

    /// check_cfs_rq_runtime() of a queue that is about to be picked from. True if it is throttled: the pick starts anew, and
    /// whoever ran has been put back.
    #[inline]
    pub(super) fn throttled_at_pick(&mut self, queue: QueueId) -> bool {
        if !self.is_out_of_runtime(queue) {
            return false;
        }
        if self.group_rules.throttle_asks_again && self.assign_cfs_rq_runtime(queue, 1) {
            return false;
        }
        self.put_prev_task(usize::from(queue.cpu));
        self.check_cfs_rq_runtime(queue);
        true
    }

    /// put_prev_entity() of queues that the task which gives up the CPU has left: their runtime may be used up.
    pub(super) fn check_queues_left(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        if curr == NO_TASK {
            return;
        }
        let mut level = Some(self.task_cfs_rq(cpu, curr));
        while let Some(queue) = level {
            if self.entities().cfs(queue).curr == NO_TASK {
                self.check_cfs_rq_runtime(queue);
            }
            level = self.groups.parent(queue).map(|(above, _)| above);
        }
    }

    #[inline]
    fn is_out_of_runtime(&self, queue: QueueId) -> bool {
        if !self.groups.may_be_limited(queue) {
            return false;
        }
        let bandwidth = &self.groups.queues[self.groups.index(queue)].bandwidth;
        bandwidth.runtime_enabled && bandwidth.runtime_remaining <= 0
    }

    /// throttle_cfs_rq(): the queue's entity leaves the CPU, and with it all that is below.
    fn throttle_cfs_rq(&mut self, queue: QueueId) {
        let rules = self.group_rules;
        let group = usize::from(queue.group);
        if rules.throttle_asks_again {
            if self.assign_cfs_rq_runtime(queue, 1) {
                return;
            }
        } else if self.groups.groups[group].bandwidth.as_ref().is_some_and(|pool| pool.throttled.is_empty()) {
            self.start_cfs_bandwidth(queue.group);
        }
        if let Some(pool) = &mut self.groups.groups[group].bandwidth {
            pool.throttled.push(queue.cpu);
        }
        self.tg_throttle_down(queue);
        let index = self.groups.index(queue);
        let cfs = &self.groups.queues[index].cfs;
        let has_tasks = cfs.nr_running > 0;
        let (tasks, mut idle) = (cfs.h_nr_running as i32, cfs.idle_h_nr_running as i32);
        let mut dequeues = true;
        let mut below = queue;
        while let Some((above, entity)) = self.groups.parent(below) {
            // A group above is throttled, too, or this one is being emptied.
            if !self.se(entity).on_rq {
                break;
            }
            if dequeues {
                self.dequeue_group(above, entity);
            } else {
                self.update_group_runnable(above, entity);
            }
            idle = self.idle_above(below, tasks, idle);
            self.count_tasks(above, -tasks, -idle);
            dequeues &= self.entities().cfs(above).load.weight == 0;
            below = above;
        }
        if below.group == ROOT_GROUP {
            self.nr_running_changed(usize::from(queue.cpu));
        }
        let clock = self.rqs[usize::from(queue.cpu)].clock;
        let bandwidth = &mut self.groups.queues[index].bandwidth;
        bandwidth.throttled = true;
        if has_tasks || !rules.throttled_time_needs_tasks {
            bandwidth.throttled_clock = clock;
        }
    }

    /// unthrottle_cfs_rq(): the queue's entity comes back, with all that is below.
    fn unthrottle_cfs_rq(&mut self, queue: QueueId) {
        let cpu = usize::from(queue.cpu);
        self.update_rq_clock(cpu);
        let index = self.groups.index(queue);
        let bandwidth = &mut self.groups.queues[index].bandwidth;
        bandwidth.throttled = false;
        let since = std::mem::take(&mut bandwidth.throttled_clock);
        if let Some(pool) = &mut self.groups.groups[usize::from(queue.group)].bandwidth {
            pool.throttled.retain(|&other| other != queue.cpu);
            if since != 0 {
                pool.stat.throttled_ns += self.rqs[cpu].clock - since;
            }
        }
        self.tg_unthrottle_up(queue);
        let cfs = &self.groups.queues[index].cfs;
        if cfs.load.weight == 0 {
            return;
        }
        let (tasks, mut idle) = (cfs.h_nr_running as i32, cfs.idle_h_nr_running as i32);
        let mut enqueues = true;
        let mut below = queue;
        while let Some((above, entity)) = self.groups.parent(below) {
            let (on_rq, delayed) = (self.se(entity).on_rq, self.se(entity).sched_delayed);
            enqueues &= !on_rq || delayed;
            if enqueues {
                if delayed {
                    self.dequeue_group(above, entity);
                }
                self.enqueue_entity(above, entity, Why::Sleep);
            } else {
                self.update_group_runnable(above, entity);
            }
            idle = self.idle_above(below, tasks, idle);
            self.count_tasks(above, tasks, idle);
            below = above;
            if self.groups.throttled(above) {
                break;
            }
        }
        if below.group == ROOT_GROUP {
            self.nr_running_changed(cpu);
        }
        if self.rqs[cpu].curr == NO_TASK && self.rqs[cpu].cfs.nr_running > 0 {
            self.resched_curr(cpu);
        }
    }

    /// dequeue_entity() of a group's entity, now, though its dequeue was or would be delayed.
    fn dequeue_group(&mut self, queue: QueueId, entity: EntityId) {
        let delayed = self.se(entity).sched_delayed;
        self.dequeue_entity(queue, entity, Why::Sleep);
        if delayed {
            self.clear_delayed(entity);
        }
    }

    /// update_load_avg() and se_update_runnable() of a group's entity that stays where it is; the old form does neither.
    fn update_group_runnable(&mut self, queue: QueueId, entity: EntityId) {
        if self.pelt_form == PeltForm::Modern {
            self.update_load_avg(queue, entity, false);
            if let Some(below) = self.groups.group_cfs_rq(entity) {
                let runnable_weight = u64::from(self.entities().cfs(below).h_nr_running);
                self.se_mut(entity).runnable_weight = runnable_weight;
            }
        }
    }

    /// tg_throttle_down() of the group and those below it: their PELT clocks stop.
    fn tg_throttle_down(&mut self, top: QueueId) {
        let rq = &self.rqs[usize::from(top.cpu)];
        let clock = rq.clock_pelt - rq.lost_idle_time;
        for group in top.group..self.groups.groups.len() as GroupId {
            if self.groups.is_within(group, top.group) {
                let index = self.groups.index(QueueId { group, ..top });
                let bandwidth = &mut self.groups.queues[index].bandwidth;
                if bandwidth.throttle_count == 0 {
                    bandwidth.throttled_clock_pelt = clock;
                }
                bandwidth.throttle_count += 1;
            }
        }
    }

    /// tg_unthrottle_up() of the group and those below it: their PELT clocks go on where they stopped.
    fn tg_unthrottle_up(&mut self, top: QueueId) {
        let rq = &self.rqs[usize::from(top.cpu)];
        let clock = rq.clock_pelt - rq.lost_idle_time;
        for group in top.group..self.groups.groups.len() as GroupId {
            if self.groups.is_within(group, top.group) {
                let index = self.groups.index(QueueId { group, ..top });
                let bandwidth = &mut self.groups.queues[index].bandwidth;
                bandwidth.throttle_count -= 1;
                if bandwidth.throttle_count == 0 {
                    bandwidth.throttled_clock_pelt_time += clock - bandwidth.throttled_clock_pelt;
                }
            }
        }
    }

    /// return_cfs_rq_runtime(): a queue that its last entity leaves gives back what it has beyond a millisecond.
    #[inline]
    pub(super) fn return_cfs_rq_runtime(&mut self, queue: QueueId) {
        if self.groups.may_be_limited(queue) {
            self.return_cfs_rq_runtime_of_group(queue);
        }
    }

    #[inline(never)]
    fn return_cfs_rq_runtime_of_group(&mut self, queue: QueueId) {
        let index = self.groups.index(queue);
        let below = &mut self.groups.queues[index];
        if !below.bandwidth.runtime_enabled || below.cfs.nr_running > 0 {
            return;
        }
        let slack_ns = below.bandwidth.runtime_remaining - MIN_CFS_RQ_RUNTIME_NS as i64;
        if slack_ns <= 0 {
            return;
        }
        below.bandwidth.runtime_remaining -= slack_ns;
        let slice_ns = self.tunables.cfs_bandwidth_slice_ns;
        let Some(pool) = &mut self.groups.groups[usize::from(queue.group)].bandwidth else { return };
        pool.runtime_ns += slack_ns as u64;
        if pool.runtime_ns > slice_ns && !pool.throttled.is_empty() {
            self.start_cfs_slack_bandwidth(queue.group);
        }
    }

    /// start_cfs_bandwidth(): the period's timer runs on from this CPU, in step with the periods before.
    fn start_cfs_bandwidth(&mut self, group: GroupId) {
        let (now, cpu) = (self.now, self.this_cpu as u16);
        let Some(pool) = &mut self.groups.groups[usize::from(group)].bandwidth else { return };
        if pool.period_active {
            return;
        }
        pool.period_active = true;
        // hrtimer_forward_now(): the first expiry after now.
        if let Some(late_ns) = now.checked_sub(pool.period_expires_ns) {
            let period_ns = pool.spec.period_ns;
            pool.period_expires_ns += (late_ns / period_ns + 1) * period_ns;
        }
        pool.timer_cpu[Timer::Period as usize] = cpu;
        let expires_ns = pool.period_expires_ns;
        self.start_timer(group, Timer::Period, expires_ns);
    }

    /// start_cfs_slack_bandwidth(): what was given back is handed out a little later, unless a refill is near.
    fn start_cfs_slack_bandwidth(&mut self, group: GroupId) {
        let (now, cpu) = (self.now, self.this_cpu as u16);
        let Some(pool) = &mut self.groups.groups[usize::from(group)].bandwidth else { return };
        let near_ns = SLACK_PERIOD_NS + MIN_BANDWIDTH_EXPIRATION_NS;
        if pool.slack_started || pool.refreshes_within(now, near_ns) {
            return;
        }
        pool.slack_started = true;
        pool.timer_cpu[Timer::Slack as usize] = cpu;
        self.start_timer(group, Timer::Slack, now + SLACK_PERIOD_NS);
    }

    fn start_timer(&mut self, group: GroupId, timer: Timer, expires_ns: u64) {
        let number = u32::from(group) * NR_TIMERS + timer as u32;
        self.timers.push(Reverse((expires_ns, self.groups.first_timer + number)));
    }

    /// A group's timer has expired, and interrupts the CPU that started it.
    pub(super) fn bandwidth_timer(&mut self, id: TaskId) {
        let number = id - self.groups.first_timer;
        let (group, timer) = ((number / NR_TIMERS) as GroupId, number % NR_TIMERS);
        let Some(pool) = &self.groups.groups[usize::from(group)].bandwidth else { return };
        let cpu = usize::from(pool.timer_cpu[timer as usize]);
        self.this_cpu = cpu;
        if self.rqs[cpu].curr == NO_TASK {
            self.rqs[cpu].overhead_ns += self.cost.idle_exit_ns;
        }
        if timer == Timer::Period as u32 {
            self.period_timer(group);
        } else {
            self.slack_timer(group);
        }
        self.leave(cpu);
    }

    /// sched_cfs_period_timer() and do_sched_cfs_period_timer(): a new period; a group idle for a whole one stops its timer.
    fn period_timer(&mut self, group: GroupId) {
        let refills_first = self.group_rules.has_burst;
        let Some(pool) = &mut self.groups.groups[usize::from(group)].bandwidth else { return };
        pool.period_expires_ns += pool.spec.period_ns;
        pool.stat.nr_periods += 1;
        let throttled = !pool.throttled.is_empty();
        let stops = pool.idle && !throttled;
        if refills_first || !stops {
            pool.refill();
        }
        if stops {
            pool.period_active = false;
            return;
        }
        pool.idle = !throttled;
        pool.stat.nr_throttled += u64::from(throttled);
        let expires_ns = pool.period_expires_ns;
        self.start_timer(group, Timer::Period, expires_ns);
        if throttled {
            self.distribute_cfs_runtime(group);
        }
    }

    /// do_sched_cfs_slack_timer(): hands out what was given back.
    fn slack_timer(&mut self, group: GroupId) {
        let (now, slice_ns) = (self.now, self.tunables.cfs_bandwidth_slice_ns);
        let Some(pool) = &mut self.groups.groups[usize::from(group)].bandwidth else { return };
        pool.slack_started = false;
        if pool.refreshes_within(now, MIN_BANDWIDTH_EXPIRATION_NS) || pool.runtime_ns <= slice_ns {
            return;
        }
        self.distribute_cfs_runtime(group);
    }

    /// distribute_cfs_runtime(): what throttled queues lack comes from the pool, those first that were throttled first.
    fn distribute_cfs_runtime(&mut self, group: GroupId) {
        let by_interrupt = self.group_rules.unthrottles_by_interrupt;
        let mut local = None;
        let mut at = 0;
        while let Some(pool) = &mut self.groups.groups[usize::from(group)].bandwidth {
            let Some(&cpu) = pool.throttled.get(at).filter(|_| pool.runtime_ns > 0) else { break };
            let queue = QueueId { cpu, group };
            let index = (usize::from(group) - 1) * self.groups.nr_cpus + usize::from(cpu);
            let bandwidth = &mut self.groups.queues[index].bandwidth;
            at += 1;
            if bandwidth.csd_pending {
                continue;
            }
            // Enough for it to have a nanosecond; it will ask for a slice itself.
            let runtime_ns = ((1 - bandwidth.runtime_remaining) as u64).min(pool.runtime_ns);
            pool.runtime_ns -= runtime_ns;
            bandwidth.runtime_remaining += runtime_ns as i64;
            if bandwidth.runtime_remaining <= 0 {
                continue;
            }
            if !by_interrupt {
                // It leaves the list.
                at -= 1;
                self.unthrottle_cfs_rq(queue);
            } else if usize::from(cpu) == self.this_cpu {
                local = Some(queue);
            } else {
                bandwidth.csd_pending = true;
                self.unthrottle_cfs_rq_async(queue);
            }
        }
        if let Some(queue) = local {
            self.unthrottle_cfs_rq(queue);
        }
    }

    /// __unthrottle_cfs_rq_async(): another CPU is to put its queue back; one interrupt serves all that wait by then.
    fn unthrottle_cfs_rq_async(&mut self, queue: QueueId) {
        let cpu = usize::from(queue.cpu);
        if !self.rqs[cpu].pending.iter().any(|&(_, interrupt)| interrupt == Interrupt::Unthrottle) {
            self.send_interrupt(cpu, Interrupt::Unthrottle);
        }
    }

    /// __cfsb_csd_unthrottle(): the interrupt has arrived.
    ///
    /// # Deviates
    /// The kernel's list is in order of arrival, this is in that of groups.
    pub(super) fn cfsb_csd_unthrottle(&mut self, cpu: usize) {
        for group in 1..self.groups.groups.len() as GroupId {
            let queue = QueueId { cpu: cpu as u16, group };
            let index = self.groups.index(queue);
            let bandwidth = &mut self.groups.queues[index].bandwidth;
            if std::mem::take(&mut bandwidth.csd_pending) && bandwidth.throttled {
                self.unthrottle_cfs_rq(queue);
            }
        }
    }

    /// cpu.stat of every group but the root, by group; as in the kernel, throttled time counts once it is over.
    pub(super) fn cpu_stat(&self) -> Vec<CpuStat> {
        (1..self.groups.groups.len() as GroupId).map(|group| self.cpu_stat_of(group)).collect()
    }

    fn cpu_stat_of(&self, group: GroupId) -> CpuStat {
        let pool = self.groups.groups[usize::from(group)].bandwidth.as_ref();
        let mut stat = pool.map_or_else(CpuStat::default, |pool| pool.stat.clone());
        for cpu in 0..self.groups.nr_cpus {
            let queue = QueueId { cpu: cpu as u16, group };
            let Some((above, entity)) = self.groups.parent(queue) else { continue };
            let se = self.se(entity);
            stat.usage_ns += se.sum_exec_runtime;
            if self.entities().cfs(above).curr == entity {
                stat.usage_ns += self.now.saturating_sub(se.exec_start);
            }
        }
        stat
    }
}

/// A group's timers.
#[derive(Clone, Copy)]
enum Timer {
    /// `period_timer`.
    Period,
    /// `slack_timer`.
    Slack,
}
