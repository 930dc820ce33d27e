//! What must hold after every event: checked in builds with debug assertions.

use super::Sim;
use super::fair::estimate;
use super::rq::{NO_TASK, TaskState};
use super::timeline::vruntime_before;
use crate::error::{Result, SimError};
use crate::kernels::eevdf::{VirtualClock, clock_of};
use crate::kernels::queue::QueueForm;
use crate::load_weight::scale_load_down;

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
        let mut expected_util = 0;
        let mut task = rq.list_head;
        while task != NO_TASK {
            let this = &self.tasks[task as usize];
            let state = if this.se.sched_delayed { TaskState::Sleeping } else { TaskState::Runnable };
            if usize::from(this.cpu) != cpu || !this.se.on_rq || this.state != state {
                return fail(format!(
                    "task {task} is listed here, but is {:?} on CPU {}",
                    this.state, this.cpu
                ));
            }
            weight += this.se.weight;
            listed += 1;
            if self.features.util_est && !this.se.sched_delayed {
                expected_util += estimate(&this.se);
            }
            task = this.list_next;
        }
        if listed != queued || weight != rq.cfs.load.weight {
            return fail(format!(
                "{listed} tasks of weight {weight} listed, {queued} of {} queued",
                rq.cfs.load.weight
            ));
        }
        if rq.cfs.util_est_enqueued != expected_util {
            let expects = rq.cfs.util_est_enqueued;
            return fail(format!("it expects a utilization of {expects}, its tasks need {expected_util}"));
        }
        let mut before = None;
        for (key, task) in rq.cfs.timeline.iter() {
            let se = &self.tasks[task as usize].se;
            let expected = match self.queue_form {
                QueueForm::Vruntime => se.vruntime,
                QueueForm::Deadline => se.deadline,
            };
            if key != expected || before.is_some_and(|b| vruntime_before(key, b)) {
                return fail(format!("task {task} stands at {key} in the timeline"));
            }
            before = Some(key);
        }
        if self.queue_form == QueueForm::Deadline {
            self.check_lags(cpu).or_else(fail)?;
        }
        if self.stats.idle[cpu] != (rq.curr == NO_TASK && rq.cfs.nr_running == 0 && rq.wake_list.is_empty()) {
            return fail("its idle flag is wrong".to_owned());
        }
        // A new task may bring half of the spare utilization on top of a CPU that is already full.
        if rq.cfs.avg.util_avg > 2 * 1024
            || rq.cfs.avg.load_avg > 2 * 88_761 * (u64::from(rq.cfs.nr_running) + 4096)
        {
            return fail(format!("its signals are out of bounds: {:?}", rq.cfs.avg));
        }
        Ok(())
    }

    /// The sums of a queue by deadline are those of its entities, and what some are owed others owe.
    fn check_lags(&self, cpu: usize) -> std::result::Result<(), String> {
        let cfs = &self.rqs[cpu].cfs;
        let mut clock = VirtualClock::new(cfs.clock.zero_vruntime);
        for (_, task) in cfs.timeline.iter() {
            let se = &self.tasks[task as usize].se;
            clock.add(se.vruntime, se.weight);
        }
        if clock != cfs.clock {
            return Err(format!("its sums are {:?}, those of its entities {clock:?}", cfs.clock));
        }
        let clock = clock_of(cfs, &self.tasks);
        let average = clock.avg_vruntime();
        let queued =
            cfs.timeline.iter().map(|(_, task)| task).chain((cfs.curr != NO_TASK).then_some(cfs.curr));
        let mut owed = 0;
        let mut eligible = clock.avg_load == 0;
        for task in queued {
            let se = &self.tasks[task as usize].se;
            let lag = average.wrapping_sub(se.vruntime) as i64;
            owed += i128::from(lag) * i128::from(scale_load_down(se.weight));
            eligible |= clock.entity_eligible(se.vruntime);
        }
        // The average is rounded down: the sum falls short by less than one unit of the load.
        if owed > 0 || owed <= -i128::from(clock.avg_load.max(1)) || !eligible {
            return Err(format!("lags add up to {owed} of weight {}", clock.avg_load));
        }
        Ok(())
    }
}
