//! Tests of the searches for an idle CPU: each names the step of select_idle_sibling() that it is about.

use super::capacity::{Clamp, Demand};
use super::env::{RqStats, SystemState};
use super::sis::{IdleSearch, PlacementRule};
use super::{Kernel, v5_4, v5_7, v6_12};
use crate::cpumask::CpuMask;
use crate::sim::tunables::Features;
use crate::topology::{DomainRules, MachineSpec, SchedDomains, SdFlags, build_sched_domains};

/// A machine all of whose CPUs are busy, and what a search reads of it.
struct Machine {
    kernel: Kernel,
    domains: SchedDomains,
    rqs: RqStats,
    system: SystemState,
    has_idle_cores: Vec<bool>,
    nr_idle_scan: Vec<u32>,
    avg_idle: u64,
    avg_scan_cost: u64,
    recent_used_cpu: u16,
    allowed: Option<CpuMask>,
    clamp: Clamp,
    per_cpu_kthread: bool,
    in_task: bool,
    scanned: u32,
}

impl Machine {
    fn new(kernel: Kernel, spec: &MachineSpec) -> Self {
        let domains = build_sched_domains(spec, DomainRules::for_kernel(kernel.name).unwrap()).unwrap();
        let nr_cpus = domains.nr_cpus;
        let has = |flag| domains.per_cpu.iter().flatten().any(|sd| sd.flags.has(flag));
        let system = SystemState {
            smt_active: domains.smt_mask.iter().any(|mask| mask.weight() > 1),
            asym_capacity: has(SdFlags::ASYM_CPUCAPACITY),
            clusters: has(SdFlags::CLUSTER),
            ..SystemState::default()
        };
        let capacity: Vec<u64> = spec.capacity.iter().map(|&capacity| u64::from(capacity)).collect();
        Self {
            kernel,
            rqs: RqStats {
                idle: vec![false; nr_cpus],
                nr_running: vec![2; nr_cpus],
                capacity_orig: capacity.clone(),
                capacity,
                ..RqStats::new(nr_cpus)
            },
            system,
            has_idle_cores: vec![false; nr_cpus],
            nr_idle_scan: domains.llc_size.clone(),
            avg_idle: 1_000_000,
            avg_scan_cost: 0,
            recent_used_cpu: 0,
            allowed: None,
            clamp: Clamp::default(),
            per_cpu_kthread: false,
            in_task: true,
            scanned: 0,
            domains,
        }
    }

    fn idle(mut self, cpus: &[usize]) -> Self {
        cpus.iter().for_each(|&cpu| self.rqs.idle[cpu] = true);
        self
    }

    /// A wake-up by CPU 0 of a task that ran on `prev`.
    fn search(&mut self, prev: usize, target: usize) -> (usize, PlacementRule) {
        let mut search = IdleSearch {
            kernel: &self.kernel,
            rqs: &self.rqs,
            domains: &self.domains,
            features: &Features::default(),
            system: &self.system,
            allowed: self.allowed.as_ref(),
            this_cpu: 0,
            recent_used_cpu: &mut self.recent_used_cpu,
            demand: Demand { util: 300, clamp: self.clamp },
            per_cpu_kthread: self.per_cpu_kthread,
            in_task: self.in_task,
            has_idle_cores: &mut self.has_idle_cores,
            nr_idle_scan: &self.nr_idle_scan,
            avg_idle: self.avg_idle,
            avg_scan_cost: &mut self.avg_scan_cost,
            scan_cpu_ns: 100,
            scanned: 0,
        };
        let found = (self.kernel.wakeup.select_idle_sibling.f)(&mut search, prev, target);
        self.scanned = search.scanned;
        found
    }
}

/// Eight single-threaded CPUs that share their last-level cache.
fn eight_cpus() -> MachineSpec {
    MachineSpec::uniform("eight", 8)
}

/// Four cores of two threads, numbered core by core, that share their last-level cache.
fn four_cores() -> MachineSpec {
    let core: Vec<u32> = (0..8).map(|cpu| cpu / 2).collect();
    MachineSpec { cluster: core.clone(), core, ..eight_cpus() }
}

/// Two clusters of four CPUs in one last-level cache.
fn two_clusters() -> MachineSpec {
    MachineSpec { cluster: (0..8).map(|cpu| cpu / 4).collect(), ..eight_cpus() }
}

#[test]
fn v5_4_cpus_that_the_task_may_not_use_cost_budget() {
    // SIS_PROP: nothing idle for long, so that three CPUs are looked at.
    let of = |kernel| {
        let mut machine = Machine::new(kernel, &eight_cpus()).idle(&[7]);
        machine.avg_idle = 0;
        machine.allowed = Some(CpuMask::from_cpus(8, [1, 7]));
        (machine.search(1, 1), machine.scanned)
    };
    assert_eq!(of(v5_4::KERNEL), ((1, PlacementRule::Target), 3));
    assert_eq!(of(v5_7::KERNEL), ((7, PlacementRule::IdleCpu), 2));
}

#[test]
fn v5_4_takes_a_cpu_of_idle_class_tasks_only_if_the_budget_ends_first() {
    let of = |kernel, avg_idle| {
        let mut machine = Machine::new(kernel, &eight_cpus()).idle(&[7]);
        machine.rqs.sched_idle[2] = true;
        machine.avg_idle = avg_idle;
        machine.search(1, 1)
    };
    assert_eq!(of(v5_4::KERNEL, 0), (2, PlacementRule::IdleCpu));
    assert_eq!(of(v5_4::KERNEL, 1_000_000), (7, PlacementRule::IdleCpu));
    assert_eq!(of(v5_7::KERNEL, 1_000_000), (2, PlacementRule::IdleCpu));
}

#[test]
fn v5_4_prefers_an_idle_sibling_to_one_with_idle_class_tasks() {
    let spec = MachineSpec { core: vec![0, 0, 0, 0], cluster: vec![0; 4], ..MachineSpec::uniform("smt4", 4) };
    let of = |kernel| {
        let mut machine = Machine::new(kernel, &spec).idle(&[3]);
        machine.rqs.sched_idle[1] = true;
        // Only the sibling search is left.
        machine.domains.llc_level[0] = None;
        machine.search(2, 2)
    };
    assert_eq!(of(v5_4::KERNEL), (3, PlacementRule::IdleSibling));
    assert_eq!(of(v5_7::KERNEL), (1, PlacementRule::IdleSibling));
}

#[test]
fn v6_12_looks_at_as_many_cpus_as_the_llc_allows() {
    let of = |nr_idle_scan, has_idle_core| {
        let mut machine = Machine::new(v6_12::KERNEL, &four_cores()).idle(&[5]);
        machine.nr_idle_scan = vec![nr_idle_scan; 8];
        machine.has_idle_cores = vec![has_idle_core; 8];
        (machine.search(2, 2), machine.scanned)
    };
    // From the CPU after the target: 3, 4, 5; one look goes to the sibling of the previous CPU.
    assert_eq!(of(3, false), ((5, PlacementRule::IdleCpu), 4));
    assert_eq!(of(2, false), ((2, PlacementRule::Target), 3));
    assert_eq!(of(0, false), ((2, PlacementRule::Target), 1));
    assert_eq!(of(0, true), ((2, PlacementRule::Target), 0), "not even with an idle core");
    assert_eq!(of(1, true).0, (5, PlacementRule::IdleCpu), "the search for a core has no limit");
}

#[test]
fn v6_12_searches_cores_if_one_may_idle_and_takes_the_hint_back() {
    let mut machine = Machine::new(v6_12::KERNEL, &four_cores()).idle(&[5, 6, 7]);
    machine.has_idle_cores = vec![true; 8];
    assert_eq!(machine.search(2, 2), (6, PlacementRule::IdleCore));
    assert!(machine.has_idle_cores[0]);
    machine.rqs.idle[6] = false;
    assert_eq!(machine.search(2, 2), (5, PlacementRule::IdleCpu), "the first idle CPU on the way");
    assert!(!machine.has_idle_cores[0]);
}

#[test]
fn v6_12_tries_the_siblings_of_the_previous_cpu_before_the_llc() {
    let mut machine = Machine::new(v6_12::KERNEL, &four_cores()).idle(&[3, 7]);
    assert_eq!(machine.search(6, 2), (7, PlacementRule::IdleSibling));
    machine.has_idle_cores = vec![true; 8];
    assert_eq!(machine.search(6, 2), (3, PlacementRule::IdleCpu), "not while a core may idle");
}

#[test]
fn v6_12_looks_into_the_targets_cluster_first_and_falls_back_on_the_previous_cpu() {
    let mut machine = Machine::new(v6_12::KERNEL, &two_clusters()).idle(&[0, 6]);
    assert!(machine.system.clusters);
    machine.recent_used_cpu = 3;
    // The previous CPU idles, but behind another L2; CPU 0 comes last in the order of the target's own.
    assert_eq!(machine.search(6, 1), (0, PlacementRule::IdleCpu));
    machine.rqs.idle[0] = false;
    machine.nr_idle_scan = vec![3; 8];
    assert_eq!(machine.search(6, 1), (6, PlacementRule::PrevIdle));
    // Without clusters the previous CPU is taken at once.
    let mut machine = Machine::new(v6_12::KERNEL, &eight_cpus()).idle(&[0, 6]);
    assert_eq!((machine.search(6, 1), machine.scanned), ((6, PlacementRule::PrevIdle), 0));
}

#[test]
fn v6_12_always_remembers_the_previous_cpu_as_the_recent_one() {
    let recent_after = |kernel| {
        let mut machine = Machine::new(kernel, &eight_cpus());
        machine.recent_used_cpu = 5;
        machine.search(3, 1);
        machine.recent_used_cpu
    };
    assert_eq!((recent_after(v5_7::KERNEL), recent_after(v6_12::KERNEL)), (5, 3));
}

#[test]
fn v6_12_takes_an_idle_target_only_if_the_task_fits() {
    let spec = MachineSpec {
        arch: "arm64".to_owned(),
        capacity: vec![250, 250, 1024, 1024],
        ..MachineSpec::uniform("big-little", 4)
    };
    let of = |kernel| Machine::new(kernel, &spec).idle(&[0, 3]).search(0, 0);
    assert_eq!(of(v5_4::KERNEL), (0, PlacementRule::TargetIdle));
    assert_eq!(of(v6_12::KERNEL), (3, PlacementRule::AsymCapacity));
}

#[test]
fn of_cpus_that_are_too_small_for_a_boost_the_one_that_could_give_most_is_chosen() {
    // The task needs 300; CPU 2 has lost half of its 900 to others, CPU 3 is a whole one of 800.
    let spec = MachineSpec {
        arch: "arm64".to_owned(),
        capacity: vec![250, 1024, 900, 800],
        ..MachineSpec::uniform("three-kinds", 4)
    };
    let search = |kernel, min, idle: &[usize]| {
        let mut machine = Machine::new(kernel, &spec).idle(idle);
        machine.rqs.capacity[2] = 450;
        machine.clamp = Clamp { min, max: 1024 };
        machine.search(0, 0).0
    };
    // select_idle_capacity(): 300 fits 450 with a fifth to spare, and comes first from CPU 0 on.
    assert_eq!([v5_7::KERNEL, v6_12::KERNEL].map(|kernel| search(kernel, 0, &[2, 3])), [2, 2]);
    // A boost to 1024 fits neither. v5.7 takes what has most left, v6.12 what could give most.
    assert_eq!([v5_7::KERNEL, v6_12::KERNEL].map(|kernel| search(kernel, 1024, &[2, 3])), [3, 2]);
    // Which is still better than a CPU that the task does not fit even without its boost.
    assert_eq!(search(v6_12::KERNEL, 1024, &[0, 3]), 3);
    assert_eq!(search(v6_12::KERNEL, 1024, &[1, 2]), 1);
}

#[test]
fn a_bound_kernel_thread_keeps_its_wakee_unless_an_interrupt_woke_it() {
    let search = |kernel, in_task| {
        let mut machine = Machine::new(kernel, &eight_cpus()).idle(&[5]);
        (machine.per_cpu_kthread, machine.in_task) = (true, in_task);
        machine.rqs.nr_running[0] = 1;
        machine.search(0, 0)
    };
    assert_eq!(search(v5_4::KERNEL, true), (5, PlacementRule::IdleCpu));
    assert_eq!(search(v5_7::KERNEL, true), (0, PlacementRule::KthreadStack));
    assert_eq!(search(v5_7::KERNEL, false), (0, PlacementRule::KthreadStack));
    assert_eq!(search(v6_12::KERNEL, true), (0, PlacementRule::KthreadStack));
    assert_eq!(search(v6_12::KERNEL, false), (5, PlacementRule::IdleCpu));
}
