//! Balance decisions: single cases as JSON, and columns of cases as arrays.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_core::SimError;
use schedlab_core::balance::columns::{self, Columns};
use schedlab_core::balance::numa::NumaCase;
use schedlab_core::balance::{BusiestCase, DetachCase, IdlestCase, ShouldWeBalanceCase, parse};
use schedlab_core::kernels::Kernel;
use schedlab_core::kernels::env::{CpuIdleType, GroupType, MigrationType};
use schedlab_core::kernels::spec::PolicySpec;
use serde::Serialize;

use crate::error::to_py;

/// The names behind the codes of arrays: (group types, migration types, idle types).
#[pyfunction]
pub fn balance_codes() -> (Vec<&'static str>, Vec<&'static str>, Vec<&'static str>) {
    (
        GroupType::ALL.map(GroupType::name).to_vec(),
        MigrationType::ALL.map(MigrationType::name).to_vec(),
        CpuIdleType::ALL.map(CpuIdleType::name).to_vec(),
    )
}

/// Decides one case: `decision` is the kernel's name of the function; case and answer are JSON.
#[pyfunction]
pub fn balance_decide(py: Python<'_>, kernel_json: &str, decision: &str, case: &str) -> PyResult<String> {
    py.detach(|| decide(kernel_json, decision, case)).map_err(to_py)
}

fn decide(kernel_json: &str, decision: &str, case: &str) -> Result<String, SimError> {
    let kernel = kernel_of(kernel_json)?;
    match decision {
        "find_busiest_group" => to_json(&parse::<BusiestCase>(case)?.decide(&kernel)?),
        "find_idlest_group" => to_json(&parse::<IdlestCase>(case)?.decide(&kernel)?),
        "detach_tasks" => to_json(&parse::<DetachCase>(case)?.decide(&kernel)?),
        "task_numa_find_cpu" => to_json(&parse::<NumaCase>(case)?.decide(&kernel)?),
        "should_we_balance" => to_json(&parse::<ShouldWeBalanceCase>(case)?.decide(&kernel)?),
        _ => Err(SimError::invalid("decision", decision, "must be a decision that takes single cases")),
    }
}

fn to_json(answer: &impl Serialize) -> Result<String, SimError> {
    serde_json::to_string(answer).map_err(|error| SimError::Invariant(error.to_string()))
}

fn kernel_of(kernel_json: &str) -> Result<Kernel, SimError> {
    parse::<PolicySpec>(kernel_json)?.resolve_fair()
}

/// `group_classify` over columns: codes of the group types.
#[pyfunction]
pub fn balance_classify<'py>(
    py: Python<'py>,
    kernel_json: &str,
    len: usize,
    arrays: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyArray1<i8>>> {
    let mut group_types = vec![0; len];
    over_columns(py, kernel_json, len, arrays, |kernel, columns| {
        columns::classify(kernel, columns, &mut group_types)
    })?;
    Ok(PyArray1::from_vec(py, group_types))
}

/// `calculate_imbalance` over columns: (imbalances, codes of the migration types).
#[pyfunction]
#[expect(clippy::type_complexity, reason = "two arrays are a plain answer")]
pub fn balance_calculate_imbalance<'py>(
    py: Python<'py>,
    kernel_json: &str,
    len: usize,
    arrays: &Bound<'py, PyDict>,
) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i8>>)> {
    let (mut imbalances, mut migration_types) = (vec![0; len], vec![0; len]);
    over_columns(py, kernel_json, len, arrays, |kernel, columns| {
        columns::calculate_imbalance(kernel, columns, &mut imbalances, &mut migration_types)
    })?;
    Ok((PyArray1::from_vec(py, imbalances), PyArray1::from_vec(py, migration_types)))
}

/// `wake_affine` over columns: 0 = the waker's CPU, 1 = the previous one.
#[pyfunction]
pub fn balance_wake_affine<'py>(
    py: Python<'py>,
    kernel_json: &str,
    len: usize,
    arrays: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyArray1<i8>>> {
    let mut targets = vec![0; len];
    over_columns(py, kernel_json, len, arrays, |kernel, columns| {
        columns::wake_affine(kernel, columns, &mut targets)
    })?;
    Ok(PyArray1::from_vec(py, targets))
}

/// `wake_wide` over columns.
#[pyfunction]
pub fn balance_wake_wide<'py>(
    py: Python<'py>,
    kernel_json: &str,
    len: usize,
    arrays: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let mut wide = vec![false; len];
    over_columns(py, kernel_json, len, arrays, |kernel, columns| {
        columns::wake_wide(kernel, columns, &mut wide)
    })?;
    Ok(PyArray1::from_vec(py, wide))
}

/// Calls `decide` with the arrays as columns, without the GIL.
fn over_columns<'py>(
    py: Python<'py>,
    kernel_json: &str,
    len: usize,
    arrays: &Bound<'py, PyDict>,
    decide: impl FnOnce(&Kernel, &Columns<'_>) -> Result<(), SimError> + Send,
) -> PyResult<()> {
    let kernel = kernel_of(kernel_json).map_err(to_py)?;
    let arrays: Vec<(String, PyReadonlyArray1<'py, i64>)> = arrays
        .iter()
        .map(|(name, array)| Ok((name.extract()?, array.extract()?)))
        .collect::<PyResult<_>>()?;
    let columns = arrays
        .iter()
        .map(|(name, array)| Ok((name.clone(), array.as_slice()?)))
        .collect::<PyResult<Vec<(String, &[i64])>>>()?;
    py.detach(|| decide(&kernel, &Columns::new(len, columns)?)).map_err(to_py)
}
