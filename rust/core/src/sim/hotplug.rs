//! CPUs that go off and come back during a run.
//!
//! kernel/sched/core.c: sched_cpu_deactivate(), migrate_tasks(), select_fallback_rq(), sched_cpu_activate();
//! kernel/sched/topology.c: partition_sched_domains().
//!
//! # Deviates
//!
//! A CPU is off at once, without a stop of the machine and without the hotplug thread's work on other CPUs. The new
//! domains' count of busy CPUs is right from the start; the kernel's catches up as CPUs enter and leave idle.

use std::borrow::Cow;

use super::Sim;
use super::balance::SdState;
use super::capacity::GroupCapacities;
use super::event::NEVER;
use super::rq::{Interrupt, NO_TASK, TaskId};
use super::tunables::Tunables;
use crate::cpumask::CpuMask;
use crate::topology::{MachineSpec, SchedDomains, SdFlags};

/// What a run reads of a machine while a set of its CPUs is online.
pub struct Plugged {
    /// The machine.
    pub machine: MachineSpec,
    /// Its domains under the kernel.
    pub domains: SchedDomains,
    /// The kernel's tunables: latencies follow the number of CPUs.
    pub tunables: Tunables,
}

impl<'a> Sim<'a> {
    /// A CPU goes off or comes back, once in a while; `plugged` is the state after that.
    #[cold]
    pub(super) fn plug_cpu(&mut self, cpu: usize, online: bool, plugged: &'a Plugged) {
        self.numa.plug_cpu(self.node_of[cpu], cpu, online);
        if online {
            self.cpu_up(cpu, plugged);
        } else {
            self.cpu_down(cpu, plugged);
        }
    }

    /// sched_cpu_activate() of a CPU that has been idle until now.
    fn cpu_up(&mut self, cpu: usize, plugged: &'a Plugged) {
        self.this_cpu = cpu;
        self.update_rq_clock(cpu);
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        rq.idle_stamp = now;
        rq.since_ns = now;
        rq.idle_balance = true;
        self.online.set(cpu);
        self.update_idle(cpu);
        self.record.cpu_online(now, true);
        self.rebuild_sched_domains(plugged);
        self.arm(cpu);
    }

    /// sched_cpu_deactivate() and migrate_tasks(): the domains are rebuilt without the CPU, then its tasks leave.
    fn cpu_down(&mut self, cpu: usize, plugged: &'a Plugged) {
        let siblings = &self.topo.smt_mask[cpu];
        self.update_rq_clock(cpu);
        // Those on their way here arrive, to be sent on with the others.
        self.this_cpu = cpu;
        self.ttwu_pending(cpu);
        self.online.clear(cpu);
        self.rebuild_sched_domains(plugged);
        self.this_cpu = self.first_online_cpu();
        self.push_all_tasks(cpu);
        siblings.iter().filter(|&sibling| sibling != cpu).for_each(|sibling| self.change_speed(sibling));
        let was_kicked = self.rqs[cpu].pending.iter().any(|&(_, what)| what == Interrupt::NohzKick);
        if was_kicked {
            self.nohz.kicked = None;
        }
        let rq = &mut self.rqs[cpu];
        rq.pending.clear();
        rq.need_resched = false;
        rq.active_balance = false;
        rq.nohz_idle = true;
        rq.tick_at_ns = NEVER;
        rq.step_end_ns = NEVER;
        rq.overhead_ns = 0;
        self.stats.idle[cpu] = false;
        self.stats.misfit_task_load[cpu] = 0;
        self.record.cpu_online(self.now, false);
        self.arm(cpu);
        self.leave(self.this_cpu);
    }

    /// migrate_tasks(): every task goes where select_fallback_rq() says; one that only waits to be dequeued leaves.
    fn push_all_tasks(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        if curr != NO_TASK {
            self.pause_step(cpu);
            self.put_prev_task(cpu);
            self.rqs[cpu].curr = NO_TASK;
            self.record.busy(cpu, self.now - self.rqs[cpu].since_ns);
            self.rqs[cpu].since_ns = self.now;
        }
        loop {
            let task = self.rqs[cpu].list_head;
            if task == NO_TASK {
                break;
            }
            if self.tasks[task as usize].se.sched_delayed {
                self.finish_delayed_dequeue(self.task_cfs_rq(cpu, task), task);
                continue;
            }
            let target = self.select_fallback_rq(task, cpu);
            self.move_tasks(cpu, target, &[task]);
            self.record.metrics.migrations_hotplug += 1;
        }
        self.update_idle(cpu);
    }

    /// select_fallback_rq(): a CPU of the same node, then any that the task may use, then, its affinity broken, any.
    pub(super) fn select_fallback_rq(&mut self, task: TaskId, cpu: usize) -> usize {
        let (online, node_of) = (&self.online, self.node_of);
        let allowed = self.tasks[task as usize].allowed.as_deref();
        let may_use = |cpu: usize| allowed.is_none_or(|allowed| allowed.test(cpu));
        let near = online.iter().find(|&other| node_of[other] == node_of[cpu] && may_use(other));
        if let Some(found) = near.or_else(|| online.iter().find(|&other| may_use(other))) {
            return found;
        }
        self.tasks[task as usize].allowed = None;
        self.first_online_cpu()
    }

    /// The CPU that does what has no CPU of its own: the first online one.
    pub(super) fn first_online_cpu(&self) -> usize {
        self.online.first().unwrap_or(0)
    }

    /// partition_sched_domains(): every CPU gets new domains, and what balancing remembered of the old ones is gone.
    fn rebuild_sched_domains(&mut self, plugged: &'a Plugged) {
        let (topo, machine) = (&plugged.domains, &plugged.machine);
        self.topo = topo;
        self.tunables = &plugged.tunables;
        self.nr_online_cpus = self.online.weight() as u64;
        self.sched_groups = Cow::Borrowed(&topo.groups);
        self.sgc_imbalance = vec![false; topo.nr_sgc];
        let jiffies = self.jiffies();
        let fresh = |hierarchy: &Vec<_>| hierarchy.iter().map(|sd| SdState::new(sd, jiffies)).collect();
        self.sds = topo.per_cpu.iter().map(fresh).collect();
        self.set_machine_state(machine);
        // A new sched_domain_shared is all zero.
        self.has_idle_cores.fill(false);
        self.nr_idle_scan.fill(0);
        self.nr_busy_cpus.fill(0);
        self.overload = false;
        self.nohz.idle_cpus = CpuMask::new(topo.nr_cpus);
        for cpu in self.online.iter() {
            if self.rqs[cpu].nohz_idle {
                self.nohz.idle_cpus.set(cpu);
            } else {
                self.nr_busy_cpus[topo.llc_id[cpu]] += 1;
            }
        }
        self.nohz.nr_cpus = self.nohz.idle_cpus.weight() as u32;
        self.record.rebuilt(topo);
        if self.group_capacities.is_some() {
            self.group_capacities = Some(GroupCapacities::new(topo));
            for cpu in 0..topo.nr_cpus {
                (0..topo.per_cpu[cpu].len()).for_each(|level| self.update_group_capacity(cpu, level));
            }
        }
    }

    /// What decisions read of the machine as a whole, for the CPUs that are online.
    pub(super) fn set_machine_state(&mut self, machine: &MachineSpec) {
        let (topo, online) = (self.topo, &self.online);
        // A thread that is off is nobody's sibling.
        let core = |cpu: usize| if online.test(cpu) { machine.core[cpu] } else { u32::MAX - cpu as u32 };
        self.stats.set_cores(&(0..topo.nr_cpus).map(core).collect::<Vec<_>>());
        let some_domain_has = |flag| topo.per_cpu.iter().flatten().any(|sd| sd.flags.has(flag));
        let capacity_orig = &self.stats.capacity_orig;
        self.system.smt_active = topo.smt_mask.iter().any(|mask| mask.weight() > 1);
        self.system.asym_capacity = some_domain_has(SdFlags::ASYM_CPUCAPACITY);
        self.system.max_cpu_capacity = online.iter().map(|cpu| capacity_orig[cpu]).max().unwrap_or(0);
        self.system.clusters = some_domain_has(SdFlags::CLUSTER);
    }
}
