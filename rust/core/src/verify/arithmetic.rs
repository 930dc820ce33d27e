//! Vectors of PELT, weights, virtual time and the load average.

use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::load_weight::{
    LoadWeight, MAX_SHARES, MIN_SHARES, NICE_0_LOAD, SCHED_FIXEDPOINT_SHIFT, WEIGHT_IDLEPRIO, WMULT_IDLEPRIO,
    calc_delta_fair, nice_weight,
};
use crate::loadavg::calc_load;
use crate::pelt::{PERIOD_US, PeltForm, PeltTable, SchedAvg};

/// Half-life of kernels whose vectors do not name one, periods.
const DEFAULT_HALF_LIFE: u32 = 32;

/// Replays one case of an arithmetic family.
pub fn check(family: &str, line: &str) -> Result<(), String> {
    match family {
        "pelt_modern_seq" => check_sequence(PeltForm::Modern, parse(line)?),
        "pelt_old_seq" => check_sequence(PeltForm::Old, parse(line)?),
        "pelt_halflife_seq" => {
            check_sequence(PeltForm::Modern, with_half_life(parse(line)?, |case: &Sequence| case.hl)?)
        }
        "pelt_modern_unit" => check_unit(parse(line)?),
        "pelt_halflife_unit" => check_unit(with_half_life(parse(line)?, |case: &Unit| case.hl)?),
        "calc_delta" => check_calc_delta(&parse(line)?),
        "calc_delta_fair" => check_calc_delta_fair(&parse(line)?),
        "loadavg" => check_loadavg(&parse(line)?),
        "pelt_tables" => check_pelt_table(&parse(line)?),
        "nice_weights" => check_nice_weights(&parse(line)?),
        _ => Err(format!("no arithmetic family is called {family}")),
    }
}

/// The cases of a `.json` file of facts: the entries of its object, those of a list each on its own.
pub fn cases_of_document(text: &str) -> Vec<(String, String)> {
    let entries = match serde_json::from_str(text) {
        Ok(Value::Object(entries)) => entries,
        Ok(Value::Array(items)) => {
            let cases = items.iter().enumerate();
            return cases.map(|(idx, item)| (format!("[{idx}]"), item.to_string())).collect();
        }
        // One case that fails to parse as any entry does.
        _ => return vec![("document".to_owned(), text.to_owned())],
    };
    let mut cases = Vec::new();
    for (key, value) in entries {
        match value {
            Value::Array(items) => cases.extend(
                items.iter().enumerate().map(|(idx, item)| (format!("{key}[{idx}]"), item.to_string())),
            ),
            Value::Object(_) => cases.push((key, value.to_string())),
            constant => {
                let case = serde_json::json!({"constant": key, "value": constant}).to_string();
                cases.push((key, case));
            }
        }
    }
    cases
}

#[derive(Deserialize)]
struct Sequence {
    id: String,
    hl: Option<u32>,
    init: [u64; 8],
    #[serde(rename = "in")]
    steps: Vec<[u64; 6]>,
    out: Vec<[u64; 9]>,
}

/// An entity or a cfs_rq through its updates.
fn check_sequence(form: PeltForm, case: Sequence) -> Result<(), String> {
    let at = |what: String| format!("{}: {what}", case.id);
    if case.steps.is_empty() || case.steps.len() != case.out.len() {
        let (steps, outs) = (case.steps.len(), case.out.len());
        return Err(at(format!("{steps} steps and {outs} results: must be as many, and some")));
    }
    let table = table_of(case.hl).map_err(&at)?;
    let mut avg = sched_avg(&case.init).map_err(&at)?;
    for (idx, (step, expected)) in case.steps.iter().zip(&case.out).enumerate() {
        let &[op, now, weight, on_rq, runnable, running] = step;
        let crossed = match op {
            0 => avg.update_se(table, form, now, weight, on_rq, runnable, running != 0),
            1 => avg.update_blocked_se(table, form, now, weight, runnable),
            2 => avg.update_cfs_rq(table, form, now, weight, runnable, running != 0),
            _ => return Err(at(format!("step {idx}: op {op} is none of 0, 1, 2"))),
        };
        let got = [
            u64::from(crossed),
            avg.last_update_time,
            u64::from(avg.period_contrib),
            avg.load_sum,
            avg.runnable_sum,
            u64::from(avg.util_sum),
            avg.load_avg,
            avg.runnable_avg,
            avg.util_avg,
        ];
        if got != *expected {
            return Err(at(format!("step {idx}: expected {expected:?}, got {got:?}")));
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Unit {
    hl: Option<u32>,
    #[serde(rename = "fn")]
    function: String,
    #[serde(rename = "in")]
    input: Vec<u64>,
    out: Vec<u64>,
}

/// One call of one of PELT's inner functions.
fn check_unit(case: Unit) -> Result<(), String> {
    let id = format!("{} {:?}", case.function, case.input);
    let at = |what: String| format!("{id}: {what}");
    let table = table_of(case.hl).map_err(&at)?;
    let got = match (case.function.as_str(), case.input.as_slice()) {
        ("decay_load", &[val, n]) => vec![table.decay_load(val, n)],
        ("segments", &[periods, d1, d3]) if periods > 0 => {
            let (d1, d3) = (narrow("d1", d1).map_err(&at)?, narrow("d3", d3).map_err(&at)?);
            vec![u64::from(table.accumulate_pelt_segments(periods, d1, d3))]
        }
        ("accumulate_sum", &[delta, load, runnable, running, load_sum, runnable_sum, util_sum, contrib]) => {
            let mut avg = sched_avg(&[0, contrib, load_sum, runnable_sum, util_sum, 0, 0, 0]).map_err(&at)?;
            let periods = avg.accumulate_sum(table, PeltForm::Modern, delta, load, runnable, running != 0);
            vec![
                u64::from(periods),
                avg.load_sum,
                avg.runnable_sum,
                u64::from(avg.util_sum),
                u64::from(avg.period_contrib),
            ]
        }
        ("update_load_avg", &[weight, load_sum, runnable_sum, util_sum, contrib]) => {
            let mut avg = sched_avg(&[0, contrib, load_sum, runnable_sum, util_sum, 0, 0, 0]).map_err(&at)?;
            avg.update_load_avg(table, weight, 1);
            vec![avg.load_avg, avg.runnable_avg, avg.util_avg]
        }
        _ => return Err(at("no function takes these inputs".to_owned())),
    };
    same(&id, &case.out, &got)
}

#[derive(Deserialize)]
struct CalcDelta {
    delta: u64,
    weight: u64,
    lw: u64,
    inv: u32,
    out: u64,
    inv_after: u32,
}

/// Time scaled by the ratio of two weights, and the inverse that is left in the cache.
fn check_calc_delta(case: &CalcDelta) -> Result<(), String> {
    let id = format!("delta {} weight {} lw {} inv {}", case.delta, case.weight, case.lw, case.inv);
    let mut lw = LoadWeight { weight: case.lw, inv_weight: case.inv };
    let out = lw.calc_delta(case.delta, case.weight);
    same(&id, &(case.out, case.inv_after), &(out, lw.inv_weight))
}

#[derive(Deserialize)]
struct CalcDeltaFair {
    delta: u64,
    w: u64,
    inv: u32,
    out: u64,
}

/// Real time to virtual time, through the function and through the cached weight.
fn check_calc_delta_fair(case: &CalcDeltaFair) -> Result<(), String> {
    let id = format!("delta {} w {} inv {}", case.delta, case.w, case.inv);
    same(&id, &case.out, &calc_delta_fair(case.delta, case.w, case.inv))?;
    let mut lw = LoadWeight { weight: case.w, inv_weight: case.inv };
    same(&id, &case.out, &lw.calc_delta_fair(case.delta))
}

#[derive(Deserialize)]
struct LoadAvg {
    load: u64,
    exp: u64,
    active: u64,
    out: u64,
}

/// One step of the system load average.
fn check_loadavg(case: &LoadAvg) -> Result<(), String> {
    let id = format!("load {} exp {} active {}", case.load, case.exp, case.active);
    same(&id, &case.out, &calc_load(case.load, case.exp, case.active))
}

#[derive(Deserialize)]
#[expect(non_snake_case, reason = "the fields are the kernel's constants")]
struct Table {
    half_life: u32,
    LOAD_AVG_PERIOD: u32,
    LOAD_AVG_MAX: u32,
    LOAD_AVG_MAX_N: u32,
    yN_inv: Vec<u32>,
    yN_sum_legacy: Vec<u32>,
}

/// The constants of one half-life, those that only the generator knows included.
fn check_pelt_table(case: &Table) -> Result<(), String> {
    let id = format!("half_life {}", case.half_life);
    let table = table_of(Some(case.half_life))?;
    same(&format!("{id}: LOAD_AVG_PERIOD"), &case.LOAD_AVG_PERIOD, &table.half_life)?;
    same(&format!("{id}: LOAD_AVG_MAX"), &case.LOAD_AVG_MAX, &table.load_avg_max)?;
    same(&format!("{id}: LOAD_AVG_MAX_N"), &case.LOAD_AVG_MAX_N, &table.load_avg_max_n)?;
    same(&format!("{id}: yN_inv"), &case.yN_inv, &table.yn_inv)?;
    same(&format!("{id}: yN_sum_legacy"), &case.yN_sum_legacy, &legacy_sums(table))
}

/// The generator's sums of the last n whole periods, n up to the half-life, each rounded down before the next.
fn legacy_sums(table: &PeltTable) -> Vec<u32> {
    // y in 32-bit fixed point, rounded up: the table holds it rounded down.
    let y = table.yn_inv.get(1).map_or(1 << 31, |&inv| u64::from(inv) + 1);
    let sums = (0..table.half_life).scan(0, |sum, _| {
        *sum = ((*sum + u64::from(PERIOD_US)) * y) >> 32;
        Some(*sum as u32)
    });
    [0].into_iter().chain(sums).collect()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NiceFact {
    Level { nice: i32, weight: u32, wmult: u32 },
    IdlePolicy { weight: u32, wmult: u32 },
    Constant { constant: String, value: u64 },
}

/// One nice level's weight and inverse, or one constant beside the table.
fn check_nice_weights(case: &NiceFact) -> Result<(), String> {
    match case {
        NiceFact::Level { nice, weight, wmult } => {
            let id = format!("nice {nice}");
            same(&id, weight, &nice_weight(*nice).map_err(|error| error.to_string())?)?;
            let lw = LoadWeight::from_nice(*nice).map_err(|error| error.to_string())?;
            let expected = (u64::from(*weight) << SCHED_FIXEDPOINT_SHIFT, *wmult);
            same(&id, &expected, &(lw.weight, lw.inv_weight))
        }
        NiceFact::IdlePolicy { weight, wmult } => {
            same("idle_policy", &(*weight, *wmult), &(WEIGHT_IDLEPRIO, WMULT_IDLEPRIO))
        }
        NiceFact::Constant { constant, value } => {
            let got = match constant.as_str() {
                "NICE_0_LOAD" => NICE_0_LOAD,
                "load_weight_scale_shift" => u64::from(SCHED_FIXEDPOINT_SHIFT),
                "MIN_SHARES" => MIN_SHARES,
                "MAX_SHARES" => MAX_SHARES,
                _ => return Err(format!("{constant}: no such constant")),
            };
            same(constant, value, &got)
        }
    }
}

/// A case of the half-life families, which must name its half-life.
fn with_half_life<T>(case: T, hl: impl Fn(&T) -> Option<u32>) -> Result<T, String> {
    if hl(&case).is_some() { Ok(case) } else { Err("missing field `hl`".to_owned()) }
}

/// A state in the order of the vectors' `init`.
fn sched_avg(state: &[u64; 8]) -> Result<SchedAvg, String> {
    let &[last_update_time, contrib, load_sum, runnable_sum, util_sum, load_avg, runnable_avg, util_avg] =
        state;
    let period_contrib = narrow("period_contrib", contrib)?;
    if period_contrib >= PERIOD_US {
        return Err(format!("period_contrib {period_contrib} is not below {PERIOD_US}"));
    }
    let util_sum = narrow("util_sum", util_sum)?;
    Ok(SchedAvg {
        last_update_time,
        load_sum,
        runnable_sum,
        util_sum,
        period_contrib,
        load_avg,
        runnable_avg,
        util_avg,
    })
}

/// The table of a half-life, built once.
fn table_of(half_life: Option<u32>) -> Result<&'static PeltTable, String> {
    static TABLES: [OnceLock<Option<PeltTable>>; 1025] = [const { OnceLock::new() }; 1025];
    let half_life = half_life.unwrap_or(DEFAULT_HALF_LIFE);
    TABLES
        .get(half_life as usize)
        .and_then(|slot| slot.get_or_init(|| PeltTable::new(half_life).ok()).as_ref())
        .ok_or_else(|| format!("no table for a half-life of {half_life}"))
}

/// A number that the kernel keeps in 32 bits.
fn narrow(name: &str, value: u64) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("{name} {value} does not fit 32 bits"))
}

/// A case from its JSON text.
fn parse<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("not a case: {error}"))
}

/// Whether two results are the same, and if not, what differs.
fn same<T: PartialEq + std::fmt::Debug>(id: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{id}: expected {expected:?}, got {got:?}")) }
}
