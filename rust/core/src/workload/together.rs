//! Several loads on one machine: the first is measured, the others run beside it.
//!
//! Each load is built as if it were alone, then all are renumbered into one. What starts the first load starts the others before
//! it; their clocks do nothing, nor do their counts.

use serde::{Deserialize, Serialize};

use super::groups::{MAX_GROUPS, MAX_QUEUES};
use super::{Action, GroupSpec, Load};
use crate::error::{Result, SimError};
use crate::load_weight::NICE_0_LOAD;
use crate::scenario::WorkloadSpec;
use crate::sim::groups::GroupId;
use crate::sim::program::Op;
use crate::sim::rq::TaskId;
use crate::topology::MachineSpec;

/// The most loads of one run.
const MAX_PARTS: usize = 1024;

/// The arguments: loads, and who is in which task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Together {
    /// The loads; the first is measured.
    pub parts: Vec<WorkloadSpec>,
    /// Whether each has a task group of its own.
    #[serde(default)]
    pub cgroups: PartGroups,
}

/// Task groups of the loads; each has 1024 shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartGroups {
    /// Those that a load has itself, beside each other.
    #[default]
    None,
    /// One for each load, with the load's own inside.
    Separate,
}

impl Together {
    /// Checks the arguments, and each load's.
    pub fn validate(&self, machine: &MachineSpec) -> Result<()> {
        if !(1..=MAX_PARTS).contains(&self.parts.len()) {
            let rule = format!("must be 1 to {MAX_PARTS} workloads");
            return Err(SimError::invalid("parts", self.parts.len(), rule));
        }
        for (at, part) in self.parts.iter().enumerate() {
            let name = |argument: &str| format!("parts[{at}].{argument}");
            if matches!(part, WorkloadSpec::Together(_)) {
                let rule = "must not be a `together` itself; give its workloads";
                return Err(SimError::invalid(name("kind"), "\"together\"", rule));
            }
            in_part(at, part.validate(machine))?;
            if at > 0 && !part.machines_after(machine).is_empty() {
                let rule =
                    "must not be given beside another workload: CPUs go off and come back in the first one";
                return Err(SimError::invalid(name("hotplug"), "a list", rule));
            }
        }
        Ok(())
    }

    /// Checks that the groups of all loads fit.
    fn validate_groups(&self, loads: &[Load], machine: &MachineSpec) -> Result<()> {
        let own = if self.cgroups == PartGroups::Separate { loads.len() } else { 0 };
        let nr_groups = own + loads.iter().map(|load| load.groups.len()).sum::<usize>();
        let most = MAX_GROUPS.min(MAX_QUEUES / machine.nr_cpus());
        if nr_groups > most {
            let rule = format!("must be at most {most} of all workloads together on {}", machine.name);
            return Err(SimError::invalid("groups", nr_groups, rule));
        }
        Ok(())
    }

    /// All loads as one, if their groups fit.
    pub fn load(&self, loads: Vec<Load>, machine: &MachineSpec) -> Result<Load> {
        self.validate_groups(&loads, machine)?;
        let mut whole = Load::new(Vec::new(), Vec::new());
        let mut mains: Vec<TaskId> = Vec::new();
        for (at, part) in loads.into_iter().enumerate() {
            mains.push(whole.tasks.len() as TaskId);
            let group = (self.cgroups == PartGroups::Separate).then(|| format!("{}", at + 1));
            whole.append(part, at, group);
        }
        if mains.len() > 1 {
            let program = whole.ops.len() as u32;
            whole.ops.extend(mains[1..].iter().map(|&first| Op::Fork { first, count: 1, gap_ns: 0 }));
            whole.ops.push(Op::Jump { to: whole.tasks[0].program });
            whole.tasks[0].program = program;
        }
        Ok(whole)
    }
}

/// The error of a part's argument names the part.
pub(crate) fn in_part(at: usize, result: Result<()>) -> Result<()> {
    result.map_err(|error| match error {
        SimError::Invalid { argument, value, rule } => {
            SimError::Invalid { argument: format!("parts[{at}].{argument}"), value, rule }
        }
        other => other,
    })
}

impl Load {
    /// Adds a load, renumbered, in a group of its own if that has a name; all but the one at 0 run beside what is measured.
    fn append(&mut self, part: Load, at: usize, group: Option<String>) {
        let measured = at == 0;
        let tasks = self.tasks.len() as TaskId;
        let ops = self.ops.len() as u32;
        let channels = self.channels.len() as u32;
        let barriers = self.barriers.len() as u32;
        let regions = self.regions.len() as u32;
        let mm = self.tasks.iter().map(|task| task.mm + 1).max().unwrap_or(0);
        let flag = self.ops.iter().filter_map(flag_of).max().map_or(0, |flag| flag + 1);
        if let Some(name) = &group {
            let (name, shares) = (name.clone(), NICE_0_LOAD);
            self.groups.push(GroupSpec { name, shares, ..GroupSpec::default() });
        }
        // The part's root is its own group, if it has one; its other groups come behind.
        let root = if group.is_some() { self.groups.len() as GroupId } else { 0 };
        let groups = self.groups.len() as GroupId;
        let renumbered = |id: GroupId| if id == 0 { root } else { groups + id };
        self.groups.extend(part.groups.into_iter().map(|spec| GroupSpec {
            name: if measured && group.is_none() { spec.name } else { format!("{}/{}", at + 1, spec.name) },
            parent: renumbered(spec.parent),
            ..spec
        }));
        for (id, mut spec) in part.tasks.into_iter().enumerate() {
            spec.program += ops;
            // Nobody waits for a load that runs beside: its first task is its own parent.
            spec.parent += tasks;
            spec.mm += mm;
            spec.group = renumbered(spec.group);
            spec.measured = measured && spec.measured;
            if let Some(walk) = &mut spec.memory {
                walk.region += regions;
            }
            debug_assert!(id > 0 || spec.parent == tasks);
            self.tasks.push(spec);
        }
        for (place, mut op) in part.ops.into_iter().enumerate() {
            match &mut op {
                Op::Fork { first, .. } | Op::Jobs { first, .. } => *first += tasks,
                Op::Jump { to } | Op::Repeat { to, .. } => *to += ops,
                Op::Barrier { barrier, .. } => *barrier += barriers,
                Op::TakeFlag { flag: own } | Op::SetFlag { flag: own } => *own += flag,
                Op::Write { first, .. } => *first += channels,
                Op::Read { channel, .. } | Op::Poll { channel } => *channel += channels,
                Op::ClockStart | Op::ClockStop if !measured => op = Op::Jump { to: ops + place as u32 + 1 },
                _ => {}
            }
            self.ops.push(op);
        }
        self.channels.extend(part.channels);
        self.barriers.extend(part.barriers);
        self.regions.extend(part.regions.into_iter().map(|mut region| {
            region.mm += mm;
            region
        }));
        for (time_ns, mut action) in part.actions {
            match &mut action {
                Action::SetAffinity { task, .. } => *task += tasks,
                Action::CountByNode { first, .. } if measured => *first += tasks,
                Action::Hotplug { .. } => {}
                _ if measured => {}
                _ => continue,
            }
            self.actions.push((time_ns, action));
        }
        self.accounted |= measured && part.accounted;
    }
}

fn flag_of(op: &Op) -> Option<u32> {
    match *op {
        Op::TakeFlag { flag } | Op::SetFlag { flag } => Some(flag),
        _ => None,
    }
}
