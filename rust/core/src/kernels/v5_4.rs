//! v5.4: the load balancer before its rework. Everything that moves is counted in load.
//!
//! A group is busier than another by its average load, the domain is balanced around its average, and a small imbalance
//! is rounded to a task by guessing at throughput. The load is that of the queued tasks (`runnable_load_avg`). The
//! complete table: v5.5 replaces the choice of the group and of the amount, and keeps the rest.
//!
//! Slots of other generations that have no counterpart here are filled so that nothing changes:
//! `adjust_numa_imbalance`. `update_sg_wakeup_stats` gives the sums only, since nobody classifies groups on wake-up.

use super::env::{
    BalanceRules, CpuIdleType, FbqType, GroupType, IdlestEnv, LbEnv, MigrationType, SdLbStats, SgLbStats,
    SrcQueue, TaskScan, TaskView, WakeAffineEnv, WakeCapEnv, WakeTarget,
};
use super::sis::select_idle_sibling_v5_4;
use super::{Balance, Kernel, Signals, Wakeup, capacity, cfs, groups, numa};
use crate::cpumask::CpuMask;
use crate::pelt::{PeltForm, SchedAvg};
use crate::slot;
use crate::topology::{SchedGroup, SdFlags};

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v5.4",
    source: "kernel/sched/fair.c of Linux 5.4",
    summary: "The load balancer before the rework: groups are compared by average load, imbalances are load.",
    signals: Signals {
        pelt_form: slot!(
            pelt_form,
            "PELT keeps load, the load of queued tasks (runnable_load_avg) and utilization."
        ),
        cpu_load: slot!(cpu_load, "A CPU's load is that of its queued tasks; sleepers do not count."),
        new_task_runnable: slot!(new_task_runnable, "A new task's runnable load is that of its weight."),
    },
    queue: cfs::QUEUE,
    balance: Balance {
        balance_rules: slot!(balance_rules, "Intervals, failures and ageing as before 5.6."),
        newidle_weight: slot!(newidle_weight, "Newidle balance leaves no level out by chance."),
        should_we_balance: slot!(should_we_balance, "A group's first idle CPU balances, else its first."),
        update_sg_lb_stats: slot!(update_sg_lb_stats, "Counts fair tasks; average load of every group."),
        group_has_capacity: slot!(
            group_has_capacity,
            "Room: fewer fair tasks than CPUs, or utilization to spare."
        ),
        group_is_overloaded: slot!(
            group_is_overloaded,
            "More fair tasks than CPUs, and no utilization to spare."
        ),
        group_classify: slot!(
            group_classify,
            "Four types only; whatever is not overloaded, imbalanced or misfit is `other`."
        ),
        update_sd_pick_busiest: slot!(
            update_sd_pick_busiest,
            "Of two groups of the same type, the one with more average load is busier."
        ),
        find_busiest_group: slot!(
            find_busiest_group,
            "The domain is balanced where average loads are within imbalance_pct of each other."
        ),
        calculate_imbalance: slot!(
            calculate_imbalance,
            "Load up to the domain's average moves; a small rest is rounded to a task by guessing at throughput."
        ),
        adjust_numa_imbalance: slot!(
            adjust_numa_imbalance,
            "An imbalance between NUMA nodes is like any other."
        ),
        find_busiest_queue: slot!(
            find_busiest_queue,
            "The source is the CPU with the most load over capacity."
        ),
        voluntary_active_balance: slot!(voluntary_active_balance, "Pushes a running misfit task."),
        need_active_balance: slot!(need_active_balance, "Pushes the running task after several failures."),
        can_migrate_task: slot!(
            can_migrate_task,
            "Affinity, running, locality and cache heat keep a task; failures overrule heat."
        ),
        detach_tasks: slot!(detach_tasks, "Tasks move while half their load is within the imbalance."),
    },
    wakeup: Wakeup {
        find_idlest_group: slot!(
            find_idlest_group,
            "By load of queued tasks, or by the most spare capacity for a task that is not new."
        ),
        update_sg_wakeup_stats: slot!(
            update_sg_wakeup_stats,
            "Sums for find_idlest_group; groups have no type on wake-up."
        ),
        wake_cap: slot!(
            wake_cap,
            "The waker's CPU attracts nobody where the smaller of the two CPUs is too small for the task."
        ),
        wake_affine: slot!(
            wake_affine,
            "First idleness, then load decides between the waker's CPU and the previous one."
        ),
        wake_affine_idle: slot!(wake_affine_idle, "The waker's idle CPU attracts within a cache."),
        wake_affine_weight: slot!(
            wake_affine_weight,
            "The less loaded CPU wins, the previous one with a margin."
        ),
        wake_wide: slot!(wake_wide, "Waker and wakee with many partners are spread."),
        select_idle_sibling: slot!(
            select_idle_sibling_v5_4,
            "Idle target, previous or recent CPU, idle core, idle CPU, idle sibling, in this order."
        ),
    },
    numa: numa::v5_6::NUMA,
    o1: None,
    capacity: capacity::V5_4,
    groups: groups::GROUPS,
};

/// One CPU of the biggest kind (`SCHED_CAPACITY_SCALE`), and the load of one nice-0 hog.
pub(super) const SCHED_CAPACITY_SCALE: u64 = 1024;

/// kernel/sched/pelt.c, v5.4: load, runnable load and utilization.
fn pelt_form() -> PeltForm {
    PeltForm::Old
}

/// kernel/sched/fair.c, v5.4, cpu_runnable_load(): the load of the queued tasks; sleepers do not count.
fn cpu_load(avg: &SchedAvg) -> u64 {
    // In the old form this slot of the averages holds runnable_load_avg.
    avg.runnable_avg
}

/// kernel/sched/fair.c, v5.4, init_entity_runnable_average(): it has set the runnable load already.
fn new_task_runnable(avg: &SchedAvg, _cpu_scale: u64) -> u64 {
    avg.runnable_avg
}

/// kernel/sched/fair.c, v5.4, load_balance(), rebalance_domains() and newidle_balance(): what they do around
/// the decisions.
fn balance_rules() -> BalanceRules {
    BalanceRules::default()
}

/// kernel/sched/fair.c, v5.4: no level is left out of newidle balance by chance.
fn newidle_weight(_newidle_ratio: u32, _roll: u32) -> Option<u32> {
    Some(1)
}

/// kernel/sched/fair.c, v5.4, should_we_balance().
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

/// kernel/sched/fair.c, v5.4, find_busiest_group().
fn find_busiest_group(env: &mut LbEnv<'_>) -> Option<usize> {
    let mut sds = update_sd_lb_stats(env);
    env.imbalance = 0;
    if env.system.energy_aware && env.system.perf_domains && !overutilized_after(env) {
        return None;
    }
    let busiest = sds.busiest?;
    if packs_on_preferred(env, busiest) {
        env.imbalance = sds.busiest_stat.group_load.cast_signed();
        return Some(busiest);
    }
    if sds.busiest_stat.sum_h_nr_running == 0 {
        return None;
    }
    sds.avg_load = domain_avg_load(&sds);
    if is_balanced(env, &sds) {
        return None;
    }
    env.src_grp_type = sds.busiest_stat.group_type;
    (env.kernel.balance.calculate_imbalance.f)(env, &mut sds);
    (env.imbalance != 0).then_some(busiest)
}

/// kernel/sched/fair.c, v5.4, check_asym_packing(): an idle CPU that is preferred takes all that the group has.
fn packs_on_preferred(env: &LbEnv<'_>, busiest: usize) -> bool {
    env.sd.flags.has(SdFlags::ASYM_PACKING)
        && env.idle.is_idle()
        && !env.asym_prefer(env.group(busiest).asym_prefer_cpu, env.dst_cpu)
}

/// Whether, the busiest group being known, there is nothing to repair.
fn is_balanced(env: &LbEnv<'_>, sds: &SdLbStats) -> bool {
    let (local, busiest) = (&sds.local_stat, &sds.busiest_stat);
    let pct = env.sd.imbalance_pct;
    let fills_room = env.idle.is_idle()
        && (env.kernel.balance.group_has_capacity.f)(pct, local)
        && busiest.group_no_capacity;
    if fills_room || matches!(busiest.group_type, GroupType::Imbalanced | GroupType::MisfitTask) {
        return false;
    }
    if local.avg_load >= busiest.avg_load || local.avg_load >= sds.avg_load {
        return true;
    }
    if env.idle == CpuIdleType::Idle {
        // The CPU idles already: it gains only if idle CPUs are uneven, or somebody waits there.
        busiest.group_type != GroupType::Overloaded && local.idle_cpus <= busiest.idle_cpus.wrapping_add(1)
    } else {
        busiest.avg_load.wrapping_mul(100) <= local.avg_load.wrapping_mul(u64::from(pct))
    }
}

/// State of the root domain once this pass has refreshed it: set at a root, only ever raised below.
pub(super) fn overutilized_after(env: &LbEnv<'_>) -> bool {
    env.overutilized || (!env.sd.is_root && env.system.overutilized)
}

/// kernel/sched/fair.c, v5.4, update_sd_lb_stats().
fn update_sd_lb_stats(env: &mut LbEnv<'_>) -> SdLbStats {
    let pct = env.sd.imbalance_pct;
    let prefer_sibling = env.sd.child_flags.has(SdFlags::PREFER_SIBLING);
    let none = SgLbStats { group_type: GroupType::Other, ..SgLbStats::default() };
    let mut sds = SdLbStats { prefer_sibling, busiest_stat: none, ..SdLbStats::default() };
    env.stats.clear();
    env.overload = false;
    env.overutilized = false;
    for index in 0..env.sd.ring.len() {
        let mut sgs = (env.kernel.balance.update_sg_lb_stats.f)(env, index);
        if index == 0 {
            sds.local_stat = sgs;
        } else {
            let balance = &env.kernel.balance;
            // Tasks should spread over the groups: one with more than its share counts as full.
            if prefer_sibling
                && (balance.group_has_capacity.f)(pct, &sds.local_stat)
                && sgs.sum_h_nr_running > sds.local_stat.sum_h_nr_running.wrapping_add(1)
            {
                sgs.group_no_capacity = true;
                let imbalanced = env.sgc_imbalance[env.group(index).sgc];
                sgs.group_type = (balance.group_classify.f)(env.kernel, pct, imbalanced, &sgs);
            }
            if (balance.update_sd_pick_busiest.f)(env, &sds, index, &sgs) {
                sds.busiest = Some(index);
                sds.busiest_stat = sgs;
            }
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

/// kernel/sched/fair.c, v5.4, fbq_classify_group().
pub(super) fn fbq_classify_group(sgs: &SgLbStats) -> FbqType {
    fbq_classify(sgs.sum_h_nr_running, sgs.nr_numa_running, sgs.nr_preferred_running)
}

/// What is to be had among so many tasks, some with a preferred node, some of them on it.
pub(super) fn fbq_classify(nr_running: u32, nr_numa_running: u32, nr_preferred_running: u32) -> FbqType {
    if nr_running > nr_numa_running {
        FbqType::Regular
    } else if nr_running > nr_preferred_running {
        FbqType::Remote
    } else {
        FbqType::All
    }
}

/// kernel/sched/fair.c, v5.4, update_sg_lb_stats().
fn update_sg_lb_stats(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = sum_runqueues(env, index);
    // Of the tasks only the fair ones are counted.
    sgs.sum_nr_running = sgs.sum_h_nr_running;
    classify_sums(env, index, sgs)
}

/// The end of update_sg_lb_stats(), from the sums on.
pub(super) fn classify_sums(env: &mut LbEnv<'_>, index: usize, mut sgs: SgLbStats) -> SgLbStats {
    if env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY) {
        sgs.group_misfit_task_load = largest_misfit(env, index, |_| true);
        env.overload |= sgs.group_misfit_task_load != 0;
    }
    let group = env.group(index);
    sgs.group_capacity = group.capacity;
    sgs.group_weight = group.weight;
    sgs.group_cores = group.cores;
    sgs.avg_load = avg_load(&sgs);
    sgs.load_per_task = load_per_task(&sgs);
    let pct = env.sd.imbalance_pct;
    sgs.group_no_capacity = (env.kernel.balance.group_is_overloaded.f)(pct, &sgs);
    let imbalanced = env.sgc_imbalance[group.sgc];
    sgs.group_type = (env.kernel.balance.group_classify.f)(env.kernel, pct, imbalanced, &sgs);
    sgs
}

/// Load of a group's average task, 0 without any.
fn load_per_task(sgs: &SgLbStats) -> u64 {
    sgs.group_load.checked_div(u64::from(sgs.sum_h_nr_running)).unwrap_or(0)
}

/// The loop of update_sg_lb_stats(): sums over the group's CPUs that are in `env->cpus`.
pub(super) fn sum_runqueues(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let (group, rqs) = (env.group(index), env.rqs);
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
        if env.system.energy_aware {
            let mut cpus = cpus;
            env.overutilized |= cpus.any(|cpu| !fits_capacity(rqs.util[cpu], rqs.capacity[cpu]));
        }
    }
    env.overload |= most_running > 1;
    sgs
}

/// The largest load of a misfit task on those of the group's CPUs in `env->cpus` that `counts` takes.
pub(super) fn largest_misfit(env: &LbEnv<'_>, index: usize, counts: impl Fn(usize) -> bool) -> u64 {
    let cpus = runs_within(env.group(index), env.excluded).flat_map(|(start, end)| start..end);
    cpus.filter(|&cpu| counts(cpu)).map(|cpu| env.rqs.misfit_task_load[cpu]).max().unwrap_or(0)
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

/// kernel/sched/fair.c, v5.4, group_has_capacity().
fn group_has_capacity(imbalance_pct: u32, sgs: &SgLbStats) -> bool {
    sgs.sum_h_nr_running < sgs.group_weight
        || sgs.group_capacity * 100 > sgs.group_util * u64::from(imbalance_pct)
}

/// kernel/sched/fair.c, v5.4, group_is_overloaded().
fn group_is_overloaded(imbalance_pct: u32, sgs: &SgLbStats) -> bool {
    sgs.sum_h_nr_running > sgs.group_weight
        && sgs.group_capacity * 100 < sgs.group_util * u64::from(imbalance_pct)
}

/// kernel/sched/fair.c, v5.4, group_classify().
fn group_classify(kernel: &Kernel, imbalance_pct: u32, imbalanced: bool, sgs: &SgLbStats) -> GroupType {
    if sgs.group_no_capacity || (kernel.balance.group_is_overloaded.f)(imbalance_pct, sgs) {
        GroupType::Overloaded
    } else if imbalanced {
        GroupType::Imbalanced
    } else if sgs.group_misfit_task_load != 0 {
        GroupType::MisfitTask
    } else {
        GroupType::Other
    }
}

/// kernel/sched/fair.c, v5.4, update_sd_pick_busiest().
fn update_sd_pick_busiest(env: &LbEnv<'_>, sds: &SdLbStats, index: usize, sgs: &SgLbStats) -> bool {
    let (group, local, busiest) = (env.group(index), env.group(0), &sds.busiest_stat);
    let has_capacity = env.kernel.balance.group_has_capacity.f;
    // A misfit task that would not fit here either, or would find no room, is better left alone.
    if sgs.group_type == GroupType::MisfitTask
        && (!fits_capacity(group.max_capacity, local.max_capacity)
            || !has_capacity(env.sd.imbalance_pct, &sds.local_stat))
    {
        return false;
    }
    if sgs.group_type != busiest.group_type {
        return sgs.group_type > busiest.group_type;
    }
    if sgs.avg_load <= busiest.avg_load {
        return false;
    }
    if env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY) {
        // Tasks that have a bigger CPU each must not be pulled to a smaller one.
        let to_smaller =
            sgs.sum_h_nr_running <= sgs.group_weight && fits_capacity(local.min_capacity, group.min_capacity);
        let smaller_misfit = sgs.group_type == GroupType::MisfitTask
            && sgs.group_misfit_task_load < busiest.group_misfit_task_load;
        if to_smaller || smaller_misfit {
            return false;
        }
    }
    if !env.sd.flags.has(SdFlags::ASYM_PACKING) || !env.idle.is_idle() {
        return true;
    }
    // Work moves to the most preferred CPU, first of all from the least preferred one.
    sgs.sum_h_nr_running != 0
        && env.asym_prefer(env.dst_cpu, group.asym_prefer_cpu)
        && sds
            .busiest
            .is_none_or(|best| env.asym_prefer(env.group(best).asym_prefer_cpu, group.asym_prefer_cpu))
}

/// kernel/sched/fair.c, v5.4, calculate_imbalance().
///
/// The sums are unsigned as in the kernel and may wrap round: a misfit task is pulled whatever the averages are.
fn calculate_imbalance(env: &mut LbEnv<'_>, sds: &mut SdLbStats) {
    env.migration_type = MigrationType::Load;
    env.imbalance = 0;
    // From the sums, so that the decision can be asked for on statistics alone.
    for sgs in [&mut sds.local_stat, &mut sds.busiest_stat] {
        sgs.avg_load = avg_load(sgs);
        sgs.load_per_task = load_per_task(sgs);
    }
    let busiest = &mut sds.busiest_stat;
    let (local, average) = (&sds.local_stat, sds.avg_load);
    let misfit = busiest.group_type == GroupType::MisfitTask;
    if busiest.group_type == GroupType::Imbalanced {
        // Affinity is in the way: the average task may be heavier than what can be moved.
        busiest.load_per_task = busiest.load_per_task.min(average);
    }
    if !misfit && (busiest.avg_load <= average || local.avg_load >= average) {
        return fix_small_imbalance(env, sds);
    }
    let both_overloaded = [&*busiest, local].iter().all(|sgs| sgs.group_type == GroupType::Overloaded);
    let load_above_capacity = if both_overloaded { load_above_capacity(busiest) } else { u64::MAX };
    let max_pull = busiest.avg_load.wrapping_sub(average).min(load_above_capacity);
    let surplus = max_pull.wrapping_mul(busiest.group_capacity);
    let room = average.wrapping_sub(local.avg_load).wrapping_mul(local.group_capacity);
    env.imbalance = (surplus.min(room) / SCHED_CAPACITY_SCALE).cast_signed();
    if misfit {
        env.imbalance = env.imbalance.max(busiest.group_misfit_task_load.cast_signed());
    }
    if env.imbalance.cast_unsigned() < busiest.load_per_task {
        fix_small_imbalance(env, sds);
    }
}

/// Load beyond one hog a CPU, over capacity; no bound where there is no such load.
fn load_above_capacity(sgs: &SgLbStats) -> u64 {
    let demand = u64::from(sgs.sum_h_nr_running) * SCHED_CAPACITY_SCALE;
    match demand.checked_sub(sgs.group_capacity) {
        None | Some(0) => u64::MAX,
        Some(above) => above * SCHED_CAPACITY_SCALE / sgs.group_capacity,
    }
}

/// kernel/sched/fair.c, v5.4, fix_small_imbalance(): whether one average task should move although the loads are near.
fn fix_small_imbalance(env: &mut LbEnv<'_>, sds: &SdLbStats) {
    let (local, busiest) = (&sds.local_stat, &sds.busiest_stat);
    let task = busiest.load_per_task;
    let local_task =
        if local.sum_h_nr_running == 0 { cpu_avg_load_per_task(env) } else { local.load_per_task };
    let tasks_off = if local.sum_h_nr_running != 0 && task > local_task { 1 } else { 2 };
    let scaled_task = task * SCHED_CAPACITY_SCALE / busiest.group_capacity;
    if busiest.avg_load + scaled_task >= local.avg_load + scaled_task * tasks_off {
        env.imbalance = task.cast_signed();
        return;
    }
    // Throughput as it is, and as it would be with a task moved: load beyond an average task is taken for waiting.
    let (busiest_capacity, local_capacity) = (busiest.group_capacity, local.group_capacity);
    let throughput = |capacity: u64, task: u64, load: u64| capacity.wrapping_mul(task.min(load));
    let now = throughput(busiest_capacity, task, busiest.avg_load).wrapping_add(throughput(
        local_capacity,
        local_task,
        local.avg_load,
    ));
    let left = busiest.avg_load.saturating_sub(scaled_task);
    let arriving =
        busiest.avg_load.wrapping_mul(busiest_capacity).min(task * SCHED_CAPACITY_SCALE) / local_capacity;
    let after = throughput(busiest_capacity, task, left).wrapping_add(throughput(
        local_capacity,
        local_task,
        local.avg_load + arriving,
    ));
    if after / SCHED_CAPACITY_SCALE > now / SCHED_CAPACITY_SCALE {
        env.imbalance = task.cast_signed();
    }
}

/// kernel/sched/fair.c, v5.4, cpu_avg_load_per_task() of the destination.
fn cpu_avg_load_per_task(env: &LbEnv<'_>) -> u64 {
    let cpu = env.dst_cpu;
    env.rqs.load[cpu].checked_div(u64::from(env.rqs.h_nr_running[cpu])).unwrap_or(0)
}

/// kernel/sched/fair.c, v5.4: an imbalance between NUMA nodes is like any other.
fn adjust_numa_imbalance(imbalance: i64, _dst_running: u32, _src_running: u32, _imb_numa_nr: u32) -> i64 {
    imbalance
}

/// kernel/sched/fair.c, v5.4, find_busiest_queue().
fn find_busiest_queue(env: &LbEnv<'_>, index: usize) -> Option<usize> {
    let rqs = env.rqs;
    let asym_capacity = env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY);
    let mut busiest: Option<usize> = None;
    let (mut busiest_load, mut busiest_capacity) = (0u64, 1u64);
    for cpu in runs_within(env.group(index), env.excluded).flat_map(|(start, end)| start..end) {
        if fbq_classify_rq(env, cpu) > env.fbq_type {
            continue;
        }
        if env.src_grp_type == GroupType::MisfitTask {
            if rqs.misfit_task_load[cpu] > busiest_load {
                (busiest, busiest_load) = (Some(cpu), rqs.misfit_task_load[cpu]);
            }
            continue;
        }
        let (load, capacity, alone) = (rqs.load[cpu], rqs.capacity[cpu], rqs.nr_running[cpu] == 1);
        if asym_capacity && alone && rqs.capacity[env.dst_cpu] < capacity {
            continue;
        }
        if alone && load > env.imbalance.cast_unsigned() && !capacity_is_reduced(env, cpu) {
            continue;
        }
        if load.wrapping_mul(busiest_capacity) > busiest_load.wrapping_mul(capacity) {
            (busiest, busiest_load, busiest_capacity) = (Some(cpu), load, capacity);
        }
    }
    busiest
}

/// kernel/sched/fair.c, v5.4, fbq_classify_rq().
pub(super) fn fbq_classify_rq(env: &LbEnv<'_>, cpu: usize) -> FbqType {
    let rqs = env.rqs;
    fbq_classify(rqs.nr_running[cpu], rqs.nr_numa_running[cpu], rqs.nr_preferred_running[cpu])
}

/// kernel/sched/fair.c, v5.4, check_cpu_capacity(): other classes or interrupts take a good part of the CPU.
pub(super) fn capacity_is_reduced(env: &LbEnv<'_>, cpu: usize) -> bool {
    let rqs = env.rqs;
    rqs.capacity[cpu] * u64::from(env.sd.imbalance_pct) < rqs.capacity_orig[cpu] * 100
}

/// kernel/sched/fair.c, v5.4, voluntary_active_balance().
fn voluntary_active_balance(env: &LbEnv<'_>) -> bool {
    moves_to_better_cpu(env) || env.src_grp_type == GroupType::MisfitTask
}

/// The part of voluntary_active_balance() that does not depend on what the pass wants to move.
pub(super) fn moves_to_better_cpu(env: &LbEnv<'_>) -> bool {
    let idle = env.idle.is_idle();
    let to_preferred =
        idle && env.sd.flags.has(SdFlags::ASYM_PACKING) && env.asym_prefer(env.dst_cpu, env.src_cpu);
    to_preferred || (idle && leaves_reduced_capacity(env))
}

/// A lone task on a CPU with little capacity left can go faster on the destination.
pub(super) fn leaves_reduced_capacity(env: &LbEnv<'_>) -> bool {
    let (rqs, src_cpu, dst_cpu) = (env.rqs, env.src_cpu, env.dst_cpu);
    rqs.h_nr_running[src_cpu] == 1
        && capacity_is_reduced(env, src_cpu)
        && rqs.capacity[src_cpu] * u64::from(env.sd.imbalance_pct) < rqs.capacity[dst_cpu] * 100
}

/// kernel/sched/fair.c, v5.4, need_active_balance().
pub(super) fn need_active_balance(env: &LbEnv<'_>) -> bool {
    (env.kernel.balance.voluntary_active_balance.f)(env)
        || env.nr_balance_failed > env.sd.cache_nice_tries.saturating_add(2)
}

/// kernel/sched/fair.c, v5.4, detach_tasks().
fn detach_tasks(env: &mut LbEnv<'_>, queue: &mut dyn SrcQueue) -> u32 {
    detach_by(env, queue, |env, p| {
        let load = p.load.cast_signed();
        (load / 2 <= env.imbalance).then_some(load)
    })
}

/// detach_tasks() with the rule for what moving a task takes off the imbalance; `None` = it stays.
pub(super) fn detach_by(
    env: &mut LbEnv<'_>,
    queue: &mut dyn SrcQueue,
    amount_to_move: impl Fn(&LbEnv<'_>, &TaskView<'_>) -> Option<i64>,
) -> u32 {
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
            env.scan.loop_break += TaskScan::NR_MIGRATE_BREAK;
            env.scan.need_break = true;
            break;
        }
        let p = queue.view(task);
        let taken = if (env.kernel.balance.can_migrate_task.f)(env, &p) {
            let amount = amount_to_move(env, &p);
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

/// kernel/sched/fair.c, v5.4, can_migrate_task().
fn can_migrate_task(env: &mut LbEnv<'_>, p: &TaskView<'_>) -> bool {
    if !can_move(env, p) {
        return false;
    }
    let hot = migrate_degrades_locality(env, p).unwrap_or_else(|| task_hot(env, p));
    accept_if_cool(env, hot)
}

/// The part of can_migrate_task() that no failures of earlier passes can change.
pub(super) fn can_move(env: &mut LbEnv<'_>, p: &TaskView<'_>) -> bool {
    if p.throttled {
        env.scan.refused.throttled += 1;
        return false;
    }
    if !p.may_run_on(env.dst_cpu) {
        env.scan.refused.affinity += 1;
        env.scan.some_pinned = true;
        if env.idle != CpuIdleType::NewlyIdle && !env.scan.dst_pinned && !env.scan.active_lb {
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
    true
}

/// The end of can_migrate_task(): a task that would lose its cache or memory stays, unless balancing failed too often.
pub(super) fn accept_if_cool(env: &mut LbEnv<'_>, hot: bool) -> bool {
    if hot && env.nr_balance_failed <= env.sd.cache_nice_tries {
        env.scan.refused.hot += 1;
        return false;
    }
    env.scan.nr_hot_gained += u32::from(hot);
    true
}

/// kernel/sched/fair.c, v5.4, migrate_degrades_locality(); `None` = no opinion.
pub(super) fn migrate_degrades_locality(env: &LbEnv<'_>, p: &TaskView<'_>) -> Option<bool> {
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

/// kernel/sched/fair.c, v5.4, task_hot().
pub(super) fn task_hot(env: &LbEnv<'_>, p: &TaskView<'_>) -> bool {
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

/// kernel/sched/fair.c, v5.4, find_idlest_group(): by the load of queued tasks, near ties by the load with
/// sleepers; but a task that is not new stays or goes where the most capacity is free.
fn find_idlest_group(env: &mut IdlestEnv<'_>) -> Option<usize> {
    let pct = u64::from(env.sd.imbalance_pct);
    let imbalance_scale = 100 + pct.saturating_sub(100) / 2;
    let imbalance = SCHED_CAPACITY_SCALE * pct.saturating_sub(100) / 100;
    let unseen = GroupRoom { runnable_load: u64::MAX, avg_load: u64::MAX, spare: 0 };
    let (mut local, mut idlest_room) = (unseen, unseen);
    let mut idlest = None;
    let (mut most_spare, mut most_spare_group) = (0, None);
    env.stats.clear();
    for index in 0..env.sd.ring.len() {
        if env.task.allowed.is_some_and(|allowed| !allowed.intersects(&env.group(index).span)) {
            env.stats.push(None);
            continue;
        }
        let sgs = (env.view.kernel.wakeup.update_sg_wakeup_stats.f)(env, index);
        env.stats.push(Some(sgs));
        let room = GroupRoom::of(env, index, &sgs);
        if index == 0 {
            local = room;
            continue;
        }
        // Sums wrap as in the kernel, where "no group yet" is the largest number.
        if idlest_room.runnable_load > room.runnable_load + imbalance {
            idlest_room = room;
            idlest = Some(index);
        } else if room.runnable_load < idlest_room.runnable_load.wrapping_add(imbalance)
            && idlest_room.avg_load.wrapping_mul(100) > imbalance_scale.wrapping_mul(room.avg_load)
        {
            idlest_room.avg_load = room.avg_load;
            idlest = Some(index);
        }
        if most_spare < room.spare {
            (most_spare, most_spare_group) = (room.spare, Some(index));
        }
    }
    if !env.task.new {
        if local.spare > env.task.util / 2 && imbalance_scale * local.spare > 100 * most_spare {
            return None;
        }
        if most_spare > env.task.util / 2 {
            return most_spare_group;
        }
    }
    let min_load = idlest_room.runnable_load;
    // Memory stays near unless the remote node is really idler.
    let near_enough =
        env.sd.flags.has(SdFlags::NUMA) && min_load.wrapping_add(imbalance) >= local.runnable_load;
    let idler_here = min_load > local.runnable_load.wrapping_add(imbalance)
        || (local.runnable_load < min_load.wrapping_add(imbalance)
            && local.avg_load.wrapping_mul(100) < imbalance_scale.wrapping_mul(idlest_room.avg_load));
    idlest.filter(|_| !near_enough && !idler_here)
}

/// What find_idlest_group() compares of a group.
#[derive(Clone, Copy)]
struct GroupRoom {
    /// Load of the queued tasks over capacity.
    runnable_load: u64,
    /// Load with sleepers over capacity.
    avg_load: u64,
    /// Capacity free on the CPU that has the most.
    spare: u64,
}

impl GroupRoom {
    fn of(env: &IdlestEnv<'_>, index: usize, sgs: &SgLbStats) -> Self {
        let (group, rqs) = (env.group(index), env.view.rqs);
        let cpus = || group.runs.iter().flat_map(|&(start, end)| start..end);
        let load_avg: u64 = cpus().map(|cpu| rqs.load_avg[cpu]).sum();
        Self {
            runnable_load: sgs.avg_load,
            avg_load: load_avg * SCHED_CAPACITY_SCALE / group.capacity,
            spare: cpus().map(|cpu| capacity_spare_without(env, cpu)).max().unwrap_or(0),
        }
    }
}

/// kernel/sched/fair.c, v5.4, capacity_spare_without(): capacity of a CPU that is free if the task is not there.
fn capacity_spare_without(env: &IdlestEnv<'_>, cpu: usize) -> u64 {
    let (rqs, p) = (env.view.rqs, &env.task);
    let own = if !p.new && cpu == p.cpu { p.util.min(rqs.util[cpu]) } else { 0 };
    rqs.capacity[cpu].saturating_sub(rqs.util[cpu] - own)
}

/// kernel/sched/fair.c, v5.4, find_idlest_group(), the sums over a group. The task's own load is left in.
fn update_sg_wakeup_stats(env: &IdlestEnv<'_>, index: usize) -> SgLbStats {
    let (group, rqs) = (env.group(index), env.view.rqs);
    let mut sgs = SgLbStats {
        group_capacity: group.capacity,
        group_weight: group.weight,
        group_cores: group.cores,
        group_type: GroupType::Other,
        ..SgLbStats::default()
    };
    for &(start, end) in &group.runs {
        let cpus = start..end;
        sgs.group_load += rqs.load[cpus.clone()].iter().sum::<u64>();
        sgs.group_util += rqs.util[cpus.clone()].iter().sum::<u64>();
        sgs.sum_nr_running += rqs.nr_running[cpus.clone()].iter().sum::<u32>();
        sgs.sum_h_nr_running += rqs.h_nr_running[cpus.clone()].iter().sum::<u32>();
        sgs.idle_cpus += cpus.filter(|&cpu| rqs.nr_running[cpu] == 0 && rqs.idle[cpu]).count() as u32;
    }
    sgs.avg_load = avg_load(&sgs);
    sgs
}

/// kernel/sched/fair.c, v5.4, wake_cap(): the task does not fit the smaller of the two CPUs, so that the
/// waker's CPU must not attract it.
fn wake_cap(env: &WakeCapEnv) -> bool {
    let differs = env.max_cpu_capacity - env.min_capacity_orig >= env.max_cpu_capacity >> 3;
    env.asym_capacity && differs && !fits_capacity(env.task_util, env.min_capacity_orig)
}

/// kernel/sched/fair.c, v5.4, wake_affine().
fn wake_affine(env: &WakeAffineEnv<'_>) -> WakeTarget {
    let wakeup = &env.kernel.wakeup;
    (wakeup.wake_affine_idle.f)(env)
        .or_else(|| (wakeup.wake_affine_weight.f)(env))
        .unwrap_or(WakeTarget::Prev)
}

/// kernel/sched/fair.c, v5.4, wake_affine_idle().
fn wake_affine_idle(env: &WakeAffineEnv<'_>) -> Option<WakeTarget> {
    if env.this.idle && env.share_cache {
        return Some(if env.prev.idle { WakeTarget::Prev } else { WakeTarget::This });
    }
    // The waker is alone and about to sleep: its CPU will be free at once.
    (env.sync && env.this.nr_running == 1).then_some(WakeTarget::This)
}

/// kernel/sched/fair.c, v5.4, wake_affine_weight().
pub(super) fn wake_affine_weight(env: &WakeAffineEnv<'_>) -> Option<WakeTarget> {
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

/// kernel/sched/fair.c, v5.4, wake_wide().
fn wake_wide(waker_flips: u32, wakee_flips: u32, llc_size: u32) -> bool {
    let (slave, master) = (waker_flips.min(wakee_flips), waker_flips.max(wakee_flips));
    slave >= llc_size && u64::from(master) >= u64::from(slave) * u64::from(llc_size)
}

/// kernel/sched/fair.c, v5.4, fits_capacity(): there is a fifth of room left.
pub(super) fn fits_capacity(value: u64, capacity: u64) -> bool {
    value * 1280 < capacity * 1024
}

/// Load of a group over its capacity.
pub(super) fn avg_load(sgs: &SgLbStats) -> u64 {
    sgs.group_load * SCHED_CAPACITY_SCALE / sgs.group_capacity
}

/// Load of the domain over its capacity.
pub(super) fn domain_avg_load(sds: &SdLbStats) -> u64 {
    sds.total_load * SCHED_CAPACITY_SCALE / sds.total_capacity
}
