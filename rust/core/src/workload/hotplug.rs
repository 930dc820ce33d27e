//! CPUs that go off and come back while a load runs.

use serde::{Deserialize, Serialize};

use crate::error::{Result, SimError};
use crate::topology::MachineSpec;

/// The most changes of one load.
const MAX_CHANGES: usize = 4096;

/// A CPU goes off or comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotplugEntry {
    /// When, after `T0`, us.
    pub at_us: i64,
    /// The CPU.
    pub cpu: u32,
    /// It comes back; otherwise it goes off.
    pub online: bool,
}

/// Positions of the entries in the order in which they happen; at the same time, as they were given.
pub fn in_order(entries: &[HotplugEntry]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&index| entries[index].at_us);
    order
}

/// Checks every change against the machine as the changes before leave it; `bound` are CPUs that tasks cannot do without.
pub fn validate(entries: &[HotplugEntry], machine: &MachineSpec, bound: &[u32]) -> Result<()> {
    if entries.len() > MAX_CHANGES {
        let rule = format!("must have at most {MAX_CHANGES} entries");
        return Err(SimError::invalid("hotplug", format!("{} entries", entries.len()), rule));
    }
    let mut after = machine.clone();
    for index in in_order(entries) {
        let HotplugEntry { at_us, cpu, online } = entries[index];
        let field = |field: &str| format!("hotplug[{index}].{field}");
        if !(0..=3_600_000_000).contains(&at_us) {
            return Err(SimError::invalid(field("at_us"), at_us, "must be 0 to 3600000000"));
        }
        if cpu as usize >= machine.nr_cpus() {
            let rule = format!("{} has CPUs 0 to {}", machine.name, machine.nr_cpus() - 1);
            return Err(SimError::invalid(field("cpu"), cpu, rule));
        }
        if after.offline.contains(&cpu) != online {
            let rule =
                if online { "must be off before it comes back" } else { "must be on before it goes off" };
            return Err(SimError::invalid(field("cpu"), cpu, rule));
        }
        if !online && bound.contains(&cpu) {
            return Err(SimError::invalid(
                field("cpu"),
                cpu,
                "must stay on: a real-time task is bound to it",
            ));
        }
        change(&mut after, cpu, online);
        let usable = |cpu: &u32| !after.offline.contains(cpu) && !after.isolated.contains(cpu);
        if !(0..machine.nr_cpus() as u32).any(|cpu| usable(&cpu)) {
            return Err(SimError::invalid(
                field("cpu"),
                cpu,
                "is the last one: another that is not isolated must stay on",
            ));
        }
    }
    Ok(())
}

/// The machine after a change.
pub fn change(machine: &mut MachineSpec, cpu: u32, online: bool) {
    if online {
        machine.offline.retain(|&other| other != cpu);
        machine.offlined_last = None;
    } else {
        machine.offline.push(cpu);
        machine.offline.sort_unstable();
        machine.offlined_last = Some(cpu);
    }
}
