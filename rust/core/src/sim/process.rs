//! Processes that come and go: who waits for whom, tasks used again for new processes, and what time(1) tells of them.
//!
//! All tasks of a run are made before it. A load with more processes than tasks forks into tasks whose process has ended:
//! do_exit(), and wait4() of any child, kernel/exit.c; what a fork sets afresh is kernel/fork.c, copy_process().
//!
//! # Deviates
//! What a process uses is accounted when it uses it, to the ns, not by ticks; a process that is not waited for counts too.

use super::Sim;
use super::event::NEVER;
use super::program::{Op, Phase, Program};
use super::rq::{NO_TASK, SchedEntity, TaskId, TaskState};
use crate::load_weight::LoadWeight;
use crate::pelt;
use crate::rng::Rng;
use crate::workload::Load;

/// Children that have ended, and which job each process belongs to.
pub struct Processes {
    /// What the tasks use is accounted.
    pub(super) accounted: bool,
    /// CPU time of kernel threads and of tasks beside what is measured, ns, where it is.
    others_ns: i64,
    seed: u64,
    /// By task: its children that have ended and were not waited for.
    zombies: Vec<u32>,
    /// By task: it sleeps until a child ends.
    waiting: Vec<bool>,
    /// By task, where programs start jobs; else empty.
    jobs: Vec<Job>,
}

/// What a process has from the job that it works for.
#[derive(Clone, Copy)]
struct Job {
    /// Start of its program.
    program: u32,
    /// The job's number; [`NO_JOB`] = none.
    number: u32,
    /// First task of the job's slot.
    first: TaskId,
}

const NO_JOB: u32 = u32::MAX;

impl Processes {
    /// Before the first fork.
    pub fn new(load: &Load, seed: u64) -> Self {
        let has_jobs = load.ops.iter().any(|op| matches!(op, Op::Jobs { .. }));
        let tasks = if has_jobs { &load.tasks[..] } else { &[] };
        Self {
            accounted: load.accounted,
            others_ns: 0,
            seed,
            zombies: vec![0; load.tasks.len()],
            waiting: vec![false; load.tasks.len()],
            jobs: tasks.iter().map(|spec| Job { program: spec.program, number: NO_JOB, first: 0 }).collect(),
        }
    }

    /// Whether tasks are used again for new processes.
    #[inline]
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// A parent's children that have ended and were not waited for.
    pub fn zombies(&self, parent: TaskId) -> u32 {
        self.zombies[parent as usize]
    }

    /// The parent has waited for one of them.
    pub fn reap(&mut self, parent: TaskId) {
        self.zombies[parent as usize] -= 1;
    }

    /// No child has ended: whether the parent has to sleep for one.
    pub fn waits_for_child(&mut self, parent: TaskId) -> bool {
        let waits = self.zombies(parent) == 0;
        self.waiting[parent as usize] = waits;
        waits
    }

    /// A child ends: whether its parent sleeps for it.
    pub fn child_ends(&mut self, parent: TaskId) -> bool {
        self.zombies[parent as usize] += 1;
        std::mem::take(&mut self.waiting[parent as usize])
    }

    /// Whether a task sleeps until a child ends.
    pub fn is_waiting(&self, task: TaskId) -> bool {
        self.waiting[task as usize]
    }
}

/// Whether make, which has forked `step` children and waited for `done` of them, forks before it waits.
fn forks_next(make: &Program, slots: u32, total: u32) -> bool {
    make.step < total && make.step - make.done < slots
}

impl Sim<'_> {
    /// What make does next, and the work that it takes: it forks a child if there is room, waits for one that has ended, or
    /// looks once more before it sleeps.
    pub(super) fn begin_jobs(&self, task: TaskId, slots: u32, total: u32) -> (Phase, u64) {
        let program = self.tasks[task as usize].program;
        if forks_next(&program, slots, total) {
            (Phase::Work, self.cost.fork_ns)
        } else if self.processes.zombies(task) > 0 {
            (Phase::Work, self.cost.reap_ns)
        } else {
            (Phase::Look, self.cost.poll_ns)
        }
    }

    /// make has forked a child, or waited for one that had ended.
    pub(super) fn finish_jobs(
        &mut self,
        cpu: usize,
        task: TaskId,
        (first, tasks, slots): (TaskId, u32, u32),
        total: u32,
    ) {
        let program = &mut self.tasks[task as usize].program;
        if !forks_next(program, slots, total) {
            self.processes.reap(task);
            program.done += 1;
            if program.done == total {
                self.next_op(task);
            }
            return;
        }
        let number = program.step;
        program.step += 1;
        let free = (0..slots)
            .map(|slot| first + slot * tasks)
            .find(|&child| matches!(self.tasks[child as usize].state, TaskState::New | TaskState::Dead));
        let Some(child) = free else { return };
        let job = &mut self.processes.jobs[child as usize];
        (job.number, job.first) = (number, child);
        self.wake_up_new_task(cpu, task, child);
    }

    /// A task becomes a new process of the job that its parent works for: copy_process().
    ///
    /// Its work is drawn by the number of the job, so that it is the same in whatever slot and whenever the job runs.
    pub(super) fn renew(&mut self, parent: TaskId, child: TaskId) {
        let id = child as usize;
        let of_parent = self.processes.jobs[parent as usize];
        let job = &mut self.processes.jobs[id];
        if of_parent.number != NO_JOB {
            (job.number, job.first) = (of_parent.number, of_parent.first);
        }
        let stream = u64::from(job.number) << 32 | u64::from(child - job.first);
        let program = job.program;
        let task = &mut self.tasks[id];
        let weight = LoadWeight { weight: task.se.weight, inv_weight: task.se.inv_weight };
        task.se = SchedEntity {
            idle: task.se.idle,
            slice_ns: task.se.slice_ns,
            custom_slice: task.se.custom_slice,
            ..SchedEntity::new(weight, pelt::init_entity(weight.weight, self.pelt_form))
        };
        task.last_wakee = NO_TASK;
        task.wakee_flips = 0;
        task.wakee_flip_decay_ts = 0;
        task.remaining_ns = 0;
        task.program = Program::new(program, task.program.parent);
        task.rng = Rng::stream(self.processes.seed, "job", stream);
    }

    /// The running task's step will take, or did not take, so much of its CPU's time: user time if it is work of its own.
    pub(super) fn account_user(&mut self, task: TaskId, span_ns: i64) {
        if !self.record.is_timing() {
            return;
        }
        let task = &self.tasks[task as usize];
        match self.ops[task.program.at as usize] {
            _ if task.kthread || !task.measured => self.processes.others_ns += span_ns,
            Op::Compute { .. } => self.record.metrics.user_ns += span_ns,
            _ => {}
        }
    }

    /// The clock starts or stops: of the steps that run meanwhile, accounted whole at their start, what is left counts from
    /// now on (1) or not at all (-1).
    pub(super) fn account_steps_under_way(&mut self, sign: i64) {
        if !self.processes.accounted {
            return;
        }
        for cpu in 0..self.rqs.len() {
            let rq = &self.rqs[cpu];
            if rq.curr != NO_TASK && rq.step_end_ns != NEVER {
                let left_ns = rq.step_end_ns.saturating_sub(self.now) as i64;
                self.account_user(rq.curr, sign * left_ns);
            }
        }
    }

    /// schedule() has chosen: what kind of switch it is for the task that ran (`nvcsw`, `nivcsw`).
    pub(super) fn account_switch(&mut self, cpu: usize, prev: TaskId, next: Option<TaskId>) {
        if prev == NO_TASK || next == Some(prev) || !self.record.is_timing() {
            return;
        }
        let task = &self.tasks[prev as usize];
        // Kernel threads are nobody's children.
        if task.kthread || !task.measured {
            return;
        }
        // Who moves to exec elsewhere sleeps until the migration thread has moved it.
        let moves = usize::from(task.cpu) != cpu && self.ops[task.program.at as usize] == Op::Exec;
        let metrics = &mut self.record.metrics;
        if task.state == TaskState::Runnable && !moves {
            metrics.involuntary_switches += 1;
        } else {
            metrics.voluntary_switches += 1;
        }
    }

    /// The run is over: what was neither idle time nor user time was the kernel's, in the processes' name.
    pub(super) fn close_accounts(&mut self) {
        let metrics = &mut self.record.metrics;
        if self.processes.accounted {
            let used_ns = metrics.time_ns * self.nr_online_cpus as i64 - metrics.idle_ns;
            metrics.system_ns = used_ns - metrics.user_ns - self.processes.others_ns;
        }
    }
}
