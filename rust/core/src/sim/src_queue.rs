//! A runqueue's tasks as balancing walks them: what a pull sees of each, and which it takes.

use super::fair::{list_push_head, list_remove};
use super::groups::{Entities, QueueId, ROOT_GROUP, TaskGroups, task_h_load};
use super::rq::{NO_TASK, Task, TaskId};
use super::util_est::task_util_est;
use super::{Memory, Numa};
use crate::kernels::eevdf::{VirtualClock, clock_of};
use crate::kernels::env::{SrcQueue, TaskRef, TaskView};

/// A runqueue's list of tasks as `detach_tasks` walks it. Tasks that it takes are collected; the engine
/// dequeues them after.
pub(super) struct EngineQueue<'a> {
    pub tasks: &'a mut Vec<Task>,
    pub groups: &'a TaskGroups,
    /// load_avg of the CPU.
    pub root_load: u64,
    pub head: &'a mut TaskId,
    pub tail: &'a mut TaskId,
    pub nr_running: u32,
    /// Where the tasks are to go.
    pub dst_cpu: u16,
    pub clock: u64,
    pub running: TaskId,
    pub next: TaskId,
    pub last: TaskId,
    /// The average that says who is eligible; without entities in queues that do not ask.
    pub virtual_clock: VirtualClock,
    pub util_est: bool,
    pub locality: Locality<'a>,
    pub detached: &'a mut Vec<TaskId>,
}

/// What NUMA balancing says of a source's tasks.
pub(super) struct Locality<'a> {
    pub numa: &'a Numa,
    pub memory: &'a Memory,
    /// The source's and the destination's.
    pub nodes: [u32; 2],
    pub nr_preferred_running: u32,
}

impl EngineQueue<'_> {
    pub fn towards_head(&self, task: TaskRef) -> Option<TaskRef> {
        Some(self.tasks[task as usize].list_prev).filter(|&task| task != NO_TASK)
    }
}

impl SrcQueue for EngineQueue<'_> {
    fn nr_running(&self) -> u32 {
        self.nr_running
    }

    fn nr_preferred_running(&self) -> u32 {
        self.locality.nr_preferred_running
    }

    fn tail(&self) -> Option<TaskRef> {
        Some(*self.tail).filter(|&task| task != NO_TASK)
    }

    fn view(&self, id: TaskRef) -> TaskView<'_> {
        let task = &self.tasks[id as usize];
        let queue = QueueId { cpu: task.cpu, group: task.group };
        let (next, last, clock) = if queue.group == ROOT_GROUP {
            (self.next, self.last, self.virtual_clock)
        } else {
            let cfs = &self.groups.queues[self.groups.index(queue)].cfs;
            (cfs.next, cfs.last, clock_of(cfs, Entities { tasks: self.tasks, groups: self.groups, rqs: &[] }))
        };
        TaskView {
            load: task_h_load(self.groups, queue, self.root_load, task.se.avg.load_avg),
            util: task_util_est(&task.se, self.util_est),
            clamp: task.clamp,
            age_ns: self.clock as i64 - task.se.exec_start as i64,
            running: id == self.running,
            idle_policy: task.se.idle,
            next_buddy: id == next,
            last_buddy: id == last,
            throttled: self.groups.throttled_lb_pair(queue, self.dst_cpu),
            per_cpu_kthread: task.is_per_cpu_kthread(),
            eligible: clock.entity_eligible(task.se.vruntime),
            allowed: task.allowed.as_deref(),
            numa: self.locality.numa.view(
                self.locality.memory,
                id,
                self.locality.nodes[0],
                self.locality.nodes[1],
            ),
        }
    }

    fn move_to_head(&mut self, task: TaskRef) {
        list_remove(self.tasks, self.head, self.tail, task);
        list_push_head(self.tasks, self.head, self.tail, task);
    }

    fn detach(&mut self, task: TaskRef) {
        list_remove(self.tasks, self.head, self.tail, task);
        self.nr_running -= 1;
        if self.virtual_clock.avg_load != 0 && self.tasks[task as usize].group == ROOT_GROUP {
            let se = &self.tasks[task as usize].se;
            self.virtual_clock.sub(se.vruntime, se.weight);
        }
        self.detached.push(task);
    }
}
