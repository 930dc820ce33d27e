//! What a run remembers: counters and time integrals, as streaming sums.

pub mod decisions;
pub mod trace;

pub use decisions::{Decision, Decisions};
pub use trace::{TaskTraceState, Trace, TraceEvent};

use crate::kernels::env::{CpuIdleType, SgLbStats};
use crate::kernels::sis::PlacementRule;
use crate::sim::balance::idle_index;
use crate::topology::{SchedDomain, SchedDomains};

/// Numbers of running tasks that the classification tells apart: 0, 1, 2, 3, 4 and more.
pub const NR_BUCKETS: usize = 5;
/// Classes of groups (`enum group_type`).
pub const NR_GROUP_TYPES: usize = 8;

/// Declares the scalar metrics: a counter each in [`Record`], a row each in [`METRIC_TABLE`].
macro_rules! metrics {
    ($( $(#[doc = $doc:literal])+ $name:ident $unit:literal, )+) => {
        /// Scalar metrics of a run.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Metrics {
            $( $(#[doc = $doc])+ pub $name: i64, )+
        }

        /// Name, unit and description of every metric.
        pub const METRIC_TABLE: &[(&str, &str, &str)] = &[ $( (stringify!($name), $unit, concat!($($doc),+)), )+ ];

        impl Metrics {
            /// The values in the order of [`METRIC_TABLE`].
            pub fn values(&self) -> Vec<i64> {
                vec![ $( self.$name, )+ ]
            }
        }
    };
}

metrics! {
    /// The benchmark's own time: from its start signal until its last task was reaped.
    time_ns "ns",
    /// Simulated time from the first fork to the end.
    simulated_ns "ns",
    /// Messages read.
    messages "count",
    /// Times that all tasks of a barrier have met.
    rounds "count",
    /// Context switches from one task to another, or between a task and idle.
    context_switches "count",
    /// Tasks forked.
    forks "count",
    /// CPU time of the tasks outside the kernel, where the load is accounted (time(1): user).
    user_ns "ns",
    /// CPU time inside the kernel, likewise (time(1): system).
    system_ns "ns",
    /// Switches from a task that went to sleep or ended, likewise (time(1): waits).
    voluntary_switches "count",
    /// Switches from a task that would have gone on, likewise (time(1): involuntary context switches).
    involuntary_switches "count",
    /// Wake-ups.
    wakeups "count",
    /// Wake-ups that left the task on its previous CPU.
    wakeups_prev "count",
    /// Wake-ups to the waker's own CPU.
    wakeups_local "count",
    /// Wake-ups in which wake_affine() chose the waker's CPU as target.
    wakeups_affine "count",
    /// Wake-ups that found an idle CPU.
    wakeups_to_idle "count",
    /// Changes of CPU at wake-up.
    migrations_wakeup "count",
    /// Tasks pulled by periodic balance on idle CPUs.
    migrations_idle "count",
    /// Tasks pulled by periodic balance on busy CPUs.
    migrations_busy "count",
    /// Tasks pulled by newidle balance.
    migrations_newidle "count",
    /// Running tasks pushed by active balance.
    migrations_active "count",
    /// Tasks moved by NUMA balancing, two in a swap.
    migrations_numa "count",
    /// Swaps among them.
    numa_swaps "count",
    /// NUMA hinting faults.
    numa_hint_faults "count",
    /// Those on a page of the CPU's own node.
    numa_hint_faults_local "count",
    /// Pages marked by NUMA scans.
    numa_pte_updates "count",
    /// Pages that went to another node.
    numa_pages_migrated "count",
    /// Pages that tasks came to on their walks.
    memory_touches "count",
    /// Those on another node.
    memory_touches_remote "count",
    /// Running tasks that exec placement sent to another CPU.
    migrations_exec "count",
    /// Tasks pushed off a CPU that went off.
    migrations_hotplug "count",
    /// Wake-ups that preempted the running task.
    preemptions_wakeup "count",
    /// Ticks that ended the running task's slice.
    preemptions_tick "count",
    /// Balance passes on idle CPUs.
    balance_idle "count",
    /// Balance passes on busy CPUs.
    balance_busy "count",
    /// Newidle balance passes.
    balance_newidle "count",
    /// CPU time without a task to run, over all CPUs, while the benchmark's clock ran.
    idle_ns "ns",
    /// CPU time that idle CPUs could have given to tasks waiting behind others at that moment: min(idle CPUs, waiting
    /// tasks) integrated over the benchmark's time.
    idle_while_overloaded_ns "ns",
    /// Time that tasks waited in runqueues.
    run_delay_ns "ns",
    /// Engine events handled.
    events "count",
}

/// cpu.stat of one task group since it was made, in the order of [`CPU_STAT_FIELDS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// CPU time of its tasks (`usage_usec`).
    pub usage_ns: u64,
    /// Periods that have ended while it was in use.
    pub nr_periods: u64,
    /// Those at whose end it was throttled somewhere.
    pub nr_throttled: u64,
    /// Time for which it was throttled, over all CPUs (`throttled_usec`).
    pub throttled_ns: u64,
    /// Periods in which it used more than its quota.
    pub nr_bursts: u64,
    /// CPU time beyond the quota (`burst_usec`).
    pub burst_ns: u64,
}

/// Fields of a group's cpu.stat.
pub const CPU_STAT_FIELDS: &[&str] =
    &["usage_ns", "nr_periods", "nr_throttled", "throttled_ns", "nr_bursts", "burst_ns"];

impl CpuStat {
    /// The values in the order of [`CPU_STAT_FIELDS`].
    pub fn values(&self) -> [u64; 6] {
        [self.usage_ns, self.nr_periods, self.nr_throttled, self.throttled_ns, self.nr_bursts, self.burst_ns]
    }
}

/// Counters of one CPU for /proc/schedstat, in the order of [`CPU_FIELDS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCounters {
    sched_count: u64,
    sched_goidle: u64,
    ttwu_count: u64,
    ttwu_local: u64,
    rq_cpu_time: u64,
    run_delay: u64,
    pcount: u64,
}

/// Fields of a CPU's line in /proc/schedstat, version 15.
pub const CPU_FIELDS: &[&str] = &[
    "yld_count",
    "legacy_always_zero",
    "sched_count",
    "sched_goidle",
    "ttwu_count",
    "ttwu_local",
    "rq_cpu_time",
    "run_delay",
    "pcount",
];

/// Counters of one domain of one CPU for /proc/schedstat; arrays are by idle type: idle, busy, newly idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the kernel's own names, explained in Documentation/scheduler/sched-stats.rst"
)]
pub struct DomainCounters {
    pub lb_count: [u64; 3],
    pub lb_balanced: [u64; 3],
    pub lb_failed: [u64; 3],
    pub lb_imbalance: [u64; 3],
    pub lb_gained: [u64; 3],
    pub lb_nobusyq: [u64; 3],
    pub lb_nobusyg: [u64; 3],
    pub alb_count: u64,
    pub alb_failed: u64,
    pub alb_pushed: u64,
    pub ttwu_wake_remote: u64,
    pub ttwu_move_affine: u64,
    pub ttwu_move_balance: u64,
}

/// Fields of a domain's line in /proc/schedstat, version 15.
pub const DOMAIN_FIELDS: &[&str] = &[
    "idle_lb_count",
    "idle_lb_balanced",
    "idle_lb_failed",
    "idle_lb_imbalance",
    "idle_lb_gained",
    "idle_lb_hot_gained",
    "idle_lb_nobusyq",
    "idle_lb_nobusyg",
    "busy_lb_count",
    "busy_lb_balanced",
    "busy_lb_failed",
    "busy_lb_imbalance",
    "busy_lb_gained",
    "busy_lb_hot_gained",
    "busy_lb_nobusyq",
    "busy_lb_nobusyg",
    "newidle_lb_count",
    "newidle_lb_balanced",
    "newidle_lb_failed",
    "newidle_lb_imbalance",
    "newidle_lb_gained",
    "newidle_lb_hot_gained",
    "newidle_lb_nobusyq",
    "newidle_lb_nobusyg",
    "alb_count",
    "alb_failed",
    "alb_pushed",
    "sbe_count",
    "sbe_balanced",
    "sbe_pushed",
    "sbf_count",
    "sbf_balanced",
    "sbf_pushed",
    "ttwu_wake_remote",
    "ttwu_move_affine",
    "ttwu_move_balance",
];

impl CpuCounters {
    /// The values in the order of [`CPU_FIELDS`]; what this model never does is 0.
    pub fn values(&self) -> [u64; 9] {
        [
            0,
            0,
            self.sched_count,
            self.sched_goidle,
            self.ttwu_count,
            self.ttwu_local,
            self.rq_cpu_time,
            self.run_delay,
            self.pcount,
        ]
    }
}

impl DomainCounters {
    /// The values in the order of [`DOMAIN_FIELDS`]; counters that these kernels never raise are 0.
    pub fn values(&self) -> Vec<u64> {
        let mut values = Vec::with_capacity(DOMAIN_FIELDS.len());
        for idle in 0..3 {
            values.extend([
                self.lb_count[idle],
                self.lb_balanced[idle],
                self.lb_failed[idle],
                self.lb_imbalance[idle],
                self.lb_gained[idle],
                0,
                self.lb_nobusyq[idle],
                self.lb_nobusyg[idle],
            ]);
        }
        values.extend([self.alb_count, self.alb_failed, self.alb_pushed, 0, 0, 0, 0, 0, 0]);
        values.extend([self.ttwu_wake_remote, self.ttwu_move_affine, self.ttwu_move_balance]);
        values
    }
}

/// Everything that one run remembers.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What ran where, if asked for.
    pub trace: Option<Trace>,
    /// Decisions, if asked for.
    pub decisions: Option<Decisions>,
    /// Scalar metrics.
    pub metrics: Metrics,
    /// By level name, class and number of running tasks: how often a balance pass saw a group so.
    pub classification: Vec<[[u64; NR_BUCKETS]; NR_GROUP_TYPES]>,
    /// By node: tasks found on it in all counts together; as long as the highest node with any.
    pub node_tasks: Vec<u64>,
    /// Counts of tasks by node.
    pub node_samples: u64,
    /// By CPU.
    pub cpus: Vec<CpuCounters>,
    /// By CPU and level.
    pub domains: Vec<Vec<DomainCounters>>,
    /// Names of the levels, by index of `classification`.
    names: Vec<String>,
    /// By task group, the root left out; in the order of the load's.
    pub cpu_stat: Vec<CpuStat>,
    /// CPU and level to index of `classification`.
    level_index: Vec<Vec<usize>>,
    /// The same as it was at the start, once the machine has got new domains.
    start_index: Option<Vec<Vec<usize>>>,
    /// CPU and level to index of `domains`; empty while the domains are those of the start.
    slots: Vec<Vec<usize>>,
    /// What has no place there.
    dropped: DomainCounters,
    /// The benchmark's clock runs: the integrals grow.
    timing: bool,
    /// Time up to which the integrals are complete.
    integrated_ns: u64,
    idle_cpus: u64,
    waiting_tasks: u64,
}

/// Names of the domain levels of a machine, lowest first; a name that recurs in a hierarchy is numbered: `NUMA-2`.
pub fn level_names(domains: &SchedDomains) -> Vec<String> {
    // The deepest hierarchy gives the order; levels found only elsewhere follow.
    let deepest = domains.per_cpu.iter().max_by_key(|hierarchy| hierarchy.len());
    let mut names: Vec<String> = Vec::new();
    for hierarchy in deepest.into_iter().chain(&domains.per_cpu) {
        for name in level_names_of(hierarchy) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn level_names_of(hierarchy: &[SchedDomain]) -> Vec<String> {
    let number =
        |level: usize| hierarchy[..=level].iter().filter(|sd| sd.name == hierarchy[level].name).count();
    (0..hierarchy.len())
        .map(|level| match number(level) {
            1 => hierarchy[level].name.to_owned(),
            number => format!("{}-{number}", hierarchy[level].name),
        })
        .collect()
}

impl Record {
    /// An empty record for a machine.
    pub fn new(domains: &SchedDomains, nr_online: u64, now: u64) -> Self {
        let names = level_names(domains);
        let index_of =
            |name: &String| names.iter().position(|other| other == name).expect("every level has a name");
        let level_index = domains
            .per_cpu
            .iter()
            .map(|hierarchy| level_names_of(hierarchy).iter().map(index_of).collect())
            .collect();
        Self {
            trace: None,
            decisions: None,
            metrics: Metrics::default(),
            classification: vec![[[0; NR_BUCKETS]; NR_GROUP_TYPES]; names.len()],
            node_tasks: Vec::new(),
            node_samples: 0,
            cpus: vec![CpuCounters::default(); domains.nr_cpus],
            domains: domains
                .per_cpu
                .iter()
                .map(|hierarchy| vec![DomainCounters::default(); hierarchy.len()])
                .collect(),
            names,
            cpu_stat: Vec::new(),
            level_index,
            start_index: None,
            slots: Vec::new(),
            dropped: DomainCounters::default(),
            timing: false,
            integrated_ns: now,
            idle_cpus: nr_online,
            waiting_tasks: 0,
        }
    }

    /// A task's state changed.
    #[inline]
    pub fn task_state(&mut self, time_ns: u64, task: u32, cpu: usize, state: TaskTraceState) {
        if let Some(trace) = &mut self.trace {
            trace.events.push(TraceEvent { time_ns, task, cpu: cpu as u16, state });
        }
    }

    /// The benchmark's clock starts or stops.
    pub fn clock(&mut self, now: u64, runs: bool) {
        self.integrate(now);
        self.timing = runs;
        self.metrics.time_ns = if runs { now as i64 } else { now as i64 - self.metrics.time_ns };
    }

    /// Whether the benchmark's clock runs.
    pub fn is_timing(&self) -> bool {
        self.timing
    }

    fn integrate(&mut self, now: u64) {
        let span = now - self.integrated_ns;
        self.integrated_ns = now;
        if self.timing {
            self.metrics.idle_ns += (self.idle_cpus * span) as i64;
            self.metrics.idle_while_overloaded_ns += (self.idle_cpus.min(self.waiting_tasks) * span) as i64;
        }
    }

    /// An idle CPU came or went.
    pub fn cpu_online(&mut self, now: u64, online: bool) {
        self.integrate(now);
        self.idle_cpus = if online { self.idle_cpus + 1 } else { self.idle_cpus - 1 };
    }

    /// The machine has new domains: from now on, a level counts for the one of its name at the start, or for the
    /// highest that there was.
    pub fn rebuilt(&mut self, domains: &SchedDomains) {
        let start = self.start_index.get_or_insert_with(|| std::mem::take(&mut self.level_index));
        let last = self.names.len().wrapping_sub(1);
        let index_of = |name: &String| self.names.iter().position(|other| other == name).unwrap_or(last);
        self.level_index = (domains.per_cpu.iter())
            .map(|hierarchy| level_names_of(hierarchy).iter().map(index_of).collect())
            .collect();
        let slot_in = |start: &Vec<usize>, index: &usize| {
            let same = start.iter().position(|other| other == index);
            same.unwrap_or_else(|| start.len().wrapping_sub(1))
        };
        let slots_of =
            |(levels, start): (&Vec<usize>, _)| levels.iter().map(|index| slot_in(start, index)).collect();
        self.slots = self.level_index.iter().zip(&*start).map(slots_of).collect();
    }

    /// A queue's number of tasks changed.
    #[inline]
    pub fn nr_running_changed(&mut self, now: u64, before: u32, after: u32) {
        self.integrate(now);
        self.idle_cpus -= u64::from(before == 0);
        self.waiting_tasks -= u64::from(before.saturating_sub(1));
        self.idle_cpus += u64::from(after == 0);
        self.waiting_tasks += u64::from(after.saturating_sub(1));
    }

    /// A task runs after having waited.
    #[inline]
    pub fn run_delay(&mut self, cpu: usize, delay_ns: u64) {
        self.metrics.run_delay_ns += delay_ns as i64;
        self.cpus[cpu].run_delay += delay_ns;
        self.cpus[cpu].pcount += 1;
    }

    /// schedule() ran, and whether it found nothing.
    #[inline]
    pub fn schedule(&mut self, cpu: usize, goes_idle: bool) {
        self.cpus[cpu].sched_count += 1;
        self.cpus[cpu].sched_goidle += u64::from(goes_idle);
    }

    /// A CPU was busy for a while.
    #[inline]
    pub fn busy(&mut self, cpu: usize, span_ns: u64) {
        self.cpus[cpu].rq_cpu_time += span_ns;
    }

    /// A task was woken by `this_cpu`, was on `prev` and goes to `cpu`.
    #[inline]
    pub fn wakeup(&mut self, this_cpu: usize, prev: usize, cpu: usize, rule: PlacementRule) {
        self.metrics.wakeups += 1;
        self.metrics.wakeups_prev += i64::from(cpu == prev);
        self.metrics.wakeups_local += i64::from(cpu == this_cpu);
        self.metrics.wakeups_to_idle +=
            i64::from(!matches!(rule, PlacementRule::Target | PlacementRule::KthreadStack));
        self.cpus[cpu].ttwu_count += 1;
        self.cpus[cpu].ttwu_local += u64::from(cpu == this_cpu);
    }

    /// ttwu_stat(): the lowest domain of the waker that holds the woken task's CPU.
    pub fn domain_wakeup(&mut self, domains: &SchedDomains, this_cpu: usize, cpu: usize) {
        if this_cpu == cpu {
            return;
        }
        if let Some(level) = domains.per_cpu[this_cpu].iter().position(|sd| sd.span.test(cpu)) {
            self.domain(this_cpu, level).ttwu_wake_remote += 1;
        }
    }

    /// A count finds a task on a node.
    pub fn count_on_node(&mut self, node: u32) {
        let node = node as usize;
        if self.node_tasks.len() <= node {
            self.node_tasks.resize(node + 1, 0);
        }
        self.node_tasks[node] += 1;
    }

    /// The counters of one domain.
    #[inline]
    pub fn domain(&mut self, cpu: usize, level: usize) -> &mut DomainCounters {
        let slot = if self.slots.is_empty() { level } else { self.slots[cpu][level] };
        self.domains[cpu].get_mut(slot).unwrap_or(&mut self.dropped)
    }

    /// A balance pass starts.
    pub fn lb_count(&mut self, cpu: usize, level: usize, idle: CpuIdleType) {
        self.domain(cpu, level).lb_count[idle_index(idle)] += 1;
        *match idle {
            CpuIdleType::Idle => &mut self.metrics.balance_idle,
            CpuIdleType::NotIdle => &mut self.metrics.balance_busy,
            CpuIdleType::NewlyIdle => &mut self.metrics.balance_newidle,
        } += 1;
    }

    /// A balance pass pulled tasks.
    pub fn pulled(&mut self, cpu: usize, level: usize, idle: CpuIdleType, tasks: u64) {
        self.domain(cpu, level).lb_gained[idle_index(idle)] += tasks;
        *match idle {
            CpuIdleType::Idle => &mut self.metrics.migrations_idle,
            CpuIdleType::NotIdle => &mut self.metrics.migrations_busy,
            CpuIdleType::NewlyIdle => &mut self.metrics.migrations_newidle,
        } += tasks as i64;
    }

    /// A balance pass saw a group.
    pub fn classification(&mut self, cpu: usize, level: usize, stats: &SgLbStats) {
        if self.timing {
            let bucket = (stats.sum_nr_running as usize).min(NR_BUCKETS - 1);
            if let Some(counts) = self.classification.get_mut(self.level_index[cpu][level]) {
                counts[stats.group_type as usize][bucket] += 1;
            }
        }
    }
}
