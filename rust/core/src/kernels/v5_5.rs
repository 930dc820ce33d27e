//! v5.5: the reworked load balancer. Groups have a type, imbalances have a unit.
//!
//! The complete table: later generations build on it.

use super::env::{
    CpuIdleType, FbqType, GroupType, IdlestEnv, LbEnv, MigrationType, SdLbStats, SgLbStats, SrcQueue,
    TaskView, WakeAffineEnv, WakeTarget,
};
use super::sis::select_idle_sibling;
use super::{Balance, Kernel, Signals, Wakeup, cfs, numa};
use crate::cpumask::CpuMask;
use crate::pelt::PeltForm;
use crate::slot;
use crate::topology::{SchedGroup, SdFlags};

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v5.5",
    source: "kernel/sched/fair.c of Linux 5.5-rc5",
    summary: "Reworked load balancer: group types, and imbalances in load, utilization or tasks.",
    signals: Signals { pelt_form: slot!(pelt_form) },
    queue: cfs::QUEUE,
    balance: Balance {
        should_we_balance: slot!(should_we_balance),
        update_sg_lb_stats: slot!(update_sg_lb_stats),
        group_has_capacity: slot!(group_has_capacity),
        group_is_overloaded: slot!(group_is_overloaded),
        group_classify: slot!(group_classify),
        update_sd_pick_busiest: slot!(update_sd_pick_busiest),
        find_busiest_group: slot!(find_busiest_group),
        calculate_imbalance: slot!(calculate_imbalance),
        adjust_numa_imbalance: slot!(adjust_numa_imbalance),
        find_busiest_queue: slot!(find_busiest_queue),
        voluntary_active_balance: slot!(voluntary_active_balance),
        need_active_balance: slot!(need_active_balance),
        can_migrate_task: slot!(can_migrate_task),
        detach_tasks: slot!(detach_tasks),
    },
    wakeup: Wakeup {
        find_idlest_group: slot!(find_idlest_group),
        update_sg_wakeup_stats: slot!(update_sg_wakeup_stats),
        wake_affine: slot!(wake_affine),
        wake_affine_idle: slot!(wake_affine_idle),
        wake_affine_weight: slot!(wake_affine_weight),
        wake_wide: slot!(wake_wide),
        select_idle_sibling: slot!(select_idle_sibling),
    },
    numa: numa::v5_6::NUMA,
};

/// kernel/sched/pelt.c, v5.5: load, runnable load and utilization.
fn pelt_form() -> PeltForm {
    PeltForm::Old
}

/// One CPU of the biggest kind (`SCHED_CAPACITY_SCALE`).
const SCHED_CAPACITY_SCALE: u64 = 1024;

/// kernel/sched/fair.c, v5.5, should_we_balance().
///
/// Newly idle CPUs always may; otherwise one CPU a group does the work: its first idle one, or its first.
fn should_we_balance(env: &LbEnv<'_>) -> bool {
    if !env.may_use(env.dst_cpu) {
        return false;
    }
    if env.idle == CpuIdleType::NewlyIdle {
        return true;
    }
    let mask = &env.group(0).balance_mask;
    let first_idle = mask.iter().find(|&cpu| env.may_use(cpu) && env.rqs.idle[cpu]);
    first_idle.or_else(|| mask.first()) == Some(env.dst_cpu)
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

/// State of the root domain once this pass has refreshed it: set at a root, only ever raised below.
fn overutilized_after(env: &LbEnv<'_>) -> bool {
    env.overutilized || (!env.sd.is_root && env.system.overutilized)
}

/// kernel/sched/fair.c, v5.5, update_sd_lb_stats().
fn update_sd_lb_stats(env: &mut LbEnv<'_>) -> SdLbStats {
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

/// kernel/sched/fair.c, v5.5, fbq_classify_group().
fn fbq_classify_group(sgs: &SgLbStats) -> FbqType {
    fbq_classify(sgs.sum_h_nr_running, sgs.nr_numa_running, sgs.nr_preferred_running)
}

/// What is to be had among so many tasks, some with a preferred node, some of them on it.
fn fbq_classify(nr_running: u32, nr_numa_running: u32, nr_preferred_running: u32) -> FbqType {
    if nr_running > nr_numa_running {
        FbqType::Regular
    } else if nr_running > nr_preferred_running {
        FbqType::Remote
    } else {
        FbqType::All
    }
}

/// kernel/sched/fair.c, v5.5, update_sg_lb_stats().
fn update_sg_lb_stats(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = sum_runqueues(env, index);
    classify_sums(env, index, &mut sgs);
    sgs
}

/// The loop of update_sg_lb_stats(): sums over the group's CPUs that are in `env->cpus`.
pub(super) fn sum_runqueues(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let (group, rqs) = (env.group(index), env.rqs);
    let collects_misfit = index != 0 && env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY);
    let mut sgs = SgLbStats::default();
    let mut most_running = 0;
    for (start, end) in runs_within(group, env.excluded) {
        let cpus = start..end;
        let nr_running = &rqs.nr_running[cpus.clone()];
        sgs.group_load += rqs.load[cpus.clone()].iter().sum::<u64>();
        sgs.group_util += rqs.util[cpus.clone()].iter().sum::<u64>();
        sgs.sum_nr_running += nr_running.iter().sum::<u32>();
        sgs.sum_h_nr_running += rqs.h_nr_running[cpus.clone()].iter().sum::<u32>();
        sgs.nr_numa_running += rqs.nr_numa_running[cpus.clone()].iter().sum::<u32>();
        sgs.nr_preferred_running += rqs.nr_preferred_running[cpus.clone()].iter().sum::<u32>();
        let idle = &rqs.idle[cpus.clone()];
        sgs.idle_cpus +=
            nr_running.iter().zip(idle).map(|(&nr, &idle)| u32::from(nr == 0 && idle)).sum::<u32>();
        most_running = nr_running.iter().copied().fold(most_running, u32::max);
        if collects_misfit {
            // An idle CPU's misfit load is a leftover of the task that just went away.
            let busy = cpus.clone().filter(|&cpu| rqs.nr_running[cpu] != 0 || !rqs.idle[cpu]);
            let largest = busy.map(|cpu| rqs.misfit_task_load[cpu]).max().unwrap_or(0);
            sgs.group_misfit_task_load = sgs.group_misfit_task_load.max(largest);
        }
        if env.system.energy_aware {
            let mut cpus = cpus;
            env.overutilized |= cpus.any(|cpu| !fits_capacity(rqs.util[cpu], rqs.capacity[cpu]));
        }
    }
    env.overload |= most_running > 1 || sgs.group_misfit_task_load != 0;
    sgs
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
    let imbalanced = env.sgc_imbalance[group.sgc];
    sgs.group_type = (env.kernel.balance.group_classify.f)(env.kernel, env.sd.imbalance_pct, imbalanced, sgs);
    if sgs.group_type == GroupType::Overloaded {
        sgs.avg_load = avg_load(sgs);
    }
}

/// The CPUs of a group less the excluded ones, as ascending runs.
pub(super) fn runs_within<'a>(
    group: &'a SchedGroup,
    excluded: Option<&'a CpuMask>,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let excluded = excluded.filter(|excluded| excluded.intersects(&group.span));
    let whole = excluded.is_none().then(|| group.runs.iter().copied()).into_iter().flatten();
    let single = excluded.into_iter().flat_map(move |excluded| {
        group.span.iter().filter(move |&cpu| !excluded.test(cpu)).map(|cpu| (cpu, cpu + 1))
    });
    whole.chain(single)
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
        GroupType::Imbalanced | GroupType::SmtBalance => false,
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

/// kernel/sched/fair.c, v5.5: no imbalance between NUMA nodes is tolerated yet.
fn adjust_numa_imbalance(imbalance: i64, _dst_running: u32, _src_running: u32, _imb_numa_nr: u32) -> i64 {
    imbalance
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
            let fbq =
                fbq_classify(rqs.nr_running[cpu], rqs.nr_numa_running[cpu], rqs.nr_preferred_running[cpu]);
            if fbq > env.fbq_type {
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

/// kernel/sched/fair.c, v5.5, check_cpu_capacity(): other classes or interrupts take a good part of the CPU.
fn capacity_is_reduced(env: &LbEnv<'_>, cpu: usize) -> bool {
    let rqs = env.rqs;
    rqs.capacity[cpu] * u64::from(env.sd.imbalance_pct) < rqs.capacity_orig[cpu] * 100
}

/// kernel/sched/fair.c, v5.5, voluntary_active_balance().
fn voluntary_active_balance(env: &LbEnv<'_>) -> bool {
    let (rqs, src_cpu, dst_cpu) = (env.rqs, env.src_cpu, env.dst_cpu);
    let idle = env.idle.is_idle();
    let to_preferred = idle && env.sd.flags.has(SdFlags::ASYM_PACKING) && env.asym_prefer(dst_cpu, src_cpu);
    // A lone task on a CPU with little capacity left can go faster here.
    let to_free = idle
        && rqs.h_nr_running[src_cpu] == 1
        && capacity_is_reduced(env, src_cpu)
        && rqs.capacity[src_cpu] * u64::from(env.sd.imbalance_pct) < rqs.capacity[dst_cpu] * 100;
    to_preferred || to_free || env.migration_type == MigrationType::Misfit
}

/// kernel/sched/fair.c, v5.5, need_active_balance().
fn need_active_balance(env: &LbEnv<'_>) -> bool {
    (env.kernel.balance.voluntary_active_balance.f)(env)
        || env.nr_balance_failed > env.sd.cache_nice_tries.saturating_add(2)
}

/// kernel/sched/fair.c, v5.5, detach_tasks().
fn detach_tasks(env: &mut LbEnv<'_>, queue: &mut dyn SrcQueue) -> u32 {
    detach_with_least_load(env, queue, 0)
}

/// detach_tasks() that counts every task with a load of at least `least_load`.
pub(super) fn detach_with_least_load(env: &mut LbEnv<'_>, queue: &mut dyn SrcQueue, least_load: u64) -> u32 {
    let mut detached = 0;
    if env.imbalance <= 0 {
        return detached;
    }
    loop {
        env.scan.src_nr_running = queue.nr_running();
        env.scan.src_nr_preferred_running = queue.nr_preferred_running();
        let Some(task) = queue.tail() else { break };
        // The last task stays: its CPU would only go idle in turn.
        if env.idle.is_idle() && env.scan.src_nr_running <= 1 {
            break;
        }
        env.scan.nr_looked_at += 1;
        if env.scan.nr_looked_at > env.scan.loop_max {
            break;
        }
        if env.scan.nr_looked_at > env.scan.loop_break {
            env.scan.loop_break += super::env::TaskScan::NR_MIGRATE_BREAK;
            env.scan.need_break = true;
            break;
        }
        let p = queue.view(task);
        let taken = if (env.kernel.balance.can_migrate_task.f)(env, &p) {
            let amount = amount_to_move(env, &p, least_load);
            env.scan.refused.size += u32::from(amount.is_none());
            amount
        } else {
            None
        };
        let Some(amount) = taken else {
            queue.move_to_head(task);
            continue;
        };
        queue.detach(task);
        detached += 1;
        env.imbalance -= amount;
        // Newly idle, under preemption: somebody may already wait for this CPU.
        if env.system.preemption && env.idle == CpuIdleType::NewlyIdle {
            break;
        }
        if env.imbalance <= 0 {
            break;
        }
    }
    env.scan.src_nr_running = queue.nr_running();
    env.scan.src_nr_preferred_running = queue.nr_preferred_running();
    detached
}

/// What moving the task takes off the imbalance; `None` if it is too big, or a misfit pull does not concern it.
fn amount_to_move(env: &LbEnv<'_>, p: &TaskView<'_>, least_load: u64) -> Option<i64> {
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
        MigrationType::Misfit => {
            (!fits_capacity(p.util, env.rqs.capacity[env.src_cpu])).then_some(env.imbalance)
        }
    }
}

/// kernel/sched/fair.c, v5.5, can_migrate_task().
fn can_migrate_task(env: &mut LbEnv<'_>, p: &TaskView<'_>) -> bool {
    if p.throttled {
        env.scan.refused.throttled += 1;
        return false;
    }
    if !p.may_run_on(env.dst_cpu) {
        env.scan.refused.affinity += 1;
        env.scan.some_pinned = true;
        if env.idle != CpuIdleType::NewlyIdle && !env.scan.dst_pinned {
            let mut group = env.group(0).span.iter();
            if let Some(cpu) = group.find(|&cpu| env.may_use(cpu) && p.may_run_on(cpu)) {
                env.scan.dst_pinned = true;
                env.scan.new_dst_cpu = cpu;
            }
        }
        return false;
    }
    env.scan.all_pinned = false;
    if p.running {
        env.scan.refused.running += 1;
        return false;
    }
    let hot = migrate_degrades_locality(env, p).unwrap_or_else(|| task_hot(env, p));
    if hot && env.nr_balance_failed <= env.sd.cache_nice_tries {
        env.scan.refused.hot += 1;
        return false;
    }
    env.scan.nr_hot_gained += u32::from(hot);
    true
}

/// kernel/sched/fair.c, v5.5, migrate_degrades_locality(); `None` = no opinion.
fn migrate_degrades_locality(env: &LbEnv<'_>, p: &TaskView<'_>) -> Option<bool> {
    let numa = p.numa.filter(|_| env.system.numa_balancing && env.sd.flags.has(SdFlags::NUMA))?;
    let (src_node, dst_node) = (env.node_of[env.src_cpu], env.node_of[env.dst_cpu]);
    if src_node == dst_node {
        return None;
    }
    if numa.preferred_node == Some(src_node) {
        return (env.scan.src_nr_running > env.scan.src_nr_preferred_running).then_some(true);
    }
    if numa.preferred_node == Some(dst_node) {
        return Some(false);
    }
    // An idle CPU wastes more than a remote access.
    if env.idle == CpuIdleType::Idle {
        return None;
    }
    Some(numa.dst_weight < numa.src_weight)
}

/// kernel/sched/fair.c, v5.5, task_hot().
fn task_hot(env: &LbEnv<'_>, p: &TaskView<'_>) -> bool {
    if p.idle_policy {
        return false;
    }
    if env.rqs.nr_running[env.dst_cpu] != 0 && (p.next_buddy || p.last_buddy) {
        return true;
    }
    match env.system.migration_cost_ns {
        -1 => true,
        cost_ns => p.age_ns < cost_ns,
    }
}

/// kernel/sched/fair.c, v5.5, find_idlest_group().
fn find_idlest_group(env: &mut IdlestEnv<'_>) -> Option<usize> {
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
        if index != 0 && update_pick_idlest(env, idlest, &idlest_sgs, index, &sgs) {
            idlest = Some(index);
            idlest_sgs = sgs;
        }
    }
    let best = idlest?;
    match &env.stats[0] {
        Some(local_sgs) if stays_local(env, local_sgs, best, &idlest_sgs) => None,
        _ => Some(best),
    }
}

/// Whether the local group serves the task as well as the idlest one.
fn stays_local(env: &IdlestEnv<'_>, local_sgs: &SgLbStats, idlest: usize, idlest_sgs: &SgLbStats) -> bool {
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
        GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => true,
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
                // Memory stays near as long as a CPU idles here.
                if local_sgs.idle_cpus != 0 {
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
) -> bool {
    if sgs.group_type != idlest_sgs.group_type {
        return sgs.group_type < idlest_sgs.group_type;
    }
    match sgs.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => sgs.avg_load < idlest_sgs.avg_load,
        GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => false,
        GroupType::MisfitTask => {
            idlest.is_none_or(|best| env.group(index).max_capacity > env.group(best).max_capacity)
        }
        GroupType::HasSpare => sgs.idle_cpus > idlest_sgs.idle_cpus,
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
    let misfit = env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY) && !fits_capacity(p.util, group.max_capacity);
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

/// kernel/sched/fair.c, v5.5, wake_affine().
fn wake_affine(env: &WakeAffineEnv<'_>) -> WakeTarget {
    let wakeup = &env.kernel.wakeup;
    (wakeup.wake_affine_idle.f)(env)
        .or_else(|| (wakeup.wake_affine_weight.f)(env))
        .unwrap_or(WakeTarget::Prev)
}

/// kernel/sched/fair.c, v5.5, wake_affine_idle().
fn wake_affine_idle(env: &WakeAffineEnv<'_>) -> Option<WakeTarget> {
    if env.this.idle && env.share_cache {
        return Some(if env.prev.idle { WakeTarget::Prev } else { WakeTarget::This });
    }
    // The waker is alone and about to sleep: its CPU will be free at once.
    (env.sync && env.this.nr_running == 1).then_some(WakeTarget::This)
}

/// kernel/sched/fair.c, v5.5, wake_affine_weight().
fn wake_affine_weight(env: &WakeAffineEnv<'_>) -> Option<WakeTarget> {
    let signed = u64::cast_signed;
    let mut this_load = signed(env.this.load);
    if env.sync {
        let current_load = signed(env.waker_load);
        if current_load > this_load {
            return Some(WakeTarget::This);
        }
        this_load -= current_load;
    }
    let task_load = signed(env.wakee_load);
    let bias = 100 + i64::from(env.imbalance_pct.saturating_sub(100)) / 2;
    let this_eff_load = (this_load + task_load).wrapping_mul(100).wrapping_mul(signed(env.prev.capacity));
    let prev_eff_load = (signed(env.prev.load) - task_load)
        .wrapping_mul(bias)
        .wrapping_mul(signed(env.this.capacity))
        .wrapping_add(i64::from(env.sync));
    (this_eff_load < prev_eff_load).then_some(WakeTarget::This)
}

/// kernel/sched/fair.c, v5.5, wake_wide().
fn wake_wide(waker_flips: u32, wakee_flips: u32, llc_size: u32) -> bool {
    let (slave, master) = (waker_flips.min(wakee_flips), waker_flips.max(wakee_flips));
    slave >= llc_size && u64::from(master) >= u64::from(slave) * u64::from(llc_size)
}

/// kernel/sched/fair.c, v5.5, fits_capacity(): there is a fifth of room left.
pub(super) fn fits_capacity(value: u64, capacity: u64) -> bool {
    value * 1280 < capacity * 1024
}

/// Load of a group over its capacity.
pub(super) fn avg_load(sgs: &SgLbStats) -> u64 {
    sgs.group_load * SCHED_CAPACITY_SCALE / sgs.group_capacity
}

/// Load of the domain over its capacity.
fn domain_avg_load(sds: &SdLbStats) -> u64 {
    sds.total_load * SCHED_CAPACITY_SCALE / sds.total_capacity
}
