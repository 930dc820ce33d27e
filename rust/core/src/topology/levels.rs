//! The candidate levels of a machine, bottom to top: which CPUs each holds as seen from every CPU.

use std::collections::BTreeMap;

use super::rules::DomainRules;
use super::spans::{SpanId, SpanTable};
use super::{MachineSpec, SdFlags};
use crate::cpumask::CpuMask;

/// One candidate level (`struct sched_domain_topology_level`).
pub(super) struct Level {
    /// The kernel's name.
    pub name: &'static str,
    /// Flags that the level adds to every domain.
    pub flags: SdFlags,
    /// NUMA distance up to which nodes belong to it; 0 for levels within a node.
    pub distance: u32,
    /// Per CPU the online CPUs of the level.
    pub mask: Vec<SpanId>,
    /// Per CPU the weight that the balance intervals start from.
    pub weight: Vec<u32>,
}

/// The CPUs that levels are made of.
pub(super) struct CpuSets {
    /// Number of CPU slots.
    pub nr_cpus: usize,
    /// Online CPUs.
    pub online: CpuMask,
    /// Online CPUs and one that is on its way out, as far as `rules` still see it.
    pub counted: CpuMask,
}

impl CpuSets {
    /// The sets of `machine` under `rules`.
    pub fn new(machine: &MachineSpec, rules: &DomainRules) -> Self {
        let mut sets = Self::online(machine);
        if let Some(cpu) = machine.offlined_last.filter(|_| rules.interval_counts_dying) {
            sets.counted.set(cpu as usize);
        }
        sets
    }

    /// The sets of `machine` if nothing but online CPUs counts.
    pub fn online(machine: &MachineSpec) -> Self {
        let mut online = CpuMask::all(machine.nr_cpus());
        for &cpu in &machine.offline {
            online.clear(cpu as usize);
        }
        Self { nr_cpus: machine.nr_cpus(), counted: online.clone(), online }
    }
}

/// kernel/sched/topology.c, for_each_sd_topology(): the levels of `machine`, lowest first.
pub(super) fn candidate_levels(
    machine: &MachineSpec,
    rules: &DomainRules,
    cpus: &CpuSets,
    spans: &mut SpanTable,
) -> Vec<Level> {
    let mut levels = levels_within_nodes(machine, rules, cpus, spans);
    levels.extend(numa_levels(machine, rules, cpus, spans));
    levels
}

/// arch/x86/kernel/smpboot.c, drivers/base/arch_topology.c and arch/powerpc/kernel/smp.c: the levels below NUMA.
fn levels_within_nodes(
    machine: &MachineSpec,
    rules: &DomainRules,
    cpus: &CpuSets,
    spans: &mut SpanTable,
) -> Vec<Level> {
    let llc = SdFlags::SHARE_LLC;
    let packing = if machine.asym_priority.is_empty() { SdFlags::default() } else { SdFlags::ASYM_PACKING };
    let node = |cpu: usize| machine.node[cpu];
    let mut levels = Vec::new();
    let mut level = |name, flags, key: &dyn Fn(usize) -> (u32, u32)| {
        levels.push(level_by_key(name, flags, key, cpus, spans));
    };

    let smt = SdFlags::SHARE_CPUCAPACITY.with(llc);
    // On POWER the threads of a core are packed, whatever becomes of x86's (powerpc_smt_flags(), CPU_FTR_ASYM_SMT).
    let packs_threads = rules.asym_packing_smt || machine.arch == "powerpc";
    let smt = if packs_threads { smt.with(packing) } else { smt };
    if !rules.smt_level_only_with_threads || smt_active(machine) {
        level("SMT", smt, &|cpu| (machine.core[cpu], 0));
    }
    match machine.arch.as_str() {
        "powerpc" => {
            level("CACHE", llc, &|cpu| (machine.cluster[cpu], 0));
            level(rules.package_name, SdFlags::default(), &|cpu| (node(cpu), 0));
        }
        "arm64" => {
            let siblings = arm64_coregroup(machine, rules, cpus);
            level("MC", llc, &|cpu| siblings[cpu]);
            level(rules.package_name, SdFlags::default(), &|cpu| (node(cpu), 0));
        }
        _ => {
            if rules.cluster_level {
                let cluster = if rules.cluster_flag { llc.with(SdFlags::CLUSTER) } else { llc };
                level("CLS", cluster.with(packing), &|cpu| (machine.cluster[cpu], 0));
            }
            level("MC", llc.with(packing), &|cpu| (machine.llc[cpu], node(cpu)));
            if !numa_in_package(machine, cpus) {
                level(rules.package_name, SdFlags::default(), &|cpu| (node(cpu), 0));
            }
        }
    }
    levels
}

/// Whether any core may run two threads (`cpu_smt_possible()` and threads are there).
fn smt_active(machine: &MachineSpec) -> bool {
    let mut cores = machine.core.clone();
    cores.sort_unstable();
    !machine.nosmt && cores.windows(2).any(|pair| pair[0] == pair[1])
}

/// arch/x86/kernel/smpboot.c, x86_has_numa_in_package: some package holds online CPUs of two nodes.
fn numa_in_package(machine: &MachineSpec, cpus: &CpuSets) -> bool {
    let mut node_of_package = BTreeMap::new();
    cpus.online.iter().any(|cpu| {
        *node_of_package.entry(machine.package[cpu]).or_insert(machine.node[cpu]) != machine.node[cpu]
    })
}

/// drivers/base/arch_topology.c, cpu_coregroup_mask(): the smallest of node, package and LLC, as a key per CPU.
fn arm64_coregroup(machine: &MachineSpec, rules: &DomainRules, cpus: &CpuSets) -> Vec<(u32, u32)> {
    const NODE: u32 = 0;
    const PACKAGE: u32 = 1;
    const LLC: u32 = 2;
    const L1: u32 = 3;
    let in_one_node = |ids: &[u32]| {
        let mut nodes: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        for cpu in cpus.online.iter() {
            let node = nodes.entry(ids[cpu]).or_insert(Some(machine.node[cpu]));
            if *node != Some(machine.node[cpu]) {
                *node = None;
            }
        }
        nodes
    };
    let packages = in_one_node(&machine.package);
    let llcs = in_one_node(&machine.llc);
    let whole = |nodes: &BTreeMap<u32, Option<u32>>, id: u32| nodes.get(&id).is_some_and(Option::is_some);
    (0..machine.nr_cpus())
        .map(|cpu| {
            if machine.llc_undescribed {
                if rules.undescribed_llc_is_l1 {
                    return (L1, cpu as u32);
                }
            } else if whole(&llcs, machine.llc[cpu]) {
                return (LLC, machine.llc[cpu]);
            }
            if whole(&packages, machine.package[cpu]) {
                (PACKAGE, machine.package[cpu])
            } else {
                (NODE, machine.node[cpu])
            }
        })
        .collect()
}

/// A level whose sets are the CPUs of equal key.
fn level_by_key(
    name: &'static str,
    flags: SdFlags,
    key: &dyn Fn(usize) -> (u32, u32),
    cpus: &CpuSets,
    spans: &mut SpanTable,
) -> Level {
    let nr_cpus = cpus.nr_cpus;
    let mut sets: BTreeMap<(u32, u32), (CpuMask, u32)> = BTreeMap::new();
    for cpu in cpus.counted.iter() {
        let (mask, weight) = sets.entry(key(cpu)).or_insert_with(|| (CpuMask::new(nr_cpus), 0));
        *weight += 1;
        if cpus.online.test(cpu) {
            mask.set(cpu);
        }
    }
    let none = spans.intern(CpuMask::new(nr_cpus));
    let sets: BTreeMap<_, _> =
        sets.into_iter().map(|(key, (mask, weight))| (key, (spans.intern(mask), weight))).collect();
    let of = |cpu: usize| if cpus.online.test(cpu) { sets[&key(cpu)] } else { (none, 0) };
    let (mask, weight) = (0..nr_cpus).map(of).unzip();
    Level { name, flags, distance: 0, mask, weight }
}

/// kernel/sched/topology.c, sched_init_numa(): `NODE`, then one level a distinct distance.
fn numa_levels(
    machine: &MachineSpec,
    rules: &DomainRules,
    cpus: &CpuSets,
    spans: &mut SpanTable,
) -> Vec<Level> {
    let nr_nodes = machine.distance.len();
    let nr_cpus = machine.nr_cpus();
    let mut node_mask = vec![CpuMask::new(nr_cpus); nr_nodes];
    let mut node_weight = vec![0; nr_nodes];
    for cpu in cpus.counted.iter() {
        let node = machine.node[cpu] as usize;
        if cpus.online.test(cpu) {
            node_mask[node].set(cpu);
        }
        node_weight[node] += 1;
    }
    let has_cpu: Vec<bool> = node_mask.iter().map(|mask| !mask.is_empty()).collect();
    let counts = |node: usize| has_cpu[node] || rules.cpuless_distances;

    let mut distances: Vec<u32> = Vec::new();
    for (from, row) in machine.distance.iter().enumerate().filter(|&(from, _)| counts(from)) {
        debug_assert_eq!(row[from], 10);
        distances.extend(row.iter().enumerate().filter(|&(to, _)| counts(to)).map(|(_, &distance)| distance));
        distances.sort_unstable();
        distances.dedup();
    }

    // Each level adds to the one below, node by node in order of distance.
    let by_distance: Vec<Vec<usize>> = machine
        .distance
        .iter()
        .map(|row| {
            let mut nodes: Vec<usize> = (0..nr_nodes).collect();
            nodes.sort_by_key(|&node| row[node]);
            nodes
        })
        .collect();
    let mut reached = vec![0; nr_nodes];
    let mut mask = vec![CpuMask::new(nr_cpus); nr_nodes];
    let mut weight = vec![0; nr_nodes];
    let none = spans.intern(CpuMask::new(nr_cpus));
    let mut span = vec![none; nr_nodes];
    let mut levels = Vec::new();
    for (index, &distance) in distances.iter().enumerate() {
        for from in (0..nr_nodes).filter(|&node| has_cpu[node]) {
            let before = reached[from];
            while let Some(&to) =
                by_distance[from].get(reached[from]).filter(|&&to| machine.distance[from][to] <= distance)
            {
                mask[from] = mask[from].or(&node_mask[to]);
                // The kernel forgets a node before it rebuilds for the node's last CPU.
                weight[from] += if has_cpu[to] { node_weight[to] } else { 0 };
                reached[from] += 1;
            }
            if reached[from] != before {
                span[from] = spans.intern(mask[from].clone());
            }
        }
        let node = |cpu: usize| machine.node[cpu] as usize;
        let online = |cpu: usize| cpus.online.test(cpu);
        let overlap = if rules.overlap_flag { SdFlags::OVERLAP } else { SdFlags::default() };
        levels.push(Level {
            name: if index == 0 { "NODE" } else { "NUMA" },
            flags: if index == 0 { SdFlags::default() } else { SdFlags::NUMA.with(overlap) },
            distance: if index == 0 { 0 } else { distance },
            mask: (0..nr_cpus).map(|cpu| if online(cpu) { span[node(cpu)] } else { none }).collect(),
            weight: (0..nr_cpus).map(|cpu| if online(cpu) { weight[node(cpu)] } else { 0 }).collect(),
        });
    }
    levels
}
