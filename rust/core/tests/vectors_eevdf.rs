//! The vectors of v6.12's queue and of group shares, and that a vector with one altered number does not pass.

mod common;

use schedlab_core::verify::{FamilyReport, check_lines};

const FILES: [&str; 5] = [
    "eevdf_deadline.jsonl",
    "eevdf_place.jsonl.gz",
    "eevdf_reweight.jsonl",
    "eevdf_state.jsonl.gz",
    "group_shares.jsonl",
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
fn one_altered_answer_fails_its_case() {
    for (file, fields) in [
        ("eevdf_deadline.jsonl", &["dl_out", "slice_out"][..]),
        ("eevdf_place.jsonl.gz", &["V", "vr", "dl", "slice", "V_after", "lag_after"]),
        ("eevdf_reweight.jsonl", &["vr_out", "dl_out"]),
        ("eevdf_state.jsonl.gz", &["sum", "load", "V", "pick", "pick_rtp"]),
        ("group_shares.jsonl", &["shares"]),
    ] {
        for field in fields {
            let text = read(file);
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines[7] = with_field_altered(&lines[7], field);
            let report = check_lines(file, &lines.join("\n"));
            assert_eq!(report.failed, 1, "{file} {field}: {:#?}", report.first_failures);
            let first = &report.first_failures[0];
            assert!(first.contains("line 8") && first.contains("expected"), "{first}");
        }
    }
}

#[test]
fn what_is_not_a_case_fails_as_one() {
    for (file, line) in [
        ("eevdf_state.jsonl", "{}"),
        (
            "eevdf_state.jsonl",
            r#"{"id":"x","tick":1,"v0":0,"curr":1,"prot":0,"e":[[1024,0,0,1]],"sum":0,"load":0,"V":0,"pick":0,"pick_rtp":0,"elig":[1],"vlag":[0]}"#,
        ),
        (
            "eevdf_reweight.jsonl",
            r#"{"tick":1,"V":1,"w":1,"vr":0,"dl":0,"slice":0,"new_w":0,"vr_out":9,"dl_out":9}"#,
        ),
        (
            "group_shares.jsonl",
            r#"{"tg_shares":-1,"w":0,"load_avg":0,"tg_load_avg":0,"contrib":0,"shares":2}"#,
        ),
    ] {
        assert_eq!(check_lines(file, line).failed, 1, "{file}: {line}");
    }
}

/// The line with 1 added to the number of a field.
fn with_field_altered(line: &str, field: &str) -> String {
    let name = format!("\"{field}\":");
    let start = line.rfind(&name).expect("the field") + name.len();
    let end = start + line[start..].find([',', '}']).expect("an end");
    let number: i128 = line[start..end].parse().expect("a number");
    format!("{}{}{}", &line[..start], number + 1, &line[end..])
}

fn read(file: &str) -> String {
    common::vectors::read(&format!("arithmetic/{file}"))
}
