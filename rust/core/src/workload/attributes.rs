//! What a task is to the scheduler, apart from its weight: class, bounds of its utilization, kernel thread.

use serde::{Deserialize, Serialize};

use super::TaskSpec;
use super::tasks::{Behaviour, TaskEntry};
use crate::error::{Result, SimError};
use crate::kernels::capacity::Clamp;

/// The largest capacity.
const CAPACITY_SCALE: i64 = 1024;

/// Attributes of an entry's tasks; the default is an ordinary task of the fair class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// The scheduling class.
    #[serde(skip_serializing_if = "is_normal")]
    pub policy: Policy,
    /// Priority of a real-time task, 1 to 99; 0 of a fair one.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i64,
    /// The task is placed as if it needed at least so much, 1024 = the biggest CPU (sched_setattr(), `uclamp`).
    #[serde(skip_serializing_if = "is_zero")]
    pub uclamp_min: i64,
    /// And as if it needed at most so much.
    #[serde(skip_serializing_if = "is_scale")]
    pub uclamp_max: i64,
    /// Kernel threads, bound to a CPU each.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kthread: bool,
}

/// A scheduling class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// SCHED_NORMAL: the fair class.
    #[default]
    Normal,
    /// SCHED_IDLE: the fair class, when nothing else wants to run, whatever the nice level says.
    Idle,
    /// SCHED_FIFO: the real-time class.
    Fifo,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            policy: Policy::Normal,
            priority: 0,
            uclamp_min: 0,
            uclamp_max: CAPACITY_SCALE,
            kthread: false,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_normal(policy: &Policy) -> bool {
    *policy == Policy::Normal
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_scale(value: &i64) -> bool {
    *value == CAPACITY_SCALE
}

impl Attributes {
    /// Checks every rule; `name` is the entry's.
    pub fn validate(&self, name: &str, entry: &TaskEntry) -> Result<()> {
        let field = |field: &str| format!("{name}.{field}");
        for (what, value) in [("uclamp_min", self.uclamp_min), ("uclamp_max", self.uclamp_max)] {
            if !(0..=CAPACITY_SCALE).contains(&value) {
                return Err(SimError::invalid(field(what), value, "must be 0 to 1024"));
            }
        }
        if self.uclamp_min > self.uclamp_max {
            let rule = format!("must be at most uclamp_max ({})", self.uclamp_max);
            return Err(SimError::invalid(field("uclamp_min"), self.uclamp_min, rule));
        }
        let bound = entry.mask.as_ref().is_some_and(|mask| mask.len() == 1) && entry.release.is_none();
        let mask = || entry.mask.as_ref().map_or("None".to_owned(), |mask| format!("{mask:?}"));
        if self.kthread && !bound {
            let rule = "must be one CPU, and stay so: kernel threads are bound";
            return Err(SimError::invalid(field("mask"), mask(), rule));
        }
        match self.policy {
            Policy::Normal | Policy::Idle if self.priority != 0 => {
                Err(SimError::invalid(field("priority"), self.priority, "is for policy \"fifo\" only"))
            }
            Policy::Normal | Policy::Idle => Ok(()),
            Policy::Fifo if !(1..=99).contains(&self.priority) => Err(SimError::invalid(
                field("priority"),
                self.priority,
                "must be 1 to 99 for policy \"fifo\"",
            )),
            Policy::Fifo if !bound => {
                let rule = "must be one CPU, and stay so: real-time tasks are not moved";
                Err(SimError::invalid(field("mask"), mask(), rule))
            }
            Policy::Fifo if !matches!(entry.behaviour, Behaviour::Hog | Behaviour::Periodic { .. }) => {
                Err(SimError::invalid(field("policy"), "\"fifo\"", "is for hogs and periodic tasks"))
            }
            Policy::Fifo if entry.memory.is_some() || entry.group.is_some() => {
                let what = if entry.memory.is_some() { "memory" } else { "group" };
                Err(SimError::invalid(field("policy"), "\"fifo\"", format!("is for tasks without {what}")))
            }
            Policy::Fifo => Ok(()),
        }
    }

    /// Puts the attributes into a task.
    pub fn apply(&self, task: &mut TaskSpec) {
        task.clamp = Clamp { min: self.uclamp_min as u64, max: self.uclamp_max as u64 };
        task.rt_priority = self.priority as u8;
        task.kthread = self.kthread;
    }
}
