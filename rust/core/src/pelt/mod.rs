//! Per-entity load tracking: the kernel's integers, bit for bit.
//!
//! [`SchedAvg`] is the state of one entity or one cfs_rq and knows how to age; [`PeltTable`] holds what depends on the
//! half-life only; [`attach`] moves the averages of entities onto and off a cfs_rq.

pub mod attach;
mod table;
pub mod trace;

pub use attach::{
    Removed, apply_removed, attach_entity_load_avg, dequeue_runnable_load_avg, detach_entity_load_avg,
    enqueue_runnable_load_avg, init_entity, post_init_entity_util_avg, remove_entity_load_avg,
    sync_entity_load_avg,
};
pub use table::{MAX_HALF_LIFE, PeltTable};

use crate::load_weight::{SCHED_FIXEDPOINT_SHIFT, scale_load_down};

/// Length of one PELT period in units of 1024 ns.
pub const PERIOD_US: u32 = 1024;

/// Which generation of the signals a [`SchedAvg`] carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeltForm {
    /// v5.7 and later: `runnable_sum`/`runnable_avg` count waiting and running time like utilization.
    Modern,
    /// v5.4 to v5.6: the same two slots hold `runnable_load_sum`/`runnable_load_avg`, weighted like load.
    Old,
}

impl PeltForm {
    /// include/linux/sched.h and kernel/sched/sched.h, `scale_load_down()` as the form's kernels define it: weights
    /// are floored at 2 from v5.7 on, plainly shifted before.
    #[inline]
    pub fn scale_load_down(self, weight: u64) -> u64 {
        match self {
            Self::Modern => scale_load_down(weight),
            Self::Old => weight >> SCHED_FIXEDPOINT_SHIFT,
        }
    }
}

/// The signals of one scheduling entity or one cfs_rq (`struct sched_avg`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct SchedAvg {
    /// Clock of the last update, ns; always a whole number of 1024 ns behind the update's own time.
    pub last_update_time: u64,
    /// Decayed time with load, 1024 ns units (entity) or those weighted (cfs_rq).
    pub load_sum: u64,
    /// Decayed runnable time scaled by 1024; in [`PeltForm::Old`] `runnable_load_sum`, unscaled.
    pub runnable_sum: u64,
    /// Decayed running time scaled by 1024.
    pub util_sum: u32,
    /// Part of the current period that has already passed, 1024 ns units, below 1024.
    pub period_contrib: u32,
    /// Load average: weight times the share of time with load.
    pub load_avg: u64,
    /// Runnable average, 1024 = one task always runnable; in [`PeltForm::Old`] `runnable_load_avg`.
    pub runnable_avg: u64,
    /// Utilization average, 1024 = always running.
    pub util_avg: u64,
}

impl SchedAvg {
    /// kernel/sched/pelt.c, v5.4 to v5.7, __update_load_avg_se().
    ///
    /// Ages a queued or running entity to `now` (ns). The flags describe the interval that ends at `now`: `on_rq` 0 or
    /// 1, `runnable` what `se_runnable()` returns (1 for a queued task; the number of queued tasks for a group entity;
    /// the scaled `runnable_weight` in the old form), `running` whether it is the current one. `weight` is the scaled
    /// `load.weight`. True if a period boundary was crossed, so that the averages are new.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "the kernel function's own arguments and the two tables it has compiled in"
    )]
    pub fn update_se(
        &mut self,
        table: &PeltTable,
        form: PeltForm,
        now: u64,
        weight: u64,
        on_rq: u64,
        runnable: u64,
        running: bool,
    ) -> bool {
        let Some(delta) = self.elapsed(now) else { return false };
        let runnable_time = match form {
            PeltForm::Modern => runnable,
            PeltForm::Old => on_rq,
        };
        let crossed = self.update_load_sum(table, form, delta, on_rq, runnable_time, running);
        if crossed {
            self.update_entity_avg(table, form, weight, runnable);
        }
        crossed
    }

    /// kernel/sched/pelt.c, v5.4 to v5.7, __update_load_avg_blocked_se().
    ///
    /// Ages a sleeping entity to `now` (ns): nothing accrues. `runnable_weight` is the scaled weight of the old form's
    /// runnable load, ignored by the modern form. True if the averages are new.
    #[inline(always)]
    pub fn update_blocked_se(
        &mut self,
        table: &PeltTable,
        form: PeltForm,
        now: u64,
        weight: u64,
        runnable_weight: u64,
    ) -> bool {
        let Some(delta) = self.elapsed(now) else { return false };
        let crossed = self.update_load_sum(table, form, delta, 0, 0, false);
        if crossed {
            self.update_entity_avg(table, form, weight, runnable_weight);
        }
        crossed
    }

    /// kernel/sched/pelt.c, v5.4 to v5.7, __update_load_avg_cfs_rq().
    ///
    /// Ages a cfs_rq to `now` (ns). `weight` is its scaled `load.weight`, `runnable` the number of runnable tasks in
    /// its hierarchy (the scaled `runnable_weight` in the old form), `running` whether it has a current entity. True if
    /// the averages are new.
    #[inline(always)]
    pub fn update_cfs_rq(
        &mut self,
        table: &PeltTable,
        form: PeltForm,
        now: u64,
        weight: u64,
        runnable: u64,
        running: bool,
    ) -> bool {
        let Some(delta) = self.elapsed(now) else { return false };
        let runnable = match form {
            PeltForm::Modern => runnable,
            PeltForm::Old => form.scale_load_down(runnable),
        };
        let load = form.scale_load_down(weight);
        let crossed = self.update_load_sum(table, form, delta, load, runnable, running);
        if crossed {
            self.update_load_avg(table, 1, 1);
        }
        crossed
    }

    /// kernel/sched/pelt.c, v5.7, accumulate_sum().
    ///
    /// Decays the sums over `delta` units of 1024 ns and adds what the interval contributed. Returns the whole periods
    /// that passed, cut to 32 bits as the kernel's return type cuts them.
    #[inline]
    pub fn accumulate_sum(
        &mut self,
        table: &PeltTable,
        form: PeltForm,
        delta: u64,
        load: u64,
        runnable: u64,
        running: bool,
    ) -> u32 {
        let total = delta.wrapping_add(u64::from(self.period_contrib));
        let periods = total >> 10;
        let mut contrib = delta as u32;
        if periods != 0 {
            let decay = table.decay(periods);
            self.load_sum = decay.of(self.load_sum);
            self.runnable_sum = decay.of(self.runnable_sum);
            self.util_sum = decay.of(u64::from(self.util_sum)) as u32;
            let rest = (total & 1023) as u32;
            if load != 0 {
                contrib = table.segments(decay, PERIOD_US.wrapping_sub(self.period_contrib), rest);
            }
            self.period_contrib = rest;
        } else {
            self.period_contrib = total as u32;
        }

        if load != 0 {
            self.load_sum = self.load_sum.wrapping_add(load.wrapping_mul(u64::from(contrib)));
        }
        if runnable != 0 {
            let runnable_time = runnable.wrapping_mul(u64::from(contrib));
            self.runnable_sum = self.runnable_sum.wrapping_add(match form {
                PeltForm::Modern => runnable_time << SCHED_FIXEDPOINT_SHIFT,
                PeltForm::Old => runnable_time,
            });
        }
        if running {
            self.util_sum = self.util_sum.wrapping_add(contrib << SCHED_FIXEDPOINT_SHIFT);
        }
        periods as u32
    }

    /// kernel/sched/pelt.c, v5.6 and v5.7, ___update_load_avg().
    ///
    /// Turns the sums into averages. `load` and `runnable` multiply the two weighted sums; the modern form passes 1 for
    /// `runnable`.
    #[inline]
    pub fn update_load_avg(&mut self, table: &PeltTable, load: u64, runnable: u64) {
        let divider = table.reciprocal(self.period_contrib);
        self.load_avg = divider.divide(load.wrapping_mul(self.load_sum));
        self.runnable_avg = divider.divide(runnable.wrapping_mul(self.runnable_sum));
        self.util_avg = divider.divide(u64::from(self.util_sum));
    }

    /// Units of 1024 ns since the last update, if there is a whole one; moves the clock.
    #[inline(always)]
    fn elapsed(&mut self, now: u64) -> Option<u64> {
        let delta = now.wrapping_sub(self.last_update_time);
        if delta < 1024 {
            return None;
        }
        // A clock that went back is accepted as the new base; nothing is accounted for.
        if (delta as i64) < 0 {
            self.last_update_time = now;
            return None;
        }
        self.last_update_time = self.last_update_time.wrapping_add(delta & !1023);
        Some(delta >> 10)
    }

    /// kernel/sched/pelt.c, v5.4 to v5.7, ___update_load_sum(), after the clock has moved.
    #[inline]
    fn update_load_sum(
        &mut self,
        table: &PeltTable,
        form: PeltForm,
        delta: u64,
        load: u64,
        runnable: u64,
        running: bool,
    ) -> bool {
        // A dequeued current task may still look runnable or running; without load it is neither.
        let (runnable, running) = if load == 0 { (0, false) } else { (runnable, running) };
        self.accumulate_sum(table, form, delta, load, runnable, running) != 0
    }

    /// The averages of an entity, whose sums are unweighted.
    #[inline]
    fn update_entity_avg(&mut self, table: &PeltTable, form: PeltForm, weight: u64, runnable_weight: u64) {
        let runnable = match form {
            PeltForm::Modern => 1,
            PeltForm::Old => form.scale_load_down(runnable_weight),
        };
        self.update_load_avg(table, form.scale_load_down(weight), runnable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_weight::{NICE_0_LOAD, SCHED_PRIO_TO_WEIGHT, scale_load};
    use proptest::prelude::*;

    fn table() -> PeltTable {
        PeltTable::new(32).expect("the kernel's half-life")
    }

    #[test]
    fn less_than_a_unit_changes_nothing_and_is_not_lost() {
        let mut avg = SchedAvg { last_update_time: 5000, ..SchedAvg::default() };
        let before = avg;
        assert!(!avg.update_se(&table(), PeltForm::Modern, 5000 + 1023, NICE_0_LOAD, 1, 1, true));
        assert_eq!(avg, before);
        assert!(!avg.update_se(&table(), PeltForm::Modern, 5000 + 2047, NICE_0_LOAD, 1, 1, true));
        assert_eq!((avg.last_update_time, avg.load_sum, avg.util_sum), (5000 + 1024, 1, 1024));
        assert!(!avg.update_se(&table(), PeltForm::Modern, 5000 + 2048, NICE_0_LOAD, 1, 1, true));
        assert_eq!((avg.last_update_time, avg.load_sum), (5000 + 2048, 2));
    }

    #[test]
    fn a_clock_that_went_back_is_the_new_base() {
        let mut avg = SchedAvg { last_update_time: 1 << 30, load_sum: 7, ..SchedAvg::default() };
        assert!(!avg.update_se(&table(), PeltForm::Modern, 1 << 20, NICE_0_LOAD, 1, 1, true));
        assert_eq!(avg, SchedAvg { last_update_time: 1 << 20, load_sum: 7, ..SchedAvg::default() });
    }

    #[test]
    fn a_dequeued_current_task_neither_runs_nor_waits() {
        let start = SchedAvg {
            load_sum: 40_000,
            runnable_sum: 40_000 << 10,
            util_sum: 40_000 << 10,
            ..SchedAvg::default()
        };
        let (mut dequeued, mut blocked) = (start, start);
        dequeued.update_se(&table(), PeltForm::Modern, 9 << 20, NICE_0_LOAD, 0, 1, true);
        blocked.update_blocked_se(&table(), PeltForm::Modern, 9 << 20, NICE_0_LOAD, NICE_0_LOAD);
        assert_eq!(dequeued, blocked);
        assert!(blocked.util_avg > 0);
    }

    proptest! {
        /// No history takes an entity's averages above their scales, in any half-life: LOAD_AVG_MAX is a sum of rounded
        /// terms, so that the sums of finer grain (util, and runnable in the modern form) may end one above. Nor is a task
        /// more utilized than loaded, but for what rounding takes from the coarser sum: a unit at each decay adds up to
        /// LOAD_AVG_MAX / 1024 units, and the averages divide by as little as LOAD_AVG_MAX - 1024.
        #[test]
        fn averages_stay_within_their_bounds(
            half_life in 1..=MAX_HALF_LIFE,
            idx in 0_usize..40,
            steps in prop::collection::vec((0_u64..40_000_000, 0_u64..3), 1..200),
            old in any::<bool>(),
        ) {
            let table = PeltTable::new(half_life).expect("a valid half-life");
            let form = if old { PeltForm::Old } else { PeltForm::Modern };
            let weight = scale_load(SCHED_PRIO_TO_WEIGHT[idx]);
            let load_max = form.scale_load_down(weight);
            let (on_rq_runnable, runnable_max) = if old { (weight, load_max) } else { (1, 1025) };
            let max = u64::from(table.load_avg_max);
            let lost = max.div_ceil(max - 1024);
            let (mut avg, mut now) = (SchedAvg::default(), 0);
            for (delta, state) in steps {
                now += delta;
                let before = avg;
                let crossed = avg.update_se(&table, form, now, weight, state.min(1), on_rq_runnable, state == 2);
                prop_assert!(avg.util_avg <= 1025 && avg.load_avg <= load_max && avg.runnable_avg <= runnable_max);
                prop_assert!(avg.period_contrib < PERIOD_US && now - avg.last_update_time < 1024);
                prop_assert!(avg.util_avg <= avg.load_avg * 1024 / load_max + 1024 / load_max + 1 + lost);
                if !crossed {
                    let averages = |avg: &SchedAvg| (avg.load_avg, avg.runnable_avg, avg.util_avg);
                    prop_assert_eq!(averages(&avg), averages(&before));
                }
            }
        }

        /// The two forms differ in the runnable signal only.
        #[test]
        fn the_forms_share_load_and_utilization(
            steps in prop::collection::vec((0_u64..40_000_000, 0_u64..3), 1..50),
        ) {
            let table = table();
            let (mut modern, mut old, mut now) = (SchedAvg::default(), SchedAvg::default(), 0);
            for (delta, state) in steps {
                now += delta;
                let on_rq = state.min(1);
                modern.update_se(&table, PeltForm::Modern, now, NICE_0_LOAD, on_rq, on_rq, state == 2);
                old.update_se(&table, PeltForm::Old, now, NICE_0_LOAD, on_rq, NICE_0_LOAD, state == 2);
                prop_assert_eq!((modern.load_sum, modern.util_sum), (old.load_sum, old.util_sum));
                prop_assert_eq!((modern.load_avg, modern.util_avg), (old.load_avg, old.util_avg));
                prop_assert_eq!(old.runnable_sum, old.load_sum);
                prop_assert_eq!(old.runnable_avg, old.load_avg);
            }
        }

        /// No state and no arguments make an update panic: what does not fit wraps as in the kernel.
        #[test]
        fn updates_take_any_state(
            state: [u64; 6], util_sum: u32, period_contrib in 0..PERIOD_US,
            now: u64, weight: u64, on_rq: u64, runnable: u64, running: bool, old: bool,
        ) {
            let form = if old { PeltForm::Old } else { PeltForm::Modern };
            let [last_update_time, load_sum, runnable_sum, load_avg, runnable_avg, util_avg] = state;
            let start = SchedAvg {
                last_update_time, load_sum, runnable_sum, util_sum, period_contrib, load_avg, runnable_avg, util_avg,
            };
            let (mut se, mut cfs) = (start, start);
            se.update_se(&table(), form, now, weight, on_rq, runnable, running);
            cfs.update_cfs_rq(&table(), form, now, weight, runnable, running);
            post_init_entity_util_avg(&mut se, &cfs, runnable, weight, form);
            attach_entity_load_avg(&mut cfs, &mut se, weight, &table(), form);
            detach_entity_load_avg(&mut cfs, &se, weight, form);
        }
    }
}
