//! Scans: the pages of an address space are marked in turn, a window at a time, at the cost of those who run.
//!
//! kernel/sched/fair.c, task_tick_numa() and task_numa_work(); mm/mprotect.c, change_prot_numa().

use super::{Sim, pid_bit};
use crate::kernels::numa::faults::{PAGES_PER_MIB, VmaScan};
use crate::sim::rq::{NO_TASK, TaskId};
use crate::workload::memory::MemPolicy;

/// Scan delays after which a mapping forgets who used it (`VMA_PID_RESET_PERIOD`).
const PID_RESET_DELAYS: u64 = 4;
/// Pages looked at in a pass, for each page that it may mark.
const VIRTUAL_PAGES: i64 = 8;
/// Pages of 4 KiB in the huge page to whose end a pass marks on.
const HUGE_PAGES: u64 = 512;
/// A scan may take 1/32 of a task's time.
const SCAN_SHARE: u64 = 32;

impl Sim<'_> {
    /// task_tick_numa(): the running task's turn to scan comes with its run time.
    pub(in crate::sim) fn task_tick_numa(&mut self, cpu: usize) {
        let task = self.rqs[cpu].curr;
        if task == NO_TASK || self.memory.walkers[task as usize].is_none() {
            return;
        }
        let jiffies = self.jiffies();
        let runtime = self.tasks[task as usize].se.sum_exec_runtime;
        let state = &self.numa.tasks[task as usize];
        let period_ns = state.scan_period_ms * 1_000_000;
        if runtime <= state.node_stamp + period_ns {
            return;
        }
        if state.node_stamp == 0 {
            self.numa.tasks[task as usize].scan_period_ms = self.numa.task_scan_start(&self.memory, task);
        }
        let state = &mut self.numa.tasks[task as usize];
        state.node_stamp += period_ns;
        if jiffies >= self.numa.mms[state.mm].next_scan {
            self.task_numa_work(cpu, task);
        }
    }

    /// task_numa_work(): marks the next pages of the address space, a window of it.
    fn task_numa_work(&mut self, cpu: usize, task: TaskId) {
        let jiffies = self.jiffies();
        let (mm_number, period_ms) = {
            let state = &self.numa.tasks[task as usize];
            (state.mm, state.scan_period_ms)
        };
        if self.numa.tasks[task as usize].scan_period_max_ms == 0 {
            self.numa.tasks[task as usize].scan_period_max_ms = self.numa.task_scan_max(&self.memory, task);
        }
        self.numa.mms[mm_number].next_scan = jiffies + self.ms_to_jiffies(period_ms);
        self.numa.tasks[task as usize].node_stamp += 2 * self.tunables.tick_ns;

        let mut pages = (self.numa.scan.size_mib * PAGES_PER_MIB) as i64;
        let mut virtual_pages = pages * VIRTUAL_PAGES;
        let nr_regions = self.numa.mms[mm_number].regions.len();
        let (mut index, mut start) = self.numa.mms[mm_number].offset;
        if index >= nr_regions {
            self.numa.mms[mm_number].scan_seq += 1;
            (index, start) = (0, 0);
        }
        let mut nr_marked = 0;
        while index < nr_regions && pages > 0 && virtual_pages > 0 {
            if !self.is_scanned(mm_number, index, task) {
                (index, start) = (index + 1, 0);
                continue;
            }
            let region = &self.memory.regions[self.numa.mms[mm_number].regions[index].region];
            let (nr_pages, unit) = (region.node.len(), u64::from(region.spec.page_kib) / 4);
            // Up to the end of the huge page that the window ends in.
            let span = (pages as u64 + start as u64 * unit).next_multiple_of(HUGE_PAGES) / unit;
            let end = nr_pages.min((span as usize).max(start + 1));
            let marked = self.change_prot_numa(mm_number, index, cpu, start..end);
            let looked_at = (end - start) as i64 * unit as i64;
            if marked > 0 {
                pages -= looked_at;
            }
            virtual_pages -= looked_at;
            nr_marked += marked;
            let mm = &mut self.numa.mms[mm_number];
            (index, start) = if end == nr_pages {
                mm.regions[index].prev_scan_seq = mm.scan_seq;
                (index + 1, 0)
            } else {
                (index, end)
            };
        }
        let mm = &mut self.numa.mms[mm_number];
        if index >= nr_regions {
            // reset_ptenuma_scan()
            mm.scan_seq += 1;
            mm.offset = (0, 0);
        } else {
            mm.offset = (index, start);
        }
        self.record.metrics.numa_pte_updates += nr_marked as i64;
        let cost = nr_marked * self.cost.numa_scan_page_ns;
        self.rqs[cpu].overhead_ns += cost;
        // A scan is to take a small part of the task's time only.
        self.numa.tasks[task as usize].node_stamp += SCAN_SHARE * cost;
    }

    /// Whether a mapping's pages are marked in the name of a task.
    fn is_scanned(&mut self, mm_number: usize, index: usize, task: TaskId) -> bool {
        let jiffies = self.jiffies();
        let delay = self.ms_to_jiffies(self.numa.scan.delay_ms);
        let mm = &mut self.numa.mms[mm_number];
        let (scan_seq, nr_threads, begun) = (mm.scan_seq, mm.users, mm.offset > (index, 0));
        let vma = &mut mm.regions[index];
        // vma_policy_mof(): where a policy says where pages go, faults do not.
        if self.memory.regions[vma.region].spec.policy != MemPolicy::Local {
            return false;
        }
        let next_scan = *vma.next_scan.get_or_insert_with(|| {
            vma.start_scan_seq = scan_seq;
            vma.prev_scan_seq = scan_seq.wrapping_sub(1);
            vma.active_reset = jiffies + delay * (1 + PID_RESET_DELAYS);
            jiffies + delay
        });
        if jiffies > vma.active_reset {
            vma.active_reset += delay * PID_RESET_DELAYS;
            vma.active = [vma.active[1], 0];
        }
        let asked = VmaScan {
            scan_seq,
            start_scan_seq: vma.start_scan_seq,
            prev_scan_seq: vma.prev_scan_seq,
            accessed: (vma.active[0] | vma.active[1]) & pid_bit(task) != 0,
            begun,
            settled: scan_seq == 0 || jiffies >= next_scan,
            nr_threads,
        };
        (self.kernel.numa.vma_is_accessed.f)(&asked)
    }

    /// change_prot_numa(): marks the touched pages of a span; how many.
    fn change_prot_numa(&mut self, mm: usize, index: usize, cpu: usize, span: std::ops::Range<usize>) -> u64 {
        let mm = &self.numa.mms[mm];
        // A process with one thread knows that its own node's pages are where they belong.
        let spared = (mm.users == 1).then_some(self.node_of[cpu] as usize);
        let region = &mut self.memory.regions[mm.regions[index].region];
        let mut marked = 0;
        for page in span {
            let node = region.node_of(page);
            if node.is_some() && node != spared && !region.prot_none[page] {
                region.prot_none[page] = true;
                marked += 1;
            }
        }
        marked
    }
}
