//! A machine, as its user describes it: plain data, checked by one function.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Result, SimError};

/// Most CPUs that a machine may have.
pub const MAX_CPUS: usize = 4096;

/// Most NUMA nodes that a machine may have (`MAX_NUMNODES` of large builds).
pub const MAX_NODES: usize = 1024;

/// Architectures whose levels are known.
pub const ARCHES: [&str; 3] = ["x86_64", "arm64", "powerpc"];

/// Distance of a node to itself (`LOCAL_DISTANCE`).
const LOCAL_DISTANCE: u32 = 10;

/// Largest distance that fits a table of bytes.
const MAX_DISTANCE: u32 = 255;

/// Capacity of the biggest CPU (`SCHED_CAPACITY_SCALE`).
const CAPACITY_SCALE: u32 = 1024;

/// A machine: per-CPU arrays (index = CPU number) and NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Name, for messages and provenance.
    pub name: String,
    /// `x86_64`, `arm64` or `powerpc`: decides which levels the kernel builds.
    pub arch: String,
    /// Core of each CPU: CPUs with the same number are hardware threads of one core.
    pub core: Vec<u32>,
    /// Cluster of each CPU (sharers of an L2).
    pub cluster: Vec<u32>,
    /// Last-level cache of each CPU. It may reach across nodes of a package; the kernel cuts it to the node.
    pub llc: Vec<u32>,
    /// Die of each CPU.
    pub die: Vec<u32>,
    /// Physical package of each CPU.
    pub package: Vec<u32>,
    /// NUMA node of each CPU, an index into `distance`.
    pub node: Vec<u32>,
    /// Capacity of each CPU, 1024 = the biggest.
    pub capacity: Vec<u32>,
    /// NUMA distances, row = from; 10 on the diagonal. Nodes that no CPU names have memory only.
    pub distance: Vec<Vec<u32>>,
    /// Nodes without memory.
    #[serde(default)]
    pub memoryless_nodes: Vec<u32>,
    /// CPUs that are present but offline.
    #[serde(default)]
    pub offline: Vec<u32>,
    /// CPUs outside every domain (`isolcpus=`).
    #[serde(default)]
    pub isolated: Vec<u32>,
    /// Asym-packing priority of each CPU, higher is preferred (x86 ITMT); empty where the machine has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asym_priority: Vec<i32>,
    /// arm64: firmware does not describe the caches, so that kernels guess the last level themselves.
    #[serde(default, skip_serializing_if = "is_false")]
    pub llc_undescribed: bool,
    /// SMT was switched off at boot (`nosmt`); the sibling threads are listed in `offline`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub nosmt: bool,
    /// Boot option `relax_domain_level=`: levels from there on do no newidle balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relax_domain_level: Option<u32>,
    /// The CPU of `offline` whose hot-unplug rebuilt the domains last, if that is how they came to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offlined_last: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}

impl MachineSpec {
    /// A machine with `nr_cpus` single-threaded CPUs in one last-level cache and one node.
    pub fn uniform(name: &str, nr_cpus: usize) -> Self {
        Self {
            name: name.to_owned(),
            arch: "x86_64".to_owned(),
            core: (0..nr_cpus as u32).collect(),
            cluster: (0..nr_cpus as u32).collect(),
            llc: vec![0; nr_cpus],
            die: vec![0; nr_cpus],
            package: vec![0; nr_cpus],
            node: vec![0; nr_cpus],
            capacity: vec![CAPACITY_SCALE; nr_cpus],
            distance: vec![vec![LOCAL_DISTANCE]],
            ..Self::default()
        }
    }

    /// Reads and checks a machine. Errors: JSON that is not a machine, and what [`MachineSpec::validate`] refuses.
    pub fn from_json(json: &str) -> Result<Self> {
        let machine: Self = serde_json::from_str(json).map_err(|error| {
            SimError::invalid("machine", abridged(json), format!("must be a machine in JSON: {error}"))
        })?;
        machine.validate()?;
        Ok(machine)
    }

    /// Number of CPU slots, offline ones included.
    pub fn nr_cpus(&self) -> usize {
        self.core.len()
    }

    /// Checks every rule a machine must keep; the error names field, value and rule.
    pub fn validate(&self) -> Result<()> {
        if !ARCHES.contains(&self.arch.as_str()) {
            let rule = format!("must be one of {}", ARCHES.join(", "));
            return Err(SimError::invalid("machine.arch", format!("{:?}", self.arch), rule));
        }
        self.validate_lengths()?;
        self.validate_distance()?;
        self.validate_capacity()?;
        self.validate_nesting()?;
        self.validate_cpu_lists()
    }

    fn validate_lengths(&self) -> Result<()> {
        let nr_cpus = self.nr_cpus();
        if nr_cpus == 0 {
            return Err(SimError::invalid("machine.core", "[]", "a machine has at least one CPU"));
        }
        if nr_cpus > MAX_CPUS {
            let rule = format!("a machine has at most {MAX_CPUS} CPUs");
            return Err(SimError::invalid("machine.core", format!("{nr_cpus} CPUs"), rule));
        }
        let lengths = [
            ("machine.cluster", self.cluster.len()),
            ("machine.llc", self.llc.len()),
            ("machine.die", self.die.len()),
            ("machine.package", self.package.len()),
            ("machine.node", self.node.len()),
            ("machine.capacity", self.capacity.len()),
        ];
        let priority =
            Some(("machine.asym_priority", self.asym_priority.len())).filter(|&(_, length)| length > 0);
        for (argument, length) in lengths.into_iter().chain(priority) {
            if length != nr_cpus {
                let rule = format!("must have one entry a CPU, as many as machine.core ({nr_cpus})");
                return Err(SimError::invalid(argument, format!("{length} entries"), rule));
            }
        }
        Ok(())
    }

    /// arch/x86/mm/srat.c, slit_valid(), and numa_set_distance(): the table that a kernel accepts.
    fn validate_distance(&self) -> Result<()> {
        let nr_nodes = self.distance.len();
        if nr_nodes == 0 {
            return Err(SimError::invalid("machine.distance", "[]", "a machine has at least one node"));
        }
        if nr_nodes > MAX_NODES {
            let rule = format!("a machine has at most {MAX_NODES} nodes");
            return Err(SimError::invalid("machine.distance", format!("{nr_nodes} rows"), rule));
        }
        for (from, row) in self.distance.iter().enumerate() {
            if row.len() != nr_nodes {
                let rule = format!("must be square: {nr_nodes} rows, so {nr_nodes} entries a row");
                let value = format!("{} entries", row.len());
                return Err(SimError::invalid(format!("machine.distance[{from}]"), value, rule));
            }
            for (to, &distance) in row.iter().enumerate() {
                let rule = if from == to {
                    (distance != LOCAL_DISTANCE).then_some("the distance of a node to itself is 10")
                } else {
                    (!(LOCAL_DISTANCE + 1..=MAX_DISTANCE).contains(&distance))
                        .then_some("the distance to another node is from 11 to 255")
                };
                if let Some(rule) = rule {
                    return Err(SimError::invalid(format!("machine.distance[{from}][{to}]"), distance, rule));
                }
            }
        }
        for (cpu, &node) in self.node.iter().enumerate() {
            if node as usize >= nr_nodes {
                let rule = format!("must be a node of machine.distance, below {nr_nodes}");
                return Err(SimError::invalid(format!("machine.node[{cpu}]"), node, rule));
            }
        }
        for (index, &node) in self.memoryless_nodes.iter().enumerate() {
            let argument = format!("machine.memoryless_nodes[{index}]");
            if node as usize >= nr_nodes {
                let rule = format!("must be a node of machine.distance, below {nr_nodes}");
                return Err(SimError::invalid(argument, node, rule));
            }
            if self.memoryless_nodes[..index].contains(&node) {
                return Err(SimError::invalid(argument, node, "is listed twice"));
            }
        }
        if self.memoryless_nodes.len() == nr_nodes {
            let value = format!("{:?}", self.memoryless_nodes);
            return Err(SimError::invalid("machine.memoryless_nodes", value, "some node has memory"));
        }
        Ok(())
    }

    fn validate_capacity(&self) -> Result<()> {
        for (cpu, &capacity) in self.capacity.iter().enumerate() {
            if !(1..=CAPACITY_SCALE).contains(&capacity) {
                let rule = "must be from 1 to 1024, the capacity of the biggest CPU";
                return Err(SimError::invalid(format!("machine.capacity[{cpu}]"), capacity, rule));
            }
        }
        Ok(())
    }

    /// Hardware that cannot be split must not be.
    fn validate_nesting(&self) -> Result<()> {
        let inside = [
            ("core", &self.core, "node", &self.node),
            ("core", &self.core, "cluster", &self.cluster),
            ("core", &self.core, "llc", &self.llc),
            ("core", &self.core, "die", &self.die),
            ("core", &self.core, "package", &self.package),
            ("core", &self.core, "capacity", &self.capacity),
            ("cluster", &self.cluster, "llc", &self.llc),
            ("cluster", &self.cluster, "package", &self.package),
            ("llc", &self.llc, "package", &self.package),
            ("die", &self.die, "package", &self.package),
        ];
        for (inner_name, inner, outer_name, outer) in inside {
            let mut home = BTreeMap::new();
            for (cpu, (&inner, &outer)) in inner.iter().zip(outer).enumerate() {
                let first = *home.entry(inner).or_insert((cpu, outer));
                if first.1 != outer {
                    let rule = format!(
                        "CPUs {} and {cpu} share {inner_name} {inner}, so they have the same {outer_name}, not {} and {outer}",
                        first.0, first.1
                    );
                    return Err(SimError::invalid(format!("machine.{outer_name}[{cpu}]"), outer, rule));
                }
            }
        }
        Ok(())
    }

    fn validate_cpu_lists(&self) -> Result<()> {
        let nr_cpus = self.nr_cpus();
        let mut usable = vec![true; nr_cpus];
        let mut online = vec![true; nr_cpus];
        for (name, cpus) in [("offline", &self.offline), ("isolated", &self.isolated)] {
            let mut seen = vec![false; nr_cpus];
            for (index, &cpu) in cpus.iter().enumerate() {
                let argument = format!("machine.{name}[{index}]");
                let Some(seen) = seen.get_mut(cpu as usize) else {
                    return Err(SimError::invalid(argument, cpu, format!("must be a CPU, below {nr_cpus}")));
                };
                if std::mem::replace(seen, true) {
                    return Err(SimError::invalid(argument, cpu, "is listed twice"));
                }
                usable[cpu as usize] = false;
                if name == "offline" {
                    online[cpu as usize] = false;
                }
            }
        }
        if !online.contains(&true) {
            return Err(SimError::invalid(
                "machine.offline",
                format!("all {nr_cpus} CPUs"),
                "some CPU is online",
            ));
        }
        if !usable.contains(&true) {
            let value = format!("{:?}", self.isolated);
            return Err(SimError::invalid("machine.isolated", value, "some online CPU is not isolated"));
        }
        if let Some(cpu) = self.offlined_last.filter(|cpu| !self.offline.contains(cpu)) {
            return Err(SimError::invalid("machine.offlined_last", cpu, "must be one of machine.offline"));
        }
        Ok(())
    }
}

/// The beginning of a text that may be long.
fn abridged(text: &str) -> String {
    let beginning: String = text.chars().take(40).collect();
    if beginning.len() < text.len() { format!("{beginning}...") } else { beginning }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 nodes x 2 cores x 2 threads, siblings adjacent.
    fn two_nodes() -> MachineSpec {
        MachineSpec {
            core: (0..8).map(|cpu| cpu / 2).collect(),
            cluster: (0..8).map(|cpu| cpu / 2).collect(),
            llc: (0..8).map(|cpu| cpu / 4).collect(),
            die: (0..8).map(|cpu| cpu / 4).collect(),
            package: (0..8).map(|cpu| cpu / 4).collect(),
            node: (0..8).map(|cpu| cpu / 4).collect(),
            distance: vec![vec![10, 21], vec![21, 10]],
            ..MachineSpec::uniform("two-nodes", 8)
        }
    }

    /// Asserts that a change makes the machine invalid: which argument, value and part of the rule are named.
    #[track_caller]
    fn refused(change: impl FnOnce(&mut MachineSpec), argument: &str, value: &str, rule: &str) {
        let mut machine = two_nodes();
        machine.validate().expect("valid before the change");
        change(&mut machine);
        match machine.validate() {
            Err(SimError::Invalid { argument: a, value: v, rule: r }) => {
                assert_eq!((a.as_str(), v.as_str()), (argument, value), "{r}");
                assert!(r.contains(rule), "{r:?} does not say {rule:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn refuses_wrong_numbers_of_cpus() {
        let mut none = MachineSpec::uniform("none", 0);
        none.distance = vec![vec![10]];
        assert!(none.validate().unwrap_err().to_string().contains("at least one CPU"));
        let many = MachineSpec::uniform("many", 4097);
        assert!(many.validate().unwrap_err().to_string().contains("at most 4096 CPUs"));
        MachineSpec::uniform("most", 4096).validate().unwrap();
    }

    #[test]
    fn refuses_an_unknown_architecture() {
        refused(|m| m.arch = "vax".into(), "machine.arch", "\"vax\"", "x86_64, arm64, powerpc");
    }

    #[test]
    fn refuses_arrays_of_other_lengths() {
        refused(|m| m.cluster.truncate(7), "machine.cluster", "7 entries", "machine.core (8)");
        refused(|m| m.llc.truncate(7), "machine.llc", "7 entries", "machine.core (8)");
        refused(|m| m.die.push(1), "machine.die", "9 entries", "machine.core (8)");
        refused(|m| m.package.clear(), "machine.package", "0 entries", "machine.core (8)");
        refused(|m| m.node.truncate(1), "machine.node", "1 entries", "machine.core (8)");
        refused(|m| m.capacity.truncate(2), "machine.capacity", "2 entries", "machine.core (8)");
        refused(|m| m.asym_priority = vec![1], "machine.asym_priority", "1 entries", "machine.core (8)");
    }

    #[test]
    fn refuses_bad_distances() {
        refused(|m| m.distance.clear(), "machine.distance", "[]", "at least one node");
        refused(|m| m.distance[1].truncate(1), "machine.distance[1]", "1 entries", "square");
        refused(|m| m.distance.truncate(1), "machine.distance[0]", "2 entries", "square");
        refused(|m| m.distance[1][1] = 11, "machine.distance[1][1]", "11", "to itself is 10");
        refused(|m| m.distance[0][1] = 9, "machine.distance[0][1]", "9", "from 11 to 255");
        refused(|m| m.distance[0][1] = 10, "machine.distance[0][1]", "10", "from 11 to 255");
        refused(|m| m.distance[0][1] = 256, "machine.distance[0][1]", "256", "from 11 to 255");
    }

    #[test]
    fn refuses_nodes_that_do_not_exist() {
        refused(|m| m.node[7] = 2, "machine.node[7]", "2", "below 2");
        refused(|m| m.memoryless_nodes = vec![2], "machine.memoryless_nodes[0]", "2", "below 2");
        refused(|m| m.memoryless_nodes = vec![0, 0], "machine.memoryless_nodes[1]", "0", "listed twice");
        refused(|m| m.memoryless_nodes = vec![0, 1], "machine.memoryless_nodes", "[0, 1]", "has memory");
    }

    #[test]
    fn refuses_capacities_out_of_scale() {
        refused(|m| m.capacity[3] = 0, "machine.capacity[3]", "0", "from 1 to 1024");
        refused(|m| m.capacity[3] = 1025, "machine.capacity[3]", "1025", "from 1 to 1024");
    }

    #[test]
    fn refuses_offline_and_isolated_cpus_that_do_not_exist() {
        refused(|m| m.offline = vec![1, 8], "machine.offline[1]", "8", "below 8");
        refused(|m| m.isolated = vec![8], "machine.isolated[0]", "8", "below 8");
        refused(|m| m.offline = vec![1, 1], "machine.offline[1]", "1", "listed twice");
        refused(|m| m.offline = (0..8).collect(), "machine.offline", "all 8 CPUs", "is online");
        refused(
            |m| (m.offline, m.isolated) = (vec![0, 1, 2, 3], vec![4, 5, 6, 7]),
            "machine.isolated",
            "[4, 5, 6, 7]",
            "not isolated",
        );
        refused(|m| m.offlined_last = Some(3), "machine.offlined_last", "3", "machine.offline");
    }

    #[test]
    fn refuses_hardware_that_is_torn_apart() {
        refused(|m| m.node[1] = 1, "machine.node[1]", "1", "CPUs 0 and 1 share core 0");
        refused(|m| m.cluster[1] = 9, "machine.cluster[1]", "9", "share core 0");
        refused(|m| m.llc[1] = 1, "machine.llc[1]", "1", "share core 0");
        refused(|m| m.die[1] = 1, "machine.die[1]", "1", "share core 0");
        refused(|m| m.package[1] = 1, "machine.package[1]", "1", "share core 0");
        refused(|m| m.capacity[1] = 512, "machine.capacity[1]", "512", "share core 0");
        refused(
            |m| m.llc = vec![0; 8],
            "machine.package[4]",
            "1",
            "CPUs 0 and 4 share llc 0, so they have the same package, not 0 and 1",
        );
    }

    #[test]
    fn accepts_a_last_level_cache_across_the_nodes_of_a_package() {
        let mut machine = two_nodes();
        machine.package = vec![0; 8];
        machine.llc = vec![0; 8];
        machine.validate().unwrap();
    }

    #[test]
    fn reads_json_and_says_what_is_wrong_with_it() {
        let machine = two_nodes();
        let json = serde_json::to_string(&machine).unwrap();
        assert_eq!(MachineSpec::from_json(&json).unwrap(), machine);
        let error = MachineSpec::from_json("{\"cores\": 3}").unwrap_err().to_string();
        assert!(error.starts_with("machine = {\"cores\": 3}: must be a machine in JSON"), "{error}");
    }
}
