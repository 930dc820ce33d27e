//! Tests of what the mechanism does around decisions: small situations set up by hand, and what follows from them.
//!
//! The expected numbers are the kernel's: defaults of v5.7 for eight CPUs (latency 24 ms, wake-up granularity 4 ms,
//! 250 ticks a second) and the rules of the functions that a test names.

use super::fair::Why;
use super::nohz::KickWork;
use super::program::{Op, Phase};
use super::rq::{Interrupt, NO_TASK, TaskId, TaskState};
use super::tunables::TunableSettings;
use super::{Setup, Sim};
use crate::cpumask::CpuMask;
use crate::load_weight::LoadWeight;
use crate::scenario::{KernelSpec, Scenario, WorkloadSpec};
use crate::sim::cost::CostModel;
use crate::topology::MachineSpec;
use crate::workload::hackbench::{Ipc, Mode};
use crate::workload::{Hackbench, Load, TaskSpec};

const MS: u64 = 1_000_000;

/// A scenario's setup whose load is some tasks that do nothing but compute, more than any test waits for.
fn setup_with(machine: MachineSpec, kernel: KernelSpec, nices: &[i32]) -> Setup {
    let hackbench = Hackbench {
        groups: 1,
        loops: 1,
        ipc: Ipc::Pipe,
        mode: Mode::Thread,
        senders: 1,
        receivers: 1,
        bytes: 1,
        cgroup: false,
    };
    let costs = CostModel { tick_skew_ns: 0, ..CostModel::default() };
    let scenario = Scenario { machine, costs, kernel, workload: WorkloadSpec::Hackbench(hackbench) };
    let mut setup = scenario.setup().expect("the scenario is good");
    let task = |&nice: &i32| TaskSpec::new(0, LoadWeight::from_nice(nice).expect("a nice value"));
    setup.load = Load {
        regions: Vec::new(),
        tasks: nices.iter().map(task).collect(),
        groups: vec![],
        ops: vec![Op::Exit],
        channels: vec![],
        barriers: vec![],
        actions: vec![],
        accounted: false,
    };
    setup
}

/// Two last-level caches of four CPUs each; `nr_tasks` tasks of nice 0.
fn dual_quad(nr_tasks: usize) -> Setup {
    dual_quad_under("v5.7", nr_tasks)
}

/// The same under another kernel.
pub(super) fn dual_quad_under(kernel: &str, nr_tasks: usize) -> Setup {
    let llc: Vec<u32> = (0..8).map(|cpu| cpu / 4).collect();
    let machine = MachineSpec {
        arch: "arm64".to_owned(),
        cluster: llc.clone(),
        llc,
        ..MachineSpec::uniform("dual-quad", 8)
    };
    setup_with(machine, KernelSpec { name: kernel.to_owned(), ..KernelSpec::default() }, &vec![0; nr_tasks])
}

impl<'a> Sim<'a> {
    /// The setup's machine at rest and its tasks, none of them forked.
    pub(super) fn at_rest(setup: &'a Setup) -> Self {
        let mut sim = Self::new(setup, 0);
        for (id, spec) in setup.load.tasks.iter().enumerate() {
            let mut task = super::start::new_task(id, spec, sim.pelt_form, 0, sim.now);
            task.program.phase = Phase::Work;
            task.remaining_ns = 1 << 40;
            sim.tasks.push(task);
        }
        sim
    }

    /// Puts a new task into a CPU's queue, without a word to the CPU.
    fn put(&mut self, cpu: usize, task: TaskId) {
        let this = &mut self.tasks[task as usize];
        this.state = TaskState::Runnable;
        (this.cpu, this.last_run_cpu, this.recent_used_cpu) = (cpu as u16, cpu as u16, cpu as u16);
        self.update_rq_clock(cpu);
        self.attach_new_task(cpu, task);
        self.enqueue_task(cpu, task, Why::Move);
    }

    /// Lets a CPU run a new task.
    fn run_on(&mut self, cpu: usize, task: TaskId) {
        self.put(cpu, task);
        self.this_cpu = cpu;
        if self.rqs[cpu].curr == NO_TASK {
            self.schedule(cpu);
            self.charge_overhead(cpu);
            self.arm(cpu);
        }
    }

    /// A task that ran on a CPU and sleeps.
    fn sleep_on(&mut self, cpu: usize, task: TaskId) {
        self.put(cpu, task);
        self.dequeue_task(cpu, task, Why::Sleep);
        self.tasks[task as usize].state = TaskState::Sleeping;
    }

    /// Handles everything that is due within a span, and calls `look` after each event.
    fn advance(&mut self, span_ns: u64, mut look: impl FnMut(&Self)) {
        let end = self.now + span_ns;
        loop {
            let (time, cpu) = self.events.first();
            if time > end {
                break;
            }
            self.now = time;
            self.handle(cpu);
            look(self);
        }
        self.now = end;
    }

    fn nr_running(&self) -> Vec<u32> {
        self.rqs.iter().map(|rq| rq.cfs.nr_running).collect()
    }

    fn ran_ns(&self, task: TaskId) -> u64 {
        self.tasks[task as usize].se.sum_exec_runtime
    }
}

/// Task 0 runs on CPU 0 and wakes task 1, which slept on CPU 4: the CPU that it is sent to.
fn woken_from_the_other_cache(flips: [u32; 2], sync: bool) -> usize {
    let setup = dual_quad(2);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(0, 0);
    sim.sleep_on(4, 1);
    sim.tasks[0].wakee_flips = flips[0];
    sim.tasks[1].wakee_flips = flips[1];
    sim.tasks[0].last_wakee = 1;
    // No second has passed since the flips were last halved.
    sim.tasks[0].wakee_flip_decay_ts = sim.jiffies();
    sim.this_cpu = 0;
    assert!(sim.try_to_wake_up(0, 0, 1, sync));
    usize::from(sim.tasks[1].cpu)
}

#[test]
fn a_lone_waker_that_will_sleep_draws_its_wakee_to_its_cache() {
    // wake_affine_idle(): sync and alone, so CPU 0 is the target; it is busy, and CPU 1 is the next idle one.
    assert_eq!(woken_from_the_other_cache([0, 0], true), 1);
}

#[test]
fn without_the_hint_an_idle_previous_cpu_wins() {
    // wake_affine_weight(): the waker's load stays on CPU 0, and nothing is on CPU 4.
    assert_eq!(woken_from_the_other_cache([0, 0], false), 4);
}

#[test]
fn a_wakee_of_one_who_wakes_many_stays_where_it_was() {
    // wake_wide() of an LLC of four: at least 4 flips, and the other at least four times as many.
    assert_eq!(woken_from_the_other_cache([16, 4], true), 4);
    assert_eq!(woken_from_the_other_cache([4, 16], true), 4);
    assert_eq!(woken_from_the_other_cache([15, 4], true), 1);
    assert_eq!(woken_from_the_other_cache([16, 3], true), 1);
}

#[test]
fn changes_of_partner_are_counted_and_halved_after_a_second() {
    let setup = dual_quad(3);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(0, 0);
    sim.sleep_on(1, 1);
    sim.sleep_on(2, 2);
    let wake = |sim: &mut Sim<'_>, task: TaskId| {
        sim.this_cpu = 0;
        assert!(sim.try_to_wake_up(0, 0, task, false));
        let cpu = usize::from(sim.tasks[task as usize].cpu);
        sim.dequeue_task(cpu, task, Why::Sleep);
        sim.tasks[task as usize].state = TaskState::Sleeping;
        sim.tasks[0].wakee_flips
    };
    // The mark of the last decay starts at 0, long ago: the first wake-up moves it.
    let flips: Vec<u32> = [1, 1, 2, 1, 2, 2].iter().map(|&task| wake(&mut sim, task)).collect();
    assert_eq!(flips, [1, 1, 2, 3, 4, 4]);
    sim.now += 1001 * MS + 4 * MS;
    assert_eq!(wake(&mut sim, 2), 2);
    assert_eq!(wake(&mut sim, 1), 3);
}

/// Task 0, perhaps a kernel thread bound to CPU 0, runs there and wakes task 1, which ran there before: where it goes.
fn woken_by_a_kernel_thread(kernel: &str, kthread: bool, by_interrupt: bool) -> usize {
    let setup = dual_quad_under(kernel, 2);
    let mut sim = Sim::at_rest(&setup);
    sim.tasks[0].kthread = kthread;
    sim.tasks[0].allowed = Some(Box::new(CpuMask::from_cpus(8, [0])));
    sim.run_on(0, 0);
    sim.sleep_on(0, 1);
    // It has slept for so long that its dequeue is over.
    sim.tasks[1].se.sched_delayed = false;
    sim.this_cpu = 0;
    sim.in_interrupt = by_interrupt;
    assert!(sim.try_to_wake_up(0, 0, 1, false));
    usize::from(sim.tasks[1].cpu)
}

#[test]
fn a_kernel_thread_bound_to_a_cpu_leaves_its_wakee_there() {
    // select_idle_sibling() from 5.5 on; with others, the next idle CPU of the cache is as good.
    assert_eq!(woken_by_a_kernel_thread("v5.7", true, false), 0);
    assert_ne!(woken_by_a_kernel_thread("v5.7", false, false), 0);
    assert_ne!(woken_by_a_kernel_thread("v5.4", true, false), 0);
    // v6.12 asks whether the thread itself wakes, or an interrupt on top of it.
    assert_eq!(woken_by_a_kernel_thread("v6.12", true, false), 0);
    assert_ne!(woken_by_a_kernel_thread("v6.12", true, true), 0);
    assert_eq!(woken_by_a_kernel_thread("v5.7", true, true), 0);
}

/// Whether the task that runs on CPU 0, where `waiting` others wait, goes elsewhere at its exec.
fn leaves_at_exec(kernel: &str, waiting: u32) -> bool {
    let setup = dual_quad_under(kernel, 3);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(0, 0);
    (1..=waiting).for_each(|task| sim.put(0, task));
    let target = sim.sched_exec(0, 0);
    let Some(target) = target else { return false };
    sim.pause_step(0);
    sim.tasks[0].remaining_ns = 7 * MS;
    sim.exec_on(0, target);
    assert_eq!((usize::from(sim.tasks[0].cpu), sim.tasks[0].remaining_ns), (target, 7 * MS));
    assert_eq!((sim.rqs[0].cfs.nr_running, sim.rqs[target].cfs.nr_running), (waiting, 1));
    assert_ne!(sim.rqs[0].curr, 0);
    assert_eq!(sim.record.metrics.migrations_exec, 1);
    true
}

#[test]
fn a_task_that_executes_another_program_leaves_a_queue_for_an_idle_cpu() {
    for kernel in ["v5.4", "v5.5", "v5.6", "v5.7", "v5.10", "v6.12"] {
        assert!(!leaves_at_exec(kernel, 0), "{kernel}: without it its own CPU would idle, too");
        assert!(leaves_at_exec(kernel, 1), "{kernel}");
        assert!(leaves_at_exec(kernel, 2), "{kernel}");
    }
}

#[test]
fn a_waking_task_that_is_awake_is_left_alone() {
    let setup = dual_quad(2);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(0, 0);
    sim.run_on(1, 1);
    assert!(!sim.try_to_wake_up(0, 0, 1, true));
    assert_eq!(sim.record.metrics.wakeups, 0);
}

#[test]
fn the_cpu_used_before_the_last_one_is_tried_before_the_search() {
    // select_idle_sibling(): target 0 and previous CPU 1 are busy; CPU 3 is idle and was used before.
    // The search from the target on would find CPU 2.
    let setup = dual_quad(4);
    let mut sim = Sim::at_rest(&setup);
    sim.sleep_on(1, 3);
    sim.run_on(0, 0);
    sim.run_on(1, 1);
    sim.tasks[3].recent_used_cpu = 3;
    sim.this_cpu = 0;
    assert!(sim.try_to_wake_up(0, 0, 3, true));
    assert_eq!((sim.tasks[3].cpu, sim.tasks[3].recent_used_cpu), (3, 1));
    // The waker remembers where it was when it woke somebody.
    assert_eq!(sim.tasks[0].recent_used_cpu, 0);

    let mut sim = Sim::at_rest(&setup);
    sim.sleep_on(1, 3);
    sim.run_on(0, 0);
    sim.run_on(1, 1);
    sim.tasks[3].recent_used_cpu = 5;
    sim.this_cpu = 0;
    assert!(sim.try_to_wake_up(0, 0, 3, true));
    assert_eq!(sim.tasks[3].cpu, 2, "a CPU of another cache is not worth it");
}

#[test]
fn a_cpu_of_another_cache_fetches_the_task_when_the_interrupt_arrives() {
    let setup = dual_quad(2);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(0, 0);
    sim.sleep_on(4, 1);
    sim.this_cpu = 0;
    sim.try_to_wake_up(0, 0, 1, false);
    assert_eq!(sim.tasks[1].state, TaskState::Waking);
    assert!(!sim.stats.idle[4], "a task is on its way");
    let latency = sim.cost.ipi_ns + sim.cost.idle_exit_ns;
    sim.advance(latency - 1, |_| ());
    assert_eq!(sim.tasks[1].state, TaskState::Waking);
    sim.advance(1, |_| ());
    assert_eq!((sim.tasks[1].state, sim.rqs[4].curr), (TaskState::Runnable, 1));
}

/// A task that slept wakes on the busy CPU 0: whether it runs at once.
fn preempts(ran_ns: u64, features: &[(&str, bool)]) -> bool {
    let features = features.iter().map(|&(name, on)| (name.to_owned(), on)).collect();
    let kernel = KernelSpec { name: "v5.7".to_owned(), features, ..KernelSpec::default() };
    let setup = setup_with(MachineSpec::uniform("one", 1), kernel, &[0, 0]);
    let mut sim = Sim::at_rest(&setup);
    sim.sleep_on(0, 1);
    sim.run_on(0, 0);
    sim.advance(ran_ns, |_| ());
    sim.this_cpu = 0;
    sim.try_to_wake_up(0, NO_TASK, 1, false);
    assert_eq!(sim.rqs[0].need_resched, sim.record.metrics.preemptions_wakeup == 1);
    sim.rqs[0].need_resched
}

#[test]
fn a_sleeper_preempts_if_it_is_a_granularity_behind() {
    // One CPU: wakeup_granularity 1 ms, latency 6 ms. What ran since is the lead, up to half a latency.
    assert!(!preempts(MS, &[]));
    assert!(preempts(MS + 100_000, &[]));
    assert!(preempts(100 * MS, &[]));
    assert!(!preempts(100 * MS, &[("WAKEUP_PREEMPTION", false)]));
}

#[test]
fn a_sleeper_gets_credit_for_half_a_latency_or_a_whole_one() {
    let lag = |gentle: bool| {
        let features = [("GENTLE_FAIR_SLEEPERS".to_owned(), gentle)].into();
        let kernel = KernelSpec { name: "v5.7".to_owned(), features, ..KernelSpec::default() };
        let setup = setup_with(MachineSpec::uniform("one", 1), kernel, &[0, 0]);
        let mut sim = Sim::at_rest(&setup);
        sim.sleep_on(0, 1);
        sim.run_on(0, 0);
        sim.advance(100 * MS, |_| ());
        sim.this_cpu = 0;
        sim.try_to_wake_up(0, NO_TASK, 1, false);
        sim.rqs[0].cfs.min_vruntime.wrapping_sub(sim.tasks[1].se.vruntime)
    };
    // min_vruntime follows the woken task, never back: the lag is seen against the time before.
    assert_eq!(lag(true), 3 * MS);
    assert_eq!(lag(false), 6 * MS);
}

#[test]
fn two_equal_tasks_share_a_cpu_by_ticks() {
    let kernel = KernelSpec { name: "v5.7".to_owned(), ..KernelSpec::default() };
    let setup = setup_with(MachineSpec::uniform("one", 1), kernel, &[0, 0]);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(0, 0);
    sim.run_on(0, 1);
    sim.advance(1000 * MS, |_| ());
    // A slice is 3 ms, half of the latency, and ends at the first tick after it: every 4 ms.
    assert!((248..=250).contains(&sim.record.metrics.preemptions_tick), "{:?}", sim.record.metrics);
    assert!(sim.ran_ns(0).abs_diff(sim.ran_ns(1)) <= 8 * MS);
    // sched_info_depart() adds what a task ran when it leaves the CPU: all but the last one's slice.
    let [.., rq_cpu_time, _, _] = sim.record.cpus[0].values();
    assert!((996 * MS..=1000 * MS).contains(&rq_cpu_time), "{rq_cpu_time} ns");
}

#[test]
fn weights_share_a_cpu() {
    let tunables = TunableSettings { hz: Some(1000), ..TunableSettings::default() };
    let kernel = KernelSpec { name: "v5.7".to_owned(), tunables, ..KernelSpec::default() };
    let setup = setup_with(MachineSpec::uniform("one", 1), kernel, &[0, 5]);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(0, 0);
    sim.run_on(0, 1);
    sim.advance(10_000 * MS, |_| ());
    // nice 5 weighs 335 against 1,024: 24.65 per cent, to within a slice and a tick.
    let expected = 10_000 * MS * 335 / (1024 + 335);
    assert!(sim.ran_ns(1).abs_diff(expected) < 8 * MS, "{} and not {expected} ns", sim.ran_ns(1));
}

#[test]
fn a_busy_cpu_kicks_the_first_tickless_one_if_two_tasks_are_there() {
    let kick_after_a_tick = |tasks: &[usize]| {
        let setup = dual_quad(tasks.len());
        let mut sim = Sim::at_rest(&setup);
        for (task, &cpu) in tasks.iter().enumerate() {
            sim.run_on(cpu, task as TaskId);
        }
        let mut kicked = None;
        sim.advance(4 * MS, |sim| {
            kicked = kicked.or_else(|| {
                let cpu = sim.rqs.iter().position(|rq| {
                    rq.pending.iter().any(|&(_, interrupt)| interrupt == Interrupt::NohzKick)
                })?;
                Some((cpu, sim.nohz.kicked?))
            });
        });
        kicked
    };
    // nohz_balancer_kick(): a lone task on a machine at rest is no reason.
    assert_eq!(kick_after_a_tick(&[5]), None);
    assert_eq!(kick_after_a_tick(&[5, 5]), Some((0, KickWork::Balance)));
    assert_eq!(kick_after_a_tick(&[0, 0]), Some((1, KickWork::Balance)));
    // nr_busy_cpus: two busy CPUs of one cache might find room in another one.
    assert_eq!(kick_after_a_tick(&[4, 5]), Some((0, KickWork::Balance)));
    assert_eq!(kick_after_a_tick(&[0, 4]), None);
}

#[test]
fn where_cpus_differ_only_a_task_that_is_too_big_is_reason_to_kick() {
    let kicked = |cpus: [usize; 2], util: u32| {
        let llc: Vec<u32> = (0..8).map(|cpu| cpu / 4).collect();
        let capacity = llc.iter().map(|&llc| if llc == 0 { 446 } else { 1024 }).collect();
        let machine = MachineSpec {
            arch: "arm64".to_owned(),
            cluster: llc.clone(),
            llc,
            capacity,
            ..MachineSpec::uniform("big-little", 8)
        };
        let kernel = KernelSpec { name: "v5.7".to_owned(), ..KernelSpec::default() };
        let setup = setup_with(machine, kernel, &[0, 0]);
        let mut sim = Sim::at_rest(&setup);
        for (task, cpu) in cpus.into_iter().enumerate() {
            sim.run_on(cpu, task as TaskId);
            let avg = &mut sim.tasks[task].se.avg;
            // LOAD_AVG_MAX: all of a signal that is full.
            (avg.util_avg, avg.util_sum) = (u64::from(util), util * 47_742);
        }
        let mut kicked = false;
        sim.advance(4 * MS, |sim| kicked |= sim.nohz.kicked == Some(KickWork::Balance));
        kicked
    };
    // A fifth of room: 446 * 4 / 5 = 356. Two busy CPUs of a cache are no reason of their own.
    assert!(!kicked([0, 1], 250));
    assert!(kicked([0, 1], 400));
    // On the biggest CPU a task is as well off as it can be.
    assert!(!kicked([4, 5], 1000));
}

#[test]
fn waiting_tasks_are_pulled_on_behalf_of_tickless_cpus() {
    let setup = dual_quad(8);
    let mut sim = Sim::at_rest(&setup);
    for task in 0..8 {
        sim.run_on(0, task);
    }
    sim.advance(100 * MS, |_| ());
    assert_eq!(sim.nr_running(), [1; 8]);
    let metrics = &sim.record.metrics;
    // Seven have to move; some move on, from a CPU that took half of all. The busy CPU's tick only kicks.
    assert!(metrics.migrations_idle >= 7, "{metrics:?}");
    assert_eq!((metrics.migrations_busy, metrics.migrations_newidle, metrics.migrations_active), (0, 0, 0));
}

#[test]
fn running_tasks_are_pushed_to_an_idle_cache_after_four_failures() {
    // One task on each CPU of a cache: nothing waits, but DIE prefers its siblings even. The pull fails until
    // nr_balance_failed exceeds cache_nice_tries + 2; then the stopper pushes. Four to none become two to two.
    let setup = dual_quad(4);
    let mut sim = Sim::at_rest(&setup);
    for cpu in 0..4 {
        sim.run_on(cpu, cpu as TaskId);
    }
    let tries = sim.topo.per_cpu[4][1].cache_nice_tries;
    let mut failed_before_push = None;
    sim.advance(3000 * MS, |sim| {
        let failed: u64 = sim.record.domains.iter().map(|levels| levels[1].lb_failed[0]).sum();
        if sim.record.metrics.migrations_active == 1 {
            failed_before_push.get_or_insert(failed);
        }
    });
    assert!(failed_before_push.is_some_and(|failed| failed > u64::from(tries) + 2), "{failed_before_push:?}");
    let by_cache: Vec<u32> = sim.nr_running().chunks(4).map(|cpus| cpus.iter().sum()).collect();
    assert_eq!(by_cache, [2, 2]);
    assert_eq!(sim.record.metrics.migrations_active, 2);
    assert_eq!(sim.record.metrics.migrations_idle, 0);
}

#[test]
fn affinity_that_stops_a_pull_marks_the_group_for_the_level_above() {
    // CPU 0 has two tasks that may run nowhere else: CPU 1 cannot pull, and sets its parent's sgc->imbalance.
    let setup = dual_quad(3);
    let mut sim = Sim::at_rest(&setup);
    let mut only = CpuMask::new(8);
    only.set(0);
    for task in 0..2 {
        sim.tasks[task].allowed = Some(Box::new(only.clone()));
    }
    let group = sim.topo.groups[sim.topo.per_cpu[0][1].ring[0]].sgc;
    sim.run_on(0, 0);
    sim.run_on(0, 1);
    let mut marked = false;
    sim.advance(50 * MS, |sim| marked |= sim.sgc_imbalance[group]);
    assert!(marked);
    assert_eq!(sim.nr_running(), [2, 0, 0, 0, 0, 0, 0, 0]);
    // A pass that finds the level below in balance takes the mark back.
    for task in 0..2 {
        sim.tasks[task].allowed = None;
    }
    sim.advance(500 * MS, |_| ());
    assert_eq!(sim.nr_running().iter().max(), Some(&1));
    assert!(!sim.sgc_imbalance[group]);
}

#[test]
fn a_task_that_may_not_come_here_goes_to_another_cpu_of_the_group() {
    // LBF_DST_PINNED: CPU 4 is kicked first for its cache but the task may use CPU 6 only.
    let setup = dual_quad(2);
    let mut sim = Sim::at_rest(&setup);
    let mut allowed = CpuMask::new(8);
    allowed.set(0);
    allowed.set(6);
    for task in 0..2 {
        sim.tasks[task].allowed = Some(Box::new(allowed.clone()));
    }
    sim.run_on(0, 0);
    sim.run_on(0, 1);
    sim.advance(100 * MS, |_| ());
    assert_eq!(sim.nr_running(), [1, 0, 0, 0, 0, 0, 1, 0]);
}

#[test]
fn balance_intervals_double_up_to_twice_the_span_and_are_stretched_on_busy_cpus() {
    let setup = dual_quad(8);
    let mut sim = Sim::at_rest(&setup);
    for cpu in 0..8 {
        sim.run_on(cpu, cpu as TaskId);
    }
    let mut passes = [vec![], vec![]];
    sim.advance(4000 * MS, |sim| {
        for (level, passes) in passes.iter_mut().enumerate() {
            let last = sim.sds[0][level].last_balance;
            if passes.last() != Some(&last) {
                passes.push(last);
            }
        }
    });
    // The span in ms at first, twice the span when all is in balance; times the busy factor, in jiffies of 4 ms.
    for (level, span) in [(0, 4), (1, 8)] {
        let sd = &sim.topo.per_cpu[0][level];
        assert_eq!((sd.min_interval_ms, sd.max_interval_ms, sd.busy_factor), (span, 2 * span, 32));
        assert_eq!(sim.sds[0][level].balance_interval_ms, 2 * span);
        let gaps: Vec<u64> = passes[level].windows(2).map(|pair| pair[1] - pair[0]).skip(1).collect();
        let expected = 2 * span * 32 / 4;
        assert!(gaps.len() > 3 && gaps.iter().all(|&gap| gap == expected), "level {level}: {gaps:?}");
    }
    // The higher level is for the first CPU of each group only: should_we_balance().
    let balanced = |cpu: usize| sim.record.domains[cpu][1].lb_count[1];
    assert!(balanced(0) > 0);
}

#[test]
fn an_idle_cpu_stops_its_tick_after_a_whole_one() {
    let setup = dual_quad(1);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(3, 0);
    sim.advance(10 * MS, |_| ());
    assert!(!sim.nohz.idle_cpus.test(3));
    sim.this_cpu = 3;
    sim.pause_step(3);
    sim.block(3, 0, TaskState::Sleeping, Why::Sleep);
    sim.arm(3);
    assert_eq!(sim.rqs[3].curr, NO_TASK);
    assert!(!sim.nohz.idle_cpus.test(3), "the tick goes on for a while");
    sim.advance(8 * MS, |_| ());
    assert!(sim.nohz.idle_cpus.test(3));
    assert_eq!((sim.nohz.nr_cpus, sim.nr_busy_cpus[0]), (8, 0));
    // What is left of its load decays although nothing happens there, by kicks of others only: none runs.
    assert!(sim.nohz.has_blocked);
}

#[test]
fn a_slow_cpu_takes_longer_and_its_signals_know() {
    let machine = MachineSpec { capacity: vec![1024, 512], ..MachineSpec::uniform("two speeds", 2) };
    let machine = MachineSpec { llc: vec![0, 1], cluster: vec![0, 1], arch: "arm64".to_owned(), ..machine };
    let kernel = KernelSpec { name: "v5.7".to_owned(), ..KernelSpec::default() };
    let setup = setup_with(machine, kernel, &[0, 0]);
    let mut sim = Sim::at_rest(&setup);
    sim.run_on(0, 0);
    sim.run_on(1, 1);
    let full = sim.tasks[0].remaining_ns;
    sim.advance(2000 * MS, |_| ());
    let work_ms = |sim: &mut Sim<'_>, cpu: usize| {
        sim.pause_step(cpu);
        let curr = sim.rqs[cpu].curr;
        (full - sim.tasks[curr as usize].remaining_ns) / MS
    };
    assert_eq!(sim.nr_running(), [1, 1]);
    assert_eq!((sim.tasks[0].cpu, sim.tasks[1].cpu), (0, 1));
    // 2,000 ms at full and at half speed, less a few ticks' overhead.
    assert!((1_980..=2_000).contains(&work_ms(&mut sim, 0)));
    assert!((980..=1_000).contains(&work_ms(&mut sim, 1)));
    // Both never idle, and PELT's clock runs with the CPU's speed: each is all used up by its own measure.
    for cpu in 0..2 {
        assert!((1000..=1024).contains(&sim.rqs[cpu].cfs.avg.util_avg), "{:?}", sim.rqs[cpu].cfs.avg);
    }
    let lag_ns = |cpu: usize| sim.rqs[cpu].clock - sim.rqs[cpu].clock_pelt;
    assert_eq!(lag_ns(0), 0);
    assert!(lag_ns(1).abs_diff(1000 * MS) < 8 * MS, "{} ns", lag_ns(1));
}

#[test]
fn a_cpu_that_will_not_idle_for_long_looks_for_work_only_where_it_may_find_it_at_little_cost() {
    // sched_balance_newidle(): CPU 1 will idle for 100 us, less than the migration cost of 500 us.
    let pulls = |kernel: &str, level_cost_ns: u64| {
        let setup = dual_quad_under(kernel, 3);
        let mut sim = Sim::at_rest(&setup);
        (0..3).for_each(|task| sim.run_on(0, task));
        sim.rqs[1].avg_idle = 100_000;
        sim.sds[1][0].max_newidle_lb_cost = level_cost_ns;
        sim.this_cpu = 1;
        sim.update_rq_clock(1);
        sim.newidle_balance(1)
    };
    assert!(!pulls("v5.7", 0));
    assert!(pulls("v6.12", 0));
    assert!(!pulls("v6.12", 100_001));
}

#[test]
fn a_busy_cache_shortens_the_search_for_an_idle_cpu() {
    // update_idle_cpu_scan(): four CPUs fully used leave nothing to look at.
    let setup = dual_quad_under("v6.12", 8);
    let mut sim = Sim::at_rest(&setup);
    assert_eq!((sim.nr_idle_scan[0], sim.nr_idle_scan[4]), (4, 4));
    (0..8).for_each(|cpu| sim.run_on(cpu, cpu as TaskId));
    sim.advance(1_000 * MS, |_| ());
    assert_eq!((sim.nr_idle_scan[0], sim.nr_idle_scan[4]), (0, 0));
}

#[test]
fn the_load_that_is_balanced_counts_sleepers_or_not() {
    let loads = |kernel: &str| {
        let setup = dual_quad_under(kernel, 1);
        let mut sim = Sim::at_rest(&setup);
        sim.run_on(0, 0);
        sim.advance(20 * MS, |_| ());
        let awake = sim.stats.load[0];
        sim.update_rq_clock(0);
        sim.dequeue_task(0, 0, Why::Sleep);
        (awake, sim.stats.load[0])
    };
    let (awake, asleep) = loads("v5.5");
    assert!(awake > 900 && asleep == awake, "{awake} {asleep}");
    let (awake, asleep) = loads("v5.4");
    // What is left is rounding: the queue's sum and the task's are rounded apart.
    assert!(awake > 900 && asleep <= 1, "{awake} {asleep}");
}
