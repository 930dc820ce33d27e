//! Every vector of NUMA placement and of the O(1) scheduler, replayed: no difference is allowed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use schedlab_core::verify::{Check, numa};

#[test]
fn task_numa_find_cpu() {
    for family in numa::FAMILIES {
        replay(family, numa::check, 4000);
    }
}

fn replay(family: &str, check: Check, cases: usize) {
    let lines = lines(family);
    assert_eq!(lines.len(), cases, "{family}");
    let failures: Vec<String> = lines.iter().filter_map(|line| check(family, line).err()).collect();
    let first = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{family}: {} of {} fail\n{first}", failures.len(), lines.len());
}

fn lines(family: &str) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/balance");
    let file = File::open(folder.join(format!("{family}.jsonl.gz"))).unwrap();
    BufReader::new(GzDecoder::new(file)).lines().map(Result::unwrap).collect()
}
