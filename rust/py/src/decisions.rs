//! Decisions of runs: where two runs part, and logs.

use pyo3::prelude::*;
use schedlab_core::record::decisions::{Kinds, Wanted};
use schedlab_core::run::{Progress, decisions, first_difference};
use schedlab_core::scenario::Scenario;
use serde::Serialize;

use crate::error::to_py;
use crate::simulate::interruptible;

/// Where two scenarios (JSON) of the same machine and work part under a seed, as JSON: how many decisions are `alike`
/// before, and the next one of each (`a`, `b`; null = the run has ended).
#[pyfunction]
pub fn parting(py: Python<'_>, a: &str, b: &str, seed: u64) -> PyResult<String> {
    let a = Scenario::from_json(a).map_err(to_py)?;
    let b = Scenario::from_json(b).map_err(to_py)?;
    let state = Progress::default();
    let found = interruptible(py, &state, None, || first_difference(&a, &b, seed, &state))?;
    to_json(&found)
}

/// All balance passes (`kind` = `balance`) or placements (anything else) of a scenario (JSON) under a seed, as JSON.
#[pyfunction]
pub fn decision_log(py: Python<'_>, scenario: &str, seed: u64, kind: &str) -> PyResult<String> {
    let scenario = Scenario::from_json(scenario).map_err(to_py)?;
    let kinds = if kind == "balance" { Kinds::Balance } else { Kinds::Placement };
    let wanted = Wanted { skip: 0, limit: usize::MAX, kinds };
    let state = Progress::default();
    let log = interruptible(py, &state, None, || decisions(&scenario, seed, wanted, &state))?;
    to_json(&log)
}

fn to_json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))
}
