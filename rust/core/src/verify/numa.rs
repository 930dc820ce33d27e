//! Vectors of NUMA placement: `tests/vectors/balance/numa-*`.

use serde_json::{Value, json};

use super::balance::{check_case, index_or_none};
use crate::balance::numa::{NumaCase, NumaOutcome, NumaStatsOutcome};
use crate::balance::parse;
use crate::error::SimError;
use crate::kernels::Kernel;

/// The families that [`check`] knows.
pub const FAMILIES: &[&str] = &["numa-v5.6", "numa-v5.7", "numa-v6.12"];

/// Decides the case in `line` and compares every field of its answer; `Err` names the case and what differs.
pub fn check(family: &str, line: &str) -> Result<(), String> {
    check_case(line, |case| decide(family, line, case))
}

fn decide(family: &str, line: &str, vector: &Value) -> Result<Value, SimError> {
    let mut case: NumaCase = parse(line)?;
    // The vectors tell of the rival's claim beside the answer, since it was made while the answer was found.
    let claimed = &vector["out"]["race_on"];
    case.claimed_later = claimed.as_u64().map(|cpu| cpu as usize);
    let mut answer = numa_answer(&case.decide(kernel_of(family)?)?);
    answer["race_on"] = claimed.clone();
    Ok(answer)
}

fn kernel_of(family: &str) -> Result<&'static Kernel, SimError> {
    if !FAMILIES.contains(&family) {
        return Err(SimError::invalid("family", family, format!("must be one of {}", FAMILIES.join(", "))));
    }
    Kernel::named(family.trim_start_matches("numa-"))
}

fn numa_answer(outcome: &NumaOutcome) -> Value {
    let mut dst = stats_answer(&outcome.dst);
    // Kernels that do not class nodes do not look for an idle CPU either.
    if outcome.dst.node_type.is_some() {
        dst["idle_cpu"] = index_or_none(outcome.dst.idle_cpu).into();
    }
    json!({
        "src": stats_answer(&outcome.src),
        "dst": dst,
        "too_imbalanced": u8::from(outcome.load_too_imbalanced),
        "adj_imb": outcome.adjusted_imbalance,
        "best_cpu": index_or_none(outcome.best_cpu),
        "swap_with": index_or_none(outcome.swap_with),
        "best_imp": outcome.best_imp,
    })
}

fn stats_answer(ns: &NumaStatsOutcome) -> Value {
    json!({
        "t": ns.node_type,
        "load": ns.load,
        "util": ns.util,
        "run": ns.runnable,
        "cap": ns.compute_capacity,
        "nr": ns.nr_running,
    })
}
