//! Faults: who touches a marked page, what is counted of it, and which node a task prefers after a scan.
//!
//! mm/memory.c, do_numa_page(); kernel/sched/fair.c, task_numa_fault(), task_numa_placement(), update_task_scan_period().

use super::{Balanced, Cpupid, Sim, pid_bit};
use crate::kernels::numa::faults::{FaultOf, Faults, Locality, PageFault, scan_period_after};
use crate::sim::rq::{NO_TASK, TaskId};

impl Sim<'_> {
    /// do_numa_page(): a task touches a marked page.
    pub(in crate::sim) fn do_numa_page(
        &mut self,
        cpu: usize,
        task: TaskId,
        region_number: usize,
        page: usize,
        balanced: &mut Balanced,
    ) {
        let node = self.node_of[cpu] as usize;
        let (scan_seq, unsettled, group, mm) = {
            let state = &self.numa.tasks[task as usize];
            (state.scan_seq, state.preferred.is_none(), state.group, state.mm)
        };
        let region = &mut self.memory.regions[region_number];
        region.prot_none[page] = false;
        let last = std::mem::replace(&mut region.last_cpupid[page], Cpupid::new(cpu, task));
        let src_node = usize::from(region.node[page]);
        let fault = PageFault {
            src_node,
            dst_node: node,
            last_node: last.cpu().map(|cpu| self.node_of[cpu] as usize),
            own: last.is_of(task),
            unsettled,
            scan_seq,
            group: group.map(|group| &self.numa.groups[group]),
        };
        let local = src_node == node;
        let page_kib = u64::from(region.spec.page_kib);
        let migrates = (self.kernel.numa.should_numa_migrate_memory.f)(&fault) && !local;
        let mut cost = self.cost.numa_fault_ns;
        self.record.metrics.numa_hint_faults += 1;
        self.record.metrics.numa_hint_faults_local += i64::from(local);
        if migrates {
            region.node[page] = node as u16;
            cost += self.cost.page_migrate_ns + page_kib * self.cost.copy_kib_ns;
            self.record.metrics.numa_pages_migrated += 1;
        }
        self.rqs[cpu].overhead_ns += cost;
        if let Some(vma) = self.numa.mms[mm].regions.iter_mut().find(|vma| vma.region == region_number) {
            vma.active[1] |= pid_bit(task);
        }
        let mem_node = if migrates { node } else { src_node };
        self.task_numa_fault(cpu, task, last, mem_node, page_kib / 4, balanced, local);
    }

    /// task_numa_fault(): counts a fault, and once in a while acts on what was counted.
    #[expect(clippy::too_many_arguments, reason = "the kernel's own, and where it happened")]
    fn task_numa_fault(
        &mut self,
        cpu: usize,
        task: TaskId,
        last: Cpupid,
        mem_node: usize,
        pages: u64,
        balanced: &mut Balanced,
        local: bool,
    ) {
        let nr_nodes = self.memory.nodes.len();
        let id = task as usize;
        if self.numa.tasks[id].mem_buffer.is_empty() {
            let state = &mut self.numa.tasks[id];
            state.faults = Faults::new(nr_nodes);
            state.mem_buffer = vec![[0; 2]; nr_nodes];
            state.cpu_buffer = vec![[0; 2]; nr_nodes];
        }
        let mut private = last == Cpupid::UNSET || last.is_of(task);
        if !private {
            let other =
                last.cpu().map(|cpu| self.rqs[cpu].curr).filter(|&curr| curr != NO_TASK && last.is_of(curr));
            private = !self.numa.task_numa_group(task, other);
        }
        let cpu_node = self.node_of[cpu] as usize;
        // Within the nodes that its group uses a shared page is as good as local.
        let within_group = !private
            && !local
            && self.numa.tasks[id].group.map(|group| &self.numa.groups[group]).is_some_and(|group| {
                group.active_nodes > 1 && group.is_active(cpu_node) && group.is_active(mem_node)
            });
        if !balanced.placed && self.jiffies() > self.numa.tasks[id].migrate_retry {
            self.task_numa_placement(task);
            balanced.wants_place = self.numa_migrate_preferred(task);
        }
        balanced.placed = true;
        let state = &mut self.numa.tasks[id];
        state.mem_buffer[mem_node][usize::from(private)] += pages;
        state.cpu_buffer[cpu_node][usize::from(private)] += pages;
        state.locality[usize::from(local || within_group)] += pages;
    }

    /// task_numa_placement(): after each scan the counts are halved, the new ones added, and the preferred node chosen.
    fn task_numa_placement(&mut self, task: TaskId) {
        let id = task as usize;
        let scan_seq = self.numa.mms[self.numa.tasks[id].mm].scan_seq;
        if self.numa.tasks[id].scan_seq == scan_seq {
            return;
        }
        let scan_max = self.numa.task_scan_max(&self.memory, task);
        let (runtime, period) = self.numa_get_avg_runtime(task);
        let state = &mut self.numa.tasks[id];
        state.scan_seq = scan_seq;
        state.scan_period_max_ms = scan_max;
        let total: u64 = state.locality.iter().sum();
        let mut group = state.group.map(|group| &mut self.numa.groups[group]);
        let mut seen =
            Locality { remote: state.locality[0], local: state.locality[1], ..Locality::default() };
        let mut best = (0, None);
        for node in 0..state.mem_buffer.len() {
            for private in 0..2 {
                let mem = std::mem::take(&mut state.mem_buffer[node][private]);
                let cpu = std::mem::take(&mut state.cpu_buffer[node][private]);
                // Faults of a task that runs little say little about the use of its CPU's node.
                let weight = (runtime << 16) / (period + 1) * cpu / (total + 1);
                let mem_diff = mem as i64 - (state.faults.get(FaultOf::Mem, node, private) / 2) as i64;
                let cpu_diff = weight as i64 - (state.faults.get(FaultOf::Cpu, node, private) / 2) as i64;
                *if private == 1 { &mut seen.private } else { &mut seen.shared } += mem;
                state.faults.add(FaultOf::Mem, node, private, mem_diff);
                state.faults.add(FaultOf::Cpu, node, private, cpu_diff);
                if let Some(group) = &mut group {
                    group.faults.add(FaultOf::Mem, node, private, mem_diff);
                    group.faults.add(FaultOf::Cpu, node, private, cpu_diff);
                }
            }
            let faults = group.as_ref().map_or(&state.faults, |group| &group.faults).on(FaultOf::Mem, node);
            if faults > best.0 {
                best = (faults, Some(node));
            }
        }
        if let (Some(group), Some(node)) = (&mut group, best.1) {
            group.count_active_nodes();
            best.1 = Some(self.memory.nodes.preferred_group_node(&group.faults, node));
        }
        if let Some(node) = best.1.map(|node| self.nearest_node_with_cpus(node) as u32)
            && self.numa.preferred_node(task) != Some(node)
        {
            self.sched_setnuma(task, node);
        }
        self.update_task_scan_period(task, &seen);
    }

    /// A node without CPUs is nobody's home: the nearest one with some is.
    fn nearest_node_with_cpus(&self, node: usize) -> usize {
        let with_cpus = (0..self.memory.nodes.len()).filter(|&other| !self.numa.node_cpus[other].is_empty());
        with_cpus.min_by_key(|&other| (self.memory.nodes.distance(node, other), other)).unwrap_or(node)
    }

    /// numa_get_avg_runtime(): run time since the last placement, and the time that has passed.
    fn numa_get_avg_runtime(&mut self, task: TaskId) -> (u64, u64) {
        let se = &self.tasks[task as usize].se;
        let (now, runtime, load_sum) = (se.exec_start, se.sum_exec_runtime, se.avg.load_sum);
        let state = &mut self.numa.tasks[task as usize];
        let answer = if state.last_placement == 0 {
            (load_sum, u64::from(self.pelt_table.load_avg_max))
        } else {
            (runtime - state.last_sum_exec_runtime, now.saturating_sub(state.last_placement))
        };
        (state.last_sum_exec_runtime, state.last_placement) = (runtime, now);
        answer
    }

    /// update_task_scan_period().
    fn update_task_scan_period(&mut self, task: TaskId, seen: &Locality) {
        let jiffies = self.jiffies();
        let rss = self.numa.rss(&self.memory, self.numa.tasks[task as usize].mm);
        let least = self.numa.scan.scan_min(rss);
        let most = self.numa.task_scan_max(&self.memory, task);
        let state = &self.numa.tasks[task as usize];
        let (period, doubled) =
            (state.scan_period_ms, (state.scan_period_ms * 2).min(state.scan_period_max_ms));
        let mm = state.mm;
        let after = scan_period_after(period, seen, least, most);
        if after.is_none() {
            self.numa.mms[mm].next_scan = jiffies + self.ms_to_jiffies(doubled);
        }
        let state = &mut self.numa.tasks[task as usize];
        state.scan_period_ms = after.unwrap_or(doubled);
        state.locality = [0; 2];
    }

    /// numa_migrate_preferred(): whether the task should look for a place near its memory.
    fn numa_migrate_preferred(&mut self, task: TaskId) -> bool {
        let period = self.ms_to_jiffies(self.numa.tasks[task as usize].scan_period_ms);
        let interval = (period / 16).min(u64::from(self.tunables.hz));
        let jiffies = self.jiffies();
        let node = self.node_of[usize::from(self.tasks[task as usize].cpu)];
        let state = &mut self.numa.tasks[task as usize];
        let Some(preferred) = state.preferred else { return false };
        state.migrate_retry = jiffies + interval;
        preferred != node
    }
}
