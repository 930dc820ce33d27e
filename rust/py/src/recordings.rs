//! What ran where: traces and the measures that stand beside recorded ones.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_core::record::TaskTraceState;
use schedlab_core::run::{Progress, derive_seeds, trace_seed};
use schedlab_core::scenario::Scenario;

use crate::error::to_py;
use crate::simulate::interruptible;

/// Runs a scenario (JSON) under one seed: arrays `time_ns`, `task`, `cpu` and `state` (0 asleep, 1 waiting, 2 running), one
/// entry a change, and `start_ns` and `end_ns` of the window.
#[pyfunction]
pub fn simulate_trace<'py>(py: Python<'py>, scenario: &str, seed: u64) -> PyResult<Bound<'py, PyDict>> {
    let scenario = Scenario::from_json(scenario).map_err(to_py)?;
    let trace = py.detach(|| trace_seed(&scenario, seed)).map_err(to_py)?;
    let state = |state| match state {
        TaskTraceState::Asleep => 0_u8,
        TaskTraceState::Waiting => 1,
        TaskTraceState::Running => 2,
    };
    let events = || trace.events.iter();
    let result = PyDict::new(py);
    result.set_item("time_ns", PyArray1::from_iter(py, events().map(|event| event.time_ns)))?;
    result.set_item("task", PyArray1::from_iter(py, events().map(|event| event.task)))?;
    result.set_item("cpu", PyArray1::from_iter(py, events().map(|event| event.cpu)))?;
    result.set_item("state", PyArray1::from_iter(py, events().map(|event| state(event.state))))?;
    result.set_item("start_ns", trace.start_ns)?;
    result.set_item("end_ns", trace.end_ns)?;
    Ok(result)
}

/// Runs a scenario (JSON) of tasks under each seed on so many threads; a dictionary of measures a seed, `None` where what is
/// measured never came about. The last `background` entries of the workload run, but are not measured.
#[pyfunction]
#[pyo3(signature = (scenario, seeds, threads, background=0))]
pub fn simulate_derived<'py>(
    py: Python<'py>,
    scenario: &str,
    seeds: PyReadonlyArray1<'py, u64>,
    threads: usize,
    background: usize,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let scenario = Scenario::from_json(scenario).map_err(to_py)?;
    let seeds = seeds.as_array().to_vec();
    let state = Progress::default();
    let batch = || derive_seeds(&scenario, background, &seeds, threads, &state);
    let runs = interruptible(py, &state, None, batch)?;
    let to_dict = |derived: schedlab_core::record::derived::Derived| {
        let measures = PyDict::new(py);
        for (name, value) in derived.measures {
            measures.set_item(name, value)?;
        }
        Ok(measures)
    };
    runs.into_iter().map(to_dict).collect()
}
