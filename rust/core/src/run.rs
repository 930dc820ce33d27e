//! The main path: a scenario and seeds in, what the runs recorded out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::error::{Result, SimError};
use crate::record::derived::{Derived, TraceSubject, derive};
use crate::record::{Record, Trace};
use crate::scenario::Scenario;
use crate::sim::{self, Log};

/// Lets another thread watch and stop a batch of runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Runs that have ended.
    pub done: AtomicUsize,
    /// Set it to stop: running runs end soon, and the batch with [`SimError::Interrupted`].
    pub stop: AtomicBool,
}

/// Runs a scenario under each seed, on `threads` threads; the records come in the order of the seeds.
///
/// A record depends on scenario and seed only: not on the threads, nor on the other seeds.
pub fn run_seeds(
    scenario: &Scenario,
    seeds: &[u64],
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Record>> {
    for_seeds(scenario, seeds, threads, progress, Log::default(), |record| record)
}

/// Runs a scenario under one seed and returns what ran where.
pub fn trace_seed(scenario: &Scenario, seed: u64) -> Result<Trace> {
    let setup = scenario.setup()?;
    let record = sim::run(&setup, seed, Log { trace: true }, &AtomicBool::new(false))?;
    Ok(record.trace.unwrap_or_default())
}

/// Like [`run_seeds`], for the measures of what ran where; the last `nr_background` entries of the workload run, but are not
/// measured. Errors beyond its own: the workload is not one of tasks.
pub fn derive_seeds(
    scenario: &Scenario,
    nr_background: usize,
    seeds: &[u64],
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Derived>> {
    let subject = TraceSubject::of_scenario(scenario, nr_background)?;
    let derived = |record: Record| derive(&record.trace.unwrap_or_default(), &subject);
    for_seeds(scenario, seeds, threads, progress, Log { trace: true }, derived)
}

/// Runs each seed and keeps what `outcome` makes of its record.
fn for_seeds<T: Send>(
    scenario: &Scenario,
    seeds: &[u64],
    threads: usize,
    progress: &Progress,
    log: Log,
    outcome: impl Fn(Record) -> T + Sync,
) -> Result<Vec<T>> {
    let setup = scenario.setup()?;
    let run = |&seed: &u64| {
        if progress.stop.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted);
        }
        let record = sim::run(&setup, seed, log, &progress.stop);
        progress.done.fetch_add(1, Ordering::Relaxed);
        record.map(&outcome)
    };
    if threads == 1 || seeds.len() < 2 {
        return seeds.iter().map(run).collect();
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| SimError::invalid("threads", threads, error.to_string()))?;
    // One seed a task: a long run does not hold others back. Collecting keeps the order.
    pool.install(|| seeds.par_iter().with_max_len(1).map(run).collect())
}
