//! hackbench ends, and whatever is sent is read: on every machine, kernel, kind of channel and of task.

mod common;

use common::{
    EVERY_KERNEL, big_little, children, dual_quad, messages, run, scenario, small, two_nodes_smt,
    uneven_nodes,
};
use schedlab_core::record::Record;
use schedlab_core::topology::MachineSpec;
use schedlab_core::workload::Hackbench;
use schedlab_core::workload::hackbench::{Ipc, Mode};

/// A run counts the messages that were read while the clock ran, and ends when main has reaped every child.
#[track_caller]
fn complete(record: &Record, work: &Hackbench, of: &str) {
    let metrics = &record.metrics;
    assert_eq!(metrics.messages, messages(work), "{of}: messages read");
    assert_eq!(metrics.forks, children(work), "{of}: tasks forked");
    assert!(metrics.time_ns > 0 && metrics.time_ns < metrics.simulated_ns, "{of}: {metrics:?}");
}

#[track_caller]
fn completes(machine: MachineSpec, kernel: &str, work: &Hackbench) -> Record {
    let name = machine.name.clone();
    let record = run(&scenario(machine, kernel, work.clone()), &[3]).remove(0);
    complete(&record, work, &format!("{name}, {kernel}, {work:?}"));
    record
}

#[test]
fn pipes_and_sockets_of_processes_and_threads() {
    for machine in [dual_quad, two_nodes_smt, big_little, uneven_nodes] {
        for kernel in EVERY_KERNEL {
            for ipc in [Ipc::Pipe, Ipc::Socket] {
                for mode in [Mode::Process, Mode::Thread] {
                    completes(machine(), kernel, &Hackbench { ipc, mode, ..small() });
                }
            }
        }
    }
}

#[test]
fn one_group_to_sixteen() {
    for kernel in EVERY_KERNEL {
        for groups in [1, 2, 4, 8, 16] {
            completes(
                dual_quad(),
                kernel,
                &Hackbench { groups, loops: 4, senders: 20, receivers: 20, ..small() },
            );
        }
    }
}

#[test]
fn odd_numbers_of_senders_and_receivers() {
    for ipc in [Ipc::Pipe, Ipc::Socket] {
        for (senders, receivers) in [(1, 1), (1, 7), (7, 1), (13, 2), (2, 13)] {
            let work = Hackbench { groups: 3, loops: 7, ipc, senders, receivers, ..small() };
            completes(two_nodes_smt(), "v5.7", &work);
        }
    }
}

#[test]
fn messages_of_any_length_that_is_allowed() {
    for ipc in [Ipc::Pipe, Ipc::Socket] {
        for bytes in [1, 64, 1365, 2048, 2049, 4096] {
            // Enough to fill each channel more than once with the longest.
            completes(dual_quad(), "v5.6", &Hackbench { ipc, bytes, loops: 40, ..small() });
        }
    }
}

#[test]
fn a_single_cpu_is_enough() {
    for kernel in EVERY_KERNEL {
        let record = completes(MachineSpec::uniform("one", 1), kernel, &small());
        let metrics = &record.metrics;
        assert_eq!(metrics.migrations_wakeup + metrics.migrations_newidle + metrics.migrations_idle, 0);
        assert_eq!(metrics.wakeups_local, metrics.wakeups);
    }
}

#[test]
fn offline_and_isolated_cpus_run_nothing() {
    for kernel in EVERY_KERNEL {
        let machine = MachineSpec { offline: vec![1], isolated: vec![0, 6], ..dual_quad() };
        let work = Hackbench { groups: 4, ..small() };
        let scenario = scenario(machine, kernel, work);
        // The first task starts on a CPU drawn by the seed: many seeds meet every CPU.
        for (seed, record) in run(&scenario, &(0..20).collect::<Vec<_>>()).iter().enumerate() {
            for cpu in [0, 1, 6] {
                let [.., ran_ns, _, switched_to] = record.cpus[cpu].values();
                assert_eq!((ran_ns, switched_to), (0, 0), "{kernel}, seed {seed}, CPU {cpu}");
            }
        }
    }
}

/// kernel/sched/fair.c, v5.7, select_idle_smt() looks at the sibling threads without asking for the domain's span; v5.10
/// mended that.
#[test]
fn an_isolated_thread_of_a_core_in_use_still_gets_tasks() {
    let machine = MachineSpec { isolated: vec![1], ..two_nodes_smt() };
    let records = run(&scenario(machine, "v5.7", Hackbench { groups: 4, ..small() }), &[0, 1, 2, 3]);
    let switches = records.iter().map(|record| {
        let [.., switched_to] = record.cpus[1].values();
        switched_to
    });
    assert!(switches.sum::<u64>() > 0);
}

#[test]
fn a_run_begins_with_its_first_fork() {
    let setup_ns = |mode: Mode, seed: u64| {
        let scenario = scenario(dual_quad(), "v5.7", Hackbench { mode, ..small() });
        let record = &run(&scenario, &[seed])[0];
        record.metrics.simulated_ns - record.metrics.time_ns
    };
    // The clock starts when the last of twelve children is ready: 12 us each for a thread, 60 us for a process, give or
    // take 15 per cent, and some wake-ups. Where in a tick the run began makes no difference.
    for seed in 0..8 {
        let (thread_ns, process_ns) = (setup_ns(Mode::Thread, seed), setup_ns(Mode::Process, seed));
        assert!((12 * 10_200..12 * 13_800 + 50_000).contains(&thread_ns), "seed {seed}: {thread_ns} ns");
        assert!((12 * 51_000..12 * 69_000 + 50_000).contains(&process_ns), "seed {seed}: {process_ns} ns");
    }
}
