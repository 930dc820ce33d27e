//! sysctls, debugfs switches and build options that decisions read, with the kernel's defaults.

use serde::{Deserialize, Serialize};

use crate::error::{Result, SimError};
use crate::kernels::numa::faults::ScanTunables;
use crate::kernels::unknown;

/// Declares [`TunableSettings`] and the table of its names that callers show.
macro_rules! tunables {
    ($( $(#[doc = $doc:literal])+ $name:ident: $kind:ty, )+) => {
        /// `/proc/sys/kernel/sched_*` and the build options beside them, as set: `None` = the kernel's default.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct TunableSettings {
            $( $(#[doc = $doc])+ pub $name: Option<$kind>, )+
        }

        impl TunableSettings {
            /// Names with descriptions.
            pub const TABLE: &'static [(&'static str, &'static str)] =
                &[ $( (stringify!($name), concat!($($doc),+)), )+ ];
        }
    };
}

tunables! {
    /// CONFIG_HZ: 100, 250, 300 or 1000.
    hz: i64,
    /// Half-life of PELT, in periods of 1024 us.
    pelt_half_life_ms: i64,
    /// `sched_latency_ns`; kernels whose queue is ordered by deadline have none.
    sched_latency_ns: i64,
    /// `sched_min_granularity_ns`; kernels whose queue is ordered by deadline have none.
    min_granularity_ns: i64,
    /// `sched_wakeup_granularity_ns`; kernels whose queue is ordered by deadline have none.
    wakeup_granularity_ns: i64,
    /// `sched_base_slice_ns`; only kernels whose queue is ordered by deadline have it.
    base_slice_ns: i64,
    /// `sched_migration_cost_ns`; -1 = tasks are always cache hot.
    migration_cost_ns: i64,
    /// `sched_nr_migrate`.
    nr_migrate: i64,
    /// CONFIG_PREEMPTION.
    preemption: bool,
    /// `sched_cfs_bandwidth_slice_us`: what a CPU takes at once from the quota of a group.
    cfs_bandwidth_slice_us: i64,
    /// `sched_autogroup_enabled`: the tasks of a session are a group.
    autogroup: bool,
    /// `kernel.numa_balancing`; it acts on tasks with memory, on machines with several nodes.
    numa_balancing: bool,
    /// `numa_balancing_scan_delay_ms`: how long a new process is left alone.
    numa_balancing_scan_delay_ms: i64,
    /// `numa_balancing_scan_period_min_ms`.
    numa_balancing_scan_period_min_ms: i64,
    /// `numa_balancing_scan_period_max_ms`.
    numa_balancing_scan_period_max_ms: i64,
    /// `numa_balancing_scan_size_mb`: memory marked in a pass.
    numa_balancing_scan_size_mb: i64,
}

/// The settings with every default filled in for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Ticks a second.
    pub hz: u32,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// Half-life of PELT.
    pub pelt_half_life_ms: u32,
    /// Period in which every entity runs once, ns.
    pub sched_latency_ns: u64,
    /// Shortest slice, ns.
    pub min_granularity_ns: u64,
    /// Lead that protects the running entity from a waking one, ns.
    pub wakeup_granularity_ns: u64,
    /// Slice of an entity that has none of its own, ns.
    pub base_slice_ns: u64,
    /// Entities that a latency is shared by before it is stretched.
    pub sched_nr_latency: u64,
    /// Time for which a task that ran counts as cache hot, ns; -1 = always.
    pub migration_cost_ns: i64,
    /// Most tasks looked at in one pull.
    pub nr_migrate: u32,
    /// CONFIG_PREEMPTION.
    pub preemption: bool,
    /// What a CPU takes at once from the quota of a group, ns.
    pub cfs_bandwidth_slice_ns: u64,
    /// The tasks of a session are a group.
    pub autogroup: bool,
    /// Whether NUMA balancing is on.
    pub numa_balancing: bool,
    /// Its scanner.
    pub numa_scan: ScanTunables,
}

/// Tick rates that the kernel can be built with.
const HZ_CHOICES: [i64; 4] = [100, 250, 300, 1000];

impl TunableSettings {
    /// Checks every value that is set.
    pub fn validate(&self) -> Result<()> {
        if let Some(hz) = self.hz.filter(|hz| !HZ_CHOICES.contains(hz)) {
            return Err(SimError::invalid("tunables.hz", hz, "is 100, 250, 300 or 1000"));
        }
        if let Some(half_life) = self.pelt_half_life_ms.filter(|ms| !(1..=1024).contains(ms)) {
            return Err(SimError::invalid("tunables.pelt_half_life_ms", half_life, "is 1 to 1024"));
        }
        for (name, value) in [
            ("sched_latency_ns", self.sched_latency_ns),
            ("min_granularity_ns", self.min_granularity_ns),
            ("wakeup_granularity_ns", self.wakeup_granularity_ns),
            ("base_slice_ns", self.base_slice_ns),
        ] {
            // The bounds of kernel/sysctl.c: 100 us (0 for the wake-up granularity) to 1 s. Those of the base slice, which
            // the kernel takes from debugfs unchecked, are the same here.
            let least = if name == "wakeup_granularity_ns" { 0 } else { 100_000 };
            if let Some(value) = value.filter(|value| !(least..=1_000_000_000).contains(value)) {
                return Err(SimError::invalid(
                    format!("tunables.{name}"),
                    value,
                    format!("is {least} to 1000000000 ns"),
                ));
            }
        }
        if let Some(cost) = self.migration_cost_ns.filter(|cost| !(-1..=1_000_000_000).contains(cost)) {
            return Err(SimError::invalid("tunables.migration_cost_ns", cost, "is -1 to 1000000000 ns"));
        }
        if let Some(nr) = self.nr_migrate.filter(|nr| !(1..=4096).contains(nr)) {
            return Err(SimError::invalid("tunables.nr_migrate", nr, "is 1 to 4096"));
        }
        if let Some(slice_us) = self.cfs_bandwidth_slice_us.filter(|us| !(1..=1_000_000).contains(us)) {
            return Err(SimError::invalid("tunables.cfs_bandwidth_slice_us", slice_us, "is 1 to 1000000 us"));
        }
        self.validate_numa()
    }

    fn validate_numa(&self) -> Result<()> {
        for (name, value, least, most) in [
            ("scan_delay_ms", self.numa_balancing_scan_delay_ms, 0, 3_600_000),
            ("scan_period_min_ms", self.numa_balancing_scan_period_min_ms, 1, 3_600_000),
            ("scan_period_max_ms", self.numa_balancing_scan_period_max_ms, 1, 3_600_000),
            ("scan_size_mb", self.numa_balancing_scan_size_mb, 1, 1 << 20),
        ] {
            if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
                let rule = format!("is {least} to {most}");
                return Err(SimError::invalid(format!("tunables.numa_balancing_{name}"), value, rule));
            }
        }
        Ok(())
    }

    /// kernel/sched/fair.c, v5.7, update_sysctl() and sched_proc_update_handler(): what is not set follows the number of
    /// CPUs by 1 + log2(CPUs), eight at most.
    pub fn resolve(&self, nr_online_cpus: usize) -> Tunables {
        let factor = 1 + u64::from(nr_online_cpus.clamp(1, 8).ilog2());
        // validate() has seen to it that what is set is positive and small.
        let set = |value: Option<i64>, default: u64| value.map_or(default, |value| value as u64);
        let hz = set(self.hz, 250) as u32;
        let sched_latency_ns = set(self.sched_latency_ns, 6_000_000 * factor);
        let min_granularity_ns = set(self.min_granularity_ns, 750_000 * factor);
        Tunables {
            hz,
            tick_ns: 1_000_000_000 / u64::from(hz),
            pelt_half_life_ms: set(self.pelt_half_life_ms, 32) as u32,
            sched_latency_ns,
            min_granularity_ns,
            wakeup_granularity_ns: set(self.wakeup_granularity_ns, 1_000_000 * factor),
            base_slice_ns: set(self.base_slice_ns, 750_000 * factor),
            sched_nr_latency: sched_latency_ns.div_ceil(min_granularity_ns),
            migration_cost_ns: self.migration_cost_ns.unwrap_or(500_000),
            nr_migrate: set(self.nr_migrate, 32) as u32,
            preemption: self.preemption.unwrap_or(true),
            cfs_bandwidth_slice_ns: set(self.cfs_bandwidth_slice_us, 5_000) * 1000,
            autogroup: self.autogroup.unwrap_or(false),
            numa_balancing: self.numa_balancing.unwrap_or(true),
            numa_scan: ScanTunables {
                delay_ms: set(self.numa_balancing_scan_delay_ms, 1000),
                period_min_ms: set(self.numa_balancing_scan_period_min_ms, 1000),
                period_max_ms: set(self.numa_balancing_scan_period_max_ms, 60_000),
                size_mib: set(self.numa_balancing_scan_size_mb, 256),
            },
        }
    }
}

/// Declares [`Features`] with the defaults of kernel/sched/features.h, and their setting by upstream name.
macro_rules! features {
    ($( $(#[doc = $doc:literal])+ $field:ident $name:literal: $default:literal, )+) => {
        /// Scheduler features (kernel/sched/features.h), each under its upstream name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Features {
            $( $(#[doc = $doc])+ pub $field: bool, )+
        }

        impl Default for Features {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl Features {
            /// Upstream names with defaults and descriptions.
            pub const TABLE: &'static [(&'static str, bool, &'static str)] =
                &[ $( ($name, $default, concat!($($doc),+)), )+ ];

            /// Switches the feature called `name`.
            pub fn set(&mut self, name: &str, on: bool) -> Result<()> {
                match name {
                    $( $name => self.$field = on, )+
                    _ => {
                        let names = Self::TABLE.iter().map(|&(name, ..)| name);
                        return Err(unknown("features", name, "must be a scheduler feature", names));
                    }
                }
                Ok(())
            }
        }
    };
}

features! {
    /// Sleepers get credit for half a latency only. Queues by virtual run time.
    gentle_fair_sleepers "GENTLE_FAIR_SLEEPERS": true,
    /// New tasks start one slice late. Queues by virtual run time.
    start_debit "START_DEBIT": true,
    /// A waking task is preferred at the next pick even if it does not preempt; a queue by deadline prefers it while it is
    /// eligible.
    next_buddy "NEXT_BUDDY": false,
    /// A task preempted by a wake-up is preferred at the next pick. Queues by virtual run time.
    last_buddy "LAST_BUDDY": true,
    /// A task enters a queue with the lag that it left one with. Queues by deadline, as all up to DELAY_ZERO.
    place_lag "PLACE_LAG": true,
    /// The first request of a new task is half as long.
    place_deadline_initial "PLACE_DEADLINE_INITIAL": true,
    /// A task that migrates keeps what is left until its deadline.
    place_rel_deadline "PLACE_REL_DEADLINE": true,
    /// The running task keeps the CPU for its slice while it is eligible.
    run_to_parity "RUN_TO_PARITY": true,
    /// A waking task of shorter slice takes that protection away.
    preempt_short "PREEMPT_SHORT": true,
    /// A task that falls asleep while it is not eligible stays queued until it is picked.
    delay_dequeue "DELAY_DEQUEUE": true,
    /// What it is owed when it then leaves, or wakes, is forgotten.
    delay_zero "DELAY_ZERO": true,
    /// Waking tasks may preempt.
    wakeup_preemption "WAKEUP_PREEMPTION": true,
    /// The search for an idle CPU is cut in proportion to the average idle time.
    sis_prop "SIS_PROP": true,
    /// The search for an idle CPU is cut by the utilization of the LLC (v6.12, instead of SIS_PROP).
    sis_util "SIS_UTIL": true,
    /// Utilization is estimated from the last activations.
    util_est "UTIL_EST": true,
    /// The estimate follows a rise at once.
    util_est_fastup "UTIL_EST_FASTUP": true,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_follow_the_number_of_cpus_up_to_eight() {
        let latency = |cpus| TunableSettings::default().resolve(cpus).sched_latency_ns;
        assert_eq!([1, 2, 3, 4, 8, 224].map(latency), [6, 12, 12, 18, 24, 24].map(|ms| ms * 1_000_000));
        let tunables = TunableSettings::default().resolve(8);
        assert_eq!((tunables.min_granularity_ns, tunables.wakeup_granularity_ns), (3_000_000, 4_000_000));
        assert_eq!(tunables.sched_nr_latency, 8);
        assert_eq!(tunables.base_slice_ns, 3_000_000);
    }

    #[test]
    fn settings_out_of_range_name_argument_value_and_rule() {
        let error =
            TunableSettings { pelt_half_life_ms: Some(0), ..Default::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "tunables.pelt_half_life_ms = 0: is 1 to 1024");
        let error = TunableSettings { hz: Some(999), ..Default::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "tunables.hz = 999: is 100, 250, 300 or 1000");
        assert!(
            Features::default()
                .set("GENTLE_SLEEPERS", true)
                .unwrap_err()
                .to_string()
                .contains("GENTLE_FAIR_SLEEPERS")
        );
    }
}
