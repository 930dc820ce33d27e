//! Every vector of NUMA placement and of the O(1) scheduler, replayed: no difference is allowed.

mod common;

use common::vectors::{alter_answers, cases, read, replay};
use schedlab_core::verify::{Check, check_lines, numa, o1};
use serde_json::Value;

#[test]
fn task_numa_find_cpu() {
    for family in numa::FAMILIES {
        replay("balance", family, numa::check, 4000);
    }
}

#[test]
fn o1_groups_and_queues() {
    replay("balance", "o1-v2.6.15", o1::check, 3000);
    replay("balance", "o1-v2.6.16-mm-smpnice", o1::check, 3000);
}

#[test]
fn smpnice_facts() {
    let text = read("arithmetic/smpnice_2_6.json");
    let report = check_lines("smpnice_2_6.json", &text);
    assert_eq!((report.modelled, report.cases, report.failed), (true, 40, 0), "{report:?}");
    for fact in ["\"bias_mm_feb2006\": 40", "\"timeslice_jiffies_hz250\": 200", "\"nice\": -20"] {
        let fact = if text.contains(fact) { fact.to_owned() } else { fact.replace(": ", ":") };
        let altered = text.replacen(&fact, &format!("{fact}1"), 1);
        assert_ne!(altered, text, "{fact}");
        assert_eq!(check_lines("smpnice_2_6.json", &altered).failed, 1, "{fact}");
    }
}

#[test]
fn an_altered_answer_fails() {
    let numa = numa::FAMILIES.iter().map(|&family| (family, numa::check as Check));
    let o1 = o1::FAMILIES.iter().map(|&family| (family, o1::check as Check));
    for (family, check) in numa.chain(o1).filter(|&(family, _)| family != "smpnice_2_6") {
        // In the first case with a rival's claim that is an input beside the answers.
        let cases = cases("balance", family);
        let case = cases.iter().filter(|case| !case.contains("race_on")).nth(7).unwrap();
        assert!(alter_answers(family, check, case) >= 5, "{family}");
    }
}

/// Inputs that decide, altered, change the answers.
#[test]
fn an_altered_input_fails() {
    for (family, check, pointer) in [
        ("numa-v5.6", numa::check as Check, "/p/load"),
        ("numa-v5.7", numa::check, "/p/tw/1"),
        ("numa-v6.12", numa::check, "/imb_numa_nr"),
        ("o1-v2.6.15", o1::check, "/pct"),
        ("o1-v2.6.16-mm-smpnice", o1::check, "/bias/0"),
    ] {
        let mut failures = 0;
        for line in cases("balance", family) {
            let mut case: Value = serde_json::from_str(&line).unwrap();
            let number = case.pointer_mut(pointer).unwrap();
            *number = (number.as_u64().unwrap() * 3 / 2 + 2).into();
            failures += usize::from(check(family, &case.to_string()).is_err());
        }
        assert!(failures > 100, "{family} {pointer}: {failures}");
    }
}

#[test]
fn what_is_no_case_fails() {
    assert!(numa::check("numa-v5.7", "{").unwrap_err().contains("not JSON"));
    assert!(numa::check("numa-v5.7", "{\"id\": 3}").unwrap_err().starts_with("id 3: no answer"));
    let line = &cases("balance", "numa-v5.7")[0];
    assert!(numa::check("numa-v9", line).unwrap_err().contains("must be one of"));
    assert!(o1::check("o1-v9", &cases("balance", "o1-v2.6.15")[0]).unwrap_err().contains("must be one of"));
    assert!(o1::check("smpnice_2_6", "{\"nice\": 0}").unwrap_err().contains("static_prio"));
}
