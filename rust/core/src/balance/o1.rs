//! Balancing of the O(1) scheduler from plain data.

use serde::{Deserialize, Serialize};

use super::{MAX_CPUS, MAX_GROUPS, MAX_IMBALANCE_PCT, check_cpu, check_range, flag, idle_type};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::kernels::env::CpuIdleType;
use crate::kernels::o1::{O1, O1Domain, O1Env, O1Group, O1Rq};

/// Largest number of tasks of a runqueue that a case may give.
const MAX_O1_TASKS: u64 = 1 << 12;
/// Largest bias of a task: a real-time task of the best priority.
const MAX_BIAS: u64 = 140;
/// Largest average load or capacity that a case may give: products stay within 64 bits.
const MAX_O1_LOAD: u64 = 1 << 20;

/// A case of `find_busiest_group` and `find_idlest_group`: the domain, its groups, the runqueues.
#[derive(Clone, Debug, Deserialize)]
pub struct O1Case {
    /// Why the pass runs.
    #[serde(deserialize_with = "idle_type")]
    pub idle: CpuIdleType,
    /// CPU that pulls, or that forks.
    #[serde(alias = "dst")]
    pub this_cpu: usize,
    /// `imbalance_pct` of the domain.
    #[serde(alias = "pct")]
    pub imbalance_pct: u64,
    /// Load indices of the domain.
    #[serde(alias = "idx")]
    pub load_idx: LoadIndices,
    /// The domain is a core and the CPU idle.
    #[serde(default, deserialize_with = "flag")]
    pub sd_idle: bool,
    /// The groups in the order of their ring.
    #[serde(alias = "g")]
    pub groups: Vec<O1GroupCase>,
    /// Runnable tasks of each CPU; a CPU without is idle.
    #[serde(alias = "nr")]
    pub nr_running: Vec<u64>,
    /// Sum of the biases of each CPU's tasks.
    #[serde(alias = "bias")]
    pub prio_bias: Vec<u64>,
    /// The three averages of each CPU.
    pub cpu_load: Vec<[u64; 3]>,
}

/// The load indices of an [`O1Case`]: 0 = load now, 1 to 3 = an average.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct LoadIndices {
    /// Of a busy CPU's pass.
    pub busy: usize,
    /// Of an idle CPU's pass.
    pub idle: usize,
    /// Of a newly idle CPU's pass.
    pub newidle: usize,
    /// Of fork and exec.
    pub forkexec: usize,
}

/// A group of an [`O1Case`].
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct O1GroupCase {
    /// Its lowest CPU.
    #[serde(alias = "c0")]
    pub first_cpu: usize,
    /// Number of its CPUs.
    #[serde(alias = "w")]
    pub weight: usize,
    /// Capacity, 128 = one CPU.
    #[serde(alias = "power")]
    pub cpu_power: u64,
}

/// What a case decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct O1Outcome {
    /// Position of the group to pull from; absent if the domain is balanced.
    pub busiest: Option<usize>,
    /// How much to move: tasks, or with smpnice biases.
    pub imbalance: u64,
    /// CPU to pull from.
    pub src_cpu: Option<usize>,
    /// All CPUs of the core are idle.
    pub sd_idle: bool,
    /// Position of the group to fork on; absent: stay.
    pub idlest: Option<usize>,
}

impl O1Case {
    /// Decides the case as `kernel` does.
    pub fn decide(&self, kernel: &O1) -> Result<O1Outcome> {
        let rqs = self.runqueues()?;
        let groups = self.groups(rqs.len())?;
        let sd = self.domain()?;
        check_cpu("this_cpu", self.this_cpu, rqs.len())?;
        if !groups.iter().any(|group| group.cpus.test(self.this_cpu)) {
            return Err(SimError::invalid("this_cpu", self.this_cpu, "must be a CPU of a group"));
        }
        let mut env = O1Env {
            kernel,
            rqs: &rqs,
            sd: &sd,
            groups: &groups,
            this_cpu: self.this_cpu,
            idle: self.idle,
            sd_idle: self.sd_idle,
            imbalance: 0,
        };
        let busiest = (kernel.find_busiest_group.f)(&mut env);
        Ok(O1Outcome {
            busiest,
            imbalance: env.imbalance,
            src_cpu: busiest.and_then(|index| (kernel.find_busiest_queue.f)(&env, index)),
            sd_idle: env.sd_idle,
            idlest: (kernel.find_idlest_group.f)(&env, None),
        })
    }

    fn runqueues(&self) -> Result<Vec<O1Rq>> {
        let n = self.nr_running.len();
        check_range("number of CPUs", n as u64, 1, MAX_CPUS as u64)?;
        for (name, len) in [("prio_bias", self.prio_bias.len()), ("cpu_load", self.cpu_load.len())] {
            if len != n {
                let rule = format!("must have one value for each of the {n} CPUs");
                return Err(SimError::invalid(name, format!("{len} values"), rule));
            }
        }
        let rq = |cpu: usize| {
            let nr_running = self.nr_running[cpu];
            check_range(&format!("nr_running[{cpu}]"), nr_running, 0, MAX_O1_TASKS)?;
            check_range(&format!("prio_bias[{cpu}]"), self.prio_bias[cpu], 0, MAX_BIAS * nr_running)?;
            let mut averages = self.cpu_load[cpu].into_iter();
            averages.try_for_each(|load| check_range(&format!("cpu_load[{cpu}]"), load, 0, MAX_O1_LOAD))?;
            Ok(O1Rq {
                nr_running,
                prio_bias: self.prio_bias[cpu],
                cpu_load: self.cpu_load[cpu],
                idle: nr_running == 0,
            })
        };
        (0..n).map(rq).collect()
    }

    fn groups(&self, nr_cpus: usize) -> Result<Vec<O1Group>> {
        check_range("number of groups", self.groups.len() as u64, 1, MAX_GROUPS)?;
        let build = |(index, group): (usize, &O1GroupCase)| {
            let name = |field: &str| format!("groups[{index}].{field}");
            check_cpu(&name("first_cpu"), group.first_cpu, nr_cpus)?;
            let most = nr_cpus - group.first_cpu;
            check_range(&name("weight"), group.weight as u64, 1, most as u64)?;
            check_range(&name("cpu_power"), group.cpu_power, 1, MAX_O1_LOAD)?;
            let cpus = group.first_cpu..group.first_cpu + group.weight;
            Ok(O1Group { cpus: CpuMask::from_cpus(nr_cpus, cpus), cpu_power: group.cpu_power })
        };
        self.groups.iter().enumerate().map(build).collect()
    }

    fn domain(&self) -> Result<O1Domain> {
        check_range("imbalance_pct", self.imbalance_pct, 100, MAX_IMBALANCE_PCT)?;
        let idx = self.load_idx;
        for (name, idx) in
            [("busy", idx.busy), ("idle", idx.idle), ("newidle", idx.newidle), ("forkexec", idx.forkexec)]
        {
            check_range(&format!("load_idx.{name}"), idx as u64, 0, 3)?;
        }
        Ok(O1Domain {
            imbalance_pct: self.imbalance_pct,
            busy_idx: idx.busy,
            idle_idx: idx.idle,
            newidle_idx: idx.newidle,
            forkexec_idx: idx.forkexec,
            ..O1Domain::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::balance::parse;
    use crate::kernels::o1::prio_bias;

    #[test]
    fn bad_cases_are_errors_that_name_what_is_wrong() {
        let good = json!({
            "idle": "busy", "this_cpu": 0, "imbalance_pct": 125,
            "load_idx": {"busy": 2, "idle": 1, "newidle": 2, "forkexec": 1},
            "groups": [
                {"first_cpu": 0, "weight": 1, "cpu_power": 128},
                {"first_cpu": 1, "weight": 1, "cpu_power": 128}
            ],
            "nr_running": [0, 4], "prio_bias": [0, 80], "cpu_load": [[0, 0, 0], [512, 512, 512]],
        });
        let decide = |case: &serde_json::Value| {
            parse::<O1Case>(&case.to_string()).and_then(|case| case.decide(&prio_bias::TABLE))
        };
        assert_eq!(decide(&good).unwrap().busiest, Some(1));
        for (pointer, value, part) in [
            ("/this_cpu", json!(2), "this_cpu = 2"),
            ("/imbalance_pct", json!(50), "imbalance_pct = 50"),
            ("/load_idx/idle", json!(4), "load_idx.idle = 4"),
            ("/groups/1/weight", json!(2), "groups[1].weight = 2"),
            ("/groups/0/cpu_power", json!(0), "groups[0].cpu_power = 0"),
            ("/groups", json!([{"first_cpu": 1, "weight": 1, "cpu_power": 128}]), "must be a CPU of a group"),
            ("/nr_running", json!([]), "number of CPUs = 0"),
            ("/prio_bias/1", json!(561), "prio_bias[1] = 561"),
            ("/cpu_load", json!([]), "cpu_load = 0 values"),
            ("/idle", json!("sleepy"), "idle"),
        ] {
            let mut case = good.clone();
            *case.pointer_mut(pointer).unwrap() = value;
            let error = decide(&case).expect_err(pointer).to_string();
            assert!(error.contains(part), "{pointer}: {error}");
        }
    }
}
