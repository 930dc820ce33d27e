//! Waiting in user space: flags that tasks spin on, counted loops, and barriers that spin before they sleep.
//!
//! None of it is known to the kernel: a task that spins is a task that runs. Operations that are ready take no time and no event
//! of their own; they are gone through when the step before them ends.
//!
//! # Deviates
//! The cache line of a flag costs nothing to fetch.

use super::Sim;
use super::exec::Next;
use super::program::{HOG_NS, Op, Phase};
use super::rq::{NO_TASK, TaskId, TaskState};

/// Loops inside each other that a program may have.
pub const MAX_LOOPS: usize = 2;

/// A word of shared memory that holds one thing handed from one task to another: one sets it, one takes it.
#[derive(Clone, Copy, Debug)]
struct Flag {
    set: bool,
    /// Who spins until the other has come.
    spinner: TaskId,
}

/// The flags of a run, and how often its tasks have gone through their loops.
pub struct Spins {
    flags: Vec<Flag>,
    /// By task; empty where no program has a loop.
    loops: Vec<[u32; MAX_LOOPS]>,
}

impl Spins {
    /// All flags clear, no loop begun.
    pub fn new(ops: &[Op], nr_tasks: usize) -> Self {
        let flag_of = |op: &Op| match *op {
            Op::TakeFlag { flag } | Op::SetFlag { flag } => Some(flag as usize + 1),
            _ => None,
        };
        let nr_flags = ops.iter().filter_map(flag_of).max().unwrap_or(0);
        let loops = ops.iter().any(|op| matches!(op, Op::Repeat { .. }));
        Self {
            flags: vec![Flag { set: false, spinner: NO_TASK }; nr_flags],
            loops: if loops { vec![[0; MAX_LOOPS]; nr_tasks] } else { Vec::new() },
        }
    }

    /// The end of a loop: whether the task goes through it once more.
    fn again(&mut self, task: TaskId, times: u32, depth: u8) -> bool {
        let rounds = &mut self.loops[task as usize][usize::from(depth)];
        *rounds += 1;
        if *rounds < times {
            return true;
        }
        *rounds = 0;
        false
    }
}

impl Sim<'_> {
    /// The running task of `cpu` goes through operations that take no time: how much work the next step takes.
    pub(super) fn begin_untimed(&mut self, cpu: usize, task: TaskId) -> u64 {
        loop {
            let passed = match self.ops[self.tasks[task as usize].program.at as usize] {
                Op::TakeFlag { flag } => self.pass_flag(task, flag, false),
                Op::SetFlag { flag } => self.pass_flag(task, flag, true),
                Op::Repeat { to, times, depth } => {
                    self.next_op(task);
                    if self.spins.again(task, times, depth) {
                        self.tasks[task as usize].program.at = to;
                    }
                    true
                }
                _ => return self.begin_step(cpu, task),
            };
            if !passed {
                self.tasks[task as usize].program.phase = Phase::Spin;
                return HOG_NS;
            }
        }
    }

    /// A task comes to a flag to set it or to clear it: whether the flag was the other way, so that the task goes on.
    fn pass_flag(&mut self, task: TaskId, flag: u32, set: bool) -> bool {
        let flag = &mut self.spins.flags[flag as usize];
        if flag.set == set {
            debug_assert!(flag.spinner == NO_TASK || flag.spinner == task, "a flag is between two tasks");
            flag.spinner = task;
            return false;
        }
        flag.set = set;
        let spinner = std::mem::replace(&mut flag.spinner, NO_TASK);
        self.next_op(task);
        if spinner != NO_TASK {
            self.let_go(spinner);
        }
        true
    }

    /// What a task spins for has come: it goes on in this moment if it runs, else it looks again when it runs.
    fn let_go(&mut self, task: TaskId) {
        let cpu = usize::from(self.tasks[task as usize].cpu);
        if self.rqs[cpu].curr == task {
            let work = self.begin_step(cpu, task);
            self.tasks[task as usize].remaining_ns = work;
            self.resume_step(cpu);
            self.arm(cpu);
        } else {
            self.tasks[task as usize].program.phase = Phase::Begin;
        }
    }

    /// The task has come to a barrier: the last one lets all go.
    pub(super) fn reach_barrier(&mut self, cpu: usize, task: TaskId, barrier: u32, spin_ns: u64) -> Next {
        let at = &mut self.barriers[barrier as usize];
        if at.waiting.len() as u32 + 1 < at.size {
            at.waiting.push(task);
            if spin_ns > 0 {
                self.tasks[task as usize].program.phase = Phase::Spin;
                return Next::Work(spin_ns);
            }
            return self.sleep_at_barrier(task);
        }
        let mut waiting = std::mem::take(&mut at.waiting);
        for waiter in waiting.drain(..) {
            if self.tasks[waiter as usize].state == TaskState::Sleeping {
                self.try_to_wake_up(cpu, task, waiter, false);
            } else {
                self.stop_spinning(waiter);
            }
        }
        self.barriers[barrier as usize].waiting = waiting;
        self.record.metrics.rounds += 1;
        self.next_op(task);
        Next::Work(self.begin_step(cpu, task))
    }

    /// The task sleeps on the barrier's futex; whoever wakes it has seen to it that it may go on.
    pub(super) fn sleep_at_barrier(&mut self, task: TaskId) -> Next {
        self.next_op(task);
        Next::Sleep
    }

    /// A task spinning at a barrier sees that all have come: at once if it runs, else when it runs again.
    fn stop_spinning(&mut self, task: TaskId) {
        self.next_op(task);
        let cpu = usize::from(self.tasks[task as usize].cpu);
        if self.rqs[cpu].curr == task {
            self.rqs[cpu].step_end_ns = self.now;
            self.arm(cpu);
        } else {
            self.tasks[task as usize].remaining_ns = 0;
        }
    }
}
