//! Vectors of the balance decisions: `tests/vectors/balance`.

use serde_json::{Map, Value, json};

use crate::balance::{
    BusiestCase, BusiestOutcome, DetachCase, DetachOutcome, GroupOutcome, IdlestCase, IdlestOutcome,
    ShouldWeBalanceCase, WakeAffineCase, WakeAffineOutcome, WakeWideCase, parse,
};
use crate::error::SimError;
use crate::kernels::env::WakeTarget;
use crate::kernels::{Kernel, v5_7};

/// The families that [`check`] knows.
pub const FAMILIES: &[&str] = &[
    "fbg-v5.4",
    "fbg-v5.5",
    "fbg-v5.6",
    "fbg-v5.7",
    "fbg-v6.12",
    "idlest-v5.5",
    "idlest-v5.6",
    "idlest-v5.7",
    "idlest-v6.12",
    "detach-v5.4",
    "detach-v5.5",
    "detach-v5.6",
    "detach-v5.7",
    "detach-v6.12",
    "wakeaffine-v5.4",
    "wakeaffine-v5.7",
    "wakeaffine-v6.12",
    "wakewide-all",
    "swb-v5.7",
    "swb-v6.12",
];

/// Decides the case in `line` and compares every field of its answer; `Err` names the case and what differs.
pub fn check(family: &str, line: &str) -> Result<(), String> {
    check_case(line, |_| decide(family, line))
}

/// Compares every field of the answer (`out`) of the case in `line` with what `decide` makes of the case.
pub(super) fn check_case(
    line: &str,
    decide: impl FnOnce(&Value) -> Result<Value, SimError>,
) -> Result<(), String> {
    let case: Value = serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
    let id = &case["id"];
    let expected = case.get("out").ok_or_else(|| format!("id {id}: no answer (`out`)"))?;
    let got = decide(&case).map_err(|error| format!("id {id}: {error}"))?;
    let mut differences = Vec::new();
    compare("out", expected, &got, &mut differences);
    if differences.is_empty() { Ok(()) } else { Err(format!("id {id}: {}", differences.join("; "))) }
}

/// The answer to the case, in the vectors' words; what they leave out where it has no meaning is null.
fn decide(family: &str, line: &str) -> Result<Value, SimError> {
    if !FAMILIES.contains(&family) {
        return Err(SimError::invalid("family", family, format!("must be one of {}", FAMILIES.join(", "))));
    }
    let (decision, version) = family.split_once('-').unwrap_or((family, ""));
    // One file serves all generations whose text is the same.
    let kernel = if version == "all" { &v5_7::KERNEL } else { Kernel::named(version)? };
    Ok(match decision {
        "fbg" => {
            let case: BusiestCase = parse(line)?;
            let outcome = case.decide(kernel)?;
            let mut answer = busiest_answer(&case, &outcome);
            if version == "v5.4" {
                use_words_before_rework(&mut answer, &outcome);
            }
            answer
        }
        "idlest" => idlest_answer(&parse::<IdlestCase>(line)?.decide(kernel)?),
        "detach" => detach_answer(&parse::<DetachCase>(line)?.decide(kernel)?),
        "wakeaffine" => wake_affine_answer(&parse::<WakeAffineCase>(line)?.decide(kernel)?),
        "wakewide" => json!({"wide": u8::from(parse::<WakeWideCase>(line)?.decide(kernel))}),
        _ => json!({"balance": u8::from(parse::<ShouldWeBalanceCase>(line)?.decide(kernel)?)}),
    })
}

fn busiest_answer(case: &BusiestCase, outcome: &BusiestOutcome) -> Value {
    json!({
        "g": outcome.groups.iter().map(group_answer).collect::<Vec<_>>(),
        "busiest": index_or_none(outcome.busiest),
        "imb": outcome.imbalance,
        "mig": outcome.migration_type,
        "nr_idle_scan": outcome.nr_idle_scan,
        "fbq": case.sd.numa.then_some(outcome.fbq_type),
        "rq": outcome.busiest.map(|_| index_or_none(outcome.src_cpu)),
        "active": outcome.active_balance.map(u8::from),
    })
}

/// v5.4 has no migration types, and says of a group only how many fair tasks it has, what its average task is,
/// and whether its capacity is used up.
fn use_words_before_rework(answer: &mut Value, outcome: &BusiestOutcome) {
    answer["mig"] = Value::Null;
    answer["src_type"] = json!(outcome.busiest.map(|_| outcome.src_grp_type));
    for group in answer["g"].as_array_mut().into_iter().flatten() {
        group["nr"] = Value::Null;
        // The class is derived from it: the first that is asked for.
        group["nocap"] = json!(u8::from(group["t"] == "overloaded"));
    }
}

fn group_answer(group: &GroupOutcome) -> Value {
    json!({
        "t": group.group_type,
        "load": group.group_load,
        "util": group.group_util,
        "run": group.group_runnable,
        "h": group.sum_h_nr_running,
        "nr": group.sum_nr_running,
        "idle": group.idle_cpus,
        "avg": group.avg_load,
        "misfit": group.group_misfit_task_load,
        "lpt": group.load_per_task,
    })
}

fn idlest_answer(outcome: &IdlestOutcome) -> Value {
    let groups: Vec<Value> =
        outcome.groups.iter().map(|group| group.as_ref().map_or(Value::Null, group_answer)).collect();
    json!({"g": groups, "idlest": index_or_none(outcome.idlest)})
}

fn detach_answer(outcome: &DetachOutcome) -> Value {
    json!({
        "n": outcome.detached.len(),
        "ids": outcome.detached,
        "imb": outcome.imbalance,
        "loop": outcome.nr_looked_at,
        "all_pinned": u8::from(outcome.all_pinned),
        "some_pinned": u8::from(outcome.some_pinned),
        "need_break": u8::from(outcome.need_break),
        "dst_pinned": u8::from(outcome.dst_pinned),
        "new_dst": outcome.new_dst_cpu,
        "left": outcome.left,
    })
}

fn wake_affine_answer(outcome: &WakeAffineOutcome) -> Value {
    let name = |target| match target {
        Some(WakeTarget::This) => "this",
        Some(WakeTarget::Prev) => "prev",
        None => "none",
    };
    json!({
        "wa_idle": name(outcome.idle),
        "wa_weight": name(outcome.weight),
        "target": name(Some(outcome.target)),
    })
}

/// A position, or -1 for none.
pub(super) fn index_or_none(index: Option<usize>) -> i64 {
    index.map_or(-1, |index| index as i64)
}

/// Collects the paths at which the two answers differ. A field that one side lacks must be 0 or null on the other.
fn compare(path: &str, expected: &Value, got: &Value, differences: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => compare_objects(path, expected, got, differences),
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
                compare(&format!("{path}[{index}]"), expected, got, differences);
            }
        }
        _ if expected == got => {}
        _ => differences.push(format!("{path}: expected {expected}, got {got}")),
    }
}

fn compare_objects(
    path: &str,
    expected: &Map<String, Value>,
    got: &Map<String, Value>,
    differences: &mut Vec<String>,
) {
    let is_nothing = |value: &Value| value.is_null() || *value == json!(0);
    for (key, value) in expected {
        match got.get(key) {
            Some(got) => compare(&format!("{path}.{key}"), value, got, differences),
            None => {
                differences.push(format!("{path}.{key}: expected {value}, nothing of that name is decided"))
            }
        }
    }
    for (key, value) in got.iter().filter(|(key, value)| !expected.contains_key(*key) && !is_nothing(value)) {
        differences.push(format!("{path}.{key}: expected nothing, got {value}"));
    }
}
