//! The completely fair queue of 2.6.23 to 6.5, in its form of v5.5 to v5.7: who runs next, and when one gives way.

use super::Queue;
use super::queue::{ChargeVerdict, Placement, Placing, QueueEnv, QueueForm, TickVerdict, WakeupVerdict};
use crate::load_weight::{LoadWeight, calc_delta, calc_delta_fair};
use crate::sim::rq::{CfsRq, NO_TASK, SchedEntity, TaskId};
use crate::sim::timeline::vruntime_before;
use crate::sim::tunables::Tunables;
use crate::slot;

/// The table of this queue.
pub const QUEUE: Queue = Queue {
    queue_form: slot!(queue_form, "The queue is ordered by virtual run time."),
    place_entity: slot!(
        place_entity,
        "A sleeper gets half a latency of credit, a new task a slice of debit."
    ),
    pick_next_entity: slot!(
        pick_next_entity,
        "The least virtual run time runs, unless a buddy is near enough."
    ),
    update_deadline: slot!(update_deadline, "Entities have no deadline."),
    check_preempt_tick: slot!(
        check_preempt_tick,
        "The running task gives way after its share of the latency."
    ),
    check_preempt_wakeup: slot!(
        check_preempt_wakeup,
        "A wakee that is behind by the wake-up granularity takes the CPU."
    ),
    preempts_by_policy: slot!(
        preempts_by_policy,
        "Any other task takes the CPU from a SCHED_IDLE one, which takes it from nobody."
    ),
    wakeup_preempt_entity: slot!(
        wakeup_preempt_entity,
        "Compares virtual run times, with the wake-up granularity as margin."
    ),
    delay_dequeue: slot!(delay_dequeue, "A sleeper leaves the queue at once."),
};

fn queue_form() -> QueueForm {
    QueueForm::Vruntime
}

/// kernel/sched/fair.c, v5.7, place_entity(): the vruntime of an entity that enters the queue.
///
/// A new task starts one slice behind the queue (START_DEBIT); a sleeper gets credit for at most half a latency
/// (GENTLE_FAIR_SLEEPERS), and never goes back. One that moves has brought its place with it.
fn place_entity(env: &QueueEnv<'_>, cfs: &CfsRq, se: &SchedEntity, placing: Placing) -> Placement {
    let mut vruntime = cfs.min_vruntime;
    match placing {
        Placing::New => {
            if env.features.start_debit {
                vruntime = vruntime.wrapping_add(sched_vslice(env, cfs, se));
            }
        }
        Placing::Wakeup => {
            let latency = env.tunables.sched_latency_ns;
            let credit = if env.features.gentle_fair_sleepers { latency >> 1 } else { latency };
            vruntime = vruntime.wrapping_sub(credit);
        }
        Placing::Move => vruntime = se.vruntime,
    }
    let vruntime = if vruntime_before(se.vruntime, vruntime) { vruntime } else { se.vruntime };
    Placement { vruntime, deadline: se.deadline, slice_ns: se.slice_ns }
}

/// kernel/sched/fair.c, v5.7, pick_next_entity(): the leftmost entity, unless a buddy may run without unfairness.
fn pick_next_entity(env: &QueueEnv<'_>, cfs: &CfsRq, curr: TaskId) -> TaskId {
    let leftmost = match cfs.timeline.first() {
        Some((vruntime, task))
            if curr == NO_TASK || !vruntime_before(env.entities.se(curr).vruntime, vruntime) =>
        {
            task
        }
        _ => curr,
    };
    let fair = |buddy: TaskId| {
        buddy != NO_TASK
            && (env.queue.wakeup_preempt_entity.f)(env, env.entities.se(buddy), env.entities.se(leftmost)) < 1
    };
    if fair(cfs.next) {
        cfs.next
    } else if fair(cfs.last) {
        cfs.last
    } else {
        leftmost
    }
}

/// No source in v5.7: its entities have no deadlines.
fn update_deadline(_: &QueueEnv<'_>, _: &CfsRq) -> ChargeVerdict {
    ChargeVerdict::default()
}

/// kernel/sched/fair.c, v5.7, check_preempt_tick(): whether the running entity has had its slice.
fn check_preempt_tick(env: &QueueEnv<'_>, cfs: &CfsRq) -> TickVerdict {
    let curr = env.entities.se(cfs.curr);
    let ideal_runtime = sched_slice(env, cfs, curr);
    let delta_exec = curr.sum_exec_runtime - curr.prev_sum_exec_runtime;
    if delta_exec > ideal_runtime {
        return TickVerdict::SliceOver;
    }
    if delta_exec < env.tunables.min_granularity_ns {
        return TickVerdict::RunOn;
    }
    match cfs.timeline.first() {
        Some((vruntime, _)) if curr.vruntime.wrapping_sub(vruntime) as i64 > ideal_runtime as i64 => {
            TickVerdict::Ahead
        }
        _ => TickVerdict::RunOn,
    }
}

/// kernel/sched/fair.c, v5.7, check_preempt_wakeup(): whether an entity that becomes runnable takes the CPU.
fn check_preempt_wakeup(env: &QueueEnv<'_>, _: &CfsRq, curr: TaskId, task: TaskId) -> WakeupVerdict {
    let (curr, task) = (env.entities.se(curr), env.entities.se(task));
    let preempt = (env.queue.wakeup_preempt_entity.f)(env, curr, task) == 1;
    WakeupVerdict { preempt, cancel_protection: false }
}

/// kernel/sched/fair.c, v5.7, check_preempt_wakeup(): what the policies of the two tasks say, whatever groups they are in.
fn preempts_by_policy(env: &QueueEnv<'_>, tasks: [TaskId; 2], _: [TaskId; 2]) -> Option<bool> {
    let [curr, woken] = tasks.map(|task| env.entities.se(task).idle);
    if curr && !woken {
        return Some(true);
    }
    (woken || !env.features.wakeup_preemption).then_some(false)
}

/// kernel/sched/fair.c, v5.7, wakeup_preempt_entity(): 1 if `se` is so far behind `curr` that it should preempt it, -1 if
/// it is ahead, 0 in between.
fn wakeup_preempt_entity(env: &QueueEnv<'_>, curr: &SchedEntity, se: &SchedEntity) -> i32 {
    let vdiff = curr.vruntime.wrapping_sub(se.vruntime) as i64;
    if vdiff <= 0 {
        return -1;
    }
    let granularity = calc_delta_fair(env.tunables.wakeup_granularity_ns, se.weight, se.inv_weight);
    i32::from(vdiff > granularity as i64)
}

/// No source in v5.7: whoever sleeps is off the queue.
fn delay_dequeue(_: &QueueEnv<'_>, _: &CfsRq, _: &SchedEntity) -> bool {
    false
}

/// kernel/sched/fair.c, v5.7, __sched_period(): the time in which every entity runs once.
fn sched_period(tunables: &Tunables, nr_running: u64) -> u64 {
    if nr_running > tunables.sched_nr_latency {
        nr_running * tunables.min_granularity_ns
    } else {
        tunables.sched_latency_ns
    }
}

/// kernel/sched/fair.c, v5.7, sched_slice(): an entity's share of the period, by weight on every level.
fn sched_slice(env: &QueueEnv<'_>, cfs: &CfsRq, se: &SchedEntity) -> u64 {
    let period = sched_period(env.tunables, u64::from(cfs.nr_running) + u64::from(!se.on_rq));
    let mut slice = share(period, cfs, se);
    let mut queue = cfs.id;
    while let Some((above, entity)) = env.entities.parent(queue) {
        slice = share(slice, above, entity);
        queue = above.id;
    }
    slice
}

/// An entity's share of a time by its weight in its queue, itself counted.
fn share(time_ns: u64, cfs: &CfsRq, se: &SchedEntity) -> u64 {
    let mut load = cfs.load;
    if !se.on_rq {
        load.add(se.weight);
    }
    let LoadWeight { weight, inv_weight } = load;
    calc_delta(time_ns, se.weight, weight, inv_weight)
}

/// kernel/sched/fair.c, v5.7, sched_vslice(): the slice in virtual time.
fn sched_vslice(env: &QueueEnv<'_>, cfs: &CfsRq, se: &SchedEntity) -> u64 {
    calc_delta_fair(sched_slice(env, cfs, se), se.weight, se.inv_weight)
}
