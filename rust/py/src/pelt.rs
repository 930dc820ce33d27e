//! PELT: one set of signals step by step, whole histories as arrays, and the arithmetic around it.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, ToPyArray};
use pyo3::prelude::*;
use schedlab_core::SimError;
use schedlab_core::load_weight;
use schedlab_core::pelt::trace::{Signals, Timeline, trace_cfs_rqs, trace_entities};
use schedlab_core::pelt::{self, PERIOD_US, PeltForm, PeltTable, SchedAvg};

use crate::error::to_py;

/// The signals of one entity or cfs_rq with the half-life and the form that they follow.
#[pyclass(module = "schedlab._core")]
pub struct PeltState {
    avg: SchedAvg,
    table: Arc<PeltTable>,
    form: PeltForm,
}

#[pymethods]
impl PeltState {
    /// Zero signals at `now_ns`.
    #[new]
    fn new(half_life_ms: u32, form: &str, now_ns: u64) -> PyResult<Self> {
        let table = Arc::new(PeltTable::new(half_life_ms).map_err(to_py)?);
        let avg = SchedAvg { last_update_time: now_ns, ..SchedAvg::default() };
        Ok(Self { avg, table, form: form_of(form)? })
    }

    /// The state as (last_update_time, period_contrib, load_sum, runnable_sum, util_sum, load_avg, runnable_avg,
    /// util_avg).
    #[getter]
    fn state(&self) -> (u64, u32, u64, u64, u32, u64, u64, u64) {
        let avg = &self.avg;
        (
            avg.last_update_time,
            avg.period_contrib,
            avg.load_sum,
            avg.runnable_sum,
            avg.util_sum,
            avg.load_avg,
            avg.runnable_avg,
            avg.util_avg,
        )
    }

    #[setter]
    fn set_state(&mut self, state: (u64, u32, u64, u64, u32, u64, u64, u64)) -> PyResult<()> {
        let (
            last_update_time,
            period_contrib,
            load_sum,
            runnable_sum,
            util_sum,
            load_avg,
            runnable_avg,
            util_avg,
        ) = state;
        if period_contrib >= PERIOD_US {
            let rule = format!("must be below {PERIOD_US}");
            return Err(to_py(SimError::invalid("period_contrib", period_contrib, rule)));
        }
        self.avg = SchedAvg {
            last_update_time,
            load_sum,
            runnable_sum,
            util_sum,
            period_contrib,
            load_avg,
            runnable_avg,
            util_avg,
        };
        Ok(())
    }

    fn update_se(&mut self, now_ns: u64, weight: u64, on_rq: bool, runnable: u64, running: bool) -> bool {
        self.avg.update_se(&self.table, self.form, now_ns, weight, u64::from(on_rq), runnable, running)
    }

    fn update_blocked_se(&mut self, now_ns: u64, weight: u64, runnable_weight: u64) -> bool {
        self.avg.update_blocked_se(&self.table, self.form, now_ns, weight, runnable_weight)
    }

    fn update_cfs_rq(&mut self, now_ns: u64, weight: u64, runnable: u64, running: bool) -> bool {
        self.avg.update_cfs_rq(&self.table, self.form, now_ns, weight, runnable, running)
    }

    /// Start values of a new task; the clock stays.
    fn init_entity(&mut self, weight: u64) {
        let last_update_time = self.avg.last_update_time;
        self.avg = SchedAvg { last_update_time, ..pelt::init_entity(weight, self.form) };
    }

    fn post_init_entity_util_avg(&mut self, cfs_rq: &Self, cpu_scale: u64, weight: u64) {
        pelt::post_init_entity_util_avg(&mut self.avg, &cfs_rq.avg, cpu_scale, weight, self.form);
    }

    /// Attaches `entity` to these signals of a cfs_rq.
    fn attach_entity(&mut self, entity: &mut Self, weight: u64) {
        pelt::attach_entity_load_avg(&mut self.avg, &mut entity.avg, weight, &self.table, self.form);
    }

    /// Detaches `entity` from these signals of a cfs_rq.
    fn detach_entity(&mut self, entity: &Self, weight: u64) {
        pelt::detach_entity_load_avg(&mut self.avg, &entity.avg, weight, self.form);
    }
}

/// Three equally long arrays: load_avg, runnable_avg, util_avg.
type SignalArrays<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>);

/// Signals of tasks over their histories.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one flat call for the whole job")]
pub fn pelt_trace_entities<'py>(
    py: Python<'py>,
    times_ns: PyReadonlyArray1<'py, u64>,
    states: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, usize>,
    weights: PyReadonlyArray1<'py, u64>,
    at_ns: Option<PyReadonlyArray1<'py, u64>>,
    tick_ns: Option<u64>,
    half_life_ms: u32,
    form: &str,
) -> PyResult<SignalArrays<'py>> {
    let (states, weights) = (states.as_slice()?, weights.as_slice()?);
    let (times_ns, offsets) = (times_ns.as_slice()?, offsets.as_slice()?);
    let at_ns = at_ns.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
    let timeline = Timeline { times_ns, offsets, at_ns, tick_ns };
    let form = form_of(form)?;
    let signals = py.detach(|| {
        PeltTable::new(half_life_ms)
            .and_then(|table| trace_entities(&table, form, &timeline, states, weights))
    });
    Ok(to_arrays(py, signals.map_err(to_py)?))
}

/// Signals of cfs_rqs over their histories.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one flat call for the whole job")]
pub fn pelt_trace_cfs_rqs<'py>(
    py: Python<'py>,
    times_ns: PyReadonlyArray1<'py, u64>,
    weights: PyReadonlyArray1<'py, u64>,
    runnable: PyReadonlyArray1<'py, u64>,
    running: PyReadonlyArray1<'py, bool>,
    offsets: PyReadonlyArray1<'py, usize>,
    at_ns: Option<PyReadonlyArray1<'py, u64>>,
    tick_ns: Option<u64>,
    half_life_ms: u32,
    form: &str,
) -> PyResult<SignalArrays<'py>> {
    let (weights, runnable, running) = (weights.as_slice()?, runnable.as_slice()?, running.as_slice()?);
    let (times_ns, offsets) = (times_ns.as_slice()?, offsets.as_slice()?);
    let at_ns = at_ns.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
    let timeline = Timeline { times_ns, offsets, at_ns, tick_ns };
    let form = form_of(form)?;
    let signals = py.detach(|| {
        PeltTable::new(half_life_ms)
            .and_then(|table| trace_cfs_rqs(&table, form, &timeline, weights, runnable, running))
    });
    Ok(to_arrays(py, signals.map_err(to_py)?))
}

/// (LOAD_AVG_MAX, LOAD_AVG_MAX_N, yN_inv) of a half-life.
#[pyfunction]
pub fn pelt_tables(py: Python<'_>, half_life_ms: u32) -> PyResult<(u32, u32, Bound<'_, PyArray1<u32>>)> {
    let table = PeltTable::new(half_life_ms).map_err(to_py)?;
    Ok((table.load_avg_max, table.load_avg_max_n, table.yn_inv.to_pyarray(py)))
}

/// Each value decayed over its number of periods.
#[pyfunction]
pub fn pelt_decay_load<'py>(
    py: Python<'py>,
    vals: PyReadonlyArray1<'py, u64>,
    ns: PyReadonlyArray1<'py, u64>,
    half_life_ms: u32,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let table = PeltTable::new(half_life_ms).map_err(to_py)?;
    let (vals, ns) = (vals.as_slice()?, ns.as_slice()?);
    let decayed: Vec<u64> =
        py.detach(|| vals.iter().zip(ns).map(|(&val, &n)| table.decay_load(val, n)).collect());
    Ok(decayed.into_pyarray(py))
}

/// Virtual time of each real time at its weight.
#[pyfunction]
pub fn calc_delta_fair<'py>(
    py: Python<'py>,
    deltas_ns: PyReadonlyArray1<'py, u64>,
    weights: PyReadonlyArray1<'py, u64>,
    inv_weights: PyReadonlyArray1<'py, u32>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let (deltas_ns, weights, inv_weights) =
        (deltas_ns.as_slice()?, weights.as_slice()?, inv_weights.as_slice()?);
    let virtual_ns: Vec<u64> = py.detach(|| {
        let weights = weights.iter().zip(inv_weights);
        let cases = deltas_ns.iter().zip(weights);
        cases.map(|(&delta, (&weight, &inv))| load_weight::calc_delta_fair(delta, weight, inv)).collect()
    });
    Ok(virtual_ns.into_pyarray(py))
}

/// (unscaled weight, inverse weight) of a nice level.
#[pyfunction]
pub fn nice_weight(nice: i32) -> PyResult<(u32, u32)> {
    let unscaled = load_weight::nice_weight(nice).map_err(to_py)?;
    Ok((unscaled, load_weight::LoadWeight::from_nice(nice).map_err(to_py)?.inv_weight))
}

fn to_arrays(py: Python<'_>, signals: Signals) -> SignalArrays<'_> {
    (
        signals.load_avg.into_pyarray(py),
        signals.runnable_avg.into_pyarray(py),
        signals.util_avg.into_pyarray(py),
    )
}

fn form_of(form: &str) -> PyResult<PeltForm> {
    match form {
        "modern" => Ok(PeltForm::Modern),
        "old" => Ok(PeltForm::Old),
        _ => Err(to_py(SimError::invalid("form", format!("{form:?}"), "must be \"modern\" or \"old\""))),
    }
}
