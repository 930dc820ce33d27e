//! The start of a run: a machine at rest, its tasks, and the first of them on a CPU.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::balance::SdState;
use super::bandwidth::{CfsBandwidth, QueueBandwidth};
use super::capacity::GroupCapacities;
use super::channel::{Barrier, Channel};
use super::event::{EventQueue, NEVER};
use super::fair::Why;
use super::groups::{FIRST_WEIGHT, GroupCfsRq, GroupId, QueueId, TaskGroup, TaskGroups};
use super::invariants::Watch;
use super::memory::Memory;
use super::nohz::Nohz;
use super::numa::Numa;
use super::o1::O1State;
use super::process::Processes;
use super::program::Program;
use super::rq::{CfsRq, NO_TASK, Rq, SchedEntity, Task, TaskId, TaskState};
use super::rt::RtRq;
use super::spin::Spins;
use super::timeline::Timeline;
use super::tunables::Tunables;
use super::{MessageCosts, START_NS, Setup, Sim};
use crate::cpumask::CpuMask;
use crate::kernels::eevdf::VirtualClock;
use crate::kernels::env::{RqStats, SystemState};
use crate::kernels::groups::GroupRules;
use crate::load_weight::LoadWeight;
use crate::pelt::{self, PeltForm, Removed};
use crate::record::Record;
use crate::rng::Rng;
use crate::topology::SchedDomain;
use crate::workload::{Load, TaskSpec};

impl<'a> Sim<'a> {
    /// The machine at rest, before its first task.
    pub(super) fn new(setup: &'a Setup, seed: u64) -> Self {
        let topo = &setup.domains;
        let nr_cpus = topo.nr_cpus;
        let online = |cpu: usize| !setup.machine.offline.contains(&(cpu as u32));
        let nr_online_cpus = (0..nr_cpus).filter(|&cpu| online(cpu)).count() as u64;
        let tick_ns = setup.tunables.tick_ns;
        // Where in a tick the run starts is chance.
        let now = START_NS + Rng::stream(seed, "tick phase", 0).below(tick_ns);
        let mut skew = Rng::stream(seed, "tick skew", 0);
        let mut stats = RqStats::new(nr_cpus);
        for cpu in 0..nr_cpus {
            let capacity = u64::from(setup.machine.capacity[cpu]);
            stats.capacity[cpu] = capacity;
            stats.capacity_orig[cpu] = capacity;
            stats.idle[cpu] = online(cpu);
        }
        if !setup.machine.asym_priority.is_empty() {
            stats.asym_prio.clone_from(&setup.machine.asym_priority);
        }
        let mut balance_phase = Rng::stream(seed, "balance phase", 0);
        let jiffies = now / tick_ns;
        let sds = topo
            .per_cpu
            .iter()
            .map(|hierarchy| {
                let state = |sd: &SchedDomain| SdState {
                    last_balance: jiffies
                        - balance_phase.below(sd.min_interval_ms * u64::from(setup.tunables.hz) / 1000 + 1),
                    ..SdState::new(sd, jiffies)
                };
                hierarchy.iter().map(state).collect()
            })
            .collect();
        let mut idle_cpus = CpuMask::new(nr_cpus);
        // Nothing has run for a while: every tick is stopped. Nobody balances for CPUs without domains.
        for cpu in (0..nr_cpus).filter(|&cpu| !topo.per_cpu[cpu].is_empty()) {
            idle_cpus.set(cpu);
        }
        let rqs = (0..nr_cpus).map(|cpu| idle_rq(cpu, now, jiffies, &setup.tunables)).collect();
        let has_rt = setup.load.tasks.iter().any(|task| task.rt_priority != 0);
        let group_rules = (setup.kernel.groups.group_rules.f)();
        let memory = Memory::new(&setup.load, &setup.machine);
        let cost = &setup.cost;
        let channel =
            |&(kind, bytes): &_| Channel::new(kind, bytes, cost.copy_kib_ns * u64::from(bytes) / 1024);
        let message_costs = |write_ns, read_ns, locked_ns| MessageCosts {
            write_ns,
            read_ns,
            locked_ns,
            transfer: [cost.transfer_llc_ns, cost.transfer_node_ns, cost.transfer_remote_ns],
        };
        let mut sim = Self {
            now,
            kernel: setup.kernel,
            pelt_form: (setup.kernel.signals.pelt_form.f)(),
            balance_rules: (setup.kernel.balance.balance_rules.f)(),
            queue_form: (setup.kernel.queue.queue_form.f)(),
            group_rules,
            tunables: &setup.tunables,
            features: &setup.features,
            pelt_table: &setup.pelt_table,
            cost,
            topo,
            node_of: &setup.machine.node,
            system: SystemState {
                sis_util: setup.features.sis_util,
                place_lag: setup.features.place_lag,
                numa_balancing: setup.tunables.numa_balancing,
                migration_cost_ns: setup.tunables.migration_cost_ns,
                nr_migrate: setup.tunables.nr_migrate,
                preemption: setup.tunables.preemption,
                ..SystemState::default()
            },
            nr_online_cpus,
            online: CpuMask::from_cpus(nr_cpus, (0..nr_cpus).filter(|&cpu| online(cpu))),
            sched_groups: Cow::Borrowed(&topo.groups),
            group_capacities: has_rt.then(|| GroupCapacities::new(topo)),
            events: EventQueue::new(nr_cpus),
            timers: BinaryHeap::new(),
            rqs,
            tasks: Vec::with_capacity(setup.load.tasks.len()),
            groups: task_groups(&setup.load, nr_cpus, now, group_rules, seed),
            numa: Numa::new(&setup.load, &memory, &setup.machine, &setup.tunables),
            memory,
            channels: setup.load.channels.iter().map(channel).collect(),
            barriers: setup.load.barriers.iter().map(|&size| Barrier { size, waiting: Vec::new() }).collect(),
            spins: Spins::new(&setup.load.ops, setup.load.tasks.len()),
            ops: &setup.load.ops,
            message_costs: [
                message_costs(cost.pipe_write_ns, cost.pipe_read_ns, cost.pipe_locked_ns),
                message_costs(cost.socket_write_ns, cost.socket_read_ns, cost.socket_locked_ns),
                message_costs(cost.tcp_write_ns, cost.tcp_read_ns, cost.tcp_locked_ns),
            ],
            stats,
            sds,
            sgc_imbalance: vec![false; topo.nr_sgc],
            has_idle_cores: vec![true; nr_cpus],
            nr_busy_cpus: vec![0; nr_cpus],
            // As the last balance pass over an idle LLC leaves it.
            nr_idle_scan: topo.llc_size.clone(),
            nohz: Nohz {
                nr_cpus: idle_cpus.weight() as u32,
                idle_cpus,
                has_blocked: false,
                next_balance: jiffies,
                next_blocked: jiffies,
                kicked: None,
            },
            overload: false,
            tick_skew: (0..nr_cpus).map(|_| skew.below(cost.tick_skew_ns + 1).min(tick_ns - 1)).collect(),
            this_cpu: 0,
            processes: Processes::new(&setup.load, seed),
            stopped: false,
            in_interrupt: false,
            record: Record::new(topo, nr_online_cpus, now),
            sg_stats: Vec::new(),
            idlest_stats: Vec::new(),
            detached: Vec::new(),
            o1: O1State::new(setup, now),
            newidle_dice: Rng::stream(seed, "newidle dice", 0),
            watch: Watch::default(),
        };
        sim.set_machine_state(&setup.machine);
        sim
    }

    /// Creates the tasks and lets the first one run, on a CPU drawn by the seed.
    pub(super) fn start(&mut self, setup: &Setup, seed: u64) {
        for (id, spec) in setup.load.tasks.iter().enumerate() {
            self.tasks.push(new_task(id, spec, self.pelt_form, seed, self.now));
        }
        for (index, &(after_ns, _)) in setup.load.actions.iter().enumerate() {
            self.timers.push(Reverse((self.now + after_ns, (self.tasks.len() + index) as TaskId)));
        }
        let isolated = |cpu: usize| setup.machine.isolated.contains(&(cpu as u32));
        let usable: Vec<usize> =
            (0..self.topo.nr_cpus).filter(|&cpu| self.stats.idle[cpu] && !isolated(cpu)).collect();
        let cpu = usable[Rng::stream(seed, "first CPU", 0).below(usable.len() as u64) as usize];
        self.this_cpu = cpu;
        let first = &mut self.tasks[0];
        first.cpu = cpu as u16;
        first.last_run_cpu = cpu as u16;
        first.recent_used_cpu = cpu as u16;
        first.state = TaskState::Runnable;
        self.update_rq_clock(cpu);
        if self.has_priority_arrays() {
            self.o1_start(cpu);
            self.arm(cpu);
            return;
        }
        self.attach_new_task(cpu, 0);
        self.enqueue_task(cpu, 0, Why::New);
        self.schedule(cpu);
        self.arm(cpu);
    }
}

/// The kernel starts the virtual clock just before it wraps, to find bugs early.
const FIRST_VRUNTIME: u64 = 0u64.wrapping_sub(1 << 20);

/// A runqueue that has been idle for a while.
fn idle_rq(cpu: usize, now: u64, jiffies: u64, tunables: &Tunables) -> Rq {
    let migration_cost = tunables.migration_cost_ns.max(0) as u64;
    Rq {
        cfs: empty_cfs(QueueId::root(cpu), now),
        rt: RtRq::new(now),
        curr: NO_TASK,
        clock: now,
        clock_pelt: now,
        lost_idle_time: 0,
        list_head: NO_TASK,
        list_tail: NO_TASK,
        idle_stamp: now,
        avg_idle: 2 * migration_cost,
        max_idle_balance_cost: migration_cost,
        next_balance: jiffies,
        idle_balance: true,
        nohz_idle: true,
        has_blocked_load: false,
        last_blocked_load_update_tick: jiffies,
        active_balance: false,
        push_cpu: 0,
        need_resched: false,
        wake_list: Vec::new(),
        pending: Vec::with_capacity(4),
        step_end_ns: NEVER,
        tick_at_ns: NEVER,
        overhead_ns: 0,
        speed_permille: 1000,
        avg_scan_cost: 0,
        since_ns: now,
    }
}

/// init_cfs_rq(): a queue that nothing was ever in.
fn empty_cfs(id: QueueId, now: u64) -> CfsRq {
    CfsRq {
        id,
        timeline: Timeline::default(),
        min_vruntime: FIRST_VRUNTIME,
        clock: VirtualClock::new(FIRST_VRUNTIME),
        load: LoadWeight::default(),
        nr_running: 0,
        h_nr_running: 0,
        idle_h_nr_running: 0,
        runnable_weight: 0,
        curr: NO_TASK,
        next: NO_TASK,
        last: NO_TASK,
        avg: pelt::SchedAvg { last_update_time: now & !1023, ..Default::default() },
        removed: Removed::default(),
        util_est_enqueued: 0,
    }
}

/// alloc_fair_sched_group() of every group of a load.
fn task_groups(load: &Load, nr_cpus: usize, now: u64, rules: GroupRules, seed: u64) -> TaskGroups {
    let root = TaskGroup { parent: 0, depth: 0, shares: 0, load_avg: 0, idle: false, bandwidth: None };
    let mut groups = vec![root];
    let mut first_expiry = Rng::stream(seed, "bandwidth period", 0);
    for spec in &load.groups {
        let pool = |bandwidth| {
            let offset_ns = first_expiry.below(DEFAULT_CFS_PERIOD_NS);
            let first_expiry_ns = if rules.periods_interleave { offset_ns } else { 0 };
            CfsBandwidth::new(bandwidth, first_expiry_ns, nr_cpus)
        };
        groups.push(TaskGroup {
            parent: spec.parent,
            depth: groups[usize::from(spec.parent)].depth + 1,
            shares: spec.shares,
            load_avg: 0,
            idle: spec.idle,
            bandwidth: spec.bandwidth.map(pool),
        });
    }
    let ids: Vec<QueueId> = (1..groups.len() as GroupId)
        .flat_map(|group| (0..nr_cpus as u16).map(move |cpu| QueueId { cpu, group }))
        .collect();
    let queue = |id: &QueueId| GroupCfsRq {
        cfs: empty_cfs(*id, now),
        tg_load_avg_contrib: 0,
        propagate: false,
        prop_runnable_sum: 0,
        removed_runnable_sum: 0,
        h_load: 0,
        bandwidth: QueueBandwidth {
            runtime_enabled: groups[usize::from(id.group)].bandwidth.is_some(),
            ..QueueBandwidth::default()
        },
    };
    let queues: Vec<GroupCfsRq> = ids.iter().map(queue).collect();
    // A group's entity starts without load: nothing is in the group.
    let avg = pelt::SchedAvg { last_update_time: now & !1023, ..Default::default() };
    let entity = |id: &QueueId| SchedEntity {
        idle: groups[usize::from(id.group)].idle,
        ..SchedEntity::new(FIRST_WEIGHT, avg)
    };
    let entities = ids.iter().map(entity).collect();
    let h_load = if queues.is_empty() { Vec::new() } else { vec![(0, 0); nr_cpus] };
    TaskGroups {
        nr_tasks: load.tasks.len() as u32,
        nr_cpus,
        bandwidth_used: groups.iter().any(|group| group.bandwidth.is_some()),
        idle_used: groups.iter().any(|group| group.idle) || load.tasks.iter().any(|task| task.idle),
        first_timer: (load.tasks.len() + load.actions.len()) as TaskId,
        groups,
        queues,
        entities,
        h_load,
    }
}

/// default_cfs_period(): the period's timer gets its offset before it is told its period.
const DEFAULT_CFS_PERIOD_NS: u64 = 100_000_000;

/// A task before its fork.
pub(super) fn new_task(id: usize, spec: &TaskSpec, form: PeltForm, seed: u64, now: u64) -> Task {
    let mut se = SchedEntity::new(spec.weight, pelt::init_entity(spec.weight.weight, form));
    se.idle = spec.idle;
    if let Some(slice_ns) = spec.slice_ns {
        se.slice_ns = slice_ns;
        se.custom_slice = true;
    }
    Task {
        se,
        state: TaskState::New,
        cpu: 0,
        last_run_cpu: 0,
        recent_used_cpu: 0,
        group: spec.group,
        last_wakee: NO_TASK,
        wakee_flips: 0,
        wakee_flip_decay_ts: 0,
        allowed: spec.allowed.clone().map(Box::new),
        clamp: spec.clamp,
        rt_priority: spec.rt_priority,
        kthread: spec.kthread,
        thread: spec.thread,
        measured: spec.measured,
        list_prev: NO_TASK,
        list_next: NO_TASK,
        mm: spec.mm,
        footprint_kib: spec.footprint_kib,
        remaining_ns: 0,
        queued_since_ns: 0,
        start_ns: now
            + spec.start_ns
            + Rng::stream(seed, "start", id as u64).below(spec.start_jitter_ns.max(1)),
        program: Program::new(spec.program, spec.parent),
        rng: Rng::stream(seed, "work", id as u64),
    }
}
