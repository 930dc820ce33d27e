//! Sched domains as a JSON document, for readers outside the core.

use std::collections::HashMap;

use serde::Serialize;

use super::domains::runs;
use super::{DomainRules, MachineSpec, SchedDomain, SchedDomains, SchedGroup, build_sched_domains};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};

/// The domains that the kernel labelled `kernel` builds on `machine`, as JSON.
///
/// Sets of CPUs are lists as the kernel prints them (`0-3,8`). A domain's ring is `rings[ring]`, indices into `groups`,
/// read from `ring_start` on and round: CPUs of one domain mostly share a ring and start in different places. Errors:
/// a kernel that is not known, and a machine that [`MachineSpec::validate`] refuses.
pub fn domains_json(machine: &MachineSpec, kernel: &str) -> Result<String> {
    let rules = DomainRules::for_kernel(kernel)?;
    let domains = build_sched_domains(machine, rules)?;
    let mut rings = Rings::default();
    let cpus = (0..domains.nr_cpus).map(|cpu| describe_cpu(rules, &domains, cpu, &mut rings)).collect();
    let groups = domains.groups.iter().map(|group| describe_group(rules, group)).collect();
    let described = DescribedDomains { kernel, groups, rings: rings.rings, cpus };
    serde_json::to_string(&described)
        .map_err(|error| SimError::Invariant(format!("domains as JSON: {error}")))
}

/// `mask` as the kernel prints a list of CPUs.
pub fn cpulist(mask: &CpuMask) -> String {
    let cpus: Vec<usize> = mask.iter().collect();
    let run = |&(first, end): &(usize, usize)| {
        if end - first == 1 { first.to_string() } else { format!("{first}-{}", end - 1) }
    };
    runs(&cpus).iter().map(run).collect::<Vec<_>>().join(",")
}

fn describe_group(rules: &DomainRules, group: &SchedGroup) -> DescribedGroup {
    DescribedGroup {
        id: group.id,
        span: cpulist(&group.span),
        weight: group.weight,
        balance_mask: cpulist(&group.balance_mask),
        sgc: group.sgc,
        capacity: group.capacity,
        min_capacity: group.min_capacity,
        max_capacity: group.max_capacity,
        flags: rules.flag_names(group.flags),
        cores: group.cores,
        asym_prefer_cpu: group.asym_prefer_cpu,
    }
}

fn describe_cpu(rules: &DomainRules, domains: &SchedDomains, cpu: usize, rings: &mut Rings) -> DescribedCpu {
    DescribedCpu {
        cpu,
        domains: domains.per_cpu[cpu].iter().map(|sd| describe_domain(rules, sd, rings)).collect(),
        removed: domains.removed[cpu]
            .iter()
            .map(|gone| DescribedRemoval {
                name: gone.name,
                level: gone.level,
                span_weight: gone.span_weight,
                reason: gone.reason.to_string(),
            })
            .collect(),
        llc_id: domains.llc_id[cpu],
        llc_size: domains.llc_size[cpu],
        smt: cpulist(&domains.smt_mask[cpu]),
    }
}

fn describe_domain(rules: &DomainRules, sd: &SchedDomain, rings: &mut Rings) -> DescribedDomain {
    let (ring, ring_start) = rings.place(&sd.ring);
    DescribedDomain {
        name: sd.name,
        level: sd.level,
        span: cpulist(&sd.span),
        span_weight: sd.span_weight,
        flags: rules.flag_names(sd.flags),
        imbalance_pct: sd.imbalance_pct,
        busy_factor: sd.busy_factor,
        cache_nice_tries: sd.cache_nice_tries,
        min_interval_ms: sd.min_interval_ms,
        max_interval_ms: sd.max_interval_ms,
        imb_numa_nr: sd.imb_numa_nr,
        ring,
        ring_start,
        nr_groups: sd.ring.len(),
    }
}

/// Rings that differ in more than where they start.
#[derive(Default)]
struct Rings {
    rings: Vec<Vec<usize>>,
    known: HashMap<Vec<usize>, usize>,
}

impl Rings {
    /// The index of a ring, and where in it this one starts.
    fn place(&mut self, ring: &[usize]) -> (usize, usize) {
        let lowest = (0..ring.len()).min_by_key(|&place| ring[place]).unwrap_or(0);
        let (before, from) = ring.split_at(lowest);
        let turned = [from, before].concat();
        let next = self.rings.len();
        let index = *self.known.entry(turned.clone()).or_insert(next);
        if index == next {
            self.rings.push(turned);
        }
        (index, (ring.len() - lowest) % ring.len().max(1))
    }
}

#[derive(Serialize)]
struct DescribedDomains<'a> {
    kernel: &'a str,
    groups: Vec<DescribedGroup>,
    rings: Vec<Vec<usize>>,
    cpus: Vec<DescribedCpu>,
}

#[derive(Serialize)]
struct DescribedGroup {
    id: usize,
    span: String,
    weight: u32,
    balance_mask: String,
    sgc: usize,
    capacity: u64,
    min_capacity: u64,
    max_capacity: u64,
    flags: Vec<&'static str>,
    cores: u32,
    asym_prefer_cpu: usize,
}

#[derive(Serialize)]
struct DescribedCpu {
    cpu: usize,
    domains: Vec<DescribedDomain>,
    removed: Vec<DescribedRemoval>,
    llc_id: usize,
    llc_size: u32,
    smt: String,
}

#[derive(Serialize)]
struct DescribedDomain {
    name: &'static str,
    level: u32,
    span: String,
    span_weight: u32,
    flags: Vec<&'static str>,
    imbalance_pct: u32,
    busy_factor: u32,
    cache_nice_tries: u32,
    min_interval_ms: u64,
    max_interval_ms: u64,
    imb_numa_nr: u32,
    nr_groups: usize,
    ring: usize,
    ring_start: usize,
}

#[derive(Serialize)]
struct DescribedRemoval {
    name: &'static str,
    level: u32,
    span_weight: u32,
    reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_cpus_like_the_kernel() {
        let list = |cpus: &[usize]| cpulist(&CpuMask::from_cpus(130, cpus.iter().copied()));
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[5]), "5");
        assert_eq!(list(&[0, 1, 2, 63, 64, 129]), "0-2,63-64,129");
    }

    #[test]
    fn describes_domains_groups_and_what_is_missing() {
        let json = domains_json(&MachineSpec::uniform("duo", 2), "v5.6").unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let cpu = &value["cpus"][1];
        assert_eq!(cpu["domains"][0]["name"], "MC");
        assert_eq!(value["rings"], serde_json::json!([[0, 1]]));
        assert_eq!([&cpu["domains"][0]["ring"], &cpu["domains"][0]["ring_start"]], [0, 1]);
        assert_eq!(value["groups"][0]["span"], "0");
        assert_eq!(cpu["removed"][0]["reason"], "one CPU only");
        let error = domains_json(&MachineSpec::uniform("duo", 2), "v4.2").unwrap_err().to_string();
        assert!(error.contains("kernel = \"v4.2\": must be one of v2.6.15, v5.4"), "{error}");
    }
}
