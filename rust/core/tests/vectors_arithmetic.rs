//! The arithmetic vectors of real kernels, and that a vector with one altered number does not pass.

mod common;

use std::fs;

use common::vectors::folder;
use schedlab_core::verify::{FamilyReport, check_lines, family_of};

const FILES: [&str; 10] = [
    "calc_delta.jsonl",
    "calc_delta_fair.jsonl",
    "loadavg.jsonl",
    "nice_weights.json",
    "pelt_halflife_seq.jsonl.gz",
    "pelt_halflife_unit.jsonl",
    "pelt_modern_seq.jsonl.gz",
    "pelt_modern_unit.jsonl",
    "pelt_old_seq.jsonl.gz",
    "pelt_tables.json",
];

#[test]
fn every_vector_is_reproduced() {
    for file in FILES {
        let FamilyReport { modelled, cases, failed, first_failures, .. } = check_lines(file, &read(file));
        assert!(modelled && cases > 0, "{file}: {cases} cases");
        assert_eq!(failed, 0, "{file}: {failed} of {cases} failed: {first_failures:#?}");
    }
}

#[test]
fn one_altered_number_fails_its_case_and_names_it() {
    for file in FILES.iter().filter(|file| file.contains(".jsonl")) {
        let text = read(file);
        let mut lines: Vec<&str> = text.lines().collect();
        let altered = with_last_number_altered(lines[3]);
        lines[3] = &altered;

        let report = check_lines(file, &lines.join("\n"));

        assert_eq!(report.failed, 1, "{file}: {:#?}", report.first_failures);
        assert!(report.first_failures[0].contains("line 4"), "{:?}", report.first_failures);
        if let Some(id) = altered.strip_prefix("{\"id\":\"").and_then(|rest| rest.split('"').next()) {
            assert!(report.first_failures[0].contains(id), "{:?}", report.first_failures);
        }
    }
}

#[test]
fn one_altered_number_of_a_table_fails() {
    for (file, from, to) in [
        ("pelt_tables.json", "47742", "47743"),
        ("pelt_tables.json", "4202935002", "4202935003"),
        ("pelt_tables.json", "23371", "23372"),
        ("pelt_tables.json", "345,", "346,"),
        ("nice_weights.json", "88761", "88762"),
        ("nice_weights.json", "1431655765", "1431655764"),
        ("nice_weights.json", "1048576", "1048577"),
    ] {
        let text = read(file);
        assert!(text.contains(from), "{file} holds no {from}");
        let report = check_lines(file, &text.replacen(from, to, 1));
        assert_eq!(report.failed, 1, "{file} {from}: {:#?}", report.first_failures);
    }
}

#[test]
fn what_is_not_a_case_fails_as_one() {
    let lines = [
        r#"{"load":1046,"exp":2014,"active":32768}"#,
        r#"{"load":-1,"exp":2014,"active":32768,"out":1573}"#,
        "[",
        r#"{"load":1046,"exp":2014,"active":32768,"out":1573}"#,
    ];
    let report = check_lines("loadavg.jsonl", &lines.join("\n\n"));
    assert_eq!((report.cases, report.failed), (4, 3), "{:#?}", report.first_failures);
    assert!(report.first_failures[0].contains("line 1: not a case: missing field `out`"), "{report:?}");

    for (file, line) in [
        (
            "pelt_modern_seq.jsonl",
            r#"{"id":"x","init":[0,1024,0,0,0,0,0,0],"in":[[0,1,1,1,1,1]],"out":[[0,0,0,0,0,0,0,0,0]]}"#,
        ),
        (
            "pelt_modern_seq.jsonl",
            r#"{"id":"x","init":[0,0,0,0,0,0,0,0],"in":[[3,1,1,1,1,1]],"out":[[0,0,0,0,0,0,0,0,0]]}"#,
        ),
        ("pelt_modern_seq.jsonl", r#"{"id":"x","init":[0,0,0,0,0,0,0,0],"in":[],"out":[]}"#),
        ("pelt_modern_unit.jsonl", r#"{"fn":"segments","in":[0,1,1],"out":[2]}"#),
        ("pelt_modern_unit.jsonl", r#"{"fn":"update_load_avg","in":[1,1,1,1,4294920578],"out":[0,0,0]}"#),
        ("pelt_halflife_unit.jsonl", r#"{"fn":"decay_load","in":[1,0],"out":[0]}"#),
        ("pelt_halflife_unit.jsonl", r#"{"hl":0,"fn":"decay_load","in":[1,0],"out":[0]}"#),
        ("nice_weights.json", r#"{"nice":[{"nice":20,"weight":12,"wmult":1}]}"#),
        ("pelt_tables.json", "nonsense"),
    ] {
        assert_eq!(check_lines(file, line).failed, 1, "{file}: {line}");
    }
}

#[test]
fn files_are_known_by_name_and_an_unknown_one_says_so() {
    assert_eq!(family_of("some/where/pelt_old_seq.jsonl.gz").map(|family| family.name), Some("pelt_old_seq"));
    assert!(family_of("README.md").is_none());
    let report = check_lines("of_a_later_day.jsonl", "{}");
    assert_eq!((report.modelled, report.cases, report.failed), (false, 0, 0));
}

#[test]
fn every_vector_file_of_the_repository_has_a_family() {
    let mut files = 0;
    for kind in ["arithmetic", "balance", "domains"] {
        for entry in fs::read_dir(folder().join(kind)).expect("the vectors are part of the repository") {
            let name = entry.expect("a readable folder").file_name().into_string().expect("a UTF-8 name");
            if name.contains(".json") {
                assert!(family_of(&name).is_some(), "{name}");
                files += 1;
            }
        }
    }
    assert!(files > 0);
}

/// The line with 1 added to the last number in it, which is an expected output in every family.
fn with_last_number_altered(line: &str) -> String {
    let end = line.rfind(|c: char| c.is_ascii_digit()).expect("a number") + 1;
    let start = line[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |idx| idx + 1);
    let number: u64 = line[start..end].parse().expect("a 64-bit number");
    format!("{}{}{}", &line[..start], number + 1, &line[end..])
}

fn read(file: &str) -> String {
    common::vectors::read(&format!("arithmetic/{file}"))
}
