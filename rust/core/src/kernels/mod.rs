//! Policy: the kernel generations, each a table of slots.

pub mod env;

/// A kernel generation: the table of everything that generations and patches may replace.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Name, as `sl.Kernel(name)` takes it.
    pub name: &'static str,
}
