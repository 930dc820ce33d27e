//! ni-random: newidle balance at a level runs by chance, as often as it has been worth it.
//!
//! Peter Zijlstra, "sched/fair: Proportional newidle balance", as the stable series 6.12.y has it (feature
//! `NI_RANDOM`). A CPU about to go idle throws a die of 1024 sides before it balances a level, and leaves the
//! level out unless the number is at most 1 + the successes in its last 1024 attempts. A success counts the
//! more, the rarer attempts are, so that the share of successes is that of all attempts. Expect fewer newidle
//! passes where they find nothing, and tasks that wait a little longer because a CPU went idle without looking.

use super::super::{Balance, Kernel, v6_12};
use crate::slot;

/// Where the patch was published.
pub const SOURCE: &str = "Peter Zijlstra, sched/fair: Proportional newidle balance, as in Linux 6.12.117";

/// What it changes.
pub const SUMMARY: &str = "Newidle balance at a level runs by chance, in proportion to its past success.";

/// v6.12 with the patch.
pub const KERNEL: Kernel = Kernel {
    name: "v6.12+ni-random",
    source: SOURCE,
    summary: SUMMARY,
    balance: Balance {
        newidle_weight: slot!(
            newidle_weight,
            "A level is tried by chance, as often as it has been worth it."
        ),
        ..v6_12::KERNEL.balance
    },
    ..v6_12::KERNEL
};

/// kernel/sched/fair.c, v6.12.117, sched_balance_newidle(), the part for NI_RANDOM.
fn newidle_weight(newidle_ratio: u32, roll: u32) -> Option<u32> {
    let chance = 1 + newidle_ratio;
    // Each attempt stands for so many, rounded.
    (roll <= chance).then(|| (1024 + chance / 2) / chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_tried_as_often_as_it_succeeds_and_a_success_counts_for_the_attempts_left_out() {
        let tried = |ratio| (0..1024).filter(|&roll| newidle_weight(ratio, roll).is_some()).count();
        // Never quite given up.
        assert_eq!([0, 1, 511, 1022, 1024].map(tried), [2, 3, 513, 1024, 1024]);
        assert_eq!([0, 1, 511, 1023].map(|ratio| newidle_weight(ratio, 0)), [1024, 512, 2, 1].map(Some));
        let always = (0..1024).all(|roll| (v6_12::KERNEL.balance.newidle_weight.f)(0, roll) == Some(1));
        assert!(always, "without the patch no level is left out");
    }
}
