//! The core of schedlab: a simulator of the Linux fair scheduler and its load balancing.
//!
//! Reading order: [`topology`] describes a machine and builds its sched domains; [`workload`] says what tasks do;
//! [`kernels`] holds the policy of each kernel generation as a table of slots; [`run`] puts the three together and
//! runs many seeds; [`sim`] is the mechanism that all generations share; [`record`] is what a run remembers.
//!
//! A run is a pure function of (scenario, seed): the same bytes on any host and any number of threads.

pub mod balance;
pub mod cpumask;
pub mod error;
pub mod group;
pub mod kernels;
pub mod load_weight;
pub mod loadavg;
pub mod measure;
pub mod pelt;
pub mod record;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod sim;
pub mod topology;
pub mod verify;
pub mod workload;

pub use error::{Result, SimError};
