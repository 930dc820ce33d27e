//! What differs between kernel generations when they build sched domains: one const a generation.

use super::SdFlags;
use crate::error::{Result, SimError};

/// How one kernel generation builds domains: the parameters that its sources fix.
#[derive(Clone, Copy, Debug)]
pub struct DomainRules {
    /// Oldest kernel that the rules describe.
    pub kernel: &'static str,
    /// Multiplier of the balance interval while a CPU is busy.
    pub busy_factor: u32,
    /// `imbalance_pct` of levels that share neither a core nor a last-level cache.
    pub imbalance_pct: u32,
    /// Name of the level that spans a NUMA node: `DIE`, later `PKG`.
    pub package_name: &'static str,
    /// x86 has a level of L2 sharers (`CLS`).
    pub cluster_level: bool,
    /// `CLS` carries [`SdFlags::CLUSTER`].
    pub cluster_flag: bool,
    /// SMT siblings carry [`SdFlags::ASYM_PACKING`] on x86 with preferred cores.
    pub asym_packing_smt: bool,
    /// There is no `SMT` candidate on a machine whose cores have one thread, or under `nosmt`.
    pub smt_level_only_with_threads: bool,
    /// Distances to nodes without CPUs count as NUMA levels.
    pub cpuless_distances: bool,
    /// On arm64, a cache that firmware does not describe makes the per-CPU L1 the last-level cache.
    pub undescribed_llc_is_l1: bool,
    /// Overlapping groups come from a descendant of a sibling that sticks out of the domain.
    pub descended_siblings: bool,
    /// A NUMA level over one group is as useless as any other: NUMA flags need groups.
    pub numa_flags_need_groups: bool,
    /// Overlapping levels carry [`SdFlags::OVERLAP`].
    pub overlap_flag: bool,
    /// Intervals follow the final span, not the level's mask before isolated CPUs are taken out.
    pub interval_of_span: bool,
    /// Domains rebuilt on CPU hot-unplug still count the dying CPU in their intervals.
    pub interval_counts_dying: bool,
    /// `relax_domain_level=R` stops newidle balance from level R on, not from R + 1 on.
    pub relax_level_inclusive: bool,
    /// Which levels of an asymmetric machine are marked.
    pub asym_capacity: AsymCapacity,
    /// An asymmetric level turns on [`SdFlags::BALANCE_WAKE`] in itself and in all levels below.
    pub asym_balance_wake: bool,
    /// Domains allow a NUMA imbalance (`imb_numa_nr`).
    pub numa_imbalance: bool,
    /// Printed name of [`SdFlags::SHARE_LLC`].
    pub share_llc_name: &'static str,
    /// The levels are those of the O(1) scheduler, with its parameters; nothing else here counts then.
    pub o1: bool,
}

/// Which levels a kernel marks with [`SdFlags::ASYM_CPUCAPACITY`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsymCapacity {
    /// Only the lowest level at which every CPU sees one of the highest capacity.
    OneLevel,
    /// That level and all above.
    LevelAndAbove,
    /// Each domain by the capacities in its own span.
    ByDomain,
}

impl DomainRules {
    /// v5.4 to v5.6.
    pub const V5_4: Self = Self {
        kernel: "v5.4",
        busy_factor: 32,
        imbalance_pct: 125,
        package_name: "DIE",
        cluster_level: false,
        cluster_flag: false,
        asym_packing_smt: true,
        smt_level_only_with_threads: false,
        cpuless_distances: true,
        undescribed_llc_is_l1: false,
        descended_siblings: false,
        numa_flags_need_groups: false,
        overlap_flag: true,
        interval_of_span: false,
        interval_counts_dying: false,
        relax_level_inclusive: false,
        asym_capacity: AsymCapacity::OneLevel,
        asym_balance_wake: true,
        numa_imbalance: false,
        share_llc_name: "SD_SHARE_PKG_RESOURCES",
        o1: false,
    };

    /// v2.6.15.
    pub const V2_6_15: Self = Self { kernel: "v2.6.15", o1: true, ..Self::V5_4 };

    /// v5.7: no wake-up balance on asymmetric machines any more.
    pub const V5_7: Self = Self { kernel: "v5.7", asym_balance_wake: false, ..Self::V5_4 };

    /// v5.10.
    pub const V5_10: Self = Self {
        kernel: "v5.10",
        busy_factor: 16,
        imbalance_pct: 117,
        numa_flags_need_groups: true,
        relax_level_inclusive: true,
        asym_capacity: AsymCapacity::LevelAndAbove,
        ..Self::V5_7
    };

    /// v6.1.
    pub const V6_1: Self = Self {
        kernel: "v6.1",
        cluster_level: true,
        cpuless_distances: false,
        undescribed_llc_is_l1: true,
        descended_siblings: true,
        asym_capacity: AsymCapacity::ByDomain,
        numa_imbalance: true,
        ..Self::V5_10
    };

    /// v6.12.
    pub const V6_12: Self = Self {
        kernel: "v6.12",
        package_name: "PKG",
        cluster_flag: true,
        asym_packing_smt: false,
        undescribed_llc_is_l1: false,
        interval_counts_dying: true,
        share_llc_name: "SD_SHARE_LLC",
        ..Self::V6_1
    };

    /// v7.3.
    pub const V7_3: Self = Self {
        kernel: "v7.3",
        smt_level_only_with_threads: true,
        overlap_flag: false,
        interval_of_span: true,
        interval_counts_dying: false,
        ..Self::V6_12
    };

    /// Kernel labels that [`DomainRules::for_kernel`] knows, with their rules.
    pub const KERNELS: [(&'static str, &'static Self); 9] = [
        ("v2.6.15", &Self::V2_6_15),
        ("v5.4", &Self::V5_4),
        ("v5.5", &Self::V5_4),
        ("v5.6", &Self::V5_4),
        ("v5.7", &Self::V5_7),
        ("v5.10", &Self::V5_10),
        ("v6.1", &Self::V6_1),
        ("v6.12", &Self::V6_12),
        ("v7.3", &Self::V7_3),
    ];

    /// The rules of the kernel with this label.
    pub fn for_kernel(label: &str) -> Result<&'static Self> {
        Self::KERNELS.iter().find(|(kernel, _)| *kernel == label).map(|&(_, rules)| rules).ok_or_else(|| {
            let known: Vec<_> = Self::KERNELS.iter().map(|(kernel, _)| *kernel).collect();
            SimError::invalid("kernel", format!("{label:?}"), format!("must be one of {}", known.join(", ")))
        })
    }

    /// The names of `flags` as this generation prints them, in the order of their bits.
    pub fn flag_names(&self, flags: SdFlags) -> Vec<&'static str> {
        FLAG_NAMES
            .iter()
            .filter(|(flag, _)| flags.has(*flag))
            .map(|&(flag, name)| if flag == SdFlags::SHARE_LLC { self.share_llc_name } else { name })
            .collect()
    }
}

const FLAG_NAMES: [(SdFlags, &str); 17] = [
    (SdFlags::BALANCE_NEWIDLE, "SD_BALANCE_NEWIDLE"),
    (SdFlags::BALANCE_EXEC, "SD_BALANCE_EXEC"),
    (SdFlags::BALANCE_FORK, "SD_BALANCE_FORK"),
    (SdFlags::BALANCE_WAKE, "SD_BALANCE_WAKE"),
    (SdFlags::WAKE_AFFINE, "SD_WAKE_AFFINE"),
    (SdFlags::ASYM_CPUCAPACITY, "SD_ASYM_CPUCAPACITY"),
    (SdFlags::ASYM_CPUCAPACITY_FULL, "SD_ASYM_CPUCAPACITY_FULL"),
    (SdFlags::SHARE_CPUCAPACITY, "SD_SHARE_CPUCAPACITY"),
    (SdFlags::CLUSTER, "SD_CLUSTER"),
    (SdFlags::SHARE_LLC, "SD_SHARE_LLC"),
    (SdFlags::SERIALIZE, "SD_SERIALIZE"),
    (SdFlags::ASYM_PACKING, "SD_ASYM_PACKING"),
    (SdFlags::PREFER_SIBLING, "SD_PREFER_SIBLING"),
    (SdFlags::OVERLAP, "SD_OVERLAP"),
    (SdFlags::NUMA, "SD_NUMA"),
    (SdFlags::WAKE_IDLE, "SD_WAKE_IDLE"),
    (SdFlags::WAKE_BALANCE, "SD_WAKE_BALANCE"),
];
