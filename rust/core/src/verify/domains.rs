//! Sched domains of real kernels: what a stock kernel built on an emulated machine.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Deserialize;

use crate::topology::spec::MAX_CPUS;
use crate::topology::{DomainRules, MachineSpec, SchedDomains, SdFlags, build_sched_domains};

/// Families of this file: vector files are named `<family>.jsonl.gz`.
pub const FAMILIES: [&str; 6] =
    ["domains-5.10", "domains-6.1", "domains-6.12", "domains-7.3", "domains-6.1-arm64", "domains-6.12-arm64"];

/// Builds the domains of one recorded machine and compares all that its kernel printed.
///
/// `Err` names the machine and the first thing that differs, expected and got.
pub fn check(family: &str, line: &str) -> Result<(), String> {
    let case: Case =
        serde_json::from_str(line).map_err(|error| format!("{family}: not a vector: {error}"))?;
    check_case(family, &case).map_err(|what| format!("{family} {}: {what}", case.name))
}

fn check_case(family: &str, case: &Case) -> Result<(), String> {
    let rules = rules_of(family)?;
    let machine = machine_of(case)?;
    let domains = build_sched_domains(&machine, rules).map_err(|error| error.to_string())?;
    let online: Vec<String> = online_cpus(case).map(|cpu| cpu.to_string()).collect();
    for cpu in case.truth.keys() {
        if !online.contains(cpu) {
            return Err(format!("cpu{cpu} has domains, but is not online"));
        }
    }
    for cpu in online_cpus(case) {
        let truth =
            case.truth.get(&cpu.to_string()).ok_or_else(|| format!("cpu{cpu} is online without domains"))?;
        let got = &domains.per_cpu[cpu];
        let names: Vec<&str> = got.iter().map(|sd| sd.name).collect();
        let expected: Vec<&str> = truth.domains.iter().map(|sd| sd.name.as_str()).collect();
        same(&format!("cpu{cpu} names"), &expected, &names)?;
        for (index, expected) in truth.domains.iter().enumerate() {
            check_domain(rules, &domains, cpu, index, expected)
                .map_err(|what| format!("cpu{cpu} domain{index} {what}"))?;
        }
    }
    Ok(())
}

/// `domains-6.12-arm64` is kernel v6.12.
fn rules_of(family: &str) -> Result<&'static DomainRules, String> {
    let version =
        family.strip_prefix("domains-").ok_or_else(|| format!("{family}: not a family of domains"))?;
    let version = version.strip_suffix("-arm64").unwrap_or(version);
    DomainRules::for_kernel(&format!("v{version}")).map_err(|error| error.to_string())
}

fn check_domain(
    rules: &DomainRules,
    domains: &SchedDomains,
    cpu: usize,
    index: usize,
    expected: &Domain,
) -> Result<(), String> {
    let sd = &domains.per_cpu[cpu][index];
    same("span", &expected.span, &sd.span.iter().collect())?;
    same("flags", &sorted(&expected.flags), &printed(rules, sd.flags))?;
    same("imbalance_pct", &expected.imbalance_pct, &sd.imbalance_pct)?;
    same("busy_factor", &expected.busy_factor, &sd.busy_factor)?;
    same("cache_nice_tries", &expected.cache_nice_tries, &sd.cache_nice_tries)?;
    same("min_interval", &expected.min_interval, &sd.min_interval_ms)?;
    same("max_interval", &expected.max_interval, &sd.max_interval_ms)?;
    if let Some(level) = expected.level {
        same("level", &level, &sd.level)?;
        let first = domains.groups[sd.ring[0]].flags;
        let groups_flags = expected.groups_flags.as_deref().unwrap_or(&[]);
        same("groups_flags", &sorted(groups_flags), &printed(rules, first))?;
    }
    let ring: Vec<Group> = sd
        .ring
        .iter()
        .map(|&group| {
            let group = &domains.groups[group];
            let whole = group.balance_mask == group.span;
            Group {
                id: group.id,
                span: group.span.iter().collect(),
                mask: (!whole).then(|| group.balance_mask.iter().collect()),
            }
        })
        .collect();
    same("groups", &expected.groups, &ring)
}

fn printed(rules: &DomainRules, flags: SdFlags) -> Vec<String> {
    sorted(&rules.flag_names(flags))
}

fn sorted(names: &[impl ToString]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.sort_unstable();
    names
}

fn same<T: PartialEq + Debug>(what: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{what}: expected {expected:?}, got {got:?}")) }
}

/// The machine of a case: sets as the guest reported them, distances as they were asked for.
fn machine_of(case: &Case) -> Result<MachineSpec, String> {
    let Case { input, guest, .. } = case;
    let nr_cpus = input.n_cpus;
    if nr_cpus > MAX_CPUS {
        return Err(format!("n_cpus {nr_cpus}: more than {MAX_CPUS}"));
    }
    let mut node = vec![0; nr_cpus];
    for (index, requested) in input.nodes.iter().enumerate() {
        for &cpu in &requested.cpus {
            *node.get_mut(cpu).ok_or_else(|| format!("node of cpu{cpu}: no such CPU"))? = index as u32;
        }
    }
    let arm64 = input.arch.as_deref() == Some("arm64");
    let core = ids(nr_cpus, &input.core_groups)?;
    let own = |fallback: &[u32], groups: Vec<Vec<usize>>| overlay(nr_cpus, fallback, &groups);
    let package = own(&core, guest.package_groups.clone())?;
    let llc_undescribed = arm64 && input.dt_llc.is_none();
    let llc = if llc_undescribed {
        core.clone()
    } else {
        own(&core, guest.llc_groups.iter().map(|cache| cache.cpus.clone()).collect())?
    };
    let cluster = if arm64 { core.clone() } else { own(&core, guest.cluster_groups.clone())? };
    let capacity = (0..nr_cpus)
        .map(|cpu| {
            guest.cpu_capacity.as_ref().and_then(|of| of.get(&cpu.to_string()).copied()).unwrap_or(1024)
        })
        .collect();
    Ok(MachineSpec {
        name: case.name.clone(),
        arch: if arm64 { "arm64" } else { "x86_64" }.to_owned(),
        die: own(&core, guest.die_groups.clone())?,
        core,
        cluster,
        llc,
        package,
        node,
        capacity,
        distance: input.distance.clone(),
        memoryless_nodes: (0..input.nodes.len() as u32)
            .filter(|&node| !input.nodes[node as usize].has_memory)
            .collect(),
        offline: input.offline.clone(),
        isolated: input.isolated.clone(),
        llc_undescribed,
        nosmt: matches!(guest.smt_control.as_deref(), Some("off" | "forceoff")),
        relax_domain_level: boot_option(input, "relax_domain_level"),
        offlined_last: input.offlined_at_run_time.last().copied().filter(|_| input.reonlined.is_empty()),
        ..MachineSpec::default()
    })
}

fn online_cpus(case: &Case) -> impl Iterator<Item = usize> + '_ {
    (0..case.input.n_cpus).filter(|&cpu| !case.input.offline.contains(&(cpu as u32)))
}

/// The number given to `name=` on the kernel's command line.
fn boot_option(input: &Input, name: &str) -> Option<u32> {
    let options = input.boot_options.as_deref().unwrap_or("");
    options.split_whitespace().find_map(|option| option.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// The set of each CPU, named by its lowest member; a CPU in no set stands alone.
fn ids(nr_cpus: usize, groups: &[Vec<usize>]) -> Result<Vec<u32>, String> {
    let mut ids: Vec<u32> = (0..nr_cpus as u32).collect();
    for group in groups {
        let lowest = group.iter().copied().min().unwrap_or(0) as u32;
        for &cpu in group {
            *ids.get_mut(cpu).ok_or_else(|| format!("set of cpu{cpu}: no such CPU"))? = lowest;
        }
    }
    Ok(ids)
}

/// Sets that the guest reports; a CPU in none keeps to the set of a sibling thread, or to its core.
fn overlay(nr_cpus: usize, core: &[u32], groups: &[Vec<usize>]) -> Result<Vec<u32>, String> {
    let mut merged = ids(nr_cpus, groups)?;
    let reported: Vec<usize> = groups.concat();
    let mut of_core = BTreeMap::new();
    for &cpu in &reported {
        of_core.insert(core[cpu], merged[cpu]);
    }
    for cpu in (0..nr_cpus).filter(|cpu| !reported.contains(cpu)) {
        merged[cpu] = of_core.get(&core[cpu]).copied().unwrap_or(core[cpu]);
    }
    Ok(merged)
}

#[derive(Deserialize)]
struct Case {
    name: String,
    input: Input,
    guest: Guest,
    truth: BTreeMap<String, Truth>,
}

#[derive(Deserialize)]
struct Input {
    arch: Option<String>,
    n_cpus: usize,
    nodes: Vec<Node>,
    distance: Vec<Vec<u32>>,
    core_groups: Vec<Vec<usize>>,
    boot_options: Option<String>,
    offlined_at_run_time: Vec<u32>,
    reonlined: Vec<u32>,
    offline: Vec<u32>,
    isolated: Vec<u32>,
    dt_llc: Option<Vec<Vec<usize>>>,
}

#[derive(Deserialize)]
struct Node {
    cpus: Vec<usize>,
    has_memory: bool,
}

#[derive(Deserialize)]
struct Guest {
    llc_groups: Vec<Cache>,
    die_groups: Vec<Vec<usize>>,
    cluster_groups: Vec<Vec<usize>>,
    package_groups: Vec<Vec<usize>>,
    smt_control: Option<String>,
    cpu_capacity: Option<BTreeMap<String, u32>>,
}

#[derive(Deserialize)]
struct Cache {
    cpus: Vec<usize>,
}

#[derive(Deserialize)]
struct Truth {
    domains: Vec<Domain>,
}

#[derive(Deserialize)]
struct Domain {
    name: String,
    span: Vec<usize>,
    flags: Vec<String>,
    imbalance_pct: u32,
    busy_factor: u32,
    cache_nice_tries: u32,
    min_interval: u64,
    max_interval: u64,
    level: Option<u32>,
    groups_flags: Option<Vec<String>>,
    groups: Vec<Group>,
}

#[derive(Deserialize, PartialEq, Debug)]
struct Group {
    id: usize,
    span: Vec<usize>,
    mask: Option<Vec<usize>>,
}
