//! Machines and their sched domains.

use pyo3::prelude::*;
use schedlab_core::topology::MachineSpec;
use schedlab_core::topology::describe;

use crate::error::to_py;

/// The sched domains that a kernel builds on a machine, as JSON.
#[pyfunction]
pub fn domains_json(py: Python<'_>, machine_json: &str, kernel: &str) -> PyResult<String> {
    py.detach(|| describe::domains_json(&MachineSpec::from_json(machine_json)?, kernel)).map_err(to_py)
}

/// Raises `ValueError` with argument, value and rule unless the JSON is a machine that can be.
#[pyfunction]
pub fn validate_machine(machine_json: &str) -> PyResult<()> {
    MachineSpec::from_json(machine_json).map(drop).map_err(to_py)
}
