//! Patches: what a series changes, as a table on the kernel that it was made for.

pub mod eligible_first;
pub mod ni_random;
pub mod numa_lb_reconcile;
pub mod runnable_avg;

use super::{Kernel, Origin, unknown, v5_6, v6_12};
use crate::error::{Result, SimError};

/// All patches.
pub static REGISTRY: &[Patch] = &[
    Patch {
        name: "runnable-avg",
        summary: runnable_avg::SUMMARY,
        source: runnable_avg::SOURCE,
        base: &v5_6::KERNEL,
        patched: &runnable_avg::KERNEL,
    },
    Patch {
        name: "eligible-first",
        summary: eligible_first::SUMMARY,
        source: eligible_first::SOURCE,
        base: &v6_12::KERNEL,
        patched: &eligible_first::KERNEL,
    },
    Patch {
        name: "eligible-first-described",
        summary: eligible_first::SUMMARY_DESCRIBED,
        source: eligible_first::SOURCE,
        base: &v6_12::KERNEL,
        patched: &eligible_first::KERNEL_DESCRIBED,
    },
    Patch {
        name: "numa-lb-reconcile",
        summary: numa_lb_reconcile::SUMMARY,
        source: numa_lb_reconcile::SOURCE,
        base: &v5_6::KERNEL,
        patched: &numa_lb_reconcile::KERNEL,
    },
    Patch {
        name: "ni-random",
        summary: ni_random::SUMMARY,
        source: ni_random::SOURCE,
        base: &v6_12::KERNEL,
        patched: &ni_random::KERNEL,
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

    /// `kernel` with the patch; refused, as `patch(1)` would, where a hunk does not find what it replaces.
    pub fn apply(&self, kernel: Kernel) -> Result<Kernel> {
        let here: Vec<(&str, Origin)> = kernel.slots();
        let mut patched = kernel;
        for (slot, before, after) in self.hunks() {
            let found = here.iter().find(|&&(name, _)| name == slot).map(|&(_, origin)| origin);
            if found != Some(before) {
                let found = found.map_or_else(|| "nothing".to_owned(), |origin| origin.to_string());
                let rule = if found == after.to_string() {
                    format!("is in {} already: slot {slot} is {found}", kernel.name)
                } else {
                    format!("needs slot {slot} to be {before}, and in {} it is {found}", kernel.name)
                };
                return Err(SimError::invalid("patch", format!("{:?}", self.name), rule));
            }
            patched = patched.with_slot(slot, self.patched)?;
        }
        Ok(patched)
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
}
