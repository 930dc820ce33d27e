//! What a scenario's traces are measured against.

use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::measure::{TraceSubject, TraceTask, TraceTaskKind};
use crate::scenario::{Scenario, WorkloadSpec};
use crate::topology::MachineSpec;
use crate::workload::tasks::{BarrierWait, Behaviour, TaskEntry, Tasks};

impl TraceSubject {
    /// The machine and the tasks of a scenario, as its traces number them; the last `nr_background` entries of its workload
    /// are not measured, as kernel threads are not.
    ///
    /// Errors: it is invalid, or its workload is not one of tasks.
    pub fn of_scenario(scenario: &Scenario, nr_background: usize) -> Result<Self> {
        scenario.validate()?;
        let WorkloadSpec::Tasks(tasks) = &scenario.workload else {
            return Err(SimError::invalid(
                "workload.kind",
                "hackbench",
                "only `tasks` have measures of a trace",
            ));
        };
        let machine = &scenario.machine;
        let Some(nr_measured) = tasks.tasks.len().checked_sub(nr_background) else {
            let rule = format!("must be at most the entries of the workload ({})", tasks.tasks.len());
            return Err(SimError::invalid("background", nr_background, rule));
        };
        let tasks = trace_tasks(tasks, nr_measured, machine);
        Ok(Self { nr_cpus: machine.nr_cpus(), groups: groups(machine), tasks })
    }
}

/// Nodes if there are several, else last-level caches if there are several, else cores if they have threads, else none.
fn groups(machine: &MachineSpec) -> Vec<Vec<usize>> {
    let sets = |set_of: &[u32]| -> Vec<Vec<usize>> {
        let mut numbers = set_of.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let cpus = |number: &u32| (0..set_of.len()).filter(|&cpu| set_of[cpu] == *number).collect();
        numbers.iter().map(cpus).collect()
    };
    let (nodes, llcs, cores) = (sets(&machine.node), sets(&machine.llc), sets(&machine.core));
    if nodes.len() > 1 {
        nodes
    } else if llcs.len() > 1 {
        llcs
    } else if cores.iter().any(|core| core.len() > 1) {
        cores
    } else {
        Vec::new()
    }
}

/// The controller first, then the tasks entry by entry, then the children of fork storms.
fn trace_tasks(workload: &Tasks, nr_measured: usize, machine: &MachineSpec) -> Vec<TraceTask> {
    let everywhere = TraceTask {
        kind: TraceTaskKind::Other,
        nice: 0,
        group: None,
        affinity: CpuMask::all(machine.nr_cpus()),
        release: None,
        first_cpu: None,
    };
    let mut tasks = vec![everywhere];
    let mut children = Vec::new();
    for (index, entry) in workload.tasks.iter().enumerate() {
        let n = entry.n as usize;
        let make = |kind| {
            let kind = if index < nr_measured { kind } else { TraceTaskKind::Other };
            trace_task(entry, kind, machine)
        };
        match entry.behaviour {
            Behaviour::Hog => tasks.extend(vec![make(TraceTaskKind::Hog); n]),
            Behaviour::Periodic { .. } => tasks.extend(vec![make(TraceTaskKind::Periodic); n]),
            Behaviour::Barrier { wait, .. } => {
                let futex = wait == BarrierWait::Futex;
                tasks.extend(vec![make(TraceTaskKind::Barrier { n: entry.n as u32, futex }); n]);
            }
            Behaviour::PingPong { .. } => {
                for _ in 0..n {
                    tasks.extend([true, false].map(|first| make(TraceTaskKind::PingPong { first })));
                }
            }
            Behaviour::Fork { .. } => {
                tasks.push(make(TraceTaskKind::Forker));
                children.extend(vec![make(TraceTaskKind::Child); n]);
            }
        }
    }
    tasks.extend(children);
    tasks
}

fn trace_task(entry: &TaskEntry, kind: TraceTaskKind, machine: &MachineSpec) -> TraceTask {
    let nr_cpus = machine.nr_cpus();
    let cpus = |mask: &Vec<u32>| CpuMask::from_cpus(nr_cpus, mask.iter().map(|&cpu| cpu as usize));
    TraceTask {
        kind,
        nice: entry.nice as i8,
        group: entry.group.clone(),
        affinity: entry.mask.as_ref().map_or_else(|| CpuMask::all(nr_cpus), cpus),
        release: entry.release.as_ref().map(|release| (release.at_us as u64 * 1000, cpus(&release.mask))),
        first_cpu: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(workload: &str) -> Scenario {
        let machine = serde_json::to_string(&MachineSpec::uniform("four", 4)).unwrap();
        let json =
            format!(r#"{{"machine": {machine}, "kernel": {{"name": "v5.7"}}, "workload": {workload}}}"#);
        Scenario::from_json(&json).unwrap()
    }

    #[test]
    fn tasks_stand_in_the_order_of_the_trace() {
        let scenario = scenario(
            r#"{"kind": "tasks", "duration_ms": 10, "tasks": [
                {"kind": "fork", "n": 2, "run_us": 10},
                {"kind": "pingpong", "n": 1, "run_us": 10},
                {"kind": "hog", "n": 1, "nice": 5, "mask": [1], "release": {"at_us": 7, "mask": [2]}},
                {"kind": "periodic", "n": 1, "run_us": 1, "sleep_us": 1}]}"#,
        );
        let subject = TraceSubject::of_scenario(&scenario, 1).unwrap();
        let kinds: Vec<TraceTaskKind> = subject.tasks.iter().map(|task| task.kind).collect();
        use TraceTaskKind::{Child, Forker, Hog, Other, PingPong};
        let pair = [PingPong { first: true }, PingPong { first: false }];
        assert_eq!(kinds, [Other, Forker, pair[0], pair[1], Hog, Other, Child, Child]);
        let hog = &subject.tasks[4];
        assert_eq!((hog.nice, hog.affinity.iter().collect::<Vec<_>>()), (5, vec![1]));
        assert_eq!(hog.release, Some((7000, CpuMask::from_cpus(4, [2]))));
        assert!(subject.groups.is_empty());
    }

    #[test]
    fn what_has_no_tasks_or_not_so_many_is_refused() {
        let hackbench = scenario(
            r#"{"kind": "hackbench", "groups": 1, "loops": 1, "ipc": "pipe", "mode": "process",
                "senders": 1, "receivers": 1, "bytes": 1}"#,
        );
        let error = TraceSubject::of_scenario(&hackbench, 0).unwrap_err().to_string();
        assert!(error.starts_with("workload.kind = "), "{error}");
        let hogs = scenario(r#"{"kind": "tasks", "duration_ms": 10, "tasks": [{"kind": "hog", "n": 1}]}"#);
        let error = TraceSubject::of_scenario(&hogs, 2).unwrap_err().to_string();
        assert!(error.starts_with("background = 2: must be at most"), "{error}");
    }
}
