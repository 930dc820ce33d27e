//! Every balance vector of the kernels that are modelled, replayed: no difference is allowed.

mod common;

use common::vectors::{alter_answers, cases};
use schedlab_core::verify::balance::{FAMILIES, check};
use serde_json::Value;

#[test]
fn find_busiest_group() {
    replay(&["fbg-v5.4", "fbg-v5.5", "fbg-v5.6", "fbg-v5.7", "fbg-v6.12"], 6000);
}

#[test]
fn find_idlest_group() {
    replay(&["idlest-v5.5", "idlest-v5.6", "idlest-v5.7", "idlest-v6.12"], 3500);
}

#[test]
fn detach_tasks() {
    replay(&["detach-v5.4", "detach-v5.5", "detach-v5.6", "detach-v5.7", "detach-v6.12"], 4000);
}

#[test]
fn wake_affine_and_wake_wide() {
    replay(&["wakeaffine-v5.4", "wakeaffine-v5.7", "wakeaffine-v6.12"], 3000);
    replay(&["wakewide-all"], 1000);
}

#[test]
fn should_we_balance() {
    replay(&["swb-v5.7", "swb-v6.12"], 2000);
}

#[test]
fn an_altered_answer_fails() {
    for family in FAMILIES {
        assert!(alter_answers(family, check, &cases("balance", family)[7]) > 0, "{family}");
    }
}

/// An input that decides, altered, changes the answer.
#[test]
fn an_altered_input_fails() {
    let line =
        cases("balance", "fbg-v5.7").into_iter().find(|line| line.contains("\"mig\":\"load\"")).unwrap();
    let mut case: Value = serde_json::from_str(&line).unwrap();
    check("fbg-v5.7", &line).unwrap();
    let load = case.pointer_mut("/cpu/load/0").unwrap();
    *load = (load.as_u64().unwrap() + 1).into();
    let error = check("fbg-v5.7", &case.to_string()).unwrap_err();
    assert!(error.contains("out.g[0].load"), "{error}");
}

#[test]
fn what_is_no_case_fails() {
    assert!(check("fbg-v5.7", "{").unwrap_err().contains("not JSON"));
    assert!(check("fbg-v5.7", "{\"id\": 3}").unwrap_err().starts_with("id 3: no answer"));
    assert!(check("fbg-v9", "{\"id\": 3, \"out\": {}}").unwrap_err().contains("must be one of"));
}

fn replay(families: &[&str], cases_each: usize) {
    for family in families {
        common::vectors::replay("balance", family, check, cases_each);
    }
}
