//! Entities and the cfs_rq that their averages are part of: start values, attach, detach, deferred removal.
//!
//! These are the steps on one cfs_rq; what follows for parent groups is in `sim/groups.rs`.
//! All weights are scaled `load.weight`s. The caller has aged both sides as the kernel does before each step.

use super::{PeltForm, PeltTable, SchedAvg};
use crate::load_weight::SCHED_FIXEDPOINT_SHIFT;

/// Averages of entities that left a cfs_rq without its lock, to be taken off at its next update (`cfs_rq->removed`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Removed {
    /// Number of entities removed.
    pub nr: u32,
    /// Sum of their load_avg.
    pub load_avg: u64,
    /// Sum of their util_avg.
    pub util_avg: u64,
    /// Sum of their runnable_avg. The old form leaves it 0: what it keeps here (`removed.runnable_sum`) only feeds the
    /// propagation to parent groups.
    pub runnable_avg: u64,
}

/// kernel/sched/fair.c, v5.6 and v5.7, init_entity_runnable_average(), for a task.
///
/// A new task counts as always loaded until it is known better. All else is zero.
pub fn init_entity(weight: u64, form: PeltForm) -> SchedAvg {
    let load_avg = form.scale_load_down(weight);
    let runnable_avg = match form {
        PeltForm::Modern => 1 << SCHED_FIXEDPOINT_SHIFT,
        PeltForm::Old => load_avg,
    };
    SchedAvg { load_avg, runnable_avg, ..SchedAvg::default() }
}

/// kernel/sched/fair.c, v5.6 and v5.7, post_init_entity_util_avg(): utilization of a new task before its first enqueue.
///
/// Half of what the CPU (`cpu_scale`, 1024 = the biggest) has left, or less if the cfs_rq's utilization per load says
/// so. The weight in that proportion is the scaled one, as in these kernels, so that the cap almost always decides. In
/// the modern form the task also starts as runnable as the whole CPU: so v5.7 and the series of February 2020 that it
/// took; v5.7.7 and v5.8 start it at `util_avg` instead. The caller attaches the entity afterwards.
pub fn post_init_entity_util_avg(
    se: &mut SchedAvg,
    cfs: &SchedAvg,
    cpu_scale: u64,
    weight: u64,
    form: PeltForm,
) {
    let cap = (cpu_scale.wrapping_sub(cfs.util_avg) as i64) / 2;
    if cap > 0 {
        let cap = cap as u64;
        se.util_avg = if cfs.util_avg != 0 {
            (cfs.util_avg.wrapping_mul(weight) / cfs.load_avg.saturating_add(1)).min(cap)
        } else {
            cap
        };
    }
    if form == PeltForm::Modern {
        se.runnable_avg = cpu_scale;
    }
}

/// kernel/sched/fair.c, v5.6 and v5.7, attach_entity_load_avg().
///
/// Puts the entity onto the cfs_rq's clock and period, rebuilds its sums from its averages there, and adds both to the
/// cfs_rq.
pub fn attach_entity_load_avg(
    cfs: &mut SchedAvg,
    se: &mut SchedAvg,
    weight: u64,
    table: &PeltTable,
    form: PeltForm,
) {
    let divider = u64::from(table.divider(cfs.period_contrib));
    let weight = form.scale_load_down(weight);

    se.last_update_time = cfs.last_update_time;
    se.period_contrib = cfs.period_contrib;
    se.util_sum = se.util_avg.wrapping_mul(divider) as u32;
    se.load_sum = se.load_avg.wrapping_mul(divider).checked_div(weight).unwrap_or(divider);
    se.runnable_sum = match form {
        PeltForm::Modern => se.runnable_avg.wrapping_mul(divider),
        PeltForm::Old => se.load_sum,
    };

    cfs.load_avg = cfs.load_avg.wrapping_add(se.load_avg);
    cfs.load_sum = cfs.load_sum.wrapping_add(weight.wrapping_mul(se.load_sum));
    cfs.util_avg = cfs.util_avg.wrapping_add(se.util_avg);
    cfs.util_sum = cfs.util_sum.wrapping_add(se.util_sum);
    if form == PeltForm::Modern {
        cfs.runnable_avg = cfs.runnable_avg.wrapping_add(se.runnable_avg);
        cfs.runnable_sum = cfs.runnable_sum.wrapping_add(se.runnable_sum);
    }
}

/// kernel/sched/fair.c, v5.6 and v5.7, detach_entity_load_avg(): the entity's share off the cfs_rq, never below 0.
pub fn detach_entity_load_avg(cfs: &mut SchedAvg, se: &SchedAvg, weight: u64, form: PeltForm) {
    let weight = form.scale_load_down(weight);
    cfs.load_avg = cfs.load_avg.saturating_sub(se.load_avg);
    cfs.load_sum = cfs.load_sum.saturating_sub(weight.wrapping_mul(se.load_sum));
    cfs.util_avg = cfs.util_avg.saturating_sub(se.util_avg);
    cfs.util_sum = cfs.util_sum.saturating_sub(se.util_sum);
    if form == PeltForm::Modern {
        cfs.runnable_avg = cfs.runnable_avg.saturating_sub(se.runnable_avg);
        cfs.runnable_sum = cfs.runnable_sum.saturating_sub(se.runnable_sum);
    }
}

/// kernel/sched/fair.c, v5.4 to v5.6, enqueue_runnable_load_avg(): the runnable load of an entity that is enqueued.
///
/// `runnable_weight` is the entity's scaled one; the caller adds it to the cfs_rq's. Old form only.
pub fn enqueue_runnable_load_avg(cfs: &mut SchedAvg, se: &SchedAvg, runnable_weight: u64) {
    let runnable = PeltForm::Old.scale_load_down(runnable_weight).wrapping_mul(se.runnable_sum);
    cfs.runnable_avg = cfs.runnable_avg.wrapping_add(se.runnable_avg);
    cfs.runnable_sum = cfs.runnable_sum.wrapping_add(runnable);
}

/// kernel/sched/fair.c, v5.4 to v5.6, dequeue_runnable_load_avg(): its counterpart. Old form only.
pub fn dequeue_runnable_load_avg(cfs: &mut SchedAvg, se: &SchedAvg, runnable_weight: u64) {
    let runnable = PeltForm::Old.scale_load_down(runnable_weight).wrapping_mul(se.runnable_sum);
    cfs.runnable_avg = cfs.runnable_avg.saturating_sub(se.runnable_avg);
    cfs.runnable_sum = cfs.runnable_sum.saturating_sub(runnable);
}

/// kernel/sched/fair.c, v5.6 and v5.7, sync_entity_load_avg(): ages a sleeping entity to its cfs_rq's last update.
pub fn sync_entity_load_avg(
    se: &mut SchedAvg,
    cfs_last_update_time: u64,
    weight: u64,
    table: &PeltTable,
    form: PeltForm,
) {
    se.update_blocked_se(table, form, cfs_last_update_time, weight, weight);
}

/// kernel/sched/fair.c, v5.6 and v5.7, remove_entity_load_avg(): a sleeping entity leaves its cfs_rq for another CPU.
///
/// The entity is aged to the cfs_rq's last update first; the cfs_rq itself is not touched until [`apply_removed`].
pub fn remove_entity_load_avg(
    removed: &mut Removed,
    se: &mut SchedAvg,
    cfs_last_update_time: u64,
    weight: u64,
    table: &PeltTable,
    form: PeltForm,
) {
    sync_entity_load_avg(se, cfs_last_update_time, weight, table, form);
    removed.nr += 1;
    removed.load_avg = removed.load_avg.wrapping_add(se.load_avg);
    removed.util_avg = removed.util_avg.wrapping_add(se.util_avg);
    if form == PeltForm::Modern {
        removed.runnable_avg = removed.runnable_avg.wrapping_add(se.runnable_avg);
    }
}

/// kernel/sched/fair.c, v5.6 and v5.7, update_cfs_rq_load_avg(), its first half: takes off what was removed.
///
/// Averages and sums never fall below 0; the sums lose the average times the current divider. `removed` is emptied. The
/// kernel ages the cfs_rq ([`SchedAvg::update_cfs_rq`]) right after. True if anything was removed.
#[inline]
pub fn apply_removed(cfs: &mut SchedAvg, removed: &mut Removed, table: &PeltTable, form: PeltForm) -> bool {
    if removed.nr == 0 {
        return false;
    }
    let gone = std::mem::take(removed);
    let divider = u64::from(table.divider(cfs.period_contrib));

    cfs.load_avg = cfs.load_avg.saturating_sub(gone.load_avg);
    cfs.load_sum = cfs.load_sum.saturating_sub(gone.load_avg.wrapping_mul(divider));
    cfs.util_avg = cfs.util_avg.saturating_sub(gone.util_avg);
    cfs.util_sum = cfs.util_sum.saturating_sub(gone.util_avg.wrapping_mul(divider) as u32);
    if form == PeltForm::Modern {
        cfs.runnable_avg = cfs.runnable_avg.saturating_sub(gone.runnable_avg);
        cfs.runnable_sum = cfs.runnable_sum.saturating_sub(gone.runnable_avg.wrapping_mul(divider));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_weight::{NICE_0_LOAD, SCHED_PRIO_TO_WEIGHT, scale_load};
    use proptest::prelude::*;

    #[test]
    fn a_new_task_starts_with_full_load() {
        let modern = init_entity(NICE_0_LOAD, PeltForm::Modern);
        assert_eq!((modern.load_avg, modern.runnable_avg, modern.util_avg), (1024, 1024, 0));
        let nice_5 = init_entity(scale_load(335), PeltForm::Old);
        assert_eq!((nice_5.load_avg, nice_5.runnable_avg, nice_5.util_avg), (335, 335, 0));
        assert_eq!((nice_5.load_sum, nice_5.runnable_sum, nice_5.util_sum), (0, 0, 0));
    }

    #[test]
    fn a_new_task_gets_half_of_the_utilization_that_is_left() {
        let cfs = |util_avg, load_avg| SchedAvg { util_avg, load_avg, ..SchedAvg::default() };
        for (cfs, cpu_scale, weight, expected) in [
            (cfs(0, 0), 1024, NICE_0_LOAD, 512),
            (cfs(0, 0), 446, NICE_0_LOAD, 223),
            (cfs(512, 1024), 1024, NICE_0_LOAD, 256),
            // 10 * 15360 / 30721: the proportion decides only for light tasks among very heavy load.
            (cfs(10, 30_720), 1024, scale_load(15), 4),
            (cfs(1024, 1024), 1024, NICE_0_LOAD, 0),
            (cfs(1500, 4096), 1024, NICE_0_LOAD, 0),
        ] {
            let mut old = init_entity(weight, PeltForm::Old);
            let runnable_load_avg = old.runnable_avg;
            post_init_entity_util_avg(&mut old, &cfs, cpu_scale, weight, PeltForm::Old);
            assert_eq!((old.util_avg, old.runnable_avg), (expected, runnable_load_avg), "{cfs:?}");
            let mut modern = init_entity(weight, PeltForm::Modern);
            post_init_entity_util_avg(&mut modern, &cfs, cpu_scale, weight, PeltForm::Modern);
            assert_eq!((modern.util_avg, modern.runnable_avg), (expected, cpu_scale), "{cfs:?}");
        }
    }

    #[test]
    fn attaching_moves_the_entity_to_the_clock_and_period_of_the_queue() {
        let table = PeltTable::new(32).expect("the kernel's half-life");
        let mut cfs = SchedAvg { last_update_time: 5 << 20, period_contrib: 100, ..SchedAvg::default() };
        let mut se = init_entity(scale_load(335), PeltForm::Modern);
        se.util_avg = 512;
        attach_entity_load_avg(&mut cfs, &mut se, scale_load(335), &table, PeltForm::Modern);

        let divider = 47_742 - 1024 + 100;
        assert_eq!((se.last_update_time, se.period_contrib), (5 << 20, 100));
        assert_eq!(
            (se.load_sum, se.runnable_sum, u64::from(se.util_sum)),
            (divider, 1024 * divider, 512 * divider)
        );
        assert_eq!((cfs.load_avg, cfs.runnable_avg, cfs.util_avg), (335, 1024, 512));
        assert_eq!(
            (cfs.load_sum, cfs.runnable_sum, cfs.util_sum),
            (335 * divider, se.runnable_sum, se.util_sum)
        );
    }

    #[test]
    fn the_old_form_keeps_runnable_load_apart_from_attachment() {
        let table = PeltTable::new(32).expect("the kernel's half-life");
        let mut cfs = SchedAvg::default();
        let mut se = init_entity(NICE_0_LOAD, PeltForm::Old);
        attach_entity_load_avg(&mut cfs, &mut se, NICE_0_LOAD, &table, PeltForm::Old);
        assert_eq!((cfs.load_avg, cfs.runnable_avg, cfs.runnable_sum), (1024, 0, 0));
        enqueue_runnable_load_avg(&mut cfs, &se, NICE_0_LOAD);
        assert_eq!((cfs.runnable_avg, cfs.runnable_sum), (1024, cfs.load_sum));
        dequeue_runnable_load_avg(&mut cfs, &se, NICE_0_LOAD);
        assert_eq!((cfs.load_avg, cfs.runnable_avg, cfs.runnable_sum), (1024, 0, 0));
    }

    /// Tasks of any weight and history on one queue.
    fn tasks() -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
        prop::collection::vec((0_usize..40, 0_u64..=1024, 0_u64..=1024), 1..20)
    }

    fn forms() -> impl Strategy<Value = PeltForm> {
        prop_oneof![Just(PeltForm::Modern), Just(PeltForm::Old)]
    }

    proptest! {
        #[test]
        fn detaching_undoes_attaching(tasks in tasks(), form in forms(), period_contrib in 0_u32..1024) {
            let table = PeltTable::new(32).expect("the kernel's half-life");
            let empty = SchedAvg { last_update_time: 7 << 20, period_contrib, ..SchedAvg::default() };
            let mut cfs = empty;
            let mut attached = Vec::new();
            for (idx, util_avg, runnable_avg) in tasks {
                let weight = scale_load(SCHED_PRIO_TO_WEIGHT[idx]);
                let mut se = SchedAvg { util_avg, runnable_avg, ..init_entity(weight, form) };
                attach_entity_load_avg(&mut cfs, &mut se, weight, &table, form);
                attached.push((weight, se));
            }
            prop_assert_eq!(cfs.load_avg, attached.iter().map(|(_, se)| se.load_avg).sum::<u64>());
            for (weight, se) in &attached {
                detach_entity_load_avg(&mut cfs, se, *weight, form);
            }
            prop_assert_eq!(cfs, empty);
        }

        #[test]
        fn removed_load_leaves_at_the_queues_next_update(tasks in tasks(), form in forms(), slept_ns in 0_u64..1 << 30) {
            let table = PeltTable::new(32).expect("the kernel's half-life");
            let mut cfs = SchedAvg::default();
            let mut removed = Removed::default();
            let mut attached = Vec::new();
            let mut total_weight = 0;
            for (idx, util_avg, runnable_avg) in tasks {
                let weight = scale_load(SCHED_PRIO_TO_WEIGHT[idx]);
                let mut se = SchedAvg { util_avg, runnable_avg, ..init_entity(weight, form) };
                attach_entity_load_avg(&mut cfs, &mut se, weight, &table, form);
                total_weight += weight;
                attached.push((weight, se));
            }
            cfs.update_cfs_rq(&table, form, slept_ns, 0, 0, false);
            let nr = attached.len() as u32;
            let before = cfs;
            for (weight, se) in &mut attached {
                remove_entity_load_avg(&mut removed, se, cfs.last_update_time, *weight, &table, form);
                prop_assert_eq!(se.last_update_time, cfs.last_update_time);
            }
            prop_assert_eq!(removed.nr, nr);
            prop_assert_eq!(cfs, before);
            prop_assert!(apply_removed(&mut cfs, &mut removed, &table, form));
            prop_assert_eq!(removed, Removed::default());
            prop_assert!(!apply_removed(&mut cfs, &mut removed, &table, form));
            // The sum of rounded averages is within the rounding of each entity of the average of the sum.
            let load_rounding = u64::from(nr) + PeltForm::Modern.scale_load_down(total_weight) / 1024 + 1;
            prop_assert!(cfs.load_avg <= load_rounding, "{} of {}", cfs.load_avg, load_rounding);
            prop_assert!(cfs.util_avg <= u64::from(nr));
            prop_assert!(form == PeltForm::Old || cfs.runnable_avg <= u64::from(nr));
        }
    }
}
