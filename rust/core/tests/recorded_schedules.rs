//! The measures of recorded schedules, derived anew from the recordings' own events, equal the recorded measures.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use schedlab_core::cpumask::CpuMask;
use schedlab_core::record::derived::{Derived, TraceSubject, TraceTask, TraceTaskKind, derive};
use schedlab_core::record::{TaskTraceState, Trace, TraceEvent};
use serde_json::Value;

/// Events are recorded to the microsecond, so a span between two of them is off by up to this.
const SPAN_TOLERANCE_MS: f64 = 0.0021;

/// A release takes the controller some microseconds, and so does a kernel thread that cuts a span in two.
const VIOLATION_TOLERANCE_MS: f64 = 0.03;

/// Where one violation ends and the next begins depends on the order of events within a microsecond, which a recording does
/// not tell; it does so in few of them. What all violations last together does not depend on it.
const CUT_BY_CHANCE: [&str; 3] = ["longest_violation_ms", "violations_over_1ms", "violations_over_10ms"];

#[test]
fn derived_measures_of_recorded_schedules_equal_the_recorded_ones() {
    let mut nr_whole = 0;
    let mut nr_compared = 0;
    let mut differences = Vec::new();
    for path in recordings() {
        let recording = read(&path);
        if recording["timeline"]["events"]["is_whole_run"] != true {
            continue;
        }
        nr_whole += 1;
        nr_compared += compare(&path, &recording, &mut differences);
    }
    let (cuts, differences): (Vec<String>, Vec<String>) = differences
        .into_iter()
        .partition(|difference| CUT_BY_CHANCE.iter().any(|name| difference.contains(name)));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(cuts.len() <= nr_whole / 5, "{}", cuts.join("\n"));
    assert!(nr_whole >= 25, "{nr_whole} whole recordings");
    assert!(nr_compared >= 25 * nr_whole, "{nr_compared} measures of {nr_whole} recordings");
}

#[test]
fn other_events_give_other_measures() {
    let recording = read(&folder().join("6.1/A1-0.json.gz"));
    let (mut trace, subject) = (trace(&recording), subject(&recording));
    let whole = derive(&trace, &subject);
    // In the last 100 ms, four of the five hogs stand on one CPU.
    let time_ns = trace.end_ns - 100_000_000;
    trace.events.retain(|event| event.time_ns < time_ns);
    let stand = |task| {
        let state = if task == 0 { TaskTraceState::Running } else { TaskTraceState::Waiting };
        TraceEvent { time_ns, task, cpu: 0, state }
    };
    trace.events.extend((0..4).map(stand));
    let altered = derive(&trace, &subject);
    for name in ["migrations_balance_per_s", "fair_max", "count_diff_le1_share", "idle_while_waiting_share"] {
        assert_ne!(whole.get(name), altered.get(name), "{name}");
    }
}

/// Compares one recording; the number of values compared.
fn compare(path: &Path, recording: &Value, differences: &mut Vec<String>) -> usize {
    let derived = derive(&trace(recording), &subject(recording));
    let recorded = &recording["derived"];
    let window_ms = number(&recorded["window_ms"]);
    let mut check = Check { path, derived: &derived, nr: 0, differences };

    // Shares are printed with four or five digits, rates with one or two.
    let share = 6e-5 + 0.01 / window_ms;
    for (cpu, shares) in array(&recorded["running_count_share_by_cpu"]).iter().enumerate() {
        for (count, value) in shares.as_object().expect("an object") {
            check.near(&format!("running_count_share_by_cpu.{cpu}.{count}"), value, share);
        }
    }
    for (ours, theirs) in [
        ("max_minus_min_running_share", "max_minus_min_running_share"),
        ("max_minus_min_group_share", "max_minus_min_group_share"),
    ] {
        for (spread, value) in recorded[theirs].as_object().into_iter().flatten() {
            check.near(&format!("{ours}.{spread}"), value, share);
        }
    }
    for (group, value) in recorded["mean_running_by_group"].as_array().into_iter().flatten().enumerate() {
        check.near(&format!("mean_running_by_group.{group}"), value, 2.0 * share);
    }
    // A kernel thread on its way to an idle CPU is not in the recorded events; short windows with many show it.
    let idle = share + 0.2 / window_ms;
    for name in ["idle_while_waiting_share", "idle_while_waiting_cpu_share"] {
        check.near(name, &recorded[name], idle);
    }
    check.at_most("idle_while_other_cpu_has_2_share", &recorded["idle_while_other_cpu_has_2_share"], idle);
    check.near("longest_violation_ms", &recorded["longest_violation_ms"], VIOLATION_TOLERANCE_MS);
    for name in ["violations_over_1ms", "violations_over_10ms"] {
        check.near(name, &recorded[name], 0.0);
    }
    for name in ["balanced_counts_from_ms", "balanced_groups_from_ms"] {
        if !recorded[name].is_null() {
            check.near(name, &recorded[name], SPAN_TOLERANCE_MS);
        } else {
            check.never(name);
        }
    }
    for name in [
        "migrations_per_s",
        "migrations_wakeup_per_s",
        "migrations_balance_per_s",
        "migrations_wakeup_across_groups_per_s",
        "migrations_balance_across_groups_per_s",
    ] {
        if !recorded[name].is_null() {
            check.near(name, &recorded[name], 0.0051);
        }
    }
    // The trace opens with tasks that ran before T0 and does not say which.
    let switches = 0.06 + 1e3 * 2.0 * number(&recording["machine"]["n_cpus"]) / window_ms;
    check.near("switches_per_s", &recorded["switches_per_s"], switches);
    check.near("wakeup_to_run_mean_us", &recorded["wakeup_to_run_us"]["mean"], 1.0);
    check.near("wakeup_to_run_p95_us", &recorded["wakeup_to_run_us"]["p95"], 1.1);
    check.near("cpu_time_total_over_capacity", &recorded["cpu_time_total_over_capacity"], 1e-3);
    for (ours, theirs) in [("fair_min", "min"), ("fair_max", "max"), ("fair_sd", "sd")] {
        if !recorded["fairness"].is_null() {
            check.near(ours, &recorded["fairness"][theirs], 3e-4);
        }
    }
    for (class, spread) in recorded["cpu_share_by_class"].as_object().into_iter().flatten() {
        for part in ["min", "mean", "max"] {
            check.near(&format!("cpu_share_by_class.{class}_{part}"), &spread[part], 3e-4);
        }
    }
    if !recorded["fork"].is_null() {
        // The recorded times begin at the call of fork(), ours at the child's first wake-up, about a millisecond
        // later.
        let fork = &recorded["fork"];
        check.near("fork_makespan_ms", &fork["makespan_ms"], 1.5);
        // A recorded child looks at its CPU for the last time just before it ends.
        check.near("fork_moved_after_first_run", &fork["moved_after_first_run"], 1.0);
        for (cpu, count) in array(&fork["first_run_cpu_counts"]).iter().enumerate() {
            check.near(&format!("fork_first_run_cpu_count.{cpu}"), count, 0.0);
        }
    }
    check.nr
}

struct Check<'a> {
    path: &'a Path,
    derived: &'a Derived,
    nr: usize,
    differences: &'a mut Vec<String>,
}

impl Check<'_> {
    fn near(&mut self, name: &str, recorded: &Value, tolerance: f64) {
        let recorded = number(recorded);
        let derived = self.derived.get(name);
        // A count that never occurs is not printed by us, and as 0 by some recordings.
        let value = derived.unwrap_or(if recorded < 1e-4 { 0.0 } else { f64::NAN });
        self.note(
            (value - recorded).abs() <= tolerance,
            name,
            format!("recorded {recorded}, derived {derived:?}"),
        );
    }

    /// The recorded value has something that the recorded events leave out: kernel threads that wait.
    fn at_most(&mut self, name: &str, recorded: &Value, tolerance: f64) {
        let (recorded, derived) = (number(recorded), self.derived.get(name));
        let within = derived.is_some_and(|value| value <= recorded + tolerance);
        self.note(within, name, format!("recorded {recorded}, derived {derived:?}"));
    }

    fn never(&mut self, name: &str) {
        let derived = self.derived.get(name);
        self.note(derived.is_none(), name, format!("recorded never, derived {derived:?}"));
    }

    fn note(&mut self, equal: bool, name: &str, values: String) {
        self.nr += 1;
        if !equal {
            self.differences.push(format!("{}: {name}: {values}", self.path.display()));
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings")
}

fn recordings() -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("the recordings are there");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let folders = entries(&folder()).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = folders.flat_map(|folder| entries(&folder)).collect();
    files.sort();
    files
}

fn read(path: &Path) -> Value {
    let mut text = String::new();
    let file = fs::File::open(path).expect("the file opens");
    GzDecoder::new(file).read_to_string(&mut text).expect("the file is whole");
    serde_json::from_str(&text).expect("the file is JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not an integer"))
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is not an array"))
}

/// The recorded events of the tasks, and the runs of everything else as those of one more task each.
fn trace(recording: &Value) -> Trace {
    let events = &recording["timeline"]["events"];
    let mut trace = Trace {
        start_ns: 0,
        end_ns: (number(&recording["derived"]["window_ms"]) * 1e6) as u64,
        events: Vec::new(),
    };
    let mut time_us = 0;
    for index in 0..array(&events["dt_us"]).len() {
        time_us += integer(&events["dt_us"][index]);
        let code = integer(&events["code"][index]);
        let state =
            [TaskTraceState::Asleep, TaskTraceState::Waiting, TaskTraceState::Running][code as usize % 3];
        let (time_ns, cpu) = (time_us * 1000, (code / 3) as u16);
        trace.events.push(TraceEvent { time_ns, task: integer(&events["task"][index]) as u32, cpu, state });
    }
    let first_other = nr_tasks(recording) as u32;
    for (index, row) in array(&recording["timeline"]["other_runs"]["rows"]).iter().enumerate() {
        let start_us = number(&row[0]).max(0.0) as u64;
        let end_us = (number(&row[0]) + number(&row[1])).max(0.0) as u64;
        let (task, cpu) = (first_other + index as u32, integer(&row[2]) as u16);
        let event = |time_us: u64, state| TraceEvent { time_ns: time_us * 1000, task, cpu, state };
        // At one moment, who leaves comes before who enters.
        let at = |time_us: u64| trace.events.partition_point(|event| event.time_ns <= time_us * 1000);
        let (begin, end) = (at(start_us), at(end_us - u64::from(end_us > start_us)));
        trace.events.insert(end, event(end_us, TaskTraceState::Asleep));
        trace.events.insert(begin, event(start_us, TaskTraceState::Running));
    }
    trace
}

fn nr_tasks(recording: &Value) -> usize {
    let children = recording["children"]["rows"].as_array().map_or(0, Vec::len);
    array(&recording["tasks"]).len() + children
}

fn subject(recording: &Value) -> TraceSubject {
    let nr_cpus = integer(&recording["machine"]["n_cpus"]) as usize;
    let groups = recording["derived"]["groups"].as_array().into_iter().flatten();
    let cpus = |group: &Value| array(group).iter().map(|cpu| integer(cpu) as usize).collect();
    let mut tasks = Vec::new();
    for line in array(&recording["load"]) {
        tasks.extend(tasks_of_line(line.as_str().expect("a line"), nr_cpus));
    }
    let blank = |kind| TraceTask {
        kind,
        nice: 0,
        group: None,
        affinity: CpuMask::all(nr_cpus),
        release: None,
        first_cpu: None,
    };
    tasks.resize(nr_tasks(recording), blank(TraceTaskKind::Child));
    let places = recording["timeline"]["samples"][0].as_str().unwrap_or_default().split(' ');
    for (task, place) in tasks.iter_mut().zip(places) {
        task.first_cpu = place.trim_end_matches(['s', 'q']).parse().ok();
    }
    let nr_others = array(&recording["timeline"]["other_runs"]["rows"]).len();
    tasks.resize(tasks.len() + nr_others, blank(TraceTaskKind::Other));
    TraceSubject { nr_cpus, groups: groups.map(cpus).collect(), tasks }
}

fn tasks_of_line(line: &str, nr_cpus: usize) -> Vec<TraceTask> {
    let words: Vec<&str> = line.split(' ').collect();
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let cpus = |key: &str| {
        let bits = u64::from_str_radix(value(key)?.trim_start_matches("0x"), 16).expect("a mask");
        Some(CpuMask::from_cpus(nr_cpus, (0..nr_cpus).filter(|cpu| bits >> cpu & 1 == 1)))
    };
    let kind = match words[1] {
        "hog" => TraceTaskKind::Hog,
        "per" => TraceTaskKind::Periodic,
        "pp" => TraceTaskKind::PingPong { first: true },
        "fork" => TraceTaskKind::Forker,
        other => panic!("{other} in {line}"),
    };
    let n: usize = value("n").expect("n").parse().expect("a number");
    let n = match words[1] {
        "pp" => 2 * n,
        "fork" => 1,
        _ => n,
    };
    let release = value("relat").map(|at_us| {
        let at_us: u64 = at_us.parse().expect("a time");
        (at_us * 1000, cpus("relmask").expect("a mask"))
    });
    let task = TraceTask {
        kind,
        nice: value("nice").map_or(0, |nice| nice.parse().expect("a nice value")),
        group: value("grp").map(str::to_owned),
        affinity: cpus("mask").unwrap_or_else(|| CpuMask::all(nr_cpus)),
        release,
        first_cpu: None,
    };
    vec![task; n]
}
