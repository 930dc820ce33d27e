//! The system load average of /proc/loadavg.

/// Bits of the load average's fixed point (`FSHIFT`).
pub const FSHIFT: u32 = 11;

/// 1.0 in that fixed point (`FIXED_1`).
pub const FIXED_1: u64 = 1 << FSHIFT;

/// Decay of the 1-minute average in 5 s (`EXP_1`).
pub const EXP_1: u64 = 1884;

/// Decay of the 5-minute average in 5 s (`EXP_5`).
pub const EXP_5: u64 = 2014;

/// Decay of the 15-minute average in 5 s (`EXP_15`).
pub const EXP_15: u64 = 2037;

/// include/linux/sched/loadavg.h, v5.4 and later, calc_load(): one step of a load average.
///
/// `load` is the old average and `active` the number of active tasks, both times [`FIXED_1`]; `exp` is the decay, at most
/// [`FIXED_1`].
#[inline]
pub fn calc_load(load: u64, exp: u64, active: u64) -> u64 {
    let mut new_load = load.wrapping_mul(exp).wrapping_add(active.wrapping_mul(FIXED_1.wrapping_sub(exp)));
    // Round up while rising, so that the average can reach what is active.
    if active >= load {
        new_load = new_load.wrapping_add(FIXED_1 - 1);
    }
    new_load >> FSHIFT
}
