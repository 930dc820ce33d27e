//! What can go wrong, and whose fault it is.

use std::fmt;

/// Every error of the core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimError {
    /// The caller's input breaks a rule; nothing ran. Python raises `ValueError`.
    Invalid {
        /// The argument's public name, as the caller spells it (`machine.distance`, `groups`).
        argument: String,
        /// The offending value, as the caller would write it.
        value: String,
        /// The rule it breaks, as a sentence without a full stop.
        rule: String,
    },
    /// The run was told to stop; what it had done is lost, nothing else is.
    Interrupted,
    /// The simulator contradicts itself: our fault, the run is void. Python raises `AssertionError`.
    Invariant(String),
}

impl SimError {
    /// An `Invalid` error from its three parts.
    pub fn invalid(argument: impl Into<String>, value: impl fmt::Display, rule: impl Into<String>) -> Self {
        Self::Invalid { argument: argument.into(), value: value.to_string(), rule: rule.into() }
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { argument, value, rule } => write!(f, "{argument} = {value}: {rule}"),
            Self::Interrupted => write!(f, "interrupted"),
            Self::Invariant(what) => write!(f, "invariant broken: {what}"),
        }
    }
}

impl std::error::Error for SimError {}

/// The result of everything that can fail here.
pub type Result<T, E = SimError> = std::result::Result<T, E>;
