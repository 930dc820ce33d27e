//! Replay of vector files.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_core::verify::check_lines;

/// Replays the (decompressed) content of a vector file; bytes that are no UTF-8 make their case fail.
#[pyfunction]
pub fn verify_text<'py>(py: Python<'py>, file_name: &str, data: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let report = py.detach(|| check_lines(file_name, &String::from_utf8_lossy(data)));
    let dict = PyDict::new(py);
    dict.set_item("family", report.family)?;
    dict.set_item("modelled", report.modelled)?;
    dict.set_item("cases", report.cases)?;
    dict.set_item("failed", report.failed)?;
    dict.set_item("first_failures", report.first_failures)?;
    Ok(dict)
}
