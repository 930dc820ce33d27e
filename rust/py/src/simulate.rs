//! Runs: scenarios and seeds in, arrays out.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ndarray::{Array2, Array3, Array4};
use numpy::{PyArray1, PyReadonlyArray1, ToPyArray};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_core::SimError;
use schedlab_core::kernels::env::GroupType;
use schedlab_core::record::{
    CPU_FIELDS, CPU_STAT_FIELDS, DOMAIN_FIELDS, METRIC_TABLE, NR_BUCKETS, NR_GROUP_TYPES, Record, level_names,
};
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::Scenario;
use schedlab_core::sim::cost::{COST_TABLE, CostModel};

use crate::error::to_py;

/// How often the caller hears of progress and may interrupt.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a scenario (JSON) under each seed on so many threads; the arrays come in the order of the seeds.
///
/// The GIL is free while the runs go on; `progress` is called with the number of runs done, from the calling thread, a
/// few times a second, and signals are seen there: Ctrl-C stops the runs and raises `KeyboardInterrupt`.
#[pyfunction]
#[pyo3(signature = (scenario, seeds, threads, progress=None))]
pub fn simulate<'py>(
    py: Python<'py>,
    scenario: &str,
    seeds: PyReadonlyArray1<'py, u64>,
    threads: usize,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let scenario = Scenario::from_json(scenario).map_err(to_py)?;
    let seeds = seeds.as_array().to_vec();
    let state = Progress::default();
    let records = interruptible(py, &state, progress, || run_seeds(&scenario, &seeds, threads, &state))?;
    let setup = scenario.setup().map_err(to_py)?;
    let nr_nodes = setup.machine.distance.len();
    let result = to_arrays(py, &records, level_names(&setup.domains), nr_nodes)?;
    let groups: Vec<&str> = setup.load.groups.iter().map(|group| group.name.as_str()).collect();
    let shape = (records.len(), groups.len(), CPU_STAT_FIELDS.len());
    let cpu_stat =
        Array3::from_shape_fn(shape, |(seed, group, field)| records[seed].cpu_stat[group].values()[field]);
    result.set_item("groups", groups)?;
    result.set_item("cpu_stat", cpu_stat.to_pyarray(py))?;
    result.set_item("cpu_stat_fields", CPU_STAT_FIELDS)?;
    Ok(result)
}

/// Runs a batch on another thread with the GIL free; from this one, reports progress and sees to signals.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    state: &Progress,
    progress: Option<Bound<'_, PyAny>>,
    batch: impl FnOnce() -> schedlab_core::Result<T> + Send,
) -> PyResult<T> {
    std::thread::scope(|scope| {
        let runs = scope.spawn(batch);
        let report = || {
            py.check_signals()?;
            match &progress {
                Some(progress) => progress.call1((state.done.load(Ordering::Relaxed),)).map(drop),
                None => Ok(()),
            }
        };
        let mut interrupted = None;
        while !runs.is_finished() && interrupted.is_none() {
            py.detach(|| wait_for(&runs));
            interrupted = report().err();
        }
        if interrupted.is_some() {
            state.stop.store(true, Ordering::Relaxed);
        }
        let outcome = py.detach(|| runs.join());
        match (interrupted, outcome) {
            (Some(error), _) => Err(error),
            (None, Ok(outcome)) => outcome.map_err(to_py),
            (None, Err(_)) => {
                Err(to_py(SimError::Invariant("a run panicked; its message went to stderr".to_owned())))
            }
        }
    })
}

/// Waits until the runs are done or it is time for a report.
fn wait_for<T>(runs: &std::thread::ScopedJoinHandle<'_, T>) {
    // Short waits first, so that a short batch is not held up.
    let mut wait = Duration::from_micros(200);
    let mut waited = Duration::ZERO;
    while !runs.is_finished() && waited < PROGRESS_INTERVAL {
        std::thread::sleep(wait);
        waited += wait;
        wait = (wait * 2).min(PROGRESS_INTERVAL / 4);
    }
}

/// The records as arrays: metrics by seed; counts by seed, level, class and bucket; tasks by seed and node;
/// /proc/schedstat by seed and CPU.
fn to_arrays<'py>(
    py: Python<'py>,
    records: &[Record],
    levels: Vec<String>,
    nr_nodes: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let metrics = PyDict::new(py);
    let values: Vec<Vec<i64>> = records.iter().map(|record| record.metrics.values()).collect();
    for (index, (name, ..)) in METRIC_TABLE.iter().enumerate() {
        let column: Vec<i64> = values.iter().map(|row| row[index]).collect();
        metrics.set_item(name, PyArray1::from_vec(py, column))?;
    }
    let nr_cpus = records.first().map_or(0, |record| record.cpus.len());
    let nr_levels = levels.len();
    let shape = (records.len(), nr_levels, NR_GROUP_TYPES, NR_BUCKETS);
    let classification = Array4::from_shape_fn(shape, |(seed, level, class, bucket)| {
        records[seed].classification[level][class][bucket]
    });
    let node_tasks = Array2::from_shape_fn((records.len(), nr_nodes), |(seed, node)| {
        records[seed].node_tasks.get(node).copied().unwrap_or(0)
    });
    let node_samples: Vec<u64> = records.iter().map(|record| record.node_samples).collect();
    let mut cpus = Array3::zeros((records.len(), nr_cpus, CPU_FIELDS.len()));
    let mut domains = Array4::zeros((records.len(), nr_cpus, nr_levels, DOMAIN_FIELDS.len()));
    for (seed, record) in records.iter().enumerate() {
        for cpu in 0..nr_cpus {
            for (field, value) in record.cpus[cpu].values().into_iter().enumerate() {
                cpus[(seed, cpu, field)] = value;
            }
            for (level, counters) in record.domains[cpu].iter().enumerate() {
                for (field, value) in counters.values().into_iter().enumerate() {
                    domains[(seed, cpu, level, field)] = value;
                }
            }
        }
    }
    let result = PyDict::new(py);
    result.set_item("metrics", metrics)?;
    result.set_item("classification", classification.to_pyarray(py))?;
    result.set_item("node_tasks", node_tasks.to_pyarray(py))?;
    result.set_item("node_samples", PyArray1::from_vec(py, node_samples))?;
    result.set_item("levels", levels)?;
    result.set_item("group_types", GroupType::ALL.map(GroupType::name))?;
    result.set_item("schedstat_cpu", cpus.to_pyarray(py))?;
    result.set_item("schedstat_cpu_fields", CPU_FIELDS)?;
    result.set_item("schedstat_domain", domains.to_pyarray(py))?;
    result.set_item("schedstat_domain_fields", DOMAIN_FIELDS)?;
    Ok(result)
}

/// Checks a scenario (JSON): `ValueError` names argument, value and rule.
#[pyfunction]
pub fn validate_scenario(scenario: &str) -> PyResult<()> {
    Scenario::from_json(scenario).map(drop).map_err(to_py)
}

/// Checks the costs of a machine, given as JSON, by every rule that needs no scenario.
#[pyfunction]
pub fn validate_costs(costs: &str) -> PyResult<()> {
    CostModel::from_json(costs).map(drop).map_err(to_py)
}

/// Metrics: name, unit, description.
#[pyfunction]
pub fn metric_table() -> Vec<(&'static str, &'static str, &'static str)> {
    METRIC_TABLE.iter().map(|&(name, unit, doc)| (name, unit, doc.trim())).collect()
}

/// Costs of a machine: name, unit, description.
#[pyfunction]
pub fn cost_table() -> Vec<(&'static str, &'static str, &'static str)> {
    let unit = |name: &str| match name.rsplit('_').next() {
        Some("permille") => "permille",
        Some("us") => "us",
        _ if name == "kernbench_asm_kib" => "KiB",
        _ => "ns",
    };
    COST_TABLE.iter().map(|&(name, _, doc)| (name, unit(name), doc.trim())).collect()
}

/// The costs' defaults, as JSON.
#[pyfunction]
pub fn default_costs() -> PyResult<String> {
    serde_json::to_string(&CostModel::default())
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))
}
