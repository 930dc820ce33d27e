//! The O(1) scheduler: two arrays of priorities a CPU, timeslices in ticks, sleep averages.
//!
//! kernel/sched.c, 2.6.15: schedule(), scheduler_tick() and the queues; `wakeup` has wake-ups, forks and exits, `balance` load
//! balancing. What is decided is the kernel's table ([`O1`]). Of a CPU's fair queue only the counts and the running
//! task are used: the arrays are here, linked by the tasks' list fields.
//!
//! # Deviates
//! The clocks of all CPUs agree, so that nothing is compensated when a task changes CPU. The migration thread takes time, but
//! is no task: it is not in `nr_running` while it runs. There is no uninterruptible sleep. A low-priority task is
//! not kept from running beside a better one on the core's other thread (SMT nice).

mod balance;
mod wakeup;

use super::Sim;
use super::fair::list_remove;
use super::rq::{NO_TASK, Task, TaskId};
use super::{QueueForm, Setup};
use crate::kernels::o1::prio::{self, ExpiredArray, PrioTask, TaskTick};
use crate::kernels::o1::{self, O1, O1Array, O1Class, O1Domain, O1Group, O1Rq};
use crate::record::TaskTraceState;
use crate::topology;

/// One more than the worst priority: that of an idle CPU.
const MAX_PRIO: i32 = 140;
/// Priority of nice 0.
const NICE_0_PRIO: i32 = 120;

/// What a run under an O(1) scheduler keeps beyond what all runs do; empty under others.
pub struct O1State<'a> {
    /// The decisions.
    table: &'a O1,
    /// By CPU: what balancing reads.
    rqs: Vec<O1Rq>,
    /// By CPU: its arrays.
    queues: Vec<Arrays>,
    /// By task.
    tasks: Vec<O1Task>,
    /// By CPU and level: parameters of the domain, and where its ring of groups starts.
    sds: Vec<Vec<(O1Domain, Ring)>>,
    /// The rings, each twice over, so that every rotation is a slice.
    rings: Vec<Vec<O1Group>>,
    /// Tasks that a pull has chosen.
    pulled: Vec<(O1Array, TaskId)>,
}

/// A ring of groups that starts with a CPU's own.
#[derive(Clone, Copy)]
struct Ring {
    ring: usize,
    start: usize,
    len: usize,
}

/// What the scheduler keeps of a task (`task_t`).
#[derive(Clone, Copy)]
struct O1Task {
    /// Priorities, sleep average and timeslice.
    p: PrioTask,
    /// Position of its array in the runqueue; `None` = not queued.
    array: Option<usize>,
    /// When it was last switched to or from, or woken, ns.
    timestamp: u64,
    /// When it last ran, ns.
    last_ran: u64,
    /// It has been woken and not run since: what its waiting counts for.
    activated: Activated,
    /// It has what it got from its parent.
    first_time_slice: bool,
    /// CPU that last woke it.
    last_waker_cpu: u16,
}

/// `activated`: who woke a task that has not run since.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activated {
    No,
    ByTask,
    ByInterrupt,
}

/// The arrays of a runqueue.
struct Arrays {
    arrays: [PrioArray; 2],
    /// Which of them is the active one.
    active: usize,
    /// When the first task expired since the arrays were exchanged, jiffies.
    expired_timestamp: Option<u64>,
    /// Best static priority among the expired.
    best_expired_prio: i32,
    /// When the CPU last ticked, ns.
    timestamp_last_tick: u64,
}

/// A list for each priority, and which of them hold tasks.
struct PrioArray {
    nr_active: u32,
    bitmap: [u64; 3],
    /// First and last task of each priority.
    lists: Vec<(TaskId, TaskId)>,
}

impl PrioArray {
    fn new() -> Self {
        Self { nr_active: 0, bitmap: [0; 3], lists: vec![(NO_TASK, NO_TASK); MAX_PRIO as usize] }
    }

    /// The best priority, not better than `from`, that has tasks.
    fn next_prio(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.bitmap.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.bitmap.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

impl Arrays {
    fn new(now: u64) -> Self {
        Self {
            arrays: [PrioArray::new(), PrioArray::new()],
            active: 0,
            expired_timestamp: None,
            best_expired_prio: MAX_PRIO,
            timestamp_last_tick: now,
        }
    }

    fn position(&self, array: O1Array) -> usize {
        match array {
            O1Array::Active => self.active,
            O1Array::Expired => 1 - self.active,
        }
    }

    /// Puts a task at the end of its priority's list.
    fn push_tail(&mut self, tasks: &mut [Task], array: usize, prio: i32, task: TaskId) {
        let (head, tail) = &mut self.arrays[array].lists[prio as usize];
        let last = std::mem::replace(tail, task);
        tasks[task as usize].list_prev = last;
        tasks[task as usize].list_next = NO_TASK;
        match last {
            NO_TASK => *head = task,
            last => tasks[last as usize].list_next = task,
        }
        self.count(array, prio);
    }

    /// Puts a task before another one of its list.
    fn push_before(&mut self, tasks: &mut [Task], array: usize, prio: i32, task: TaskId, other: TaskId) {
        let before = std::mem::replace(&mut tasks[other as usize].list_prev, task);
        tasks[task as usize].list_prev = before;
        tasks[task as usize].list_next = other;
        match before {
            NO_TASK => self.arrays[array].lists[prio as usize].0 = task,
            before => tasks[before as usize].list_next = task,
        }
        self.count(array, prio);
    }

    fn count(&mut self, array: usize, prio: i32) {
        let array = &mut self.arrays[array];
        array.nr_active += 1;
        array.bitmap[prio as usize / 64] |= 1 << (prio % 64);
    }

    fn remove(&mut self, tasks: &mut [Task], array: usize, prio: i32, task: TaskId) {
        let array = &mut self.arrays[array];
        let (head, tail) = &mut array.lists[prio as usize];
        list_remove(tasks, head, tail, task);
        if *head == NO_TASK {
            array.bitmap[prio as usize / 64] &= !(1 << (prio % 64));
        }
        array.nr_active -= 1;
    }
}

impl<'a> O1State<'a> {
    /// The state before the first task.
    pub fn new(setup: &'a Setup, now: u64) -> Self {
        let table = setup.kernel.o1.as_ref();
        let nr_cpus = if table.is_some() { setup.domains.nr_cpus } else { 0 };
        let mut state = Self {
            table: table.unwrap_or(&o1::PLAIN),
            rqs: vec![O1Rq { idle: true, ..O1Rq::default() }; nr_cpus],
            queues: (0..nr_cpus).map(|_| Arrays::new(now)).collect(),
            tasks: Vec::new(),
            sds: Vec::new(),
            rings: Vec::new(),
            pulled: Vec::new(),
        };
        if table.is_some() {
            state.tasks = setup.load.tasks.iter().map(|spec| O1Task::new(spec.nice, now)).collect();
            state.build_rings(setup);
        }
        state
    }

    fn build_rings(&mut self, setup: &Setup) {
        let topo = &setup.domains;
        let mut known: Vec<Vec<usize>> = Vec::new();
        let nr_cpus = topo.nr_cpus;
        for hierarchy in &topo.per_cpu {
            let mut levels = Vec::with_capacity(hierarchy.len());
            for sd in hierarchy {
                let least = (0..sd.ring.len()).min_by_key(|&at| sd.ring[at]).unwrap_or(0);
                let mut order = sd.ring.clone();
                order.rotate_left(least);
                let ring = known.iter().position(|other| *other == order).unwrap_or_else(|| {
                    let group = |&index: &usize| O1Group {
                        cpus: topo.groups[index].span.clone(),
                        cpu_power: topology::o1::cpu_power(&topo.groups[index]),
                    };
                    self.rings.push(order.iter().chain(&order).map(group).collect());
                    known.push(order);
                    known.len() - 1
                });
                let len = sd.ring.len();
                let start = (len - least) % len;
                let parameters = topology::o1::parameters(sd.name, nr_cpus).unwrap_or_default();
                levels.push((parameters, Ring { ring, start, len }));
            }
            self.sds.push(levels);
        }
    }

    /// The groups of a CPU's domain, its own first.
    fn groups(&self, ring: Ring) -> &[O1Group] {
        &self.rings[ring.ring][ring.start..ring.start + ring.len]
    }
}

impl O1Task {
    fn new(nice: i8, now: u64) -> Self {
        let static_prio = NICE_0_PRIO + i32::from(nice);
        Self {
            p: PrioTask {
                static_prio,
                prio: static_prio,
                sleep_avg_ns: 0,
                time_slice: 0,
                user: true,
                uninterruptible: false,
                batch: false,
            },
            array: None,
            timestamp: now,
            last_ran: now,
            activated: Activated::No,
            first_time_slice: false,
            last_waker_cpu: 0,
        }
    }
}

impl Sim<'_> {
    /// Whether the kernel's queues are arrays of priorities.
    pub(super) fn has_priority_arrays(&self) -> bool {
        self.queue_form == QueueForm::Priority
    }

    /// The first task, on a CPU that all others are idle beside: no CPU of this era stops its tick.
    pub(super) fn o1_start(&mut self, cpu: usize) {
        let hz = u64::from(self.tunables.hz);
        for online in (0..self.topo.nr_cpus).filter(|&cpu| self.stats.idle[cpu]).collect::<Vec<_>>() {
            self.rqs[online].tick_at_ns = self.next_tick(online);
            self.arm(online);
            // Balancing has gone on for long: it is in step with the offset of its CPU.
            let offset = self.cpu_offset(online);
            self.sds[online].iter_mut().for_each(|sd| sd.last_balance += offset);
        }
        let table = self.o1.table;
        let first = &mut self.o1.tasks[0].p;
        first.time_slice = (table.task_timeslice.f)(first.static_prio, hz);
        first.prio = (table.effective_prio.f)(first.static_prio, prio::current_bonus(first, hz));
        self.o1_activate(cpu, 0);
        self.schedule(cpu);
    }

    /// enqueue_task(): to the end of its priority's list.
    fn o1_enqueue_task(&mut self, cpu: usize, task: TaskId, array: usize) {
        let of_task = &mut self.o1.tasks[task as usize];
        of_task.array = Some(array);
        self.o1.queues[cpu].push_tail(&mut self.tasks, array, of_task.p.prio, task);
    }

    /// dequeue_task().
    fn o1_dequeue_task(&mut self, cpu: usize, task: TaskId) {
        let of_task = &mut self.o1.tasks[task as usize];
        if let Some(array) = of_task.array.take() {
            self.o1.queues[cpu].remove(&mut self.tasks, array, of_task.p.prio, task);
        }
    }

    /// requeue_task().
    fn o1_requeue_task(&mut self, cpu: usize, task: TaskId) {
        if let Some(array) = self.o1.tasks[task as usize].array {
            self.o1_dequeue_task(cpu, task);
            self.o1_enqueue_task(cpu, task, array);
        }
    }

    /// __activate_task(): the task is runnable here from now on.
    fn o1_activate(&mut self, cpu: usize, task: TaskId) {
        let active = self.o1.queues[cpu].active;
        self.o1_enqueue_task(cpu, task, active);
        self.inc_nr_running(cpu, task);
        self.tasks[task as usize].queued_since_ns = self.now;
    }

    /// inc_nr_running().
    fn inc_nr_running(&mut self, cpu: usize, task: TaskId) {
        let bias = self.task_bias(task);
        let rq = &mut self.o1.rqs[cpu];
        rq.nr_running += 1;
        rq.prio_bias += bias;
        self.tasks[task as usize].se.on_rq = true;
        self.record.task_state(self.now, task, cpu, TaskTraceState::Waiting);
        self.mirror_nr_running(cpu);
    }

    /// dec_nr_running().
    fn dec_nr_running(&mut self, cpu: usize, task: TaskId) {
        let bias = self.task_bias(task);
        let rq = &mut self.o1.rqs[cpu];
        rq.nr_running -= 1;
        rq.prio_bias -= bias;
        self.tasks[task as usize].se.on_rq = false;
        self.mirror_nr_running(cpu);
    }

    fn mirror_nr_running(&mut self, cpu: usize) {
        let rq = &self.o1.rqs[cpu];
        self.stats.load[cpu] = (self.o1.table.load_now.f)(rq);
        let cfs = &mut self.rqs[cpu].cfs;
        cfs.nr_running = rq.nr_running as u32;
        cfs.h_nr_running = cfs.nr_running;
        self.nr_running_changed(cpu);
    }

    fn task_bias(&self, task: TaskId) -> u64 {
        (self.o1.table.task_bias.f)(O1Class::Normal(self.o1.tasks[task as usize].p.static_prio))
    }

    /// schedule(), what it takes from the task that ran: time is charged to its sleep average.
    fn o1_charge(&mut self, task: TaskId) {
        let hz = u64::from(self.tunables.hz);
        let task = &mut self.o1.tasks[task as usize];
        (self.o1.table.charge_run_time.f)(&mut task.p, self.now - task.timestamp, hz);
        task.timestamp = self.now;
        task.last_ran = self.now;
    }

    /// The running task falls asleep or has exited: deactivate_task(), and what schedule() charges it.
    pub(super) fn o1_block(&mut self, cpu: usize, task: TaskId) {
        self.o1_charge(task);
        self.rqs[cpu].cfs.curr = NO_TASK;
        self.o1_dequeue_task(cpu, task);
        self.dec_nr_running(cpu, task);
    }

    /// The running task gives way to the migration thread, where it stands.
    pub(super) fn o1_put_prev_task(&mut self, cpu: usize) {
        let prev = std::mem::replace(&mut self.rqs[cpu].cfs.curr, NO_TASK);
        if prev != NO_TASK {
            self.o1_charge(prev);
            self.o1_waits(cpu, prev);
        }
    }

    fn o1_waits(&mut self, cpu: usize, task: TaskId) {
        self.tasks[task as usize].queued_since_ns = self.now;
        self.record.task_state(self.now, task, cpu, TaskTraceState::Waiting);
    }

    /// schedule(): the first task of the best priority runs; `prev` gives way unless it is the same. `None` if there is none.
    pub(super) fn o1_pick_next_task(&mut self, cpu: usize, prev: TaskId) -> Option<TaskId> {
        if prev != NO_TASK {
            self.o1_charge(prev);
        }
        let queue = &mut self.o1.queues[cpu];
        if queue.arrays[queue.active].nr_active == 0 {
            if self.o1.rqs[cpu].nr_running == 0 {
                return None;
            }
            queue.active = 1 - queue.active;
            queue.expired_timestamp = None;
            queue.best_expired_prio = MAX_PRIO;
        }
        let array = &queue.arrays[queue.active];
        let (next, _) = array.lists[array.next_prio(0)?];
        self.o1_credit_wait(cpu, next);
        self.o1.rqs[cpu].idle = false;
        if next != prev {
            if prev != NO_TASK {
                self.o1_waits(cpu, prev);
            }
            self.rqs[cpu].cfs.curr = next;
            self.o1.tasks[next as usize].timestamp = self.now;
            self.record.run_delay(cpu, self.now - self.tasks[next as usize].queued_since_ns);
            self.record.task_state(self.now, next, cpu, TaskTraceState::Running);
        }
        Some(next)
    }

    /// schedule(): a woken task that runs for the first time has slept a little longer. It goes to the end of its list, and
    /// runs nevertheless.
    fn o1_credit_wait(&mut self, cpu: usize, next: TaskId) {
        let hz = u64::from(self.tunables.hz);
        let (table, of_task) = (self.o1.table, &self.o1.tasks[next as usize]);
        if of_task.activated == Activated::No {
            return;
        }
        let by_interrupt = of_task.activated == Activated::ByInterrupt;
        let credit_ns = (table.credited_wait_ns.f)(self.now - of_task.timestamp, by_interrupt);
        let mut p = of_task.p;
        (table.recalc_task_prio.f)(&mut p, credit_ns, hz);
        if let Some(array) = of_task.array {
            self.o1_dequeue_task(cpu, next);
            self.o1.tasks[next as usize].p = p;
            self.o1_enqueue_task(cpu, next, array);
        }
        self.o1.tasks[next as usize].activated = Activated::No;
    }

    /// Priority of what a CPU runs.
    fn curr_prio(&self, cpu: usize) -> i32 {
        match self.rqs[cpu].curr {
            NO_TASK => MAX_PRIO,
            curr => self.o1.tasks[curr as usize].p.prio,
        }
    }

    /// TASK_PREEMPTS_CURR(), and resched_task() if it does.
    fn o1_check_preempt(&mut self, cpu: usize, task: TaskId) -> bool {
        let prio = self.o1.tasks[task as usize].p.prio;
        let preempts = (self.o1.table.task_preempts_curr.f)(prio, self.curr_prio(cpu));
        if preempts {
            self.resched_curr(cpu);
        }
        preempts
    }

    /// scheduler_tick().
    pub(super) fn o1_tick(&mut self, cpu: usize) {
        self.o1.queues[cpu].timestamp_last_tick = self.now;
        let idle = self.rqs[cpu].curr == NO_TASK;
        if !idle {
            self.o1_task_tick(cpu);
        }
        self.rebalance_tick(cpu, idle);
    }

    /// scheduler_tick() for the running task.
    fn o1_task_tick(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        let queue = &self.o1.queues[cpu];
        if self.o1.tasks[curr as usize].array != Some(queue.active) {
            // It has expired already and was not switched from yet.
            self.resched_curr(cpu);
            return;
        }
        let jiffies = self.jiffies();
        let expired = ExpiredArray {
            waited_jiffies: queue.expired_timestamp.map(|since| jiffies - since),
            nr_running: self.o1.rqs[cpu].nr_running,
            best_static_prio: queue.best_expired_prio,
        };
        let mut p = self.o1.tasks[curr as usize].p;
        let (table, hz) = (self.o1.table, u64::from(self.tunables.hz));
        let verdict = (table.scheduler_tick.f)(table, &mut p, &expired, self.nr_online_cpus as u32, hz);
        let alone = self.o1.rqs[cpu].nr_running < 2;
        if !alone {
            self.log_tick(cpu, curr, verdict != TaskTick::Continue);
        }
        match verdict {
            TaskTick::Continue => {
                self.o1.tasks[curr as usize].p = p;
                return;
            }
            TaskTick::Requeue => {
                self.o1.tasks[curr as usize].p = p;
                self.o1_requeue_task(cpu, curr);
            }
            TaskTick::RenewActive | TaskTick::Expire => {
                self.o1_dequeue_task(cpu, curr);
                let of_task = &mut self.o1.tasks[curr as usize];
                of_task.p = p;
                of_task.first_time_slice = false;
                let queue = &mut self.o1.queues[cpu];
                queue.expired_timestamp.get_or_insert(jiffies);
                let mut array = queue.active;
                if verdict == TaskTick::Expire {
                    array = 1 - array;
                    queue.best_expired_prio = queue.best_expired_prio.min(p.static_prio);
                }
                self.o1_enqueue_task(cpu, curr, array);
            }
        }
        self.record.metrics.preemptions_tick += i64::from(!alone);
        self.resched_curr(cpu);
    }

    /// What must hold of a CPU's arrays; an error says what does not.
    pub(super) fn check_arrays(&self, cpu: usize) -> Result<(), String> {
        let queue = &self.o1.queues[cpu];
        let (mut queued, mut bias) = (0, 0);
        for (position, array) in queue.arrays.iter().enumerate() {
            let mut in_array = 0;
            for (prio, &(head, tail)) in array.lists.iter().enumerate() {
                let marked = array.bitmap[prio / 64] >> (prio % 64) & 1 == 1;
                if marked != (head != NO_TASK) || (head == NO_TASK) != (tail == NO_TASK) {
                    return Err(format!(
                        "the bit of priority {prio} is {marked}, its list starts with {head}"
                    ));
                }
                let mut task = head;
                while task != NO_TASK {
                    let of_task = &self.o1.tasks[task as usize];
                    let stands = (of_task.array, of_task.p.prio as usize);
                    if stands != (Some(position), prio) || usize::from(self.tasks[task as usize].cpu) != cpu {
                        return Err(format!("task {task} is in array {position} at {prio}, says {stands:?}"));
                    }
                    in_array += 1;
                    bias += self.task_bias(task);
                    task = self.tasks[task as usize].list_next;
                }
            }
            if in_array != array.nr_active {
                return Err(format!("{in_array} tasks in array {position}, counted {}", array.nr_active));
            }
            queued += u64::from(in_array);
        }
        let rq = &self.o1.rqs[cpu];
        if (queued, bias, self.rqs[cpu].curr == NO_TASK) != (rq.nr_running, rq.prio_bias, rq.idle) {
            return Err(format!("{queued} tasks of bias {bias}, counted {rq:?}"));
        }
        if self.stats.idle[cpu] != (rq.idle && queued == 0) {
            return Err("its idle flag is wrong".to_owned());
        }
        Ok(())
    }

    /// Counts the tasks of all arrays, by task.
    pub(super) fn count_in_arrays(&self, queued: &mut [usize]) {
        for lists in self.o1.queues.iter().flat_map(|queue| &queue.arrays).map(|array| &array.lists) {
            for &(head, _) in lists {
                let mut task = head;
                while task != NO_TASK {
                    queued[task as usize] += 1;
                    task = self.tasks[task as usize].list_next;
                }
            }
        }
    }
}
