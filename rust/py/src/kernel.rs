//! Kernels, patches and slots by name.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_core::kernels::{Kernel, Origin, REGISTRY, patches};
use schedlab_core::scenario::KernelSpec;
use schedlab_core::sim::tunables::{Features, TunableSettings};

use crate::error::to_py;

/// Generations and patches: a dict each with `name`, `kind`, `base`, `source`, `summary` and `changes`, which is a line for
/// each slot that differs from the base's, with what changed.
#[pyfunction]
pub fn kernels() -> Vec<BTreeMap<&'static str, String>> {
    let row = |name: &str, kind: &str, base: Option<&Kernel>, of: &Kernel, source: &str, summary: &str| {
        let changed = |(slot, origin): &(&str, Origin)| {
            base.is_some_and(|base| !base.slots().contains(&(*slot, *origin)))
        };
        let changes: Vec<String> = (of.slots().iter().filter(|slot| changed(slot)))
            .map(|(slot, origin)| format!("{slot}: {}", origin.note()))
            .collect();
        BTreeMap::from([
            ("name", name.to_owned()),
            ("kind", kind.to_owned()),
            ("base", base.map_or_else(String::new, |base| base.name.to_owned())),
            ("source", source.to_owned()),
            ("summary", summary.to_owned()),
            ("changes", changes.join("\n")),
        ])
    };
    let bases = std::iter::once(None).chain(REGISTRY.iter().copied().map(Some));
    // Of two generations with different schedulers neither builds on the other.
    let same_scheduler = |kernel: &Kernel, base: &&Kernel| base.o1.is_some() == kernel.o1.is_some();
    let generations = REGISTRY.iter().zip(bases).map(|(kernel, base)| {
        let base = base.filter(|base| same_scheduler(kernel, base));
        row(kernel.name, "generation", base, kernel, kernel.source, kernel.summary)
    });
    let patches = patches::REGISTRY
        .iter()
        .map(|patch| row(patch.name, "patch", Some(patch.base), patch.patched, patch.source, patch.summary));
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

/// What the function in each slot of a kernel given as JSON decides, as against the table that its own builds on: slot to a
/// sentence, in the order of the tables.
#[pyfunction]
pub fn kernel_notes<'py>(py: Python<'py>, kernel_json: &str) -> PyResult<Bound<'py, PyDict>> {
    let kernel = KernelSpec::from_json(kernel_json).and_then(|spec| spec.kernel()).map_err(to_py)?;
    let notes = PyDict::new(py);
    for (slot, origin) in kernel.slots() {
        notes.set_item(slot, origin.note())?;
    }
    Ok(notes)
}

/// Tunables: name, description.
#[pyfunction]
pub fn tunable_table() -> Vec<(&'static str, &'static str)> {
    TunableSettings::TABLE.iter().map(|&(name, doc)| (name, doc.trim())).collect()
}

/// Scheduler features: name, default, description.
#[pyfunction]
pub fn feature_table() -> Vec<(&'static str, bool, &'static str)> {
    Features::TABLE.iter().map(|&(name, default, doc)| (name, default, doc.trim())).collect()
}
