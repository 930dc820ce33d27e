//! The extension module `schedlab._core`: conversions between Python and `schedlab-core`, no arithmetic.

use pyo3::prelude::*;

mod balance;
mod decisions;
mod error;
mod kernel;
mod pelt;
mod recordings;
mod simulate;
mod topology;
mod verify;

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

    #[pymodule_export]
    use crate::decisions::{decision_log, parting};

    #[pymodule_export]
    use crate::kernel::{feature_table, kernel_notes, kernel_slots, kernels, tunable_table};

    #[pymodule_export]
    use crate::pelt::{
        PeltState, calc_delta_fair, nice_weight, pelt_decay_load, pelt_tables, pelt_trace_cfs_rqs,
        pelt_trace_entities,
    };

    #[pymodule_export]
    use crate::recordings::{simulate_derived, simulate_trace};

    #[pymodule_export]
    use crate::simulate::{
        cost_table, default_costs, metric_table, simulate, validate_costs, validate_scenario,
    };

    #[pymodule_export]
    use crate::topology::{domains_json, validate_machine};

    #[pymodule_export]
    use crate::verify::verify_text;
}
