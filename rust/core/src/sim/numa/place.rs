//! Moves: a task goes to its preferred node, or changes places with one there.
//!
//! kernel/sched/fair.c, task_numa_migrate(); kernel/sched/core.c, migrate_task_to() and migrate_swap().

use std::cell::Cell;

use super::{Numa, NumaState, Sim};
use crate::kernels::numa::faults::{Faults, NumaGroup};
use crate::kernels::numa::{NumaCpus, NumaEnv, NumaStats, NumaTask};
use crate::pelt::PeltForm;
use crate::record::decisions::{NodeSums, NumaAnswer, NumaAsked};
use crate::sim::Memory;
use crate::sim::groups::{QueueId, TaskGroups, task_h_load};
use crate::sim::rq::{NO_TASK, Rq, Task, TaskId};
use crate::topology::SdFlags;

impl Sim<'_> {
    /// task_numa_migrate(): searches the preferred node, and others if that is no use; moves the running task of `cpu`, or
    /// has it change places.
    pub(in crate::sim) fn task_numa_migrate(&mut self, cpu: usize, task: TaskId) {
        let Some(preferred) = self.numa.preferred_node(task) else { return };
        let sd = self.topo.per_cpu[cpu].iter().find(|sd| sd.flags.has(SdFlags::NUMA));
        let Some(sd) = sd else {
            self.sched_setnuma(task, self.node_of[cpu]);
            return;
        };
        let imbalance_pct = 100 + (sd.imbalance_pct - 100) / 2;
        let found = self.search_place(cpu, task, preferred, imbalance_pct, sd.imb_numa_nr);
        let group = self.numa.tasks[task as usize].group;
        if group.is_some() {
            let node = found.cpu.map_or(self.node_of[cpu], |cpu| self.node_of[cpu]);
            if node != preferred {
                self.sched_setnuma(task, node);
            }
        }
        let Found { src, dst, .. } = found;
        let asked = NumaAsked { task, preferred_node: preferred, src, dst };
        let answer = NumaAnswer { cpu: found.cpu.map(|cpu| cpu as u32), swap_with: found.task };
        self.log_numa(cpu, asked, answer);
        match (found.cpu, found.task) {
            (None, _) => {}
            (Some(target), None) => {
                self.record.metrics.migrations_numa += 1;
                self.migrate_running(cpu, &[(task, cpu, target)]);
            }
            (Some(target), Some(other)) => {
                self.record.metrics.migrations_numa += 2;
                self.record.metrics.numa_swaps += 1;
                self.migrate_running(cpu, &[(task, cpu, target), (other, target, cpu)]);
            }
        }
    }

    /// The searches of task_numa_migrate(): the best CPU, and with whom to change places there.
    fn search_place(
        &mut self,
        cpu: usize,
        task: TaskId,
        preferred: u32,
        imbalance_pct: u32,
        imb_numa_nr: u32,
    ) -> Found {
        for other in 0..self.topo.nr_cpus {
            self.update_h_load(other);
        }
        // The load of queued tasks is compared, whatever the balancer compares; the old form keeps it in this slot.
        let queued_load = self.pelt_form == PeltForm::Old;
        if queued_load {
            for (load, rq) in self.numa.load.iter_mut().zip(&self.rqs) {
                *load = rq.cfs.avg.runnable_avg;
            }
            std::mem::swap(&mut self.stats.load, &mut self.numa.load);
        }
        let Numa { tasks: states, groups, numa_migrate_on, node_cpus, .. } = &mut self.numa;
        let (states, groups, node_cpus) = (&*states, &*groups, &*node_cpus);
        let nodes = &self.memory.nodes;
        let src_nid = self.node_of[cpu];
        let hop = Cell::new(nodes.distance(src_nid as usize, preferred as usize));
        let machine = EngineCpus {
            tasks: &self.tasks,
            rqs: &self.rqs,
            task_groups: &self.groups,
            states,
            groups,
            memory: &self.memory,
            node_of: self.node_of,
            src_nid,
            hop: &hop,
            llc_id: &self.topo.llc_id,
            has_idle_cores: &self.has_idle_cores,
        };
        let src_cpus = &node_cpus[src_nid as usize];
        let mut env = NumaEnv {
            kernel: &self.kernel,
            rqs: &self.stats,
            system: &self.system,
            cpus: &machine,
            numa_migrate_on,
            p: machine.numa_task(task, preferred),
            src_cpu: cpu,
            src_nid,
            dst_nid: preferred,
            dst_cpus: &node_cpus[preferred as usize],
            imbalance_pct,
            imb_numa_nr,
            src_stats: NumaStats::default(),
            dst_stats: NumaStats::default(),
            dst_cpu: cpu,
            best_cpu: None,
            best_task: None,
            best_imp: 0,
        };
        env.update_stats(src_cpus);
        let (src, dst) = (NodeSums::from(&env.src_stats), NodeSums::from(&env.dst_stats));
        env.find_cpu();
        let spread = states[task as usize].group.is_some_and(|group| groups[group].active_nodes > 1);
        if env.best_cpu.is_none() || spread {
            for node in 0..nodes.len() as u32 {
                if node == src_nid || node == preferred || node_cpus[node as usize].is_empty() {
                    continue;
                }
                // The distance is that to the node searched before, as in the kernel.
                hop.set(nodes.distance(src_nid as usize, env.dst_nid as usize));
                let p = machine.numa_task(task, node);
                if p.task_gain() < 0 && p.group_gain() < 0 {
                    continue;
                }
                env.p = p;
                env.dst_nid = node;
                env.dst_cpus = &node_cpus[node as usize];
                env.update_stats(src_cpus);
                env.find_cpu();
            }
        }
        let found = Found { cpu: env.best_cpu, task: env.best_task.map(|task| task.id), src, dst };
        if let Some(best) = found.cpu {
            numa_migrate_on.clear(best);
        }
        if queued_load {
            std::mem::swap(&mut self.stats.load, &mut self.numa.load);
        }
        found
    }

    /// The stoppers of migrate_task_to() and migrate_swap(): tasks, each on its CPU, go to another one. The first runs here.
    fn migrate_running(&mut self, this_cpu: usize, moves: &[(TaskId, usize, usize)]) {
        for &(task, src, _) in moves {
            if self.rqs[src].curr == task {
                self.pause_step(src);
                self.update_rq_clock(src);
                self.put_prev_task(src);
            }
        }
        for &(task, src, dst) in moves {
            self.move_tasks(src, dst, &[task]);
        }
        for &(_, src, _) in moves.iter().rev() {
            self.rqs[src].overhead_ns += self.cost.active_balance_ns;
            self.this_cpu = src;
            self.schedule(src);
            if src != this_cpu {
                self.leave(src);
            }
        }
    }
}

/// What a search found.
struct Found {
    cpu: Option<usize>,
    task: Option<TaskId>,
    /// The task's node, and the preferred one.
    src: NodeSums,
    dst: NodeSums,
}

/// The simulation as a search for a place sees it.
struct EngineCpus<'a> {
    tasks: &'a [Task],
    rqs: &'a [Rq],
    task_groups: &'a TaskGroups,
    states: &'a [NumaState],
    groups: &'a [NumaGroup],
    memory: &'a Memory,
    node_of: &'a [u32],
    src_nid: u32,
    hop: &'a Cell<u64>,
    llc_id: &'a [usize],
    has_idle_cores: &'a [bool],
}

impl<'a> EngineCpus<'a> {
    /// A task, with its weights on the source's node and another.
    fn numa_task(&self, id: TaskId, dst_nid: u32) -> NumaTask<'a> {
        let task = &self.tasks[id as usize];
        let state = &self.states[id as usize];
        let weights = |faults: Option<&Faults>| {
            [self.src_nid, dst_nid].map(|node| {
                faults.map_or(0, |faults| {
                    self.memory.nodes.weight(faults, node as usize, self.hop.get()) as i64
                })
            })
        };
        let has_faults = !state.mem_buffer.is_empty();
        let queue = QueueId { cpu: task.cpu, group: task.group };
        let root_load = self.rqs[usize::from(task.cpu)].cfs.avg.load_avg;
        NumaTask {
            id,
            load: task_h_load(self.task_groups, queue, root_load, task.se.avg.load_avg) as i64,
            numa_group: state.group.map(|group| group as u32),
            preferred_node: state.preferred,
            task_weights: weights(Some(&state.faults).filter(|_| has_faults)),
            group_weights: weights(state.group.map(|group| &self.groups[group].faults)),
            exiting: false,
            allowed: task.allowed.as_deref(),
        }
    }
}

impl NumaCpus for EngineCpus<'_> {
    fn curr(&self, cpu: usize) -> Option<NumaTask<'_>> {
        let curr = self.rqs[cpu].curr;
        (curr != NO_TASK).then(|| self.numa_task(curr, self.node_of[cpu]))
    }

    fn test_idle_cores(&self, cpu: usize) -> bool {
        self.has_idle_cores[self.llc_id[cpu]]
    }
}
