//! Weights of tasks and the scaling of time by weight.

use crate::error::{Result, SimError};

/// Bits of the fixed point of capacities and of the extra resolution of load weights (`SCHED_FIXEDPOINT_SHIFT`).
pub const SCHED_FIXEDPOINT_SHIFT: u32 = 10;

/// The scaled weight of a nice-0 task (`NICE_0_LOAD`).
pub const NICE_0_LOAD: u64 = 1 << (2 * SCHED_FIXEDPOINT_SHIFT);

/// kernel/sched/core.c, v5.4 and later, sched_prio_to_weight[]: unscaled weight for nice -20 to 19.
pub const SCHED_PRIO_TO_WEIGHT: [u32; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620, 6_100,
    4_904, 3_906, 3_121, 2_501, 1_991, 1_586, 1_277, 1_024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110,
    87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// kernel/sched/core.c, v5.4 and later, sched_prio_to_wmult[]: the kernel's rounded 2^32 / weight, nice -20 to 19.
pub const SCHED_PRIO_TO_WMULT: [u32; 40] = [
    48_388,
    59_856,
    76_040,
    92_818,
    118_348,
    147_320,
    184_698,
    229_616,
    287_308,
    360_437,
    449_829,
    563_644,
    704_093,
    875_809,
    1_099_582,
    1_376_151,
    1_717_300,
    2_157_191,
    2_708_050,
    3_363_326,
    4_194_304,
    5_237_765,
    6_557_202,
    8_165_337,
    10_153_587,
    12_820_798,
    15_790_321,
    19_976_592,
    24_970_740,
    31_350_126,
    39_045_157,
    49_367_440,
    61_356_676,
    76_695_844,
    95_443_717,
    119_304_647,
    148_102_320,
    186_737_708,
    238_609_294,
    286_331_153,
];

/// Unscaled weight of a SCHED_IDLE task (`WEIGHT_IDLEPRIO`).
pub const WEIGHT_IDLEPRIO: u32 = 3;

/// 2^32 over [`WEIGHT_IDLEPRIO`] (`WMULT_IDLEPRIO`).
pub const WMULT_IDLEPRIO: u32 = 1_431_655_765;

/// Smallest shares of a task group, unscaled (`MIN_SHARES`).
pub const MIN_SHARES: u64 = 2;

/// Largest shares of a task group, unscaled (`MAX_SHARES`).
pub const MAX_SHARES: u64 = 1 << 18;

/// A scaled weight and, if known, its inverse (`struct load_weight`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct LoadWeight {
    /// The weight scaled by 1024; nice 0 is [`NICE_0_LOAD`].
    pub weight: u64,
    /// 2^32 over the unscaled weight; 0 = not computed yet.
    pub inv_weight: u32,
}

impl LoadWeight {
    /// The weight of a nice-0 task.
    pub const NICE_0: Self = Self { weight: NICE_0_LOAD, inv_weight: SCHED_PRIO_TO_WMULT[20] };

    /// kernel/sched/core.c, v5.4 to v5.7, set_load_weight(): the weight of a SCHED_NORMAL task of this nice level.
    pub fn from_nice(nice: i32) -> Result<Self> {
        let idx = nice_index(nice)?;
        Ok(Self { weight: scale_load(SCHED_PRIO_TO_WEIGHT[idx]), inv_weight: SCHED_PRIO_TO_WMULT[idx] })
    }

    /// kernel/sched/core.c, v5.4 to v5.7, set_load_weight(): the weight of a SCHED_IDLE task.
    pub const fn idle_policy() -> Self {
        Self { weight: scale_load(WEIGHT_IDLEPRIO), inv_weight: WMULT_IDLEPRIO }
    }

    /// kernel/sched/fair.c, v5.4 to v5.7, update_load_add().
    #[inline]
    pub fn add(&mut self, weight: u64) {
        self.weight = self.weight.wrapping_add(weight);
        self.inv_weight = 0;
    }

    /// kernel/sched/fair.c, v5.4 to v5.7, update_load_sub().
    #[inline]
    pub fn sub(&mut self, weight: u64) {
        self.weight = self.weight.wrapping_sub(weight);
        self.inv_weight = 0;
    }

    /// kernel/sched/fair.c, v5.4 to v5.7, __calc_delta(): `delta * weight / self`, remembering the inverse.
    #[inline]
    pub fn calc_delta(&mut self, delta: u64, weight: u64) -> u64 {
        if self.inv_weight == 0 {
            self.inv_weight = inverse_of(self.weight);
        }
        calc_delta(delta, weight, self.weight, self.inv_weight)
    }

    /// kernel/sched/fair.c, v5.4 to v5.7, calc_delta_fair(): real time to virtual time, remembering the inverse.
    #[inline]
    pub fn calc_delta_fair(&mut self, delta: u64) -> u64 {
        if self.weight == NICE_0_LOAD { delta } else { self.calc_delta(delta, NICE_0_LOAD) }
    }
}

/// The unscaled weight of a nice level, -20 to 19.
pub fn nice_weight(nice: i32) -> Result<u32> {
    nice_index(nice).map(|idx| SCHED_PRIO_TO_WEIGHT[idx])
}

/// kernel/sched/sched.h, v5.4 and later, scale_load().
#[inline]
pub const fn scale_load(weight: u32) -> u64 {
    (weight as u64) << SCHED_FIXEDPOINT_SHIFT
}

/// kernel/sched/sched.h, v5.7, scale_load_down(): never below 2 for a weight that is not 0.
///
/// v5.4 to v5.6 have no floor; it differs only below 2048, where no task's weight lies.
#[inline]
pub const fn scale_load_down(weight: u64) -> u64 {
    let unscaled = weight >> SCHED_FIXEDPOINT_SHIFT;
    if weight == 0 {
        0
    } else if unscaled < 2 {
        2
    } else {
        unscaled
    }
}

/// kernel/sched/fair.c, v5.4 to v5.7, __update_inv_weight(): 2^32 over the unscaled weight.
#[inline]
pub const fn inverse_of(weight: u64) -> u32 {
    let unscaled = scale_load_down(weight);
    if unscaled >= u32::MAX as u64 {
        1
    } else {
        match u32::MAX.checked_div(unscaled as u32) {
            Some(inverse) => inverse,
            None => u32::MAX,
        }
    }
}

/// kernel/sched/fair.c, v5.4 to v5.7, __calc_delta(): `delta * weight / lw` in the kernel's rounding.
///
/// `weight` and `lw` are scaled; `inv` is the cached inverse of `lw`, 0 = compute it. Exact for `weight` below 2^42, far
/// above what a queue can weigh.
#[inline]
pub fn calc_delta(delta: u64, weight: u64, lw: u64, inv: u32) -> u64 {
    let inv = if inv == 0 { inverse_of(lw) } else { inv };
    let (fact, shift) = to_32_bits(scale_load_down(weight), 32);
    let (fact, shift) = to_32_bits(fact.wrapping_mul(u64::from(inv)), shift);
    ((u128::from(delta) * u128::from(fact)) >> shift) as u64
}

/// kernel/sched/fair.c, v5.4 to v5.7, calc_delta_fair(): real time to the virtual time of an entity of weight `w`.
///
/// `w` is scaled; `inv` is its cached inverse, 0 = compute it. Nice 0 passes unchanged.
#[inline]
pub fn calc_delta_fair(delta: u64, w: u64, inv: u32) -> u64 {
    if w == NICE_0_LOAD { delta } else { calc_delta(delta, NICE_0_LOAD, w, inv) }
}

/// Drops the low bits of a factor that does not fit 32 bits, and takes them off the shift.
#[inline]
fn to_32_bits(fact: u64, shift: u32) -> (u64, u32) {
    let excess = 32 - ((fact >> 32) as u32).leading_zeros();
    (fact >> excess, shift.saturating_sub(excess))
}

/// Index of a nice level into the tables.
fn nice_index(nice: i32) -> Result<usize> {
    if !(-20..=19).contains(&nice) {
        return Err(SimError::invalid("nice", nice, "must be from -20 to 19"));
    }
    Ok((nice + 20) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nice_levels_out_of_range_are_refused() {
        for nice in [-21, 20, i32::MIN, i32::MAX] {
            assert_eq!(nice_weight(nice), Err(SimError::invalid("nice", nice, "must be from -20 to 19")));
            assert!(LoadWeight::from_nice(nice).is_err());
        }
    }

    #[test]
    fn a_changed_weight_forgets_its_inverse() {
        let mut lw = LoadWeight::from_nice(5).expect("a nice level");
        lw.add(NICE_0_LOAD);
        assert_eq!(lw, LoadWeight { weight: scale_load(335) + NICE_0_LOAD, inv_weight: 0 });
        lw.sub(NICE_0_LOAD);
        // 2^32 / 335 rounds down here; the kernel's table for nice 5 rounds to nearest.
        assert_eq!((lw.calc_delta_fair(1 << 30), lw.inv_weight), (3_282_124_032, 12_820_797));
    }

    proptest! {
        /// Whatever the arguments, the fixed point stays within its precision of the true quotient.
        #[test]
        fn calc_delta_is_close_to_the_quotient(delta in 0_u64..1 << 40, weight in 2_u64..1 << 18, lw in 2_u64..1 << 18) {
            let (weight, lw) = (weight << SCHED_FIXEDPOINT_SHIFT, lw << SCHED_FIXEDPOINT_SHIFT);
            let got = u128::from(calc_delta(delta, weight, lw, 0));
            let exact = u128::from(delta) * u128::from(weight) / u128::from(lw);
            let slack = exact * u128::from(lw) / (1 << 41) + (exact >> 30) + 1;
            prop_assert!(got <= exact && exact - got <= slack, "{got} of {exact}");
        }

        #[test]
        fn calc_delta_takes_any_arguments(delta: u64, weight: u64, lw: u64, inv: u32) {
            calc_delta(delta, weight, lw, inv);
            calc_delta_fair(delta, lw, inv);
        }
    }
}
