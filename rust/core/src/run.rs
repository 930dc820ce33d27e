//! The main path: a scenario and seeds in, what the runs recorded out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::error::{Result, SimError};
use crate::measure::{Derived, TraceSubject, derive};
use crate::record::decisions::{Decision, Kinds, Wanted};
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
    let record = sim::run(&setup, seed, Log { trace: true, ..Log::default() }, &AtomicBool::new(false))?;
    Ok(record.trace.unwrap_or_default())
}

/// Runs a scenario under one seed and returns its decisions of some kinds; the run ends after the event in which so
/// many are made.
pub fn decisions(
    scenario: &Scenario,
    seed: u64,
    wanted: Wanted,
    progress: &Progress,
) -> Result<Vec<Decision>> {
    let log = Log { decisions: Some(wanted), ..Log::default() };
    let record = sim::run(&scenario.setup()?, seed, log, &progress.stop)?;
    Ok(record.decisions.map_or_else(Vec::new, |decisions| decisions.made))
}

/// Where two runs of the same work part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Parting {
    /// Decisions that both runs make alike before.
    pub alike: usize,
    /// The first run's next decision; `None` = it has ended.
    pub a: Option<Decision>,
    /// The second run's.
    pub b: Option<Decision>,
}

/// Decisions that the search for a parting looks at first; if it finds none it looks at [`SEARCH_GROWTH`] times as many.
const SEARCH_START: usize = 4096;
/// Growth of the search.
const SEARCH_GROWTH: usize = 8;
/// Most decisions that the search keeps of a run; beyond, the runs are made again for the next ones.
const SEARCH_MOST: usize = 1 << 20;

/// The first decision in which two scenarios of the same machine and work part under one seed. Errors beyond those of
/// the scenarios: machine, costs or work differ.
pub fn first_difference(a: &Scenario, b: &Scenario, seed: u64, progress: &Progress) -> Result<Parting> {
    let same = a.machine == b.machine && a.costs == b.costs && a.workload == b.workload;
    if !same {
        let rule = "must be of the same machine and the same work as a";
        return Err(SimError::invalid("b", format!("{:?}", b.kernel.name), rule));
    }
    let (mut skip, mut limit) = (0, SEARCH_START);
    loop {
        let wanted = Wanted { skip, limit, kinds: Kinds::All };
        let of_a = decisions(a, seed, wanted, progress)?;
        let of_b = decisions(b, seed, wanted, progress)?;
        let parts = of_a.iter().zip(&of_b).position(|(a, b)| a.parts_from(b));
        let both = of_a.len().min(of_b.len());
        let at = parts.unwrap_or(both);
        if parts.is_some() || both < limit {
            return Ok(Parting { alike: skip + at, a: of_a.get(at).cloned(), b: of_b.get(at).cloned() });
        }
        // What both have made alike need not be kept.
        skip += both;
        limit = (limit * SEARCH_GROWTH).min(SEARCH_MOST);
    }
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
    for_seeds(scenario, seeds, threads, progress, Log { trace: true, ..Log::default() }, derived)
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
