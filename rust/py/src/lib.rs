//! The extension module `schedlab._core`: conversions between Python and `schedlab-core`, no arithmetic.

use pyo3::prelude::*;

mod error;
mod topology;

/// The private extension module; the public names live in the Python package.
#[pymodule]
mod _core {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::topology::{domains_json, validate_machine};
}
