//! Throttled queues and idle tasks, looked at while they run.

use super::Sim;
use super::behaviour_tests::dual_quad_under;
use super::event::NEVER;
use super::fair_tests::{KERNELS, hogs, load, running, service_of, setup, step, task, weight};
use super::groups::QueueId;
use super::program::Op;
use super::rq::NO_TASK;
use super::tunables::Features;
use crate::cpumask::CpuMask;
use crate::load_weight::{LoadWeight, NICE_0_LOAD};
use crate::pelt::SchedAvg;
use crate::workload::{BandwidthSpec, GroupSpec, Load};

const MS: u64 = 1_000_000;
const TICK: u64 = MS;
const ENDLESS: u64 = 1 << 50;

/// Hogs of one group that may run for so much of every 100 ms, and one that does nothing but start them.
fn limited_hogs(nr_hogs: usize, quota_ns: u64) -> Load {
    let mut load = hogs(&vec![0; nr_hogs + 1], ENDLESS);
    load.ops[1] = Op::Sleep { ns: ENDLESS, spread_permille: 0 };
    for task in &mut load.tasks[1..] {
        task.group = 1;
    }
    let bandwidth = Some(BandwidthSpec { quota_ns, period_ns: 100 * MS, burst_ns: 0 });
    load.groups = vec![GroupSpec { shares: NICE_0_LOAD, bandwidth, ..GroupSpec::default() }];
    load
}

/// A step of the run, of a timer or of a CPU.
fn any_step<'a>(sim: &mut Sim<'a>, setup: &'a super::Setup) {
    let (time, _) = sim.events.first();
    match sim.timers.peek() {
        Some(&std::cmp::Reverse((timer, id))) if timer <= time => {
            sim.timers.pop();
            sim.now = timer;
            sim.timer(setup, id);
            sim.check_invariants().expect("what must hold");
        }
        _ if time < NEVER => step(sim),
        _ => panic!("nothing is left to do"),
    }
}

#[test]
fn signals_of_a_throttled_queue_stand_still_and_go_on_where_they_stood() {
    for kernel in KERNELS {
        let setup = setup(kernel, 1, Features::default(), limited_hogs(2, 30 * MS));
        let mut sim = running(&setup, 0);
        let queue = QueueId { cpu: 0, group: 1 };
        let end = sim.now + 3_000 * MS;
        let mut stood: Option<SchedAvg> = None;
        let mut throttlings = 0;
        while sim.now < end {
            any_step(&mut sim, &setup);
            // Ageing now must change nothing that is throttled.
            sim.update_rq_clock(0);
            sim.update_cfs_rq_load_avg(queue);
            let below = &sim.groups.queues[sim.groups.index(queue)];
            let avg = below.cfs.avg;
            if below.bandwidth.throttled {
                throttlings += u32::from(stood.is_none());
                assert_eq!(avg, *stood.get_or_insert(avg), "{}", kernel);
                assert_eq!((sim.rqs[0].curr, sim.rqs[0].cfs.h_nr_running), (NO_TASK, 0));
                assert!(sim.stats.idle[0], "a CPU with throttled tasks only is idle");
            } else {
                stood = None;
            }
        }
        assert!(throttlings >= 28, "{}: {throttlings} in 30 periods", kernel);
        // By its own clock the group always ran; by that of the CPU it ran for 30 % of the time.
        let group = sim.groups.queues[sim.groups.index(queue)].cfs.avg.util_avg;
        assert!(group > 1000, "{}: the group's utilization is {group}", kernel);
        assert!(sim.rqs[0].cfs.avg.util_avg < 900, "{}: {:?}", kernel, sim.rqs[0].cfs.avg);
    }
}

#[test]
fn runtime_that_queues_leave_over_goes_to_one_that_is_throttled_before_the_period_is_over() {
    for kernel in KERNELS {
        // Slices are 20 ms of 70: three tasks have one each and the hog what is left, 10 ms. They sleep after 12 ms and keep
        // 1 ms: 21 ms go back, more than a slice, and the hog gets them 5 ms later.
        let mut load = limited_hogs(4, 70 * MS);
        let program = load.ops.len() as u32;
        load.ops.extend([
            Op::Compute { ns: 12 * MS, spread_permille: 0 },
            Op::Sleep { ns: 88 * MS, spread_permille: 0 },
            Op::Jump { to: program },
        ]);
        for cpu in 0..4 {
            load.tasks[1 + cpu].allowed = Some(CpuMask::from_cpus(4, [cpu]));
            if cpu > 0 {
                load.tasks[1 + cpu].program = program;
            }
        }
        let mut setup = setup(kernel, 4, Features::default(), load);
        setup.tunables.cfs_bandwidth_slice_ns = 20 * MS;
        let mut sim = running(&setup, 0);
        let index = sim.groups.index(QueueId { cpu: 0, group: 1 });
        let end = sim.now + 5_000 * MS;
        let (mut was_throttled, mut early) = (false, 0);
        while sim.now < end {
            any_step(&mut sim, &setup);
            let throttled = sim.groups.queues[index].bandwidth.throttled;
            if was_throttled && !throttled {
                let next_ns = sim.groups.groups[1].bandwidth.as_ref().expect("a quota").period_expires_ns;
                early += u32::from(next_ns - sim.now < 99 * MS);
            }
            was_throttled = throttled;
        }
        assert!(early > 10, "{}: {early} times in 50 periods", kernel);
    }
}

#[test]
fn a_sched_idle_hog_gets_three_parts_beside_a_thousand_and_twenty_four() {
    for kernel in KERNELS {
        let mut load = hogs(&[0, 0], ENDLESS);
        load.tasks[1].idle = true;
        load.tasks[1].weight = LoadWeight::idle_policy();
        let service = service_of(kernel, load, 10_000 * MS);
        let share = (service[0] + service[1]) * 3 / 1027;
        // A slice of the latency of one CPU, 6 ms at most, ends at the tick after it.
        let error = service[1].abs_diff(share);
        assert!(error <= 6 * MS + TICK, "{}: {service:?}, its share is {share}", kernel);
    }
}

#[test]
fn a_waking_task_takes_the_cpu_from_sched_idle_tasks_at_once_and_they_from_nobody() {
    for kernel in KERNELS {
        let wakes = |idle_runs: bool| {
            // A hog, and a task that wakes every 30 ms for 100 us.
            let mut load = hogs(&[0, 0], ENDLESS);
            load.ops[1] = Op::Sleep { ns: ENDLESS, spread_permille: 0 };
            let program = load.ops.len() as u32;
            load.ops.extend([
                Op::Compute { ns: MS / 10, spread_permille: 0 },
                Op::Sleep { ns: 30 * MS, spread_permille: 0 },
                Op::Jump { to: program },
            ]);
            let mut waker = task(program, 2, 0);
            let idle = if idle_runs { &mut load.tasks[1] } else { &mut waker };
            (idle.idle, idle.weight) = (true, LoadWeight::idle_policy());
            load.tasks.push(waker);
            load.ops[0] = Op::Fork { first: 1, count: 2, gap_ns: 0 };
            let setup = setup(kernel, 1, Features::default(), load);
            let mut sim = running(&setup, 0);
            let end = sim.now + 3_000 * MS;
            while sim.now < end {
                any_step(&mut sim, &setup);
                assert!(!sim.stats.sched_idle[0] || sim.rqs[0].curr != 2 || !idle_runs);
            }
            sim.record.metrics.preemptions_wakeup
        };
        let (of_idle, by_idle) = (wakes(true), wakes(false));
        assert!(of_idle >= 95, "{}: {of_idle} of about 99 wake-ups preempt", kernel);
        assert_eq!(by_idle, 0, "{}", kernel);
    }
}

#[test]
fn a_cpu_with_sched_idle_tasks_only_is_sched_idle_until_another_task_comes() {
    let mut load =
        load(vec![task(0, 0, 0)], vec![Op::Compute { ns: ENDLESS, spread_permille: 0 }], Vec::new());
    assert_eq!(load.tasks[0].weight.weight, weight(0).weight);
    (load.tasks[0].idle, load.tasks[0].weight) = (true, LoadWeight::idle_policy());
    let setup = setup("v5.7", 1, Features::default(), load);
    let sim = running(&setup, 10 * MS);
    assert!(sim.stats.sched_idle[0] && !sim.stats.idle[0]);
    assert_eq!((sim.rqs[0].cfs.h_nr_running, sim.rqs[0].cfs.idle_h_nr_running), (1, 1));
}

#[test]
fn a_cpu_left_with_sched_idle_tasks_balances_at_its_next_tick_where_it_does_not_count_as_busy() {
    for kernel in KERNELS {
        // Two CPUs; on the first a SCHED_IDLE hog, and a task that runs for 5 ms and sleeps.
        let mut load = hogs(&[0, 0, 0], ENDLESS);
        load.ops[1] = Op::Sleep { ns: ENDLESS, spread_permille: 0 };
        let program = load.ops.len() as u32;
        load.ops.extend([
            Op::Compute { ns: 5 * MS, spread_permille: 0 },
            Op::Sleep { ns: 50 * MS, spread_permille: 0 },
            Op::Jump { to: program },
        ]);
        load.tasks[2].program = program;
        (load.tasks[1].idle, load.tasks[1].weight) = (true, LoadWeight::idle_policy());
        for task in &mut load.tasks[1..] {
            task.allowed = Some(CpuMask::from_cpus(2, [0]));
        }
        let setup = setup(kernel, 2, Features::default(), load);
        let mut sim = running(&setup, 0);
        let end = sim.now + 2_000 * MS;
        let (mut left, mut early) = (0, 0);
        while sim.now < end {
            let before = sim.rqs[0].cfs.h_nr_running;
            any_step(&mut sim, &setup);
            if before == 2 && sim.stats.sched_idle[0] {
                left += 1;
                early += u32::from(sim.rqs[0].next_balance <= sim.jiffies());
            }
        }
        assert!(left >= 30, "{kernel}: left {left} times");
        if sim.balance_rules.sched_idle_is_busy {
            assert!(early < left / 2, "{kernel}: {early} of {left}");
        } else {
            assert_eq!(early, left, "{kernel}");
        }
    }
}

#[test]
fn a_new_task_goes_to_a_sched_idle_cpu_at_once_or_if_no_cpu_idles() {
    for kernel in KERNELS {
        let setup = dual_quad_under(kernel, 1);
        let place = |idle_cpu: bool| {
            let mut sim = Sim::at_rest(&setup);
            let cache =
                sim.topo.groups.iter().position(|group| group.weight == 4).expect("a cache of four CPUs");
            for cpu in 0..8 {
                sim.stats.sched_idle[cpu] = cpu % 4 == 1;
                sim.stats.idle[cpu] = cpu % 4 == 3 && idle_cpu;
            }
            sim.find_idlest_group_cpu(cache, 0, 0) % 4
        };
        let beside_an_idle_one = if kernel == "v5.4" { 3 } else { 1 };
        assert_eq!((place(true), place(false)), (beside_an_idle_one, 1), "{kernel}");
    }
}
