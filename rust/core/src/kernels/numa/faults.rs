//! What NUMA hinting faults say: weights of nodes, preferred nodes, whether a page follows its task, how fast to scan.
//!
//! Pure arithmetic over counts of faults; whose they are and when they come is the engine's (`sim::numa`).
//! kernel/sched/fair.c, the same in v5.4 to v6.12.

use crate::topology::MachineSpec;

/// A group's nodes that have at least a third of the busiest one's faults are active (`ACTIVE_NODE_FRACTION`).
const ACTIVE_NODE_FRACTION: u64 = 3;
/// Slots in which a scan period is lengthened or shortened (`NUMA_PERIOD_SLOTS`).
const NUMA_PERIOD_SLOTS: u64 = 10;
/// Slots of good faults from which scanning slows down (`NUMA_PERIOD_THRESHOLD`).
const NUMA_PERIOD_THRESHOLD: u64 = 7;
/// The most that is ever scanned in a second, MiB (`MAX_SCAN_WINDOW`).
const MAX_SCAN_WINDOW_MIB: u64 = 2560;
/// Pages of 4 KiB in a MiB.
pub const PAGES_PER_MIB: u64 = 256;
/// LOCAL_DISTANCE.
const LOCAL_DISTANCE: u64 = 10;
/// Scans after which a task is no longer young: its first faults place its memory at once.
const YOUNG_SCANS: u32 = 4;

/// Where a fault was, of a shared page or of a private one (`enum numa_faults_stats`, less the buffers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultOf {
    /// By the node of the page.
    Mem,
    /// By the node of the CPU.
    Cpu,
}

/// Decaying counts of faults by node, of a task or a group: shared and private apart (`numa_faults`).
#[derive(Clone, Debug, Default)]
pub struct Faults {
    mem: Vec<[u64; 2]>,
    cpu: Vec<[u64; 2]>,
    /// Sum over `mem` (`total_numa_faults`, `total_faults`).
    pub total: u64,
}

impl Faults {
    /// No faults on so many nodes.
    pub fn new(nr_nodes: usize) -> Self {
        Self { mem: vec![[0; 2]; nr_nodes], cpu: vec![[0; 2]; nr_nodes], total: 0 }
    }

    /// Faults on a node: task_faults(), group_faults(), group_faults_cpu().
    pub fn on(&self, of: FaultOf, node: usize) -> u64 {
        let [shared, private] = self.counts(of)[node];
        shared + private
    }

    /// Faults of private pages, or of shared ones, on all nodes: group_faults_priv(), group_faults_shared().
    pub fn of_kind(&self, private: bool) -> u64 {
        self.mem.iter().map(|counts| counts[usize::from(private)]).sum()
    }

    /// Adds a difference of counts, in step with `total`.
    pub fn add(&mut self, of: FaultOf, node: usize, private: usize, diff: i64) {
        let count = match of {
            FaultOf::Mem => &mut self.mem[node][private],
            FaultOf::Cpu => &mut self.cpu[node][private],
        };
        *count = count.saturating_add_signed(diff);
        if of == FaultOf::Mem {
            self.total = self.total.saturating_add_signed(diff);
        }
    }

    /// One kind of one node.
    pub fn get(&self, of: FaultOf, node: usize, private: usize) -> u64 {
        self.counts(of)[node][private]
    }

    /// Adds all of `other`, or takes it away: a task joins a group or leaves one.
    pub fn merge(&mut self, other: &Self, sign: i64) {
        for node in 0..self.mem.len() {
            for private in 0..2 {
                for of in [FaultOf::Mem, FaultOf::Cpu] {
                    self.add(of, node, private, sign * other.get(of, node, private) as i64);
                }
            }
        }
    }

    fn counts(&self, of: FaultOf) -> &[[u64; 2]] {
        match of {
            FaultOf::Mem => &self.mem,
            FaultOf::Cpu => &self.cpu,
        }
    }
}

/// `struct numa_group`: tasks that share memory.
#[derive(Clone, Debug)]
pub struct NumaGroup {
    /// `nr_tasks`; also `refcount`, which nothing else holds here.
    pub nr_tasks: u32,
    /// `active_nodes`.
    pub active_nodes: u32,
    /// `max_faults_cpu`.
    pub max_faults_cpu: u64,
    /// Their faults.
    pub faults: Faults,
}

impl NumaGroup {
    /// task_numa_group(): a group of one task.
    pub fn of(faults: &Faults) -> Self {
        Self { nr_tasks: 1, active_nodes: 1, max_faults_cpu: 0, faults: faults.clone() }
    }

    /// numa_is_active_node().
    pub fn is_active(&self, node: usize) -> bool {
        self.faults.on(FaultOf::Cpu, node) * ACTIVE_NODE_FRACTION > self.max_faults_cpu
    }

    /// numa_group_count_active_nodes().
    pub fn count_active_nodes(&mut self) {
        let nodes = 0..self.faults.mem.len();
        let max_faults = nodes.clone().map(|node| self.faults.on(FaultOf::Cpu, node)).max().unwrap_or(0);
        let is_active =
            |node: &usize| self.faults.on(FaultOf::Cpu, *node) * ACTIVE_NODE_FRACTION > max_faults;
        self.active_nodes = nodes.filter(is_active).count() as u32;
        self.max_faults_cpu = max_faults;
    }
}

/// How the nodes are connected (`enum numa_topology_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumaTopology {
    /// Every node next to every other.
    Direct,
    /// Some pairs need a hop over a third node.
    GluelessMesh,
    /// Groups of near nodes, connected by controllers.
    Backplane,
}

/// The nodes and their distances.
#[derive(Clone, Debug)]
pub struct NumaNodes {
    /// How they are connected.
    pub topology: NumaTopology,
    /// `sched_max_numa_distance`.
    pub max_distance: u64,
    distance: Vec<Vec<u64>>,
    /// The distinct distances, descending, without that of a node to itself.
    levels: Vec<u64>,
}

impl NumaNodes {
    /// kernel/sched/topology.c, init_numa_topology_type().
    pub fn new(machine: &MachineSpec) -> Self {
        let widen = |row: &Vec<u32>| row.iter().map(|&distance| u64::from(distance)).collect();
        let distance: Vec<Vec<u64>> = machine.distance.iter().map(widen).collect();
        let mut levels: Vec<u64> = distance.iter().flatten().copied().collect();
        levels.sort_unstable_by(|a, b| b.cmp(a));
        levels.dedup();
        levels.retain(|&level| level > LOCAL_DISTANCE);
        let max_distance = levels.first().copied().unwrap_or(LOCAL_DISTANCE);
        let nodes = 0..distance.len();
        let topology = if levels.len() <= 1 {
            NumaTopology::Direct
        } else {
            // The first pair that is furthest apart: is some node nearer to both?
            let pair = nodes
                .clone()
                .flat_map(|a| nodes.clone().map(move |b| (a, b)))
                .find(|&(a, b)| distance[a][b] >= max_distance);
            let between = |(a, b): (usize, usize)| {
                nodes.clone().any(|c| distance[a][c] < max_distance && distance[b][c] < max_distance)
            };
            if pair.is_some_and(between) { NumaTopology::GluelessMesh } else { NumaTopology::Backplane }
        };
        Self { topology, max_distance, distance, levels }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.distance.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.distance.is_empty()
    }

    /// `node_distance()`.
    pub fn distance(&self, a: usize, b: usize) -> u64 {
        self.distance[a][b]
    }

    /// task_weight(), group_weight(): thousandths of the faults that are on a node or near it. `hop_limit` is the
    /// distance of the move that is thought of.
    pub fn weight(&self, faults: &Faults, node: usize, hop_limit: u64) -> u64 {
        if faults.total == 0 {
            return 0;
        }
        let near = faults.on(FaultOf::Mem, node) + self.score_nearby_nodes(faults, node, hop_limit);
        1000 * near / faults.total
    }

    /// score_nearby_nodes(): faults on the nodes around one.
    fn score_nearby_nodes(&self, faults: &Faults, node: usize, hop_limit: u64) -> u64 {
        if self.topology == NumaTopology::Direct {
            return 0;
        }
        let mut score = 0;
        for other in 0..self.len() {
            let distance = self.distance[node][other];
            if distance == self.max_distance || other == node {
                continue;
            }
            let count = faults.on(FaultOf::Mem, other);
            match self.topology {
                NumaTopology::Backplane if distance >= hop_limit => {}
                NumaTopology::GluelessMesh => {
                    score += count * (self.max_distance - distance) / (self.max_distance - LOCAL_DISTANCE);
                }
                _ => score += count,
            }
        }
        score
    }

    /// preferred_group_nid(): the node for a task of a group whose faults are highest on `node`.
    pub fn preferred_group_node(&self, faults: &Faults, node: usize) -> usize {
        match self.topology {
            NumaTopology::Direct => node,
            NumaTopology::GluelessMesh => {
                let mut best = (0, node);
                for candidate in 0..self.len() {
                    let score = self.weight(faults, candidate, self.max_distance);
                    if score > best.0 {
                        best = (score, candidate);
                    }
                }
                best.1
            }
            NumaTopology::Backplane => self.preferred_on_a_backplane(faults, node),
        }
    }

    /// The group of near nodes with most faults, then the best group within it, down to a node.
    fn preferred_on_a_backplane(&self, faults: &Faults, node: usize) -> usize {
        let mut nodes: Vec<usize> = (0..self.len()).collect();
        let mut preferred = node;
        for &level in &self.levels {
            let mut max_faults = 0;
            let mut max_group = Vec::new();
            let mut left = nodes.clone();
            while let Some(&a) = left.first() {
                let (group, rest): (Vec<usize>, Vec<usize>) =
                    left.iter().partition(|&&b| self.distance[a][b] < level);
                let sum = group.iter().map(|&b| faults.on(FaultOf::Mem, b)).sum();
                left = rest;
                if sum > max_faults {
                    max_faults = sum;
                    // A group of one node ends up as the answer.
                    preferred = group[0];
                    max_group = group;
                }
            }
            if max_faults == 0 {
                break;
            }
            nodes = max_group;
        }
        preferred
    }
}

/// What should_numa_migrate_memory() asks about a page that a task faulted on.
#[derive(Clone, Copy, Debug)]
pub struct PageFault<'a> {
    /// The page's node.
    pub src_node: usize,
    /// The node of the CPU that faulted.
    pub dst_node: usize,
    /// Node of the CPU that faulted on it before; `None` if nobody did.
    pub last_node: Option<usize>,
    /// The task itself faulted on it before.
    pub own: bool,
    /// The task has no preferred node yet.
    pub unsettled: bool,
    /// Scans that the task has seen (`numa_scan_seq`).
    pub scan_seq: u32,
    /// Its group.
    pub group: Option<&'a NumaGroup>,
}

/// kernel/sched/fair.c, v5.6, should_numa_migrate_memory(): whether the page goes to the node that uses it now.
pub fn should_numa_migrate_memory(fault: &PageFault<'_>) -> bool {
    let young = fault.unsettled || fault.scan_seq <= YOUNG_SCANS;
    if young && (fault.last_node.is_none() || fault.own) {
        return true;
    }
    // Two faults in a row from one node: one alone may be chance.
    if fault.last_node.is_some_and(|last| last != fault.dst_node) {
        return false;
    }
    if fault.own {
        return true;
    }
    let Some(group) = fault.group else { return true };
    let cpu = |node| group.faults.on(FaultOf::Cpu, node);
    let mem = |node| group.faults.on(FaultOf::Mem, node);
    let (src, dst) = (fault.src_node, fault.dst_node);
    if cpu(dst) > cpu(src) * ACTIVE_NODE_FRACTION {
        return true;
    }
    // Memory in proportion to the use of the nodes' CPUs, with a quarter of hysteresis.
    cpu(dst) * mem(src) * 3 > cpu(src) * mem(dst) * 4
}

/// Sysctls of the scanner (`kernel.numa_balancing_scan_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanTunables {
    /// `scan_delay`, ms: a new process is left alone for so long.
    pub delay_ms: u64,
    /// `scan_period_min`, ms.
    pub period_min_ms: u64,
    /// `scan_period_max`, ms.
    pub period_max_ms: u64,
    /// `scan_size`, MiB in a pass.
    pub size_mib: u64,
}

/// Shared and private faults of a group, and its tasks: what stretches the scan periods of its members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupShare {
    /// `refcount`.
    pub nr_tasks: u64,
    /// group_faults_shared().
    pub shared: u64,
    /// group_faults_priv().
    pub private: u64,
}

impl GroupShare {
    /// Of a group.
    pub fn of(group: &NumaGroup) -> Self {
        Self {
            nr_tasks: u64::from(group.nr_tasks),
            shared: group.faults.of_kind(false),
            private: group.faults.of_kind(true),
        }
    }

    fn stretch(self, period: u64) -> u64 {
        period * self.nr_tasks * (self.shared + 1) / (self.private + self.shared + 1)
    }
}

impl ScanTunables {
    /// task_nr_scan_windows(): passes over an address space of so many pages.
    fn nr_scan_windows(&self, rss_pages: u64) -> u64 {
        let window = self.size_mib * PAGES_PER_MIB;
        if rss_pages == 0 { 1 } else { rss_pages.div_ceil(window) }
    }

    /// task_scan_min(), ms.
    pub fn scan_min(&self, rss_pages: u64) -> u64 {
        let windows =
            if self.size_mib < MAX_SCAN_WINDOW_MIB { MAX_SCAN_WINDOW_MIB / self.size_mib } else { 1 };
        (1000 / windows).max(self.period_min_ms / self.nr_scan_windows(rss_pages))
    }

    /// task_scan_start(), ms.
    pub fn scan_start(&self, rss_pages: u64, group: Option<GroupShare>) -> u64 {
        let least = self.scan_min(rss_pages);
        group.map_or(least, |group| group.stretch(least).max(least))
    }

    /// task_scan_max(), ms.
    pub fn scan_max(&self, rss_pages: u64, group: Option<GroupShare>) -> u64 {
        let most = self.period_max_ms / self.nr_scan_windows(rss_pages);
        let stretched = group.map_or(most, |group| group.stretch(most).max(most));
        stretched.max(self.scan_min(rss_pages))
    }
}

/// What the faults since the last placement were like.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Locality {
    /// Pages of shared memory.
    pub shared: u64,
    /// Pages of private memory.
    pub private: u64,
    /// Pages on the CPU's own node.
    pub local: u64,
    /// Pages on other nodes.
    pub remote: u64,
}

/// update_task_scan_period(): the new period in ms; `None` = nothing was learnt, so it doubles and the whole process waits.
pub fn scan_period_after(period_ms: u64, seen: &Locality, least_ms: u64, most_ms: u64) -> Option<u64> {
    if seen.local + seen.shared == 0 {
        return None;
    }
    let slot = period_ms.div_ceil(NUMA_PERIOD_SLOTS) as i64;
    let ratio =
        |part: u64, other: u64| (part * NUMA_PERIOD_SLOTS).checked_div(part + other).unwrap_or(0) as i64;
    let private_ratio = ratio(seen.private, seen.shared);
    let local_ratio = ratio(seen.local, seen.remote);
    let threshold = NUMA_PERIOD_THRESHOLD as i64;
    let diff = if private_ratio >= threshold {
        (private_ratio - threshold).max(1) * slot
    } else if local_ratio >= threshold {
        (local_ratio - threshold).max(1) * slot
    } else {
        -(threshold - private_ratio.max(local_ratio)) * slot
    };
    Some(period_ms.saturating_add_signed(diff).max(least_ms).min(most_ms.max(least_ms)))
}

/// What is known of a mapping when its turn to be scanned comes (`vma->numab_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VmaScan {
    /// Scans of the process (`mm->numa_scan_seq`).
    pub scan_seq: u32,
    /// That when the mapping was first met (`start_scan_seq`).
    pub start_scan_seq: u32,
    /// That when it was last scanned (`prev_scan_seq`).
    pub prev_scan_seq: u32,
    /// The scanning task faulted on it lately (`pids_active`).
    pub accessed: bool,
    /// The scan has come into the mapping already.
    pub begun: bool,
    /// Its first `scan_delay` is over, or the process was not scanned yet.
    pub settled: bool,
    /// Tasks of the process.
    pub nr_threads: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(distance: &[&[u32]]) -> NumaNodes {
        let mut machine = MachineSpec::uniform("test", distance.len());
        machine.distance = distance.iter().map(|row| row.to_vec()).collect();
        NumaNodes::new(&machine)
    }

    fn faults(mem: &[u64]) -> Faults {
        let mut faults = Faults::new(mem.len());
        for (node, &count) in mem.iter().enumerate() {
            faults.add(FaultOf::Mem, node, 1, count as i64);
        }
        faults
    }

    /// init_numa_topology_type()'s own examples.
    #[test]
    fn the_kind_of_topology_follows_the_distances() {
        assert_eq!(nodes(&[&[10, 21], &[21, 10]]).topology, NumaTopology::Direct);
        // A ring of four: opposite nodes reach each other over either neighbour.
        let ring: [&[u32]; 4] = [&[10, 20, 30, 20], &[20, 10, 20, 30], &[30, 20, 10, 20], &[20, 30, 20, 10]];
        assert_eq!(nodes(&ring).topology, NumaTopology::GluelessMesh);
        // Two boards of two: nothing is near both.
        let boards: [&[u32]; 4] =
            [&[10, 15, 40, 40], &[15, 10, 40, 40], &[40, 40, 10, 15], &[40, 40, 15, 10]];
        assert_eq!(nodes(&boards).topology, NumaTopology::Backplane);
    }

    #[test]
    fn a_nodes_weight_counts_its_neighbours_by_the_topology() {
        let count = faults(&[100, 200, 300, 400]);
        let ring: [&[u32]; 4] = [&[10, 20, 30, 20], &[20, 10, 20, 30], &[30, 20, 10, 20], &[20, 30, 20, 10]];
        // 100, and half of the neighbours' 200 and 400; node 2 is furthest away.
        assert_eq!(nodes(&ring).weight(&count, 0, 30), 400);
        let boards: [&[u32]; 4] =
            [&[10, 15, 40, 40], &[15, 10, 40, 40], &[40, 40, 10, 15], &[40, 40, 15, 10]];
        let boards = nodes(&boards);
        // A move across counts the whole board, a move on it the node alone.
        assert_eq!((boards.weight(&count, 0, 40), boards.weight(&count, 0, 15)), (300, 100));
        assert_eq!(nodes(&[&[10, 21], &[21, 10]]).weight(&faults(&[1, 3]), 1, 21), 750);
        assert_eq!(boards.weight(&Faults::new(4), 0, 40), 0);
    }

    #[test]
    fn a_group_prefers_the_best_node_of_the_best_board() {
        let boards: [&[u32]; 4] =
            [&[10, 15, 40, 40], &[15, 10, 40, 40], &[40, 40, 10, 15], &[40, 40, 15, 10]];
        // Node 0 has most faults, the other board has more of them.
        assert_eq!(nodes(&boards).preferred_group_node(&faults(&[400, 0, 300, 350]), 0), 3);
        let ring: [&[u32]; 4] = [&[10, 20, 30, 20], &[20, 10, 20, 30], &[30, 20, 10, 20], &[20, 30, 20, 10]];
        // Node 2 lies between 1 and 3.
        assert_eq!(nodes(&ring).preferred_group_node(&faults(&[310, 300, 100, 300]), 0), 0);
        assert_eq!(nodes(&ring).preferred_group_node(&faults(&[0, 300, 100, 300]), 1), 2);
    }

    #[test]
    fn a_page_follows_the_second_fault_from_one_node() {
        let fault = PageFault {
            src_node: 0,
            dst_node: 1,
            last_node: None,
            own: false,
            unsettled: true,
            scan_seq: 9,
            group: None,
        };
        assert!(should_numa_migrate_memory(&fault), "the first fault of a task that has no node yet");
        let settled = PageFault { unsettled: false, ..fault };
        assert!(should_numa_migrate_memory(&settled), "nobody was there before");
        assert!(!should_numa_migrate_memory(&PageFault { last_node: Some(0), ..settled }));
        assert!(!should_numa_migrate_memory(&PageFault { last_node: Some(0), own: true, ..settled }));
        assert!(should_numa_migrate_memory(&PageFault {
            last_node: Some(0),
            own: true,
            scan_seq: 4,
            ..settled
        }));
        assert!(should_numa_migrate_memory(&PageFault { last_node: Some(1), own: true, ..settled }));
        // A shared page of a group that uses both nodes' CPUs alike stays where less memory is.
        let mut group = NumaGroup::of(&faults(&[100, 100]));
        for node in 0..2 {
            group.faults.add(FaultOf::Cpu, node, 0, 50);
        }
        let shared = PageFault { last_node: Some(1), group: Some(&group), ..settled };
        assert!(!should_numa_migrate_memory(&shared));
        let mut crowded = group.clone();
        crowded.faults.add(FaultOf::Mem, 0, 0, 34);
        assert!(
            should_numa_migrate_memory(&PageFault { group: Some(&crowded), ..shared }),
            "134 * 3 > 100 * 4"
        );
    }

    /// The defaults: 256 MiB a pass, at least 100 ms apart; a GiB takes four.
    #[test]
    fn scan_periods_follow_the_size_of_the_process() {
        let tunables =
            ScanTunables { delay_ms: 1000, period_min_ms: 1000, period_max_ms: 60_000, size_mib: 256 };
        assert_eq!(tunables.scan_min(0), 1000);
        assert_eq!(tunables.scan_min(1024 * PAGES_PER_MIB), 250);
        assert_eq!(tunables.scan_min(100 * 1024 * PAGES_PER_MIB), 100);
        assert_eq!(tunables.scan_max(1024 * PAGES_PER_MIB, None), 15_000);
        let group = GroupShare { nr_tasks: 8, shared: 99, private: 300 };
        assert_eq!(tunables.scan_start(0, Some(group)), 2000);
        assert_eq!(tunables.scan_max(1024 * PAGES_PER_MIB, Some(group)), 30_000);
    }

    #[test]
    fn scanning_slows_down_where_memory_is_at_home_and_speeds_up_where_it_is_not() {
        let after = |shared, private, local, remote| {
            scan_period_after(1000, &Locality { shared, private, local, remote }, 1000, 60_000)
        };
        assert_eq!(after(0, 100, 100, 0), Some(1300), "3 slots over the threshold");
        assert_eq!(after(100, 0, 70, 30), Some(1100), "at the threshold: one slot");
        assert_eq!(after(100, 0, 0, 100), Some(1000), "7 slots less, but not below the least");
        assert_eq!(
            scan_period_after(5000, &Locality { shared: 100, ..Locality::default() }, 1000, 60_000),
            Some(1500)
        );
        assert_eq!(after(0, 100, 0, 100), None, "nothing is shared and nothing local: it will not help");
    }

    #[test]
    fn nodes_with_a_third_of_the_busiest_ones_faults_are_active() {
        let mut group = NumaGroup::of(&Faults::new(3));
        for (node, count) in [300, 101, 100].into_iter().enumerate() {
            group.faults.add(FaultOf::Cpu, node, 0, count);
        }
        group.count_active_nodes();
        assert_eq!((group.active_nodes, group.max_faults_cpu), (2, 300));
        assert!(group.is_active(1) && !group.is_active(2));
    }
}
