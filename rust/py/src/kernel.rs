//! Kernels, patches and slots by name.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_core::kernels::{REGISTRY, patches};
use schedlab_core::scenario::KernelSpec;
use schedlab_core::sim::tunables::Features;

use crate::error::to_py;

/// Generations and patches: a dict each with `name`, `kind`, `base`, `source`, `summary`.
#[pyfunction]
pub fn kernels() -> Vec<BTreeMap<&'static str, &'static str>> {
    let row = |name, kind, base, source, summary| {
        BTreeMap::from([
            ("name", name),
            ("kind", kind),
            ("base", base),
            ("source", source),
            ("summary", summary),
        ])
    };
    let generations =
        REGISTRY.iter().map(|kernel| row(kernel.name, "generation", "", kernel.source, kernel.summary));
    let patches = patches::REGISTRY
        .iter()
        .map(|patch| row(patch.name, "patch", patch.base.name, patch.source, patch.summary));
    generations.chain(patches).collect()
}

/// Which function fills each slot of a kernel given as JSON: slot to `module::function`, in the order of the tables.
#[pyfunction]
pub fn kernel_slots<'py>(py: Python<'py>, kernel_json: &str) -> PyResult<Bound<'py, PyDict>> {
    let spec = KernelSpec::from_json(kernel_json).map_err(to_py)?;
    spec.validate().map_err(to_py)?;
    let kernel = spec.kernel().map_err(to_py)?;
    let slots = PyDict::new(py);
    for (slot, origin) in kernel.slots() {
        slots.set_item(slot, origin.to_string())?;
    }
    Ok(slots)
}

/// Scheduler features: name, default, description.
#[pyfunction]
pub fn feature_table() -> Vec<(&'static str, bool, &'static str)> {
    Features::TABLE.iter().map(|&(name, default, doc)| (name, default, doc.trim())).collect()
}
