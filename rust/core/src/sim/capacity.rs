//! What CPUs can give fair tasks, and who runs where that is too little.
//!
//! kernel/sched/fair.c: update_misfit_status(), scale_rt_capacity(), update_group_capacity().

use super::Sim;
use super::rq::{NO_TASK, TaskId};
use crate::kernels::capacity::{Demand, MisfitEnv};
use crate::kernels::env::CpuIdleType;
use crate::topology::{SchedDomains, SdFlags};

/// When the groups' capacities were last summed up; only where real-time tasks take some of it.
#[derive(Debug)]
pub(super) struct GroupCapacities {
    /// By capacity object: the groups that share it.
    groups_of: Vec<Vec<usize>>,
    /// By capacity object: `next_update`, jiffies.
    next_update: Vec<u64>,
}

impl GroupCapacities {
    pub fn new(topo: &SchedDomains) -> Self {
        let mut groups_of = vec![Vec::new(); topo.nr_sgc];
        for (index, group) in topo.groups.iter().enumerate() {
            groups_of[group.sgc].push(index);
        }
        Self { groups_of, next_update: vec![0; topo.nr_sgc] }
    }
}

impl Sim<'_> {
    /// pick_next_task_fair(), and what it leaves behind: the misfit.
    #[inline]
    pub(super) fn pick_next_fair(&mut self, cpu: usize, prev: TaskId) -> Option<TaskId> {
        let next = self.pick_next_task(cpu, prev);
        if self.system.asym_capacity {
            self.update_misfit_status(cpu, next);
        }
        next
    }

    /// The parts of task_tick_fair() and task_tick_rt() that are about capacity.
    #[inline]
    pub(super) fn tick_capacity(&mut self, cpu: usize) {
        if self.rqs[cpu].rt.curr != NO_TASK {
            self.update_rt_avg(cpu, true);
        } else if self.system.asym_capacity {
            self.update_misfit_status(cpu, Some(self.rqs[cpu].curr));
        }
    }

    /// update_misfit_status() of the fair task that runs on a CPU; without one no task is too big.
    pub(super) fn update_misfit_status(&mut self, cpu: usize, task: Option<TaskId>) {
        let Some(task) = task else {
            self.stats.misfit_task_load[cpu] = 0;
            return;
        };
        let load = self.task_h_load(task);
        let util = self.task_util_est(task);
        let this = &self.tasks[task as usize];
        let capacity_orig = &self.stats.capacity_orig;
        let max_allowed_capacity = match &this.allowed {
            None => self.system.max_cpu_capacity,
            Some(allowed) => allowed.iter().map(|cpu| capacity_orig[cpu]).max().unwrap_or(0),
        };
        self.stats.misfit_task_load[cpu] = (self.kernel.capacity.update_misfit_status.f)(&MisfitEnv {
            kernel: &self.kernel,
            demand: Demand { util, clamp: this.clamp },
            room: self.stats.room(cpu),
            load,
            pinned: this.is_pinned(),
            max_allowed_capacity,
        });
    }

    /// The part of update_sd_lb_stats() that is about the capacity of the local group: a newidle pass looks at it only when
    /// it is due.
    pub(super) fn refresh_group_capacity(&mut self, cpu: usize, level: usize, idle: CpuIdleType) {
        let Some(capacities) = &self.group_capacities else { return };
        let sgc = self.sched_groups[self.topo.per_cpu[cpu][level].ring[0]].sgc;
        if idle != CpuIdleType::NewlyIdle || self.jiffies() >= capacities.next_update[sgc] {
            self.update_group_capacity(cpu, level);
        }
    }

    /// update_group_capacity(): the group's capacity is what its child domain's groups had when they were last looked at.
    pub(super) fn update_group_capacity(&mut self, cpu: usize, level: usize) {
        let topo = self.topo;
        let sgc = self.sched_groups[topo.per_cpu[cpu][level].ring[0]].sgc;
        let due = self.jiffies() + self.capacity_interval(cpu, level);
        if let Some(capacities) = &mut self.group_capacities {
            capacities.next_update[sgc] = due;
        }
        let (mut sum, mut min, mut max) = (0, u64::MAX, 0);
        let mut add = |capacity: u64, least: u64, most: u64| {
            (sum, min, max) = (sum + capacity, min.min(least), max.max(most));
        };
        match level.checked_sub(1).map(|child| &topo.per_cpu[cpu][child]) {
            None => {
                let capacity = self.scale_rt_capacity(cpu);
                self.stats.capacity[cpu] = capacity;
                add(capacity, capacity, capacity);
            }
            // Groups that overlap would count CPUs twice.
            Some(child) if child.flags.has(SdFlags::NUMA) => {
                for cpu in self.sched_groups[topo.per_cpu[cpu][level].ring[0]].span.iter() {
                    let capacity = self.stats.capacity[cpu];
                    add(capacity, capacity, capacity);
                }
            }
            Some(child) => {
                for &group in &child.ring {
                    let group = &self.sched_groups[group];
                    add(group.capacity, group.min_capacity, group.max_capacity);
                }
            }
        }
        let Some(capacities) = &self.group_capacities else { return };
        let groups = self.sched_groups.to_mut();
        for &group in &capacities.groups_of[sgc] {
            let group = &mut groups[group];
            (group.capacity, group.min_capacity, group.max_capacity) = (sum, min, max);
        }
    }

    /// Jiffies until a group's capacity is due again.
    fn capacity_interval(&self, cpu: usize, level: usize) -> u64 {
        let hz = u64::from(self.tunables.hz);
        let max = (hz * self.nr_online_cpus / 10).max(1);
        (self.sds[cpu][level].balance_interval_ms * hz).div_ceil(1000).clamp(1, max)
    }

    /// scale_rt_capacity(): what real-time tasks leave.
    ///
    /// # Deviates
    ///
    /// Interrupts and deadline tasks take nothing: they are not modelled.
    fn scale_rt_capacity(&self, cpu: usize) -> u64 {
        let max = self.stats.capacity_orig[cpu];
        max.saturating_sub(self.rqs[cpu].rt.avg.util_avg).max(1)
    }
}
