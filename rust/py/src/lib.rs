//! The extension module `schedlab._core`: conversions between Python and `schedlab-core`, no arithmetic.

use pyo3::prelude::*;

mod balance;
mod error;

/// The private extension module; the public names live in the Python package.
#[pymodule]
mod _core {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::balance::{
        balance_calculate_imbalance, balance_classify, balance_codes, balance_decide, balance_wake_affine,
        balance_wake_wide,
    };
}
