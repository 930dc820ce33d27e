//! A record depends on scenario and seed, not on threads nor on the other seeds.

mod common;

use common::{
    EVERY_KERNEL, big_little, dual_quad, everything, run, scenario, small, two_nodes_smt, uneven_nodes,
};
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::Scenario;
use schedlab_core::topology::MachineSpec;
use schedlab_core::workload::Hackbench;

/// The texts of the records of the seeds 0 to n-1 on some threads.
fn texts(scenario: &Scenario, nr_seeds: u64, threads: usize) -> Vec<String> {
    let seeds: Vec<u64> = (0..nr_seeds).collect();
    let records = run_seeds(scenario, &seeds, threads, &Progress::default()).unwrap();
    records.iter().map(everything).collect()
}

fn threads_and_company_change_nothing(machine: fn() -> MachineSpec) {
    for kernel in EVERY_KERNEL {
        let scenario = scenario(machine(), kernel, Hackbench { loops: 3, ..small() });
        let one = texts(&scenario, 200, 1);
        let two = texts(&scenario, 200, 2);
        let differ = one.iter().zip(&two).position(|(one, two)| one != two);
        assert_eq!(differ, None, "{kernel}: the first seed that differs between one thread and two");
        for seed in [0, 77, 199] {
            let alone = everything(&run(&scenario, &[seed])[0]);
            assert_eq!(alone, one[seed as usize], "{kernel}: seed {seed} alone and among 200");
        }
    }
}

#[test]
fn on_two_last_level_caches() {
    threads_and_company_change_nothing(dual_quad);
}

#[test]
fn on_two_nodes_with_hardware_threads() {
    threads_and_company_change_nothing(two_nodes_smt);
}

#[test]
fn on_cpus_of_two_capacities() {
    threads_and_company_change_nothing(big_little);
}

#[test]
fn on_uneven_nodes() {
    threads_and_company_change_nothing(uneven_nodes);
}

#[test]
fn records_come_in_the_order_of_the_seeds() {
    let scenario = scenario(dual_quad(), "v5.7", small());
    let one_by_one: Vec<String> =
        [9, 2, 5].iter().map(|&seed| everything(&run(&scenario, &[seed])[0])).collect();
    let together = run_seeds(&scenario, &[9, 2, 5], 2, &Progress::default()).unwrap();
    assert_eq!(together.iter().map(everything).collect::<Vec<_>>(), one_by_one);
}

#[test]
fn seeds_and_kernels_differ() {
    let of = |kernel: &str, seed: u64| {
        let work = Hackbench { groups: 4, loops: 40, ..small() };
        everything(&run(&scenario(dual_quad(), kernel, work), &[seed])[0])
    };
    assert_ne!(of("v5.6", 1), of("v5.6", 2));
    assert_ne!(of("v5.6", 1), of("v5.7", 1));
    assert_ne!(of("v5.5", 1), of("v5.6", 1));
}
