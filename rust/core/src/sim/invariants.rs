//! What must hold after every event: checked in builds with debug assertions.

use super::Sim;
use super::rq::{NO_TASK, TaskState};
use super::timeline::vruntime_before;
use crate::error::{Result, SimError};

impl Sim<'_> {
    /// Checks the CPU whose event was just handled, and that time did not run back.
    pub(super) fn check_invariants(&self) -> Result<()> {
        let cpu = self.this_cpu;
        let rq = &self.rqs[cpu];
        let fail = |what: String| Err(SimError::Invariant(format!("CPU {cpu} at {} ns: {what}", self.now)));
        if rq.clock > self.now {
            return fail(format!("its clock is ahead, {} ns", rq.clock));
        }
        let queued = rq.cfs.timeline.len() + usize::from(rq.cfs.curr != NO_TASK);
        if queued != rq.cfs.nr_running as usize || rq.cfs.nr_running != self.stats.nr_running[cpu] {
            return fail(format!("{queued} tasks queued, nr_running {}", rq.cfs.nr_running));
        }
        if rq.cfs.curr != NO_TASK && rq.cfs.curr != rq.curr {
            return fail(format!("runs task {}, its queue says {}", rq.curr, rq.cfs.curr));
        }
        let mut weight = 0;
        let mut listed = 0;
        let mut task = rq.list_head;
        while task != NO_TASK {
            let this = &self.tasks[task as usize];
            if usize::from(this.cpu) != cpu || !this.se.on_rq || this.state != TaskState::Runnable {
                return fail(format!(
                    "task {task} is listed here, but is {:?} on CPU {}",
                    this.state, this.cpu
                ));
            }
            weight += this.se.weight;
            listed += 1;
            task = this.list_next;
        }
        if listed != queued || weight != rq.cfs.load.weight {
            return fail(format!(
                "{listed} tasks of weight {weight} listed, {queued} of {} queued",
                rq.cfs.load.weight
            ));
        }
        let mut before = None;
        for (vruntime, task) in rq.cfs.timeline.iter() {
            if self.tasks[task as usize].se.vruntime != vruntime
                || before.is_some_and(|b| vruntime_before(vruntime, b))
            {
                return fail(format!("task {task} stands at {vruntime} in the timeline"));
            }
            before = Some(vruntime);
        }
        if self.stats.idle[cpu] != (rq.curr == NO_TASK && rq.cfs.nr_running == 0 && rq.wake_list.is_empty()) {
            return fail("its idle flag is wrong".to_owned());
        }
        // Tasks that move bring what they used elsewhere: briefly a queue can sum up to more than a CPU.
        if rq.cfs.avg.util_avg > 1024 * (self.tasks.len() as u64 + 1)
            || rq.cfs.avg.load_avg > 2 * 88_761 * (u64::from(rq.cfs.nr_running) + 4096)
        {
            return fail(format!("its signals are out of bounds: {:?}", rq.cfs.avg));
        }
        Ok(())
    }
}
