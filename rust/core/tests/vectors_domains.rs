//! Replays every recorded machine through the domain builder.

mod common;

use common::vectors::{cases, replay};
use schedlab_core::verify::domains::{FAMILIES, check};

#[test]
fn every_recorded_machine_gets_the_domains_of_its_kernel() {
    let counts = [
        ("domains-5.10", 28),
        ("domains-6.1", 70),
        ("domains-6.1-arm64", 7),
        ("domains-6.12", 71),
        ("domains-6.12-arm64", 7),
        ("domains-7.3", 28),
    ];
    assert_eq!(counts.len(), FAMILIES.len());
    for (family, count) in counts {
        replay("domains", family, check, count);
    }
}

/// Alters one number or name of the truth at a time: each must be noticed, and the machine named.
#[test]
fn an_altered_vector_fails() {
    let line = cases("domains", "domains-6.12")
        .into_iter()
        .find(|line| line.contains("\"name\":\"n8_hypercube_smt\""))
        .expect("the hypercube is recorded");
    check("domains-6.12", &line).expect("unaltered, it passes");
    let truth = line.find("\"truth\"").expect("a truth");
    let (before, truth) = line.split_at(truth);
    for (old, new) in [
        ("\"imbalance_pct\":117", "\"imbalance_pct\":118"),
        ("\"busy_factor\":16", "\"busy_factor\":17"),
        ("\"cache_nice_tries\":2", "\"cache_nice_tries\":1"),
        ("\"min_interval\":4,", "\"min_interval\":5,"),
        ("\"level\":2", "\"level\":3"),
        ("\"SD_SERIALIZE\"", "\"SD_CLUSTER\""),
        ("\"name\":\"MC\"", "\"name\":\"PKG\""),
        ("\"id\":4,", "\"id\":5,"),
        ("\"mask\":[", "\"mask\":[31,"),
        ("\"span\":[0,1,2,3]", "\"span\":[0,1,2]"),
    ] {
        let altered = truth.replacen(old, new, 1);
        assert_ne!(altered, truth, "{old} does not occur");
        let error = check("domains-6.12", &format!("{before}{altered}")).expect_err(new);
        assert!(error.contains("n8_hypercube_smt"), "{error}");
    }
}

/// Broken vectors are failures with words, not panics.
#[test]
fn a_broken_vector_fails() {
    let line = cases("domains", "domains-5.10").swap_remove(0);
    let broken = [
        ("domains-5.10", "{}".to_owned()),
        ("domains-5.10", line.chars().take(1000).collect()),
        ("domains-5.10", line.replacen("\"n_cpus\":16", "\"n_cpus\":99999999999999", 1)),
        ("domains-5.10", line.replacen("\"n_cpus\":16", "\"n_cpus\":0", 1)),
        ("domains-5.10", line.replacen("\"offline\":[]", "\"offline\":[99]", 1)),
        ("domains-9.9", line.clone()),
    ];
    for (family, text) in broken {
        assert_ne!((family, &text), ("domains-5.10", &line), "nothing was broken");
        assert!(check(family, &text).expect_err("broken").starts_with(family));
    }
}
