//! Builds sched domains and groups as each kernel generation does.
//!
//! In order: candidate domains of every CPU from the bottom up ([`build_hierarchies`]), their rings of groups
//! ([`Builder::ring`]), the removal of levels that decide nothing ([`Builder::cpu_attach_domain`]), and the groups
//! themselves with their shared capacity objects.

use std::collections::HashMap;

use super::levels::{CpuSets, Level, candidate_levels};
use super::rules::{AsymCapacity, DomainRules};
use super::spans::{SpanId, SpanTable};
use super::{MachineSpec, RemovalReason, RemovedLevel, SchedDomain, SchedDomains, SchedGroup, SdFlags};
use crate::cpumask::CpuMask;
use crate::error::Result;

/// Builds the domains of all CPUs of `machine` under `rules`.
///
/// kernel/sched/topology.c, build_sched_domains(). Errors: what [`MachineSpec::validate`] refuses.
pub fn build_sched_domains(machine: &MachineSpec, rules: &DomainRules) -> Result<SchedDomains> {
    machine.validate()?;
    if rules.o1 {
        return Ok(super::o1::build(machine));
    }
    let mut spans = SpanTable::default();
    let cpus = CpuSets::new(machine, rules);
    let levels = candidate_levels(machine, rules, &cpus, &mut spans);
    let map = spans.intern(cpus.online.and_not(&isolated_cpus(machine)));
    let hierarchies = build_hierarchies(machine, rules, &levels, map, &mut spans);
    let builder = Builder {
        machine,
        rules,
        levels,
        spans,
        hierarchies,
        plain_rings: HashMap::new(),
        balance_masks: HashMap::new(),
        group_ids: HashMap::new(),
        sgc_ids: HashMap::new(),
        groups: Vec::new(),
        covered_by: vec![usize::MAX; machine.nr_cpus()],
        walks: 0,
    };
    Ok(builder.attach_all(&cpus, map))
}

fn isolated_cpus(machine: &MachineSpec) -> CpuMask {
    CpuMask::from_cpus(machine.nr_cpus(), machine.isolated.iter().map(|&cpu| cpu as usize))
}

/// A domain before degenerate levels are removed; its index in the hierarchy is its level number.
#[derive(Clone, Copy)]
struct Candidate {
    span: SpanId,
    flags: SdFlags,
    imb_numa_nr: u32,
}

/// The candidate domains of every CPU, lowest first; empty outside `map`.
fn build_hierarchies(
    machine: &MachineSpec,
    rules: &DomainRules,
    levels: &[Level],
    map: SpanId,
    spans: &mut SpanTable,
) -> Vec<Vec<Candidate>> {
    let mut hierarchies = vec![Vec::new(); machine.nr_cpus()];
    let mut asym = AsymLevels::new(machine, rules, levels, map, spans);
    for cpu in spans.get(map).cpus.clone() {
        let hierarchy = build_hierarchy(cpu, machine, rules, levels, map, spans, &mut asym);
        hierarchies[cpu] = hierarchy;
    }
    if rules.numa_imbalance {
        for hierarchy in &mut hierarchies {
            set_imb_numa_nr(hierarchy, spans);
        }
    }
    hierarchies
}

/// kernel/sched/topology.c, build_sched_domain(): one CPU's candidates, up to the first that spans all of `map`.
fn build_hierarchy(
    cpu: usize,
    machine: &MachineSpec,
    rules: &DomainRules,
    levels: &[Level],
    map: SpanId,
    spans: &mut SpanTable,
    asym: &mut AsymLevels,
) -> Vec<Candidate> {
    let mut hierarchy: Vec<Candidate> = Vec::new();
    for (index, level) in levels.iter().enumerate() {
        let own = spans.intersection(level.mask[cpu], map);
        let mut flags = sd_init_flags(level, reclaim_distance(machine));
        if machine.relax_domain_level.is_some_and(|relax| {
            let first = if rules.relax_level_inclusive { relax } else { relax.saturating_add(1) };
            index as u32 >= first
        }) {
            flags = flags.without(SdFlags::BALANCE_NEWIDLE);
        }
        flags = flags.with(asym.flags(index, own, spans));
        if flags.has(SdFlags::ASYM_CPUCAPACITY) {
            if let Some(child) = hierarchy.last_mut() {
                child.flags = child.flags.without(SdFlags::PREFER_SIBLING);
            }
            if rules.asym_balance_wake {
                flags = flags.with(SdFlags::BALANCE_WAKE);
                for lower in &mut hierarchy {
                    lower.flags = lower.flags.with(SdFlags::BALANCE_WAKE);
                }
            }
        }
        // A mask that misses CPUs of the level below ("arch topology borken") is widened.
        let span = hierarchy.last().map_or(own, |child| spans.union(child.span, own));
        hierarchy.push(Candidate { span, flags, imb_numa_nr: 0 });
        if span == map {
            break;
        }
    }
    hierarchy
}

/// kernel/sched/topology.c, sd_init(): the flags that a level gives to its domains.
fn sd_init_flags(level: &Level, reclaim_distance: u32) -> SdFlags {
    let flags = SdFlags::BALANCE_NEWIDLE
        .with(SdFlags::BALANCE_EXEC)
        .with(SdFlags::BALANCE_FORK)
        .with(SdFlags::WAKE_AFFINE)
        .with(SdFlags::PREFER_SIBLING)
        .with(level.flags);
    if !level.flags.has(SdFlags::NUMA) {
        return flags;
    }
    let flags = flags.without(SdFlags::PREFER_SIBLING).with(SdFlags::SERIALIZE);
    if level.distance > reclaim_distance {
        flags.without(SdFlags::BALANCE_EXEC).without(SdFlags::BALANCE_FORK).without(SdFlags::WAKE_AFFINE)
    } else {
        flags
    }
}

/// Distance above which a NUMA level loses fork, exec and affine placement: `RECLAIM_DISTANCE`, which powerpc sets
/// itself (arch/powerpc/include/asm/topology.h).
fn reclaim_distance(machine: &MachineSpec) -> u32 {
    if machine.arch == "powerpc" { 10 } else { 30 }
}

/// Finds the domains that hold CPUs of different capacities.
struct AsymLevels {
    how: AsymCapacity,
    /// Distinct capacities in the map, with their CPUs; empty on a symmetric machine.
    capacities: Vec<(u32, CpuMask)>,
    /// The one level of [`AsymCapacity::OneLevel`] and [`AsymCapacity::LevelAndAbove`].
    level: Option<usize>,
    by_span: HashMap<SpanId, SdFlags>,
}

impl AsymLevels {
    fn new(
        machine: &MachineSpec,
        rules: &DomainRules,
        levels: &[Level],
        map: SpanId,
        spans: &mut SpanTable,
    ) -> Self {
        let mut distinct: Vec<u32> = spans.get(map).cpus.iter().map(|&cpu| machine.capacity[cpu]).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut asym =
            Self { how: rules.asym_capacity, capacities: Vec::new(), level: None, by_span: HashMap::new() };
        if distinct.len() < 2 {
            return asym;
        }
        match rules.asym_capacity {
            AsymCapacity::ByDomain => {
                let of = |capacity: u32| {
                    let cpus = spans.get(map).cpus.iter().copied();
                    CpuMask::from_cpus(
                        machine.nr_cpus(),
                        cpus.filter(|&cpu| machine.capacity[cpu] == capacity),
                    )
                };
                asym.capacities = distinct.into_iter().map(|capacity| (capacity, of(capacity))).collect();
            }
            AsymCapacity::OneLevel | AsymCapacity::LevelAndAbove => {
                asym.level = asym_cpu_capacity_level(machine, levels, map, spans);
            }
        }
        asym
    }

    /// kernel/sched/topology.c, v6.1, asym_cpu_capacity_classify(); before v5.14 the level alone decides.
    fn flags(&mut self, level: usize, span: SpanId, spans: &SpanTable) -> SdFlags {
        match self.how {
            AsymCapacity::OneLevel if self.level == Some(level) => SdFlags::ASYM_CPUCAPACITY,
            AsymCapacity::LevelAndAbove if self.level.is_some_and(|first| level >= first) => {
                SdFlags::ASYM_CPUCAPACITY
            }
            AsymCapacity::OneLevel | AsymCapacity::LevelAndAbove => SdFlags::default(),
            AsymCapacity::ByDomain if self.capacities.is_empty() => SdFlags::default(),
            AsymCapacity::ByDomain => *self.by_span.entry(span).or_insert_with(|| {
                let mask = &spans.get(span).mask;
                let here = self.capacities.iter().filter(|(_, cpus)| cpus.intersects(mask)).count();
                if here < 2 {
                    SdFlags::default()
                } else if here < self.capacities.len() {
                    SdFlags::ASYM_CPUCAPACITY
                } else {
                    SdFlags::ASYM_CPUCAPACITY.with(SdFlags::ASYM_CPUCAPACITY_FULL)
                }
            }),
        }
    }
}

/// kernel/sched/topology.c, v5.4, asym_cpu_capacity_level(): the lowest level at which every CPU sees the most
/// capacity that it can see at all.
fn asym_cpu_capacity_level(
    machine: &MachineSpec,
    levels: &[Level],
    map: SpanId,
    spans: &mut SpanTable,
) -> Option<usize> {
    let mut highest: HashMap<SpanId, u32> = HashMap::new();
    let mut found = None;
    for cpu in spans.get(map).cpus.clone() {
        let mut max_capacity = machine.capacity[cpu];
        for (index, level) in levels.iter().enumerate().skip(found.unwrap_or(0)) {
            let span = spans.intersection(level.mask[cpu], map);
            let seen = *highest.entry(span).or_insert_with(|| {
                spans.get(span).cpus.iter().map(|&cpu| machine.capacity[cpu]).max().unwrap_or(0)
            });
            if seen > max_capacity {
                max_capacity = seen;
                found = Some(index);
            }
        }
    }
    found
}

/// kernel/sched/topology.c, v5.18, build_sched_domains(): how much NUMA imbalance each level allows.
fn set_imb_numa_nr(hierarchy: &mut [Candidate], spans: &SpanTable) {
    let weight = |candidate: &Candidate| spans.get(candidate.span).weight() as u32;
    let (mut imb, mut imb_span) = (0, 1);
    for index in 0..hierarchy.len() {
        let span_weight = weight(&hierarchy[index]);
        let shares = |candidate: &Candidate| candidate.flags.has(SdFlags::SHARE_LLC);
        let above_llc = index > 0 && !shares(&hierarchy[index]) && shares(&hierarchy[index - 1]);
        hierarchy[index].imb_numa_nr = if above_llc {
            let nr_llcs = span_weight / weight(&hierarchy[index - 1]);
            imb = if nr_llcs == 1 { span_weight >> 3 } else { nr_llcs }.max(1);
            let first_numa = hierarchy[index + 1..].iter().find(|above| above.flags.has(SdFlags::NUMA));
            imb_span = first_numa.map_or(span_weight, weight);
            imb
        } else {
            imb * (span_weight / imb_span).max(1)
        };
    }
}

/// A group of a ring before it becomes a [`SchedGroup`]: whose capacity object it uses, and what it spans.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RingGroup {
    /// Level of the capacity object.
    level: usize,
    span: SpanId,
    /// Flags of the child domain that the group stands for.
    flags: SdFlags,
}

struct Builder<'a> {
    machine: &'a MachineSpec,
    rules: &'a DomainRules,
    levels: Vec<Level>,
    spans: SpanTable,
    hierarchies: Vec<Vec<Candidate>>,
    /// The ring that all CPUs of a plain domain share.
    plain_rings: HashMap<(usize, SpanId), Vec<RingGroup>>,
    /// Balance mask and its lowest CPU, by level of the capacity object and span.
    balance_masks: HashMap<(usize, SpanId), (SpanId, usize)>,
    group_ids: HashMap<RingGroup, usize>,
    sgc_ids: HashMap<(usize, usize), usize>,
    groups: Vec<SchedGroup>,
    /// Per CPU the last walk that covered it: a set that needs no clearing.
    covered_by: Vec<usize>,
    walks: usize,
}

impl Builder<'_> {
    /// Attaches every CPU's surviving domains.
    fn attach_all(mut self, cpus: &CpuSets, map: SpanId) -> SchedDomains {
        let nr_cpus = self.machine.nr_cpus();
        let mut per_cpu = Vec::with_capacity(nr_cpus);
        let mut removed = Vec::with_capacity(nr_cpus);
        for cpu in 0..nr_cpus {
            let (domains, gone) = self.cpu_attach_domain(cpu, map);
            per_cpu.push(domains);
            removed.push(gone);
        }
        let llc_level: Vec<Option<usize>> = per_cpu.iter().map(|domains| sd_llc(domains)).collect();
        let llc = |cpu: usize| llc_level[cpu].map(|level| &per_cpu[cpu][level]);
        SchedDomains {
            nr_cpus,
            llc_id: (0..nr_cpus).map(|cpu| llc(cpu).and_then(|sd| sd.span.first()).unwrap_or(cpu)).collect(),
            llc_size: (0..nr_cpus).map(|cpu| llc(cpu).map_or(1, |sd| sd.span_weight)).collect(),
            llc_level,
            smt_mask: smt_masks(self.machine, cpus),
            per_cpu,
            groups: self.groups,
            nr_sgc: self.sgc_ids.len(),
            removed,
        }
    }

    /// kernel/sched/topology.c, cpu_attach_domain(): drops the levels that decide nothing, keeps the rest.
    fn cpu_attach_domain(&mut self, cpu: usize, map: SpanId) -> (Vec<SchedDomain>, Vec<RemovedLevel>) {
        let mut removed = Vec::new();
        let mut kept: Vec<Attached> = Vec::new();
        let mut first_group_flags = None;
        for level in 0..self.hierarchies[cpu].len() {
            let candidate = self.hierarchies[cpu][level];
            let parent =
                Attached { level, flags: candidate.flags, first_group_flags: first_group_flags.take() };
            let Some(&child) = kept.last() else {
                kept.push(parent);
                continue;
            };
            let Some(reason) = self.sd_parent_degenerate(cpu, child, parent) else {
                kept.push(parent);
                continue;
            };
            removed.push(self.removed_level(cpu, level, reason));
            // The level above now stands on the child, and so does its first group.
            first_group_flags = Some(child.flags);
            let last = kept.last_mut().expect("a child is kept");
            last.flags = last.flags.with(SdFlags(parent.flags.0 & SdFlags::PREFER_SIBLING.0));
        }
        if let Some(&lowest) = kept.first()
            && let Some(reason) = self.sd_degenerate(cpu, lowest.level, lowest.flags)
        {
            removed.push(self.removed_level(cpu, lowest.level, reason));
            removed.sort_by_key(|gone| gone.level);
            kept.remove(0);
            if let Some(next) = kept.first_mut() {
                next.first_group_flags = Some(SdFlags::default());
            }
        }
        if let Some(top) =
            self.hierarchies[cpu].len().checked_sub(1).filter(|&top| self.hierarchies[cpu][top].span == map)
        {
            let reason = RemovalReason::AllCpusIn(self.levels[top].name);
            removed.extend((top + 1..self.levels.len()).map(|level| RemovedLevel {
                name: self.levels[level].name,
                level: level as u32,
                span_weight: 0,
                reason,
            }));
        }
        let domains = (0..kept.len()).map(|index| self.sched_domain(cpu, &kept, index)).collect();
        (domains, removed)
    }

    fn removed_level(&self, cpu: usize, level: usize, reason: RemovalReason) -> RemovedLevel {
        let span_weight = self.spans.get(self.hierarchies[cpu][level].span).weight() as u32;
        RemovedLevel { name: self.levels[level].name, level: level as u32, span_weight, reason }
    }

    /// kernel/sched/topology.c, sd_degenerate(): why a domain decides nothing, if it does not.
    fn sd_degenerate(&mut self, cpu: usize, level: usize, flags: SdFlags) -> Option<RemovalReason> {
        if self.spans.get(self.hierarchies[cpu][level].span).weight() == 1 {
            return Some(RemovalReason::OneCpu);
        }
        let needs_groups = if self.rules.numa_flags_need_groups {
            SdFlags(!SdFlags::WAKE_AFFINE.0)
        } else {
            NEEDS_GROUPS_V5_4
        };
        if flags.has(SdFlags::WAKE_AFFINE) || flags.has(needs_groups) && !self.has_one_group(cpu, level) {
            return None;
        }
        Some(RemovalReason::OneGroup)
    }

    /// kernel/sched/topology.c, sd_parent_degenerate(): why `parent` adds nothing to `child`, if it does not.
    fn sd_parent_degenerate(
        &mut self,
        cpu: usize,
        child: Attached,
        parent: Attached,
    ) -> Option<RemovalReason> {
        if let Some(reason) = self.sd_degenerate(cpu, parent.level, parent.flags) {
            return Some(reason);
        }
        if self.hierarchies[cpu][child.level].span != self.hierarchies[cpu][parent.level].span {
            return None;
        }
        let mut flags = parent.flags;
        if self.has_one_group(cpu, parent.level) {
            flags = if self.rules.numa_flags_need_groups {
                SdFlags(flags.0 & SdFlags::WAKE_AFFINE.0)
            } else {
                let flags = flags.without(NEEDS_GROUPS_V5_4).without(SdFlags::PREFER_SIBLING);
                if self.machine.distance.len() == 1 { flags.without(SdFlags::SERIALIZE) } else { flags }
            };
        }
        (flags.without(child.flags).0 == 0)
            .then_some(RemovalReason::SameSpanAs(self.levels[child.level].name))
    }

    fn has_one_group(&mut self, cpu: usize, level: usize) -> bool {
        let hierarchy = &self.hierarchies[cpu];
        let span = hierarchy[level].span;
        let own_group = if level == 0 { None } else { Some(hierarchy[level - 1].span) };
        match own_group {
            Some(group) if group == span => true,
            None => self.spans.get(span).weight() == 1,
            Some(_) if self.levels[level].flags.has(SdFlags::NUMA) => {
                self.overlap_ring(cpu, level).len() == 1
            }
            Some(_) => false,
        }
    }

    /// The finished domain of `kept[index]`.
    fn sched_domain(&mut self, cpu: usize, kept: &[Attached], index: usize) -> SchedDomain {
        let Attached { level, flags, first_group_flags } = kept[index];
        let candidate = self.hierarchies[cpu][level];
        let ring = self.ring(cpu, level, first_group_flags);
        let shares_core = flags.has(SdFlags::SHARE_CPUCAPACITY);
        let shares_llc = flags.has(SdFlags::SHARE_LLC);
        let span = self.spans.get(candidate.span);
        let span_weight = span.weight() as u32;
        let weight =
            u64::from(if self.rules.interval_of_span { span_weight } else { self.levels[level].weight[cpu] });
        SchedDomain {
            name: self.levels[level].name,
            span: span.mask.clone(),
            span_weight,
            flags,
            child_flags: index.checked_sub(1).map_or(SdFlags::default(), |child| kept[child].flags),
            is_root: index + 1 == kept.len(),
            imbalance_pct: if shares_core {
                110
            } else if shares_llc {
                117
            } else {
                self.rules.imbalance_pct
            },
            busy_factor: self.rules.busy_factor,
            cache_nice_tries: if shares_core {
                0
            } else if flags.has(SdFlags::NUMA) {
                2
            } else {
                1
            },
            min_interval_ms: weight,
            max_interval_ms: 2 * weight,
            imb_numa_nr: candidate.imb_numa_nr,
            level: level as u32,
            ring,
        }
    }

    /// The ring of groups of `cpu`'s domain at `level`, its own first, as indices into `groups`.
    fn ring(&mut self, cpu: usize, level: usize, first_group_flags: Option<SdFlags>) -> Vec<usize> {
        if self.levels[level].flags.has(SdFlags::NUMA) {
            let mut ring = self.overlap_ring(cpu, level);
            if let (Some(flags), Some(first)) = (first_group_flags, ring.first_mut()) {
                first.flags = flags;
            }
            return ring.into_iter().map(|group| self.group(group, group.flags)).collect();
        }
        // Plain groups are shared by all CPUs of the domain: what one CPU writes, all see.
        let ring = self.plain_ring(cpu, level);
        let shared = |group: RingGroup| RingGroup { flags: SdFlags::default(), ..group };
        let ring: Vec<usize> = ring.into_iter().map(|group| self.group(shared(group), group.flags)).collect();
        if let (Some(flags), Some(&first)) = (first_group_flags, ring.first()) {
            self.groups[first].flags = flags;
        }
        ring
    }

    /// kernel/sched/topology.c, build_sched_groups(): every CPU of the domain links the same groups, so the order
    /// is that of the last one to do so.
    fn plain_ring(&mut self, cpu: usize, level: usize) -> Vec<RingGroup> {
        let span = self.hierarchies[cpu][level].span;
        if !self.plain_rings.contains_key(&(level, span)) {
            let last = *self.spans.get(span).cpus.last().expect("a domain holds its CPU");
            let ring = self.walk(last, level, |builder, member| builder.own_group(member, level));
            self.plain_rings.insert((level, span), ring);
        }
        let own = self.own_group_span(cpu, level);
        let ring = &self.plain_rings[&(level, span)];
        match ring.iter().position(|group| group.span == own) {
            Some(start) => {
                let (before, from) = ring.split_at(start);
                [from, before].concat()
            }
            None => self.walk(cpu, level, |builder, member| builder.own_group(member, level)),
        }
    }

    /// kernel/sched/topology.c, get_group(): the group that `cpu` belongs to at a level without overlap.
    fn own_group(&mut self, cpu: usize, level: usize) -> Option<RingGroup> {
        let flags = self.child(cpu, level).map_or(SdFlags::default(), |child| child.flags);
        Some(RingGroup { level, span: self.own_group_span(cpu, level), flags })
    }

    fn own_group_span(&mut self, cpu: usize, level: usize) -> SpanId {
        match self.child(cpu, level) {
            Some(child) => child.span,
            None => self.spans.intern(CpuMask::from_cpus(self.machine.nr_cpus(), [cpu])),
        }
    }

    /// The candidate below `level`, if `cpu` has both.
    fn child(&self, cpu: usize, level: usize) -> Option<Candidate> {
        let hierarchy = &self.hierarchies[cpu];
        if level == 0 || level >= hierarchy.len() { None } else { Some(hierarchy[level - 1]) }
    }

    /// kernel/sched/topology.c, build_overlap_sched_groups(): groups are the child domains of the CPUs met.
    fn overlap_ring(&mut self, cpu: usize, level: usize) -> Vec<RingGroup> {
        let domain = self.hierarchies[cpu][level].span;
        self.walk(cpu, level, |builder, member| {
            let hierarchy = &builder.hierarchies[member];
            if level >= hierarchy.len() {
                return None;
            }
            let sibling = builder.descended_sibling(member, level, domain);
            let (span, flags) = match sibling {
                0 => (hierarchy[0].span, SdFlags::default()),
                _ => (hierarchy[sibling - 1].span, hierarchy[sibling - 1].flags),
            };
            // Before 5.12 the capacity object is always that of the domain's own level.
            Some(RingGroup { level: sibling, span, flags })
        })
    }

    /// kernel/sched/topology.c, v5.12, find_descended_sibling(): the level of `member` whose child fits into `domain`.
    fn descended_sibling(&self, member: usize, level: usize, domain: SpanId) -> usize {
        let hierarchy = &self.hierarchies[member];
        let mut sibling = level;
        let fits = |level: usize| level == 0 || self.spans.is_subset(hierarchy[level - 1].span, domain);
        if !self.rules.descended_siblings || fits(sibling) {
            return sibling;
        }
        while !fits(sibling) {
            sibling -= 1;
        }
        while sibling > 0 && hierarchy[sibling - 1].span == hierarchy[sibling].span {
            sibling -= 1;
        }
        sibling
    }

    /// Walks the domain of `cpu` at `level` from `cpu` on; each CPU that is not covered yet opens `group_of` it.
    fn walk(
        &mut self,
        cpu: usize,
        level: usize,
        mut group_of: impl FnMut(&mut Self, usize) -> Option<RingGroup>,
    ) -> Vec<RingGroup> {
        self.walks += 1;
        let walk = self.walks;
        let domain = self.hierarchies[cpu][level].span;
        let members: Vec<usize> = self.spans.get(domain).iter_wrap(cpu).collect();
        let mut ring = Vec::new();
        for member in members {
            if self.covered_by[member] == walk {
                continue;
            }
            if let Some(group) = group_of(self, member) {
                for &covered in &self.spans.get(group.span).cpus {
                    self.covered_by[covered] = walk;
                }
                ring.push(group);
            }
        }
        ring
    }

    /// The index of `group` in `groups`, made with `flags` on first use.
    fn group(&mut self, group: RingGroup, flags: SdFlags) -> usize {
        if let Some(&index) = self.group_ids.get(&group) {
            return index;
        }
        let (balance_mask, id) = self.balance_mask(group);
        let next_sgc = self.sgc_ids.len();
        let sgc = *self.sgc_ids.entry((group.level, id)).or_insert(next_sgc);
        let span = self.spans.get(group.span);
        let capacity = |cpu: &usize| u64::from(self.machine.capacity[*cpu]);
        let mut cores: Vec<u32> = span.cpus.iter().map(|&cpu| self.machine.core[cpu]).collect();
        cores.sort_unstable();
        cores.dedup();
        self.groups.push(SchedGroup {
            id,
            runs: runs(&span.cpus),
            weight: span.weight() as u32,
            balance_mask: self.spans.get(balance_mask).mask.clone(),
            sgc,
            capacity: span.cpus.iter().map(capacity).sum(),
            min_capacity: span.cpus.iter().map(capacity).min().unwrap_or(0),
            max_capacity: span.cpus.iter().map(capacity).max().unwrap_or(0),
            flags,
            cores: cores.len() as u32,
            asym_prefer_cpu: asym_prefer_cpu(self.machine, &span.cpus),
            span: span.mask.clone(),
        });
        self.group_ids.insert(group, self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// kernel/sched/topology.c, build_balance_mask(): the CPUs of an overlapping group whose own domains see the same
    /// group, and the lowest of them, which owns the capacity object. Plain groups: the whole span.
    fn balance_mask(&mut self, group: RingGroup) -> (SpanId, usize) {
        if let Some(&known) = self.balance_masks.get(&(group.level, group.span)) {
            return known;
        }
        let lowest = self.spans.get(group.span).cpus[0];
        let mut mask = (group.span, lowest);
        if self.levels[group.level].flags.has(SdFlags::NUMA) {
            let same =
                |&cpu: &usize| self.child(cpu, group.level).is_some_and(|child| child.span == group.span);
            let cpus: Vec<usize> = self.spans.get(group.span).cpus.iter().copied().filter(same).collect();
            if let Some(&first) = cpus.first() {
                mask = (self.spans.intern(CpuMask::from_cpus(self.machine.nr_cpus(), cpus)), first);
            }
        }
        self.balance_masks.insert((group.level, group.span), mask);
        mask
    }
}

/// A candidate that survives so far.
#[derive(Clone, Copy)]
struct Attached {
    level: usize,
    flags: SdFlags,
    /// What the removal of levels below wrote into its first group.
    first_group_flags: Option<SdFlags>,
}

/// Flags that count only with two groups, before v5.10 gave every flag its own mark.
const NEEDS_GROUPS_V5_4: SdFlags = SdFlags::BALANCE_NEWIDLE
    .with(SdFlags::BALANCE_FORK)
    .with(SdFlags::BALANCE_EXEC)
    .with(SdFlags::SHARE_CPUCAPACITY)
    .with(SdFlags::ASYM_CPUCAPACITY)
    .with(SdFlags::SHARE_LLC);

/// kernel/sched/sched.h, highest_flag_domain(): the highest domain up to which all share the last-level cache.
fn sd_llc(domains: &[SchedDomain]) -> Option<usize> {
    domains.iter().take_while(|sd| sd.flags.has(SdFlags::SHARE_LLC)).count().checked_sub(1)
}

/// Per CPU the online threads of its core; an offline CPU stands alone.
pub(super) fn smt_masks(machine: &MachineSpec, cpus: &CpuSets) -> Vec<CpuMask> {
    let mut threads: HashMap<u32, CpuMask> = HashMap::new();
    for cpu in cpus.online.iter() {
        threads.entry(machine.core[cpu]).or_insert_with(|| CpuMask::new(cpus.nr_cpus)).set(cpu);
    }
    (0..cpus.nr_cpus)
        .map(|cpu| {
            if cpus.online.test(cpu) {
                threads[&machine.core[cpu]].clone()
            } else {
                CpuMask::from_cpus(cpus.nr_cpus, [cpu])
            }
        })
        .collect()
}

/// kernel/sched/topology.c, init_sched_groups_capacity(): the CPU of highest priority, the lowest of equals.
fn asym_prefer_cpu(machine: &MachineSpec, cpus: &[usize]) -> usize {
    let mut preferred = cpus[0];
    if !machine.asym_priority.is_empty() {
        for &cpu in cpus {
            if machine.asym_priority[cpu] > machine.asym_priority[preferred] {
                preferred = cpu;
            }
        }
    }
    preferred
}

/// Ascending CPUs as half-open runs.
pub(super) fn runs(cpus: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, end)) if *end == cpu => *end += 1,
            _ => runs.push((cpu, cpu + 1)),
        }
    }
    runs
}
