//! Sched domains before CFS: cores, the CPUs of a node, nodes, all nodes. Caches are not known.
//!
//! The parameters are constants of the level ([`O1Domain`]), whatever the size of the domain.

use std::collections::BTreeMap;

use super::domains::{runs, smt_masks};
use super::levels::CpuSets;
use super::{MachineSpec, RemovalReason, RemovedLevel, SchedDomain, SchedDomains, SchedGroup, SdFlags};
use crate::cpumask::CpuMask;

/// Capacity of a CPU, as `cpu_power` counts (`SCHED_LOAD_SCALE`).
const SCHED_LOAD_SCALE: u64 = 128;
/// Capacity of a CPU, as [`SchedGroup::capacity`] counts.
const SCHED_CAPACITY_SCALE: u64 = 1024;
/// Most nodes of a domain of near nodes (`SD_NODES_PER_DOMAIN`).
const SD_NODES_PER_DOMAIN: usize = 16;
/// The levels, lowest first; the kernel has no names for them.
const LEVELS: [&str; 4] = ["SMT", "CPU", "NODE", "ALLNODES"];

/// `cpu_power` of a group: 128 = one CPU.
pub fn cpu_power(group: &SchedGroup) -> u64 {
    group.capacity * SCHED_LOAD_SCALE / SCHED_CAPACITY_SCALE
}

/// Parameters of the level called `name` on a machine with `nr_cpus` CPUs.
pub fn parameters(name: &str, nr_cpus: usize) -> Option<O1Domain> {
    match LEVELS.iter().position(|&level| level == name)? {
        0 => Some(SD_SIBLING),
        1 => Some(SD_CPU),
        2 => Some(SD_NODE),
        _ => Some(sd_allnodes(nr_cpus as u64)),
    }
}

/// kernel/sched.c, 2.6.15, build_sched_domains() and cpu_attach_domain().
///
/// The machine's last-level caches are entered as they are, for the costs of a run: the kernel does not know them.
///
/// # Deviates
/// CPUs of different capacities are alike, as they are to the kernel.
pub(super) fn build(machine: &MachineSpec) -> SchedDomains {
    let nr_cpus = machine.nr_cpus();
    // No rule of other generations says anything here: nothing of this era is on its way out.
    let cpus = CpuSets::online(machine);
    let isolated = CpuMask::from_cpus(nr_cpus, machine.isolated.iter().map(|&cpu| cpu as usize));
    let map = cpus.online.and_not(&isolated);
    let mut builder = Builder::new(machine, map);
    let mut per_cpu = Vec::with_capacity(nr_cpus);
    let mut removed = Vec::with_capacity(nr_cpus);
    for cpu in 0..nr_cpus {
        let (domains, gone) =
            if builder.map.test(cpu) { builder.attach(cpu) } else { (Vec::new(), Vec::new()) };
        per_cpu.push(domains);
        removed.push(gone);
    }
    let same_llc = |a: usize, b: usize| {
        cpus.online.test(a)
            && cpus.online.test(b)
            && (machine.llc[a], machine.node[a]) == (machine.llc[b], machine.node[b])
    };
    let llc = |cpu: usize| (0..nr_cpus).filter(move |&other| other == cpu || same_llc(cpu, other));
    SchedDomains {
        nr_cpus,
        llc_id: (0..nr_cpus).map(|cpu| llc(cpu).next().unwrap_or(cpu)).collect(),
        llc_size: (0..nr_cpus).map(|cpu| llc(cpu).count() as u32).collect(),
        llc_level: vec![None; nr_cpus],
        smt_mask: smt_masks(machine, &cpus),
        per_cpu,
        nr_sgc: builder.groups.len(),
        groups: builder.groups,
        removed,
    }
}

/// A domain before it is attached: what it spans, and its groups as indices, this CPU's own first.
struct Candidate {
    level: usize,
    span: CpuMask,
    ring: Vec<usize>,
}

struct Builder<'a> {
    machine: &'a MachineSpec,
    /// CPUs that get domains.
    map: CpuMask,
    /// By node: its CPUs.
    node_cpus: Vec<CpuMask>,
    groups: Vec<SchedGroup>,
    /// Group by level, first CPU and number of CPUs.
    group_ids: BTreeMap<(usize, usize, usize), usize>,
}

impl<'a> Builder<'a> {
    fn new(machine: &'a MachineSpec, map: CpuMask) -> Self {
        let of_node = |node: usize| {
            CpuMask::from_cpus(
                machine.nr_cpus(),
                map.iter().filter(|&cpu| machine.node[cpu] as usize == node),
            )
        };
        let node_cpus = (0..machine.distance.len()).map(of_node).collect();
        Self { machine, map, node_cpus, groups: Vec::new(), group_ids: BTreeMap::new() }
    }

    /// The domains of a CPU that decide something, and the levels that do not.
    fn attach(&mut self, cpu: usize) -> (Vec<SchedDomain>, Vec<RemovedLevel>) {
        let candidates = self.candidates(cpu);
        let mut kept: Vec<Candidate> = Vec::new();
        let mut removed = Vec::new();
        for candidate in candidates {
            match self.degenerate(kept.last(), &candidate) {
                None => kept.push(candidate),
                Some(reason) => removed.push(RemovedLevel {
                    name: LEVELS[candidate.level],
                    level: candidate.level as u32,
                    span_weight: candidate.span.weight() as u32,
                    reason,
                }),
            }
        }
        let nr = kept.len();
        let mut child_flags = SdFlags::default();
        let mut domains = Vec::with_capacity(nr);
        for (index, candidate) in kept.into_iter().enumerate() {
            let parameters = self.parameters(candidate.level);
            let flags = flags(&parameters);
            domains.push(SchedDomain {
                name: LEVELS[candidate.level],
                span_weight: candidate.span.weight() as u32,
                span: candidate.span,
                flags,
                child_flags,
                is_root: index + 1 == nr,
                imbalance_pct: parameters.imbalance_pct as u32,
                busy_factor: parameters.busy_factor as u32,
                cache_nice_tries: parameters.cache_nice_tries,
                min_interval_ms: parameters.interval_ms[0],
                max_interval_ms: parameters.interval_ms[1],
                imb_numa_nr: 0,
                level: candidate.level as u32,
                ring: candidate.ring,
            });
            child_flags = flags;
        }
        (domains, removed)
    }

    fn parameters(&self, level: usize) -> O1Domain {
        parameters(LEVELS[level], self.machine.nr_cpus()).unwrap_or_default()
    }

    /// kernel/sched.c, 2.6.15, build_sched_domains(): a CPU's domains, lowest first.
    fn candidates(&mut self, cpu: usize) -> Vec<Candidate> {
        let machine = self.machine;
        let node = machine.node[cpu] as usize;
        let core = self.threads(cpu);
        let in_node = self.node_cpus[node].clone();
        let threads: Vec<CpuMask> = core.iter().map(|cpu| self.single(cpu)).collect();
        let cores: Vec<CpuMask> = self.partition(&in_node);
        let mut candidates = vec![(0, core, threads), (1, in_node, cores)];
        let nr_nodes = self.node_cpus.iter().filter(|cpus| !cpus.is_empty()).count();
        if nr_nodes > 1 {
            let near = self.near_nodes(node);
            let span = self.union(&near);
            candidates.push((2, span, near.iter().map(|&node| self.node_cpus[node].clone()).collect()));
        }
        if nr_nodes > SD_NODES_PER_DOMAIN {
            let nodes = self.node_cpus.iter().filter(|cpus| !cpus.is_empty()).cloned().collect();
            candidates.push((3, self.map.clone(), nodes));
        }
        let candidate = |(level, span, mut members): (usize, CpuMask, Vec<CpuMask>)| {
            // A ring goes by the lowest CPUs of its groups and starts with this CPU's own.
            members.sort_by_key(|members| members.first());
            let own = members.iter().position(|members| members.test(cpu)).unwrap_or(0);
            members.rotate_left(own);
            let ring = members.iter().map(|members| self.group(level, members)).collect();
            Candidate { level, span, ring }
        };
        candidates.into_iter().map(candidate).collect()
    }

    fn single(&self, cpu: usize) -> CpuMask {
        CpuMask::from_cpus(self.machine.nr_cpus(), [cpu])
    }

    /// `cpu_sibling_map`, as far as it gets domains.
    fn threads(&self, cpu: usize) -> CpuMask {
        let core = &self.machine.core;
        CpuMask::from_cpus(self.machine.nr_cpus(), self.map.iter().filter(|&other| core[other] == core[cpu]))
    }

    /// The cores of a set of CPUs.
    fn partition(&self, cpus: &CpuMask) -> Vec<CpuMask> {
        let mut cores: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for cpu in cpus.iter() {
            cores.entry(self.machine.core[cpu]).or_default().push(cpu);
        }
        cores.into_values().map(|cpus| CpuMask::from_cpus(self.machine.nr_cpus(), cpus)).collect()
    }

    /// kernel/sched.c, 2.6.15, sched_domain_node_span(): a node and those nearest to it that have CPUs.
    fn near_nodes(&self, node: usize) -> Vec<usize> {
        let nr_nodes = self.node_cpus.len();
        let mut others: Vec<usize> = (1..nr_nodes)
            .map(|ahead| (node + ahead) % nr_nodes)
            .filter(|&other| !self.node_cpus[other].is_empty())
            .collect();
        // Of equal distances the next node after this one comes first.
        others.sort_by_key(|&other| self.machine.distance[node][other]);
        others.truncate(SD_NODES_PER_DOMAIN - 1);
        others.push(node);
        others
    }

    fn union(&self, nodes: &[usize]) -> CpuMask {
        let none = CpuMask::new(self.machine.nr_cpus());
        nodes.iter().fold(none, |span, &node| span.or(&self.node_cpus[node]))
    }

    /// The group of a level that holds `cpus`.
    fn group(&mut self, level: usize, cpus: &CpuMask) -> usize {
        let id = cpus.first().unwrap_or(0);
        let key = (level, id, cpus.weight());
        if let Some(&index) = self.group_ids.get(&key) {
            return index;
        }
        let list: Vec<usize> = cpus.iter().collect();
        let cores = self.partition(cpus);
        let power = match level {
            // A node is as strong as its cores are together.
            2 => cores.iter().map(|core| shared_power(core.weight())).sum(),
            _ => shared_power(list.len()),
        };
        let index = self.groups.len();
        self.groups.push(SchedGroup {
            id,
            runs: runs(&list),
            weight: list.len() as u32,
            balance_mask: cpus.clone(),
            sgc: index,
            capacity: power * SCHED_CAPACITY_SCALE / SCHED_LOAD_SCALE,
            min_capacity: SCHED_CAPACITY_SCALE,
            max_capacity: SCHED_CAPACITY_SCALE,
            flags: SdFlags::default(),
            cores: cores.len() as u32,
            asym_prefer_cpu: id,
            span: cpus.clone(),
        });
        self.group_ids.insert(key, index);
        index
    }

    /// kernel/sched.c, 2.6.15, sd_degenerate() and sd_parent_degenerate(): why a level decides nothing above `child`.
    fn degenerate(&self, child: Option<&Candidate>, sd: &Candidate) -> Option<RemovalReason> {
        let parameters = self.parameters(sd.level);
        if sd.span.weight() == 1 {
            return Some(RemovalReason::OneCpu);
        }
        let one_group = sd.ring.len() == 1;
        let without_groups = parameters.wake_idle || parameters.wake_affine || parameters.wake_balance;
        if one_group && !without_groups {
            return Some(RemovalReason::OneGroup);
        }
        let child = child.filter(|child| child.span == sd.span)?;
        // Affine wake-ups include passive balancing.
        let below = self.parameters(child.level);
        let wakes_alike = (!parameters.wake_idle || below.wake_idle)
            && (!parameters.wake_affine || below.wake_affine)
            && (!parameters.wake_balance || below.wake_balance || below.wake_affine);
        (one_group && wakes_alike).then_some(RemovalReason::SameSpanAs(LEVELS[child.level]))
    }
}

/// kernel/sched.c, 2.6.15, build_sched_domains(): CPUs that share a core add a tenth each.
fn shared_power(nr_cpus: usize) -> u64 {
    SCHED_LOAD_SCALE + SCHED_LOAD_SCALE * (nr_cpus as u64 - 1) / 10
}

fn flags(parameters: &O1Domain) -> SdFlags {
    [
        (parameters.balance_newidle, SdFlags::BALANCE_NEWIDLE),
        (parameters.balance_exec, SdFlags::BALANCE_EXEC),
        (parameters.balance_fork, SdFlags::BALANCE_FORK),
        (parameters.wake_affine, SdFlags::WAKE_AFFINE),
        (parameters.share_cpupower, SdFlags::SHARE_CPUCAPACITY),
        (parameters.wake_idle, SdFlags::WAKE_IDLE),
        (parameters.wake_balance, SdFlags::WAKE_BALANCE),
    ]
    .into_iter()
    .filter(|&(on, _)| on)
    .fold(SdFlags::default(), |flags, (_, flag)| flags.with(flag))
}

/// What balancing reads of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct O1Domain {
    /// Imbalance to tolerate, in per cent.
    pub imbalance_pct: u64,
    /// Load index of a busy CPU's pass: 0 = load now, 1 to 3 = an average.
    pub busy_idx: usize,
    /// Load index of an idle CPU's pass.
    pub idle_idx: usize,
    /// Load index of a newly idle CPU's pass.
    pub newidle_idx: usize,
    /// Load index of wake-ups.
    pub wake_idx: usize,
    /// Load index of fork and exec.
    pub forkexec_idx: usize,
    /// Failures to tolerate before cache-hot tasks move.
    pub cache_nice_tries: u32,
    /// Time after which a task that does not run is cache-cold, ns.
    pub cache_hot_time_ns: i64,
    /// Shortest and longest interval between passes, ms.
    pub interval_ms: [u64; 2],
    /// Factor on the interval of busy CPUs.
    pub busy_factor: u64,
    /// SD_BALANCE_NEWIDLE.
    pub balance_newidle: bool,
    /// SD_BALANCE_EXEC.
    pub balance_exec: bool,
    /// SD_BALANCE_FORK.
    pub balance_fork: bool,
    /// SD_WAKE_IDLE.
    pub wake_idle: bool,
    /// SD_SHARE_CPUPOWER: the domain is a core.
    pub share_cpupower: bool,
    /// SD_WAKE_AFFINE.
    pub wake_affine: bool,
    /// SD_WAKE_BALANCE.
    pub wake_balance: bool,
}

/// Domain of the hardware threads of a core: include/linux/topology.h, 2.6.15, SD_SIBLING_INIT.
pub const SD_SIBLING: O1Domain = O1Domain {
    imbalance_pct: 110,
    busy_idx: 0,
    idle_idx: 0,
    newidle_idx: 1,
    wake_idx: 0,
    forkexec_idx: 0,
    cache_nice_tries: 0,
    cache_hot_time_ns: 0,
    interval_ms: [1, 2],
    busy_factor: 8,
    balance_newidle: true,
    balance_exec: true,
    balance_fork: false,
    wake_idle: true,
    share_cpupower: true,
    wake_affine: true,
    wake_balance: false,
};

/// Domain of the packages of a node: include/linux/topology.h, 2.6.15, SD_CPU_INIT.
pub const SD_CPU: O1Domain = O1Domain {
    imbalance_pct: 125,
    busy_idx: 2,
    idle_idx: 1,
    newidle_idx: 2,
    wake_idx: 1,
    forkexec_idx: 1,
    cache_nice_tries: 1,
    cache_hot_time_ns: 2_500_000,
    interval_ms: [1, 4],
    busy_factor: 64,
    balance_newidle: true,
    balance_exec: true,
    balance_fork: false,
    wake_idle: false,
    share_cpupower: false,
    wake_affine: true,
    wake_balance: false,
};

/// Domain of near nodes: include/asm-i386/topology.h, 2.6.15, SD_NODE_INIT.
pub const SD_NODE: O1Domain = O1Domain {
    imbalance_pct: 125,
    busy_idx: 3,
    idle_idx: 1,
    newidle_idx: 2,
    wake_idx: 1,
    forkexec_idx: 0,
    cache_nice_tries: 1,
    cache_hot_time_ns: 10_000_000,
    interval_ms: [8, 32],
    busy_factor: 32,
    balance_newidle: false,
    balance_exec: true,
    balance_fork: true,
    wake_idle: false,
    share_cpupower: false,
    wake_affine: false,
    wake_balance: true,
};

/// Domain of all nodes of a machine with `nr_cpus` CPUs: include/linux/topology.h, 2.6.15, SD_ALLNODES_INIT.
pub fn sd_allnodes(nr_cpus: u64) -> O1Domain {
    O1Domain {
        imbalance_pct: 133,
        busy_idx: 3,
        idle_idx: 3,
        newidle_idx: 0,
        wake_idx: 0,
        forkexec_idx: 0,
        cache_nice_tries: 1,
        cache_hot_time_ns: 10_000_000,
        interval_ms: [64, 64 * nr_cpus],
        busy_factor: 128,
        balance_newidle: false,
        balance_exec: false,
        balance_fork: false,
        wake_idle: false,
        share_cpupower: false,
        wake_affine: false,
        wake_balance: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{DomainRules, build_sched_domains};

    fn domains(machine: &MachineSpec) -> SchedDomains {
        build_sched_domains(machine, DomainRules::for_kernel("v2.6.15").unwrap()).unwrap()
    }

    fn names(domains: &SchedDomains, cpu: usize) -> Vec<(&'static str, u32)> {
        domains.per_cpu[cpu].iter().map(|sd| (sd.name, sd.span_weight)).collect()
    }

    /// Two nodes of two cores of two threads each.
    fn two_nodes_smt() -> MachineSpec {
        let by = |size: u32| (0..8).map(|cpu| cpu / size).collect::<Vec<u32>>();
        MachineSpec {
            core: by(2),
            cluster: by(2),
            llc: by(4),
            die: by(4),
            package: by(4),
            node: by(4),
            distance: vec![vec![10, 20], vec![20, 10]],
            ..MachineSpec::uniform("two-nodes-smt", 8)
        }
    }

    #[test]
    fn cores_nodes_and_all_near_nodes_have_domains() {
        let domains = domains(&two_nodes_smt());
        assert_eq!(names(&domains, 5), [("SMT", 2), ("CPU", 4), ("NODE", 8)]);
        let power = |cpu: usize, level: usize| -> Vec<u64> {
            domains.per_cpu[cpu][level].ring.iter().map(|&group| cpu_power(&domains.groups[group])).collect()
        };
        // 128 + 128 / 10 a core of two threads; a node is its cores.
        assert_eq!((power(5, 0), power(5, 1), power(5, 2)), (vec![128; 2], vec![140; 2], vec![280; 2]));
        let first = |level: usize| -> Vec<usize> {
            domains.per_cpu[5][level].ring.iter().map(|&group| domains.groups[group].id).collect()
        };
        assert_eq!((first(0), first(1), first(2)), (vec![5, 4], vec![4, 6], vec![4, 0]));
        assert_eq!(domains.llc_id, [0, 0, 0, 0, 4, 4, 4, 4], "costs know the caches");
    }

    #[test]
    fn levels_that_decide_nothing_are_removed() {
        let flat = domains(&MachineSpec::uniform("flat", 4));
        assert_eq!(names(&flat, 0), [("CPU", 4)]);
        assert_eq!((flat.removed[0][0].name, flat.removed[0][0].reason), ("SMT", RemovalReason::OneCpu));
        let one_core = domains(&MachineSpec {
            core: vec![0, 0],
            cluster: vec![0, 0],
            ..MachineSpec::uniform("core", 2)
        });
        assert_eq!(names(&one_core, 1), [("SMT", 2)]);
        assert_eq!(one_core.removed[1][0].reason, RemovalReason::SameSpanAs("SMT"));
        let mut machine = two_nodes_smt();
        machine.isolated = vec![0];
        machine.offline = vec![7];
        let parts = domains(&machine);
        assert_eq!(names(&parts, 0), []);
        assert_eq!(names(&parts, 1), [("CPU", 3), ("NODE", 6)]);
    }

    #[test]
    fn more_than_sixteen_nodes_have_a_level_of_near_nodes_and_one_of_all() {
        let ids: Vec<u32> = (0..36).map(|cpu| cpu / 2).collect();
        let between = |a: i32, b: i32| if a == b { 10 } else { 20 + (a - b).unsigned_abs() };
        let machine = MachineSpec {
            llc: ids.clone(),
            die: ids.clone(),
            package: ids.clone(),
            node: ids,
            distance: (0..18).map(|a| (0..18).map(|b| between(a, b)).collect()).collect(),
            ..MachineSpec::uniform("many", 36)
        };
        let domains = domains(&machine);
        assert_eq!(names(&domains, 35), [("CPU", 2), ("NODE", 32), ("ALLNODES", 36)]);
        let node = &domains.per_cpu[35][1];
        assert!(!node.span.test(0) && node.span.test(4), "the two farthest nodes are left out");
        let all = &domains.per_cpu[35][2];
        assert_eq!((all.max_interval_ms, all.ring.len()), (64 * 36, 18));
    }
}
