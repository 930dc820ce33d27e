//! Interned CPU sets: domains of thousands of CPUs share few distinct spans, and equality becomes one comparison.

use std::collections::HashMap;

use crate::cpumask::CpuMask;

/// Index of a span in its [`SpanTable`]: two ids are equal exactly when the sets are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct SpanId(u32);

/// A distinct set of CPUs.
pub(super) struct Span {
    /// The set.
    pub mask: CpuMask,
    /// Its members in ascending order.
    pub cpus: Vec<usize>,
}

impl Span {
    /// Number of CPUs.
    pub fn weight(&self) -> usize {
        self.cpus.len()
    }

    /// The members from `start` on, then those below it: `for_each_cpu_wrap()`.
    pub fn iter_wrap(&self, start: usize) -> impl Iterator<Item = usize> + '_ {
        let (below, from) = self.cpus.split_at(self.cpus.partition_point(|&cpu| cpu < start));
        from.iter().chain(below).copied()
    }
}

/// All spans seen so far.
#[derive(Default)]
pub(super) struct SpanTable {
    spans: Vec<Span>,
    ids: HashMap<CpuMask, SpanId>,
    unions: HashMap<(SpanId, SpanId), SpanId>,
    intersections: HashMap<(SpanId, SpanId), SpanId>,
}

impl SpanTable {
    /// The id of `mask`.
    pub fn intern(&mut self, mask: CpuMask) -> SpanId {
        if let Some(&id) = self.ids.get(&mask) {
            return id;
        }
        let id = SpanId(u32::try_from(self.spans.len()).expect("spans are fewer than CPUs times levels"));
        self.ids.insert(mask.clone(), id);
        self.spans.push(Span { cpus: mask.iter().collect(), mask });
        id
    }

    /// The span of `id`.
    pub fn get(&self, id: SpanId) -> &Span {
        &self.spans[id.0 as usize]
    }

    /// Whether every CPU of `a` is in `b`.
    pub fn is_subset(&self, a: SpanId, b: SpanId) -> bool {
        a == b || self.get(a).mask.is_subset(&self.get(b).mask)
    }

    /// The span of CPUs in either.
    pub fn union(&mut self, a: SpanId, b: SpanId) -> SpanId {
        if let Some(&id) = self.unions.get(&(a, b)) {
            return id;
        }
        let id = self.intern(self.get(a).mask.or(&self.get(b).mask));
        self.unions.insert((a, b), id);
        id
    }

    /// The span of CPUs in both.
    pub fn intersection(&mut self, a: SpanId, b: SpanId) -> SpanId {
        if let Some(&id) = self.intersections.get(&(a, b)) {
            return id;
        }
        let id = self.intern(self.get(a).mask.and(&self.get(b).mask));
        self.intersections.insert((a, b), id);
        id
    }
}
