//! The ordered queue of waiting entities.
//!
//! The kernel keeps a red-black tree; its order is (key, then order of insertion). The key is the virtual run time, or in
//! later kernels the virtual deadline.
//! A vector in descending order gives the same order, the next entity at its end, and cheap moves near that end,
//! where wake-ups land; it beats a tree up to several hundred entities.

use super::rq::TaskId;

/// Waiting entities by key; the last element is the first of the queue.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    entries: Vec<(u64, TaskId)>,
}

/// `entity_before()`: whether `a` is the smaller virtual time, on a clock that may wrap.
#[inline]
pub fn vruntime_before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

impl Timeline {
    /// `__enqueue_entity()`: behind all entities of equal key.
    #[inline]
    pub fn insert(&mut self, key: u64, task: TaskId) {
        let at = self.entries.partition_point(|&(other, _)| vruntime_before(key, other));
        self.entries.insert(at, (key, task));
    }

    /// `__dequeue_entity()`.
    #[inline]
    pub fn remove(&mut self, key: u64, task: TaskId) {
        if self.entries.last() == Some(&(key, task)) {
            self.entries.pop();
            return;
        }
        let start = self.entries.partition_point(|&(other, _)| vruntime_before(key, other));
        let found = self.entries[start..].iter().position(|&(_, other)| other == task);
        debug_assert!(found.is_some_and(|at| self.entries[start + at].0 == key));
        if let Some(at) = found {
            self.entries.remove(start + at);
        }
    }

    /// `__pick_first_entity()`: smallest key and its task.
    #[inline]
    pub fn first(&self) -> Option<(u64, TaskId)> {
        self.entries.last().copied()
    }

    /// `__pick_next_entity()` of the first: the second smallest.
    pub fn second(&self) -> Option<(u64, TaskId)> {
        self.entries.len().checked_sub(2).map(|at| self.entries[at])
    }

    /// Number of waiting entities.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Waiting entities from the smallest key on.
    pub fn iter(&self) -> impl Iterator<Item = (u64, TaskId)> + '_ {
        self.entries.iter().rev().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_run_in_order_of_insertion_and_the_clock_may_wrap() {
        let mut timeline = Timeline::default();
        for (vruntime, task) in [(5, 0), (u64::MAX - 3, 1), (5, 2), (0, 3), (5, 4)] {
            timeline.insert(vruntime, task);
        }
        let order = |timeline: &Timeline| timeline.iter().map(|(_, task)| task).collect::<Vec<_>>();
        assert_eq!(order(&timeline), [1, 3, 0, 2, 4]);
        timeline.remove(5, 2);
        timeline.remove(u64::MAX - 3, 1);
        assert_eq!(order(&timeline), [3, 0, 4]);
        assert_eq!(timeline.second(), Some((5, 0)));
    }
}
