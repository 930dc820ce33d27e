//! The extension module `schedlab._core`: conversions between Python and `schedlab-core`, no arithmetic.

use pyo3::prelude::*;

/// The private extension module; the public names live in the Python package.
#[pymodule]
mod _core {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
