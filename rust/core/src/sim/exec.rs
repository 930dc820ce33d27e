//! The interpreter of programs: what a step costs, what it does when it is done, when a task sleeps.

use std::cmp::Reverse;

use super::Sim;
use super::channel::Wakes;
use super::program::{ChannelId, Op, Phase};
use super::rq::{TaskId, TaskState};

/// What becomes of the running task after a step.
pub(super) enum Next {
    /// It goes on: its next step takes so much work, ns at full speed.
    Work(u64),
    /// It sleeps.
    Sleep,
    /// It goes on on another CPU; what work its step takes is in `remaining_ns`.
    Migrate(usize),
    /// It has exited.
    Exit,
}

impl Sim<'_> {
    /// The running task of `cpu` starts or resumes its program: how much work its step takes.
    pub(super) fn begin_step(&mut self, cpu: usize, task: TaskId) -> u64 {
        let program = self.tasks[task as usize].program;
        let op = self.ops[program.at as usize];
        let (phase, work) = match op {
            Op::Fork { first, .. } => {
                let thread = self.tasks[(first + program.done) as usize].thread;
                (Phase::Work, if thread { self.cost.thread_create_ns } else { self.cost.fork_ns })
            }
            Op::Write { first, .. } => {
                let channel = first + program.step;
                if self.channels[channel as usize].is_full(program.slept) {
                    (Phase::Look, self.cost.poll_ns)
                } else {
                    return self.begin_message(cpu, task, channel, false);
                }
            }
            Op::Read { channel, .. } => {
                if self.channels[channel as usize].is_empty() {
                    (Phase::Look, self.cost.poll_ns)
                } else {
                    return self.begin_message(cpu, task, channel, true);
                }
            }
            Op::Poll { .. } => (Phase::Look, self.cost.poll_ns),
            Op::Reap { .. } => {
                let ended = self.processes.zombies(task) > 0;
                if ended { (Phase::Work, self.cost.reap_ns) } else { (Phase::Look, self.cost.poll_ns) }
            }
            Op::Jobs { slots, total, .. } => self.begin_jobs(task, slots, total),
            Op::System { ns, spread_permille } => {
                let p = &mut self.tasks[task as usize];
                p.program.phase = Phase::Work;
                return p.rng.jitter(ns, u64::from(spread_permille));
            }
            Op::Compute { ns, spread_permille } => {
                let p = &mut self.tasks[task as usize];
                p.program.phase = Phase::Work;
                let work =
                    if spread_permille == 0 { ns } else { p.rng.jitter(ns, u64::from(spread_permille)) };
                self.begin_compute(task, work);
                return work;
            }
            Op::Sleep { .. } | Op::WaitStart | Op::Jump { .. } | Op::Barrier { .. } => (Phase::Work, 0),
            Op::TakeFlag { .. } | Op::SetFlag { .. } | Op::Repeat { .. } => {
                return self.begin_untimed(cpu, task);
            }
            Op::ClockStart | Op::ClockStop => (Phase::Work, 0),
            // Where it goes on is decided before anything is done.
            Op::Exec | Op::Roam => (Phase::Look, 0),
            Op::Exit => {
                let thread = self.tasks[task as usize].thread;
                (Phase::Work, if thread { self.cost.thread_exit_ns } else { self.cost.exit_ns })
            }
        };
        let task = &mut self.tasks[task as usize];
        task.program.phase = phase;
        if phase == Phase::Look && self.processes.has_jobs() {
            // How often a task looks is the scheduler's doing: the work that it draws later must not depend on it.
            return work;
        }
        task.rng.jitter(work, self.cost.work_jitter_permille)
    }

    /// A write or read of one message: its own work, the wait for the lock, the lines that another CPU holds.
    fn begin_message(&mut self, cpu: usize, task: TaskId, id: ChannelId, read: bool) -> u64 {
        let channel = &mut self.channels[id as usize];
        let costs = &self.message_costs[channel.kind() as usize];
        let transfer = match usize::from(channel.last_cpu) {
            last if last == cpu || last >= self.topo.nr_cpus => 0,
            last => self.distance_cost(cpu, last, costs.transfer),
        };
        let channel = &mut self.channels[id as usize];
        let task = &mut self.tasks[task as usize];
        let work_ns = channel.copy_ns + if read { costs.read_ns } else { costs.write_ns };
        let work = task.rng.jitter(work_ns, self.cost.work_jitter_permille);
        // Operations on one channel queue at its lock; waiters spin.
        let wait = channel.locked_until_ns.saturating_sub(self.now);
        channel.locked_until_ns = self.now + wait + costs.locked_ns + transfer;
        channel.last_cpu = cpu as u16;
        task.program.phase = Phase::Work;
        work + transfer + wait
    }

    /// The step of the running task is done: its effect, and what comes next.
    pub(super) fn finish_step(&mut self, cpu: usize, task: TaskId) -> Next {
        let program = self.tasks[task as usize].program;
        let op = self.ops[program.at as usize];
        match (program.phase, op) {
            (Phase::Look, Op::Write { first, .. }) => {
                let channel = &mut self.channels[(first + program.step) as usize];
                if channel.is_full(program.slept) {
                    channel.writers.push_back(task);
                    self.tasks[task as usize].program.slept = true;
                    return Next::Sleep;
                }
            }
            (Phase::Look, Op::Read { channel, .. }) => {
                let channel = &mut self.channels[channel as usize];
                if channel.is_empty() {
                    channel.readers.push_back(task);
                    self.tasks[task as usize].program.slept = true;
                    return Next::Sleep;
                }
            }
            (Phase::Look, Op::Poll { channel }) => {
                let channel = &mut self.channels[channel as usize];
                if channel.is_empty() {
                    channel.pollers.push_back(task);
                    return Next::Sleep;
                }
                self.next_op(task);
            }
            (Phase::Look, Op::Reap { .. } | Op::Jobs { .. }) if self.processes.waits_for_child(task) => {
                return Next::Sleep;
            }
            (Phase::Work, Op::Write { first, count, rounds }) => {
                let id = first + program.step;
                if !self.channels[id as usize].is_full(program.slept) {
                    let wakes = self.channels[id as usize].put(program.slept);
                    self.wake_channel(cpu, task, id, wakes);
                    let program = &mut self.tasks[task as usize].program;
                    program.slept = false;
                    program.step += 1;
                    if program.step == count {
                        program.step = 0;
                        program.done += 1;
                        if program.done == rounds {
                            self.next_op(task);
                        }
                    }
                    if !self.channels[id as usize].pollers.is_empty() {
                        // The waker goes through the whole herd with interrupts off.
                        self.tasks[task as usize].program.phase = Phase::Herd(id);
                        return Next::Work(self.cost.wakeup_ns);
                    }
                }
            }
            (Phase::Herd(id), _) => {
                let herd = &mut self.channels[id as usize].pollers;
                if let Some(poller) = herd.pop_front() {
                    let more = !herd.is_empty();
                    self.try_to_wake_up(cpu, task, poller, true);
                    if more {
                        // The time of each wake-up is the step's own work here.
                        self.rqs[cpu].overhead_ns = 0;
                        return Next::Work(self.cost.wakeup_ns);
                    }
                }
            }
            (Phase::Work, Op::Read { channel: id, messages }) if !self.channels[id as usize].is_empty() => {
                let wakes = self.channels[id as usize].take(program.slept);
                // Messages of the start-up do not count.
                let measured = self.record.is_timing() && self.tasks[task as usize].measured;
                self.record.metrics.messages += i64::from(measured);
                self.wake_channel(cpu, task, id, wakes);
                let program = &mut self.tasks[task as usize].program;
                program.slept = false;
                program.done += 1;
                if program.done == messages {
                    self.next_op(task);
                }
            }
            (Phase::Work, Op::Fork { first, count, gap_ns }) => {
                self.wake_up_new_task(cpu, task, first + program.done);
                let program = &mut self.tasks[task as usize].program;
                program.done += 1;
                if program.done == count {
                    self.next_op(task);
                } else if gap_ns > 0 {
                    return self.sleep_until(task, self.now + gap_ns);
                }
            }
            (Phase::Work, Op::Compute { .. }) => {
                self.compute_left(task, 0);
                self.next_op(task);
            }
            (Phase::Work, Op::Sleep { ns, spread_permille }) => {
                self.next_op(task);
                let ns = self.tasks[task as usize].rng.jitter(ns, u64::from(spread_permille));
                return self.sleep_until(task, self.now + ns);
            }
            (Phase::Work, Op::WaitStart) => {
                self.next_op(task);
                let start = self.tasks[task as usize].start_ns;
                if start > self.now {
                    return self.sleep_until(task, start);
                }
            }
            (Phase::Work, Op::Jump { to }) => {
                self.next_op(task);
                self.tasks[task as usize].program.at = to;
            }
            (Phase::Work, Op::Barrier { barrier, spin_ns }) => {
                return self.reach_barrier(cpu, task, barrier, spin_ns);
            }
            (Phase::Spin, Op::Barrier { .. }) => return self.sleep_at_barrier(task),
            (Phase::Work, Op::Reap { children }) => {
                self.processes.reap(task);
                let program = &mut self.tasks[task as usize].program;
                program.done += 1;
                if program.done == children {
                    self.next_op(task);
                }
            }
            (Phase::Work, Op::Jobs { first, tasks, slots, total }) => {
                self.finish_jobs(cpu, task, (first, tasks, slots), total);
            }
            (Phase::Work, Op::System { .. }) => self.next_op(task),
            (Phase::Work, Op::ClockStart) => {
                self.start_clock();
                self.next_op(task);
            }
            (Phase::Work, Op::ClockStop) => {
                self.stop_clock();
                self.next_op(task);
            }
            (Phase::Look, Op::Exec) => {
                let this = &mut self.tasks[task as usize];
                this.program.phase = Phase::Work;
                let work = this.rng.jitter(self.cost.exec_ns, self.cost.work_jitter_permille);
                return match self.sched_exec(cpu, task) {
                    Some(target) => {
                        self.tasks[task as usize].remaining_ns = work;
                        Next::Migrate(target)
                    }
                    None => Next::Work(work),
                };
            }
            (Phase::Look, Op::Roam) => {
                let this = &mut self.tasks[task as usize];
                this.program.phase = Phase::Work;
                this.remaining_ns = 0;
                let target = this.rng.below(self.topo.nr_cpus as u64) as usize;
                let target = self.allowed_or_fallback(task, target);
                return if target == cpu { Next::Work(0) } else { Next::Migrate(target) };
            }
            (Phase::Work, Op::Exec | Op::Roam) => self.next_op(task),
            (Phase::Work, Op::Exit) => {
                if self.processes.child_ends(program.parent) {
                    // An exiting waker's hint that it will sleep is not believed (PF_EXITING).
                    self.try_to_wake_up(cpu, task, program.parent, false);
                }
                return Next::Exit;
            }
            // A spinner that was let go, or nothing to finish: the next look decides.
            _ => {}
        }
        Next::Work(self.begin_step(cpu, task))
    }

    /// The task sleeps on a timer of the CPU that it is on.
    fn sleep_until(&mut self, task: TaskId, time_ns: u64) -> Next {
        self.timers.push(Reverse((time_ns, task)));
        Next::Sleep
    }

    /// The task's program goes on to its next operation.
    pub(super) fn next_op(&mut self, task: TaskId) {
        let program = &mut self.tasks[task as usize].program;
        program.at += 1;
        program.step = 0;
        program.done = 0;
        program.slept = false;
        program.phase = Phase::Begin;
    }

    /// Wakes readers and writers of a channel, first come first served; the waker will soon sleep (WF_SYNC).
    fn wake_channel(&mut self, cpu: usize, waker: TaskId, id: ChannelId, wakes: Wakes) {
        for _ in 0..wakes.readers {
            let Some(reader) = self.channels[id as usize].readers.pop_front() else { break };
            self.try_to_wake_up(cpu, waker, reader, true);
        }
        for _ in 0..wakes.writers {
            let Some(writer) = self.channels[id as usize].writers.pop_front() else { break };
            self.try_to_wake_up(cpu, waker, writer, true);
        }
    }

    /// Whether the running task may be preempted just now.
    pub(super) fn preemptible(&self, task: TaskId) -> bool {
        !matches!(self.tasks[task as usize].program.phase, Phase::Herd(_))
    }

    /// The task has exited: do_task_dead() and task_dead_fair().
    pub(super) fn task_dead(&mut self, cpu: usize, task: TaskId) {
        if self.has_priority_arrays() {
            self.o1_sched_exit(task);
        } else {
            self.remove_entity(cpu, task);
        }
        self.task_numa_free(task);
        self.tasks[task as usize].state = TaskState::Dead;
    }
}
