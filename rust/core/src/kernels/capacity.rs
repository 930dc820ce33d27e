//! Whether a task fits a CPU, and what a tick makes of CPUs that differ: misfits, and CPUs that are preferred.
//!
//! kernel/sched/fair.c, task_fits_capacity(), util_fits_cpu(), update_misfit_status(), nohz_balancer_kick().

use super::env::LbView;
use super::v5_4::fits_capacity;
use super::{Capacity, Kernel};
use crate::slot;
use crate::topology::{SchedDomain, SdFlags};

/// What a CPU can do at most, and what a task can ask for at most (`SCHED_CAPACITY_SCALE`).
const SCHED_CAPACITY_SCALE: u64 = 1024;

/// Bounds of the utilization that a task is taken to have (`uclamp_eff_value()`), 0 to 1024.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clamp {
    /// It is served as if it needed at least so much (UCLAMP_MIN).
    pub min: u64,
    /// It is served as if it needed at most so much (UCLAMP_MAX).
    pub max: u64,
}

impl Default for Clamp {
    /// No bounds.
    fn default() -> Self {
        Self { min: 0, max: SCHED_CAPACITY_SCALE }
    }
}

/// What a task needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// `task_util_est()`.
    pub util: u64,
    /// Its bounds.
    pub clamp: Clamp,
}

/// What a CPU has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// `capacity_of()`: what is left for fair tasks.
    pub capacity: u64,
    /// `arch_scale_cpu_capacity()`.
    pub capacity_orig: u64,
}

/// An answer of `util_fits_cpu()`, the better the larger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fit {
    /// The CPU is too small.
    No,
    /// It would do, but for the lower bound (-1 in the kernel).
    ButForMin,
    /// It fits.
    Yes,
}

impl Fit {
    fn of(fits: bool) -> Self {
        if fits { Self::Yes } else { Self::No }
    }
}

/// What `update_misfit_status()` reads of a CPU and the fair task that runs on it.
#[derive(Clone, Copy)]
pub struct MisfitEnv<'a> {
    /// The table of slots.
    pub kernel: &'a Kernel,
    /// What the task needs.
    pub demand: Demand,
    /// What the CPU has.
    pub room: Room,
    /// `task_h_load()` of the task.
    pub load: u64,
    /// The task may use one CPU only.
    pub pinned: bool,
    /// The largest capacity of a CPU that the task may use (`max_allowed_capacity`).
    pub max_allowed_capacity: u64,
}

impl MisfitEnv<'_> {
    fn fits(&self) -> bool {
        (self.kernel.capacity.util_fits_cpu.f)(self.demand, self.room) == Fit::Yes
    }
}

/// The slots of v5.4.
pub const V5_4: Capacity = Capacity {
    util_fits_cpu: slot!(fits_by_util, "A task fits where a fifth of the capacity is left beside it."),
    update_misfit_status: slot!(
        misfit_that_is_too_big,
        "A running task that does not fit its CPU counts there with its load."
    ),
    nohz_kick_asym: slot!(
        kicks_for_preferred,
        "Under asym packing a tickless CPU that outranks the busy one is reason to balance."
    ),
};

/// The slots of v5.7.
pub const V5_7: Capacity = Capacity {
    util_fits_cpu: slot!(
        fits_by_clamped_util,
        "A task's utilization is clamped before it is compared (uclamp)."
    ),
    update_misfit_status: slot!(misfit_of_some_load, "A misfit counts with a load of at least 1."),
    ..V5_4
};

/// The slots of v6.12.
pub const V6_12: Capacity = Capacity {
    util_fits_cpu: slot!(
        util_fits_cpu,
        "A cap within the CPU's capacity makes a task fit; a boost beyond it does not keep it out, but fits less."
    ),
    update_misfit_status: slot!(
        misfit_that_can_go_up,
        "A task that may use no bigger CPU, or one CPU only, is no misfit."
    ),
    nohz_kick_asym: slot!(
        kicks_for_preferred_core,
        "A preferred CPU counts only where its whole core is idle, or the domain is a core."
    ),
};

/// kernel/sched/fair.c, v5.4, task_fits_capacity(): there is a fifth of room left.
fn fits_by_util(demand: Demand, room: Room) -> Fit {
    Fit::of(fits_capacity(demand.util, room.capacity))
}

/// kernel/sched/fair.c, v5.7, task_fits_capacity() of uclamp_task_util().
fn fits_by_clamped_util(demand: Demand, room: Room) -> Fit {
    let Clamp { min, max } = demand.clamp;
    // clamp() of a lower bound above the upper one answers the upper one.
    Fit::of(fits_capacity(demand.util.max(min).min(max), room.capacity))
}

/// kernel/sched/fair.c, v6.12, util_fits_cpu().
fn util_fits_cpu(demand: Demand, room: Room) -> Fit {
    let Clamp { min, max } = demand.clamp;
    let capped_to_fit = max <= room.capacity_orig
        && !(room.capacity_orig == SCHED_CAPACITY_SCALE && max == SCHED_CAPACITY_SCALE);
    let fits = fits_capacity(demand.util, room.capacity) || capped_to_fit;
    let min = min.min(max);
    if fits && demand.util < min && min > room.capacity_orig { Fit::ButForMin } else { Fit::of(fits) }
}

/// kernel/sched/fair.c, v5.4, update_misfit_status(): the load of a task that does not fit its CPU, else 0.
fn misfit_that_is_too_big(env: &MisfitEnv<'_>) -> u64 {
    if env.fits() { 0 } else { env.load }
}

/// kernel/sched/fair.c, v5.7.14, update_misfit_status().
fn misfit_of_some_load(env: &MisfitEnv<'_>) -> u64 {
    if env.fits() { 0 } else { env.load.max(1) }
}

/// kernel/sched/fair.c, v6.12, update_misfit_status().
fn misfit_that_can_go_up(env: &MisfitEnv<'_>) -> u64 {
    if env.pinned || env.room.capacity_orig == env.max_allowed_capacity {
        return 0;
    }
    misfit_of_some_load(env)
}

/// kernel/sched/fair.c, v5.4, nohz_balancer_kick(): whether the idle CPU is preferred to the busy one.
fn kicks_for_preferred(view: &LbView<'_>, _sd: &SchedDomain, idle_cpu: usize, busy_cpu: usize) -> bool {
    view.rqs.asym_prio[idle_cpu] > view.rqs.asym_prio[busy_cpu]
}

/// kernel/sched/fair.c, v6.12, nohz_balancer_kick() with sched_asym().
fn kicks_for_preferred_core(view: &LbView<'_>, sd: &SchedDomain, idle_cpu: usize, busy_cpu: usize) -> bool {
    let counts = !view.system.smt_active
        || sd.flags.has(SdFlags::SHARE_CPUCAPACITY)
        || view.rqs.is_core_idle(idle_cpu);
    counts && kicks_for_preferred(view, sd, idle_cpu, busy_cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: Room = Room { capacity: 1024, capacity_orig: 1024 };
    const LITTLE: Room = Room { capacity: 446, capacity_orig: 446 };

    fn demand(util: u64, min: u64, max: u64) -> Demand {
        Demand { util, clamp: Clamp { min, max } }
    }

    #[test]
    fn a_fifth_of_the_capacity_must_be_left() {
        for f in [fits_by_util, fits_by_clamped_util, util_fits_cpu] {
            // 446 * 1024 / 1280 = 356.8.
            assert_eq!(f(demand(356, 0, 1024), LITTLE), Fit::Yes);
            assert_eq!(f(demand(357, 0, 1024), LITTLE), Fit::No);
            assert_eq!(f(demand(819, 0, 1024), BIG), Fit::Yes);
            assert_eq!(f(demand(820, 0, 1024), BIG), Fit::No);
        }
    }

    #[test]
    fn bounds_are_read_as_each_generation_reads_them() {
        // A boost keeps a small task off a small CPU, and off any CPU at full scale in v5.7.
        assert_eq!(fits_by_util(demand(10, 1024, 1024), LITTLE), Fit::Yes);
        assert_eq!(fits_by_clamped_util(demand(10, 1024, 1024), LITTLE), Fit::No);
        assert_eq!(fits_by_clamped_util(demand(10, 1024, 1024), BIG), Fit::No);
        assert_eq!(util_fits_cpu(demand(10, 1024, 1024), LITTLE), Fit::ButForMin);
        assert_eq!(util_fits_cpu(demand(10, 1024, 1024), BIG), Fit::Yes);
        // A cap within the small CPU makes a big task fit it; v5.7 still wants a fifth of room.
        assert_eq!(util_fits_cpu(demand(1000, 0, 446), LITTLE), Fit::Yes);
        assert_eq!(util_fits_cpu(demand(1000, 0, 447), LITTLE), Fit::No);
        assert_eq!(fits_by_clamped_util(demand(1000, 0, 356), LITTLE), Fit::Yes);
        assert_eq!(fits_by_clamped_util(demand(1000, 0, 446), LITTLE), Fit::No);
        // Where nothing is capped, a full CPU is not declared to fit.
        assert_eq!(util_fits_cpu(demand(1000, 0, 1024), BIG), Fit::No);
    }

    #[test]
    fn who_can_go_to_no_bigger_cpu_is_no_misfit_in_v6_12() {
        let misfit = |kernel: &Kernel, pinned, max_allowed_capacity, load| {
            let env = MisfitEnv {
                kernel,
                demand: demand(400, 0, 1024),
                room: LITTLE,
                load,
                pinned,
                max_allowed_capacity,
            };
            (kernel.capacity.update_misfit_status.f)(&env)
        };
        let (v5_4, v5_7, v6_12) =
            (&super::super::v5_4::KERNEL, &super::super::v5_7::KERNEL, &super::super::v6_12::KERNEL);
        assert_eq!([v5_4, v5_7, v6_12].map(|kernel| misfit(kernel, false, 1024, 700)), [700, 700, 700]);
        assert_eq!([v5_4, v5_7, v6_12].map(|kernel| misfit(kernel, false, 1024, 0)), [0, 1, 1]);
        assert_eq!([v5_4, v5_7, v6_12].map(|kernel| misfit(kernel, true, 1024, 700)), [700, 700, 0]);
        assert_eq!([v5_4, v5_7, v6_12].map(|kernel| misfit(kernel, false, 446, 700)), [700, 700, 0]);
    }
}
