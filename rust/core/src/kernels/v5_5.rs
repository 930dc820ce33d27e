//! v5.5: the reworked load balancer. Groups have a type, imbalances have a unit.
//!
//! Later generations build on this table. What the rework left alone is in v5.4's.

use super::capacity::{Fit, Room};
use super::env::{
    BalanceRules, GroupType, IdlestEnv, LbEnv, MigrationType, SdLbStats, SgLbStats, SrcQueue, TaskView,
};
use super::sis::select_idle_sibling;
use super::v5_4::{
    SCHED_CAPACITY_SCALE, avg_load, capacity_is_reduced, detach_by, domain_avg_load, fbq_classify_group,
    fbq_classify_rq, fits_capacity, largest_misfit, moves_to_better_cpu, overutilized_after, runs_within,
    sum_runqueues,
};
use super::{Balance, Kernel, Signals, Wakeup, v5_4};
use crate::pelt::SchedAvg;
use crate::slot;
use crate::topology::SdFlags;

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v5.5",
    source: "kernel/sched/fair.c of Linux 5.5-rc5",
    summary: "Reworked load balancer: group types, and imbalances in load, utilization or tasks.",
    signals: Signals {
        cpu_load: slot!(cpu_load, "Sleepers count in a CPU's load until they have decayed."),
        ..v5_4::KERNEL.signals
    },
    balance: Balance {
        balance_rules: slot!(
            balance_rules,
            "A new task goes to the first CPU found that runs SCHED_IDLE tasks only."
        ),
        update_sg_lb_stats: slot!(
            update_sg_lb_stats,
            "Counts tasks of every class; average load only of overloaded groups, misfits of other groups only."
        ),
        group_has_capacity: slot!(
            group_has_capacity,
            "Room: fewer tasks of any class than CPUs, or utilization below capacity."
        ),
        group_is_overloaded: slot!(
            group_is_overloaded,
            "Overloaded: more tasks of any class than CPUs, and utilization near capacity."
        ),
        group_classify: slot!(
            group_classify,
            "Six types, with `has_spare`, `fully_busy` and asym packing among them."
        ),
        update_sd_pick_busiest: slot!(
            update_sd_pick_busiest,
            "A rule for each type; of two groups with room, the one with fewer idle CPUs is busier."
        ),
        find_busiest_group: slot!(
            find_busiest_group,
            "The types of the two groups decide whether to balance; loads only where both are overloaded."
        ),
        calculate_imbalance: slot!(
            calculate_imbalance,
            "An imbalance has a unit: load, utilization, tasks or a misfit."
        ),
        find_busiest_queue: slot!(
            find_busiest_queue,
            "The source is the CPU with the most of what is to be moved."
        ),
        voluntary_active_balance: slot!(
            voluntary_active_balance,
            "A running misfit task is pushed by the unit of the imbalance."
        ),
        detach_tasks: slot!(
            detach_tasks,
            "Tasks move by the unit of the imbalance; failures lift the bound on load."
        ),
        ..v5_4::KERNEL.balance
    },
    wakeup: Wakeup {
        find_idlest_group: slot!(
            find_idlest_group,
            "Classes groups as the balancer does; of groups with room the one with more idle CPUs."
        ),
        update_sg_wakeup_stats: slot!(
            update_sg_wakeup_stats,
            "Groups have a type on wake-up; their weight is left at 0, the load of busy ones too."
        ),
        select_idle_sibling: slot!(
            select_idle_sibling,
            "A per-CPU kernel thread leaves its wakee on its own CPU."
        ),
        ..v5_4::KERNEL.wakeup
    },
    ..v5_4::KERNEL
};

/// kernel/sched/fair.c, v5.5, cpu_load(): sleepers count until their load has decayed.
fn cpu_load(avg: &SchedAvg) -> u64 {
    avg.load_avg
}

/// kernel/sched/fair.c, v5.5, find_idlest_group_cpu().
fn balance_rules() -> BalanceRules {
    BalanceRules { sched_idle_at_once: true, ..(v5_4::KERNEL.balance.balance_rules.f)() }
}

/// kernel/sched/fair.c, v5.5, find_busiest_group().
fn find_busiest_group(env: &mut LbEnv<'_>) -> Option<usize> {
    let mut sds = update_sd_lb_stats(env);
    env.imbalance = 0;
    if env.system.energy_aware && env.system.perf_domains && !overutilized_after(env) {
        return None;
    }
    let busiest = sds.busiest?;
    if !is_balanced(env, &mut sds) {
        (env.kernel.balance.calculate_imbalance.f)(env, &mut sds);
    }
    (env.imbalance != 0).then_some(busiest)
}

/// Whether, the busiest group being known, there is nothing to repair.
fn is_balanced(env: &LbEnv<'_>, sds: &mut SdLbStats) -> bool {
    let (local, busiest) = (sds.local_stat, sds.busiest_stat);
    match busiest.group_type {
        GroupType::MisfitTask | GroupType::AsymPacking | GroupType::Imbalanced => return false,
        _ if local.group_type > busiest.group_type => return true,
        _ => {}
    }
    if local.group_type == GroupType::Overloaded {
        sds.avg_load = domain_avg_load(sds);
        let margin = u64::from(env.sd.imbalance_pct).wrapping_mul(local.avg_load);
        if local.avg_load >= busiest.avg_load
            || local.avg_load >= sds.avg_load
            || busiest.avg_load.wrapping_mul(100) <= margin
        {
            return true;
        }
    }
    let one_task_off = local.sum_nr_running.wrapping_add(1);
    if sds.prefer_sibling && local.group_type == GroupType::HasSpare && busiest.sum_nr_running > one_task_off
    {
        return false;
    }
    // Nobody waits for a CPU there: only an idle CPU gains, and only if idle CPUs are uneven.
    busiest.group_type != GroupType::Overloaded
        && (!env.idle.is_idle()
            || (busiest.group_weight > 1 && local.idle_cpus <= busiest.idle_cpus.wrapping_add(1))
            || busiest.sum_h_nr_running == 1)
}

/// kernel/sched/fair.c, v5.5, update_sd_lb_stats().
pub(super) fn update_sd_lb_stats(env: &mut LbEnv<'_>) -> SdLbStats {
    let mut sds =
        SdLbStats { prefer_sibling: env.sd.child_flags.has(SdFlags::PREFER_SIBLING), ..SdLbStats::default() };
    env.stats.clear();
    env.overload = false;
    env.overutilized = false;
    for index in 0..env.sd.ring.len() {
        let sgs = (env.kernel.balance.update_sg_lb_stats.f)(env, index);
        if index == 0 {
            sds.local_stat = sgs;
        } else if (env.kernel.balance.update_sd_pick_busiest.f)(env, &sds, index, &sgs) {
            sds.busiest = Some(index);
            sds.busiest_stat = sgs;
        }
        sds.total_load += sgs.group_load;
        sds.total_capacity += sgs.group_capacity;
        env.stats.push(sgs);
    }
    if env.sd.flags.has(SdFlags::NUMA) {
        env.fbq_type = fbq_classify_group(&sds.busiest_stat);
    }
    sds
}

/// kernel/sched/fair.c, v5.5, update_sg_lb_stats().
fn update_sg_lb_stats(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = sum_runqueues(env, index);
    collect_misfit(env, index, &mut sgs);
    classify_sums(env, index, &mut sgs);
    sgs
}

/// The part of update_sg_lb_stats() for misfit tasks: those of other groups, where CPUs have different capacities.
pub(super) fn collect_misfit(env: &mut LbEnv<'_>, index: usize, sgs: &mut SgLbStats) {
    if index == 0 || !env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY) {
        return;
    }
    let rqs = env.rqs;
    // An idle CPU's misfit load is a leftover of the task that just went away.
    sgs.group_misfit_task_load = largest_misfit(env, index, |cpu| rqs.nr_running[cpu] != 0 || !rqs.idle[cpu]);
    env.overload |= sgs.group_misfit_task_load != 0;
}

/// The end of update_sg_lb_stats(): capacity, and the class that follows from the sums.
pub(super) fn classify_sums(env: &LbEnv<'_>, index: usize, sgs: &mut SgLbStats) {
    let group = env.group(index);
    sgs.group_asym_packing = env.sd.flags.has(SdFlags::ASYM_PACKING)
        && env.idle.is_idle()
        && sgs.sum_h_nr_running != 0
        && env.asym_prefer(env.dst_cpu, group.asym_prefer_cpu);
    sgs.group_capacity = group.capacity;
    sgs.group_weight = group.weight;
    sgs.group_cores = group.cores;
    let imbalanced = env.sgc_imbalance[group.sgc];
    sgs.group_type = (env.kernel.balance.group_classify.f)(env.kernel, env.sd.imbalance_pct, imbalanced, sgs);
    if sgs.group_type == GroupType::Overloaded {
        sgs.avg_load = avg_load(sgs);
    }
}

/// kernel/sched/fair.c, v5.5, group_classify().
fn group_classify(kernel: &Kernel, imbalance_pct: u32, imbalanced: bool, sgs: &SgLbStats) -> GroupType {
    if (kernel.balance.group_is_overloaded.f)(imbalance_pct, sgs) {
        GroupType::Overloaded
    } else if imbalanced {
        GroupType::Imbalanced
    } else if sgs.group_asym_packing {
        GroupType::AsymPacking
    } else if sgs.group_misfit_task_load != 0 {
        GroupType::MisfitTask
    } else if !(kernel.balance.group_has_capacity.f)(imbalance_pct, sgs) {
        GroupType::FullyBusy
    } else {
        GroupType::HasSpare
    }
}

/// kernel/sched/fair.c, v5.5, group_has_capacity().
pub(super) fn group_has_capacity(imbalance_pct: u32, sgs: &SgLbStats) -> bool {
    sgs.sum_nr_running < sgs.group_weight
        || sgs.group_capacity * 100 > sgs.group_util * u64::from(imbalance_pct)
}

/// kernel/sched/fair.c, v5.5, group_is_overloaded().
pub(super) fn group_is_overloaded(imbalance_pct: u32, sgs: &SgLbStats) -> bool {
    sgs.sum_nr_running > sgs.group_weight
        && sgs.group_capacity * 100 < sgs.group_util * u64::from(imbalance_pct)
}

/// kernel/sched/fair.c, v5.5, update_sd_pick_busiest().
fn update_sd_pick_busiest(env: &LbEnv<'_>, sds: &SdLbStats, index: usize, sgs: &SgLbStats) -> bool {
    pick_busiest(env, sds, index, sgs, |sgs, busiest| sgs.idle_cpus < busiest.idle_cpus)
}

/// update_sd_pick_busiest() with the rule for two groups that both have capacity to spare.
pub(super) fn pick_busiest(
    env: &LbEnv<'_>,
    sds: &SdLbStats,
    index: usize,
    sgs: &SgLbStats,
    busier_with_spare: fn(&SgLbStats, &SgLbStats) -> bool,
) -> bool {
    let (group, local, busiest) = (env.group(index), env.group(0), &sds.busiest_stat);
    if sgs.sum_h_nr_running == 0 {
        return false;
    }
    // A misfit task that would not fit here either, or would find no room, is better left alone.
    if sgs.group_type == GroupType::MisfitTask
        && (!fits_capacity(group.max_capacity, local.max_capacity)
            || sds.local_stat.group_type != GroupType::HasSpare)
    {
        return false;
    }
    if sgs.group_type != busiest.group_type {
        return sgs.group_type > busiest.group_type;
    }
    let busier = match sgs.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => sgs.avg_load > busiest.avg_load,
        GroupType::Imbalanced | GroupType::SmtBalance | GroupType::Other => false,
        GroupType::AsymPacking => sds
            .busiest
            .is_none_or(|best| !env.asym_prefer(group.asym_prefer_cpu, env.group(best).asym_prefer_cpu)),
        GroupType::MisfitTask => sgs.group_misfit_task_load >= busiest.group_misfit_task_load,
        GroupType::HasSpare => busier_with_spare(sgs, busiest),
    };
    // Tasks that fit a bigger group must not be pulled to a smaller one.
    let to_smaller = env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY)
        && sgs.group_type <= GroupType::FullyBusy
        && fits_capacity(local.min_capacity, group.min_capacity);
    busier && !to_smaller
}

/// kernel/sched/fair.c, v5.5, calculate_imbalance().
///
/// The sums are unsigned as in the kernel and may wrap round: a fully busy local group can be above the average.
pub(super) fn calculate_imbalance(env: &mut LbEnv<'_>, sds: &mut SdLbStats) {
    let (local, busiest) = (&mut sds.local_stat, &sds.busiest_stat);
    match busiest.group_type {
        GroupType::MisfitTask => return set_imbalance(env, MigrationType::Misfit, 1),
        GroupType::AsymPacking => {
            return set_imbalance(env, MigrationType::Task, i64::from(busiest.sum_h_nr_running));
        }
        // Affinity is in the way: move one task, and hope for others next time.
        GroupType::Imbalanced => return set_imbalance(env, MigrationType::Task, 1),
        _ => {}
    }
    if local.group_type == GroupType::HasSpare {
        return fill_spare_capacity(env, sds);
    }
    if local.group_type < GroupType::Overloaded {
        local.avg_load = avg_load(local);
        sds.avg_load = domain_avg_load(sds);
    }
    let (local, busiest) = (&sds.local_stat, &sds.busiest_stat);
    let surplus = busiest.avg_load.wrapping_sub(sds.avg_load).wrapping_mul(busiest.group_capacity);
    let room = sds.avg_load.wrapping_sub(local.avg_load).wrapping_mul(local.group_capacity);
    let imbalance = surplus.min(room) / SCHED_CAPACITY_SCALE;
    set_imbalance(env, MigrationType::Load, imbalance.cast_signed());
}

/// The part of calculate_imbalance() for a local group with capacity to spare.
fn fill_spare_capacity(env: &mut LbEnv<'_>, sds: &SdLbStats) {
    let (local, busiest) = (&sds.local_stat, &sds.busiest_stat);
    if busiest.group_type > GroupType::FullyBusy {
        let spare = local.group_capacity.saturating_sub(local.group_util);
        if spare == 0 && env.idle.is_idle() {
            // Utilization is full although a CPU idles: the sums are behind the times.
            return set_imbalance(env, MigrationType::Task, 1);
        }
        return set_imbalance(env, MigrationType::Util, spare.cast_signed());
    }
    even_out_tasks(env, sds);
}

/// Half of the difference in tasks, or in idle CPUs.
pub(super) fn even_out_tasks(env: &mut LbEnv<'_>, sds: &SdLbStats) {
    let (local, busiest) = (&sds.local_stat, &sds.busiest_stat);
    let nr_tasks = if busiest.group_weight == 1 || sds.prefer_sibling {
        i64::from(busiest.sum_nr_running.saturating_sub(local.sum_nr_running) >> 1)
    } else {
        i64::from(local.idle_cpus.wrapping_sub(busiest.idle_cpus) >> 1)
    };
    let nr_tasks = if env.sd.flags.has(SdFlags::NUMA) {
        (env.kernel.balance.adjust_numa_imbalance.f)(
            nr_tasks,
            local.sum_nr_running,
            busiest.sum_nr_running,
            env.sd.imb_numa_nr,
        )
    } else {
        nr_tasks
    };
    set_imbalance(env, MigrationType::Task, nr_tasks);
}

fn set_imbalance(env: &mut LbEnv<'_>, migration_type: MigrationType, imbalance: i64) {
    env.migration_type = migration_type;
    env.imbalance = imbalance;
}

/// kernel/sched/fair.c, v5.5, find_busiest_queue().
fn find_busiest_queue(env: &LbEnv<'_>, index: usize) -> Option<usize> {
    busiest_queue(env, index, 0)
}

/// find_busiest_queue() where a pull of utilization needs at least `util_min_tasks` tasks on the queue.
pub(super) fn busiest_queue(env: &LbEnv<'_>, index: usize, util_min_tasks: u32) -> Option<usize> {
    let rqs = env.rqs;
    let asym_capacity = env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY);
    // Load is compared per capacity; the other units are plain, over a capacity of 1.
    let mut busiest: Option<usize> = None;
    let (mut busiest_amount, mut busiest_capacity) = (0u64, 1u64);
    for (start, end) in runs_within(env.group(index), env.excluded) {
        for cpu in start..end {
            let nr_running = rqs.h_nr_running[cpu];
            if fbq_classify_rq(env, cpu) > env.fbq_type {
                continue;
            }
            if asym_capacity && nr_running == 1 && rqs.capacity[env.dst_cpu] < rqs.capacity[cpu] {
                continue;
            }
            let (amount, capacity) = match env.migration_type {
                MigrationType::Load => {
                    let load = rqs.load[cpu];
                    let too_big = nr_running == 1 && load > env.imbalance.cast_unsigned();
                    if too_big && !capacity_is_reduced(env, cpu) {
                        continue;
                    }
                    (load, rqs.capacity[cpu])
                }
                MigrationType::Util if nr_running < util_min_tasks => continue,
                MigrationType::Util => (rqs.util[cpu], 1),
                MigrationType::Task => (u64::from(nr_running), 1),
                MigrationType::Misfit => (rqs.misfit_task_load[cpu], 1),
            };
            if amount.wrapping_mul(busiest_capacity) > busiest_amount.wrapping_mul(capacity) {
                (busiest, busiest_amount, busiest_capacity) = (Some(cpu), amount, capacity);
            }
        }
    }
    busiest
}

/// kernel/sched/fair.c, v5.5, voluntary_active_balance().
fn voluntary_active_balance(env: &LbEnv<'_>) -> bool {
    moves_to_better_cpu(env) || env.migration_type == MigrationType::Misfit
}

/// kernel/sched/fair.c, v5.5, detach_tasks().
fn detach_tasks(env: &mut LbEnv<'_>, queue: &mut dyn SrcQueue) -> u32 {
    detach_by(env, queue, |env, p| amount_to_move(env, p, 0))
}

/// What moving the task takes off the imbalance; `None` if it is too big, or a misfit pull does not concern it.
/// Every task counts with a load of at least `least_load`.
pub(super) fn amount_to_move(env: &LbEnv<'_>, p: &TaskView<'_>, least_load: u64) -> Option<i64> {
    match env.migration_type {
        MigrationType::Load => {
            let load = p.load.max(least_load).cast_signed();
            let patient = env.nr_balance_failed <= env.sd.cache_nice_tries;
            (load / 2 <= env.imbalance || !patient).then_some(load)
        }
        MigrationType::Util => {
            let util = p.util.cast_signed();
            (util <= env.imbalance).then_some(util)
        }
        MigrationType::Task => Some(1),
        MigrationType::Misfit => is_misfit_of_source(env, p).then_some(env.imbalance),
    }
}

/// Whether the task does not fit the CPU that it would be pulled from.
pub(super) fn is_misfit_of_source(env: &LbEnv<'_>, p: &TaskView<'_>) -> bool {
    (env.kernel.capacity.util_fits_cpu.f)(p.demand(), env.rqs.room(env.src_cpu)) != Fit::Yes
}

/// kernel/sched/fair.c, v5.5, find_idlest_group().
fn find_idlest_group(env: &mut IdlestEnv<'_>) -> Option<usize> {
    // Memory stays near as long as a CPU idles here.
    idlest_group(env, |sgs, idlest| sgs.idle_cpus > idlest.idle_cpus, |_, local, _| local.idle_cpus != 0)
}

/// Whether the first group is idler than the second, both having capacity to spare.
type IdlerWithSpare = fn(&SgLbStats, &SgLbStats) -> bool;

/// Whether a task stays on its node (first statistics) rather than goes to another, both having capacity to spare.
type StaysNearMemory = fn(&IdlestEnv<'_>, &SgLbStats, &SgLbStats) -> bool;

/// find_idlest_group() with the rules for groups that have capacity to spare.
pub(super) fn idlest_group(
    env: &mut IdlestEnv<'_>,
    idler_with_spare: IdlerWithSpare,
    stays_near_memory: StaysNearMemory,
) -> Option<usize> {
    let allowed = env.task.allowed;
    let mut idlest: Option<usize> = None;
    let mut idlest_sgs = SgLbStats {
        avg_load: u64::from(u32::MAX),
        group_type: GroupType::Overloaded,
        ..SgLbStats::default()
    };
    env.stats.clear();
    for index in 0..env.sd.ring.len() {
        if allowed.is_some_and(|allowed| !allowed.intersects(&env.group(index).span)) {
            env.stats.push(None);
            continue;
        }
        let sgs = (env.view.kernel.wakeup.update_sg_wakeup_stats.f)(env, index);
        env.stats.push(Some(sgs));
        if index != 0 && update_pick_idlest(env, idlest, &idlest_sgs, index, &sgs, idler_with_spare) {
            idlest = Some(index);
            idlest_sgs = sgs;
        }
    }
    let best = idlest?;
    match &env.stats[0] {
        Some(local_sgs) if stays_local(env, local_sgs, best, &idlest_sgs, stays_near_memory) => None,
        _ => Some(best),
    }
}

/// Whether the local group serves the task as well as the idlest one.
fn stays_local(
    env: &IdlestEnv<'_>,
    local_sgs: &SgLbStats,
    idlest: usize,
    idlest_sgs: &SgLbStats,
    stays_near_memory: StaysNearMemory,
) -> bool {
    if local_sgs.group_type != idlest_sgs.group_type {
        return local_sgs.group_type < idlest_sgs.group_type;
    }
    let numa = env.sd.flags.has(SdFlags::NUMA);
    let pct = u64::from(env.sd.imbalance_pct);
    match local_sgs.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => {
            let imbalance = SCHED_CAPACITY_SCALE * pct.saturating_sub(100) / 100;
            let (local, idlest) = (local_sgs.avg_load, idlest_sgs.avg_load);
            (numa && idlest.wrapping_add(imbalance) >= local)
                || idlest >= local.wrapping_add(imbalance)
                || local.wrapping_mul(100) <= idlest.wrapping_mul(pct)
        }
        GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance | GroupType::Other => true,
        GroupType::MisfitTask => env.group(0).max_capacity >= env.group(idlest).max_capacity,
        GroupType::HasSpare => {
            if numa {
                let node_of = |cpu: usize| Some(env.view.node_of[cpu]);
                if node_of(env.this_cpu) == env.task.preferred_node {
                    return true;
                }
                let idlest_cpu = env.group(idlest).span.first();
                if idlest_cpu.and_then(node_of).is_some_and(|node| Some(node) == env.task.preferred_node) {
                    return false;
                }
                if stays_near_memory(env, local_sgs, idlest_sgs) {
                    return true;
                }
            }
            local_sgs.idle_cpus >= idlest_sgs.idle_cpus
        }
    }
}

/// kernel/sched/fair.c, v5.5, update_pick_idlest().
fn update_pick_idlest(
    env: &IdlestEnv<'_>,
    idlest: Option<usize>,
    idlest_sgs: &SgLbStats,
    index: usize,
    sgs: &SgLbStats,
    idler_with_spare: IdlerWithSpare,
) -> bool {
    if sgs.group_type != idlest_sgs.group_type {
        return sgs.group_type < idlest_sgs.group_type;
    }
    match sgs.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => sgs.avg_load < idlest_sgs.avg_load,
        GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance | GroupType::Other => false,
        GroupType::MisfitTask => {
            idlest.is_none_or(|best| env.group(index).max_capacity > env.group(best).max_capacity)
        }
        GroupType::HasSpare => idler_with_spare(sgs, idlest_sgs),
    }
}

/// kernel/sched/fair.c, v5.5, update_sg_wakeup_stats().
///
/// The group's weight is left at 0, so that "fewer tasks than CPUs" never holds: v5.6 repairs it.
fn update_sg_wakeup_stats(env: &IdlestEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = sum_without_task(env, index);
    finish_wakeup_stats(env, index, &mut sgs);
    sgs
}

/// The end of update_sg_wakeup_stats(), from the sums on.
///
/// The average load is computed for groups with capacity to spare, where nobody reads it, and left at 0 for busy
/// ones, so that they all tie: v5.7 repairs it.
pub(super) fn finish_wakeup_stats(env: &IdlestEnv<'_>, index: usize, sgs: &mut SgLbStats) {
    classify_wakeup_sums(env, index, sgs);
    if sgs.group_type < GroupType::FullyBusy {
        sgs.avg_load = avg_load(sgs);
    }
}

/// The loop of update_sg_wakeup_stats(): sums over all CPUs of the group, less what the task itself contributes.
pub(super) fn sum_without_task(env: &IdlestEnv<'_>, index: usize) -> SgLbStats {
    let (group, rqs, p) = (env.group(index), env.view.rqs, &env.task);
    let mut sgs = SgLbStats::default();
    for &(start, end) in &group.runs {
        let cpus = start..end;
        sgs.group_load += rqs.load[cpus.clone()].iter().sum::<u64>();
        sgs.group_util += rqs.util[cpus.clone()].iter().sum::<u64>();
        sgs.sum_nr_running += rqs.nr_running[cpus.clone()].iter().sum::<u32>();
        sgs.sum_h_nr_running += rqs.h_nr_running[cpus.clone()].iter().sum::<u32>();
        let idle = rqs.nr_running[cpus.clone()].iter().zip(&rqs.idle[cpus]);
        sgs.idle_cpus += idle.map(|(&nr, &idle)| u32::from(nr == 0 && idle)).sum::<u32>();
    }
    let cpu = p.cpu;
    if !p.new && group.span.test(cpu) {
        sgs.group_load -= p.load.min(rqs.load[cpu]);
        sgs.group_util -= p.util.min(rqs.util[cpu]);
        if p.queued {
            sgs.sum_nr_running -= rqs.nr_running[cpu].min(1);
            sgs.sum_h_nr_running -= rqs.h_nr_running[cpu].min(1);
            // Without the task its CPU idles.
            sgs.idle_cpus += u32::from(rqs.nr_running[cpu] == 1);
        }
    }
    let biggest = Room { capacity: group.max_capacity, capacity_orig: group.max_capacity };
    let misfit = env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY)
        && (env.view.kernel.capacity.util_fits_cpu.f)(p.demand(), biggest) != Fit::Yes;
    sgs.group_misfit_task_load = u64::from(misfit);
    sgs
}

/// Capacity and class of a group, for the slow wake-up path.
pub(super) fn classify_wakeup_sums(env: &IdlestEnv<'_>, index: usize, sgs: &mut SgLbStats) {
    let (group, kernel) = (env.group(index), env.view.kernel);
    sgs.group_capacity = group.capacity;
    let imbalanced = env.view.sgc_imbalance[group.sgc];
    sgs.group_type = (kernel.balance.group_classify.f)(kernel, env.sd.imbalance_pct, imbalanced, sgs);
}
