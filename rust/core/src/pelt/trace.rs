//! Whole activation histories at once: the signals of many entities or queues at their changes or at given times.
//!
//! Histories lie behind each other in flat arrays; history `i` is `offsets[i]..offsets[i + 1]`. Each starts with zero
//! signals at its first time. Each is aged at its changes, as the kernel does on enqueue, dequeue and switch, and at the
//! ticks that fall into its running time. Samples are taken on a copy: they never disturb what comes after.

use rayon::prelude::*;

use super::{PeltForm, PeltTable, SchedAvg};
use crate::error::{Result, SimError};

/// Shorter ticks could not change anything: the signals count in units of 1024 ns.
const MIN_TICK_NS: u64 = 1024;

/// What a task does from one change to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ActivationState {
    /// Not on a queue.
    Sleeping = 0,
    /// Queued, waiting.
    Runnable = 1,
    /// On a CPU.
    Running = 2,
}

/// When the histories change, when their CPUs tick, and when to look.
#[derive(Clone, Copy, Debug)]
pub struct Timeline<'a> {
    /// Time of each change, ns, never decreasing within a history.
    pub times_ns: &'a [u64],
    /// Where each history begins, and the end of the last.
    pub offsets: &'a [usize],
    /// Times to sample every history at, ns, never decreasing; `None` samples each at its own changes.
    pub at_ns: Option<&'a [u64]>,
    /// Tick period, ns: a running history is also aged at every multiple of it. `None` = no ticks.
    pub tick_ns: Option<u64>,
}

/// The sampled averages, history by history.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Signals {
    /// `load_avg`.
    pub load_avg: Vec<u64>,
    /// `runnable_avg`; in the old form `runnable_load_avg`.
    pub runnable_avg: Vec<u64>,
    /// `util_avg`.
    pub util_avg: Vec<u64>,
}

/// kernel/sched/pelt.c, __update_load_avg_se() and __update_load_avg_blocked_se() over the histories of tasks.
///
/// `states` says what each task does from each change on ([`ActivationState`] as numbers); `weights` holds its scaled
/// `load.weight`, one per history.
pub fn trace_entities(
    table: &PeltTable,
    form: PeltForm,
    timeline: &Timeline<'_>,
    states: &[u8],
    weights: &[u64],
) -> Result<Signals> {
    const RUNNING: u8 = ActivationState::Running as u8;
    same_length("states", states.len(), "times", timeline.times_ns.len())?;
    same_length("weight", weights.len(), "histories", timeline.offsets.len().saturating_sub(1))?;
    if let Some(state) = states.iter().find(|&&state| state > RUNNING) {
        return Err(SimError::invalid("states", state, "must be 0 (sleeping), 1 (runnable) or 2 (running)"));
    }
    trace(
        timeline,
        |idx| states[idx] == RUNNING,
        |avg, history, idx, now| {
            let (state, weight) = (states[idx], weights[history]);
            let on_rq = u64::from(state != ActivationState::Sleeping as u8);
            let runnable = match form {
                PeltForm::Modern => on_rq,
                PeltForm::Old => weight,
            };
            avg.update_se(table, form, now, weight, on_rq, runnable, state == RUNNING);
        },
    )
}

/// kernel/sched/pelt.c, __update_load_avg_cfs_rq() over the histories of cfs_rqs.
///
/// From each change on: `weights` is the queue's scaled `load.weight`, `runnable` its number of runnable tasks (the old
/// form: its scaled `runnable_weight`), `running` whether one of them has the CPU.
pub fn trace_cfs_rqs(
    table: &PeltTable,
    form: PeltForm,
    timeline: &Timeline<'_>,
    weights: &[u64],
    runnable: &[u64],
    running: &[bool],
) -> Result<Signals> {
    let changes = timeline.times_ns.len();
    same_length("weight", weights.len(), "times", changes)?;
    same_length("runnable", runnable.len(), "times", changes)?;
    same_length("running", running.len(), "times", changes)?;
    trace(
        timeline,
        |idx| running[idx],
        |avg, _, idx, now| {
            avg.update_cfs_rq(table, form, now, weights[idx], runnable[idx], running[idx]);
        },
    )
}

/// Walks every history; `age` brings its signals to a time under the conditions of change `idx`.
fn trace(
    timeline: &Timeline<'_>,
    running: impl Fn(usize) -> bool + Sync,
    age: impl Fn(&mut SchedAvg, usize, usize, u64) + Sync,
) -> Result<Signals> {
    timeline.validate()?;
    let nr_histories = timeline.offsets.len() - 1;
    let nr_samples = timeline.at_ns.map_or(timeline.times_ns.len(), |at_ns| at_ns.len() * nr_histories);
    let mut signals = Signals {
        load_avg: vec![0; nr_samples],
        runnable_avg: vec![0; nr_samples],
        util_avg: vec![0; nr_samples],
    };
    timeline.split(&mut signals).into_par_iter().enumerate().for_each(|(history, mut out)| {
        let (begin, end) = (timeline.offsets[history], timeline.offsets[history + 1]);
        let mut walk = Walk {
            avg: SchedAvg {
                last_update_time: timeline.times_ns.get(begin).copied().unwrap_or(0),
                ..SchedAvg::default()
            },
            tick_ns: timeline.tick_ns,
        };
        let mut samples = timeline.at_ns.unwrap_or(&[]);
        for idx in begin..end {
            let now = timeline.times_ns[idx];
            if idx > begin {
                let from = timeline.times_ns[idx - 1];
                let before = samples.partition_point(|&at| at < now);
                for &at in &samples[..before] {
                    let mut copy = walk;
                    if at >= from {
                        copy.to(from, at, running(idx - 1), |avg, now| age(avg, history, idx - 1, now));
                    }
                    out.push(&copy.avg);
                }
                samples = &samples[before..];
                walk.to(from, now, running(idx - 1), |avg, now| age(avg, history, idx - 1, now));
            } else {
                let before = samples.partition_point(|&at| at < now);
                for _ in 0..before {
                    out.push(&walk.avg);
                }
                samples = &samples[before..];
            }
            if timeline.at_ns.is_none() {
                out.push(&walk.avg);
            }
        }
        for &at in samples {
            let mut copy = walk;
            if begin < end {
                copy.to(timeline.times_ns[end - 1], at, running(end - 1), |avg, now| {
                    age(avg, history, end - 1, now);
                });
            }
            out.push(&copy.avg);
        }
    });
    Ok(signals)
}

/// One history's signals on their way through time.
#[derive(Clone, Copy)]
struct Walk {
    avg: SchedAvg,
    tick_ns: Option<u64>,
}

impl Walk {
    /// Ages the signals over `from..now`, at the ticks between if the history is running.
    #[inline]
    fn to(&mut self, from: u64, now: u64, running: bool, age: impl Fn(&mut SchedAvg, u64)) {
        if let Some(tick_ns) = self.tick_ns.filter(|_| running) {
            let mut tick = (from / tick_ns + 1).saturating_mul(tick_ns);
            while tick < now {
                age(&mut self.avg, tick);
                tick = tick.saturating_add(tick_ns);
            }
        }
        age(&mut self.avg, now);
    }
}

/// Where the samples of one history go.
struct Out<'a> {
    load_avg: &'a mut [u64],
    runnable_avg: &'a mut [u64],
    util_avg: &'a mut [u64],
    len: usize,
}

impl Out<'_> {
    #[inline]
    fn push(&mut self, avg: &SchedAvg) {
        self.load_avg[self.len] = avg.load_avg;
        self.runnable_avg[self.len] = avg.runnable_avg;
        self.util_avg[self.len] = avg.util_avg;
        self.len += 1;
    }
}

impl Timeline<'_> {
    /// Everything that the walk relies on.
    fn validate(&self) -> Result<()> {
        let changes = self.times_ns.len();
        let bounded = self.offsets.first() == Some(&0) && self.offsets.last() == Some(&changes);
        if !bounded || !self.offsets.is_sorted() {
            let rule = format!("must rise from 0 to the number of changes, {changes}");
            return Err(SimError::invalid("offsets", format!("{:?}", Short(self.offsets)), rule));
        }
        for bounds in self.offsets.windows(2) {
            never_decreasing("times", &self.times_ns[bounds[0]..bounds[1]])?;
        }
        never_decreasing("at", self.at_ns.unwrap_or(&[]))?;
        match self.tick_ns {
            Some(tick_ns @ ..MIN_TICK_NS) => {
                Err(SimError::invalid("tick_ns", tick_ns, format!("must be at least {MIN_TICK_NS}")))
            }
            _ => Ok(()),
        }
    }

    /// The samples' places, one piece a history.
    fn split<'s>(&self, signals: &'s mut Signals) -> Vec<Out<'s>> {
        let mut load_avg = signals.load_avg.as_mut_slice();
        let mut runnable_avg = signals.runnable_avg.as_mut_slice();
        let mut util_avg = signals.util_avg.as_mut_slice();
        let mut pieces = Vec::with_capacity(self.offsets.len() - 1);
        for bounds in self.offsets.windows(2) {
            let len = self.at_ns.map_or(bounds[1] - bounds[0], <[u64]>::len);
            pieces.push(Out {
                load_avg: load_avg.split_off_mut(..len).unwrap_or_default(),
                runnable_avg: runnable_avg.split_off_mut(..len).unwrap_or_default(),
                util_avg: util_avg.split_off_mut(..len).unwrap_or_default(),
                len: 0,
            });
        }
        pieces
    }
}

/// An array in an error message: its ends if it is long.
struct Short<'a>(&'a [usize]);

impl std::fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [first, second, .., last] if self.0.len() > 8 => write!(f, "[{first}, {second}, ..., {last}]"),
            all => write!(f, "{all:?}"),
        }
    }
}

fn never_decreasing(argument: &str, times_ns: &[u64]) -> Result<()> {
    match times_ns.windows(2).find(|pair| pair[0] > pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let value = format!("..., {}, {}, ...", pair[0], pair[1]);
            Err(SimError::invalid(argument, value, "must not decrease within a history"))
        }
    }
}

fn same_length(argument: &str, len: usize, of: &str, expected: usize) -> Result<()> {
    if len == expected {
        return Ok(());
    }
    Err(SimError::invalid(argument, format!("{len} values"), format!("must be as many as {of}, {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_weight::NICE_0_LOAD;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn table() -> PeltTable {
        PeltTable::new(32).expect("the kernel's half-life")
    }

    fn timeline<'a>(times_ns: &'a [u64], offsets: &'a [usize]) -> Timeline<'a> {
        Timeline { times_ns, offsets, at_ns: None, tick_ns: None }
    }

    #[test]
    fn a_trace_is_the_entity_step_by_step() {
        let times = [5 * MS, 6 * MS, 9 * MS, 9 * MS + 500, 40 * MS];
        let states = [2, 1, 2, 0, 1];
        let signals =
            trace_entities(&table(), PeltForm::Modern, &timeline(&times, &[0, 5]), &states, &[NICE_0_LOAD])
                .expect("a valid history");
        let mut avg = SchedAvg { last_update_time: times[0], ..SchedAvg::default() };
        let mut expected = vec![avg];
        for (idx, &now) in times.iter().enumerate().skip(1) {
            let state = states[idx - 1];
            let on_rq = u64::from(state > 0);
            avg.update_se(&table(), PeltForm::Modern, now, NICE_0_LOAD, on_rq, on_rq, state == 2);
            expected.push(avg);
        }
        assert_eq!(signals.util_avg, expected.iter().map(|avg| avg.util_avg).collect::<Vec<_>>());
        assert_eq!(signals.load_avg, expected.iter().map(|avg| avg.load_avg).collect::<Vec<_>>());
        assert_eq!(signals.runnable_avg, expected.iter().map(|avg| avg.runnable_avg).collect::<Vec<_>>());
        assert!(signals.util_avg[4] > 0);
    }

    #[test]
    fn samples_before_between_and_after_the_changes() {
        let (times, at) = ([10 * MS, 20 * MS], [0, 10 * MS, 15 * MS, 20 * MS, 52 * MS]);
        let timeline = Timeline { at_ns: Some(&at), ..timeline(&times, &[0, 2]) };
        let signals = trace_entities(&table(), PeltForm::Modern, &timeline, &[2, 0], &[NICE_0_LOAD])
            .expect("a valid history");
        let util = signals.util_avg;
        assert_eq!(util[..2], [0, 0]);
        assert!(0 < util[2] && util[2] < util[3] && util[4] < util[3]);
    }

    #[test]
    fn a_history_without_changes_has_no_signal() {
        let timeline = Timeline { at_ns: Some(&[1, 2]), ..timeline(&[], &[0, 0]) };
        let signals = trace_entities(&table(), PeltForm::Modern, &timeline, &[], &[NICE_0_LOAD])
            .expect("a valid history");
        assert_eq!(signals.load_avg, [0, 0]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let run = |timeline: &Timeline<'_>, states: &[u8], weights: &[u64]| match trace_entities(
            &table(),
            PeltForm::Modern,
            timeline,
            states,
            weights,
        ) {
            Err(SimError::Invalid { argument, .. }) => argument,
            other => panic!("{other:?}"),
        };
        assert_eq!(run(&timeline(&[2, 1], &[0, 2]), &[0, 0], &[1]), "times");
        assert_eq!(run(&timeline(&[1, 2], &[0, 3]), &[0, 0], &[1]), "offsets");
        assert_eq!(run(&timeline(&[1, 2], &[0, 2, 1, 2]), &[0, 0], &[1, 1, 1]), "offsets");
        assert_eq!(run(&timeline(&[1, 2], &[]), &[0, 0], &[]), "offsets");
        assert_eq!(run(&timeline(&[1, 2], &[0, 2]), &[0, 3], &[1]), "states");
        assert_eq!(run(&timeline(&[1, 2], &[0, 2]), &[0], &[1]), "states");
        assert_eq!(run(&timeline(&[1, 2], &[0, 2]), &[0, 0], &[1, 2]), "weight");
        let ticking = Timeline { tick_ns: Some(1023), ..timeline(&[1, 2], &[0, 2]) };
        assert_eq!(run(&ticking, &[0, 0], &[1]), "tick_ns");
        let sampled = Timeline { at_ns: Some(&[5, 4]), ..timeline(&[1, 2], &[0, 2]) };
        assert_eq!(run(&sampled, &[0, 0], &[1]), "at");
    }

    proptest! {
        /// A queue with one task on it, always, has the task's signals, and samples at the changes are the changes.
        #[test]
        fn one_task_is_its_queue(
            steps in prop::collection::vec((0_u64..20 * MS, 1_u8..=2), 1..50),
            tick_ns in prop_oneof![Just(None), Just(Some(MS)), Just(Some(4 * MS))],
        ) {
            let times: Vec<u64> = steps.iter().scan(0, |now, &(delta, _)| { *now += delta; Some(*now) }).collect();
            let states: Vec<u8> = steps.iter().map(|&(_, state)| state).collect();
            let offsets = [0, times.len()];
            let timeline = Timeline { tick_ns, ..timeline(&times, &offsets) };
            let task = trace_entities(&table(), PeltForm::Modern, &timeline, &states, &[NICE_0_LOAD]).unwrap();

            let running: Vec<bool> = states.iter().map(|&state| state == 2).collect();
            let weights = vec![NICE_0_LOAD; times.len()];
            let runnable = vec![1; times.len()];
            let queue =
                trace_cfs_rqs(&table(), PeltForm::Modern, &timeline, &weights, &runnable, &running).unwrap();
            prop_assert_eq!(&task.util_avg, &queue.util_avg);
            prop_assert_eq!(&task.runnable_avg, &queue.runnable_avg);

            let mut distinct = times.clone();
            distinct.dedup();
            let sampled = Timeline { at_ns: Some(&distinct), ..timeline };
            let sampled = trace_entities(&table(), PeltForm::Modern, &sampled, &states, &[NICE_0_LOAD]).unwrap();
            let at_changes: Vec<u64> = distinct
                .iter()
                .map(|&now| task.load_avg[times.partition_point(|&time| time <= now) - 1])
                .collect();
            prop_assert_eq!(sampled.load_avg, at_changes);
        }
    }
}
