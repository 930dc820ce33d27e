//! The share that fairness would give each task: weighted max-min over the whole machine.

use std::collections::BTreeMap;

use crate::cpumask::CpuMask;
use crate::load_weight::SCHED_PRIO_TO_WEIGHT;

/// Weight of a cgroup (`cpu.weight` 100).
const GROUP_WEIGHT: f64 = 1024.0;

/// Most distinct affinities whose unions are looked at, as 2^n of them are.
const MAX_AFFINITIES: usize = 10;

/// What fairness needs to know of a task.
#[derive(Clone, Debug)]
pub(super) struct Claim<'a> {
    pub nice: i8,
    pub group: Option<&'a str>,
    pub affinity: &'a CpuMask,
}

/// CPUs' worth of time that each task would get: rates rise together, by weight, until a task has a whole CPU or the
/// CPUs it may use are given away. A cgroup is one claimant of weight 1024 and splits what it gets by nice.
pub(super) fn fair_shares(claims: &[Claim<'_>], nr_cpus: usize) -> Vec<f64> {
    let limits = limits(claims, nr_cpus);
    let mut entities: BTreeMap<(Option<&str>, usize), Vec<usize>> = BTreeMap::new();
    for (task, claim) in claims.iter().enumerate() {
        // A task of the root is a claimant of its own.
        let alone = if claim.group.is_some() { 0 } else { task };
        entities.entry((claim.group, alone)).or_default().push(task);
    }
    let mut open: Vec<Vec<usize>> = entities.into_values().collect();
    let mut shares = vec![0.0; claims.len()];
    while !open.is_empty() {
        let at = |level: f64, shares: &[f64]| {
            let mut shares = shares.to_vec();
            for tasks in &open {
                split(claims, tasks, level, &mut shares);
            }
            shares
        };
        let fits =
            |shares: &[f64]| limits.iter().all(|limit| limit.used(shares) <= limit.nr_cpus + TOLERANCE_CPUS);
        // At the upper end every task of the lowest weight has its CPU.
        let (mut low, mut high) = (0.0, claims.len() as f64);
        if fits(&at(high, &shares)) {
            return at(high, &shares);
        }
        for _ in 0..BISECTIONS {
            let middle = 0.5 * (low + high);
            if fits(&at(middle, &shares)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        shares = at(low, &shares);
        let full: Vec<&Limit> =
            limits.iter().filter(|limit| limit.used(&shares) >= limit.nr_cpus - FULL_CPUS).collect();
        let before = open.len();
        open.retain(|tasks| !tasks.iter().any(|task| full.iter().any(|limit| limit.tasks.contains(task))));
        if open.len() == before {
            break;
        }
    }
    shares
}

const BISECTIONS: usize = 80;
const TOLERANCE_CPUS: f64 = 1e-12;
const FULL_CPUS: f64 = 1e-6;

/// Tasks that may use no other CPUs than so many.
struct Limit {
    nr_cpus: f64,
    tasks: Vec<usize>,
}

impl Limit {
    fn used(&self, shares: &[f64]) -> f64 {
        self.tasks.iter().map(|&task| shares[task]).sum()
    }
}

/// Every union of affinities with the tasks that cannot leave it.
fn limits(claims: &[Claim<'_>], nr_cpus: usize) -> Vec<Limit> {
    let mut affinities: Vec<&CpuMask> = Vec::new();
    for claim in claims {
        if !affinities.contains(&claim.affinity) {
            affinities.push(claim.affinity);
        }
    }
    affinities.truncate(MAX_AFFINITIES);
    let inside = |cpus: &CpuMask| Limit {
        nr_cpus: cpus.weight() as f64,
        tasks: (0..claims.len()).filter(|&task| claims[task].affinity.is_subset(cpus)).collect(),
    };
    let mut limits = vec![inside(&CpuMask::all(nr_cpus))];
    for chosen in 1..1_u32 << affinities.len() {
        let union = affinities
            .iter()
            .enumerate()
            .filter(|(index, _)| chosen >> index & 1 == 1)
            .fold(CpuMask::new(nr_cpus), |union, (_, affinity)| union.or(affinity));
        limits.push(inside(&union));
    }
    limits
}

/// Gives the tasks of one claimant what `level` means for it: CPUs' worth a nice-0 weight.
fn split(claims: &[Claim<'_>], tasks: &[usize], level: f64, shares: &mut [f64]) {
    let weight = |task: usize| f64::from(SCHED_PRIO_TO_WEIGHT[(claims[task].nice + 20) as usize]);
    if claims[tasks[0]].group.is_none() {
        shares[tasks[0]] = (level * weight(tasks[0]) / GROUP_WEIGHT).min(1.0);
        return;
    }
    let mut left = level.min(tasks.len() as f64);
    let mut by_weight = tasks.to_vec();
    by_weight.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)));
    let mut weights: f64 = by_weight.iter().map(|&task| weight(task)).sum();
    // Heaviest first: what a whole CPU cuts off a task is left to the lighter ones.
    for task in by_weight {
        shares[task] = (left * weight(task) / weights).min(1.0);
        left -= shares[task];
        weights -= weight(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(claims: &[(i8, Option<&str>, &[usize])], nr_cpus: usize) -> Vec<f64> {
        let masks: Vec<CpuMask> = claims
            .iter()
            .map(|(.., cpus)| {
                if cpus.is_empty() {
                    CpuMask::all(nr_cpus)
                } else {
                    CpuMask::from_cpus(nr_cpus, cpus.iter().copied())
                }
            })
            .collect();
        let claims: Vec<Claim<'_>> = claims
            .iter()
            .zip(&masks)
            .map(|(&(nice, group, _), affinity)| Claim { nice, group, affinity })
            .collect();
        fair_shares(&claims, nr_cpus)
    }

    fn assert_close(shares: &[f64], expected: &[f64]) {
        assert_eq!(shares.len(), expected.len());
        for (share, expected) in shares.iter().zip(expected) {
            assert!((share - expected).abs() < 1e-5, "{shares:?}, expected {expected}");
        }
    }

    #[test]
    fn equal_tasks_share_equally_and_none_has_more_than_a_cpu() {
        assert_close(&shares(&[(0, None, [].as_slice()); 5], 4), &[0.8; 5]);
        assert_close(&shares(&[(0, None, [].as_slice()); 3], 4), &[1.0; 3]);
    }

    #[test]
    fn what_a_whole_cpu_cuts_off_goes_to_the_others_by_weight() {
        // 3121 against 1024 on two CPUs: the heavy one is capped, the two light ones split a CPU.
        assert_close(&shares(&[(-5, None, &[]), (0, None, &[]), (0, None, &[])], 2), &[1.0, 0.5, 0.5]);
    }

    #[test]
    fn a_cgroup_claims_as_one_and_splits_by_nice() {
        let claims = [(0, None, &[][..]), (0, Some("g"), &[]), (0, Some("g"), &[]), (0, Some("g"), &[])];
        assert_close(&shares(&claims, 1), &[0.5, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]);
    }

    #[test]
    fn tasks_that_are_bound_get_what_their_cpus_give() {
        // Six tasks on CPUs 0-3 and four anywhere, on eight CPUs.
        let bound = [(0, None, &[0, 1, 2, 3][..]); 6];
        let free = [(0, None, &[][..]); 4];
        let expected = [[2.0 / 3.0; 6].as_slice(), &[1.0; 4]].concat();
        assert_close(&shares(&[&bound[..], &free[..]].concat(), 8), &expected);
    }
}
