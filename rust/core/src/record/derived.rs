//! Measures of a schedule: what a trace says about placement, spreading, waiting and fairness.
//!
//! The same measures describe schedules recorded on real kernels, so that the two can stand side by side. Floats
//! describe here; nothing decides by them.

use std::collections::BTreeMap;

use crate::cpumask::CpuMask;
use crate::record::fairness::{Claim, fair_shares};
use crate::record::{TaskTraceState, Trace, TraceEvent};

/// What the measures need to know of a task beside its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTask {
    /// What it does.
    pub kind: TraceTaskKind,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// Its cgroup; `None` = the root.
    pub group: Option<String>,
    /// CPUs that it may use.
    pub affinity: CpuMask,
    /// From this time after T0 on, it may use these instead.
    pub release: Option<(u64, CpuMask)>,
    /// CPU where it slept before its first event, if known.
    pub first_cpu: Option<u16>,
}

/// Kinds of tasks that measures tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceTaskKind {
    /// Spins to the end.
    Hog,
    /// Runs and sleeps in turn.
    Periodic,
    /// Meets the others of its entry at a barrier; `futex`: sleeps there.
    Barrier {
        /// Number of tasks that meet.
        n: u32,
        /// Waits asleep, not spinning.
        futex: bool,
    },
    /// One end of a pair that exchanges messages; `first` starts.
    PingPong {
        /// The end that sends first.
        first: bool,
    },
    /// Forks children.
    Forker,
    /// Was forked during the run.
    Child,
    /// Not of the workload, such as a kernel thread: it occupies its CPU and counts as nothing else.
    Other,
}

/// What a schedule is measured against.
#[derive(Clone, Debug)]
pub struct TraceSubject {
    /// Number of CPUs.
    pub nr_cpus: usize,
    /// Sets of CPUs for measures by group: nodes, last-level caches or cores; empty for none.
    pub groups: Vec<Vec<usize>>,
    /// The tasks, by index.
    pub tasks: Vec<TraceTask>,
}

/// Measures by name, in a fixed order; `None` = it never came so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derived {
    /// The measures.
    pub measures: Vec<(String, Option<f64>)>,
}

/// Counts that stay this close this long are balanced.
const BALANCED_FOR_NS: u64 = 20_000_000;
const NS_PER_MS: f64 = 1e6;
const NS_PER_US: f64 = 1e3;

impl Derived {
    /// A measure's value; `None` if it is not there or never came.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.measures.iter().find(|(other, _)| other == name).and_then(|&(_, value)| value)
    }

    fn push(&mut self, name: impl Into<String>, value: f64) {
        self.measures.push((name.into(), Some(value)));
    }

    fn push_option(&mut self, name: &str, value: Option<f64>) {
        self.measures.push((name.to_owned(), value));
    }

    /// `NAME_min`, `NAME_max`, `NAME_mean` and `NAME_sd` (of the values themselves, not of a sample).
    fn push_spread(&mut self, name: &str, values: &[f64]) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        self.push(format!("{name}_min"), values.iter().copied().fold(f64::INFINITY, f64::min));
        self.push(format!("{name}_max"), values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        self.push(format!("{name}_mean"), mean);
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
        self.push(format!("{name}_sd"), variance.sqrt());
    }
}

/// The measures of a trace.
///
/// The trace's events are in order of time and name CPUs and tasks of `subject`; events before T0 tell where tasks
/// stood. "Running count" is the number of the workload's tasks that run or wait on a CPU.
pub fn derive(trace: &Trace, subject: &TraceSubject) -> Derived {
    let end_ns = window_end_ns(trace, subject);
    let mut walk = Walk::new(trace.start_ns, end_ns, subject);
    for &event in trace.events.iter().take_while(|event| event.time_ns < end_ns) {
        walk.advance(event.time_ns);
        walk.apply(event);
    }
    walk.advance(end_ns);
    walk.finish()
}

/// The trace's end; of fork storms alone, the end of the last child if all have ended.
fn window_end_ns(trace: &Trace, subject: &TraceSubject) -> u64 {
    let storm = |task: &TraceTask| {
        matches!(task.kind, TraceTaskKind::Forker | TraceTaskKind::Child | TraceTaskKind::Other)
    };
    let is_child = |task: usize| subject.tasks[task].kind == TraceTaskKind::Child;
    if !subject.tasks.iter().all(storm) {
        return trace.end_ns;
    }
    let mut ended_ns: BTreeMap<u32, u64> = BTreeMap::new();
    for event in trace.events.iter().filter(|event| is_child(event.task as usize)) {
        if event.state == TaskTraceState::Asleep {
            ended_ns.insert(event.task, event.time_ns);
        } else {
            ended_ns.remove(&event.task);
        }
    }
    let nr_children = (0..subject.tasks.len()).filter(|&task| is_child(task)).count();
    match ended_ns.values().max() {
        Some(&last_ns) if ended_ns.len() == nr_children => last_ns.clamp(trace.start_ns, trace.end_ns),
        _ => trace.end_ns,
    }
}

/// The schedule at one moment, and the sums up to it.
struct Walk<'a> {
    subject: &'a TraceSubject,
    start_ns: u64,
    end_ns: u64,
    /// From here on spreading counts: the last release, or T0.
    release_ns: u64,
    now_ns: u64,
    tasks: Vec<TaskState>,
    cpus: Vec<CpuState>,
    group_of: Vec<usize>,
    group_counts: Vec<usize>,
    /// Tasks that have not been runnable since the start.
    nr_unseen: usize,
    sums: Sums,
    counts_within_one: Steady,
    groups_within_one: Steady,
}

struct TaskState {
    state: TaskTraceState,
    cpu: Option<u16>,
    /// It was runnable since the start.
    seen: bool,
    woken_ns: Option<u64>,
    run_ns: u64,
    /// Waiting time since it first ran after its last wake-up.
    burst_wait_ns: u64,
    in_burst: bool,
    sleeps: u64,
    first_ran: Option<(u64, u16)>,
    first_event_ns: u64,
    ended_ns: u64,
}

#[derive(Clone, Default)]
struct CpuState {
    /// Tasks of the workload, running or waiting.
    count: usize,
    /// Those and others.
    occupants: usize,
    running: Option<u32>,
    /// What ran last.
    last: Option<u32>,
    /// Nothing has run since, and nothing waited then.
    idle_since_ns: Option<u64>,
}

#[derive(Default)]
struct Sums {
    count_ns: Vec<BTreeMap<usize, u64>>,
    spread_ns: BTreeMap<usize, u64>,
    group_spread_ns: BTreeMap<usize, u64>,
    group_count_ns: Vec<BTreeMap<usize, u64>>,
    waiting_ns: u64,
    waiting_cpu_ns: u64,
    two_ns: u64,
    violation_from_ns: Option<u64>,
    violations_ns: Vec<(u64, u64)>,
    wakeup_moves: u64,
    balance_moves: u64,
    wakeup_moves_across: u64,
    balance_moves_across: u64,
    switches: u64,
    wakeup_to_run_ns: Vec<u64>,
    burst_delays_ns: Vec<u64>,
}

/// First time from which a condition held for [`BALANCED_FOR_NS`], all tasks having started.
#[derive(Default)]
struct Steady {
    from_ns: Option<u64>,
    found_ns: Option<u64>,
}

impl Steady {
    fn hold(&mut self, from_ns: u64, to_ns: u64, holds: bool) {
        if !holds {
            self.from_ns = None;
            return;
        }
        let since = *self.from_ns.get_or_insert(from_ns);
        if self.found_ns.is_none() && to_ns - since >= BALANCED_FOR_NS {
            self.found_ns = Some(since);
        }
    }
}

impl<'a> Walk<'a> {
    fn new(start_ns: u64, end_ns: u64, subject: &'a TraceSubject) -> Self {
        let release = subject.tasks.iter().filter_map(|task| task.release.as_ref()).map(|&(at, _)| at).max();
        let mut group_of = vec![0; subject.nr_cpus];
        for (group, cpus) in subject.groups.iter().enumerate() {
            for &cpu in cpus {
                group_of[cpu] = group;
            }
        }
        let task = |task: &TraceTask| TaskState {
            state: TaskTraceState::Asleep,
            cpu: task.first_cpu,
            seen: false,
            woken_ns: None,
            run_ns: 0,
            burst_wait_ns: 0,
            in_burst: false,
            sleeps: 0,
            first_ran: None,
            first_event_ns: 0,
            ended_ns: 0,
        };
        Self {
            subject,
            start_ns,
            end_ns,
            release_ns: start_ns + release.unwrap_or(0),
            now_ns: start_ns,
            tasks: subject.tasks.iter().map(task).collect(),
            cpus: vec![CpuState { idle_since_ns: Some(start_ns), ..CpuState::default() }; subject.nr_cpus],
            group_of,
            group_counts: vec![0; subject.groups.len()],
            nr_unseen: subject.tasks.iter().filter(|task| task.kind != TraceTaskKind::Other).count(),
            sums: Sums {
                count_ns: vec![BTreeMap::new(); subject.nr_cpus],
                group_count_ns: vec![BTreeMap::new(); subject.groups.len()],
                ..Sums::default()
            },
            counts_within_one: Steady::default(),
            groups_within_one: Steady::default(),
        }
    }

    /// Adds the time up to `to_ns` to the sums, cut at the release so that what counts from there on counts exactly.
    fn advance(&mut self, to_ns: u64) {
        if self.now_ns < self.release_ns && to_ns > self.release_ns {
            self.add_span(self.release_ns);
        }
        self.add_span(to_ns);
    }

    fn add_span(&mut self, to_ns: u64) {
        if to_ns <= self.now_ns {
            return;
        }
        let (from_ns, span_ns) = (self.now_ns, to_ns - self.now_ns);
        self.now_ns = to_ns;
        for (cpu, state) in self.cpus.iter().enumerate() {
            *self.sums.count_ns[cpu].entry(state.count).or_default() += span_ns;
        }
        let spread = spread(self.cpus.iter().map(|cpu| cpu.count));
        *self.sums.spread_ns.entry(spread).or_default() += span_ns;
        let group_spread = spread_of(&self.group_counts);
        *self.sums.group_spread_ns.entry(group_spread).or_default() += span_ns;
        for (group, &count) in self.group_counts.iter().enumerate() {
            *self.sums.group_count_ns[group].entry(count).or_default() += span_ns;
        }
        for state in &mut self.tasks {
            match state.state {
                TaskTraceState::Running => state.run_ns += span_ns,
                TaskTraceState::Waiting if state.in_burst => state.burst_wait_ns += span_ns,
                TaskTraceState::Waiting | TaskTraceState::Asleep => {}
            }
        }
        if from_ns < self.release_ns {
            return;
        }
        let all_started = self.nr_unseen == 0;
        self.counts_within_one.hold(from_ns, to_ns, all_started && spread <= 1);
        self.groups_within_one.hold(from_ns, to_ns, all_started && group_spread <= 1);
        self.add_violation(from_ns, span_ns);
    }

    /// An idle CPU while a task that may use it waits behind another one.
    fn add_violation(&mut self, from_ns: u64, span_ns: u64) {
        let nr_idle = self.cpus.iter().filter(|cpu| cpu.occupants == 0).count();
        if nr_idle > 0 && self.cpus.iter().any(|cpu| cpu.occupants >= 2) {
            self.sums.two_ns += span_ns;
        }
        let nr_waiting = if nr_idle == 0 { 0 } else { self.waiting_for_idle_cpus(from_ns) };
        if nr_waiting == 0 {
            if let Some(since) = self.sums.violation_from_ns.take() {
                self.sums.violations_ns.push((since, from_ns));
            }
            return;
        }
        self.sums.violation_from_ns.get_or_insert(from_ns);
        self.sums.waiting_ns += span_ns;
        self.sums.waiting_cpu_ns += span_ns * nr_idle.min(nr_waiting) as u64;
    }

    fn waiting_for_idle_cpus(&self, now_ns: u64) -> usize {
        let waits = |(task, state): &(usize, &TaskState)| {
            let (TaskTraceState::Waiting, Some(cpu)) = (state.state, state.cpu) else { return false };
            self.is_ours(*task)
                && self.cpus[usize::from(cpu)].running.is_some()
                && self
                    .affinity(*task, now_ns)
                    .iter()
                    .any(|cpu| self.cpus.get(cpu).is_some_and(|cpu| cpu.occupants == 0))
        };
        self.tasks.iter().enumerate().filter(waits).count()
    }

    fn affinity(&self, task: usize, now_ns: u64) -> &CpuMask {
        let task = &self.subject.tasks[task];
        match &task.release {
            Some((at_ns, cpus)) if now_ns >= self.start_ns + at_ns => cpus,
            _ => &task.affinity,
        }
    }

    fn is_ours(&self, task: usize) -> bool {
        self.subject.tasks[task].kind != TraceTaskKind::Other
    }

    fn apply(&mut self, event: TraceEvent) {
        let task = event.task as usize;
        self.leave(task, event.time_ns);
        if self.is_ours(task) {
            self.note_move(task, event);
            self.note_wakeup(task, event);
        }
        let state = &mut self.tasks[task];
        state.state = event.state;
        state.cpu = Some(event.cpu);
        self.enter(task, event.time_ns);
    }

    /// Takes a task off its CPU.
    fn leave(&mut self, task: usize, now_ns: u64) {
        let (ours, state) = (self.is_ours(task), &self.tasks[task]);
        let Some(cpu) = state.cpu.filter(|_| state.state != TaskTraceState::Asleep) else { return };
        let cpu = usize::from(cpu);
        self.cpus[cpu].occupants -= 1;
        self.cpus[cpu].count -= usize::from(ours);
        if let Some(count) = self.group_counts.get_mut(self.group_of[cpu]) {
            *count -= usize::from(ours);
        }
        if self.cpus[cpu].running == Some(task as u32) {
            self.cpus[cpu].running = None;
        }
        if self.cpus[cpu].occupants == 0 {
            self.cpus[cpu].idle_since_ns.get_or_insert(now_ns);
        }
    }

    fn enter(&mut self, task: usize, now_ns: u64) {
        let (ours, state) = (self.is_ours(task), &self.tasks[task]);
        let Some(cpu) = state.cpu.filter(|_| state.state != TaskTraceState::Asleep) else { return };
        let running = state.state == TaskTraceState::Running;
        let group = self.group_of[usize::from(cpu)];
        let cpu = &mut self.cpus[usize::from(cpu)];
        cpu.occupants += 1;
        cpu.count += usize::from(ours);
        if let Some(count) = self.group_counts.get_mut(group) {
            *count += usize::from(ours);
        }
        if running {
            let idle_since = cpu.idle_since_ns.take().filter(|&since| since < now_ns);
            if now_ns >= self.start_ns {
                // To idle, if that was within the window, and from there to the task; or from another task.
                let to_idle = idle_since.is_some_and(|since| since > self.start_ns && cpu.last.is_some());
                let to_task = idle_since.is_some() || cpu.last != Some(task as u32);
                self.sums.switches += u64::from(to_idle) + u64::from(to_task);
            }
            cpu.running = Some(task as u32);
            cpu.last = cpu.running;
        }
    }

    fn note_move(&mut self, task: usize, event: TraceEvent) {
        let state = &self.tasks[task];
        let Some(from) = state.cpu.filter(|&cpu| cpu != event.cpu && event.time_ns >= self.start_ns) else {
            return;
        };
        let across = self.group_of[usize::from(from)] != self.group_of[usize::from(event.cpu)];
        let sums = &mut self.sums;
        let (moves, moves_across) = if state.state == TaskTraceState::Asleep {
            (&mut sums.wakeup_moves, &mut sums.wakeup_moves_across)
        } else {
            (&mut sums.balance_moves, &mut sums.balance_moves_across)
        };
        *moves += 1;
        *moves_across += u64::from(across);
    }

    fn note_wakeup(&mut self, task: usize, event: TraceEvent) {
        let periodic = self.subject.tasks[task].kind == TraceTaskKind::Periodic;
        let state = &mut self.tasks[task];
        let awake = event.state != TaskTraceState::Asleep;
        if awake && !state.seen {
            state.seen = true;
            state.first_event_ns = event.time_ns;
            self.nr_unseen -= 1;
        } else if !awake && state.seen && event.time_ns < self.start_ns {
            // What it did before the start is forgotten.
            state.seen = false;
            self.nr_unseen += 1;
        }
        match (state.state, event.state) {
            (TaskTraceState::Asleep, TaskTraceState::Waiting) if event.time_ns >= self.start_ns => {
                state.woken_ns = Some(event.time_ns);
            }
            (_, TaskTraceState::Running) => {
                if let Some(woken) = state.woken_ns.take() {
                    self.sums.wakeup_to_run_ns.push(event.time_ns - woken);
                }
                state.first_ran.get_or_insert((event.time_ns, event.cpu));
                state.in_burst = true;
            }
            (TaskTraceState::Running | TaskTraceState::Waiting, TaskTraceState::Asleep) => {
                if periodic && event.time_ns >= self.start_ns {
                    self.sums.burst_delays_ns.push(state.burst_wait_ns);
                }
                state.burst_wait_ns = 0;
                state.in_burst = false;
                state.sleeps += u64::from(event.time_ns >= self.start_ns);
                state.ended_ns = event.time_ns;
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Derived {
        if let Some(since) = self.sums.violation_from_ns.take() {
            self.sums.violations_ns.push((since, self.end_ns));
        }
        for cpu in &self.cpus {
            let ended_idle =
                cpu.idle_since_ns.is_some_and(|since| (self.start_ns + 1..self.end_ns).contains(&since));
            self.sums.switches += u64::from(ended_idle && cpu.last.is_some());
        }
        let mut derived = Derived::default();
        self.spreading(&mut derived);
        self.moves(&mut derived);
        self.waiting(&mut derived);
        self.shares(&mut derived);
        self.periodic(&mut derived);
        self.throughput(&mut derived);
        self.forks(&mut derived);
        derived
    }

    fn window_ns(&self) -> f64 {
        (self.end_ns - self.start_ns).max(1) as f64
    }

    fn per_s(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.window_ns()
    }

    fn hogs_only(&self) -> bool {
        let mut ours = self.subject.tasks.iter().filter(|task| task.kind != TraceTaskKind::Other);
        ours.all(|task| task.kind == TraceTaskKind::Hog)
    }

    fn spreading(&self, derived: &mut Derived) {
        let window = self.window_ns();
        derived.push("window_ms", window / NS_PER_MS);
        for (cpu, times) in self.sums.count_ns.iter().enumerate() {
            for (count, &ns) in times {
                derived.push(format!("running_count_share_by_cpu.{cpu}.{count}"), ns as f64 / window);
            }
        }
        for (spread, &ns) in &self.sums.spread_ns {
            derived.push(format!("max_minus_min_running_share.{spread}"), ns as f64 / window);
        }
        derived.push("count_diff_le1_share", within_one(&self.sums.spread_ns) / window);
        if self.hogs_only() {
            derived.push_option("balanced_counts_from_ms", self.since_release_ms(&self.counts_within_one));
        }
        if self.subject.groups.is_empty() {
            return;
        }
        for (group, times) in self.sums.group_count_ns.iter().enumerate() {
            let task_ns: f64 = times.iter().map(|(&count, &ns)| count as f64 * ns as f64).sum();
            derived.push(format!("mean_running_by_group.{group}"), task_ns / window);
            for (count, &ns) in times {
                derived.push(format!("running_count_share_by_group.{group}.{count}"), ns as f64 / window);
            }
        }
        for (spread, &ns) in &self.sums.group_spread_ns {
            derived.push(format!("max_minus_min_group_share.{spread}"), ns as f64 / window);
        }
        derived.push("group_diff_le1_share", within_one(&self.sums.group_spread_ns) / window);
        if self.hogs_only() {
            derived.push_option("balanced_groups_from_ms", self.since_release_ms(&self.groups_within_one));
        }
    }

    fn since_release_ms(&self, steady: &Steady) -> Option<f64> {
        steady.found_ns.map(|found| (found - self.release_ns) as f64 / NS_PER_MS)
    }

    fn moves(&self, derived: &mut Derived) {
        let sums = &self.sums;
        derived.push("migrations_per_s", self.per_s(sums.wakeup_moves + sums.balance_moves));
        derived.push("migrations_wakeup_per_s", self.per_s(sums.wakeup_moves));
        derived.push("migrations_balance_per_s", self.per_s(sums.balance_moves));
        if !self.subject.groups.is_empty() {
            derived.push("migrations_wakeup_across_groups_per_s", self.per_s(sums.wakeup_moves_across));
            derived.push("migrations_balance_across_groups_per_s", self.per_s(sums.balance_moves_across));
        }
        derived.push("switches_per_s", self.per_s(sums.switches));
    }

    fn waiting(&self, derived: &mut Derived) {
        let counted_ns = self.end_ns.saturating_sub(self.release_ns).max(1) as f64;
        let sums = &self.sums;
        derived.push("idle_while_waiting_share", sums.waiting_ns as f64 / counted_ns);
        let cpu_ns = counted_ns * self.subject.nr_cpus as f64;
        derived.push("idle_while_waiting_cpu_share", sums.waiting_cpu_ns as f64 / cpu_ns);
        derived.push("idle_while_other_cpu_has_2_share", sums.two_ns as f64 / counted_ns);
        let lengths_ns = || sums.violations_ns.iter().map(|(from, to)| to - from);
        let longer = |least_ns: u64| lengths_ns().filter(|&length| length > least_ns).count() as f64;
        derived.push("violations", sums.violations_ns.len() as f64);
        derived.push("violations_over_1ms", longer(1_000_000));
        derived.push("violations_over_10ms", longer(10_000_000));
        derived.push("longest_violation_ms", lengths_ns().max().unwrap_or(0) as f64 / NS_PER_MS);
        let mut delays = sums.wakeup_to_run_ns.clone();
        delays.sort_unstable();
        if let Some(&p95) = delays.get(delays.len() * 95 / 100) {
            let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
            derived.push("wakeup_to_run_n", delays.len() as f64);
            derived.push("wakeup_to_run_mean_us", mean / NS_PER_US);
            derived.push("wakeup_to_run_p95_us", p95 as f64 / NS_PER_US);
        }
    }

    /// CPU time over the window by task, of those that `wanted` names.
    fn cpu_shares(&self, wanted: impl Fn(&TraceTask) -> bool) -> Vec<f64> {
        let window = self.window_ns();
        let tasks = self.subject.tasks.iter().zip(&self.tasks).filter(|(task, _)| wanted(task));
        tasks.map(|(_, state)| state.run_ns as f64 / window).collect()
    }

    fn shares(&self, derived: &mut Derived) {
        let ours = self.cpu_shares(|task| !matches!(task.kind, TraceTaskKind::Child | TraceTaskKind::Other));
        let nr_cpus = self.subject.nr_cpus as f64;
        // Children are not among the tasks that the recordings list and sum.
        derived.push("cpu_time_total_over_capacity", ours.iter().sum::<f64>() / nr_cpus);
        let hogs = self.cpu_shares(|task| task.kind == TraceTaskKind::Hog);
        if hogs.is_empty() {
            return;
        }
        if !self.hogs_only() {
            derived.push_spread("hog_cpu_share", &hogs);
            return;
        }
        let everywhere = CpuMask::all(self.subject.nr_cpus);
        let hogs_of = || self.subject.tasks.iter().filter(|task| task.kind == TraceTaskKind::Hog);
        let claims: Vec<Claim<'_>> = hogs_of()
            .map(|task| Claim {
                nice: task.nice,
                group: task.group.as_deref(),
                // A binding that is released does not take a share away for good.
                affinity: if task.release.is_some() { &everywhere } else { &task.affinity },
            })
            .collect();
        let fair = fair_shares(&claims, self.subject.nr_cpus);
        let over_fair: Vec<f64> = hogs.iter().zip(&fair).map(|(share, fair)| share / fair).collect();
        derived.push_spread("fair", &over_fair);
        let mut classes: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (task, &share) in hogs_of().zip(&hogs) {
            let class = task.group.clone().unwrap_or_else(|| format!("nice{}", task.nice));
            classes.entry(class).or_default().push(share);
        }
        for (class, shares) in &classes {
            derived.push_spread(&format!("cpu_share_by_class.{class}"), shares);
        }
    }

    fn periodic(&self, derived: &mut Derived) {
        let shares = self.cpu_shares(|task| task.kind == TraceTaskKind::Periodic);
        if shares.is_empty() {
            return;
        }
        let delays = &self.sums.burst_delays_ns;
        derived.push("periodic_iterations", delays.len() as f64);
        let n = delays.len().max(1) as f64;
        derived.push("periodic_delay_mean_us", delays.iter().sum::<u64>() as f64 / n / NS_PER_US);
        derived.push("periodic_delay_max_us", delays.iter().max().map_or(0.0, |&ns| ns as f64 / NS_PER_US));
        derived.push("periodic_cpu_share_mean", shares.iter().sum::<f64>() / shares.len() as f64);
    }

    /// Rounds of barriers whose waiters sleep (all but the last to come), and rounds of pairs, which count as one message
    /// (the first end sleeps once a round).
    fn throughput(&self, derived: &mut Derived) {
        let mut rounds = None;
        let mut messages = Vec::new();
        for (task, state) in self.subject.tasks.iter().zip(&self.tasks) {
            match task.kind {
                TraceTaskKind::Barrier { n, futex: true } if n > 1 => {
                    *rounds.get_or_insert(0.0) += self.per_s(state.sleeps) / f64::from(n - 1);
                }
                TraceTaskKind::PingPong { first: true } => messages.push(self.per_s(state.sleeps)),
                _ => {}
            }
        }
        if let Some(rounds) = rounds {
            derived.push("barrier_rounds_per_s", rounds);
        }
        if !messages.is_empty() {
            derived.push_spread("messages_per_s", &messages);
        }
    }

    fn forks(&self, derived: &mut Derived) {
        let children = || {
            let tasks = self.subject.tasks.iter().zip(&self.tasks);
            tasks
                .filter(|(task, state)| task.kind == TraceTaskKind::Child && state.seen)
                .map(|(_, state)| state)
        };
        let Some(first_ns) = children().map(|child| child.first_event_ns).min() else { return };
        let n = children().count() as f64;
        let last_ns = children().map(|child| child.ended_ns.max(first_ns)).max().unwrap_or(first_ns);
        let forked_ns = children().map(|child| child.first_event_ns).max().unwrap_or(first_ns);
        derived.push("fork_makespan_ms", (last_ns - first_ns) as f64 / NS_PER_MS);
        derived.push("fork_last_fork_ms", (forked_ns - first_ns) as f64 / NS_PER_MS);
        let mut first_cpus = vec![0_u64; self.subject.nr_cpus];
        let mut to_run_ns = 0;
        let mut turnaround_ns = 0;
        let mut moved = 0;
        for child in children() {
            if let Some((ran_ns, cpu)) = child.first_ran {
                first_cpus[usize::from(cpu)] += 1;
                to_run_ns += ran_ns - child.first_event_ns;
                moved += u64::from(child.cpu != Some(cpu));
            }
            turnaround_ns += child.ended_ns.saturating_sub(child.first_event_ns);
        }
        derived.push("fork_to_run_us_mean", to_run_ns as f64 / n / NS_PER_US);
        derived.push("fork_turnaround_ms_mean", turnaround_ns as f64 / n / NS_PER_MS);
        derived.push("fork_moved_after_first_run", moved as f64);
        for (cpu, &count) in first_cpus.iter().enumerate() {
            derived.push(format!("fork_first_run_cpu_count.{cpu}"), count as f64);
        }
    }
}

/// Largest minus smallest.
fn spread(counts: impl Iterator<Item = usize>) -> usize {
    let (mut low, mut high) = (usize::MAX, 0);
    for count in counts {
        low = low.min(count);
        high = high.max(count);
    }
    high.saturating_sub(low)
}

fn spread_of(counts: &[usize]) -> usize {
    spread(counts.iter().copied())
}

/// Time at a spread of 0 or 1, ns.
fn within_one(spread_ns: &BTreeMap<usize, u64>) -> f64 {
    spread_ns.range(..=1).map(|(_, &ns)| ns).sum::<u64>() as f64
}
