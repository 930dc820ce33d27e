//! 2.6.15 without any smp nice: a runqueue's load is its number of tasks.
//!
//! Nothing stops a task of nice 19 from having a CPU to itself while tasks of nice 0 share another. The complete table:
//! [`prio_bias`](super::prio_bias) and [`smpnice`](super::smpnice) build on it.

use super::super::env::{CpuIdleType, MigrationType, TaskRef};
use super::super::queue::QueueForm;
use super::super::{Kernel, Queue, v5_4};
use super::prio::{
    charge_run_time, credited_wait_ns, effective_prio, forked_sleep_avg_ns, reaped_sleep_avg_ns,
    recalc_task_prio, scheduler_tick, share_timeslice, task_timeslice,
};
use super::{
    MoveEnv, MoveLimit, O1, O1Array, O1Class, O1Domain, O1Env, O1Queue, O1Rq, O1TaskView, SCHED_LOAD_SCALE,
    WakeEnv,
};
use crate::cpumask::CpuMask;
use crate::slot;

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v2.6.15",
    source: "kernel/sched.c of Linux 2.6.15, without smp nice",
    summary: "The O(1) scheduler: two arrays of priorities a CPU, and balancing by the number of tasks.",
    queue: Queue {
        queue_form: slot!(
            queue_form,
            "The queue is two arrays of lists by priority; timeslices decide when a task changes the array."
        ),
        ..v5_4::KERNEL.queue
    },
    o1: Some(TABLE),
    // What the fair class asks is not asked here.
    ..v5_4::KERNEL
};

/// Its decisions.
pub const TABLE: O1 = O1 {
    task_bias: slot!(task_bias, "Tasks have no bias."),
    load_now: slot!(load_now, "A CPU's load is the number of its tasks, 128 each."),
    source_load: slot!(source_load, "The low guess is the lesser of an average and the load now."),
    target_load: slot!(target_load, "The high guess is the greater of an average and the load now."),
    update_cpu_load: slot!(
        update_cpu_load,
        "Each tick mixes the load into averages of weight 1, 1/2 and 1/4."
    ),
    find_busiest_group: slot!(
        find_busiest_group,
        "Balanced within imbalance_pct, or where one task is all that the busiest group has for a CPU."
    ),
    imbalance_to_move: slot!(imbalance_to_move, "An imbalance is moved as a number of tasks."),
    imbalance_unit: slot!(imbalance_unit, "Imbalances count tasks."),
    find_busiest_queue: slot!(find_busiest_queue, "The source is the CPU with the most load now."),
    move_limit: slot!(move_limit, "As many tasks move as the imbalance says."),
    active_move_limit: slot!(active_move_limit, "The migration thread pushes one task."),
    move_tasks: slot!(move_tasks, "Expired tasks go first, then by priority, each list from its tail."),
    can_migrate_task: slot!(
        can_migrate_task,
        "A task that ran within cache_hot_time stays, until passes have failed more than cache_nice_tries times."
    ),
    need_active_balance: slot!(
        need_active_balance,
        "The running task is pushed after cache_nice_tries + 3 failures in a row."
    ),
    find_idlest_group: slot!(
        find_idlest_group,
        "A new task leaves its group only where another is less loaded by half of imbalance_pct."
    ),
    find_idlest_cpu: slot!(find_idlest_cpu, "The CPU with the least load now; of equals the parent's."),
    wake_to_this_cpu: slot!(
        wake_to_this_cpu,
        "The waker's CPU takes the wakee if the loads allow and it woke it last time too."
    ),
    sync_wake_load: slot!(sync_wake_load, "A waker about to sleep takes the load of one task with it."),
    wake_idle: slot!(wake_idle, "A busy CPU's idle hardware thread takes the wakee."),
    task_preempts_curr: slot!(task_preempts_curr, "A task of better priority takes the CPU."),
    effective_prio: slot!(effective_prio, "Priority by nice, better or worse by up to 5 for sleeping."),
    recalc_task_prio: slot!(recalc_task_prio, "Sleep raises the sleep average, the lower it is the more."),
    credited_wait_ns: slot!(
        credited_wait_ns,
        "Waiting for the CPU after a wake-up counts as sleep, in full if an interrupt woke the task."
    ),
    charge_run_time: slot!(charge_run_time, "Running lowers the sleep average, interactive tasks' less."),
    task_timeslice: slot!(task_timeslice, "Timeslices of 100 ms at nice 0, 800 ms at -20, 5 ms at 19."),
    scheduler_tick: slot!(
        scheduler_tick,
        "A used-up timeslice sends a task to the expired array, unless it is interactive and nobody starves."
    ),
    share_timeslice: slot!(share_timeslice, "Parent and child share the parent's timeslice."),
    forked_sleep_avg_ns: slot!(forked_sleep_avg_ns, "A child gets 95 per cent of its parent's bonus."),
    reaped_sleep_avg_ns: slot!(
        reaped_sleep_avg_ns,
        "A child that slept less than its parent lowers the parent's sleep average."
    ),
};

fn queue_form() -> QueueForm {
    QueueForm::Priority
}

/// kernel/sched.c, 2.6.15: tasks have no bias.
fn task_bias(_class: O1Class) -> u64 {
    0
}

/// kernel/sched.c, 2.6.15, rebalance_tick(): the load that it averages.
fn load_now(rq: &O1Rq) -> u64 {
    rq.nr_running * SCHED_LOAD_SCALE
}

/// kernel/sched.c, 2.6.15, source_load().
pub fn source_load(kernel: &O1, rq: &O1Rq, idx: usize, _idle: CpuIdleType) -> u64 {
    let now = (kernel.load_now.f)(rq);
    average(rq, idx).map_or(now, |average| average.min(now))
}

/// kernel/sched.c, 2.6.15, target_load().
pub fn target_load(kernel: &O1, rq: &O1Rq, idx: usize, _idle: CpuIdleType) -> u64 {
    let now = (kernel.load_now.f)(rq);
    average(rq, idx).map_or(now, |average| average.max(now))
}

/// The average of a load index; `None` for index 0, the load just now.
fn average(rq: &O1Rq, idx: usize) -> Option<u64> {
    rq.cpu_load.get(idx.wrapping_sub(1)).copied()
}

/// kernel/sched.c, 2.6.15, rebalance_tick(): the averages.
fn update_cpu_load(mut cpu_load: [u64; 3], load: u64) -> [u64; 3] {
    for (shift, average) in cpu_load.iter_mut().enumerate() {
        let scale = 1 << shift;
        // Rounds up while the load rises, or else the average would stop short of it.
        let rounded = if load > *average { load + scale - 1 } else { load };
        *average = (*average * (scale - 1) + rounded) / scale;
    }
    cpu_load
}

/// kernel/sched.c, 2.6.15, find_busiest_group().
fn find_busiest_group(env: &mut O1Env<'_>) -> Option<usize> {
    env.imbalance = 0;
    let (index, pair) = busiest_pair(env)?;
    let imbalance = pair.imbalance(env)?;
    env.imbalance = (env.kernel.imbalance_to_move.f)(imbalance);
    Some(index)
}

/// The local group and the busiest other one.
struct Pair {
    this_load: u64,
    this_power: u64,
    max_load: u64,
    busiest_power: u64,
    /// Load over power of the whole domain.
    avg_load: u64,
}

/// Position of the busiest group, and how it compares with the local one.
fn busiest_pair(env: &mut O1Env<'_>) -> Option<(usize, Pair)> {
    let idx = match env.idle {
        CpuIdleType::NotIdle => env.sd.busy_idx,
        CpuIdleType::NewlyIdle => env.sd.newidle_idx,
        CpuIdleType::Idle => env.sd.idle_idx,
    };
    let slots = env.kernel;
    let (mut this_load, mut this_power) = (0, 0);
    let (mut total_load, mut total_power) = (0, 0);
    let mut busiest = None;
    let mut max_load = 0;
    for (index, group) in env.groups.iter().enumerate() {
        let is_local = group.cpus.test(env.this_cpu);
        // Guesses high here and low there, so that tasks stay when in doubt.
        let guess = if is_local { slots.target_load.f } else { slots.source_load.f };
        let load: u64 = group.cpus.iter().map(|cpu| guess(env.kernel, &env.rqs[cpu], idx, env.idle)).sum();
        if group.cpus.iter().any(|cpu| !env.rqs[cpu].idle) {
            env.sd_idle = false;
        }
        total_load += load;
        total_power += group.cpu_power;
        let load = load * SCHED_LOAD_SCALE / group.cpu_power;
        if is_local {
            (this_load, this_power) = (load, group.cpu_power);
        } else if load > max_load {
            max_load = load;
            busiest = Some(index);
        }
    }
    let index = busiest?;
    let avg_load = SCHED_LOAD_SCALE * total_load / total_power;
    let busiest_power = env.groups[index].cpu_power;
    Some((index, Pair { this_load, this_power, max_load, busiest_power, avg_load }))
}

impl Pair {
    /// The load to move, scaled; `None` if the domain is balanced.
    fn imbalance(&self, env: &O1Env<'_>) -> Option<u64> {
        let &Self { this_load, max_load, avg_load, .. } = self;
        if this_load >= max_load
            || max_load <= SCHED_LOAD_SCALE
            || this_load >= avg_load
            || 100 * max_load <= env.sd.imbalance_pct * this_load
        {
            return None;
        }
        // The busiest group keeps the average, and one task at least.
        let max_pull = (max_load - avg_load).min(max_load - SCHED_LOAD_SCALE);
        let room = (avg_load - this_load) * self.this_power;
        let imbalance = (max_pull * self.busiest_power).min(room) / SCHED_LOAD_SCALE;
        if imbalance >= SCHED_LOAD_SCALE {
            return Some(imbalance);
        }
        let moves_one = max_load - this_load >= 2 * SCHED_LOAD_SCALE || self.gains_throughput();
        moves_one.then_some(SCHED_LOAD_SCALE)
    }

    /// Whether the two groups would use more of their power with one task moved.
    fn gains_throughput(&self) -> bool {
        let &Self { this_load, this_power, max_load, busiest_power, .. } = self;
        let used = |power: u64, load: u64| power * load.min(SCHED_LOAD_SCALE);
        let one_task = SCHED_LOAD_SCALE * SCHED_LOAD_SCALE;
        let now = (used(busiest_power, max_load) + used(this_power, this_load)) / SCHED_LOAD_SCALE;
        let left = used(busiest_power, max_load.saturating_sub(one_task / busiest_power));
        let added = (max_load * busiest_power).min(one_task) / this_power;
        let after = (left + used(this_power, this_load + added)) / SCHED_LOAD_SCALE;
        after > now
    }
}

/// kernel/sched.c, 2.6.15, find_busiest_group(): an imbalance is a number of tasks.
fn imbalance_to_move(load: u64) -> u64 {
    load / SCHED_LOAD_SCALE
}

/// kernel/sched.c, 2.6.15: what an imbalance counts.
fn imbalance_unit() -> MigrationType {
    MigrationType::Task
}

/// kernel/sched.c, 2.6.15, find_busiest_queue().
fn find_busiest_queue(env: &O1Env<'_>, index: usize) -> Option<usize> {
    let mut busiest = None;
    let mut max_load = 0;
    for cpu in env.groups[index].cpus.iter() {
        let load = (env.kernel.source_load.f)(env.kernel, &env.rqs[cpu], 0, env.idle);
        if load > max_load {
            max_load = load;
            busiest = Some(cpu);
        }
    }
    busiest
}

/// kernel/sched.c, 2.6.15, load_balance(): as many tasks as the imbalance says.
fn move_limit(imbalance: u64, _nr_running: u64) -> MoveLimit {
    MoveLimit { nr: imbalance, bias: i64::MAX }
}

/// kernel/sched.c, 2.6.15, active_load_balance().
fn active_move_limit() -> MoveLimit {
    MoveLimit { nr: 1, bias: i64::MAX }
}

/// kernel/sched.c, 2.6.15, move_tasks(), with the limit by bias of the -mm patch of 7 February 2006.
///
/// Expired tasks go first, since they will not run soon; then by priority, and from the tail of each list.
fn move_tasks(env: &mut MoveEnv<'_>, queue: &mut dyn O1Queue, limit: MoveLimit) -> u32 {
    let mut left = limit;
    let mut pulled = 0;
    env.all_pinned = limit.nr > 0 && limit.bias > 0;
    if !env.all_pinned {
        return 0;
    }
    for array in [O1Array::Expired, O1Array::Active] {
        let mut from = 0;
        while let Some(prio) = queue.next_prio(array, from) {
            let mut next: Option<TaskRef> = queue.tail(array, prio);
            while let Some(task) = next {
                next = queue.before(task);
                let view = queue.view(task);
                let bias = view.bias;
                if bias > left.bias || !(env.kernel.can_migrate_task.f)(env, &view) {
                    continue;
                }
                queue.pull(array, task);
                pulled += 1;
                left = MoveLimit { nr: left.nr - 1, bias: left.bias - bias };
                if left.nr == 0 || left.bias <= 0 {
                    return pulled;
                }
            }
            from = prio + 1;
        }
    }
    pulled
}

/// kernel/sched.c, 2.6.15, can_migrate_task().
fn can_migrate_task(env: &mut MoveEnv<'_>, task: &O1TaskView<'_>) -> bool {
    if !task.allowed.is_none_or(|allowed| allowed.test(env.this_cpu)) {
        return false;
    }
    env.all_pinned = false;
    let is_hot = task.since_last_ran_ns < env.sd.cache_hot_time_ns;
    !task.running && (env.nr_balance_failed > env.sd.cache_nice_tries || !is_hot)
}

/// kernel/sched.c, 2.6.15, load_balance(): whether the migration thread of the source is to push a task.
fn need_active_balance(nr_balance_failed: u32, sd: &O1Domain) -> bool {
    nr_balance_failed > sd.cache_nice_tries + 2
}

/// kernel/sched.c, 2.6.15, find_idlest_group().
fn find_idlest_group(env: &O1Env<'_>, allowed: Option<&CpuMask>) -> Option<usize> {
    let (slots, idx) = (env.kernel, env.sd.forkexec_idx);
    let mut this_load = 0;
    let mut idlest: Option<(usize, u64)> = None;
    for (index, group) in env.groups.iter().enumerate() {
        if allowed.is_some_and(|allowed| !group.cpus.intersects(allowed)) {
            continue;
        }
        let is_local = group.cpus.test(env.this_cpu);
        // The other way round from a balance pass, since this moves load away.
        let guess = if is_local { slots.source_load.f } else { slots.target_load.f };
        let load_of = |cpu| guess(env.kernel, &env.rqs[cpu], idx, CpuIdleType::NotIdle);
        let load: u64 = group.cpus.iter().map(load_of).sum();
        let load = load * SCHED_LOAD_SCALE / group.cpu_power;
        if is_local {
            this_load = load;
        } else if idlest.is_none_or(|(_, min_load)| load < min_load) {
            idlest = Some((index, load));
        }
    }
    let (index, min_load) = idlest?;
    (100 * this_load >= half_imbalance_pct(env.sd) * min_load).then_some(index)
}

/// kernel/sched.c, 2.6.15, find_idlest_cpu().
fn find_idlest_cpu(env: &O1Env<'_>, index: usize, allowed: Option<&CpuMask>) -> Option<usize> {
    let load_of = |cpu: usize| (env.kernel.source_load.f)(env.kernel, &env.rqs[cpu], 0, CpuIdleType::NotIdle);
    let cpus = env.groups[index].cpus.iter();
    // Of equal loads the caller's own CPU wins, otherwise the first.
    cpus.filter(|&cpu| allowed.is_none_or(|allowed| allowed.test(cpu)))
        .min_by_key(|&cpu| (load_of(cpu), cpu != env.this_cpu))
}

/// What wake-ups, forks and execs tolerate: half of what balancing does.
fn half_imbalance_pct(sd: &O1Domain) -> u64 {
    100 + (sd.imbalance_pct - 100) / 2
}

/// kernel/sched.c, 2.6.15, try_to_wake_up(): the test for an affine wake-up and for passive balancing.
fn wake_to_this_cpu(env: &WakeEnv<'_>) -> bool {
    let Some(sd) = env.sd else { return false };
    if !env.same_waker_cpu || !env.this_allowed {
        return false;
    }
    let (kernel, idx, slots) = (env.kernel, sd.wake_idx, env.kernel);
    let load = (slots.source_load.f)(kernel, env.prev_rq, idx, CpuIdleType::NotIdle);
    let this_load = (slots.target_load.f)(kernel, env.this_rq, idx, CpuIdleType::NotIdle);
    let tolerated_pct = half_imbalance_pct(sd);
    if sd.wake_affine {
        let leaving = if env.sync { (slots.sync_wake_load.f)(env.bias) } else { 0 };
        // The kernel's unsigned arithmetic: less load than is said to leave is a lot of load.
        let load_left = this_load.wrapping_sub(leaving);
        let prev_load = (slots.target_load.f)(kernel, env.prev_rq, idx, CpuIdleType::NotIdle);
        let both_fit = load_left <= load && load_left.wrapping_add(prev_load) <= SCHED_LOAD_SCALE;
        let with_wakee = load_left.wrapping_add(SCHED_LOAD_SCALE).wrapping_mul(100);
        if both_fit || with_wakee <= tolerated_pct * load {
            return true;
        }
    }
    sd.wake_balance && tolerated_pct * this_load <= 100 * load
}

/// kernel/sched.c, 2.6.15, try_to_wake_up(): a waker that is about to sleep takes one task's load with it.
fn sync_wake_load(_bias: u64) -> u64 {
    SCHED_LOAD_SCALE
}

/// kernel/sched.c, 2.6.15, wake_idle(): an idle allowed CPU near `cpu`, or `cpu`.
fn wake_idle(
    rqs: &[O1Rq],
    cpu: usize,
    allowed: Option<&CpuMask>,
    spans: &mut dyn Iterator<Item = &CpuMask>,
) -> usize {
    if rqs[cpu].idle {
        return cpu;
    }
    let may_take = |&other: &usize| rqs[other].idle && allowed.is_none_or(|allowed| allowed.test(other));
    for span in spans {
        if let Some(idle) = span.iter().find(may_take) {
            return idle;
        }
    }
    cpu
}

/// kernel/sched.c, 2.6.15, TASK_PREEMPTS_CURR(): the idle task has the worst priority of all.
fn task_preempts_curr(prio: i32, curr_prio: i32) -> bool {
    prio < curr_prio
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{O1Group, prio_bias, smpnice};
    use super::*;
    use crate::topology::o1::{SD_CPU, SD_NODE};

    /// Two arrays of lists; the number of a task is its position in `tasks`.
    struct Source {
        lists: BTreeMap<(bool, u32), Vec<TaskRef>>,
        tasks: Vec<O1TaskView<'static>>,
        pulled: Vec<TaskRef>,
    }

    const COLD: O1TaskView<'static> =
        O1TaskView { bias: 20, since_last_ran_ns: i64::MAX, running: false, allowed: None };

    impl Source {
        /// Tasks as (is active, priority, task); each goes to its list's tail.
        fn new(tasks: &[(bool, u32, O1TaskView<'static>)]) -> Self {
            let mut lists: BTreeMap<(bool, u32), Vec<TaskRef>> = BTreeMap::new();
            for (task, &(active, prio, _)) in tasks.iter().enumerate() {
                lists.entry((active, prio)).or_default().push(task as TaskRef);
            }
            Self { lists, tasks: tasks.iter().map(|&(_, _, view)| view).collect(), pulled: Vec::new() }
        }
    }

    impl O1Queue for Source {
        fn next_prio(&self, array: O1Array, from: u32) -> Option<u32> {
            let active = array == O1Array::Active;
            self.lists
                .range((active, from)..=(active, 139))
                .find(|(_, list)| !list.is_empty())
                .map(|(key, _)| key.1)
        }

        fn tail(&self, array: O1Array, prio: u32) -> Option<TaskRef> {
            self.lists[&(array == O1Array::Active, prio)].last().copied()
        }

        fn before(&self, task: TaskRef) -> Option<TaskRef> {
            let list = self.lists.values().find(|list| list.contains(&task))?;
            let position = list.iter().position(|&other| other == task)?;
            position.checked_sub(1).map(|position| list[position])
        }

        fn view(&self, task: TaskRef) -> O1TaskView<'_> {
            self.tasks[task as usize]
        }

        fn pull(&mut self, _array: O1Array, task: TaskRef) {
            self.lists.values_mut().for_each(|list| list.retain(|&other| other != task));
            self.pulled.push(task);
        }
    }

    fn move_env(kernel: &O1) -> MoveEnv<'_> {
        MoveEnv { kernel, sd: &SD_CPU, nr_balance_failed: 0, this_cpu: 0, all_pinned: false }
    }

    fn pulled(kernel: &O1, source: &mut Source, limit: MoveLimit) -> Vec<TaskRef> {
        let moved = (kernel.move_tasks.f)(&mut move_env(kernel), source, limit);
        assert_eq!(moved as usize, source.pulled.len());
        source.pulled.clone()
    }

    #[test]
    fn expired_tasks_move_first_then_by_priority_and_from_the_tail() {
        let tasks = [
            (true, 110, COLD),
            (true, 120, COLD),
            (false, 125, COLD),
            (false, 118, COLD),
            (false, 118, COLD),
        ];
        let limit = (TABLE.move_limit.f)(5, 5);
        assert_eq!(pulled(&TABLE, &mut Source::new(&tasks), limit), [4, 3, 2, 0, 1]);
        let limit = (TABLE.move_limit.f)(2, 5);
        assert_eq!(pulled(&TABLE, &mut Source::new(&tasks), limit), [4, 3]);
    }

    #[test]
    fn running_hot_and_bound_tasks_stay() {
        let bound: &'static CpuMask = Box::leak(Box::new(CpuMask::from_cpus(4, [3])));
        let tasks = [
            (true, 120, O1TaskView { allowed: Some(bound), ..COLD }),
            (true, 120, O1TaskView { running: true, ..COLD }),
            (true, 120, O1TaskView { since_last_ran_ns: SD_CPU.cache_hot_time_ns - 1, ..COLD }),
        ];
        let limit = MoveLimit { nr: 3, bias: i64::MAX };
        assert!(pulled(&TABLE, &mut Source::new(&tasks), limit).is_empty());
        let mut env = move_env(&TABLE);
        env.nr_balance_failed = SD_CPU.cache_nice_tries + 1;
        let mut source = Source::new(&tasks);
        assert_eq!(move_tasks(&mut env, &mut source, limit), 1);
        assert_eq!((source.pulled.as_slice(), env.all_pinned), ([2].as_slice(), false));
        assert_eq!(move_tasks(&mut env, &mut Source::new(&tasks[..1]), limit), 0);
        assert!(env.all_pinned);
        assert_eq!(move_tasks(&mut env, &mut source, MoveLimit { nr: 0, bias: i64::MAX }), 0);
        assert!(!env.all_pinned);
    }

    /// With smpnice a task that exceeds what is left of the imbalance stays, and one task stays in any case.
    #[test]
    fn smpnice_moves_an_amount_of_bias() {
        let of_bias = |bias| (true, 120, O1TaskView { bias, ..COLD });
        let tasks = [of_bias(5), of_bias(20), of_bias(30)];
        let limit = (smpnice::TABLE.move_limit.f)(25, 3);
        assert_eq!(pulled(&smpnice::TABLE, &mut Source::new(&tasks), limit), [1, 0]);
        let limit = (smpnice::TABLE.move_limit.f)(100, 1);
        assert!(pulled(&smpnice::TABLE, &mut Source::new(&tasks), limit).is_empty());
        let limit = (smpnice::TABLE.active_move_limit.f)();
        assert_eq!(limit, MoveLimit { nr: 1, bias: 140 });
    }

    fn rq(nr_running: u64, bias_each: u64) -> O1Rq {
        let load = nr_running * SCHED_LOAD_SCALE;
        O1Rq { nr_running, prio_bias: nr_running * bias_each, cpu_load: [load; 3], idle: nr_running == 0 }
    }

    /// Three tasks against one: an imbalance of one task, that prio-bias takes for about twenty.
    #[test]
    fn prio_bias_exaggerates_an_imbalance_and_smpnice_does_not() {
        let rqs = [rq(1, 20), rq(3, 20)];
        let group = |cpu| O1Group { cpus: CpuMask::from_cpus(2, [cpu]), cpu_power: SCHED_LOAD_SCALE };
        let groups = [group(0), group(1)];
        let imbalance = |kernel: &O1| {
            let mut env = O1Env {
                kernel,
                rqs: &rqs,
                sd: &SD_CPU,
                groups: &groups,
                this_cpu: 0,
                idle: CpuIdleType::NotIdle,
                sd_idle: false,
                imbalance: 0,
            };
            assert_eq!((kernel.find_busiest_group.f)(&mut env), Some(1));
            assert_eq!((kernel.find_busiest_queue.f)(&env, 1), Some(1));
            env.imbalance
        };
        assert_eq!(imbalance(&TABLE), 1);
        assert_eq!(imbalance(&prio_bias::TABLE), 20);
        assert_eq!(imbalance(&smpnice::TABLE), 20, "of bias: one task of nice 0");
    }

    /// An idle CPU does not see a lone important task as a load, a busy one does.
    #[test]
    fn prio_bias_spares_a_lone_task_from_idle_cpus() {
        let lone = rq(1, 40);
        let load = |kernel: &O1, idle| (kernel.source_load.f)(kernel, &lone, 0, idle);
        assert_eq!(load(&prio_bias::TABLE, CpuIdleType::Idle), 128);
        assert_eq!(load(&prio_bias::TABLE, CpuIdleType::NotIdle), 128 * 40);
        assert_eq!(load(&smpnice::TABLE, CpuIdleType::Idle), 256);
        assert_eq!(load(&TABLE, CpuIdleType::NotIdle), 128);
    }

    #[test]
    fn biases_of_real_time_tasks_and_of_the_migration_thread() {
        let bias = |kernel: &O1, class| (kernel.task_bias.f)(class);
        for (class, of_prio_bias, of_smpnice) in [
            (O1Class::RealTime(1), 42, 41),
            (O1Class::RealTime(99), 140, 139),
            (O1Class::MigrationThread, 0, 0),
        ] {
            assert_eq!(bias(&TABLE, class), 0);
            assert_eq!(bias(&prio_bias::TABLE, class), of_prio_bias);
            assert_eq!(bias(&smpnice::TABLE, class), of_smpnice);
        }
    }

    #[test]
    fn averages_follow_the_load_and_arrive() {
        let mut cpu_load = [0; 3];
        cpu_load = update_cpu_load(cpu_load, 128);
        assert_eq!(cpu_load, [128, 64, 32]);
        for _ in 0..40 {
            cpu_load = update_cpu_load(cpu_load, 128);
        }
        assert_eq!(cpu_load, [128; 3], "rounding up lets them arrive");
        assert_eq!(update_cpu_load(cpu_load, 0), [0, 64, 96]);
    }

    fn wakes_here(kernel: &O1, this: O1Rq, prev: O1Rq, sync: bool, bias: u64) -> bool {
        let env = WakeEnv {
            kernel,
            sd: Some(&SD_CPU),
            this_rq: &this,
            prev_rq: &prev,
            sync,
            same_waker_cpu: true,
            this_allowed: true,
            bias,
        };
        assert!(!wake_to_this_cpu(&WakeEnv { same_waker_cpu: false, ..env }));
        wake_to_this_cpu(&env)
    }

    #[test]
    fn a_wakeup_is_affine_if_the_loads_allow() {
        assert!(wakes_here(&TABLE, rq(1, 20), rq(2, 20), false, 20), "256 against 112 % of 256");
        assert!(!wakes_here(&TABLE, rq(1, 20), rq(1, 20), false, 20));
        assert!(wakes_here(&TABLE, rq(1, 20), rq(1, 20), true, 20), "the waker leaves");
        // Less load than is said to leave wraps round: a waker of nice 19, a wakee of nice 0.
        let nice_19 = O1Rq { cpu_load: [6; 3], ..rq(1, 1) };
        assert!(!wakes_here(&smpnice::TABLE, nice_19, rq(0, 0), true, 20));
        assert!(wakes_here(&smpnice::TABLE, rq(1, 20), rq(1, 20), true, 20));
        assert!(
            !wakes_here(&smpnice::TABLE, rq(1, 20), rq(1, 20), true, 1),
            "a wakee of nice 19 takes little"
        );
    }

    #[test]
    fn passive_balancing_and_idle_cpus_near_by() {
        let moves = |this: O1Rq, prev: O1Rq| {
            wake_to_this_cpu(&WakeEnv {
                kernel: &TABLE,
                sd: Some(&SD_NODE),
                this_rq: &this,
                prev_rq: &prev,
                sync: false,
                same_waker_cpu: true,
                this_allowed: true,
                bias: 20,
            })
        };
        assert!(moves(rq(3, 20), rq(4, 20)));
        assert!(!moves(rq(4, 20), rq(4, 20)));
        let rqs = [rq(1, 20), rq(1, 20), rq(0, 0), rq(0, 0)];
        let spans = [CpuMask::from_cpus(4, [0, 1]), CpuMask::all(4)];
        assert_eq!(wake_idle(&rqs, 0, None, &mut spans.iter()), 2);
        assert_eq!(wake_idle(&rqs, 0, Some(&CpuMask::from_cpus(4, [0, 3])), &mut spans.iter()), 3);
        assert_eq!(wake_idle(&rqs, 0, None, &mut spans[..1].iter()), 0);
        assert_eq!(wake_idle(&rqs, 3, None, &mut spans.iter()), 3);
    }

    #[test]
    fn fork_goes_to_the_idlest_cpu_and_prefers_its_own() {
        let rqs = [rq(2, 20), rq(1, 20), rq(1, 20), rq(0, 0)];
        let group = |cpus: [usize; 2]| O1Group { cpus: CpuMask::from_cpus(4, cpus), cpu_power: 256 };
        let groups = [group([0, 1]), group([2, 3])];
        let env = |this_cpu| O1Env {
            kernel: &TABLE,
            rqs: &rqs,
            sd: &SD_CPU,
            groups: &groups,
            this_cpu,
            idle: CpuIdleType::NotIdle,
            sd_idle: false,
            imbalance: 0,
        };
        assert_eq!(find_idlest_group(&env(0), None), Some(1));
        assert_eq!(find_idlest_group(&env(0), Some(&CpuMask::from_cpus(4, [0, 1]))), None);
        assert_eq!(find_idlest_group(&env(2), None), None);
        assert_eq!(find_idlest_cpu(&env(0), 1, None), Some(3));
        assert_eq!(find_idlest_cpu(&env(0), 1, Some(&CpuMask::from_cpus(4, [2]))), Some(2));
        let equal = [rq(1, 20), rq(1, 20)];
        let groups = [O1Group { cpus: CpuMask::all(2), cpu_power: 256 }];
        assert_eq!(find_idlest_cpu(&O1Env { rqs: &equal, groups: &groups, ..env(1) }, 0, None), Some(1));
    }
}
