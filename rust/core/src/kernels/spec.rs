//! The policy of a kernel as a caller names it: a generation, patches, and slots of other kernels.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::patches::{self, Patch};
use super::{Kernel, REGISTRY, unknown};
use crate::error::{Result, SimError};

/// Which table of slots a caller wants; fields that are not about slots are for others to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PolicySpec {
    /// The generation.
    pub name: String,
    /// Patches on it, in order.
    #[serde(default)]
    pub patches: Vec<String>,
    /// Slots filled as another generation or patch fills them.
    #[serde(default)]
    pub slots: BTreeMap<String, String>,
}

impl PolicySpec {
    /// The table.
    pub fn resolve(&self) -> Result<Kernel> {
        let mut kernel = *Kernel::named(&self.name)?;
        for patch in &self.patches {
            kernel = kernel.with_patch(patch)?;
        }
        for (slot, source) in &self.slots {
            kernel = kernel.with_slot(slot, generation_or_patch(source)?)?;
        }
        Ok(kernel)
    }

    /// The table, for decisions of the fair class alone; an error if the kernel has none.
    pub fn resolve_fair(&self) -> Result<Kernel> {
        let kernel = self.resolve()?;
        if kernel.o1.is_some() {
            let rule =
                "must have the fair scheduler: the decisions of the O(1) scheduler are made in runs only";
            return Err(SimError::invalid("kernel", format!("{:?}", self.name), rule));
        }
        Ok(kernel)
    }
}

fn generation_or_patch(name: &str) -> Result<&'static Kernel> {
    let patched = Patch::named(name).map(|patch| patch.patched);
    Kernel::named(name).or(patched).map_err(|_| {
        let generations = REGISTRY.iter().map(|kernel| kernel.name);
        let known = generations.chain(patches::REGISTRY.iter().map(|patch| patch.name));
        unknown("slots", name, "must be a kernel generation or a patch", known)
    })
}

#[cfg(test)]
mod tests {
    use super::super::patches::runnable_avg;
    use super::super::{v5_6, v5_7};
    use super::*;

    fn resolve(json: &str) -> Result<Kernel> {
        serde_json::from_str::<PolicySpec>(json).unwrap().resolve()
    }

    #[test]
    fn patches_and_slots_are_put_on_in_order() {
        let plain = resolve(r#"{"name": "v5.6", "tunables": {"hz": 250}}"#).unwrap();
        assert_eq!(plain.slots(), v5_6::KERNEL.slots());
        let patched = resolve(r#"{"name": "v5.6", "patches": ["runnable-avg"]}"#).unwrap();
        assert_eq!(patched.slots(), runnable_avg::KERNEL.slots());
        let mixed = resolve(
            r#"{"name": "v5.7", "slots": {"group_has_capacity": "v5.5", "wake_wide": "runnable-avg"}}"#,
        );
        let origin = mixed.unwrap().balance.group_has_capacity.origin;
        assert_eq!(origin.to_string(), "v5_5::group_has_capacity");
        assert_ne!(origin, v5_7::KERNEL.balance.group_has_capacity.origin);
    }

    #[test]
    fn unknown_names_are_errors() {
        for (json, argument) in [
            (r#"{"name": "v5.8"}"#, "kernel"),
            (r#"{"name": "v5.6", "patches": ["runable-avg"]}"#, "patch"),
            (r#"{"name": "v5.6", "slots": {"wake_wide": "v5"}}"#, "slots"),
            (r#"{"name": "v5.6", "slots": {"wake_wid": "v5.5"}}"#, "slot"),
        ] {
            let error = resolve(json).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{argument} = ")) && error.contains("near names"), "{error}");
        }
    }
}
