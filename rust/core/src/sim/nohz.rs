//! Tickless idle CPUs: who balances for them, and when their blocked load decays.
//!
//! kernel/sched/fair.c, nohz_balancer_kick(), nohz_idle_balance(), nohz_newidle_balance().

use super::Sim;
use super::rq::Interrupt;
use crate::cpumask::CpuMask;
use crate::kernels::env::{CpuIdleType, LbView};
use crate::topology::{SchedDomain, SdFlags};

/// The tickless idle CPUs (`nohz` of fair.c).
#[derive(Clone, Debug)]
pub struct Nohz {
    /// `idle_cpus_mask`.
    pub idle_cpus: CpuMask,
    /// `nr_cpus`.
    pub nr_cpus: u32,
    /// Some tickless CPU has blocked load that must decay (`has_blocked`).
    pub has_blocked: bool,
    /// `next_balance`, jiffies.
    pub next_balance: u64,
    /// `next_blocked`, jiffies.
    pub next_blocked: u64,
    /// CPU that was kicked and has not yet balanced, with the work it was kicked for.
    pub kicked: Option<KickWork>,
}

/// What a kicked CPU does for the tickless ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KickWork {
    /// Only let blocked load decay (`NOHZ_STATS_KICK`).
    Stats,
    /// Balance (`NOHZ_KICK_MASK`).
    Balance,
}

impl Sim<'_> {
    /// nohz_balance_enter_idle(): the idle CPU has stopped its tick.
    pub(super) fn nohz_balance_enter_idle(&mut self, cpu: usize) {
        let rq = &mut self.rqs[cpu];
        rq.has_blocked_load = true;
        if !rq.nohz_idle {
            rq.nohz_idle = true;
            self.nohz.idle_cpus.set(cpu);
            self.nohz.nr_cpus += 1;
            self.nr_busy_cpus[self.topo.llc_id[cpu]] -= 1;
        }
        self.nohz.has_blocked = true;
    }

    /// nohz_balance_exit_idle(): the first tick of a busy CPU.
    fn nohz_balance_exit_idle(&mut self, cpu: usize) {
        let rq = &mut self.rqs[cpu];
        if rq.nohz_idle {
            rq.nohz_idle = false;
            self.nohz.idle_cpus.clear(cpu);
            self.nohz.nr_cpus -= 1;
            self.nr_busy_cpus[self.topo.llc_id[cpu]] += 1;
        }
    }

    /// nohz_balancer_kick(): a busy CPU's tick asks an idle CPU to balance for the tickless ones.
    pub(super) fn nohz_balancer_kick(&mut self, cpu: usize) {
        self.nohz_balance_exit_idle(cpu);
        if self.nohz.nr_cpus == 0 {
            return;
        }
        let jiffies = self.jiffies();
        let stats = self.nohz.has_blocked && jiffies > self.nohz.next_blocked;
        let mut work = stats.then_some(KickWork::Stats);
        if jiffies >= self.nohz.next_balance && self.wants_ilb(cpu) {
            work = Some(KickWork::Balance);
        }
        if let Some(work) = work {
            self.kick_ilb(work);
        }
    }

    /// Whether a busy CPU has work for tickless ones: more than one task, or one that would do better elsewhere.
    fn wants_ilb(&self, cpu: usize) -> bool {
        let (rq, hierarchy) = (&self.rqs[cpu], &self.topo.per_cpu[cpu]);
        let (capacity, original) = (self.stats.capacity[cpu], self.stats.capacity_orig[cpu]);
        // check_cpu_capacity(): real-time tasks take a good part of the CPU.
        let reduced = capacity * u64::from(hierarchy[0].imbalance_pct) < original * 100;
        if rq.nr_running() >= 2 || (rq.cfs.h_nr_running >= 1 && reduced) {
            return true;
        }
        let has = |flag| move |sd: &&SchedDomain| sd.flags.has(flag);
        // sd_asym_packing: an idle CPU is preferred to this one.
        if let Some(sd) = hierarchy.iter().rfind(has(SdFlags::ASYM_PACKING)) {
            let view = lb_view!(self);
            let kicks = |idle_cpu| (self.kernel.capacity.nohz_kick_asym.f)(&view, sd, idle_cpu, cpu);
            if sd.span.iter().filter(|&other| self.nohz.idle_cpus.test(other)).any(kicks) {
                return true;
            }
        }
        // sd_asym_cpucapacity: there, what counts is whether tasks fit, and not how they are spread over caches.
        if hierarchy.iter().any(|sd| sd.flags.has(SdFlags::ASYM_CPUCAPACITY)) {
            let bigger = original < self.system.max_cpu_capacity;
            return self.stats.misfit_task_load[cpu] != 0 && (bigger || reduced);
        }
        self.topo.llc_level[cpu].is_some() && self.nr_busy_cpus[self.topo.llc_id[cpu]] > 1
    }

    /// kick_ilb(): sends an idle CPU the work, unless one is already on its way.
    fn kick_ilb(&mut self, work: KickWork) {
        self.nohz.next_balance = self.jiffies() + 1;
        let Some(ilb) = self.nohz.idle_cpus.iter().find(|&cpu| self.stats.idle[cpu]) else { return };
        if let Some(kicked) = self.nohz.kicked {
            self.nohz.kicked = Some(kicked.max(work));
            return;
        }
        self.nohz.kicked = Some(work);
        self.send_interrupt(ilb, Interrupt::NohzKick);
    }

    /// nohz_idle_balance(): the kicked CPU balances for every tickless idle CPU that is due, itself last.
    pub(super) fn nohz_idle_balance(&mut self, this_cpu: usize) {
        let Some(work) = self.nohz.kicked.take() else { return };
        if !self.stats.idle[this_cpu] {
            return;
        }
        let jiffies = self.jiffies();
        let mut next_balance = jiffies + 60 * u64::from(self.tunables.hz);
        self.nohz.has_blocked = false;
        let mut has_blocked = false;
        let mut cursor = 0;
        while let Some(cpu) = self.nohz.idle_cpus.next_from(cursor) {
            cursor = cpu + 1;
            if cpu == this_cpu || !self.stats.idle[cpu] {
                continue;
            }
            if self.rqs[this_cpu].need_resched {
                self.nohz.has_blocked = true;
                return;
            }
            has_blocked |= self.update_nohz_stats(cpu, true);
            if jiffies >= self.rqs[cpu].next_balance && work == KickWork::Balance {
                self.update_rq_clock(cpu);
                self.rebalance_domains(cpu, CpuIdleType::Idle);
            }
            next_balance = next_balance.min(self.rqs[cpu].next_balance);
        }
        self.update_blocked_averages(this_cpu);
        has_blocked |= self.rqs[this_cpu].has_blocked_load;
        if work == KickWork::Balance {
            self.rebalance_domains(this_cpu, CpuIdleType::Idle);
        }
        self.nohz.next_blocked = jiffies + self.blocked_load_period();
        self.nohz.has_blocked |= has_blocked;
        if work == KickWork::Balance {
            self.nohz.next_balance = next_balance.min(self.rqs[this_cpu].next_balance);
        }
    }

    /// nohz_newidle_balance(): a CPU that goes idle for long enough lets the tickless CPUs' blocked load decay.
    pub(super) fn nohz_newidle_balance(&mut self, this_cpu: usize) {
        let jiffies = self.jiffies();
        if (self.rqs[this_cpu].avg_idle as i64) < self.tunables.migration_cost_ns
            || !self.nohz.has_blocked
            || jiffies < self.nohz.next_blocked
        {
            return;
        }
        self.nohz.has_blocked = false;
        let mut has_blocked = false;
        let mut cursor = 0;
        while let Some(cpu) = self.nohz.idle_cpus.next_from(cursor) {
            cursor = cpu + 1;
            if cpu != this_cpu && self.stats.idle[cpu] {
                has_blocked |= self.update_nohz_stats(cpu, true);
            }
        }
        self.nohz.next_blocked = jiffies + self.blocked_load_period();
        self.nohz.has_blocked |= has_blocked;
    }

    /// update_nohz_stats(): ages a tickless CPU's signals; whether some blocked load is left.
    fn update_nohz_stats(&mut self, cpu: usize, force: bool) -> bool {
        let rq = &self.rqs[cpu];
        if !rq.has_blocked_load || !rq.nohz_idle {
            return false;
        }
        if force || self.jiffies() > rq.last_blocked_load_update_tick {
            self.update_blocked_averages(cpu);
        }
        self.rqs[cpu].has_blocked_load
    }

    /// Time between two decays of the tickless CPUs' blocked load, jiffies (LOAD_AVG_PERIOD ms).
    fn blocked_load_period(&self) -> u64 {
        (u64::from(self.pelt_table.half_life) * u64::from(self.tunables.hz)).div_ceil(1000)
    }

    /// LBF_NOHZ_STATS: a newidle pass first ages the tickless CPUs that it will look at.
    pub(super) fn refresh_nohz_stats(&mut self, cpu: usize, level: usize, idle: CpuIdleType) {
        let ages = self.balance_rules.newidle_ages_tickless;
        if !ages || idle != CpuIdleType::NewlyIdle || !self.nohz.has_blocked {
            return;
        }
        let topo = self.topo;
        let mut cursor = 0;
        while let Some(idle_cpu) = self.nohz.idle_cpus.next_from(cursor) {
            cursor = idle_cpu + 1;
            if topo.per_cpu[cpu][level].span.test(idle_cpu) {
                self.update_nohz_stats(idle_cpu, false);
            }
        }
    }
}
