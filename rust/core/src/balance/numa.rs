//! NUMA placement from plain data: where on another node a task would go.

use serde::{Deserialize, Serialize};

use super::{
    MAX_CAPACITY, MAX_CPUS, MAX_IMBALANCE_PCT, MAX_LOAD, MAX_TASKS, check_column, check_cpu, check_range,
    filled, flag, flags,
};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::kernels::Kernel;
use crate::kernels::env::{RqStats, SystemState, TaskRef};
use crate::kernels::numa::{NumaCpus, NumaEnv, NumaStats, NumaTask};

/// Node of the task, and of the places that it might go to.
const NODES: [u32; 2] = [0, 1];

/// The number of the task to place; tasks of the other node have the numbers of their CPUs.
const PLACED: TaskRef = TaskRef::MAX;

/// Largest fault weight that a case may give; the kernel's are thousandths.
const MAX_WEIGHT: u64 = 1 << 20;

/// A case of `task_numa_find_cpu`: two nodes of as many CPUs each, the task on node 0, places on node 1.
#[derive(Clone, Debug, Deserialize)]
pub struct NumaCase {
    /// CPUs of a node: node 0 is CPUs 0 up to this, node 1 the next ones.
    #[serde(alias = "w")]
    pub node_weight: usize,
    /// Hardware threads of a core; a core's CPUs are consecutive.
    #[serde(default = "one", alias = "tpc")]
    pub threads_per_core: usize,
    /// Half of what the NUMA domain tolerates, in per cent: 100 + (imbalance_pct - 100) / 2.
    #[serde(alias = "pct")]
    pub imbalance_pct: u32,
    /// `imb_numa_nr` of the NUMA domain (5.18 and later).
    #[serde(default)]
    pub imb_numa_nr: u32,
    /// Runnable tasks of every class; a CPU without is idle.
    #[serde(alias = "nr")]
    pub nr_running: Vec<u32>,
    /// Runnable fair tasks; absent: as many as `nr_running`.
    #[serde(default, alias = "h")]
    pub h_nr_running: Vec<u32>,
    /// `cpu_load()`; up to v5.6 the load of queued tasks.
    #[serde(default)]
    pub load: Vec<u64>,
    /// Load with sleepers; absent: as `load`. Only the patch `runnable-avg-numa-load` reads it.
    #[serde(default)]
    pub load_avg: Vec<u64>,
    /// `cpu_util()`.
    #[serde(default)]
    pub util: Vec<u64>,
    /// `cpu_runnable()`.
    #[serde(default, alias = "run")]
    pub runnable: Vec<u64>,
    /// `capacity_of()`; absent: 1024 each.
    #[serde(default, alias = "cap")]
    pub capacity: Vec<u64>,
    /// CPUs that take part in another move or swap.
    #[serde(default, alias = "on", deserialize_with = "flags")]
    pub numa_migrate_on: Vec<bool>,
    /// CPU that another move claims after the nodes' statistics were taken; absent: none.
    #[serde(default)]
    pub claimed_later: Option<usize>,
    /// The task to place.
    #[serde(alias = "p")]
    pub task: NumaTaskCase,
    /// The tasks that run on node 1, in the order of its CPUs; null: none.
    pub curr: Vec<Option<NumaTaskCase>>,
}

/// A task of a [`NumaCase`].
#[derive(Clone, Debug, Deserialize)]
pub struct NumaTaskCase {
    /// CPU of the task to place; of no meaning for others.
    #[serde(default)]
    pub cpu: usize,
    /// `task_h_load()`.
    pub load: u64,
    /// NUMA group; -1 or absent: none.
    #[serde(default, alias = "grp")]
    pub numa_group: Option<i32>,
    /// Preferred node, 0 or 1; -1 or absent: none.
    #[serde(default, alias = "pref")]
    pub preferred_node: Option<i32>,
    /// Thousandths of its own faults on node 0 and node 1.
    #[serde(alias = "tw")]
    pub task_weights: [u64; 2],
    /// Thousandths of its group's faults on node 0 and node 1.
    #[serde(alias = "gw")]
    pub group_weights: [u64; 2],
    /// CPUs where it may run; absent: everywhere.
    #[serde(default)]
    pub allowed: Option<Vec<usize>>,
    /// It may not run on the CPU of the task to place.
    #[serde(default, alias = "noaff", deserialize_with = "flag")]
    pub bound: bool,
    /// It is about to exit.
    #[serde(default, deserialize_with = "flag")]
    pub exiting: bool,
}

/// What a search for a place decides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NumaOutcome {
    /// Statistics of the node of the task.
    pub src: NumaStatsOutcome,
    /// Statistics of the other node.
    pub dst: NumaStatsOutcome,
    /// The nodes' loads would be further apart if the task just moved.
    pub load_too_imbalanced: bool,
    /// Tasks of imbalance after a move that the load balancer would not tolerate; absent before v5.7, which does not
    /// ask.
    pub adjusted_imbalance: Option<i64>,
    /// The place; absent: none was found.
    pub best_cpu: Option<usize>,
    /// CPU whose running task goes the other way; absent: a plain move.
    pub swap_with: Option<usize>,
    /// What it gains, in thousandths of faults.
    pub best_imp: i64,
}

/// Statistics of a node, as a case shows them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NumaStatsOutcome {
    /// The class; absent before v5.7.
    pub node_type: Option<&'static str>,
    /// Sum of load.
    pub load: u64,
    /// Sum of utilization; 0 before v5.7.
    pub util: u64,
    /// Sum of runnable_avg; 0 before 5.10.
    pub runnable: u64,
    /// Sum of capacity.
    pub compute_capacity: u64,
    /// Runnable fair tasks; 0 before v5.7.
    pub nr_running: u32,
    /// Idle CPU that the task could take; looked for on the other node only, from v5.7.
    pub idle_cpu: Option<usize>,
}

impl From<&NumaStats> for NumaStatsOutcome {
    fn from(ns: &NumaStats) -> Self {
        Self {
            node_type: ns.node_type.map(|node_type| node_type.name()),
            load: ns.load,
            util: ns.util,
            runnable: ns.runnable,
            compute_capacity: ns.compute_capacity,
            nr_running: ns.nr_running,
            idle_cpu: ns.idle_cpu,
        }
    }
}

impl NumaCase {
    /// Decides the case as `kernel` does.
    pub fn decide(&self, kernel: &Kernel) -> Result<NumaOutcome> {
        let rqs = self.rq_stats()?;
        let nr_cpus = rqs.nr_running.len();
        self.check_tasks(&rqs)?;
        let node =
            |nid: usize| CpuMask::from_cpus(nr_cpus, nid * self.node_weight..(nid + 1) * self.node_weight);
        let (src_cpus, dst_cpus) = (node(0), node(1));
        let mut numa_migrate_on = self.claims(nr_cpus)?;
        let machine = CaseCpus::new(self, &rqs, &dst_cpus);
        let system = SystemState { smt_active: self.threads_per_core > 1, ..SystemState::default() };
        let allowed = self.task.allowed_cpus(nr_cpus);
        let mut env = NumaEnv {
            kernel,
            rqs: &rqs,
            system: &system,
            cpus: &machine,
            numa_migrate_on: &mut numa_migrate_on,
            p: self.task.task(PLACED, allowed.as_ref()),
            src_cpu: self.task.cpu,
            src_nid: NODES[0],
            dst_nid: NODES[1],
            dst_cpus: &dst_cpus,
            imbalance_pct: self.imbalance_pct,
            imb_numa_nr: self.imb_numa_nr,
            src_stats: NumaStats::default(),
            dst_stats: NumaStats::default(),
            dst_cpu: self.node_weight,
            best_cpu: None,
            best_task: None,
            best_imp: 0,
        };
        env.update_stats(&src_cpus);
        let load_too_imbalanced = env.is_too_imbalanced_by(env.p.load);
        let asks_balancer = env.dst_stats.node_type.is_some();
        let adjusted_imbalance = asks_balancer.then(|| env.imbalance_after_move());
        if let Some(cpu) = self.claimed_later {
            check_cpu("claimed_later", cpu, nr_cpus)?;
            env.numa_migrate_on.set(cpu);
        }
        env.find_cpu();
        Ok(NumaOutcome {
            src: NumaStatsOutcome::from(&env.src_stats),
            dst: NumaStatsOutcome::from(&env.dst_stats),
            load_too_imbalanced,
            adjusted_imbalance,
            best_cpu: env.best_cpu,
            swap_with: env.best_task.map(|task| task.id as usize),
            best_imp: env.best_imp,
        })
    }

    fn rq_stats(&self) -> Result<RqStats> {
        check_range("imbalance_pct", u64::from(self.imbalance_pct), 100, MAX_IMBALANCE_PCT)?;
        check_range("node_weight", self.node_weight as u64, 1, MAX_CPUS as u64 / 2)?;
        check_range("threads_per_core", self.threads_per_core as u64, 1, self.node_weight as u64)?;
        let n = 2 * self.node_weight;
        let amounts = |name, column: &[u64], absent, least, most| {
            let column = filled(name, column, n, absent)?;
            check_column(name, column.iter().copied(), least, most)?;
            Ok::<_, SimError>(column)
        };
        let tasks = |name, column: &[u32]| {
            let column = filled(name, column, n, 0)?;
            check_column(name, column.iter().map(|&value| u64::from(value)), 0, MAX_TASKS)?;
            Ok::<_, SimError>(column)
        };
        let nr_running = tasks("nr_running", &self.nr_running)?;
        let h_nr_running = if self.h_nr_running.is_empty() { &nr_running } else { &self.h_nr_running };
        let load_avg = if self.load_avg.is_empty() { &self.load } else { &self.load_avg };
        let mut rqs = RqStats {
            load: amounts("load", &self.load, 0, 0, MAX_LOAD)?,
            load_avg: amounts("load_avg", load_avg, 0, 0, MAX_LOAD)?,
            util: amounts("util", &self.util, 0, 0, MAX_CAPACITY)?,
            runnable: amounts("runnable", &self.runnable, 0, 0, MAX_LOAD)?,
            capacity: amounts("capacity", &self.capacity, 1024, 1, MAX_CAPACITY)?,
            h_nr_running: tasks("h_nr_running", h_nr_running)?,
            idle: nr_running.iter().map(|&nr_running| nr_running == 0).collect(),
            nr_running,
            ..RqStats::new(n)
        };
        rqs.set_cores(&(0..n).map(|cpu| self.core_of(cpu)).collect::<Vec<_>>());
        Ok(rqs)
    }

    /// Number of the CPU's core; cores do not span nodes.
    fn core_of(&self, cpu: usize) -> u32 {
        let (node, index) = (cpu / self.node_weight, cpu % self.node_weight);
        let cores_per_node = self.node_weight.div_ceil(self.threads_per_core);
        (node * cores_per_node + index / self.threads_per_core) as u32
    }

    fn check_tasks(&self, rqs: &RqStats) -> Result<()> {
        let nr_cpus = rqs.nr_running.len();
        self.task.check("task", nr_cpus)?;
        check_range("task.cpu", self.task.cpu as u64, 0, self.node_weight as u64 - 1)?;
        // The task runs there, so there is one at least.
        let nr_running = rqs.nr_running[self.task.cpu];
        check_range(&format!("nr_running[{}]", self.task.cpu), u64::from(nr_running), 1, MAX_TASKS)?;
        if self.curr.len() != self.node_weight {
            let rule = format!("must have one entry for each of the {} CPUs of node 1", self.node_weight);
            return Err(SimError::invalid("curr", format!("{} entries", self.curr.len()), rule));
        }
        for (index, task) in self.curr.iter().enumerate() {
            task.iter().try_for_each(|task| task.check(&format!("curr[{index}]"), nr_cpus))?;
        }
        Ok(())
    }

    fn claims(&self, nr_cpus: usize) -> Result<CpuMask> {
        let on = filled("numa_migrate_on", &self.numa_migrate_on, nr_cpus, false)?;
        Ok(CpuMask::from_cpus(nr_cpus, (0..nr_cpus).filter(|&cpu| on[cpu])))
    }
}

fn one() -> usize {
    1
}

impl NumaTaskCase {
    fn check(&self, name: &str, nr_cpus: usize) -> Result<()> {
        check_range(&format!("{name}.load"), self.load, 0, MAX_LOAD)?;
        for (field, weights) in [("task_weights", self.task_weights), ("group_weights", self.group_weights)] {
            check_column(&format!("{name}.{field}"), weights.into_iter(), 0, MAX_WEIGHT)?;
        }
        let allowed = self.allowed.iter().flatten();
        allowed.copied().try_for_each(|cpu| check_cpu(&format!("{name}.allowed"), cpu, nr_cpus))
    }

    fn allowed_cpus(&self, nr_cpus: usize) -> Option<CpuMask> {
        self.allowed.as_ref().map(|cpus| CpuMask::from_cpus(nr_cpus, cpus.iter().copied()))
    }

    fn task<'a>(&self, id: TaskRef, allowed: Option<&'a CpuMask>) -> NumaTask<'a> {
        NumaTask {
            id,
            load: self.load as i64,
            numa_group: self.numa_group.and_then(|group| u32::try_from(group).ok()),
            preferred_node: self.preferred_node.and_then(|node| u32::try_from(node).ok()),
            task_weights: self.task_weights.map(|weight| weight as i64),
            group_weights: self.group_weights.map(|weight| weight as i64),
            exiting: self.exiting,
            allowed,
        }
    }
}

/// What runs on node 1 of a [`NumaCase`].
struct CaseCpus<'a> {
    case: &'a NumaCase,
    allowed: Vec<Option<CpuMask>>,
    has_idle_core: bool,
}

impl<'a> CaseCpus<'a> {
    fn new(case: &'a NumaCase, rqs: &RqStats, dst_cpus: &CpuMask) -> Self {
        let nr_cpus = rqs.idle.len();
        let allowed_cpus = |task: &NumaTaskCase| {
            let mut allowed = task.allowed_cpus(nr_cpus);
            if task.bound {
                allowed.get_or_insert_with(|| CpuMask::all(nr_cpus)).clear(case.task.cpu);
            }
            allowed
        };
        let allowed = case.curr.iter().map(|task| task.as_ref().and_then(allowed_cpus)).collect();
        let has_idle_core =
            dst_cpus.iter().any(|cpu| rqs.idle[cpu] && rqs.siblings(cpu).all(|sibling| rqs.idle[sibling]));
        Self { case, allowed, has_idle_core }
    }
}

impl NumaCpus for CaseCpus<'_> {
    fn curr(&self, cpu: usize) -> Option<NumaTask<'_>> {
        let index = cpu.checked_sub(self.case.node_weight)?;
        let task = self.case.curr.get(index)?.as_ref()?;
        Some(task.task(cpu as TaskRef, self.allowed[index].as_ref()))
    }

    fn test_idle_cores(&self, _cpu: usize) -> bool {
        self.has_idle_core
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::balance::parse;
    use crate::kernels::patches::numa_lb_reconcile;
    use crate::kernels::{v5_6, v5_7, v6_12};

    fn decide(case: &Value, kernel: &Kernel) -> NumaOutcome {
        parse::<NumaCase>(&case.to_string()).unwrap().decide(kernel).unwrap()
    }

    /// A task of node 0 wants to run on node 1, where the CPU next to a busy one idles. Node 0 has one task, so that
    /// its load falls to nothing.
    fn towards_an_idle_cpu() -> Value {
        json!({
            "node_weight": 2, "imbalance_pct": 112, "imb_numa_nr": 2,
            "nr_running": [1, 0, 1, 0], "load": [1024, 0, 1024, 0],
            "task": {"cpu": 0, "load": 1024, "task_weights": [200, 800], "group_weights": [0, 0]},
            "curr": [
                {"load": 1024, "preferred_node": 1, "task_weights": [0, 1000], "group_weights": [0, 0]},
                null
            ],
        })
    }

    /// `task_numa_find_cpu`: before v5.7 load forbids what the balancer would not even notice.
    #[test]
    fn v5_7_takes_an_idle_cpu_that_v5_6_refuses_for_load() {
        let case = towards_an_idle_cpu();
        let v5_6 = decide(&case, &v5_6::KERNEL);
        assert!(v5_6.load_too_imbalanced);
        assert_eq!((v5_6.best_cpu, v5_6.src.node_type), (None, None));
        let v5_7 = decide(&case, &v5_7::KERNEL);
        assert_eq!((v5_7.best_cpu, v5_7.swap_with, v5_7.best_imp), (Some(3), None, 0));
        assert_eq!(v5_7.adjusted_imbalance, Some(0));
        assert_eq!(decide(&case, &numa_lb_reconcile::KERNEL), v5_7, "the patch is what makes the difference");
    }

    /// `adjust_numa_imbalance`: v6.12 tolerates an imbalance only up to `imb_numa_nr` running tasks.
    #[test]
    fn v6_12_asks_how_many_tasks_the_node_may_have() {
        let mut case = towards_an_idle_cpu();
        assert_eq!(decide(&case, &v6_12::KERNEL).best_cpu, Some(3));
        case["imb_numa_nr"] = json!(1);
        let outcome = decide(&case, &v6_12::KERNEL);
        assert_eq!((outcome.best_cpu, outcome.adjusted_imbalance), (None, Some(2)));
    }

    /// `task_numa_compare`: v6.12 does not swap tasks of one group while there is room.
    #[test]
    fn v6_12_leaves_tasks_of_one_group_alone_while_there_is_room() {
        let member = |cpu: usize, weights: [u64; 2]| json!({"cpu": cpu, "load": 512, "numa_group": 7, "task_weights": weights, "group_weights": [500, 500]});
        let mut case = json!({
            "node_weight": 2, "imbalance_pct": 112, "imb_numa_nr": 1,
            "nr_running": [4, 3, 1, 0], "load": [1024, 512, 1024, 0], "numa_migrate_on": [0, 0, 0, 1],
            "task": member(0, [100, 900]),
            "curr": [member(2, [900, 100]), null],
        });
        assert_eq!(decide(&case, &v5_6::KERNEL).swap_with, Some(2));
        assert_eq!(decide(&case, &v6_12::KERNEL).swap_with, None);
        case["curr"][0]["numa_group"] = json!(8);
        case["curr"][0]["group_weights"] = json!([900, 100]);
        assert_eq!(decide(&case, &v6_12::KERNEL).swap_with, Some(2));
    }

    /// `numa_idle_core`: v5.7 means to look for an idle core, and takes any idle CPU.
    #[test]
    fn v6_12_looks_at_the_whole_core() {
        let case = json!({
            "node_weight": 4, "threads_per_core": 2, "imbalance_pct": 112, "imb_numa_nr": 4,
            "nr_running": [1, 0, 0, 0, 1, 0, 0, 0],
            "task": {"cpu": 0, "load": 1024, "task_weights": [0, 1000], "group_weights": [0, 0]},
            "curr": [{"load": 1024, "task_weights": [0, 0], "group_weights": [0, 0]}, null, null, null],
        });
        assert_eq!(decide(&case, &v5_7::KERNEL).dst.idle_cpu, Some(5));
        assert_eq!(decide(&case, &v6_12::KERNEL).dst.idle_cpu, Some(6));
    }

    /// `task_numa_assign`: v5.7 finds another idle CPU if a rival claimed the one it wanted.
    #[test]
    fn v5_7_finds_another_cpu_if_one_was_claimed_meanwhile() {
        let mut case = towards_an_idle_cpu();
        case["node_weight"] = json!(3);
        case["nr_running"] = json!([1, 0, 0, 1, 0, 0]);
        case["load"] = json!([1024, 0, 0, 1024, 0, 0]);
        case["curr"].as_array_mut().unwrap().push(Value::Null);
        case["claimed_later"] = json!(4);
        assert_eq!(decide(&case, &v5_7::KERNEL).best_cpu, Some(5));
        case["task"]["allowed"] = json!([0, 3, 4]);
        assert_eq!(decide(&case, &v5_7::KERNEL).best_cpu, None);
    }

    #[test]
    fn bad_cases_are_errors_that_name_what_is_wrong() {
        for (pointer, value, part) in [
            ("/imbalance_pct", json!(99), "imbalance_pct = 99"),
            ("/node_weight", json!(0), "node_weight = 0"),
            ("/node_weight", json!(3), "nr_running = 4 values"),
            ("/nr_running", json!([]), "nr_running[0] = 0"),
            ("/nr_running/0", json!(0), "nr_running[0] = 0"),
            ("/load/2", json!(u64::MAX), "load[2] ="),
            ("/task/cpu", json!(2), "task.cpu = 2"),
            ("/task/load", json!(-1), "case ="),
            ("/task/task_weights/1", json!(1 << 21), "task.task_weights[1]"),
            ("/curr", json!([null]), "curr = 1 entries"),
            ("/curr/0/load", json!(1u64 << 40), "curr[0].load"),
        ] {
            let mut case = towards_an_idle_cpu();
            *case.pointer_mut(pointer).unwrap() = value;
            let error = parse::<NumaCase>(&case.to_string())
                .and_then(|case| case.decide(&v5_7::KERNEL))
                .expect_err(pointer)
                .to_string();
            assert!(error.contains(part), "{pointer}: {error}");
        }
        let mut case = towards_an_idle_cpu();
        case["claimed_later"] = json!(4);
        let error = parse::<NumaCase>(&case.to_string()).unwrap().decide(&v5_7::KERNEL).unwrap_err();
        assert!(error.to_string().starts_with("claimed_later = 4"), "{error}");
    }
}
