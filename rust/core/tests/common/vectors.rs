//! The vectors of real kernels: read, replayed, and altered to see that it shows.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use schedlab_core::verify::Check;
use serde_json::Value;

/// `tests/vectors`.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors")
}

/// The text of a file there, unpacked.
pub fn read(file: &str) -> String {
    let path = folder().join(file);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if !file.ends_with(".gz") {
        return String::from_utf8(bytes).expect("UTF-8");
    }
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("gzip of UTF-8");
    text
}

/// The cases of a family in a folder there.
pub fn cases(kind: &str, family: &str) -> Vec<String> {
    let packed = format!("{kind}/{family}.jsonl.gz");
    let file = if folder().join(&packed).exists() { packed } else { format!("{kind}/{family}.jsonl") };
    read(&file).lines().map(str::to_owned).collect()
}

/// Replays a family, which has so many cases: no difference is allowed.
pub fn replay(kind: &str, family: &str, check: Check, count: usize) {
    let cases = cases(kind, family);
    assert_eq!(cases.len(), count, "{family}");
    let failures: Vec<String> = cases.iter().filter_map(|case| check(family, case).err()).collect();
    let first: Vec<String> =
        failures.iter().take(5).map(|failure| failure.chars().take(600).collect()).collect();
    assert!(failures.is_empty(), "{family}: {} of {count} fail\n{}", failures.len(), first.join("\n"));
}

/// Each number or word of a case's answer, altered, is noticed and the case named. How many there are.
pub fn alter_answers(family: &str, check: Check, case: &str) -> usize {
    let case: Value = serde_json::from_str(case).unwrap();
    let mut leaves = Vec::new();
    collect_leaves(&case["out"], "/out".to_owned(), &mut leaves);
    for pointer in &leaves {
        let mut altered = case.clone();
        let leaf = altered.pointer_mut(pointer).unwrap();
        *leaf = match leaf.as_i64() {
            Some(number) => (number + 1).into(),
            None => "something_else".into(),
        };
        let error = check(family, &altered.to_string()).expect_err(&format!("{family} {pointer}"));
        assert!(error.starts_with(&format!("id {}:", case["id"])), "{family} {pointer}: {error}");
    }
    leaves.len()
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
