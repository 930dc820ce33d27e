//! Errors of the core as Python exceptions.

use pyo3::PyErr;
use pyo3::exceptions::{PyAssertionError, PyKeyboardInterrupt, PyValueError};
use schedlab_core::SimError;

/// The exception that stands for an error of the core.
pub fn to_py(error: SimError) -> PyErr {
    let message = error.to_string();
    match error {
        SimError::Invalid { .. } => PyValueError::new_err(message),
        SimError::Interrupted => PyKeyboardInterrupt::new_err(message),
        SimError::Invariant(_) => PyAssertionError::new_err(message),
    }
}
