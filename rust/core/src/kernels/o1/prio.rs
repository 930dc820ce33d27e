//! Priorities and timeslices of the O(1) scheduler.
//!
//! Sleeping earns a task up to 5 priorities, running costs it up to 5. A task whose bonus is large enough for its nice
//! value is interactive: it goes back to the active array when its timeslice is used up, unless others wait too long.
//! Times of sleep are in ns, timeslices in jiffies; `hz` is the kernel's HZ, 100 or more.

use super::O1;

/// One more than the worst real-time priority.
const MAX_RT_PRIO: i32 = 100;
/// One more than the worst priority.
const MAX_PRIO: i32 = 140;
/// Number of priorities of ordinary tasks.
const MAX_USER_PRIO: u64 = 40;
/// Span of the bonus, half of it above and half below the static priority.
const MAX_BONUS: u64 = 10;
/// Bonus at which a task of nice 0 becomes interactive.
const INTERACTIVE_DELTA: i32 = 2;
/// What of its parent's sleep average a child gets, in per cent.
pub const CHILD_PENALTY_PCT: u64 = 95;
/// What of its sleep average a parent keeps at fork, in per cent.
pub const PARENT_PENALTY_PCT: u64 = 100;

/// What the scheduler keeps of an ordinary task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrioTask {
    /// Priority by nice: 100 for nice -20, 120 for 0, 139 for 19.
    pub static_prio: i32,
    /// Priority at present, 100 to 139.
    pub prio: i32,
    /// Sleep average, ns.
    pub sleep_avg_ns: u64,
    /// What is left of the timeslice, jiffies.
    pub time_slice: u32,
    /// It has an address space (is no kernel thread).
    pub user: bool,
    /// It wakes from uninterruptible sleep, most likely I/O.
    pub uninterruptible: bool,
    /// SCHED_BATCH: sleeping earns it nothing.
    pub batch: bool,
}

/// What a tick knows of the tasks that wait in the expired array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiredArray {
    /// Jiffies since the first task expired; `None` if none did.
    pub waited_jiffies: Option<u64>,
    /// Runnable tasks of the runqueue.
    pub nr_running: u64,
    /// Best static priority in the array; 140 if it is empty.
    pub best_static_prio: i32,
}

/// What a tick does with the running task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TaskTick {
    /// It goes on.
    Continue,
    /// It goes behind the other tasks of its priority: a piece of its timeslice is over.
    Requeue,
    /// Its timeslice is used up and renewed, and it goes to the end of its list in the active array.
    RenewActive,
    /// Its timeslice is used up and renewed, and it goes to the expired array.
    Expire,
}

/// kernel/sched.c, 2.6.15, scheduler_tick(), for an ordinary task in the active array.
pub fn scheduler_tick(
    kernel: &O1,
    task: &mut PrioTask,
    expired: &ExpiredArray,
    nr_cpus: u32,
    hz: u64,
) -> TaskTick {
    let timeslice = (kernel.task_timeslice.f)(task.static_prio, hz);
    task.time_slice = task.time_slice.saturating_sub(1);
    if task.time_slice == 0 {
        task.prio = (kernel.effective_prio.f)(task.static_prio, current_bonus(task, hz));
        task.time_slice = timeslice;
        let keeps_active = is_interactive(task) && !expired_starving(task, expired, hz);
        return if keeps_active { TaskTick::RenewActive } else { TaskTick::Expire };
    }
    // Interactive tasks of one priority take turns within their timeslices.
    let granularity = timeslice_granularity(task, nr_cpus, hz);
    let left = u64::from(task.time_slice);
    // The kernel's unsigned difference: a timeslice got from a child may exceed the task's own.
    let used = u64::from(timeslice.wrapping_sub(task.time_slice));
    if is_interactive(task) && used.is_multiple_of(granularity) && left >= granularity {
        TaskTick::Requeue
    } else {
        TaskTick::Continue
    }
}

/// kernel/sched.c, 2.6.15, EXPIRED_STARVING(): whether expired tasks have waited too long, or a better one waits.
fn expired_starving(task: &PrioTask, expired: &ExpiredArray, hz: u64) -> bool {
    let limit = max_sleep_avg(hz) * expired.nr_running + 1;
    expired.waited_jiffies.is_some_and(|waited| waited >= limit)
        || task.static_prio > expired.best_static_prio
}

/// kernel/sched.c, 2.6.15, TASK_INTERACTIVE(): whether the bonus suffices for the nice value.
pub fn is_interactive(task: &PrioTask) -> bool {
    task.prio <= task.static_prio - interactive_delta(task)
}

/// kernel/sched.c, 2.6.15, DELTA(): the bonus that makes interactive, from -3 for nice -20 to 6 for nice 19.
fn interactive_delta(task: &PrioTask) -> i32 {
    nice_of(task.static_prio) * MAX_BONUS as i32 / MAX_USER_PRIO as i32 + INTERACTIVE_DELTA
}

/// kernel/sched.c, 2.6.15, TIMESLICE_GRANULARITY(), jiffies: longer on larger machines and for tasks that slept less.
pub fn timeslice_granularity(task: &PrioTask, nr_cpus: u32, hz: u64) -> u64 {
    let granularity = (10 * hz / 1000).max(1);
    let doublings = MAX_BONUS.saturating_sub(current_bonus(task, hz)).max(1) - 1;
    (granularity << doublings) * u64::from(nr_cpus.max(1))
}

/// kernel/sched.c, 2.6.15, effective_prio(), for an ordinary task.
pub fn effective_prio(static_prio: i32, bonus: u64) -> i32 {
    let bonus = bonus as i32 - MAX_BONUS as i32 / 2;
    (static_prio - bonus).clamp(MAX_RT_PRIO, MAX_PRIO - 1)
}

/// kernel/sched.c, 2.6.15, recalc_task_prio().
pub fn recalc_task_prio(task: &mut PrioTask, slept_ns: u64, hz: u64) {
    let max_ns = jiffies_to_ns(max_sleep_avg(hz), hz);
    let slept_ns = if task.batch { 0 } else { slept_ns.min(max_ns) };
    let interactive_ns = interactive_sleep_ns(task, hz);
    if slept_ns > 0 {
        if task.user && !task.uninterruptible && slept_ns > interactive_ns {
            // A long sleep says little of how the task behaves: just interactive.
            task.sleep_avg_ns = jiffies_to_ns(max_sleep_avg(hz) - def_timeslice(hz), hz);
        } else {
            // The lower the average, the faster it rises.
            let earned_ns = slept_ns * MAX_BONUS.saturating_sub(current_bonus(task, hz)).max(1);
            let risen_ns = task.sleep_avg_ns + earned_ns;
            // Sleep for I/O makes interactive, and no more than that.
            let is_capped = task.user && task.uninterruptible && risen_ns >= interactive_ns;
            task.sleep_avg_ns = if is_capped { task.sleep_avg_ns.max(interactive_ns) } else { risen_ns };
            task.sleep_avg_ns = task.sleep_avg_ns.min(max_ns);
        }
    }
    task.prio = effective_prio(task.static_prio, current_bonus(task, hz));
}

/// kernel/sched.c, 2.6.15, INTERACTIVE_SLEEP(), ns: a sleep after which a task is interactive. From nice 16 on it exceeds
/// any sleep average.
fn interactive_sleep_ns(task: &PrioTask, hz: u64) -> u64 {
    let share = MAX_BONUS as i64 / 2 + i64::from(interactive_delta(task)) + 1;
    let jiffies = max_sleep_avg(hz) as i64 * share / MAX_BONUS as i64 - 1;
    jiffies_to_ns(jiffies.max(0) as u64, hz)
}

/// kernel/sched.c, 2.6.15, schedule(): what running for a while costs a task; interactive ones pay less.
pub fn charge_run_time(task: &mut PrioTask, ran_ns: u64, hz: u64) {
    let ran_ns = ran_ns.min(jiffies_to_ns(max_sleep_avg(hz), hz));
    task.sleep_avg_ns = task.sleep_avg_ns.saturating_sub(ran_ns / current_bonus(task, hz).max(1));
}

/// kernel/sched.c, 2.6.15, schedule(): time in the queue, ns, that counts as sleep when a woken task first runs. Tasks
/// woken by an interrupt are most likely interactive and get all of it, others three tenths.
pub fn credited_wait_ns(waited_ns: u64, woken_by_interrupt: bool) -> u64 {
    const ON_RUNQUEUE_WEIGHT_PCT: u64 = 30;
    if woken_by_interrupt { waited_ns } else { waited_ns * (ON_RUNQUEUE_WEIGHT_PCT * 128 / 100) / 128 }
}

/// kernel/sched.c, 2.6.15, wake_up_new_task(): sleep average of a child or its parent after a fork, ns.
pub fn forked_sleep_avg_ns(parent: &PrioTask, penalty_pct: u64, hz: u64) -> u64 {
    let jiffies = current_bonus(parent, hz) * penalty_pct / 100 * max_sleep_avg(hz) / MAX_BONUS;
    jiffies_to_ns(jiffies, hz)
}

/// kernel/sched.c, 2.6.15, sched_fork(): the timeslices (child, parent) that a parent's is shared into, jiffies.
pub fn share_timeslice(parent: u32) -> (u32, u32) {
    (parent.div_ceil(2), parent / 2)
}

/// kernel/sched.c, 2.6.15, sched_exit(): sleep average of a parent, ns, after a child that slept less has gone.
pub fn reaped_sleep_avg_ns(parent_ns: u64, child_ns: u64) -> u64 {
    const EXIT_WEIGHT: u64 = 3;
    let parts = EXIT_WEIGHT + 1;
    if child_ns < parent_ns { parent_ns / parts * EXIT_WEIGHT + child_ns / parts } else { parent_ns }
}

/// kernel/sched.c, 2.6.15, CURRENT_BONUS(): the sleep average as 0 to 10.
pub fn current_bonus(task: &PrioTask, hz: u64) -> u64 {
    let jiffies = task.sleep_avg_ns / (NSEC_PER_SEC / hz);
    jiffies * MAX_BONUS / max_sleep_avg(hz)
}

/// kernel/sched.c, 2.6.15, task_timeslice(), jiffies: 800 ms for nice -20, 100 ms for 0, 5 ms for 19.
pub fn task_timeslice(static_prio: i32, hz: u64) -> u32 {
    let base = if nice_of(static_prio) < 0 { 4 * def_timeslice(hz) } else { def_timeslice(hz) };
    let above_worst = u64::try_from(MAX_PRIO - static_prio).unwrap_or(0);
    let least = (5 * hz / 1000).max(1);
    (base * above_worst / (MAX_USER_PRIO / 2)).max(least) as u32
}

/// Timeslice of nice 0, jiffies (`DEF_TIMESLICE`).
pub fn def_timeslice(hz: u64) -> u64 {
    (100 * hz / 1000).max(1)
}

/// Nice value of a static priority.
pub fn nice_of(static_prio: i32) -> i32 {
    static_prio - MAX_RT_PRIO - 20
}

/// Largest sleep average, jiffies.
fn max_sleep_avg(hz: u64) -> u64 {
    def_timeslice(hz) * MAX_BONUS
}

fn jiffies_to_ns(jiffies: u64, hz: u64) -> u64 {
    jiffies * (NSEC_PER_SEC / hz)
}

const NSEC_PER_SEC: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::super::v2_6_15::TABLE;
    use super::*;

    const HZ: u64 = 1000;
    const MS: u64 = 1_000_000;

    fn task(nice: i32, sleep_avg_ms: u64) -> PrioTask {
        let mut task = PrioTask {
            static_prio: 120 + nice,
            prio: 120 + nice,
            sleep_avg_ns: sleep_avg_ms * MS,
            time_slice: 100,
            user: true,
            uninterruptible: false,
            batch: false,
        };
        task.prio = effective_prio(task.static_prio, current_bonus(&task, HZ));
        task
    }

    #[test]
    fn sleeping_earns_and_running_costs_up_to_five_priorities() {
        assert_eq!(task(0, 0).prio, 125);
        assert_eq!(task(0, 500).prio, 120);
        assert_eq!(task(0, 1000).prio, 115);
        assert_eq!(task(-20, 1000).prio, 100, "never a real-time priority");
        assert_eq!(task(19, 0).prio, 139);
    }

    /// How many of the eleven bonuses make a task interactive: nine at nice -20, none at nice 19.
    #[test]
    fn fewer_bonuses_make_nicer_tasks_interactive() {
        let interactive = |nice| (0..=10).filter(|bonus| is_interactive(&task(nice, bonus * 100))).count();
        assert_eq!([-20, -10, 0, 10, 19].map(interactive), [9, 6, 4, 2, 0]);
    }

    #[test]
    fn a_long_sleep_makes_just_interactive_and_short_ones_add_up() {
        let mut sleeper = task(0, 0);
        recalc_task_prio(&mut sleeper, 5_000 * MS, HZ);
        assert_eq!((sleeper.sleep_avg_ns, sleeper.prio), (900 * MS, 116));
        let mut napper = task(0, 0);
        recalc_task_prio(&mut napper, 30 * MS, HZ);
        assert_eq!(napper.sleep_avg_ns, 300 * MS, "ten times as fast from nothing");
        recalc_task_prio(&mut napper, 30 * MS, HZ);
        assert_eq!(napper.sleep_avg_ns, 510 * MS, "seven times with a bonus of three");
    }

    #[test]
    fn sleep_for_io_and_batch_tasks_earn_less() {
        let mut reader = PrioTask { uninterruptible: true, ..task(0, 700) };
        recalc_task_prio(&mut reader, 500 * MS, HZ);
        assert_eq!(reader.sleep_avg_ns, 799 * MS, "INTERACTIVE_SLEEP of nice 0");
        recalc_task_prio(&mut reader, 500 * MS, HZ);
        assert_eq!(reader.sleep_avg_ns, 799 * MS);
        let mut thread = PrioTask { user: false, ..reader };
        recalc_task_prio(&mut thread, 500 * MS, HZ);
        assert_eq!(thread.sleep_avg_ns, 1000 * MS, "kernel threads are not limited");
        let mut batch = PrioTask { batch: true, ..task(0, 0) };
        recalc_task_prio(&mut batch, 500 * MS, HZ);
        assert_eq!((batch.sleep_avg_ns, batch.prio), (0, 125));
    }

    #[test]
    fn running_costs_interactive_tasks_less() {
        let mut hog = task(0, 50);
        charge_run_time(&mut hog, 20 * MS, HZ);
        assert_eq!(hog.sleep_avg_ns, 30 * MS);
        charge_run_time(&mut hog, 2_000 * MS, HZ);
        assert_eq!(hog.sleep_avg_ns, 0);
        let mut editor = task(0, 1000);
        charge_run_time(&mut editor, 20 * MS, HZ);
        assert_eq!(editor.sleep_avg_ns, 998 * MS);
        assert_eq!(credited_wait_ns(128 * MS, false), 38 * MS);
        assert_eq!(credited_wait_ns(128 * MS, true), 128 * MS);
    }

    #[test]
    fn fork_and_exit_share_sleep_and_timeslices() {
        let parent = task(0, 1000);
        assert_eq!(forked_sleep_avg_ns(&parent, CHILD_PENALTY_PCT, HZ), 900 * MS);
        assert_eq!(forked_sleep_avg_ns(&parent, PARENT_PENALTY_PCT, HZ), 1000 * MS);
        assert_eq!(share_timeslice(101), (51, 50));
        assert_eq!(share_timeslice(1), (1, 0));
        assert_eq!(reaped_sleep_avg_ns(800 * MS, 400 * MS), 700 * MS);
        assert_eq!(reaped_sleep_avg_ns(400 * MS, 800 * MS), 400 * MS);
    }

    const NOBODY_WAITS: ExpiredArray =
        ExpiredArray { waited_jiffies: None, nr_running: 2, best_static_prio: 140 };

    fn tick(task: &mut PrioTask, expired: &ExpiredArray, nr_cpus: u32) -> TaskTick {
        scheduler_tick(&TABLE, task, expired, nr_cpus, HZ)
    }

    #[test]
    fn a_used_up_timeslice_expires_unless_the_task_is_interactive() {
        let last_jiffy = |sleep_avg_ms| PrioTask { time_slice: 1, ..task(0, sleep_avg_ms) };
        let mut hog = last_jiffy(0);
        assert_eq!(tick(&mut hog, &NOBODY_WAITS, 1), TaskTick::Expire);
        assert_eq!(hog.time_slice, 100);
        assert_eq!(tick(&mut last_jiffy(1000), &NOBODY_WAITS, 1), TaskTick::RenewActive);
        let starving = ExpiredArray { waited_jiffies: Some(2001), ..NOBODY_WAITS };
        assert_eq!(tick(&mut last_jiffy(1000), &starving, 1), TaskTick::Expire);
        let patient = ExpiredArray { waited_jiffies: Some(2000), ..NOBODY_WAITS };
        assert_eq!(tick(&mut last_jiffy(1000), &patient, 1), TaskTick::RenewActive);
        let better = ExpiredArray { best_static_prio: 119, ..NOBODY_WAITS };
        assert_eq!(tick(&mut last_jiffy(1000), &better, 1), TaskTick::Expire);
    }

    #[test]
    fn interactive_tasks_take_turns_within_their_timeslices() {
        let mut editor = PrioTask { time_slice: 91, ..task(0, 1000) };
        assert_eq!(timeslice_granularity(&editor, 1, HZ), 10);
        assert_eq!(tick(&mut editor, &NOBODY_WAITS, 1), TaskTick::Requeue);
        assert_eq!(tick(&mut editor, &NOBODY_WAITS, 1), TaskTick::Continue);
        let mut on_a_large_machine = PrioTask { time_slice: 91, ..task(0, 1000) };
        assert_eq!(tick(&mut on_a_large_machine, &NOBODY_WAITS, 16), TaskTick::Continue);
        let mut hog = PrioTask { time_slice: 91, ..task(0, 0) };
        assert_eq!(timeslice_granularity(&hog, 1, HZ), 5120);
        assert_eq!(tick(&mut hog, &NOBODY_WAITS, 1), TaskTick::Continue);
    }
}
