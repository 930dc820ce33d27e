//! Domains of kernels and machines that no recording covers: v5.4 to v5.7, large and lopsided machines.

use schedlab_core::topology::{
    DomainRules, MachineSpec, RemovalReason, SchedDomains, SdFlags, build_sched_domains,
};

/// `nodes` nodes of `cores` cores of `threads` threads, siblings adjacent, one LLC and package a node.
fn numa(distance: Vec<Vec<u32>>, cores: usize, threads: usize) -> MachineSpec {
    let nr_cpus = distance.len() * cores * threads;
    let by = |size: usize| (0..nr_cpus).map(|cpu| (cpu / size) as u32).collect::<Vec<u32>>();
    MachineSpec {
        core: by(threads),
        cluster: by(threads),
        llc: by(cores * threads),
        die: by(cores * threads),
        package: by(cores * threads),
        node: by(cores * threads),
        distance,
        ..MachineSpec::uniform("numa", nr_cpus)
    }
}

fn flat(nodes: usize, distance: u32) -> Vec<Vec<u32>> {
    (0..nodes).map(|from| (0..nodes).map(|to| if from == to { 10 } else { distance }).collect()).collect()
}

/// `SMT MC NUMA` and so on.
fn names(domains: &SchedDomains, cpu: usize) -> Vec<&'static str> {
    domains.per_cpu[cpu].iter().map(|sd| sd.name).collect()
}

fn spans(domains: &SchedDomains, cpu: usize) -> Vec<usize> {
    domains.per_cpu[cpu].iter().map(|sd| sd.span.weight()).collect()
}

#[test]
fn v5_7_keeps_its_own_percentages_and_busy_factor() {
    let domains = build_sched_domains(&numa(flat(2, 20), 4, 2), &DomainRules::V5_7).unwrap();
    assert_eq!(names(&domains, 3), ["SMT", "MC", "NUMA"]);
    let of = |f: fn(&schedlab_core::topology::SchedDomain) -> u32| {
        domains.per_cpu[3].iter().map(f).collect::<Vec<_>>()
    };
    assert_eq!(of(|sd| sd.imbalance_pct), [110, 117, 125]);
    assert_eq!(of(|sd| sd.cache_nice_tries), [0, 1, 2]);
    assert_eq!(of(|sd| sd.busy_factor), [32, 32, 32]);
    assert_eq!(of(|sd| sd.imb_numa_nr), [0, 0, 0]);
    assert_eq!(domains.llc_level[3], Some(1));
    assert_eq!((domains.llc_id[3], domains.llc_size[3]), (0, 8));
    assert_eq!(domains.smt_mask[3].iter().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn the_dual_quad_has_a_die_level_over_two_last_level_caches() {
    let mut machine = MachineSpec::uniform("dual-quad", 8);
    machine.arch = "arm64".to_owned();
    machine.llc = vec![0, 0, 0, 0, 1, 1, 1, 1];
    machine.cluster = machine.llc.clone();
    let domains = build_sched_domains(&machine, &DomainRules::V5_4).unwrap();
    assert_eq!(names(&domains, 5), ["MC", "DIE"]);
    assert_eq!(spans(&domains, 5), [4, 8]);
    assert_eq!(domains.per_cpu[5].iter().map(|sd| sd.imbalance_pct).collect::<Vec<_>>(), [117, 125]);
    let ring = |level: usize| {
        let ids = domains.per_cpu[5][level].ring.iter().map(|&group| domains.groups[group].id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ring(0), [5, 6, 7, 4]);
    assert_eq!(ring(1), [4, 0]);
    // Both CPUs of a cluster see the very same group objects.
    assert_eq!(domains.per_cpu[5][1].ring, domains.per_cpu[7][1].ring);
    let reasons: Vec<_> =
        domains.removed[5].iter().map(|gone| (gone.name, gone.reason.to_string())).collect();
    assert_eq!(
        reasons,
        [("SMT", "one CPU only".to_owned()), ("NODE", "not built: DIE already spans every CPU".to_owned())]
    );
}

#[test]
fn imb_numa_nr_follows_the_number_of_last_level_caches() {
    // One LLC a node: an eighth of the node's CPUs; the machine holds two nodes.
    let one = build_sched_domains(&numa(flat(2, 20), 16, 2), &DomainRules::V6_12).unwrap();
    assert_eq!(one.per_cpu[0].iter().map(|sd| sd.imb_numa_nr).collect::<Vec<_>>(), [0, 0, 4]);
    // Four LLCs a node: one task an LLC.
    let mut machine = numa(flat(2, 20), 16, 2);
    machine.llc = (0..64).map(|cpu| cpu / 8).collect();
    let four = build_sched_domains(&machine, &DomainRules::V6_12).unwrap();
    assert_eq!(names(&four, 0), ["SMT", "MC", "PKG", "NUMA"]);
    assert_eq!(four.per_cpu[0].iter().map(|sd| sd.imb_numa_nr).collect::<Vec<_>>(), [0, 0, 4, 4]);
}

#[test]
fn wake_up_balance_of_asymmetric_machines_ended_with_v5_7() {
    let mut machine = MachineSpec::uniform("big.LITTLE", 8);
    machine.arch = "arm64".to_owned();
    machine.llc = vec![0, 0, 0, 0, 1, 1, 1, 1];
    machine.cluster = machine.llc.clone();
    machine.capacity = vec![446, 446, 446, 446, 1024, 1024, 1024, 1024];
    let v5_4 = build_sched_domains(&machine, &DomainRules::V5_4).unwrap();
    let v5_7 = build_sched_domains(&machine, &DomainRules::V5_7).unwrap();
    for sd in &v5_4.per_cpu[0] {
        assert!(sd.flags.has(SdFlags::BALANCE_WAKE), "{}", sd.name);
    }
    for (sd, asym) in v5_7.per_cpu[0].iter().zip([false, true]) {
        assert!(!sd.flags.has(SdFlags::BALANCE_WAKE));
        assert_eq!(sd.flags.has(SdFlags::ASYM_CPUCAPACITY), asym, "{}", sd.name);
        assert!(!sd.flags.has(SdFlags::ASYM_CPUCAPACITY_FULL));
    }
    assert!(!v5_7.per_cpu[0][0].flags.has(SdFlags::PREFER_SIBLING));
    let die = &v5_7.per_cpu[0][1];
    let capacities: Vec<_> = die.ring.iter().map(|&group| v5_7.groups[group].capacity).collect();
    assert_eq!(capacities, [4 * 446, 4 * 1024]);
}

#[test]
fn power9_shares_its_l2_between_two_cores() {
    let mut machine = numa(flat(2, 20), 4, 4);
    machine.arch = "powerpc".to_owned();
    machine.cluster = (0..32).map(|cpu| cpu / 8).collect();
    machine.llc = machine.cluster.clone();
    let domains = build_sched_domains(&machine, &DomainRules::V5_7).unwrap();
    assert_eq!(names(&domains, 9), ["SMT", "CACHE", "DIE", "NUMA"]);
    assert_eq!(spans(&domains, 9), [4, 8, 16, 32]);
    assert_eq!(domains.llc_size[9], 8);
    assert!(!domains.per_cpu[9][3].flags.has(SdFlags::WAKE_AFFINE), "RECLAIM_DISTANCE is 10 on powerpc");
}

/// Node 0 reaches nobody at distance 20; nodes 1 and 2 reach each other.
#[test]
fn a_numa_level_over_one_node_survives_only_before_v5_10() {
    let distance = vec![vec![10, 30, 30], vec![30, 10, 20], vec![30, 20, 10]];
    let machine = numa(distance, 2, 1);
    let old = build_sched_domains(&machine, &DomainRules::V5_7).unwrap();
    assert_eq!(names(&old, 0), ["MC", "NUMA", "NUMA"]);
    assert_eq!(spans(&old, 0), [2, 2, 6]);
    assert_eq!(old.per_cpu[0][1].ring.len(), 1);
    let new = build_sched_domains(&machine, &DomainRules::V5_10).unwrap();
    assert_eq!(names(&new, 0), ["MC", "NUMA"]);
    assert!(
        new.removed[0]
            .iter()
            .any(|gone| gone.reason == RemovalReason::SameSpanAs("MC") && gone.name == "NUMA")
    );
}

#[test]
fn asym_packing_prefers_the_cpu_of_highest_priority() {
    let mut machine = numa(flat(1, 20), 4, 2);
    machine.asym_priority = vec![1, 1, 1, 1, 3, 3, 2, 2];
    let domains = build_sched_domains(&machine, &DomainRules::V6_12).unwrap();
    let mc = &domains.per_cpu[0][1];
    assert!(mc.flags.has(SdFlags::ASYM_PACKING));
    assert!(!domains.per_cpu[0][0].flags.has(SdFlags::ASYM_PACKING));
    let preferred: Vec<_> = mc.ring.iter().map(|&group| domains.groups[group].asym_prefer_cpu).collect();
    assert_eq!(preferred, [0, 2, 4, 6]);
    assert_eq!(domains.groups[mc.ring[2]].cores, 1);
}

/// Memory-only node 1 between two nodes with CPUs.
#[test]
fn a_node_without_cpus_takes_no_part() {
    let machine = MachineSpec {
        llc: vec![0, 0, 1, 1],
        die: vec![0, 0, 1, 1],
        package: vec![0, 0, 1, 1],
        node: vec![0, 0, 2, 2],
        distance: vec![vec![10, 15, 20], vec![15, 10, 15], vec![20, 15, 10]],
        ..MachineSpec::uniform("memory-only", 4)
    };
    for (_, rules) in DomainRules::KERNELS {
        let domains = build_sched_domains(&machine, rules).unwrap();
        let last = domains.per_cpu[0].last().unwrap();
        let name = if rules.o1 { "NODE" } else { "NUMA" };
        assert_eq!((last.name, last.span.weight()), (name, 4), "{}", rules.kernel);
    }
}

#[test]
fn offline_and_isolated_cpus_have_no_domains() {
    let mut machine = numa(flat(2, 20), 4, 1);
    machine.offline = vec![1];
    machine.isolated = vec![6];
    let domains = build_sched_domains(&machine, &DomainRules::V5_7).unwrap();
    assert!(domains.per_cpu[1].is_empty() && domains.per_cpu[6].is_empty());
    assert_eq!(spans(&domains, 0), [3, 6]);
    assert_eq!((domains.llc_id[6], domains.llc_size[6], domains.llc_level[6]), (6, 1, None));
}

/// 32 nodes in a hypercube of 64 cores with two threads: the largest machine that is allowed.
#[test]
fn builds_4096_cpus() {
    let hops = |from: usize, to: usize| 10 + 10 * (from ^ to).count_ones();
    let distance = (0..32).map(|from| (0..32).map(|to| hops(from, to)).collect()).collect();
    let machine = numa(distance, 64, 2);
    for rules in [&DomainRules::V5_7, &DomainRules::V7_3] {
        let domains = build_sched_domains(&machine, rules).unwrap();
        assert_eq!(spans(&domains, 4095), [2, 128, 768, 2048, 3328, 3968, 4096]);
        for cpu in [0, 1, 2047, 4095] {
            check_rings(&domains, cpu);
        }
    }
    let flat = build_sched_domains(&MachineSpec::uniform("flat", 4096), &DomainRules::V5_7).unwrap();
    assert_eq!(flat.per_cpu[4095][0].ring.len(), 4096);
    assert_eq!(flat.groups.len(), 4096);
}

/// What every ring keeps: it covers its domain, starts with this CPU, and its groups add up.
fn check_rings(domains: &SchedDomains, cpu: usize) {
    for sd in &domains.per_cpu[cpu] {
        assert!(domains.groups[sd.ring[0]].span.test(cpu), "cpu{cpu} {}", sd.name);
        let mut left = sd.span.clone();
        for &index in &sd.ring {
            let group = &domains.groups[index];
            left = left.and_not(&group.span);
            assert_eq!(group.weight as usize, group.span.weight());
            assert_eq!(group.capacity, 1024 * u64::from(group.weight));
            assert_eq!(group.runs.iter().map(|(from, to)| to - from).sum::<usize>(), group.span.weight());
            assert!(
                group.balance_mask.is_subset(&group.span) && group.balance_mask.first() == Some(group.id)
            );
            assert!(group.sgc < domains.nr_sgc);
        }
        assert!(left.is_empty(), "cpu{cpu} {} leaves out {left:?}", sd.name);
    }
}
