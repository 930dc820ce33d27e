//! Random numbers: named streams of one seed, integers only.
//!
//! Every consumer has a stream of its own, so that a change in one (another kernel, another tie) leaves the others'
//! draws alone: two kernels under one seed see the same work times and the same tick phases.
//! The generator is SplitMix64 (Steele, Lea, Flood 2014): one addition and one mix a draw, any state is a good state.

/// One stream of random integers.
#[derive(Clone, Copy, Debug)]
pub struct Rng {
    state: u64,
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream `name` number `index` of `seed`.
    pub fn stream(seed: u64, name: &str, index: u64) -> Self {
        let mut state = mix(seed.wrapping_add(GOLDEN_GAMMA));
        for byte in name.bytes() {
            state = mix(state ^ u64::from(byte)).wrapping_add(GOLDEN_GAMMA);
        }
        Self { state: mix(state ^ mix(index.wrapping_add(GOLDEN_GAMMA))) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }

    /// A draw from 0 to `bound - 1`; 0 for a bound of 0. The bias is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// `value` spread evenly by plus or minus `permille` thousandths.
    #[inline]
    pub fn jitter(&mut self, value: u64, permille: u64) -> u64 {
        let spread = value * permille / 1000;
        value - spread + self.below(2 * spread + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_name_and_index() {
        let first = |seed, name, index| Rng::stream(seed, name, index).next_u64();
        let draws =
            [first(1, "a", 0), first(2, "a", 0), first(1, "b", 0), first(1, "a", 1), first(1, "ab", 0)];
        for (i, draw) in draws.iter().enumerate() {
            assert!(draws[i + 1..].iter().all(|other| other != draw));
        }
        assert_eq!(first(7, "tick", 3), first(7, "tick", 3));
    }

    #[test]
    fn jitter_stays_in_its_band_and_reaches_both_halves() {
        let mut rng = Rng::stream(0, "jitter", 0);
        let draws: Vec<u64> = (0..1000).map(|_| rng.jitter(1000, 100)).collect();
        assert!(draws.iter().all(|draw| (900..=1100).contains(draw)));
        assert!(draws.iter().any(|&draw| draw < 930) && draws.iter().any(|&draw| draw > 1070));
        assert_eq!(rng.jitter(0, 100), 0);
    }
}
