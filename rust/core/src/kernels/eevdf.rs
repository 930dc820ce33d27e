//! The queue of v6.12: earliest eligible virtual deadline first (EEVDF).
//!
//! An entity's *lag* is what it is owed: how far its virtual run time is behind the weighted average of the queue. It is
//! *eligible* while the lag is not negative. Among the eligible, the one whose request (slice) is due first runs. Lag
//! outlives sleep and migration. An entity that falls asleep while it owes time stays queued until it has paid
//! (delayed dequeue).
//!
//! The functions below the table are plain arithmetic over entities and sums: the engine, the vectors and Python call
//! the same ones.

use super::Queue;
use super::queue::{ChargeVerdict, Placement, Placing, QueueEnv, QueueForm, TickVerdict, WakeupVerdict};
use crate::load_weight::{calc_delta_fair, scale_load_down};
use crate::sim::groups::Entities;
use crate::sim::rq::{CfsRq, NO_TASK, SchedEntity, TaskId};
use crate::sim::timeline::vruntime_before;
use crate::slot;

/// The table of this queue.
pub const QUEUE: Queue = Queue {
    queue_form: slot!(queue_form, "The queue is ordered by deadline, among entities that are owed time."),
    place_entity: slot!(place_entity, "An entity comes back with the lag that it left with."),
    pick_next_entity: slot!(pick_next_entity, "The earliest deadline among the eligible runs."),
    update_deadline: slot!(
        update_deadline,
        "A request that was served gets the next deadline, and the CPU goes to whoever is due."
    ),
    check_preempt_tick: slot!(
        check_preempt_tick,
        "Nothing at the tick: charging the entity has said whether its slice is over."
    ),
    check_preempt_wakeup: slot!(check_preempt_wakeup, "A wakee takes the CPU if it would be picked now."),
    preempts_by_policy: slot!(
        preempts_by_policy,
        "Where the two tasks' groups or they themselves meet, the one that is not idle has the CPU."
    ),
    wakeup_preempt_entity: slot!(wakeup_preempt_entity, "No margin of virtual run time is kept."),
    delay_dequeue: slot!(delay_dequeue, "A sleeper that owes time stays queued until it has paid."),
};

fn queue_form() -> QueueForm {
    QueueForm::Deadline
}

/// kernel/sched/fair.c, v6.12, place_entity(): a new entity starts in the middle of a slice, any other with its lag.
fn place_entity(env: &QueueEnv<'_>, cfs: &CfsRq, se: &SchedEntity, placing: Placing) -> Placement {
    let rules = PlaceRules {
        base_slice_ns: env.tunables.base_slice_ns,
        keep_lag: env.features.place_lag && cfs.nr_running > 0,
        keep_deadline: env.features.place_rel_deadline,
        half_slice: env.features.place_deadline_initial && placing == Placing::New,
    };
    place(&clock_of(cfs, env.entities), se, rules)
}

/// kernel/sched/fair.c, v6.12, pick_next_entity(): an eligible buddy, or what pick_eevdf() finds.
fn pick_next_entity(env: &QueueEnv<'_>, cfs: &CfsRq, _curr: TaskId) -> TaskId {
    let clock = clock_of(cfs, env.entities);
    if env.features.next_buddy
        && cfs.next != NO_TASK
        && clock.entity_eligible(env.entities.se(cfs.next).vruntime)
    {
        return cfs.next;
    }
    pick(env, cfs, &clock)
}

/// kernel/sched/fair.c, v6.12, update_curr(): a request that was served is renewed, and the CPU goes to whoever is due.
///
/// So it does when the running entity is no longer eligible and a shorter slice has cancelled its protection.
fn update_deadline(env: &QueueEnv<'_>, cfs: &CfsRq) -> ChargeVerdict {
    let curr = env.entities.se(cfs.curr);
    let renewed = next_deadline(curr, env.tunables.base_slice_ns);
    let resched = renewed.is_some() || did_preempt_short(env, cfs, curr);
    ChargeVerdict { renewed, resched: resched && cfs.nr_running > 1 }
}

/// kernel/sched/fair.c, v6.12, did_preempt_short().
fn did_preempt_short(env: &QueueEnv<'_>, cfs: &CfsRq, curr: &SchedEntity) -> bool {
    env.features.preempt_short
        && !curr.slice_protected
        && !clock_of(cfs, env.entities).entity_eligible(curr.vruntime)
}

/// kernel/sched/fair.c, v6.12, entity_tick(): nothing of its own; what ends a slice is the charge before it.
fn check_preempt_tick(_: &QueueEnv<'_>, _: &CfsRq) -> TickVerdict {
    TickVerdict::RunOn
}

/// kernel/sched/fair.c, v6.12, check_preempt_wakeup_fair(): the entity takes the CPU if it would be picked now.
fn check_preempt_wakeup(env: &QueueEnv<'_>, cfs: &CfsRq, curr: TaskId, task: TaskId) -> WakeupVerdict {
    let clock = clock_of(cfs, env.entities);
    let (running, woken) = (env.entities.se(curr), env.entities.se(task));
    let cancel_protection = env.features.preempt_short && do_preempt_short(&clock, woken, running);
    let protected = running.slice_protected && !cancel_protection;
    WakeupVerdict { preempt: pick_with(env, cfs, &clock, protected) == task, cancel_protection }
}

/// kernel/sched/fair.c, v6.12, check_preempt_wakeup_fair(): what SCHED_IDLE says, of tasks and of groups.
fn preempts_by_policy(env: &QueueEnv<'_>, tasks: [TaskId; 2], entities: [TaskId; 2]) -> Option<bool> {
    if !env.features.wakeup_preemption {
        return Some(false);
    }
    let [curr, woken] = entities.map(|entity| env.entities.se(entity).idle);
    if curr != woken {
        return Some(curr);
    }
    // What is alike so far: SCHED_IDLE tasks take the CPU from nobody.
    env.entities.se(tasks[1]).idle.then_some(false)
}

/// kernel/sched/fair.c, v6.12, do_preempt_short(): whether an eligible entity of shorter slice goes before the running one.
fn do_preempt_short(clock: &VirtualClock, woken: &SchedEntity, running: &SchedEntity) -> bool {
    woken.slice_ns < running.slice_ns
        && clock.entity_eligible(woken.vruntime)
        && (vruntime_before(woken.deadline, running.deadline) || !clock.entity_eligible(running.vruntime))
}

/// kernel/sched/fair.c, v6.12, entity_before(): 1 if the second entity's deadline is earlier, -1 if it is later.
///
/// No decision of this queue asks for it: arrivals are judged by `check_preempt_wakeup`.
fn wakeup_preempt_entity(_: &QueueEnv<'_>, curr: &SchedEntity, se: &SchedEntity) -> i32 {
    (curr.deadline.wrapping_sub(se.deadline) as i64).signum() as i32
}

/// kernel/sched/fair.c, v6.12, dequeue_entity(): whether an entity that falls asleep stays queued until it has paid.
fn delay_dequeue(env: &QueueEnv<'_>, cfs: &CfsRq, se: &SchedEntity) -> bool {
    env.features.delay_dequeue && !clock_of(cfs, env.entities).entity_eligible(se.vruntime)
}

/// pick_eevdf() on a queue, as things stand.
fn pick(env: &QueueEnv<'_>, cfs: &CfsRq, clock: &VirtualClock) -> TaskId {
    let protected = cfs.curr != NO_TASK && env.entities.se(cfs.curr).slice_protected;
    pick_with(env, cfs, clock, protected)
}

/// pick_eevdf() on a queue; an empty one gives [`NO_TASK`].
fn pick_with(env: &QueueEnv<'_>, cfs: &CfsRq, clock: &VirtualClock, protected: bool) -> TaskId {
    let candidate = |task: TaskId| {
        let se = env.entities.se(task);
        Candidate { id: task, vruntime: se.vruntime, deadline: se.deadline }
    };
    let curr = running_entity(cfs, env.entities).map(|_| candidate(cfs.curr));
    let queued = cfs.timeline.iter().map(|(_, task)| candidate(task));
    let picked = pick_eevdf(clock, curr, protected && env.features.run_to_parity, queued);
    // Some entity is always eligible, unless the sums overflowed; then the first one has to do.
    picked.or_else(|| cfs.timeline.first().map(|(_, task)| task)).unwrap_or(cfs.curr)
}

/// The queue's clock with the running entity, which is not among the waiting, counted in.
pub fn clock_of(cfs: &CfsRq, entities: Entities<'_>) -> VirtualClock {
    match running_entity(cfs, entities) {
        Some(curr) => cfs.clock.with(curr.vruntime, curr.weight),
        None => cfs.clock,
    }
}

fn running_entity<'a>(cfs: &CfsRq, entities: Entities<'a>) -> Option<&'a SchedEntity> {
    (cfs.curr != NO_TASK).then(|| entities.se(cfs.curr)).filter(|se| se.on_rq)
}

/// The weighted sum of a queue's virtual run times, kept as entities come and go.
///
/// Virtual run times count from a reference that follows the average, so that the sum stays small on a clock that wraps.
/// No decision depends on the reference; 6.12.0 takes the smallest virtual run time, later stable releases the average.
/// Widths and overflow are the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VirtualClock {
    /// The reference (`zero_vruntime`; `min_vruntime` in 6.12.0).
    pub zero_vruntime: u64,
    /// Sum of (vruntime - reference) * unscaled weight (`avg_vruntime`).
    pub avg_vruntime: i64,
    /// Sum of unscaled weights (`avg_load`).
    pub avg_load: i64,
}

impl VirtualClock {
    /// The clock of an empty queue.
    pub const fn new(zero_vruntime: u64) -> Self {
        Self { zero_vruntime, avg_vruntime: 0, avg_load: 0 }
    }

    /// kernel/sched/fair.c, v6.12, avg_vruntime_add(): an entity of scaled weight `weight` joins.
    #[inline]
    pub fn add(&mut self, vruntime: u64, weight: u64) {
        let weight = scale_load_down(weight) as i64;
        self.avg_vruntime = self.avg_vruntime.wrapping_add(self.key(vruntime).wrapping_mul(weight));
        self.avg_load = self.avg_load.wrapping_add(weight);
    }

    /// kernel/sched/fair.c, v6.12, avg_vruntime_sub(): it leaves.
    #[inline]
    pub fn sub(&mut self, vruntime: u64, weight: u64) {
        let weight = scale_load_down(weight) as i64;
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(self.key(vruntime).wrapping_mul(weight));
        self.avg_load = self.avg_load.wrapping_sub(weight);
    }

    /// This clock with one more entity.
    #[inline]
    #[must_use]
    pub fn with(mut self, vruntime: u64, weight: u64) -> Self {
        self.add(vruntime, weight);
        self
    }

    /// kernel/sched/fair.c, v6.12, avg_vruntime(): the weighted average, rounded down; the reference if nothing is queued.
    #[inline]
    pub fn avg_vruntime(&self) -> u64 {
        let average = match self.avg_load {
            0 => 0,
            load => self.avg_vruntime.wrapping_div_euclid(load),
        };
        self.zero_vruntime.wrapping_add_signed(average)
    }

    /// kernel/sched/fair.c, v6.12, vruntime_eligible(): whether an entity is not ahead of the average, without a division.
    #[inline]
    pub fn entity_eligible(&self, vruntime: u64) -> bool {
        self.avg_vruntime >= self.key(vruntime).wrapping_mul(self.avg_load)
    }

    /// kernel/sched/fair.c, v6.12, avg_vruntime_update(): moves the reference.
    #[inline]
    pub fn set_zero_vruntime(&mut self, zero_vruntime: u64) {
        let delta = self.key(zero_vruntime);
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(self.avg_load.wrapping_mul(delta));
        self.zero_vruntime = zero_vruntime;
    }

    /// kernel/sched/fair.c, v6.12, entity_key().
    #[inline]
    fn key(&self, vruntime: u64) -> i64 {
        vruntime.wrapping_sub(self.zero_vruntime) as i64
    }
}

/// kernel/sched/fair.c, v6.12, entity_lag(): what the entity is owed in virtual time, within two slices or a tick.
pub fn entity_lag(avg_vruntime: u64, se: &SchedEntity, tick_ns: u64) -> i64 {
    let longest = tick_ns.max(se.slice_ns.wrapping_mul(2));
    let limit = calc_delta_fair(longest, se.weight, se.inv_weight) as i64;
    let lag = avg_vruntime.wrapping_sub(se.vruntime) as i64;
    lag.min(limit).max(limit.wrapping_neg())
}

/// How [`place`] places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlaceRules {
    /// Slice of an entity that has no slice of its own, ns.
    pub base_slice_ns: u64,
    /// The entity enters with its lag (PLACE_LAG); meaningless on an empty queue.
    pub keep_lag: bool,
    /// What was left of its request is honoured (PLACE_REL_DEADLINE).
    pub keep_deadline: bool,
    /// Its first request is half as long (PLACE_DEADLINE_INITIAL).
    pub half_slice: bool,
}

/// kernel/sched/fair.c, v6.12, place_entity(): where an entity enters a queue whose clock, running entity included, is `clock`.
///
/// Its arrival moves the average towards it; the lag is stretched so that it has its old lag once it is in.
pub fn place(clock: &VirtualClock, se: &SchedEntity, rules: PlaceRules) -> Placement {
    let slice_ns = if se.custom_slice { se.slice_ns } else { rules.base_slice_ns };
    let lag = if rules.keep_lag && se.vlag != 0 {
        let load = clock.avg_load;
        let joined = load.wrapping_add(scale_load_down(se.weight) as i64);
        se.vlag.wrapping_mul(joined).wrapping_div(if load == 0 { 1 } else { load })
    } else {
        0
    };
    let vruntime = clock.avg_vruntime().wrapping_add_signed(lag.wrapping_neg());
    if rules.keep_deadline && se.rel_deadline {
        return Placement { vruntime, deadline: vruntime.wrapping_add(se.deadline), slice_ns };
    }
    let request = calc_delta_fair(slice_ns, se.weight, se.inv_weight);
    let request = if rules.half_slice { request / 2 } else { request };
    Placement { vruntime, deadline: vruntime.wrapping_add(request), slice_ns }
}

/// kernel/sched/fair.c, v6.12, update_deadline(): deadline and slice of the next request, if the present one is served.
#[inline]
pub fn next_deadline(se: &SchedEntity, base_slice_ns: u64) -> Option<(u64, u64)> {
    if vruntime_before(se.vruntime, se.deadline) {
        return None;
    }
    let slice_ns = if se.custom_slice { se.slice_ns } else { base_slice_ns };
    Some((se.vruntime.wrapping_add(calc_delta_fair(slice_ns, se.weight, se.inv_weight)), slice_ns))
}

/// kernel/sched/fair.c, v6.12, reweight_eevdf(): virtual run time and deadline of a queued entity under another weight.
///
/// What it is owed and what is left of its request stay the same in real time.
pub fn reweight_eevdf(avg_vruntime: u64, se: &SchedEntity, new_weight: u64, tick_ns: u64) -> (u64, u64) {
    let rescaled = |virtual_time: i64| {
        virtual_time.wrapping_mul(se.weight as i64).checked_div(new_weight as i64).unwrap_or(virtual_time)
    };
    let vruntime = if se.vruntime == avg_vruntime {
        se.vruntime
    } else {
        avg_vruntime.wrapping_add_signed(rescaled(entity_lag(avg_vruntime, se, tick_ns)).wrapping_neg())
    };
    let left = se.deadline.wrapping_sub(avg_vruntime) as i64;
    (vruntime, avg_vruntime.wrapping_add_signed(rescaled(left)))
}

/// An entity as [`pick_eevdf`] sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate<T> {
    /// What the caller knows it by.
    pub id: T,
    /// Virtual run time.
    pub vruntime: u64,
    /// Virtual deadline.
    pub deadline: u64,
}

/// kernel/sched/fair.c, v6.12, pick_eevdf(): the eligible entity with the earliest deadline.
///
/// `clock` counts the running entity `curr` in; `queued` comes in order of deadlines. While `curr` is eligible it runs on
/// if it is protected (RUN_TO_PARITY) or has the earliest deadline. `None` if nothing is eligible: nothing is queued.
pub fn pick_eevdf<T>(
    clock: &VirtualClock,
    curr: Option<Candidate<T>>,
    protected: bool,
    mut queued: impl Iterator<Item = Candidate<T>>,
) -> Option<T> {
    let curr = curr.filter(|curr| clock.entity_eligible(curr.vruntime));
    if protected && curr.is_some() {
        return curr.map(|curr| curr.id);
    }
    let best = queued.find(|candidate| clock.entity_eligible(candidate.vruntime));
    match (best, curr) {
        (Some(best), Some(curr)) if vruntime_before(curr.deadline, best.deadline) => Some(curr.id),
        (Some(best), _) => Some(best.id),
        (None, curr) => curr.map(|curr| curr.id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_weight::LoadWeight;
    use crate::pelt::SchedAvg;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Entity {
        vruntime: u64,
        weight: u64,
        request: u64,
    }

    /// Entities around a time anywhere on the wrapping clock, and that time.
    fn entities() -> impl Strategy<Value = (u64, Vec<Entity>)> {
        (any::<u64>(), prop::collection::vec((-(1_i64 << 36)..1 << 36, -20..20, 1_u64..1 << 32), 1..20))
            .prop_map(|(base, entities)| {
                let entity = |(offset, nice, request)| Entity {
                    vruntime: base.wrapping_add_signed(offset),
                    weight: LoadWeight::from_nice(nice).expect("a nice level").weight,
                    request,
                };
                (base, entities.into_iter().map(entity).collect())
            })
    }

    fn clock(base: u64, entities: &[Entity]) -> VirtualClock {
        entities
            .iter()
            .fold(VirtualClock::new(base), |clock, entity| clock.with(entity.vruntime, entity.weight))
    }

    proptest! {
        #[test]
        fn sums_follow_arrivals_departures_and_moves_of_the_reference(
            (base, entities) in entities(),
            leave in any::<prop::sample::Index>(),
            shift in -(1_i64 << 36)..1 << 36,
        ) {
            let leave = leave.index(entities.len());
            let mut kept = clock(base, &entities);
            kept.set_zero_vruntime(base.wrapping_add_signed(shift));
            kept.sub(entities[leave].vruntime, entities[leave].weight);
            let mut rest = entities.clone();
            rest.remove(leave);
            prop_assert_eq!(kept, clock(base.wrapping_add_signed(shift), &rest));
        }

        #[test]
        fn no_decision_depends_on_the_reference((base, entities) in entities(), shift in -(1_i64 << 36)..1 << 36) {
            let here = clock(base, &entities);
            let there = clock(base.wrapping_add_signed(shift), &entities);
            prop_assert_eq!(here.avg_vruntime(), there.avg_vruntime());
            for entity in &entities {
                prop_assert_eq!(here.entity_eligible(entity.vruntime), there.entity_eligible(entity.vruntime));
            }
        }

        /// With whole numbers the test without a division says the same as the comparison with the average rounded down.
        #[test]
        fn the_eligible_are_those_not_ahead_of_the_average((base, entities) in entities()) {
            let clock = clock(base, &entities);
            for entity in &entities {
                let ahead = vruntime_before(clock.avg_vruntime(), entity.vruntime);
                prop_assert_eq!(clock.entity_eligible(entity.vruntime), !ahead);
            }
        }

        #[test]
        fn the_pick_is_eligible_and_no_eligible_deadline_is_earlier(
            (base, entities) in entities(),
            running in any::<prop::sample::Index>(),
            runs: bool,
        ) {
            let clock = clock(base, &entities);
            let candidate = |id: usize| Candidate {
                id,
                vruntime: entities[id].vruntime,
                deadline: entities[id].vruntime.wrapping_add(entities[id].request),
            };
            let running = runs.then(|| running.index(entities.len()));
            let mut queued: Vec<_> = (0..entities.len()).filter(|&id| Some(id) != running).map(candidate).collect();
            queued.sort_by_key(|queued| queued.deadline.wrapping_sub(base) as i64);
            let pick = |protected| pick_eevdf(&clock, running.map(candidate), protected, queued.iter().copied());
            let picked = candidate(pick(false).expect("somebody is always eligible"));
            prop_assert!(clock.entity_eligible(picked.vruntime));
            for other in (0..entities.len()).map(candidate) {
                let earlier = vruntime_before(other.deadline, picked.deadline);
                prop_assert!(!earlier || !clock.entity_eligible(other.vruntime));
            }
            let protected = running.filter(|&id| clock.entity_eligible(entities[id].vruntime));
            prop_assert_eq!(pick(true), protected.or(Some(picked.id)));
        }

        /// What it was owed it is owed again when it has joined, however its weight moves the average.
        #[test]
        fn an_entity_enters_with_its_lag((base, entities) in entities(), vlag in -(1_i64 << 30)..1 << 30, nice in -20..20) {
            let clock = clock(base, &entities);
            let load = LoadWeight::from_nice(nice).expect("a nice level");
            let mut se = SchedEntity::new(load, SchedAvg::default());
            se.vlag = vlag;
            let rules = PlaceRules { base_slice_ns: 3_000_000, keep_lag: true, keep_deadline: true, half_slice: false };
            let placed = place(&clock, &se, rules);
            let after = clock.with(placed.vruntime, se.weight).avg_vruntime();
            let lag = after.wrapping_sub(placed.vruntime) as i64;
            prop_assert!((lag - vlag).abs() <= 1, "{lag} for {vlag}");
            let without = place(&clock, &se, PlaceRules { keep_lag: false, ..rules });
            prop_assert_eq!(without.vruntime, clock.avg_vruntime());
        }

        /// Whatever the numbers, nothing panics.
        #[test]
        fn any_numbers_are_taken(a: u64, b: u64, weight: u64, vlag: i64, slice: u64, tick: u64, load: i64, sum: i64, new_weight: u64) {
            let clock = VirtualClock { zero_vruntime: a, avg_vruntime: sum, avg_load: load };
            let mut se = SchedEntity::new(LoadWeight { weight, inv_weight: 0 }, SchedAvg::default());
            (se.vruntime, se.deadline, se.vlag, se.slice_ns, se.custom_slice) = (b, a, vlag, slice, true);
            let average = clock.avg_vruntime();
            entity_lag(average, &se, tick);
            reweight_eevdf(average, &se, new_weight, tick);
            next_deadline(&se, tick);
            place(&clock, &se, PlaceRules { base_slice_ns: tick, keep_lag: true, keep_deadline: false, half_slice: true });
            clock.with(b, weight).set_zero_vruntime(slice);
        }
    }
}
