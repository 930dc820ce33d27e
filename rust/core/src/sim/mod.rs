//! The mechanism that all kernel generations share: clock, events, CPUs that run tasks.
//!
//! The loop takes the earliest event of any CPU: an interrupt that arrives, a tick, or the end of the running task's
//! step. Decisions are the kernel's slots (`crate::kernels`); here is what happens around them.

/// The balance decisions' view of the simulation: borrows fields, so that others stay free.
macro_rules! lb_view {
    ($sim:ident) => {
        LbView {
            kernel: &$sim.kernel,
            groups: &$sim.sched_groups,
            sgc_imbalance: &$sim.sgc_imbalance,
            rqs: &$sim.stats,
            system: &$sim.system,
            node_of: $sim.node_of,
        }
    };
}

/// The state of a balance pass over domain `$sd`, number `$level` of `$cpu`'s hierarchy.
macro_rules! lb_env {
    ($sim:ident, $sd:expr, $cpu:expr, $level:expr, $idle:expr, $excluded:expr) => {{
        // The destination of a pinned task may have fewer levels than the CPU that balances.
        let failed = $sim.sds[$cpu].get($level).map_or(0, |sd| sd.nr_balance_failed);
        let mut env = LbEnv::new(lb_view!($sim), $sd, $cpu, $idle, failed, &mut $sim.sg_stats);
        env.excluded = $excluded.as_ref();
        env.llc_size = if $sim.topo.llc_level[$cpu].is_some() { $sim.topo.llc_size[$cpu] } else { 0 };
        env
    }};
}

/// An entity by its number, to change: borrows fields, so that others stay free.
macro_rules! se_mut {
    ($sim:ident, $entity:expr) => {
        match $sim.tasks.get_mut($entity as usize) {
            Some(task) => &mut task.se,
            None => &mut $sim.groups.entities[($entity - $sim.groups.nr_tasks) as usize],
        }
    };
}

/// A queue by its number, to change; likewise.
macro_rules! cfs_mut {
    ($sim:ident, $queue:expr) => {
        if $queue.group == crate::sim::groups::ROOT_GROUP {
            &mut $sim.rqs[usize::from($queue.cpu)].cfs
        } else {
            let index = $sim.groups.index($queue);
            &mut $sim.groups.queues[index].cfs
        }
    };
}

/// The queue's decisions' view of the simulation: borrows fields, so that others stay free.
macro_rules! queue_env {
    ($sim:ident) => {
        QueueEnv {
            queue: &$sim.kernel.queue,
            tunables: $sim.tunables,
            features: $sim.features,
            entities: Entities { tasks: &$sim.tasks, groups: &$sim.groups, rqs: &$sim.rqs },
        }
    };
}

/// The tasks of a CPU as a pull to another one walks them: borrows fields, so that others stay free.
macro_rules! src_queue {
    ($sim:ident, $src:expr, $dst:expr, $running:expr, $virtual_clock:expr, $detached:ident) => {{
        let rq = &mut $sim.rqs[$src];
        let nr_running = rq.nr_running();
        EngineQueue {
            tasks: &mut $sim.tasks,
            groups: &$sim.groups,
            root_load: rq.cfs.avg.load_avg,
            head: &mut rq.list_head,
            tail: &mut rq.list_tail,
            nr_running,
            dst_cpu: $dst as u16,
            clock: rq.clock,
            running: $running,
            next: rq.cfs.next,
            last: rq.cfs.last,
            virtual_clock: $virtual_clock,
            util_est: $sim.features.util_est,
            locality: Locality {
                numa: &$sim.numa,
                memory: &$sim.memory,
                nodes: [$sim.node_of[$src], $sim.node_of[$dst]],
                nr_preferred_running: $sim.stats.nr_preferred_running[$src],
            },
            detached: &mut $detached,
        }
    }};
}

pub mod balance;
pub mod bandwidth;
#[cfg(test)]
mod bandwidth_tests;
#[cfg(test)]
mod behaviour_tests;
mod capacity;
#[cfg(test)]
mod capacity_tests;
pub mod channel;
pub mod cost;
pub mod event;
mod exec;
mod fair;
#[cfg(test)]
mod fair_tests;
pub mod groups;
pub mod hotplug;
mod idle_policy;
mod invariants;
mod log;
mod memory;
mod nohz;
mod numa;
mod o1;
mod process;
pub mod program;
pub mod rq;
pub mod rt;
pub mod spin;
#[cfg(test)]
mod spin_tests;
mod src_queue;
mod start;
pub mod timeline;
pub mod tunables;
mod util_est;
mod wakeup;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};

use self::balance::SdState;
use self::capacity::GroupCapacities;
use self::channel::{Barrier, Channel};
use self::cost::CostModel;
use self::event::{EventQueue, NEVER};
use self::exec::Next;
use self::fair::Why;
use self::groups::TaskGroups;
use self::hotplug::Plugged;
use self::invariants::Watch;
use self::memory::Memory;
use self::nohz::Nohz;
use self::numa::Numa;
use self::o1::O1State;
use self::process::Processes;
use self::program::{Op, Phase};
use self::rq::{Interrupt, NO_TASK, Rq, Task, TaskId, TaskState};
use self::spin::Spins;
use self::tunables::{Features, Tunables};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::kernels::Kernel;
use crate::kernels::env::{BalanceRules, RqStats, SgLbStats, SystemState};
use crate::kernels::groups::GroupRules;
use crate::kernels::queue::QueueForm;
use crate::pelt::{PeltForm, PeltTable};
use crate::record::decisions::{Decisions, Wanted};
use crate::record::{Record, TaskTraceState, Trace};
use crate::rng::Rng;
use crate::topology::{MachineSpec, SchedDomains, SchedGroup};
use crate::workload::{Action, Load};

/// Events between two looks at the interrupt flag.
const EVENTS_BETWEEN_CHECKS: u64 = 1 << 14;
/// Time at which a run starts: the machine has been up for a while.
const START_NS: u64 = 10_000_000_000;

/// Everything that a run does not change: one for all seeds of a scenario.
pub struct Setup {
    /// The machine.
    pub machine: MachineSpec,
    /// Its domains under the kernel.
    pub domains: SchedDomains,
    /// The kernel.
    pub kernel: Kernel,
    /// Its tunables.
    pub tunables: Tunables,
    /// Its features.
    pub features: Features,
    /// PELT's constants for the half-life.
    pub pelt_table: PeltTable,
    /// The machine's costs.
    pub cost: CostModel,
    /// The tasks and their programs.
    pub load: Load,
    /// States of the machine after CPUs went off or came back, as the load's actions number them.
    pub plugged: Vec<Plugged>,
}

/// What one message of a kind of channel costs, ns.
struct MessageCosts {
    write_ns: u64,
    read_ns: u64,
    locked_ns: u64,
    /// Data last touched by a CPU of the same LLC, of the same node, of another node.
    transfer: [u64; 3],
}

/// A run: machine, kernel and tasks in motion.
pub struct Sim<'a> {
    now: u64,
    kernel: Kernel,
    pelt_form: PeltForm,
    balance_rules: BalanceRules,
    queue_form: QueueForm,
    group_rules: GroupRules,
    tunables: &'a Tunables,
    features: &'a Features,
    pelt_table: &'a PeltTable,
    cost: &'a CostModel,
    topo: &'a SchedDomains,
    node_of: &'a [u32],
    system: SystemState,
    nr_online_cpus: u64,
    online: CpuMask,
    /// The domains' groups, with their present capacities.
    sched_groups: Cow<'a, [SchedGroup]>,
    group_capacities: Option<GroupCapacities>,

    events: EventQueue,
    /// Expiry of sleeping tasks' timers; numbers beyond the tasks are actions of the load.
    timers: BinaryHeap<Reverse<(u64, TaskId)>>,
    rqs: Vec<Rq>,
    tasks: Vec<Task>,
    groups: TaskGroups,
    memory: Memory,
    numa: Numa,
    channels: Vec<Channel>,
    barriers: Vec<Barrier>,
    spins: Spins,
    ops: &'a [Op],
    /// By kind of channel.
    message_costs: [MessageCosts; 3],

    /// Mirrors of the runqueues that balance decisions read.
    stats: RqStats,
    sds: Vec<Vec<SdState>>,
    sgc_imbalance: Vec<bool>,
    /// By LLC id: `has_idle_cores`, `nr_busy_cpus`, `nr_idle_scan`.
    has_idle_cores: Vec<bool>,
    nr_busy_cpus: Vec<u32>,
    nr_idle_scan: Vec<u32>,
    nohz: Nohz,
    /// `rd->overload`.
    overload: bool,

    /// Offset of each CPU's tick from the machine's, ns.
    tick_skew: Vec<u64>,
    /// CPU whose event is being handled.
    this_cpu: usize,
    processes: Processes,
    /// The program has ended.
    stopped: bool,
    /// A timer or an interrupt is being handled, not the running task's own doing.
    in_interrupt: bool,
    record: Record,

    sg_stats: Vec<SgLbStats>,
    idlest_stats: Vec<Option<SgLbStats>>,
    detached: Vec<TaskId>,
    o1: O1State<'a>,
    /// The chance by which newidle balance leaves levels out.
    newidle_dice: Rng,
    watch: Watch,
}

/// What a run logs beside its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Log {
    /// What ran where.
    pub trace: bool,
    /// Decisions. The run ends once as many as wanted are made.
    pub decisions: Option<Wanted>,
}

/// Runs one seed of a scenario to its end. `stop` set from outside ends it early with [`SimError::Interrupted`].
pub fn run(setup: &Setup, seed: u64, log: Log, stop: &AtomicBool) -> Result<Record> {
    let mut sim = Sim::new(setup, seed);
    sim.record.trace = log.trace.then(Trace::default);
    sim.record.decisions = log.decisions.map(Decisions::new);
    let start_ns = sim.now;
    sim.start(setup, seed);
    let mut handled = 0;
    while !sim.stopped && !sim.record.decisions.as_ref().is_some_and(Decisions::is_full) {
        let (time, cpu) = sim.events.first();
        match sim.timers.peek() {
            Some(&Reverse((timer, id))) if timer <= time => {
                sim.timers.pop();
                sim.now = timer;
                sim.timer(setup, id);
            }
            _ if time >= NEVER => {
                let what = format!("at {} ns no event is pending, but tasks are left", sim.now);
                return Err(SimError::Invariant(what));
            }
            _ => {
                sim.now = time;
                sim.handle(cpu);
            }
        }
        handled += 1;
        if cfg!(debug_assertions) {
            sim.check_invariants()?;
        }
        if handled % EVENTS_BETWEEN_CHECKS == 0 && stop.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted);
        }
    }
    sim.record.metrics.simulated_ns = (sim.now - start_ns) as i64;
    sim.record.metrics.events = handled as i64;
    sim.close_accounts();
    sim.record.cpu_stat = sim.cpu_stat();
    Ok(sim.record)
}

impl<'a> Sim<'a> {
    /// Handles everything that is due on a CPU.
    fn handle(&mut self, cpu: usize) {
        self.this_cpu = cpu;
        if let Some(interrupt) = self.take_interrupt(cpu) {
            self.interrupt(cpu, interrupt);
        } else if self.rqs[cpu].tick_at_ns <= self.now {
            self.tick(cpu);
        } else {
            self.step_done(cpu);
        }
        self.leave(cpu);
    }

    /// A timer has expired: of a task, or an action from outside.
    fn timer(&mut self, setup: &'a Setup, id: TaskId) {
        if let Some(action) = (id as usize).checked_sub(self.tasks.len()) {
            match setup.load.actions.get(action) {
                Some((_, action)) => {
                    self.act(setup, action);
                    if let Action::CountByNode { period_ns, .. } = action {
                        self.timers.push(Reverse((self.now + period_ns, id)));
                    }
                }
                None => self.bandwidth_timer(id),
            }
            return;
        }
        // The timer interrupts the CPU on which the task fell asleep, or the one that took over its timers.
        let slept_on = usize::from(self.tasks[id as usize].cpu);
        let cpu = if self.online.test(slept_on) { slept_on } else { self.first_online_cpu() };
        self.this_cpu = cpu;
        let curr = self.rqs[cpu].curr;
        if curr == NO_TASK {
            self.rqs[cpu].overhead_ns += self.cost.idle_exit_ns;
        }
        self.in_interrupt = true;
        self.try_to_wake_up(cpu, curr, id, false);
        self.in_interrupt = false;
        self.leave(cpu);
    }

    /// Something happens from outside.
    #[cold]
    fn act(&mut self, setup: &'a Setup, action: &Action) {
        match action {
            Action::SetAffinity { task, mask } => self.set_affinity(*task, mask),
            Action::Hotplug { cpu, online, state } => {
                self.plug_cpu(*cpu, *online, &setup.plugged[*state]);
            }
            Action::CountByNode { first, count, .. } => self.count_by_node(*first, *count),
            Action::ClockStart => {
                self.start_clock();
                if let Some(trace) = &mut self.record.trace {
                    trace.start_ns = self.now;
                }
            }
            Action::ClockStop => {
                self.stop_clock();
                if let Some(trace) = &mut self.record.trace {
                    trace.end_ns = self.now;
                }
            }
        }
    }

    /// The clock of the measurements starts.
    fn start_clock(&mut self) {
        self.record.clock(self.now, true);
        self.account_steps_under_way(1);
    }

    /// It stops, and with it the run.
    fn stop_clock(&mut self) {
        self.account_steps_under_way(-1);
        self.record.clock(self.now, false);
        self.stopped = true;
    }

    /// How many of some tasks are on each node.
    fn count_by_node(&mut self, first: TaskId, count: u32) {
        if !self.record.is_timing() {
            return;
        }
        self.record.node_samples += 1;
        for task in &self.tasks[first as usize..(first + count) as usize] {
            if !matches!(task.state, TaskState::New | TaskState::Dead) {
                self.record.count_on_node(self.node_of[usize::from(task.cpu)]);
            }
        }
    }

    /// Before a CPU goes on after an event: reschedules if asked to, pays for kernel work, and waits for the next event.
    fn leave(&mut self, cpu: usize) {
        if self.rqs[cpu].need_resched {
            self.reschedule(cpu);
        }
        self.charge_overhead(cpu);
        self.arm(cpu);
    }

    /// The earliest interrupt that has arrived.
    fn take_interrupt(&mut self, cpu: usize) -> Option<Interrupt> {
        let pending = &mut self.rqs[cpu].pending;
        let at = pending.iter().position(|&(time, _)| time <= self.now)?;
        Some(pending.remove(at).1)
    }

    fn interrupt(&mut self, cpu: usize, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Reschedule => {
                self.ttwu_pending(cpu);
                // An idle CPU looks at its queue whoever put something there.
                if self.rqs[cpu].curr == NO_TASK && self.rqs[cpu].nr_running() > 0 {
                    self.rqs[cpu].need_resched = true;
                }
            }
            Interrupt::NohzKick => self.nohz_idle_balance(cpu),
            Interrupt::Unthrottle => self.cfsb_csd_unthrottle(cpu),
            Interrupt::ActiveBalance => {
                self.pause_step(cpu);
                self.update_rq_clock(cpu);
                if self.has_priority_arrays() {
                    self.o1_put_prev_task(cpu);
                    self.o1_active_load_balance(cpu);
                } else {
                    self.put_prev_task(cpu);
                    self.active_load_balance(cpu);
                }
                self.schedule(cpu);
            }
        }
    }

    /// scheduler_tick(), and when the next one comes.
    fn tick(&mut self, cpu: usize) {
        self.update_rq_clock(cpu);
        let idle = self.rqs[cpu].curr == NO_TASK;
        if !idle && !self.has_priority_arrays() {
            self.task_tick(cpu);
            self.tick_capacity(cpu);
        }
        self.rqs[cpu].overhead_ns += self.cost.tick_ns;
        self.rqs[cpu].idle_balance = self.stats.idle[cpu];
        if self.has_priority_arrays() {
            self.o1_tick(cpu);
        } else {
            self.trigger_load_balance(cpu);
        }
        self.rqs[cpu].tick_at_ns += self.tunables.tick_ns;
        if self.memory.is_used() {
            self.tick_memory(cpu);
        }
        if self.stats.idle[cpu] && !self.has_priority_arrays() {
            // Still idle after a whole tick: the idle governor now expects a long sleep and stops the tick.
            self.rqs[cpu].tick_at_ns = NEVER;
            self.nohz_balance_enter_idle(cpu);
        } else if idle && self.rqs[cpu].nr_running() > 0 {
            self.rqs[cpu].need_resched = true;
        }
    }

    /// The running task's step is done.
    fn step_done(&mut self, cpu: usize) {
        let task = self.rqs[cpu].curr;
        debug_assert!(task != NO_TASK && self.rqs[cpu].step_end_ns <= self.now);
        match self.finish_step(cpu, task) {
            Next::Work(work) => {
                self.tasks[task as usize].remaining_ns = work;
                self.resume_step(cpu);
            }
            Next::Sleep => {
                self.tasks[task as usize].program.phase = Phase::Begin;
                self.block(cpu, task, TaskState::Sleeping, Why::Sleep);
            }
            Next::Migrate(target) => self.exec_on(cpu, target),
            Next::Exit => {
                self.block(cpu, task, TaskState::Dead, Why::Exit);
                self.task_dead(cpu, task);
            }
        }
    }

    /// The running task gives the CPU up: it sleeps or has exited.
    fn block(&mut self, cpu: usize, task: TaskId, state: TaskState, why: Why) {
        self.update_rq_clock(cpu);
        self.rqs[cpu].step_end_ns = NEVER;
        if self.has_priority_arrays() {
            self.o1_block(cpu, task);
        } else if self.rt_task(task) {
            self.dequeue_rt(cpu, task);
        } else {
            self.dequeue_task(cpu, task, why);
        }
        self.tasks[task as usize].state = state;
        self.record.task_state(self.now, task, cpu, TaskTraceState::Asleep);
        self.schedule(cpu);
    }

    /// need_resched is set: the running task gives way if it may.
    fn reschedule(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        if curr != NO_TASK && !self.preemptible(curr) {
            return;
        }
        self.pause_step(cpu);
        self.schedule(cpu);
    }

    /// __schedule(): picks the next task, or goes idle if newidle balance finds none.
    fn schedule(&mut self, cpu: usize) {
        self.update_rq_clock(cpu);
        self.rqs[cpu].need_resched = false;
        let prev = self.rqs[cpu].curr;
        // The task that just blocked is off the queue already, unless its dequeue is delayed.
        let queued_prev = self.running_task(cpu);
        let next = loop {
            let (next, found);
            if self.has_priority_arrays() {
                next = self.o1_pick_next_task(cpu, queued_prev);
                found = next.is_none() && self.o1_idle_balance(cpu);
            } else {
                next = self.pick_next_rt(cpu).or_else(|| self.pick_next_fair(cpu, queued_prev));
                found = next.is_none() && self.newidle_balance(cpu);
            }
            if !found {
                break next;
            }
        };
        self.record.schedule(cpu, next.is_none());
        self.log_pick(cpu, prev, next);
        if self.processes.accounted {
            self.account_switch(cpu, prev, next);
        }
        self.rqs[cpu].need_resched = false;
        let Some(next) = next else {
            self.go_idle(cpu, prev);
            return;
        };
        if next == prev && (queued_prev == prev || self.rt_task(next)) {
            self.resume_step(cpu);
            return;
        }
        self.switch_to(cpu, prev, next);
    }

    /// context_switch() to another task: what it costs, and the start or resumption of its step.
    fn switch_to(&mut self, cpu: usize, prev: TaskId, next: TaskId) {
        self.record.metrics.context_switches += 1;
        self.rqs[cpu].curr = next;
        self.update_idle(cpu);
        if prev == NO_TASK {
            self.leave_idle(cpu);
        } else {
            self.record.busy(cpu, self.now - self.rqs[cpu].since_ns);
            self.rqs[cpu].since_ns = self.now;
        }
        let mut cost = self.cost.context_switch_ns;
        if prev == NO_TASK || self.tasks[prev as usize].mm != self.tasks[next as usize].mm {
            cost += self.cost.mm_switch_ns;
        }
        let last = usize::from(self.tasks[next as usize].last_run_cpu);
        if last != cpu && !self.topo.smt_mask[cpu].test(last) {
            let refill =
                [self.cost.refill_llc_kib_ns, self.cost.refill_node_kib_ns, self.cost.refill_remote_kib_ns];
            cost +=
                self.distance_cost(cpu, last, refill) * u64::from(self.tasks[next as usize].footprint_kib);
        }
        self.rqs[cpu].overhead_ns += cost;
        self.tasks[next as usize].last_run_cpu = cpu as u16;
        if self.memory.is_used() {
            self.rqs[cpu].speed_permille = self.thread_speed(cpu);
        }
        if self.tasks[next as usize].program.phase == Phase::Begin {
            let work = self.begin_step(cpu, next);
            self.tasks[next as usize].remaining_ns = work;
        }
        self.resume_step(cpu);
    }

    /// The CPU has nothing to run: pick_next_task_idle().
    fn go_idle(&mut self, cpu: usize, prev: TaskId) {
        self.rqs[cpu].overhead_ns = 0;
        self.rqs[cpu].step_end_ns = NEVER;
        if prev == NO_TASK {
            return;
        }
        self.update_idle_rq_clock_pelt(cpu);
        self.record.metrics.context_switches += 1;
        self.record.busy(cpu, self.now - self.rqs[cpu].since_ns);
        let rq = &mut self.rqs[cpu];
        rq.curr = NO_TASK;
        rq.since_ns = self.now;
        self.update_idle(cpu);
        // update_idle_core(): the last thread of a core to go idle leaves a hint for wake-ups.
        let siblings = &self.topo.smt_mask[cpu];
        if siblings.weight() > 1 {
            if siblings.iter().all(|sibling| self.stats.idle[sibling]) {
                self.has_idle_cores[self.topo.llc_id[cpu]] = true;
            }
            self.siblings_change_speed(cpu);
        }
    }

    /// The CPU leaves the idle state: its tick returns, its siblings slow down.
    fn leave_idle(&mut self, cpu: usize) {
        let tick = self.next_tick(cpu);
        let rq = &mut self.rqs[cpu];
        rq.since_ns = self.now;
        if rq.tick_at_ns == NEVER {
            rq.tick_at_ns = tick;
        }
        if self.topo.smt_mask[cpu].weight() > 1 {
            self.rqs[cpu].speed_permille = self.thread_speed(cpu);
            self.siblings_change_speed(cpu);
        }
    }

    /// The first tick of a CPU after now.
    fn next_tick(&self, cpu: usize) -> u64 {
        let (tick, skew) = (self.tunables.tick_ns, self.tick_skew[cpu]);
        (self.now - skew) / tick * tick + tick + skew
    }

    /// The sibling threads of a CPU that became idle or busy run on at another speed.
    fn siblings_change_speed(&mut self, cpu: usize) {
        let topo = self.topo;
        for sibling in topo.smt_mask[cpu].iter().filter(|&sibling| sibling != cpu) {
            self.change_speed(sibling);
        }
    }

    /// What its siblings leave a running thread has changed, perhaps.
    fn change_speed(&mut self, cpu: usize) {
        let speed = self.thread_speed(cpu);
        if self.rqs[cpu].curr == NO_TASK || self.rqs[cpu].speed_permille == speed {
            return;
        }
        self.pause_step(cpu);
        self.rqs[cpu].speed_permille = speed;
        self.resume_step(cpu);
        self.arm(cpu);
    }

    /// Speed of a thread: what its busy siblings leave, less what its task's far memory costs.
    fn thread_speed(&self, cpu: usize) -> u32 {
        let busy =
            self.topo.smt_mask[cpu].iter().filter(|&other| other != cpu && self.rqs[other].curr != NO_TASK);
        let speed = self.cost.busy_thread_permille(busy.count()) as u32;
        match self.memory.speed_permille(self.rqs[cpu].curr) {
            1000 => speed,
            slowed => (speed * slowed / 1000).max(1),
        }
    }

    /// Speed of a CPU in parts of 1,024,000: its capacity (1024) times what its siblings leave (1000).
    fn speed(&self, cpu: usize) -> u64 {
        self.stats.capacity_orig[cpu] * u64::from(self.rqs[cpu].speed_permille)
    }

    /// Starts or resumes the running task's step: its end, from the work that is left.
    fn resume_step(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        let remaining = self.tasks[curr as usize].remaining_ns;
        let work = remaining + std::mem::take(&mut self.rqs[cpu].overhead_ns);
        let speed = self.speed(cpu);
        let span = if speed == FULL_SPEED { work } else { (work * FULL_SPEED).div_ceil(speed) };
        if self.processes.accounted {
            self.account_user(curr, (remaining * FULL_SPEED / speed) as i64);
        }
        self.rqs[cpu].step_end_ns = self.now + span;
    }

    /// Interrupts the running task's step: what work is left.
    fn pause_step(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        if curr == NO_TASK {
            return;
        }
        let span = self.rqs[cpu].step_end_ns.saturating_sub(self.now);
        let speed = self.speed(cpu);
        let work = if speed == FULL_SPEED { span } else { (span * speed).div_ceil(FULL_SPEED) };
        self.tasks[curr as usize].remaining_ns = work;
        self.rqs[cpu].step_end_ns = NEVER;
        if self.processes.accounted {
            self.account_user(curr, -(span as i64));
        }
    }

    /// Kernel work done in this event delays the end of the running step; an idle CPU just spends the time.
    fn charge_overhead(&mut self, cpu: usize) {
        let overhead = std::mem::take(&mut self.rqs[cpu].overhead_ns);
        if overhead > 0 && self.rqs[cpu].curr != NO_TASK {
            let speed = self.speed(cpu);
            self.rqs[cpu].step_end_ns += overhead * FULL_SPEED / speed;
        }
    }

    /// resched_curr(): the CPU should call the scheduler; another one needs an interrupt to learn of it.
    fn resched_curr(&mut self, cpu: usize) {
        if self.rqs[cpu].need_resched {
            return;
        }
        self.rqs[cpu].need_resched = true;
        if cpu != self.this_cpu {
            self.send_interrupt(cpu, Interrupt::Reschedule);
        }
    }

    /// Sends an interrupt: it arrives after the wire, and after the idle state if there is one to leave.
    fn send_interrupt(&mut self, cpu: usize, interrupt: Interrupt) {
        let idle = self.rqs[cpu].curr == NO_TASK;
        let latency = self.cost.ipi_ns + if idle { self.cost.idle_exit_ns } else { 0 };
        self.rqs[cpu].pending.push((self.now + latency, interrupt));
        self.arm(cpu);
    }

    /// Puts the CPU's next event into the queue.
    fn arm(&mut self, cpu: usize) {
        let rq = &self.rqs[cpu];
        let interrupt = rq.pending.iter().map(|&(time, _)| time).min().unwrap_or(NEVER);
        self.events.set(cpu, rq.step_end_ns.min(rq.tick_at_ns).min(interrupt));
    }

    /// A cost by distance between two CPUs: same LLC, same node, elsewhere.
    fn distance_cost(&self, a: usize, b: usize, by_distance: [u64; 3]) -> u64 {
        if self.topo.llc_id[a] == self.topo.llc_id[b] {
            by_distance[0]
        } else if self.node_of[a] == self.node_of[b] {
            by_distance[1]
        } else {
            by_distance[2]
        }
    }

    /// set_cpus_allowed_ptr(): a task that may not stay where it is moves to the first online CPU that it may use.
    fn set_affinity(&mut self, task: TaskId, mask: &CpuMask) {
        let id = task as usize;
        let cpu = usize::from(self.tasks[id].cpu);
        match &mut self.tasks[id].allowed {
            Some(allowed) => allowed.copy_from(mask),
            allowed => *allowed = Some(Box::new(mask.clone())),
        }
        if mask.test(cpu) {
            return;
        }
        let Some(target) = mask.and(&self.online).first() else { return };
        if self.tasks[id].state != TaskState::Runnable {
            return;
        }
        self.this_cpu = cpu;
        let running = self.rqs[cpu].curr == task;
        if running {
            self.pause_step(cpu);
        }
        self.update_rq_clock(cpu);
        if self.has_priority_arrays() {
            if running {
                self.o1_put_prev_task(cpu);
            }
            self.o1_migrate_task(cpu, target, task);
        } else {
            if running {
                self.put_prev_task(cpu);
            }
            self.move_tasks(cpu, target, &[task]);
        }
        if running {
            self.schedule(cpu);
        }
        self.leave(cpu);
    }

    /// `jiffies`.
    fn jiffies(&self) -> u64 {
        self.now / self.tunables.tick_ns
    }
}

/// [`Sim::speed`] of the biggest CPU with idle siblings.
const FULL_SPEED: u64 = 1024 * 1000;
