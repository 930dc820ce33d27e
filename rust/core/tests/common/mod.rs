//! Machines, scenarios and a text of everything a run recorded, for the tests of whole runs; and the vectors.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod vectors;

use std::fmt::Write;

use schedlab_core::record::{CPU_FIELDS, METRIC_TABLE, Record};
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::{KernelSpec, Scenario, WorkloadSpec};
use schedlab_core::sim::cost::CostModel;
use schedlab_core::topology::MachineSpec;
use schedlab_core::workload::Hackbench;
use schedlab_core::workload::hackbench::{Ipc, Mode};

/// All kernels that runs can use.
pub const EVERY_KERNEL: [&str; 7] = ["v2.6.15", "v5.4", "v5.5", "v5.6", "v5.7", "v5.10", "v6.12"];

/// Those with the fair scheduler.
pub const KERNELS: [&str; 6] = ["v5.4", "v5.5", "v5.6", "v5.7", "v5.10", "v6.12"];

/// Eight CPUs in two last-level caches of one package.
pub fn dual_quad() -> MachineSpec {
    let llc: Vec<u32> = (0..8).map(|cpu| cpu / 4).collect();
    MachineSpec {
        arch: "arm64".to_owned(),
        cluster: llc.clone(),
        llc,
        ..MachineSpec::uniform("dual-quad", 8)
    }
}

/// Two nodes of two cores of two threads.
pub fn two_nodes_smt() -> MachineSpec {
    let by = |size: u32| (0..8).map(|cpu| cpu / size).collect::<Vec<u32>>();
    MachineSpec {
        core: by(2),
        cluster: by(2),
        llc: by(4),
        die: by(4),
        package: by(4),
        node: by(4),
        distance: vec![vec![10, 21], vec![21, 10]],
        ..MachineSpec::uniform("two-nodes-smt", 8)
    }
}

/// Four small CPUs and two big ones, each kind with its own last-level cache.
pub fn big_little() -> MachineSpec {
    let llc = vec![0, 0, 0, 0, 1, 1];
    MachineSpec {
        arch: "arm64".to_owned(),
        cluster: llc.clone(),
        llc,
        capacity: vec![446, 446, 446, 446, 1024, 1024],
        ..MachineSpec::uniform("big-little", 6)
    }
}

/// Three nodes of one, two and three CPUs, the first and the last two hops apart.
pub fn uneven_nodes() -> MachineSpec {
    let node = vec![0, 1, 1, 2, 2, 2];
    MachineSpec {
        llc: node.clone(),
        die: node.clone(),
        package: node.clone(),
        node,
        distance: vec![vec![10, 16, 22], vec![16, 10, 16], vec![22, 16, 10]],
        ..MachineSpec::uniform("uneven-nodes", 6)
    }
}

/// hackbench with two groups of three senders and three receivers.
pub fn small() -> Hackbench {
    Hackbench {
        groups: 2,
        loops: 10,
        ipc: Ipc::Socket,
        mode: Mode::Process,
        senders: 3,
        receivers: 3,
        bytes: 100,
        cgroup: false,
    }
}

/// A scenario with default costs and tunables.
pub fn scenario(machine: MachineSpec, kernel: &str, work: Hackbench) -> Scenario {
    Scenario {
        machine,
        costs: CostModel::default(),
        kernel: KernelSpec { name: kernel.to_owned(), ..KernelSpec::default() },
        workload: WorkloadSpec::Hackbench(work),
    }
}

/// The records of some seeds, on one thread.
pub fn run(scenario: &Scenario, seeds: &[u64]) -> Vec<Record> {
    run_seeds(scenario, seeds, 1, &Progress::default()).expect("the scenario runs")
}

/// Number of messages that the workload sends.
pub fn messages(work: &Hackbench) -> i64 {
    i64::from(work.groups) * i64::from(work.loops) * i64::from(work.senders) * i64::from(work.receivers)
}

/// Number of tasks that main forks.
pub fn children(work: &Hackbench) -> i64 {
    i64::from(work.groups) * i64::from(work.senders + work.receivers)
}

/// Everything that a caller can read of a record, as text: equal texts, equal records.
pub fn everything(record: &Record) -> String {
    let mut text = String::new();
    // What did not happen is left out: a new metric changes no run that knows nothing of it.
    let metrics = METRIC_TABLE.iter().zip(record.metrics.values());
    for ((name, unit, _), value) in metrics.filter(|&(_, value)| value != 0) {
        writeln!(text, "{name} {value} {unit}").unwrap();
    }
    for (level, counts) in record.classification.iter().enumerate() {
        writeln!(text, "classification of level {level}: {counts:?}").unwrap();
    }
    for (cpu, (counters, domains)) in record.cpus.iter().zip(&record.domains).enumerate() {
        writeln!(text, "CPU {cpu} ({} fields): {:?}", CPU_FIELDS.len(), counters.values()).unwrap();
        for (level, domain) in domains.iter().enumerate() {
            writeln!(text, "CPU {cpu} level {level}: {:?}", domain.values()).unwrap();
        }
    }
    text
}
