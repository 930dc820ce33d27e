//! Task groups: a queue and an entity a CPU for each, shares divided by load, signals handed upwards.
//!
//! The root group is the CPUs' own queues. Without other groups every loop over the hierarchy is one step long.

use super::Sim;
use super::bandwidth::{CfsBandwidth, QueueBandwidth};
use super::rq::{CfsRq, EntityId, Rq, SchedEntity, Task, TaskId};
use crate::group::{GroupLoad, calc_group_shares};
use crate::kernels::eevdf::reweight_eevdf;
use crate::kernels::queue::QueueForm;
use crate::load_weight::{LoadWeight, MIN_SHARES, inverse_of, scale_load_down};
use crate::pelt::PeltForm;

/// Index of a group; its parent's is smaller.
pub type GroupId = u16;

/// The root group.
pub const ROOT_GROUP: GroupId = 0;

/// A queue: whose it is and on which CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueId {
    /// The CPU.
    pub cpu: u16,
    /// The group.
    pub group: GroupId,
}

impl QueueId {
    /// A CPU's own queue.
    pub fn root(cpu: usize) -> Self {
        Self { cpu: cpu as u16, group: ROOT_GROUP }
    }
}

/// `struct task_group`.
#[derive(Clone, Debug)]
pub struct TaskGroup {
    /// The group that it is in.
    pub parent: GroupId,
    /// Groups between it and the root, itself included.
    pub depth: u32,
    /// `shares`, scaled by 1024.
    pub shares: u64,
    /// `load_avg`: sum of what its queues contributed last.
    pub load_avg: i64,
    /// `idle`: whatever is in it runs like a SCHED_IDLE task against what is beside it (`cpu.idle`).
    pub idle: bool,
    /// `cfs_bandwidth`, if it has a quota.
    pub bandwidth: Option<CfsBandwidth>,
}

/// A group's queue on one CPU, with what only a group's queue has.
#[derive(Clone, Debug)]
pub struct GroupCfsRq {
    /// The queue.
    pub cfs: CfsRq,
    /// `tg_load_avg_contrib`.
    pub tg_load_avg_contrib: u64,
    /// `propagate`: something came or left since the group's entity last heard of it.
    pub propagate: bool,
    /// `prop_runnable_sum`: what came less what left.
    pub prop_runnable_sum: i64,
    /// `removed.runnable_sum` of the old form.
    pub removed_runnable_sum: u64,
    /// `h_load`: the part of the CPU's load that is the group's.
    pub h_load: u64,
    /// Its part of the group's quota.
    pub bandwidth: QueueBandwidth,
}

/// The groups of a run.
#[derive(Clone, Debug, Default)]
pub struct TaskGroups {
    /// Entities below this number are tasks'.
    pub nr_tasks: u32,
    /// CPUs of the machine.
    pub nr_cpus: usize,
    /// The groups; the root first, and nothing else when there are none.
    pub groups: Vec<TaskGroup>,
    /// Queues by group and CPU, the root's left out.
    pub queues: Vec<GroupCfsRq>,
    /// The entities that stand for these queues in the parent's.
    pub entities: Vec<SchedEntity>,
    /// By CPU: jiffy in which the shares of its load were last worked out, and its load then.
    pub h_load: Vec<(u64, u64)>,
    /// Some group has a quota (cfs_bandwidth_used()).
    pub bandwidth_used: bool,
    /// Some task is SCHED_IDLE, or some group idle.
    pub idle_used: bool,
    /// Number of the groups' first timer, behind those of tasks and actions.
    pub first_timer: TaskId,
}

impl TaskGroups {
    /// Whether there is any beside the root.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Place of a group's queue.
    #[inline]
    pub fn index(&self, queue: QueueId) -> usize {
        (usize::from(queue.group) - 1) * self.nr_cpus + usize::from(queue.cpu)
    }

    /// The queue that an entity stands for, if it is a group's.
    #[inline]
    pub fn group_cfs_rq(&self, entity: EntityId) -> Option<QueueId> {
        let index = entity.checked_sub(self.nr_tasks)? as usize;
        let group = (index / self.nr_cpus + 1) as GroupId;
        Some(QueueId { cpu: (index % self.nr_cpus) as u16, group })
    }

    /// The entity that stands for a queue, and the queue that it is in; `None` of a CPU's own queue.
    #[inline]
    pub fn parent(&self, queue: QueueId) -> Option<(QueueId, EntityId)> {
        if queue.group == ROOT_GROUP {
            return None;
        }
        let entity = self.nr_tasks + self.index(queue) as EntityId;
        Some((QueueId { group: self.groups[usize::from(queue.group)].parent, ..queue }, entity))
    }

    fn depth(&self, queue: QueueId) -> u32 {
        self.groups[usize::from(queue.group)].depth
    }
}

/// All entities and queues, to look at.
#[derive(Clone, Copy)]
pub struct Entities<'a> {
    /// The tasks.
    pub tasks: &'a [Task],
    /// The groups.
    pub groups: &'a TaskGroups,
    /// The CPUs.
    pub rqs: &'a [Rq],
}

impl<'a> Entities<'a> {
    /// An entity by its number.
    #[inline]
    pub fn se(self, entity: EntityId) -> &'a SchedEntity {
        match self.tasks.get(entity as usize) {
            Some(task) => &task.se,
            None => &self.groups.entities[entity as usize - self.tasks.len()],
        }
    }

    /// A queue by its number.
    #[inline]
    pub fn cfs(self, queue: QueueId) -> &'a CfsRq {
        if queue.group == ROOT_GROUP {
            &self.rqs[usize::from(queue.cpu)].cfs
        } else {
            &self.groups.queues[self.groups.index(queue)].cfs
        }
    }

    /// The entity that stands for a queue, and the queue that it is in.
    #[inline]
    pub fn parent(self, queue: QueueId) -> Option<(&'a CfsRq, &'a SchedEntity)> {
        self.groups.parent(queue).map(|(above, entity)| (self.cfs(above), self.se(entity)))
    }
}

/// What is added to a sum that must not fall below 0 (`add_positive()`).
fn add_positive(sum: &mut u64, delta: i64) {
    *sum = sum.saturating_add_signed(delta);
}

impl Sim<'_> {
    /// All entities and queues, to look at.
    #[inline]
    pub(super) fn entities(&self) -> Entities<'_> {
        Entities { tasks: &self.tasks, groups: &self.groups, rqs: &self.rqs }
    }

    /// The queue that a task is in, or would be in on a CPU.
    #[inline]
    pub(super) fn task_cfs_rq(&self, cpu: usize, task: TaskId) -> QueueId {
        QueueId { cpu: cpu as u16, group: self.tasks[task as usize].group }
    }

    /// The deepest queue of a CPU in which an entity runs, and that entity.
    pub(super) fn running_entity(&self, cpu: usize) -> Option<(QueueId, EntityId)> {
        let mut found = None;
        let mut queue = QueueId::root(cpu);
        loop {
            let curr = self.entities().cfs(queue).curr;
            if curr == super::NO_TASK {
                return found;
            }
            found = Some((queue, curr));
            match self.groups.group_cfs_rq(curr) {
                Some(below) => queue = below,
                None => return found,
            }
        }
    }

    /// The task that a CPU's queues say runs; [`super::NO_TASK`] if it was put back or has left.
    #[inline]
    pub(super) fn running_task(&self, cpu: usize) -> TaskId {
        match self.running_entity(cpu) {
            Some((_, entity)) if self.groups.group_cfs_rq(entity).is_none() => entity,
            _ => super::NO_TASK,
        }
    }

    /// find_matching_se(): the queue that both are in, themselves or by a group, and what is theirs there.
    pub(super) fn find_matching_se(&self, cpu: usize, a: TaskId, b: TaskId) -> (QueueId, EntityId, EntityId) {
        let groups = &self.groups;
        let mut a = (self.task_cfs_rq(cpu, a), a);
        let mut b = (self.task_cfs_rq(cpu, b), b);
        while a.0 != b.0 {
            let (deep_a, deep_b) = (groups.depth(a.0), groups.depth(b.0));
            if deep_a >= deep_b {
                a = groups.parent(a.0).unwrap_or(a);
            }
            if deep_b >= deep_a {
                b = groups.parent(b.0).unwrap_or(b);
            }
        }
        (a.0, a.1, b.1)
    }

    /// The running entities give way to those of `next`, up to the first queue that both share.
    pub(super) fn switch_entities(&mut self, cpu: usize, next: TaskId) {
        let mut prev = self.running_entity(cpu);
        let mut next = Some((self.task_cfs_rq(cpu, next), next));
        loop {
            let depth =
                |at: Option<(QueueId, EntityId)>| at.map_or(-1, |(q, _)| i64::from(self.groups.depth(q)));
            let (deep_prev, deep_next) = (depth(prev), depth(next));
            let same = prev.zip(next).is_some_and(|(prev, next)| prev.0 == next.0);
            if same && prev == next {
                return;
            }
            if let Some((queue, entity)) = prev.filter(|_| deep_prev >= deep_next) {
                self.put_prev_entity(queue, entity);
                prev = self.groups.parent(queue);
            }
            if let Some((queue, entity)) = next.filter(|_| deep_next >= deep_prev) {
                self.set_next_entity(queue, entity);
                next = self.groups.parent(queue);
            }
            if same || prev.is_none() && next.is_none() {
                return;
            }
        }
    }

    /// se_update_runnable() and update_cfs_group(): how much a group's entity counts, after something changed below.
    pub(super) fn update_cfs_group(&mut self, entity: EntityId) {
        let Some(queue) = self.groups.group_cfs_rq(entity) else { return };
        let index = self.groups.index(queue);
        let group = &self.groups.groups[usize::from(queue.group)];
        let below = &self.groups.queues[index];
        let tg_shares = group.shares as i64;
        let weight = below.cfs.load.weight;
        let shares = calc_group_shares(&GroupLoad {
            tg_shares,
            weight,
            load_avg: below.cfs.avg.load_avg,
            tg_load_avg: group.load_avg,
            tg_load_avg_contrib: below.tg_load_avg_contrib,
        });
        let runnable_weight = match self.pelt_form {
            PeltForm::Modern => u64::from(below.cfs.h_nr_running),
            PeltForm::Old => calc_group_runnable(&below.cfs, shares),
        };
        if self.pelt_form == PeltForm::Modern {
            self.groups.entities[index].runnable_weight = runnable_weight;
        }
        // Its load stands still, and so do its shares.
        if self.groups.throttled_hierarchy(queue) {
            return;
        }
        let unchanged = self.groups.entities[index].weight == shares;
        // There an empty group keeps its weight, since its entity may stay queued, and what is the same is left alone.
        if self.queue_form == QueueForm::Deadline && (weight == 0 || unchanged) {
            return;
        }
        self.reweight_entity(entity, shares, runnable_weight);
    }

    /// reweight_entity() of a group's entity.
    fn reweight_entity(&mut self, entity: EntityId, weight: u64, runnable_weight: u64) {
        let form = self.pelt_form;
        let Some(below) = self.groups.group_cfs_rq(entity) else { return };
        let Some((queue, _)) = self.groups.parent(below) else { return };
        let (on_rq, curr) = (self.se(entity).on_rq, self.entities().cfs(queue).curr == entity);
        if on_rq {
            if curr || self.queue_form == QueueForm::Deadline {
                self.update_curr_of(queue);
            }
            if self.queue_form == QueueForm::Deadline {
                let average = self.average_vruntime(queue);
                if !curr {
                    self.timeline_remove(queue, entity);
                }
                let tick_ns = self.tunables.tick_ns;
                let se = self.se_mut(entity);
                let deadline = se.deadline;
                (se.vruntime, se.deadline) = reweight_eevdf(average, se, weight, tick_ns);
                // The kernel knows a protected slice by its deadline.
                se.slice_protected &= se.deadline == deadline;
            }
        } else if self.queue_form == QueueForm::Deadline {
            let se = self.se_mut(entity);
            se.vlag = se.vlag.wrapping_mul(se.weight as i64).checked_div(weight as i64).unwrap_or(0);
        }
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
        if on_rq {
            cfs.load.sub(se.weight);
        }
        let scaled = form.scale_load_down(se.weight);
        cfs.avg.load_avg = cfs.avg.load_avg.saturating_sub(se.avg.load_avg);
        cfs.avg.load_sum = cfs.avg.load_sum.saturating_sub(scaled.wrapping_mul(se.avg.load_sum));
        let divider = u64::from(self.pelt_table.divider(se.avg.period_contrib));
        if form == PeltForm::Old {
            let old = form.scale_load_down(se.runnable_weight).wrapping_mul(se.avg.runnable_sum);
            let new = form.scale_load_down(runnable_weight).wrapping_mul(se.avg.runnable_sum);
            if on_rq {
                cfs.runnable_weight = cfs.runnable_weight - se.runnable_weight + runnable_weight;
                cfs.avg.runnable_avg = cfs.avg.runnable_avg.saturating_sub(se.avg.runnable_avg);
                cfs.avg.runnable_sum = cfs.avg.runnable_sum.saturating_sub(old);
            }
            se.runnable_weight = runnable_weight;
            se.avg.runnable_avg = new / divider;
            if on_rq {
                cfs.avg.runnable_avg += se.avg.runnable_avg;
                cfs.avg.runnable_sum += new;
            }
        }
        se.weight = weight;
        se.inv_weight = inverse_of(weight);
        let scaled = form.scale_load_down(weight);
        se.avg.load_avg = scaled.wrapping_mul(se.avg.load_sum) / divider;
        cfs.avg.load_avg += se.avg.load_avg;
        cfs.avg.load_sum += scaled.wrapping_mul(se.avg.load_sum);
        if on_rq {
            cfs.load.add(weight);
            if self.queue_form == QueueForm::Deadline && !curr {
                self.timeline_insert(queue, entity);
            }
        }
        self.mirror_signals(queue);
    }

    /// update_tg_load_avg(): a queue's load counts for its group once it has changed by more than a sixty-fourth.
    pub(super) fn update_tg_load_avg(&mut self, queue: QueueId) {
        if queue.group == ROOT_GROUP {
            return;
        }
        let index = self.groups.index(queue);
        let below = &mut self.groups.queues[index];
        let delta = below.cfs.avg.load_avg as i64 - below.tg_load_avg_contrib as i64;
        if delta.unsigned_abs() > below.tg_load_avg_contrib / 64 {
            below.tg_load_avg_contrib = below.cfs.avg.load_avg;
            self.groups.groups[usize::from(queue.group)].load_avg += delta;
        }
    }

    /// add_tg_cfs_propagate(): the queue's entity will hear of it.
    pub(super) fn add_tg_cfs_propagate(&mut self, queue: QueueId, runnable_sum: i64) {
        if queue.group != ROOT_GROUP {
            let index = self.groups.index(queue);
            let below = &mut self.groups.queues[index];
            below.propagate = true;
            below.prop_runnable_sum = below.prop_runnable_sum.wrapping_add(runnable_sum);
        }
    }

    /// propagate_entity_load_avg(): what came to or left a group's queue comes to or leaves its entity's, too.
    pub(super) fn propagate_entity_load_avg(&mut self, queue: QueueId, entity: EntityId) -> bool {
        let Some(below) = self.groups.group_cfs_rq(entity) else { return false };
        let index = self.groups.index(below);
        if !std::mem::take(&mut self.groups.queues[index].propagate) {
            return false;
        }
        let runnable_sum = std::mem::take(&mut self.groups.queues[index].prop_runnable_sum);
        self.add_tg_cfs_propagate(queue, runnable_sum);
        let (gcfs, gcfs_weight) = {
            let below = &self.groups.queues[index].cfs;
            (below.avg, below.load.weight)
        };
        let form = self.pelt_form;
        let (cfs, se) = (cfs_mut!(self, queue), se_mut!(self, entity));
        let divider = u64::from(self.pelt_table.divider(cfs.avg.period_contrib));
        // update_tg_cfs_util().
        let delta = gcfs.util_avg as i64 - se.avg.util_avg as i64;
        if delta != 0 {
            se.avg.util_avg = gcfs.util_avg;
            se.avg.util_sum = se.avg.util_avg.wrapping_mul(divider) as u32;
            add_positive(&mut cfs.avg.util_avg, delta);
            cfs.avg.util_sum = cfs.avg.util_avg.wrapping_mul(divider) as u32;
        }
        // update_tg_cfs_runnable().
        if form == PeltForm::Modern {
            let delta = gcfs.runnable_avg as i64 - se.avg.runnable_avg as i64;
            if delta != 0 {
                se.avg.runnable_avg = gcfs.runnable_avg;
                se.avg.runnable_sum = se.avg.runnable_avg.wrapping_mul(divider);
                add_positive(&mut cfs.avg.runnable_avg, delta);
                cfs.avg.runnable_sum = cfs.avg.runnable_avg.wrapping_mul(divider);
            }
        }
        // update_tg_cfs_load().
        if runnable_sum != 0 {
            let sum = if runnable_sum > 0 {
                (runnable_sum.wrapping_add(se.avg.load_sum as i64)).min(divider as i64)
            } else {
                // What is left runs at most as long as the average of those who are.
                let load_sum = gcfs.load_sum.checked_div(scale_load_down(gcfs_weight)).unwrap_or(0);
                se.avg.load_sum.min(load_sum) as i64
            };
            let sum = sum.max(i64::from(se.avg.util_sum >> 10)) as u64;
            let weight = form.scale_load_down(se.weight);
            let (load_sum, load_avg) = (weight.wrapping_mul(sum), weight.wrapping_mul(sum) / divider);
            add_positive(
                &mut cfs.avg.load_sum,
                load_sum.wrapping_sub(weight.wrapping_mul(se.avg.load_sum)) as i64,
            );
            add_positive(&mut cfs.avg.load_avg, load_avg as i64 - se.avg.load_avg as i64);
            (se.avg.load_sum, se.avg.load_avg) = (sum, load_avg);
            if form == PeltForm::Old {
                let weight = form.scale_load_down(se.runnable_weight);
                let (load_sum, load_avg) = (weight.wrapping_mul(sum), weight.wrapping_mul(sum) / divider);
                if se.on_rq {
                    let before = weight.wrapping_mul(se.avg.runnable_sum);
                    add_positive(&mut cfs.avg.runnable_sum, load_sum.wrapping_sub(before) as i64);
                    add_positive(&mut cfs.avg.runnable_avg, load_avg as i64 - se.avg.runnable_avg as i64);
                }
                (se.avg.runnable_sum, se.avg.runnable_avg) = (sum, load_avg);
            }
        }
        self.mirror_signals(queue);
        true
    }

    /// propagate_entity_cfs_rq(): every level above hears of an entity that was attached or detached.
    pub(super) fn propagate_entity_cfs_rq(&mut self, mut queue: QueueId) {
        while let Some((above, entity)) = self.groups.parent(queue) {
            if self.groups.throttled(above) {
                return;
            }
            self.update_load_avg(above, entity, false);
            queue = above;
        }
    }

    /// __update_blocked_fair(), the groups' part: every queue that is not yet empty of load, from the deepest up.
    pub(super) fn update_blocked_groups(&mut self, cpu: usize) {
        for group in (1..self.groups.groups.len()).rev() {
            let queue = QueueId { cpu: cpu as u16, group: group as GroupId };
            let below = &self.groups.queues[self.groups.index(queue)];
            let avg = &below.cfs.avg;
            // Throttled queues are off the list that the kernel walks (`leaf_cfs_rq_list`).
            if below.bandwidth.throttle_count > 0 {
                continue;
            }
            if below.cfs.load.weight == 0
                && (avg.load_sum, avg.util_sum, avg.runnable_sum) == (0, 0, 0)
                && !below.propagate
                && below.cfs.removed.nr == 0
                && below.tg_load_avg_contrib == 0
            {
                continue;
            }
            if self.update_cfs_rq_load_avg(queue) {
                self.update_tg_load_avg(queue);
            }
            let Some((above, entity)) = self.groups.parent(queue) else { continue };
            let avg = &self.se(entity).avg;
            // skip_blocked_update().
            let propagates = self.groups.queues[self.groups.index(queue)].propagate;
            if avg.load_avg != 0 || avg.util_avg != 0 || propagates {
                self.update_load_avg(above, entity, false);
            }
        }
    }

    /// update_cfs_rq_h_load(): the groups' parts of a CPU's load, once a jiffy.
    pub(super) fn update_h_load(&mut self, cpu: usize) {
        let jiffies = self.jiffies();
        if self.groups.is_empty() || self.groups.h_load[cpu].0 == jiffies {
            return;
        }
        let root = self.rqs[cpu].cfs.avg.load_avg;
        self.groups.h_load[cpu] = (jiffies, root);
        for group in 1..self.groups.groups.len() {
            let queue = QueueId { cpu: cpu as u16, group: group as GroupId };
            let Some((above, entity)) = self.groups.parent(queue) else { continue };
            let (h_load, load_avg) = h_load_of(&self.groups, above, root);
            let part = h_load.wrapping_mul(self.se(entity).avg.load_avg) / (load_avg + 1);
            let index = self.groups.index(queue);
            self.groups.queues[index].h_load = part;
        }
    }

    /// task_h_load(): the part of its CPU's load that is a task's.
    pub(super) fn task_h_load(&mut self, task: TaskId) -> u64 {
        let load_avg = self.tasks[task as usize].se.avg.load_avg;
        if self.groups.is_empty() {
            return load_avg;
        }
        let cpu = usize::from(self.tasks[task as usize].cpu);
        self.update_h_load(cpu);
        let queue = self.task_cfs_rq(cpu, task);
        task_h_load(&self.groups, queue, self.rqs[cpu].cfs.avg.load_avg, load_avg)
    }
}

/// task_h_load() of a task with so much load in a queue whose CPU has `root_load`, as last worked out.
pub(super) fn task_h_load(groups: &TaskGroups, queue: QueueId, root_load: u64, load_avg: u64) -> u64 {
    if groups.is_empty() {
        return load_avg;
    }
    let (h_load, cfs_load) = h_load_of(groups, queue, root_load);
    load_avg.wrapping_mul(h_load) / (cfs_load + 1)
}

/// A queue's part of its CPU's load when last worked out, and its own load now.
fn h_load_of(groups: &TaskGroups, queue: QueueId, root_load: u64) -> (u64, u64) {
    if queue.group == ROOT_GROUP {
        return (groups.h_load[usize::from(queue.cpu)].1, root_load);
    }
    let below = &groups.queues[groups.index(queue)];
    (below.h_load, below.cfs.avg.load_avg)
}

/// kernel/sched/fair.c, v5.4 to v5.6, calc_group_runnable(): the part of the shares that is runnable.
fn calc_group_runnable(cfs: &CfsRq, shares: u64) -> u64 {
    let load_avg = cfs.avg.load_avg.max(PeltForm::Old.scale_load_down(cfs.load.weight));
    let runnable = shares.wrapping_mul(cfs.avg.runnable_avg);
    let runnable = runnable.checked_div(load_avg).unwrap_or(runnable);
    runnable.max(MIN_SHARES).min(shares)
}

/// The weight that a group's entity has before anything is in the group.
pub(super) const FIRST_WEIGHT: LoadWeight = LoadWeight::NICE_0;
