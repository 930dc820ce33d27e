//! Machines and the sched domains that a kernel builds on them.
//!
//! `spec` describes a machine; `domains` builds the domain tree of one kernel generation from it.
//! Everything here is fixed before a run starts: what changes while a run goes on lives in `sim`.

pub mod describe;
pub mod domains;
mod levels;
pub mod o1;
pub mod rules;
mod spans;
pub mod spec;

pub use domains::build_sched_domains;
pub use rules::{AsymCapacity, DomainRules};
pub use spec::MachineSpec;

use crate::cpumask::CpuMask;

/// A set of `SD_*` flags of a domain or a group (include/linux/sched/sd_flags.h).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct SdFlags(pub u32);

impl SdFlags {
    /// Balance when about to go idle.
    pub const BALANCE_NEWIDLE: Self = Self(1 << 0);
    /// Balance on exec.
    pub const BALANCE_EXEC: Self = Self(1 << 1);
    /// Balance on fork and clone.
    pub const BALANCE_FORK: Self = Self(1 << 2);
    /// Balance on wake-up (slow path).
    pub const BALANCE_WAKE: Self = Self(1 << 3);
    /// Consider the waker's CPU for a wakee.
    pub const WAKE_AFFINE: Self = Self(1 << 4);
    /// The CPUs have different capacities.
    pub const ASYM_CPUCAPACITY: Self = Self(1 << 5);
    /// The domain holds every capacity that the machine has.
    pub const ASYM_CPUCAPACITY_FULL: Self = Self(1 << 6);
    /// The CPUs are hardware threads of one core.
    pub const SHARE_CPUCAPACITY: Self = Self(1 << 7);
    /// The CPUs share an L2 or a tag of it (6.6).
    pub const CLUSTER: Self = Self(1 << 8);
    /// The CPUs share the last-level cache (`SD_SHARE_PKG_RESOURCES` up to 6.6).
    pub const SHARE_LLC: Self = Self(1 << 9);
    /// Only one balance pass at a time in the whole machine.
    pub const SERIALIZE: Self = Self(1 << 10);
    /// Busy CPUs are packed on the preferred ones.
    pub const ASYM_PACKING: Self = Self(1 << 11);
    /// Tasks spread among sibling domains.
    pub const PREFER_SIBLING: Self = Self(1 << 12);
    /// Groups may share CPUs.
    pub const OVERLAP: Self = Self(1 << 13);
    /// The domain spans NUMA nodes.
    pub const NUMA: Self = Self(1 << 14);
    /// A wakee looks for an idle CPU (before CFS).
    pub const WAKE_IDLE: Self = Self(1 << 15);
    /// A wakee goes to a less loaded waker's CPU (before CFS).
    pub const WAKE_BALANCE: Self = Self(1 << 16);

    /// Whether any flag of `other` is set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set less `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// One sched group, shared by the domains of all CPUs in whose ring it stands (`struct sched_group`).
#[derive(Clone, Debug)]
pub struct SchedGroup {
    /// CPU that owns the group's capacity object (`id` in the kernel's log).
    pub id: usize,
    /// The CPUs of the group.
    pub span: CpuMask,
    /// `span` as ascending, disjoint, half-open runs: sums over a group walk these.
    pub runs: Vec<(usize, usize)>,
    /// Number of CPUs in `span` (`group_weight`).
    pub weight: u32,
    /// CPUs that may balance on behalf of the group (`group_balance_mask`).
    pub balance_mask: CpuMask,
    /// Index of the shared capacity object; the imbalance flag belongs to it (`struct sched_group_capacity`).
    pub sgc: usize,
    /// Sum of the CPUs' capacities, 1024 = one biggest CPU.
    pub capacity: u64,
    /// Smallest capacity of a CPU in the group.
    pub min_capacity: u64,
    /// Largest capacity of a CPU in the group.
    pub max_capacity: u64,
    /// Flags of the child domain that the group stands for (`group->flags`, 5.14).
    pub flags: SdFlags,
    /// Number of cores in the group (6.6).
    pub cores: u32,
    /// The CPU of highest asym-packing priority.
    pub asym_prefer_cpu: usize,
}

/// One level of one CPU's domain hierarchy (`struct sched_domain`), after degenerate levels were removed.
#[derive(Clone, Debug)]
pub struct SchedDomain {
    /// The kernel's name of the level: `SMT`, `CLS`, `MC`, `DIE`, `PKG`, `NODE`, `NUMA`; before CFS
    /// `SMT`, `CPU`, `NODE`, `ALLNODES`.
    pub name: &'static str,
    /// CPUs of the domain.
    pub span: CpuMask,
    /// Number of CPUs in `span`.
    pub span_weight: u32,
    /// The domain's flags.
    pub flags: SdFlags,
    /// Flags of the child domain; empty for the lowest.
    pub child_flags: SdFlags,
    /// Whether there is no parent.
    pub is_root: bool,
    /// How much busier, in per cent, a group must be to be pulled from.
    pub imbalance_pct: u32,
    /// Multiplier of the interval while the CPU is busy.
    pub busy_factor: u32,
    /// Failed balances to tolerate before cache-hot tasks move.
    pub cache_nice_tries: u32,
    /// Shortest balance interval, ms.
    pub min_interval_ms: u64,
    /// Longest balance interval, ms.
    pub max_interval_ms: u64,
    /// NUMA imbalance allowed (5.18 and later); 0 where unused.
    pub imb_numa_nr: u32,
    /// Level number before degenerate levels were removed.
    pub level: u32,
    /// The ring of groups, as indices into [`SchedDomains::groups`]; the first is this CPU's own group.
    pub ring: Vec<usize>,
}

/// The domain hierarchies of all CPUs: what `build_sched_domains()` leaves behind.
#[derive(Clone, Debug)]
pub struct SchedDomains {
    /// Number of CPU slots, offline ones included.
    pub nr_cpus: usize,
    /// Per CPU its domains, lowest first; empty for offline and isolated CPUs.
    pub per_cpu: Vec<Vec<SchedDomain>>,
    /// All groups.
    pub groups: Vec<SchedGroup>,
    /// Number of capacity objects that [`SchedGroup::sgc`] refers to.
    pub nr_sgc: usize,
    /// Per CPU the index in `per_cpu[cpu]` of the highest domain that shares the LLC (`sd_llc`), if any.
    pub llc_level: Vec<Option<usize>>,
    /// Per CPU the lowest CPU of its LLC (`sd_llc_id`); the CPU itself without such a domain.
    pub llc_id: Vec<usize>,
    /// Per CPU the size of its LLC (`sd_llc_size`), 1 without such a domain.
    pub llc_size: Vec<u32>,
    /// Per CPU the online hardware threads of its core, itself included (`cpu_smt_mask`).
    pub smt_mask: Vec<CpuMask>,
    /// Per CPU the candidate levels that left no domain, lowest first.
    pub removed: Vec<Vec<RemovedLevel>>,
}

/// A candidate level that left no domain on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemovedLevel {
    /// The kernel's name of the level.
    pub name: &'static str,
    /// Its level number.
    pub level: u32,
    /// Number of CPUs that it would span; 0 if it was never built.
    pub span_weight: u32,
    /// Why it is not there.
    pub reason: RemovalReason,
}

/// Why a candidate level left no domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemovalReason {
    /// It holds this CPU only.
    OneCpu,
    /// A lower level, named here, has the same span.
    SameSpanAs(&'static str),
    /// It has one group, so there is nothing to balance.
    OneGroup,
    /// It was not built: the level named here already spans every CPU.
    AllCpusIn(&'static str),
}

impl std::fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OneCpu => write!(f, "one CPU only"),
            Self::SameSpanAs(child) => write!(f, "same span as {child}"),
            Self::OneGroup => write!(f, "one group only"),
            Self::AllCpusIn(child) => write!(f, "not built: {child} already spans every CPU"),
        }
    }
}
