//! Every vector of NUMA placement and of the O(1) scheduler, replayed: no difference is allowed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use schedlab_core::verify::{Check, check_lines, numa, o1};
use serde_json::Value;

#[test]
fn task_numa_find_cpu() {
    for family in numa::FAMILIES {
        replay(family, numa::check, 4000);
    }
}

#[test]
fn o1_groups_and_queues() {
    replay("o1-v2.6.15", o1::check, 3000);
    replay("o1-v2.6.16-mm-smpnice", o1::check, 3000);
}

#[test]
fn smpnice_facts() {
    let path = vectors().join("arithmetic/smpnice_2_6.json");
    let text = std::fs::read_to_string(path).unwrap();
    let report = check_lines("smpnice_2_6.json", &text);
    assert_eq!((report.modelled, report.cases, report.failed), (true, 40, 0), "{report:?}");
    for fact in ["\"bias_mm_feb2006\": 40", "\"timeslice_jiffies_hz250\": 200", "\"nice\": -20"] {
        let fact = if text.contains(fact) { fact.to_owned() } else { fact.replace(": ", ":") };
        let altered = text.replacen(&fact, &format!("{fact}1"), 1);
        assert_ne!(altered, text, "{fact}");
        assert_eq!(check_lines("smpnice_2_6.json", &altered).failed, 1, "{fact}");
    }
}

/// Each number or word of an answer, altered, is noticed and the case named.
#[test]
fn an_altered_answer_fails() {
    let numa = numa::FAMILIES.iter().map(|&family| (family, numa::check as Check));
    let o1 = o1::FAMILIES.iter().map(|&family| (family, o1::check as Check));
    for (family, check) in numa.chain(o1).filter(|&(family, _)| family != "smpnice_2_6") {
        // In the first case with a rival's claim that is an input beside the answers.
        let line = lines(family).into_iter().filter(|line| !line.contains("race_on")).nth(7).unwrap();
        let case: Value = serde_json::from_str(&line).unwrap();
        let mut leaves = Vec::new();
        collect_leaves(&case["out"], "/out".to_owned(), &mut leaves);
        assert!(leaves.len() >= 5, "{family}");
        for pointer in leaves {
            let mut altered = case.clone();
            let leaf = altered.pointer_mut(&pointer).unwrap();
            *leaf = match leaf.as_i64() {
                Some(number) => (number + 1).into(),
                None => "something_else".into(),
            };
            let error = check(family, &altered.to_string()).expect_err(&format!("{family} {pointer}"));
            assert!(error.starts_with(&format!("id {}:", case["id"])), "{family} {pointer}: {error}");
        }
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
        for line in lines(family) {
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
    let line = &lines("numa-v5.7")[0];
    assert!(numa::check("numa-v9", line).unwrap_err().contains("must be one of"));
    assert!(o1::check("o1-v9", &lines("o1-v2.6.15")[0]).unwrap_err().contains("must be one of"));
    assert!(o1::check("smpnice_2_6", "{\"nice\": 0}").unwrap_err().contains("static_prio"));
}

fn replay(family: &str, check: Check, cases: usize) {
    let lines = lines(family);
    assert_eq!(lines.len(), cases, "{family}");
    let failures: Vec<String> = lines.iter().filter_map(|line| check(family, line).err()).collect();
    let first = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{family}: {} of {} fail\n{first}", failures.len(), lines.len());
}

fn lines(family: &str) -> Vec<String> {
    let file = File::open(vectors().join(format!("balance/{family}.jsonl.gz"))).unwrap();
    BufReader::new(GzDecoder::new(file)).lines().map(Result::unwrap).collect()
}

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors")
}

fn collect_leaves(value: &Value, pointer: String, leaves: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                collect_leaves(value, format!("{pointer}/{key}"), leaves);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect_leaves(value, format!("{pointer}/{index}"), leaves);
            }
        }
        Value::Null => {}
        _ => leaves.push(pointer),
    }
}
