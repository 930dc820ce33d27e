//! v6.12: four years of repairs on top of v5.7.
//!
//! * The queue: lag, eligibility, deadlines and slices instead of latencies ([`eevdf`](super::eevdf)).
//! * Cores: a group that is one core of busy threads has a class of its own (`smt_balance`), groups of unequal
//!   numbers of cores are compared by tasks a core (`sibling_imbalance`), asymmetric packing looks at whole
//!   cores, and the CPU that balances for its group is one on an idle core (`should_we_balance`).
//! * `adjust_numa_imbalance`: a node may keep as many tasks as the domain says (`imb_numa_nr`), not two.
//! * Capacities differ only from 5 % on (`capacity_greater`), and what counts is the destination's capacity,
//!   not its group's.
//! * `find_busiest_queue`: utilization is boosted by runnable_avg.
//! * `detach_tasks`: the size of a task shrinks with each failed pass, instead of being ignored after some.
//! * Wake-ups: how far the LLC is searched follows its utilization (`nr_idle_scan`), not the idle time of one
//!   CPU, and CPUs that share an L2 are searched first.
//! * NUMA placement, [by the time that tasks wait](super::numa::v6_12), too.
//! * Around the decisions see [`balance_rules`]; an active balance needs a pull that counts tasks.

use super::capacity::Fit;
use super::env::{
    BalanceRules, CpuIdleType, GroupType, IdlestEnv, LbEnv, MigrationType, SdLbStats, SgLbStats, SrcQueue,
    TaskView, WakeAffineEnv, WakeTarget,
};
use super::groups::GroupRules;
use super::patches::runnable_avg;
use super::sis_util::select_idle_sibling;
use super::v5_4::{
    SCHED_CAPACITY_SCALE, avg_load, capacity_is_reduced, detach_by, domain_avg_load, fbq_classify_rq,
    leaves_reduced_capacity, migrate_degrades_locality, overutilized_after, runs_within,
};
use super::{Balance, Groups, Kernel, Wakeup, capacity, eevdf, numa, v5_4, v5_5, v5_7, v5_10};
use crate::slot;
use crate::topology::{SchedGroup, SdFlags};

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v6.12",
    source: "kernel/sched/fair.c of Linux 6.12",
    summary: "The queue by eligibility and deadline (EEVDF). Balance between cores, a NUMA imbalance by size of the node, idle search by utilization of the LLC.",
    queue: eevdf::QUEUE,
    balance: Balance {
        balance_rules: slot!(
            balance_rules,
            "The gate of newidle is the lowest level's cost; busy intervals are a tick shorter; misfits do not count as failures."
        ),
        should_we_balance: slot!(
            should_we_balance,
            "A CPU on an idle core balances for its group before an idle thread of a busy core."
        ),
        update_sg_lb_stats: slot!(
            update_sg_lb_stats,
            "Knows cores: asym packing looks at whole cores, an SMT group of several tasks may spread."
        ),
        group_classify: slot!(
            group_classify,
            "A type more, `smt_balance`: a core of busy threads against an idle CPU."
        ),
        update_sd_pick_busiest: slot!(
            update_sd_pick_busiest,
            "Capacities differ from 5 % on, against the destination; an SMT group with several tasks is busier."
        ),
        find_busiest_group: slot!(
            find_busiest_group,
            "Compares groups of unequal numbers of cores by tasks a core."
        ),
        calculate_imbalance: slot!(
            calculate_imbalance,
            "No pull by utilization within an LLC; tasks a core even out groups of unequal size."
        ),
        adjust_numa_imbalance: slot!(
            adjust_numa_imbalance,
            "A NUMA node may keep as many tasks as the domain says (imb_numa_nr), not two."
        ),
        find_busiest_queue: slot!(
            find_busiest_queue,
            "Utilization is boosted by runnable_avg; a lone task that outranks the destination stays."
        ),
        voluntary_active_balance: slot!(
            need_active_balance,
            "Repeated failure pushes the running task only where tasks are counted."
        ),
        need_active_balance: slot!(
            need_active_balance,
            "Repeated failure pushes the running task only where tasks are counted."
        ),
        can_migrate_task: slot!(
            can_migrate_task,
            "A per-CPU kernel thread stays; siblings of a core are never cache-hot; an active push takes what runs."
        ),
        detach_tasks: slot!(detach_tasks, "The size of a task shrinks with each failed pass."),
        ..v5_7::KERNEL.balance
    },
    wakeup: Wakeup {
        find_idlest_group: slot!(
            find_idlest_group,
            "Ties of idle CPUs go by utilization; a NUMA imbalance is tolerated by the size of the node."
        ),
        update_sg_wakeup_stats: slot!(
            update_sg_wakeup_stats,
            "A misfit is one that fits no CPU of the group."
        ),
        wake_affine_idle: slot!(
            wake_affine_idle,
            "An idle previous CPU is kept where neither rule says otherwise."
        ),
        select_idle_sibling: slot!(
            select_idle_sibling,
            "The search is as wide as the utilization of the LLC says; CPUs of a cluster come first."
        ),
        ..v5_7::KERNEL.wakeup
    },
    numa: numa::v6_12::NUMA,
    capacity: capacity::V6_12,
    groups: Groups {
        group_rules: slot!(
            group_rules,
            "Groups can be idle and save up runtime; a throttled queue is put back by its own CPU."
        ),
    },
    ..v5_7::KERNEL
};

/// kernel/sched/fair.c, v6.12, sched_balance_rq(), sched_balance_domains() and sched_balance_newidle().
fn balance_rules() -> BalanceRules {
    BalanceRules {
        newidle_needs_migration_cost: false,
        newidle_ages_tickless: false,
        ages_tickless_after_newidle: true,
        raised_cost_delays_decay: true,
        busy_interval_shortened_by: 1,
        misfit_failure_counts: false,
        active_balance_raises_failures: false,
        ..(v5_7::KERNEL.balance.balance_rules.f)()
    }
}

/// kernel/sched/fair.c, v6.12, init_cfs_bandwidth(), throttle_cfs_rq() and distribute_cfs_runtime().
fn group_rules() -> GroupRules {
    GroupRules {
        has_cpu_idle: true,
        has_burst: true,
        periods_interleave: true,
        unthrottles_by_interrupt: true,
        throttled_time_needs_tasks: true,
        ..(v5_10::KERNEL.groups.group_rules.f)()
    }
}

/// kernel/sched/fair.c, v6.12, should_we_balance().
///
/// Above the threads of a core, a CPU on an idle core does the work for its group rather than one with a busy sibling.
fn should_we_balance(env: &LbEnv<'_>) -> bool {
    let (rqs, dst_cpu) = (env.rqs, env.dst_cpu);
    if !env.may_use(dst_cpu) {
        return false;
    }
    if env.idle == CpuIdleType::NewlyIdle {
        return rqs.nr_running[dst_cpu] == 0 && !rqs.ttwu_pending[dst_cpu];
    }
    let mask = &env.group(0).balance_mask;
    let threads = env.sd.flags.has(SdFlags::SHARE_CPUCAPACITY);
    let mut idle_thread = None;
    for cpu in mask.iter().filter(|&cpu| env.may_use(cpu) && rqs.idle[cpu]) {
        if threads || rqs.is_core_idle(cpu) {
            return cpu == dst_cpu;
        }
        idle_thread = idle_thread.or(Some(cpu));
    }
    idle_thread.or_else(|| mask.first()) == Some(dst_cpu)
}

/// kernel/sched/fair.c, v6.12, sched_balance_find_src_group().
fn find_busiest_group(env: &mut LbEnv<'_>) -> Option<usize> {
    let mut sds = update_sd_lb_stats(env);
    env.imbalance = 0;
    let busiest = sds.busiest?;
    if !is_balanced(env, &mut sds, busiest) {
        (env.kernel.balance.calculate_imbalance.f)(env, &mut sds);
    }
    (env.imbalance != 0).then_some(busiest)
}

/// Whether, the busiest group being known, there is nothing to repair.
fn is_balanced(env: &LbEnv<'_>, sds: &mut SdLbStats, busiest_index: usize) -> bool {
    let (local, busiest) = (sds.local_stat, sds.busiest_stat);
    if busiest.group_type == GroupType::MisfitTask {
        return false;
    }
    if env.system.energy_aware && env.system.perf_domains && !overutilized_after(env) {
        return true;
    }
    match busiest.group_type {
        GroupType::AsymPacking | GroupType::Imbalanced => return false,
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
    if sds.prefer_sibling
        && local.group_type == GroupType::HasSpare
        && sibling_imbalance(env, &busiest, &local) > 1
    {
        return false;
    }
    if busiest.group_type == GroupType::Overloaded {
        return false;
    }
    // Nobody waits for a CPU there: only an idle CPU gains, and only if idle CPUs or busy threads are uneven.
    if !env.idle.is_idle() {
        return true;
    }
    let threads_against_core = busiest.group_type == GroupType::SmtBalance
        && is_core(env.group(0)) != is_core(env.group(busiest_index));
    !threads_against_core
        && ((busiest.group_weight > 1 && local.idle_cpus <= busiest.idle_cpus.wrapping_add(1))
            || busiest.sum_h_nr_running == 1)
}

/// kernel/sched/fair.c, v6.12, sibling_imbalance(): tasks that should move so that each core has as many.
fn sibling_imbalance(env: &LbEnv<'_>, busiest: &SgLbStats, local: &SgLbStats) -> i64 {
    if !env.idle.is_idle() || busiest.sum_nr_running == 0 {
        return 0;
    }
    let (busiest_cores, local_cores) = (i64::from(busiest.group_cores), i64::from(local.group_cores));
    let (busiest_tasks, local_tasks) = (i64::from(busiest.sum_nr_running), i64::from(local.sum_nr_running));
    if busiest_cores == local_cores {
        return (busiest_tasks - local_tasks).max(0);
    }
    let cores = busiest_cores + local_cores;
    let uneven = (local_cores * busiest_tasks - busiest_cores * local_tasks).max(0);
    // Rounded; twice what should move.
    let imbalance = (2 * uneven + cores) / cores;
    if imbalance <= 1 && local_tasks == 0 && busiest_tasks > 1 { 2 } else { imbalance }
}

/// Whether a group is the threads of one core.
fn is_core(group: &SchedGroup) -> bool {
    group.flags.has(SdFlags::SHARE_CPUCAPACITY)
}

/// kernel/sched/fair.c, v6.12, update_sd_lb_stats().
fn update_sd_lb_stats(env: &mut LbEnv<'_>) -> SdLbStats {
    let mut sds = v5_5::update_sd_lb_stats(env);
    sds.prefer_sibling = sds.busiest.is_some_and(|best| env.group(best).flags.has(SdFlags::PREFER_SIBLING));
    env.nr_idle_scan = nr_idle_scan(env, env.stats.iter().map(|sgs| sgs.group_util).sum());
    sds
}

/// kernel/sched/fair.c, v6.12, update_idle_cpu_scan(): the busier the LLC, the fewer of its CPUs a wake-up
/// looks at; none from about 85 % on.
fn nr_idle_scan(env: &LbEnv<'_>, sum_util: u64) -> Option<u32> {
    let llc_size = u64::from(env.llc_size);
    let is_llc = llc_size != 0 && env.sd.span_weight == env.llc_size;
    if !env.system.sis_util || env.idle == CpuIdleType::NewlyIdle || !is_llc {
        return None;
    }
    let pct = u64::from(env.sd.imbalance_pct);
    let util = sum_util / llc_size;
    let used = util.wrapping_mul(util).wrapping_mul(pct).wrapping_mul(pct) / (10_000 * SCHED_CAPACITY_SCALE);
    let left = SCHED_CAPACITY_SCALE - used.min(SCHED_CAPACITY_SCALE);
    Some((left * llc_size / SCHED_CAPACITY_SCALE) as u32)
}

/// kernel/sched/fair.c, v6.12, update_sg_lb_stats().
fn update_sg_lb_stats(env: &mut LbEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = runnable_avg::sum_runqueues(env, index);
    collect_misfit(env, index, &mut sgs);
    let group = env.group(index);
    sgs.group_capacity = group.capacity;
    sgs.group_weight = group.weight;
    sgs.group_cores = group.cores;
    if index != 0 && env.idle.is_idle() {
        sgs.group_asym_packing = sgs.sum_h_nr_running != 0 && sched_group_asym(env, group, &sgs);
        sgs.group_smt_balance = is_core(group) && sgs.sum_h_nr_running > 1;
    }
    let imbalanced = env.sgc_imbalance[group.sgc];
    sgs.group_type =
        (env.kernel.balance.group_classify.f)(env.kernel, env.sd.imbalance_pct, imbalanced, &sgs);
    if sgs.group_type == GroupType::Overloaded {
        sgs.avg_load = avg_load(&sgs);
    }
    sgs
}

/// The part of update_sg_lb_stats() for misfit tasks. Where all CPUs are alike, a task alone on a CPU that
/// other classes or interrupts slow down counts as one, for an idle CPU.
fn collect_misfit(env: &mut LbEnv<'_>, index: usize, sgs: &mut SgLbStats) {
    v5_5::collect_misfit(env, index, sgs);
    if index == 0 || env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY) || !env.idle.is_idle() {
        return;
    }
    let rqs = env.rqs;
    let slowed = runs_within(env.group(index), env.excluded)
        .flat_map(|(start, end)| start..end)
        .filter(|&cpu| rqs.h_nr_running[cpu] == 1 && capacity_is_reduced(env, cpu));
    sgs.group_misfit_task_load = slowed.map(|cpu| rqs.load[cpu]).max().unwrap_or(0);
}

/// kernel/sched/fair.c, v6.12, sched_group_asym(): whether the destination is preferred to the group. Of a core
/// only the last busy thread moves.
fn sched_group_asym(env: &LbEnv<'_>, group: &SchedGroup, sgs: &SgLbStats) -> bool {
    let one_busy = sgs.group_weight.wrapping_sub(sgs.idle_cpus) == 1;
    (!is_core(group) || one_busy) && sched_asym(env, env.dst_cpu, group.asym_prefer_cpu)
}

/// kernel/sched/fair.c, v6.12, sched_asym(): whether the first CPU is preferred, and its priority counts.
fn sched_asym(env: &LbEnv<'_>, dst_cpu: usize, src_cpu: usize) -> bool {
    sched_use_asym_prio(env, dst_cpu) && env.asym_prefer(dst_cpu, src_cpu)
}

/// kernel/sched/fair.c, v6.12, sched_use_asym_prio(): priorities compare whole cores, unless the domain is one.
fn sched_use_asym_prio(env: &LbEnv<'_>, cpu: usize) -> bool {
    env.sd.flags.has(SdFlags::ASYM_PACKING)
        && (!env.system.smt_active
            || env.sd.flags.has(SdFlags::SHARE_CPUCAPACITY)
            || env.rqs.is_core_idle(cpu))
}

/// kernel/sched/fair.c, v6.12, group_classify().
fn group_classify(kernel: &Kernel, imbalance_pct: u32, imbalanced: bool, sgs: &SgLbStats) -> GroupType {
    let class = (v5_7::KERNEL.balance.group_classify.f)(kernel, imbalance_pct, imbalanced, sgs);
    if sgs.group_smt_balance { class.max(GroupType::SmtBalance) } else { class }
}

/// kernel/sched/fair.c, v6.12, update_sd_pick_busiest().
fn update_sd_pick_busiest(env: &LbEnv<'_>, sds: &SdLbStats, index: usize, sgs: &SgLbStats) -> bool {
    let (group, busiest) = (env.group(index), &sds.busiest_stat);
    let asym_capacity = env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY);
    let dst_capacity = env.rqs.capacity[env.dst_cpu];
    if sgs.sum_h_nr_running == 0 {
        return false;
    }
    // A misfit task that would not fit here either, or would find no room, is better left alone.
    if asym_capacity
        && sgs.group_type == GroupType::MisfitTask
        && (!capacity_greater(dst_capacity, group.max_capacity)
            || sds.local_stat.group_type != GroupType::HasSpare)
    {
        return false;
    }
    if sgs.group_type != busiest.group_type {
        return sgs.group_type > busiest.group_type;
    }
    let best = sds.busiest.map(|best| env.group(best));
    let fewer_idle = sgs.idle_cpus < busiest.idle_cpus
        || (sgs.idle_cpus == busiest.idle_cpus && sgs.sum_nr_running > busiest.sum_nr_running);
    let higher_load =
        sgs.avg_load > busiest.avg_load || (sgs.avg_load == busiest.avg_load && !best.is_some_and(is_core));
    let busier = match sgs.group_type {
        GroupType::Overloaded => return sgs.avg_load > busiest.avg_load,
        GroupType::Imbalanced | GroupType::Other => return false,
        GroupType::AsymPacking => {
            return best.is_some_and(|best| env.asym_prefer(best.asym_prefer_cpu, group.asym_prefer_cpu));
        }
        GroupType::MisfitTask => return sgs.group_misfit_task_load > busiest.group_misfit_task_load,
        GroupType::SmtBalance if sgs.idle_cpus != 0 || busiest.idle_cpus != 0 => fewer_idle,
        GroupType::SmtBalance | GroupType::FullyBusy => higher_load,
        // Of a core and a single CPU the core is busier, if two of its threads are in use.
        GroupType::HasSpare if best.is_some_and(|best| is_core(best) != is_core(group)) => {
            return !is_core(group) || sgs.sum_h_nr_running > 1;
        }
        GroupType::HasSpare => fewer_idle,
    };
    // Tasks that fit a bigger CPU must not be pulled to a smaller one.
    let to_smaller = asym_capacity
        && sgs.group_type <= GroupType::FullyBusy
        && capacity_greater(group.min_capacity, dst_capacity);
    busier && !to_smaller
}

/// kernel/sched/fair.c, v6.12, capacity_greater(): by more than 5 %.
fn capacity_greater(a: u64, b: u64) -> bool {
    a * 1024 > b * 1078
}

/// kernel/sched/fair.c, v6.12, calculate_imbalance().
fn calculate_imbalance(env: &mut LbEnv<'_>, sds: &mut SdLbStats) {
    let (migration_type, imbalance) = migration(env, sds);
    env.migration_type = migration_type;
    env.imbalance = imbalance;
}

/// What to move from the busiest group to the local one, and how much.
fn migration(env: &LbEnv<'_>, sds: &mut SdLbStats) -> (MigrationType, i64) {
    let (local, busiest) = (&mut sds.local_stat, &sds.busiest_stat);
    match busiest.group_type {
        GroupType::MisfitTask if env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY) => {
            return (MigrationType::Misfit, 1);
        }
        // All CPUs are alike: the task is only slowed down.
        GroupType::MisfitTask => {
            return (MigrationType::Load, busiest.group_misfit_task_load.cast_signed());
        }
        GroupType::AsymPacking => return (MigrationType::Task, i64::from(busiest.sum_h_nr_running)),
        // A busy thread leaves its core; or affinity is in the way, and one task at a time is tried.
        GroupType::SmtBalance | GroupType::Imbalanced => return (MigrationType::Task, 1),
        _ => {}
    }
    if local.group_type == GroupType::HasSpare {
        return fill_spare_capacity(env, sds);
    }
    if local.group_type < GroupType::Overloaded {
        local.avg_load = avg_load(local);
        if local.avg_load >= busiest.avg_load {
            return (MigrationType::Load, 0);
        }
        sds.avg_load = domain_avg_load(sds);
        if sds.local_stat.avg_load >= sds.avg_load {
            return (MigrationType::Load, 0);
        }
    }
    let (local, busiest) = (&sds.local_stat, &sds.busiest_stat);
    let surplus = busiest.avg_load.wrapping_sub(sds.avg_load).wrapping_mul(busiest.group_capacity);
    let room = sds.avg_load.wrapping_sub(local.avg_load).wrapping_mul(local.group_capacity);
    (MigrationType::Load, (surplus.min(room) / SCHED_CAPACITY_SCALE).cast_signed())
}

/// The part of calculate_imbalance() for a local group with capacity to spare.
fn fill_spare_capacity(env: &LbEnv<'_>, sds: &SdLbStats) -> (MigrationType, i64) {
    let (local, busiest) = (&sds.local_stat, &sds.busiest_stat);
    // Within an LLC idle CPUs are what counts.
    if busiest.group_type > GroupType::FullyBusy && !env.sd.flags.has(SdFlags::SHARE_LLC) {
        let spare = local.group_capacity.saturating_sub(local.group_util);
        if spare == 0 && env.idle.is_idle() {
            // Utilization is full although a CPU idles: the sums are behind the times.
            return (MigrationType::Task, 1);
        }
        return (MigrationType::Util, spare.cast_signed());
    }
    let uneven = if busiest.group_weight == 1 || sds.prefer_sibling {
        sibling_imbalance(env, busiest, local)
    } else {
        i64::from(local.idle_cpus.wrapping_sub(busiest.idle_cpus))
    };
    let uneven = if env.sd.flags.has(SdFlags::NUMA) {
        (env.kernel.balance.adjust_numa_imbalance.f)(
            uneven,
            local.sum_nr_running.wrapping_add(1),
            busiest.sum_nr_running,
            env.sd.imb_numa_nr,
        )
    } else {
        uneven
    };
    (MigrationType::Task, uneven >> 1)
}

/// kernel/sched/fair.c, v6.12, adjust_numa_imbalance(): while the destination is nearly empty, a pair of tasks may stay
/// together.
fn adjust_numa_imbalance(imbalance: i64, dst_running: u32, _src_running: u32, imb_numa_nr: u32) -> i64 {
    if dst_running <= imb_numa_nr && imbalance <= NUMA_IMBALANCE_MIN { 0 } else { imbalance }
}

/// Tasks that a node may have more than another (`NUMA_IMBALANCE_MIN`).
const NUMA_IMBALANCE_MIN: i64 = 2;

/// kernel/sched/fair.c, v6.12, sched_balance_find_src_rq().
fn find_busiest_queue(env: &LbEnv<'_>, index: usize) -> Option<usize> {
    let (rqs, dst_cpu) = (env.rqs, env.dst_cpu);
    let asym_capacity = env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY);
    // Load is compared per capacity; the other units are plain, over a capacity of 1.
    let mut busiest: Option<usize> = None;
    let (mut busiest_amount, mut busiest_capacity) = (0u64, 1u64);
    for cpu in runs_within(env.group(index), env.excluded).flat_map(|(start, end)| start..end) {
        let nr_running = rqs.h_nr_running[cpu];
        if nr_running == 0 || fbq_classify_rq(env, cpu) > env.fbq_type {
            continue;
        }
        if nr_running == 1
            && ((asym_capacity && !capacity_greater(rqs.capacity[dst_cpu], rqs.capacity[cpu]))
                || sched_asym(env, cpu, dst_cpu))
        {
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
            MigrationType::Util if nr_running == 1 => continue,
            // cpu_util_cfs_boost(): time spent waiting would have been used.
            MigrationType::Util => (rqs.util[cpu].max(rqs.runnable[cpu]).min(rqs.capacity_orig[cpu]), 1),
            MigrationType::Task => (u64::from(nr_running), 1),
            MigrationType::Misfit => (rqs.misfit_task_load[cpu], 1),
        };
        if amount.wrapping_mul(busiest_capacity) > busiest_amount.wrapping_mul(capacity) {
            (busiest, busiest_amount, busiest_capacity) = (Some(cpu), amount, capacity);
        }
    }
    busiest
}

/// kernel/sched/fair.c, v6.12, need_active_balance(). The kernel asks it a second time where earlier ones ask for
/// voluntary_active_balance().
fn need_active_balance(env: &LbEnv<'_>) -> bool {
    let idle = env.idle.is_idle();
    let to_preferred = idle
        && sched_use_asym_prio(env, env.dst_cpu)
        && (env.asym_prefer(env.dst_cpu, env.src_cpu) || !sched_use_asym_prio(env, env.src_cpu));
    let failed_often = env.migration_type == MigrationType::Task
        && env.nr_balance_failed > env.sd.cache_nice_tries.saturating_add(2);
    to_preferred
        || failed_often
        || (idle && leaves_reduced_capacity(env))
        || env.migration_type == MigrationType::Misfit
}

/// kernel/sched/fair.c, v6.12, detach_tasks().
fn detach_tasks(env: &mut LbEnv<'_>, queue: &mut dyn SrcQueue) -> u32 {
    if queue.nr_running() <= 1 {
        // A task that went elsewhere meanwhile was not pinned.
        env.scan.all_pinned = false;
        return 0;
    }
    detach_by(env, queue, amount_to_move)
}

/// What moving the task takes off the imbalance; `None` if it is too big, or a misfit pull does not concern it.
fn amount_to_move(env: &LbEnv<'_>, p: &TaskView<'_>) -> Option<i64> {
    // Each failed pass halves what a task counts, until it fits.
    let halved = |amount: i64| amount >> env.nr_balance_failed.min(i64::BITS - 1);
    let fitting = |amount: i64| (halved(amount) <= env.imbalance).then_some(amount);
    match env.migration_type {
        MigrationType::Load => fitting(p.load.max(1).cast_signed()),
        MigrationType::Util => fitting(p.util.cast_signed()),
        MigrationType::Task => Some(1),
        MigrationType::Misfit => v5_5::is_misfit_of_source(env, p).then_some(env.imbalance),
    }
}

/// kernel/sched/fair.c, v6.12, can_migrate_task().
fn can_migrate_task(env: &mut LbEnv<'_>, p: &TaskView<'_>) -> bool {
    if p.per_cpu_kthread && !p.throttled {
        env.scan.refused.affinity += 1;
        return false;
    }
    if !v5_4::can_move(env, p) {
        return false;
    }
    if env.scan.active_lb {
        return true;
    }
    let hot = migrate_degrades_locality(env, p).unwrap_or_else(|| task_hot(env, p));
    v5_4::accept_if_cool(env, hot)
}

/// kernel/sched/fair.c, v6.12, task_hot().
fn task_hot(env: &LbEnv<'_>, p: &TaskView<'_>) -> bool {
    // Threads of a core share all caches; and there is no last buddy any more.
    !env.sd.flags.has(SdFlags::SHARE_CPUCAPACITY)
        && v5_4::task_hot(env, &TaskView { last_buddy: false, ..*p })
}

/// kernel/sched/fair.c, v6.12, sched_balance_find_dst_group().
fn find_idlest_group(env: &mut IdlestEnv<'_>) -> Option<usize> {
    v5_5::idlest_group(
        env,
        |sgs, idlest| {
            sgs.idle_cpus > idlest.idle_cpus
                || (sgs.idle_cpus == idlest.idle_cpus && sgs.group_util < idlest.group_util)
        },
        stays_near_memory,
    )
}

/// Whether a task stays in the local node, both nodes having capacity to spare: as long as balancing would
/// leave it there.
fn stays_near_memory(env: &IdlestEnv<'_>, local: &SgLbStats, idlest: &SgLbStats) -> bool {
    let usable = || match env.task.allowed {
        Some(allowed) => env.group(0).span.iter().filter(|&cpu| allowed.test(cpu)).count() as u32,
        None => env.group(0).weight,
    };
    let imb_numa_nr = if env.task.unrestricted {
        env.sd.imb_numa_nr
    } else {
        // A task that may use few CPUs must not fill them up.
        env.sd.imb_numa_nr.min(usable())
    };
    let imbalance = i64::from(local.idle_cpus.abs_diff(idlest.idle_cpus));
    let adjust = env.view.kernel.balance.adjust_numa_imbalance.f;
    adjust(imbalance, local.sum_nr_running.wrapping_add(1), idlest.sum_nr_running, imb_numa_nr) == 0
}

/// kernel/sched/fair.c, v6.12, update_sg_wakeup_stats().
fn update_sg_wakeup_stats(env: &IdlestEnv<'_>, index: usize) -> SgLbStats {
    let mut sgs = runnable_avg::sum_without_task(env, index);
    let (view, demand) = (&env.view, env.task.demand());
    let fits = |cpu: usize| (view.kernel.capacity.util_fits_cpu.f)(demand, view.rqs.room(cpu)) == Fit::Yes;
    let misfit = env.sd.flags.has(SdFlags::ASYM_CPUCAPACITY) && !env.group(index).span.iter().any(fits);
    sgs.group_misfit_task_load = u64::from(misfit);
    v5_7::finish_wakeup_stats(env, index, &mut sgs);
    sgs
}

/// kernel/sched/fair.c, v6.12, wake_affine_idle(): an idle previous CPU is the answer, whatever it shares with
/// this one.
fn wake_affine_idle(env: &WakeAffineEnv<'_>) -> Option<WakeTarget> {
    let earlier = v5_7::KERNEL.wakeup.wake_affine_idle.f;
    earlier(env).or_else(|| env.prev.idle.then_some(WakeTarget::Prev))
}

#[cfg(test)]
mod tests {
    use super::super::env::RqStats;
    use super::*;
    use crate::balance::{BusiestCase, parse};

    #[test]
    fn siblings_are_the_other_threads_of_a_core() {
        let mut rqs = RqStats::new(6);
        assert_eq!(rqs.siblings(3).count(), 0);
        rqs.set_cores(&[7, 8, 7, 8, 7, 9]);
        assert_eq!(rqs.siblings(2).collect::<Vec<_>>(), [4, 0]);
        rqs.idle[3] = false;
        assert_eq!([0, 1, 3, 5].map(|cpu| rqs.is_core_idle(cpu)), [true, false, true, true]);
    }

    /// Pulls from a core of two busy threads to an idle core, within an LLC.
    #[test]
    fn a_busy_thread_leaves_its_core_for_an_idle_one() {
        let case: BusiestCase = parse(
            r#"{"idle": "idle", "dst_cpu": 0,
                "sd": {"imbalance_pct": 117, "share_llc": true, "smt_active": true},
                "groups": [{"cpus": [0, 1], "share_cpucapacity": true},
                           {"cpus": [2, 3], "share_cpucapacity": true}],
                "cpus": {"nr_running": [0, 0, 1, 1], "h_nr_running": [0, 0, 1, 1], "load": [0, 0, 1024, 1024],
                         "util": [0, 0, 512, 512], "runnable": [0, 0, 512, 512],
                         "idle": [true, true, false, false], "core": [0, 0, 1, 1]}}"#,
        )
        .unwrap();
        let got = case.decide(&KERNEL).unwrap();
        assert_eq!(got.groups[1].group_type, "smt_balance");
        assert_eq!((got.busiest, got.imbalance, got.src_cpu), (Some(1), 1, Some(2)));
        // Half the LLC is in use: y = 1024 - 256^2 * 117^2 / (10000 * 1024), of four CPUs.
        assert_eq!(got.nr_idle_scan, Some(3));
        // v5.7 counts idle CPUs, too, but pulls nothing from two busy threads unless tasks should spread over
        // the cores.
        assert_eq!(case.decide(&v5_7::KERNEL).unwrap().groups[1].group_type, "has_spare");
    }
}
