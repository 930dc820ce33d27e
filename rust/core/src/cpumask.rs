//! A set of CPUs, ordered: the kernel's `struct cpumask`.

/// A set of CPU numbers below `nr_cpus` (at most 4,096 in this laboratory).
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuMask {
    words: Vec<u64>,
}

impl CpuMask {
    /// The empty set, with room for `nr_cpus` CPUs.
    pub fn new(nr_cpus: usize) -> Self {
        Self { words: vec![0; nr_cpus.div_ceil(64)] }
    }

    /// All CPUs below `nr_cpus`.
    pub fn all(nr_cpus: usize) -> Self {
        Self::from_cpus(nr_cpus, 0..nr_cpus)
    }

    /// The set of `cpus`, each below `nr_cpus`.
    pub fn from_cpus(nr_cpus: usize, cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut mask = Self::new(nr_cpus);
        for cpu in cpus {
            mask.set(cpu);
        }
        mask
    }

    /// Adds `cpu`.
    #[inline]
    pub fn set(&mut self, cpu: usize) {
        self.words[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Takes `cpu` out.
    #[inline]
    pub fn clear(&mut self, cpu: usize) {
        self.words[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// Whether `cpu` is in the set; CPUs beyond its room are not.
    #[inline]
    pub fn test(&self, cpu: usize) -> bool {
        self.words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// Number of CPUs in the set.
    pub fn weight(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no CPU is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| Bits(word).map(move |bit| index * 64 + bit))
    }

    /// The CPUs in ascending order from `start`, then from the lowest up to `start`: `for_each_cpu_wrap()`.
    pub fn iter_wrap(&self, start: usize) -> impl Iterator<Item = usize> + '_ {
        let low = if start == 0 { usize::MAX } else { start };
        self.iter()
            .skip_while(move |&cpu| cpu < start)
            .chain(self.iter().take_while(move |&cpu| cpu < low && low != usize::MAX))
    }

    /// The lowest CPU not below `start`.
    #[inline]
    pub fn next_from(&self, start: usize) -> Option<usize> {
        let mut index = start / 64;
        let mut word = self.words.get(index)? & (!0u64 << (start % 64));
        loop {
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
            index += 1;
            word = *self.words.get(index)?;
        }
    }

    /// The first CPU at or after `start`, wrapping round, that is in both sets.
    #[inline]
    pub fn first_common_wrap(&self, other: &Self, start: usize) -> Option<usize> {
        let nr = self.words.len().min(other.words.len());
        let (begin, bit) = (start / 64, start % 64);
        let word = |index: usize| self.words[index] & other.words[index];
        let hit = |index: usize, bits: u64| (bits != 0).then(|| index * 64 + bits.trailing_zeros() as usize);
        if begin < nr {
            if let Some(cpu) = hit(begin, word(begin) & (!0u64 << bit)) {
                return Some(cpu);
            }
            for index in begin + 1..nr {
                if let Some(cpu) = hit(index, word(index)) {
                    return Some(cpu);
                }
            }
        }
        for index in 0..begin.min(nr) {
            if let Some(cpu) = hit(index, word(index)) {
                return Some(cpu);
            }
        }
        if begin < nr { hit(begin, word(begin) & !(!0u64 << bit)) } else { None }
    }

    /// Whether the two sets share a CPU.
    #[inline]
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words
            .iter()
            .enumerate()
            .all(|(index, word)| word & !other.words.get(index).copied().unwrap_or(0) == 0)
    }

    /// The CPUs in both sets.
    pub fn and(&self, other: &Self) -> Self {
        Self { words: self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect() }
    }

    /// The CPUs in this set and not in `other`.
    pub fn and_not(&self, other: &Self) -> Self {
        Self { words: self.words.iter().zip(&other.words).map(|(a, b)| a & !b).collect() }
    }

    /// The CPUs in either set; both have the same room.
    pub fn or(&self, other: &Self) -> Self {
        Self { words: self.words.iter().zip(&other.words).map(|(a, b)| a | b).collect() }
    }

    /// Makes this set a copy of `other` without allocating; both have the same room.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        self.words.copy_from_slice(&other.words);
    }
}

impl std::fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The set bits of a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        (self.0 != 0).then(|| {
            let bit = self.0.trailing_zeros() as usize;
            self.0 &= self.0 - 1;
            bit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_round_like_for_each_cpu_wrap() {
        let mask = CpuMask::from_cpus(130, [0, 3, 64, 129]);
        assert_eq!(mask.iter_wrap(4).collect::<Vec<_>>(), [64, 129, 0, 3]);
        assert_eq!(mask.iter_wrap(0).collect::<Vec<_>>(), [0, 3, 64, 129]);
        assert_eq!(mask.iter_wrap(129).collect::<Vec<_>>(), [129, 0, 3, 64]);
    }

    #[test]
    fn finds_the_first_common_cpu_from_any_start() {
        let a = CpuMask::from_cpus(130, [1, 65, 100]);
        let b = CpuMask::from_cpus(130, [1, 100]);
        for start in 0..130 {
            let expected = a.iter_wrap(start).find(|&cpu| b.test(cpu));
            assert_eq!(a.first_common_wrap(&b, start), expected, "start {start}");
        }
    }
}
