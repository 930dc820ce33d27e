//! Balance decisions from plain data: the same functions that a run calls, one at a time or over columns of cases.
//!
//! A case is what `sl.balance` and the vectors of `tests/vectors/balance` give: a domain, its groups and CPUs, or the
//! tasks of a queue. It is checked first, so that bad input is an error that names it. The short field names of the
//! vectors are aliases of the long ones.

pub mod columns;
pub mod numa;
pub mod o1;

use std::collections::VecDeque;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::kernels::Kernel;
use crate::kernels::capacity::Clamp;
use crate::kernels::env::{
    CpuIdleType, FbqType, GroupType, IdlestEnv, LbEnv, LbView, MigrationType, PlacedTask, RqStats, SgLbStats,
    SrcQueue, SystemState, TaskNuma, TaskRef, TaskScan, TaskView, WakeAffineEnv, WakeCpu, WakeTarget,
};
use crate::topology::{SchedDomain, SchedGroup, SdFlags};

/// Largest load that a case may give of a CPU or task: far above what a kernel can reach, and sums stay within 64 bits.
pub const MAX_LOAD: u64 = 1 << 30;
/// Largest utilization or capacity of a CPU or group that a case may give.
pub const MAX_CAPACITY: u64 = 1 << 24;
/// Largest number of tasks that a case may give for a CPU or group.
pub const MAX_TASKS: u64 = 1 << 16;
/// Largest `imbalance_pct` that a case may give.
pub const MAX_IMBALANCE_PCT: u64 = 10_000;
/// Largest number of CPUs that a case may have.
pub const MAX_CPUS: usize = 4096;

/// Largest number of groups that a case may have.
pub const MAX_GROUPS: u64 = 1024;

/// Parses a case from JSON.
pub fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T> {
    serde_json::from_str(json)
        .map_err(|error| SimError::invalid("case", json_excerpt(json), error.to_string()))
}

fn json_excerpt(json: &str) -> String {
    let mut excerpt: String = json.chars().take(60).collect();
    if excerpt.len() < json.len() {
        excerpt.push_str("...");
    }
    excerpt
}

// ---------------------------------------------------------------------------------------------------------------
// One balance pass over the groups of a domain

/// A case of `find_busiest_group`: the domain, its groups with the local one first, the CPUs.
#[derive(Clone, Debug, Deserialize)]
pub struct BusiestCase {
    /// Why the pass runs.
    #[serde(deserialize_with = "idle_type")]
    pub idle: CpuIdleType,
    /// CPU that pulls.
    #[serde(alias = "dst")]
    pub dst_cpu: usize,
    /// CPUs taken out of `env->cpus`.
    #[serde(default, alias = "excl")]
    pub excluded: Vec<usize>,
    /// The domain.
    pub sd: DomainCase,
    /// The groups, the one of `dst_cpu` first.
    #[serde(alias = "g")]
    pub groups: Vec<GroupCase>,
    /// The CPUs.
    #[serde(alias = "cpu")]
    pub cpus: CpusCase,
}

/// What a case says of a domain, and of the machine-wide switches.
#[derive(Clone, Debug, Deserialize)]
pub struct DomainCase {
    /// `imbalance_pct`.
    #[serde(alias = "pct")]
    pub imbalance_pct: u32,
    /// SD_NUMA.
    #[serde(default, deserialize_with = "flag")]
    pub numa: bool,
    /// SD_ASYM_CPUCAPACITY.
    #[serde(default, alias = "asymcap", deserialize_with = "flag")]
    pub asym_cpucapacity: bool,
    /// SD_ASYM_PACKING.
    #[serde(default, alias = "asympack", deserialize_with = "flag")]
    pub asym_packing: bool,
    /// SD_SHARE_CPUCAPACITY.
    #[serde(default, alias = "smt", deserialize_with = "flag")]
    pub share_cpucapacity: bool,
    /// The domain shares its last-level cache.
    #[serde(default, alias = "llc", deserialize_with = "flag")]
    pub share_llc: bool,
    /// The child domain has SD_PREFER_SIBLING.
    #[serde(default, alias = "child_prefer", deserialize_with = "flag")]
    pub prefer_sibling: bool,
    /// The domain has no parent.
    #[serde(default, deserialize_with = "flag")]
    pub root: bool,
    /// `nr_balance_failed`.
    #[serde(default, alias = "nbf")]
    pub nr_balance_failed: u32,
    /// `cache_nice_tries`.
    #[serde(default, alias = "cnt")]
    pub cache_nice_tries: u32,
    /// `imb_numa_nr` (5.18 and later).
    #[serde(default)]
    pub imb_numa_nr: u32,
    /// Hardware threads are in use somewhere.
    #[serde(default, deserialize_with = "flag")]
    pub smt_active: bool,
    /// Energy-aware scheduling is on.
    #[serde(default, alias = "eas", deserialize_with = "flag")]
    pub energy_aware: bool,
    /// The root domain has performance domains.
    #[serde(default, alias = "pd", deserialize_with = "flag")]
    pub perf_domains: bool,
    /// The root domain was over-utilised before the call.
    #[serde(default, alias = "overutil", deserialize_with = "flag")]
    pub overutilized: bool,
}

/// What a case says of a group.
#[derive(Clone, Debug, Deserialize)]
pub struct GroupCase {
    /// Its CPUs; or else `first_cpu` and `weight`.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Its lowest CPU, where the CPUs are consecutive.
    #[serde(default, alias = "c0")]
    pub first_cpu: usize,
    /// The number of its CPUs, where they are consecutive.
    #[serde(default, alias = "w")]
    pub weight: usize,
    /// Capacity; absent: the sum of its CPUs'.
    #[serde(default, alias = "cap")]
    pub capacity: Option<u64>,
    /// Smallest capacity of a CPU; absent: its CPUs'.
    #[serde(default, alias = "min")]
    pub min_capacity: Option<u64>,
    /// Largest capacity of a CPU; absent: its CPUs'.
    #[serde(default, alias = "max")]
    pub max_capacity: Option<u64>,
    /// Affinity stopped an earlier pull.
    #[serde(default, alias = "imb", deserialize_with = "flag")]
    pub imbalanced: bool,
    /// The CPU of highest asym-packing priority; absent: its lowest CPU.
    #[serde(default, alias = "apc")]
    pub asym_prefer_cpu: Option<usize>,
    /// SD_SHARE_CPUCAPACITY of the group: it is one core (v6.12).
    #[serde(default, alias = "smt", deserialize_with = "flag")]
    pub share_cpucapacity: bool,
    /// SD_PREFER_SIBLING of the group (v6.12).
    #[serde(default, alias = "psib", deserialize_with = "flag")]
    pub prefer_sibling: bool,
    /// Its cores (v6.12); absent: the cores of its CPUs.
    #[serde(default)]
    pub cores: Option<u32>,
}

/// What a case says of the CPUs: arrays over CPU numbers; an absent one is all zero, capacities all 1024.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CpusCase {
    /// Number of CPUs; 0: as many as `nr_running` has.
    pub n: usize,
    /// Runnable tasks of every class.
    #[serde(alias = "nr")]
    pub nr_running: Vec<u32>,
    /// Runnable fair tasks.
    #[serde(alias = "h")]
    pub h_nr_running: Vec<u32>,
    /// `cpu_load()`.
    pub load: Vec<u64>,
    /// load_avg with sleepers, where `load` is without (v5.4); absent: `load`.
    pub load_avg: Vec<u64>,
    /// `cpu_util()`.
    pub util: Vec<u64>,
    /// `cpu_runnable()`.
    #[serde(alias = "run")]
    pub runnable: Vec<u64>,
    /// `idle_cpu()`.
    #[serde(deserialize_with = "flags")]
    pub idle: Vec<bool>,
    /// `capacity_of()`.
    #[serde(alias = "cap")]
    pub capacity: Vec<u64>,
    /// `arch_scale_cpu_capacity()`.
    #[serde(alias = "capo")]
    pub capacity_orig: Vec<u64>,
    /// Load of a misfit task.
    #[serde(alias = "misfit")]
    pub misfit_task_load: Vec<u64>,
    /// Tasks with a preferred node.
    #[serde(alias = "nn")]
    pub nr_numa_running: Vec<u32>,
    /// Tasks on their preferred node.
    #[serde(alias = "np")]
    pub nr_preferred_running: Vec<u32>,
    /// Asym-packing priority.
    #[serde(alias = "prio")]
    pub asym_prio: Vec<i32>,
    /// Core number.
    pub core: Vec<u32>,
}

/// What a balance pass decides before it looks at tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BusiestOutcome {
    /// Statistics of each group.
    pub groups: Vec<GroupOutcome>,
    /// Position of the group to pull from; absent if the domain is balanced.
    pub busiest: Option<usize>,
    /// How much to move.
    pub imbalance: i64,
    /// What the imbalance counts; absent if the domain is balanced.
    pub migration_type: Option<&'static str>,
    /// Which queues may be pulled from: 0 regular, 1 remote, 2 all.
    pub fbq_type: u8,
    /// Class of the busiest group where the source is chosen by it (v5.4); `other` elsewhere.
    pub src_grp_type: &'static str,
    /// CPU to pull from.
    pub src_cpu: Option<usize>,
    /// Whether its running task would be pushed if no other moved; absent without `src_cpu`.
    pub active_balance: Option<bool>,
    /// CPUs that a wake-up may look at in the LLC from now on (SIS_UTIL); absent where the pass does not set it.
    pub nr_idle_scan: Option<u32>,
}

/// Statistics of a group, as a case shows them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupOutcome {
    /// The class.
    pub group_type: &'static str,
    /// Sum of load.
    pub group_load: u64,
    /// Sum of utilization.
    pub group_util: u64,
    /// Sum of runnable_avg.
    pub group_runnable: u64,
    /// Runnable tasks.
    pub sum_nr_running: u32,
    /// Runnable fair tasks.
    pub sum_h_nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// Load over capacity, where the kernel computed it.
    pub avg_load: u64,
    /// Largest misfit load.
    pub group_misfit_task_load: u64,
    /// Load of an average task; 0 where the kernel does not ask for it.
    pub load_per_task: u64,
}

impl From<&SgLbStats> for GroupOutcome {
    fn from(sgs: &SgLbStats) -> Self {
        Self {
            group_type: sgs.group_type.name(),
            group_load: sgs.group_load,
            group_util: sgs.group_util,
            group_runnable: sgs.group_runnable,
            sum_nr_running: sgs.sum_nr_running,
            sum_h_nr_running: sgs.sum_h_nr_running,
            idle_cpus: sgs.idle_cpus,
            avg_load: sgs.avg_load,
            group_misfit_task_load: sgs.group_misfit_task_load,
            load_per_task: sgs.load_per_task,
        }
    }
}

impl BusiestCase {
    /// Decides the case as `kernel` does.
    pub fn decide(&self, kernel: &Kernel) -> Result<BusiestOutcome> {
        let machine = CaseMachine::new(&self.sd, &self.groups, &self.cpus)?;
        let nr_cpus = machine.rqs.nr_running.len();
        check_member("dst_cpu", self.dst_cpu, &machine.groups[0].span)?;
        for &cpu in &self.excluded {
            check_cpu("excluded", cpu, nr_cpus)?;
        }
        let excluded = CpuMask::from_cpus(nr_cpus, self.excluded.iter().copied());
        let mut stats = Vec::with_capacity(self.groups.len());
        let nr_balance_failed = self.sd.nr_balance_failed;
        let view = machine.view(kernel);
        let mut env = LbEnv::new(view, &machine.sd, self.dst_cpu, self.idle, nr_balance_failed, &mut stats);
        env.excluded = Some(&excluded).filter(|excluded| !excluded.is_empty());
        env.llc_size = if self.sd.share_llc { machine.sd.span_weight } else { 0 };
        let busiest = (kernel.balance.find_busiest_group.f)(&mut env);
        let src_cpu = busiest.and_then(|index| (kernel.balance.find_busiest_queue.f)(&env, index));
        if let Some(cpu) = src_cpu {
            env.src_cpu = cpu;
        }
        Ok(BusiestOutcome {
            groups: env.stats.iter().map(GroupOutcome::from).collect(),
            busiest,
            imbalance: env.imbalance,
            migration_type: busiest.map(|_| env.migration_type.name()),
            fbq_type: match env.fbq_type {
                FbqType::Regular => 0,
                FbqType::Remote => 1,
                FbqType::All => 2,
            },
            src_grp_type: env.src_grp_type.name(),
            src_cpu,
            nr_idle_scan: env.nr_idle_scan,
            active_balance: src_cpu.map(|_| (kernel.balance.need_active_balance.f)(&env)),
        })
    }
}

/// The machine that a case describes.
struct CaseMachine {
    sd: SchedDomain,
    groups: Vec<SchedGroup>,
    sgc_imbalance: Vec<bool>,
    rqs: RqStats,
    system: SystemState,
    node_of: Vec<u32>,
}

impl CaseMachine {
    fn new(sd: &DomainCase, groups: &[GroupCase], cpus: &CpusCase) -> Result<Self> {
        check_range("domain.imbalance_pct", u64::from(sd.imbalance_pct), 100, MAX_IMBALANCE_PCT)?;
        let rqs = cpus.rq_stats()?;
        let nr_cpus = rqs.nr_running.len();
        check_range("number of groups", groups.len() as u64, 1, MAX_GROUPS)?;
        let mut node_of = vec![0; nr_cpus];
        let mut span = CpuMask::new(nr_cpus);
        let mut built = Vec::with_capacity(groups.len());
        for (index, group) in groups.iter().enumerate() {
            let group = group.build(index, &rqs)?;
            for cpu in group.span.iter().filter(|&cpu| !span.test(cpu)) {
                node_of[cpu] = index as u32;
            }
            span = span.or(&group.span);
            built.push(group);
        }
        let system = SystemState {
            smt_active: sd.smt_active,
            energy_aware: sd.energy_aware,
            perf_domains: sd.perf_domains,
            overutilized: sd.overutilized,
            ..SystemState::default()
        };
        let sgc_imbalance = groups.iter().map(|group| group.imbalanced).collect();
        Ok(Self { sd: sd.build(span, groups.len()), groups: built, sgc_imbalance, rqs, system, node_of })
    }

    fn view<'a>(&'a self, kernel: &'a Kernel) -> LbView<'a> {
        LbView {
            kernel,
            groups: &self.groups,
            sgc_imbalance: &self.sgc_imbalance,
            rqs: &self.rqs,
            system: &self.system,
            node_of: &self.node_of,
        }
    }
}

impl DomainCase {
    fn build(&self, span: CpuMask, nr_groups: usize) -> SchedDomain {
        let mut flags = SdFlags::default();
        for (is_set, flag) in [
            (self.numa, SdFlags::NUMA),
            (self.asym_cpucapacity, SdFlags::ASYM_CPUCAPACITY),
            (self.asym_packing, SdFlags::ASYM_PACKING),
            (self.share_cpucapacity, SdFlags::SHARE_CPUCAPACITY),
            (self.share_llc, SdFlags::SHARE_LLC),
        ] {
            if is_set {
                flags = flags.with(flag);
            }
        }
        SchedDomain {
            imbalance_pct: self.imbalance_pct,
            cache_nice_tries: self.cache_nice_tries,
            imb_numa_nr: self.imb_numa_nr,
            flags,
            child_flags: if self.prefer_sibling { SdFlags::PREFER_SIBLING } else { SdFlags::default() },
            is_root: self.root,
            ..plain_domain(span, nr_groups)
        }
    }
}

/// A domain of `nr_groups` groups without flags.
fn plain_domain(span: CpuMask, nr_groups: usize) -> SchedDomain {
    let span_weight = span.weight() as u32;
    SchedDomain {
        name: "CASE",
        span,
        span_weight,
        flags: SdFlags::default(),
        child_flags: SdFlags::default(),
        is_root: true,
        imbalance_pct: 117,
        busy_factor: 32,
        cache_nice_tries: 0,
        min_interval_ms: u64::from(span_weight),
        max_interval_ms: 2 * u64::from(span_weight),
        imb_numa_nr: 0,
        level: 0,
        ring: (0..nr_groups).collect(),
    }
}

impl GroupCase {
    fn build(&self, index: usize, rqs: &RqStats) -> Result<SchedGroup> {
        let nr_cpus = rqs.nr_running.len();
        let name = |field: &str| format!("groups[{index}].{field}");
        let cpus = if self.cpus.is_empty() {
            check_range(&name("weight"), self.weight as u64, 1, MAX_CPUS as u64)?;
            check_cpu(&name("first_cpu"), self.first_cpu, nr_cpus)?;
            (self.first_cpu..self.first_cpu + self.weight).collect()
        } else {
            self.cpus.clone()
        };
        for &cpu in &cpus {
            check_cpu(&name("cpus"), cpu, nr_cpus)?;
        }
        let span = CpuMask::from_cpus(nr_cpus, cpus);
        let capacities = || span.iter().map(|cpu| rqs.capacity[cpu]);
        let given = |field, value: Option<u64>| {
            value.map_or(Ok(None), |value| {
                check_range(&name(field), value, 1, MAX_CAPACITY).map(|()| Some(value))
            })
        };
        if let Some(cpu) = self.asym_prefer_cpu {
            check_cpu(&name("asym_prefer_cpu"), cpu, nr_cpus)?;
        }
        let group = group_of(index, span.clone());
        let cores = match self.cores {
            Some(cores) => {
                check_range(&name("cores"), u64::from(cores), 1, u64::from(group.weight))?;
                cores
            }
            // A core counts once: at the lowest of its CPUs in the group.
            None => span
                .iter()
                .filter(|&cpu| !rqs.siblings(cpu).any(|sibling| sibling < cpu && span.test(sibling)))
                .count() as u32,
        };
        let mut flags = SdFlags::default();
        for (is_set, flag) in [
            (self.share_cpucapacity, SdFlags::SHARE_CPUCAPACITY),
            (self.prefer_sibling, SdFlags::PREFER_SIBLING),
        ] {
            if is_set {
                flags = flags.with(flag);
            }
        }
        Ok(SchedGroup {
            capacity: given("capacity", self.capacity)?.unwrap_or_else(|| capacities().sum()),
            min_capacity: given("min_capacity", self.min_capacity)?
                .or_else(|| capacities().min())
                .unwrap_or(0),
            max_capacity: given("max_capacity", self.max_capacity)?
                .or_else(|| capacities().max())
                .unwrap_or(0),
            asym_prefer_cpu: self.asym_prefer_cpu.unwrap_or(group.id),
            flags,
            cores,
            ..group
        })
    }
}

/// The group at `index` of a ring: its CPUs, all of which may balance for it.
fn group_of(index: usize, span: CpuMask) -> SchedGroup {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for cpu in span.iter() {
        match runs.last_mut() {
            Some((_, end)) if *end == cpu => *end += 1,
            _ => runs.push((cpu, cpu + 1)),
        }
    }
    let weight = span.weight() as u32;
    let first = span.first().unwrap_or(0);
    SchedGroup {
        id: first,
        balance_mask: span.clone(),
        span,
        runs,
        weight,
        sgc: index,
        capacity: 1024 * u64::from(weight),
        min_capacity: 1024,
        max_capacity: 1024,
        flags: SdFlags::default(),
        cores: weight,
        asym_prefer_cpu: first,
    }
}

impl CpusCase {
    fn rq_stats(&self) -> Result<RqStats> {
        let n = if self.n == 0 { self.nr_running.len() } else { self.n };
        check_range("number of CPUs", n as u64, 1, MAX_CPUS as u64)?;
        let tasks = |name, column: &[u32]| {
            let column = filled(name, column, n, 0)?;
            check_column(name, column.iter().map(|&value| u64::from(value)), 0, MAX_TASKS)?;
            Ok::<_, SimError>(column)
        };
        let amounts = |name, column: &[u64], absent, least, most| {
            let column = filled(name, column, n, absent)?;
            check_column(name, column.iter().copied(), least, most)?;
            Ok::<_, SimError>(column)
        };
        let core = if self.core.is_empty() { None } else { Some(filled("cpus.core", &self.core, n, 0)?) };
        let load_avg = if self.load_avg.is_empty() { &self.load } else { &self.load_avg };
        let mut stats = RqStats {
            load: amounts("cpus.load", &self.load, 0, 0, MAX_LOAD)?,
            load_avg: amounts("cpus.load_avg", load_avg, 0, 0, MAX_LOAD)?,
            util: amounts("cpus.util", &self.util, 0, 0, MAX_CAPACITY)?,
            runnable: amounts("cpus.runnable", &self.runnable, 0, 0, MAX_LOAD)?,
            nr_running: tasks("cpus.nr_running", &self.nr_running)?,
            h_nr_running: tasks("cpus.h_nr_running", &self.h_nr_running)?,
            idle: filled("cpus.idle", &self.idle, n, false)?,
            capacity: amounts("cpus.capacity", &self.capacity, 1024, 1, MAX_CAPACITY)?,
            capacity_orig: amounts("cpus.capacity_orig", &self.capacity_orig, 1024, 1, MAX_CAPACITY)?,
            misfit_task_load: amounts("cpus.misfit_task_load", &self.misfit_task_load, 0, 0, MAX_LOAD)?,
            nr_numa_running: tasks("cpus.nr_numa_running", &self.nr_numa_running)?,
            nr_preferred_running: tasks("cpus.nr_preferred_running", &self.nr_preferred_running)?,
            asym_prio: filled("cpus.asym_prio", &self.asym_prio, n, 0)?,
            ..RqStats::new(n)
        };
        if let Some(core) = core {
            stats.set_cores(&core);
        }
        Ok(stats)
    }
}

/// The column, or `n` times `absent` if it is empty.
fn filled<T: Copy>(name: &str, column: &[T], n: usize, absent: T) -> Result<Vec<T>> {
    match column.len() {
        0 => Ok(vec![absent; n]),
        len if len == n => Ok(column.to_vec()),
        len => Err(SimError::invalid(
            name,
            format!("{len} values"),
            format!("must have one value for each of the {n} CPUs"),
        )),
    }
}

fn check_column(name: &str, column: impl Iterator<Item = u64>, least: u64, most: u64) -> Result<()> {
    column.enumerate().try_for_each(|(index, value)| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(out_of_range(&format!("{name}[{index}]"), value, least, most))
    })
}

fn check_range(name: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(out_of_range(name, value, least, most)) }
}

fn out_of_range(name: &str, value: impl std::fmt::Display, least: u64, most: u64) -> SimError {
    SimError::invalid(name, value, format!("must be between {least} and {most}"))
}

fn check_cpu(name: &str, cpu: usize, nr_cpus: usize) -> Result<()> {
    if cpu < nr_cpus {
        return Ok(());
    }
    Err(SimError::invalid(name, cpu, format!("must be a CPU, that is below {nr_cpus}")))
}

fn check_member(name: &str, cpu: usize, local: &CpuMask) -> Result<()> {
    if local.test(cpu) {
        return Ok(());
    }
    Err(SimError::invalid(name, cpu, format!("must be a CPU of the local group, {local:?}")))
}

// ---------------------------------------------------------------------------------------------------------------
// Which CPU balances

/// A case of `should_we_balance`.
#[derive(Clone, Debug, Deserialize)]
pub struct ShouldWeBalanceCase {
    /// Why the pass runs.
    #[serde(deserialize_with = "idle_type")]
    pub idle: CpuIdleType,
    /// CPU that asks.
    #[serde(alias = "dst")]
    pub dst_cpu: usize,
    /// The local group is CPUs 0 up to this.
    #[serde(alias = "w")]
    pub weight: usize,
    /// `idle_cpu()` of each CPU.
    #[serde(alias = "idle_cpu", deserialize_with = "flags")]
    pub idle_cpus: Vec<bool>,
    /// The group's balance mask.
    pub mask: Vec<usize>,
    /// CPUs of the group in `env->cpus`.
    pub cpus: Vec<usize>,
    /// The domain is the SMT level (SD_SHARE_CPUCAPACITY).
    #[serde(default, alias = "smt_dom", deserialize_with = "flag")]
    pub share_cpucapacity: bool,
    /// Core number of each CPU: the same = SMT siblings; absent: each CPU its own core.
    #[serde(default)]
    pub core: Vec<u32>,
    /// Runnable tasks of each CPU; absent: none. Newidle balance asks (v6.12).
    #[serde(default, alias = "nr")]
    pub nr_running: Vec<u32>,
    /// Woken tasks are on their way to `dst_cpu` (v6.12).
    #[serde(default, deserialize_with = "flag")]
    pub ttwu_pending: bool,
}

impl ShouldWeBalanceCase {
    /// Decides the case as `kernel` does.
    pub fn decide(&self, kernel: &Kernel) -> Result<bool> {
        let nr_cpus = self.idle_cpus.len();
        check_range("weight", self.weight as u64, 1, nr_cpus.min(MAX_CPUS) as u64)?;
        for (name, cpus) in [("mask", &self.mask), ("cpus", &self.cpus)] {
            cpus.iter().try_for_each(|&cpu| check_cpu(name, cpu, self.weight))?;
        }
        let span = CpuMask::from_cpus(nr_cpus, 0..self.weight);
        check_member("dst_cpu", self.dst_cpu, &span)?;
        let excluded = span.and_not(&CpuMask::from_cpus(nr_cpus, self.cpus.iter().copied()));
        let balance_mask = CpuMask::from_cpus(nr_cpus, self.mask.iter().copied());
        let mut rqs = RqStats {
            idle: self.idle_cpus.clone(),
            nr_running: filled("nr_running", &self.nr_running, nr_cpus, 0)?,
            ..RqStats::new(nr_cpus)
        };
        rqs.ttwu_pending[self.dst_cpu] = self.ttwu_pending;
        if !self.core.is_empty() {
            rqs.set_cores(&filled("core", &self.core, nr_cpus, 0)?);
        }
        let flags = if self.share_cpucapacity { SdFlags::SHARE_CPUCAPACITY } else { SdFlags::default() };
        let machine = CaseMachine {
            sd: SchedDomain { flags, ..plain_domain(span.clone(), 1) },
            groups: vec![SchedGroup { balance_mask, ..group_of(0, span) }],
            sgc_imbalance: vec![false],
            rqs,
            system: SystemState::default(),
            node_of: vec![0; nr_cpus],
        };
        let mut stats = Vec::new();
        let mut env = LbEnv::new(machine.view(kernel), &machine.sd, self.dst_cpu, self.idle, 0, &mut stats);
        env.excluded = Some(&excluded);
        Ok((kernel.balance.should_we_balance.f)(&env))
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Which tasks move

/// A case of `detach_tasks`.
#[derive(Clone, Debug, Deserialize)]
pub struct DetachCase {
    /// CONFIG_PREEMPTION.
    #[serde(default = "yes", alias = "preempt", deserialize_with = "flag")]
    pub preemption: bool,
    /// Why the pass runs.
    #[serde(deserialize_with = "idle_type")]
    pub idle: CpuIdleType,
    /// What the imbalance counts; absent: load.
    #[serde(default = "load", alias = "mig", deserialize_with = "migration_type")]
    pub migration_type: MigrationType,
    /// How much to move.
    #[serde(alias = "imb")]
    pub imbalance: i64,
    /// The domain.
    pub sd: DetachDomain,
    /// Where tasks are pulled from.
    pub src: DetachSource,
    /// Where they go.
    pub dst: DetachDestination,
    /// Most tasks to look at.
    pub loop_max: u32,
    /// `sysctl_sched_migration_cost`, ns.
    #[serde(alias = "mig_cost")]
    pub migration_cost_ns: i64,
    /// The pass is an active balance (`LBF_ACTIVE_LB`, v6.12).
    #[serde(default, deserialize_with = "flag")]
    pub active_lb: bool,
    /// NUMA balancing is on.
    #[serde(default, alias = "numa_bal", deserialize_with = "flag")]
    pub numa_balancing: bool,
    /// The tasks in the order in which they are looked at: the tail of the list first.
    pub tasks: Vec<DetachTask>,
}

/// The domain of a [`DetachCase`].
#[derive(Clone, Debug, Deserialize)]
pub struct DetachDomain {
    /// SD_NUMA.
    #[serde(default, deserialize_with = "flag")]
    pub numa: bool,
    /// SD_SHARE_CPUCAPACITY (v6.12).
    #[serde(default, alias = "smt", deserialize_with = "flag")]
    pub share_cpucapacity: bool,
    /// `nr_balance_failed`.
    #[serde(default, alias = "nbf")]
    pub nr_balance_failed: u32,
    /// `cache_nice_tries`.
    #[serde(default, alias = "cnt")]
    pub cache_nice_tries: u32,
}

/// The source of a [`DetachCase`].
#[derive(Clone, Debug, Deserialize)]
pub struct DetachSource {
    /// The CPU.
    pub cpu: usize,
    /// Its node.
    #[serde(default)]
    pub node: u32,
    /// Runnable tasks of every class.
    #[serde(alias = "nr")]
    pub nr_running: u32,
    /// Tasks that prefer its node.
    #[serde(default, alias = "npref")]
    pub nr_preferred_running: u32,
    /// Its capacity.
    #[serde(alias = "cap")]
    pub capacity: u64,
}

/// The destination of a [`DetachCase`]: a CPU of a group that is CPUs 0 up to `group_weight`.
#[derive(Clone, Debug, Deserialize)]
pub struct DetachDestination {
    /// The CPU.
    pub cpu: usize,
    /// Its node.
    #[serde(default)]
    pub node: u32,
    /// Runnable tasks of every class.
    #[serde(default, alias = "nr")]
    pub nr_running: u32,
    /// CPUs of its group.
    #[serde(alias = "grp_w")]
    pub group_weight: usize,
    /// It is still in `env->cpus`.
    #[serde(default = "yes", deserialize_with = "flag")]
    pub in_cpus: bool,
}

/// A task of a [`DetachCase`].
#[derive(Clone, Debug, Deserialize)]
pub struct DetachTask {
    /// `task_h_load()`.
    pub load: u64,
    /// `task_util_est()`.
    pub util: u64,
    /// Time since it last started to run, ns.
    #[serde(alias = "age")]
    pub age_ns: i64,
    /// It runs just now.
    #[serde(default, deserialize_with = "flag")]
    pub running: bool,
    /// SCHED_IDLE.
    #[serde(default, alias = "idlepol", deserialize_with = "flag")]
    pub idle_policy: bool,
    /// The next buddy.
    #[serde(default, alias = "next", deserialize_with = "flag")]
    pub next_buddy: bool,
    /// The last buddy.
    #[serde(default, alias = "last", deserialize_with = "flag")]
    pub last_buddy: bool,
    /// Its group is throttled.
    #[serde(default, deserialize_with = "flag")]
    pub throttled: bool,
    /// A kernel thread bound to one CPU.
    #[serde(default, alias = "pcpuk", deserialize_with = "flag")]
    pub per_cpu_kthread: bool,
    /// It is not ahead of the average of its queue (queues by deadline).
    #[serde(default = "yes", deserialize_with = "flag")]
    pub eligible: bool,
    /// CPUs where it may run; absent: everywhere.
    #[serde(default)]
    pub allowed: Option<Vec<usize>>,
    /// It has NUMA fault records.
    #[serde(default, deserialize_with = "flag")]
    pub faults: bool,
    /// Its preferred node; -1 or absent: none.
    #[serde(default, alias = "pref")]
    pub preferred_node: Option<i32>,
    /// Fault weights on the nodes of source and destination.
    #[serde(default, alias = "w")]
    pub weights: [u64; 2],
}

/// What `detach_tasks` did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DetachOutcome {
    /// The detached tasks, as positions in the case's list, in order.
    pub detached: Vec<u32>,
    /// The remaining list, tail first.
    pub left: Vec<u32>,
    /// The imbalance that is left.
    pub imbalance: i64,
    /// Tasks looked at (`env->loop`).
    pub nr_looked_at: u32,
    /// No task may run on the destination.
    pub all_pinned: bool,
    /// Some task may not.
    pub some_pinned: bool,
    /// The scan took a break.
    pub need_break: bool,
    /// Another destination was found for a pinned task.
    pub dst_pinned: bool,
    /// That destination.
    pub new_dst_cpu: Option<usize>,
}

impl DetachCase {
    /// Decides the case as `kernel` does.
    pub fn decide(&self, kernel: &Kernel) -> Result<DetachOutcome> {
        let (src, dst) = (&self.src, &self.dst);
        check_range("dst_group_weight", dst.group_weight as u64, 1, MAX_CPUS as u64 - 1)?;
        check_range("src_cpu", src.cpu as u64, dst.group_weight as u64, MAX_CPUS as u64 - 1)?;
        check_range("src_capacity", src.capacity, 1, MAX_CAPACITY)?;
        check_range("src_nr_running", u64::from(src.nr_running), 0, MAX_TASKS)?;
        if !(0..=MAX_LOAD.cast_signed()).contains(&self.imbalance) {
            return Err(out_of_range("imbalance", self.imbalance, 0, MAX_LOAD));
        }
        let nr_cpus = src.cpu + 1;
        let local = CpuMask::from_cpus(nr_cpus, 0..dst.group_weight);
        check_member("dst_cpu", dst.cpu, &local)?;
        let mut node_of = vec![dst.node; nr_cpus];
        node_of[src.cpu] = src.node;
        let mut rqs = RqStats::new(nr_cpus);
        rqs.nr_running[dst.cpu] = dst.nr_running;
        rqs.h_nr_running[dst.cpu] = dst.nr_running;
        rqs.nr_running[src.cpu] = src.nr_running;
        rqs.capacity[src.cpu] = src.capacity;
        let remote = CpuMask::from_cpus(nr_cpus, dst.group_weight..nr_cpus);
        let machine = CaseMachine {
            sd: SchedDomain {
                cache_nice_tries: self.sd.cache_nice_tries,
                flags: [
                    (self.sd.numa, SdFlags::NUMA),
                    (self.sd.share_cpucapacity, SdFlags::SHARE_CPUCAPACITY),
                ]
                .iter()
                .filter(|(is_set, _)| *is_set)
                .fold(SdFlags::default(), |flags, &(_, flag)| flags.with(flag)),
                ..plain_domain(CpuMask::all(nr_cpus), 2)
            },
            groups: vec![group_of(0, local), group_of(1, remote)],
            sgc_imbalance: vec![false; 2],
            rqs,
            system: SystemState {
                numa_balancing: self.numa_balancing,
                migration_cost_ns: self.migration_cost_ns,
                preemption: self.preemption,
                ..SystemState::default()
            },
            node_of,
        };
        let excluded = CpuMask::from_cpus(nr_cpus, Some(dst.cpu).filter(|_| !dst.in_cpus));
        let mut queue = CaseQueue::new(self, nr_cpus)?;
        let mut stats = Vec::new();
        let view = machine.view(kernel);
        let failed = self.sd.nr_balance_failed;
        let mut env = LbEnv::new(view, &machine.sd, dst.cpu, self.idle, failed, &mut stats);
        env.excluded = Some(&excluded);
        env.src_cpu = src.cpu;
        env.imbalance = self.imbalance;
        env.migration_type = self.migration_type;
        if self.migration_type == MigrationType::Misfit {
            // How v5.4, which has no unit of imbalance, knows of it.
            env.src_grp_type = GroupType::MisfitTask;
        }
        env.scan = TaskScan {
            loop_max: self.loop_max,
            active_lb: self.active_lb,
            // An active balance does not ask whether all are pinned.
            all_pinned: !self.active_lb,
            ..TaskScan::default()
        };
        (kernel.balance.detach_tasks.f)(&mut env, &mut queue);
        Ok(DetachOutcome {
            imbalance: env.imbalance,
            nr_looked_at: env.scan.nr_looked_at,
            all_pinned: env.scan.all_pinned,
            some_pinned: env.scan.some_pinned,
            need_break: env.scan.need_break,
            dst_pinned: env.scan.dst_pinned,
            new_dst_cpu: Some(env.scan.new_dst_cpu).filter(|_| env.scan.dst_pinned),
            detached: queue.detached,
            left: queue.list.into(),
        })
    }
}

/// The list of a [`DetachCase`]: its front is the tail of the kernel's list.
struct CaseQueue<'a> {
    case: &'a DetachCase,
    allowed: Vec<Option<CpuMask>>,
    list: VecDeque<TaskRef>,
    detached: Vec<TaskRef>,
}

impl<'a> CaseQueue<'a> {
    fn new(case: &'a DetachCase, nr_cpus: usize) -> Result<Self> {
        check_range("number of tasks", case.tasks.len() as u64, 0, MAX_TASKS)?;
        let mut allowed = Vec::with_capacity(case.tasks.len());
        for (index, task) in case.tasks.iter().enumerate() {
            check_range(&format!("tasks[{index}].load"), task.load, 0, MAX_LOAD)?;
            check_range(&format!("tasks[{index}].util"), task.util, 0, MAX_CAPACITY)?;
            let cpus = task.allowed.as_ref();
            let cpus = cpus
                .map(|cpus| CpuMask::from_cpus(MAX_CPUS, cpus.iter().copied().filter(|&cpu| cpu < nr_cpus)));
            allowed.push(cpus);
        }
        let list = (0..case.tasks.len() as TaskRef).collect();
        Ok(Self { case, allowed, list, detached: Vec::new() })
    }
}

impl SrcQueue for CaseQueue<'_> {
    fn nr_running(&self) -> u32 {
        self.case.src.nr_running.saturating_sub(self.detached.len() as u32)
    }

    fn nr_preferred_running(&self) -> u32 {
        self.case.src.nr_preferred_running
    }

    fn tail(&self) -> Option<TaskRef> {
        self.list.front().copied()
    }

    fn view(&self, task: TaskRef) -> TaskView<'_> {
        let case = &self.case.tasks[task as usize];
        TaskView {
            load: case.load,
            util: case.util,
            clamp: Clamp::default(),
            age_ns: case.age_ns,
            running: case.running,
            idle_policy: case.idle_policy,
            next_buddy: case.next_buddy,
            last_buddy: case.last_buddy,
            throttled: case.throttled,
            per_cpu_kthread: case.per_cpu_kthread,
            eligible: case.eligible,
            allowed: self.allowed[task as usize].as_ref(),
            numa: case.faults.then(|| TaskNuma {
                preferred_node: case.preferred_node.and_then(|node| u32::try_from(node).ok()),
                src_weight: case.weights[0],
                dst_weight: case.weights[1],
            }),
        }
    }

    fn move_to_head(&mut self, task: TaskRef) {
        self.list.retain(|&other| other != task);
        self.list.push_back(task);
    }

    fn detach(&mut self, task: TaskRef) {
        self.list.retain(|&other| other != task);
        self.detached.push(task);
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Where a new or waking task goes

/// A case of `find_idlest_group`.
#[derive(Clone, Debug, Deserialize)]
pub struct IdlestCase {
    /// CPU of the caller.
    #[serde(alias = "this")]
    pub this_cpu: usize,
    /// The domain.
    pub sd: DomainCase,
    /// The groups, the one of `this_cpu` first.
    #[serde(alias = "g")]
    pub groups: Vec<GroupCase>,
    /// The CPUs.
    #[serde(alias = "cpu")]
    pub cpus: CpusCase,
    /// The task.
    #[serde(alias = "p")]
    pub task: PlacedCase,
}

/// The task of an [`IdlestCase`].
#[derive(Clone, Debug, Deserialize)]
pub struct PlacedCase {
    /// `task_h_load()`.
    pub load: u64,
    /// `task_util_est()`.
    pub util: u64,
    /// `runnable_avg`.
    #[serde(default, alias = "run")]
    pub runnable: u64,
    /// Its CPU.
    pub cpu: usize,
    /// Fork.
    #[serde(default, deserialize_with = "flag")]
    pub new: bool,
    /// Exec: it runs just now.
    #[serde(default, deserialize_with = "flag")]
    pub queued: bool,
    /// CPUs where it may run; absent: everywhere.
    #[serde(default)]
    pub allowed: Option<Vec<usize>>,
    /// Nobody ever restricted it, even to the CPUs that there are (v6.12); without `allowed` only.
    #[serde(default, deserialize_with = "flag")]
    pub unrestricted: bool,
    /// Its preferred node: the position of a group; -1 or absent: none.
    #[serde(default, alias = "pref")]
    pub preferred_node: Option<i32>,
}

/// What `find_idlest_group` decides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct IdlestOutcome {
    /// Statistics of each group without the task; absent where it may not run.
    pub groups: Vec<Option<GroupOutcome>>,
    /// Position of the group to go to; absent: stay in the local one.
    pub idlest: Option<usize>,
}

impl IdlestCase {
    /// Decides the case as `kernel` does.
    pub fn decide(&self, kernel: &Kernel) -> Result<IdlestOutcome> {
        let machine = CaseMachine::new(&self.sd, &self.groups, &self.cpus)?;
        let nr_cpus = machine.rqs.nr_running.len();
        let p = &self.task;
        check_member("this_cpu", self.this_cpu, &machine.groups[0].span)?;
        check_cpu("task.cpu", p.cpu, nr_cpus)?;
        check_range("task.load", p.load, 0, MAX_LOAD)?;
        check_range("task.util", p.util, 0, MAX_CAPACITY)?;
        if let Some(cpus) = &p.allowed {
            cpus.iter().try_for_each(|&cpu| check_cpu("task.allowed", cpu, nr_cpus))?;
        }
        let allowed = p.allowed.as_ref().map(|cpus| CpuMask::from_cpus(nr_cpus, cpus.iter().copied()));
        let mut stats = Vec::with_capacity(self.groups.len());
        let mut env = IdlestEnv {
            view: machine.view(kernel),
            sd: &machine.sd,
            this_cpu: self.this_cpu,
            task: PlacedTask {
                load: p.load,
                util: p.util,
                clamp: Clamp::default(),
                runnable: p.runnable,
                cpu: p.cpu,
                new: p.new,
                queued: p.queued,
                allowed: allowed.as_ref(),
                unrestricted: p.unrestricted && allowed.is_none(),
                preferred_node: p.preferred_node.and_then(|node| u32::try_from(node).ok()),
            },
            stats: &mut stats,
        };
        let idlest = (kernel.wakeup.find_idlest_group.f)(&mut env);
        let groups = stats.iter().map(|sgs| sgs.as_ref().map(GroupOutcome::from)).collect();
        Ok(IdlestOutcome { groups, idlest })
    }
}

/// A case of `wake_affine`; pairs are [this CPU, previous CPU].
#[derive(Clone, Debug, Deserialize)]
pub struct WakeAffineCase {
    /// The waker is about to sleep.
    #[serde(deserialize_with = "flag")]
    pub sync: bool,
    /// `imbalance_pct` of the domain.
    #[serde(alias = "pct")]
    pub imbalance_pct: u32,
    /// The two share their last-level cache.
    #[serde(alias = "share", deserialize_with = "flag")]
    pub share_cache: bool,
    /// Which are idle.
    #[serde(deserialize_with = "flags")]
    pub idle: Vec<bool>,
    /// Runnable tasks.
    #[serde(alias = "nr")]
    pub nr_running: [u32; 2],
    /// `cpu_load()`.
    pub load: [u64; 2],
    /// `capacity_of()`.
    #[serde(alias = "cap")]
    pub capacity: [u64; 2],
    /// `task_h_load()` of the waker.
    #[serde(alias = "wload")]
    pub waker_load: u64,
    /// `task_h_load()` of the wakee.
    #[serde(alias = "pload")]
    pub wakee_load: u64,
}

/// What `wake_affine` and its two rules answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeAffineOutcome {
    /// The rule by idleness.
    pub idle: Option<WakeTarget>,
    /// The rule by load, asked whatever the first answered.
    pub weight: Option<WakeTarget>,
    /// The answer.
    pub target: WakeTarget,
}

impl WakeAffineCase {
    /// Decides the case as `kernel` does.
    pub fn decide(&self, kernel: &Kernel) -> Result<WakeAffineOutcome> {
        let &[this_idle, prev_idle] = self.idle.as_slice() else {
            let rule = "must be two flags: this CPU, previous CPU";
            return Err(SimError::invalid("idle", format!("{} values", self.idle.len()), rule));
        };
        let cpu = |index: usize, idle| WakeCpu {
            idle,
            nr_running: self.nr_running[index],
            load: self.load[index],
            capacity: self.capacity[index],
        };
        let env = WakeAffineEnv {
            kernel,
            imbalance_pct: self.imbalance_pct,
            sync: self.sync,
            share_cache: self.share_cache,
            this: cpu(0, this_idle),
            prev: cpu(1, prev_idle),
            waker_load: self.waker_load,
            wakee_load: self.wakee_load,
        };
        check_wake_affine(&env)?;
        Ok(WakeAffineOutcome {
            idle: (kernel.wakeup.wake_affine_idle.f)(&env),
            weight: (kernel.wakeup.wake_affine_weight.f)(&env),
            target: (kernel.wakeup.wake_affine.f)(&env),
        })
    }
}

fn check_wake_affine(env: &WakeAffineEnv<'_>) -> Result<()> {
    check_range("imbalance_pct", u64::from(env.imbalance_pct), 100, MAX_IMBALANCE_PCT)?;
    for (name, value) in [
        ("this_load", env.this.load),
        ("prev_load", env.prev.load),
        ("waker_load", env.waker_load),
        ("wakee_load", env.wakee_load),
    ] {
        // Products with a capacity and a percentage stay within 64 bits.
        check_range(name, value, 0, MAX_WAKE_LOAD)?;
    }
    check_range("this_capacity", env.this.capacity, 1, MAX_WAKE_CAPACITY)?;
    check_range("prev_capacity", env.prev.capacity, 1, MAX_WAKE_CAPACITY)
}

/// Largest load that a case of `wake_affine` may give.
pub const MAX_WAKE_LOAD: u64 = 1 << 32;
/// Largest capacity of a CPU that a case of `wake_affine` may give.
pub const MAX_WAKE_CAPACITY: u64 = 1 << 16;

/// A case of `wake_wide`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct WakeWideCase {
    /// CPUs of the LLC.
    #[serde(alias = "llc")]
    pub llc_size: u32,
    /// Flips of the waker.
    pub waker_flips: u32,
    /// Flips of the wakee.
    pub wakee_flips: u32,
}

impl WakeWideCase {
    /// Decides the case as `kernel` does.
    pub fn decide(&self, kernel: &Kernel) -> bool {
        (kernel.wakeup.wake_wide.f)(self.waker_flips, self.wakee_flips, self.llc_size)
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Fields that cases spell in their own way

fn load() -> MigrationType {
    MigrationType::Load
}

fn yes() -> bool {
    true
}

/// `true` or `false`, or 1 or 0 as the vectors have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Flag {
    Bool(bool),
    Number(u8),
}

fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match Flag::deserialize(deserializer)? {
        Flag::Bool(value) => Ok(value),
        Flag::Number(number @ (0 | 1)) => Ok(number == 1),
        Flag::Number(number) => Err(D::Error::invalid_value(Unexpected::Unsigned(number.into()), &"0 or 1")),
    }
}

fn flags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<bool>, D::Error> {
    let column = Vec::<Flag>::deserialize(deserializer)?;
    column
        .into_iter()
        .map(|value| match value {
            Flag::Bool(value) => Ok(value),
            Flag::Number(number @ (0 | 1)) => Ok(number == 1),
            Flag::Number(number) => {
                Err(D::Error::invalid_value(Unexpected::Unsigned(number.into()), &"0 or 1"))
            }
        })
        .collect()
}

fn idle_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CpuIdleType, D::Error> {
    let name = String::deserialize(deserializer)?;
    CpuIdleType::from_name(&name)
        .ok_or_else(|| D::Error::unknown_variant(&name, &["idle", "busy", "newidle"]))
}

fn migration_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MigrationType, D::Error> {
    let name = String::deserialize(deserializer)?;
    MigrationType::from_name(&name)
        .ok_or_else(|| D::Error::unknown_variant(&name, &["load", "util", "task", "misfit"]))
}
