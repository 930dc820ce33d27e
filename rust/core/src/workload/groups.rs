//! Task groups of a load: shares, bandwidth, CPUs, idleness; and sessions, which are groups under autogroup.

use serde::{Deserialize, Serialize};

use super::tasks::{Release, TaskEntry, Tasks, at_least, at_most, validate_mask};
use super::{BandwidthSpec, GroupSpec};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::kernels::Kernel;
use crate::load_weight::{MAX_SHARES, MIN_SHARES, NICE_0_LOAD, WEIGHT_IDLEPRIO, scale_load};
use crate::sim::groups::GroupId;
use crate::topology::MachineSpec;

/// The most groups of one load, and the most queues that they may have together.
pub(super) const MAX_GROUPS: usize = 4096;
pub(super) const MAX_QUEUES: usize = 1 << 20;
/// The shortest quota and period, us (`min_cfs_quota_period`).
const MIN_CFS_QUOTA_PERIOD_US: i64 = 1_000;
/// The longest period, us (`max_cfs_quota_period`).
const MAX_CFS_QUOTA_PERIOD_US: i64 = 1_000_000;
/// The largest quota, us (`max_cfs_runtime`, MAX_BW).
const MAX_CFS_RUNTIME_US: i64 = (1 << 44) - 1;

/// A task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEntry {
    /// Its name.
    pub name: String,
    /// Its weight against tasks and groups beside it; 1024 as a nice-0 task.
    #[serde(default = "nice_0_shares")]
    pub shares: i64,
    /// The group that it is in; the root if not given.
    #[serde(default)]
    pub parent: Option<String>,
    /// CPU time that it may have in a period, us (`cpu.max`); without limit if not given. More than the period is more than
    /// one CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_us: Option<i64>,
    /// The period, us.
    #[serde(default = "default_cfs_period_us")]
    pub period_us: i64,
    /// What it may save up of unused quota beyond one, us (`cpu.max.burst`).
    #[serde(default)]
    pub burst_us: i64,
    /// It runs when nothing beside it wants to (`cpu.idle`).
    #[serde(default)]
    pub idle: bool,
    /// CPUs that its tasks may use (`cpuset.cpus`); those of the group that it is in if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<u32>>,
    /// A change of `cpus` later on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
}

fn nice_0_shares() -> i64 {
    (NICE_0_LOAD >> 10) as i64
}

fn default_cfs_period_us() -> i64 {
    100_000
}

impl GroupEntry {
    /// A group of the shares of a nice-0 task and without limits, in the root.
    fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            shares: nice_0_shares(),
            parent: None,
            quota_us: None,
            period_us: default_cfs_period_us(),
            burst_us: 0,
            idle: false,
            cpus: None,
            release: None,
        }
    }

    fn spec(&self, parent: GroupId) -> GroupSpec {
        const US: u64 = 1000;
        let bandwidth = |quota_us: i64| BandwidthSpec {
            quota_ns: quota_us as u64 * US,
            period_ns: self.period_us as u64 * US,
            burst_ns: self.burst_us as u64 * US,
        };
        GroupSpec {
            name: self.name.clone(),
            parent,
            // sched_group_set_idle(): an idle group has the weight of a SCHED_IDLE task.
            shares: scale_load(if self.idle { WEIGHT_IDLEPRIO } else { self.shares as u32 }),
            idle: self.idle,
            bandwidth: self.quota_us.map(bandwidth),
        }
    }

    /// `cpuset.cpus` at a time.
    fn cpus_at(&self, at_us: i64) -> Option<&Vec<u32>> {
        match &self.release {
            Some(release) if release.at_us <= at_us => Some(&release.mask),
            _ => self.cpus.as_ref(),
        }
    }

    fn validate(&self, index: usize, machine: &MachineSpec) -> Result<()> {
        let field = |field: &str| format!("groups[{index}].{field}");
        if self.name.is_empty() {
            return Err(SimError::invalid(field("name"), "\"\"", "must not be empty"));
        }
        if !(MIN_SHARES as i64..=MAX_SHARES as i64).contains(&self.shares) {
            let rule = format!("must be {MIN_SHARES} to {MAX_SHARES}");
            return Err(SimError::invalid(field("shares"), self.shares, rule));
        }
        if self.idle && self.shares != nice_0_shares() {
            let rule = "must not be set of an idle group, whose weight is 3";
            return Err(SimError::invalid(field("shares"), self.shares, rule));
        }
        self.validate_bandwidth(&field)?;
        let release = self.release.as_ref();
        for (what, mask) in [("cpus", self.cpus.as_ref()), ("release.mask", release.map(|r| &r.mask))] {
            if let Some(mask) = mask {
                validate_mask(&field(what), mask, machine)?;
            }
        }
        release.map_or(Ok(()), |release| at_least(&field("release.at_us"), release.at_us, 0))
    }

    /// kernel/sched/core.c, v6.12, tg_set_cfs_bandwidth(): what it answers with EINVAL.
    fn validate_bandwidth(&self, field: &dyn Fn(&str) -> String) -> Result<()> {
        at_least(&field("period_us"), self.period_us, MIN_CFS_QUOTA_PERIOD_US)?;
        at_most(&field("period_us"), self.period_us, MAX_CFS_QUOTA_PERIOD_US)?;
        at_least(&field("burst_us"), self.burst_us, 0)?;
        let Some(quota_us) = self.quota_us else {
            if self.burst_us > 0 {
                return Err(SimError::invalid(field("burst_us"), self.burst_us, "must come with a quota_us"));
            }
            return Ok(());
        };
        at_least(&field("quota_us"), quota_us, MIN_CFS_QUOTA_PERIOD_US)?;
        at_most(&field("quota_us"), quota_us, MAX_CFS_RUNTIME_US)?;
        at_most(&field("burst_us"), self.burst_us, quota_us.min(MAX_CFS_RUNTIME_US - quota_us))
    }
}

impl Tasks {
    /// Checks the groups against each other and against the machine.
    pub(super) fn validate_groups(&self, machine: &MachineSpec) -> Result<()> {
        for (index, group) in self.groups.iter().enumerate() {
            let field = |field: &str| format!("groups[{index}].{field}");
            group.validate(index, machine)?;
            if self.groups[..index].iter().any(|other| other.name == group.name) {
                return Err(SimError::invalid(
                    field("name"),
                    &group.name,
                    "must be the name of one group only",
                ));
            }
            let mut above = group.parent.as_ref();
            for _ in 0..=self.groups.len() {
                let Some(name) = above else { break };
                let Some(parent) = self.groups.iter().find(|other| &other.name == name) else {
                    return Err(SimError::invalid(field("parent"), name, "must be a group of the workload"));
                };
                above = parent.parent.as_ref();
            }
            if above.is_some() {
                let parent = group.parent.as_deref().unwrap_or_default();
                return Err(SimError::invalid(field("parent"), parent, "must not lead back to the group"));
            }
        }
        let empty = |name: &Option<String>| name.as_ref().is_some_and(String::is_empty);
        for (index, entry) in self.tasks.iter().enumerate() {
            for (what, name) in [("group", &entry.group), ("session", &entry.session)] {
                if empty(name) {
                    return Err(SimError::invalid(
                        format!("tasks[{index}].{what}"),
                        "\"\"",
                        "must not be empty",
                    ));
                }
            }
        }
        let groups = GroupTree::new(self, machine, true);
        let most = MAX_GROUPS.min(MAX_QUEUES / machine.nr_cpus());
        at_most("groups", (groups.entries.len() + groups.sessions.len()) as i64, most as i64)?;
        groups.validate_releases(&self.tasks)
    }

    /// Checks that the kernel has what the groups ask for.
    pub(super) fn validate_groups_under(&self, kernel: &Kernel) -> Result<()> {
        let rules = (kernel.groups.group_rules.f)();
        for (index, group) in self.groups.iter().enumerate() {
            let field = |field: &str| format!("groups[{index}].{field}");
            if group.idle && !rules.has_cpu_idle {
                let rule = format!("{} has no idle groups; cpu.idle came with 5.15", kernel.name);
                return Err(SimError::invalid(field("idle"), "true", rule));
            }
            if group.burst_us > 0 && !rules.has_burst {
                let rule = format!("{} saves up no quota; cpu.max.burst came with 5.14", kernel.name);
                return Err(SimError::invalid(field("burst_us"), group.burst_us, rule));
            }
        }
        Ok(())
    }
}

/// The groups of a load, numbered from 1 on: those declared, those that only tasks name, then sessions.
pub(super) struct GroupTree {
    /// Each behind its parent.
    entries: Vec<GroupEntry>,
    /// Names of the sessions, where they are groups.
    sessions: Vec<String>,
    nr_cpus: usize,
    online: CpuMask,
}

impl GroupTree {
    pub(super) fn new(tasks: &Tasks, machine: &MachineSpec, autogroup: bool) -> Self {
        let nr_cpus = machine.nr_cpus();
        let online = (0..nr_cpus).filter(|&cpu| !machine.offline.contains(&(cpu as u32)));
        let mut sessions: Vec<String> = Vec::new();
        if autogroup {
            for name in
                tasks.tasks.iter().filter(|entry| entry.group.is_none()).filter_map(|e| e.session.as_ref())
            {
                if !sessions.contains(name) {
                    sessions.push(name.clone());
                }
            }
        }
        Self { entries: all_groups(tasks), sessions, nr_cpus, online: CpuMask::from_cpus(nr_cpus, online) }
    }

    /// The groups as a run takes them.
    pub(super) fn specs(&self) -> Vec<GroupSpec> {
        let entries = self.entries.iter().map(|entry| entry.spec(self.number(entry.parent.as_ref())));
        // autogroup_create(): shares of a nice-0 task, in the root.
        let sessions =
            self.sessions.iter().map(|name| GroupEntry::plain(&format!("/autogroup-{name}")).spec(0));
        entries.chain(sessions).collect()
    }

    /// The group of a task: its own, else its session's (task_wants_autogroup()), else the root.
    pub(super) fn of(&self, entry: &TaskEntry) -> GroupId {
        if entry.group.is_some() {
            return self.number(entry.group.as_ref());
        }
        let session = entry.session.as_ref();
        let position = session.and_then(|name| self.sessions.iter().position(|other| other == name));
        position.map_or(0, |position| (self.entries.len() + position) as GroupId + 1)
    }

    /// A group's number by its name; the root has none.
    fn number(&self, name: Option<&String>) -> GroupId {
        let position = name.and_then(|name| self.entries.iter().position(|other| &other.name == name));
        position.map_or(0, |position| position as GroupId + 1)
    }

    fn entry(&self, group: GroupId) -> Option<&GroupEntry> {
        self.entries.get(usize::from(group).checked_sub(1)?)
    }

    /// CPUs that a task of a group may use at a time, given its own mask; `None` = all.
    ///
    /// kernel/cgroup/cpuset.c, v6.12, cpuset_attach_task(), and kernel/sched/core.c, __set_cpus_allowed_ptr(): those of its
    /// mask that its group may use, too; if there are none, all that the group may use.
    pub(super) fn allowed(&self, group: GroupId, mask: Option<&Vec<u32>>, at_us: i64) -> Option<CpuMask> {
        let own = mask.map(|cpus| self.mask(cpus));
        let Some(effective) = self.effective(group, at_us) else { return own };
        match own.map(|own| own.and(&effective)) {
            Some(both) if !both.is_empty() => Some(both),
            _ => Some(effective),
        }
    }

    /// kernel/cgroup/cpuset.c, v6.12, update_cpumasks_hier(): the group's CPUs within those of the groups above, or those of
    /// the group above if that leaves none (`cpuset.cpus.effective`).
    fn effective(&self, group: GroupId, at_us: i64) -> Option<CpuMask> {
        let entry = self.entry(group)?;
        let above = self.effective(self.number(entry.parent.as_ref()), at_us);
        let Some(cpus) = entry.cpus_at(at_us) else { return above };
        let own = self.mask(cpus).and(above.as_ref().unwrap_or(&self.online));
        if own.is_empty() { above } else { Some(own) }
    }

    /// When the CPUs of a group change, us after the clock's start, earliest first.
    pub(super) fn changes(&self, group: GroupId) -> Vec<i64> {
        let mut changes = Vec::new();
        let mut at = group;
        while let Some(entry) = self.entry(at) {
            changes.extend(entry.release.as_ref().map(|release| release.at_us));
            at = self.number(entry.parent.as_ref());
        }
        changes.sort_unstable();
        changes
    }

    fn mask(&self, cpus: &[u32]) -> CpuMask {
        CpuMask::from_cpus(self.nr_cpus, cpus.iter().map(|&cpu| cpu as usize))
    }

    /// sched_setaffinity() fails where it leaves a task none of its group's CPUs.
    fn validate_releases(&self, tasks: &[TaskEntry]) -> Result<()> {
        for (index, entry) in tasks.iter().enumerate() {
            let Some(release) = &entry.release else { continue };
            let Some(effective) = self.effective(self.of(entry), release.at_us) else { continue };
            if !self.mask(&release.mask).intersects(&effective) {
                let rule = format!("must hold a CPU that the group may use then: {:?}", cpus_of(&effective));
                let argument = format!("tasks[{index}].release.mask");
                return Err(SimError::invalid(argument, format!("{:?}", release.mask), rule));
            }
        }
        Ok(())
    }
}

fn cpus_of(mask: &CpuMask) -> Vec<usize> {
    mask.iter().collect()
}

/// All groups, each behind its parent: those declared, then those that only tasks name.
fn all_groups(tasks: &Tasks) -> Vec<GroupEntry> {
    let mut all: Vec<GroupEntry> = Vec::new();
    let known = |all: &[GroupEntry], name: &String| all.iter().any(|group| &group.name == name);
    // A pass a level; nothing is left when the hierarchy is a tree.
    for _ in 0..tasks.groups.len() {
        for group in &tasks.groups {
            let reached = group.parent.as_ref().is_none_or(|parent| known(&all, parent));
            if reached && !known(&all, &group.name) {
                all.push(group.clone());
            }
        }
    }
    for name in tasks.tasks.iter().filter_map(|entry| entry.group.as_ref()) {
        if !known(&all, name) {
            all.push(GroupEntry::plain(name));
        }
    }
    all
}
