//! Whole queues at work: fairness, lag over migration, delayed dequeue, preemption by shorter slices.

use proptest::prelude::*;

use super::event::NEVER;
use super::fair::Why;
use super::program::Op;
use super::rq::{NO_TASK, TaskId, TaskState};
use super::tunables::{Features, TunableSettings};
use super::{Setup, Sim};
use crate::kernels::Kernel;
use crate::kernels::eevdf::clock_of;
use crate::load_weight::{LoadWeight, scale_load};
use crate::pelt::PeltTable;
use crate::sim::channel::ChannelKind;
use crate::sim::cost::CostModel;
use crate::topology::{DomainRules, MachineSpec, build_sched_domains};
use crate::workload::hackbench::{Ipc, Mode};
use crate::workload::{GroupSpec, Hackbench, Load, TaskSpec};

/// The kernels with a fair queue.
pub(super) const KERNELS: [&str; 6] = ["v5.4", "v5.5", "v5.6", "v5.7", "v5.10", "v6.12"];
const MS: u64 = 1_000_000;
const TICK: u64 = MS;
/// More work than any test waits for.
const ENDLESS: u64 = 1 << 50;

#[test]
fn hogs_of_any_nice_get_their_share_within_a_slice() {
    for nices in [vec![0, 0, 0], vec![0, 5, -5, 10], vec![-20, 19, 0, 1], vec![3; 10]] {
        for (kernel, slice_ns) in [("v5.7", 6 * MS), ("v6.12", MS)] {
            let service = service_of_hogs(kernel, &nices, 3_000 * MS);
            let total: u64 = service.iter().sum();
            let weights: Vec<u64> = nices.iter().map(|&nice| weight(nice).weight).collect();
            for (got, weight) in service.iter().zip(&weights) {
                let share = u128::from(total) * u128::from(*weight) / u128::from(weights.iter().sum::<u64>());
                // A slice ends at the tick after it, and the span measured may begin and end within one.
                let error = u128::from(*got).abs_diff(share);
                assert!(
                    error <= u128::from(2 * (slice_ns + TICK)),
                    "{kernel} {nices:?}: {got} ns of {total}, its share is {share}"
                );
            }
        }
    }
}

#[test]
fn groups_get_cpu_time_by_shares_and_their_tasks_by_weight() {
    // Tasks as (group, nice); groups as (parent, shares).
    type Case<'a> = (&'a [(u16, i32)], &'a [(u16, u32)]);
    let cases: [Case<'_>; 5] = [
        (&[(1, 0), (1, 0), (1, 0), (2, 0)], &[(0, 1024), (0, 1024)]),
        (&[(0, 0), (1, 0), (1, 5), (2, -5)], &[(0, 2048), (0, 512)]),
        (&[(0, 3), (1, 0), (2, 0), (2, 4), (3, 0), (3, 0)], &[(0, 1024), (1, 512), (2, 3000)]),
        (&[(2, 0), (1, 19), (1, -10)], &[(0, 300), (0, 100_000)]),
        (&[(3, 0), (3, 5), (3, -5), (2, 1), (1, -2), (0, 0)], &[(0, 1024), (1, 700), (2, 2048)]),
    ];
    for (tasks, groups) in cases {
        for kernel in KERNELS {
            let slice_ns = if kernel == "v6.12" { 3 * MS } else { 6 * MS };
            let nices: Vec<i32> = tasks.iter().map(|&(_, nice)| nice).collect();
            let mut load = hogs(&nices, ENDLESS);
            for (task, &(group, _)) in load.tasks.iter_mut().zip(tasks) {
                task.group = group;
            }
            load.groups = groups.iter().map(group_spec).collect();
            let service = service_of(kernel, load, 10_000 * MS);
            let total: u64 = service.iter().sum();
            for (task, got) in service.iter().enumerate() {
                let share = share_of(task, tasks, groups) * total as f64;
                let error = (*got as f64 - share).abs();
                let levels = groups.len() as u64 + 1;
                assert!(
                    error <= (2 * levels * (slice_ns + TICK)) as f64,
                    "{kernel} {tasks:?} {groups:?}: task {task} got {got} of {total}, its share is {share}"
                );
            }
        }
    }
}

fn group_spec(&(parent, shares): &(u16, u32)) -> GroupSpec {
    GroupSpec { parent, shares: scale_load(shares), ..GroupSpec::default() }
}

/// A hog's part of a CPU: its weight among what is beside it, times its group's part.
fn share_of(task: usize, tasks: &[(u16, i32)], groups: &[(u16, u32)]) -> f64 {
    let busy = |group: usize| -> bool {
        let mut marked = vec![false; groups.len() + 1];
        for &(mut at, _) in tasks {
            while at != 0 {
                marked[usize::from(at)] = true;
                at = groups[usize::from(at) - 1].0;
            }
        }
        marked[group]
    };
    let total = |parent: u16| -> f64 {
        let of_tasks =
            tasks.iter().filter(|&&(group, _)| group == parent).map(|&(_, nice)| weight(nice).weight);
        let of_groups =
            groups.iter().enumerate().filter(|&(at, &(above, _))| above == parent && busy(at + 1));
        of_tasks.chain(of_groups.map(|(_, &(_, shares))| scale_load(shares))).sum::<u64>() as f64
    };
    let (mut group, nice) = tasks[task];
    let mut share = weight(nice).weight as f64 / total(group);
    while group != 0 {
        let (parent, shares) = groups[usize::from(group) - 1];
        share *= scale_load(shares) as f64 / total(parent);
        group = parent;
    }
    share
}

#[test]
fn a_task_that_moves_keeps_its_lag_and_what_is_left_of_its_request() {
    let setup = setup("v6.12", 2, Features::default(), hogs(&[0, 0, 5, -3, 0, 0, 1], ENDLESS));
    let mut sim = running(&setup, 40 * MS);
    let mut moved = 0;
    for task in 0..sim.tasks.len() as TaskId {
        let src = usize::from(sim.tasks[task as usize].cpu);
        let dst = 1 - src;
        if sim.rqs[src].curr == task || sim.rqs[src].cfs.nr_running < 2 {
            continue;
        }
        sim.update_rq_clock(src);
        sim.update_rq_clock(dst);
        sim.update_curr(src);
        // Another slice from now on, as by sched_setattr(): only the next request is to have it.
        let se = &mut sim.tasks[task as usize].se;
        se.custom_slice = true;
        se.slice_ns = 7 * MS;
        let left = se.deadline.wrapping_sub(se.vruntime);
        sim.dequeue_task(src, task, Why::Move);
        sim.detach_entity(src, task);
        sim.tasks[task as usize].cpu = dst as u16;
        let lag = sim.tasks[task as usize].se.vlag;
        sim.enqueue_task(dst, task, Why::Move);
        let se = &sim.tasks[task as usize].se;
        assert_eq!(se.deadline.wrapping_sub(se.vruntime), left);
        let average = clock_of(&sim.rqs[dst].cfs, sim.entities()).avg_vruntime();
        let now = average.wrapping_sub(se.vruntime) as i64;
        // The lag is stretched by the weights in whole numbers, and the average is rounded down.
        assert!((now - lag).abs() <= 2, "task {task}: lag {lag} before, {now} after");
        moved += i32::from(lag != 0);
    }
    assert!(moved > 3, "{moved} tasks moved");
}

#[test]
fn a_task_that_owes_time_stays_queued_in_its_sleep_if_the_feature_is_on() {
    for (delay_dequeue, delay_zero) in [(true, true), (true, false), (false, true)] {
        let features = Features { delay_dequeue, delay_zero, ..Features::default() };
        let setup = setup("v6.12", 2, features, hackbench(1, 50));
        let mut delayed = vec![false; setup.load.tasks.len()];
        let (mut left, mut owed, mut woken) = (0, 0, 0);
        each_event(&setup, |sim| {
            for (task, was) in sim.tasks.iter().zip(&mut delayed) {
                if *was && !task.se.sched_delayed {
                    let slept_on = task.state == TaskState::Sleeping;
                    left += i32::from(slept_on);
                    owed += i32::from(slept_on && task.se.vlag > 0);
                    woken += i32::from(task.state == TaskState::Runnable);
                }
                *was = task.se.sched_delayed;
                assert!(!*was || task.se.on_rq);
            }
        });
        assert_eq!(left > 0 && woken > 0, delay_dequeue, "{left} left, {woken} woken");
        // An entity is picked once it is eligible again, most often with a little to spare.
        assert_eq!(owed > 0, delay_dequeue && !delay_zero, "{owed} of {left} were owed something");
    }
}

#[test]
fn a_waking_task_of_shorter_slice_preempts_unless_the_slice_of_the_running_one_is_protected() {
    let preemptions = |preempt_short, run_to_parity| {
        let features = Features { preempt_short, run_to_parity, ..Features::default() };
        let mut load = ping_pong(100);
        for task in &mut load.tasks {
            task.slice_ns = Some(20 * MS);
        }
        load.tasks[1].slice_ns = Some(MS / 10);
        let setup = setup("v6.12", 1, features, load);
        each_event(&setup, |_| {}).record.metrics.preemptions_wakeup
    };
    let protected = preemptions(false, true);
    let (short, unprotected) = (preemptions(true, true), preemptions(false, false));
    assert!(short > protected + 20, "{short} wake-ups preempt with PREEMPT_SHORT, {protected} without");
    assert!(
        unprotected > protected + 20,
        "{protected} wake-ups preempt with RUN_TO_PARITY, {unprotected} without"
    );
}

#[test]
fn a_slice_is_protected_until_its_request_is_served_and_then_only_after_another_task_ran() {
    let setup = setup("v6.12", 1, Features::default(), hogs(&[-10, 5, 0], ENDLESS));
    let mut sim = running(&setup, 100 * MS);
    let end = sim.now + 1_000 * MS;
    let (mut picked, mut renewed) = (0, 0);
    while sim.now < end {
        let before = sim.rqs[0].curr;
        let (deadline, was_protected) = {
            let se = &sim.tasks[before as usize].se;
            (se.deadline, se.slice_protected)
        };
        step(&mut sim);
        let curr = sim.rqs[0].curr;
        let se = &sim.tasks[curr as usize].se;
        if curr != before {
            assert!(se.slice_protected);
            picked += 1;
        } else if se.deadline != deadline {
            assert!(!se.slice_protected);
            renewed += 1;
        } else {
            assert_eq!(se.slice_protected, was_protected);
        }
    }
    assert!(picked > 50 && renewed > 50, "{picked} tasks picked, {renewed} requests renewed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the features, the machine, the slices and the groups: no invariant breaks, every message arrives, a seed repeats.
    #[test]
    fn any_features_run_to_the_end(bits: u16, nr_cpus in 1_usize..5, slices in prop::collection::vec(prop::option::of(100_000_u64..30_000_000), 8), kernel in 0_usize..3, shares in prop::collection::vec((0_u16..4, 2_u32..20_000), 0..5)) {
        let kernel = ["v5.4", "v5.7", "v6.12"][kernel];
        let mut features = Features::default();
        for (bit, &(name, ..)) in Features::TABLE.iter().enumerate() {
            features.set(name, bits >> bit & 1 != 0).expect("a feature of the table");
        }
        let mut load = hackbench(1, 3);
        for (task, slice_ns) in load.tasks.iter_mut().zip(slices) {
            task.slice_ns = slice_ns;
        }
        // Groups in groups, with tasks on every level.
        load.groups = shares
            .iter()
            .enumerate()
            .map(|(at, &(parent, shares))| group_spec(&(parent.min(at as u16), shares)))
            .collect();
        for (id, task) in load.tasks.iter_mut().enumerate() {
            task.group = (id % (shares.len() + 1)) as u16;
        }
        let setup = setup(kernel, nr_cpus, features, load);
        let first = each_event(&setup, |_| {});
        prop_assert_eq!(first.record.metrics.messages, 20 * 20 * 3);
        let again = each_event(&setup, |_| {});
        prop_assert_eq!(first.now, again.now);
        prop_assert_eq!(first.record.metrics.context_switches, again.record.metrics.context_switches);
    }
}

/// CPU time of each hog on one CPU in the time that the first needs for `work_ns`.
fn service_of_hogs(kernel: &str, nices: &[i32], span_ns: u64) -> Vec<u64> {
    service_of(kernel, hogs(nices, ENDLESS), span_ns)
}

/// CPU time of each task of a load on one CPU in a span.
pub(super) fn service_of(kernel: &str, load: Load, span_ns: u64) -> Vec<u64> {
    let setup = setup(kernel, 1, Features::default(), load);
    let service = |sim: &mut Sim<'_>| {
        sim.update_rq_clock(0);
        sim.update_curr(0);
        sim.tasks.iter().map(|task| task.se.sum_exec_runtime).collect::<Vec<_>>()
    };
    // Long enough for all to have been forked and to have run.
    let mut sim = running(&setup, 500 * MS);
    let before = service(&mut sim);
    let end = sim.now + span_ns;
    while sim.now < end {
        step(&mut sim);
    }
    let after = service(&mut sim);
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

/// Tasks that compute for ever, of these nice levels; the first one forks the others.
pub(super) fn hogs(nices: &[i32], work_ns: u64) -> Load {
    let ops = vec![
        Op::Fork { first: 1, count: nices.len() as u32 - 1, gap_ns: 0 },
        Op::Compute { ns: work_ns, spread_permille: 0 },
        Op::ClockStop,
        Op::Compute { ns: work_ns, spread_permille: 0 },
        Op::Exit,
    ];
    let tasks =
        nices.iter().enumerate().map(|(id, &nice)| task(if id == 0 { 0 } else { 3 }, id, nice)).collect();
    load(tasks, ops, Vec::new())
}

/// A writer that computes between messages, a reader, and a hog beside them, all forked by main.
fn ping_pong(messages: u32) -> Load {
    let mut ops = vec![
        Op::Fork { first: 1, count: 3, gap_ns: 0 },
        Op::ClockStart,
        Op::Reap { children: 2 },
        Op::ClockStop,
        // The reader.
        Op::Read { channel: 0, messages },
        Op::Exit,
        // The hog.
        Op::Compute { ns: ENDLESS, spread_permille: 0 },
        Op::Exit,
    ];
    let writer = ops.len() as u32;
    for message in 0..messages {
        ops.push(Op::Compute { ns: MS / 3 * u64::from(message % 7), spread_permille: 0 });
        ops.push(Op::Write { first: 0, count: 1, rounds: 1 });
    }
    ops.push(Op::Exit);
    let tasks = vec![task(0, 0, 0), task(4, 1, 0), task(6, 2, 0), task(writer, 3, 0)];
    load(tasks, ops, vec![ChannelKind::Pipe])
}

fn hackbench(groups: u32, loops: u32) -> Load {
    let (senders, receivers) = (20, 20);
    Hackbench {
        groups,
        loops,
        ipc: Ipc::Pipe,
        mode: Mode::Process,
        senders,
        receivers,
        bytes: 100,
        cgroup: false,
    }
    .load()
}

pub(super) fn task(program: u32, id: usize, nice: i32) -> TaskSpec {
    TaskSpec { mm: id as u32, ..TaskSpec::new(program, weight(nice)) }
}

pub(super) fn weight(nice: i32) -> LoadWeight {
    LoadWeight::from_nice(nice).expect("a nice level")
}

pub(super) fn setup(kernel: &str, nr_cpus: usize, features: Features, load: Load) -> Setup {
    let machine = MachineSpec::uniform("plain", nr_cpus);
    let rules = DomainRules::for_kernel(kernel).expect("a kernel with domains");
    let tunables = TunableSettings { hz: Some(1000), ..TunableSettings::default() }.resolve(nr_cpus);
    Setup {
        plugged: Vec::new(),
        domains: build_sched_domains(&machine, rules).expect("domains"),
        machine,
        kernel: *Kernel::named(kernel).expect("a kernel"),
        features,
        pelt_table: PeltTable::new(tunables.pelt_half_life_ms).expect("a half-life"),
        tunables,
        cost: CostModel::default(),
        load,
    }
}

/// A run, `span_ns` after its start.
pub(super) fn running(setup: &Setup, span_ns: u64) -> Sim<'_> {
    let mut sim = Sim::new(setup, 1);
    sim.start(setup, 1);
    let end = sim.now + span_ns;
    while sim.now < end {
        step(&mut sim);
    }
    sim
}

/// A run to its end, looked at after every event.
pub(super) fn each_event<'a>(setup: &'a Setup, mut look: impl FnMut(&Sim<'_>)) -> Sim<'a> {
    let mut sim = Sim::new(setup, 1);
    sim.start(setup, 1);
    while !sim.stopped {
        step(&mut sim);
        look(&sim);
    }
    sim
}

pub(super) fn step(sim: &mut Sim<'_>) {
    let (time, cpu) = sim.events.first();
    assert!(time < NEVER, "nothing is left to do, but {} tasks are", sim.tasks.len());
    sim.now = time;
    sim.handle(cpu);
    sim.check_invariants().expect("what must hold");
    debug_assert!(sim.rqs[cpu].curr == NO_TASK || sim.tasks[sim.rqs[cpu].curr as usize].se.on_rq);
}

pub(super) fn load(tasks: Vec<TaskSpec>, ops: Vec<Op>, channels: Vec<ChannelKind>) -> Load {
    let (barriers, actions) = (Vec::new(), Vec::new());
    Load {
        tasks,
        groups: Vec::new(),
        regions: Vec::new(),
        ops,
        channels: channels.into_iter().map(|kind| (kind, 100)).collect(),
        barriers,
        actions,
        accounted: false,
    }
}
