//! The pending-event set: one slot a CPU in a branch-free winner tree.
//!
//! A CPU's slot holds the earliest of everything that waits for it.
//! Key = time in ns above 12 bits of CPU number, so one integer comparison orders events by (time, CPU):
//! deterministic, and no stale entries are ever left behind by a re-key.

/// CPU numbers take this many low bits of a key; 52 bits of ns last for 52 days.
const CPU_BITS: u32 = 12;

/// The latest time that fits; an idle slot holds it.
pub const NEVER: u64 = u64::MAX >> CPU_BITS;

/// Next event time of each CPU, with the earliest at hand.
#[derive(Clone, Debug)]
pub struct EventQueue {
    /// A complete binary tree: node 1 is the winner, leaves start at `leaves`.
    tree: Vec<u64>,
    leaves: usize,
}

impl EventQueue {
    /// A queue for `nr_cpus` CPUs (at most 4,096) with nothing pending.
    pub fn new(nr_cpus: usize) -> Self {
        debug_assert!(nr_cpus <= 1 << CPU_BITS);
        let leaves = nr_cpus.next_power_of_two();
        Self { tree: vec![u64::MAX; 2 * leaves], leaves }
    }

    /// The earliest (time, CPU); time is [`NEVER`] when nothing is pending.
    #[inline]
    pub fn first(&self) -> (u64, usize) {
        let key = self.tree[1];
        (key >> CPU_BITS, (key & ((1 << CPU_BITS) - 1)) as usize)
    }

    /// Puts the next event of `cpu` at `time_ns`; [`NEVER`] for none.
    #[inline]
    pub fn set(&mut self, cpu: usize, time_ns: u64) {
        let mut node = self.leaves + cpu;
        let mut key = (time_ns << CPU_BITS) | cpu as u64;
        if self.tree[node] == key {
            return;
        }
        self.tree[node] = key;
        while node > 1 {
            key = key.min(self.tree[node ^ 1]);
            node >>= 1;
            self.tree[node] = key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_scan(nr_cpus in 1usize..70, moves in prop::collection::vec((0usize..70, 0u64..50), 1..200)) {
            let mut queue = EventQueue::new(nr_cpus);
            let mut times = vec![NEVER; nr_cpus];
            for (cpu, time) in moves {
                let (cpu, time) = (cpu % nr_cpus, if time == 0 { NEVER } else { time });
                queue.set(cpu, time);
                times[cpu] = time;
                let first = times.iter().copied().enumerate().map(|(cpu, time)| (time, cpu)).min().unwrap();
                prop_assert_eq!(queue.first(), if first.0 == NEVER { (NEVER, queue.first().1) } else { first });
            }
        }
    }
}
