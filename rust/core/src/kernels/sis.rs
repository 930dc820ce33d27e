//! The fast wake-up path: an idle CPU near the target, in the order of v5.4 to v5.7.

use super::Kernel;
use super::capacity::{Demand, Fit};
use super::env::{RqStats, SystemState};
use crate::cpumask::CpuMask;
use crate::sim::tunables::Features;
use crate::topology::SchedDomains;

/// The rule that chose a CPU for a waking or new task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlacementRule {
    /// The target is idle.
    TargetIdle,
    /// The previous CPU is idle and shares the target's LLC.
    PrevIdle,
    /// A per-CPU kernel thread wakes a task that ran on its CPU.
    KthreadStack,
    /// The CPU used before the previous one is idle.
    RecentUsed,
    /// An idle CPU of sufficient capacity (asymmetric machines).
    AsymCapacity,
    /// A core without any task.
    IdleCore,
    /// An idle CPU of the LLC.
    IdleCpu,
    /// An idle sibling thread of the target.
    IdleSibling,
    /// Nothing idle was found: the target itself.
    Target,
    /// The slow path: the idlest CPU of the idlest group.
    Idlest,
}

impl PlacementRule {
    /// The name that logs use.
    pub fn name(self) -> &'static str {
        match self {
            Self::TargetIdle => "target_idle",
            Self::PrevIdle => "prev_idle",
            Self::KthreadStack => "kthread_stack",
            Self::RecentUsed => "recent_used",
            Self::AsymCapacity => "asym_capacity",
            Self::IdleCore => "idle_core",
            Self::IdleCpu => "idle_cpu",
            Self::IdleSibling => "idle_sibling",
            Self::Target => "target",
            Self::Idlest => "idlest",
        }
    }
}

/// What `select_idle_sibling()` reads, and the two hints that it leaves behind.
pub struct IdleSearch<'a> {
    /// The table of slots.
    pub kernel: &'a Kernel,
    /// The runqueues' statistics.
    pub rqs: &'a RqStats,
    /// The domains.
    pub domains: &'a SchedDomains,
    /// Scheduler features.
    pub features: &'a Features,
    /// Machine-wide switches.
    pub system: &'a SystemState,
    /// CPUs that the task may use; `None` = all.
    pub allowed: Option<&'a CpuMask>,
    /// CPU of the waker.
    pub this_cpu: usize,
    /// `p->recent_used_cpu`, rewritten when it is chosen (v6.12: always).
    pub recent_used_cpu: &'a mut u16,
    /// What the task needs.
    pub demand: Demand,
    /// The waker is a kernel thread bound to its CPU.
    pub per_cpu_kthread: bool,
    /// The waker wakes the task itself: no interrupt does while it runs (`in_task()`).
    pub in_task: bool,
    /// By LLC id: some core may be idle (`sd_llc_shared->has_idle_cores`).
    pub has_idle_cores: &'a mut [bool],
    /// By LLC id: how many CPUs a search may look at (`sd_llc_shared->nr_idle_scan`, v6.12).
    pub nr_idle_scan: &'a [u32],
    /// `avg_idle` of the waker's CPU, ns.
    pub avg_idle: u64,
    /// `avg_scan_cost` of the waker's LLC domain, ns.
    pub avg_scan_cost: &'a mut u64,
    /// What a look at one CPU costs, ns: time that the kernel measures and this model must be told.
    pub scan_cpu_ns: u64,
    /// Out: CPUs looked at.
    pub scanned: u32,
}

impl IdleSearch<'_> {
    /// available_idle_cpu() or sched_idle_cpu().
    #[inline]
    pub(super) fn is_idle(&self, cpu: usize) -> bool {
        self.rqs.idle[cpu] || self.rqs.sched_idle[cpu]
    }

    #[inline]
    pub(super) fn may_run_on(&self, cpu: usize) -> bool {
        self.allowed.is_none_or(|allowed| allowed.test(cpu))
    }

    /// Whether the task fits a CPU.
    pub(super) fn fit(&self, cpu: usize) -> Fit {
        (self.kernel.capacity.util_fits_cpu.f)(self.demand, self.rqs.room(cpu))
    }

    /// cpus_share_cache().
    pub(super) fn share_cache(&self, a: usize, b: usize) -> bool {
        self.domains.llc_id[a] == self.domains.llc_id[b]
    }
}

/// kernel/sched/fair.c, v5.6, select_idle_sibling(): first hit wins.
pub fn select_idle_sibling(
    search: &mut IdleSearch<'_>,
    prev: usize,
    target: usize,
) -> (usize, PlacementRule) {
    if search.is_idle(target) {
        return (target, PlacementRule::TargetIdle);
    }
    if prev != target && search.share_cache(prev, target) && search.is_idle(prev) {
        return (prev, PlacementRule::PrevIdle);
    }
    if search.per_cpu_kthread && prev == search.this_cpu && search.rqs.nr_running[prev] <= 1 {
        return (prev, PlacementRule::KthreadStack);
    }
    if let Some(recent) = recent_used_cpu(search, prev, target) {
        return (recent, PlacementRule::RecentUsed);
    }
    select_in_llc(search, target, select_idle_cpu, select_idle_smt)
}

/// kernel/sched/fair.c, v5.4, select_idle_sibling(): first hit wins. CPUs with SCHED_IDLE tasks only are second choice.
pub fn select_idle_sibling_v5_4(
    search: &mut IdleSearch<'_>,
    prev: usize,
    target: usize,
) -> (usize, PlacementRule) {
    if search.is_idle(target) {
        return (target, PlacementRule::TargetIdle);
    }
    if prev != target && search.share_cache(prev, target) && search.is_idle(prev) {
        return (prev, PlacementRule::PrevIdle);
    }
    if let Some(recent) = recent_used_cpu(search, prev, target) {
        return (recent, PlacementRule::RecentUsed);
    }
    select_in_llc(search, target, select_idle_cpu_v5_4, select_idle_smt_v5_4)
}

/// The searches of the LLC: a core, then a CPU, then a thread beside `target`.
fn select_in_llc<'s>(
    search: &mut IdleSearch<'s>,
    target: usize,
    select_idle_cpu: impl Fn(&mut IdleSearch<'s>, &'s CpuMask, usize) -> Option<usize>,
    select_idle_smt: impl Fn(&mut IdleSearch<'s>, usize) -> Option<usize>,
) -> (usize, PlacementRule) {
    let Some(level) = search.domains.llc_level[target] else { return (target, PlacementRule::Target) };
    let span = &search.domains.per_cpu[target][level].span;
    if let Some(cpu) = select_idle_core(search, span, target) {
        return (cpu, PlacementRule::IdleCore);
    }
    if let Some(cpu) = select_idle_cpu(search, span, target) {
        return (cpu, PlacementRule::IdleCpu);
    }
    if let Some(cpu) = select_idle_smt(search, target) {
        return (cpu, PlacementRule::IdleSibling);
    }
    (target, PlacementRule::Target)
}

/// The CPU that the task used before its previous one, if it is a good one; then the previous CPU takes its place.
fn recent_used_cpu(search: &mut IdleSearch<'_>, prev: usize, target: usize) -> Option<usize> {
    let recent = usize::from(*search.recent_used_cpu);
    if recent != prev
        && recent != target
        && search.share_cache(recent, target)
        && search.is_idle(recent)
        && search.may_run_on(recent)
    {
        // The next time, the CPU left now is the recent one.
        *search.recent_used_cpu = prev as u16;
        return Some(recent);
    }
    None
}

/// kernel/sched/fair.c, v5.7, select_idle_sibling(): machines of asymmetric capacity search theirs first, and
/// only there.
pub fn select_idle_sibling_asym(
    search: &mut IdleSearch<'_>,
    prev: usize,
    target: usize,
) -> (usize, PlacementRule) {
    // sd_asym_cpucapacity: the lowest domain that holds CPUs of different capacity.
    let flag = crate::topology::SdFlags::ASYM_CPUCAPACITY;
    let asym = search.domains.per_cpu[target].iter().find(|sd| sd.flags.has(flag));
    if let Some(sd) = asym {
        let cpu = select_idle_capacity(search, &sd.span, target);
        return match cpu {
            Some(cpu) => (cpu, PlacementRule::AsymCapacity),
            None => (target, PlacementRule::Target),
        };
    }
    select_idle_sibling(search, prev, target)
}

/// kernel/sched/fair.c, v5.7, select_idle_capacity(): the first idle CPU that the task fits, else the largest idle one.
fn select_idle_capacity(search: &mut IdleSearch<'_>, span: &CpuMask, target: usize) -> Option<usize> {
    let mut best = None;
    let mut best_capacity = 0;
    for cpu in span.iter_wrap(target) {
        if !search.may_run_on(cpu) {
            continue;
        }
        search.scanned += 1;
        if !search.is_idle(cpu) {
            continue;
        }
        let capacity = search.rqs.capacity[cpu];
        if search.fit(cpu) == Fit::Yes {
            return Some(cpu);
        }
        if capacity > best_capacity {
            (best, best_capacity) = (Some(cpu), capacity);
        }
    }
    best
}

/// kernel/sched/fair.c, v5.6, select_idle_core(): a core that is idle as a whole, where the LLC's hint promises one.
fn select_idle_core(search: &mut IdleSearch<'_>, span: &CpuMask, target: usize) -> Option<usize> {
    if search.domains.smt_mask[target].weight() < 2 || !search.has_idle_cores[search.domains.llc_id[target]] {
        return None;
    }
    let mut skip = CpuMask::new(search.domains.nr_cpus);
    for core in span.iter_wrap(target) {
        if skip.test(core) || !search.may_run_on(core) {
            continue;
        }
        let siblings = &search.domains.smt_mask[core];
        let mut idle = true;
        for cpu in siblings.iter() {
            search.scanned += 1;
            skip.set(cpu);
            if !search.rqs.idle[cpu] {
                idle = false;
            }
        }
        if idle {
            return Some(core);
        }
    }
    search.has_idle_cores[search.domains.llc_id[target]] = false;
    None
}

/// kernel/sched/fair.c, v5.6, select_idle_cpu(): scans the LLC, less far the less the waker's CPU idles (SIS_PROP).
fn select_idle_cpu(search: &mut IdleSearch<'_>, span: &CpuMask, target: usize) -> Option<usize> {
    let mut budget = scan_budget(search, target)?;
    let mut found = None;
    let mut looked_at = 0;
    for cpu in span.iter_wrap(target).filter(|&cpu| search.may_run_on(cpu)) {
        budget -= 1;
        if budget == 0 {
            // Out of budget: the kernel leaves without noting the cost.
            search.scanned += looked_at;
            return None;
        }
        looked_at += 1;
        if search.is_idle(cpu) {
            found = Some(cpu);
            break;
        }
    }
    note_scan_cost(search, looked_at);
    found
}

/// kernel/sched/fair.c, v5.4, select_idle_cpu(): CPUs that the task may not use cost budget, too; a CPU with
/// SCHED_IDLE tasks only is the answer if the budget runs out before an idle one is found.
fn select_idle_cpu_v5_4(search: &mut IdleSearch<'_>, span: &CpuMask, target: usize) -> Option<usize> {
    let mut budget = scan_budget(search, target)?;
    let mut found = None;
    let mut sched_idle = None;
    let mut looked_at = 0;
    for cpu in span.iter_wrap(target) {
        budget -= 1;
        if budget == 0 {
            search.scanned += looked_at;
            return sched_idle;
        }
        looked_at += 1;
        if !search.may_run_on(cpu) {
            continue;
        }
        if search.rqs.idle[cpu] {
            found = Some(cpu);
            break;
        }
        if search.rqs.sched_idle[cpu] {
            sched_idle = sched_idle.or(Some(cpu));
        }
    }
    note_scan_cost(search, looked_at);
    found
}

/// How many CPUs select_idle_cpu() may look at, plus one; `None` = it may not scan at all.
fn scan_budget(search: &IdleSearch<'_>, target: usize) -> Option<u64> {
    // The scan's cost is kept by the waker's LLC domain; without one there is nothing to weigh, and no scan.
    search.domains.llc_level[search.this_cpu]?;
    if !search.features.sis_prop {
        return Some(u64::MAX);
    }
    // The averages are of different kinds, hence the large fuzz factor 512.
    let avg_idle = search.avg_idle / 512;
    let avg_cost = *search.avg_scan_cost + 1;
    let span_avg = u64::from(search.domains.llc_size[target]) * avg_idle;
    Some(if span_avg > 4 * avg_cost { span_avg / avg_cost } else { 4 })
}

/// Adds the cost of a scan to its running average.
fn note_scan_cost(search: &mut IdleSearch<'_>, looked_at: u32) {
    search.scanned += looked_at;
    let cost = u64::from(looked_at) * search.scan_cpu_ns;
    let delta = (cost as i64 - *search.avg_scan_cost as i64) / 8;
    *search.avg_scan_cost = (*search.avg_scan_cost as i64 + delta) as u64;
}

/// kernel/sched/fair.c, v5.6, select_idle_smt(): an idle thread of the target's own core.
fn select_idle_smt(search: &mut IdleSearch<'_>, target: usize) -> Option<usize> {
    let siblings = &search.domains.smt_mask[target];
    if siblings.weight() < 2 {
        return None;
    }
    let found = siblings.iter().find(|&cpu| search.may_run_on(cpu) && search.is_idle(cpu));
    search.scanned += siblings.weight() as u32;
    found
}

/// kernel/sched/fair.c, v5.4, select_idle_smt(): an idle thread of the target's own core, else one with
/// SCHED_IDLE tasks only.
fn select_idle_smt_v5_4(search: &mut IdleSearch<'_>, target: usize) -> Option<usize> {
    let siblings = &search.domains.smt_mask[target];
    if siblings.weight() < 2 {
        return None;
    }
    search.scanned += siblings.weight() as u32;
    let allowed = || siblings.iter().filter(|&cpu| search.may_run_on(cpu));
    let idle = allowed().find(|&cpu| search.rqs.idle[cpu]);
    idle.or_else(|| allowed().find(|&cpu| search.rqs.sched_idle[cpu]))
}
