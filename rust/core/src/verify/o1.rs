//! Vectors of the O(1) scheduler: `tests/vectors/balance/o1-*` and the facts in `arithmetic/smpnice_2_6.json`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::balance::{check_case, index_or_none};
use crate::balance::o1::{O1Case, O1Outcome};
use crate::balance::parse;
use crate::error::SimError;
use crate::kernels::o1::{O1, O1Class, prio, prio_bias, smpnice};

/// The families that [`check`] knows.
pub const FAMILIES: &[&str] = &["o1-v2.6.15", "o1-v2.6.16-mm-smpnice", "smpnice_2_6"];

/// Decides the case in `line` and compares every field of its answer; `Err` names the case and what differs.
pub fn check(family: &str, line: &str) -> Result<(), String> {
    if family == "smpnice_2_6" {
        return check_facts(line);
    }
    check_case(line, |_| Ok(o1_answer(&parse::<O1Case>(line)?.decide(kernel_of(family)?)?)))
}

fn kernel_of(family: &str) -> Result<&'static O1, SimError> {
    match family {
        "o1-v2.6.15" => Ok(&prio_bias::TABLE),
        "o1-v2.6.16-mm-smpnice" => Ok(&smpnice::TABLE),
        _ => Err(SimError::invalid("family", family, format!("must be one of {}", FAMILIES.join(", ")))),
    }
}

fn o1_answer(outcome: &O1Outcome) -> Value {
    json!({
        "busiest": index_or_none(outcome.busiest),
        "imb": outcome.imbalance,
        "rq": index_or_none(outcome.src_cpu),
        "sd_idle": u8::from(outcome.sd_idle),
        "idlest": index_or_none(outcome.idlest),
    })
}

/// What is documented of a nice value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NiceFacts {
    nice: i32,
    static_prio: i32,
    bias_2_6_16_rc: u64,
    bias_mm_feb2006: u64,
    load_prio_mm_mar2006: u64,
    load_weight_mm_mar2006: u64,
    timeslice_jiffies_hz100: u64,
    load_weight_2_6_18_hz100: u64,
    timeslice_jiffies_hz250: u64,
    load_weight_2_6_18_hz250: u64,
    timeslice_jiffies_hz1000: u64,
    load_weight_2_6_18_hz1000: u64,
}

fn check_facts(line: &str) -> Result<(), String> {
    let facts: NiceFacts = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let prio = facts.static_prio;
    if !(100..140).contains(&prio) || prio::nice_of(prio) != facts.nice {
        return Err(format!("nice {}: static_prio {prio} is not its own", facts.nice));
    }
    let bias = |kernel: &O1| (kernel.task_bias.f)(O1Class::Normal(prio));
    let timeslice = |hz| u64::from(prio::task_timeslice(prio, hz));
    let weight = |hz| smpnice::load_weight_2_6_18(prio, hz);
    let differing: Vec<String> = [
        ("bias_2_6_16_rc", facts.bias_2_6_16_rc, bias(&prio_bias::TABLE)),
        ("bias_mm_feb2006", facts.bias_mm_feb2006, bias(&smpnice::TABLE)),
        ("load_prio_mm_mar2006", facts.load_prio_mm_mar2006, smpnice::load_prio_march_2006(prio)),
        ("load_weight_mm_mar2006", facts.load_weight_mm_mar2006, smpnice::load_weight_march_2006(prio)),
        ("timeslice_jiffies_hz100", facts.timeslice_jiffies_hz100, timeslice(100)),
        ("load_weight_2_6_18_hz100", facts.load_weight_2_6_18_hz100, weight(100)),
        ("timeslice_jiffies_hz250", facts.timeslice_jiffies_hz250, timeslice(250)),
        ("load_weight_2_6_18_hz250", facts.load_weight_2_6_18_hz250, weight(250)),
        ("timeslice_jiffies_hz1000", facts.timeslice_jiffies_hz1000, timeslice(1000)),
        ("load_weight_2_6_18_hz1000", facts.load_weight_2_6_18_hz1000, weight(1000)),
    ]
    .into_iter()
    .filter(|(_, expected, got)| expected != got)
    .map(|(name, expected, got)| format!("{name}: expected {expected}, got {got}"))
    .collect();
    if differing.is_empty() { Ok(()) } else { Err(format!("nice {}: {}", facts.nice, differing.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Kernel;

    /// What the vectors check is what a run calls, function by function.
    #[test]
    fn runs_are_under_the_tables_that_the_vectors_check() {
        let patched = |patches: &[&str]| {
            let base = *Kernel::named("v2.6.15").unwrap();
            patches.iter().fold(base, |kernel, patch| kernel.with_patch(patch).unwrap()).o1.unwrap().slots()
        };
        let checked = |family: &str| kernel_of(family).unwrap().slots();
        assert_eq!(patched(&["prio-bias"]), checked("o1-v2.6.15"));
        assert_eq!(patched(&["prio-bias", "smpnice-weights"]), checked("o1-v2.6.16-mm-smpnice"));
        // Without smp nice only the loads are others: the rest of the decisions is checked too.
        let differing: Vec<_> = (patched(&[]).into_iter().zip(checked("o1-v2.6.15")))
            .filter(|(plain, checked)| plain != checked)
            .map(|((slot, _), _)| slot)
            .collect();
        assert_eq!(differing, ["task_bias", "source_load", "target_load"]);
    }
}
