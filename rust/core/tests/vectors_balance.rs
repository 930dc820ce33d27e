//! Every balance vector of the kernels that are modelled, replayed: no difference is allowed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use schedlab_core::verify::balance::{FAMILIES, check};
use serde_json::Value;

#[test]
fn find_busiest_group() {
    replay(&["fbg-v5.4", "fbg-v5.5", "fbg-v5.6", "fbg-v5.7", "fbg-v6.12"], 6000);
}

#[test]
fn find_idlest_group() {
    replay(&["idlest-v5.5", "idlest-v5.6", "idlest-v5.7", "idlest-v6.12"], 3500);
}

#[test]
fn detach_tasks() {
    replay(&["detach-v5.4", "detach-v5.5", "detach-v5.6", "detach-v5.7", "detach-v6.12"], 4000);
}

#[test]
fn wake_affine_and_wake_wide() {
    replay(&["wakeaffine-v5.4", "wakeaffine-v5.7", "wakeaffine-v6.12"], 3000);
    replay(&["wakewide-all"], 1000);
}

#[test]
fn should_we_balance() {
    replay(&["swb-v5.7", "swb-v6.12"], 2000);
}

/// Each number or word of an answer, altered, is noticed and the case named.
#[test]
fn an_altered_answer_fails() {
    for family in FAMILIES {
        let line = lines(family).into_iter().nth(7).unwrap();
        let case: Value = serde_json::from_str(&line).unwrap();
        let mut leaves = Vec::new();
        collect_leaves(&case["out"], "/out".to_owned(), &mut leaves);
        assert!(!leaves.is_empty(), "{family}");
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

/// An input that decides, altered, changes the answer.
#[test]
fn an_altered_input_fails() {
    let line = lines("fbg-v5.7").into_iter().find(|line| line.contains("\"mig\":\"load\"")).unwrap();
    let mut case: Value = serde_json::from_str(&line).unwrap();
    check("fbg-v5.7", &line).unwrap();
    let load = case.pointer_mut("/cpu/load/0").unwrap();
    *load = (load.as_u64().unwrap() + 1).into();
    let error = check("fbg-v5.7", &case.to_string()).unwrap_err();
    assert!(error.contains("out.g[0].load"), "{error}");
}

#[test]
fn what_is_no_case_fails() {
    assert!(check("fbg-v5.7", "{").unwrap_err().contains("not JSON"));
    assert!(check("fbg-v5.7", "{\"id\": 3}").unwrap_err().starts_with("id 3: no answer"));
    assert!(check("fbg-v9", "{\"id\": 3, \"out\": {}}").unwrap_err().contains("must be one of"));
}

fn replay(families: &[&str], cases_each: usize) {
    for family in families {
        let lines = lines(family);
        assert_eq!(lines.len(), cases_each, "{family}");
        let failures: Vec<String> = lines.iter().filter_map(|line| check(family, line).err()).collect();
        let first = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
        assert!(failures.is_empty(), "{family}: {} of {} fail\n{first}", failures.len(), lines.len());
    }
}

fn lines(family: &str) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/balance");
    let plain = folder.join(format!("{family}.jsonl"));
    let reader: Box<dyn Read> = if plain.exists() {
        Box::new(File::open(&plain).unwrap())
    } else {
        Box::new(GzDecoder::new(File::open(folder.join(format!("{family}.jsonl.gz"))).unwrap()))
    };
    BufReader::new(reader).lines().map(Result::unwrap).collect()
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
