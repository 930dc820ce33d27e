//! Vectors taken from real kernels, replayed through the parts: what `schedlab verify` and the tests run.
//!
//! A vector file's name says its family; every line of it (every entry of a `.json` file) is one case. A case that does
//! not parse is a failed case, never an error of the replay.

pub mod arithmetic;
pub mod balance;
pub mod domains;
pub mod eevdf;
pub mod numa;
pub mod o1;

use std::borrow::Cow;

use rayon::prelude::*;
use serde::Serialize;

/// How many failures a report spells out.
const FIRST_FAILURES: usize = 5;

/// Replays one case of a family: `Err` says which case and what differs.
pub type Check = fn(family: &str, line: &str) -> Result<(), String>;

/// A family of vectors: the cases of one file.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The file's name without its suffixes.
    pub name: &'static str,
    /// What replays a case.
    pub check: Check,
}

/// What became of the cases of one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FamilyReport {
    /// The family's name; of an unknown file its name without suffixes.
    pub family: String,
    /// Whether the family is replayed at all; if not, the counts are zero.
    pub modelled: bool,
    /// Cases replayed.
    pub cases: usize,
    /// Cases that differ or do not parse.
    pub failed: usize,
    /// The first failures in file order, at most five.
    pub first_failures: Vec<String>,
}

/// The family that a file name stands for, if it is a known one; folders and `.gz` do not matter.
pub fn family_of(file_name: &str) -> Option<Family> {
    let name = stem(file_name);
    FAMILIES.iter().find(|family| family.name == name).copied()
}

/// Replays every case in the (decompressed) text of a vector file, on all threads of the current pool.
pub fn check_lines(file_name: &str, text: &str) -> FamilyReport {
    let Some(Family { name, check }) = family_of(file_name) else {
        return FamilyReport {
            family: stem(file_name).to_owned(),
            modelled: false,
            cases: 0,
            failed: 0,
            first_failures: Vec::new(),
        };
    };
    let cases = cases_of(file_name, text);
    let failures: Vec<String> = cases
        .par_iter()
        .filter_map(|(place, case)| check(name, case).err().map(|what| format!("{name} {place}: {what}")))
        .collect();
    FamilyReport {
        family: name.to_owned(),
        modelled: true,
        cases: cases.len(),
        failed: failures.len(),
        first_failures: failures.into_iter().take(FIRST_FAILURES).collect(),
    }
}

/// Every known family. A part that comes to be modelled gives its `check` here and nowhere else.
const FAMILIES: &[Family] = &[
    replayed("calc_delta", arithmetic::check),
    replayed("calc_delta_fair", arithmetic::check),
    replayed("loadavg", arithmetic::check),
    replayed("nice_weights", arithmetic::check),
    replayed("pelt_halflife_seq", arithmetic::check),
    replayed("pelt_halflife_unit", arithmetic::check),
    replayed("pelt_modern_seq", arithmetic::check),
    replayed("pelt_modern_unit", arithmetic::check),
    replayed("pelt_old_seq", arithmetic::check),
    replayed("pelt_tables", arithmetic::check),
    replayed("eevdf_deadline", eevdf::check),
    replayed("eevdf_place", eevdf::check),
    replayed("eevdf_reweight", eevdf::check),
    replayed("eevdf_state", eevdf::check),
    replayed("group_shares", eevdf::check),
    replayed("smpnice_2_6", o1::check),
    replayed("detach-v5.4", balance::check),
    replayed("detach-v5.5", balance::check),
    replayed("detach-v5.6", balance::check),
    replayed("detach-v5.7", balance::check),
    replayed("detach-v6.12", balance::check),
    replayed("fbg-v5.4", balance::check),
    replayed("fbg-v5.5", balance::check),
    replayed("fbg-v5.6", balance::check),
    replayed("fbg-v5.7", balance::check),
    replayed("fbg-v6.12", balance::check),
    replayed("idlest-v5.5", balance::check),
    replayed("idlest-v5.6", balance::check),
    replayed("idlest-v5.7", balance::check),
    replayed("idlest-v6.12", balance::check),
    replayed("numa-v5.6", numa::check),
    replayed("numa-v5.7", numa::check),
    replayed("numa-v6.12", numa::check),
    replayed("o1-v2.6.15", o1::check),
    replayed("o1-v2.6.16-mm-smpnice", o1::check),
    replayed("swb-v5.7", balance::check),
    replayed("swb-v6.12", balance::check),
    replayed("wakeaffine-v5.4", balance::check),
    replayed("wakeaffine-v5.7", balance::check),
    replayed("wakeaffine-v6.12", balance::check),
    replayed("wakewide-all", balance::check),
    replayed("domains-5.10", domains::check),
    replayed("domains-6.1", domains::check),
    replayed("domains-6.1-arm64", domains::check),
    replayed("domains-6.12", domains::check),
    replayed("domains-6.12-arm64", domains::check),
    replayed("domains-7.3", domains::check),
];

/// A family that is replayed.
const fn replayed(name: &'static str, check: Check) -> Family {
    Family { name, check }
}

/// A file name without folders and without the suffixes of vector files.
fn stem(file_name: &str) -> &str {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    let name = name.strip_suffix(".gz").unwrap_or(name);
    name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".json")).unwrap_or(name)
}

/// The cases of a file as JSON texts, each with its place in the file.
fn cases_of<'a>(file_name: &str, text: &'a str) -> Vec<(String, Cow<'a, str>)> {
    if file_name.trim_end_matches(".gz").ends_with(".json") {
        let cases = arithmetic::cases_of_document(text).into_iter();
        return cases.map(|(place, case)| (place, Cow::Owned(case))).collect();
    }
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(idx, line)| (format!("line {}", idx + 1), Cow::Borrowed(line)))
        .collect()
}
