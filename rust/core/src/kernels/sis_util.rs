//! The fast wake-up path of v6.12: an idle CPU near the target, searched for as far as the LLC's utilization lets hope.

use super::capacity::Fit;
use super::sis::{IdleSearch, PlacementRule};
use crate::cpumask::CpuMask;
use crate::topology::{SchedDomain, SdFlags};

/// kernel/sched/fair.c, v6.12, select_idle_sibling(): first hit wins.
pub fn select_idle_sibling(
    search: &mut IdleSearch<'_>,
    prev: usize,
    target: usize,
) -> (usize, PlacementRule) {
    if search.is_idle(target) && asym_fits_cpu(search, target) {
        return (target, PlacementRule::TargetIdle);
    }
    let mut prev_near = None;
    if prev != target
        && search.share_cache(prev, target)
        && search.is_idle(prev)
        && asym_fits_cpu(search, prev)
    {
        if shares_resources(search, prev, target) {
            return (prev, PlacementRule::PrevIdle);
        }
        prev_near = Some(prev);
    }
    if search.per_cpu_kthread
        && search.in_task
        && prev == search.this_cpu
        && search.rqs.nr_running[prev] <= 1
        && asym_fits_cpu(search, prev)
    {
        return (prev, PlacementRule::KthreadStack);
    }
    let recent = usize::from(std::mem::replace(search.recent_used_cpu, prev as u16));
    let mut recent_near = None;
    if recent != prev
        && recent != target
        && search.share_cache(recent, target)
        && search.is_idle(recent)
        && search.may_run_on(recent)
        && asym_fits_cpu(search, recent)
    {
        if shares_resources(search, recent, target) {
            return (recent, PlacementRule::RecentUsed);
        }
        recent_near = Some(recent);
    }
    let domains = search.domains;
    if search.system.asym_capacity {
        // sd_asym_cpucapacity: the lowest domain that holds every capacity of the machine.
        let asym = domains.per_cpu[target].iter().find(|sd| sd.flags.has(SdFlags::ASYM_CPUCAPACITY_FULL));
        if let Some(sd) = asym {
            return match select_idle_capacity(search, &sd.span, target) {
                Some(cpu) => (cpu, PlacementRule::AsymCapacity),
                None => (target, PlacementRule::Target),
            };
        }
    }
    let Some(level) = domains.llc_level[target] else { return (target, PlacementRule::Target) };
    let sd = &domains.per_cpu[target][level];
    let has_idle_core = search.system.smt_active && search.has_idle_cores[domains.llc_id[target]];
    let tries_siblings = search.system.smt_active && !has_idle_core && search.share_cache(prev, target);
    if let Some(cpu) = tries_siblings.then(|| select_idle_smt(search, sd, prev)).flatten() {
        return (cpu, PlacementRule::IdleSibling);
    }
    if let Some(found) = select_idle_cpu(search, sd, has_idle_core, target) {
        return found;
    }
    if let Some(cpu) = prev_near {
        return (cpu, PlacementRule::PrevIdle);
    }
    if let Some(cpu) = recent_near {
        return (cpu, PlacementRule::RecentUsed);
    }
    (target, PlacementRule::Target)
}

/// kernel/sched/fair.c, v6.12, asym_fits_cpu(): where CPUs have different capacities, whether the task fits this one.
fn asym_fits_cpu(search: &IdleSearch<'_>, cpu: usize) -> bool {
    !search.system.asym_capacity || search.fit(cpu) == Fit::Yes
}

/// kernel/sched/fair.c, v6.12, select_idle_capacity(): the first idle CPU that the task fits; else of those that fit it best
/// the largest.
fn select_idle_capacity(search: &mut IdleSearch<'_>, span: &CpuMask, target: usize) -> Option<usize> {
    let mut best = None;
    let mut best_is = (Fit::No, 0);
    for cpu in span.iter_wrap(target) {
        if !search.may_run_on(cpu) {
            continue;
        }
        search.scanned += 1;
        if !search.is_idle(cpu) {
            continue;
        }
        let (fit, room) = (search.fit(cpu), search.rqs.room(cpu));
        let capacity = match fit {
            Fit::Yes => return Some(cpu),
            // The bound is about what the CPU could give, not about what is left.
            Fit::ButForMin => room.capacity_orig,
            Fit::No => room.capacity,
        };
        if (fit, capacity) > best_is {
            (best, best_is) = (Some(cpu), (fit, capacity));
        }
    }
    best
}

/// kernel/sched/core.c, v6.12, cpus_share_resources(), true on machines without clusters: whether two CPUs of
/// an LLC share a cache below it, too.
fn shares_resources(search: &IdleSearch<'_>, a: usize, b: usize) -> bool {
    let share_id = |cpu: usize| {
        let cluster = search.domains.per_cpu[cpu].iter().find(|sd| sd.flags.has(SdFlags::CLUSTER));
        cluster.and_then(|sd| sd.span.first()).unwrap_or(search.domains.llc_id[cpu])
    };
    !search.system.clusters || share_id(a) == share_id(b)
}

/// kernel/sched/fair.c, v6.12, select_idle_smt(): an idle sibling of the CPU.
fn select_idle_smt(search: &mut IdleSearch<'_>, sd: &SchedDomain, cpu: usize) -> Option<usize> {
    let siblings = &search.domains.smt_mask[cpu];
    search.scanned += siblings.weight() as u32 - 1;
    siblings.iter().find(|&sibling| {
        sibling != cpu && sd.span.test(sibling) && search.may_run_on(sibling) && search.is_idle(sibling)
    })
}

/// kernel/sched/fair.c, v6.12, select_idle_cpu(): the target's cluster, then the rest of the LLC. Where some
/// core may idle, all of it is searched for one, and any idle CPU seen on the way will do otherwise; else as
/// many CPUs as SIS_UTIL allows.
fn select_idle_cpu(
    search: &mut IdleSearch<'_>,
    sd: &SchedDomain,
    has_idle_core: bool,
    target: usize,
) -> Option<(usize, PlacementRule)> {
    let llc = search.domains.llc_id[target];
    let budget = if search.system.sis_util { search.nr_idle_scan[llc] } else { u32::MAX };
    if budget == 0 {
        // The LLC is so busy that no CPU of it is likely to idle.
        return None;
    }
    let own_cluster = sd.ring.first().map(|&group| &search.domains.groups[group]);
    let cluster = own_cluster.filter(|group| group.flags.has(SdFlags::CLUSTER)).map(|group| &group.span);
    let in_cluster = cluster.into_iter().flat_map(|span| span.iter_wrap(target + 1));
    let elsewhere = sd.span.iter_wrap(target + 1).filter(|&cpu| !cluster.is_some_and(|span| span.test(cpu)));
    let order = in_cluster.chain(elsewhere);
    if has_idle_core { search_cores(search, order, llc) } else { search_cpus(search, order, budget) }
}

/// The search without a hint that some core idles.
fn search_cpus(
    search: &mut IdleSearch<'_>,
    order: impl Iterator<Item = usize>,
    budget: u32,
) -> Option<(usize, PlacementRule)> {
    let allowed = search.allowed;
    let usable = order.filter(|&cpu| allowed.is_none_or(|allowed| allowed.test(cpu)));
    for cpu in usable.take(budget as usize) {
        search.scanned += 1;
        if search.is_idle(cpu) {
            return Some((cpu, PlacementRule::IdleCpu));
        }
    }
    None
}

/// The search for a core that is idle as a whole; a miss takes the hint back.
fn search_cores(
    search: &mut IdleSearch<'_>,
    order: impl Iterator<Item = usize>,
    llc: usize,
) -> Option<(usize, PlacementRule)> {
    let mut seen = CpuMask::new(search.domains.nr_cpus);
    let mut idle_cpu = None;
    for core in order {
        if seen.test(core) || !search.may_run_on(core) {
            continue;
        }
        if select_idle_core(search, core, &seen, &mut idle_cpu) {
            return Some((core, PlacementRule::IdleCore));
        }
        search.domains.smt_mask[core].iter().for_each(|sibling| seen.set(sibling));
    }
    search.has_idle_cores[llc] = false;
    idle_cpu.map(|cpu| (cpu, PlacementRule::IdleCpu))
}

/// kernel/sched/fair.c, v6.12, select_idle_core(): whether all threads of a core idle; leaves the first idle CPU seen.
fn select_idle_core(
    search: &mut IdleSearch<'_>,
    core: usize,
    seen: &CpuMask,
    idle_cpu: &mut Option<usize>,
) -> bool {
    let domains = search.domains;
    let mut idle = true;
    for cpu in domains.smt_mask[core].iter() {
        search.scanned += 1;
        let usable = search.may_run_on(cpu) && !seen.test(cpu);
        if search.rqs.idle[cpu] {
            if idle_cpu.is_none() && usable {
                *idle_cpu = Some(cpu);
            }
            continue;
        }
        idle = false;
        if idle_cpu.is_some() {
            break;
        }
        if search.rqs.sched_idle[cpu] && usable {
            *idle_cpu = Some(cpu);
            break;
        }
    }
    idle
}
