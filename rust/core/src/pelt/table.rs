//! What PELT knows of a half-life: the powers of y, the largest sum, and exact reciprocals of every divider.

use super::PERIOD_US;
use crate::error::{Result, SimError};

/// Longest half-life offered, in periods.
pub const MAX_HALF_LIFE: u32 = 1024;

/// The constants of one half-life (the kernel's sched-pelt.h) and the reciprocals that replace its divisions.
#[derive(Clone, Debug)]
pub struct PeltTable {
    /// Periods (of 1024 x 1024 ns) after which a contribution counts half (`LOAD_AVG_PERIOD`).
    pub half_life: u32,
    /// The sum that an entity with load forever reaches, 1024 ns units (`LOAD_AVG_MAX`).
    pub load_avg_max: u32,
    /// Number, counted from 0, of the last period that still makes that sum grow (`LOAD_AVG_MAX_N`).
    pub load_avg_max_n: u32,
    /// y^n in 32-bit fixed point for n below the half-life (`runnable_avg_yN_inv`).
    pub yn_inv: Vec<u32>,
    /// floor(2^64 / divider) + 1 for each `period_contrib`.
    reciprocals: Box<[u64; PERIOD_US as usize]>,
    /// The reciprocals are exact for dividends below this.
    reciprocal_limit: u64,
}

impl PeltTable {
    /// Documentation/scheduler/sched-pelt.c, v5.4 and later: the kernel's own generator, for any half-life.
    ///
    /// `half_life` is in periods of 1024 x 1024 ns, from 1 to 1024; the kernel's is 32.
    pub fn new(half_life: u32) -> Result<Self> {
        if !(1..=MAX_HALF_LIFE).contains(&half_life) {
            let rule = format!("must be a whole number from 1 to {MAX_HALF_LIFE}");
            return Err(SimError::invalid("half_life_ms", half_life, rule));
        }
        let (yn_inv, y_inv) = powers_of_y(half_life);
        let (load_avg_max, load_avg_max_n) = fixed_point(y_inv);
        let first_divider = load_avg_max - PERIOD_US;
        let mut reciprocals = Box::new([0; PERIOD_US as usize]);
        for (divider, reciprocal) in (first_divider..).zip(reciprocals.iter_mut()) {
            *reciprocal = ((1_u128 << 64) / u128::from(divider)) as u64 + 1;
        }
        // x * M / 2^64 exceeds x / d by x * (M * d - 2^64) / (d * 2^64), where M * d - 2^64 is at most d. That stays
        // below 1 / d, hence below the next whole number, while x * d <= 2^64 - 1.
        let reciprocal_limit = u64::MAX / u64::from(load_avg_max);
        Ok(Self { half_life, load_avg_max, load_avg_max_n, yn_inv, reciprocals, reciprocal_limit })
    }

    /// kernel/sched/pelt.c, v5.4 to v5.7, decay_load(): `val` times y^n.
    #[inline]
    pub fn decay_load(&self, val: u64, n: u64) -> u64 {
        self.decay(n).of(val)
    }

    /// kernel/sched/pelt.c, v5.4 to v5.7, __accumulate_pelt_segments().
    ///
    /// The contribution of an interval that crosses `periods` (at least 1) boundaries: `d1` before the first, `d3` after
    /// the last, whole periods between; 1024 ns units.
    #[inline]
    pub fn accumulate_pelt_segments(&self, periods: u64, d1: u32, d3: u32) -> u32 {
        self.segments(self.decay(periods), d1, d3)
    }

    /// kernel/sched/pelt.h, v5.8, get_pelt_divider(): the largest sum at this point of a period.
    #[inline]
    pub fn divider(&self, period_contrib: u32) -> u32 {
        (self.load_avg_max - PERIOD_US).wrapping_add(period_contrib)
    }

    /// `x / divider(period_contrib)`, without a division where the table allows it.
    #[inline]
    pub fn div_by_divider(&self, x: u64, period_contrib: u32) -> u64 {
        self.reciprocal(period_contrib).divide(x)
    }

    /// y^n, ready to be applied to several sums.
    #[inline]
    pub(super) fn decay(&self, n: u64) -> Decay {
        let half_life = u64::from(self.half_life);
        if n < half_life {
            return Decay { shift: 0, inv: self.yn_inv[n as usize] };
        }
        if n > half_life * 63 {
            return Decay { shift: 0, inv: 0 };
        }
        let (halvings, rest) = (n as u32 / self.half_life, n as u32 % self.half_life);
        Decay { shift: halvings, inv: self.yn_inv[rest as usize] }
    }

    /// [`Self::accumulate_pelt_segments`] with the decay over its periods already known.
    #[inline]
    pub(super) fn segments(&self, decay: Decay, d1: u32, d3: u32) -> u32 {
        let first = decay.of(u64::from(d1)) as u32;
        let whole = self
            .load_avg_max
            .wrapping_sub(decay.of(u64::from(self.load_avg_max)) as u32)
            .wrapping_sub(PERIOD_US);
        first.wrapping_add(whole).wrapping_add(d3)
    }

    /// The divider at this point of a period.
    #[inline]
    pub(super) fn reciprocal(&self, period_contrib: u32) -> Reciprocal {
        Reciprocal {
            divider: u64::from(self.divider(period_contrib)),
            reciprocal: self.reciprocals.get(period_contrib as usize).copied().unwrap_or(0),
            limit: if period_contrib < PERIOD_US { self.reciprocal_limit } else { 0 },
        }
    }
}

/// A power of y: shift right, then multiply by a 32-bit fraction.
#[derive(Clone, Copy)]
pub(super) struct Decay {
    shift: u32,
    inv: u32,
}

impl Decay {
    /// The power applied to `val`.
    #[inline]
    pub(super) fn of(self, val: u64) -> u64 {
        ((u128::from(val >> self.shift) * u128::from(self.inv)) >> 32) as u64
    }
}

/// A divider with its reciprocal.
#[derive(Clone, Copy)]
pub(super) struct Reciprocal {
    divider: u64,
    reciprocal: u64,
    limit: u64,
}

impl Reciprocal {
    /// `x / divider`, exactly.
    #[inline]
    pub(super) fn divide(self, x: u64) -> u64 {
        if x <= self.limit && self.limit != 0 {
            ((u128::from(x) * u128::from(self.reciprocal)) >> 64) as u64
        } else {
            x / self.divider
        }
    }
}

/// Where the sum of 1024 a period stops growing, and the number of the last period that grew it.
fn fixed_point(y_inv: u32) -> (u32, u32) {
    let (mut max, mut n) = (u64::from(PERIOD_US), 0);
    loop {
        let next = ((max * u64::from(y_inv)) >> 32) + u64::from(PERIOD_US);
        if next == max {
            return (max as u32, n - 1);
        }
        (max, n) = (next, n + 1);
    }
}

/// The generator's table of y^n, and y itself (which a half-life of 1 does not hold in its table).
///
/// The generator works in doubles: y = pow(0.5, 1 / half_life), entries trunc((2^32 - 1) * pow(y, n)). A C library's
/// pow() may differ between hosts in the last bit, so the same roundings are done here on integers.
fn powers_of_y(half_life: u32) -> (Vec<u32>, u32) {
    let y = round_to_double(half_to_the(half_life));
    let mut power = u128::MAX;
    let mut table = Vec::with_capacity(half_life as usize + 1);
    table.push(u32::MAX);
    for _ in 0..half_life {
        power = if power == u128::MAX { y } else { mul_high(power, y) };
        table.push(scale_to_u32(round_to_double(power)));
    }
    let y_inv = table[1];
    table.truncate(half_life as usize);
    (table, y_inv)
}

/// trunc((2^32 - 1) * x) as double arithmetic does it, for a 53-bit fraction `x` in units of 2^-128.
fn scale_to_u32(x: u128) -> u32 {
    // Powers of y are at least 1/2, so none of the 53 bits lies in what is shifted out here.
    let product = (x >> 32) * u128::from(u32::MAX);
    (round_to_double(product) >> 96) as u32
}

/// The nearest value with 53 significant bits, ties to even.
fn round_to_double(x: u128) -> u128 {
    let excess = (128 - x.leading_zeros()).saturating_sub(53);
    if excess == 0 {
        return x;
    }
    let (half, kept) = (1_u128 << (excess - 1), x >> excess);
    let rest = x - (kept << excess);
    let up = rest > half || (rest == half && kept & 1 == 1);
    (kept + u128::from(up)) << excess
}

/// 2^(-1 / n) in units of 2^-128: exp(-ln 2 / n) by its series.
fn half_to_the(n: u32) -> u128 {
    /// ln 2 in units of 2^-128.
    const LN_2: u128 = 0xb172_17f7_d1cf_79ab_c9e3_b398_03f2_f6af;
    let x = LN_2 / u128::from(n);
    // 1 - x + x^2/2 - ...: the leading 1 does not fit, its first subtraction wraps it away.
    let (mut sum, mut term) = (0_u128, x);
    for k in 2_u128.. {
        sum = if k % 2 == 0 { sum.wrapping_sub(term) } else { sum.wrapping_add(term) };
        term = mul_high(term, x) / k;
        if term == 0 {
            break;
        }
    }
    sum
}

/// The upper 128 bits of a 256-bit product.
fn mul_high(a: u128, b: u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let middle = a_high * b_low + ((a_low * b_low) >> 64);
    let middle_low = (middle & LOW) + a_low * b_high;
    a_high * b_high + (middle >> 64) + (middle_low >> 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every divider of the kernel's half-life, at the multiples around which a wrong reciprocal shows first: the
    /// largest allowed ones. The error of `x * M` grows with x and only matters just below a multiple, so what holds
    /// there holds for all smaller x of the same remainder.
    #[test]
    fn reciprocals_are_exact_up_to_their_limit() {
        for half_life in [1, 8, 16, 32, 64, 1000, MAX_HALF_LIFE] {
            let table = PeltTable::new(half_life).expect("a valid half-life");
            for period_contrib in 0..PERIOD_US {
                let divider = u64::from(table.divider(period_contrib));
                let reciprocal = u128::from(table.reciprocals[period_contrib as usize]);
                // The condition of the proof in `new`: excess * x < 2^64 for every allowed x.
                let excess = reciprocal * u128::from(divider) - (1 << 64);
                assert!(excess * u128::from(table.reciprocal_limit) < 1 << 64);
                let top = table.reciprocal_limit / divider * divider;
                for x in [0, 1, divider - 1, divider, top - 1, top, table.reciprocal_limit] {
                    assert_eq!(table.div_by_divider(x, period_contrib), x / divider, "{x} / {divider}");
                }
            }
        }
    }

    #[test]
    fn the_kernels_half_life_needs_no_division_below_2_to_the_48() {
        let table = PeltTable::new(32).expect("the kernel's half-life");
        assert!(table.reciprocal_limit >= (1 << 48) - 1);
    }

    proptest! {
        #[test]
        fn division_is_exact_for_any_dividend(
            x in any::<u64>(),
            shift in 0_u32..64,
            half_life in 1..=MAX_HALF_LIFE,
            period_contrib in 0..PERIOD_US,
        ) {
            let table = PeltTable::new(half_life).expect("a valid half-life");
            let (x, divider) = (x >> shift, u64::from(table.divider(period_contrib)));
            prop_assert_eq!(table.div_by_divider(x, period_contrib), x / divider);
        }
    }

    /// The host's own double arithmetic agrees with the integers that stand for it.
    #[test]
    fn tables_are_the_generators() {
        let mut differing = Vec::new();
        for half_life in 1..=MAX_HALF_LIFE {
            let table = PeltTable::new(half_life).expect("a valid half-life");
            let y = 0.5_f64.powf(1.0 / f64::from(half_life));
            for (n, &inv) in table.yn_inv.iter().enumerate() {
                let generated = (f64::from(u32::MAX) * y.powf(n as f64)) as u32;
                if inv != generated {
                    differing.push((half_life, n, inv, generated));
                }
            }
        }
        assert_eq!(differing, []);
    }

    #[test]
    fn half_lives_out_of_range_are_refused() {
        for half_life in [0, MAX_HALF_LIFE + 1, u32::MAX] {
            let error = PeltTable::new(half_life).expect_err("out of range");
            let SimError::Invalid { argument, value, .. } = error else { panic!("{error:?}") };
            assert_eq!((argument.as_str(), value), ("half_life_ms", half_life.to_string()));
        }
    }

    /// No half-life lets a contribution wrap below zero, whatever the rounding.
    #[test]
    fn whole_periods_never_contribute_less_than_nothing() {
        for half_life in 1..=MAX_HALF_LIFE {
            let table = PeltTable::new(half_life).expect("a valid half-life");
            for periods in (1..200).chain([u64::from(half_life) * 63, u64::from(half_life) * 63 + 1]) {
                let contrib = table.accumulate_pelt_segments(periods, 0, 0);
                assert!(contrib <= table.load_avg_max - PERIOD_US, "{half_life} {periods}: {contrib}");
            }
        }
    }
}
