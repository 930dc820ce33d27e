//! The main path: a scenario and seeds in, what the runs recorded out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::error::{Result, SimError};
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
    let setup = scenario.setup()?;
    let run = |&seed: &u64| {
        if progress.stop.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted);
        }
        let record = sim::run(&setup, seed, Log::default(), &progress.stop);
        progress.done.fetch_add(1, Ordering::Relaxed);
        record
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

/// Runs a scenario under one seed and returns what ran where.
pub fn trace_seed(scenario: &Scenario, seed: u64) -> Result<Trace> {
    let setup = scenario.setup()?;
    let record = sim::run(&setup, seed, Log { trace: true }, &AtomicBool::new(false))?;
    Ok(record.trace.unwrap_or_default())
}
