//! Everything that three small runs record, to the last count: work on speed must leave it alone.
//!
//! A change that means to alter what runs do rewrites the texts, and its author reads the difference:
//!
//!     SCHEDLAB_UPDATE_GOLDEN=1 cargo test -p schedlab-core --test golden

mod common;

use std::fs;
use std::path::PathBuf;

use common::{big_little, dual_quad, everything, run, scenario, small, two_nodes_smt};
use schedlab_core::scenario::Scenario;
use schedlab_core::workload::Hackbench;
use schedlab_core::workload::hackbench::{Ipc, Mode};

/// Compares the text of seed 1 with the one stored under a name.
#[track_caller]
fn golden(name: &str, scenario: &Scenario) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    let found = everything(&run(scenario, &[1])[0]);
    if std::env::var_os("SCHEDLAB_UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).expect("the golden text can be written");
        return;
    }
    let stored = fs::read_to_string(&path).expect("there is a golden text");
    for (line, (stored, found)) in stored.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, stored, "{name}.txt, line {}", line + 1);
    }
    assert_eq!(found, stored, "{name}.txt");
}

#[test]
fn sockets_of_processes_on_two_last_level_caches_v5_7() {
    let work = Hackbench { groups: 4, loops: 20, senders: 10, receivers: 10, ..small() };
    golden("dual-quad-v5.7", &scenario(dual_quad(), "v5.7", work));
}

#[test]
fn pipes_of_threads_on_two_nodes_with_hardware_threads_v5_6() {
    let work = Hackbench { groups: 3, loops: 60, ipc: Ipc::Pipe, mode: Mode::Thread, ..small() };
    golden("two-nodes-smt-v5.6", &scenario(two_nodes_smt(), "v5.6", work));
}

#[test]
fn pipes_of_processes_on_cpus_of_two_capacities_v5_5() {
    let mut slow_ticks = scenario(big_little(), "v5.5", Hackbench { groups: 5, ipc: Ipc::Pipe, ..small() });
    slow_ticks.kernel.tunables.hz = Some(1000);
    slow_ticks.kernel.tunables.pelt_half_life_ms = Some(8);
    golden("big-little-v5.5", &slow_ticks);
}
