//! Patches: what a series changes, as a table on the kernel that it was made for.

pub mod eligible_first;
pub mod lb_rework_v4;
pub mod ni_random;
pub mod numa_lb_reconcile;
pub mod runnable_avg;
pub mod runnable_avg_v3;

use super::{Kernel, Origin, o1, unknown, v5_4, v5_6, v6_12};
use crate::error::{Result, SimError};

/// All patches, in the order of the kernels that they were made for.
pub static REGISTRY: &[Patch] = &[
    Patch {
        name: "prio-bias",
        summary: o1::prio_bias::SUMMARY,
        source: o1::prio_bias::SOURCE,
        base: &o1::v2_6_15::KERNEL,
        patched: &o1::prio_bias::KERNEL,
        context: &[],
    },
    Patch {
        name: "smpnice-weights",
        summary: o1::smpnice::SUMMARY,
        source: o1::smpnice::SOURCE,
        base: &o1::prio_bias::KERNEL,
        patched: &o1::smpnice::KERNEL,
        context: &[],
    },
    Patch {
        name: "lb-rework-v4",
        summary: lb_rework_v4::SUMMARY,
        source: lb_rework_v4::SOURCE,
        base: &v5_4::KERNEL,
        patched: &lb_rework_v4::KERNEL,
        context: &[],
    },
    Patch {
        name: "lb-rework-v4-balance",
        summary: lb_rework_v4::SUMMARY_BALANCE,
        source: lb_rework_v4::SOURCE,
        base: &v5_4::KERNEL,
        patched: &lb_rework_v4::BALANCE,
        context: &[],
    },
    Patch {
        name: "lb-rework-v4-load",
        summary: lb_rework_v4::SUMMARY_LOAD,
        source: lb_rework_v4::SOURCE,
        base: &v5_4::KERNEL,
        patched: &lb_rework_v4::LOAD,
        context: &[],
    },
    Patch {
        name: "lb-rework-v4-idlest",
        summary: lb_rework_v4::SUMMARY_IDLEST,
        source: lb_rework_v4::SOURCE,
        base: &lb_rework_v4::BALANCE,
        patched: &lb_rework_v4::IDLEST,
        context: &["group_classify"],
    },
    Patch {
        name: "lb-rework-v4-no-small-imbalance",
        summary: lb_rework_v4::SUMMARY_NO_SMALL_IMBALANCE,
        source: lb_rework_v4::SOURCE,
        base: &v5_4::KERNEL,
        patched: &lb_rework_v4::NO_SMALL_IMBALANCE,
        context: &["find_busiest_group"],
    },
    Patch {
        name: "lb-rework-v4-nr-running",
        summary: lb_rework_v4::SUMMARY_NR_RUNNING,
        source: lb_rework_v4::SOURCE,
        base: &v5_4::KERNEL,
        patched: &lb_rework_v4::NR_RUNNING,
        context: &[],
    },
    Patch {
        name: "lb-rework-v4-misfit",
        summary: lb_rework_v4::SUMMARY_MISFIT,
        source: lb_rework_v4::SOURCE,
        base: &v5_4::KERNEL,
        patched: &lb_rework_v4::MISFIT,
        context: &[],
    },
    Patch {
        name: "runnable-avg",
        summary: runnable_avg::SUMMARY,
        source: runnable_avg::SOURCE,
        base: &v5_6::KERNEL,
        patched: &runnable_avg::KERNEL,
        context: &[],
    },
    Patch {
        name: "runnable-avg-numa-load",
        summary: runnable_avg::SUMMARY_NUMA_LOAD,
        source: runnable_avg::SOURCE,
        base: &v5_6::KERNEL,
        patched: &runnable_avg::NUMA_LOAD,
        context: &[],
    },
    Patch {
        name: "runnable-avg-signal",
        summary: runnable_avg::SUMMARY_SIGNAL,
        source: runnable_avg::SOURCE,
        base: &v5_6::KERNEL,
        patched: &runnable_avg::SIGNAL,
        context: &[],
    },
    Patch {
        name: "runnable-avg-classify",
        summary: runnable_avg::SUMMARY_CLASSIFY,
        source: runnable_avg::SOURCE,
        base: &runnable_avg::SIGNAL,
        patched: &runnable_avg::KERNEL,
        context: &["pelt_form"],
    },
    Patch {
        name: "runnable-avg-v3",
        summary: runnable_avg_v3::SUMMARY,
        source: runnable_avg_v3::SOURCE,
        base: &v5_6::KERNEL,
        patched: &runnable_avg_v3::KERNEL,
        context: &[],
    },
    Patch {
        name: "runnable-avg-v3-init",
        summary: runnable_avg_v3::SUMMARY_INIT,
        source: runnable_avg_v3::SOURCE,
        base: &runnable_avg::KERNEL,
        patched: &runnable_avg_v3::INIT,
        context: &[],
    },
    Patch {
        name: "numa-lb-reconcile",
        summary: numa_lb_reconcile::SUMMARY,
        source: numa_lb_reconcile::SOURCE,
        base: &v5_6::KERNEL,
        patched: &numa_lb_reconcile::KERNEL,
        context: &[],
    },
    Patch {
        name: "eligible-first",
        summary: eligible_first::SUMMARY,
        source: eligible_first::SOURCE,
        base: &v6_12::KERNEL,
        patched: &eligible_first::KERNEL,
        context: &[],
    },
    Patch {
        name: "eligible-first-described",
        summary: eligible_first::SUMMARY_DESCRIBED,
        source: eligible_first::SOURCE,
        base: &v6_12::KERNEL,
        patched: &eligible_first::KERNEL_DESCRIBED,
        context: &[],
    },
    Patch {
        name: "ni-random",
        summary: ni_random::SUMMARY,
        source: ni_random::SOURCE,
        base: &v6_12::KERNEL,
        patched: &ni_random::KERNEL,
        context: &[],
    },
];

/// A patch: its hunks are the slots in which `patched` differs from `base`.
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    /// Name, as `with_patches` takes it.
    pub name: &'static str,
    /// One sentence on what it changes and why.
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The kernel that it was made for.
    pub base: &'static Kernel,
    /// That kernel with the patch.
    pub patched: &'static Kernel,
    /// Slots that it leaves alone, but that have to be those of its base for it to mean anything.
    pub context: &'static [&'static str],
}

impl Patch {
    /// The patch called `name`; otherwise an error that offers the near names.
    pub fn named(name: &str) -> Result<&'static Self> {
        REGISTRY
            .iter()
            .find(|patch| patch.name == name)
            .ok_or_else(|| unknown("patch", name, "must be a patch", REGISTRY.iter().map(|patch| patch.name)))
    }

    /// The slots that the patch changes: (slot, before, after).
    pub fn hunks(&self) -> Vec<(&'static str, Origin, Origin)> {
        self.base
            .slots()
            .into_iter()
            .zip(self.patched.slots())
            .filter(|((_, before), (_, after))| before != after)
            .map(|((slot, before), (_, after))| (slot, before, after))
            .collect()
    }

    /// `kernel` with the patch; refused, as `patch(1)` would, where a hunk does not find what it replaces or its context.
    pub fn apply(&self, kernel: Kernel) -> Result<Kernel> {
        let here = kernel.slots();
        let found = |slot: &str| here.iter().find(|&&(name, _)| name == slot).map(|&(_, origin)| origin);
        let mut patched = kernel;
        for (slot, before, after) in self.hunks() {
            if found(slot).is_some_and(|origin| origin == after) {
                let rule = format!("is in {} already: slot {slot} is {after}", kernel.name);
                return Err(SimError::invalid("patch", format!("{:?}", self.name), rule));
            }
            self.expect(&kernel, slot, before, found(slot))?;
            patched = patched.with_slot(slot, self.patched)?;
        }
        for (slot, before) in self.base.slots() {
            if self.context.contains(&slot) {
                self.expect(&kernel, slot, before, found(slot))?;
            }
        }
        Ok(patched)
    }

    /// An error that says what the patch needs, and who brings it, unless a slot is as in the patch's base.
    fn expect(&self, kernel: &Kernel, slot: &str, needed: Origin, found: Option<Origin>) -> Result<()> {
        if found == Some(needed) {
            return Ok(());
        }
        let found = found.map_or_else(|| "nothing".to_owned(), |origin| origin.to_string());
        let brings = |patch: &&Self| {
            patch.name != self.name
                && patch.hunks().iter().any(|&(name, _, after)| name == slot && after == needed)
        };
        let brought_by = REGISTRY
            .iter()
            .find(brings)
            .map_or_else(String::new, |patch| format!(", as after {}", patch.name));
        let rule = format!(
            "is for {}: needs slot {slot} to be {needed}{brought_by}, and in {} it is {found}",
            self.base.name, kernel.name
        );
        Err(SimError::invalid("patch", format!("{:?}", self.name), rule))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{v5_5, v5_7};
    use super::*;

    #[test]
    fn a_patch_applies_where_its_context_is() {
        let patch = Patch::named("runnable-avg").unwrap();
        assert_eq!(patch.apply(v5_6::KERNEL).unwrap().slots(), runnable_avg::KERNEL.slots());
        let twice = patch.apply(v5_7::KERNEL).unwrap_err().to_string();
        assert!(twice.contains("in v5.7 already"), "{twice}");
        let changed = v5_6::KERNEL.with_slot("group_has_capacity", &v5_7::KERNEL).unwrap();
        let conflict = patch.apply(changed).unwrap_err().to_string();
        assert!(conflict.contains("slot group_has_capacity is"), "{conflict}");
        let old = patch.apply(v5_5::KERNEL).unwrap_err().to_string();
        assert!(old.contains("to be v5_6::update_sg_wakeup_stats"), "{old}");
    }

    #[test]
    fn every_patch_changes_something() {
        for patch in REGISTRY {
            assert!(!patch.hunks().is_empty(), "{}", patch.name);
        }
    }

    #[test]
    fn a_patch_that_lacks_its_base_says_what_brings_it() {
        let refused =
            |name: &str, kernel: Kernel| Patch::named(name).unwrap().apply(kernel).unwrap_err().to_string();
        let classify = refused("runnable-avg-classify", v5_6::KERNEL);
        assert!(classify.contains("pelt_form") && classify.contains("as after runnable-avg"), "{classify}");
        let idlest = refused("lb-rework-v4-idlest", v5_4::KERNEL);
        assert!(idlest.contains("group_classify") && idlest.contains("as after lb-rework-v4"), "{idlest}");
        let init = refused("runnable-avg-v3-init", v5_6::KERNEL);
        assert!(init.contains("new_task_runnable"), "{init}");
        let late = refused("lb-rework-v4", v5_6::KERNEL);
        assert!(late.contains("in v5.6 already"), "{late}");
    }

    #[test]
    fn the_steps_of_a_series_make_the_series() {
        let apply = |base: Kernel, names: &[&str]| {
            names.iter().fold(base, |kernel, name| kernel.with_patch(name).unwrap()).slots()
        };
        let rework = ["lb-rework-v4-balance", "lb-rework-v4-load", "lb-rework-v4-idlest"];
        assert_eq!(apply(v5_4::KERNEL, &rework), lb_rework_v4::KERNEL.slots());
        let runnable = ["runnable-avg-signal", "runnable-avg-classify"];
        assert_eq!(apply(v5_6::KERNEL, &runnable), runnable_avg::KERNEL.slots());
        // What v5.5 has beyond the series is the search for an idle CPU.
        let beyond: Vec<_> = (v5_5::KERNEL.slots().into_iter().zip(lb_rework_v4::KERNEL.slots()))
            .filter(|(v5_5, rework)| v5_5 != rework)
            .map(|((slot, _), _)| slot)
            .collect();
        assert_eq!(beyond, ["select_idle_sibling"]);
    }
}
