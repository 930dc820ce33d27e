//! What tasks keep in memory, how they go through it, and where its pages may be.

use serde::{Deserialize, Serialize};

use crate::error::{Result, SimError};
use crate::topology::MachineSpec;

/// The most pages that the mappings of one load may have together.
pub const MAX_PAGES: u64 = 1 << 24;
/// Sizes of a page: base pages of the architectures, and a huge one of x86, KiB.
const PAGE_KIB_CHOICES: [i64; 4] = [4, 16, 64, 2048];

/// Memory of an entry's tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryEntry {
    /// Size of a mapping, MiB: one a task if private, else one for all.
    pub size_mib: i64,
    /// CPU time of one walk over a task's part while all of it is local, us.
    pub walk_us: i64,
    /// Who uses which part.
    #[serde(default)]
    pub sharing: Sharing,
    /// How far a slice reaches into its neighbours', per cent of its length.
    #[serde(default)]
    pub overlap_pct: i64,
    /// Part of the walk's time that is waiting for local memory, per cent: it grows with the distance.
    #[serde(default = "half")]
    pub bound_pct: i64,
    /// Where pages go when they are first touched.
    #[serde(default)]
    pub policy: MemPolicy,
    /// The nodes of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u32>,
    /// Node where somebody else touched everything before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_node: Option<u32>,
    /// Size of a page, KiB.
    #[serde(default = "base_page")]
    pub page_kib: i64,
}

fn half() -> i64 {
    50
}

fn base_page() -> i64 {
    4
}

/// Who uses which part of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Each task is a process with a mapping of its own.
    #[default]
    Private,
    /// The tasks are threads; each goes through its own slice of one mapping.
    Slices,
    /// The tasks are threads; each goes through all of one mapping, from a place of its own.
    All,
}

/// Where pages go (`enum` of mempolicy.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemPolicy {
    /// To the node that touches them first; NUMA balancing may move them (MPOL_PREFERRED, local).
    #[default]
    Local,
    /// In turn over the nodes (MPOL_INTERLEAVE).
    Interleave,
    /// To the nearest of the nodes (MPOL_BIND).
    Bind,
}

impl MemoryEntry {
    /// Checks every rule; `name` is the entry's.
    pub fn validate(&self, name: &str, machine: &MachineSpec) -> Result<()> {
        let field = |field: &str| format!("{name}.{field}");
        let ranges = [
            ("size_mib", self.size_mib, 1, 1 << 26),
            ("walk_us", self.walk_us, 1, 3_600_000_000),
            ("overlap_pct", self.overlap_pct, 0, 100),
            ("bound_pct", self.bound_pct, 0, 100),
        ];
        for (what, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(SimError::invalid(field(what), value, format!("must be {least} to {most}")));
            }
        }
        if self.overlap_pct > 0 && self.sharing != Sharing::Slices {
            return Err(SimError::invalid(
                field("overlap_pct"),
                self.overlap_pct,
                "is for sharing \"slices\" only",
            ));
        }
        if !PAGE_KIB_CHOICES.contains(&self.page_kib) {
            return Err(SimError::invalid(field("page_kib"), self.page_kib, "must be 4, 16, 64 or 2048"));
        }
        let has_memory = |node: &u32| {
            (*node as usize) < machine.distance.len() && !machine.memoryless_nodes.contains(node)
        };
        let nodes = self.nodes.iter().map(|node| ("nodes", node));
        for (what, node) in nodes.chain(self.first_node.iter().map(|node| ("first_node", node))) {
            if !has_memory(node) {
                let rule = format!("must be a node of {} with memory", machine.name);
                return Err(SimError::invalid(field(what), node, rule));
            }
        }
        match (self.policy, self.nodes.is_empty(), self.first_node) {
            (MemPolicy::Local, false, _) => Err(SimError::invalid(
                field("nodes"),
                format!("{:?}", self.nodes),
                "is not for policy \"local\"",
            )),
            (MemPolicy::Interleave | MemPolicy::Bind, true, _) => {
                Err(SimError::invalid(field("nodes"), "[]", "must name at least one node for this policy"))
            }
            (MemPolicy::Interleave | MemPolicy::Bind, _, Some(node)) => {
                Err(SimError::invalid(field("first_node"), node, "is for policy \"local\" only"))
            }
            _ => Ok(()),
        }
    }

    /// Pages of all mappings of `n` tasks.
    pub fn nr_pages(&self, n: i64) -> u64 {
        let mappings = if self.sharing == Sharing::Private { n as u64 } else { 1 };
        mappings * u64::from(self.pages_per_mapping())
    }

    fn pages_per_mapping(&self) -> u32 {
        (self.size_mib * 1024 / self.page_kib).clamp(1, i64::from(u32::MAX)) as u32
    }

    /// The mapping of an address space.
    pub fn region(&self, mm: u32) -> RegionSpec {
        RegionSpec {
            mm,
            nr_pages: self.pages_per_mapping(),
            page_kib: self.page_kib as u32,
            policy: self.policy,
            nodes: self.nodes.clone(),
            first_node: self.first_node,
        }
    }

    /// The part of a mapping that the task `index` of `n` goes through.
    pub fn walk(&self, region: u32, index: u32, n: u32) -> WalkSpec {
        let pages = u64::from(self.pages_per_mapping());
        let (index, n) = (u64::from(index), u64::from(n));
        let (first, end, start) = match self.sharing {
            Sharing::Private => (0, pages, 0),
            Sharing::All => (0, pages, pages * index / n),
            Sharing::Slices => {
                let (first, end) = (pages * index / n, (pages * (index + 1) / n).max(pages * index / n + 1));
                let overlap = (end - first) * self.overlap_pct as u64 / 100;
                (first.saturating_sub(overlap), (end + overlap).min(pages.max(end)), overlap.min(first))
            }
        };
        let nr_pages = (end - first) as u32;
        WalkSpec {
            region,
            first: first.min(pages - 1) as u32,
            nr_pages,
            start: start as u32,
            page_ns: (self.walk_us as u64 * 1000 / u64::from(nr_pages)).max(1),
            bound_permille: self.bound_pct as u64 * 10,
            rows: None,
        }
    }
}

/// A mapping of an address space.
#[derive(Clone, Debug)]
pub struct RegionSpec {
    /// Whose it is.
    pub mm: u32,
    /// Pages.
    pub nr_pages: u32,
    /// Size of one, KiB.
    pub page_kib: u32,
    /// Where they go.
    pub policy: MemPolicy,
    /// The policy's nodes.
    pub nodes: Vec<u32>,
    /// Where they are from the start, if they are.
    pub first_node: Option<u32>,
}

/// How a task goes through a mapping: page by page, round and round, as its work gets on.
#[derive(Clone, Copy, Debug)]
pub struct WalkSpec {
    /// The mapping.
    pub region: u32,
    /// First page of the part.
    pub first: u32,
    /// Pages of the part.
    pub nr_pages: u32,
    /// Page of the part where the walk begins.
    pub start: u32,
    /// Work that a page takes, ns.
    pub page_ns: u64,
    /// Part of the work that waits for memory.
    pub bound_permille: u64,
    /// Where the walk leads behind the part, before it begins anew.
    pub rows: Option<RowWalk>,
}

/// Runs of pages, evenly apart: rows of an array whose planes follow each other. The way leads through two sets of them.
#[derive(Clone, Copy, Debug)]
pub struct RowWalk {
    /// First page of each set.
    pub firsts: [u32; 2],
    /// Pages of a run.
    pub run: u32,
    /// Pages from the start of a run to that of the next.
    pub stride: u32,
    /// Runs of a set.
    pub count: u32,
}

impl WalkSpec {
    /// Pages that a walk comes to before it begins anew.
    #[inline]
    pub fn span(&self) -> u32 {
        self.nr_pages + self.rows.map_or(0, |rows| 2 * rows.run * rows.count)
    }

    /// The page at a place of the walk.
    #[inline]
    pub fn page(&self, place: u32) -> usize {
        let (Some(rows), Some(beyond)) = (self.rows, place.checked_sub(self.nr_pages)) else {
            return (self.first + place) as usize;
        };
        let (run, page) = (beyond / rows.run, beyond % rows.run);
        let set = usize::from(run >= rows.count);
        let run = if set == 1 { run - rows.count } else { run };
        (rows.firsts[set] + run * rows.stride + page) as usize
    }
}
